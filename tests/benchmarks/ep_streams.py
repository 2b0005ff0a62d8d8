"""Data, oracles and streams of problems for the benchmarks of learned messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from skpc import KernelEPOperator
from skpc.messages import (
    CODECS,
    CompoundGammaFactor,
    ImportanceSamplingOracle,
    JustInTimeOperator,
    LogisticEP,
    LogisticFactor,
    Normal,
    QuadratureOracle,
    WeightPosterior,
    precision_posterior,
)

DISTRIBUTIONS = ("beta", "normal")
PROPOSAL = Normal(0.0, 200.0)
N_PARTICLES = 500_000
MIN_EFFECTIVE_SIZE = 100.0
UCI = ("banknote", "blood", "fertility")
EXACT = QuadratureOracle(LogisticFactor(), target=1)


class Messages(NamedTuple):
    """Stored messages: incoming rows, sampled and exact beliefs about z (mean and variance)."""

    rows: np.ndarray
    sampled: Normal
    exact: Normal


def folder() -> Path:
    return Path(os.environ["SKPC_DATA"]) / "ep_messages"


def stored_messages() -> Messages:
    data = np.load(folder() / "logistic_infernet_train.npz")
    exact = data["y_exact"]
    return Messages(data["X"], Normal(*data["y_is"].T), Normal(exact[:, 0], exact[:, 1]))


def uncertainty_lines() -> list[tuple[np.ndarray, Normal]]:
    data = np.load(folder() / "logistic_uncertainty_lines.npz")
    lines = []
    for name in ("line1", "line2"):
        exact = data[f"{name}_exact"]
        lines.append((data[name], Normal(exact[:, 0], exact[:, 1])))
    return lines


def encode(belief: Normal, rows: np.ndarray) -> np.ndarray:
    return CODECS["scaled"].encode(belief, EXACT.layout.incoming(rows))


def decode(targets: np.ndarray, rows: np.ndarray) -> Normal:
    return CODECS["scaled"].decode(targets, EXACT.layout.incoming(rows))


def log_kl(truth: Normal, found: Normal) -> np.ndarray:
    return np.log(np.maximum(truth.kl(found), 1e-300))


class DeltaMethodOracle:
    """The exact belief with the noise that importance sampling would have, by the delta method.

    The estimates of mean and variance are drawn from the normal distribution that they have with
    many particles. Where too few of them would carry the weight there is no answer.
    """

    def __init__(self, n_particles: int = N_PARTICLES, seed: int = 0):
        self.layout = EXACT.layout
        self.n_particles = n_particles
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = np.polynomial.legendre.leggauss(400)

    def project(self, messages: np.ndarray) -> Normal:
        belief = EXACT.project(messages)
        for row, message in enumerate(np.atleast_2d(messages)):
            mean, variance = belief.parameters[row]
            covariance, effective_size = self._noise(message, mean, variance)
            if not effective_size >= MIN_EFFECTIVE_SIZE:
                belief.natural[row] = np.nan
                continue
            noise = self.rng.multivariate_normal([0, 0], covariance)
            estimate = mean + noise[0], max(variance + noise[1], 1e-3 * variance)
            belief.natural[row] = Normal(*estimate).natural
        return belief

    def _noise(self, message: np.ndarray, mean: float, variance: float) -> tuple[np.ndarray, float]:
        """Covariance of the estimates of mean and variance, and the effective sample size."""
        reach = 10.0 * np.sqrt(variance)
        z = mean + reach * self.nodes
        log_density = EXACT.factor.log_density(z[np.newaxis], message[np.newaxis])[0]
        density = np.exp(log_density - log_density.max())
        density /= reach * self.weights @ density
        parts = np.stack([z - mean, (z - mean) ** 2 - variance])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio = reach * self.weights * density**2 / np.exp(PROPOSAL.log_density(z))
            covariance = (parts * ratio) @ parts.T / self.n_particles
            return covariance, float(self.n_particles / ratio.sum())


def sampling_oracle(
    seed: int = 0, target: int = 1, n_particles: int = N_PARTICLES
) -> ImportanceSamplingOracle:
    return ImportanceSamplingOracle(
        lambda inputs, random_state: expit(inputs[:, 0]),
        [PROPOSAL],
        output="beta",
        target=target,
        n_particles=n_particles,
        min_effective_size=MIN_EFFECTIVE_SIZE,
        random_state=seed,
    )


def just_in_time(oracle, *, threshold, n_initial, noise_variance, codec="scaled", seed=0):
    regressor = KernelEPOperator(
        input_distributions=DISTRIBUTIONS, noise_variance=noise_variance, random_state=seed
    )
    return JustInTimeOperator(
        regressor, oracle, threshold=threshold, n_initial=n_initial, codec=codec
    )


class Problem(NamedTuple):
    """Rows and labels, and others that the classifier is tested on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def error(self, posterior: WeightPosterior) -> float:
        return float(((self.X_test @ posterior.mean > 0) != self.y_test).mean())


def logistic_problems(n_problems: int = 30, seed: int = 0) -> Iterator[Problem]:
    """Problems of 300 rows and 20 columns with the same weights; 10,000 rows to test on."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=20)

    def rows(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n_rows, 20))
        return X, (rng.random(n_rows) < expit(X @ weights)).astype(float)

    test = rows(10_000)
    for _ in range(n_problems):
        yield Problem(*rows(300), *test)


def uci_problems(names: Iterable[str] = UCI) -> Iterator[tuple[str, Problem]]:
    for name in names:
        data = np.load(folder() / f"uci_{name}.npz")
        yield name, Problem(*(data[k] for k in ("X_train", "y_train", "X_test", "y_test")))


class Outcome(NamedTuple):
    """How one problem of a stream went."""

    n_messages: int
    n_oracle_calls: int
    kl: float
    error: float
    exact_error: float


def run_problem(problem: Problem, operator: JustInTimeOperator, schedule: str) -> Outcome:
    calls, messages = operator.n_oracle_calls_, len(operator.trace_)
    found = LogisticEP(operator, schedule=schedule).run(problem.X, problem.y)
    exact = LogisticEP(EXACT, n_iter=20).run(problem.X, problem.y)
    return Outcome(
        len(operator.trace_) - messages,
        operator.n_oracle_calls_ - calls,
        exact.kl(found),
        problem.error(found),
        problem.error(exact),
    )


def compound_gamma_stream(
    operator: JustInTimeOperator, n_problems: int = 1500, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Whether the oracle was asked in each problem, and the log KL of the posterior of tau."""
    rng = np.random.default_rng(seed)
    exact = QuadratureOracle(CompoundGammaFactor(), 0)
    asked, error = [], []
    for _ in range(n_problems):
        tau = rng.gamma(1.0, 1.0 / rng.gamma(1.0, 1.0))
        x = rng.normal(size=rng.integers(10, 101)) / np.sqrt(tau)
        calls = operator.n_oracle_calls_
        found = precision_posterior(x, operator)
        asked.append(operator.n_oracle_calls_ > calls)
        error.append(np.log(max(precision_posterior(x, exact).kl(found), 1e-300)))
    return np.array(asked), np.array(error)
