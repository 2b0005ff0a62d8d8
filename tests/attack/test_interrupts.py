"""Ctrl-C at random moments of a fit: estimators stay as they were, and learn again."""

import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import clone

from tests.attack.models import EVERY_FIT, answers, assert_equal, learn, table
from tests.estimators.test_interrupt import state

pytestmark = [
    pytest.mark.attack,
    # Python drops what is raised while it deletes an object, and says so.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
N_MOMENTS = 15


@contextmanager
def interrupted_after(seconds: float):
    """Press Ctrl-C after some time, wherever the work is then."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", EVERY_FIT)
def test_a_fit_that_is_interrupted_at_a_random_moment_changes_nothing(name):
    X, other = table(100, 0), table(150, 1)
    fitted = learn(clone(EVERY_FIT[name]), X)
    expected, before = answers(fitted, X), state(fitted)
    start = time.perf_counter()
    learned = answers(learn(clone(EVERY_FIT[name]), other), X)
    whole = time.perf_counter() - start
    n_interrupted = 0
    for seconds in np.random.default_rng(0).uniform(0.0, whole, N_MOMENTS):
        try:
            with interrupted_after(max(seconds, 1e-6)):
                learn(fitted, other)
        except KeyboardInterrupt:
            n_interrupted += 1
        if state(fitted) == before:
            assert_equal(answers(fitted, X), expected)
        else:
            # The fit was over before.
            assert_equal(answers(fitted, X), learned)
            fitted = learn(clone(EVERY_FIT[name]), X)
            before = state(fitted)
    assert n_interrupted > 0
    assert_equal(answers(learn(fitted, other), X), learned)
