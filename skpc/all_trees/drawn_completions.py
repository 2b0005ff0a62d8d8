"""Rows with missing cells under a mixture of all trees, estimated by drawing completions.

The probability of the observed cells is a sum over completions, each the determinant of a complete
row, which is a sum over all trees. Completions are drawn from a proposal q, in which the missing
cells are independent, and weighted by p(row) / q. So trees are summed out, and cells are drawn; in
:mod:`skpc.all_trees.collapsed` it is the other way round. This is by far the better way as long as
the observed cells tell most of what the missing ones have in common, and the worse one where most
cells are missing.

The proposal is what :mod:`skpc.all_trees.beliefs` finds, and is nearly the posterior. Completions
are drawn in batches. In a batch the draws of each cell are spread evenly over its distribution
(Latin hypercube), and batches follow until the weights agree on the likelihood well enough.
"""

from __future__ import annotations

import math

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import FALSE, LANES, ZERO, kernel
from skpc._random import Streams, start_streams, uniform
from skpc.all_trees.determinants import PANEL, eliminate_lanes
from skpc.all_trees.estimates import PreparedTrees, RowTask
from skpc.all_trees.tree_tables import TreeTables

#: Part of the proposal that is spread evenly over the states, so that no weight is excessive.
_EVEN = 0.02
#: Completions of a batch.
_BATCH = 32
#: Completions are drawn until the squared relative error of the likelihood is below the first
#: number divided by that of the trees that would be drawn, and below the second.
_ERROR, _LARGEST_ERROR = 8.0, 0.05
#: Trees are drawn instead if completions are worth less than this share of independent ones; this
#: is decided after some of them.
_POOR, _ENOUGH = 0.2, 64
#: Draws in a state that its belief is worth; and those that beliefs are worth in the probability
#: of several cells together, which they take as independent.
_PRIOR, _JOINT_PRIOR = 30.0, 1.0


@kernel
def _spread(
    code: Ints, ptr: Ints, proposal: Floats, streams: Streams, log_q: Floats, completions: Ints
) -> None:
    """Draw a batch of completions and the logs of their probabilities."""
    size = len(completions)
    order = np.arange(size)
    log_q[:] = 0.0
    for v in range(len(code)):
        if code[v] >= 0:
            completions[:, v] = code[v]
            continue
        for i in range(size - 1, 0, -1):
            j = int(uniform(streams, ZERO) * (i + 1))
            order[i], order[j] = order[j], order[i]
        state, last = ptr[v], ptr[v + 1] - 1
        reached = proposal[state]
        for i in range(size):
            height = (i + uniform(streams, ZERO)) / size
            while state < last and reached < height:
                state += 1
                reached += proposal[state]
            completions[order[i], v] = state - ptr[v]
            log_q[order[i]] += math.log(proposal[state])


@kernel
def _look_up(
    tables: TreeTables, into: Floats, code: Ints, few: Ints, seen: Floats, lanes: Floats
) -> None:
    """The weights of the edges of a few completions, one a lane; the last one repeats.

    ``seen`` has those between observed cells.
    """
    ptr, conditional = tables
    n = len(code)
    for v in range(n):
        for u in range(n + 1):
            missing = code[v] < 0 or (u < n and code[u] < 0)
            if u == v or not missing:
                for lane in range(LANES):
                    lanes[v, u, lane] = seen[v, u]
                continue
            weight = into[v, u]
            for lane in range(LANES):
                row = min(lane, len(few) - 1)
                above = ptr[u] + few[row, u] if u < n else ptr[n]
                lanes[v, u, lane] = weight * conditional[ptr[v] + few[row, v], above]


@kernel
def _log_weights(
    tables: TreeTables, into: Floats, code: Ints, completions: Ints, log_weight: Floats
) -> None:
    """Log of the sum over all trees of the product of the weights of edges, of each completion."""
    ptr, conditional = tables
    n = len(code)
    seen, lanes = np.zeros((n, n + 1)), np.empty((n, n + 1, LANES))
    panel, total = np.empty((4, PANEL, n + 1, LANES)), np.empty(LANES)
    for v in range(n):
        for u in range(n + 1):
            if u != v and code[v] >= 0 and (u == n or code[u] >= 0):
                above = ptr[u] + code[u] if u < n else ptr[n]
                seen[v, u] = into[v, u] * conditional[ptr[v] + code[v], above]
    for first in range(0, len(completions), LANES):
        few = completions[first : first + LANES]
        _look_up(tables, into, code, few, seen, lanes)
        total[:] = 0.0
        eliminate_lanes(lanes, FALSE, FALSE, panel, total)
        for lane in range(len(few)):
            log_weight[first + lane] = total[lane]


@kernel
def _squared_error(log_weight: Floats) -> tuple[float, float, float]:
    """Log of the mean weight, its squared relative error, and the squared spread of the weights."""
    size, largest = len(log_weight), -math.inf
    total, squares = 0.0, 0.0
    for i in range(size):
        largest = max(largest, log_weight[i])
    for i in range(size):
        weight = math.exp(log_weight[i] - largest)
        total += weight
        squares += weight * weight
    spread = max(size * squares / (total * total) - 1.0, 0.0)
    return largest + math.log(total / size), spread / max(size - 1, 1), spread


