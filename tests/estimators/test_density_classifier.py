"""DensityClassifier: Bayes' rule with densities of skpc."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris, load_wine
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, cross_val_score

from skpc import CutsetNetworkBD, DensityClassifier, MixtureOfAllTrees, SoftLearnSPN
from tests.naive.classifier import class_probabilities

CUTSET = CutsetNetworkBD(random_state=0)
SOFT = SoftLearnSPN(random_state=0)
CLASSIFIERS = [
    DensityClassifier(SOFT, joint=False, classifiers=None),
    DensityClassifier(CUTSET, joint=False, classifiers=None),
    DensityClassifier(SOFT, joint=True, classifiers=None),
    DensityClassifier(CUTSET, joint=True, classifiers=None),
    DensityClassifier(
        CutsetNetworkBD(param_ess=1.0, random_state=0),
        classifiers=["logistic"],
        cv=2,
        random_state=0,
    ),
]
every_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)
per_class = pytest.mark.parametrize("classifier", CLASSIFIERS[:2], ids=repr)
joint_density = pytest.mark.parametrize("classifier", CLASSIFIERS[2:4], ids=repr)


def mixed(n_rows: int = 150, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of strings and numbers, and classes that depend on both."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    table = pd.DataFrame(
        {
            "name": np.array(["a", "b", "c"])[np.where(rng.random(n_rows) < 0.8, kind, 0)],
            "size": 2.0 * kind + rng.normal(size=n_rows),
            "other": rng.normal(size=n_rows),
        }
    )
    return table, np.array(["low", "mid", "top"])[kind]


def with_missing_cells(table: pd.DataFrame, proportion: float = 0.4, seed: int = 1) -> pd.DataFrame:
    return table.mask(np.random.default_rng(seed).random(table.shape) < proportion)


def encoded_score(model: DensityClassifier, rows: pd.DataFrame) -> np.ndarray:
    """Log densities of rows whose names are known to be among those seen."""
    is_named = rows["name"].notna().to_numpy()
    return model.score_samples(rows) - is_named * np.log1p(-model.domain_[0].unseen)


@per_class
def test_probabilities_are_those_of_bayes_rule(classifier):
    X, y = mixed()
    model = clone(classifier).fit(with_missing_cells(X), y)
    rows = with_missing_cells(X, seed=2)
    log_density = np.column_stack([d.score_samples(rows) for d in model.densities_["density"]])
    expected = class_probabilities(log_density, model.class_prior_, model.class_count_)
    assert_allclose(model.predict_proba(rows), expected, rtol=1e-9)
    assert_array_equal(model.predict(rows), model.classes_[expected.argmax(axis=1)])


@joint_density
def test_joint_probabilities_are_posterior_marginals_of_the_class(classifier):
    X, y = mixed()
    model = clone(classifier).fit(X, y)
    rows = with_missing_cells(X)
    encoded = np.column_stack([model.domain_.encode(rows), np.full(len(X), np.nan)])
    joint = model.densities_["density joint"][0]
    assert_allclose(
        model.predict_proba(rows), joint.marginals(encoded)[-1].probabilities, rtol=1e-9
    )
    assert_allclose(encoded_score(model, rows), joint.score_samples(encoded), rtol=1e-9, atol=1e-9)


def test_the_class_of_incomplete_rows_is_asked_for_once_and_the_density_is_that_of_the_rows():
    X, y = mixed()
    density = MixtureOfAllTrees(max_iter=5, n_inference_samples=50, random_state=0)
    model = DensityClassifier(density, joint=True, classifiers=None).fit(X, y)
    rows = with_missing_cells(X)
    encoded = np.column_stack([model.domain_.encode(rows), np.full(len(X), np.nan)])
    joint = model.densities_["density joint"][0]
    assert_allclose(
        model.predict_proba(rows), joint.marginals(encoded)[-1].probabilities, rtol=1e-9
    )
    assert_allclose(encoded_score(model, rows), joint.score_samples(encoded), rtol=1e-9, atol=1e-9)


@joint_density
def test_joint_densities_of_classes_are_those_of_the_labelled_rows(classifier):
    X, y = mixed()
    model = clone(classifier).fit(X, y)
    rows = model.domain_.encode(with_missing_cells(X))
    labelled = [
        model.densities_["density joint"][0].score_samples(
            np.column_stack([rows, np.full(len(X), c)])
        )
        for c in range(3)
    ]
    incomplete = with_missing_cells(X)
    found = model.predict_log_proba(incomplete) + encoded_score(model, incomplete)[:, np.newaxis]
    assert_allclose(found, np.column_stack(labelled), rtol=0.0, atol=1e-10)


@every_classifier
def test_priors_change_the_odds_by_their_ratio(classifier):
    X, y = mixed()
    priors = np.array([0.5, 0.3, 0.2])
    usual = clone(classifier).fit(X, y)
    other = clone(classifier).set_params(priors=priors).fit(X, y)
    assert_allclose(other.class_prior_, priors)
    nothing = [[None, np.nan, np.nan]]
    assert_allclose(other.predict_proba(pd.DataFrame(nothing, columns=X.columns)), [priors])
    if not classifier.joint:
        return
    odds = usual.predict_proba(X) / usual.class_prior_ * priors
    assert_allclose(other.predict_proba(X), odds / odds.sum(axis=1, keepdims=True), rtol=1e-9)


@pytest.mark.parametrize("priors", [[0.5, 0.5], [0.5, 0.6, 0.2], [1.5, -0.5, 0.0]])
def test_priors_that_are_none_are_refused(priors):
    X, y = mixed()
    with pytest.raises(ValueError, match="priors"):
        DensityClassifier(priors=priors).fit(X, y)


@every_classifier
def test_a_class_of_prior_zero_is_never_predicted(classifier):
    X, y = mixed()
    model = clone(classifier).set_params(priors=[0.5, 0.5, 0.0]).fit(X, y)
    assert_array_equal(model.predict_proba(X)[:, 2], 0.0)
    assert set(model.sample(50, random_state=0)[1]) == {"low", "mid"}


@every_classifier
def test_flowers_are_told_apart_and_from_half_of_their_measures_too(classifier):
    X, y = load_iris(return_X_y=True)
    assert cross_val_score(clone(classifier), X, y).mean() > 0.9
    X[np.random.default_rng(0).random(X.shape) < 0.5] = np.nan
    assert cross_val_score(clone(classifier), X, y, cv=2).mean() > 0.75


@every_classifier
def test_score_samples_sums_the_density_over_the_classes_and_finds_outliers(classifier):
    X, y = mixed(400)
    model = clone(classifier).fit(X, y)
    grid = pd.DataFrame({"name": None, "size": np.linspace(-20, 25, 40_001), "other": np.nan})
    step = 45 / 40_000
    assert np.exp(model.score_samples(grid)).sum() * step == pytest.approx(1.0, abs=1e-3)
    odd = pd.DataFrame({"name": ["a"], "size": [25.0], "other": [0.0]})
    assert model.score_samples(odd)[0] < model.score_samples(X).min()


@every_classifier
def test_samples_look_like_the_training_rows(classifier):
    X, y = mixed(400)
    model = clone(classifier).fit(X, y)
    drawn, labels = model.sample(2000, random_state=0)
    assert list(drawn.columns) == list(X.columns)
    assert drawn.dtypes.equals(X.dtypes)
    for label in model.classes_:
        of_model, of_data = drawn["size"][labels == label], X["size"][y == label]
        assert of_model.mean() == pytest.approx(of_data.mean(), abs=0.35)
        assert (labels == label).mean() == pytest.approx((y == label).mean(), abs=0.05)
    again = model.sample(2000, random_state=0)
    assert drawn.equals(again[0])
    assert_array_equal(labels, again[1])
    assert not drawn.equals(model.sample(2000, random_state=1)[0])


@every_classifier
def test_any_number_of_samples_from_none_on(classifier):
    X, y = load_wine(return_X_y=True)
    model = clone(classifier).fit(X, y)
    assert [part.shape for part in model.sample()] == [(1, 13), (1,)]
    assert [part.shape for part in model.sample(0)] == [(0, 13), (0,)]
    with pytest.raises(ValueError, match="n_samples .* got -1"):
        model.sample(-1)


@every_classifier
def test_a_column_without_a_value_in_one_class_is_learned_from_the_others(classifier):
    X, y = mixed()
    X.loc[y == "mid", ["name", "size"]] = None
    model = clone(classifier).fit(X, y)
    assert np.all(np.isfinite(model.predict_log_proba(X)))
    assert np.mean(model.predict(X) == y) > 0.4


@per_class
def test_a_column_without_a_value_in_one_class_counts_as_one_row_of_all(classifier):
    X, y = mixed()
    X.loc[y == "mid", "size"] = None
    model = clone(classifier).fit(X, y)
    mid = model.densities_["density"][1]
    draws = mid.sample(4000, random_state=0)["size"]
    assert draws.mean() == pytest.approx(X["size"].mean(), abs=0.4)
    assert draws.std() == pytest.approx(X["size"].std(), rel=0.3)


@every_classifier
def test_a_class_of_one_row_and_constant_columns_are_fine(classifier):
    X, y = mixed()
    y = y.astype(object)
    y[7] = "alone"
    X["same"] = 3.5
    X.loc[y == "top", "other"] = 1e-3
    model = clone(classifier).fit(X, y)
    assert np.all(np.isfinite(model.predict_log_proba(X)))
    far = pd.DataFrame({"name": ["a"], "size": [1e200], "other": [-1e200], "same": [0.0]})
    assert model.predict_proba(far).sum() == pytest.approx(1.0)


@every_classifier
def test_a_single_class_is_predicted_always(classifier):
    X, _ = mixed(30)
    model = clone(classifier).fit(X, np.full(30, "only"))
    assert set(model.predict(with_missing_cells(X))) == {"only"}
    assert_allclose(model.predict_proba(X), 1.0)


@pytest.mark.filterwarnings("ignore:Found categories that fit has not seen")
@every_classifier
def test_weight_two_is_the_row_twice_and_weight_zero_its_absence(classifier):
    X, y = mixed(90)
    X = with_missing_cells(X, 0.1)
    weight = np.random.default_rng(0).integers(0, 4, 90)
    weight[y == "top"] = 0
    a = clone(classifier).fit(X, y, sample_weight=weight)
    twice = np.repeat(np.arange(90), weight)
    b = clone(classifier).fit(X.iloc[twice].reset_index(drop=True), y[twice])
    assert a.classes_.tolist() == ["low", "mid"]
    assert_allclose(a.predict_log_proba(X), b.predict_log_proba(X), atol=1e-9)
    assert_allclose(a.score_samples(X), b.score_samples(X), atol=1e-9)


@every_classifier
def test_states_are_those_of_all_classes_together(classifier):
    X, y = mixed()
    X.loc[y == "low", "name"] = "a"
    model = clone(classifier).fit(X, y)
    n_states = [density.domain_.n_states[0] for one in model.densities_.values() for density in one]
    assert set(n_states) == {3}
    assert np.all(np.isfinite(model.predict_log_proba(X.assign(name="c"))))


@pytest.mark.filterwarnings("ignore:Found categories that fit has not seen")
@every_classifier
def test_unknown_categories_are_missing_or_refused(classifier):
    X, y = mixed()
    model = clone(classifier).fit(X, y)
    hidden = X.assign(name=None)
    assert_allclose(model.predict_proba(X.assign(name="zzz")), model.predict_proba(hidden))
    density = clone(classifier.density or SoftLearnSPN()).set_params(handle_unknown="error")
    strict = clone(classifier).set_params(density=density).fit(X, y)
    with pytest.raises(ValueError, match="zzz"):
        strict.predict(X.assign(name="zzz"))


@every_classifier
def test_pandas_and_polars_give_the_same_probabilities(classifier):
    X, y = mixed()
    a = clone(classifier).fit(X, y)
    columns = {name: X[name].tolist() for name in X}
    b = clone(classifier).fit(pl.DataFrame(columns), y)
    assert_allclose(a.predict_proba(X), b.predict_proba(pl.DataFrame(columns)), rtol=1e-12)
    assert isinstance(b.sample()[0], pl.DataFrame)
    assert a.feature_names_in_.tolist() == ["name", "size", "other"]
    with pytest.raises(ValueError, match="feature names"):
        a.predict(X[["size", "name", "other"]])


@every_classifier
def test_columns_can_be_declared_through_the_density(classifier):
    X, y = load_iris(return_X_y=True)
    rounded = np.column_stack([np.rint(X[:, 0]), X[:, 1]])
    density = clone(classifier.density or SoftLearnSPN(random_state=0))
    for declared, n_states in (([0], 5), (None, 0)):
        density.set_params(categorical_features=declared)
        model = clone(classifier).set_params(density=density).fit(rounded, y)
        assert model.domain_.is_categorical.tolist() == [n_states > 0, False]


@every_classifier
def test_pickles_predict_alike(classifier):
    X, y = mixed()
    model = clone(classifier).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_grid_search_reaches_the_density():
    X, y = load_iris(return_X_y=True)
    grid = {"density__n_bins": [2, 8], "joint": [False, True]}
    search = GridSearchCV(
        DensityClassifier(CUTSET, joint=True, classifiers=None), grid, scoring="neg_log_loss", cv=3
    ).fit(X, y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert is_classifier(search)


@every_classifier
def test_a_failed_fit_leaves_the_classifier_as_it_was(classifier):
    X, y = load_iris(return_X_y=True)
    model = clone(classifier).fit(X, y)
    before = model.predict_proba(X)
    wider = np.column_stack([X, np.full(150, 1e200)])
    with pytest.raises(ValueError, match="column 4"):
        model.fit(wider, y)
    assert_array_equal(model.predict_proba(X), before)
    new = clone(classifier)
    with pytest.raises(ValueError, match="column 4"):
        new.fit(wider, y)
    assert not hasattr(new, "classes_")


def test_densities_of_other_packages_are_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match=r"DensityClassifier needs .* GaussianMixture\(\) has no"):
        DensityClassifier(GaussianMixture()).fit(X, y)


@pytest.mark.parametrize("joint", [False, True])
def test_mixtures_of_all_trees_classify_too(joint):
    X, y = load_iris(return_X_y=True)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    density = MixtureOfAllTrees(max_iter=10, random_state=0)
    model = DensityClassifier(density, joint=joint, classifiers=None).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.sample(5, random_state=0)[0].shape == (5, 4)


def test_an_error_of_a_density_names_the_class_and_its_rows():
    X = np.random.default_rng(0).integers(0, 2, (40, 3))
    y = np.where(np.arange(40) < 2, "rare", "common")
    model = DensityClassifier(CutsetNetworkBD(n_components=3, random_state=0))
    with pytest.raises(ValueError, match="n_components=3 must not exceed") as refusal:
        model.fit(X, y)
    assert "class 'rare', which has rows of total weight 2" in refusal.value.__notes__[0]
    assert not hasattr(model, "classes_")


@pytest.mark.filterwarnings("error")
def test_columns_that_are_empty_in_some_folds_are_fine():
    rng = np.random.default_rng(0)
    n_rows = 60
    label = rng.integers(0, 2, n_rows)
    table = pd.DataFrame({"x": label + rng.normal(size=n_rows), "date": None, "dose": np.nan})
    table["date"] = table["date"].astype(object)
    # Two cells each: most folds leave one of them, some none.
    table.loc[[3, 4], "date"] = ["may", "june"]
    table.loc[[3, 4], "dose"] = [0.5, 1.5]
    model = DensityClassifier(random_state=0).fit(table, label)
    assert np.isfinite(model.predict_proba(table)).all()
