"""Pools that predict a number: densities of encoded rows and targets, and regressors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax
from sklearn.utils import gen_batches

from skpc._arrays import Floats, Ints, log_or_inf
from skpc._fitting import noted, without_warnings
from skpc.domain import Domain
from skpc.learning import mixture_weights
from skpc.pooling.folds import Fold
from skpc.pooling.masking import MaskingEnsemble, with_categories
from skpc.pooling.pool import NEEDED, Member, OutOfFold, blanked, fit_density, labelled
from skpc.pooling.weights import GatingFeatures, HeteroscedasticNoise, fit_gate
from skpc.variables import Normals, Number, Points, Predictive, ScaleMixture
from skpc.variables.predictive import FormSum

#: How many times as wide the copies of the prediction of a density, and of a regressor, are: a pool
#: of densities is too wide, and none should go beyond the range of the target; residuals are mostly
#: small and a few times large.
DENSITY_SCALES = np.array([0.35, 0.5, 0.7, 0.85, 1.0])
REGRESSOR_SCALES = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
#: Rows whose predictive distributions are held at a time.
_ROWS = 1024
#: A member, or a copy of one, is left out if its weight is less than this.
_SMALLEST = 1e-3


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
        return np.full(len(values), -1) if self.number is None else self.number.atom_of(values)


class TargetRegressor(NamedTuple):
    """What predicts the target where it is not an atom.

    Attributes
    ----------
    model : MaskingEnsemble or fitted regressor
        Models from encoded rows to the target less ``centre``, over ``scale``. A regressor alone
        predicts the standard deviation over missing cells too.
    centre, scale : float
    has_std : bool
        Whether the standard deviations are used: all training rows were complete.
    """

    model: Any
    centre: float
    scale: float
    has_std: bool

    def mean_and_sd(self, rows: Floats) -> tuple[Floats, Floats]:
        """Prediction of each row, and how far it is uncertain by the account of the model."""
        mean, sd = (
            self.model.predict(rows, return_std=True)
            if self.has_std
            else (self.model.predict(rows), np.zeros(len(rows)))
        )
        return self.centre + self.scale * np.ravel(mean), self.scale * np.ravel(sd)


class Prediction(NamedTuple):
    """Distributions of targets by a member: atoms, and copies of the rest of several widths.

    Attributes
    ----------
    target : Target
    atoms : ndarray of shape (n_rows, n_atoms)
        Probabilities of the atoms.
    copies : ScaleMixture or FormSum
        The distributions of other values, with the probability that these have; each copy has it.
        A density alone has no copies, but its exact distributions with their atoms.
    """

    target: Target
    atoms: Floats
    copies: Any

    @classmethod
    def from_normals(
        cls, target: Target, mean: Floats, sd: Floats, atoms: Floats, scales: Floats
    ) -> Prediction:
        """Normals around the predictions of a regressor."""
        rest = np.maximum(1.0 - atoms.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        normals = Normals(mean[:, np.newaxis], sd[:, np.newaxis], rest)
        return cls(target, atoms, _copies(normals, scales))

    def log_densities(self, values: Floats) -> Floats:
        """Log density (nats) of each copy at a value for each row, (n_rows, n_scales)."""
        if isinstance(self.copies, FormSum):
            return np.asarray(self.copies.log_density(values)[:, np.newaxis])
        number, atom = self.target.number, self.target.atom_of(values)
        log_density = self.copies.log_densities(values, 0.0 if number is None else number.step)
        at_atom = np.flatnonzero(atom >= 0)
        of_atom = log_or_inf(self.atoms[at_atom, atom[at_atom]]) - np.log(self.target.cell)
        log_density[at_atom] = of_atom[:, np.newaxis]
        return log_density

    def terms(self, weights: Floats) -> list[Any]:
        """What the distributions add to a mixture in which the copies of each row have weights."""
        if isinstance(self.copies, FormSum):
            return list(self.copies.scaled(weights).forms)
        copies = replace(self.copies, prob=weights)
        if not len(self.target.atoms):
            return [copies]
        atoms = self.atoms * weights.sum(axis=1, keepdims=True)
        return [Points(self.target.atoms, atoms), copies]

    def draw_normals(self, row: Ints, random_state: np.random.RandomState) -> Floats:
        """Draws for some rows by a regressor, from the copy that is as wide as the noise."""
        normals, n_atoms = self.copies.form, len(self.target.atoms)
        drawn = normals.mean[row, 0] + normals.sd[row, 0] * random_state.standard_normal(len(row))
        if n_atoms:
            (atom,) = _draw_columns(np.hstack([self.atoms, normals.prob])[row], 1, random_state).T
            drawn = np.where(atom < n_atoms, np.append(self.target.atoms, np.nan)[atom], drawn)
        return np.asarray(drawn)

    def scaled(self, drawn: Floats, row: Ints, scale: float) -> Floats:
        """Draws for some rows, moved as in a copy; atoms stay."""
        middle, number = self.copies.middle[row], self.target.number
        moved = middle + scale * (drawn - middle)
        if number is not None:
            moved = number.snapped(np.clip(moved, *number.range_of_draws))
        return np.where(self.target.atom_of(drawn) < 0, moved, drawn)


def _copies(term: Any, scales: Floats) -> ScaleMixture:
    """Copies of distributions without their atoms, each with the probability of the rest."""
    form = term.without_atoms()
    return ScaleMixture.from_form(form, scales, np.ones((len(form.total()), len(scales))))


def target_distributions(density: Any, rows: Floats) -> Predictive:
    """Distribution of the target of each row by a density of rows and targets."""
    rows = labelled(rows)
    # Rows are rarely too far away, and asking first would double the work.
    try:
        (cells,) = density.posteriors(rows, [rows.shape[1] - 1])
    except ValueError:
        (cells,) = density.posteriors(_possible(density, rows), [rows.shape[1] - 1])
    return cells


def _possible(density: Any, rows: Floats) -> Floats:
    """Rows too far away for their density to be positive say nothing about their targets."""
    return blanked(rows, np.isneginf(density.log_density(rows)))


def _atom_probabilities(predictive: Predictive, target: Target) -> Floats:
    """Probability of each atom of the target by a density, shape (n_rows, n_atoms)."""
    n_rows, form = len(predictive.known), FormSum(predictive.terms)
    at_atoms = [form.log_density(np.full(n_rows, atom)) for atom in target.atoms.tolist()]
    probability = np.exp(at_atoms).reshape(-1, n_rows).T * target.cell
    # The sum may exceed one by rounding.
    return probability / np.maximum(probability.sum(axis=1, keepdims=True), 1.0)


class NumberData(NamedTuple):
    """Rows and numbers, from which the members of a pool learn.

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

    def without(self, fold: Fold) -> NumberData:
        """See :class:`~skpc.pooling.pool.TrainingData`."""
        # Axes follow only the rows that the fold leaves to learn from.
        some = fold.train_weight > 0.0
        rows = labelled(self.rows, self.values)[some]
        domain = self.target.domain.with_axes_of(rows, fold.train_weight[some])
        return self._replace(target=self.target._replace(domain=domain))

    def fit(self, member: Member, weight: Floats, seed: int) -> Any:
        """See :class:`~skpc.pooling.pool.TrainingData`; None where a regressor cannot learn."""
        if member.is_density:
            rows = labelled(self.rows, self.values)
            return fit_density(member.model, self.target.domain, rows, weight)
        some = (weight > 0.0) & (self.target.atom_of(self.values) < 0)
        with noted(f"This came from the member {member.name!r}. {NEEDED}"):
            training_data = self.rows[some], self.values[some], weight[some]
            return self._fit_regressor(member.model, *training_data, seed)

    def _fit_regressor(
        self, model: Any, rows: Floats, values: Floats, weight: Floats, seed: int
    ) -> TargetRegressor | None:
        """Learn from rows whose target is no atom; None where no two targets differ.

        A regressor that predicts its standard deviation over missing cells learns from the rows as
        they are, others learn from masked copies.
        """
        if not len(values) or values.min() == values.max():
            return None
        share, features = weight / weight.sum(), self.target.features
        centre = float(share @ values)
        scale = float(np.sqrt(share @ (values - centre) ** 2))
        scaled = (values - centre) / scale
        if not isinstance(model, str) and "return_std" in signature(model.predict).parameters:
            model = with_categories(model, features).fit(rows, scaled, sample_weight=weight)
            return TargetRegressor(model, centre, scale, not np.isnan(rows).any())
        training_data = features, rows, scaled, weight, self.rates, np.random.RandomState(seed)
        return TargetRegressor(MaskingEnsemble.fit(model, *training_data), centre, scale, False)

    def predict(self, fitted: Any, fold: Fold) -> tuple[Floats, ...]:
        """Means and variances of the test targets, log densities of copies, probabilities of atoms.

        A regressor knows the variance over missing cells only. Its other answers are NaN, as its
        noise is not known yet; so are all where it could not be learned.
        """
        n_rows, rows = len(fold.test_rows), fold.test_rows
        if fitted is None or isinstance(fitted, TargetRegressor):
            mean, sd = np.full((2, n_rows), np.nan) if fitted is None else fitted.mean_and_sd(rows)
            no_copies = np.full((n_rows, len(DENSITY_SCALES)), np.nan)
            return mean, sd**2, no_copies, np.full((n_rows, len(self.target.atoms)), np.nan)
        parts = gen_batches(n_rows, _ROWS)
        of_parts = [self._predict_by_density(fitted._density, fold, part) for part in parts]
        return tuple(np.concatenate(predictions) for predictions in zip(*of_parts))

    def _predict_by_density(self, density: Any, fold: Fold, part: slice) -> tuple[Floats, ...]:
        with without_warnings():
            predictive = target_distributions(density, fold.test_rows[part])
        atoms = _atom_probabilities(predictive, self.target)
        copies = _copies(FormSum(predictive.terms), DENSITY_SCALES)
        prediction = Prediction(self.target, atoms, copies)
        log_density = prediction.log_densities(self.values[fold.test_index[part]])
        return predictive.mean(), predictive.variance(), log_density, atoms

    def weigh(self, members: Sequence[Member], out_of_fold: OutOfFold | None) -> NumberPool:
        """A linear pool; without rows held out, the densities count equally."""
        if out_of_fold is not None:
            return _weigh(self, out_of_fold)
        is_density = np.array([member.is_density for member in members])
        weights, used = is_density / is_density.sum(), np.flatnonzero(is_density)
        mixture, scores = weights[used], np.full(len(members), np.nan)
        gate = Gate(used, np.ones(len(used)), np.log(mixture)[np.newaxis], None)
        return NumberPool(self.target, mixture, weights, scores, np.nan, used.tolist(), gate)


