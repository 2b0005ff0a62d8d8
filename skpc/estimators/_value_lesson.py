"""What the members of a pool of predictions learn from, and how they are weighed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpc._arrays import Floats
from skpc.domain import Domain
from skpc.estimators._folds import HeldOut, share_seen
from skpc.estimators._linear_pool import Standardised, fit_pool, log_softmax
from skpc.estimators._residuals import ResidualLaw
from skpc.estimators._value_members import (
    Target,
    TargetDensity,
    TargetRegressor,
    atom_probabilities,
    beside_atoms,
    log_density_beside_atoms,
    log_density_of,
)
from skpc.learning import mixture_weights

#: A member of less weight than this is left out.
_SMALLEST = 1e-3
#: Variances below this part of that of the target count as this.
_SMALLEST_VARIANCE = 1e-8


class Member(NamedTuple):
    """A member of a pool before it is learned.

    Attributes
    ----------
    name : str
    model : density estimator, regressor, or "regressor" for boosting
    is_density : bool
    """

    name: str
    model: Any
    is_density: bool


class Lesson(NamedTuple):
    """What members learn from.

    Attributes
    ----------
    domain : Domain
        What the columns are, the target apart.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows.
    target : Target
    values : ndarray of shape (n_rows,)
        The targets.
    rates : sequence of float
        Proportions of cells that are removed from copies of rows.
    """

    domain: Domain
    rows: Floats
    target: Target
    values: Floats
    rates: Sequence[float]

    def learn(self, member: Member, weight: Floats, seed: int) -> Any:
        """Learn a member from the rows of positive weight; None where a regressor cannot."""
        if member.is_density:
            return TargetDensity.learn(member.model, self.rows, self.target, self.values, weight)
        lesson = self.domain, self.rows, self.target, self.values, weight, self.rates
        return TargetRegressor.learn(member.model, *lesson, np.random.RandomState(seed))

    def ask(self, member: Member, fold: HeldOut, seed: int) -> tuple[Floats, ...]:
        """What a member that has not learned the rows of a fold says of their targets.

        Returns
        -------
        mean, variance : ndarray of shape (n_asked,)
        log_density : ndarray of shape (n_asked,)
            NaN from a regressor, whose law of residuals is not known yet.
        atoms : ndarray of shape (n_asked, n_atoms)
            Their probabilities; of a regressor none.
        """
        learned = self.learn(member, fold.kept, seed)
        nothing = np.full(len(fold.rows), np.nan)
        if learned is None:
            return nothing, nothing, nothing, np.empty((len(nothing), 0))
        if isinstance(learned, TargetRegressor):
            mean, sd = learned.mean_and_sd(fold.asked)
            return mean, sd**2, nothing, np.empty((len(nothing), 0))
        with without_warnings():
            found = learned.predictive(fold.asked)
        log_density = log_density_of(found, self.values[fold.rows])
        return found.mean(), found.variance(), log_density, atom_probabilities(found, self.target)


class Spread(NamedTuple):
    """What the weights of members and the spread of residuals depend on, for each row.

    The share of its cells that are seen, and the log variance of its target under the mixture of
    the densities.

    Attributes
    ----------
    domain : Domain
    least : float
        Smallest variance.
    standardised : Standardised
    """

    domain: Domain
    least: float
    standardised: Standardised

    @classmethod
    def fit(cls, lesson: Lesson, rows: Floats, variance: Floats, weight: Floats) -> Spread:
        """Learn it from held-out rows and the variances of their targets."""
        least = max(_SMALLEST_VARIANCE * float(lesson.values.var()), np.finfo(np.float64).tiny)
        raw = _share_and_variance(lesson.domain, rows, variance, least)
        return cls(lesson.domain, least, Standardised.fit(raw, weight))

    def features(self, rows: Floats, variance: Floats) -> Floats:
        """A constant and both features, shape (n_rows, 3)."""
        return self.standardised.of(
            _share_and_variance(self.domain, rows, variance, self.least)
        )


def _share_and_variance(domain: Domain, rows: Floats, variance: Floats, least: float) -> Floats:
    return np.column_stack([share_seen(rows, domain), np.log(np.maximum(variance, least))])


class Report(NamedTuple):
    """What was found on held-out rows.

    Attributes
    ----------
    used : list of int
        The members that are learned from all rows.
    weights : ndarray of shape (n_members,)
        Mean weights of the members.
    member_log_densities : ndarray of shape (n_members,)
        Mean log densities of the targets under each member, in nats; NaN of one that could not be
        learned.
    log_density : float
        That of the pool.
    """

    used: list[int]
    weights: Floats
    member_log_densities: Floats
    log_density: float


class Weighing(NamedTuple):
    """How the members of a pool are weighed.

    Attributes
    ----------
    mixture : ndarray of shape (n_used_densities,)
        Weights of the densities among themselves.
    laws : list of ResidualLaw
        Of the regressors.
    spread : Spread
        What the weights of all members depend on.
    coef : ndarray of shape (3, n_used)
        How they do.
    report : Report
    """

    mixture: Floats
    laws: list[ResidualLaw]
    spread: Spread
    coef: Floats
    report: Report


class Answers(NamedTuple):
    """What all members have said of the targets of all rows that were held out."""

    mean: Floats  # (n_asked, n_members)
    variance: Floats  # (n_asked, n_members)
    log_density: Floats  # (n_asked, n_members)
    atoms: Floats  # (n_densities, n_asked, n_atoms)
    values: Floats
    asked: Floats
    weight: Floats

    @classmethod
    def gather(
        cls, lesson: Lesson, members: Sequence[Member], folds: Sequence[HeldOut], said: Any
    ) -> Answers:
        """Put together the answers to all folds, those of one fold after those of another."""
        n_members = len(members)
        n_densities = sum(member.is_density for member in members)
        by_fold = [said[k * n_members : (k + 1) * n_members] for k in range(len(folds))]
        mean, variance, log_density = (
            np.concatenate([np.column_stack([one[place] for one in fold]) for fold in by_fold])
            for place in range(3)
        )
        atoms = [np.array([one[3] for one in fold[:n_densities]]) for fold in by_fold]
        return cls(
            mean,
            variance,
            log_density,
            np.concatenate(atoms, axis=1),
            lesson.values[np.concatenate([fold.rows for fold in folds])],
            np.concatenate([fold.asked for fold in folds]),
            np.concatenate([fold.weight for fold in folds]),
        )

    def weigh(self, lesson: Lesson) -> Weighing:
        """Fit the laws of residuals and the weights of the members."""
        n_densities, n_members = len(self.atoms), self.mean.shape[1]
        mixture = mixture_weights(self.log_density[:, :n_densities], self.weight)
        variance = self._variance(mixture)
        spread = Spread.fit(lesson, self.asked, variance, self.weight)
        features = spread.features(self.asked, variance)
        laws, mean, log_density = self._with_laws(lesson.target, mixture, features)
        there = [*range(n_densities), *laws]
        coef = np.zeros((features.shape[1], n_members))
        coef[:, there] = fit_pool(
            log_density[:, there], mean[:, there], self.values, features, self.weight
        )
        log_weight = np.full(mean.shape, -np.inf)
        log_weight[:, there] = log_softmax(features @ coef[:, there])
        share = self.weight / self.weight.sum()
        weights = share @ np.exp(log_weight)
        log_pool = np.logaddexp.reduce(log_density[:, there] + log_weight[:, there], axis=1)
        counts = weights >= _SMALLEST
        counts[:n_densities] |= mixture > 0.0
        used = np.flatnonzero(counts).tolist()
        return Weighing(
            mixture[counts[:n_densities]],
            [law for m, law in laws.items() if counts[m]],
            spread,
            coef[:, counts],
            Report(
                used,
                np.where(counts, weights, 0.0),
                share @ log_density,
                float(share @ log_pool),
            ),
        )

    def _variance(self, mixture: Floats) -> Floats:
        """Variance of each target under the mixture of the densities."""
        mean, variance = self.mean[:, : len(mixture)], self.variance[:, : len(mixture)]
        centre = (mean @ mixture)[:, np.newaxis]
        return np.asarray((variance + (mean - centre) ** 2) @ mixture)

    def _with_laws(
        self, target: Target, mixture: Floats, features: Floats
    ) -> tuple[dict[int, ResidualLaw], Floats, Floats]:
        """Laws of the regressors by their number; means and log densities of all members."""
        laws: dict[int, ResidualLaw] = {}
        mean, log_density = self.mean.copy(), self.log_density.copy()
        atoms = np.tensordot(mixture, self.atoms, axes=1)
        rest = target.atom_of(self.values) < 0
        for m in range(len(mixture), mean.shape[1]):
            if np.isnan(mean[:, m]).any() or not rest.any():
                continue
            sd, gap = np.sqrt(self.variance[:, m]), self.values - mean[:, m]
            law = ResidualLaw.fit(gap[rest], sd[rest], features[rest], self.weight[rest])
            found = beside_atoms(mean[:, m], law.sds(sd, features), law.share, atoms, target)
            mean[:, m] = found.mean()
            log_density[:, m] = log_density_beside_atoms(found, target, self.values)
            laws[m] = law
        return laws, mean, log_density


@contextmanager
def without_warnings(quiet: bool = True) -> Iterator[None]:
    """Say nothing of estimates from few trees: a pool has learned how far to trust a member."""
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore", ConvergenceWarning)
        yield
