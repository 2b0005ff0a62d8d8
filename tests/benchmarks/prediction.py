"""What the benchmarks of prediction from incomplete rows share: masks, measuring, tables, bars.

A benchmark fits models to complete training rows, removes cells of the test rows and asks for
predictions. Losses are kept for each test row, means over the draws of a mask, so that two models
are compared row by row. Rows of all splits are pooled: a standard error takes them for independent,
although the test parts of several splits overlap.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tests.benchmarks.guide_tables import add_write, with_error
from tests.benchmarks.mixed_tables import numbers_of, read

#: Shares of cells removed at random, and masks that depend on a number that is seen ("mar") or on
#: the removed value itself ("mnar").
MASKS = (0.0, 0.1, 0.3, 0.5, 0.7, "mar", "mnar")
#: Those that count for the bars.
BAR_MASKS = tuple(mask for mask in MASKS if mask != "mar")
N_ROWS = 4000
OURS, ALONE, RIVAL, GRID = "pool", "densities alone", "masked copies", "boosting's grid"
BOOSTING, LIGHTGBM = "HGB", "LightGBM, copies"
#: Rows of a table of the guide with the models behind them; the best imputer and model follow.
SHOWN = {
    OURS: "pool",
    LIGHTGBM: "LightGBM, masked copies",
    RIVAL: "boosting, masked copies",
    BOOSTING: "boosting",
}

#: What was measured of one model on one split: arrays whose rows are the masks.
Figures = dict[str, np.ndarray]
#: For each model its figures on each split.
Found = dict[str, list[Figures]]


class Split(NamedTuple):
    """Complete training rows, and the test rows under each draw of each mask."""

    number: int
    train: pd.DataFrame
    y_train: np.ndarray
    tests: dict[tuple[float | str, int], pd.DataFrame]
    y_test: np.ndarray


class Fitted(NamedTuple):
    """A model that was fitted, once or several times.

    Each of ``asks`` takes rows and returns predictions and CPU seconds; ``seconds`` are those of
    the fit. ``note`` tells what was chosen. ``model`` is there for what a benchmark asks beyond
    predictions.
    """

    asks: list[Callable[[pd.DataFrame], tuple[np.ndarray, float]]]
    seconds: float
    note: str = ""
    model: Any = None


class Benchmark(NamedTuple):
    """What differs between the benchmarks.

    ``fits`` are functions of a split that return fitted models by label, each with the labels
    that it serves. ``figures`` are those of predictions, ``extras`` those of a model and rows.
    ``measures`` are titles with the name of a figure; a loss is the mean of "loss" over the rows,
    or with ``root`` the root of it.
    """

    split: Callable[[str, int, int], Split]
    fits: dict[tuple[str, ...], Callable[[Split], dict[str, Fitted]]]
    figures: Callable[[np.ndarray, Split], Figures]
    extras: Callable[[Any, pd.DataFrame, np.ndarray], Figures] | None
    measures: dict[str, str]
    root: bool


def options(description: str | None, names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=list(names))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, default=5, help="of each mask")
    parser.add_argument("--rows", type=int, default=N_ROWS, help="to learn from, at most")
    parser.add_argument("--models", nargs="*", help="labels; all of them by default")
    parser.add_argument("--keep", type=Path, help="folder of figures that are not measured again")
    add_write(parser)
    parser.add_argument("--quick", action="store_true", help="one split, two draws")
    found = parser.parse_args()
    if found.quick:
        found.splits, found.draws = 1, 2
    return found


# --------------------------------------------------------------------------- rows and masks


def sampled(name: str) -> pd.DataFrame:
    """At most ``N_ROWS`` rows of a mixed table."""
    table = read(name)
    return table.sample(min(len(table), N_ROWS), random_state=0).reset_index(drop=True)


def split_of(
    parts: tuple[pd.DataFrame, pd.DataFrame, np.ndarray, np.ndarray], number: int, n_draws: int
) -> Split:
    """A split from ``train_test_split(X, y)``, its test rows masked."""
    train, test = (part.reset_index(drop=True) for part in parts[:2])
    tests = {}
    for mask in MASKS:
        for draw in range(n_draws if mask else 1):
            tests[mask, draw] = remove(test, mask, np.random.default_rng([1, number, draw]))
    return Split(number, train, parts[2], tests, parts[3])


def remove(X: pd.DataFrame, mask: float | str, rng: np.random.Generator) -> pd.DataFrame:
    """Replace cells by NaN.

    A number is the share of all cells. "mar": with 0.9 times the quantile that the first number
    of the row stands at, which is always there. "mnar": with the quantile that the value itself
    stands at in its column, a half on average; categories are ranked by their codes.
    """
    draws = rng.random(X.shape)
    if mask == "mnar":
        return X.mask(draws < np.column_stack([_quantiles(X[column]) for column in X]))
    if mask != "mar":
        return X.mask(draws < mask)
    varying = [column for column in numbers_of(X) if X[column].nunique() > 2] or list(X)
    lost = draws < 0.9 * X[varying[0]].rank(pct=True).to_numpy()[:, np.newaxis]
    lost[:, X.columns.get_loc(varying[0])] = False
    return X.mask(lost)


def _quantiles(column: pd.Series) -> np.ndarray:
    """Mid-ranks as shares of the rows, between 0 and 1."""
    values = column.cat.codes if column.dtype == "category" else column
    return (values.rank().to_numpy() - 0.5) / len(values)


# --------------------------------------------------------------------------- measuring


def run(benchmark: Benchmark, options: argparse.Namespace) -> dict[str, Found]:
    """Measure and print table after table; return what was found in each."""
    found = {}
    for name in options.names:
        found[name] = _measure_table(benchmark, name, options)
        print_table(name, found[name], benchmark)
    return found


def _measure_table(benchmark: Benchmark, name: str, options: argparse.Namespace) -> Found:
    labels = [label for served in benchmark.fits for label in served]
    wanted = [label for label in labels if options.models is None or label in options.models]
    found: Found = {label: [] for label in wanted}
    for number in range(options.splits):
        split = benchmark.split(name, number, options.draws)
        some = slice(options.rows)
        split = split._replace(train=split.train[some], y_train=split.y_train[some])
        for served, fit in benchmark.fits.items():
            served = tuple(label for label in served if label in wanted)
            files = [_file(options, name, number, label) for label in served]
            if not all(file is not None and file.exists() for file in files):
                fitted = fit(split)
                figures = [measure(fitted[label], split, benchmark) for label in served]
                for file, figure in zip(files, figures):
                    if file is not None:
                        file.parent.mkdir(parents=True, exist_ok=True)
                        np.savez_compressed(file, **figure)
            else:
                figures = [dict(np.load(file)) for file in files if file is not None]
            for label, figure in zip(served, figures):
                found[label].append(figure)
    return found


def _file(options: argparse.Namespace, name: str, number: int, label: str) -> Path | None:
    if options.keep is None:
        return None
    stem = f"{name}_split{number}_rows{options.rows}_draws{options.draws}"
    stem += f"_{label.replace(' ', '-')}"
    return options.keep / f"{stem}.npz"


def measure(fitted: Fitted, split: Split, benchmark: Benchmark) -> Figures:
    """Means over the draws of each mask (and over the fits of the model)."""
    masks: dict[float | str, list[Figures]] = {mask: [] for mask in MASKS}
    extras: list[Figures] = []
    seconds = n_rows = 0.0
    for (mask, draw), X in split.tests.items():
        for ask in fitted.asks:
            values, spent = ask(X)
            masks[mask].append(benchmark.figures(values, split))
            seconds, n_rows = seconds + spent, n_rows + len(X)
        if benchmark.extras is not None and fitted.model is not None and draw == 0:
            extras.append(benchmark.extras(fitted.model, X, split.y_test))
    figures = {
        key: np.stack([np.mean([draw[key] for draw in draws], axis=0) for draws in masks.values()])
        for key in masks[0.0][0]
    }
    for key in extras[0] if extras else ():
        figures[key] = np.stack([extra[key] for extra in extras])
    figures["seconds"] = np.array([fitted.seconds, 1000.0 * seconds / n_rows])
    figures["note"] = np.array(fitted.note)
    return figures


def ask_with(model: Any, method: str) -> Callable[[pd.DataFrame], tuple[np.ndarray, float]]:
    def ask(X: pd.DataFrame) -> tuple[np.ndarray, float]:
        start = time.process_time()
        values = getattr(model, method)(X)
        return values, time.process_time() - start

    return ask


def fit_ours(model: Any, split: Split, method: str) -> Fitted:
    start = time.process_time()
    model.fit(split.train, split.y_train)
    return Fitted([ask_with(model, method)], time.process_time() - start, model=model)


# --------------------------------------------------------------------------- printing


def print_table(name: str, found: Found, benchmark: Benchmark) -> None:
    """One block for each measure: lines are models, columns are masks."""
    for title, key in benchmark.measures.items():
        measured = {label: splits for label, splits in found.items() if key in splits[0]}
        if measured:
            print(f"{name + ', ' + title:34s}" + "".join(f"{mask!s:>8s}" for mask in MASKS))
        for label, splits in measured.items():
            means = rows_of(splits, key).mean(axis=1)
            if benchmark.root and key == "loss":
                means = np.sqrt(means)
            print(f"  {label:32s}" + "".join(f"{value:8.3f}" for value in means))
    print(f"{name + ', CPU s':34s}{'fit':>8s}{'1000 rows':>11s}")
    for label, splits in found.items():
        fit, predict = np.mean([figures["seconds"] for figures in splits], axis=0)
        print(f"  {label:32s}{fit:8.2f}{predict:11.3f}")
    for label, splits in found.items():
        notes = [str(figures["note"]) for figures in splits]
        if any(notes):
            print(f"{name}, {label}: " + "; ".join(notes))
    print(flush=True)


def print_bars(
    found: dict[str, Found],
    benchmark: Benchmark,
    needed: Sequence[int],
    rivals: Sequence[str],
) -> None:
    """Ours compared with the rival, cell by cell, and what the bars count.

    ``needed`` are the cells in which ours has to be below the rival, and below all of ``rivals``
    (if given). Ours is within the tolerance where it is above the rival by at most the larger of
    3 % and two paired standard errors.
    """
    found = {
        name: models for name, models in found.items() if {OURS, RIVAL, *rivals} <= set(models)
    }
    cells = []
    for name, models in found.items():
        heads = (OURS, ALONE, RIVAL, "difference", "SE", "below", "within")
        line = "".join(f"{head:>{max(8, len(head) + 2)}s}" for head in heads)
        print(f"{name + ', bars':34s}{line}  best imputer + model")
        for mask in BAR_MASKS:
            at = MASKS.index(mask)
            losses = {label: rows_of(splits, "loss")[at] for label, splits in models.items()}
            values = {label: _loss(rows, benchmark.root) for label, rows in losses.items()}
            difference, error = compare(losses[OURS], losses[RIVAL], benchmark.root)
            below = difference < 0.0
            within = difference <= max(0.03 * values[RIVAL], 2.0 * error)
            best = min(rivals, key=values.__getitem__)
            cells.append((below, not within, values[OURS] < values[best]))
            print(
                f"  {mask!s:32s}{values[OURS]:8.3f}{values.get(ALONE, np.nan):17.3f}"
                f"{values[RIVAL]:15.3f}{difference:+12.3f}{error:8.3f}"
                f"{_yes(below):>8s}{_yes(within):>8s}{values[best]:8.3f} {best}"
            )
    if cells:
        counts, (n_below, *n_best) = np.sum(cells, axis=0), needed
        bars = [f"{n_below} of all", "0", *(f"{count} of all" for count in n_best)]
        titles = (
            f"below {RIVAL}",
            "above by more than the tolerance",
            "below every imputer + model",
        )
        for title, count, bar in itertools.zip_longest(titles, counts, bars):
            print(f"{title}: {count} of {len(cells)} cells" + (f" (bar: {bar})" if bar else ""))


def guide_rows(
    found: dict[str, Found], benchmark: Benchmark, rivals: Sequence[str], titles: dict[str, str]
) -> list[list[str]]:
    """Losses, and accuracies where there are any, as a table of the guide.

    ``rivals`` are the imputers with their models: the best of them has a row, chosen in each column
    anew. The last row is ours less the copies', with the paired standard error. ``titles`` are
    those of the tables, and of the model without features.
    """
    columns = [("loss", mask) for mask in MASKS if mask != 0.1]
    if "accuracy" in benchmark.measures:
        columns += [("right", 0.0), ("right", 0.5)]
    rows = [["table", "model", *(_head(key, mask) for key, mask in columns)]]
    for name, models in found.items():
        if {OURS, RIVAL, *rivals} <= set(models):
            cells = [_shown(models, benchmark, rivals, titles, column) for column in columns]
            for model in cells[0]:
                rows.append([titles.get(name, name), model, *(texts[model] for texts in cells)])
    return rows


def _head(key: str, mask: float | str) -> str:
    title = mask.upper() if isinstance(mask, str) else f"{100.0 * mask:.0f} %"
    return title if key == "loss" else f"accuracy, {title}"


def _shown(
    models: Found,
    benchmark: Benchmark,
    rivals: Sequence[str],
    titles: dict[str, str],
    column: tuple[str, float | str],
) -> dict[str, str]:
    """Texts of one column by the titles of its rows."""
    key, mask = column
    root = benchmark.root and key == "loss"
    at = MASKS.index(mask)
    measured = {label: rows_of(splits, key)[at] for label, splits in models.items()}
    values = {label: _loss(figures, root) for label, figures in measured.items()}
    best = min if key == "loss" else max
    figures = {title: values[label] for label, title in SHOWN.items() if label in values}
    figures["best imputer + model"] = best(values[label] for label in rivals)
    figures |= {titles[label]: values[label] for label in titles if label in values}
    texts = {title: f"{figure:.3f}" for title, figure in figures.items()}
    difference, error = compare(measured[OURS], measured[RIVAL], root)
    return texts | {"pool - boosting, masked copies": with_error(difference, error, 3)}


def compare(ours: np.ndarray, rival: np.ndarray, root: bool) -> tuple[float, float]:
    """Difference of two losses and its standard error, from the rows of both (paired).

    The error of a difference of roots is that of its first derivative.
    """
    a, b = _loss(ours, root), _loss(rival, root)
    change = ours / (2.0 * a) - rival / (2.0 * b) if root else ours - rival
    return a - b, standard_error(change)


def standard_error(rows: np.ndarray) -> float:
    return float(rows.std(ddof=1) / np.sqrt(len(rows)))


def _loss(rows: np.ndarray, root: bool) -> float:
    return float(np.sqrt(rows.mean()) if root else rows.mean())


def rows_of(splits: list[Figures], key: str) -> np.ndarray:
    """A figure under each mask, the rows of all splits side by side."""
    return np.concatenate([figures[key] for figures in splits], axis=1)


def print_cost(found: dict[str, Found]) -> None:
    """CPU seconds of fits of ours over those of boosting's grid, and their geometric mean."""
    ratios = {}
    for name, models in found.items():
        if {OURS, GRID} <= set(models):
            ours, grid = (sum(one["seconds"][0] for one in models[label]) for label in (OURS, GRID))
            ratios[name] = ours / grid
    if ratios:
        each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        mean = np.exp(np.mean(np.log([*ratios.values()])))
        print(f"CPU of fits over {GRID}: geometric mean {mean:.2f} ({each})")


def _yes(answer: bool) -> str:
    return "yes" if answer else "NO"
