"""Do intervals from imputed tables cover? Twelve cells, each with many repeats.

Analyses: a linear model of correlated normals, a logistic model of mixed columns, means of skewed
numbers with zeros, and correlations. The last column is complete; each cell of the others is
missing with probability .5 at random (MCAR), or .3 or .5 by the last column (MAR). Tables have 200
rows, in one cell 1,000. Ten imputations; 95 % intervals by Rubin's rules. "complete": the tables
without missing cells. "true": data augmentation under the normal model, where that is the truth.
"posterior", "bootstrap" and "fixed" are the parameters of MultipleImputer, with one Gaussian for
normals, and one for each combination of states for the others, and draws of the density; amounts
have their bound. "default" is MultipleImputer as it is, which draws by regressions; "model" the
same with ``model=`` the analysis; "mice" R's mice. Widths are medians. "hazards" are proportional
hazards of times, half of them censored; times and events are complete.

Bars: each coefficient covers at least .92, and not .02 less than in complete tables; the mean over
the cells lies between .94 and .97; intervals are at most 1.15 times as wide as under the true
model; "fixed" falls short at 70 % missing (``--fixed``).

``--write doc/user_guide`` measures the table of the guide instead: the cells of ``_GUIDE``. With
``--keep FOLDER`` an interrupted run goes on where it was.

The methods "miceforest" and "utrees" need an environment of their own: see ``rivals.txt``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit
from sklearn.base import clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from skpc import MultipleImputer, TableMixture
from skpc.imputation import combine_estimates
from tests.benchmarks import mice
from tests.benchmarks.guide_tables import add_write, write
from tests.benchmarks.imputation import draws_of_miceforest
from tests.benchmarks.numbers_tables import kept
from tests.naive import imputation as naive

_N_IMPUTATIONS = 10
_MECHANISMS = (("MCAR", 0.5), ("MAR", 0.3), ("MAR", 0.5))


class Analysis(NamedTuple):
    """What is drawn, what is estimated from a complete table, and the truth."""

    draw: Callable[[int, np.random.Generator], pd.DataFrame]
    estimate: Callable[[pd.DataFrame], tuple[np.ndarray, np.ndarray, float]]
    truth: np.ndarray
    density: TableMixture
    transform: str | None = None
    model: Any = None
    #: How many columns, the last ones, are complete.
    n_complete: int = 1


class Setting(NamedTuple):
    """The tables of a cell: what they are, and what is missing of them."""

    name: str
    mechanism: str
    rate: float
    n_rows: int


#: The cells of the guide's table, how many tables they have, and what completes them.
_GUIDE = [
    (Setting(name, "MCAR", 0.5, n_rows), n_tables, methods)
    for n_rows, n_tables in ((100, 60), (600, 30))
    for name, methods in (
        ("linear", ["default"]),
        ("logistic", ["default"]),
        ("interaction", ["default", "model"]),
    )
]
_GUIDE.append((Setting("hazards", "MCAR", 0.3, 500), 30, ["model"]))


def _normals(n: int, rng: np.random.Generator) -> pd.DataFrame:
    columns = rng.multivariate_normal(np.zeros(3), 0.5 * (np.eye(3) + 1.0), n)
    y = columns @ [1.0, 0.5, -0.5] + rng.normal(size=n)
    return pd.DataFrame({"y": y, "a": columns[:, 0], "b": columns[:, 1], "c": columns[:, 2]})


def _linear(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, float]:
    values = table.to_numpy(float)
    design = np.column_stack([np.ones(len(values)), values[:, 1:]])
    inverse = np.linalg.inv(design.T @ design)
    coef = inverse @ (design.T @ values[:, 0])
    df = len(values) - design.shape[1]
    residual = values[:, 0] - design @ coef
    return coef, inverse.diagonal() * (residual @ residual) / df, df


def _interacting(n: int, rng: np.random.Generator) -> pd.DataFrame:
    table = _normals(n, rng)
    return table.assign(y=table["y"] + 0.5 * table["a"] * table["b"])


def _with_product(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, float]:
    return _linear(table.assign(ab=table["a"] * table["b"]))


def _mixed(n: int, rng: np.random.Generator) -> pd.DataFrame:
    c = rng.normal(size=n)
    a = 0.5 * c + rng.normal(size=n)
    kind = (c[:, None] * [0.0, 0.5, -0.5] + rng.gumbel(size=(n, 3))).argmax(axis=1)
    logit = -0.3 + 0.7 * a + np.array([0.0, 0.8, -0.8])[kind] - 0.5 * c
    y = np.where(rng.random(n) < expit(logit), "yes", "no")
    return pd.DataFrame({"y": y, "a": a, "kind": np.array(["r", "s", "t"])[kind], "c": c})


def _logistic(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, float]:
    y, kind = (table["y"] == "yes").to_numpy(float), table["kind"].to_numpy(object)
    columns = [np.ones(len(y)), table["a"], kind == "s", kind == "t", table["c"]]
    design, coef = np.column_stack(columns).astype(float), np.zeros(5)
    for _ in range(25):
        p = expit(design @ coef)
        information = (design * (p * (1.0 - p))[:, None]).T @ design
        coef = coef + np.linalg.solve(information, design.T @ (y - p))
    return coef, np.linalg.inv(information).diagonal(), len(y) - 5


def _skewed(n: int, rng: np.random.Generator) -> pd.DataFrame:
    z = rng.multivariate_normal(np.zeros(3), 0.6 + 0.4 * np.eye(3), n)
    some = rng.normal(size=(n, 2)) + z[:, 2:] > -0.75
    spent = np.where(some, np.exp(2.0 + 0.7 * z[:, :2]), 0.0)
    return pd.DataFrame({"rent": spent[:, 0], "food": spent[:, 1], "age": 40.0 + 8.0 * z[:, 2]})


def _means(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, float]:
    values = table[["rent", "food"]].to_numpy(float)
    return values.mean(axis=0), values.var(axis=0, ddof=1) / len(values), len(values) - 1


def _correlated(n: int, rng: np.random.Generator) -> pd.DataFrame:
    covariance = np.array(
        [[1, 0.7, 0.3, 0.5], [0.7, 1, 0, 0.5], [0.3, 0, 1, 0.3], [0.5, 0.5, 0.3, 1]]
    )
    return pd.DataFrame(rng.multivariate_normal(np.zeros(4), covariance, n), columns=[*"abcd"])


def _correlations(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, float]:
    value = np.corrcoef(table.to_numpy(float).T)[[0, 0, 1], [1, 2, 2]]
    # On Fisher's scale the variance is 1 / (n - 3).
    return value, (1.0 - value**2) ** 2 / (len(table) - 3.0), np.inf


def _survival(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Exponential times, about half of them censored; their covariates depend on each other."""
    x = rng.normal(size=n)
    z = 0.5 * x + rng.normal(size=n)
    g = rng.random(n) < expit(x)
    hazard = np.exp(0.5 * x - 0.5 * z + 0.7 * g)
    time_of_event = rng.exponential(1.0 / hazard)
    censoring = rng.exponential(1.5, n)
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "g": np.where(g, "yes", "no"),
            "event": np.where(time_of_event <= censoring, "yes", "no"),
            "time": np.minimum(time_of_event, censoring),
        }
    )


