"""What the benchmark of numbers reads, splits and counts with."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

from skpc import CutsetNetworkBD, MixtureOfAllTrees, SoftLearnSPN, TableMixture
from skpc.variables import Predictive
from tests.benchmarks.mixed_tables import MIXED, holes, numbers_of, read

TABLES = ("bank", "electricity", "segment", "cmc", "breast_cancer", "diabetes", "wine")
DENSITIES = {
    "cutset": CutsetNetworkBD(random_state=0),
    "cutset5": CutsetNetworkBD(n_components=5, random_state=0),
    "soft": SoftLearnSPN(random_state=0),
    "trees": MixtureOfAllTrees(random_state=0),
    "table": TableMixture(random_state=0),
}
#: How the guide calls the densities.
NAMES = {
    "cutset": "CutsetNetworkBD",
    "cutset5": "five of them",
    "soft": "SoftLearnSPN",
    "univariate": "SoftLearnSPN, univariate",
    "trees": "MixtureOfAllTrees",
    "table": "TableMixture",
}
if "leaves" in DENSITIES["soft"].get_params():
    DENSITIES["univariate"] = SoftLearnSPN(leaves="univariate", random_state=0)
#: Those whose numbers may depend on each other within a leaf.
WITH_BLOCKS = ("table", "soft")
_LOADERS = {
    "breast_cancer": load_breast_cancer,
    "diabetes": load_diabetes,
    "iris": load_iris,
    "wine": load_wine,
}
#: Share of the cells that are removed, and of the rows that are held out.
_REMOVED, _HELD_OUT = 0.2, 0.33
#: Standard deviation of the noise that parts equal values.
_NOISE = 0.001
#: A column of no more distinct values is one of categories, where all are standardised.
_FEW_VALUES = 30
#: What was measured of one model on one split.
Figures = dict[str, np.ndarray]


class Estimate(NamedTuple):
    """A mean and its standard error."""

    mean: float
    se: float

    def __str__(self) -> str:
        error = "" if np.isnan(self.se) else f" ±{self.se:.3f}"
        return f"{self.mean:.3f}{error}"

    def beyond(self, target: float, least: float, errors: float) -> float:
        """By how much it is farther from the target than ``max(least, errors * se)``."""
        return abs(self.mean - target) - max(least, errors * np.nan_to_num(self.se))

    def below(self, target: float, least: float, errors: float) -> bool:
        """Whether it is below the target by more than ``max(least, errors * se)``."""
        return self.mean < target and self.beyond(target, least, errors) > 0.0


class Split(NamedTuple):
    """Rows to learn from and rows held out; the index names the rows of the whole table."""

    seed: int
    train: pd.DataFrame
    test: pd.DataFrame

    def removed(self) -> np.ndarray:
        """Which cells of the held-out rows to remove."""
        return holes(self.test, "mcar", self.seed, _REMOVED)


def load(name: str, n_rows: int, seed: int = 0) -> pd.DataFrame:
    """Columns and class of a table, as they are; that many of its rows, drawn at random."""
    if name in MIXED:
        table = read(name)
    elif name == "zeros":
        table = _zero_inflated()
    else:
        table = _LOADERS[name](as_frame=True).frame
        if name != "diabetes":
            table["target"] = table["target"].astype("category")
    return table.sample(min(len(table), n_rows), random_state=seed).reset_index(drop=True)


def splits(table: pd.DataFrame, n_splits: int) -> Iterator[Split]:
    for seed in range(n_splits):
        yield Split(seed, *train_test_split(table, test_size=_HELD_OUT, random_state=seed))


def standardised(table: pd.DataFrame, n_splits: int, mixed: bool) -> Iterator[Split]:
    """Splits whose numbers have mean 0 and variance 1 in training, and no two equal values.

    Numbers are columns of more than 30 distinct values. Others are dropped, or with ``mixed``
    taken for categories.
    """
    numbers = [column for column in numbers_of(table) if table[column].nunique() > _FEW_VALUES]
    others = [column for column in table if column not in numbers]
    table = table[numbers].join(table[others].astype("category")) if mixed else table[numbers]
    table = table.astype(dict.fromkeys(numbers, np.float64))
    for split in splits(table, n_splits):
        rng = np.random.default_rng(split.seed)
        mean, sd = split.train[numbers].mean(), split.train[numbers].std(ddof=0)
        for part in (split.train, split.test):
            noise = rng.normal(0.0, _NOISE, (len(part), len(numbers)))
            part[numbers] = (part[numbers] - mean) / sd + noise
        yield split


def kept(options: argparse.Namespace, measure: Callable[..., Figures], *names: Any) -> Figures:
    """What ``measure`` returns; read from the folder ``options.keep`` if it was measured before."""
    if options.keep is None:
        return measure()
    file = options.keep / ("_".join(map(str, names)) + ".npz")
    if not file.exists():
        options.keep.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **measure())
    return dict(np.load(file))


def chosen(options: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """The tables of a section that are wanted."""
    return [name for name in names if not options.tables or name in options.tables]


def fitted(model, rows) -> tuple:
    """A fitted clone, and the CPU seconds that it took."""
    model = clone(model)
    start = time.process_time()
    return model.fit(rows), time.process_time() - start


def fits_and_scores(model, parts: list[Split]) -> tuple[list, float, np.ndarray]:
    """The fitted models, the seconds of a fit, and the log densities of all held-out rows."""
    models, seconds = zip(*(fitted(model, split.train) for split in parts))
    scores = [m.score_samples(split.test) for m, split in zip(models, parts)]
    return list(models), float(np.median(seconds)), np.concatenate(scores)


def held_out_rows(parts: list[Split]) -> np.ndarray:
    """Which row of the table each held-out one is."""
    return np.concatenate([split.test.index for split in parts])


def of_rows(values: np.ndarray, rows: np.ndarray) -> Estimate:
    """Mean of values that belong to rows of a table.

    Rows are the independent units of the standard error: a row may have several values, and be
    held out in several splits.
    """
    mean = values.mean()
    _, group = np.unique(rows, return_inverse=True)
    residual = np.bincount(group, values - mean)
    return Estimate(float(mean), float(np.sqrt(np.sum(residual**2)) / len(values)))


def of_splits(values) -> Estimate:
    """Mean of one value a split; the standard error of a single one is unknown."""
    values = np.asarray(values, dtype=np.float64)
    se = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return Estimate(float(values.mean()), float(se))


def randomised_pit(cells: Predictive, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Uniform draws between F(x-) and F(x), which are uniform where F is true, atoms or not."""
    below, upto = cells.cdf(np.nextafter(x, -np.inf)), cells.cdf(x)
    return below + rng.random(len(x)) * (upto - below)


