"""Rows with missing cells under a mixture of all trees, estimated by importance sampling.

The mixture gives the observed cells e of a row the probability p(e), a sum over all trees T and all
completions x of p(T) p(x | T). No polynomial algorithm is known for it, and with parameters of any
sign the problem is NP-hard (theorem 1 of the paper). So one of the two is drawn from a proposal and
weighted, and the other one is summed out:

- Completions are drawn, and all trees summed out by a determinant (:func:`_draw_completions`). The
  missing cells are independent in the proposal, each with its belief
  (:mod:`skpc.all_trees.beliefs`), evenly spread (Latin hypercube). Batches follow until the weights
  agree on the likelihood well enough. This is the better way as long as the observed cells tell
  most of what the missing ones have in common: 10 to 90 times fewer CPU seconds for the same error
  on directed trees over 50 columns, 20 to 50 % of the cells missing.
- Trees are drawn, and the missing cells summed out in each (:func:`_draw_trees`). "collapsed" draws
  them from p(T), as the paper does, and weighs them by p(e | T). "importance" draws the missing
  cells in each tree instead; "gibbs" starts a Markov chain from one of these trees
  (:func:`_walk`). "auto" draws trees where completions are worth little, from a
  proposal that multiplies the weight of each edge u -> v by a factor
  z(u, v): again a distribution of spanning trees, and p(T) / q(T) is the ratio of the normalisers
  divided by the factors of the edges of T. If v is observed, z is the probability of its state
  given that of u, averaged over the belief of u where u is missing; else z is one.

With any proposal the estimate of p(e) is unbiased (but for a small effect of stopping); its
logarithm is biased low. The truths are the enumerations of tests/naive/spanning_trees.py.
"""

import math

import numpy as np

from skpc._arrays import Floats, Ints, group_sums
from skpc._random import Streams, row_seeds, start_streams
from skpc._threads import in_threads, slices
from skpc.all_trees.all_trees import AllTrees
from skpc.all_trees.beliefs import belief_propagation
from skpc.all_trees.completions import Estimates, uniform_heights
from skpc.all_trees.spanning_trees import draw_trees, eliminate
from skpc.all_trees.tree_inference import TreeTables, draw_each, pass_trees

#: Trees are drawn instead if completions are worth less than this share of independent ones: the
#: first of them may lack the heaviest ones, and agree too early on too small a likelihood.
_POOR = 0.7
#: With more variables trees are drawn at once.
_WIDEST = 220
#: Rows that are worth a thread, and whose completions are in memory together.
_ROWS = 32


def _propose(
    codes: Ints, ptr: Ints, proposal: Floats, seeds: Streams, start: int, size: int
) -> tuple[Ints, Floats]:
    """Draw completions ``start .. start + size`` of each row, and the logs of their probabilities.

    Returns arrays of shape (n_rows, size, n) and (n_rows, size).
    """
    # Missing cells, (n_cells,): a row has the same draws whatever the others.
    row, variable = np.nonzero(codes < 0)
    batch = np.full(len(row), start)
    keys = np.column_stack([seeds[row].view(np.int64), variable, batch])
    chances = uniform_heights(row_seeds(keys, 3), 2 * size, 3)
    # A new order for each variable keeps their strata independent of each other.
    order = np.argsort(chances[:, :size], axis=1)
    # One draw in each stratum: the states come nearly as often as they should.
    height = (order + chances[:, size:]) / size
    n_states = np.diff(ptr)[variable, np.newaxis]
    # Behind all but the last state of a cell another one begins.
    place = np.arange(n_states.max(initial=1) - 1)
    cell = ptr[variable, np.newaxis] + np.minimum(place, n_states - 1)
    prob = np.where(place < n_states - 1, proposal[row[:, np.newaxis], cell], np.inf)
    state = np.zeros(height.shape, np.int64)
    for reached in np.cumsum(prob, axis=1).T:
        state += height > reached[:, np.newaxis]
    completions = np.repeat(codes[:, np.newaxis], size, axis=1)
    completions[row, :, variable] = state
    log_q = np.zeros((len(codes), size))
    chosen = ptr[variable, np.newaxis] + state
    np.add.at(log_q, row, np.log(proposal[row[:, np.newaxis], chosen]))
    return completions, log_q


