"""Undirected mixtures of all trees: the model of the paper.

All trees share the univariate marginals P_v and the pairwise marginals P_uv, which are consistent
with them by construction (:mod:`skpc.all_trees.couplings`), and the weight w_uv of each edge:

    Pr(x) = 1/Z prod_v P_v(x_v) det L*(x),

where L*(x) is the Laplacian, without the row and the column of one vertex, of the weights w_uv
times P_uv(x_u, x_v) / (P_u(x_u) P_v(x_v)), and Z is the same determinant without these factors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints
from skpc.all_trees.all_trees import AllTrees, Expectation
from skpc.all_trees.couplings import couple, couple_gradient
from skpc.all_trees.pair_tables import PairTables, block_sums, per_state, probabilities


class UndirectedParameters(NamedTuple):
    """The free parameters of an undirected mixture, as one vector without constraints.

    First the logs of the weights, shape (n_features * (n_features - 1) / 2,), row by row below the
    diagonal; then the logits of the univariate marginals, shape (n_states,); then the dependences
    theta of the pairwise marginals, shape (n_states, n_states), the state of the later variable
    first; the other half is not used.

    Parameters
    ----------
    ptr : array of shape (n_features + 1,)
        The states of variable v are ``ptr[v] .. ptr[v + 1]``.
    """

    ptr: Ints

    def start(self, tables: PairTables) -> Floats:
        """Parameters to start from: empirical marginals, weights by mutual information."""
        weight = tables.information()[np.tril_indices(len(self.ptr) - 1, -1)]
        parts = (weight, tables.single, tables.pair / np.outer(tables.single, tables.single))
        return np.concatenate([np.log(part).ravel() for part in parts])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the factors of edges."""
        return int(self.ptr[-1]), int(self.ptr[-1])

    def model(self, vector: Floats, factor: Floats | None = None) -> AllTrees:
        """The mixture that has these parameters; memory for its factors may be given."""
        weight, single, ratio = self._read(vector)
        factor = np.multiply(self._of_states(weight), ratio, out=factor)
        return AllTrees(self.ptr, weight, factor, np.log(single), True)

    def gradient(self, model: AllTrees, expectation: Expectation, out: Floats) -> None:
        """Write the derivative of the log-likelihood of weighted rows under a model.

        It compares expected edges with those of the model: the posterior of an edge with its prior,
        and the counts of states with the marginals.
        """
        n_pairs, n_states = len(out) - self.ptr[-1] * (self.ptr[-1] + 1), self.ptr[-1]
        of_weight, of_single, by_theta = np.split(out, [n_pairs, n_pairs + n_states])
        by_theta[:] = 0.0
        single, ratio = np.exp(model.log_state_factor), self._of_states(model.weight)
        # Nothing is expected of an edge without weight.
        np.divide(model.edge_factor, ratio, out=ratio, where=ratio > 0.0)
        of_edge = block_sums(block_sums(expectation.edge, self.ptr, 0), self.ptr, 1)
        of_weight[:] = (of_edge - expectation.prior_edge)[np.tril_indices(len(of_edge), -1)]
        by_single = expectation.state.copy()
        by_theta = by_theta.reshape(self.shape)
        couple_gradient(single, ratio, self.ptr, expectation.edge, by_theta, by_single)
        of_single[:] = by_single - single * per_state(block_sums(by_single, self.ptr, 0), self.ptr)

    def _of_states(self, weight: Floats) -> Floats:
        """The weights of edges for every two states."""
        return per_state(per_state(weight, self.ptr, 0), self.ptr, 1)

    def _read(self, vector: Floats) -> tuple[Floats, Floats, Floats]:
        """Weights, univariate marginals, and pairwise ones relative to their products."""
        n, n_states = len(self.ptr) - 1, int(self.ptr[-1])
        n_pairs = n * (n - 1) // 2
        weight = np.zeros((n, n))
        log_weight = vector[:n_pairs]
        weight[np.tril_indices(n, -1)] = np.exp(log_weight - log_weight.max(initial=-np.inf))
        single = probabilities(vector[n_pairs : n_pairs + n_states], self.ptr)
        ratio = np.zeros((n_states, n_states))
        theta = np.ascontiguousarray(vector[n_pairs + n_states :].reshape(n_states, n_states))
        couple(theta, single, self.ptr, ratio)
        return weight + weight.T, single, ratio