class Gate(NamedTuple):
    """The weights of the copies of members: ``softmax(features @ coef)`` for each row.

    Attributes
    ----------
    member : ndarray of shape (n_copies,), int
        The member that each copy belongs to.
    scale : ndarray of shape (n_copies,)
        How many times as wide as the member it is.
    coef : ndarray of shape (n_features, n_copies)
    features : GatingFeatures or None
        What the weights depend on. None where nothing has weighed the densities, which are then
        mixed as they are; the only feature is a constant one.
    """

    member: Ints
    scale: Floats
    coef: Floats
    features: GatingFeatures | None


class NumberPool(NamedTuple):
    """Learned members and their weights.

    Attributes
    ----------
    target : Target
    mixture : ndarray of shape (n_densities,)
        Weights of the densities among themselves. Their mixture gives the probabilities of atoms,
        which regressors do not know, and says how uncertain a target is.
    weights : ndarray of shape (n_members,)
        Mean weights of the members.
    member_log_densities : ndarray of shape (n_members,)
        Mean log densities of the test targets under each member, in nats; NaN of one that could not
        be learned.
    log_density : float
        That of the pool.
    used : list of int
        The members that are learned from all rows, densities first.
    gate : Gate
    noise : dict of int to HeteroscedasticNoise
        How far the targets lie from the predictions of each regressor.
    fitted : list of density estimator, TargetRegressor or None
    """

    target: Target
    mixture: Floats
    weights: Floats
    member_log_densities: Floats
    log_density: float
    used: list[int]
    gate: Gate
    noise: Mapping[int, HeteroscedasticNoise] = {}
    fitted: Sequence[Any] = ()

    @property
    def densities(self) -> dict[int, Any]:
        """The density estimators that are used, by their numbers."""
        return {m: self.fitted[m] for m in self.used if m not in self.noise}

    def predictive(self, rows: Floats) -> Predictive:
        """Distribution of the target of each row."""
        members, log_weight = self._predictions(rows)
        weights = np.exp(log_weight)
        terms = [m.terms(weights[:, self.gate.member == k]) for k, m in members.items()]
        unknown = np.full(len(rows), np.nan)
        return Predictive(list(chain.from_iterable(terms)), unknown, number=self.target.number)

    def log_density_at(self, rows: Floats, values: Floats) -> Floats:
        """Log density (nats) of the target of each row at a value of its own."""
        members, log_weight = self._predictions(rows)
        log_density = np.hstack([one.log_densities(values) for one in members.values()])
        return np.asarray(np.logaddexp.reduce(log_density + log_weight, axis=1))

    def log_density_of_rows(self, rows: Floats) -> Floats:
        """Log density (nats) of the rows themselves, whatever their targets."""
        members, rows = [one._density for one in self.densities.values()], labelled(rows)
        with without_warnings(len(members) > 1):
            log_density = np.column_stack([density.log_density(rows) for density in members])
        return np.asarray(np.logaddexp.reduce(log_density + log_or_inf(self.mixture), axis=1))

    def draw(self, rows: Floats, n_draws: int, random_state: np.random.RandomState) -> Floats:
        """Targets for each row, shape (n_rows, n_draws)."""
        members, log_weight = self._predictions(rows)
        source = _draw_columns(np.exp(log_weight), n_draws, random_state)
        drawn = np.empty(source.shape)
        for copy in np.unique(source).tolist():
            row, place = np.nonzero(source == copy)
            m, scale = int(self.gate.member[copy]), float(self.gate.scale[copy])
            if m in self.noise:
                values = members[m].draw_normals(row, random_state)
            else:
                density = self.fitted[m]._density
                unknown = _possible(density, labelled(rows[row]))
                values = density.draw_missing(unknown, random_state)[:, -1]
            if self.gate.features is not None:
                values = members[m].scaled(values, row, scale)
            drawn[row, place] = values
        return drawn

    def _predictions(self, rows: Floats) -> tuple[dict[int, Prediction], Floats]:
        """Distributions by the members that are used, and log weights of their copies.

        Weights of shape (n_rows, n_copies).
        """
        with without_warnings(len(self.used) > 1):
            of_densities = {
                m: target_distributions(one._density, rows) for m, one in self.densities.items()
            }
        gate, target, gating = self.gate, self.target, np.ones((len(rows), 1))
        if gate.features is None:
            none = np.empty((len(rows), 0))
            exact = {
                m: Prediction(target, none, FormSum(one.terms)) for m, one in of_densities.items()
            }
            return exact, log_softmax(gating @ gate.coef, axis=1)
        variance = Predictive.mixture([*of_densities.values()], self.mixture).variance()
        gating = gate.features.transform(rows, variance)
        atoms = {m: _atom_probabilities(one, target) for m, one in of_densities.items()}
        scales = {m: gate.scale[gate.member == m] for m in self.used}
        predictions = {
            m: Prediction(target, atoms[m], _copies(FormSum(one.terms), scales[m]))
            for m, one in of_densities.items()
        }
        mixed = np.tensordot(self.mixture, [*atoms.values()], axes=1)
        for m, noise in self.noise.items():
            mean, sd = self.fitted[m].mean_and_sd(rows)
            sds = noise.sds(sd, gating)
            predictions[m] = Prediction.from_normals(target, mean, sds, mixed, scales[m])
        return predictions, log_softmax(gating @ gate.coef, axis=1)


