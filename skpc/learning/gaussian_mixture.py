r"""Mixtures of Gaussians of scores and tables of states, by expectation maximisation.

A component has one or more Gaussians with one mean, whose covariances are multiples of each other,
and independent tables of the states of categories and atoms; missing cells are integrated out. A
background of known density may take rows that no component describes. Covariances are shrunk
twice: all of them to a prior, and each to what they have in common. With :math:`d` numbers, and
components of weights :math:`N_k` (:math:`N` together) whose rows have the scatter :math:`S_k` about
their mean,

.. math::

    W = \frac{\sum_k S_k + \nu d T}{N + \nu d}, \qquad
    \Sigma_k = \frac{S_k + \nu' d W'}{N_k + \nu' d} ,

where T is the covariance of the prior, :math:`\nu` is its strength and :math:`\nu'` that of the
common covariance W, and W' is W with a part of it drawn to its diagonal. A single component counts
the rows of the prior among its own.

The plain twin is ``tests/naive/table_mixture.py``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints, owners
from skpc._fitting import Fit, Rows, Statistics, Stop, learn
from skpc.counting.column_laws import rows_like_columns
from skpc.learning.categorical import log_tables
from skpc.learning.factors import N_START, Factors, factored
from skpc.variables.gaussians import Gaussians, squared_distances, statistics
from skpc.variables.patterns import Patterns

#: Widths of the Gaussians of a component with heavy tails, in the unit of its covariance.
TAILS = (0.6, 1.0, 1.7, 3.0)
#: Numbers of a row from which on conditional means of many missingness patterns are costly.
_MANY_NUMBERS = 50
#: Weight of a Gaussian that has lost all rows: no division by zero.
_LEAST_WEIGHT = 1e-100


class MixtureParams(NamedTuple):
    """What a mixture is, and how its components are drawn to each other and to a prior.

    Attributes
    ----------
    n_components : int
        Number of components.
    strength : float
        Rows for each number that are added to those of each component; they have the covariance
        that is pooled over the components.
    to_diagonal : float
        Part of the pooled covariance that is replaced by its diagonal.
    widths : tuple of float
        A component has a Gaussian of each width around one mean: one, or several for heavy tails.
    n_factors : int
        Factors that covariances are made from, plus independent noise; 0 for full covariances.
    prior_strength : float
        Rows for each number that are added to all rows; they have the covariance of the prior.
    factorised : bool
        Whether the numbers of a component are independent.
    crossed : tuple of int
        Tables whose combinations of states divide the rows: each component has one of these.
    """

    n_components: int
    strength: float = 0.5
    to_diagonal: float = 0.0
    widths: tuple[float, ...] = (1.0,)
    n_factors: int = 0
    prior_strength: float = 0.0
    factorised: bool = False
    crossed: tuple[int, ...] = ()


class MixturePrior(NamedTuple):
    """What is known of a mixture before its rows.

    Attributes
    ----------
    state_ptr : ndarray of shape (n_tables + 1,)
        Where the states of each table begin.
    state_counts : ndarray of shape (n_states,)
        Pseudo-counts of the states, positive.
    mean : ndarray of shape (d,)
        Where EM starts.
    covariance : ndarray of shape (d, d)
        Where EM starts, and what ``prior_strength`` draws covariances to.
    added_variances : callable
        Takes means of components and returns what is added to the variances of their narrowest
        Gaussians, both of shape (n_components, d).
    smallest_sd : ndarray of shape (d,)
        Smallest standard deviations of a component.
    background_weight : float
        Weight of the background, which may be zero.
    """

    state_ptr: Ints
    state_counts: Floats
    mean: Floats
    covariance: Floats
    added_variances: Callable[[Floats], Floats]
    smallest_sd: Floats
    background_weight: float = 0.0


class MixtureRows(NamedTuple):
    """Rows as a mixture reads them.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, d)
        Scores of numbers; NaN where a cell is missing, or an atom.
    patterns : Patterns
        The missingness patterns of the scores.
    states : ndarray or sparse matrix of shape (n_rows, n_states)
        Indicators of the states of all tables.
    background : ndarray of shape (n_rows,)
        Log density (nats) of the rows under the background.
    log_base : ndarray of shape (n_rows,)
        The logarithm (nats) that turns densities of scores into densities of the numbers: the
        slopes of the scores, and the steps of lattices at atoms.
    """

    scores: Floats
    patterns: Patterns
    states: Any
    background: Floats
    log_base: Floats

    @property
    def are_costly(self) -> bool:
        """Whether the conditional means of missing cells take nearly all of the time of EM."""
        is_costly = self.scores.shape[1] >= _MANY_NUMBERS and self.have_many_patterns
        return is_costly and not np.isnan(self.scores).all(axis=0).any()

    @property
    def have_many_patterns(self) -> bool:
        """Whether few rows share a missingness pattern."""
        many_patterns = 0.2
        return len(self.patterns.observed) > many_patterns * len(self.scores)

    def only(self, rows: Bools) -> Self:
        """The marked rows."""
        # `take` releases Python's lock for other threads; boolean indexing does not.
        place = np.flatnonzero(rows)
        scores = self.scores.take(place, axis=0)
        taken_parts = (part[place] for part in self[2:])
        return type(self)(scores, Patterns.from_scores(scores), *taken_parts)


class GaussianMixture(NamedTuple):
    """A mixture whose components have Gaussians of all scores and a table of each column of states.

    The Gaussians of all components stand in one list: those of a component, which differ by their
    widths, next to each other.

    Attributes
    ----------
    weights : ndarray of shape (n_components,)
        They sum to one, without the background.
    log_table : ndarray of shape (n_components, n_states)
        Log probabilities of the states of all columns, side by side.
    gaussians : Gaussians
        The Gaussian of width one of each component.
    component : ndarray of shape (n_gaussians,), int
        The component that each Gaussian belongs to, increasing.
    width : ndarray of shape (n_gaussians,)
        The covariance of a Gaussian is that of its component times the square of its width.
    proportion : ndarray of shape (n_gaussians,)
        The weight of each Gaussian in its component.
    noise : ndarray of shape (n_components, d), default=None
        The variances that factors do not explain, where covariances are made from factors.
    """

    weights: Floats
    log_table: Floats
    gaussians: Gaussians
    component: Ints
    width: Floats
    proportion: Floats
    noise: Floats | None = None

    def joint(self, rows: MixtureRows) -> Floats:
        """Log weight plus log density (nats) of each Gaussian, of shape (n_gaussians, n_rows)."""
        square, log_base = squared_distances(self.gaussians, rows.scores, rows.patterns)
        n_observed = rows.patterns.n_observed
        log_base += n_observed * math.log(2.0 * math.pi)
        log_base *= -0.5
        log_base += np.log(self.weights)[:, np.newaxis]
        log_base += (rows.states @ self.log_table.T).T
        joint = (-0.5 / self.width**2)[:, np.newaxis] * square[self.component]
        joint += log_base[self.component]
        joint += np.log(self.proportion)[:, np.newaxis]
        # The root of the determinant has the width as a factor for each observed number.
        joint -= np.multiply.outer(np.log(self.width), n_observed)
        return joint

    def log_density(self, rows: MixtureRows, background_weight: float) -> Floats:
        """Log density (nats) of rows, the background included, shape (n_rows,)."""
        return to_responsibilities(self.joint(rows), rows, background_weight) + rows.log_base

    @classmethod
    def stacked(cls, models: list[Self], weights: Floats) -> Self:
        """A mixture of mixtures."""
        component_starts = np.cumsum([0, *(len(model.weights) for model in models[:-1])])
        parts = zip(*(model.gaussians for model in models))
        return cls(
            np.concatenate([weight * model.weights for weight, model in zip(weights, models)]),
            np.concatenate([model.log_table for model in models]),
            Gaussians(*(np.concatenate(part) for part in parts)),
            np.concatenate(
                [begin + model.component for begin, model in zip(component_starts, models)]
            ),
            np.concatenate([model.width for model in models]),
            np.concatenate([model.proportion for model in models]),
        )

    def by_component(self, by_gaussian: Floats) -> Floats:
        """Sums over the Gaussians of each component, of shape (n_components, n_rows)."""
        # The Gaussians of a component stand next to each other: their sums are of segments.
        segment_starts = np.searchsorted(self.component, np.arange(len(self.weights)))
        return np.add.reduceat(by_gaussian, segment_starts, axis=0)

    def n_parameters(self, state_ptr: Ints, n_factors: int) -> int:
        """Number of free parameters; covariances are made from factors, or full with 0."""
        n_components, d = self.gaussians.mean.shape
        full = d * (d + 1) // 2
        n_in_covariance = min(d * (n_factors + 1), full) if n_factors else full
        # The last probability of a table follows from the others.
        n_in_tables = int(state_ptr[-1]) - (len(state_ptr) - 1)
        return n_components * (d + n_in_covariance + n_in_tables) + len(self.width) - 1


@dataclass(frozen=True, eq=False)
class Sums(Statistics):
    """Sums over rows, the statistics of the E-step.

    Attributes
    ----------
    centre : ndarray of shape (n_components, d)
        The means that ``total`` and ``square`` are counted from.
    weight, total, square : ndarrays
        What :func:`skpc.variables.gaussians.statistics` returns for each component.
    by_width : ndarray of shape (n_components, n_widths)
        Weight of the rows in each Gaussian of each component.
    counts : ndarray of shape (n_components, n_states)
        Weight of the rows in each state.
    squares : ndarray of shape (n_components,)
        Weight of the rows times their squared responsibilities.
    log_likelihood : float
        Sum of the log densities (nats) of the rows.
    """

    centre: Floats
    weight: Floats
    total: Floats
    square: Floats
    by_width: Floats
    counts: Floats
    squares: Floats
    log_likelihood: float = 0.0

    def __add__(self, other: Self) -> Self:
        return replace(super().__add__(other), centre=self.centre)

    @classmethod
    def from_rows(
        cls, model: GaussianMixture, rows: MixtureRows, weight: Floats, log_likelihood: float = 0.0
    ) -> Self:
        """The sums, from the weight of each row in each Gaussian, shape (n_gaussians, n_rows)."""
        # From one list of Gaussians to (n_components, n_widths, n_rows).
        weight = weight.reshape(len(model.weights), -1, weight.shape[1])
        component_weight = weight.sum(axis=1)
        by_width = weight.sum(axis=2)
        # A row in a wide Gaussian says less about the mean and the covariance.
        precision = 1.0 / np.square(model.width[: weight.shape[1]])
        moment_weight = np.einsum("kwr,w->kr", weight, precision)
        sums = statistics(
            model.gaussians, rows.scores, rows.patterns, moment_weight, component_weight
        )
        counts = component_weight @ rows.states
        total = component_weight.sum(axis=0)
        # Rows that the background has taken have nothing to divide.
        total[total == 0.0] = 1.0
        squares = np.einsum("kr,kr,r->k", component_weight, component_weight, 1.0 / total)
        return cls(model.gaussians.mean, *sums, by_width, counts, squares, log_likelihood)

    @classmethod
    def from_model(cls, model: GaussianMixture, n_rows: float) -> Self:
        """The sums over ``n_rows`` rows that are distributed like a model."""
        count = n_rows * model.weights
        mean = model.gaussians.mean
        by_width = count[:, np.newaxis] * model.proportion.reshape(len(count), -1)
        weight = by_width @ (1.0 / model.width[: by_width.shape[1]] ** 2)
        square = count[:, np.newaxis, np.newaxis] * model.gaussians.covariance
        counts = count[:, np.newaxis] * np.exp(model.log_table)
        return cls(mean, weight, 0.0 * mean, square, by_width, counts, 0.0 * count)

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Means of components (n_components, d), and scatters about them (n_components, d, d)."""
        weight = np.maximum(self.weight, _LEAST_WEIGHT)[:, np.newaxis]
        # Sums are about a centre near the mean, which keeps their digits, and move to it here.
        shift = self.total / weight
        around = weight[:, :, np.newaxis] * shift[:, :, np.newaxis] * shift[:, np.newaxis]
        return self.centre + shift, self.square - around


