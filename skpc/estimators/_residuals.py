"""How far targets lie from predictions: normal residuals whose spread depends on the row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skpc._arrays import Floats
from skpc.learning import mixture_weights

#: Rounds of EM, and the smallest variance, as a part of the mean square of the residuals.
_ROUNDS, _LEAST = 5, 1e-6


class ResidualLaw(NamedTuple):
    """Centred normal distributions whose variances depend on the row.

    The variance of a row is that which is known of its prediction, plus ``exp(features @ coef)``.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
    least : float
        Smallest variance.
    """

    coef: Floats
    least: float

    @classmethod
    def fit(
        cls, residual: Floats, sd: Floats, features: Floats, weight: Floats, factors: Floats
    ) -> ResidualLaw:
        """Maximise the likelihood of residuals under mixtures of stretched distributions, by EM.

        Parameters
        ----------
        residual : ndarray of shape (n_rows,)
            Residuals of rows that the regressor has not learned from.
        sd : ndarray of shape (n_rows,)
            The standard deviation of each prediction; 0 where it is unknown.
        features : ndarray of shape (n_rows, n_features)
            What the variance may depend on; the first column is constant one.
        weight : ndarray of shape (n_rows,)
            Not negative, some positive.
        factors : ndarray of shape (n_factors,)
            How many times as wide the parts of a mixture are.
        """
        share = weight / weight.sum()
        mean_square = float(share @ residual**2)
        least = max(_LEAST * mean_square, np.finfo(np.float64).tiny)
        coef = np.zeros(features.shape[1])
        coef[0] = np.log(max(mean_square, least))
        law, squared = cls(coef, least), residual**2
        for _ in range(_ROUNDS):
            law = law._replace(coef=law._updated(squared, sd, features, share))
            sds = law.sds(sd, features)[:, np.newaxis] * factors
            parts = -0.5 * (residual[:, np.newaxis] / sds) ** 2 - np.log(sds)
            with np.errstate(divide="ignore"):
                parts = parts + np.log(mixture_weights(parts, weight))
            of_part = np.exp(parts - np.logaddexp.reduce(parts, axis=1, keepdims=True))
            # A residual of a wide part counts as a smaller one.
            squared = residual**2 * (of_part @ factors**-2.0)
        return law

    def sds(self, sd: Floats, features: Floats) -> Floats:
        """Standard deviation of each row."""
        return np.sqrt(np.maximum(sd**2 + np.exp(features @ self.coef), self.least))

    def _updated(self, squared: Floats, sd: Floats, features: Floats, share: Floats) -> Floats:
        """Coefficients under which normal residuals with these squares are most likely."""

        def loss(coef: Floats) -> tuple[float, Floats]:
            noise = np.exp(features @ coef)
            variance = np.maximum(sd**2 + noise, self.least)
            ratio = squared / variance
            slope = share * (1.0 - ratio) * noise / variance
            return float(share @ (np.log(variance) + ratio)), slope @ features

        found = minimize(loss, self.coef, jac=True, method="L-BFGS-B")
        return np.asarray(found.x)
