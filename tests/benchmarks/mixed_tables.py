"""The mixed tables of SKPC_DATA: reading, splitting, and removing cells."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

#: Columns of categories that are written as numbers. Others are those of strings, and the target,
#: which comes last.
CODES = {
    "electricity": "day",
    "cmc": "Wifes_education Husbands_education Wifes_religion Wifes_now_working "
    "Husbands_occupation Standard-of-living_index Media_exposure",
}
#: Mixed tables of the papers; those whose file is in the folder can be read.
MIXED = ("bank", "electricity", "segment", "german", "vowel", "cmc")


def file_of(name: str) -> Path:
    path = Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser()
    return path / "mixed" / f"{name}.csv.gz"


def present() -> list[str]:
    return [name for name in MIXED if file_of(name).exists()]


def read(name: str) -> pd.DataFrame:
    table = pd.read_csv(file_of(name))
    strings = table.select_dtypes(exclude="number").columns
    categories = {*strings, *CODES.get(name, "").split(), table.columns[-1]}
    return table.astype(dict.fromkeys(sorted(categories), "category"))


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
