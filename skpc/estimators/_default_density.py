"""The density of those that were given none: the one that predicts held-out cells best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skpc._arrays import Floats
from skpc.domain import Domain, merge_rows
from skpc.estimators._base import CircuitDensity
from skpc.estimators._fitting import hold_out
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.soft_learn import SoftLearnSPN
from skpc.estimators.table_mixture import TableMixture

#: Fraction of the rows that are held out, and of their cells that are removed.
_HELD_OUT = 0.2
_REMOVED = 0.3
#: With fewer distinct rows than this nothing is held out.
_FEWEST = 20
#: By how much another density has to be better than a cutset network, in nats per removed cell: its
#: answers take longer.
_WORTH = 0.02


def fit_for_cells(table: Any, weight: Floats, random_state: Any) -> CircuitDensity:
    """Fit what fills missing cells: a cutset network, or a TableMixture where there are numbers.

    Of two, the one that predicts removed cells of held-out rows better learns from all rows.

    Parameters
    ----------
    table : DataFrame or ndarray of shape (n_rows, n_features)
        The checked training rows.
    weight : ndarray of shape (n_rows,)
        Their positive weights.
    random_state : int, RandomState instance or None
        Seeds the densities, and what is held out and removed.
    """
    network = CutsetNetworkBD(random_state=random_state)
    domain = Domain.fit(table, n_bins=network._n_bins, sample_weight=weight)
    rows, weight = merge_rows(domain.encode(table), weight)
    others = [] if domain.is_categorical.all() else [TableMixture(random_state=random_state)]
    return _fit_best([network, *others], domain, rows, weight, random_state)


def fit_for_kernels(
    table: Any, weight: Floats, categorical_features: Any, random_state: Any
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
    """
    shared = {"categorical_features": categorical_features, "random_state": random_state}
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
    return _fit_best([network, *others], domain, rows, weight, random_state)


def _fit_best(
    candidates: Sequence[CircuitDensity],
    domain: Domain,
    rows: Floats,
    weight: Floats,
    random_state: Any,
) -> CircuitDensity:
    """Fit the first candidate, unless another is better by what it has to be.

    All learn from 80 % of the rows; the score is the log density of 30 % of the cells of the other
    rows given the rest of their row.
    """
    if len(candidates) == 1 or len(rows) < _FEWEST:
        return candidates[0].fit_rows(domain, rows, weight)
    kept, kept_weight, *asked = _split(domain, rows, weight, check_random_state(random_state))
    # Axes that held-out rows have a part in would speak for densities with bins.
    without = domain.with_axes_of(kept, kept_weight)
    fitted = [clone(one).fit_rows(without, kept, kept_weight) for one in candidates]
    scores = np.array([_score(density, *asked) for density in fitted])
    scores[0] += _WORTH
    return fitted[int(scores.argmax())]._fit_again(domain, rows, weight)


def _split(
    domain: Domain, rows: Floats, weight: Floats, random_state: np.random.RandomState
) -> tuple[Any, ...]:
    """Rows and weights to learn from; rows and weights held out, and what is left of these rows."""
    kept, kept_weight, held, held_weight = hold_out(rows, weight, _HELD_OUT, random_state)
    if held is None:
        held, held_weight = rows[:0], weight[:0]
    removed = random_state.random_sample(held.shape) < _REMOVED
    # Columns that no learner sees tell nothing.
    left = np.where(removed & ~domain.unseen.is_hidden, np.nan, held)
    return kept, kept_weight, held, held_weight, left


def _score(density: CircuitDensity, held: Floats, held_weight: Floats, left: Floats) -> float:
    """Mean log density of a removed cell given what is left of its row, in nats."""
    n_removed = held_weight @ np.isnan(left).sum(axis=1)
    if n_removed == 0.0:
        return 0.0
    answers = density._density
    # A row so far away that its density vanishes: nothing is known of its cells.
    with np.errstate(invalid="ignore"):
        gain = answers.log_density(held) - answers.log_density(left)
    return float(held_weight @ gain / n_removed)
