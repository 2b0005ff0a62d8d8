"""The records that describe leaves, variables and rows to kernels, and the kernels of tables.

A table leaf, of a category or of a histogram axis, has a probability for each state and nothing
more. Its table has one entry a state and one for a missing cell; its statistics have the same
layout. Leaves of numbers with atoms have such states in front of their other parameters. The plain
twin of the kernels is ``tests/naive/circuit.py``.
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
        ``codes`` has the state of each cell, the number of states where it is missing; ``values``
        has what leaves with formulas read, NaN in a missing cell. Behind the lines of the variables
        each block has two: its log density, and the flow that has reached it. Behind all these,
        ``values`` has four lines for each variable (see :func:`edge_line`) and one of scratch.
    base : array of shape (size,)
        The log density that all leaves of the observed numeric cells of a row have in common.
    incomplete : int8 array of shape (n_features + 2 n_leaves,)
        Whether a variable is missing in any row; blocks always count as missing.
    """

    codes: NDArray[np.int16]
    values: Floats
    base: Floats
    incomplete: NDArray[np.int8]


@inlined
def edge_line(cells: Cells, line: int) -> int:
    """The first of four lines about the cells of a variable on a lattice: scores of lower edges, of
    upper edges, log scales of densities, and an earlier row with the same value, or the row itself.

    Without a lattice, the first entry of the first line is infinite.
    """
    return cells.codes.shape[0] + 4 * line


class Columns(NamedTuple):
    """The variables of a circuit as kernels read them.

    ``family`` is the family of the leaves of a variable, ``log_peak`` the greatest log density of
    its Gaussian leaves. Leaves are evaluated relative to that, or to the density within the bin:
    so all values inside a circuit lie in [0, 1], and only negligible terms can underflow.
    ``ignored`` marks the variables that the circuit has been conditioned on, ``has_cells`` those
    whose leaves read the edges of lattice cells.
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
    """Pseudo-counts of an M-step: cells added to those of leaves, distributed like their columns.

    ``weight`` is the number of cells, in the shape of the parameters; ``mean`` and ``sd`` are the
    moments of the variables. Families of leaves take one number of each for a leaf.
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
    # A call passes every array of a record by itself: four numbers cost less.
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
        value_0 = table[first_entry]
        value_1 = table[first_entry + 1]
        missing = table[first_entry + 2]
        for r in range(n):
            code = codes[var, r]
            lines[out, r] = value_0 if code == 0 else (value_1 if code == 1 else missing)
    else:
        # A look-up is several times as slow, but serves any number of states.
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
        # Three sums vectorise, where additions to one array would wait for each other.
        count_0 = 0.0
        count_1 = 0.0
        missing = 0.0
        for r in range(n):
            code = codes[var, r]
            part = lines[flow, r]
            count_0 += part if code == 0 else 0.0
            count_1 += part if code == 1 else 0.0
            missing += part if code == 2 else 0.0
        statistic[first_entry] += count_0
        statistic[first_entry + 1] += count_1
        statistic[first_entry + 2] += missing
    else:
        for r in range(n):
            # The code of a missing cell is the number of states, which is the last entry.
            statistic[first_entry + codes[var, r]] += lines[flow, r]


class States(NamedTuple):
    """The states of all leaves that have some, leaf by leaf.

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
    # A block has the states of its variables one variable after the other.
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
    """The histogram or law that a stretch of numbers holds; None where it is empty."""
    if not len(flat):
        return None
    # The record of a law begins with zero, that of an axis with the positive scale of a tail.
    return Law.from_flat(flat) if flat[0] == 0.0 else Histogram.from_flat(flat)


def over_states(columns: Columns, var: int, prob: Floats) -> Points | Bins:
    """Distributions with these probabilities of the states of a variable."""
    axis = columns.axis_of(var)
    return Points(np.arange(float(prob.shape[1])), prob) if axis is None else Bins(axis, prob)
