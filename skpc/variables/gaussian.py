"""Leaves of numbers: a Gaussian of the scores of one or several columns, and atoms of each.

    log p(x) = sum over observed columns of log P(which atom, or no atom) + log N(the other scores)

On a lattice the density of a value is the mass of its cell divided by the step, in leaves of one
column: of a normal between the scores of the edges of the cell. Those of several columns take the
cell at its centre, unless the column is the only one of theirs that is observed.

A cell that holds an atom has no score; the Gaussian treats it as missing. The parameters of a
leaf are, column by column, the log probabilities of its atoms and of all other values, then the
mean and the covariance of the scores; a leaf of one column has a standard deviation instead. A
column without atoms and score has no states, and its numbers are their own scores.

Leaves of one column are evaluated inside circuits: 22x as fast as those of several columns on
20,000 rows of 10 numbers and 50 components. Their table is that of their states, with an entry for
a missing cell, and then: mean, 1/sd, log density at the mean relative to the highest peak of the
variable, log value of a missing cell. Their statistics have the same layout; those of the Gaussian
are, with d the distance from the mean: count, sum of d and of d squared over the observed scores,
and the count of the others.

:class:`MultivariateGaussian` has the leaves of several columns, all those of one scope. The plain
twins are ``tests/naive/circuit.py`` and ``tests/naive/blocks.py``.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints, divisors, offsets, segment
from skpc._jit import inlined, internal_kernel
from skpc._random import Streams, normal, uniform
from skpc.variables.forms import Normals, normal_between
from skpc.variables.gaussians import (
    Gaussians,
    leave_one_out,
    log_densities,
    squared_distances,
    statistics,
)
from skpc.variables.histogram import BEYOND_END, n_up_to
from skpc.variables.leaves import (
    Cells,
    Column,
    Columns,
    Leaf,
    Leaves,
    Prior,
    add_states,
    edge_line,
)
from skpc.variables.patterns import Patterns
from skpc.variables.score import (
    ATOMS,
    HEAD,
    place_of,
    score_of,
)

N_PARAMS = 2
N_ENTRIES = 4
CELL = "a finite number"
NEEDED = "a finite mean and a positive sd"
_LOG_2_PI = math.log(2.0 * math.pi)
#: Squares up to which series stand for the mass of a cell: of its width times the distance of its
#: middle from the mean, and of its width, in standard deviations. Their errors are below 1e-10.
_NARROW = (0.1, 0.04)
_MEDIUM = (2.25, 0.2)
#: Standard deviations from which on the tail of a normal needs its asymptotic series.
_FAR = 30.0


@inlined
def state_of(column: Floats, first_number: int, n_states: int, x: float) -> int:
    """State of a value: the number of the atom it belongs to, or the last one."""
    begin = first_number + ATOMS
    reach = column[first_number + 2]
    # Atoms are further apart than twice the reach, so that the last one below may be the one.
    state = n_up_to(column, begin, n_states - 1, 0.0, x + reach) - 1
    is_atom = state >= 0 and x - column[begin + state] <= reach
    return state if is_atom else n_states - 1


@inlined
def read_scored(column: Column, axis: Floats, x: float) -> tuple[int, float, float]:
    """State of a value, its score (NaN for an atom), and its log base density."""
    step = axis[column.first + 1]
    state = state_of(axis, column.first, column.n_states, x)
    if state < column.n_states - 1:
        return state, np.nan, (-math.log(step) if step > 0.0 else 0.0)
    place = place_of(axis, column.first, column.n_states - 1, x)
    z, slope = score_of(axis, column.first + HEAD, place)
    return state, z, column.log_peak + slope


@inlined
def _log_normal(mean: float, inverse_sd: float, relative: float, missing: float, z: float) -> float:
    """Log density of a score relative to the highest peak of the variable."""
    u = (z - mean) * inverse_sd
    # A comparison with itself finds NaN and vectorises.
    return relative - 0.5 * u * u if u == u else missing


@inlined
def read_edges(column: Column, axis: Floats, x: float) -> tuple[float, float, float]:
    """Scores of the edges of the cell of a value, and the log scale of its density.

    The log scale turns the log mass of the cell into a log density relative to the base density of
    :func:`read_scored`; it has the log of the width of the cell, if that is finite.
    """
    first_number = column.first
    step = axis[column.first + 1]
    n_atoms = column.n_states - 1
    begin = column.first + HEAD
    place = place_of(axis, first_number, n_atoms, x)
    below = place - 0.5 * step
    above = place + 0.5 * step
    z, slope = score_of(axis, begin, place)
    scale = -math.log(step) - slope
    low = -np.inf
    high = np.inf
    if above <= axis[begin] or below >= axis[begin + 1]:
        # Beyond an end of the column there is nothing, but a row may be there: as if it had the
        # outermost value, whose cell tells the components as much.
        scale += BEYOND_END
        reach = 0.5 * step * math.exp(slope - BEYOND_END)
        low = z - reach
        high = z + reach
    else:
        if below > axis[begin]:
            low = score_of(axis, begin, below)[0]
        if above < axis[begin + 1]:
            high = score_of(axis, begin, above)[0]
    if high - low < np.inf:
        scale += math.log(max(high - low, 1e-300))
    return low, high, scale


@inlined
def _tail(x: float) -> float:
    """Mass of a standard normal beyond a number over its density there, by the first terms of the
    asymptotic series."""
    inverse = 1.0 / (x * x)
    series = 1.0 - inverse * (1.0 - inverse * (3.0 - inverse * (15.0 - 105.0 * inverse)))
    return series / x


@internal_kernel
def _log_wide_cell(low: float, high: float) -> float:
    """Log mass of a standard normal between two numbers."""
    # Mirrored, so that the middle is not below the mean: there small masses keep their digits.
    if low + high < 0.0:
        low, high = -high, -low
    if low < _FAR:
        upper = math.erfc(high * math.sqrt(0.5))
        return math.log(max(0.5 * (math.erfc(low * math.sqrt(0.5)) - upper), 1e-300))
    # Less the part of the tail that lies beyond the other edge.
    beyond = math.exp(-0.5 * (high - low) * (high + low)) * _tail(high) if high < np.inf else 0.0
    return math.log(max(_tail(low) - beyond, 1e-300)) - 0.5 * (low * low + _LOG_2_PI)


@internal_kernel
def _log_cell(inverse_sd: float, u: float, width: float, low: float, high: float) -> float:
    """Log of the mean density of a standard normal in a cell, less that in its middle ``u``; of a
    cell without an end, its log mass in place of it, in units of the score."""
    if width < np.inf:
        b = width * width
        square = u * u * b
        if square < _MEDIUM[0] and b < _MEDIUM[1]:
            # The expectation of cosh(u w t) exp(-(w t)^2 / 2), t uniform in [-1/2, 1/2], by the
            # even moments of t: powers of both exponents stand beside each of them.
            half = -0.5 * b
            total = 0.0
            moment = 1.0
            for order in range(1, 6):
                moment *= 0.25
                power = 1.0
                total_of_order = 0.0
                for cosh_order in range(order + 1):
                    odd_power = 1.0
                    for k in range(1, order - cosh_order + 1):
                        odd_power *= half / k
                    total_of_order += power * odd_power
                    power *= square / ((2 * cosh_order + 1) * (2 * cosh_order + 2))
                total += total_of_order * moment / (2 * order + 1)
            return math.log1p(total)
        log_mass = _log_wide_cell(u - 0.5 * width, u + 0.5 * width)
        return log_mass - math.log(width) + 0.5 * u * u + 0.5 * _LOG_2_PI
    return _log_wide_cell(low, high) - math.log(inverse_sd) + 0.5 * _LOG_2_PI


@inlined
def _narrow_cell(u: float, width: float) -> float:
    """:func:`_log_cell` of a narrow cell, by its cumulants; it vectorises."""
    b = width * width
    a = u * u * b
    second = (a - b) / 24.0
    fourth = (-a * a - 4.0 * a * b + 2.0 * b * b) / 2880.0
    sixth = a * a * (a / 181440.0 + b / 30240.0) + b * b * (a / 60480.0 - b / 181440.0)
    return second + fourth + sixth


@inlined
def log_gaussian(leaf: Leaf, table: Floats, cells: Cells, r: int) -> float:
    """Log density of a cell of row r relative to the highest peak of the variable."""
    # One entry for each state and one for a missing cell stand before the Gaussian.
    begin = leaf.first + leaf.n_states + 1
    line = leaf.line
    edges = edge_line(cells, leaf.line)
    mean = table[begin]
    inverse_sd = table[begin + 1]
    z = cells.values[line, r]
    # A cell that holds an atom has no score: the Gaussian takes it as missing.
    value = _log_normal(mean, inverse_sd, table[begin + 2], table[begin + 3], z)
    # On a lattice the mass of the cell counts, if there is a score.
    if z == z and cells.values[edges, 0] < np.inf:
        low = cells.values[edges, r]
        high = cells.values[edges + 1, r]
        value = table[begin + 2] + cells.values[edges + 2, r]
        u = (0.5 * (low + high) - mean) * inverse_sd
        width = (high - low) * inverse_sd
        # The next term is relative to the density in the middle, which an endless cell lacks.
        if width < np.inf:
            value -= 0.5 * u * u
        value += _log_cell(
            inverse_sd, u, width, (low - mean) * inverse_sd, (high - mean) * inverse_sd
        )
    if leaf.n_states > 1:
        value += table[leaf.first + cells.codes[line, r]]
    return value


@inlined
def log_gaussian_line(
    leaf: Leaf, table: Floats, cells: Cells, n: int, lines: Floats, out: int
) -> None:
    """Log densities on a batch of rows."""
    values = cells.values
    line = leaf.line
    begin = leaf.first + leaf.n_states + 1
    # Read before the loop, where the lines might overlap the table for all the compiler knows.
    mean = table[begin]
    inverse_sd = table[begin + 1]
    relative = table[begin + 2]
    missing = table[begin + 3]
    edges = edge_line(cells, line)
    has_cells = values[edges, 0] < np.inf
    if has_cells:
        for r in range(n):
            low = values[edges, r]
            high = values[edges + 1, r]
            u = (0.5 * (low + high) - mean) * inverse_sd
            width = (high - low) * inverse_sd
            value = relative + values[edges + 2, r] - 0.5 * u * u + _narrow_cell(u, width)
            lines[out, r] = value if values[line, r] == values[line, r] else missing
    else:
        for r in range(n):
            lines[out, r] = _log_normal(mean, inverse_sd, relative, missing, values[line, r])
    # A state alone has probability one: only atoms need a look-up, which does not vectorise.
    if leaf.n_states > 1:
        for r in range(n):
            lines[out, r] += table[leaf.first + cells.codes[line, r]]
    # The few wide or far cells come again: series of all would not vectorise.
    for r in range(n if has_cells else 0):
        low = values[edges, r]
        high = values[edges + 1, r]
        width = (high - low) * inverse_sd
        exponent = (0.5 * (low + high) - mean) * inverse_sd * width
        is_narrow = exponent * exponent < _NARROW[0] and width * width < _NARROW[1]
        if not is_narrow and values[line, r] == values[line, r]:
            # Special functions are dear: equal values of a batch share theirs.
            same = int(values[edges + 3, r])
            lines[out, r] = lines[out, same] if same < r else log_gaussian(leaf, table, cells, r)


@inlined
def add_gaussian(
    leaf: Leaf, table: Floats, cells: Cells, n: int, lines: Floats, flow: int, statistic: Floats
) -> None:
    """Add the statistics of a line of flows."""
    # A state alone needs no count: the Gaussian has it.
    if leaf.n_states > 1:
        add_states(leaf, cells, n, lines, flow, statistic)
    values = cells.values
    line = leaf.line
    begin_of_leaf = leaf.first + leaf.n_states + 1
    mean = table[begin_of_leaf]
    # Four sums in registers: writes into the statistics would keep the loop from vectorising.
    count = 0.0
    total = 0.0
    square = 0.0
    missing = 0.0
    for r in range(n):
        d = values[line, r] - mean
        # NaN must not reach the sums, not even times zero.
        observed = lines[flow, r] if d == d else 0.0
        d = d if d == d else 0.0
        count += observed
        total += observed * d
        square += observed * d * d
        missing += lines[flow, r] - observed
    statistic[begin_of_leaf] += count
    statistic[begin_of_leaf + 1] += total
    statistic[begin_of_leaf + 2] += square
    statistic[begin_of_leaf + 3] += missing


@inlined
def draw_gaussian(
    leaf: Leaf, table: Floats, column: Floats, begin: int, streams: Streams, j: int
) -> tuple[float, bool]:
    """Draw a value from a leaf: an atom, or a score, which is normal; and whether it is a score."""
    n_states = leaf.n_states
    at = leaf.first + leaf.n_states + 1
    # Without states numbers are their own scores, and nothing bounds their draws.
    if n_states == 0:
        return table[at] + normal(streams, j) / table[at + 1], False
    # The atoms share the interval with all other values, which come last.
    u = uniform(streams, j)
    for state in range(n_states - 1):
        # The tables of formulas stay logs in the linear domain too.
        u -= math.exp(table[leaf.first + state])
        if u < 0.0:
            return column[begin + ATOMS + state], False
    return table[at] + normal(streams, j) / table[at + 1], True


def fits(mean: Floats, sd: Floats) -> Any:
    """Whether these are parameters; kernels need the reciprocal of the sd too."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.reciprocal(sd, dtype=np.float64)
    return np.isfinite(mean) & np.isfinite(sd) & np.isfinite(inverse) & (np.asarray(sd) > 0)


