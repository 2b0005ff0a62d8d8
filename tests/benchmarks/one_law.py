"""Whether all answers about a column follow from one law, whatever its unit.

    SKPC_DATA=... python -m tests.benchmarks.one_law [sections ...] [--tables ...]
        [--densities ...] [--rows N] [--draws N] [--worst N] [--write FILE] [--against FILE]

Each density learns ``--rows`` rows of each of the shared tables; where nothing else is said, a
section has all of both. ``--write`` saves the figures of one section as a csv file.

events       47 questions a table, about one column or two: the probability of the event, and its
             share of ``--draws`` draws. They agree within 4 standard errors and .0005 (bar: 1 % do
             not). "rows" is the share of the rows learned from, for orientation.
totals       Scores summed over all points of a lattice, over all ordered states, over all
             categories of a column, and over all rows of several columns of categories, less the
             probability of the same cells. Greatest difference (bars: 1e-6 on lattices, 1e-9 of
             categories). "per unit" counts ordered states whose sum is right only if their scores
             are those of mass / step.
units        All numbers but categories in units of 1e-12, 1.7e-27 and 1e30: greatest
             change of the completions of removed cells (sd of the column; 1 where a category
             changes), and of the score of a row, less the log of the unit for each cell with a
             density (nats; bars 1e-3). "but for logs" leaves out whole multiples of that log, as
             if other cells had a density. The table "kinds" holds what units have harmed.
offset       Microseconds within one millisecond, as they are and 1.7e15 later: root mean square
             errors of completions (CircuitImputer's, too) and of DensityRegressor, as multiples of
             the noise of the data (bar 2), and as parts of the range. "dates" are the same moments
             as dates.
scales       Regressors of targets times 1e140 and 1e-140: greatest change of the predictions scaled
             back, in sd (bar 1e-6 of DensityRegressor). "no regressors" is DensityRegressor without
             other models: boosting turns errors of rounding into other trees.
likelihood   Log densities of held-out rows, a fifth of each table. With ``--against``, those of
             another version: mean difference of the same rows, and two standard errors (bar: none
             below the greater of both and .02).
speed        CPU seconds of a fit of four fifths of each table, and of scores of the rest; the
             least of three. With ``--against``, ratios to those of another version.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import pandas as pd
from sklearn.base import clone

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityRegressor,
    ExpectedKernelSVR,
    ExtraCutsets,
    HiddenChowLiuTree,
    HiddenForest,
    SoftLearnSPN,
    TableMixture,
)
from tests.benchmarks.numbers_tables import print_title, star

TABLES = (
    *("doctor_visits", "economics", "medical_expenses", "panel_earnings"),
    *("schooling", "train_choices", "training_program"),
)
DENSITIES = {
    type(one).__name__: one
    for one in (
        CutsetNetworkBD(random_state=0),
        SoftLearnSPN(random_state=0),
        TableMixture(random_state=0),
        HiddenChowLiuTree(random_state=0),
        ExtraCutsets(random_state=0),
        HiddenForest(random_state=0),
    )
}
#: Questions of each kind about a table, 47 in all.
QUESTIONS = {"<=": 12, "<": 7, "==": 7, "range": 6, "category": 3, "pair": 12}
_SE, _SLACK, _EVENTS_BAR = 4.0, 5e-4, 0.01
#: Parts of the range of a column by which rounding may move a value.
_ROUNDING = 1e-9
_LATTICE_BAR, _CATEGORY_BAR = 1e-6, 1e-9
#: Most points of a lattice, and rows of categories, that are summed over.
_MOST_POINTS, _MOST_ROWS = 20_000, 2_000
UNITS, _UNIT_BAR, _SOME_ROWS, _REMOVED = (1e-12, 1.7e-27, 1e30), 1e-3, 300, 0.2
_OFFSET, _SPREAD, _NOISE, _OFFSET_BAR = 1.7e15, 1e3, 0.1, 2.0
_SCALES, _SCALES_BAR = (1e140, 1e-140), 1e-6
_HELD_OUT, _LESS_BAR, _REPEATS = 0.2, 0.02, 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", default=["events"], metavar="sections")
    parser.add_argument("--tables", nargs="*", choices=(*TABLES, "kinds"), default=TABLES)
    parser.add_argument("--densities", nargs="*", choices=list(DENSITIES), default=list(DENSITIES))
    parser.add_argument("--rows", type=int, default=1_500)
    parser.add_argument("--draws", type=int, default=400_000)
    parser.add_argument("--worst", type=int, default=20, help="questions that are listed")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"sections are {', '.join(SECTIONS)}; got {', '.join(sorted(unknown))}")
    if options.write and len(options.sections) > 1:
        parser.error("--write takes the figures of one section")
    warnings.simplefilter("ignore")
    for section in options.sections:
        figures = SECTIONS[section](options)
        if options.write:
            figures.to_csv(options.write, index=False)


def read(name: str) -> pd.DataFrame:
    """A table in the order of its file; dates as such."""
    if name == "kinds":
        return _kinds()
    folder = Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser() / "tables"
    dates = ["date"] if name == "economics" else []
    return pd.read_csv(folder / f"{name}.csv.gz", parse_dates=dates)


def rows_of(name: str, n_rows: int) -> pd.DataFrame:
    """So many rows of a table, drawn without replacement."""
    table = read(name)
    return table.sample(min(n_rows, len(table)), random_state=0).reset_index(drop=True)


def _kinds(n_rows: int = 3_000) -> pd.DataFrame:
    """Numbers of all kinds that depend on one factor."""
    rng = np.random.default_rng(0)
    factor = rng.normal(size=n_rows)
    noisy = factor[:, np.newaxis] + 0.5 * rng.normal(size=(n_rows, 8))
    ranks = (noisy.argsort(axis=0).argsort(axis=0) + 0.5) / n_rows
    columns = {
        "normal": 3.0 + noisy[:, 0],
        "four values": np.array([1.0, 2.0, 3.0, 5.0])[(4 * ranks[:, 1]).astype(int)],
        "heavy": 10.0 ** (3.0 * noisy[:, 2]),
        "p-value": ranks[:, 3] ** 3,
        "zeros": np.maximum(noisy[:, 4], 0.0),
        "tenths": np.round(noisy[:, 5], 1),
        "constant": np.full(n_rows, 70.5),
        "odd prices": np.round(40.0 * np.exp(noisy[:, 6]) / 5.0) * 5.0 + 4.99,
    }
    return pd.DataFrame(columns).assign(side=np.where(noisy[:, 7] > 0.0, "up", "down"))


def fitted(options: argparse.Namespace, names: Any = None) -> Iterator[tuple[str, str, Any, Any]]:
    """Each table and density, the rows learned from, and the density that has learned them."""
    for name in names or options.tables:
        train = rows_of(name, options.rows)
        for label in options.densities:
            yield name, label, train, clone(DENSITIES[label]).fit(train)


def is_category(column: pd.Series) -> bool:
    """Strings, bools, and numbers of two values or fewer."""
    is_number = pd.api.types.is_numeric_dtype(column) and column.dtype != bool
    is_date = pd.api.types.is_datetime64_dtype(column)
    return not is_date and (not is_number or column.nunique() <= 2)


def print_pivot(figures: pd.DataFrame, value: str, title: str, form: str) -> None:
    """Print a table of figures, one line a table and one column a density."""
    wide = figures.pivot_table(index="table", columns="density", values=value, sort=False)
    wide.loc["mean"] = wide.mean()
    print(f"{title}\n{wide.to_string(float_format=lambda x: f'{x:{form}}')}", flush=True)


# -- events ----------------------------------------------------------------------------------------


class Statement(NamedTuple):
    """What a question says of one column: a set of values, or the ends of a range.

    Attributes
    ----------
    column : str
        Its name.
    said : object
        What ``probability`` takes.
    low, high : number, Timestamp or None
        Ends of a range, None for an open one.
    closed : (bool, bool)
        Which ends belong to it.
    values : list or None
        The set.
    """

    column: str
    said: Any
    low: Any = None
    high: Any = None
    closed: tuple[bool, bool] = (True, True)
    values: list | None = None

    def holds(self, table: pd.DataFrame, rounding: Any) -> np.ndarray:
        """Which rows fulfil it; values that rounding moved from an end are that end."""
        cells = table[self.column]
        if self.values is not None and rounding is None:
            return cells.isin(self.values).to_numpy()
        if self.values is not None:
            return np.any([(cells - one).abs() <= rounding for one in self.values], axis=0)
        held = cells.notna()
        if self.low is not None:
            held &= cells - self.low >= -rounding if self.closed[0] else cells - self.low > rounding
        if self.high is not None:
            above = cells - self.high
            held &= above <= rounding if self.closed[1] else above < -rounding
        return held.to_numpy()


def _questions(train: pd.DataFrame, seed: int) -> list[tuple[str, list[Statement]]]:
    """The questions about a table: their kinds and statements."""
    rng = np.random.default_rng(seed)
    categories = [name for name in train if is_category(train[name])]
    numbers = [name for name in train if name not in categories]
    repeating = [name for name in numbers if train[name].value_counts().max() > 1]

    def one(kind: str) -> Statement:
        if kind == "category" and categories:
            return _of_category(train[rng.choice(categories)], rng)
        if kind == "==" and repeating:
            return _equal(train[rng.choice(repeating)], rng)
        kind = kind if kind in ("<", "range") else "<="
        return _of_number(train[rng.choice(numbers)], kind, rng)

    def pair() -> list[Statement]:
        kinds = ("<=", "<", "==", "range", "category")
        both = one(str(rng.choice(kinds))), one(str(rng.choice(kinds)))
        return pair() if both[0].column == both[1].column else list(both)

    return [
        (kind, pair() if kind == "pair" else [one(kind)])
        for kind, size in QUESTIONS.items()
        for _ in range(size)
    ]


def _of_category(cells: pd.Series, rng: np.random.Generator) -> Statement:
    states = cells.dropna().unique()
    size = rng.integers(1, max(len(states), 2))
    values = np.asarray(rng.choice(states, size, replace=False)).tolist()
    return Statement(cells.name, values, values=values)


def _equal(cells: pd.Series, rng: np.random.Generator) -> Statement:
    """A value that repeats, drawn by rows."""
    counts = cells.value_counts()
    often = cells[cells.isin(counts.index[counts > 1])]
    value = often.iloc[rng.integers(len(often))]
    value = value if isinstance(value, pd.Timestamp) else value.item()
    return Statement(cells.name, value, value, value)


def _of_number(cells: pd.Series, kind: str, rng: np.random.Generator) -> Statement:
    first, second = _end(cells, rng), _end(cells, rng)
    if kind == "range" and first != second:
        low, high = min(first, second), max(first, second)
        closed = str(rng.choice(["both", "neither", "left", "right"]))
        sides = closed in ("both", "left"), closed in ("both", "right")
        return Statement(cells.name, pd.Interval(low, high, closed), low, high, sides)
    if kind == "<" and not isinstance(first, pd.Timestamp):
        return Statement(
            cells.name, pd.Interval(-np.inf, first, "left"), high=first, closed=(True, False)
        )
    return Statement(cells.name, (None, first), high=first)


def _end(cells: pd.Series, rng: np.random.Generator) -> Any:
    """A value of a row, or the middle between it and the next greater one."""
    observed = cells.dropna()
    value = observed.iloc[rng.integers(len(observed))]
    greater = observed[observed > value]
    if rng.random() >= 0.5 and len(greater):
        value = value + (greater.min() - value) / 2
    return value if isinstance(value, pd.Timestamp) else value.item()


def events(options: argparse.Namespace) -> pd.DataFrame:
    """Compare probabilities with shares of draws."""
    print_title("events: probabilities that are not the share of draws")
    figures = pd.DataFrame(
        record
        for name, label, train, model in fitted(options)
        for record in _asked(name, label, train, model, options.draws)
    )
    off = 100.0 * figures["off"]
    print_pivot(figures.assign(off=off), "off", "% beyond 4 SE + .0005", ".1f")
    print(f"{int(figures['off'].sum())} of {len(figures)}: {off.mean():.2f} %")
    print(off.groupby([figures["kind"], figures["density"]]).mean().unstack().round(1).to_string())
    gap = (figures["asked"] - figures["drawn"]).abs()
    worst = figures.assign(gap=gap)[figures["off"]].nlargest(options.worst, "gap")
    columns = ["table", "density", "question", "asked", "drawn", "rows"]
    print(worst[columns].to_string(index=False, float_format=lambda x: f"{x:.4f}"))
    return figures


def _asked(name: str, label: str, train: pd.DataFrame, model: Any, n_draws: int) -> Iterator[dict]:
    questions = _questions(train, TABLES.index(name))
    draws, said = model.sample(n_draws, random_state=1), []
    rounding = {
        column: None if is_category(cells) else _ROUNDING * (cells.max() - cells.min())
        for column, cells in train.items()
    }
    for _, statements in questions:
        said.append({one.column: one.said for one in statements})
    for (kind, statements), event, asked in zip(questions, said, model.probability(said)):
        drawn, rows = (
            np.all([one.holds(table, rounding[one.column]) for one in statements], axis=0).mean()
            for table in (draws, train.dropna(subset=list(event)))
        )
        se = np.sqrt(drawn * (1.0 - drawn) / n_draws)
        off = abs(asked - drawn) > _SE * se + _SLACK
        shown = "; ".join(f"{column}: {what}" for column, what in event.items())
        yield {
            **{"table": name, "density": label, "kind": kind, "question": shown},
            **{"asked": asked, "drawn": drawn, "rows": rows, "off": off},
        }


# -- totals ----------------------------------------------------------------------------------------


def totals(options: argparse.Namespace) -> pd.DataFrame:
    """Compare sums of scores with probabilities."""
    print_title("totals: sums of scores less the probability of the same cells")
    figures = pd.DataFrame(
        {"table": name, "density": label, **one}
        for name, label, train, model in fitted(options)
        for one in _totals(train, model)
    )
    for what, part in figures.groupby("what", sort=False):
        part = part.assign(gap=(part["summed"] - part["asked"]).abs())
        worst = part.groupby(["table", "density"], sort=False)["gap"].max().reset_index()
        bar = _LATTICE_BAR if what == "lattice" else _CATEGORY_BAR
        greatest = part.loc[part["gap"].idxmax()]
        print_pivot(worst, "gap", f"{what}, bar {bar:g}", ".1e")
        at = f"{greatest['table']}, {greatest['density']}, {greatest['columns']}"
        print(f"worst: {at}: {greatest['summed']:.9f}, asked {greatest['asked']:.9f}")
        print(f"columns beyond the bar: {int((part['gap'] > bar).sum())} of {len(part)}")
        if what == "ordered states":
            print(f"per unit: {int(part['per unit'].astype(bool).sum())} of {len(part)}")
    return figures


def _totals(train: pd.DataFrame, model: Any) -> Iterator[dict]:
    about = model.domain_.to_frame()
    states = {name: train[name].dropna().unique() for name in train}
    categories = [name for name in train if about.loc[name, "kind"] == "categories"]
    for name in categories:
        yield _summed("categories", model, train, {name: states[name]})
    small = sorted(categories, key=lambda name: len(states[name]))
    sizes = np.cumprod([len(states[name]) for name in small])
    small = small[: int(np.searchsorted(sizes, _MOST_ROWS, side="right"))]
    if len(small) > 1:
        yield _summed("rows of categories", model, train, {name: states[name] for name in small})
    for name in train:
        kind, lattice = about.loc[name, ["kind", "lattice"]]
        if kind == "ordered states":
            one = _summed("ordered states", model, train, {name: states[name]})
            per_unit = one["summed"] * _lattice(lattice)[0]
            is_closer = abs(per_unit - one["asked"]) < abs(one["summed"] - one["asked"])
            yield one | {"per unit": is_closer} | ({"summed": per_unit} if is_closer else {})
        if kind == "number" and lattice:
            yield from _over_lattice(model, train, name, *_lattice(lattice))


def _lattice(text: str) -> tuple[float, float]:
    """Step and origin, as the summary of a table has them; a step of one without a lattice."""
    step, _, origin = map(str.strip, text.partition("from"))
    return float(step or 1.0), float(origin or 0.0)


def _summed(what: str, model: Any, train: pd.DataFrame, states: dict[str, Any]) -> dict:
    """Sum over all combinations of some states."""
    rows = pd.DataFrame(itertools.product(*states.values()), columns=list(states))
    scores = model.score_samples(rows.reindex(columns=list(train)))
    asked = model.probability({name: list(values) for name, values in states.items()})
    columns = ", ".join(states)
    return {"what": what, "columns": columns, "summed": np.exp(scores).sum(), "asked": asked}


def _over_lattice(
    model: Any, train: pd.DataFrame, name: str, step: float, origin: float
) -> Iterator[dict]:
    """Sum over a lattice, from half the range below the rows to half the range above."""
    low, high = train[name].min(), train[name].max()
    ends = np.rint((np.array([1.5 * low - 0.5 * high, 1.5 * high - 0.5 * low]) - origin) / step)
    if np.diff(ends)[0] < _MOST_POINTS:
        points = origin + step * np.arange(ends[0], ends[1] + 1.0)
        rows = pd.DataFrame({name: points}).reindex(columns=list(train))
        summed = step * np.exp(model.score_samples(rows)).sum()
        asked = model.probability({name: (points[0], points[-1])})
        yield {"what": "lattice", "columns": name, "summed": summed, "asked": asked}


# -- units -----------------------------------------------------------------------------------------


def units(options: argparse.Namespace) -> pd.DataFrame:
    """Compare completions and scores of a table in other units."""
    names = options.tables if options.tables is not TABLES else (*TABLES, "kinds")
    print_title(f"units: changes of completions (sd) and of scores (nats), bars {_UNIT_BAR:g}")
    figures = []
    for name, label, train, model in fitted(options, names):
        for unit in UNITS:
            figures += _changed(name, label, train, model, unit)
    figures = pd.DataFrame(figures)
    for unit, part in figures.groupby("unit", sort=False):
        what = {"sd": "completions", "nats": "scores", "rest": "scores but for logs"}
        worst = part.groupby(["table", "density"], sort=False)[[*what]].max().reset_index()
        for value, title in what.items():
            print_pivot(worst, value, f"{title}, unit {unit:g}", ".1e")
    print(f"columns beyond the bar of completions, of {figures['column'].nunique()}")
    is_off = figures["sd"] > _UNIT_BAR
    kinds = figures[is_off].groupby(["table", "column", "kind", "kind in unit"], sort=False)
    print(kinds["sd"].agg(["count", "median", "max"]).to_string(float_format="{:.2g}".format))
    return figures


def _changed(name: str, label: str, train: pd.DataFrame, model: Any, unit: float) -> list[dict]:
    """Changes of completions of each column, and of scores of rows."""
    about = model.domain_.to_frame()
    numbers = [c for c in train.select_dtypes("number") if about.loc[c, "kind"] != "categories"]
    factor = pd.Series(unit, index=numbers)
    scaled = train.astype(dict.fromkeys(numbers, float))
    scaled[numbers] *= factor
    other = clone(DENSITIES[label]).fit(scaled)
    rng = np.random.default_rng(0)
    plain, other_rows = train.head(_SOME_ROWS), scaled.head(_SOME_ROWS)
    removed = rng.random(plain.shape) < _REMOVED
    filled = model.complete(plain.astype(dict.fromkeys(numbers, float)).mask(removed))
    other_filled = other.complete(other_rows.mask(removed))
    other_filled[numbers] /= factor
    log_units = _cells_with_density(model, plain, numbers).sum(axis=1) * np.log(unit)
    nats = other.score_samples(other_rows) + log_units - model.score_samples(plain)
    rest = nats - np.log(unit) * np.rint(nats / np.log(unit))
    kinds, other_kinds = (
        one.domain_.to_frame()[["kind", "lattice"]].map(str) for one in (model, other)
    )
    return [
        {
            **{"table": name, "density": label, "unit": unit, "column": column},
            "kind": _kind(kinds.loc[column]),
            "kind in unit": _kind(other_kinds.loc[column]),
            "sd": _change(filled[column], other_filled[column], train[column]),
            "nats": float(np.abs(nats).max()),
            "rest": float(np.abs(rest).max()),
        }
        for column in train
    ]


def _kind(about: pd.Series) -> str:
    return about["kind"] + (" on a lattice" if about["lattice"] else "")


def _change(filled: pd.Series, other: pd.Series, train: pd.Series) -> float:
    """Greatest change of the cells of a column, in its sd; a missing cell is a change."""
    if not pd.api.types.is_numeric_dtype(train) or train.dtype == bool:
        return float((filled.astype(str) != other.astype(str)).any())
    spread = train.std() or abs(train.iloc[0])
    return float((np.abs(filled - other) / spread).fillna(np.inf).max())


def _cells_with_density(model: Any, rows: pd.DataFrame, numbers: list[str]) -> np.ndarray:
    """Which cells of some columns have a density, and no probability of their own."""
    about, marginals = model.domain_.to_frame(), model.marginals(rows.head(1))
    counted = []
    for name in numbers:
        cells, (kind, lattice) = rows[name], about.loc[name, ["kind", "lattice"]]
        is_counted = kind != "number" or (not lattice and cells.isin(marginals[name].atoms))
        counted.append(cells.notna() & ~np.asarray(is_counted))
    return np.transpose(counted)


# -- offset and scales -----------------------------------------------------------------------------


def offset(options: argparse.Namespace) -> pd.DataFrame:
    """Errors far away from zero, and at it."""
    print_title(f"offset: rms errors, * if beyond {_OFFSET_BAR:g} x the noise of the data")
    rng, figures = np.random.default_rng(0), []
    first = rng.random(options.rows)
    second = first + _NOISE * rng.normal(size=options.rows)
    table = pd.DataFrame({"start": np.rint(_SPREAD * first), "end": np.rint(_SPREAD * second)})
    table["side"] = np.where(first + rng.normal(size=options.rows) > 0.5, "up", "down")
    for label in (*options.densities, "CircuitImputer", "DensityRegressor"):
        for where in ("at 0", "later", "dates"):
            later = table.assign(**table[["start", "end"]].add(0.0 if where == "at 0" else _OFFSET))
            if where == "dates":
                later = later.astype(dict.fromkeys(["start", "end"], "datetime64[us]"))
            error = _later(label, later, where == "dates") / _SPREAD
            in_noise, in_range = error / _NOISE, error / np.ptp(second)
            figures.append({"density": label, "where": where, "noise": in_noise, "range": in_range})
            shown = f"{in_noise:10.3f}{star(not in_noise <= _OFFSET_BAR):1s}{in_range:10.4f}"
            print(f"{label:20s}{where:8s}{shown}", flush=True)
    return pd.DataFrame(figures)


def _later(label: str, table: pd.DataFrame, are_dates: bool) -> float:
    """Root mean square error of the ends of the last third of the rows."""
    n_train = len(table) * 2 // 3
    train, test = table.iloc[:n_train], table.iloc[n_train:]
    holes = test.assign(end=test["end"].mask(test["end"].notna()))
    if label == "DensityRegressor":
        model = DensityRegressor(random_state=0)
        model.fit(train.drop(columns="end"), train["end"])
        filled = pd.Series(model.predict(test.drop(columns="end")), index=test.index)
    elif label == "CircuitImputer":
        model = CircuitImputer(random_state=0).set_output(transform="pandas")
        filled = model.fit(train).transform(holes)["end"]
    else:
        filled = clone(DENSITIES[label]).fit(train).complete(holes)["end"]
    gap = filled - test["end"]
    gap = gap / pd.Timedelta(microseconds=1) if are_dates else gap
    return float(np.sqrt(np.square(gap).mean()))


def scales(options: argparse.Namespace) -> pd.DataFrame:
    """Changes of predictions of targets of another magnitude."""
    print_title(f"scales: changes of predictions scaled back (sd), * if beyond {_SCALES_BAR:g}")
    rng, figures = np.random.default_rng(0), []
    X = rng.normal(size=(options.rows, 3))
    y = X[:, 0] + np.sin(3.0 * X[:, 1]) + _NOISE * rng.normal(size=options.rows)
    targets = {
        "numbers": y,
        "five values": np.clip(np.rint(y), -2.0, 2.0),
        "zeros": np.maximum(y, 0.0),
        "heavy": np.exp(3.0 * y),
    }
    regressors = {
        "DensityRegressor": DensityRegressor(random_state=0),
        "no regressors": DensityRegressor(regressors=None, random_state=0),
        "ExpectedKernelSVR": ExpectedKernelSVR(random_state=0),
    }
    for (label, model), (target, of_rows) in itertools.product(regressors.items(), targets.items()):
        predicted = clone(model).fit(X, of_rows).predict(X)
        for scale in _SCALES:
            other = clone(model).fit(X, of_rows * scale).predict(X) / scale
            change = float(np.abs(other - predicted).max() / of_rows.std())
            figures.append({"model": label, "target": target, "scale": scale, "sd": change})
            shown = f"{change:12.3g}{star(not change <= _SCALES_BAR)}"
            print(f"{label:20s}{target:14s}* {scale:g}{shown}", flush=True)
    return pd.DataFrame(figures)


# -- likelihood and speed --------------------------------------------------------------------------


def _held_out(options: argparse.Namespace) -> Iterator[tuple[str, str, Any, Any]]:
    """Each table and density, four fifths of the rows, and the rest with their numbers."""
    for name in options.tables:
        table = read(name)
        test = table.sample(frac=_HELD_OUT, random_state=0)
        for label in options.densities:
            yield name, label, table.drop(test.index), test


def likelihood(options: argparse.Namespace) -> pd.DataFrame:
    """Score held-out rows."""
    print_title("likelihood: mean log density of held-out rows (nats)")
    parts = []
    for name, label, train, test in _held_out(options):
        nats = clone(DENSITIES[label]).fit(train).score_samples(test)
        what = {"table": name, "density": label, "row": test.index, "nats": nats}
        parts.append(pd.DataFrame(what))
    figures = pd.concat(parts, ignore_index=True)
    print_pivot(figures, "nats", "held-out rows", ".3f")
    if options.against:
        both = figures.merge(pd.read_csv(options.against), on=["table", "density", "row"])
        gain = (both["nats_x"] - both["nats_y"]).groupby([both["table"], both["density"]])
        two_se = 2.0 * gain.std() / np.sqrt(gain.count())
        compared = pd.DataFrame({"gain": gain.mean(), "two se": two_se})
        compared["missed"] = compared["gain"] < -np.maximum(two_se, _LESS_BAR)
        print(compared.to_string(float_format=lambda x: f"{x:.3f}"))
        print(f"mean of tables and densities: {compared['gain'].mean():.3f}")
    return figures


def speed(options: argparse.Namespace) -> pd.DataFrame:
    """Time fits and scores."""
    print_title(f"speed: CPU seconds, the least of {_REPEATS}")
    figures = []
    for name, label, train, test in _held_out(options):
        # The first fit compiles.
        clone(DENSITIES[label]).fit(train).score_samples(test)
        seconds = []
        for _ in range(_REPEATS):
            start = time.process_time()
            model = clone(DENSITIES[label]).fit(train)
            between = time.process_time()
            model.score_samples(test)
            seconds.append((between - start, time.process_time() - between))
        fit, score = np.min(seconds, axis=0)
        figures.append({"table": name, "density": label, "fit": fit, "score": score})
    figures = pd.DataFrame(figures)
    for what in ("fit", "score"):
        print_pivot(figures, what, what, ".4f")
    if options.against:
        both = figures.merge(pd.read_csv(options.against), on=["table", "density"])
        for what in ("fit", "score"):
            ratio = both[f"{what}_x"] / both[f"{what}_y"]
            mean = np.exp(np.log(ratio).mean())
            print_pivot(both.assign(ratio=ratio), "ratio", f"{what}, ratio", ".3f")
            print(f"geometric mean {mean:.3f}")
    return figures


SECTIONS = {
    "events": events,
    "totals": totals,
    "units": units,
    "offset": offset,
    "scales": scales,
    "likelihood": likelihood,
    "speed": speed,
}

if __name__ == "__main__":
    main()
