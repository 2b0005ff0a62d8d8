"""Tables of two variables with given marginals.

Every strictly positive table P of two variables is ``diag(a) exp(theta) diag(b)`` with positive
vectors a and b that its marginals p and q determine: theta says how the variables depend on each
other, whatever their marginals. So a family of tables with common marginals needs no constraint,
for any number of states (the paper leaves that open). Of interest is the ratio
``P[s, t] / (p[s] q[t])``.

For two states, a and b are known (Plackett): the log odds ratio, ``theta[0, 0] + theta[1, 1] -
theta[0, 1] - theta[1, 0]``, fixes P by a quadratic equation, solved here without cancellation or
overflow. For more they follow from Newton's method on the concave dual of Sinkhorn's problem.
Derivatives are those of the implicit function in both cases: they need one linear system, a
weighted Laplacian.
"""

from __future__ import annotations

import math

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_exp, fast_log
from skpc._jit import LANES, TILE, add_tile, inlined, kernel
from skpc._threads import in_threads, slices

_MAX_ITER = 100
#: Relative error of a marginal at which Newton's method has converged.
_TOLERANCE = 1e-13
#: No scaling changes by more than this factor's log in one step.
_LONGEST_STEP = 4.0
#: A variable that hangs together with the rest by less is not moved.
_SMALLEST = 1e-280
#: Entries of tables that are worth a thread.
_ENTRIES = 2e5
#: Scales of columns, in logs, whose factors of exponentials neither overflow nor lose one.
_FARTHEST = 150.0
#: Vectors of a pair: its marginals, and what Newton's method needs of the rows and columns.
_P, _Q, _SCALE, _STEP, _TRIED, _REST, _BASE, _GROWTH, _ROW_LOG, _TOTAL = range(10)
_N_LINES = 10


@inlined
def _couple_binary(theta: Floats, single: Floats, u: int, v: int, ratio: Floats) -> None:
    """The ratios of two binary variables whose states begin at u and v."""
    log_odds = theta[u, v] + theta[u + 1, v + 1] - theta[u, v + 1] - theta[u + 1, v]
    # States of v are exchanged where the odds ratio is below one, which leaves it above.
    first, second = (v, v + 1) if log_odds >= 0.0 else (v + 1, v)
    p, not_p = single[u], single[u + 1]
    q, not_q = single[first], single[second]
    # All is divided by the odds ratio, which may overflow.
    inverse = math.exp(-abs(log_odds))
    rest = 1.0 - inverse
    gap = rest * (p - q)
    root = math.sqrt(inverse * (inverse + 2.0 * rest * (p * not_q + q * not_p)) + gap * gap)
    ratio[u, first] = 2.0 / (inverse + rest * (p + q) + root)
    ratio[u + 1, second] = 2.0 / (inverse + rest * (not_p + not_q) + root)
    ratio[u, second] = _off_diagonal(inverse, rest, gap, root, p * not_q)
    ratio[u + 1, first] = _off_diagonal(inverse, rest, -gap, root, q * not_p)


@inlined
def _off_diagonal(inverse: float, rest: float, gap: float, root: float, product: float) -> float:
    if gap <= inverse:
        return 2.0 * inverse / (inverse - gap + root)
    return (root - inverse + gap) / (2.0 * rest * product)


@inlined
def _read_pair(
    single: Floats, of_pair: Floats, u: int, n_u: int, v: int, n_v: int, line: Floats, into: Floats
) -> None:
    """Copy what belongs to a pair, which lies far apart in wide tables."""
    for s in range(n_u):
        line[_P, s] = single[u + s]
        for t in range(n_v):
            into[s, t] = of_pair[u + s, v + t]
    for t in range(n_v):
        line[_Q, t] = single[v + t]


@inlined
def _fit_rows(block: Floats, n_u: int, n_v: int, line: Floats, tried: Floats) -> float:
    """Scale the columns of a pair, and the rows to fit; return the value of the dual.

    ``block[0]`` has the dependences and gets the ratios in ``block[2]``. ``block[1]`` keeps their
    exponentials for scales of columns near ``line[_BASE]``: that takes an exponential a column.
    """
    base, growth, row_log, total = line[_BASE], line[_GROWTH], line[_ROW_LOG], line[_TOTAL]
    p, q = line[_P], line[_Q]
    far = 0.0
    for t in range(n_v):
        far = max(far, abs(tried[t] - base[t]))
    if not far <= _FARTHEST:
        for t in range(n_v):
            base[t] = tried[t]
        for s in range(n_u):
            row_log[s] = -math.inf
            for t in range(n_v):
                row_log[s] = max(row_log[s], block[0, s, t] + base[t])
            for t in range(n_v):
                block[1, s, t] = fast_exp(block[0, s, t] + base[t] - row_log[s])
    dual = 0.0
    for t in range(n_v):
        dual += q[t] * tried[t]
        growth[t] = fast_exp(tried[t] - base[t])
    for s in range(n_u):
        sum_here = 0.0
        for t in range(n_v):
            block[2, s, t] = block[1, s, t] * growth[t]
            sum_here += q[t] * block[2, s, t]
        total[s] = sum_here
        inverse = 1.0 / sum_here
        for t in range(n_v):
            block[2, s, t] *= inverse
    for s in range(n_u):
        dual -= p[s] * (fast_log(total[s]) + row_log[s])
    return dual


