"""Many threads that ask one fitted estimator get the answers that one thread gets."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from tests.attack.models import EVERY_FIT, answers, assert_equal, learn, table

pytestmark = pytest.mark.attack
N_THREADS, N_TIMES = 8, 40


@pytest.mark.parametrize("name", EVERY_FIT)
def test_threads_that_ask_one_estimator_get_equal_answers(name):
    X = table(150, 0)
    fitted = learn(clone(EVERY_FIT[name]), X)
    tables = [table(100 + 10 * k, k) for k in range(5)]
    expected = [answers(fitted, rows) for rows in tables]

    def ask(number: int) -> list[np.ndarray]:
        return answers(fitted, tables[number % len(tables)])

    with ThreadPoolExecutor(N_THREADS) as pool:
        for number, found in enumerate(pool.map(ask, range(N_TIMES))):
            assert_equal(found, expected[number % len(tables)])


@pytest.mark.parametrize("name", EVERY_FIT)
def test_threads_that_learn_side_by_side_learn_the_same(name):
    X = table(120, 0)
    expected = answers(learn(clone(EVERY_FIT[name]), X), X)
    with ThreadPoolExecutor(4) as pool:
        for fitted in pool.map(lambda _: learn(clone(EVERY_FIT[name]), X), range(4)):
            assert_equal(answers(fitted, X), expected)
