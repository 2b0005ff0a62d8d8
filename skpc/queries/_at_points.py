"""Expected kernels between conditionals of a circuit and points: many points side by side.

A node sees only the columns of its scope, so points that agree there share one lane of its line.
Few points differ within a small scope, and the lines of most nodes are short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from skpc._jit import kernel
from skpc.circuit import Circuit
from skpc.domain import group_rows
from skpc.kernels import ColumnKernel, leaf_expectations
from skpc.queries._conditionals import Conditionals, inner_scopes
from skpc.queries.passes.plan import Plan, plan_of
from skpc.variables.families import known_cells

__all__ = ["Lanes", "expected_at_points", "gram_parts", "laid_out", "lanes_of"]

#: Points that are laid out at a time.
_POINTS = 2048

#: For one variable, the cells in lanes to their values under each leaf, or at each known cell.
LeafValues = Callable[[int, np.ndarray], np.ndarray]


class Lanes(NamedTuple):
    """What the points look like to each node of a plan.

    Attributes
    ----------
    width : int64 array of shape (n_inner,)
        Number of lanes of each inner node.
    map_at : int64 array of shape (n_arguments,)
        Where the lanes of a product's child begin in ``lane``: for each lane of the product,
        that of the child.
    lane : int64 array
        The maps one after the other.
    leaf_at : int64 array of shape (n_leaves,)
        Where the values of each leaf begin in ``of_leaves``.
    of_leaves : array
        Value of each leaf in each lane of its variable.
    cells : list of array
        For each variable, the cells in its lanes.
    root : int64 array of shape (n_points,)
        The lane of each point at the root.
    """

    width: np.ndarray
    map_at: np.ndarray
    lane: np.ndarray
    leaf_at: np.ndarray
    of_leaves: np.ndarray
    cells: list[np.ndarray]
    root: np.ndarray


def lanes_of(circuit: Circuit, points: np.ndarray, leaf_values: LeafValues) -> Lanes:
    """Lay points out along the plan of a circuit.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    points : ndarray of shape (n_points, n_features, ...)
        Complete encoded rows, or several of them side by side in each point.
    leaf_values : callable
        Given a variable and the cells of n lanes, the values of its leaves,
        shape (n_leaves, n).

    Returns
    -------
    Lanes
    """
    plan = plan_of(circuit.structure).plan
    scopes = inner_scopes(circuit.structure).number
    grouped: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def group(scope: int) -> tuple[np.ndarray, np.ndarray]:
        """The lane of each point in a scope, and the first point of each lane."""
        if scope not in grouped:
            member = [bool(scope >> var & 1) for var in range(circuit.n_features)]
            part = np.ascontiguousarray(points[:, member].reshape(len(points), -1))
            lane = group_rows(part)[1]
            grouped[scope] = lane, np.unique(lane, return_index=True)[1]
        return grouped[scope]

    map_at, lane = _maps(plan, scopes, group)
    leaf_at, of_leaves, cells = np.empty(len(plan.leaves.var), np.int64), [], []
    filled = 0
    for var in range(circuit.n_features):
        cells.append(points[group(1 << var)[1], var])
        values = leaf_values(var, cells[-1])
        leaf_at[plan.leaves.var == var] = filled + np.arange(len(values)) * values.shape[1]
        of_leaves.append(values.ravel())
        filled += values.size
    width = np.array([len(group(scope)[1]) for scope in scopes])
    return Lanes(
        width, map_at, lane, leaf_at, np.concatenate(of_leaves), cells, group(scopes[-1])[0]
    )


def _maps(
    plan: Plan, scopes: Sequence[int], group: Callable[[int], tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """From the lanes of each product to those of its children."""
    map_at = np.full(len(plan.arg), -1)
    found: dict[tuple[int, int], int] = {}
    lanes: list[np.ndarray] = [np.empty(0, np.int64)]
    filled = 0
    for i in np.flatnonzero(plan.is_sum == 0).tolist():
        for a in range(plan.ptr[i], plan.ptr[i + 1]):
            child = int(plan.arg[a])
            below = scopes[child] if child >= 0 else 1 << int(plan.leaves.var[~child])
            key = (scopes[i], below)
            if key not in found:
                lanes.append(group(below)[0][group(scopes[i])[1]])
                found[key] = filled
                filled += len(lanes[-1])
            map_at[a] = found[key]
    return map_at, np.concatenate(lanes)


def laid_out(
    circuit: Circuit, points: np.ndarray, factors: tuple[ColumnKernel, ...]
) -> list[tuple[np.ndarray, Lanes]]:
    """Lay out points for a product kernel, so many at a time, with their numbers."""

    def leaf_values(var: int, cells: np.ndarray) -> np.ndarray:
        known = known_cells(circuit.columns, var, cells)
        return leaf_expectations(factors[var], circuit.leaf_forms(var), known)

    parts = [
        np.arange(start, min(start + _POINTS, len(points)))
        for start in range(0, len(points), _POINTS)
    ]
    return [(part, lanes_of(circuit, points[part], leaf_values)) for part in parts]


def gram_parts(
    circuit: Circuit,
    given: Conditionals,
    laid: list[tuple[np.ndarray, Lanes]],
    factors: tuple[ColumnKernel, ...],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Expected kernels between conditionals and points, with the numbers of the points."""
    for part, lanes in laid:

        def cell_values(var: int, cells: np.ndarray, lanes: Lanes = lanes) -> np.ndarray:
            return factors[var].of_points(cells[:, np.newaxis], lanes.cells[var])

        values = expected_at_points(circuit, given, lanes, cell_values)
        yield part, values[:, lanes.root]


