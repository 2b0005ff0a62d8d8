"""Rows with missing cells under a mixture of all trees: exact where few cells are missing.

Few missing cells have few joint completions, and a complete row is one determinant: their sum is
exact (:mod:`skpc.all_trees.completions`). The others are estimated for each component
(:mod:`skpc.all_trees.importance`). Modes and draws of rows are here too. The truths are sums over
all completions in tests/naive/spanning_trees.py.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from skpc._arrays import Floats, Ints
from skpc._random import Streams, start_streams
from skpc.all_trees.all_trees import Components
from skpc.all_trees.completions import Estimates, enumerate_completions, uniform_heights
from skpc.all_trees.importance import estimate_rows
from skpc.all_trees.spanning_trees import draw_trees
from skpc.all_trees.tree_inference import draw_each

#: Largest number of completions to sum for each tree that would be sampled, times the number of
#: variables; and, for many variables, times its cube, for that is what a determinant costs. To sum
#: them then takes about five times as long, but the answer is without error.
_COMPLETIONS = 160
_OPERATIONS = 40_000
#: But no more than this: they are all in memory.
_MOST_COMPLETIONS = 2**16
#: Passes over the cells of a row at most, on the way to a mode.
_MOST_CLIMBS = 20


def estimate_missing(
    mixture: Components,
    codes: Ints,
    seeds: Streams,
    method: str,
    n_samples: int,
    marginals: bool = True,
    n_draws: int = 1,
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
    marginals : bool, default=True
        Whether the marginals are needed.
    n_draws : int, default=1
        How many joint draws of its missing cells each row needs.

    Returns
    -------
    Estimates
        Exact rows have an infinite effective sample size.
    """
    rows = np.ascontiguousarray(codes, dtype=np.int64)
    ptr = mixture.models[0].ptr
    n = rows.shape[1]
    estimates = Estimates.of_observed(rows, ptr, marginals, n_draws)
    complete = (rows >= 0).all(axis=1)
    states = mixture.models[0].states_of(rows[complete])
    estimates.log_likelihood[complete] = mixture.log_likelihood(states)
    height = uniform_heights(seeds, n_draws, 1)
    of_tree = min(_COMPLETIONS / n, _OPERATIONS / n**3)
    limit = np.log(min(n_samples * of_tree, _MOST_COMPLETIONS))
    few = (rows < 0) @ np.log(np.diff(ptr)[:n]) <= limit + 1e-9
    # Exact rows do not depend on draws, whatever the seeds.
    summed = np.flatnonzero(few & ~complete)
    of_few = estimates.part(summed)
    enumerate_completions(mixture, rows[summed], height[summed], of_few)
    estimates.put(summed, of_few)
    many = np.flatnonzero(~(few | complete))
    if len(many):
        of_models = [
            estimate_rows(method, model, rows[many], seeds[many], n_samples, marginals, n_draws)
            for model in mixture.models
        ]
        estimates.put(many, _combined(mixture, of_models, height[many]))
    # All there is has a probability of one.
    estimates.log_likelihood[(rows < 0).all(axis=1)] = 0.0
    return estimates


def _combined(mixture: Components, of_models: list[Estimates], height: Floats) -> Estimates:
    """Join the estimates of each component, which is drawn by a height for each draw."""
    log_joint = np.column_stack([e.log_likelihood for e in of_models]) + mixture.log_weight
    responsibility = np.asarray(softmax(log_joint, axis=1))
    # Variances of independent estimates add up, and sizes are their reciprocals.
    sizes = np.column_stack([e.effective_sample_size for e in of_models])
    chosen = _choose(responsibility, height)
    draws = of_models[0].draws
    for k, of_model in enumerate(of_models):
        draws[chosen == k] = of_model.draws[chosen == k]
    log_likelihood = np.logaddexp.reduce(log_joint, axis=1)
    marginals = sum(r[:, np.newaxis] * e.marginals for r, e in zip(responsibility.T, of_models))
    return Estimates(
        log_likelihood, marginals, 1.0 / (responsibility**2 / sizes).sum(axis=1), draws
    )


def _choose(probability: Floats, height: Floats) -> Ints:
    """In each row, for each height in [0, 1], the first column whose cumulated sum reaches it."""
    cumulated = np.cumsum(probability, axis=1)[:, np.newaxis]
    reached = cumulated >= height[:, :, np.newaxis] * cumulated[:, :, -1:]
    return np.asarray(reached.argmax(axis=2))


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
    component = _choose(weight, random_state.uniform(size=(1, n_rows)))[0]
    for k, model in enumerate(mixture.models):
        at = np.flatnonzero(component == k)
        of_trees, of_cells = random_state.randint(2**31, size=2)
        trees = model.tree_tables()
        drawn = rows[at]
        parents, _ = draw_trees(trees.into, len(at), np.uint64(of_trees))
        draw_each(trees, parents, start_streams(np.uint64(of_cells), len(at)), drawn)
        rows[at] = drawn
    return rows


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
