"""Expectations of XGBoost and LightGBM models, against enumeration of what these say themselves."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from skpc import CutsetNetworkBD, ExpectedPredictor, MixtureOfAllTrees
from skpc.estimators._trees import catboost_trees
from tests.naive.expected import expectation

xgboost = pytest.importorskip("xgboost", reason="xgboost is optional")
lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is optional")

NETWORK = CutsetNetworkBD(random_state=0)
X_OPTIONS = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1, "enable_categorical": True}
L_OPTIONS = {"n_estimators": 6, "num_leaves": 6, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
L_OPTIONS |= {"min_data_per_group": 1, "cat_smooth": 1.0}
FOREST = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}
REGRESSORS = {
    "xgboost": xgboost.XGBRegressor(**X_OPTIONS, max_cat_to_onehot=1),
    "xgboost forest": xgboost.XGBRFRegressor(**X_OPTIONS),
    "xgboost dart": xgboost.XGBRegressor(**X_OPTIONS, booster="dart", rate_drop=0.5),
    "xgboost squared log": xgboost.XGBRegressor(**X_OPTIONS, objective="reg:pseudohubererror"),
    "lightgbm": lightgbm.LGBMRegressor(**L_OPTIONS),
    "lightgbm forest": lightgbm.LGBMRegressor(**L_OPTIONS, **FOREST),
    "lightgbm dart": lightgbm.LGBMRegressor(**L_OPTIONS | {"boosting_type": "dart"}),
    "lightgbm zeros": lightgbm.LGBMRegressor(**L_OPTIONS, zero_as_missing=True),
}
CLASSIFIERS = {
    "xgboost": xgboost.XGBClassifier(**X_OPTIONS),
    "xgboost forest": xgboost.XGBRFClassifier(**X_OPTIONS),
    "xgboost dart": xgboost.XGBClassifier(**X_OPTIONS, booster="dart", rate_drop=0.5),
    "xgboost vectors": xgboost.XGBClassifier(**X_OPTIONS, multi_strategy="multi_output_tree"),
    "lightgbm": lightgbm.LGBMClassifier(**L_OPTIONS),
    "lightgbm forest": lightgbm.LGBMClassifier(**L_OPTIONS, **FOREST),
    "lightgbm dart": lightgbm.LGBMClassifier(**L_OPTIONS | {"boosting_type": "dart"}),
}
C_OPTIONS = {"iterations": 6, "depth": 3, "thread_count": 1, "verbose": 0}
C_OPTIONS |= {"allow_writing_files": False}


def categories(seed=0):
    """Categories of strings and of numbers, an ordered state, and a number that depends on them."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(6, size=400)
    other = np.where(rng.random(400) < 0.7, kind % 4, rng.integers(4, size=400))
    state = np.where(rng.random(400) < 0.6, (kind + other) % 3, rng.integers(3, size=400))
    X = pd.DataFrame(
        {
            "kind": pd.Categorical.from_codes(kind, [*"fbadec"]),
            "other": pd.Categorical(np.array([5, 2, 9, 7])[other]),
            "state": state.astype(float),
            "flag": (rng.random(400) < 0.3 + 0.4 * (kind > 2)).astype(float),
        }
    )
    y = np.isin(kind, [1, 4]) * 2.0 + np.isin(other, [0, 3]) + 0.5 * X["state"] * X["flag"]
    return X, (y + 0.1 * rng.normal(size=400)).to_numpy()


def with_holes(X, rate=0.5, seed=1):
    return X.mask(np.random.default_rng(seed).random(X.shape) < rate)


def margin_of(model, X):
    """The margin, by the library itself."""
    if "xgboost" in type(model).__module__:
        return model.predict(X, output_margin=True)
    if "catboost" in type(model).__module__:
        return model.predict(X, prediction_type="RawFormulaVal")
    # The raw score of a forest is the sum of its trees; probabilities are those of the mean.
    is_forest = model.boosting_type == "rf"
    return model.predict(X, raw_score=True) / (model.n_estimators if is_forest else 1)


