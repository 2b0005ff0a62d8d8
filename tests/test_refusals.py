"""Bad input that once gave an answer, or an error that did not say what was wrong."""

import numpy as np
import polars as pl
import pytest

from skpc import (
    CutsetNetworkBD,
    DensityClassifier,
    DensityRegressor,
    KernelEPOperator,
    SoftLearnSPN,
    StackedDensity,
)
from skpc.circuit import CircuitBuilder, mixture
from skpc.domain import merge_rows
from skpc.factor_graphs import FactorGraph, sum_out
from skpc.kernels import RBF
from skpc.queries import (
    bd_score,
    flows,
    log_conditional,
    log_likelihood,
    posteriors,
)

ROWS = np.array([[0.0, 1.0], [1.0, 1.0]])
X, Y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
PAIR = [("cutset", CutsetNetworkBD()), ("soft", SoftLearnSPN(random_state=0))]


@pytest.fixture(scope="module")
def circuit():
    builder = CircuitBuilder(n_states=[2, 2])
    leaves = [builder.discrete(0, np.log([0.3, 0.7])), builder.discrete(1, np.log([0.6, 0.4]))]
    builder.product(leaves)
    return builder.build()


@pytest.mark.parametrize("weights", [[0.5, 0.6], [2.0, -1.0], [np.nan, 1.0], [0.5], [[0.5, 0.5]]])
def test_weights_of_a_mixture_are_probabilities(circuit, weights):
    with pytest.raises(ValueError, match="2 probabilities that sum to one"):
        mixture([circuit, circuit], weights)


@pytest.mark.parametrize("chosen", [None, [0.5], [2], [-1], ["a"], [[0]], [True]])
def test_variables_are_numbers_of_variables_or_a_mask(circuit, chosen):
    calls = [lambda: log_conditional(circuit, ROWS, chosen)]
    if chosen is not None:
        calls += [lambda: posteriors(circuit, ROWS, chosen)]
        calls += [lambda: sum_out(FactorGraph([2, 2], []), chosen)]
    for call in calls:
        with pytest.raises(ValueError, match="numbers from 0 to 1, or a mask of 2 bools; got"):
            call()


def test_a_mask_of_variables_is_their_numbers(circuit):
    (second,) = posteriors(circuit, ROWS * np.nan, [False, True])
    np.testing.assert_allclose(second.probabilities[0], [0.6, 0.4])
    np.testing.assert_allclose(
        log_conditional(circuit, ROWS, [True, False]), log_conditional(circuit, ROWS, [0])
    )


@pytest.mark.parametrize("weight", [[-1.0, 1.0], [np.nan, 1.0]])
def test_weights_of_rows_are_checked_by_all_counts(circuit, weight):
    for count in (flows, bd_score):
        with pytest.raises(ValueError, match="sample_weight"):
            count(circuit, ROWS, weight)


def test_complex_rows_are_refused(circuit):
    with pytest.raises(ValueError, match="complex"):
        log_likelihood(circuit, ROWS + 1j)


def test_numbers_of_states_fit_an_index():
    with pytest.raises(ValueError, match="up to 2147483647"):
        FactorGraph([1e300, 2], [])


def test_integers_of_128_bits_come_back():
    table = pl.DataFrame(
        {"a": pl.Series([*range(40)], dtype=pl.Int128), "b": [float(i % 3) for i in range(40)]}
    )
    model = SoftLearnSPN(random_state=0).fit(table)
    lacking = table.head(2).with_columns(pl.lit(None, dtype=pl.Int128).alias("a"))
    filled = model.complete(lacking)
    assert filled.schema == table.schema
    assert filled["a"].null_count() == 0


def test_priors_may_name_their_classes():
    model = DensityClassifier(CutsetNetworkBD(), classifiers=None, priors={1: 0.9, 0: 0.1})
    np.testing.assert_allclose(model.fit(X, Y).class_prior_, [0.1, 0.9])
    with pytest.raises(ValueError, match=r"the classes \[0, 1\]"):
        model.set_params(priors={0: 0.5, 2: 0.5}).fit(X, Y)


@pytest.mark.parametrize("rates", [["x"], [], [1.0], [np.nan]])
def test_missing_rates_are_proportions(rates):
    with pytest.raises(ValueError, match="missing_rates must be proportions"):
        DensityClassifier(CutsetNetworkBD(), missing_rates=rates).fit(X, Y)


@pytest.mark.parametrize("cv", [[], 100, [(np.arange(60), [70])], [(np.arange(60), [-61])]])
def test_folds_are_made_of_rows(cv):
    for model in (
        DensityClassifier(PAIR, classifiers=None, cv=cv),
        DensityRegressor(PAIR, regressors=None, cv=cv),
        StackedDensity(PAIR, cv=cv),
    ):
        with pytest.raises(ValueError, match="cv"):
            model.fit(X, Y)


def test_numbers_beyond_float64_are_named():
    with pytest.raises(ValueError, match="column 0 holds a number that float64 does not"):
        CutsetNetworkBD().fit([[10**400, 1], [2, 3]])


@pytest.mark.parametrize("gamma", ["a", None, -1.0, np.inf])
def test_gamma_is_a_number(gamma):
    with pytest.raises(ValueError, match="gamma must be a finite number of 0 or more, got"):
        RBF(gamma)


def test_features_beyond_memory_are_refused_before_they_are_drawn():
    with pytest.raises(MemoryError, match="smaller n_inner"):
        KernelEPOperator(n_inner=10**9, random_state=0).fit([[1.0, 7.0]] * 3, [1.0, 2.0, 3.0])


def test_rows_of_float32_are_merged():
    distinct, weight = merge_rows(np.array([[1, 2], [1, 2]], dtype=np.float32), np.ones(2))
    assert (distinct.tolist(), weight.tolist()) == ([[1.0, 2.0]], [2.0])


def test_strings_are_no_targets_of_a_regressor():
    with pytest.raises(ValueError, match="y must hold numbers; .*Classes need a classifier"):
        DensityRegressor(CutsetNetworkBD()).fit(X, np.repeat("a", 60))
