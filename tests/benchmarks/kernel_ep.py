"""Learned messages of expectation propagation: accuracy, uncertainty, streams and speed.

    SKPC_DATA=... python -m tests.benchmarks.kernel_ep [batch rivals kernels uncertainty
                                                        stream uci gamma speed] [--sampler]
        [--write doc/user_guide]

batch        mean log KL on stored messages of the logistic factor (2,500 for training, the rest
             for testing), trained on sampled and on exact beliefs
rivals       the same for other regressors
kernels      the same for other kernels on messages, by random features and incomplete Cholesky
uncertainty  predictive variance compared with the error, and coverage of predictive intervals
stream       30 problems of logistic regression in turn, messages learned just in time
uci          the same for three real tables
gamma        the compound gamma factor, 1,500 problems
speed        microseconds of a prediction and of an update

Streams have an oracle with the noise of a sampler of 500,000 particles (by the delta method), or
with --sampler that sampler itself (and the codec "scaled" alone). All times are CPU seconds of one
thread.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
from scipy.stats import norm, spearmanr
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpc import KernelEPOperator
from skpc.messages import (
    BayesianRegression,
    CholeskyFeatures,
    CompoundGammaFactor,
    JustInTimeOperator,
    MessageFeatures,
    Moments,
    QuadratureOracle,
    embedding_kernel,
    inner_length_scale_sq,
    message_moments,
    outer_length_scale_sq,
)
from tests.benchmarks import ep_streams as streams
from tests.benchmarks.guide_tables import add_write, write

#: Rows of a table of the guide.
Rows = list[list[str]]
N_TRAIN = 2500
N_SPLITS = 3
#: Prior and noise variances among which the evidence chooses.
PRIOR_VARIANCES = (1.0, 100.0)
VARIANCES = [(p, n) for p in PRIOR_VARIANCES for n in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", default=list(ROWS))
    parser.add_argument("--sampler", action="store_true")
    parser.add_argument("--schedule", default="parallel", choices=["parallel", "serial"])
    add_write(parser)
    options = parser.parse_args()
    measured = {}
    for name in options.rows:
        print(f"\n{name}", flush=True)
        measured[name] = ROWS[name](options)
    for file, (heads, parts) in GUIDE.items():
        if set(parts) <= set(measured):
            rows = [row for part in parts for row in measured[part] or []]
            write(options.write, file, [heads, *rows])


def splits() -> list[tuple[np.ndarray, np.ndarray]]:
    n_rows = len(streams.stored_messages().rows)
    orders = [np.random.default_rng(seed).permutation(n_rows) for seed in range(N_SPLITS)]
    return [(order[:N_TRAIN], order[N_TRAIN:]) for order in orders]


def operator(noise_variance: Any, seed: int = 0, **options: Any) -> KernelEPOperator:
    return KernelEPOperator(
        input_distributions=streams.DISTRIBUTIONS,
        noise_variance=noise_variance,
        random_state=seed,
        **{"n_inner": 500, "n_outer": 1000, **options},
    )


def by_evidence(rows: np.ndarray, targets: np.ndarray, seed: int = 0) -> KernelEPOperator:
    """The operator whose prior and noise variance have the greatest evidence."""
    fits = [operator(n, seed, prior_variance=p).fit(rows, targets) for p, n in VARIANCES]
    return max(fits, key=lambda fit: fit.log_evidence_)


def own_noise(rows: np.ndarray, targets: np.ndarray, seed: int = 0) -> KernelEPOperator:
    """The same with a noise variance for each output."""
    fits = [
        operator("evidence", seed, prior_variance=p).fit(rows, targets) for p in PRIOR_VARIANCES
    ]
    return max(fits, key=lambda fit: fit.log_evidence_)


def batch(options: argparse.Namespace) -> Rows:
    data = streams.stored_messages()
    cells = ["KernelEPOperator"]
    head = f"{'trained on':12s}{'prior':>8s}{'noise':>8s}"
    print(head + f"{'vs sampled':>12s}{'vs exact':>10s}{'improper':>10s}")
    for name in ("sampled", "exact"):
        beliefs = getattr(data, name)
        found = []
        for seed, (train, test) in enumerate(splits()):
            rows = data.rows[test]
            targets = streams.encode(beliefs[train], data.rows[train])
            fitted = by_evidence(data.rows[train], targets, seed)
            belief = streams.decode(fitted.predict(rows), rows)
            sites = belief / streams.EXACT.layout.incoming(rows)
            found.append(
                [
                    fitted.prior_variance,
                    fitted.noise_variance,
                    streams.log_kl(data.sampled[test], belief).mean(),
                    streams.log_kl(data.exact[test], belief).mean(),
                    (~sites.is_proper).mean(),
                ]
            )
        prior, noise, sampled, exact, improper = np.mean(found, axis=0)
        print(f"{name:12s}{prior:8.0f}{noise:8.0e}{sampled:12.2f}{exact:10.2f}{improper:10.1%}")
        cells += [f"{sampled:.2f}"] if name == "sampled" else []
        cells.append(f"{exact:.2f}")
    floor = streams.log_kl(data.sampled, data.exact).mean()
    print(f"{'noise floor':28s}{floor:12.2f}   (sampled beliefs against exact ones)")
    return [cells, ["exact beliefs", f"{floor:.2f}", "", ""]]


def rivals(options: argparse.Namespace) -> Rows:
    data = streams.stored_messages()
    train, test = splits()[0]
    rows = []
    print(f"{'':24s}{'sampled':>9s}{'exact':>9s}{'exact':>9s}{'CPU s':>8s}")
    for name, model in rival_models().items():
        cells = []
        start = time.process_time()
        for beliefs in (data.sampled, data.exact):
            targets = streams.encode(beliefs[train], data.rows[train])
            mean, sd = targets.mean(axis=0), targets.std(axis=0)
            model.fit(coordinates(data.rows[train]), (targets - mean) / sd)
            predicted = model.predict(coordinates(data.rows[test])) * sd + mean
            found = streams.decode(predicted, data.rows[test])
            if beliefs is data.sampled:
                cells.append(streams.log_kl(data.sampled[test], found).mean())
            cells.append(streams.log_kl(data.exact[test], found).mean())
        seconds = time.process_time() - start
        print(f"{name:24s}" + "".join(f"{c:9.2f}" for c in cells) + f"{seconds:8.1f}", flush=True)
        rows.append([name, *(f"{cell:.2f}" for cell in cells)])
    print("columns: trained on sampled, against sampled and exact; trained and tested on exact")
    return rows


def coordinates(rows: np.ndarray) -> np.ndarray:
    """What the other regressors get: parameters, the variance on a log scale."""
    return np.column_stack([rows[:, 0], rows[:, 2], np.log(rows[:, 3])])


def rival_models() -> dict[str, Any]:
    return {
        "GaussianProcess n=2000": FewRows(),
        "ExtraTrees 64": ExtraTreesRegressor(64, random_state=0),
        "RandomForest 64": RandomForestRegressor(64, random_state=0),
        "HistGradientBoosting": MultiOutputRegressor(HistGradientBoostingRegressor(random_state=0)),
        "MLP 100, 100": make_pipeline(
            StandardScaler(),
            MLPRegressor(hidden_layer_sizes=(100, 100), max_iter=500, random_state=0),
        ),
    }


class FewRows:
    """A Gaussian process on 2,000 rows; its widths and noise are those that suit 300 of them."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> FewRows:
        self.scaler = StandardScaler().fit(X)
        rows = self.scaler.transform(X[:2000])
        starts = [RBF(np.ones(3)) + WhiteKernel(noise, (1e-12, 1.0)) for noise in (1e-1, 1e-6)]
        with warnings.catch_warnings():
            # A start that ends at a bound loses to the other one.
            warnings.simplefilter("ignore", ConvergenceWarning)
            few = [
                GaussianProcessRegressor(10.0 * start, alpha=0.0).fit(rows[:300], y[:300])
                for start in starts
            ]
        best = max(few, key=lambda fit: fit.log_marginal_likelihood_value_)
        self.process = GaussianProcessRegressor(best.kernel_, alpha=0.0, optimizer=None)
        self.process.fit(rows, y[:2000])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.process.predict(self.scaler.transform(X))


