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

#: Numbers that are held at a time: log densities of rows, trees and classes, or bins of draws.
_HELD = 2**20
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
        return self._ask(rows, lambda bins: posterior(self.layout, self.trees, bins))

    def log_density(self, rows: Floats) -> Floats:
        """Log density of the observed cells with each class, shape (n_rows, n_classes)."""
        within = self.domain.axis_table.log_density(rows) - math.log(len(self.trees.root))
        return within[:, np.newaxis] + self._ask(rows, self._log_sum)

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

    def _log_sum(self, bins: Ints) -> Floats:
        """Log of the sum over the trees."""
        joint = np.empty((len(bins), len(self.trees.root), self.n_classes))
        _log_joint(self.layout, self.trees, bins, FALSE, joint)
        return np.asarray(logsumexp(joint, axis=1))

    def _ask(self, rows: Floats, ask: Callable[[Ints], Floats]) -> Floats:
        """An answer of shape (n_rows, n_classes), for some rows at a time."""
        answer = np.empty((len(rows), self.n_classes))

        def work(part: slice) -> None:
            answer[part] = ask(self.layout.of_codes(self.bins.states(rows[part])))

        size = max(1, _HELD // (len(self.trees.root) * self.n_classes))
        in_threads(work, slices(len(rows), size))
        return answer


def posterior(layout: Layout, trees: Trees, bins: Ints) -> Floats:
    """Probabilities of the classes of rows, given as :meth:`Layout.bins`: means over the trees."""
    joint = np.empty((len(bins), len(trees.root), trees.log_joint.shape[1]))
    _log_joint(layout, trees, bins, TRUE, joint)
    joint -= joint.max(axis=2, keepdims=True)
    np.exp(joint, out=joint)
    joint /= joint.sum(axis=2, keepdims=True)
    return np.asarray(joint.mean(axis=1))


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
def _log_joint(layout: Layout, trees: Trees, bins: Ints, relative: bool, joint: Floats) -> None:
    """Log densities of rows and classes under each tree, shape (n_rows, n_trees, n_classes).

    ``relative``: a number of each row and tree may be left out that is the same for all classes.
    """
    n_features, n_classes = bins.shape[1], joint.shape[2]
    n_tables, n_leaves = trees.log_table.shape[1], len(trees.low)
    waiting, reached = np.empty(n_leaves, np.int64), np.empty(n_leaves, np.int64)
    value, place = np.empty((n_leaves, n_classes)), np.empty(n_features, np.int64)
    for i in range(len(bins)):
        n_places = 0
        for j in range(n_features):
            if bins[i, j] >= 0:
                place[n_places] = layout.place[bins[i, j]]
                n_places += 1
        for t in range(len(trees.root)):
            n_reached = _reach(layout.position, trees, trees.root[t], bins[i], waiting, reached)
            if relative and n_reached == 1 and n_tables == 1:
                # The tables of a single leaf say the same of all classes.
                joint[i, t] = trees.log_joint[reached[0]]
                continue
            for r in range(n_reached):
                value[r] = trees.log_joint[reached[r]]
                for k in range(n_tables):
                    density = 0.0
                    for p in range(n_places):
                        density += trees.log_table[reached[r], k, place[p]]
                    for c in range(k, n_classes, n_tables):
                        value[r, c] += density
            for c in range(n_classes):
                top = value[:n_reached, c].max()
                total = 0.0
                for r in range(n_reached):
                    total += math.exp(value[r, c] - top)
                joint[i, t, c] = top + math.log(total)


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
