"""Learning the score of a column: its ends, and the power that makes its values look normal.

A score (:mod:`skpc.variables.score`) has bounds: those declared, or the ends found here. Powers are
compared by the likelihood of the values as normal ones.
"""

import math

import numpy as np

from skpc._arrays import SMALLEST_NORMAL, Floats, weighted_quantiles, whole_rows
from skpc.variables.histogram import TINY
from skpc.variables.score import WIDENED, Score

#: Powers of the score are compared on at most so many quantiles. They go from a logarithm to its
#: mirror image: with others, means of values outside the range seen explode.
_SKETCH = 2000
_POWERS = np.arange(0.0, 2.25, 0.25)


def inferred_ends(
    points: Floats, mass: Floats, extremes: tuple[float, float], step: float
) -> tuple[float, float]:
    """Where a column without declared bounds ends; infinite where it goes on.

    Parameters
    ----------
    points, mass : ndarrays of shape (n_points,)
        The distinct values that are no atoms, increasing, and their weights.
    extremes : (float, float)
        The least and the greatest of all values, atoms included.
    step : float
        Step of the lattice; 0 without a lattice.
    """
    if not len(points):
        return extremes
    # An end that values crowd lies this part of the range beyond them.
    widened_part = 0.01
    widened = widened_part * (extremes[1] - extremes[0])
    ends = []
    for sign, extreme, outermost, (is_dense, is_even) in zip(
        (-1.0, 1.0), extremes, points[[0, -1]].tolist(), _crowd_ends(points, mass)
    ):
        # An atom beyond all other values is an end.
        if extreme != outermost:
            ends.append(extreme)
            continue
        end = extreme + sign * widened
        # Not beyond zero, if all values are on one side of it.
        is_past_zero = extreme * sign <= 0.0 < end * sign
        end = 0.0 if is_past_zero else end
        # Many values near zero end there, though they thin out.
        if is_even or (is_dense and is_past_zero):
            # On a lattice the end is a point of it.
            if step > 0.0:
                end = extreme + sign * step * math.floor(abs(end - extreme) / step)
            ends.append(end)
        else:
            ends.append(sign * math.inf)
    return ends[0], ends[1]


def _crowd_ends(points: Floats, mass: Floats) -> list[tuple[bool, bool]]:
    """For either end of the range: whether values are dense near it, and whether up to the end."""
    # An end is this part of the range, or as much as holds ten rows of a uniform column, if that
    # is not too much.
    least_outer = 0.025
    rows_at_end = 10.0
    most_outer = 0.05
    # A skewed column may be dense near its thin end, too. There the outermost rows take more room
    # than the next ones, 1.7 times as much if they are log-normal; uniform ones take as much.
    most_thinned = 1.3
    # In a narrower range, relative to the greatest magnitude, log-odds near an end are rounding.
    least_range = 1e-9
    total = float(mass.sum())
    outer = max(least_outer, rows_at_end / total)
    size = float(points[-1] - points[0])
    if outer > most_outer or size <= least_range * np.abs(points[[0, -1]]).max():
        return [(False, False)] * 2
    place = (points - points[0]) / size
    # A uniform column would have twice this mass in either outer part.
    least = 0.5 * outer * total
    crowds = []
    for distance, weight in ((place, mass), (1.0 - place[::-1], mass[::-1])):
        is_dense = weight[distance < outer].sum() >= least
        is_even = is_dense and _thinning(distance, weight) <= most_thinned
        crowds.append((bool(is_dense), bool(is_even)))
    return crowds


def _thinning(distance: Floats, mass: Floats) -> float:
    """Room that the rows nearest to an end take, over the room of as many rows behind them."""
    # The nearest rows are this share of all. In smaller tables it rises until they are enough.
    least_share = 0.025
    most_share = 0.1
    enough = 60.0
    total = float(mass.sum())
    n_rows = max(least_share * total, min(enough, most_share * total))
    # Rows at one distance, on a lattice say, are spread around it: half of them are nearer.
    near, far = np.interp([n_rows, 2.0 * n_rows], np.cumsum(mass) - 0.5 * mass, distance)
    return float(near / max(far - near, SMALLEST_NORMAL))


def score_around(places: Floats, mass: Floats, bounds: tuple[float, float]) -> Score:
    """A linear score for a column of atoms alone, around which other values may lie."""
    score = _linear_score(places, np.cumsum(mass), bounds, 0.0)
    line = Score(*bounds, low=-math.inf, high=math.inf).transform(places)
    # How far from the only value of a column other values are expected, relative to its size.
    near_constant = 0.01
    spread = 0.5 * float(line[-1] - line[0]) or near_constant * (abs(score.centre) or 1.0)
    return score._replace(spread=max(spread, TINY), low=-1.0, high=1.0)


def fitted_scores(
    places: Floats, mass: Floats, bounds: tuple[float, float], is_soft: bool
) -> tuple[Score, Score, Score]:
    """Scores of increasing places between bounds: ``Law.linear_score``, ``sharp_score``, ``score``.

    With ``is_soft``, the bounds have not been declared.
    """
    # Fewer values do not tell powers apart.
    enough = 8
    # Ends that are not declared bend values nearer to them than these parts of the spread. The
    # smaller part serves sums of columns: it bends hardly any value.
    softness = 0.1
    sharp = 0.002
    cumulated = np.cumsum(mass)
    # More quantiles than there are rows or values would show nothing new.
    n_levels = min(_SKETCH, max(len(places), whole_rows(mass.sum())))
    levels = 2 * np.arange(n_levels) + 1
    sketch = weighted_quantiles(places, cumulated, levels, 2 * n_levels)
    scores = [_linear_score(places, cumulated, bounds, 0.0)]
    has_soft_end = is_soft and np.isfinite(bounds).any()
    spread = _spread(places, cumulated)
    if has_soft_end:
        scores.append(_linear_score(places, cumulated, bounds, softness * spread))
    linear = scores[-1]
    sharp_linear = (
        _linear_score(places, cumulated, bounds, sharp * spread) if has_soft_end else linear
    )
    if n_levels >= enough:
        scores += [score._replace(power=power) for score in scores for power in _POWERS.tolist()]
    # Among equal ones the first counts: its bounds are hard, and it has no power.
    merits = [_log_likelihood(score, sketch) for score in scores]
    return linear, sharp_linear, scores[int(np.argmax(merits))]


def _log_likelihood(score: Score, places: Floats) -> float:
    """Log-likelihood (nats, up to a constant) of values whose scores are normal."""
    # One wild value may be too large for squares; such a power is not the best one.
    with np.errstate(all="ignore"):
        log_slope = score.log_slope(places).sum()
        merit = float(log_slope - 0.5 * len(places) * np.log(score.transform(places).var()))
    return merit if math.isfinite(merit) else -math.inf


def _linear_score(
    places: Floats, cumulated: Floats, bounds: tuple[float, float], soft: float
) -> Score:
    """The score without a power of increasing places between bounds; its range is theirs."""
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
    # If most numbers are equal, their range or their size takes its place.
    spread = 0.5 * float(last - decile) or 0.5 * float(line[-1] - line[0])
    return max(spread or abs(float(centre)) or 1.0, TINY)
