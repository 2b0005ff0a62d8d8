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


@inlined
def _couple_binary(theta: Floats, single: Floats, u: int, v: int, ratio: Floats) -> None:
    """The ratios of two binary variables whose states begin at u and v."""
    # Two states each: the odds ratio says all, and the coupling is the root of a quadratic.
    log_odds = theta[u, v] + theta[u + 1, v + 1] - theta[u, v + 1] - theta[u + 1, v]
    # States of v are exchanged where the odds ratio is below one, which leaves it above.
    alike, unlike = (v, v + 1) if log_odds >= 0.0 else (v + 1, v)
    p = single[u]
    not_p = single[u + 1]
    q = single[alike]
    not_q = single[unlike]
    # All is divided by the odds ratio, which may overflow.
    inverse = math.exp(-abs(log_odds))
    complement = 1.0 - inverse
    difference = p - q
    gap = complement * difference
    mixed = 2.0 * complement * (p * not_q + q * not_p)
    root = math.sqrt(inverse * (inverse + mixed) + gap * gap)
    ratio[u, alike] = 2.0 / (inverse + complement * (p + q) + root)
    ratio[u + 1, unlike] = 2.0 / (inverse + complement * (not_p + not_q) + root)
    ratio[u, unlike] = _off_diagonal(inverse, complement, gap, root, p * not_q)
    ratio[u + 1, alike] = _off_diagonal(inverse, complement, -gap, root, q * not_p)


@inlined
def _off_diagonal(
    inverse: float, complement: float, gap: float, root: float, product: float
) -> float:
    # Either form is exact where the other one loses its digits.
    if gap <= inverse:
        return 2.0 * inverse / (inverse - gap + root)
    return (root - inverse + gap) / (2.0 * complement * product)


@inlined
def _solve(p: Floats, q: Floats, ratio: Floats, link: Floats, solution: Floats) -> None:
    """Solve the Laplacian system of a pair for the states of v; the last unknown is zero.

    Two states of v are linked by the sum over the states of u of their joint probabilities, divided
    by the probability of the state of u. ``solution`` holds the right side first, then the
    solution.
    """
    # A state that is linked to the others by less is not moved.
    smallest = 1e-280
    n_v = len(q)
    for i in range(n_v):
        following = i + 1
        row = link[i]
        for j in range(following, n_v):
            total = 0.0
            for s in range(len(p)):
                joint = p[s] * ratio[s, i] * q[i]
                total += joint * ratio[s, j] * q[j]
            row[j] = total
    # Pivots are summed from the links that are left, as for trees: nothing is subtracted.
    for k in range(n_v - 1):
        pivot = 0.0
        following = k + 1
        row = link[k]
        for j in range(following, n_v):
            pivot += row[j]
        row[k] = 0.0
        if pivot > smallest:
            row[k] = 1.0 / pivot
        for i in range(following, n_v):
            through = row[i] * row[k]
            solution[i] += through * solution[k]
            for j in range(i + 1, n_v):
                link[i, j] += through * row[j]
    # The scale of all columns together is free: the last one stays, and the others follow.
    solution[n_v - 1] = 0.0
    for k in range(n_v - 2, -1, -1):
        row = link[k]
        for j in range(k + 1, n_v):
            solution[k] += row[j] * solution[j]
        solution[k] *= row[k]


@internal_kernel
def _couple_states(theta: Floats, p: Floats, q: Floats, ratio: Floats, total: Floats) -> None:
    """The ratios of two variables by Sinkhorn's iterations; ``total`` is memory for columns."""
    n_u = len(p)
    n_v = len(q)
    total[:] = -math.inf
    for s in range(n_u):
        largest = -math.inf
        for t in range(n_v):
            largest = max(largest, theta[s, t])
        for t in range(n_v):
            ratio[s, t] = theta[s, t] - largest
            total[t] = max(total[t], ratio[s, t])
    # The largest entries of each row and of each column become one: none overflows.
    for s in range(n_u):
        for t in range(n_v):
            ratio[s, t] = fast_exp(ratio[s, t] - total[t])
    # Most tables have their marginals, up to rounding, after far fewer iterations.
    for _ in range(10_000):
        total[:n_v] = 0.0
        for s in range(n_u):
            row_total = 0.0
            for t in range(n_v):
                row_total += q[t] * ratio[s, t]
            for t in range(n_v):
                ratio[s, t] /= row_total
                total[t] += p[s] * ratio[s, t]
        # Rows have their marginals now; how far columns are from theirs says how far to go.
        error = 0.0
        for t in range(n_v):
            error = max(error, abs(1.0 - total[t]))
            for s in range(n_u):
                ratio[s, t] /= total[t]
        if error < 1e-13:
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
    for later in range(len(ptr) - 1):
        u = ptr[later]
        end = ptr[later + 1]
        for earlier in range(later):
            v = ptr[earlier]
            last = ptr[earlier + 1]
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
    for later in range(len(ptr) - 1):
        u = ptr[later]
        end = ptr[later + 1]
        n_u = end - u
        p = single[u:end]
        row = lines[0, :n_u]
        for earlier in range(later):
            v = ptr[earlier]
            n_v = ptr[earlier + 1] - v
            q = single[v : v + n_v]
            column = lines[1, :n_v]
            # Tables of (n_u, n_v) and what follows them, which is not read.
            table = ratio[u:end, v:]
            by_table = by_ratio[u:end, v:]
            column[:] = 0.0
            for s in range(n_u):
                row[s] = by_table[s, :n_v].sum()
                for t in range(n_v):
                    column[t] += by_table[s, t] - table[s, t] * q[t] * row[s]
            _solve(p, q, table, link, column)
            # What rows and columns are scaled by follows theta: the implicit function.
            for s in range(n_u):
                row_derivative = row[s] / p[s]
                total = 0.0
                for t in range(n_v):
                    row_derivative -= table[s, t] * q[t] * column[t]
                for t in range(n_v):
                    joint = p[s] * table[s, t] * q[t]
                    by_theta[u + s, v + t] = by_table[s, t] - joint * (row_derivative + column[t])
                    total += joint * column[t]
                    by_single[v + t] -= joint * row_derivative
                by_single[u + s] -= total
