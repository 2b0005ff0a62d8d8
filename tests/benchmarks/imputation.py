"""Imputers as the field judges them: draws by energy scores, means by errors, beside rivals.

    SKPC_DATA=... python -m tests.benchmarks.imputation --write FILE.csv [--tables ...]
        [--methods ...] [--mechanism MCAR MAR] [--rate .3] [--repeats 3] [--draws 20] [--single]
    SKPC_DATA=... rivals/bin/python -m tests.benchmarks.imputation --write FILE.csv
        --methods LightGBM miceforest
    python -m tests.benchmarks.imputation --show FILE.csv [--guide FOLDER]

A repeat draws 600 complete rows of a table and removes 30 % of its cells: at random (MCAR), by the
rank of the first number, which is complete (MAR), or by the cell's own value (MNAR: the chance of a
number grows with its rank, that of a category with its frequency). Methods complete the table that
they learn from. Columns that are constant among observed rows are left out.

Methods that draw have the energy distance from the complete table (mean of five imputed tables),
and the energy I-score, for which each has the same number of draws (``--draws``): with N draws the
score is lower by 1 / (2 N) of the mean distance between two draws, so that scores with different
numbers of draws are not compared. Methods of means have the root mean squared error of missing
numbers, in standard deviations of the complete column, and the share of wrong categories. Numbers
are judged as they are filled: rivals' numbers are not rounded, those of CircuitImputer are values
that the column can have. The I-scores of three methods are left out because of the time they take,
unless ``--without-i-score`` has no names: rows are then measured again. Seconds are those of five
tables, or of one for means; each method has been run before, so that code is compiled. CPU seconds
of mice do not count the start of R, wall seconds do (.7 s).

A row of FILE.csv is one method on one table. A run skips rows that the file has, and can be
interrupted. miceforest and LightGBM need an environment of their own (``rivals.txt``), and add
their rows to the same file; mice needs R. What is not installed or fails is left out, with a line.

"MultipleImputer fixed" does not draw the coefficients of its regressions, as trees do not: it shows
what these draws, which analyses need, cost in distance.

Rivals: "mice pmm" has mice's defaults (predictive mean matching, logistic and multinomial
regressions), "mice cart" trees, "mice rf" forests. "ridge draws" is IterativeImputer with Bayesian
ridge regressions and ``sample_posterior``, "ridge" the same with means, "forests" IterativeImputer
with forests of 50 trees (leaves of three rows, five rounds), "neighbours" KNNImputer (ten). These
see standardised numbers and an indicator of each state of a category but the first; a category is
the state of the highest indicator, the first having the rest. "boosting" (HistGradientBoosting with
small trees) and "LightGBM" (its defaults) learn each column from the observed cells of the others;
"means" are column means and most frequent states.

In the tables that are printed, lower is better. Brackets have the difference from the draws of
MultipleImputer, or the means of CircuitImputer, and its standard error, differences being paired by
table, mechanism and repeat; * marks what is ahead of ours by more than two standard errors. "all"
are all of these together. ``--guide doc/user_guide`` writes the tables of the guide.

``--single`` compares means on nine tables (diabetes, cmc, wine, electricity, economics, schooling,
train_choices, training_program, breast_cancer), MCAR, six repeats: CircuitImputer against the rival
with the least error on the even repeats, both judged on the odd ones.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from skpc import CircuitImputer, MultipleImputer
from skpc.domain import Domain
from skpc.imputation import chains, column_regressions, energy_distance, energy_i_score
from skpc.imputation.regressions import draw_linear, draw_logit
from tests.benchmarks import mice
from tests.benchmarks.mixed_tables import file_of
from tests.benchmarks.numbers_tables import load, of_splits, print_title

TABLES = (
    *("doctor_visits", "medical_expenses", "schooling", "panel_earnings", "diabetes"),
    "breast_cancer",
)
SINGLE_TABLES = (
    *("diabetes", "cmc", "wine", "electricity", "economics", "schooling", "train_choices"),
    *("training_program", "breast_cancer"),
)
#: Rows that subsamples are drawn from.
_MOST_ROWS = 4000
#: Imputed tables whose energy distances are averaged; also mice's default.
_N_TABLES = 5
#: What a row of the file is about, and what it has measured.
_KEYS = ["table", "mechanism", "rate", "rows", "repeat", "method"]
MEASURES = {"draws": ("energy distance", "I-score"), "means": ("rmse", "wrong")}
_SECONDS = ("CPU seconds", "wall seconds")
#: What differences are taken from.
_REFERENCES = {"draws": "MultipleImputer", "means": "CircuitImputer"}
#: Slow, as an I-score has a fit for each column: these would take a third of the time of a run.
_WITHOUT_I_SCORE = ["MultipleImputer density", "mice rf", "miceforest"]


class Method(NamedTuple):
    """Completes a table that often, with a seed, and says the CPU seconds if it knows them."""

    complete: Callable[[pd.DataFrame, int, int], tuple[list[pd.DataFrame], float | None]]
    kind: str
    package: str = "skpc"


class Draws(BaseEstimator):
    """A method as ``energy_i_score`` asks for it."""

    def __init__(self, method: str = "", n_imputations: int = 1, random_state: int = 0) -> None:
        self.method = method
        self.n_imputations = n_imputations
        self.random_state = random_state

    def fit_impute(self, X: pd.DataFrame) -> list[pd.DataFrame]:
        return METHODS[self.method].complete(X, self.n_imputations, self.random_state)[0]


@cache
def whole_table(name: str) -> pd.DataFrame:
    """Complete rows of a table: numbers as floats, all else as strings."""
    path = file_of(name).parents[1] / "tables" / f"{name}.csv.gz"
    if path.exists():
        table = pd.read_csv(path)
        if "date" in table:
            # Rivals know no dates.
            table["date"] = (pd.to_datetime(table["date"]) - pd.Timestamp(0)).dt.days
        table = table.sample(min(len(table), _MOST_ROWS), random_state=0).reset_index(drop=True)
    else:
        table = load(name, _MOST_ROWS)
    if name == "panel_earnings":
        # Numbers of persons, and codes of what is not known.
        table = table.drop(columns=["intnum", "persnum"])
        is_known = (table["kids"] < 90) & (table["educatn"] < 90)
        table = table[is_known & (table["married"] != "no histories")]
    table = table.dropna().reset_index(drop=True)
    for column, is_category in zip(table.columns, Domain.fit(table).is_categorical):
        if is_category:
            table[column] = table[column].astype(str).astype(object)
        else:
            table[column] = table[column].astype(np.float64)
    return table.loc[:, table.nunique() > 1]


def subsample(
    whole: pd.DataFrame, n_rows: int, mechanism: str, rate: float, seed: int
) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of a table, and which of their cells to remove; its constant columns are dropped."""
    truth = whole.sample(min(n_rows, len(whole)), random_state=seed).reset_index(drop=True)
    removed = _removed(truth, mechanism, rate, seed)
    varies = (truth.mask(removed).nunique() > 1).to_numpy()
    return truth.loc[:, varies], removed[:, varies]


