import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from skpc import CutsetNetworkBD
from skpc.comparisons import DriftMonitor, two_sample_test
from skpc.comparisons.monitor import POWERS, SPREAD_SHARE, Capital
from tests.comparisons.test_two_sample import table
from tests.naive import comparisons as naive


def monitor(seed: int, **parameters) -> DriftMonitor:
    density = CutsetNetworkBD(random_state=0)
    return DriftMonitor(density, n_permutations=99, random_state=seed, **parameters)


def test_capital_is_that_of_all_ways_to_change_the_bet():
    pvalues = [0.3, 0.02, 0.7, 0.001]
    capital = Capital.at_start()
    for pvalue in pvalues:
        capital = capital.after(pvalue)
    assert capital.total == pytest.approx(naive.capital(pvalues, POWERS, SPREAD_SHARE))


def test_a_bet_is_fair():
    capital = Capital(np.array([0.2, 0.5, 0.3]))
    # Quantiles of p-values for which the expectation of each bet converges fast.
    levels = (np.arange(2000) + 0.5) / 2000
    p, density = levels**20, 20.0 * levels**19
    mean = np.mean([capital.after(pvalue).total * d for pvalue, d in zip(p, density)])
    assert mean == pytest.approx(capital.total, rel=1e-3)


def test_pvalues_of_a_stream_are_uniform_and_independent():
    pvalues = []
    for seed in range(12):
        watched = monitor(seed).fit(table(200, seed=100 + seed, missing=0.3))
        for k in range(12):
            watched.test(table(30, seed=1000 + 20 * seed + k, missing=0.3))
        pvalues.append([batch["pvalue"] for batch in watched.history_])
    pvalues = np.array(pvalues)
    assert stats.kstest(pvalues.ravel(), "uniform").pvalue > 0.01
    assert abs(np.corrcoef(pvalues[:, 1:].ravel(), pvalues[:, :-1].ravel())[0, 1]) < 0.25


def test_a_change_raises_an_alarm_and_names_the_column():
    watched = monitor(0).fit(table(400, seed=0))
    for k in range(8):
        batch = table(80, seed=10 + k)
        if k >= 3:
            batch["size"] += 2.0
        result = watched.test(batch)
    alarms = [batch["alarm"] for batch in watched.history_]
    assert not any(alarms[:3])
    assert any(alarms)
    first = alarms.index(True)
    assert watched.history_[first]["capital"] >= 20.0
    assert watched.history_[first]["column"] == "size"
    # The capital is 1 again.
    after = Capital.at_start().after(watched.history_[first + 1]["pvalue"])
    assert watched.history_[first + 1]["capital"] == pytest.approx(after.total)
    assert result.columns["statistic"].idxmax() == "size"


def test_a_batch_is_tested_like_two_tables():
    watched = monitor(0).fit(table(400, seed=0))
    batch = table(50, seed=1)
    result = watched.test(batch)
    rng = np.random.RandomState(0)
    kept = table(400, seed=0)[rng.permutation(400) % 2 == 1]
    expected = two_sample_test(kept, batch, watched.density_, n_permutations=99, random_state=0)
    assert result.statistic == pytest.approx(expected.statistic)
    assert result.pvalue == pytest.approx(expected.pvalue, abs=0.2)


def test_a_monitor_is_an_estimator():
    watched = monitor(0, level=0.01)
    assert clone(watched).get_params()["level"] == 0.01
    with pytest.raises(ValueError, match="level"):
        watched.set_params(level=0.0).fit(table(20, seed=0))
    with pytest.raises(Exception, match="not fitted"):
        monitor(0).test(table(20, seed=0))


def test_a_batch_may_be_a_list_and_is_checked():
    rows = np.random.default_rng(1).normal(size=(200, 3))
    watched = monitor(0).fit(rows)
    of_array = watched.test(rows[:20])
    of_list = monitor(0).fit(rows).test(rows[:20].tolist())
    assert of_list.pvalue == of_array.pvalue
    with pytest.raises(ValueError, match="features"):
        watched.test(rows[:, :2])
    with pytest.raises(ValueError, match="density"):
        DriftMonitor(np.zeros(3)).fit(rows)
