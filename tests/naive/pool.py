"""Pools of members, row by row."""

import math

import numpy as np

from skpc.pooling.pool import OutOfFold


def pooled_probabilities(log_odds, weights, offsets, prior, seen):
    """Probabilities of the classes of one row.

    ``log_odds[m][c]`` is what member m adds to the log of the prior of class c, with weights of
    its own for empty rows and for complete ones.
    """
    if seen == 0.0:
        return list(prior)
    score = [
        math.log(prior[c])
        + seen * offsets[c]
        + sum(
            ((1.0 - seen) * u + seen * v) * member[c]
            for u, v, member in zip(weights[0], weights[1], log_odds)
        )
        for c in range(len(prior))
    ]
    total = sum(math.exp(value) for value in score)
    return [math.exp(value) / total for value in score]


def penalised_loss(log_odds, weights, offsets, prior, seen, label, row_weight):
    """Log loss of all rows, and what is added for offsets, and for weights that are not equal."""
    loss = 0.0
    for odds, share, own, count in zip(log_odds, seen, label, row_weight):
        loss -= count * math.log(pooled_probabilities(odds, weights, offsets, prior, share)[own])
    for u, v in zip(*weights):
        loss += 10.0 * ((u + v) / 2 - 1.0 / len(weights[0])) ** 2 + 3.0 * (u - v) ** 2
    return loss + 10.0 * sum(b**2 for b in offsets)


def honest_pool(data, members, folds, seeds):
    """The pool whose members have learned each fold from a table without the rows of the fold."""
    predictions = [[] for _ in members]
    for fold in folds:
        kept = fold.train_weight > 0.0
        of_rows = {"rows", "code", "values"} & set(data._fields)
        rest = data._replace(**{name: getattr(data, name)[kept] for name in of_rows})
        if "events" in data._fields:
            rest = rest._replace(events=data.events.take(np.flatnonzero(kept)))
        rest = rest.without(fold._replace(train_weight=fold.train_weight[kept]))
        for found, member, seed in zip(predictions, members, seeds):
            learned = rest.fit(member, fold.train_weight[kept], [seed])
            found.append(data.predict(learned, fold))
    by_kind = [
        np.stack([np.concatenate(of_folds) for of_folds in of_members], axis=1)
        for of_members in zip(*(zip(*found) for found in predictions))
    ]
    of_tests = [np.concatenate(parts) for parts in zip(*(fold[1:] for fold in folds))]
    is_density = np.array([member.is_density for member in members])
    mixture = is_density / is_density.sum()
    return data.weigh(mixture, OutOfFold(tuple(by_kind), *of_tests))
