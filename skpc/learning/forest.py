"""Random forests as joint densities of rows and classes: what they answer.

A leaf of a tree is a box of columns. It has a share of the training rows, shares of the classes,
and tables of independent columns, in all or for each class. Where the cell that a node asks for is
missing, both branches count. So what a tree says of the observed cells is exact.

Trees cut numbers more finely than tables can count them. They cut between bins, which are parts of
the bins of the domain, the places of the tables. Within its place a number is distributed as it is
in the whole table, what lies outside of the box left out.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from skpc._arrays import ROUNDING, Codes, Floats, Ints, divisors, offsets
from skpc._jit import FALSE, TRUE, inlined, kernel
from skpc._random import draw_states
from skpc._threads import in_threads, slices
from skpc.domain import Domain
from skpc.variables import Histogram, HistogramTable
from skpc.variables.atoms import distinct

#: Cells of rows that are answered for at a time, or bins of draws that are held.
_HELD = 2**17


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

    def of_codes(self, codes: Codes) -> Ints:
        """Where the bin of each cell stands, -1 where missing."""
        # In the order of rows, whatever that of the codes: kernels are compiled for one of them.
        return np.ascontiguousarray(np.where(codes < 0, -1, codes + self.first[:-1]))


class Tree(NamedTuple):
    """A tree, and the distributions in its leaves.

    Attributes
    ----------
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

    column: Ints
    cut: Ints
    left: Ints
    right: Ints
    log_joint: Floats
    log_table: Floats
    low: Ints
    high: Ints