def kernels(options: argparse.Namespace) -> None:
    data = streams.stored_messages()
    train, test = splits()[0]
    print(f"{'':42s}{'sampled':>9s}{'sd':>6s}{'exact':>9s}{'exact':>9s}{'sd':>6s}")
    for name, draw in FEATURES.items():
        cells = ""
        for beliefs in (data.sampled, data.exact):
            targets = streams.encode(beliefs[train], data.rows[train])
            predicted = best_features(draw, data.rows, targets, train, test)
            found = streams.decode(predicted, data.rows[test])
            error = streams.log_kl(beliefs[test], found)
            cells += f"{error.mean():9.2f}{error.std():6.2f}"
            if beliefs is data.sampled:
                cells += f"{streams.log_kl(data.exact[test], found).mean():9.2f}"
        print(f"{name:42s}{cells}", flush=True)
    print("columns: trained on sampled, against sampled and exact; trained and tested on exact")


def best_features(draw, rows, targets, train, test) -> np.ndarray:
    """Predictions with the width and the noise variance of the greatest evidence.

    A draw takes all messages, those to learn from first.
    """
    moments = message_moments(rows[np.append(train, test)], streams.DISTRIBUTIONS)
    n_train = len(train)
    mean, sd = targets.mean(axis=0), targets.std(axis=0)
    best, predicted = -np.inf, np.empty(0)
    for factor in (0.1, 1.0, 10.0):
        features = draw(moments, factor, np.random.RandomState(0))
        for variance, noise in VARIANCES:
            prior = BayesianRegression.prior(
                features.shape[1], 2, prior_variance=variance, noise_variance=noise
            )
            posterior = prior.update(features[:n_train], (targets - mean) / sd)
            if posterior.log_evidence > best:
                best = posterior.log_evidence
                predicted = posterior.predict(features[n_train:])[0] * sd + mean
    return predicted


