"""Slow truth of columns that determine each other: all orders of the values of one of them."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any


def determine_each_other(one: Sequence[Any], two: Sequence[Any]) -> bool:
    """Whether each value of either column comes with one value of the other."""
    pairs = set(zip(one, two))
    return len({a for a, _ in pairs}) == len(pairs) == len({b for _, b in pairs})


def chance(values: Sequence[Any]) -> float:
    """The part of all orders of a column whose values determine those of the column as it is."""
    orders = list(permutations(values))
    return sum(determine_each_other(values, order) for order in orders) / len(orders)