def log_peak(mean: Floats, sd: Floats) -> Floats:
    """Log density at the mean."""
    return -np.log(sd) - 0.5 * _LOG_2_PI


def entries(mean: Floats, sd: Floats, highest: Floats) -> Floats:
    """Tables of many leaves, one a column; ``highest`` is the highest peak of the variable."""
    return np.array([mean, 1.0 / sd, log_peak(mean, sd) - highest, np.zeros(len(mean))])


def form(mean: Floats, sd: Floats) -> Normals:
    """What kernels and predictive values see."""
    return Normals(mean, sd)


def updated(statistic: Floats, param: Floats, prior: Prior) -> Floats:
    """The M-step of many leaves of one column; see :func:`_m_step`.

    ``statistic`` has shape (4, n_leaves).
    """
    (mean, sd) = param
    (observed, total, square, missing) = statistic
    # Numbers of shape (n_leaves,) become matrices of shape (n_leaves, 1, 1).
    matrix = (slice(None), np.newaxis, np.newaxis)
    # A missing cell adds its variance, and nothing to the sum of distances from the mean.
    sums = (observed + missing, total[:, np.newaxis], (square + missing * sd**2)[matrix])
    prior = Prior(prior.weight, prior.mean[:, np.newaxis], prior.sd[:, np.newaxis])
    means, covariance = _m_step(mean[:, np.newaxis], (sd**2)[matrix], sums, prior)
    return np.array([means[:, 0], np.sqrt(covariance[:, 0, 0])])


