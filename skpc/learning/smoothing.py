"""Pseudo-counts of the parameters of circuits, and how many of them held-out rows ask for.

:func:`choose_param_ess` chooses the equivalent sample size of cutset networks. The other functions
make pseudo-counts that know of missing cells, or of leaves that have been learned.
"""

from collections.abc import Callable

import numpy as np

from skpc._arrays import Bools, Codes, Floats, Ints, group_sums, offsets, owners
from skpc.circuit import Circuit
from skpc.counting.column_laws import evidence_factors, rows_like_columns
from skpc.learning.categorical import state_counts
from skpc.learning.held_out import quarters
from skpc.learning.network import CutsetNetwork, cutset_circuit
from skpc.queries import PseudoCounts, uniform_pseudo_counts
from skpc.queries.flows import expected_statistics
from skpc.queries.parameters import ParametrisedCircuit
from skpc.queries.passes.induced import count_entries, values_by_entry
from skpc.queries.passes.rows import read_cells
from skpc.variables.leaf_tables import missing_entry, only_states
from skpc.variables.leaf_updates import counts_like_columns, missing_counts
from skpc.variables.leaves import states_of_leaves

#: Equivalent sample sizes to choose from.
PARAM_ESS = np.geomspace(0.1, 100.0, 13)


def choose_param_ess(
    network: CutsetNetwork,
    codes: Codes,
    weight: Floats,
    learn: Callable[..., CutsetNetwork],
    shown: Codes | None = None,
) -> float:
    """Choose the equivalent sample size of a network's parameters.

    Trees learned from three quarters of the rows, below the same cuts, predict the last quarter;
    each quarter in turn, until a thousand rows have been held out. The rows that trees were learned
    from would choose too little smoothing, even if their counts leave out one row at a time: that
    lost up to 18 nats a row on the Twenty Datasets.

    Parameters
    ----------
    network : CutsetNetwork
        A network that was learned from the rows.
    codes : array of shape (n_rows, n_features)
        States of complete rows.
    weight : array of shape (n_rows,)
        Their weights; a row of weight n counts as n rows.
    learn : callable
        Learned the network; takes the variables of the cuts as ``cuts``.
    shown : array of shape (n_rows, n_features), default=None
        The states before missing cells were filled, -1 where they are missing. A state then counts
        only where neither it nor that of the variable above is missing: filled cells are easier to
        predict than real ones. Pseudo-counts then have the proportions of the filled columns
        instead of being uniform.

    Returns
    -------
    float
        One of :data:`PARAM_ESS`.

    Examples
    --------
    >>> import numpy as np
    >>> from functools import partial
    >>> from skpc.learning.cutset import learn_cutset_network
    >>> from skpc.learning.smoothing import choose_param_ess
    >>> codes = np.random.default_rng(0).integers(0, 2, (200, 3)).astype(np.int16)
    >>> learn = partial(learn_cutset_network, n_states=np.array([2, 2, 2]))
    >>> network = learn(codes, np.ones(200))
    >>> round(choose_param_ess(network, codes, np.ones(200), learn), 2)
    100.0
    """
    log_likelihood = np.zeros(len(PARAM_ESS))
    is_shown = np.ones(codes.shape, bool)
    # Without missing cells, pseudo-counts are uniform.
    shares = None
    if shown is not None and (shown < 0).any():
        is_shown = shown >= 0
        shares = column_shares(codes, weight, network.n_states)
    for train_weight, held in quarters(weight):
        is_train = train_weight > 0
        train_codes = (codes if shown is None else shown)[is_train]
        circuit = cutset_circuit(learn(train_codes, train_weight[is_train], cuts=network.variable))
        learned, held_out = (
            count_entries(circuit, codes[rows].astype(np.float64), part[rows], is_shown[rows])
            for rows, part in ((is_train, train_weight), (held > 0, held))
        )
        unit_counts = uniform_pseudo_counts(circuit, 1.0, shares)
        log_likelihood += held_out_log_likelihood(
            circuit, learned, held_out, PARAM_ESS, unit_counts
        )
    return float(PARAM_ESS[np.argmax(log_likelihood)])


