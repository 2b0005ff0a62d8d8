"""The score of a column: the power and bounds that make its values most likely as normal."""

import math

import numpy as np

from skpc._arrays import Floats, weighted_quantiles, whole_rows
from skpc.variables.histogram import TINY
from skpc.variables.score import WIDENED, Score

#: Quantiles on which powers of the score are compared, at most and at least; and the powers, from a
#: logarithm to its mirror image: beyond, means of what lies outside the range seen explode.
_SKETCH = 2000
_POWERS = np.arange(0.0, 2.25, 0.25)


def score_around(places: Floats, mass: Floats, bounds: tuple[float, float]) -> Score:
    """A linear score for a column of atoms alone: other values lie around these."""
    score = _on_line(places, np.cumsum(mass), bounds, 0.0)
    line = Score(*bounds, low=-math.inf, high=math.inf).transform(places)
    # How far from the one value of a column others are expected, as a part of that value.
    near_constant = 0.01
    spread = 0.5 * float(line[-1] - line[0]) or near_constant * (abs(score.centre) or 1.0)
    return score._replace(spread=max(spread, TINY), low=-1.0, high=1.0)


def fitted_scores(
    places: Floats, mass: Floats, bounds: tuple[float, float], is_soft: bool
) -> tuple[Score, Score, Score]:
    """Two linear scores, and that of the power and bounds that make values most likely as normal.

    They differ in how near to an end they bend values.
    """
    enough = 8
    # Ends that are not declared change values nearer to them than these parts of the spread. Where
    # columns add up, the smaller one leaves hardly any value next to the end off the sum.
    softness = 0.1
    sharp = 0.002
    cumulated = np.cumsum(mass)
    # More quantiles than there are rows or values would show nothing new.
    n_levels = min(_SKETCH, max(len(places), whole_rows(mass.sum())))
    levels = 2 * np.arange(n_levels) + 1
    sketch = weighted_quantiles(places, cumulated, levels, 2 * n_levels)
    scores = [_on_line(places, cumulated, bounds, 0.0)]
    # Ends that nobody has declared may also be soft, so that only values near them change.
    has_soft_end = is_soft and np.isfinite(bounds).any()
    spread = _spread(places, cumulated)
    if has_soft_end:
        scores.append(_on_line(places, cumulated, bounds, softness * spread))
    linear = scores[-1]
    sharp_linear = _on_line(places, cumulated, bounds, sharp * spread) if has_soft_end else linear
    # So few values do not tell powers apart.
    if n_levels >= enough:
        scores += [score._replace(power=power) for score in scores for power in _POWERS.tolist()]
    # Among equals, the first: a logarithm, and the identity.
    merits = [_log_likelihood(score, sketch) for score in scores]
    return linear, sharp_linear, scores[int(np.argmax(merits))]


def _log_likelihood(score: Score, places: Floats) -> float:
    """Log-likelihood (nats, up to a constant) of values whose scores are normal."""
    # One wild value may be too large for squares; such a power is not the best one.
    with np.errstate(all="ignore"):
        log_slope = score.log_slope(places).sum()
        merit = float(log_slope - 0.5 * len(places) * np.log(score.transform(places).var()))
    return merit if math.isfinite(merit) else -math.inf


def _on_line(places: Floats, cumulated: Floats, bounds: tuple[float, float], soft: float) -> Score:
    """The score without a power of increasing places between bounds."""
    lower, upper = bounds
    centre = 0.0
    if soft == 0.0 and (lower > -math.inf) != (upper < math.inf):
        # A logarithm tells how near to its bound a value may be by the distance of typical ones.
        distance = np.abs(places - (lower if lower > -math.inf else upper))
        typical = math.log(max(float(np.median(distance)), TINY))
        centre = typical if lower > -math.inf else -typical
    score = Score(*bounds, centre=centre, low=-math.inf, high=math.inf, soft=soft)
    # The transform takes the centre off, which is put back here; the spread is still one.
    line = centre + score.transform(places)
    centre = float(weighted_quantiles(line, cumulated, np.array([1]), 2)[0])
    spread = _spread(line, cumulated)
    ends = (line[[0, -1]] - centre) / spread
    low, high = ends + WIDENED * (ends[1] - ends[0]) * np.array([-1.0, 1.0])
    return Score(*bounds, centre, spread, 1.0, float(low), float(high), soft)


def _spread(line: Floats, cumulated: Floats) -> float:
    """Half the distance between the first and the last tenth of increasing numbers."""
    decile, centre, last = weighted_quantiles(line, cumulated, np.array([1, 5, 9]), 10)
    # If most numbers are equal, their range or their size stands for the spread.
    spread = 0.5 * float(last - decile) or 0.5 * float(line[-1] - line[0])
    return max(spread or abs(float(centre)) or 1.0, TINY)
