"""Complete rows in place of incomplete ones, for what can be learned from complete rows only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skpc._arrays import Floats
from skpc.counting import ChowLiuTree
from skpc.counting.clustering import cluster_points
from skpc.domain import Domain
from skpc.estimators._circuit_density import complete_points
from skpc.learning import draw_states, learn_shared_trees
from skpc.learning.mixture import Codes

#: Trees in the mixture that fills missing cells: this many, fewer where each would have less than a
#: hundred missing cells, or rows' worth of observed ones.
_TREES = 30
_ROWS_OF_TREE = 100
#: Entries of the tables of all trees, beyond which there are fewer trees.
_ENTRIES = 5_000_000
#: Distinct rows from which the mixture is learned: it draws no better after more.
_ROWS = 20_000
#: Iterations of k-means, which only finds where to start.
_CLUSTERING = 30


def fill_rows(
    domain: Domain,
    rows: Floats,
    weight: Floats,
    learn_tree: Callable[[Codes, Floats], ChowLiuTree],
    n_components: int,
    random_state: np.random.RandomState,
) -> Floats:
    """Draw the missing cells of rows from a mixture of trees learned from these rows.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    rows : array of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : array of shape (n_rows,)
        Weights of the rows.
    learn_tree : callable
        Learns a Chow-Liu tree from codes with missing cells and weights.
    n_components : int
        Least number of trees.
    random_state : RandomState
        Source of the draws.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        Encoded rows without missing cells.
    """
    codes = domain.codes(rows)
    some = np.arange(len(rows))
    if len(rows) > _ROWS:
        some = random_state.choice(len(rows), _ROWS, replace=False)
    taught, of_taught = codes[some], weight[some]
    tree = learn_tree(taught, of_taught)
    observed = float(of_taught @ (taught >= 0).mean(axis=1))
    n_missing = float(of_taught @ (taught < 0).sum(axis=1))
    n_trees = min(_TREES, int(min(observed, n_missing) / _ROWS_OF_TREE))
    entries = (domain.n_states[tree.variables] * tree.tables.n_parent_states).sum()
    n_trees = max(n_components, min(n_trees, int(_ENTRIES / entries)), 1)
    start = np.zeros(len(some), np.int64)
    if n_trees > 1:
        points = complete_points(domain, rows[some], of_taught)
        start = cluster_points(points, of_taught, n_trees, _CLUSTERING, random_state)
    states = domain.n_states.astype(np.int64)
    trees = learn_shared_trees(tree, taught, of_taught, states, start, random_state)
    filled = draw_states(trees, codes, random_state).astype(np.int64)
    return domain.axis_table.draw(filled, rows, random_state.randint(np.iinfo(np.int32).max))
