"""How well the cells of a row fit each other, by the pairs of columns of the same table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, offsets, within
from skpc.counting.rows import count_state_pairs, independent_pairs
from skpc.domain import Domain


class PairScores(NamedTuple):
    """Scores of cells without a model: pointwise mutual information, by the counts of the table.

    A cell is worth the sum, over the other cells of its row, of :math:`w \\log \\frac{n + 1}{e +
    1}`: n rows of the table have both states, and e would if the columns were independent. The
    weight :math:`w = \\max(1 - f / \\chi^2, 0)` of two columns leaves out what chance alone makes
    of them: :math:`\\chi^2` is Pearson's statistic, and f its degrees of freedom.

    Parameters
    ----------
    domain_ : Domain
        What the columns are, with bins of numbers.
    """

    domain_: Domain

    def score_cells(self, table: Any) -> Floats:
        """The score of each cell in nats, NaN where missing; shape (n_rows, n_features)."""
        codes, n_states = self.domain_.codes(self.domain_.encode(table)), self.domain_.n_states
        counts = count_state_pairs(codes, np.ones(len(codes)), n_states)
        expected, freedom, by_pair = independent_pairs(counts, n_states)
        chi_square = by_pair((counts - expected) ** 2 / np.where(expected > 0.0, expected, np.inf))
        weight = np.maximum(1.0 - freedom / np.maximum(chi_square, np.finfo(float).tiny), 0.0)
        np.fill_diagonal(weight, 0.0)
        column = np.repeat(np.arange(len(n_states)), n_states)
        information = np.log((counts + 1.0) / (expected + 1.0)) * weight[np.ix_(column, column)]
        state = (codes[:, column] == within(n_states)).astype(float)
        scores = np.add.reduceat(state * (state @ information), offsets(n_states)[:-1], axis=1)
        return np.where(codes >= 0, scores, np.nan)
