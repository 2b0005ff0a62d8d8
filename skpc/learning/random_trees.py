"""Growing random trees, the tables of their leaves, and what a forest chooses.

Trees are grown by scikit-learn on the positions of bins. The tables of a tree are shrunk along its
paths: what a node says is the prior of the nodes below.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from skpc._arrays import Floats, Ints
from skpc._jit import TRUE, internal_kernel, kernel
from skpc._threads import in_threads
from skpc.domain import Domain
from skpc.learning.forest import Forest, Layout, Tree, add_tree, lay_out

#: What is known above a node counts in it as this many rows: of columns, and of the class.
_TABLE_ROWS = 10.0
_CLASS_ROWS = 0.3
#: Least weights of leaves that compete. Small forests predict the rows that are in none of their
#: bags, whole and with this share of their cells removed. Of many rows, some are enough.
_LEAST = {"all": (2.0, 8.0), "class": (8.0,)}
_RATES = (0.0, 0.4)
_FEW_TREES = 10
_MOST_ROWS = 20_000
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


class Rows(NamedTuple):
    """What trees are grown from: bins of distinct rows, -1 where missing, classes and weights."""

    layout: Layout
    bins: Ints
    code: Ints
    weight: Floats
    n_classes: int


def learn_forest(
    domain: Domain,
    rows: Floats,
    class_weight: Floats,
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
    class_weight : ndarray of shape (n_rows, n_classes)
        The positive weight of each row under its class, 0 under the others.
    options : ForestOptions
    random_state : RandomState instance
    advance : callable
        Called with the number of trees that have just been grown.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> from skpc.learning.random_trees import ForestOptions, learn_forest
    >>> rows, class_weight = (
    ...     np.repeat([[0.0], [1.0]], 50, axis=0),
    ...     np.repeat(np.eye(2), 50, axis=0),
    ... )
    >>> data = Domain.fit(rows, n_bins=10), rows, class_weight
    >>> forest = learn_forest(*data, ForestOptions(), np.random.RandomState(0))
    >>> forest.posterior(np.array([[0.0], [np.nan]])).round(1)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    # Cuts of a column of numbers that trees choose from.
    cuts = 255
    layout, bins = lay_out(domain, rows, class_weight, cuts)
    code = class_weight.argmax(axis=1)
    weight = class_weight.sum(axis=1)
    data = Rows(layout, layout.of_codes(bins.states(rows)), code, weight, class_weight.shape[1])
    choices = _chosen(data, options, random_state)

    def tree(seed: int) -> Tree:
        grown = _grow(data, choices[1], options, seed)
        advance(1.0)
        return _with_tables(data, grown, choices[0])

    seeds = random_state.randint(2**31, size=options.n_estimators)
    return Forest(domain, bins, layout, in_threads(tree, seeds.tolist()), choices)


def _chosen(
    data: Rows, options: ForestOptions, random_state: np.random.RandomState
) -> tuple[str, float]:
    """What the tables of a leaf are of, and its least weight."""
    kinds = list(_LEAST) if options.leaves == "auto" else [options.leaves]
    candidates: list[tuple[str, float]] = []
    for kind in kinds[: data.n_classes]:
        n_entries = (data.layout.place.max() + 1.0) * data.n_classes ** (kind == "class")
        enough = options.n_estimators * data.weight.sum() * n_entries / _ENTRIES
        given = options.min_samples_leaf
        sizes = np.maximum(_LEAST[kind], enough) if given == "auto" else [float(given)]
        candidates += [(kind, float(size)) for size in np.unique(sizes)]
    if len(candidates) == 1:
        return candidates[0]
    sampled = slice(None, None, 1 + len(data.code) // _MOST_ROWS)
    data = data._replace(
        bins=data.bins[sampled], code=data.code[sampled], weight=data.weight[sampled]
    )
    removed = random_state.random_sample(data.bins.shape)
    share = data.weight / data.weight.sum()
    copies = [np.where(removed < rate, -1, data.bins) for rate in _RATES]
    seeds = random_state.randint(2**31, size=_FEW_TREES).tolist()
    options = options._replace(bootstrap=True)
    grown: dict[float, list[_Grown]] = {}
    best = candidates[0]
    losses = np.full(len(share), np.inf)
    # Tables of classes are sure of more than they know: they must gain this many standard errors.
    errors = 3.0
    for kind, size in candidates:
        if size not in grown:
            grown[size] = in_threads(partial(_grow, data, size, options), seeds)
        new_losses = _losses(data, grown[size], kind, copies)
        gain = losses - new_losses
        error = np.sqrt(share**2 @ (gain - share @ gain) ** 2) if kind != best[0] else 0.0
        if share @ gain > errors * error:
            best = (kind, size)
            losses = new_losses
    return best


def _losses(data: Rows, grown: list[_Grown], leaves: str, copies: list[Ints]) -> Floats:
    """Log loss of each row under the trees that did not have it in their bag."""

    def predict(grown_tree: _Grown) -> Floats:
        tree = _with_tables(data, grown_tree, leaves)
        out = grown_tree.weight == 0.0
        answers = np.zeros((len(copies), out.sum(), data.n_classes))
        for bins, answer in zip(copies, answers):
            add_tree(data.layout, tree, bins[out], TRUE, answer)
        return answers

    total = np.zeros((len(copies), len(data.code), data.n_classes))
    for grown_tree, predictions in zip(grown, in_threads(predict, grown)):
        total[:, grown_tree.weight == 0.0] += predictions
    known = total[:, np.arange(len(data.code)), data.code] + 0.5 / data.n_classes
    return np.asarray(-np.log(known / (total.sum(axis=2) + 0.5)).mean(axis=0))


def _grow(data: Rows, least: float, options: ForestOptions, seed: int) -> _Grown:
    """Grow a tree from rows whose missing cells are drawn from those of their class."""
    random_state = np.random.RandomState(seed)
    weight = data.weight
    bins = data.bins.copy()
    u = random_state.random_sample((bins < 0).sum())
    fill(data, u, np.empty((data.n_classes + 1, len(bins))), bins)
    if options.bootstrap:
        # As many draws as rows at least, also where weights are small.
        n_draws = max(round(weight.sum()), len(weight))
        counts = random_state.multinomial(n_draws, weight / weight.sum())
        weight = counts * (weight.sum() / n_draws)
    position = data.layout.position[bins].astype(np.float32)
    drawn = weight > 0.0
    n_columns = bins.shape[1]
    max_features = options.max_features
    if max_features == "auto":
        max_features = min(n_columns, round(2.0 * n_columns**0.5))
    share = min(least / weight.sum(), 0.5)
    tree = DecisionTreeClassifier(
        max_features=max_features, min_weight_fraction_leaf=share, random_state=random_state
    ).fit(position[drawn], data.code[drawn], sample_weight=weight[drawn])
    return _Grown(tree.tree_, tree.tree_.apply(position), weight)


@kernel
def fill(data: Rows, u: Floats, reached: Floats, bins: Ints) -> None:
    """Draw missing cells by uniform numbers, one each, from those that rows of their class know.

    Where none of these does, any row will do; a column without a cell gets its first bin.
    ``reached`` is room for the weight of the rows that know a cell of a column, up to each row: of
    each class, and of all; shape (n_classes + 1, n_rows).
    """
    (n_rows, n_columns) = bins.shape
    all_classes = data.n_classes
    n_drawn = 0
    for j in range(n_columns):
        for c in range(len(reached)):
            total = 0.0
            for i in range(n_rows):
                if data.bins[i, j] >= 0 and (c == data.code[i] or c == all_classes):
                    total += data.weight[i]
                reached[c, i] = total
        for i in range(n_rows):
            if bins[i, j] < 0:
                c = data.code[i] if reached[data.code[i], -1] > 0.0 else all_classes
                drawn = np.searchsorted(reached[c], u[n_drawn] * reached[c, -1], side="right")
                # Nothing is reached where all rows lack the column.
                bins[i, j] = bins[drawn, j] if drawn < n_rows else data.layout.first[j]
                n_drawn += 1


def _with_tables(data: Rows, grown: _Grown, leaves: str) -> Tree:
    """A tree with the distributions of its leaves."""
    (tree, node, weight) = grown
    n_classes = data.n_classes
    is_leaf = tree.children_left < 0
    n_nodes = tree.node_count
    n_columns = data.bins.shape[1]
    n_leaves = int(is_leaf.sum())
    n_places = int(data.layout.place.max()) + 1
    n_tables = n_classes if leaves == "class" else 1
    result = Tree(
        np.where(is_leaf, -1, tree.feature),
        np.floor(tree.threshold).astype(np.int64),
        np.where(is_leaf, np.cumsum(is_leaf) - 1, tree.children_left),
        tree.children_right.astype(np.int64),
        np.empty((n_leaves, n_classes)),
        np.empty((n_leaves, n_tables, n_places)),
        *np.empty((2, n_leaves, n_columns), np.int64),
    )
    counts = np.zeros((n_nodes, n_tables, n_places))
    class_weight = np.zeros((n_nodes, n_classes))
    _count(data, node, weight, counts, class_weight)
    _shrink(data.layout, result, counts, class_weight, _TABLE_ROWS, _CLASS_ROWS)
    return result


@kernel
def _count(data: Rows, node: Ints, weight: Floats, counts: Floats, class_weight: Floats) -> None:
    """Add up weights of places and of classes in the nodes where rows end.

    Shapes (n_nodes, n_tables, n_places) and (n_nodes, n_classes).
    """
    for i, code in enumerate(data.code):
        class_weight[node[i], code] += weight[i]
        for cell in data.bins[i]:
            if cell >= 0:
                counts[node[i], code % counts.shape[1], data.layout.place[cell]] += weight[i]


@kernel(new_arrays=True)
def _shrink(
    layout: Layout,
    tree: Tree,
    counts: Floats,
    class_weight: Floats,
    table_rows: float,
    class_rows: float,
) -> None:
    """Turn the counts of the leaves of a tree into probabilities, from the root on.

    ``table_rows`` and ``class_rows`` that are like those above it join the rows of a node.
    """
    n_nodes = len(counts)
    n_columns = len(layout.first) - 1
    n_places = counts.shape[2]
    # Children stand behind their parents.
    for node in range(n_nodes - 1, -1, -1):
        if tree.column[node] >= 0:
            counts[node] = counts[tree.left[node]] + counts[tree.right[node]]
            class_weight[node] = class_weight[tree.left[node]] + class_weight[tree.right[node]]
    # The box of each node, and the part of each place that is inside.
    low = np.zeros((n_nodes, n_columns), np.int64)
    high = np.zeros((n_nodes, n_columns), np.int64)
    inside = np.zeros((n_nodes, n_places))
    first_place = np.zeros(n_columns + 1, np.int64)
    mass = class_weight.sum(axis=1)
    prior = np.zeros_like(counts[0])
    for j in range(n_columns):
        high[0, j] = layout.first[j + 1] - layout.first[j]
        for s in range(layout.first[j], layout.first[j + 1]):
            first_place[j + 1] = max(first_place[j + 1], layout.place[s] + 1)
            inside[0, layout.place[s]] += layout.share[s]
        # The tables of the classes are like that of all rows.
        n = first_place[j + 1] - first_place[j]
        places = slice(first_place[j], first_place[j + 1])
        prior[:, places] = counts[0][:, places].sum(axis=0) + 1.0 / n
    _blend(first_place, prior, table_rows, counts[0])
    class_weight[0] = (class_weight[0] + class_rows / class_weight.shape[1]) / (
        mass[0] + class_rows
    )
    for node in range(n_nodes):
        column = tree.column[node]
        leaf = tree.left[node]
        if column < 0:
            tree.low[leaf] = low[node]
            tree.high[leaf] = high[node]
            tree.log_joint[leaf] = np.log(class_weight[node] * (mass[node] / mass[0]))
            # Outside of the box both are zero.
            part = np.where(inside[node] > 0.0, inside[node], 1.0)
            tree.log_table[leaf] = np.log(counts[node] / part)
            continue
        for child in (tree.left[node], tree.right[node]):
            low[child] = low[node]
            high[child] = high[node]
            inside[child] = inside[node]
            ends = high if child == tree.left[node] else low
            ends[child, column] = tree.cut[node] + 1
            inside[child, first_place[column] : first_place[column + 1]] = 0.0
            for s in range(layout.first[column], layout.first[column + 1]):
                if low[child, column] <= layout.position[s] < high[child, column]:
                    inside[child, layout.place[s]] += layout.share[s]
            part = np.where(inside[node] > 0.0, inside[node], 1.0)
            _blend(first_place, counts[node] * (inside[child] / part), table_rows, counts[child])
            class_weight[child] = class_weight[child] + class_rows * class_weight[node]
            class_weight[child] /= mass[child] + class_rows


@internal_kernel
def _blend(first_place: Ints, prior: Floats, n_rows: float, counts: Floats) -> None:
    """Turn counts into probabilities: each column gets ``n_rows`` more that are like the prior."""
    for j in range(len(first_place) - 1):
        places = slice(first_place[j], first_place[j + 1])
        for k in range(len(counts)):
            weight = n_rows / prior[k, places].sum()
            total = counts[k, places].sum() + n_rows
            for place in range(places.start, places.stop):
                counts[k, place] = (counts[k, place] + weight * prior[k, place]) / total
