"""The M-step of leaves, and the pseudo-counts that it adds to their statistics."""

from collections.abc import Sequence

import numpy as np

from skpc._arrays import Floats, Ints, log_or_inf
from skpc.variables import gaussian
from skpc.variables.blocks import block_leaves
from skpc.variables.families import BLOCK, CATEGORICAL, SCORED
from skpc.variables.leaf_tables import (
    entry_places,
    formula_params,
    missing_entry,
    param_places,
    prob_of_formula,
)
from skpc.variables.leaves import Columns, Leaves, Prior, states_of_leaves


def updated_param(
    leaves: Leaves, param: Floats, columns: Columns, statistic: Floats, prior: Prior
) -> Floats:
    """The M-step of all leaves: the parameters that maximise the penalised expected score.

    ``statistic`` has the layout of the tables, and ``prior.weight`` that of the parameters: the
    pseudo-count of each state, and the one of a formula at each of its parameters.
    """
    updated = param.copy()
    states = states_of_leaves(leaves, columns.n_states)
    # Blocks have shared their missing cells among the states already.
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
        position = param_places(leaves, leaf, formula)
        counts = statistic[entry_places(leaves, leaf, formula)]
        # A missing cell may be an atom: it counts with the probability that it has a score.
        missing = statistic[missing_entry(leaves)[leaf]]
        counts[-1] = missing * prob_of_formula(leaves, param, leaf)
        updated[position] = formula.updated(counts, rows, prior.at(position[0], leaves.var[leaf]))
    # No leaf of scores is narrower than half a cell of the lattice, or than its column allows.
    for var, leaf in leaves.alone():
        if columns.family[var] == SCORED:
            mean, sd = param_places(leaves, leaf, gaussian)
            smallest = columns.axis_of(var).smallest_sds(updated[mean])
            updated[sd] = np.maximum(updated[sd], smallest)
    for block in block_leaves(leaves, param, columns.n_states):
        place = block.positions(leaves)
        prior_of_rows = prior.at(place[:, 0], block.variables)
        updated[place] = block.updated(leaves, statistic, prior_of_rows)
    return updated


def uniform_param(
    leaves: Leaves, param: Floats, columns: Columns, column_shares: Sequence[Floats] | None = None
) -> Floats:
    """Parameters with equal probabilities of the possible states; those of formulas stay.

    With ``column_shares``, the probabilities of the states of each variable, the possible states of
    a leaf have probabilities in proportion to these.
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
    """Expected counts of missing cells, in the shape of the parameters.

    ``weight``, of shape (n_leaves,), is the number of the missing cells at each leaf.
    """
    count = np.repeat(weight, np.diff(leaves.param_ptr))
    return count * _described_share(leaves, param, n_states)


def _described_share(leaves: Leaves, param: Floats, n_states: Ints) -> Floats:
    """Probability of the cells that each parameter describes, in the shape of the parameters."""
    share = np.ones(len(param))
    states = states_of_leaves(leaves, n_states).param
    share[states] = np.exp(param[states])
    for formula, leaf, _ in formula_params(leaves, param):
        share[param_places(leaves, leaf, formula)] = prob_of_formula(leaves, param, leaf)
    return share


def counts_like_columns(
    leaves: Leaves,
    param: Floats,
    column_shares: list[Floats],
    like_column: float,
    as_learned: float,
) -> Floats:
    """Pseudo-counts of cells distributed like the columns, in the shape of the parameters.

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
    # States of probability zero are left out: they would add zero times infinity.
    states = states[param[states] > -np.inf]
    total = prior.weight[states] @ param[states]
    for formula, leaf, rows in formula_params(leaves, param):
        prior_of_cells = prior.at(param_places(leaves, leaf, formula)[0], leaves.var[leaf])
        total += prior_of_cells.weight @ formula.log_prior(*rows, prior_of_cells)
    for block in block_leaves(leaves, param, columns.n_states):
        prior_of_rows = prior.at(block.positions(leaves)[:, 0], block.variables)
        total += prior_of_rows.weight @ block.log_prior(prior_of_rows)
    return float(total)
