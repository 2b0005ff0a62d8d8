"""Leaves of several numbers: all those of one scope, a Gaussian of scores and atoms of each column.

Their parameters are, column by column, the log probabilities of atoms and of all other values, then
the mean and the covariance of the scores. The plain twin is ``tests/naive/blocks.py``.
"""

import math
from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints, offsets, segment
from skpc.variables.forms import normal_between
from skpc.variables.gaussian import outer_products, updated_moments
from skpc.variables.gaussians import (
    Gaussians,
    leave_one_out,
    log_densities,
    squared_distances,
    statistics,
)
from skpc.variables.leaves import Columns, Leaves, Prior
from skpc.variables.patterns import Patterns

_LOG_2_PI = math.log(2.0 * math.pi)


class ScoredCells(NamedTuple):
    """Cells of rows in the columns of a multivariate Gaussian.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        States, -1 where missing; the last state of a column has no atom.
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
        """Sort rows by what they lack."""
        scores = np.ascontiguousarray(scores)
        return cls(codes, scores, Patterns.from_scores(scores))


class MultivariateGaussian(NamedTuple):
    """The leaves of several columns that have one scope.

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

    def log_prob_of(self, place: int) -> Floats:
        """Log probabilities of the states of a column, shape (n_leaves, n_states)."""
        return self.log_prob[:, segment(self.state_ptr, place)]

    def log_peaks(self) -> Floats:
        """Upper bounds of what a cell adds to a log density, shape (n_leaves, n_columns).

        No variance is below that of a column given all the others.
        """
        precision = np.diagonal(self.gaussians.precision, axis1=1, axis2=2)
        return 0.5 * (np.log(precision) - _LOG_2_PI)

    def log_values(self, cells: ScoredCells, columns: Columns) -> Floats:
        """Log densities of rows relative to the peaks; shape (n_rows, n_leaves)."""
        values = log_densities(self.gaussians, cells.scores, cells.patterns).T
        # Each observed score counts relative to the peak of its variable.
        peaks = ~np.isnan(cells.scores) @ columns.log_peak[self.variables]
        values = values - peaks[:, np.newaxis]
        # A state alone has probability one.
        for place in np.flatnonzero(self.n_atoms).tolist():
            values += self._of_states(place, cells.codes[:, place])
        return values

    def mass_of_cells(self, scores: Floats, edges: Floats) -> Floats:
        """What rows gain that have one score, if its cell of a lattice counts with its mass.

        Parameters
        ----------
        scores : ndarray of shape (n_rows, n_columns)
            NaN but for one column of each row.
        edges : ndarray of shape (n_rows, n_columns, 3)
            Lines of these cells, as :func:`read_edges` makes them; the first is infinite where the
            column has no lattice.

        Returns
        -------
        ndarray of shape (n_rows, n_leaves)
            In nats.
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
            gain = log_mass + scale - np.log(width) + np.log(sd) + 0.5 * (distance**2 + _LOG_2_PI)
        # Far out in the tail of a leaf, the density in the middle stays.
        return np.where(np.isfinite(gain) & (low < np.inf), gain, 0.0)

    def log_peak_values(self, cells: ScoredCells, columns: Columns) -> Floats:
        """:meth:`log_values` with missing cells at their most probable values.

        A column with atoms counts what its best state is worth.
        """
        values = self.log_values(cells, columns)
        for place in np.flatnonzero(self.n_atoms).tolist():
            values[cells.codes[:, place] < 0] += self.log_prob_of(place).max(axis=1)
        lacks = (cells.codes < 0) & (self.n_atoms == 0)
        filled = ScoredCells.from_scores(cells.codes, np.where(lacks, 0.0, cells.scores))
        # Scores at their means given the others add to the determinant, and to no distance.
        log_det = squared_distances(self.gaussians, cells.scores, cells.patterns)[1]
        log_det_filled = squared_distances(self.gaussians, filled.scores, filled.patterns)[1]
        peaks = lacks @ (columns.log_peak[self.variables] + 0.5 * _LOG_2_PI)
        return values - 0.5 * (log_det_filled - log_det).T - peaks[:, np.newaxis]

    def cell_values(self, cells: ScoredCells, columns: Columns) -> Floats:
        """What each observed cell adds given the others; shape (n_rows, n_leaves, n_columns)."""
        alone = leave_one_out(self.gaussians, cells.scores, cells.patterns).transpose(1, 0, 2)
        observed = ~np.isnan(cells.scores)[:, np.newaxis]
        values = alone - np.where(observed, columns.log_peak[self.variables], 0.0)
        for place, codes in enumerate(cells.codes.T):
            values[:, :, place] += self._of_states(place, codes)
        return values

    def _of_states(self, place: int, codes: Ints) -> Floats:
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
        """Positions of the statistics of each leaf, one a row."""
        size = self.log_prob.shape[1] + len(self.variables) * (len(self.variables) + 1) + 1
        return leaves.first[self.leaf][:, np.newaxis] + np.arange(size)

    def positions(self, leaves: Leaves) -> Ints:
        """Positions of the mean and the covariance of each leaf among the parameters, one a row."""
        after_states = leaves.param_ptr[self.leaf] + self.log_prob.shape[1]
        return after_states[:, np.newaxis] + np.arange(
            len(self.variables) * (len(self.variables) + 1)
        )

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
        return -0.5 * (len(self.variables) * _LOG_2_PI + self.gaussians.log_det + square)


def by_scope(leaf: Ints, leaves: Leaves) -> list[tuple[Ints, Ints]]:
    """The numbers of the leaves of each scope, and its variables."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for number in leaf.tolist():
        scope = leaves.scope[segment(leaves.scope_ptr, number)]
        groups.setdefault(tuple(scope.tolist()), []).append(number)
    return [(np.array(group), np.array(scope)) for scope, group in groups.items()]


def split_params(
    leaf: Ints, variables: Ints, leaves: Leaves, param: Floats, n_states: Ints
) -> tuple[Floats, Floats, Floats]:
    """Log probabilities of states, means and covariances of the leaves of a scope."""
    n = int(n_states[variables].sum())
    d = len(variables)
    # A row for each leaf: log probabilities of states, means, covariances.
    chosen = param[leaves.param_ptr[leaf][:, np.newaxis] + np.arange(n + d * (d + 1))]
    log_prob, mean, covariance = np.split(chosen, [n, n + d], axis=1)
    # Copies are contiguous, as compiled code needs them.
    return log_prob.copy(), mean.copy(), covariance.reshape(-1, d, d).copy()
