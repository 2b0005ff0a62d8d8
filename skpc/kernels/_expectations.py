"""Expectations of column kernels: one table of column kernels by families of distributions."""

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.kernels._integrals import mean_over_bins, mean_over_pairs
from skpc.kernels._kernel import RBF, ColumnKernel, Delta, ExponentialHamming
from skpc.variables import Bins, Form, Normals, Points, ScoredNormals


def leaf_expectations(kernel: ColumnKernel, left: Form, right: Form) -> Floats:
    """Expectation of a column kernel under each pair of two lists of distributions.

    Parameters
    ----------
    kernel : ColumnKernel
        The kernel.
    left, right : Points, Normals, Bins or ScoredNormals
        Distributions of the same variable.

    Returns
    -------
    ndarray of shape (n_left, n_right)
        ``E k(x, y)`` with x from a distribution of ``left`` and an independent y from one of
        ``right``.

    Raises
    ------
    TypeError
        If it is not a column kernel, or there is no formula for it and a distribution has a
        density. A kernel without any formula is summed over values that have a probability.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.kernels import RBF, leaf_expectations
    >>> from skpc.variables import Normals
    >>> known = Normals(np.array([0.0, 3.0]), np.zeros(2))
    >>> leaf_expectations(RBF(0.5), Normals(np.zeros(1), np.ones(1)), known).round(
    ...     3
    ... )
    array([[0.707, 0.075]])
    """
    left, right = (
        side.in_scores() if isinstance(side, ScoredNormals) else side for side in (left, right)
    )
    if isinstance(left, Points) != isinstance(right, Points):
        # A point is a normal distribution without spread.
        left, right = (
            Normals(side.value, np.zeros(len(side.value)), side.prob)
            if isinstance(side, Points)
            else side
            for side in (left, right)
        )
    if isinstance(kernel, RBF) and not isinstance(left, Points):
        if isinstance(left, Bins) and isinstance(right, Normals):
            return _bumps(kernel, right, left).T
        return _bumps(kernel, left, right)
    if not isinstance(kernel, ColumnKernel):
        raise TypeError(
            f"the expectation of a cell needs a column kernel, got {type(kernel).__name__} under "
            f"{type(left).__name__}"
        )
    value, prob, rest = _known_values(left)
    others, other_prob, other_rest = _known_values(right)
    known = prob @ kernel.of_points(value[:, np.newaxis], others) @ other_prob.T
    # Only two known numbers can match; any other pair differs with probability one.
    either = np.add.outer(rest, other_rest) - np.multiply.outer(rest, other_rest)
    unequal = _of_unequal_cells(kernel, left, rest), _of_unequal_cells(kernel, right, other_rest)
    return np.asarray(known + either * max(unequal))


def leaf_second_moments(kernel: ColumnKernel, left: Form, first: Floats, second: Floats) -> Floats:
    """Expectation of the product of a column kernel at two cells, under each distribution.

    Parameters
    ----------
    kernel : ColumnKernel
        The kernel.
    left : Points, Normals, Bins or ScoredNormals
        Distributions.
    first, second : ndarrays of shape (n_cells,)
        Pairs of known cells.

    Returns
    -------
    ndarray of shape (n_left, n_cells)
        ``E k(x, first) k(x, second)`` with x from a distribution.

    Raises
    ------
    TypeError
        If there is no formula for the kernel and a distribution has a density.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.kernels import RBF, leaf_second_moments
    >>> from skpc.variables import Normals
    >>> normal, cell = Normals(np.zeros(1), np.ones(1)), np.array([1.0])
    >>> leaf_second_moments(RBF(0.5), normal, cell, -cell).round(3)
    array([[0.212]])
    """
    if isinstance(left, ScoredNormals):
        left = left.in_scores()
    if isinstance(left, Points) or not isinstance(kernel, RBF):
        value, prob, rest = _known_values(left)
        # A draw of a density matches neither cell; an atom may.
        rest = rest * _of_unequal_cells(kernel, left, rest) ** 2
        values = kernel.of_points(value[:, np.newaxis], first)
        values = values * kernel.of_points(value[:, np.newaxis], second)
        return prob @ values + rest[:, np.newaxis]
    # The product of two bumps is a narrower one in the middle between them.
    middle = Normals((first + second) / 2.0, np.zeros(len(first)))
    height = np.exp(-0.5 * kernel.gamma * np.square(first - second))
    return height * leaf_expectations(RBF(2.0 * kernel.gamma), left, middle)


def _of_unequal_cells(kernel: ColumnKernel, form: Any, rest: Floats) -> float:
    """Value of a kernel where a draw of the density of a distribution is one of the cells."""
    if isinstance(kernel, ExponentialHamming | Delta):
        return float(kernel.of_points(np.zeros(()), np.ones(())))
    if rest.any():
        raise TypeError(
            f"the expectation of {type(kernel).__name__} under {type(form).__name__} is not known "
            f"where these have a density (here a mass of {rest.max():g}); use RBF, "
            "ExponentialHamming or Delta for columns of numbers"
        )
    return 0.0


def _bumps(kernel: RBF, left: Any, right: Any) -> Floats:
    """Expectations of the Gaussian kernel under normals, bins, or normals on the left and bins."""
    if kernel.gamma == 0.0:
        return np.multiply.outer(left.total(), right.total())
    if isinstance(left, Normals) and isinstance(right, Normals):
        sd = left.sd[:, np.newaxis]
        mean = left.mean[:, np.newaxis]
        widened = 1.0 + 2.0 * kernel.gamma * (sd**2 + right.sd**2)
        with np.errstate(over="ignore"):
            exponent = -kernel.gamma * np.square(mean - right.mean) / widened
        means = np.exp(exponent) / np.sqrt(widened)
    elif isinstance(left, Normals):
        # A normal distribution widens the bump and lowers it.
        widened = 1.0 + 2.0 * kernel.gamma * left.sd**2
        means = mean_over_bins(np.sqrt(kernel.gamma / widened), left.mean, right.axis)
        means = means / np.sqrt(widened)[:, np.newaxis]
    else:
        means = mean_over_pairs(float(np.sqrt(kernel.gamma)), left.axis, right.axis)
    return np.asarray(right.averages(left.averages(means).T).T)


def _known_values(form: Any) -> tuple[Floats, Floats, Floats]:
    """Values that have a probability, these probabilities, and what remains, of distributions."""
    if isinstance(form, Points):
        return form.value, form.prob, np.zeros(len(form.prob))
    if isinstance(form, Bins):
        at = ~np.isnan(form.axis.points)
        prob = form.prob @ form.axis.mixing[:, at]
        rest = form.prob @ form.axis.mixing[:, ~at]
        return form.axis.points[at], prob, rest.sum(axis=1)
    at = form.sd == 0.0
    return form.mean[at], form.rows[:, at], form.rows[:, ~at].sum(axis=1)
