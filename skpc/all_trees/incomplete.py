"""Rows with missing cells under a mixture of all trees: exact where few cells are missing.

Few missing cells have few joint completions, and a complete row is one determinant: their sum is
exact. Of rows with more completions some are drawn (:mod:`skpc.all_trees.drawn_completions`); where
most cells are missing trees are drawn instead (:mod:`skpc.all_trees.collapsed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import softmax

from skpc._arrays import Floats, Ints, within
from skpc._random import Streams, row_seeds, start_streams
from skpc._threads import in_threads, slices
from skpc.all_trees.all_trees import AllTrees
from skpc.all_trees.beliefs import believe_states
from skpc.all_trees.collapsed import collapsed_row, importance_row
from skpc.all_trees.completions import sum_completions
from skpc.all_trees.components import Components
from skpc.all_trees.drawn_completions import completed_row
from skpc.all_trees.estimates import Estimates, PreparedTrees, Request, RowTask
from skpc.all_trees.gibbs import gibbs_row, redraw_missing
from skpc.all_trees.spanning_trees import draw_trees
from skpc.all_trees.tree_inference import draw_each

#: The ways to estimate a row by trees, by the names that users know them by; before the first of
#: them completions are tried. Each overwrites marginals and draws of the row, and returns its
#: log-likelihood, its effective sample size and the log probability of the further cells.
METHODS: dict[str, Callable[[PreparedTrees, RowTask], tuple[float, float, float]]] = {
    "auto": collapsed_row,
    "collapsed": collapsed_row,
    "importance": importance_row,
    "gibbs": gibbs_row,
}
#: Largest number of completions to sum for each tree that would be sampled, times the number of
#: variables; and, for many variables, times its cube, for that is what a determinant costs. To sum
#: them then takes about five times as long, but the answer is without error.
_COMPLETIONS, _OPERATIONS = 160, 40_000
#: But no more than this: they are all in memory.
_MOST_COMPLETIONS = 2**16
#: With more variables, trees are drawn rather than completions.
_WIDEST = 220
#: Passes over the cells of a row at most, on the way to a mode.
_MOST_CLIMBS = 20
#: Rows that are worth a thread.
_ROWS = 32
_TO_UNIT = 2.0**-64
_ALL = Request()


def _beliefs(trees: PreparedTrees, codes: Ints) -> Floats | None:
    """Beliefs of some rows; None where there are too many variables for drawn completions."""
    if codes.shape[1] > _WIDEST:
        return None
    found = np.empty((len(codes), int(trees.tables.ptr[-1])))
    believe_states(trees, codes, found)
    return found


def prepared(model: AllTrees) -> PreparedTrees:
    """The trees of a mixture, ready for the estimates of rows."""
    return PreparedTrees.of(model.tree_tables(), model.edges_into())


def estimate_rows(
    method: str,
    trees: PreparedTrees,
    codes: Ints,
    seeds: Streams,
    n_samples: int,
    request: Request = _ALL,
) -> Estimates:
    """Estimate rows with missing cells one after the other, each from its own seed.

    Parameters
    ----------
    method : {"auto", "collapsed", "importance", "gibbs"}
        How to estimate them; "auto" draws completions, or trees where these do better.
    trees : PreparedTrees
        The trees of a mixture.
    codes : array of shape (n_rows, n)
        States, -1 where missing.
    seeds : array of shape (n_rows,), uint64
        The same seed gives a row the same estimates, whatever the other rows.
    n_samples : int
        Number of trees for each row, or greatest number of completions.
    request : Request
        What is needed; by default the marginals, and one draw for each row.

    Returns
    -------
    Estimates
        But for "gibbs" the probabilities themselves are unbiased, their logarithms are too
        low by about ``0.5 / effective_sample_size``; errors fall with the square root of that size.

    Raises
    ------
    ValueError
        If a shape is wrong, or a state out of range.

    Examples
    --------
    Two variables that are mostly equal in two trees, and independent in the third.

    >>> import numpy as np
    >>> from skpc.all_trees.estimates import PreparedTrees
    >>> from skpc.all_trees.incomplete import estimate_rows
    >>> from skpc.all_trees.tree_tables import TreeTables
    >>> equal = np.kron(np.ones((2, 2)), [[0.9, 0.1], [0.1, 0.9]])
    >>> tables = TreeTables(np.array([0, 2, 4, 5]), np.column_stack([equal, np.full(4, 0.5)]))
    >>> trees = PreparedTrees.of(tables, np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]))
    >>> seeds = np.array([7], dtype=np.uint64)
    >>> found = estimate_rows("collapsed", trees, np.array([[0, -1]]), seeds, 1000)
    >>> np.exp(found.log_likelihood).round(2)
    array([0.5])
    >>> found.marginals.round(2)
    array([[1.  , 0.  , 0.77, 0.23]])
    """
    rows = trees.tables.check_codes(codes)
    if seeds.shape != (len(rows),):
        raise ValueError(f"seeds must have shape ({len(rows)},); found {seeds.shape}.")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1; found {n_samples}.")
    wholes = rows if request.wholes is None else trees.tables.check_codes(request.wholes)
    found = Estimates.empty(rows, len(trees.tables.conditional), request)
    n_draws = np.broadcast_to(request.n_draws, len(rows))
    last = np.cumsum(n_draws)
    start = last - n_draws

    def work(part: slice) -> None:
        beliefs = _beliefs(trees, rows[part]) if method == "auto" else None
        for row in range(part.start, part.stop):
            draws = found.draws[start[row] : last[row]]
            marginals = found.marginals[row]
            task = RowTask(rows[row], wholes[row], seeds[row], n_samples, marginals, draws)
            estimate = None
            if beliefs is not None:
                estimate = completed_row(trees, task, beliefs[row - part.start])
            if estimate is None:
                estimate = METHODS[method](trees, task)
            log_likelihood, size, log_asked = estimate
            found.log_likelihood[row], found.log_asked[row] = log_likelihood, log_asked
            found.effective_sample_size[row] = size

    in_threads(work, slices(len(rows), _ROWS))
    return found


def estimate_missing(
    mixture: Components,
    codes: Ints,
    seeds: Streams,
    method: str,
    n_samples: int,
    request: Request = _ALL,
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
    method : {"auto", "collapsed", "importance", "gibbs"}
        How rows with many missing cells are estimated.
    n_samples : int
        Number of trees sampled for each of them, or greatest number of completions; rows with no
        more joint completions than ``min(160 / n, 40_000 / n**3)`` times that (and than 65,536) are
        exact.
    request : Request
        What is needed; by default the marginals, and one draw for each row.

    Returns
    -------
    Estimates
        Exact rows have an infinite effective sample size.
    """
    rows = np.ascontiguousarray(codes, dtype=np.int64)
    ptr, n = mixture.models[0].ptr, rows.shape[1]
    wholes = rows if request.wholes is None else request.wholes
    found = Estimates.empty(rows, int(ptr[n]), request)
    n_draws = np.broadcast_to(request.n_draws, len(rows))
    height = _heights(seeds, n_draws)
    of_tree = min(_COMPLETIONS / n, _OPERATIONS / n**3)
    limit = np.log(min(n_samples * of_tree, _MOST_COMPLETIONS))
    few = (rows < 0) @ np.log(np.diff(ptr)[:n]) <= limit + 1e-9
    if few.any():
        asked, drawn = (
            Request(request.marginals, n_draws[few], wholes[few]),
            np.repeat(few, n_draws),
        )
        exact = sum_completions(mixture, rows[few], asked, height[drawn])
        for of_all, of_few in zip(found, exact):
            of_all[drawn if of_all is found.draws else few] = of_few
    many = np.flatnonzero(~few)
    if len(many):
        request = Request(request.marginals, n_draws[many], wholes[many])
        estimates = [
            estimate_rows(method, prepared(model), rows[many], seeds[many], n_samples, request)
            for model in mixture.models
        ]
        responsibility = _combine(mixture, estimates, many, found)
        drawn = np.flatnonzero(~np.repeat(few, n_draws))
        chosen = _choose(np.repeat(responsibility, n_draws[many], axis=0), height[drawn])
        for k, of_model in enumerate(estimates):
            found.draws[drawn[chosen == k]] = of_model.draws[chosen == k]
    # Rounding must not make anything more than certain.
    np.minimum(found.log_asked, 0.0, out=found.log_asked)
    return found


