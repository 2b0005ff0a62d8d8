"""Categorical and histogram leaves: a probability for each state (or bin) of a variable.

Table of a leaf: one entry a state and one more for a missing cell. Statistics: the same layout.
"""

from __future__ import annotations

import numpy as np

from skpc._jit import inlined, kernel

__all__ = ["add_discrete", "discrete_line", "draw_state", "updated_log_prob"]


@inlined
def discrete_line(
    first: int,
    n_states: int,
    table: np.ndarray,
    var: int,
    codes: np.ndarray,
    n: int,
    lines: np.ndarray,
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
def add_discrete(
    first: int,
    n_states: int,
    var: int,
    codes: np.ndarray,
    n: int,
    lines: np.ndarray,
    flow: int,
    statistic: np.ndarray,
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


@inlined
def draw_state(table: np.ndarray, first: int, n_states: int, u: float) -> int:
    """The state at which the cumulated probabilities pass ``u``."""
    last = 0
    for state in range(n_states):
        if table[first + state] > 0.0:
            last = state
            u -= table[first + state]
            if u < 0.0:
                return state
    return last


def updated_log_prob(
    counts: np.ndarray,
    missing: np.ndarray,
    log_prob: np.ndarray,
    pseudo_count: np.ndarray,
    begin: np.ndarray,
    size: np.ndarray,
) -> np.ndarray:
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
