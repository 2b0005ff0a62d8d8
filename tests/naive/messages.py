"""Slow truth: messages by quadrature, kernels by double integrals, Gaussian processes."""

from __future__ import annotations

import math

import numpy as np
from scipy import integrate, stats
from scipy.special import expit

#: Where almost all of a normal distribution is, in standard deviations.
WIDE = 12.0


def scipy_distribution(name, first, second):
    if name == "normal":
        return stats.norm(first, math.sqrt(second))
    if name == "beta":
        return stats.beta(first, second)
    return stats.gamma(first, scale=1.0 / second)


def kl(name, p, q):
    """KL(p || q) by integrating over the quantiles of p."""
    p, q = scipy_distribution(name, *p), scipy_distribution(name, *q)

    def difference(u):
        x = p.ppf(u)
        return p.logpdf(x) - q.logpdf(x)

    return integrate.quad(difference, 0.0, 1.0, limit=400, epsabs=1e-10)[0]


def expectation(function, mean, variance):
    """E[function(x)] for a normal x; a point mass where the variance is zero."""
    if variance == 0.0:
        return function(mean)
    sd = math.sqrt(variance)

    def integrand(x):
        return function(x) * math.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))

    return integrate.quad(integrand, mean - WIDE * sd, mean + WIDE * sd, limit=200)[0]


def grid(mean, variance):
    """Points and the probabilities of a normal there; one point where the variance is zero."""
    if variance == 0.0:
        return np.array([mean]), np.ones(1)
    x = mean + math.sqrt(variance) * np.linspace(-WIDE, WIDE, 601)
    weight = np.exp(-0.5 * (x - mean) ** 2 / variance)
    return x, weight / weight.sum()


def embedding_product(mean_r, var_r, mean_s, var_s, widths):
    """<mu_r, mu_s>: the expected inner kernel, one double sum for each variable."""
    product = 1.0
    for m, v, n, u, width in zip(mean_r, var_r, mean_s, var_s, widths):
        (x, p), (y, q) = grid(m, v), grid(n, u)
        product *= p @ np.exp(-0.5 * np.subtract.outer(x, y) ** 2 / width) @ q
    return product


def embedding_kernel(mean, variance, widths, outer):
    """The kernel of eq. (7) between all pairs of rows."""
    n = len(mean)
    product = np.array(
        [
            [
                embedding_product(mean[i], variance[i], mean[j], variance[j], widths)
                for j in range(n)
            ]
            for i in range(n)
        ]
    )
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            distance = product[i, i] + product[j, j] - 2.0 * product[i, j]
            out[i, j] = math.exp(-0.5 * distance / outer)
    return out


def incomplete_cholesky(kernel, n_features):
    """The kernel as far as its pivots explain it; each is the row of which most is left."""
    pivots, explained = [], np.zeros_like(kernel)
    for _ in range(n_features):
        pivots.append(int(np.argmax(np.diag(kernel - explained))))
        cross = kernel[:, pivots]
        explained = cross @ np.linalg.inv(kernel[np.ix_(pivots, pivots)]) @ cross.T
    return explained


def random_features(mean, variance, features):
    """Algorithm 1 for one row, its expectations by quadrature."""
    n_inner, n_outer = len(features.phase), len(features.outer_phase)
    inner = []
    for i in range(n_inner):
        frequency = features.frequency[:, i]
        # A sum of independent normal variables is normal.
        m = sum(w * x for w, x in zip(frequency, mean)) + features.phase[i]
        v = sum(w * w * x for w, x in zip(frequency, variance))
        inner.append(expectation(math.cos, m, v))
    out = []
    for i in range(n_outer):
        # outer_frequency carries the factor sqrt(2 / n_inner) of the inner features.
        angle = sum(w * x for w, x in zip(features.outer_frequency[:, i], inner))
        out.append(math.sqrt(2.0 / n_outer) * math.cos(angle + features.outer_phase[i]))
    return np.array(out)


