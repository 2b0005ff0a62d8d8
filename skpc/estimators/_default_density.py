"""The density of an estimator that gets ``density=None``: what predicts held-out cells best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, gen_batches

from skpc._arrays import Floats
from skpc._threads import in_threads
from skpc.densities import Density
from skpc.domain import Domain, merge_rows
from skpc.estimators._circuit_density import CircuitDensity
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.soft_learn import SoftLearnSPN
from skpc.estimators.table_mixture import TableMixture
from skpc.pooling.folds import hold_out

#: The scores of densities, by rows held out, their weights, and what is left of these rows.
_Scores = Callable[[Sequence[CircuitDensity], Floats, Floats, Floats], list[float]]
#: Fraction of the rows that are held out, and of their cells that are removed.
_HELD_OUT = 0.2
_REMOVED = 0.3
#: With fewer distinct rows than this nothing is held out.
_FEWEST = 20
#: By how much another density has to be better than a cutset network, whose answers are faster: in
#: nats per removed cell, and as a proportion of the variance of removed cells.
_WORTH_NATS, _WORTH_VARIANCE = 0.02, 0.005
#: Rows that are asked about at a time.
_ROWS = 1024


def fit_for_cells(table: Any, weight: Floats, random_state: Any, verbose: int) -> CircuitDensity:
    """Fit what fills missing cells: a cutset network, or a TableMixture where there are numbers.

    Where there are two, their completions of removed cells of held-out rows are compared. The one
    that explains more learns from all rows.

    Parameters
    ----------
    table : DataFrame or ndarray of shape (n_rows, n_features)
        The checked training rows.
    weight : ndarray of shape (n_rows,)
        Their positive weights.
    random_state : int, RandomState instance or None
        Seeds the densities, and what is held out and removed.
    verbose : int
        Whether the densities show progress.
    """
    shared = {"random_state": random_state, "verbose": verbose}
    network = CutsetNetworkBD(**shared)
    domain = Domain.fit(table, n_bins=network._n_bins, sample_weight=weight)
    rows, weight = merge_rows(domain.encode(table), weight)
    others = [] if domain.is_categorical.all() else [TableMixture(**shared)]
    candidates = [network, *others]
    explained = partial(_explained, _variances(domain, rows, weight))
    return _fit_best(candidates, domain, rows, weight, random_state, explained, _WORTH_VARIANCE)


def fit_for_kernels(
    table: Any, weight: Floats, categorical_features: Any, random_state: Any, verbose: int
) -> CircuitDensity:
    """Fit the density of a kernel machine: a cutset network, SoftLearnSPN or TableMixture.

    What predicts removed cells of held-out rows best learns from all rows. TableMixture is tried
    where there are numbers. Rows with missing cells are left to the cutset network, which is
    structured: between such rows a machine needs a structured circuit.

    Parameters
    ----------
    table : DataFrame or ndarray of shape (n_rows, n_features)
        The checked training rows.
    weight : ndarray of shape (n_rows,)
        Their positive weights.
    categorical_features : "auto", "from_dtype", None or array-like
        As of the densities.
    random_state : int, RandomState instance or None
        Seeds the densities, and what is held out and removed.
    verbose : int
        Whether the densities show progress.
    """
    shared = {
        "categorical_features": categorical_features,
        "random_state": random_state,
        "verbose": verbose,
    }
    network = CutsetNetworkBD(structured=True, **shared)
    domain = Domain.fit(
        table,
        categorical_features=categorical_features,
        n_bins=network._n_bins,
        sample_weight=weight,
    )
    rows, weight = merge_rows(domain.encode(table), weight)
    others: list[CircuitDensity] = []
    if not np.isnan(rows).any():
        others.append(SoftLearnSPN(**shared))
        if not domain.is_categorical.all():
            others.append(TableMixture(**shared))
    candidates = [network, *others]
    return _fit_best(candidates, domain, rows, weight, random_state, _log_scores, _WORTH_NATS)


def _fit_best(
    candidates: Sequence[CircuitDensity],
    domain: Domain,
    rows: Floats,
    weight: Floats,
    random_state: Any,
    scores_of: _Scores,
    worth: float,
) -> CircuitDensity:
    """Fit the first candidate, unless the score of another is better by ``worth``.

    All learn from 80 % of the rows; they are asked about 30 % of the cells of the other rows given
    the rest of their row.
    """
    if len(candidates) == 1 or len(rows) < _FEWEST:
        return candidates[0].fit_rows(domain, rows, weight)
    kept, kept_weight, *asked = _split(domain, rows, weight, check_random_state(random_state))
    # Axes that held-out rows have a part in would speak for densities with bins.
    without = domain.with_axes_of(kept, kept_weight)
    fitted = in_threads(lambda one: clone(one).fit_rows(without, kept, kept_weight), candidates)
    # Nothing speaks for a density that vanishes.
    scores = np.nan_to_num(scores_of(fitted, *asked), nan=-np.inf)
    scores[0] += worth
    return fitted[int(scores.argmax())]._fit_again(domain, rows, weight)


def _split(
    domain: Domain, rows: Floats, weight: Floats, random_state: np.random.RandomState
) -> tuple[Any, ...]:
    """Rows and weights to learn from; rows and weights held out, and what is left of these rows."""
    kept, kept_weight, held, held_weight = hold_out(rows, weight, _HELD_OUT, random_state)
    if held is None:
        held, held_weight = rows[:0], weight[:0]
    removed = random_state.random_sample(held.shape) < _REMOVED
    # Columns that no learner sees do not count.
    left = np.where(removed & ~domain.unseen.is_hidden, np.nan, held)
    return kept, kept_weight, held, held_weight, left


def _log_scores(
    fitted: Sequence[CircuitDensity], held: Floats, held_weight: Floats, left: Floats
) -> list[float]:
    """Mean log density of a removed cell given what is left of its row, in nats, for each density.

    All have one domain, and with it one measure.
    """
    n_removed = held_weight @ (np.isnan(left) & ~np.isnan(held)).sum(axis=1)
    if n_removed == 0.0:
        return [0.0] * len(fitted)
    scores = []
    for density in fitted:
        answers = density._density
        # A row so far away that its density vanishes: nothing is known of its cells.
        with np.errstate(invalid="ignore"):
            gain = answers.log_density(held) - answers.log_density(left)
        scores.append(float(held_weight @ gain / n_removed))
    return scores


def _explained(
    variance: Floats,
    fitted: Sequence[CircuitDensity],
    held: Floats,
    held_weight: Floats,
    left: Floats,
) -> list[float]:
    """Proportion of the variance of a removed cell that is explained, for each density.

    Posterior means explain numbers, and posterior probabilities explain the indicators of
    categories. The result is a mean over the removed cells. The variances are those of all rows:
    where a few values are extreme, those of the rows held out would be too small.
    """
    removed = np.isnan(left) & ~np.isnan(held) & (variance > 0.0)
    n_removed = float(held_weight @ removed.sum(axis=1))
    if n_removed == 0.0:
        return [0.0] * len(fitted)
    share = held_weight[:, np.newaxis] / np.where(variance > 0.0, variance, 1.0)
    scores = []
    for density in fitted:
        lost = 0.0
        for part in gen_batches(len(held), _ROWS):
            errors = _squared_errors(density._density, held[part], left[part])
            lost += float((share[part] * errors)[removed[part]].sum())
        scores.append(1.0 - lost / n_removed)
    return scores


def _variances(domain: Domain, rows: Floats, weight: Floats) -> Floats:
    """Variance of each number; for each category, the summed variances of its indicators."""
    found = np.zeros(domain.n_features)
    for column, values in enumerate(rows.T):
        known = ~np.isnan(values)
        values, mass = values[known], weight[known] / weight[known].sum()
        if len(np.unique(values)) < 2:
            continue
        if domain.is_categorical[column]:
            found[column] = 1.0 - (np.bincount(values.astype(np.int64), mass) ** 2).sum()
        else:
            found[column] = mass @ (values - mass @ values) ** 2
    return found


def _squared_errors(answers: Density, held: Floats, left: Floats) -> Floats:
    """Squared errors of what a density says of each cell, given what is left of the row."""
    domain = answers.domain
    numbers, categories = (np.flatnonzero(domain.is_categorical == kind) for kind in (False, True))
    found = np.zeros(held.shape)
    if len(numbers):
        means = answers.means(left, numbers.tolist())
        found[:, numbers] = (held[:, numbers] - means[:, numbers]) ** 2
    if len(categories):
        for column, cells in zip(categories.tolist(), answers.posteriors(left, categories)):
            prob = np.asarray(cells.probabilities)
            indicators = held[:, [column]] == np.arange(prob.shape[1])
            found[:, column] = ((indicators - prob) ** 2).sum(axis=1)
    return found
