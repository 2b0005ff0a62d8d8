"""Missing cells under blocks: their modes, draws and conditional normal distributions.

The plain twin of the kernel is ``tests/naive/blocks.py``.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints, offsets, owners, segment
from skpc._jit import kernel
from skpc._random import Streams, draw_index, normal, uniform
from skpc.variables.blocks import BlockLeaves, ScoredCells
from skpc.variables.gaussians import conditionals
from skpc.variables.leaves import Columns
from skpc.variables.patterns import Patterns
from skpc.variables.score import ATOMS


def fill_modes(
    leaves: BlockLeaves, columns: Columns, cells: ScoredCells, reached: Ints, rows: Floats
) -> None:
    """Fill the missing cells of rows by the most probable values; see :func:`draw_missing`."""
    chosen_rows = np.flatnonzero(reached >= 0)
    # (n_leaves, n_rows): only these pairs are computed.
    wanted = reached == np.arange(len(leaves.leaf))[:, np.newaxis]
    # The most probable scores of a normal distribution are its means.
    modes = conditionals(leaves.gaussians, *cells[1:], wanted)[0][reached[chosen_rows], chosen_rows]
    for place, var in enumerate(leaves.variables.tolist()):
        log_probs = leaves.log_prob_of(place)[reached[chosen_rows]]
        values = columns.axis_of(var).modes(log_probs, modes[:, place])
        rows[chosen_rows, var] = np.where(
            np.isnan(rows[chosen_rows, var]), values, rows[chosen_rows, var]
        )


def draw_missing(
    leaves: BlockLeaves,
    columns: Columns,
    scores: Floats,
    reached: Ints,
    streams: Streams,
    rows: Floats,
) -> None:
    """Fill the missing cells of rows by joint draws given their observed cells.

    States of missing cells are drawn first. Those that are no atoms get scores then, one by one.

    Parameters
    ----------
    leaves : BlockLeaves
        The leaves of a scope.
    columns : Columns
        The variables.
    scores : ndarray of shape (n_rows, n_columns)
        Scores of the observed cells, else NaN.
    reached : ndarray of shape (n_rows,)
        The leaf of each row; -1 leaves it as it is.
    streams : ndarray of shape (n_rows,)
        The random stream of each row.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows; filled in place.
    """
    d = len(leaves.variables)
    drawn = scores.copy()
    _draw_missing(
        leaves.variables,
        leaves.state_ptr,
        np.exp(leaves.log_prob),
        leaves.gaussians.mean,
        leaves.gaussians.covariance,
        columns.axis_ptr,
        columns.axis,
        drawn,
        reached,
        streams,
        np.empty(d, np.int64),
        np.empty((d + 1, d)),
        rows,
    )
    for place, var in enumerate(leaves.variables.tolist()):
        is_score = np.isnan(rows[:, var]) & ~np.isnan(drawn[:, place])
        if is_score.any():
            rows[is_score, var] = columns.axis_of(var).inverse(drawn[is_score, place])


@kernel
def _draw_missing(
    variables: Ints,
    state_ptr: Ints,
    prob: Floats,
    means: Floats,
    covariances: Floats,
    axis_ptr: Ints,
    axis: Floats,
    scores: Floats,
    reached: Ints,
    streams: Streams,
    order: Ints,
    root: Floats,
    rows: Floats,
) -> None:
    """Fill the missing cells of rows; see :func:`draw_missing`.

    ===========  =====================  ===================================================
    variables    (d,)                   the columns of the leaves
    state_ptr    (d + 1,)               where the states of each column begin in ``prob``
    prob         (n_leaves, n_states)   probabilities of the states of all columns
    means        (n_leaves, d)          of the scores
    covariances  (n_leaves, d, d)       of the scores
    axis_ptr     (n_features + 1,)      where what is known of each column begins in ``axis``
    axis         (n_numbers,)           the axes of all columns
    scores       (n_rows, d)            scores of the observed cells, else NaN; takes those drawn
    reached      (n_rows,)              the leaf of each row; -1 leaves it as it is
    streams      (n_rows,)              the random stream of each row
    order        (d,)                   workspace
    root         (d + 1, d)             workspace
    rows         (n_rows, n_features)   encoded rows; takes the atoms drawn
    ===========  =====================  ===================================================
    """
    d = len(variables)
    for r in range(len(rows)):
        k = reached[r]
        # The row has reached no leaf of this scope.
        if k < 0:
            continue
        n_observed = np.int64(0)
        for place in range(d):
            if not np.isnan(scores[r, place]):
                order[n_observed] = place
                n_observed += 1
        # Observed scores come first in the order, so that all others are drawn given them.
        n = n_observed
        for place in range(d):
            var = variables[place]
            n_states = state_ptr[place + 1] - state_ptr[place]
            # An observed atom has no score either, but it is not drawn.
            if np.isnan(rows[r, var]):
                state = 0
                # No random number is used up where there is no choice.
                if n_states > 1:
                    state = draw_index(prob[k], state_ptr[place], n_states, uniform(streams, r))
                if state < n_states - 1:
                    rows[r, var] = axis[axis_ptr[var] + ATOMS + state]
                else:
                    order[n] = place
                    n += 1
        # The Cholesky root of the covariance in the order of this row, with innovations behind it.
        for i in range(n):
            place = order[i]
            for j in range(i + 1):
                entry = covariances[k, place, order[j]]
                for previous in range(j):
                    entry -= root[i, previous] * root[j, previous]
                root[i, j] = math.sqrt(entry) if i == j else entry / root[j, j]
            # Each score is its mean given the scores before it, plus an innovation.
            mean = means[k, place]
            for j in range(i):
                mean += root[i, j] * root[d, j]
            if i < n_observed:
                # An observed score tells its own innovation.
                root[d, i] = (scores[r, place] - mean) / root[i, i]
            else:
                root[d, i] = normal(streams, r)
                scores[r, place] = mean + root[i, i] * root[d, i]


class ConditionalNormals(NamedTuple):
    """Normal distributions of the scores of rows under blocks of one scope.

    A known cell, also an atom, has its own score and no variance. A missing cell may hold an atom
    instead of a score, with a probability that depends on the leaf alone. Rows that lack the same
    cells under one leaf share their covariance: they are a set, whose members stand together.

    Parameters
    ----------
    row : ndarray of shape (n,)
        The row of each distribution.
    set_ptr : ndarray of shape (n_sets + 1,)
        The members of a set are ``set_ptr[i] .. set_ptr[i + 1]``.
    mean : ndarray of shape (n, n_columns)
        Expected scores.
    leaf : ndarray of shape (n_sets,)
        The leaf of each set, among those of the scope.
    missing : bool ndarray of shape (n_sets, n_columns)
        Cells that are missing.
    covariance : ndarray of shape (n_sets, n_columns, n_columns)
        Covariances of the scores.
    """

    row: Ints
    set_ptr: Ints
    mean: Floats
    leaf: Ints
    missing: Bools
    covariance: Floats

    def taken(self, order: Ints) -> Self:
        """The same distributions with the columns in another order."""
        mean = self.mean.take(order, axis=1)
        missing = self.missing.take(order, axis=1)
        covariance = self.covariance.take(order, axis=1).take(order, axis=2)
        return self._replace(mean=mean, missing=missing, covariance=covariance)

    @property
    def set_of_row(self) -> Ints:
        """The set of each distribution; shape (n,)."""
        return owners(np.diff(self.set_ptr))


def conditional_normals(
    leaves: BlockLeaves,
    columns: Columns,
    cells: ScoredCells,
    rows: Floats,
    reached: Bools,
) -> ConditionalNormals:
    """Distributions of the scores of rows given their known cells, under the leaves they reach.

    Parameters
    ----------
    leaves : BlockLeaves
        The leaves of a scope.
    columns : Columns
        The variables.
    cells : ScoredCells
        Cells of the rows in the scope.
    rows : ndarray of shape (n_rows, n_columns)
        The same cells, as encoded rows.
    reached : bool ndarray of shape (n_rows, n_leaves)
        Which pairs are wanted.

    Returns
    -------
    ConditionalNormals
    """
    variables = zip(leaves.variables.tolist(), rows.T)
    known = np.column_stack([columns.axis_of(v).transform(column) for v, column in variables])
    expected = conditionals(leaves.gaussians, *cells[1:], np.ascontiguousarray(reached.T))[0]
    # Cells at atoms are known, but say nothing about the others.
    patterns = Patterns.from_scores(np.hstack([known, cells.scores]))
    d = len(leaves.variables)
    # Fields of no distribution come first, so that there is something to join.
    no_rows = np.empty(0, dtype=np.int64)
    no_cells = np.empty((0, d))
    no_covariance = np.empty((0, d, d))
    not_missing = no_cells.astype(bool)
    parts: list[Any] = [(no_rows, no_cells, no_rows, no_rows, not_missing, no_covariance)]
    for place, observed in enumerate(patterns.observed):
        row = patterns.order[segment(patterns.ptr, place)]
        missing = ~observed[:d]
        unscored = np.flatnonzero(~observed[d:])
        # Only leaves that a row of the pattern reaches are worth an inverse.
        used = np.flatnonzero(reached[row].any(axis=0))
        # The pairs of a used leaf and a row of the pattern that reaches it, leaf by leaf.
        leaf, member = np.nonzero(reached[row][:, used].T)
        mean = np.where(missing, expected[used[leaf], row[member]], known[row[member]])
        # The inverse of this part of the precision is the covariance given the observed scores.
        block = leaves.gaussians.precision[
            used[:, np.newaxis, np.newaxis], unscored[:, np.newaxis], unscored
        ]
        covariance = np.zeros((len(used), d, d))
        covariance[:, unscored[:, np.newaxis], unscored] = np.linalg.inv(block)
        # An observed atom has no score, but it is known: its variance is zero, too.
        covariance *= np.logical_and.outer(missing, missing)
        count = np.bincount(leaf, minlength=len(used))
        parts.append((row[member], mean, count, used, np.tile(missing, (len(used), 1)), covariance))
    rows_of, mean, count, leaf, missing, covariance = map(np.concatenate, zip(*parts))
    return ConditionalNormals(rows_of, offsets(count), mean, leaf, missing, covariance)
