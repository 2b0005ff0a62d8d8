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
weighted Laplacian. Pairs of variables with the same numbers of states are coupled together.
"""

from collections.abc import Iterator

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import kernel


def _pairs(ptr: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The states of pairs of variables, the later one first: pairs of equal sizes at a time.

    They come as indices of shapes (n_u, 1, n_pairs) and (1, n_v, n_pairs): numpy is quick where
    the last axis is long.
    """
    n_states = np.diff(ptr)
    later, earlier = np.tril_indices(len(n_states), -1)
    kind = n_states[later] * (n_states.max() + 1) + n_states[earlier]
    for pair in map(kind.__eq__, np.unique(kind)):
        u = ptr[later[pair]] + np.arange(n_states[later[pair][0]])[:, np.newaxis]
        v = ptr[earlier[pair]] + np.arange(n_states[earlier[pair][0]])[:, np.newaxis]
        yield u[:, np.newaxis], v[np.newaxis]


def _couple_binary(theta: Floats, p: Floats, q: Floats) -> Floats:
    """The ratios of pairs of binary variables."""
    # Two states each: the odds ratio says all, and the coupling is the root of a quadratic.
    log_odds = theta[0, 0] + theta[1, 1] - theta[0, 1] - theta[1, 0]
    # States of v are exchanged where the odds ratio is below one, which leaves it above.
    pair = np.arange(len(log_odds))
    alike = (log_odds < 0.0).astype(np.int64)
    unlike = 1 - alike
    p, not_p = p[:, 0]
    q, not_q = q[0, [alike, unlike], pair]
    # All is divided by the odds ratio, which may overflow.
    inverse = np.exp(-np.abs(log_odds))
    complement = 1.0 - inverse
    gap = complement * (p - q)
    mixed = 2.0 * complement * (p * not_q + q * not_p)
    root = np.sqrt(inverse * (inverse + mixed) + gap * gap)

    def off_diagonal(gap: Floats, product: Floats) -> Floats:
        # Either form is exact where the other one loses its digits.
        with np.errstate(divide="ignore", invalid="ignore"):
            near = 2.0 * inverse / (inverse - gap + root)
            far = (root - inverse + gap) / (2.0 * complement * product)
        return np.where(gap <= inverse, near, far)

    ratio = np.empty_like(theta)
    ratio[0, alike, pair] = 2.0 / (inverse + complement * (p + q) + root)
    ratio[1, unlike, pair] = 2.0 / (inverse + complement * (not_p + not_q) + root)
    ratio[0, unlike, pair] = off_diagonal(gap, p * not_q)
    ratio[1, alike, pair] = off_diagonal(-gap, q * not_p)
    return ratio


def _couple_states(theta: Floats, p: Floats, q: Floats) -> Floats:
    """The ratios of pairs of variables by Sinkhorn's iterations."""
    # The largest entries of each row and of each column become one: none overflows.
    ratio = theta - theta.max(axis=1)[:, np.newaxis]
    ratio = np.exp(ratio - ratio.max(axis=0))
    _scale_in_turn(ratio, p[:, 0], q[0])
    return ratio


@kernel(new_arrays=True)
def _scale_in_turn(ratio: Floats, p: Floats, q: Floats) -> None:
    """Scale rows and columns of each pair until the marginals are ``p`` and ``q``.

    13x as fast as steps of all pairs together, in fits to 1,000 x 12 of five states: few pairs
    need many steps. The plain twin is the definition, in ``tests/all_trees/test_couplings.py``.
    """
    n_u, n_v, n_pairs = ratio.shape
    total = np.empty(n_v)
    for pair in range(n_pairs):
        table = ratio[:, :, pair]
        # Most tables have their marginals, up to rounding, after far fewer iterations.
        for _ in range(10_000):
            for t in range(n_v):
                total[t] = 0.0
            for s in range(n_u):
                row_total = 0.0
                for t in range(n_v):
                    row_total += q[t, pair] * table[s, t]
                for t in range(n_v):
                    table[s, t] /= row_total
                    total[t] += p[s, pair] * table[s, t]
            # Rows have their marginals now; how far columns are from theirs says how far to go.
            error = 0.0
            for t in range(n_v):
                error = max(error, abs(1.0 - total[t]))
                for s in range(n_u):
                    table[s, t] /= total[t]
            if error < 1e-13:
                break


def _solve(link: Floats, solution: Floats) -> None:
    """Solve a Laplacian system for each pair of variables; the last unknown is zero.

    ``link`` of shape (n, n, n_pairs) has what links two unknowns, and is written over; ``solution``
    of shape (n, n_pairs) holds the right side first, then the solution.
    """
    # A state that is linked to the others by less is not moved.
    smallest = 1e-280
    n_unknowns = len(solution)
    inverse = np.zeros_like(solution)
    # Pivots are summed from the links that are left, as for trees: nothing is subtracted.
    for k in range(n_unknowns - 1):
        row = link[k, k + 1 :]
        pivot = row.sum(axis=0)
        np.divide(1.0, pivot, out=inverse[k], where=pivot > smallest)
        through = row * inverse[k]
        solution[k + 1 :] += through * solution[k]
        link[k + 1 :, k + 1 :] += through[:, np.newaxis] * row
    # The scale of all columns together is free: the last one stays, and the others follow.
    solution[-1] = 0.0
    for k in reversed(range(n_unknowns - 1)):
        moved = (link[k, k + 1 :] * solution[k + 1 :]).sum(axis=0)
        solution[k] = (solution[k] + moved) * inverse[k]


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
    for u, v in _pairs(ptr):
        method = _couple_binary if len(u) == v.shape[1] == 2 else _couple_states
        fitted = method(theta[u, v], single[u], single[v])
        # Both halves are filled: kernels read the one whose rows they have.
        ratio[u, v] = fitted
        ratio[v, u] = fitted


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
    for u, v in _pairs(ptr):
        p = single[u]
        by_table = by_ratio[u, v]
        given_u = ratio[u, v] * single[v]
        row = by_table.sum(axis=1)[:, np.newaxis]
        column = (by_table - given_u * row).sum(axis=0)
        joint = p * given_u
        # States of v are linked through those of u: the sum of joint probabilities over p.
        _solve(np.einsum("sip,sjp->ijp", joint, given_u), column)
        # What rows and columns are scaled by follows theta: the implicit function.
        by_row = row / p - (given_u * column).sum(axis=1)[:, np.newaxis]
        by_theta[u, v] = by_table - joint * (by_row + column)
        np.subtract.at(by_single, u[:, 0], (joint * column).sum(axis=1))
        np.subtract.at(by_single, v[0], (joint * by_row).sum(axis=0))
