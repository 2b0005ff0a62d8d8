"""Tables of a column that has missing cells, the slow way: one table and one cell at a time."""

import math


def evidence(tables, added, units):
    """Log probability (nats) of all cells, each predicted by the others of its table.

    ``added`` and ``units`` are tables too: pseudo-counts, and what one row adds to each cell.
    """
    total = 0.0
    for counts, more, of_row in zip(tables, added, units):
        for count, pseudo, unit in zip(counts, more, of_row):
            if count > 0.0:
                others = max(count - unit, 0.0) + pseudo
                total += count * math.log(others / (max(sum(counts) - unit, 0.0) + sum(more)))
    return total


def best_factor(tables, added, units, factors):
    """The greatest factor, unless another is better by more than the log of their number."""
    scores = [evidence(tables, [[f * x for x in row] for row in added], units) for f in factors]
    scores[-1] += math.log(len(factors))
    return factors[scores.index(max(scores))]


def like_column(tables, mass, share, units, factors, n_steps=3):
    """Pseudo-counts of the tables of one column; ``mass`` has all rows of each table."""
    law, missing = list(share), 1.0 - sum(map(sum, tables)) / sum(mass)
    for _ in range(n_steps):
        factor = best_factor(tables, [law] * len(tables), units, factors)
        before, law = law, [0.0] * len(law)
        for counts, rows in zip(tables, mass):
            for j, count in enumerate(counts):
                law[j] += rows * (count + factor * before[j]) / (sum(counts) + factor)
        law = [x / sum(law) for x in law]
    return [missing * factor * x for x in law]
