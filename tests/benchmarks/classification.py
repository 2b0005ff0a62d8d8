"""Classification of incomplete rows: DensityClassifier beside classifiers of scikit-learn.

    SKPC_DATA=... python -m tests.benchmarks.classification [names ...] [--seeds N] [--rates ...]

Classifiers learn from 70 % of the rows. From the others, cells are removed: each with the same
probability ("mcar"), or depending on the first number of the row ("mar"), which is always there:
with 0.9 times the quantile that it stands at. Accuracy, and log-loss in nats, its probabilities
kept above 1e-15. Means over the seeds; CPU seconds of the fit.

"soft", "cutset": a SoftLearnSPN (the default) or CutsetNetworkBD(param_ess=1) for each class;
"joint": DensityClassifier(joint=True), a SoftLearnSPN of columns and class. "boosting":
HistGradientBoostingClassifier trained on complete rows; "boosting, holes": trained on rows that
have lost cells in the same way. "forest": random forest behind IterativeImputer. "naive Bayes":
GaussianNB behind column means. scikit-learn's imputers see categories as one-hot columns.
Digits are black and white (pixels from 8 on); of bank, 5000 rows are used.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpc import CutsetNetworkBD, DensityClassifier, SoftLearnSPN
from tests.benchmarks.mixed_tables import CATEGORICAL, numbers_of, read

TABLES = ("breast_cancer", "wine", "digits", "bank", "cmc", "segment")
LOADERS = {"breast_cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
RATES = tuple(np.arange(10) / 10)
N_ROWS = 5000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rates", type=float, nargs="*", default=RATES)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    masks = [*options.rates, "mar"]
    for name in options.names:
        for measure in ("accuracy", "log-loss"):
            heads = "".join(f"{mask!s:>7s}" for mask in masks)
            print(f"{name + ', ' + measure:28s}{heads}{'fit':>8s}")
            if measure == "accuracy":
                found = {label: _measure(name, label, masks, options.seeds) for label in _LABELS}
            for label, (scores, seconds) in found.items():
                column = scores[:, int(measure == "log-loss")]
                line = "".join(f"{score:7.3f}" for score in column)
                print(f"  {label:26s}{line}{seconds:8.1f}", flush=True)


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and classes."""
    if name in CATEGORICAL:
        table = read(name)
        table = table.sample(min(len(table), N_ROWS), random_state=0).reset_index(drop=True)
        return table.iloc[:, :-1], table.iloc[:, -1].astype(str).to_numpy()
    X, y = LOADERS[name](return_X_y=True, as_frame=True)
    X = (X >= 8).astype(float) if name == "digits" else X
    return X, y.astype(str).to_numpy()


def remove(X: pd.DataFrame, mask: float | str, seed: int) -> pd.DataFrame:
    """Replace cells by NaN: a share of all, or by the rank of the first number ("mar")."""
    draws = np.random.default_rng(seed).random(X.shape)
    if mask != "mar":
        return X.mask(draws < mask)
    varying = [column for column in numbers_of(X) if X[column].nunique() > 2] or list(X)
    rank = X[varying[0]].rank(pct=True).to_numpy()
    lost = draws < 0.9 * rank[:, np.newaxis]
    lost[:, X.columns.get_loc(varying[0])] = False
    return X.mask(lost)


_DENSITIES = {
    "soft": DensityClassifier(SoftLearnSPN(random_state=0)),
    "cutset": DensityClassifier(CutsetNetworkBD(param_ess=1.0, random_state=0)),
    "joint": DensityClassifier(SoftLearnSPN(random_state=0), joint=True),
}
_BOOSTING = ("boosting", "boosting, holes")
_LABELS = (*_DENSITIES, *_BOOSTING, "forest", "naive Bayes")


def _make(label: str, X: pd.DataFrame):
    if label in _DENSITIES:
        return _DENSITIES[label]
    if label in _BOOSTING:
        return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    one_hot = make_column_transformer(
        (FunctionTransformer(_indicators), make_column_selector(dtype_include="category")),
        remainder="passthrough",
        sparse_threshold=0.0,
    )
    if label == "forest":
        n_nearest = min(10, X.shape[1])
        imputer = IterativeImputer(random_state=0, max_iter=5, n_nearest_features=n_nearest)
        return make_pipeline(one_hot, imputer, RandomForestClassifier(200, random_state=0))
    imputer = SimpleImputer(keep_empty_features=True)
    return make_pipeline(one_hot, imputer, GaussianNB())


def _indicators(X: pd.DataFrame) -> np.ndarray:
    """One column for each category, NaN where the cell is missing."""
    blocks = [np.empty((len(X), 0))]
    for column in X:
        codes = X[column].cat.codes.to_numpy()[:, np.newaxis]
        block = (codes == np.arange(len(X[column].cat.categories))).astype(float)
        blocks.append(np.where(codes < 0, np.nan, block))
    return np.hstack(blocks)


def _measure(name: str, label: str, masks: list, n_seeds: int) -> tuple[np.ndarray, float]:
    """Accuracy and log-loss for each mask, shape (n_masks, 2), and the seconds of a fit."""
    X, y = load(name)
    scores, seconds = np.zeros((n_seeds, len(masks), 2)), []
    for seed in range(n_seeds):
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=0.3, stratify=y, random_state=seed
        )
        model = None
        for position, mask in enumerate(masks):
            if model is None or label == "boosting, holes":
                rows = remove(train, mask, seed + 100) if label == "boosting, holes" else train
                start = time.process_time()
                model = _make(label, X).fit(rows, y_train)
                seconds.append(time.process_time() - start)
            proba = model.predict_proba(remove(test, mask, seed))
            right = model.classes_[proba.argmax(axis=1)] == y_test
            loss = log_loss(y_test, np.clip(proba, 1e-15, 1.0), labels=model.classes_)
            scores[seed, position] = right.mean(), loss
    return scores.mean(axis=0), float(np.mean(seconds))


if __name__ == "__main__":
    main()
