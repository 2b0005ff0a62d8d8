"""What all estimators have in common: the same parameters, of the same meaning."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import Ridge

import skpc
from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    DensityRegressor,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    ExpectedPredictor,
    GenerativeForest,
    KernelEPOperator,
    LogisticEPClassifier,
    MixtureOfAllTrees,
    StackedDensity,
)

ESTIMATORS = [
    found
    for found in map(vars(skpc).get, skpc.__all__)
    if isinstance(found, type) and issubclass(found, BaseEstimator)
]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.__name__)
#: Its sweeps take less than a second, and chance has no part in them.
QUIET = {LogisticEPClassifier}


@every_estimator
def test_parameters_are_given_by_name_but_for_leading_estimators_or_their_number(estimator):
    _, *parameters = inspect.signature(estimator.__init__).parameters.values()
    if parameters[0].name == "estimator":
        parameters = parameters[1:]
    if parameters[0].name in {"density", "estimators", "n_estimators"}:
        parameters = parameters[1:]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)


@every_estimator
def test_every_estimator_takes_verbose_and_a_random_state(estimator):
    taken = inspect.signature(estimator.__init__).parameters
    for name in ("verbose", "random_state"):
        assert (name in taken) == (estimator not in QUIET)


@every_estimator
def test_draws_say_alike_what_random_state_is(estimator):
    if not hasattr(estimator, "sample"):
        return
    doc = " ".join(estimator.sample.__doc__.split())
    assert "``None`` draws anew at each call; the estimator's own ``random_state`` is not" in doc


@every_estimator
def test_scores_take_weights(estimator):
    if hasattr(estimator, "score"):
        parameters = list(inspect.signature(estimator.score).parameters)
        assert parameters == ["self", "X", "y", "sample_weight"]


TALKATIVE = [
    (CircuitImputer(CutsetNetworkBD()), "CircuitImputer: 60 rows of 2 columns"),
    (CircuitImputer(), "choices"),
    (DensityClassifier(CutsetNetworkBD(), cv=2, classifiers=None), "0/6|6 fits"),
    (DensityRegressor(CutsetNetworkBD(), cv=2, regressors=("ridge",)), "0/6|6 fits"),
    (ExpectedKernelSVC(CutsetNetworkBD(), calibration="temperature"), "0/5|5 folds"),
    (ExpectedKernelSVR(CutsetNetworkBD()), "SVR: 60 distinct rows"),
    (GenerativeForest(4), "0/4|4 trees"),
    (KernelEPOperator(n_inner=10, n_outer=10), "0/60|60 rows"),
    (StackedDensity([("a", CutsetNetworkBD()), ("b", CutsetNetworkBD())], cv=2), "0/6|6 fits"),
]


@pytest.mark.parametrize(("estimator", "shown"), TALKATIVE, ids=lambda x: type(x).__name__)
def test_verbose_tells_what_is_done(estimator, shown, capsys):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(float)
    quiet = clone(estimator).set_params(random_state=0).fit(X, y)
    assert not any(capsys.readouterr())
    loud = clone(quiet).set_params(verbose=1).fit(X, y)
    said = "".join(capsys.readouterr())
    assert any(part in said for part in shown.split("|"))
    if hasattr(quiet, "predict"):
        np.testing.assert_array_equal(loud.predict(X), quiet.predict(X))


@every_estimator
def test_no_thread_at_all_is_refused(estimator):
    if "n_jobs" in inspect.signature(estimator.__init__).parameters:
        model = {"estimator": Ridge()} if estimator is ExpectedPredictor else {}
        with pytest.raises(ValueError, match=r"'n_jobs' .* must be .* Got 0 instead"):
            estimator(n_jobs=0, **model).fit(np.eye(9), np.arange(9) % 2)


def test_warnings_point_to_the_line_that_called_the_package():
    X = np.array([["a", "b"], ["b", "a"]] * 9, dtype=object)
    model = CutsetNetworkBD().fit(X)
    with pytest.warns(UserWarning, match="categories that fit has not seen") as caught:
        model.score([["c", "a"]])
    X = np.column_stack([X, np.full(len(X), None)])
    with pytest.warns(UserWarning, match="no value in the rows of fit") as others:
        CircuitImputer(model).fit(X)
    assert {each.filename for each in [*caught, *others]} == {__file__}


def test_a_lazy_frame_is_refused_where_answers_are_asked_for():
    frame = pl.DataFrame({"a": [0.0, 1.0] * 9})
    model = CutsetNetworkBD().fit(frame)
    for ask in (model.score, model.complete, model.score_samples, model.marginals):
        with pytest.raises(TypeError, match=r"found a polars LazyFrame.*Pass X.collect\(\)"):
            ask(frame.lazy())


def test_cells_that_are_no_table_are_refused_with_the_column_and_the_way_out():
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [0, "one"]})
    with pytest.raises(TypeError, match=r"column 'b' holds both 'one' and 0. Convert one kind"):
        CutsetNetworkBD().fit(frame)
    frame = frame.assign(b=pd.Series([{1}, {2}]))
    with pytest.raises(TypeError, match=r"column 'b' holds \{1\}, a range or a set. Densities"):
        MixtureOfAllTrees().fit(frame)
    frame = frame.assign(b=pd.Series([slice(1), slice(2)]))
    with pytest.raises(TypeError, match=r"of type slice in column 'b'. Turn times"):
        CutsetNetworkBD().fit(frame)
