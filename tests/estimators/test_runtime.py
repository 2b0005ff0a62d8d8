"""What a fit asks of the machine: threads in forked children, memory, and patience."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_info, threadpool_limits

from skpc import (
    CutsetNetworkBD,
    DensityClassifier,
    ExpectedKernelSVR,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    SoftLearnSPN,
    TableMixture,
)
from skpc.estimators import moat
from tests.attack.models import run

RNG = np.random.default_rng(0)


def test_a_forked_child_learns_after_its_parent_has_used_threads():
    name = "mixture of networks"
    assert run("test_forks", name, timeout=150.0, OMP_NUM_THREADS="2") == f"{name}: 0\n"


def test_members_of_pools_have_one_thread():
    found = []

    class Spy(HistGradientBoostingClassifier):
        def fit(self, X, y, sample_weight=None):
            found.extend(pool["num_threads"] for pool in threadpool_info())
            return super().fit(X, y, sample_weight)

    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0] > 0.0
    density = TableMixture(n_components=1, random_state=0)
    with threadpool_limits(2):
        DensityClassifier(density, classifiers=[("spy", Spy(max_iter=2))]).fit(X, y)
    assert set(found) == {1}


HUNGRY = {
    "all trees": (
        MixtureOfAllTrees(),
        RNG.integers(0, 2, (10, 300)),
        "300 columns with 600 states",
    ),
    "structured": (CutsetNetworkBD(structured=True), RNG.integers(0, 2, (10, 300)), "300 columns"),
    "soft": (SoftLearnSPN(n_refine=0), RNG.integers(0, 2, (10, 300)), "pairs of 300 columns"),
    "network": (CutsetNetworkBD(), RNG.integers(0, 2, (10, 300)), "pairs of 300 columns"),
    "hidden": (HiddenChowLiuTree(), RNG.integers(0, 2, (10, 300)), "pairs of 300 columns"),
    "blocks": (SoftLearnSPN(), RNG.normal(size=(10, 300)), "Covariances of 300 columns"),
    "mixture": (TableMixture(), RNG.normal(size=(10, 300)), "Covariances of 300 columns"),
    "kernels": (
        ExpectedKernelSVR(),
        np.where(RNG.random((600, 3)) < 0.2, np.nan, RNG.normal(size=(600, 3))),
        "Expected kernels between [0-9]+ rows",
    ),
}


@pytest.mark.parametrize("name", HUNGRY)
def test_what_does_not_fit_the_memory_is_refused_before_the_work_begins(name, monkeypatch):
    estimator, X, what = HUNGRY[name]
    # A machine of one MiB.
    monkeypatch.setattr("skpc._arrays.os.sysconf", lambda name: 1024)
    new = clone(estimator)
    with pytest.raises(MemoryError, match=rf"{what}.* take about .*GiB.*[Cc]hoose fewer"):
        new.fit(X, np.arange(len(X)) * 1.0)
    assert not hasattr(new, "n_features_in_")


def test_memory_is_not_asked_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.delattr("skpc._arrays.os.sysconf")
    MixtureOfAllTrees(max_iter=1).fit(RNG.integers(0, 2, (20, 3)))


@pytest.mark.parametrize(
    "estimator",
    [
        MixtureOfAllTrees(max_iter=1),
        TableMixture(n_components=1),
        SoftLearnSPN(),
        CutsetNetworkBD(),
    ],
)
def test_verbose_speaks_before_the_columns_are_looked_at(estimator, monkeypatch, capsys):
    def stop(*args, **kwargs):
        raise InterruptedError

    monkeypatch.setattr("skpc.estimators._learner.Domain.fit", stop)
    with pytest.raises(InterruptedError):
        clone(estimator).set_params(verbose=1).fit(RNG.normal(size=(30, 2)))
    assert capsys.readouterr().out == f"{type(estimator).__name__}: 30 rows of 2 columns\n"
    with pytest.raises(InterruptedError):
        clone(estimator).fit(RNG.normal(size=(30, 2)))
    assert capsys.readouterr().out == ""


def test_a_mixture_of_all_trees_says_first_what_it_takes(monkeypatch, capsys):
    X = RNG.integers(0, 2, (30, 4))
    MixtureOfAllTrees(max_iter=2, verbose=1).fit(X)
    assert "2 epochs of 4 columns with 8 states in all may take 0.1 GiB" in capsys.readouterr().out
    monkeypatch.setattr(moat, "_LONG", 0.0)
    with pytest.warns(RuntimeWarning, match="may take .* minutes .* Choose fewer of them"):
        MixtureOfAllTrees(max_iter=2).fit(X)
