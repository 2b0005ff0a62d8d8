"""Directed mixtures of all trees: free conditional tables, and a root that reaches everything.

Every variable chooses a parent, another variable or a virtual root. The choices form a forest if
they have no cycle, and the mixture is over all forests, in proportion to the products of the
probabilities of their choices. Within a forest, rows have the distribution of a Bayesian network:
each variable has a free table given its parent, and one of its own below the root. By the directed
matrix-tree theorem

    Pr(x) = det(L(x) + diag(r(x))) / det(L + diag(r)),

where L is the Laplacian of the weights w_vu of the edges and r_v the weights of the root; above,
w_vu has the factor P(x_v | x_u), and r_v the factor P_v(x_v). No variable is special, and the
distribution is normalised for any number of states. Which variable is the root of a tree is part
of the mixture; a fixed root is the limit in which only one variable has a weight r_v.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from skpc._arrays import Floats, Ints
from skpc.all_trees.all_trees import AllTrees, Expectation
from skpc.all_trees.conditional_tables import edge_factors, table_gradient
from skpc.all_trees.pair_tables import PairTables, block_sums, vertices

#: Log weight of the root at the start, relative to the mean of those of the other parents. Likely
#: roots make for small trees, and training leaves these slowly: on plants, a root as likely as the
#: average parent costs 0.4 nats.
_LOG_ROOT = -5.0


class DirectedParameters(NamedTuple):
    """The free parameters of a directed mixture, as one vector without constraints.

    First the logits of the choice of a parent, shape (n_features, n_features + 1), the root being
    the last parent; then the logits of the tables, shape (n_states, n_states + 1), the state of the
    child first. Diagonal blocks are not used.

    Parameters
    ----------
    ptr : array of shape (n_features + 1,)
        The states of variable v are ``ptr[v] .. ptr[v + 1]``.
    """

    ptr: Ints

    def start(self, tables: PairTables) -> Floats:
        """Parameters to start from: empirical tables, and parents by mutual information."""
        # Its square root: about the correlation. It starts lower than information itself and ends
        # higher, by 0.01 nats on plants and jester.
        logit = 0.5 * np.log(tables.information())
        logit = np.column_stack([logit, logit.mean(axis=1) + _LOG_ROOT])
        table = np.log(np.column_stack([tables.pair / tables.single, tables.single]))
        return np.concatenate([logit.ravel(), table.ravel()])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the factors of edges."""
        return int(self.ptr[-1]) + 1, int(self.ptr[-1]) + 1

    def model(self, vector: Floats, factor: Floats | None = None) -> AllTrees:
        """The mixture that has these parameters; memory for its factors may be given."""
        logit, table = self._parts(vector)
        logit = logit.copy()
        np.fill_diagonal(logit, -np.inf)
        ptr = np.append(self.ptr, self.ptr[-1] + 1)
        weight = np.zeros((len(self.ptr), len(self.ptr)))
        weight[:-1] = softmax(logit, axis=1)
        factor = np.empty(self.shape) if factor is None else factor
        factor[-1] = 0.0
        edge_factors(table, self.ptr, vertices(ptr), weight, factor)
        return AllTrees(ptr, weight, factor, np.zeros(ptr[-1]), False)

    def gradient(self, model: AllTrees, expectation: Expectation, out: Floats) -> None:
        """Write the derivative of the log-likelihood of weighted rows under a model.

        It compares expected edges with those of the model: the posterior of an edge with its prior,
        and the counts of a table with the counts expected of those of the parent's state.
        """
        of_choice, of_table = self._parts(out)
        of_parent = table_gradient(
            model.edge_factor,
            self.ptr,
            vertices(model.ptr),
            model.weight,
            expectation.edge,
            of_table,
        )
        of_choice[:] = block_sums(of_parent, model.ptr, 1) - expectation.prior_edge[:-1]

    def _parts(self, vector: Floats) -> tuple[Floats, Floats]:
        """Views of the parameters of the choices, and of those of the tables."""
        n, n_states = len(self.ptr) - 1, self.ptr[-1]
        choice, table = vector[: n * (n + 1)], vector[n * (n + 1) :]
        return choice.reshape(n, n + 1), table.reshape(n_states, n_states + 1)
