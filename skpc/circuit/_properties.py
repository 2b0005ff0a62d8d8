"""Facts about a structure: scopes, smoothness, decomposability, determinism."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skpc.circuit._structure import Structure

LEAF, SUM, PRODUCT = 0, 1, 2


def scopes(structure: Structure) -> list[int]:
    """The scope of every node, as an integer whose bit ``v`` stands for variable ``v``."""
    ptr, child = structure.child_ptr.tolist(), structure.child.tolist()
    found = [0] * structure.n_nodes
    owner = np.repeat(np.arange(structure.n_nodes), np.diff(structure.scope_ptr))
    for node, var in zip(owner.tolist(), structure.scope.tolist()):
        found[node] |= 1 << var
    for node in np.flatnonzero(structure.kind != LEAF).tolist():
        for below in child[ptr[node] : ptr[node + 1]]:
            found[node] |= found[below]
    return found


def depth(structure: Structure) -> int:
    """Greatest number of edges between the root and a leaf."""
    ptr, child = structure.child_ptr.tolist(), structure.child.tolist()
    height: list[int] = []
    for node in range(structure.n_nodes):
        below = child[ptr[node] : ptr[node + 1]]
        height.append(1 + max(height[part] for part in below) if below else 0)
    return height[-1]


def unsmooth_sum(structure: Structure) -> tuple[int, int] | None:
    """The first sum (and its child) whose scope differs from that of the child."""
    scope = structure.scopes
    ptr, child = structure.child_ptr.tolist(), structure.child.tolist()
    for node in np.flatnonzero(structure.kind == SUM).tolist():
        for below in child[ptr[node] : ptr[node + 1]]:
            if scope[below] != scope[node]:
                return node, below
    return None


def overlapping_product(structure: Structure) -> tuple[int, int] | None:
    """The first product with a child that shares variables with an earlier one of its children."""
    scope = structure.scopes
    ptr, child = structure.child_ptr.tolist(), structure.child.tolist()
    for node in np.flatnonzero(structure.kind == PRODUCT).tolist():
        seen = 0
        for below in child[ptr[node] : ptr[node + 1]]:
            if seen & scope[below]:
                return node, below
            seen |= scope[below]
    return None


def is_deterministic(structure: Structure) -> bool:
    """Whether every sum of two or more children decides on a variable.

    The builder has checked that the children of a deciding sum exclude each other.
    """
    n_children = np.diff(structure.child_ptr)
    branching = (structure.kind == SUM) & (n_children > 1)
    return bool(np.all(structure.decision_var[branching] >= 0))


def is_structured_decomposable(structure: Structure) -> bool:
    """Whether any two products of equal scope split it into the same parts.

    A leaf of several variables leaves its scope whole.
    """
    scope = structure.scopes
    ptr, child = structure.child_ptr.tolist(), structure.child.tolist()
    split: dict[int, frozenset[int]] = {}
    for node in np.flatnonzero(np.diff(structure.scope_ptr) > 1).tolist():
        split[scope[node]] = frozenset([scope[node]])
    for node in np.flatnonzero(structure.kind == PRODUCT).tolist():
        parts = frozenset(scope[below] for below in child[ptr[node] : ptr[node + 1]])
        if split.setdefault(scope[node], parts) != parts:
            return False
    return structure.smooth and structure.decomposable


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
    found = [bit for bit in range(scope.bit_length()) if scope >> bit & 1]
    shown = ", ".join(str(variable) for variable in found[:most])
    more = f", ... ({len(found)} variables)" if len(found) > most else ""
    return "{" + shown + more + "}"
