"""Structure scores of deterministic circuits: Bayes-Dirichlet and BIC.

Both scores are sums over conditional tables: a tree has one table per variable (its states
given those of its tree parent, or given nothing at the root), a cut has one (the branch). Both
smooth a table in the same way, by a pseudo-count for each cell, and differ in what a table is
worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import kernel
from skpc.counting.count_tables import CountTables

__all__ = ["BayesDirichlet", "Bic", "Score", "smoothed_log_probabilities"]

#: One number of states, or an array of them.
Sizes = int | Ints


class Score(Protocol):
    """What the search asks of a structure score."""

    def pseudo_count(self, n_parent_states: Sizes, n_states: Sizes) -> Floats:
        """Pseudo-count of each cell of tables of these sizes."""

    def after_cut(self, n_branches: int) -> Score:
        """The score that holds in the branches of a cut."""

    def of_tables(self, tables: CountTables) -> float:
        """Score in nats of count tables: those of a tree, or that of a cut."""


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
        return float(_log_marginal_likelihood(*_kernel_arguments(tables, self)))


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
        fit = _smoothed_log_likelihood(*_kernel_arguments(tables, self))
        return float(fit) - 0.5 * math.log(self.total) * tables.n_parameters


def smoothed_log_probabilities(tables: CountTables, score: Score) -> list[Floats]:
    """Log probabilities in nats of count tables, smoothed as a score smooths them."""
    return tables.log_probabilities(score.pseudo_count(tables.n_parent_states, tables.n_states))


def _kernel_arguments(tables: CountTables, score: Score) -> tuple[NDArray[Any], ...]:
    # No score looks at which state of the variable a cell belongs to.
    ptr, parent_state, _, count, n_parent_states, n_states = tables
    pseudo_count = score.pseudo_count(n_parent_states, n_states)
    return ptr, parent_state, count, n_parent_states, n_states, pseudo_count


@kernel
def _log_marginal_likelihood(
    ptr: Ints,
    parent_state: Ints,
    count: Floats,
    n_parent_states: Ints,
    n_states: Ints,
    pseudo_count: Floats,
) -> float:
    """Sum over the rows of all tables of eq. 11."""
    in_row = np.empty(n_parent_states.max(), np.float64)
    score = 0.0
    for i in range(len(n_states)):
        of_cell = pseudo_count[i]
        of_row = of_cell * n_states[i]
        empty_cell = math.lgamma(of_cell)
        empty_row = math.lgamma(of_row)
        for row in range(n_parent_states[i]):
            in_row[row] = 0.0
        for cell in range(ptr[i], ptr[i + 1]):
            if count[cell] > 0.0:
                in_row[parent_state[cell]] += count[cell]
                score += math.lgamma(count[cell] + of_cell) - empty_cell
        for row in range(n_parent_states[i]):
            if in_row[row] > 0.0:
                score -= math.lgamma(in_row[row] + of_row) - empty_row
    return score


@kernel
def _smoothed_log_likelihood(
    ptr: Ints,
    parent_state: Ints,
    count: Floats,
    n_parent_states: Ints,
    n_states: Ints,
    pseudo_count: Floats,
) -> float:
    """Log-likelihood of all tables at the smoothed parameters."""
    in_row = np.empty(n_parent_states.max(), np.float64)
    score = 0.0
    for i in range(len(n_states)):
        of_cell = pseudo_count[i]
        for row in range(n_parent_states[i]):
            in_row[row] = 0.0
        for cell in range(ptr[i], ptr[i + 1]):
            if count[cell] > 0.0:
                in_row[parent_state[cell]] += count[cell]
                score += count[cell] * math.log(count[cell] + of_cell)
        for row in range(n_parent_states[i]):
            if in_row[row] > 0.0:
                score -= in_row[row] * math.log(in_row[row] + of_cell * n_states[i])
    return score
