"""Leaves with a probability for each state of a column: categories, or the bins of an axis.

Table of a leaf: one entry a state and one more for a missing cell. Statistics: the same layout.
"""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import inlined, kernel


@inlined
def state_line(
    first: int,
    n_states: int,
    table: Floats,
    var: int,
    codes: np.ndarray,
    n: int,
    lines: Floats,
    out: int,
) -> None:
    """Read the table entry of each row's state."""
    if n_states == 2:
        # A choice between three numbers vectorises where a look-up would not.
        zero, one, missing = table[first], table[first + 1], table[first + 2]
        for r in range(n):
            code = codes[var, r]
            lines[out, r] = zero if code == 0 else (one if code == 1 else missing)
    else:
        for r in range(n):
            lines[out, r] = table[first + codes[var, r]]


@kernel
def add_states(
    first: int,
    n_states: int,
    var: int,
    codes: np.ndarray,
    n: int,
    lines: Floats,
    flow: int,
    statistic: Floats,
) -> None:
    """Add the flow of each row to the count of its state."""
    if n_states == 2:
        zero, one, missing = 0.0, 0.0, 0.0
        for r in range(n):
            code = codes[var, r]
            zero += lines[flow, r] if code == 0 else 0.0
            one += lines[flow, r] if code == 1 else 0.0
            missing += lines[flow, r] if code == 2 else 0.0
        statistic[first] += zero
        statistic[first + 1] += one
        statistic[first + 2] += missing
    else:
        for r in range(n):
            statistic[first + codes[var, r]] += lines[flow, r]


def updated_log_prob(
    counts: Floats, missing: Floats, log_prob: Floats, pseudo_count: Floats, begin: Ints, size: Ints
) -> Floats:
    """The M-step of many leaves, their states one after the other.

    ``missing`` is the count of missing cells of the leaf each state belongs to, and leaf ``l``
    has ``size[l]`` states from ``begin[l]`` on. States of probability zero keep it; a leaf without
    any count stays as it is.
    """
    prob = np.exp(log_prob)
    total = np.where(prob > 0, counts + missing * prob + pseudo_count, 0.0)
    norm = np.repeat(np.add.reduceat(total, begin), size)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(norm > 0, np.log(total / norm), log_prob)
