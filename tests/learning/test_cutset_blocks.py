"""Cutset networks from the counts of blocks are those of the whole rows."""

from functools import reduce

import numpy as np
import pytest

from skpc.learning import cutset_blocks, learn_cutset_network, learn_cutset_network_of_blocks


def coded(k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose columns depend on each other in some contexts only; one column is constant."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, k, (1_500, 7))
    codes[:, 1] = np.where(rng.random(1_500) < 0.8, codes[:, 0], codes[:, 1])
    codes[:, 3] = np.where(codes[:, 2] == 0, codes[:, 1], codes[:, 3])
    codes[:, 5] = (codes[:, 4] + codes[:, 2] * codes[:, 0]) % k
    codes[:, 6] = 0
    n_states = np.full(7, k)
    # A state that no row takes.
    n_states[4] += seed % 2
    return codes.astype(np.int16), n_states


def total_of(codes: np.ndarray, size: int):
    """Sums over blocks, by the plainest code."""

    def add(one, other):
        return tuple(a + b for a, b in zip(one, other)) if isinstance(one, tuple) else one + other

    blocks = [codes[begin : begin + size] for begin in range(0, len(codes), size)]
    return lambda count: reduce(add, map(count, blocks))


def assert_same(one, other):
    for name in ("variable", "child_ptr", "child", "child_count", "leaf"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for mine, its in zip(one.trees, other.trees, strict=True):
        np.testing.assert_array_equal(mine.variables, its.variables)
        np.testing.assert_array_equal(mine.parent, its.parent)
        np.testing.assert_array_equal(mine.tables.dense(), its.tables.dense())
    assert one.score == pytest.approx(other.score, rel=1e-10)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("criterion", ["bd", "bic"])
@pytest.mark.parametrize("numbers", [300, 2**24])
@pytest.mark.parametrize("most_codes", [0, 2_000, 2**24])
def test_counts_of_blocks_tell_the_network_of_the_rows(
    k, seed, criterion, numbers, most_codes, monkeypatch
):
    # Few numbers make many passes.
    monkeypatch.setattr(cutset_blocks, "_NUMBERS", numbers)
    codes, n_states = coded(k, seed)
    whole = learn_cutset_network(codes, np.ones(len(codes)), n_states, criterion=criterion)
    assert whole.n_cuts > 1
    total = total_of(codes, 400)
    options = {"n_states": n_states, "criterion": criterion, "most_codes": most_codes}
    assert_same(learn_cutset_network_of_blocks(total, **options), whole)


@pytest.mark.parametrize("k", [2, 3])
def test_cuts_of_equal_entropy_do_not_depend_on_how_rows_are_counted(k):
    # Many copies of few rows: columns of small nodes often leave the same entropy in the others.
    rows = np.random.default_rng(0).integers(0, k, (100, 14)).astype(np.int16)
    codes, n_states = np.tile(rows, (40, 1)), np.full(14, k)
    whole = learn_cutset_network(codes, np.ones(len(codes)), n_states)
    found = learn_cutset_network_of_blocks(total_of(codes, 1_000), n_states=n_states, most_codes=0)
    assert_same(found, whole)


def test_columns_without_information_make_the_same_tree_however_rows_are_counted():
    # Of the rows with a zero in column 4, three columns are independent and the others constant:
    # rounded logarithms do not cancel where true ones do.
    rows = ["001111110", "100101100", "101001101", "110100100", "111000101"]
    codes = np.array([list(map(int, row)) for row in rows])
    codes, n_states = np.tile(codes, (20, 1)).astype(np.int16), np.full(9, 2)
    options = {"n_states": n_states, "ess": 0.1 / 2**11}
    whole = learn_cutset_network(codes, np.ones(100), **options)
    found = learn_cutset_network_of_blocks(total_of(codes, 50), most_codes=0, **options)
    assert_same(found, whole)


@pytest.mark.parametrize("options", [{"max_depth": 0}, {"max_depth": 1}, {"n_candidates": 1}])
def test_options_mean_the_same_for_blocks(options):
    codes, n_states = coded(3, 0)
    whole = learn_cutset_network(codes, np.ones(len(codes)), n_states, **options)
    found = learn_cutset_network_of_blocks(total_of(codes, 1_000), n_states=n_states, **options)
    assert_same(found, whole)


def test_tables_that_no_memory_holds_are_not_counted(monkeypatch):
    monkeypatch.setattr(cutset_blocks, "_MOST", 10)
    codes, n_states = coded(3, 0)
    assert learn_cutset_network_of_blocks(total_of(codes, 1_000), n_states=n_states) is None


def test_a_single_constant_column_is_a_network():
    codes = np.zeros((10, 1), np.int16)
    found = learn_cutset_network_of_blocks(total_of(codes, 4), n_states=np.array([1]))
    assert_same(found, learn_cutset_network(codes, np.ones(10), np.array([1])))
