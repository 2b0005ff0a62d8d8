"""Parameters of members go by ``name__parameter``, as in scikit-learn's compositions."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skpc import CutsetNetworkBD, DensityClassifier, DensityRegressor, StackedDensity


def members():
    return [("c", CutsetNetworkBD(ess=0.5)), ("d", CutsetNetworkBD(max_depth=0))]


def compositions():
    return {
        "classifier": DensityClassifier(members(), classifiers=None, cv=2, random_state=0),
        "regressor": DensityRegressor(members(), regressors=None, cv=2, random_state=0),
        "stack": StackedDensity(members(), cv=2, random_state=0),
    }


def table():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (120, 3)).astype(float)
    return X, X[:, 0] * 2 + X[:, 1]


each = pytest.mark.parametrize("kind", compositions())


@each
def test_parameters_of_members_are_those_that_scikit_learn_gives_its_compositions(kind):
    model = compositions()[kind]
    deep, of_voting = model.get_params(), VotingClassifier(members()).get_params()
    shallow = set(model.get_params(deep=False))
    assert set(deep) - shallow == {"c", "d"} | {key for key in of_voting if "__" in key}
    assert deep["c"].ess == deep["c__ess"] == 0.5
    assert shallow.isdisjoint({"c", "d", "c__ess"})


@each
def test_parameters_of_members_are_set_in_the_list_and_a_name_replaces_its_member(kind):
    model = compositions()[kind]
    attribute = "estimators" if kind == "stack" else "density"
    before = getattr(model, attribute)
    other = CutsetNetworkBD(max_depth=1)
    assert model.set_params(c__ess=3.0, d=other, d__ess=4.0, cv=3) is model
    (_, c), (name, d) = getattr(model, attribute)
    assert (c.ess, name, d, d.ess, model.cv) == (3.0, "d", other, 4.0, 3)
    assert before[1][1] is not other
    given = getattr(model, attribute)
    assert getattr(model.set_params(cv=4, **{attribute: given}), attribute) is given
    model.set_params(**{attribute: [("e", other)], "e__ess": 5.0})
    assert model.get_params()["e__ess"] == other.ess == 5.0
    with pytest.raises(ValueError, match="Invalid parameter 'c'"):
        model.set_params(c__ess=1.0)
    copy = clone(model)
    assert copy.get_params()["e"] is not other
    assert copy.get_params()["e__ess"] == 5.0


@each
def test_a_grid_goes_over_parameters_of_members(kind):
    X, y = table()
    search = GridSearchCV(compositions()[kind], {"c__max_depth": [1, 2]}, cv=2)
    search.fit(X[:60], y[:60])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_params_["c__max_depth"]
    assert search.best_estimator_.get_params()["c__max_depth"] == best


@pytest.mark.parametrize(
    ("model", "tree"),
    [
        (DensityClassifier(classifiers=["logistic", ("tree", DecisionTreeClassifier())]), "tree"),
        (DensityRegressor(regressors=[("tree", DecisionTreeRegressor()), "ridge"]), "tree"),
    ],
)
def test_members_beside_known_names_have_parameters_too(model, tree):
    model = clone(model).set_params(tree__max_depth=2)
    assert model.get_params()[tree].max_depth == 2
    others = model.classifiers if isinstance(model, DensityClassifier) else model.regressors
    assert [entry for entry in others if isinstance(entry, str)] in (["logistic"], ["ridge"])
    new = DecisionTreeClassifier(max_depth=7)
    assert model.set_params(tree=new).get_params()["tree__max_depth"] == 7


@pytest.mark.parametrize("model", [DensityClassifier(), DensityRegressor(), StackedDensity()])
def test_defaults_and_single_densities_have_the_parameters_that_they_had(model):
    shallow = set(model.get_params(deep=False))
    assert set(model.get_params()) == shallow
    if not isinstance(model, StackedDensity):
        single = clone(model).set_params(density=CutsetNetworkBD())
        assert single.set_params(density__ess=2.0).density.ess == 2.0
        assert "density__ess" in single.get_params()


@each
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["c", "c"], r"The names of \w+ must differ; got \['c', 'c'\]"),
        (["c", "c__d"], r"must not contain __: got \['c__d'\]"),
        (["c", "cv"], r"conflict with constructor arguments: \['cv'\]"),
    ],
)
def test_names_that_are_not_clear_are_refused(kind, names, message):
    X, y = table()
    model, given = compositions()[kind], list(zip(names, (CutsetNetworkBD(), CutsetNetworkBD())))
    model.set_params(**{"estimators" if kind == "stack" else "density": given})
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_a_name_that_repeats_is_refused_where_a_single_class_needs_no_pool():
    X, _ = table()
    model = DensityClassifier([("a", CutsetNetworkBD()), ("a", CutsetNetworkBD())])
    with pytest.raises(ValueError, match="The names of density must differ"):
        model.fit(X, np.zeros(len(X)))
