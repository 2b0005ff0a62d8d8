"""Closed forms of expected column kernels, for pairs of univariate distributions."""

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
    left = _in_scores(left)
    right = _in_scores(right)
    if isinstance(left, Points) != isinstance(right, Points):
        left = _without_spread(left)
        right = _without_spread(right)
    if isinstance(kernel, RBF) and not isinstance(left, Points):
        if isinstance(left, Bins) and isinstance(right, Normals):
            return _bumps(kernel, right, left).T
        return _bumps(kernel, left, right)
    if not isinstance(kernel, ColumnKernel):
        raise TypeError(
            f"the expectation of a cell needs a column kernel, got {type(kernel).__name__} under "
            f"{type(left).__name__}"
        )
    left_value, left_prob, left_density = _known_values(left)
    right_value, right_prob, right_density = _known_values(right)
    # One row for each value of the left, one column for each value of the right.
    values = kernel.of_points(left_value[:, np.newaxis], right_value)
    known = left_prob @ values @ right_prob.T
    # Two values are equal only if both have a probability. All other pairs differ.
    unknown = np.add.outer(left_density, right_density)
    unknown -= np.multiply.outer(left_density, right_density)
    left_unequal = _of_unequal_cells(kernel, left, left_density)
    right_unequal = _of_unequal_cells(kernel, right, right_density)
    return known + unknown * max(left_unequal, right_unequal)


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
    left = _in_scores(left)
    if isinstance(left, Points) or not isinstance(kernel, RBF):
        value, prob, density = _known_values(left)
        value = value[:, np.newaxis]
        products = kernel.of_points(value, first)  # (n_values, n_cells)
        products = products * kernel.of_points(value, second)
        # A draw from a density equals neither cell, while a value with a probability may.
        density = density * _of_unequal_cells(kernel, left, density) ** 2
        return prob @ products + density[:, np.newaxis]
    # The product of two Gaussian kernels is a narrower one in the middle between them.
    gamma = kernel.gamma
    middle = Normals((first + second) / 2.0, np.zeros(len(first)))
    height = np.exp(-0.5 * gamma * np.square(first - second))
    return height * leaf_expectations(RBF(2.0 * gamma), left, middle)


def _in_scores(form: Form) -> Form:
    """The distributions of scores, where a column has them: kernels compare these."""
    if isinstance(form, ScoredNormals):
        return form.in_scores()
    return form


def _without_spread(form: Form) -> Form:
    """Points as normal distributions without spread, which can stand beside any density."""
    if isinstance(form, Points):
        return Normals(form.value, np.zeros(len(form.value)), form.prob)
    return form


def _of_unequal_cells(kernel: ColumnKernel, form: Any, density: Floats) -> float:
    """Value of a kernel between two different values, one of them drawn from a density.

    An error where that depends on the values, as there is no formula for it.
    """
    if isinstance(kernel, ExponentialHamming | Delta):
        return float(kernel.of_points(np.zeros(()), np.ones(())))
    if density.any():
        raise TypeError(
            f"the expectation of {type(kernel).__name__} under {type(form).__name__} is not known "
            f"where these have a density (here a mass of {density.max():g}); use RBF, "
            "ExponentialHamming or Delta for columns of numbers"
        )
    return 0.0


def _bumps(kernel: RBF, left: Any, right: Any) -> Floats:
    """Expectations of the Gaussian kernel between normals, between bins, or normals and bins."""
    gamma = kernel.gamma
    if gamma == 0.0:
        # The kernel is one everywhere, and the formulas for bins would divide by zero.
        return np.multiply.outer(left.total(), right.total())
    if not isinstance(left, Normals):
        means = mean_over_pairs(np.sqrt(gamma), left.axis, right.axis)
    elif isinstance(right, Normals):
        left_sd = left.sd[:, np.newaxis]
        left_mean = left.mean[:, np.newaxis]
        widened = 1.0 + 2.0 * gamma * (left_sd**2 + right.sd**2)
        # Where a square overflows, the kernel is zero.
        with np.errstate(over="ignore"):
            exponent = -gamma * np.square(left_mean - right.mean) / widened
        means = np.exp(exponent)
        means /= np.sqrt(widened)
    else:
        # The spread of a normal distribution makes the bump wider and lower.
        widened = 1.0 + 2.0 * gamma * left.sd**2
        means = mean_over_bins(np.sqrt(gamma / widened), left.mean, right.axis)
        means = means / np.sqrt(widened)[:, np.newaxis]
    # Rows of a side mix its distributions: (n_left, n_right) from those between the distributions.
    averages = left.averages(means).T
    return right.averages(averages).T


def _known_values(form: Any) -> tuple[Floats, Floats, Floats]:
    """Values that have a probability, their probabilities, and the mass with a density.

    Their shapes are (n_values,), (n_forms, n_values) and (n_forms,).
    """
    if isinstance(form, Points):
        return form.value, form.prob, np.zeros(len(form.prob))
    if isinstance(form, Bins):
        values = form.axis.points
        is_atom = ~np.isnan(values)
        # States of an axis may be mixtures of its cells.
        prob = form.prob @ form.axis.mixing[:, is_atom]
        density = form.prob @ form.axis.mixing[:, ~is_atom]
        return values[is_atom], prob, density.sum(axis=1)
    is_known = form.sd == 0.0
    density = form.rows[:, ~is_known]
    return form.mean[is_known], form.rows[:, is_known], density.sum(axis=1)