def enumerated(model, holes, answer):
    """Expected answers over all completions of rows of states."""
    circuit = model.density_.circuit_
    states = [np.arange(n) for n in circuit.n_states]
    every = np.stack(np.meshgrid(*states, indexing="ij"), axis=-1).reshape(-1, len(states))
    said = np.asarray(answer(model.domain_.decode(every.astype(float))), dtype=float)
    look_up = {tuple(row): value for row, value in zip(every.tolist(), said)}
    rows = model.domain_.encode(holes)
    return np.array([expectation(circuit, row, lambda r: look_up[tuple(r)]) for row in rows])


@pytest.mark.parametrize("name", REGRESSORS)
def test_expectations_are_sums_over_all_completions(name):
    X, y = categories()
    booster = REGRESSORS[name].fit(X, y)
    model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(X)
    assert "predict" in model.exact_methods_
    holes = with_holes(X)[:30]
    truth = enumerated(model, holes, booster.predict)
    spread = np.ptp(booster.predict(X))
    np.testing.assert_allclose(model.predict(holes), truth, rtol=0, atol=1e-6 * spread)
    np.testing.assert_array_equal(model.predict(X), booster.predict(X))


@pytest.mark.parametrize(
    ("name", "n_classes"),
    [(name, n) for name in CLASSIFIERS for n in (2, 3) if (name, n) != ("xgboost vectors", 2)],
)
def test_margins_of_classes_are_sums_over_all_completions(name, n_classes):
    X, y = categories()
    if name == "xgboost vectors":
        # Vectors of outputs do not go with categories.
        X = X.assign(**{name: X[name].cat.codes.astype(float) for name in ("kind", "other")})
    label = np.digitize(y, [1.0, 2.0][: n_classes - 1])
    booster = clone(CLASSIFIERS[name]).fit(X, label)
    model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(X)
    assert "decision_function" in model.exact_methods_
    holes = with_holes(X)[:20]
    margin = margin_of(booster, X)
    truth = enumerated(model, holes, lambda rows: margin_of(booster, rows))
    atol = 1e-6 * np.ptp(margin)
    np.testing.assert_allclose(model.decision_function(holes), truth, rtol=0, atol=atol)
    np.testing.assert_array_equal(model.decision_function(X), margin)
    np.testing.assert_array_equal(model.predict_proba(X), booster.predict_proba(X))


