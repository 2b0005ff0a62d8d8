"""The two sides of expected kernels, conditionals of a circuit or points, as layers of nodes.

A side has a layer for each scope. The base nodes of a layer are leaves and known cells, then
products. Its nodes are weighted means of the base nodes, one for each node that a product of a
larger scope, or the root, reads. Points have a node for each distinct pattern of cells.
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
from skpc.kernels.blocks import BlockSide
from skpc.queries._conditionals import (
    Conditionals,
    Reached,
    block_groups,
    block_places,
    block_scopes,
    inner_scopes,
    variables_of_leaves,
)
from skpc.queries.passes.plan import plan_of, remembered
from skpc.variables import Form
from skpc.variables.cells import kernel_cells
from skpc.variables.leaf_forms import known_cells

#: The scopes into which a product splits its own, in increasing order.
Split = tuple[int, ...]


class Layer(NamedTuple):
    """The nodes of one side in one scope.

    Attributes
    ----------
    n_leaves, n_base : int
        Number of leaves and known cells, and number of these and of products.
    places : dict of Split to int64 array of shape (n_products, n_parts)
        For each way to split the scope, in the order of the products: where each part of a product
        stands among the nodes of its own layer.
    mixture : csr_array of shape (n_nodes, n_base) or None
        The nodes as weighted means of the base; None if they are the base.
    """

    n_leaves: int
    n_base: int
    places: dict[Split, Ints]
    mixture: csr_array | None

    def parts(self, split: Split) -> Ints:
        """Where the parts of the products stand."""
        return self.places[split]


class Side:
    """Conditionals of a circuit given some rows, as a side of expected kernels.

    Attributes
    ----------
    position : int64 array of shape (n_rows,)
        Where the rows stand in their table.
    layers : dict of int to Layer
        The layer of each scope that the rows reach.
    cells : list of array of shape (n_cells,)
        The distinct known cells of each variable. In its layer they follow the leaves.
    blocks : dict of int to BlockSide
        The blocks of each scope, and the distributions of the rows under them.
    root : int64 array of shape (n_rows,)
        The node of each row in the layer of all variables.
    tables : dict
        For each column kernel, the expectations between the leaves of the other side and this one:
        chunks of rows on the other side share them.
    """

    def __init__(self, circuit: Circuit, conditionals: Conditionals):
        self.circuit = circuit
        self.position = conditionals.position
        self.tables: dict[Any, Floats] = {}
        groups = zip(block_scopes(circuit), block_groups(circuit), conditionals.blocks)
        self.blocks = {
            scope: BlockSide(group, circuit.columns, normals) for scope, group, normals in groups
        }
        items = _items_of(circuit, conditionals)
        self.cells = items.cells
        self.layers, self.root = _layers(_layout(circuit.structure), conditionals.reached, items)

    def leaves(self, var: int) -> Form:
        """The leaves of a variable."""
        return self.circuit.leaf_forms(var)

    def known(self, var: int) -> Form:
        """The known cells of a variable."""
        return known_cells(self.circuit.columns, var, self.cells[var])


class Points:
    """Complete rows, or pairs of them, as a side of expected kernels.

    Points that agree in a scope have one pattern there, which is one node of the layer. The other
    attributes are as in :class:`Side`.

    Parameters
    ----------
    circuit : Circuit
        A circuit over the variables of the points.
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
        # All nodes of the kernel need the same patterns, which are found once.
        self._patterns: dict[int, tuple[Ints, Ints]] = {}
        self._parts: dict[Split, Ints] = {}

    @cached_property
    def root(self) -> Ints:
        """The pattern of each point in the scope of all variables."""
        return self.patterns((1 << self.points.shape[1]) - 1)[0]

    @property
    def layers(self) -> "Points":
        """The layers, which :meth:`get` makes on demand: points have one of every scope."""
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
        """The cell of each pattern of a variable, as a form."""
        cells = self.points[self.patterns(1 << var)[1], var, 0]
        return known_cells(self.circuit.columns, var, cells)

    def scores(self, var: int, scope: int = 0) -> Floats:
        """The cells of a variable as kernels compare them, shape (n_patterns, n_cells).

        The patterns are those of a scope; 0 stands for that of the variable alone.
        """
        cells = self.points[self.patterns(scope or 1 << var)[1], var]
        return kernel_cells(self.circuit.columns, var, cells).reshape(cells.shape)

    def split(self, scope: int, split: Split) -> Ints:
        """The patterns of the parts of a scope, for each pattern of the whole."""
        if split not in self._parts:
            # All points of a pattern have the same parts: the first of them is read.
            first_rows = self.patterns(scope)[1]
            self._parts[split] = np.stack([self.patterns(part)[0][first_rows] for part in split], 1)
        return self._parts[split]


