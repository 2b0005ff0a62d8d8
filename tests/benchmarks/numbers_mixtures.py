"""Log densities compared with Gaussian mixtures and factor analysis.

The base measure is Lebesgue's on numbers and counting on categories. Numbers are standardised by
the training rows and have a little noise, so that no value repeats and no point mass hides in a
narrow component; a density in the units of the table is lower by the sum of the log standard
deviations. A few rows in a spike raise the mean but not the median, which stands next to it.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
import pandas as pd
from sklearn.decomposition import FactorAnalysis
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, KFold

from tests.benchmarks.guide_tables import with_error, write
from tests.benchmarks.numbers_tables import (
    DENSITIES,
    NAMES,
    Estimate,
    Figures,
    Split,
    chosen,
    fitted,
    held_out_rows,
    kept,
    load,
    of_rows,
    of_splits,
    print_row,
    print_title,
    standardised,
    star,
)

#: The least log density (nats a row) of the best density.
NUMBERS = {
    "breast_cancer": 6.5,
    "segment": 28.5,
    "diabetes": -8.7,
    "wine": -14.1,
    "electricity": 2.3,
    "iris": -1.65,
}
WITH_CATEGORIES = {"breast_cancer": 6.5, "wine": -14.1, "cmc": -9.65, "iris": -7.3}
#: By how much a density may be below what knows the family of the rows.
FACTORS, CORRELATED = 0.3, 0.1
N_COMPONENTS = range(1, 21)
_N_TEST = 5000


def gaussian(options: argparse.Namespace) -> None:
    """Print held-out log densities of numbers, and of tables with categories."""
    rows = []
    for mixed, bars in ((False, NUMBERS), (True, WITH_CATEGORIES)):
        what = "numbers and categories" if mixed else "numbers"
        print_title(f"gaussian: held-out nats a row of {what}, * if the best misses the bar")
        print_row("table", "density", "mean", "median", "less mixture", "fit s", "bar", "chosen")
        for name in chosen(options, tuple(bars)):
            table = load(name, options.n_rows)
            parts = list(standardised(table, options.splits, mixed))
            cells = _print_table(options, name, parts, mixed, bars[name])
            rows += [] if mixed else [[name, parts[0].train.shape[1], *cells]]
    names = [NAMES[label] for label in options.models]
    less = [f"{name} less BIC" for name in names[:1]]
    write(options.write, "numbers_gaussian", [["table", "columns", "BIC", *names, *less], *rows])


def _print_table(
    options: argparse.Namespace, name: str, parts: list[Split], mixed: bool, bar: float
) -> list[str]:
    """Print log densities; return the means, the mixture's first, and the first less it."""
    rows, found = held_out_rows(parts), {}
    rival = None if mixed else _rival_scores(options, name, parts)
    # Of the first density alone.
    gain = ""
    for label in options.models:
        models, seconds = zip(*(fitted(DENSITIES[label], split.train) for split in parts))
        scores = np.concatenate([m.score_samples(s.test) for m, s in zip(models, parts)])
        found[label] = scores.mean()
        if rival is None:
            less = ""
        else:
            difference = of_rows(scores - rival, rows)
            less = str(difference)
            gain = gain or with_error(*difference, 2)
        sizes = " ".join(str(len(m.weights_)) for m in models if hasattr(m, "weights_"))
        cells = (_mean(scores, rows), f"{np.median(scores):.3f}", less)
        print_row(name, label, *cells, f"{np.median(seconds):.2f}", "", sizes)
    best = max(found, key=found.__getitem__)
    missed = star(found[best] < bar)
    print_row(name, f"best: {best}", f"{found[best]:.3f}{missed}", "", "", "", f"{bar:.2f}")
    means = [] if rival is None else [rival.mean(), *found.values()]
    return [*(f"{mean:.2f}" for mean in means), gain]


def _rival_scores(options: argparse.Namespace, name: str, parts: list[Split]) -> np.ndarray:
    """Print what Gaussian mixtures reach, and return their log densities of the rows."""
    found = [
        kept(options, partial(_mixture, split), "gaussian", name, options.n_rows, split.seed)
        for split in parts
    ]
    scores = np.concatenate([figures["scores"] for figures in found])
    seconds = np.median([figures["seconds"] for figures in found])
    sizes = " ".join(str(figures["note"]) for figures in found)
    cells = (_mean(scores, held_out_rows(parts)), f"{np.median(scores):.3f}", "")
    print_row(name, "mixture (BIC)", *cells, f"{seconds:.2f}", "", sizes)
    return scores