def expected_at_points(
    circuit: Circuit, given: Conditionals, lanes: Lanes, cell_values: LeafValues
) -> np.ndarray:
    """Expected kernel between each conditional and each lane of the root.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    given : Conditionals
        Conditionals of it.
    lanes : Lanes
        The points.
    cell_values : callable
        Given a variable and n known cells of it, the values of the kernel between these and the
        lanes of the variable, shape (n, n_lanes).

    Returns
    -------
    ndarray of shape (n_rows, n_root_lanes)
    """
    program = plan_of(circuit.structure)
    known_at, of_cells = _known_values(given.cells, len(lanes.of_leaves), cell_values)
    n_values = len(lanes.of_leaves) + len(of_cells)
    work = np.empty(n_values + program.n_slots * lanes.width.max())
    work[:n_values] = np.concatenate([lanes.of_leaves, of_cells])
    out = np.empty((len(given.cells), lanes.width[-1]))
    _follow(
        program.plan,
        given.ptr,
        given.node,
        given.arg_ptr,
        given.arg,
        given.share,
        lanes.width,
        lanes.map_at,
        lanes.lane,
        lanes.leaf_at,
        known_at,
        n_values,
        work,
        out,
    )
    return out


def _known_values(
    cells: np.ndarray, filled: int, cell_values: LeafValues
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel values of the known cells, and where those of each cell begin; -1 if missing."""
    known_at = np.full(cells.shape, -1)
    parts = [np.empty(0)]
    for var in range(cells.shape[1]):
        seen = ~np.isnan(cells[:, var])
        distinct, which = np.unique(cells[seen, var], return_inverse=True)
        values = cell_values(var, distinct)
        known_at[seen, var] = filled + which * values.shape[1]
        parts.append(values.ravel())
        filled += values.size
    return known_at, np.concatenate(parts)


@kernel
def _follow(
    plan: Plan,
    ptr: np.ndarray,
    node: np.ndarray,
    arg_ptr: np.ndarray,
    arg: np.ndarray,
    share: np.ndarray,
    width: np.ndarray,
    map_at: np.ndarray,
    lane: np.ndarray,
    leaf_at: np.ndarray,
    known_at: np.ndarray,
    lines_at: int,
    work: np.ndarray,
    out: np.ndarray,
) -> None:
    """Evaluate the reached nodes of each row, one lane for each pattern of points.

    ``work`` holds the values of leaves and cells and, from ``lines_at`` on, the lines.
    """
    stride = 0
    for i in range(len(width)):
        stride = max(stride, width[i])
    for r in range(len(ptr) - 1):
        for e in range(ptr[r], ptr[r + 1]):
            i = node[e]
            n = width[i]
            target = work[lines_at + plan.slot[i] * stride :][:n]
            for k in range(arg_ptr[e], arg_ptr[e + 1]):
                a = arg[k]
                child = plan.arg[a]
                if child >= 0:
                    begin = lines_at + plan.slot[child] * stride
                else:
                    begin = known_at[r, plan.leaves.var[~child]]
                    begin = leaf_at[~child] if begin < 0 else begin
                source = work[begin:]
                if plan.is_sum[i] == 1:
                    if k == arg_ptr[e]:
                        for t in range(n):
                            target[t] = share[k] * source[t]
                    else:
                        for t in range(n):
                            target[t] += share[k] * source[t]
                else:
                    lanes = lane[map_at[a] :]
                    if k == arg_ptr[e]:
                        for t in range(n):
                            target[t] = source[lanes[t]]
                    else:
                        for t in range(n):
                            target[t] *= source[lanes[t]]
        i = node[ptr[r + 1] - 1]
        begin = lines_at + plan.slot[i] * stride
        for t in range(width[i]):
            out[r, t] = work[begin + t]