def _answer_row(
    code: Ints,
    ptr: Ints,
    proposal: Floats,
    completions: Ints,
    weight: Floats,
    height: Floats,
    out: Estimates,
) -> None:
    """Marginals and draws of a row, as far as they are needed, from weighted completions.

    A state has its probability in the proposal times the mean weight of its completions, and of
    some more of the mean weight of all: so no state is ruled out because none was drawn. There is
    one of them, and one for each free probability of the missing cells: a weight is about them all.

    Parameters
    ----------
    code : array of shape (n,)
        States, -1 where missing.
    ptr : array of shape (n + 1,)
        The states of variable v are ``ptr[v] .. ptr[v + 1]``.
    proposal : array of shape (n_states,)
        Probability of each state in the proposal.
    completions : array of shape (n_completions, n)
    weight : array of shape (n_completions,)
        Their weights, whose mean is one.
    height : array of shape (n_draws,)
        A number in [0, 1] for each draw.
    out : Estimates
        The arrays of the row alone.
    """
    if len(height):
        cumulated = np.cumsum(weight)
        chosen = np.searchsorted(cumulated, height * cumulated[-1])
        out.draws[0] = completions[chosen]
    if out.marginals.size == 0:
        return
    is_missing = code < 0
    n_features = len(code)
    starts = ptr[:n_features]
    n_states = np.diff(ptr)[:n_features]
    prior = 1.0 + (n_states - 1).sum(where=is_missing)
    states = (completions + starts).ravel()
    n_drawn = np.bincount(states, minlength=len(proposal))
    drawn_weight = group_sums(states, np.repeat(weight, n_features), len(proposal))
    estimate = proposal * (drawn_weight + prior) / (n_drawn + prior)
    # The probabilities of the states of a cell add up to one.
    total = np.add.reduceat(estimate, starts)
    estimate /= np.repeat(total, n_states)
    np.copyto(out.marginals[0], estimate, where=np.repeat(is_missing, n_states))


def _draw_completions(
    model: AllTrees, codes: Ints, seeds: Streams, belief: Floats, n_most: int, out: Estimates
) -> Ints:
    """Estimate rows by drawing some completions; return the rows where these are poor."""
    n_rows, n_features = codes.shape
    n_states = np.diff(model.ptr)[:n_features]
    # A part of the proposal is spread evenly over the states, so that no weight is excessive.
    even = 0.02
    proposal = (1.0 - even) * belief[:, :-1] + even / np.repeat(n_states, n_states)
    # Whether completions are poor is decided after some of them.
    n_enough = min(64, n_most)
    # They are drawn until the squared relative error of the likelihood is small, also beside that
    # of the trees that would be drawn.
    largest_error = min(8.0 / n_most, 0.05)
    completions = np.empty((n_rows, n_most, n_features), np.int64)
    log_weights = np.empty((n_rows, n_most))
    heights = uniform_heights(seeds, out.draws.shape[1], 2)
    active = np.arange(n_rows)
    start = 0
    given_up = []
    while len(active):
        # Batches of 32: a row stops when its weights agree well enough.
        stop = min(start + 32, n_most)
        batch, log_q = _propose(
            codes[active], model.ptr, proposal[active], seeds[active], start, stop - start
        )
        log_p = model.log_likelihood(model.states_of(batch.reshape(-1, n_features)))
        # All completions so far count, with the largest weight as the unit.
        completions[active, start:stop] = batch
        log_weights[active, start:stop] = log_p.reshape(log_q.shape) - log_q
        log_weight = log_weights[active, :stop]
        largest = log_weight.max(axis=1, keepdims=True)
        weight = np.exp(log_weight - largest)
        mean = weight.mean(axis=1, keepdims=True)
        weight /= mean
        log_likelihood = largest + np.log(mean)
        out.log_likelihood[active] = log_likelihood[:, 0]
        # The squared relative error of the mean weight.
        spread = np.maximum((weight**2).mean(axis=1) - 1.0, 0.0)
        error = spread / (stop - 1) if stop > 1 else np.ones(len(active))
        with np.errstate(divide="ignore"):
            out.effective_sample_size[active] = 1.0 / error
        poor = (stop >= n_enough) & (_POOR * (1.0 + spread) > 1.0)
        done = ~poor & ((error <= largest_error) | (stop == n_most))
        for row, row_weight in zip(active[done], weight[done]):
            place = slice(row, row + 1)
            _answer_row(
                codes[row],
                model.ptr,
                proposal[row],
                completions[row, :stop],
                row_weight,
                heights[row],
                out.part(place),
            )
        given_up.append(active[poor])
        active = active[~(poor | done)]
        start = stop
    return np.concatenate(given_up)