class ParametrisedMixture(NamedTuple):
    """A mixture whose parameters are learned; see :class:`skpc._fitting.Parametrised`."""

    mixture: GaussianMixture
    prior: MixturePrior
    params: MixtureParams

    @classmethod
    def from_prior(
        cls, rows: MixtureRows, weight: Floats, prior: MixturePrior, params: MixtureParams
    ) -> Self:
        """Components that all equal the prior; they fill in missing cells at the start."""
        n_components = params.n_components
        d = len(prior.mean)
        # From factors EM needs fewer iterations. Several components would lose to the factors what
        # keeps them apart.
        if n_components == 1 and rows.are_costly and len(weight) > d:
            # Values farther from the centre, in standard deviations, are drawn in for the factors.
            clip_sds = 4.0
            far = clip_sds * np.sqrt(prior.covariance.diagonal())
            scores = np.clip(rows.scores, prior.mean - far, prior.mean + far)
            gaussians = Factors.fit(scores, weight, N_START).gaussians()
        else:
            covariance = np.tile(prior.covariance, (n_components, 1, 1))
            mean = np.tile(prior.mean, (n_components, 1))
            gaussians = Gaussians.from_covariance(mean, covariance)
        precision = 1.0 / np.square(params.widths)
        mixture = GaussianMixture(
            np.full(n_components, 1.0 / n_components),
            log_tables(np.tile(prior.state_counts, (n_components, 1)), prior.state_ptr),
            gaussians,
            np.repeat(np.arange(n_components), len(precision)),
            np.tile(params.widths, n_components),
            np.tile(precision / precision.sum(), n_components),
        )
        return cls(mixture, prior, params)

    def responsibilities(self, rows: MixtureRows) -> Floats:
        """Posterior probabilities of the components, shape (n_components, n_rows)."""
        share = self.mixture.joint(rows)
        to_responsibilities(share, rows, self.prior.background_weight)
        return self.mixture.by_component(share)

    def expected_given(self, rows: MixtureRows, weight: Floats, responsibility: Floats) -> Sums:
        """The sums over rows with given responsibilities, shape (n_components, n_rows)."""
        proportion = self.mixture.proportion.reshape(len(responsibility), -1, 1)
        share = responsibility[:, np.newaxis] * proportion * weight
        return Sums.from_rows(self.mixture, rows, share.reshape(-1, len(weight)))

    def expected(self, rows: MixtureRows, weight: Floats) -> Sums:
        """The E-step."""
        share = self.mixture.joint(rows)
        log_density = to_responsibilities(share, rows, self.prior.background_weight)
        log_likelihood = float(weight @ (log_density + rows.log_base))
        share *= weight
        return Sums.from_rows(self.mixture, rows, share, log_likelihood)

    def m_step(self, sums: Sums) -> Self:
        """The most probable parameters."""
        prior = self.prior
        params = self.params
        mean, scatter = sums.moments
        by_width = np.maximum(sums.by_width, _LEAST_WEIGHT)
        count = by_width.sum(axis=1)
        covariance = _covariances(scatter, count, prior, params)
        if params.factorised:
            covariance *= np.eye(mean.shape[1])
        diagonal = np.arange(mean.shape[1])
        # The narrowest Gaussian of a component must not be narrower than the steps of a lattice.
        added = prior.added_variances(mean) / min(params.widths) ** 2
        variance = covariance[:, diagonal, diagonal] + added
        covariance[:, diagonal, diagonal] = np.maximum(variance, prior.smallest_sd**2)
        noise = None
        if params.n_factors:
            loadings, noise = factored(covariance, params.n_factors, self.mixture.noise)
            gaussians = Gaussians.from_factors(mean, loadings, noise)
        else:
            gaussians = Gaussians.from_covariance(mean, covariance)
        common_share = by_width.sum(axis=0) / count.sum()
        # Rows of a component whose widths are distributed like those of all components.
        rows_like_all = 2.0
        proportion = by_width + rows_like_all * common_share
        proportion /= (count + rows_like_all)[:, np.newaxis]
        mixture = self.mixture._replace(
            weights=count / count.sum(),
            log_table=log_tables(sums.counts + self._added_counts(sums, count), prior.state_ptr),
            gaussians=gaussians,
            proportion=proportion.ravel(),
            noise=noise,
        )
        return self._replace(mixture=mixture)

    def _added_counts(self, sums: Sums, weight: Floats) -> Floats:
        """Pseudo-counts of the states, shape (n_components, n_states).

        ``weight`` is that of the rows of each component.
        """
        prior = self.prior
        counts = sums.counts
        n_tables = len(prior.state_ptr) - 1
        n_components = len(weight)
        if not n_tables:
            return np.zeros_like(counts)
        sizes = np.diff(prior.state_ptr)
        # Cells of all components end to end, shape (n_components * n_states,).
        component, state = np.divmod(np.arange(counts.size), counts.shape[1])
        column = owners(sizes)
        table = component * n_tables + column[state]
        mass = np.repeat(weight, n_tables)
        share = np.exp(log_tables(prior.state_counts[np.newaxis], prior.state_ptr)[0])
        unit = (sums.squares / weight)[component]
        cells = counts.ravel(), table, state, mass, share, prior.state_ptr
        like_column = rows_like_columns(*cells, unit).reshape(n_components, -1)
        added_counts = like_column + prior.state_counts
        is_crossed = np.repeat(np.isin(np.arange(n_tables), self.params.crossed), sizes)
        # Of a crossed table a component has one state: the others, of less weight than this, stay
        # next to impossible.
        least_count = 1e-6
        impossible = 1e-12
        return np.where(is_crossed & (counts < least_count), impossible, added_counts)