def _hazards(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, float]:
    covariates = np.column_stack([table["x"], table["z"], table["g"] == "yes"]).astype(float)
    is_event = (table["event"] == "yes").to_numpy()
    coef, covariance = naive.cox(table["time"].to_numpy(), is_event, covariates)
    return coef, covariance.diagonal(), np.inf


def _true_means() -> np.ndarray:
    return _skewed(4_000_000, np.random.default_rng(0))[["rent", "food"]].mean().mean() * np.ones(2)


_GAUSSIAN = TableMixture(n_components=1, random_state=0)
_STATES = TableMixture(n_components="states", random_state=0)
_AMOUNTS = {"rent": (0.0, None), "food": (0.0, None)}

ANALYSES: dict[str, Callable[[], Analysis]] = {
    "linear": lambda: Analysis(
        _normals,
        _linear,
        np.array([0, 1, 0.5, -0.5]),
        _GAUSSIAN,
        model=("y", ["a", "b", "c"]),
    ),
    "logistic": lambda: Analysis(
        _mixed,
        _logistic,
        np.array([-0.3, 0.7, 0.8, -0.8, -0.5]),
        _STATES,
        model=("y", ["a", "kind", "c"]),
    ),
    "means": lambda: Analysis(
        _skewed, _means, _true_means(), clone(_STATES).set_params(bounds=_AMOUNTS)
    ),
    "correlations": lambda: Analysis(
        _correlated, _correlations, np.array([0.7, 0.3, 0.0]), _GAUSSIAN, "fisher"
    ),
    "interaction": lambda: Analysis(
        _interacting,
        _with_product,
        np.array([0, 1, 0.5, -0.5, 0.5]),
        TableMixture(random_state=0),
        model=("y", ["a", "b", "c", ("a", "b")]),
    ),
    "hazards": lambda: Analysis(
        _survival,
        _hazards,
        np.array([0.5, -0.5, 0.7]),
        TableMixture(random_state=0),
        model=(("time", "event"), ["x", "z", "g"]),
        n_complete=2,
    ),
}


