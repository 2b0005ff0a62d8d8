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
from skpc._jit import kernel
from skpc.all_trees.all_trees import AllTrees, Expectation
from skpc.all_trees.couplings import couple, couple_gradient
from skpc.all_trees.pair_tables import PairTables, block_sums, per_state, probabilities, vertices


@kernel
def _weigh(ratio: Floats, variable: Ints, weight: Floats) -> None:
    """Multiply ratios by the weights of edges, in place; a variable has none with itself."""
    for s in range(len(ratio)):
        of_variable = weight[variable[s]]
        for t in range(len(ratio)):
            w = of_variable[variable[t]]
            ratio[s, t] = ratio[s, t] * w if w > 0.0 else 0.0


@kernel
def _ratios(
    factor: Floats, variable: Ints, weight: Floats, edge: Floats, ratio: Floats, of_edge: Floats
) -> None:
    """The ratios, later variables first, and the sums of the edges between two variables.

    Nothing is expected of an edge without weight.
    """
    for s in range(len(ratio)):
        v = variable[s]
        of_variable, total = weight[v], of_edge[v]
        for t in range(len(ratio)):
            u = variable[t]
            w = of_variable[u] if u < v else 0.0
            ratio[s, t] = factor[s, t] / w if w > 0.0 else 0.0
            total[u] += edge[s, t]


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
        n, n_states = len(self.ptr) - 1, int(self.ptr[-1])
        n_pairs = n * (n - 1) // 2
        weight = np.zeros((n, n))
        log_weight = vector[:n_pairs]
        weight[np.tril_indices(n, -1)] = np.exp(log_weight - log_weight.max(initial=-np.inf))
        weight += weight.T
        single = probabilities(vector[n_pairs : n_pairs + n_states], self.ptr)
        theta = np.ascontiguousarray(vector[n_pairs + n_states :].reshape(self.shape))
        factor = np.empty(self.shape) if factor is None else factor
        couple(theta, single, self.ptr, factor)
        _weigh(factor, vertices(self.ptr), weight)
        return AllTrees(self.ptr, weight, factor, np.log(single), True)

    def gradient(self, model: AllTrees, expectation: Expectation, out: Floats) -> None:
        """Write the derivative of the log-likelihood of weighted rows under a model.

        It compares expected edges with those of the model: the posterior of an edge with its prior,
        and the counts of states with the marginals.
        """
        n, n_states = len(self.ptr) - 1, int(self.ptr[-1])
        n_pairs = n * (n - 1) // 2
        of_weight, of_single, of_theta = np.split(out, [n_pairs, n_pairs + n_states])
        # First the ratios: each table is read before its derivatives are written.
        by_theta, of_edge = of_theta.reshape(self.shape), np.zeros((n, n))
        single, variable = np.exp(model.log_state_factor), vertices(self.ptr)
        _ratios(model.edge_factor, variable, model.weight, expectation.edge, by_theta, of_edge)
        of_weight[:] = (of_edge - expectation.prior_edge)[np.tril_indices(n, -1)]
        by_single = expectation.state.copy()
        couple_gradient(single, by_theta, self.ptr, expectation.edge, by_theta, by_single)
        of_single[:] = by_single - single * per_state(block_sums(by_single, self.ptr, 0), self.ptr)
