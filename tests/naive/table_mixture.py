"""Slow truth: a mixture of Gaussians of scores and tables of states, one row at a time.

A component is a dict: its weight, mean, covariance, pairs (width, part), and tables: one list of
probabilities for each column of states. Rows are pairs of scores (NaN where missing) and states (-1
where missing).
"""

from __future__ import annotations

import math

import numpy as np

from tests.naive import column_laws, gaussians

#: Multiples of rows like the column to choose from.
FACTORS = [10.0 ** (k / 2) for k in range(7)]
#: Standard deviations and weights of the background.
NORMALS = [
    (0.7, 0.278),
    (1.1, 0.401),
    (1.8, 0.239),
    (3.2, 0.071),
    (7.0, 0.0107),
    (20.0, 0.0006),
    (80.0, 0.00001),
]


def of_states(tables, states):
    """Probability of the observed states."""
    return math.prod(table[s] for table, s in zip(tables, states) if s >= 0)


def parts(component, scores, states):
    """Density of a row, times the weights, under the Gaussian of each width."""
    found = []
    for width, part in component["widths"]:
        covariance = width**2 * component["covariance"]
        density = math.exp(gaussians.log_density(scores, component["mean"], covariance))
        tables = of_states(component["tables"], states)
        found.append(component["weight"] * part * density * tables)
    return found


def background(scores, states, centre, scale, shares):
    """Density of a row whose cells are independent."""
    found, total = of_states(shares, states), sum(weight for _, weight in NORMALS)
    for z, c, s in zip(scores, centre, scale):
        if not math.isnan(z):
            normals = [
                weight
                * math.exp(gaussians.log_normal(np.array([z - c]), 0.0, np.eye(1) * (s * sd) ** 2))
                for sd, weight in NORMALS
            ]
            found *= sum(normals) / total
    return found


def em_step(components, rows, weight, of_background, background_weight, shares):
    """Weights, parts, means and tables after a step, and mean squares around the means.

    The latter are pairs of a count and a matrix: what covariances are made of. Tables have one more
    row that is distributed like the column, parts two rows like the other components.
    """
    shared = []
    for (scores, states), outside in zip(rows, of_background):
        inside = [np.array(parts(component, scores, states)) for component in components]
        total = (1 - background_weight) * sum(map(sum, inside)) + background_weight * outside
        shared.append([(1 - background_weight) * each / total for each in inside])
    counts = [sum(w * s[k] for w, s in zip(weight, shared)) for k in range(len(components))]
    part = [[sum(s[k]) for k in range(len(components))] for s in shared]
    by_column = [
        _tables([states[t] for _, states in rows], part, weight, share)
        for t, share in enumerate(shares)
    ]
    whole = sum(counts)
    found = []
    for k, component in enumerate(components):
        told, mean = 0.0, np.zeros(len(component["mean"]))
        square, widths = np.zeros((len(mean), len(mean))), [w for w, _ in component["widths"]]
        filled = []
        for (scores, _), w, s in zip(rows, weight, shared):
            expected, spread = gaussians.conditional(
                scores, component["mean"], component["covariance"]
            )
            for width, share in zip(widths, w * s[k]):
                filled.append((share / width**2, expected, share * spread))
        told = sum(u for u, _, _ in filled)
        mean = sum(u * expected for u, expected, _ in filled) / told
        for u, expected, spread in filled:
            square += u * np.outer(expected - mean, expected - mean) + spread
        tables = [of_column[k] for of_column in by_column]
        like = sum(whole) if np.ndim(whole) else whole
        part = (counts[k] + 2.0 * whole / like) / (sum(counts[k]) + 2.0)
        found.append(
            {
                "weight": sum(counts[k]) / like,
                "mean": mean,
                "tables": tables,
                "widths": list(zip(widths, part)),
                "count": sum(counts[k]),
                "square": square,
            }
        )
    return found


def _tables(states, part, weight, share):
    """The tables of a column: with one row like it, and with more where cells are missing.

    ``part`` is how each row belongs to the components.
    """
    n_components = len(part[0])
    counts = np.zeros((n_components, len(share)))
    squares = np.zeros(n_components)
    for state, s, w in zip(states, part, weight):
        squares += w * np.array(s) ** 2 / sum(s)
        if state >= 0:
            counts[:, state] += w * np.array(s)
    mass = sum(w * np.array(s) for s, w in zip(part, weight))
    added = np.array(share, dtype=float)
    if min(states) < 0:
        # What one row adds to a table: less than one where rows are divided among components.
        units = np.tile((squares / mass)[:, np.newaxis], len(share))
        added = added + column_laws.like_column(counts.tolist(), mass, share, units, FACTORS)
    tables = counts + added
    return tables / tables.sum(axis=1, keepdims=True)


def drawn_moments(rows, rng):
    """A mean and a covariance from their posterior given complete rows, under Jeffreys' prior.

    The precision is the sum of squares of n - 1 normal draws, whose covariance is the inverse of
    the scatter.
    """
    centred = rows - rows.mean(axis=0)
    inverse = np.linalg.inv(centred.T @ centred)
    draws = rng.multivariate_normal(np.zeros(rows.shape[1]), inverse, len(rows) - 1)
    covariance = np.linalg.inv(sum(np.outer(draw, draw) for draw in draws))
    return rng.multivariate_normal(rows.mean(axis=0), covariance / len(rows)), covariance


def explained(rows, column):
    """Adjusted share of the variance of a column that a regression on the others explains."""
    n_rows, n_columns = rows.shape
    others = np.column_stack([np.ones(n_rows), np.delete(rows, column, axis=1)])
    rest = rows[:, column] - others @ np.linalg.lstsq(others, rows[:, column], rcond=None)[0]
    alone = rest @ rest / (n_rows - n_columns)
    return 1.0 - alone / rows[:, column].var(ddof=1)


def factored(covariance, n_factors, n_steps):
    """L L' + Psi after some steps, from all eigenvectors (Barber, algorithm 21.1)."""
    noise = 0.5 * np.diag(covariance)
    for _ in range(n_steps):
        root = np.sqrt(noise)
        strength, vectors = np.linalg.eigh(covariance / np.outer(root, root))
        strength, vectors = strength[-n_factors:], vectors[:, -n_factors:]
        loadings = root[:, None] * vectors * np.sqrt(np.maximum(strength - 1.0, 0.0))
        noise = np.diag(covariance) - (loadings**2).sum(axis=1)
    return loadings @ loadings.T + np.diag(noise)