def _mixture(split: Split) -> Figures:
    """The Gaussian mixture of the best BIC among sizes and kinds of covariance.

    A full covariance needs one row more than columns: BIC likes components that collapse on fewer.
    """
    n_rows, n_columns = split.train.shape
    grid = [
        GaussianMixture(size, covariance_type=kind, random_state=0)
        for kind in ("full", "diag", "tied")
        for size in N_COMPONENTS
        if kind != "full" or size * (n_columns + 1) <= n_rows
    ]
    models, seconds = zip(*(fitted(model, split.train) for model in grid))
    best = min(models, key=lambda model: model.bic(split.train))
    return {
        "scores": best.score_samples(split.test),
        "seconds": np.array(sum(seconds)),
        "note": np.array(f"{best.n_components}{best.covariance_type}"),
    }


def _mean(scores: np.ndarray, rows: np.ndarray) -> str:
    return str(of_rows(scores, rows))


def factors(options: argparse.Namespace) -> None:
    """Print log densities of rows drawn from one Gaussian, less those of its own family."""
    n_splits = options.splits
    print_title("factors: nats a row less the rival that knows the family, * below the bar")
    print_row("rows", "density", "mean", "less rival", "fit s", "bar", "chosen")
    for name, bar, draws in (
        ("100 x 300", FACTORS, (_factor_model(300, seed) for seed in range(n_splits))),
        ("20 x 1000", CORRELATED, (_correlated(1000, seed) for seed in range(n_splits))),
    ):
        parts = list(draws)
        rival = FactorAnalysis() if name == "100 x 300" else GaussianMixture(1)
        found = [
            kept(options, partial(_of_family, rival, split), "factors", name, split.seed)
            for split in parts
        ]
        known = np.array([figures["scores"].mean() for figures in found])
        spent = np.median([figures["seconds"] for figures in found])
        cells = [str(of_splits(known)), "", f"{spent:.2f}", ""]
        print_row(name, type(rival).__name__, *cells, " ".join(str(f["note"]) for f in found))
        for label in options.models:
            models, seconds = zip(*(fitted(DENSITIES[label], split.train) for split in parts))
            means = np.array([m.score(split.test) for m, split in zip(models, parts)])
            less: Estimate = of_splits(means - known)
            cells = [str(of_splits(means)), f"{less}{star(less.mean < -bar)}"]
            print_row(name, label, *cells, f"{np.median(seconds):.2f}", f"{-bar:.2f}")


def _of_family(rival, split: Split) -> Figures:
    """Factor analysis with the number of factors chosen by folds; the mixture as it is."""
    if isinstance(rival, FactorAnalysis):
        folds = KFold(5, shuffle=True, random_state=0)
        rival = GridSearchCV(rival, {"n_components": range(16)}, cv=folds)
    model, seconds = fitted(rival, split.train.to_numpy())
    note = model.best_params_["n_components"] if isinstance(model, GridSearchCV) else 1
    model = getattr(model, "best_estimator_", model)
    scores = model.score_samples(split.test.to_numpy())
    return {"scores": scores, "seconds": np.array(seconds), "note": np.array(note)}


def _factor_model(n_rows: int, seed: int, n_columns: int = 100, n_factors: int = 5) -> Split:
    """Rows of five factors with equal shares of signal and noise."""
    rng = np.random.default_rng([3, seed])
    loadings = rng.normal(size=(n_factors, n_columns)) / np.sqrt(n_factors)
    sd = rng.uniform(0.5, 1.5, n_columns)
    n_all = n_rows + _N_TEST
    rows = rng.normal(size=(n_all, n_factors)) @ loadings + sd * rng.normal(size=(n_all, n_columns))
    return _split(rows, n_rows, seed)


def _correlated(n_rows: int, seed: int, n_columns: int = 20) -> Split:
    """Rows of one Gaussian; the matrix that mixes its columns is random."""
    rng = np.random.default_rng([4, seed])
    mixing = rng.normal(size=(n_columns, n_columns))
    return _split(rng.normal(size=(n_rows + _N_TEST, n_columns)) @ mixing, n_rows, seed)


def _split(rows: np.ndarray, n_train: int, seed: int) -> Split:
    table = pd.DataFrame(rows).rename(columns="x{}".format)
    return Split(seed, table[:n_train], table[n_train:])
