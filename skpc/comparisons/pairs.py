"""How well the cells of a row fit each other, by the pairs of columns of the same table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, within
from skpc.counting.rows import count_state_pairs
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
        column = np.repeat(np.arange(len(n_states)), n_states)
        of_column = (column[:, np.newaxis] == np.arange(len(n_states))).astype(float)
        counts = count_state_pairs(codes, np.ones(len(codes)), n_states)
        # Weight of each state in the rows that have the other column, too.
        margin = counts @ of_column
        n_rows = np.maximum(of_column.T @ margin, 1.0)
        expected = margin[:, column] * margin[:, column].T / n_rows[np.ix_(column, column)]
        excess = (counts - expected) ** 2 / np.where(expected > 0.0, expected, 1.0)
        chi_square = np.maximum(of_column.T @ excess @ of_column, np.finfo(float).tiny)
        weight = np.maximum(1.0 - np.outer(n_states - 1, n_states - 1) / chi_square, 0.0)
        np.fill_diagonal(weight, 0.0)
        information = np.log((counts + 1.0) / (expected + 1.0)) * weight[np.ix_(column, column)]
        state = (codes[:, column] == within(n_states)).astype(float)
        return np.where(codes >= 0, (state * (state @ information)) @ of_column, np.nan)
