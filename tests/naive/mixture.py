"""Slow truth: structural EM of a mixture, one row and one component at a time."""

from __future__ import annotations

import math

import numpy as np

from tests.naive.circuit import density


def structural_em(rows, codes, weight, share, learn, build, n_iter):
    """Bound (nats per row) and component weights of each iterate, from given responsibilities."""
    iterates = []
    n_rows, n_components = share.shape
    for _ in range(n_iter):
        total = [sum(weight[r] * share[r, c] for r in range(n_rows)) for c in range(n_components)]
        weights = [part / sum(total) for part in total]
        circuits = [build(learn(codes, weight * share[:, c])) for c in range(n_components)]
        bound, share = 0.0, np.zeros_like(share)
        for r in range(n_rows):
            joint = [w * density(circuit, rows[r]) for w, circuit in zip(weights, circuits)]
            bound += weight[r] * math.log(sum(joint)) / sum(weight)
            share[r] = [part / sum(joint) for part in joint]
        iterates.append((bound, weights))
    return iterates
