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
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._jit import inlined, kernel, seed_streams, uniform
from skpc.trees.laplacian import differentiate, eliminate, refuse_unreachable, scale_rows
from skpc.trees.spanning_trees import Elimination, draw_trees, eliminate_graph, split_trees
from skpc.trees.tree_inference import (
    TreeTables,
    check_codes,
    draw_down,
    pass_down,
    pass_up,
    span,
    tree_order,
)

__all__ = ["Estimates", "collapsed_estimates", "gibbs_estimates", "importance_estimates"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Streams = NDArray[np.uint64]

#: Sweeps of the guess of the missing cells; more change the effective sample size by a per cent.
_SWEEPS = 4
#: Share of the samples that Gibbs sampling draws in addition, and throws away, at first.
_BURN_IN = 0.1


class Estimates(NamedTuple):
    """What is estimated of rows with missing cells.

    Parameters
    ----------
    log_likelihood : array of shape (n_rows,)
        Log probability of the observed cells in nats.
    marginals : array of shape (n_rows, n_states)
        Probabilities of the states of all variables, one after the other, given the observed cells.
    effective_sample_size : array of shape (n_rows,)
        Number of independent samples of the posterior that would be as good.
    draws : array of shape (n_rows, n), int64
        The rows, their missing cells filled by one joint draw.
    """

    log_likelihood: Floats
    marginals: Floats
    effective_sample_size: Floats
    draws: Ints


class _Mixture(NamedTuple):
    """A mixture of all trees, and what all rows need of it."""

    tables: TreeTables
    into: Floats
    #: Probability of each edge, arranged as ``into``.
    edge: Floats
    log_total: float

    @classmethod
    def of(cls, tables: TreeTables, into: Any) -> _Mixture:
        n = tables.n_features
        weights = np.require(into, dtype=np.float64, requirements=("C", "W"))
        if weights.shape != (n, n + 1):
            raise ValueError(f"into must have shape ({n}, {n + 1}); found {weights.shape}.")
        variable = np.repeat(np.arange(n + 1), np.diff(tables.ptr))
        others = variable[:-1, np.newaxis] != variable
        smallest = tables.conditional.min(where=others, initial=1.0)
        if not smallest > 0.0:
            raise ValueError(f"Conditional probabilities must be positive; found {smallest}.")
        scaled = weights.copy()
        log_scale = scale_rows(scaled)
        eliminated, total, slope = scaled.copy(), np.empty(n), np.empty_like(scaled)
        refuse_unreachable(eliminate(eliminated, total))
        differentiate(eliminated, total, slope)
        return cls(tables, weights, scaled * slope, float(log_scale + np.log(total).sum()))


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
def _adjust(
    tables: TreeTables, into: Floats, belief: Floats, code: Ints, factor: Floats, proposal: Floats
) -> None:
    """Factor of each edge (see the top of the module), and the weights multiplied by it."""
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
def _log_product(factor: Floats, parent: Ints) -> float:
    """Log of the product of the factors of the edges of a tree."""
    log_product, product = 0.0, 1.0
    for v in range(len(parent)):
        product *= factor[v, parent[v] if parent[v] >= 0 else len(parent)]
        # One logarithm for many factors, taken before they underflow.
        if product < 1e-100 or product > 1e100:
            log_product += math.log(product)
            product = 1.0
    return log_product + math.log(product)


@kernel
def _average(
    tables: TreeTables,
    parents: Ints,
    factor: Floats,
    code: Ints,
    collapsed: bool,
    streams: Streams,
    marginals: Floats,
    draw: Ints,
) -> tuple[float, float]:
    """Weighted averages over sampled trees, for one row.

    Parameters
    ----------
    tables : TreeTables
    parents : array of shape (n_trees, n)
    factor : array of shape (n, n + 1)
        By what the weights of the proposal exceed those of the mixture.
    code : array of shape (n,)
    collapsed : bool
        Whether to sum out the missing cells in each tree, rather than to draw them.
    streams : array of shape (1,)
    marginals : array of shape (n_states,)
        Overwritten.
    draw : array of shape (n,)
        Overwritten with the row, its missing cells filled.

    Returns
    -------
    log_mean, effective_sample_size : float
        Log of the average weight; (sum of weights) ** 2 / sum of their squares.
    """
    ptr, n = tables.ptr, len(code)
    order, work = np.empty(n, np.int64), np.empty((2, n + 1), np.int64)
    below, belief = np.empty(ptr[n + 1]), np.empty(ptr[n + 1])
    filled = np.empty(n, np.int64)
    largest, total, squares, chosen = -math.inf, 0.0, 0.0, 0
    marginals[:] = 0.0
    for tree in range(len(parents)):
        parent = parents[tree]
        tree_order(parent, order, work)
        log_weight = pass_up(tables, parent, order, code, below, belief)
        log_weight -= _log_product(factor, parent)
        if log_weight > largest:
            # Weights are kept relative to the largest so far.
            shrink = math.exp(largest - log_weight)
            for s in range(ptr[n]):
                marginals[s] *= shrink
            total *= shrink
            squares *= shrink * shrink
            largest = log_weight
        weight = math.exp(log_weight - largest)
        total += weight
        squares += weight * weight
        # A tree replaces the one chosen before with its share of the weight so far.
        replaces = uniform(streams, 0) * total < weight
        if collapsed:
            pass_down(tables, parent, order, code, below, belief)
            for s in range(ptr[n]):
                marginals[s] += weight * belief[s]
            chosen = tree if replaces else chosen
        else:
            for v in range(n):
                filled[v] = code[v]
            draw_down(tables, parent, order, below, streams, 0, filled)
            for v in range(n):
                marginals[ptr[v] + filled[v]] += weight
                draw[v] = filled[v] if replaces else draw[v]
    for s in range(ptr[n]):
        marginals[s] /= total
    if collapsed:
        tree_order(parents[chosen], order, work)
        pass_up(tables, parents[chosen], order, code, below, belief)
        for v in range(n):
            draw[v] = code[v]
        draw_down(tables, parents[chosen], order, below, streams, 0, draw)
    return largest + math.log(total / len(parents)), total * total / squares


@kernel
def _gibbs(
    tables: TreeTables,
    into: Floats,
    graph: Elimination,
    code: Ints,
    n_burn_in: int,
    streams: Streams,
    state: Ints,
    marginals: Floats,
    log_evidence: Floats,
    log_return: Floats,
) -> float:
    """Alternate between a tree given all cells and the missing cells given the tree.

    Parameters
    ----------
    tables, into, code : as everywhere
    graph : Elimination
        Room for one.
    n_burn_in : int
        Sweeps that do not count.
    streams : array of shape (1,)
    state : array of shape (n,)
        The complete row to start from; overwritten with the last one.
    marginals : array of shape (n_states,)
        Overwritten.
    log_evidence : array of shape (n_samples,)
        Overwritten with the log probability of the observed cells in each tree.
    log_return : array of shape (n_samples,)
        Overwritten with that of the missing cells of the first row that counts, given the others.

    Returns
    -------
    float
        Log of the weight of all trees times the probability of that row.
    """
    ptr, n = tables.ptr, len(code)
    order, work = np.empty(n, np.int64), np.empty((2, n + 1), np.int64)
    below, belief = np.empty(ptr[n + 1]), np.empty(ptr[n + 1])
    factor, pinned = np.empty((n, n + 1)), np.empty((n, n + 1))
    parents = np.empty((1, n), np.int64)
    parent = parents[0]
    marginals[:] = 0.0
    log_joint = 0.0
    for sweep in range(n_burn_in + len(log_evidence)):
        belief[:] = 1.0
        _adjust(tables, into, belief, state, factor, graph.into)
        log_scale = scale_rows(graph.into)
        eliminate_graph(graph)
        if sweep == n_burn_in:
            log_joint = log_scale
            for v in range(n):
                log_joint += math.log(graph.total[v])
                for u in range(n + 1):
                    pinned[v, u] = factor[v, u]
        split_trees(graph, streams, parents)
        tree_order(parent, order, work)
        log_found = pass_up(tables, parent, order, code, below, belief)
        for v in range(n):
            state[v] = code[v]
        draw_down(tables, parent, order, below, streams, 0, state)
        at = sweep - n_burn_in
        if at >= 0:
            log_evidence[at] = log_found
            log_return[at] = _log_product(pinned, parent) - log_found
            for v in range(n):
                marginals[ptr[v] + state[v]] += 1.0
    for s in range(ptr[n]):
        marginals[s] /= len(log_evidence)
    return log_joint


def _collapsed_row(
    mixture: _Mixture, code: Ints, seed: np.uint64, n_samples: int, marginals: Floats, draw: Ints
) -> tuple[float, float]:
    tables, into = mixture.tables, mixture.into
    belief, factor, proposal = np.empty(tables.ptr[-1]), np.empty_like(into), np.empty_like(into)
    _guess(tables, mixture.edge, code, belief)
    _adjust(tables, into, belief, code, factor, proposal)
    parents, log_total = draw_trees(proposal, n_samples, seed)
    stream = _stream_after(seed, n_samples)
    log_mean, size = _average(tables, parents, factor, code, True, stream, marginals, draw)
    return log_total - mixture.log_total + log_mean, size


def _importance_row(
    mixture: _Mixture, code: Ints, seed: np.uint64, n_samples: int, marginals: Floats, draw: Ints
) -> tuple[float, float]:
    parents, _ = draw_trees(mixture.into.copy(), n_samples, seed)
    factor, stream = np.ones_like(mixture.into), _stream_after(seed, n_samples)
    return _average(mixture.tables, parents, factor, code, False, stream, marginals, draw)


def _gibbs_row(
    mixture: _Mixture, code: Ints, seed: np.uint64, n_samples: int, marginals: Floats, draw: Ints
) -> tuple[float, float]:
    tables, into = mixture.tables, mixture.into
    _collapsed_row(mixture, code, seed, 1, marginals, draw)
    log_evidence, log_return = np.empty(n_samples), np.empty(n_samples)
    log_joint = _gibbs(
        tables,
        into,
        Elimination.of(into.copy()),
        code,
        int(np.ceil(_BURN_IN * n_samples)),
        _stream_after(seed, 2),
        draw,
        marginals,
        log_evidence,
        log_return,
    )
    log_posterior = np.logaddexp.reduce(log_return) - math.log(n_samples)
    return log_joint - mixture.log_total - log_posterior, _size_of_chain(log_evidence)


def _size_of_chain(trace: Floats) -> float:
    """Effective sample size of a chain that forgets at the rate of its lag-one correlation."""
    centred = trace - trace.mean()
    variance = centred @ centred
    correlation = centred[1:] @ centred[:-1] / variance if variance > 0.0 else 0.0
    return len(trace) * (1.0 - max(correlation, 0.0)) / (1.0 + max(correlation, 0.0))


def _stream_after(seed: np.uint64, n_used: int) -> Streams:
    """The stream of random numbers that follows those of the trees."""
    stream = np.empty(1, np.uint64)
    seed_streams(seed, n_used, stream)
    return stream


_EstimateRow = Callable[[_Mixture, Ints, np.uint64, int, Floats, Ints], tuple[float, float]]


def _estimate_rows(
    of_row: _EstimateRow, tables: TreeTables, into: Any, codes: Any, seeds: Any, n_samples: int
) -> Estimates:
    mixture, rows = _Mixture.of(tables, into), check_codes(tables, codes)
    row_seeds = np.asarray(seeds, dtype=np.uint64)
    if row_seeds.shape != (len(rows),):
        raise ValueError(f"seeds must have shape ({len(rows)},); found {row_seeds.shape}.")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1; found {n_samples}.")
    found = np.empty((len(rows), 2))
    marginals, draws = np.empty((len(rows), len(tables.conditional))), np.empty_like(rows)
    for row, code in enumerate(rows):
        found[row] = of_row(mixture, code, row_seeds[row], n_samples, marginals[row], draws[row])
    return Estimates(found[:, 0], marginals, found[:, 1], draws)


def collapsed_estimates(
    tables: TreeTables, into: Any, codes: Any, seeds: Any, n_samples: int = 1000
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

    Returns
    -------
    Estimates
        The probabilities themselves are unbiased, their logarithms are too low by about
        ``0.5 / effective_sample_size``; errors fall with the square root of that size.

    Raises
    ------
    ValueError
        If a shape is wrong, a state out of range or a probability zero; if no tree has a positive
        weight.

    Notes
    -----
    For each row the cost is O(n^3) and, for each sample, O(n^2) at worst to draw a tree and
    O(n k^2) for inference with k states.

    Examples
    --------
    Two variables that are independent in one tree, and mostly equal in the two others.

    >>> import numpy as np
    >>> from skpc.trees import TreeTables, collapsed_estimates
    >>> equal = [[0.9, 0.1], [0.1, 0.9]]
    >>> tables = TreeTables.of([[0.5, 0.5]] * 2, {(0, 1): equal, (1, 0): equal})
    >>> found = collapsed_estimates(tables, [[0, 1, 1], [1, 0, 1]], [[0, -1]], [7])
    >>> np.exp(found.log_likelihood).round(2)
    array([0.5])
    >>> found.marginals.round(2)
    array([[1.  , 0.  , 0.77, 0.23]])
    """
    return _estimate_rows(_collapsed_row, tables, into, codes, seeds, n_samples)


def importance_estimates(
    tables: TreeTables, into: Any, codes: Any, seeds: Any, n_samples: int = 1000
) -> Estimates:
    """Estimate rows with missing cells by importance sampling of trees and cells.

    For comparison: arguments, result and errors are those of :func:`collapsed_estimates`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.trees import TreeTables, importance_estimates
    >>> tables = TreeTables.of([[0.5, 0.5]] * 2, {})
    >>> found = importance_estimates(tables, [[0, 1, 1], [1, 0, 1]], [[0, -1]], [7])
    >>> found.effective_sample_size
    array([1000.])
    """
    return _estimate_rows(_importance_row, tables, into, codes, seeds, n_samples)


def gibbs_estimates(
    tables: TreeTables, into: Any, codes: Any, seeds: Any, n_samples: int = 1000
) -> Estimates:
    """Estimate rows with missing cells by Gibbs sampling of tree and cells.

    For comparison: arguments, result and errors are those of :func:`collapsed_estimates`, but each
    sample costs O(n^3). The probability of the observed cells is that of one complete row, divided
    by the average over the chain of the probability of its missing cells (Chib's method); the
    effective sample size comes from the lag-one correlation of the chain.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.trees import TreeTables, gibbs_estimates
    >>> tables = TreeTables.of([[0.5, 0.5]] * 2, {})
    >>> found = gibbs_estimates(tables, [[0, 1, 1], [1, 0, 1]], [[0, -1]], [7])
    >>> np.exp(found.log_likelihood)
    array([0.5])
    """
    return _estimate_rows(_gibbs_row, tables, into, codes, seeds, n_samples)