def _weigh(data: NumberData, out_of_fold: OutOfFold) -> NumberPool:
    """Fit the noise of regressors, and the weights of all members."""
    is_density, weight = out_of_fold.is_density, out_of_fold.test_weight
    values, share = data.values[out_of_fold.test_index], weight / weight.sum()
    mean, variance, log_density, atoms = out_of_fold.predictions
    mixture = mixture_weights(log_density[:, is_density, -1], weight)
    spread = (mean - (mean[:, is_density] @ mixture)[:, np.newaxis]) ** 2 + variance
    spread = spread[:, is_density] @ mixture
    rows, of_targets = out_of_fold.test_rows, float(data.values.var())
    features = GatingFeatures.fit(data.target.features, rows, spread, of_targets, weight)
    gating = features.transform(rows, spread)
    atoms = np.tensordot(atoms[:, is_density], mixture, axes=(1, 0))
    rest = np.flatnonzero(data.target.atom_of(values) < 0)
    is_learned = is_density | (~np.isnan(mean).any(axis=0) & bool(len(rest)))
    noise: dict[int, HeteroscedasticNoise] = {}
    for m in np.flatnonzero(is_learned & ~is_density).tolist():
        residual, sd = values - mean[:, m], np.sqrt(variance[:, m])
        of_rest = residual[rest], sd[rest], gating[rest], weight[rest]
        noise[m] = HeteroscedasticNoise.fit(*of_rest, REGRESSOR_SCALES)
        normals = mean[:, m], noise[m].sds(sd, gating), atoms, REGRESSOR_SCALES
        prediction = Prediction.from_normals(data.target, *normals)
        log_density[:, m] = prediction.log_densities(values)
        mean[:, m] = atoms @ data.target.atoms + prediction.copies.form.means()
    scale = np.where(is_density[:, np.newaxis], DENSITY_SCALES, REGRESSOR_SCALES)
    member, scale = np.repeat(np.flatnonzero(is_learned), scale.shape[1]), scale[is_learned].ravel()
    log_density = log_density[:, is_learned].reshape(len(values), -1)
    is_unscaled = scale == 1.0
    coef = fit_gate(log_density, mean[:, member], values, gating, weight, is_unscaled)
    log_weight = log_softmax(gating @ coef, axis=1)
    of_copies = share @ np.exp(log_weight)
    weights = np.bincount(member, of_copies, len(is_density)).astype(np.float64)
    scores = np.full(len(is_density), np.nan)
    scores[member[is_unscaled]] = share @ log_density[:, is_unscaled]
    pooled = float(share @ np.logaddexp.reduce(log_density + log_weight, axis=1))
    counts = weights >= _SMALLEST
    weights[~counts] = 0.0
    counts[is_density] |= mixture > 0.0
    kept = counts[member] & (is_unscaled | (of_copies >= _SMALLEST))
    gate = Gate(member[kept], scale[kept], coef[:, kept], features)
    noise = {m: one for m, one in noise.items() if counts[m]}
    mixture, used = mixture[counts[is_density]], np.flatnonzero(counts).tolist()
    return NumberPool(data.target, mixture, weights, scores, pooled, used, gate, noise)


def _draw_columns(prob: Floats, n_draws: int, random_state: np.random.RandomState) -> Ints:
    """Numbers of columns drawn by the probabilities of each row, shape (n_rows, n_draws)."""
    end = np.cumsum(prob, axis=1)
    u = random_state.random_sample((len(prob), n_draws)) * end[:, -1:]
    return np.asarray((u[:, :, np.newaxis] >= end[:, np.newaxis, :-1]).sum(axis=2))
