"""DensityRegressor: predictive distributions by pools of densities and regressors."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpc import (
    CutsetNetworkBD,
    DensityRegressor,
    ExpectedKernelSVR,
    MixtureOfAllTrees,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.domain import merge_rows
from skpc.pooling import numbers
from tests.naive.regressor import facts_of

CUTSET = CutsetNetworkBD(random_state=0)
#: Gaussians of one column each: a pool gains by members that miss what others tell, and their means
#: leave the range of the target by no more than draws do.
SOFT = SoftLearnSPN(leaves="univariate", random_state=0)
TREES = MixtureOfAllTrees(max_iter=3, n_inference_samples=20, random_state=0)
#: A regressor that learns in no time.
FAST = HistGradientBoostingRegressor(max_iter=10, random_state=0)
POOL = DensityRegressor(
    [("cutset", CUTSET), ("soft", SOFT)], regressors=[("fast", FAST)], cv=2, random_state=0
)
REGRESSORS = {
    "one density": DensityRegressor(SOFT, regressors=None, random_state=0),
    "binned density": DensityRegressor(CUTSET, regressors=None, random_state=0),
    "densities": DensityRegressor(
        [("a", CUTSET), ("b", SOFT)], regressors=None, cv=2, random_state=0
    ),
    "pool": POOL,
}
every_regressor = pytest.mark.parametrize("model", REGRESSORS.values(), ids=REGRESSORS.keys())


def mixed(n_rows: int = 200, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of strings and numbers, and a target that depends on both."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    size = rng.normal(size=n_rows)
    table = pd.DataFrame(
        {
            "name": np.array(["a", "b", "c"])[kind],
            "size": size,
            "other": rng.normal(size=n_rows),
        }
    )
    return table, kind + size + (0.1 + 0.3 * kind) * rng.normal(size=n_rows)


def zero_inflated(n_rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rain: none on dry days, and more where it is warm."""
    rng = np.random.default_rng(seed)
    warm, dry = rng.normal(size=n_rows), rng.random(n_rows) < 0.4
    other = dry + 0.3 * rng.normal(size=n_rows)
    return np.column_stack([warm, other]), np.where(
        dry, 0.0, np.exp(1.0 + 0.5 * warm + 0.1 * rng.normal(size=n_rows))
    )


def with_missing_cells(table: pd.DataFrame, proportion: float = 0.4, seed: int = 1) -> pd.DataFrame:
    return table.mask(np.random.default_rng(seed).random(table.shape) < proportion)


def repeated(table: pd.DataFrame, row: int, times: int) -> pd.DataFrame:
    return table.iloc[np.full(times, row)]


@every_regressor
def test_all_answers_are_those_of_the_density_by_quadrature(model):
    X, y = mixed()
    model = clone(model).fit(with_missing_cells(X, 0.1), y)
    rows = with_missing_cells(X)
    mean, sd = model.predict(rows, return_std=True)
    levels = [0.1, 0.5, 0.9]
    quantiles = model.predict_quantiles(rows, levels)
    grid = np.linspace(-25.0, 30.0, 20_001) + 1e-4
    for row in (0, 1, 2):
        log_density = model.score_samples(repeated(rows, row, len(grid)), grid)
        total, by_grid, sd_by_grid, below = facts_of(log_density, grid)
        assert total == pytest.approx(1.0, abs=2e-3)
        assert mean[row] == pytest.approx(by_grid, abs=5e-3)
        assert sd[row] == pytest.approx(sd_by_grid, rel=2e-2)
        assert_allclose([below(q) for q in quantiles[row]], levels, atol=2e-3)
    assert_array_equal(model.predict(rows), mean)


