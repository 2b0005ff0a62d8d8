"""Mixtures of circuits as one circuit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.circuit import CircuitBuilder, mixture
from skpc.queries import condition, log_likelihood
from tests import zoo


@pytest.mark.parametrize("kinds", ["binary", "gaussian", "histogram"])
def test_a_mixture_mixes_the_densities_of_its_circuits(kinds):
    circuits = [zoo.random_circuit(seed, kinds=kinds) for seed in range(3)]
    both = mixture(circuits, [0.2, 0.3, 0.5])
    rows = zoo.random_rows(0, both, 20)
    parts = [np.exp(log_likelihood(circuit, rows)) for circuit in circuits]
    assert both.smooth
    assert both.decomposable
    assert_allclose(np.exp(log_likelihood(both, rows)), [0.2, 0.3, 0.5] @ np.array(parts))


@pytest.mark.parametrize("weights", [[], [0.5, 0.6], [1.5, -0.5], [1.0]])
def test_weights_that_are_no_probabilities_are_refused(weights):
    circuits = [zoo.random_circuit(0, kinds="binary")] * (2 if weights else 0)
    with pytest.raises(ValueError, match="probabilities that sum to one, one for each"):
        mixture(circuits, weights)


def test_a_circuit_of_weight_zero_changes_nothing():
    left, right = (zoo.random_circuit(seed, kinds="binary") for seed in range(2))
    rows = zoo.random_rows(0, left, 20)
    both = mixture([left, right], [1.0, 0.0])
    assert_allclose(log_likelihood(both, rows), log_likelihood(left, rows))


def test_circuits_of_other_variables_are_refused():
    circuits = []
    for n_states in (2, 3):
        builder = CircuitBuilder([n_states])
        builder.discrete(0, np.full(n_states, -np.log(n_states)))
        circuits.append(builder.build())
    with pytest.raises(ValueError, match="circuit 1 differ"):
        mixture(circuits, [0.5, 0.5])
    with pytest.raises(ValueError, match="circuit 0 has been conditioned"):
        mixture([condition(circuits[0], [1.0])], [1.0])
