"""Random cutset networks: what they say, where they are cut, and how small their leaves are."""

from itertools import product

import numpy as np
import pytest

from skpc import ExtraCutsets
from skpc.learning.network import cutset_circuit
from skpc.learning.random_cuts import RandomCuts, log_density
from skpc.queries import log_likelihood
from tests.naive.circuit import density

N_STATES = np.array([2, 3, 1, 4, 2, 2])


def random_codes(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, N_STATES, (n_rows, len(N_STATES)))
    codes[:, 4] = codes[:, 0] ^ (rng.random(n_rows) < 0.1)
    return codes.astype(np.int16)


def grown(min_samples_split=60.0, n_columns=6, bootstrap=False, n_networks=6, weight=None):
    codes = random_codes()
    cuts = RandomCuts(N_STATES, 10.0, n_columns, bootstrap, None)
    weight = np.ones(len(codes)) if weight is None else weight
    return cuts.learn(codes, weight, min_samples_split, np.arange(n_networks))


@pytest.mark.parametrize("bootstrap", [False, True])
def test_a_network_and_its_circuit_say_the_same_and_sum_to_one(bootstrap):
    everything = np.array(list(product(*map(range, N_STATES))))
    for network in grown(bootstrap=bootstrap):
        circuit = cutset_circuit(network)
        expected = [np.log(density(circuit, row)) for row in everything.astype(float)]
        assert log_density(network, everything) == pytest.approx(expected, abs=1e-12)
        assert np.exp(expected).sum() == pytest.approx(1.0, abs=1e-12)
        assert circuit.deterministic
        assert log_likelihood(circuit, everything.astype(float)) == pytest.approx(expected)


def test_cuts_are_drawn_and_each_divides_its_rows():
    networks = grown()
    assert len({int(network.variable[0]) for network in networks}) > 1
    for network in networks:
        assert network.n_cuts
        for node in np.flatnonzero(network.variable >= 0):
            counts = network.branch_counts(node)
            assert counts.sum() >= 60.0
            assert np.sort(counts)[-2] >= max(5.0, 0.01 * counts.sum())


def test_a_network_cuts_at_most_so_many_columns():
    for network in grown(n_columns=2):
        assert len(set(network.variable) - {-1}) <= 2


def test_a_row_of_weight_two_counts_twice():
    codes, weight = random_codes(), np.tile([1.0, 2.0], 200)
    cuts = RandomCuts(N_STATES, 10.0, 6, False, None)
    (heavy,) = cuts.learn(codes, weight, 60.0, [3])
    (twice,) = cuts.learn(np.repeat(codes, weight.astype(int), axis=0), np.ones(600), 60.0, [3])
    assert log_density(heavy, codes) == pytest.approx(log_density(twice, codes), abs=1e-12)


def test_held_out_rows_choose_small_leaves_where_rows_are_a_mixture_and_large_ones_where_not():
    rng = np.random.default_rng(0)
    cuts = RandomCuts(np.full(12, 2), 100.0, 12, False, None)
    noise = rng.integers(0, 2, (3000, 12)).astype(np.int16)
    assert cuts.choose_split(noise, np.ones(3000), np.arange(4)) == 1000.0
    probability = rng.choice([0.05, 0.95], (8, 12))[rng.integers(8, size=3000)]
    mixed = (rng.random((3000, 12)) < probability).astype(np.int16)
    assert cuts.choose_split(mixed, np.ones(3000), np.arange(4)) < 1000.0


def test_the_mixture_weighs_its_networks_alike():
    X = random_codes()
    everything = list(range(6))
    model = ExtraCutsets(
        5, min_samples_split=60, categorical_features=everything, random_state=0
    ).fit(X)
    circuit = model.circuit_
    weights = np.exp(circuit.log_weight[circuit.child_ptr[-2] :])
    assert weights == pytest.approx(np.full(5, 0.2))
    assert model.min_samples_split_ == 60.0


def test_parameters_come_from_the_cells_as_they_are():
    # What fills missing cells tells nothing: the share of the ones that are observed stays.
    rng = np.random.default_rng(0)
    X = (rng.random((3000, 4)) < 0.3).astype(float)
    X[rng.random(3000) < 2 / 3, 1] = np.nan
    model = ExtraCutsets(8, min_samples_split=200, param_ess=1.0, random_state=0).fit(X)
    share = np.nanmean(X[:, 1])
    one = np.exp(model.score_samples([[np.nan, 1, np.nan, np.nan]]))[0]
    assert one == pytest.approx(share, abs=0.02)
