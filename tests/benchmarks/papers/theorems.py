"""Theorems and costs that the papers state without a table: small experiments."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import combinations, product
from typing import Any

import numpy as np

from skpc import CutsetNetworkBD, KernelEPOperator, SoftLearnSPN
from skpc.all_trees.all_trees import AllTrees
from skpc.all_trees.parameters import PairTables, UndirectedParameters
from skpc.circuit import Circuit, mixture
from skpc.datasets import fetch_debd
from skpc.discrepancies import stein_gram
from skpc.factor_graphs import FactorGraph
from skpc.kernels import ExponentialHamming, SumKernel
from skpc.queries import bd_score, condition, expected_kernel, fit_parameters, log_likelihood
from tests.benchmarks.papers.bayesian_scores import file_of
from tests.benchmarks.papers.ledger import Figures, Job, Row, claim
from tests.naive.bayesian_score import log_marginal_likelihood

#: Sizes of what grows where a cost is measured, and the least of some repetitions.
SIZES, REPEATS = (8, 16, 32, 64), 3
#: A slope of log seconds against log size that stands for at most linear growth.
LINEAR = 1.15
#: Errors that are rounding.
ROUNDING = 1e-9
STEPS = ("nltcs", "kdd", "retail")
#: Random feature maps whose updates are timed.
OUTER = (250, 500, 1000, 2000)


# --------------------------------------------------------------------------- expected kernels


def _states(n_states: tuple[int, ...]) -> np.ndarray:
    return np.array(list(product(*map(range, n_states))), dtype=float)


def _pair(seed: int) -> tuple[Circuit, Circuit, np.ndarray]:
    """Two compatible circuits over five variables, and all states."""
    n_states, rng = (2, 3, 2, 3, 2), np.random.default_rng(seed)
    every = _states(n_states)
    masses = rng.dirichlet(np.ones(len(every)), 2)
    table, other = (every[rng.choice(len(every), 300, p=each)] for each in masses)
    states = [list(range(k)) for k in n_states]
    p = CutsetNetworkBD(structured=True, categories=states).fit(table).circuit_
    return p, fit_parameters(p, other), every


def expectations() -> Figures:
    """Greatest relative errors of expected kernels and predictions against enumeration."""
    found = {"kernel": 0.0, "prediction": 0.0}
    for seed in range(20):
        p, q, every = _pair(seed)
        kernel = SumKernel([ExponentialHamming(0.3), ExponentialHamming(1.0)], [0.4, 0.6])
        masses = [np.exp(log_likelihood(each, every)) for each in (p, q)]
        gram = kernel(every, every)
        truth = masses[0] @ gram @ masses[1]
        error = abs(expected_kernel(p, q, kernel) / truth - 1.0)
        found["kernel"] = max(found["kernel"], float(error))
        rng = np.random.default_rng(seed)
        known = np.where(rng.random(5) < 0.5, every[rng.integers(len(every))], np.nan)
        fits = (np.isnan(known) | (every == known)).all(axis=1)
        support, dual = rng.integers(len(every), size=6), rng.normal(size=6)
        truth = (masses[0] * fits) @ gram[:, support] @ dual / masses[0][fits].sum()
        ours = expected_kernel(condition(p, known), every[support], kernel) @ dual
        found["prediction"] = max(found["prediction"], float(abs(ours / truth - 1.0)))
    return found


def _trees_of_one_structure(n_parts: int, rng: np.random.Generator) -> list[Circuit]:
    """Trees over 20 variables that differ in their parameters."""
    rows = rng.integers(0, 3, (400, 20)).astype(float)
    tree = CutsetNetworkBD(max_depth=0, categories=[[0, 1, 2]] * 20).fit(rows).circuit_
    return [fit_parameters(tree, rng.permuted(rows, axis=1)) for _ in range(n_parts)]


def cost_of_kernels() -> Figures:
    """Slopes of log CPU seconds in the log of each size, the others fixed."""
    rng = np.random.default_rng(0)
    trees = _trees_of_one_structure(SIZES[-1], rng)
    circuits = {n: mixture(trees[:n], np.full(n, 1.0 / n)) for n in SIZES}
    few, kernel = circuits[SIZES[0]], ExponentialHamming(0.5)
    points = rng.integers(0, 3, (2000, 20)).astype(float)
    kernels = {n: SumKernel([ExponentialHamming(0.1 + 0.01 * i) for i in range(n)]) for n in SIZES}
    work: dict[str, Callable[[int], Any]] = {
        "p": lambda n: expected_kernel(circuits[n], few, kernel),
        "q": lambda n: expected_kernel(few, circuits[n], kernel),
        "k": lambda n: expected_kernel(few, few, kernels[n]),
        "prediction p": lambda n: expected_kernel(circuits[n], points, kernel),
        "prediction k": lambda n: expected_kernel(few, points, kernels[n]),
    }
    return {name: _slope(SIZES, each) for name, each in work.items()}


def _slope(sizes: tuple[int, ...], work: Callable[[int], Any]) -> float:
    seconds = []
    for size in sizes:
        work(size)
        seconds.append(min(_seconds(work, size) for _ in range(REPEATS)))
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _seconds(work: Callable[[int], Any], size: int) -> float:
    """CPU seconds of one call, of as many as a clock can tell apart."""
    start, calls = time.process_time(), 0
    while calls == 0 or time.process_time() - start < 0.05:
        work(size)
        calls += 1
    return (time.process_time() - start) / calls


def conditional_stein() -> Figures:
    """Equations 8 and 9 against the discrepancy of the whole distribution, by enumeration."""
    worst = 0.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n_states, n_sampled = (3, 2, 3), 2
        graph = FactorGraph(
            list(n_states),
            [(pair, rng.normal(size=[n_states[v] for v in pair])) for pair in ((0, 1), (1, 2))],
        )
        every, sampled = _states(n_states), _states(n_states[:n_sampled])
        p = np.exp(graph.log_score(every))
        of = (every[:, np.newaxis, :n_sampled] == sampled).all(axis=2)
        q_sampled = rng.dirichlet(np.ones(len(sampled)))
        q = of @ (q_sampled / (p @ of)) * p
        whole = q @ stein_gram(every, graph) @ q
        collapsed = np.column_stack([sampled, np.full(len(sampled), np.nan)])
        ours = q_sampled @ stein_gram(collapsed, graph) @ q_sampled
        worst = max(worst, float(abs(ours / whole - 1.0)))
    return {"error": worst}


# --------------------------------------------------------------------------- all trees


def marginals() -> Figures:
    """Greatest errors of the univariate and pairwise marginals that the parameters can have."""
    n, found = 5, {"single": 0.0, "pair": 0.0}
    every = _states((2,) * n).astype(np.int64)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        weight = rng.dirichlet(np.full(len(every), 0.3))
        tables = PairTables.from_rows(every, weight, np.full(n, 2), 0.0)
        parameters = UndirectedParameters(tables.ptr)
        # The table of a variable with itself has zeros, and is of no use.
        with np.errstate(divide="ignore", invalid="ignore"):
            start = parameters.start(tables)
        model = parameters.model(start)
        single = np.exp(model.log_state_factor)
        edge = np.kron(model.weight, np.ones((2, 2)))
        pair = np.divide(model.edge_factor, edge, out=tables.pair.copy(), where=edge > 0.0)
        pair = np.where(edge > 0.0, pair * np.outer(single, single), pair)
        found["single"] = max(found["single"], float(abs(single - tables.single).max()))
        found["pair"] = max(found["pair"], float(abs(pair - tables.pair).max()))
    return found


def colourings() -> Figures:
    """Theorem 2 on all connected graphs of five vertices, by enumeration of rows and trees.

    ``wrong`` counts rows whose probability does not tell whether they colour the graph.
    """
    n = 5
    pairs, every = list(combinations(range(n), 2)), _states((3,) * n).astype(np.int64)
    trees = [tree for tree in combinations(pairs, n - 1) if _is_tree(tree, n)]
    proper = {pair: every[:, pair[0]] != every[:, pair[1]] for pair in pairs}
    bound, found = 1.0 / (3 * 2 ** (n - 1)), {"graphs": 0, "wrong": 0, "colourable": 0, "map": 0}
    for bits in range(1 << len(pairs)):
        graph = {pair for i, pair in enumerate(pairs) if bits >> i & 1}
        inside = [tree for tree in trees if graph.issuperset(tree)]
        if not inside:
            continue
        coloured = [np.logical_and.reduce([proper[pair] for pair in tree]) for tree in inside]
        probability = bound * np.mean(coloured, axis=0)
        colours = np.logical_and.reduce([proper[pair] for pair in graph])
        found["graphs"] += 1
        found["wrong"] += int((np.isclose(probability, bound) != colours).sum())
        found["colourable"] += int(colours.any())
        found["map"] += int(np.isclose(probability.max(), bound))
        if bits == (1 << len(pairs)) - 1:
            found["error"] = float(abs(_of_determinants(n, every) - probability).max())
    return found


def _is_tree(edges: tuple[tuple[int, int], ...], n: int) -> bool:
    reached = {0}
    for _ in range(n):
        reached |= {v for edge in edges if reached & set(edge) for v in edge}
    return len(reached) == n


def _of_determinants(n: int, rows: np.ndarray) -> np.ndarray:
    """The complete graph in the mixture of the package: equal weights, tables of theorem 2."""
    weight = np.ones((n, n)) - np.eye(n)
    ratio = np.where(np.eye(3), 0.0, 9.0 / 6.0)
    factor = np.kron(weight, ratio)
    single = np.full(3 * n, -np.log(3.0))
    trees = AllTrees(np.arange(n + 1) * 3, weight, factor, single, symmetric=True)
    return np.exp(trees.log_likelihood(trees.states_of(rows)))


# --------------------------------------------------------------------------- soft learning


def steps(name: str) -> Figures:
    """Likelihoods of the training rows (nats a row) as learning stops later and later.

    Parts below a weight become fully factorised, which are the alternative circuits of appendix D.
    """
    data = fetch_debd(name)
    train, found = data.train[:4000].astype(float), {}
    for assignment in ("hard", "soft"):
        for clusterer in ("kmeans", "em"):
            scores = []
            for least in (4001, 3999, 2000, 1000, 500, 200, 50):
                model = SoftLearnSPN(
                    assignment=assignment,
                    clusterer=clusterer,
                    significance=1e-3,
                    root_test="pairs",
                    alpha=1e-6,
                    prune=0.0,
                    n_refine=0,
                    min_weight=float(least),
                    categories=[[0, 1]] * data.n_features,
                    random_state=0,
                )
                scores.append(float(model.fit(train).score(train)))
            found[f"{assignment} {clusterer}"] = scores
    return found


# --------------------------------------------------------------------------- Bayesian scores


def bayes_score() -> Figures:
    """The score of networks against rows that are predicted one after the other, in nats."""
    worst, n_cuts = 0.0, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        kind = rng.integers(0, 2, 60)
        X = (rng.random((60, 5)) < np.where(kind, 0.8, 0.2)[:, np.newaxis]).astype(float)
        X[:, 1] = np.where(X[:, 0] > 0, X[:, 2], 1 - X[:, 2])
        model = CutsetNetworkBD(ess=0.1, categories=[[0, 1]] * 5, param_ess=None).fit(X)
        truth = log_marginal_likelihood(model.circuit_, X, 0.1)
        worst = max(worst, abs(bd_score(model.circuit_, X, ess=0.1) - truth))
        n_cuts += model.n_cuts_
    return {"error": worst, "cuts": n_cuts}


# --------------------------------------------------------------------------- kernel EP


def cost_of_messages() -> Figures:
    """CPU seconds of an update and of a prediction, by outer features and by messages so far."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=6000), rng.uniform(0.5, 2.0, 6000)])
    targets = np.column_stack([np.tanh(rows[:, 0]), np.log(rows[:, 1])])

    def fitted(n_outer: int, n_rows: int = 400) -> KernelEPOperator:
        options = {"n_inner": 100, "n_outer": n_outer, "random_state": 0}
        model = KernelEPOperator(input_distributions=("normal",), **options)
        return model.fit(rows[:n_rows], targets[:n_rows])

    models = {n: fitted(n) for n in OUTER}
    row = rows[:1], targets[:1]
    by_rows = {n: fitted(OUTER[1], n) for n in (500, 5000)}
    return {
        "update": _slope(OUTER, lambda n: models[n].partial_fit(*row)),
        "updates": [_seconds(lambda n: by_rows[n].partial_fit(*row), n) for n in by_rows],
        "predictions": [_seconds(lambda n: by_rows[n].predict(rows[:100]), n) for n in by_rows],
    }


