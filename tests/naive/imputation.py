"""Rubin's rules, and the regressions of chains, written out one number at a time."""

import math

import numpy as np
from scipy.optimize import minimize


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


def linear_posterior(design: list, values: list, weight: list) -> dict:
    """Mean of the coefficients, their covariance / sd^2, and sum of squares, under a flat prior."""
    rows = [i for i, w in enumerate(weight) for _ in range(int(w))]
    x, y = np.array([design[i] for i in rows]), np.array([values[i] for i in rows])
    inverse = np.linalg.inv(sum(np.outer(r, r) for r in x))
    mean = inverse @ sum(r * v for r, v in zip(x, y))
    squares = sum((v - r @ mean) ** 2 for r, v in zip(x, y))
    return {
        "mean": mean,
        "inverse": inverse,
        "squares": squares,
        "df": len(rows) - x.shape[1],
    }


def standardised(design, weight):
    """A design, but for its first column, with mean zero and variance one (weighted)."""
    scaled = np.array(design, dtype=float)
    for j in range(1, scaled.shape[1]):
        mean = sum(w * x for w, x in zip(weight, scaled[:, j])) / sum(weight)
        square = sum(w * (x - mean) ** 2 for w, x in zip(weight, scaled[:, j])) / sum(weight)
        scaled[:, j] = [(x - mean) / math.sqrt(square) for x in scaled[:, j]]
    return scaled


def logit_log_posterior(coefficients, design, states, weight, count, penalty) -> float:
    """Log-likelihood of a multinomial logit, less half the penalised squares of what is off."""
    total = 0.0
    for row, state, w in zip(design, states, weight):
        log_odds = [0.0, *(sum(c * x for c, x in zip(line, row)) for line in coefficients)]
        total += w * (log_odds[state] - math.log(sum(math.exp(v) for v in log_odds)))
    squares = 0.0
    for line, n in zip(coefficients, count[1:]):
        squares += (line[0] - math.log(n / count[0])) ** 2 + sum(c**2 for c in line[1:])
    return total - 0.5 * penalty * squares


def hazards_log_posterior(coefficients, design, times, is_event, weight, penalty) -> float:
    """Log partial likelihood with Breslow's ties, less half the penalised squares."""
    risk = [w * math.exp(row @ coefficients) for row, w in zip(design, weight)]
    total = 0.0
    for i, happened in enumerate(is_event):
        if happened:
            at_risk = sum(r for r, t in zip(risk, times) if t >= times[i])
            total += weight[i] * (design[i] @ coefficients - math.log(at_risk))
    return total - 0.5 * penalty * float(np.sum(np.square(coefficients)))


def breslow(coefficients, design, times, is_event, weight, at: float) -> float:
    """Cumulative baseline hazard until a time."""
    risk = [w * math.exp(row @ coefficients) for row, w in zip(design, weight)]
    total = 0.0
    for i, happened in enumerate(is_event):
        if happened and times[i] <= at:
            total += weight[i] / sum(r for r, t in zip(risk, times) if t >= times[i])
    return total


def mode(log_density, start) -> np.ndarray:
    """Where a log density is greatest, by scipy."""
    found = minimize(lambda x: -log_density(x), start, method="BFGS", options={"gtol": 1e-8})
    return found.x


def curvature(log_density, at, step=1e-3) -> np.ndarray:
    """Minus the second derivatives, by differences."""
    n = len(at)
    result = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            e, f = step * np.eye(n)[i], step * np.eye(n)[j]
            corners = (
                log_density(at + e + f)
                - log_density(at + e - f)
                - log_density(at - e + f)
                + log_density(at - e - f)
            )
            result[i, j] = -corners / (4.0 * step**2)
    return result


def donors(aims, predictions, n_donors: int) -> list[list[int]]:
    """The donors with the nearest predictions of each row (type-1 matching), ties in order."""
    chosen = []
    for aim in aims:
        distance = []
        for number, prediction in enumerate(predictions):
            distance.append((abs(prediction - aim), number))
        chosen.append([number for _, number in sorted(distance)[:n_donors]])
    return chosen


def cox(times, is_event, covariates) -> tuple[np.ndarray, np.ndarray]:
    """Log hazard ratios and their covariance, with Breslow's ties, by Newton's method."""
    order = np.argsort(-times)
    x, t, d = covariates[order], times[order], is_event[order]
    last = np.array([np.flatnonzero(t >= one).max() for one in t])
    beta = np.zeros(x.shape[1])
    for _ in range(30):
        risk = np.exp(x @ beta)
        s0 = np.cumsum(risk)[last]
        s1 = np.cumsum(risk[:, None] * x, axis=0)[last]
        s2 = np.cumsum(risk[:, None, None] * x[:, :, None] * x[:, None, :], axis=0)[last]
        mean = s1 / s0[:, None]
        slope = (x - mean)[d].sum(axis=0)
        second = s2 / s0[:, None, None] - mean[:, :, None] * mean[:, None, :]
        information = second[d].sum(axis=0)
        step = np.linalg.solve(information, slope)
        beta = beta + step
        if np.abs(step).max() < 1e-9:
            break
    return beta, np.linalg.inv(information)
