"""Members that predict the classes of encoded rows: densities of classes, and other classifiers."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skpc._arrays import Floats, Ints, log_or_inf
from skpc._fitting import noted
from skpc.domain import Domain, merge_rows
from skpc.estimators._masked_copies import few_threads

#: To a single member no class is further below the most probable one than this, in nats.
_MOST_EVIDENCE = 300.0


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

    def __init__(self, densities: list[Any], joint: bool, class_count: Floats) -> None:
        self.densities, self.joint, self.class_count = densities, joint, class_count

    @classmethod
    def learn(
        cls,
        density: Any,
        joint: bool,
        domain: Domain,
        rows: Floats,
        code: Ints,
        weight: Floats,
        classes: NDArray[Any],
    ) -> ClassDensities:
        """Fit clones of a density.

        Parameters
        ----------
        density : density estimator or ClassDensities
            The latter has learned from all rows, and shows what to choose.
        joint : bool
            Whether to learn one density of rows and classes.
        domain : Domain
            What the columns are.
        rows : ndarray of shape (n_rows, n_features)
            Encoded rows.
        code : ndarray of shape (n_rows,), int
            Numbers of their classes.
        weight : ndarray of shape (n_rows,)
            Positive.
        classes : ndarray of shape (n_classes,)
            Names of the classes, for error messages.
        """
        count = np.bincount(code, weight, len(classes)).astype(np.float64)
        if joint:
            labelled = merge_rows(np.column_stack([rows, code]), weight)
            whole = domain.with_category(len(classes))
            return cls([_fit(density, 0, whole, labelled)], True, count)
        densities = []
        for c, (name, total) in enumerate(zip(classes.tolist(), count)):
            with noted(
                f"This came from the density of class {name!r}, which has rows of total "
                f"weight {total:g}."
            ):
                mine = _rows_of_class(rows, weight, code == c)
                densities.append(_fit(density, c, domain, merge_rows(*mine)) if total else None)
        return cls(densities, False, count)

    def log_density(self, rows: Floats) -> Floats:
        """Log density of encoded rows given each class, shape (n_rows, n_classes).

        That of a class of its own is mixed with the density of all training rows, which weighs as
        one row.
        """
        if self.joint:
            return self._log_density_of_one(rows)
        found = np.full((len(rows), len(self.densities)), -np.inf)
        for column, density in zip(found.T, self.densities):
            if density is not None:
                column[:] = density._density.log_density(rows)
        # That of a class without rows does not matter.
        weight = np.where(self.class_count > 0.0, self._weight_of_all(), 0.5)
        log_share = log_or_inf(self._shares())
        of_all = np.logaddexp.reduce(found + log_share, axis=1, keepdims=True)
        mixed = np.logaddexp(np.log1p(-weight) + found, np.log(weight) + of_all)
        return np.where(self.class_count > 0.0, mixed, -np.inf)

    def evidence(self, rows: Floats) -> Floats:
        """Log odds of the classes beyond the prior, shape (n_rows, n_classes); -inf if unseen."""
        return evidence_of(self.log_density(rows), self.class_count)

    @cached_property
    def log_prior(self) -> Floats:
        """Log probability of each class under the density of rows and classes."""
        return np.asarray(self.densities[0]._density.log_density(self._class_alone()))

    def draw(self, code: Ints, n_features: int, random_state: np.random.RandomState) -> Floats:
        """Draw an encoded row for each number of a class."""
        rows = np.empty((len(code), n_features))
        if self.joint:
            alone = self._class_alone()[code]
            if len(code):
                rows[:] = self.densities[0]._density.draw_missing(alone, random_state)[:, :-1]
            return rows
        shares = self._shares()
        other = random_state.choice(len(shares), len(code), p=shares)
        of_all = random_state.random_sample(len(code)) < self._weight_of_all()[code]
        source = np.where(of_all, other, code)
        for c in np.unique(source):
            mine = source == c
            rows[mine] = self.densities[c]._density.draw(int(mine.sum()), random_state)
        return rows

    def _shares(self) -> Floats:
        return self.class_count / self.class_count.sum()

    def _weight_of_all(self) -> Floats:
        """Weight of the density of all classes in that of each class."""
        return 1.0 / (self.class_count + 1.0)

    def _log_density_of_one(self, rows: Floats) -> Floats:
        density = self.densities[0]._density
        unlabelled = np.column_stack([rows, np.full(len(rows), np.nan)])
        log_density = density.log_density(unlabelled)
        # One question about the class instead of one for each class; a row that is too far away
        # for its density to be positive has no answer.
        near = ~np.isneginf(log_density)
        posterior = np.zeros((len(rows), len(self.class_count)))
        if near.any():
            (label,) = density.posteriors(unlabelled[near], [rows.shape[1]])
            posterior[near] = label.probabilities
        return log_density[:, np.newaxis] + log_or_inf(posterior) - self.log_prior

    def _class_alone(self) -> Floats:
        """One row for each class, in which only the class is known."""
        n_classes = len(self.class_count)
        unknown = np.full((n_classes, self.densities[0].n_features_in_ - 1), np.nan)
        return np.column_stack([unknown, np.arange(n_classes, dtype=np.float64)])


class CopiesClassifier:
    """Classifiers trained on masked copies of encoded rows; their probabilities are averaged.

    Parameters
    ----------
    models : list of fitted classifiers
        They know numbers of classes. Empty where all training rows are of one class.
    class_count : ndarray of shape (n_classes,)
        Total weight of the training rows of each class.
    """

    def __init__(self, models: list[Any], class_count: Floats) -> None:
        self.models, self.class_count = models, class_count

    def evidence(self, rows: Floats) -> Floats:
        """Log odds of the classes beyond those of the training rows; -inf for unseen classes."""
        prior = self.class_count / self.class_count.sum()
        probability = np.tile(prior, (len(rows), 1))
        if self.models and len(rows):
            with few_threads(rows):
                answers = [model.predict_proba(rows) for model in self.models]
            probability[:, self.models[0].classes_] = np.mean(answers, axis=0)
        # One row of doubt, as densities have: leaves of trees may know zeros.
        total = self.class_count.sum()
        probability = (total * probability + prior) / (total + 1.0)
        log_odds = log_or_inf(probability) - np.log(np.where(prior > 0.0, prior, 1.0))
        return evidence_of(log_odds, self.class_count)


def evidence_of(log_density: Floats, class_count: Floats) -> Floats:
    """Bounded differences of log densities; -inf for a class without rows.

    A row that is impossible under all classes says nothing about its class.
    """
    best = log_density.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        found = np.where(np.isneginf(best), 0.0, np.maximum(log_density - best, -_MOST_EVIDENCE))
    return np.where(class_count > 0.0, found, -np.inf)


def _fit(density: Any, place: int, domain: Domain, merged: tuple[Floats, Floats]) -> Any:
    """Fit a clone of a density, or once more the one that has learned from all rows."""
    if isinstance(density, ClassDensities):
        return density.densities[place]._fit_again(domain, *merged)
    return clone(density).fit_rows(domain, *merged)


def _rows_of_class(rows: Floats, weight: Floats, mine: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The rows of a class; columns without a value there show those of all rows, as one row."""
    empty = np.isnan(rows[mine]).all(axis=0)
    if not empty.any():
        return rows[mine], weight[mine]
    of_all = np.where(empty, rows, np.nan)
    shown = ~np.isnan(of_all).all(axis=1)
    as_one = weight[shown] / weight[shown].sum()
    return np.vstack([rows[mine], of_all[shown]]), np.append(weight[mine], as_one)
