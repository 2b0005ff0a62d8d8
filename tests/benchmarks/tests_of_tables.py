"""Levels, power and time of the tests of ``skpc.comparisons``; rates at 5 %, with standard errors.

Parts, and what they print:

- ``level``: two windows of 50 rows each of one table, nothing changed, by share of missing cells
  (exact tests are so for any number of rows). "pairs" has no density.
- ``power``: windows of 250 rows, a change in the second one, 30 % of the cells missing; beside it
  tests of each column alone (Kolmogorov-Smirnov, chi-square) with Bonferroni's correction, and how
  often the changed column comes first among rejections. "shuffled" leaves a column as it is alone.
- ``monitor``: streams with an alarm within 200 batches, nothing changed; then the delay.
- ``fit``: rows drawn from a model; rows of the table against a model of independent columns; rows
  of three groups against a mixture of one component.
- ``independence``: two columns with one cause, ``sin(2 z)``, given z; then with a dependence; and
  a price of electricity that boosting has drawn. "plain": the covariance among draws of a density.
- ``importance``: false discoveries and power, mixed tables of ten columns, 30 % of cells missing.
- ``time``: seconds of a test with 999 permutations beside the fit of the density.

    python -m tests.benchmarks.tests_of_tables [part ...] [--tables bank ...] [--repeats 50]
    [--densities SoftLearnSPN ...] [--write doc/user_guide]

``power`` and ``independence`` write their tables of the guide.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from skpc import CutsetNetworkBD, SoftLearnSPN, TableMixture
from skpc.comparisons import (
    DriftMonitor,
    feature_importance_test,
    goodness_of_fit_test,
    independence_test,
    two_sample_test,
)
from tests.benchmarks.guide_tables import add_write, with_error, write
from tests.benchmarks.mixed_tables import read

#: Rows of a window, rows that a density learns from at most, level, draws for a p-value.
_WINDOW, _SMALL, _LEARNED, _LEVEL, _DRAWS = 250, 50, 2500, 0.05, 99
_DENSITIES = {
    "SoftLearnSPN": SoftLearnSPN(random_state=0),
    "TableMixture": TableMixture(n_components=4, random_state=0),
    "CutsetNetworkBD": CutsetNetworkBD(random_state=0),
}
_CHANGES = ("age shuffled", "poutcome shuffled", "age + 4", "job: 15 % management")


def rate(hits: Iterable[bool]) -> str:
    """Share of hits, with its binomial standard error."""
    hits = np.array(list(hits), dtype=float)
    share = hits.mean() if len(hits) else np.nan
    return with_error(share, np.sqrt(share * (1.0 - share) / max(len(hits), 1)), 2)


def parts_of(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to learn from, and rows for windows."""
    table = read(name).sample(frac=1.0, random_state=0).reset_index(drop=True)
    n_learned = min(_LEARNED, len(table) // 2)
    return table[:n_learned], table[n_learned:].reset_index(drop=True)


def with_holes(table: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    return table.mask(rng.random(table.shape) < share)


def windows(
    rows: pd.DataFrame, change: str, share: float, seed: int, size: int = _WINDOW
) -> list[pd.DataFrame]:
    """Two windows of a table, the second one with a change."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(rows), 2 * size, replace=False)
    A, B = (rows.iloc[part].reset_index(drop=True) for part in np.split(chosen, 2))
    column = change.partition(" ")[0].rstrip(":")
    if "shuffled" in change:
        B[column] = B[column].sample(frac=1.0, random_state=seed).set_axis(B.index)
    elif "+" in change:
        B[column] += 4
    elif change:
        B.loc[rng.random(size) < 0.15, column] = "management"
    return [with_holes(window, share, rng) for window in (A, B)]


def column_tests(A: pd.DataFrame, B: pd.DataFrame) -> float:
    """The smallest p-value of tests of each column alone, times their number."""
    pvalues = []
    for name in A:
        a, b = A[name].dropna(), B[name].dropna()
        if pd.api.types.is_numeric_dtype(a):
            pvalues.append(stats.ks_2samp(a, b).pvalue)
        else:
            counts = np.array([[(part == v).sum() for part in (a, b)] for v in a.cat.categories])
            pvalues.append(stats.chi2_contingency(counts[counts.sum(axis=1) > 0]).pvalue)
    return min(pvalues) * len(pvalues)


def level(tables: list[str], repeats: int) -> None:
    kinds = ("cells", "mmd", "pairs")
    print(f"{'table':12s} {'missing':>7s} " + " ".join(f"{kind:>15s}" for kind in kinds))
    hits: dict[str, list[bool]] = {kind: [] for kind in kinds}
    for name in tables:
        learned, rows = parts_of(name)
        density = SoftLearnSPN(random_state=0).fit(learned)
        of_kind = {"cells": ("cells", density), "mmd": ("mmd", density), "pairs": ("cells", None)}
        for share in (0.0, 0.3, 0.6):
            for seed in range(repeats):
                pair = windows(rows, "", share, seed, _SMALL)
                for kind, (statistic, model) in of_kind.items():
                    options = {"n_permutations": _DRAWS, "random_state": seed}
                    result = two_sample_test(*pair, model, statistic=statistic, **options)
                    hits[kind].append(result.pvalue <= _LEVEL)
            rates = " ".join(f"{rate(hits[kind][-repeats:]):>15s}" for kind in kinds)
            print(f"{name:12s} {share:7.1f} {rates}", flush=True)
    print(f"{'mean':20s} " + " ".join(f"{rate(hits[kind]):>15s}" for kind in kinds))


def power(repeats: int, folder: Path | None) -> None:
    rows_of_guide = [["change in the second window", "fitted density", "no density", "by column"]]
    learned, rows = parts_of("bank")
    density = SoftLearnSPN(random_state=0).fit(learned)
    print(f"{'change':22s} {'cells':>15s} {'first':>6s} {'pairs':>15s} {'by column':>15s}")
    for change in _CHANGES:
        column = change.partition(" ")[0].rstrip(":")
        rejected, first, by_column, of_pairs = [], [], [], []
        for seed in range(repeats):
            pair = windows(rows, change, 0.3, seed)
            options = {"n_permutations": _DRAWS, "random_state": seed}
            result = two_sample_test(*pair, density, **options)
            rejected.append(result.pvalue <= _LEVEL)
            if rejected[-1]:
                first.append(result.columns["statistic"].idxmax() == column)
            of_pairs.append(two_sample_test(*pair, **options).pvalue <= _LEVEL)
            by_column.append(column_tests(*pair) <= _LEVEL)
        print(
            f"{change:22s} {rate(rejected):>15s} {np.mean(first or [np.nan]):6.2f} "
            f"{rate(of_pairs):>15s} {rate(by_column):>15s}",
            flush=True,
        )
        rows_of_guide.append([change, rate(rejected), rate(of_pairs), rate(by_column)])
    write(folder, "tests_power", rows_of_guide)


def stream(
    table: pd.DataFrame, change: str, n_batches: int, n_learned: int, size: int, seed: int
) -> list[bool]:
    """Alarms of a monitor of a stream that changes after five batches, if it does."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(table), n_learned + n_batches * size, replace=False)
    rows = with_holes(table.iloc[chosen].reset_index(drop=True), 0.3, rng)
    density = CutsetNetworkBD(random_state=0)
    monitor = DriftMonitor(density, n_permutations=_DRAWS, random_state=seed)
    monitor.fit(rows[:n_learned])
    for k in range(n_batches):
        batch = rows[n_learned + k * size :][:size].reset_index(drop=True)
        if k >= 5 and change:
            batch[change] = batch[change].sample(frac=1.0, random_state=k).set_axis(batch.index)
        monitor.test(batch)
    return [batch["alarm"] for batch in monitor.history_]


def monitor(repeats: int) -> None:
    bank = read("bank")
    few = bank[["age", "marital", "balance", "poutcome"]]
    alarms = [any(stream(few, "", 200, 100, 3, seed)) for seed in range(repeats)]
    print(f"nothing changed, 200 batches of 3 rows: {rate(alarms)} of the streams have an alarm")
    for change in ("age", "poutcome"):
        streams = (stream(bank, change, 25, 1000, 250, seed) for seed in range(repeats // 20))
        late = [np.flatnonzero(alarms[5:]) for alarms in streams]
        delays = [int(places[0]) + 1 for places in late if len(places)]
        seen = f"{len(delays)} of {len(late)} streams have an alarm within 20 batches of 250 rows"
        delay = np.median(delays) if delays else np.nan
        print(f"{change} shuffled: {seen}, median delay {delay:.0f}", flush=True)


def fit(tables: list[str], repeats: int) -> None:
    for name in tables:
        learned, rows = parts_of(name)
        model = CutsetNetworkBD(random_state=0).fit(learned)
        # Each column by itself is as it was.
        others = [learned[c].sample(frac=1.0, random_state=k) for k, c in enumerate(learned)]
        shuffled = pd.concat([c.reset_index(drop=True) for c in others], axis=1)
        independent = CutsetNetworkBD(random_state=0).fit(shuffled)

        def pvalue(model, X: pd.DataFrame, seed: int) -> float:
            return goodness_of_fit_test(model, X, n_draws=_DRAWS, random_state=seed).pvalue

        for share in (0.0, 0.6):
            drawn, of_table = [], []
            for seed in range(repeats):
                rng = np.random.default_rng(seed)
                X = with_holes(model.sample(500, random_state=seed), share, rng)
                drawn.append(pvalue(model, X, seed) <= _LEVEL)
                X = with_holes(rows.sample(500, random_state=seed), share, rng)
                of_table.append(pvalue(independent, X, seed) <= _LEVEL)
            print(
                f"{name}, {share:.1f} missing: drawn from the model {rate(drawn)}; "
                f"independent columns {rate(of_table)}",
                flush=True,
            )
    rejected = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        centre = np.array([[0.0, 0.0, 0.0], [3.0, 3.0, 0.0], [3.0, 0.0, 3.0]])
        X = centre[rng.integers(3, size=1000)] + rng.normal(size=(1000, 3))
        one = TableMixture(n_components=1, random_state=0).fit(X[:500])
        rejected.append(
            goodness_of_fit_test(one, X[500:], n_draws=_DRAWS, random_state=seed).pvalue <= _LEVEL
        )
    print(f"one component for three groups: {rate(rejected)}")


def waves(dependence: float, seed: int) -> np.ndarray:
    """z, and two columns that are sin(2 z) with noise."""
    rng = np.random.default_rng(seed)
    z, noise = rng.normal(size=500), rng.normal(size=(2, 500))
    y = np.sin(2.0 * z) + 0.5 * noise[1] + dependence * noise[0]
    return np.column_stack([z, np.sin(2.0 * z) + 0.5 * noise[0], y])


def drawn_prices() -> Callable[[int], np.ndarray]:
    """Rows of electricity: period and vicdemand, nswdemand, and a price that boosting has drawn.

    It learns from other rows, and without nswdemand.
    """
    learned, rows = (
        part[["period", "vicdemand", "nswdemand", "nswprice"]].to_numpy()
        for part in parts_of("electricity")
    )
    boosting = HistGradientBoostingRegressor(random_state=0).fit(learned[:, :2], learned[:, 3])
    left = learned[:, 3] - boosting.predict(learned[:, :2])

    def draw(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        X = rows[rng.choice(len(rows), 500, replace=False)]
        X[:, 3] = boosting.predict(X[:, :2]) + rng.choice(left, 500)
        return X

    return draw


def plain_pvalue(X: np.ndarray, density, seed: int) -> float:
    """Covariance of the last two columns among draws of the first one of them given the others."""
    learned, X = X[::2], X[1::2].copy()
    fitted, rng = clone(density).fit(learned), np.random.RandomState(seed)
    y, hidden = (
        X[:, -1] - X[:, -1].mean(),
        np.where(np.arange(X.shape[1]) < X.shape[1] - 2, X, np.nan),
    )
    draws = [fitted.complete(hidden, "sample", random_state=rng)[:, -2] for _ in range(_DRAWS)]
    centre = np.mean(draws)
    statistics = np.abs([(column - centre) @ y for column in (X[:, -2], *draws)])
    return (statistics[1:] >= statistics[0]).mean() * _DRAWS / (1 + _DRAWS) + 1 / (1 + _DRAWS)


def independence(chosen: list[str], repeats: int, folder: Path | None) -> None:
    rows_of_guide = [["columns", "density", "independence_test", "plain"]]
    densities = {name: _DENSITIES[name] for name in chosen}
    cases = {"waves": partial(waves, 0.0), "dependent waves": partial(waves, 0.2)}
    cases["electricity, a drawn price"] = drawn_prices()
    for case, draw in cases.items():
        for name, density in densities.items():
            rejected, plain = [], []
            for seed in range(repeats if case != "dependent waves" else repeats // 2):
                X, options = draw(seed), {"n_draws": 199, "random_state": seed}
                n = X.shape[1]
                result = independence_test(
                    X, n - 2, n - 1, range(n - 2), density=density, **options
                )
                rejected.append(result.pvalue <= _LEVEL)
                plain.append(plain_pvalue(X, density, seed) <= _LEVEL)
            rows_of_guide.append([case, name, rate(rejected), rate(plain)])
            print(f"{case}, {name}: {rate(rejected)}, plain {rate(plain)}", flush=True)
    write(folder, "tests_independence", rows_of_guide)


def made(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A mixed table in pairs of like columns, classes, and which columns decide these."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(400, 10))
    numbers[:, 1::2] = 0.5 * numbers[:, ::2] + np.sqrt(0.75) * numbers[:, 1::2]
    matters = np.isin(np.arange(10), rng.choice(5, 3, replace=False) * 2)
    effect = numbers[:, matters].sum(axis=1) + rng.logistic(size=400)
    frame = pd.DataFrame(numbers).add_prefix("c")
    for column in ("c1", "c4", "c8"):
        frame[column] = pd.cut(frame[column], [-9, -0.6, 0.6, 9], labels=["a", "b", "c"])
    return with_holes(frame, 0.3, rng), effect > 0.0, matters


def log_score(estimator, X: np.ndarray, y: np.ndarray) -> float:
    prob = estimator.predict_proba(X)[:, 1]
    return float(np.log(np.where(y, prob, 1.0 - prob)).mean())


def importance(repeats: int) -> None:
    """A column like one that decides says something where that one is missing: both counts."""
    shares, pvalues = [], []
    for seed in range(repeats):
        X, y, matters = made(seed)
        # Numbers are faster to predict from; the density knows which ones are categories.
        codes = X.apply(lambda c: c.cat.codes.where(c.notna()) if c.dtype == "category" else c)
        result = feature_importance_test(
            HistGradientBoostingClassifier(max_iter=20),
            codes.to_numpy(dtype=float),
            y,
            density=TableMixture(categorical_features=[1, 4, 8], random_state=0),
            scoring=log_score,
            # The least number with which one of ten columns alone can be selected.
            n_draws=99,
            cv=2,
            random_state=seed,
        )
        selected, null = (
            (result.columns["adjusted"] <= 0.1).to_numpy(),
            ~(matters | np.roll(matters, 1)),
        )
        pvalues.extend(result.columns["pvalue"][null])
        wrong = [(selected & ~true).sum() for true in (matters, ~null)]
        share = [count / max(selected.sum(), 1) for count in wrong]
        shares.append([*share, (selected & matters).sum() / matters.sum()])
    means, errors = np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1) / np.sqrt(repeats)
    for what, mean, error in zip(("false", "... without like columns", "power"), means, errors):
        print(f"{what}: {mean:.3f} +- {error:.3f}", flush=True)
    print(f"columns that say nothing, at 5 %: {rate(p <= _LEVEL for p in pvalues)}")


def seconds(tables: list[str]) -> None:
    for name in tables:
        learned, rows = parts_of(name)
        density = SoftLearnSPN(random_state=0).fit(learned)
        pair = windows(rows, "", 0.3, 0)
        two_sample_test(*pair, density, n_permutations=9)
        for kind, model in {"cells": density, "mmd": density, "pairs": None}.items():
            start = time.process_time()
            statistic = "mmd" if kind == "mmd" else "cells"
            two_sample_test(*pair, model, statistic=statistic, random_state=0)
            print(f"{name} {kind}: {time.process_time() - start:.2f} CPU s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = ("level", "power", "monitor", "fit", "independence", "importance", "time")
    parser.add_argument("parts", nargs="*", default=names, choices=[*names, []])
    parser.add_argument("--tables", nargs="+", default=["bank", "electricity", "cmc"])
    parser.add_argument("--densities", nargs="+", default=list(_DENSITIES), choices=_DENSITIES)
    parser.add_argument("--repeats", type=int, default=50)
    add_write(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    of_part: dict[str, Callable[[], None]] = {
        "level": lambda: level(options.tables, options.repeats),
        "power": lambda: power(options.repeats, options.write),
        "monitor": lambda: monitor(options.repeats),
        "fit": lambda: fit(options.tables, options.repeats),
        "independence": lambda: independence(options.densities, options.repeats, options.write),
        "importance": lambda: importance(options.repeats),
        "time": lambda: seconds(options.tables),
    }
    for part in options.parts:
        of_part[part]()


if __name__ == "__main__":
    main()
