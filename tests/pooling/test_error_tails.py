"""What wrong cells hold that follow no margin."""

import numpy as np
import pytest
from scipy.stats import t

from skpc.domain import Declared, Domain
from skpc.pooling.error_tails import ErrorTail


def tail_of(values: np.ndarray, **declared) -> ErrorTail:
    rows = values[:, np.newaxis]
    domain = Domain.fit(rows, Declared(**declared))
    return ErrorTail.fit(domain[0], domain.encode(rows)[:, 0], np.ones(len(rows)))


def test_numbers_have_three_student_tails_around_their_median():
    values = np.random.default_rng(0).normal(3.0, 2.0, 401)
    tail, x = tail_of(values), np.array([-1e5, 0.0, 3.3, 50.0, np.nan])
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], method="inverted_cdf")
    scales = (high - low) / 1.349 * np.array([8.0, 32.0, 128.0])
    expected = np.mean([t(3, middle, s).pdf(x) for s in scales], axis=0)
    np.testing.assert_allclose(np.exp(tail.log_density(x)), expected, rtol=1e-9)
    far = tail.log_density(np.array([1e300, -1.7e308]))
    assert np.isfinite(far).all()
    assert (tail.sizes(x[:3]) == 0.0).all()


def test_categories_are_alike():
    tail = tail_of(np.repeat([0.0, 1.0, 2.0], [80, 15, 5]), categorical_features=[0])
    np.testing.assert_allclose(np.exp(tail.log_density(np.arange(3.0))), 1 / 3)
    by_margin = (np.array([0.8, 0.15, 0.05]) ** 2).sum()
    # As if one more cell were unlike all others.
    assert tail.hit_probability == pytest.approx((0.75 * by_margin + 0.25 / 3) * 100 / 101)


def test_atoms_have_probabilities_and_lattices_have_steps():
    rng = np.random.default_rng(0)
    zeros = np.append(np.zeros(300), rng.exponential(size=300))
    tail = tail_of(zeros)
    assert tail.log_density(np.zeros(1))[0] == -np.inf
    assert tail.sizes(np.array([0.0, 1.234567])).tolist() == [1.0, 0.0]
    tail = tail_of(np.round(rng.normal(0.0, 3.0, 500), 1))
    assert tail.sizes(np.array([0.3]))[0] == pytest.approx(0.1)
    assert tail.can_be(np.array([0.3, 0.35, 1e6])).tolist() == [True, False, True]


def test_nothing_lies_beyond_the_bounds():
    tail = tail_of(np.random.default_rng(0).uniform(0.0, 1.0, 300), bounds={0: (0.0, 1.0)})
    assert tail.can_be(np.array([-0.1, 0.5, 1.0, 1.1])).tolist() == [False, True, True, False]
