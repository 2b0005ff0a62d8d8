"""What estimators have in common: parameters, tables, and how densities learn from these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Self, TypeVar

import joblib
import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._fitting import all_or_nothing, announce, with_some_cell
from skpc._validation import N_JOBS, StrOptions, check_table, check_weight, fit_context
from skpc._warnings import warn
from skpc.domain import Domain, LogMass, merge_rows, present_rows
from skpc.estimators.chunks import EncodedChunks, sampled

#: Parameters that say what the columns are.
DECLARATIONS = (
    "categorical_features",
    "categories",
    "margins",
    "atoms",
    "bounds",
    "handle_unknown",
)
#: Largest number of bins of a numeric column where the user does not give one.
_N_BINS = {"auto": 20, "plain": 10}
#: Which columns are categorical.
CATEGORICAL_FEATURES = ("array-like", StrOptions({"auto", "from_dtype"}), None)
_T = TypeVar("_T")


def parameter(default: _T, *constraints: Any) -> _T:
    """A parameter of an estimator: its default, and what it may be, as scikit-learn says it."""
    return field(default=default, metadata={"constraints": constraints})


class Estimator(BaseEstimator):
    """An estimator whose parameters are the fields of a dataclass, which makes its ``__init__``.

    A subclass is decorated by ``dataclass``; its parameters are made by :func:`parameter`.
    """

    @property
    def _parameter_constraints(self) -> dict[str, Any]:
        # Parameters without constraints, such as estimators, are checked in fit.
        of_fields = {each.name: each.metadata.get("constraints") for each in fields(self)}
        return {name: of_fields.get(name) or "no_validation" for name in self._get_param_names()}

    def __dask_tokenize__(self) -> str:
        # dask takes dataclasses for their fields alone, and would not see what has been learned.
        return str(joblib.hash(self))


@dataclass(kw_only=True, eq=False, repr=False)
class TableEstimator(Estimator):
    """An estimator that learns from tables of numbers and categories with missing cells."""

    random_state: Any = parameter(None, "random_state")
    n_jobs: int | None = parameter(None, *N_JOBS)
    verbose: int = parameter(0, "verbose")

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


class TrainingData(NamedTuple):
    """What a density learns from.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Distinct encoded rows.
    weight : ndarray of shape (n_rows,)
        Their weights.
    rows_val : ndarray of shape (n_validation_rows, n_features) or None
        Encoded rows that make choices; None holds out some of the training rows.
    like : TableDensity or None
        A fitted density of the same kind, whose choices hold here too.
    is_compared : bool
        Whether the density will be compared with others under the same domain.
    """

    rows: Floats
    weight: Floats
    rows_val: Floats | None = None
    like: Any = None
    is_compared: bool = True


@dataclass(kw_only=True, eq=False, repr=False)
class TableLearner(TableEstimator, ABC):
    """An estimator that learns a density of encoded rows, from a table or from rows like these."""

    categorical_features: Any = parameter("auto", *CATEGORICAL_FEATURES)
    categories: Any = parameter("auto", StrOptions({"auto"}), list)
    atoms: Any = parameter("auto", StrOptions({"auto"}), dict)
    bounds: Any = parameter(None, dict, None)
    handle_unknown: str = parameter("unseen", StrOptions({"unseen", "missing", "error"}))

    #: Weight of the rows that have been learned from: partial_fit goes on from here.
    _n_learned: float = field(init=False)

    @property
    def _n_bins(self) -> int | None:
        """Largest number of bins of a numeric column; None where the learner needs no bins."""
        if not hasattr(self, "n_bins"):
            return None
        return self.n_bins or _N_BINS[self.margins]

    @abstractmethod
    def _learn(self, data: TrainingData) -> None:
        """Learn from encoded rows under ``domain_``."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, X_val: Any = None) -> Self:
        """Learn from a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or its chunks
            Numbers and categories; NaN (or None) marks missing cells. Chunks: :ref:`large_tables`.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.
        X_val : array-like or DataFrame of shape (n_validation_samples, n_features), default=None
            Rows whose likelihood makes the choices, and says when to stop. None holds out some rows
            of ``X``. In a ``Pipeline`` name it in ``transform_input``, or it comes untransformed.

        Returns
        -------
        TableDensity
            The fitted estimator.

        Raises
        ------
        ValueError
            If all cells are missing, one is infinite, the weights are negative, all zero, or those
            of chunks, or there are more components than rows.
        """
        return self._fit(X, sample_weight, X_val)

    def _fit(self, X: Any, sample_weight: Any, X_val: Any = None) -> Self:
        with all_or_nothing(self):
            X, chunks = sampled(self, X, sample_weight)
            domain, rows, weight = self._prepare(X, sample_weight)
            if X_val is not None:
                X_val = domain.encode(check_table(self, X_val, reset=False))
            self._learn_rows(domain, TrainingData(rows, weight, X_val, is_compared=False))
            if chunks is not None:
                self._refit(EncodedChunks.from_sampled(chunks, domain, self.n_jobs), rows, weight)
        return self

    def _refit(self, chunks: EncodedChunks, rows: Floats, weight: Floats) -> Any:
        """Learn the parameters from all rows of a table that comes in chunks.

        ``rows`` are the sample of it that the structure has been learned from. A subclass that can
        do nothing with the others keeps what the sample says.
        """
        n_rows = f"{weight.sum():,.0f} of the {chunks.n_rows:,.0f} rows that come in chunks"
        warn(f"{type(self).__name__} learns from a sample of {n_rows}.")

    def _prepare(self, X: Any, sample_weight: Any) -> tuple[Domain, Floats, Floats]:
        """Learn the domain; return it with the distinct encoded rows and their weights."""
        table, weight, _ = self._training_rows(X, sample_weight)
        declared = {name: getattr(self, name) for name in DECLARATIONS}
        domain = Domain.fit(table, sample_weight=weight, n_bins=self._n_bins, **declared)
        return domain, *merge_rows(domain.encode(table), weight)

    def _learn_rows(self, domain: Domain, data: TrainingData) -> None:
        """Learn from checked rows; those without any cell that a learner sees are left out."""
        self.domain_, self.n_features_in_ = domain, domain.n_features
        names = domain.feature_names or ()
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._n_learned = float(data.weight.sum())
        rows, weight = with_some_cell(domain, *present_rows(data.rows, data.weight))
        self._learn(data._replace(rows=rows, weight=weight))

    def _learn_more(self, X: Any, sample_weight: Any) -> tuple[Floats, Floats]:
        """More rows of the columns that are known: distinct encoded rows and their weights."""
        table, weight, _ = self._training_rows(X, sample_weight, reset=False)
        rows, weight = merge_rows(self.domain_.encode_with_mass(table)[0], weight)
        rows, weight = with_some_cell(self.domain_, rows, weight)
        if not len(rows):
            raise ValueError(
                "Every value of X is missing, or a category that fit has not seen; learning needs "
                "at least one known value."
            )
        return rows, weight

    def _fit_again(self, domain: Domain, rows: Floats, weight: Floats) -> Self:
        """A clone that has learned from other rows, with what this one has chosen, if anything."""
        again = clone(self)
        again._learn_rows(domain, TrainingData(rows, weight, like=self))
        return again

    @fit_context(prefer_skip_nested_validation=False)
    def fit_rows(
        self, domain: Domain, rows: Floats, weight: Floats, rows_val: Floats | None = None
    ) -> Self:
        """Learn from encoded rows under a domain that is known: ``fit`` for composing estimators.

        Several densities can share one domain. The parameters that say what the columns are
        (``categorical_features``, ``categories``, ``n_bins``, ``margins`` and so on) do not matter.

        Parameters
        ----------
        domain : Domain
            What the columns are, with bins for the numeric ones (``n_bins``) where the learner
            needs these.
        rows : ndarray of shape (n_rows, n_features)
            Distinct encoded rows, as :func:`skpc.domain.merge_rows` returns them; NaN marks
            missing cells.
        weight : ndarray of shape (n_rows,)
            Their weights, not negative; a row of weight zero is absent.
        rows_val : ndarray of shape (n_validation_rows, n_features), default=None
            Encoded rows of weight one for early stopping, where the learner stops early. None holds
            out some of the training rows.

        Returns
        -------
        TableDensity
            The fitted estimator.

        Raises
        ------
        ValueError
            If rows and weights do not fit the domain or each other, a category is no code of a
            state, a number or a weight is not finite, or the domain lacks bins.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc import CutsetNetworkBD
        >>> from skpc.domain import Domain, merge_rows
        >>> X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0)
        >>> domain = Domain.fit(X, n_bins=10)
        >>> rows, weight = merge_rows(domain.encode(X), np.ones(100))
        >>> model = CutsetNetworkBD().fit_rows(domain, rows, weight)
        >>> model.predict_column([[1.0, np.nan]], 1)
        array([1.])
        """
        rows = domain.checked(rows)
        weight = check_weight(weight, len(rows), "weight")
        rows_val = None if rows_val is None else domain.checked(rows_val)
        with all_or_nothing(self):
            self._learn_rows(domain, TrainingData(rows, weight, rows_val))
        return self
