"""Circuits of decisions, such as those of trees: built as arrays and not node by node.

That is 5x as fast for cutset networks of the data set plants.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints, offsets, owners, ranges, within
from skpc.circuit._circuit import Circuit
from skpc.circuit._structure import LEAF, PRODUCT, SUM, Structure
from skpc.circuit.builder import CircuitBuilder, checked_circuit, joined
from skpc.variables import HistogramTable


class Decisions(NamedTuple):
    """Vertices that decide on a variable each, as in trees and in cuts above trees.

    Attributes
    ----------
    variable : ndarray of shape (n_vertices,)
        The variable of each vertex. A vertex stands before the vertices above it. Roots, which have
        no vertex above them, are independent.
    tables : list of ndarray of shape (n_rows, n_states)
        Log probabilities (nats) of the states at each vertex; the vertices above choose the row.
    above, state, below, row : ndarrays of shape (n_edges,)
        In this state of the vertex above, the vertex below counts with this row of its table.
    """

    variable: Ints
    tables: Sequence[Floats]
    above: Ints
    state: Ints
    below: Ints
    row: Ints


def decision_circuit(
    n_states: Sequence[int] | np.ndarray, axes: Sequence[Any] | None, decisions: Decisions
) -> Circuit:
    """Make the circuit of decisions: smooth, decomposable and deterministic.

    A vertex with others below becomes one product for each of its states and, for each row of its
    table, one sum that decides among these products. A vertex without others below becomes a leaf
    for each row. Equal rows of a vertex share one node: all states above it that never occur
    together have the same row, that of the prior.

    Parameters
    ----------
    n_states : sequence of int
        See :class:`CircuitBuilder`.
    axes : sequence or None
        See :class:`CircuitBuilder`.
    decisions : Decisions
        All variables are decided on every way from the roots.

    Returns
    -------
    Circuit

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import Decisions, decision_circuit
    >>> root, below = np.log([[0.4, 0.6]]), np.log([[0.9, 0.1], [0.2, 0.8]])
    >>> edges = (
    ...     np.array([1, 1]),
    ...     np.array([0, 1]),
    ...     np.array([0, 0]),
    ...     np.array([0, 1]),
    ... )
    >>> decision_circuit(
    ...     [2, 2], None, Decisions(np.array([1, 0]), [below, root], *edges)
    ... )
    Circuit(n_features=2, n_nodes=7, n_edges=6)
    """
    builder = CircuitBuilder(n_states, axes)
    sizes = np.array(builder.n_states)
    family = np.array([builder.discrete_family(var) for var in range(len(sizes))])
    variable = decisions.variable
    is_inner = np.zeros(len(variable), bool)
    is_inner[decisions.above] = True
    rows = _Rows.from_tables(decisions.tables, sizes[variable])
    nodes = _Nodes.from_rows(rows, np.where(is_inner, sizes[variable], 0))
    # Several roots have a product above them, which is the last node.
    roots = np.setdiff1d(np.arange(len(variable)), decisions.below)
    joined_roots = roots if len(roots) > 1 else roots[:0]
    n_nodes = nodes.begin[-1] + (len(joined_roots) > 0)
    parent, child, log_weight, state = _edges(decisions, rows, nodes, joined_roots)
    sum_rows = nodes.sum_rows
    leaf_rows = nodes.leaf_rows
    decision_var, leaf_var = np.full((2, n_nodes), -1)
    decision_var[nodes.node[sum_rows]] = variable[rows.vertex[sum_rows]]
    leaf_var[nodes.indicator] = np.repeat(variable, nodes.n_indicators)
    leaf_var[nodes.node[leaf_rows]] = variable[rows.vertex[leaf_rows]]
    is_leaf = leaf_var >= 0
    param_ptr = offsets(np.where(is_leaf, sizes[leaf_var], 0))
    # Indicators have log probability 0 in their own state and -inf elsewhere.
    param = np.full(param_ptr[-1], -np.inf)
    param[param_ptr[nodes.indicator] + within(nodes.n_indicators)] = 0.0
    param[ranges(param_ptr[nodes.node[leaf_rows]], rows.width[leaf_rows])] = rows.cells(leaf_rows)
    axis_ptr, axis = HistogramTable.from_axes(builder.axes)
    structure = Structure(
        kind=np.select([is_leaf, decision_var >= 0], [LEAF, SUM], PRODUCT),
        child_ptr=offsets(np.bincount(parent, minlength=n_nodes)),
        child=child,
        scope_ptr=offsets(is_leaf),
        scope=leaf_var[is_leaf],
        leaf_family=np.where(is_leaf, family[leaf_var], -1),
        param_ptr=param_ptr,
        decision_var=decision_var,
        decision_state=state,
        n_states=n_states,
        axis_ptr=axis_ptr,
        axis=axis,
    )
    return checked_circuit(structure, log_weight, param)


class _Rows(NamedTuple):
    """The rows of all tables end to end.

    The rows of vertex ``v`` are ``ptr[v]:ptr[v + 1]``; the log probabilities of row ``r`` are the
    ``width[r]`` numbers of ``log_prob`` from ``first_cell[r]`` on.
    """

    ptr: Ints
    vertex: Ints
    width: Ints
    first_cell: Ints
    log_prob: Floats

    @classmethod
    def from_tables(cls, tables: Sequence[Floats], n_states: Ints) -> Self:
        """The rows of the table of each vertex, with the numbers of states of the vertices."""
        n_rows = np.array([len(table) for table in tables])
        vertex = owners(n_rows)
        width = n_states[vertex]
        log_prob = joined([table.ravel() for table in tables])
        return cls(offsets(n_rows), vertex, width, offsets(width), log_prob)

    def cells(self, row: Ints) -> Floats:
        """The log probabilities of some rows, end to end."""
        return self.log_prob[ranges(self.first_cell[row], self.width[row])]

    def first_equal_rows(self) -> Ints:
        """For each row, the first row of the same vertex with the same numbers."""
        first_equal_row = np.empty(len(self.vertex), np.int64)
        # Rows of one width form a matrix, which can be sorted as a whole.
        for size in np.unique(self.width).tolist():
            rows = np.flatnonzero(self.width == size)
            cells = self.log_prob[self.first_cell[rows, np.newaxis] + np.arange(size)]
            order = np.lexsort((*cells.T, self.vertex[rows]))
            keys = np.column_stack([self.vertex[rows], cells])[order]
            is_first = np.append(True, (keys[1:] != keys[:-1]).any(axis=1))
            # Among equal rows the sort keeps their order.
            first_equal_row[rows[order]] = rows[order][is_first][np.cumsum(is_first) - 1]
        return first_equal_row


class _Nodes(NamedTuple):
    """The numbers of the nodes, vertex by vertex.

    A vertex with others below it has, in this order, an indicator and a product for each state, and
    a sum for each of its distinct rows. A vertex without has one leaf for each distinct row.

    Attributes
    ----------
    begin : ndarray of shape (n_vertices + 1,)
        Where the nodes of each vertex begin.
    n_indicators : ndarray of shape (n_vertices,)
        Number of indicators of each vertex: zero without others below it.
    indicator : ndarray
        The indicators of all vertices; the product of a state follows its indicator.
    node : ndarray of shape (n_rows,)
        The sum or leaf of each row, which equal rows share.
    sum_rows, leaf_rows : ndarrays
        A row for each sum, and for each leaf that is no indicator.
    """

    begin: Ints
    n_indicators: Ints
    indicator: Ints
    node: Ints
    sum_rows: Ints
    leaf_rows: Ints

    @classmethod
    def from_rows(cls, rows: _Rows, n_indicators: Ints) -> Self:
        """Number the nodes of vertices with some numbers of indicators."""
        vertex = rows.vertex
        first_equal_row = rows.first_equal_rows()
        is_new = first_equal_row == np.arange(len(vertex))
        begin = offsets(2 * n_indicators + np.bincount(vertex, is_new).astype(np.int64))
        # Different rows are numbered within their vertex.
        rank = np.cumsum(is_new) - 1
        node = begin[vertex] + 2 * n_indicators[vertex] + rank - rank[rows.ptr[vertex]]
        # Indicators and products take turns: that of state s is number 2 s of its vertex.
        indicator = ranges(begin[:-1], n_indicators) + within(n_indicators)
        is_sum = n_indicators[vertex] > 0
        sum_rows = np.flatnonzero(is_new & is_sum)
        leaf_rows = np.flatnonzero(is_new & ~is_sum)
        return cls(begin, n_indicators, indicator, node[first_equal_row], sum_rows, leaf_rows)


def _edges(
    decisions: Decisions, rows: _Rows, nodes: _Nodes, joined_roots: Ints
) -> tuple[Ints, Ints, Floats, Ints]:
    """Parents, children, log weights and states of the edges, sorted by parents.

    ``joined_roots`` are the roots below the last node, if that is a product.
    """
    begin = nodes.begin
    node = nodes.node
    width = rows.width[nodes.sum_rows]
    # The children of a sum are the products of its vertex, state by state.
    product = np.repeat(begin[rows.vertex[nodes.sum_rows]], width) + 2 * within(width) + 1
    row_below = rows.ptr[decisions.below] + decisions.row
    product_above = begin[decisions.above] + 2 * decisions.state + 1
    # Edges by their children: indicators, nodes of other vertices, roots; and products below sums.
    children = [nodes.indicator, node[row_below], node[rows.ptr[joined_roots]], product]
    parents = [
        nodes.indicator + 1,
        product_above,
        np.full(len(joined_roots), begin[-1]),
        np.repeat(node[nodes.sum_rows], width),
    ]
    parent = np.concatenate(parents)
    # The edges of sums stand last here, and only they have weights and states.
    n_others = len(parent) - len(product)
    log_weight = np.append(np.zeros(n_others), rows.cells(nodes.sum_rows))
    state = np.append(np.full(n_others, -1), within(width))
    # The children of one parent keep their order.
    order = np.argsort(parent, kind="stable")
    return parent[order], np.concatenate(children)[order], log_weight[order], state[order]
