"""A pool of predictions of a number: members learned in folds, weighed, and learned again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.parallel import delayed

from skpc._arrays import Floats, Ints, log_or_inf
from skpc._fitting import followed, progress, without_warnings
from skpc.estimators._linear_pool import log_weights
from skpc.estimators._residuals import ResidualLaw
from skpc.estimators._value_lesson import Answers, Lesson, Member, Report, Spread
from skpc.estimators._value_members import (
    Part,
    Target,
    TargetDensity,
    TargetRegressor,
    atom_probabilities,
    draw_columns,
)
from skpc.pooling.folds import hold_out_folds
from skpc.variables import Predictive


class ValuePool(NamedTuple):
    """Learned members and their weights.

    Attributes
    ----------
    target : Target
    densities : list of TargetDensity
        The first members.
    mixture : ndarray of shape (n_densities,)
        Weights of the densities among themselves. Their mixture gives the probabilities of atoms,
        which regressors do not know, and says how uncertain a target is.
    regressors : list of (TargetRegressor, ResidualLaw)
        The other members, and the laws of what they are wrong by.
    gate : (Spread, ndarray of shape (3, n_members, n_factors)) or None
        What the weights of members and their copies depend on, and how they do; None where nothing
        has weighed the densities, which are then mixed as they are.
    """

    target: Target
    densities: list[TargetDensity]
    mixture: Floats
    regressors: list[tuple[TargetRegressor, ResidualLaw]]
    gate: tuple[Spread, Floats] | None = None

    def predictive(self, rows: Floats) -> Predictive:
        """Distribution of the target of each row."""
        if self.gate is None:
            return Predictive.mixture(self._by_densities(rows), self.mixture)
        parts, log_weight = self._parts(rows, self.gate)
        return Predictive.mixture([part.predictive() for part in parts], np.exp(log_weight))

    def log_density(self, rows: Floats, values: Floats) -> Floats:
        """Log density (nats) of the target of each row at a value of its own."""
        if self.gate is None:
            found = [found.terms[0].log_density(values) for found in self._by_densities(rows)]
            log_weight = np.log(self.mixture)
        else:
            parts, log_weight = self._parts(rows, self.gate)
            found = [part.log_density(values) for part in parts]
        return np.asarray(np.logaddexp.reduce(np.array(found).T + log_weight, axis=1))

    def log_density_of_rows(self, rows: Floats) -> Floats:
        """Log density (nats) of the rows themselves, whatever their targets."""
        with without_warnings(len(self.densities) > 1):
            found = [density.log_density(rows) for density in self.densities]
        log_weight = log_or_inf(self.mixture)
        return np.asarray(np.logaddexp.reduce(np.array(found).T + log_weight, axis=1))

    def draw(self, rows: Floats, n_draws: int, random_state: np.random.RandomState) -> Floats:
        """Targets for each row, shape (n_rows, n_draws)."""
        prob = np.broadcast_to(self.mixture, (len(rows), len(self.mixture)))
        parts: list[Part] = []
        if self.gate is not None:
            parts, log_weight = self._parts(rows, self.gate)
            prob = np.exp(log_weight)
        source = draw_columns(prob, n_draws, random_state)
        found = np.empty(source.shape)
        for m in np.unique(source).tolist():
            row, place = np.nonzero(source == m)
            if m < len(self.densities):
                drawn = self.densities[m].draw(rows[row], random_state)
            else:
                drawn = _draw_normals(parts[m], row, random_state)
            if parts:
                drawn = parts[m].stretched(drawn, row, random_state)
            found[row, place] = drawn
        return found

    def _by_densities(self, rows: Floats) -> list[Predictive]:
        """Distributions by the densities alone."""
        with without_warnings(len(self.densities) + len(self.regressors) > 1):
            return [density.predictive(rows) for density in self.densities]

    def _parts(self, rows: Floats, gate: tuple[Spread, Floats]) -> tuple[list[Part], Floats]:
        """Distributions by all members, and their log weights of shape (n_rows, n_members)."""
        found = self._by_densities(rows)
        spread, coef = gate
        features = spread.features(rows, Predictive.mixture(found, self.mixture).variance())
        log_copies = log_weights(features, coef)
        log_weight = np.logaddexp.reduce(log_copies, axis=2)
        shares = np.exp(log_copies - log_weight[:, :, np.newaxis]).transpose(1, 0, 2)
        of_atoms = [atom_probabilities(one, self.target) for one in found]
        parts = [
            Part.of_density(one, atoms, self.target, share)
            for one, atoms, share in zip(found, of_atoms, shares)
        ]
        atoms = np.tensordot(self.mixture, of_atoms, axes=1)
        for (regressor, law), share in zip(self.regressors, shares[len(found) :]):
            mean, sd = regressor.mean_and_sd(rows)
            sds = law.sds(sd, features)
            parts.append(Part.of_regressor(mean, sds, atoms, self.target, share))
        return parts, log_weight


def _draw_normals(part: Part, row: Ints, random_state: np.random.RandomState) -> Floats:
    """Draws from the distributions of some rows by a regressor, before they are stretched."""
    normals, n_atoms = part.rest.form, part.atoms.shape[1]
    drawn = normals.mean[row] + normals.sd[row] * random_state.standard_normal(len(row))
    if part.target.number is not None:
        drawn = np.clip(drawn, *part.target.number.range_of_draws)
    if n_atoms:
        (atom,) = draw_columns(np.hstack([part.atoms, normals.prob])[row], 1, random_state).T
        drawn = np.where(atom < n_atoms, np.append(part.target.atoms, np.nan)[atom], drawn)
    return np.asarray(drawn)


def learn_pool(
    lesson: Lesson,
    members: Sequence[Member],
    weight: Floats,
    splits: Any,
    n_jobs: int | None,
    random_state: np.random.RandomState,
    verbose: int,
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
    verbose : int
        Whether to show progress.
    """
    folds = []
    if len(members) > 1:
        group = lesson.target.atom_of(lesson.values) + 1
        folds = hold_out_folds(lesson.rows, weight, group, splits, lesson.rates, random_state)
    seeds = random_state.randint(2**31, size=len(members)).tolist()
    with progress(len(members) * (1 + len(folds)), "fits", verbose) as advance:
        run = followed(n_jobs, advance)
        if not folds:
            return _learn_equals(lesson, members, weight, run)

        def learn(some: list[int]) -> list[Any]:
            return run(delayed(lesson.learn)(members[m], weight, seeds[m]) for m in some)

        # What densities choose, such as a number of components, they choose once, by all rows.
        learned = learn([m for m, member in enumerate(members) if member.is_density])
        chosen = [*learned, *[None] * (len(members) - len(learned))]
        said = run(
            delayed(without.ask)(member, chosen[m], fold, seeds[m])
            for without, fold in zip([lesson.without(fold) for fold in folds], folds)
            for m, member in enumerate(members)
        )
        found = Answers.gather(lesson, members, folds, said).weigh(lesson)
        used = found.report.used
        regressors = learn([m for m in used if not members[m].is_density])
    densities = [learned[m] for m in used if members[m].is_density]
    pool = ValuePool(
        lesson.target, densities, found.mixture, list(zip(regressors, found.laws)), found.gate
    )
    return pool, found.report


def _learn_equals(
    lesson: Lesson, members: Sequence[Member], weight: Floats, run: Callable[..., list[Any]]
) -> tuple[ValuePool, Report]:
    """A pool of densities that nothing weighs: there is a single one, or a single row."""
    is_density = np.array([member.is_density for member in members])
    densities = run(
        delayed(lesson.learn)(member, weight, 0) for member in members if member.is_density
    )
    share = np.full(len(densities), 1.0 / len(densities))
    pool = ValuePool(lesson.target, densities, share, [])
    weights = np.where(is_density, share[0], 0.0)
    used = np.flatnonzero(is_density).tolist()
    return pool, Report(used, weights, np.full(len(members), np.nan), np.nan)
