"""What queries ask of the leaves of a circuit: tables, modes, moments, the M-step, posteriors.

A leaf has a probability for each state of its column (categories, the bins of a histogram axis),
or a density that a formula computes from a few parameters, or both: numbers with atoms have states
and, in the last state, a formula. Which family has which formula is the business of
:mod:`skpc.variables.families`. No file here knows circuits: their leaves come as :class:`Leaves`,
their variables as :class:`Columns`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, log_or_inf, offsets
from skpc._random import Streams
from skpc.variables import gaussian
from skpc.variables.families import (
    BLOCK,
    CATEGORICAL,
    FAMILIES,
    FORMULAS,
    POISSON,
    SCORED,
    WITH_STATES_ALONE,
)
from skpc.variables.forms import Form, Normals, Points, ScoredNormals
from skpc.variables.gaussians import Gaussians
from skpc.variables.histogram import Histogram
from skpc.variables.leaves import (
    Columns,
    LeafTable,
    Leaves,
    Lines,
    Prior,
    over_states,
    states_of_leaves,
)
from skpc.variables.multivariate import MultivariateGaussian, by_scope, split_params


def lay_out(node: Ints, family: Ints, scope_ptr: Ints, scope: Ints, n_states: Ints) -> Leaves:
    """List leaves and lay out their parameters and tables."""
    is_block = family == BLOCK
    var = scope[scope_ptr[:-1]]
    size = np.diff(scope_ptr)
    # Of the formula of each family; a Gaussian of several variables has moments of all of them.
    n_params, n_entries = (
        np.array([getattr(leaf_family.formula, name, 0) for leaf_family in FAMILIES.values()])[
            family
        ]
        for name in ("N_PARAMS", "N_ENTRIES")
    )
    # Parameters begin with the states of all variables of the scope.
    params = np.add.reduceat(n_states[scope], scope_ptr[:-1])
    # A block of d variables has d means, and d times d covariances.
    params += np.where(is_block, size * (size + 1), n_params)
    n_states_of_leaf = np.where(is_block, 0, n_states[var])
    # One more entry: for a missing cell, or for the whole flow of a block.
    entries = np.where(is_block, params, n_states_of_leaf + n_entries) + 1
    # Each block has two lines behind those of all variables.
    line = np.where(is_block, len(n_states) + 2 * (np.cumsum(is_block) - 1), var)
    places = (offsets(params), offsets(entries))
    return Leaves(node, family, scope_ptr, scope, var, line, n_states_of_leaf, *places)


def multivariate_gaussians(
    leaves: Leaves, param: Floats, n_states: Ints
) -> list[MultivariateGaussian]:
    """The leaves of several variables, those of one scope together."""
    groups = []
    for leaf, variables in by_scope(np.flatnonzero(leaves.family == BLOCK), leaves):
        log_prob, *moments = split_params(leaf, variables, leaves, param, n_states)
        ptr = offsets(n_states[variables])
        gaussians = Gaussians.from_covariance(*moments)
        groups.append(MultivariateGaussian(leaf, variables, log_prob, ptr, gaussians))
    return groups


def with_lines(leaves: LeafTable, chosen: Ints, first: int) -> LeafTable:
    """Leaves of which those chosen read their values in lines of their own, ``first`` and others.

    They do so as leaves of several variables do, by pairs of lines.
    """
    family = leaves.family.copy()
    line = leaves.line.copy()
    family[chosen], line[chosen] = BLOCK, first + 2 * np.arange(len(chosen))
    return leaves._replace(family=family, line=line)


def only_states(leaves: Leaves) -> np.ndarray:
    """Which leaves have a probability for each state of their column, and no formula."""
    return np.isin(leaves.family, WITH_STATES_ALONE)


def only_possible_states(leaves: Leaves, param: Floats) -> Ints:
    """The state that has all the mass of each leaf; -1 for leaves of formulas or several states."""
    if not len(leaves.node):
        return np.empty(0, dtype=np.int64)
    possible = param > -np.inf
    begin = leaves.param_ptr[:-1]
    place = np.where(possible, np.arange(len(param)), -1)
    # Where one state alone is possible, the last possible one is it.
    last = np.maximum.reduceat(place, begin) - begin
    alone = np.add.reduceat(possible, begin, dtype=np.int64) == 1
    return np.where(alone & only_states(leaves), last, -1)


def unreadable(columns: Columns, cells: Floats) -> Ints:
    """The variables whose cells, one for each, their leaves cannot read."""
    # Categories and counts are whole numbers from zero on, all others any finite ones.
    is_whole = np.isin(columns.family, (CATEGORICAL, POISSON))
    end = np.where(columns.family == CATEGORICAL, columns.n_states, np.inf)
    is_code = (cells >= 0.0) & (cells < end) & (cells == np.floor(cells))
    is_read = np.isnan(cells) | np.where(is_whole, is_code, np.isfinite(cells))
    return np.flatnonzero(~is_read)


def values_of_draws(
    columns: Columns, var: int, drawn: Floats, streams: Streams, place: Ints
) -> Floats:
    """Values of a variable from scores, or from states of its axis and the streams at ``place``."""
    axis = columns.axis_of(var)
    if isinstance(axis, Histogram):
        return axis.drawn(drawn.astype(np.int64), streams, place)
    return np.asarray(axis.inverse(drawn))


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
    family = np.where(leaves.family == BLOCK, SCORED, leaves.family)
    return family[leaves.owner]


def columns_of(
    leaves: Leaves,
    param: Floats,
    blocks: list[MultivariateGaussian],
    axes: tuple[Ints, Ints, Floats],
    ignored: Any,
) -> Columns:
    """Describe the variables of leaves with these parameters; ``blocks`` are among the leaves."""
    n_states, axis_ptr, axis = axes
    family = np.zeros(len(n_states), dtype=np.int64)
    peak = np.full(len(n_states), -np.inf)
    family[leaves.scope] = _families_of_scopes(leaves)
    for formula, leaf, rows in formula_params(leaves, param):
        np.maximum.at(peak, leaves.var[leaf], formula.log_peak(*rows))
    for gaussians_of_scope in blocks:
        np.maximum.at(
            peak, gaussians_of_scope.variables, gaussians_of_scope.log_peaks().max(axis=0)
        )
    marks = np.asarray(ignored, dtype=np.int8)
    has_cells = np.zeros(len(n_states), dtype=np.int8)
    # Kernels are compiled for writable arrays; those of a structure are not.
    columns = Columns(n_states.copy(), axis_ptr.copy(), axis.copy(), family, peak, marks, has_cells)
    alone = leaves.var[leaves.line == leaves.var]
    has_cells[alone] = on_lattices(columns)[alone]
    return columns


def on_lattices(columns: Columns) -> NDArray[np.int8]:
    """Which variables have scores of a lattice, whose values fill cells."""
    scored = np.flatnonzero(columns.family == SCORED)
    has_cells = np.zeros(len(columns.family), dtype=np.int8)
    has_cells[scored] = [columns.axis_of(var).step > 0.0 for var in scored.tolist()]
    return has_cells


def formula_params(leaves: Leaves, param: Floats) -> list[tuple[Any, Ints, Floats]]:
    """For each family with a formula the formula, its leaves, and their parameters, one a row."""
    groups = []
    for number, formula in FORMULAS.items():
        leaf = np.flatnonzero(leaves.family == number)
        if len(leaf):
            places = _param_places(leaves, leaf, formula)
            groups.append((formula, leaf, param[places]))
    return groups


def _param_places(leaves: Leaves, leaf: Ints, formula: Any) -> Ints:
    """Positions of the parameters of formulas, behind those of the states; one row each."""
    after_states = leaves.param_ptr[leaf] + leaves.n_states[leaf]
    return after_states + np.arange(formula.N_PARAMS)[:, np.newaxis]


def _prob_of_formula(leaves: Leaves, param: Floats, leaf: Ints) -> Floats:
    """Probability of the values that a formula describes: of the last state, if there are any."""
    last = param[leaves.param_ptr[leaf] + leaves.n_states[leaf] - 1]
    return np.exp(np.where(leaves.n_states[leaf] > 0, last, 0.0))


def _entry_places(leaves: Leaves, leaf: Ints, formula: Any) -> Ints:
    """Positions of the entries of formulas in tables and statistics, one row each."""
    return leaves.first[leaf + 1] - formula.N_ENTRIES + np.arange(formula.N_ENTRIES)[:, np.newaxis]


def missing_entry(leaves: Leaves) -> Ints:
    """Position of the table entry, and the statistic, of a missing cell of each leaf.

    It is the last one of a formula, unless a cell without a score may be an atom.
    """
    are_states = only_states(leaves) | (leaves.n_states > 1)
    return np.where(are_states, leaves.first[:-1] + leaves.n_states, leaves.first[1:] - 1)


def leaf_tables(leaves: Leaves, param: Floats, columns: Columns) -> Floats:
    """The log tables of all leaves; a missing cell has log value 0."""
    table = np.zeros(leaves.first[-1])
    states = states_of_leaves(leaves, columns.n_states)
    table[states.entry] = param[states.param]
    for formula, leaf, rows in formula_params(leaves, param):
        log_peak = columns.log_peak[leaves.var[leaf]]
        entries = formula.entries(*rows, log_peak)
        table[_entry_places(leaves, leaf, formula)] = entries
    return table


def linear_tables(log_table: Floats, leaves: Leaves) -> Floats:
    """The tables in the linear domain; those of formulas stay as they are."""
    are_states = np.repeat(only_states(leaves), np.diff(leaves.first))
    return np.where(are_states, np.exp(np.where(are_states, log_table, 0.0)), log_table)


def mode_tables(
    leaves: Leaves, param: Floats, columns: Columns, observed: Floats
) -> tuple[Floats, Floats]:
    """Log tables in which a missing cell has the greatest log density, and the modes.

    ``observed`` has the value that each leaf has been conditioned on, NaN without such a value.
    """
    table = leaf_tables(leaves, param, columns)
    mode = np.empty(len(leaves.node))
    best = np.empty(len(leaves.node))
    for var, leaf in leaves.alone():
        form = forms_of(leaves, param, columns, var, leaf)
        mode[leaf], best[leaf] = form.modes(float(columns.log_peak[var]))
    # A leaf that has been conditioned on a value adds nothing for its missing cell.
    table[missing_entry(leaves)] = np.where(np.isnan(observed), best, 0.0)
    return table, mode


def updated_param(
    leaves: Leaves, param: Floats, columns: Columns, statistic: Floats, prior: Prior
) -> Floats:
    """The M-step of all leaves: the parameters that maximise the penalised expected score.

    The weights of the prior are those of each state, and (repeated) of each formula.
    """
    updated = param.copy()
    states = states_of_leaves(leaves, columns.n_states)
    # The counts of leaves of several variables have what is missing among them.
    missing_weight = statistic[missing_entry(leaves)]
    missing_weight = np.where(leaves.family == BLOCK, 0.0, missing_weight)
    log_prob = param[states.param]
    missing = np.repeat(missing_weight[states.leaf], states.size)
    prob = np.exp(log_prob)
    # A missing cell counts for each state with the probability that the leaf gives it. States of
    # probability zero keep it; a leaf without any count stays as it is.
    count = statistic[states.entry] + missing * prob + prior.weight[states.param]
    total = np.where(prob > 0, count, 0.0)
    norm = np.repeat(np.add.reduceat(total, states.begin), states.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        updated[states.param] = np.where(norm > 0, np.log(total / norm), log_prob)
    for formula, leaf, rows in formula_params(leaves, param):
        position = _param_places(leaves, leaf, formula)
        var = leaves.var[leaf]
        counts = statistic[_entry_places(leaves, leaf, formula)]
        # Atoms have no score either: of the missing cells, those of the last state count.
        missing = statistic[missing_entry(leaves)[leaf]]
        counts[-1] = missing * _prob_of_formula(leaves, param, leaf)
        updated[position] = formula.updated(counts, rows, prior.at(position[0], var))
    for column, leaf in leaves.alone():
        if columns.family[column] == SCORED:
            mean, sd = _param_places(leaves, leaf, gaussian)
            smallest = columns.axis_of(column).smallest_sds(updated[mean])
            updated[sd] = np.maximum(updated[sd], smallest)
    for gaussians_of_scope in multivariate_gaussians(leaves, param, columns.n_states):
        place = gaussians_of_scope.positions(leaves)
        prior_of_rows = prior.at(place[:, 0], gaussians_of_scope.variables)
        updated[place] = gaussians_of_scope.updated(leaves, statistic, prior_of_rows)
    return updated


def uniform_param(
    leaves: Leaves, param: Floats, columns: Columns, column_shares: Sequence[Floats] | None = None
) -> Floats:
    """Parameters with equal probabilities of the possible states; those of formulas stay.

    With ``column_shares`` possible states are as probable, among themselves, as in their columns.
    """
    states = states_of_leaves(leaves, columns.n_states)
    uniform = param.copy()
    share = np.ones(len(states.state))
    if column_shares is not None:
        share = np.concatenate(column_shares)[states.state]
    share = np.where(param[states.param] > -np.inf, share, 0.0)
    total = np.repeat(np.add.reduceat(share, states.begin), states.size)
    uniform[states.param] = log_or_inf(share / total)
    return uniform


def missing_counts(leaves: Leaves, param: Floats, n_states: Ints, weight: Floats) -> Floats:
    """Expected counts, in the shape of the parameters, of missing cells, with a weight a leaf."""
    count = np.repeat(weight, np.diff(leaves.param_ptr))
    return count * _described_share(leaves, param, n_states)


def _described_share(leaves: Leaves, param: Floats, n_states: Ints) -> Floats:
    """Probability of the cells that each parameter is about: of its state, or of its formula."""
    share = np.ones(len(param))
    states = states_of_leaves(leaves, n_states).param
    share[states] = np.exp(param[states])
    for formula, leaf, _ in formula_params(leaves, param):
        share[_param_places(leaves, leaf, formula)] = _prob_of_formula(leaves, param, leaf)
    return share


def counts_like_columns(
    leaves: Leaves,
    param: Floats,
    column_shares: list[Floats],
    like_column: float,
    as_learned: float,
) -> Floats:
    """Pseudo-counts, in the shape of the parameters, of cells distributed like something known.

    Parameters
    ----------
    leaves, param
        The leaves.
    column_shares : list of ndarray
        For each variable the probabilities of its states; empty without states.
    like_column : float
        Number of cells distributed like the column.
    as_learned : float
        Number of cells of a categorical leaf that are distributed like the leaf itself.
    """
    n_states = np.array([len(shares) for shares in column_shares])
    alike = param.copy()
    states = states_of_leaves(leaves, n_states)
    alike[states.param] = np.log(np.concatenate([np.empty(0), *column_shares]))[states.state]
    count = like_column * _described_share(leaves, alike, n_states)
    categorical = np.repeat(leaves.family == CATEGORICAL, np.diff(leaves.param_ptr))
    count[categorical] += as_learned * np.exp(param[categorical])
    return count


def log_prior(leaves: Leaves, param: Floats, columns: Columns, prior: Prior) -> float:
    """Log-likelihood (nats) of the pseudo-counts that :func:`updated_param` adds."""
    states = states_of_leaves(leaves, columns.n_states).param
    # A state of probability zero would add zero times infinity.
    states = states[param[states] > -np.inf]
    total = prior.weight[states] @ param[states]
    for formula, leaf, rows in formula_params(leaves, param):
        prior_of_cells = prior.at(_param_places(leaves, leaf, formula)[0], leaves.var[leaf])
        total += prior_of_cells.weight @ formula.log_prior(*rows, prior_of_cells)
    for gaussians_of_scope in multivariate_gaussians(leaves, param, columns.n_states):
        prior_of_rows = prior.at(
            gaussians_of_scope.positions(leaves)[:, 0], gaussians_of_scope.variables
        )
        total += prior_of_rows.weight @ gaussians_of_scope.log_prior(prior_of_rows)
    return float(total)


def forms_of(
    leaves: Leaves, param: Floats, columns: Columns, var: int, leaf: Ints | None = None
) -> Any:
    """The distributions of all leaves of a variable, in the order of the nodes (a Form).

    ``leaf`` chooses some of those that have the variable alone.
    """
    family = int(columns.family[var])
    n_states = int(columns.n_states[var])
    entry = np.flatnonzero(leaves.scope == var) if leaf is None else leaves.scope_ptr[leaf]
    leaf = leaves.owner[entry] if leaf is None else leaf
    if family == SCORED:
        return _scored_form(leaves, param, columns, entry, leaf)
    if family in FORMULAS:
        formula = FORMULAS[family]
        return formula.form(*param[_param_places(leaves, leaf, formula)])
    prob = np.exp(param[leaves.param_ptr[leaf][:, np.newaxis] + np.arange(n_states)])
    return over_states(columns, var, prob)


def _scored_form(
    leaves: Leaves, param: Floats, columns: Columns, entry: Ints, leaf: Ints
) -> ScoredNormals:
    """Leaves with atoms and scores, and the entries of a variable in their scopes."""
    var = int(leaves.scope[entry[0]])
    begin = leaves.scope_ptr[leaf]
    end = leaves.scope_ptr[leaf + 1]
    first_param = leaves.param_ptr[leaf]
    n_states = offsets(columns.n_states[leaves.scope])
    # The states of earlier variables of the scope come before those of this one.
    states = first_param + n_states[entry] - n_states[begin]
    prob = np.exp(param[states[:, np.newaxis] + np.arange(columns.n_states[var])])
    # Moments come behind the states of all variables of the scope.
    means = first_param + n_states[end] - n_states[begin]
    place = entry - begin
    size = end - begin
    # A leaf of one variable has a standard deviation where others have a matrix of variances.
    spread = param[means + size + place * (size + 1)]
    sd = np.where(leaves.family[leaf] == BLOCK, np.sqrt(spread), spread)
    bulk = Normals(param[means + place], sd, prob[:, -1])
    return ScoredNormals(columns.axis_of(var), prob[:, :-1], bulk)


def known_cells(columns: Columns, var: int, values: Floats) -> Form:
    """Distributions that have all their mass on one value each; on its score if it has one."""
    if is_category(columns, var):
        codes = np.arange(float(columns.n_states[var]))
        return Points(codes, (values[:, np.newaxis] == codes).astype(np.float64))
    return Normals(kernel_cells(columns, var, values), np.zeros(len(values)))


def kernel_cells(columns: Columns, var: int, values: Floats) -> Floats:
    """Cells of a variable on the scale on which kernels compare them: their scores, if any."""
    return columns.axis_of(var).transform(values) if columns.family[var] == SCORED else values


def posterior_lines(leaves: Leaves, param: Floats, columns: Columns, wanted: Any) -> Lines:
    """What the posteriors of some variables (marked in ``wanted``) are put together from.

    Leaves of states share the states of their variable; of all other leaves each has a line.
    """
    are_states = only_states(leaves)
    is_wanted = np.add.reduceat(np.asarray(wanted)[leaves.scope], leaves.scope_ptr[:-1]) > 0
    # Leaves of states have a feature for each state; any other leaf has the constant one.
    sizes = np.where(are_states, leaves.n_states, 1)
    feature = np.ones(sizes.sum())
    chosen = np.repeat(are_states, np.diff(leaves.param_ptr))
    feature[np.repeat(are_states, sizes)] = np.exp(param[chosen])
    is_kept_feature = np.repeat(is_wanted, sizes)
    has_states = np.isin(columns.family, WITH_STATES_ALONE) & wanted
    ptr = offsets(np.where(has_states, columns.n_states, 0))
    alone = is_wanted & ~are_states
    first_line = np.where(are_states, ptr[leaves.var], ptr[-1] + np.cumsum(alone) - 1)
    n_lines = int(ptr[-1] + alone.sum())
    return Lines(
        offsets(np.where(is_wanted, sizes, 0)), feature[is_kept_feature], first_line, n_lines
    )


def lines_of(leaves: Leaves, columns: Columns, lines: Lines, var: int) -> Ints:
    """The lines from which the posterior of a variable is put together."""
    leaf = leaves.with_variable(var)
    if columns.family[var] in WITH_STATES_ALONE:
        # The leaves of states share their lines, so that any leaf of them knows all.
        return lines.first[leaf[0]] + np.arange(columns.n_states[var])
    return lines.first[leaf]


def posterior_form(
    leaves: Leaves, param: Floats, columns: Columns, var: int, prob: Floats, given: Any = None
) -> Form:
    """The distributions of a variable with these averages of its lines, shape (n, n_lines).

    ``given`` lists, where leaves of several variables are among its leaves, their places in these,
    and the means and standard deviations of the scores given each row, shape (n_leaves, n).
    """
    if columns.family[var] in WITH_STATES_ALONE:
        return over_states(columns, var, prob)
    form = forms_of(leaves, param, columns, var).mixed(prob)
    return form if given is None else form.given(*given)


def is_category(columns: Columns, var: int) -> bool:
    """Whether a variable has states without an order, and no numbers."""
    return bool(columns.n_states[var] and columns.axis_ptr[var] == columns.axis_ptr[var + 1])


def needed_cell(columns: Columns, var: int) -> str:
    """What a cell of a variable must be, in words."""
    if is_category(columns, var):
        return f"one of the states 0..{columns.n_states[var] - 1}"
    formula = FORMULAS.get(int(columns.family[var]))
    return "a finite number" if formula is None else str(formula.CELL)