def crossed(state_ptr: Ints, n_combinations: float) -> Ints:
    """The tables with the fewest states whose states have at most ``n_combinations`` together."""
    sizes = np.diff(state_ptr)
    order = np.argsort(sizes, kind="stable")
    return order[np.cumprod(sizes[order], dtype=np.float64) <= n_combinations]


def fit_gaussian_mixture(
    rows: MixtureRows,
    weight: Floats,
    starts: Sequence[GaussianMixture | Floats],
    prior: MixturePrior,
    params: MixtureParams,
    stop: Stop,
) -> Fit:
    """Fit a mixture by expectation maximisation.

    Parameters
    ----------
    rows : MixtureRows
    weight : ndarray of shape (n_rows,)
        Positive.
    starts : sequence of GaussianMixture or ndarray of shape (n_components, n_rows)
        Where to begin: a model of the same parameters, or responsibilities, of as many components
        as ``params`` has or fewer. The likeliest result of several starts is kept.
    prior : MixturePrior
        What is known before the rows.
    params : MixtureParams
        What the mixture is.
    stop : Stop
        When EM ends.

    Returns
    -------
    Fit
        Of a :class:`ParametrisedMixture`.
    """
    # Later iterations would raise the likelihood of these rows, but lower that of other rows: EM of
    # costly rows ends when an iteration gains less than this for each number.
    tol_of_number = 8e-3
    models = []
    for start in starts:
        if isinstance(start, GaussianMixture):
            models.append(ParametrisedMixture(start, prior, params))
            continue
        # Few distinct rows have fewer clusters than components that were asked for.
        start_params = params._replace(n_components=len(start))
        blank = ParametrisedMixture.from_prior(rows, weight, prior, start_params)
        sums = blank.expected_given(rows, weight, start)
        models.append(blank.m_step(sums))
        is_simple = len(blank.mixture.width) == 1 and not prior.background_weight
        if is_simple and rows.patterns.are_complete:
            # All rows belong to the one Gaussian, whatever it is.
            return Fit(models[0], np.nan, sums)
    if rows.are_costly:
        stop = stop._replace(tol=max(stop.tol, tol_of_number * rows.scores.shape[1]))
    return learn(models, Rows(rows, weight), stop, n_products=np.inf)


