"""Threads change nothing: every learner gives the same circuit on one and on two."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    ExpectedPredictor,
    ExtraCutsets,
    HiddenChowLiuTree,
    HiddenForest,
    KernelEPOperator,
    SoftLearnSPN,
    TableMixture,
)

LEARNERS = [
    CutsetNetworkBD(n_candidates=2, max_depth=2, random_state=0),
    CutsetNetworkBD(n_components=2, max_iter=3, random_state=0),
    SoftLearnSPN(random_state=0),
    SoftLearnSPN(leaves="univariate", n_refine=3, random_state=0),
    TableMixture(n_components=3, random_state=0),
    HiddenChowLiuTree(n_hidden=2, random_state=0),
    HiddenForest(n_estimators=2, n_hidden=2, random_state=0),
    ExtraCutsets(4, random_state=0),
]


@pytest.fixture(autouse=True)
def all_work_pays(monkeypatch):
    """Let threads do the work of small tables too, in many small parts."""
    monkeypatch.setattr("skpc._threads._WORTH_IT", 0.0)
    monkeypatch.setattr("skpc.learning.hidden_tree._PART_ROWS", 50)


def rows(missing, n_rows=150):
    rng = np.random.default_rng(0)
    side = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, 5)) + 2.0 * side[:, np.newaxis]
    X[:, 1] += X[:, 0]
    X[:, 4] = rng.integers(0, 3, n_rows) * side
    X[rng.random(X.shape) < missing] = np.nan
    return X


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_the_circuit_does_not_depend_on_the_number_of_threads(learner, missing):
    X = rows(missing)
    one, two = (clone(learner).set_params(n_jobs=n_jobs).fit(X).circuit_ for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.kind, two.kind)
    np.testing.assert_array_equal(one.log_weight, two.log_weight)
    np.testing.assert_array_equal(one.param, two.param)


def test_machines_imputers_and_operators_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr("skpc.estimators.kernel_ep._FEATURE_ROWS", 30)
    X, incomplete = rows(0.0, 120), rows(0.2, 120)
    y = X[:, 0] + X[:, 1]
    network = CutsetNetworkBD(structured=True, random_state=0)

    def answers(n_jobs):
        machine = ExpectedKernelSVC(network, calibration="sigmoid", random_state=0, n_jobs=n_jobs)
        yield machine.fit(X, y > 0).predict_proba(incomplete)
        yield ExpectedKernelSVR(random_state=0, n_jobs=n_jobs).fit(X, y).predict(incomplete)
        model = GradientBoostingClassifier(n_estimators=3, random_state=0)
        model = ExpectedPredictor(model, network, random_state=0, n_jobs=n_jobs)
        model.fit(rows(0.2, 120), y > 0)
        yield from (model.decision_function(incomplete), model.predict_proba(incomplete))
        imputer = CircuitImputer(network, strategy="sample", random_state=0, n_jobs=n_jobs)
        yield imputer.fit_transform(incomplete)
        yield from KernelEPOperator(random_state=0, n_jobs=n_jobs).fit(X, y).predict(X, True)

    for one, two in zip(answers(1), answers(2), strict=True):
        np.testing.assert_array_equal(one, two)
