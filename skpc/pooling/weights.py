"""Weights of the members of a pool, fitted to their out-of-fold predictions.

There are three ways to pool: a :class:`LogPool` of probabilities of classes (a product of
powers), a linear pool of distributions of a number (a sum whose weights depend on the row,
:func:`fit_gate`), and :func:`skpc.learning.simplex.mixture_weights` for densities (a sum of fixed
weights). The predictions of a regressor join a linear pool as normal distributions, whose widths
are a :class:`HeteroscedasticNoise`.
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.preprocessing import MinMaxScaler

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, Ints, picked
from skpc.domain import Domain
from skpc.pooling.folds import observed_fraction

#: Strict tolerances: where an optimiser stops early depends on rounding, and so on the unit.
_TOLERANCES = {"maxiter": 1_000, "ftol": 1e-14, "gtol": 1e-9}
#: Added to a mean squared error, as a part of the target's variance, so that its log is finite.
_LEAST_ERROR = 1e-9


class LogPool(NamedTuple):
    r"""Weights of members, and offsets of classes, in the log odds of the classes.

    With the prior :math:`\pi_c` of class c, the log odds of member m beyond it
    :math:`e_{mc} = \log p_m(c | x) - \log \pi_c`, and the observed fraction o of the cells of x,

    .. math::

       p(c | x) \propto \pi_c \exp(o \, b_c + \sum_m ((1 - o) u_m + o \, v_m) e_{mc}).

    Attributes
    ----------
    weights : ndarray of shape (2, n_members)
        u and v, not negative. A single member of weight 1 gives its own probabilities.
    offsets : ndarray of shape (n_classes,)
        :math:`b`.
    """

    weights: Floats
    offsets: Floats

    @classmethod
    def equal(cls, n_members: int, n_classes: int) -> Self:
        """The pool of equal weights that sum to one, without offsets."""
        return cls(np.full((2, n_members), 1.0 / n_members), np.zeros(n_classes))

    @classmethod
    def fit(
        cls, evidence: Floats, observed: Floats, label: Ints, weight: Floats, log_prior: Floats
    ) -> Self:
        """Minimise the log loss of rows that the members have not learned from.

        Penalties are added to the summed loss (nats): ten times the squared length of the offsets;
        ten times that of the difference between the mean weights (u + v) / 2 and equal weights that
        sum to one; and three times that of u - v.

        Parameters
        ----------
        evidence : ndarray of shape (n_rows, n_members, n_classes)
            Log odds of the members beyond the prior, up to a constant for each row and member.
            Minus infinity for a class that the members have not seen; rows of this class do not
            count.
        observed : ndarray of shape (n_rows,)
            Fraction of the cells that are observed.
        label : ndarray of shape (n_rows,), int
            Number of the class.
        weight : ndarray of shape (n_rows,)
            Not negative.
        log_prior : ndarray of shape (n_classes,)
        """
        evidence, observed, label, weight, log_prior = _rows_of_seen_classes(
            evidence, observed, label, weight, log_prior
        )
        n_members, n_classes = evidence.shape[1:]
        observed = observed[:, np.newaxis]
        true_class = (np.arange(len(label)), label)
        shares = np.hstack([1.0 - observed, observed])
        # The score of each row and class is linear in u and v.
        factors = shares[:, np.newaxis, :, np.newaxis] * evidence.swapaxes(1, 2)[:, :, np.newaxis]
        # Shape (n_rows * n_classes, 2 * n_members): the factors of u, then those of v.
        factors = factors.reshape(-1, 2 * n_members)
        # Factors of the penalties: of mean weights and offsets, and of differences u - v.
        mean_factor = 10.0
        difference_factor = 3.0
        # The penalties of a member as a quadratic form of its u and v, and that of all parameters.
        same = mean_factor / 4.0 + difference_factor
        cross = mean_factor / 4.0 - difference_factor
        member_form = np.kron([[same, cross], [cross, same]], np.eye(n_members))
        penalty = block_diag(member_form, mean_factor * np.eye(n_classes))
        start = np.append(np.full(2 * n_members, 1.0 / n_members), np.zeros(n_classes))

        def loss(parameters: Floats) -> tuple[float, Floats]:
            weights, offsets = np.split(parameters, [2 * n_members])
            score = log_prior + observed * offsets + (factors @ weights).reshape(-1, n_classes)
            log_prob = log_softmax(score, axis=1)
            excess = weight[:, np.newaxis] * np.exp(log_prob)
            # The slope of the loss in scores: probabilities less the indicator of the true class.
            excess[true_class] -= weight
            slope = np.append(excess.ravel() @ factors, (excess * observed).sum(axis=0))
            half_slope = penalty @ (parameters - start)
            value = (parameters - start) @ half_slope - weight @ log_prob[true_class]
            return value, slope + 2.0 * half_slope

        bounds = [(0.0, None)] * (2 * n_members) + [(None, None)] * n_classes
        parameters = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        weights = parameters[: 2 * n_members].reshape(2, n_members)
        return cls(weights, parameters[2 * n_members :])

    def log_loss(
        self, evidence: Floats, observed: Floats, label: Ints, weight: Floats, log_prior: Floats
    ) -> float:
        """Mean log loss of rows, in nats; NaN without any. See :meth:`fit` for the parameters."""
        evidence, observed, label, weight, log_prior = _rows_of_seen_classes(
            evidence, observed, label, weight, log_prior
        )
        score = log_prior + self.log_odds(evidence, observed)
        loss = np.logaddexp.reduce(score, axis=1) - picked(score, label)
        return float(np.average(loss, weights=weight)) if len(label) else np.nan

    def log_odds(self, evidence: Floats, observed: Floats) -> Floats:
        """Log odds of the classes beyond their priors, up to a constant for each row.

        Parameters
        ----------
        evidence : ndarray of shape (n_rows, n_members, n_classes)
        observed : ndarray of shape (n_rows,)
            Fraction of the cells that are observed; where it is zero, the answer is the prior.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        observed = observed[:, np.newaxis]
        row_weights = (1.0 - observed) * self.weights[0] + observed * self.weights[1]
        pooled = (row_weights[:, np.newaxis] @ evidence)[:, 0]
        return np.where(observed > 0.0, observed * self.offsets + pooled, 0.0)


