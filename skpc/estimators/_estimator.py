"""What estimators have in common, and those of tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._fitting import announce
from skpc._validation import N_JOBS, check_table, check_weight
from skpc.domain import Domain, LogMass, present_rows


class Estimator(BaseEstimator):
    """An estimator whose parameters are the fields of a dataclass, which makes its ``__init__``.

    A subclass is decorated by ``dataclass``, and its parameters are checked by
    ``_parameter_constraints``.
    """

    def __dask_tokenize__(self) -> str:
        # dask takes dataclasses for their fields alone, and would not see what has been learned.
        return str(joblib.hash(self))


@dataclass(kw_only=True, eq=False, repr=False)
class TableEstimator(Estimator):
    """An estimator that learns from tables of numbers and categories with missing cells."""

    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "random_state": ["random_state"],
        "n_jobs": N_JOBS,
        "verbose": ["verbose"],
    }

    domain_: Domain = field(init=False)

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
