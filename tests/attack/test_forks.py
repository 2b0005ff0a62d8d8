"""Forked children learn and answer, whatever threads their parent has started."""

import os
import sys
import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans

from skpc import CutsetNetworkBD, DensityClassifier
from tests.attack.models import EVERY_FIT, answers, assert_equal, learn, run, table

pytestmark = pytest.mark.attack
#: A child that takes longer hangs.
SECONDS = 120.0
BOOSTED = DensityClassifier(
    CutsetNetworkBD(random_state=0), classifiers=["boosting"], cv=2, random_state=0
)
MODELS = {**EVERY_FIT, "boosting": BOOSTED}


@pytest.mark.parametrize("group", range(4))
def test_a_forked_child_learns_what_its_parent_learns(group):
    names = list(MODELS)[group::4]
    told = run("test_forks", *names, timeout=600.0, OMP_NUM_THREADS="2")
    assert told.splitlines() == [f"{name}: 0" for name in names]


def status_in_child(name: str, X: np.ndarray, expected: list[np.ndarray]) -> int:
    """How a child ends that learns anew."""
    child = os.fork()
    if child == 0:
        try:
            assert_equal(answers(learn(clone(MODELS[name]), X), X), expected)
        except BaseException:
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.05)
    os.kill(child, 9)
    return os.waitpid(child, 0)[1]


def main(names: list[str]) -> None:
    # Boosting takes all threads of OpenMP in the parent; so does k-means of scikit-learn.
    KMeans(5, n_init=1).fit(np.random.default_rng(0).normal(size=(20_000, 5)))
    X = table(150, 0)
    for name in names:
        expected = answers(learn(clone(MODELS[name]), X), X)
        sys.stdout.write(f"{name}: {status_in_child(name, X, expected)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
