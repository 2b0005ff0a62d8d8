"""Codecs, and operators that learn from an oracle."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression

from skpc import KernelEPOperator
from skpc.messages import (
    CODECS,
    Beta,
    CompoundGammaFactor,
    Gamma,
    JustInTimeOperator,
    LearnedOperator,
    LogisticFactor,
    Normal,
    QuadratureOracle,
)

every_codec = pytest.mark.parametrize("codec", CODECS)
MESSAGES = [
    (Normal([0.5, 3.0], [0.4, 1.0]), Normal([0.0, 2.0], [1.0, 0.8])),
    (Beta([2.0, 3.0], [5.0, 1.5]), Beta([1.0, 1.2], [1.0, 2.0])),
    (Gamma([2.0, 30.0], [5.0, 0.5]), Gamma([3.0, 32.0], [4.0, 0.4])),
]


def rows(n_rows=300, seed=0):
    """Messages to the logistic factor: labels from p, normals from z."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n_rows)
    normal = [rng.normal(scale=2.0, size=n_rows), rng.uniform(0.3, 2.0, n_rows)]
    return np.column_stack([1.0 + label, 2.0 - label, *normal])


def exact(target=1):
    return QuadratureOracle(LogisticFactor(), target)


def regressor(**options):
    options = {"n_inner": 100, "n_outer": 150, "random_state": 0, **options}
    return KernelEPOperator(input_distributions=("beta", "normal"), **options)


def just_in_time(oracle=None, *, threshold=-7.0, n_initial=30, **options):
    return JustInTimeOperator(
        regressor(), oracle or exact(), threshold=threshold, n_initial=n_initial, **options
    )


class Scripted:
    """An oracle that fails on some of its calls, and remembers what it was asked."""

    def __init__(self, fails=lambda call: False):
        self.inner = exact()
        self.layout = self.inner.layout
        self.fails = fails
        self.asked = []

    def project(self, messages):
        self.asked.append(np.array(messages))
        if self.fails(len(self.asked) - 1):
            return Normal(np.full(len(messages), np.nan), np.ones(len(messages)))
        return self.inner.project(messages)


@every_codec
@pytest.mark.parametrize(("belief", "incoming"), MESSAGES, ids=["normal", "beta", "gamma"])
def test_what_is_encoded_can_be_decoded(codec, belief, incoming):
    targets = CODECS[codec].encode(belief, incoming)
    assert targets.shape == (2, 2)
    assert_allclose(CODECS[codec].decode(targets, incoming).natural, belief.natural)


def test_codecs_say_what_they_are_said_to_say():
    belief, incoming = Normal([1.0], [0.5]), Normal([0.0], [4.0])
    codes = {name: codec.encode(belief, incoming)[0] for name, codec in CODECS.items()}
    assert_allclose(codes["mean-logvar"], [1.0, np.log(0.5)])
    assert_allclose(codes["scaled"], [0.5, np.log(0.125)])
    assert_allclose(codes["natural"], [2.0, 2.0 - 0.25])
    # Those of a normal distribution are x and -x^2 / 2.
    assert_allclose(codes["statistics"], [1.0, -0.75])


def test_targets_outside_the_family_are_decoded_as_improper_beliefs():
    beta, gamma = Beta([1.0], [1.0]), Gamma([2.0], [1.0])
    assert not CODECS["mean-logvar"].decode(np.array([[1.5, -3.0]]), beta).is_proper[0]
    assert not CODECS["scaled"].decode(np.array([[0.0, 3.0]]), beta).is_proper[0]
    assert not CODECS["mean-logvar"].decode(np.array([[-0.1, 0.0]]), gamma).is_proper[0]
    normal = Normal([0.0], [1.0])
    assert not CODECS["natural"].decode(np.array([[0.0, -2.0]]), normal).is_proper[0]
    # The mean of a square is no less than that of the number, squared.
    assert not CODECS["statistics"].decode(np.array([[2.0, -1.0]]), normal).is_proper[0]
    assert not CODECS["statistics"].decode(np.array([[-0.1, -0.1]]), beta).is_proper[0]


