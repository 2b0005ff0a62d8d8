r"""Expectations of products of column kernels between two leaves of several numbers.

The difference of independent normal scores is normal, so that a Gaussian kernel has the expectation
of :mod:`skpc.kernels.joint` with the sum of both covariances and the difference of the means. Where
both cells of a column are known it has a factor of its own. Else each side is at an atom, if the
cell is missing and there are some, or in its Gaussian: all choices are visited depth first, one
column after the other, and share the rows of the Cholesky factor of the columns before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import kernel
from skpc.kernels._expectations import leaf_expectations
from skpc.kernels._kernel import RBF, ColumnKernel
from skpc.kernels.joint import atoms_of, column_form, too_many_atoms
from skpc.variables import Columns
from skpc.variables.block import Blocks
from skpc.variables.block_normals import BlockNormals

#: Choices less probable than this are not followed.
_NOTHING = 1e-18
#: Choices, column by column, that are visited for a pair of distributions.
_MOST_VISITS = 2**20


class JointSide(NamedTuple):
    """One side of expected kernels: blocks of one scope, and their conditional distributions."""

    blocks: Blocks
    columns: Columns
    normals: BlockNormals


class _Side(NamedTuple):
    """The same as kernels read it.

    The atoms of column ``v`` are ``atom[atom_ptr[v]:atom_ptr[v + 1]]``; block ``k`` has their
    probabilities ``prob[k, atom_ptr[v] : atom_ptr[v + 1]]`` and that of the rest ``rest[k, v]``.
    """

    row: Ints
    of_set: Ints
    mean: Floats
    block: Ints
    missing: NDArray[np.bool_]
    covariance: Floats
    atom_ptr: Ints
    atom: Floats
    prob: Floats
    rest: Floats

    @classmethod
    def of(cls, side: JointSide) -> _Side:
        blocks, columns, normals = side
        places = range(len(blocks.variables))
        found = [atoms_of(blocks, columns, at) for at in places]
        of_set = np.repeat(np.arange(len(normals.block)), np.diff(normals.set_ptr))
        return cls(
            normals.row,
            of_set,
            normals.mean,
            normals.block,
            normals.missing,
            normals.covariance,
            offsets([len(atoms) for atoms, _ in found]),
            np.concatenate([atoms for atoms, _ in found]),
            np.hstack([prob[:, :-1] for _, prob in found]),
            np.column_stack([prob[:, -1] for _, prob in found]),
        )


def joint_pair_expectations(
    factors: Sequence[ColumnKernel], left: JointSide, right: JointSide, *, upper: bool = False
) -> Floats:
    """Expectation of a product of column kernels under each pair of two lists of distributions.

    Parameters
    ----------
    factors : sequence of ColumnKernel
        The kernels of the variables of the blocks.
    left, right : JointSide
        Distributions of the same variables.
    upper : bool, default=False
        Leave out pairs whose row on the left comes after that on the right; they are zero.

    Returns
    -------
    ndarray of shape (n_left, n_right)
    """
    root = np.array([math.sqrt(2.0 * f.gamma) if isinstance(f, RBF) else 0.0 for f in factors])
    found = np.zeros((len(left.normals.row), len(right.normals.row)))
    beyond = _pairs(_Side.of(left), _Side.of(right), root, upper, found)
    if beyond >= 0:
        missing = _missing_at(left, beyond // found.shape[1])
        missing |= _missing_at(right, beyond % found.shape[1])
        raise ValueError(too_many_atoms(left.blocks.variables[missing].tolist()))
    for at in np.flatnonzero(root == 0.0).tolist():
        forms = (column_form(*side, at) for side in (left, right))
        found *= leaf_expectations(factors[at], *forms)
    return found


def _missing_at(side: JointSide, member: int) -> NDArray[np.bool_]:
    """The columns with atoms that a distribution lacks."""
    of_set = int(np.searchsorted(side.normals.set_ptr, member, side="right")) - 1
    return side.normals.missing[of_set] & (np.diff(side.blocks.state_ptr) > 1)


@kernel
def _pairs(p: _Side, q: _Side, root: Floats, upper: bool, out: Floats) -> int:
    """The part of Gaussian kernels, pair by pair; the first pair with too many choices, or -1."""
    d, n_right = len(root), out.shape[1]
    p_row, p_set, q_row, q_set = p.row, p.of_set, q.row, q.of_set
    covariances, others = p.covariance, q.covariance
    index, ptr = np.empty(d, np.int64), np.empty(d + 1, np.int64)
    n_choices = 2 * d + len(p.atom) + len(q.atom)
    weight, away = np.empty(n_choices), np.empty(n_choices)
    inside = np.empty((n_choices, 2), np.bool_)
    for e in range(out.shape[0]):
        for f in range(n_right):
            if upper and p_row[e] > q_row[f]:
                continue
            size, square = _list_choices(p, q, e, f, root, index, ptr, weight, away, inside)
            s, t = p_set[e], q_set[f]
            found = _walk(size, ptr, weight, away, inside, index, root, covariances, s, others, t)
            if found < 0.0:
                return e * n_right + f
            out[e, f] = found * math.exp(-0.5 * square)
    return -1


@kernel
def _list_choices(
    p: _Side,
    q: _Side,
    e: int,
    f: int,
    root: Floats,
    index: Ints,
    ptr: Ints,
    weight: Floats,
    away: Floats,
    inside: NDArray[np.bool_],
) -> tuple[int, float]:
    """List what the cells can be in each column with a Gaussian kernel that are not both known.

    A choice has a weight and, if it is in a Gaussian of the left or the right side (``inside``), a
    distance. Returns the number of columns, and the squared distance in those that are known.
    """
    s, t = p.of_set[e], q.of_set[f]
    k, m = p.block[s], q.block[t]
    size, square, n = 0, 0.0, 0
    for v in range(len(root)):
        if root[v] == 0.0:
            continue
        x, y, gone, other_gone = p.mean[e, v], q.mean[f, v], p.missing[s, v], q.missing[t, v]
        if not gone and not other_gone:
            square += (root[v] * (x - y)) ** 2
            continue
        index[size], ptr[size] = v, n
        a0, a1 = p.atom_ptr[v], p.atom_ptr[v + 1] if gone else p.atom_ptr[v]
        b0, b1 = q.atom_ptr[v], q.atom_ptr[v + 1] if other_gone else q.atom_ptr[v]
        rest = p.rest[k, v] if gone else 1.0
        other_rest = q.rest[m, v] if other_gone else 1.0
        weight[n], away[n] = rest * other_rest, root[v] * (x - y)
        inside[n, 0], inside[n, 1] = gone, other_gone
        n += 1
        # Where one side is at an atom and the other known, or at one too, nothing is in a Gaussian.
        known = 0.0
        for a in range(a0, a1):
            if other_gone:
                weight[n], away[n] = p.prob[k, a] * other_rest, root[v] * (p.atom[a] - y)
                inside[n, 0], inside[n, 1] = False, True
                n += 1
            else:
                known += p.prob[k, a] * math.exp(-0.5 * (root[v] * (p.atom[a] - y)) ** 2)
            for b in range(b0, b1):
                apart = root[v] * (p.atom[a] - q.atom[b])
                known += p.prob[k, a] * q.prob[m, b] * math.exp(-0.5 * apart * apart)
        for b in range(b0, b1):
            if gone:
                weight[n], away[n] = q.prob[m, b] * rest, root[v] * (x - q.atom[b])
                inside[n, 0], inside[n, 1] = True, False
                n += 1
            else:
                known += q.prob[m, b] * math.exp(-0.5 * (root[v] * (x - q.atom[b])) ** 2)
        if known > 0.0:
            weight[n], away[n] = known, 0.0
            inside[n, 0], inside[n, 1] = False, False
            n += 1
        size += 1
    ptr[size] = n
    return size, square


@kernel
def _walk(
    size: int,
    ptr: Ints,
    weight: Floats,
    away: Floats,
    inside: NDArray[np.bool_],
    index: Ints,
    root: Floats,
    covariances: Floats,
    s: int,
    others: Floats,
    t: int,
) -> float:
    """Sum over all choices, depth first; -1 if there are too many."""
    column, of_side = np.empty(size, np.int64), np.empty((size, 2), np.bool_)
    factor, white = np.empty((size, size)), np.empty(size)
    upcoming, count = np.empty(size + 1, np.int64), np.zeros(size + 1, np.int64)
    prob, height, square = np.ones(size + 1), np.ones(size + 1), np.zeros(size + 1)
    upcoming[0] = ptr[0]
    total, n_visits, depth = 0.0, 0, 0
    while depth >= 0:
        if depth == size:
            total += prob[depth] * height[depth] * math.exp(-0.5 * square[depth])
            depth -= 1
            continue
        c = upcoming[depth]
        if c == ptr[depth + 1]:
            depth -= 1
            continue
        upcoming[depth] = c + 1
        n_visits += 1
        if n_visits > _MOST_VISITS:
            return -1.0
        k, below = count[depth], depth + 1
        prob[below] = prob[depth] * weight[c]
        height[below], square[below], count[below] = height[depth], square[depth], k
        if prob[below] < _NOTHING:
            continue
        if inside[c, 0] or inside[c, 1]:
            v = index[depth]
            column[k], of_side[k, 0], of_side[k, 1] = v, inside[c, 0], inside[c, 1]
            shift = away[c]
            for m in range(k + 1):
                u, rest = column[m], 0.0
                if of_side[m, 0] and inside[c, 0]:
                    rest += covariances[s, v, u]
                if of_side[m, 1] and inside[c, 1]:
                    rest += others[t, v, u]
                rest *= root[v] * root[u]
                for i in range(m):
                    rest -= factor[k, i] * factor[m, i]
                if m < k:
                    factor[k, m] = rest * factor[m, m]
                    shift -= factor[k, m] * white[m]
                else:
                    factor[k, k] = 1.0 / math.sqrt(1.0 + rest)
            white[k] = shift * factor[k, k]
            height[below] *= factor[k, k]
            square[below] += white[k] * white[k]
            count[below] = k + 1
        depth = below
        if depth < size:
            upcoming[depth] = ptr[depth]
    return total
