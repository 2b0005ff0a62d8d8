"""Growing random trees, the tables of their leaves, and what a forest chooses.

Trees are grown by scikit-learn on the positions of bins. The tables of a tree are shrunk along its
paths: what a node says is the prior of the nodes below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from skpc._arrays import Floats, Ints
from skpc._jit import internal_kernel, kernel
from skpc._threads import in_threads
from skpc.domain import Domain
from skpc.learning.forest import Forest, Layout, Trees, lay_out, posterior

#: Cuts of a column of numbers that trees choose from.
_CUTS = 255
#: What is known above a node counts in it as this many rows: of columns, and of the class.
_TABLE_ROWS, _CLASS_ROWS = 10.0, 0.3
#: Least weights of leaves that compete. Small forests predict the rows that are in none of their
#: bags, whole and with this share of their cells removed. Of many rows, some are enough.
_LEAST = {"all": (2.0, 8.0), "class": (8.0,)}
_RATES, _FEW_TREES, _MOST_ROWS = (0.0, 0.4), 15, 20_000
#: Tables of each class must gain this many standard errors.
_ERRORS = 3.0
#: Entries of the tables of a forest, beyond which leaves have more rows by themselves.
_ENTRIES = 2.0**27


class ForestOptions(NamedTuple):
    """Parameters of :class:`skpc.GenerativeForest`."""

    n_estimators: int = 60
    leaves: str = "auto"
    min_samples_leaf: Any = "auto"
    max_features: Any = "auto"
    bootstrap: bool = True


class _Grown(NamedTuple):
    """A tree of scikit-learn, the node where each row ends, and the weights it was grown with."""

    tree: Any
    node: Ints
    weight: Floats


class _Rows(NamedTuple):
    """What trees are grown from: bins of distinct rows, -1 where missing, classes and weights."""

    layout: Layout
    bins: Ints
    code: Ints
    weight: Floats
    n_classes: int


def learn_forest(
    domain: Domain,
    rows: Floats,
    code: Ints,
    weight: Floats,
    n_classes: int,
    options: ForestOptions,
    random_state: np.random.RandomState,
    advance: Callable[[float], object] = lambda n_trees: None,
) -> Forest:
    """Learn a forest from distinct encoded rows and their classes.

    Parameters
    ----------
    domain : Domain
        What the columns are, with bins of numbers.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    code : ndarray of shape (n_rows,), int
        Numbers of their classes.
    weight : ndarray of shape (n_rows,)
        Positive weights.
    n_classes : int
    options : ForestOptions
    random_state : RandomState instance
    advance : callable
        Called with the number of trees that have just been grown.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> from skpc.learning import ForestOptions, learn_forest
    >>> rows, code = np.repeat([[0.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    >>> data = Domain.fit(rows, n_bins=10), rows, code, np.ones(100), 2
    >>> forest = learn_forest(*data, ForestOptions(), np.random.RandomState(0))
    >>> forest.posterior(np.array([[0.0], [np.nan]])).round(1)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    layout, bins = lay_out(domain, rows, code, weight, n_classes, _CUTS)
    data = _Rows(layout, layout.of_codes(bins.states(rows)), code, weight, n_classes)
    least, leaves = _chosen(data, options, random_state)

    def tree(seed: int) -> Trees:
        grown = _grow(data, least, options, seed, options.bootstrap)
        advance(1.0)
        return _with_tables(data, grown, leaves)

    trees = in_threads(tree, random_state.randint(2**31, size=options.n_estimators).tolist())
    return Forest(domain, bins, layout, Trees.joined(trees), (leaves, least))


def _chosen(
    data: _Rows, options: ForestOptions, random_state: np.random.RandomState
) -> tuple[float, str]:
    """The least weight of a leaf, and what its tables are of."""
    kinds = list(_LEAST) if options.leaves == "auto" else [options.leaves]
    given = options.min_samples_leaf
    n_entries = data.layout.place.max() + 1.0
    candidates = []
    for kind in kinds if data.n_classes > 1 else kinds[:1]:
        n_tables = data.n_classes if kind == "class" else 1
        enough = options.n_estimators * data.weight.sum() * n_tables * n_entries / _ENTRIES
        sizes = np.maximum(_LEAST[kind], enough) if given == "auto" else np.array([given])
        candidates += [(size, kind) for size in np.unique(sizes.astype(np.float64)).tolist()]
    if len(candidates) == 1:
        return candidates[0]
    some = slice(None, None, 1 + len(data.code) // _MOST_ROWS)
    data = data._replace(bins=data.bins[some], code=data.code[some], weight=data.weight[some])
    seeds = random_state.randint(2**31, size=_FEW_TREES).tolist()
    removed = random_state.random_sample(data.bins.shape)
    copies = [np.where(removed < rate, -1, data.bins) for rate in _RATES]

    def grow(size: float) -> list[_Grown]:
        return in_threads(lambda seed: _grow(data, size, options, seed, True), seeds)

    grown = {size: grow(size) for size in dict.fromkeys(size for size, _ in candidates)}
    share = data.weight / data.weight.sum()
    losses = {(size, kind): _losses(data, grown[size], kind, copies) for size, kind in candidates}
    best, *other = (
        min((c for c in candidates if c[1] == kind), key=lambda c: share @ losses[c])
        for kind in dict.fromkeys(kind for _, kind in candidates)
    )
    for rival in other:
        gain = losses[best] - losses[rival]
        error = np.sqrt(share**2 @ (gain - share @ gain) ** 2)
        # Tables of classes are sure of more than they know.
        if share @ gain > _ERRORS * error:
            best = rival
    return best


def _losses(data: _Rows, grown: list[_Grown], leaves: str, copies: list[Ints]) -> Floats:
    """Log loss of each row under the trees that did not have it in their bag."""

    def predict(tree: _Grown) -> list[Floats]:
        trees, out = _with_tables(data, tree, leaves), tree.weight == 0.0
        return [posterior(data.layout, trees, bins[out]) for bins in copies]

    total = np.zeros((len(copies), len(data.code), data.n_classes))
    for tree, predictions in zip(grown, in_threads(predict, grown)):
        total[:, tree.weight == 0.0] += predictions
    known = total[:, np.arange(len(data.code)), data.code] + 0.5 / data.n_classes
    return -np.log(known / (total.sum(axis=2) + 0.5)).mean(axis=0)


def _grow(data: _Rows, least: float, options: ForestOptions, seed: int, bootstrap: bool) -> _Grown:
    """Grow a tree from rows whose missing cells are drawn."""
    random_state, weight = np.random.RandomState(seed), data.weight
    if bootstrap:
        # As many draws as rows at least, also where weights are small.
        n_draws = max(round(weight.sum()), len(weight))
        counts = random_state.multinomial(n_draws, weight / weight.sum())
        weight = counts * (weight.sum() / n_draws)
    position = data.layout.position[_filled(data, random_state)].astype(np.float32)
    drawn = weight > 0.0
    n_columns, max_features = position.shape[1], options.max_features
    if max_features == "auto":
        max_features = min(n_columns, round(2.0 * n_columns**0.5))
    tree = DecisionTreeClassifier(
        max_features=max_features,
        min_weight_fraction_leaf=min(least / weight.sum(), 0.5),
        random_state=random_state,
    ).fit(position[drawn], data.code[drawn], sample_weight=weight[drawn])
    return _Grown(tree.tree_, tree.tree_.apply(position).astype(np.int64), weight)


def _filled(data: _Rows, random_state: np.random.RandomState) -> Ints:
    """The bins, missing ones drawn from rows of the same class, or of all where none has any."""
    filled = data.bins.copy()
    order = np.argsort(data.code, kind="stable")
    for column in np.flatnonzero((filled < 0).any(axis=0)).tolist():
        missing = np.flatnonzero(filled[:, column] < 0)
        known = order[filled[order, column] >= 0]
        if not len(known):
            filled[:, column] = data.layout.first[column]
            continue
        below = np.cumsum(data.weight[known])
        bounds = np.append(0, np.searchsorted(data.code[known], np.arange(data.n_classes), "right"))
        ends = np.append(0.0, below)[bounds]
        low, high = ends[data.code[missing]], ends[data.code[missing] + 1]
        low, high = np.where(low < high, low, 0.0), np.where(low < high, high, below[-1])
        u = low + (high - low) * random_state.random_sample(len(missing))
        drawn = known[np.minimum(np.searchsorted(below, u, "right"), len(known) - 1)]
        filled[missing, column] = data.bins[drawn, column]
    return filled


def _with_tables(data: _Rows, grown: _Grown, leaves: str) -> Trees:
    """A tree with the distributions of its leaves."""
    tree, n_tables = grown.tree, data.n_classes if leaves == "class" else 1
    left, right = tree.children_left.astype(np.int64), tree.children_right.astype(np.int64)
    is_leaf = left < 0
    number = np.cumsum(is_leaf) - 1
    n_leaves, n_columns = int(is_leaf.sum()), data.bins.shape[1]
    trees = Trees(
        np.zeros(1, np.int64),
        np.where(is_leaf, -1, tree.feature).astype(np.int64),
        np.floor(tree.threshold).astype(np.int64),
        np.where(is_leaf, number, left),
        right,
        np.empty((n_leaves, data.n_classes)),
        np.empty((n_leaves, n_tables, int(data.layout.place.max()) + 1)),
        np.empty((n_leaves, n_columns), np.int64),
        np.empty((n_leaves, n_columns), np.int64),
    )
    counts = np.zeros((len(left), n_tables, trees.log_table.shape[2]))
    of_class = np.zeros((len(left), data.n_classes))
    _count(data.layout, trees, data.bins, data.code, grown.node, grown.weight, counts, of_class)
    _shrink(data.layout, trees, counts, of_class, _TABLE_ROWS, _CLASS_ROWS)
    return trees


@kernel(new_arrays=True)
def _count(
    layout: Layout,
    trees: Trees,
    bins: Ints,
    code: Ints,
    node: Ints,
    weight: Floats,
    counts: Floats,
    of_class: Floats,
) -> None:
    """Count the rows of each node of a tree.

    Parameters: the ``layout`` of columns, ``trees`` of one tree, ``bins`` of rows, their classes
    (``code``), the ``node`` where they end and their ``weight``. ``counts`` (n_nodes, n_tables,
    n_places) and ``of_class`` (n_nodes, n_classes) are zero at first.
    """
    n_tables = counts.shape[1]
    for i in range(len(bins)):
        if weight[i] > 0.0:
            of_class[node[i], code[i]] += weight[i]
            for j in range(bins.shape[1]):
                if bins[i, j] >= 0:
                    counts[node[i], code[i] % n_tables, layout.place[bins[i, j]]] += weight[i]
    # Children stand behind their parents.
    for parent in range(len(counts) - 1, -1, -1):
        if trees.column[parent] >= 0:
            for child in (trees.left[parent], trees.right[parent]):
                of_class[parent] += of_class[child]
                counts[parent] += counts[child]


@kernel(new_arrays=True)
def _shrink(
    layout: Layout,
    trees: Trees,
    counts: Floats,
    of_class: Floats,
    table_rows: float,
    class_rows: float,
) -> None:
    """Turn the counts of the nodes of a tree into probabilities, from the root to the leaves.

    ``table_rows`` and ``class_rows`` that are like those above it join the rows of a node.
    """
    n_nodes, _, n_places = counts.shape
    n_columns, mass = len(layout.first) - 1, of_class.sum(axis=1)
    # The box of each node, and the part of each place that is inside.
    low, high = np.zeros((n_nodes, n_columns), np.int64), np.zeros((n_nodes, n_columns), np.int64)
    inside, first_place = np.zeros((n_nodes, n_places)), np.zeros(n_columns + 1, np.int64)
    prior = np.zeros_like(counts[0])
    for j in range(n_columns):
        high[0, j] = layout.first[j + 1] - layout.first[j]
        for s in range(layout.first[j], layout.first[j + 1]):
            first_place[j + 1] = max(first_place[j + 1], layout.place[s] + 1)
            inside[0, layout.place[s]] += layout.share[s]
        # The tables of the classes are like that of all rows.
        places = slice(first_place[j], first_place[j + 1])
        prior[:, places] = counts[0][:, places].sum(axis=0) + 1.0 / high[0, j]
    _blend(first_place, prior, table_rows, counts[0])
    of_class[0] = (of_class[0] + class_rows / of_class.shape[1]) / (mass[0] + class_rows)
    for node in range(n_nodes):
        column = trees.column[node]
        if column < 0:
            leaf = trees.left[node]
            trees.low[leaf], trees.high[leaf] = low[node], high[node]
            trees.log_joint[leaf] = np.log(of_class[node] * (mass[node] / mass[0]))
            for place in range(n_places):
                part = inside[node, place]
                for k in range(len(prior)):
                    density = counts[node, k, place] / part if part > 0.0 else 0.0
                    trees.log_table[leaf, k, place] = np.log(density) if part > 0.0 else -np.inf
            continue
        for child in (trees.left[node], trees.right[node]):
            low[child], high[child], inside[child] = low[node], high[node], inside[node]
            if child == trees.left[node]:
                high[child, column] = trees.cut[node] + 1
            else:
                low[child, column] = trees.cut[node] + 1
            inside[child, first_place[column] : first_place[column + 1]] = 0.0
            for s in range(layout.first[column], layout.first[column + 1]):
                if low[child, column] <= layout.position[s] < high[child, column]:
                    inside[child, layout.place[s]] += layout.share[s]
            for place in range(n_places):
                part = inside[child, place]
                kept = part / inside[node, place] if part > 0.0 else 0.0
                prior[:, place] = kept * counts[node, :, place]
            _blend(first_place, prior, table_rows, counts[child])
            of_class[child] = of_class[child] + class_rows * of_class[node]
            of_class[child] /= mass[child] + class_rows


@internal_kernel
def _blend(first_place: Ints, prior: Floats, n_rows: float, counts: Floats) -> None:
    """Turn counts into probabilities: each column gets ``n_rows`` more that are like the prior."""
    for j in range(len(first_place) - 1):
        for k in range(len(counts)):
            total = weight = 0.0
            for place in range(first_place[j], first_place[j + 1]):
                total += counts[k, place]
                weight += prior[k, place]
            for place in range(first_place[j], first_place[j + 1]):
                added = n_rows * prior[k, place] / weight
                counts[k, place] = (counts[k, place] + added) / (total + n_rows)