@inlined
def _solve(
    p: Floats,
    q: Floats,
    ratio: Floats,
    n_u: int,
    n_v: int,
    tiles: Floats,
    link: Floats,
    x: Floats,
) -> None:
    """Solve the Laplacian system of a pair for the states of v; the last unknown is zero.

    Two states of v are linked by the sum over the states of u of their joint probabilities, divided
    by the probability of the state of u. ``x`` holds the right side first, the solution then. Of
    the links the ones above the diagonal are kept, and on it the inverses of the pivots. The
    factors are copied to ``tiles``, as :func:`add_tile` reads them.
    """
    width, size = link.shape[1], len(p)
    for s in range(n_u):
        for i in range(n_v):
            joint = ratio[s, i] * q[i]
            tiles[0, (i // TILE * size + s) * TILE + i % TILE] = p[s] * joint
            tiles[1, (i // LANES * size + s) * LANES + i % LANES] = joint
    for i in range(0, n_v, TILE):
        for j in range(i // LANES * LANES, n_v, LANES):
            for r in range(i, i + TILE):
                for lane in range(LANES):
                    link[r, j + lane] = 0.0
            add_tile(link, i * width + j, tiles[0], i * size, tiles[1], j * size, n_u)
    for k in range(n_v - 1):
        pivot = 0.0
        for j in range(k + 1, n_v):
            pivot += link[k, j]
        link[k, k] = 1.0 / pivot if pivot > _SMALLEST else 0.0
        for i in range(k + 1, n_v):
            through = link[k, i] * link[k, k]
            x[i] += through * x[k]
            for j in range(i + 1, n_v):
                link[i, j] += through * link[k, j]
    x[n_v - 1] = 0.0
    for k in range(n_v - 2, -1, -1):
        found = x[k]
        for j in range(k + 1, n_v):
            found += link[k, j] * x[j]
        x[k] = found * link[k, k]


@inlined
def _couple_states(
    block: Floats, n_u: int, n_v: int, tiles: Floats, link: Floats, line: Floats
) -> None:
    """The ratios of two variables by Newton's method, with the scales of the rows eliminated."""
    p, q = line[_P], line[_Q]
    scale, step, tried, rest = line[_SCALE], line[_STEP], line[_TRIED], line[_REST]
    for t in range(n_v):
        scale[t] = 0.0
        # Far from all scales.
        line[_BASE, t] = math.inf
    dual = _fit_rows(block, n_u, n_v, line, scale)
    for _ in range(_MAX_ITER):
        for t in range(n_v):
            rest[t] = 0.0
        for s in range(n_u):
            for t in range(n_v):
                rest[t] += p[s] * block[2, s, t]
        error = 0.0
        for t in range(n_v):
            error = max(error, abs(1.0 - rest[t]))
            step[t] = rest[t] = q[t] * (1.0 - rest[t])
        if error < _TOLERANCE:
            return
        slope, longest = 0.0, 0.0
        _solve(p, q, block[2], n_u, n_v, tiles, link, step)
        for t in range(n_v):
            slope += rest[t] * step[t]
            longest = max(longest, abs(step[t]))
        length = min(1.0, _LONGEST_STEP / max(longest, _SMALLEST))
        before = dual
        while True:
            for t in range(n_v):
                tried[t] = scale[t] + length * step[t]
            dual = _fit_rows(block, n_u, n_v, line, tried)
            if dual >= before + 0.25 * length * slope or length * slope < _TOLERANCE:
                break
            length *= 0.5
        for t in range(n_v):
            scale[t] = tried[t]


@kernel
def _couple_some(theta: Floats, single: Floats, ptr: Ints, children: Ints, ratio: Floats) -> None:
    """The tables of some variables with all earlier ones; see :func:`couple`."""
    widest = np.diff(ptr).max()
    tiles = np.empty((2, (widest + LANES) * widest))
    link = np.empty((widest + TILE, widest + LANES))
    block = np.empty((3, widest, widest))
    line = np.empty((_N_LINES, widest))
    for i in range(children[0], children[1]):
        u, n_u = ptr[i], ptr[i + 1] - ptr[i]
        for j in range(i):
            v, n_v = ptr[j], ptr[j + 1] - ptr[j]
            if n_u == 2 and n_v == 2:
                _couple_binary(theta, single, u, v, ratio)
            else:
                _read_pair(single, theta, u, n_u, v, n_v, line, block[0])
                _couple_states(block, n_u, n_v, tiles, link, line)
                for s in range(n_u):
                    for t in range(n_v):
                        ratio[u + s, v + t] = block[2, s, t]
            for s in range(u, u + n_u):
                for t in range(v, v + n_v):
                    ratio[t, s] = ratio[s, t]


@kernel
def _differentiate_some(
    single: Floats,
    ratio: Floats,
    ptr: Ints,
    children: Ints,
    by_ratio: Floats,
    by_theta: Floats,
    by_single: Floats,
) -> None:
    """What some variables with all earlier ones add to derivatives; see :func:`couple_gradient`."""
    widest = np.diff(ptr).max()
    tiles = np.empty((2, (widest + LANES) * widest))
    link = np.empty((widest + TILE, widest + LANES))
    block = np.empty((2, widest, widest))
    line = np.empty((_N_LINES, widest))
    p, q, row, column = line[_P], line[_Q], line[_TOTAL], line[_REST]
    for i in range(children[0], children[1]):
        u, n_u = ptr[i], ptr[i + 1] - ptr[i]
        for j in range(i):
            v, n_v = ptr[j], ptr[j + 1] - ptr[j]
            _read_pair(single, ratio, u, n_u, v, n_v, line, block[0])
            _read_pair(single, by_ratio, u, n_u, v, n_v, line, block[1])
            for t in range(n_v):
                column[t] = 0.0
            for s in range(n_u):
                total = 0.0
                for t in range(n_v):
                    total += block[1, s, t]
                row[s] = total
                for t in range(n_v):
                    column[t] += block[1, s, t] - block[0, s, t] * q[t] * total
            _solve(p, q, block[0], n_u, n_v, tiles, link, column)
            for s in range(n_u):
                of_row, total = row[s] / p[s], 0.0
                for t in range(n_v):
                    of_row -= block[0, s, t] * q[t] * column[t]
                for t in range(n_v):
                    joint = p[s] * block[0, s, t] * q[t]
                    by_theta[u + s, v + t] = block[1, s, t] - joint * (of_row + column[t])
                    total += joint * column[t]
                    by_single[v + t] -= joint * of_row
                by_single[u + s] -= total


def _parts(ptr: Ints) -> list[slice]:
    """Variables whose tables with all others are worth a thread."""
    of_one = float(ptr[-1]) ** 2 / (len(ptr) - 1)
    return slices(len(ptr) - 1, max(1, round(_ENTRIES / of_one)))


def couple(theta: Floats, single: Floats, ptr: Ints, ratio: Floats) -> None:
    """Find the tables of all pairs of variables.

    Parameters
    ----------
    theta : array of shape (n_states, n_states)
        How states depend on each other; read where the first is of the later variable.
    single : array of shape (n_states,)
        Marginal probabilities, positive.
    ptr : array of shape (n_features + 1,)
        The states of variable v are ``ptr[v] .. ptr[v + 1]``.
    ratio : array of shape (n_states, n_states)
        Overwritten with the ratio of the joint probability of two states to the product of their
        probabilities, symmetric; the blocks of a variable with itself are left alone.
    """

    def work(part: slice) -> None:
        _couple_some(theta, single, ptr, np.array([part.start, part.stop]), ratio)

    in_threads(work, _parts(ptr))


def couple_gradient(
    single: Floats,
    ratio: Floats,
    ptr: Ints,
    by_ratio: Floats,
    by_theta: Floats,
    by_single: Floats,
) -> None:
    """Carry derivatives of a function of the ratios back to what :func:`couple` starts from.

    Parameters
    ----------
    single, ratio, ptr
        As :func:`couple` has read and written them.
    by_ratio : array of shape (n_states, n_states)
        Derivatives by the logs of the ratios; read where the first state is of the later variable.
    by_theta : array of shape (n_states, n_states)
        Overwritten there with derivatives by ``theta``. It may be the array of the ratios.
    by_single : array of shape (n_states,)
        Derivatives by the logs of the marginal probabilities are added.
    """

    def work(part: slice) -> Floats:
        children, found = np.array([part.start, part.stop]), np.zeros_like(by_single)
        _differentiate_some(single, ratio, ptr, children, by_ratio, by_theta, found)
        return found

    for found in in_threads(work, _parts(ptr)):
        by_single += found
