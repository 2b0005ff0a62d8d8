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
