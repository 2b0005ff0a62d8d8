"""CPU seconds of what grows, and the bars of statements about costs and exact results."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

#: A slope of log seconds against log size that stands for at most linear growth.
LINEAR = 1.15
#: Errors that are rounding.
ROUNDING = 1e-9
#: Of so many repetitions the least seconds count.
REPEATS = 3


def slope_of_seconds(sizes: tuple[int, ...], work: Callable[[int], Any]) -> float:
    """The slope of log CPU seconds against log size."""
    seconds = []
    for size in sizes:
        # The call that compiles is not timed.
        work(size)
        seconds.append(min(cpu_seconds(work, size) for _ in range(REPEATS)))
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def cpu_seconds(work: Callable[[int], Any], size: int) -> float:
    """CPU seconds of one call, of as many as a clock can tell apart."""
    calls = 0
    start = time.process_time()
    while calls == 0 or time.process_time() - start < 0.05:
        work(size)
        calls += 1
    return (time.process_time() - start) / calls
