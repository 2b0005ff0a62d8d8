"""What predicts a number from encoded rows: densities of rows and target, and regressors."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from skpc._arrays import Floats
from skpc.domain import Domain, merge_rows
from skpc.estimators._masked_copies import few_threads, fit_on_copies
from skpc.variables import Number, OwnNormals, Points, Predictive, Stretched

#: Regressors are trained on so many draws of the cells to remove, and their predictions averaged.
_N_DRAWS = 3
#: Categories that boosting can tell apart.
_MAX_CATEGORIES = 255
#: Least probability of values that are no atoms.
_TINY = 1e-300
#: Copies of the distribution by a density, or of normal ones around a prediction, and how many
#: times as wide they are: linear pools are too wide, while residuals are mostly small and a few
#: times large. Distributions by densities never go beyond the range of the target.
DENSITY_FACTORS = np.array([0.35, 0.5, 0.7, 0.85, 1.0])
NORMAL_FACTORS = np.array([0.25, 0.5, 1.0, 2.0, 4.0])


class Target(NamedTuple):
    """What kind of number a target is.

    Attributes
    ----------
    domain : Domain
        What the columns are, the target being the last.
    """

    domain: Domain

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
        return self.number.step if self.number is not None and self.number.step > 0.0 else 1.0

    def atom_of(self, values: Floats) -> Any:
        """The number of the atom that each value is, -1 for the others."""
        if self.number is None or not len(self.atoms):
            return np.full(len(values), -1)
        distance = np.abs(values[:, np.newaxis] - self.atoms)
        near = distance.argmin(axis=1)
        return np.where(distance.min(axis=1) <= self.number.reach, near, -1)


class TargetDensity(NamedTuple):
    """A density of encoded rows and the target.

    Attributes
    ----------
    model : fitted density estimator
        Its last column is the target.
    target : Target
    """

    model: Any
    target: Target

    @classmethod
    def learn(
        cls, density: Any, rows: Floats, target: Target, values: Floats, weight: Floats
    ) -> TargetDensity:
        """Fit a clone of a density to rows and targets of positive weight."""
        some = weight > 0.0
        together = np.column_stack([rows, values])[some]
        fitted = clone(density).fit_rows(target.domain, *merge_rows(together, weight[some]))
        return cls(fitted, target)

    def predictive(self, rows: Floats) -> Predictive:
        """Distribution of the target of each row."""
        asked = self._asked(rows)
        column = asked.shape[1] - 1
        try:
            (found,) = self.model._density.posteriors(asked, [column])
        except ValueError:
            # A row too far away for its density to be positive tells nothing of its target.
            far = np.isneginf(self.model._density.log_density(asked))
            asked[far] = np.nan
            (found,) = self.model._density.posteriors(asked, [column])
        return found

    def log_density_of_rows(self, rows: Floats) -> Floats:
        """Log density (nats) of each row, whatever its target."""
        return np.asarray(self.model._density.log_density(self._asked(rows)))

    def draw(self, rows: Floats, random_state: np.random.RandomState) -> Floats:
        """A target for each row."""
        asked = self._asked(rows)
        asked[np.isneginf(self.model._density.log_density(asked))] = np.nan
        return np.asarray(self.model._density.draw_missing(asked, random_state)[:, -1])

    def _asked(self, rows: Floats) -> Floats:
        return np.column_stack([rows, np.full(len(rows), np.nan)])


def log_density_of(predictive: Predictive, values: Floats) -> Floats:
    """Log density (nats) of the distribution by a density at a value for each row."""
    (term,) = predictive.terms
    return term.log_density(values)


def atom_probabilities(predictive: Predictive, target: Target) -> Floats:
    """Probability of each atom of the target, shape (n_rows, n_atoms)."""
    n_rows = len(predictive.known)
    found = np.empty((n_rows, len(target.atoms)))
    for place, atom in enumerate(target.atoms.tolist()):
        found[:, place] = np.exp(log_density_of(predictive, np.full(n_rows, atom))) * target.cell
    # The sum may exceed one by rounding.
    return found / np.maximum(found.sum(axis=1, keepdims=True), 1.0)


def beside_atoms(form: Any, factors: Floats, shares: Floats, atoms: Floats, target: Target) -> Any:
    """Atoms of given probabilities, and stretched copies of the distribution of other values.

    Parameters
    ----------
    form : Form
        The distributions of the other values, with the probabilities that these have.
    factors, shares : ndarray of shape (n_factors,)
        How the copies are stretched, and their probabilities.
    atoms : ndarray of shape (n_rows, n_atoms)
        Probabilities of the atoms.
    target : Target
    """
    used = shares > 0.0
    rest = Stretched(form, factors[used], shares[used], np.ones((len(atoms), 1)))
    points = [Points(target.atoms, atoms)] if len(target.atoms) else []
    return Predictive([*points, rest], np.full(len(atoms), np.nan), number=target.number)


def around(mean: Floats, sd: Floats, shares: Any, atoms: Floats, target: Target) -> Predictive:
    """Atoms of given probabilities, and stretched normal distributions of the other values.

    ``mean`` and ``sd`` have a number for each row; ``shares`` None gives each of the
    ``NORMAL_FACTORS`` the same share.
    """
    rest = np.maximum(1.0 - atoms.sum(axis=1, keepdims=True), _TINY)
    if shares is None:
        shares = np.full(len(NORMAL_FACTORS), 1.0 / len(NORMAL_FACTORS))
    return beside_atoms(OwnNormals(mean, sd, rest), NORMAL_FACTORS, shares, atoms, target)


def log_densities_beside_atoms(predictive: Predictive, target: Target, values: Floats) -> Floats:
    """Log density (nats) of each copy of :func:`beside_atoms` at a value for each row.

    Shape (n_rows, n_factors); that of an atom is the same for all.
    """
    *points, rest = predictive.terms
    found, atom = rest.log_densities(values), target.atom_of(values)
    for at_atoms in points:
        of_atom = at_atoms.log_density(target.atoms[atom]) - np.log(target.cell)
        found = np.where(atom[:, np.newaxis] < 0, found, of_atom[:, np.newaxis])
    return found


def log_density_beside_atoms(predictive: Predictive, target: Target, values: Floats) -> Floats:
    """Log density (nats) of distributions of :func:`beside_atoms` at a value for each row."""
    copies = log_densities_beside_atoms(predictive, target, values)
    with np.errstate(divide="ignore"):
        log_shares = np.log(predictive.terms[-1].shares)
    return np.asarray(np.logaddexp.reduce(copies + log_shares, axis=1))


class TargetRegressor(NamedTuple):
    """Regressors that predict the target where it is no atom; their predictions are averaged.

    Attributes
    ----------
    models : list of fitted regressors
        Of encoded rows, for the target less ``centre`` over ``scale``.
    centre, scale : float
    has_std : bool
        Whether they also tell how exactly they know their prediction.
    """

    models: list[Any]
    centre: float
    scale: float
    has_std: bool

    @classmethod
    def learn(
        cls,
        model: Any,
        domain: Domain,
        rows: Floats,
        target: Target,
        values: Floats,
        weight: Floats,
        rates: Sequence[float],
        random_state: np.random.RandomState,
    ) -> TargetRegressor | None:
        """Fit a regressor to the rows of positive weight whose target is no atom.

        One that can tell the standard deviation of its predictions over missing cells learns from
        the rows as they are, others from masked copies. None where no two targets differ.
        """
        some = (weight > 0.0) & (target.atom_of(values) < 0)
        rows, values, weight = rows[some], values[some], weight[some]
        if not len(values) or values.min() == values.max():
            return None
        share = weight / weight.sum()
        centre = float(share @ values)
        scale = float(np.sqrt(share @ (values - centre) ** 2))
        scaled = (values - centre) / scale
        if not isinstance(model, str):
            model = _told_categories(model, domain)
            if "return_std" in signature(model.predict).parameters:
                fitted = model.fit(rows, scaled, sample_weight=weight)
                return cls([fitted], centre, scale, not np.isnan(rows).any())
        models = [
            fit_on_copies(model, domain, rows, scaled, weight, rates, random_state)
            for _ in range(_N_DRAWS)
        ]
        return cls(models, centre, scale, False)

    def mean_and_sd(self, rows: Floats) -> tuple[Floats, Floats]:
        """Prediction of each row, and how far it is uncertain by the account of the model."""
        if self.has_std:
            (model,) = self.models
            mean, sd = model.predict(rows, return_std=True)
        else:
            with few_threads(rows):
                mean = np.mean([model.predict(rows) for model in self.models], axis=0)
            sd = np.zeros(len(rows))
        return self.centre + self.scale * np.ravel(mean), self.scale * np.ravel(sd)


def _told_categories(model: Any, domain: Domain) -> Any:
    """A clone of a regressor that knows which columns are categories, if it can be told."""
    model = clone(model)
    if isinstance(model.get_params().get("categorical_features"), str):
        few = domain.is_categorical & (domain.n_states <= _MAX_CATEGORIES)
        model.set_params(categorical_features=few)
    return model
