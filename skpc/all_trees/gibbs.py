"""Rows with missing cells under a mixture of all trees, estimated by a Markov chain.

See :mod:`skpc.all_trees.collapsed` for the problem, and for the better way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints
from skpc._jit import kernel
from skpc.all_trees.collapsed import collapsed_row
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
from skpc.all_trees.laplacian import scale_rows
from skpc.all_trees.spanning_trees import Elimination, eliminate_graph, split_trees
from skpc.all_trees.tree_inference import draw_down, pass_up, tree_order
from skpc.all_trees.tree_tables import TreeTables, check_codes

__all__ = ["gibbs_estimates", "redraw_missing"]

Streams = NDArray[np.uint64]

#: Share of the samples that is drawn in addition, at first, and thrown away.
_BURN_IN = 0.1
#: Logs that differ by no more are equal.
_ROUNDING = 1e-9
_ALL = Request()


@kernel
def _gibbs(
    tables: TreeTables,
    into: Floats,
    graph: Elimination,
    code: Ints,
    whole: Ints,
    n_burn_in: int,
    streams: Streams,
    state: Ints,
    states: Ints,
    log_evidence: Floats,
    log_return: Floats,
    log_asked: Floats,
) -> float:
    """Alternate between a tree given all cells and the missing cells given the tree.

    Parameters
    ----------
    tables : TreeTables
    into : array of shape (n, n + 1)
        Weights of the mixture.
    graph : Elimination
        Room for one.
    code, whole : arrays of shape (n,)
        The observed cells, -1 where missing; with those whose probability is asked for.
    n_burn_in : int
        Sweeps that do not count.
    streams : array of shape (1,)
    state : array of shape (n,)
        The complete row to start from; overwritten with the last one.
    states : array of shape (n_samples, n)
        Overwritten with the rows that count.
    log_evidence : array of shape (n_samples,)
        Overwritten with the log probability of the observed cells in each tree.
    log_return : array of shape (n_samples,)
        Overwritten with that of the missing cells of the first row that counts, given the others.
    log_asked : array of shape (n_samples,)
        Overwritten with that of the cells that are asked for, given the observed ones.

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
    log_joint = 0.0
    for sweep in range(n_burn_in + len(log_evidence)):
        belief[:] = 1.0
        adjust(tables, into, belief, state, factor, graph.into)
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
            log_return[at] = log_product(pinned, parent) - log_found
            log_asked[at] = pass_up(tables, parent, order, whole, below, belief) - log_found
            for v in range(n):
                states[at, v] = state[v]
    return log_joint


def _gibbs_row(mixture: Mixture, task: RowTask) -> tuple[float, float, float]:
    start, n_samples = task.code[np.newaxis].copy(), task.n_samples
    first = RowTask(task.code, task.code, task.seed, 1, np.empty(0), start)
    collapsed_row(mixture, first)
    states = np.empty((n_samples, len(task.code)), np.int64)
    log_evidence, log_return, log_asked = (np.empty(n_samples) for _ in range(3))
    log_joint = _gibbs(
        mixture.tables,
        mixture.into,
        Elimination.of(mixture.into.copy()),
        task.code,
        task.whole,
        int(np.ceil(_BURN_IN * n_samples)),
        stream_after(task.seed, 2),
        start[0],
        states,
        log_evidence,
        log_return,
        log_asked,
    )
    if len(task.marginals):
        visited = (states + mixture.tables.ptr[:-2]).ravel()
        task.marginals[:] = np.bincount(visited, minlength=len(task.marginals)) / n_samples
    task.draws[:] = states[np.linspace(n_samples - 1, 0, len(task.draws)).astype(np.int64)]
    log_posterior = _log_mean(log_return)
    log_likelihood = log_joint - mixture.log_total - log_posterior
    return log_likelihood, _size_of_chain(log_evidence), _log_mean(log_asked)


def _log_mean(log_values: Floats) -> float:
    return float(np.logaddexp.reduce(log_values) - math.log(len(log_values)))


def _size_of_chain(trace: Floats) -> float:
    """Effective sample size of a chain that forgets at the rate of its lag-one correlation."""
    centred = trace - trace.mean()
    variance = centred @ centred
    # What rounding alone makes of equal values tells nothing.
    correlation = centred[1:] @ centred[:-1] / variance if np.ptp(trace) > _ROUNDING else 0.0
    return len(trace) * (1.0 - max(correlation, 0.0)) / (1.0 + max(correlation, 0.0))


def gibbs_estimates(
    tables: TreeTables,
    into: Any,
    codes: Any,
    seeds: Any,
    n_samples: int = 1000,
    request: Request = _ALL,
) -> Estimates:
    """Estimate rows with missing cells by Gibbs sampling of tree and cells.

    For comparison: arguments, result and errors are those of :func:`collapsed_estimates`, but each
    sample costs O(n^3). The probability of the observed cells is that of one complete row, divided
    by the average over the chain of the probability of its missing cells (Chib's method); the
    effective sample size comes from the lag-one correlation of the chain.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.all_trees import TreeTables, gibbs_estimates
    >>> tables = TreeTables.of([[0.5, 0.5]] * 2, {})
    >>> found = gibbs_estimates(tables, [[0, 1, 1], [1, 0, 1]], [[0, -1]], [7])
    >>> np.exp(found.log_likelihood)
    array([0.5])
    """
    return estimate_rows(_gibbs_row, tables, into, codes, seeds, n_samples, request)


def redraw_missing(tables: TreeTables, into: Any, codes: Any, filled: Any, seeds: Any) -> Ints:
    """Take one step of the chain: a tree given all cells, then the missing cells given the tree.

    If the rows have the distribution of the mixture given their observed cells, so have those
    that are returned.

    Parameters
    ----------
    tables : TreeTables
        Positive probabilities of n variables given their parents.
    into : array-like of shape (n, n + 1)
        Weights of the edges into each variable, those of the roots last.
    codes : array-like of shape (n_rows, n)
        States, -1 where missing.
    filled : array-like of shape (n_rows, n)
        The same rows with states in place of the missing ones.
    seeds : array-like of shape (n_rows,), uint64
        What the draws for each row start from.

    Returns
    -------
    ndarray of shape (n_rows, n), int64
        Complete rows.

    Raises
    ------
    ValueError
        As :func:`collapsed_estimates`.

    Examples
    --------
    >>> from skpc.all_trees import TreeTables
    >>> from skpc.all_trees.gibbs import redraw_missing
    >>> equal = [[0.999, 0.001], [0.001, 0.999]]
    >>> tables = TreeTables.of([[0.5, 0.5]] * 2, {(0, 1): equal, (1, 0): equal})
    >>> redraw_missing(tables, [[0, 9, 1], [9, 0, 1]], [[1, -1]], [[1, 1]], [3])
    array([[1, 1]])
    """
    mixture = Mixture.of(tables, into)
    rows, states = check_codes(tables, codes), check_codes(tables, filled).copy()
    graph = Elimination.of(mixture.into.copy())
    log_evidence, log_return, log_asked = (np.empty(1) for _ in range(3))
    for code, state, seed in zip(rows, states, np.asarray(seeds, dtype=np.uint64)):
        _gibbs(
            mixture.tables,
            mixture.into,
            graph,
            code,
            code,
            0,
            stream_after(seed, 0),
            state,
            np.empty((1, len(code)), np.int64),
            log_evidence,
            log_return,
            log_asked,
        )
    return states
