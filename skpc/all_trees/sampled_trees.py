"""A finite sample of the trees of a mixture of all trees, as nodes of a circuit."""

from __future__ import annotations

import numpy as np

from skpc._arrays import Ints
from skpc.all_trees.components import Components
from skpc.all_trees.spanning_trees import draw_trees
from skpc.all_trees.tree_tables import TreeTables
from skpc.circuit import CircuitBuilder
from skpc.counting.tree_circuit import add_tree


def add_sampled_trees(
    builder: CircuitBuilder,
    mixture: Components,
    n_trees: int,
    random_state: np.random.RandomState,
) -> int:
    """Add a mixture of trees that are drawn from a mixture of all trees.

    Parameters
    ----------
    builder : CircuitBuilder
        Where the nodes are added.
    mixture : Components
        What the trees are drawn from.
    n_trees : int
        Number of trees, of equal weight. A tree that is drawn twice is one of twice the weight.
    random_state : RandomState
        Source of the draws.

    Returns
    -------
    int
        Number of the node of the mixture.
    """
    counts = random_state.multinomial(n_trees, np.exp(mixture.log_weight))
    nodes, weights = [], []
    for model, n_of_model in zip(mixture.models, counts):
        seed = np.uint64(random_state.randint(2**31))
        parents, _ = draw_trees(model.edges_into(), int(n_of_model), seed)
        tables = model.tree_tables()
        for parent, count in zip(*np.unique(parents, axis=0, return_counts=True)):
            nodes.append(_add_forest(builder, tables, parent))
            weights.append(count / n_trees)
    return nodes[0] if len(nodes) == 1 else builder.sum(nodes, np.log(weights))


def _add_forest(builder: CircuitBuilder, tables: TreeTables, parent: Ints) -> int:
    """Add the product of the trees of a forest."""
    n = len(parent)
    blocks = [slice(a, b) for a, b in zip(tables.ptr, tables.ptr[1:])]
    # Each vertex points to its parent, then to the parent of that, and twice as far each time.
    root = np.where(parent >= 0, parent, np.arange(n))
    for _ in range(n.bit_length()):
        root = root[root]
    nodes = []
    for vertices in (np.flatnonzero(root == r) for r in np.flatnonzero(parent < 0)):
        place = {v: i for i, v in enumerate(vertices.tolist())}
        above = [place[u] if u >= 0 else -1 for u in parent[vertices].tolist()]
        log_prob = [
            np.log(tables.conditional[blocks[v], blocks[u if u >= 0 else n]]).T
            for v, u in zip(vertices.tolist(), parent[vertices].tolist())
        ]
        nodes.append(add_tree(builder, vertices, above, log_prob))
    return nodes[0] if len(nodes) == 1 else builder.product(nodes)
