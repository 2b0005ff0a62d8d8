"""Passes of rows up and down a Chow-Liu tree of hidden variables.

``_LANES`` rows go together: their messages to the hidden states of a column lie side by side, shape
(n_columns, n_hidden, _LANES), so that one instruction treats several rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_log
from skpc._jit import internal_kernel, kernel

#: Rows that go together.
_LANES = 64


class FlatTree(NamedTuple):
    """A tree of hidden variables as arrays.

    Parameters
    ----------
    order : ndarray of shape (n_columns,)
        The columns, children before parents.
    parent : ndarray of shape (n_columns,)
        The parent of each column, -1 for the root.
    first : ndarray of shape (k,)
        Probabilities of the hidden states of the root.
    transition : ndarray of shape (n_columns, k, k)
        Those of the hidden states of a column (last axis) given those of its parent.
    state_ptr : ndarray of shape (n_columns + 1,)
        The states of column v are the rows ``state_ptr[v] .. state_ptr[v + 1]`` of ``emission``.
    emission : ndarray of shape (n_states, k)
        Probability of each state given the hidden states of its column.
    """

    order: Ints
    parent: Ints
    first: Floats
    transition: Floats
    state_ptr: Ints
    emission: Floats


@kernel
def measure_rows(tree: FlatTree, codes: NDArray[np.int16], log_likelihood: Floats) -> None:
    """Log-likelihood (nats) of rows of states, missing ones (-1) summed out."""
    shape = codes.shape[1], len(tree.first), _LANES
    below, told = np.empty(shape), np.empty(shape)
    likelihood, log_scale = np.empty(_LANES), np.empty(_LANES)
    for begin in range(0, len(codes), _LANES):
        _pass_up(tree, codes, begin, below, told, likelihood, log_scale)
        for r in range(min(_LANES, len(codes) - begin)):
            log_likelihood[begin + r] = np.log(likelihood[r]) + log_scale[r]


@kernel
def count_rows(
    tree: FlatTree,
    codes: NDArray[np.int16],
    weight: Floats,
    of_first: Floats,
    of_transition: Floats,
    of_emission: Floats,
) -> None:
    """Add the expected weights of rows: of hidden states, with those of the parent, with cells."""
    shape = codes.shape[1], len(tree.first), _LANES
    below, told = np.empty(shape), np.empty(shape)
    likelihood, log_scale = np.empty(_LANES), np.empty(_LANES)
    for begin in range(0, len(codes), _LANES):
        _pass_up(tree, codes, begin, below, told, likelihood, log_scale)
        n_rows = min(_LANES, len(codes) - begin)
        for r in range(_LANES):
            # Lanes without a row weigh nothing.
            likelihood[r] = weight[begin + r] / likelihood[r] if r < n_rows else 0.0
        _pass_down(tree, likelihood, below, told, of_first, of_transition)
        state_ptr = tree.state_ptr
        for v in range(shape[0]):
            for r in range(n_rows):
                code = codes[begin + r, v]
                if code >= 0:
                    for z in range(shape[1]):
                        of_emission[state_ptr[v] + code, z] += below[v, z, r]


@internal_kernel
def _pass_up(
    tree: FlatTree,
    codes: NDArray[np.int16],
    begin: int,
    below: Floats,
    told: Floats,
    likelihood: Floats,
    log_scale: Floats,
) -> None:
    """The messages that each hidden variable gets from its cell and the subtrees, and sends up."""
    order, parent, first, transition = tree.order, tree.parent, tree.first, tree.transition
    n_columns, k = below.shape[0], len(first)
    greatest = np.empty(_LANES)
    log_scale[:] = 0.0
    _load_cells(tree, codes, begin, below)
    for i in range(n_columns):
        v = order[i]
        here = below[v]
        for r in range(_LANES):
            greatest[r] = here[0, r]
        for z in range(1, k):
            for r in range(_LANES):
                greatest[r] = max(greatest[r], here[z, r])
        for r in range(_LANES):
            log_scale[r] += fast_log(greatest[r])
            greatest[r] = 1.0 / greatest[r]
        for z in range(k):
            for r in range(_LANES):
                here[z, r] *= greatest[r]
        if parent[v] >= 0:
            above, mine = below[parent[v]], told[v]
            _mix(transition[v], here, mine)
            for h in range(k):
                for r in range(_LANES):
                    above[h, r] *= mine[h, r]
    root = below[order[n_columns - 1]]
    likelihood[:] = 0.0
    for z in range(k):
        for r in range(_LANES):
            likelihood[r] += first[z] * root[z, r]


@internal_kernel
def _load_cells(tree: FlatTree, codes: NDArray[np.int16], begin: int, below: Floats) -> None:
    """Probabilities of the cells; one where a cell is missing, or a lane has no row."""
    state_ptr, emission = tree.state_ptr, tree.emission
    n_rows, line = min(_LANES, len(codes) - begin), np.full(_LANES, -1, np.int64)
    for v in range(below.shape[0]):
        here = below[v]
        for r in range(n_rows):
            line[r] = state_ptr[v] + codes[begin + r, v] if codes[begin + r, v] >= 0 else -1
        for z in range(below.shape[1]):
            for r in range(_LANES):
                here[z, r] = emission[line[r], z] if line[r] >= 0 else 1.0


@internal_kernel
def _pass_down(
    tree: FlatTree,
    weight: Floats,
    below: Floats,
    told: Floats,
    of_first: Floats,
    of_transition: Floats,
) -> None:
    """Turn what is below the hidden variables into posteriors, and add up those of edges."""
    order, parent, first, transition = tree.order, tree.parent, tree.first, tree.transition
    n_columns, k = below.shape[0], len(first)
    mixed, turned = np.empty((k, _LANES)), np.empty((k, k))
    root = below[order[n_columns - 1]]
    for z in range(k):
        for r in range(_LANES):
            root[z, r] *= first[z] * weight[r]
            of_first[z] += root[z, r]
    for i in range(n_columns - 2, -1, -1):
        v = order[i]
        here, outside, above = below[v], told[v], below[parent[v]]
        # Posterior of the hidden state of the parent, by what is not below this column alone.
        for h in range(k):
            for r in range(_LANES):
                outside[h, r] = above[h, r] / outside[h, r]
        for h in range(k):
            for z in range(k):
                together = 0.0
                for r in range(_LANES):
                    together += outside[h, r] * here[z, r]
                of_transition[v, h, z] += transition[v, h, z] * together
                turned[z, h] = transition[v, h, z]
        _mix(turned, outside, mixed)
        for z in range(k):
            for r in range(_LANES):
                here[z, r] *= mixed[z, r]


@internal_kernel
def _mix(matrix: Floats, lines: Floats, out: Floats) -> None:
    """The product of a matrix and lines of lanes; four lines are read at a time."""
    k = len(matrix)
    for h in range(k):
        mine = out[h]
        for r in range(_LANES):
            mine[r] = 0.0
        for z in range(0, k - 3, 4):
            m0, m1, m2, m3 = matrix[h, z], matrix[h, z + 1], matrix[h, z + 2], matrix[h, z + 3]
            line0, line1, line2, line3 = lines[z], lines[z + 1], lines[z + 2], lines[z + 3]
            for r in range(_LANES):
                mine[r] += m0 * line0[r] + m1 * line1[r] + m2 * line2[r] + m3 * line3[r]
        for z in range(k - k % 4, k):
            factor, line = matrix[h, z], lines[z]
            for r in range(_LANES):
                mine[r] += factor * line[r]
