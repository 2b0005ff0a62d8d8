"""The cutset network, a decision tree with a Chow-Liu tree at each leaf, and its circuit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets, segment
from skpc.circuit import Circuit, Decisions, decision_circuit
from skpc.counting.tables import BayesDirichlet, CountTables, Score, smoothed_log_probabilities
from skpc.counting.trees import ChowLiuTree, tree_vertices


@dataclass(frozen=True, eq=False)
class CutsetNetwork:
    """A decision tree over variables with a Chow-Liu tree at each leaf, and its counts.

    The nodes are numbered from the root, node 0, parents before children. A cut has one child
    for each state of its variable.

    Parameters
    ----------
    n_states : array of shape (n_features,)
        Number of states of each variable. Trees leave out variables with one state.
    prior : Score
        The score that learned it; it knows the pseudo-counts of every table.
    score : float
        Its structure score in nats.
    variable : array of shape (n_nodes,)
        The variable that a cut decides on; -1 at a leaf.
    child_ptr : array of shape (n_nodes + 1,)
        The branches of node i are ``child_ptr[i] .. child_ptr[i + 1]``.
    child : array of shape (n_nodes - 1,)
        The node of each branch, in the order of the states.
    child_count : array of shape (n_nodes - 1,)
        Weight of the rows of each branch, out of those in which the variable is seen.
    leaf : array of shape (n_nodes,)
        Which of the trees stands at a leaf; -1 at a cut.
    trees : tuple of ChowLiuTree
        The trees of the leaves, over the variables that are not decided on the way. The
        branches of a cut that no row takes share one tree.

    See Also
    --------
    learn_cutset_network : Learns one from data.
    cutset_circuit : Turns one into a circuit.
    """

    n_states: Ints
    prior: Score
    score: float
    variable: Ints
    child_ptr: Ints
    child: Ints
    child_count: Floats
    leaf: Ints
    trees: tuple[ChowLiuTree, ...]

    def __post_init__(self) -> None:
        arrays = [value for value in self.__dict__.values() if isinstance(value, np.ndarray)]
        for tree in self.trees:
            # Other arrays of the tables are shared with networks that are still being learned.
            arrays += [tree.variables, tree.parent, tree.tables.weight]
        for array in arrays:
            array.flags.writeable = False

    @property
    def n_nodes(self) -> int:
        """Number of cuts and leaves."""
        return len(self.variable)

    @property
    def n_cuts(self) -> int:
        """Number of nodes that decide on a variable."""
        return int((self.variable >= 0).sum())

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of the trees and the decisions."""
        decisions = int((np.diff(self.child_ptr)[self.variable >= 0] - 1).sum())
        n_in_tree = np.array([tree.tables.n_parameters for tree in self.trees])
        # A tree that several leaves share counts at each of them.
        return decisions + int(n_in_tree[self.leaf[self.leaf >= 0]].sum())

    def branches(self, node: int) -> Ints:
        """Nodes below a cut, in the order of the states; empty for a leaf."""
        return self.child[segment(self.child_ptr, node)]

    def branch_counts(self, node: int) -> Floats:
        """Weight of the rows in each branch of a cut."""
        return self.child_count[segment(self.child_ptr, node)]

    def __repr__(self) -> str:
        return (
            f"CutsetNetwork(n_features={len(self.n_states)}, n_cuts={self.n_cuts}, "
            f"n_parameters={self.n_parameters})"
        )


class Visited(NamedTuple):
    """A node of a network as it is found: a cut, or a leaf with its tree.

    Attributes
    ----------
    above : int
        Number of the node above; -1 for the root.
    variable : int
        The variable of a cut; -1 at a leaf.
    counts : ndarray of shape (n_branches,)
        Weight of the rows in each branch; empty at a leaf.
    tree : ChowLiuTree or None
        The tree of a leaf.
    """

    above: int
    variable: int
    counts: Floats
    tree: ChowLiuTree | None


def frozen_network(
    visited: list[Visited], n_states: Ints, prior: Score, score: float
) -> CutsetNetwork:
    """The network of nodes that stand parents before children, siblings in order of states."""
    # Branches that no row takes share one tree, which is listed once.
    trees = {id(node.tree): node.tree for node in visited if node.tree is not None}
    place = {key: i for i, key in enumerate(trees)}
    return CutsetNetwork(
        n_states=n_states.copy(),
        prior=prior,
        score=score,
        variable=np.array([node.variable for node in visited]),
        child_ptr=offsets([len(node.counts) for node in visited]),
        # Siblings are numbered in the order of their states.
        child=np.argsort([node.above for node in visited], kind="stable")[1:],
        child_count=np.concatenate([node.counts for node in visited]),
        leaf=np.array([place.get(id(node.tree), -1) for node in visited]),
        trees=tuple(trees.values()),
    )


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
    >>> from skpc.learning.cutset import learn_cutset_network
    >>> from skpc.learning.network import cutset_circuit
    >>> codes = np.array([[0, 0], [0, 1], [1, 1], [1, 1]], dtype=np.int16)
    >>> network = learn_cutset_network(codes, np.ones(4), np.array([2, 2]))
    >>> cutset_circuit(network)
    Circuit(n_features=2, n_nodes=7, n_edges=6)
    """
    prior: Score = network.prior if param_ess is None else BayesDirichlet(param_ess)
    # The prior of each node: a cut divides its prior among its branches.
    priors = [prior] * network.n_nodes
    for node in range(network.n_nodes):
        below = network.branches(node)
        for branch in below:
            priors[branch] = priors[node].after_cut(len(below))
    # Trees leave out variables with one state, which have a table of one entry.
    constants = np.setdiff1d(np.flatnonzero(network.n_states == 1), network.trees[0].variables)
    variables = [constants]
    tables = [np.zeros((1, 1))] * len(constants)
    edges = list[tuple[Any, ...]]()
    table_of_node = dict[int, int]()
    table_of_tree: dict[int, int] = {}
    # The loop runs backwards, so that branches come before their cut.
    for node in range(network.n_nodes - 1, -1, -1):
        # A cut is a table of its branches, with an edge from each state to the node below.
        leaf = int(network.leaf[node])
        if leaf < 0:
            counts = CountTables.from_states(network.branch_counts(node))
            tables += smoothed_log_probabilities(counts, priors[node])
            variables.append(network.variable[node : node + 1])
            table_of_node[node] = len(tables) - 1
            branches = [table_of_node[int(branch)] for branch in network.branches(node)]
            size = len(branches)
            edges.append(
                (
                    np.full(size, table_of_node[node]),
                    np.arange(size),
                    branches,
                    np.zeros(size, np.int64),
                )
            )
            continue
        # A tree that several leaves share is built once.
        if leaf not in table_of_tree:
            tree = network.trees[leaf]
            n_tables_before = len(tables)
            log_prob = smoothed_log_probabilities(tree.tables, priors[node])
            vertices = tree_vertices(tree.variables, tree.parent, log_prob, n_tables_before)
            variables.append(vertices.variable)
            tables += vertices.tables
            edges.append(vertices[2:])
            table_of_tree[leaf] = len(tables) - 1
        table_of_node[node] = table_of_tree[leaf]
    columns = map(np.concatenate, zip(*edges))
    return decision_circuit(
        network.n_states, axes, Decisions(np.concatenate(variables), tables, *columns)
    )