class _Patterns(NamedTuple):
    """The layer of points in a scope."""

    points: Points
    scope: int
    n_base: int
    mixture: None = None

    def parts(self, split: Split) -> Ints:
        """Where the parts of each pattern stand."""
        return self.points.split(self.scope, split)


class _Layout(NamedTuple):
    """The scopes and splits of a structure, numbered.

    Attributes
    ----------
    scopes : list of int
        All scopes, in increasing order.
    scope_number : dict of int to int
        The place of each scope in this list.
    scope : int64 array of shape (n_inner,)
        Number of the scope of each inner node.
    is_mean : bool array of shape (n_inner,)
        Which inner nodes are sums, or products of one child.
    splits : list of Split
        All ways in which products split scopes.
    split : int64 array of shape (n_inner,)
        Number of the split of each product, -1 for a mean.
    child_scope : int64 array of shape (n_arguments,)
        Number of the scope of each child.
    """

    scopes: list[int]
    scope_number: dict[int, int]
    scope: Ints
    is_mean: NDArray[np.bool_]
    splits: list[Split]
    split: Ints
    child_scope: Ints


@remembered
def _layout(structure: Structure) -> _Layout:
    plan = plan_of(structure).plan
    inner = inner_scopes(structure).number
    scope_of_node = structure.scopes
    scope_of_leaf = [scope_of_node[node] for node in structure.leaves.node.tolist()]
    # Known cells need the scope of their variable, even where all its leaves are blocks.
    single = [1 << var for var in range(structure.n_features)]
    scopes = sorted({*inner, *scope_of_leaf, *single})
    number = {scope: place for place, scope in enumerate(scopes)}
    child_scope = [
        number[inner[arg] if arg >= 0 else scope_of_leaf[~arg]] for arg in plan.arg.tolist()
    ]
    # A product of one child is that child: a mean whose only weight is 1.
    is_mean = (plan.is_sum == 1) | (np.diff(plan.ptr) == 1)
    split = np.full(len(inner), -1)
    # Sorted, so that the order of the children does not matter.
    splits: dict[Split, int] = {}
    for node in np.flatnonzero(~is_mean).tolist():
        parts = tuple(sorted(scopes[part] for part in child_scope[segment(plan.ptr, node)]))
        split[node] = splits.setdefault(parts, len(splits))
    scope = np.array([number[inner_scope] for inner_scope in inner])
    return _Layout(scopes, number, scope, is_mean, list(splits), split, np.array(child_scope))


class _Items(NamedTuple):
    """Items, of which layers are made.

    First come the entries of :class:`Reached`, then leaves and known cells variable by variable,
    then the conditionals of rows under blocks.

    Attributes
    ----------
    scope : int64 array of shape (n_items - n_entries,)
        Number of the scope of each item behind the entries.
    child : int64 array of shape (n_children,)
        The item of each child of the entries.
    cells : list of array of shape (n_cells,)
        The distinct known cells of each variable.
    """

    scope: Ints
    child: Ints
    cells: list[Floats]


