"""Rows with missing cells under a mixture of all trees: exact where few cells are missing.

Few missing cells have few joint completions, and a complete row is one determinant: their sum is
exact (:mod:`skpc.all_trees.completions`). The others are estimated for each component
(:mod:`skpc.all_trees.importance`). Modes and draws of rows are here too, and the step of a Markov
chain by which training redraws missing cells. The truths are sums over all completions in
tests/naive/spanning_trees.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from skpc._arrays import Floats, Ints
from skpc._jit import kernel
from skpc._random import Streams, start_streams
from skpc._threads import in_threads, slices
from skpc.all_trees.all_trees import Components
from skpc.all_trees.completions import Estimates, Request, enumerate_completions, uniform_heights
from skpc.all_trees.importance import adjust, estimate_rows
from skpc.all_trees.spanning_trees import draw_trees, eliminate, split_trees
from skpc.all_trees.tree_inference import TreeTables, draw_each

#: Largest number of completions to sum for each tree that would be sampled, times the number of
#: variables; and, for many variables, times its cube, for that is what a determinant costs. To sum
#: them then takes about five times as long, but the answer is without error.
_COMPLETIONS, _OPERATIONS = 160, 40_000
#: But no more than this: they are all in memory.
_MOST_COMPLETIONS = 2**16
#: Passes over the cells of a row at most, on the way to a mode.
_MOST_CLIMBS = 20
#: Rows whose redrawn cells are worth a thread.
_ROWS = 512


def estimate_missing(
    mixture: Components,
    codes: Ints,
    seeds: Streams,
    method: str,
    n_samples: int,
    request: Request | None = None,
) -> Estimates:
    """What to estimate for rows with missing cells.

    Parameters
    ----------
    mixture : Components
        The distribution.
    codes : array of shape (n_rows, n)
        States, -1 where missing.
    seeds : array of shape (n_rows,), uint64
        What the draws for each row start from.
    method : {"auto", "collapsed"}
        How rows with many missing cells are estimated.
    n_samples : int
        Number of trees sampled for each of them, or greatest number of completions; rows with no
        more joint completions than ``min(160 / n, 40_000 / n**3)`` times that (and than 65,536) are
        exact.
    request : Request or None, default=None
        What is needed; by default the marginals, and one draw for each row.

    Returns
    -------
    Estimates
        Exact rows have an infinite effective sample size.
    """
    rows = np.ascontiguousarray(codes, dtype=np.int64)
    ptr, n = mixture.models[0].ptr, rows.shape[1]
    request = Request() if request is None else request
    estimates = Estimates.empty(rows, int(ptr[n]), request)
    n_draws = np.diff(request.draw_ptr(len(rows)))
    height = uniform_heights(seeds, n_draws, 1)
    of_tree = min(_COMPLETIONS / n, _OPERATIONS / n**3)
    limit = np.log(min(n_samples * of_tree, _MOST_COMPLETIONS))
    few = (rows < 0) @ np.log(np.diff(ptr)[:n]) <= limit + 1e-9
    # Exact rows do not depend on draws, whatever the seeds.
    if few.any():
        part = Request(request.marginals, n_draws[few], estimates.extended[few])
        drawn = np.repeat(few, n_draws)
        exact = enumerate_completions(mixture, rows[few], part, height[drawn])
        for of_all, of_few in zip(estimates, exact):
            of_all[drawn if of_all is estimates.draws else few] = of_few
    many = np.flatnonzero(~few)
    if len(many):
        part = Request(request.marginals, n_draws[many], estimates.extended[many])
        of_models = [
            estimate_rows(method, model, rows[many], seeds[many], n_samples, part)
            for model in mixture.models
        ]
        responsibility = _combine(mixture, of_models, many, estimates)
        drawn = np.flatnonzero(~np.repeat(few, n_draws))
        chosen = _choose(np.repeat(responsibility, n_draws[many], axis=0), height[drawn])
        for k, of_model in enumerate(of_models):
            estimates.draws[drawn[chosen == k]] = of_model.draws[chosen == k]
    # All there is has a probability of one, and rounding must not make anything more than certain.
    estimates.log_likelihood[(rows < 0).all(axis=1)] = 0.0
    np.minimum(estimates.log_conditional, 0.0, out=estimates.log_conditional)
    return estimates


def _combine(
    mixture: Components, of_models: list[Estimates], at: Ints, estimates: Estimates
) -> Floats:
    """Fill in rows from the estimates of each component; return the responsibilities."""
    log_joint = np.column_stack([e.log_likelihood for e in of_models]) + mixture.log_weight
    responsibility = np.asarray(softmax(log_joint, axis=1))
    estimates.log_likelihood[at] = np.logaddexp.reduce(log_joint, axis=1)
    estimates.marginals[at] = sum(
        r[:, np.newaxis] * e.marginals for r, e in zip(responsibility.T, of_models)
    )
    # Variances of independent estimates add up, and sizes are their reciprocals.
    sizes = np.column_stack([e.effective_sample_size for e in of_models])
    estimates.effective_sample_size[at] = 1.0 / (responsibility**2 / sizes).sum(axis=1)
    log_joint += np.column_stack([e.log_conditional for e in of_models])
    estimates.log_conditional[at] = np.logaddexp.reduce(log_joint, axis=1)
    estimates.log_conditional[at] -= estimates.log_likelihood[at]
    return responsibility


def _choose(probability: Floats, height: Floats) -> Ints:
    """In each row the first column at which cumulated probabilities reach a height in [0, 1]."""
    cumulated = np.cumsum(probability, axis=1)
    reached = cumulated >= (height * cumulated[:, -1])[:, np.newaxis]
    return np.asarray(reached.argmax(axis=1))


def draw_rows(mixture: Components, n_rows: int, random_state: np.random.RandomState) -> Ints:
    """Draw complete rows: a component, a tree, and the row given the tree; all exact.

    Parameters
    ----------
    mixture : Components
        The distribution.
    n_rows : int
        Number of rows.
    random_state : RandomState
        Source of the draws.

    Returns
    -------
    ndarray of shape (n_rows, n), int64
    """
    n = mixture.models[0].n_features
    rows = np.full((n_rows, n), -1, dtype=np.int64)
    weight = np.exp(mixture.log_weight)[np.newaxis]
    component = _choose(np.repeat(weight, n_rows, axis=0), random_state.uniform(size=n_rows))
    for k, model in enumerate(mixture.models):
        at = np.flatnonzero(component == k)
        of_trees, of_cells = random_state.randint(2**31, size=2)
        trees, drawn = model.tree_tables(), rows[at]
        parents, _ = draw_trees(trees.into, len(at), np.uint64(of_trees))
        draw_each(trees, parents, start_streams(np.uint64(of_cells), len(at)), drawn)
        rows[at] = drawn
    return rows


@kernel(new_arrays=True)
def _redraw_trees(trees: TreeTables, filled: Ints, streams: Streams, parents: Ints) -> None:
    """Draw a tree given all cells of each row; ``parents`` of shape (n_rows, n) is overwritten."""
    factor, proposal = np.empty_like(trees.into), np.empty_like(trees.into)
    # No cell is missing from what is filled: nothing is averaged.
    belief = np.ones(trees.ptr[-1])
    for row in range(len(filled)):
        adjust(trees, belief, filled[row], factor, proposal)
        graph, _ = eliminate(proposal)
        split_trees(graph, streams[row : row + 1], parents[row : row + 1])


def redraw_rows(
    mixture: Components, codes: Ints, filled: Ints, random_state: np.random.RandomState
) -> Ints:
    """Draw component, tree and missing cells of each row in turn, given all else.

    One step of a Markov chain whose distribution is the one of the missing cells given the
    observed ones.

    Parameters
    ----------
    mixture : Components
        The distribution.
    codes : ndarray of shape (n_rows, n)
        States, -1 where missing.
    filled : ndarray of shape (n_rows, n)
        The same rows, their missing cells filled.
    random_state : RandomState
        Source of the draws.

    Returns
    -------
    ndarray of shape (n_rows, n), int64
        Complete rows.
    """
    # Component given all cells, then tree, then missing cells given the tree.
    responsibility = softmax(mixture.log_joint(mixture.models[0].states_of(filled)), axis=1)
    component = _choose(responsibility, random_state.uniform(size=len(filled)))
    seeds = random_state.randint(2**31, size=len(filled)).astype(np.uint64)
    redrawn = filled.copy()
    streams = np.array([start_streams(seed, 1)[0] for seed in seeds], np.uint64)
    for k, model in enumerate(mixture.models):
        trees = model.tree_tables()
        of_model = np.flatnonzero(component == k)

        def work(part: slice, trees: TreeTables = trees, of_model: Ints = of_model) -> None:
            at = of_model[part]
            of_rows, states, parents = streams[at], codes[at], np.empty_like(codes[at])
            _redraw_trees(trees, filled[at], of_rows, parents)
            draw_each(trees, parents, of_rows, states)
            redrawn[at] = states

        in_threads(work, slices(len(of_model), _ROWS))
    return redrawn


def local_modes(mixture: Components, codes: Ints, filled: Ints, log_peak: Sequence[Floats]) -> Ints:
    """Climb to completions that no change of a single cell makes more probable.

    The most probable completion is NP-hard to find (theorem 2 of the paper).

    Parameters
    ----------
    mixture : Components
        The distribution.
    codes : ndarray of shape (n_rows, n)
        States, -1 where missing.
    filled : ndarray of shape (n_rows, n)
        The same rows with states in place of the missing ones, to start from.
    log_peak : sequence of n arrays of shape (n_states[v],)
        What a state is worth in addition to its log probability.

    Returns
    -------
    ndarray of shape (n_rows, n), int64
        Complete rows.
    """
    modes = filled.copy()
    active = (codes < 0).any(axis=1)
    for _ in range(_MOST_CLIMBS):
        before = modes.copy()
        for column, peak in enumerate(log_peak):
            at = np.flatnonzero(active & (codes[:, column] < 0))
            tried = np.repeat(modes[at], len(peak), axis=0)
            tried[:, column] = np.tile(np.arange(len(peak)), len(at))
            value = mixture.log_likelihood(mixture.models[0].states_of(tried))
            modes[at, column] = (value.reshape(len(at), len(peak)) + peak).argmax(axis=1)
        active &= (modes != before).any(axis=1)
        if not active.any():
            break
    return modes