def _removed(table: pd.DataFrame, mechanism: str, rate: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    n_columns = table.shape[1]
    numbers = [column for column in table if table[column].dtype == np.float64]
    chance = np.full(table.shape, rate)
    if mechanism == "MAR":
        rank = table[numbers[0]].rank(pct=True).to_numpy()
        # One column is complete, and the others have its missing cells.
        chance[:] = (2.0 * rate * n_columns / (n_columns - 1.0) * rank)[:, np.newaxis]
        chance[:, table.columns.get_loc(numbers[0])] = 0.0
    elif mechanism == "MNAR":
        for j, column in enumerate(table):
            values = table[column]
            values = values if column in numbers else values.map(values.value_counts())
            chance[:, j] = 2.0 * rate * values.rank(pct=True)
    missing = rng.random(table.shape) < np.minimum(chance, 0.95)
    # A row keeps some cell.
    missing[missing.all(axis=1), 0] = False
    return missing


def _multiple(table: pd.DataFrame, n: int, seed: int, **settings: Any) -> Any:
    imputer = MultipleImputer(n_imputations=n, random_state=seed, **settings)
    return imputer.fit_impute(table), None


class _EvenWeights:
    """A source of random numbers for which the Bayesian bootstrap weighs all rows alike."""

    def standard_gamma(self, weight: np.ndarray) -> np.ndarray:
        return np.asarray(weight, dtype=np.float64)


def _fixed_linear(*arguments: Any) -> Any:
    drawn = draw_linear(*arguments)
    return drawn._replace(coefficients=drawn.estimate)


def _fixed_logit(
    design: np.ndarray, states: np.ndarray, n_states: int, weight: np.ndarray, _: Any, start: Any
) -> Any:
    even: Any = _EvenWeights()
    return draw_logit(design, states, n_states, weight, even, start)


def _fixed(table: pd.DataFrame, n: int, seed: int) -> Any:
    """Coefficients are estimated and not drawn, as trees are: what drawing them costs."""
    with (
        mock.patch.object(column_regressions, "draw_linear", _fixed_linear),
        mock.patch.object(chains, "draw_logit", _fixed_logit),
    ):
        return _multiple(table, n, seed)


def _circuit(table: pd.DataFrame, n: int, seed: int, strategy: str) -> Any:
    """Draws with other seeds need no other fit."""
    imputer = CircuitImputer(strategy=strategy, random_state=seed)
    imputer.set_output(transform="pandas").fit(table)
    return [imputer.set_params(random_state=seed + k).transform(table) for k in range(n)], None


def _mice(table: pd.DataFrame, n: int, seed: int, method: str) -> Any:
    return mice.impute([table], n, method)[0]


def _indicators(table: pd.DataFrame, n: int, seed: int, imputer: Callable[..., Any]) -> Any:
    """Standardised numbers, and indicators of all states but the first, which has the rest."""
    blocks = []
    readers: list[Callable[[np.ndarray], np.ndarray]] = []
    for column in table:
        cells = table[column]
        if cells.dtype == np.float64:
            mean = cells.mean()
            scale = cells.std(ddof=0) or 1.0
            blocks.append(((cells - mean) / scale).to_numpy()[:, np.newaxis])
            readers.append(partial(_as_numbers, mean, scale))
        else:
            codes, states = pd.factorize(cells, sort=True)
            block = codes[:, np.newaxis] == np.arange(1, len(states))
            blocks.append(np.where(codes[:, np.newaxis] < 0, np.nan, block))
            readers.append(partial(_as_states, np.asarray(states, dtype=object)))
    ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
    tables = []
    for k in range(n):
        filled = imputer(random_state=seed + k).fit_transform(np.hstack(blocks))
        parts = np.split(filled, ends, axis=1)
        columns = {column: read(part) for column, read, part in zip(table, readers, parts)}
        tables.append(pd.DataFrame(columns))
    return tables, None


def _as_numbers(mean: float, scale: float, part: np.ndarray) -> np.ndarray:
    return mean + scale * part[:, 0]


def _as_states(states: np.ndarray, part: np.ndarray) -> np.ndarray:
    shares = np.column_stack([1.0 - part.sum(axis=1), part])
    return states[shares.argmax(axis=1)]


def _ridge(random_state: int, **settings: Any) -> Any:
    return IterativeImputer(random_state=random_state, **settings)


def _forests(random_state: int) -> Any:
    forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=random_state)
    return IterativeImputer(forest, max_iter=5, random_state=random_state)


