"""Rivals that fill missing cells, from an environment of their own: see ``rivals.txt``.

python -m venv rivals && rivals/bin/pip install -r tests/benchmarks/rivals.txt
"""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pandas as pd


def draws_of_miceforest(table: pd.DataFrame, seed: int, n: int) -> list[pd.DataFrame]:
    """Chained equations of forests, with predictive mean matching."""
    import miceforest

    kernel = miceforest.ImputationKernel(
        _categorised(table), num_datasets=n, random_state=seed, save_all_iterations_data=False
    )
    kernel.mice(5)
    return [_like(kernel.complete_data(k), table) for k in range(n)]


def draws_of_utrees(table: pd.DataFrame, seed: int, n: int) -> list[pd.DataFrame]:
    """Unmasking trees, an autoregressive model of boosted trees."""
    from sklearn.utils.validation import validate_data
    from utrees import UnmaskingTrees
    from utrees.kdi_quantizer import KDIQuantizer

    # It calls a method that scikit-learn has turned into a function.
    KDIQuantizer._validate_data = lambda self, X, **options: validate_data(self, X, **options)
    np.random.seed(seed)
    codes, states = table.copy(), {}
    for column in table.select_dtypes(exclude="number"):
        code, states[column] = pd.factorize(table[column], sort=True)
        codes[column] = np.where(code < 0, np.nan, code)
    kinds = ["categorical" if column in states else "continuous" for column in table]
    with contextlib.redirect_stdout(io.StringIO()):
        model = UnmaskingTrees(random_state=seed).fit(codes.to_numpy(float), quantize_cols=kinds)
        filled = model.impute(n_impute=n)
    tables = []
    for one in np.asarray(filled).reshape(n, *table.shape):
        frame = pd.DataFrame(one, columns=table.columns)
        for column, names in states.items():
            frame[column] = np.asarray(names, dtype=object)[frame[column].astype(int)]
        tables.append(frame)
    return tables


def _categorised(table: pd.DataFrame) -> pd.DataFrame:
    others = table.select_dtypes(exclude="number").columns
    return table.astype(dict.fromkeys(others, "category")).reset_index(drop=True)


def _like(filled: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    others = filled.select_dtypes(exclude="number").columns
    return filled.astype(dict.fromkeys(others, object)).set_axis(table.index)