JOBS = {
    "theorems/expectations": Job(expectations, (), True),
    "theorems/cost_of_kernels": Job(cost_of_kernels, (), True),
    "theorems/conditional_stein": Job(conditional_stein, (), True),
    "theorems/marginals": Job(marginals, (), True),
    "theorems/colourings": Job(colourings, (), True),
    **{f"theorems/steps/{name}": Job(steps, (name,), True, file_of(name)) for name in STEPS},
    "theorems/bayes_score": Job(bayes_score, (), True),
    "theorems/cost_of_messages": Job(cost_of_messages, (), True),
}


def rows() -> list[Row]:
    return [*_kernels(), *_trees(), *_steps(), *_scores(), *_messages()]


def _row(name: str, what: str, said: str, job: str, holds: Any, text: Any) -> Row:
    """A row about a statement, named by paper and item."""
    paper, item = name.split("/")
    job = f"theorems/{job}"
    return Row(paper, item, what, said, (job,), claim(job, holds, text))


def _kernels() -> list[Row]:
    exact = "20 random pairs of circuits over five variables"
    slope = "slope of log seconds against log size, 8 to 64"
    return [
        _row(
            "expected_kernels/theorem_4.3",
            "greatest relative error of expected kernels against enumeration",
            "exact",
            "expectations",
            lambda f: f["kernel"] < ROUNDING,
            lambda f: f"{f['kernel']:.2g}",
        )._replace(note=exact),
        _row(
            "expected_kernels/theorem_4.3",
            f"cost in the sizes of p, q and k: {slope}",
            "O(|p| |q| |k|): at most one each",
            "cost_of_kernels",
            lambda f: max(f[size] for size in "pqk") < LINEAR,
            lambda f: ", ".join(f"{size} {f[size]:.2f}" for size in "pqk"),
        )._replace(note="mixtures of trees over 20 variables, sums of kernels"),
        _row(
            "expected_kernels/proposition_5.2",
            "greatest relative error of expected predictions against enumeration",
            "exact",
            "expectations",
            lambda f: f["prediction"] < ROUNDING,
            lambda f: f"{f['prediction']:.2g}",
        )._replace(note=f"{exact}, six support vectors, cells missing at random"),
        _row(
            "expected_kernels/proposition_5.2",
            f"cost in the sizes of p and k: {slope}",
            "O(|k| |p|): at most one each",
            "cost_of_kernels",
            lambda f: max(f[f"prediction {size}"] for size in "pk") < LINEAR,
            lambda f: ", ".join(f"{size} {f[f'prediction {size}']:.2f}" for size in "pk"),
        )._replace(note="2,000 support vectors"),
        _row(
            "expected_kernels/proposition_5.4",
            "equations 8 and 9 against equation 6 of the whole distribution: relative error",
            "equal (propositions 5.4 and 5.5)",
            "conditional_stein",
            lambda f: f["error"] < ROUNDING,
            lambda f: f"{f['error']:.2g}",
        )._replace(
            note="20 factor graphs, the last of three variables collapsed; a permutation and its "
            "inverse in equation 6",
        ),
    ]


