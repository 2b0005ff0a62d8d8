"""Drawn coefficients and drawn cells, against slow truths."""

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skpc._random import draw_states
from skpc.imputation.column_regressions import N_DONORS, MatchedNumbers, PooledCategories
from skpc.imputation.regressions import LogitDraw, draw_linear, draw_logit
from tests.naive import imputation as naive

LOGIT_RIDGE = 0.1


def random(seed=0):
    return np.random.RandomState(seed)


class Unmoved:
    """Random weights of rows that are the weights themselves: draws are modes."""

    standard_gamma = staticmethod(np.asarray)


def design_of(n_rows, n_terms, seed=0):
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(n_rows, n_terms - 1))
    columns[:, -1] += 0.5 * columns[:, 0]
    return np.column_stack([np.ones(n_rows), columns])


def linear_case(n_rows=30, seed=0):
    rng = np.random.default_rng(seed)
    design = design_of(n_rows, 4, seed)
    values = design @ [1.0, 2.0, -1.0, 0.5] + rng.normal(size=n_rows)
    return design, values, rng.integers(1, 4, n_rows).astype(float)


@pytest.mark.parametrize("seed", range(3))
def test_coefficients_of_numbers_are_drawn_from_their_posterior(seed):
    design, values, weight = linear_case(seed=seed)
    truth = naive.linear_posterior(design, values, weight)
    draws = [draw_linear(design, values, weight, random(i)) for i in range(4000)]
    assert_allclose(draws[0].estimate, truth["mean"], atol=2e-4)
    coefficients = np.array([draw.coefficients for draw in draws])
    # Student's t: the variance of a normal one times df / (df - 2).
    covariance = truth["inverse"] * truth["squares"] / (truth["df"] - 2)
    error = np.sqrt(covariance.diagonal() / len(draws))
    assert (np.abs(coefficients.mean(axis=0) - truth["mean"]) < 5.0 * error + 2e-4).all()
    scale = np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
    assert_allclose(np.cov(coefficients.T) / scale, covariance / scale, atol=0.1)
    squares = truth["squares"] / np.array([draw.sd for draw in draws]) ** 2
    assert stats.kstest(squares, stats.chi2(truth["df"]).cdf).pvalue > 1e-3
    one = (coefficients[:, 1] - truth["mean"][1]) / np.sqrt(
        truth["inverse"][1, 1] * truth["squares"] / truth["df"]
    )
    assert stats.kstest(one, stats.t(truth["df"]).cdf).pvalue > 1e-3


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_units_and_offsets_change_no_prediction(scale, offset):
    design, values, weight = linear_case()
    other = design.copy()
    other[:, 1:] = (design[:, 1:] + offset) * [scale, 1.0, 1.0 / scale]
    one, two = (draw_linear(x, values, weight, random()) for x in (design, other))
    assert_allclose(other @ two.coefficients, design @ one.coefficients, rtol=1e-7, atol=1e-7)
    assert_allclose(two.sd, one.sd)
    states = (values > 0) + (values > 2).astype(np.int64)
    one, two = (draw_logit(x, states, 3, weight, random()) for x in (design, other))
    assert_allclose(two.probabilities(other), one.probabilities(design), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_units_and_offsets_of_the_target_come_back(scale, offset):
    design, values, weight = linear_case()
    one = draw_linear(design, values, weight, random())
    two = draw_linear(design, scale * (values + offset), weight, random())
    one_line, two_line = design @ one.coefficients, design @ two.coefficients / scale - offset
    assert_allclose(two_line, one_line, atol=1e-8)
    assert_allclose(two.sd / scale, one.sd, rtol=1e-6)


def logit_case(n_states, n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    design = design_of(n_rows, 3, seed)
    log_odds = design @ rng.normal(size=(3, n_states))
    states = (log_odds + rng.gumbel(size=log_odds.shape)).argmax(axis=1)
    return design, states, rng.integers(1, 3, n_rows).astype(float)


@pytest.mark.parametrize("n_states", [2, 3, 4])
def test_logit_coefficients_are_the_mode_under_the_weights(n_states):
    design, states, weight = logit_case(n_states)
    scaled = naive.standardised(design, weight)
    count = [sum(weight[states == state]) + 0.5 for state in range(n_states)]
    shape = n_states - 1, 3

    def log_posterior(flat):
        lines = np.reshape(flat, shape)
        return naive.logit_log_posterior(lines, scaled, states, weight, count, LOGIT_RIDGE)

    draw = draw_logit(design, states, n_states, weight, Unmoved())
    mode = naive.mode(log_posterior, np.zeros(shape).ravel())
    assert_allclose(draw.standardised.ravel(), mode, atol=1e-4)
    assert_allclose(design @ draw.coefficients.T, scaled @ mode.reshape(shape).T, atol=1e-3)


def test_logit_coefficients_spread_as_the_curvature_says():
    design, states, _ = logit_case(3, 1500)
    ones = np.ones(1500)

    def log_posterior(flat):
        count = np.bincount(states) + 0.5
        lines = np.reshape(flat, (2, 3))
        log_odds = np.column_stack([np.zeros(1500), design @ lines.T])
        log_prob = log_odds - np.log(np.exp(log_odds).sum(axis=1))[:, np.newaxis]
        off = lines - [[np.log(n / count[0]), 0.0, 0.0] for n in count[1:]]
        return log_prob[np.arange(1500), states].sum() - 0.5 * LOGIT_RIDGE * np.sum(off**2)

    mode = draw_logit(design, states, 3, ones, Unmoved()).coefficients.ravel()
    covariance = np.linalg.inv(naive.curvature(log_posterior, mode))
    draws = [draw_logit(design, states, 3, ones, random(i)).coefficients for i in range(500)]
    draws = np.reshape(draws, (500, 6))
    scale = np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
    assert_allclose(np.cov(draws.T) / scale, covariance / scale, atol=0.25)
    assert_allclose(draws.mean(axis=0), mode, atol=0.25 * np.sqrt(covariance.diagonal()).max())


@pytest.mark.parametrize("n_rare", [1, 3, 10, 30])
@pytest.mark.parametrize("n_terms", [4, 21])
def test_rare_states_have_their_share(n_rare, n_terms):
    """A normal distribution around the mode would draw three rows of 600 as nineteen."""
    design = design_of(600, n_terms)
    states = np.random.default_rng(1).integers(0, 2, 600)
    states[:n_rare] = 2
    draws = [draw_logit(design, states, 3, np.ones(600), random(i)) for i in range(60)]
    n_drawn = np.array([600 * draw.probabilities(design)[:, 2].mean() for draw in draws])
    # Random weights have the standard deviation of a Poisson number.
    assert abs(n_drawn.mean() - n_rare) < 4.0 * np.sqrt(n_rare / 60) + 0.7


@pytest.mark.parametrize("n_states", [2, 3])
def test_a_start_near_the_mode_leads_to_it(n_states):
    design, states, weight = logit_case(n_states)
    cold = draw_logit(design, states, n_states, weight, random())
    warm = draw_logit(design, states, n_states, weight, random(), cold.standardised + 0.3)
    assert_allclose(warm.standardised, cold.standardised, atol=1e-3)
    assert_allclose(warm.coefficients, cold.coefficients, atol=1e-3)


def test_weight_two_is_the_row_twice():
    design, values, weight = linear_case()
    rows = np.repeat(np.arange(len(design)), weight.astype(int))
    ones = np.ones(len(rows))
    states = (values > 0.0) + (values > 2.0).astype(np.int64)
    one = draw_linear(design, values, weight, random())
    two = draw_linear(design[rows], values[rows], ones, random())
    assert_allclose(one.coefficients, two.coefficients)
    assert_allclose(one.sd, two.sd)
    one = draw_logit(design, states, 3, weight, Unmoved())
    two = draw_logit(design[rows], states[rows], 3, ones, Unmoved())
    assert_allclose(one.coefficients, two.coefficients)
    log_prob = np.log(np.random.default_rng(0).dirichlet(np.ones(5), len(design)))
    one = PooledCategories.fit(log_prob, states, weight, Unmoved())
    two = PooledCategories.fit(log_prob[rows], states[rows], ones, Unmoved())
    assert_allclose(one.coefficient, two.coefficient)


def test_constant_columns_drop_out():
    """Also in rows where they are not constant: nothing is known of their coefficients."""
    design, values, weight = linear_case()
    states = (values > 0.0) + (values > 2.0).astype(np.int64)
    for constant in (0.0, 0.1, -3e9):
        column = np.full(len(design), constant)
        more = np.column_stack([design, column])
        shifted = np.column_stack([design, column + 1.0])
        for seed in range(20):
            numbers = draw_linear(more, values, weight, random(seed))
            assert numbers.coefficients[-1] == 0.0
            assert_array_equal(shifted @ numbers.coefficients, more @ numbers.coefficients)
            kinds = draw_logit(more, states, 3, weight, random(seed))
            assert_array_equal(kinds.coefficients[:, -1], 0.0)
    # Neither do they cost degrees of freedom.
    few = draw_linear(design[:6], values[:6], weight[:6], random())
    more = np.column_stack([design[:6], np.zeros((6, 40))])
    assert_allclose(few.sd, draw_linear(more, values[:6], weight[:6], random()).sd)


def test_columns_that_are_the_same_share_their_coefficient():
    design, values, weight = linear_case()
    twice = np.column_stack([design, design[:, 1]])
    one, two = (draw_linear(x, values, weight, random()) for x in (design, twice))
    assert_allclose(two.estimate[1], two.estimate[-1])
    assert_allclose(twice @ two.estimate, design @ one.estimate, atol=1e-3)


def test_more_columns_than_rows_are_fine():
    design = design_of(8, 20)
    values, weight = np.arange(8.0), np.ones(8)
    draw = draw_linear(design, values, weight, random())
    assert np.isfinite(draw.coefficients).all()
    assert draw.sd >= 0.0
    logit = draw_logit(design, np.arange(8) % 3, 3, weight, random())
    assert np.isfinite(logit.coefficients).all()


@pytest.mark.parametrize("n_rows", [30, 3000])
@pytest.mark.parametrize("weight", [1.0, 10.0])
def test_states_that_are_separated_have_finite_coefficients(n_rows, weight):
    x = np.linspace(-1.0, 1.0, n_rows)
    design = np.column_stack([np.ones(n_rows), x, x > 0.5])
    states = np.digitize(x, [-0.3, 0.4])
    draws = [draw_logit(design, states, 3, np.full(n_rows, weight), random(i)) for i in range(5)]
    # Further steps of Newton's method would lead nowhere else.
    start = draws[0].standardised
    again = draw_logit(design, states, 3, np.full(n_rows, weight), random(), start)
    assert_allclose(again.standardised, start, atol=1e-3)
    for draw in draws:
        prob = draw.probabilities(design)
        assert np.isfinite(draw.coefficients).all()
        assert (prob.argmax(axis=1) == states).mean() > 0.9


@pytest.mark.parametrize("absent", [0, 1, 2])
def test_a_state_without_rows_is_rarely_drawn(absent):
    design, _, weight = linear_case(200)
    states = np.random.default_rng(0).choice(np.delete(np.arange(3), absent), 200)
    for seed in range(5):
        draw = draw_logit(design, states, 3, weight, random(seed))
        assert np.isfinite(draw.coefficients).all()
        assert draw.probabilities(design)[:, absent].mean() < 0.05


def test_the_mode_is_found_wherever_rows_lie():
    rng = np.random.default_rng(0)
    for _ in range(60):
        n_rows, n_states = int(rng.integers(5, 80)), int(rng.integers(2, 6))
        design = design_of(n_rows, 4, int(rng.integers(1000)))
        design[:, 1:] *= np.exp(rng.normal(size=3) * 3.0)
        design[:, 2] = np.exp(np.clip(3.0 * rng.normal(size=n_rows), -9, 9))
        states = (design[:, 1] > 0).astype(int) * rng.integers(0, n_states, n_rows)
        weight = np.exp(2.0 * rng.normal(size=n_rows))
        mode = draw_logit(design, states, n_states, weight, random()).standardised
        # The slope there is that of a step too small to matter.
        again = draw_logit(design, states, n_states, weight, random(), mode).standardised
        assert_allclose(again, mode, atol=2e-4)


def matched(predictions, values=None, weight=None, coefficient=1.0):
    """Numbers whose predictions are as stated, and whose aims are the second term of a design."""
    predictions = np.asarray(predictions, dtype=float)
    order = np.argsort(predictions, kind="stable")
    values = predictions if values is None else np.asarray(values, dtype=float)
    weight = np.ones(len(predictions)) if weight is None else np.asarray(weight, dtype=float)
    return MatchedNumbers(
        np.array([0.0, coefficient]), predictions[order], values[order], weight[order]
    )


@pytest.mark.parametrize("n_donors", [1, 4, 5, 6, 40])
@pytest.mark.parametrize("n_nearest", [1, 5, 50])
def test_donors_are_the_nearest(n_donors, n_nearest):
    rng = np.random.default_rng(n_donors)
    predictions = np.sort(rng.normal(size=n_donors))
    aims = np.concatenate([3.0 * rng.normal(size=50), predictions, [-1e12, 1e12]])
    donors, weight = matched(predictions).nearest(aims, n_nearest, random())
    for row, truth in enumerate(naive.donors(aims, predictions, n_nearest)):
        assert sorted(donors[row][weight[row] > 0.0]) == sorted(truth)


def test_matching_is_of_type_one():
    """Donors are predicted by the estimate, rows without the number by drawn coefficients."""
    design, values, weight = linear_case(60)
    for seed in range(20):
        drawn = MatchedNumbers.fit(design, values, values, weight, random(seed))
        regression = draw_linear(design, values, weight, random(seed))
        assert_array_equal(drawn.coefficients, regression.coefficients)
        assert_allclose(np.sort(design @ regression.estimate), drawn.predictions, atol=1e-7)
        donors, _ = drawn.nearest(design @ drawn.coefficients, N_DONORS, random())
        truth = naive.donors(design @ drawn.coefficients, drawn.predictions, N_DONORS)
        assert_array_equal(np.sort(donors, axis=1), np.sort(truth, axis=1))


def test_donors_with_one_prediction_are_drawn_at_random():
    for n_equal in (3, 5, 8, 30):
        values = np.arange(n_equal + 2.0)
        design = np.column_stack([np.ones(2000), np.zeros(2000)])
        count = Counter()
        for seed in range(20):
            # Their order is random.
            order = random(seed).permutation(n_equal)
            predictions = np.r_[-9.0, np.zeros(n_equal), 9.0]
            numbers = matched(predictions, np.r_[values[0], values[1:-1][order], values[-1]])
            count.update(numbers.draw(design, random(seed)).tolist())
        share = np.array([count[value] for value in values[1:-1]]) / count.total()
        if n_equal >= N_DONORS:
            assert count[0.0] == count[n_equal + 1.0] == 0
            assert_allclose(share, 1.0 / n_equal, rtol=0.35)
        else:
            assert_allclose(share, 0.2, atol=0.01)


def test_of_five_donors_each_is_drawn_by_its_weight():
    numbers = matched([0.0, 0.1, 0.2, 0.3, 0.4, 5.0], weight=[1, 2, 3, 4, 10, 99])
    design = np.column_stack([np.ones(40_000), np.full(40_000, 0.2)])
    drawn = numbers.draw(design, random())
    share = [(drawn == value).mean() for value in numbers.values]
    assert_allclose(share, [0.05, 0.1, 0.15, 0.2, 0.5, 0.0], atol=0.01)


def test_fewer_than_five_donors_are_all_there_are():
    numbers = matched([1.0, 2.0])
    drawn = numbers.draw(np.column_stack([np.ones(1000), np.zeros(1000)]), random())
    assert_allclose([(drawn == 1.0).mean(), (drawn == 2.0).mean()], 0.5, atol=0.06)


def test_states_are_drawn_by_their_probabilities():
    prob = np.array([[0.0, 0.2, 0.0, 0.8, 0.0]])
    drawn = draw_states(np.repeat(prob, 20_000, axis=0), random())
    assert_allclose(np.bincount(drawn.astype(int), minlength=5) / 20_000, prob[0], atol=0.01)
    assert set(drawn.tolist()) == {1, 3}


def test_the_pooled_coefficient_is_drawn_around_its_mode():
    rng = np.random.default_rng(0)
    prob = rng.dirichlet(np.full(30, 0.3), 300) + 1e-3
    log_prob = np.log(prob)
    flattened = prob**0.6 / (prob**0.6).sum(axis=1, keepdims=True)
    states = draw_states(flattened, random()).astype(int)
    weight = rng.integers(1, 3, 300).astype(float)

    def log_posterior(coefficient):
        total = -0.5 * float((coefficient[0] - 1.0) ** 2)
        for row, state, w in zip(log_prob, states, weight):
            scaled = coefficient[0] * row
            total += w * (scaled[state] - np.log(np.exp(scaled).sum()))
        return total

    mode = naive.mode(log_posterior, np.ones(1))
    sd = 1.0 / np.sqrt(naive.curvature(log_posterior, mode)[0, 0])
    draw = PooledCategories.fit(log_prob, states, weight, Unmoved())
    assert abs(mode[0] - 0.6) < 0.1
    assert_allclose(draw.coefficient, mode[0], atol=1e-4)
    assert_allclose(draw.probabilities(log_prob).sum(axis=1), 1.0)
    draws = [PooledCategories.fit(log_prob, states, weight, random(i)) for i in range(500)]
    coefficients = np.array([draw.coefficient for draw in draws])
    assert_allclose(coefficients.mean(), mode[0], atol=0.3 * sd)
    assert_allclose(coefficients.std(), sd, rtol=0.3)


def test_the_first_state_is_the_reference():
    draw = LogitDraw(np.zeros((1, 1)), np.array([[np.log(3.0)]]))
    assert_allclose(draw.probabilities(np.ones((1, 1))), [[0.25, 0.75]])
