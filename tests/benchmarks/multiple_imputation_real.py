"""Regressions on multiply imputed real tables, beside R's mice.

    SKPC_DATA=... python -m tests.benchmarks.multiple_imputation_real [tables ...] [--repeats 20]
        [--keep FOLDER] [--write doc/user_guide]

A repeat draws 600 complete rows of a table, removes 30 % of its cells, completes it ten times and
combines the regression by Rubin's rules. "rmse" is the root mean square distance from the
coefficients of the complete 600 rows, in their standard errors; "cover" how often 95 % intervals
hold these (nominal is above .95, about .98, since the same rows are analysed); "all rows" how often
they hold the coefficients of the whole table; "width" that of the intervals over that from complete
rows. With MAR the last column is complete, and cells of the others are missing with probabilities
that rise with its rank.

"product" is simulated: its analysis has a product and a square, which linear models of columns
cannot see: y = x1 + .5 x2 + .5 g + .8 x1 x2 + .4 x1^2 + noise of sd 1, x1 standard normal,
x2 = .3 x1 + .954 e, P(g = 1) = 1 / (1 + exp(-x1)).

Methods: "default" is ``MultipleImputer()``, "model" the same with ``model=`` the regression,
"density" draws of the density with posterior parameters, as before version 0.3.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from skpc import MultipleImputer, TableMixture
from skpc.imputation import combine_estimates
from tests.benchmarks import mice
from tests.benchmarks.guide_tables import add_write, with_error, write
from tests.benchmarks.mixed_tables import file_of
from tests.benchmarks.numbers_tables import kept

_N_IMPUTATIONS = 10


class Regression(NamedTuple):
    """A linear regression of a table, as an analyst would write it."""

    columns: list[str]
    outcome: str
    predictors: list[Any]


REGRESSIONS = {
    "schooling": Regression(
        ["wage76", "grade76", "exp76", "black", "south76", "smsa76", "momed", "daded"],
        "wage76",
        ["grade76", "exp76", ("exp76", "exp76"), "black", "south76", "smsa76"],
    ),
    "doctor_visits": Regression(
        ["doctorco", "sex", "age", "income", "insurance", "illness", "actdays", "hscore"],
        "doctorco",
        ["sex", "age", "income", "insurance", "illness", "actdays", "hscore"],
    ),
    "panel_earnings": Regression(
        ["earnings", "hours", "age", "educatn", "kids", "married"],
        "earnings",
        ["age", "educatn", "hours", "kids", "married"],
    ),
    "medical_expenses": Regression(
        ["med", "lc", "physlim", "ndisease", "health", "linc", "lfam", "educdec", "age", "sex"]
        + ["child", "black"],
        "med",
        ["lc", "physlim", "ndisease", "health", "linc", "age", "sex", "black"],
    ),
    "product": Regression(
        ["y", "x1", "x2", "g"], "y", ["x1", "x2", "g", ("x1", "x2"), ("x1", "x1")]
    ),
}


def draw_rows(name: str, n_rows: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Complete rows of a table, and all its complete rows."""
    if name == "product":
        return _simulated(n_rows, seed), _many_simulated()
    path = file_of(name).parents[1] / "tables" / f"{name}.csv.gz"
    table = pd.read_csv(path)[REGRESSIONS[name].columns].dropna()
    if name == "panel_earnings":
        # Codes of what is not known.
        table = table[(table["kids"] < 90) & (table["educatn"] < 90)]
        table = table[table["married"] != "no histories"]
    return table.sample(n_rows, random_state=seed).reset_index(drop=True), table


@cache
def _many_simulated() -> pd.DataFrame:
    return _simulated(200_000, 10**6)


def _simulated(n_rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x1 = rng.normal(size=n_rows)
    x2 = 0.3 * x1 + 0.954 * rng.normal(size=n_rows)
    g = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-x1))
    mean = x1 + 0.5 * x2 + 0.5 * g + 0.8 * x1 * x2 + 0.4 * x1**2
    y = mean + rng.normal(size=n_rows)
    return pd.DataFrame({"y": y, "x1": x1, "x2": x2, "g": np.where(g, "b", "a")})