def _trees() -> list[Row]:
    return [
        _row(
            "all_trees/lemma_1",
            "greatest errors of univariate and pairwise marginals that the parameters can have",
            "those of any distribution",
            "marginals",
            lambda f: max(f.values()) < ROUNDING,
            lambda f: f"{f['single']:.2g}, {f['pair']:.2g}",
        )._replace(note="100 random distributions of five binary variables"),
        _row(
            "all_trees/theorem_2",
            "rows whose probability does not tell whether they colour the graph",
            "none: the most likely row finds a colouring (its proof)",
            "colourings",
            lambda f: f["wrong"] == 0 and f["map"] == f["colourable"] and f["error"] < ROUNDING,
            lambda f: (
                f"{f['wrong']}; {f['map']} most likely rows of {f['graphs']} graphs are "
                f"colourings, {f['colourable']} graphs have one"
            ),
        )._replace(
            note="all connected graphs of five vertices, trees enumerated; determinants agree",
        ),
    ]


def _steps() -> list[Row]:
    found = []
    for name in STEPS:
        what = f"{name}: likelihood of training rows as learning goes on, steps down"
        row = _row("soft_learn/appendix_d", what, "none", f"steps/{name}", _no_fall, _falls)
        note = "4,000 rows; parts below a weight, 4,001 to 50, become fully factorised; alpha 1e-6"
        found.append(row._replace(note=note, data=name))
    return found


