"""What the members of a pool of predictions learn from, and how they are weighed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from skpc._arrays import Floats, Ints
from skpc._fitting import noted, without_warnings
from skpc.domain import Domain
from skpc.estimators._linear_pool import Standardised, fit_weights, log_weights
from skpc.estimators._masked_copies import NEEDED
from skpc.estimators._residuals import ResidualLaw
from skpc.estimators._value_members import (
    DENSITY_FACTORS,
    NORMAL_FACTORS,
    Part,
    Target,
    TargetDensity,
    TargetRegressor,
    atom_probabilities,
)
from skpc.learning import mixture_weights
from skpc.pooling.folds import HeldOut, share_seen

#: Rows whose predictive distributions are held at a time.
_ROWS = 1024
#: A member, or a copy of one, is left out if its weight is less than this.
_SMALLEST = 1e-3
#: Variances below this part of that of the target count as this.
_SMALLEST_VARIANCE = 1e-8
#: Which copies are members as they are: regressors, and densities.
_IS_OWN = np.array([NORMAL_FACTORS == 1.0, DENSITY_FACTORS == 1.0])


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
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows.
    target : Target
    values : ndarray of shape (n_rows,)
        The targets.
    rates : sequence of float
        Proportions of cells that are removed from copies of rows.
    """

    rows: Floats
    target: Target
    values: Floats
    rates: Sequence[float]

    def without(self, fold: HeldOut) -> Lesson:
        """The lesson in which axes follow only the rows that a fold leaves to learn from."""
        some = fold.kept > 0.0
        together = np.column_stack([self.rows, self.values])[some]
        domain = self.target.domain.with_axes_of(together, fold.kept[some])
        return self._replace(target=self.target._replace(domain=domain))

    def learn(self, member: Member, weight: Floats, seed: int) -> Any:
        """Learn a member from the rows of positive weight; None where a regressor cannot."""
        if member.is_density:
            return TargetDensity.learn(member.model, self.rows, self.target, self.values, weight)
        lesson = self.rows, self.target, self.values, weight, self.rates
        with noted(f"This came from the member {member.name!r}. {NEEDED}"):
            return TargetRegressor.learn(member.model, *lesson, np.random.RandomState(seed))

    def ask(self, member: Member, chosen: Any, fold: HeldOut, seed: int) -> tuple[Floats, ...]:
        """What a member that has not learned the rows of a fold says of their targets.

        ``chosen`` is a density that has learned all rows: it shows what to choose.

        Returns
        -------
        mean, variance : ndarray of shape (n_asked,)
            NaN where a regressor cannot be learned. Its variance is the one that it knows of.
        atoms : ndarray of shape (n_asked, n_atoms)
            Their probabilities by a density; NaN from a regressor.
        log_density : ndarray of shape (n_asked, n_factors)
            Log density of the targets under stretched copies of the distribution by a density; NaN
            from a regressor, whose residuals are not known yet.
        """
        model = member.model if chosen is None else chosen
        learned = self.learn(member._replace(model=model), fold.kept, seed)
        if isinstance(learned, TargetDensity):
            parts = gen_batches(len(fold.rows), _ROWS)
            found = [self._ask_density(learned, fold.asked[p], fold.rows[p]) for p in parts]
            return tuple(np.concatenate(answers) for answers in zip(*found))
        n_asked = len(fold.rows)
        mean = sd = np.full(n_asked, np.nan)
        if learned is not None:
            mean, sd = learned.mean_and_sd(fold.asked)
        no_atoms = np.full((n_asked, len(self.target.atoms)), np.nan)
        return mean, sd**2, no_atoms, np.full((n_asked, len(NORMAL_FACTORS)), np.nan)

    def _ask_density(
        self, density: TargetDensity, asked: Floats, rows: Ints
    ) -> tuple[Floats, Floats, Floats, Floats]:
        with without_warnings():
            found = density.predictive(asked)
        atoms, ones = atom_probabilities(found, self.target), np.ones((len(rows), 1))
        part = Part.of_density(found, atoms, self.target, ones * np.ones(len(DENSITY_FACTORS)))
        return found.mean(), found.variance(), atoms, part.log_densities(self.values[rows])


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
        raw = _share_and_variance(lesson.target.features, rows, variance, least)
        return cls(lesson.target.features, least, Standardised.fit(raw, weight))

    def features(self, rows: Floats, variance: Floats) -> Floats:
        """A constant and both features, shape (n_rows, 3)."""
        return self.standardised.of(_share_and_variance(self.domain, rows, variance, self.least))


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
        The laws of the residuals of the regressors.
    gate : (Spread, ndarray of shape (3, n_members, n_factors))
        What the weights of all members and their copies depend on, and how they do.
    report : Report
    """

    mixture: Floats
    laws: list[ResidualLaw]
    gate: tuple[Spread, Floats]
    report: Report


class Answers(NamedTuple):
    """What all members have said of the targets of all rows that were held out."""

    mean: Floats  # (n_asked, n_members)
    variance: Floats  # (n_asked, n_members)
    atoms: Floats  # (n_asked, n_members, n_atoms)
    log_density: Floats  # (n_asked, n_members, n_factors)
    is_density: NDArray[np.bool_]  # (n_members,)
    values: Floats
    asked: Floats
    weight: Floats

    @classmethod
    def gather(
        cls, lesson: Lesson, members: Sequence[Member], folds: Sequence[HeldOut], said: Any
    ) -> Answers:
        """Put together the answers to all folds, those of one fold after those of another."""
        n_members = len(members)
        by_fold = [said[k * n_members : (k + 1) * n_members] for k in range(len(folds))]
        mean, variance, atoms, log_density = (
            np.concatenate([np.stack([one[place] for one in fold], axis=1) for fold in by_fold])
            for place in range(4)
        )
        return cls(
            mean,
            variance,
            atoms,
            log_density,
            np.array([member.is_density for member in members]),
            lesson.values[np.concatenate([fold.rows for fold in folds])],
            np.concatenate([fold.asked for fold in folds]),
            np.concatenate([fold.weight for fold in folds]),
        )

    def weigh(self, lesson: Lesson) -> Weighing:
        """Fit the laws of residuals and the weights of the members."""
        own = self.log_density[:, self.is_density, -1]
        mixture = mixture_weights(own, self.weight)
        variance = self._variance(mixture)
        spread = Spread.fit(lesson, self.asked, variance, self.weight)
        features = spread.features(self.asked, variance)
        laws, mean, log_density = self._with_laws(lesson.target, mixture, features)
        there = self.is_density.copy()
        there[list(laws)] = True
        log_density, is_own = log_density[:, there], _IS_OWN[self.is_density[there].astype(int)]
        given = mean[:, there], self.values, features, self.weight
        coef = fit_weights(log_density, *given, is_own)
        share, log_weight = self.weight / self.weight.sum(), log_weights(features, coef)
        of_copies = np.tensordot(share, np.exp(log_weight), axes=1)
        coef[0, (of_copies < _SMALLEST) & ~is_own] = -np.inf
        weights, alone = np.zeros(len(there)), np.full(len(there), np.nan)
        weights[there] = of_copies.sum(axis=1)
        alone[there] = share @ log_density[:, is_own]
        pooled = float(share @ np.logaddexp.reduce(log_density + log_weight, axis=(1, 2)))
        counts = weights >= _SMALLEST
        weights[~counts] = 0.0
        counts[self.is_density] |= mixture > 0.0
        return Weighing(
            mixture[counts[self.is_density]],
            [law for m, law in laws.items() if counts[m]],
            (spread, coef[:, counts[there]]),
            Report(np.flatnonzero(counts).tolist(), weights, alone, pooled),
        )

    def _variance(self, mixture: Floats) -> Floats:
        """Variance of each target under the mixture of the densities."""
        mean, variance = self.mean[:, self.is_density], self.variance[:, self.is_density]
        centre = (mean @ mixture)[:, np.newaxis]
        return np.asarray((variance + (mean - centre) ** 2) @ mixture)

    def _with_laws(
        self, target: Target, mixture: Floats, features: Floats
    ) -> tuple[dict[int, ResidualLaw], Floats, Floats]:
        """Laws of the regressors by their number; means and log densities of all members."""
        laws: dict[int, ResidualLaw] = {}
        mean, log_density = self.mean.copy(), self.log_density.copy()
        atoms = np.tensordot(self.atoms[:, self.is_density], mixture, axes=(1, 0))
        rest = target.atom_of(self.values) < 0
        for m in np.flatnonzero(~self.is_density).tolist():
            if np.isnan(mean[:, m]).any() or not rest.any():
                continue
            sd, gap = np.sqrt(self.variance[:, m]), self.values - mean[:, m]
            seen = gap[rest], sd[rest], features[rest], self.weight[rest]
            laws[m] = ResidualLaw.fit(*seen, NORMAL_FACTORS)
            sds, ones = laws[m].sds(sd, features), np.ones(log_density[:, m].shape)
            part = Part.of_regressor(mean[:, m], sds, atoms, target, ones)
            mean[:, m] = atoms @ target.atoms + part.rest.form.means()
            log_density[:, m] = part.log_densities(self.values)
        return laws, mean, log_density
