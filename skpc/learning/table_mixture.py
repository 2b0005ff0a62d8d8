"""Mixtures of Gaussians and tables as models of encoded rows: their columns and their circuits.

:class:`TableColumns` reads the cells of encoded rows as :mod:`skpc.learning.gaussian_mixture` wants
them, :class:`LearnedMixture` is what the search in :mod:`skpc.learning.table_search` returns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints, offsets, weighted_quantiles
from skpc._fitting import Statistics
from skpc.circuit import Circuit, CircuitBuilder
from skpc.counting.clustering import as_numbers
from skpc.domain import Domain, column_moments
from skpc.learning.categorical import indicators
from skpc.learning.factors import Factors
from skpc.learning.gaussian_mixture import (
    GaussianMixture,
    MixtureParams,
    MixturePrior,
    MixtureRows,
    ParametrisedMixture,
    Sums,
)
from skpc.learning.hidden_tree import Counts
from skpc.learning.hidden_tree_search import TreeChoice
from skpc.learning.table_tree import TableTree
from skpc.variables import Histogram, HistogramTable, Law
from skpc.variables.atoms import distinct
from skpc.variables.patterns import Patterns
from skpc.variables.score import Score

#: Standard deviations (in units of the robust scale of a column) and weights of the normals of the
#: background. Their mixture is nearly a Student t of three degrees of freedom.
_BACKGROUND_SDS = np.array([0.7, 1.1, 1.8, 3.2, 7.0, 20.0, 80.0])
_BACKGROUND_WEIGHTS = np.array([0.278, 0.401, 0.239, 0.071, 0.0107, 0.0006, 0.00001])
_BACKGROUND_WEIGHTS /= _BACKGROUND_WEIGHTS.sum()
#: Least standard deviation of a component, in units of the robust scale of a column.
SMALLEST_SD = 1e-4


class TableColumns(NamedTuple):
    """What all mixtures of a table have in common, learned once from all rows.

    Attributes
    ----------
    numbers : ndarray of shape (d,), int
        The columns of numbers.
    scored : list of Law, of length d
        Their atoms and scores.
    tables : ndarray of shape (n_tables,), int
        The columns that have states: numbers with atoms, then categories.
    state_ptr : ndarray of shape (n_tables + 1,), int
        Where the states of each of these begin. The states of a number are its atoms, and a last
        one for all other values.
    share : ndarray of shape (n_states,)
        Proportions of the states in their columns, all of them positive.
    centre, scale : ndarrays of shape (d,)
        Median of the scores of each number, and a standard deviation that outliers do not touch.
    n_rows : float
        Weight of all rows.
    axes : sequence of Histogram or None
        The axes of ordered states, which are states as categories are; None for other columns.
    """

    numbers: Ints
    scored: list[Law]
    tables: Ints
    state_ptr: Ints
    share: Floats
    centre: Floats
    scale: Floats
    n_rows: float
    axes: Sequence[Histogram | None]

    @classmethod
    def from_rows(
        cls,
        rows: Floats,
        weight: Floats,
        n_states: Ints,
        numbers: Sequence[Law | None],
        axes: Sequence[Histogram | None],
    ) -> Self:
        """Learn the columns.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Encoded rows, NaN where missing.
        weight : ndarray of shape (n_rows,)
            Positive.
        n_states : ndarray of shape (n_features,)
            Number of categories, or of states of an axis; 0 for a column of numbers without one.
        numbers : sequence of Law or None
            What each column of numbers is. None has no atoms, and its score is linear.
        axes : sequence of Histogram or None
            The axes of ordered states, which are states as categories are; None for other columns.
        """
        is_number = np.flatnonzero(n_states == 0)
        scored = [_scored(numbers[v], rows[:, v], weight) for v in is_number.tolist()]
        atom_columns = [v for v, column in zip(is_number.tolist(), scored) if len(column.atoms)]
        # A number has a state for each atom, and one more for all other values.
        counts = np.array(n_states)
        counts[is_number] = [column.n_states for column in scored]
        tables = np.array([*atom_columns, *np.flatnonzero(n_states > 0)], dtype=np.int64)
        state_ptr = offsets(counts[tables])
        unit = np.ones(len(is_number))
        share = np.ones(state_ptr[-1])
        total = float(weight.sum())
        # The ones hold a place: shares, centres and scales follow from cells that the columns read.
        columns = cls(is_number, scored, tables, state_ptr, share, unit, unit, total, axes)
        codes, scores = columns.codes_and_scores(rows)
        # Shares begin with ones, which keep states without rows possible.
        share += weight @ indicators(codes, state_ptr)
        for begin, end in zip(state_ptr, state_ptr[1:]):
            share[begin:end] /= share[begin:end].sum()
        robust = [_robust(column, weight) for column in scores.T]
        centre, scale = np.array(robust).reshape(-1, 2).T.copy()
        return columns._replace(centre=centre, scale=scale)

    def cells(self, rows: Floats) -> MixtureRows:
        """Encoded rows as mixtures read them."""
        codes, scores = self.codes_and_scores(rows)
        states = indicators(codes, self.state_ptr)
        patterns = Patterns.from_scores(scores)
        background = self._background(scores, states)
        log_base = self._log_base(rows, scores)
        return MixtureRows(scores, patterns, states, background, log_base)

    def codes_and_scores(self, rows: Floats) -> tuple[Ints, Floats]:
        """States of tables, -1 where missing; scores, NaN where a cell is missing or an atom."""
        rows = self._axis_table.coded(rows)
        scores = np.empty((len(rows), len(self.numbers)))
        codes = np.empty((len(rows), len(self.tables)), dtype=np.int64)
        # Each number tells its state and its score at once.
        state = {}
        for place, (v, column) in enumerate(zip(self.numbers.tolist(), self.scored)):
            state[v], scores[:, place] = column.scores(np.ascontiguousarray(rows[:, v]))
        for place, v in enumerate(self.tables.tolist()):
            category = np.where(np.isnan(rows[:, v]), -1.0, rows[:, v])
            codes[:, place] = state.get(v, category)
        return codes, scores

    def is_far(self, scores: Floats) -> Bools:
        """Which rows have a score so far from its centre that they belong to no cluster."""
        far = 1e4 * self.scale
        return np.asarray((np.abs(scores - self.centre) > far).any(axis=1))

    def points(self, rows: Floats, weight: Floats) -> Floats:
        """Complete coordinates in which clusters are found, shape (n_rows, n_coordinates)."""
        # Coordinates stay within this number of scales: a wild value would be a cluster of its own.
        reach = 4.0
        points = self._axis_table.coded(rows)
        n_states = np.ones(rows.shape[1], dtype=np.int64)
        n_states[self.tables] = np.diff(self.state_ptr)
        n_states[self.numbers] = 0
        for v, column, centre, scale in zip(self.numbers, self.scored, self.centre, self.scale):
            score = (column.transform(rows[:, v]) - centre) / scale
            points[:, v] = np.clip(score, -reach, reach)
        scores = points[:, self.numbers]
        if np.isnan(scores).any():
            varies = np.nan_to_num(column_moments(scores, weight)[1]) > 0.0
            varies &= ~np.isnan(scores).all(axis=0)
            varying = self.numbers[varies]
            factors = Factors.fit(points[:, varying], weight)
            # Completed cells are in units of standard deviations, and become scores again.
            points[:, varying] = (
                factors.completed(points[:, varying]) * factors.scale + factors.mean
            )
        # Numbers have their scale already: mean zero and standard deviation one.
        unit = np.ones(rows.shape[1])
        return as_numbers(points, n_states, 0.0 * unit, unit)[0]

    @property
    def _axis_table(self) -> HistogramTable:
        """What codes numbers as the states of their axes."""
        return HistogramTable.from_axes(self.axes)

    @property
    def prior(self) -> MixturePrior:
        """What is known of mixtures of these columns before their rows."""
        # Rows distributed like the column that smooth each table of states.
        like_column = 1.0
        counts = like_column * self.share
        # The least standard deviations are added to variances, and are no bounds.
        smallest = np.zeros(len(self.scale))
        moments = self.centre, np.diag(self.scale**2)
        return MixturePrior(
            self.state_ptr,
            counts,
            *moments,
            self._added_variances,
            smallest,
            self.background_weight,
        )

    def _added_variances(self, mean: Floats) -> Floats:
        """The squared least standard deviations of each column around means (n_components, d)."""
        places = range(len(self.scored))
        sds = [self.smallest_sds(place, mean[:, place].copy()) for place in places]
        return np.square(sds).T.reshape(mean.shape)

    def smallest_sds(self, place: int, mean: Floats) -> Floats:
        """Least standard deviations of a number around some means, half a lattice step at least."""
        return np.hypot(SMALLEST_SD * self.scale[place], self.scored[place].smallest_sds(mean))

    def log_density(self, model: GaussianMixture, cells: MixtureRows) -> Floats:
        """Log density (nats) of rows, the background included, shape (n_rows,)."""
        return model.log_density(cells, self.background_weight)

    @property
    def background_weight(self) -> float:
        """Weight of the background: that of a fraction of a row more."""
        # With a whole row the background counts where columns follow from each other: of 100 rows
        # on a line, it drew completions .7 % of their way to the mean.
        background_rows = 0.1
        return background_rows / (self.n_rows + background_rows)

    def _log_base(self, rows: Floats, scores: Floats) -> Floats:
        """What turns log densities of scores into those of the numbers, shape (n_rows,)."""
        log_base = self._axis_table.log_density(rows)
        for v, column, score in zip(self.numbers, self.scored, scores.T):
            values = np.ascontiguousarray(rows[:, v])
            has_score = ~np.isnan(score)
            is_atom = np.isnan(score) & ~np.isnan(values)
            log_base[has_score] += column.log_slope(values[has_score])
            if column.step > 0.0:
                # An atom fills its cell of the lattice.
                log_base[is_atom] -= np.log(column.step)
        return log_base

    def _background(self, scores: Floats, states: Any) -> Floats:
        """Log density (nats) of the rows if their cells are independent, shape (n_rows,)."""
        log_density = states @ np.log(self.share)
        log_peak = np.log(_BACKGROUND_WEIGHTS / (np.sqrt(2.0 * np.pi) * _BACKGROUND_SDS))
        for score, centre, scale in zip(scores.T, self.centre, self.scale):
            observed = ~np.isnan(score)
            distance = (score[observed] - centre) / scale
            # Squares may overflow: the density of such scores is zero.
            with np.errstate(over="ignore"):
                squares = np.square(distance[:, np.newaxis] / _BACKGROUND_SDS)
            log_normals = log_peak - 0.5 * squares
            log_density[observed] += np.logaddexp.reduce(log_normals, axis=1) - np.log(scale)
        return log_density


def _scored(number: Law | None, values: Floats, weight: Floats) -> Law:
    """The law of a column of numbers; without one, no atoms and a linear score."""
    if number is not None:
        return number
    mean, sd = column_moments(values[:, np.newaxis], weight)
    return Law(Score(centre=float(mean[0]), spread=float(sd[0])), np.empty(0))


def _robust(scores: Floats, weight: Floats) -> tuple[float, float]:
    """Median and robust standard deviation of scores; 0 and 1 for a column without scores."""
    points, mass = distinct(scores, weight)
    if not len(points):
        return 0.0, 1.0
    low, centre, high = weighted_quantiles(points, np.cumsum(mass), np.array([1, 5, 9]), 10)
    # Distance between the first and the last tenth of a normal distribution, in standard
    # deviations.
    decile_range = 2.5631031310892007
    scale = (high - low) / decile_range or (points[-1] - points[0]) / decile_range or 1.0
    return float(centre), float(scale)


class TableRows(NamedTuple):
    """Distinct encoded rows, their weights, and what their columns are."""

    rows: Floats
    weight: Floats
    n_states: Ints
    numbers: Sequence[Law | None]
    axes: Sequence[Histogram | None]

    @classmethod
    def from_domain(cls, domain: Domain, rows: Floats, weight: Floats) -> Self:
        """Rows of a domain; its ordered states, which alone have axes, are like categories."""
        numbers = domain.laws
        scored = [None if states else n for n, states in zip(numbers, domain.n_states)]
        return cls(rows, weight, domain.n_states, scored, domain.axes)


class Candidate(NamedTuple):
    """The choices that held-out rows make for one mixture.

    Attributes
    ----------
    params : MixtureParams
        The parameters of the mixture.
    linear : tuple of int
        The columns whose scores are linear.
    is_sharp : bool
        Whether hardly any value of these is bent by an end; see :class:`skpc.variables.Law`.
    """

    params: MixtureParams
    linear: tuple[int, ...] = ()
    is_sharp: bool = False

    def but(self, **changed: Any) -> Self:
        """The candidate with some choices changed: ``linear``, ``is_sharp`` or parameters."""
        scores = {name: changed.pop(name) for name in ("linear", "is_sharp") if name in changed}
        return self._replace(params=self.params._replace(**changed), **scores)

    def score_of(self, law: Law, column: int) -> Score:
        """The score that a column with this law has."""
        if column not in self.linear:
            return law.score
        return law.sharp_score if self.is_sharp else law.linear_score


class Choices(NamedTuple):
    """Candidates that are mixed (their scores are alike), and their weights.

    ``tree`` says how a tree of hidden variables beside them is learned, ``tree_weight`` its weight.
    """

    weights: Floats
    candidates: list[Candidate]
    tree: TreeChoice | None = None
    tree_weight: float = 0.0


class ReadRows(NamedTuple):
    """Encoded rows, and the same as mixtures read them."""

    rows: Floats
    cells: MixtureRows


@dataclass(frozen=True, eq=False)
class TableStatistics(Statistics):
    """The :class:`Sums` of each candidate, then the :class:`Counts` of the tree, if any."""

    parts: tuple[Any, ...]
    log_likelihood: float = 0.0


class LearnedMixture(NamedTuple):
    """Mixtures that are mixed with each other; see :class:`skpc._fitting.Parametrised`.

    Attributes
    ----------
    columns : TableColumns
        What all mixtures have in common.
    model : GaussianMixture
        The components of all mixtures, as one mixture.
    choices : Choices
        The candidates that were learned, and their weights.
    models : list of GaussianMixture
        The mixture of each candidate.
    tree : TableTree, default=None
        A tree of hidden variables beside the mixtures, if there is one.
    """

    columns: TableColumns
    model: GaussianMixture
    choices: Choices
    models: list[GaussianMixture]
    tree: TableTree | None = None

    @property
    def n_parameters(self) -> int:
        """Number of free parameters, among them the weights of the candidates and of the tree."""
        state_ptr = self.columns.state_ptr
        n_free = len(self.models) - 1
        for model, candidate in zip(self.models, self.choices.candidates):
            n_free += model.n_parameters(state_ptr, candidate.params.n_factors)
        return n_free + (self.tree.tree.n_parameters + 1 if self.tree else 0)

    def heaviest(self, size: float, share: float) -> Self:
        """The mixture of the heaviest candidates, as many as either limit allows.

        The limits: their covariances have at most ``size`` numbers together; they are the fewest
        that have more than ``share`` of the weight.
        """
        order = np.argsort(-self.choices.weights, kind="stable")
        sizes = np.array([model.gaussians.covariance.size for model in self.models])[order]
        # The heaviest come first, as many as are small enough, or as many as have the share.
        n_small = np.searchsorted(np.cumsum(sizes), size, side="right")
        n_heavy = 1 + np.searchsorted(np.cumsum(self.choices.weights[order]), share)
        heaviest_places = np.sort(order[: max(n_small, n_heavy)])
        weights = self.choices.weights[heaviest_places]
        weights /= weights.sum()
        candidates = [self.choices.candidates[k] for k in heaviest_places]
        models = [self.models[k] for k in heaviest_places]
        return self._replace(
            model=GaussianMixture.stacked(models, weights),
            choices=self.choices._replace(weights=weights, candidates=candidates),
            models=models,
        )

    def circuit(self, n_features: int) -> Circuit:
        """The circuit over encoded rows of ``n_features`` columns; see :func:`table_circuit`."""
        return table_circuit(
            self.columns, self.model, n_features, self.tree, self.choices.tree_weight
        )

    def of_size(self, n_rows: float) -> Self:
        """The mixture with the weight of its background as of so many rows."""
        return self._replace(columns=self.columns._replace(n_rows=n_rows))

    @property
    def parts(self) -> list[ParametrisedMixture]:
        """The mixture of each candidate, with what EM learns it by."""
        candidates = self.choices.candidates
        prior = self.columns.prior
        return [
            ParametrisedMixture(model, prior, candidate.params)
            for model, candidate in zip(self.models, candidates)
        ]

    def expected(self, rows: Floats | ReadRows, weight: Floats) -> TableStatistics:
        """The E-step, on encoded rows."""
        # A caller with several steps reads the rows once.
        if not isinstance(rows, ReadRows):
            rows = ReadRows(rows, self.columns.cells(rows))
        sums = tuple(part.expected(rows.cells, weight) for part in self.parts)
        counts = self.tree and self.tree.expected(self.columns, rows.rows, weight)
        shares = zip(self.choices.weights, sums)
        log_likelihood = float(sum(share * part.log_likelihood for share, part in shares))
        return TableStatistics((*sums, counts) if counts else sums, log_likelihood)

    def before(self, n_rows: float) -> TableStatistics:
        """The statistics of ``n_rows`` rows that are distributed as each mixture says."""
        sums = tuple(Sums.from_model(model, n_rows) for model in self.models)
        counts = (Counts.from_tree(self.tree.tree, n_rows),) if self.tree else ()
        return TableStatistics((*sums, *counts))

    def m_step(self, statistics: TableStatistics) -> Self:
        """The mixture with parameters from statistics of all rows."""
        models = [part.m_step(sums).mixture for part, sums in zip(self.parts, statistics.parts)]
        tree = self.tree and self.tree.m_step(statistics.parts[-1])
        return self.with_models(models, tree)

    def with_models(self, models: list[GaussianMixture], tree: TableTree | None) -> Self:
        """The mixture with other models and another tree in place of its own."""
        model = GaussianMixture.stacked(models, self.choices.weights)
        return self._replace(model=model, models=models, tree=tree)


def table_circuit(
    columns: TableColumns,
    model: GaussianMixture | None,
    n_features: int,
    tree: TableTree | None = None,
    tree_weight: float = 0.0,
    like: Circuit | None = None,
) -> Circuit:
    """Build the circuit of a mixture.

    The root is a sum over the components, the tree, if any, and the background. A component is a
    product of a block leaf of all numbers (a sum of these, where it has several widths) and a leaf
    for each category; the background is a product of columns, in which a number is a sum of normals
    around its median.

    Parameters
    ----------
    columns : TableColumns
    model : GaussianMixture or None
        None: the tree has all the weight.
    n_features : int
        Number of columns of encoded rows.
    tree : TableTree, default=None
    tree_weight : float, default=0.0
        Its weight beside the components.
    like : Circuit, default=None
        A circuit of the same scores, whose axes the new one shares, so that both can be mixed.

    Returns
    -------
    Circuit
    """
    maker = _CircuitMaker(columns, n_features, like)
    children = list[int]()
    weights = np.empty(0)
    if model is not None:
        children = [maker.component(model, k) for k in range(len(model.weights))]
        weights = (1.0 - tree_weight) * model.weights
    if tree is not None:
        children.append(tree.add(maker.builder, columns))
        weights = np.append(weights, tree_weight)
    background_weight = columns.background_weight
    weights = np.append((1.0 - background_weight) * weights, background_weight)
    maker.builder.sum([*children, maker.background()], np.log(weights))
    return maker.builder.build()


class _CircuitMaker:
    """Adds the components and the background of a mixture to a circuit; returns their nodes."""

    def __init__(self, columns: TableColumns, n_features: int, like: Circuit | None):
        self.columns = columns
        n_states = np.zeros(n_features, dtype=np.int64)
        n_states[columns.tables] = np.diff(columns.state_ptr)
        axes: list = list(columns.axes)
        for v, scored, scale in zip(columns.numbers, columns.scored, columns.scale):
            n_states[v] = scored.n_states
            axes[v] = scored._replace(smallest_sd=SMALLEST_SD * float(scale))
        # Only circuits with the same axes can be mixed.
        if like is not None:
            axes = [like.structure.axis_of(v) for v in range(n_features)]
        self.builder = CircuitBuilder(n_states, axes)

    def component(self, model: GaussianMixture, k: int) -> int:
        """Add component k."""
        tables, leaves = self._tables(model.log_table[k])
        numbers = self.columns.numbers.tolist()
        if numbers:
            places = np.flatnonzero(model.component == k)
            # A number without atoms has a single state, of log probability zero.
            log_probs = [tables.get(v, np.zeros(1)) for v in numbers]
            mean = model.gaussians.mean[k]
            covariance = model.gaussians.covariance[k]
            blocks = [
                self.builder.block(numbers, log_probs, mean, width**2 * covariance)
                for width in model.width[places]
            ]
            leaves.append(self._sum(blocks, model.proportion[places]))
        return self._product(leaves)

    def background(self) -> int:
        """Add the background."""
        columns = self.columns
        tables, leaves = self._tables(np.log(columns.share))
        for v, centre, scale in zip(columns.numbers.tolist(), columns.centre, columns.scale):
            log_prob = tables.get(v, np.zeros(1))
            normals = [
                self.builder.scored(v, log_prob, float(centre), float(sd * scale))
                for sd in _BACKGROUND_SDS
            ]
            leaves.append(self._sum(normals, _BACKGROUND_WEIGHTS))
        return self._product(leaves)

    def _tables(self, log_table: Floats) -> tuple[dict[int, Floats], list[int]]:
        """Split log probabilities of states by column, and add the leaves of the categories."""
        parts = np.split(log_table, self.columns.state_ptr[1:-1])
        tables = dict(zip(self.columns.tables.tolist(), parts))
        categories = np.setdiff1d(self.columns.tables, self.columns.numbers).tolist()
        return tables, [self.builder.discrete(v, tables[v]) for v in categories]

    def _sum(self, nodes: list[int], weights: Floats) -> int:
        return nodes[0] if len(nodes) == 1 else self.builder.sum(nodes, np.log(weights))

    def _product(self, nodes: list[int]) -> int:
        return nodes[0] if len(nodes) == 1 else self.builder.product(nodes)
