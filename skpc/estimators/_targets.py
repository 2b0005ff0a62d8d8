"""Checks of targets: numbers for regressors, labels for classifiers, one for each row."""

from numbers import Number
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from skpc._arrays import Floats
from skpc._validation import check_magnitude, kinds_of_cells, missing_cells, objects_of, unmasked


def check_target(estimator: Any, y: Any, n_rows: int) -> Floats:
    """Check the numbers that a regressor learns to predict.

    Parameters
    ----------
    estimator : estimator
        Named in the error where targets are missing.
    y : array-like of shape (n_rows,)
        Finite numbers; a single column is flattened with a warning.
    n_rows : int
        How many rows there are.

    Returns
    -------
    target : ndarray of shape (n_rows,), float64

    Raises
    ------
    ValueError
        If ``y`` is None, has another length, or is not finite.
    TypeError
        If ``y`` holds dates, or other objects that are no numbers.
    """
    values = _one_for_each_row(estimator, y, n_rows)
    is_time = values.dtype.kind in "mM"
    if is_time or values.dtype == object:
        # NumPy would turn dates into numbers of nanoseconds, or of days.
        for row, cell in enumerate(values):
            if is_time or not isinstance(cell, Number | str):
                raise TypeError(
                    f"y must hold numbers; found {cell!r} of type {type(cell).__name__} in row "
                    f"{row}. Turn dates into numbers: days since the first one, for example."
                )
    # Objects and strings may hold numbers all the same; else the error names the value.
    if values.dtype.kind in "OUS":
        try:
            values = values.astype(np.float64)
        except ValueError as error:
            raise ValueError(f"y must hold numbers; {error}. Classes need a classifier.") from error
    target = check_array(values, ensure_2d=False, dtype=np.float64, input_name="y")
    check_magnitude(target, ["y"], 0)
    return target


def check_labels(estimator: Any, y: Any, n_rows: int) -> np.ndarray:
    """Check the classes that a classifier learns to predict, numbers or strings.

    Parameters
    ----------
    estimator : estimator
        Named in the error where labels are missing.
    y : array-like of shape (n_rows,)
        A single column is flattened with a warning.
    n_rows : int
        How many rows there are.

    Returns
    -------
    labels : ndarray of shape (n_rows,)

    Raises
    ------
    ValueError
        If ``y`` is None, has another length, holds NaN or infinity, or numbers of a regression.
    TypeError
        If ``y`` mixes strings and other things.
    """
    labels = _one_for_each_row(estimator, y, n_rows)
    # The kinds are those of the user's cells, as NumPy makes strings of mixed lists.
    kinds = kinds_of_cells(objects_of(y).reshape(-1).tolist())
    if kinds == {"bool"}:
        # In a column of objects, or of a dtype that can say "missing".
        labels = labels.astype(bool)
    if "string" in kinds and len(kinds) > 1:
        raise TypeError(
            "y must hold classes of one kind; found "
            f"{' and '.join(f'{kind}s' for kind in sorted(kinds))}. Convert one kind to the other."
        )
    check_classification_targets(labels)
    return labels


def _one_for_each_row(estimator: Any, y: Any, n_rows: int) -> np.ndarray:
    """The values of ``y``, no more and no fewer than there are rows."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
    y = unmasked(y)
    labels = column_or_1d(y, warn=True)
    # In a list of strings NumPy turns NaN into the string "nan".
    cells = np.asarray(y if isinstance(y, list | tuple) else labels, dtype=object)
    missing = missing_cells(cells).reshape(-1)
    if missing.any():
        raise ValueError(
            f"y contains NaN or None in row {int(missing.argmax())}. Leave the rows without y out "
            "of X and y."
        )
    assert_all_finite(labels, input_name="y")
    if len(labels) != n_rows:
        raise ValueError(
            f"X and y need the same number of rows; found {n_rows} rows in X and {len(labels)} "
            "values in y (inconsistent numbers of samples)."
        )
    return labels
