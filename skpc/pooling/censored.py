"""Pools of densities that predict a censored number: some targets are known as ranges only.

The members learn events (statements about cells): a row, the cause of what happened if there are
several causes, and the target. They are weighed by log scores of held-out targets: the log density
of a target known as a value, the log probability of one known as a range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from skpc._arrays import Floats, log_or_inf
from skpc._fitting import without_warnings
from skpc._threads import slices
from skpc.domain import Domain
from skpc.learning.simplex import mixture_weights
from skpc.pooling.folds import Fold
from skpc.pooling.numbers import Gate, NumberPool, possible_rows, target_distributions
from skpc.pooling.pool import Member, OutOfFold, labelled
from skpc.queries import Events

#: Number of rows whose predictive distributions are held at a time.
_ROWS = 1024


class CensoredData(NamedTuple):
    """Rows and targets known as values or ranges, from which densities learn.

    Attributes
    ----------
    events : Events
        Encoded rows, followed by the cause if there are several, and the target.
    domain : Domain
        What the columns of the events are.
    n_features : int
        Number of columns before the cause and the target.
    rates : sequence of float
        Proportions of cells that are removed from held-out rows.
    """

    events: Events
    domain: Domain
    n_features: int
    rates: Sequence[float]

    @property
    def rows(self) -> Floats:
        """The rows without the cause and the target."""
        return self.events.rows[:, : self.n_features]

    def without(self, fold: Fold) -> CensoredData:  # noqa: ARG002
        """See :class:`~skpc.pooling.pool.TrainingData`: each fit chooses bins by its own rows."""
        return self

    def fit(self, member: Member, weight: Floats, seeds: Sequence[int]) -> Any:  # noqa: ARG002
        """See :class:`~skpc.pooling.pool.TrainingData`."""
        index = np.flatnonzero(weight > 0.0)
        return clone(member.model).fit_events(self.domain, self.events.take(index), weight[index])

    def predict(self, fitted: Any, fold: Fold) -> tuple[Floats, ...]:
        """Log score (nats) of the target of each test row; see :func:`log_scores`."""
        events = self.events.take(fold.test_index)
        density = fitted.row_density
        with without_warnings():
            return (log_scores(density, events, fold.test_rows, self.n_features),)

    def weigh(self, mixture: Floats, out_of_fold: OutOfFold | None) -> NumberPool:
        """A mixture of fixed weights; without rows held out, the densities count equally."""
        scores = np.full(len(mixture), np.nan)
        pool_score = np.nan
        if out_of_fold is not None:
            (log_density_of_members,) = out_of_fold.predictions
            weight = out_of_fold.test_weight
            mixture = mixture_weights(log_density_of_members, weight)
            share = weight / weight.sum()
            scores = share @ log_density_of_members
            log_density_of_mixture = np.logaddexp.reduce(
                log_density_of_members + log_or_inf(mixture), axis=1
            )
            pool_score = float(share @ log_density_of_mixture)
        used = np.flatnonzero(mixture)
        weights = mixture[used]
        # With a constant as the only feature, all rows have the same weights.
        gate = Gate(used, np.log(weights)[np.newaxis], None)
        return NumberPool(self.domain, weights, mixture, scores, pool_score, used.tolist(), gate)


def log_scores(density: Any, events: Events, rows: Floats, n_features: int) -> Floats:
    """Log density or log probability (nats) of targets, and of causes, given rows.

    Parameters
    ----------
    density : Density
    events : Events
        Their last columns state the causes and targets; the columns before are not read.
    rows : ndarray of shape (n_events, n_features)
        The rows that are given, some of whose cells may be removed.
    n_features : int
    """
    columns = np.arange(events.rows.shape[1])
    scores: list[Floats] = []
    for part in slices(len(rows), _ROWS):
        targets = events.take(np.arange(len(rows))[part]).only(columns >= n_features)
        given = np.full(targets.rows.shape, np.nan)
        given[:, :n_features] = rows[part]
        # Impossible rows lose their cells, in the joint event too.
        given = possible_rows(density, given)
        joint = targets.with_cells(np.where(columns < n_features, given, targets.rows))
        scores.append(density.log_density(joint) - density.log_density(given))
    return np.concatenate(scores)


def cumulative_incidences(pool: NumberPool, rows: Floats, n_causes: int, times: Floats) -> Floats:
    """Probabilities of an event of each cause up to each time, shape (n_rows, n_causes, n_times).

    The last column of ``rows`` is the cause, whose cells are missing.
    """
    total = np.zeros((len(rows), n_causes, len(times)))
    for weight, member in zip(pool.mixture, pool.densities.values()):
        density = member.row_density
        cause_column = rows.shape[1] - 1
        (cause_cells,) = density.posteriors(possible_rows(density, labelled(rows)), [cause_column])
        prob = cause_cells.probabilities
        # The distribution of times given each cause, weighed by the probability of the cause.
        for cause in range(n_causes):
            given = rows.copy()
            given[:, cause_column] = cause
            cells = target_distributions(density, given)
            below = np.column_stack([cells.cdf(time) for time in times.tolist()])
            total[:, cause] += weight * prob[:, [cause]] * below
    return total
