"""Rows with missing cells under a mixture of all trees, estimated by sampling trees.

The mixture gives the observed cells e of a row the probability p(e) = sum over the trees T of
p(T) p(e | T). Each term is easy, but the sum is not: no polynomial algorithm is known, and with
parameters of any sign the problem is NP-hard (theorem 1 of the paper). So trees are sampled:

- :func:`collapsed_row`: trees are drawn from a proposal q and weighted by
  p(T) p(e | T) / q(T); within each tree the missing cells are summed out exactly.
- :func:`importance_row`: trees are drawn from p(T), weighted by p(e | T), and the missing
  cells are drawn given the tree.
- :func:`~skpc.all_trees.gibbs.gibbs_row`: a Markov chain that draws a tree given all cells and
  then the missing cells given the tree, both jointly.

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

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import ZERO, kernel
from skpc._random import Streams, start_streams, uniform
from skpc.all_trees.beliefs import guess_states
from skpc.all_trees.estimates import PreparedTrees, RowTask, adjust, log_product
from skpc.all_trees.spanning_trees import draw_trees
from skpc.all_trees.tree_inference import (
    draw_down,
    new_tree_workspace,
    pass_down,
    pass_up,
    tree_order,
)
from skpc.all_trees.tree_tables import TreeTables


@kernel
def _average(
    tables: TreeTables,
    parents: Ints,
    factor: Floats,
    task: RowTask,
    collapsed: bool,
    streams: Streams,
) -> tuple[float, float, float]:
    """Weighted averages over sampled trees, for one row.

    Parameters
    ----------
    tables : TreeTables
    parents : array of shape (n_trees, n)
    factor : array of shape (n, n + 1)
        By what the weights of the proposal exceed those of the mixture.
    task : RowTask
        The row; its marginals and draws are overwritten.
    collapsed : bool
        Whether to sum out the missing cells in each tree, rather than to draw them.
    streams : array of shape (1,)

    Returns
    -------
    log_mean, effective_sample_size, log_asked : float
        Log of the average weight; (sum of weights) ** 2 / sum of their squares; log of the average
        probability of the further cells.
    """
    ptr, code, marginals = tables.ptr, task.code, task.marginals
    workspace = new_tree_workspace(ptr)
    filled, weights = np.empty(len(code), np.int64), np.empty(len(parents))
    is_asked = not np.array_equal(code, task.whole)
    largest, total, squares, asked = -math.inf, 0.0, 0.0, 0.0
    marginals[:] = 0.0
    for tree in range(len(parents)):
        parent = parents[tree]
        tree_order(parent, workspace)
        log_evidence = pass_up(tables, parent, code, workspace)
        log_weight = log_evidence - log_product(factor, parent)
        weights[tree] = log_weight
        if log_weight > largest:
            # Weights are kept relative to the largest so far.
            shrink = math.exp(largest - log_weight)
            marginals *= shrink
            total *= shrink
            squares *= shrink * shrink
            asked *= shrink
            largest = log_weight
        weight = math.exp(log_weight - largest)
        total += weight
        squares += weight * weight
        if collapsed and len(marginals) > 0:
            pass_down(tables, parent, code, workspace)
            for s in range(len(marginals)):
                marginals[s] += weight * workspace.belief[s]
        elif len(marginals) > 0:
            filled[:] = code
            draw_down(tables, parent, workspace, streams, 0, filled)
            for v in range(len(code)):
                marginals[ptr[v] + filled[v]] += weight
        if is_asked:
            log_whole = pass_up(tables, parent, task.whole, workspace)
            asked += weight * math.exp(log_whole - log_evidence)
    marginals /= total
    if len(task.draws) > 0:
        _draw(tables, parents, np.exp(weights - largest), task, streams)
    log_asked = math.log(asked / total) if is_asked else 0.0
    return largest + math.log(total / len(parents)), total * total / squares, log_asked


@kernel
def _draw(
    tables: TreeTables, parents: Ints, weights: Floats, task: RowTask, streams: Streams
) -> None:
    """Fill the missing cells of a row: each time a tree by its weight, and the cells given it."""
    workspace = new_tree_workspace(tables.ptr)
    # Summed once for all draws.
    cumulated = np.cumsum(weights)
    for row in range(len(task.draws)):
        height = uniform(streams, ZERO) * cumulated[-1]
        parent = parents[np.searchsorted(cumulated, height)]
        tree_order(parent, workspace)
        pass_up(tables, parent, task.code, workspace)
        task.draws[row] = task.code
        draw_down(tables, parent, workspace, streams, 0, task.draws[row])


def collapsed_row(trees: PreparedTrees, task: RowTask) -> tuple[float, float, float]:
    """Estimate a row by collapsed importance sampling; see :func:`estimate_rows`.

    The cost is O(n^3) and, for each sample, O(n^2) at worst to draw a tree and O(n k^2) for
    inference with k states.
    """
    tables, into = trees.tables, trees.into
    belief, factor, proposal = np.empty(tables.ptr[-1]), np.empty_like(into), np.empty_like(into)
    guess_states(tables, trees.edge, task.code, belief)
    adjust(tables, into, belief, task.code, factor, proposal)
    parents, log_total = draw_trees(proposal, task.n_samples, task.seed)
    streams = start_streams(task.seed, 1, first=task.n_samples)
    log_mean, size, log_asked = _average(tables, parents, factor, task, True, streams)
    return log_total - trees.log_total + log_mean, size, log_asked


def importance_row(trees: PreparedTrees, task: RowTask) -> tuple[float, float, float]:
    """Estimate a row by importance sampling of trees and cells; for comparison."""
    parents, _ = draw_trees(trees.into, task.n_samples, task.seed)
    streams = start_streams(task.seed, 1, first=task.n_samples)
    return _average(trees.tables, parents, np.ones_like(trees.into), task, False, streams)
