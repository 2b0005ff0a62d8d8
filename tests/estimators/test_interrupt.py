"""Ctrl-C wherever it may come: an estimator stays as it was, or stays unfitted."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from inspect import CO_GENERATOR
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.tree import DecisionTreeRegressor

import skpc
from skpc import (
    CellErrorDetector,
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    DensityRegressor,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    ExpectedPredictor,
    ExtraCutsets,
    GenerativeForest,
    HiddenChowLiuTree,
    HiddenForest,
    KernelEPOperator,
    LogisticEPClassifier,
    MixtureOfAllTrees,
    MultipleImputer,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.discrepancies import BlackBoxImportanceSampler
from skpc.factor_graphs import FactorGraph, GibbsSampler

PACKAGE = str(Path(skpc.__file__).parent)
#: Moments at which each piece of work is interrupted, evenly spaced over its calls of functions.
N_MOMENTS = 3
#: Inside of others the smoothing is given, which takes a fraction of the time.
INNER = CutsetNetworkBD(param_ess=1.0, random_state=0)
NETWORK = CutsetNetworkBD(param_ess=1.0, structured=True, random_state=0)
EVERY_FIT = {
    "single network": CutsetNetworkBD(random_state=0),
    "mixture of networks": CutsetNetworkBD(
        n_components=2, n_init=2, max_iter=3, param_ess=1.0, random_state=0
    ),
    "structured network": NETWORK,
    "extra cutsets": ExtraCutsets(3, random_state=0),
    "table mixture": TableMixture(n_components=2, random_state=0),
    "hidden tree": HiddenChowLiuTree(n_hidden=2, random_state=0),
    "hidden forest": HiddenForest(n_estimators=2, n_hidden=2, max_iter=2, random_state=0),
    "stack": StackedDensity([("cutset", INNER)], cv=2, random_state=0),
    "soft network": SoftLearnSPN(random_state=0, n_refine=5),
    "soft network by EM": SoftLearnSPN(clusterer="em", random_state=0, n_refine=5),
    "all trees": MixtureOfAllTrees(max_iter=2, random_state=0),
    "all trees by L-BFGS": MixtureOfAllTrees(
        solver="lbfgs", orientation="undirected", max_iter=2, random_state=0
    ),
    "cell errors": CellErrorDetector(INNER, random_state=0),
    "imputer": CircuitImputer(NETWORK, add_indicator=True, random_state=0),
    "multiple imputer": MultipleImputer(NETWORK, n_imputations=2, random_state=0),
    "multiple imputer by its density": MultipleImputer(
        NETWORK, n_imputations=2, draws="density", random_state=0
    ),
    "classifier": DensityClassifier(
        SoftLearnSPN(n_refine=5, random_state=0), joint=False, classifiers=None
    ),
    "pool": DensityClassifier(
        INNER,
        joint=True,
        classifiers=["logistic"],
        cv=2,
        random_state=0,
    ),
    "regressor": DensityRegressor(
        INNER,
        regressors=[("svr", ExpectedKernelSVR(NETWORK, random_state=0))],
        cv=2,
        random_state=0,
    ),
    "expected predictor": ExpectedPredictor(
        DecisionTreeRegressor(max_leaf_nodes=5, random_state=0), NETWORK, random_state=0
    ),
    "forest": GenerativeForest(4, random_state=0),
    "expected kernel SVC": ExpectedKernelSVC(NETWORK, calibration="sigmoid", random_state=0),
    "kernel EP": KernelEPOperator(n_inner=20, n_outer=20, keep_rows=True, random_state=0),
    "logistic EP": LogisticEPClassifier(n_iter=20),
}
every_fit = pytest.mark.parametrize("name", EVERY_FIT)
NUMBERS_ONLY = (KernelEPOperator, LogisticEPClassifier)


@pytest.fixture(autouse=True)
def _signals_interrupt() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def watched(on_call: Callable[[], None]) -> Iterator[None]:
    """Be told of each call of a Python function of the package."""

    def watch(frame, event, argument):
        code = frame.f_code
        # Python itself drops what is raised while it closes a generator.
        is_ours = code.co_filename.startswith(PACKAGE) and not code.co_flags & CO_GENERATOR
        if event == "call" and is_ours:
            on_call()

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


def moments_of(work: Callable[[Any], object], subject: Any) -> list[int]:
    """Numbers of the calls, evenly spaced, that some work makes."""
    work(deepcopy(subject))  # the first time fills caches
    calls: list[int] = []
    subject = deepcopy(subject)
    with watched(lambda: calls.append(1)):
        work(subject)
    return np.unique(np.linspace(0, len(calls) - 1, N_MOMENTS).astype(int)).tolist()


def interrupt(work: Callable[[Any], object], subject: Any, moment: int) -> Any:
    """A copy of an object whose work the user has interrupted at some call of a function."""
    counter, subject = count(), deepcopy(subject)
    before = state(subject)

    def press() -> None:
        if next(counter) == moment:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), watched(press):
        work(subject)
    assert state(subject) == before
    return subject


def table(n_rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n_rows).astype(float)
    return np.column_stack([kind, kind + rng.normal(size=n_rows), rng.normal(size=n_rows)])


def target(estimator, X: np.ndarray) -> np.ndarray | None:
    if is_regressor(estimator):
        return X[:, 1] ** 2
    return np.arange(len(X)) % 2 if is_classifier(estimator) else None


def with_missing_cells(X: np.ndarray) -> np.ndarray:
    return np.where(np.random.default_rng(9).random(X.shape) < 0.2, np.nan, X)


def answers(estimator, X: np.ndarray) -> list[np.ndarray]:
    methods = ("score_samples", "transform", "predict", "decision_function", "impute")
    return [np.asarray(getattr(estimator, m)(X)) for m in methods if hasattr(estimator, m)]


def state(estimator) -> dict[str, int]:
    """Which objects an estimator holds."""
    return {name: id(value) for name, value in vars(estimator).items()}


def assert_equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected):
        np.testing.assert_array_equal(a, b)


@every_fit
def test_an_interrupted_fit_leaves_an_estimator_as_it_was(name):
    new = clone(EVERY_FIT[name])
    X, other = table(60, 0), table(80, 1)[:, :2]
    y = target(new, other)
    other = other if isinstance(new, NUMBERS_ONLY) else with_missing_cells(other)
    fitted = clone(new).fit(X, target(new, X))
    expected = answers(fitted, X)

    def learn(estimator):
        return estimator.fit(other, y)

    for moment in moments_of(learn, new):
        assert not hasattr(interrupt(learn, new, moment), "n_features_in_")
        assert_equal(answers(interrupt(learn, fitted, moment), X), expected)


@pytest.mark.parametrize("name", [n for n in EVERY_FIT if hasattr(EVERY_FIT[n], "partial_fit")])
def test_an_interrupted_partial_fit_leaves_an_estimator_as_it_was(name):
    new = clone(EVERY_FIT[name])
    X, more = table(60, 0), table(80, 1)
    fitted = clone(new).fit(X, target(new, X))

    def learn(estimator):
        return estimator.partial_fit(more, target(estimator, more))

    for subject in (new, fitted):
        expected = answers(learn(deepcopy(subject)), X)
        for moment in moments_of(learn, subject):
            # Nothing was changed in place either: what is learned next is the same.
            assert_equal(answers(learn(interrupt(learn, subject, moment)), X), expected)


def test_an_interrupted_choice_of_features_leaves_the_old_ones():
    X = table(60, 0)
    fitted = clone(EVERY_FIT["kernel EP"]).fit(X, X[:, 1]).partial_fit(X + 1.0, X[:, 1])
    expected = answers(fitted, X)

    def choose(estimator):
        return estimator.refit_features()

    for moment in moments_of(choose, fitted):
        stopped = interrupt(choose, fitted, moment)
        assert_equal(answers(stopped, X), expected)
        assert choose(stopped).n_samples_seen_ == 120


def test_an_interrupted_search_for_weights_leaves_the_old_ones():
    target = FactorGraph.ising_grid(2, 3, coupling=0.2, field=0.3)
    samples = np.random.default_rng(0).integers(0, 2, size=(40, 6))
    new = BlackBoxImportanceSampler(target, collapse=0.5, random_state=0)
    fitted = deepcopy(new).fit(samples)

    def weigh(sampler):
        return sampler.fit(samples[:20])

    for subject in (new, fitted):
        for moment in moments_of(weigh, subject):
            interrupt(weigh, subject, moment)


def test_an_interrupted_chain_leaves_the_sampler_as_it_was():
    graph = FactorGraph.ising_grid(3, 3, coupling=0.3, field=0.2)
    sampler = GibbsSampler(graph, burn_in=100, thinning=9, n_chains=2, random_state=0)
    expected = sampler.sample(50)

    def draw(sampler):
        return sampler.sample(50)

    for moment in moments_of(draw, sampler):
        np.testing.assert_array_equal(draw(interrupt(draw, sampler, moment)), expected)