def _holes(
    table: pd.DataFrame, mechanism: str, rate: float, rng: np.random.Generator, n_complete: int = 1
) -> Any:
    """Which cells are missing; none of the last columns."""
    driver, chance = table.iloc[:, -1].to_numpy(), np.full(len(table), rate)
    if mechanism == "MAR":
        chance = stats.norm.cdf((driver - driver.mean()) / driver.std())
        chance = np.minimum(rate * chance / chance.mean(), 0.95)
    missing = rng.random(table.shape) < chance[:, np.newaxis]
    missing[:, -n_complete:] = False
    return missing


def _ours(parameters: str, table: pd.DataFrame, seed: int, density: Any) -> list[pd.DataFrame]:
    imputer = MultipleImputer(
        density,
        n_imputations=_N_IMPUTATIONS,
        draws="density",
        parameters=parameters,
        random_state=seed,
    )
    return imputer.fit_impute(table)


def _regressions(table: pd.DataFrame, seed: int, model: Any = None) -> list[pd.DataFrame]:
    imputer = MultipleImputer(n_imputations=_N_IMPUTATIONS, random_state=seed, model=model)
    return imputer.fit_impute(table)


def _iterative(table: pd.DataFrame, seed: int) -> list[pd.DataFrame]:
    codes, states = table.copy(), {}
    for column in table.select_dtypes(exclude="number"):
        code, states[column] = pd.factorize(table[column], sort=True)
        codes[column] = np.where(code < 0, np.nan, code)
    tables = []
    for k in range(_N_IMPUTATIONS):
        imputer = IterativeImputer(sample_posterior=True, random_state=1000 * seed + k)
        filled = pd.DataFrame(imputer.fit_transform(codes), columns=table.columns)
        for column, names in states.items():
            code = filled[column].round().clip(0, len(names) - 1).astype(int)
            filled[column] = np.asarray(names, dtype=object)[code]
        tables.append(filled)
    return tables


