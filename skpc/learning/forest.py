"""Random forests as joint densities of rows and classes: what they answer.

A leaf of a tree is a box of columns. It has a share of the training rows, shares of the classes,
and tables of independent columns, in all or for each class. Where the cell that a node asks for is
missing, both branches count. So what a tree says of the observed cells is exact.

Trees cut numbers more finely than tables can count them. They cut between bins, which are parts of
the bins of the domain, the places of the tables. Within its place a number is distributed as it is
in the whole table, what lies outside of the box left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import FALSE, TRUE, inlined, kernel
from skpc._threads import in_threads, slices
from skpc.domain import Domain
from skpc.variables import Axis, AxisTable
from skpc.variables.number import distinct

#: Cells of rows that are answered for at a time, or bins of draws that are held.
_HELD = 2**17
#: The least part of its place that a bin may be: all of a box may lie in it.
_LEAST_SHARE = 1e-12


class Layout(NamedTuple):
    """What the columns are for trees and for tables.

    Attributes
    ----------
    first : ndarray of shape (n_features + 1,)
        Where the bins (or categories) of each column begin, end to end.
    position : ndarray of shape (n_bins,)
        Rank of each bin in the order in which trees cut its column: that of numbers, or that of the
        shares of the classes among names.
    place : ndarray of shape (n_bins,)
        The entry of a table that the bin is a part of: a bin of the domain, or a category.
    share : ndarray of shape (n_bins,)
        How large a part it is.
    """

    first: Ints
    position: Ints
    place: Ints
    share: Floats

    def of_codes(self, codes: NDArray[np.integer]) -> Ints:
        """Where the bin of each cell stands, -1 where missing."""
        return np.where(codes < 0, -1, codes + self.first[:-1])


def lay_out(
    domain: Domain, rows: Floats, code: Ints, weight: Floats, n_classes: int, n_cuts: int
) -> tuple[Layout, AxisTable]:
    """The layout of columns, and the axes of the bins of numbers.

    Parameters
    ----------
    domain : Domain
        With bins for numbers.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    code, weight : ndarrays of shape (n_rows,)
        Numbers of their classes, and positive weights.
    n_classes : int
    n_cuts : int
        Cuts of a column that trees may choose from, beside the edges of its axis.
    """
    axes: list[Axis | None] = []
    parts, n_places = [], 0
    for column, cells in enumerate(rows.T):
        n_states, observed = int(domain.n_states[column]), ~np.isnan(cells)
        axis, place, share = None, np.arange(n_states), np.ones(n_states)
        states = domain.categories[column]
        if states is not None:
            position = place
            # Numbers have an order of their own.
            if states.dtype.kind not in "biuf":
                table = np.zeros((n_states, n_classes))
                known = cells[observed].astype(np.int64), code[observed]
                np.add.at(table, known, weight[observed])
                position = _order_by_class(table)
        else:
            cuts = _cuts(*distinct(cells, weight), n_cuts)
            number = domain.number_of(column)
            cuts = cuts if number is None else number.end_of_cell(cuts)
            axis, place, share = _refined(domain.axis_of(column), cuts)
            position = np.arange(len(place))
        axes.append(axis)
        parts.append((position, n_places + place, share))
        n_places += n_states
    first = offsets([len(part[0]) for part in parts])
    return Layout(first, *map(np.concatenate, zip(*parts))), AxisTable.from_axes(axes)


class Trees(NamedTuple):
    """Trees end to end, and the distributions in their leaves.

    Attributes
    ----------
    root : ndarray of shape (n_trees,)
    column, cut : ndarrays of shape (n_nodes,)
        Rows go to the left up to this position of this column; column -1 for a leaf.
    left, right : ndarrays of shape (n_nodes,)
        The nodes below; ``left`` of a leaf is its number among the leaves.
    log_joint : ndarray of shape (n_leaves, n_classes)
        Log share among all rows of those of a class in a leaf.
    log_table : ndarray of shape (n_leaves, 1 or n_classes, n_places)
        Log probability of each place less that of its share in the box of the leaf, among all rows
        or those of each class; -inf outside of the box.
    low, high : ndarrays of shape (n_leaves, n_features)
        The box of a leaf: positions from the first to below the second.
    """

    root: Ints
    column: Ints
    cut: Ints
    left: Ints
    right: Ints
    log_joint: Floats
    log_table: Floats
    low: Ints
    high: Ints

    @classmethod
    def joined(cls, trees: Sequence[Trees]) -> Trees:
        """Several end to end."""
        whole = cls(*map(np.concatenate, zip(*trees)))
        sizes = [len(tree.column) for tree in trees]
        node = np.repeat(offsets(sizes)[:-1], sizes)
        leaf = np.repeat(offsets([len(tree.low) for tree in trees])[:-1], sizes)
        left = whole.left + np.where(whole.column < 0, leaf, node)
        return whole._replace(root=offsets(sizes)[:-1], left=left, right=whole.right + node)


class Forest(NamedTuple):
    """A random forest that is a density of encoded rows and of numbers of classes.

    Attributes
    ----------
    domain : Domain
        What the columns are.
    bins : AxisTable
        The bins of numbers between which trees cut.
    layout : Layout
    trees : Trees
    choices : tuple
        Whether a leaf has tables of "all" its rows or of those of each "class", and the least
        weight of its rows.
    """

    domain: Domain
    bins: AxisTable
    layout: Layout
    trees: Trees
    choices: tuple[str, float]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.trees.log_joint.shape[1])

    @property
    def class_prior(self) -> Floats:
        """Probabilities of the classes of rows without any cell."""
        return softmax(logsumexp(self.trees.log_joint, axis=0))

    def posterior(self, rows: Floats) -> Floats:
        """Probabilities of the classes given the observed cells, the mean over the trees."""
        return self._ask(rows, posterior)

    def log_density(self, rows: Floats) -> Floats:
        """Log density of the observed cells with each class, shape (n_rows, n_classes)."""
        within = self.domain.axis_table.log_density(rows) - math.log(len(self.trees.root))
        return within[:, np.newaxis] + self._ask(rows, _log_sum)

    def draw(self, code: Ints, random_state: np.random.RandomState) -> Floats:
        """Draw an encoded row for each number of a class."""
        codes = np.empty((len(code), self.domain.n_features), np.int64)
        for part in slices(len(code), max(1, _HELD // len(self.layout.place))):
            codes[part] = self._draw_codes(code[part], random_state)
        seed = int(random_state.randint(2**31))
        return self.domain.snapped(self.bins.draw(codes, np.full(codes.shape, np.nan), seed))

    def _draw_codes(self, code: Ints, random_state: np.random.RandomState) -> Ints:
        trees, (first, position, place, share) = self.trees, self.layout
        leaf = np.empty(len(code), np.int64)
        for c in np.unique(code).tolist():
            of_leaves = softmax(trees.log_joint[:, c])
            leaf[code == c] = random_state.choice(len(of_leaves), (code == c).sum(), p=of_leaves)
        table = trees.log_table[leaf, code % trees.log_table.shape[1]]
        low, high = trees.low[leaf].T[:, :, np.newaxis], trees.high[leaf].T[:, :, np.newaxis]
        codes = np.empty((len(code), len(low)), np.int64)
        for column, bins in enumerate(map(slice, first, first[1:])):
            in_box = (low[column] <= position[bins]) & (position[bins] < high[column])
            mass = np.exp(table[:, place[bins]]) * share[bins] * in_box
            below = np.cumsum(mass, axis=1)
            u = random_state.random_sample((len(code), 1)) * below[:, -1:]
            codes[:, column] = (below <= u).sum(axis=1)
        return codes

    def _ask(self, rows: Floats, ask: Callable[[Layout, Trees, Ints], Floats]) -> Floats:
        """An answer of shape (n_rows, n_classes), for some rows at a time."""
        answer = np.empty((len(rows), self.n_classes))

        def work(part: slice) -> None:
            bins = self.layout.of_codes(self.bins.states(rows[part]))
            answer[part] = ask(self.layout, self.trees, bins)

        in_threads(work, slices(len(rows), max(1, _HELD // rows.shape[1])))
        return answer


def posterior(layout: Layout, trees: Trees, bins: Ints) -> Floats:
    """Probabilities of the classes of rows, given as :meth:`Layout.of_codes`."""
    total = np.zeros((len(bins), trees.log_joint.shape[1]))
    _sum_over_trees(layout, trees, bins, TRUE, total)
    return total / len(trees.root)


def _log_sum(layout: Layout, trees: Trees, bins: Ints) -> Floats:
    """Log of the sum over the trees of their densities of rows and classes."""
    total = np.full((len(bins), trees.log_joint.shape[1]), -np.inf)
    _sum_over_trees(layout, trees, bins, FALSE, total)
    return total


def _order_by_class(table: Floats) -> Ints:
    """Ranks of categories by their shares of the classes.

    Two classes order them so that the best division of the categories is a cut; more classes do
    along the direction in which the shares differ most.
    """
    total = table.sum(axis=1, keepdims=True)
    prior = table.sum(axis=0) / max(table.sum(), 1e-300)
    difference = (table + prior) / (total + 1.0) - prior
    direction = np.linalg.svd(np.sqrt(total) * difference)[2][0]
    # The sign of a direction is arbitrary.
    direction *= np.sign(direction[np.abs(direction).argmax()])
    return np.argsort(np.argsort(difference @ direction, kind="stable"))


def _cuts(points: Floats, mass: Floats, n_cuts: int) -> Floats:
    """Places between neighbouring values of a column; between about equal masses if many."""
    middle = points[:-1] + 0.5 * np.diff(points)
    if len(middle) > n_cuts:
        level = np.floor(np.cumsum(mass) * ((n_cuts + 1) / mass.sum()))
        middle = middle[np.diff(level) > 0.0]
    return middle


def _refined(axis: Axis, cuts: Floats) -> tuple[Axis, Ints, Floats]:
    """An axis whose states are the parts of another one's cells, and what part of which state."""
    cell = np.searchsorted(axis.edges, cuts, side="right")
    # Tails and atoms stay whole.
    whole = (cell == 0) | (cell == len(axis.edges)) | ~np.isnan(axis.points[cell])
    edges = np.unique(np.append(axis.edges, cuts[~whole]))
    cell = np.append(0, np.searchsorted(axis.edges, edges, side="right"))
    part = np.ones(len(cell))
    part[1:-1] = np.diff(edges) / axis.widths[cell[1:-1]]
    share = np.maximum(axis.shares[cell] * part, _LEAST_SHARE)
    scales, draws = (axis.lower_scale, axis.upper_scale), (axis.low, axis.high)
    bins = Axis(edges, *scales, None, None, axis.points[cell], *draws)
    return bins, axis.states[cell], share


