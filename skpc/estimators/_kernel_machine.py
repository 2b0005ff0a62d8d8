"""What support vector machines with expected kernels have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import gen_batches

from skpc._arrays import Floats, check_memory
from skpc._fitting import announce
from skpc._validation import POSITIVE, Interval, StrOptions
from skpc.circuit import Circuit
from skpc.domain import column_moments, group_rows, merge_rows, one_hot
from skpc.estimators._defaults import fit_for_kernels
from skpc.estimators._estimator import CATEGORICAL_FEATURES, TableEstimator, parameter
from skpc.kernels import RBF, ExponentialHamming, ProductKernel
from skpc.queries import KernelExpansion, expected_gram
from skpc.queries.passes.rows import kernel_rows

#: Complete rows that are evaluated at a time.
_POINTS = 2048
#: Bytes that libsvm takes for each row in addition to its cache of kernels.
_LIBSVM_BYTES = 1000
#: Standard deviations smaller than this have squares that vanish: such a column counts as constant.
_SMALLEST = 1e-150
#: Numbers as far as this have no kernel with any others, and squares that are still infinite.
_FARTHEST = 1e200


@dataclass(kw_only=True, eq=False, repr=False)
class ExpectedKernelMachine(TableEstimator):
    """A machine of libsvm, with a density of the features for missing cells.

    A subclass gives the solver its parameters and puts coefficients on the support vectors.
    """

    density: Any = field(
        default=None, kw_only=False, metadata={"constraints": [None, BaseEstimator]}
    )
    standardize: bool = parameter(True, "boolean")
    gamma: Any = parameter("scale", StrOptions({"scale"}), POSITIVE)
    C: float = parameter(1.0, POSITIVE)
    tol: float = parameter(1e-3, POSITIVE)
    cache_size: float = parameter(200, POSITIVE)
    max_iter: int = parameter(-1, Interval(Integral, -1, None, closed="left"))
    categorical_features: Any = parameter("auto", *CATEGORICAL_FEATURES)

    def _learn(
        self, solver: Any, table: Any, weight: Floats, target: NDArray[Any]
    ) -> tuple[Floats, Floats, NDArray[Any]]:
        """Fit the density and the solver.

        Returns the distinct pairs of encoded rows and targets, and the sums of their weights, as
        the solver has seen them: rows, weights, targets.
        """
        self.density_ = _fitted_density(self, table, weight)
        self.domain_ = self.density_.domain_
        pairs, weight = merge_rows(np.column_stack([self.domain_.encode(table), target]), weight)
        distinct = np.ascontiguousarray(pairs[:, :-1]), weight, pairs[:, -1]
        self._solve(solver, *distinct)
        return distinct

    def _solve(self, solver: Any, rows: Floats, weight: Floats, target: NDArray[Any]) -> None:
        """Fit the solver after the density, and keep the functions that the solver finds.

        The coefficients of equal support vectors are added.
        """
        self.mean_, self.scale_ = self._centre_and_scale(rows, weight)
        numbers = self._numbers(rows)
        self.gamma_ = _scale(numbers, weight) if self.gamma == "scale" else float(self.gamma)
        shared = ("C", "tol", "cache_size", "max_iter")
        solver.set_params(**{name: getattr(self, name) for name in shared})
        if np.isnan(rows).any():
            _refuse_unstructured(self.density_, rows)
            what, remedy = f"Expected kernels between {len(rows):,} rows", "Choose fewer rows."
            check_memory(2.0 * float(len(rows)) ** 2, what, remedy)
            solver.set_params(kernel="precomputed")
            numbers = expected_gram(self.density_.circuit_, rows, None, self._product_kernel())
        else:
            solver.set_params(kernel="rbf", gamma=self.gamma_)
        announce(f"{type(solver).__name__}: {len(rows):,} distinct rows", self.verbose)
        # libsvm ends the process where memory is short, so the same memory is allocated first.
        cache = min(4.0 * float(len(rows)) ** 2, self.cache_size * 2.0**20)
        _ = np.empty(int(cache) + _LIBSVM_BYTES * len(rows), dtype=np.uint8)
        del _
        solver.fit(numbers, target, sample_weight=weight)
        self.intercept_, self.n_iter_ = solver.intercept_, int(np.max(solver.n_iter_))
        self.support_vectors_, group = group_rows(rows[solver.support_])
        n_distinct = len(self.support_vectors_)
        self.dual_coef_ = np.array(
            [np.bincount(group, row, minlength=n_distinct) for row in _coefficients(solver)]
        )
        self._expansion = KernelExpansion(
            self.density_.circuit_,
            self.support_vectors_,
            self.dual_coef_.T.copy(),
            self._product_kernel(),
        )

    def _mean(self, rows: Floats) -> Floats:
        """Expected values of the functions given encoded rows, shape (n_rows, n_functions)."""
        usable = len(self.support_vectors_) > 0 and not np.isnan(self.support_vectors_).any()
        complete = usable & ~np.isnan(rows).any(axis=1)
        mean = np.empty((len(rows), len(self.dual_coef_)))
        if complete.any():
            mean[complete] = self._at_points(rows[complete])
        if not complete.all():
            mean[~complete] = self._expansion.mean(rows[~complete])
        return mean

    def _at_points(self, rows: Floats) -> Floats:
        """Values of the functions at complete encoded rows: by products of matrices."""
        vectors = self._numbers(self.support_vectors_)
        # Squared distances are taken as differences of squares, which want small numbers.
        centre = vectors.mean(axis=0)
        vectors = vectors - centre
        parts = [
            rbf_kernel(self._numbers(rows[batch]) - centre, vectors, self.gamma_)
            @ self.dual_coef_.T
            for batch in gen_batches(len(rows), _POINTS)
        ]
        return np.concatenate(parts)

    def _centre_and_scale(self, rows: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """What is subtracted from each column of numbers, and what they are divided by."""
        mean, sd = column_moments(kernel_rows(self.density_.circuit_, rows), weight)
        as_they_are = self.domain_.is_categorical | (not self.standardize)
        scale = np.where(as_they_are | (sd < _SMALLEST), 1.0, sd)
        return np.where(as_they_are, 0.0, mean), scale

    def _numbers(self, rows: Floats) -> Floats:
        """Encoded rows as the kernel compares them: numbers or their scores, one-hot columns."""
        cells = (kernel_rows(self.density_.circuit_, rows) - self.mean_) / self.scale_
        return one_hot(self.domain_, np.clip(cells, -_FARTHEST, _FARTHEST))

    def _product_kernel(self) -> ProductKernel:
        """The Gaussian kernel on numbers and one-hot columns, as a product over the columns.

        A parameter for each column of numbers does what division by its scale would do.
        """
        category = ExponentialHamming(2.0 * self.gamma_)
        numbers = [RBF(gamma) for gamma in (self.gamma_ / self.scale_**2).tolist()]
        kernels = zip(self.domain_.is_categorical, numbers)
        return ProductKernel([category if c else number for c, number in kernels])


def _fitted_density(machine: Any, table: Any, weight: Floats) -> Any:
    """Fit a clone of the density of a machine, or the default, and check that it has a circuit."""
    if machine.density is None:
        chosen = machine.categorical_features, machine.random_state, machine.verbose
        return fit_for_kernels(table, weight, *chosen)
    density = clone(machine.density)
    if not hasattr(density, "categorical_features"):
        raise ValueError(
            f"density must be a density estimator of skpc, got {density!r}; use "
            "CutsetNetworkBD(structured=True)"
        )
    _hand_down(machine, density)
    density.fit(table, sample_weight=weight)
    try:
        circuit, reason = density.circuit_, ""
    except AttributeError as error:
        circuit, reason = None, f" ({error})" if hasattr(type(density), "circuit_") else ""
    if not isinstance(circuit, Circuit):
        wanted = "what its to_mixture() returns" if hasattr(density, "to_mixture") else "another"
        raise ValueError(
            "density must have a circuit_ once it has been fitted, but "
            f"{type(density).__name__} has none{reason}; use {wanted}, or "
            "CutsetNetworkBD(structured=True)"
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


def _scale(numbers: Floats, weight: Floats) -> float:
    """One over the number of columns times the variance of their cells, missing ones skipped."""
    weights = ~np.isnan(numbers) * weight[:, np.newaxis]
    value = np.where(np.isnan(numbers), 0.0, numbers)
    mean = np.average(value, weights=weights)
    variance = np.average((value - mean) ** 2, weights=weights)
    return float(1.0 / (numbers.shape[1] * variance)) if variance > 0.0 else 1.0


def _refuse_unstructured(density: Any, rows: Floats) -> None:
    if not density.circuit_.structured_decomposable:
        raise ValueError(
            f"{int(np.isnan(rows).any(axis=1).sum())} distinct training rows have missing cells, "
            "which needs a density with a structured-decomposable circuit, but that of "
            f"{type(density).__name__} is not; use CutsetNetworkBD(structured=True), or train on "
            "complete rows"
        )


def _coefficients(solver: Any) -> Floats:
    """Those of its support vectors in each function of a solver, shape (n_functions, n_vectors).

    A regression is one function, as is the margin of two classes; with more classes, each pair has
    a margin.
    """
    if len(solver.n_support_) <= 2:
        return np.asarray(solver.dual_coef_)
    end = np.cumsum(solver.n_support_)
    of_class = [np.arange(last - n, last) for last, n in zip(end, solver.n_support_)]
    pairs = list(combinations(range(len(end)), 2))
    coefficients = np.zeros((len(pairs), end[-1]))
    for row, (i, j) in zip(coefficients, pairs):
        row[of_class[i]] = solver.dual_coef_[j - 1, of_class[i]]
        row[of_class[j]] = solver.dual_coef_[i, of_class[j]]
    return coefficients
