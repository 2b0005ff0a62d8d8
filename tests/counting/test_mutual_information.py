import numpy as np
import pytest

from skpc.counting.mutual_information import table_information
from tests.naive import chow_liu


def information(table, pseudo_count):
    """Call the kernel with the non-zero cells in a random order."""
    row, column = np.nonzero(table)
    order = np.random.default_rng(0).permutation(len(row))
    row, column = row[order].astype(np.int64), column[order].astype(np.int64)
    work = np.zeros((4, max(table.shape)))
    found = table_information(
        row, column, table[row, column], len(row), *table.shape, pseudo_count, work
    )
    return found, work


@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (4, 2), (1, 3)])
@pytest.mark.parametrize("pseudo_count", [1e-6, 0.3])
def test_information_and_entropies_equal_their_definitions(shape, pseudo_count):
    rng = np.random.default_rng(1)
    table = rng.gamma(1.0, 20.0, shape) * (rng.random(shape) < 0.7)
    (mutual, of_columns, of_rows), work = information(table, pseudo_count)
    smoothed = chow_liu.smoothed(table.tolist(), pseudo_count)
    assert mutual == pytest.approx(chow_liu.mutual_information(smoothed), abs=1e-12)
    by_row = chow_liu.conditional_entropy(table.tolist(), pseudo_count)
    by_column = chow_liu.conditional_entropy(table.T.tolist(), pseudo_count)
    assert of_columns == pytest.approx(by_row, rel=1e-12)
    assert of_rows == pytest.approx(by_column, rel=1e-12)
    assert not work.any()


def test_an_empty_table_tells_nothing():
    (mutual, of_columns, of_rows), _ = information(np.zeros((3, 2)), 0.1)
    assert mutual == pytest.approx(0.0, abs=1e-12)
    assert of_columns == of_rows == 0.0
