"""Numbers of incomplete rows: pools of densities compared with boosting and imputers.

    SKPC_DATA=... python -m tests.benchmarks.regression [names ...] [--splits N] [--draws N]
        [--rows N] [--models ...] [--keep FOLDER] [--quick] [--write doc/user_guide]

At most 4,000 rows of a table; models learn from 60 % of them, complete, all columns but the target.
The target is in standard deviations of the training rows. Cells of the other rows are removed: a
share of all at random (0 to 0.7); depending on the first number of the row, which is always there
("mar": with 0.9 times the quantile that it stands at); or with the quantile that the value itself
stands at in its column ("mnar", a half on average).

"pool": DensityRegressor() as it is; "densities alone": without regressors among its members. The
others are described in ``rivals``. Root mean squared error; for ours the mean log predictive
density in nats, and the share of randomised PIT values in [.1, .9], both on the first draw of a
mask. Means over the draws and over the splits. CPU seconds of a fit, and of predictions for 1,000
rows.

The bars compare "pool" with "masked copies", row by row (``prediction`` says how), and its fits
with boosting's grid in the same run: --rows 1500 learns from no more rows. With --keep, figures of
each table, split and model are files of that folder, and are read instead of measured: delete those
that should be measured again.
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from skpc import DensityRegressor
from tests.benchmarks.guide_tables import write
from tests.benchmarks.prediction import (
    ALONE,
    MASKS,
    OURS,
    Benchmark,
    Figures,
    Fitted,
    Found,
    Split,
    fit_ours,
    guide_rows,
    options,
    print_bars,
    print_cost,
    run,
    sampled,
    split_of,
    standard_error,
)
from tests.benchmarks.rivals import REGRESSION

MODELS = {
    OURS: partial(DensityRegressor, random_state=0),
    ALONE: partial(DensityRegressor, regressors=None, random_state=0),
}
#: Target by name; "diabetes" is scikit-learn's.
TARGETS = {
    "diabetes": "target",
    "cmc-age": "Wifes_age",
    "electricity-transfer": "transfer",
    "electricity-nswprice": "nswprice",
    "bank-age": "age",
}
#: Names of targets in the guide, and of the model without features.
TITLES = {
    "cmc-age": "cmc, age of the wife",
    "electricity-transfer": "electricity, transfer",
    "electricity-nswprice": "electricity, nswprice",
    "bank-age": "bank, age",
    "mean": "mean of the target",
}
#: Cells below masked copies, of the 30 of all targets.
NEEDED = (22,)


def main() -> None:
    asked = options(__doc__, list(TARGETS))
    warnings.simplefilter("ignore")
    benchmark = Benchmark(
        split=_split,
        fits={(label,): partial(_fit, label) for label in MODELS} | REGRESSION.fits,
        figures=_figures,
        extras=_extras,
        measures={"RMSE": "loss", "log score": "log score", "PIT in [.1, .9]": "pit"},
        root=True,
    )
    found = run(benchmark, asked)
    print_bars(found, benchmark, NEEDED, REGRESSION.imputed)
    print_cost(found)
    rows = guide_rows(found, benchmark, REGRESSION.imputed, TITLES)
    if len(rows) > 1:
        write(asked.write, "regression", rows)
    for name, figures in found.items():
        if OURS in figures:
            _print_pit(name, figures)


def _split(name: str, number: int, n_draws: int) -> Split:
    X = load_diabetes(as_frame=True).frame if name == "diabetes" else sampled(name.split("-")[0])
    y = X.pop(TARGETS[name]).to_numpy(dtype=float)
    X, test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=number)
    mean, scale = y.mean(), y.std()
    return split_of((X, test, (y - mean) / scale, (y_test - mean) / scale), number, n_draws)


def _fit(label: str, split: Split) -> dict[str, Fitted]:
    return {label: fit_ours(MODELS[label](), split, "predict")}


def _figures(values: np.ndarray, split: Split) -> Figures:
    return {"loss": (values - split.y_test) ** 2}


def _extras(model: Any, X: pd.DataFrame, y: np.ndarray) -> Figures:
    cells = model._pool.predictive(model._encode(X)[1])
    step = 0.0 if cells.law is None else cells.law.step
    before = y - step if step > 0.0 else np.nextafter(y, -np.inf)
    low, high = cells.cdf(before), cells.cdf(y)
    return {"log score": model.score_samples(X, y), "pit": _pit(low, high)}


def _pit(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Probability that the randomised PIT value of each row is in [.1, .9].

    The value is drawn evenly between the distribution functions below and at the target, which
    differ at an atom.
    """
    inside = np.clip(high, 0.1, 0.9) - np.clip(low, 0.1, 0.9)
    at_once = (low >= 0.1) & (high <= 0.9)
    return np.where(high > low, inside / np.maximum(high - low, 1e-300), at_once.astype(float))


def _print_pit(name: str, found: Found) -> None:
    """Share of PIT values in [.1, .9] where cells are missing at random, and its standard error."""
    at = [number for number, mask in enumerate(MASKS) if not isinstance(mask, str)]
    rows = np.concatenate([figures["pit"][at].mean(axis=0) for figures in found[OURS]])
    share, error = rows.mean(), standard_error(rows)
    fine = abs(share - 0.8) <= max(0.04, 2.0 * error)
    verdict = "within" if fine else "NOT within"
    print(f"{name}: PIT in [.1, .9] {share:.3f} (SE {error:.3f}), {verdict} .80 +- .04 or 2 SE")


if __name__ == "__main__":
    main()
