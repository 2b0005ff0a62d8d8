"""Leaves and variables of a circuit, as the arrays that their families and kernels read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints

#: The leaf families. A block has several variables, all others have one.
CATEGORICAL, GAUSSIAN, HISTOGRAM, POISSON, SCORED, BLOCK = 0, 1, 2, 3, 4, 5


class Leaves(NamedTuple):
    """The leaves of a circuit in the order of their nodes.

    The scope of leaf ``l`` is ``scope[scope_ptr[l]:scope_ptr[l + 1]]``, and ``var[l]`` the first
    variable there. Its parameters are ``param_ptr[l]:param_ptr[l + 1]``, its table begins at
    ``first[l]``; all tables together have ``first[n_leaves]`` entries. ``line[l]`` is the line that
    kernels read for it: that of its variable, or for a block the first of two behind all variables.
    """

    node: Ints
    family: Ints
    scope_ptr: Ints
    scope: Ints
    var: Ints
    line: Ints
    n_states: Ints
    param_ptr: Ints
    first: Ints


class LeafTable(NamedTuple):
    """The few facts of all leaves that passes over a circuit read; see :class:`Leaves`."""

    family: Ints
    var: Ints
    line: Ints
    n_states: Ints
    first: Ints


class Columns(NamedTuple):
    """The variables of a circuit as kernels read them.

    ``family`` is the family of the leaves of a variable, ``log_peak`` the greatest log density of
    its Gaussian leaves. Leaves are evaluated relative to that, or to the density within the bin:
    so all values inside a circuit lie in [0, 1], and only terms that do not count can underflow.
    ``ignored`` marks the variables that the circuit has been conditioned on.
    """

    n_states: Ints
    axis_ptr: Ints
    axis: Floats
    family: Ints
    log_peak: Floats
    ignored: NDArray[np.int8]


class Lines(NamedTuple):
    """What the posteriors of missing cells are put together from, leaf by leaf.

    Leaf ``l`` adds ``feature[feature_ptr[l]:feature_ptr[l + 1]]`` to the lines from ``first[l]``
    on; there are ``n_lines``.
    """

    feature_ptr: Ints
    feature: Floats
    first: Ints
    n_lines: int