@every_regressor
def test_atoms_of_the_target_have_probabilities_of_their_own(model):
    X, y = zero_inflated()
    model = clone(model).fit(X, y)
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [np.nan, 0.4], [np.nan, np.nan]])
    mean, sd = model.predict(rows, return_std=True)
    grid = np.geomspace(1e-6, 200.0, 10_001)
    grid = np.concatenate([-grid[::-1], grid])
    of_zero = model.score_samples(rows, np.zeros(4))
    for row in range(4):
        log_density = model.score_samples(np.repeat(rows[[row]], len(grid), axis=0), grid)
        total, by_grid, sd_by_grid, _ = facts_of(log_density, grid, [0.0], [of_zero[row]])
        assert total == pytest.approx(1.0, abs=3e-3)
        assert mean[row] == pytest.approx(by_grid, abs=5e-3)
        assert sd[row] == pytest.approx(sd_by_grid, rel=2e-2)
    dry, wet, _, unknown = np.exp(of_zero)
    assert dry > 0.8
    assert wet < 0.1
    assert unknown == pytest.approx((y == 0.0).mean(), abs=0.07)
    assert_array_equal(model.predict_quantiles(rows[:1], 0.5), [[0.0]])


def test_one_density_alone_answers_by_its_exact_conditional_distribution():
    X, y = mixed()
    model = DensityRegressor(SOFT, regressors=None).fit(X, y)
    rows = with_missing_cells(X)
    encoded = np.column_stack([model.domain_.encode(rows), np.full(len(X), np.nan)])
    joint = model.densities_["density"]
    assert_allclose(model.predict(rows), joint.complete(encoded)[:, -1], rtol=1e-9)
    assert_allclose(
        model.predict_quantiles(rows, [0.3])[:, 0], joint.marginals(encoded)[-1].quantile(0.3)
    )
    encoded[:, -1] = y
    expected = joint.score_samples(encoded, given=[0, 1, 2])
    assert_allclose(model.score_samples(rows, y), expected, atol=1e-9)
    assert np.isnan(model.log_density_)


@pytest.mark.parametrize("target", [mixed, zero_inflated])
@pytest.mark.parametrize("density", [CUTSET, TREES], ids=repr)
def test_densities_of_the_target_are_those_of_the_joint_density(density, target):
    X, y = target(100)
    model = DensityRegressor(density, regressors=None).fit(X, y)
    encoded = np.column_stack([model.domain_.encode(X), y])
    joint = model.densities_["density"]
    others = np.arange(encoded.shape[1] - 1)
    expected = joint.score_samples(encoded, given=others)
    assert_allclose(model.score_samples(X, y), expected, atol=1e-8)


def test_a_pool_does_better_than_each_of_its_members():
    X, y = mixed(400)
    model = clone(POOL).fit(X, y)
    assert model.member_names_ == ["cutset", "soft", "fast"]
    assert model.log_density_ > model.member_log_densities_.max()
    assert model.weights_.sum() == pytest.approx(1.0, abs=1e-2)
    assert list(model.densities_) == ["cutset", "soft"]
    test, y_test = mixed(400, seed=1)
    test = pd.concat([test, with_missing_cells(test, 0.3), with_missing_cells(test, 0.6)])
    y_test = np.tile(y_test, 3)
    scores = [
        DensityRegressor(density, regressors=None).fit(X, y).score_samples(test, y_test).mean()
        for density in (CUTSET, SOFT)
    ]
    assert model.score_samples(test, y_test).mean() > max(scores)


def test_held_out_targets_have_no_part_in_the_bins_that_tell_of_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = X[:, 0] + rng.normal(size=150)
    train, test = np.arange(100), np.arange(100, 150)
    densities = [("a", CUTSET), ("b", clone(CUTSET).set_params(max_depth=0))]
    model = DensityRegressor(
        densities, regressors=None, cv=[(train, test)], missing_rates=[0.0], random_state=0
    ).fit(X, y)
    rows, ones = np.column_stack([X, y]), np.ones(150)
    domain = model.domain_.with_number(rows, ones, CUTSET.bins_wanted)
    domain = domain.with_axes_of(rows[train], ones[train])
    alone = clone(CUTSET).fit_rows(domain, *merge_rows(rows[train], ones[train]))
    expected = alone.score_samples(rows[test], given=[0, 1]).mean()
    assert model.member_log_densities_[0] == pytest.approx(expected, abs=1e-6)


def test_members_of_little_weight_are_not_learned_again(monkeypatch):
    X, y = mixed()
    model = clone(POOL).fit(X, y)
    assert list(model._pool.noise) == [2]
    monkeypatch.setattr(numbers, "_SMALLEST_WEIGHT", model.weights_[2] + 0.01)
    model.fit(X, y)
    assert not model._pool.noise
    assert model._pool.fitted[2] is None
    assert model.weights_[2] == 0.0
    assert np.isfinite(model.predict(X)).all()


