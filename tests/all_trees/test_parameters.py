"""Both kinds of mixtures of all trees against enumeration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.all_trees.all_trees import AllTrees
from skpc.all_trees.parameters import (
    DirectedParameters,
    PairTables,
    UndirectedParameters,
    probabilities,
    table_gradient,
)
from tests.naive import all_trees as naive

N_STATES = [(2, 2), (2, 2, 2, 2), (3, 2, 4), (5, 1, 2, 3), (2, 3, 2, 2, 2)]
KINDS = [DirectedParameters, UndirectedParameters]


def ptr_of(n_states):
    return np.concatenate([[0], np.cumsum(n_states)])


def random_rows(n_states, n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, k, n_rows) for k in n_states])
    return codes, rng.uniform(0.2, 2.0, n_rows)


def random_vector(parameters, n_states, seed=0):
    """Random parameters; the start gives their number."""
    codes, weight = random_rows(n_states)
    start = parameters.start(PairTables.from_rows(codes, weight, np.array(n_states), 1.0))
    return np.random.default_rng(seed).normal(size=len(start))


def as_naive(model: AllTrees):
    """The model as lists for enumeration."""
    blocks = [slice(a, b) for a, b in zip(model.ptr, model.ptr[1:])]
    n = model.n_features
    if not model.symmetric:
        table = [[model.edge_factor[b, a].T / model.weight[v, u] if u != v else None
                  for u, a in enumerate(blocks)] for v, b in enumerate(blocks[:n])]  # fmt: skip
        return {"weight": model.weight.tolist(), "prob": table}
    single = [np.exp(model.log_state_factor[b]) for b in blocks]
    pair = [[np.outer(single[u], single[v]) * model.edge_factor[a, b] / model.weight[u, v]
             if u != v else None for v, b in enumerate(blocks)]
            for u, a in enumerate(blocks)]  # fmt: skip
    return {"weight": model.weight.tolist(), "single": single, "pair": pair}


def naive_likelihood(model, row):
    one = naive.undirected_likelihood if model.symmetric else naive.directed_likelihood
    return one(as_naive(model), row)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_states", N_STATES)
def test_the_likelihood_is_that_of_an_enumeration_and_sums_to_one(n_states, kind):
    parameters = kind(ptr_of(n_states))
    model = parameters.model(random_vector(parameters, n_states))
    rows = naive.all_rows(n_states)
    found = model.log_likelihood(model.states_of(np.array(rows)))
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-12)
    for row, log_likelihood in list(zip(rows, found))[::5]:
        assert log_likelihood == pytest.approx(np.log(naive_likelihood(model, row)), abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_states", N_STATES)
def test_expected_edges_are_posterior_probabilities(n_states, kind):
    parameters = kind(ptr_of(n_states))
    model = parameters.model(random_vector(parameters, n_states))
    edges_of = naive.undirected_edges if model.symmetric else naive.directed_edges
    codes, _ = random_rows(n_states, 3)
    for row in codes:
        states = model.states_of(row[np.newaxis])
        expectation = model.expect(states, np.ones(1))
        truth = np.zeros_like(expectation.edge)
        for (u, v), probability in edges_of(as_naive(model), row.tolist()).items():
            # Undirected edges count at their later end first.
            i, j = (v, u) if model.symmetric else (u, v)
            truth[states[0, i], states[0, j]] += probability
        assert_allclose(expectation.edge, truth, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_states", N_STATES)
def test_gradients_are_finite_differences(n_states, kind):
    parameters = kind(ptr_of(n_states))
    vector = random_vector(parameters, n_states, seed=1)
    codes, weight = random_rows(n_states, 12)
    states = parameters.model(vector).states_of(codes)
    gradient = np.empty_like(vector)
    model = parameters.model(vector)
    parameters.gradient(model, model.expect(states, weight), gradient)

    def value(vector):
        return weight @ parameters.model(vector).log_likelihood(states)

    for i in np.random.default_rng(0).permutation(len(vector))[:60]:
        step = 1e-5 * (np.arange(len(vector)) == i)
        found = (value(vector + step) - value(vector - step)) / 2e-5
        assert gradient[i] == pytest.approx(found, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_columns_does_not_matter(kind):
    n_states = (3, 2, 2, 4)
    codes, weight = random_rows(n_states)
    order = np.array([2, 0, 3, 1])

    def scores(codes, n_states):
        parameters = kind(ptr_of(n_states))
        vector = parameters.start(PairTables.from_rows(codes, weight, np.array(n_states), 1.0))
        model = parameters.model(vector)
        return model.log_likelihood(model.states_of(codes))

    found = scores(codes[:, order], [n_states[i] for i in order])
    assert_allclose(found, scores(codes, n_states), atol=1e-12)


def test_the_start_of_the_undirected_mixture_has_the_empirical_tables():
    n_states = (2, 3, 2)
    codes, weight = random_rows(n_states)
    tables = PairTables.from_rows(codes, weight, np.array(n_states), 1.0)
    parameters = UndirectedParameters(ptr_of(n_states))
    found = as_naive(parameters.model(parameters.start(tables)))
    for u in range(3):
        for v in range(u):
            block = np.ix_(*(np.arange(tables.ptr[w], tables.ptr[w + 1]) for w in (u, v)))
            assert_allclose(found["pair"][u][v], tables.pair[block], rtol=1e-10)


def test_pair_tables_are_smoothed_counts():
    n_states = (2, 3)
    codes, weight = random_rows(n_states)
    tables = PairTables.from_rows(codes, weight, np.array(n_states), 2.0)
    total = weight.sum() + 2.0
    for a in range(2):
        count = weight[codes[:, 0] == a].sum() + 2.0 / 2
        assert tables.single[a] == pytest.approx(count / total)
        for b in range(3):
            count = weight[(codes[:, 0] == a) & (codes[:, 1] == b)].sum() + 2.0 / 6
            assert tables.pair[a, 2 + b] == pytest.approx(count / total)
    truth = sum(
        tables.pair[a, 2 + b]
        * np.log(tables.pair[a, 2 + b] / tables.single[a] / tables.single[2 + b])
        for a in range(2)
        for b in range(3)
    )
    assert tables.information()[0, 1] == pytest.approx(truth)


PTR = np.array([0, 2, 5, 6])
PARENT = np.array([0, 0, 1, 1, 1, 2, 3])


def test_factors_and_derivatives_are_those_of_plain_sums():
    rng = np.random.default_rng(0)
    logit, edge = rng.normal(scale=20.0, size=(6, 7)), rng.random((6, 7))
    weight = rng.random((3, 4))
    weight[1, 0] = 0.0
    edge[2:5, :2] = 0.0
    factor, gradient = probabilities(logit, PTR, weight[:, PARENT]), np.empty((6, 7))
    of_parent = table_gradient(factor, PTR, weight[:, PARENT], edge, gradient)
    for v in range(3):
        block = slice(PTR[v], PTR[v + 1])
        for a, u in enumerate(PARENT):
            table = np.exp(logit[block, a]) / np.exp(logit[block, a]).sum()
            total = edge[block, a].sum()
            assert_allclose(factor[block, a], weight[v, u] * table, rtol=1e-10)
            assert_allclose(gradient[block, a], edge[block, a] - total * table, atol=1e-10)
            assert of_parent[v, a] == pytest.approx(total, abs=1e-12)