def _neighbours(random_state: int) -> Any:
    return KNNImputer(n_neighbors=10)


def _means(random_state: int) -> Any:
    return SimpleImputer()


def _by_columns(table: pd.DataFrame, n: int, seed: int, learners: Callable[..., Any]) -> Any:
    """Each column is learned from the observed cells of the others."""
    is_number = table.dtypes == np.float64
    known = table.astype(dict.fromkeys(table.columns[~is_number], "category"))
    filled = table.copy()
    for column in table:
        lost = table[column].isna().to_numpy()
        rest = known.drop(columns=column)
        if lost.any():
            predictor = learners(is_number[column], seed).fit(rest[~lost], table[column][~lost])
            filled.loc[lost, column] = predictor.predict(rest[lost])
    return [filled], None


def _boosting(is_number: bool, seed: int) -> Any:
    model = HistGradientBoostingRegressor if is_number else HistGradientBoostingClassifier
    return model(
        max_iter=60,
        learning_rate=0.08,
        max_leaf_nodes=8,
        early_stopping=False,
        categorical_features="from_dtype",
        random_state=seed,
    )


def _lightgbm(is_number: bool, seed: int) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor

    model = LGBMRegressor if is_number else LGBMClassifier
    return model(random_state=seed, n_jobs=1, verbosity=-1)


