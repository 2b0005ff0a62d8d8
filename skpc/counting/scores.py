"""Structure scores of deterministic circuits: Bayes-Dirichlet and BIC.

Both scores are sums over conditional tables: a tree has one table per variable (its states
given those of its tree parent, or given nothing at the root), a cut has one (the branch). Both
smooth a table in the same way, by a pseudo-count for each cell, and differ in what a table is
worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import inlined, kernel
from skpc.counting.count_tables import CountTables

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
    >>> from skpc.counting import BayesDirichlet
    >>> from skpc.counting import CountTables
    >>> coin = CountTables.of_states(np.array([2.0, 0.0]))
    >>> round(float(np.exp(BayesDirichlet(ess=2.0).of_tables(coin))), 6)
    0.333333
    """

    ess: float

    def pseudo_count(self, n_parent_states: Sizes, n_states: Sizes) -> Floats:
        """Pseudo-count of each cell of tables of these sizes."""
        return self.ess / np.multiply(n_parent_states, n_states, dtype=np.float64)

    def after_cut(self, n_branches: int) -> BayesDirichlet:
        """The score that holds in the branches of a cut."""
        return BayesDirichlet(self.ess / n_branches)

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
    >>> from skpc.counting import Bic
    >>> from skpc.counting import CountTables
    >>> coin = CountTables.of_states(np.array([2.0, 0.0]))
    >>> round(Bic(alpha=1.0, total=2.0).of_tables(coin), 6)
    -0.921938
    """

    alpha: float
    total: float

    def pseudo_count(self, n_parent_states: Sizes, n_states: Sizes) -> Floats:
        """Pseudo-count of each cell of tables of these sizes: the same for all."""
        return np.full(np.broadcast(n_parent_states, n_states).shape, self.alpha)

    def after_cut(self, n_branches: int) -> Bic:
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
    """Log marginal likelihood of count tables, or log-likelihood at smoothed parameters."""
    pseudo_count = score.pseudo_count(tables.n_parent_states, tables.n_states)
    return float(_sum_terms(tables, pseudo_count, marginal))


@inlined
def _none(pseudo_count: float, marginal: bool) -> float:
    return math.lgamma(pseudo_count) if marginal else 0.0


@inlined
def _term(count: float, pseudo_count: float, none: float, marginal: bool) -> float:
    """What a count adds, less what no count would add: the score is cells less rows."""
    smoothed = count + pseudo_count
    return math.lgamma(smoothed) - none if marginal else count * math.log(smoothed)


@kernel
def _sum_terms(tables: CountTables, pseudo_count: Floats, marginal: bool) -> float:
    """Sum over the rows of all tables of eq. 11, or of the smoothed log-likelihood."""
    most = np.int64(0)
    for n_rows in tables.n_parent_states:
        most = n_rows if n_rows > most else most
    in_row = np.empty(most)
    score = 0.0
    for i in range(len(tables.n_states)):
        of_cell = pseudo_count[i]
        of_row = of_cell * tables.n_states[i]
        no_cell, no_row = _none(of_cell, marginal), _none(of_row, marginal)
        for row in range(tables.n_parent_states[i]):
            in_row[row] = 0.0
        for cell in range(tables.ptr[i], tables.ptr[i + 1]):
            count = tables.weight[cell]
            if count > 0.0:
                in_row[tables.parent_state[cell]] += count
                score += _term(count, of_cell, no_cell, marginal)
        for row in range(tables.n_parent_states[i]):
            if in_row[row] > 0.0:
                score -= _term(in_row[row], of_row, no_row, marginal)
    return score