def _augmented(table: pd.DataFrame, seed: int) -> list[pd.DataFrame]:
    """Data augmentation under the normal model: the posterior of all cells."""
    rng, values = np.random.default_rng(seed), table.to_numpy(float)
    missing, tables = np.isnan(values), []
    filled = np.where(missing, np.nanmean(values, axis=0), values)
    patterns, of_row = np.unique(missing, axis=0, return_inverse=True)
    for step in range(100 + 30 * _N_IMPUTATIONS):
        mean, centred = filled.mean(axis=0), filled - filled.mean(axis=0)
        cov = stats.invwishart.rvs(len(filled) - 1, centred.T @ centred, random_state=rng)
        mean = rng.multivariate_normal(mean, cov / len(filled))
        for k, lost in enumerate(patterns):
            if lost.any():
                rows, kept = np.flatnonzero(of_row.ravel() == k), ~lost
                slope = np.linalg.solve(cov[np.ix_(kept, kept)], cov[np.ix_(kept, lost)])
                rest = cov[np.ix_(lost, lost)] - cov[np.ix_(lost, kept)] @ slope
                drawn = rng.multivariate_normal(np.zeros(lost.sum()), rest, len(rows))
                filled[np.ix_(rows, lost)] = (
                    mean[lost] + (filled[np.ix_(rows, kept)] - mean[kept]) @ slope + drawn
                )
        if step >= 100 and step % 30 == 0:
            tables.append(pd.DataFrame(filled.copy(), columns=table.columns))
    return tables


def _unmasking_trees(table: pd.DataFrame, seed: int) -> list[pd.DataFrame]:
    """An autoregressive model of boosted trees."""
    from sklearn.utils.validation import validate_data
    from utrees import UnmaskingTrees
    from utrees.kdi_quantizer import KDIQuantizer

    # It calls a method that scikit-learn has turned into a function.
    KDIQuantizer._validate_data = lambda self, X, **options: validate_data(self, X, **options)
    np.random.seed(seed)
    codes = table.copy()
    states = {}
    for column in table.select_dtypes(exclude="number"):
        code, states[column] = pd.factorize(table[column], sort=True)
        codes[column] = np.where(code < 0, np.nan, code)
    kinds = ["categorical" if column in states else "continuous" for column in table]
    with contextlib.redirect_stdout(io.StringIO()):
        model = UnmaskingTrees(random_state=seed).fit(codes.to_numpy(float), quantize_cols=kinds)
        filled = model.impute(n_impute=_N_IMPUTATIONS)
    tables = []
    for one in np.asarray(filled).reshape(_N_IMPUTATIONS, *table.shape):
        frame = pd.DataFrame(one, columns=table.columns)
        for column, names in states.items():
            frame[column] = np.asarray(names, dtype=object)[frame[column].astype(int)]
        tables.append(frame)
    return tables


