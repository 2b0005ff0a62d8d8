"""How the leaves of a circuit lie in arrays: their parameters, their tables, their variables.

A leaf has a probability for each state of its column (categories, the bins of a histogram axis),
or a density that a formula computes from a few parameters, or both: numbers with atoms have states
and, in the last state, a formula. Which family has which formula is the business of
:mod:`skpc.variables.families`. No file here knows circuits: their leaves come as :class:`Leaves`,
their variables as :class:`Columns`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc.variables.blocks import BlockLeaves
from skpc.variables.families import (
    BLOCK,
    FAMILIES,
    FORMULAS,
    SCORED,
    WITH_STATES_ALONE,
)
from skpc.variables.leaves import Columns, LeafTable, Leaves, states_of_leaves


def lay_out(node: Ints, family: Ints, scope_ptr: Ints, scope: Ints, n_states: Ints) -> Leaves:
    """List leaves, and say where their parameters and tables lie.

    ``node`` and ``family`` have shape (n_leaves,), and the scope of leaf ``l`` is
    ``scope[scope_ptr[l]:scope_ptr[l + 1]]``.
    """
    is_block = family == BLOCK
    var = scope[scope_ptr[:-1]]
    size = np.diff(scope_ptr)
    # Parameters and entries that the formula of each family adds to those of the states.
    n_params, n_entries = (
        np.array([getattr(leaf_family.formula, name, 0) for leaf_family in FAMILIES.values()])[
            family
        ]
        for name in ("N_PARAMS", "N_ENTRIES")
    )
    # The states of all variables of the scope come first among the parameters.
    param_sizes = np.add.reduceat(n_states[scope], scope_ptr[:-1])
    # A block of d variables has d means, and d times d covariances.
    param_sizes += np.where(is_block, size * (size + 1), n_params)
    n_states_of_leaf = np.where(is_block, 0, n_states[var])
    # One more entry is for a missing cell, or for the whole flow of a block.
    table_sizes = np.where(is_block, param_sizes, n_states_of_leaf + n_entries) + 1
    # Each block has two lines behind those of all variables.
    line = np.where(is_block, len(n_states) + 2 * (np.cumsum(is_block) - 1), var)
    param_ptr = offsets(param_sizes)
    table_ptr = offsets(table_sizes)
    return Leaves(node, family, scope_ptr, scope, var, line, n_states_of_leaf, param_ptr, table_ptr)


def with_lines(leaves: LeafTable, chosen: Ints, first_line: int) -> LeafTable:
    """Leaves of which the chosen ones read values that were computed before the pass.

    Like blocks, each has a pair of lines for these; the pairs follow one another from
    ``first_line`` on.
    """
    family = leaves.family.copy()
    line = leaves.line.copy()
    family[chosen] = BLOCK
    line[chosen] = first_line + 2 * np.arange(len(chosen))
    return leaves._replace(family=family, line=line)


def only_states(leaves: Leaves) -> np.ndarray:
    """Which leaves have a probability for each state of their column, and no formula."""
    return np.isin(leaves.family, WITH_STATES_ALONE)


def only_possible_states(leaves: Leaves, param: Floats) -> Ints:
    """The state that has all the mass of each leaf; -1 for any other leaf, shape (n_leaves,)."""
    if not len(leaves.node):
        return np.empty(0, dtype=np.int64)
    possible = param > -np.inf
    begin = leaves.param_ptr[:-1]
    place = np.where(possible, np.arange(len(param)), -1)
    # The last possible state is the only one where their number is one.
    last_possible = np.maximum.reduceat(place, begin) - begin
    has_one_state = np.add.reduceat(possible, begin, dtype=np.int64) == 1
    return np.where(has_one_state & only_states(leaves), last_possible, -1)


def variable_of_two_families(leaves: Leaves) -> int:
    """A variable whose leaves are of several families; -1 if there is none."""
    family = _families_of_scopes(leaves)
    family_of_variable = np.zeros(leaves.scope.max() + 1, dtype=np.int64)
    # The last leaf of each variable decides: a leaf of another family differs from it.
    family_of_variable[leaves.scope] = family
    in_two_families = leaves.scope[family_of_variable[leaves.scope] != family]
    return int(in_two_families[0]) if len(in_two_families) else -1


def _families_of_scopes(leaves: Leaves) -> Ints:
    """For each variable of each leaf, the family that says how its cells are read."""
    # A block reads the scores of its variables, as leaves of one such variable do.
    family = np.where(leaves.family == BLOCK, SCORED, leaves.family)
    return family[leaves.owner]


def columns_of(
    leaves: Leaves,
    param: Floats,
    blocks: list[BlockLeaves],
    n_states: Ints,
    axis_ptr: Ints,
    axis: Floats,
    ignored: Any,
) -> Columns:
    """Describe the variables of leaves with these parameters; ``blocks`` are among the leaves.

    The axis of variable ``v`` is ``axis[axis_ptr[v]:axis_ptr[v + 1]]``; ``ignored`` marks the
    variables that have been conditioned on.
    """
    family = np.zeros(len(n_states), dtype=np.int64)
    peak = np.full(len(n_states), -np.inf)
    family[leaves.scope] = _families_of_scopes(leaves)
    for formula, leaf, rows in formula_params(leaves, param):
        np.maximum.at(peak, leaves.var[leaf], formula.log_peak(*rows))
    for block in blocks:
        np.maximum.at(peak, block.variables, block.log_peaks().max(axis=0))
    marks = np.asarray(ignored, dtype=np.int8)
    has_cells = np.zeros(len(n_states), dtype=np.int8)
    # Kernels are compiled for writable arrays; those of a structure are not.
    columns = Columns(n_states.copy(), axis_ptr.copy(), axis.copy(), family, peak, marks, has_cells)
    # Leaves of one variable read the edges of cells; blocks take each cell at its centre.
    outside_blocks = leaves.var[leaves.line == leaves.var]
    has_cells[outside_blocks] = on_lattices(columns)[outside_blocks]
    return columns


def on_lattices(columns: Columns) -> NDArray[np.int8]:
    """Which variables have scores and a lattice, so that each value fills a cell of the line."""
    scored = np.flatnonzero(columns.family == SCORED)
    has_cells = np.zeros(len(columns.family), dtype=np.int8)
    has_cells[scored] = [columns.axis_of(var).step > 0.0 for var in scored.tolist()]
    return has_cells


def formula_params(leaves: Leaves, param: Floats) -> list[tuple[Any, Ints, Floats]]:
    """Each formula that leaves have, with these leaves and their parameters.

    The parameters have shape (n_params, n_leaves).
    """
    groups = []
    for number, formula in FORMULAS.items():
        leaf = np.flatnonzero(leaves.family == number)
        if len(leaf):
            groups.append((formula, leaf, param[param_places(leaves, leaf, formula)]))
    return groups


def param_places(leaves: Leaves, leaf: Ints, formula: Any) -> Ints:
    """Positions of the parameters of a formula among all, shape (n_params, n_leaves)."""
    # They stand behind those of the states.
    after_states = leaves.param_ptr[leaf] + leaves.n_states[leaf]
    return after_states + np.arange(formula.N_PARAMS)[:, np.newaxis]


def prob_of_formula(leaves: Leaves, param: Floats, leaf: Ints) -> Floats:
    """Probability of the values that a formula describes, shape (n_leaves,)."""
    # It is that of the last state, which stands for all values but the atoms; or one.
    last_log_prob = param[leaves.param_ptr[leaf] + leaves.n_states[leaf] - 1]
    return np.exp(np.where(leaves.n_states[leaf] > 0, last_log_prob, 0.0))


def entry_places(leaves: Leaves, leaf: Ints, formula: Any) -> Ints:
    """Positions of the entries of a formula in tables and statistics, (n_entries, n_leaves)."""
    return leaves.first[leaf + 1] - formula.N_ENTRIES + np.arange(formula.N_ENTRIES)[:, np.newaxis]


def missing_entry(leaves: Leaves) -> Ints:
    """Position of the table entry, and of the statistic, of a missing cell of each leaf."""
    # A formula has such an entry, too; beside atoms it is for all cells without a score.
    are_states = only_states(leaves) | (leaves.n_states > 1)
    return np.where(are_states, leaves.first[:-1] + leaves.n_states, leaves.first[1:] - 1)


def leaf_tables(leaves: Leaves, param: Floats, columns: Columns) -> Floats:
    """The log tables of all leaves; a missing cell has log value 0."""
    table = np.zeros(leaves.first[-1])
    states = states_of_leaves(leaves, columns.n_states)
    table[states.entry] = param[states.param]
    for formula, leaf, rows in formula_params(leaves, param):
        log_peak = columns.log_peak[leaves.var[leaf]]
        table[entry_places(leaves, leaf, formula)] = formula.entries(*rows, log_peak)
    return table


def linear_tables(log_table: Floats, leaves: Leaves) -> Floats:
    """The tables in the linear domain; those of formulas stay as they are."""
    # Kernels take the exponential of what a formula computes, not of what its table holds.
    are_states = np.repeat(only_states(leaves), np.diff(leaves.first))
    return np.where(are_states, np.exp(np.where(are_states, log_table, 0.0)), log_table)
