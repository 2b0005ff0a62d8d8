"""Types of arrays, and the few things that lists of unequal lengths, laid end to end, need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def offsets(sizes: Any) -> Ints:
    """Where each of some parts begins when they stand end to end, and where the last one ends."""
    found = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=found[1:])
    return found


def within(sizes: Ints) -> Ints:
    """The numbers ``0, ..., sizes[i] - 1`` of each part, end to end."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def ranges(first: Ints, sizes: Ints) -> Ints:
    """The ranges ``first[i], ..., first[i] + sizes[i] - 1``, end to end."""
    return np.repeat(first, sizes) + within(sizes)
