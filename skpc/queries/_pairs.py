"""Expected kernels between conditionals of two compatible circuits (Algorithm 1).

Nodes are paired scope by scope, small scopes first. In a pair of sums only the left one is
expanded: ``M(sum_i w_i p_i, q) = sum_i w_i M(p_i, q)``, and ``M(p_i, q)`` serves every sum that has
the child ``p_i``. So each pair is computed once, and a pair of sums costs as much as one sum has
children, not the product of their numbers.

``tests/naive/kernels.py`` says the same by double sums over rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import kernel
from skpc.circuit import LEAF, PRODUCT, SUM, Circuit, Structure, scope_text
from skpc.exceptions import IncompatibleError
from skpc.kernels import ColumnKernel, leaf_expectations
from skpc.kernels.joint import JointSide, joint_pair_expectations
from skpc.queries._conditionals import (
    Conditionals,
    inner_scopes,
    joint_groups,
    joint_places,
    joint_scopes,
    variables_of_leaves,
)
from skpc.queries.passes.plan import plan_of
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

    def ranked(self, side: int, given: Conditionals) -> RankedConditionals:
        """Conditionals of the circuit on one side (0 or 1), as the evaluator takes them."""
        return rank(self._circuits[side], self._rankings[side], self._n_scopes, given)

    def __call__(
        self, left: RankedConditionals, right: RankedConditionals, *, upper: bool = False
    ) -> Floats:
        """Expected kernel of each pair of conditionals.

        Parameters
        ----------
        left, right : RankedConditionals
            Conditionals of the two circuits.
        upper : bool, default=False
            Leave out the pairs below the diagonal.

        Returns
        -------
        ndarray of shape (n_left, n_right)
        """
        tables = self._tables(left.distinct, right.distinct)
        tables |= self._joint_tables(left.given, right.given, upper)
        parts = [tables.get(scope, np.empty((0, 0))) for scope in range(self._n_scopes)]
        at, width = offsets([part.size for part in parts]), np.array([p.shape[1] for p in parts])
        table = np.concatenate([part.ravel() for part in parts])
        sizes = [np.diff(side.entries.scope_ptr).max(axis=0) for side in (left, right)]
        values = np.empty(int(sizes[0] @ sizes[1]))
        out = np.zeros((len(left.given.cells), len(right.given.cells)))
        _evaluate(left.entries, right.entries, at, width, table, upper, values, out)
        return out

    def _tables(self, cells: list[Floats], others: list[Floats]) -> dict[int, Floats]:
        """Expectations between leaves and known cells of each variable: the leaves come first."""
        p, q = (circuit.columns for circuit in self._circuits)
        tables = {}
        # The scopes of single variables have their numbers.
        for var in np.flatnonzero(self._alone).tolist():
            factor = self._factors[var]
            known, other = known_cells(p, var, cells[var]), known_cells(q, var, others[var])
            leaves, other_leaves = self._leaves[var]
            above = [self._of_leaves[var], leaf_expectations(factor, leaves, other)]
            below = [leaf_expectations(factor, known, right) for right in (other_leaves, other)]
            tables[var] = np.block([above, below])
        return tables

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
                of_q, others = groups[at], right.joint[at]
                # Leaves of one scope may have their variables in several orders.
                rank = np.argsort(np.argsort(of_p.variables))
                order = np.argsort(of_q.variables)[rank]
                one = JointSide(of_p, p.columns, normals)
                other = JointSide(of_q.taken(order), q.columns, others.taken(order))
                factors = [self._factors[var] for var in of_p.variables]
                table = joint_pair_expectations(factors, one, other, upper=upper)
                tables[self._number[scope]] = table
        return tables


@kernel(new_arrays=True)
def _evaluate(
    p: Entries,
    q: Entries,
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
    p, q : Entries
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
            # Small scopes first: the children of a pair come before it.
            for scope in range(n_scopes):
                x0, x1 = p.scope_ptr[r, scope], p.scope_ptr[r, scope + 1]
                y0, y1 = q.scope_ptr[s, scope], q.scope_ptr[s, scope + 1]
                begin[scope] = filled
                # The pairs of a scope are a matrix, a line for each node of the left side.
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
                            # Only the left side is expanded: each pair is computed once.
                            for k in range(first, last):
                                expectation += (
                                    p.weight[k] * values[begin[scope] + p.place[k] * n + y - y0]
                                )
                        elif q.kind[y] == SUM:
                            # The left side is no sum: its turn has come.
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
                            # Both products have their children in the order of the scopes, so
                            # that these match one by one.
                            expectation = 1.0
                            for k in range(first, last):
                                below = p.scope[k]
                                m = q.scope_ptr[s, below + 1] - q.scope_ptr[s, below]
                                expectation *= values[
                                    begin[below] + p.place[k] * m + q.place[other + k - first]
                                ]
                        values[filled + (x - x0) * n + y - y0] = expectation
                filled += (x1 - x0) * n
            # The roots have the largest scope: their pair is the last.
            out[r, s] = values[filled - 1]


class Ranking(NamedTuple):
    """What stands where: scopes, small ones first, and within each its leaves before its sums.

    The known cell of a variable takes the place of its leaves and has a rank of its own.

    Attributes
    ----------
    of_node : int64 array of shape (n_ranks,)
        Rank of the known cell of each variable, of each leaf, and of each inner node.
    scope : int64 array of shape (n_ranks,)
        Scope, in a numbering common to both circuits.
    kind : int64 array of shape (n_ranks,)
        Leaf (or cell), sum or product; a product of one child counts as a sum.
    entered : int8 array of shape (n_ranks,)
        Whether it is the root or the child of a product.
    """

    of_node: Ints
    scope: Ints
    kind: Ints
    entered: NDArray[np.int8]


class Entries(NamedTuple):
    """The nodes that conditionals reach, sorted by rank.

    Attributes
    ----------
    scope_ptr : int64 array of shape (n_rows, n_scopes + 1)
        The entries of row r in scope s are ``scope_ptr[r, s] .. scope_ptr[r, s + 1]``.
    kind : int64 array of shape (n_entries,)
        Leaf, sum or product.
    entered : int8 array of shape (n_entries,)
        Whether it is the root or the child of a product.
    arg_ptr : int64 array of shape (n_entries + 1,)
        The children of entry x are ``arg_ptr[x] .. arg_ptr[x + 1]``, those of products in the
        order of their scopes; a leaf has one.
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


