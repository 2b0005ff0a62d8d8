"""The structure of a circuit: nodes, edges and variables, and the properties of their graph."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, owners, segment
from skpc.variables import Histogram, Law, Leaves
from skpc.variables.leaf_tables import lay_out
from skpc.variables.leaves import axis_in

#: Kinds of nodes.
LEAF = 0
SUM = 1
PRODUCT = 2


class StructureFields:
    """The arrays and sizes of a :class:`Structure`, which circuits on it have as well."""

    n_nodes: int
    n_edges: int
    n_features: int
    kind: NDArray[np.int8]
    child_ptr: Ints
    child: Ints
    scope_ptr: Ints
    scope: Ints
    leaf_family: NDArray[np.int8]
    param_ptr: Ints
    decision_var: Ints
    decision_state: Ints
    n_states: Ints
    axis_ptr: Ints
    axis: Floats


SIZES = ("n_nodes", "n_edges", "n_features")
#: The types of the arrays.
DTYPES: dict[str, Any] = {
    **{name: np.int64 for name in StructureFields.__annotations__ if name not in SIZES},
    **dict.fromkeys(("kind", "leaf_family"), np.int8),
    "axis": np.float64,
}


class Structure(StructureFields):
    """The part of a circuit that never changes, shared by all its parametrisations.

    Children have smaller numbers than their parents; the root is the last node.
    The children of node ``i`` are ``child[child_ptr[i]:child_ptr[i + 1]]``, and so are its
    edges. The parameters of leaf ``i`` are ``param[param_ptr[i]:param_ptr[i + 1]]``.

    Attributes
    ----------
    kind : int8 array of shape (n_nodes,)
        0 for a leaf, 1 for a sum, 2 for a product.
    child_ptr, child : int64 arrays of shape (n_nodes + 1,) and (n_edges,)
        The children of each node, one node after the other.
    scope_ptr, scope : int64 arrays of shape (n_nodes + 1,) and (n_scope_entries,)
        The variables of leaf ``i`` are ``scope[scope_ptr[i]:scope_ptr[i + 1]]``, as its
        parameters have them; an inner node has an empty range here (see ``scopes``).
    leaf_family : int8 array of shape (n_nodes,)
        Number of the family (see :mod:`skpc.variables`); -1 at inner nodes.
    param_ptr : int64 array of shape (n_nodes + 1,)
        Where the parameters of each leaf begin.
    decision_var : int64 array of shape (n_nodes,)
        For a sum that decides on an observed variable, that variable; else -1.
    decision_state : int64 array of shape (n_edges,)
        The state (or bin) under which a deciding sum takes this child; else -1.
    n_states : int64 array of shape (n_features,)
        Number of states of each variable. For a variable with a histogram axis it is the number of
        bins, including the tails; for a numeric variable without one it is 0.
    axis_ptr, axis : int64 and float64 arrays
        What the leaves of variable ``v`` have in common is ``axis[axis_ptr[v]:axis_ptr[v + 1]]``:
        a :class:`skpc.variables.Histogram`, a zero followed by atoms and a score
        (:class:`skpc.variables.Law`), or nothing.
    n_nodes, n_edges, n_features : int
        Sizes.
    """

    def __init__(self, **arrays: Any) -> None:
        for name, dtype in DTYPES.items():
            # A copy, so that nobody can change the array later.
            array = np.array(arrays[name], dtype=dtype, order="C")
            array.flags.writeable = False
            self.__dict__[name] = array
        sizes = (self.kind.size, self.child.size, self.n_states.size)
        self.__dict__.update(zip(SIZES, sizes))

    def __repr__(self) -> str:
        return (
            f"Structure(n_features={self.n_features}, n_nodes={self.n_nodes}, "
            f"n_edges={self.n_edges})"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("the structure of a circuit cannot be changed; build another circuit")

    def __getstate__(self) -> dict[str, np.ndarray]:
        return self.arrays()

    def __setstate__(self, state: dict[str, np.ndarray]) -> None:
        Structure.__init__(self, **state)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return {name: getattr(self, name) for name in DTYPES}

    def axis_of(self, var: int) -> Histogram | Law | None:
        """What the leaves of a variable have in common, or None."""
        return axis_in(self.axis[segment(self.axis_ptr, var)])

    @cached_property
    def leaf_var(self) -> Ints:
        """The first variable of each leaf, -1 elsewhere; shape (n_nodes,)."""
        var = np.full(self.n_nodes, -1)
        leaf = np.flatnonzero(np.diff(self.scope_ptr) > 0)
        var[leaf] = self.scope[self.scope_ptr[leaf]]
        var.flags.writeable = False
        return var

    @cached_property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Which variables have states and no numbers, shape (n_features,)."""
        # States of a variable with an axis are bins or atoms of its numbers.
        return (self.n_states > 0) & (np.diff(self.axis_ptr) == 0)

    @cached_property
    def leaves(self) -> Leaves:
        """The leaves with the layout of their parameters and tables, as kernels read them."""
        node = np.flatnonzero(self.kind == LEAF)
        # ``scope`` has entries of leaves only, so that those of the leaves stand end to end.
        ptr = np.append(self.scope_ptr[node], self.scope_ptr[-1])
        family = self.leaf_family[node].astype(np.int64)
        return lay_out(node, family, ptr, self.scope.copy(), self.n_states)

    @cached_property
    def edge_parent(self) -> Ints:
        """The node each edge starts from; int64 array of shape (n_edges,)."""
        return owners(np.diff(self.child_ptr))

    @cached_property
    def scopes(self) -> list[int]:
        """The scope of each node as the bits of an integer: bit ``v`` for variable ``v``."""
        scopes = [0] * self.n_nodes
        owner = owners(np.diff(self.scope_ptr))
        for node, var in zip(owner.tolist(), self.scope.tolist()):
            scopes[node] |= 1 << var
        # Children stand before parents, so that their scopes are complete.
        for node, below in edges_from(self, SUM, PRODUCT):
            scopes[node] |= scopes[below]
        return scopes

    @cached_property
    def depth(self) -> int:
        """Greatest number of edges between the root and a leaf."""
        height = [0] * self.n_nodes
        for node, below in edges_from(self, SUM, PRODUCT):
            # Leaves have height 0; each node is at least one above its children.
            height[node] = max(height[node], 1 + height[below])
        return height[-1]

    @cached_property
    def smooth(self) -> bool:
        """Whether the children of every sum have the same scope."""
        return unsmooth_sum(self) is None

    @cached_property
    def decomposable(self) -> bool:
        """Whether the children of every product have disjoint scopes."""
        return overlapping_product(self) is None

    @cached_property
    def deterministic(self) -> bool:
        """Whether at most one child of every sum is positive on any row.

        That is so where every sum decides on a variable: the builder has checked these sums.
        """
        n_children = np.diff(self.child_ptr)
        # A sum with one child decides nothing.
        branching = (self.kind == SUM) & (n_children > 1)
        return bool(np.all(self.decision_var[branching] >= 0))

    @cached_property
    def structured_decomposable(self) -> bool:
        """Whether all products of one scope split it in the same way."""
        in_one_way = all(len(ways) == 1 for ways in self.splits.values())
        return in_one_way and self.smooth and self.decomposable

    @cached_property
    def splits(self) -> dict[int, dict[frozenset[int], int]]:
        """The ways in which each scope is split, each with a product (or leaf) that splits it so.

        A leaf of several variables takes its scope as a whole, which no product may split then.
        """
        scope = self.scopes
        ptr = self.child_ptr.tolist()
        child = self.child.tolist()
        splits: dict[int, dict[frozenset[int], int]] = {}
        for node in np.flatnonzero(self.kind == PRODUCT).tolist():
            # As a set, since the order of the children does not matter.
            parts = frozenset(scope[below] for below in child[segment(ptr, node)])
            # A product of one child splits nothing.
            if len(parts) > 1:
                splits.setdefault(scope[node], {}).setdefault(parts, node)
        for node in np.flatnonzero(np.diff(self.scope_ptr) > 1).tolist():
            splits.setdefault(scope[node], {}).setdefault(frozenset([scope[node]]), node)
        return splits