def guide(trees: TreeTables, code: Ints, belief: Floats) -> Floats:
    """Factor of each edge given the observed cells of a row, shape (n, n + 1).

    It is the probability of the state of the child given that of the parent, averaged over
    ``belief`` where the parent is missing; one where the child is missing, as only observed cells
    say something about their parents.
    """
    factor = np.ones_like(trees.into)
    observed = np.flatnonzero(code >= 0)
    given_parent = trees.conditional[trees.ptr[observed] + code[observed]] * belief
    factor[observed] = np.add.reduceat(given_parent, trees.ptr[:-1], axis=1)
    return factor


def _draw_trees(
    trees: TreeTables,
    code: Ints,
    seed: Streams,
    belief: Floats | None,
    method: str,
    n_samples: int,
    out: Estimates,
) -> None:
    """Estimate a row by drawing trees, in view of the row if beliefs of its cells are given.

    The cost is O(n^3) and, for each sample, O(n^2) at worst to draw a tree and O(n k^2) for
    inference with k states. The arrays of ``out`` are those of the row alone.
    """
    factor = np.ones_like(trees.into) if belief is None else guide(trees, code, belief)
    parents, log_total = draw_trees(trees.into * factor, n_samples, seed[0])
    log_evidence = np.empty(n_samples)
    marginals = np.empty((n_samples, out.marginals.shape[1]))
    pass_trees(trees, parents, code, log_evidence, marginals)
    # The parent -1 of a root is the last column.
    log_weight = log_evidence - np.log(factor)[np.arange(len(code)), parents].sum(axis=1)
    largest = log_weight.max()
    weight = np.exp(log_weight - largest)
    total = weight.sum()
    out.log_likelihood[0] = log_total + largest + math.log(total / n_samples)
    out.effective_sample_size[0] = total**2 / (weight**2).sum()
    # The first streams of the seed have drawn the trees.
    height = uniform_heights(seed, out.draws.shape[1], 2)[0]
    streams = start_streams(seed[0], n_samples + len(height), first=n_samples)
    # A tree by its weight, then the missing cells given this tree.
    chosen = np.searchsorted(np.cumsum(weight)[:-1], height * total)
    if method in ("auto", "collapsed"):
        out.marginals[0] = weight @ marginals / total
        draw_each(trees, parents[chosen], streams, out.draws[0])
        return
    states = np.repeat(code[np.newaxis], n_samples, axis=0)
    if method == "gibbs":
        _walk(trees, parents[weight.argmax()], streams, states)
        weight = np.ones(n_samples)
        chosen = (height * n_samples).astype(np.int64)
    else:
        draw_each(trees, parents, streams, states)
    cells = trees.ptr[:-2] + states
    counts = group_sums(cells.ravel(), np.repeat(weight, len(code)), trees.ptr[-2])
    out.marginals[0] = counts[: marginals.shape[1]] / weight.sum()
    out.draws[0] = states[chosen]