def test_the_density_of_rows_alone_does_not_look_at_targets():
    X, y = mixed()
    model = DensityRegressor(CUTSET, regressors=None).fit(X, y)
    rows = X.drop(columns="name").assign(name=None)[X.columns]
    encoded = np.column_stack([model.domain_.encode(rows), np.full(len(X), np.nan)])
    joint = model.densities_["density"]
    assert_allclose(model.score_samples(rows), joint.score_samples(encoded), atol=1e-12)
    far = rows.assign(size=30.0)
    assert (model.score_samples(far) < model.score_samples(rows).min()).all()


@every_regressor
def test_a_row_without_cells_gets_the_distribution_of_the_target(model):
    X, y = mixed()
    model = clone(model).fit(X, y)
    nothing = pd.DataFrame({"name": [None], "size": [np.nan], "other": [np.nan]})
    mean, sd = model.predict(nothing, return_std=True)
    assert mean[0] == pytest.approx(y.mean(), abs=0.15)
    assert sd[0] == pytest.approx(y.std(), rel=0.15)


@every_regressor
@pytest.mark.parametrize("target", [mixed, zero_inflated])
def test_draws_have_the_predictive_distribution(model, target):
    X, y = target(200)
    model = clone(model).fit(X, y)
    rows = X[:4]
    drawn = model.sample(rows, 2000, random_state=0)
    assert drawn.shape == (4, 2000)
    mean, sd = model.predict(rows, return_std=True)
    assert_allclose(drawn.mean(axis=1), mean, atol=0.15 * y.std())
    for level in (0.2, 0.5, 0.8):
        quantile = model.predict_quantiles(rows, level)
        reached, before = (drawn <= quantile).mean(axis=1), (drawn < quantile).mean(axis=1)
        assert ((before - 0.06 < level) & (level < reached + 0.06)).all()
    assert_array_equal(model.sample(rows, 3, random_state=1), model.sample(rows, 3, random_state=1))


def test_draws_and_quantiles_of_whole_numbers_are_whole():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.round(30 + 10 * X[:, 0] + 3 * rng.normal(size=200))
    model = clone(POOL).fit(X, y)
    drawn, quantiles = (
        model.sample(X[:20], 5, random_state=0),
        model.predict_quantiles(X, [0.1, 0.7]),
    )
    for whole in (drawn, quantiles):
        assert_array_equal(whole, np.round(whole))
    few = np.where(X[:, 0] > 0, 2.0, 7.0)
    assert set(np.unique(clone(POOL).fit(X, few).sample(X, 3, random_state=0))) <= {2.0, 7.0}


def test_weights_of_rows_count_as_repetitions():
    X, y = mixed(80)
    weight = np.arange(80) % 3
    weighted = clone(POOL).fit(X, y, sample_weight=weight)
    copies = clone(POOL).fit(X.loc[X.index.repeat(weight)], y.repeat(weight))
    assert_allclose(weighted.predict(X), copies.predict(X), rtol=1e-9)
    assert_allclose(weighted.weights_, copies.weights_, rtol=1e-9)
    doubled = clone(POOL).fit(X, y, sample_weight=np.full(80, 2.0))
    twice = clone(POOL).fit(pd.concat([X, X]), np.concatenate([y, y]))
    assert_allclose(doubled.score_samples(X, y), twice.score_samples(X, y), rtol=1e-9)


def test_a_regressor_that_tells_its_own_deviation_is_taken_at_its_word():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.integers(0, 2, (150, 1)), 2, axis=1).astype(float)
    X[:, 1] = np.where(rng.random(150) < 0.9, X[:, 1], 1.0 - X[:, 1])
    y = 4.0 * X[:, 0] + rng.normal(size=150)
    svr = ExpectedKernelSVR(C=10.0, random_state=0)
    model = DensityRegressor(CUTSET, regressors=[("svr", svr)], cv=3, random_state=0).fit(X, y)
    member = model._pool.fitted[1]
    assert member.has_std
    mean, sd = member.mean_and_sd(np.array([[1.0, 1.0], [np.nan, 1.0]]))
    assert mean[0] == pytest.approx(4.0, abs=0.4)
    assert sd[0] == 0.0
    assert sd[1] > 0.8
    assert model.weights_[1] > 0.1
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    model.fit(holes, y)
    member = model._pool.fitted[1]
    assert not member.has_std