@kernel
def _draw_until(
    tables: TreeTables,
    into: Floats,
    task: RowTask,
    proposal: Floats,
    streams: Streams,
    completions: Ints,
    log_weight: Floats,
) -> tuple[int, float, float]:
    """Draw completions until they are enough, or turn out to be poor.

    Returns
    -------
    size : int
        Number of completions; zero if they are poor.
    log_mean, squared_error : float
        Log of the mean of their weights, and its squared relative error.
    """
    ptr, code, size = tables.ptr, task.code, 0
    log_q, largest = np.empty(_BATCH), min(_ERROR / task.n_samples, _LARGEST_ERROR)
    while True:
        stop = min(size + _BATCH, len(completions))
        batch, of_batch = completions[size:stop], log_weight[size:stop]
        _spread(code, ptr, proposal, streams, log_q[: stop - size], batch)
        _log_weights(tables, into, code, batch, of_batch)
        for i in range(stop - size):
            of_batch[i] -= log_q[i]
        size = stop
        log_mean, squared_error, spread = _squared_error(log_weight[:size])
        if size >= min(_ENOUGH, len(completions)) and _POOR * (1.0 + spread) > 1.0:
            return 0, log_mean, squared_error
        if size == len(completions) or squared_error <= largest:
            return size, log_mean, squared_error


@kernel
def _marginalise(
    code: Ints, ptr: Ints, proposal: Floats, completions: Ints, weight: Floats, marginals: Floats
) -> None:
    """Probabilities of all states, from weights whose mean is one.

    A state has its probability in the proposal times the mean weight of its completions, and of
    some more of the mean weight of all: so no state is ruled out because none was drawn.
    """
    n_drawn, drawn = np.zeros(len(marginals)), np.zeros(len(marginals))
    for i in range(len(weight)):
        for v in range(len(code)):
            drawn[ptr[v] + completions[i, v]] += weight[i]
            n_drawn[ptr[v] + completions[i, v]] += 1.0
    for v in range(len(code)):
        if code[v] >= 0:
            marginals[ptr[v] : ptr[v + 1]] = 0.0
            marginals[ptr[v] + code[v]] = 1.0
            continue
        total = 0.0
        for s in range(ptr[v], ptr[v + 1]):
            marginals[s] = proposal[s] * (drawn[s] + _PRIOR) / (n_drawn[s] + _PRIOR)
            total += marginals[s]
        for s in range(ptr[v], ptr[v + 1]):
            marginals[s] /= total


@kernel
def _log_asked(
    task: RowTask, ptr: Ints, proposal: Floats, completions: Ints, weight: Floats
) -> float:
    """Log probability of the further cells of a row; that of a single one is its marginal."""
    code, whole = task.code, task.whole
    n_asked, single, log_q = 0, 0, 0.0
    for v in range(len(code)):
        if whole[v] != code[v]:
            n_asked, single = n_asked + 1, v
            log_q += math.log(proposal[ptr[v] + whole[v]])
    if n_asked == 0:
        return 0.0
    if n_asked == 1:
        marginals = np.empty(ptr[len(code)])
        _marginalise(code, ptr, proposal, completions, weight, marginals)
        return math.log(marginals[ptr[single] + whole[single]])
    drawn, n_drawn, others = 0.0, 0.0, 0.0
    for i in range(len(weight)):
        agrees = True
        for v in range(len(code)):
            agrees = agrees and (whole[v] == code[v] or whole[v] == completions[i, v])
        if agrees:
            drawn += weight[i]
            n_drawn += 1.0
        else:
            others += weight[i]
    q = math.exp(log_q)
    yes = q * (drawn + _JOINT_PRIOR) / (n_drawn + _JOINT_PRIOR)
    no = (1.0 - q) * (others + _JOINT_PRIOR) / (len(weight) - n_drawn + _JOINT_PRIOR)
    return math.log(max(yes / (yes + no), 1e-300))


@kernel
def _complete_row(
    trees: PreparedTrees, task: RowTask, belief: Floats, streams: Streams
) -> tuple[float, float, float]:
    """See :func:`completed_row`; the log-likelihood is NaN if completions are poor."""
    tables, into = trees.tables, trees.into
    ptr, code = tables.ptr, task.code
    n = len(code)
    proposal = belief[: ptr[n]].copy()
    for v in range(n):
        for s in range(ptr[v], ptr[v + 1]):
            proposal[s] = (1.0 - _EVEN) * proposal[s] + _EVEN / (ptr[v + 1] - ptr[v])
    completions = np.empty((task.n_samples, n), np.int64)
    log_weight = np.empty(task.n_samples)
    size, log_mean, error = _draw_until(
        tables, into, task, proposal, streams, completions, log_weight
    )
    if size == 0:
        return math.nan, 0.0, 0.0
    completions, weight = completions[:size], np.exp(log_weight[:size] - log_mean)
    if len(task.marginals) > 0:
        _marginalise(code, ptr, proposal, completions, weight, task.marginals)
    if len(task.draws) > 0:
        cumulated = np.cumsum(weight)
        for draw in range(len(task.draws)):
            height = uniform(streams, ZERO) * cumulated[-1]
            task.draws[draw] = completions[np.searchsorted(cumulated, height)]
    log_asked = _log_asked(task, ptr, proposal, completions, weight)
    worth = 1.0 / error if error > 0.0 else math.inf
    return log_mean - trees.log_total, worth if size > 1 else 1.0, log_asked


def completed_row(
    trees: PreparedTrees, task: RowTask, belief: Floats
) -> tuple[float, float, float] | None:
    """Estimate a row by drawing completions; see :func:`estimate_rows`.

    A completion costs O(n^3).

    Parameters
    ----------
    trees : PreparedTrees
        The trees of a mixture.
    task : RowTask
        The row.
    belief : array of shape (n_states + 1,)
        What :func:`~skpc.all_trees.beliefs.believe_states` finds for it.

    Returns
    -------
    tuple or None
        None if completions are poor. Else the log-likelihood, the inverse of its squared relative
        error, which is the number of independent trees that would be as good, and the log
        probability of the further cells.
    """
    found = _complete_row(trees, task, belief, start_streams(task.seed, 1, first=3))
    return None if math.isnan(found[0]) else found
