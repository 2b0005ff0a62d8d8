"""The free parameters of mixtures of all trees: where they start, their model, derivatives.

Directed mixtures have free conditional tables, and a root that reaches everything.
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

Undirected mixtures are the model of the paper.
All trees share the univariate marginals P_v and the pairwise marginals P_uv, which are consistent
with them by construction (:mod:`skpc.all_trees.couplings`), and the weight w_uv of each edge:

    Pr(x) = 1/Z prod_v P_v(x_v) det L*(x),

where L*(x) is the Laplacian, without the row and the column of one vertex, of the weights w_uv
times P_uv(x_u, x_v) / (P_u(x_u) P_v(x_v)), and Z is the same determinant without these factors.

The plain twins are in tests/naive/all_trees.py.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from skpc._arrays import ROUNDING, Floats, Ints, offsets, owners
from skpc.all_trees.all_trees import AllTrees, Components, Expectation
from skpc.all_trees.couplings import couple, couple_gradient
from skpc.counting.column_laws import evidence_factors
from skpc.counting.rows import count_state_pairs


class PairTables(NamedTuple):
    """Smoothed marginals of one and of two variables, estimated from weighted rows.

    Parameters
    ----------
    ptr : array of shape (n_features + 1,)
        The states of variable v are ``ptr[v] .. ptr[v + 1]``.
    single : array of shape (n_states,)
        Probability of each state.
    pair : array of shape (n_states, n_states)
        Probability of two states together, consistent with ``single`` if nothing is missing; the
        tables of a variable with itself are of no use.
    n_rows : float
        Weight of the rows.
    """

    ptr: Ints
    single: Floats
    pair: Floats
    n_rows: float

    @classmethod
    def from_rows(
        cls, codes: NDArray[np.integer], weight: Floats, n_states: Ints, alpha: float
    ) -> Self:
        """Count rows.

        Parameters
        ----------
        codes : array of shape (n_rows, n_features)
            State of each cell, -1 where missing: a table counts the rows that show its variables.
        weight : array of shape (n_rows,)
            Positive weights.
        n_states : array of shape (n_features,)
            Number of states of each variable.
        alpha : float
            Pseudo-count that every table shares out evenly among its cells.

        Returns
        -------
        PairTables
        """
        ptr = offsets(n_states)
        pair = count_state_pairs(codes, weight, n_states)
        part = per_state(1.0 / n_states, ptr)
        observed = pair_sums(pair, ptr)
        total = per_pair(observed, ptr) + alpha
        single = (pair.diagonal() + alpha * part) / total.diagonal()
        added = alpha * np.outer(part, part)
        n_rows = weight.sum()
        is_incomplete = observed < (1.0 - ROUNDING) * n_rows
        is_incomplete = per_pair(is_incomplete, ptr)
        row, column = np.nonzero(is_incomplete)
        if len(row):
            # What few rows show is drawn to independence, as strongly as they tell.
            variable = owners(n_states)
            table = variable[row] * len(n_states) + variable[column]
            alone = single[row] * single[column]
            factor = evidence_factors(pair[row, column], alone, table, table)[table]
            added[row, column] = factor * alone
            total[row, column] += factor - alpha
        return cls(ptr, single, (pair + added) / total, n_rows)

    def information(self) -> Floats:
        """Mutual information of every two variables, in nats; shape (n_features, n_features).

        Positive, as rounding alone would not keep it; ones on the diagonal.
        """
        ratio = np.log(self.pair / np.outer(self.single, self.single))
        information = pair_sums(self.pair * ratio, self.ptr)
        # In nats: no two variables fall short of this.
        information = np.maximum(information, 1e-6)
        np.fill_diagonal(information, 1.0)
        return information


def block_sums(table: Floats, ptr: Ints, axis: int) -> Floats:
    """Sum the states of each vertex along an axis."""
    return np.add.reduceat(table, ptr[:-1], axis=axis)


def per_state(values: Floats, ptr: Ints, axis: int = 0) -> Floats:
    """Give every state the value of its vertex along an axis."""
    return np.repeat(values, np.diff(ptr), axis=axis)


def pair_sums(table: Floats, ptr: Ints) -> Floats:
    """Sum the pairs of states of every two vertices."""
    return block_sums(block_sums(table, ptr, 0), ptr, 1)


def per_pair(values: Floats, ptr: Ints) -> Floats:
    """Give every two states the value of their vertices."""
    return per_state(per_state(values, ptr, 0), ptr, 1)


def probabilities(logit: Floats, ptr: Ints, weight: Floats) -> Floats:
    """Weights times the conditional tables that some logits stand for.

    Parameters
    ----------
    logit : array of shape (n_states, n_parent_states)
        Logits of each state (first axis) of a vertex given each state of a parent.
    ptr : array of shape (n + 1,)
        The states of vertex v are ``ptr[v] .. ptr[v + 1]``.
    weight : array of shape (n, n_parent_states)
        Weight of the edge into a vertex from the vertex of a state.

    Returns
    -------
    ndarray of shape (n_states, n_parent_states)
    """
    factor = logit - per_state(np.maximum.reduceat(logit, ptr[:-1], axis=0), ptr)
    np.exp(factor, out=factor)
    factor *= per_state(weight / block_sums(factor, ptr, 0), ptr)
    return factor


def table_gradient(
    factor: Floats, ptr: Ints, weight: Floats, edge: Floats, gradient: Floats
) -> Floats:
    """Derivatives of expected log tables by their logits.

    Parameters
    ----------
    factor, ptr, weight
        See :func:`probabilities`, which returns the factors.
    edge : array of shape (n_states, n_parent_states)
        Expected weight of the rows with an edge between two states.
    gradient : array of shape (n_states, n_parent_states)
        Overwritten with the derivatives.

    Returns
    -------
    ndarray of shape (n, n_parent_states)
        Expected weight of the rows with an edge into a vertex from a state of its parent.
    """
    edge_weight = block_sums(edge, ptr, 0)
    # Nothing is expected of an edge without weight.
    ratio = np.divide(edge_weight, weight, out=np.zeros_like(weight), where=weight > 0.0)
    # The gradient of a softmax: what was observed, less what was expected.
    np.multiply(factor, per_state(ratio, ptr), out=gradient)
    np.subtract(edge, gradient, out=gradient)
    return edge_weight


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
        # higher, by 0.01 nats on plants and jester. Training ends near the trees where it starts,
        # which is good where there are few rows for each entry of the tables. With tens of them it
        # starts with more trees, up to the fourth root, and ends higher by 0.04 nats on msnbc.
        exponent = 0.25 + 0.25 / (1.0 + 0.1 * tables.n_rows / self.ptr[-1] ** 2)
        logit = exponent * np.log(tables.information())
        # Log weight of the root, relative to the mean of those of the other parents. Likely roots
        # make for small trees, and training leaves these slowly: on plants, a root as likely as the
        # average parent costs 0.4 nats.
        log_root = -5.0
        logit = np.column_stack([logit, logit.mean(axis=1) + log_root])
        table = np.log(np.column_stack([tables.pair / tables.single, tables.single]))
        return np.concatenate([logit.ravel(), table.ravel()])

    def model(self, vector: Floats) -> AllTrees:
        """The mixture that has these parameters."""
        logit, table = self._parts(vector)
        logit = logit.copy()
        np.fill_diagonal(logit, -np.inf)
        ptr = np.append(self.ptr, self.ptr[-1] + 1)
        weight = np.zeros((len(self.ptr), len(self.ptr)))
        weight[:-1] = softmax(logit, axis=1)
        factor = probabilities(table, self.ptr, per_state(weight[:-1], ptr, 1))
        return AllTrees(ptr, weight, np.pad(factor, ((0, 1), (0, 0))), np.zeros(ptr[-1]), False)

    def gradient(self, model: AllTrees, expectation: Expectation, out: Floats) -> None:
        """Write the derivative of the log-likelihood of weighted rows under a model.

        It compares expected edges with those of the model: the posterior of an edge with its prior,
        and the counts of a table with the counts expected of those of the parent's state.
        """
        by_choice, by_table = self._parts(out)
        weight = per_state(model.weight[:-1], model.ptr, 1)
        factor = model.edge_factor[:-1]
        edge_weight = table_gradient(factor, self.ptr, weight, expectation.edge[:-1], by_table)
        by_choice[:] = block_sums(edge_weight, model.ptr, 1) - expectation.prior_edge[:-1]

    def taken(self, vector: Floats, order: Ints) -> Floats:
        """The parameters of the same variables in another order."""
        (logit, table) = self._parts(vector)
        states = _states_of(self.ptr, order)
        logit = logit[np.ix_(order, np.append(order, len(order)))]
        table = table[np.ix_(states, np.append(states, len(states)))]
        return np.concatenate([logit.ravel(), table.ravel()])

    def _parts(self, vector: Floats) -> tuple[Floats, Floats]:
        """Views of the parameters of the choices, and of those of the tables."""
        n_features = len(self.ptr) - 1
        n_states = self.ptr[-1]
        n_choices = n_features * (n_features + 1)
        choice, table = np.split(vector, [n_choices])
        return choice.reshape(n_features, -1), table.reshape(n_states, -1)


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
        independent = np.outer(tables.single, tables.single)
        parts = (weight, tables.single, tables.pair / independent)
        return np.concatenate([np.log(part).ravel() for part in parts])

    def model(self, vector: Floats) -> AllTrees:
        """The mixture that has these parameters."""
        log_weight, logit, theta = self._parts(vector)
        n_features = len(self.ptr) - 1
        weight = np.zeros((n_features, n_features))
        weight[np.tril_indices(n_features, -1)] = np.exp(
            log_weight - log_weight.max(initial=-np.inf)
        )
        weight += weight.T
        single = probabilities(logit, self.ptr, np.ones(n_features))
        # Places that no pair fills are multiplied below: what memory holds by chance may overflow.
        factor = np.zeros(theta.shape)
        couple(np.ascontiguousarray(theta), single, self.ptr, factor)
        state_weight = per_pair(weight, self.ptr)
        factor *= state_weight
        # A variable has no edge with itself, and no table.
        factor[state_weight == 0.0] = 0.0
        return AllTrees(self.ptr, weight, factor, np.log(single), True)

    def gradient(self, model: AllTrees, expectation: Expectation, out: Floats) -> None:
        """Write the derivative of the log-likelihood of weighted rows under a model.

        It compares expected edges with those of the model: the posterior of an edge with its prior,
        and the counts of states with the marginals.
        """
        by_weight, by_logit, by_theta = self._parts(out)
        single = np.exp(model.log_state_factor)
        # First the ratios: each table is read before its derivatives are written.
        state_weight = per_pair(np.tril(model.weight, -1), self.ptr)
        by_theta.fill(0.0)
        np.divide(model.edge_factor, state_weight, out=by_theta, where=state_weight > 0.0)
        expected_edge = pair_sums(expectation.edge, self.ptr)
        surplus = expected_edge - expectation.prior_edge
        by_weight[:] = surplus[np.tril_indices(len(surplus), -1)]
        by_single = expectation.state.copy()
        couple_gradient(single, by_theta, self.ptr, expectation.edge, by_theta, by_single)
        by_logit[:] = by_single - single * per_state(block_sums(by_single, self.ptr, 0), self.ptr)

    def taken(self, vector: Floats, order: Ints) -> Floats:
        """The parameters of the same variables in another order."""
        (weight, single, theta) = self._parts(vector)
        states = _states_of(self.ptr, order)
        pairs = np.tril_indices(len(order), -1)
        # A full symmetric matrix of weights is put in order, then read below its diagonal.
        later = np.zeros((len(order), len(order)))
        later[pairs] = weight
        variable = owners(np.diff(self.ptr))
        # A table of two variables is read with the later one first.
        theta = np.where(variable[:, np.newaxis] > variable, theta, theta.T)[np.ix_(states, states)]
        weight = (later + later.T)[np.ix_(order, order)][pairs]
        return np.concatenate([weight, single[states], theta.ravel()])

    def _parts(self, vector: Floats) -> tuple[Floats, Floats, Floats]:
        """Views of the parameters of the weights, of the marginals, and of the dependences."""
        n_features = len(self.ptr) - 1
        n_states = self.ptr[-1]
        n_pairs = n_features * (n_features - 1) // 2
        weight, single, theta = np.split(vector, [n_pairs, n_pairs + n_states])
        return weight, single, theta.reshape(n_states, -1)


def _states_of(ptr: Ints, order: Ints) -> Ints:
    """The states of variables in another order."""
    return np.concatenate([np.arange(ptr[variable], ptr[variable + 1]) for variable in order])


class ComponentParameters(NamedTuple):
    """The free parameters of several components, as one vector without constraints.

    First the logits of the weights of the components, then the parameters of each.

    Parameters
    ----------
    component : DirectedParameters or UndirectedParameters
        What the parameters of one component are.
    n_components : int
        Number of components.
    """

    component: DirectedParameters | UndirectedParameters
    n_components: int

    def start(self, tables: Sequence[PairTables], proportion: Floats) -> Floats:
        """Parameters to start from: the tables of each component, its proportion of the rows."""
        return np.concatenate(
            [np.log(proportion), *(self.component.start(group_tables) for group_tables in tables)]
        )

    def model(self, vector: Floats) -> Components:
        """The mixture that has these parameters."""
        models = tuple(self.component.model(part) for part in self._parts(vector))
        return Components(log_softmax(vector[: self.n_components]), models)

    def ascent(self, vector: Floats, states: Ints, weight: Floats) -> tuple[Floats, Floats]:
        """Log-likelihood of complete rows, and the direction in which it rises.

        That is the gradient of expected complete-data log-likelihood of EM: every component counts
        each row by its responsibility for it. At the parameters that give the responsibilities,
        both gradients are the same.

        Parameters
        ----------
        vector : array of shape (n_parameters,)
            The parameters.
        states : array of shape (n_rows, n_vertices)
            Complete rows, as :meth:`AllTrees.states_of` gives them.
        weight : array of shape (n_rows,)
            Their weights.

        Returns
        -------
        log_likelihood : ndarray of shape (n_rows,)
            In nats.
        gradient : ndarray of shape (n_parameters,)
            Derivative of ``weight @ log_likelihood``.
        """
        # The weights of components come first: their derivative is that of a softmax.
        mixture = self.model(vector)
        gradient = np.empty_like(vector)
        n_components = self.n_components
        log_joint = mixture.log_joint(states) if n_components > 1 else np.zeros((len(states), 1))
        share = softmax(log_joint, axis=1) * weight[:, np.newaxis]
        gradient[:n_components] = share.sum(axis=0) - weight.sum() * np.exp(mixture.log_weight)
        for model, row_weight, out in zip(mixture.models, share.T, self._parts(gradient)):
            expectation = model.expect(states, np.ascontiguousarray(row_weight))
            self.component.gradient(model, expectation, out)
        if n_components == 1:
            return expectation.log_likelihood, gradient
        return np.logaddexp.reduce(log_joint, axis=1), gradient

    def taken(self, vector: Floats, order: Ints) -> Floats:
        """The parameters of the same variables in another order: first what is now at ``order[0]``.

        Vectors of derivatives have the same order as the parameters.
        """
        parts = [self.component.taken(part, order) for part in self._parts(vector)]
        return np.concatenate([vector[: self.n_components], *parts])

    def _parts(self, vector: Floats) -> list[Floats]:
        return np.split(vector[self.n_components :], self.n_components)
