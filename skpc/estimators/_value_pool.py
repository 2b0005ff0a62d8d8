"""A pool of predictions of a number: members learned in folds, weighed, and learned again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from skpc._arrays import Floats
from skpc.estimators._folds import hold_out_folds
from skpc.estimators._linear_pool import log_softmax
from skpc.estimators._residuals import ResidualLaw
from skpc.estimators._value_lesson import Answers, Lesson, Member, Report, Spread, without_warnings
from skpc.estimators._value_members import (
    Target,
    TargetDensity,
    TargetRegressor,
    atom_probabilities,
    beside_atoms,
    log_density_beside_atoms,
    log_density_of,
)
from skpc.variables import Predictive


class ValuePool(NamedTuple):
    """Learned members and their weights.

    Attributes
    ----------
    target : Target
    densities : list of TargetDensity
        The first members.
    mixture : ndarray of shape (n_densities,)
        Weights of the densities among themselves. Their mixture tells the probabilities of atoms,
        of which regressors know nothing, and how uncertain a target is.
    regressors : list of (TargetRegressor, ResidualLaw)
        The other members, and the laws of what they are wrong by.
    spread : Spread or None
        What weights depend on; None where nothing has weighed the densities.
    coef : ndarray of shape (3, n_members)
        Coefficients of the weights.
    """

    target: Target
    densities: list[TargetDensity]
    mixture: Floats
    regressors: list[tuple[TargetRegressor, ResidualLaw]]
    spread: Spread | None
    coef: Floats

    def predictive(self, rows: Floats) -> Predictive:
        """Distribution of the target of each row."""
        parts, log_weight = self._parts(rows)
        return parts[0] if len(parts) == 1 else Predictive.mixture(parts, np.exp(log_weight))

    def log_density(self, rows: Floats, values: Floats) -> Floats:
        """Log density (nats) of the target of each row at a value of its own."""
        parts, log_weight = self._parts(rows)
        found = [
            log_density_of(part, values)
            if m < len(self.densities)
            else log_density_beside_atoms(part, self.target, values)
            for m, part in enumerate(parts)
        ]
        return np.asarray(np.logaddexp.reduce(np.array(found).T + log_weight, axis=1))

    def draw(self, rows: Floats, n_draws: int, random_state: np.random.RandomState) -> Floats:
        """Targets for each row, shape (n_rows, n_draws)."""
        parts, log_weight = self._parts(rows)
        source = _draw_columns(np.exp(log_weight), n_draws, random_state)
        found = np.empty(source.shape)
        for m, part in enumerate(parts):
            row, place = np.nonzero(source == m)
            if m < len(self.densities):
                found[row, place] = self.densities[m].draw(rows[row], random_state)
            else:
                found[row, place] = self._draw_beside_atoms(part, row, random_state)
        return found

    def _parts(self, rows: Floats) -> tuple[list[Predictive], Floats]:
        """Distributions by all members, and their log weights of shape (n_rows, n_members)."""
        with without_warnings(len(self.densities) + len(self.regressors) > 1):
            parts = [density.predictive(rows) for density in self.densities]
        if self.spread is None:
            return parts, np.full((len(rows), len(parts)), -np.log(len(parts)))
        variance = Predictive.mixture(parts, self.mixture).variance()
        features = self.spread.features(rows, variance)
        if self.regressors:
            of_atoms = [atom_probabilities(part, self.target) for part in parts]
            atoms = np.tensordot(self.mixture, of_atoms, axes=1)
        for regressor, law in self.regressors:
            mean, sd = regressor.mean_and_sd(rows)
            sds = law.sds(sd, features)
            parts.append(beside_atoms(mean, sds, law.share, atoms, self.target))
        return parts, log_softmax(features @ self.coef)

    def _draw_beside_atoms(
        self, part: Predictive, row: Any, random_state: np.random.RandomState
    ) -> Floats:
        """A draw from the distribution by a regressor of each of these rows."""
        *points, normals = part.terms
        n_atoms = len(self.target.atoms)
        prob = np.hstack([*(term.prob for term in points), normals.prob])[row]
        (source,) = _draw_columns(prob, 1, random_state).T
        sd = normals.sd[row, np.maximum(source - n_atoms, 0)]
        drawn = normals.mean[row] + sd * random_state.standard_normal(len(row))
        number = self.target.number
        drawn = drawn if number is None else number.snapped(drawn)
        at_atom = source < n_atoms
        drawn[at_atom] = self.target.atoms[source[at_atom]]
        return drawn


def learn_pool(
    lesson: Lesson,
    members: Sequence[Member],
    weight: Floats,
    n_folds: int,
    n_jobs: int | None,
    random_state: np.random.RandomState,
) -> tuple[ValuePool, Report]:
    """Weigh members by what they say of held-out rows, and learn those that count.

    Parameters
    ----------
    lesson : Lesson
    members : sequence of Member
        Densities first, at least one.
    weight : ndarray of shape (n_rows,)
        Positive weights of the rows of the lesson.
    n_folds : int
    n_jobs : int or None
        How many members and folds are learned side by side.
    random_state : RandomState instance
    """
    folds = []
    if len(members) > 1:
        group = lesson.target.atom_of(lesson.values) + 1
        folds = hold_out_folds(lesson.rows, weight, group, n_folds, lesson.rates, random_state)
    seeds = random_state.randint(2**31, size=len(members)).tolist()
    parallel = Parallel(n_jobs=n_jobs)
    if not folds:
        return _learn_equals(lesson, members, weight, parallel)
    said = parallel(
        delayed(lesson.ask)(member, fold, seed)
        for fold in folds
        for member, seed in zip(members, seeds)
    )
    found = Answers.gather(lesson, members, folds, said).weigh(lesson)
    learned = parallel(delayed(lesson.learn)(members[m], weight, seeds[m]) for m in found.report.used)
    densities = [one for one in learned if isinstance(one, TargetDensity)]
    regressors = list(zip(learned[len(densities) :], found.laws))
    pool = ValuePool(
        lesson.target, densities, found.mixture, regressors, found.spread, found.coef
    )
    return pool, found.report


def _learn_equals(
    lesson: Lesson, members: Sequence[Member], weight: Floats, parallel: Any
) -> tuple[ValuePool, Report]:
    """A pool of densities that nothing weighs: there is a single one, or a single row."""
    is_density = np.array([member.is_density for member in members])
    densities = parallel(
        delayed(lesson.learn)(member, weight, 0) for member in members if member.is_density
    )
    share = np.full(len(densities), 1.0 / len(densities))
    pool = ValuePool(lesson.target, densities, share, [], None, np.zeros((3, len(densities))))
    weights = np.where(is_density, share[0], 0.0)
    used = np.flatnonzero(is_density).tolist()
    return pool, Report(used, weights, np.full(len(members), np.nan), np.nan)


def _draw_columns(prob: Floats, n_draws: int, random_state: np.random.RandomState) -> Any:
    """Numbers of columns drawn by the probabilities of each row, shape (n_rows, n_draws)."""
    end = np.cumsum(prob, axis=1)
    u = random_state.random_sample((len(prob), n_draws)) * end[:, -1:]
    return (u[:, :, np.newaxis] >= end[:, np.newaxis, :-1]).sum(axis=2)
