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

#: Completions of a row that are summed, at most: they are all in memory.
_MOST_COMPLETIONS = 2**16


def estimate_missing(
    mixture: Components,
    codes: Ints,
    seeds: Streams,
    method: str,
    n_samples: int,
    marginals: bool = True,
    n_draws: int = 1,
) -> Estimates:
    """Log-likelihood, marginals and draws of rows with missing cells, exact or estimated.

    Parameters
    ----------
    mixture : Components
        The distribution.
    codes : array of shape (n_rows, n)
        States, -1 where missing.
    seeds : array of shape (n_rows,), uint64
        What the draws for each row start from.
    method : {"auto", "collapsed", "importance", "gibbs"}
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
    model = mixture.models[0]
    ptr = model.ptr
    n_features = rows.shape[1]
    estimates = Estimates.of_observed(rows, ptr, marginals, n_draws)
    is_missing = rows < 0
    complete = ~is_missing.any(axis=1)
    states = model.states_of(rows[complete])
    estimates.log_likelihood[complete] = mixture.log_likelihood(states)
    height = uniform_heights(seeds, n_draws, 1)
    # Completions to sum for each tree that would be sampled: fewer with more variables, as a
    # determinant costs their cube. To sum them then takes about five times as long as to sample,
    # but the answer is without error.
    n_equivalent = min(160 / n_features, 40_000 / n_features**3)
    limit = np.log(min(n_samples * n_equivalent, _MOST_COMPLETIONS))
    log_n_completions = is_missing @ np.log(np.diff(ptr)[:n_features])
    # Logs of whole numbers are equal up to rounding only.
    limit += 1e-9
    is_summed = log_n_completions <= limit
    # Exact rows do not depend on draws, whatever the seeds.
    summed = np.flatnonzero(is_summed & ~complete)
    exact = estimates.part(summed)
    enumerate_completions(mixture, rows[summed], height[summed], exact)
    estimates.put(summed, exact)
    sampled = np.flatnonzero(~(is_summed | complete))
    if len(sampled):
        model_estimates = [
            estimate_rows(
                method, model, rows[sampled], seeds[sampled], n_samples, marginals, n_draws
            )
            for model in mixture.models
        ]
        combined = _combined(mixture, model_estimates, height[sampled])
        estimates.put(sampled, combined)
    # A row without an observed cell has probability one.
    estimates.log_likelihood[is_missing.all(axis=1)] = 0.0
    return estimates


def _combined(mixture: Components, estimates: list[Estimates], height: Floats) -> Estimates:
    """Join the estimates of each component, which is drawn by a height for each draw."""
    # A row for each row, a column for each component.
    log_joint = np.column_stack([part.log_likelihood for part in estimates]) + mixture.log_weight
    responsibility = softmax(log_joint, axis=1)
    # Variances of independent estimates add up, and sizes are their reciprocals.
    sizes = np.column_stack([part.effective_sample_size for part in estimates])
    chosen = _choose(responsibility, height)
    draws = estimates[0].draws
    marginals_of_each = [estimate.marginals for estimate in estimates]
    marginals = np.einsum("rc,crs->rs", responsibility, marginals_of_each)
    for component, estimate in enumerate(estimates):
        is_chosen = chosen == component
        draws[is_chosen] = estimate.draws[is_chosen]
    log_likelihood = np.logaddexp.reduce(log_joint, axis=1)
    variance = (responsibility**2 / sizes).sum(axis=1)
    return Estimates(log_likelihood, marginals, 1.0 / variance, draws)


def _choose(probability: Floats, height: Floats) -> Ints:
    """In each row, for each height in [0, 1], the first column whose cumulated sum reaches it."""
    cumulated = np.cumsum(probability, axis=1)[:, np.newaxis]
    reached = cumulated >= height[:, :, np.newaxis] * cumulated[:, :, -1:]
    return reached.argmax(axis=2)


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
    n_features = mixture.models[0].n_features
    rows = np.full((n_rows, n_features), -1, dtype=np.int64)
    weight = np.exp(mixture.log_weight)[np.newaxis]
    component = _choose(weight, random_state.uniform(size=(1, n_rows)))[0]
    for place, model in enumerate(mixture.models):
        members = np.flatnonzero(component == place)
        # One seed for the trees of a component, one for the cells given the trees.
        tree_seed, cell_seed = random_state.randint(2**31, size=2)
        trees = model.tree_tables()
        drawn = rows[members]
        parents, _ = draw_trees(trees.into, len(members), np.uint64(tree_seed))
        streams = start_streams(np.uint64(cell_seed), len(members))
        draw_each(trees, parents, streams, drawn)
        rows[members] = drawn
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
    is_missing = codes < 0
    active = is_missing.any(axis=1)
    # Most rows need two or three passes over their cells; ties might go round for ever.
    for _ in range(20):
        before = modes.copy()
        for column, peak in enumerate(log_peak):
            missing = np.flatnonzero(active & is_missing[:, column])
            n_states = len(peak)
            # Each row with every state of the column, one after the other.
            tried = np.repeat(modes[missing], n_states, axis=0)
            tried[:, column] = np.tile(np.arange(n_states), len(missing))
            value = mixture.log_likelihood(mixture.models[0].states_of(tried))
            value = value.reshape(len(missing), n_states) + peak
            modes[missing, column] = value.argmax(axis=1)
        active &= (modes != before).any(axis=1)
        if not active.any():
            break
    return modes
