"""Leaves with a probability for each state of a column: categories, or the bins of an axis.

Table of a leaf: one entry a state and one more for a missing cell. Statistics: the same layout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets, ranges
from skpc._jit import inlined, internal_kernel
from skpc.variables.axis import Axis
from skpc.variables.forms import Bins, Points
from skpc.variables.leaves import Columns, Leaves


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


@internal_kernel
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


class States(NamedTuple):
    """The states of all leaves of states one after the other.

    ``begin`` and ``size`` cut them into the leaves ``leaf``; ``param``, ``entry`` and ``state``
    are the positions of a state in the parameters, the tables and among the states of all
    variables.
    """

    leaf: Ints
    begin: Ints
    size: Ints
    param: Ints
    entry: Ints
    state: Ints


def states_of_leaves(leaves: Leaves, n_states: Ints) -> States:
    """List the states of all leaves that have some; ``n_states`` are those of the variables."""
    # A leaf of several variables has their states one variable after the other.
    owner = np.repeat(np.arange(len(leaves.node)), np.diff(leaves.scope_ptr))
    size = n_states[leaves.scope]
    before = offsets(size)
    before = before[:-1] - before[leaves.scope_ptr[:-1]][owner]
    some = np.flatnonzero(size > 0)
    leaf, size, before = owner[some], size[some], before[some]
    offset = np.cumsum(n_states) - n_states
    of_leaf = (leaves.param_ptr[leaf] + before, leaves.first[leaf] + before)
    starts = (*of_leaf, offset[leaves.scope[some]])
    return States(leaf, np.cumsum(size) - size, size, *(ranges(start, size) for start in starts))


def axis_in(flat: Floats) -> Axis | None:
    """The histogram axis in the stretch of a variable; None where that is empty."""
    return Axis.of(flat) if len(flat) and flat[0] > 0.0 else None


def axis_of(columns: Columns, var: int) -> Axis | None:
    """The histogram axis of a variable, if it has one."""
    return axis_in(columns.axis[columns.axis_ptr[var] : columns.axis_ptr[var + 1]])


def over_states(columns: Columns, var: int, prob: Floats) -> Points | Bins:
    """Distributions with these probabilities of the states of a variable."""
    axis = axis_of(columns, var)
    return Points(np.arange(float(prob.shape[1])), prob) if axis is None else Bins(axis, prob)


def peaks_and_modes(columns: Columns) -> tuple[Floats, Floats]:
    """Greatest log density within each state of all variables, and a value that has it."""
    peak, mode = [], []
    for var, n_states in enumerate(columns.n_states):
        axis = axis_of(columns, var)
        peak.append(np.zeros(n_states) if axis is None else axis.log_peaks())
        mode.append(np.arange(float(n_states)) if axis is None else axis.modes())
    return np.concatenate(peak), np.concatenate(mode)


def state_moments(columns: Columns, centre: Floats) -> tuple[Floats, Floats]:
    """Mean and mean square around the centre within each state of all variables."""
    means, squares = [], []
    for var, n_states in enumerate(columns.n_states):
        axis, state = axis_of(columns, var), np.arange(n_states) - centre[var]
        both = (state, state**2) if axis is None else axis.moments(float(centre[var]))
        means.append(both[0])
        squares.append(both[1])
    return np.concatenate(means), np.concatenate(squares)
