"""Filling missing cells by draws from a mixture of trees, before networks are learned.

The trees have the edges of one Chow-Liu tree, and tables of their own. The mixture is a circuit:
EM with missing cells fits it, and :func:`skpc.queries.sample_missing` draws.
"""

import numpy as np

from skpc._arrays import Floats, divisors
from skpc._fitting import Stop
from skpc.counting.clustering import as_numbers, cluster_points
from skpc.domain import Domain, column_moments
from skpc.learning.mixture import Learn
from skpc.learning.network import cutset_circuit
from skpc.learning.shrinkage import Shrunken
from skpc.queries import sample_missing

#: Equivalent sample size of the tables of all components together. Trees smoothed less fill cells
#: with what a few rows have in common by chance: at 10, and a structure score's 0.1, networks of
#: four tables with 40 % missing lost .1 and .4 nats a row against 30.
_ESS = 30.0
#: Iterations of EM at most; it ends once one gains less than this (nats a row).
_STOP = Stop(10, 5e-3)
#: Trees in the mixture, at most.
_TREES = 30
#: Distinct rows from which the mixture is learned, at most: more rows do not improve the draws.
_ROWS = 20_000


def complete_points(domain: Domain, rows: Floats, weight: Floats) -> Floats:
    """Rows as points for k-means; a missing coordinate is the mean of the others."""
    n_states = np.where(domain.is_categorical, domain.n_states, 0)
    point, observed = as_numbers(rows, n_states, *column_moments(rows, weight))
    if observed is None:
        return point
    total = weight @ observed
    # A coordinate that no row has is zero in all of them.
    mean = weight @ point / divisors(total)
    return point + (1.0 - observed) * mean


def fill_missing(
    domain: Domain,
    rows: Floats,
    weight: Floats,
    learn_tree: Learn,
    n_components: int,
    random_state: np.random.RandomState,
) -> Floats:
    """Draw the missing cells of rows from a mixture of trees learned from these rows.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    learn_tree : callable
        Learns a network without cuts, a Chow-Liu tree, from codes with missing cells and weights.
    n_components : int
        Least number of trees.
    random_state : RandomState
        Source of the draws.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        Encoded rows without missing cells.

    Examples
    --------
    >>> import numpy as np
    >>> from functools import partial
    >>> from skpc.learning.cutset import TREE, learn_cutset_network
    >>> from skpc.learning.filling import fill_missing
    >>> from skpc.domain import Domain
    >>> rows = np.repeat([[0, 0], [1, 1], [0, np.nan]], [400, 400, 100], axis=0)
    >>> domain = Domain.fit(rows)
    >>> learn = partial(
    ...     learn_cutset_network, n_states=np.array([2, 2]), options=TREE
    ... )
    >>> rng = np.random.RandomState(0)
    >>> filled = fill_missing(domain, rows, np.ones(900), learn, 1, rng)
    >>> bool((filled[:, 1] == filled[:, 0]).mean() > 0.97)
    True
    """
    # For each tree there are at least so many missing cells, and observed cells of so many rows.
    rows_of_tree = 100
    # Entries of the tables of all trees, at most.
    most_entries = 20_000
    if not np.isnan(rows).any():
        return rows
    codes = domain.codes(rows)
    sampled = np.arange(len(rows))
    if len(rows) > _ROWS:
        sampled = random_state.choice(len(rows), _ROWS, replace=False)
    sampled_rows = rows[sampled]
    sampled_weight = weight[sampled]
    network = learn_tree(codes[sampled], sampled_weight)
    is_observed = codes[sampled] >= 0
    n_trees = min(
        sampled_weight @ is_observed.mean(axis=1) / rows_of_tree,
        sampled_weight @ (~is_observed).sum(axis=1) / rows_of_tree,
        most_entries / len(network.trees[0].tables.dense()),
        _TREES,
    )
    n_trees = max(n_components, int(n_trees), 1)
    clusters = np.ones((len(sampled), 1))
    if n_trees > 1:
        points = complete_points(domain, sampled_rows, sampled_weight)
        clusters = cluster_points(points, sampled_weight, n_trees, random_state)
    tree = cutset_circuit(network, domain.axes, _ESS)
    trees = Shrunken([tree] * clusters.shape[1])
    # Rows distributed like all rows that are added to those of each tree.
    strength = 3.0
    fitted = trees.fitted(sampled_rows, sampled_weight, clusters, strength, _STOP)
    # All rows are filled, not only those that the mixture was learned from.
    return sample_missing(fitted, rows, random_state)
