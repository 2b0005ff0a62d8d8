"""Pools that predict a number: densities of encoded rows and targets, and regressors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, Ints, group_sums, log_or_inf
from skpc._fitting import noted, without_warnings
from skpc._random import draw_states
from skpc._threads import slices
from skpc.domain import Domain
from skpc.learning.simplex import mixture_weights
from skpc.pooling.folds import Fold
from skpc.pooling.masking import MaskingEnsemble, with_categories
from skpc.pooling.pool import NEEDED, Member, OutOfFold, fit_density, labelled
from skpc.pooling.weights import GatingFeatures, HeteroscedasticNoise, fit_gate
from skpc.variables import Form, Law, Normals, Predictive, ScoredNormals
from skpc.variables.predictive import FormSum
from skpc.variables.score import Score

#: Widths of the normals around the prediction of a regressor, in standard deviations of its noise:
#: most residuals are small, and a few are large.
REGRESSOR_SCALES = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
#: Number of rows whose predictive distributions are held at a time.
_ROWS = 1024
#: A member is left out if its weight is less than this.
_SMALLEST_WEIGHT = 1e-3


def value_law(domain: Domain) -> Law:
    """The law of the target, the last column, on its own scale: its atoms and its lattice."""
    law = domain[domain.n_features - 1].law
    return Law() if law is None else law._replace(score=Score())


def normals_around(
    law: Law, mean: Floats, sd: Floats, weights: Floats, atoms: Floats
) -> ScoredNormals:
    """Mixtures of normals and atoms around the prediction of a regressor for each row.

    ``mean`` and ``sd`` (n_rows,) are those of the prediction. The normals of a row are
    ``REGRESSOR_SCALES`` times as wide as ``sd``, and have ``weights`` (n_rows, n_scales); ``atoms``
    (n_rows, n_atoms) are the probabilities of the atoms.
    """
    # Where the probabilities of atoms round to one, the normals still have some mass.
    bulk = np.maximum(1.0 - atoms.sum(axis=1, keepdims=True), SMALLEST_NORMAL)
    means = np.broadcast_to(law.place(mean)[:, np.newaxis], weights.shape)
    normals = Normals(means, sd[:, np.newaxis] * REGRESSOR_SCALES, bulk * weights)
    return ScoredNormals(law, atoms * weights.sum(axis=1, keepdims=True), normals)


def density_in_cells(step: float, form: Form, values: Floats) -> Floats:
    """Log density (nats) of the distribution of each row at the value of the row.

    On a lattice it is the mean density in the lattice cell of the value.
    """
    log_density = form.log_density(values)
    # For smaller probabilities of a lattice cell, the density in its middle is more exact.
    smallest_mass = 1e-10
    if step > 0.0:
        mass = form.below(values + step / 2) - form.below(values - step / 2)
        is_exact = mass > smallest_mass
        log_density[is_exact] = np.log(mass[is_exact] / step)
    return log_density


def atom_probabilities(law: Law, predictive: Predictive) -> Floats:
    """Probability of each atom under each distribution, shape (n_rows, n_atoms)."""
    n_rows = len(predictive.known)
    form = FormSum(predictive.terms)
    at_atoms = [form.log_density(np.full(n_rows, atom)) for atom in law.atoms.tolist()]
    probability = np.exp(at_atoms).reshape(-1, n_rows).T * (law.step or 1.0)
    # The sum may exceed one by rounding.
    return probability / np.maximum(probability.sum(axis=1, keepdims=True), 1.0)


class TargetRegressor(NamedTuple):
    """A fitted regressor of the targets that are no atoms.

    Attributes
    ----------
    model : MaskingEnsemble or fitted regressor
        Predicts ``(target - centre) / scale`` from encoded rows.
    centre, scale : float
    has_std : bool
        Whether the model is asked for standard deviations over missing cells. An ensemble has none;
        a regressor is asked only if all training rows were complete.
    """

    model: Any
    centre: float
    scale: float
    has_std: bool

    def mean_and_sd(self, rows: Floats) -> tuple[Floats, Floats]:
        """Predictions of rows, and their standard deviations over missing cells; 0 if unknown."""
        mean, sd = (
            self.model.predict(rows, return_std=True)
            if self.has_std
            else (self.model.predict(rows), np.zeros(len(rows)))
        )
        return self.centre + self.scale * np.ravel(mean), self.scale * np.ravel(sd)


def target_distributions(density: Any, rows: Floats) -> Predictive:
    """Distribution of the target of each row by a density of rows and targets."""
    rows = labelled(rows)
    # Impossible rows are rare, and looking for them first would double the work.
    try:
        (cells,) = density.posteriors(rows, [rows.shape[1] - 1])
    except ValueError:
        (cells,) = density.posteriors(possible_rows(density, rows), [rows.shape[1] - 1])
    return cells


def possible_rows(density: Any, rows: Floats) -> Floats:
    """Rows of which those that are impossible under the density lose all cells.

    They are too far from the training rows for their density to be positive, and so say nothing
    about their targets.
    """
    is_impossible = np.isneginf(density.log_density(rows))
    return np.where(is_impossible[:, np.newaxis], np.nan, rows)


class NumberData(NamedTuple):
    """Rows and numeric targets, from which the members of a pool learn.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows.
    domain : Domain
        What the columns of the rows are, and last the targets.
    values : ndarray of shape (n_rows,)
        The targets.
    rates : sequence of float
        Proportions of cells that are removed from copies of rows.
    """

    rows: Floats
    domain: Domain
    values: Floats
    rates: Sequence[float]

    @property
    def features(self) -> Domain:
        """What the columns of the rows are."""
        return self.domain.taken(np.arange(self.rows.shape[1]))

    def without(self, fold: Fold) -> NumberData:
        """See :class:`~skpc.pooling.pool.TrainingData`."""
        # Bins may depend only on the rows that the fold leaves to learn from.
        rows = labelled(self.rows, self.values)
        return self._replace(domain=self.domain.with_axes_of(rows, fold.train_weight))

    def fit(self, member: Member, weight: Floats, seeds: Sequence[int]) -> Any:
        """See :class:`~skpc.pooling.pool.TrainingData`; None where a regressor cannot learn."""
        if member.is_density:
            rows = labelled(self.rows, self.values)
            return fit_density(member.model, self.domain, rows, weight)
        is_learned = (weight > 0.0) & ~value_law(self.domain).is_atom(self.values)
        with noted(f"This came from the member {member.name!r}. {NEEDED}"):
            training_data = self.rows[is_learned], self.values[is_learned], weight[is_learned]
            return self._fit_regressor(member.model, *training_data, seeds)

    def _fit_regressor(
        self, model: Any, rows: Floats, values: Floats, weight: Floats, seeds: Sequence[int]
    ) -> TargetRegressor | None:
        """Learn from rows whose target is no atom; None where no two targets differ.

        A regressor that predicts its standard deviation over missing cells learns from the rows as
        they are, others learn from masked copies.
        """
        if not len(values) or values.min() == values.max():
            return None
        share = weight / weight.sum()
        features = self.features
        centre = float(share @ values)
        scale = float(np.sqrt(share @ (values - centre) ** 2))
        # Rounded far above the spacing of floats, so that trees are the same in any unit.
        digits = 7
        scaled = np.round((values - centre) / scale, digits)
        if not isinstance(model, str) and "return_std" in signature(model.predict).parameters:
            model = with_categories(model, features).fit(rows, scaled, sample_weight=weight)
            return TargetRegressor(model, centre, scale, not np.isnan(rows).any())
        training_data = features, rows, scaled, weight, self.rates, seeds
        return TargetRegressor(MaskingEnsemble.fit(model, *training_data), centre, scale, False)

    def predict(self, fitted: Any, fold: Fold) -> tuple[Floats, ...]:
        """Means, variances and log densities of the test targets, and probabilities of atoms.

        Of a regressor the variance is that over missing cells alone; log densities and atoms are
        NaN, as its noise is not known yet. All answers are NaN where it could not be learned.
        """
        n_rows = len(fold.test_rows)
        rows = fold.test_rows
        law = value_law(self.domain)
        if fitted is None or isinstance(fitted, TargetRegressor):
            mean, sd = np.full((2, n_rows), np.nan) if fitted is None else fitted.mean_and_sd(rows)
            unknown = np.full((n_rows, 1 + len(law.atoms)), np.nan)
            return mean, sd**2, unknown[:, 0], unknown[:, 1:]
        values = self.values[fold.test_index]
        parts = []
        with without_warnings():
            for part in slices(n_rows, _ROWS):
                cells = target_distributions(fitted.row_density, rows[part])
                log_density = density_in_cells(law.step, FormSum(cells.terms), values[part])
                atoms = atom_probabilities(law, cells)
                parts.append((cells.mean(), cells.variance(), log_density, atoms))
        return tuple(np.concatenate(predictions) for predictions in zip(*parts))

    def weigh(self, mixture: Floats, out_of_fold: OutOfFold | None) -> NumberPool:
        """A linear pool; without rows held out, the densities count equally."""
        if out_of_fold is not None:
            return _weigh(self, mixture > 0.0, out_of_fold)
        used = np.flatnonzero(mixture)
        unknown = np.full(len(mixture), np.nan)
        # Coefficients of zero give all densities the same weight.
        gate = Gate(used, np.zeros((1, len(used))), None)
        return NumberPool(self.domain, mixture[used], mixture, unknown, np.nan, used.tolist(), gate)


class Gate(NamedTuple):
    """Weights of the components of a linear pool in each row: ``softmax(features @ coef)``.

    Attributes
    ----------
    member : ndarray of shape (n_components,), int
        The member that each component belongs to: a density is one, a regressor one for each of
        ``REGRESSOR_SCALES``.
    coef : ndarray of shape (n_features, n_components)
    features : GatingFeatures or None
        The features of a row. None where no rows were held out to weigh the densities: then the
        only feature is a constant one.
    """

    member: Ints
    coef: Floats
    features: GatingFeatures | None


class NumberPool(NamedTuple):
    """Learned members and their weights.

    Attributes
    ----------
    domain : Domain
        What the columns of the rows are, and last the target.
    mixture : ndarray of shape (n_densities,)
        Weights of the mixture of the densities alone. It gives the probabilities of atoms, which
        regressors do not know, and the variance of the target, which the gate reads.
    weights : ndarray of shape (n_members,)
        Mean weights of the members.
    member_log_densities : ndarray of shape (n_members,)
        Mean log densities of the test targets under each member, in nats; NaN for a member that
        could not be learned.
    log_density : float
        Mean log density of the test targets under the pool, in nats.
    used : list of int
        The members that are learned from all rows, densities first.
    gate : Gate
    noise : dict of int to HeteroscedasticNoise
        How far the targets lie from the predictions of each regressor.
    fitted : list of density estimator, TargetRegressor or None
    """

    domain: Domain
    mixture: Floats
    weights: Floats
    member_log_densities: Floats
    log_density: float
    used: list[int]
    gate: Gate
    noise: Mapping[int, HeteroscedasticNoise] = {}
    fitted: Sequence[Any] = ()

    @property
    def law(self) -> Law | None:
        """The law of the target; None with plain margins."""
        return self.domain[self.domain.n_features - 1].law

    @property
    def densities(self) -> dict[int, Any]:
        """The density estimators that are used, by their numbers."""
        return {m: self.fitted[m] for m in self.used if m not in self.noise}

    def predictive(self, rows: Floats) -> Predictive:
        """Distribution of the target of each row."""
        forms = self._forms(rows)[0].values()
        unknown = np.full(len(rows), np.nan)
        return Predictive([*chain(*forms)], unknown, law=self.law)

    def log_density_at(self, rows: Floats, values: Floats) -> Floats:
        """Log density (nats) of the target of each row at the value of the row."""
        form = FormSum(self.predictive(rows).terms)
        # Without a gate that was fitted to cells of the lattice, densities answer as they are.
        step = 0.0 if self.gate.features is None else value_law(self.domain).step
        return density_in_cells(step, form, values)

    def log_density_of_rows(self, rows: Floats) -> Floats:
        """Log density (nats) of the rows themselves, whatever their targets."""
        members = [density.row_density for density in self.densities.values()]
        rows = labelled(rows)
        with without_warnings(len(members) > 1):
            log_density = np.column_stack([density.log_density(rows) for density in members])
        return np.logaddexp.reduce(log_density + log_or_inf(self.mixture), axis=1)

    def draw(self, rows: Floats, n_draws: int, random_state: np.random.RandomState) -> Floats:
        """Targets for each row, shape (n_rows, n_draws)."""
        forms, weights = self._forms(rows)
        # (n_rows, n_draws): the component that each draw comes from.
        component = draw_states(np.repeat(weights, n_draws, axis=0), random_state)
        source = self.gate.member[component].reshape(-1, n_draws)
        drawn = np.empty(source.shape)
        for m in np.unique(source).tolist():
            row, place = np.nonzero(source == m)
            if m in self.noise:
                drawn[row, place] = self._draw_normals(forms[m][0], row, random_state)
            else:
                density = self.fitted[m].row_density
                unknown = possible_rows(density, labelled(rows[row]))
                drawn[row, place] = density.draw_missing(unknown, random_state)[:, -1]
        return drawn

    def _draw_normals(
        self, form: ScoredNormals, row: Ints, random_state: np.random.RandomState
    ) -> Floats:
        """One draw for each of the rows ``row`` from the distributions of a regressor."""
        column = form.column
        n_rows = len(row)
        prob = np.hstack([form.rest.rows, form.atom_prob])[row]
        chosen = np.arange(n_rows), draw_states(prob, random_state)
        atoms = np.tile(column.atoms, (n_rows, 1))
        place = form.rest.mean[row] + form.rest.sd[row] * random_state.standard_normal((n_rows, 1))
        # Each row draws from all its normals and atoms, of which the chosen one counts.
        drawn = np.hstack([column.at_place(place), atoms])[chosen]
        return drawn if self.law is None else self.law.values(drawn)

    def _forms(self, rows: Floats) -> tuple[dict[int, Sequence[Any]], Floats]:
        """The weighed distributions by each member used, and weights (n_rows, n_components)."""
        with without_warnings(len(self.used) > 1):
            cells_of_densities = {
                m: target_distributions(density.row_density, rows)
                for m, density in self.densities.items()
            }
        gating = np.ones((len(rows), 1))
        member = self.gate.member
        law = value_law(self.domain)
        if self.gate.features is not None:
            mixed = Predictive.mixture([*cells_of_densities.values()], self.mixture)
            gating = self.gate.features.transform(rows, mixed.variance())
            atoms = atom_probabilities(law, mixed)
        weights = softmax(gating @ self.gate.coef, axis=1)
        forms: dict[int, Any] = {
            m: FormSum(member_cells.terms).scaled(weights[:, member == m]).forms
            for m, member_cells in cells_of_densities.items()
        }
        # A pool with regressors has features, so that `atoms` were computed above.
        for m, noise in self.noise.items():
            mean, sd = self.fitted[m].mean_and_sd(rows)
            sd = noise.sds(sd, gating)
            forms[m] = [normals_around(law, mean, sd, weights[:, member == m], atoms)]
        return forms, weights


def _weigh(data: NumberData, is_density: Bools, out_of_fold: OutOfFold) -> NumberPool:
    """Fit the noise of regressors, and the weights of all members, to out-of-fold predictions."""
    values = data.values[out_of_fold.test_index]
    weight = out_of_fold.test_weight
    share = weight / weight.sum()
    law = value_law(data.domain)
    mean, variance, log_density, atoms = out_of_fold.predictions
    mixture = mixture_weights(log_density[:, is_density], weight)
    # The variance of a mixture is that within members, and that of their means.
    squares = (mean - (mean[:, is_density] @ mixture)[:, np.newaxis]) ** 2 + variance
    mixture_variance = squares[:, is_density] @ mixture
    rows = out_of_fold.test_rows
    target_variance = float(data.values.var())
    features = GatingFeatures.fit(data.features, rows, mixture_variance, target_variance)
    gating = features.transform(rows, mixture_variance)
    # (n_rows, n_densities, n_atoms) weighed by (n_densities,) gives (n_rows, n_atoms).
    atoms = np.tensordot(atoms[:, is_density], mixture, axes=(1, 0))
    is_no_atom = ~law.is_atom(values)
    is_learned = is_density | (~np.isnan(mean).any(axis=0) & is_no_atom.any())
    noise: dict[int, HeteroscedasticNoise] = {}
    components = {m: log_density[:, [m]] for m in np.flatnonzero(is_density).tolist()}
    for m in np.flatnonzero(is_learned & ~is_density).tolist():
        residual = values - mean[:, m]
        sd = np.sqrt(variance[:, m])
        # Atoms are no errors of a regressor.
        noise_data = (part[is_no_atom] for part in (residual, sd, gating, weight))
        noise[m] = HeteroscedasticNoise.fit(*noise_data)
        mean_and_sd = mean[:, m], noise[m].sds(sd, gating)
        # One component for each scale, which has all the weight of the normals there.
        forms = [
            normals_around(law, *mean_and_sd, np.tile(scale_weights, (len(values), 1)), atoms)
            for scale_weights in np.eye(len(REGRESSOR_SCALES))
        ]
        components[m] = np.column_stack(
            [density_in_cells(law.step, form, values) for form in forms]
        )
        # With the atoms the mean is another one, the same for all scales.
        mean[:, m] = forms[0].means()
    log_density = np.hstack([*components.values()])
    scales = [REGRESSOR_SCALES if m in noise else np.ones(1) for m in components]
    member = np.repeat(list(components), [*map(len, scales)])
    # The score of a regressor is that of its normal of scale one.
    is_unscaled = np.concatenate(scales) == 1.0
    coef = fit_gate(log_density, mean[:, member], values, gating, weight, is_unscaled)
    log_weight = log_softmax(gating @ coef, axis=1)
    weights = group_sums(member, share @ np.exp(log_weight), len(is_density))
    scores = np.full(len(is_density), np.nan)
    scores[member[is_unscaled]] = share @ log_density[:, is_unscaled]
    log_density_of_pool = np.logaddexp.reduce(log_density + log_weight, axis=1)
    pool_score = float(share @ log_density_of_pool)
    is_used = weights >= _SMALLEST_WEIGHT
    weights[~is_used] = 0.0
    # Densities of small weight still count in the mixture.
    is_used[is_density] |= mixture > 0.0
    # The softmax over the members used shares out the weights of those left out.
    gate = Gate(member[is_used[member]], coef[:, is_used[member]], features)
    noise = {m: member_noise for m, member_noise in noise.items() if is_used[m]}
    mixture = mixture[is_used[is_density]]
    used = np.flatnonzero(is_used).tolist()
    return NumberPool(data.domain, mixture, weights, scores, pool_score, used, gate, noise)
