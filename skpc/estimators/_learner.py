"""How densities learn from tables: whole, in chunks of rows, or with cells known as ranges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skpc._arrays import Floats, Ints
from skpc._fitting import Rows, all_or_nothing, with_some_cell
from skpc._validation import check_table, check_weight, fit_context
from skpc._warnings import warn
from skpc.domain import Domain, canonical_order, merge_rows, present_rows
from skpc.domain.stated import holds_ranges, is_stated
from skpc.estimators._estimator import ColumnsEstimator
from skpc.estimators._ranges import copied_rows, domain_and_events, drawn_by_column, merged_events
from skpc.estimators._table_chunks import EncodedChunks, TableChunks
from skpc.learning.held_out import hold_out
from skpc.learning.range_draws import draws_given_rows
from skpc.queries import Events
from skpc.variables.censored import even_draws

#: Rows in memory that are counted at a time.
_ROWS = 2**16


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
    """

    rows: Floats
    weight: Floats
    rows_val: Floats | None = None
    like: Any = None

    def sampled(self, most_rows: float) -> Self:
        """Some of the rows, always the same ones, where there are more than some number."""
        if len(self.rows) <= most_rows:
            return self
        drawn = np.random.RandomState(0).permutation(len(self.rows))[: int(most_rows)]
        # Sorted, so that the sample has its rows in the order of all.
        drawn.sort()
        return self._replace(rows=self.rows[drawn], weight=self.weight[drawn])

    def divided(self, fraction: float, random_state: np.random.RandomState) -> tuple[Any, ...]:
        """Rows and weights to learn from, and those that make choices: None where too few."""
        if self.rows_val is None:
            return hold_out(self.rows, self.weight, fraction, random_state)
        return self.rows, self.weight, self.rows_val, np.ones(len(self.rows_val))