def _rows_of_seen_classes(
    evidence: Floats, observed: Floats, label: Ints, weight: Floats, log_prior: Floats
) -> tuple[Floats, Floats, Ints, Floats, Floats]:
    """The rows of positive weight whose class the members have seen; parameters as in ``fit``.

    Of a class that the members have not seen, the evidence becomes zero and the log prior, now of
    shape (n_rows, n_classes), minus infinity.
    """
    is_unseen = np.asarray(np.isneginf(evidence).all(axis=1))
    counts = ~picked(is_unseen, label) & (weight > 0.0)
    log_prior = np.where(is_unseen, -np.inf, log_prior)[counts]
    evidence = np.where(is_unseen[:, np.newaxis], 0.0, evidence)[counts]
    return evidence, observed[counts], label[counts], weight[counts], log_prior


class GatingFeatures(NamedTuple):
    """The features of a row that the weights of members and the noise of regressors depend on.

    These are the observed fraction of its cells, and the log variance of its target under the
    mixture of the densities. Both are scaled to -2 at the least and 2 at the greatest value seen in
    training, and clipped there.

    Attributes
    ----------
    domain : Domain
    smallest_variance : float
        Smaller variances count as this one.
    scaler : MinMaxScaler
    """

    domain: Domain
    smallest_variance: float
    scaler: MinMaxScaler

    @classmethod
    def fit(cls, domain: Domain, rows: Floats, variance: Floats, target_variance: float) -> Self:
        """Learn the ranges of the features from test rows and the variances of their targets.

        Variances below a small part of ``target_variance``, that of all targets, count as the part.
        """
        smallest_part = 1e-8
        smallest_variance = max(smallest_part * target_variance, SMALLEST_NORMAL)
        features = cls(domain, smallest_variance, MinMaxScaler((-2.0, 2.0)))
        features.scaler.fit(features._fraction_and_variance(rows, variance))
        return features

    def transform(self, rows: Floats, variance: Floats) -> Floats:
        """A constant one and both features, shape (n_rows, 3)."""
        raw = self._fraction_and_variance(rows, variance)
        inside = np.clip(raw, self.scaler.data_min_, self.scaler.data_max_)
        return np.column_stack([np.ones(len(rows)), self.scaler.transform(inside)])

    def _fraction_and_variance(self, rows: Floats, variance: Floats) -> Floats:
        log_variance = np.log(np.maximum(variance, self.smallest_variance))
        return np.column_stack([observed_fraction(rows, self.domain), log_variance])


