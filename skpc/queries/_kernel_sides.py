"""What expected kernels are taken between: conditionals of a circuit, and points, scope by scope.

In each scope a side has base nodes: leaves (or known cells), then products. Sums are weighted means
of these. Only nodes that a product or the root reads are kept: they are the nodes of a layer.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skpc._arrays import Floats, Ints, offsets, owners, segment
from skpc.circuit import Circuit, Structure
from skpc.domain import group_rows
from skpc.kernels.joint import JointSide
from skpc.queries._conditionals import (
    Conditionals,
    Reached,
    inner_scopes,
    joint_groups,
    joint_places,
    joint_scopes,
    variables_of_leaves,
)
from skpc.queries.passes.plan import plan_of, remembered
from skpc.variables import Form
from skpc.variables.leaf_forms import kernel_cells, known_cells

#: The scopes into which a product splits its own, in increasing order.
Split = tuple[int, ...]


class Layer(NamedTuple):
    """The nodes of one side in one scope.

    Attributes
    ----------
    n_leaves, n_base : int
        Number of leaves and known cells, and number of these and of products.
    places : dict of Split to int64 array of shape (n_products, n_parts)
        For each way to split the scope, the products that do, in order, and where each part stands
        among the nodes of its scope.
    mix : csr_array of shape (n_nodes, n_base) or None
        The nodes as weighted means of the base; None if they are the base.
    """

    n_leaves: int
    n_base: int
    places: dict[Split, Ints]
    mix: csr_array | None

    def parts(self, split: Split) -> Ints:
        """Where the parts of the products stand."""
        return self.places[split]


class Side:
    """Conditionals of a circuit.

    Attributes
    ----------
    position : int64 array of shape (n_rows,)
        Where the rows stand in their table.
    layers : dict of int to Layer
        The layer of each scope that the rows reach.
    cells : list of array of shape (n_cells,)
        The distinct known cells of each variable. In its layer they follow the leaves.
    joint : dict of int to JointSide
        The leaves of several variables in each scope.
    root : int64 array of shape (n_rows,)
        Where each row stands in the layer of all variables.
    tables : dict
        Expectations between these cells and leaves, for those who need them again.
    """

    def __init__(self, circuit: Circuit, given: Conditionals):
        self.circuit = circuit
        self.position = given.position
        # Expectations of leaves beside this side, by node of the kernel: blocks of rows share it.
        self.tables: dict[Any, Floats] = {}
        groups = zip(joint_scopes(circuit), joint_groups(circuit), given.joint)
        self.joint = {
            scope: JointSide(group, circuit.columns, normals) for scope, group, normals in groups
        }
        items = _items_of(circuit, given)
        self.cells = items.cells
        self.layers, self.root = _layers(_layout(circuit.structure), given.reached, items)

    def leaves(self, var: int) -> Form:
        """The leaves of a variable."""
        return self.circuit.leaf_forms(var)

    def known(self, var: int) -> Form:
        """The known cells of a variable."""
        return known_cells(self.circuit.columns, var, self.cells[var])


class Points:
    """Complete rows, or pairs of them: patterns of cells in each scope.

    Points that agree in a scope are one node there.

    Parameters
    ----------
    circuit : Circuit
        Its variables are those of the points.
    cells : array of shape (n_points, n_features, n_cells)
        The cells of each point, one or two of a pair.
    position : slice
        Where the points stand in their table.
    """

    def __init__(self, circuit: Circuit, cells: Floats, position: slice = slice(0)):
        self.circuit = circuit
        self.points = cells
        self.position = position
        self.are_pairs = cells.shape[2] > 1
        self.tables: dict[Any, Floats] = {}
        # Each node of the kernel asks for the same patterns again.
        self._patterns: dict[int, tuple[Ints, Ints]] = {}
        self._parts: dict[Split, Ints] = {}

    @cached_property
    def root(self) -> Ints:
        """The pattern of each point as a whole."""
        return self.patterns((1 << self.points.shape[1]) - 1)[0]

    @property
    def layers(self) -> "Points":
        """All layers: points split every scope in every way."""
        return self

    def get(self, scope: int) -> "_Patterns":
        """The layer of a scope."""
        return _Patterns(self, scope, len(self.patterns(scope)[1]))

    def patterns(self, scope: int) -> tuple[Ints, Ints]:
        """The pattern of each point in a scope, and the first point of each pattern."""
        if scope not in self._patterns:
            member = [bool(scope >> var & 1) for var in range(self.points.shape[1])]
            # (n_points, n_members * n_cells): pairs are alike if both of their cells are.
            part = np.ascontiguousarray(self.points[:, member].reshape(len(self.points), -1))
            pattern = group_rows(part)[1]
            self._patterns[scope] = pattern, np.unique(pattern, return_index=True)[1]
        return self._patterns[scope]

    def known(self, var: int) -> Form:
        """The cells of the patterns of a variable."""
        cells = self.points[self.patterns(1 << var)[1], var, 0]
        return known_cells(self.circuit.columns, var, cells)

    def scores(self, var: int, scope: int = 0) -> Floats:
        """The cells of a variable as kernels compare them, in each pattern of a scope, or its own.

        Shape (n_patterns, n_cells).
        """
        # Leaves of several variables compare points in their whole scope, others in one variable.
        cells = self.points[self.patterns(scope or 1 << var)[1], var]
        return kernel_cells(self.circuit.columns, var, cells).reshape(cells.shape)

    def split(self, scope: int, split: Split) -> Ints:
        """The patterns of the parts of a scope, for each pattern of the whole."""
        if split not in self._parts:
            # All points of a pattern have the same parts, so that one of them is enough.
            first_rows = self.patterns(scope)[1]
            self._parts[split] = np.stack([self.patterns(part)[0][first_rows] for part in split], 1)
        return self._parts[split]


class _Patterns(NamedTuple):
    """The layer of points in a scope."""

    points: Points
    scope: int
    n_base: int
    mix: None = None

    def parts(self, split: Split) -> Ints:
        """Where the parts of each pattern stand."""
        return self.points.split(self.scope, split)


class _Layout(NamedTuple):
    """What depends on the structure alone.

    ``scope`` is the number of the scope of each inner node among ``scopes``, ``is_mean`` says
    which are sums (products of one child among them), and ``split`` is the number of the way in
    which a product splits its scope among ``splits``. ``part`` is the scope of the child of each
    argument.
    """

    scopes: list[int]
    number: dict[int, int]
    scope: Ints
    is_mean: NDArray[np.bool_]
    split: Ints
    splits: list[Split]
    part: Ints


@remembered
def _layout(structure: Structure) -> _Layout:
    plan = plan_of(structure).plan
    inner = inner_scopes(structure).number
    scope_of_node = structure.scopes
    scope_of_leaf = [scope_of_node[node] for node in structure.leaves.node.tolist()]
    # Known cells need the scope of their variable even where blocks alone have leaves of it.
    single = [1 << var for var in range(structure.n_features)]
    scopes = sorted({*inner, *scope_of_leaf, *single})
    number = {scope: place for place, scope in enumerate(scopes)}
    part = [number[inner[arg] if arg >= 0 else scope_of_leaf[~arg]] for arg in plan.arg.tolist()]
    # A product of one child is that child: a mean whose only weight is 1.
    is_mean = (plan.is_sum == 1) | (np.diff(plan.ptr) == 1)
    split = np.full(len(inner), -1)
    # Products that split a scope alike share a number, whatever the order of their children.
    splits: dict[Split, int] = {}
    for node in np.flatnonzero(~is_mean).tolist():
        parts = tuple(sorted(scopes[p] for p in part[segment(plan.ptr, node)]))
        split[node] = splits.setdefault(parts, len(splits))
    scope = np.array([number[s] for s in inner])
    return _Layout(scopes, number, scope, is_mean, split, list(splits), np.array(part))


class _Items(NamedTuple):
    """Leaves and cells that follow the entries of rows: the scope of each; that of each argument.

    ``of_arg`` is the item of each argument of the entries: a leaf, a cell or an entry.
    """

    scope: Ints
    of_arg: Ints
    cells: list[Floats]


def _items_of(circuit: Circuit, given: Conditionals) -> _Items:
    """Number the entries of rows, then leaves and known cells, then leaves of several variables."""
    structure = circuit.structure
    reached = given.reached
    layout = _layout(structure)
    plan = plan_of(structure).plan
    joint, joint_place = joint_places(circuit, given)
    n_entries = len(reached.node)
    n_inner = len(plan.is_sum)
    row_of_entry = owners(np.diff(reached.ptr))
    row = np.repeat(row_of_entry, np.diff(reached.arg_ptr))
    child = plan.arg[reached.arg]
    # The entries of a row stand in the order of the plan, and so their keys increase.
    keys = row_of_entry * n_inner + reached.node
    # What this finds for leaves, whose numbers are negative, is replaced below.
    item = np.searchsorted(keys, row * n_inner + child)
    cells = []
    scopes = []
    # (n_rows, n_features), with -1 where a row has no known cell of the variable.
    first_of_cell = np.full(given.cells.shape, -1)
    first_of_leaf = np.empty(len(plan.leaves.var), dtype=np.int64)
    n_items = n_entries
    for var, alone in enumerate(variables_of_leaves(circuit)):
        on_var = structure.leaves.with_variable(var)
        # A variable that only blocks have is read through their conditionals, known or not.
        observed = ~np.isnan(given.cells[:, var]) & alone
        # Rows share leaves and equal cells: each is one item.
        distinct, which = np.unique(given.cells[observed, var], return_inverse=True)
        n_leaves = len(on_var) if alone else 0
        if alone:
            first_of_leaf[on_var] = n_items + np.arange(n_leaves)
        first_of_cell[observed, var] = n_items + n_leaves + which
        cells.append(distinct)
        scopes += [layout.number[1 << var]] * (n_leaves + len(distinct))
        n_items += n_leaves + len(distinct)
    is_leaf = child < 0
    leaf = ~child[is_leaf]
    row_of_leaf = row[is_leaf]
    number = joint[leaf]
    cell_item = first_of_cell[row_of_leaf, plan.leaves.var[leaf]]
    # At a known cell all leaves of a variable have the same kernel: the cell stands for them.
    leaf_item = np.where(cell_item < 0, first_of_leaf[leaf], cell_item)
    # Leaves of several variables are no two rows' own: each row has its conditional.
    begin = n_items + offsets([len(normals.row) for normals in given.joint])
    for scope, normals in zip(joint_scopes(circuit), given.joint):
        scopes += [layout.number[scope]] * len(normals.row)
    # The scope of each leaf of several variables, in the order in which they are numbered.
    group = owners([len(g.leaf) for g in joint_groups(circuit)])
    joint_leaf = np.flatnonzero(number >= 0)
    place = joint_place[row_of_leaf[joint_leaf], number[joint_leaf]]
    leaf_item[joint_leaf] = begin[group[number[joint_leaf]]] + place
    item[is_leaf] = leaf_item
    return _Items(np.array(scopes, dtype=np.int64), item, cells)


def _layers(layout: _Layout, reached: Reached, items: _Items) -> tuple[dict[int, Layer], Ints]:
    """The layers, and where the roots stand in that of all variables."""
    node = reached.node
    n_entries = len(reached.node)
    n_items = n_entries + len(items.scope)
    scope = np.concatenate([layout.scope[node], items.scope])
    is_mean = np.zeros(n_items, dtype=bool)
    is_mean[:n_entries] = layout.is_mean[node]
    split = np.full(n_items, -1)
    split[:n_entries] = layout.split[node]
    # Scope by scope: leaves, then products split by split, then sums.
    order = np.lexsort((split, is_mean, scope))
    rank = np.empty(n_items, dtype=np.int64)
    rank[order] = np.arange(n_items)
    is_mean = is_mean[order]
    # Where each scope begins in this order, and the end of the last.
    begin = np.searchsorted(scope[order], np.arange(len(layout.scopes) + 1))
    n_base = np.diff(offsets(~is_mean)[begin])
    n_leaves = np.bincount(items.scope, minlength=len(layout.scopes))
    parent = np.repeat(rank[:n_entries], np.diff(reached.arg_ptr))
    child = rank[items.of_arg]
    in_mean = is_mean[parent]
    # The root is the last entry of its row.
    root = rank[reached.ptr[1:] - 1]
    # Products and the root read nodes; sums below sums are multiplied out and need no place.
    read = np.unique(np.concatenate([child[~in_mean], root]))
    begin_read = np.searchsorted(read, begin)
    # Children of products in the order of the parts.
    part = np.lexsort((layout.part[reached.arg[~in_mean]], parent[~in_mean]))
    children = child[~in_mean][part]
    # Places count within a scope, among the nodes that are read there.
    place = np.searchsorted(read, children) - begin_read[scope[order][children]]
    products = np.sort(rank[:n_entries][~layout.is_mean[node]])
    split_of_product = split[order][products]
    n_parts = np.array([len(parts) for parts in layout.splits], dtype=np.int64)
    end_of_parts = offsets(n_parts[split_of_product])
    places: dict[int, dict[Split, Ints]] = {}
    # Products of one split stand together, so that their places are one block of the array.
    starts = np.flatnonzero(np.diff(split_of_product, prepend=-1))
    for begin_of_run, last in zip(starts, np.append(starts[1:], len(products))):
        parts = layout.splits[split_of_product[begin_of_run]]
        split_places = place[end_of_parts[begin_of_run] : end_of_parts[last]].reshape(
            -1, len(parts)
        )
        places.setdefault(sum(parts), {})[parts] = split_places
    mix = _mixture(is_mean, parent[in_mean], child[in_mean], reached.weight[in_mean])[read]
    layers = {}
    for number in np.flatnonzero(np.diff(begin_read)).tolist():
        rows = segment(begin_read, number)
        ptr = mix.indptr[rows.start : rows.stop + 1]
        inside = slice(ptr[0], ptr[-1])
        # The base of a scope stands first in it, so that columns count from where it begins.
        column = mix.indices[inside] - begin[number]
        size = int(n_base[number])
        shape = rows.stop - rows.start, size
        scope_mixture: csr_array | None = None
        # Where each node is the base node of its own number there is nothing to mix.
        if shape[0] != size or not np.array_equal(column, np.arange(size)):
            scope_mixture = csr_array((mix.data[inside], column, ptr - ptr[0]), shape=shape)
        mask = layout.scopes[number]
        layers[mask] = Layer(int(n_leaves[number]), size, places.get(mask, {}), scope_mixture)
    # The scope of all variables is the greatest number and so the last.
    return layers, np.searchsorted(read, root) - begin_read[-2]


def _mixture(is_mean: NDArray[np.bool_], parent: Ints, child: Ints, weight: Floats) -> csr_array:
    """Each node as a weighted mean of base nodes, from sums as weighted means of their children."""
    n_nodes = len(is_mean)
    base = np.flatnonzero(~is_mean)
    # Base nodes are means of themselves, so that powers of the matrix end at them.
    cells = np.append(parent, base), np.append(child, base)
    mix = csr_array((np.append(weight, np.ones(len(base))), cells), shape=(n_nodes, n_nodes))
    # A sum below a sum is replaced by its own mean; squares halve the depth of such chains.
    while is_mean[mix.indices].any():
        mix = mix @ mix
    mix.sort_indices()
    return mix


def sides(circuit: Circuit, given: Conditionals, right: Points | None = None) -> Iterator[Side]:
    """Conditionals in blocks of rows, small enough for their matrices.

    The matrices are those with the points on the right, or else with other blocks of such rows.
    """
    # Numbers in the matrices that are held at a time.
    numbers = 2**22
    layout = _layout(circuit.structure)
    reached = given.reached
    n_entries = np.bincount(layout.scope[reached.node], minlength=len(layout.scopes)).astype(float)
    n_others = n_entries
    if right is not None:
        entered = np.flatnonzero(n_entries).tolist()
        n_others = np.zeros(len(layout.scopes))
        n_others[entered] = [right.get(layout.scopes[scope]).n_base for scope in entered]
    n_blocks = np.dot(n_entries, n_others) / numbers
    # This is the number of pairs of blocks, of which both sides are cut.
    if right is None:
        n_blocks = np.sqrt(n_blocks)
    # Rows under leaves of several variables are few already.
    parts = [np.arange(len(given.cells))]
    if not given.joint:
        parts = np.array_split(parts[0], min(int(n_blocks) + 1, len(given.cells)))
    for rows in parts:
        # Pointers of a block begin at zero, as those of all rows do.
        ptr = reached.ptr[rows[0] : rows[-1] + 2]
        arg_ptr = reached.arg_ptr[ptr[0] : ptr[-1] + 1]
        entries = slice(ptr[0], ptr[-1])
        args = slice(arg_ptr[0], arg_ptr[-1])
        part = Reached(
            ptr - ptr[0],
            reached.node[entries],
            arg_ptr - arg_ptr[0],
            reached.arg[args],
            reached.weight[args],
        )
        yield Side(
            circuit, Conditionals(given.position[rows], given.cells[rows], part, given.joint)
        )
