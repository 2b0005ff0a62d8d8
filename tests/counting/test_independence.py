"""Statistics of pairs of columns against scipy's, counted from all places and from the rows."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from skpc.counting.independence import pair_statistics


def table_of(a, b, weight):
    """The weighted table of two columns, -1 where missing, without empty rows and columns."""
    table = np.zeros((max(a) + 1, max(b) + 1))
    for s, t, w in zip(a, b, weight):
        if s >= 0 and t >= 0:
            table[s, t] += w
    return table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]


@pytest.mark.parametrize("yates", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("n_states", [(2, 2, 3), (2, 40, 30), (60, 50, 2, 2)])
def test_statistics_of_pairs_are_those_of_scipy(n_states, missing, yates):
    rng = np.random.default_rng(len(n_states))
    codes = rng.integers(0, n_states, (70, len(n_states))).astype(np.int16)
    codes[:, 1] = np.where(rng.random(70) < 0.5, codes[:, 0] % n_states[1], codes[:, 1])
    codes[rng.random(codes.shape) < missing] = -1
    weight = rng.gamma(1.0, 1.0, 70)
    found = pair_statistics(codes, weight, np.array(n_states), yates)
    for a in range(len(n_states)):
        for b in range(a):
            table = table_of(codes[:, a], codes[:, b], weight)
            pearson = chi2_contingency(table, correction=yates)
            ratio = chi2_contingency(table, correction=False, lambda_="log-likelihood")
            assert found.pearson[a, b] == pytest.approx(pearson.statistic, rel=1e-9, abs=1e-9)
            assert found.ratio[a, b] == pytest.approx(ratio.statistic, rel=1e-9, abs=1e-9)
            assert found.freedom[a, b] == pearson.dof
    above = np.triu_indices(len(n_states))
    assert not np.array(found)[:, above[0], above[1]].any()


def test_pairs_of_very_many_states_take_no_table_of_all():
    codes = np.arange(20_000, dtype=np.int16)[:, np.newaxis].repeat(3, axis=1)
    found = pair_statistics(codes, np.ones(20_000), np.full(3, 20_000), True)
    # The table of two columns would have 400 million cells; it is that of an identity.
    assert found.pearson[1, 0] == pytest.approx(20_000.0 * 19_999.0)
    assert found.freedom[2, 1] == 19_999**2
