"""Shapley values of a game whose coalitions are sets of known cells."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import comb

from skpc._arrays import Bools, Floats

#: Random orders of more players.
_N_PERMUTATIONS = 100


class _ShapleyArrays(NamedTuple):
    values: Floats
    base_values: Floats
    se: Floats


class ShapleyValues(_ShapleyArrays):
    """Shapley values of the cells of rows; see :meth:`skpc.ExpectedPredictor.shapley_values`.

    A tuple of three arrays.

    Attributes
    ----------
    feature_names : list or None
        Names of the columns, where the table has names.
    data : table of shape (n_samples, n_features)
        The rows that are explained.
    """

    feature_names: list[Any] | None = None
    #: The rows that are explained, as the user gave them.
    data: Any = None

    def to_shap(self) -> Any:
        """The values as shap takes them for its plots.

        Returns
        -------
        shap.Explanation
            With values, base values, data and names of columns; ``[..., k]`` are those of class k.

        Raises
        ------
        ImportError
            If shap is not installed.
        """
        try:
            from shap import Explanation
        except ImportError as error:
            raise ImportError(
                "to_shap needs the package shap, which is not installed; install it by "
                "pip install shap, or with the extra skpc[boosters]."
            ) from error
        data = np.asarray(self.data)
        names = self.feature_names or [f"Feature {v}" for v in range(self.values.shape[1])]
        return Explanation(self.values, self.base_values, data, feature_names=names)


def shapley_values(
    rows: Floats,
    base: Any,
    whole: Floats,
    expected: Callable[[Floats], Floats],
    n_permutations: int | None,
    random_state: np.random.RandomState,
) -> ShapleyValues:
    """Shapley values of the cells of each row, whose coalitions are rows with some of them.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows; NaN marks missing cells, which have the value 0.
    base : float or ndarray of shape (n_outputs,)
        The expectation where no cell is known.
    whole : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        That of each row.
    expected : callable
        The expectations of rows with missing cells.
    n_permutations, random_state
        See :func:`_of_players`.
    """
    # Both have the shape (n_rows, n_features), and outputs behind.
    values, se = np.zeros((2, *rows.shape, *whole.shape[1:]))
    for place, row in enumerate(rows):
        # Missing cells take no part, and keep a value of zero.
        known = ~np.isnan(row)
        if known.any():
            value_of_sets = partial(_of_sets, row, (base, whole[place]), expected)
            answer = _of_players(value_of_sets, known.sum(), n_permutations, random_state)
            values[place, known], se[place, known] = answer
    return ShapleyValues(values, np.broadcast_to(base, whole.shape).copy(), se)


def _of_sets(
    row: Floats, ends: Any, expected: Callable[[Floats], Floats], members: Bools
) -> Floats:
    """Expectations given the marked ones of the cells of a row; ``ends``: of none, and of all."""
    # (n_coalitions, n_features): the cells of the members alone.
    rows = np.full((len(members), len(row)), np.nan)
    rows[:, ~np.isnan(row)] = np.where(members, row[~np.isnan(row)], np.nan)
    # Right for the coalitions of none and of all; others are asked about below.
    answer = np.array(ends)[members.all(axis=1).astype(int)]
    is_proper = members.any(axis=1) & ~members.all(axis=1)
    if is_proper.any():
        answer[is_proper] = expected(rows[is_proper])
    return answer


def _of_players(
    value: Callable[[Bools], Floats],
    n_players: int,
    n_permutations: int | None,
    random_state: np.random.RandomState,
) -> tuple[Floats, Floats]:
    """Shapley values of the players and their standard errors, which are 0 where they are exact.

    Parameters
    ----------
    value : callable
        The values of coalitions, shape (n_coalitions, ...), whose members are marked in an array of
        shape (n_coalitions, n_players).
    n_players : int
        At least one.
    n_permutations : int or None
        Number of random orders in which players join; None lists all coalitions of up to ten.
    random_state : RandomState instance
    """
    # Players up to which all coalitions are listed.
    most_players = 10
    if n_permutations is None and n_players <= most_players:
        # (2^n_players, n_players): the bits of a number are the members of a coalition.
        members = np.arange(2**n_players)[:, np.newaxis] >> np.arange(n_players) & 1 == 1
        # A coalition counts for each player by the orders in which this joins, or has joined, it.
        before = members.sum(axis=1)[:, np.newaxis] - members
        share = np.where(members, 1.0, -1.0) / (n_players * comb(n_players - 1, before))
        exact: Floats = np.tensordot(share.T, value(members), 1)
        return exact, np.zeros_like(exact)
    n_orders = n_permutations or _N_PERMUTATIONS
    rank = random_state.random_sample((n_orders, n_players)).argsort(axis=1)
    # (n_orders, n_players + 1, n_players): coalition t has all players of a rank below t.
    members = rank[:, np.newaxis] < np.arange(n_players + 1)[:, np.newaxis]
    values_of_sets = value(members.reshape(-1, n_players))
    # A step is what the player adds whose rank is its number.
    steps = np.diff(
        values_of_sets.reshape(n_orders, n_players + 1, *values_of_sets.shape[1:]), axis=1
    )
    added = steps[np.arange(n_orders)[:, np.newaxis], rank]
    return added.mean(axis=0), added.std(axis=0, ddof=1) / math.sqrt(n_orders)
