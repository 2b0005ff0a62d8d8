"""KernelEPOperator: the regression, its updates, and what it refuses."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from skpc import KernelEPOperator
from skpc.messages import message_moments
from tests.naive import messages as naive

FAMILIES = ("beta", "normal")


def messages(n_rows=200, seed=0):
    """Incoming messages, and two smooth functions of them."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.uniform(1.0, 3.0, (n_rows, 2)),
            rng.normal(scale=2.0, size=n_rows),
            rng.uniform(0.2, 2.0, n_rows),
        ]
    )
    moments = message_moments(X, FAMILIES)
    first = np.tanh(moments.mean[:, 1] / (1 + moments.variance[:, 1])) + moments.mean[:, 0]
    return X, np.column_stack([first, 100.0 * moments.mean[:, 0] * moments.mean[:, 1]])


def operator(**options):
    options = {"n_inner": 100, "n_outer": 150, "random_state": 0, **options}
    return KernelEPOperator(input_distributions=FAMILIES, **options)


def test_predictions_are_those_of_the_gaussian_process_with_the_exact_kernel():
    X, y = messages(15)
    new, _ = messages(6, seed=1)
    found = operator(n_inner=1500, n_outer=2500, noise_variance=0.1).fit(X, y[:, 0])
    moments = message_moments(np.vstack([X, new]), FAMILIES)
    kernel = naive.embedding_kernel(
        *moments, found.inner_length_scale_sq_, found.outer_length_scale_sq_
    )
    targets = (y[:, :1] - found.y_mean_[0]) / found.y_scale_[0]
    mean, variance, evidence = naive.gaussian_process(
        kernel[:15, :15], kernel[15:, :15], np.ones(6), targets, 0.1
    )
    predicted, std = found.predict(new, return_std=True)
    scale = found.y_scale_[0]
    assert_allclose((predicted - found.y_mean_[0]) / scale, mean[:, 0], atol=0.08)
    assert_allclose(std / scale, np.sqrt(variance), atol=0.03)
    assert found.log_evidence_ == pytest.approx(evidence - 15 * np.log(scale), abs=1.0)


def test_the_evidence_is_the_density_of_the_targets_in_their_own_units():
    X, y = messages(60)
    base = operator().fit(X, y).log_evidence_
    scaled = operator().fit(X, y * [1.0, 10.0]).log_evidence_
    assert scaled == pytest.approx(base - 60 * np.log(10.0))


def test_smooth_functions_are_learned_and_far_messages_are_uncertain():
    X, y = messages(600)
    fitted = operator(n_inner=300, n_outer=500).fit(X[:500], y[:500])
    assert fitted.score(X[500:], y[500:]) > 0.99
    far = X[500:] + [0.0, 0.0, 40.0, 0.0]
    _, near_std = fitted.predict(X[500:], return_std=True)
    _, far_std = fitted.predict(far, return_std=True)
    assert (far_std > near_std).mean() > 0.95
    assert np.median(far_std[:, 0]) > 10 * np.median(near_std[:, 0])


def test_rows_one_by_one_equal_one_block_after_the_same_first_call():
    X, y = messages(300)
    one, block = operator().fit(X[:50], y[:50]), operator().fit(X[:50], y[:50])
    for i in range(50, 300):
        one.partial_fit(X[i : i + 1], y[i : i + 1])
    block.partial_fit(X[50:], y[50:])
    for a, b in zip(one.predict(X, return_std=True), block.predict(X, return_std=True)):
        assert_allclose(a / one.y_scale_, b / one.y_scale_, rtol=0, atol=1e-8)
    assert one.log_evidence_ == pytest.approx(block.log_evidence_)
    assert one.n_samples_seen_ == block.n_samples_seen_ == 300


