"""Probabilities of classes from what a machine says of rows that were held out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from skpc._arrays import Floats, Ints
from skpc._validation import SigmoidCalibration

#: Parts that the rows are dealt into; each in turn is held out.
N_FOLDS = 5
#: Shares of the cells that are removed from the copies of a held-out row.
MISSING_RATES = (0.0, 0.3, 0.6)
#: Between these limits lies the logarithm of the inverse temperature.
_LIMITS = (-7.0, 7.0)


class Sigmoid(NamedTuple):
    """Platt scaling of the evidence for each class against the others; the sum is made 1.

    Attributes
    ----------
    curves : list of SigmoidCalibration
        One a class; of two classes only that of the second.
    """

    curves: list[SigmoidCalibration]

    @classmethod
    def fit(cls, evidence: Floats, code: Ints, weight: Floats, n_classes: int) -> Sigmoid:
        """Learn from held-out rows.

        Parameters
        ----------
        evidence : ndarray of shape (n_rows, n_classes) or (n_rows, 1)
            Large where a class is likely; with two classes, only the second has a column.
        code : ndarray of shape (n_rows,)
            Number of the class of each row.
        weight : ndarray of shape (n_rows,)
            Weights of the rows.
        n_classes : int
            Number of classes.
        """
        classes = range(n_classes - evidence.shape[1], n_classes)
        curves = [
            SigmoidCalibration().fit(column, (code == c).astype(np.float64), weight)
            for c, column in zip(classes, evidence.T)
        ]
        return cls(curves)

    def probabilities(self, evidence: Floats) -> Floats:
        """Probabilities of the classes, shape (n_rows, n_classes)."""
        found = np.column_stack([c.predict(column) for c, column in zip(self.curves, evidence.T)])
        if len(self.curves) == 1:
            return np.hstack([1.0 - found, found])
        found = np.maximum(found, np.finfo(np.float64).tiny)
        return np.asarray(found / found.sum(axis=1, keepdims=True))


class Temperature(NamedTuple):
    """Softmax of the evidence divided by a temperature.

    Attributes
    ----------
    inverse : float
        One over the temperature.
    """

    inverse: float

    @classmethod
    def fit(cls, evidence: Floats, code: Ints, weight: Floats, n_classes: int) -> Temperature:
        """The temperature of least log loss; parameters are those of :meth:`Sigmoid.fit`.

        A class of n rows is one with probability (n + 1) / (n + n_classes), as in Platt scaling, so
        that machines that make no mistake do not make it infinite.
        """
        count = np.bincount(code, weight, minlength=n_classes)
        target = np.repeat(1.0 / (count + n_classes)[code][:, np.newaxis], n_classes, axis=1)
        target[np.arange(len(code)), code] *= count[code] + 1.0
        logits = _logits(evidence)

        def loss(log_inverse: float) -> float:
            log_proba = log_softmax(np.exp(log_inverse) * logits, axis=1)
            return float(-weight @ (target * log_proba).sum(axis=1))

        return cls(float(np.exp(minimize_scalar(loss, bounds=_LIMITS, method="bounded").x)))

    def probabilities(self, evidence: Floats) -> Floats:
        """Probabilities of the classes, shape (n_rows, n_classes)."""
        return np.asarray(softmax(self.inverse * _logits(evidence), axis=1))


def _logits(evidence: Floats) -> Floats:
    """A column for each class; that of the first of two is zero."""
    if evidence.shape[1] > 1:
        return evidence
    return np.hstack([np.zeros_like(evidence), evidence])
