"""Leaf families: all that the rest of the package needs to know about them.

A leaf has a probability for each state of its column (categories, the bins of a histogram axis),
or a density that a formula computes from a few parameters, or both: numbers with atoms have states
and, in the last state, a formula. Each formula has its own file. It states the size of its table
and fills it, evaluates a cell and a batch of rows, adds up statistics, updates its parameters, and
gives its mode, its moments, its form and its draws. Only this file chooses between families. No
file here knows circuits: their leaves come as :class:`Leaves`, their variables as
:class:`Columns`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints, offsets
from skpc.variables import block, gaussian, poisson
from skpc.variables.block import Blocks, blocks_of
from skpc.variables.forms import Form, Normals, Points, ScoredNormals, likely_parts
from skpc.variables.leaves import (
    BLOCK,
    CATEGORICAL,
    GAUSSIAN,
    HISTOGRAM,
    POISSON,
    SCORED,
    Columns,
    Leaves,
    Lines,
)
from skpc.variables.scored_column import column_in
from skpc.variables.states import (
    over_states,
    peaks_and_modes,
    state_moments,
    states_of_leaves,
    updated_log_prob,
)

#: The families with formulas, and the file of each.
FORMULAS: dict[int, Any] = {GAUSSIAN: gaussian, POISSON: poisson, SCORED: gaussian}


def n_params(family: Any, scope_ptr: Ints, scope: Ints, n_states: Ints) -> Ints:
    """Number of parameters of leaves of these families and scopes."""
    sizes = n_states[scope[scope_ptr[:-1]]]
    for formula, home in FORMULAS.items():
        sizes = np.where(np.asarray(family) == formula, sizes + home.N_PARAMS, sizes)
    of_blocks = block.n_params(scope_ptr, scope, n_states)
    return np.where(np.asarray(family) == BLOCK, of_blocks, sizes)


def lay_out(node: Ints, family: Ints, scope_ptr: Ints, scope: Ints, n_states: Ints) -> Leaves:
    """List leaves and lay out their parameters and tables."""
    is_block, var = family == BLOCK, scope[scope_ptr[:-1]]
    of_var = np.where(is_block, 0, n_states[var])
    sizes = np.where(of_var > 0, of_var + 1, 0)
    for formula, home in FORMULAS.items():
        sizes = np.where(family == formula, sizes + home.N_ENTRIES, sizes)
    params = n_params(family, scope_ptr, scope, n_states)
    sizes = np.where(is_block, params + 1, sizes)
    line = np.where(is_block, len(n_states) + 2 * (np.cumsum(is_block) - 1), var)
    places = (offsets(params), offsets(sizes))
    return Leaves(node, family, scope_ptr, scope, var, line, of_var, *places)


def only_possible_states(leaves: Leaves, param: Floats) -> Ints:
    """The state that has all the mass of each leaf; -1 for leaves of formulas or several states."""
    if not len(leaves.node):
        return np.empty(0, dtype=np.int64)
    possible, begin = param > -np.inf, leaves.param_ptr[:-1]
    place = np.where(possible, np.arange(len(param)), -1)
    last = np.maximum.reduceat(place, begin) - begin
    alone = np.add.reduceat(possible, begin, dtype=np.int64) == 1
    return np.where(alone & only_states(leaves), last, -1)


def unreadable(columns: Columns, cells: Floats) -> int:
    """The first variable whose cell, one for each, its leaves cannot read; -1 if there is none."""
    whole, n_states = cells == np.floor(cells), columns.n_states
    category = (n_states > 0) & (np.diff(columns.axis_ptr) == 0)
    fits = ~category | ((cells >= 0) & (cells < n_states) & whole)
    fits &= (columns.family != POISSON) | ((cells >= 0) & whole)
    wrong = np.flatnonzero(~(np.isnan(cells) | (fits & np.isfinite(cells))))
    return int(wrong[0]) if len(wrong) else -1


def variable_of_two_families(leaves: Leaves) -> int:
    """A variable whose leaves are of several families; -1 if there is none."""
    family = _reading(leaves)
    first = np.zeros(leaves.scope.max() + 1, dtype=np.int64)
    first[leaves.scope] = family
    others = leaves.scope[first[leaves.scope] != family]
    return int(others[0]) if len(others) else -1


def _reading(leaves: Leaves) -> Ints:
    """For each variable of each leaf, the family that says how its cells are read."""
    family = np.where(leaves.family == BLOCK, SCORED, leaves.family)
    return np.repeat(family, np.diff(leaves.scope_ptr))


def columns_of(
    leaves: Leaves,
    param: Floats,
    blocks: list[Blocks],
    axes: tuple[Ints, Ints, Floats],
    ignored: Any,
) -> Columns:
    """Describe the variables of leaves with these parameters; leaves may be blocks."""
    n_states, axis_ptr, axis = axes
    family, peak = np.zeros(len(n_states), dtype=np.int64), np.full(len(n_states), -np.inf)
    family[leaves.scope] = _reading(leaves)
    for home, leaf, rows in of_formulas(leaves, param):
        np.maximum.at(peak, leaves.var[leaf], home.log_peak(*rows))
    for of_scope in blocks:
        np.maximum.at(peak, of_scope.variables, of_scope.log_peaks().max(axis=0))
    marks = np.asarray(ignored, dtype=np.int8)
    # Kernels are compiled for writable arrays; those of a structure are not.
    return Columns(n_states.copy(), axis_ptr.copy(), axis.copy(), family, peak, marks)


def of_formulas(leaves: Leaves, param: Floats) -> list[tuple[Any, Ints, Floats]]:
    """For each formula its file, its leaves, and their parameters, one a row."""
    found = []
    for formula, home in FORMULAS.items():
        leaf = np.flatnonzero(leaves.family == formula)
        if len(leaf):
            found.append((home, leaf, param[_formula_params(leaves, leaf, home)]))
    return found


def _formula_params(leaves: Leaves, leaf: Ints, home: Any) -> Ints:
    """Positions of the parameters of formulas, behind those of the states; one row each."""
    first = leaves.param_ptr[leaf] + leaves.n_states[leaf]
    return first + np.arange(home.N_PARAMS)[:, np.newaxis]


def _formula_entries(leaves: Leaves, leaf: Ints, home: Any) -> Ints:
    """Positions of the entries of formulas in tables and statistics, one row each."""
    return leaves.first[leaf + 1] - home.N_ENTRIES + np.arange(home.N_ENTRIES)[:, np.newaxis]


def _missing_entry(leaves: Leaves) -> Ints:
    """Position of the table entry, and the statistic, of a missing cell of each leaf."""
    of_states = leaves.first[:-1] + leaves.n_states
    return np.where(leaves.n_states > 0, of_states, leaves.first[1:] - 1)


def leaf_tables(leaves: Leaves, param: Floats, columns: Columns) -> Floats:
    """The log tables of all leaves; a missing cell has log value 0."""
    table = np.zeros(leaves.first[-1])
    states = states_of_leaves(leaves, columns.n_states)
    table[states.entry] = param[states.param]
    for home, leaf, rows in of_formulas(leaves, param):
        entries = home.entries(*rows, columns.log_peak[leaves.var[leaf]])
        table[_formula_entries(leaves, leaf, home)] = entries
    return table


def linear_tables(log_table: Floats, leaves: Leaves) -> Floats:
    """The tables in the linear domain; those of formulas stay as they are."""
    of_states = np.repeat(only_states(leaves), np.diff(leaves.first))
    return np.where(of_states, np.exp(np.where(of_states, log_table, 0.0)), log_table)


def mode_tables(
    leaves: Leaves, param: Floats, columns: Columns, observed: Floats
) -> tuple[Floats, Floats]:
    """Log tables in which a missing cell has the greatest log density, and the modes.

    ``observed`` has the value that each leaf has been conditioned on, NaN without such a value.
    """
    table = leaf_tables(leaves, param, columns)
    mode, best = np.empty(len(leaves.node)), np.empty(len(leaves.node))
    for home, leaf, _ in of_formulas(leaves, param):
        mode[leaf], best[leaf] = home.mode(table[_formula_entries(leaves, leaf, home)])
    states = states_of_leaves(leaves, columns.n_states)
    if len(states.leaf):
        log_peak, middle = peaks_and_modes(columns)
        density = param[states.param] + log_peak[states.state]
        greatest = np.maximum.reduceat(density, states.begin)
        is_best = density == np.repeat(greatest, states.size)
        position = np.where(is_best, np.arange(len(density)), len(density))
        mode[states.leaf] = middle[states.state[np.minimum.reduceat(position, states.begin)]]
        best[states.leaf] = greatest
    for var, leaf in _scored(leaves):
        form = _scored_form(leaves, param, columns, leaf, var)
        relative = table[_formula_entries(leaves, leaf, gaussian)][2]
        mode[leaf], best[leaf] = form.modes(relative)
    table[_missing_entry(leaves)] = np.where(np.isnan(observed), best, 0.0)
    return table, mode


def leaf_means(leaves: Leaves, param: Floats, columns: Columns, centre: Floats) -> Floats:
    """Mean and mean square of ``x - centre[var]`` under each leaf; shape (n_leaves, 2).

    States of a category count as the numbers 0, 1, ... Entries of blocks are not set.
    """
    found = np.empty((len(leaves.node), 2))
    for home, leaf, rows in of_formulas(leaves, param):
        found[leaf] = np.transpose(home.moments(*rows, centre[leaves.var[leaf]]))
    states = states_of_leaves(leaves, columns.n_states)
    if len(states.leaf):
        prob = np.exp(param[states.param])
        for power, moment in enumerate(state_moments(columns, centre)):
            total = np.add.reduceat(prob * moment[states.state], states.begin)
            found[states.leaf, power] = total
    for var, leaf in _scored(leaves):
        form = _scored_form(leaves, param, columns, leaf, var)
        found[leaf] = np.transpose(form.moments_of_parts(centre[var]))
    return found


def updated_param(
    leaves: Leaves,
    param: Floats,
    columns: Columns,
    statistic: Floats,
    pseudo_count: Floats,
    column_mean: Floats,
    column_sd: Floats,
) -> Floats:
    """The M-step of all leaves: the parameters that maximise the penalised expected score.

    ``pseudo_count`` has the shape of the parameters: per state, or (repeated) per formula.
    """
    found = param.copy()
    states = states_of_leaves(leaves, columns.n_states)
    if len(states.leaf):
        # The counts of blocks have what is missing among them.
        of_leaf = np.where(leaves.family == BLOCK, 0.0, statistic[_missing_entry(leaves)])
        missing = np.repeat(of_leaf[states.leaf], states.size)
        found[states.param] = updated_log_prob(
            statistic[states.entry],
            missing,
            param[states.param],
            pseudo_count[states.param],
            states.begin,
            states.size,
        )
    for home, leaf, rows in of_formulas(leaves, param):
        position, var = _formula_params(leaves, leaf, home), leaves.var[leaf]
        counts = statistic[_formula_entries(leaves, leaf, home)]
        if leaves.family[leaf[0]] == SCORED:
            # Atoms have no score either: of the missing cells, those of the last state count.
            missing = statistic[_missing_entry(leaves)[leaf]]
            counts[-1] = missing * np.exp(param[position[0] - 1])
        like_column = (pseudo_count[position[0]], column_mean[var], column_sd[var])
        found[position] = home.updated(counts, rows, *like_column)
    for column, leaf in _scored(leaves):
        mean, sd = _formula_params(leaves, leaf, gaussian)
        smallest = column_in(columns, column).smallest_sds(found[mean])
        found[sd] = np.maximum(found[sd], smallest)
    for blocks in blocks_of(leaves, param, columns.n_states):
        mean, covariance = blocks.positions(leaves)
        like = (pseudo_count[mean[:, 0]], column_mean, column_sd)
        found[mean], matrices = blocks.updated(leaves, statistic, like)
        found[covariance] = matrices.reshape(covariance.shape)
    return found


def uniform_param(leaves: Leaves, param: Floats, columns: Columns) -> Floats:
    """Parameters with equal probabilities of the possible states; those of formulas stay."""
    states, found = states_of_leaves(leaves, columns.n_states), param.copy()
    if len(states.leaf):
        possible = param[states.param] > -np.inf
        count = np.repeat(np.add.reduceat(possible, states.begin, dtype=np.int64), states.size)
        found[states.param] = np.where(possible, -np.log(count), -np.inf)
    return found


def missing_counts(leaves: Leaves, param: Floats, columns: Columns, statistic: Floats) -> Floats:
    """Expected counts, in the shape of the parameters, of the missing cells in the statistics."""
    count = np.repeat(statistic[_missing_entry(leaves)], np.diff(leaves.param_ptr))
    states = states_of_leaves(leaves, columns.n_states)
    count[states.param] *= np.exp(param[states.param])
    for _, leaf in _scored(leaves):
        position = _formula_params(leaves, leaf, gaussian)
        count[position] *= np.exp(param[position[0] - 1])
    return count


def counts_like_columns(
    leaves: Leaves, param: Floats, of_columns: list[Floats], like_column: float, as_learned: float
) -> Floats:
    """Pseudo-counts, in the shape of the parameters, of cells distributed like something known.

    Parameters
    ----------
    leaves, param
        The leaves.
    of_columns : list of ndarray
        For each variable the probabilities of its states; not read where its leaves are formulas.
    like_column : float
        Number of cells distributed like the column.
    as_learned : float
        Number of cells of a categorical leaf that are distributed like the leaf itself.
    """
    count = np.full(len(param), like_column)
    for var, shares in enumerate(of_columns):
        leaf = np.flatnonzero((leaves.var == var) & (leaves.n_states > 0))
        if len(leaf):
            count[leaves.param_ptr[leaf][:, np.newaxis] + np.arange(len(shares))] *= shares
    for blocks in blocks_of(leaves, param, np.array([len(shares) for shares in of_columns])):
        of_states = np.concatenate([of_columns[var] for var in blocks.variables])
        first = leaves.param_ptr[blocks.leaf][:, np.newaxis]
        count[first + np.arange(len(of_states))] *= of_states
    for var, leaf in _scored(leaves):
        count[_formula_params(leaves, leaf, gaussian)] *= of_columns[var][-1]
    categorical = np.repeat(leaves.family == CATEGORICAL, np.diff(leaves.param_ptr))
    count[categorical] += as_learned * np.exp(param[categorical])
    return count


def log_prior(
    leaves: Leaves,
    param: Floats,
    columns: Columns,
    pseudo_count: Floats,
    column_mean: Floats,
    column_sd: Floats,
) -> float:
    """Log-likelihood (nats) of the pseudo-counts that :func:`updated_param` adds."""
    states = states_of_leaves(leaves, columns.n_states).param
    states = states[param[states] > -np.inf]
    total = pseudo_count[states] @ param[states]
    for home, leaf, rows in of_formulas(leaves, param):
        var = leaves.var[leaf]
        prior = home.log_prior(*rows, column_mean[var], column_sd[var])
        total += pseudo_count[_formula_params(leaves, leaf, home)[0]] @ prior
    for blocks in blocks_of(leaves, param, columns.n_states):
        weight = pseudo_count[blocks.positions(leaves)[0][:, 0]]
        total += weight @ blocks.log_prior(column_mean, column_sd)
    return float(total)


def forms_of(leaves: Leaves, param: Floats, columns: Columns, var: int) -> Any:
    """The distributions of all leaves of a variable, in the order of the nodes (a Form)."""
    family, n_states = int(columns.family[var]), int(columns.n_states[var])
    if family == SCORED:
        return _scored_form(leaves, param, columns, leaves_of(leaves, var), var)
    leaf = np.flatnonzero(leaves.var == var)
    if family in FORMULAS:
        home = FORMULAS[family]
        return home.form(*param[_formula_params(leaves, leaf, home)])
    prob = np.exp(param[leaves.param_ptr[leaf][:, np.newaxis] + np.arange(n_states)])
    return over_states(columns, var, prob)


def leaves_of(leaves: Leaves, var: int) -> Ints:
    """The leaves that have a variable in their scope, in the order of the nodes."""
    owner = np.repeat(np.arange(len(leaves.node)), np.diff(leaves.scope_ptr))
    return owner[leaves.scope == var]


def _scored_form(
    leaves: Leaves, param: Floats, columns: Columns, leaf: Ints, var: int
) -> ScoredNormals:
    """What leaves with atoms and scores, blocks among them, say of a variable."""
    n_states, size = int(columns.n_states[var]), np.diff(leaves.scope_ptr)[leaf]
    scopes = [leaves.scope[leaves.scope_ptr[one] : leaves.scope_ptr[one + 1]] for one in leaf]
    place = np.array([int(np.searchsorted(scope, var)) for scope in scopes])
    before = np.array([columns.n_states[scope[:at]].sum() for scope, at in zip(scopes, place)])
    after = np.array([columns.n_states[scope].sum() for scope in scopes])
    first = leaves.param_ptr[leaf]
    prob = np.exp(param[(first + before)[:, np.newaxis] + np.arange(n_states)])
    mean = param[first + after + place]
    # A scored leaf has a standard deviation where a block has a matrix of variances.
    spread = param[first + after + size + place * (size + 1)]
    sd = np.where(leaves.family[leaf] == BLOCK, np.sqrt(spread), spread)
    return ScoredNormals(column_in(columns, var), prob, mean, sd)


def known_cells(columns: Columns, var: int, values: Floats) -> Form:
    """Distributions that have all their mass on one value each; on its score where there is one."""
    if is_category(columns, var):
        codes = np.arange(float(columns.n_states[var]))
        return Points(codes, (values[:, np.newaxis] == codes).astype(np.float64))
    return Normals(kernel_cells(columns, var, values), np.zeros(len(values)))


def kernel_cells(columns: Columns, var: int, values: Floats) -> Floats:
    """Cells of a variable on the scale on which kernels compare them: their scores, if any."""
    if columns.family[var] != SCORED:
        return values
    return column_in(columns, var).score.of(values)


def posterior_lines(leaves: Leaves, param: Floats, columns: Columns, wanted: Any) -> Lines:
    """What the posteriors of some variables (marked in ``wanted``) are put together from.

    Leaves of states share the states of their variable; of all other leaves each has a line.
    """
    of_states = only_states(leaves)
    asked = np.add.reduceat(np.asarray(wanted)[leaves.scope], leaves.scope_ptr[:-1]) > 0
    sizes = np.where(of_states, leaves.n_states, 1)
    feature = np.ones(sizes.sum())
    chosen = np.repeat(of_states, np.diff(leaves.param_ptr))
    feature[np.repeat(of_states, sizes)] = np.exp(param[chosen])
    kept = np.repeat(asked, sizes)
    with_states = np.isin(columns.family, [CATEGORICAL, HISTOGRAM]) & wanted
    ptr = offsets(np.where(with_states, columns.n_states, 0))
    alone = asked & ~of_states
    first = np.where(of_states, ptr[leaves.var], ptr[-1] + np.cumsum(alone) - 1)
    n_lines = int(ptr[-1] + alone.sum())
    return Lines(offsets(np.where(asked, sizes, 0)), feature[kept], first, n_lines)


def lines_of(leaves: Leaves, columns: Columns, lines: Lines, var: int) -> Ints:
    """The lines from which the posterior of a variable is put together."""
    leaf = leaves_of(leaves, var)
    if columns.family[var] in (CATEGORICAL, HISTOGRAM):
        return lines.first[leaf[0]] + np.arange(columns.n_states[var])
    return lines.first[leaf]


def posterior_form(
    leaves: Leaves, param: Floats, columns: Columns, var: int, prob: Floats, own: Any = None
) -> Form:
    """The distributions of a variable with these averages of its lines, shape (n, n_lines).

    ``own`` lists, where blocks are among its leaves, their places there, and the means and
    standard deviations of the scores given each row, shape (n_blocks, n).
    """
    if columns.family[var] in (CATEGORICAL, HISTOGRAM):
        return over_states(columns, var, prob)
    parts = forms_of(leaves, param, columns, var)
    if isinstance(parts, Points):
        return parts._replace(prob=prob @ parts.prob)
    if own is None:
        return parts._replace(prob=prob)
    place, mean, sd = own
    all_means, all_sds = (np.tile(part, (len(prob), 1)) for part in (parts.mean, parts.sd))
    all_means[:, place], all_sds[:, place] = mean.T, sd.T
    return likely_parts(parts._replace(mean=all_means, sd=all_sds, prob=prob))


def is_category(columns: Columns, var: int) -> bool:
    """Whether a variable has states without an order, and no numbers."""
    return bool(columns.n_states[var] and columns.axis_ptr[var] == columns.axis_ptr[var + 1])


def needed_cell(columns: Columns, var: int) -> str:
    """What a cell of a variable must be, in words."""
    if is_category(columns, var):
        return f"one of the states 0..{columns.n_states[var] - 1}"
    return "a whole number, 0 or more," if columns.family[var] == POISSON else "a finite number"


def only_states(leaves: Leaves) -> np.ndarray:
    """Which leaves have a probability for each state of their column, and no formula."""
    return ~np.isin(leaves.family, [*FORMULAS, BLOCK])


def _scored(leaves: Leaves) -> list[tuple[int, Ints]]:
    """Each variable of numbers with atoms and a score, and its leaves."""
    is_scored = leaves.family == SCORED
    found = np.unique(leaves.var[is_scored]).tolist()
    return [(var, np.flatnonzero(is_scored & (leaves.var == var))) for var in found]
