"""Shapley values of a game whose coalitions are sets of known cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import comb

from skpc._arrays import Bools, Floats

#: Players up to which all coalitions are listed.
MOST_PLAYERS = 10
#: Random orders of more players.
_N_PERMUTATIONS = 100


class ShapleyValues(NamedTuple):
    """Shapley values of the cells of rows; see :meth:`skpc.ExpectedPredictor.shapley_values`."""

    values: Floats
    base_values: Floats
    se: Floats


def shapley_of(
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
    if n_permutations is None and n_players <= MOST_PLAYERS:
        members = np.arange(2**n_players)[:, np.newaxis] >> np.arange(n_players) & 1 == 1
        # A coalition counts for each player by the orders in which this joins, or has joined, it.
        before = members.sum(axis=1)[:, np.newaxis] - members
        share = np.where(members, 1.0, -1.0) / (n_players * comb(n_players - 1, before))
        exact: Floats = np.tensordot(share.T, value(members), 1)
        return exact, np.zeros_like(exact)
    n_orders = n_permutations or _N_PERMUTATIONS
    rank = random_state.random_sample((n_orders, n_players)).argsort(axis=1)
    members = rank[:, np.newaxis] < np.arange(n_players + 1)[:, np.newaxis]
    of_sets = value(members.reshape(-1, n_players))
    steps = np.diff(of_sets.reshape(n_orders, n_players + 1, *of_sets.shape[1:]), axis=1)
    added = steps[np.arange(n_orders)[:, np.newaxis], rank]
    return added.mean(axis=0), added.std(axis=0, ddof=1) / math.sqrt(n_orders)
