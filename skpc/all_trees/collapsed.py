"""Rows with missing cells under a mixture of all trees, estimated by sampling trees.

The mixture gives the observed cells e of a row the probability p(e) = sum over the trees T of
p(T) p(e | T). Each term is easy, but the sum is not: no polynomial algorithm is known, and with
parameters of any sign the problem is NP-hard (theorem 1 of the paper). So trees are sampled:

- :func:`collapsed_estimates`: trees are drawn from a proposal q and weighted by
  p(T) p(e | T) / q(T); within each tree the missing cells are summed out exactly.
- :func:`importance_estimates`: trees are drawn from p(T), weighted by p(e | T), and the missing
  cells are drawn given the tree.
- :func:`gibbs_estimates`: a Markov chain that draws a tree given all cells and then the missing
  cells given the tree, both jointly.

The proposal multiplies the weight of each edge u -> v by a factor z(u, v), so that it is again a
distribution of spanning trees: p(T) / q(T) is the ratio of the two normalisers, both known, divided
by the factors of the edges of T. With any positive factors the estimates converge to the truth, and
that of p(e) is unbiased for any number of samples; its logarithm is biased low. If v is observed, z
is the probability of its state given that of u, averaged over a guess of u where u is missing. If v
is missing, z is one. In undirected mixtures, with the distribution P(u) as the guess, this would be
the factor P(u, v) / (P(u) P(v)) of the edges whose ends are both observed, times a constant.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import kernel
from skpc._random import uniform
from skpc.all_trees.estimates import (
    Estimates,
    Mixture,
    Request,
    RowTask,
    adjust,
    estimate_rows,
    log_product,
    stream_after,
)
from skpc.all_trees.spanning_trees import draw_trees
from skpc.all_trees.tree_inference import draw_down, pass_down, pass_up, tree_order
from skpc.all_trees.tree_tables import TreeTables

__all__ = ["collapsed_estimates", "collapsed_row", "importance_estimates"]

Streams = NDArray[np.uint64]

#: Sweeps of the guess of the missing cells; more change the effective sample size by a per cent.
_SWEEPS = 4
_ALL = Request()


@kernel
def _guess(tables: TreeTables, edge: Floats, code: Ints, belief: Floats) -> None:
    """Guess the states of all variables: each hears its parents, on average over trees.

    ``edge`` are the probabilities of the edges, ``belief`` of shape (n_states + 1,) is overwritten.
    """
    ptr, conditional = tables
    n = len(code)
    belief[ptr[n]] = 1.0
    for v in range(n):
        for b in range(ptr[v], ptr[v + 1]):
            belief[b] = 0.0 if code[v] >= 0 else conditional[b, ptr[n]]
        if code[v] >= 0:
            belief[ptr[v] + code[v]] = 1.0
    heard = np.empty(ptr[n])
    for _ in range(_SWEEPS):
        for v in range(n):
            if code[v] >= 0:
                continue
            whole = 0.0
            for b in range(ptr[v], ptr[v + 1]):
                heard[b] = 0.0
                for u in range(n + 1):
                    if edge[v, u] > 0.0:
                        term = 0.0
                        for a in range(ptr[u], ptr[u + 1]):
                            term += conditional[b, a] * belief[a]
                        heard[b] += edge[v, u] * term
                whole += heard[b]
            for b in range(ptr[v], ptr[v + 1]):
                belief[b] = heard[b] / whole


@kernel
def _average(
    tables: TreeTables,
    parents: Ints,
    factor: Floats,
    code: Ints,
    whole: Ints,
    collapsed: bool,
    streams: Streams,
    marginals: Floats,
    draws: Ints,
) -> tuple[float, float, float]:
    """Weighted averages over sampled trees, for one row.

    Parameters
    ----------
    tables : TreeTables
    parents : array of shape (n_trees, n)
    factor : array of shape (n, n + 1)
        By what the weights of the proposal exceed those of the mixture.
    code, whole : arrays of shape (n,)
        The row, and the row with the cells whose probability is asked for.
    collapsed : bool
        Whether to sum out the missing cells in each tree, rather than to draw them.
    streams : array of shape (1,)
    marginals : array of shape (n_states,) or (0,)
        Overwritten.
    draws : array of shape (n_draws, n)
        Overwritten with the row, its missing cells filled.

    Returns
    -------
    log_mean, effective_sample_size, log_asked : float
        Log of the average weight; (sum of weights) ** 2 / sum of their squares; log of the average
        probability of the cells asked for.
    """
    ptr, n = tables.ptr, len(code)
    order, work = np.empty(n, np.int64), np.empty((2, n + 1), np.int64)
    below, message, belief = np.empty(ptr[-1]), np.empty(ptr[-1]), np.empty(ptr[-1])
    filled, weights = np.empty(n, np.int64), np.empty(len(parents))
    is_asked = not np.array_equal(code, whole)
    largest, total, squares, asked = -math.inf, 0.0, 0.0, 0.0
    marginals[:] = 0.0
    for tree in range(len(parents)):
        parent = parents[tree]
        tree_order(parent, order, work)
        log_evidence = pass_up(tables, parent, order, code, below, message)
        log_weight = log_evidence - log_product(factor, parent)
        weights[tree] = log_weight
        if log_weight > largest:
            # Weights are kept relative to the largest so far.
            shrink = math.exp(largest - log_weight)
            for s in range(len(marginals)):
                marginals[s] *= shrink
            total *= shrink
            squares *= shrink * shrink
            asked *= shrink
            largest = log_weight
        weight = math.exp(log_weight - largest)
        total += weight
        squares += weight * weight
        if collapsed and len(marginals) > 0:
            pass_down(tables, parent, order, code, below, message, belief)
            for s in range(len(marginals)):
                marginals[s] += weight * belief[s]
        elif len(marginals) > 0:
            for v in range(n):
                filled[v] = code[v]
            draw_down(tables, parent, order, below, streams, 0, filled)
            for v in range(n):
                marginals[ptr[v] + filled[v]] += weight
        if is_asked:
            log_whole = pass_up(tables, parent, order, whole, below, message)
            asked += weight * math.exp(log_whole - log_evidence)
    for s in range(len(marginals)):
        marginals[s] /= total
    if len(draws) > 0:
        _draw(tables, parents, np.exp(weights - largest), code, streams, draws)
    log_asked = math.log(asked / total) if is_asked else 0.0
    return largest + math.log(total / len(parents)), total * total / squares, log_asked


@kernel
def _draw(
    tables: TreeTables, parents: Ints, weights: Floats, code: Ints, streams: Streams, draws: Ints
) -> None:
    """Fill the missing cells of a row: each time a tree by its weight, and the cells given it."""
    n = len(code)
    order, work = np.empty(n, np.int64), np.empty((2, n + 1), np.int64)
    below, message = np.empty(tables.ptr[-1]), np.empty(tables.ptr[-1])
    cumulated = np.cumsum(weights)
    for row in range(len(draws)):
        height = uniform(streams, 0) * cumulated[-1]
        parent = parents[np.searchsorted(cumulated, height)]
        tree_order(parent, order, work)
        pass_up(tables, parent, order, code, below, message)
        for v in range(n):
            draws[row, v] = code[v]
        draw_down(tables, parent, order, below, streams, 0, draws[row])


def collapsed_row(mixture: Mixture, task: RowTask) -> tuple[float, float, float]:
    tables, into = mixture.tables, mixture.into
    belief, factor, proposal = np.empty(tables.ptr[-1]), np.empty_like(into), np.empty_like(into)
    _guess(tables, mixture.edge, task.code, belief)
    adjust(tables, into, belief, task.code, factor, proposal)
    parents, log_total = draw_trees(proposal, task.n_samples, task.seed)
    log_mean, size, log_asked = _average_row(mixture, task, parents, factor, True)
    return log_total - mixture.log_total + log_mean, size, log_asked


def _importance_row(mixture: Mixture, task: RowTask) -> tuple[float, float, float]:
    parents, _ = draw_trees(mixture.into.copy(), task.n_samples, task.seed)
    return _average_row(mixture, task, parents, np.ones_like(mixture.into), False)


def _average_row(
    mixture: Mixture, task: RowTask, parents: Ints, factor: Floats, collapsed: bool
) -> tuple[float, float, float]:
    stream = stream_after(task.seed, task.n_samples)
    return _average(
        mixture.tables,
        parents,
        factor,
        task.code,
        task.whole,
        collapsed,
        stream,
        task.marginals,
        task.draws,
    )


def collapsed_estimates(
    tables: TreeTables,
    into: Any,
    codes: Any,
    seeds: Any,
    n_samples: int = 1000,
    request: Request = _ALL,
) -> Estimates:
    """Estimate rows with missing cells by collapsed importance sampling.

    Parameters
    ----------
    tables : TreeTables
        Positive probabilities of n variables given their parents.
    into : array-like of shape (n, n + 1)
        Weights of the edges into each variable, those of the roots last, as :func:`edges_into`
        arranges them.
    codes : array-like of shape (n_rows, n)
        States, -1 where missing.
    seeds : array-like of shape (n_rows,), uint64
        The same seed gives a row the same estimates, whatever the other rows.
    n_samples : int, default=1000
        Number of trees for each row.
    request : Request
        What is needed; by default the marginals, and one draw for each row.

    Returns
    -------
    Estimates
        The probabilities themselves are unbiased, their logarithms are too low by about
        ``0.5 / effective_sample_size``; errors fall with the square root of that size.

    Raises
    ------
    ValueError
        If a shape is wrong, a state out of range, a weight negative or not finite, a probability
        below 1e-100; if no tree has a positive weight.

    Notes
    -----
    For each row the cost is O(n^3) and, for each sample, O(n^2) at worst to draw a tree and
    O(n k^2) for inference with k states.

    Examples
    --------
    Two variables that are independent in one tree, and mostly equal in the two others.

    >>> import numpy as np
    >>> from skpc.all_trees import TreeTables, collapsed_estimates
    >>> equal = [[0.9, 0.1], [0.1, 0.9]]
    >>> tables = TreeTables.of([[0.5, 0.5]] * 2, {(0, 1): equal, (1, 0): equal})
    >>> found = collapsed_estimates(tables, [[0, 1, 1], [1, 0, 1]], [[0, -1]], [7])
    >>> np.exp(found.log_likelihood).round(2)
    array([0.5])
    >>> found.marginals.round(2)
    array([[1.  , 0.  , 0.77, 0.23]])
    """
    return estimate_rows(collapsed_row, tables, into, codes, seeds, n_samples, request)


def importance_estimates(
    tables: TreeTables,
    into: Any,
    codes: Any,
    seeds: Any,
    n_samples: int = 1000,
    request: Request = _ALL,
) -> Estimates:
    """Estimate rows with missing cells by importance sampling of trees and cells.

    For comparison: arguments, result and errors are those of :func:`collapsed_estimates`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.all_trees import TreeTables, importance_estimates
    >>> tables = TreeTables.of([[0.5, 0.5]] * 2, {})
    >>> found = importance_estimates(tables, [[0, 1, 1], [1, 0, 1]], [[0, -1]], [7])
    >>> found.effective_sample_size
    array([1000.])
    """
    return estimate_rows(_importance_row, tables, into, codes, seeds, n_samples, request)
