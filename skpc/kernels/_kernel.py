"""Kernels: products of one kernel a column, and positive sums of such products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc._cells import rows_of_numbers


class Kernel:
    """A positive definite kernel between rows: a positive sum of products of column kernels.

    This form makes expectations under circuits tractable. Call a kernel with two tables
    of encoded rows to get its values between their rows.
    """

    def terms(self, n_features: int) -> list[tuple[float, tuple[ColumnKernel, ...]]]:
        """The kernel as a sum of products.

        Parameters
        ----------
        n_features : int
            Number of columns.

        Returns
        -------
        list of (float, tuple of ColumnKernel)
            The weight of each product and its factors, one a column.
        """
        raise NotImplementedError

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        """Evaluate the kernel between the rows of two tables.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Complete encoded rows.
        Y : array-like of shape (n_others, n_features), default=None
            Complete encoded rows; None takes those of ``X``.

        Returns
        -------
        ndarray of shape (n_rows, n_others)
            The Gram matrix.

        Raises
        ------
        ValueError
            If a table is not two-dimensional, holds NaN or infinity, or the columns do not match.
        """
        x = _complete_rows(X, "X")
        y = x if Y is None else _complete_rows(Y, "Y")
        if x.shape[1] != y.shape[1]:
            raise ValueError(
                f"X and Y must have the same number of columns, got {x.shape[1]} and {y.shape[1]}"
            )
        gram = np.zeros((len(x), len(y)))
        for weight, factors in self.terms(x.shape[1]):
            values = np.full(gram.shape, weight)
            for column, factor in enumerate(factors):
                values *= factor.of_points(x[:, [column]], y[:, column])
            gram += values
        return gram


class ColumnKernel(Kernel):
    """A kernel between the cells of one column; between rows, its product over all columns.

    A subclass of your own needs :meth:`of_points`. Its expectations are sums over the values of
    categories, counts and atoms. Numbers with a density need a formula, as :class:`RBF` has.

    Examples
    --------
    >>> from skpc.kernels import ColumnKernel
    >>> class Near(ColumnKernel):
    ...     def of_points(self, x, y):
    ...         return 1.0 / (1.0 + abs(x - y))
    >>> Near()([[0.0]], [[0.0], [1.0]])
    array([[1. , 0.5]])
    """

    def of_points(self, x: Floats, y: Floats) -> Floats:
        """Values between cells, with numpy's broadcasting."""
        raise NotImplementedError

    def terms(self, n_features: int) -> list[tuple[float, tuple[ColumnKernel, ...]]]:
        """The kernel as one product of itself at every column."""
        return [(1.0, (self,) * n_features)]


@dataclass(frozen=True)
class _ScaledKernel(ColumnKernel):
    gamma: float

    def __post_init__(self) -> None:
        if not isinstance(self.gamma, Real) or not 0.0 <= self.gamma < np.inf:
            raise ValueError(f"gamma must be a finite number of 0 or more, got {self.gamma!r}")


class RBF(_ScaledKernel):
    """The Gaussian kernel ``exp(-gamma (x - y)^2)``.

    Between rows it is ``exp(-gamma |x - y|^2)``, scikit-learn's ``rbf_kernel``. The states of a
    categorical column count as the numbers 0, 1, ...; for :class:`ExponentialHamming` all different
    states are equally far apart.

    Parameters
    ----------
    gamma : float
        Inverse squared length scale, in units of the column; not negative.

    Examples
    --------
    >>> from skpc.kernels import RBF
    >>> RBF(0.5)([[0.0, 0.0]], [[0.0, 1.0], [2.0, 2.0]]).round(3)
    array([[0.607, 0.018]])
    """

    def of_points(self, x: Floats, y: Floats) -> Floats:
        """Values between cells, with numpy's broadcasting."""
        # A square that overflows is as good as any that leaves nothing of the kernel.
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(-self.gamma * np.square(x - y)))


