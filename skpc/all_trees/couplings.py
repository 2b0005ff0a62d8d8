"""Tables of two variables with given marginals.

Every strictly positive table P of two variables is ``diag(a) exp(theta) diag(b)`` with positive
vectors a and b that its marginals p and q determine: theta says how the variables depend on each
other, whatever their marginals. So a family of tables with common marginals needs no constraint,
for any number of states (the paper leaves that open). Of interest is the ratio
``P[s, t] / (p[s] q[t])``.

For two states, a and b are known (Plackett): the log odds ratio, ``theta[0, 0] + theta[1, 1] -
theta[0, 1] - theta[1, 0]``, fixes P by a quadratic equation, solved here without cancellation or
overflow. For more, rows and columns are scaled in turn (Sinkhorn).
Derivatives are those of the implicit function in both cases: they need one linear system, a
weighted Laplacian.
"""

import math

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_exp
from skpc._jit import inlined, internal_kernel, kernel

#: Sinkhorn's iterations end at this number, or when marginals have this relative error.
_MAX_ITER = 10_000
_TOLERANCE = 1e-13
#: A state that is linked to the others by less is not moved.
_SMALLEST = 1e-280


@inlined
def _couple_binary(theta: Floats, single: Floats, u: int, v: int, ratio: Floats) -> None:
    """The ratios of two binary variables whose states begin at u and v."""
    # Two states each: the odds ratio says all, and the coupling is the root of a quadratic.
    log_odds = theta[u, v] + theta[u + 1, v + 1] - theta[u, v + 1] - theta[u + 1, v]
    # States of v are exchanged where the odds ratio is below one, which leaves it above.
    first, second = (v, v + 1) if log_odds >= 0.0 else (v + 1, v)
    p = single[u]
    not_p = single[u + 1]
    q = single[first]
    not_q = single[second]
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
    # Either form is exact where the other one loses its digits.
    if gap <= inverse:
        return 2.0 * inverse / (inverse - gap + root)
    return (root - inverse + gap) / (2.0 * rest * product)


@inlined
def _solve(p: Floats, q: Floats, ratio: Floats, link: Floats, x: Floats) -> None:
    """Solve the Laplacian system of a pair for the states of v; the last unknown is zero.

    Two states of v are linked by the sum over the states of u of their joint probabilities, divided
    by the probability of the state of u. ``x`` holds the right side first, the solution then.
    """
    n_v = len(q)
    for i in range(n_v):
        for j in range(i + 1, n_v):
            link[i, j] = 0.0
            for s in range(len(p)):
                link[i, j] += p[s] * ratio[s, i] * q[i] * ratio[s, j] * q[j]
    # Pivots are summed from the links that are left, as for trees: nothing is subtracted.
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
    # The scale of all columns together is free: the last one stays.
    x[n_v - 1] = 0.0
    for k in range(n_v - 2, -1, -1):
        for j in range(k + 1, n_v):
            x[k] += link[k, j] * x[j]
        x[k] *= link[k, k]


@internal_kernel
def _couple_states(theta: Floats, p: Floats, q: Floats, ratio: Floats, total: Floats) -> None:
    """The ratios of two variables by Sinkhorn's iterations; ``total`` is memory for columns."""
    total[:] = -math.inf
    for s in range(len(p)):
        largest = -math.inf
        for t in range(len(q)):
            largest = max(largest, theta[s, t])
        for t in range(len(q)):
            ratio[s, t] = theta[s, t] - largest
            total[t] = max(total[t], ratio[s, t])
    # The largest entries of each row and of each column become one: none overflows.
    for s in range(len(p)):
        for t in range(len(q)):
            ratio[s, t] = fast_exp(ratio[s, t] - total[t])
    for _ in range(_MAX_ITER):
        total[: len(q)] = 0.0
        for s in range(len(p)):
            of_row = 0.0
            for t in range(len(q)):
                of_row += q[t] * ratio[s, t]
            for t in range(len(q)):
                ratio[s, t] /= of_row
                total[t] += p[s] * ratio[s, t]
        error = 0.0
        for t in range(len(q)):
            error = max(error, abs(1.0 - total[t]))
            for s in range(len(p)):
                ratio[s, t] /= total[t]
        if error < _TOLERANCE:
            return


@kernel(new_arrays=True)
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
    total = np.empty(widest)
    for i in range(len(ptr) - 1):
        u = ptr[i]
        end = ptr[i + 1]
        for j in range(i):
            v = ptr[j]
            last = ptr[j + 1]
            if end - u == 2 and last - v == 2:
                _couple_binary(theta, single, u, v, ratio)
            else:
                pair = theta[u:end, v:last]
                fitted = ratio[u:end, v:last]
                _couple_states(pair, single[u:end], single[v:last], fitted, total)
            # Both halves are filled: kernels read the one whose rows they have.
            for s in range(u, end):
                for t in range(v, last):
                    ratio[t, s] = ratio[s, t]


@kernel(new_arrays=True)
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
    widest = np.diff(ptr).max()
    link = np.empty((widest, widest))
    lines = np.empty((2, widest))
    for i in range(len(ptr) - 1):
        u = ptr[i]
        p = single[ptr[i] : ptr[i + 1]]
        row = lines[0, : len(p)]
        for j in range(i):
            v = ptr[j]
            q = single[ptr[j] : ptr[j + 1]]
            column = lines[1, : len(q)]
            table = ratio[u : ptr[i + 1], v:]
            by_table = by_ratio[u : ptr[i + 1], v:]
            column[:] = 0.0
            for s in range(len(p)):
                row[s] = by_table[s, : len(q)].sum()
                for t in range(len(q)):
                    column[t] += by_table[s, t] - table[s, t] * q[t] * row[s]
            _solve(p, q, table, link, column)
            for s in range(len(p)):
                of_row = row[s] / p[s]
                total = 0.0
                for t in range(len(q)):
                    of_row -= table[s, t] * q[t] * column[t]
                for t in range(len(q)):
                    joint = p[s] * table[s, t] * q[t]
                    by_theta[u + s, v + t] = by_table[s, t] - joint * (of_row + column[t])
                    total += joint * column[t]
                    by_single[v + t] -= joint * of_row
                by_single[u + s] -= total
