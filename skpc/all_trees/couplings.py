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
from skpc._jit import inlined, kernel

_MAX_ITER = 100
#: Relative error of a marginal at which Newton's method has converged.
_TOLERANCE = 1e-13
#: No scaling changes by more than this factor's log in one step.
_LONGEST_STEP = 4.0
#: A variable that hangs together with the rest by less is not moved.
_SMALLEST = 1e-280


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
def _fit_rows(
    theta: Floats, single: Floats, u: int, n_u: int, v: int, n_v: int, scale: Floats, ratio: Floats
) -> float:
    """Fill in the ratios of a pair, the rows scaled to fit; return the value of the dual."""
    dual = 0.0
    for t in range(n_v):
        dual += single[v + t] * scale[t]
    for s in range(n_u):
        largest = -math.inf
        for t in range(n_v):
            largest = max(largest, theta[u + s, v + t] + scale[t])
        total = 0.0
        for t in range(n_v):
            ratio[u + s, v + t] = math.exp(theta[u + s, v + t] + scale[t] - largest)
            total += single[v + t] * ratio[u + s, v + t]
        for t in range(n_v):
            ratio[u + s, v + t] /= total
        dual -= single[u + s] * (math.log(total) + largest)
    return dual


@inlined
def _solve(
    single: Floats, ratio: Floats, u: int, n_u: int, v: int, n_v: int, link: Floats, x: Floats
) -> None:
    """Solve the Laplacian system of a pair for the states of v; the last unknown is zero.

    Two states of v are linked by the sum over the states of u of their joint probabilities, divided
    by the probability of the state of u. ``x`` holds the right side first, the solution then.
    """
    for i in range(n_v):
        for j in range(i):
            total = 0.0
            for s in range(n_u):
                total += single[u + s] * ratio[u + s, v + i] * ratio[u + s, v + j]
            link[i, j] = total * single[v + i] * single[v + j]
            link[j, i] = link[i, j]
    for k in range(n_v - 1):
        pivot = 0.0
        for j in range(k + 1, n_v):
            pivot += link[k, j]
        link[k, k] = 1.0 / pivot if pivot > _SMALLEST else 0.0
        for i in range(k + 1, n_v):
            through = link[i, k] * link[k, k]
            x[i] += through * x[k]
            for j in range(k + 1, n_v):
                link[i, j] += through * link[k, j]
    x[n_v - 1] = 0.0
    for k in range(n_v - 2, -1, -1):
        for j in range(k + 1, n_v):
            x[k] += link[k, j] * x[j]
        x[k] *= link[k, k]


@inlined
def _couple_states(
    theta: Floats,
    single: Floats,
    u: int,
    n_u: int,
    v: int,
    n_v: int,
    ratio: Floats,
    link: Floats,
    workspace: Floats,
) -> None:
    """The ratios of two variables by Newton's method, with the scales of the rows eliminated."""
    scale, step, tried = workspace[0], workspace[1], workspace[2]
    scale[:n_v] = 0.0
    dual = _fit_rows(theta, single, u, n_u, v, n_v, scale, ratio)
    for _ in range(_MAX_ITER):
        error = 0.0
        for t in range(n_v):
            total = 0.0
            for s in range(n_u):
                total += single[u + s] * ratio[u + s, v + t]
            step[t] = tried[t] = single[v + t] * (1.0 - total)
            error = max(error, abs(1.0 - total))
        if error < _TOLERANCE:
            return
        slope, longest = 0.0, 0.0
        _solve(single, ratio, u, n_u, v, n_v, link, step)
        for t in range(n_v):
            slope += tried[t] * step[t]
            longest = max(longest, abs(step[t]))
        length = min(1.0, _LONGEST_STEP / max(longest, _SMALLEST))
        before = dual
        while True:
            for t in range(n_v):
                tried[t] = scale[t] + length * step[t]
            dual = _fit_rows(theta, single, u, n_u, v, n_v, tried, ratio)
            if dual >= before + 0.25 * length * slope or length * slope < _TOLERANCE:
                break
            length *= 0.5
        for t in range(n_v):
            scale[t] = tried[t]


@kernel
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
    widest = np.diff(ptr).max()
    link = np.empty((widest, widest))
    workspace = np.empty((3, widest))
    for i in range(len(ptr) - 1):
        u, n_u = ptr[i], ptr[i + 1] - ptr[i]
        for j in range(i):
            v, n_v = ptr[j], ptr[j + 1] - ptr[j]
            if n_u == 2 and n_v == 2:
                _couple_binary(theta, single, u, v, ratio)
            else:
                _couple_states(theta, single, u, n_u, v, n_v, ratio, link, workspace)
            for s in range(u, u + n_u):
                for t in range(v, v + n_v):
                    ratio[t, s] = ratio[s, t]


@kernel
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
        Overwritten there with derivatives by ``theta``.
    by_single : array of shape (n_states,)
        Derivatives by the logs of the marginal probabilities are added.
    """
    widest = np.diff(ptr).max()
    link = np.empty((widest, widest))
    row, column = np.empty(widest), np.empty(widest)
    for i in range(len(ptr) - 1):
        u, n_u = ptr[i], ptr[i + 1] - ptr[i]
        for j in range(i):
            v, n_v = ptr[j], ptr[j + 1] - ptr[j]
            for t in range(n_v):
                column[t] = 0.0
            for s in range(n_u):
                row[s] = 0.0
                for t in range(n_v):
                    row[s] += by_ratio[u + s, v + t]
                    column[t] += by_ratio[u + s, v + t]
                for t in range(n_v):
                    column[t] -= ratio[u + s, v + t] * single[v + t] * row[s]
            _solve(single, ratio, u, n_u, v, n_v, link, column)
            for s in range(n_u):
                row[s] /= single[u + s]
                for t in range(n_v):
                    row[s] -= ratio[u + s, v + t] * single[v + t] * column[t]
            for s in range(n_u):
                for t in range(n_v):
                    joint = single[u + s] * ratio[u + s, v + t] * single[v + t]
                    by_theta[u + s, v + t] = by_ratio[u + s, v + t] - joint * (row[s] + column[t])
                    by_single[u + s] -= joint * column[t]
                    by_single[v + t] -= joint * row[s]