class RankedConditionals(NamedTuple):
    """Conditionals, the nodes that they reach, and the distinct known cells of each variable.

    In the table of a variable its leaves come first, in the order of the nodes, and then the known
    cells. In that of several variables each leaf of each row has a place, in the order of the
    conditionals.
    """

    given: Conditionals
    entries: Entries
    distinct: list[Floats]


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
        first, second = (getattr(side.axis_of(var), "score", None) for side in (p, q))
        if first != second:
            raise IncompatibleError(
                "an expected kernel compares numbers by their scores, and needs two circuits with "
                f"the same ones; those of variable {var} differ"
            )


def _kinds(structure: Structure) -> list[str]:
    return [
        f"categorical with {count} states" if is_categorical else "numeric"
        for is_categorical, count in zip(structure.is_categorical, structure.n_states)
    ]


def _refuse_different_splits(p: Structure, q: Structure) -> None:
    for scope in p.splits.keys() & q.splits.keys():
        for split in p.splits[scope].items():
            for other in q.splits[scope].items():
                if split[0] != other[0]:
                    raise IncompatibleError(_difference(scope, split, other, p is q))


def _difference(
    scope: int, of_p: tuple[frozenset[int], int], of_q: tuple[frozenset[int], int], is_same: bool
) -> str:
    """That two circuits, or one, split a scope in different ways, each given with its node."""
    needed = " needs circuits that split every scope in the same way"
    owners = " of the first", " of the second"
    if is_same:
        needed = " of a circuit with itself needs a structured-decomposable circuit"
        owners = "", ""
    first, second = (_split_text(scope, *one, of) for one, of in zip((of_p, of_q), owners))
    return (
        f"an expected kernel{needed}, but {first} and {second}; draw rows from a circuit and pass "
        "them as points in its place"
    )


def _split_text(scope: int, parts: frozenset[int], node: int, owner: str) -> str:
    if len(parts) == 1:
        return f"leaf {node}{owner} takes {scope_text(scope)} as a whole"
    listed = " x ".join(scope_text(part) for part in sorted(parts))
    return f"product {node}{owner} splits {scope_text(scope)} into {listed}"


