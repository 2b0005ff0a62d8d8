"""Linear regression of numbers of which some are known as ranges, by EM."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._fitting import Rows, Statistics, Stop, learn
from skpc.variables.normal_cells import HALF_LOG_2_PI
from skpc.variables.truncated import truncated_normal


def censored_regression(
    design: Floats,
    scores: Floats,
    ranges: tuple[Ints, Floats, Floats],
    weight: Floats,
    ridge: Floats,
) -> tuple[Floats, float, float]:
    """Linear regression of scores of which some are known as ranges, by EM.

    It is that of Tobin ("Estimation of relationships for limited dependent variables", 1958).

    Parameters
    ----------
    design : ndarray of shape (n_rows, n_columns)
        Of full rank, where the ridge is zero.
    scores : ndarray of shape (n_rows,)
        EM starts from these values, also where a score is known as a range.
    ranges : (rows, low, high)
        The rows whose scores are known as ranges, and the ends, which may be infinite.
    weight : ndarray of shape (n_rows,)
        Positive.
    ridge : ndarray of shape (n_columns,)
        Penalties of the squared coefficients, as numbers of rows.

    Returns
    -------
    mean : ndarray of shape (n_rows,)
    sd : float
        Deviation around the means.
    log_likelihood : float
        In nats.
    """
    # No deviation around the line is below this part of the one of the scores.
    smallest = 1e-6
    weighted = design * weight[:, np.newaxis]
    gram = weighted.T @ design
    coef: Floats = np.linalg.inv(gram + np.diag(ridge)) @ (weighted.T @ scores)
    total = weight.sum()
    centre = weight @ scores / total
    spread = float(np.sqrt(weight @ (scores - centre) ** 2 / total))
    least = smallest * (spread or abs(centre) or 1.0)
    sd = max(float(np.sqrt(weight @ (scores - design @ coef) ** 2 / total)), least)
    start = CensoredNormal(coef, sd, gram, ridge, least)
    rows = CensoredRows(design, scores, *ranges)
    n_steps = 29
    line = learn([start], Rows(rows, weight), Stop(n_steps)).model
    return design @ line.coef, line.sd, line.expected(rows, weight).log_likelihood


class CensoredRows(NamedTuple):
    """Rows with scores, and the ranges of those that are not known; see the regression."""

    design: Floats
    scores: Floats
    place: Ints
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Residuals(Statistics):
    """Sums of rows: weights, products of design and residuals, squares of these."""

    weight: float
    product: Floats
    square: float
    log_likelihood: float


class CensoredNormal(NamedTuple):
    """The model of the regression; see :class:`skpc._fitting.Parametrised`.

    Attributes
    ----------
    coef : ndarray of shape (n_columns,)
    sd : float
    gram : ndarray of shape (n_columns, n_columns)
        Weighted products of the columns of the design.
    ridge : ndarray of shape (n_columns,)
    least : float
        The least deviation.
    """

    coef: Floats
    sd: float
    gram: Floats
    ridge: Floats
    least: float

    def expected(self, rows: CensoredRows, weight: Floats) -> Residuals:
        """The E-step: moments of normals within ranges."""
        mean = rows.design @ self.coef
        residual = (rows.scores - mean) / self.sd
        log_density = -0.5 * residual * residual - math.log(self.sd) - HALF_LOG_2_PI
        square = residual * residual
        place = rows.place
        low = (rows.low - mean[place]) / self.sd
        high = (rows.high - mean[place]) / self.sd
        # Where a score is known as a range, expectations within it take its place.
        log_density[place], residual[place], square[place] = truncated_normal(low, high)
        return Residuals(
            float(weight.sum()),
            self.sd * (rows.design.T @ (weight * residual)),
            self.sd**2 * float(weight @ square),
            float(weight @ log_density),
        )

    def m_step(self, sums: Residuals) -> Self:
        """Least squares around the line so far."""
        # The gradient at the line so far; as squares are quadratic, one step is exact.
        slope = sums.product - self.ridge * self.coef
        move = np.linalg.solve(self.gram + np.diag(self.ridge), slope)
        # Squares around the new line, from sums around the line so far.
        square = sums.square - 2.0 * move @ sums.product + move @ self.gram @ move
        sd = max(math.sqrt(max(float(square) / sums.weight, 0.0)), self.least)
        return self._replace(coef=self.coef + move, sd=sd)
