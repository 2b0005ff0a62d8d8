"""Expected kernels between conditionals of two compatible circuits (Algorithm 1).

Nodes are paired scope by scope, small scopes first. In a pair of sums only the left one is
expanded: ``M(sum_i w_i p_i, q) = sum_i w_i M(p_i, q)``, and ``M(p_i, q)`` serves every sum that has
the child ``p_i``. So each pair is computed once, and a pair of sums costs as much as one sum has
children, not the product of their numbers.

``tests/naive/kernels.py`` says the same by double sums over rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import inlined, kernel
from skpc.circuit import LEAF, PRODUCT, SUM, Circuit, Structure, scope_text
from skpc.exceptions import IncompatibleError
from skpc.kernels import ColumnKernel, leaf_expectations
from skpc.kernels.joint import JointSide, joint_pair_expectations
from skpc.queries._conditionals import (
    Conditionals,
    Reached,
    inner_scopes,
    joint_groups,
    joint_places,
    joint_scopes,
    variables_of_leaves,
)
from skpc.queries.passes.plan import Plan, plan_of
from skpc.variables import ScoredColumn
from skpc.variables.leaf_queries import known_cells


class PairEvaluator:
    """Expected kernels between conditionals of two circuits.

    What depends on the circuits alone is prepared once.

    Parameters
    ----------
    p, q : Circuit
        Compatible circuits.
    factors : tuple of ColumnKernel
        The kernel of each variable.

    Raises
    ------
    IncompatibleError
        If the circuits split a scope in different ways.
    """

    def __init__(self, p: Circuit, q: Circuit, factors: tuple[ColumnKernel, ...]):
        self._circuits, self._factors = (p, q), factors
        *self._rankings, self._number = common_rankings(p, q)
        self._alone = variables_of_leaves(p) & variables_of_leaves(q)
        self._n_scopes = 1 + int(max(ranking.scope[-1] for ranking in self._rankings))
        self._leaves = [
            [circuit.leaf_forms(var) for circuit in (p, q)] for var in range(len(factors))
        ]
        self._of_leaves = [
            leaf_expectations(factor, *leaves) for factor, leaves in zip(factors, self._leaves)
        ]

    def __call__(self, left: Conditionals, right: Conditionals, *, upper: bool = False) -> Floats:
        """Expected kernel of each pair of conditionals.

        Parameters
        ----------
        left, right : Conditionals
            Conditionals of the two circuits.
        upper : bool, default=False
            Leave out the pairs below the diagonal.

        Returns
        -------
        ndarray of shape (n_left, n_right)
        """
        p, q = (
            rank(circuit, ranking, self._n_scopes, given)
            for circuit, ranking, given in zip(self._circuits, self._rankings, (left, right))
        )
        parts = [np.empty((0, 0))] * self._n_scopes
        parts[: len(self._factors)] = self._tables(p[1], q[1])
        for scope, part in self._joint_tables(left, right, upper).items():
            parts[scope] = part
        at, width = offsets([part.size for part in parts]), np.array([p.shape[1] for p in parts])
        table = np.concatenate([part.ravel() for part in parts])
        sizes = [np.diff(side[0].scope_ptr).max(axis=0) for side in (p, q)]
        values = np.empty(int(sizes[0] @ sizes[1]))
        out = np.zeros((len(left.cells), len(right.cells)))
        _evaluate(p[0], q[0], at, width, table, upper, values, out)
        return out

    def _tables(self, cells: list[Floats], others: list[Floats]) -> list[Floats]:
        """Expectations between leaves and known cells of each variable: the leaves come first."""
        p, q = (circuit.columns for circuit in self._circuits)
        parts = []
        for var, factor in enumerate(self._factors):
            if not self._alone[var]:
                parts.append(np.empty((0, 0)))
                continue
            known, other = known_cells(p, var, cells[var]), known_cells(q, var, others[var])
            leaves, other_leaves = self._leaves[var]
            above = [self._of_leaves[var], leaf_expectations(factor, leaves, other)]
            below = [
                leaf_expectations(factor, known, other_leaves),
                leaf_expectations(factor, known, other),
            ]
            parts.append(np.block([above, below]))
        return parts

    def _joint_tables(
        self, left: Conditionals, right: Conditionals, upper: bool
    ) -> dict[int, Floats]:
        """Expectations between the leaves of several variables, by the numbers of their scopes."""
        p, q = self._circuits
        scopes, groups = joint_scopes(q), joint_groups(q)
        tables = {}
        for scope, of_p, normals in zip(joint_scopes(p), joint_groups(p), left.joint):
            if scope in scopes:
                at = scopes.index(scope)
                sides = (
                    JointSide(of_p, p.columns, normals),
                    JointSide(groups[at], q.columns, right.joint[at]),
                )
                factors = [self._factors[var] for var in of_p.variables]
                tables[self._number[scope]] = joint_pair_expectations(factors, *sides, upper=upper)
        return tables


@kernel(new_arrays=True)
def _evaluate(
    p: Ranked,
    q: Ranked,
    at: Ints,
    width: Ints,
    table: Floats,
    upper: bool,
    values: Floats,
    out: Floats,
) -> None:
    """Algorithm 1 for each pair of rows.

    Parameters
    ----------
    p, q : Ranked
        The conditionals.
    at, width : arrays of shape (n_scopes,)
        Where the table of each scope begins, and its number of columns.
    table : array
        Expectations between leaves and known cells, scope by scope.
    upper : bool
        Whether to leave out the pairs below the diagonal.
    values : array
        Workspace: the expectations of the pairs of nodes of two rows.
    out : array of shape (n_left, n_right)
        Takes the expectations of the roots.
    """
    n_scopes = p.scope_ptr.shape[1] - 1
    begin = np.empty(n_scopes, np.int64)
    for r in range(out.shape[0]):
        for s in range(r if upper else 0, out.shape[1]):
            filled = 0
            for scope in range(n_scopes):
                x0, x1 = p.scope_ptr[r, scope], p.scope_ptr[r, scope + 1]
                y0, y1 = q.scope_ptr[s, scope], q.scope_ptr[s, scope + 1]
                begin[scope] = filled
                n = y1 - y0
                for x in range(x0, x1):
                    for y in range(y0, y1):
                        first, last = p.arg_ptr[x], p.arg_ptr[x + 1]
                        other = q.arg_ptr[y]
                        expectation = 0.0
                        if p.kind[x] == SUM:
                            if q.entered[y] == 0:
                                # Nobody reads it while the left side is a sum.
                                continue
                            for k in range(first, last):
                                expectation += (
                                    p.weight[k] * values[begin[scope] + p.place[k] * n + y - y0]
                                )
                        elif q.kind[y] == SUM:
                            for k in range(other, q.arg_ptr[y + 1]):
                                expectation += (
                                    q.weight[k] * values[begin[scope] + (x - x0) * n + q.place[k]]
                                )
                        elif p.kind[x] == LEAF:
                            # The scopes of single variables come first, in their order.
                            expectation = table[
                                at[scope] + p.place[first] * width[scope] + q.place[other]
                            ]
                        else:
                            expectation = 1.0
                            for k in range(first, last):
                                below = p.scope[k]
                                m = q.scope_ptr[s, below + 1] - q.scope_ptr[s, below]
                                expectation *= values[
                                    begin[below] + p.place[k] * m + q.place[other + k - first]
                                ]
                        values[filled + (x - x0) * n + y - y0] = expectation
                filled += (x1 - x0) * n
            out[r, s] = values[filled - 1]


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
    for scope in p.splits.keys() & q.splits.keys():
        for parts, node in p.splits[scope].items():
            for others, other in q.splits[scope].items():
                if parts != others:
                    differ = _difference(scope, (parts, node), (others, other), p is q)
                    raise IncompatibleError(differ)


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
        observed = ~np.isnan(given.cells[:, var])
        values, which = np.unique(given.cells[observed, var], return_inverse=True)
        cell_place[observed, var] = len(on_var) + which
        distinct.append(values)
    joint, joint_place = joint_places(circuit, given)
    # At most every child in the conditionals is a leaf with an entry and a child of its own.
    n_children = len(given.reached.arg)
    n_entries, n_args = len(given.reached.node) + n_children, 2 * n_children
    ranked = Ranked(
        np.empty((n_rows, n_scopes + 1), dtype=np.int64),
        np.empty(n_entries, dtype=np.int64),
        np.empty(n_entries, dtype=np.int8),
        np.zeros(n_entries + 1, dtype=np.int64),
        np.empty(n_args, dtype=np.int64),
        np.empty(n_args, dtype=np.int64),
        np.empty(n_args),
    )
    _sort(plan, ranking, given.reached, leaf_place, cell_place, joint, joint_place, ranked)
    return ranked, distinct


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


@kernel(new_arrays=True)
def _sort(
    plan: Plan,
    ranking: Ranking,
    given: Reached,
    leaf_place: Ints,
    cell_place: Ints,
    joint: Ints,
    joint_place: Ints,
    ranked: Ranked,
) -> None:
    """Enter the reached nodes of each row in the order of their ranks.

    Parameters
    ----------
    plan, ranking, given : Plan, Ranking and Reached
        The order of the nodes, their ranks, and which of them each row reaches.
    leaf_place, cell_place : arrays of shape (n_leaves,) and (n_rows, n_features)
        Places of leaves and of known cells (-1: missing) in the tables of their variables.
    joint, joint_place : arrays
        See :func:`joint_places`.
    ranked : Ranked
        Takes the entries.
    """
    ptr, node, arg_ptr = given.ptr, given.node, given.arg_ptr
    arg, posterior = given.arg, given.weight
    n_ranks = len(ranking.scope)
    n_scopes = ranked.scope_ptr.shape[1] - 1
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
        ranked.scope_ptr[r, 0] = n_entries
        for y in range(n_ranks):
            while scope < ranking.scope[y]:
                scope += 1
                ranked.scope_ptr[r, scope] = n_entries
            if source[y] < 0:
                continue
            place[y] = n_entries - ranked.scope_ptr[r, scope]
            ranked.kind[n_entries] = ranking.kind[y]
            ranked.entered[n_entries] = ranking.entered[y]
            if ranking.kind[y] == LEAF:
                ranked.place[n_args] = source[y]
                n_args += 1
            else:
                e = source[y]
                for k in range(arg_ptr[e], arg_ptr[e + 1]):
                    a = arg[k]
                    if ranking.kind[y] == PRODUCT:
                        # All children of a product are reached.
                        a = ranking.order[plan.ptr[node[e]] + k - arg_ptr[e]]
                    below = _rank_of_child(plan, ranking, a, r, cell_place, joint)
                    ranked.scope[n_args] = ranking.scope[below]
                    ranked.place[n_args] = place[below]
                    ranked.weight[n_args] = posterior[k]
                    n_args += 1
            n_entries += 1
            ranked.arg_ptr[n_entries] = n_args
        while scope < n_scopes:
            scope += 1
            ranked.scope_ptr[r, scope] = n_entries
