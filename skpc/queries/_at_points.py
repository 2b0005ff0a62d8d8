"""Expected kernels between conditionals of a circuit and points: many points side by side.

A node sees only the columns of its scope. Points that agree there share one place of its lines. Few
points differ within a small scope, so the lines of most nodes are short.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import kernel
from skpc._threads import slices
from skpc.circuit import Circuit
from skpc.domain import group_rows
from skpc.kernels import ColumnKernel, leaf_expectations, leaf_second_moments
from skpc.kernels.joint import JointPoints, JointSide, joint_expectations
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
from skpc.variables import Leaves
from skpc.variables.leaf_queries import kernel_cells, known_cells

#: Points that are laid out at a time.
_POINTS = 2048


class Patterns(NamedTuple):
    """What the points look like to each node of a plan.

    Attributes
    ----------
    width : int64 array of shape (n_inner,)
        Number of patterns of each inner node.
    map_at : int64 array of shape (n_arguments,)
        Where the patterns of a product's child begin in ``pattern``: for each pattern of the
        product, that of the child.
    pattern : int64 array
        The maps one after the other.
    leaf_at : int64 array of shape (n_leaves,)
        Where the values of each leaf of one variable begin in ``of_leaves``.
    of_leaves : array
        Value of each of these leaves in each pattern of its variable.
    cells : list of array
        For each variable, the cells in its patterns, shape (n_patterns, n_cells); empty where no
        leaf is of it alone.
    joint : list of JointPoints
        For each scope of several variables that has leaves, its patterns.
    root : int64 array of shape (n_points,)
        The pattern of each point at the root.
    """

    width: Ints
    map_at: Ints
    pattern: Ints
    leaf_at: Ints
    of_leaves: Floats
    cells: list[Floats]
    joint: list[JointPoints]
    root: Ints


def patterns_of(circuit: Circuit, points: Floats, factors: tuple[ColumnKernel, ...]) -> Patterns:
    """Lay points out along the plan of a circuit.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    points : ndarray of shape (n_points, n_features, n_cells)
        Complete encoded rows, or two of them side by side in each point: then values are those of
        the product of the kernels with both.
    factors : tuple of ColumnKernel
        The kernel of each variable.

    Returns
    -------
    Patterns
    """
    plan = plan_of(circuit.structure).plan
    scopes = inner_scopes(circuit.structure).number
    grouped: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def grouped_by(scope: int) -> tuple[np.ndarray, np.ndarray]:
        """The pattern of each point in a scope, and the first point of each pattern."""
        if scope not in grouped:
            member = [bool(scope >> var & 1) for var in range(circuit.n_features)]
            part = np.ascontiguousarray(points[:, member].reshape(len(points), -1))
            # Points that agree on the scope share all that happens below it.
            pattern = group_rows(part)[1]
            grouped[scope] = pattern, np.unique(pattern, return_index=True)[1]
        return grouped[scope]

    # What depends on points alone is laid out once, for all rows that are asked about.
    leaves = circuit.structure.leaves
    map_at, pattern = _maps(plan, scopes, circuit.structure.scopes, leaves, grouped_by)
    leaf_at, of_leaves, cells = np.empty(len(plan.leaves.var), np.int64), [], []
    filled = 0
    for var, alone in enumerate(variables_of_leaves(circuit)):
        # A variable that only leaves of several have needs no values of its own.
        cells.append(points[grouped_by(1 << var)[1] if alone else slice(0), var])
        # A pattern of a variable is one of its distinct cells.
        values = _leaf_values(circuit, factors[var], var, cells[-1])
        leaf_at[leaves.with_variable(var)] = filled + np.arange(len(values)) * values.shape[1]
        of_leaves.append(values.ravel())
        filled += values.size
    joint = [
        _joint_points(circuit, points[grouped_by(scope)[1]], group.variables, factors)
        for scope, group in zip(joint_scopes(circuit), joint_groups(circuit))
    ]
    width = np.array([len(grouped_by(scope)[1]) for scope in scopes])
    lines = (leaf_at, np.concatenate(of_leaves), cells, joint)
    return Patterns(width, map_at, pattern, *lines, grouped_by(scopes[-1])[0])


def _leaf_values(circuit: Circuit, factor: ColumnKernel, var: int, cells: Floats) -> Floats:
    """Values of the leaves of a variable in patterns; those of several variables are not read."""
    columns, leaves = circuit.columns, circuit.leaf_forms(var)
    if cells.shape[1] == 1:
        return leaf_expectations(factor, leaves, known_cells(columns, var, cells[:, 0]))
    return leaf_second_moments(factor, leaves, *kernel_cells(columns, var, cells).T)


def _joint_points(
    circuit: Circuit, points: Floats, variables: Ints, factors: tuple[ColumnKernel, ...]
) -> JointPoints:
    cells = [
        kernel_cells(circuit.columns, var, points[:, var]).reshape(len(points), -1)
        for var in variables.tolist()
    ]
    return JointPoints.from_cells([factors[var] for var in variables], np.stack(cells, axis=1))


def _maps(
    plan: Plan,
    scopes: Sequence[int],
    scope_of_node: Sequence[int],
    leaves: Leaves,
    grouped_by: Callable[[int], tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """From the patterns of each product to those of its children."""
    map_at = np.full(len(plan.arg), -1)
    begin: dict[tuple[int, int], int] = {}
    patterns: list[Floats] = [np.empty(0, np.int64)]
    filled = 0
    # Children of a sum have its scope, and so its patterns: only products need a map.
    for i in np.flatnonzero(plan.is_sum == 0).tolist():
        for a in range(plan.ptr[i], plan.ptr[i + 1]):
            child = int(plan.arg[a])
            below = scopes[child] if child >= 0 else scope_of_node[leaves.node[~child]]
            key = (scopes[i], below)
            # Products that split one scope alike share their maps.
            if key not in begin:
                patterns.append(grouped_by(below)[0][grouped_by(scopes[i])[1]])
                begin[key] = filled
                filled += len(patterns[-1])
            map_at[a] = begin[key]
    return map_at, np.concatenate(patterns)


def laid_out(
    circuit: Circuit, points: Floats, factors: tuple[ColumnKernel, ...]
) -> list[tuple[slice, Patterns]]:
    """Lay out points for a product kernel, part by part, with their places."""
    parts = slices(len(points), _POINTS)
    return [(part, patterns_of(circuit, points[part, :, np.newaxis], factors)) for part in parts]


def expected_at_points(
    circuit: Circuit, given: Conditionals, patterns: Patterns, factors: tuple[ColumnKernel, ...]
) -> Floats:
    """Expected kernel between each conditional and each pattern of the root.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    given : Conditionals
        Conditionals of it.
    patterns : Patterns
        The points.
    factors : tuple of ColumnKernel
        The kernel of each variable.

    Returns
    -------
    ndarray of shape (n_rows, n_root_patterns)
    """
    program = plan_of(circuit.structure)
    # Kernel values of points and known cells depend on no leaf: they are computed once.
    known_at, of_cells = _known_values(circuit, given.cells, patterns, factors)
    alone = np.concatenate([patterns.of_leaves, of_cells])
    sizes = [len(n.row) * len(p.height) for n, p in zip(given.joint, patterns.joint)]
    lines_at = len(alone) + sum(sizes)
    # One array for all: a kernel that chose between several would be compiled for each.
    work = np.empty(lines_at + program.n_slots * patterns.width.max())
    work[: len(alone)] = alone
    # The number of each leaf of several variables (-1: it is of one), and where its values begin
    # in each row.
    joint, place = joint_places(circuit, given)
    joint_at, first, begin = np.empty_like(place), 0, len(alone)
    for group, normals, points in zip(joint_groups(circuit), given.joint, patterns.joint):
        shape = (len(normals.row), len(points.height))
        values = work[begin : begin + math.prod(shape)].reshape(shape)
        factors_of_group = [factors[var] for var in group.variables]
        side = JointSide(group, circuit.columns, normals)
        joint_expectations(factors_of_group, side, points, values)
        part = slice(first, first + len(group.leaf))
        joint_at[:, part] = begin + place[:, part] * shape[1]
        first += len(group.leaf)
        begin += values.size
    out = np.empty((len(given.cells), patterns.width[-1]))
    layout = (patterns.width, patterns.map_at, patterns.pattern, patterns.leaf_at)
    _follow(program.plan, given.reached, *layout, known_at, joint, joint_at, lines_at, work, out)
    return out


def _known_values(
    circuit: Circuit, cells: Floats, patterns: Patterns, factors: tuple[ColumnKernel, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel values of the known cells, and where those of each cell begin; -1 if missing."""
    known_at, filled = np.full(cells.shape, -1), len(patterns.of_leaves)
    parts = [np.empty(0)]
    for var in range(cells.shape[1]):
        observed = ~np.isnan(cells[:, var])
        # Many rows have few different cells: the kernel is evaluated once for each of them.
        distinct, which = np.unique(cells[observed, var], return_inverse=True)
        known, points = (
            kernel_cells(circuit.columns, var, part) for part in (distinct, patterns.cells[var])
        )
        values = factors[var].of_points(known[:, np.newaxis, np.newaxis], points).prod(axis=2)
        known_at[observed, var] = filled + which * values.shape[1]
        parts.append(values.ravel())
        filled += values.size
    return known_at, np.concatenate(parts)