class Forest(NamedTuple):
    """A random forest that is a density of encoded rows and of numbers of classes.

    Attributes
    ----------
    domain : Domain
        What the columns are.
    bins : HistogramTable
        The bins of numbers between which trees cut.
    layout : Layout
    trees : list of Tree
    choices : tuple
        Whether a leaf has tables of "all" its rows or of those of each "class", and the least
        weight of its rows.
    """

    domain: Domain
    bins: HistogramTable
    layout: Layout
    trees: list[Tree]
    choices: tuple[str, float]

    def posterior(self, rows: Floats) -> Floats:
        """Probabilities of the classes given the observed cells, the mean over the trees."""
        return self._total(rows, 0.0, TRUE) / len(self.trees)

    def log_density(self, rows: Floats) -> Floats:
        """Log density of the observed cells with each class, shape (n_rows, n_classes)."""
        within = self.domain.axis_table.log_density(rows) - math.log(len(self.trees))
        return within[:, np.newaxis] + self._total(rows, -np.inf, FALSE)

    def _total(self, rows: Floats, start: float, sums_posteriors: bool) -> Floats:
        """Add up what the trees say of rows, for some rows at a time; see :func:`add_tree`."""
        total = np.full((len(rows), self.trees[0].log_joint.shape[1]), start)

        def work(part: slice) -> None:
            bins = self.layout.of_codes(self.bins.states(rows[part]))
            for tree in self.trees:
                add_tree(self.layout, tree, bins, sums_posteriors, total[part])

        in_threads(work, slices(len(rows), max(1, _HELD // rows.shape[1])))
        return total

    def draw(self, n_rows: int, random_state: np.random.RandomState) -> tuple[Floats, Ints]:
        """Draw encoded rows, and the numbers of their classes."""
        tree = random_state.randint(len(self.trees), size=n_rows)
        code = np.empty(n_rows, np.int64)
        codes = np.empty((n_rows, self.domain.n_features), np.int64)
        for part in slices(n_rows, max(1, _HELD // len(self.layout.place))):
            for t in np.unique(tree[part]).tolist():
                tree_rows = part.start + np.flatnonzero(tree[part] == t)
                codes[tree_rows], code[tree_rows] = self._draw(
                    self.trees[t], len(tree_rows), random_state
                )
        seed = random_state.randint(2**31)
        return self.domain.snap_to_values(
            self.bins.draw(codes, np.full(codes.shape, np.nan), seed)
        ), code

    def _draw(
        self, tree: Tree, n_rows: int, random_state: np.random.RandomState
    ) -> tuple[Ints, Ints]:
        n_classes = tree.log_joint.shape[1]
        (first_bins, position, place, share) = self.layout
        # Leaf and class are drawn together, from (n_leaves, n_classes) end to end.
        joint = softmax(tree.log_joint.ravel())
        leaf, code = np.divmod(random_state.choice(len(joint), n_rows, p=joint), n_classes)
        # Shape (n_rows, n_bins): tables have places, of which each bin has a share.
        mass = np.exp(tree.log_table[leaf, code % tree.log_table.shape[1]])[:, place] * share
        codes = np.empty((n_rows, len(first_bins) - 1), np.int64)
        for column, bins in enumerate(map(slice, first_bins, first_bins[1:])):
            low, high = (ends[leaf, column, np.newaxis] for ends in (tree.low, tree.high))
            # A place at the edge of a box may have bins inside and outside of it.
            in_box = (low <= position[bins]) & (position[bins] < high)
            codes[:, column] = draw_states(mass[:, bins] * in_box, random_state)
        return codes, code


def lay_out(
    domain: Domain, rows: Floats, class_weight: Floats, n_cuts: int
) -> tuple[Layout, HistogramTable]:
    """The layout of columns, and the axes of the bins of numbers.

    Parameters
    ----------
    domain : Domain
        With bins for numbers.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    class_weight : ndarray of shape (n_rows, n_classes)
        The weight of each row under its class, 0 under the others.
    n_cuts : int
        Cuts of a column that trees may choose from, beside the edges of its axis.
    """
    axes: list[Histogram | None] = []
    parts = []
    n_places = 0
    for column, (cells, states) in enumerate(zip(rows.T, (c.states for c in domain))):
        n_states = int(domain.n_states[column])
        axis = None
        place = np.arange(n_states)
        share = np.ones(n_states)
        if states is None:
            axis, place, share = _refined(domain, column, cells, class_weight.sum(axis=1), n_cuts)
        position = np.arange(len(place))
        # Names have no order of their own.
        if states is not None and states.dtype.kind not in "biuf":
            observed = ~np.isnan(cells)
            table = np.zeros((n_states, class_weight.shape[1]))
            np.add.at(table, cells[observed].astype(np.int64), class_weight[observed])
            position = _order_by_class(table)
        axes.append(axis)
        parts.append((position, n_places + place, share))
        n_places += n_states
    first_bins = offsets([len(part[0]) for part in parts])
    return Layout(first_bins, *map(np.concatenate, zip(*parts))), HistogramTable.from_axes(axes)


def _order_by_class(table: Floats) -> Ints:
    """Ranks of categories along the direction in which their shares of the classes differ most.

    If there are two classes, the best division of the categories is a cut of this order.
    """
    total = table.sum(axis=1, keepdims=True)
    # Without a row all categories have no difference, and stay in their order.
    prior = table.sum(axis=0) / divisors(table.sum())
    # A row of the prior draws the shares of rare categories to it.
    difference = (table + prior) / (total + 1.0) - prior
    direction = np.linalg.svd(np.sqrt(total) * difference)[2][0]
    return np.argsort(np.argsort(difference @ direction, kind="stable"))


def _refined(
    domain: Domain, column: int, cells: Floats, weight: Floats, n_cuts: int
) -> tuple[Histogram, Ints, Floats]:
    """An axis of parts of the cells of another one: where each part belongs, and its share there.

    The cuts lie between neighbouring values: of about equal masses, if these are many.
    """
    axis = domain.axis_of(column)
    number = domain[column].law
    points, mass = distinct(cells, weight)
    # Behind a point that takes the mass to another level is a cut.
    level = np.floor(np.cumsum(mass) * ((n_cuts + 1) / mass.sum()) * (1.0 + ROUNDING))
    is_cut = np.diff(level) > 0.0 if len(points) > n_cuts else slice(None)
    cuts = (points[:-1] + 0.5 * np.diff(points))[is_cut]
    cuts = cuts if number is None else number.upper_edges(cuts)
    cell = np.searchsorted(axis.edges, cuts, side="right")
    # Tails and atoms stay whole.
    whole = (cell == 0) | (cell == len(axis.edges)) | ~np.isnan(axis.points[cell])
    # An edge of a lattice that is computed in two ways is one edge, whatever the unit.
    distance = np.abs(np.subtract.outer(cuts, axis.edges)).min(axis=1, initial=np.inf)
    whole |= distance <= ROUNDING * np.abs(cuts)
    edges = np.unique(np.append(axis.edges, cuts[~whole]))
    cell = np.append(0, np.searchsorted(axis.edges, edges, side="right"))
    # Parts of a cell share it by width; tails are whole.
    part = np.concatenate([[1.0], np.diff(edges) / axis.widths[cell[1:-1]], [1.0]])
    bins = axis._replace(edges=edges, state=None, share=None, point=axis.points[cell])
    # The least part of its place that a bin may be: all of a box may lie in it.
    least_share = 1e-12
    return bins, axis.states[cell], np.maximum(axis.shares[cell] * part, least_share)


@kernel(new_arrays=True)
def add_tree(layout: Layout, tree: Tree, bins: Ints, sums_posteriors: bool, total: Floats) -> None:
    """Add what a tree says of rows, given as :meth:`Layout.of_codes`, to that of other trees.

    Probabilities of the classes, or densities of rows with each class, all as logarithms.
    """
    n_leaves, n_classes = tree.log_joint.shape
    waiting = np.empty(n_leaves, np.int64)
    reached = np.empty(n_leaves, np.int64)
    joint = np.empty(n_classes)
    density = np.empty((tree.log_table.shape[1], n_leaves))
    # Loops, as sums and maxima of arrays would take some seconds to compile.
    leaf_shares = np.empty((n_leaves, n_classes))
    for leaf in range(n_leaves):
        _normalise(tree.log_joint[leaf], leaf_shares[leaf])
    for i in range(len(bins)):
        n_reached = _reach(layout.position, tree, bins[i], waiting, reached)
        if sums_posteriors and n_reached == len(density) == 1:
            # The table of a single leaf says the same of all classes.
            for c in range(n_classes):
                total[i, c] += leaf_shares[reached[0], c]
            continue
        _joint(layout.place, tree, bins[i], reached[:n_reached], density, joint)
        if sums_posteriors:
            _normalise(joint, joint)
        for c in range(n_classes):
            if sums_posteriors:
                total[i, c] += joint[c]
            else:
                total[i, c] = np.logaddexp(total[i, c], joint[c])


@inlined
def _normalise(log_weight: Floats, share: Floats) -> None:
    """Turn the logarithms of weights into shares."""
    log_total = -math.inf
    for k in range(len(log_weight)):
        log_total = np.logaddexp(log_total, log_weight[k])
    for k in range(len(log_weight)):
        share[k] = math.exp(log_weight[k] - log_total)


@inlined
def _joint(
    place: Ints, tree: Tree, bins: Ints, reached: Ints, density: Floats, joint: Floats
) -> None:
    """Log densities of a row with each class, from the leaves that it reaches.

    ``density`` is room for what the tables of the leaves say, shape (n_tables, n_leaves).
    """
    n_tables = len(density)
    n_reached = len(reached)
    density[:, :n_reached] = 0.0
    for cell in bins:
        if cell >= 0:
            for r in range(n_reached):
                for k in range(n_tables):
                    density[k, r] += tree.log_table[reached[r], k, place[cell]]
    for c in range(len(joint)):
        # Without the greatest of its terms, the sum could underflow.
        top = -math.inf
        for r in range(n_reached):
            top = max(top, density[c % n_tables, r] + tree.log_joint[reached[r], c])
        sums = 0.0
        for r in range(n_reached):
            sums += math.exp(density[c % n_tables, r] + tree.log_joint[reached[r], c] - top)
        joint[c] = top + math.log(sums)


@inlined
def _reach(position: Ints, tree: Tree, bins: Ints, waiting: Ints, reached: Ints) -> int:
    """The number of leaves whose boxes have a row's observed cells; lists them in ``reached``."""
    n_waiting = 1
    n_reached = 0
    waiting[0] = 0
    while n_waiting:
        n_waiting -= 1
        node = waiting[n_waiting]
        while tree.column[node] >= 0:
            cell = bins[tree.column[node]]
            if cell < 0:
                # Both ways: the right one waits.
                waiting[n_waiting] = tree.right[node]
                n_waiting += 1
            is_left = cell < 0 or position[cell] <= tree.cut[node]
            node = tree.left[node] if is_left else tree.right[node]
        reached[n_reached] = tree.left[node]
        n_reached += 1
    return n_reached
