"""How the members of a pool are weighed by their out-of-fold predictions.

Three ways to pool, fitted alike: a :class:`LogPool` of probabilities of classes (a product of
powers), a linear pool of distributions of a number (a sum whose weights depend on the row,
:func:`fit_gate`), and :func:`skpc.learning.simplex.mixture_weights` for densities (a sum of fixed
weights). Regressors join a linear pool with a :class:`HeteroscedasticNoise` each.
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

#: How near optimisers come: where they stop early hangs on rounding, and so on the unit.
_CONVERGED = {"maxiter": 1_000, "ftol": 1e-14, "gtol": 1e-9}
#: What keeps the logarithm of the squared error finite, as a part of the variance of the target.
_LEAST = 1e-9


class LogPool(NamedTuple):
    r"""Weights of members, and offsets of classes, in the log odds of the classes.

    With the prior :math:`\pi_c` of class c, the log odds of member m beyond it
    :math:`e_{mc} = \log p_m(c | x) - \log \pi_c`, and the observed fraction o of the cells of x,

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
    def equal(cls, n_members: int, n_classes: int) -> Self:
        """The pool that nothing has weighed: a single member is its own answer."""
        return cls(np.full((2, n_members), 1.0 / n_members), np.zeros(n_classes))

    @classmethod
    def fit(
        cls, evidence: Floats, observed: Floats, label: Ints, weight: Floats, log_prior: Floats
    ) -> Self:
        """Minimise the log loss of rows that the members have not learned from.

        To the loss of all rows, in nats, are added ten times the squared lengths of the offsets and
        of the mean weights (u + v) / 2 less equal ones that sum to one, and three times that of
        u - v.

        Parameters
        ----------
        evidence : ndarray of shape (n_rows, n_members, n_classes)
            Log odds of the members beyond the prior, up to a constant for each row and member.
            Minus infinity for a class that the members have not seen; its own rows do not count.
        observed : ndarray of shape (n_rows,)
            Fraction of the cells that are observed.
        label : ndarray of shape (n_rows,), int
            Number of the class.
        weight : ndarray of shape (n_rows,)
            Not negative.
        log_prior : ndarray of shape (n_classes,)
        """
        evidence, observed, label, weight, log_prior = _counted(
            evidence, observed, label, weight, log_prior
        )
        n_members, n_classes = evidence.shape[1:]
        observed = observed[:, np.newaxis]
        own_class = (np.arange(len(label)), label)
        shares = np.hstack([1.0 - observed, observed])
        # The score of each row and class is linear in u and v.
        factors = shares[:, np.newaxis, :, np.newaxis] * evidence.swapaxes(1, 2)[:, :, np.newaxis]
        # Shape (n_rows * n_classes, 2 * n_members): the factors of u, then those of v.
        factors = factors.reshape(-1, 2 * n_members)
        # Log pool: strengths, in rows, of the pull of mean weights towards equal ones and of
        # offsets towards zero, and of the pull of the weights of complete rows towards those of
        # empty ones.
        prior_rows = 10.0
        near = prior_rows / 4.0
        apart = 3.0
        # The squares of (u + v) / 2 and of u - v as a form of u and v, for each member.
        pairs = np.array([[near + apart, near - apart], [near - apart, near + apart]])
        pull = block_diag(np.kron(pairs, np.eye(n_members)), prior_rows * np.eye(n_classes))
        start = np.append(np.full(2 * n_members, 1.0 / n_members), np.zeros(n_classes))

        def loss(free: Floats) -> tuple[float, Floats]:
            w, b = np.split(free, [2 * n_members])
            score = log_prior + observed * b + (factors @ w).reshape(-1, n_classes)
            log_prob = log_softmax(score, axis=1)
            excess = weight[:, np.newaxis] * np.exp(log_prob)
            # The slope of the loss in scores: probabilities less the truth.
            excess[own_class] -= weight
            slope = np.append(excess.ravel() @ factors, (excess * observed).sum(axis=0))
            pulled = pull @ (free - start)
            value = (free - start) @ pulled - weight @ log_prob[own_class]
            return value, slope + 2.0 * pulled

        bounds = [(0.0, None)] * (2 * n_members) + [(None, None)] * n_classes
        free = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return cls(free[: 2 * n_members].reshape(2, n_members), free[2 * n_members :])

    def log_loss(
        self, evidence: Floats, observed: Floats, label: Ints, weight: Floats, log_prior: Floats
    ) -> float:
        """Mean log loss of rows, in nats; NaN without any. See :meth:`fit` for the parameters."""
        evidence, observed, label, weight, log_prior = _counted(
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
            Where it is zero, nothing is known but the prior.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        share = observed[:, np.newaxis]
        row_weights = (1.0 - share) * self.weights[0] + share * self.weights[1]
        pooled = (row_weights[:, np.newaxis] @ evidence)[:, 0]
        return np.where(share > 0.0, share * self.offsets + pooled, 0.0)


def _counted(
    evidence: Floats, observed: Floats, label: Ints, weight: Floats, log_prior: Floats
) -> tuple[Floats, Floats, Ints, Floats, Floats]:
    """The rows of positive weight whose class members have seen, and their log priors.

    That of a class that the members have not seen is minus infinity; their evidence for it is none.
    """
    unknown = np.asarray(np.isneginf(evidence).all(axis=1))
    counts = ~picked(unknown, label) & (weight > 0.0)
    log_prior = np.where(unknown, -np.inf, log_prior)[counts]
    evidence = np.where(unknown[:, np.newaxis], 0.0, evidence)[counts]
    return evidence, observed[counts], label[counts], weight[counts], log_prior


class GatingFeatures(NamedTuple):
    """What the weights of members and the noise of regressors depend on, for each row.

    The observed fraction of its cells, and the log variance of its target under the mixture of the
    densities: both from -2 to 2 over the range seen in training, and never beyond.

    Attributes
    ----------
    domain : Domain
    least : float
        Smallest variance.
    scaler : MinMaxScaler
    """

    domain: Domain
    least: float
    scaler: MinMaxScaler

    @classmethod
    def fit(cls, domain: Domain, rows: Floats, variance: Floats, target_variance: float) -> Self:
        """Learn it from test rows and the variances of their targets.

        Variances below a part of ``target_variance``, that of all targets, count as that part.
        """
        # Variances below this part of that of the target count as this.
        smallest_variance = 1e-8
        least = max(smallest_variance * target_variance, SMALLEST_NORMAL)
        features = cls(domain, least, MinMaxScaler((-2.0, 2.0)))
        features.scaler.fit(features._fraction_and_variance(rows, variance))
        return features

    def transform(self, rows: Floats, variance: Floats) -> Floats:
        """A constant one and both features, shape (n_rows, 3)."""
        raw = self._fraction_and_variance(rows, variance)
        inside = np.clip(raw, self.scaler.data_min_, self.scaler.data_max_)
        return np.column_stack([np.ones(len(rows)), self.scaler.transform(inside)])

    def _fraction_and_variance(self, rows: Floats, variance: Floats) -> Floats:
        log_variance = np.log(np.maximum(variance, self.least))
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

    The weights are ``softmax(features @ coef)``. They maximise the mean log density of the pool
    plus that of a normal around its mean: so both the distribution and its mean count. A penalty on
    the squares of the coefficients is subtracted.

    Parameters
    ----------
    log_density : ndarray of shape (n_rows, n_components)
        Log density of the targets of rows that no member has learned from, in nats. A density is a
        component; those of a regressor are normals of several widths around one mean.
    mean : ndarray of shape (n_rows, n_components)
        Means of the predictions.
    target : ndarray of shape (n_rows,)
    features : ndarray of shape (n_rows, n_features)
        The first is constant one.
    weight : ndarray of shape (n_rows,)
        Not negative, some positive.
    is_unscaled : ndarray of shape (n_components,)
        Which components are densities, or as wide as the noise; others start with small weights.

    Returns
    -------
    ndarray of shape (n_features, n_components)
        The coefficients.
    """
    # The penalty on a squared constant, as a part of that on a squared coefficient.
    constant_part = 0.1
    # Log odds that components of other widths than the noise start with.
    scaled_start = -3.0
    best = log_density.max(axis=1)
    counts = np.isfinite(best)
    best = np.where(counts, best, 0.0)
    gain = log_density - best[:, np.newaxis]
    # Linear pool: no log density counts as less than the best one of its row by more than this.
    worst = 50.0
    gain = np.maximum(gain, -worst)
    share = weight / weight.sum()
    log_share = np.where(counts, share, 0.0)
    centre = share @ target
    spread = np.sqrt(max(share @ (target - centre) ** 2, SMALLEST_NORMAL))
    target, mean = ((places - centre) / spread for places in (target, mean))
    start = np.zeros((features.shape[1], gain.shape[1]))
    start[0] = np.where(is_unscaled, 0.0, scaled_start)
    # The penalty on a squared coefficient, in nats.
    squared_penalty = 1.0
    penalty = np.full(start.shape, squared_penalty) / weight.sum()
    penalty[0] *= constant_part

    def loss(flat: Floats) -> tuple[float, Floats]:
        moved = flat.reshape(start.shape)
        log_weight = log_softmax(features @ (start + moved), axis=1)
        weights = np.exp(log_weight)
        joint = gain + log_weight
        together = np.logaddexp.reduce(joint, axis=1)
        pooled = (weights * mean).sum(axis=1)
        gap = pooled - target
        error = share @ gap**2 + _LEAST
        # A component with more weight draws the mean to its own, by their difference.
        push = (share * gap)[:, np.newaxis] * (mean - pooled[:, np.newaxis]) / error
        slope = log_share[:, np.newaxis] * (weights - np.exp(joint - together[:, np.newaxis]))
        slope += push * weights
        value = 0.5 * np.log(error) - log_share @ together + (penalty * moved**2).sum()
        return value, (features.T @ slope + 2.0 * penalty * moved).ravel()

    moved = minimize(loss, np.zeros(start.size), jac=True, method="L-BFGS-B", options=_CONVERGED).x
    return start + moved.reshape(start.shape)


class HeteroscedasticNoise(NamedTuple):
    """How far targets lie from predictions: centred normals whose variances depend on the row.

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
        # Standardised, the steps are those of any unit.
        residual = residual / np.sqrt(mean_square)
        sd = sd / np.sqrt(mean_square)
        # Noise: the smallest variance, as a part of the mean square of the residuals.
        least = 1e-6
        start = np.zeros(features.shape[1])

        def loss(coef: Floats) -> tuple[float, Floats]:
            noise = np.exp(features @ coef)
            variance = np.maximum(sd**2 + noise, least)
            ratio = residual**2 / variance
            slope = share * (1.0 - ratio) * noise / variance
            return float(share @ (np.log(variance) + ratio)), slope @ features

        coef = minimize(loss, start, jac=True, method="L-BFGS-B", options=_CONVERGED).x
        # The constant brings the variance back to the unit of the residuals.
        coef[0] += np.log(mean_square)
        return cls(coef, max(least * mean_square, SMALLEST_NORMAL))

    def sds(self, sd: Floats, features: Floats) -> Floats:
        """Standard deviation of each row."""
        return np.sqrt(np.maximum(sd**2 + np.exp(features @ self.coef), self.least))