def _walk(trees: TreeTables, parent: Ints, streams: Streams, states: Ints) -> None:
    """Fill the missing cells of each row by a step of a Markov chain.

    In turn they are drawn given a tree, at first ``parent``, and a tree given all cells.
    """
    for step in range(len(states)):
        draw_each(trees, parent[np.newaxis], streams[step:], states[step : step + 1])
        cells = trees.ptr[:-2] + states[step]
        # The virtual root has one state, the last.
        weight = trees.into * trees.conditional[cells][:, np.append(cells, trees.ptr[-2])]
        parent = draw_trees(weight, 1, streams[step])[0][0]


def estimate_rows(
    method: str,
    model: AllTrees,
    codes: Ints,
    seeds: Streams,
    n_samples: int,
    marginals: bool = True,
    n_draws: int = 1,
) -> Estimates:
    """Estimate rows with missing cells, each from its own seed.

    Parameters
    ----------
    method : {"auto", "collapsed", "importance", "gibbs"}
        How to estimate them; "auto" draws completions, or trees where these do better. "gibbs" has
        the likelihoods of "collapsed".
    model : AllTrees
        The mixture.
    codes : array of shape (n_rows, n)
        States, -1 where missing.
    seeds : array of shape (n_rows,), uint64
        The same seed gives a row the same estimates, whatever the other rows.
    n_samples : int
        Number of trees for each row, or greatest number of completions.
    marginals : bool, default=True
        Whether the marginals are needed.
    n_draws : int, default=1
        How many joint draws of its missing cells each row needs.

    Returns
    -------
    Estimates
        The probabilities themselves are unbiased, their logarithms are too low by about
        ``0.5 / effective_sample_size``; errors fall with the square root of that size.

    Examples
    --------
    Two variables that are mostly equal in two trees, and independent in the third.

    >>> import numpy as np
    >>> from skpc.all_trees.all_trees import AllTrees
    >>> from skpc.all_trees.importance import estimate_rows
    >>> factor = np.zeros((5, 5))
    >>> factor[:4, :4] = np.kron(np.ones((2, 2)), [[0.9, 0.1], [0.1, 0.9]])
    >>> factor[:4, 4] = 0.5
    >>> weight = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    >>> model = AllTrees(np.array([0, 2, 4, 5]), weight, factor, np.zeros(5), False)
    >>> seeds = np.array([7], dtype=np.uint64)
    >>> estimates = estimate_rows(
    ...     "collapsed", model, np.array([[0, -1]]), seeds, 1000
    ... )
    >>> np.exp(estimates.log_likelihood).round(1)
    array([0.5])
    >>> estimates.marginals.round(1)
    array([[1. , 0. , 0.8, 0.2]])
    """
    trees = model.tree_tables()
    log_total = eliminate(trees.into)[1]
    rows = np.require(codes, np.int64, ("C", "W"))
    estimates = Estimates.of_observed(rows, trees.ptr, marginals, n_draws)

    def work(part: slice) -> None:
        part_codes = rows[part]
        part_seeds = seeds[part]
        part_estimates = estimates.part(part)
        # The rows whose completions are poor, all of them unless completions are drawn.
        poor = np.arange(len(part_codes))
        belief = None
        if method == "auto":
            belief = belief_propagation(trees, part_codes)
            if rows.shape[1] <= _WIDEST:
                poor = _draw_completions(
                    model, part_codes, part_seeds, belief, n_samples, part_estimates
                )
        for row in poor:
            place = slice(row, row + 1)
            beliefs = None
            if belief is not None:
                beliefs = belief[row]
            _draw_trees(
                trees,
                part_codes[row],
                part_seeds[place],
                beliefs,
                method,
                n_samples,
                part_estimates.part(place),
            )
            part_estimates.log_likelihood[row] -= log_total

    in_threads(work, slices(len(rows), _ROWS))
    return estimates
