"""Learning a generative forest: its trees, the tables at their leaves, and the choice of leaves.

Trees are grown by scikit-learn on the positions of bins. The tables of a tree are shrunk along its
paths: the probabilities at a node are the prior of the nodes below. The forest itself is in
:mod:`skpc.learning.forest`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.tree import DecisionTreeClassifier

from skpc._arrays import Floats, Ints, divisors, group_sums, owners
from skpc._jit import TRUE
from skpc._threads import in_threads
from skpc.domain import Domain
from skpc.learning.forest import Forest, Layout, Tree, add_tree, lay_out

#: Least weights of a leaf to choose from, where its tables are of all rows or of each class.
_LEAF_WEIGHTS = {"all": (2.0, 8.0), "class": (8.0,)}


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


class BinnedRows(NamedTuple):
    """What trees are grown from.

    Attributes
    ----------
    layout : Layout
        Places of the bins in the tables.
    bins : ndarray of shape (n_rows, n_columns), int
        The bins of distinct rows, numbered over all columns; -1 where missing.
    code : ndarray of shape (n_rows,), int
        Their classes.
    weight : ndarray of shape (n_rows,)
    n_classes : int
    """

    layout: Layout
    bins: Ints
    code: Ints
    weight: Floats
    n_classes: int


def learn_generative_forest(
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
    >>> from skpc.learning.random_trees import (
    ...     ForestOptions,
    ...     learn_generative_forest,
    ... )
    >>> rows = np.repeat([[0.0], [1.0]], 50, axis=0)
    >>> class_weight = np.repeat(np.eye(2), 50, axis=0)
    >>> forest = learn_generative_forest(
    ...     Domain.fit(rows, n_bins=10),
    ...     rows,
    ...     class_weight,
    ...     ForestOptions(),
    ...     np.random.RandomState(0),
    ... )
    >>> forest.posterior(np.array([[0.0], [np.nan]])).round(1)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    # Cuts of a column of numbers that trees choose from.
    n_cuts = 255
    layout, bins = lay_out(domain, rows, class_weight, n_cuts)
    code = class_weight.argmax(axis=1)
    weight = class_weight.sum(axis=1)
    data = BinnedRows(
        layout, layout.of_codes(bins.states(rows)), code, weight, class_weight.shape[1]
    )
    choices = _chosen_leaves(data, options, random_state)

    def tree(seed: int) -> Tree:
        grown = _grow(data, choices[1], options, seed)
        advance(1.0)
        return _with_tables(data, grown, choices[0])

    seeds = random_state.randint(2**31, size=options.n_estimators)
    return Forest(domain, bins, layout, in_threads(tree, seeds.tolist()), choices)


def _chosen_leaves(
    data: BinnedRows, options: ForestOptions, random_state: np.random.RandomState
) -> tuple[str, float]:
    """Choose whether leaves have tables of "all" rows or of each "class", and their least weight.

    Small forests of each candidate predict the classes of rows that are not in the bag of a tree,
    whole and with some cells removed.
    """
    # Shares of the cells that are removed.
    rates = (0.0, 0.4)
    # Trees of a small forest, and about how many rows of a large table it sees.
    few_trees = 10
    most_rows = 20_000
    # Entries of the tables of a forest, beyond which its leaves must be heavier.
    most_entries = 2.0**27
    kinds = list(_LEAF_WEIGHTS) if options.leaves == "auto" else [options.leaves]
    candidates: list[tuple[str, float]] = []
    # With a single class, tables of a class are those of all rows.
    for kind in kinds[: data.n_classes]:
        n_entries = (data.layout.place.max() + 1.0) * data.n_classes ** (kind == "class")
        # Leaves of this weight are few enough for the tables of all trees.
        least_size = options.n_estimators * data.weight.sum() * n_entries / most_entries
        given = options.min_samples_leaf
        sizes = np.maximum(_LEAF_WEIGHTS[kind], least_size) if given == "auto" else [float(given)]
        candidates += [(kind, float(size)) for size in np.unique(sizes)]
    if len(candidates) == 1:
        return candidates[0]
    sampled = slice(None, None, 1 + len(data.code) // most_rows)
    data = data._replace(
        bins=data.bins[sampled], code=data.code[sampled], weight=data.weight[sampled]
    )
    removed = random_state.random_sample(data.bins.shape)
    share = data.weight / data.weight.sum()
    copies = [np.where(removed < rate, -1, data.bins) for rate in rates]
    seeds = random_state.randint(2**31, size=few_trees).tolist()
    # Only a bag leaves out rows, by which candidates are judged.
    options = options._replace(bootstrap=True)
    grown: dict[float, list[_Grown]] = {}
    best = candidates[0]
    losses = np.full(len(share), np.inf)
    # Another kind of tables has to gain this many standard errors: tables of classes are often too
    # sure of themselves.
    n_errors = 3.0
    for kind, size in candidates:
        # Tables of either kind are made from the same trees.
        if size not in grown:
            grown[size] = in_threads(partial(_grow, data, size, options), seeds)
        new_losses = _losses(data, grown[size], kind, copies)
        gain = losses - new_losses
        error = np.sqrt(share**2 @ (gain - share @ gain) ** 2) if kind != best[0] else 0.0
        if share @ gain > n_errors * error:
            best = (kind, size)
            losses = new_losses
    return best


def _losses(data: BinnedRows, grown: list[_Grown], leaves: str, copies: list[Ints]) -> Floats:
    """Mean log loss of each row, over copies of it, under trees without it in their bag."""

    def predict(grown_tree: _Grown) -> Floats:
        tree = _with_tables(data, grown_tree, leaves)
        is_out = grown_tree.weight == 0.0
        answers = np.zeros((len(copies), is_out.sum(), data.n_classes))
        for bins, answer in zip(copies, answers):
            add_tree(data.layout, tree, bins[is_out], TRUE, answer)
        return answers

    total = np.zeros((len(copies), len(data.code), data.n_classes))
    for grown_tree, predictions in zip(grown, in_threads(predict, grown)):
        total[:, grown_tree.weight == 0.0] += predictions
    # Half a tree that knows nothing is added: a row that is in all bags has a finite loss.
    true_class = total[:, np.arange(len(data.code)), data.code] + 0.5 / data.n_classes
    return -np.log(true_class / (total.sum(axis=2) + 0.5)).mean(axis=0)


def _grow(data: BinnedRows, least_weight: float, options: ForestOptions, seed: int) -> _Grown:
    """Grow a tree whose leaves have some least weight; :func:`fill` draws missing cells."""
    random_state = np.random.RandomState(seed)
    weight = data.weight
    bins = fill(data, random_state.random_sample((data.bins < 0).sum()))
    if options.bootstrap:
        # As many draws as rows at least, also where weights are small.
        n_draws = max(round(weight.sum()), len(weight))
        counts = random_state.multinomial(n_draws, weight / weight.sum())
        weight = counts * (weight.sum() / n_draws)
    # Trees of scikit-learn take float32, in which ranks are exact.
    position = data.layout.position[bins].astype(np.float32)
    drawn = weight > 0.0
    n_columns = bins.shape[1]
    max_features = options.max_features
    if max_features == "auto":
        max_features = min(n_columns, round(2.0 * n_columns**0.5))
    # scikit-learn takes no greater share than a half.
    share = min(least_weight / weight.sum(), 0.5)
    tree = DecisionTreeClassifier(
        max_features=max_features, min_weight_fraction_leaf=share, random_state=random_state
    ).fit(position[drawn], data.code[drawn], sample_weight=weight[drawn])
    return _Grown(tree.tree_, tree.tree_.apply(position), weight)


def fill(data: BinnedRows, u: Floats) -> Ints:
    """Fill each missing cell with the bin of a row of its class, drawn by a uniform number.

    Where no row of the class has the cell, it is drawn from all rows; a column without a cell gets
    its first bin. The uniform numbers ``u`` belong to the missing cells of the first column, then
    to those of the second, and so on.
    """
    filled = data.bins.copy()
    by_class = np.argsort(data.code, kind="stable")
    n_drawn = 0
    for column, bins in enumerate(data.bins.T):
        missing = np.flatnonzero(bins < 0)
        uniform = u[n_drawn : n_drawn + len(missing)]
        n_drawn += len(missing)
        # The rows that have the cell, class by class: those of a class are a stretch.
        known = by_class[bins[by_class] >= 0]
        if not len(known):
            filled[:, column] = data.layout.first[column]
            continue
        starts = np.searchsorted(data.code[known], np.arange(data.n_classes + 1))
        begin = starts[data.code[missing]]
        end = starts[data.code[missing] + 1]
        has_none = begin == end
        begin[has_none] = 0
        end[has_none] = len(known)
        cumulated = np.append(0.0, np.cumsum(data.weight[known]))
        drawn_weight = cumulated[begin] + uniform * (cumulated[end] - cumulated[begin])
        drawn = np.searchsorted(cumulated[1:], drawn_weight, side="right")
        # Rounding must not lead out of the class.
        filled[missing, column] = bins[known[np.clip(drawn, begin, end - 1)]]
    return filled


def _with_tables(data: BinnedRows, grown: _Grown, leaves: str) -> Tree:
    """A grown tree with the tables of its leaves."""
    tree, node, weight = grown
    n_classes = data.n_classes
    is_leaf = tree.children_left < 0
    n_nodes = tree.node_count
    n_columns = data.bins.shape[1]
    n_leaves = int(is_leaf.sum())
    n_places = int(data.layout.place.max()) + 1
    n_tables = n_classes if leaves == "class" else 1
    result = Tree(
        np.where(is_leaf, -1, tree.feature),
        # Ranks are whole, so that a threshold says the same without its fraction.
        np.floor(tree.threshold).astype(np.int64),
        np.where(is_leaf, np.cumsum(is_leaf) - 1, tree.children_left),
        tree.children_right.astype(np.int64),
        np.empty((n_leaves, n_classes)),
        np.empty((n_leaves, n_tables, n_places)),
        *np.empty((2, n_leaves, n_columns), np.int64),
    )
    # Weights of places in tables, and of classes, in the nodes where rows end.
    row, column = np.nonzero(data.bins >= 0)
    table = node[row] * n_tables + data.code[row] % n_tables
    entry = table * n_places + data.layout.place[data.bins[row, column]]
    n_entries = n_nodes * n_tables * n_places
    counts = group_sums(entry, weight[row], n_entries)
    class_entry = node * n_classes + data.code
    class_weight = group_sums(class_entry, weight, n_nodes * n_classes)
    _shrink(
        data.layout,
        result,
        counts.reshape(n_nodes, n_tables, n_places),
        class_weight.reshape(n_nodes, n_classes),
    )
    return result


def _shrink(layout: Layout, tree: Tree, counts: Floats, class_weight: Floats) -> None:
    """Turn the counts at the leaves of a tree into probabilities, shrunk from the root on.

    Parameters
    ----------
    layout : Layout
    tree : Tree
        Its boxes and tables are written.
    counts : ndarray of shape (n_nodes, n_tables, n_places)
        Weights of the rows that end in each node; overwritten.
    class_weight : ndarray of shape (n_nodes, n_classes)
        The same for classes; overwritten.
    """
    # The probabilities at a node count as this many rows in its children: of columns, of the class.
    table_rows = 10.0
    class_rows = 0.3
    n_nodes, n_tables, n_places = counts.shape
    n_columns = len(layout.first) - 1
    # The inner nodes of each level, from the root on.
    levels = []
    level = np.zeros(1, np.int64)
    while len(level := level[tree.column[level] >= 0]):
        levels.append(level)
        level = np.append(tree.left[level], tree.right[level])
    for level in reversed(levels):
        for total in (counts, class_weight):
            # Rows have been counted in leaves; a node has those of the nodes below.
            total[level] = total[tree.left[level]] + total[tree.right[level]]
    mass = class_weight.sum(axis=1, keepdims=True)
    # The box of each node, and the part of each place that is inside.
    low = np.zeros((n_nodes, n_columns), np.int64)
    high = np.repeat(np.diff(layout.first)[np.newaxis], n_nodes, axis=0)
    for level in levels:
        left = tree.left[level]
        right = tree.right[level]
        for child in (left, right):
            low[child] = low[level]
            high[child] = high[level]
        high[left, tree.column[level]] = tree.cut[level] + 1
        low[right, tree.column[level]] = tree.cut[level] + 1
    column_of_bin = owners(np.diff(layout.first))
    in_box = (low[:, column_of_bin] <= layout.position) & (layout.position < high[:, column_of_bin])
    bins = np.arange(len(layout.place))
    shares = csr_array((layout.share, (bins, layout.place)), (len(bins), n_places))
    inside = in_box @ shares
    # Shape (n_nodes, n_places). Outside of the box a divisor of one keeps zeros.
    part = divisors(inside)
    starts = np.append(0, np.maximum.reduceat(layout.place, layout.first[:-1])[:-1] + 1)
    n_places_of = np.diff(starts, append=n_places)

    def blend(prior: Floats, counts: Floats) -> Floats:
        """Probabilities by counts and ``table_rows`` rows of each column that are like a prior."""
        of_columns = [np.add.reduceat(table, starts, axis=2) for table in (prior, counts)]
        scale, total = (np.repeat(sums, n_places_of, axis=2) for sums in of_columns)
        return (counts + table_rows / scale * prior) / (total + table_rows)

    # The tables of the classes are like that of all rows.
    prior = counts[:1].sum(axis=1, keepdims=True) + 1.0 / np.repeat(n_places_of, n_places_of)
    counts[:1] = blend(np.repeat(prior, n_tables, axis=1), counts[:1])
    class_weight[0] += class_rows / class_weight.shape[1]
    class_weight[0] /= mass[0] + class_rows
    for level in levels:
        for child in (tree.left[level], tree.right[level]):
            # The prior of a child are the probabilities of its parent in the box of the child.
            ratio = (inside[child] / part[level])[:, np.newaxis]
            counts[child] = blend(counts[level] * ratio, counts[child])
            class_weight[child] += class_rows * class_weight[level]
            class_weight[child] /= mass[child] + class_rows
    leaf = np.flatnonzero(tree.column < 0)
    # Leaves are numbered in the order of nodes.
    tree.low[:] = low[leaf]
    tree.high[:] = high[leaf]
    with np.errstate(divide="ignore"):
        tree.log_joint[:] = np.log(class_weight[leaf] * (mass[leaf] / mass[0]))
        tree.log_table[:] = np.log(counts[leaf] / part[leaf, np.newaxis])