class TableLearner(ColumnsEstimator, ABC):
    """An estimator that learns a density of encoded rows, from a table or from rows like these."""

    #: Whether columns are put into an order; the members of a pool do that themselves.
    _orders_columns: ClassVar[bool] = True
    #: Of more distinct rows, a sample of this size tells the structure, and all the parameters.
    _most_rows: ClassVar[float] = np.inf

    @abstractmethod
    def _learn(self, data: TrainingData) -> Any:
        """Learn from encoded rows under ``domain_``; what is returned, ``_refit`` goes on from."""

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
            chunks = TableChunks.from_table(X)
            is_whole = True
            if chunks is not None:
                if sample_weight is not None:
                    raise ValueError(
                        "sample_weight needs a table in memory, but X comes in chunks. Leave it "
                        "out, or pass the whole table."
                    )
                # A sample tells the columns and the structure; parameters need all chunks.
                X, is_whole = chunks.sample(self)
            intervals = self.interval_columns
            if self._takes_ranges and chunks is None and holds_ranges(X, intervals):
                if X_val is not None:
                    raise ValueError(
                        "X_val goes with values alone; found ranges or sets in X. Leave it out."
                    )
                return self._fit_ranges(X, sample_weight)
            domain, rows, weight = self.prepare(X, sample_weight)
            if X_val is not None:
                X_val = domain.encode(check_table(self, X_val, reset=False))
            more_rows = None
            # A sample that is the whole table leaves nothing to read.
            if chunks is not None and not is_whole:
                more_rows = EncodedChunks(chunks, domain, self.n_jobs, float(chunks.n_rows))
            self._learn_rows(domain, TrainingData(rows, weight, X_val), more_rows)
        return self

    @property
    def interval_columns(self) -> list[int]:
        """The columns whose declared categories are intervals, which are values there."""
        categories = getattr(self, "categories", "auto")
        if isinstance(categories, str):
            return []
        return [
            place
            for place, states in enumerate(categories)
            if states is not None and len(states) and is_stated(states[0])
        ]

    def _fit_ranges(self, X: Any, sample_weight: Any) -> Self:
        """Learn from a table with ranges and sets; see :mod:`skpc.estimators._ranges`."""
        random_state = check_random_state(self.random_state)
        table, weight, _ = self._training_rows(X, sample_weight)
        domain, events = domain_and_events(
            table,
            weight,
            self.interval_columns,
            random_state,
            lambda *rows: self.prepare(*rows)[0],
        )
        return self.fit_events(domain, events, weight)

    def fit_events(self, domain: Domain, events: Events, weight: Floats) -> Self:
        """Learn from encoded rows with ranges and sets, as :meth:`fit_rows` does from others.

        Parameters
        ----------
        domain : Domain
            What the columns are.
        events : Events
            The rows.
        weight : ndarray of shape (n_events,)
            Positive.

        Returns
        -------
        TableDensity
            The fitted estimator.
        """
        random_state = check_random_state(self.random_state)
        # Draws follow the order of columns and rows: it must not depend on that of the table.
        columns = np.arange(domain.n_features)
        if self._orders_columns:
            columns = canonical_order(events.rows, weight, domain.is_categorical).columns
        domain = domain.taken(columns)
        events, weight, _ = merged_events(events.with_columns(columns), weight)
        copied, weight = copied_rows(weight, np.diff(events.ptr) > 0)
        events = events.take(copied)
        # First by the law of each column, then given what else is known of the row.
        rows = drawn_by_column(domain, events, weight, random_state)
        rows = draws_given_rows(domain, events, rows, weight, random_state)
        # Bins are laid over the draws that densities learn from.
        domain = domain.with_axes_of(rows, weight, self.bins_wanted)
        self._learn_rows(domain, TrainingData(*merge_rows(rows, weight)))
        stated = np.unique(events.column).tolist()
        sets = [place for place in stated if domain[place].states is not None]
        for place in sets:
            # The law of a column knows nothing of the rest of a row; what has been learned does.
            is_place = np.arange(domain.n_features) == place
            set_events = events.only(is_place)
            # The rows that have a set in this column.
            index = np.flatnonzero(np.diff(set_events.ptr))
            # Of this column the set alone is known, of the others what fills them now.
            given = np.where(is_place, np.nan, rows)
            known = set_events.with_cells(given).take(index)
            (cells,) = self.row_density.posteriors(known, [place])
            rows[index, place] = even_draws(cells.probabilities, random_state)
        if sets:
            self._learn_rows(domain, TrainingData(*merge_rows(rows, weight)))
        # Back into the order of the table.
        self._take_columns(np.argsort(columns))
        return self

    def _refit(
        self,
        data: Rows | EncodedChunks,
        sample: TrainingData,
        learned: Any,  # noqa: ARG002
    ) -> Any:
        """Learn the parameters from all rows of a large table, in memory or in chunks.

        The structure has been learned from a sample of them, which has ``learned`` something; all
        have the columns in the order of learning. A subclass that can do nothing with the others
        keeps what the sample says.
        """
        n_rows = f"{sample.weight.sum():,.0f} of the {data.n_rows:,.0f} rows that come in chunks"
        warn(f"{type(self).__name__} learns from a sample of {n_rows}.")

    def prepare(self, X: Any, sample_weight: Any) -> tuple[Domain, Floats, Floats]:
        """Learn what the columns are: what :meth:`fit_rows` learns from.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the rows.

        Returns
        -------
        domain : Domain
        rows : ndarray of shape (n_distinct_rows, n_features)
            Distinct encoded rows.
        weight : ndarray of shape (n_distinct_rows,)
            Their weights.
        """
        table, weight, _ = self._training_rows(X, sample_weight)
        domain = self._domain_of(table, weight)
        return domain, *merge_rows(domain.encode(table), weight)

    def _learn_rows(
        self, domain: Domain, data: TrainingData, more_rows: EncodedChunks | None = None
    ) -> None:
        """Learn from checked rows with some cell, in the order of their contents.

        The parameters are those of ``more_rows``, if there are any, of which ``data`` is a sample.
        """
        # The weight of the rows that have been learned from: partial_fit goes on from here.
        self._n_learned = float(data.weight.sum())
        present = present_rows(data.rows, data.weight)
        rows, weight = with_some_cell(domain, *present)
        order = canonical_order(rows, weight, domain.is_categorical)
        columns = np.arange(domain.n_features)
        if self._orders_columns:
            # The choices of a like density belong to its order of the columns.
            columns = order.columns if data.like is None else data.like._order
        rows_val = None if data.rows_val is None else data.rows_val.take(columns, axis=1)
        rows = rows[order.rows]
        weight = weight[order.rows]
        sample = data._replace(rows=rows, weight=weight).sampled(self._most_rows)
        self._take_domain(domain.taken(columns))
        # As long as it learns, the order of the columns is its own; in the end it is the table's.
        # The columns of the table in the order in which they were learned from.
        self._order: Ints = np.arange(len(columns))
        in_order = sample._replace(rows=sample.rows.take(columns, axis=1), rows_val=rows_val)
        learned = self._learn(in_order)
        # The structure comes from a sample, the parameters come from all rows.
        if more_rows is not None or len(sample.rows) < len(rows):
            all_rows = (more_rows or Rows(rows, weight, _ROWS)).taken(columns)
            self._refit(all_rows, in_order, learned)
            self._n_learned = all_rows.n_rows
        self._take_columns(np.argsort(columns))

    def reordered(self, order: Ints) -> Self:
        """A copy that takes the columns of a table in another order.

        Parameters
        ----------
        order : ndarray of shape (n_features,), int
            Numbers of the columns so far.

        Returns
        -------
        TableDensity
        """
        again = copy(self)
        again._take_columns(order)
        return again

    def _take_columns(self, order: Ints) -> None:
        """Put the columns of what has been learned into another order."""
        self._take_domain(self.domain_.taken(order))
        # The inverse says where each column stands now.
        self._order = np.argsort(order)[self._order]

    def _take_domain(self, domain: Domain) -> None:
        """Know the columns, and their names if all of these are strings."""
        self.domain_ = domain
        self.n_features_in_ = domain.n_features
        names = domain.feature_names or ()
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            # Names of an earlier fit must not stay.
            del self.feature_names_in_

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

    def refit(self, domain: Domain, rows: Floats, weight: Floats) -> Self:
        """A clone that learns from encoded rows, with the choices of this one if it is fitted.

        Parameters
        ----------
        domain, rows, weight
            As in :meth:`fit_rows`.

        Returns
        -------
        TableDensity
        """
        again = clone(self)
        if not hasattr(self, "domain_"):
            return again.fit_rows(domain, rows, weight)
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
        rows = domain.check_encoded(rows)
        weight = check_weight(weight, len(rows), "weight")
        rows_val = None if rows_val is None else domain.check_encoded(rows_val)
        with all_or_nothing(self):
            self._learn_rows(domain, TrainingData(rows, weight, rows_val))
        return self