def few_trees(library, kind, X, y):
    if library == "xgboost":
        options = X_OPTIONS | {"n_estimators": 2, "max_depth": 2}
        return getattr(xgboost, f"XGB{kind}")(**options).fit(X, y)
    options = L_OPTIONS | {"n_estimators": 2, "num_leaves": 4}
    return getattr(lightgbm, f"LGBM{kind}")(**options).fit(X, y)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_few_trees_have_exact_probabilities_and_spreads(library):
    X, y = categories()
    holes = with_holes(X)[:20]
    for classes in (y > 1, np.digitize(y, [1.0, 2.0])):
        booster = few_trees(library, "Classifier", X, classes.astype(int))
        model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(X)
        assert "predict_proba" in model.exact_methods_
        truth = enumerated(model, holes, booster.predict_proba)
        np.testing.assert_allclose(model.predict_proba(holes), truth, rtol=0, atol=1e-6)
    booster = few_trees(library, "Regressor", X, y)
    model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(X)
    mean, std = model.predict(holes, return_std=True)
    square = enumerated(model, holes, lambda rows: booster.predict(rows).astype(float) ** 2)
    spread = np.ptp(booster.predict(X))
    np.testing.assert_allclose(std**2, square - mean**2, rtol=0, atol=1e-5 * spread**2)
    objective = {"xgboost": "count:poisson", "lightgbm": "poisson"}[library]
    booster = booster.set_params(objective=objective)
    model = ExpectedPredictor(FrozenEstimator(booster.fit(X, np.exp(y / 2))), NETWORK).fit(X)
    assert {"predict", "decision_function"} <= {*model.exact_methods_}
    truth = enumerated(model, holes, booster.predict)
    np.testing.assert_allclose(model.predict(holes), truth, rtol=1e-5)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_bare_booster_is_a_model(library):
    X, y = categories()
    label = np.digitize(y, [1.0, 2.0])
    holes = with_holes(X)[:10]
    for kind, target in (("Regressor", y), ("Classifier", label > 0), ("Classifier", label)):
        whole = few_trees(
            library, kind, X, np.asarray(target, dtype=float if kind[0] == "R" else int)
        )
        bare = whole.get_booster() if library == "xgboost" else whole.booster_
        ours = ExpectedPredictor(bare, NETWORK).fit(X)
        same = ExpectedPredictor(FrozenEstimator(whole), NETWORK).fit(X)
        assert ours.exact_methods_ == same.exact_methods_
        np.testing.assert_allclose(ours.predict(X), same.predict(X))
        np.testing.assert_allclose(ours.predict(holes), same.predict(holes))
        assert hasattr(ours, "predict_proba") == (kind == "Classifier")
        if kind == "Classifier":
            np.testing.assert_allclose(ours.predict_proba(X), same.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_thresholds_are_those_of_the_library_on_a_lattice(library):
    # Cells are the values that XGBoost divides at, and numbers that float32 does not hold.
    rng = np.random.default_rng(0)
    X = rng.integers(12, size=(600, 3)) / 10
    X[:, 1] = np.where(rng.random(600) < 0.6, X[:, 0], X[:, 1])
    y = X[:, 0] + (X[:, 1] > 0.35) * X[:, 2]
    booster = few_trees(library, "Regressor", X, y).set_params(n_estimators=30).fit(X, y)
    model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(X)
    holes = X[:40].copy()
    holes[rng.random(holes.shape) < 0.5] = np.nan
    rows = model.domain_.encode(holes)
    grid = np.array(np.meshgrid(*[np.arange(12) / 10] * 3)).reshape(3, -1).T
    density = np.exp(model.density_.score_samples(grid))
    said = booster.predict(grid)
    expected = []
    for row in rows:
        weight = density * np.all(np.isnan(row) | np.isclose(grid, row), axis=1)
        expected.append(weight @ said / weight.sum())
    atol = 1e-6 * np.ptp(said)
    np.testing.assert_allclose(model.predict(holes), expected, rtol=0, atol=atol)


def test_a_value_that_the_model_takes_for_missing_goes_where_the_model_sends_it():
    X, y = categories()
    X = X[["state", "flag"]].assign(third=np.random.default_rng(2).integers(3, size=400) * 1.0)
    y = y + np.where(X["state"] == 1.0, 3.0, 0.0)
    booster = xgboost.XGBRegressor(**X_OPTIONS, missing=1.0).fit(X, y)
    model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(X)
    assert model.is_exact_
    holes = with_holes(X)[:20]
    truth = enumerated(model, holes, booster.predict)
    np.testing.assert_allclose(model.predict(holes), truth, rtol=0, atol=1e-6 * np.ptp(truth))


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_a_model_that_learned_from_gaps_is_asked_about_whole_rows(name):
    X, y = categories()
    booster = clone(REGRESSORS[name]).fit(with_holes(X, 0.2), y)
    model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(with_holes(X, 0.2))
    assert "predict" in model.exact_methods_
    holes = with_holes(X)[:20]
    truth = enumerated(model, holes, booster.predict)
    np.testing.assert_allclose(model.predict(holes), truth, rtol=0, atol=1e-6 * np.ptp(truth))


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost", "tree", "lines"])
def test_ordered_categories_are_exact(name):
    X, y = categories()
    ordered = X.assign(other=X["other"].cat.as_ordered())
    if name in ("tree", "lines"):
        # These read categories that are numbers.
        ordered = ordered[["other", "state", "flag"]]
        booster = DecisionTreeRegressor(max_depth=4) if name == "tree" else Ridge()
    else:
        ordered["kind"] = ordered["kind"].cat.set_categories([*"caebdf"], ordered=True)
        booster = catboosts(["kind", "other"]) if name == "catboost" else clone(REGRESSORS[name])
    booster.fit(ordered, y)
    model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(ordered)
    assert "predict" in model.exact_methods_
    holes = with_holes(ordered)[:20]
    truth = enumerated(model, holes, booster.predict)
    np.testing.assert_allclose(model.predict(holes), truth, rtol=0, atol=1e-6 * np.ptp(truth))
    np.testing.assert_array_equal(model.predict(ordered), booster.predict(ordered))


def catboosts(categories, kind="Regressor", **options):
    catboost = pytest.importorskip("catboost", reason="catboost is optional")
    options = {"max_ctr_complexity": 1} | C_OPTIONS | options
    return getattr(catboost, f"CatBoost{kind}")(cat_features=categories, **options)


@pytest.mark.parametrize("most", [1, 10], ids=["statistics", "sets"])
@pytest.mark.parametrize("kind", ["Regressor", "Poisson", "2 classes", "3 classes", "strings"])
def test_symmetric_trees_of_catboost_are_exact(kind, most):
    X, y = categories()
    if kind == "strings":
        # Plain strings, and names of columns that are none.
        words = "n" + X["other"].astype(str)
        X = X.assign(kind=X["kind"].astype(object), other=words).to_numpy(object)
        booster = catboosts([0, 1], one_hot_max_size=most)
    elif kind[0].isdigit():
        y = np.digitize(y, [1.0, 2.0][: int(kind[0]) - 1])
        booster = catboosts(["kind", "other"], "Classifier", one_hot_max_size=most)
    else:
        loss = {"loss_function": "Poisson"} if kind == "Poisson" else {}
        y = np.exp(y / 3.0) if kind == "Poisson" else y
        booster = catboosts(["kind", "other"], one_hot_max_size=most, **loss)
    booster.fit(X, y)
    model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(X)
    assert "decision_function" in model.exact_methods_
    holes = with_holes(pd.DataFrame(X))[:20]
    holes = holes if isinstance(X, pd.DataFrame) else holes.to_numpy(object)
    truth = enumerated(model, holes, lambda rows: margin_of(booster, rows))
    atol = 1e-6 * np.ptp(truth)
    np.testing.assert_allclose(model.decision_function(holes), truth, rtol=0, atol=atol)
    np.testing.assert_array_equal(model.predict(X), np.ravel(booster.predict(X)))
    if kind[0].isdigit():
        np.testing.assert_array_equal(model.predict_proba(X), booster.predict_proba(X))
    else:
        truth = enumerated(model, holes, booster.predict)
        assert "predict" in model.exact_methods_
        np.testing.assert_allclose(model.predict(holes), truth, rtol=0, atol=1e-6 * np.ptp(truth))


def test_catboost_divides_numbers_in_single_precision():
    rng = np.random.default_rng(0)
    X = rng.integers(12, size=(600, 3)) / 10
    y = X[:, 0] + (X[:, 1] > 0.35) * X[:, 2]
    booster = catboosts(None, iterations=30, depth=4).fit(X, y)
    model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(X)
    # What is read has the answers of the model on rows that are drawn.
    assert "predict" in model.exact_methods_


def test_splits_of_several_columns_are_refused():
    statistic = {"borders": [0.5], "elements": [{"cat_feature_index": 0}] * 2}
    columns = [{"flat_feature_index": 0}]
    tree = {"splits": [{"split_index": 0, "split_type": "OnlineCtr"}], "leaf_values": [0, 1]}
    saved = {
        "features_info": {"categorical_features": columns, "ctrs": [statistic]},
        "oblivious_trees": [tree],
        "scale_and_bias": [1.0, [0.0]],
    }
    with pytest.raises(ValueError, match="max_ctr_complexity"):
        list(catboost_trees(saved, {}))


def test_trees_of_catboost_that_are_not_symmetric_go_by_draws():
    X, y = categories()
    booster = catboosts(["kind", "other"], grow_policy="Lossguide").fit(X, y)
    with pytest.warns(UserWarning, match=r"catboost .* means over draws"):
        model = ExpectedPredictor(FrozenEstimator(booster), NETWORK, random_state=0).fit(X)
    assert not model.is_exact_
    assert np.isfinite(model.predict(with_holes(X)[:10])).all()


def test_categories_that_the_density_takes_for_numbers_go_by_draws():
    X, y = categories()
    X = X.assign(state=X["state"].astype(int))
    booster = catboosts(["kind", "other", "state"]).fit(X, y)
    with pytest.warns(UserWarning, match="name it in categorical_features, those of the density"):
        assert not ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(X).is_exact_
    network = CutsetNetworkBD(categorical_features=["kind", "other", "state"], random_state=0)
    assert ExpectedPredictor(FrozenEstimator(booster), network).fit(X).is_exact_


@pytest.mark.parametrize("mode", ["few trees", "many trees", "link", "no circuit"])
def test_exact_methods_are_those_that_equal_the_sum_over_all_completions(mode):
    X, y = categories()
    label = (y > 1).astype(int)
    density = MixtureOfAllTrees(random_state=0) if mode == "no circuit" else NETWORK
    if mode == "link":
        options = X_OPTIONS | {"objective": "count:poisson", "n_estimators": 100}
        booster = xgboost.XGBRegressor(**options).fit(X, np.exp(y))
        methods = {"predict": booster.predict}
    else:
        options = X_OPTIONS | {"n_estimators": 2 if mode == "few trees" else 100}
        booster = xgboost.XGBClassifier(**options).fit(X, label)
        methods = {"predict_proba": booster.predict_proba}
    methods["decision_function"] = partial(margin_of, booster)
    model = ExpectedPredictor(FrozenEstimator(booster), density, n_draws=50, random_state=0)
    model.fit(X)
    assert model.is_exact_ == bool(model.exact_methods_) == (mode != "no circuit")
    if mode == "no circuit":
        return
    holes = with_holes(X)[:20]
    for method, answer in methods.items():
        truth = enumerated(model, holes, answer)
        error = np.abs(getattr(model, method)(holes) - truth).max() / np.ptp(truth)
        assert (error < 1e-6) == (method in model.exact_methods_)
    assert len(model.exact_methods_) == (2 if mode == "few trees" else 1)


def test_a_regressor_without_a_link_has_its_margin_exactly():
    X, y = categories()
    holes = with_holes(X)[:10]
    for name in ("xgboost", "lightgbm"):
        booster = clone(REGRESSORS[name]).set_params(n_estimators=60).fit(X, y)
        model = ExpectedPredictor(FrozenEstimator(booster), NETWORK, random_state=0).fit(X)
        # Spreads of draws would differ: only exact means of the margin are those of predict.
        assert model.exact_methods_ == ["predict", "decision_function"]
        np.testing.assert_array_equal(model.decision_function(holes), model.predict(holes))


def test_names_are_compared_as_the_library_keeps_them():
    X, y = categories()
    spaced = X.rename(columns={"kind": "kind of it", "other": "the other"})
    booster = lightgbm.LGBMRegressor(**L_OPTIONS).fit(spaced, y)
    for given in (FrozenEstimator(booster), booster.booster_):
        ours = ExpectedPredictor(given, NETWORK).fit(spaced)
        np.testing.assert_array_equal(ours.predict(spaced), booster.predict(spaced))
    with pytest.raises(ValueError, match="columns named"):
        ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(spaced[spaced.columns[::-1]])


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_complete_rows_have_the_types_that_the_model_knows(name):
    X, y = categories()
    X = X.assign(flag=X["flag"] > 0, size=X["other"].cat.codes.astype(int), state=X["state"] + 0.1)
    booster = catboosts([0, 1, 3, 4]) if name == "catboost" else clone(REGRESSORS[name])
    booster.fit(X, y)
    network = CutsetNetworkBD(categorical_features=[0, 1, 3, 4], random_state=0)
    model = ExpectedPredictor(FrozenEstimator(booster), network, random_state=0).fit(X)
    truth = booster.predict(X)
    # Gaps and files change types: bools become objects, whole numbers floats, categories strings.
    given = X.assign(
        kind=X["kind"].astype(object), other=X["other"].cat.set_categories([9, 7, 5, 2])
    )
    gaps = given[["flag", "state", "size"]].drop(index=3).reindex(X.index)
    given = given.assign(**gaps)
    assert [*given.dtypes.astype(str)] == ["object", "category", "float64", "object", "float64"]
    answer = model.predict(given)
    assert np.isfinite(answer[3])
    complete = np.arange(len(X)) != 3
    np.testing.assert_array_equal(answer[complete], truth[complete])


def test_whole_numbers_among_objects_are_categories_of_catboost():
    X, y = categories()
    X = X.assign(other=X["other"].astype(int).astype(object))
    booster = catboosts(["kind", "other"]).fit(X, y)
    network = CutsetNetworkBD(categorical_features=["kind", "other"], random_state=0)
    model = ExpectedPredictor(FrozenEstimator(booster), network, random_state=0).fit(X)
    assert model.is_exact_
    holes = with_holes(X)[:20]
    truth = enumerated(model, holes, booster.predict)
    np.testing.assert_allclose(model.predict(holes), truth, rtol=0, atol=1e-6 * np.ptp(truth))
    np.testing.assert_array_equal(model.predict(X), booster.predict(X))


def test_untrained_models_say_so():
    catboost = pytest.importorskip("catboost", reason="catboost is optional")
    X = categories()[0][["state", "flag"]]
    for model in (
        catboost.CatBoostRegressor(),
        catboost.CatBoostClassifier(),
        xgboost.Booster(),
        xgboost.XGBClassifier(),
        lightgbm.LGBMRegressor(),
    ):
        with pytest.raises(NotFittedError, match=f"{type(model).__name__} is not trained"):
            ExpectedPredictor(FrozenEstimator(model), NETWORK).fit(X)


def test_early_stopping_leaves_trees_out():
    X, y = categories()
    booster = xgboost.XGBRegressor(**X_OPTIONS | {"n_estimators": 200}, early_stopping_rounds=2)
    booster.fit(X[:300], y[:300], eval_set=[(X[300:], y[300:])], verbose=False)
    assert booster.best_iteration < 199
    model = ExpectedPredictor(FrozenEstimator(booster), NETWORK).fit(X)
    assert model.is_exact_


@pytest.mark.parametrize(
    "booster",
    [
        xgboost.XGBRegressor(n_estimators=5, booster="gblinear"),
        lightgbm.LGBMRegressor(**L_OPTIONS, linear_tree=True),
    ],
    ids=["gblinear", "linear trees"],
)
def test_what_is_no_sum_of_leaves_goes_by_draws_and_says_so(booster):
    X, y = categories()
    X = X[["state", "flag"]].assign(number=np.random.default_rng(0).normal(size=400))
    booster.fit(X, y)
    with pytest.warns(UserWarning, match=r"version .* means over draws"):
        model = ExpectedPredictor(FrozenEstimator(booster), NETWORK, random_state=0).fit(X)
    assert not model.is_exact_
    assert np.isfinite(model.predict(with_holes(X)[:10])).all()


def test_columns_that_tell_the_same_go_by_draws_and_say_so():
    X, y = categories()
    X = X.assign(number=X["kind"].cat.codes * 1.5)
    booster = clone(REGRESSORS["lightgbm"]).fit(X, y)
    with pytest.warns(UserWarning, match="tell the same as another"):
        model = ExpectedPredictor(FrozenEstimator(booster), NETWORK, random_state=0).fit(X)
    assert not model.is_exact_
    assert np.isfinite(model.predict(with_holes(X)[:10])).all()


def test_a_booster_learns_here_too():
    X, y = categories()
    for estimator in (xgboost.XGBRegressor(**X_OPTIONS), lightgbm.LGBMRegressor(**L_OPTIONS)):
        model = ExpectedPredictor(estimator, NETWORK, random_state=0).fit(with_holes(X, 0.1), y)
        assert model.is_exact_
        assert np.isfinite(model.predict(with_holes(X))).all()
