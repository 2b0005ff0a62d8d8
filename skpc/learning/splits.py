"""Whether SoftLearn splits rows or columns: scores of held-out rows, and tests of independence.

Rows are split where held-out rows are likelier under several Gaussian components than under one,
columns where weighted tests of all pairs find no dependence between groups.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtrc, stdtr

from skpc._arrays import Bools, Codes, Floats, Ints, divisors, weighted_quantiles
from skpc._fitting import Fit, Stop
from skpc._threads import each, product
from skpc.counting.independence import pair_statistics
from skpc.domain import column_moments
from skpc.learning.gaussian_mixture import (
    MixtureParams,
    MixturePrior,
    MixtureRows,
    fit_gaussian_mixture,
)

#: The strength of shrinkage until held-out rows choose one.
USUAL_STRENGTH = 0.3
#: Bins of equal weight in which the numbers of a node are tested for independence; their atoms are
#: states of their own.
TEST_BINS = 4


class _FitAndHeldOut(NamedTuple):
    """A fitted mixture, the rows held out from it, their weights, the weight of a background."""

    fit: Fit
    rows: MixtureRows
    weight: Floats
    background_weight: float


class SplitScore(NamedTuple):
    """What held-out rows say about a mixture of several components beside a single one.

    Attributes
    ----------
    single, mixture : MixtureParams
        The parameters of one component and of several that suit the held-out rows best.
    gain : float
        Log-likelihood (nats) of the held-out rows under several components, less that under one.
    """

    single: MixtureParams
    mixture: MixtureParams
    gain: float


def score_split(
    rows: MixtureRows,
    weight: Floats,
    responsibility: Floats,
    prior: MixturePrior,
    prior_strength: float,
    stop: Stop,
    n_folds: int,
    random_state: np.random.RandomState,
) -> SplitScore:
    """Choose strengths of shrinkage by held-out rows, and whether to split rows into components.

    Parameters
    ----------
    rows : MixtureRows
        Two or more. When held-out rows are scored, a background has the weight of one row, so that
        no single row decides.
    weight : ndarray of shape (n_rows,)
        Positive.
    responsibility : ndarray of shape (n_components, n_rows)
        Memberships of the rows in the clusters of the split.
    prior : MixturePrior
        What is known before the rows.
    prior_strength : float
        The strength of the prior so far.
    stop : Stop
        When EM ends.
    n_folds : int
        Number of parts of the rows, which are held out in turn; where rows are costly, the gain is
        that of a sample of each part.
    random_state : RandomState
        Draws which rows are held out.

    Returns
    -------
    SplitScore
    """
    # Strengths of shrinkage to choose from: of all covariances to the prior, and of the components
    # to what they have in common.
    strengths = (0.004, 0.02, 0.1, 0.5, 2.0, 8.0)
    strengths_within = (0.03, 0.1, 0.3, 1.0, 3.0)
    # Largest number of rows that are held out at a time where rows are costly.
    most_held_out = 1000
    n_rows = len(weight)
    n_folds = min(n_folds, n_rows)
    # The place of a row in a random order tells its fold, and its place within the fold.
    place, fold = np.divmod(random_state.permutation(n_rows), n_folds)
    is_scored = place < (most_held_out if rows.are_costly else n_rows)

    def fit(held_out: int, start: Floats, params: MixtureParams) -> _FitAndHeldOut:
        train = fold != held_out
        test = (fold == held_out) & is_scored
        start = np.ascontiguousarray(start[:, train])
        fitted = fit_split(rows.only(train), weight[train], start, prior, params, stop)
        # The background weighs as one of the rows that the mixture has been fitted to.
        background_weight = 1.0 / (train.sum() + 1.0)
        return _FitAndHeldOut(fitted, rows.only(test), weight[test], background_weight)

    single = MixtureParams(1, prior_strength=prior_strength)
    mixture = MixtureParams(len(responsibility), USUAL_STRENGTH, prior_strength=prior_strength)
    starts = (np.ones((1, n_rows)), single), (responsibility, mixture)
    tasks = ((held_out, *start) for start in starts for held_out in range(n_folds))
    # EM runs once for each fold; strengths are compared by their M-steps alone.
    fits = each(fit, tasks, float(n_rows) * prior.covariance.size)
    single, log_likelihood_single = _best(
        fits[:n_folds], [single._replace(prior_strength=s) for s in strengths]
    )
    # The strengths of several components are chosen one after the other.
    mixture = mixture._replace(prior_strength=single.prior_strength)
    candidates = [mixture._replace(strength=strength) for strength in strengths_within]
    mixture, _ = _best(fits[n_folds:], candidates)
    candidates = [mixture._replace(prior_strength=strength) for strength in strengths]
    mixture, log_likelihood = _best(fits[n_folds:], candidates)
    return SplitScore(single, mixture, log_likelihood - log_likelihood_single)


def fit_split(
    rows: MixtureRows,
    weight: Floats,
    start: Floats,
    prior: MixturePrior,
    params: MixtureParams,
    stop: Stop,
) -> Fit:
    """Fit the components of a split, or one component; see :func:`fit_gaussian_mixture`."""
    # EM of one component only fills in missing cells: it ends when an iteration raises the mean log
    # density (nats) of the rows by less than this.
    tol_alone = 1e-4
    if params.n_components == 1:
        stop = stop._replace(tol=tol_alone)
    return fit_gaussian_mixture(rows, weight, [start], prior, params, stop)


def _best(
    fits: list[_FitAndHeldOut], candidates: list[MixtureParams]
) -> tuple[MixtureParams, float]:
    """The candidate under which the rows held out are likeliest, and their log-likelihood."""
    scores = np.zeros(len(candidates))
    for fit, rows, weight, background_weight in fits:
        for place, params in enumerate(candidates):
            mixture = fit.model._replace(params=params).m_step(fit.statistics).mixture
            scores[place] += weight @ mixture.log_density(rows, background_weight)
    best = int(scores.argmax())
    return candidates[best], float(scores[best])


def independent_groups(
    codes: Codes,
    weight: Floats,
    n_states: Ints,
    significance: float,
    false_discoveries: bool = False,
    yates: bool = True,
) -> Ints:
    """Group columns so that no test finds columns of different groups dependent.

    Every pair is tested by Pearson's chi-square on its weighted contingency table, counted on the
    rows that have both cells; states without weight are left out. With one degree of freedom,
    Yates' correction takes 0.5 off each difference of observed and expected, but no more than the
    difference (``yates``). Columns connected by dependent pairs are one group.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        States of the cells, -1 where missing.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    n_states : ndarray of shape (n_columns,)
        Number of states of each column.
    significance : float
        Pairs with a smaller p-value are dependent.
    false_discoveries : bool, default=False
        Whether ``significance`` is the expected share of independent pairs among those found
        dependent (Benjamini and Hochberg), rather than the level of each test.
    yates : bool, default=True
        Whether tests of one degree of freedom are corrected.

    Returns
    -------
    ndarray of shape (n_columns,)
        Number of the group of each column, from zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.learning.splits import independent_groups
    >>> codes = np.array(
    ...     [[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]] * 5, dtype=np.int16
    ... )
    >>> independent_groups(codes, np.ones(20), np.array([2, 2, 2]), 0.01)
    array([0, 0, 1])
    """
    p_value = _p_values(codes, weight, n_states, yates=yates)
    level = significance
    if false_discoveries:
        # Pairs without degrees of freedom are not tested.
        ordered = np.sort(p_value[p_value < np.inf])
        levels = significance * np.arange(1, len(ordered) + 1) / len(ordered)
        level = levels[ordered < levels].max(initial=0.0)
    dependent = csr_array(p_value < level)
    return np.asarray(connected_components(dependent, directed=False)[1], dtype=np.int64)


def any_dependence(
    codes: Codes,
    weight: Floats,
    n_states: Ints,
    significance: float,
    yates: bool = True,
) -> bool:
    """Whether any two columns depend on each other, at a level for all pairs together.

    The level is divided by the number of pairs (Bonferroni). So far out in the tail, Pearson's
    statistic is too large where a table expects next to nothing in a cell, and the likelihood ratio
    where it expects about one; the smaller of the two is taken.

    Parameters
    ----------
    codes, weight, n_states, yates
        As in :func:`independent_groups`.
    significance : float
        The probability to find dependence where all columns are independent, at most.

    Returns
    -------
    bool
    """
    n_columns = len(n_states)
    level = significance / max(n_columns * (n_columns - 1) / 2, 1.0)
    p_values = _p_values(codes, weight, n_states, cautious=True, yates=yates)
    return bool((p_values < level).any())


def correlated(scores: Floats, weight: Floats, row_weight: Floats, significance: float) -> Bools:
    """Which numbers are correlated, by a t-test of the correlation of each pair.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_numbers)
        NaN where missing.
    weight, row_weight : ndarrays of shape (n_rows,)
        Weights; a row of ``row_weight`` two counts as two rows that share ``weight``.
    significance : float
        Pairs with a smaller p-value are correlated.

    Returns
    -------
    ndarray of shape (n_numbers, n_numbers)
    """
    # Squares of values far from zero would lose their digits.
    offset = scores - column_moments(scores, weight)[0]
    observed = (~np.isnan(scores)).astype(np.float64)
    offset[np.isnan(offset)] = 0.0
    weighted = weight[:, np.newaxis] * offset
    weights = weight[:, np.newaxis] * observed
    # Moments of a pair are from the rows that have both, shape (n_numbers, n_numbers).
    total = product(weights.T, observed)
    count = divisors(total)
    mean = product(weighted.T, observed) / count
    variance = product((weighted * offset).T, observed) / count - mean**2
    scale = np.sqrt(np.maximum(variance * variance.T, 0.0))
    covariance = product(weighted.T, offset) / count - mean * mean.T
    correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0.0)
    # As many rows of equal weight would give the same variance of a mean.
    square = (weight**2 / row_weight)[:, np.newaxis] * observed
    # No pair of columns without common rows is divided by zero.
    smallest_weight = 1e-100
    n_effective = count**2 / np.maximum(product(square.T, observed), smallest_weight)
    freedom = np.maximum(n_effective - 2.0, 1.0)
    statistic = np.abs(correlation) * np.sqrt(freedom / np.maximum(1.0 - correlation**2, 1e-12))
    return 2.0 * stdtr(freedom, -statistic) < significance


def quantile_bins(values: Floats, weight: Floats) -> Ints:
    """The bin of equal weight, of ``TEST_BINS``, in which each value lies; -1 where missing."""
    bins = np.full(len(values), -1)
    observed = np.flatnonzero(~np.isnan(values))
    if len(observed):
        order = observed[np.argsort(values[observed], kind="stable")]
        cumulated = np.cumsum(weight[order])
        edges = weighted_quantiles(values[order], cumulated, np.arange(1, TEST_BINS), TEST_BINS)
        bins[observed] = np.searchsorted(edges, values[observed], side="right")
    return bins


def _p_values(
    codes: Codes,
    weight: Floats,
    n_states: Ints,
    cautious: bool = False,
    yates: bool = True,
) -> Floats:
    """P-values of the tests of pairs (a, b), b < a, of columns, shape (n_columns, n_columns).

    They are infinite for other pairs and for those without degrees of freedom. A cautious test
    takes the smaller of two statistics.
    """
    cells = np.require(codes, np.int16, ("C", "W"))
    statistic, ratio, freedom = pair_statistics(cells, weight, n_states, yates)
    if cautious:
        statistic = np.minimum(statistic, ratio)
    p_value = np.full(freedom.shape, np.inf)
    tested = freedom > 0
    p_value[tested] = chdtrc(freedom[tested], statistic[tested])
    return p_value
