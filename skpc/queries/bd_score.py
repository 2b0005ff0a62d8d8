"""How probable are the rows under a structure, whatever its parameters?"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from skpc._arrays import Floats, Ints
from skpc.circuit import SUM, Circuit
from skpc.queries.flows import expected_statistics
from skpc.queries.parameters import uniform_pseudo_counts
from skpc.queries.passes.rows import check_rows
from skpc.variables.leaves import states_of_leaves


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
    weight = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, float)
    if weight.shape != (len(rows),):
        raise ValueError(f"sample_weight must have shape ({len(rows)},), got {weight.shape}")
    prior = uniform_pseudo_counts(circuit, ess)
    counts = expected_statistics(circuit, rows, weight)
    parent = circuit.edge_parent
    at = (circuit.kind[parent] == SUM) & (circuit.log_weight > -np.inf)
    score = _log_marginal(prior.edge[at], counts.edge_flow[at], parent[at], circuit.n_nodes)
    leaves = circuit.structure.leaves
    states = states_of_leaves(leaves, circuit.n_states)
    possible = circuit.param[states.param] > -np.inf
    owner = np.repeat(states.leaf, states.size)[possible]
    pseudo, found = prior.param[states.param], counts.leaf_statistic[states.entry]
    return score + _log_marginal(pseudo[possible], found[possible], owner, len(leaves.node))


def _log_marginal(pseudo: Floats, count: Floats, owner: Ints, n_owners: int) -> float:
    """The sum over all distributions; ``owner`` says which one a count belongs to."""
    total = np.bincount(owner, pseudo, n_owners)
    seen = np.bincount(owner, count, n_owners)
    at = total > 0.0
    of_totals = gammaln(total[at]) - gammaln(total[at] + seen[at])
    return float(of_totals.sum() + (gammaln(pseudo + count) - gammaln(pseudo)).sum())


def _check_structure(circuit: Circuit, ess: float) -> None:
    if not circuit.deterministic:
        raise ValueError(
            "bd_score needs a deterministic circuit, but this one has a sum that decides on no "
            "variable: its marginal likelihood has no closed form"
        )
    numeric = np.flatnonzero(~circuit.structure.is_categorical)
    if len(numeric):
        raise ValueError(
            f"bd_score needs a circuit over categories, but variable {numeric[0]} is numeric"
        )
    known = np.flatnonzero(~np.isnan(circuit.observed))
    if len(known):
        raise ValueError(
            f"the circuit has been conditioned on variable {known[0]}; bd_score needs a circuit "
            "of all variables"
        )
    if not ess > 0.0:
        raise ValueError(f"ess must be positive, got {ess}")
