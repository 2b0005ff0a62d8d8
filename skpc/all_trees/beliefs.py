"""Beliefs about the missing cells of a row, averaged over all trees, by message passing.

If the edges of a tree were known, messages along them would give the distribution of each missing
cell. Here a message counts by the probability of its edge given the row, and the edges depend on
the messages in turn: in the graph of the row, an edge between two states has as its factor the
probability of the child given the parent, averaged over the belief of the parent and over what the
missing child hears from below. Its inverse Laplacian gives the probabilities of the edges. The
cells that may be parent or child of a variable count as independent, except that none is both.

Three rounds come close to the truth where trees are many and missing cells few (a thousand trees
sampled for each row of a made table of 50 columns, a fifth of its cells missing, are no closer).
They are an approximation all the same: estimates take them as a proposal. Without them, completions
are worth little (:mod:`skpc.all_trees.incomplete`). The plain twin is tests/naive/beliefs.py.
"""

from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints, group_sums, owners
from skpc._threads import slices
from skpc.all_trees.determinants import eliminate_graphs, new_graphs
from skpc.all_trees.tree_inference import TreeTables


class _Row(NamedTuple):
    """A row, in the states that its variables may be in; the root has one, the last.

    Parameters
    ----------
    states : array of shape (m,)
        Those states, among all of the trees.
    starts : array of shape (n + 1,)
        Where those of each variable begin.
    unknown, variable : array of shape (n_unknown,)
        Places of the states of missing variables, and their variables.
    conditional : array of shape (m - 1, m)
        Probability of a state given one of a parent.
    belief, below : array of shape (m,)
        Beliefs, and what missing variables hear from below; written over.
    """

    states: Ints
    starts: Ints
    unknown: Ints
    variable: Ints
    conditional: Floats
    belief: Floats
    below: Floats

    @classmethod
    def from_codes(cls, trees: TreeTables, code: Ints) -> Self:
        """A row whose missing variables are believed to be roots."""
        ptr = trees.ptr
        n_states = np.diff(ptr)
        is_missing = np.append(code < 0, False)
        variable = owners(np.where(is_missing, n_states, 1))
        known = np.where(is_missing, 0, np.append(code, 0))
        starts = np.searchsorted(variable, np.arange(len(n_states)))
        within = np.arange(len(variable)) - starts[variable]
        states = ptr[variable] + known[variable] + within
        unknown = np.flatnonzero(is_missing[variable])
        conditional = trees.conditional[states[:-1, np.newaxis], states]
        belief = np.ones(len(states))
        belief[unknown] = conditional[unknown, -1]
        below = np.ones(len(states))
        return cls(states, starts, unknown, variable[unknown], conditional, belief, below)

    def messages(self) -> tuple[Floats, Floats]:
        """What each variable tells a parent in each state, and on average over its beliefs.

        Shapes (n, m) and (n, n + 1).
        """
        heard = self.conditional * self.below[:-1, np.newaxis]
        message = np.add.reduceat(heard, self.starts[:-1], axis=0)
        return message, np.add.reduceat(message * self.belief, self.starts, axis=1)

    def hear(self, message: Floats, average: Floats, edge: Floats) -> None:
        """Update the beliefs of missing variables, from what they hear on all sides.

        ``edge`` of shape (n, n + 1) has the probabilities of the edges into each variable.
        """
        # Edges that are less probable tell nothing.
        faint = 1e-4
        # The least that a child may say of a state, and the least room that others leave an edge.
        least = 1e-12
        variable = self.variable
        into = edge[variable]  # (n_unknown, n + 1)
        # Given that a neighbour is not the parent, it is a child with this probability.
        room = np.maximum(1.0 - into[:, :-1].T, least)
        is_child = np.minimum(edge[:, variable] / room, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            likelihood = message[:, self.unknown] / average[:, variable]
            from_parent = np.add.reduceat(
                self.conditional[self.unknown] * self.belief, self.starts, axis=1
            )
            from_parent *= into / average[variable]
        # With the edge the child sends its message, without it the message is one.
        likelihood = np.maximum(1.0 + is_child * (likelihood - 1.0), least)
        # The virtual root, the last row, has no cell and sends no message.
        heard = np.ones((len(edge) + 1, len(variable)))
        np.copyto(heard[:-1], likelihood, where=is_child >= faint)
        product = heard.prod(axis=0)
        from_parent[into < faint] = 0.0
        # The neighbour that is the parent is divided out of the product over the children.
        updated = product * (from_parent / heard.T).sum(axis=1)
        total = group_sums(variable, updated, len(edge))[variable]
        # A belief that cannot be normalised keeps its value. All were updated from the old ones.
        is_finite = (total > 0.0) & (total < np.inf)
        self.below[self.unknown] = product
        self.belief[self.unknown[is_finite]] = updated[is_finite] / total[is_finite]


def belief_propagation(trees: TreeTables, codes: Ints) -> Floats:
    """Approximate the probabilities of the states of all variables given the observed cells.

    Parameters
    ----------
    trees : TreeTables
        The trees of a mixture.
    codes : array of shape (n_rows, n)
        States, -1 where missing.

    Returns
    -------
    ndarray of shape (n_rows, n_states + 1)
        The state of the root is last.
    """
    n_variables = codes.shape[1]
    beliefs = np.zeros((len(codes), int(trees.ptr[-1])))
    # Few rows at a time, as a graph has all pairs of variables.
    for part in slices(len(codes), 8):
        rows = [_Row.from_codes(trees, code) for code in codes[part]]
        graphs = new_graphs(len(rows), n_variables)
        n_lanes = graphs.shape[3]
        # Lanes beyond the last row repeat it.
        lanes = np.minimum(np.arange(len(graphs) * n_lanes), len(rows) - 1)
        # Three rounds of messages come close to the truth; see above.
        for _ in range(3):
            heard = [row.messages() for row in rows]
            weights = [trees.into * average for _, average in heard]
            for lane, row in enumerate(lanes):
                weight = weights[row]
                np.fill_diagonal(weight, 0.0)
                graph = graphs[lane // n_lanes, :n_variables, :, lane % n_lanes]
                graph[:, :n_variables] = weight[:, :-1]
                graph[:, -1] = weight[:, -1]
            eliminate_graphs(graphs, len(rows), False, True)
            for lane, row in enumerate(rows):
                inverse = graphs[lane // n_lanes, :n_variables, :n_variables, lane % n_lanes]
                # The probability of an edge over random trees is its weight times a resistance,
                # which the root does not lower.
                resistance = np.repeat(inverse.diagonal()[:, np.newaxis], n_variables + 1, axis=1)
                resistance[:, :-1] -= inverse.T
                row.hear(*heard[lane], np.clip(weights[lane] * resistance, 0.0, 1.0))
        for belief, row in zip(beliefs[part], rows):
            belief[row.states] = row.belief
    return beliefs
