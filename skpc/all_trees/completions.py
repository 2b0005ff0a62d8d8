"""Rows with few missing cells: sums over their joint completions, which are exact.

A complete row is one determinant, and rows share their completions. Where the rows of a call have
more completions than the variables have joint states, every joint state is evaluated once for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets
from skpc._fast_math import fast_exp
from skpc._jit import inlined, kernel
from skpc._threads import in_threads
from skpc.all_trees.components import Components
from skpc.all_trees.estimates import Estimates, Request

#: Joint states of all variables that are evaluated once for all rows, at most: 32 MiB.
_MOST_STATES = 2**22
#: Cells of completions that are held at a time, unless a single row has more.
_CELLS = 2**20


class _Lookup(NamedTuple):
    """Where the log probabilities of the completions of some rows are."""

    log_p: Floats
    #: Place of the completion of each row that has state 0 in all missing cells, shape (n_rows,).
    first: Ints
    #: By how much the place moves with the state of a missing cell, shape (n_rows, n).
    stride: Ints


def sum_completions(
    mixture: Components, codes: Ints, request: Request, height: Floats
) -> Estimates:
    """Answers for rows by summing their completions; the same whatever the other rows.

    Parameters
    ----------
    mixture : Components
        The distribution.
    codes : array of shape (n_rows, n)
        States, -1 where missing.
    request : Request
        What is needed; an array of ``n_draws``, and ``wholes``.
    height : array of shape (n_draws.sum(),)
        A number in [0, 1] for each draw.

    Returns
    -------
    Estimates
        The effective sample sizes are infinite.
    """
    ptr = mixture.models[0].ptr[: codes.shape[1] + 1].copy()
    wholes = codes if request.wholes is None else request.wholes
    found = Estimates.empty(codes, int(ptr[-1]), request)
    draws = offsets(np.broadcast_to(request.n_draws, len(codes)))
    size = _sizes(codes, ptr)
    every = np.full((1, codes.shape[1]), -1)
    if _sizes(every, ptr)[0] <= min(size.sum(), _MOST_STATES):
        radix = _strides(every, ptr)
        first = np.where(codes < 0, 0, codes) @ radix[0]
        lookup = _Lookup(_log_p(mixture, _tails(ptr)), first, np.repeat(radix, len(codes), axis=0))
        _sum_rows(lookup, ptr, codes, wholes, draws, height, found)
        return found

    def work(part: slice) -> None:
        rows, of_draws = codes[part], slice(draws[part.start], draws[part.stop])
        log_p, first = _log_p(mixture, rows), offsets(size[part])[:-1]
        mine = found.part(part, of_draws)
        start = draws[part.start : part.stop + 1] - draws[part.start]
        lookup = _Lookup(log_p, first, _strides(rows, ptr))
        _sum_rows(lookup, ptr, rows, wholes[part], start, height[of_draws], mine)

    in_threads(work, _parts(size * codes.shape[1]))
    return found


def _sizes(codes: Ints, ptr: Ints) -> Floats:
    """Number of completions of each row."""
    return np.where(codes < 0, np.diff(ptr), 1).prod(axis=1, dtype=np.float64)


def _strides(codes: Ints, ptr: Ints) -> Ints:
    """How far apart completions of a row are that differ by one state of one missing cell."""
    n_states = np.where(codes < 0, np.diff(ptr), 1)
    return np.cumprod(n_states, axis=1) // n_states


def _parts(amount: Floats) -> Iterator[slice]:
    """Divide rows into parts of about ``_CELLS`` cells of completions."""
    number = np.cumsum(amount) // _CELLS
    cuts = np.flatnonzero(np.diff(number)) + 1
    edges = [0, *cuts.tolist(), len(amount)]
    return (slice(start, stop) for start, stop in zip(edges, edges[1:]) if stop > start)


def _tails(ptr: Ints) -> Ints:
    """Rows whose completions are all joint states in their order, a part of them each."""
    n_states = np.diff(ptr)
    n_free = int(np.searchsorted(np.cumprod(n_states) * len(n_states), _CELLS))
    tail = np.full((1, len(n_states)), -1)
    tail[0, :n_free] = 0
    rows = _completions(tail, ptr)
    rows[:, :n_free] = -1
    return rows


def _log_p(mixture: Components, rows: Ints) -> Floats:
    """Log probabilities of the completions of some rows, one row after the other."""
    model = mixture.models[0]
    size = _sizes(rows, model.ptr[: rows.shape[1] + 1])
    ptr = model.ptr[: rows.shape[1] + 1].copy()
    parts = in_threads(
        lambda part: mixture.log_likelihood(model.states_of(_completions(rows[part], ptr))),
        _parts(size * rows.shape[1]),
    )
    return np.concatenate(parts)


@kernel
def _fill(codes: Ints, ptr: Ints, filled: Ints) -> None:
    """Write all completions of the rows one after the other."""
    n = codes.shape[1]
    first = 0
    for row in range(len(codes)):
        built = 1
        for v in range(n):
            filled[first, v] = max(codes[row, v], 0)
        for v in range(n):
            if codes[row, v] >= 0:
                continue
            for s in range(1, ptr[v + 1] - ptr[v]):
                for i in range(first, first + built):
                    for u in range(n):
                        filled[i + s * built, u] = filled[i, u]
                    filled[i + s * built, v] = s
            built *= ptr[v + 1] - ptr[v]
        first += built


def _completions(codes: Ints, ptr: Ints) -> Ints:
    filled = np.empty((int(_sizes(codes, ptr).sum()), codes.shape[1]), np.int64)
    _fill(codes, ptr, filled)
    return filled


@inlined
def _places(code: Ints, first: int, stride: Ints, ptr: Ints, places: Ints) -> int:
    """Places of the completions of a row, the states of its first missing cell fastest."""
    places[0] = first
    built = 1
    for v in range(len(code)):
        if code[v] >= 0:
            continue
        for s in range(1, ptr[v + 1] - ptr[v]):
            for i in range(built):
                places[s * built + i] = places[i] + s * stride[v]
        built *= ptr[v + 1] - ptr[v]
    return built


@kernel
def _weigh(log_p: Floats, places: Ints, weight: Floats) -> tuple[float, float]:
    """Probabilities at some places, relative to the greatest; return its log, and their sum."""
    largest, total = -math.inf, 0.0
    for i in range(len(weight)):
        weight[i] = log_p[places[i]]
        largest = max(largest, weight[i])
    for i in range(len(weight)):
        weight[i] = fast_exp(weight[i] - largest)
        total += weight[i]
    return largest, total


@kernel
def _draw(code: Ints, ptr: Ints, weight: Floats, height: Floats, draws: Ints) -> None:
    """Fill in the missing cells of a row by draws from its completions."""
    cumulated = np.cumsum(weight)
    for draw in range(len(draws)):
        target = height[draw] * cumulated[-1]
        at = min(np.searchsorted(cumulated, target), len(weight) - 1)
        for v in range(len(code)):
            if code[v] < 0:
                k = ptr[v + 1] - ptr[v]
                draws[draw, v] = at % k
                at //= k


@kernel
def _marginalise(code: Ints, ptr: Ints, weight: Floats, marginals: Floats) -> None:
    """Marginals of a row; the weights of its completions are summed out variable by variable."""
    built, total = len(weight), 0.0
    for v in range(len(code) - 1, -1, -1):
        if code[v] >= 0:
            marginals[ptr[v] + code[v]] = 1.0
            continue
        k = ptr[v + 1] - ptr[v]
        built //= k
        for s in range(k):
            found = 0.0
            for i in range(built):
                found += weight[s * built + i]
                if s > 0:
                    weight[i] += weight[s * built + i]
            marginals[ptr[v] + s] = found
    total = weight[0]
    for v in range(len(code)):
        if code[v] < 0:
            for s in range(ptr[v], ptr[v + 1]):
                marginals[s] /= total


@kernel
def _sum_rows(
    lookup: _Lookup,
    ptr: Ints,
    codes: Ints,
    wholes: Ints,
    draw_ptr: Ints,
    height: Floats,
    found: Estimates,
) -> None:
    """Sum the completions of each row; see :func:`sum_completions`."""
    log_p, firsts, strides = lookup
    n_rows, n = codes.shape
    most = 1
    for row in range(n_rows):
        size = 1
        for v in range(n):
            size *= ptr[v + 1] - ptr[v] if codes[row, v] < 0 else 1
        most = max(most, size)
    places, weights = np.empty(most, np.int64), np.empty(most)
    for row in range(n_rows):
        code, whole, stride, first = codes[row], wholes[row], strides[row], firsts[row]
        size = _places(code, first, stride, ptr, places)
        weight = weights[:size]
        largest, total = _weigh(log_p, places, weight)
        log_total = largest + math.log(total)
        some, further = False, False
        for v in range(n):
            some = some or code[v] >= 0
            further = further or whole[v] != code[v]
        # All completions of a row without any cell are all there is.
        found.log_likelihood[row] = log_total if some else 0.0
        begin, end = draw_ptr[row], draw_ptr[row + 1]
        if end > begin:
            _draw(code, ptr, weight, height[begin:end], found.draws[begin:end])
        if found.marginals.shape[1] > 0:
            _marginalise(code, ptr, weight, found.marginals[row])
        if further:
            for v in range(n):
                if code[v] < 0:
                    first += max(whole[v], 0) * stride[v]
            size = _places(whole, first, stride, ptr, places)
            largest, total = _weigh(log_p, places, weights[:size])
            found.log_asked[row] = largest + math.log(total) - log_total
