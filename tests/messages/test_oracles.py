"""Quadrature and importance sampling beside adaptive integration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from skpc.messages import (
    CompoundGammaFactor,
    ImportanceSamplingOracle,
    LogisticFactor,
    Normal,
    QuadratureOracle,
)
from tests.naive import messages as naive

LOGISTIC_ROWS = [
    (2.0, 1.0, 0.0, 4.0),
    (1.0, 2.0, 8.0, 0.05),
    (1.0, 2.0, -11.0, 1.4),
    (1.0, 1.0, 0.3, 2.0),
    (2.0, 1.0, -20.0, 100.0),
    (2.0, 1.0, 1.0, 2000.0),
    (7.0, 3.5, 2.0, 30.0),
    (0.6, 1.3, -1.0, 1.0),
]


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("row", LOGISTIC_ROWS, ids=str)
def test_logistic_beliefs_have_the_moments_of_the_product(row, target):
    belief = QuadratureOracle(LogisticFactor(), target).project([row])
    mean, variance = naive.logistic_belief(*row, target)
    assert_allclose(belief.mean, mean, rtol=1e-7, atol=1e-12)
    assert_allclose(belief.variance, variance, rtol=1e-7)


@pytest.mark.parametrize("parameters", [(1.0, 1.0, 1.0), (2.0, 0.1, 0.5), (0.7, 30.0, 3.0)])
@pytest.mark.parametrize("row", [(6.0, 0.01), (51.0, 40.0), (10.0, 3000.0), (2.0, 1.0)], ids=str)
def test_compound_gamma_beliefs_have_the_moments_of_the_product(parameters, row):
    belief = QuadratureOracle(CompoundGammaFactor(*parameters), 0).project([row])
    mean, variance = naive.compound_gamma_belief(*parameters, *row)
    assert_allclose([belief.mean[0], belief.variance[0]], [mean, variance], rtol=1e-7)


@pytest.mark.parametrize("row", [LOGISTIC_ROWS[i] for i in (0, 3, 6, 7)], ids=str)
def test_logistic_beliefs_of_least_divergence_have_the_expected_logarithms(row):
    belief = QuadratureOracle(LogisticFactor(), 0, projection="kl").project([row])
    logs = (lambda z: -np.logaddexp(0.0, -z), lambda z: -np.logaddexp(0.0, z))
    expected = [naive.logistic_belief(*row, log)[0] for log in logs]
    assert_allclose(belief.mean_parameters[0], expected, rtol=1e-6)


def test_compound_gamma_beliefs_of_least_divergence_have_the_expected_logarithm():
    belief = QuadratureOracle(CompoundGammaFactor(), 0, projection="kl").project([[3.0, 2.0]])
    mean = naive.compound_gamma_belief(1.0, 1.0, 1.0, 3.0, 2.0)[0]
    mean_log = naive.compound_gamma_belief(1.0, 1.0, 1.0, 3.0, 2.0, lambda u: u)[0]
    assert_allclose(belief.mean_parameters[0], [mean_log, -mean], rtol=1e-7)


def test_of_normal_beliefs_both_projections_are_the_same():
    moments, kl = (
        QuadratureOracle(LogisticFactor(), 1, projection=projection).project(LOGISTIC_ROWS[:4])
        for projection in ("moments", "kl")
    )
    assert_allclose(kl.parameters, moments.parameters, rtol=1e-9)


def test_sampled_beliefs_of_least_divergence_approach_those_of_quadrature():
    row = [[2.0, 1.0, 0.0, 4.0]]
    oracle = ImportanceSamplingOracle(
        logistic_sampler,
        [Normal(0.0, 20.0)],
        output="beta",
        target=0,
        n_particles=400_000,
        projection="kl",
        random_state=0,
    )
    exact = QuadratureOracle(LogisticFactor(), 0, projection="kl").project(row)
    assert_allclose(oracle.project(row).parameters, exact.parameters, rtol=0.02)


def test_the_belief_of_many_rows_is_that_of_each():
    rows = np.array(LOGISTIC_ROWS * 70)
    oracle = QuadratureOracle(LogisticFactor(), 1)
    together = oracle.project(rows).natural
    for row in (0, 255, 256, len(rows) - 1):
        assert_allclose(oracle.project(rows[row]).natural[0], together[row], rtol=1e-12)


@pytest.mark.parametrize("sd", [1e20, 1e120, 1e140])
def test_far_and_wide_messages_leave_half_a_normal_on_the_side_of_the_label(sd):
    belief = QuadratureOracle(LogisticFactor(), 1).project([[2.0, 1.0, 0.0, sd**2]])
    assert_allclose(belief.mean, sd * np.sqrt(2.0 / np.pi))
    assert_allclose(belief.variance, sd**2 * (1.0 - 2.0 / np.pi))


def test_a_product_without_a_density_has_an_improper_belief():
    oracle = QuadratureOracle(CompoundGammaFactor(1.0, 1.0, 0.5), 0)
    assert_array_equal(oracle.project([[0.4, 1.0], [3.0, 1.0]]).is_proper, [False, True])


def logistic_sampler(inputs, random_state):
    return expit(inputs[:, 0])


@pytest.mark.parametrize("target", [0, 1])
def test_sampled_beliefs_of_the_logistic_factor_approach_its_moments(target):
    oracle = ImportanceSamplingOracle(
        logistic_sampler,
        [Normal(0.0, 20.0)],
        output="beta",
        target=target,
        n_particles=400_000,
        random_state=0,
    )
    rows = np.array([[2.0, 1.0, 0.0, 4.0], [1.0, 2.0, 3.0, 1.0], [3.0, 2.0, -1.0, 0.5]])
    found, truth = oracle.project(rows), QuadratureOracle(LogisticFactor(), target).project(rows)
    assert_allclose(found.mean, truth.mean, atol=0.02)
    assert_allclose(found.variance, truth.variance, rtol=0.03)


def test_sampled_beliefs_of_a_factor_without_inputs_approach_its_moments():
    def sampler(inputs, random_state):
        rate = random_state.gamma(1.0, 1.0, len(inputs))
        return random_state.gamma(1.0, 1.0 / rate)

    oracle = ImportanceSamplingOracle(
        sampler, [], output="gamma", target=0, n_particles=400_000, random_state=0
    )
    found = oracle.project([[10.0, 20.0]])
    truth = QuadratureOracle(CompoundGammaFactor(), 0).project([[10.0, 20.0]])
    assert_allclose(found.parameters, truth.parameters, rtol=0.03)


def test_a_noisy_factor_is_answered_for_its_output_and_for_either_input():
    """out ~ N(a + b, 1) with normal messages: everything is jointly normal."""

    def sampler(inputs, random_state):
        return inputs.sum(axis=1) + random_state.normal(size=len(inputs))

    row = np.array([[4.0, 0.5, 1.0, 2.0, 0.0, 3.0]])
    precision = np.array([[1 + 1 / 0.5, -1, -1], [-1, 1 + 1 / 2.0, 1], [-1, 1, 1 + 1 / 3.0]])
    covariance = np.linalg.inv(precision)
    mean = covariance @ [4.0 / 0.5, 1.0 / 2.0, 0.0]
    for target in range(3):
        oracle = ImportanceSamplingOracle(
            sampler,
            [Normal(1.0, 4.0), Normal(0.0, 4.0)],
            output="normal",
            target=target,
            n_particles=300_000,
            random_state=0,
        )
        belief = oracle.project(row)
        assert belief.mean[0] == pytest.approx(mean[target], abs=0.03)
        assert belief.variance[0] == pytest.approx(covariance[target, target], rel=0.03)


def sampling_oracle(**options):
    return ImportanceSamplingOracle(
        logistic_sampler,
        [Normal(0.0, 200.0)],
        output="beta",
        target=1,
        n_particles=20_000,
        random_state=0,
        **options,
    )


def test_too_small_an_effective_size_is_a_failure():
    row = [[2.0, 1.0, 0.0, 1e-3]]
    assert sampling_oracle(min_effective_size=10.0).project(row).is_proper.all()
    assert not sampling_oracle(min_effective_size=1000.0).project(row).is_proper.any()


def test_log_weights_of_any_size_are_fine():
    belief = sampling_oracle(min_effective_size=1.0).project([[1.0, 2.0, 600.0, 1.0]])
    # All particles are more than 500 standard deviations off: one has all the weight.
    assert not belief.is_proper.any() or np.isfinite(belief.mean).all()
    far = sampling_oracle(min_effective_size=2.0).project([[1.0, 2.0, 600.0, 1.0]])
    assert not far.is_proper.any()


def test_impossible_outputs_are_a_failure():
    oracle = ImportanceSamplingOracle(
        lambda inputs, random_state: np.full(len(inputs), 2.0),  # no probability
        [Normal(0.0, 1.0)],
        output="beta",
        target=1,
        n_particles=1000,
        random_state=0,
    )
    assert not oracle.project([[2.0, 2.0, 0.0, 1.0]]).is_proper.any()


def test_the_seed_makes_the_particles():
    row = [[2.0, 1.0, 0.0, 4.0]]
    first = sampling_oracle().project(row).natural
    assert_array_equal(sampling_oracle().project(row).natural, first)
    oracle = sampling_oracle()
    oracle.project(row)
    assert not np.array_equal(oracle.project(row).natural, first)


def test_a_sampler_of_the_wrong_shape_is_refused():
    oracle = ImportanceSamplingOracle(
        lambda inputs, random_state: inputs, [Normal(0.0, 1.0)], output="normal", target=1
    )
    with pytest.raises(ValueError, match=r"shape \(100000,\); found shape \(100000, 1\)"):
        oracle.project([[0.0, 1.0, 0.0, 1.0]])


def test_a_sampler_without_an_answer_for_a_particle_is_refused():
    oracle = ImportanceSamplingOracle(
        lambda inputs, random_state: np.where(inputs[:, 0] > 0, inputs[:, 0], np.nan),
        [Normal(0.0, 1.0)],
        output="normal",
        target=1,
        n_particles=100,
        random_state=0,
    )
    with pytest.raises(ValueError, match=r"found \d+ NaN, the first for inputs \[-"):
        oracle.project([[0.0, 1.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"proposal": [Normal([0.0, 1.0], 1.0)]}, "one proper message for each input"),
        (
            {"proposal": [Normal(0.0, -1.0)]},
            r"found natural parameters \[-0\.0, -1\.0\] for input 0",
        ),
        ({"proposal": Normal(0.0, 1.0)}, "one proper message for each input"),
        ({"n_particles": 0}, "n_particles must be at least 1, got 0"),
        ({"output": "point"}, "may be 'normal', 'beta', 'gamma'; found 'point'"),
        ({"target": 2}, r"one of the 2 variables .* found 2"),
        ({"projection": "mean"}, "projection must be one of .* got 'mean'"),
    ],
)
def test_oracles_that_make_no_sense_are_refused(options, message):
    options = {"proposal": [Normal(0.0, 1.0)], "output": "beta", "target": 1, **options}
    with pytest.raises(ValueError, match=message):
        ImportanceSamplingOracle(logistic_sampler, options.pop("proposal"), **options)


def test_compound_gamma_factors_without_a_density_are_refused():
    with pytest.raises(ValueError, match=r"must be positive; found 1\.0, -1\.0 and 1\.0"):
        CompoundGammaFactor(r1=-1.0)


@pytest.mark.parametrize(
    "oracle", [QuadratureOracle(LogisticFactor(), 1), sampling_oracle()], ids=["exact", "sampled"]
)
def test_improper_messages_and_wrong_columns_are_refused(oracle):
    with pytest.raises(ValueError, match=r"variance .* found -1\.0 in column 3, row 1"):
        oracle.project([[2.0, 1.0, 0.0, 1.0], [2.0, 1.0, 0.0, -1.0]])
    with pytest.raises(ValueError, match=r"must not contain NaN .* found nan in column 2, row 0"):
        oracle.project([[2.0, 1.0, np.nan, 1.0]])
    with pytest.raises(ValueError, match=r"must not contain NaN .* found nan in column 0, row 0"):
        oracle.project([[np.nan, 1.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match="needs 4 columns"):
        oracle.project([[2.0, 1.0]])
