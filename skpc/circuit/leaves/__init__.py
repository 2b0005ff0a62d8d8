"""Leaf families: all that the rest of the package needs to know of them.

Each family has a file of its own; the functions here choose between them. A family says how it
lays out its table, evaluates a block of rows, adds up statistics, updates its parameters, draws,
and what its mode and moments are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpc._arrays import offsets, ranges
from skpc._jit import fast_exp, inlined
from skpc._random import normal, uniform
from skpc.circuit._circuit import Circuit
from skpc.circuit._structure import GAUSSIAN, HISTOGRAM, Structure
from skpc.circuit.leaves import _axis, _discrete, _gaussian
from skpc.circuit.leaves._axis import bin_of, draw_in_bin, log_bin_density
from skpc.circuit.leaves._discrete import add_discrete, discrete_line, draw_state
from skpc.circuit.leaves._gaussian import add_gaussian, log_gaussian, log_gaussian_line

__all__ = [
    "Columns",
    "Leaves",
    "add_statistics",
    "cell_value",
    "columns_of",
    "draw",
    "leaf_line",
    "leaf_means",
    "leaf_tables",
    "leaves_of",
    "linear_tables",
    "log_leaf_line",
    "log_prior",
    "missing_counts",
    "mode_tables",
    "read_cell",
    "uniform_param",
    "updated_param",
]


class Leaves(NamedTuple):
    """The leaves of a structure in the order of their nodes.

    ``first[l]`` is where the table of leaf ``l`` begins; all tables together have
    ``first[n_leaves]`` entries.
    """

    node: np.ndarray
    family: np.ndarray
    var: np.ndarray
    n_states: np.ndarray
    first: np.ndarray


class Columns(NamedTuple):
    """The variables as kernels read them.

    ``log_peak`` is the greatest log density of the Gaussian leaves of a variable. Leaves are
    evaluated relative to it, or to the density within the bin, so that all values inside a circuit
    lie in [0, 1] and underflow can only strike terms that do not count. ``ignored`` marks the
    variables that the circuit has been conditioned on.
    """

    n_states: np.ndarray
    axis_ptr: np.ndarray
    axis: np.ndarray
    log_peak: np.ndarray
    ignored: np.ndarray


def leaves_of(structure: Structure) -> Leaves:
    """List the leaves and lay out their tables."""
    node = np.flatnonzero(structure.leaf_var >= 0)
    var, family = structure.leaf_var[node], structure.leaf_family[node].astype(np.int64)
    n_states = structure.n_states[var]
    sizes = np.where(family == GAUSSIAN, _gaussian.N_ENTRIES, n_states + 1)
    return Leaves(node, family, var, n_states, offsets(sizes))


def columns_of(circuit: Circuit) -> Columns:
    """Describe the variables of a circuit."""
    structure = circuit.structure
    peak = np.full(structure.n_features, -np.inf)
    gaussian = np.flatnonzero(structure.leaf_family == GAUSSIAN)
    sd = circuit.param[structure.param_ptr[gaussian] + 1]
    np.maximum.at(peak, structure.leaf_var[gaussian], _gaussian.log_peak(sd))
    ignored = np.zeros(structure.n_features, dtype=np.int8)
    ignored[structure.leaf_var[~np.isnan(circuit.observed)]] = 1
    # Kernels are compiled for writable arrays; those of a structure are not.
    n_states, axis_ptr = structure.n_states.copy(), structure.axis_ptr.copy()
    return Columns(n_states, axis_ptr, structure.axis.copy(), peak, ignored)


def leaf_tables(circuit: Circuit, leaves: Leaves, columns: Columns) -> np.ndarray:
    """The log tables of all leaves; a missing cell has log value 0."""
    table = np.zeros(leaves.first[-1])
    gaussian = leaves.family == GAUSSIAN
    position, entry = _param_entries(circuit.structure, leaves)
    table[entry] = circuit.param[position]
    first = leaves.first[:-1][gaussian]
    sd = table[first + 1]
    table[first + 1] = 1.0 / sd
    table[first + 2] = _gaussian.log_peak(sd) - columns.log_peak[leaves.var[gaussian]]
    return table


def linear_tables(log_table: np.ndarray, leaves: Leaves) -> np.ndarray:
    """The tables in the linear domain; those of Gaussians stay as they are."""
    of_discrete = np.repeat(leaves.family != GAUSSIAN, np.diff(leaves.first))
    return np.where(of_discrete, np.exp(np.where(of_discrete, log_table, 0.0)), log_table)


def mode_tables(
    circuit: Circuit, leaves: Leaves, columns: Columns
) -> tuple[np.ndarray, np.ndarray]:
    """Log tables in which a missing cell has the greatest log density, and the modes."""
    structure = circuit.structure
    table = leaf_tables(circuit, leaves, columns)
    mode, best = np.empty(len(leaves.node)), np.empty(len(leaves.node))
    gaussian, states = leaves.family == GAUSSIAN, _states_of(structure, leaves)
    first = leaves.first[:-1][gaussian]
    mode[gaussian], best[gaussian] = table[first], table[first + 2]
    if len(states.leaf):
        log_peak, middle = _state_peaks_and_modes(structure)
        density = circuit.param[states.param] + log_peak[states.state]
        greatest = np.maximum.reduceat(density, states.begin)
        is_best = density == np.repeat(greatest, states.size)
        position = np.where(is_best, np.arange(len(density)), len(density))
        mode[states.leaf] = middle[states.state[np.minimum.reduceat(position, states.begin)]]
        best[states.leaf] = greatest
    table[leaves.first[1:] - 1] = np.where(np.isnan(circuit.observed[leaves.node]), best, 0.0)
    return table, mode


def leaf_means(circuit: Circuit, leaves: Leaves, centre: np.ndarray) -> np.ndarray:
    """Mean and mean square of ``x - centre[var]`` under each leaf; shape (n_leaves, 2).

    States of a category count as the numbers 0, 1, ...
    """
    structure = circuit.structure
    found = np.empty((len(leaves.node), 2))
    gaussian, states = leaves.family == GAUSSIAN, _states_of(structure, leaves)
    position = structure.param_ptr[leaves.node[gaussian]]
    found[gaussian, 0] = circuit.param[position] - centre[leaves.var[gaussian]]
    found[gaussian, 1] = found[gaussian, 0] ** 2 + circuit.param[position + 1] ** 2
    if len(states.leaf):
        prob = np.exp(circuit.param[states.param])
        for power, moment in enumerate(_state_moments(structure, centre)):
            total = np.add.reduceat(prob * moment[states.state], states.begin)
            found[states.leaf, power] = total
    return found


def updated_param(
    circuit: Circuit,
    leaves: Leaves,
    statistic: np.ndarray,
    pseudo_count: np.ndarray,
    column_mean: np.ndarray,
    column_sd: np.ndarray,
) -> np.ndarray:
    """The M-step of all leaves: the parameters that maximise the penalised expected score.

    ``pseudo_count`` has the shape of the parameters: per state, or (twice) per Gaussian.
    """
    structure, param = circuit.structure, circuit.param.copy()
    states = _states_of(structure, leaves)
    if len(states.leaf):
        missing = np.repeat(statistic[leaves.first[states.leaf + 1] - 1], states.size)
        param[states.param] = _discrete.updated_log_prob(
            statistic[states.entry],
            missing,
            param[states.param],
            pseudo_count[states.param],
            states.begin,
            states.size,
        )
    leaf = np.flatnonzero(leaves.family == GAUSSIAN)
    position, var = structure.param_ptr[leaves.node[leaf]], leaves.var[leaf]
    counts = statistic[leaves.first[leaf, np.newaxis] + np.arange(_gaussian.N_ENTRIES)].T
    param[position], param[position + 1] = _gaussian.updated_mean_and_sd(
        counts,
        param[position],
        param[position + 1],
        pseudo_count[position],
        column_mean[var],
        column_sd[var],
    )
    return param


def uniform_param(circuit: Circuit, leaves: Leaves) -> np.ndarray:
    """Parameters with equal probabilities of the possible states; Gaussians stay."""
    states, param = _states_of(circuit.structure, leaves), circuit.param.copy()
    if len(states.leaf):
        possible = param[states.param] > -np.inf
        count = np.repeat(np.add.reduceat(possible, states.begin, dtype=np.int64), states.size)
        param[states.param] = np.where(possible, -np.log(count), -np.inf)
    return param


def missing_counts(circuit: Circuit, leaves: Leaves, statistic: np.ndarray) -> np.ndarray:
    """Expected counts, in the shape of the parameters, of the missing cells in the statistics."""
    structure, count = circuit.structure, np.empty(len(circuit.param))
    states = _states_of(structure, leaves)
    missing = statistic[leaves.first[1:] - 1]
    count[states.param] = np.exp(circuit.param[states.param])
    count[states.param] *= np.repeat(missing[states.leaf], states.size)
    gaussian = leaves.family == GAUSSIAN
    position = structure.param_ptr[leaves.node[gaussian]]
    count[position] = count[position + 1] = missing[gaussian]
    return count


def log_prior(
    circuit: Circuit,
    leaves: Leaves,
    pseudo_count: np.ndarray,
    column_mean: np.ndarray,
    column_sd: np.ndarray,
) -> float:
    """Log-likelihood (nats) of the pseudo-counts that :func:`updated_param` adds."""
    structure, param = circuit.structure, circuit.param
    states = _states_of(structure, leaves).param
    states = states[param[states] > -np.inf]
    leaf = np.flatnonzero(leaves.family == GAUSSIAN)
    position, var = structure.param_ptr[leaves.node[leaf]], leaves.var[leaf]
    mean, sd = param[position], param[position + 1]
    prior = _gaussian.log_prior(mean, sd, column_mean[var], column_sd[var])
    return float(pseudo_count[states] @ param[states] + pseudo_count[position] @ prior)


# The kernels below take the few facts of a leaf one by one: handing over the arrays of all leaves
# would cost more than the work on a single cell.


@inlined
def log_leaf_line(
    family: int,
    first: int,
    n_states: int,
    var: int,
    log_table: np.ndarray,
    codes: np.ndarray,
    values: np.ndarray,
    n: int,
    lines: np.ndarray,
    out: int,
) -> None:
    """Log values of a leaf on a block of rows."""
    if family == GAUSSIAN:
        log_gaussian_line(first, log_table, var, values, n, lines, out)
    else:
        discrete_line(first, n_states, log_table, var, codes, n, lines, out)


@inlined
def leaf_line(
    family: int,
    first: int,
    n_states: int,
    var: int,
    table: np.ndarray,
    codes: np.ndarray,
    values: np.ndarray,
    n: int,
    lines: np.ndarray,
    out: int,
) -> None:
    """Values of a leaf on a block of rows."""
    log_leaf_line(family, first, n_states, var, table, codes, values, n, lines, out)
    if family == GAUSSIAN:
        for r in range(n):
            lines[out, r] = fast_exp(lines[out, r])


@inlined
def cell_value(
    family: int, first: int, table: np.ndarray, code: int, x: float, in_logs: bool
) -> float:
    """Value of a leaf on one cell, or its log with a log table."""
    if family != GAUSSIAN:
        return table[first + code]
    value = log_gaussian(table[first], table[first + 1], table[first + 2], table[first + 3], x)
    return value if in_logs else fast_exp(value)


@inlined
def add_statistics(
    family: int,
    first: int,
    n_states: int,
    var: int,
    table: np.ndarray,
    codes: np.ndarray,
    values: np.ndarray,
    n: int,
    lines: np.ndarray,
    flow: int,
    statistic: np.ndarray,
) -> None:
    """Add the sufficient statistics of a leaf, weighted by a line of flows."""
    if family == GAUSSIAN:
        add_gaussian(first, table, var, values, n, lines, flow, statistic)
    else:
        add_discrete(first, n_states, var, codes, n, lines, flow, statistic)


@inlined
def draw(
    family: int,
    first: int,
    n_states: int,
    table: np.ndarray,
    axis: np.ndarray,
    axis_begin: int,
    axis_end: int,
    streams: np.ndarray,
    j: int,
) -> float:
    """Draw a value from a leaf, with random stream ``j``."""
    if family == GAUSSIAN:
        return table[first] + normal(streams, j) / table[first + 1]
    state = draw_state(table, first, n_states, uniform(streams, j))
    if family == HISTOGRAM:
        return draw_in_bin(axis, axis_begin, axis_end, state, uniform(streams, j))
    return float(state)


@inlined
def read_cell(columns: Columns, var: int, x: float) -> tuple[int, float]:
    """State (-1 if unreadable) of an observed cell, and its log base density."""
    n_states = columns.n_states[var]
    first = columns.axis_ptr[var]
    last = columns.axis_ptr[var + 1]
    if last > first:
        state = bin_of(columns.axis, first, last, x)
        density = log_bin_density(columns.axis, first, last, state, x)
        return (state if abs(x) < np.inf else -1), density
    if n_states > 0:
        if not (x >= 0 and x < n_states):
            return -1, 0.0
        state = int(x)
        return (state if state == x else -1), 0.0
    return (0 if abs(x) < np.inf else -1), columns.log_peak[var]


class _States(NamedTuple):
    """The states of all discrete leaves one after the other.

    ``begin`` and ``size`` cut them into the leaves ``leaf``; ``param``, ``entry`` and ``state``
    are the positions of a state in the parameters, the tables and among the states of all
    variables.
    """

    leaf: np.ndarray
    begin: np.ndarray
    size: np.ndarray
    param: np.ndarray
    entry: np.ndarray
    state: np.ndarray


def _states_of(structure: Structure, leaves: Leaves) -> _States:
    leaf = np.flatnonzero(leaves.family != GAUSSIAN)
    size = leaves.n_states[leaf]
    begin = np.cumsum(size) - size
    within = np.arange(size.sum()) - np.repeat(begin, size)
    offset = np.cumsum(structure.n_states) - structure.n_states
    starts = (structure.param_ptr[leaves.node[leaf]], leaves.first[leaf], offset[leaves.var[leaf]])
    return _States(leaf, begin, size, *(np.repeat(start, size) + within for start in starts))


def _param_entries(structure: Structure, leaves: Leaves) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the leaf parameters and the table entries they belong to."""
    begin = structure.param_ptr[leaves.node]
    size = structure.param_ptr[leaves.node + 1] - begin
    return ranges(begin, size), ranges(leaves.first[:-1], size)


def _axis_of(structure: Structure, var: int) -> np.ndarray:
    return structure.axis[structure.axis_ptr[var] : structure.axis_ptr[var + 1]]


def _state_peaks_and_modes(structure: Structure) -> tuple[np.ndarray, np.ndarray]:
    """Greatest log density within each state of all variables, and a value that has it."""
    peak, mode = [], []
    for var, n_states in enumerate(structure.n_states):
        axis = _axis_of(structure, var)
        peak.append(_axis.log_bin_peaks(axis) if len(axis) else np.zeros(n_states))
        mode.append(_axis.bin_modes(axis) if len(axis) else np.arange(float(n_states)))
    return np.concatenate(peak), np.concatenate(mode)


def _state_moments(structure: Structure, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and mean square around the centre within each state of all variables."""
    means, squares = [], []
    for var, n_states in enumerate(structure.n_states):
        axis, state = _axis_of(structure, var), np.arange(n_states) - centre[var]
        both = _axis.bin_moments(axis, float(centre[var])) if len(axis) else (state, state**2)
        means.append(both[0])
        squares.append(both[1])
    return np.concatenate(means), np.concatenate(squares)
