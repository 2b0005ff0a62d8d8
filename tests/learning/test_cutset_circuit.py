from itertools import product

import numpy as np
import pytest

from skpc.learning.cutset import CutsetOptions, learn_cutset_network
from skpc.learning.network import cutset_circuit
from skpc.variables import HISTOGRAM
from tests.learning.test_cutset import as_rows, random_codes
from tests.naive import cutset as naive


@pytest.fixture(params=["bd", "bic"])
def learned(request):
    """A network with cuts, its data and the naive criterion it was learned with."""
    n_states = (2, 3, 2, 4, 2)
    codes = random_codes(250, n_states, seed=11, missing=0.05)
    weight = np.random.default_rng(0).gamma(2.0, 1.0, 250)
    network = learn_cutset_network(codes, weight, np.array(n_states), CutsetOptions(request.param))
    assert network.n_cuts > 0
    rule = naive.Criterion(request.param, total=float(weight.sum()))
    return network, as_rows(codes, weight), n_states, rule


def check(circuit, network, rows, n_states, rule):
    total = 0.0
    for x in product(*map(range, n_states)):
        found = naive.evaluate(circuit, x)
        expected = naive.log_likelihood(naive.shape(network), rows, n_states, rule, x)
        assert np.log(found) == pytest.approx(expected, abs=1e-9)
        total += found
    assert total == pytest.approx(1.0, abs=1e-12)


def test_the_circuit_has_the_probabilities_of_the_network(learned):
    check(cutset_circuit(learned[0]), *learned)


@pytest.mark.parametrize("criterion", ["bd", "bic"])
def test_parameters_may_have_an_equivalent_sample_size_of_their_own(criterion):
    n_states = (2, 3, 2, 4, 2)
    codes = random_codes(250, n_states, seed=12)
    network = learn_cutset_network(
        codes, np.ones(250), np.array(n_states), CutsetOptions(criterion)
    )
    assert network.n_cuts > 0
    circuit = cutset_circuit(network, param_ess=3.0)
    rows = as_rows(codes, np.ones(250))
    check(circuit, network, rows, n_states, naive.Criterion("bd", ess=3.0))


def test_the_circuit_is_smooth_decomposable_and_deterministic(learned):
    circuit = cutset_circuit(learned[0])
    assert circuit.smooth
    assert circuit.decomposable
    assert circuit.deterministic


def test_a_variable_with_an_axis_gets_histogram_leaves():
    n_states = np.array([3, 2])
    codes = random_codes(60, n_states, seed=0)
    network = learn_cutset_network(codes, np.ones(60), n_states)
    axis = (np.array([0.0, 1.0]), 1.0, 2.0)
    circuit = cutset_circuit(network, [axis, None])
    of_first = circuit.leaf_var == 0
    assert (circuit.leaf_family[of_first] == HISTOGRAM).all()
    assert not (circuit.leaf_family[~of_first] == HISTOGRAM).any()


def test_branches_that_no_row_takes_share_a_subcircuit():
    rng = np.random.default_rng(0)
    hub = rng.choice([0, 7], 400)
    columns = [np.where(hub == 7, rng.random(400) < 0.9, rng.random(400) < 0.1)]
    columns += [columns[0] ^ (hub == 7) ^ (rng.random(400) < 0.05) for _ in range(3)]
    codes = np.column_stack([hub, *columns]).astype(np.int16)
    network = learn_cutset_network(codes, np.ones(400), np.array([8, 2, 2, 2, 2]))
    assert network.variable[0] == 0
    empty = network.branches(0)[1:7]
    assert len(set(network.leaf[empty])) == 1
    few = cutset_circuit(network).n_nodes
    assert few < 8 * 2 * 2 * 4
    total = sum(
        naive.evaluate(cutset_circuit(network), x) for x in product(range(8), *[range(2)] * 4)
    )
    assert total == pytest.approx(1.0)
