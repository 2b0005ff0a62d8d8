"""Blocks: leaves of several columns of numbers, with atoms of each and one Gaussian of all scores.

The parameters of a block are, column by column, the log probabilities of its atoms and of all other
values, then the mean and the covariance of the scores. A cell that holds an atom has no score; the
Gaussian treats it as missing. On a lattice a block takes the density at the centre of the cell,
unless the column is the only one of its columns that is observed: then it takes the mass of the
cell. The plain twin is ``tests/naive/blocks.py``.
"""

from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints, offsets, segment
from skpc.variables.families import BLOCK
from skpc.variables.forms import normal_between
from skpc.variables.gaussians import (
    LOG_2_PI,
    Gaussians,
    leave_one_out,
    log_densities,
    outer_products,
    squared_distances,
    statistics,
    updated_moments,
)
from skpc.variables.leaves import Columns, Leaves, Prior
from skpc.variables.patterns import Patterns


class ScoredCells(NamedTuple):
    """Cells of rows in the columns of blocks of one scope.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        States, -1 where missing; the last state of a column stands for all values but the atoms.
    scores : ndarray of shape (n_rows, n_columns)
        Scores; NaN where a cell is missing or an atom.
    patterns : Patterns
        Which rows have scores in the same columns.
    """

    codes: Ints
    scores: Floats
    patterns: Patterns

    @classmethod
    def from_scores(cls, codes: Ints, scores: Floats) -> Self:
        """Group the rows by the columns that have no score."""
        scores = np.ascontiguousarray(scores)
        return cls(codes, scores, Patterns.from_scores(scores))


