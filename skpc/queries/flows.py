"""Expected counts: how many rows use each edge and leaf, the pseudo-counts of EM, the BD score."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skpc._arrays import Floats, Ints, offsets
from skpc._fitting import Statistics
from skpc._validation import check_weight
from skpc.circuit import SUM, Circuit
from skpc.queries.passes.downward import Collected, flow_down
from skpc.queries.passes.induced import (
    LEAST_EDGES_FOR_COUNTS,
    flow_through,
    induced_statistics,
    walk_plan,
)
from skpc.queries.passes.rows import check_rows, over_chunks
from skpc.queries.passes.upward import Evaluator, refuse_impossible
from skpc.variables import Columns, Leaves
from skpc.variables.leaf_updates import missing_counts, uniform_param
from skpc.variables.leaves import states_of_leaves


@dataclass(frozen=True, eq=False)
class ExpectedStatistics(Statistics):
    """Expected edge counts and leaf statistics, with the log-likelihood of the rows."""

    edge_flow: Floats
    leaf_statistic: Floats
    log_likelihood: float


def flows(circuit: Circuit, X: Any, sample_weight: Any = None) -> Floats:
    """Expected number of rows that pass each edge.

    A row is divided among the children of a sum in proportion to their posterior probability, and
    goes to all children of a product.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks missing cells.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows; None counts each row once.

    Returns
    -------
    ndarray of shape (n_edges,)
        Expected counts. If the root is a sum, the counts of its edges add up to the total weight.

    Raises
    ------
    ValueError
        If a row has probability zero, or cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import flows
    >>> builder = CircuitBuilder(n_states=[2])
    >>> zero, one = builder.indicator(0, 0), builder.indicator(0, 1)
    >>> _ = builder.sum([zero, one], np.log([0.5, 0.5]))
    >>> flows(builder.build(), [[0.0], [1.0], [1.0], [np.nan]])
    array([1.5, 2.5])
    """
    rows = check_rows(circuit, X)
    return expected_statistics(circuit, rows, check_weight(sample_weight, len(rows))).edge_flow


def expected_statistics(
    circuit: Circuit, rows: Floats, weight: Floats, observed: NDArray[np.bool_] | None = None
) -> ExpectedStatistics:
    """The E-step: expected counts of edges and statistics of leaves.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, as returned by ``check_rows``.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    observed : bool ndarray of shape (n_rows, n_features), default=None
        Which cells were observed, not filled. A state counts where its variable and the variable
        that decides above it were observed; see :func:`skpc.queries.passes.induced.count_entries`.
        Only for complete rows and circuits with a plan of the walk.

    Returns
    -------
    ExpectedStatistics
        Edge counts in the order of the edges, leaf statistics in the layout of the leaf tables,
        and the weighted sum of the rows' log-likelihoods (nats).
    """
    # Complete rows follow their induced trees where this is faster than a pass over all edges.
    complete = np.array(~np.isnan(rows).any(axis=1), dtype=np.bool_)
    if observed is None and walk_plan(circuit, LEAST_EDGES_FOR_COUNTS) is None:
        complete[:] = False
    parts = []
    if complete.any():
        index = np.flatnonzero(complete)
        observed_part = None if observed is None else observed[index]
        edges, leaves, log_density = induced_statistics(
            circuit, rows[index], weight[index], observed_part
        )
        refuse_impossible(log_density, index)
        parts.append(ExpectedStatistics(edges, leaves, float(weight[index] @ log_density)))
    # A table without rows has statistics, too: zeros of the right shapes.
    if not complete.all() or not len(rows):
        parts.append(_statistics_of_all_edges(circuit, rows, weight, ~complete))
    return reduce(add, parts)


def _statistics_of_all_edges(
    circuit: Circuit, rows: Floats, weight: Floats, chosen: NDArray[np.bool_]
) -> ExpectedStatistics:
    """The E-step of the chosen rows by a pass over all edges."""
    index = np.flatnonzero(chosen)
    rows = rows[index]
    weight = weight[index]
    # Lines of one entry stay in the cache.
    evaluator = Evaluator(circuit, size=1 if len(rows) == 1 else None)
    n_arguments = len(evaluator.plan.arg)
    n_entries = len(evaluator.tables.log_table)

    def work(part: Floats, start: int) -> tuple[Floats, Floats, float]:
        # Each chunk adds up by itself, so that threads can take several at once.
        into = Collected(np.zeros(n_arguments), np.zeros(n_entries))
        total = 0.0
        flow = evaluator.flows()
        block_flow = np.zeros((len(part), evaluator.reader.n_blocks))
        for batch in evaluator.batches(part, start, refuse=False):
            # Only logs can tell an impossible row from a very improbable one.
            if batch.in_logs:
                refuse_impossible(batch.root, index[start + batch.position])
            evaluated = batch.evaluated
            # Rows that are too improbable for this batch have no weight in it.
            row_weight = np.zeros(len(batch.position))
            row_weight[evaluated] = weight[start + batch.position[evaluated]]
            total += float(row_weight[evaluated] @ batch.root[evaluated])
            # Each row enters the root with its weight, and is divided from there on.
            flow[evaluator.plan.slot[-1], : len(row_weight)] = row_weight
            state = (batch.cells, len(row_weight), batch.lines, flow, batch.in_logs)
            flow_down(evaluator.plan, evaluator.tables, *state, into)
            # Blocks have two lines each: their value, and the flow that has reached them.
            flow_lines = slice(circuit.n_features + 1, len(batch.cells.codes), 2)
            batch_flow = batch.cells.values[flow_lines, : len(row_weight)]
            block_flow[batch.position] += batch_flow.T
        evaluator.reader.add_statistics(part, block_flow, into.statistic)
        return into.edge_flow, into.statistic, total

    # Chunks are added up in their order, so that threads do not change the sums.
    parts = over_chunks(rows, work)
    # The last entry takes the argument of a root that is a leaf, which is no edge.
    edge_flow = np.zeros(circuit.n_edges + 1)
    edge_flow[evaluator.program.edge] = sum(part[0] for part in parts)
    statistic = sum((part[1] for part in parts), np.zeros(n_entries))
    return ExpectedStatistics(edge_flow[:-1], statistic, sum(part[2] for part in parts))


class PseudoCounts(NamedTuple):
    """Counts that EM adds to the expected ones.

    ``edge`` has shape (n_edges,). ``param`` has the shape of the leaf parameters: the counts of
    states; for both parameters of a Gaussian, a number of cells distributed like the column.
    """

    edge: Floats
    param: Floats


def uniform_pseudo_counts(
    circuit: Circuit, n_rows: float, of_columns: Sequence[Floats] | None = None
) -> PseudoCounts:
    """Pseudo-counts of rows of missing cells, divided evenly at every sum and leaf.

    For a cutset network these are the nested counts of its Dirichlet prior with the equivalent
    sample size ``n_rows``: a cut divides them by its branches, a table by its cells.

    Parameters
    ----------
    circuit : Circuit
        The structure, and which weights and states are possible.
    n_rows : float
        The number of rows.
    of_columns : sequence of ndarray, default=None
        For each variable the probabilities of its states, all positive. Leaves, and sums that
        decide on a variable, divide rows in proportion to these; other sums divide them evenly.

    Returns
    -------
    PseudoCounts
        To be passed to :func:`fit_parameters`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import uniform_pseudo_counts
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.1, 0.9]))
    >>> uniform_pseudo_counts(builder.build(), 3.0).param
    array([1.5, 1.5])
    """
    return pseudo_counts_from(_evenly_spread(circuit, of_columns), n_rows)


def pseudo_counts_from(circuit: Circuit, n_rows: float) -> PseudoCounts:
    """Pseudo-counts that stand for rows distributed like a circuit.

    Parameters
    ----------
    circuit : Circuit
        Its structure is that of the circuit to be fitted.
    n_rows : float
        The number of these rows.

    Returns
    -------
    PseudoCounts
        To be passed to :func:`fit_parameters`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries.flows import pseudo_counts_from
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.1, 0.9]))
    >>> pseudo_counts_from(builder.build(), 3.0).param.round(1)
    array([0.3, 2.7])
    """
    # The weights alone divide a row whose cells are all missing.
    node_flow = np.zeros(circuit.n_nodes)
    node_flow[-1] = n_rows
    edge_flow = np.zeros(circuit.n_edges)
    flow_through(circuit.structure, np.exp(circuit.log_weight), edge_flow, node_flow)
    leaves, param, _ = leaf_facts(circuit)
    counts = missing_counts(leaves, param, circuit.n_states, node_flow[leaves.node])
    return PseudoCounts(edge_flow, counts)


def _evenly_spread(circuit: Circuit, of_columns: Sequence[Floats] | None) -> Circuit:
    """The same structure, all possible children of a sum, and states of a leaf, equally probable.

    Probabilities of states take the place of equal ones; see :func:`uniform_pseudo_counts`.
    """
    structure = circuit.structure
    parent = circuit.edge_parent
    # Impossible edges get no share.
    share = (circuit.log_weight > -np.inf).astype(np.float64)
    if of_columns is not None:
        variable = structure.decision_var[parent]
        # The place of the decided state among the states of all variables, end to end.
        state = offsets(circuit.n_states)[:-1][variable] + structure.decision_state
        decides = variable >= 0
        share[decides] *= np.concatenate(of_columns)[state[decides]]
    # (n_edges,): the shares of all edges that leave the same node.
    total = np.bincount(parent, share, circuit.n_nodes)[parent]
    is_weight = (circuit.kind[parent] == SUM) & (share > 0.0)
    log_weight = circuit.log_weight.copy()
    log_weight[is_weight] = np.log(share[is_weight] / total[is_weight])
    param = uniform_param(*leaf_facts(circuit), of_columns)
    return circuit.with_parameters(log_weight=log_weight, param=param)


def leaf_facts(circuit: Circuit) -> tuple[Leaves, Floats, Columns]:
    """The three arguments that functions about leaves take: leaves, parameters and variables."""
    return circuit.structure.leaves, circuit.param, circuit.columns


def possible_weights(circuit: Circuit) -> NDArray[np.bool_]:
    """Which edges have a weight in a sum that is not zero, shape (n_edges,)."""
    return (circuit.kind[circuit.edge_parent] == SUM) & (circuit.log_weight > -np.inf)


def bd_score(circuit: Circuit, X: Any, sample_weight: Any = None, *, ess: float = 0.1) -> float:
    """Bayes-Dirichlet score: log marginal likelihood of rows, all parameters integrated out.

    Every sum and every leaf of the deterministic circuit has a Dirichlet prior with the
    pseudo-counts of `uniform_pseudo_counts`: the equivalent sample size at the root is divided
    evenly at every sum and leaf, as in the BDeu score of a Bayesian network. Weights and states of
    probability zero stay impossible; the other parameters do not matter.

    Parameters
    ----------
    circuit : Circuit
        The structure: deterministic, over categories.
    X : array-like of shape (n_rows, n_features)
        Encoded rows without missing cells.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows, not necessarily whole numbers; None counts each row once.
    ess : float, default=0.1
        Equivalent sample size at the root: how many rows the prior is worth. Positive.

    Returns
    -------
    float
        The score of all rows together, in nats.

    Raises
    ------
    ValueError
        If the circuit is not deterministic or has numbers, or has been conditioned; if a cell is
        missing, a row is impossible, weights do not match the rows or `ess` is not positive.

    Examples
    --------
    A coin that showed heads twice: 1/2 times 2/3.

    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import bd_score
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.5, 0.5]))
    >>> round(float(np.exp(bd_score(builder.build(), [[0.0], [0.0]], ess=2.0))), 6)
    0.333333
    """
    _check_structure(circuit, ess)
    rows = check_rows(circuit, X)
    if np.isnan(rows).any():
        row, column = np.argwhere(np.isnan(rows))[0]
        raise ValueError(
            f"bd_score needs complete rows, but X[{row}, {column}] is missing: without it the "
            "marginal likelihood has no closed form"
        )
    prior = uniform_pseudo_counts(circuit, ess)
    counts = expected_statistics(circuit, rows, check_weight(sample_weight, len(rows)))
    # Impossible edges have no counts, whose log gamma would be infinite.
    is_weight = possible_weights(circuit)
    parent = circuit.edge_parent[is_weight]
    score = _log_marginal(
        prior.edge[is_weight], counts.edge_flow[is_weight], parent, circuit.n_nodes
    )
    leaves = circuit.structure.leaves
    # Tables of leaves have entries for missing cells, too, which are no states.
    states = states_of_leaves(leaves, circuit.n_states)
    possible = circuit.param[states.param] > -np.inf
    owner = np.repeat(states.leaf, states.size)[possible]
    pseudo = prior.param[states.param]
    count = counts.leaf_statistic[states.entry]
    return score + _log_marginal(pseudo[possible], count[possible], owner, len(leaves.node))


def _log_marginal(pseudo: Floats, count: Floats, owner: Ints, n_owners: int) -> float:
    """Log marginal likelihood of Dirichlet-multinomial counts; summed over all distributions.

    ``owner`` has the number of the distribution that each count belongs to.
    """
    total = np.bincount(owner, pseudo, n_owners)
    counted = np.bincount(owner, count, n_owners)
    # Numbers without counts are nodes of other kinds, and gammaln(0) is infinite.
    has_counts = total > 0.0
    log_ratio = gammaln(total[has_counts]) - gammaln(total[has_counts] + counted[has_counts])
    return float(log_ratio.sum() + (gammaln(pseudo + count) - gammaln(pseudo)).sum())


def _check_structure(circuit: Circuit, ess: float) -> None:
    if not circuit.deterministic:
        raise ValueError(
            "bd_score needs a deterministic circuit, but this one has a sum that decides on no "
            "variable: its marginal likelihood has no closed form"
        )
    check_categories(circuit, "bd_score needs")
    if not ess > 0.0:
        raise ValueError(f"ess must be positive, got {ess}")


def check_categories(circuit: Circuit, needs: str) -> None:
    """Refuse circuits over numbers, or that have been conditioned.

    Messages begin with ``needs``, such as "bd_score needs".
    """
    numeric = np.flatnonzero(~circuit.structure.is_categorical)
    if len(numeric):
        raise ValueError(f"{needs} a circuit over categories, but variable {numeric[0]} is numeric")
    known = np.flatnonzero(~np.isnan(circuit.observed))
    if len(known):
        raise ValueError(
            f"{needs} a circuit of all variables, but this one has been conditioned on variable "
            f"{known[0]}"
        )
