"""The tables of the examples come as those of scikit-learn do."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits

from skpc.datasets import load_digit_bits, load_tumours, load_wines

LOADERS = [(load_wines, "cultivar"), (load_tumours, "diagnosis"), (load_digit_bits, "digit")]
every_loader = pytest.mark.parametrize(
    ("load", "name"), LOADERS, ids=["wines", "tumours", "digits"]
)


@every_loader
def test_the_forms_of_a_table_hold_the_same_cells(load, name):
    plain, framed = load(), load(as_frame=True)
    assert plain.frame is None
    assert list(framed.frame) == [*plain.feature_names, name]
    assert_array_equal(framed.frame[plain.feature_names], plain.data)
    assert_array_equal(framed.frame[name], plain.target)
    assert set(framed.target) == set(plain.target_names)
    for asked, whole in ((load(return_X_y=True), plain),):
        assert_array_equal(asked[0], whole.data)
        assert_array_equal(asked[1], whole.target)
    X, y = load(return_X_y=True, as_frame=True)
    assert X.equals(framed.data)
    assert y.equals(framed.target)


@every_loader
def test_tables_are_described(load, name):
    assert str(len(load().data)) in load().DESCR


def test_pixels_are_ink_where_their_grey_level_is_more_than_seven():
    assert_array_equal(load_digit_bits().data, (load_digits().data > 7).astype(float))
    assert np.array_equal(load_digit_bits().target, load_digits().target)