def remove(table: pd.DataFrame, mechanism: str, rate: float, seed: int) -> pd.DataFrame:
    """The table with cells missing."""
    rng = np.random.default_rng([seed, 1])
    n_rows, n_columns = table.shape
    chance = np.full(table.shape, rate)
    if mechanism == "MAR":
        codes = pd.factorize(table.iloc[:, -1], sort=True)[0] + 0.5 * rng.random(n_rows)
        rank = stats.rankdata(codes) / n_rows
        chance[:, :-1] = np.minimum(2.0 * rate * rank * n_columns / (n_columns - 1), 0.95)[:, None]
        chance[:, -1] = 0.0
    return table.mask(rng.random(table.shape) < chance)


def design_of(regression: Regression, table: pd.DataFrame, levels: dict[str, list]) -> np.ndarray:
    """The terms of a regression, a constant first."""
    parts = [np.ones((len(table), 1))]
    for term in regression.predictors:
        product = np.ones((len(table), 1))
        for column in term if isinstance(term, tuple) else (term,):
            if column in levels:
                cells = table[column].to_numpy(object)[:, None]
                factor = (cells == np.array(levels[column][1:], dtype=object)).astype(float)
            else:
                factor = table[[column]].to_numpy(float)
            product = (product[:, :, None] * factor[:, None, :]).reshape(len(table), -1)
        parts.append(product)
    return np.concatenate(parts, axis=1)