def draws_of_miceforest(table: pd.DataFrame, n: int, seed: int) -> Any:
    """Chained equations of boosted trees, with predictive mean matching."""
    import miceforest

    others = table.select_dtypes(exclude="number").columns
    categorised = table.astype(dict.fromkeys(others, "category")).reset_index(drop=True)
    kernel = miceforest.ImputationKernel(
        categorised, num_datasets=n, random_state=seed, save_all_iterations_data=False
    )
    kernel.mice(5, num_threads=1, verbosity=-1)
    back = dict.fromkeys(others, object)
    return [kernel.complete_data(k).astype(back).set_axis(table.index) for k in range(n)], None


def _of_sklearn(imputer: Callable[..., Any], kind: str = "means") -> Method:
    return Method(partial(_indicators, imputer=imputer), kind)


METHODS = {
    "MultipleImputer": Method(_multiple, "draws"),
    "MultipleImputer fixed": Method(_fixed, "draws"),
    "MultipleImputer density": Method(partial(_multiple, draws="density"), "draws"),
    "CircuitImputer sample": Method(partial(_circuit, strategy="sample"), "draws"),
    "mice pmm": Method(partial(_mice, method="default"), "draws", "mice"),
    "mice cart": Method(partial(_mice, method="cart"), "draws", "mice"),
    "mice rf": Method(partial(_mice, method="rf"), "draws", "mice"),
    "ridge draws": _of_sklearn(partial(_ridge, sample_posterior=True), "draws"),
    "miceforest": Method(draws_of_miceforest, "draws", "miceforest"),
    "CircuitImputer": Method(partial(_circuit, strategy="mean"), "means"),
    "ridge": _of_sklearn(_ridge),
    "forests": _of_sklearn(_forests),
    "neighbours": _of_sklearn(_neighbours),
    "boosting": Method(partial(_by_columns, learners=_boosting), "means"),
    "LightGBM": Method(partial(_by_columns, learners=_lightgbm), "means", "lightgbm"),
    "means": _of_sklearn(_means),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--single", action="store_true", help="nine tables, means only")
    parser.add_argument("--tables", nargs="*", help="default: the six, or the nine")
    parser.add_argument("--methods", nargs="*", choices=METHODS, help="default: all")
    parser.add_argument("--mechanism", nargs="*", help="MCAR, MAR (the default), MNAR")
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--repeats", type=int, help="default: 3; 6 of --single")
    parser.add_argument("--draws", type=int, default=20, help="draws of a cell in an I-score")
    parser.add_argument("--without-i-score", nargs="*", default=_WITHOUT_I_SCORE)
    parser.add_argument("--write", type=Path, help="a file of results, also those of before")
    parser.add_argument("--show", type=Path, help="print what a file has, and measure nothing")
    parser.add_argument("--guide", type=Path, help="the guide's folder, for its tables")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.tables = options.tables or (SINGLE_TABLES if options.single else TABLES)
    options.mechanism = options.mechanism or (["MCAR"] if options.single else ["MCAR", "MAR"])
    options.repeats = options.repeats or (6 if options.single else 3)
    wanted = options.methods or [
        name for name, method in METHODS.items() if method.kind == "means" or not options.single
    ]
    file = options.show or options.write
    records = pd.read_csv(file).to_dict("records") if file and file.exists() else []
    if not options.show:
        _run(options, [name for name in wanted if _is_installed(METHODS[name].package)], records)
    found = pd.DataFrame(records)
    is_asked = found["table"].isin(options.tables) & found["mechanism"].isin(options.mechanism)
    is_asked &= (found["repeat"] < options.repeats) & (found["rate"] == options.rate)
    found = found[is_asked & (found["rows"] == options.rows) & found["method"].isin(wanted)]
    tables = single_tables_of(found) if options.single else tables_of(found)
    for title, table in tables.items():
        print_title(title)
        print(table.to_string())
        if options.guide and "wall" not in title:
            name = "single" if options.single else title.replace(" ", "_")
            table.to_csv(options.guide / f"imputation_{name}.csv")


@cache
def _is_installed(package: str) -> bool:
    if package == "mice":
        return mice.is_installed()
    if importlib.util.find_spec(package) is None:
        print(f"{package} is not installed: skipped.")
        return False
    return True


def _run(options: argparse.Namespace, methods: list[str], records: list[dict[str, Any]]) -> None:
    """Measure what is not among the records yet, and append it to them and to the file."""
    for method in methods:
        if method in options.without_i_score:
            print(f"{method}: the I-score is left out, as it takes long (--without-i-score).")
    done = {
        tuple(record[key] for key in _KEYS)
        for record in records
        if np.isnan(record["energy distance"])
        or record["I-score"] > 0.0
        or record["method"] in options.without_i_score
    }
    # Repeats come first, so that an interrupted run has each table.
    places = itertools.product(range(options.repeats), options.tables, options.mechanism, methods)
    warm = set()
    for repeat, name, mechanism, method in places:
        place = (name, mechanism, options.rate, options.rows, repeat, method)
        if place in done:
            continue
        if method not in warm:
            _warm_up(method)
            warm.add(method)
        data = subsample(whole_table(name), options.rows, mechanism, options.rate, repeat)
        n_draws = 0 if method in options.without_i_score else options.draws
        try:
            record = dict(zip(_KEYS, place)) | measure(*data, method, repeat, n_draws)
        except (RuntimeError, ValueError) as error:
            print(f"{method} fails on {name}, {mechanism}, repeat {repeat}: {error}", flush=True)
            continue
        records.append(record)
        print(*record.values(), flush=True)
        if options.write:
            has_title = options.write.exists()
            row = pd.DataFrame([record])
            row.to_csv(options.write, mode="a", header=not has_title, index=False)


def _warm_up(method: str) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 3)), columns=[*"abc"])
    table["d"] = np.where(table["a"] > 0.0, "yes", "no").astype(object)
    METHODS[method].complete(table.mask(rng.random(table.shape) < 0.2), 2, 0)