@kernel
def _follow(
    plan: Plan,
    given: Reached,
    width: Ints,
    map_at: Ints,
    pattern: Ints,
    leaf_at: Ints,
    known_at: Ints,
    joint: Ints,
    joint_at: Ints,
    lines_at: int,
    work: Floats,
    out: Floats,
) -> None:
    """Evaluate the reached nodes of each row, one place of a line for each pattern of points.

    Parameters
    ----------
    plan, given : Plan and Reached
        The order of the nodes, and which of them each row reaches.
    width, map_at, pattern, leaf_at : arrays
        See :class:`Patterns`.
    known_at : array of shape (n_rows, n_features)
        Where the values of each known cell begin in ``work``; -1 for a missing cell.
    joint : array of shape (n_leaves,)
        The number of a leaf among those of several variables, -1 for the others.
    joint_at : array of shape (n_rows, n_joint_leaves)
        Where the values of these begin in ``work`` for each row.
    lines_at : int
        Where the lines begin in ``work``.
    work : array
        The values of leaves and known cells, and behind them the lines of the nodes.
    out : array of shape (n_rows, n_root_patterns)
        Takes the values of the root.
    """
    ptr, node, arg_ptr = given.ptr, given.node, given.arg_ptr
    arg, posterior = given.arg, given.weight
    # Lines are as wide as the widest node, so that one may take the place of another.
    stride = 0
    for i in range(len(width)):
        stride = max(stride, width[i])
    # Row by row: the lines of one row are all that has to be kept.
    for r in range(len(ptr) - 1):
        for e in range(ptr[r], ptr[r + 1]):
            i = node[e]
            n = width[i]
            target = work[lines_at + plan.slot[i] * stride :][:n]
            # Children stand before their parents, so that their lines are filled.
            # Only children that the row reaches take part.
            for k in range(arg_ptr[e], arg_ptr[e + 1]):
                a = arg[k]
                child = plan.arg[a]
                if child >= 0:
                    begin = lines_at + plan.slot[child] * stride
                else:
                    var, number = plan.leaves.var[~child], joint[~child]
                    begin = known_at[r, var] if number < 0 else joint_at[r, number]
                    begin = leaf_at[~child] if begin < 0 else begin
                source = work[begin:]
                if plan.is_sum[i] == 1:
                    # The first child overwrites what another node has left in the line.
                    if k == arg_ptr[e]:
                        for t in range(n):
                            target[t] = posterior[k] * source[t]
                    else:
                        for t in range(n):
                            target[t] += posterior[k] * source[t]
                else:
                    # A child has a smaller scope and fewer patterns: several here share one there.
                    patterns = pattern[map_at[a] :]
                    if k == arg_ptr[e]:
                        for t in range(n):
                            target[t] = source[patterns[t]]
                    else:
                        for t in range(n):
                            target[t] *= source[patterns[t]]
        # The root is the last node that a row reaches.
        i = node[ptr[r + 1] - 1]
        begin = lines_at + plan.slot[i] * stride
        for t in range(width[i]):
            out[r, t] = work[begin + t]