def log_prior(mean: Floats, sd: Floats, prior: Prior) -> Floats:
    """Mean log density (nats) of a leaf over cells distributed like its column."""
    square = prior.sd**2 + (prior.mean - mean) ** 2
    return log_peak(mean, sd) - 0.5 * square / sd**2


def _m_step(
    mean: Floats, covariance: Floats, sums: tuple[Floats, Floats, Floats], prior: Prior
) -> tuple[Floats, Floats]:
    """New means and covariances of Gaussians; one without any count stays as it is.

    ``sums`` are the counts, sums and sums of products of the distances from the means. ``prior``
    has a number of rows for each Gaussian, of independent cells distributed like the columns.
    """
    # No standard deviation is below about this part of that of its column.
    smallest_sd = 1e-6
    count, total, square = sums
    # All is counted from the old means: sums of squares of large numbers would drown variances.
    offset = prior.mean - mean
    identity = np.eye(mean.shape[1])
    count = count + prior.weight
    scale = 1.0 / divisors(count)[:, np.newaxis]
    like_column = identity * prior.sd[..., np.newaxis] ** 2 + _outer(offset, offset)
    shift = scale * (total + prior.weight[:, np.newaxis] * offset)
    square = square + prior.weight[:, np.newaxis, np.newaxis] * like_column
    smallest = identity * (smallest_sd * prior.sd[..., np.newaxis]) ** 2
    # Squares around the old means become variances around the new ones.
    updated = scale[:, :, np.newaxis] * square - _outer(shift, shift) + smallest
    used = (count > 0)[:, np.newaxis]
    mean = np.where(used, mean + shift, mean)
    return mean, np.where(used[:, :, np.newaxis], updated, covariance)


