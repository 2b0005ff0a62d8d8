"""Count tables, mutual information and spanning trees, the slow way.

Rows are lists of (codes, weight), -1 is missing, tables are lists of rows of counts.
"""

import math


def state_counts(rows, variable, k):
    """Weight in each state, scaled up for the rows in which it is missing."""
    counts = [0.0] * k
    for codes, weight in rows:
        if codes[variable] >= 0:
            counts[codes[variable]] += weight
    return scaled([counts], sum(weight for _, weight in rows))[0]


def pair_table(rows, i, j, n_states):
    """Weights of the states of i and j, scaled up for the rows in which one is missing."""
    table = [[0.0] * n_states[j] for _ in range(n_states[i])]
    for codes, weight in rows:
        if codes[i] >= 0 and codes[j] >= 0:
            table[codes[i]][codes[j]] += weight
    return scaled(table, sum(weight for _, weight in rows))


def scaled(table, total):
    seen = sum(map(sum, table))
    return [[c * total / seen if seen > 0 else 0.0 for c in row] for row in table]


def smoothed(table, pseudo_count):
    return [[c + pseudo_count for c in row] for row in table]


def mutual_information(table):
    total = sum(map(sum, table))
    in_row = [sum(row) for row in table]
    in_column = [sum(column) for column in zip(*table)]
    return sum(
        c / total * math.log(c * total / (in_row[s] * in_column[t]))
        for s, row in enumerate(table)
        for t, c in enumerate(row)
        if c > 0
    )


def evidence(rows, i, j, n_states, n_columns):
    """What i and j tell of each other where both are seen (nats), scaled up to all rows.

    Each cell is predicted by the others of its row of the table and by one like the column.
    """
    table, total = [[0.0] * n_states[j] for _ in range(n_states[i])], 0.0
    for codes, weight in rows:
        if codes[i] >= 0 and codes[j] >= 0:
            table[codes[i]][codes[j]] += weight
            total += weight
    told = 0.0
    for part in (table, list(zip(*table))):
        share = [sum(column) / total for column in zip(*part)]
        for row in part:
            for count, of_column in zip(row, share):
                if count > 0.0:
                    others = max(count - 1.0, 0.0) + of_column
                    of_row = max(sum(row) - 1.0, 0.0) + 1.0
                    told += 0.5 * count * math.log(others / of_row / of_column)
    by_chance = math.log(n_columns)
    return (told - by_chance) * sum(weight for _, weight in rows) / total


def information(rows, i, j, n_states, pseudo_count, n_columns):
    """Mutual information times the weight of the rows; evidence by the share that lacks a cell."""
    total = sum(weight for _, weight in rows)
    both = sum(weight for codes, weight in rows if codes[i] >= 0 and codes[j] >= 0)
    if both == 0.0:
        return 0.0
    table = smoothed(pair_table(rows, i, j, n_states), pseudo_count)
    plain = total * mutual_information(table)
    if both == total:
        return plain
    return (both * plain + (total - both) * evidence(rows, i, j, n_states, n_columns)) / total


def untold(parent, rows, weights):
    """Parents, None where they tell nothing; that is asked if any cell is missing."""
    if all(codes[v] >= 0 for codes, _ in rows for v in parent):
        return parent
    told = {v: p is not None and weights[min(v, p), max(v, p)] > 0.0 for v, p in parent.items()}
    return {v: p if told[v] else None for v, p in parent.items()}


def conditional_entropy(table, pseudo_count):
    """Entropy of the column given the row: smoothed entropies, weighted by raw counts."""
    spread = 0.0
    for row in table:
        total = sum(row) + pseudo_count * len(row)
        p = [(c + pseudo_count) / total for c in row]
        spread -= sum(row) * sum(x * math.log(x) for x in p)
    return spread


def spanning_edges(vertices, weight):
    """Edges of the maximum spanning tree, by Kruskal; ``weight`` takes a pair (i < j)."""
    part = {v: {v} for v in vertices}
    edges = set()
    pairs = [(i, j) for i in vertices for j in vertices if i < j]
    for i, j in sorted(pairs, key=weight, reverse=True):
        if part[i] is not part[j]:
            edges.add((i, j))
            part[i] |= part[j]
            for v in part[j]:
                part[v] = part[i]
    return edges


def directed(vertices, edges):
    """Parents when the tree hangs from its first vertex, whose parent is None."""
    parent = {vertices[0]: None}
    while len(parent) < len(vertices):
        for i, j in edges:
            if i in parent and j not in parent:
                parent[j] = i
            if j in parent and i not in parent:
                parent[i] = j
    return parent
