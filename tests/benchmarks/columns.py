"""Columns as they come: brackets, counts, doses, dates, and categories beside many numbers.

    SKPC_DATA=... python -m tests.benchmarks.columns [sections ...] [--tables ...] [--models ...]
        [--splits N]

2,400 rows of each table, drawn by the split; a third of them is held out, in three splits. All
densities of a split have one Domain, learned once from its training rows, so that their log
densities compare. "cutset" and "cutset5" are CutsetNetworkBD with one and five components, "hidden"
is HiddenChowLiuTree, "soft" SoftLearnSPN, "table" TableMixture. Log densities are in nats a row.
Seconds are CPU seconds of a fit, the median of the splits. A star marks what misses its bar.

few          Columns of at most 20 values in training. "new" is how many values that do not occur in
             training are in 100,000 drawn rows and in completions of held-out rows, 20 % of the
             cells removed (bar: none). "share" is the greatest difference between the share of a
             value in draws and in training (.02). "less best" is the held-out log density less that
             of the better of cutset5 and hidden (-.1), paired by row. "auc" tells draws from
             held-out rows, as in the benchmark of numbers (.70 in doctor_visits); draws miss the
             cells that held-out rows miss.
dates        StackedDensity of economics: drawn months that are none (0), and auc (.80).
wide         1,000 rows of 280 numbers of six factors and 20 binary columns that follow the factors,
             10 % missing: the share of wrong fills of the latter, a mean over ``--splits`` tables
             (five). "logistic" is logistic regression on numbers filled with means, "default" is
             CircuitImputer() (bar .31).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import pandas as pd
from pandas.tseries.offsets import MonthEnd
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    HiddenChowLiuTree,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.domain import Domain, merge_rows
from tests.benchmarks.mixed_tables import file_of, holes, numbers_of
from tests.benchmarks.numbers_tables import (
    Split,
    auc_of_boosting,
    fitted,
    held_out_rows,
    of_rows,
    of_splits,
    print_row,
    print_title,
    splits,
    star,
)

TABLES = (
    *("doctor_visits", "medical_expenses", "training_program", "schooling"),
    *("panel_earnings", "train_choices"),
)
MODELS = {
    "cutset": CutsetNetworkBD(random_state=0),
    "cutset5": CutsetNetworkBD(n_components=5, random_state=0),
    "hidden": HiddenChowLiuTree(random_state=0),
    "soft": SoftLearnSPN(random_state=0),
    "table": TableMixture(random_state=0),
}
#: The better of these is what others are compared with.
_BEST = ("cutset5", "hidden")
_N_ROWS, _N_DRAWS, _FEW, _N_BINS = 2400, 100_000, 20, 20
_LESS_BAR, _SHARE_BAR = -0.1, 0.02
_AUC_BARS, _AUC_BAR_OF_DATES = {"doctor_visits": 0.70}, 0.80
_WIDE_ROWS, _WIDE_NUMBERS, _WIDE_FACTORS, _WIDE_FLAGS = 1000, 280, 6, 20
_WIDE_REMOVED, _WIDE_BAR = 0.1, 0.31
_NOISE_OF_NUMBERS, _NOISE_OF_FLAGS = 1.5, 0.85
#: Others take long for the wide table.
_OF_WIDE = ("cutset", "soft", "table")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), metavar="sections")
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=TABLES)
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--splits", type=int)
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"sections are {', '.join(SECTIONS)}; got {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", "Found categories that fit has not seen")
    for section in options.sections:
        SECTIONS[section](options)


def few(options: argparse.Namespace) -> None:
    """Print likelihoods, values and shares of draws, and how well boosting tells these."""
    print_title("few: columns of few values, * if a bar is missed")
    heads = ("log density", "less best", "new drawn", "new filled", "share", "auc", "fit s")
    print_row("table", "density", *heads)
    for name in options.tables:
        parts = list(_splits(name, options.splits or 3))
        rows, scores, cells = held_out_rows(parts), {}, {}
        for label in options.models:
            measured = [_measured(split, label) for split in parts]
            scores[label] = np.concatenate([one.pop("scores") for one in measured])
            cells[label] = pd.DataFrame(measured)
        best = max(set(_BEST) & set(scores), key=lambda label: scores[label].mean(), default=None)
        for label, of_parts in cells.items():
            less = of_rows(scores[label] - scores.get(best, np.nan), rows)
            share, auc = of_splits(of_parts["share"]), of_splits(of_parts["auc"])
            print_row(
                name,
                label,
                str(of_rows(scores[label], rows)),
                f"{less}{star(less.mean < _LESS_BAR)}",
                *(f"{n}{star(n > 0)}" for n in of_parts[["drawn", "filled"]].sum()),
                f"{share}{star(share.mean > _SHARE_BAR)}",
                f"{auc}{star(auc.mean > _AUC_BARS.get(name, np.inf))}",
                f"{of_parts['seconds'].median():.2f}",
            )


def _file(name: str) -> Path:
    return file_of(name).parents[1] / "tables" / f"{name}.csv.gz"


def _splits(name: str, n_splits: int) -> list[Split]:
    """Splits of rows that each draws anew; strings and bools are categories, others floats."""
    table = pd.read_csv(_file(name))
    numbers = numbers_of(table)
    others = table.columns.difference(numbers)
    table = table.astype(dict.fromkeys(numbers, float) | dict.fromkeys(others, "category"))
    return [
        list(splits(table.sample(min(len(table), _N_ROWS), random_state=seed), seed + 1))[seed]
        for seed in range(n_splits)
    ]


def _measured(split: Split, label: str) -> dict[str, Any]:
    """What is measured of one density on one split."""
    domain = Domain.fit(split.train, n_bins=_N_BINS)
    rows, weight = merge_rows(domain.encode(split.train), np.ones(len(split.train)))
    model, start = clone(MODELS[label]), time.process_time()
    model.fit_rows(domain, rows, weight)
    seconds = time.process_time() - start
    removed = split.removed() | split.test.isna().to_numpy()
    draws = model.sample(_N_DRAWS, random_state=split.seed)
    filled = model.complete(split.test.mask(removed))
    drawn_shares, new_drawn = _shares_and_new(split.train, draws)
    _, new_filled = _shares_and_new(split.train, filled.where(removed))
    return {
        "scores": model.score_samples(split.test),
        "drawn": new_drawn,
        "filled": new_filled,
        "share": drawn_shares,
        "auc": _auc(split, draws),
        "seconds": seconds,
    }


def _shares_and_new(train: pd.DataFrame, others: pd.DataFrame) -> tuple[float, int]:
    """The greatest difference of shares of few values, and the number of values not in training."""
    gap, n_new = 0.0, 0
    for column in numbers_of(train):
        shares = train[column].value_counts(normalize=True)
        if len(shares) <= _FEW:
            of_others = others[column].value_counts(normalize=True)
            gap = max(gap, of_others.sub(shares, fill_value=0.0).abs().max())
            n_new += int((others[column].notna() & ~others[column].isin(shares.index)).sum())
    return gap, n_new


def _auc(split: Split, draws: pd.DataFrame) -> float:
    """Area of boosting that tells draws from held-out rows, the same cells missing in both."""
    rows = draws.sample(len(split.test), random_state=split.seed)
    return auc_of_boosting(split, rows.mask(split.test.isna().to_numpy()))


def dates(options: argparse.Namespace) -> None:
    """Print what a stack draws of months."""
    print_title("dates: a stack of economics, * if a bar is missed")
    print_row("table", "other days", "auc", "fit s")
    table = pd.read_csv(_file("economics"), parse_dates=["date"])
    figures = []
    for split in splits(table, options.splits or 3):
        model, seconds = fitted(StackedDensity(random_state=0), split.train)
        draws = model.sample(_N_DRAWS, random_state=split.seed)
        # All are last days of their months.
        others = int((draws["date"] != draws["date"].dt.normalize() + MonthEnd(0)).sum())
        test = _with_days(split.test)
        figures.append((others, _auc(split._replace(test=test), _with_days(draws)), seconds))
    others, areas, seconds = np.array(figures).T
    auc = of_splits(areas)
    print_row(
        "economics",
        f"{others.sum():.0f}{star(others.any())}",
        f"{auc}{star(auc.mean > _AUC_BAR_OF_DATES)}",
        f"{np.median(seconds):.2f}",
    )


def _with_days(table: pd.DataFrame) -> pd.DataFrame:
    """Dates as numbers of days."""
    days = (table["date"] - pd.Timestamp(0)) / pd.Timedelta(days=1)
    return table.assign(date=days).astype(float)


def wide(options: argparse.Namespace) -> None:
    """Print the share of categories that are filled wrongly beside many numbers."""
    print_title("wide: wrong fills of categories beside 280 numbers, * if a bar is missed")
    print_row("table", "fills", "wrong", "seconds")
    n_tables = options.splits or 5
    chosen = [label for label in options.models if label in _OF_WIDE]
    for label in ("logistic", *chosen, "default"):
        wrong, seconds = zip(*(_wrong_fills(label, seed) for seed in range(n_tables)))
        share = of_splits(wrong)
        missed = label == "default" and share.mean > _WIDE_BAR
        print_row("wide", label, f"{share}{star(missed)}", f"{np.median(seconds):.2f}")


def _wrong_fills(label: str, seed: int) -> tuple[float, float]:
    """Share of the removed categories that are filled wrongly, and CPU seconds."""
    table, flags = _wide_table(seed)
    removed = holes(table, "mcar", seed, _WIDE_REMOVED)
    rows, start = table.mask(removed), time.process_time()
    if label == "logistic":
        filled = _filled_by_regressions(rows, flags)
    elif label == "default":
        filled = CircuitImputer(random_state=0).set_output(transform="pandas").fit_transform(rows)
    else:
        filled = clone(MODELS[label]).fit(rows).complete(rows)
    seconds = time.process_time() - start
    lost = removed[:, [table.columns.get_loc(flag) for flag in flags]]
    return float((filled[flags] != table[flags]).to_numpy()[lost].mean()), seconds


def _wide_table(seed: int) -> tuple[pd.DataFrame, list[str]]:
    """Numbers of a few factors, and flags that follow the factors; the names of the flags."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(_WIDE_ROWS, _WIDE_FACTORS))
    numbers = factors @ rng.normal(size=(_WIDE_FACTORS, _WIDE_NUMBERS))
    numbers += _NOISE_OF_NUMBERS * rng.normal(size=numbers.shape)
    scores = factors @ rng.normal(size=(_WIDE_FACTORS, _WIDE_FLAGS)) / np.sqrt(_WIDE_FACTORS)
    is_set = scores + _NOISE_OF_FLAGS * rng.normal(size=scores.shape) > 0.0
    table = pd.DataFrame(numbers).add_prefix("x")
    flags = pd.DataFrame(np.where(is_set, "yes", "no")).add_prefix("flag")
    return table.join(flags), list(flags)


def _filled_by_regressions(rows: pd.DataFrame, flags: list[str]) -> pd.DataFrame:
    """Flags by logistic regressions on the numbers, these filled with means."""
    numbers = rows.drop(columns=flags)
    numbers = ((numbers - numbers.mean()) / numbers.std()).fillna(0.0)
    filled = rows.copy()
    for flag in flags:
        known = rows[flag].notna()
        model = LogisticRegression(C=0.01, max_iter=1000).fit(numbers[known], rows[flag][known])
        filled.loc[~known, flag] = model.predict(numbers[~known])
    return filled


SECTIONS = {"few": few, "dates": dates, "wide": wide}

if __name__ == "__main__":
    main()
