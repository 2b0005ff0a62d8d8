"""Mixtures whose tables are shrunk towards those of the whole table."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax

from skpc._fitting import Stop
from skpc.learning.cutset import learn_cutset_network
from skpc.learning.network import cutset_circuit
from skpc.learning.shrinkage import Shrunken, TrainingRows, posterior
from skpc.queries import log_likelihood
from tests.learning.test_smoothing import N_STATES, dependent_codes

CODES, WEIGHT = dependent_codes(300), np.random.default_rng(5).integers(1, 3, 300).astype(float)
ROWS = CODES.astype(float)
TRAINING = TrainingRows(ROWS, ROWS, WEIGHT)
RESPONSIBILITY = np.random.default_rng(6).dirichlet(np.ones(2), 300)


def shrunken_of(shared):
    networks = [learn_cutset_network(CODES, WEIGHT * part, N_STATES) for part in RESPONSIBILITY.T]
    networks = [networks[0], networks[0]] if shared else networks
    return Shrunken.from_networks(networks, TRAINING, 2.0, cutset_circuit)


@pytest.mark.parametrize("shared", [False, True])
def test_the_posterior_density_of_the_tables_never_falls(shared):
    shrunken, objective = shrunken_of(shared), []
    even = shrunken.prior(1.0)
    for max_iter in (1, 2, 3, 10):
        circuit = shrunken.fitted(ROWS, WEIGHT, RESPONSIBILITY, 5.0, Stop(max_iter, 1e-4))
        of_edges, of_params = even.edge > 0, even.param > 0
        prior = (
            even.edge[of_edges]
            @ np.where(circuit.kind[circuit.edge_parent] == 1, circuit.log_weight, 0.0)[of_edges]
        )
        prior += even.param[of_params] @ circuit.param[of_params]
        objective.append(WEIGHT @ log_likelihood(circuit, ROWS) + 5.0 * prior)
    assert np.all(np.diff(objective) > 0)


@pytest.mark.parametrize("shared", [False, True])
def test_responsibilities_are_posteriors_of_the_components(shared):
    shrunken = shrunken_of(shared)
    circuit = shrunken.fitted(ROWS, WEIGHT, RESPONSIBILITY, 5.0)
    joint = []
    for removed in (-1, -2):
        log_weight = circuit.log_weight.copy()
        log_weight[removed] = -np.inf
        joint.append(log_likelihood(circuit.with_parameters(log_weight=log_weight), ROWS))
    joint = np.column_stack(joint)
    assert_allclose(logsumexp(joint, axis=1), log_likelihood(circuit, ROWS), rtol=1e-10)
    assert_allclose(posterior(circuit, ROWS), softmax(joint, axis=1))


def test_strong_shrinkage_of_one_structure_gives_the_single_network():
    shrunken = shrunken_of(shared=True)
    circuit = shrunken.fitted(ROWS, WEIGHT, RESPONSIBILITY, 1e7)
    alone = log_likelihood(shrunken.targets[0], ROWS)
    assert_allclose(log_likelihood(circuit, ROWS), alone, atol=1e-3)


def test_the_whole_has_the_smoothed_tables_of_all_rows():
    network = learn_cutset_network(CODES, WEIGHT, N_STATES)
    (whole,) = Shrunken.from_networks([network], TRAINING, 2.0, cutset_circuit).targets
    expected = log_likelihood(cutset_circuit(network, param_ess=2.0), ROWS)
    assert_allclose(log_likelihood(whole, ROWS), expected, rtol=1e-10)
