"""Classes of incomplete rows: pools of densities compared with boosting and imputers.

    SKPC_DATA=... python -m tests.benchmarks.classification [names ...] [--splits N] [--draws N]
        [--rows N] [--models ...] [--keep FOLDER] [--quick] [--write doc/user_guide]

At most 4,000 rows of a table; classifiers learn from 60 % of them, complete and stratified. Cells
of the others are removed: a share of all at random (0 to 0.7); depending on the first number of the
row, which is always there ("mar": with 0.9 times the quantile that it stands at); or with the
quantile that the value itself stands at in its column ("mnar", a half on average).

"pool": DensityClassifier() as it is; "densities alone": without boosting among its members;
"generative forest": GenerativeForest(), printed beside a random forest behind an imputer at the
end. The others are described in ``rivals``. Log loss in nats (probabilities kept above 1e-15),
accuracy, and calibration error: the mean over ten bins of equally many rows of how far the share of
right predictions is from the mean probability of the predicted class. Means over the draws of a
mask and over the splits. CPU seconds of a fit, and of predictions for 1,000 rows.

The bars compare "pool" with "masked copies", row by row (``prediction`` says how), and its fits
with boosting's grid in the same run: --rows 1500 learns from no more rows. With --keep, figures of
each table, split and model are files of that folder, and are read instead of measured: delete those
that should be measured again. Digits are black and white (pixels from 8 on).
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import time

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from skpc import DensityClassifier, GenerativeForest
from tests.benchmarks.guide_tables import with_error, write
from tests.benchmarks.mixed_tables import MIXED
from tests.benchmarks.prediction import (
    ALONE,
    MASKS,
    OURS,
    Benchmark,
    Figures,
    Fitted,
    Found,
    Split,
    compare,
    fit_ours,
    guide_rows,
    options,
    print_bars,
    print_cost,
    rows_of,
    run,
    sampled,
    split_of,
)
from tests.benchmarks.rivals import CLASSIFICATION, encoder

FOREST, OTHER_FOREST = "generative forest", "iterative + forest"
MODELS = {
    OURS: partial(DensityClassifier, random_state=0),
    ALONE: partial(DensityClassifier, classifiers=None, random_state=0),
    FOREST: partial(GenerativeForest, random_state=0),
}
TABLES = ("wine", "breast_cancer", "cmc", "segment", "electricity", "bank")
LOADERS = {"breast_cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
#: Cells below masked copies, and below every imputer + model, of the 36 of all tables.
NEEDED = (30, 34)


def main() -> None:
    asked = options(__doc__, TABLES)
    warnings.simplefilter("ignore")
    benchmark = Benchmark(
        split=_split,
        fits={(label,): partial(_fit, label) for label in MODELS} | CLASSIFICATION.fits,
        figures=_figures,
        extras=None,
        measures={
            "log loss": "loss",
            "accuracy": "right",
            "calibration error": "calibration",
        },
        root=False,
    )
    found = run(benchmark, asked)
    print_bars(found, benchmark, NEEDED, CLASSIFICATION.imputed)
    print_cost(found)
    titles = {"class shares": "shares of the classes"}
    rows = guide_rows(found, benchmark, CLASSIFICATION.imputed, titles)
    if len(rows) > 1:
        write(asked.write, "classification", rows)
    print_forests(found, asked.write)


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and classes."""
    if name in MIXED:
        table = sampled(name)
        return table.iloc[:, :-1], table.iloc[:, -1].astype(str).to_numpy()
    X, y = LOADERS[name](return_X_y=True, as_frame=True)
    X = (X >= 8).astype(float) if name == "digits" else X
    return X, y.astype(str).to_numpy()


def _split(name: str, number: int, n_draws: int) -> Split:
    X, y = load(name)
    parts = train_test_split(X, y, test_size=0.4, stratify=y, random_state=number)
    return split_of(parts, number, n_draws)


def _fit(label: str, split: Split) -> dict[str, Fitted]:
    model = MODELS[label]()
    fitted = fit_ours(model, split, "predict_proba")
    if label == FOREST:
        rows = encoder().fit_transform(split.train)
        start = time.process_time()
        RandomForestClassifier(model.n_estimators, random_state=0).fit(rows, split.y_train)
        ratio = fitted.seconds / (time.process_time() - start)
        note = f"{model.leaves_} {model.min_samples_leaf_:g}, {ratio:.1f} fits of scikit-learn's"
        fitted = fitted._replace(note=note)
    return {label: fitted}


def print_forests(found: dict[str, Found], folder: Path | None) -> None:
    """The forest beside a random forest behind an imputer: losses, and the paired error."""
    masks = (0.0, 0.3, 0.5)
    rows = [["table", "removed", "GenerativeForest", OTHER_FOREST, "difference"]]
    for name, models in found.items():
        if {FOREST, OTHER_FOREST} <= set(models):
            for mask in masks:
                at = MASKS.index(mask)
                ours, other = (
                    rows_of(models[label], "loss")[at] for label in (FOREST, OTHER_FOREST)
                )
                difference, error = compare(ours, other, False)
                print(
                    f"{name + ', forests':26s}{mask!s:>6s}{ours.mean():8.3f}{other.mean():8.3f}"
                    f"{difference:+8.3f} +-{error:6.3f}{difference / other.mean():+8.1%}"
                )
                losses = [f"{loss.mean():.3f}" for loss in (ours, other)]
                rows.append([name, f"{mask:.0%}", *losses, with_error(difference, error, 3)])
    if len(rows) > 1:
        write(folder, "generative_forest", rows)


def _figures(proba: np.ndarray, split: Split) -> Figures:
    """Loss and success of each row, and the calibration error of all."""
    code = np.searchsorted(np.unique(split.y_train), split.y_test)
    loss = -np.log(np.clip(proba[np.arange(len(code)), code], 1e-15, 1.0))
    right = (proba.argmax(axis=1) == code).astype(float)
    return {"loss": loss, "right": right, "calibration": _calibration(proba.max(axis=1), right)}


def _calibration(confidence: np.ndarray, right: np.ndarray) -> np.ndarray:
    bins = np.array_split(np.argsort(confidence, kind="stable"), 10)
    gaps = [abs(confidence[rows].mean() - right[rows].mean()) for rows in bins]
    return np.array([np.mean(gaps)])


if __name__ == "__main__":
    main()