def estimate(design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Least squares: coefficients, their variances, degrees of freedom."""
    inverse = np.linalg.pinv(design.T @ design)
    coef = inverse @ (design.T @ y)
    df = len(y) - design.shape[1]
    residual = y - design @ coef
    return coef, inverse.diagonal() * (residual @ residual) / df, df


def _of_model(regression: Regression) -> tuple[str, list[Any]]:
    return regression.outcome, regression.predictors


OURS: dict[str, Callable[[Regression], dict[str, Any]]] = {
    "default": lambda regression: {},
    "model": lambda regression: {"model": _of_model(regression)},
    "density": lambda regression: {
        "draws": "density",
        "density": TableMixture(n_components="states", random_state=0),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=[*REGRESSIONS])
    parser.add_argument("--methods", nargs="*", default=["default", "model", "mice"])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--mechanisms", nargs="*", default=["MCAR", "MAR"])
    parser.add_argument("--keep", type=Path, help="folder of figures that are not measured again")
    add_write(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if "mice" in options.methods and not mice.is_installed():
        options.methods.remove("mice")
    cells: dict[tuple[str, str, str], list[dict[str, np.ndarray]]] = {}
    # Repeats come first: an interrupted run that keeps its figures has each table.
    places = itertools.product(
        range(options.repeats), options.mechanisms, options.tables, options.methods
    )
    for seed, mechanism, name, method in places:
        cell = (mechanism, name, method)
        figures = kept(
            options,
            partial(_measured, *cell, seed, options.rows, options.rate),
            *("multiple", *cell, seed, options.rows, options.rate),
        )
        cells.setdefault(cell, []).append(figures)
    stacks = {cell: stacked(repeats) for cell, repeats in cells.items()}
    # The four real ones come last, together, if there are several.
    real = [name for name in options.tables if name != "product"]
    groups = {name: [name] for name in options.tables}
    if len(real) > 1:
        groups["the real tables"] = real
    heads = ["table", "missing"]
    for method in options.methods:
        heads += [method, f"{method}: coverage", f"{method}: CPU s"]
        if method != "mice" and "mice" in options.methods:
            heads.append(f"{method} over mice's")
    rows = [heads]
    for (group, names), mechanism in itertools.product(groups.items(), options.mechanisms):
        print(f"{group}, {mechanism} {options.rate:.0%}, n = {options.rows}")
        of_methods = {
            method: [stacks[mechanism, name, method] for name in names]
            for method in options.methods
        }
        row = [group, mechanism]
        for method, of_tables in of_methods.items():
            row += _printed(method, of_tables, of_methods.get("mice"))
        rows.append(row)
    write(options.write, "multiple_imputation_real", rows)


def stacked(figures: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Figures of several repeats, each of shape (n_repeats, n_coefficients)."""
    return {measure: np.array([one[measure] for one in figures]) for measure in figures[0]}


def _printed(
    method: str,
    tables: list[dict[str, np.ndarray]],
    of_mice: list[dict[str, np.ndarray]] | None,
) -> list[str]:
    """Print figures of tables, with standard errors over repeats; tables weigh the same.

    The cells of the guide's table are returned: distance, coverage, and the ratio to mice.
    """
    squares = np.array([(one["error"] ** 2).mean(axis=1) for one in tables])
    covers = np.array([one["covers"].mean(axis=1) for one in tables])
    n_repeats = squares.shape[1]
    se = np.sqrt((covers.var(axis=1, ddof=1) / n_repeats).sum()) / len(covers)
    rmse = np.sqrt(squares.mean())
    covers_all, width, seconds = (
        np.mean([one[measure].mean() for one in tables])
        for measure in ("covers all", "width", "seconds")
    )
    cells = [f"{rmse:.2f}", with_error(covers.mean(), se, 2), f"{seconds:.1f}"]
    ratio = ""
    if of_mice is not None and method != "mice":
        rival = np.array([(one["error"] ** 2).mean(axis=1) for one in of_mice])
        of_rmse = np.sqrt(squares.mean() / rival.mean())
        # The delta method, over repeats of each table.
        gain = squares / squares.mean() - rival / rival.mean()
        se_of_gain = np.sqrt((gain.var(axis=1, ddof=1) / n_repeats).sum()) / len(gain)
        se_of_ratio = 0.5 * of_rmse * se_of_gain
        ratio = f"over mice's {of_rmse:.3f} +- {se_of_ratio:.3f}"
        cells.append(with_error(of_rmse, se_of_ratio, 2))
    bias = ""
    if len(tables) == 1:
        bias = "  bias " + " ".join(f"{b:+.2f}" for b in tables[0]["error"].mean(axis=0))
    print(
        f"  {method:8s} n {n_repeats}  rmse {rmse:.3f}  {ratio}  "
        f"cover {covers.mean():.3f} +- {se:.3f}  all rows {covers_all:.3f}  width {width:.2f}  "
        f"cpu {seconds:.1f} s{bias}",
        flush=True,
    )
    return cells


def _measured(
    mechanism: str, name: str, method: str, seed: int, n_rows: int, rate: float
) -> dict[str, np.ndarray]:
    """Figures of each coefficient, errors in standard errors of the complete rows."""
    regression = REGRESSIONS[name]
    table, whole = draw_rows(name, n_rows, seed)
    levels = {
        column: sorted(whole[column].unique()) for column in whole.select_dtypes(exclude="number")
    }
    holey = remove(table, mechanism, rate, seed)

    def analyse(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, int]:
        y = rows[regression.outcome].to_numpy(float)
        return estimate(design_of(regression, rows, levels), y)

    start = time.process_time()
    if method == "mice":
        tables, seconds = mice.impute([holey], _N_IMPUTATIONS)[0]
    else:
        settings = OURS[method](regression)
        imputer = MultipleImputer(n_imputations=_N_IMPUTATIONS, random_state=seed, **settings)
        tables = imputer.fit_impute(holey)
        seconds = time.process_time() - start
    truth = analyse(whole)[0]
    coef, variance, df = analyse(table)
    values, variances, _ = zip(*map(analyse, tables))
    combined = combine_estimates(list(values), list(variances), df)
    low, high = combined.conf_int().to_numpy().T
    se = np.sqrt(variance)
    return {
        "error": (combined.table["estimate"].to_numpy() - coef) / se,
        "covers": ((low <= coef) & (coef <= high)).astype(float),
        "covers all": ((low <= truth) & (truth <= high)).astype(float),
        "width": (high - low) / (2.0 * stats.t.ppf(0.975, df) * se),
        "seconds": np.full(len(coef), seconds),
    }


if __name__ == "__main__":
    main()