@kernel(new_arrays=True)
def _sum_over_trees(
    layout: Layout, trees: Trees, bins: Ints, as_posterior: bool, total: Floats
) -> None:
    """Add up probabilities of the classes of rows, or joint densities in logs, over all trees."""
    n_rows, n_leaves, n_classes = len(bins), len(trees.low), total.shape[1]
    waiting, reached = np.empty(n_leaves, np.int64), np.empty(n_leaves, np.int64)
    value, joint = np.empty((n_classes, n_leaves)), np.empty(n_classes)
    places, n_places = np.empty(bins.shape, np.int64), np.zeros(n_rows, np.int64)
    for i in range(n_rows):
        for cell in bins[i]:
            if cell >= 0:
                places[i, n_places[i]] = layout.place[cell]
                n_places[i] += 1
    # All rows under one tree, so that its tables stay in the cache.
    for root in trees.root:
        for i in range(n_rows):
            n_reached = _reach(layout.position, trees, root, bins[i], waiting, reached)
            # What the table of a single leaf says is the same for all classes.
            n_told = (
                0 if as_posterior and n_reached == trees.log_table.shape[1] == 1 else n_places[i]
            )
            _add_leaves(trees, reached[:n_reached], places[i, :n_told], value, joint)
            if as_posterior:
                whole = _log_sum_exp(joint, n_classes)
                for c in range(n_classes):
                    total[i, c] += math.exp(joint[c] - whole)
            else:
                for c in range(n_classes):
                    low, high = min(total[i, c], joint[c]), max(total[i, c], joint[c])
                    total[i, c] = high + math.log1p(math.exp(low - high))


