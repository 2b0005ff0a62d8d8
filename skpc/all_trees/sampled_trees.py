"""A finite sample of the trees of a mixture of all trees, as nodes of a circuit."""

from __future__ import annotations

import numpy as np

from skpc.all_trees.components import Components
from skpc.all_trees.spanning_trees import draw_trees
from skpc.circuit import CircuitBuilder
from skpc.counting import add_tree


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
        blocks = [slice(a, b) for a, b in zip(tables.ptr, tables.ptr[1:])]
        for parent, count in zip(*np.unique(parents, axis=0, return_counts=True)):
            # The last block is that of the root, which is the parent -1.
            log_prob = [
                np.log(tables.conditional[block, blocks[above]]).T
                for block, above in zip(blocks, parent)
            ]
            nodes.append(add_tree(builder, range(len(parent)), parent, log_prob))
            weights.append(count / n_trees)
    return nodes[0] if len(nodes) == 1 else builder.sum(nodes, np.log(weights))