def measure(
    truth: pd.DataFrame, removed: np.ndarray, method: str, seed: int, n_draws: int
) -> dict[str, Any]:
    """The measures of a method's kind; those of the other kind are NaN. No draws: no I-score."""
    table = truth.mask(removed)
    kind = METHODS[method].kind
    start_cpu = time.process_time()
    start_wall = time.perf_counter()
    completed, seconds = METHODS[method].complete(table, _N_TABLES if kind == "draws" else 1, seed)
    wall = time.perf_counter() - start_wall
    cpu = time.process_time() - start_cpu if seconds is None else seconds
    measures = dict.fromkeys([*MEASURES["draws"], *MEASURES["means"]], np.nan)
    if kind == "draws":
        distances = [energy_distance(truth, truth.mask(removed, one)) for one in completed]
        measures["energy distance"] = float(np.mean(distances))
        if n_draws:
            imputer = Draws(method)
            measures["I-score"] = energy_i_score(table, imputer, n_draws, random_state=seed)
    else:
        measures |= dict(zip(MEASURES["means"], cell_errors(truth, completed[0], removed)))
    return {"draws": n_draws, **measures, "CPU seconds": cpu, "wall seconds": wall}


def cell_errors(
    truth: pd.DataFrame, filled: pd.DataFrame, removed: np.ndarray
) -> tuple[float, float]:
    """Of numbers, in standard deviations, and of categories; NaN where there are none."""
    squares: list[float] = []
    wrong: list[bool] = []
    for column, lost in zip(truth, removed.T):
        goal = truth[column][lost].to_numpy()
        cells = filled[column].to_numpy()[lost]
        if truth[column].dtype == np.float64:
            squares += list((goal - cells.astype(float)) ** 2 / truth[column].var(ddof=0))
        else:
            wrong += list(goal != cells)
    rmse = float(np.sqrt(np.mean(squares))) if squares else np.nan
    return rmse, float(np.mean(wrong)) if wrong else np.nan