def inner_features(moments: Moments, width: np.ndarray, n: int, random_state: Any) -> np.ndarray:
    """Expected random features of the inner kernel (appendix B.3)."""
    frequency = random_state.normal(size=(len(width), n)) / np.sqrt(width)[:, np.newaxis]
    angle = moments.mean @ frequency + random_state.uniform(0, 2 * np.pi, n)
    return np.sqrt(2 / n) * np.cos(angle) * np.exp(-0.5 * moments.variance @ frequency**2)


def one_variable(moments: Moments, variable: int) -> Moments:
    return Moments(*(part[:, [variable]] for part in moments))


def mean_variance(moments: Moments, factor: float, random_state: Any) -> np.ndarray:
    points = np.hstack(moments)
    width = factor * np.maximum(points.var(axis=0), 1e-12)
    known = Moments(points, np.zeros_like(points))
    return inner_features(known, width, 1000, random_state)


def expected_product(moments: Moments, factor: float, random_state: Any) -> np.ndarray:
    return inner_features(moments, factor * inner_length_scale_sq(moments), 1000, random_state)


def expected_sum(moments: Moments, factor: float, random_state: Any) -> np.ndarray:
    width = factor * inner_length_scale_sq(moments)
    parts = [
        inner_features(one_variable(moments, v), width[[v]], 500, random_state) for v in (0, 1)
    ]
    return np.hstack(parts)


def product_of_expected(moments: Moments, factor: float, random_state: Any) -> np.ndarray:
    width = factor * inner_length_scale_sq(moments)
    a, b = (inner_features(one_variable(moments, v), width[[v]], 32, random_state) for v in (0, 1))
    return (a[:, :, np.newaxis] * b[:, np.newaxis]).reshape(len(a), -1)


