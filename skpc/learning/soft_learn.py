"""LearnSPN with soft row memberships (Algorithm 2 of the paper), and the hard LearnSPN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from skpc._arrays import Floats, Ints, group_sums
from skpc._threads import in_threads
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
from skpc.learning.scored_rows import (
    TEST_BINS,
    atom_states,
    quantile_bins,
    scores_of,
    without_atoms,
)
from skpc.queries import PseudoCounts
from skpc.queries.passes.rows import leaf_cells
from skpc.variables import Number, ScoredColumn
from skpc.variables.leaf_queries import counts_like_columns

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


class _Settled(NamedTuple):
    """What a part becomes: a sum or a product of parts, or leaves."""

    part: _Part
    #: Whether the columns of the root depend on each other.
    hangs_together: bool
    kind: str = "product"
    #: What the children are, but for the numbers of their nodes.
    children: Sequence[tuple] = ()
    #: What the builder takes besides them.
    more: tuple = ()
    #: Where there are none: methods of the builder and what they take.
    leaves: Sequence[tuple] = ()


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
        scores, atoms = scores_of(rows, numbers)
        #: The scores of the atoms of each column; empty for a category.
        self.atoms = atoms
        self.mean, self.sd = column_moments(without_atoms(scores, atoms), weight)
        self.columns: list[ScoredColumn | None] = [
            None if number is None else number.scored_column(options.smallest_sd * sd)
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
        """Settle waiting parts; return how many cells, by weight, have reached a leaf.

        Parts with blocks are settled all at once, and draw from streams of their own.
        """
        if not (self.options.blocks and self.is_number.any()):
            return self._note(self._settled(self.parts.pop(), self.random_state))
        # What takes longest comes first.
        parts, self.parts = sorted(self.parts, key=lambda part: -part.rows.size), []
        seeds = self.random_state.randint(2**31, size=len(parts)).tolist()
        streams = map(np.random.RandomState, seeds)
        found = in_threads(lambda task: self._settled(*task), zip(parts, streams))
        return sum(self._note(one) for one in found)

    def _settled(self, part: _Part, random_state: np.random.RandomState) -> _Settled:
        """Find out what a part becomes."""
        n_columns = len(part.columns)
        divisible = part.weight.sum() > self.options.min_weight and len(part.rows) > 1
        hangs_together = n_columns == 1 or self._may_hang_together(part)
        if n_columns > 1 and divisible and hangs_together:
            factors = self._factors(part) if part.may_split else []
            if factors:
                return _Settled(part, True, "product", factors)
            part, membership = self._divided(part, random_state)
            clusters = [] if membership is None else self._clusters(part, membership)
            if len(clusters) > 1:
                total = np.array([child[2].sum() for child in clusters])
                return _Settled(part, True, "sum", clusters, (np.log(total / total.sum()),))
        return _Settled(part, hangs_together, leaves=self._block_and_leaves(part, hangs_together))

    def _note(self, found: _Settled) -> float:
        """Note the node of a part; return how many cells, by weight, have reached a leaf."""
        part = found.part
        if found.children:
            children = [self._part(*child) for child in found.children]
            self.nodes[part.node] = (found.kind, [child.node for child in children], *found.more)
            self.parts += children
            return 0.0
        if part.node == 0 and not found.hangs_together:
            self.background = []
        if len(found.leaves) == 1:
            self.nodes[part.node] = found.leaves[0]
        else:
            first = len(self.nodes)
            self.nodes += found.leaves
            self.nodes[part.node] = ("product", list(range(first, len(self.nodes))))
        return float(part.weight.sum()) * len(part.columns)

    def _may_hang_together(self, part: _Part) -> bool:
        """Whether any two columns of the root depend on each other; other parts are not tested."""
        if part.node > 0 or self.options.root_test != "any":
            return True
        n_states = self._n_tested_states(part)
        return any_dependence(self._codes(part), part.weight, n_states, _ANY_DEPENDENCE)

    def _n_tested_states(self, part: _Part) -> Ints:
        n_atoms = np.array([len(self.atoms[column]) for column in part.columns])
        n_states = self.n_states[part.columns]
        return np.where(self.is_number[part.columns], n_atoms + TEST_BINS, n_states)

    def _factors(self, part: _Part) -> list[tuple]:
        """The factors into which a part falls; none if its columns hang together."""
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
            return []
        factors: list[tuple] = []
        for number in range(group.max() + 1):
            chosen = group == number
            rows, same = group_rows(part.rows.take(np.flatnonzero(chosen), axis=1))
            weight, row_weight = group_sums(same, part.weight), group_sums(same, part.row_weight)
            shrinkage = part.shrinkage.only(chosen[self.is_number[part.columns]])
            columns = part.columns[chosen]
            factors.append((rows, columns, weight, row_weight, False, shrinkage))
        return factors

    def _has_blocks(self, part: _Part) -> bool:
        return self.options.blocks and bool(self.is_number[part.columns].any())

    def _with_correlated(self, part: _Part, group: Ints) -> Ints:
        """Join the groups of numbers that are correlated, which blocks describe well."""
        joined = group[:, np.newaxis] == group
        numbers = np.flatnonzero(self.is_number[part.columns])
        joined[np.ix_(numbers, numbers)] |= correlated(self._design(part), part.weight, _CORRELATED)
        return np.asarray(connected_components(joined, directed=False)[1], dtype=np.int64)

    def _clusters(self, part: _Part, membership: Floats) -> list[tuple]:
        """The clusters of a part that have rows."""
        clusters = []
        for column in membership.T:
            weight = part.weight * column
            kept = (weight > 0) & (weight >= self.options.prune * part.row_weight)
            if kept.any():
                rows = part.rows if kept.all() else part.rows.take(np.flatnonzero(kept), axis=0)
                weights = weight[kept], part.row_weight[kept]
                clusters.append((rows, part.columns, *weights, True, part.shrinkage))
        return clusters

    def _block_and_leaves(self, part: _Part, hangs_together: bool) -> list[tuple]:
        """Leaves of all columns, a block in place of those of the numbers that hang together."""
        leaves = self._leaves(part)
        if hangs_together and self._has_blocks(part):
            return self._with_block(part, leaves)
        return leaves

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

    def _divided(
        self, part: _Part, random_state: np.random.RandomState
    ) -> tuple[_Part, Floats | None]:
        """How the rows belong to clusters, if there is to be a sum; the part as it is then."""
        options, columns = self.options, part.columns
        n_clusters = min(options.n_clusters, len(part.rows))
        n_categories = np.where(self.is_number, 0, self.n_states)[columns]
        numbers = as_numbers(part.rows, n_categories, self.mean[columns], self.sd[columns])
        distance = cluster_rows(numbers, part.weight, n_clusters, options.max_iter, random_state)
        membership = np.eye(n_clusters)[distance.argmin(axis=1)]
        if self._has_blocks(part):
            part, found = self._divided_blocks(part, membership, random_state)
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

    def _divided_blocks(
        self, part: _Part, membership: Floats, random_state: np.random.RandomState
    ) -> tuple[_Part, Floats | None]:
        """The same for a part with blocks: no clusters where one block does as well."""
        rows, max_iter = self._block_rows(part), self.options.max_iter
        start = np.ascontiguousarray(membership.T)
        start = fit_blocks(rows, start, part.shrinkage, USUAL_STRENGTH, max_iter).membership
        division = weigh_division(rows, start, part.shrinkage, max_iter, self.n_folds, random_state)
        if division.gain <= 0.0:
            shrinkage = part.shrinkage._replace(strength=division.strength)
            return part._replace(shrinkage=shrinkage), None
        strength = division.strength_within
        found = fit_blocks(rows, start, division.shrinkage, strength, max_iter)
        return part._replace(shrinkage=Shrinkage(found.within, strength)), found.membership.T

    def _design(self, part: _Part) -> Design:
        at, is_number = part.columns, self.is_number[part.columns]
        atoms = [self.atoms[column] for column in at]
        numbers = without_atoms(part.rows, atoms)
        codes = np.where(np.isnan(part.rows), -1, part.rows)
        for column in np.flatnonzero(is_number):
            seen = ~np.isnan(part.rows[:, column])
            state = atom_states(part.rows[:, column], atoms[column])
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
            state = atom_states(cells, atoms)
            rest = np.where(state < len(atoms), np.nan, cells)
            bins = quantile_bins(rest, part.weight)
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
