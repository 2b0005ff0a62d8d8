"""Doctests on tables that differ by 1e-9: figures that change would differ on another machine.

    python -m tests.perturbed [cells|weights] [arguments of pytest]

``cells`` changes the numbers of all tables that skpc reads, except those of few decimals, which are
points of a lattice. ``weights`` changes the weights of the rows, for tables of such numbers and of
categories. Without arguments, the pages of the guide, the README and all docstrings run. What fails
prints a figure at the edge of rounding, or of a model that has a second one beside it.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from skpc._arrays import Floats
from skpc.domain import _domain, _fitting, given
from skpc.domain._tables import Cells, read_table
from skpc.estimators import _estimator

CHANGE = 1e-9
PLACES = ["doc/user_guide", "README.rst", "skpc"]


def changed(numbers: Floats) -> Floats:
    """Numbers times 1 - 1e-9 to 1 + 1e-9: equal ones alike, and none of six decimals or fewer."""
    with np.errstate(over="ignore"):
        bits = np.ascontiguousarray(numbers).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    factor = 1.0 + CHANGE * ((bits >> np.uint64(11)) / 2.0**52 - 1.0)
    return np.where(np.round(numbers, 6) == numbers, numbers, numbers * factor)


def read_changed(*args, **keywords) -> Cells:
    cells = read_table(*args, **keywords)
    numbers = changed(cells.numbers)
    dates = list(cells.dates)
    numbers[:, dates] = cells.numbers[:, dates]
    return replace(cells, numbers=np.ascontiguousarray(numbers))


def changed_weight(*args) -> Floats:
    weight = check_weight(*args)
    return weight * (1.0 + CHANGE * np.random.default_rng(0).uniform(-1.0, 1.0, len(weight)))


if __name__ == "__main__":
    what, *arguments = sys.argv[1:] or ["cells"]
    if what == "cells":
        for module in (_domain, _fitting, given):
            module.read_table = read_changed
    elif what == "weights":
        check_weight, _estimator.check_weight = _estimator.check_weight, changed_weight
    else:
        sys.exit(f"cells or weights can be changed; found {what!r}.")
    sys.exit(pytest.main(["--doctest-continue-on-failure", *(arguments or PLACES)]))
