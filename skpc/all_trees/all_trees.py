"""The mixture of all trees and finite mixtures of it, which score complete rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, divisors, group_sums, owners
from skpc.all_trees.determinants import expected_edges, log_tree_weights
from skpc.all_trees.tree_inference import TreeTables


class Expectation(NamedTuple):
    """Expected states and edges of random trees, given weighted rows: the E-step.

    Parameters
    ----------
    log_likelihood : array of shape (n_rows,)
        Log-likelihood of each row in nats.
    state : array of shape (n_states,)
        Weight of the rows in each state.
    edge : array of shape (n_states, n_states)
        Expected weight of the rows whose tree has an edge between two states.
    prior_edge : array of shape (n_vertices, n_vertices)
        Total weight of the rows times the probability of each edge before a row is seen.
    """

    log_likelihood: Floats
    state: Floats
    edge: Floats
    prior_edge: Floats


class AllTrees(NamedTuple):
    """A mixture of all trees over some variables (eq. 2 of the paper), ready to score rows.

    A tree has as its weight the product of ``weight`` over its edges, and gives a row the product
    of ``state_factor`` over its states and of ``edge_factor / weight`` over its edges. The vertices
    are the variables; in a directed mixture a root of one state follows as the last vertex. The
    states of all vertices are numbered through.

    Parameters
    ----------
    ptr : array of shape (n_vertices + 1,)
        The states of vertex v are ``ptr[v] .. ptr[v + 1]``.
    weight : array of shape (n_vertices, n_vertices)
        Weight of the edge into the first vertex from the second.
    edge_factor : array of shape (n_states, n_states)
        Weight of the edge times its factor, for the state of the child and that of the parent.
    log_state_factor : array of shape (n_states,)
        Log of the factor of each state.
    symmetric : bool
        Whether trees are undirected.

    Examples
    --------
    The directed mixture of two variables has three trees: two that lead from one variable to the
    other, and one in which they are independent.

    >>> import numpy as np
    >>> from skpc.all_trees.all_trees import AllTrees
    >>> weight = np.ones((3, 3))
    >>> half = np.full((5, 5), 0.5)
    >>> model = AllTrees(
    ...     np.array([0, 2, 4, 5]), weight, half, np.zeros(5), symmetric=False
    ... )
    >>> np.exp(model.log_likelihood(model.states_of(np.array([[0, 1]])))).round(6)
    array([0.25])
    """

    ptr: Ints
    weight: Floats
    edge_factor: Floats
    log_state_factor: Floats
    symmetric: bool

    def __repr__(self) -> str:
        kind = "directed"
        if self.symmetric:
            kind = "undirected"
        n_states = self.ptr[self.n_features]
        return f"AllTrees(n_features={self.n_features}, n_states={n_states}, {kind})"

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return len(self.ptr) - 2 + self.symmetric

    def states_of(self, codes: NDArray[np.integer]) -> Ints:
        """Number the states of complete rows of codes through, with that of the root."""
        states = np.empty((len(codes), len(self.ptr) - 1), dtype=np.int64)
        states[:, self.n_features :] = 0
        states[:, : self.n_features] = codes
        states += self.ptr[:-1]
        return states

    def log_likelihood(self, states: Ints) -> Floats:
        """Log-likelihood of complete rows: a determinant each, exactly normalised.

        Parameters
        ----------
        states : array of shape (n_rows, n_vertices)
            As :meth:`states_of` gives them.

        Returns
        -------
        ndarray of shape (n_rows,)
            In nats.
        """
        log_weight = log_tree_weights(self.edge_factor, states, self.symmetric)
        # All trees without the factors of a row: what the weights sum up to.
        log_total = log_tree_weights(self.weight, self._vertices, self.symmetric)
        log_weight += self.log_state_factor[states].sum(axis=1)
        return log_weight - log_total

    def expect(self, states: Ints, weight: Floats) -> Expectation:
        """Log-likelihood of complete rows, and the edges of their trees.

        Parameters
        ----------
        states : array of shape (n_rows, n_vertices)
            As :meth:`states_of` gives them.
        weight : array of shape (n_rows,)
            Weights of the rows.

        Returns
        -------
        Expectation
            All that derivatives of the log-likelihood with respect to parameters need.
        """
        log_weight, edge = expected_edges(self.edge_factor, states, weight, self.symmetric)
        total = np.array([weight.sum()])
        log_total, prior = expected_edges(self.weight, self._vertices, total, self.symmetric)
        # Each row counts in the states of all its vertices.
        cell_weight = np.repeat(weight, states.shape[1])
        count = group_sums(states.ravel(), cell_weight, len(edge))
        log_weight += self.log_state_factor[states].sum(axis=1)
        log_likelihood = log_weight - log_total
        return Expectation(log_likelihood, count, edge, prior)

    def edge_probabilities(self) -> Floats:
        """Probability that a tree has an edge into the first variable from the second.

        On the diagonal, that the variable is a root; if symmetric, zero.
        """
        n_features = self.n_features
        _, expected = expected_edges(self.weight, self._vertices, np.ones(1), self.symmetric)
        probability = expected[:n_features, :n_features].copy()
        if self.symmetric:
            return probability + probability.T
        # The edges from the root, which follows as the last vertex.
        np.fill_diagonal(probability, expected[:n_features, n_features])
        return probability

    def tree_tables(self) -> TreeTables:
        """The tables that all trees share, and their weights.

        Undirected trees hang from the first variable.
        """
        # Estimates of rows with missing cells refuse smaller probabilities.
        least = 1e-99
        ptr = self.ptr
        vertex = owners(np.diff(ptr))
        weight = self.weight[np.ix_(vertex, vertex)]
        # An edge without weight has no table.
        weight = divisors(weight)
        ratio = self.edge_factor / weight
        table = ratio[:-1]
        into = self.weight[:-1].copy()
        if self.symmetric:
            # The ratio of a table to independence times the marginal is the conditional table.
            single = np.exp(self.log_state_factor)
            conditional = single[:, np.newaxis] * ratio
            table = np.column_stack([conditional, single])
            ptr = np.append(ptr, ptr[-1] + 1)
            into = np.pad(self.weight, ((0, 0), (0, 1)))
            into[0] = 0.0
            into[0, -1] = 1.0
        return TreeTables(ptr, np.maximum(table, least), into)

    @property
    def _vertices(self) -> Ints:
        """A row in which every vertex has one state."""
        return np.arange(len(self.ptr) - 1)[np.newaxis]


class Components(NamedTuple):
    """A finite mixture of mixtures of all trees.

    Parameters
    ----------
    log_weight : array of shape (n_components,)
        Logs of the weights of the components.
    models : tuple of AllTrees
        The components, over the same variables.
    """

    log_weight: Floats
    models: tuple[AllTrees, ...]

    def __repr__(self) -> str:
        return f"Components(n_components={len(self.models)}, each {self.models[0]!r})"

    def log_joint(self, states: Ints) -> Floats:
        """Log probability of each row together with each component.

        Parameters
        ----------
        states : array of shape (n_rows, n_vertices)
            As :meth:`AllTrees.states_of` gives them.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            In nats.
        """
        log_likelihoods = [model.log_likelihood(states) for model in self.models]
        return np.column_stack(log_likelihoods) + self.log_weight

    def log_likelihood(self, states: Ints) -> Floats:
        """Log-likelihood of complete rows, shape (n_rows,), in nats."""
        log_joint = self.log_joint(states)
        return np.logaddexp.reduce(log_joint, axis=1)