def tables_of(records: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """A table for each measure, with a row for each method and a column for each table."""
    tables = {}
    for kind, measures in MEASURES.items():
        names = [name for name in METHODS if METHODS[name].kind == kind]
        names = [name for name in names if (records["method"] == name).any()]
        rows = records[records["method"].isin(names)]
        for measure in (*measures, *_SECONDS):
            wide = rows.pivot_table(measure, _KEYS[:-1], "method").reindex(columns=names)
            if wide.empty:
                continue
            cells = {
                name: {
                    place: _compared(part, name, _REFERENCES[kind], measure)
                    for place, part in [*wide.groupby("table", sort=False), ("all", wide)]
                }
                for name in names
            }
            tables[f"{measure} of {kind}"] = pd.DataFrame(cells).T.rename_axis("method")
    return tables


def _compared(part: pd.DataFrame, name: str, reference: str, measure: str) -> str:
    """The mean, and the paired difference from ours."""
    mean = part[name].mean()
    if np.isnan(mean):
        return "--"
    if measure in _SECONDS:
        return f"{mean:.2f}" if mean < 9.995 else f"{mean:.0f}"
    # Tables differ in a part of their cells only: distances are small.
    digits = 4 if measure == "energy distance" else 3
    if name == reference or reference not in part:
        return f"{mean:.{digits}f}"
    gap = of_splits((part[name] - part[reference]).dropna())
    mark = " *" if gap.mean < -2.0 * gap.se else ""
    return f"{mean:.{digits}f} ({gap.mean:+.{digits}f} ± {gap.se:.{digits}f}){mark}"


def single_tables_of(records: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Each table against the rival that is best on the even repeats, judged on the odd ones."""
    ours = _REFERENCES["means"]
    rows = {}
    n_near = 0
    for table, of_table in records.groupby("table", sort=False):
        row = {}
        is_near = True
        for measure, kind in zip(MEASURES["means"], ("numbers", "categories")):
            names = [kind, f"{kind}: rival", f"{kind}: difference"]
            row |= dict.fromkeys(names, "--")
            wide = of_table.pivot_table(measure, "repeat", "method")
            if wide.empty:
                continue
            odd = wide[wide.index % 2 == 1]
            rival = wide[wide.index % 2 == 0].drop(columns=ours).mean().idxmin()
            gap = of_splits(odd[ours] - odd[rival])
            is_near &= bool(gap.mean <= gap.se)
            difference = f"{gap.mean:+.3f} ± {gap.se:.3f}"
            row |= dict(zip(names, (f"{odd[ours].mean():.3f}", rival, difference)))
        row["behind"] = "" if is_near else "*"
        n_near += is_near
        rows[table] = row
    title = f"single: ahead or within one standard error on {n_near} of {len(rows)} tables"
    return {title: pd.DataFrame(rows).T.rename_axis("table")}


if __name__ == "__main__":
    main()
