r"""Expectations of products of column kernels between two leaves of several numbers.

The difference of independent normal scores is normal. So a Gaussian kernel has the expectation
of :mod:`skpc.kernels.joint` with the sum of both covariances and the difference of the means. If
both cells of a column are known, the column has a factor of its own. Otherwise each side is at an
atom, if the cell is missing and the column has atoms, or in its Gaussian. All choices are visited
depth first, one column after the other, and share the rows of the Cholesky factor of the columns
before.
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
_NOTHING = 1e-17
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
        return cls(
            normals.row,
            normals.of_set,
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
    # Columns without choices come first: those with some share what these add.
    n_atoms = np.diff(left.blocks.state_ptr) + np.diff(right.blocks.state_ptr)
    order = np.argsort(n_atoms, kind="stable")
    order = order[root[order] > 0.0]
    beyond = _pairs(_Side.of(left), _Side.of(right), order, root, upper, found)
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
def _pairs(p: _Side, q: _Side, order: Ints, root: Floats, upper: bool, out: Floats) -> int:
    """The part of Gaussian kernels, pair by pair; the first pair with too many choices, or -1."""
    d, n_right = len(root), out.shape[1]
    p_row, p_set, q_row, q_set = p.row, p.of_set, q.row, q.of_set
    covariances, others = p.covariance, q.covariance
    index, ptr = np.empty(d, np.int64), np.empty(d + 1, np.int64)
    n_choices = 2 * d + len(p.atom) + len(q.atom)
    weight, away = np.empty(n_choices), np.empty(n_choices)
    inside = np.empty((n_choices, 2), np.bool_)
    state, number = np.empty((d + 1, 5), np.int64), np.empty((d + 1, d + 4))
    for e in range(out.shape[0]):
        for f in range(n_right):
            if upper and p_row[e] > q_row[f]:
                continue
            size, square = _list_choices(p, q, e, f, order, root, index, ptr, weight, away, inside)
            s, t = p_set[e], q_set[f]
            choices = (size, ptr, weight, away, inside, index, root)
            found = _walk(*choices, covariances, s, others, t, state, number)
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
    order: Ints,
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
    means, gaps, atom_ptr, atom, prob, rests = p.mean, p.missing, p.atom_ptr, p.atom, p.prob, p.rest
    others, other_gaps, other_ptr = q.mean, q.missing, q.atom_ptr
    other_atom, other_prob, other_rests = q.atom, q.prob, q.rest
    s, t = p.of_set[e], q.of_set[f]
    k, m = p.block[s], q.block[t]
    size, square, n = 0, 0.0, 0
    for v in order:
        x, y, gone, other_gone = means[e, v], others[f, v], gaps[s, v], other_gaps[t, v]
        if not gone and not other_gone:
            square += (root[v] * (x - y)) ** 2
            continue
        index[size], ptr[size] = v, n
        a0, a1 = atom_ptr[v], atom_ptr[v + 1] if gone else atom_ptr[v]
        b0, b1 = other_ptr[v], other_ptr[v + 1] if other_gone else other_ptr[v]
        rest = rests[k, v] if gone else 1.0
        other_rest = other_rests[m, v] if other_gone else 1.0
        weight[n], away[n] = rest * other_rest, root[v] * (x - y)
        inside[n, 0], inside[n, 1] = gone, other_gone
        n += 1
        # Where one side is at an atom and the other known, or at one too, nothing is in a Gaussian.
        known = 0.0
        for a in range(a0, a1):
            if other_gone:
                weight[n], away[n] = prob[k, a] * other_rest, root[v] * (atom[a] - y)
                inside[n, 0], inside[n, 1] = False, True
                n += 1
            else:
                known += prob[k, a] * math.exp(-0.5 * (root[v] * (atom[a] - y)) ** 2)
            for b in range(b0, b1):
                apart = root[v] * (atom[a] - other_atom[b])
                known += prob[k, a] * other_prob[m, b] * math.exp(-0.5 * apart * apart)
        for b in range(b0, b1):
            if gone:
                weight[n], away[n] = other_prob[m, b] * rest, root[v] * (x - other_atom[b])
                inside[n, 0], inside[n, 1] = True, False
                n += 1
            else:
                known += other_prob[m, b] * math.exp(-0.5 * (root[v] * (x - other_atom[b])) ** 2)
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
    state: Ints,
    number: Floats,
) -> float:
    """Sum over all choices, depth first; -1 if there are too many.

    The rows of ``state`` and ``number`` are workspace, one for each depth: the next choice, how
    many columns are in a Gaussian before, and of one of these the number and the sides; a row of
    the Cholesky factor, the whitened distance, and the probability, the height and the squared
    distance so far.
    """
    d = len(root)
    white, prob, height, square = d, d + 1, d + 2, d + 3
    number[0, prob], number[0, height], number[0, square] = 1.0, 1.0, 0.0
    state[0, 0], state[0, 1] = ptr[0], 0
    total, n_visits, depth = 0.0, 0, 0
    while depth >= 0:
        if depth == size:
            weighted = number[depth, prob] * number[depth, height]
            total += weighted * math.exp(-0.5 * number[depth, square])
            depth -= 1
            continue
        c = state[depth, 0]
        if c == ptr[depth + 1]:
            depth -= 1
            continue
        state[depth, 0] = c + 1
        n_visits += 1
        if n_visits > _MOST_VISITS:
            return -1.0
        k, below = state[depth, 1], depth + 1
        p, h, far = number[depth, prob] * weight[c], number[depth, height], number[depth, square]
        if p < _NOTHING:
            continue
        if inside[c, 0] or inside[c, 1]:
            v = index[depth]
            state[k, 2], state[k, 3], state[k, 4] = v, inside[c, 0], inside[c, 1]
            shift = away[c]
            for m in range(k + 1):
                u, rest = state[m, 2], 0.0
                if inside[c, 0] and state[m, 3] == 1:
                    rest += covariances[s, v, u]
                if inside[c, 1] and state[m, 4] == 1:
                    rest += others[t, v, u]
                rest *= root[v] * root[u]
                for i in range(m):
                    rest -= number[k, i] * number[m, i]
                if m < k:
                    rest *= number[m, m]
                    number[k, m] = rest
                    shift -= rest * number[m, white]
                else:
                    number[k, k] = 1.0 / math.sqrt(1.0 + rest)
            shift *= number[k, k]
            number[k, white] = shift
            h *= number[k, k]
            far += shift * shift
            k += 1
        depth = below
        number[depth, prob], number[depth, height], number[depth, square] = p, h, far
        state[depth, 1] = k
        if depth < size:
            state[depth, 0] = ptr[depth]
    return total