OURS = ("posterior", "bootstrap", "fixed")
RIVALS: dict[str, Callable[..., list[pd.DataFrame]]] = {
    "default": _regressions,
    "true": _augmented,
    "iterative": _iterative,
    "mice": lambda table, seed: mice.impute([table], _N_IMPUTATIONS)[0][0],
    "miceforest": lambda table, seed: draws_of_miceforest(table, _N_IMPUTATIONS, seed)[0],
    "utrees": _unmasking_trees,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "analyses", nargs="*", default=["linear", "logistic", "means", "correlations"]
    )
    parser.add_argument("--methods", nargs="*", default=["posterior", "true"])
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=np.inf, help="of a cell, at most")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--cells", nargs="*", type=int, default=[0, 1, 2], help="of the mechanisms")
    parser.add_argument("--rate", type=float, help="of missing cells, else that of the mechanism")
    parser.add_argument("--fixed", action="store_true", help="the negative control, 70 %% missing")
    parser.add_argument("--keep", type=Path, help="folder of figures that are not measured again")
    add_write(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.write is not None:
        _write_guide(options)
        return
    mechanisms = [("MCAR", 0.7)] if options.fixed else [_MECHANISMS[k] for k in options.cells]
    methods = ["posterior", "fixed"] if options.fixed else options.methods
    for name in options.analyses:
        for mechanism, usual_rate in mechanisms:
            rate = options.rate or usual_rate
            _cell(Setting(name, mechanism, rate, options.rows), methods, options.repeats, options)


def _write_guide(options: Any) -> None:
    """Measure the table of the guide."""
    columns = ["complete", "default", "model"]
    rows: list[list[Any]] = [["analysis", "rows", "missing", "tables", *columns]]
    for setting, n_tables, methods in _GUIDE:
        covers = _cell(setting, methods, n_tables, options)
        cells = [f"{cover.mean():.2f} ({cover.min():.2f})" for cover in covers.values()]
        cell_of = dict(zip(covers, cells))
        share = f"{100 * setting.rate:.0f} %"
        row = [setting.name, setting.n_rows, share, n_tables]
        rows.append(row + [cell_of.get(method, "--") for method in columns])
    write(options.write, "multiple_imputation_coverage", rows)


def _cell(
    setting: Setting, methods: list[str], n_repeats: int, options: Any
) -> dict[str, np.ndarray]:
    """Print the figures of a cell, and return how often each coefficient is covered."""
    print(f"{setting.name}, {setting.mechanism} {setting.rate:.0%}, n = {setting.n_rows}")
    analysis = ANALYSES[setting.name]()
    is_normal = analysis.density is _GAUSSIAN
    chosen = ["complete", *(method for method in methods if method != "true" or is_normal)]
    begin = time.perf_counter()
    results: dict[str, list[dict[str, np.ndarray]]] = {method: [] for method in chosen}
    for seed in range(n_repeats):
        if time.perf_counter() - begin > options.seconds:
            break
        for method, measured in results.items():
            measure = partial(_measured, analysis, setting, method, seed)
            measured.append(kept(options, measure, "coverage", *setting, method, seed))
    n_measured = len(results["complete"])
    print(
        f"  {n_measured} repeats, SE of a coverage of .95 {np.sqrt(0.95 * 0.05 / n_measured):.3f}"
    )
    covers_of = {}
    for method, measured in results.items():
        covers, width, bias = _figures(analysis, [one["interval"] for one in measured])
        covers_of[method] = covers
        is_short = method not in ("complete", "true") and (
            (covers < 0.92).any() or (covers < covers_of["complete"] - 0.02).any()
        )
        text = "  ".join(f"{c:.3f}/{b:+.1f}/{w:.2f}" for c, b, w in zip(covers, bias, width))
        seconds = np.mean([one["seconds"] for one in measured])
        print(
            f"  {method:11s} mean {covers.mean():.3f}{'*' if is_short else ' '} "
            f"cpu {seconds:6.2f} s   cover/bias:SE/width  {text}",
            flush=True,
        )
    return covers_of


def _measured(
    analysis: Analysis, setting: Setting, method: str, seed: int
) -> dict[str, np.ndarray]:
    """The intervals of one table, and the seconds that its imputations took."""
    rng = np.random.default_rng([seed, setting.n_rows])
    table = analysis.draw(setting.n_rows, rng)
    holey = table.mask(_holes(table, setting.mechanism, setting.rate, rng, analysis.n_complete))
    start = time.process_time()
    if method == "complete":
        tables = [table, table]
    elif method in OURS:
        tables = _ours(method, holey, seed, analysis.density)
    elif method == "model":
        tables = _regressions(holey, seed, analysis.model)
    else:
        tables = RIVALS[method](holey, seed=seed)
    seconds = time.process_time() - start
    values, variances, degrees = zip(*(analysis.estimate(one) for one in tables))
    interval = _interval(analysis, values, variances, degrees[0])
    return {"interval": interval, "seconds": np.array(seconds)}


def _interval(analysis: Analysis, values: Any, variances: Any, df: float) -> np.ndarray:
    combined = combine_estimates(list(values), list(variances), df, analysis.transform)
    ends = combined.conf_int().to_numpy().T
    return np.array([*ends, combined.table["estimate"].to_numpy()])


def _figures(analysis: Analysis, intervals: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    low, high, estimate = np.array(intervals).transpose(1, 0, 2)
    covers = ((low <= analysis.truth) & (analysis.truth <= high)).mean(axis=0)
    error = estimate - analysis.truth
    # Some drawn tables are separable: their logistic coefficients have no finite interval. The bias
    # is in standard deviations of an estimate, which is what costs coverage.
    return covers, np.median(high - low, axis=0), error.mean(axis=0) / error.std(axis=0)


if __name__ == "__main__":
    main()
