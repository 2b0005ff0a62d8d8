"""Pools that predict classes: densities of encoded rows and classes, and other classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Bools, Floats, Ints, divisors, group_sums, log_or_inf, picked
from skpc._fitting import noted, without_warnings
from skpc.domain import Domain
from skpc.learning.forest import Forest
from skpc.learning.random_trees import ForestOptions, learn_generative_forest
from skpc.pooling.folds import Fold, observed_fraction
from skpc.pooling.masking import MaskingEnsemble
from skpc.pooling.pool import (
    NEEDED,
    Member,
    OutOfFold,
    draw_by_source,
    fit_density,
    labelled,
    reweighed,
)
from skpc.pooling.weights import LogPool
from skpc.queries import Events


@dataclass(eq=False)
class ClassDensities:
    """Densities of encoded rows given each class: one for each class, or one of rows and classes.

    Parameters
    ----------
    densities : list of fitted density estimators
        One for each class, None for a class without rows; with ``joint`` a single one, whose last
        column is the number of the class.
    joint : bool
        Whether there is a single density, of rows and classes.
    class_count : ndarray of shape (n_classes,)
        Total weight of the rows of each class.
    """

    densities: list[Any]
    joint: bool
    class_count: Floats

    def log_density(self, events: Events) -> Floats:
        """Log density of encoded rows given each class, shape (n_rows, n_classes).

        Where each class has a density, it is mixed with the density of all training rows, which has
        the weight of one row.
        """
        if self.joint:
            return self._log_density_by_joint(events)
        log_density_of_classes = [
            d.row_density.log_density(events) if d else -np.inf for d in self.densities
        ]
        log_density = np.stack(np.broadcast_arrays(*log_density_of_classes), axis=1)
        # A class without rows needs any weight between zero and one.
        weight = np.where(self.class_count > 0.0, self._weight_of_all(), 0.5)
        log_share = log_or_inf(self._shares())
        log_density_of_all = np.logaddexp.reduce(log_density + log_share, axis=1, keepdims=True)
        mixed = np.logaddexp(np.log1p(-weight) + log_density, np.log(weight) + log_density_of_all)
        return np.where(self.class_count > 0.0, mixed, -np.inf)

    def evidence(self, events: Events) -> Floats:
        """Log odds of the classes beyond the prior, shape (n_rows, n_classes); -inf if unseen."""
        return bounded_evidence(self.log_density(events), self.class_count)

    @cached_property
    def log_prior(self) -> Floats:
        """Log probability of each class under the density of rows and classes."""
        return self.densities[0].row_density.log_density(self._class_alone())

    def draw(self, code: Ints, n_features: int, random_state: np.random.RandomState) -> Floats:
        """Draw an encoded row for each number of a class."""
        if self.joint and len(code):
            alone = self._class_alone()[code]
            return self.densities[0].row_density.draw_missing(alone, random_state)[:, :-1]
        shares = self._shares()
        # The density of a class is mixed with that of all classes, and so are its draws.
        another_class = random_state.choice(len(shares), len(code), p=shares)
        from_all_classes = random_state.random_sample(len(code)) < self._weight_of_all()[code]
        return draw_by_source(
            np.where(from_all_classes, another_class, code),
            n_features,
            lambda c, is_source: self.densities[c].row_density.draw(
                int(is_source.sum()), random_state
            ),
        )

    def _shares(self) -> Floats:
        """Share of each class in the training rows."""
        return self.class_count / self.class_count.sum()

    def _weight_of_all(self) -> Floats:
        """Weight of the density of all classes in the mixture for each class."""
        return 1.0 / (self.class_count + 1.0)

    def _log_density_by_joint(self, events: Events) -> Floats:
        """Log density of rows given each class by the single density of rows and classes."""
        density = self.densities[0].row_density
        events = events.with_cells(labelled(events.rows))
        log_density = density.log_density(events)
        # By Bayes' rule, one question about the class replaces one for each class. Impossible rows
        # have no posterior, and are asked about without their cells.
        possible = events.only(~np.isneginf(log_density)[:, np.newaxis])
        (posterior,) = density.posteriors(possible, [density.domain.n_features - 1])
        return log_density[:, np.newaxis] + log_or_inf(posterior.probabilities) - self.log_prior

    def _class_alone(self) -> Floats:
        """One row for each class, in which only the class is known."""
        n_classes = len(self.class_count)
        unknown = np.full((n_classes, self.densities[0].n_features_in_ - 1), np.nan)
        return labelled(unknown, np.arange(n_classes))


class MaskingClassifier(NamedTuple):
    """A masking ensemble of classifiers that predict numbers of classes.

    Attributes
    ----------
    ensemble : MaskingEnsemble or None
        None where all training rows are of one class.
    class_count : ndarray of shape (n_classes,)
        Total weight of the training rows of each class.
    """

    ensemble: MaskingEnsemble | None
    class_count: Floats

    def evidence(self, rows: Floats) -> Floats:
        """Log odds of the classes beyond those of the training rows; -inf for unseen classes."""
        prior = self.class_count / self.class_count.sum()
        # Without an ensemble the probabilities are the prior, which is no evidence.
        probability = np.tile(prior, (len(rows), 1))
        if self.ensemble is not None and len(rows):
            classes = self.ensemble.models[0].classes_
            probability[:, classes] = self.ensemble.predict(rows, "predict_proba")
        return evidence_of(probability, self.class_count)


class ForestClassifier(NamedTuple):
    """A random forest that is a density of rows and classes."""

    forest: Forest
    class_count: Floats

    def evidence(self, rows: Floats) -> Floats:
        """Log odds of the classes beyond those of the training rows; -inf for unseen classes."""
        return evidence_of(self.forest.posterior(rows), self.class_count)


def evidence_of(probability: Floats, class_count: Floats) -> Floats:
    """Log odds beyond those of the training rows, from probabilities of the classes."""
    total = class_count.sum()
    prior = class_count / total
    # The prior is mixed in with the weight of one row, as in the densities of classes: leaves of
    # trees may have probabilities of zero.
    probability = (total * probability + prior) / (total + 1.0)
    log_odds = log_or_inf(probability) - np.log(divisors(prior))
    return bounded_evidence(log_odds, class_count)


def bounded_evidence(log_density: Floats, class_count: Floats) -> Floats:
    """Log densities less that of the most probable class, bounded; -inf for unseen classes.

    A row that is impossible under all classes says nothing about its class.
    """
    highest = log_density.max(axis=1, keepdims=True)
    # No member may put a class further below the most probable one than this, in nats.
    evidence_bound = 300.0
    with np.errstate(invalid="ignore"):
        evidence = np.maximum(log_density - highest, -evidence_bound)
    evidence = np.where(np.isneginf(highest), 0.0, evidence)
    return np.where(class_count > 0.0, evidence, -np.inf)


#: A learned member of a pool.
ClassMember = ClassDensities | MaskingClassifier | ForestClassifier


class ClassData(NamedTuple):
    """Rows and their classes, from which the members of a pool learn.

    Attributes
    ----------
    domain : Domain
    events : Events
        Encoded rows, whose cells may be known as ranges and sets.
    rows : ndarray of shape (n_rows, n_features)
        The same rows, with draws in place of ranges and sets.
    code : ndarray of shape (n_rows,), int
        The number of the class of each row.
    classes : ndarray of shape (n_classes,)
        Names of the classes.
    log_prior : ndarray of shape (n_classes,)
        Log shares of the classes.
    rates : list of float
        Proportions of cells that are removed from copies of rows.
    """

    domain: Domain
    events: Events
    rows: Floats
    code: Ints
    classes: np.ndarray
    log_prior: Floats
    rates: list[float]

    def without(self, fold: Fold) -> ClassData:
        """See :class:`~skpc.pooling.pool.TrainingData`."""
        # Bins may depend only on the rows that the fold leaves to learn from.
        return self._replace(domain=self.domain.with_axes_of(self.rows, fold.train_weight))

    def fit(self, member: Member, weight: Floats, seeds: Sequence[int]) -> ClassMember:
        """See :class:`~skpc.pooling.pool.TrainingData`."""
        is_present = weight > 0.0
        events = self.events.take(np.flatnonzero(is_present))
        code = self.code[is_present]
        weight = weight[is_present]
        count = group_sums(code, weight, len(self.classes))
        if member.is_density:
            learn = self._fit_joint if member.joint else self._fit_each_class
            return ClassDensities(learn(member.model, events, code, weight), member.joint, count)
        # Classifiers refuse to learn from a single class.
        if (count > 0.0).sum() == 1:
            return MaskingClassifier(None, count)
        if member.model == "forest":
            return self._fit_forest(events.rows, code, weight, np.random.RandomState(seeds[0]))
        training_data = self.domain, events.rows, code, weight, self.rates, seeds
        with noted(f"This came from the member {member.name!r}. {NEEDED}"):
            return MaskingClassifier(MaskingEnsemble.fit(member.model, *training_data), count)

    def _fit_forest(
        self, rows: Floats, code: Ints, weight: Floats, random_state: Any
    ) -> ForestClassifier:
        """Learn a random forest, which needs no masked copies."""
        options = ForestOptions(leaves="auto", min_samples_leaf="auto")
        # Shape (n_rows, n_classes): the weight of a row stands in the column of its class.
        class_weight = weight[:, np.newaxis] * (code[:, np.newaxis] == np.arange(len(self.classes)))
        forest = learn_generative_forest(self.domain, rows, class_weight, options, random_state)
        return ForestClassifier(forest, class_weight.sum(axis=0))

    def _fit_joint(self, model: Any, events: Events, code: Ints, weight: Floats) -> list[Any]:
        """Learn a density of rows and classes."""
        joint_domain = self.domain.with_category(len(self.classes))
        labelled_events = events.with_cells(labelled(events.rows, code))
        return [fit_density(model, joint_domain, labelled_events, weight)]

    def _fit_each_class(self, model: Any, events: Events, code: Ints, weight: Floats) -> list[Any]:
        """Learn a density of the rows of each class; None for a class without rows."""
        densities: list[Any] = []
        for c, name in enumerate(self.classes.tolist()):
            is_class = code == c
            total = weight[is_class].sum()
            note = f"the density of class {name!r}, which has rows of total weight {total:g}."
            with noted(f"This came from {note}"):
                events_and_weight = _events_of_class(events, weight, is_class)
                densities.append(
                    fit_density(model, self.domain, *events_and_weight) if total else None
                )
        return densities

    def predict(self, fitted: Any, fold: Fold) -> tuple[Floats, Floats]:
        """Evidence for the classes, and the joint log density of the test rows and their classes.

        Shapes (n_test_rows, n_classes) and (n_test_rows,). A classifier has the log density -inf.
        """
        if not isinstance(fitted, ClassDensities):
            return fitted.evidence(fold.test_rows), np.full(len(fold.test_rows), -np.inf)
        # Some cells have been removed from the test rows, but not from their events.
        events = self.events.take(fold.test_index).only(~np.isnan(fold.test_rows))
        with without_warnings():
            log_density = fitted.log_density(events)
        code = self.code[fold.test_index]
        log_joint = picked(log_density + self.log_prior, code)
        return bounded_evidence(log_density, fitted.class_count), log_joint

    def weigh(self, mixture: Floats, out_of_fold: OutOfFold | None) -> ClassPool:
        """A log pool of the evidence, and a mixture of the densities."""
        n_members = len(mixture)
        log_loss = np.nan
        pool = LogPool.equal(n_members, len(self.classes))
        losses = np.full(n_members, np.nan)
        if out_of_fold is not None:
            evidence, log_density = out_of_fold.predictions
            weight = out_of_fold.test_weight
            observed = observed_fraction(out_of_fold.test_rows, self.domain)
            test_data = observed, self.code[out_of_fold.test_index], weight, self.log_prior
            pool = LogPool.fit(evidence, *test_data)
            # The loss of a member is that of a pool of this member alone.
            single = LogPool.equal(1, len(self.classes))
            losses = np.array(
                [single.log_loss(evidence[:, [m]], *test_data) for m in range(n_members)]
            )
            log_loss = pool.log_loss(evidence, *test_data)
            # If any density has a weight in the log pool, only such densities are mixed.
            pooled = mixture * (pool.weights.max(axis=0) > 0.0)
            mixture = reweighed(pooled if pooled.any() else mixture, log_density, weight)
        used = np.flatnonzero((pool.weights.max(axis=0) > 0.0) | (mixture > 0.0)).tolist()
        return ClassPool(self.domain, pool, mixture, losses, log_loss, used)


class ClassPool(NamedTuple):
    """Learned members and their weights.

    Attributes
    ----------
    domain : Domain
    pool : LogPool
        Weights of the members in the probabilities of the classes.
    mixture : ndarray of shape (n_members,)
        Weights of the members in the density of the rows; zero for classifiers.
    member_losses : ndarray of shape (n_members,)
        Log losses of the out-of-fold predictions of each member; NaN without folds.
    log_loss : float
        Log loss of the out-of-fold predictions of the pool.
    used : list of int
        The members with a weight in the pool or the mixture.
    fitted : list of ClassMember or None
    """

    domain: Domain
    pool: LogPool
    mixture: Floats
    member_losses: Floats
    log_loss: float
    used: list[int]
    fitted: Sequence[Any] = ()

    def log_odds(self, events: Events) -> Floats:
        """Log odds of the classes beyond their priors, shape (n_rows, n_classes).

        Classifiers take cells known as ranges and sets as missing.
        """
        used = np.flatnonzero(self.pool.weights.any(axis=0))
        with without_warnings(len(self.fitted) > 1):
            evidence = [
                member.evidence(events if isinstance(member, ClassDensities) else events.rows)
                for member in (self.fitted[m] for m in used.tolist())
            ]
        pool = LogPool(self.pool.weights[:, used], self.pool.offsets)
        observed = observed_fraction(events, self.domain)
        return pool.log_odds(np.stack(evidence, axis=1), observed)

    def log_density(self, events: Events, log_prior: Floats) -> Floats:
        """Log density of encoded rows under the mixture of the densities, shape (n_rows,)."""
        used = np.flatnonzero(self.mixture).tolist()
        with without_warnings(len(self.fitted) > 1):
            log_density_of_members = [
                np.logaddexp.reduce(self.fitted[m].log_density(events) + log_prior, axis=1)
                for m in used
            ]
        log_density = np.array(log_density_of_members).T + np.log(self.mixture[used])
        # The density of an empty row is one, which the estimates of members only come near.
        empty = observed_fraction(events, self.domain) == 0.0
        return np.where(empty, 0.0, np.logaddexp.reduce(log_density, axis=1))

    def draw(self, code: Ints, n_features: int, random_state: np.random.RandomState) -> Floats:
        """Draw an encoded row from the mixture for each number of a class."""
        source = random_state.choice(len(self.mixture), len(code), p=self.mixture)
        return draw_by_source(
            source,
            n_features,
            lambda m, is_source: self.fitted[m].draw(code[is_source], n_features, random_state),
        )


def _events_of_class(events: Events, weight: Floats, is_class: Bools) -> tuple[Events, Floats]:
    """The rows of a class, and their weights.

    Where the class has no value of a column, the values of all rows stand in, with the total weight
    of one row.
    """
    class_events = events.take(np.flatnonzero(is_class))
    class_weight = weight[is_class]
    empty = ~class_events.are_stated().any(axis=0)
    if not empty.any():
        return class_events, class_weight
    donor_rows = np.where(empty, events.rows, np.nan)
    is_donor = ~np.isnan(donor_rows).all(axis=1)
    donor_weight = weight[is_donor] / weight[is_donor].sum()
    cells = np.vstack([class_events.rows, donor_rows[is_donor]])
    return class_events.with_cells(cells), np.append(class_weight, donor_weight)
