"""ExpectedKernelSVR: speed, quality of prediction under missing features, cost of structure.

    SKPC_DATA=... python -m tests.benchmarks.expected_kernel speed [names ...] [--rates ...]
    SKPC_DATA=... python -m tests.benchmarks.expected_kernel quality [names ...] [--rates ...]
        [--masks N] [--methods ...]
    SKPC_DATA=... python -m tests.benchmarks.expected_kernel bits [names ...] [--rates ...]
    SKPC_DATA=... python -m tests.benchmarks.expected_kernel structure [names ...]
    SKPC_DATA=... python -m tests.benchmarks.expected_kernel densities [names ...] [--splits N]
    SKPC_DATA=... python -m tests.benchmarks.expected_kernel scales [names ...] [--splits N]
    SKPC_DATA=... python -m tests.benchmarks.expected_kernel probabilities [names ...] [--splits N]

With --write doc/user_guide, speed, quality, structure, scales and probabilities write their tables
of the guide.

"speed": CPU nanoseconds per (row, support vector, feature) on one thread, best of five; and how
many times longer draws take to come within an error of 1 % of the standard deviation of the target
(root mean square over the rows): completions are drawn from the same density, and the machine is
evaluated by this package ("draws") or by scikit-learn ("libsvm").

"quality": root mean squared error on the test rows when cells are missing at random, in units of
the target, means over the masks; all methods see the same. All is fitted on the complete training
rows; C, epsilon and gamma are those that do best on the complete validation rows. Imputers see the
one-hot columns, but "iterative" the numbers of the states, in training rows with 30 % of the cells
removed. "hgb": HistGradientBoosting with its own treatment of missing values, trained on complete
rows, or ("hgb_same") on rows with the same share missing.

"bits": figure 2 of the paper: the validation rows, and single one-hot columns missing; exact
expectations of a Strudel circuit beside its most probable completion and medians of the columns,
and our default density, of the features. Any other set is asked by its name once its file is in
the folder; ``regression_tables`` says what a file holds.

"structure": mean log-likelihood of test rows with and without structured=True, in nats.

"scales": R2 with defaults and a structured network, with numbers and targets standardized or as
they are, on 60 % of at most 4,000 rows; means and standard errors over splits.

"probabilities": log loss (nats) of classifiers with probabilities on tables of ``classification``,
as "densities" are measured: by each calibration, and of the shares of the classes in training.

"densities": machines with each of the densities that the default chooses from, with a hidden tree,
and with the default, on tables and masks of ``prediction``: rates of wrong classes, or root mean
squared errors in standard deviations of the target; means over splits and two draws of each mask.
They learn from 1,000 rows at most and are asked about 400. CPU seconds of a fit, and of predictions
for 1,000 rows. abalone and delta-ailerons have their own rows, the shares of --rates missing, and
C, epsilon and gamma of "quality".
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import ParameterGrid, train_test_split
from sklearn.svm import SVR

from skpc import (
    CutsetNetworkBD,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    HiddenChowLiuTree,
    SoftLearnSPN,
    Strudel,
    TableMixture,
)
from skpc.datasets import fetch_debd
from skpc.queries import sample_missing
from tests.benchmarks import classification, mixed_tables, regression
from tests.benchmarks.debd import refuse_unknown
from tests.benchmarks.guide_tables import add_write, with_error, write
from tests.benchmarks.prediction import MASKS, Split
from tests.benchmarks.regression_tables import (
    NUMERIC,
    Table,
    features_of,
    present,
    read,
    removed,
)

RATES = [round(0.1 * k, 1) for k in range(1, 10)]
GRID = {"C": [1.0, 10.0, 100.0], "epsilon": [0.1, 0.3], "gamma": [0.003, 0.01, 0.03, 0.1]}
IMPUTERS = {
    "mode": SimpleImputer(strategy="most_frequent"),
    "mean": SimpleImputer(),
    "median": SimpleImputer(strategy="median"),
    "knn": KNNImputer(n_neighbors=20),
    "iterative": IterativeImputer(random_state=0),
}
SPEED_HEADS = ["ns", "draws needed", "/ draws", "/ libsvm"]
METHODS = ["exact", "mpe", "draws", *IMPUTERS, "hgb", "hgb_same"]
DENSITIES = {
    "cutset": CutsetNetworkBD(structured=True, random_state=0),
    "soft": SoftLearnSPN(random_state=0),
    "table": TableMixture(random_state=0),
    "hidden": HiddenChowLiuTree(random_state=0),
    "default": None,
}
#: Targets of "scales", and the shares of the cells that are missing at prediction.
SCALED = {"diabetes": "target", "bank": "age", "electricity": "nswprice"}
SHARES = (0.0, 0.3, 0.5)
#: Whether numbers, and targets, are standardized.
SETTINGS = ((False, False), (True, False), (True, True))
CALIBRATIONS = ("sigmoid", "temperature")
#: Rows that machines learn from at most, and are asked about.
N_LEARNED, N_ASKED = 1000, 400
DENSITY_TABLES = ["wine", "breast_cancer", "segment", "cmc", "bank", "electricity", "diabetes"]
DENSITY_TABLES += ["electricity-nswprice"]
DEBD = ["nltcs", "plants", "baudio", "jester", "tretail"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sections = ["speed", "quality", "bits", "structure", "densities", "scales", "probabilities"]
    parser.add_argument("what", choices=sections)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rates", nargs="+", type=float)
    parser.add_argument("--masks", type=int, default=5)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    add_write(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    binned = present()
    tables = [*DEBD, *binned, *NUMERIC]
    known = {"structure": tables, "densities": [*DENSITY_TABLES, *binned], "scales": [*SCALED]}
    known["probabilities"] = [*classification.TABLES]
    refuse_unknown(parser, options.names, known.get(options.what, [*binned, *NUMERIC]))
    if options.what == "structure":
        write(options.write, "kernels_structure", structure(options.names or [*DEBD, *binned]))
        return
    if options.what == "scales":
        rows = [row for name in options.names or SCALED for row in scales(name, options.splits)]
        heads = ["target", "standardize", "standardize_y", *map(str, SHARES)]
        write(options.write, "kernels_scales", [heads, *rows])
        return
    if options.what == "probabilities":
        names = options.names or classification.TABLES
        rows = [probabilities(name, options.splits) for name in names]
        heads = ["table", "class shares", *CALIBRATIONS]
        write(options.write, "kernels_probabilities", [heads, *rows])
        return
    if options.what == "densities":
        names = options.names or DENSITY_TABLES
        densities([name for name in names if name not in binned], options.splits)
        for name in [name for name in names if name in binned]:
            binned_densities(name, options.rates or [0.1, 0.3, 0.5, 0.9], options.masks)
        return
    rows = []
    for name in options.names or [*binned, *(NUMERIC if options.what == "quality" else ())]:
        if options.what == "speed":
            rows += speed(name, options.rates or [0.0, 0.1, 0.3, 0.5, 0.7, 0.9])
        elif options.what == "quality":
            rows += quality(name, options.rates or RATES, options.masks, options.methods)
        elif options.what == "bits":
            bits(name, options.rates or RATES, options.masks)
    if rows:
        heads = SPEED_HEADS if options.what == "speed" else options.methods
        write(options.write, f"kernels_{options.what}", [["table", "missing", *heads], *rows])


def best_machine(table: Table) -> dict[str, float]:
    """Parameters of the machine that does best on complete validation rows."""

    def error(parameters: dict[str, float]) -> float:
        machine = SVR(**parameters).fit(table.bits["train"], table.y["train"])
        return rmse(machine.predict(table.bits["valid"]), table.y["valid"])

    return min(ParameterGrid(GRID), key=error)


def rmse(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - truth) ** 2)))


def fitted(
    table: Table, parameters: dict[str, float], density: Any = DENSITIES["cutset"]
) -> ExpectedKernelSVR:
    model = ExpectedKernelSVR(
        density,
        standardize=False,
        standardize_y=False,
        categorical_features=table.categorical,
        tol=1e-4,
        **parameters,
    )
    return model.fit(table.X["train"], table.y["train"])


def speed(name: str, rates: list[float]) -> list[list[str]]:
    """Print costs by the share of missing cells, and return them."""
    table, rows_of_guide = read(name), []
    parameters = best_machine(table)
    model = fitted(table, parameters)
    libsvm = SVR(**parameters).fit(table.bits["train"], table.y["train"])
    X, circuit = table.X["test"], model.density_.circuit_
    n = X.size * len(model.support_vectors_)
    print(f"{name}: {len(X)} rows, {len(model.support_vectors_)} support vectors, {parameters}")
    print(f"{'missing':>8s}" + "".join(f"{head:>14s}" for head in SPEED_HEADS))
    for rate in rates:
        rows = np.where(removed(X.shape, rate, 0), np.nan, X)
        exact = best_time(lambda rows=rows: model.predict(rows))
        spread = model.sample(rows, 100, random_state=0).var(axis=1, ddof=1).mean()
        needed = spread / 0.01**2
        filled = sample_missing(circuit, rows, 0)
        draw = best_time(lambda rows=rows: model.sample(rows, 1, random_state=0))
        completion = best_time(lambda rows=rows: sample_missing(circuit, rows, 0))
        one_hot = as_bits(table, filled)
        evaluation = best_time(lambda one_hot=one_hot: libsvm.predict(one_hot))
        ratios = needed * draw / exact, needed * (completion + evaluation) / exact
        cells = [f"{exact / n * 1e9:.1f}", f"{needed:.0f}", *(f"{ratio:.0f}" for ratio in ratios)]
        rows_of_guide.append([name, str(rate), *cells])
        print(f"{rate:8.1f}" + "".join(f"{cell:>14s}" for cell in cells), flush=True)
    return rows_of_guide


def best_time(work, repeats: int = 5) -> float:
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def as_bits(table: Table, rows: np.ndarray) -> np.ndarray:
    """One-hot columns of rows of features; NaN where a feature is missing."""
    if not table.categorical.any():
        return rows
    cells = rows[:, table.groups]
    first = np.searchsorted(table.groups, table.groups)
    states = np.arange(len(table.groups)) - first
    return np.where(np.isnan(cells), np.nan, cells == states)


def quality(name: str, rates: list[float], masks: int, methods: list[str]) -> list[list[str]]:
    """Print errors by the share of missing cells, and return them."""
    table, rows_of_guide = read(name), []
    parameters = best_machine(table)
    model = fitted(table, parameters)
    libsvm = SVR(**parameters).fit(table.bits["train"], table.y["train"])
    imputers = {m: fitted_imputer(m, table) for m in methods if m in IMPUTERS}
    boosted = HistGradientBoostingRegressor(random_state=0).fit(table.X["train"], table.y["train"])
    X, y = table.X["test"], table.y["test"]
    print(f"{name}: {parameters}; complete rows: {rmse(model.predict(X), y) * table.scale:.4g}")
    print(f"{'missing':>8s}" + "".join(f"{method:>11s}" for method in methods))
    for rate in rates:
        errors = dict.fromkeys(methods, 0.0)
        for seed in range(masks):
            rows = np.where(removed(X.shape, rate, seed), np.nan, X)
            for method in methods:
                if method in imputers:
                    found = libsvm.predict(imputers[method](rows))
                else:
                    found = _PREDICT[method](table, model, boosted, rows, rate, seed)
                errors[method] += rmse(found, y) * table.scale / masks
        cells = [f"{errors[method]:.4g}" for method in methods]
        rows_of_guide.append([name, str(rate), *cells])
        print(f"{rate:8.1f}" + "".join(f"{cell:>11s}" for cell in cells), flush=True)
    return rows_of_guide


def fitted_imputer(method: str, table: Table):
    """An imputer that returns complete one-hot columns of rows of features."""
    imputer = IMPUTERS[method]
    if method != "iterative":
        imputer.fit(table.bits["train"])
        return lambda rows: imputer.transform(as_bits(table, rows))
    # One-hot columns explain each other perfectly, and regressions learn nothing else from them.
    # The states of these tables are bins in their order, so their numbers do. It learns from
    # columns with missing cells only.
    X = table.X["train"]
    imputer.fit(np.where(removed(X.shape, 0.3, 999), np.nan, X))

    def fill(rows: np.ndarray) -> np.ndarray:
        filled = imputer.transform(rows)
        if table.categorical.any():
            filled = np.clip(np.rint(filled), 0, X.max(axis=0))
        return as_bits(table, filled)

    return fill


def _hgb_same(table, model, boosted, rows, rate, seed) -> np.ndarray:
    X = table.X["train"]
    holes = np.where(removed(X.shape, rate, 1000 + seed), np.nan, X)
    same = HistGradientBoostingRegressor(random_state=0).fit(holes, table.y["train"])
    return same.predict(rows)


_PREDICT = {
    "exact": lambda table, model, boosted, rows, rate, seed: model.predict(rows),
    "mpe": lambda table, model, boosted, rows, rate, seed: model.predict(
        model.density_.complete(rows, "mpe")
    ),
    "draws": lambda table, model, boosted, rows, rate, seed: model.sample(
        rows, 5, random_state=seed
    ).mean(axis=1),
    "hgb": lambda table, model, boosted, rows, rate, seed: boosted.predict(rows),
    "hgb_same": _hgb_same,
}


def bits(name: str, rates: list[float], masks: int) -> None:
    found = bit_errors(name, rates, masks, Strudel(random_state=0))
    columns = ["bits", "default", "mpe", "median"]
    print(f"{name}: complete rows: {found['complete']:.4g}")
    print(f"{'missing':>8s}" + "".join(f"{column:>11s}" for column in columns))
    for rate in rates:
        cells = [found[f"{column} {rate}"] for column in columns]
        print(f"{rate:8.1f}" + "".join(f"{cell:11.4g}" for cell in cells), flush=True)


def bit_errors(name: str, rates: list[float], masks: int, density: Any) -> dict[str, float]:
    """Root mean squared errors under the protocol of the paper, by column and rate.

    Exact expectations with a density of the bits, or with the default density of the features, and
    the machine on bits that are filled by the most probable completion or by medians.
    """
    table = read(name)
    parameters = best_machine(table)
    on_bits = ExpectedKernelSVR(density, standardize_y=False, **parameters)
    on_bits.fit(table.bits["train"], table.y["train"])
    on_features = fitted(table, parameters, DENSITIES["default"])
    median = SimpleImputer(strategy="median").fit(table.bits["train"])
    ask: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "bits": on_bits.predict,
        "default": lambda rows: on_features.predict(features_of(rows, table.groups)),
        "mpe": lambda rows: on_bits.predict(on_bits.density_.complete(rows, "mpe")),
        "median": lambda rows: on_bits.predict(median.transform(rows)),
    }
    X, y = table.bits["valid"], table.y["valid"]
    found = {"complete": rmse(on_bits.predict(X), y) * table.scale}
    for rate in rates:
        for column, predict in ask.items():
            holes = (removed(X.shape, rate, seed) for seed in range(masks))
            errors = [rmse(predict(np.where(missing, np.nan, X)), y) for missing in holes]
            found[f"{column} {rate}"] = float(np.mean(errors)) * table.scale
    return found


def structure(names: list[str]) -> list[list[str]]:
    """Print log-likelihoods of each table, and return them below their heads."""
    rows = [["table", "free", "structured", "cost", "tree"]]
    print("".join(f"{head:>16s}" for head in rows[0]))
    for name in names:
        if name not in DEBD:
            table = read(name)
            train, test = table.X["train"], table.X["test"]
        else:
            data = fetch_debd(name)
            train, test = data.train, data.test
        found = [
            CutsetNetworkBD(param_ess=None, **how).fit(train).score(test)
            for how in ({}, {"structured": True}, {"max_depth": 0})
        ]
        free, structured, tree = found
        scores = (free, structured, free - structured, tree)
        rows.append([name, *(f"{score:.3f}" for score in scores)])
        print("".join(f"{cell:>16s}" for cell in rows[-1]), flush=True)
    return rows


def binned_densities(name: str, rates: list[float], masks: int) -> None:
    """Errors of test rows by density, with those of complete validation rows least."""
    table = read(name)
    parameters, X, y = best_machine(table), table.X["test"], table.y["test"]
    print(f"{name:>22s}{'density':>9s}" + "".join(f"{rate:10.1f}" for rate in rates), end="")
    print(f"{'score':>10s}{'fit':>7s}{'1000':>7s}  densities")
    for label, density in DENSITIES.items():
        start = time.process_time()
        model = fitted(table, parameters, density)
        fit, errors = time.process_time() - start, []
        for rate in rates:
            holes = (removed(X.shape, rate, seed) for seed in range(masks))
            found = [rmse(model.predict(np.where(hole, np.nan, X)), y) for hole in holes]
            errors.append(float(np.mean(found)) * table.scale)
        ask = (time.process_time() - start - fit) * 1000.0 / (len(rates) * masks * len(X))
        print(f"{name:>22s}{label:>9s}" + "".join(f"{error:10.4g}" for error in errors), end="")
        print(f"{model.density_.score(X):10.3f}{fit:7.2f}{ask:7.2f}  {model.density_!r}"[:110])


def densities(names: list[str], n_splits: int) -> None:
    if not names:
        return
    masks = [mask for mask in MASKS if mask != 0.1]
    print(f"{'table':>22s}{'density':>9s}" + "".join(f"{mask!s:>7s}" for mask in masks), end="")
    print(f"{'fit':>7s}{'1000':>7s}  densities")
    for name in names:
        module = regression if name in regression.TARGETS else classification
        splits = [module._split(name, number, 2) for number in range(n_splits)]
        for label, density in DENSITIES.items():
            found = [_by_density(density, split, module is regression, masks) for split in splits]
            *errors, fit, ask = np.mean([figures for figures, _ in found], axis=0)
            print(f"{name:>22s}{label:>9s}" + "".join(f"{e:7.3f}" for e in errors), end="")
            chosen = " ".join(sorted({one for _, one in found}))
            print(f"{fit:7.2f}{ask:7.2f}  {chosen}", flush=True)


def probabilities(name: str, n_splits: int) -> list[str]:
    """Print and return the log loss of the shares of the classes, and by calibration and mask."""
    loss_of_shares = []
    losses = {how: {mask: [] for mask in SHARES} for how in CALIBRATIONS}
    for number in range(n_splits):
        split = classification._split(name, number, 2)
        X, y, truth = split.train[:N_LEARNED], split.y_train[:N_LEARNED], split.y_test[:N_ASKED]
        classes, counts = np.unique(y, return_counts=True)
        shares = np.tile(counts / counts.sum(), (len(truth), 1))
        loss_of_shares.append(log_loss(truth, shares, labels=classes))
        for how in CALIBRATIONS:
            model = ExpectedKernelSVC(calibration=how, random_state=0).fit(X, y)
            for (mask, _), rows in split.tests.items():
                if mask in SHARES:
                    proba = model.predict_proba(rows[:N_ASKED])
                    losses[how][mask].append(log_loss(truth, proba, labels=classes))
    means = [[np.mean(of_mask) for of_mask in losses[how].values()] for how in CALIBRATIONS]
    by_calibration = (" / ".join(f"{loss:.3f}" for loss in of_shares) for of_shares in means)
    cells = [name, f"{np.mean(loss_of_shares):.3f}", *by_calibration]
    print("".join(f"{cell:>26s}" for cell in cells), flush=True)
    return cells


def scales(name: str, n_splits: int) -> list[list[str]]:
    """R2 on test rows by what is standardized, with defaults and a structured network."""
    target, rows = SCALED[name], []
    table = load_diabetes(as_frame=True).frame if name == "diabetes" else mixed_tables.read(name)
    table = table.sample(min(len(table), 4000), random_state=0)
    for standardize, standardize_y in SETTINGS:
        scores = np.zeros((n_splits, len(SHARES)))
        for split in range(n_splits):
            train, test = train_test_split(table, train_size=0.6, random_state=split)
            machine = ExpectedKernelSVR(
                CutsetNetworkBD(structured=True, random_state=0),
                standardize=standardize,
                standardize_y=standardize_y,
            ).fit(train.drop(columns=target), train[target])
            X = test.drop(columns=target)
            for place, share in enumerate(SHARES):
                lost = np.random.default_rng(split).random(X.shape) < share
                predicted = machine.predict(X.mask(lost))
                scores[split, place] = r2_score(test[target], predicted)
        mean, se = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(n_splits)
        figures = [with_error(score, error, 3) for score, error in zip(mean, se)]
        rows.append([f"{name}, {target}", str(standardize), str(standardize_y), *figures])
        print(*(f"{cell:>22s}" for cell in rows[-1]), flush=True)
    return rows


def _by_density(density, split: Split, is_regression: bool, masks) -> tuple[list[float], str]:
    """Errors under the masks, seconds of the fit and of 1,000 rows; the density of the machine."""
    machine = (ExpectedKernelSVR if is_regression else ExpectedKernelSVC)(density, random_state=0)
    start, errors = time.process_time(), {mask: [] for mask in masks}
    machine.fit(split.train[:N_LEARNED], split.y_train[:N_LEARNED])
    fitted, n_rows, y = time.process_time(), 0, split.y_test[:N_ASKED]
    for (mask, _), X in split.tests.items():
        if mask in errors:
            found = machine.predict(X[:N_ASKED])
            errors[mask].append(rmse(found, y) if is_regression else np.mean(found != y))
            n_rows += len(y)
    ask = 1000.0 * (time.process_time() - fitted) / n_rows
    figures = [float(np.mean(values)) for values in errors.values()]
    return [*figures, fitted - start, ask], type(machine.density_).__name__


if __name__ == "__main__":
    main()
