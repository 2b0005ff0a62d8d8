"""Pools of densities that predict a number of which some training targets are known as ranges.

Members learn the rows with the target, and with the cause of the event if there are several, as
events; held-out targets weigh them by log scores. A target that is known as a range counts with its
probability where another counts with its density.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import gen_batches

from skpc._arrays import Floats, log_or_inf
from skpc._fitting import without_warnings
from skpc.domain import Domain
from skpc.learning.simplex import mixture_weights
from skpc.pooling.folds import Fold
from skpc.pooling.numbers import Gate, NumberPool, possible_rows, target_distributions
from skpc.pooling.pool import Member, OutOfFold, labelled
from skpc.queries import Events

#: Rows whose predictive distributions are held at a time.
_ROWS = 1024


class CensoredData(NamedTuple):
    """Rows and targets known as values or ranges, from which densities learn.

    Attributes
    ----------
    events : Events
        Encoded rows, then the cause if there are several, then the target.
    domain : Domain
        What their columns are.
    n_features : int
        Number of columns of the rows alone.
    rates : sequence of float
        Proportions of cells that are removed from held-out rows.
    """

    events: Events
    domain: Domain
    n_features: int
    rates: Sequence[float]

    @property
    def rows(self) -> Floats:
        """The rows without what is to be predicted."""
        return self.events.rows[:, : self.n_features]

    def without(self, fold: Fold) -> CensoredData:  # noqa: ARG002
        """See :class:`~skpc.pooling.pool.TrainingData`: axes follow the rows of each fit."""
        return self

    def fit(self, member: Member, weight: Floats, seeds: Sequence[int]) -> Any:  # noqa: ARG002
        """See :class:`~skpc.pooling.pool.TrainingData`."""
        index = np.flatnonzero(weight > 0.0)
        return clone(member.model).fit_events(self.domain, self.events.take(index), weight[index])

    def predict(self, fitted: Any, fold: Fold) -> tuple[Floats, ...]:
        """Log score (nats) of what is known of the target of each test row."""
        events = self.events.take(fold.test_index)
        density = fitted.row_density
        with without_warnings():
            return (log_scores(density, events, fold.test_rows, self.n_features),)

    def weigh(self, mixture: Floats, out_of_fold: OutOfFold | None) -> NumberPool:
        """A mixture of fixed weights; without rows held out, the densities count equally."""
        scores = np.full(len(mixture), np.nan)
        pooled = np.nan
        if out_of_fold is not None:
            (log_density_of_members,) = out_of_fold.predictions
            weight = out_of_fold.test_weight
            mixture = mixture_weights(log_density_of_members, weight)
            share = weight / weight.sum()
            scores = share @ log_density_of_members
            log_density_of_mixture = np.logaddexp.reduce(
                log_density_of_members + log_or_inf(mixture), axis=1
            )
            pooled = float(share @ log_density_of_mixture)
        used = np.flatnonzero(mixture)
        weights = mixture[used]
        # A constant feature alone: rows all have the same weights.
        gate = Gate(used, np.log(weights)[np.newaxis], None)
        return NumberPool(self.domain, weights, mixture, scores, pooled, used.tolist(), gate)


def log_scores(density: Any, events: Events, rows: Floats, n_features: int) -> Floats:
    """Log density or log probability (nats) of what is known of targets, given other rows.

    Parameters
    ----------
    density : Density
    events : Events
        Of which only what is said of targets and causes counts.
    rows : ndarray of shape (n_events, n_features)
        What is given.
    n_features : int
    """
    places = np.arange(events.rows.shape[1])
    scores: list[Floats] = []
    for part in gen_batches(len(rows), _ROWS):
        said = events.take(np.arange(len(rows))[part]).only(places >= n_features)
        given = np.full(said.rows.shape, np.nan)
        given[:, :n_features] = rows[part]
        # A row too far away says nothing of its target.
        given = possible_rows(density, given)
        # What was blanked in a row that is too far away stays so in the joint event.
        known_rows = np.where(places < n_features, given, said.rows)
        joint = said.with_cells(known_rows)
        scores.append(density.log_density(joint) - density.log_density(given))
    return np.concatenate(scores)


def cumulative_incidences(pool: NumberPool, rows: Floats, n_causes: int, times: Floats) -> Floats:
    """Probabilities of an event of each cause up to each time, shape (n_rows, n_causes, n_times).

    The last column of ``rows`` is the cause, which is open.
    """
    total = np.zeros((len(rows), n_causes, len(times)))
    for weight, member in zip(pool.mixture, pool.densities.values()):
        density = member.row_density
        place = rows.shape[1] - 1
        (cause_cells,) = density.posteriors(possible_rows(density, labelled(rows)), [place])
        prob = cause_cells.probabilities
        # Times are asked for under each cause, which counts by its probability in the row.
        for cause in range(n_causes):
            given = rows.copy()
            given[:, place] = cause
            cells = target_distributions(density, given)
            below = np.column_stack([cells.cdf(time) for time in times.tolist()])
            total[:, cause] += weight * prob[:, [cause]] * below
    return total
