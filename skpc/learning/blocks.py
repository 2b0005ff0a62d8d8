"""Blocks of numbers: mixtures of them, and what held-out rows say about dividing a part.

A component is a Gaussian of the scores of all numbers and independent states of categories and
atoms. Covariances are shrunk twice. With :math:`d` numbers, and components of weights :math:`N_k`
whose rows have the scatter :math:`S_k` about their mean,

.. math::

    W = \\frac{\\sum_k S_k + \\nu d T}{\\sum_k N_k + \\nu d}, \\qquad
    \\Sigma_k = \\frac{S_k + \\nu' d W}{N_k + \\nu' d} .

The target T is the W of the division that the part comes from, so that small parts resemble larger
ones. Held-out rows choose both strengths, and decide whether several components are worth while.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from skpc._arrays import Floats, Ints
from skpc._threads import each
from skpc.learning.factorised import Design
from skpc.learning.factors import N_START, Factors
from skpc.variables import ScoredColumn
from skpc.variables.gaussians import Gaussians, Patterns, log_densities, statistics

#: Strengths to choose from, in rows for each number: of the shrinkage of a whole part, and of the
#: components to what they have in common.
_STRENGTHS = (0.004, 0.02, 0.1, 0.5, 2.0, 8.0)
_STRENGTHS_WITHIN = (0.03, 0.1, 0.3, 1.0, 3.0)
#: The strength before there is a choice.
USUAL_STRENGTH = 0.3
#: EM stops when it raises the mean log density (nats) of the rows by less: that of clusters, and
#: that of one block, where only missing cells take more than one iteration.
_TOL, _TOL_ALONE = 1e-3, 1e-4
#: Numbers from which on a row with missing cells is costly: as much as a row without them costs,
#: times the number of missing cells.
_MANY = 50
#: The tolerance for each number where rows are costly. Later iterations raise the likelihood of
#: these rows, but lower that of other rows.
_TOL_NUMBER = 8e-3
#: Largest number of rows that are held out at a time where rows are costly.
_MOST_HELD_OUT = 1000
#: Smaller responsibilities count as zero.
_NEGLIGIBLE = 1e-12
#: Part of the standard deviation of a column by which each score is blurred, so that columns that
#: follow from each other leave a variance.
_SMALLEST_SD = 1e-4
#: Standard deviation of the background, in those of the columns.
WIDE = 3.0
#: Smallest weight of a component.
_SMALLEST_WEIGHT = 1e-100


class Shrinkage(NamedTuple):
    """What the covariance of a part is shrunk to (standardised scores), and how strongly."""

    target: Floats
    strength: float = USUAL_STRENGTH

    def only(self, numbers: NDArray[np.bool_]) -> Shrinkage:
        """That of some of the numbers."""
        return self._replace(target=self.target[np.ix_(numbers, numbers)])


class BlockRows(NamedTuple):
    """Rows of a part, and what their components share whatever the rows are.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, d)
        Standardised scores of the numbers; NaN where a cell has no score.
    patterns : Patterns
        Those of the scores.
    state : ndarray of shape (n_rows, n_all_states)
        Indicators of the states of all columns with states.
    state_ptr : ndarray of shape (n_columns + 1,)
        The states of the i-th of these are ``state_ptr[i] .. state_ptr[i + 1]``.
    weight : ndarray of shape (n_rows,)
        Positive.
    mean : ndarray of shape (d,)
        Mean scores of the part, 0 for a column without scores in it: EM starts there.
    blur : ndarray of shape (d,)
        Variance of each observed score about the value that it stands for.
    smallest_sd : ndarray of shape (d,)
        Smallest standard deviations of a component.
    alpha : float
        Laplace pseudo-count of each state.
    """

    scores: Floats
    patterns: Patterns
    state: Floats
    state_ptr: Ints
    weight: Floats
    mean: Floats
    blur: Floats
    smallest_sd: Floats
    alpha: float

    @classmethod
    def of(
        cls, design: Design, weight: Floats, columns: list[ScoredColumn], alpha: float
    ) -> BlockRows:
        """Rows of given weights; the columns are those of the numbers."""
        sd, total = design.column_sd, weight @ design.seen
        shift = weight @ design.offset / np.where(total > 0.0, total, 1.0)
        scores = np.where(design.seen > 0.0, design.offset, np.nan) / sd
        mean = design.column_mean + shift
        steps = [column._replace(smallest_sd=0.0) for column in columns]
        half = np.array([one.smallest_sds(at) for one, at in zip(steps, mean)]).reshape(-1)
        smallest = np.maximum(half, [column.smallest_sd for column in columns]) / sd
        blur = (half / sd) ** 2 + _SMALLEST_SD**2
        fixed = shift / sd, blur, smallest, alpha
        patterns = Patterns.from_scores(scores)
        return cls(scores, patterns, design.state, design.state_ptr, weight, *fixed)

    @property
    def are_complete(self) -> bool:
        """Whether no score is missing."""
        return bool(self.patterns.observed.all())

    @property
    def are_costly(self) -> bool:
        """Whether filling in missing cells is what takes the time."""
        return len(self.mean) >= _MANY and not self.are_complete

    def start(self, n_components: int, target: Floats) -> Gaussians:
        """Where EM starts: at the target, or at factors where few steps should do."""
        has_scores = not np.isnan(self.scores).all(axis=0).any()
        # Several components would lose to the factors what keeps them apart.
        is_alone = n_components == 1 and len(self.weight) > len(self.mean)
        if is_alone and self.are_costly and has_scores:
            return Factors.fit(self.scores, self.weight, N_START).gaussians(1)
        mean = np.tile(self.mean, (n_components, 1))
        return Gaussians.from_covariance(mean, np.tile(target, (n_components, 1, 1)))

    def chosen(self, rows: NDArray[np.bool_]) -> BlockRows:
        """Some of the rows."""
        # Unlike marks in brackets, this leaves Python's lock to other threads.
        place = np.flatnonzero(rows)
        scores = self.scores.take(place, axis=0)
        return self._replace(
            scores=scores,
            patterns=Patterns.from_scores(scores),
            state=self.state.take(place, axis=0),
            weight=self.weight[place],
        )


class Moments(NamedTuple):
    """Expected sums over rows of each component: weight, mean, scatter about it, states."""

    weight: Floats
    mean: Floats
    scatter: Floats
    states: Floats

    @classmethod
    def of(cls, rows: BlockRows, membership: Floats, gaussians: Gaussians) -> Moments:
        """Add up rows; the Gaussians fill in what is missing."""
        weight = membership * rows.weight
        count, total, square = statistics(gaussians, rows.scores, rows.patterns, weight)
        count = np.maximum(count, _SMALLEST_WEIGHT)
        shift = total / count[:, np.newaxis]
        square -= total[:, :, np.newaxis] * shift[:, np.newaxis]
        diagonal = np.arange(len(rows.blur))
        seen = weight.sum(axis=1, keepdims=True)
        if not rows.are_complete:
            seen = weight @ ~np.isnan(rows.scores)
        square[:, diagonal, diagonal] += seen * rows.blur
        return cls(count, gaussians.mean + shift, square, weight @ rows.state)

    def within(self, shrinkage: Shrinkage) -> Floats:
        """Covariance within components."""
        added = shrinkage.strength * self.mean.shape[1]
        scatter = self.scatter.sum(axis=0) + added * shrinkage.target
        return np.asarray(scatter / (self.weight.sum() + added))

    def covariances(self, shrinkage: Shrinkage, smallest_sd: Floats) -> Floats:
        """Covariance of each component."""
        added = shrinkage.strength * self.mean.shape[1]
        divisor = (self.weight + added)[:, np.newaxis, np.newaxis]
        found = (self.scatter + added * shrinkage.target) / divisor
        found = 0.5 * (found + found.transpose(0, 2, 1))
        diagonal = np.arange(len(smallest_sd))
        variance = found[:, diagonal, diagonal]
        found[:, diagonal, diagonal] = np.maximum(variance, smallest_sd**2)
        return np.asarray(found)

    def log_weight(self) -> Floats:
        """Log weights of the components (nats)."""
        return np.asarray(np.log(self.weight / self.weight.sum()))

    def log_states(self, rows: BlockRows) -> Floats:
        """Log probability (nats) of the states of each row, shape (n_components, n_rows)."""
        count = self.states + rows.alpha
        if not count.shape[1]:
            return np.zeros((len(count), len(rows.weight)))
        total = np.add.reduceat(count, rows.state_ptr[:-1], axis=1)
        log_prob = np.log(count / np.repeat(total, np.diff(rows.state_ptr), axis=1))
        return np.asarray(log_prob @ rows.state.T)


class BlockFit(NamedTuple):
    """A mixture of blocks, fitted to rows.

    ``within`` is the covariance within its components, ``membership`` (n_components, n_rows) tells
    how the rows belong to them.
    """

    moments: Moments
    gaussians: Gaussians
    within: Floats
    membership: Floats


def fit_blocks(
    rows: BlockRows,
    membership: Floats,
    shrinkage: Shrinkage,
    strength_within: float,
    max_iter: int,
) -> BlockFit:
    """Fit a mixture of blocks by EM.

    Parameters
    ----------
    rows : BlockRows
    membership : ndarray of shape (n_components, n_rows)
        To start from. A component alone is shrunk to the target of the part, several to what they
        have in common.
    shrinkage : Shrinkage
        That of the part.
    strength_within : float
        Strength of the shrinkage of several components.
    max_iter : int
        Greatest number of iterations.

    Returns
    -------
    BlockFit
    """
    n_components, before = len(membership), -np.inf
    tol = _TOL if n_components > 1 else _TOL_ALONE
    if rows.are_costly:
        tol = _TOL_NUMBER * len(rows.mean)
    gaussians = rows.start(n_components, shrinkage.target)
    for _ in range(max_iter):
        moments = Moments.of(rows, membership, gaussians)
        within, own = moments.within(shrinkage), shrinkage
        if n_components > 1:
            own = Shrinkage(within, strength_within)
        gaussians = Gaussians.from_covariance(
            moments.mean, moments.covariances(own, rows.smallest_sd)
        )
        if n_components == 1 and rows.are_complete:
            break
        joint = log_densities(gaussians, rows.scores, rows.patterns)
        joint += moments.log_states(rows) + moments.log_weight()[:, np.newaxis]
        log_density = _log_total(joint)
        membership = np.exp(joint - log_density)
        membership[membership < _NEGLIGIBLE] = 0.0
        reached = float(rows.weight @ log_density) / float(rows.weight.sum())
        if reached - before < tol:
            break
        before = reached
    return BlockFit(moments, gaussians, within, membership)


class Division(NamedTuple):
    """What held-out rows say about dividing a part.

    Attributes
    ----------
    strength : float
        Strength of the shrinkage of one block.
    shrinkage : Shrinkage
        That of the part with several.
    strength_within : float
        Strength of the shrinkage of several blocks to what they have in common.
    gain : float
        Log-likelihood (nats) of the held-out rows under several blocks, less that under one.
    """

    strength: float
    shrinkage: Shrinkage
    strength_within: float
    gain: float


def weigh_division(
    rows: BlockRows,
    membership: Floats,
    shrinkage: Shrinkage,
    max_iter: int,
    n_folds: int,
    random_state: np.random.RandomState,
) -> Division:
    """Choose the strengths of shrinkage by held-out rows, and whether to divide a part.

    Parameters
    ----------
    rows : BlockRows
        Two or more.
    membership : ndarray of shape (n_components, n_rows)
        How they would be divided.
    shrinkage : Shrinkage
        That of the part, so far.
    max_iter : int
        Greatest number of iterations of EM.
    n_folds : int
        Number of parts of the rows, which are held out in turn; where rows are costly, the gain is
        that of a sample of each part.
    random_state : RandomState
        Draws which rows are held out.

    Returns
    -------
    Division
    """
    n_rows = len(rows.weight)
    n_folds = min(n_folds, n_rows)
    place, fold = np.divmod(random_state.permutation(n_rows), n_folds)
    is_asked = place < (_MOST_HELD_OUT if rows.are_costly else n_rows)

    def fit(number: int, start: Floats, strength_within: float) -> tuple[BlockFit, BlockRows]:
        held_out = fold == number
        train, test = rows.chosen(~held_out), rows.chosen(held_out & is_asked)
        start = np.ascontiguousarray(start[:, ~held_out])
        return fit_blocks(train, start, shrinkage, strength_within, max_iter), test

    starts = (np.ones((1, n_rows)), 0.0), (membership, USUAL_STRENGTH)
    tasks = ((number, *start) for start in starts for number in range(n_folds))
    fits = each(fit, tasks, float(n_rows) * shrinkage.target.size)
    alone, several = fits[:n_folds], fits[n_folds:]
    target = shrinkage.target
    whole = [(Shrinkage(target, strength), 0.0) for strength in _STRENGTHS]
    (one, _), reached_alone = _best(alone, whole)
    within = [(one, strength) for strength in _STRENGTHS_WITHIN]
    (_, strength_within), _ = _best(several, within)
    whole = [(Shrinkage(target, strength), strength_within) for strength in _STRENGTHS]
    (shrinkage, _), reached = _best(several, whole)
    return Division(one.strength, shrinkage, strength_within, reached - reached_alone)


def _best(
    fits: list[tuple[BlockFit, BlockRows]], candidates: list[tuple[Shrinkage, float]]
) -> tuple[tuple[Shrinkage, float], float]:
    """The shrinkage that suits the rows held out from some fits, and their log-likelihood."""
    reached = np.zeros(len(candidates))
    for fit, held_out in fits:
        moments, n_components = fit.moments, len(fit.membership)
        covariance = []
        for own, strength_within in candidates:
            if n_components > 1:
                own = Shrinkage(moments.within(own), strength_within)
            covariance.append(moments.covariances(own, held_out.smallest_sd))
        mean = np.tile(moments.mean, (len(candidates), 1))
        gaussians = Gaussians.from_covariance(mean, np.concatenate(covariance))
        joint = log_densities(gaussians, held_out.scores, held_out.patterns)
        joint = joint.reshape(len(candidates), n_components, -1)
        joint += moments.log_states(held_out) + moments.log_weight()[:, np.newaxis]
        background = _log_background(held_out) - np.log(fit.membership.shape[1])
        for place, one in enumerate(joint):
            reached[place] += np.logaddexp(_log_total(one), background) @ held_out.weight
    best = int(reached.argmax())
    return candidates[best], float(reached[best])


def _log_background(rows: BlockRows) -> Floats:
    """Log density (nats) of wide normal distributions and of even states.

    Its weight of one row keeps single rows from deciding: in the network, rows that no component
    of a part describes belong to other parts.
    """
    seen = ~np.isnan(rows.scores)
    square = (np.where(seen, rows.scores, 0.0) / WIDE) ** 2
    log_peak = -0.5 * np.log(2.0 * np.pi * WIDE**2)
    sizes = np.diff(rows.state_ptr)
    of_states = rows.state @ np.log(np.repeat(sizes, sizes).astype(np.float64))
    return np.asarray(log_peak * seen.sum(axis=1) - 0.5 * square.sum(axis=1) - of_states)


def _log_total(joint: Floats) -> Floats:
    """Log density (nats) of rows from the joint ones of components."""
    # scipy's logsumexp takes several times as long on the few rows of most parts.
    highest = joint.max(axis=0)
    return np.asarray(highest + np.log(np.exp(joint - highest).sum(axis=0)))


def correlated(design: Design, weight: Floats, significance: float) -> NDArray[np.bool_]:
    """Which numbers are correlated, by a t-test of the correlation of each pair.

    Parameters
    ----------
    design : Design
        The rows.
    weight : ndarray of shape (n_rows,)
        Their weights; a row of ``row_weight`` two is two rows that share its weight.
    significance : float
        Pairs with a smaller p-value are correlated.

    Returns
    -------
    ndarray of shape (n_numbers, n_numbers)
    """
    offset, seen = design.offset, design.seen
    weighted, some = weight[:, np.newaxis] * offset, weight[:, np.newaxis] * seen
    total = some.T @ seen
    count = np.where(total > 0.0, total, 1.0)
    mean = weighted.T @ seen / count
    variance = (weighted * offset).T @ seen / count - mean**2
    scale = np.sqrt(np.maximum(variance * variance.T, 0.0))
    covariance = weighted.T @ offset / count - mean * mean.T
    r = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0.0)
    # What the rows are worth: as many of equal weight would give the same variance of a mean.
    square = (weight**2 / design.row_weight)[:, np.newaxis] * seen
    worth = count**2 / np.maximum(square.T @ seen, _SMALLEST_WEIGHT)
    freedom = np.maximum(worth - 2.0, 1.0)
    statistic = np.abs(r) * np.sqrt(freedom / np.maximum(1.0 - r**2, 1e-12))
    return np.asarray(2.0 * stdtr(freedom, -statistic) < significance)
