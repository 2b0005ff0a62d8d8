"""The mixed tables of SKPC_DATA: reading, splitting, and removing cells."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

#: The categorical columns of each table.
CATEGORICAL = {
    "bank": "job marital education default housing loan contact month poutcome y",
    "electricity": "day class",
    "segment": "class",
    "cmc": "Wifes_education Husbands_education Wifes_religion Wifes_now_working "
    "Husbands_occupation Standard-of-living_index Media_exposure Contraceptive_method_used",
}


def read(name: str) -> pd.DataFrame:
    path = Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser()
    table = pd.read_csv(path / "mixed" / f"{name}.csv.gz")
    return table.astype(dict.fromkeys(CATEGORICAL[name].split(), "category"))


def numbers_of(table: pd.DataFrame) -> list[str]:
    return list(table.select_dtypes("number").columns)


def split(table: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """70 % and 30 % of the rows; numbers standardised on the former and clipped at 6 sd."""
    order = np.random.default_rng(seed).permutation(len(table))
    n_train = int(0.7 * len(table))
    parts = [table.iloc[rows].reset_index(drop=True) for rows in np.split(order, [n_train])]
    numbers = numbers_of(table)
    mean, sd = parts[0][numbers].mean(), parts[0][numbers].std(ddof=0).replace(0.0, 1.0)
    for part in parts:
        part[numbers] = ((part[numbers] - mean) / sd).clip(-6.0, 6.0)
    return parts[0], parts[1]


def holes(table: pd.DataFrame, mechanism: str, seed: int, rate: float = 0.3) -> np.ndarray:
    """Which cells to remove: this share ("mcar"), or by the rank of the first number ("mar").

    Under "mar" that number is always there, and any other cell of a row is missing with 0.6 times
    the quantile that the number stands at.
    """
    draws = np.random.default_rng(seed).random(table.shape)
    if mechanism == "mcar":
        return draws < rate
    driver = numbers_of(table)[0]
    missing = draws < 0.6 * table[driver].rank(pct=True).to_numpy()[:, np.newaxis]
    missing[:, table.columns.get_loc(driver)] = False
    return missing
