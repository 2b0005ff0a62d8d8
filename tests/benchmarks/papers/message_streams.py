"""Measurements of kernel EP on streams of problems, where messages are learned just in time."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from skpc import KernelEPOperator
from skpc.messages import (
    CompoundGammaFactor,
    JustInTimeOperator,
    LogisticEP,
    LogisticFactor,
    QuadratureOracle,
)
from tests.benchmarks import ep_streams as streams
from tests.benchmarks.papers.ledger import Figures

#: Real tables in the order in which they come.
TABLES = (*streams.UCI, "ionosphere")


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
