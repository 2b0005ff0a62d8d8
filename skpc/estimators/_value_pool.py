"""A pool of predictions of a number: members learned in folds, weighed, and learned again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from skpc._arrays import Floats
from skpc.estimators._folds import hold_out_folds
from skpc.estimators._linear_pool import Stretches, log_softmax
from skpc.estimators._residuals import ResidualLaw
from skpc.estimators._value_lesson import Answers, Lesson, Member, Report, Spread, without_warnings
from skpc.estimators._value_members import (
    DENSITY_FACTORS,
    Target,
    TargetDensity,
    TargetRegressor,
    around,
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
    stretches : Stretches or None
        Weights of the members and of their stretched copies.
    """

    target: Target
    densities: list[TargetDensity]
    mixture: Floats
    regressors: list[tuple[TargetRegressor, ResidualLaw]]
    spread: Spread | None = None
    stretches: Stretches | None = None

    def predictive(self, rows: Floats) -> Predictive:
        """Distribution of the target of each row."""
        parts, log_weight = self._parts(rows)
        return parts[0] if len(parts) == 1 else Predictive.mixture(parts, np.exp(log_weight))

    def log_density(self, rows: Floats, values: Floats) -> Floats:
        """Log density (nats) of the target of each row at a value of its own."""
        parts, log_weight = self._parts(rows)
        if self.stretches is None:
            found = [log_density_of(part, values) for part in parts]
        else:
            found = [log_density_beside_atoms(part, self.target, values) for part in parts]
        return np.asarray(np.logaddexp.reduce(np.array(found).T + log_weight, axis=1))

    def log_density_of_rows(self, rows: Floats) -> Floats:
        """Log density (nats) of the rows themselves, whatever their targets."""
        with without_warnings(len(self.densities) > 1):
            found = [density.log_density_of_rows(rows) for density in self.densities]
        return np.asarray(np.logaddexp.reduce(np.array(found).T + np.log(self.mixture), axis=1))

    def draw(self, rows: Floats, n_draws: int, random_state: np.random.RandomState) -> Floats:
        """Targets for each row, shape (n_rows, n_draws)."""
        parts, log_weight = self._parts(rows)
        source = _draw_columns(np.exp(log_weight), n_draws, random_state)
        found = np.empty(source.shape)
        for m, part in enumerate(parts):
            row, place = np.nonzero(source == m)
            if not len(row):
                continue
            if m < len(self.densities):
                drawn = self.densities[m].draw(rows[row], random_state)
            else:
                drawn = self._draw_normals(part, row, random_state)
            if self.stretches is not None:
                drawn = self._stretched(drawn, part, row, random_state)
            found[row, place] = drawn
        return found

    def _parts(self, rows: Floats) -> tuple[list[Predictive], Floats]:
        """Distributions by all members, and their log weights of shape (n_rows, n_members)."""
        with without_warnings(len(self.densities) + len(self.regressors) > 1):
            parts = [density.predictive(rows) for density in self.densities]
        if self.spread is None or self.stretches is None:
            return parts, np.full((len(rows), len(parts)), -np.log(len(parts)))
        features = self.spread.features(rows, Predictive.mixture(parts, self.mixture).variance())
        of_atoms = [atom_probabilities(part, self.target) for part in parts]
        coef, shares = self.stretches
        found = [
            beside_atoms(part.terms[0].without_atoms(), DENSITY_FACTORS, share, prob, self.target)
            for part, share, prob in zip(parts, shares, of_atoms)
        ]
        atoms = np.tensordot(self.mixture, of_atoms, axes=1)
        for (regressor, law), share in zip(self.regressors, shares[len(parts) :]):
            mean, sd = regressor.mean_and_sd(rows)
            found.append(around(mean, law.sds(sd, features), share, atoms, self.target))
        return found, log_softmax(features @ coef)

    def _draw_normals(
        self, part: Predictive, row: Any, random_state: np.random.RandomState
    ) -> Floats:
        """Draws from the distributions by a regressor, before they are stretched."""
        *points, rest = part.terms
        drawn = rest.form.mean[row] + rest.form.sd[row] * random_state.standard_normal(len(row))
        for at_atoms in points:
            prob = np.hstack([at_atoms.prob, rest.form.prob])[row]
            (atom,) = _draw_columns(prob, 1, random_state).T
            drawn = np.where(
                atom < len(at_atoms.value), np.append(at_atoms.value, np.nan)[atom], drawn
            )
        return drawn

    def _stretched(
        self, drawn: Floats, part: Predictive, row: Any, random_state: np.random.RandomState
    ) -> Floats:
        """Draws that are no atoms, moved towards or away from the middle of their distribution."""
        rest = part.terms[-1]
        factor = random_state.choice(rest.factors, len(row), p=rest.shares / rest.shares.sum())
        middle = rest.middle()[row]
        moved, number = middle + factor * (drawn - middle), self.target.number
        moved = moved if number is None else number.snapped(moved)
        return np.where(self.target.atom_of(drawn) < 0, moved, drawn)


def learn_pool(
    lesson: Lesson,
    members: Sequence[Member],
    weight: Floats,
    splits: Any,
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
    splits : int or list of Split
        See :func:`hold_out_folds`.
    n_jobs : int or None
        How many members and folds are learned side by side.
    random_state : RandomState instance
    """
    folds = []
    if len(members) > 1:
        group = lesson.target.atom_of(lesson.values) + 1
        folds = hold_out_folds(lesson.rows, weight, group, splits, lesson.rates, random_state)
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
        lesson.target, densities, found.mixture, regressors, found.spread, found.stretches
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
    pool = ValuePool(lesson.target, densities, share, [])
    weights = np.where(is_density, share[0], 0.0)
    used = np.flatnonzero(is_density).tolist()
    return pool, Report(used, weights, np.full(len(members), np.nan), np.nan)


def _draw_columns(prob: Floats, n_draws: int, random_state: np.random.RandomState) -> Any:
    """Numbers of columns drawn by the probabilities of each row, shape (n_rows, n_draws)."""
    end = np.cumsum(prob, axis=1)
    u = random_state.random_sample((len(prob), n_draws)) * end[:, -1:]
    return (u[:, :, np.newaxis] >= end[:, np.newaxis, :-1]).sum(axis=2)
