"""Measurements of kernel EP on problems: collected messages, and messages learned just in time."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit

from skpc import KernelEPOperator
from skpc.messages import (
    CODECS,
    CompoundGammaFactor,
    JustInTimeOperator,
    LogisticEP,
    LogisticFactor,
    MessageFeatures,
    QuadratureOracle,
    inner_length_scale_sq,
    message_moments,
    outer_length_scale_sq,
)
from tests.benchmarks import ep_streams as streams
from tests.benchmarks.papers.ledger import Figures

#: Real tables in the order in which they come.
TABLES = (*streams.UCI, "ionosphere")


def batch(oracle: str) -> Figures:
    """Experiment 1: log KL of learned beliefs about z, with the numbers of the paper.

    Twenty problems of 300 rows and 20 columns, each with weights of its own; the messages of the
    first five of ten sweeps, 5,000 to learn from and 3,000 to be tested on. Beliefs come from
    quadrature, or from an importance sampler of 100,000 particles, if the oracle is "sampled".
    Length scales and ridges have the least error of leave-one-out predictions.
    """
    n_problems, n_sweeps, n_train, n_test = 20, 5, 5000, 3000
    rng, collected = np.random.default_rng(0), []
    for _ in range(n_problems):
        X, weights = rng.normal(size=(300, 20)), rng.normal(size=20)
        y = (rng.random(300) < expit(X @ weights)).astype(float)
        recorder = _Recorder(streams.EXACT)
        LogisticEP(recorder, n_iter=10).run(X, y)
        collected += recorder.seen[:n_sweeps]
    rows = rng.permutation(np.vstack(collected))[: n_train + n_test]
    exact = streams.EXACT.project(rows)
    truth, incoming = exact, streams.EXACT.layout.incoming(rows)
    if oracle == "sampled":
        truth = streams.sampling_oracle(n_particles=100_000).project(rows)
    codec, learn = CODECS["mean-logvar"], slice(n_train)
    targets = codec.encode(truth, incoming)
    mean, sd = targets[learn].mean(axis=0), targets[learn].std(axis=0)
    targets = (targets - mean) / sd
    moments = message_moments(rows, streams.DISTRIBUTIONS)
    width = inner_length_scale_sq(moments.take(learn))
    least, predicted = np.full(2, np.inf), np.empty((n_test, 2))
    for inner, outer in product((0.1, 1.0, 10.0), (0.1, 1.0, 10.0)):
        median = outer_length_scale_sq(moments.take(slice(1000)), inner * width)
        scales = (inner * width, outer * median)
        features = MessageFeatures.draw(*scales, 500, 1000, np.random.RandomState(0))
        psi = features.transform(moments)
        errors, fitted = _left_out(psi[learn], targets[learn], psi[n_train:])
        predicted = np.where(errors < least, fitted, predicted)
        least = np.minimum(errors, least)
    belief = codec.decode(predicted * sd + mean, incoming[n_train:])
    error = streams.log_kl(truth[n_train:], belief)
    percentiles = np.percentile(error, [1, 50, 99]).tolist()
    found: Figures = {"mean": error.mean(), "sd": error.std(), "percentiles": percentiles}
    if oracle == "sampled":
        found["noise"] = streams.log_kl(truth[n_train:], exact[n_train:]).mean()
    return found


def _left_out(
    features: np.ndarray, targets: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The least error of leave-one-out predictions of each output, and predictions of others."""
    length, direction = np.linalg.eigh(features.T @ features)
    along, cross = features @ direction, direction.T @ (features.T @ targets)
    least, predicted = np.full(2, np.inf), np.empty((len(others), 2))
    # A ridge below the rounding of the features would be noise.
    for ridge in np.geomspace(1e-12, 1e-2, 11) * length[-1]:
        shrunk = cross / (length + ridge)[:, np.newaxis]
        leverage = (along**2 / (length + ridge)).sum(axis=1, keepdims=True)
        errors = (((targets - along @ shrunk) / (1.0 - leverage)) ** 2).mean(axis=0)
        predicted = np.where(errors < least, others @ (direction @ shrunk), predicted)
        least = np.minimum(errors, least)
    return least, predicted


def stream() -> Figures:
    """Thirty logistic regressions, learned just in time; seconds compared with a sampler."""
    learner = streams.just_in_time(
        streams.DeltaMethodOracle(), threshold=-11.9, n_initial=300, noise_variance=1e-5
    )
    start = time.process_time()
    done = [
        streams.run_problem(problem, learner, "parallel") for problem in streams.logistic_problems()
    ]
    seconds = time.process_time() - start
    sampler, rows = streams.sampling_oracle(), streams.stored_messages().rows
    start = time.process_time()
    for row in rows[:20]:
        sampler.project(row[np.newaxis])
    one = (time.process_time() - start) / 20
    messages, late = sum(o.n_messages for o in done), done[-10:]
    return {
        "answers": [o.n_oracle_calls for o in done],
        "late": sum(o.n_oracle_calls for o in late) / sum(o.n_messages for o in late),
        "errors": [
            float(np.mean([getattr(o, key) for o in done])) for key in ("error", "exact_error")
        ],
        "off": max(abs(o.error - o.exact_error) for o in done),
        "kl": max(o.kl for o in done),
        "sampler_s": messages * one,
        "learned_s": seconds + learner.n_oracle_calls_ * one,
    }


