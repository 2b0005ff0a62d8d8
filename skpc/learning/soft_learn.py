"""LearnSPN with soft row memberships (Algorithm 2 of the paper), and the hard LearnSPN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from skpc._arrays import Floats, Ints, group_sums, weighted_quantiles
from skpc.circuit import Circuit, CircuitBuilder
from skpc.counting.clustering import as_numbers, cluster_rows, soft_memberships
from skpc.domain import column_moments, group_rows
from skpc.learning.blocks import (
    USUAL_STRENGTH,
    WIDE,
    BlockRows,
    Shrinkage,
    correlated,
    fit_blocks,
    weigh_division,
)
from skpc.learning.factorised import Design, estimate_factorised, mixture_memberships
from skpc.learning.independence import any_dependence, independent_groups
from skpc.queries import PseudoCounts
from skpc.queries.passes.rows import leaf_cells
from skpc.variables import Number, ScoredColumn
from skpc.variables.families import counts_like_columns

#: Bins, of equal weight in each node, in which numbers are tested for independence; atoms of
#: numbers are states of their own there.
_TEST_BINS = 4
#: Level of all tests together that any two columns depend on each other.
_ANY_DEPENDENCE = 0.001
#: Level of each test that two numbers are correlated. What follows is a block, which loses little
#: by numbers that do not depend on each other.
_CORRELATED = 0.05
#: Parts of a table of few rows are divided into more folds when a division is weighed.
_FEW_ROWS, _FOLDS, _FEW_FOLDS = 600, 4, 2


class SoftLearnOptions(NamedTuple):
    """Parameters of :class:`skpc.SoftLearnSPN` that decide what is learned."""

    assignment: str
    clusterer: str
    n_clusters: int
    beta: float
    significance: float
    #: Whether the significance is a share of false discoveries rather than the level of a test.
    false_discoveries: bool
    root_test: str | None
    alpha: float
    min_weight: float
    prune: float
    max_iter: int
    smallest_sd: float
    #: Whether the numbers of a part that stops are one leaf.
    blocks: bool


class _Part(NamedTuple):
    """Rows and columns for which a node has to be learned."""

    node: int
    rows: Floats
    columns: Ints
    weight: Floats
    #: What the rows would weigh if no sum above had divided them.
    row_weight: Floats
    #: Whether the columns may fall apart: not at the root, nor below a product.
    may_split: bool
    #: Shrinkage of the covariances of blocks.
    shrinkage: Shrinkage


class _Learner:
    """Nodes in the order in which they are found, parents first."""

    def __init__(
        self,
        rows: Floats,
        weight: Floats,
        n_states: Ints,
        numbers: Sequence[Number | None],
        options: SoftLearnOptions,
        random_state: np.random.RandomState,
    ):
        self.options, self.random_state = options, random_state
        self.is_number = n_states == 0
        scores, atoms = _scores(rows, numbers)
        #: The scores of the atoms of each column; empty for a category.
        self.atoms = atoms
        self.mean, self.sd = column_moments(_without_atoms(scores, atoms), weight)
        self.columns: list[ScoredColumn | None] = [
            None if number is None else ScoredColumn.like(number, options.smallest_sd * sd)
            for number, sd in zip(numbers, self.sd.tolist())
        ]
        scored = np.array([0 if column is None else column.n_states for column in self.columns])
        self.n_states = np.where(self.is_number, scored, n_states)
        rows = scores
        #: Methods of the builder and what they take, numbers of nodes in place of children.
        self.nodes: list[tuple] = []
        self.n_folds = _FEW_FOLDS if len(rows) > _FEW_ROWS else _FOLDS
        may_split = options.root_test == "pairs"
        shrinkage = Shrinkage(np.eye(int(self.is_number.sum())))
        columns = np.arange(rows.shape[1])
        root = self._part(rows, columns, weight, weight, may_split, shrinkage)
        self.parts = [root]
        #: Wide leaves of the columns: a background keeps rows that no block describes from ruling
        #: what is said of a table.
        self.background = self._leaves(root, WIDE) if self._has_blocks(root) else []
        self.log_weights = np.log(np.array([weight.sum(), 1.0]) / (weight.sum() + 1.0))

    def _part(self, *content: Any) -> _Part:
        self.nodes.append(())
        return _Part(len(self.nodes) - 1, *content)

    def step(self) -> float:
        """Settle one part; return how many cells, by weight, have reached a leaf."""
        part = self.parts.pop()
        n_columns = len(part.columns)
        divisible = part.weight.sum() > self.options.min_weight and len(part.rows) > 1
        hangs_together = n_columns == 1 or self._may_hang_together(part)
        if n_columns > 1 and divisible and hangs_together:
            if part.may_split and self._multiply(part):
                return 0.0
            part, membership = self._divided(part)
            if membership is not None and self._add(part, membership):
                return 0.0
        if part.node == 0 and not hangs_together:
            self.background = []
        self._factorise(part, hangs_together)
        return float(part.weight.sum()) * n_columns

    def _may_hang_together(self, part: _Part) -> bool:
        """Whether any two columns of the root depend on each other; other parts are not tested."""
        if part.node > 0 or self.options.root_test != "any":
            return True
        n_states = self._n_tested_states(part)
        return any_dependence(self._codes(part), part.weight, n_states, _ANY_DEPENDENCE)

    def _n_tested_states(self, part: _Part) -> Ints:
        n_atoms = np.array([len(self.atoms[column]) for column in part.columns])
        n_states = self.n_states[part.columns]
        return np.where(self.is_number[part.columns], n_atoms + _TEST_BINS, n_states)

    def _multiply(self, part: _Part) -> bool:
        """Make the part a product, unless its columns hang together."""
        group = independent_groups(
            self._codes(part),
            part.weight,
            self._n_tested_states(part),
            self.options.significance,
            self.options.false_discoveries,
        )
        if self._has_blocks(part):
            group = self._with_correlated(part, group)
        if group.max() == 0:
            return False
        children: list[_Part] = []
        for number in range(group.max() + 1):
            chosen = group == number
            rows, same = group_rows(np.ascontiguousarray(part.rows[:, chosen]))
            weight, row_weight = group_sums(same, part.weight), group_sums(same, part.row_weight)
            shrinkage = part.shrinkage.only(chosen[self.is_number[part.columns]])
            columns = part.columns[chosen]
            children.append(self._part(rows, columns, weight, row_weight, False, shrinkage))
        self._settle(part, "product", children, ())
        return True

    def _has_blocks(self, part: _Part) -> bool:
        return self.options.blocks and bool(self.is_number[part.columns].any())

    def _with_correlated(self, part: _Part, group: Ints) -> Ints:
        """Join the groups of numbers that are correlated, which blocks describe well."""
        joined = group[:, np.newaxis] == group
        numbers = np.flatnonzero(self.is_number[part.columns])
        joined[np.ix_(numbers, numbers)] |= correlated(self._design(part), part.weight, _CORRELATED)
        return np.asarray(connected_components(joined, directed=False)[1], dtype=np.int64)

    def _add(self, part: _Part, membership: Floats) -> bool:
        """Make the part a sum, unless all rows fall into one cluster."""
        children = []
        for column in membership.T:
            weight = part.weight * column
            kept = (weight > 0) & (weight >= self.options.prune * part.row_weight)
            if kept.any():
                rows = part.rows if kept.all() else part.rows[kept]
                weights = weight[kept], part.row_weight[kept]
                children.append((rows, part.columns, *weights, True, part.shrinkage))
        if len(children) < 2:
            return False
        total = np.array([child[2].sum() for child in children])
        log_weight = np.log(total / total.sum())
        self._settle(part, "sum", [self._part(*child) for child in children], (log_weight,))
        return True

    def _settle(self, part: _Part, kind: str, children: list[_Part], more: tuple) -> None:
        self.nodes[part.node] = (kind, [child.node for child in children], *more)
        self.parts += children

    def _factorise(self, part: _Part, hangs_together: bool) -> None:
        """Make the part a product of leaves, or the one leaf of its column."""
        leaves = self._leaves(part)
        if hangs_together and self._has_blocks(part):
            leaves = self._with_block(part, leaves)
        if len(leaves) == 1:
            self.nodes[part.node] = leaves[0]
            return
        first = len(self.nodes)
        self.nodes += leaves
        self.nodes[part.node] = ("product", list(range(first, len(self.nodes))))

    def _leaves(self, part: _Part, widened: float = 1.0) -> list[tuple]:
        """A leaf of each column, with the standard deviation of its number times a factor."""
        design = self._design(part)
        found = estimate_factorised(design, part.weight[:, np.newaxis], self.options.alpha)
        log_probs = iter(np.split(found.log_prob[:, 0], design.state_ptr[1:-1]))
        moments = iter(zip(found.mean[:, 0], widened * found.sd[:, 0]))
        leaves: list[tuple] = []
        for column in part.columns.tolist():
            scored = self.columns[column]
            if not self.is_number[column]:
                leaves.append(("discrete", column, next(log_probs)))
            elif scored is None:
                leaves.append(("gaussian", column, *next(moments)))
            else:
                mean, sd = next(moments)
                sd = max(sd, float(scored.smallest_sds(np.array([mean]))[0]))
                leaves.append(("scored", column, next(log_probs), mean, sd))
        return leaves

    def _with_block(self, part: _Part, leaves: list[tuple]) -> list[tuple]:
        """Put one block in place of the leaves of all numbers."""
        start = np.ones((1, len(part.rows)))
        rows = self._block_rows(part)
        found = fit_blocks(rows, start, part.shrinkage, 0.0, self.options.max_iter).gaussians
        at = part.columns[self.is_number[part.columns]]
        mean = self.mean[at] + self.sd[at] * found.mean[0]
        covariance = found.covariance[0] * np.outer(self.sd[at], self.sd[at])
        log_probs = [leaf[2] for leaf in leaves if leaf[0] == "scored"]
        if len(at) == 1:
            sd = float(np.sqrt(covariance[0, 0]))
            block: tuple = ("scored", int(at[0]), *log_probs, float(mean[0]), sd)
        else:
            block = ("block", at.tolist(), log_probs, mean, covariance)
        return [block, *(leaf for leaf in leaves if leaf[0] != "scored")]

    def _block_rows(self, part: _Part) -> BlockRows:
        columns = [column for at in part.columns if (column := self.columns[at]) is not None]
        return BlockRows.of(self._design(part), part.weight, columns, self.options.alpha)

    def _divided(self, part: _Part) -> tuple[_Part, Floats | None]:
        """How the rows belong to clusters, if there is to be a sum; the part as it is then."""
        options, columns = self.options, part.columns
        n_clusters = min(options.n_clusters, len(part.rows))
        n_categories = np.where(self.is_number, 0, self.n_states)[columns]
        numbers = as_numbers(part.rows, n_categories, self.mean[columns], self.sd[columns])
        distance = cluster_rows(
            numbers, part.weight, n_clusters, options.max_iter, self.random_state
        )
        membership = np.eye(n_clusters)[distance.argmin(axis=1)]
        if self._has_blocks(part):
            part, found = self._divided_blocks(part, membership)
            if found is None:
                return part, None
            membership = found
        elif options.clusterer == "em":
            membership = mixture_memberships(
                self._design(part), part.weight, membership, options.alpha, options.max_iter
            )
        if options.clusterer == "kmeans":
            membership = soft_memberships(distance, options.beta)
        if options.assignment == "hard":
            membership = np.eye(n_clusters)[membership.argmax(axis=1)]
        return part, membership

    def _divided_blocks(self, part: _Part, membership: Floats) -> tuple[_Part, Floats | None]:
        """The same for a part with blocks: no clusters where one block does as well."""
        rows, max_iter = self._block_rows(part), self.options.max_iter
        start = np.ascontiguousarray(membership.T)
        start = fit_blocks(rows, start, part.shrinkage, USUAL_STRENGTH, max_iter).membership
        division = weigh_division(
            rows, start, part.shrinkage, max_iter, self.n_folds, self.random_state
        )
        if division.gain <= 0.0:
            shrinkage = part.shrinkage._replace(strength=division.strength)
            return part._replace(shrinkage=shrinkage), None
        strength = division.strength_within
        found = fit_blocks(rows, start, division.shrinkage, strength, max_iter)
        return part._replace(shrinkage=Shrinkage(found.within, strength)), found.membership.T

    def _design(self, part: _Part) -> Design:
        at, is_number = part.columns, self.is_number[part.columns]
        atoms = [self.atoms[column] for column in at]
        numbers = _without_atoms(part.rows, atoms)
        codes = np.where(np.isnan(part.rows), -1, part.rows)
        for column in np.flatnonzero(is_number):
            seen = ~np.isnan(part.rows[:, column])
            state = _atom_states(part.rows[:, column], atoms[column])
            codes[:, column] = np.where(seen, state, -1)
        moments = self.mean[at], self.sd[at], self.options.smallest_sd * self.sd[at]
        of_numbers = (part[is_number] for part in moments)
        return Design.of(
            codes.astype(np.int16),
            numbers[:, is_number],
            self.n_states[at],
            part.row_weight,
            (*of_numbers,),
        )

    def _codes(self, part: _Part) -> NDArray[np.int16]:
        """States of the cells; numbers other than atoms are binned at quantiles of the part."""
        codes = np.where(np.isnan(part.rows), -1, part.rows)
        for place in np.flatnonzero(self.is_number[part.columns]):
            cells, atoms = part.rows[:, place], self.atoms[part.columns[place]]
            state = _atom_states(cells, atoms)
            rest = np.where(state < len(atoms), np.nan, cells)
            bins = _quantile_bins(rest, part.weight)
            codes[:, place] = np.where(
                state < len(atoms), state, np.where(bins < 0, -1, bins + len(atoms))
            )
        return codes.astype(np.int16)

    def circuit(self) -> Circuit:
        """Build the circuit, children first."""
        builder = CircuitBuilder(self.n_states, self.columns)
        built: dict[int, int] = {}
        for number in range(len(self.nodes) - 1, -1, -1):
            kind, below, *content = self.nodes[number]
            if kind in ("sum", "product"):
                below = [built[child] for child in below]
            built[number] = getattr(builder, kind)(below, *content)
        if len(self.background) > 1:
            leaves = [getattr(builder, kind)(*content) for kind, *content in self.background]
            builder.sum([built[0], builder.product(leaves)], self.log_weights)
        return builder.build()


def _scores(rows: Floats, numbers: Sequence[Number | None]) -> tuple[Floats, list[Floats]]:
    """Encoded rows with scores in place of numbers, and the scores of the atoms of each column."""
    found, atoms = rows.copy(), [np.empty(0)] * rows.shape[1]
    for column, number in enumerate(numbers):
        if number is not None:
            atoms[column] = number.score.of(number.atoms)
            state, score = ScoredColumn.like(number, 0.0).scores(rows[:, column])
            # A value that is an atom has exactly the score of the atom.
            extended = np.append(atoms[column], np.nan)
            is_atom = (state >= 0) & (state < len(number.atoms))
            found[:, column] = np.where(is_atom, extended[state], score)
    return found, atoms


def _atom_states(cells: Floats, atoms: Floats) -> Ints:
    """Number of the atom that each score belongs to; one more than the last for all others."""
    if not len(atoms):
        return np.zeros(len(cells), dtype=np.int64)
    place = np.searchsorted(atoms, cells)
    is_atom = np.append(atoms, np.nan)[place] == cells
    return np.where(is_atom, place, len(atoms))


def _without_atoms(rows: Floats, atoms: Sequence[Floats]) -> Floats:
    """Rows of scores with NaN for the atoms of their columns."""
    found = rows.copy()
    for column, own in enumerate(atoms):
        if len(own):
            found[_atom_states(rows[:, column], own) < len(own), column] = np.nan
    return found


def _quantile_bins(values: Floats, weight: Floats) -> Ints:
    """The quarter, by weight, in which each value lies; -1 where missing."""
    bins = np.full(len(values), -1)
    seen = np.flatnonzero(~np.isnan(values))
    if len(seen):
        order = seen[np.argsort(values[seen], kind="stable")]
        reached = np.cumsum(weight[order])
        edges = weighted_quantiles(values[order], reached, np.arange(1, _TEST_BINS), _TEST_BINS)
        bins[seen] = np.searchsorted(edges, values[seen], side="right")
    return bins


def learn_soft_circuit(
    rows: Floats,
    weight: Floats,
    n_states: Ints,
    numbers: Sequence[Number | None],
    options: SoftLearnOptions,
    random_state: np.random.RandomState,
    advance: Callable[[float], object],
) -> Circuit:
    """Learn a circuit by SoftLearn.

    Sums and products alternate: a sum over soft clusters of the rows, a product of groups of
    columns that pass for independent. The root is a sum, unless it is tested too: a test of all
    pairs together makes it a product of leaves, a test of each pair a product of groups. A child of
    a sum whose columns do not fall apart is a sum again. A part of one column is a leaf; one that
    is not worth more than ``min_weight`` or whose rows are all alike is a product of leaves.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Distinct encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive weights.
    n_states : ndarray of shape (n_features,)
        Number of categories; 0 for a column of numbers.
    numbers : sequence of Number or None
        What each column of numbers is: its leaves have the atoms and a Gaussian of the score. None
        gives it Gaussian leaves.
    options : SoftLearnOptions
        What to learn.
    random_state : RandomState
        Draws the starts of the clusters.
    advance : callable
        Called with the number of cells, by weight, that have reached a leaf.

    Returns
    -------
    Circuit
        A smooth and decomposable circuit.
    """
    learner = _Learner(rows, weight, n_states, numbers, options, random_state)
    while learner.parts:
        advance(learner.step())
    return learner.circuit()


def refinement_pseudo_counts(
    circuit: Circuit,
    rows: Floats,
    weight: Floats,
    *,
    per_edge: float,
    like_column: float,
    as_learned: float,
) -> PseudoCounts:
    """Pseudo-counts that hold a leaf near the shares of its column, and near its own as learned.

    Parameters
    ----------
    circuit : Circuit
        A circuit of SoftLearn.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Their weights.
    per_edge : float
        Count of each weight.
    like_column : float
        Cells of each leaf that are distributed like the rows in its column.
    as_learned : float
        Cells of each categorical leaf that are distributed like the leaf itself.

    Returns
    -------
    PseudoCounts
        To be passed to :func:`skpc.queries.fit_parameters`.
    """
    codes = leaf_cells(circuit, rows)[0]
    shares = [_shares(cells, weight, count) for cells, count in zip(codes.T, circuit.n_states)]
    param = counts_like_columns(
        circuit.structure.leaves, circuit.param, shares, like_column, as_learned
    )
    return PseudoCounts(np.full(circuit.n_edges, per_edge), param)


def _shares(codes: Ints, weight: Floats, n_states: int) -> Floats:
    """Shares of the states in a column, all positive; empty for a column without states."""
    if not n_states:
        return np.empty(0)
    seen = codes >= 0
    counts = 1.0 + np.bincount(codes[seen], weight[seen], n_states)
    return counts / counts.sum()