def _items_of(circuit: Circuit, conditionals: Conditionals) -> _Items:
    """Number the items of a side."""
    structure = circuit.structure
    reached = conditionals.reached
    layout = _layout(structure)
    plan = plan_of(structure).plan
    block_of_leaf, block_place = block_places(circuit, conditionals)
    n_entries = len(reached.node)
    n_inner = len(plan.is_sum)
    row_of_entry = owners(np.diff(reached.ptr))
    row = np.repeat(row_of_entry, np.diff(reached.arg_ptr))
    child = plan.arg[reached.arg]
    # The entries of a row stand in the order of the plan, and so their keys increase.
    keys = row_of_entry * n_inner + reached.node
    # Leaves, whose numbers are negative, get their items below.
    item = np.searchsorted(keys, row * n_inner + child)
    cells = []
    scopes = []
    # (n_rows, n_features), with -1 where a row has no known cell of the variable.
    item_of_cell = np.full(conditionals.cells.shape, -1)
    item_of_leaf = np.empty(len(plan.leaves.var), dtype=np.int64)
    n_items = n_entries
    for var, alone in enumerate(variables_of_leaves(circuit)):
        on_var = structure.leaves.with_variable(var)
        # Where a variable has only blocks, their conditionals hold its known cells, too.
        observed = ~np.isnan(conditionals.cells[:, var]) & alone
        # Rows share leaves and equal cells: each is one item.
        distinct, place = np.unique(conditionals.cells[observed, var], return_inverse=True)
        n_leaves = len(on_var) if alone else 0
        if alone:
            item_of_leaf[on_var] = n_items + np.arange(n_leaves)
        item_of_cell[observed, var] = n_items + n_leaves + place
        cells.append(distinct)
        scopes += [layout.scope_number[1 << var]] * (n_leaves + len(distinct))
        n_items += n_leaves + len(distinct)
    is_leaf = child < 0
    leaf = ~child[is_leaf]
    row_of_leaf = row[is_leaf]
    block = block_of_leaf[leaf]
    cell_item = item_of_cell[row_of_leaf, plan.leaves.var[leaf]]
    # Given a known cell, all leaves of its variable are that cell.
    leaf_item = np.where(cell_item < 0, item_of_leaf[leaf], cell_item)
    # Under a block each row has a conditional of its own.
    begin = n_items + offsets([len(normals.row) for normals in conditionals.blocks])
    for scope, normals in zip(block_scopes(circuit), conditionals.blocks):
        scopes += [layout.scope_number[scope]] * len(normals.row)
    group_of_block = owners([len(group.leaf) for group in block_groups(circuit)])
    is_block = np.flatnonzero(block >= 0)
    place = block_place[row_of_leaf[is_block], block[is_block]]
    leaf_item[is_block] = begin[group_of_block[block[is_block]]] + place
    item[is_leaf] = leaf_item
    return _Items(np.array(scopes, dtype=np.int64), item, cells)


def _layers(layout: _Layout, reached: Reached, items: _Items) -> tuple[dict[int, Layer], Ints]:
    """The layers of a side, and the place of the root of each row in that of all variables."""
    node = reached.node
    n_entries = len(reached.node)
    n_items = n_entries + len(items.scope)
    scope = np.concatenate([layout.scope[node], items.scope])
    is_mean = np.zeros(n_items, dtype=bool)
    is_mean[:n_entries] = layout.is_mean[node]
    split = np.full(n_items, -1)
    split[:n_entries] = layout.split[node]
    # Scope by scope: leaves, then products split by split, then means. From here on items are
    # numbered in this order, by their rank.
    order = np.lexsort((split, is_mean, scope))
    rank = np.argsort(order)
    is_mean = is_mean[order]
    scope = scope[order]
    # Where each scope begins, and the end of the last.
    begin = np.searchsorted(scope, np.arange(len(layout.scopes) + 1))
    n_base = np.diff(offsets(~is_mean)[begin])
    n_leaves = np.bincount(items.scope, minlength=len(layout.scopes))
    parent = np.repeat(rank[:n_entries], np.diff(reached.arg_ptr))
    child = rank[items.child]
    in_mean = is_mean[parent]
    # The root is the last entry of its row.
    root = rank[reached.ptr[1:] - 1]
    # The nodes of layers are the items that products or the root read; sums that only sums read
    # are multiplied out.
    read = np.unique(np.concatenate([child[~in_mean], root]))
    begin_read = np.searchsorted(read, begin)
    # Children of products in the order of the parts.
    part = np.lexsort((layout.child_scope[reached.arg[~in_mean]], parent[~in_mean]))
    children = child[~in_mean][part]
    # Places count within a layer.
    place = np.searchsorted(read, children) - begin_read[scope[children]]
    products = np.sort(rank[:n_entries][~layout.is_mean[node]])
    places = _places_by_split(layout.splits, split[order][products], place)
    mixtures = _mixtures(is_mean, parent[in_mean], child[in_mean], reached.weight[in_mean])[read]
    layers = {}
    for number in np.flatnonzero(np.diff(begin_read)).tolist():
        size = int(n_base[number])
        # The base of a scope stands first in it.
        base = slice(begin[number], begin[number] + size)
        mixture = _part_of_mixtures(mixtures, segment(begin_read, number), base)
        mask = layout.scopes[number]
        layers[mask] = Layer(int(n_leaves[number]), size, places.get(mask, {}), mixture)
    # The scope of all variables is the greatest number and so the last.
    return layers, np.searchsorted(read, root) - begin_read[-2]