def test_regressors_are_told_which_columns_are_categories():
    X, y = mixed()
    model = clone(POOL).fit(X, y)
    member = model._pool.fitted[2].model
    assert_array_equal(member.models[0].is_categorical_, [True, False, False])
    assert len(member.models) == 3


def test_a_target_without_two_numbers_to_tell_apart_leaves_regressors_out():
    X, _ = mixed(40)
    model = clone(POOL).fit(X, np.full(40, 3.5))
    mean, sd = model.predict(X, return_std=True)
    assert_allclose(mean, 3.5, atol=1e-3)
    assert_allclose(sd, 0.0, atol=1e-2)
    assert_array_equal(model.predict_quantiles(X, [0.05, 0.95]), np.full((40, 2), 3.5))
    assert model.weights_[2] == 0.0
    values = np.sqrt([2.0, 3.0])
    two = clone(POOL).fit(X, np.where(X["size"] > 0, *values))
    assert two.weights_[2] == 0.0
    assert set(two.predict_quantiles(X, 0.5).ravel()) == set(values)


def test_few_rows_are_enough():
    X, y = mixed(12)
    assert np.isfinite(clone(POOL).fit(X, y).predict(X)).all()
    single = clone(POOL).fit(X[:1], y[:1])
    assert_allclose(single.predict(X[:1]), y[:1], rtol=0.1)
    assert_array_equal(single.weights_, [0.5, 0.5, 0.0])


@pytest.mark.parametrize("margins", ["auto", "plain"])
def test_margins_may_be_plain(margins):
    X, y = mixed()
    density = CutsetNetworkBD(margins=margins, random_state=0)
    model = DensityRegressor(density, regressors=[("fast", FAST)], cv=2, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.6
    assert np.isfinite(model.score_samples(X, y)).all()


def test_jobs_side_by_side_give_the_same_result():
    X, y = mixed(80)
    one = clone(POOL).fit(X, y)
    with joblib.parallel_config("threading"):
        two = clone(POOL).set_params(n_jobs=2).fit(X, y)
    assert_array_equal(one.predict(X), two.predict(X))


def test_folds_may_be_given():
    X, y = mixed(90)
    groups = np.arange(90) % 3
    splits = list(GroupKFold(3).split(X, y, groups))
    found = clone(POOL).set_params(cv=splits).fit(X, y)
    assert np.isfinite(found.log_density_)
    assert not np.array_equal(found.weights_, clone(POOL).fit(X, y).weights_)


def test_it_is_a_regressor_for_pipelines_grids_and_pickles():
    X, y = mixed()
    assert is_regressor(POOL)
    search = GridSearchCV(
        make_pipeline(FunctionTransformer(), DensityRegressor(CUTSET, regressors=None)),
        {"densityregressor__density__ess": [0.1, 1.0]},
        cv=2,
    ).fit(X, y)
    assert search.best_score_ > 0.6
    assert cross_val_score(POOL, X, y, cv=2).mean() > 0.7
    model = clone(POOL).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"density": FAST}, TypeError, "has no fit_rows"),
        ({"density": [("a", CUTSET), ("a", SOFT)]}, ValueError, "The names of density must differ"),
        ({"density": [("a", CUTSET)], "regressors": [("a", FAST)]}, ValueError, "must differ"),
        ({"regressors": [("scaler", FunctionTransformer())]}, TypeError, "need predict"),
        ({"regressors": ["forest"]}, ValueError, "boosting"),
        ({"missing_rates": [0.0, 1.0]}, ValueError, "from 0 to below 1"),
    ],
)
def test_refused_parameters_are_named(parameters, error, message):
    X, y = mixed(30)
    with pytest.raises(error, match=message):
        DensityRegressor(**{"density": CUTSET, **parameters}).fit(X, y)


def test_refused_targets_and_levels_are_named():
    X, y = mixed(30)
    model = DensityRegressor(CUTSET, regressors=None)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(X, np.where(y > y.mean(), np.inf, y))
    model.fit(X, y)
    with pytest.raises(ValueError, match="strictly between 0 and 1, got 1.0$"):
        model.predict_quantiles(X, [0.5, 1.0])
    with pytest.raises(ValueError, match="30 rows in X and 29"):
        model.score_samples(X, y[1:])


