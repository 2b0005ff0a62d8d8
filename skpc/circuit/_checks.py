"""The checks of every circuit, made once: when it is built, and when it is read from a file.

Kernels and queries rely on these checks and make none. Checks of single variables and leaves are
in ``skpc.variables.checks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpc._arrays import Bools, Ints, segment
from skpc.circuit._structure import (
    LEAF,
    PRODUCT,
    SUM,
    Structure,
    edges_from,
    overlapping_product,
    scope_text,
    unsmooth_sum,
)
from skpc.exceptions import StructureError
from skpc.variables.cells import needed_cell, unreadable
from skpc.variables.checks import TOLERANCE, check_families, check_params
from skpc.variables.families import FAMILIES
from skpc.variables.leaf_tables import only_possible_states, variable_of_two_families

if TYPE_CHECKING:
    from skpc.circuit._circuit import Circuit

KIND_NAMES = {LEAF: "leaf", SUM: "sum", PRODUCT: "product"}


def check_structure(structure: Structure) -> None:
    """Refuse nodes that make no smooth and decomposable circuit.

    The axes of the variables must have been checked before, by ``skpc.variables.checks``.
    """
    _check_layout(structure)
    check_families(structure.leaves, structure.n_states, structure.axis_ptr, structure.axis)
    # An inner node has no parameters; a leaf has as many as its family asks for.
    leaf = structure.kind == LEAF
    sizes = np.diff(structure.param_ptr)
    if np.any(sizes[leaf] != np.diff(structure.leaves.param_ptr)) or np.any(sizes[~leaf]):
        raise ValueError("param_ptr does not fit the families and numbers of states of the leaves")
    _check_scopes(structure)
    _check_use(structure)


def check_parameters(circuit: Circuit) -> None:
    """Refuse weights and parameters of leaves that make no distribution of a checked structure."""
    kind = circuit.kind
    parent = circuit.edge_parent
    # A product with weights would be no distribution.
    from_product = kind[parent] == PRODUCT
    product_edges = np.flatnonzero(from_product & (circuit.log_weight != 0.0))
    if len(product_edges):
        edge = product_edges[0]
        raise ValueError(
            f"the edges of product {parent[edge]} must have log weight 0, got "
            f"{circuit.log_weight[edge]}"
        )
    # Log weights above one are wrong anyway; here they must not overflow.
    total = np.bincount(parent, np.exp(np.minimum(circuit.log_weight, 1.0)), circuit.n_nodes)
    # The comparison is turned round so that NaN is refused, too.
    wrong = np.flatnonzero((kind == SUM) & ~(np.abs(total - 1.0) <= TOLERANCE))
    if len(wrong):
        raise ValueError(
            f"the weights of sum {wrong[0]} must add up to 1, got {total[wrong[0]]:.9g}"
        )
    check_params(circuit.structure.leaves, circuit.param, circuit.n_states)
    # Whether children exclude each other depends on the states that have positive probability.
    _check_decisions(circuit)
    if not np.isnan(circuit.observed).all():
        for var in unreadable(circuit.columns, circuit.observed):
            raise ValueError(
                f"what variable {var} has been conditioned on must be "
                f"{needed_cell(circuit.columns, var)} or NaN (nothing), got {circuit.observed[var]}"
            )


def _check_layout(structure: Structure) -> None:
    """Refuse arrays that do not fit each other, or point to what is not there."""
    n_nodes = structure.n_nodes
    n_edges = structure.n_edges
    if n_nodes == 0:
        raise ValueError("a circuit needs at least one node")
    sizes = {"leaf_family": n_nodes, "decision_var": n_nodes, "decision_state": n_edges}
    # Later checks index one array by another: all must have their lengths.
    for name, size in sizes.items():
        if len(getattr(structure, name)) != size:
            raise ValueError(f"{name} needs {size} entries, got {len(getattr(structure, name))}")
    check_pointer("child_ptr", structure.child_ptr, n_nodes, n_edges)
    check_pointer("scope_ptr", structure.scope_ptr, n_nodes, len(structure.scope))
    # The number of parameters is compared with the families of the leaves later.
    n_params = int(structure.param_ptr[-1:].sum())
    check_pointer("param_ptr", structure.param_ptr, n_nodes, n_params)
    check_pointer("axis_ptr", structure.axis_ptr, structure.n_features, len(structure.axis))
    # Children before parents: circles are impossible, and one pass in order is enough.
    if np.any(structure.child < 0) or np.any(structure.child >= structure.edge_parent):
        raise ValueError("children must stand before their parents")
    leaf = structure.kind == LEAF
    has_children = np.diff(structure.child_ptr) > 0
    if np.any(leaf != (np.diff(structure.scope_ptr) > 0)) or np.any(leaf == has_children):
        raise ValueError("leaves, and only leaves, need variables and have no children")
    decides = structure.decision_var >= 0
    # Numbers outside of these ranges would index the wrong entries without an error.
    within: list[tuple[str, Any, int, int]] = [
        ("kind", structure.kind, LEAF, PRODUCT),
        ("scope", structure.scope, 0, structure.n_features - 1),
        ("leaf_family of leaves", structure.leaf_family[leaf], 0, len(FAMILIES) - 1),
        ("leaf_family of sums and products", structure.leaf_family[~leaf], -1, -1),
        ("decision_var", structure.decision_var, -1, structure.n_features - 1),
        ("kind of deciding nodes", structure.kind[decides], SUM, SUM),
    ]
    for name, values, low, high in within:
        if np.any(values < low) or np.any(values > high):
            raise ValueError(f"{name} must hold numbers from {low} to {high}")


def check_pointer(name: str, ptr: Ints, n_parts: int, end: int) -> None:
    """Refuse offsets that do not cut an array of ``end`` entries into parts."""
    if len(ptr) != n_parts + 1 or ptr[0] != 0 or np.any(ptr[1:] < ptr[:-1]) or ptr[-1] != end:
        raise ValueError(f"{name} must be {n_parts + 1} increasing offsets from 0 to {end}")


def _check_scopes(structure: Structure) -> None:
    """Raise a StructureError that names the first node at fault, if there is one."""
    scope = structure.scopes
    show = scope_text
    overlap = overlapping_product(structure)
    uneven = unsmooth_sum(structure)
    if overlap is not None:
        node, below = overlap
        children = structure.child[segment(structure.child_ptr, node)]
        # A reader needs no more than eight children to see what is wrong.
        listed = "; ".join(f"node {c}: {show(scope[c])}" for c in children[:8].tolist())
        raise StructureError(
            f"product {node} needs children with disjoint scopes, but child {below} shares "
            f"variables with another ({listed})"
        )
    if uneven is not None:
        node, below = uneven
        raise StructureError(
            f"sum {node} needs children with one and the same scope {show(scope[node])}, but "
            f"child {below} has scope {show(scope[below])}"
        )
    # Bit v of a scope stands for variable v.
    everything = (1 << structure.n_features) - 1
    if scope[-1] != everything:
        raise StructureError(
            f"the root (node {structure.n_nodes - 1}) needs every variable in its scope, but it "
            f"lacks {show(everything & ~scope[-1])}"
        )


def _check_use(structure: Structure) -> None:
    """Refuse variables with leaves of two families, and nodes that nothing uses."""
    var = variable_of_two_families(structure.leaves)
    if var >= 0:
        raise StructureError(
            f"the leaves of variable {var} need one family, but there are leaves of several; "
            "mix those of one family"
        )
    used = np.zeros(structure.n_nodes, dtype=bool)
    used[structure.child] = True
    # The last node is the root.
    used[-1] = True
    if not used.all():
        node = int(np.flatnonzero(~used)[0])
        raise StructureError(
            f"{KIND_NAMES[int(structure.kind[node])]} {node} with scope "
            f"{scope_text(structure.scopes[node])} is not a child of any node; only the "
            "node added last is the root"
        )


def _check_decisions(circuit: Circuit) -> None:
    """Refuse sums that claim to decide on a variable, but whose children do not exclude each other.

    Each child must have all its mass on its own state: as a leaf, as a product that contains such
    a leaf or child, or as a sum of such children.
    """
    parent = circuit.edge_parent
    state = circuit.decision_state
    decided = circuit.decision_var[parent] >= 0
    # A state has no meaning below a node that decides on no variable.
    if np.any(state[~decided] != -1):
        raise ValueError("decision_state must be -1 below nodes that decide on no variable")
    if not decided.any():
        return
    parent = parent[decided]
    state = state[decided]
    child = circuit.child[decided]
    # Edges of one sum with the same state become neighbours.
    order = np.lexsort((state, parent))
    is_repeated = (np.diff(parent[order]) == 0) & (np.diff(state[order]) == 0)
    if is_repeated.any():
        node = int(parent[order[np.flatnonzero(is_repeated)[0]]])
        raise StructureError(
            f"sum {node} decides on variable {circuit.decision_var[node]} and needs distinct "
            f"states, got {state[parent == node].tolist()}"
        )
    # (n_decided_edges,): the variable that the parent of each edge decides on.
    var = circuit.decision_var[parent]
    is_only_state = (state >= 0) & _are_only_states(circuit, child, var, state)
    wrong = np.flatnonzero(~is_only_state)
    if len(wrong):
        edge = wrong[0]
        raise StructureError(
            f"child {child[edge]} of sum {parent[edge]} must contain an indicator of state "
            f"{state[edge]} of variable {var[edge]} to be decided by it"
        )


def _are_only_states(circuit: Circuit, node: Ints, var: Ints, state: Ints) -> Bools:
    """Whether a variable has its state with probability one below a node.

    ``node``, ``var`` and ``state`` have the same shape, and so does the answer.
    """
    asked_pairs = list(zip(var.tolist(), state.tolist()))
    # Bit i of a node stands for the i-th distinct pair of a variable and a state.
    pair_bit = {pair: 1 << number for number, pair in enumerate(dict.fromkeys(asked_pairs))}
    variable_bits: dict[int, int] = {}
    for (variable, _), bit in pair_bit.items():
        variable_bits[variable] = variable_bits.get(variable, 0) | bit
    every_bit = sum(pair_bit.values())
    # The pairs that have all the mass of each node.
    node_bits = [0] * circuit.n_nodes
    is_sum = (circuit.kind == SUM).tolist()
    for parent in np.flatnonzero(is_sum).tolist():
        # A sum that decides on the variable itself has several states.
        decided = variable_bits.get(int(circuit.decision_var[parent]), 0)
        node_bits[parent] = every_bit & ~decided
    leaves = circuit.structure.leaves
    leaf_states = only_possible_states(leaves, circuit.param).tolist()
    for leaf, pair in zip(leaves.node.tolist(), zip(leaves.var.tolist(), leaf_states)):
        node_bits[leaf] = pair_bit.get(pair, 0)
    # All children of a sum must agree on a state; of a product one child has the variable.
    for parent, child in edges_from(circuit.structure, SUM, PRODUCT):
        if is_sum[parent]:
            node_bits[parent] &= node_bits[child]
        else:
            node_bits[parent] |= node_bits[child]
    asked_nodes = zip(node.tolist(), asked_pairs)
    return np.array([node_bits[below] & pair_bit[pair] > 0 for below, pair in asked_nodes])
