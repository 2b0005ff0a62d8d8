"""Pools that predict a number: densities of encoded rows and targets, and regressors."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import gen_batches

from skpc._arrays import Floats, Ints, log_or_inf
from skpc._fitting import noted, without_warnings
from skpc.domain import Domain, merge_rows
from skpc.learning import mixture_weights
from skpc.pooling.folds import Fold
from skpc.pooling.masking import MaskingEnsemble, with_categories
from skpc.pooling.pool import NEEDED, Member, OutOfFold
from skpc.pooling.weights import GatingFeatures, HeteroscedasticNoise, LinearPool
from skpc.variables import Normals, Number, Points, Predictive, ScaleMixture

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

    def predictive(self, rows: Floats) -> Predictive:
        """Distribution of the target of each row."""
        unlabelled = _without_target(rows)
        column = unlabelled.shape[1] - 1
        # Rows are rarely too far away, and asking first would double the work.
        try:
            (cells,) = self.model._density.posteriors(unlabelled, [column])
        except ValueError:
            (cells,) = self.model._density.posteriors(self._near(unlabelled), [column])
        return cells

    def log_density(self, rows: Floats) -> Floats:
        """Log density (nats) of each row, whatever its target."""
        return np.asarray(self.model._density.log_density(_without_target(rows)))

    def draw(self, rows: Floats, random_state: np.random.RandomState) -> Floats:
        """A target for each row."""
        unlabelled = self._near(_without_target(rows))
        return np.asarray(self.model._density.draw_missing(unlabelled, random_state)[:, -1])

    def _near(self, unlabelled: Floats) -> Floats:
        """Rows too far away for their density to be positive say nothing about their targets."""
        far = np.isneginf(self.model._density.log_density(unlabelled))
        return np.where(far[:, np.newaxis], np.nan, unlabelled)


def _without_target(rows: Floats) -> Floats:
    return np.column_stack([rows, np.full(len(rows), np.nan)])


def _log_density(predictive: Predictive, values: Floats) -> Floats:
    return np.asarray(predictive.terms[0].log_density(values))


def _atom_probabilities(predictive: Predictive, target: Target) -> Floats:
    """Probability of each atom of the target by a density, shape (n_rows, n_atoms)."""
    n_rows = len(predictive.known)
    probability = np.empty((n_rows, len(target.atoms)))
    for place, atom in enumerate(target.atoms.tolist()):
        probability[:, place] = np.exp(_log_density(predictive, np.full(n_rows, atom)))
    probability *= target.cell
    # The sum may exceed one by rounding.
    return probability / np.maximum(probability.sum(axis=1, keepdims=True), 1.0)


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
    copies : ScaleMixture
        The distributions of other values, with the probability that these have; each copy has it.
    """

    target: Target
    atoms: Floats
    copies: ScaleMixture

    @classmethod
    def from_density(
        cls, target: Target, predictive: Predictive, atoms: Floats, scales: Floats
    ) -> Prediction:
        """Copies of the distributions by a density."""
        term: Any = predictive.terms[0]
        ones = np.ones((len(atoms), len(scales)))
        return cls(target, atoms, ScaleMixture.from_form(term.without_atoms(), scales, ones))

    @classmethod
    def from_normals(
        cls, target: Target, mean: Floats, sd: Floats, atoms: Floats, scales: Floats
    ) -> Prediction:
        """Normals around the predictions of a regressor."""
        rest = np.maximum(1.0 - atoms.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        normals = Normals(mean[:, np.newaxis], sd[:, np.newaxis], rest)
        ones = np.ones((len(atoms), len(scales)))
        return cls(target, atoms, ScaleMixture.from_form(normals, scales, ones))

    def means(self) -> Floats:
        """Mean of the target of each row."""
        return np.asarray(self.atoms @ self.target.atoms + self.copies.form.means())

    def log_densities(self, values: Floats) -> Floats:
        """Log density (nats) of each copy at a value for each row, (n_rows, n_scales)."""
        number, atom = self.target.number, self.target.atom_of(values)
        if number is not None and number.step > 0.0:
            log_density = self.copies.log_masses(values, number.step)
        else:
            log_density = self.copies.log_densities(values)
        at_atom = np.flatnonzero(atom >= 0)
        of_atom = log_or_inf(self.atoms[at_atom, atom[at_atom]]) - np.log(self.target.cell)
        log_density[at_atom] = of_atom[:, np.newaxis]
        return log_density

    def predictive(self, shares: Floats) -> Predictive:
        """The distributions, with shares of the copies: shape (n_rows, n_scales)."""
        points = [Points(self.target.atoms, self.atoms)] if len(self.target.atoms) else []
        copies, unknown = self.copies._replace(prob=shares), np.full(len(shares), np.nan)
        terms: list[Any] = [*points, copies]
        return Predictive(terms, unknown, number=self.target.number)

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
        labelled = np.column_stack([self.rows, self.values])[some]
        domain = self.target.domain.with_axes_of(labelled, fold.train_weight[some])
        return self._replace(target=self.target._replace(domain=domain))

    def fit(self, member: Member, weight: Floats, seed: int) -> Any:
        """See :class:`~skpc.pooling.pool.TrainingData`; None where a regressor cannot learn."""
        some = weight > 0.0
        if not member.is_density:
            some &= self.target.atom_of(self.values) < 0
        rows, values, weight = self.rows[some], self.values[some], weight[some]
        if not member.is_density:
            with noted(f"This came from the member {member.name!r}. {NEEDED}"):
                return self._fit_regressor(member.model, rows, values, weight, seed)
        merged = merge_rows(np.column_stack([rows, values]), weight)
        if isinstance(member.model, TargetDensity):
            return TargetDensity(member.model.model._fit_again(self.target.domain, *merged))
        return TargetDensity(clone(member.model).fit_rows(self.target.domain, *merged))

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
        random_state = np.random.RandomState(seed)
        ensemble = MaskingEnsemble.fit(
            model, features, rows, scaled, weight, self.rates, random_state
        )
        return TargetRegressor(ensemble, centre, scale, False)

    def predict(self, fitted: Any, fold: Fold) -> tuple[Floats, ...]:
        """Means and variances of the test targets, log densities of copies, probabilities of atoms.

        A regressor knows the variance over missing cells only. Its other answers are NaN, as its
        noise is not known yet; so are all where it could not be learned.
        """
        if isinstance(fitted, TargetDensity):
            parts = gen_batches(len(fold.test_rows), _ROWS)
            of_parts = [self._predict_by_density(fitted, fold, part) for part in parts]
            return tuple(np.concatenate(predictions) for predictions in zip(*of_parts))
        unknown = np.full(len(fold.test_rows), np.nan)
        mean = sd = unknown
        if fitted is not None:
            mean, sd = fitted.mean_and_sd(fold.test_rows)
        no_copies = np.full((len(unknown), len(DENSITY_SCALES)), np.nan)
        return mean, sd**2, no_copies, np.full((len(unknown), len(self.target.atoms)), np.nan)

    def _predict_by_density(
        self, density: TargetDensity, fold: Fold, part: slice
    ) -> tuple[Floats, ...]:
        with without_warnings():
            predictive = density.predictive(fold.test_rows[part])
        atoms = _atom_probabilities(predictive, self.target)
        copies = Prediction.from_density(self.target, predictive, atoms, DENSITY_SCALES)
        log_density = copies.log_densities(self.values[fold.test_index[part]])
        return predictive.mean(), predictive.variance(), log_density, atoms

    def weigh(self, members: Sequence[Member], out_of_fold: OutOfFold | None) -> NumberPool:
        """A linear pool; without rows held out, the densities count equally."""
        if out_of_fold is None:
            is_density = np.array([member.is_density for member in members])
            mixture = is_density / is_density.sum()
            used = np.flatnonzero(is_density).tolist()
            scores = np.full(len(members), np.nan)
            return NumberPool(self.target, mixture[used], mixture, scores, np.nan, used)
        return _weigh(self, out_of_fold)


class Gate(NamedTuple):
    """What the weights of the copies of members depend on, and how they do.

    Attributes
    ----------
    features : GatingFeatures
    pool : LinearPool
    member : ndarray of shape (n_copies,), int
        The member that each copy belongs to.
    scale : ndarray of shape (n_copies,)
        How many times as wide as the member it is.
    """

    features: GatingFeatures
    pool: LinearPool
    member: Ints
    scale: Floats


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
    gate : Gate or None
        None where nothing has weighed the densities, which are then mixed as they are.
    noise : dict of int to HeteroscedasticNoise
        How far the targets lie from the predictions of each regressor.
    fitted : list of TargetDensity, TargetRegressor or None
    """

    target: Target
    mixture: Floats
    weights: Floats
    member_log_densities: Floats
    log_density: float
    used: list[int]
    gate: Gate | None = None
    noise: dict[int, HeteroscedasticNoise] | None = None
    fitted: Sequence[Any] = ()

    @property
    def densities(self) -> dict[int, TargetDensity]:
        """The densities that are used, by their numbers."""
        fitted = ((m, self.fitted[m]) for m in self.used)
        return {m: one for m, one in fitted if isinstance(one, TargetDensity)}

    def predictive(self, rows: Floats) -> Predictive:
        """Distribution of the target of each row."""
        members, log_weight = self._copies(rows)
        predictives, weights = [], []
        for m, one in zip(self.used, members):
            log_share = log_weight[:, self._member_of_copies == m]
            log_total = np.logaddexp.reduce(log_share, axis=1)
            if isinstance(one, Prediction):
                one = one.predictive(np.exp(log_share - log_total[:, np.newaxis]))
            predictives.append(one)
            weights.append(np.exp(log_total))
        return Predictive.mixture(predictives, np.column_stack(weights))

    def log_density_at(self, rows: Floats, values: Floats) -> Floats:
        """Log density (nats) of the target of each row at a value of its own."""
        members, log_weight = self._copies(rows)
        log_density = [
            one.log_densities(values)
            if isinstance(one, Prediction)
            else _log_density(one, values)[:, np.newaxis]
            for one in members
        ]
        return np.asarray(np.logaddexp.reduce(np.hstack(log_density) + log_weight, axis=1))

    def log_density_of_rows(self, rows: Floats) -> Floats:
        """Log density (nats) of the rows themselves, whatever their targets."""
        with without_warnings(len(self.densities) > 1):
            log_density = [density.log_density(rows) for density in self.densities.values()]
        joint = np.column_stack(log_density) + log_or_inf(self.mixture)
        return np.asarray(np.logaddexp.reduce(joint, axis=1))

    def draw(self, rows: Floats, n_draws: int, random_state: np.random.RandomState) -> Floats:
        """Targets for each row, shape (n_rows, n_draws)."""
        members, log_weight = self._copies(rows)
        by_number = dict(zip(self.used, members))
        source = _draw_columns(np.exp(log_weight), n_draws, random_state)
        drawn = np.empty(source.shape)
        for copy in np.unique(source).tolist():
            row, place = np.nonzero(source == copy)
            m = int(self._member_of_copies[copy])
            if isinstance(self.fitted[m], TargetDensity):
                of_member = self.fitted[m].draw(rows[row], random_state)
            else:
                of_member = by_number[m].draw_normals(row, random_state)
            if self.gate is not None:
                of_member = by_number[m].scaled(of_member, row, float(self.gate.scale[copy]))
            drawn[row, place] = of_member
        return drawn

    def _copies(self, rows: Floats) -> tuple[list[Any], Floats]:
        """Distributions by the members that are used, and log weights of their copies.

        A Prediction by each member, or a Predictive by each density where nothing has weighed them;
        weights of shape (n_rows, n_copies).
        """
        with without_warnings(len(self.used) > 1):
            predictives = [density.predictive(rows) for density in self.densities.values()]
        gate, target = self.gate, self.target
        if gate is None:
            return predictives, np.tile(np.log(self.mixture), (len(rows), 1))
        variance = Predictive.mixture(predictives, self.mixture).variance()
        features = gate.features.transform(rows, variance)
        of_densities = [_atom_probabilities(one, target) for one in predictives]
        members = [
            Prediction.from_density(target, one, atoms, gate.scale[gate.member == m])
            for m, one, atoms in zip(self.used, predictives, of_densities)
        ]
        atoms = np.tensordot(self.mixture, of_densities, axes=1)
        for m, noise in (self.noise or {}).items():
            mean, sd = self.fitted[m].mean_and_sd(rows)
            sds, scales = noise.sds(sd, features), gate.scale[gate.member == m]
            members.append(Prediction.from_normals(target, mean, sds, atoms, scales))
        return members, gate.pool.log_weights(features)

    @property
    def _member_of_copies(self) -> Ints:
        return np.array(self.used) if self.gate is None else self.gate.member


def _weigh(data: NumberData, out_of_fold: OutOfFold) -> NumberPool:
    """Fit the noise of regressors, and the weights of all members."""
    is_density, weight = out_of_fold.is_density, out_of_fold.test_weight
    values, n_members = data.values[out_of_fold.test_index], len(out_of_fold.is_density)
    mean, variance, log_density, atoms = out_of_fold.predictions
    mixture = mixture_weights(log_density[:, is_density, -1], weight)
    spread = (mean - (mean[:, is_density] @ mixture)[:, np.newaxis]) ** 2 + variance
    spread = spread[:, is_density] @ mixture
    gating = GatingFeatures.fit(
        data.target.features, out_of_fold.test_rows, spread, float(data.values.var()), weight
    )
    features = gating.transform(out_of_fold.test_rows, spread)
    atoms = np.tensordot(atoms[:, is_density], mixture, axes=(1, 0))
    no_atom = data.target.atom_of(values) < 0
    noise: dict[int, HeteroscedasticNoise] = {}
    copies: list[tuple[int, float, Floats, Floats]] = []
    for m in range(n_members):
        scales, means, log_densities = DENSITY_SCALES, mean[:, m], log_density[:, m]
        if not is_density[m]:
            if not no_atom.any() or np.isnan(means).any():
                continue
            residual, sd, scales = values - means, np.sqrt(variance[:, m]), REGRESSOR_SCALES
            of_rest = residual[no_atom], sd[no_atom], features[no_atom], weight[no_atom]
            noise[m] = HeteroscedasticNoise.fit(*of_rest, scales)
            sds = noise[m].sds(sd, features)
            prediction = Prediction.from_normals(data.target, means, sds, atoms, scales)
            means, log_densities = prediction.means(), prediction.log_densities(values)
        copies += [(m, *of_copy) for of_copy in zip(scales, repeat(means), log_densities.T)]
    member, scale = (np.array([copy[k] for copy in copies]) for k in (0, 1))
    means, log_density = (np.column_stack([copy[k] for copy in copies]) for k in (2, 3))
    is_unscaled, share = scale == 1.0, weight / weight.sum()
    pool = LinearPool.fit(log_density, means, values, features, weight, is_unscaled)
    log_weight = pool.log_weights(features)
    of_copies = share @ np.exp(log_weight)
    weights = np.bincount(member, of_copies, n_members).astype(np.float64)
    scores = np.full(n_members, np.nan)
    scores[member[is_unscaled]] = share @ log_density[:, is_unscaled]
    pooled = float(share @ np.logaddexp.reduce(log_density + log_weight, axis=1))
    counts = weights >= _SMALLEST
    weights[~counts] = 0.0
    counts[is_density] |= mixture > 0.0
    used = np.flatnonzero(counts).tolist()
    kept = counts[member] & (is_unscaled | (of_copies >= _SMALLEST))
    gate = Gate(gating, LinearPool(pool.coef[:, kept]), member[kept], scale[kept])
    noise = {m: one for m, one in noise.items() if counts[m]}
    mixture = mixture[counts[is_density]]
    return NumberPool(data.target, mixture, weights, scores, pooled, used, gate, noise)


def _draw_columns(prob: Floats, n_draws: int, random_state: np.random.RandomState) -> Ints:
    """Numbers of columns drawn by the probabilities of each row, shape (n_rows, n_draws)."""
    end = np.cumsum(prob, axis=1)
    u = random_state.random_sample((len(prob), n_draws)) * end[:, -1:]
    return np.asarray((u[:, :, np.newaxis] >= end[:, np.newaxis, :-1]).sum(axis=2))
