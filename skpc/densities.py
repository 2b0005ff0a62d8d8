"""What every density answers about encoded rows, and how a circuit answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

import skpc.queries as queries
from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.domain import Domain


class Density(Protocol):
    """A distribution of encoded rows, as a composing estimator asks it.

    Rows have shape (n_rows, n_features), with NaN where a cell is missing; missing cells are
    integrated out. Log densities are in nats. The methods that fill missing cells return rows of
    the same shape, and keep the observed cells. A class needs no import to be a density.
    """

    @property
    def domain(self) -> Domain:
        """What the columns are."""

    def log_density(self, rows: Floats, given: Any = None) -> Floats:
        """Log density of each row, or that of its other cells given some columns (numbers)."""

    def log_cells(self, rows: Floats) -> Floats:
        """Log density of each cell given the others of its row; NaN where it is missing."""

    def marginals(self, rows: Floats) -> list[Floats]:
        """Probabilities of the states of every cell, one array (n_rows, n_states) a column."""

    def means(self, rows: Floats, columns: Sequence[int] | None = None) -> Floats:
        """Fill each cell by itself: the mean of a number, the most probable state of a category.

        Only those of some columns where ``columns`` is given; the other missing cells are then
        arbitrary.
        """

    def quantiles(self, rows: Floats, levels: Sequence[float]) -> Floats:
        """Fill numbers by their quantiles, shape (n_levels, n_rows, n_features); NaN elsewhere."""

    def modes(self, rows: Floats) -> Floats:
        """Fill the missing cells of each row by those that are jointly most probable."""

    def draw(self, n_rows: int, random_state: np.random.RandomState) -> Floats:
        """Draw complete rows."""

    def draw_missing(self, rows: Floats, random_state: np.random.RandomState) -> Floats:
        """Fill the missing cells of each row by one joint draw."""


class CircuitAnswers(NamedTuple):
    """The density of a circuit over encoded rows.

    Parameters
    ----------
    circuit : Circuit
        The distribution; every answer is exact, but for modes where it is not deterministic.
    domain : Domain
        What the columns are.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.densities import CircuitAnswers
    >>> from skpc.domain import Domain
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.25, 0.75]))
    >>> density = CircuitAnswers(builder.build(), Domain.fit(np.array([[0.0], [1.0]])))
    >>> density.means(np.array([[0.0], [np.nan]]))
    array([[0.],
           [1.]])
    """

    circuit: Circuit
    domain: Domain

    def log_density(self, rows: Floats, given: Any = None) -> Floats:
        """See :class:`Density`."""
        if given is None:
            return queries.log_likelihood(self.circuit, rows)
        return queries.log_conditional(self.circuit, rows, given)

    def log_cells(self, rows: Floats) -> Floats:
        """See :class:`Density`."""
        return queries.score_cells(self.circuit, rows)

    def marginals(self, rows: Floats) -> list[Floats]:
        """See :class:`Density`."""
        return queries.marginals(self.circuit, rows)

    def means(self, rows: Floats, columns: Sequence[int] | None = None) -> Floats:
        """See :class:`Density`."""
        chosen = np.arange(rows.shape[1]) if columns is None else np.asarray(columns)
        is_category = self.domain.is_categorical[chosen]
        incomplete = np.flatnonzero(np.isnan(rows[:, chosen]).any(axis=1))
        filled, part = rows.copy(), rows
        if len(incomplete) < len(rows):
            part = rows[incomplete]
        if not is_category.all():
            mean = queries.moments(self.circuit, part)[0]
            for column in chosen[~is_category].tolist():
                filled[incomplete, column] = mean[:, column]
        if is_category.any():
            probability = queries.marginals(self.circuit, part)
            for column in chosen[is_category].tolist():
                filled[incomplete, column] = probability[column].argmax(axis=1)
        return filled

    def quantiles(self, rows: Floats, levels: Sequence[float]) -> Floats:
        """See :class:`Density`."""
        return queries.quantiles(self.circuit, rows, levels)

    def modes(self, rows: Floats) -> Floats:
        """See :class:`Density`."""
        return queries.mpe(self.circuit, rows)

    def draw(self, n_rows: int, random_state: np.random.RandomState) -> Floats:
        """See :class:`Density`."""
        return queries.sample(self.circuit, n_rows, random_state)

    def draw_missing(self, rows: Floats, random_state: np.random.RandomState) -> Floats:
        """See :class:`Density`."""
        return queries.sample_missing(self.circuit, rows, random_state)
