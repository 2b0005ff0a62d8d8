"""Survival by DensityRegressor beside Cox's model and a random survival forest (scikit-survival).

    SKPC_DATA=... python -m tests.benchmarks.censored_targets rotterdam|lung
        [--repeats N] [--folds N] [--missing RATE ...] [--methods NAME ...]

For each method: Uno's concordance up to tau, the 90 % quantile of the times of deaths, of the
negative restricted mean (rivals: of their risk score), and the integrated Brier score over nine
quantiles of deaths; means over repeats of stratified folds, and CPU seconds of a fit. Differences
to Cox's model come with the standard error over folds. With missing cells, the rivals stand behind
IterativeImputer. scikit-survival is needed for the scores.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sksurv.ensemble import RandomSurvivalForest
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.metrics import concordance_index_ipcw, integrated_brier_score

from skpc import DensityRegressor
from tests.benchmarks.censored import survival_table


def ours(X, y, test, grid, tau, seed):
    model = DensityRegressor(random_state=seed).fit(X, y)
    return -model.predict_rmst(test, tau), model.predict_survival(test, grid)


def rival(make):
    def answer(X, y, test, grid, _tau, seed):
        both = pd.get_dummies(pd.concat([X, test]), drop_first=True).astype(float)
        model = make_pipeline(IterativeImputer(random_state=seed), StandardScaler(), make(seed))
        model.fit(both.iloc[: len(X)], y)
        rows = both.iloc[len(X) :]
        curves = model.predict_survival_function(rows)
        return model.predict(rows), np.array([curve(grid) for curve in curves])

    return answer


METHODS = {
    "Cox": rival(lambda _: CoxPHSurvivalAnalysis(alpha=1e-4)),
    "forest": rival(lambda seed: RandomSurvivalForest(200, min_samples_leaf=15, random_state=seed)),
    "skpc": ours,
}


def scores(name, rate, options):
    X, times, events = survival_table(options.table)
    y = np.array([*zip(events, times)], dtype=[("event", bool), ("time", float)])
    tau = np.quantile(times[events], 0.9)
    grid = np.quantile(times[events], np.linspace(0.1, 0.9, 9))
    rng = np.random.default_rng(0)
    X = X.mask(rng.random(X.shape) < rate)
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=options.repeats, random_state=0)
    rows = []
    for number, (train, test) in enumerate(folds.split(X, events)):
        if number >= options.folds:
            break
        begin = time.process_time()
        risk, curve = METHODS[name](X.iloc[train], y[train], X.iloc[test], grid, tau, number)
        cpu = time.process_time() - begin
        # The weights of both scores need a chance of being seen that is above zero.
        seen = times[test] < times[train].max()
        told = y[train], y[test][seen]
        uno = concordance_index_ipcw(*told, risk[seen], tau=tau)[0]
        rows.append((uno, integrated_brier_score(*told, curve[seen], grid), cpu))
    return np.array(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=["rotterdam", "lung"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folds", type=int, default=10**9)
    parser.add_argument("--missing", type=float, nargs="*", default=[0.0, 0.3])
    parser.add_argument("--methods", nargs="*", default=[*METHODS], choices=[*METHODS])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for rate in options.missing:
        base = None
        for name in options.methods:
            rows = scores(name, rate, options)
            mean = rows.mean(axis=0)
            base = rows if base is None else base
            gap = rows - base
            error = gap.std(axis=0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else gap[0] * 0
            print(
                f"{options.table} missing {rate:.0%} {name:7s} concordance {mean[0]:.4f}"
                f" ({gap[:, 0].mean():+.4f} +- {error[0]:.4f}) Brier {mean[1]:.4f}"
                f" ({gap[:, 1].mean():+.4f} +- {error[1]:.4f}) CPU {mean[2]:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
