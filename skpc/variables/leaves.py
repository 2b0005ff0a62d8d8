"""Leaves and variables of a circuit as arrays, and the states that leaves have.

The leaves of a category, or of a histogram axis, have a probability for each state and nothing
more. Table of such a leaf: one entry a state and one more for a missing cell; its statistics have
the same layout. Leaves of numbers with atoms have states in front of their other parameters. The
plain twin of the kernels is ``tests/naive/circuit.py``.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets, owners, ranges, segment
from skpc._jit import inlined
from skpc.variables.forms import Bins, Points
from skpc.variables.histogram import Histogram
from skpc.variables.law import Law


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

    @property
    def owner(self) -> Ints:
        """The leaf that each entry of ``scope`` belongs to."""
        return owners(np.diff(self.scope_ptr))

    def alone(self) -> list[tuple[int, Ints]]:
        """Each variable with the leaves that have it alone."""
        # The lines of all others stand behind those of the variables.
        leaf = np.flatnonzero(self.line == self.var)
        leaf = leaf[np.argsort(self.var[leaf], kind="stable")]
        begin = np.flatnonzero(np.diff(self.var[leaf], prepend=-1))
        return list(zip(self.var[leaf[begin]].tolist(), np.split(leaf, begin[1:])))

    def with_variable(self, var: int) -> Ints:
        """The leaves that have a variable in their scope, in the order of the nodes."""
        return self.owner[self.scope == var]


class LeafTable(NamedTuple):
    """The few facts of all leaves that passes over a circuit read; see :class:`Leaves`."""

    family: Ints
    var: Ints
    line: Ints
    n_states: Ints
    first: Ints


class Leaf(NamedTuple):
    """A leaf as kernels read it: its family, its line, and where its table begins."""

    family: int
    line: int
    n_states: int
    first_entry: int


class Cells(NamedTuple):
    """A batch of rows as kernels read it, one line a variable.

    Attributes
    ----------
    codes, values : int16 and float64 arrays of shape (n_features + 2 n_leaves, size)
        State (the number of states where missing) of each cell, and the number that leaves with
        formulas read: NaN without a number, as in a missing cell. Behind the variables each
        leaf of several variables has two: its log density, and the flow that has reached it.
        Behind all these, ``values`` has four for each variable (see :func:`edge_line`), and one
        that is scratch.
    base : array of shape (size,)
        The log density that all leaves of the observed numeric cells of a row have in common.
    incomplete : int8 array of shape (n_features + 2 n_leaves,)
        Whether a variable is missing in any row; leaves of several variables always are.
    """

    codes: NDArray[np.int16]
    values: Floats
    base: Floats
    incomplete: NDArray[np.int8]


@inlined
def edge_line(cells: Cells, line: int) -> int:
    """The first of the four lines of values that say what the cells of a variable on a lattice
    are: the scores of their lower and upper edges, the log scales of their densities, and the first
    of the rows with the same value. The first entry is infinite if the variable has no lattice."""
    return cells.codes.shape[0] + 4 * line


class Columns(NamedTuple):
    """The variables of a circuit as kernels read them.

    ``family`` is the family of the leaves of a variable, ``log_peak`` the greatest log density of
    its Gaussian leaves. Leaves are evaluated relative to that, or to the density within the bin:
    so all values inside a circuit lie in [0, 1], and only terms that do not count can underflow.
    ``ignored`` marks the variables that the circuit has been conditioned on, ``has_cells`` those on
    a lattice whose leaves read the edges of cells.
    """

    n_states: Ints
    axis_ptr: Ints
    axis: Floats
    family: Ints
    log_peak: Floats
    ignored: NDArray[np.int8]
    has_cells: NDArray[np.int8]

    def axis_of(self, var: int) -> Any:
        """What the leaves of a variable have in common: a Histogram, a Law, or None."""
        return axis_in(self.axis[segment(self.axis_ptr, var)])


class Prior(NamedTuple):
    """Cells that an M-step adds to those of leaves: distributed like columns of these moments.

    ``weight`` is their number, in the shape of the parameters; ``mean`` and ``sd`` are those of the
    variables. The files of families take a number of each for a leaf.
    """

    weight: Floats
    mean: Floats
    sd: Floats

    def at(self, place: Ints, var: Ints) -> Self:
        """The weights of some parameters, and the moments of some variables."""
        return type(self)(self.weight[place], self.mean[var], self.sd[var])


class Column(NamedTuple):
    """A variable as kernels read it; its axis is ``axis[axis_begin:axis_end]``."""

    n_states: int
    family: int
    log_peak: float
    axis_begin: int
    axis_end: int


@inlined
def leaf_of(leaves: LeafTable, leaf: int) -> Leaf:
    """The facts of one leaf."""
    # Without the arrays of all leaves, which a call would hand over one by one.
    return Leaf(leaves.family[leaf], leaves.line[leaf], leaves.n_states[leaf], leaves.first[leaf])


@inlined
def column_of(columns: Columns, var: int) -> Column:
    """The facts of one variable."""
    begin = columns.axis_ptr[var]
    end = columns.axis_ptr[var + 1]
    return Column(columns.n_states[var], columns.family[var], columns.log_peak[var], begin, end)


class Lines(NamedTuple):
    """What the posteriors of missing cells are put together from, leaf by leaf.

    Leaf ``l`` adds ``feature[feature_ptr[l]:feature_ptr[l + 1]]`` to the lines from
    ``first_line[l]`` on, multiplied by the posterior weight of the leaf; there are ``n_lines``.
    """

    feature_ptr: Ints
    feature: Floats
    first_line: Ints
    n_lines: int


@inlined
def state_line(leaf: Leaf, table: Floats, cells: Cells, n: int, lines: Floats, out: int) -> None:
    """Read the table entry of each row's state."""
    first_entry = leaf.first_entry
    var = leaf.line
    codes = cells.codes
    if leaf.n_states == 2:
        # A choice between three numbers vectorises where a look-up would not.
        zero = table[first_entry]
        one = table[first_entry + 1]
        missing = table[first_entry + 2]
        for r in range(n):
            code = codes[var, r]
            lines[out, r] = zero if code == 0 else (one if code == 1 else missing)
    else:
        # A gather: several times as slow, but any number of states has it.
        for r in range(n):
            lines[out, r] = table[first_entry + codes[var, r]]


