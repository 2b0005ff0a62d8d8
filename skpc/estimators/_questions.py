"""Questions about single cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpc._validation import frame_library
from skpc.domain import Domain
from skpc.estimators._blocks import by_blocks

__all__ = ["CellQuestions"]


class CellQuestions(ABC):
    """Questions about single cells, for densities with a ``domain_``.

    A circuit answers exactly; a mixture of all trees where ``marginals`` are exact.
    """

    domain_: Domain
    #: The checked table and its encoded rows.
    _encode: Callable[[Any], tuple[Any, np.ndarray]]
    #: Probabilities of the states of every cell, and rows with the means of missing numbers.
    _marginals: Callable[[np.ndarray], list[np.ndarray]]
    _means: Callable[[np.ndarray], np.ndarray]

    @abstractmethod
    def _surprise(self, rows: np.ndarray) -> np.ndarray:
        """Log density of each cell of encoded rows given the others."""

    @abstractmethod
    def _quantiles(self, rows: np.ndarray, levels: list[float]) -> np.ndarray:
        """Encoded rows with quantiles of the missing numbers, shape (n_levels, *rows.shape)."""

    @by_blocks
    def surprise(self, X: Any) -> Any:
        """Log density of each cell given all other observed cells of its row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            ``log p(x_j | the rest)`` in nats; missing where the cell is, or holds a category
            that is not known. A DataFrame has float columns and the names and index of ``X``. The
            lowest cell of a row is the one that makes it odd. Compare categories with each other;
            the density of a number depends on its unit.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc import CutsetNetworkBD
        >>> X = np.repeat([[0, 0, 0], [1, 1, 1]], 50, axis=0)
        >>> CutsetNetworkBD().fit(X).surprise([[1, 0, 1]]).argmin(axis=1)
        array([1])
        """
        table, rows = self._encode(X)
        return self.domain_.tabulate(self._surprise(rows), like=table)

    @by_blocks
    def interval(self, X: Any, level: float = 0.9) -> tuple[Any, Any]:
        """Bounds between which each missing number lies, given the observed cells of its row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        level : float, default=0.9
            Probability that a number lies between its bounds; it lies below them, and above them,
            with half of the rest each.

        Returns
        -------
        lower, upper : ndarray or DataFrame of shape (n_samples, n_features)
            Tables of the kind of ``X``, in original units. Observed cells are as they were; a
            missing category, which has no order, is missing in both.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc import SoftLearnSPN
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> SoftLearnSPN().fit(X).interval([[np.nan]])
        (array([[-1.6...]]), array([[1.5...]]))
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be a probability strictly between 0 and 1, got {level!r}")
        table, rows = self._encode(X)
        lower, upper = self._quantiles(rows, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return self.domain_.fill(table, lower), self.domain_.fill(table, upper)

    @by_blocks
    def predict_column(self, X: Any, column: Any) -> Any:
        """One column as the others tell it; what the rows hold in it is not looked at.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A DataFrame may lack the column altogether.
        column : int or str
            Number or name of the column.

        Returns
        -------
        ndarray or Series of shape (n_samples,)
            The posterior mean of a number, the most probable category; a Series with the dtype of
            the column where ``X`` is a DataFrame.

        Raises
        ------
        ValueError
            If there is no such column.

        Examples
        --------
        >>> from skpc import CutsetNetworkBD
        >>> X = [["sun", 30.0], ["rain", 12.0], ["sun", 28.0], ["rain", 11.0]] * 20
        >>> CutsetNetworkBD().fit(X).predict_column([[None, 29.0], [None, 10.0]], 0)
        array(['sun', 'rain'], dtype=object)
        """
        check_is_fitted(self, "domain_")
        chosen = int(self.domain_.columns([column], "column")[0])
        table, rows = self._encode(self.domain_.with_column(X, chosen))
        hidden = rows.copy()
        hidden[:, chosen] = np.nan
        states = self.domain_.categories[chosen]
        if states is None:
            hidden[:, chosen] = self._means(hidden)[:, chosen]
        else:
            hidden[:, chosen] = self._marginals(hidden)[chosen].argmax(axis=1)
        decoded = self.domain_.decode(hidden, like=table)
        library = frame_library(decoded)
        if library is None:
            return decoded[:, chosen].astype(np.float64 if states is None else states.dtype)
        return decoded.iloc[:, chosen] if library == "pandas" else decoded.to_series(chosen)
