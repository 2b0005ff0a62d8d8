"""Count tables of conditional distributions, and the structure scores of circuits made of them.

Both scores, Bayes-Dirichlet and BIC, are sums over conditional tables: a tree has one table per
variable (its states given those of its tree parent, or given nothing at the root), a cut has one
(the branch). Both smooth a table in the same way, by a pseudo-count for each cell, and differ in
what a table is worth. The plain twins are in ``tests/naive/bayesian_score.py``.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.special import gammaln

from skpc._arrays import Floats, Ints, offsets, owners


class CountTables(NamedTuple):
    """Weighted counts of a collection of variables, each given a parent.

    A table lists the cells that may have been seen; a cell that is not listed has count zero.
    The table of a variable without a parent has one row, as if its parent had one state.

    Parameters
    ----------
    ptr : array of shape (m + 1,)
        The cells of table i are ``ptr[i] .. ptr[i + 1]``.
    parent_state, state : array of shape (n_cells,)
        Row and column of each cell: state of the parent and of the variable, int64.
    weight : array of shape (n_cells,)
        Weight of the rows of data in each cell.
    n_parent_states, n_states : array of shape (m,)
        Numbers of rows and of columns of each table, int64.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.counting.tables import CountTables
    >>> tables = CountTables.from_states(np.array([3.0, 1.0]))
    >>> np.exp(tables.log_probabilities(np.array([1.0]))[0]).round(3)
    array([[0.667, 0.333]])
    """

    ptr: Ints
    parent_state: Ints
    state: Ints
    weight: Floats
    n_parent_states: Ints
    n_states: Ints

    @classmethod
    def from_states(cls, counts: Floats) -> Self:
        """The single table of a variable without a parent, from the counts of its states."""
        n_states = len(counts)
        cells = np.zeros(n_states, np.int64), np.arange(n_states), counts
        ptr = np.array([0, n_states])
        return cls(ptr, *cells, np.array([1]), np.array([n_states]))

    @property
    def n_parameters(self) -> int:
        """Number of free parameters: one less than the states, for each row."""
        return int((self.n_parent_states * (self.n_states - 1)).sum())

    def dense(self) -> Floats:
        """The counts of all cells of all tables, row by row, end to end."""
        size = self.n_parent_states * self.n_states
        start = offsets(size)
        table = owners(np.diff(self.ptr))
        cell = start[table] + self.parent_state * self.n_states[table]
        cell += self.state
        counts = np.bincount(cell, weights=self.weight, minlength=start[-1])
        # Without cells, bincount returns whole numbers.
        return counts.astype(np.float64)

    def log_probabilities(self, pseudo_count: Floats) -> list[Floats]:
        """Log of the smoothed conditional probabilities.

        Parameters
        ----------
        pseudo_count : array of shape (m,)
            Added to every cell of each table; positive.

        Returns
        -------
        list of array of shape (n_parent_states[i], n_states[i])
            Log probability in nats of each state given that of the parent.
        """
        size = self.n_parent_states * self.n_states
        start = offsets(size)
        # All tables at once: a loop over them would take longer than the logarithms.
        dense = self.dense() + np.repeat(pseudo_count, size)
        width = np.repeat(self.n_states, self.n_parent_states)
        row_start = offsets(width)[:-1]
        row_total = np.add.reduceat(dense, row_start)
        log_prob = np.log(dense)
        log_prob -= np.repeat(np.log(row_total), width)
        parts = np.split(log_prob, start[1:-1])
        shapes = zip(self.n_parent_states, self.n_states)
        return [part.reshape(shape) for part, shape in zip(parts, shapes)]


#: One number of states, or an array of them.
Sizes = int | Ints


@dataclass(frozen=True)
class BayesDirichlet:
    """Log marginal likelihood under Dirichlet priors (BDeu, eqs. 10-11).

    Parameters
    ----------
    ess : float
        Equivalent sample size: the pseudo-counts of each distribution over the variables
        sum to it. Each cut divides it evenly among the branches.

    Examples
    --------
    A coin that showed heads twice: 1/2 times 2/3.

    >>> import numpy as np
    >>> from skpc.counting.tables import BayesDirichlet, CountTables
    >>> coin = CountTables.from_states(np.array([2.0, 0.0]))
    >>> round(float(np.exp(BayesDirichlet(ess=2.0).of_tables(coin))), 6)
    0.333333
    """

    ess: float

    def pseudo_count(self, n_parent_states: Sizes, n_states: Sizes) -> Floats:
        """Pseudo-count of each cell of tables of these sizes."""
        return self.ess / np.multiply(n_parent_states, n_states, dtype=np.float64)

    def after_cut(self, n_branches: int) -> Self:
        """The score that holds in the branches of a cut."""
        return type(self)(self.ess / n_branches)

    def of_tables(self, tables: CountTables) -> float:
        """Log marginal likelihood in nats of count tables."""
        return _table_score(tables, self, marginal=True)


@dataclass(frozen=True)
class Bic:
    """Penalised log-likelihood at Laplace-smoothed parameters (eq. 12).

    Parameters
    ----------
    alpha : float
        Pseudo-count of each cell of a table.
    total : float
        Weight of the whole training set; a free parameter costs half its logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.counting.tables import Bic, CountTables
    >>> coin = CountTables.from_states(np.array([2.0, 0.0]))
    >>> round(Bic(alpha=1.0, total=2.0).of_tables(coin), 6)
    -0.921938
    """

    alpha: float
    total: float

    def pseudo_count(self, n_parent_states: Sizes, n_states: Sizes) -> Floats:
        """Pseudo-count of each cell of tables of these sizes: the same for all."""
        return np.full(np.broadcast(n_parent_states, n_states).shape, self.alpha)

    def after_cut(self, n_branches: int) -> Self:
        """The score that holds in the branches of a cut: the same."""
        return self

    def of_tables(self, tables: CountTables) -> float:
        """Penalised log-likelihood in nats of count tables."""
        fit = _table_score(tables, self, marginal=False)
        return fit - 0.5 * math.log(self.total) * tables.n_parameters


#: What the search asks of a structure score, either one answers: ``pseudo_count``, ``after_cut``
#: and ``of_tables``.
Score = BayesDirichlet | Bic


def smoothed_log_probabilities(tables: CountTables, score: Score) -> list[Floats]:
    """Log probabilities in nats of count tables, smoothed as a score smooths them."""
    return tables.log_probabilities(score.pseudo_count(tables.n_parent_states, tables.n_states))


def _table_score(tables: CountTables, score: Score, marginal: bool) -> float:
    """Log marginal likelihood of count tables (eq. 11), or their smoothed log-likelihood."""
    pseudo_count = score.pseudo_count(tables.n_parent_states, tables.n_states)
    # Cells and rows without weight add nothing; not all cells need be listed.
    cell = np.flatnonzero(tables.weight > 0.0)
    first_row = offsets(tables.n_parent_states)
    table = owners(np.diff(tables.ptr))[cell]
    in_cell = tables.weight[cell]
    row = first_row[table] + tables.parent_state[cell]
    in_row = np.bincount(row, in_cell, first_row[-1])
    row_pseudo_count = np.repeat(pseudo_count * tables.n_states, tables.n_parent_states)
    is_counted = in_row > 0.0
    counts = (in_cell, pseudo_count[table]), (in_row[is_counted], row_pseudo_count[is_counted])
    if marginal:
        cells, rows = (float((gammaln(n + a) - gammaln(a)).sum()) for n, a in counts)
    else:
        cells, rows = (float(n @ np.log(n + a)) for n, a in counts)
    return cells - rows
