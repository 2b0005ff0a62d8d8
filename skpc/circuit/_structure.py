"""What a circuit is made of: nodes, edges and the variables they speak of."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from skpc.circuit import _properties as properties

__all__ = ["CATEGORICAL", "GAUSSIAN", "HISTOGRAM", "LEAF", "PRODUCT", "SUM", "Structure"]

LEAF, SUM, PRODUCT = 0, 1, 2
CATEGORICAL, GAUSSIAN, HISTOGRAM = 0, 1, 2

_DTYPES = {
    "kind": np.int8,
    "child_ptr": np.int64,
    "child": np.int64,
    "leaf_var": np.int64,
    "leaf_family": np.int8,
    "param_ptr": np.int64,
    "decision_var": np.int64,
    "decision_state": np.int64,
    "n_states": np.int64,
    "axis_ptr": np.int64,
    "axis": np.float64,
}


class Structure:
    """The part of a circuit that never changes, shared by all its parametrisations.

    Nodes are numbered so that children stand before their parents; the root is the last one.
    The children of node ``i`` are ``child[child_ptr[i]:child_ptr[i + 1]]``, and so are its
    edges. The parameters of leaf ``i`` are ``param[param_ptr[i]:param_ptr[i + 1]]``.

    Attributes
    ----------
    kind : int8 array of shape (n_nodes,)
        0 for a leaf, 1 for a sum, 2 for a product.
    child_ptr, child : int64 arrays of shape (n_nodes + 1,) and (n_edges,)
        The children of each node, one node after the other.
    leaf_var : int64 array of shape (n_nodes,)
        The variable of a leaf, -1 elsewhere.
    leaf_family : int8 array of shape (n_nodes,)
        0 categorical, 1 Gaussian, 2 histogram; -1 at inner nodes.
    param_ptr : int64 array of shape (n_nodes + 1,)
        Where the parameters of each leaf stand.
    decision_var : int64 array of shape (n_nodes,)
        For a sum that decides on an observed variable, that variable; else -1.
    decision_state : int64 array of shape (n_edges,)
        The state (or bin) under which a deciding sum takes this child; else -1.
    n_states : int64 array of shape (n_features,)
        Number of states of each variable (of bins, tails included, where it has a histogram
        axis); 0 for a numeric variable without one.
    axis_ptr, axis : int64 and float64 arrays
        The histogram axis of variable ``v`` is ``axis[axis_ptr[v]:axis_ptr[v + 1]]``: scale of
        the lower tail, the increasing edges, scale of the upper tail; empty without an axis.
    """

    kind: np.ndarray
    child_ptr: np.ndarray
    child: np.ndarray
    leaf_var: np.ndarray
    leaf_family: np.ndarray
    param_ptr: np.ndarray
    decision_var: np.ndarray
    decision_state: np.ndarray
    n_states: np.ndarray
    axis_ptr: np.ndarray
    axis: np.ndarray

    def __init__(self, **arrays: Any) -> None:
        for name, dtype in _DTYPES.items():
            array = np.array(arrays[name], dtype=dtype, order="C")
            array.flags.writeable = False
            self.__dict__[name] = array

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
        return {name: getattr(self, name) for name in _DTYPES}

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.kind)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.child)

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return len(self.n_states)

    def edges_of_axis(self, var: int) -> np.ndarray:
        """The edges of the histogram axis of a variable; empty where it has none."""
        return self.axis[self.axis_ptr[var] : self.axis_ptr[var + 1]][1:-1]

    @cached_property
    def edge_parent(self) -> np.ndarray:
        """The node each edge starts from; int64 array of shape (n_edges,)."""
        return np.repeat(np.arange(self.n_nodes), np.diff(self.child_ptr))

    @cached_property
    def scopes(self) -> list[int]:
        """The scope of each node as the bits of an integer: bit ``v`` for variable ``v``."""
        return properties.scopes(self)

    @cached_property
    def depth(self) -> int:
        """Greatest number of edges between the root and a leaf."""
        return properties.depth(self)

    @cached_property
    def smooth(self) -> bool:
        """Whether the children of every sum have the same scope."""
        return properties.unsmooth_sum(self) is None

    @cached_property
    def decomposable(self) -> bool:
        """Whether the children of every product have disjoint scopes."""
        return properties.overlapping_product(self) is None

    @cached_property
    def deterministic(self) -> bool:
        """Whether at most one child of every sum is positive on any row."""
        return properties.is_deterministic(self)

    @cached_property
    def structured_decomposable(self) -> bool:
        """Whether all products of one scope split it in the same way."""
        return properties.is_structured_decomposable(self)
