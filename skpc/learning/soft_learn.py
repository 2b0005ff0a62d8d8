"""LearnSPN with soft row memberships (Algorithm 2 of the paper), and the hard LearnSPN.

A :class:`SoftLearner` divides a table into parts, rows and columns in turn. The tests and held-out
scores that decide whether a part is divided are in :mod:`skpc.learning.splits`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from skpc._arrays import Codes, Floats, Ints, divisors, group_sums, offsets
from skpc._fitting import Stop
from skpc._threads import in_threads
from skpc.circuit import Circuit, CircuitBuilder
from skpc.counting.clustering import as_numbers, cluster_rows, soft_memberships
from skpc.domain import column_moments, group_rows
from skpc.learning.categorical import indicators, log_tables, state_counts
from skpc.learning.gaussian_mixture import (
    MixtureParams,
    MixturePrior,
    MixtureRows,
    pooled,
)
from skpc.learning.splits import (
    TEST_BINS,
    USUAL_STRENGTH,
    any_dependence,
    correlated,
    fit_split,
    independent_groups,
    quantile_bins,
    score_split,
)
from skpc.variables import Histogram, HistogramTable, Law
from skpc.variables.patterns import Patterns

#: Standard deviation of the background, in those of the columns.
_BACKGROUND_SD = 3.0


class SoftLearnOptions(NamedTuple):
    """Parameters of :class:`skpc.SoftLearnSPN` that decide what is learned."""

    assignment: str
    clusterer: str
    n_clusters: int
    beta: float
    significance: float
    #: Whether the significance is the rate of false discoveries rather than the level of a test.
    false_discoveries: bool
    root_test: str | None
    alpha: float
    min_weight: float
    prune: float
    max_iter: int
    smallest_sd: float
    #: Whether the numbers of a part that is not divided further are one multivariate leaf.
    blocks: bool
    #: EM of a clustering ends once it raises the mean log density (nats) of the rows by less.
    em_tol: float
    #: Whether tests of one degree of freedom have Yates' correction.
    yates: bool

    @property
    def stop(self) -> Stop:
        return Stop(self.max_iter, self.em_tol)


class Shrinkage(NamedTuple):
    """What the covariance of standardised scores in a part is shrunk to, and how strongly."""

    target: Floats
    strength: float = USUAL_STRENGTH


class _Part(NamedTuple):
    """Rows and columns for which a node has to be learned."""

    #: Places of the rows and columns in the table.
    rows: Ints
    columns: Ints
    weight: Floats
    #: Weights of the rows before sums divided them.
    row_weight: Floats
    #: Whether the columns are tested for independence: not at the root, nor below a product.
    may_split: bool
    #: Shrinkage of the covariances of blocks.
    shrinkage: Shrinkage
    #: Place of the node in ``SoftLearner.nodes``.
    node: int = 0


class SoftLearner:
    """Learns a circuit from its root down; nodes are listed parents first.

    Sums and products alternate: a sum over soft clusters of the rows, a product of groups of
    columns that tests find independent. The root is a sum, unless it is tested too: a test of all
    pairs together makes it a product of leaves, a test of each pair a product of groups. A child of
    a sum whose columns are dependent is a sum again. A part of one column is a leaf; one that
    is not worth more than ``min_weight`` or whose rows are all alike is a product of leaves.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Distinct encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive weights.
    n_states : ndarray of shape (n_features,)
        Number of categories, or of states of an axis; 0 for a column of numbers without one.
    numbers : sequence of Law or None
        What each column of numbers is: its leaves have the atoms and a Gaussian of the score. None
        gives it Gaussian leaves.
    options : SoftLearnOptions
        What to learn.
    random_state : RandomState
        Draws the starts of the clusters.
    axes : sequence of Histogram or None
        The axes of ordered states, which are states as categories are; None for other columns.
    """

    def __init__(
        self,
        rows: Floats,
        weight: Floats,
        n_states: Ints,
        numbers: Sequence[Law | None],
        options: SoftLearnOptions,
        random_state: np.random.RandomState,
        axes: Sequence[Histogram | None],
    ):
        # Divisions of the parts of a small table are scored by more folds.
        small_table = 600
        few_folds = 2
        many_folds = 4
        # Level of all tests together that any two columns depend on each other.
        dependence_level = 0.001
        self.options = options
        self.random_state = random_state
        rows = HistogramTable.from_axes(axes).coded(rows)
        self.is_number = n_states == 0
        self.numbers = numbers
        self._read(rows, weight)
        #: The laws of numbers with the smallest standard deviation of a leaf.
        self.columns = [
            law and law._replace(smallest_sd=options.smallest_sd * sd)
            for law, sd in zip(numbers, self.sd)
        ]
        scored = np.array([0 if column is None else column.n_states for column in self.columns])
        self.n_states = np.where(self.is_number, scored, n_states)
        self.axes = [axis or column for axis, column in zip(axes, self.columns)]
        #: For each node the name of a method of the builder and its arguments, with places in this
        #: list for children.
        self.nodes: list[tuple] = [()]
        self.n_folds = few_folds if len(rows) > small_table else many_folds
        shrinkage = Shrinkage(np.eye(int(self.is_number.sum())))
        all_cells = np.arange(len(rows)), np.arange(rows.shape[1])
        root = _Part(*all_cells, weight, weight, options.root_test == "pairs", shrinkage)
        self.parts = [root]
        #: Whether the root is a product of leaves.
        self.is_independent = options.root_test == "any" and rows.shape[1] > 1
        self.is_independent &= not any_dependence(
            *self._tested_cells(root), dependence_level, self.options.yates
        )
        #: Wide leaves of the columns, or none: a background takes the rows that no block describes.
        has_background = self._has_blocks(root) and not self.is_independent
        self.background = self._leaves(root, _BACKGROUND_SD) if has_background else []
        self.log_weights = np.log(np.array([weight.sum(), 1.0]) / (weight.sum() + 1.0))

    def _read(self, rows: Floats, weight: Floats) -> None:
        """Set the cells of the table: codes of states, points, and standardised scores.

        A number that is an atom has a code and a point, but no score. All other numbers have the
        code behind those of the atoms.
        """
        # The last digits of scores vary with the unit of a column, and tests must not.
        digits = 9
        is_state = ~np.isnan(rows) & ~self.is_number
        points = rows.copy()
        self.codes = np.where(is_state, rows, -1).astype(np.int16)
        self.n_atoms = np.zeros(rows.shape[1], dtype=np.int64)
        for v in np.flatnonzero(self.is_number).tolist():
            number = self.numbers[v]
            self.codes[:, v] = np.where(np.isnan(rows[:, v]), -1, 0)
            if number is not None:
                self.codes[:, v], _ = number.scores(rows[:, v])
                points[:, v] = number.scaled(rows[:, v]).round(digits)
                self.n_atoms[v] = len(number.atoms)
        # Atoms have points, but no scores.
        scores = np.where((self.codes == self.n_atoms) & self.is_number, points, np.nan)
        self.mean, self.sd = column_moments(scores, weight)
        self.scores = (scores - self.mean) / self.sd
        self.points = points

    def learn(self, advance: Callable[[float], object]) -> Circuit:
        """Divide all parts; ``advance`` is told the weight of cells that have reached leaves."""
        while self.parts:
            advance(self.step())
        # Children stand behind their parents, and are built first.
        builder = CircuitBuilder(self.n_states, self.axes)
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

    def step(self) -> float:
        """Divide waiting parts; return the weight of the cells that have reached leaves.

        With blocks all parts that wait are divided at once, each with random numbers of its own.
        """
        if not (self.options.blocks and self.is_number.any()):
            part = self.parts.pop()
            return self._add_node(part, *self._kind_and_children(part, self.random_state))
        # What takes longest comes first.
        parts = sorted(self.parts, key=lambda part: -len(part.rows) * len(part.columns))
        self.parts = []
        seeds = self.random_state.randint(2**31, size=len(parts)).tolist()
        streams = map(np.random.RandomState, seeds)
        new_nodes = in_threads(lambda task: self._kind_and_children(*task), zip(parts, streams))
        return sum(self._add_node(part, *below) for part, below in zip(parts, new_nodes))

    def _kind_and_children(
        self, part: _Part, random_state: np.random.RandomState
    ) -> tuple[str, Sequence[Any]]:
        """What a part becomes: "sum" or "product" and new parts, or "leaves" and these."""
        if self.is_independent:
            return "leaves", self._leaves(part)
        divisible = part.weight.sum() > self.options.min_weight and len(part.rows) > 1
        if len(part.columns) > 1 and divisible:
            factors = self._factors(part) if part.may_split else []
            if factors:
                return "product", factors
            part, membership = self._divided(part, random_state)
            clusters = self._clusters(part, membership)
            if len(clusters) > 1:
                return "sum", clusters
        leaves = self._leaves(part)
        return "leaves", self._with_block(part, leaves) if self._has_blocks(part) else leaves

    def _add_node(self, part: _Part, kind: str, below: Sequence[Any]) -> float:
        """Fill in the node of a part; return the weight of the cells that have reached leaves."""
        if kind == "leaves":
            first_leaf = len(self.nodes)
            self.nodes += below if len(below) > 1 else []
            leaves = list(range(first_leaf, len(self.nodes)))
            self.nodes[part.node] = ("product", leaves) if leaves else below[0]
            return float(part.weight.sum()) * len(part.columns)
        total = np.array([child.weight.sum() for child in below])
        log_weights = (np.log(total / total.sum()),) if kind == "sum" else ()
        # The nodes of the children stand empty until these parts are divided.
        places = range(len(self.nodes), len(self.nodes) + len(below))
        self.nodes += [()] * len(below)
        self.nodes[part.node] = (kind, list(places), *log_weights)
        self.parts += [child._replace(node=place) for child, place in zip(below, places)]
        return 0.0

    def _factors(self, part: _Part) -> list[_Part]:
        """A part for each group of independent columns; none for a single group."""
        options = self.options
        group = independent_groups(
            *self._tested_cells(part),
            options.significance,
            options.false_discoveries,
            options.yates,
        )
        if self._has_blocks(part):
            # A block describes correlated numbers well, and loses little by those that are not.
            correlation_level = 0.05
            joined = group[:, np.newaxis] == group
            numbers = np.flatnonzero(self.is_number[part.columns])
            scores = self.scores[np.ix_(part.rows, part.columns[numbers])]
            is_correlated = correlated(scores, part.weight, part.row_weight, correlation_level)
            joined[np.ix_(numbers, numbers)] |= is_correlated
            group = connected_components(joined, directed=False)[1]
        if group.max() == 0:
            return []
        factors: list[_Part] = []
        for number in range(group.max() + 1):
            chosen = group == number
            columns = part.columns[chosen]
            if len(columns) == 1 and not self.is_number[columns[0]]:
                # A table of states is the same whether its rows are merged or not.
                factors.append(part._replace(columns=columns, may_split=False))
                continue
            # Rows that are equal in these columns become one row.
            same = group_rows(self.points[np.ix_(part.rows, columns)])[1]
            rows = part.rows[np.unique(same, return_index=True)[1]]
            weight = group_sums(same, part.weight)
            row_weight = group_sums(same, part.row_weight)
            # The target, shape (n_numbers, n_numbers), is cut down to the numbers of the group.
            is_in_group = chosen[self.is_number[part.columns]]
            target = part.shrinkage.target[np.ix_(is_in_group, is_in_group)]
            shrinkage = part.shrinkage._replace(target=target)
            factors.append(_Part(rows, columns, weight, row_weight, False, shrinkage))
        return factors

    def _has_blocks(self, part: _Part) -> bool:
        """Whether the part has numbers that will be in blocks."""
        return self.options.blocks and bool(self.is_number[part.columns].any())

    def _clusters(self, part: _Part, membership: Floats) -> list[_Part]:
        """A part for each cluster that has rows."""
        clusters = []
        for share in membership.T:
            weight = part.weight * share
            # A row leaves a cluster that has too small a part of its undivided weight.
            is_member = (weight > 0) & (weight >= self.options.prune * part.row_weight)
            if is_member.any():
                cluster = part._replace(
                    rows=part.rows[is_member],
                    weight=weight[is_member],
                    row_weight=part.row_weight[is_member],
                    may_split=True,
                )
                clusters.append(cluster)
        return clusters

    def _leaves(self, part: _Part, widened: float = 1.0) -> list[tuple]:
        """A leaf of each column; standard deviations of numbers are ``widened`` times as wide."""
        numbers, codes, state_ptr = self._cells(part)
        counts = state_counts(codes, part.weight, state_ptr) + self.options.alpha
        log_probs = iter(np.split(log_tables(counts[np.newaxis], state_ptr)[0], state_ptr[1:-1]))
        moments = iter(self._leaf_moments(part, numbers, widened) if len(numbers) else ())
        leaves: list[tuple] = []
        for column in part.columns.tolist():
            if not self.is_number[column]:
                leaves.append(("discrete", column, next(log_probs)))
            elif self.columns[column] is None:
                leaves.append(("gaussian", column, *next(moments)))
            else:
                leaves.append(("scored", column, next(log_probs), *next(moments)))
        return leaves

    def _leaf_moments(self, part: _Part, numbers: Ints, widened: float) -> list[tuple]:
        """Mean and standard deviation of the leaf of each number."""
        scores = self.scores[np.ix_(part.rows, numbers)]
        mean, sd = leaf_moments(scores, part.weight, part.row_weight)
        sd = widened * np.maximum(sd, self.options.smallest_sd)
        sd = np.maximum(sd, self._half_steps(numbers, mean))
        return list(zip(self.mean[numbers] + self.sd[numbers] * mean, self.sd[numbers] * sd))

    def _cells(self, part: _Part) -> tuple[Ints, Codes, Ints]:
        """Columns of numbers; codes of all columns with states, and where their states begin."""
        numbers = part.columns[self.is_number[part.columns]]
        state_columns = part.columns[self.n_states[part.columns] > 0]
        codes = self.codes[np.ix_(part.rows, state_columns)]
        return numbers, codes, offsets(self.n_states[state_columns])

    def _half_steps(self, numbers: Ints, mean: Floats) -> Floats:
        """Half a step of the lattice of each number about a mean score, zero without a lattice."""
        half = np.zeros(len(numbers))
        for place, v in enumerate(numbers.tolist()):
            law = self.numbers[v]
            score = self.mean[v] + self.sd[v] * mean[place]
            if law is not None:
                half[place] = law.smallest_sds(np.array([score]))[0] / self.sd[v]
        return half

    def _with_block(self, part: _Part, leaves: list[tuple]) -> list[tuple]:
        """The leaves of a part, with one block in place of those of all numbers."""
        params = MixtureParams(1, prior_strength=part.shrinkage.strength)
        rows, prior = self._mixture_rows(part)
        start = np.ones((1, len(part.rows)))
        fit = fit_split(rows, part.weight, start, prior, params, self.options.stop)
        gaussians = fit.model.mixture.gaussians
        number_columns = part.columns[self.is_number[part.columns]]
        mean = self.mean[number_columns] + self.sd[number_columns] * gaussians.mean[0]
        covariance = gaussians.covariance[0] * np.outer(
            self.sd[number_columns], self.sd[number_columns]
        )
        # The tables of atoms stay as they are in leaves; the block replaces their normals.
        log_probs = [leaf[2] for leaf in leaves if leaf[0] == "scored"]
        if len(number_columns) == 1:
            sd = float(np.sqrt(covariance[0, 0]))
            block: tuple = ("scored", int(number_columns[0]), *log_probs, float(mean[0]), sd)
        else:
            block = ("block", number_columns.tolist(), log_probs, mean, covariance)
        return [block, *(leaf for leaf in leaves if leaf[0] != "scored")]

    def _mixture_rows(self, part: _Part) -> tuple[MixtureRows, MixturePrior]:
        """The rows of a part as mixtures read them, and the prior of these mixtures."""
        # Least standard deviation of a block in any direction, in those of the columns.
        smallest_sd_of_block = 1e-4
        numbers, codes, state_ptr = self._cells(part)
        scores = self.scores[np.ix_(part.rows, numbers)]
        states = indicators(codes, state_ptr)
        mean = column_moments(scores, part.weight)[0]
        # A score stands for values within half a step of a lattice. The small constant keeps
        # covariances of columns that follow from each other regular.
        half = self._half_steps(numbers, mean)
        added = half**2 + smallest_sd_of_block**2
        smallest_sd = np.maximum(half, self.options.smallest_sd)
        counts = np.full(state_ptr[-1], self.options.alpha)
        moments = mean, part.shrinkage.target
        prior = MixturePrior(state_ptr, counts, *moments, lambda _: added, smallest_sd)
        sizes = np.repeat(np.diff(state_ptr), np.diff(state_ptr))
        # A wide normal for each number that is observed, and all states alike.
        log_normals = -0.5 * (scores / _BACKGROUND_SD) ** 2 - 0.5 * np.log(
            2.0 * np.pi * _BACKGROUND_SD**2
        )
        background = np.nansum(log_normals, axis=1) - states @ np.log(sizes)
        patterns = Patterns.from_scores(scores)
        return MixtureRows(scores, patterns, states, background, np.zeros(len(scores))), prior

    def _divided(self, part: _Part, random_state: np.random.RandomState) -> tuple[_Part, Floats]:
        """Divide a part into soft clusters of its rows.

        Returns the part, with the shrinkage that held-out rows have chosen for blocks, and the
        memberships of its rows, shape (n_rows, n_clusters); there may be a single cluster.
        """
        options = self.options
        columns = part.columns
        n_clusters = min(options.n_clusters, len(part.rows))
        n_categories = np.where(self.is_number, 0, self.n_states)[columns]
        points = self.points[np.ix_(part.rows, columns)]
        numbers = as_numbers(points, n_categories, self.mean[columns], self.sd[columns])
        distance = cluster_rows(numbers, part.weight, n_clusters, options.max_iter, random_state)
        membership = np.eye(n_clusters)[distance.argmin(axis=1)]
        if self._has_blocks(part):
            part, membership = self._divided_blocks(part, membership, random_state)
            if membership.shape[1] == 1:
                return part, membership
        elif options.clusterer == "em":
            params = MixtureParams(n_clusters, strength=0.0, factorised=True)
            cells, prior = self._mixture_rows(part)
            start = np.ascontiguousarray(membership.T)
            fit = fit_split(cells, part.weight, start, prior, params, options.stop)
            membership = fit.model.responsibilities(cells).T
        if options.clusterer == "kmeans":
            membership = soft_memberships(distance, options.beta)
        if options.assignment == "hard":
            membership = np.eye(n_clusters)[membership.argmax(axis=1)]
        return part, membership

    def _divided_blocks(
        self, part: _Part, membership: Floats, random_state: np.random.RandomState
    ) -> tuple[_Part, Floats]:
        """See :meth:`_divided`: a part with blocks is one cluster where one block does as well.

        The mixture starts from the memberships of clusters of k-means.
        """
        rows, prior = self._mixture_rows(part)
        target, strength = part.shrinkage
        start = np.ascontiguousarray(membership.T)
        stop = self.options.stop
        params = MixtureParams(len(start), USUAL_STRENGTH, prior_strength=strength)
        fit = fit_split(rows, part.weight, start, prior, params, stop)
        # The clusters of the fitted mixture are scored, not those of k-means.
        start = fit.model.responsibilities(rows)
        split = score_split(
            rows, part.weight, start, prior, strength, stop, self.n_folds, random_state
        )
        if split.gain <= 0.0:
            part = part._replace(shrinkage=Shrinkage(target, split.single.prior_strength))
            return part, np.ones((len(part.rows), 1))
        fit = fit_split(rows, part.weight, start, prior, split.mixture, stop)
        sums = fit.statistics
        mixture_params = split.mixture
        # Covariances of the parts below are shrunk to what these clusters have in common.
        within = pooled(sums.moments[1], sums.by_width.sum(), prior, mixture_params)
        part = part._replace(shrinkage=Shrinkage(within, mixture_params.strength))
        return part, fit.model.responsibilities(rows).T

    def _tested_cells(self, part: _Part) -> tuple[Codes, Floats, Ints]:
        """What tests of pairs read: states of cells, weights of rows, numbers of states of columns.

        Numbers other than atoms are binned at quantiles of the part.
        """
        codes = self.codes[np.ix_(part.rows, part.columns)]
        for place in np.flatnonzero(self.is_number[part.columns]):
            v = part.columns[place]
            bins = quantile_bins(self.scores[part.rows, v], part.weight)
            # A cell without a score is an atom, or missing, and keeps its code.
            codes[:, place] = np.where(bins < 0, codes[:, place], bins + self.n_atoms[v])
        n_states = np.where(self.is_number, self.n_atoms + TEST_BINS, self.n_states)
        return codes, part.weight, n_states[part.columns]


def leaf_moments(scores: Floats, weight: Floats, row_weight: Floats) -> tuple[Floats, Floats]:
    """Weighted mean and standard deviation of each column of scores (eq. 2 of the paper).

    Variances have Bessel's correction, for which a row of ``row_weight`` two counts as two rows
    that share ``weight``. A column without any cell has mean 0 and standard deviation 1.
    """
    observed = ~np.isnan(scores)
    values = np.where(observed, scores, 0.0)
    total = weight @ observed
    positive_total = divisors(total)
    mean = weight @ values / positive_total
    square = weight @ np.where(observed, values - mean, 0.0) ** 2
    freedom = total - (weight**2 / row_weight) @ observed / positive_total
    # Degrees of freedom below this part of the weight are rounding errors, and count as zero.
    no_freedom = 1e-9
    variance = square / np.where(freedom > no_freedom * positive_total, freedom, positive_total)
    return mean, np.where(total > 0.0, np.sqrt(variance), 1.0)
