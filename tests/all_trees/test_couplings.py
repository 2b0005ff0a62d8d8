import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from skpc.all_trees.couplings import couple, couple_gradient


def random_model(n_states, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(n_states)])
    single = np.concatenate([rng.dirichlet(np.ones(k)) for k in n_states])
    return ptr, single, rng.normal(scale=scale, size=(ptr[-1], ptr[-1]))


def coupled(ptr, single, theta):
    ratio = np.zeros_like(theta)
    couple(theta, single, ptr, ratio)
    return ratio


def pairs(ptr):
    """The states of every two variables, the later one first."""
    blocks = [np.arange(a, b) for a, b in zip(ptr, ptr[1:])]
    return [(blocks[i], blocks[j]) for i in range(len(blocks)) for j in range(i)]


@pytest.mark.parametrize("scale", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("n_states", [(2, 2, 2), (3, 2, 5), (4, 1, 2), (12, 9)])
def test_tables_have_the_marginals_and_the_dependences_asked_for(n_states, scale):
    ptr, single, theta = random_model(n_states, len(n_states), scale)
    ratio = coupled(ptr, single, theta)
    assert_allclose(ratio, ratio.T)
    for u, v in pairs(ptr):
        joint = single[u, None] * ratio[np.ix_(u, v)] * single[v]
        assert_allclose(joint.sum(axis=1), single[u], rtol=1e-12)
        assert_allclose(joint.sum(axis=0), single[v], rtol=1e-12)
        # What is left of the logs without their rows' and columns' parts.
        for table in (np.log(joint) - theta[np.ix_(u, v)],):
            rest = table - table[:1] - table[:, :1] + table[0, 0]
            assert_allclose(rest, 0.0, atol=1e-9)


def test_independent_binary_variables_are_no_special_case():
    single = np.array([0.3, 0.7, 0.9, 0.1])
    ptr = np.array([0, 2, 4])
    for log_odds in (0.0, 1e-300, -1e-300, 1e-18, -1e-12):
        theta = np.zeros((4, 4))
        theta[2, 0] = log_odds
        assert_allclose(coupled(ptr, single, theta)[2:, :2], 1.0, rtol=1e-11)


@pytest.mark.parametrize("log_odds", [-1500.0, -80.0, -30.0, 30.0, 80.0, 1500.0])
def test_the_strongest_dependence_of_binary_variables_loses_no_cell(log_odds):
    p, q = 0.4, 0.25
    single, ptr = np.array([q, 1 - q, p, 1 - p]), np.array([0, 2, 4])
    theta = np.zeros((4, 4))
    theta[2, 0] = log_odds
    joint = single[2:, None] * coupled(ptr, single, theta)[2:, :2] * single[:2]
    extreme = min(p, q) if log_odds > 0 else max(0.0, p + q - 1.0)
    assert joint[0, 0] == pytest.approx(extreme, abs=1e-12)
    assert np.all(np.isfinite(joint))
    if abs(log_odds) < 100:
        assert np.all(joint > 0.0)
        found = np.log(joint[0, 0] * joint[1, 1]) - np.log(joint[0, 1] * joint[1, 0])
        assert found == pytest.approx(log_odds, abs=1e-9)


def test_binary_tables_are_those_of_a_search_for_the_odds_ratio():
    ptr, single, theta = random_model((2, 2), 7, 2.0)
    q, p = single[0], single[2]
    log_odds = theta[2, 0] + theta[3, 1] - theta[2, 1] - theta[3, 0]

    def error(cell):
        table = np.log([cell, 1 - p - q + cell, p - cell, q - cell])
        return table[0] + table[1] - table[2] - table[3] - log_odds

    cell = brentq(error, max(0.0, p + q - 1) + 1e-12, min(p, q) - 1e-12, xtol=1e-15)
    assert coupled(ptr, single, theta)[2, 0] * p * q == pytest.approx(cell, rel=1e-9)


@pytest.mark.parametrize("n_states", [(2, 2, 2), (3, 2, 5), (4, 1, 2)])
def test_derivatives_are_finite_differences(n_states):
    ptr, single, theta = random_model(n_states, 3)
    rng = np.random.default_rng(0)
    by_ratio = rng.normal(size=theta.shape)
    mask = np.zeros_like(theta)
    for u, v in pairs(ptr):
        mask[np.ix_(u, v)] = 1.0
    logit = np.log(single)

    def value(theta, logit):
        # Each variable has probabilities that sum to one.
        shares = np.exp(logit) / np.repeat(np.add.reduceat(np.exp(logit), ptr[:-1]), n_states)
        ratio = coupled(ptr, shares, theta)
        return (by_ratio * mask * np.log(np.where(mask > 0, ratio, 1.0))).sum()

    by_theta, by_single = np.zeros_like(theta), np.zeros_like(single)
    couple_gradient(single, coupled(ptr, single, theta), ptr, by_ratio, by_theta, by_single)
    by_logit = by_single - single * np.repeat(np.add.reduceat(by_single, ptr[:-1]), n_states)
    step = 1e-6
    for i in range(ptr[-1]):
        d = step * np.eye(ptr[-1])[i]
        found = (value(theta, logit + d) - value(theta, logit - d)) / (2 * step)
        assert by_logit[i] == pytest.approx(found, abs=1e-7)
        for j in range(ptr[-1]):
            d = np.zeros_like(theta)
            d[i, j] = step
            found = (value(theta + d, logit) - value(theta - d, logit)) / (2 * step)
            assert by_theta[i, j] == pytest.approx(found, abs=1e-7)


def test_scales_far_apart_lose_no_state():
    ptr, single, theta = random_model((4, 5), 1)
    # Parts of rows and of columns do not count; the exponentials are taken anew on the way.
    shifted = theta + np.linspace(-900.0, 900.0, 9)[:, None] + np.linspace(400.0, -200.0, 9)
    assert_allclose(coupled(ptr, single, shifted), coupled(ptr, single, theta), rtol=1e-9)
