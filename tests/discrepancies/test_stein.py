"""Stein kernels against their definition, by enumeration."""

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.discrepancies import stein_gram
from skpc.factor_graphs import FactorGraph, compile, load_asia
from skpc.kernels import Delta, ExponentialHamming, ProductKernel, SumKernel
from tests.naive import factor_graph, stein
from tests.naive.kernels import Near
from tests.zoo import random_factor_graph

CARDS = [(2, 3, 4), (3, 3, 3), (3, 2, 3, 2)]
OPERATORS = ["ratio", "barker"]


class Case:
    """A random target with all its states, probabilities and kernel values."""

    def __init__(self, seed, n_states, kernel=None):
        self.n_states = n_states
        self.graph = random_factor_graph(seed, n_states, n_factors=5)
        self.p = factor_graph.conditional(self.graph)
        self.states = stein.all_states(n_states)
        self.prob = np.array([self.p[x] for x in self.states])
        self.kernel = ExponentialHamming(1 / len(n_states)) if kernel is None else kernel
        self.table = stein.kernel_table(self.kernel, n_states)

    def random_rows(self, seed, n_rows, collapsed=0.5):
        rng = np.random.default_rng(seed)
        rows = np.array(self.states, dtype=float)[rng.integers(len(self.states), size=n_rows)]
        rows[rng.random(rows.shape) < collapsed] = np.nan
        return rows


def plain(row):
    return tuple(None if np.isnan(s) else int(s) for s in row)


