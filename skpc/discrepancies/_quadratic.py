"""The quadratic program of black-box importance sampling; no other file uses cvxopt."""

from __future__ import annotations

import numpy as np
from cvxopt import matrix, solvers
from sklearn.exceptions import ConvergenceWarning

from skpc._arrays import Floats
from skpc._warnings import warn

#: Greatest distance to the optimum, relative to the value reached; and relative to the mean of the
#: diagonal, where the optimum is zero up to rounding.
_TOLERANCE, _NOTHING = 1e-6, 1e-10
#: How often the solver is started anew, on another scale.
_N_STARTS = 4
_OPTIONS = {"show_progress": False, "abstol": 1e-12, "reltol": 1e-10, "feastol": 1e-10}


def least_on_simplex(gram: Floats) -> tuple[Floats, float]:
    """Minimise ``w' K w`` over non-negative weights that sum to one (equations 7 and 10).

    The tolerances of the solver are absolute, while the entries of Stein kernels vary over many
    orders of magnitude. So the matrix is divided by the value that the best weights so far reach,
    and the result is judged by a bound: for a convex quadratic form the distance to the optimum is
    at most ``2 (w' K w - min_i (K w)_i)``.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Symmetric and positive semidefinite, singular or not.

    Returns
    -------
    weights : ndarray of shape (n,)
        The weights.
    value : float
        ``w' K w``.

    Warns
    -----
    ConvergenceWarning
        If the value may be more than a millionth above the minimum.
    """
    n = len(gram)
    best = np.full(n, 1.0 / n)
    value, bound = _judged(gram, best)
    nothing = _NOTHING * float(np.mean(np.diag(gram)))
    for _ in range(_N_STARTS):
        if bound <= max(_TOLERANCE * value, nothing):
            return best, value
        weights = _solved(gram / max(value, nothing))
        reached = _judged(gram, weights)
        if reached[1] < bound:
            best, (value, bound) = weights, reached
    if bound > max(_TOLERANCE * value, nothing):
        warn(
            f"the weights are not optimal: w'Kw = {value:.6g} may be as much as {bound:.3g} above "
            f"its minimum (wanted: {max(_TOLERANCE * value, nothing):.3g})",
            ConvergenceWarning,
        )
    return best, value


def _judged(gram: Floats, weights: Floats) -> tuple[float, float]:
    """The value of weights, and how far at most it is above the minimum."""
    slope = gram @ weights
    value = float(weights @ slope)
    return max(value, 0.0), 2.0 * (value - float(slope.min()))


def _solved(gram: Floats) -> Floats:
    n = len(gram)
    try:
        solution = solvers.qp(
            matrix(gram),
            matrix(0.0, (n, 1)),
            matrix(-np.eye(n)),
            matrix(0.0, (n, 1)),
            matrix(1.0, (1, n)),
            matrix(1.0),
            options=_OPTIONS,
        )
    # Singular systems of equations end the solver in this way.
    except (ArithmeticError, ValueError):
        return np.full(n, 1.0 / n)
    weights = np.maximum(np.array(solution["x"]).ravel(), 0.0)
    return np.asarray(weights / weights.sum())
