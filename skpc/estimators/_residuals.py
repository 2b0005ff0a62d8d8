"""How far targets lie from predictions: a law of residuals that depends on the row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skpc._arrays import Floats
from skpc.learning import mixture_weights

#: Residuals are a mixture of normal ones whose standard deviations are these multiples of one that
#: depends on the row: many small ones and a few large ones are common.
_MULTIPLES = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
_ROUNDS = 5
#: No variance is below this part of the mean square of the residuals.
_LEAST = 1e-6


class ResidualLaw(NamedTuple):
    """Mixtures of centred normal distributions whose variances depend on the row.

    The variance of a row is that which is known of its prediction, plus ``exp(features @ coef)``;
    the parts of the mixture have fixed multiples of the standard deviation.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
    share : ndarray of shape (n_parts,)
        Probabilities of the parts.
    least : float
        Smallest variance.
    """

    coef: Floats
    share: Floats
    least: float

    @classmethod
    def fit(cls, residual: Floats, sd: Floats, features: Floats, weight: Floats) -> ResidualLaw:
        """Maximise the likelihood of residuals, by EM.

        Parameters
        ----------
        residual : ndarray of shape (n_rows,)
            Of rows that the regressor has not learned from.
        sd : ndarray of shape (n_rows,)
            The standard deviation that is known of each prediction; 0 where none is.
        features : ndarray of shape (n_rows, n_features)
            What the variance may depend on; the first column is constant one.
        weight : ndarray of shape (n_rows,)
            Not negative, some positive.
        """
        share = weight / weight.sum()
        mean_square = float(share @ residual**2)
        least = max(_LEAST * mean_square, np.finfo(np.float64).tiny)
        coef = np.zeros(features.shape[1])
        coef[0] = np.log(max(mean_square, least))
        law = cls(coef, (_MULTIPLES == 1.0).astype(np.float64), least)
        squared = residual**2
        for _ in range(_ROUNDS):
            law = law._replace(coef=law._updated_coef(squared, sd, features, share))
            parts = law._log_parts(residual, sd, features)
            law = law._replace(share=mixture_weights(parts, weight))
            with np.errstate(divide="ignore"):
                of_part = parts + np.log(law.share)
            of_part = np.exp(of_part - np.logaddexp.reduce(of_part, axis=1, keepdims=True))
            # A residual of a wide part counts as a smaller one.
            squared = residual**2 * (of_part @ _MULTIPLES**-2.0)
        return law

    def sds(self, sd: Floats, features: Floats) -> Floats:
        """Standard deviations of the parts, shape (n_rows, n_parts)."""
        variance = np.maximum(sd**2 + np.exp(features @ self.coef), self.least)
        return np.asarray(np.sqrt(variance)[:, np.newaxis] * _MULTIPLES)

    def _log_parts(self, residual: Floats, sd: Floats, features: Floats) -> Floats:
        """Log density of each residual under each part."""
        sds = self.sds(sd, features)
        u = residual[:, np.newaxis] / sds
        return np.asarray(-0.5 * (u * u + np.log(2.0 * np.pi)) - np.log(sds))

    def _updated_coef(self, squared: Floats, sd: Floats, features: Floats, share: Floats) -> Floats:
        """Coefficients under which normal residuals with these squares are most likely."""

        def loss(coef: Floats) -> tuple[float, Floats]:
            noise = np.exp(features @ coef)
            variance = np.maximum(sd**2 + noise, self.least)
            ratio = squared / variance
            slope = share * (1.0 - ratio) * noise / variance
            return float(share @ (np.log(variance) + ratio)), slope @ features

        found = minimize(loss, self.coef, jac=True, method="L-BFGS-B")
        return np.asarray(found.x)
