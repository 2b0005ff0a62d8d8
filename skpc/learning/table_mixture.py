"""Mixtures of Gaussians of scores and tables of states, by expectation maximisation."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from skpc._arrays import Floats
from skpc._jit import kernel
from skpc.learning.table_cells import (
    SMALLEST_SD,
    TableCells,
    TableColumns,
    add_log_tables,
    count_states,
)
from skpc.variables.gaussians import Gaussians, log_densities, statistics

#: A row is left out of a component to which it belongs with less than this probability.
_NEGLIGIBLE = 1e-7
#: Rows distributed like the column that smooth each table of states.
_LIKE_COLUMN = 1.0
#: Rows that are looked at together.
_ROWS = 64


class Shrinkage(NamedTuple):
    """How components are drawn to each other.

    Attributes
    ----------
    strength : float
        Rows for each number that each component has beside its own; their covariance is the
        pooled one within components.
    to_diagonal : float
        Part of the pooled covariance that is replaced by its diagonal.
    n_factors : int
        Factors of which covariances are made, beside independent noise; 0 for full covariances.
    """

    strength: float = 0.5
    to_diagonal: float = 0.0
    n_factors: int = 0


class TableModel(NamedTuple):
    """A mixture of products of a Gaussian of all scores, and a table for each column of states.

    Attributes
    ----------
    weights : ndarray of shape (n_components,)
        They sum to one; the background comes on top.
    gaussians : Gaussians
        Of the scores.
    log_table : ndarray of shape (n_components, n_states)
        Log probabilities of the states of all columns, side by side.
    """

    weights: Floats
    gaussians: Gaussians
    log_table: Floats

    def joint(self, columns: TableColumns, cells: TableCells) -> Floats:
        """Log weight plus log density (nats) of components, shape (n_components, n_rows)."""
        found = log_densities(self.gaussians, cells.scores, cells.patterns)
        if cells.codes.shape[1]:
            add_log_tables(self.log_table, columns.state_ptr, cells.codes, found)
        found += np.log(self.weights)[:, np.newaxis]
        return found

    def log_density(self, columns: TableColumns, cells: TableCells) -> Floats:
        """Log density (nats) of rows, the background included, shape (n_rows,)."""
        joint = self.joint(columns, cells)
        return _share_rows(joint, cells.background, background_weight(columns))

    @classmethod
    def stacked(cls, models: list[TableModel], weights: Floats) -> TableModel:
        """The mixture of some mixtures."""
        parts = zip(*(model.gaussians for model in models))
        return cls(
            np.concatenate([weight * model.weights for weight, model in zip(weights, models)]),
            Gaussians(*(np.concatenate(part) for part in parts)),
            np.concatenate([model.log_table for model in models]),
        )


def background_weight(columns: TableColumns) -> float:
    """Weight of the background: that of one row more."""
    return 1.0 / (columns.n_rows + 1.0)


def fit_components(
    columns: TableColumns,
    cells: TableCells,
    weight: Floats,
    start: TableModel | Floats,
    shrinkage: Shrinkage,
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
        Where to begin: a model, or the part of each row that belongs to each component.
    shrinkage : Shrinkage
    max_iter : int
        Greatest number of iterations.
    tol : float
        The end is reached when an iteration raises the mean log density of the rows by less.

    Returns
    -------
    TableModel
    """
    model = start if isinstance(start, TableModel) else _first(columns, cells, weight, start)
    if not isinstance(start, TableModel):
        model = _maximised(model, columns, cells, start * weight, shrinkage)
    before = -math.inf
    for _ in range(max_iter):
        share = model.joint(columns, cells)
        log_density = _share_rows(share, cells.background, background_weight(columns))
        reached = float(weight @ log_density) / float(weight.sum())
        if reached - before < tol:
            break
        before = reached
        share *= weight
        model = _maximised(model, columns, cells, share, shrinkage)
    return model


