"""Expected kernels by a recursion over triples of nodes (Algorithm 1, theorem 4.3 of the paper).

A triple is a node of the left side, a node of the right side and a node of the kernel circuit, all
of one scope. Scope by scope, small scopes first, each node of the kernel has a matrix: its
expectations between all nodes of the left side and all nodes of the right. Where a node is a sum,
its matrix is a weighted sum of matrices of the same scope; where all three are products, it is the
product of matrices of the parts. So every triple is computed once.

``tests/naive/kernels.py`` says the same by double sums over rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints
from skpc.circuit import Circuit, Structure, scope_text
from skpc.exceptions import IncompatibleError
from skpc.kernels import (
    ColumnKernel,
    KernelCircuit,
    KernelNode,
    leaf_expectations,
    leaf_second_moments,
    product_terms,
)
from skpc.kernels.blocks import BlockPoints, BlockSide, block_expectations
from skpc.queries._kernel_sides import Points, Side, Split
from skpc.variables import Form


class _Route(NamedTuple):
    """How the matrix of a kernel node in the scope of a product follows from those of its parts.

    Either it is the matrix of ``node`` in the scope of part ``part`` of the split. Or it is the
    product of other ``routes``, or with ``weights`` their weighted sum.
    """

    node: KernelNode | None = None
    part: int = -1
    routes: tuple[_Route, ...] = ()
    weights: tuple[float, ...] = ()


class KernelEvaluator:
    """Expected kernels between conditionals of a circuit and conditionals of another, or points.

    Parameters
    ----------
    p : Circuit
        The circuit of the left side.
    q : Circuit or None
        The circuit of the right side, compatible with p; None for points.
    kernel : KernelCircuit
        The kernel.

    Raises
    ------
    IncompatibleError
        If the circuits split a scope in different ways, or a product of the kernel does not fit a
        product of a circuit.
    """

    def __init__(self, p: Circuit, q: Circuit | None, kernel: KernelCircuit):
        if q is not None:
            refuse_incompatible(p, q)
        self._circuits = (p, q)
        self._kernel = kernel
        self._routes: dict[tuple[Split, KernelNode], _Route] = {}
        whole = (1 << p.n_features) - 1
        # The nodes of the kernel whose matrices are needed in each scope, found from the root down.
        # Dictionaries stand for sets that keep their order.
        self._wanted: dict[int, dict[KernelNode, None]] = {whole: {kernel.root: None}}
        scopes = {*p.structure.scopes, *(1 << var for var in range(p.n_features))}
        # Parts have fewer variables than their whole, so that they come before it.
        self._order = sorted(scopes, key=lambda scope: (scope.bit_count(), scope))
        for scope in reversed(self._order):
            self._want(scope, p.structure.splits.get(scope, {}))

    def _want(self, scope: int, splits: dict[frozenset[int], int]) -> None:
        """Order the nodes needed in a scope, parts of sums first, and find their routes."""
        ordered: dict[KernelNode, None] = {}
        waiting = list(self._wanted.get(scope, {}))
        while waiting:
            node = waiting.pop()
            # The parts of a sum have the scope of the sum.
            below = [part for part in node.parts if node.weights and part not in ordered]
            if below:
                waiting += [node, *below]
            elif node not in ordered:
                ordered[node] = None
        self._wanted[scope] = ordered
        for parts, owner in splits.items():
            # Layers have the parts of a split in this order, too.
            split = tuple(sorted(parts))
            # A block is listed as a split into one part.
            if len(split) > 1:
                for node in ordered:
                    # A sum is formed from matrices of the same scope and needs no route.
                    if not node.weights:
                        self._routes[split, node] = self._route(split, split, node, owner)

    def _route(self, split: Split, parts: Split, node: KernelNode, owner: int) -> _Route:
        """The route of a kernel node whose scope is that of ``parts``, some of those of a split.

        ``owner`` is a product that has the split, for error messages.
        """
        # The matrix in the scope of a single part will be needed.
        if len(parts) == 1:
            self._wanted.setdefault(parts[0], {})[node] = None
            return _Route(node, split.index(parts[0]))
        if node.weights:
            routes = [self._route(split, parts, below, owner) for below in node.parts]
            return _Route(routes=tuple(routes), weights=node.weights)
        routes = []
        # Groups of parts that no factor of the kernel joins have independent expectations.
        for group, factors in _grouped(parts, node.parts):
            # Several factors may lie in one part, and one may span several parts, but not both.
            if len(group) > 1 and len(factors) > 1:
                raise IncompatibleError(_misfit(split, factors, owner))
            below = self._kernel.product(factors)
            routes.append(self._route(split, group, below, owner))
        return _Route(routes=tuple(routes))

    def __call__(self, left: Side, right: Side | Points) -> Floats:
        """Expected kernel of each pair of rows or points, shape (n_left, n_right)."""
        # Each matrix has the shape (nodes of the left layer, nodes of the right layer).
        values: dict[tuple[int, KernelNode], Floats] = {}
        for scope in self._order:
            left_layer = left.layers.get(scope)
            right_layer = right.layers.get(scope)
            # Rows whose cells of a scope are all known do not reach it.
            if left_layer is None or right_layer is None:
                continue
            for node in self._wanted[scope]:
                if node.weights:
                    # The product is a new array, which the other parts may be added to in place.
                    matrix = node.weights[0] * values[scope, node.parts[0]]
                    for weight, part in zip(node.weights[1:], node.parts[1:]):
                        matrix += weight * values[scope, part]
                else:
                    matrix = self._base(scope, node, left, right, values)
                    if left_layer.mixture is not None:
                        matrix = left_layer.mixture @ matrix
                    # A sparse array multiplies only from the left, hence the transposes.
                    if right_layer.mixture is not None:
                        matrix = (right_layer.mixture @ matrix.T).T
                values[scope, node] = matrix
        whole = (1 << self._circuits[0].n_features) - 1
        # Rows may share a node of the root's layer, which is then computed once.
        return values[whole, self._kernel.root][np.ix_(left.root, right.root)]

    def _base(
        self,
        scope: int,
        node: KernelNode,
        left: Side,
        right: Side | Points,
        values: dict[tuple[int, KernelNode], Floats],
    ) -> Floats:
        """The matrix of a column kernel, or of a product, between the base nodes of both layers."""
        left_layer = left.layers[scope]
        right_layer: Any = right.layers.get(scope)
        # Leaves and known cells stand first, then the products, split by split.
        matrix = np.empty((left_layer.n_base, right_layer.n_base))
        if left_layer.n_leaves:
            matrix[: left_layer.n_leaves] = self._leaf_matrix(scope, node, left, right)
        first_place = left_layer.n_leaves
        for split, places in left_layer.places.items():
            route = self._routes[split, node]
            rows = slice(first_place, first_place + len(places))
            matrix[rows] = _route_matrix(route, split, places, right_layer.parts(split), values)
            first_place = rows.stop
        return matrix

    def _leaf_matrix(
        self, scope: int, node: KernelNode, left: Side, right: Side | Points
    ) -> Floats:
        """The rows of a matrix that belong to leaves and known cells of the left side."""
        # Where several bits are set, the leaves are blocks.
        if scope & (scope - 1):
            return _block_matrix(scope, node, left, right)
        var = scope.bit_length() - 1
        kernel: Any = node.column
        # The circuit has the same leaves on the left for each chunk of rows.
        if node not in right.tables:
            right.tables[node] = _column_matrix(kernel, left.leaves(var), right, var)
        known = _column_matrix(kernel, left.known(var), right, var)
        return np.vstack([right.tables[node], known])


def _column_matrix(kernel: ColumnKernel, form: Form, right: Side | Points, var: int) -> Floats:
    """Expectations of a column kernel between the distributions of a form and the right side."""
    # A pair of points has the expectation of the product of the kernels at both.
    if isinstance(right, Points) and right.are_pairs:
        return leaf_second_moments(kernel, form, *right.scores(var).T)
    # In the layer of a side, known cells follow the leaves.
    known = leaf_expectations(kernel, form, right.known(var))
    if isinstance(right, Points):
        return known
    return np.hstack([leaf_expectations(kernel, form, right.leaves(var)), known])


def _route_matrix(
    route: _Route,
    split: Split,
    left: Ints,
    right: Ints,
    values: dict[tuple[int, KernelNode], Floats],
) -> Floats:
    """The matrix of a route between products of both sides.

    Parameters
    ----------
    route : _Route
        The route.
    split : Split
        The scopes of the parts.
    left, right : ndarrays of shape (n_products, n_parts)
        Where the parts of each product stand in the layers of their scopes.
    values : dict
        The matrices of smaller scopes.
    """
    if route.node is not None:
        matrix = values[split[route.part], route.node]
        rows = left[:, route.part]
        columns = right[:, route.part]
        # The side that leaves the smaller matrix in between is gathered first.
        if len(columns) * len(matrix) < len(rows) * matrix.shape[1]:
            return matrix.take(columns, axis=1).take(rows, axis=0)
        return matrix.take(rows, axis=0).take(columns, axis=1)
    # The matrix of a route is a new array, which may be changed in place.
    first_route, *later_routes = route.routes
    matrix = _route_matrix(first_route, split, left, right, values)
    if not route.weights:
        for part in later_routes:
            matrix *= _route_matrix(part, split, left, right, values)
        return matrix
    matrix *= route.weights[0]
    for weight, part in zip(route.weights[1:], later_routes):
        matrix += weight * _route_matrix(part, split, left, right, values)
    return matrix


def _block_matrix(scope: int, node: KernelNode, left: Side, right: Side | Points) -> Floats:
    """The matrix of a kernel node between the blocks of both sides, or blocks and points."""
    side = left.blocks[scope]
    variables = side.leaves.variables.tolist()
    total: Any = 0.0
    # The variables of a block depend on each other, so that sums in the kernel are multiplied out.
    for weight, columns in product_terms(node, _is_column):
        factors: list[Any] = [columns[var].column for var in variables]
        if isinstance(right, Points):
            points = BlockPoints.from_cells(
                factors, np.stack([right.scores(var, scope) for var in variables], axis=1)
            )
            values = block_expectations(factors, side, points)
        else:
            blocks, right_columns, normals = right.blocks[scope]
            # Two circuits may have the variables of a scope in different orders.
            place = np.argsort(np.argsort(variables))
            order = np.argsort(blocks.variables)[place]
            sorted_side = BlockSide(blocks.taken(order), right_columns, normals.taken(order))
            values = block_expectations(factors, side, sorted_side)
        total = total + weight * values
    return np.asarray(total)


def _is_column(node: KernelNode) -> bool:
    return node.column is not None


def _grouped(
    parts: Split, factors: tuple[KernelNode, ...]
) -> list[tuple[Split, tuple[KernelNode, ...]]]:
    """Groups of the parts of a product that factors of a kernel join, with these factors."""
    groups: list[tuple[int, Split, tuple[KernelNode, ...]]] = [
        (part, (part,), ()) for part in parts
    ]
    for factor in factors:
        # A factor joins all groups with which it shares columns.
        touched = [group for group in groups if group[0] & factor.scope]
        groups = [group for group in groups if not group[0] & factor.scope]
        scopes, splits, group_factors = zip(*touched)
        groups.append((sum(scopes), sum(splits, ()), (*sum(group_factors, ()), factor)))
    return [(split, factors_of_group) for _, split, factors_of_group in groups]


def _misfit(split: Split, factors: tuple[KernelNode, ...], owner: int) -> str:
    """The message of a kernel that does not fit a split of a product of the circuit."""
    inside = next(f for f in factors if all(f.scope & ~part for part in split))
    listed = " x ".join(scope_text(part) for part in split)
    return (
        "an expected kernel needs a kernel whose products split a scope as the circuit does, but "
        f"product {owner} of the circuit splits {scope_text(sum(split))} into {listed}, and the "
        f"kernel has a factor of {scope_text(inside.scope)} beside others of these parts; draw "
        "rows from the circuit and pass them as points to the kernel"
    )


def refuse_incompatible(p: Circuit, q: Circuit) -> None:
    """Raise an IncompatibleError where two circuits split a scope in different ways."""
    _refuse_different_variables(p.structure, q.structure)
    _refuse_different_splits(p.structure, q.structure)


def _refuse_different_variables(p: Structure, q: Structure) -> None:
    if p.n_features != q.n_features:
        raise IncompatibleError(
            "an expected kernel needs two circuits over the same variables, got one over "
            f"{p.n_features} and one over {q.n_features} of them"
        )
    kinds_of_p = _kinds(p)
    kinds_of_q = _kinds(q)
    for var, (kind, kind_in_q) in enumerate(zip(kinds_of_p, kinds_of_q)):
        if kind != kind_in_q:
            raise IncompatibleError(
                "an expected kernel needs two circuits over the same variables, but variable "
                f"{var} is {kind} in the first and {kind_in_q} in the second"
            )
        score_of_p, score_of_q = (getattr(side.axis_of(var), "score", None) for side in (p, q))
        if score_of_p != score_of_q:
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
    # Nodes of scopes that only one circuit has are in no triple.
    for scope in p.splits.keys() & q.splits.keys():
        for split in p.splits[scope].items():
            for split_of_q in q.splits[scope].items():
                # A split comes with a node that has it, for the message.
                if split[0] != split_of_q[0]:
                    raise IncompatibleError(_difference(scope, split, split_of_q, p is q))


def _difference(
    scope: int,
    split_of_p: tuple[frozenset[int], int],
    split_of_q: tuple[frozenset[int], int],
    is_same: bool,
) -> str:
    """The message that two circuits, or one, split a scope in different ways."""
    needed = " needs circuits that split every scope in the same way"
    owners = " of the first", " of the second"
    if is_same:
        needed = " of a circuit with itself needs a structured-decomposable circuit"
        owners = "", ""
    text_of_p, text_of_q = (
        _split_text(scope, *split, owner) for split, owner in zip((split_of_p, split_of_q), owners)
    )
    return (
        f"an expected kernel{needed}, but {text_of_p} and {text_of_q}; draw rows from a circuit "
        "and pass them as points in its place"
    )


def _split_text(scope: int, parts: frozenset[int], node: int, owner: str) -> str:
    if len(parts) == 1:
        return f"leaf {node}{owner} takes {scope_text(scope)} as a whole"
    listed = " x ".join(scope_text(part) for part in sorted(parts))
    return f"product {node}{owner} splits {scope_text(scope)} into {listed}"
