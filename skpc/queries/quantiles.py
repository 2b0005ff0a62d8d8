"""Below which number does a missing cell lie with a given probability?"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from skpc._jit import kernel
from skpc.circuit import CATEGORICAL, GAUSSIAN, HISTOGRAM, Circuit
from skpc.circuit.axes import invert_bins
from skpc.queries.passes.plan import plan_of
from skpc.queries.passes.posterior import posterior_average
from skpc.queries.passes.rows import check_rows

__all__ = ["quantiles"]

#: Rows whose posteriors are held at a time.
_ROWS = 1024
#: Newton's method doubles the digits at each step; halving alone would need about as many.
_MAX_STEPS = 100
_SQRT_2 = math.sqrt(2.0)
_SQRT_2_PI = math.sqrt(2.0 * math.pi)


def quantiles(circuit: Circuit, X: Any, levels: Any) -> np.ndarray:
    """Posterior quantiles of the missing numbers of each row given its observed cells.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.
    levels : array-like of shape (n_levels,)
        Probabilities strictly between 0 and 1.

    Returns
    -------
    ndarray of shape (n_levels, n_rows, n_features)
        The number below which a missing cell lies with this probability. Observed cells are
        themselves; a missing category, whose states have no order, is NaN.

    Raises
    ------
    ValueError
        If a level is not between 0 and 1, the observed cells of a row have probability zero, or
        cannot be read.

    Notes
    -----
    The posterior of a cell is a mixture of bins and tails, the distribution function of which is
    inverted in closed form, or of Gaussians, where it is inverted to the precision of floats.

    Examples
    --------
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import quantiles
    >>> builder = CircuitBuilder(n_states=[0])
    >>> _ = builder.gaussian(0, mean=1.0, sd=2.0)
    >>> quantiles(builder.build(), [[float("nan")]], [0.5, 0.975]).round(2)
    array([[[1.  ]],
    <BLANKLINE>
           [[4.92]]])
    """
    rows = check_rows(circuit, X)
    level = np.array(levels, dtype=np.float64)
    if level.ndim != 1 or not ((level > 0.0) & (level < 1.0)).all():
        raise ValueError(
            f"levels must be a list of probabilities strictly between 0 and 1, got {levels!r}"
        )
    out = np.repeat(rows[np.newaxis], len(level), axis=0)
    for start in range(0, len(rows), _ROWS):
        part = np.ascontiguousarray(rows[start : start + _ROWS])
        _fill(circuit, part, level, out[:, start : start + _ROWS])
    return out


def _fill(circuit: Circuit, rows: np.ndarray, level: np.ndarray, out: np.ndarray) -> None:
    """Write the quantiles of the missing numbers of some rows."""
    leaves = plan_of(circuit.structure).plan.leaves
    features, shift = [], np.zeros(len(leaves.node), dtype=np.int64)
    n_lines = np.zeros(circuit.n_features, dtype=np.int64)
    for leaf, (node, family, var) in enumerate(zip(leaves.node, leaves.family, leaves.var)):
        param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
        if family == GAUSSIAN:
            shift[leaf] = n_lines[var]
            n_lines[var] += 1
            features.append(np.ones(1))
        else:
            features.append(np.exp(param) if family == HISTOGRAM else np.empty(0))
            n_lines[var] = 0 if family == CATEGORICAL else len(param)
    average = posterior_average(circuit, rows, features, n_lines, shift)
    parts = np.split(average, np.cumsum(n_lines)[:-1])
    for var in np.flatnonzero(n_lines).tolist():
        missing = np.flatnonzero(np.isnan(rows[:, var]))
        weight = np.ascontiguousarray(parts[var][:, missing].T)
        out[:, missing, var] = _invert(circuit, var, weight, level)


def _invert(circuit: Circuit, var: int, weight: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Quantiles of mixtures of bins or Gaussians, shape (n_levels, n_mixtures)."""
    found = np.empty((len(level), len(weight)))
    weight /= weight.sum(axis=1, keepdims=True)
    axis = circuit.axis[circuit.axis_ptr[var] : circuit.axis_ptr[var + 1]].copy()
    begin = circuit.param_ptr[np.flatnonzero(circuit.leaf_var == var)]
    mean, sd = circuit.param[begin], circuit.param[begin + 1]
    for target, q in zip(found, level):
        if len(axis):
            invert_bins(weight, axis, q, target)
        else:
            _invert_gaussians(weight, mean, sd, q, NormalDist().inv_cdf(float(q)), target)
    return found


@kernel
def _invert_gaussians(
    weight: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray,
    level: float,
    z: float,
    out: np.ndarray,
) -> None:
    """Quantile of each mixture of Gaussians, by Newton's method between bounds.

    ``z`` is the quantile of the standard normal distribution.
    """
    for r in range(len(out)):
        low, high = np.inf, -np.inf
        for k in range(len(mean)):
            # The quantile of a mixture lies between those of its parts.
            if weight[r, k] > 0.0:
                low, high = min(low, mean[k] + z * sd[k]), max(high, mean[k] + z * sd[k])
        x = 0.5 * (low + high)
        for _ in range(_MAX_STEPS):
            excess, density = -level, 0.0
            for k in range(len(mean)):
                u = (x - mean[k]) / sd[k]
                excess += weight[r, k] * 0.5 * math.erfc(-u / _SQRT_2)
                density += weight[r, k] * math.exp(-0.5 * u * u) / (sd[k] * _SQRT_2_PI)
            if excess > 0.0:
                high = x
            else:
                low = x
            step = x - excess / density if density > 0.0 else np.inf
            following = step if low < step < high else 0.5 * (low + high)
            if abs(following - x) <= 1e-14 * abs(x) or excess == 0.0:
                break
            x = following
        out[r] = x