def test_the_order_of_rows_changes_nothing():
    X, y = messages(120)
    order = np.random.default_rng(0).permutation(120)
    a, b = operator().fit(X, y), operator().fit(X[order], y[order])
    assert_allclose(a.predict(X), b.predict(X), rtol=0, atol=1e-6)
    assert_allclose(a.predict(X)[order], a.predict(X[order]), rtol=0, atol=1e-10)
    assert_allclose(a.predict(X)[3:4], a.predict(X[3:4]), rtol=0, atol=1e-10)


def test_standard_deviations_of_outputs_differ_by_their_scale():
    X, y = messages()
    fitted = operator().fit(X, y)
    _, std = fitted.predict(X, return_std=True)
    assert_allclose(std[:, 1] / std[:, 0], fitted.y_scale_[1] / fitted.y_scale_[0])
    assert (std**2 >= fitted.noise_variance_).all()
    assert_allclose(fitted.noise_variance_, 1e-4 * y.var(axis=0))


def test_without_standardising_variances_are_in_squared_units_of_each_output():
    X, y = messages()
    model = operator(standardize=False, noise_variance=1e-2, prior_variance=4.0).fit(X, y)
    assert_array_equal(model.noise_variance_, 1e-2)
    mean, std = model.predict(X[:20], return_std=True)
    for output in range(2):
        unit = y[:, output].var()
        same = operator(noise_variance=1e-2 / unit, prior_variance=4.0 / unit).fit(X, y[:, output])
        expected = same.predict(X[:20], return_std=True)
        assert_allclose((mean[:, output], std[:, output]), expected, rtol=1e-6)


def test_draws_come_from_the_predictive_normal():
    X, y = messages()
    fitted = operator(noise_variance=0.1).fit(X, y)
    mean, std = fitted.predict(X[:3], return_std=True)
    draws = fitted.sample(X[:3], 40_000, random_state=0)
    assert draws.shape == (3, 2, 40_000)
    assert_allclose(draws.mean(axis=-1), mean, atol=0.02 * std.max())
    assert_allclose(draws.std(axis=-1), std, rtol=0.02)
    flat = operator().fit(X, y[:, 0])
    assert flat.sample(X[:3], 7).shape == (3, 7)
    assert_array_equal(flat.sample(X, 2, random_state=1), flat.sample(X, 2, random_state=1))


def test_intervals_cover_what_was_drawn_from_the_model():
    X, _ = messages(2000)
    base = operator(noise_variance=0.05).fit(X, np.zeros(2000))
    features = base.features_.transform(message_moments(X, FAMILIES))
    rng = np.random.default_rng(0)
    y = features @ rng.normal(size=150) + rng.normal(scale=0.05**0.5, size=2000)
    fitted = operator(noise_variance=0.05 / y[:100].var(), prior_variance=1 / y[:100].var())
    fitted.fit(X[:100], y[:100])
    mean, std = fitted.predict(X[100:], return_std=True)
    for proportion in (0.5, 0.9):
        inside = np.abs(y[100:] - mean) < norm.ppf(0.5 + proportion / 2) * std
        assert inside.mean() == pytest.approx(proportion, abs=0.06)


def noisy_messages(n_rows, seed=0):
    """The smooth functions with noise of 5 % and 60 % of their standard deviations."""
    X, y = messages(n_rows, seed)
    noise = np.random.default_rng(seed + 1).normal(size=y.shape)
    return X, y + noise * [0.05, 0.6] * y.std(axis=0)


def inside(fitted, X, y, proportion):
    mean, std = fitted.predict(X, return_std=True)
    return (np.abs(y - mean) < norm.ppf(0.5 + proportion / 2) * std).mean(axis=0)


