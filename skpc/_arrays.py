"""Types of arrays, the memory they need, sums of them, and lists of unequal lengths end to end."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: States of cells, -1 where missing.
Codes = NDArray[np.int16]
#: The least positive float of full precision: what is below has lost digits.
SMALLEST_NORMAL = np.finfo(np.float64).tiny
#: A smaller part of a weight is rounding: 0.1 + 0.2 rows are as many as 0.3.
ROUNDING = 1e-6


def check_memory(n_numbers: float, what: str, remedy: str) -> None:
    """Refuse work on more numbers (float64) than the machine can hold, before it begins."""
    # A float64 takes eight bytes.
    needed = 8.0 * n_numbers
    try:
        installed = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        # This system does not say: the allocation of an array fails instead.
        return
    if needed > installed:
        raise MemoryError(
            f"{what} take about {needed / 2**30:,.0f} GiB of memory, and the machine has "
            f"{installed / 2**30:,.0f} GiB. {remedy}"
        )


def check_variables(
    variables: Any, n_variables: int, name: str = "variables", or_else: str = ""
) -> Ints:
    """The numbers of some variables, from such numbers or from a mask of all variables.

    ``or_else`` says in errors what else they might have been.

    Raises
    ------
    ValueError
        If they are neither, or a number is not that of a variable.
    """
    chosen = np.asarray(variables)
    if chosen.dtype == bool and chosen.shape == (n_variables,):
        return np.flatnonzero(chosen)
    # An empty list has a dtype of floats, and names no variable.
    is_number = chosen.dtype.kind in "iu" or chosen.size == 0
    if not is_number or chosen.ndim != 1 or not ((chosen >= 0) & (chosen < n_variables)).all():
        raise ValueError(
            f"{name} must be {or_else}numbers from 0 to {n_variables - 1}, or a mask of "
            f"{n_variables} bools; got {variables!r}"
        )
    return chosen.astype(np.intp)


def has_gaps(rows: Any) -> Bools:
    """Which rows have missing cells."""
    return np.isnan(rows).any(axis=1)


def divisors(total: Any) -> Floats:
    """Totals to divide by: one in the place of zero, as what adds up to nothing has no shares."""
    return np.where(total > 0.0, total, 1.0)


def one_or_each(
    given: Any, n: int, needed: str, what: str, holds: Callable[[Floats], Any] = np.isfinite
) -> Floats:
    """One number for all or one for each of ``n``, as ``n`` numbers that cannot be written to."""
    values = np.asarray(given, dtype=np.float64)
    if values.shape not in ((), (n,)) or not np.all(holds(values)):
        raise ValueError(f"{needed}, or one for each of the {n} {what}; found {given!r}.")
    # One number is not copied n times.
    return np.broadcast_to(values, n)


def offsets(sizes: Any) -> Ints:
    """Where each of some parts begins when they stand end to end, and where the last one ends."""
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def segment(ptr: Any, part: Any) -> slice:
    """The places of one of the parts that stand end to end, from their :func:`offsets`."""
    return slice(ptr[part], ptr[part + 1])


def owners(sizes: Any) -> Ints:
    """The number of the part that each element belongs to, where parts stand end to end."""
    return np.repeat(np.arange(len(sizes)), sizes)


def picked(table: Any, column: Any) -> Any:
    """One entry of each row of a table: that of its column."""
    return table[np.arange(len(column)), column]


def within(sizes: Ints) -> Ints:
    """The numbers ``0, ..., sizes[i] - 1`` of each part, end to end."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def ranges(begins: Ints, sizes: Ints) -> Ints:
    """The ranges ``first[i], ..., first[i] + sizes[i] - 1``, end to end."""
    return np.repeat(begins, sizes) + within(sizes)


def weighted_quantiles(
    points: Floats, cumulated: Floats, numerator: Ints, denominator: int
) -> Floats:
    """The points at which the cumulated weight reaches ``numerator / denominator`` of the whole.

    Multiplying before dividing keeps the levels exact where the weights are whole numbers. A level
    that is missed by rounding alone is reached.
    """
    # A little less than the level, so that a sum that reaches it but for rounding does.
    levels = numerator * cumulated[-1] / denominator * (1.0 - ROUNDING)
    return points[np.searchsorted(cumulated, levels)]


def whole_rows(weight: float) -> int:
    """How many rows of weight one there are in some weight, rounded down."""
    # Weights such as 0.1 + 0.2 fall short of whole numbers by rounding.
    return int(weight * (1.0 + ROUNDING))


def copies(weight: Floats) -> Ints:
    """In how many equal parts each row is dealt out: as often as it stands there, rounded up."""
    return np.ceil(weight * (1.0 - ROUNDING)).astype(np.int64)


def exact_parts(weight: Floats) -> tuple[Floats, Floats]:
    """Split weights into large and small parts whose sums are free of rounding.

    The large parts are multiples of one power of two, so coarse that no sum of them can round;
    the small parts likewise of a finer one. Adding the two sums at the end rounds once. So a sum
    does not depend on the order of its terms, nor on 0.3 + 0.3 standing for 0.6.
    """
    exponent = int(np.frexp(weight.sum())[1])
    # Multiples of this that add up to the sum of the weights take 53 bits at most.
    coarse = _power_of_two(exponent - 52)
    # What is left below, with room for the carries of as many rows as there are.
    fine = _power_of_two(exponent - 104 + len(weight).bit_length())
    large = np.rint(weight / coarse) * coarse
    small = np.rint((weight - large) / fine) * fine
    return large, small


def group_sums(group: Any, values: Any, n_groups: Any = 0) -> Floats:
    """Sum the values of each group 0, 1, 2, ..., of as many groups as there are at least."""
    # Without values the sums would be whole numbers.
    return np.bincount(group, values, n_groups).astype(np.float64, copy=False)


def exact_group_sums(group: Ints, weight: Floats) -> Floats:
    """Sum the weights of each group, whatever their order and repetition (:func:`exact_parts`)."""
    large, small = exact_parts(weight)
    return group_sums(group, large) + group_sums(group, small)


def _power_of_two(exponent: int) -> float:
    return float(np.ldexp(1.0, max(exponent, -1074)))


def log_or_inf(probability: Floats) -> Floats:
    """Logarithm of probabilities, -inf for zero."""
    with np.errstate(divide="ignore"):
        return np.log(probability)


def added(left: Any, right: Any) -> Any:
    """The sum of two results: lists become longer; tuples are added by their parts."""
    if not isinstance(left, tuple):
        return left + right
    # Tuples may stand in tuples: their parts are added by the same rule.
    parts = map(added, left, right)
    return type(left)(*parts) if hasattr(left, "_fields") else tuple(parts)


def taken(parts: Any, order: Any) -> Any:
    """The parts of a tuple in another order; where there is none, there is none."""
    return parts and tuple(parts[place] for place in order)