@inlined
def add_states(
    leaf: Leaf, cells: Cells, n: int, lines: Floats, flow: int, statistic: Floats
) -> None:
    """Add the flow of each row to the count of its state."""
    first_entry = leaf.first_entry
    var = leaf.line
    codes = cells.codes
    if leaf.n_states == 2:
        # Sums over all rows vectorise where counts of states would wait for each other.
        zero = 0.0
        one = 0.0
        missing = 0.0
        for r in range(n):
            code = codes[var, r]
            part = lines[flow, r]
            zero += part if code == 0 else 0.0
            one += part if code == 1 else 0.0
            missing += part if code == 2 else 0.0
        statistic[first_entry] += zero
        statistic[first_entry + 1] += one
        statistic[first_entry + 2] += missing
    else:
        for r in range(n):
            # A missing cell has the number of states as its state, and a place of its own.
            statistic[first_entry + codes[var, r]] += lines[flow, r]


class States(NamedTuple):
    """The states of all leaves of states one after the other.

    ``begin`` and ``size`` cut them into the leaves ``leaf``; ``param``, ``entry`` and ``state``
    are the positions of a state in the parameters, the tables and among the states of all
    variables.
    """

    leaf: Ints
    begin: Ints
    size: Ints
    param: Ints
    entry: Ints
    state: Ints


def states_of_leaves(leaves: Leaves, n_states: Ints) -> States:
    """List the states of all leaves that have some; ``n_states`` are those of the variables."""
    # A leaf of several variables has their states one variable after the other.
    owner = leaves.owner
    size = n_states[leaves.scope]
    before = offsets(size)
    # How many states of the same leaf come before those of each of its variables.
    before = before[:-1] - before[leaves.scope_ptr[:-1]][owner]
    # Numbers without states have nothing to list.
    has_states = np.flatnonzero(size > 0)
    leaf = owner[has_states]
    size = size[has_states]
    before = before[has_states]
    # The states of all variables are numbered one variable after the other.
    offset = np.cumsum(n_states) - n_states
    leaf_begins = (leaves.param_ptr[leaf] + before, leaves.first[leaf] + before)
    starts = (*leaf_begins, offset[leaves.scope[has_states]])
    return States(leaf, np.cumsum(size) - size, size, *(ranges(start, size) for start in starts))


def axis_in(flat: Floats) -> Histogram | Law | None:
    """What the stretch of a variable holds that kernels read; None where that is empty."""
    if not len(flat):
        return None
    # The record of a law begins with zero, that of an axis with the positive scale of a tail.
    return Law.from_flat(flat) if flat[0] == 0.0 else Histogram.from_flat(flat)


def over_states(columns: Columns, var: int, prob: Floats) -> Points | Bins:
    """Distributions with these probabilities of the states of a variable."""
    axis = columns.axis_of(var)
    return Points(np.arange(float(prob.shape[1])), prob) if axis is None else Bins(axis, prob)
