"""Slow truths about columns, axes and merged rows: one cell at a time."""

import math
from fractions import Fraction

import numpy as np
from scipy.linalg import expm


def is_missing(cell):
    return cell is None or cell != cell


def encode(table, categories):
    """Encode a list of rows; ``categories`` holds a list of states or None for each column."""
    rows = []
    for cells in table:
        row = []
        for cell, states in zip(cells, categories):
            if is_missing(cell):
                row.append(math.nan)
            elif states is None:
                row.append(float(cell))
            else:
                row.append(float(states.index(cell)) if cell in states else math.nan)
        rows.append(row)
    return rows


def are_cells(rows, n_states):
    """Whether every cell is missing, a code below ``n_states``, or finite where that is 0."""
    return all(
        is_missing(cell) or (cell in range(n) if n else math.isfinite(cell))
        for row in rows
        for cell, n in zip(row, n_states)
    )


def merge(rows, weight):
    """Map each distinct row of positive weight to the exact sum of its weights."""
    total = {}
    for row, w in zip(rows, weight):
        if w > 0:
            key = tuple("missing" if cell != cell else cell + 0.0 for cell in row)
            total[key] = total.get(key, Fraction(0)) + Fraction(w)
    return {key: float(sum_) for key, sum_ in total.items()}


def smoothed(place, mass, n_cells, bandwidths, tied):
    """Masses of cells, smoothed by the bandwidth of the greatest leave-one-out likelihood.

    Each row spreads like heat along the cells, whose ends let nothing out. One row of a value is
    left out if ties belong to the column, else all of them.
    """
    total, best, chosen = sum(mass), -math.inf, None
    background = 1.0 / (n_cells * (total + 1.0))
    to_neighbours = np.eye(n_cells, k=1) + np.eye(n_cells, k=-1)
    flow = to_neighbours - np.diag(to_neighbours.sum(axis=0))
    for bandwidth in bandwidths:
        spread = expm(0.5 * bandwidth**2 * flow)
        found = [sum(m * spread[p][cell] for p, m in zip(place, mass)) for cell in range(n_cells)]
        likelihood = 0.0
        for p, m in zip(place, mass):
            out = min(m, 1.0) if tied else m
            left = max(found[p] - out * spread[p][p], 0.0) / (total - out)
            likelihood += m * math.log(left + background)
        if likelihood > best:
            best, chosen = likelihood, [mass / total + background for mass in found]
    return [mass / sum(chosen) for mass in chosen]


def quantile(values, weight, numerator, denominator):
    """The ``inverted_cdf`` quantile of values repeated as whole-number weights say."""
    expanded = sorted(v for v, w in zip(values, weight) for _ in range(int(w)))
    rank = max(math.ceil(Fraction(numerator * len(expanded), denominator)), 1)
    return expanded[rank - 1]


def state(edges, x):
    """The state of a number on a histogram axis."""
    return sum(1 for edge in edges if x >= edge)


def mean_excess(values, weight, edge, side):
    """Weighted mean distance beyond an edge: side -1 lies below it, +1 from it on."""
    pairs = [
        (abs(v - edge), w) for v, w in zip(values, weight) if (v < edge if side < 0 else v >= edge)
    ]
    return sum(e * w for e, w in pairs) / sum(w for _, w in pairs)


def log_density(axis, probabilities, x):
    """Log density of a number under a histogram with exponential tails."""
    edges, lower_scale, upper_scale = axis[:3]
    if x < edges[0]:
        return math.log(probabilities[0] / lower_scale) - (edges[0] - x) / lower_scale
    if x >= edges[-1]:
        return math.log(probabilities[-1] / upper_scale) - (x - edges[-1]) / upper_scale
    s = state(edges, x)
    return math.log(probabilities[s] / (edges[s] - edges[s - 1]))


def n_bins_allowed(total_weight, n_bins):
    """Bins of which a pair of columns still has eight rows for each pair of states."""
    allowed = [b for b in range(1, n_bins + 1) if 8 * (b + 2) ** 2 <= total_weight]
    return max(allowed, default=1)


def colours(rows, weight, is_categorical):
    """Colours of columns and rows: equal where nothing in the table tells two of them apart."""
    ranks = []
    for column, is_category in zip(zip(*rows), is_categorical):
        values = sorted({cell for cell in column if not is_missing(cell)})
        rank = [-1 if is_missing(cell) else values.index(cell) for cell in column]
        ranks.append([-1 if is_missing(c) else c for c in column] if is_category else rank)
    of_columns, of_rows = list(map(str, is_categorical)), list(map(str, weight))
    for _ in range(len(rows) + len(ranks)):
        pairs = [sorted(zip(of_rows, map(str, column))) for column in ranks]
        of_columns = [str(hash((old, *new))) for old, new in zip(of_columns, pairs)]
        pairs = [sorted(zip(of_columns, map(str, row))) for row in zip(*ranks)]
        of_rows = [str(hash((old, *new))) for old, new in zip(of_rows, pairs)]
    return of_columns, of_rows
