"""Slow truth: the discrete Stein operators by enumeration of all states.

A Stein operator is written as its terms: T f(x) = sum_i sum_t c_t f_i(y_t).
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import nnls

State = tuple[int, ...]


def all_states(n_states) -> list[State]:
    return list(itertools.product(*(range(size) for size in n_states)))


def moved(x: State, i: int, step: int, n_states) -> State:
    return (*x[:i], (x[i] + step) % n_states[i], *x[i + 1 :])


def terms(p: dict[State, float], x: State, i: int, n_states, operator: str):
    """Coefficients and points of T f in its i-th part."""
    forward, back = moved(x, i, 1, n_states), moved(x, i, -1, n_states)
    if operator == "ratio":
        return [(1.0, back), (-p[forward] / p[x], x)]
    return [(p[back] / (p[x] + p[back]), back), (-p[forward] / (p[x] + p[forward]), x)]


def apply(p, f, x: State, n_states, operator: str) -> float:
    """T f(x) for functions f[i]."""
    return sum(
        c * f[i][y] for i in range(len(n_states)) for c, y in terms(p, x, i, n_states, operator)
    )


def stein_kernel(p, kernel, x: State, y: State, n_states, operator: str) -> float:
    """k_p(x, y): the operator applied to both arguments of the kernel."""
    return sum(
        c * d * kernel[u, v]
        for i in range(len(n_states))
        for c, u in terms(p, x, i, n_states, operator)
        for d, v in terms(p, y, i, n_states, operator)
    )


def kernel_table(kernel, n_states) -> dict[tuple[State, State], float]:
    """The values of a kernel between all states."""
    states = all_states(n_states)
    gram = kernel(np.array(states, dtype=float))
    return {(x, y): gram[a, b] for a, x in enumerate(states) for b, y in enumerate(states)}


def completions(p, row, n_states) -> dict[State, float]:
    """States that agree with a row (None: collapsed), with their conditional probabilities."""
    found = {x: p[x] for x in all_states(n_states) if agrees(x, row)}
    total = sum(found.values())
    return {x: value / total for x, value in found.items()}


def agrees(x: State, row) -> bool:
    return all(known is None or known == s for s, known in zip(x, row))


def averaged_stein_kernel(p, kernel, row, other, n_states, operator: str) -> float:
    """The mean of k_p over the completions of two collapsed rows."""
    return sum(
        c * d * stein_kernel(p, kernel, x, y, n_states, operator)
        for x, c in completions(p, row, n_states).items()
        for y, d in completions(p, other, n_states).items()
    )


def marginal_terms(p, row, i: int, n_states):
    """Barker's operator on the marginal of the sampled variables, f_i averaged over the others."""
    if row[i] is None:
        return []
    forward, back = moved(row, i, 1, n_states), moved(row, i, -1, n_states)
    here, ahead, behind = (
        math.fsum(p[x] for x in all_states(n_states) if agrees(x, r)) for r in (row, forward, back)
    )
    found = [(behind / (here + behind) * c, x) for x, c in completions(p, back, n_states).items()]
    found += [(-ahead / (here + ahead) * c, x) for x, c in completions(p, row, n_states).items()]
    return found


def marginal_stein_kernel(p, kernel, row, other, n_states) -> float:
    return sum(
        c * d * kernel[x, y]
        for i in range(len(n_states))
        for c, x in marginal_terms(p, row, i, n_states)
        for d, y in marginal_terms(p, other, i, n_states)
    )


def least_on_simplex(gram: np.ndarray) -> np.ndarray:
    """Weights on the simplex with the least ``w' K w``, by non-negative least squares.

    With ``K = A' A``, the solution of ``A u = 0`` and ``sum(u) = 1`` is a multiple of the best
    weights: for ``u = s w`` the squares add up to ``s^2 w' K w + (s - 1)^2``, which is least where
    ``w' K w`` is, whatever s.
    """
    scale = float(np.mean(np.diag(gram)))
    length, direction = np.linalg.eigh(gram / (scale or 1.0))
    # Directions that hold nothing but rounding would leave the weights arbitrary.
    root = np.sqrt(np.maximum(length, 1e-14 * length[-1])) * direction
    equations = np.vstack([root.T, np.ones(len(gram))])
    weights, _ = nnls(equations, np.append(np.zeros(len(gram)), 1.0), maxiter=10 * len(gram))
    return weights / weights.sum()
