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
        Which of the two it is.
    class_count : ndarray of shape (n_classes,)
        Total weight of the rows of each class.
    """

    densities: list[Any]
    joint: bool
    class_count: Floats

    def log_density(self, events: Events) -> Floats:
        """Log density of encoded rows given each class, shape (n_rows, n_classes).

        That of a class of its own is mixed with the density of all training rows, which weighs as
        one row.
        """
        if self.joint:
            return self._log_density_of_one(events)
        log_density_of_classes = [
            d.row_density.log_density(events) if d else -np.inf for d in self.densities
        ]
        log_density = np.stack(np.broadcast_arrays(*log_density_of_classes), axis=1)
        # That of a class without rows does not matter.
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
        # A part of the rows of a class comes from all classes, as in its density.
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
        return self.class_count / self.class_count.sum()

    def _weight_of_all(self) -> Floats:
        """Weight of the density of all classes in that of each class."""
        return 1.0 / (self.class_count + 1.0)

    def _log_density_of_one(self, events: Events) -> Floats:
        density = self.densities[0].row_density
        events = events.with_cells(labelled(events.rows))
        log_density = density.log_density(events)
        # One question about the class instead of one for each class; a row that is too far away
        # for its density to be positive has no answer.
        near = events.only(~np.isneginf(log_density)[:, np.newaxis])
        (label,) = density.posteriors(near, [density.domain.n_features - 1])
        return log_density[:, np.newaxis] + log_or_inf(label.probabilities) - self.log_prior

    def _class_alone(self) -> Floats:
        """One row for each class, in which only the class is known."""
        n_classes = len(self.class_count)
        unknown = np.full((n_classes, self.densities[0].n_features_in_ - 1), np.nan)
        return labelled(unknown, np.arange(n_classes))


class MaskingClassifier(NamedTuple):
    """A masking ensemble of classifiers, which know numbers of classes.

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
        # Where there is no ensemble, the prior stays, and is no evidence.
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
    # One row of doubt, as densities have: leaves of trees may know zeros.
    probability = (total * probability + prior) / (total + 1.0)
    log_odds = log_or_inf(probability) - np.log(divisors(prior))
    return bounded_evidence(log_odds, class_count)


def bounded_evidence(log_density: Floats, class_count: Floats) -> Floats:
    """Bounded differences of log densities; -inf for a class without rows.

    A row that is impossible under all classes says nothing about its class.
    """
    best = log_density.max(axis=1, keepdims=True)
    # To a single member no class is further below the most probable one than this, in nats.
    most_evidence = 300.0
    with np.errstate(invalid="ignore"):
        gap = np.maximum(log_density - best, -most_evidence)
    return np.where(class_count > 0.0, np.where(np.isneginf(best), 0.0, gap), -np.inf)


#: What members of a pool are once they are learned.
ClassMember = ClassDensities | MaskingClassifier | ForestClassifier


class ClassData(NamedTuple):
    """Rows and their classes, from which the members of a pool learn.

    Attributes
    ----------
    domain : Domain
    events : Events
        Encoded rows.
    rows : ndarray of shape (n_rows, n_features)
        The same, with draws where cells are known as ranges and sets; these only tell where
        something is known.
    code : ndarray of shape (n_rows,), int
        Numbers of their classes.
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
        # Axes follow only the rows that the fold leaves to learn from.
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
        # Shape (n_rows, n_classes): a row weighs in the column of its class alone.
        class_weight = weight[:, np.newaxis] * (code[:, np.newaxis] == np.arange(len(self.classes)))
        forest = learn_generative_forest(self.domain, rows, class_weight, options, random_state)
        return ForestClassifier(forest, class_weight.sum(axis=0))

    def _fit_joint(self, model: Any, events: Events, code: Ints, weight: Floats) -> list[Any]:
        """Learn a density of rows and classes."""
        whole = self.domain.with_category(len(self.classes))
        labelled_events = events.with_cells(labelled(events.rows, code))
        return [fit_density(model, whole, labelled_events, weight)]

    def _fit_each_class(self, model: Any, events: Events, code: Ints, weight: Floats) -> list[Any]:
        """Learn a density of the rows of each class; None of a class without rows."""
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
        """Evidence for the classes, and the log density of the rows with their own classes.

        The latter is -inf from a classifier. Shapes (n_test_rows, n_classes) and (n_test_rows,).
        """
        if not isinstance(fitted, ClassDensities):
            return fitted.evidence(fold.test_rows), np.full(len(fold.test_rows), -np.inf)
        # Test rows lack some cells that their events have.
        events = self.events.take(fold.test_index).only(~np.isnan(fold.test_rows))
        with without_warnings():
            log_density = fitted.log_density(events)
        code = self.code[fold.test_index]
        labelled = picked(log_density + self.log_prior, code)
        return bounded_evidence(log_density, fitted.class_count), labelled

    def weigh(self, mixture: Floats, out_of_fold: OutOfFold | None) -> ClassPool:
        """A log pool of the evidence, and a mixture of the densities."""
        n_members = len(mixture)
        log_loss = np.nan
        pool = LogPool.equal(n_members, len(self.classes))
        losses = np.full(n_members, np.nan)
        if out_of_fold is not None:
            (evidence, log_density) = out_of_fold.predictions
            weight = out_of_fold.test_weight
            observed = observed_fraction(out_of_fold.test_rows, self.domain)
            truth = observed, self.code[out_of_fold.test_index], weight, self.log_prior
            pool = LogPool.fit(evidence, *truth)
            # A member's own loss is that of a pool which has no other one.
            alone = LogPool.equal(1, len(self.classes))
            losses = np.array([alone.log_loss(evidence[:, [m]], *truth) for m in range(n_members)])
            log_loss = pool.log_loss(evidence, *truth)
            # The mixture is of the densities that count for the classes, if any.
            counted = mixture * (pool.weights.max(axis=0) > 0.0)
            mixture = reweighed(counted if counted.any() else mixture, log_density, weight)
        used = np.flatnonzero((pool.weights.max(axis=0) > 0.0) | (mixture > 0.0)).tolist()
        return ClassPool(self.domain, pool, mixture, losses, log_loss, used)


class ClassPool(NamedTuple):
    """Learned members and their weights.

    Attributes
    ----------
    domain : Domain
    pool : LogPool
        Weights in the probabilities of the classes.
    mixture : ndarray of shape (n_members,)
        Weights in the density of the rows.
    member_losses : ndarray of shape (n_members,)
        Log losses out of fold of the members; NaN without folds.
    log_loss : float
        That of the pool.
    used : list of int
        Members that weigh something.
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

        To members that are no densities, cells known as ranges and sets are missing.
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
        # Estimates of the probability of nothing are close to one.
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
    """The rows of a class; columns without a value there show those of all rows, as one row."""
    class_events = events.take(np.flatnonzero(is_class))
    class_weight = weight[is_class]
    empty = ~class_events.are_stated().any(axis=0)
    if not empty.any():
        return class_events, class_weight
    shown_rows = np.where(empty, events.rows, np.nan)
    shown = ~np.isnan(shown_rows).all(axis=1)
    as_one = weight[shown] / weight[shown].sum()
    cells = np.vstack([class_events.rows, shown_rows[shown]])
    return class_events.with_cells(cells), np.append(class_weight, as_one)
