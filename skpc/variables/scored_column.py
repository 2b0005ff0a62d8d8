"""What the leaves of a number with atoms and a score have in common."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc.variables.leaves import Columns
from skpc.variables.number import Number
from skpc.variables.score import Score

#: Numbers of a column, seen by kernels, that stand before its score and before its atoms.
HEAD, ATOMS = 6, 13


class ScoredColumn(NamedTuple):
    """What leaves with atoms and a Gaussian of the score have in common.

    Parameters
    ----------
    score : Score
        The bijection between values and scores.
    atoms : ndarray
        Values with a probability of their own, increasing; exact.
    step : float, default=0.0
        Step of the lattice of the column. On a lattice an atom fills its cell, and no
        standard deviation is below half a step.
    reach : float, default=0.0
        Distance from an atom up to which a value is that atom.
    smallest_sd : float, default=0.0
        No standard deviation of scores is below it.
    low, high : float, default=-inf and inf
        Draws stay between these.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import ScoredColumn
    >>> from skpc.variables.score import Score
    >>> column = ScoredColumn(Score(), np.array([0.0]))
    >>> column.scores(np.array([0.0, 2.0]))
    (array([0, 1]), array([nan,  2.]))
    """

    score: Score
    atoms: Floats
    step: float = 0.0
    reach: float = 0.0
    smallest_sd: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def like(cls, number: Number, smallest_sd: float) -> ScoredColumn:
        """The column of leaves that describe a number."""
        low, high = number.range_of_draws
        return cls(number.score, number.atoms, number.step, number.reach, smallest_sd, low, high)

    @classmethod
    def of(cls, flat: Floats) -> ScoredColumn:
        """Read a column from the stretch of an array that kernels see."""
        score = Score(*flat[HEAD:ATOMS].tolist())
        return cls(score, flat[ATOMS:].copy(), *flat[1:HEAD].tolist())

    @property
    def flat(self) -> Floats:
        """What kernels read: a zero, where an axis has the scale of a tail, and then all fields."""
        head = [0.0, self.step, self.reach, self.smallest_sd, self.low, self.high]
        return np.concatenate([head, self.score, self.atoms])

    @property
    def n_states(self) -> int:
        """Number of atoms, and one for all other values."""
        return len(self.atoms) + 1

    def scores(self, values: Floats) -> tuple[NDArray[np.int64], Floats]:
        """State of each value (-1 if missing), and the score of values that are not atoms."""
        near = np.abs(values[:, np.newaxis] - self.atoms) <= self.reach
        state = np.where(near.any(axis=1), near.argmax(axis=1) if near.size else 0, len(self.atoms))
        score = np.where(state < len(self.atoms), np.nan, self.score.of(values))
        return np.where(np.isnan(values), -1, state), score

    def half_steps(self, mean: Floats) -> Floats:
        """Half a step of the lattice, on the scale of scores, about a mean score; 0 without one."""
        if self.step == 0.0:
            return np.zeros(np.shape(mean))
        slope = np.exp(self.score.log_slope(self.score.inverse(mean)))
        return np.asarray(0.5 * self.step * slope)

    def smallest_sds(self, mean: Floats) -> Floats:
        """Smallest standard deviation of a leaf whose mean score is ``mean``."""
        return np.maximum(self.half_steps(mean), self.smallest_sd)


def column_in(columns: Columns, var: int) -> ScoredColumn:
    """What the leaves of a variable of numbers with atoms and a score have in common."""
    return ScoredColumn.of(columns.axis[columns.axis_ptr[var] : columns.axis_ptr[var + 1]])