class BlockLeaves(NamedTuple):
    """The blocks of one scope.

    Parameters
    ----------
    leaf : ndarray of shape (n_leaves,)
        Numbers of the leaves.
    variables : ndarray of shape (n_columns,)
        Their variables.
    log_prob : ndarray of shape (n_leaves, n_all_states)
        Log probabilities (nats) of the states of all columns.
    state_ptr : ndarray of shape (n_columns + 1,)
        The states of the i-th column are ``state_ptr[i] .. state_ptr[i + 1]``.
    gaussians : Gaussians
        Distributions of the scores.
    """

    leaf: Ints
    variables: Ints
    log_prob: Floats
    state_ptr: Ints
    gaussians: Gaussians

    def taken(self, order: Ints) -> Self:
        """The same leaves, their variables in another order."""
        mean, covariance, precision, log_det = self.gaussians
        square = np.ix_(np.arange(len(mean)), order, order)
        gaussians = Gaussians(mean[:, order], covariance[square], precision[square], log_det)
        parts = [self.log_prob_of(place) for place in order.tolist()]
        log_prob = np.hstack(parts)
        state_ptr = offsets([part.shape[1] for part in parts])
        return type(self)(self.leaf, self.variables[order], log_prob, state_ptr, gaussians)

    @property
    def n_atoms(self) -> Ints:
        """Number of atoms of each column."""
        return np.diff(self.state_ptr) - 1

    @property
    def _n_params(self) -> int:
        """Number of parameters of each leaf: of states, and of the moments of d columns."""
        d = len(self.variables)
        return self.log_prob.shape[1] + d * (d + 1)

    def log_prob_of(self, place: int) -> Floats:
        """Log probabilities of the states of a column, shape (n_leaves, n_states)."""
        return self.log_prob[:, segment(self.state_ptr, place)]

    def log_peaks(self) -> Floats:
        """Upper bounds of what a cell adds to a log density, shape (n_leaves, n_columns).

        No variance is below that of a column given all the others.
        """
        precision = np.diagonal(self.gaussians.precision, axis1=1, axis2=2)
        return 0.5 * (np.log(precision) - LOG_2_PI)

    def log_values(self, cells: ScoredCells, columns: Columns) -> Floats:
        """Log densities of rows relative to the peaks; shape (n_rows, n_leaves)."""
        values = log_densities(self.gaussians, cells.scores, cells.patterns).T
        # Each observed score counts relative to the peak of its variable.
        peaks = ~np.isnan(cells.scores) @ columns.log_peak[self.variables]
        values = values - peaks[:, np.newaxis]
        # A state alone has probability one.
        for place in np.flatnonzero(self.n_atoms).tolist():
            values += self._log_prob_of_codes(place, cells.codes[:, place])
        return values

    def mass_of_cells(self, scores: Floats, edges: Floats) -> Floats:
        """Log mass of a cell of a lattice over its log density, for rows with a single score.

        Parameters
        ----------
        scores : ndarray of shape (n_rows, n_columns)
            NaN but for one column of each row.
        edges : ndarray of shape (n_rows, n_columns, 3)
            Edges of the cells, and their log scales, by :func:`skpc.variables.reading.read_edges`;
            the lower edge is infinite where the column has no lattice.

        Returns
        -------
        ndarray of shape (n_rows, n_leaves)
            What is added to the log density, in nats.
        """
        row = np.arange(len(scores))
        place = np.argmax(~np.isnan(scores), axis=1)
        mean = self.gaussians.mean.T[place]
        sd = np.sqrt(np.diagonal(self.gaussians.covariance, axis1=1, axis2=2)).T[place]
        # Shape (n_rows, 1), against means and deviations of shape (n_rows, n_leaves).
        low, high, scale = edges[row, place].T[:, :, np.newaxis]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            log_mass = np.log(normal_between((low - mean) / sd, (high - mean) / sd))
            # The scale has the width of a cell only where that is finite.
            width = high - low
            width = np.where(np.isinf(width), 1.0, width)
            distance = (scores[row, place][:, np.newaxis] - mean) / sd
            gain = log_mass + scale - np.log(width) + np.log(sd) + 0.5 * (distance**2 + LOG_2_PI)
        # Far out in the tail of a leaf, the density in the middle stays.
        return np.where(np.isfinite(gain) & (low < np.inf), gain, 0.0)

    def log_peak_values(self, cells: ScoredCells, columns: Columns) -> Floats:
        """:meth:`log_values` with missing cells at their most probable values.

        A missing cell of a column with atoms counts the log probability of its likeliest state.
        """
        values = self.log_values(cells, columns)
        for place in np.flatnonzero(self.n_atoms).tolist():
            values[cells.codes[:, place] < 0] += self.log_prob_of(place).max(axis=1)
        lacks = (cells.codes < 0) & (self.n_atoms == 0)
        filled = ScoredCells.from_scores(cells.codes, np.where(lacks, 0.0, cells.scores))
        # Scores at their means given the others add to the determinant, and to no distance.
        log_det = squared_distances(self.gaussians, cells.scores, cells.patterns)[1]
        log_det_filled = squared_distances(self.gaussians, filled.scores, filled.patterns)[1]
        peaks = lacks @ (columns.log_peak[self.variables] + 0.5 * LOG_2_PI)
        return values - 0.5 * (log_det_filled - log_det).T - peaks[:, np.newaxis]

    def cell_values(self, cells: ScoredCells, columns: Columns) -> Floats:
        """Log value of each observed cell given the others, (n_rows, n_leaves, n_columns)."""
        alone = leave_one_out(self.gaussians, cells.scores, cells.patterns).transpose(1, 0, 2)
        observed = ~np.isnan(cells.scores)[:, np.newaxis]
        values = alone - np.where(observed, columns.log_peak[self.variables], 0.0)
        for place, codes in enumerate(cells.codes.T):
            values[:, :, place] += self._log_prob_of_codes(place, codes)
        return values

    def _log_prob_of_codes(self, place: int, codes: Ints) -> Floats:
        """Log probabilities of states of a column, 0 where missing; shape (n_rows, n_leaves)."""
        # The code -1 of a missing cell takes the last column, which is zero.
        log_prob_missing = np.zeros((len(self.leaf), 1))
        log_prob = np.hstack([self.log_prob_of(place), log_prob_missing])
        return log_prob[:, codes].T

    def add_statistics(
        self, leaves: Leaves, cells: ScoredCells, flow: Floats, statistic: Floats
    ) -> None:
        """Add the expected statistics of rows whose flows have shape (n_rows, n_leaves).

        They have the layout of the parameters, and one more entry for the whole flow.
        """
        # Kernels are compiled for contiguous arrays.
        weight = np.ascontiguousarray(flow.T)
        total = weight.sum(axis=1)
        counts = np.exp(self.log_prob)
        for place, codes in enumerate(cells.codes.T):
            begin = self.state_ptr[place]
            end = self.state_ptr[place + 1]
            # A missing cell counts for each state with its probability, others for their own state.
            counts[:, begin:end] *= (weight @ (codes < 0))[:, np.newaxis]
            counts[:, begin:end] += weight @ (codes[:, np.newaxis] == np.arange(end - begin))
        _, first_moment, second_moment = statistics(
            self.gaussians, cells.scores, cells.patterns, weight
        )
        parts = np.column_stack(
            [counts, first_moment, second_moment.reshape(len(total), -1), total]
        )
        statistic[self._entries(leaves)] += parts

    def _entries(self, leaves: Leaves) -> Ints:
        """Positions of the statistics of each leaf, shape (n_leaves, n_params + 1)."""
        return leaves.first[self.leaf][:, np.newaxis] + np.arange(self._n_params + 1)

    def positions(self, leaves: Leaves) -> Ints:
        """Positions of mean and covariance among the parameters, shape (n_leaves, d * (d + 1))."""
        moments = np.arange(self.log_prob.shape[1], self._n_params)
        return leaves.param_ptr[self.leaf][:, np.newaxis] + moments

    def updated(self, leaves: Leaves, statistic: Floats, prior: Prior) -> Floats:
        """New means and covariances, one a row, from added statistics and rows like the columns."""
        n = len(self.leaf)
        d = len(self.variables)
        # Behind the states come sums of distances, sums of their products, and the whole flow.
        entries = statistic[self._entries(leaves)][:, self.log_prob.shape[1] :]
        sums = (entries[:, -1], entries[:, :d], entries[:, d:-1].reshape(n, d, d))
        mean, covariance = updated_moments(*self.gaussians[:2], sums, prior)
        return np.hstack([mean, covariance.reshape(n, -1)])

    def log_prior(self, prior: Prior) -> Floats:
        """Mean log density (nats) of each Gaussian over rows of cells distributed like columns."""
        offset = prior.mean - self.gaussians.mean
        second = np.eye(len(self.variables)) * prior.sd**2
        square = (self.gaussians.precision * (second + outer_products(offset, offset))).sum(
            axis=(1, 2)
        )
        return -0.5 * (len(self.variables) * LOG_2_PI + self.gaussians.log_det + square)