def sampled_stream() -> Figures:
    """Thirty logistic regressions with the sampler itself: an operator for each direction."""
    to_z = streams.just_in_time(
        streams.sampling_oracle(), threshold=-11.9, n_initial=300, noise_variance=1e-5
    )
    to_p = streams.just_in_time(
        streams.sampling_oracle(1, target=0), threshold=-9.0, n_initial=300, noise_variance=1e-5
    )
    recorder, exact = _Recorder(to_z), QuadratureOracle(LogisticFactor(), target=0)
    off, error, start = [], [], time.process_time()
    for problem in streams.logistic_problems():
        found = LogisticEP(recorder, schedule="parallel").run(problem.X, problem.y)
        truth = LogisticEP(streams.EXACT, n_iter=20).run(problem.X, problem.y)
        error.append(problem.error(found))
        off.append(abs(error[-1] - problem.error(truth)))
        rows = np.vstack(recorder.seen)
        recorder.seen.clear()
        beliefs = to_p.project(rows)
    log_kl = np.log(np.maximum(exact.project(rows).kl(beliefs), 1e-300))
    return {
        "answers": [to_z.n_oracle_calls_, to_p.n_oracle_calls_],
        "messages": len(to_z.trace_),
        "error": float(np.mean(error)),
        "off": max(off),
        "log_kl": float(log_kl.mean()),
        "seconds": time.process_time() - start,
    }


def published_stream() -> Figures:
    """The settings of the paper: targets mean and log variance, noise 1e-4, threshold -8.5."""
    regressor = KernelEPOperator(
        input_distributions=streams.DISTRIBUTIONS,
        noise_variance=1e-4,
        prior_variance=100.0,
        standardize=False,
        random_state=0,
    )
    oracle = streams.DeltaMethodOracle()
    learner = JustInTimeOperator(
        regressor, oracle, threshold=-8.5, n_initial=300, codec="mean-logvar"
    )
    done = [
        streams.run_problem(problem, learner, "parallel") for problem in streams.logistic_problems()
    ]
    messages, late = sum(o.n_messages for o in done[-10:]), done[-10:]
    return {
        "answers": [o.n_oracle_calls for o in done],
        "late": sum(o.n_oracle_calls for o in late) / messages,
        "off": max(abs(o.error - o.exact_error) for o in done),
        "kl": max(o.kl for o in done),
        "end": float(np.median(learner.trace_[-3000:, 0])),
    }


def both_directions() -> Figures:
    """Messages from the logistic factor to p, learned in a stream of ten problems."""
    recorder = _Recorder(streams.EXACT)
    for problem in streams.logistic_problems(10):
        LogisticEP(recorder, n_iter=10).run(problem.X, problem.y)
    exact = QuadratureOracle(LogisticFactor(), target=0)
    regressor = KernelEPOperator(
        input_distributions=streams.DISTRIBUTIONS, noise_variance=1e-5, random_state=0
    )
    learner = JustInTimeOperator(regressor, exact, threshold=-9.0, n_initial=300)
    asked, errors = [], []
    for rows in np.array_split(np.vstack(recorder.seen), 10):
        before = learner.n_oracle_calls_
        found, truth = learner.project(rows), exact.project(rows)
        asked.append(learner.n_oracle_calls_ - before)
        errors.append(float(np.log(np.maximum(truth.kl(found), 1e-300)).mean()))
    return {"answers": asked, "errors": errors, "messages": sum(map(len, recorder.seen))}


class _Recorder:
    """An operator that remembers what it was asked."""

    def __init__(self, operator: Any) -> None:
        self.operator, self.layout = operator, operator.layout
        self.seen: list[np.ndarray] = []

    def project(self, messages: Any) -> Any:
        self.seen.append(np.array(messages))
        return self.operator.project(messages)


def gamma() -> Figures:
    learner = KernelEPOperator(
        input_distributions=["log-gamma"], noise_variance=1e-6, random_state=0
    )
    oracle = QuadratureOracle(CompoundGammaFactor(), 0)
    operator = JustInTimeOperator(learner, oracle, threshold=-10.0, n_initial=100)
    start = time.process_time()
    asked, error = streams.compound_gamma_stream(operator)
    seconds = time.process_time() - start
    return {
        "answers": int(asked.sum()),
        "late": asked[1000:].mean(),
        "log_kl": error[~asked].mean(),
        "worst": error[~asked].max(),
        "seconds": seconds,
    }


def tables(n_tables: int) -> Figures:
    """Real tables in turn: answers, errors, and how uncertainty rises where a table begins."""
    learner = streams.just_in_time(
        streams.DeltaMethodOracle(), threshold=-13.45, n_initial=500, noise_variance=1e-5
    )
    found: Figures = {}
    for name, problem in streams.uci_problems(TABLES[:n_tables]):
        begin, start = len(learner.trace_), time.process_time()
        outcome = streams.run_problem(problem, learner, "parallel")
        trace = learner.trace_[begin:, 0]
        first, last = trace[: len(problem.y) * 2], trace[-len(problem.y) :]
        found[name] = {
            "messages": outcome.n_messages,
            "answers": outcome.n_oracle_calls,
            "kl": float(outcome.kl),
            "error": float(outcome.error),
            "exact": float(outcome.exact_error),
            "peak": float(np.nanmax(first)) if np.isfinite(first).any() else None,
            "end": float(np.median(last)),
            "seconds": round(time.process_time() - start, 1),
        }
    return found
