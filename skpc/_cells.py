"""Rows of numbers, which cells of a checked table are missing, and estimators of such tables."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin

from skpc._arrays import Bools, Floats
from skpc._validation import (
    column_of,
    frame_library,
    mean_score,
    missing_cells,
    objects_of,
    unmasked,
)


def rows_of_numbers(X: Any, n_columns: int | None = None, name: str = "X") -> Floats:
    """Encoded rows, as queries, kernels and factor graphs take them: float64, C-contiguous."""
    try:
        # numpy would drop the imaginary parts with no more than a warning.
        if np.iscomplexobj(X):
            raise ValueError("found complex numbers")
        # Masked cells become NaN before the conversion, which would show what is below the mask.
        rows = np.ascontiguousarray(unmasked(X), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold encoded rows of numbers ({error}); a fitted estimator has a "
            "circuit_, and its domain_.encode(table) makes such rows"
        ) from error
    if rows.ndim != 2 or n_columns not in (None, rows.shape[1]):
        raise ValueError(
            f"{name} must have shape (n_rows, {n_columns or 'n_features'}), got {np.shape(X)}; "
            "NaN marks missing cells"
        )
    return rows


def missing_in(table: Any) -> Bools:
    """Which cells of a checked table are missing, shape (n_rows, n_features)."""
    columns = range(table.shape[1])
    return np.column_stack([missing_cells(objects_of(column_of(table, c))) for c in columns])


def without_cells(table: Any, cells: Bools) -> Any:
    """A copy of a table in which these cells are missing: NaN, or what its columns have for it."""
    library = frame_library(table)
    # Each library marks missing cells in its own way, and changes dtypes where it must.
    if library == "pandas":
        return table.mask(cells)
    if library == "polars":
        return table.with_columns(
            # A series of nulls of the same dtype takes the place of the cells.
            series.zip_with(type(series)(~empty), series.clear(len(series)))
            for series, empty in zip(table.get_columns(), cells.T)
        )
    # Integers and bools have no missing value: they become floats.
    copy = table.astype(table.dtype if table.dtype.kind in "OmM" else np.float64)
    copy[cells] = None if copy.dtype.kind in "OmM" else np.nan
    return copy


def with_cells_of(table: Any, cells: Bools, other: Any) -> Any:
    """A copy of a table that has these cells from another of its kind."""
    library = frame_library(table)
    if library == "pandas":
        return table.mask(cells, other)
    if library == "polars":
        pairs = zip(table.get_columns(), other.get_columns(), cells.T)
        return table.with_columns(
            column.zip_with(type(column)(~is_replaced), replacement)
            for column, replacement, is_replaced in pairs
        )
    return np.where(cells, other, table)


class TakesGaps(BaseEstimator):
    """An estimator of tables of numbers and categories whose cells may be missing."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


class ScoredRows(DensityMixin, TakesGaps):
    """A density of such tables, which scores their rows."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log density of the rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the mean.

        Returns
        -------
        float
            Nats per row; greater is better.

        Raises
        ------
        ValueError
            If the weights are negative or all zero.
        """
        return mean_score(self.score_samples(X), sample_weight)
