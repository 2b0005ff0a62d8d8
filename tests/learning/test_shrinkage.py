"""Mixtures whose tables are shrunk towards those of the whole table."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from skpc.learning import cutset_circuit, learn_cutset_network, mixture_circuit, shrinkage
from skpc.learning.shrinkage import _Whole, fit_shrunken, fit_tables
from skpc.queries import log_likelihood
from tests.learning.test_smoothing import N_STATES, dependent_codes

CODES, WEIGHT = dependent_codes(300), np.random.default_rng(5).integers(1, 3, 300).astype(float)
RESPONSIBILITY = np.random.default_rng(6).dirichlet(np.ones(2), 300)


def networks(shared):
    learn = [learn_cutset_network(CODES, WEIGHT * share, N_STATES) for share in RESPONSIBILITY.T]
    return [learn[0], learn[0]] if shared else learn


def fitted(strength, shared, max_iter=20):
    whole = _Whole.of(networks(shared), CODES, WEIGHT, 2.0)
    return fit_tables(whole, CODES, WEIGHT, RESPONSIBILITY, strength, max_iter)


@pytest.mark.parametrize("shared", [False, True])
def test_the_posterior_density_of_the_tables_never_falls(shared):
    objective = []
    for max_iter in (1, 2, 3, 10):
        tables = fitted(5.0, shared, max_iter)
        whole = _Whole.of(tables.networks, CODES, WEIGHT, 2.0)
        prior = sum(a @ b for a, b in zip(whole.tables, tables.log_prob)) + tables.log_weight.sum()
        objective.append(WEIGHT @ logsumexp(tables.joint(CODES), axis=1) + 5.0 * prior)
    assert np.all(np.diff(objective) > 0)


def test_the_circuit_of_counted_networks_is_the_mixture():
    tables = fitted(5.0, shared=False)
    circuit = mixture_circuit(tables.counted(), np.exp(tables.log_weight), param_ess=0.0)
    found = log_likelihood(circuit, CODES.astype(float))
    assert_allclose(found, tables.log_likelihood(CODES), rtol=1e-10)


def test_strong_shrinkage_of_one_structure_gives_the_single_network():
    tables = fitted(1e7, shared=True)
    whole = _Whole.of(tables.networks, CODES, WEIGHT, 2.0)
    alone = whole.cells[0].log_likelihood(CODES, whole.cells[0].log_probabilities(whole.tables[0]))
    assert_allclose(tables.log_likelihood(CODES), alone, atol=1e-3)


def test_complete_rows_leave_fitted_tables_where_they_are(monkeypatch):
    """The pseudo-counts of the circuit are those of the tables."""
    monkeypatch.setattr(shrinkage, "_TOL", 0.0)
    tables = fitted(5.0, shared=False, max_iter=2000)
    circuit = mixture_circuit(tables.counted(), np.exp(tables.log_weight), param_ess=0.0)
    components = [cutset_circuit(network, param_ess=0.0) for network in tables.counted()]
    rows = CODES.astype(float)
    again = fit_shrunken(circuit, components, rows, rows, WEIGHT, 2.0, 5.0, tol=0.0)
    assert_allclose(log_likelihood(again, rows), log_likelihood(circuit, rows), atol=1e-4)
