"""Slow truth: a mixture of trees of the same edges, by listing all completions of a row."""

from __future__ import annotations

from itertools import product
from math import exp, log


def posterior(trees, cells):
    """Probability of each component and completion of a row of states, -1 where missing."""
    choices = [range(k) if cell < 0 else [cell] for k, cell in zip(trees.n_states, cells)]
    found = {}
    for component in range(len(trees.share)):
        for states in product(*choices):
            found[component, states] = joint(trees, component, states)
    total = sum(found.values())
    return {key: value / total for key, value in found.items()}


def joint(trees, component, states):
    """Probability of a component and a complete row of states."""
    probability = trees.share[component]
    for column, above, table in zip(trees.column, trees.above, trees.tables(trees.prob)):
        row = 0 if above < 0 else states[above]
        probability *= table[row, states[column], component]
    return probability


def log_weights(trees, cells):
    """Logarithms of the weights of the components given any number of cells, up to a constant."""
    found = []
    tables = [table.tolist() for table in trees.tables(trees.prob)]
    for component, share in enumerate(trees.share):
        below = [[0.0] * n for n in trees.n_states]
        for i in range(len(trees.column) - 1, -1, -1):
            column, above = trees.column[i], trees.above[i]
            states = range(trees.n_states[column]) if cells[column] < 0 else [cells[column]]
            messages = []
            for row in tables[i]:
                terms = [log(row[s][component]) + below[column][s] for s in states]
                messages.append(max(terms) + log(sum(exp(x - max(terms)) for x in terms)))
            if above >= 0:
                below[above] = [a + b for a, b in zip(below[above], messages)]
        found.append(log(share) + messages[0])
    return found


def smoothed(table, ess, strength):
    """A table of counts, smoothed by an even one over all components and by rows like all rows."""
    n_rows, n_states, n_components = table.shape
    whole = [
        [sum(table[p, s]) + ess / (n_rows * n_states) for s in range(n_states)]
        for p in range(n_rows)
    ]
    total = sum(map(sum, whole))
    found = []
    for component in range(n_components):
        for p in range(n_rows):
            cells = [
                table[p, s, component] + strength * whole[p][s] / total for s in range(n_states)
            ]
            found.append([cell / sum(cells) for cell in cells])
    return found
