"""Mixtures of Gaussians of scores and tables of states, by expectation maximisation."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import kernel
from skpc.counting.clustering import cluster_points
from skpc.learning.factors import N_START, Factors
from skpc.learning.low_rank import factored
from skpc.learning.table_cells import (
    SMALLEST_SD,
    TableCells,
    TableColumns,
    add_log_tables,
    count_states,
)
from skpc.variables.gaussians import Gaussians, leave_one_out, squared_distances, statistics

#: Widths of the Gaussians of a component with heavy tails, in the unit of its covariance.
TAILS = (0.6, 1.0, 1.7, 3.0)
#: A row is left out of a Gaussian to which it belongs with less than this probability.
_NEGLIGIBLE = 1e-7
#: Rows distributed like the column that smooth each table of states, and rows that smooth the parts
#: of the widths of a component.
_LIKE_COLUMN, _LIKE_OTHERS = 1.0, 2.0
#: Steps of EM that look at few components, between two that look at all, where missingness patterns
#: are at least this share of the rows.
_BETWEEN, _PATTERNS = 3, 0.2
#: Numbers from which on EM of one component starts from factors where patterns are so many, and the
#: robust scales from the centre of a column that these see. EM of any number of components then
#: ends when an iteration gains less for each number: later ones raise the likelihood of these rows,
#: but lower that of other rows.
_MANY, _CLIP, _TOL_NUMBER = 50, 4.0, 8e-3
#: Greatest number of iterations of k-means.
_CLUSTERING = 30
#: Weight of a Gaussian that has lost all rows.
_NOTHING = 1e-100
#: Rows that are looked at together.
_ROWS = 64


class Recipe(NamedTuple):
    """What a mixture is, and how its components are drawn to each other.

    Attributes
    ----------
    n_components : int
        Number of components.
    strength : float
        Rows for each number that are added to those of each component; their covariance is the
        pooled one within components.
    to_diagonal : float
        Part of the pooled covariance that is replaced by its diagonal.
    widths : tuple of float
        A component has a Gaussian of each width around one mean: one, or several for heavy tails.
    n_factors : int
        Factors that covariances are made from, plus independent noise; 0 for full covariances.
    """

    n_components: int
    strength: float = 0.5
    to_diagonal: float = 0.0
    widths: tuple[float, ...] = (1.0,)
    n_factors: int = 0


class TableModel(NamedTuple):
    """A mixture of products of Gaussians of all scores, and a table for each column of states.

    A component has one or more Gaussians of the same mean, whose covariances are multiples of one.

    Attributes
    ----------
    weights : ndarray of shape (n_components,)
        They sum to one, without the background.
    log_table : ndarray of shape (n_components, n_states)
        Log probabilities of the states of all columns, side by side.
    gaussians : Gaussians
        Gaussians of the scores, one for each component.
    component : ndarray of shape (n_widths,), int
        The component that has a Gaussian of each width, increasing.
    width : ndarray of shape (n_widths,)
        The covariance is that of the component times its square.
    part : ndarray of shape (n_widths,)
        Its weight in the component.
    """

    weights: Floats
    log_table: Floats
    gaussians: Gaussians
    component: Ints
    width: Floats
    part: Floats

    def joint(
        self, columns: TableColumns, cells: TableCells, wanted: NDArray[np.bool_] | None = None
    ) -> Floats:
        """Log weight plus log density (nats) of Gaussians, shape (n_widths, n_rows).

        It includes the tables, but not what a row gains by the scale of its numbers. It is -inf
        where ``wanted``, of shape (n_components, n_rows), is False.
        """
        square, log_base = squared_distances(self.gaussians, cells.scores, cells.patterns, wanted)
        n_seen = cells.patterns.n_observed
        log_base += n_seen * math.log(2.0 * math.pi)
        log_base *= -0.5
        log_base += np.log(self.weights)[:, np.newaxis]
        add_log_tables(self.log_table, columns.state_ptr, cells.codes, log_base)
        found = np.empty((len(self.part), len(n_seen)))
        log_part = np.log(self.part)
        _widen(square, log_base, self.component, self.width, log_part, n_seen, found)
        return found

    def log_density(self, columns: TableColumns, cells: TableCells) -> Floats:
        """Log density (nats) of encoded rows, the background included, shape (n_rows,)."""
        joint = self.joint(columns, cells)
        return _share_rows(joint, cells, columns) + cells.log_base

    def log_cells(self, columns: TableColumns, cells: TableCells) -> Floats:
        """Log density (nats) of scores given the other cells of the row, shape (n_rows, d).

        Zero where a cell is missing or an atom. The background is not counted.
        """
        joint, (n_rows, d) = self.joint(columns, cells), cells.scores.shape
        rest = np.full((n_rows, d), -np.inf)
        wider = self.width[:, np.newaxis, np.newaxis] ** 2
        for b in range(len(joint)):
            k = self.component[b : b + 1]
            one = Gaussians.from_covariance(
                self.gaussians.mean[k], wider[b] * self.gaussians.covariance[k]
            )
            alone = leave_one_out(one, cells.scores, cells.patterns)[0]
            np.logaddexp(rest, joint[b][:, np.newaxis] - alone, out=rest)
        return np.asarray(np.logaddexp.reduce(joint, axis=0)[:, np.newaxis] - rest)

    @classmethod
    def stacked(cls, models: list[TableModel], weights: Floats) -> TableModel:
        """The mixture of some mixtures."""
        first = np.cumsum([0, *(len(model.weights) for model in models[:-1])])
        parts = zip(*(model.gaussians for model in models))
        return cls(
            np.concatenate([weight * model.weights for weight, model in zip(weights, models)]),
            np.concatenate([model.log_table for model in models]),
            Gaussians(*(np.concatenate(part) for part in parts)),
            np.concatenate([begin + model.component for begin, model in zip(first, models)]),
            np.concatenate([model.width for model in models]),
            np.concatenate([model.part for model in models]),
        )


class Sums(NamedTuple):
    """Sums over rows that determine the next model.

    Attributes
    ----------
    weight, total, square : ndarrays
        What :func:`skpc.variables.gaussians.statistics` returns for each component.
    by_width : ndarray of shape (n_components, n_widths)
        Weight of the rows in each Gaussian.
    counts : ndarray of shape (n_components, n_states)
        That of the rows in each state.
    log_density : float
        Sum of the log densities (nats) of the rows.
    """

    weight: Floats
    total: Floats
    square: Floats
    by_width: Floats
    counts: Floats
    log_density: float = 0.0

    @classmethod
    def of(cls, model: TableModel, columns: TableColumns, cells: TableCells, share: Floats) -> Sums:
        """The sums, from the weight of each row in each Gaussian."""
        share = share.reshape(len(model.weights), -1, share.shape[1])
        rows, by_width = share.sum(axis=1), share.sum(axis=2)
        # A row in a wide Gaussian says less about the mean and the covariance.
        precision = 1.0 / np.square(model.width[: share.shape[1]])
        told = np.einsum("kwr,w->kr", share, precision)
        sums = statistics(model.gaussians, cells.scores, cells.patterns, told, rows)
        counts = np.zeros_like(model.log_table)
        count_states(rows, columns.state_ptr, cells.codes, counts)
        return cls(*sums, by_width, counts)

    @classmethod
    def expected(
        cls, model: TableModel, columns: TableColumns, rows: Floats, weight: Floats
    ) -> Sums:
        """The sums over encoded rows: the E-step."""
        cells = columns.cells(rows)
        share = model.joint(columns, cells)
        log_density = weight @ (_share_rows(share, cells, columns) + cells.log_base)
        found = cls.of(model, columns, cells, share * weight)
        return found._replace(log_density=float(log_density))

    @classmethod
    def like(cls, model: TableModel, n_rows: float) -> Sums:
        """The sums over ``n_rows`` rows that are distributed like a model."""
        count = n_rows * model.weights
        by_width = count[:, np.newaxis] * model.part.reshape(len(count), -1)
        width = model.width[: by_width.shape[1]]
        return cls(
            by_width @ (1.0 / width**2),
            np.zeros_like(model.gaussians.mean),
            count[:, np.newaxis, np.newaxis] * model.gaussians.covariance,
            by_width,
            count[:, np.newaxis] * np.exp(model.log_table),
        )


def next_model(model: TableModel, sums: Sums, columns: TableColumns, recipe: Recipe) -> TableModel:
    """The M-step, from sums over all rows."""
    return _Maximiser(columns, recipe).told_by(model, sums)


def fit_components(
    columns: TableColumns,
    cells: TableCells,
    weight: Floats,
    start: TableModel | Floats,
    recipe: Recipe,
    max_iter: int,
    tol: float,
) -> TableModel:
    """Fit components by expectation maximisation.

    Parameters
    ----------
    columns : TableColumns
    cells : TableCells
    weight : ndarray of shape (n_rows,)
        Positive.
    start : TableModel or ndarray of shape (n_components, n_rows)
        Where to begin: a model of the same recipe, or the part of each row that belongs to each
        component.
    recipe : Recipe
        What the mixture is.
    max_iter : int
        Greatest number of iterations.
    tol : float
        EM ends when an iteration raises the mean log density of the rows by less than this.

    Returns
    -------
    TableModel
    """
    learner = _Maximiser(columns, recipe)
    if isinstance(start, TableModel):
        model = start
    else:
        model = learner.first(len(start), cells, weight)
        part = model.part.reshape(len(start), -1, 1)
        share = (start[:, np.newaxis] * part * weight).reshape(len(model.part), -1)
        model = learner.maximised(model, cells, share)
    # Steps between look only at the components to which a row belongs, and raise a bound: they pay
    # where a row costs as much as a pattern.
    is_dear = len(model.weights) > 1 and len(cells.patterns.observed) > _PATTERNS * len(weight)
    n_between = _BETWEEN if is_dear else 0
    if _are_costly(cells):
        tol = max(tol, _TOL_NUMBER * len(columns.numbers))
    before = -math.inf
    for _ in range(max_iter):
        share = model.joint(columns, cells)
        reached = float(weight @ _share_rows(share, cells, columns)) / float(weight.sum())
        if reached - before < tol * (1 + n_between):
            break
        before = reached
        for _ in range(n_between):
            wanted = _belongs(share, model)
            model = learner.maximised(model, cells, share * weight)
            share = model.joint(columns, cells, wanted)
            _share_rows(share, cells, columns)
        model = learner.maximised(model, cells, share * weight)
    return model


def _are_costly(cells: TableCells) -> bool:
    """Whether filling in missing cells is what takes the time."""
    n_rows, d = cells.scores.shape
    are_many = d >= _MANY and len(cells.patterns.observed) > _PATTERNS * n_rows
    return are_many and not np.isnan(cells.scores).all(axis=0).any()


def _belongs(share: Floats, model: TableModel) -> NDArray[np.bool_]:
    """Whether rows belong to components, from their parts; shape (n_components, n_rows)."""
    first = np.searchsorted(model.component, np.arange(len(model.weights)))
    return np.asarray(np.add.reduceat(share, first) > 0.0)


def clustered(
    points: Floats, weight: Floats, n_components: int, random_state: np.random.RandomState
) -> Floats:
    """Clusters of rows by k-means, as parts of one and zero; shape (n_clusters, n_rows)."""
    label = cluster_points(points, weight, n_components, _CLUSTERING, random_state)
    return np.ascontiguousarray((np.arange(label.max() + 1)[:, np.newaxis] == label) * 1.0)


def n_parameters(recipe: Recipe, model: TableModel, columns: TableColumns) -> int:
    """Number of free parameters of a mixture."""
    d, n_factors = len(columns.numbers), recipe.n_factors
    full = d * (d + 1) // 2
    of_covariance = min(d * (n_factors + 1), full) if n_factors else full
    of_tables = len(columns.share) - len(columns.tables)
    of_one = d + of_covariance + of_tables + len(recipe.widths) - 1
    return len(model.weights) * (of_one + 1) - 1


class _Maximiser:
    """The M-step of a recipe."""

    def __init__(self, columns: TableColumns, recipe: Recipe):
        self.columns, self.recipe = columns, recipe
        self.precision = 1.0 / np.square(recipe.widths)
        self.noise: Floats | None = None

    def first(self, n_components: int, cells: TableCells, weight: Floats) -> TableModel:
        """Components that all equal the columns; they fill in missing cells at the start."""
        columns = self.columns
        mean = np.tile(columns.centre, (n_components, 1))
        covariance = np.repeat(np.diag(columns.scale**2)[np.newaxis], n_components, axis=0)
        gaussians = Gaussians.from_covariance(mean, covariance)
        # Several components would lose to the factors what keeps them apart.
        if n_components == 1 and _are_costly(cells) and len(weight) > len(columns.scale):
            far = _CLIP * columns.scale
            scores = np.clip(cells.scores, columns.centre - far, columns.centre + far)
            gaussians = Factors.fit(scores, weight, N_START).gaussians(1)
        weights = np.full(n_components, 1.0 / n_components)
        part = np.tile(self.precision / self.precision.sum(), (n_components, 1))
        log_table = np.tile(np.log(columns.share), (n_components, 1))
        return self._model(weights, log_table, gaussians, part)

    def maximised(self, model: TableModel, cells: TableCells, share: Floats) -> TableModel:
        """The next model, from the weight of each row in each Gaussian."""
        return self.told_by(model, Sums.of(model, self.columns, cells, share))

    def told_by(self, model: TableModel, sums: Sums) -> TableModel:
        """The next model, from sums over the rows."""
        columns, by_width = self.columns, np.maximum(sums.by_width, _NOTHING)
        weight = np.maximum(sums.weight, _NOTHING)[:, np.newaxis]
        shift = sums.total / weight
        around = weight[:, :, np.newaxis] * shift[:, :, np.newaxis] * shift[:, np.newaxis]
        mean, count = model.gaussians.mean + shift, by_width.sum(axis=1)
        smallest = columns.smallest_variances(mean)
        gaussians = self._gaussians(mean, count, sums.square - around, smallest)
        like = by_width.sum(axis=0) / count.sum()
        part = (by_width + _LIKE_OTHERS * like) / (count + _LIKE_OTHERS)[:, np.newaxis]
        weights = count / count.sum()
        return self._model(weights, self._log_tables(sums.counts), gaussians, part)

    def _gaussians(
        self, mean: Floats, count: Floats, square: Floats, smallest: Floats
    ) -> Gaussians:
        """Gaussians of covariances drawn to the pooled one, from sums of squares."""
        d = square.shape[1]
        pooled = square.sum(axis=0) / count.sum()
        target = (1.0 - self.recipe.to_diagonal) * pooled
        np.fill_diagonal(target, pooled.diagonal())
        added = self.recipe.strength * d
        found = (square + added * target) / (count + added)[:, np.newaxis, np.newaxis]
        found = 0.5 * (found + found.transpose(0, 2, 1))
        diagonal = np.arange(d)
        found[:, diagonal, diagonal] += smallest + (SMALLEST_SD * self.columns.scale) ** 2
        if self.recipe.n_factors:
            loadings, self.noise = factored(found, self.recipe.n_factors, self.noise)
            return Gaussians.from_factors(mean, loadings, self.noise)
        return Gaussians.from_covariance(mean, found)

    def _log_tables(self, counts: Floats) -> Floats:
        """Log probabilities of states from their counts, drawn to their shares in the column."""
        counts = counts + _LIKE_COLUMN * self.columns.share
        for begin, end in zip(self.columns.state_ptr, self.columns.state_ptr[1:]):
            counts[:, begin:end] /= counts[:, begin:end].sum(axis=1, keepdims=True)
        return np.asarray(np.log(counts))

    def _model(
        self, weights: Floats, log_table: Floats, gaussians: Gaussians, part: Floats
    ) -> TableModel:
        """A model in which each component has a Gaussian of each width."""
        component = np.repeat(np.arange(len(weights)), part.shape[1])
        width = np.tile(self.recipe.widths, len(weights))
        return TableModel(weights, log_table, gaussians, component, width, part.ravel())


def _share_rows(joint: Floats, cells: TableCells, columns: TableColumns) -> Floats:
    """Log densities of rows; the joint log densities become the parts of rows in Gaussians."""
    found = np.empty(joint.shape[1])
    _share_kernel(joint, cells.background, columns.background_weight, found)
    return found


@kernel
def _widen(
    square: Floats,
    log_base: Floats,
    component: Ints,
    width: Floats,
    log_part: Floats,
    n_seen: Ints,
    found: Floats,
) -> None:
    """Log densities of the Gaussians of each width."""
    for b in range(len(component)):
        k, log_width, half = component[b], math.log(width[b]), 0.5 / (width[b] * width[b])
        for r in range(len(n_seen)):
            rest = log_part[b] - n_seen[r] * log_width - half * square[k, r]
            found[b, r] = log_base[k, r] + rest


@kernel
def _share_kernel(joint: Floats, background: Floats, weight: float, found: Floats) -> None:
    n_gaussians, n_rows = joint.shape
    log_weight, log_rest = math.log(weight), math.log1p(-weight)
    highest, total = np.empty(_ROWS), np.empty(_ROWS)
    for begin in range(0, n_rows, _ROWS):
        n = min(_ROWS, n_rows - begin)
        for r in range(n):
            highest[r] = log_weight + background[begin + r]
        for k in range(n_gaussians):
            for r in range(n):
                highest[r] = max(highest[r], log_rest + joint[k, begin + r])
        for r in range(n):
            total[r] = math.exp(log_weight + background[begin + r] - highest[r])
        for k in range(n_gaussians):
            for r in range(n):
                part = math.exp(log_rest + joint[k, begin + r] - highest[r])
                joint[k, begin + r] = part
                total[r] += part
        for k in range(n_gaussians):
            for r in range(n):
                part = joint[k, begin + r] / total[r]
                joint[k, begin + r] = part if part > _NEGLIGIBLE else 0.0
        for r in range(n):
            found[begin + r] = highest[r] + math.log(total[r])