@inlined
def _reach(
    position: Ints, trees: Trees, root: int, bins: Ints, waiting: Ints, reached: Ints
) -> int:
    """The number of leaves whose boxes have a row's observed cells; lists them in ``reached``."""
    n_waiting, n_reached, waiting[0] = 1, 0, root
    while n_waiting:
        n_waiting -= 1
        node = waiting[n_waiting]
        while trees.column[node] >= 0:
            cell = bins[trees.column[node]]
            if cell < 0:
                # Both ways: the right one waits.
                waiting[n_waiting] = trees.right[node]
                n_waiting += 1
            if cell < 0 or position[cell] <= trees.cut[node]:
                node = trees.left[node]
            else:
                node = trees.right[node]
        reached[n_reached] = trees.left[node]
        n_reached += 1
    return n_reached


@inlined
def _add_leaves(trees: Trees, leaves: Ints, places: Ints, value: Floats, joint: Floats) -> None:
    """Log density of the cells in these places with each class, in any of some leaves."""
    n_classes, n_tables = len(joint), trees.log_table.shape[1]
    for r in range(len(leaves)):
        for k in range(n_tables):
            density = 0.0
            for place in places:
                density += trees.log_table[leaves[r], k, place]
            for c in range(k, n_classes, n_tables):
                value[c, r] = trees.log_joint[leaves[r], c] + density
    for c in range(n_classes):
        joint[c] = _log_sum_exp(value[c], len(leaves))


@inlined
def _log_sum_exp(values: Floats, n: int) -> float:
    """Logarithm of the sum of the exponentials of the first numbers."""
    top, total = values[0], 0.0
    for k in range(1, n):
        top = max(top, values[k])
    for k in range(n):
        total += math.exp(values[k] - top)
    return top + math.log(total)
