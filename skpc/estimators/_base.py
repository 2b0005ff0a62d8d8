"""What all estimators of densities have in common, and those with a circuit inside."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from skpc._validation import check_table, check_weight
from skpc.circuit import Circuit
from skpc.domain import Domain, merge_rows, present_rows
from skpc.estimators._blocks import MergedRows, by_blocks, noted, representatives
from skpc.estimators._questions import CellQuestions
from skpc.queries import (
    log_conditional,
    log_likelihood,
    marginals,
    moments,
    mpe,
    quantiles,
    sample,
    sample_missing,
    score_cells,
)

__all__ = ["CircuitDensity", "TableDensity", "all_or_nothing", "hold_out"]

_STRATEGIES = ("mean", "mpe", "sample")


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Put an estimator back to what it was if its ``fit`` fails or is interrupted."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def hold_out(
    rows: np.ndarray, weight: np.ndarray, share: float, random_state: np.random.RandomState
) -> tuple[Any, ...]:
    """Rows and weights for learning, and those held out: None where that would be all or nothing.

    A row of weight n is dealt with as n rows of weight one: a part of its weight is held out.
    """
    copies = np.ceil(weight)
    held = weight * (random_state.binomial(copies.astype(np.int64), share) / copies)
    kept = weight - held
    if not (held > 0).any() or not (kept > 0).any():
        return rows, weight, None, None
    return rows[kept > 0], kept[kept > 0], rows[held > 0], held[held > 0]


def _some_cell(rows: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out the rows without any cell."""
    some = ~np.isnan(rows).all(axis=1)
    return rows[some], weight[some]


