"""Means, draws and most probable values of the missing cells of blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import inlined, kernel
from skpc._random import Streams, draw_index, normal, uniform
from skpc.variables.block import BlockCells, Blocks
from skpc.variables.forms import NOTHING
from skpc.variables.leaves import Columns
from skpc.variables.score import value_of
from skpc.variables.scored import REDRAWS, is_atom
from skpc.variables.scored_column import ATOMS, HEAD, column_in


def cell_moments(
    blocks: Blocks,
    columns: Columns,
    scores: tuple[Floats, Floats],
    place: int,
    prob: Floats,
    centre: float,
) -> tuple[Floats, Floats]:
    """Mean and mean square of missing cells of a column around a centre.

    ``scores`` are the means and standard deviations of their scores, ``prob`` the probability of
    each block given each row, shape (n_blocks, n_rows).
    """
    column = column_in(columns, int(blocks.variables[place]))
    mean, sd = scores
    k, row = np.nonzero(prob > NOTHING)
    moments = column.score.moments(mean[k, row], sd[k, row], np.full(len(k), centre))
    state_prob = np.exp(blocks.log_prob[:, blocks.state_ptr[place] : blocks.state_ptr[place + 1]])
    of_atoms = [state_prob[:, :-1] @ (column.atoms - centre) ** power for power in (1, 2)]
    values = [
        prob[k, row] * (atoms[k] + state_prob[k, -1] * rest)
        for atoms, rest in zip(of_atoms, moments)
    ]
    first, second = (np.bincount(row, value, prob.shape[1]) for value in values)
    return first.astype(np.float64), second.astype(np.float64)


def draw_missing(
    blocks: Blocks,
    columns: Columns,
    cells: BlockCells,
    reached: Ints,
    streams: Streams,
    rows: Floats,
) -> None:
    """Fill the missing cells of rows by joint draws given their observed cells.

    Parameters
    ----------
    blocks : Blocks
        The blocks of a scope.
    columns : Columns
        The variables.
    cells : BlockCells
        Cells of the rows.
    reached : ndarray of shape (n_rows,)
        The block of each row; -1 leaves it as it is.
    streams : ndarray of shape (n_rows,)
        The random stream of each row.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows; filled in place.
    """
    prob = np.exp(blocks.log_prob)
    means, covariances = blocks.gaussians.mean, blocks.gaussians.covariance
    axes = (columns.axis, columns.axis_ptr[blocks.variables])
    states = (prob, blocks.state_ptr, means, covariances)
    _draw(*states, blocks.variables, *axes, cells.scores, reached, streams, rows)


@kernel
def _draw(
    prob: Floats,
    state_ptr: Ints,
    means: Floats,
    covariances: Floats,
    variables: Ints,
    axis: Floats,
    axis_at: Ints,
    scores: Floats,
    reached: Ints,
    streams: Streams,
    rows: Floats,
) -> None:
    d = len(variables)
    order, root = np.empty(d, np.int64), np.empty((d, d))
    away, score = np.empty(d), np.empty(prob.shape[1])
    for r in range(len(rows)):
        k = reached[r]
        if k < 0:
            continue
        n_known = np.int64(0)
        for at in range(d):
            if not np.isnan(scores[r, at]):
                order[n_known] = at
                n_known += 1
        n = n_known
        for at in range(d):
            var, n_atoms = variables[at], state_ptr[at + 1] - state_ptr[at] - 1
            if np.isnan(rows[r, var]):
                state = _draw_state(prob, k, state_ptr[at], n_atoms + 1, score, streams, r)
                if state < n_atoms:
                    rows[r, var] = axis[axis_at[at] + ATOMS + state]
                else:
                    order[n] = at
                    n += 1
        _root(covariances, k, order, n, root)
        for i in range(n):
            # Each score is its mean given those before, and an innovation.
            at = order[i]
            mean = means[k, at]
            for j in range(i):
                mean += root[i, j] * away[j]
            if i < n_known:
                away[i] = (scores[r, at] - mean) / root[i, i]
                continue
            begin, n_states = axis_at[at], state_ptr[at + 1] - state_ptr[at]
            low, high = axis[begin + 4], axis[begin + 5]
            x = np.nan
            for _ in range(REDRAWS):
                away[i] = normal(streams, r)
                x = value_of(axis, begin + HEAD, mean + root[i, i] * away[i])
                if low <= x <= high and not is_atom(axis, begin, n_states, x):
                    break
            rows[r, variables[at]] = min(max(x, low), high)


@inlined
def _draw_state(
    prob: Floats, k: int, begin: int, n_states: int, score: Floats, streams: Streams, r: int
) -> int:
    """Draw an atom of a column, or its last state."""
    if n_states == 1:
        return 0
    for s in range(n_states):
        score[s] = prob[k, begin + s]
    return draw_index(score, np.int64(0), n_states, uniform(streams, r))


@inlined
def _root(covariances: Floats, k: int, order: Ints, n: Any, root: Floats) -> None:
    """Lower Cholesky factor of the covariance of the first ``n`` columns of an order."""
    for i in range(n):
        for j in range(i + 1):
            total = covariances[k, order[i], order[j]]
            for m in range(j):
                total -= root[i, m] * root[j, m]
            root[i, j] = total / root[j, j] if j < i else math.sqrt(max(total, 1e-300))


def fill_modes(
    blocks: Blocks, columns: Columns, cells: BlockCells, reached: Ints, rows: Floats
) -> None:
    """Fill the missing cells of rows by the most probable ones; see :func:`draw_missing`."""
    some = np.flatnonzero(reached >= 0)
    modes = blocks.modes(cells)[reached[some], some]
    for place, var in enumerate(blocks.variables.tolist()):
        column = column_in(columns, var)
        begin, end = blocks.state_ptr[place], blocks.state_ptr[place + 1]
        best = blocks.log_prob[reached[some], begin:end].argmax(axis=1)
        atoms = np.append(column.atoms, np.nan)[best]
        values = np.where(np.isnan(atoms), column.score.inverse(modes[:, place]), atoms)
        rows[some, var] = np.where(np.isnan(rows[some, var]), values, rows[some, var])
