"""Tables of all pairs of variables as one matrix over numbered states."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc.counting import count_state_pairs

_Number = TypeVar("_Number", bound=np.number)

#: Information that no two variables fall short of, in nats.
_FAINT = 1e-6


class PairTables(NamedTuple):
    """Smoothed marginals of one and of two variables, estimated from weighted rows.

    Parameters
    ----------
    ptr : array of shape (n_features + 1,)
        The states of variable v are ``ptr[v] .. ptr[v + 1]``.
    single : array of shape (n_states,)
        Probability of each state.
    pair : array of shape (n_states, n_states)
        Probability of two states together, consistent with ``single`` if nothing is missing; the
        tables of a variable with itself are of no use.
    """

    ptr: Ints
    single: Floats
    pair: Floats

    @classmethod
    def of_rows(
        cls, codes: NDArray[np.integer], weight: Floats, n_states: Ints, alpha: float
    ) -> PairTables:
        """Count rows.

        Parameters
        ----------
        codes : array of shape (n_rows, n_features)
            State of each cell, -1 where missing: a table counts the rows that show its variables.
        weight : array of shape (n_rows,)
            Positive weights.
        n_states : array of shape (n_features,)
            Number of states of each variable.
        alpha : float
            Pseudo-count that every table shares out evenly among its cells.

        Returns
        -------
        PairTables
        """
        ptr = offsets(n_states)
        pair = count_state_pairs(codes, weight, n_states)
        part = 1.0 / per_state(n_states, ptr)
        seen = block_sums(block_sums(pair, ptr, 0), ptr, 1)
        total = per_state(per_state(seen, ptr, 0), ptr, 1) + alpha
        single = (pair.diagonal() + alpha * part) / total.diagonal()
        return cls(ptr, single, (pair + alpha * np.outer(part, part)) / total)

    def information(self) -> Floats:
        """Mutual information of every two variables, in nats; shape (n_features, n_features).

        Positive, as rounding alone would not keep it; ones on the diagonal.
        """
        ratio = np.log(self.pair / np.outer(self.single, self.single))
        found = block_sums(block_sums(self.pair * ratio, self.ptr, 0), self.ptr, 1)
        found = np.maximum(found, _FAINT)
        np.fill_diagonal(found, 1.0)
        return found


def block_sums(table: Floats, ptr: Ints, axis: int) -> Floats:
    """Sum the states of each vertex along an axis."""
    return np.add.reduceat(table, ptr[:-1], axis=axis)


def per_state(values: NDArray[_Number], ptr: Ints, axis: int = 0) -> NDArray[_Number]:
    """Give every state the value of its vertex along an axis."""
    return np.repeat(values, np.diff(ptr), axis=axis)


def vertices(ptr: Ints) -> Ints:
    """The vertex of each state."""
    return per_state(np.arange(len(ptr) - 1), ptr)


def probabilities(logit: Floats, ptr: Ints) -> Floats:
    """Softmax over the states of each vertex, along the first axis."""
    largest = np.maximum.reduceat(logit, ptr[:-1], axis=0)
    found = np.exp(logit - per_state(largest, ptr))
    return found / per_state(block_sums(found, ptr, 0), ptr)