class TableDensity(CellQuestions, DensityMixin, BaseEstimator, ABC):
    """Density estimation on tables of numbers and categories.

    A subclass learns ``domain_`` and a distribution of encoded rows in ``fit``, from the rows that
    :meth:`_prepare` returns; it answers for that distribution in the methods without a body.
    """

    domain_: Domain

    def _prepare(
        self, X: Any, sample_weight: Any, n_bins: int | None
    ) -> tuple[Domain, np.ndarray, np.ndarray]:
        """Learn the domain; return it with the distinct encoded rows and their weights.

        Rows without any cell are left out.
        """
        table = check_table(self, X, reset=True)
        table, weight = present_rows(table, check_weight(sample_weight, len(table)))
        domain = Domain.fit(
            table,
            categorical_features=self.categorical_features,
            categories=self.categories,
            n_bins=n_bins,
            sample_weight=weight,
            handle_unknown=self.handle_unknown,
        )
        return domain, *_some_cell(*merge_rows(domain.encode(table), weight))

    def _prepare_blocks(
        self, blocks: Iterator[Any], n_bins: int
    ) -> tuple[Domain, np.ndarray, np.ndarray]:
        """The same from blocks of rows, of which the first tells the domain.

        Numbers are those that stand for their bins, so that rows repeat and can be counted.
        """
        merged = MergedRows()
        domain, unknown = None, ""
        for number, block in enumerate(blocks):
            with noted(f"This is in block {number} of the iterator, counted from 0."):
                if not len(block):
                    continue
                if domain is None:
                    domain, rows, weight = self._prepare(block, None, n_bins)
                else:
                    rows, found = self._encode_block(domain, block)
                    weight = np.ones(len(rows))
                    unknown = unknown or (found and f"{found} (Row of block {number}.)")
                merged.add(representatives(domain, rows), weight)
        if domain is None:
            raise ValueError("An iterator of blocks needs at least one block of rows; found none.")
        if unknown:
            message = f"Categories that are not in the first block count as missing. {unknown}"
            warnings.warn(message, stacklevel=2)
        return domain, *_some_cell(*merged.result())

    def _encode_block(self, domain: Domain, block: Any) -> tuple[np.ndarray, str]:
        """The encoded rows of a block, and what is said of a category that is not known."""
        table = check_table(self, block, reset=False)
        try:
            return replace(domain, handle_unknown="error").encode(table), ""
        except ValueError as error:
            return domain.encode(table), str(error)

    def _encode(self, X: Any) -> tuple[Any, np.ndarray]:
        """The checked table and its encoded rows."""
        check_is_fitted(self, "domain_")
        table = check_table(self, X, reset=False)
        return table, self.domain_.encode(table)

    @by_blocks
    def score_samples(self, X: Any, given: Any = None) -> np.ndarray:
        """Log density of each row, with missing cells integrated out.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        given : array-like, int or str, default=None
            Columns that are known: a name, a number, a list of them, or a boolean mask. The density
            is that of the other columns given these. None means that of all columns.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log densities in nats, with respect to the counting measure on categories and the
            Lebesgue measure on numbers. A row with every cell missing has 0.

        Raises
        ------
        ValueError
            If ``given`` names a column that is not there.
        """
        _, rows = self._encode(X)
        if given is None:
            return self._log_likelihood(rows)
        return self._log_conditional(rows, self.domain_.columns(given, "given"))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.

        Returns
        -------
        float
            Nats per row; greater is better.
        """
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw rows from the fitted distribution.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same rows. ``None`` draws anew at each call; the estimator's
            own ``random_state`` is not used.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            Complete rows in original units; a DataFrame with the original names and dtypes where
            the estimator was fitted on one.
        """
        check_is_fitted(self, "domain_")
        return self.domain_.decode(self._sample(n_samples, random_state))

    def marginals(self, X: Any) -> list[np.ndarray]:
        """Posterior distribution of every cell given the observed cells of its row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        list of ndarray
            One array of shape (n_samples, n_states) a column: the probabilities of its categories
            (``domain_.categories``), or of the bins of a numeric column between its two tails
            (``domain_.axes``); none for a numeric column without bins, whose mean ``complete``
            gives. An observed cell has probability one for its own state.
        """
        _, rows = self._encode(X)
        return self._marginals(rows)

    @by_blocks
    def complete(self, X: Any, strategy: str = "mean", random_state: Any = None) -> Any:
        """Fill the missing cells of each row given its observed ones, which stay as they are.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        strategy : {"mean", "mpe", "sample"}, default="mean"
            "mean": the posterior mean of a number, the most probable state of a category, each
            cell by itself. "mpe": the jointly most probable completion; with numeric columns it
            depends on their units. "sample": one joint draw a row.
        random_state : int, RandomState instance or None, default=None
            Used by "sample".

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            The rows in original units, of the same kind as ``X``.

        Raises
        ------
        ValueError
            If the strategy is none of the three.
        """
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy must be one of {_STRATEGIES}, got {strategy!r}")
        table, rows = self._encode(X)
        if strategy == "mean":
            filled = self._expected_rows(rows)
        elif strategy == "mpe":
            filled = self._mpe(rows)
        else:
            filled = self._sample_missing(rows, random_state)
        return self.domain_.fill(table, filled)

    def _expected_rows(self, rows: np.ndarray) -> np.ndarray:
        """Posterior means of the numbers, most probable states of the categories."""
        incomplete = np.isnan(rows).any(axis=1)
        categorical = self.domain_.is_categorical
        filled, part = rows.copy(), rows[incomplete]
        if not categorical.all():
            part = np.where(categorical, part, self._means(part))
        if categorical.any():
            prob = self._marginals(rows[incomplete])
            for column in np.flatnonzero(categorical):
                part[:, column] = prob[column].argmax(axis=1)
        filled[incomplete] = part
        return filled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    @abstractmethod
    def _log_likelihood(self, rows: np.ndarray) -> np.ndarray:
        """Log density of encoded rows, missing cells integrated out."""

    @abstractmethod
    def _log_conditional(self, rows: np.ndarray, given: np.ndarray) -> np.ndarray:
        """Log density of the other cells of encoded rows, given those of some columns."""

    @abstractmethod
    def _marginals(self, rows: np.ndarray) -> list[np.ndarray]:
        """Probabilities of the states of every cell, one array a column."""

    @abstractmethod
    def _means(self, rows: np.ndarray) -> np.ndarray:
        """Encoded rows with the posterior means of the missing numbers."""

    @abstractmethod
    def _mpe(self, rows: np.ndarray) -> np.ndarray:
        """Encoded rows with a jointly most probable completion."""

    @abstractmethod
    def _sample(self, n_samples: int, random_state: Any) -> np.ndarray:
        """Encoded rows, drawn."""

    @abstractmethod
    def _sample_missing(self, rows: np.ndarray, random_state: Any) -> np.ndarray:
        """Encoded rows with a joint draw of the missing cells."""


class CircuitDensity(TableDensity):
    """Density estimation by a circuit over encoded rows, which a subclass learns."""

    circuit_: Circuit

    def _log_likelihood(self, rows: np.ndarray) -> np.ndarray:
        return log_likelihood(self.circuit_, rows)

    def _log_conditional(self, rows: np.ndarray, given: np.ndarray) -> np.ndarray:
        return log_conditional(self.circuit_, rows, given)

    def _marginals(self, rows: np.ndarray) -> list[np.ndarray]:
        return [
            np.empty((len(rows), 0)) if p is None else p for p in marginals(self.circuit_, rows)
        ]

    def _means(self, rows: np.ndarray) -> np.ndarray:
        return moments(self.circuit_, rows)[0]

    def _surprise(self, rows: np.ndarray) -> np.ndarray:
        return score_cells(self.circuit_, rows)

    def _quantiles(self, rows: np.ndarray, levels: list[float]) -> np.ndarray:
        return quantiles(self.circuit_, rows, levels)

    def _mpe(self, rows: np.ndarray) -> np.ndarray:
        return mpe(self.circuit_, rows)

    def _sample(self, n_samples: int, random_state: Any) -> np.ndarray:
        return sample(self.circuit_, n_samples, random_state)

    def _sample_missing(self, rows: np.ndarray, random_state: Any) -> np.ndarray:
        return sample_missing(self.circuit_, rows, random_state)