def _ranking(structure: Structure, number: dict[int, int]) -> Ranking:
    plan = plan_of(structure).plan
    n_leaves, n_features = len(plan.leaves.var), structure.n_features
    of_var = np.array([number[1 << var] for var in range(n_features)])
    of_inner = np.array([number[scope] for scope in inner_scopes(structure).number])
    of_leaf = np.array([number[structure.scopes[node]] for node in structure.leaves.node.tolist()])
    scope = np.concatenate([of_var, of_leaf, of_inner])
    kind = np.full(len(scope), LEAF)
    is_sum = (plan.is_sum == 1) | (np.diff(plan.ptr) == 1)
    kind[n_features + n_leaves :] = np.where(is_sum, SUM, PRODUCT)
    entered = np.zeros(len(scope), dtype=np.int8)
    # What only sums read is skipped while the other side is a sum.
    entered[: n_features + n_leaves] = entered[-1] = 1
    of_product = ~np.repeat(is_sum, np.diff(plan.ptr))
    inner = plan.arg >= 0
    entered[n_features + n_leaves + plan.arg[inner & of_product]] = 1
    order = np.argsort(scope, kind="stable")
    of_node = np.empty(len(order), dtype=np.int64)
    of_node[order] = np.arange(len(order))
    return Ranking(of_node, scope[order], kind[order], entered[order])


def rank(
    circuit: Circuit, ranking: Ranking, n_scopes: int, given: Conditionals
) -> RankedConditionals:
    """Sort the nodes that conditionals reach by row and rank."""
    plan, reached = plan_of(circuit.structure).plan, given.reached
    n_rows, n_ranks = len(given.cells), len(ranking.scope)
    leaf_place, cell_place, distinct = _places(circuit, given.cells)
    joint, joint_place = joint_places(circuit, given)
    row_of_entry = np.repeat(np.arange(n_rows), np.diff(reached.ptr))
    entry = np.repeat(np.arange(len(reached.node)), np.diff(reached.arg_ptr))
    row, child = row_of_entry[entry], plan.arg[reached.arg]
    is_leaf, first_leaf = child < 0, circuit.n_features
    first_inner = first_leaf + len(plan.leaves.var)
    of_row, leaf = row[is_leaf], ~child[is_leaf]
    var, number = plan.leaves.var[leaf], joint[leaf]
    # A leaf of several variables has a table of its own, with the known cells in it.
    cell = np.where(number < 0, cell_place[of_row, var], -1)
    node = first_inner + child
    node[is_leaf] = np.where(cell < 0, first_leaf + leaf, var)
    # Keys count rows and, within them, ranks.
    below = row * n_ranks + ranking.of_node[node]
    place_of_leaf = np.where(cell < 0, leaf_place[leaf], cell)
    several = number >= 0
    place_of_leaf[several] = joint_place[of_row[several], number[several]]
    inner = row_of_entry * n_ranks + ranking.of_node[first_inner + reached.node]
    # Parents share leaves: each is one entry of its row.
    leaves, first = np.unique(below[is_leaf], return_index=True)
    keys = np.sort(np.concatenate([inner, leaves]))
    row_of_key, rank_of_key = np.divmod(keys, n_ranks)
    scope = ranking.scope[rank_of_key]
    every = np.arange(n_rows)[:, np.newaxis] * n_scopes + np.arange(n_scopes + 1)
    scope_ptr = np.searchsorted(row_of_key * n_scopes + scope, every)
    place = np.arange(len(keys)) - scope_ptr[row_of_key, scope]
    parent, at = np.searchsorted(keys, inner)[entry], np.searchsorted(keys, below)
    # The place of a leaf in its table stands where others have their children.
    owner = np.concatenate([parent, np.searchsorted(keys, leaves)])
    of_product = ranking.kind[rank_of_key[parent]] == PRODUCT
    in_order = np.where(of_product, scope[at], 0)
    order = np.lexsort((np.append(in_order, np.zeros(len(leaves), np.int64)), owner))
    entries = Entries(
        scope_ptr,
        ranking.kind[rank_of_key],
        ranking.entered[rank_of_key],
        offsets(np.bincount(owner, minlength=len(keys))),
        np.append(scope[at], ranking.scope[leaves % n_ranks])[order],
        np.append(place[at], place_of_leaf[first])[order],
        np.append(reached.weight, np.ones(len(leaves)))[order],
    )
    return RankedConditionals(given, entries, distinct)


def _places(circuit: Circuit, cells: Floats) -> tuple[Ints, Ints, list[Floats]]:
    """Places of leaves and of known cells (-1: missing) in the tables of their variables."""
    leaves = circuit.structure.leaves
    leaf_place, cell_place = np.empty(len(leaves.node), dtype=np.int64), np.full(cells.shape, -1)
    distinct = []
    for var in range(cells.shape[1]):
        on_var, observed = leaves.with_variable(var), ~np.isnan(cells[:, var])
        leaf_place[on_var] = np.arange(len(on_var))
        values, which = np.unique(cells[observed, var], return_inverse=True)
        cell_place[observed, var] = len(on_var) + which
        distinct.append(values)
    return leaf_place, cell_place, distinct
