"""Slow truth: EM of one Gaussian of a table with missing cells, row by row."""

import numpy as np

from tests.naive.gaussians import conditional


def indicators(rows, n_states):
    """Numbers (n_states 0) as they are, an indicator for each state; NaN where missing."""
    columns = []
    for column, n in zip(rows.T, n_states):
        if n == 0:
            columns.append(column)
        for state in range(n):
            columns.append([np.nan if np.isnan(cell) else float(cell == state) for cell in column])
    return np.array(columns).T


def one_gaussian(table, weight, strength, n_steps):
    """EM from independent columns; ``strength`` rows a column without correlations are added."""
    known = [~np.isnan(column) for column in table.T]
    mean = np.array([np.average(c[k], weights=weight[k]) for c, k in zip(table.T, known)])
    prior = np.diag(
        [np.average((c[k] - m) ** 2, weights=weight[k]) for c, k, m in zip(table.T, known, mean)]
    )
    covariance, added = prior, strength * table.shape[1]
    for _ in range(n_steps):
        parts = [conditional(row, mean, covariance) for row in table]
        filled = np.array([row for row, _ in parts])
        mean = weight @ filled / weight.sum()
        scatter = sum(
            w * (np.outer(row - mean, row - mean) + spread)
            for w, row, (_, spread) in zip(weight, filled, parts)
        )
        covariance = (scatter + added * prior) / (weight.sum() + added)
    return mean, covariance
