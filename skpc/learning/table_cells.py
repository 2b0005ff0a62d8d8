"""Rows of a table as a mixture of Gaussians and tables of states reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import kernel
from skpc.counting.clustering import as_numbers
from skpc.domain import column_moments
from skpc.learning.factors import Factors
from skpc.variables import Number, ScoredColumn
from skpc.variables.gaussians import Patterns
from skpc.variables.number import distinct
from skpc.variables.score import Score

#: Robust scales from the centre of a column beyond which a row belongs to no cluster.
_FAR = 1e4
#: Standard deviations, and weights, of the normals of the background, in units of the robust scale
#: of a column. Together they follow a Student t of three degrees of freedom.
BACKGROUND_SDS = np.array([0.7, 1.1, 1.8, 3.2, 7.0, 20.0, 80.0])
BACKGROUND_WEIGHTS = np.array([0.278, 0.401, 0.239, 0.071, 0.0107, 0.0006, 0.00001])
BACKGROUND_WEIGHTS /= BACKGROUND_WEIGHTS.sum()
#: Distance between the first and the last tenth of a normal distribution, in standard deviations.
_TENTHS = 2.5631031310892007
#: Standard deviation of a component, at least, as a part of the scale of the column.
SMALLEST_SD = 1e-4
#: Coordinates from which clusters start stay within this number of scales, for one wild value would
#: be a cluster of its own.
_REACH = 4.0


class TableColumns(NamedTuple):
    """What all mixtures of a table have in common, learned once from all rows.

    Attributes
    ----------
    numbers : ndarray of shape (d,), int
        The columns that have a score.
    scored : list of length d
        Their atoms and scores.
    tables : ndarray of shape (n_tables,), int
        The columns that have states: numbers with atoms, then categories.
    state_ptr : ndarray of shape (n_tables + 1,), int
        Where the states of each of these begin; a number has its atoms, then the rest.
    share : ndarray of shape (n_states,)
        Proportions of the states in their columns, all of them positive.
    centre, scale : ndarrays of shape (d,)
        Median of the scores of each number, and a standard deviation that outliers do not touch.
    n_rows : float
        Weight of all rows.
    """

    numbers: Ints
    scored: list[ScoredColumn]
    tables: Ints
    state_ptr: Ints
    share: Floats
    centre: Floats
    scale: Floats
    n_rows: float

    @classmethod
    def of(
        cls, rows: Floats, weight: Floats, n_states: Ints, numbers: Sequence[Number | None]
    ) -> TableColumns:
        """Learn the columns.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Encoded rows, NaN where missing.
        weight : ndarray of shape (n_rows,)
            Positive.
        n_states : ndarray of shape (n_features,)
            Number of categories; 0 for a column of numbers.
        numbers : sequence of Number or None
            What each column of numbers is. None has no atoms, and its score is linear.
        """
        own = np.flatnonzero(n_states == 0)
        scored = [_scored(numbers[v], rows[:, v], weight) for v in own.tolist()]
        with_atoms = [v for v, column in zip(own, scored) if len(column.atoms)]
        counts = np.array(n_states)
        counts[own] = [column.n_states for column in scored]
        tables = np.array([*with_atoms, *np.flatnonzero(n_states > 0)], dtype=np.int64)
        state_ptr = offsets(counts[tables])
        unit = np.ones(len(own))
        found = cls(own, scored, tables, state_ptr, np.empty(0), unit, unit, float(weight.sum()))
        cells = found.cells(rows)
        share = np.ones(state_ptr[-1])
        for begin, count, codes in zip(state_ptr, counts[tables], cells.codes.T):
            seen = codes >= 0
            share[begin : begin + count] += np.bincount(codes[seen], weight[seen], count)
            share[begin : begin + count] /= share[begin : begin + count].sum()
        robust = [_robust(column, weight) for column in cells.scores.T]
        centre, scale = np.array(robust).reshape(-1, 2).T.copy()
        return found._replace(share=share, centre=centre, scale=scale)

    def cells(self, rows: Floats) -> TableCells:
        """The cells of encoded rows."""
        scores = np.empty((len(rows), len(self.numbers)))
        codes = np.empty((len(rows), len(self.tables)), dtype=np.int64)
        state = {}
        for place, (v, column) in enumerate(zip(self.numbers.tolist(), self.scored)):
            state[v], scores[:, place] = column.scores(np.ascontiguousarray(rows[:, v]))
        for place, v in enumerate(self.tables.tolist()):
            category = np.where(np.isnan(rows[:, v]), -1.0, rows[:, v])
            codes[:, place] = state.get(v, category)
        nothing = np.empty(0)
        cells = TableCells(scores, Patterns.from_scores(scores), codes, nothing, nothing)
        log_base = self._log_base(rows, scores)
        return cells._replace(background=self._background(cells), log_base=log_base)

    def is_far(self, scores: Floats) -> NDArray[np.bool_]:
        """Which rows have a score farther from the others than any scale of the background."""
        return np.asarray((np.abs(scores - self.centre) > _FAR * self.scale).any(axis=1))

    def points(self, rows: Floats, weight: Floats) -> Floats:
        """Complete coordinates of rows in which clusters are found, shape (n_rows, n_points)."""
        found = rows.copy()
        n_states = np.ones(rows.shape[1], dtype=np.int64)
        n_states[self.numbers] = 0
        for v, column, centre, scale in zip(self.numbers, self.scored, self.centre, self.scale):
            score = (column.score.transform(rows[:, v]) - centre) / scale
            found[:, v] = np.clip(score, -_REACH, _REACH)
        for place, v in enumerate(self.tables):
            if n_states[v]:
                n_states[v] = self.state_ptr[place + 1] - self.state_ptr[place]
        unit = np.ones(rows.shape[1])
        seen = found[:, self.numbers]
        if np.isnan(seen).any():
            varies = np.nan_to_num(column_moments(seen, weight)[1]) > 0.0
            varies &= ~np.isnan(seen).all(axis=0)
            some = self.numbers[varies]
            factors = Factors.fit(found[:, some], weight)
            found[:, some] = factors.completed(found[:, some]) * factors.scale + factors.mean
        return as_numbers(found, n_states, 0.0 * unit, unit).point

    def smallest_variances(self, mean: Floats) -> Floats:
        """What is added to the variances of components, shape (n_components, d).

        It is the square of half a step of the lattice of a column at the mean.
        """
        found = np.empty_like(mean)
        for place, column in enumerate(self.scored):
            found[:, place] = column.smallest_sds(np.ascontiguousarray(mean[:, place])) ** 2
        return found

    @property
    def background_weight(self) -> float:
        """Weight of the background: that of one row more."""
        return 1.0 / (self.n_rows + 1.0)

    def _log_base(self, rows: Floats, scores: Floats) -> Floats:
        """What the log densities of rows gain by the scales of their numbers, shape (n_rows,)."""
        found = np.zeros(len(rows))
        for v, column, score in zip(self.numbers, self.scored, scores.T):
            values = np.ascontiguousarray(rows[:, v])
            plain, atom = ~np.isnan(score), np.isnan(score) & ~np.isnan(values)
            found[plain] += column.score.log_slope(values[plain])
            if column.step > 0.0:
                # An atom fills its cell of the lattice.
                found[atom] -= np.log(column.step)
        return found

    def _background(self, cells: TableCells) -> Floats:
        """Log density (nats) of the rows if their cells are independent, shape (n_rows,)."""
        found = np.zeros(len(cells.scores))
        sds = self.scale[:, np.newaxis] * BACKGROUND_SDS
        log_peak = np.log(BACKGROUND_WEIGHTS / (np.sqrt(2.0 * np.pi) * sds))
        _add_log_normals(cells.scores, self.centre, sds, log_peak, found)
        if len(self.share):
            here = np.zeros((1, len(found)))
            add_log_tables(np.log(self.share)[np.newaxis], self.state_ptr, cells.codes, here)
            found += here[0]
        return found


class TableCells(NamedTuple):
    """The cells of some rows.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, d)
        Scores of numbers; NaN where a cell is missing, or an atom.
    patterns : Patterns
        Those of the scores.
    codes : ndarray of shape (n_rows, n_tables), int
        States, -1 where missing.
    background : ndarray of shape (n_rows,)
        Log density (nats) of the rows under the background, that of scores and states.
    log_base : ndarray of shape (n_rows,)
        What the log densities gain by the slopes of the scores, and by atoms of lattices.
    """

    scores: Floats
    patterns: Patterns
    codes: Ints
    background: Floats
    log_base: Floats


def _scored(number: Number | None, values: Floats, weight: Floats) -> ScoredColumn:
    if number is not None:
        return number.scored_column(0.0)
    mean, sd = column_moments(values[:, np.newaxis], weight)
    return ScoredColumn(Score(centre=float(mean[0]), spread=float(sd[0])), np.empty(0))


def _robust(scores: Floats, weight: Floats) -> tuple[float, float]:
    """Median and scale of the scores of a column; 0 and 1 for a column without scores."""
    points, mass = distinct(scores, weight)
    if not len(points):
        return 0.0, 1.0
    reached = np.cumsum(mass) / mass.sum()
    low, centre, high = points[np.searchsorted(reached, [0.1, 0.5, 0.9])]
    scale = (high - low) / _TENTHS or (points[-1] - points[0]) / _TENTHS or 1.0
    return float(centre), float(scale)


@kernel
def _add_log_normals(
    scores: Floats, centre: Floats, sds: Floats, log_peak: Floats, found: Floats
) -> None:
    """Add the log densities of cells that are seen under mixtures of normal distributions."""
    n_parts = sds.shape[1]
    log_part = np.empty(n_parts)
    for r in range(len(scores)):
        for v in range(scores.shape[1]):
            if math.isnan(scores[r, v]):
                continue
            highest = -math.inf
            for j in range(n_parts):
                away = (scores[r, v] - centre[v]) / sds[v, j]
                log_part[j] = log_peak[v, j] - 0.5 * away * away
                highest = max(highest, log_part[j])
            if highest == -math.inf:
                found[r] = highest
                continue
            total = 0.0
            for j in range(n_parts):
                total += math.exp(log_part[j] - highest)
            found[r] += highest + math.log(total)


@kernel
def add_log_tables(log_table: Floats, state_ptr: Ints, codes: Ints, found: Floats) -> None:
    """Add the log probabilities of the states of each row, shape (n_components, n_rows)."""
    for k in range(len(log_table)):
        for r in range(len(codes)):
            total = 0.0
            for t in range(codes.shape[1]):
                if codes[r, t] >= 0:
                    total += log_table[k, state_ptr[t] + codes[r, t]]
            found[k, r] += total


@kernel
def count_states(weight: Floats, state_ptr: Ints, codes: Ints, counts: Floats) -> None:
    """Add the weights of the states of each row, shape (n_components, n_states)."""
    for k in range(len(weight)):
        for r in range(len(codes)):
            if weight[k, r] > 0.0:
                for t in range(codes.shape[1]):
                    if codes[r, t] >= 0:
                        counts[k, state_ptr[t] + codes[r, t]] += weight[k, r]
