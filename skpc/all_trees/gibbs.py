"""Rows with missing cells under a mixture of all trees, estimated by a Markov chain.

See :mod:`skpc.all_trees.collapsed` for the problem, and for the better way.
"""

from __future__ import annotations

import math

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import kernel
from skpc._random import Streams, start_streams
from skpc._threads import in_threads, slices
from skpc.all_trees.collapsed import collapsed_row
from skpc.all_trees.estimates import PreparedTrees, RowTask, adjust, log_product
from skpc.all_trees.laplacian import scale_rows
from skpc.all_trees.spanning_trees import eliminate_graph, new_elimination, split_trees
from skpc.all_trees.tree_inference import draw_down, new_tree_workspace, pass_up, tree_order
from skpc.all_trees.tree_tables import TreeTables

#: Part of the samples that is drawn in addition, at first, and thrown away.
_BURN_IN = 0.1
#: Logs that differ by no more are equal.
_ROUNDING = 1e-9
#: Rows that are worth a thread.
_ROWS = 512


@kernel
def _gibbs(
    tables: TreeTables, into: Floats, task: RowTask, n_burn_in: int, streams: Streams, state: Ints
) -> tuple[float, Ints, Floats]:
    """Alternate between a tree given all cells and the missing cells given the tree.

    Parameters
    ----------
    tables : TreeTables
    into : array of shape (n, n + 1)
        Weights of the mixture.
    task : RowTask
        The row, and how many sweeps count.
    n_burn_in : int
        Sweeps that do not count.
    streams : array of shape (1,)
    state : array of shape (n,)
        The complete row to start from; overwritten with the last one.

    Returns
    -------
    log_joint : float
        Log of the weight of all trees times the probability of the first row that counts.
    states : array of shape (n_samples, n)
        The rows that count.
    log_found : array of shape (3, n_samples)
        Log probabilities in each tree: of the observed cells; of the missing cells of the first
        row that counts, given the others; of the further cells, given the observed ones.
    """
    code, n = task.code, len(state)
    graph, workspace = new_elimination(n), new_tree_workspace(tables.ptr)
    states, log_found = np.empty((task.n_samples, n), np.int64), np.empty((3, task.n_samples))
    factor, pinned = np.empty((n, n + 1)), np.empty((n, n + 1))
    parents = np.empty((1, n), np.int64)
    parent = parents[0]
    log_joint = 0.0
    # No cell is missing from a state: nothing is averaged.
    workspace.belief[:] = 1.0
    for sweep in range(n_burn_in + task.n_samples):
        adjust(tables, into, workspace.belief, state, factor, graph.into)
        log_scale = scale_rows(graph.into)
        eliminate_graph(graph)
        if sweep == n_burn_in:
            log_joint = log_scale
            for v in range(n):
                log_joint += math.log(graph.total[v])
            pinned[:] = factor
        split_trees(graph, streams, parents)
        tree_order(parent, workspace)
        log_evidence = pass_up(tables, parent, code, workspace)
        state[:] = code
        draw_down(tables, parent, workspace, streams, 0, state)
        at = sweep - n_burn_in
        if at >= 0:
            log_found[0, at] = log_evidence
            log_found[1, at] = log_product(pinned, parent) - log_evidence
            log_found[2, at] = pass_up(tables, parent, task.whole, workspace) - log_evidence
            states[at] = state
    return log_joint, states, log_found


def gibbs_row(trees: PreparedTrees, task: RowTask) -> tuple[float, float, float]:
    """Estimate a row by Gibbs sampling of tree and cells; for comparison.

    Each sample costs O(n^3). The probability of the observed cells is that of one complete row,
    divided by the average over the chain of the probability of its missing cells (Chib's method);
    the effective sample size comes from the lag-one correlation of the chain.
    """
    start, n_samples = task.code[np.newaxis].copy(), task.n_samples
    collapsed_row(trees, RowTask(task.code, task.code, task.seed, 1, np.empty(0), start))
    n_burn_in = int(np.ceil(_BURN_IN * n_samples))
    streams = start_streams(task.seed, 1, first=2)
    log_joint, states, log_found = _gibbs(
        trees.tables, trees.into, task, n_burn_in, streams, start[0]
    )
    if len(task.marginals):
        visited = (states + trees.tables.ptr[:-2]).ravel()
        task.marginals[:] = np.bincount(visited, minlength=len(task.marginals)) / n_samples
    task.draws[:] = states[np.linspace(n_samples - 1, 0, len(task.draws)).astype(np.int64)]
    log_evidence, log_return, log_asked = log_found
    log_likelihood = log_joint - trees.log_total - _log_mean(log_return)
    return log_likelihood, _size_of_chain(log_evidence), _log_mean(log_asked)


def _log_mean(log_values: Floats) -> float:
    return float(np.logaddexp.reduce(log_values) - math.log(len(log_values)))


def _size_of_chain(trace: Floats) -> float:
    """Effective sample size of a chain that forgets at the rate of its lag-one correlation."""
    centred = trace - trace.mean()
    variance = centred @ centred
    # Differences within the rounding of equal values do not count.
    correlation = centred[1:] @ centred[:-1] / variance if np.ptp(trace) > _ROUNDING else 0.0
    return len(trace) * (1.0 - max(correlation, 0.0)) / (1.0 + max(correlation, 0.0))


def redraw_missing(trees: PreparedTrees, codes: Ints, filled: Ints, seeds: Streams) -> Ints:
    """Take one step of the chain: a tree given all cells, then the missing cells given the tree.

    If the rows have the distribution of the mixture given their observed cells, so have those
    that are returned.

    Parameters
    ----------
    trees : PreparedTrees
        The trees of the mixture.
    codes : array of shape (n_rows, n)
        States, -1 where missing.
    filled : array of shape (n_rows, n)
        The same rows with states in place of the missing ones.
    seeds : array of shape (n_rows,), uint64
        What the draws for each row start from.

    Returns
    -------
    ndarray of shape (n_rows, n), int64
        Complete rows.
    """
    states = filled.copy()
    no_marginals, no_draws = np.empty(0), np.empty((0, codes.shape[1]), np.int64)

    def work(part: slice) -> None:
        for code, state, seed in zip(codes[part], states[part], seeds[part]):
            task = RowTask(code, code, seed, 1, no_marginals, no_draws)
            _gibbs(trees.tables, trees.into, task, 0, start_streams(seed, 1), state)

    in_threads(work, slices(len(codes), _ROWS))
    return states
