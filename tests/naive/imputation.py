"""Rubin's rules written out, one number at a time."""

import math


def combined(estimates: list[float], variances: list[float], df_complete: float) -> dict:
    """Estimate, total variance, degrees of freedom (Barnard, Rubin) and missing information."""
    m = len(estimates)
    mean = sum(estimates) / m
    within = sum(variances) / m
    between = sum((q - mean) ** 2 for q in estimates) / (m - 1)
    total = within + (1 + 1 / m) * between
    share = (1 + 1 / m) * between / total
    old = (m - 1) / share**2
    if math.isinf(df_complete):
        df = old
    else:
        observed = (df_complete + 1) / (df_complete + 3) * df_complete * (1 - share)
        df = old * observed / (old + observed)
    increase = (1 + 1 / m) * between / within
    fmi = (increase + 2 / (df + 3)) / (increase + 1)
    return {"estimate": mean, "variance": total, "df": df, "fmi": fmi}


def joint(estimates: list, covariances: list, df_complete: float) -> tuple[float, float]:
    """Statistic D1 and the degrees of freedom of two estimates, more than four of them within."""
    m, k = len(estimates), 2
    mean = [sum(q[i] for q in estimates) / m for i in range(k)]
    u = [[sum(c[i][j] for c in covariances) / m for j in range(k)] for i in range(k)]
    b = [
        [sum((q[i] - mean[i]) * (q[j] - mean[j]) for q in estimates) / (m - 1) for j in range(k)]
        for i in range(k)
    ]
    det = u[0][0] * u[1][1] - u[0][1] * u[1][0]
    inverse = [[u[1][1] / det, -u[0][1] / det], [-u[1][0] / det, u[0][0] / det]]
    trace = sum(b[i][j] * inverse[j][i] for i in range(k) for j in range(k))
    r = (1 + 1 / m) * trace / k
    square = sum(mean[i] * inverse[i][j] * mean[j] for i in range(k) for j in range(k))
    t = k * (m - 1)
    if math.isinf(df_complete):
        return square / (k * (1 + r)), 4 + (t - 4) * (1 + (1 - 2 / t) / r) ** 2
    v = (df_complete + 1) / (df_complete + 3) * df_complete
    a = r * t / (t - 2)
    c0, c1, c2 = 1 / (t - 4), v - 2 * (1 + a), v - 4 * (1 + a)
    z = 1 / c2 + c0 * (a**2 * c1 / ((1 + a) ** 2 * c2))
    z += c0 * (8 * a**2 * c1 / ((1 + a) * c2**2) + 4 * a**2 / ((1 + a) * c2))
    z += c0 * (4 * a**2 / (c2 * c1) + 16 * a**2 * c1 / c2**3) + c0 * (8 * a**2 / c2**2)
    return square / (k * (1 + r)), 4 + 1 / z


def distance(x: list, y: list, spread: list) -> float:
    """Of two rows: numbers in units of their spread; categories (no spread) by two indicators."""
    square = 0.0
    for a, b, unit in zip(x, y, spread):
        square += 2.0 * (a != b) if unit is None else ((a - b) / unit) ** 2
    return math.sqrt(square)


def energy_distance(complete: list, imputed: list, spread: list) -> float:
    """Double sums over rows."""

    def mean(rows: list, others: list) -> float:
        total = sum(distance(x, y, spread) for x in rows for y in others)
        return total / (len(rows) * len(others))

    return 2 * mean(complete, imputed) - mean(complete, complete) - mean(imputed, imputed)


def energy_score(truth: list, draws: list, spread: list) -> float:
    """Of one row, by the double sum over its draws."""
    n = len(draws)
    between = sum(distance(z, truth, spread) for z in draws) / n
    return between - sum(distance(z, y, spread) for z in draws for y in draws) / (2 * n**2)


def energy_i_score(table, draw, n_draws: int) -> float:
    """Of a pandas DataFrame; ``draw`` takes one and a number, and returns so many of them."""
    completed = draw(table, 2)[0]
    total = total_weight = 0.0
    for name in table:
        lost = [i for i in table.index if table[name].isna()[i]]
        test = [i for i in table.index if i not in lost]
        if len(lost) < 10:
            continue
        weight = len(lost) * len(test) / len(table) ** 2
        beside = {
            other: [i for i in test if table[other].notna()[i]] for other in table if other != name
        }
        if not any(len(rows) == len(test) for rows in beside.values()):
            test = max(beside.values(), key=len)
        predictors = [other for other in beside if all(i in beside[other] for i in test)]
        part = completed[[name, *predictors]].copy()
        part.loc[test, name] = None
        spread = None if table[name].dtype == "category" else table[name].std(ddof=0)
        tables = draw(part, n_draws)
        scores = [
            energy_score([table[name][i]], [[drawn[name][i]] for drawn in tables], [spread])
            for i in test
        ]
        total += weight * sum(scores) / len(scores)
        total_weight += weight
    return total / total_weight
