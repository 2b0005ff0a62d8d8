"""Mixtures of densities: how they are weighed, and the mixture as a density of encoded rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.base import clone

from skpc._arrays import SMALLEST_NORMAL, Floats, has_gaps, log_or_inf
from skpc._random import draw_states
from skpc._threads import slices
from skpc.densities import Density
from skpc.domain import Domain
from skpc.learning.simplex import mixture_weights
from skpc.pooling.folds import Fold
from skpc.pooling.pool import Member, OutOfFold, draw_by_source, fit_density
from skpc.queries import Events
from skpc.queries.passes.upward import refuse_impossible
from skpc.variables import Predictive

#: Number of rows whose posteriors are held at a time.
_ROWS = 1024


class RowData(NamedTuple):
    """Rows without targets, from which the members of a mixture of densities learn.

    Attributes
    ----------
    domain : Domain
    rows : ndarray of shape (n_rows, n_features)
        Distinct encoded rows.
    rows_val : ndarray of shape (n_validation_rows, n_features) or None
        Validation rows, by which members make choices and stop early.
    """

    domain: Domain
    rows: Floats
    rows_val: Floats | None = None

    def without(self, fold: Fold) -> RowData:
        """See :class:`~skpc.pooling.pool.TrainingData`."""
        # Bins that depend on held-out rows would favour densities with bins.
        return RowData(self.domain.with_axes_of(self.rows, fold.train_weight), self.rows)

    def fit(self, member: Member, weight: Floats, seeds: Sequence[int]) -> Any:
        """See :class:`~skpc.pooling.pool.TrainingData`."""
        if self.rows_val is None:
            return fit_density(member.model, self.domain, self.rows, weight)
        return clone(member.model).fit_rows(self.domain, self.rows, weight, self.rows_val)

    def predict(self, fitted: Any, fold: Fold) -> tuple[Floats]:
        """Log density of the test rows."""
        return (fitted.row_density.log_density(fold.test_rows),)

    def weigh(self, mixture: Floats, out_of_fold: OutOfFold | None) -> RowPool:
        """Weights that maximise the likelihood of the test rows."""
        if out_of_fold is None:
            # Members that explain a row equally well get equal weights.
            return RowPool.weigh(np.zeros((1, len(mixture))), np.ones(1))
        return RowPool.weigh(out_of_fold.predictions[0], out_of_fold.test_weight)


class RowPool(NamedTuple):
    """Weights of densities, and their scores.

    Attributes
    ----------
    weights : ndarray of shape (n_members,)
    scores : ndarray of shape (n_members + 1,)
        Mean log density of the held-out rows under each member, and last under the mixture.
    used : list of int
        All members.
    fitted : list of density estimators
    """

    weights: Floats
    scores: Floats
    used: list[int]
    fitted: Sequence[Any] = ()

    @classmethod
    def weigh(cls, log_density: Floats, weight: Floats) -> RowPool:
        """Weights by the log density of held-out rows under each member, (n_rows, n_members)."""
        weights = mixture_weights(log_density, weight)
        mixed = np.logaddexp.reduce(log_density + log_or_inf(weights), axis=1)
        scores = np.average(np.column_stack([log_density, mixed]), axis=0, weights=weight)
        return cls(weights, scores, list(range(len(weights))))


class DensityMixture(NamedTuple):
    """The density of a mixture of densities; see :class:`skpc.densities.Density`.

    Each answer about a row mixes the answers of the members by their posterior weights, which are
    proportional to their weights times their densities of the observed cells of the row.

    Parameters
    ----------
    members : sequence of Density
        Densities of the same rows, with respect to the same measure.
    weights : ndarray of shape (n_members,)
        Positive; they sum to one.
    domain : Domain
        What the columns are.
    cell_weights : ndarray of shape (n_features, n_members), default=None
        Weights by which the distributions of the cells of each column are mixed. They are the same
        in all rows, except that a member has weight zero in rows that are impossible under it. Such
        cells are predicted well, but do not belong to one joint density. None: the posterior
        weights.
    """

    members: Sequence[Density]
    weights: Floats
    domain: Domain
    cell_weights: Floats | None = None

    def log_density(self, rows: Any, given: Any = None) -> Floats:
        """See :class:`skpc.densities.Density`."""
        log_density = _total(self._joint(rows))
        if given is None:
            return log_density
        is_given = np.isin(np.arange(self.domain.n_features), given)
        log_known = _total(self._joint(Events.of(rows).only(is_given)))
        refuse_impossible(log_known, np.arange(len(log_known)))
        return log_density - log_known

    def log_cells(self, rows: Any) -> Floats:
        """See :class:`skpc.densities.Density`."""
        joint = self._joint(rows)
        log_cells = np.empty(rows.shape)
        possible = np.isfinite(joint).all(axis=1)
        log_cells_of_members = [member.log_cells(rows[possible]) for member in self.members]
        # Missing cells have no score.
        with np.errstate(invalid="ignore"):
            without = np.logaddexp.reduce(
                joint[possible].T[:, :, np.newaxis] - log_cells_of_members, axis=0
            )
            log_cells[possible] = _total(joint[possible])[:, np.newaxis] - without
            # A row that is impossible to a member may be possible without one of its cells.
            for row in np.flatnonzero(~possible):
                log_without = self.log_density(without_each_cell(rows[row]))
                log_cells[row] = _total(joint[[row]]) - log_without
        return np.where(np.isnan(rows), np.nan, log_cells)

    def posteriors(self, rows: Any, columns: Any = None) -> list[Predictive]:
        """See :class:`skpc.densities.Density`."""
        events = Events.of(rows)
        weights = self._posterior_weights(events)
        cells_of_members = [
            member.posteriors(possible, columns)
            for member, possible in zip(self.members, _possible(events, weights))
        ]
        known = events.rows
        chosen = range(known.shape[1]) if columns is None else columns
        return [
            Predictive.mixture(
                # Members that were given an empty row do not have its known cells.
                [replace(cells_of_member, known=known[:, column]) for cells_of_member in cells],
                self._weights_of(column, weights),
            )
            for column, cells in zip(chosen, zip(*cells_of_members))
        ]

    def means(self, rows: Any, columns: Sequence[int] | None = None) -> Floats:
        """See :class:`skpc.densities.Density`."""
        chosen = range(self.domain.n_features) if columns is None else columns
        events = Events.of(rows)
        filled = events.rows.copy()
        incomplete = np.flatnonzero(has_gaps(filled[:, chosen]))
        for part in slices(len(incomplete), _ROWS):
            batch = incomplete[part]
            for column, cells in zip(chosen, self.posteriors(events.take(batch), chosen)):
                filled[batch, column] = cells.centres()
        return filled

    def modes(self, rows: Floats) -> Floats:
        """The likeliest of the modes of the members; see :class:`skpc.densities.Density`."""
        possible = _possible(Events.of(rows), self._posterior_weights(rows))
        candidates = np.array(
            [member.modes(events.rows) for member, events in zip(self.members, possible)]
        )
        # Members were given empty rows for impossible ones, whose known cells are put back.
        candidates = np.where(np.isnan(rows), candidates, rows)
        log_density = np.array([self.log_density(candidate) for candidate in candidates])
        return candidates[log_density.argmax(axis=0), np.arange(len(rows))]

    def draw(
        self, n_rows: int, random_state: np.random.RandomState, given: Events | None = None
    ) -> Floats:
        """See :class:`skpc.densities.Density`."""
        weights = self.weights if given is None else self._posterior_weights(given)[0]
        source = random_state.choice(len(self.members), n_rows, p=weights)
        return draw_by_source(
            source,
            self.domain.n_features,
            lambda k, is_source: self.members[k].draw(is_source.sum(), random_state, given),
        )

    def draw_missing(self, rows: Any, random_state: np.random.RandomState) -> Floats:
        """See :class:`skpc.densities.Density`."""
        events = Events.of(rows)
        return draw_by_source(
            draw_states(self._posterior_weights(events), random_state),
            self.domain.n_features,
            lambda k, is_source: self.members[k].draw_missing(
                events.take(np.flatnonzero(is_source)), random_state
            ),
        )

    def _joint(self, rows: Any) -> Floats:
        """Log density of rows under members plus log weight, shape (n_rows, n_members)."""
        parts = [member.log_density(rows) for member in self.members]
        return np.column_stack(parts) + np.log(self.weights)

    def _posterior_weights(self, rows: Any) -> Floats:
        """Weights of the members given the observed cells of each row."""
        joint = self._joint(rows)
        if self.cell_weights is not None:
            joint = np.where(np.isneginf(joint), joint, np.log(self.weights))
        highest = joint.max(axis=1, keepdims=True)
        # A row that is impossible under all members does not change their weights.
        joint = np.where(np.isneginf(highest), np.log(self.weights), joint)
        return softmax(joint, axis=1)

    def _weights_of(self, column: int, weights: Floats) -> Floats:
        """Weights of the members for the cells of a column, from their weights in each row."""
        if self.cell_weights is None:
            return weights
        # A row may be impossible under all members of positive weight: then the others share it.
        cell_weights = (self.cell_weights[column] + SMALLEST_NORMAL) * (weights > 0.0)
        return cell_weights / cell_weights.sum(axis=1, keepdims=True)


def without_each_cell(row: Floats) -> Floats:
    """Copies of a row, each without another of its cells; shape (n_features, n_features)."""
    return np.where(np.eye(len(row), dtype=bool), np.nan, row)


def _possible(events: Events, weights: Floats) -> list[Events]:
    """The events for each member; those in which it has no weight are emptied.

    Its answer about them does not count, and it would refuse a row that is impossible under it.
    """
    return [events.only(weight[:, np.newaxis] > 0.0) for weight in weights.T]


def _total(joint: Floats) -> Floats:
    """Log density of rows under the mixture, shape (n_rows,)."""
    return np.logaddexp.reduce(joint, axis=1)
