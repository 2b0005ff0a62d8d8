"""What all estimators of tables have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._validation import check_table, check_weight
from skpc.domain import Domain, LogMass, present_rows
from skpc.estimators._progress import announce


class TableEstimator(BaseEstimator):
    """An estimator that learns from tables of numbers and categories with missing cells."""

    domain_: Domain
    verbose: int

    def _training_rows(
        self,
        X: Any,
        sample_weight: Any,
        y: Any = None,
        check_y: Callable[[Any, Any, int], Any] | None = None,
        reset: bool = True,
    ) -> tuple[Any, Floats, Any]:
        """The checked table, its weights and its targets, without the rows of weight zero."""
        table = check_table(self, X, reset=reset)
        target = np.empty(len(table)) if check_y is None else check_y(self, y, len(table))
        weight = check_weight(sample_weight, len(table))
        rows, of_rows = present_rows(table, weight)
        n_columns = self.n_features_in_
        text = f"{type(self).__name__}: {len(of_rows):,} rows of {n_columns:,} columns"
        announce(text, self.verbose if reset else 0)
        return rows, of_rows, target[weight > 0.0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def _encode(self, X: Any) -> tuple[Any, Floats]:
        return self._encode_with_mass(X)[:2]

    def _encode_with_mass(self, X: Any) -> tuple[Any, Floats, LogMass]:
        """The checked table, its encoded rows, and what its cells add to their log densities."""
        check_is_fitted(self)
        table = check_table(self, X, reset=False)
        return table, *self.domain_.encode_with_mass(table)
