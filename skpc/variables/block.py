"""Leaves over several columns of numbers: atoms of each, and one Gaussian of all their scores.

    log p(x) = sum over observed columns of log P(which atom, or no atom) + log N(the other scores)

A cell that holds an atom has no score; the Gaussian treats it as missing. The parameters of a
leaf are, column by column, the log probabilities of its atoms and of all other values, then the
mean and the covariance of the scores. Its statistics have the same layout, and one more entry for
the whole flow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets
from skpc.variables.gaussians import (
    Gaussians,
    Patterns,
    conditionals,
    leave_one_out,
    log_densities,
    statistics,
)
from skpc.variables.leaves import BLOCK, Columns, Leaves

#: No standard deviation is below this part of that of its column.
_SMALLEST_SD = 1e-6


class BlockCells(NamedTuple):
    """Cells of rows in the columns of a block.

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
    def of(cls, codes: Ints, scores: Floats) -> BlockCells:
        """Sort rows by what they lack."""
        scores = np.ascontiguousarray(scores)
        return cls(codes, scores, Patterns.from_scores(scores))


class Blocks(NamedTuple):
    """The block leaves of one scope.

    Parameters
    ----------
    leaf : ndarray of shape (n_blocks,)
        Numbers of the leaves.
    variables : ndarray of shape (n_columns,)
        Their variables.
    log_prob : ndarray of shape (n_blocks, n_all_states)
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

    def log_peaks(self) -> Floats:
        """Upper bounds of what a cell adds to a log density, shape (n_blocks, n_columns).

        No variance is below that of a column given all the others.
        """
        precision = np.diagonal(self.gaussians.precision, axis1=1, axis2=2)
        return np.asarray(0.5 * np.log(precision / (2.0 * np.pi)))

    def log_values(self, cells: BlockCells, columns: Columns) -> Floats:
        """Log densities of rows relative to the peaks; shape (n_rows, n_blocks)."""
        found = log_densities(self.gaussians, cells.scores, cells.patterns).T
        found = found - (~np.isnan(cells.scores) @ columns.log_peak[self.variables])[:, np.newaxis]
        for place, codes in enumerate(cells.codes.T):
            if self.state_ptr[place + 1] > self.state_ptr[place] + 1:
                found += self._of_states(place, codes)
        return np.asarray(found)

    def log_peak_values(self, cells: BlockCells, columns: Columns) -> Floats:
        """The same with missing cells at their most probable values; see :meth:`modes`.

        A column with atoms counts what its best state is worth.
        """
        found, modes = self.log_values(cells, columns), self.modes(cells)
        for place, codes in enumerate(cells.codes.T):
            begin, end = self.state_ptr[place], self.state_ptr[place + 1]
            if end > begin + 1:
                found[codes < 0] += self.log_prob[:, begin:end].max(axis=1)
        plain = np.diff(self.state_ptr) == 1
        lacks = (cells.codes < 0) & plain
        for k in range(len(self.leaf)):
            scores = np.where(lacks, modes[k], cells.scores)
            one = self._only(k)
            some = BlockCells.of(cells.codes, scores)
            before = log_densities(one, cells.scores, cells.patterns)[0]
            found[:, k] += log_densities(one, some.scores, some.patterns)[0] - before
        return found - (lacks @ columns.log_peak[self.variables])[:, np.newaxis]

    def modes(self, cells: BlockCells) -> Floats:
        """Most probable scores of missing cells, which are their means; (n_blocks, n_rows, d)."""
        wanted = np.ones((len(self.leaf), len(cells.codes)), dtype=bool)
        return conditionals(self.gaussians, *cells[1:], wanted)[0]

    def _only(self, k: int) -> Gaussians:
        return Gaussians(*(part[k : k + 1] for part in self.gaussians))

    def cell_values(self, cells: BlockCells, columns: Columns) -> Floats:
        """What each observed cell adds given the others; shape (n_rows, n_blocks, n_columns)."""
        alone = leave_one_out(self.gaussians, cells.scores, cells.patterns).transpose(1, 0, 2)
        seen = ~np.isnan(cells.scores)[:, np.newaxis]
        found = alone - np.where(seen, columns.log_peak[self.variables], 0.0)
        for place, codes in enumerate(cells.codes.T):
            found[:, :, place] += self._of_states(place, codes)
        return np.asarray(found)

    def _of_states(self, place: int, codes: Ints) -> Floats:
        """Log probabilities of states of a column, 0 where missing; shape (n_rows, n_blocks)."""
        begin, end = self.state_ptr[place], self.state_ptr[place + 1]
        of_missing = np.zeros((len(self.leaf), 1))
        return np.hstack([self.log_prob[:, begin:end], of_missing])[:, codes].T

    def add_statistics(
        self, leaves: Leaves, cells: BlockCells, flow: Floats, statistic: Floats
    ) -> None:
        """Add the expected statistics of rows whose flows have shape (n_rows, n_blocks)."""
        weight = np.ascontiguousarray(flow.T)
        total, prob = weight.sum(axis=1), np.exp(self.log_prob)
        counts = np.empty_like(prob)
        for place, codes in enumerate(cells.codes.T):
            begin, end = self.state_ptr[place], self.state_ptr[place + 1]
            if end == begin + 1:
                counts[:, begin] = total
                continue
            for state in range(begin, end):
                counts[:, state] = weight[:, codes == state - begin].sum(axis=1)
            missing = weight[:, codes < 0].sum(axis=1, keepdims=True)
            counts[:, begin:end] += missing * prob[:, begin:end]
        _, first, second = statistics(self.gaussians, cells.scores, cells.patterns, weight)
        parts = np.column_stack([counts, first, second.reshape(len(total), -1), total])
        statistic[self._entries(leaves)] += parts

    def _entries(self, leaves: Leaves) -> Ints:
        """Positions of the statistics of each block, one a row."""
        size = self.log_prob.shape[1] + len(self.variables) * (len(self.variables) + 1) + 1
        return leaves.first[self.leaf][:, np.newaxis] + np.arange(size)

    def positions(self, leaves: Leaves) -> tuple[Ints, Ints]:
        """Positions of the means, and of the covariances, of each block among the parameters."""
        d = len(self.variables)
        mean = leaves.param_ptr[self.leaf][:, np.newaxis] + self.log_prob.shape[1] + np.arange(d)
        return mean, mean[:, :1] + d + np.arange(d * d)

    def updated(
        self, leaves: Leaves, statistic: Floats, like_column: tuple[Floats, Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """The M-step: means and covariances.

        ``like_column`` has a number of cells (one a block), and means and standard deviations of
        all variables: each block gets this number of rows of independent cells distributed like
        these.
        """
        pseudo_count, column_mean, column_sd = like_column
        n, d = len(self.leaf), len(self.variables)
        entries = statistic[self._entries(leaves)][:, self.log_prob.shape[1] :]
        offset = column_mean[self.variables] - self.gaussians.mean
        prior = np.eye(d) * column_sd[self.variables] ** 2 + _outer(offset, offset)
        total = entries[:, :d] + pseudo_count[:, np.newaxis] * offset
        square = entries[:, d:-1].reshape(n, d, d) + pseudo_count[:, np.newaxis, np.newaxis] * prior
        count = entries[:, -1] + pseudo_count
        some = np.where(count > 0, count, 1.0)[:, np.newaxis]
        shift = total / some
        covariance = square / some[:, :, np.newaxis] - _outer(shift, shift)
        covariance += np.eye(d) * (_SMALLEST_SD * column_sd[self.variables]) ** 2
        used = count > 0
        mean = np.where(used[:, np.newaxis], self.gaussians.mean + shift, self.gaussians.mean)
        used = used[:, np.newaxis, np.newaxis]
        return mean, np.where(used, covariance, self.gaussians.covariance)

    def log_prior(self, column_mean: Floats, column_sd: Floats) -> Floats:
        """Mean log density (nats) of each Gaussian over rows of cells distributed like columns."""
        offset = column_mean[self.variables] - self.gaussians.mean
        second = np.eye(len(self.variables)) * column_sd[self.variables] ** 2
        square = (self.gaussians.precision * (second + _outer(offset, offset))).sum(axis=(1, 2))
        size = len(self.variables) * np.log(2.0 * np.pi)
        return np.asarray(-0.5 * (size + self.gaussians.log_det + square))


def _outer(left: Floats, right: Floats) -> Floats:
    return np.asarray(left[:, :, np.newaxis] * right[:, np.newaxis, :])


def n_params(scope_ptr: Ints, scope: Ints, n_states: Ints) -> Ints:
    """Number of parameters of blocks with these scopes."""
    size = np.diff(scope_ptr)
    states = np.diff(offsets(n_states[scope])[scope_ptr])
    return np.asarray(states + size * (size + 1))


def blocks_of(leaves: Leaves, param: Floats, n_states: Ints) -> list[Blocks]:
    """The block leaves, those of one scope together."""
    found = []
    for leaf, variables in groups_of(leaves):
        log_prob, mean, covariance = parts_of(leaf, variables, leaves, param, n_states)
        ptr, gaussians = offsets(n_states[variables]), Gaussians.from_covariance(mean, covariance)
        found.append(Blocks(leaf, variables, log_prob, ptr, gaussians))
    return found


def groups_of(leaves: Leaves) -> list[tuple[Ints, Ints]]:
    """The numbers of the block leaves of each scope, and its variables."""
    found: dict[tuple[int, ...], list[int]] = {}
    for leaf in np.flatnonzero(leaves.family == BLOCK).tolist():
        scope = leaves.scope[leaves.scope_ptr[leaf] : leaves.scope_ptr[leaf + 1]]
        found.setdefault(tuple(scope.tolist()), []).append(leaf)
    return [(np.array(leaf), np.array(scope)) for scope, leaf in found.items()]


def parts_of(
    leaf: Ints, variables: Ints, leaves: Leaves, param: Floats, n_states: Ints
) -> tuple[Floats, Floats, Floats]:
    """Log probabilities of states, means and covariances of the block leaves of a scope."""
    n_own, d = int(n_states[variables].sum()), len(variables)
    own = param[leaves.param_ptr[leaf][:, np.newaxis] + np.arange(n_own + d * (d + 1))]
    log_prob, mean, covariance = np.split(own, [n_own, n_own + d], axis=1)
    return log_prob.copy(), mean.copy(), covariance.reshape(-1, d, d).copy()