def block_leaves(leaves: Leaves, param: Floats, n_states: Ints) -> list[BlockLeaves]:
    """The blocks among the leaves of a circuit, those of one scope together."""
    groups = []
    for leaf, variables in blocks_by_scope(leaves):
        log_prob, *moments = split_params(leaf, variables, leaves, param, n_states)
        state_ptr = offsets(n_states[variables])
        gaussians = Gaussians.from_covariance(*moments)
        groups.append(BlockLeaves(leaf, variables, log_prob, state_ptr, gaussians))
    return groups


def blocks_by_scope(leaves: Leaves) -> list[tuple[Ints, Ints]]:
    """For each scope of blocks the numbers of these leaves, and its variables."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for leaf in np.flatnonzero(leaves.family == BLOCK).tolist():
        scope = leaves.scope[segment(leaves.scope_ptr, leaf)]
        groups.setdefault(tuple(scope.tolist()), []).append(leaf)
    return [(np.array(group), np.array(scope)) for scope, group in groups.items()]


def split_params(
    leaf: Ints, variables: Ints, leaves: Leaves, param: Floats, n_states: Ints
) -> tuple[Floats, Floats, Floats]:
    """The parameters of the blocks of a scope: log probabilities, means and covariances.

    They have shapes (n_leaves, n_all_states), (n_leaves, d) and (n_leaves, d, d).
    """
    n_all_states = int(n_states[variables].sum())
    d = len(variables)
    # One row for each leaf.
    params = param[leaves.param_ptr[leaf][:, np.newaxis] + np.arange(n_all_states + d * (d + 1))]
    log_prob, mean, covariance = np.split(params, [n_all_states, n_all_states + d], axis=1)
    # Copies are contiguous, as compiled code needs them.
    return log_prob.copy(), mean.copy(), covariance.reshape(-1, d, d).copy()
