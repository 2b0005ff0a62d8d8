"""Leaves as distributions of one variable: their forms, modes and posteriors.

A form (:mod:`skpc.variables.forms`) holds the distributions of many leaves at once. The posterior
of a missing cell is a mixture of the leaves of its variable. Its weights are sums over rows and
leaves: one sum for each state where leaves are tables of states, else one for each leaf. Queries
collect these sums in lines, which :class:`skpc.variables.leaves.Lines` lays out.
"""

from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints, offsets
from skpc._random import Streams
from skpc.variables.cells import is_category, kernel_cells
from skpc.variables.families import BLOCK, FORMULAS, SCORED, WITH_STATES_ALONE
from skpc.variables.forms import Form, Normals, Points, ScoredNormals
from skpc.variables.histogram import Histogram
from skpc.variables.leaf_tables import (
    leaf_tables,
    missing_entry,
    only_states,
    param_places,
)
from skpc.variables.leaves import Columns, Leaves, Lines, over_states


def forms_of(
    leaves: Leaves, param: Floats, columns: Columns, var: int, leaf: Ints | None = None
) -> Any:
    """The distributions of all leaves of a variable, in the order of the nodes (a Form).

    ``leaf`` chooses some of those that have the variable alone.
    """
    family = int(columns.family[var])
    n_states = int(columns.n_states[var])
    # Where the variable stands in the scope of each leaf.
    entry = np.flatnonzero(leaves.scope == var) if leaf is None else leaves.scope_ptr[leaf]
    leaf = leaves.owner[entry] if leaf is None else leaf
    if family == SCORED:
        return _scored_form(leaves, param, columns, entry, leaf)
    if family in FORMULAS:
        formula = FORMULAS[family]
        return formula.form(*param[param_places(leaves, leaf, formula)])
    prob = np.exp(param[leaves.param_ptr[leaf][:, np.newaxis] + np.arange(n_states)])
    return over_states(columns, var, prob)


def _scored_form(
    leaves: Leaves, param: Floats, columns: Columns, entry: Ints, leaf: Ints
) -> ScoredNormals:
    """The margins of leaves with atoms and scores, of one variable or of blocks.

    ``entry``, of shape (n_leaves,), is where the variable stands in ``leaves.scope``.
    """
    var = int(leaves.scope[entry[0]])
    begin = leaves.scope_ptr[leaf]
    end = leaves.scope_ptr[leaf + 1]
    first_param = leaves.param_ptr[leaf]
    state_ptr = offsets(columns.n_states[leaves.scope])
    # The states of earlier variables of the scope come before those of this one.
    first_state = first_param + state_ptr[entry] - state_ptr[begin]
    prob = np.exp(param[first_state[:, np.newaxis] + np.arange(columns.n_states[var])])
    # Means, and then variances, come behind the states of all variables of the scope.
    first_mean = first_param + state_ptr[end] - state_ptr[begin]
    place = entry - begin
    size = end - begin
    # A leaf of one variable has a standard deviation where a block has a matrix of covariances.
    spread = param[first_mean + size + place * (size + 1)]
    sd = np.where(leaves.family[leaf] == BLOCK, np.sqrt(spread), spread)
    bulk = Normals(param[first_mean + place], sd, prob[:, -1])
    return ScoredNormals(columns.axis_of(var), prob[:, :-1], bulk)


def mode_tables(
    leaves: Leaves, param: Floats, columns: Columns, observed: Floats
) -> tuple[Floats, Floats]:
    """Log tables in which a missing cell has the greatest log density, and the mode of each leaf.

    ``observed`` has the value that each leaf has been conditioned on, NaN without such a value.
    """
    table = leaf_tables(leaves, param, columns)
    mode = np.empty(len(leaves.node))
    greatest = np.empty(len(leaves.node))
    for var, leaf in leaves.alone():
        form = forms_of(leaves, param, columns, var, leaf)
        mode[leaf], greatest[leaf] = form.modes(float(columns.log_peak[var]))
    # A leaf that has been conditioned on a value adds nothing for its missing cell.
    table[missing_entry(leaves)] = np.where(np.isnan(observed), greatest, 0.0)
    return table, mode


def values_of_draws(
    columns: Columns, var: int, drawn: Floats, streams: Streams, place: Ints
) -> Floats:
    """Values of a variable that draws of leaves stand for: its scores, or states of its histogram.

    Within a state the value is drawn too, by the random streams at ``place``.
    """
    axis = columns.axis_of(var)
    if isinstance(axis, Histogram):
        return axis.drawn(drawn.astype(np.int64), streams, place)
    return np.asarray(axis.inverse(drawn))


def known_cells(columns: Columns, var: int, values: Floats) -> Form:
    """Distributions with all their mass on the cell of each row, where kernels see it."""
    if is_category(columns, var):
        codes = np.arange(float(columns.n_states[var]))
        return Points(codes, (values[:, np.newaxis] == codes).astype(np.float64))
    return Normals(kernel_cells(columns, var, values), np.zeros(len(values)))


def posterior_lines(leaves: Leaves, param: Floats, columns: Columns, wanted: Any) -> Lines:
    """Lay out the lines from which the posteriors of the variables marked in ``wanted`` follow.

    A variable whose leaves are tables of states has a line for each state, which its leaves share.
    Every other leaf has a line of its own.
    """
    are_states = only_states(leaves)
    is_wanted = np.add.reduceat(np.asarray(wanted)[leaves.scope], leaves.scope_ptr[:-1]) > 0
    # The features of a table are the probabilities of its states; any other leaf has a one.
    n_features = np.where(are_states, leaves.n_states, 1)
    feature = np.ones(n_features.sum())
    is_state = np.repeat(are_states, np.diff(leaves.param_ptr))
    feature[np.repeat(are_states, n_features)] = np.exp(param[is_state])
    wanted_feature = feature[np.repeat(is_wanted, n_features)]
    has_states = np.isin(columns.family, WITH_STATES_ALONE) & wanted
    # The lines of states come first, variable by variable, and then those of single leaves.
    state_ptr = offsets(np.where(has_states, columns.n_states, 0))
    has_line = is_wanted & ~are_states
    line_of_leaf = state_ptr[-1] + np.cumsum(has_line) - 1
    first_line = np.where(are_states, state_ptr[leaves.var], line_of_leaf)
    n_lines = int(state_ptr[-1] + has_line.sum())
    feature_ptr = offsets(np.where(is_wanted, n_features, 0))
    return Lines(feature_ptr, wanted_feature, first_line, n_lines)


def lines_of(leaves: Leaves, columns: Columns, lines: Lines, var: int) -> Ints:
    """The lines from which the posterior of a variable follows."""
    leaf = leaves.with_variable(var)
    if columns.family[var] in WITH_STATES_ALONE:
        # All leaves of the variable share these lines.
        return lines.first_line[leaf[0]] + np.arange(columns.n_states[var])
    return lines.first_line[leaf]


def posterior_form(
    leaves: Leaves, param: Floats, columns: Columns, var: int, prob: Floats, given: Any = None
) -> Form:
    """The posteriors of a variable in n rows.

    ``prob``, of shape (n, n_lines), has the averages of its lines. Where blocks are among its
    leaves, ``given`` lists their places among these, and the means and standard deviations of their
    scores given each row, of shape (n_blocks, n).
    """
    if columns.family[var] in WITH_STATES_ALONE:
        return over_states(columns, var, prob)
    form = forms_of(leaves, param, columns, var).mixed(prob)
    return form if given is None else form.given(*given)
