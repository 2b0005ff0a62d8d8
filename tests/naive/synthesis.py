"""Rules and measures of synthetic tables, in loops over lists of rows (None where missing)."""

from collections import Counter


def shape_of_categories(real, drawn):
    """One less the total variation distance."""
    real, drawn = ([value for value in one if value is not None] for one in (real, drawn))
    of_real, of_drawn = Counter(real), Counter(drawn)
    values = set(of_real) | set(of_drawn)
    apart = sum(abs(of_real[v] / len(real) - of_drawn[v] / len(drawn)) for v in values)
    return 1 - apart / 2


def shape_of_numbers(real, drawn):
    """One less the greatest difference of the shares of values that are not greater."""
    real, drawn = ([value for value in one if value is not None] for one in (real, drawn))
    gaps = []
    for value in real + drawn:
        below = [sum(v <= value for v in one) / len(one) for one in (real, drawn)]
        gaps.append(abs(below[0] - below[1]))
    return 1 - max(gaps)


def bin_of(value, real):
    """The bin of a number among ten of equal width, the outer ones without ends."""
    if value is None:
        return None
    real = [v for v in real if v is not None]
    width = (max(real) - min(real)) / 10
    return sum(value >= min(real) + k * width for k in range(1, 10))


def trend_with_category(real_pairs, drawn_pairs):
    """Total variation of pairs; missing cells are a value of their own."""
    of_real, of_drawn = Counter(real_pairs), Counter(drawn_pairs)
    pairs = set(of_real) | set(of_drawn)
    n_real, n_drawn = len(real_pairs), len(drawn_pairs)
    return 1 - sum(abs(of_real[p] / n_real - of_drawn[p] / n_drawn) for p in pairs) / 2


def breaks(rule, rows, real_rows):
    """Which rows break a rule; rows are dicts."""
    a, kind, b, *condition = rule
    result = []
    for row in rows:
        if "if" in condition:
            name, value = condition[1], condition[3]
            result.append(row[name] == value and row[a] is not None and row[a] != b)
        elif kind == "determines":
            known = [r[b] for r in real_rows if r[a] == row[a] and None not in (r[a], r[b])]
            usual = Counter(known).most_common(1)[0][0] if known else None
            result.append(None not in (usual, row[b]) and row[b] != usual)
        else:
            parts = [row[name] for name in (b[1:] if isinstance(b, tuple) else [b])]
            parts += condition[1:]
            if row[a] is None or None in parts:
                result.append(False)
            elif kind == "<=":
                result.append(row[a] > parts[0])
            else:
                result.append(abs(row[a] - sum(parts)) > 1e-9)
    return result