def _no_fall(figures: Figures) -> bool:
    return all(min(np.diff(scores)) > -ROUNDING for scores in figures.values())


def _falls(figures: Figures) -> str:
    parts = []
    for key, scores in figures.items():
        n_falls = int((np.diff(scores) <= -ROUNDING).sum())
        parts.append(f"{key} {n_falls} of {len(scores) - 1} ({scores[0]:.2f} to {scores[-1]:.2f})")
    return "; ".join(parts)


def _scores() -> list[Row]:
    row = _row(
        "bayesian_scores/equation_10",
        "equation 11 against rows that are predicted one after the other: greatest error, nats",
        "equal",
        "bayes_score",
        lambda f: f["error"] < ROUNDING,
        lambda f: f"{f['error']:.2g}",
    )
    return [row._replace(note="ten networks of five columns, 60 rows")]


def _messages() -> list[Row]:
    def grows(figures: Mapping[str, Any]) -> float:
        return max(figures[key][1] / figures[key][0] for key in ("updates", "predictions"))

    return [
        _row(
            "kernel_ep/section_3.3",
            f"cost of an update: slope of log seconds against log outer features, {OUTER}",
            "O(outer features squared): at most two",
            "cost_of_messages",
            lambda f: f["update"] < 2.0 * LINEAR,
            lambda f: f"{f['update']:.2f}",
        ),
        _row(
            "kernel_ep/section_3.3",
            "seconds of an update and of 100 predictions after 5,000 messages, relative to 500",
            "do not grow with messages",
            "cost_of_messages",
            lambda f: grows(f) < 2.0,
            lambda f: ", ".join(f"{f[k][1] / f[k][0]:.2f}" for k in ("updates", "predictions")),
        ),
    ]