def fit_gate(
    log_density: Floats,
    mean: Floats,
    target: Floats,
    features: Floats,
    weight: Floats,
    is_unscaled: Bools,
) -> Floats:
    """Weights of the components of a linear pool, which depend on the row.

    The weights are ``softmax(features @ coef)``. They maximise a sum of two mean log densities of
    the targets, less a penalty on the squares of the coefficients: that of the pool, and that of a
    normal around the mean of the pool. So both the distribution and its mean count.

    Parameters
    ----------
    log_density : ndarray of shape (n_rows, n_components)
        Log density (nats) of the targets of rows that no member has learned from. A density is one
        component; a regressor has several, normals of different widths around one mean.
    mean : ndarray of shape (n_rows, n_components)
        Means of the predictions.
    target : ndarray of shape (n_rows,)
    features : ndarray of shape (n_rows, n_features)
        The first is constant one.
    weight : ndarray of shape (n_rows,)
        Not negative, some positive.
    is_unscaled : ndarray of shape (n_components,)
        Which components are densities, or as wide as the noise. The others start with small
        weights.

    Returns
    -------
    ndarray of shape (n_features, n_components)
        The coefficients.
    """
    # Penalties, in nats, on the squared coefficient of a feature, and on that of the constant.
    feature_penalty = 1.0
    constant_penalty = 0.1
    # Log odds that components of other widths than the noise start with.
    scaled_start = -3.0
    highest = log_density.max(axis=1)
    is_possible = np.isfinite(highest)
    highest = np.where(is_possible, highest, 0.0)
    # No log density counts as further below the highest of its row than this.
    largest_gap = 50.0
    relative = np.maximum(log_density - highest[:, np.newaxis], -largest_gap)
    share = weight / weight.sum()
    # Rows that are impossible under all components count by their means only.
    possible_share = np.where(is_possible, share, 0.0)
    centre = share @ target
    spread = np.sqrt(max(share @ (target - centre) ** 2, SMALLEST_NORMAL))
    target, mean = ((places - centre) / spread for places in (target, mean))
    start = np.zeros((features.shape[1], relative.shape[1]))
    start[0] = np.where(is_unscaled, 0.0, scaled_start)
    penalty = np.full(start.shape, feature_penalty) / weight.sum()
    penalty[0] *= constant_penalty

    def loss(flat: Floats) -> tuple[float, Floats]:
        change = flat.reshape(start.shape)
        log_weight = log_softmax(features @ (start + change), axis=1)
        weights = np.exp(log_weight)
        joint = relative + log_weight
        log_pooled = np.logaddexp.reduce(joint, axis=1)
        pooled_mean = (weights * mean).sum(axis=1)
        error = pooled_mean - target
        squared_error = share @ error**2 + _LEAST_ERROR
        # Slopes of the two terms in the log odds of the components, (n_rows, n_components): weights
        # less posterior weights, and the change of the pooled mean times its error.
        posterior = np.exp(joint - log_pooled[:, np.newaxis])
        slope = possible_share[:, np.newaxis] * (weights - posterior)
        mean_change = mean - pooled_mean[:, np.newaxis]
        mean_slope = (share * error)[:, np.newaxis] * mean_change / squared_error
        slope += mean_slope * weights
        value = (
            0.5 * np.log(squared_error) - possible_share @ log_pooled + (penalty * change**2).sum()
        )
        return value, (features.T @ slope + 2.0 * penalty * change).ravel()

    change = minimize(
        loss, np.zeros(start.size), jac=True, method="L-BFGS-B", options=_TOLERANCES
    ).x
    return start + change.reshape(start.shape)


class HeteroscedasticNoise(NamedTuple):
    """Normal residuals of a regressor, whose variances depend on the row.

    The variance of a row is that of its prediction over missing cells, plus
    ``exp(features @ coef)``.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
    smallest_variance : float
    """

    coef: Floats
    smallest_variance: float

    @classmethod
    def fit(cls, residual: Floats, sd: Floats, features: Floats, weight: Floats) -> Self:
        """Maximise the likelihood of normal residuals.

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
        """
        share = weight / weight.sum()
        mean_square = max(share @ residual**2, SMALLEST_NORMAL)
        # Residuals are standardised, so that the optimiser takes the same steps in any unit.
        residual = residual / np.sqrt(mean_square)
        sd = sd / np.sqrt(mean_square)
        # The smallest variance, as a part of the mean square of the residuals.
        smallest_part = 1e-6
        start = np.zeros(features.shape[1])

        def loss(coef: Floats) -> tuple[float, Floats]:
            noise = np.exp(features @ coef)
            variance = np.maximum(sd**2 + noise, smallest_part)
            ratio = residual**2 / variance
            slope = share * (1.0 - ratio) * noise / variance
            return float(share @ (np.log(variance) + ratio)), slope @ features

        coef = minimize(loss, start, jac=True, method="L-BFGS-B", options=_TOLERANCES).x
        # The coefficient of the constant brings the variance back to the unit of the residuals.
        coef[0] += np.log(mean_square)
        return cls(coef, max(smallest_part * mean_square, SMALLEST_NORMAL))

    def sds(self, sd: Floats, features: Floats) -> Floats:
        """Standard deviation of the residual of each row."""
        return np.sqrt(np.maximum(sd**2 + np.exp(features @ self.coef), self.smallest_variance))
