"""How strongly are the tables of a cutset network smoothed? The rows decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.counting import Rows, WeightedRows, node_rows
from skpc.learning._levels import trees_along_shared_edges
from skpc.learning.network import CutsetNetwork, node_priors
from skpc.learning.network_cells import Codes, NetworkCells

#: Equivalent sample sizes to choose from.
PARAM_ESS = np.geomspace(0.1, 100.0, 13)
#: Free parameters for each row beyond which trees fit their own rows too well for a choice by these
#: rows: left out one at a time, they lost up to 18 nats a row on the Twenty Datasets.
_MOST_PARAMETERS = 0.1
#: Parts that are held out in turn, until there have been enough held-out rows.
_N_PARTS = 4
_ENOUGH_ROWS = 1000


def choose_param_ess(
    network: CutsetNetwork,
    codes: Codes,
    weight: Floats,
    structured: bool = False,
    shown: Codes | None = None,
) -> float:
    """Choose the equivalent sample size of a network's parameters.

    Where there are ten rows or more for each free parameter, it is the one of greatest
    leave-one-out likelihood, which follows from the counts. Elsewhere, trees learned from three
    quarters of the rows, below the same cuts, predict the last quarter; each quarter in turn, until
    a thousand rows have been held out.

    Parameters
    ----------
    network : CutsetNetwork
        A network that was learned from the rows.
    codes : array of shape (n_rows, n_features)
        States of complete rows.
    weight : array of shape (n_rows,)
        Their weights; a row of weight n counts as n rows.
    structured : bool, default=False
        Whether the trees of all leaves have the same edges.
    shown : array of shape (n_rows, n_features), default=None
        The states before missing cells were filled, -1 where they are missing: only what is shown
        counts. What fills a cell is easier to predict than what would have been there, and tables
        would seem to have more rows than they have.

    Returns
    -------
    float
        One of :data:`PARAM_ESS`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.learning import choose_param_ess, learn_cutset_network
    >>> codes = np.random.default_rng(0).integers(0, 2, (200, 3)).astype(np.int16)
    >>> network = learn_cutset_network(codes, np.ones(200), np.array([2, 2, 2]))
    >>> round(choose_param_ess(network, codes, np.ones(200)), 2)
    100.0
    """
    if network.n_parameters <= _MOST_PARAMETERS * weight.sum():
        return float(PARAM_ESS[np.argmax(leave_one_out(network, codes, weight, PARAM_ESS, shown))])
    total, n_held = np.zeros(len(PARAM_ESS)), 0.0
    shown = codes if shown is None else shown
    for kept, held in quarters(weight):
        some, test = kept > 0, held > 0
        relearned = relearned_trees(network, codes[some], kept[some], structured)
        cells = NetworkCells.of(relearned)
        counts = cells.counts(codes[some], kept[some], shown[some])
        test_counts = cells.counts(codes[test], held[test], shown[test])
        total += _log_likelihood(cells, test_counts, counts, cells.row_sums(counts), PARAM_ESS)
        n_held += held.sum()
        if n_held >= _ENOUGH_ROWS:
            break
    return float(PARAM_ESS[np.argmax(total)])


def leave_one_out(
    network: CutsetNetwork,
    codes: Codes,
    weight: Floats,
    param_ess: Floats,
    shown: Codes | None = None,
) -> Floats:
    """Log-likelihood (nats) of rows, each under tables from which it has been removed.

    The structure stays. Where weights are not whole, the rows of a cell lose their mean weight.

    Parameters
    ----------
    network, codes, weight, shown
        See :func:`choose_param_ess`.
    param_ess : array of shape (n,)
        Equivalent sample sizes.

    Returns
    -------
    ndarray of shape (n,)
        Summed over the rows.
    """
    cells = NetworkCells.of(network)
    count = cells.counts(codes, weight, shown)
    one_row = cells.counts(codes, weight * _weight_of_one(weight), shown)
    total = cells.row_sums(count)
    others = count - one_row / np.where(count > 0, count, 1.0)
    others_in_row = total - cells.row_sums(one_row) / np.where(total > 0, total, 1.0)
    return _log_likelihood(cells, count, others, others_in_row, param_ess)


def quarters(weight: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Weights of the rows to learn from and of those held out, each quarter in turn.

    The draws are always the same, so that learning is deterministic.
    """
    copies = np.ceil(weight).astype(np.int64)
    of_part = np.random.default_rng(0).multinomial(copies, np.full(_N_PARTS, 1.0 / _N_PARTS))
    for part in of_part.T:
        held = _weight_of_one(weight) * part
        if (part > 0).any() and (part < copies).any():
            yield np.where(part < copies, weight - held, 0.0), held


def relearned_trees(
    network: CutsetNetwork, codes: Codes, weight: Floats, structured: bool
) -> CutsetNetwork:
    """The cuts of a network, above trees that are learned from other, complete rows."""
    varied = network.varied
    codes, n_states = np.ascontiguousarray(codes[:, varied]), network.n_states[varied]
    if structured:
        at_leaves = _rows_at_leaves(network, WeightedRows(codes, weight, varied, n_states))
        nodes, leaves = zip(*at_leaves)
        trees, _ = trees_along_shared_edges(list(leaves), node_priors(network, network.prior)[-1])
        learned = dict(zip(network.leaf[list(nodes)].tolist(), trees))
    else:
        priors = node_priors(network, network.prior)
        learned = {}
        for node, rows in _rows_at_leaves(network, node_rows(codes, weight, n_states, varied)):
            # One tree may serve many branches without rows.
            if int(network.leaf[node]) not in learned:
                learned[int(network.leaf[node])] = rows.tree(priors[node]).tree
    return replace(network, trees=tuple(learned[i] for i in range(len(network.trees))))


def _rows_at_leaves(network: CutsetNetwork, rows: Rows) -> Iterator[tuple[int, Any]]:
    """The leaves and their rows."""
    at_node = {0: rows}
    for node in range(network.n_nodes):
        node_rows = at_node.pop(node)
        branches = network.branches(node)
        if len(branches) == 0:
            yield node, node_rows
            continue
        column = int(np.searchsorted(node_rows.variables, network.variable[node]))
        # No cell is missing, so that no row is divided.
        undivided = np.ones(len(branches))
        for state, branch in enumerate(branches.tolist()):
            at_node[branch] = node_rows.branch(column, state, undivided)


def _weight_of_one(weight: Floats) -> Floats:
    """Weight of each of the rows that a row stands for: one where it is whole."""
    return weight / np.ceil(weight)


def _log_likelihood(
    cells: NetworkCells, test: Floats, count: Floats, count_in_row: Floats, param_ess: Floats
) -> Floats:
    """Log-likelihood (nats) of counts under tables smoothed from others, for each sample size."""
    test_in_row, even_in_row = cells.row_sums(test), cells.row_sums(cells.even)
    cell, row = test > 0, test_in_row > 0
    # Rounding must not leave less than nothing.
    count, count_in_row = np.maximum(count[cell], 0.0), np.maximum(count_in_row[row], 0.0)
    test, even = test[cell], cells.even[cell]
    test_in_row, even_in_row = test_in_row[row], even_in_row[row]
    by_ess = [
        test @ np.log(count + ess * even) - test_in_row @ np.log(count_in_row + ess * even_in_row)
        for ess in param_ess
    ]
    return np.array(by_ess)