def test_intervals_of_outputs_with_unlike_noise_hold_their_share_with_a_noise_each():
    X, y = noisy_messages(2500)
    train, test = slice(0, 500), slice(500, None)
    own = operator(noise_variance="evidence", prior_variance=10.0).fit(X[train], y[train])
    for proportion in (0.5, 0.9):
        assert_allclose(inside(own, X[test], y[test], proportion), proportion, atol=0.05)
    noise = own.noise_variance_ / own.y_scale_**2
    # The variance of the noise is part of that of the noisy targets.
    assert_allclose(noise, [0.05**2, 0.6**2 / 1.36], rtol=0.2)
    grid = [1e-3, 1e-2, 0.05, 0.1, 0.2, 0.5]
    fits = [operator(noise_variance=n, prior_variance=10.0).fit(X[train], y[train]) for n in grid]
    shared = max(fits, key=lambda fit: fit.log_evidence_)
    off = np.abs(inside(shared, X[test], y[test], 0.5) - 0.5)
    assert off.max() > 0.2
    assert own.log_evidence_ > shared.log_evidence_


def test_a_noise_variance_for_each_output_is_used_and_equal_ones_are_as_one():
    X, y = noisy_messages(200)
    one, both = (operator(noise_variance=noise).fit(X, y) for noise in (0.1, [0.1, 0.1]))
    for a, b in zip(one.predict(X, return_std=True), both.predict(X, return_std=True)):
        assert_array_equal(a, b)
    fitted = operator(noise_variance=[1e-3, 0.1]).fit(X, y)
    mean, std = fitted.predict(X, return_std=True)
    draws = fitted.sample(X[:2], 3, random_state=0)
    assert draws.shape == (2, 2, 3)
    for output, noise in enumerate([1e-3, 0.1]):
        alone = operator(noise_variance=noise).fit(X, y[:, output])
        expected = alone.predict(X, return_std=True)
        assert_allclose((mean[:, output], std[:, output]), expected, rtol=1e-6)
    assert_allclose(fitted.noise_variance_, [1e-3, 0.1] * y.var(axis=0))


def test_the_noise_is_chosen_in_the_first_call_and_again_with_new_scales():
    X, y = noisy_messages(400)
    fitted = operator(noise_variance="evidence", keep_rows=True).fit(X[:100], y[:100])
    first = fitted.noise_variance_
    fitted.partial_fit(X[100:], y[100:])
    assert_array_equal(fitted.noise_variance_, first)
    fresh = operator(noise_variance="evidence").fit(X, y)
    assert_allclose(fitted.refit_features().noise_variance_, fresh.noise_variance_)
    assert fitted.noise_variance_[0] != first[0]
    absolute = operator(noise_variance="evidence", standardize=False, prior_variance=y.var())
    unit = absolute.fit(X, y[:, 1]).noise_variance_ / y[:, 1].var()
    assert unit == pytest.approx(0.6**2 / 1.36, rel=0.3)


def test_the_noise_that_predicts_rows_left_out_is_chosen_on_standardised_targets():
    X, y = noisy_messages(120)
    fitted = operator(noise_variance="leave-one-out").fit(X, y)
    features = fitted.features_.transform(message_moments(X, FAMILIES))
    targets = (y - fitted.y_mean_) / fitted.y_scale_
    chosen = fitted.noise_variance_ / fitted.y_scale_**2
    for output, noise in enumerate(chosen):
        least, less, more = (
            naive.leave_one_out_error(features @ features.T, targets, noise * factor)[output]
            for factor in (1.0, 0.3, 3.0)
        )
        assert least < min(less, more)


@pytest.mark.parametrize("noise", ["evidence", "leave-one-out"])
@pytest.mark.parametrize("n_rows", [1, 2, 30])
def test_the_noise_of_few_rows_or_constant_targets_is_chosen_too(n_rows, noise):
    X, _ = messages(n_rows)
    fitted = operator(noise_variance=noise).fit(X, np.full((n_rows, 2), 5.0))
    mean, std = fitted.predict(X, return_std=True)
    assert_allclose(mean, 5.0)
    assert (std > 0).all()


