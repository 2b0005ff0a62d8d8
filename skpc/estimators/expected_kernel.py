"""Support vector regression that integrates over missing features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.svm import SVR

from skpc._arrays import Floats
from skpc._fitting import all_or_nothing
from skpc._threads import threads
from skpc._validation import NOT_NEGATIVE, check_n_samples, fit_context
from skpc.estimators._estimator import parameter
from skpc.estimators._kernel_machine import ExpectedKernelMachine
from skpc.estimators._targets import check_target
from skpc.estimators.chunks import by_chunks
from skpc.queries import sample_missing


@dataclass(kw_only=True, eq=False, repr=False)
class ExpectedKernelSVR(RegressorMixin, ExpectedKernelMachine):
    """Support vector regression whose predictions are exact expectations over missing features.

    A density over the features is fitted, and the regression ``f``. Where a row has missing
    cells, the prediction is ``E f(x)`` over the completions of the row, given what is observed
    (eq. 4 of [1]_); the expectation of each kernel is computed exactly along the circuit of the
    density. That is consistent where cells are missing at random.

    The kernel is the product of ``exp(-gamma (x - x')^2)`` over the numeric columns and
    ``exp(-2 gamma [x != x'])`` over the categorical ones, which is the Gaussian kernel on numbers
    and one-hot columns. Numbers are standardized for it (``standardize``).

    Parameters
    ----------
    density : estimator, default=None
        A density estimator of this package that has a ``circuit_`` once fitted; it is cloned. None
        chooses one (see Notes). Missing cells in ``fit`` need a circuit that is
        structured-decomposable. That of ``CutsetNetworkBD(structured=True)`` always is; small
        circuits of other densities may be, and are accepted.
    standardize : bool, default=True
        Whether the kernel sees each column of numbers divided by its standard deviation in the
        training rows, missing cells skipped. Rows stay in their own units everywhere else.
    gamma : "scale" or float, default="scale"
        Parameter of the kernel. "scale": one over the number of one-hot and numeric columns times
        their variance once numbers are standardized, missing cells skipped.
    C : float, default=1.0
        Inverse strength of the regularisation.
    epsilon : float, default=0.1
        Half the width of the tube without loss, in units of the target.
    tol : float, default=1e-3
        Tolerance of the solver.
    cache_size : float, default=200
        Megabytes for the kernel cache of the solver.
    max_iter : int, default=-1
        Limit on the iterations of the solver; -1 for no limit.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical; see :class:`skpc.CutsetNetworkBD`. It is handed to the
        density, whose own parameter must be the default or the same.
    random_state : int, RandomState instance or None, default=None
        Seeds the choice of the density, and its candidates.
    n_jobs : int, default=None
        Number of threads: densities that are compared, and what each of them does in threads. None
        means 1 unless in a ``joblib.parallel_config`` context, and -1 all cores. The result is the
        same.
    verbose : int, default=0
        With 1, progress bars of the default densities (a line at the end of each where tqdm is not
        installed), and a line as the solver begins. A density that is given has a ``verbose`` of
        its own.

    Attributes
    ----------
    density_ : estimator
        The fitted density.
    domain_ : Domain
        What each column is for the density; translates rows to encoded rows and back.
    support_vectors_ : ndarray of shape (n_support_vectors, n_features)
        Distinct support vectors, as encoded rows; NaN where a cell is missing.
    dual_coef_ : ndarray of shape (1, n_support_vectors)
        Their coefficients; those of equal support vectors are added.
    intercept_ : ndarray of shape (1,)
        The constant of the decision function.
    gamma_ : float
        The parameter of the kernel.
    mean_, scale_ : ndarrays of shape (n_features,)
        Mean and standard deviation of the numbers of each column, on the scale on which the kernel
        compares them (see Notes); 0 and 1 for categories, where a column is left alone, and with
        ``standardize=False``.
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
    Numbers are compared as they are where the leaves of the density are bins or Gaussians of
    values, and by their scores where these are Gaussians of scores, each alone or several in a
    block (:class:`skpc.SoftLearnSPN`, :class:`skpc.TableMixture`).

    Without a ``density`` the machine takes ``CutsetNetworkBD(structured=True)``, unless
    :class:`skpc.SoftLearnSPN` or, where there are numbers, :class:`skpc.TableMixture` predicts
    removed cells better by more than 0.02 nats each: a fifth of the rows is held out, 30 % of their
    cells are removed, and the score is the mean log density of a removed cell given the rest of its
    row. With missing cells in ``fit``, or with fewer than 20 distinct rows, it does not compare.

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
    >>> model = ExpectedKernelSVR(C=10.0, random_state=0).fit(X, 1.0 * a)
    >>> model.predict([[2, 0], [np.nan, 0]]).round(1)
    array([1.9, 1.1])
    >>> mean, sd = model.predict([[2, 0], [np.nan, 0]], return_std=True)
    >>> sd.round(1)
    array([0. , 0.9])
    """

    epsilon: float = parameter(0.1, NOT_NEGATIVE)

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
        with all_or_nothing(self), threads(self.n_jobs):
            rows_and_target = self._training_rows(X, sample_weight, y, check_target)
            self._learn(SVR(epsilon=self.epsilon), *rows_and_target)
        return self

    @by_chunks
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
            If ``return_std`` is set after training on rows with missing cells.
        """
        _, rows = self._encode(X)
        mean = self._mean(rows)[:, 0] + self.intercept_[0]
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

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Predictions under completions drawn from the density given the observed features.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Rows; NaN (or None) marks missing cells.
        n_samples : int, default=1
            Number of draws a row.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same draws. ``None`` draws anew at each call; the estimator's
            own ``random_state`` is not used.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            ``f(x)`` of each completion, without the noise of the target; of complete rows one value
            over and over.

        Raises
        ------
        ValueError
            If ``n_samples`` is negative, or the observed cells of a row with missing ones have
            probability zero.
        """
        n_samples = check_n_samples(n_samples)
        _, rows = self._encode(X)
        incomplete = np.isnan(rows).any(axis=1)
        repeated = np.repeat(rows[incomplete], n_samples, axis=0)
        filled = sample_missing(self.density_.circuit_, repeated, random_state)
        drawn = np.empty((len(rows), n_samples))
        drawn[incomplete] = self._mean(filled)[:, 0].reshape(incomplete.sum(), n_samples)
        drawn[~incomplete] = self._mean(rows[~incomplete])[:, [0]]
        return np.asarray(drawn + self.intercept_[0])
