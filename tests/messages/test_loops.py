"""Expectation propagation beside a loop that inverts matrices, and beside exact posteriors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from skpc import KernelEPOperator
from skpc.messages import (
    CompoundGammaFactor,
    Gamma,
    JustInTimeOperator,
    LinearEP,
    LogisticEP,
    LogisticFactor,
    MessageLayout,
    Normal,
    QuadratureOracle,
    precision_posterior,
)
from tests.naive import messages as naive

EXACT = QuadratureOracle(LogisticFactor(), 1)


def problem(n_rows=60, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    y = rng.random(n_rows) < expit(X @ rng.normal(size=n_features) * 1.5)
    return X, y.astype(float)


@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_the_serial_schedule_is_that_of_the_plain_loop(damping):
    X, y = problem(12)
    observed = np.column_stack([1 + y, 2 - y])

    def project(message, mean, variance):
        return naive.logistic_belief(*message, mean, variance, target=1)

    found = LogisticEP(EXACT, n_iter=2, damping=damping, schedule="serial").run(X, y)
    mean, covariance = naive.serial_ep(X, observed, project, 2, damping)
    assert_allclose(found.mean, mean, atol=1e-6)
    assert_allclose(found.covariance, covariance, atol=1e-6)
    assert found.n_skipped == 0


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_both_schedules_end_in_the_same_posterior(damping):
    X, y = problem(100, 5)
    serial = LogisticEP(EXACT, n_iter=40, damping=damping, schedule="serial").run(X, y)
    parallel = LogisticEP(EXACT, n_iter=40, damping=damping).run(X, y)
    assert serial.kl(parallel) < 1e-8
    assert_allclose(parallel.sites.natural, serial.sites.natural, atol=1e-5)


def test_the_posterior_of_one_weight_is_that_by_quadrature():
    X, y = problem(40, 1, seed=2)
    z = np.linspace(-8, 8, 4001)
    log = -0.5 * z**2 - np.logaddexp(0, -np.outer(z, X[:, 0]) * (2 * y - 1)).sum(axis=1)
    prob = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    mean = prob @ z
    found = LogisticEP(EXACT, n_iter=30).run(X, y)
    assert found.mean[0] == pytest.approx(mean, abs=2e-3)
    assert found.covariance[0, 0] == pytest.approx(prob @ (z - mean) ** 2, rel=0.05)


class Linear:
    """The factor out = z with normal messages: everything is conjugate."""

    layout = MessageLayout(("normal", "normal"), 1)

    def project(self, messages):
        return self.layout.message(messages, 0) * self.layout.message(messages, 1)


@pytest.mark.parametrize("schedule", ["serial", "parallel"])
def test_a_conjugate_factor_gives_the_posterior_of_linear_regression(schedule):
    rng = np.random.default_rng(0)
    X, t, noise = rng.normal(size=(30, 4)), rng.normal(size=30), rng.uniform(0.5, 2.0, 30)
    found = LinearEP(Linear(), n_iter=3, schedule=schedule).run(X, np.column_stack([t, noise]))
    precision = np.eye(4) + (X / noise[:, np.newaxis]).T @ X
    assert_allclose(found.covariance, np.linalg.inv(precision), atol=1e-10)
    assert_allclose(found.mean, np.linalg.solve(precision, X.T @ (t / noise)), atol=1e-10)
    assert_allclose(found.sites.parameters, np.column_stack([t, noise]), rtol=1e-8)


def test_the_divergence_of_posteriors_is_that_of_normals():
    X, y = problem(50, 1)
    a, b = (LogisticEP(EXACT, n_iter=n).run(X, y) for n in (3, 30))
    one, two = (Normal(p.mean[0], p.covariance[0, 0]) for p in (a, b))
    assert a.kl(b) == pytest.approx(float(one.kl(two)))
    assert b.kl(b) == pytest.approx(0.0, abs=1e-12)


def test_an_operator_that_learns_ends_near_the_exact_posterior():
    operator = JustInTimeOperator(
        KernelEPOperator(
            input_distributions=("beta", "normal"), noise_variance=1e-6, random_state=0
        ),
        EXACT,
        threshold=-12.0,
        n_initial=100,
    )
    for seed in range(4):
        X, y = problem(150, 4, seed=seed)
        before = operator.n_oracle_calls_
        found = LogisticEP(operator).run(X, y)
        assert LogisticEP(EXACT).run(X, y).kl(found) < 0.02
    assert operator.n_oracle_calls_ - before < 0.1 * 1500


class Failing:
    """The exact oracle without an answer for some rows."""

    layout = EXACT.layout

    def __init__(self, fails):
        self.fails = fails

    def project(self, messages):
        belief = EXACT.project(messages)
        natural = np.where(self.fails(messages)[:, np.newaxis], np.nan, belief.natural)
        return Normal.from_natural(natural)


@pytest.mark.parametrize("schedule", ["serial", "parallel"])
def test_sites_without_an_answer_stay_as_they_were_and_are_counted(schedule):
    X, y = problem()
    found = LogisticEP(Failing(lambda rows: rows[:, 0] == 2.0), n_iter=3, schedule=schedule).run(
        X, y
    )
    without = LogisticEP(EXACT, n_iter=3, schedule=schedule).run(X[y == 0], y[y == 0])
    assert_allclose(found.mean, without.mean, atol=1e-10)
    assert found.n_skipped == 3 * (y == 1).sum()
    assert_allclose(found.sites.natural[y == 1], 0.0)


class Wild:
    """Answers with beliefs wider than their cavities: negative site precisions."""

    layout = EXACT.layout

    def __init__(self, factor):
        self.factor = factor
        self.seen = []

    def project(self, messages):
        self.seen.append(messages)
        cavity = self.layout.incoming(messages)
        return Normal(cavity.mean, self.factor * cavity.variance)


@pytest.mark.parametrize("schedule", ["serial", "parallel"])
@pytest.mark.parametrize("factor", [1.05, 50.0])
def test_negative_site_precisions_never_make_the_posterior_improper(schedule, factor):
    X, y = problem(40, 2)
    operator = Wild(factor)
    found = LogisticEP(operator, n_iter=5, schedule=schedule).run(X, y)
    assert np.linalg.eigvalsh(found.covariance).min() > 0
    assert (np.vstack(operator.seen)[:, 3] > 0).all()
    assert (found.sites.natural[:, 1] < 0).any()


class Scripted:
    """Site precision 10 for label 1, which makes -5 for label 0 possible."""

    layout = EXACT.layout

    def project(self, messages):
        assert (messages[:, 3] > 0).all()
        precision = 1 / messages[:, 3] + np.where(messages[:, 0] == 2.0, 10.0, -5.0)
        return Normal(np.zeros(len(messages)), 1 / precision)


@pytest.mark.parametrize("schedule", ["serial", "parallel"])
def test_an_improper_cavity_is_skipped_and_counted(schedule):
    # Once both sites are there the precision is 1 + 10 - 5: the cavity of the first has 6 - 10.
    found = LogisticEP(Scripted(), n_iter=3, schedule=schedule).run(np.ones((2, 1)), [1.0, 0.0])
    assert found.n_skipped == 2
    assert_allclose(found.sites.natural[:, 1], [10.0, -5.0])
    assert_allclose(found.covariance, [[1 / 6]])


@pytest.mark.parametrize("schedule", ["serial", "parallel"])
def test_a_row_of_zeros_says_nothing(schedule):
    X, y = problem(20)
    with_zero = LogisticEP(EXACT, schedule=schedule).run(np.vstack([X, np.zeros(3)]), [*y, 1.0])
    without = LogisticEP(EXACT, schedule=schedule).run(X, y)
    assert_allclose(with_zero.mean, without.mean, atol=1e-12)
    assert with_zero.n_skipped == 10


@pytest.mark.parametrize("centre", [5.0, 100.0])
def test_parallel_sweeps_do_not_overshoot_where_rows_are_alike(centre):
    X, y = problem(200)
    X = np.column_stack([X + centre, np.ones(200)])
    one, two = (LogisticEP(EXACT, n_iter=40, schedule=s).run(X, y) for s in ("parallel", "serial"))
    assert_allclose(one.mean, two.mean, rtol=1e-5)
    assert_allclose(one.covariance, two.covariance, rtol=1e-5)


def test_a_run_that_stops_while_weights_move_warns():
    X, y = problem()
    with pytest.warns(ConvergenceWarning, match="last of 1 sweeps moved a weight by"):
        LogisticEP(EXACT, n_iter=1).run(X, y)


def test_schedules_and_dampings_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="schedule must be one of .* got 'random'"):
        LogisticEP(EXACT, schedule="random")
    with pytest.raises(ValueError, match=r"damping must be .* got 1\.0"):
        LogisticEP(EXACT, damping=1.0)
    with pytest.raises(ValueError, match="n_iter must be at least 1, got 0"):
        LogisticEP(EXACT, n_iter=0)


def test_operators_that_answer_for_another_variable_are_refused():
    with pytest.raises(ValueError, match=r"found target 0 of \('beta', 'normal'\)"):
        LogisticEP(QuadratureOracle(LogisticFactor(), 0))


def test_bad_tables_and_labels_are_refused():
    X, y = problem(6)
    for bad, labels, message in [
        (np.where(X > 0, X, np.nan), y, "X contains NaN"),
        (X * 1e80, y, "magnitudes up to"),
        (X[0], y, "2D array"),
        (X, y[:5], r"inconsistent numbers of samples: \[6, 5\]"),
        (X, [1, 0, -1, 1, 0, 1], "labels 0 and 1; found -1 in row 2"),
        (X, [1, 0, np.nan, 1, 0, 1], "found nan in row 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            LogisticEP(EXACT).run(bad, labels)
    with pytest.raises(ValueError, match="observed contains NaN"):
        LinearEP(EXACT).run(X, np.full((6, 2), np.nan))


def test_the_precision_of_normal_observations_is_inferred():
    x = np.random.default_rng(0).normal(scale=0.5, size=40)
    oracle = QuadratureOracle(CompoundGammaFactor(), 0)
    found = precision_posterior(x, oracle)
    tau = np.linspace(1e-4, 20, 200_001)
    log = 20 * np.log(tau) - 0.5 * tau * (x**2).sum() - 2 * np.log1p(tau)
    prob = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    assert isinstance(found, Gamma)
    assert found.mean == pytest.approx(prob @ tau, rel=1e-6)
    assert found.variance == pytest.approx(prob @ (tau - prob @ tau) ** 2, rel=1e-6)


def test_no_observations_are_refused():
    oracle = QuadratureOracle(CompoundGammaFactor(), 0)
    for x in ([], [0.0, 0.0]):
        with pytest.raises(ValueError, match="at least one observation that is not zero"):
            precision_posterior(x, oracle)
