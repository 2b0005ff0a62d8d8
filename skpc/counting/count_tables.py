"""Count tables of conditional distributions, flat and sparse."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets


class CountTables(NamedTuple):
    """Weighted counts of a collection of variables, each given a parent.

    A table lists the cells that may have been seen; a cell that is not listed has count zero.
    The table of a variable without a parent has one row, as if its parent had one state.

    Parameters
    ----------
    ptr : array of shape (m + 1,)
        The cells of table i are ``ptr[i] .. ptr[i + 1]``.
    parent_state, state : array of shape (n_cells,)
        Row and column of each cell: state of the parent and of the variable, int64.
    weight : array of shape (n_cells,)
        Weight of the rows of data in each cell.
    n_parent_states, n_states : array of shape (m,)
        Numbers of rows and of columns of each table, int64.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.counting import CountTables
    >>> tables = CountTables.of_states(np.array([3.0, 1.0]))
    >>> np.exp(tables.log_probabilities(np.array([1.0]))[0]).round(3)
    array([[0.667, 0.333]])
    """

    ptr: Ints
    parent_state: Ints
    state: Ints
    weight: Floats
    n_parent_states: Ints
    n_states: Ints

    @classmethod
    def of_states(cls, counts: Floats) -> CountTables:
        """The single table of a variable without a parent, from the counts of its states."""
        k = len(counts)
        return cls(
            np.array([0, k]),
            np.zeros(k, np.int64),
            np.arange(k),
            counts,
            np.array([1]),
            np.array([k]),
        )

    @property
    def n_parameters(self) -> int:
        """Number of free parameters: one less than the states, for each row."""
        return int((self.n_parent_states * (self.n_states - 1)).sum())

    def dense(self) -> Floats:
        """The counts of all cells of all tables, row by row, end to end."""
        size = self.n_parent_states * self.n_states
        start = offsets(size)
        table = np.repeat(np.arange(len(size)), np.diff(self.ptr))
        cell = start[table] + self.parent_state * self.n_states[table] + self.state
        return np.bincount(cell, weights=self.weight, minlength=start[-1]).astype(np.float64)

    def log_probabilities(self, pseudo_count: Floats) -> list[Floats]:
        """Log of the smoothed conditional probabilities.

        Parameters
        ----------
        pseudo_count : array of shape (m,)
            Added to every cell of each table; positive.

        Returns
        -------
        list of array of shape (n_parent_states[i], n_states[i])
            Log probability in nats of each state given that of the parent.
        """
        size = self.n_parent_states * self.n_states
        start = offsets(size)
        dense = self.dense() + np.repeat(pseudo_count, size)
        width = np.repeat(self.n_states, self.n_parent_states)
        row_start = np.concatenate([[0], np.cumsum(width)[:-1]])
        log_prob = np.log(dense)
        log_prob -= np.repeat(np.log(np.add.reduceat(dense, row_start)), width)
        shapes = zip(start.tolist(), self.n_parent_states.tolist(), self.n_states.tolist())
        return [log_prob[at : at + rows * k].reshape(rows, k) for at, rows, k in shapes]