def edges_from(structure: Structure, *kinds: int) -> Iterator[tuple[int, int]]:
    """The edges from nodes of these kinds, as (node, child); edges below a node come before it."""
    # Edges are stored by parents, and parents stand behind their children.
    chosen = np.isin(structure.kind[structure.edge_parent], kinds)
    return zip(structure.edge_parent[chosen].tolist(), structure.child[chosen].tolist())


def unsmooth_sum(structure: Structure) -> tuple[int, int] | None:
    """The first sum (and its child) whose scope differs from that of the child."""
    scope = structure.scopes
    for node, below in edges_from(structure, SUM):
        if scope[below] != scope[node]:
            return node, below
    return None


def overlapping_product(structure: Structure) -> tuple[int, int] | None:
    """The first product with a child that shares variables with an earlier one of its children."""
    scope = structure.scopes
    covered = [0] * structure.n_nodes
    for node, below in edges_from(structure, PRODUCT):
        # Any variable that two children share has been covered when the second one comes.
        if covered[node] & scope[below]:
            return node, below
        covered[node] |= scope[below]
    return None


def scope_text(scope: int, most: int = 8) -> str:
    """Text of a scope for people, shortened if it is long.

    Parameters
    ----------
    scope : int
        Bit ``v`` stands for variable ``v``, as in ``Circuit.scopes``.
    most : int, default=8
        Number of variables to list.

    Returns
    -------
    str
        The variables in braces.

    Examples
    --------
    >>> from skpc.circuit import scope_text
    >>> scope_text(0b11001), scope_text(0b11001, most=2)
    ('{0, 3, 4}', '{0, 3, ... (3 variables)}')
    """
    variables = [bit for bit in range(scope.bit_length()) if scope >> bit & 1]
    shown = ", ".join(str(variable) for variable in variables[:most])
    ending = f", ... ({len(variables)} variables)" if len(variables) > most else ""
    return "{" + shown + ending + "}"
