"""bd_score against urns, and against the score of cutset networks."""

import numpy as np
import pytest

from skpc import CutsetNetworkBD
from skpc.circuit import CircuitBuilder, mixture
from skpc.queries import bd_score, condition, fit_parameters, sample
from tests.naive.bayesian_score import log_marginal_likelihood
from tests.zoo import random_deterministic_circuit


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ess", [0.1, 3.0])
def test_the_score_is_the_probability_of_the_rows_one_after_the_other(seed, ess):
    circuit = random_deterministic_circuit(seed, n_features=5)
    rows = sample(circuit, 30, random_state=seed)
    expected = log_marginal_likelihood(circuit, rows, ess)
    assert bd_score(circuit, rows, ess=ess) == pytest.approx(expected, abs=1e-9)


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(0)
    X = rng.integers(0, [2, 3, 2, 4, 2], size=(400, 5)).astype(float)
    X[:, 2] = np.where(X[:, 0] == 1, X[:, 4], X[:, 3] > 1)
    X[:, 1] = np.where(rng.random(400) < 0.8, X[:, 3] % 3, X[:, 1])
    categories = [list(range(k)) for k in (2, 3, 2, 4, 2)]
    model = CutsetNetworkBD(ess=0.5, param_ess=None, categories=categories)
    return model.fit(X), X


def test_a_cutset_network_has_the_score_by_which_it_was_learned(network):
    model, X = network
    assert model.n_cuts_ > 0
    found = bd_score(model.circuit_, X, ess=0.5)
    assert found == pytest.approx(model.score_criterion_, rel=1e-10)
    assert found == pytest.approx(log_marginal_likelihood(model.circuit_, X[:400], 0.5), rel=1e-9)


def test_parameters_do_not_matter_and_weights_repeat_rows(network):
    model, X = network
    other = fit_parameters(model.circuit_, X[:50], pseudo_count=2.0)
    assert bd_score(other, X) == pytest.approx(bd_score(model.circuit_, X), rel=1e-10)
    weight = np.random.default_rng(1).integers(0, 3, len(X))
    repeated = bd_score(model.circuit_, np.repeat(X, weight, axis=0))
    assert bd_score(model.circuit_, X, weight) == pytest.approx(repeated, rel=1e-10)


def test_what_has_no_closed_form_is_refused(network):
    model, X = network
    holes = X.copy()
    holes[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 1\] is missing"):
        bd_score(model.circuit_, holes)
    with pytest.raises(ValueError, match="decides on no variable"):
        bd_score(mixture([model.circuit_, model.circuit_], [0.5, 0.5]), X)
    with pytest.raises(ValueError, match="conditioned on variable 0"):
        bd_score(condition(model.circuit_, [0.0, *[np.nan] * 4]), X)
    with pytest.raises(ValueError, match="ess must be positive, got 0"):
        bd_score(model.circuit_, X, ess=0)
    with pytest.raises(ValueError, match=r"sample_weight needs .* shape \(400,\)"):
        bd_score(model.circuit_, X, np.ones(3))
    builder = CircuitBuilder(n_states=[0])
    builder.gaussian(0, 0.0, 1.0)
    with pytest.raises(ValueError, match="variable 0 is numeric"):
        bd_score(builder.build(), [[0.3]])