def auc_of_boosting(split: Split, rows: pd.DataFrame) -> float:
    """Out-of-fold area under the curve of boosting that tells some rows from the held-out ones."""
    rows = rows.sample(len(split.test), random_state=split.seed)
    X = np.vstack([_codes(rows, split.test), _codes(split.test, split.test)])
    y = np.repeat([1, 0], len(split.test))
    categories = [column not in numbers_of(split.test) for column in split.test]
    model = HistGradientBoostingClassifier(categorical_features=categories, random_state=0)
    folds = StratifiedKFold(5, shuffle=True, random_state=split.seed)
    proba = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    return float(roc_auc_score(y, proba[:, 1]))


def _codes(rows: pd.DataFrame, like: pd.DataFrame) -> np.ndarray:
    """Numbers, and the codes that categories have in a table."""
    numbers = numbers_of(like)
    return np.column_stack(
        [
            rows[column].to_numpy(dtype=np.float64)
            if column in numbers
            else like[column].cat.categories.get_indexer(rows[column])
            for column in like
        ]
    )


def print_row(name: str, *cells: str) -> None:
    print(" ".join([f"{name:14s}", *(f"{cell:>15s}" for cell in cells)]).rstrip(), flush=True)


def star(missed: bool) -> str:
    """The mark of what misses its bar."""
    return "*" if missed else " "


def print_title(title: str) -> None:
    print(f"\n{title}\n", flush=True)


def _zero_inflated(n_rows: int = 3000) -> pd.DataFrame:
    """A column with four zeros in five, which two numbers and a category tell about."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n_rows)
    y = 0.6 * x + 0.8 * rng.normal(size=n_rows)
    score = x + 0.5 * rng.normal(size=n_rows)
    amount = np.exp(0.7 * y + 0.5 * rng.normal(size=n_rows))
    amount[score < np.quantile(score, 0.8)] = 0.0
    kind = np.digitize(score + rng.normal(size=n_rows), [-0.5, 0.8])
    kinds = pd.Categorical.from_codes(kind, ["low", "middle", "high"])
    return pd.DataFrame({"amount": amount, "x": x, "y": y, "kind": kinds})
