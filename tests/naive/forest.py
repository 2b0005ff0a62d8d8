"""Generative forests, the slow way: tables along the paths of a tree, sums over all completions.

Columns are lists of bins in the order in which trees cut them: pairs (place, share). A tree is a
leaf (None), or a tuple (column, cut, left, right).
"""

import math
from itertools import product

TABLE_ROWS, CLASS_ROWS = 10.0, 0.3


def leaves_of(tree, columns, rows, by_class, n_classes):
    """Leaves as tuples (box, weight, shares of classes, tables).

    ``rows`` are tuples (cells, class, weight); a cell is the position of a bin, or None and the
    position that it was filled with. A box is a list of ranges of positions.
    """
    total = sum(weight for _, _, weight in rows)
    n_tables = n_classes if by_class else 1
    places = [{place for place, _ in column} for column in columns]
    uniform = [dict.fromkeys(of_column, 1.0 / len(of_column)) for of_column in places]
    of_all = count_tables(columns, rows, lambda c: 0, 1)[0]
    prior = [
        {place: of_all[j].get(place, 0.0) + uniform[j][place] for place in uniform[j]}
        for j in range(len(columns))
    ]
    box = [range(len(column)) for column in columns]
    class_prior = [1.0 / n_classes] * n_classes
    yield from _below(tree, columns, rows, box, [prior] * n_tables, class_prior, total, by_class)


def count_tables(columns, rows, table_of, n_tables):
    counts = [[{} for _ in columns] for _ in range(n_tables)]
    for cells, c, weight in rows:
        for j, cell in enumerate(cells):
            if isinstance(cell, int):
                table, place = counts[table_of(c)][j], columns[j][cell][0]
                table[place] = table.get(place, 0.0) + weight
    return counts


def _below(tree, columns, rows, box, prior, class_prior, total, by_class):
    n_classes = len(class_prior)
    counts = count_tables(columns, rows, (lambda c: c) if by_class else (lambda c: 0), len(prior))
    tables = [[blend(*pair) for pair in zip(*of)] for of in zip(counts, prior)]
    weight = sum(w for _, _, w in rows)
    of_class = [sum(w for _, c, w in rows if c == k) for k in range(n_classes)]
    shares = [(n + CLASS_ROWS * p) / (weight + CLASS_ROWS) for n, p in zip(of_class, class_prior)]
    if tree is None:
        yield box, weight / total, shares, tables
        return
    column, cut, *branches = tree
    for right, branch in enumerate(branches):
        some = [row for row in rows if (position(row[0][column]) > cut) == right]
        inner = list(box)
        first, last = box[column].start, box[column].stop
        inner[column] = range(cut + 1, last) if right else range(first, cut + 1)
        kept = [[dict(table) for table in of] for of in tables]
        for of in kept:
            of[column] = {
                place: p
                * inside(columns[column], inner[column], place)
                / inside(columns[column], box[column], place)
                for place, p in of[column].items()
                if inside(columns[column], inner[column], place) > 0.0
            }
        yield from _below(branch, columns, some, inner, kept, shares, total, by_class)


def position(cell):
    return cell if isinstance(cell, int) else cell[1]


def inside(column, positions, place):
    return sum(share for p, (at, share) in enumerate(column) if at == place and p in positions)


def blend(counts, prior):
    n, total = sum(counts.values()), sum(prior.values())
    return {
        place: (counts.get(place, 0.0) + TABLE_ROWS * p / total) / (n + TABLE_ROWS)
        for place, p in prior.items()
    }


def joint(leaves, columns, cells, c):
    """Probability of the bins of a row and a class; None in a row is summed over."""
    leaves = list(leaves)
    choices = [
        range(len(column)) if cell is None else [cell] for column, cell in zip(columns, cells)
    ]
    return math.fsum(_of_row(leaves, columns, row, c) for row in product(*choices))


def _of_row(leaves, columns, row, c):
    for box, weight, shares, tables in leaves:
        if all(cell in positions for cell, positions in zip(row, box)):
            density = weight * shares[c]
            for column, cell, positions, table in zip(columns, row, box, tables[c % len(tables)]):
                place, share = column[cell]
                density *= table[place] * share / inside(column, positions, place)
            return density
    raise AssertionError(f"no leaf has {row}")


def fill(bins, code, weight, uniform, first):
    """Missing cells (-1), drawn column by column from the known ones of the class, or of all."""
    filled, uniform = [list(row) for row in bins], iter(uniform)
    for column, nothing in enumerate(first):
        known = [i for i, row in enumerate(bins) if row[column] >= 0]
        known.sort(key=lambda i: code[i])
        for i, row in enumerate(bins):
            if row[column] < 0:
                donors = [k for k in known if code[k] == code[i]] or known
                u = next(uniform) * sum(weight[k] for k in donors)
                filled[i][column] = nothing
                for k in donors:
                    u -= weight[k]
                    if u < 0.0:
                        filled[i][column] = bins[k][column]
                        break
    return filled
