"""Beliefs of missing cells on average over all trees, a message at a time."""

import numpy as np


def beliefs(tables, into, code, rounds=3):
    """Probabilities of the states of each variable, the root last, as lists of arrays."""
    n = len(into)
    states = [np.arange(a, b) for a, b in zip(tables.ptr, tables.ptr[1:])]
    given = [
        [tables.conditional[np.ix_(b, a)] if v < n else None for a in states]
        for v, b in enumerate(states)
    ]
    code = [*code, 0]
    missing = [v for v in range(n) if code[v] < 0]
    below = [
        np.ones(len(s)) if v in missing else np.eye(len(s))[code[v]] for v, s in enumerate(states)
    ]
    belief = [given[v][n][:, 0] if v in missing else below[v] for v in range(n + 1)]
    for _ in range(rounds):
        told = [[below[v] @ given[v][u] for u in range(n + 1)] for v in range(n)]
        average = np.array([[told[v][u] @ belief[u] for u in range(n + 1)] for v in range(n)])
        posterior = _edges(into * average)
        fresh = list(belief)
        for v in missing:
            child = [
                _as_child(told[c][v] / average[c, v], posterior, c, v)
                if c not in (v, n)
                else np.ones(len(states[v]))
                for c in range(n + 1)
            ]
            below_v = np.prod(child, axis=0)
            heard = sum(
                posterior[v, u] / average[v, u] * (given[v][u] @ belief[u]) * below_v / child[u]
                for u in range(n + 1)
                if u != v
            )
            fresh[v], below[v] = heard / heard.sum(), below_v
        belief = fresh
    return belief


def _as_child(ratio, posterior, c, v):
    return 1 + min(posterior[c, v] / (1 - posterior[v, c]), 1) * (ratio - 1)


def _edges(weight):
    """Probabilities of the edges of random trees, by the inverse of the Laplacian."""
    n = len(weight)
    weight = weight * (1 - np.eye(n, n + 1))
    inverse = np.linalg.inv(np.diag(weight.sum(axis=1)) - weight[:, :n])
    above = np.column_stack([inverse.T, np.zeros(n)])
    return weight * (np.diag(inverse)[:, np.newaxis] - above)
