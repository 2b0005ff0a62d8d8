"""A pool of members' probabilities of the classes: a product of powers, fitted out of fold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skpc._arrays import Floats, Ints

#: Pulls the weights towards equal ones and the offsets towards zero, like so many rows.
_PRIOR_ROWS = 10.0


class LogPool(NamedTuple):
    r"""Weights of members, and offsets of classes, in the log odds of the classes.

    With the prior :math:`\pi_c` of class c, the log odds of member m beyond it
    :math:`e_{mc} = \log p_m(c | x) - \log \pi_c`, and the share o of the cells of x that are
    seen,

    .. math:: p(c | x) \propto \pi_c \exp(o \, b_c + \sum_m w_m e_{mc}).

    Attributes
    ----------
    weights : ndarray of shape (n_members,)
        :math:`w`, not negative; 1 for a member alone is its own answer.
    offsets : ndarray of shape (n_classes,)
        :math:`b`.
    """

    weights: Floats
    offsets: Floats

    @classmethod
    def fit(
        cls, evidence: Floats, seen: Floats, label: Ints, weight: Floats, log_prior: Floats
    ) -> LogPool:
        """Minimise the log loss of rows that the members have not learned from.

        Ten times the squared lengths of the offsets, and of the weights less equal ones that sum to
        one, are added to the loss of all rows, in nats.

        Parameters
        ----------
        evidence : ndarray of shape (n_rows, n_members, n_classes)
            Log odds of the members beyond the prior, up to a constant for each row and member.
            Minus infinity for a class that the members have not seen; its own rows do not count.
        seen : ndarray of shape (n_rows,)
            Share of the cells that are there.
        label : ndarray of shape (n_rows,), int
            Number of the class.
        weight : ndarray of shape (n_rows,)
            Not negative.
        log_prior : ndarray of shape (n_classes,)
        """
        unknown = np.asarray(np.isneginf(evidence).all(axis=1))
        counts = ~unknown[np.arange(len(label)), label] & (weight > 0.0)
        log_prior = np.where(unknown, -np.inf, log_prior)[counts]
        evidence = np.where(unknown[:, np.newaxis], 0.0, evidence)[counts]
        evidence = np.ascontiguousarray(evidence.transpose(1, 0, 2))
        label, weight, seen = label[counts], weight[counts], seen[counts, np.newaxis]
        n_members, own = len(evidence), (np.arange(len(label)), label)
        equal = np.full(n_members, 1.0 / n_members)

        def loss(free: Floats) -> tuple[float, Floats]:
            w, b = np.split(free, [n_members])
            score = log_prior + seen * b + np.tensordot(w, evidence, axes=1)
            log_sum = np.logaddexp.reduce(score, axis=1)
            excess = np.exp(score - log_sum[:, np.newaxis])
            excess[own] -= 1.0
            excess *= weight[:, np.newaxis]
            slope = np.append(
                np.tensordot(evidence, excess, axes=2) + 2.0 * _PRIOR_ROWS * (w - equal),
                (excess * seen).sum(axis=0) + 2.0 * _PRIOR_ROWS * b,
            )
            pull = _PRIOR_ROWS * (((w - equal) ** 2).sum() + (b**2).sum())
            return float(weight @ (log_sum - score[own]) + pull), slope

        n_classes = log_prior.shape[1]
        bounds = [(0.0, None)] * n_members + [(None, None)] * n_classes
        start = np.append(equal, np.zeros(n_classes))
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
        return cls(*np.split(found.x, [n_members]))

    def log_loss(
        self, evidence: Floats, seen: Floats, label: Ints, weight: Floats, log_prior: Floats
    ) -> float:
        """Mean log loss of rows, in nats; NaN without any. See :meth:`fit` for the parameters."""
        unknown = np.asarray(np.isneginf(evidence).all(axis=1))
        known = np.where(unknown[:, np.newaxis], 0.0, evidence)
        score = np.where(unknown, -np.inf, log_prior + self.log_odds(known, seen))
        own = np.arange(len(label)), label
        counts = np.where(unknown[own], 0.0, weight)
        loss = np.where(counts > 0.0, np.logaddexp.reduce(score, axis=1) - score[own], 0.0)
        return float(counts @ loss / counts.sum()) if counts.any() else np.nan

    def log_odds(self, evidence: Floats, seen: Floats) -> Floats:
        """Log odds of the classes beyond their priors, up to a constant for each row.

        Parameters
        ----------
        evidence : ndarray of shape (n_rows, n_members, n_classes)
        seen : ndarray of shape (n_rows,)
            Where it is zero, nothing is known but the prior.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        found = seen[:, np.newaxis] * self.offsets + np.einsum("m,nmc->nc", self.weights, evidence)
        return np.where(seen[:, np.newaxis] > 0.0, found, 0.0)
