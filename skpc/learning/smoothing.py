"""How strongly are parameters smoothed? Rows decide for networks; SoftLearn has its counts."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc.circuit import Circuit
from skpc.learning.held_out import quarters
from skpc.learning.network import CutsetNetwork, cutset_circuit
from skpc.queries import PseudoCounts, uniform_pseudo_counts
from skpc.queries.passes.induced import count_entries, entries_of
from skpc.queries.passes.rows import read_cells
from skpc.variables.leaf_queries import counts_like_columns

Codes = NDArray[np.int16]

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
    each quarter in turn, until a thousand rows have been held out. Rows that trees have been
    learned from would choose too little smoothing: left out one at a time, they lost up to 18 nats
    a row on the Twenty Datasets.

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
    is_shown = np.ones(codes.shape, bool) if shown is None else shown >= 0
    for kept, held in quarters(weight):
        some = kept > 0
        circuit = cutset_circuit(learn(codes[some], kept[some], cuts=network.variable))
        learned, held_out = (
            count_entries(circuit, codes[rows].astype(np.float64), part[rows], is_shown[rows])
            for rows, part in ((some, kept), (held > 0, held))
        )
        log_likelihood += held_out_log_likelihood(circuit, learned, held_out, PARAM_ESS)
    return float(PARAM_ESS[np.argmax(log_likelihood)])


def held_out_log_likelihood(
    circuit: Circuit, learned: Floats, held_out: Floats, param_ess: Floats
) -> Floats:
    """Log-likelihood (nats) of held-out counts under tables smoothed from other counts.

    Parameters
    ----------
    circuit : Circuit
        That of a network.
    learned, held_out : ndarrays of shape (n_entries,)
        What :func:`skpc.queries.passes.induced.count_entries` counts.
    param_ess : ndarray of shape (n,)
        Equivalent sample sizes.

    Returns
    -------
    ndarray of shape (n,)
    """
    even, first = entries_of(circuit, *uniform_pseudo_counts(circuit, 1.0))
    sizes = np.diff(first, append=len(even))
    total, even_total = (
        np.repeat(np.add.reduceat(counts, first), sizes) for counts in (learned, even)
    )
    some = held_out > 0
    tables = [counts[some] for counts in (learned, even, total, even_total)]
    return np.array(
        [
            held_out[some] @ np.log((tables[0] + ess * tables[1]) / (tables[2] + ess * tables[3]))
            for ess in param_ess
        ]
    )


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
    codes = read_cells(circuit.columns, rows)[0]
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