def test_unknown_codecs_are_refused():
    for make in (
        lambda: LearnedOperator(regressor(), exact().layout, codec="logs"),
        lambda: just_in_time(codec="logs"),
    ):
        with pytest.raises(ValueError, match="codec must be one of .* got 'logs'"):
            make()


@every_codec
@pytest.mark.parametrize("target", [0, 1])
def test_a_learned_operator_answers_like_its_oracle_in_either_direction(codec, target):
    oracle, X, new = exact(target), rows(600), rows(100, seed=1)
    targets = CODECS[codec].encode(oracle.project(X), oracle.layout.incoming(X))
    fitted = regressor(n_inner=300, n_outer=500).fit(X, targets)
    found = LearnedOperator(fitted, oracle.layout, codec=codec).project(new)
    # The regressor does not know which statistics are those of a distribution.
    assert (~found.is_proper).sum() <= (2 if codec == "statistics" else 0)
    divergence = np.where(found.is_proper, oracle.project(new).kl(found), np.inf)
    assert not np.isnan(divergence).any()
    # What multiplies natural parameters is no small error of a belief.
    assert np.median(divergence) < (1e-2 if codec == "natural" else 1e-4)


def test_any_regressor_will_do():
    oracle, X = exact(), rows(50)
    targets = CODECS["scaled"].encode(oracle.project(X), oracle.layout.incoming(X))
    learned = LearnedOperator(LinearRegression().fit(X, targets), oracle.layout)
    assert len(learned.project(X)) == 50


def test_the_first_answers_are_the_oracles_and_later_ones_are_predicted():
    operator, X = just_in_time(), rows(400)
    found = operator.project(X)
    assert_allclose(found.natural[:30], exact().project(X[:30]).natural)
    assert np.isnan(operator.trace_[:30]).all()
    assert operator.trace_.shape == (400, 2)
    assert 30 <= operator.n_oracle_calls_ < 200
    calls = operator.n_oracle_calls_
    operator.project(X)
    assert operator.n_oracle_calls_ - calls < 10
    assert operator.n_oracle_failures_ == 0


def test_the_oracle_is_asked_exactly_where_the_trace_reaches_the_threshold():
    oracle = Scripted()
    operator, X = just_in_time(oracle, threshold=-7.0), rows(200)
    operator.project(X)
    unsure = np.isnan(operator.trace_).any(axis=1) | (operator.trace_ >= -7.0).any(axis=1)
    assert unsure.sum() == operator.n_oracle_calls_ == len(oracle.asked)
    assert_array_equal(np.vstack(oracle.asked), X[unsure])
    assert operator.regressor.n_samples_seen_ == len(oracle.asked)


def test_many_messages_at_once_are_answered_as_one_by_one():
    X = rows(600)
    one, many = just_in_time(), just_in_time()
    separate = np.vstack([one.project(X[[i]]).natural for i in range(600)])
    assert_allclose(many.project(X).natural, separate, rtol=1e-6)
    assert one.n_oracle_calls_ == many.n_oracle_calls_
    assert_allclose(one.trace_, many.trace_, rtol=1e-6)


def test_a_threshold_may_differ_between_outputs():
    oracle = Scripted()
    operator = just_in_time(oracle, threshold=[-5.0, -8.0])
    operator.project(rows(200))
    unsure = (operator.trace_[30:] >= [-5.0, -8.0]).any(axis=1)
    assert unsure.sum() + 30 == operator.n_oracle_calls_


def test_nothing_is_learned_from_failures():
    oracle = Scripted(fails=lambda call: call % 2 == 0)
    operator = just_in_time(oracle, n_initial=20)
    X = rows(300)
    found = operator.project(X)
    assert operator.n_oracle_failures_ == (operator.n_oracle_calls_ + 1) // 2
    learned = operator.n_oracle_calls_ - operator.n_oracle_failures_
    assert operator.regressor.n_samples_seen_ == learned
    assert (~found.is_proper).sum() == operator.n_oracle_failures_