def _places_by_split(
    splits: list[Split], split_of_product: Ints, place: Ints
) -> dict[int, dict[Split, Ints]]:
    """For each scope and split, the places of the parts, shape (n_products, n_parts).

    ``place`` has the places of all products end to end, products of one split side by side.
    """
    n_parts = np.array([len(parts) for parts in splits], dtype=np.int64)
    begin = offsets(n_parts[split_of_product])
    places: dict[int, dict[Split, Ints]] = {}
    starts = np.flatnonzero(np.diff(split_of_product, prepend=-1))
    # The first product of each split, and the places of all its products.
    for split, split_places in zip(split_of_product[starts], np.split(place, begin[starts[1:]])):
        parts = splits[split]
        places.setdefault(sum(parts), {})[parts] = split_places.reshape(-1, len(parts))
    return places


def _mixtures(is_mean: NDArray[np.bool_], parent: Ints, child: Ints, weight: Floats) -> csr_array:
    """Each item as a weighted mean of base items, from sums as weighted means of their children."""
    n_items = len(is_mean)
    base = np.flatnonzero(~is_mean)
    # Base items are means of themselves, so that powers of the matrix end at them.
    entries = np.append(parent, base), np.append(child, base)
    mixtures = csr_array((np.append(weight, np.ones(len(base))), entries), shape=(n_items, n_items))
    # A sum below a sum is replaced by its own mean; squares halve the depth of such chains.
    while is_mean[mixtures.indices].any():
        mixtures = mixtures @ mixtures
    mixtures.sort_indices()
    return mixtures


def _part_of_mixtures(mixtures: csr_array, rows: slice, base: slice) -> csr_array | None:
    """The rows of one scope over its base items; None where each row is the item of its place."""
    ptr = mixtures.indptr[rows.start : rows.stop + 1]
    inside = slice(ptr[0], ptr[-1])
    column = mixtures.indices[inside] - base.start
    shape = rows.stop - rows.start, base.stop - base.start
    if shape[0] == shape[1] and np.array_equal(column, np.arange(shape[1])):
        return None
    return csr_array((mixtures.data[inside], column, ptr - ptr[0]), shape=shape)


def sides(
    circuit: Circuit, conditionals: Conditionals, right: Points | None = None
) -> Iterator[Side]:
    """Conditionals as sides of so few rows that the matrices of a pair of sides fit in memory.

    The right side of a pair is the points, or without points another of these sides.
    """
    # Most numbers in the matrices of a pair of sides.
    most_numbers = 2**22
    layout = _layout(circuit.structure)
    reached = conditionals.reached
    n_entries = np.bincount(layout.scope[reached.node], minlength=len(layout.scopes)).astype(float)
    n_right = n_entries
    if right is not None:
        entered = np.flatnonzero(n_entries).tolist()
        n_right = np.zeros(len(layout.scopes))
        n_right[entered] = [right.get(layout.scopes[scope]).n_base for scope in entered]
    n_sides = np.dot(n_entries, n_right) / most_numbers
    # Without points this is a number of pairs, of which both sides are cut.
    if right is None:
        n_sides = np.sqrt(n_sides)
    # Rows with blocks come in small batches, which are not cut.
    n_rows = len(conditionals.cells)
    parts = [np.arange(n_rows)]
    if not conditionals.blocks:
        parts = np.array_split(parts[0], min(int(n_sides) + 1, n_rows))
    for rows in parts:
        # Offsets of the part begin at zero again.
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
        position = conditionals.position[rows]
        cells = conditionals.cells[rows]
        yield Side(circuit, Conditionals(position, cells, part, conditionals.blocks))
