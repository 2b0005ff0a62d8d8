"""Which cells of a table are wrong?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Bools, Floats
from skpc._fitting import all_or_nothing
from skpc._threads import in_threads, threads
from skpc._validation import (
    Interval,
    StrOptions,
    column_of,
    fit_context,
    missing_cells,
    objects_of,
    without_cells,
)
from skpc.domain import Domain, ErrorTail, LogMass, merge_rows
from skpc.estimators._estimator import by_chunks, parameter
from skpc.estimators._learner import ColumnsEstimator
from skpc.estimators._pools import most_bins, refuse_other_density
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.extra_cutsets import ExtraCutsets
from skpc.estimators.hidden_chow_liu import HiddenChowLiuTree
from skpc.estimators.moat import MixtureOfAllTrees
from skpc.learning import deal
from skpc.pooling.errors import MEAN_RATE, Calibration, Cells, Rates, injected, without_errors

#: Parts of the rows that are held out in turn, rounds in which densities are learned without
#: doubtful cells, and passes for the rates in each of them.
_FOLDS, _ROUNDS, _PASSES = 3, 2, 2
#: With fewer distinct rows than this, nothing is held out.
_FEWEST = 20
#: Probability that a number lies between the ends that are explained.
_LEVEL = 0.9


@dataclass(kw_only=True, eq=False, repr=False)
class CellErrorDetector(OneToOneFeatureMixin, TransformerMixin, ColumnsEstimator):
    """Find the wrong cells of a table."""

    density: Any = field(default=None, kw_only=False)
    error_rate: Any = parameter("auto", StrOptions({"auto"}), Real, dict, "array-like")
    fdr: float = parameter(0.1, Interval(Real, 0.0, 1.0, closed="neither"))
    repair: str | None = parameter(None, StrOptions({"mean", "mpe", "sample"}), None)

    #: Densities differ in how they read numbers, but not in what numbers are.
    margins = "auto"

    @property
    def _n_bins(self) -> int | None:
        return most_bins([("", one) for one in self._candidates(None)])

    def _candidates(self, random_state: Any) -> list[Any]:
        """The density that is given, or those of which the best is taken."""
        if self.density is not None:
            return [self.density]
        options = {"random_state": random_state}
        return [
            CutsetNetworkBD(n_components=5, **options),
            HiddenChowLiuTree(**options),
            ExtraCutsets(**options),
        ]

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CellErrorDetector:
        """Learn the density of right cells, and how many cells are wrong."""
        with all_or_nothing(self), threads(self.n_jobs):
            if self.density is not None:
                _refuse_density(self.density)
            table, weight, _ = self._training_rows(X, sample_weight)
            domain = self._domain_of(table, weight)
            rows, weight = merge_rows(domain.encode(table), weight)
            self._learn(domain, rows, weight, check_random_state(self.random_state))
        return self

    def _learn(self, domain: Domain, rows: Floats, weight: Floats, random_state: Any) -> None:
        """Learn from distinct encoded rows."""
        self.domain_, n_features = domain, domain.n_features
        self._tails = [
            ErrorTail.fit(domain, column, cells, weight) for column, cells in enumerate(rows.T)
        ]
        cells = Cells.from_rows(self._tails, rows)
        # A draw that hits the true value is no error.
        self._misses = np.array([1.0 - tail.hits for tail in self._tails])
        rate = self._given_rates()
        given = None if rate is None else Rates(rate, rate, rate, rate)
        rates = given or Rates(*np.full((4, n_features), MEAN_RATE))
        candidates = self._candidates(int(random_state.randint(2**31)))
        best, wrong, self._calibration = candidates[0], np.zeros(rows.shape), None
        self.threshold_, self.informative_ = 1.0 - self.fdr, np.ones(n_features, dtype=bool)
        if len(rows) >= _FEWEST:
            folds = list(deal(weight, _FOLDS, random_state))
            if len(candidates) > 1:
                best = _best(candidates, domain, cells, folds[0], rates.shared)
            for _ in range(_ROUNDS):
                parts = [without_errors(rows, kept, wrong, rates.shared) for kept, _ in folds]
                fitted = in_threads(lambda part: _density(best, domain, *part), parts)
                for _ in range(_PASSES):
                    held = [cells.take(part > 0.0) for _, part in folds]
                    judged = [c.judge(d, rates.shared) for c, d in zip(held, fitted)]
                    ratio = np.concatenate([one.log_ratio for one in judged])
                    of_rows = np.concatenate([part[part > 0.0] for _, part in folds])
                    rates = given or Rates.fit(ratio, of_rows)
                wrong = np.zeros(rows.shape)
                for (_, part), one in zip(folds, judged):
                    some = part > 0.0
                    share = (part[some] / weight[some])[:, np.newaxis]
                    wrong[some] += share * np.nan_to_num(one.probability)
            self._rates = rates
            self._calibrate(fitted, folds, rows, random_state)
            of_folds = np.concatenate([self._calibrated(one) for one in judged])
            self._set_threshold(of_folds, of_rows)
        self._rates = rates
        self.density_ = clone(best).fit_rows(
            domain, *without_errors(rows, weight, wrong, rates.shared)
        )

    @property
    def error_rate_(self) -> Floats:
        return self._rates.rate * self._misses

    def _given_rates(self):
        rate = self.error_rate
        if isinstance(rate, str):
            return None
        n = self.domain_.n_features
        if isinstance(rate, Mapping):
            by = np.full(n, MEAN_RATE)
            by[self.domain_.columns([*rate], "error_rate")] = [*rate.values()]
            rate = by
        e = np.broadcast_to(np.asarray(rate, float), (n,))
        return np.minimum(e / np.maximum(self._misses, 0.5), 0.5)

    def _calibrate(self, fitted, folds, rows, random_state):
        ratios, errors, weights = [], [], []
        for density, (_, held) in zip(fitted, folds):
            some = np.flatnonzero(held > 0.0)
            for _ in range(3):
                wrong, is_error = injected(
                    self.domain_, self._tails, rows[some], self._rates.shared, random_state
                )
                judged = Cells.from_rows(self._tails, wrong).judge(density, self._rates.shared)
                ratios.append(judged.log_ratio)
                errors.append(is_error)
                weights.append(held[some])
        self._calibration = Calibration.fit(
            self.domain_.is_categorical, *map(np.concatenate, (ratios, errors, weights))
        )
        self.informative_ = self._calibration.informative

    def _calibrated(self, judged):
        if self._calibration is None:
            return judged.probability
        return self._calibration.probabilities(
            self.domain_.is_categorical, judged, self._rates.shared * self._misses
        )

    def _set_threshold(self, probability, weight):
        p = np.where(self.informative_, probability, np.nan)
        w = np.broadcast_to(weight[:, np.newaxis], p.shape)[~np.isnan(p)]
        p = p[~np.isnan(p)]
        order = np.argsort(-p)
        fdp = np.cumsum(w[order] * (1 - p[order])) / np.cumsum(w[order])
        ok = np.flatnonzero(fdp <= self.fdr)
        self.threshold_ = p[order[ok[-1]]] if len(ok) else 1.0 - self.fdr

    def _examine(self, X):
        table, rows, mass = self._encode_with_mass(X)
        cells = Cells.from_rows(self._tails, rows)
        judged = cells.judge(self.density_._density, self._rates.shared)
        return table, judged, mass

    def predict_proba(self, X: Any) -> Any:
        table, judged, _ = self._examine(X)
        return self.domain_.tabulate(self._calibrated(judged), like=table)


def _density(density: Any, domain: Domain, rows: Floats, weight: Floats) -> Any:
    return clone(density).fit_rows(domain.with_axes_of(rows, weight), rows, weight)._density


def _best(candidates, domain, cells, fold, rate):
    kept, held = fold
    some = held > 0.0
    test = cells.take(some)
    fitted = in_threads(
        lambda one: _density(one, domain, *merge_rows(cells.rows[kept > 0], kept[kept > 0])),
        candidates,
    )
    scores = [held[some] @ one.log_density(test.noisy(one, rate)) for one in fitted]
    return candidates[int(np.argmax(scores))]


def _refuse_density(density):
    refuse_other_density(density, "CellErrorDetector", ("fit_rows",), ())
    if isinstance(density, MixtureOfAllTrees):
        raise TypeError("no")