def held_out_log_likelihood(
    circuit: Circuit,
    learned: Floats,
    held_out: Floats,
    param_ess: Floats,
    unit_counts: PseudoCounts,
) -> Floats:
    """Log-likelihood (nats) of held-out counts under tables learned from other counts.

    Parameters
    ----------
    circuit : Circuit
        The circuit of a network.
    learned, held_out : ndarrays of shape (n_entries,)
        What :func:`skpc.queries.passes.induced.count_entries` counts.
    param_ess : ndarray of shape (n,)
        Equivalent sample sizes.
    unit_counts : PseudoCounts
        The pseudo-counts of an equivalent sample size of one.

    Returns
    -------
    ndarray of shape (n,)
    """
    added, table_begins = values_by_entry(circuit, *unit_counts)
    sizes = np.diff(table_begins, append=len(added))
    # Beside each entry stands the total of its table, shape (n_entries,).
    totals = [np.repeat(np.add.reduceat(part, table_begins), sizes) for part in (learned, added)]
    # Entries without held-out rows add nothing to the likelihood.
    is_held = held_out > 0
    count, pseudo_count, total, added_total = (part[is_held] for part in (learned, added, *totals))
    log_likelihoods = []
    for ess in param_ess:
        share = (count + ess * pseudo_count) / (total + ess * added_total)
        log_likelihoods.append(held_out[is_held] @ np.log(share))
    return np.array(log_likelihoods)


def learned_from_shown(
    circuit: Circuit, complete: Floats, weight: Floats, shown: Bools, param_ess: float
) -> tuple[Circuit, PseudoCounts]:
    """A circuit with parameters learned from observed cells, and its pseudo-counts.

    Filled cells divide rows at cuts, but are not counted. Pseudo-counts are rows with the
    proportions of the filled columns. The tables of a column with many missing cells have more of
    these rows: as many as help to predict each observed cell from the others.

    Parameters
    ----------
    circuit : Circuit
        The circuit of a network, or of a mixture of networks.
    complete : ndarray of shape (n_rows, n_features)
        Encoded rows whose missing cells have been filled.
    weight : ndarray of shape (n_rows,)
        Their weights.
    shown : bool ndarray of shape (n_rows, n_features)
        Which cells were observed, not filled.
    param_ess : float
        Equivalent sample size of the tables of complete columns.

    Returns
    -------
    Circuit, PseudoCounts
    """
    codes = read_cells(circuit.columns, complete)[0]
    shares = column_shares(codes, weight, circuit.n_states)
    base_counts = uniform_pseudo_counts(circuit, param_ess, shares)
    statistics = expected_statistics(circuit, complete, weight, shown)
    structure = circuit.structure
    parent = circuit.edge_parent
    leaves = structure.leaves
    decides = np.flatnonzero(structure.decision_var[parent] >= 0)
    states = states_of_leaves(leaves, circuit.n_states)
    leaf = np.repeat(states.leaf, states.size)
    # Entries (n_entries,) of the tables of decisions come first, then those of leaves; `owner` is
    # the table of an entry, `variable` its column.
    added = np.concatenate([base_counts.edge[decides], base_counts.param[states.param]])
    count = np.concatenate([statistics.edge_flow[decides], statistics.leaf_statistic[states.entry]])
    owner = np.concatenate([parent[decides], circuit.n_nodes + leaf])
    variable = np.concatenate([structure.decision_var[parent[decides]], leaves.var[leaf]])
    missing = np.average(~shown, axis=0, weights=weight)
    # Columns without missing cells keep their pseudo-counts.
    factor = 1.0 + missing * (evidence_factors(count, added, owner, variable) - 1.0)
    edge = base_counts.edge.copy()
    param = base_counts.param.copy()
    edge[decides] *= factor[structure.decision_var[parent[decides]]]
    param[states.param] *= factor[leaves.var[leaf]]
    prior = PseudoCounts(edge, param)
    model = ParametrisedCircuit.from_rows(circuit, complete, weight, prior)
    return model.m_step(statistics).circuit, prior


