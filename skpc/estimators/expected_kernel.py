"""Support vector regression that integrates over missing features."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.svm import SVR
from sklearn.utils.validation import check_is_fitted

from skpc._validation import (
    Interval,
    StrOptions,
    check_table,
    check_target,
    check_weight,
    fit_context,
)
from skpc.circuit import Circuit
from skpc.domain import Domain, group_rows, merge_rows, present_rows
from skpc.estimators._base import all_or_nothing
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.kernels import RBF, ExponentialHamming, ProductKernel
from skpc.queries import KernelExpansion, expected_gram, sample_missing

__all__ = ["ExpectedKernelSVR"]


class ExpectedKernelSVR(RegressorMixin, BaseEstimator):
    """Support vector regression whose predictions are exact expectations over missing features.

    A density over the features is fitted beside the regression ``f``. Where a row has missing
    cells, the prediction is ``E f(x)`` over the completions of the row, given what is observed
    (eq. 4 of [1]_); the expectation of each kernel is computed exactly along the circuit of the
    density. That is consistent where cells are missing at random.

    The kernel is the product of ``exp(-gamma (x - x')^2)`` over the numeric columns and
    ``exp(-2 gamma [x != x'])`` over the categorical ones, which is the Gaussian kernel on numbers
    and one-hot columns. Numbers should be scaled, as for any support vector machine.

    Parameters
    ----------
    density : estimator, default=None
        A density estimator of this package that has a ``circuit_`` once fitted; it is cloned. None
        means ``CutsetNetworkBD(structured=True)``. Missing cells in ``fit`` need a
        structured-decomposable circuit.
    gamma : "scale" or float, default="scale"
        Of the kernel. "scale": one over the number of one-hot and numeric columns times their
        variance, missing cells skipped.
    C : float, default=1.0
        Inverse strength of the regularisation.
    epsilon : float, default=0.1
        Half the width of the tube without loss, in units of the target.
    tol : float, default=1e-3
        Tolerance of the solver.
    cache_size : float, default=200
        Megabytes for the kernel cache of the solver.
    max_iter : int, default=-1
        Limit on the iterations of the solver; -1 for none.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical; see :class:`skpc.CutsetNetworkBD`. It is handed to the
        density, which must not have been told otherwise.
    random_state : int, RandomState instance or None, default=None
        Used by the default density, where missing cells of training rows are filled to learn its
        structure.

    Attributes
    ----------
    density_ : estimator
        The fitted density.
    support_vectors_ : ndarray of shape (n_support_vectors, n_features)
        Distinct support vectors, as encoded rows; NaN where a cell is missing.
    dual_coef_ : ndarray of shape (1, n_support_vectors)
        Their coefficients; those of equal support vectors are added.
    intercept_ : ndarray of shape (1,)
        The constant of the decision function.
    gamma_ : float
        The parameter of the kernel.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    skpc.queries.expected_gram : The expected kernels themselves.

    Notes
    -----
    Training rows with missing cells enter through the doubly expected kernel of [2]_: the inner
    product of the mean embeddings of their conditionals.

    Give categories as one column, not as one-hot columns: a tree over one-hot columns leaves much
    of its mass on rows that no category has.

    References
    ----------
    .. [1] W. Li, Z. Zeng, A. Vergari, G. Van den Broeck. "Tractable Computation of Expected
       Kernels". UAI 2021.
    .. [2] H. Anderson, M. Gupta. "Expected kernel for missing features in support vector
       machines". SSP 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import ExpectedKernelSVR
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 3, 300)
    >>> X = np.column_stack([a, (a + rng.integers(0, 2, 300)) % 3])
    >>> model = ExpectedKernelSVR(C=10.0).fit(X, 1.0 * a)
    >>> model.predict([[2, 0], [np.nan, 0]]).round(1)
    array([1.9, 1.1])
    >>> mean, sd = model.predict([[2, 0], [np.nan, 0]], return_std=True)
    >>> sd.round(1)
    array([0. , 0.9])
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "density": [None, BaseEstimator],
        "gamma": [StrOptions({"scale"}), Interval(Real, 0, None, closed="neither")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "categorical_features": ["array-like", StrOptions({"auto", "from_dtype"}), None],
        "random_state": ["random_state"],
    }

    density_: Any
    support_vectors_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: np.ndarray
    gamma_: float
    n_iter_: int

    def __init__(
        self,
        density: Any = None,
        *,
        gamma: Any = "scale",
        C: float = 1.0,  # noqa: N803
        epsilon: float = 0.1,
        tol: float = 1e-3,
        cache_size: float = 200,
        max_iter: int = -1,
        categorical_features: Any = "auto",
        random_state: Any = None,
    ):
        self.density = density
        self.gamma = gamma
        self.C = C
        self.epsilon = epsilon
        self.tol = tol
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.categorical_features = categorical_features
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ExpectedKernelSVR:
        """Fit the density and the regression.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : array-like of shape (n_samples,)
            Target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        ExpectedKernelSVR
            The fitted estimator.

        Raises
        ------
        ValueError
            If a cell or a target is infinite, the density has no circuit, or rows have missing
            cells and the circuit of the density is not structured-decomposable.
        """
        with all_or_nothing(self):
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        table = check_table(self, X, reset=True)
        target = check_target(self, y, len(table))
        weight = check_weight(sample_weight, len(table))
        target = target[weight > 0.0]
        table, weight = present_rows(table, weight)
        self.density_ = _fitted_density(self, table, weight)
        rows = np.column_stack([self.density_.domain_.encode(table), target])
        rows, weight = merge_rows(rows, weight)
        rows, target = np.ascontiguousarray(rows[:, :-1]), rows[:, -1]
        numbers = _one_hot(self.density_.domain_, rows)
        self.gamma_ = _scale(numbers, weight) if self.gamma == "scale" else float(self.gamma)
        kernel = _product_kernel(self.density_.domain_, self.gamma_)
        machine = SVR(
            C=self.C,
            epsilon=self.epsilon,
            tol=self.tol,
            cache_size=self.cache_size,
            max_iter=self.max_iter,
        )
        if np.isnan(rows).any():
            _refuse_unstructured(self.density_, rows)
            machine.set_params(kernel="precomputed")
            numbers = expected_gram(self.density_.circuit_, rows, None, kernel)
        else:
            machine.set_params(kernel="rbf", gamma=self.gamma_)
        machine.fit(numbers, target, sample_weight=weight)
        distinct, group = group_rows(rows[machine.support_])
        coefficients = np.bincount(group, machine.dual_coef_[0], minlength=len(distinct))
        self.support_vectors_ = distinct
        self.dual_coef_ = coefficients[np.newaxis]
        self.intercept_ = machine.intercept_
        self.n_iter_ = int(machine.n_iter_)
        self._expansion = KernelExpansion(
            self.density_.circuit_, distinct, self.dual_coef_.T.copy(), kernel
        )

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected value of the regression given the observed features of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        return_std : bool, default=False
            Whether to return the standard deviation too.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            ``E f(x)``, exact up to rounding; ``f(x)`` itself for complete rows.
        std : ndarray of shape (n_samples,)
            Standard deviation of ``f(x)`` over the missing cells, 0 for complete rows; only with
            ``return_std``. It does not contain the noise of the target. Its cost grows with the
            square of the number of support vectors; :meth:`sample` gives a cheap estimate.

        Raises
        ------
        ValueError
            If ``return_std`` is asked after training on rows with missing cells.
        """
        rows = self._encode(X)
        mean = self._expansion.mean(rows)[:, 0] + self.intercept_[0]
        if not return_std:
            return mean
        if np.isnan(self.support_vectors_).any():
            raise ValueError(
                "return_std needs complete support vectors, but some of those found in training "
                "have missing cells; the spread of sample(X, n_samples) estimates it"
            )
        std = np.zeros(len(rows))
        incomplete = np.isnan(rows).any(axis=1)
        variance = self._expansion.variance(rows[incomplete])[:, 0]
        std[incomplete] = np.sqrt(np.maximum(variance, 0.0))
        return mean, std

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Predictions under completions drawn from the density given the observed features.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Rows; NaN (or None) marks missing cells.
        n_samples : int, default=1
            Number of draws a row.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same draws.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            ``f(x)`` of each completion, without the noise of the target.
        """
        if not isinstance(n_samples, Integral) or n_samples < 0:
            raise ValueError(f"n_samples must be an integer of 0 or more, got {n_samples!r}")
        rows = self._encode(X)
        repeated = np.repeat(rows, n_samples, axis=0)
        filled = sample_missing(self.density_.circuit_, repeated, random_state)
        found = self._expansion.mean(filled)[:, 0] + self.intercept_[0]
        return np.asarray(found.reshape(len(rows), n_samples))

    def _encode(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return np.asarray(self.density_.domain_.encode(check_table(self, X, reset=False)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _fitted_density(machine: Any, table: Any, weight: np.ndarray) -> Any:
    """Fit a clone of the density of a machine, and check that it has a circuit."""
    if machine.density is None:
        density: Any = CutsetNetworkBD(structured=True, random_state=machine.random_state)
    else:
        density = clone(machine.density)
    _hand_down(machine, density)
    density.fit(table, sample_weight=weight)
    if not isinstance(getattr(density, "circuit_", None), Circuit):
        wanted = "what its to_mixture() returns" if hasattr(density, "to_mixture") else "another"
        raise ValueError(
            "density must have a circuit_ once it has been fitted, but "
            f"{type(density).__name__} has none; use {wanted}, or CutsetNetworkBD(structured=True)"
        )
    return density


def _hand_down(machine: Any, density: Any) -> None:
    """Give the density the categorical features of the machine; refuse a disagreement."""
    wanted, declared = machine.categorical_features, density.categorical_features
    if isinstance(wanted, str) and wanted == "auto":
        return
    if isinstance(declared, str) and declared == "auto":
        density.set_params(categorical_features=wanted)
    elif not np.array_equal(np.asarray(wanted, object), np.asarray(declared, object)):
        raise ValueError(
            f"categorical_features={wanted!r} disagrees with that of the density, {declared!r}; "
            "leave one of the two at 'auto'"
        )


def _product_kernel(domain: Domain, gamma: float) -> ProductKernel:
    """The Gaussian kernel on numbers and one-hot columns, as a product over the columns."""
    return ProductKernel(
        [ExponentialHamming(2.0 * gamma) if c else RBF(gamma) for c in domain.is_categorical]
    )


def _one_hot(domain: Domain, rows: np.ndarray) -> np.ndarray:
    """Numbers as they are, a column for each category; NaN where the cell is missing."""
    blocks = []
    for column, is_categorical, states in zip(rows.T, domain.is_categorical, domain.n_states):
        block = column[:, np.newaxis]
        if is_categorical:
            block = np.where(np.isnan(block), np.nan, block == np.arange(states))
        blocks.append(block)
    return np.hstack(blocks)


def _scale(numbers: np.ndarray, weight: np.ndarray) -> float:
    """One over the number of columns times the variance of their cells, missing ones skipped."""
    share = ~np.isnan(numbers) * weight[:, np.newaxis]
    value = np.where(np.isnan(numbers), 0.0, numbers)
    mean = np.average(value, weights=share)
    variance = np.average((value - mean) ** 2, weights=share)
    return float(1.0 / (numbers.shape[1] * variance)) if variance > 0.0 else 1.0


def _refuse_unstructured(density: Any, rows: np.ndarray) -> None:
    if not density.circuit_.structured_decomposable:
        raise ValueError(
            f"{int(np.isnan(rows).any(axis=1).sum())} distinct training rows have missing cells, "
            "which needs a density with a structured-decomposable circuit, but that of "
            f"{type(density).__name__} is not; use CutsetNetworkBD(structured=True), or train on "
            "complete rows"
        )