@pytest.mark.parametrize("kind", ["counts", "stars", "yes or no"])
def test_densities_of_integer_targets_sum_to_one_and_draws_have_their_means(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = {
        "counts": rng.poisson(np.exp(0.5 + 0.6 * X[:, 0])),
        "stars": np.clip(np.round(3.0 + X[:, 0]), 1, 5),
        "yes or no": X[:, 0] > 0.3 * rng.normal(size=300),
    }[kind].astype(float)
    model = clone(POOL).fit(X, y)
    values = np.arange(-30.0, 60.0)
    for row in X[:3]:
        density = np.exp(model.score_samples(np.tile(row, (90, 1)), values))
        assert density.sum() == pytest.approx(1.0, abs=1e-3)
    mean, sd = model.predict(X, return_std=True)
    drawn = model.sample(X, 1000, random_state=0)
    assert drawn.min() >= y.min()
    assert_allclose(drawn.mean(axis=1), mean, atol=4.0 * (sd.max() / 1000**0.5))
    assert len(np.unique(drawn)) <= 5 or kind == "counts"


def test_errors_name_the_member_and_say_what_it_needs():
    X, y = mixed(60)
    with pytest.raises(ValueError, match="NaN") as refusal:
        DensityRegressor(CUTSET, regressors=[("line", LinearRegression())]).fit(X, y)
    assert "'line'. Members learn from encoded rows, and must take" in refusal.value.__notes__[0]
    with pytest.raises(
        ValueError, match=r"levels must be one number or a list of them; found shape \(1, 1\)"
    ):
        clone(REGRESSORS["one density"]).fit(X, y).predict_quantiles(X, [[0.5]])


@pytest.mark.parametrize("regressors", [None, [("fast", FAST)]])
def test_a_stack_whose_members_have_several_forms_is_a_density_like_others(regressors):
    X, y = zero_inflated()
    stack = StackedDensity([("bins", CUTSET), ("scores", SOFT)], cv=2, random_state=0)
    model = DensityRegressor(stack, regressors=regressors, cv=2, random_state=0).fit(X, y)
    model.densities_["density"].weights_ = np.array([0.4, 0.6])
    row = np.array([[1.0, 0.0]])
    grid = np.geomspace(1e-6, 200.0, 10_001)
    grid = np.concatenate([-grid[::-1], grid])
    of_zero = model.score_samples(row, [0.0])
    log_density = model.score_samples(np.repeat(row, len(grid), axis=0), grid)
    total, mean, sd, _ = facts_of(log_density, grid, [0.0], of_zero)
    assert total == pytest.approx(1.0, abs=3e-3)
    found = model.predict(row, return_std=True)
    assert_allclose(np.ravel(found), [mean, sd], rtol=2e-2)


def test_no_prediction_of_a_target_that_never_is_negative_is_negative():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = np.maximum(np.rint(4.0 * X[:, 0] + rng.normal(size=200) - 2.0), 0.0) * 40.0
    model = DensityRegressor(SOFT, regressors=[("fast", FAST)], random_state=0)
    model.fit(X, y)
    asked = np.array([[-6.0], [-2.0], [0.0], [3.0]])
    assert (model.predict(asked) >= 0.0).all()
    assert (model.predict_quantiles(asked, [0.01, 0.5]) >= 0.0).all()
    assert (model.sample(asked, 50, random_state=0) >= 0.0).all()


def test_a_value_beyond_an_end_that_values_crowd_counts_as_the_outermost_one():
    rng = np.random.default_rng(0)
    # A uniform column: its values crowd both ends.
    x = rng.uniform(size=(400, 2))
    y = 3.0 * x[:, 0] + x[:, 1] + 0.3 * rng.normal(size=400)
    model = DensityRegressor(TableMixture(random_state=0), random_state=0).fit(x, y)
    beyond = np.array([[-0.4, 0.5], [1.4, 0.5]])
    # Those of zero and one; a score far out would say 2.0 and 2.3.
    assert_allclose(model.predict(beyond), [0.5, 3.5], atol=0.5)
