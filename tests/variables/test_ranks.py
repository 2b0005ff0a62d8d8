"""Ordered categories as numbers, and back."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skpc.variables.ranks import Ranks

SIZES = Ranks(("S", "M", "L"))


@pytest.mark.parametrize(
    "values",
    [
        ["L", None, "S"],
        np.array(["L", None, "S"], dtype=object),
        pd.Series(pd.Categorical(["L", np.nan, "S"], ["S", "M", "L"], ordered=True)),
    ],
    ids=["list", "array", "series"],
)
def test_the_rank_is_the_place_among_the_categories(values):
    assert_array_equal(SIZES.numbers_of(values, "X"), [2.0, np.nan, 0.0])


def test_numbers_become_the_nearest_category():
    numbers = np.array([-3.0, 0.4, 0.6, 7.0, np.nan])
    assert SIZES.dates(numbers).tolist() == ["S", "S", "M", "L", None]
    assert SIZES.text(1.2) == "M"


def test_another_category_is_missing_with_a_warning_or_refused():
    with pytest.warns(UserWarning, match="X must hold .* 'S', 'M', 'L'; found 'XL', in 1 of 2"):
        assert_array_equal(SIZES.numbers_of(["M", "XL"], "X"), [1.0, np.nan])
    with pytest.raises(ValueError, match="found 'XL'. Add it to the dtype"):
        SIZES._replace(is_strict=True).numbers_of(["M", "XL"], "X")
