"""Estimates of rows with missing cells: what they are, and what every way to them needs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import inlined, kernel
from skpc.all_trees.spanning_trees import Elimination
from skpc.all_trees.tree_inference import span
from skpc.all_trees.tree_tables import TreeTables

#: Products of two weights or probabilities of this size do not vanish.
_SMALLEST = 1e-100


class Request(NamedTuple):
    """What to estimate in addition to the likelihood of rows; what is not needed costs nothing.

    Parameters
    ----------
    marginals : bool, default=True
        Whether the marginals are needed.
    n_draws : int or array of shape (n_rows,), default=1
        How many joint draws of its missing cells each row needs.
    wholes : array of shape (n_rows, n) or None, default=None
        The same rows with further cells: the request is for their probability given the others.
    """

    marginals: bool = True
    n_draws: int | Ints = 1
    wholes: Ints | None = None


class Estimates(NamedTuple):
    """What is estimated of rows with missing cells.

    Parameters
    ----------
    log_likelihood : array of shape (n_rows,)
        Log probability of the observed cells in nats.
    marginals : array of shape (n_rows, n_states)
        Probabilities of the states of all variables, one after the other, given the observed cells;
        of shape (n_rows, 0) if the request does not name them.
    effective_sample_size : array of shape (n_rows,)
        Number of independent samples of the posterior that would be as good.
    draws : array of shape (n_draws, n), int64
        The rows, each ``n_draws`` times, their missing cells filled by one joint draw.
    log_asked : array of shape (n_rows,)
        Log probability of the further cells of ``wholes``, given the observed ones: never
        positive, for it is an average over the same trees. Zero without further cells.
    """

    log_likelihood: Floats
    marginals: Floats
    effective_sample_size: Floats
    draws: Ints
    log_asked: Floats

    @classmethod
    def empty(cls, codes: Ints, n_states: int, request: Request) -> Estimates:
        """Arrays for the answers to a request; the draws are copies of the rows."""
        n_draws = np.broadcast_to(request.n_draws, len(codes))
        return cls(
            np.empty(len(codes)),
            np.zeros((len(codes), n_states * request.marginals)),
            np.full(len(codes), np.inf),
            np.repeat(codes, n_draws, axis=0),
            np.zeros(len(codes)),
        )

    def part(self, rows: slice, draws: slice) -> Estimates:
        """Views of those of some rows, and of their draws."""
        return Estimates(
            self.log_likelihood[rows],
            self.marginals[rows],
            self.effective_sample_size[rows],
            self.draws[draws],
            self.log_asked[rows],
        )


class PreparedTrees(NamedTuple):
    """The trees of a mixture, and what all rows need of them."""

    tables: TreeTables
    #: Weights of the edges into each variable, those of the roots last; shape (n, n + 1).
    into: Floats
    #: Probability of each edge, arranged as ``into``.
    edge: Floats
    #: Log of the weight of all trees.
    log_total: float

    @classmethod
    def of(cls, tables: TreeTables, into: Floats) -> PreparedTrees:
        """Find the edge probabilities.

        Raises
        ------
        ValueError
            If a shape is wrong, a weight negative or not finite, a probability below 1e-100; if no
            tree has a positive weight.
        """
        n, n_states = tables.n_features, int(tables.ptr[-1]) - 1
        if tables.conditional.shape != (n_states, n_states + 1):
            raise ValueError(
                f"conditional must have shape {(n_states, n_states + 1)}; found "
                f"{tables.conditional.shape}."
            )
        if into.shape != (n, n + 1):
            raise ValueError(f"into must have shape ({n}, {n + 1}); found {into.shape}.")
        variable = np.repeat(np.arange(n + 1), np.diff(tables.ptr))
        others = variable[:-1, np.newaxis] != variable
        smallest = tables.conditional.min(where=others, initial=1.0)
        if not smallest >= _SMALLEST:
            raise ValueError(
                f"Conditional probabilities must be at least {_SMALLEST:g}; found {smallest:g}."
            )
        graph, log_total = Elimination.of(into)
        return cls(tables, into, graph.edge_probabilities, log_total)


class RowTask(NamedTuple):
    """What is to be estimated of one row, and arrays for the answers."""

    code: Ints
    #: The row with further cells; the same as ``code`` if there is nothing to add.
    whole: Ints
    seed: np.uint64
    n_samples: int
    #: Shape (n_states,), or (0,) if not needed.
    marginals: Floats
    #: Shape (n_draws, n).
    draws: Ints


@kernel
def adjust(
    tables: TreeTables, into: Floats, belief: Floats, code: Ints, factor: Floats, proposal: Floats
) -> None:
    """Factor of each edge given the observed cells, and the weights multiplied by it.

    It is the probability of the state of the child given that of the parent, averaged over
    ``belief`` where the parent is missing; one where the child is missing.
    """
    ptr, conditional = tables
    n = len(code)
    for v in range(n):
        for u in range(n + 1):
            expected = 1.0
            if code[v] >= 0:
                row = conditional[ptr[v] + code[v]]
                first, last = span(ptr, code, u)
                expected = 0.0
                for a in range(first, last):
                    expected += row[a] * belief[a]
            factor[v, u] = expected
            proposal[v, u] = into[v, u] * expected if u != v else 0.0


@inlined
def log_product(factor: Floats, parent: Ints) -> float:
    """Log of the product of the factors of the edges of a tree."""
    log_product, product = 0.0, 1.0
    for v in range(len(parent)):
        product *= factor[v, parent[v] if parent[v] >= 0 else len(parent)]
        # One logarithm for many factors, taken before they underflow.
        if product < 1e-100 or product > 1e100:
            log_product += math.log(product)
            product = 1.0
    return log_product + math.log(product)