def embedding_scales(moments: Moments, random_state: Any) -> tuple[np.ndarray, float]:
    """Squared length scales of the inner and the outer kernel by the heuristic of the paper."""
    width = inner_length_scale_sq(moments)
    chosen = moments.take(random_state.choice(len(moments.mean), 1000, replace=False))
    return width, outer_length_scale_sq(chosen, width)


def gaussian_on_embeddings(moments: Moments, factor: float, random_state: Any) -> np.ndarray:
    width, outer = embedding_scales(moments, random_state)
    return MessageFeatures.draw(width, factor * outer, 500, 1000, random_state).transform(moments)


def cholesky_on_embeddings(moments: Moments, factor: float, random_state: Any) -> np.ndarray:
    width, outer = embedding_scales(moments, random_state)
    kernel = partial(
        embedding_kernel, inner_length_scale_sq=width, outer_length_scale_sq=factor * outer
    )
    return by_cholesky(kernel, moments)


def cholesky_sum(moments: Moments, factor: float, random_state: Any) -> np.ndarray:
    """A sum of Gaussian kernels, each on the embeddings of one variable."""
    scales = [
        embedding_scales(one_variable(moments, variable), random_state) for variable in (0, 1)
    ]

    def kernel(a: Moments, b: Moments) -> np.ndarray:
        parts = [
            embedding_kernel(one_variable(a, v), one_variable(b, v), width, factor * outer)
            for v, (width, outer) in enumerate(scales)
        ]
        return np.sum(parts, axis=0)

    return by_cholesky(kernel, moments)


def by_cholesky(kernel: Any, moments: Moments) -> np.ndarray:
    """Features by incomplete Cholesky factorisation, with pivots among those to learn from."""
    known = moments.take(slice(N_TRAIN))
    return CholeskyFeatures.choose(kernel, known, 1000).transform(moments)


FEATURES = {
    "mean-variance kernel": mean_variance,
    "expected product kernel, joint": expected_product,
    "sum of expected product kernels": expected_sum,
    "product of expected product kernels": product_of_expected,
    "Gaussian on joint embeddings (ours)": gaussian_on_embeddings,
    "Cholesky, sum of Gaussians on embeddings": cholesky_sum,
    "Cholesky, Gaussian on joint embeddings": cholesky_on_embeddings,
}


def uncertainty(options: argparse.Namespace) -> None:
    data = streams.stored_messages()
    lines = streams.uncertainty_lines()
    head = f"{'':20s}{'spearman':>9s}{'line 1':>8s}{'line 2':>8s}"
    print(head + f"{'coverage of exact':>24s}{'of own':>24s}")
    for name, noise, choose in (
        ("sampled", "one noise", by_evidence),
        ("sampled", "one each", own_noise),
        ("exact", "one noise", by_evidence),
        ("exact", "one each", own_noise),
    ):
        own = getattr(data, name)
        found = []
        for seed, (train, test) in enumerate(splits()):
            targets = streams.encode(own[train], data.rows[train])
            fitted = choose(data.rows[train], targets, seed)
            rows = data.rows[test]
            cells = [_spearman(fitted, *each) for each in ((rows, data.exact[test]), *lines)]
            for beliefs in (data.exact, own):
                for share in (0.5, 0.9):
                    cells += list(_coverage(fitted, rows, beliefs[test], share))
            found.append(cells)
        cells = np.mean(found, axis=0)
        ranks = "".join(f"{cell:8.2f}" for cell in cells[:3])
        shares = "".join(f"{cell:6.0%}" for cell in cells[3:])
        print(f"{name:9s}{noise:11s} {ranks}{shares}", flush=True)
    print("rank correlation of log predictive variance and log KL against exact beliefs;")
    print("coverage of intervals of 50 % (shift, log ratio) and 90 % (shift, log ratio)")


