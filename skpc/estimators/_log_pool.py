"""A pool of members' probabilities of the classes: a product of powers, fitted out of fold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skpc._arrays import Floats, Ints

#: Strengths, in rows: of the pull of the mean weights towards equal ones and of the offsets towards
#: zero, and of the pull of the weights of complete rows towards those of empty ones.
_PRIOR_ROWS, _PRIOR_ROWS_APART = 10.0, 3.0


class LogPool(NamedTuple):
    r"""Weights of members, and offsets of classes, in the log odds of the classes.

    With the prior :math:`\pi_c` of class c, the log odds of member m beyond it
    :math:`e_{mc} = \log p_m(c | x) - \log \pi_c`, and the share o of the cells of x that are
    seen,

    .. math::

       p(c | x) \propto \pi_c \exp(o \, b_c + \sum_m ((1 - o) u_m + o \, v_m) e_{mc}).

    Attributes
    ----------
    weights : ndarray of shape (2, n_members)
        u and v, not negative; 1 for a member alone is its own answer.
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

        To the loss of all rows, in nats, are added ten times the squared lengths of the offsets and
        of the mean weights (u + v) / 2 less equal ones that sum to one, and three times that of
        u - v.

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
        label, weight, seen = label[counts], weight[counts], seen[counts, np.newaxis]
        n_members, n_classes = evidence.shape[1:]
        own, share = (np.arange(len(label)), label), np.stack([1.0 - seen, seen])

        def loss(free: Floats) -> tuple[float, Floats]:
            w, b = free[: 2 * n_members].reshape(2, n_members), free[2 * n_members :]
            score = log_prior + seen * b + _weighted((share * w[:, np.newaxis]).sum(0), evidence)
            log_sum = np.logaddexp.reduce(score, axis=1)
            excess = np.exp(score - log_sum[:, np.newaxis])
            excess[own] -= 1.0
            excess *= weight[:, np.newaxis]
            of_rows = (evidence @ excess[:, :, np.newaxis])[:, :, 0]
            away, apart = w.mean(axis=0) - 1.0 / n_members, w[0] - w[1]
            pull = _PRIOR_ROWS * (away @ away + b @ b) + _PRIOR_ROWS_APART * (apart @ apart)
            slope_w = (share * of_rows).sum(axis=1) + _PRIOR_ROWS * away
            slope_w += 2.0 * _PRIOR_ROWS_APART * np.array([apart, -apart])
            slope_b = (excess * seen).sum(axis=0) + 2.0 * _PRIOR_ROWS * b
            return float(weight @ (log_sum - score[own]) + pull), np.append(slope_w, slope_b)

        bounds = [(0.0, None)] * (2 * n_members) + [(None, None)] * n_classes
        start = np.append(np.full(2 * n_members, 1.0 / n_members), np.zeros(n_classes))
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return cls(found[: 2 * n_members].reshape(2, n_members), found[2 * n_members :])

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
        share = seen[:, np.newaxis]
        of_rows = (1.0 - share) * self.weights[0] + share * self.weights[1]
        found = share * self.offsets + _weighted(of_rows, evidence)
        return np.where(share > 0.0, found, 0.0)


def _weighted(of_rows: Floats, evidence: Floats) -> Floats:
    """Evidence of shape (n_rows, n_classes) by the weights of members in each row."""
    return np.asarray((of_rows[:, np.newaxis] @ evidence)[:, 0])
