"""How strongly are parameters smoothed? Rows decide for networks; SoftLearn has its counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc.circuit import Circuit
from skpc.counting.rows import Rows, node_rows
from skpc.learning.cutset import trees_along_shared_edges
from skpc.learning.held_out import Split
from skpc.learning.network import CutsetNetwork, cutset_circuit, node_priors
from skpc.queries import PseudoCounts, uniform_pseudo_counts
from skpc.queries.passes.induced import count_entries, entries_of
from skpc.queries.passes.rows import leaf_cells
from skpc.variables.leaf_queries import counts_like_columns

Codes = NDArray[np.int16]

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
        counts, the states of a variable where neither it nor the one above it is missing. What
        fills a cell is easier to predict than what would have been there, and tables would seem to
        have more rows than they have.

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
    log_likelihood, n_held = np.zeros(len(PARAM_ESS)), 0.0
    shown = codes if shown is None else shown
    for kept, held in quarters(weight):
        some = kept > 0
        tables = _Tables.from_network(relearned_trees(network, codes[some], kept[some], structured))
        counts = tables.counts(codes[some], kept[some], shown[some])
        held_out = tables.counts(codes[held > 0], held[held > 0], shown[held > 0])
        totals = tables.totals(counts)
        log_likelihood += tables.log_likelihood(held_out, counts, totals, PARAM_ESS)
        n_held += held.sum()
        if n_held >= _ENOUGH_ROWS:
            break
    return float(PARAM_ESS[np.argmax(log_likelihood)])


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
    tables = _Tables.from_network(network)
    count = tables.counts(codes, weight, shown)
    whole, of_one = _weight_of_one(weight), count
    if (whole != 1.0).any():
        of_one = tables.counts(codes, weight * whole, shown)
    return _without_one(tables, count, of_one, param_ess)


class _Tables(NamedTuple):
    """The tables of a network as the entries of its circuit, end to end.

    ``first`` is where each distribution begins, ``even`` the pseudo-count of each entry at an
    equivalent sample size of one.
    """

    circuit: Circuit
    first: Ints
    even: Floats

    @classmethod
    def from_network(cls, network: CutsetNetwork) -> _Tables:
        """The tables in the order of the circuit."""
        circuit = cutset_circuit(network, param_ess=1.0)
        even, first = entries_of(circuit, *uniform_pseudo_counts(circuit, 1.0))
        return cls(circuit, first, even)

    def counts(self, codes: Codes, weight: Floats, shown: Codes | None = None) -> Floats:
        """Weight of complete rows in each entry; of what is shown where that is given."""
        marks = None if shown is None else shown >= 0
        return count_entries(self.circuit, codes.astype(np.float64), weight, marks)

    def totals(self, counts: Floats) -> Floats:
        """Sums over the entries of each distribution."""
        return np.asarray(np.add.reduceat(counts, self.first))

    def log_likelihood(
        self, held_out: Floats, counts: Floats, totals: Floats, param_ess: Floats
    ) -> Floats:
        """Log-likelihood (nats) of held-out counts, for each sample size.

        The tables are smoothed from ``counts``, and ``totals`` of these in each distribution.
        """
        held_out_totals, even_totals = self.totals(held_out), self.totals(self.even)
        entry, distribution = held_out > 0, held_out_totals > 0
        # Rounding must not leave less than nothing.
        counts, totals = np.maximum(counts[entry], 0.0), np.maximum(totals[distribution], 0.0)
        held_out, even = held_out[entry], self.even[entry]
        held_out_totals, even_totals = held_out_totals[distribution], even_totals[distribution]
        return np.array(
            [
                held_out @ np.log(counts + ess * even)
                - held_out_totals @ np.log(totals + ess * even_totals)
                for ess in param_ess
            ]
        )


def _without_one(tables: _Tables, count: Floats, of_one: Floats, param_ess: Floats) -> Floats:
    """Log-likelihood (nats) of counts under tables from which each row has been removed."""
    total = tables.totals(count)
    others = count - of_one / np.where(count > 0, count, 1.0)
    others_in_all = total - tables.totals(of_one) / np.where(total > 0, total, 1.0)
    return tables.log_likelihood(count, others, others_in_all, param_ess)


def quarters(weight: Floats) -> Iterator[Split]:
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
    varied, priors = network.varied, node_priors(network, network.prior)
    codes, n_states = np.ascontiguousarray(codes[:, varied]), network.n_states[varied]
    rows = node_rows(codes, weight, n_states, varied, as_bits=not structured)
    at_leaves = (
        (int(network.leaf[node]), node, rows) for node, rows in _rows_at_leaves(network, rows)
    )
    if structured:
        leaves, _, groups = zip(*at_leaves)
        learned = dict(zip(leaves, trees_along_shared_edges(groups, priors[-1]).trees))
    else:
        learned = {}
        for leaf, node, rows in at_leaves:
            # One tree may serve many branches without rows.
            if leaf not in learned:
                learned[leaf] = rows.tree(priors[node]).tree
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


def refinement_pseudo_counts(
    circuit: Circuit,
    rows: Floats,
    weight: Floats,
    *,
    per_edge: float,
    like_column: float,
    as_learned: float,
) -> PseudoCounts:
    """Pseudo-counts that hold a leaf near the shares of its column, and near its own as learned.

    Parameters
    ----------
    circuit : Circuit
        A circuit of SoftLearn.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Their weights.
    per_edge : float
        Count of each weight.
    like_column : float
        Cells of each leaf that are distributed like the rows in its column.
    as_learned : float
        Cells of each categorical leaf that are distributed like the leaf itself.

    Returns
    -------
    PseudoCounts
        To be passed to :func:`skpc.queries.fit_parameters`.
    """
    codes = leaf_cells(circuit, rows)[0]
    shares = [_shares(cells, weight, count) for cells, count in zip(codes.T, circuit.n_states)]
    param = counts_like_columns(
        circuit.structure.leaves, circuit.param, shares, like_column, as_learned
    )
    return PseudoCounts(np.full(circuit.n_edges, per_edge), param)


def _shares(codes: Ints, weight: Floats, n_states: int) -> Floats:
    """Shares of the states in a column, all positive; empty for a column without states."""
    if not n_states:
        return np.empty(0)
    observed = codes >= 0
    counts = 1.0 + np.bincount(codes[observed], weight[observed], n_states)
    return counts / counts.sum()
