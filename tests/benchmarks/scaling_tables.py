"""Tables that grow: rows in files, and wide tables of numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from skpc.datasets import make_chow_liu

#: Rows that are made, written and read at a time.
BLOCK = 100_000


def part_of_table(n_rows: int, n_columns: int, missing: float, seed: int) -> np.ndarray:
    """Rows whose columns are binary and numbers in turn, half of them from each of two random
    tree-structured distributions; those of other seeds have the same distribution."""
    X, rng = _binary(n_rows, n_columns, seed)
    X = X.astype(np.float64)
    X[:, 1::2] += rng.normal(scale=0.5, size=X[:, 1::2].shape)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def binary_part_of_table(n_rows: int, n_columns: int, seed: int) -> np.ndarray:
    """The same with all columns binary, a byte each."""
    X, rng = _binary(n_rows, n_columns, seed)
    return np.where(rng.random(X.shape) < 0.02, 1 - X, X).astype(np.uint8)


def _binary(n_rows: int, n_columns: int, seed: int) -> tuple[np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    several = _trees(n_columns)
    own = rng.integers(0, 2 * BLOCK, n_rows)
    return np.where(rng.random((n_rows, 1)) < 0.5, several[0][own], several[1][own]), rng


@cache
def _trees(n_columns: int) -> list[np.ndarray]:
    return [make_chow_liu(2 * BLOCK, n_columns, random_state=seed) for seed in range(2)]


def adult_rows(n_rows: int, seed: int) -> pd.DataFrame:
    """Rows of Adult, drawn with replacement, with 0, 1 or 2 added to each number."""
    path = Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser() / "large/adult.csv.gz"
    table = pd.read_csv(path)
    rng = np.random.default_rng(seed)
    drawn = table.iloc[rng.integers(0, len(table), n_rows)].reset_index(drop=True)
    for name in drawn.select_dtypes("number"):
        drawn[name] += rng.integers(0, 3, n_rows)
    categories = drawn.select_dtypes(exclude="number").columns
    return drawn.assign(**{name: drawn[name].fillna("?") for name in categories})


def write_table(path: Path, n_rows: int, n_columns: int, missing: float | None) -> None:
    """Write rows into a file; ``missing=None`` makes all columns binary."""
    kind = np.uint8 if missing is None else np.float64
    out = np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=(n_rows, n_columns))
    for seed, begin in enumerate(range(0, n_rows, BLOCK)):
        n_here = min(BLOCK, n_rows - begin)
        if missing is None:
            out[begin : begin + BLOCK] = binary_part_of_table(n_here, n_columns, seed)
        else:
            out[begin : begin + BLOCK] = part_of_table(n_here, n_columns, missing, seed)
        out.flush()


def blocks_of(path: Path, n_rows: int) -> Iterator[np.ndarray]:
    """The first rows of a file in blocks; it is mapped anew for each, so that no page stays."""
    for begin in range(0, n_rows, BLOCK):
        yield np.array(np.load(path, mmap_mode="r")[begin : min(begin + BLOCK, n_rows)])


def numbers(n_rows: int, n_columns: int, kind: str, seed: int) -> np.ndarray:
    """Rows of numbers, sums of few factors and noise, or independent; those of other seeds have
    the same distribution."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(1_000)
    if kind == "independent":
        return rng.normal(size=(n_rows, n_columns))
    shape = max(2, n_columns // 20), n_columns
    loading = fixed.normal(size=shape) * (fixed.random(shape) < 0.15)
    factors = rng.normal(size=(n_rows, len(loading)))
    return factors @ loading + 0.7 * rng.normal(size=(n_rows, n_columns))
