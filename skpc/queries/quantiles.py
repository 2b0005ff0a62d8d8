"""Below which number does a missing cell lie with a given probability?"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.queries.passes.rows import check_rows
from skpc.queries.posteriors import posteriors

#: Rows whose posteriors are held at a time.
_ROWS = 1024


def quantiles(circuit: Circuit, X: Any, levels: Any) -> Floats:
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
        The number below which a missing cell lies with this probability. Observed cells keep
        their values. A missing category is NaN, because its states have no order.

    Raises
    ------
    ValueError
        If a level is not between 0 and 1, the observed cells of a row have probability zero, or
        cannot be read.

    Notes
    -----
    The posterior of a cell is a mixture. Its distribution function is inverted in closed form for
    bins and tails, and to the precision of floats for Gaussians.

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
    numbers = np.flatnonzero(~circuit.structure.is_categorical)
    for start in range(0, len(rows), _ROWS):
        part = slice(start, start + _ROWS)
        for var, cells in zip(numbers, posteriors(circuit, rows[part], numbers)):
            out[:, part, var] = [cells.quantile(float(q)) for q in level]
    return out
