"""Cutset networks as circuits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit, CircuitBuilder
from skpc.counting import (
    BayesDirichlet,
    CountTables,
    Score,
    add_tree,
    smoothed_log_probabilities,
)
from skpc.learning.network import CutsetNetwork, node_priors


def cutset_circuit(
    network: CutsetNetwork, axes: Sequence[Any] | None = None, param_ess: float | None = None
) -> Circuit:
    """Turn a cutset network into a smooth, decomposable and deterministic circuit.

    Parameters
    ----------
    network : CutsetNetwork
        The structure and its counts.
    axes : sequence, default=None
        For each variable None or its histogram axis ``(edges, lower_scale, upper_scale)``.
    param_ess : float, default=None
        Equivalent sample size of the parameters: they are posterior means under Dirichlet
        priors that sum to it at the root and are divided evenly at every cut. None smooths
        as the score did that the network was learned with.

    Returns
    -------
    Circuit
        The circuit over the codes, or over the numbers of variables with an axis.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.learning import cutset_circuit, learn_cutset_network
    >>> codes = np.array([[0, 0], [0, 1], [1, 1], [1, 1]], dtype=np.int16)
    >>> network = learn_cutset_network(codes, np.ones(4), np.array([2, 2]))
    >>> cutset_circuit(network)
    Circuit(n_features=2, n_nodes=7, n_edges=6)
    """
    return mixture_circuit([network], np.ones(1), axes, param_ess)


def mixture_circuit(
    networks: Sequence[CutsetNetwork],
    weights: Floats,
    axes: Sequence[Any] | None = None,
    param_ess: float | None = None,
) -> Circuit:
    """Turn a mixture of cutset networks into one circuit, whose root is a sum over them.

    Parameters
    ----------
    networks : sequence of CutsetNetwork
        The components, over the same variables.
    weights : ndarray of shape (n_components,)
        Their weights, which sum to one.
    axes, param_ess
        See :func:`cutset_circuit`.

    Returns
    -------
    Circuit
        The circuit of the network itself where there is only one; else a smooth and decomposable
        circuit.
    """
    builder = CircuitBuilder(networks[0].n_states, axes)
    nodes = [_add_network(builder, network, param_ess) for network in networks]
    if len(nodes) > 1:
        builder.sum(nodes, np.log(weights))
    return builder.build()


def _add_network(builder: CircuitBuilder, network: CutsetNetwork, param_ess: float | None) -> int:
    prior: Score = network.prior if param_ess is None else BayesDirichlet(param_ess)
    priors = node_priors(network, prior)
    built: dict[int, int] = {}
    of_tree: dict[int, int] = {}
    # The loop runs backwards, so that branches come before their cut.
    for node in range(network.n_nodes - 1, -1, -1):
        leaf = int(network.leaf[node])
        if leaf < 0:
            built[node] = _add_cut(builder, network, node, priors[node], built)
            continue
        if leaf not in of_tree:
            tree = network.trees[leaf]
            log_prob = smoothed_log_probabilities(tree.tables, priors[node])
            of_tree[leaf] = add_tree(builder, tree.variables, tree.parent, log_prob)
        built[node] = of_tree[leaf]
    constants = np.setdiff1d(np.flatnonzero(network.n_states == 1), network.trees[0].variables)
    if len(constants):
        leaves = [builder.discrete(var, [0.0]) for var in constants.tolist()]
        return builder.product([built[0], *leaves])
    return built[0]


def _add_cut(
    builder: CircuitBuilder, network: CutsetNetwork, node: int, prior: Score, built: dict[int, int]
) -> int:
    variable = int(network.variable[node])
    tables = CountTables.of_states(network.branch_counts(node))
    log_weight = smoothed_log_probabilities(tables, prior)[0][0]
    branches = [
        builder.product([builder.indicator(variable, state), built[int(branch)]])
        for state, branch in enumerate(network.branches(node))
    ]
    return builder.sum(branches, log_weight, variable, range(len(branches)))