def _spearman(fitted: KernelEPOperator, rows: np.ndarray, exact: Any) -> float:
    mean, std = fitted.predict(rows, return_std=True)
    return float(spearmanr(std[:, 0], streams.log_kl(exact, streams.decode(mean, rows)))[0])


def _coverage(fitted: KernelEPOperator, rows: np.ndarray, exact: Any, share: float) -> np.ndarray:
    mean, std = fitted.predict(rows, return_std=True)
    miss = np.abs(streams.encode(exact, rows) - mean)
    return (miss < norm.ppf(0.5 + 0.5 * share) * std).mean(axis=0)


def oracle(options: argparse.Namespace) -> Any:
    return streams.sampling_oracle() if options.sampler else streams.DeltaMethodOracle()


def stream(options: argparse.Namespace) -> Rows:
    rows = []
    print(f"{'codec':13s}{'calls':>7s}{'last 10':>9s}{'|d error|':>10s}{'max KL':>9s}{'CPU s':>7s}")
    codecs = [("scaled", -11.9), ("mean-logvar", -9.0), ("natural", -9.0)]
    for codec, threshold in codecs[:1] if options.sampler else codecs:
        learner = streams.just_in_time(
            oracle(options), threshold=threshold, n_initial=300, noise_variance=1e-5, codec=codec
        )
        start = time.process_time()
        problems = streams.logistic_problems()
        done = [streams.run_problem(each, learner, options.schedule) for each in problems]
        seconds = time.process_time() - start
        late = sum(o.n_oracle_calls for o in done[-10:]) / sum(o.n_messages for o in done[-10:])
        worst = max(abs(o.error - o.exact_error) for o in done)
        kl = max(o.kl for o in done)
        print(
            f"{codec:13s}{learner.n_oracle_calls_:7d}{late:9.2%}{worst:10.4f}{kl:9.4f}{seconds:7.1f}"
        )
        answers = [f"{learner.n_oracle_calls_}", f"{late:.2%}"]
        rows.append([codec, f"{threshold}", *answers, f"{worst:.4f}", f"{kl:.4f}"])
        if codec == "scaled":
            print("  calls:", *(o.n_oracle_calls for o in done))
            _compare_with_sampling(options, learner, done)
    return rows


def _compare_with_sampling(options: argparse.Namespace, learner: JustInTimeOperator, done) -> None:
    """CPU seconds of the stream without and with learning, the sampler in both."""
    rows = streams.stored_messages().rows
    sampler = streams.sampling_oracle()
    one = _seconds(lambda: sampler.project(rows[:1]), 10)
    # Problems anew with what has been learned: the predictions alone.
    start = time.process_time()
    calls, n_messages = learner.n_oracle_calls_, len(learner.trace_)
    for problem in list(streams.logistic_problems(3, seed=0)):
        streams.LogisticEP(learner, schedule=options.schedule).run(problem.X, problem.y)
    predicted = len(learner.trace_) - n_messages - (learner.n_oracle_calls_ - calls)
    per_message = (time.process_time() - start) / predicted
    total = sum(o.n_messages for o in done)
    calls = sum(o.n_oracle_calls for o in done)
    alone, learned = total * one, total * per_message + calls * (one + 3e-4)
    print(
        f"  sampler {1e3 * one:.1f} ms an answer, learned {1e6 * per_message:.0f} us; "
        f"{total} messages: {alone:.0f} s by the sampler alone, {learned:.0f} s learned "
        f"({calls} answers of the sampler): {alone / learned:.0f} times less"
    )


def uci(options: argparse.Namespace) -> None:
    print(
        f"{'table':12s}{'codec':13s}{'messages':>9s}{'calls':>7s}{'KL':>9s}{'error':>8s}{'exact':>8s}"
    )
    codecs = [("scaled", -13.45), ("mean-logvar", -9.0), ("natural", -9.0)]
    for codec, threshold in codecs[:1] if options.sampler else codecs:
        learner = streams.just_in_time(
            oracle(options), threshold=threshold, n_initial=500, noise_variance=1e-5, codec=codec
        )
        for name, problem in streams.uci_problems():
            o = streams.run_problem(problem, learner, options.schedule)
            cells = f"{o.n_messages:9d}{o.n_oracle_calls:7d}{o.kl:9.4f}{o.error:8.3f}"
            print(f"{name:12s}{codec:13s}{cells}{o.exact_error:8.3f}", flush=True)