class ExponentialHamming(_ScaledKernel):
    """The kernel ``exp(-gamma [x != y])``.

    Between rows it is ``exp(-gamma H(x, y))`` with the number ``H`` of columns that differ. With
    ``gamma = 2 g`` it equals the Gaussian kernel of parameter ``g`` on one-hot columns. Two draws
    of a continuous distribution differ with probability one.

    Parameters
    ----------
    gamma : float
        Not negative; 0 ignores the column.

    Examples
    --------
    >>> from skpc.kernels import ExponentialHamming
    >>> ExponentialHamming(1.0)([[0, 1, 2]], [[0, 1, 2], [0, 2, 1]]).round(3)
    array([[1.   , 0.135]])
    """

    def of_points(self, x: Floats, y: Floats) -> Floats:
        """Values between cells, with numpy's broadcasting."""
        return np.where(x == y, 1.0, np.exp(-self.gamma))


@dataclass(frozen=True)
class Delta(ColumnKernel):
    """The kernel ``[x == y]``.

    Its expectation between two distributions is the probability that their draws coincide. This
    is 0 if a column is continuous.

    Examples
    --------
    >>> from skpc.kernels import Delta
    >>> Delta()([[0, 1]], [[0, 1], [0, 0]])
    array([[1., 0.]])
    """

    def of_points(self, x: Floats, y: Floats) -> Floats:
        """Values between cells, with numpy's broadcasting."""
        return np.where(x == y, 1.0, 0.0)


@dataclass(frozen=True)
class ProductKernel(Kernel):
    """The product of one kernel a column, as for tables of numbers and categories.

    Parameters
    ----------
    columns : sequence of Kernel
        The kernel of each column. A sum of m kernels for a column makes m products of each product.

    Examples
    --------
    >>> from skpc.kernels import RBF, ExponentialHamming, ProductKernel
    >>> kernel = ProductKernel([RBF(1.0), ExponentialHamming(2.0)])
    >>> kernel([[0.5, 3.0]], [[0.5, 3.0], [0.5, 1.0]]).round(3)
    array([[1.   , 0.135]])
    """

    columns: Sequence[Kernel]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        for column, factor in enumerate(self.columns):
            if not isinstance(factor, Kernel):
                raise TypeError(
                    "a ProductKernel needs a kernel (RBF, ExponentialHamming, Delta, or a sum of "
                    f"these) for each column, got {factor!r} for column {column}"
                )

    def terms(self, n_features: int) -> list[tuple[float, tuple[ColumnKernel, ...]]]:
        """The kernel as one product, or as one for each choice among the parts of sums."""
        if len(self.columns) != n_features:
            raise ValueError(
                f"the kernel has a factor for each of {len(self.columns)} columns, but the rows "
                f"have {n_features}; give one factor a column"
            )
        return [
            (math.prod(weight for weight, _ in parts), tuple(factor for _, (factor,) in parts))
            for parts in product(*(kernel.terms(1) for kernel in self.columns))
        ]


@dataclass(frozen=True)
class SumKernel(Kernel):
    """A positive sum of kernels.

    Parameters
    ----------
    kernels : sequence of Kernel
        The parts.
    weights : sequence of float, default=None
        Their weights, positive; None gives each the weight one.

    Examples
    --------
    >>> from skpc.kernels import RBF, SumKernel
    >>> SumKernel([RBF(0.1), RBF(1.0)], [0.5, 0.5])([[0.0]], [[0.0], [1.0]]).round(
    ...     3
    ... )
    array([[1.   , 0.636]])
    """

    kernels: Sequence[Kernel]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        kernels = tuple(self.kernels)
        weights = (1.0,) * len(kernels) if self.weights is None else tuple(map(float, self.weights))
        if not kernels or len(weights) != len(kernels):
            raise ValueError(
                "a SumKernel needs one or more kernels and a weight for each, got "
                f"{len(kernels)} kernels and {len(weights)} weights"
            )
        if not all(0.0 < weight < np.inf for weight in weights):
            raise ValueError(f"the weights of a SumKernel must be positive, got {weights}")
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "weights", weights)

    def terms(self, n_features: int) -> list[tuple[float, tuple[ColumnKernel, ...]]]:
        """The products of all parts, with their weights."""
        return [
            (outer * inner, factors)
            for outer, kernel in zip(self.weights or (), self.kernels)
            for inner, factors in kernel.terms(n_features)
        ]


def _complete_rows(table: Any, name: str) -> Floats:
    rows = rows_of_numbers(table, name=name)
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"{name} must hold finite numbers where a kernel is evaluated, got "
            f"{rows[row, column]} in row {row}, column {column}; expected_kernel integrates "
            "over what is missing"
        )
    return rows