def assert_close(found, expected):
    """Equal to 1e-12 of the greatest entry."""
    assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("n_states", CARDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_operators_of_the_definition_have_mean_zero(n_states, operator, seed):
    case, rng = Case(seed, n_states), np.random.default_rng(seed)
    f = [dict(zip(case.states, rng.normal(size=len(case.states)))) for _ in n_states]
    values = [stein.apply(case.p, f, x, n_states, operator) for x in case.states]
    assert case.prob @ values == pytest.approx(0.0, abs=1e-12)
    assert np.abs(values).max() > 0.1


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("n_states", CARDS)
@pytest.mark.parametrize("seed", range(2))
def test_the_matrix_of_all_states_equals_the_definition(n_states, operator, seed):
    case = Case(seed, n_states)
    found = stein_gram(case.states, case.graph, stein_operator=operator)
    some = np.random.default_rng(seed).integers(len(case.states), size=(40, 2))
    expected = [
        stein.stein_kernel(case.p, case.table, case.states[a], case.states[b], n_states, operator)
        for a, b in some
    ]
    assert_close(found[tuple(some.T)], np.array(expected))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("n_states", CARDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_target_alone_spans_the_null_space(n_states, operator, seed):
    case = Case(seed, n_states)
    gram = stein_gram(case.states, case.graph, stein_operator=operator)
    scale = np.abs(gram).max()
    assert_allclose(case.prob @ gram / scale, 0.0, atol=1e-12)
    assert case.prob @ gram @ case.prob == pytest.approx(0.0, abs=1e-15 * scale)
    lowest = np.linalg.eigvalsh(gram)[:2] / scale
    assert abs(lowest[0]) < 1e-13
    assert lowest[1] > 1e-9


@pytest.mark.parametrize("n_states", CARDS)
@pytest.mark.parametrize("seed", range(3))
def test_collapsed_rows_have_the_average_over_their_completions(n_states, seed):
    case = Case(seed, n_states)
    rows = case.random_rows(seed, 5)
    expected = [
        [
            stein.averaged_stein_kernel(case.p, case.table, plain(a), plain(b), n_states, "ratio")
            for b in rows
        ]
        for a in rows
    ]
    assert_close(stein_gram(rows, case.graph), np.array(expected))


@pytest.mark.parametrize("n_states", CARDS)
@pytest.mark.parametrize("seed", range(3))
def test_collapsed_rows_have_the_barker_kernel_of_their_marginals(n_states, seed):
    case = Case(seed, n_states)
    rows = case.random_rows(seed, 8)
    expected = [
        [
            stein.marginal_stein_kernel(case.p, case.table, plain(a), plain(b), n_states)
            for b in rows
        ]
        for a in rows
    ]
    assert_close(stein_gram(rows, case.graph, stein_operator="barker"), np.array(expected))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("n_states", CARDS)
@pytest.mark.parametrize("collapsed", [[0], [1, 2], [0, 2]])
def test_collapsed_operators_have_mean_zero_under_the_marginal(n_states, operator, collapsed):
    """All states of the sampled variables by their marginal, beside rows collapsed elsewhere."""
    case = Case(1, n_states)
    sampled = np.array(case.states, dtype=float)
    sampled[:, collapsed] = np.nan
    sampled, group = np.unique(np.nan_to_num(sampled, nan=-1), axis=0, return_inverse=True)
    sampled[sampled < 0] = np.nan
    prob = np.bincount(group.ravel(), case.prob)
    others = case.random_rows(2, 12)
    gram = stein_gram(np.vstack([sampled, others]), case.graph, stein_operator=operator)
    scale = np.abs(gram).max()
    assert_allclose(prob @ gram[: len(prob)] / scale, 0.0, atol=1e-14)
    within = np.linalg.eigvalsh(gram[: len(prob), : len(prob)]) / scale
    assert abs(within[0]) < 1e-14
    assert within[1] > 1e-6


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("seed", range(4))
def test_matrices_of_collapsed_rows_are_positive_semidefinite(operator, seed):
    case = Case(seed, (2, 3, 2, 2, 2))
    gram = stein_gram(case.random_rows(seed, 40), case.graph, stein_operator=operator)
    assert_array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram)[0] > -1e-13 * np.abs(gram).max()


@pytest.mark.parametrize("operator", OPERATORS)
def test_other_kernels_and_sums_of_them_are_expected_alike(operator):
    both = SumKernel([ExponentialHamming(0.3), Near()])
    per_column = ProductKernel([both, Delta(), ExponentialHamming(1.0)])
    kernel = SumKernel([per_column, ExponentialHamming(0.1)], [2.0, 0.5])
    case = Case(0, (2, 3, 4), kernel)
    rows = case.random_rows(0, 5)
    found = stein_gram(rows, case.graph, kernel, stein_operator=operator)
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            parts = (case.p, case.table, plain(a), plain(b), case.n_states)
            if operator == "ratio":
                expected = stein.averaged_stein_kernel(*parts, operator)
            else:
                expected = stein.marginal_stein_kernel(*parts)
            assert_allclose(found[i, j], expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_circuit_as_target_gives_what_its_factor_graph_gives(operator):
    case = Case(3, (2, 3, 4))
    found = stein_gram(case.states, compile(case.graph), stein_operator=operator)
    expected = stein_gram(case.states, case.graph, stein_operator=operator)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_the_constant_of_the_target_is_not_needed():
    case = Case(0, (2, 3, 4))
    scaled = FactorGraph(
        case.n_states, [*zip(case.graph.scopes, case.graph.log_tables), ((), 50.0)]
    )
    rows = case.random_rows(0, 10)
    for operator in OPERATORS:
        expected = stein_gram(rows, case.graph, stein_operator=operator)
        assert_allclose(stein_gram(rows, scaled, stein_operator=operator), expected, rtol=1e-9)


@pytest.mark.parametrize("operator", OPERATORS)
def test_threads_do_not_change_a_bit(operator):
    graph = FactorGraph.ising_grid(3, 3, random_state=0)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(60, 9)).astype(float)
    rows[rng.random(rows.shape) < 0.4] = np.nan
    alone = stein_gram(rows, graph, stein_operator=operator)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(stein_gram(rows, graph, stein_operator=operator), alone)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_zero_of_the_target_is_refused_by_name(operator):
    asia = load_asia()
    with pytest.raises(ValueError, match=r"variable 1 of row 1 leads to \[0, 1, 0, .* zero.*NaN"):
        stein_gram([[0, 0, 0, 0, 0, np.nan, 0, 0], [0] * 8], asia, stein_operator=operator)
    with pytest.raises(ValueError, match=r"row 0 of the samples, \[0, 1, 0, .* probability zero"):
        stein_gram([[0, 1, 0, 0, 0, 0, 0, 0]], asia, stein_operator=operator)
    with pytest.raises(ValueError, match=r"variable 1 of row 0 leads to \[0, 1, 0"):
        stein_gram([[0] * 8], compile(asia), stein_operator=operator)


@pytest.mark.parametrize("operator", OPERATORS)
def test_asia_is_well_posed_with_its_deterministic_variable_collapsed(operator):
    asia = load_asia()
    p = factor_graph.conditional(asia)
    rows = np.unique(np.delete(list(p), 5, axis=1), axis=0).astype(float)
    rows = np.insert(rows, 5, np.nan, axis=1)
    prob = np.array([factor_graph.partition(asia, row) for row in rows])
    gram = stein_gram(rows, asia, stein_operator=operator)
    scale = np.abs(gram).max()
    assert prob @ gram @ prob == pytest.approx(0.0, abs=1e-15 * scale)
    # Along either = yes the ratios reach thousands, so only the bounded operator is conditioned.
    assert np.linalg.eigvalsh(gram)[1] > (1e-7 * scale if operator == "barker" else 0)


def test_bad_questions_are_refused():
    case = Case(0, (2, 3, 4))
    circuit = compile(case.graph)
    with pytest.raises(ValueError, match="must be one of .'ratio', 'barker'., got 'metropolis'"):
        stein_gram(case.states, case.graph, stein_operator="metropolis")
    with pytest.raises(TypeError, match="kernel must be a Kernel of skpc.kernels or None, got 1"):
        stein_gram(case.states, case.graph, 1)
    with pytest.raises(TypeError, match="target must be a FactorGraph or a Circuit, got dict"):
        stein_gram(case.states, case.p)
    with pytest.raises(ValueError, match=r"samples must be complete, but cell \[0, 1\]"):
        stein_gram([[0, np.nan, 1]], circuit)
    with pytest.raises(ValueError, match="conditioned on variable 0"):
        stein_gram(case.states, compile(case.graph, evidence=[1, np.nan, np.nan]))
    with pytest.raises(ValueError, match="one of the states 0..2"):
        stein_gram([[0, 3, 1]], case.graph)


def test_ratios_beyond_the_range_of_floats_are_refused_in_favour_of_barker():
    steep = FactorGraph([2], [((0,), [0.0, 400.0])])
    with pytest.raises(ValueError, match=r'exp\(400\) times .* use stein_operator="barker"'):
        stein_gram([[0.0]], steep)
    assert np.isfinite(stein_gram([[0.0], [1.0]], steep, stein_operator="barker")).all()


def test_conditionals_that_need_too_much_memory_are_refused():
    dense = FactorGraph.ising_grid(14, 14, coupling=0.1)
    rows = np.full((2, 196), np.nan)
    rows[:, 0] = 0
    with pytest.raises(ValueError, match="joint states, so that pairs of them need .* GiB"):
        stein_gram(rows, dense)
