"""Pools of members, row by row."""

import math


def pooled_probabilities(log_odds, weights, offsets, prior, seen):
    """Probabilities of the classes of one row.

    ``log_odds[m][c]`` is what member m adds to the log of the prior of class c.
    """
    if seen == 0.0:
        return list(prior)
    score = [
        math.log(prior[c])
        + seen * offsets[c]
        + sum(weight * member[c] for weight, member in zip(weights, log_odds))
        for c in range(len(prior))
    ]
    total = sum(math.exp(value) for value in score)
    return [math.exp(value) / total for value in score]


def penalised_loss(log_odds, weights, offsets, prior, seen, label, row_weight):
    """Log loss of all rows, and ten times the squares of offsets and of weights less equal ones."""
    loss = 0.0
    for odds, share, own, count in zip(log_odds, seen, label, row_weight):
        loss -= count * math.log(pooled_probabilities(odds, weights, offsets, prior, share)[own])
    loss += 10.0 * sum((w - 1.0 / len(weights)) ** 2 for w in weights)
    return loss + 10.0 * sum(b**2 for b in offsets)
