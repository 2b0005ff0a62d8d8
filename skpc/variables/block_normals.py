"""What blocks say about the scores of rows, given the observed cells of the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc.variables.block import BlockCells, Blocks
from skpc.variables.families import kernel_cells
from skpc.variables.gaussians import Gaussians, Patterns
from skpc.variables.leaves import Columns


class BlockNormals(NamedTuple):
    """Normal distributions of the scores of rows under blocks of one scope.

    Known cells, atoms among them, have their own scores and no variance. A missing cell may hold
    an atom instead of a score; how probable that is depends on the block alone. Rows that lack the
    same cells share their covariance: they are members of one set, and stand together.

    Parameters
    ----------
    row : ndarray of shape (n,)
        The row of each distribution.
    set_ptr : ndarray of shape (n_sets + 1,)
        The members of a set are ``set_ptr[i] .. set_ptr[i + 1]``.
    mean : ndarray of shape (n, n_columns)
        Expected scores.
    block : ndarray of shape (n_sets,)
        The block of each set.
    missing : bool ndarray of shape (n_sets, n_columns)
        Cells that are missing.
    covariance : ndarray of shape (n_sets, n_columns, n_columns)
        Covariances of the scores.
    """

    row: Ints
    set_ptr: Ints
    mean: Floats
    block: Ints
    missing: NDArray[np.bool_]
    covariance: Floats

    @property
    def of_set(self) -> Ints:
        """The set of each distribution; shape (n,)."""
        return np.repeat(np.arange(len(self.block)), np.diff(self.set_ptr))


def block_normals(
    blocks: Blocks, columns: Columns, cells: BlockCells, rows: Floats, reached: NDArray[np.bool_]
) -> BlockNormals:
    """Conditional distributions of rows under the blocks that they can have been made by.

    Parameters
    ----------
    blocks : Blocks
        The blocks of a scope.
    columns : Columns
        The variables.
    cells : BlockCells
        Cells of the rows in the scope.
    rows : ndarray of shape (n_rows, n_columns)
        The same, as encoded rows.
    reached : bool ndarray of shape (n_rows, n_blocks)
        Which pairs are wanted.

    Returns
    -------
    BlockNormals
    """
    variables = enumerate(blocks.variables.tolist())
    known = np.column_stack([kernel_cells(columns, var, rows[:, at]) for at, var in variables])
    # Cells at atoms are known, but say nothing about the others.
    patterns, d = Patterns.from_scores(np.hstack([known, cells.scores])), len(blocks.variables)
    parts = [_nothing(d)]
    for place, seen in enumerate(patterns.observed):
        row = patterns.order[patterns.ptr[place] : patterns.ptr[place + 1]]
        missing, observed = ~seen[:d], seen[d:]
        used = np.flatnonzero(reached[row].any(axis=0))
        gaussians = Gaussians(*(part[used] for part in blocks.gaussians))
        slopes, covariance = _given(gaussians, observed, missing)
        block, member = np.nonzero(reached[row][:, used].T)
        away = cells.scores[row[member]] - gaussians.mean[block]
        mean = known[row[member]]
        from_seen = np.einsum("nij,nj->ni", slopes[block], away[:, observed])
        mean[:, missing] = gaussians.mean[block][:, missing] + from_seen
        count, gone = np.bincount(block, minlength=len(used)), np.tile(missing, (len(used), 1))
        parts.append((row[member], mean, count, used, gone, covariance))
    members, mean, count, block, gone, covariance = map(np.concatenate, zip(*parts))
    return BlockNormals(members, offsets(count), mean, block, gone, covariance)


def _nothing(d: int) -> tuple[Ints, Floats, Ints, Ints, NDArray[np.bool_], Floats]:
    """Rows, means, sizes, blocks, missing cells and covariances of no set."""
    nobody = np.empty(0, dtype=np.int64)
    gone = np.empty((0, d), dtype=bool)
    return nobody, np.empty((0, d)), nobody, nobody, gone, np.empty((0, d, d))


def _given(
    gaussians: Gaussians, seen: NDArray[np.bool_], missing: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Regression of the missing scores on those seen, and covariances that are 0 elsewhere.

    The smaller matrix is inverted: the precision of the cells without a score, or the covariance of
    the others.
    """
    gone, within = np.flatnonzero(~seen), missing[~seen]
    here, n = np.flatnonzero(seen), len(gaussians.mean)
    if len(gone) <= len(here):
        precision = gaussians.precision
        spread = np.linalg.inv(precision[:, gone[:, np.newaxis], gone])
        slopes = -spread @ precision[:, gone[:, np.newaxis], here]
    else:
        covariance = gaussians.covariance
        across = covariance[:, gone[:, np.newaxis], here]
        slopes = across @ np.linalg.inv(covariance[:, here[:, np.newaxis], here])
        spread = covariance[:, gone[:, np.newaxis], gone] - slopes @ across.transpose(0, 2, 1)
    whole = np.zeros((n, len(seen), len(seen)))
    wanted = gone[within]
    whole[:, wanted[:, np.newaxis], wanted] = spread[:, within][:, :, within]
    return slopes[:, within], whole
