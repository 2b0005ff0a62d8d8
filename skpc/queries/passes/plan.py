"""How a structure is evaluated: the order of its inner nodes and where their values stand.

A plan depends on the structure alone. It is made once, kept as long as the structure exists, and
shared by all circuits with this structure (EM steps, conditionals). The tables of a circuit are
kept as long as the circuit.
"""

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets, ranges
from skpc.circuit import LEAF, SUM, Circuit, Structure
from skpc.variables.leaf_tables import linear_tables
from skpc.variables.leaves import LeafTable

#: What a plan is made of: a structure, or a circuit.
K = TypeVar("K", Structure, Circuit)
T = TypeVar("T")


class Plan(NamedTuple):
    """The arrays that kernels follow; inner nodes are renumbered in depth-first order.

    Attributes
    ----------
    is_sum : int8 array of shape (n_inner,)
        1 for a sum, 0 for a product.
    ptr, arg : int64 arrays
        Children of inner node ``i`` are ``arg[ptr[i]:ptr[i + 1]]``: an inner node, or ``~leaf``.
    last_use : int8 array of shape (n_arguments,)
        1 where no later node reads the same child.
    slot : int64 array of shape (n_inner,)
        Line of the working set that holds a node while it is alive.
    leaves : LeafTable
        The leaves and where their tables begin.
    """

    is_sum: NDArray[np.int8]
    ptr: Ints
    arg: Ints
    last_use: NDArray[np.int8]
    slot: Ints
    leaves: LeafTable


class Program(NamedTuple):
    """A plan with the way back to the numbering of the structure.

    ``edge[a]`` is the edge of argument ``a`` (-1 for the one above a root that is a leaf) and
    ``node[i]`` the node of inner node ``i``.
    """

    plan: Plan
    n_slots: int
    edge: Ints
    node: Ints


class Tables(NamedTuple):
    """The parameters of a circuit in the order of its plan, in the log and the linear domain."""

    log_weight: Floats
    weight: Floats
    log_table: Floats
    table: Floats


def remembered(make: Callable[[K], T]) -> Callable[[K], T]:
    """Keep what a function makes of a structure, or of a circuit, for as long as that lives."""
    # Structures and circuits never change, so that what is made of them stays right.
    made: WeakKeyDictionary[K, T] = WeakKeyDictionary()

    @wraps(make)
    def recall(key: K) -> T:
        if key not in made:
            made[key] = make(key)
        return made[key]

    return recall


@remembered
def plan_of(structure: Structure) -> Program:
    """The program of a structure, made at the first call."""
    node = np.array(_post_order(structure), dtype=np.int64)
    number = np.full(structure.n_nodes, -1)
    number[node] = np.arange(len(node))
    leaves = structure.leaves
    # Leaves get the negative numbers by which arguments tell them from inner nodes.
    number[leaves.node] = ~np.arange(len(leaves.node))
    n_children = np.diff(structure.child_ptr)[node]
    edge = ranges(structure.child_ptr[node], n_children)
    ptr = offsets(n_children)
    # (n_arguments,): the children of all nodes in the order of the plan.
    arg = number[structure.child[edge]]
    is_sum = (structure.kind[node] == SUM).astype(np.int8)
    if not len(node):
        # The root is a leaf: it is read through a product of one child.
        node = np.array([-1])
        is_sum = np.zeros(1, dtype=np.int8)
        edge = np.array([-1])
        ptr = np.array([0, 1])
        arg = np.array([~0])
    # From behind, the first sight of a node is its last use.
    last = len(arg) - 1 - np.unique(arg[::-1], return_index=True)[1]
    last_use = np.zeros(len(arg), dtype=np.int8)
    last_use[last] = arg[last] >= 0
    slot = _assign_slots(ptr, arg, last_use)
    table = LeafTable(leaves.family, leaves.var, leaves.line, leaves.n_states, leaves.first)
    plan = Plan(is_sum, ptr, arg, last_use, slot, table)
    return Program(plan, int(slot.max()) + 1, edge, node)


@remembered
def tables_of(circuit: Circuit) -> Tables:
    """The parameters of a circuit in the order of its plan, made at the first call."""
    return tables_with(circuit, circuit.leaf_table)


def tables_with(circuit: Circuit, log_table: Floats) -> Tables:
    """The same with other tables of the leaves."""
    # Edge -1 of a root that is a leaf has the weight one.
    log_weight = np.append(circuit.log_weight, 0.0)[plan_of(circuit.structure).edge]
    table = linear_tables(log_table, circuit.structure.leaves)
    return Tables(log_weight, np.exp(log_weight), log_table, table)


def _post_order(structure: Structure) -> list[int]:
    """The inner nodes below the root depth first, children before parents."""
    ptr = structure.child_ptr.tolist()
    child = structure.child.tolist()
    listed = (structure.kind == LEAF).tolist()
    order = []
    # A stack in place of recursion, which has a limit: chains may be a million nodes deep.
    waiting = [structure.n_nodes - 1]
    while waiting:
        node = waiting.pop()
        if node < 0:
            # All children are listed: it is the turn of the node.
            order.append(~node)
        elif not listed[node]:
            # Nodes with several parents are listed once; leaves have no place in the order.
            listed[node] = True
            waiting.append(~node)
            waiting.extend(reversed(child[ptr[node] : ptr[node + 1]]))
    return order


def _assign_slots(ptr: Ints, arg: Ints, last_use: NDArray[np.int8]) -> Ints:
    """Give every inner node a line of the working set for as long as it is alive."""
    ends = np.flatnonzero(last_use)
    # The uses that end below each node: entries of ends from begin[i] to begin[i + 1].
    begin = np.searchsorted(ends, ptr).tolist()
    done = arg[ends].tolist()
    slot: list[int] = []
    free: list[int] = []
    n_slots = 0
    for i in range(len(ptr) - 1):
        # The line of the node is taken before those of its children are freed: a pass writes
        # the one while it reads the others.
        if free:
            slot.append(free.pop())
        else:
            slot.append(n_slots)
            n_slots += 1
        # Few nodes are alive together, so that their lines stay in the cache.
        free.extend(slot[child] for child in done[begin[i] : begin[i + 1]])
    return np.array(slot)