def drawn_to_columns(
    circuit: Circuit, rows: Floats, weight: Floats, pseudo_count: PseudoCounts
) -> tuple[Circuit, PseudoCounts]:
    """Smooth the leaves of columns with missing cells by rows that are like their columns.

    Parameters
    ----------
    circuit : Circuit
        A circuit that has been learned from the rows.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Their weights.
    pseudo_count : PseudoCounts
        The pseudo-counts of the circuit.

    Returns
    -------
    Circuit, PseudoCounts
        The smoothed circuit, and the pseudo-counts with those of :func:`rows_like_columns`.
    """
    leaves = circuit.structure.leaves
    param_counts = pseudo_count.param.copy()
    states = states_of_leaves(leaves, circuit.n_states)
    # Only leaves that are tables of states are smoothed: entries of these, shape (n_entries,).
    is_table = np.repeat(only_states(leaves)[states.leaf], states.size)
    if not is_table.any():
        return circuit, pseudo_count
    statistic = expected_statistics(circuit, rows, weight).leaf_statistic
    place = states.param[is_table]
    state = states.state[is_table]
    table = owners(states.size)[is_table]
    count = statistic[states.entry[is_table]]
    missing_weight = statistic[missing_entry(leaves)]
    missing = missing_counts(leaves, circuit.param, circuit.n_states, missing_weight)[place]
    # Rows that lack the cell belong to the leaf as well.
    mass = group_sums(table, count + missing, len(states.leaf))
    codes = read_cells(circuit.columns, rows)[0]
    share = np.concatenate(column_shares(codes, weight, circuit.n_states))
    state_ptr = offsets(circuit.n_states)
    added = rows_like_columns(count, table, state, mass, share, state_ptr)
    param_counts[place] += added
    total = group_sums(table, count + param_counts[place])[table]
    # Leaves of complete columns get no such rows, and keep their parameters.
    drawn = added > 0.0
    param = circuit.param.copy()
    param[place[drawn]] = np.log((count + param_counts[place]) / total)[drawn]
    return circuit.with_parameters(param=param), pseudo_count._replace(param=param_counts)


def refinement_pseudo_counts(
    circuit: Circuit,
    rows: Floats,
    weight: Floats,
    *,
    per_edge: float,
    like_column: float,
    as_learned: float,
) -> PseudoCounts:
    """Pseudo-counts that hold a leaf near the proportions of its column, and near itself.

    Parameters
    ----------
    circuit : Circuit
        A circuit that SoftLearn has learned.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Their weights.
    per_edge : float
        Pseudo-count of each weight of a sum.
    like_column : float
        Cells of each leaf that are distributed like its column.
    as_learned : float
        Cells of each categorical leaf that are distributed like the leaf itself.

    Returns
    -------
    PseudoCounts
        To be passed to :func:`skpc.queries.fit_parameters`.
    """
    codes = read_cells(circuit.columns, rows)[0]
    shares = column_shares(codes, weight, circuit.n_states)
    param = counts_like_columns(
        circuit.structure.leaves, circuit.param, shares, like_column, as_learned
    )
    return PseudoCounts(np.full(circuit.n_edges, per_edge), param)


def column_shares(codes: Ints | Codes, weight: Floats, n_states: Ints) -> list[Floats]:
    """Shares of the states in each column, all positive; empty for a column without states.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        States, -1 where missing.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    n_states : ndarray of shape (n_features,)
        Numbers of states.

    Returns
    -------
    list of ndarray
    """
    # Numbers have a code, but no states. A row more for each state keeps all shares positive.
    states = np.where(n_states > 0, codes, -1)
    counts = state_counts(states, weight, offsets(n_states)) + 1.0
    tables = np.split(counts, offsets(n_states)[1:-1])
    return [table / table.sum() for table in tables]
