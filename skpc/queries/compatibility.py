"""The nodes of two compatible circuits in one common order of their scopes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import inlined, kernel
from skpc.circuit import LEAF, PRODUCT, SUM, Circuit, Structure, scope_text
from skpc.exceptions import IncompatibleError
from skpc.queries._conditionals import (
    Conditionals,
    Reached,
    inner_scopes,
    joint_places,
    joint_scopes,
)
from skpc.queries.passes.plan import Plan, plan_of
from skpc.variables import ScoredColumn


class Ranking(NamedTuple):
    """What stands where: scopes, small ones first, and within each its leaves before its sums.

    The known cell of a variable takes the place of its leaves and has a rank of its own.

    Attributes
    ----------
    of_inner, of_leaf, of_cell : int64 arrays
        Rank of each inner node, of each leaf, of the known cell of each variable.
    scope : int64 array of shape (n_ranks,)
        Scope, in a numbering common to both circuits.
    kind : int64 array of shape (n_ranks,)
        Leaf (or cell), sum or product; a product of one child counts as a sum.
    entered : int8 array of shape (n_ranks,)
        Whether it is the root or the child of a product.
    order : int64 array of shape (n_arguments,)
        The arguments of each node, those of products in the order of their scopes.
    """

    of_inner: Ints
    of_leaf: Ints
    of_cell: Ints
    scope: Ints
    kind: Ints
    entered: NDArray[np.int8]
    order: Ints


class Ranked(NamedTuple):
    """Conditionals with the nodes they reach sorted by rank.

    Attributes
    ----------
    scope_ptr : int64 array of shape (n_rows, n_scopes + 1)
        The entries of row r in scope s are ``scope_ptr[r, s] .. scope_ptr[r, s + 1]``.
    kind : int64 array of shape (n_entries,)
        Leaf, sum or product.
    entered : int8 array of shape (n_entries,)
        Whether it is the root or the child of a product.
    arg_ptr : int64 array of shape (n_entries + 1,)
        The children of entry x are ``arg_ptr[x] .. arg_ptr[x + 1]``; a leaf has one.
    scope, place : int64 arrays
        Scope of a child and its place among the row's entries there. In a leaf, the variable and
        the place in its table.
    weight : array
        Posterior weight of a child.
    """

    scope_ptr: Ints
    kind: Ints
    entered: NDArray[np.int8]
    arg_ptr: Ints
    scope: Ints
    place: Ints
    weight: Floats


def common_rankings(p: Circuit, q: Circuit) -> tuple[Ranking, Ranking, dict[int, int]]:
    """Rank the nodes of two circuits, or raise where they split a scope in different ways.

    Returns the two rankings, and the number of each scope that they have in common.
    """
    _refuse_different_variables(p.structure, q.structure)
    _refuse_different_splits(p.structure, q.structure)
    scopes = {1 << var for var in range(p.n_features)}
    for circuit in (p, q):
        scopes |= {*inner_scopes(circuit.structure).number, *joint_scopes(circuit)}
    in_order = sorted(scopes, key=lambda scope: (scope.bit_count(), scope))
    number = {scope: place for place, scope in enumerate(in_order)}
    return _ranking(p.structure, number), _ranking(q.structure, number), number


def _refuse_different_variables(p: Structure, q: Structure) -> None:
    if p.n_features != q.n_features:
        raise IncompatibleError(
            "an expected kernel needs two circuits over the same variables, got one over "
            f"{p.n_features} and one over {q.n_features} of them"
        )
    of_p, of_q = _kinds(p), _kinds(q)
    for var, (kind, other) in enumerate(zip(of_p, of_q)):
        if kind != other:
            raise IncompatibleError(
                "an expected kernel needs two circuits over the same variables, but variable "
                f"{var} is {kind} in the first and {other} in the second"
            )
        if _score(p, var) != _score(q, var):
            raise IncompatibleError(
                "an expected kernel compares numbers by their scores, and needs two circuits with "
                f"the same ones; those of variable {var} differ"
            )


def _score(structure: Structure, var: int) -> Any:
    """The score of a variable, if it has one."""
    part = structure.axis[structure.axis_ptr[var] : structure.axis_ptr[var + 1]]
    has_one = len(part) and structure.axis_of(var) is None
    return ScoredColumn.from_flat(part).score if has_one else None


def _kinds(structure: Structure) -> list[str]:
    return [
        f"categorical with {count} states" if is_categorical else "numeric"
        for is_categorical, count in zip(structure.is_categorical, structure.n_states)
    ]


def _refuse_different_splits(p: Structure, q: Structure) -> None:
    of_p, of_q = _splits(p), _splits(q)
    for scope in of_p.keys() & of_q.keys():
        for parts, node in of_p[scope].items():
            for others, other in of_q[scope].items():
                if parts != others:
                    differ = _difference(scope, (parts, node), (others, other), p is q)
                    raise IncompatibleError(differ)


def _splits(structure: Structure) -> dict[int, dict[frozenset[int], int]]:
    """The ways in which products split each scope, with a product that does.

    A leaf of several variables takes its scope as a whole.
    """
    scope, ptr, child = structure.scopes, structure.child_ptr.tolist(), structure.child.tolist()
    found: dict[int, dict[frozenset[int], int]] = {}
    for node in np.flatnonzero(structure.kind == PRODUCT).tolist():
        parts = frozenset(scope[below] for below in child[ptr[node] : ptr[node + 1]])
        if len(parts) > 1:
            found.setdefault(scope[node], {}).setdefault(parts, node)
    for node in np.flatnonzero(np.diff(structure.scope_ptr) > 1).tolist():
        found.setdefault(scope[node], {}).setdefault(frozenset([scope[node]]), node)
    return found


def _difference(
    scope: int, of_p: tuple[frozenset[int], int], of_q: tuple[frozenset[int], int], is_same: bool
) -> str:
    """That two circuits, or one, split a scope in different ways, each given with its node."""
    (parts, node), (others, other) = of_p, of_q
    shown, listed, by_others = scope_text(scope), _listed(parts), _listed(others)
    of_first, of_second = ("", "") if is_same else (" of the first", " of the second")
    if len(parts) == 1:
        first = f"leaf {node}{of_first} takes {shown} as a whole"
        second = f"product {other}{of_second} splits it into {by_others}"
    else:
        first = f"product {node}{of_first} splits {shown} into {listed}"
        second = f"product {other}{of_second} into {by_others}"
    if len(others) == 1:
        second = f"leaf {other}{of_second} takes it as a whole"
    if is_same:
        return (
            "an expected kernel of a circuit with itself needs a structured-decomposable circuit, "
            f"which splits every scope in one way, but {first} and {second}; draw rows from it and "
            "pass them in its place"
        )
    return (
        "an expected kernel needs circuits that split every scope in the same way, but "
        f"{first} and {second}; draw rows from one of the two and pass them as points instead"
    )


def _listed(parts: frozenset[int]) -> str:
    return " x ".join(scope_text(part) for part in sorted(parts))


def _ranking(structure: Structure, number: dict[int, int]) -> Ranking:
    plan = plan_of(structure).plan
    n_inner, n_leaves, n_features = len(plan.is_sum), len(plan.leaves.var), structure.n_features
    of_var = np.array([number[1 << var] for var in range(n_features)])
    of_inner = np.array([number[scope] for scope in inner_scopes(structure).number])
    of_leaf = np.array([number[structure.scopes[node]] for node in structure.leaves.node.tolist()])
    scope = np.concatenate([of_var, of_leaf, of_inner])
    kind = np.full(len(scope), LEAF)
    is_sum = (plan.is_sum == 1) | (np.diff(plan.ptr) == 1)
    kind[n_features + n_leaves :] = np.where(is_sum, SUM, PRODUCT)
    entered = np.zeros(len(scope), dtype=np.int8)
    entered[: n_features + n_leaves] = entered[-1] = 1
    of_product = ~np.repeat(is_sum, np.diff(plan.ptr))
    inner = plan.arg >= 0
    entered[n_features + n_leaves + plan.arg[inner & of_product]] = 1
    below = np.empty(len(plan.arg), dtype=np.int64)
    below[inner] = of_inner[plan.arg[inner]]
    below[~inner] = of_leaf[~plan.arg[~inner]]
    parent = np.repeat(np.arange(n_inner), np.diff(plan.ptr))
    order = np.argsort(scope, kind="stable")
    of_node = np.empty(len(order), dtype=np.int64)
    of_node[order] = np.arange(len(order))
    return Ranking(
        of_node[n_features + n_leaves :].copy(),
        of_node[n_features : n_features + n_leaves].copy(),
        of_node[:n_features].copy(),
        scope[order],
        kind[order],
        entered[order],
        np.lexsort((np.where(of_product, below, 0), parent)),
    )


def rank(
    circuit: Circuit, ranking: Ranking, n_scopes: int, given: Conditionals
) -> tuple[Ranked, list[Floats]]:
    """Sort the nodes that conditionals reach; also list the distinct known cells of each variable.

    In the table of a variable its leaves come first, in the order of the nodes, and then these. In
    that of several variables each leaf of each row has a place, in the order of the conditionals.
    """
    plan = plan_of(circuit.structure).plan
    n_rows, n_features = given.cells.shape
    leaf_place = np.empty(len(plan.leaves.var), dtype=np.int64)
    cell_place = np.full(given.cells.shape, -1)
    distinct = []
    for var in range(n_features):
        on_var = circuit.structure.leaves.with_variable(var)
        leaf_place[on_var] = np.arange(len(on_var))
        seen = ~np.isnan(given.cells[:, var])
        values, which = np.unique(given.cells[seen, var], return_inverse=True)
        cell_place[seen, var] = len(on_var) + which
        distinct.append(values)
    joint, joint_place = joint_places(circuit, given)
    # At most every child in the conditionals is a leaf with an entry and a child of its own.
    n_children = len(given.reached.arg)
    n_entries, n_args = len(given.reached.node) + n_children, 2 * n_children
    found = Ranked(
        np.empty((n_rows, n_scopes + 1), dtype=np.int64),
        np.empty(n_entries, dtype=np.int64),
        np.empty(n_entries, dtype=np.int8),
        np.zeros(n_entries + 1, dtype=np.int64),
        np.empty(n_args, dtype=np.int64),
        np.empty(n_args, dtype=np.int64),
        np.empty(n_args),
    )
    _sort(plan, ranking, given.reached, leaf_place, cell_place, joint, joint_place, found)
    return found, distinct


@inlined
def _rank_of_child(
    plan: Plan, ranking: Ranking, a: int, r: int, cell_place: Ints, joint: Ints
) -> int:
    child = plan.arg[a]
    if child >= 0:
        return ranking.of_inner[child]
    var = plan.leaves.var[~child]
    is_leaf = joint[~child] >= 0 or cell_place[r, var] < 0
    return ranking.of_leaf[~child] if is_leaf else ranking.of_cell[var]


@kernel
def _sort(
    plan: Plan,
    ranking: Ranking,
    given: Reached,
    leaf_place: Ints,
    cell_place: Ints,
    joint: Ints,
    joint_place: Ints,
    found: Ranked,
) -> None:
    """Enter the reached nodes of each row in the order of their ranks."""
    ptr, node, arg_ptr = given.ptr, given.node, given.arg_ptr
    arg, posterior = given.arg, given.weight
    n_ranks = len(ranking.scope)
    n_scopes = found.scope_ptr.shape[1] - 1
    # What is known of a rank in the present row: the entry of the conditional that it is (-1: not
    # reached), in the table of its variable for a leaf; and its place within its scope.
    source = np.empty(n_ranks, np.int64)
    place = np.empty(n_ranks, np.int64)
    n_entries = 0
    n_args = 0
    for r in range(len(ptr) - 1):
        source[:] = -1
        for e in range(ptr[r], ptr[r + 1]):
            source[ranking.of_inner[node[e]]] = e
            for k in range(arg_ptr[e], arg_ptr[e + 1]):
                child = plan.arg[arg[k]]
                if child < 0:
                    cell = cell_place[r, plan.leaves.var[~child]]
                    y = _rank_of_child(plan, ranking, arg[k], r, cell_place, joint)
                    source[y] = leaf_place[~child] if cell < 0 else cell
                    if joint[~child] >= 0:
                        source[y] = joint_place[r, joint[~child]]
        scope = 0
        found.scope_ptr[r, 0] = n_entries
        for y in range(n_ranks):
            while scope < ranking.scope[y]:
                scope += 1
                found.scope_ptr[r, scope] = n_entries
            if source[y] < 0:
                continue
            place[y] = n_entries - found.scope_ptr[r, scope]
            found.kind[n_entries] = ranking.kind[y]
            found.entered[n_entries] = ranking.entered[y]
            if ranking.kind[y] == LEAF:
                found.place[n_args] = source[y]
                n_args += 1
            else:
                e = source[y]
                for k in range(arg_ptr[e], arg_ptr[e + 1]):
                    a = arg[k]
                    if ranking.kind[y] == PRODUCT:
                        # All children of a product are reached.
                        a = ranking.order[plan.ptr[node[e]] + k - arg_ptr[e]]
                    below = _rank_of_child(plan, ranking, a, r, cell_place, joint)
                    found.scope[n_args] = ranking.scope[below]
                    found.place[n_args] = place[below]
                    found.weight[n_args] = posterior[k]
                    n_args += 1
            n_entries += 1
            found.arg_ptr[n_entries] = n_args
        while scope < n_scopes:
            scope += 1
            found.scope_ptr[r, scope] = n_entries
