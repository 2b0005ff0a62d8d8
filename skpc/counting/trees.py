"""Trees over variables: Chow-Liu trees, the order of their vertices, and their nodes in a circuit.

Trees compare information as whole numbers of a small unit rather than as floats: rounding
noise then cannot decide between pairs of equal information, so a tree depends neither on the
order in which counts were summed nor on the way they were counted.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, within
from skpc._jit import kernel
from skpc.circuit import Decisions
from skpc.counting.tables import CountTables

#: Information times the weight of the rows is rounded to this many units per nat.
UNITS_PER_NAT = 2.0**24

#: Information of at most this many units (5e-7 nats) counts as none: it may be rounding alone.
NO_INFORMATION = np.int64(8)


class ChowLiuTree(NamedTuple):
    """A tree over variables and the counts along its edges.

    Parameters
    ----------
    variables : array of shape (m,)
        The variables, increasing.
    parent : array of shape (m,)
        Position of the tree parent among ``variables``; -1 for the root, which comes first.
    tables : CountTables
        Counts of each variable given its parent; of one row where the parent tells nothing.
    """

    variables: Ints
    parent: Ints
    tables: CountTables


class ScoredTrees(NamedTuple):
    """Chow-Liu trees of nodes that are cut alike, with what the search wants to know of them.

    Parameters
    ----------
    trees : list of ChowLiuTree
        The tree of each node.
    score : float
        Their structure score in nats.
    entropy : array of shape (m,)
        Entropy in nats of the other variables given a variable, summed over them and times
        the weight of the rows: what a cut on that variable leaves over (eqs. 13-15).
    """

    trees: list[ChowLiuTree]
    score: float
    entropy: Floats


@kernel(new_arrays=True)
def maximum_spanning_tree(weight: Ints, parent: Ints, chains: bool) -> None:
    """Find the maximum spanning tree of a complete graph by Prim's algorithm.

    Parameters
    ----------
    weight : array of shape (m, m)
        Information in units, of which what is above the diagonal counts; of vertices with equal
        information the lowest one joins next.
    parent : array of shape (m,)
        Overwritten with the tree, rooted at vertex 0 whose parent is -1.
    chains : bool
        The parent of a vertex, of those with equal information, is the one that joined last, so
        that columns with the same rows make a chain. False: the one that joined first, a star.
    """
    n_vertices = len(parent)
    best = np.empty(n_vertices, np.int64)
    for vertex in range(n_vertices):
        best[vertex] = -1
    parent[0] = -1
    # The vertex that joined last is the only one whose edges can be better than those known.
    newest = 0
    for _ in range(n_vertices - 1):
        best[newest] = -2
        following = 0
        for vertex in range(n_vertices):
            information = max(weight[min(newest, vertex), max(newest, vertex)], NO_INFORMATION)
            # -2 marks the vertices of the tree.
            is_better = information > best[vertex] or (chains and information == best[vertex])
            if best[vertex] != -2 and is_better:
                best[vertex] = information
                parent[vertex] = newest
            if best[vertex] > best[following]:
                following = vertex
        newest = following


def tree_vertices(
    variables: Ints, parent: Ints, log_prob: Sequence[Floats], first: int = 0
) -> Decisions:
    """Turn a tree-shaped Bayesian network into decisions on its variables; the root is the last.

    Parameters
    ----------
    variables : ndarray of shape (m,)
        The variable of each vertex.
    parent : ndarray of shape (m,)
        The parent of each vertex; -1 for the root.
    log_prob : sequence of m arrays of shape (n_parent_states, n_states)
        Log probabilities in nats of the states given those of the parent; one row at the root, and
        where the parent tells nothing.
    first : int, default=0
        Number of the first vertex.

    Returns
    -------
    Decisions

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import decision_circuit
    >>> from skpc.counting.trees import tree_vertices
    >>> root, below = np.log([[0.4, 0.6]]), np.log([[0.9, 0.1], [0.2, 0.8]])
    >>> tree = tree_vertices(np.array([0, 1]), np.array([-1, 0]), [root, below])
    >>> decision_circuit([2, 2], None, tree)
    Circuit(n_features=2, n_nodes=7, n_edges=6)
    """
    # Backwards, so that the nodes of a subtree stand together and before their parents.
    order = children_first(parent)
    place = np.argsort(order) + first
    vertex = np.flatnonzero(parent >= 0)
    n_states = np.array([table.shape[1] for table in log_prob])
    # An edge for each state of the parent, to the row of the child that the state selects.
    size = n_states[parent[vertex]]
    state = within(size)
    n_rows = np.array([len(table) for table in log_prob])[vertex]
    row = np.minimum(state, np.repeat(n_rows, size) - 1)
    above = np.repeat(place[parent[vertex]], size)
    below = np.repeat(place[vertex], size)
    tables = [log_prob[vertex] for vertex in order]
    return Decisions(variables[order], tables, above, state, below, row)


def children_first(parent: Sequence[int] | Ints) -> list[int]:
    """The vertices of a forest, those of a subtree together and below before above."""
    children: list[list[int]] = [[] for _ in parent]
    for vertex, above in enumerate(map(int, parent)):
        if above >= 0:
            children[above].append(vertex)
    order: list[int] = []
    pending = [vertex for vertex, above in enumerate(map(int, parent)) if above < 0]
    while pending:
        vertex = pending.pop()
        order.append(vertex)
        pending.extend(children[vertex])
    return order[::-1]
