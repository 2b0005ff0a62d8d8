"""Slow truth: Kaplan and Meier's curve, and self-consistency over all parts of the line."""

from __future__ import annotations

import math


def kaplan_meier(times, events) -> dict[float, float]:
    """Survival just after each time of an event."""
    curve, alive = {}, 1.0
    for t in sorted({t for t, event in zip(times, events) if event}):
        at_risk = sum(one >= t for one in times)
        alive *= 1.0 - sum(event and one == t for one, event in zip(times, events)) / at_risk
        curve[t] = alive
    return curve


def turnbull(cells, weights, n_steps: int = 5000) -> dict[tuple[float, float], float]:
    """Mass of each number and each gap between neighbouring ends, by EM over all of them.

    ``cells`` are (low, high, with_low, with_high). The likelihood is what counts: where several
    masses have the greatest one, they differ from those of innermost ranges.
    """
    ends = sorted({end for cell in cells for end in cell[:2]})
    numbers = [(x, x) for x in ends if math.isfinite(x)]
    parts = numbers + list(zip(ends[:-1], ends[1:]))

    def holds(cell, part) -> bool:
        low, high, with_low, with_high = cell
        if part[0] == part[1]:
            x = part[0]
            return (low < x or (low == x and with_low)) and (x < high or (x == high and with_high))
        return low <= part[0] and part[1] <= high

    held = [[j for j, part in enumerate(parts) if holds(cell, part)] for cell in cells]
    mass, total = [1.0 / len(parts)] * len(parts), sum(weights)
    for _ in range(n_steps):
        updated = [0.0] * len(parts)
        for members, weight in zip(held, weights):
            norm = sum(mass[j] for j in members)
            for j in members:
                updated[j] += weight * mass[j] / norm / total
        mass = updated
    return dict(zip(parts, mass))


def log_likelihood(law, cells, weights) -> float:
    """Log-likelihood of cells under masses of parts, as :func:`turnbull` returns them."""
    total = 0.0
    for (low, high, with_low, with_high), weight in zip(cells, weights):
        held = sum(
            mass
            for (a, b), mass in law.items()
            if (low < a or (low == a and (with_low or a < b)))
            and (b < high or (b == high and (with_high or a < b)))
        )
        total += weight * math.log(held)
    return total


def aalen_johansen(times, codes, cause) -> dict[float, float]:
    """Probability of an event of a cause (codes 1, 2, ...; 0 is censored) up to each time."""
    curve, alive, total = {}, 1.0, 0.0
    for t in sorted({t for t, code in zip(times, codes) if code}):
        at_risk = sum(each >= t for each in times)
        of_cause = sum(code == cause and each == t for each, code in zip(times, codes))
        total += alive * of_cause / at_risk
        alive *= 1.0 - sum(code > 0 and each == t for each, code in zip(times, codes)) / at_risk
        curve[t] = total
    return curve


def concordance(cells, risk, weight) -> float:
    """Share of ordered pairs whose earlier one has the higher risk, over all pairs of cells.

    ``cells`` are (low, high, with_low, with_high).
    """
    total = concordant = 0.0
    for i, (_, high, _, with_high) in enumerate(cells):
        for j, (low, _, with_low, _) in enumerate(cells):
            if high < low or (high == low and not (with_high and with_low)):
                pair = weight[i] * weight[j]
                total += pair
                concordant += pair * (1.0 if risk[i] > risk[j] else 0.5 * (risk[i] == risk[j]))
    return concordant / total
