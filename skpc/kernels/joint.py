r"""Expectations of products of column kernels under leaves of several numbers, at points.

Let :math:`G = \operatorname{diag}(\sqrt{2 \gamma_v})`. Under normal scores with mean m and
covariance S a Gaussian kernel has the expectation

.. math:: |I + G S G|^{-1/2} \exp(-\tfrac12 |L^{-1} G (c - m)|^2), \qquad L L^T = I + G S G,

at a point c. A missing cell with atoms is at one of them, or in the Gaussian. So the expectation is
a sum over all sets of such cells. A cell at an atom is left out of G, and counts with the mean of
its kernel over the atoms. Other kernels see only whether two cells are equal. They have one factor
for each column, whatever the other columns do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._fast_math import fast_exp
from skpc._jit import internal_kernel, kernel
from skpc.kernels._expectations import leaf_expectations, leaf_second_moments
from skpc.kernels._kernel import RBF, ColumnKernel
from skpc.variables import Columns, Normals
from skpc.variables.block import Blocks
from skpc.variables.block_normals import BlockNormals
from skpc.variables.families import kernel_cells
from skpc.variables.scored_column import column_in

#: Sets of cells at atoms whose probabilities add up to less than this are left out.
_NOTHING = 1e-12
#: Sets of cells at atoms that are summed over.
_MOST_SETS = 2**16


class JointPoints(NamedTuple):
    """Points, or pairs of points, in the variables of some blocks.

    The product of a Gaussian kernel at two cells is a narrower one in the middle between them.

    Parameters
    ----------
    cells : ndarray of shape (n_points, n_columns, n_cells)
        Scores of the cells: one, or two of a pair.
    centre : ndarray of shape (n_columns, n_points)
        Their middle.
    root : ndarray of shape (n_columns,)
        The diagonal of G; 0 for a column whose kernel is not Gaussian.
    height : ndarray of shape (n_points,)
        What Gaussian kernels count in the middle.
    """

    cells: Floats
    centre: Floats
    root: Floats
    height: Floats

    @classmethod
    def of(cls, factors: Sequence[ColumnKernel], cells: Floats) -> JointPoints:
        """Points as column kernels see them."""
        gamma = np.array([f.gamma if isinstance(f, RBF) else 0.0 for f in factors])
        centre = np.where(gamma > 0.0, cells.mean(axis=2), 0.0)
        apart = np.where(gamma > 0.0, np.square(cells - centre[:, :, np.newaxis]).sum(axis=2), 0.0)
        root = np.sqrt(2.0 * gamma * cells.shape[2])
        return cls(cells, np.ascontiguousarray(centre.T), root, np.exp(-apart @ gamma))


class _Terms(NamedTuple):
    """Sums over sets of cells at atoms, for each set of rows that lack the same cells.

    Term ``t`` of set ``s``, ``ptr[s] <= t < ptr[s + 1]``, has the probability that the columns not
    marked in ``mask`` hold atoms, were it not for their own factor, which is that of the atoms.
    """

    ptr: Ints
    mask: NDArray[np.bool_]
    weight: Floats


def joint_expectations(
    factors: Sequence[ColumnKernel],
    blocks: Blocks,
    columns: Columns,
    normals: BlockNormals,
    points: JointPoints,
    out: Floats,
) -> None:
    """Expectation of a product of column kernels at points, or of products at pairs of points.

    Parameters
    ----------
    factors : sequence of ColumnKernel
        The kernels of the variables of the blocks.
    blocks : Blocks
        The blocks of a scope.
    columns : Columns
        The variables.
    normals : BlockNormals
        Conditional distributions under them.
    points : JointPoints
        The points.
    out : ndarray of shape (n, n_points)
        Where the expectations are written.

    Raises
    ------
    ValueError
        If too many cells with atoms are missing for a sum over all sets of them.
    """
    out[:] = 0.0
    terms = _terms(blocks, normals, points.root)
    of_atoms = _atom_factors(factors, blocks, columns, points)
    sets = (normals.missing, normals.covariance, normals.block)
    seen = (points.root, points.centre)
    _add_terms(normals.set_ptr, normals.mean, *sets, *terms, *seen, of_atoms, out)
    order, of_set = np.argsort(normals.row, kind="stable"), normals.of_set
    members = (order, normals.row, of_set, normals.mean, normals.missing)
    _multiply_known(*members, *seen, points.height, out)
    for at in np.flatnonzero(points.root == 0.0).tolist():
        form, cells = column_form(blocks, columns, normals, at), points.cells[:, at].T
        if len(cells) == 2:
            out *= leaf_second_moments(factors[at], form, cells[0], cells[1])
        else:
            known = Normals(cells[0], np.zeros(len(cells[0])))
            out *= leaf_expectations(factors[at], form, known)


def column_form(blocks: Blocks, columns: Columns, normals: BlockNormals, at: int) -> Normals:
    """What is known of the numbers of one column: cells, atoms, and a normal score for the rest."""
    of_set = normals.of_set
    missing = np.flatnonzero(normals.missing[of_set, at])
    seen = np.flatnonzero(~normals.missing[of_set, at])
    values, which = np.unique(normals.mean[seen, at], return_inverse=True)
    atoms, prob = atoms_of(blocks, columns, at)
    rows = np.zeros((len(of_set), len(values) + prob.shape[1]))
    rows[seen, which] = 1.0
    rows[missing, len(values) :] = prob[normals.block[of_set[missing]]]
    sd = np.append(np.zeros(len(values) + len(atoms)), 1.0)
    return Normals(np.concatenate([values, atoms, [0.0]]), sd, rows)


def atoms_of(blocks: Blocks, columns: Columns, at: int) -> tuple[Floats, Floats]:
    """Scores of the atoms of a column, and the probabilities of its states in each block."""
    var = int(blocks.variables[at])
    prob = np.exp(blocks.log_prob[:, blocks.state_ptr[at] : blocks.state_ptr[at + 1]])
    return kernel_cells(columns, var, column_in(columns, var).atoms), prob


def _atom_factors(
    factors: Sequence[ColumnKernel], blocks: Blocks, columns: Columns, points: JointPoints
) -> Floats:
    """Mean of each Gaussian kernel over the atoms, (n_blocks, n_columns, n_points)."""
    found = np.zeros((len(blocks.leaf), *points.centre.shape))
    for at in np.flatnonzero(points.root):
        atoms, prob = atoms_of(blocks, columns, int(at))
        of_atoms = RBF(float(0.5 * points.root[at] ** 2)).of_points(
            atoms[:, np.newaxis], points.centre[at]
        )
        found[:, at] = prob[:, :-1] @ of_atoms
    return found


def _terms(blocks: Blocks, normals: BlockNormals, root: Floats) -> _Terms:
    rest = np.exp(blocks.log_prob[:, blocks.state_ptr[1:] - 1])
    open_at = normals.missing & (np.diff(blocks.state_ptr) > 1) & (root > 0.0)
    known: dict[tuple[int, bytes], tuple[NDArray[np.bool_], Floats]] = {}
    parts = []
    for block, marks in zip(normals.block.tolist(), open_at):
        key = (block, marks.tobytes())
        if key not in known:
            known[key] = _sets_of_atoms(blocks.variables, rest[block], marks)
        parts.append(known[key])
    masks = [np.empty((0, len(root)), dtype=bool), *(mask for mask, _ in parts)]
    weights = [np.empty(0), *(weight for _, weight in parts)]
    ptr = offsets([len(weight) for _, weight in parts])
    return _Terms(ptr, np.concatenate(masks), np.concatenate(weights))


def _sets_of_atoms(
    variables: Ints, rest: Floats, marks: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], Floats]:
    """The sets of marked columns that may be at atoms; the probability that all others are not."""
    mask, prob = np.ones((1, len(rest)), dtype=bool), np.ones(1)
    weight = np.ones(1)
    # Columns that are sure to be the one or the other come first.
    for at in np.flatnonzero(marks)[np.argsort(np.abs(0.5 - rest[marks]))[::-1]]:
        without = mask.copy()
        without[:, at] = False
        mask, weight = np.vstack([mask, without]), np.append(weight * rest[at], weight)
        prob = np.append(prob * rest[at], prob * (1.0 - rest[at]))
        order = np.argsort(prob)
        kept = order[np.cumsum(prob[order]) > _NOTHING]
        mask, weight, prob = mask[kept], weight[kept], prob[kept]
        if len(kept) > _MOST_SETS:
            raise ValueError(too_many_atoms(variables[marks].tolist()))
    return mask, weight


def too_many_atoms(variables: list[int]) -> str:
    """What to do where the sum over all sets of missing cells at atoms is out of reach."""
    return (
        f"an expected kernel sums over which of the missing cells of a leaf hold atoms, but "
        f"{len(variables)} variables with atoms {variables} are missing there, and too many sets "
        "of them are probable; draw rows (sample_missing) and pass them as points, or learn a "
        'density whose leaves have one number each (leaves="univariate")'
    )


@kernel
def _add_terms(
    set_ptr: Ints,
    means: Floats,
    missing: NDArray[np.bool_],
    covariances: Floats,
    block: Ints,
    ptr: Ints,
    mask: NDArray[np.bool_],
    weight: Floats,
    root: Floats,
    centre: Floats,
    of_atoms: Floats,
    out: Floats,
) -> None:
    """Add the expectations of Gaussian kernels in missing columns, set by set and term by term."""
    d, n = centre.shape
    index, factor, shift = np.empty(d, np.int64), np.empty((d, d)), np.empty(d)
    white, scale, square = np.empty((d, n)), np.empty(n), np.empty(n)
    for s in range(len(block)):
        for t in range(ptr[s], ptr[s + 1]):
            size = np.int64(0)
            scale[:] = weight[t]
            for v in range(d):
                if root[v] > 0.0 and missing[s, v] and mask[t, v]:
                    index[size] = v
                    size += 1
                elif root[v] > 0.0 and missing[s, v]:
                    for j in range(n):
                        scale[j] *= of_atoms[block[s], v, j]
            height = _whiten(covariances, s, root, index, size, centre, factor, white)
            for e in range(set_ptr[s], set_ptr[s + 1]):
                square[:] = 0.0
                for i in range(size):
                    rest = root[index[i]] * means[e, index[i]]
                    for k in range(i):
                        rest -= factor[i, k] * shift[k]
                    rest *= factor[i, i]
                    shift[i] = rest
                    for j in range(n):
                        square[j] += (white[i, j] - rest) * (white[i, j] - rest)
                for j in range(n):
                    out[e, j] += height * scale[j] * fast_exp(-0.5 * square[j])


@internal_kernel
def _whiten(
    covariances: Floats,
    s: int,
    root: Floats,
    index: Ints,
    size: Any,
    centre: Floats,
    factor: Floats,
    white: Floats,
) -> float:
    """Factorise I + G S G, reciprocals on the diagonal, and apply its inverse to all points.

    Returns the product of the diagonal.
    """
    height = 1.0
    for i in range(size):
        v = index[i]
        for j in range(white.shape[1]):
            white[i, j] = root[v] * centre[v, j]
        for k in range(i + 1):
            rest = root[v] * covariances[s, v, index[k]] * root[index[k]]
            for m in range(k):
                rest -= factor[i, m] * factor[k, m]
            if k == i:
                factor[i, i] = 1.0 / math.sqrt(1.0 + rest)
                continue
            rest *= factor[k, k]
            factor[i, k] = rest
            for j in range(white.shape[1]):
                white[i, j] -= rest * white[k, j]
        height *= factor[i, i]
        for j in range(white.shape[1]):
            white[i, j] *= factor[i, i]
    return height


@kernel
def _multiply_known(
    order: Ints,
    row: Ints,
    of_set: Ints,
    means: Floats,
    missing: NDArray[np.bool_],
    root: Floats,
    centre: Floats,
    height: Floats,
    out: Floats,
) -> None:
    """Multiply by Gaussian kernels of known cells, which all blocks of a row share."""
    d, n = centre.shape
    square, line, last = np.empty(n), np.empty(n), -1
    for e in order:
        if row[e] != last:
            last = row[e]
            square[:] = 0.0
            for v in range(d):
                if root[v] > 0.0 and not missing[of_set[e], v]:
                    for j in range(n):
                        away = root[v] * (centre[v, j] - means[e, v])
                        square[j] += away * away
            for j in range(n):
                line[j] = height[j] * fast_exp(-0.5 * square[j])
        for j in range(n):
            out[e, j] *= line[j]