def gamma(options: argparse.Namespace) -> None:
    print(
        f"{'messages':12s}{'calls':>7s}{'after 1000':>12s}{'log KL':>9s}{'worst':>8s}{'CPU s':>7s}"
    )
    for family in ("log-gamma", "gamma"):
        learner = KernelEPOperator(
            input_distributions=[family], noise_variance=1e-6, random_state=0
        )
        operator = JustInTimeOperator(
            learner, QuadratureOracle(CompoundGammaFactor(), 0), threshold=-10.0, n_initial=100
        )
        start = time.process_time()
        asked, error = streams.compound_gamma_stream(operator)
        seconds = time.process_time() - start
        learned = error[~asked]
        print(
            f"{family:12s}{asked.sum():7d}{asked[1000:].mean():12.1%}{learned.mean():9.2f}"
            f"{learned.max():8.2f}{seconds:7.1f}"
        )
    print("log KL of the answers that were predicted")


def speed(options: argparse.Namespace) -> Rows:
    rows = []
    data = streams.stored_messages()
    targets = streams.encode(data.sampled, data.rows)
    fitted = operator(1e-4, n_inner=300, n_outer=500).fit(data.rows[:500], targets[:500])
    row, target = data.rows[600:601], targets[600:601]
    moments = message_moments(row, streams.DISTRIBUTIONS)
    features, posterior = fitted.features_, fitted.posterior_
    single = streams.EXACT, data.rows[:1]
    works: dict[str, Callable[[], Any]] = {
        "predict one message": lambda: posterior.predict(features.transform(moments)),
        "update by one message": lambda: posterior.update(features.transform(moments), target),
        "public predict": lambda: fitted.predict(row, return_std=True),
        "public partial_fit": lambda: fitted.partial_fit(row, target),
        "quadrature, one message": lambda: single[0].project(single[1]),
    }
    for name, work in works.items():
        rows.append([name, f"{1e6 * _seconds(work, 200):.0f}"])
    many = data.rows[:1000]
    for name, work in {
        "public predict, 1000 messages, each": lambda: fitted.predict(many, return_std=True),
        "quadrature, 1000 messages, each": lambda: streams.EXACT.project(many),
    }.items():
        rows.append([name, f"{1e3 * _seconds(work, 2):.0f}"])
    for name, microseconds in rows:
        print(f"{name:40s}{microseconds:>8s} us")
    return rows


def _seconds(work: Callable[[], Any], repeats: int) -> float:
    """CPU seconds of one call, the best of five rounds."""
    work()
    rounds = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(repeats):
            work()
        rounds.append((time.process_time() - start) / repeats)
    return min(rounds)


ROWS: dict[str, Callable[[argparse.Namespace], Rows | None]] = {
    "batch": batch,
    "rivals": rivals,
    "kernels": kernels,
    "uncertainty": uncertainty,
    "stream": stream,
    "uci": uci,
    "gamma": gamma,
    "speed": speed,
}
#: Tables of the guide: their heads, and the parts whose rows they have.
GUIDE: dict[str, tuple[list[str], list[str]]] = {
    "kernel_ep_speed": (["", "µs"], ["speed"]),
    "kernel_ep_accuracy": (
        ["", "sampled, vs sampled", "sampled, vs exact", "exact, vs exact"],
        ["batch", "rivals"],
    ),
    "kernel_ep_streams": (
        ["codec", "threshold", "answers", "last 10", "class error, off by", "KL"],
        ["stream"],
    ),
}

if __name__ == "__main__":
    main()