def _outer(left: Floats, right: Floats) -> Floats:
    return left[:, :, np.newaxis] * right[:, np.newaxis, :]


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
        states = np.hstack(parts), offsets([part.shape[1] for part in parts])
        return type(self)(self.leaf, self.variables[order], *states, gaussians)

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
        """The same with missing cells at their most probable values.

        A column with atoms counts what its best state is worth.
        """
        values = self.log_values(cells, columns)
        for place in np.flatnonzero(self.n_atoms).tolist():
            values[cells.codes[:, place] < 0] += self.log_prob_of(place).max(axis=1)
        lacks = (cells.codes < 0) & (self.n_atoms == 0)
        filled = ScoredCells.from_scores(cells.codes, np.where(lacks, 0.0, cells.scores))
        # Scores at their means given the others add to the determinant, and to no distance.
        before, after = (
            squared_distances(self.gaussians, *each[1:])[1] for each in (cells, filled)
        )
        values -= 0.5 * (after - before).T
        return (
            values - (lacks @ (columns.log_peak[self.variables] + 0.5 * _LOG_2_PI))[:, np.newaxis]
        )

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
        """New means and covariances, one a row; see :func:`_m_step`."""
        n = len(self.leaf)
        d = len(self.variables)
        # Behind the states come sums of distances, sums of their products, and the whole flow.
        entries = statistic[self._entries(leaves)][:, self.log_prob.shape[1] :]
        sums = (entries[:, -1], entries[:, :d], entries[:, d:-1].reshape(n, d, d))
        mean, covariance = _m_step(*self.gaussians[:2], sums, prior)
        return np.hstack([mean, covariance.reshape(n, -1)])

    def log_prior(self, prior: Prior) -> Floats:
        """Mean log density (nats) of each Gaussian over rows of cells distributed like columns."""
        offset = prior.mean - self.gaussians.mean
        second = np.eye(len(self.variables)) * prior.sd**2
        square = (self.gaussians.precision * (second + _outer(offset, offset))).sum(axis=(1, 2))
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