def test_widths_are_refitted_from_the_rows_kept():
    X, y = messages(400)
    first = X[:, 2] < 0
    order = np.concatenate([np.flatnonzero(first), np.flatnonzero(~first)])
    X, y = X[order], y[order]
    kept = operator(keep_rows=True).fit(X[:100], y[:100])
    kept.partial_fit(X[100:], y[100:])
    fresh = operator().fit(X, y)
    assert kept.outer_length_scale_sq_ != fresh.outer_length_scale_sq_
    assert kept.refit_features() is kept
    assert kept.outer_length_scale_sq_ == fresh.outer_length_scale_sq_
    assert_allclose(kept.predict(X), fresh.predict(X), rtol=1e-8)
    assert kept.n_samples_seen_ == 400
    kept.partial_fit(X[:5], y[:5]).refit_features()
    assert kept.n_samples_seen_ == 405


def test_widths_cannot_be_refitted_from_rows_that_were_not_kept():
    X, y = messages(50)
    with pytest.raises(ValueError, match="keep_rows=True"):
        operator().fit(X, y).refit_features()
    with pytest.raises(NotFittedError):
        operator().refit_features()


def test_given_widths_are_used():
    X, y = messages(50)
    fitted = operator(inner_length_scale_sq=[0.5, 2.0], outer_length_scale_sq=0.3).fit(X, y)
    assert_array_equal(fitted.inner_length_scale_sq_, [0.5, 2.0])
    assert fitted.outer_length_scale_sq_ == 0.3
    assert_array_equal(
        operator(inner_length_scale_sq=2.0).fit(X, y).inner_length_scale_sq_, [2.0, 2.0]
    )


def test_widths_and_noise_can_be_searched():
    X, y = messages(150)
    grid = {"outer_length_scale_sq": ["median", 0.1, 100.0], "noise_variance": [1e-6, 1.0]}
    search = GridSearchCV(operator(), grid, cv=3).fit(X, y)
    assert search.best_params_["noise_variance"] == 1e-6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_the_evidence_prefers_the_noise_that_is_there():
    X, y = messages(300)
    rng = np.random.default_rng(0)
    noisy = y[:, 0] + rng.normal(scale=0.3 * y[:, 0].std(), size=300)
    evidence = {
        noise: operator(noise_variance=noise).fit(X, noisy).log_evidence_
        for noise in (1e-4, 1e-3, 0.08, 1.0)
    }
    assert max(evidence, key=evidence.get) == 0.08


def test_pickles_and_clones_predict_and_learn_alike():
    X, y = messages()
    fitted = operator(keep_rows=True).fit(X[:100], y[:100])
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(X), fitted.predict(X))
    for other in (again, fitted):
        other.partial_fit(X[100:], y[100:])
    assert_array_equal(again.predict(X), fitted.predict(X))
    assert_array_equal(clone(fitted).fit(X, y).predict(X), operator().fit(X, y).predict(X))


def test_names_of_columns_are_kept_and_checked():
    X, y = messages()
    frame = pd.DataFrame(X, columns=["alpha", "beta", "mean", "variance"])
    fitted = operator().fit(frame, y)
    assert_array_equal(fitted.predict(frame), operator().fit(X, y).predict(X))
    bad = frame.copy()
    bad.loc[3, "variance"] = -1.0
    with pytest.raises(ValueError, match=r"found -1\.0 in column 'variance', row 3"):
        fitted.predict(bad)


@pytest.mark.parametrize("n_rows", [1, 2])
def test_few_rows_and_constant_columns_and_targets_are_fine(n_rows):
    X = np.full((n_rows, 4), 2.0)
    fitted = operator().fit(X, np.full(n_rows, 5.0))
    mean, std = fitted.predict(X, return_std=True)
    assert_allclose(mean, 5.0)
    assert np.isfinite(std).all()
    points = KernelEPOperator(random_state=0).fit([[1.0, 7.0]], [3.0])
    assert points.predict([[1.0, 7.0]]) == pytest.approx(3.0)


@pytest.mark.parametrize("scale", [1e-160, 1e-140, 1e140])
def test_points_of_any_scale_are_learned_from(scale):
    X = np.random.default_rng(0).normal(size=(50, 2)) * scale
    mean, std = KernelEPOperator(random_state=0).fit(X, X[:, 0] / scale).predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


