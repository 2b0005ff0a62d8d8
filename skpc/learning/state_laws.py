"""How probabilities of fine bins follow from counts: freely, or by Gaussians of normal scores.

:class:`States` numbers the states of all columns, :class:`StateLaw` is the M-step of their tables.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skpc._arrays import Bools, Floats, Ints, divisors, group_sums, owners

#: Least variance of a Gaussian of normal scores.
_LEAST_VARIANCE = 1e-4
#: No state has less mass than this share of its column.
SMALLEST = 1e-12

Single = NDArray[np.float32]


class States(NamedTuple):
    """The states of a table: bins of numbers and categories, column after column.

    Attributes
    ----------
    ptr : ndarray of shape (n_columns + 1,), int
        Where the states of each column begin.
    is_line : ndarray of shape (n_columns,), bool
        Whether the states are bins of a line, along which probabilities change smoothly.
    is_increasing : ndarray of shape (n_columns,), bool
        Whether the states increase, as those of a line or of an ordered column do.
    share : ndarray of shape (n_states,)
        Proportions of the states in their column, all of them positive.
    """

    ptr: Ints
    is_line: Bools
    is_increasing: Bools
    share: Floats

    @property
    def column(self) -> Ints:
        """The column of each state."""
        return owners(np.diff(self.ptr))

    def proportions(self, mass: Floats) -> Floats:
        """Masses of states divided by those of their columns; zero in a column without mass."""
        total = group_sums(self.column, mass)
        return mass / divisors(total)[self.column]

    def counts(self, codes: Ints, weight: Floats) -> Floats:
        """Weight of the rows in each state."""
        is_cell = codes >= 0
        cell_weight = np.broadcast_to(weight[:, np.newaxis], codes.shape)[is_cell]
        places = (codes + self.ptr[:-1])[is_cell]
        return group_sums(places, cell_weight, self.ptr[-1])

    def learned(self, codes: Ints, weight: Floats) -> Self:
        """The states with the proportions of some rows, drawn to the present proportions.

        Ten rows more in each bin of a line follow the present proportions, and one row more in each
        other column.
        """
        counts = self.counts(codes, weight)
        expected = self.share * group_sums(self.column, counts)[self.column]
        # Rows in each bin that are like the smooth margin of the table.
        like_margin = 10.0
        drawn = self.share * (counts + like_margin) / (expected + like_margin)
        is_line = self.is_line[self.column]
        share = np.where(is_line, drawn, counts + self.share)
        return self._replace(share=self.proportions(np.maximum(share, SMALLEST)))

    def shares_of(self, codes: Ints, weight: Floats) -> Floats:
        """Proportions of the states among some rows and one row more that is like the table."""
        return self.proportions(self.counts(codes, weight) + self.share)

    def middles(self, mass: Floats) -> Floats:
        """For each state the share of the mass of its column below the middle of the state."""
        share = self.proportions(mass)
        below = np.cumsum(share) - share / 2.0
        below -= (np.cumsum(share) - share)[self.ptr[:-1]][self.column]
        # No middle of a state is nearer to an end of its column than this share of the mass.
        outermost = 1e-7
        return np.clip(below, outermost, 1.0 - outermost)


class StateLaw(NamedTuple):
    """How probabilities of states follow from expected counts of these and of hidden states.

    Categories and frequent values are free: they have the proportions that are counted. The other
    states of a number have normal scores z. Their probabilities in a hidden state are a Gaussian of
    z, times factors of the states that all hidden states share: these give the column nearly the
    margin of the rows.

    Attributes
    ----------
    ptr : ndarray of shape (n_columns + 1,), int
        Where the states of each column begin.
    pseudo_count : ndarray of shape (n_states, 1)
        Pseudo-counts of the states in each hidden state.
    is_free : ndarray of shape (n_states,), bool
        Whether a state is free.
    score, width : ndarrays of shape (n_states, 1)
        The normal score of each state and the range of scores it covers; zero for free states.
    moments : ndarray of shape (3, n_states)
        Ones, scores and mean squares of scores, zero for free states.
    """

    ptr: Ints
    pseudo_count: Single
    is_free: Bools
    score: Single
    width: Single
    moments: Single

    @classmethod
    def fit(cls, states: States, cluster_mass: Floats) -> Self:
        """Find the scores from the proportions in the table and in a cluster of its rows.

        ``cluster_mass`` (n_states,) is the proportion of each state in the cluster.
        """
        # A state with this share of the rows is free; the others of its column follow a Gaussian.
        free_share = 0.02
        # Groups of the states of a column whose masses are those of the cluster.
        n_groups = 32
        column = states.column
        share = states.share
        is_free = ~states.is_line[column] | (share >= free_share)
        line = np.where(is_free, 0.0, share)
        line_of_cluster = np.where(is_free, 0.0, cluster_mass)
        # The cluster tells how much lies in groups of states; within them it knows too little.
        place = np.minimum(states.middles(line) * n_groups, n_groups - 1).astype(np.int64)
        group = column * n_groups + place
        in_group = group_sums(group, line)
        ratio = group_sums(group, line_of_cluster) + in_group / n_groups
        line = line * (ratio / divisors(in_group))[group]
        score = ndtri(states.middles(line))
        width = states.proportions(line) * np.sqrt(2.0 * np.pi) * np.exp(0.5 * score**2)
        spread = np.minimum(width**2 / 12.0, 0.25) + _LEAST_VARIANCE
        is_line = ~is_free
        moments = np.array([is_line, is_line * score, is_line * (score**2 + spread)], np.float32)
        # Pseudo-counts of a column in each hidden state: of numbers, and of categories.
        number_rows = 0.01
        category_rows = 0.1
        pseudo_count = np.where(states.is_line, number_rows, category_rows)[column] * share
        pseudo_count, score, width = np.array([pseudo_count, score, width], np.float32)[
            :, :, np.newaxis
        ]
        return cls(states.ptr, pseudo_count, is_free, score, width, moments)

    def m_step(self, by_state: Single) -> Single:
        """Probabilities of the states, shape (n_states, k), from expected counts of that shape."""
        table = by_state + self.pseudo_count
        # The table of one column fits into the cache.
        for begin, end in zip(self.ptr.tolist(), self.ptr[1:].tolist()):
            part = slice(begin, end)
            total = table[part].sum(axis=0)
            if not self.is_free[part].all():
                self._tilt(table[part], part)
            table[part] /= total
        return table

    def _tilt(self, counts: Single, part: slice) -> None:
        """Let the states of a column that are not free follow Gaussians, in place.

        ``counts`` are its expected counts (n_states of the column, k), ``part`` says which states.
        """
        # Rows in each state that are like the Gaussians, to which the margin is drawn.
        rows_like_gaussians = 10.0
        # Least density of a Gaussian.
        least_density = 1e-6
        is_free = self.is_free[part]
        mass, mean, square = self.moments[:, part] @ counts
        divisor = np.where(mass > 0.0, mass, np.float32(1.0))
        mean /= divisor
        variance = np.maximum(square / divisor - mean**2, np.float32(_LEAST_VARIANCE))
        slope = np.float32(np.sqrt(0.5)) / np.sqrt(variance)
        table = (self.score[part] - mean) * slope
        np.square(table, out=table)
        np.exp(np.negative(table, out=table), out=table)
        table *= slope
        table += np.float32(least_density)
        table *= self.width[part]
        table *= _mass_factor(mass, table)
        prior_rows = np.float32(rows_like_gaussians)
        margin_factor = (counts.sum(axis=1) + prior_rows) / (table.sum(axis=1) + prior_rows)
        table *= margin_factor[:, np.newaxis]
        table *= _mass_factor(mass, table)
        table[is_free] = counts[is_free]
        counts[:] = table


def _mass_factor(mass: Single, table: Single) -> Single:
    """The factors (k,) that give the columns of a table their masses."""
    total = table.sum(axis=0)
    return np.asarray(mass / np.where(total > 0.0, total, np.float32(1.0)))