def clustered(
    points: Floats, weight: Floats, n_components: int, random_state: np.random.RandomState
) -> Floats:
    """Clusters of rows by k-means, as parts of one and zero; shape (n_clusters, n_rows)."""
    if n_components > 1:
        n_components = min(n_components, len(np.unique(points, axis=0)))
    if n_components <= 1:
        return np.ones((1, len(points)))
    means = KMeans(n_components, n_init=1, max_iter=30, random_state=random_state)
    label = means.fit(points, sample_weight=weight).labels_
    return np.ascontiguousarray((np.arange(n_components)[:, np.newaxis] == label) * 1.0)


def _first(columns: TableColumns, cells: TableCells, weight: Floats, share: Floats) -> TableModel:
    """Components that are all like the columns: what fills in missing cells at the start."""
    n_components, d = len(share), len(columns.numbers)
    variance = np.diag(columns.scale**2)
    mean = np.tile(columns.centre, (n_components, 1))
    log_table = np.tile(np.log(columns.share), (n_components, 1))
    same = Gaussians.of(mean, np.tile(variance, (n_components, 1, 1)).reshape(-1, d, d))
    return TableModel(np.full(n_components, 1.0 / n_components), same, log_table)


def _maximised(
    model: TableModel, columns: TableColumns, cells: TableCells, share: Floats, shrinkage: Shrinkage
) -> TableModel:
    """The M-step, from the weight of each row in each component."""
    gaussians, d = model.gaussians, len(columns.numbers)
    count, total, square = statistics(gaussians, cells.scores, cells.patterns, share)
    some = np.maximum(count, 1e-100)[:, np.newaxis]
    shift = total / some
    square -= (total[:, :, np.newaxis] * shift[:, np.newaxis])
    mean = gaussians.mean + shift
    pooled = square.sum(axis=0) / count.sum()
    target = pooled.copy()
    target *= 1.0 - shrinkage.to_diagonal
    np.fill_diagonal(target, pooled.diagonal())
    added = shrinkage.strength * d
    covariance = (square + added * target) / (count + added)[:, np.newaxis, np.newaxis]
    diagonal = np.arange(d)
    covariance[:, diagonal, diagonal] += columns.smallest_variances(mean)
    covariance[:, diagonal, diagonal] += (SMALLEST_SD * columns.scale) ** 2
    covariance = 0.5 * (covariance + covariance.transpose(0, 2, 1))
    counts = np.zeros_like(model.log_table)
    count_states(share, columns.state_ptr, cells.codes, counts)
    return TableModel(
        np.maximum(count, 1e-100) / count.sum(),
        Gaussians.of(mean, covariance),
        _log_tables(counts, columns),
    )


def _log_tables(counts: Floats, columns: TableColumns) -> Floats:
    """Log probabilities of states from their counts, drawn to their shares in the column."""
    counts = counts + _LIKE_COLUMN * columns.share
    for begin, end in zip(columns.state_ptr, columns.state_ptr[1:]):
        counts[:, begin:end] /= counts[:, begin:end].sum(axis=1, keepdims=True)
    return np.asarray(np.log(counts))


def _share_rows(joint: Floats, background: Floats, weight: float) -> Floats:
    """Log densities of rows; the joint log densities become the parts of rows in components."""
    found = np.empty(len(background))
    _share_kernel(joint, background, weight, found)
    return found


@kernel
def _share_kernel(joint: Floats, background: Floats, weight: float, found: Floats) -> None:
    n_components, n_rows = joint.shape
    log_weight, log_rest = math.log(weight), math.log1p(-weight)
    highest, total = np.empty(_ROWS), np.empty(_ROWS)
    for begin in range(0, n_rows, _ROWS):
        n = min(_ROWS, n_rows - begin)
        for r in range(n):
            highest[r] = log_weight + background[begin + r]
        for k in range(n_components):
            for r in range(n):
                highest[r] = max(highest[r], log_rest + joint[k, begin + r])
        for r in range(n):
            total[r] = math.exp(log_weight + background[begin + r] - highest[r])
        for k in range(n_components):
            for r in range(n):
                part = math.exp(log_rest + joint[k, begin + r] - highest[r])
                joint[k, begin + r] = part
                total[r] += part
        for k in range(n_components):
            for r in range(n):
                part = joint[k, begin + r] / total[r]
                joint[k, begin + r] = part if part > _NEGLIGIBLE else 0.0
        for r in range(n):
            found[begin + r] = highest[r] + math.log(total[r])