def test_a_prediction_outside_the_family_goes_to_the_oracle():
    class Wrong:
        noise_variance_ = np.full(2, 1e-12)

        def predict(self, X, return_std=False):
            return np.tile([0.0, -2.0], (len(X), 1)), np.full((len(X), 2), 1e-5)

        def partial_fit(self, X, y):
            self.learned = y

    oracle = Scripted()
    operator = JustInTimeOperator(Wrong(), oracle, threshold=-3.0, n_initial=0, codec="natural")
    X = np.array([[2.0, 1.0, 0.0, 1.0], [2.0, 1.0, 0.0, 0.1]])
    found = operator.project(X)
    # Precision 1 - 2 is no precision; 10 - 2 is one.
    assert operator.n_oracle_calls_ == 1
    assert_allclose(found.natural[0], exact().project(X[:1]).natural[0])
    assert_allclose(found.natural[1], [0.0, 8.0])


def test_a_threshold_below_the_noise_is_refused():
    X = rows(60)
    with pytest.raises(ValueError, match="threshold must be above .* smaller noise_variance"):
        just_in_time(threshold=-30.0).project(X)
    targets = CODECS["scaled"].encode(exact().project(X), exact().layout.incoming(X))
    fitted = regressor().fit(X, targets)
    floor = np.log(fitted.noise_variance_).max()
    with pytest.raises(ValueError, match="asked every time"):
        JustInTimeOperator(fitted, exact(), threshold=floor, n_initial=0)
    operator = JustInTimeOperator(copy.deepcopy(fitted), exact(), threshold=-6.0, n_initial=0)
    operator.project(X)
    assert operator.n_oracle_calls_ < 60


def test_settings_that_make_no_sense_are_refused():
    for threshold in (np.nan, [-8.0, -8.0, -8.0], [-8.0, np.nan]):
        with pytest.raises(ValueError, match="threshold must be one number, or one for each"):
            just_in_time(threshold=threshold)
    with pytest.raises(ValueError, match="n_initial must be at least 0, got -1"):
        just_in_time(n_initial=-1)


def test_a_regressor_with_one_output_is_refused():
    X = rows(20)
    learned = LearnedOperator(LinearRegression().fit(X, X[:, 2]), exact().layout)
    with pytest.raises(ValueError, match=r"shape \(20, 2\); found shape \(20,\)"):
        learned.project(X)


def test_after_a_refusal_a_better_threshold_goes_on_where_it_stopped():
    operator, X = just_in_time(threshold=-30.0), rows(60)
    with pytest.raises(ValueError, match="threshold"):
        operator.project(X)
    assert operator.n_oracle_calls_ == 30
    operator.threshold = -5.0
    operator.project(X)
    assert operator.regressor.n_samples_seen_ >= 31


def test_gamma_messages_are_learned_over_many_scales():
    oracle = QuadratureOracle(CompoundGammaFactor(), 0)
    rng = np.random.default_rng(0)
    shape = rng.uniform(6.0, 50.0, 500)
    X = np.column_stack([shape, shape / 10 ** rng.uniform(-3, 3, 500)])
    learner = KernelEPOperator(
        input_distributions=("log-gamma",), noise_variance=1e-6, random_state=0
    )
    operator = JustInTimeOperator(learner, oracle, threshold=-10.0, n_initial=50)
    found = operator.project(X)
    assert operator.n_oracle_calls_ < 150
    assert np.median(oracle.project(X).kl(found)) < 1e-5


@pytest.mark.parametrize("failing_call", [3, 32])
def test_what_the_oracle_did_not_answer_leaves_no_trace(failing_call):
    def interrupt(call):
        if call == failing_call:
            raise KeyboardInterrupt
        return False

    operator, X = just_in_time(Scripted(fails=interrupt)), rows(200)
    with pytest.raises(KeyboardInterrupt):
        operator.project(X)
    assert operator.n_oracle_calls_ == failing_call
    unsure = np.isnan(operator.trace_).any(axis=1) | (operator.trace_ >= -7.0).any(axis=1)
    assert unsure.sum() == failing_call
    assert len(operator.project(X)) == 200


def test_copies_learn_for_themselves():
    operator, X = just_in_time(), rows(100)
    operator.project(X[:50])
    other = copy.deepcopy(operator)
    other.project(X[50:])
    assert len(operator.trace_) == 50
    assert len(other.trace_) == 100
