"""The order of columns and rows that follows from their contents."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.domain import Domain, canonical_order
from tests.naive import domain as naive


def distinct_rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two columns of numbers and four of two states; their weights, and which are categories."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(0, 3, (12, 2)) / 7.0, rng.integers(0, 2, (12, 4))])
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows = np.unique(rows, axis=0)
    return rows, rng.integers(1, 3, len(rows)).astype(float), np.arange(6) >= 2


@pytest.mark.parametrize("seed", range(5))
def test_a_table_is_the_same_in_its_order_whatever_order_and_unit_it_comes_in(seed):
    rows, weight, is_categorical = distinct_rows(seed)
    colours = naive.colours(rows.tolist(), weight.tolist(), is_categorical.tolist())
    order = canonical_order(rows, weight, is_categorical)
    for _ in range(5):
        rng = np.random.default_rng()
        columns, lines = rng.permutation(6), rng.permutation(len(rows))
        table = rows[np.ix_(lines, columns)] * np.where(is_categorical, 1.0, 1000.0)[columns]
        again = canonical_order(table, weight[lines], is_categorical[columns])
        # Only what has one colour can change places.
        for places, before, parts in ((columns, order.columns, 0), (lines, order.rows, 1)):
            after = places[again[parts]]
            assert [colours[parts][i] for i in after] == [colours[parts][i] for i in before]
        assert_array_equal(weight[lines][again.rows], weight[order.rows])


def test_columns_of_rare_values_come_first_and_equal_ones_keep_their_order():
    rows = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]], dtype=float)
    order = canonical_order(rows, np.array([5.0, 1.0, 2.0, 1.0]), np.ones(4, dtype=bool))
    assert order.columns.tolist() == [3, 0, 2, 1]


def test_a_domain_in_another_order_encodes_as_before():
    pd = pytest.importorskip("pandas")
    days = pd.date_range("2024-01-01", periods=60)
    frame = pd.DataFrame({"day": days, "kind": ["a", "b"] * 30, "size": np.arange(60.0) ** 2})
    domain, order = Domain.fit(frame, n_bins=5), np.array([2, 0, 1])
    taken = domain.taken(order)
    table = frame[["size", "day", "kind"]]
    assert taken.feature_names == ("size", "day", "kind")
    assert_allclose(taken.encode(table), domain.encode(frame)[:, order])
    pd.testing.assert_frame_equal(taken.decode(taken.encode(table)), table)
    assert_array_equal(taken.n_states, domain.n_states[order])