def pooled(scatter: Floats, count: float, prior: MixturePrior, params: MixtureParams) -> Floats:
    """The covariance that all components have in common, from their scatters and the prior."""
    added = params.prior_strength * len(prior.mean)
    return (scatter.sum(axis=0) + added * prior.covariance) / (count + added)


def _covariances(
    scatter: Floats, count: Floats, prior: MixturePrior, params: MixtureParams
) -> Floats:
    """Covariances of components, drawn to the pooled one, from their scatters and weights."""
    d = len(prior.mean)
    within = pooled(scatter, float(count.sum()), prior, params)
    target = (1.0 - params.to_diagonal) * within
    np.fill_diagonal(target, within.diagonal())
    # One component has all rows, those of the prior too; several have these in common.
    prior_rows = params.prior_strength * d if len(count) == 1 else 0.0
    added = params.strength * d
    count = count[:, np.newaxis, np.newaxis]
    covariance = scatter + prior_rows * prior.covariance + added * target
    covariance /= count + prior_rows + added
    # Rounding must leave it symmetric.
    return 0.5 * (covariance + covariance.transpose(0, 2, 1))


def to_responsibilities(joint: Floats, rows: MixtureRows, background_weight: float) -> Floats:
    """Log densities (nats) of rows; their joint log densities become responsibilities in place.

    ``joint`` is what :meth:`GaussianMixture.joint` returns, shape (n_gaussians, n_rows).
    """
    # Smaller responsibilities become zero: the row is left out of the sums of the Gaussian.
    negligible = 1e-7
    log_background = np.full(joint.shape[1], -np.inf)
    if background_weight > 0.0:
        joint += math.log1p(-background_weight)
        log_background = math.log(background_weight) + rows.background
    # The greatest of the terms is taken out, so that their sum does not underflow.
    highest = np.maximum(joint.max(axis=0), log_background)
    joint -= highest
    np.exp(joint, out=joint)
    total = joint.sum(axis=0) + np.exp(log_background - highest)
    joint /= total
    joint[joint <= negligible] = 0.0
    return highest + np.log(total)