def _heights(seeds: Streams, n_draws: Ints) -> Floats:
    """A number in [0, 1] for each draw of each row."""
    which = within(n_draws)
    keys = np.column_stack([np.repeat(seeds.view(np.int64), n_draws), which])
    return row_seeds(keys, 1).astype(np.float64) * _TO_UNIT


def _combine(mixture: Components, of_models: list[Estimates], at: Ints, found: Estimates) -> Floats:
    """Fill in rows from the estimates of each component; return the responsibilities."""
    log_joint = np.column_stack([e.log_likelihood for e in of_models]) + mixture.log_weight
    responsibility = np.asarray(softmax(log_joint, axis=1))
    found.log_likelihood[at] = np.logaddexp.reduce(log_joint, axis=1)
    found.marginals[at] = sum(
        r[:, np.newaxis] * e.marginals for r, e in zip(responsibility.T, of_models)
    )
    sizes = np.column_stack([e.effective_sample_size for e in of_models])
    found.effective_sample_size[at] = 1.0 / (responsibility**2 / sizes).sum(axis=1)
    log_asked = np.column_stack([e.log_asked for e in of_models])
    found.log_asked[at] = np.logaddexp.reduce(log_joint + log_asked, axis=1)
    found.log_asked[at] -= found.log_likelihood[at]
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
        trees, _ = draw_trees(model.edges_into(), len(at), np.uint64(of_trees))
        drawn = rows[at]
        draw_each(model.tree_tables(), trees, start_streams(np.uint64(of_cells), len(at)), drawn)
        rows[at] = drawn
    return rows


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
    responsibility = softmax(mixture.log_joint(mixture.models[0].states_of(filled)), axis=1)
    component = _choose(responsibility, random_state.uniform(size=len(filled)))
    seeds = random_state.randint(2**31, size=len(filled)).astype(np.uint64)
    redrawn = filled.copy()
    for k, model in enumerate(mixture.models):
        at = component == k
        redrawn[at] = redraw_missing(prepared(model), codes[at], filled[at], seeds[at])
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
    found = filled.copy()
    active = (codes < 0).any(axis=1)
    for _ in range(_MOST_CLIMBS):
        before = found.copy()
        for column, peak in enumerate(log_peak):
            at = np.flatnonzero(active & (codes[:, column] < 0))
            tried = np.repeat(found[at], len(peak), axis=0)
            tried[:, column] = np.tile(np.arange(len(peak)), len(at))
            value = mixture.log_likelihood(mixture.models[0].states_of(tried))
            found[at, column] = (value.reshape(len(at), len(peak)) + peak).argmax(axis=1)
        active &= (found != before).any(axis=1)
        if not active.any():
            break
    return found
