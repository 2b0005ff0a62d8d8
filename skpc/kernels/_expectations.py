"""The one table of expectations: column kernels by families of univariate distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skpc.kernels._integrals import mean_over_bins, mean_over_pairs
from skpc.kernels._kernel import RBF, ColumnKernel, Delta, ExponentialHamming

__all__ = ["Bins", "Normals", "States", "leaf_expectations", "leaf_second_moments"]


class States(NamedTuple):
    """Distributions over the states 0, 1, ... of a categorical variable.

    ``prob`` has shape (n, n_states); a known state has probability one.
    """

    prob: np.ndarray


class Normals(NamedTuple):
    """Normal distributions; a standard deviation of zero stands for a known number.

    ``mean`` and ``sd`` have shape (n,).
    """

    mean: np.ndarray
    sd: np.ndarray


class Bins(NamedTuple):
    """Piecewise uniform distributions with exponential tails on one histogram axis.

    ``prob`` has shape (n, n_edges + 1); ``axis`` is the scale of the lower tail, the edges and the
    scale of the upper tail.
    """

    prob: np.ndarray
    axis: np.ndarray


Univariate = States | Normals | Bins


def leaf_expectations(kernel: ColumnKernel, left: Univariate, right: Univariate) -> np.ndarray:
    """Expectation of a column kernel under each pair of two lists of distributions.

    Parameters
    ----------
    kernel : ColumnKernel
        The kernel.
    left, right : States, Normals or Bins
        Distributions of the same variable.

    Returns
    -------
    ndarray of shape (n_left, n_right)
        ``E k(x, y)`` with x from a distribution on the left and an independent y from one on the
        right.

    Raises
    ------
    TypeError
        If the table has no formula for the kernel and these families.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.kernels import RBF, Normals, leaf_expectations
    >>> known = Normals(np.array([0.0, 3.0]), np.zeros(2))
    >>> leaf_expectations(RBF(0.5), Normals(np.zeros(1), np.ones(1)), known).round(3)
    array([[0.707, 0.075]])
    """
    formula = _TABLE.get((type(kernel), type(left), type(right)))
    if formula is not None:
        return formula(kernel, left, right)
    formula = _TABLE.get((type(kernel), type(right), type(left)))
    if formula is None:
        raise TypeError(
            f"the expectation of {type(kernel).__name__} under {type(left).__name__} and "
            f"{type(right).__name__} is not known"
        )
    return formula(kernel, right, left).T


def leaf_second_moments(
    kernel: ColumnKernel, left: Univariate, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """Expectation of the product of a column kernel at two cells, under each distribution.

    Parameters
    ----------
    kernel : ColumnKernel
        The kernel.
    left : States, Normals or Bins
        Distributions.
    first, second : ndarrays of shape (n_cells,)
        Pairs of known cells.

    Returns
    -------
    ndarray of shape (n_left, n_cells)
        ``E k(x, first) k(x, second)`` with x from a distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.kernels import RBF, Normals, leaf_second_moments
    >>> normal, cell = Normals(np.zeros(1), np.ones(1)), np.array([1.0])
    >>> leaf_second_moments(RBF(0.5), normal, cell, -cell).round(3)
    array([[0.212]])
    """
    if isinstance(left, States):
        codes = np.arange(left.prob.shape[1], dtype=np.float64)[:, np.newaxis]
        return left.prob @ (kernel.of_points(codes, first) * kernel.of_points(codes, second))
    if not isinstance(kernel, RBF):
        # A draw of a density matches neither cell.
        return np.full((len(left[0]), len(first)), _never_matching(kernel) ** 2)
    # The product of two bumps is a narrower one in the middle between them.
    middle = Normals((first + second) / 2.0, np.zeros(len(first)))
    height = np.exp(-0.5 * kernel.gamma * np.square(first - second))
    return height * leaf_expectations(RBF(2.0 * kernel.gamma), left, middle)


def _of_states(kernel: ColumnKernel, left: States, right: States) -> np.ndarray:
    codes, others = np.arange(left.prob.shape[1]), np.arange(right.prob.shape[1])
    values = kernel.of_points(codes[:, np.newaxis].astype(float), others.astype(float))
    return left.prob @ values @ right.prob.T


def _bump_of_normals(kernel: RBF, left: Normals, right: Normals) -> np.ndarray:
    sd, mean = left.sd[:, np.newaxis], left.mean[:, np.newaxis]
    spread = 1.0 + 2.0 * kernel.gamma * (sd**2 + right.sd**2)
    exponent = -kernel.gamma * np.square(mean - right.mean) / spread
    return np.asarray(np.exp(exponent) / np.sqrt(spread))


def _bump_of_normals_and_bins(kernel: RBF, left: Normals, right: Bins) -> np.ndarray:
    if kernel.gamma == 0.0:
        return np.ones((len(left.mean), len(right.prob)))
    # A normal distribution widens the bump and lowers it.
    spread = 1.0 + 2.0 * kernel.gamma * left.sd**2
    means = mean_over_bins(np.sqrt(kernel.gamma / spread), left.mean, right.axis)
    return np.asarray(means @ right.prob.T / np.sqrt(spread)[:, np.newaxis])


def _bump_of_bins(kernel: RBF, left: Bins, right: Bins) -> np.ndarray:
    if kernel.gamma == 0.0:
        return np.ones((len(left.prob), len(right.prob)))
    means = mean_over_pairs(float(np.sqrt(kernel.gamma)), left.axis, right.axis)
    return np.asarray(left.prob @ means @ right.prob.T)


def _match_of_normals(kernel: ColumnKernel, left: Normals, right: Normals) -> np.ndarray:
    """Only two known numbers can match; any other pair differs with probability one."""
    mean, known = left.mean[:, np.newaxis], (left.sd == 0.0)[:, np.newaxis] & (right.sd == 0.0)
    return np.where(known, kernel.of_points(mean, right.mean), _never_matching(kernel))


def _match_of_bins(kernel: ColumnKernel, left: Any, right: Bins) -> np.ndarray:
    return np.full((len(left[0]), len(right.prob)), _never_matching(kernel))


def _never_matching(kernel: ColumnKernel) -> float:
    return float(kernel.of_points(np.zeros(()), np.ones(())))


_TABLE: dict[tuple[type, type, type], Callable[[Any, Any, Any], np.ndarray]] = {
    (RBF, States, States): _of_states,
    (RBF, Normals, Normals): _bump_of_normals,
    (RBF, Normals, Bins): _bump_of_normals_and_bins,
    (RBF, Bins, Bins): _bump_of_bins,
}
for _kernel in (ExponentialHamming, Delta):
    _TABLE |= {
        (_kernel, States, States): _of_states,
        (_kernel, Normals, Normals): _match_of_normals,
        (_kernel, Normals, Bins): _match_of_bins,
        (_kernel, Bins, Bins): _match_of_bins,
    }
