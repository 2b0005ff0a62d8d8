"""Tables for regression under missing features, and how cells are removed from them.

A binned table is a file ``regression/NAME.npz`` of the folder SKPC_DATA. For each part ("train",
"valid" and "test") it has ``PART_x``, one-hot columns packed by ``numpy.packbits(..., axis=1)``,
and ``PART_y``, the targets; ``n_features`` is the number of one-hot columns, and ``groups`` the
number of the feature that each belongs to.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes

#: Binned tables of the paper, and sets that need no file.
BINNED = ("abalone", "delta-ailerons", "insurance", "elevators")
NUMERIC = ("diabetes", "synthetic")


class Table(NamedTuple):
    """Encoded features with the target in standard deviations of the training rows.

    ``scale`` is that standard deviation; ``bits`` are the one-hot columns of each part, with the
    number of the feature that each belongs to in ``groups``.
    """

    X: dict[str, np.ndarray]
    y: dict[str, np.ndarray]
    scale: float
    categorical: np.ndarray
    bits: dict[str, np.ndarray]
    groups: np.ndarray


def file_of(name: str) -> Path:
    return Path(os.environ["SKPC_DATA"]) / "regression" / f"{name}.npz"


def present() -> list[str]:
    """The binned tables whose file is in the folder."""
    return sorted(path.stem for path in file_of("any").parent.glob("*.npz"))


def read(name: str) -> Table:
    is_binned = name not in NUMERIC
    X, y, bits, groups = _read_bits(name) if is_binned else _read_numbers(name)
    mean, scale = y["train"].mean(), float(y["train"].std())
    y = {part: (target - mean) / scale for part, target in y.items()}
    categorical = np.full(X["train"].shape[1], is_binned)
    return Table(X, y, scale, categorical, bits, groups)


def removed(shape: tuple[int, ...], rate: float, seed: int) -> np.ndarray:
    """Which cells are missing: each with the same probability, whatever it holds."""
    return np.random.default_rng([seed, int(1000 * rate)]).random(shape) < rate


def features_of(bits: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The feature behind each group of one-hot columns; NaN where no bit of it is seen to be 1."""
    columns = []
    for feature in range(groups.max() + 1):
        ones = np.nan_to_num(bits[:, groups == feature])
        columns.append(np.where(ones.any(axis=1), ones.argmax(axis=1), np.nan))
    return np.column_stack(columns)


def _read_bits(name: str):
    data = np.load(file_of(name))
    groups, n_bits = data["groups"], int(data["n_features"])
    bits, X, y = {}, {}, {}
    for part in ("train", "valid", "test"):
        bits[part] = np.unpackbits(data[f"{part}_x"], axis=1, count=n_bits).astype(float)
        X[part], y[part] = features_of(bits[part], groups), data[f"{part}_y"]
    return X, y, bits, groups


def _read_numbers(name: str):
    X, y = load_diabetes(return_X_y=True) if name == "diabetes" else _synthetic()
    order = np.random.default_rng(0).permutation(len(X))
    cuts = (np.array([0.6, 0.8]) * len(X)).astype(int)
    parts = dict(zip(("train", "valid", "test"), np.split(order, cuts)))
    mean, sd = X[parts["train"]].mean(axis=0), X[parts["train"]].std(axis=0)
    scaled = {part: (X[rows] - mean) / sd for part, rows in parts.items()}
    groups = np.arange(X.shape[1])
    return scaled, {part: y[rows] for part, rows in parts.items()}, scaled, groups


def _synthetic(n_rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Eight correlated numbers with heavy tails, and a target that bends."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(n_rows, 3))
    X = factors @ rng.normal(size=(3, 8)) + 0.5 * rng.standard_t(5, size=(n_rows, 8))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 3 + np.abs(X[:, 3]) + 0.3 * rng.normal(size=n_rows)
    return X, y
