"""Tests with p-values, rules, reports, ranges and the like, asked by many threads at once."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skpc import CellErrorDetector, CutsetNetworkBD, ExpectedPredictor, MultipleImputer
from skpc.comparisons import (
    DriftMonitor,
    goodness_of_fit_test,
    independence_test,
    two_sample_test,
)
from skpc.synthesis import find_rules, table_report
from tests.attack.models import table
from tests.estimators.test_interrupt import interrupt, moments_of, state

pytestmark = pytest.mark.attack
N_THREADS, N_TIMES = 8, 24
NETWORK = CutsetNetworkBD(random_state=0)
X, OTHER = table(150, 0), table(120, 1)
FITTED = clone(NETWORK).fit(X)
DETECTOR = CellErrorDetector(NETWORK, random_state=0).fit(X)
PREDICTOR = ExpectedPredictor(Ridge(), NETWORK, random_state=0).fit(X, X[:, 1])
IMPUTER = MultipleImputer(NETWORK, n_imputations=2, random_state=0).fit(X)
HOLES = np.where(np.random.default_rng(2).random(OTHER.shape) < 0.3, np.nan, OTHER)
QUESTIONS = {
    "two samples": lambda: two_sample_test(X, OTHER, FITTED, n_permutations=49, random_state=0),
    "goodness": lambda: goodness_of_fit_test(FITTED, OTHER, n_draws=49, random_state=0),
    "independence": lambda: independence_test(X, 0, 1, random_state=0),
    "rules": lambda: find_rules(pd.DataFrame(X.round(), columns=list("abc"))).rules,
    "report": lambda: str(table_report(X, OTHER, random_state=0)),
    "ranges": lambda: FITTED.log_probability({0: {1.0}, 1: (-1.0, 1.0)}),
    "wrong cells": lambda: DETECTOR.predict_proba(HOLES),
    "shapley": lambda: PREDICTOR.shapley_values(HOLES[:20]),
    "imputations": lambda: IMPUTER.impute(HOLES),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_threads_that_ask_at_once_get_the_answer_of_one(name):
    expected = pickle.dumps(QUESTIONS[name]())
    with ThreadPoolExecutor(N_THREADS) as pool:
        for answer in pool.map(lambda _: pickle.dumps(QUESTIONS[name]()), range(N_TIMES)):
            assert answer == expected


def test_a_monitor_that_is_interrupted_stays_as_it_was():
    fitted = DriftMonitor(NETWORK, n_permutations=19, random_state=0).fit(X)
    for work in (lambda monitor: monitor.fit(OTHER), lambda monitor: monitor.test(OTHER)):
        for moment in moments_of(work, fitted):
            stopped = interrupt(work, fitted, moment)
            assert state(stopped).keys() == state(fitted).keys()
            assert stopped.history_ == []