BAD_ROWS = [
    (np.array([[1.0, 1.0, np.nan, 1.0]]), r"messages cannot be missing; found nan in column 2"),
    (np.array([[1.0, 1.0, 0.0, np.inf]]), r"found inf in column 3, row 0"),
    (np.array([[1.0, 1.0, -1e200, 1.0]]), r"magnitudes up to .* column 2 reaches 1e\+200"),
    (np.array([[1.0, 1.0, 0.0, -1.0]]), r"variance .* found -1\.0 in column 3, row 0"),
    (np.array([[1.0, 1.0, 0.0, 1.0, 1.0]]), "5 features"),
]


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS)
def test_bad_messages_are_refused_and_the_operator_stays_as_it_was(rows, message):
    X, y = messages(60)
    fitted = operator(keep_rows=True).fit(X, y)
    before = fitted.predict(X)
    with pytest.raises(ValueError, match=message):
        fitted.predict(rows)
    with pytest.raises(ValueError, match=message):
        fitted.partial_fit(rows, y[:1])
    with pytest.raises(ValueError, match=message.replace("5 features", "needs 4 columns")):
        fitted.fit(rows, y[:1])
    assert_array_equal(fitted.predict(X), before)
    assert fitted.n_samples_seen_ == 60
    fitted.refit_features()
    assert_allclose(fitted.predict(X), before)


def test_bad_targets_are_refused_and_the_operator_stays_as_it_was():
    X, y = messages(60)
    fitted = operator().fit(X, y)
    before = fitted.predict(X)
    for bad, message in [
        (y[:, 0], "2 outputs of the first call; found 1"),
        (y * np.nan, "NaN"),
        (y * 1e200, "magnitudes up to .* 'y' reaches"),
        (y[:3], "samples"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitted.partial_fit(X, bad)
    assert_array_equal(fitted.predict(X), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_distributions": ("beta", "cauchy")}, "found 'cauchy'"),
        ({"input_distributions": ("beta",)}, "needs 2 columns .* found 4"),
        ({"inner_length_scale_sq": [1.0, 2.0, 3.0]}, "each of the 2 variables"),
        ({"inner_length_scale_sq": [1.0, -2.0]}, "one positive number"),
        ({"outer_length_scale_sq": 0.0}, "outer_length_scale_sq"),
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"noise_variance": "most"}, "noise_variance"),
        ({"noise_variance": [1.0, 0.0]}, "one positive number, or one for each of the 2 outputs"),
        ({"noise_variance": [1.0, 1.0, 1.0]}, "for each of the 2 outputs; found"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(options, message):
    X, y = messages(10)
    with pytest.raises(ValueError, match=message):
        operator().set_params(**options).fit(X, y)


def test_an_interrupted_update_leaves_the_operator_as_it_was(monkeypatch):
    X, y = messages(60)
    fitted = operator(keep_rows=True).fit(X, y)
    before = fitted.predict(X)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("skpc.messages.BayesianRegression.update", interrupt)
    for learn in (fitted.fit, fitted.partial_fit):
        with pytest.raises(KeyboardInterrupt):
            learn(X[:9], y[:9])
    with pytest.raises(KeyboardInterrupt):
        fitted.refit_features()
    assert_array_equal(fitted.predict(X), before)
    monkeypatch.undo()
    assert fitted.refit_features().n_samples_seen_ == 60


def test_the_features_of_many_rows_are_never_held_at_once():
    rows = np.random.default_rng(0).normal(size=(20_000, 2))
    model = KernelEPOperator(n_inner=20, n_outer=500, random_state=0).fit(rows[:500], rows[:500, 0])
    all_features = 20_000 * 500 * 8
    tracemalloc.start()
    model.fit(rows, rows[:, 0])
    model.predict(rows)
    assert tracemalloc.get_traced_memory()[1] < all_features
    tracemalloc.stop()
