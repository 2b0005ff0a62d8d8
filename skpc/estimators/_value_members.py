"""What predicts a number from encoded rows: densities of rows and target, and regressors."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from skpc._arrays import Floats, Ints, log_or_inf
from skpc.domain import Domain, merge_rows
from skpc.estimators._masked_copies import few_threads, fit_on_copies, told_categories
from skpc.variables import Normals, Number, Points, Predictive, ScaleMixture

#: Copies of the distribution by a density, and of normal ones around a prediction: how many times
#: as wide they are. A pool of distributions is too wide, and never should one go beyond the range
#: of the target; residuals are mostly small and a few times large.
DENSITY_FACTORS = np.array([0.35, 0.5, 0.7, 0.85, 1.0])
NORMAL_FACTORS = np.array([0.25, 0.5, 1.0, 2.0, 4.0])


class Target(NamedTuple):
    """What kind of number a target is.

    Attributes
    ----------
    domain : Domain
        What the columns are, the target being the last.
    features : Domain
        What the other columns are.
    """

    domain: Domain
    features: Domain

    @property
    def number(self) -> Number | None:
        """What the target is; None with plain margins."""
        return self.domain.number_of(self.domain.n_features - 1)

    @property
    def atoms(self) -> Floats:
        """The values that have a probability of their own."""
        return np.empty(0) if self.number is None else self.number.atoms

    @property
    def cell(self) -> float:
        """The width over which the probability of an atom is spread; 1 where it is a point."""
        return 1.0 if self.number is None else self.number.step or 1.0

    def atom_of(self, values: Floats) -> Ints:
        """The number of the atom that each value is, -1 for the others."""
        if self.number is None or not len(self.atoms):
            return np.full(len(values), -1)
        distance = np.abs(values[:, np.newaxis] - self.atoms)
        near = distance.min(axis=1) <= self.number.reach
        return np.where(near, distance.argmin(axis=1), -1)


class TargetDensity(NamedTuple):
    """A density of encoded rows and the target.

    Attributes
    ----------
    model : fitted density estimator
        Its last column is the target.
    """

    model: Any

    @classmethod
    def learn(
        cls, density: Any, rows: Floats, target: Target, values: Floats, weight: Floats
    ) -> TargetDensity:
        """Fit a clone of a density to rows and targets of positive weight.

        A TargetDensity has learned from all rows, and shows what to choose.
        """
        some = weight > 0.0
        together = np.column_stack([rows, values])[some]
        merged = merge_rows(together, weight[some])
        if isinstance(density, TargetDensity):
            return cls(density.model._fit_again(target.domain, *merged))
        return cls(clone(density).fit_rows(target.domain, *merged))

    def predictive(self, rows: Floats) -> Predictive:
        """Distribution of the target of each row."""
        asked = _without_target(rows)
        column = asked.shape[1] - 1
        # Rows are rarely too far away, and asking first would double the work.
        try:
            (found,) = self.model._density.posteriors(asked, [column])
        except ValueError:
            (found,) = self.model._density.posteriors(self._near(asked), [column])
        return found

    def log_density(self, rows: Floats) -> Floats:
        """Log density (nats) of each row, whatever its target."""
        return np.asarray(self.model._density.log_density(_without_target(rows)))

    def draw(self, rows: Floats, random_state: np.random.RandomState) -> Floats:
        """A target for each row."""
        asked = self._near(_without_target(rows))
        return np.asarray(self.model._density.draw_missing(asked, random_state)[:, -1])

    def _near(self, asked: Floats) -> Floats:
        """Rows too far away for their density to be positive say nothing about their targets."""
        far = np.isneginf(self.model._density.log_density(asked))
        return np.where(far[:, np.newaxis], np.nan, asked)


def _without_target(rows: Floats) -> Floats:
    return np.column_stack([rows, np.full(len(rows), np.nan)])


def atom_probabilities(predictive: Predictive, target: Target) -> Floats:
    """Probability of each atom of the target by a density, shape (n_rows, n_atoms)."""
    (term,), n_rows = predictive.terms, len(predictive.known)
    found = np.empty((n_rows, len(target.atoms)))
    for place, atom in enumerate(target.atoms.tolist()):
        found[:, place] = np.exp(term.log_density(np.full(n_rows, atom))) * target.cell
    # The sum may exceed one by rounding.
    return found / np.maximum(found.sum(axis=1, keepdims=True), 1.0)


class Part(NamedTuple):
    """The distribution of the target of each row by a member: atoms, and stretched copies.

    Attributes
    ----------
    target : Target
    atoms : ndarray of shape (n_rows, n_atoms)
        Probabilities of the atoms.
    rest : ScaleMixture
        Copies of the distribution of the other values, with the probability that these have.
    """

    target: Target
    atoms: Floats
    rest: ScaleMixture

    @classmethod
    def of_density(
        cls, predictive: Predictive, atoms: Floats, target: Target, shares: Floats
    ) -> Part:
        """Copies of the distribution by a density, with shares of ``DENSITY_FACTORS``.

        The shares have shape (n_rows, n_factors).
        """
        term: Any = predictive.terms[0]
        return cls(target, atoms, _stretched(term.without_atoms(), DENSITY_FACTORS, shares))

    @classmethod
    def of_regressor(
        cls, mean: Floats, sd: Floats, atoms: Floats, target: Target, shares: Floats
    ) -> Part:
        """Normal distributions around the means of rows, with shares of ``NORMAL_FACTORS``.

        The shares have shape (n_rows, n_factors).
        """
        rest = np.maximum(1.0 - atoms.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        normals = Normals(mean[:, np.newaxis], sd[:, np.newaxis], rest)
        return cls(target, atoms, _stretched(normals, NORMAL_FACTORS, shares))

    def predictive(self) -> Predictive:
        """The same as terms that can be mixed with those of other members."""
        points = [Points(self.target.atoms, self.atoms)] if len(self.target.atoms) else []
        known = np.full(len(self.atoms), np.nan)
        return Predictive([*points, self.rest], known, number=self.target.number)

    def log_densities(self, values: Floats) -> Floats:
        """Log density (nats) of the copies at a value for each row, shape (n_rows, n_factors)."""
        number, atom = self.target.number, self.target.atom_of(values)
        if number is not None and number.step > 0.0:
            found = self.rest.log_masses(values, number.step)
        else:
            found = self.rest.log_densities(values)
        at_atom = np.flatnonzero(atom >= 0)
        of_atom = log_or_inf(self.atoms[at_atom, atom[at_atom]]) - np.log(self.target.cell)
        found[at_atom] = of_atom[:, np.newaxis]
        return found

    def log_density(self, values: Floats) -> Floats:
        """Log density (nats) at a value for each row."""
        copies = self.log_densities(values) + log_or_inf(self.rest.prob)
        return np.asarray(np.logaddexp.reduce(copies, axis=1))

    def stretched(self, drawn: Floats, row: Ints, random_state: np.random.RandomState) -> Floats:
        """Draws of the distributions of some rows, moved as in a copy; atoms stay."""
        (copy,) = draw_columns(self.rest.prob[row], 1, random_state).T
        middle, number = self.rest.middle[row], self.target.number
        moved = middle + self.rest.factors[copy] * (drawn - middle)
        if number is not None:
            moved = number.snapped(np.clip(moved, *number.range_of_draws))
        return np.where(self.target.atom_of(drawn) < 0, moved, drawn)


def _stretched(form: Any, factors: Floats, shares: Floats) -> ScaleMixture:
    used = shares.any(axis=0)
    return ScaleMixture.from_form(form, factors[used], shares[:, used])


def draw_columns(prob: Floats, n_draws: int, random_state: np.random.RandomState) -> Ints:
    """Numbers of columns drawn by the probabilities of each row, shape (n_rows, n_draws)."""
    end = np.cumsum(prob, axis=1)
    u = random_state.random_sample((len(prob), n_draws)) * end[:, -1:]
    return np.asarray((u[:, :, np.newaxis] >= end[:, np.newaxis, :-1]).sum(axis=2))


class TargetRegressor(NamedTuple):
    """Regressors that predict the target where it is not an atom; their predictions are averaged.

    Attributes
    ----------
    models : list of fitted regressors
        Models from encoded rows to the target less ``centre``, over ``scale``.
    centre, scale : float
    has_std : bool
        Whether they also predict the standard deviation of their prediction.
    """

    models: list[Any]
    centre: float
    scale: float
    has_std: bool

    @classmethod
    def learn(
        cls,
        model: Any,
        rows: Floats,
        target: Target,
        values: Floats,
        weight: Floats,
        rates: Sequence[float],
        random_state: np.random.RandomState,
    ) -> TargetRegressor | None:
        """Fit a regressor to the rows of positive weight whose target is not an atom.

        A regressor that predicts its standard deviation over missing cells learns from the rows as
        they are, others learn from masked copies. None where no two targets differ.
        """
        some = (weight > 0.0) & (target.atom_of(values) < 0)
        rows, values, weight = rows[some], values[some], weight[some]
        if not len(values) or values.min() == values.max():
            return None
        share = weight / weight.sum()
        centre = float(share @ values)
        scale = float(np.sqrt(share @ (values - centre) ** 2))
        scaled = (values - centre) / scale
        if not isinstance(model, str) and "return_std" in signature(model.predict).parameters:
            model = told_categories(model, target.features)
            model.fit(rows, scaled, sample_weight=weight)
            return cls([model], centre, scale, not np.isnan(rows).any())
        lesson = target.features, rows, scaled, weight, rates, random_state
        return cls(fit_on_copies(model, *lesson), centre, scale, False)

    def mean_and_sd(self, rows: Floats) -> tuple[Floats, Floats]:
        """Prediction of each row, and how far it is uncertain by the account of the model."""
        sd = np.zeros(len(rows))
        if self.has_std:
            mean, sd = self.models[0].predict(rows, return_std=True)
        else:
            with few_threads(rows):
                mean = np.mean([model.predict(rows) for model in self.models], axis=0)
        return self.centre + self.scale * np.ravel(mean), self.scale * np.ravel(sd)