def gaussian_process(kernel, cross, itself, targets, noise):
    """Predictive means and variances of a Gaussian process, and the log density of its targets."""
    covariance = kernel + noise * np.eye(len(kernel))
    inverse = np.linalg.inv(covariance)
    mean = cross @ inverse @ targets
    variance = itself + noise - np.array([row @ inverse @ row for row in cross])
    evidence = sum(
        stats.multivariate_normal(np.zeros(len(kernel)), covariance).logpdf(column)
        for column in targets.T
    )
    return mean, variance, evidence


def likeliest_noise(kernel, targets):
    """The noise variance of each output with the greatest evidence, by trying many."""
    found = []
    for column in targets.T:
        noises = np.geomspace(1e-3, 1e2, 500)
        evidence = [
            stats.multivariate_normal(
                np.zeros(len(column)), kernel + noise * np.eye(len(column))
            ).logpdf(column)
            for noise in noises
        ]
        found.append(noises[int(np.argmax(evidence))])
    return np.array(found)


def leave_one_out_error(kernel, targets, noise):
    """Sum of squared errors for each output, each row predicted by a fit to all others."""
    total = np.zeros(targets.shape[1])
    for row in range(len(targets)):
        others = np.delete(np.arange(len(targets)), row)
        gram = kernel[np.ix_(others, others)] + noise * np.eye(len(others))
        total += (targets[row] - kernel[row, others] @ np.linalg.solve(gram, targets[others])) ** 2
    return total


def tilted_moments(log_density, low, high, value=lambda u: u, points=None):
    """Mean and variance of value(u) under a density of u that is given up to a constant."""
    grid = np.linspace(low, high, 2001)
    peak = max(log_density(u) for u in grid)
    options = {"limit": 1000, "epsabs": 0.0, "epsrel": 1e-12, "points": points}

    def integral(power, centre=0.0):
        def integrand(u):
            return (value(u) - centre) ** power * math.exp(log_density(u) - peak)

        return integrate.quad(integrand, low, high, **options)[0]

    total = integral(0)
    mean = integral(1) / total
    return mean, integral(2, mean) / total


def logistic_belief(alpha, beta, mean, variance, target):
    """Mean and variance of p (target 0), z (target 1) or a function of z at the logistic factor."""

    def log_density(z):
        log_p, log_q = -np.logaddexp(0.0, -z), -np.logaddexp(0.0, z)
        return -0.5 * (z - mean) ** 2 / variance + (alpha - 1) * log_p + (beta - 1) * log_q

    sd = math.sqrt(variance)
    shift = max(alpha, beta) * variance
    low, high = mean - shift - WIDE * sd, mean + shift + WIDE * sd
    inside = [0.0] if low < 0.0 < high else None
    value = target if callable(target) else expit if target == 0 else lambda z: z
    return tilted_moments(log_density, low, high, value, inside)


def compound_gamma_belief(s1, r1, s2, shape, rate, value=math.exp):
    """Mean and variance of tau, or of a function of its log, under its gamma message and the
    compound gamma factor."""

    def log_density(u):
        power = shape + s2 - 1.0
        return power * u - rate * math.exp(u) - (s1 + s2) * math.log(math.exp(u) + r1)

    middle = math.log(shape / rate)
    return tilted_moments(log_density, middle - 30.0, middle + 6.0, value, [middle])


def serial_ep(X, observed, project, n_iter, damping=0.0):
    """Expectation propagation that inverts the posterior precision after every site."""
    n, d = X.shape
    tau, nu = np.zeros(n), np.zeros(n)
    for _ in range(n_iter):
        for i in range(n):
            covariance = np.linalg.inv(np.eye(d) + X.T @ np.diag(tau) @ X)
            mean = covariance @ X.T @ nu
            variance = X[i] @ covariance @ X[i]
            cavity_tau = 1.0 / variance - tau[i]
            cavity_nu = X[i] @ mean / variance - nu[i]
            m, v = project(observed[i], cavity_nu / cavity_tau, 1.0 / cavity_tau)
            tau[i] = damping * tau[i] + (1 - damping) * (1.0 / v - cavity_tau)
            nu[i] = damping * nu[i] + (1 - damping) * (m / v - cavity_nu)
    covariance = np.linalg.inv(np.eye(d) + X.T @ np.diag(tau) @ X)
    return covariance @ X.T @ nu, covariance
