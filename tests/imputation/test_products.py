"""The analysis that a table itself asks for: products that complete rows speak for."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skpc import MultipleImputer
from skpc.imputation.products import LeaveOneOut
from tests.benchmarks.multiple_imputation_real import draw_rows, remove


def sums(n_rows=300, seed=0):
    """A number that is a sum of others, without products."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n_rows))
    table = pd.DataFrame({"y": a + b + rng.normal(size=n_rows), "a": a, "b": b})
    return table.mask(rng.random(table.shape) < 0.2)


def imputer(**settings):
    return MultipleImputer(n_imputations=2, n_rounds=1, random_state=0, **settings)


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_each_row_is_judged_by_the_regression_on_the_others(weight):
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(12, 3))
    values = terms @ [1.0, 0.0, -0.1] + rng.normal(size=12)
    judged = LeaveOneOut.fit(terms, values, np.full(12, weight))
    # Rows of weight two are there twice, and one of them is left out.
    design = np.repeat(np.column_stack([np.ones(12), terms]), int(weight), axis=0)
    repeated = np.repeat(values, int(weight))
    for row in range(12):
        left = row * int(weight)
        others = np.arange(len(repeated)) != left
        x = design[others]
        inverse = np.linalg.inv(x.T @ x)
        coefficients = inverse @ x.T @ repeated[others]
        squares = ((repeated[others] - x @ coefficients) ** 2).sum()
        variance = squares / (len(x) - 4) * (1.0 + design[left] @ inverse @ design[left])
        truth = stats.norm.logpdf(values[row], design[left] @ coefficients, variance**0.5)
        # The ridge is small.
        assert_allclose(judged.log_density[row], truth, rtol=1e-3)
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ repeated
    squares = ((repeated - design @ coefficients) ** 2).sum()
    error = np.sqrt(inverse.diagonal() * squares / (len(design) - 4))
    assert judged.is_clear.tolist() == (np.abs(coefficients) > 2.0 * error)[1:].tolist()


def test_a_constant_term_is_never_clear():
    terms = np.column_stack([np.arange(10.0), np.ones(10)])
    judged = LeaveOneOut.fit(terms, np.sin(np.arange(10.0)), np.ones(10))
    assert not judged.is_clear[1]
    assert np.isfinite(judged.log_density).all()


@pytest.mark.parametrize("mechanism", ["MCAR", "MAR"])
def test_products_and_squares_of_a_number_are_its_model(mechanism):
    table = remove(draw_rows("product", 600, 1)[0], mechanism, 0.3, 1)
    outcome, terms = imputer().fit(table).model_
    assert outcome == "y"
    assert {("x1",), ("x2",), ("g",), ("x1", "x1"), ("x1", "x2")} == {*terms}


def test_what_is_found_can_be_named():
    table = remove(draw_rows("product", 300, 1)[0], "MCAR", 0.1, 1)
    found = imputer().fit(table)
    named = imputer(model=found.model_).fit(table)
    assert named.model_ == found.model_
    for by_default, by_name in zip(found.impute(table), named.impute(table), strict=True):
        pd.testing.assert_frame_equal(by_default, by_name)


def test_a_table_of_sums_has_no_model():
    assert imputer().fit(sums()).model_ is None


def test_units_do_not_matter():
    table = remove(draw_rows("product", 300, 1)[0], "MCAR", 0.1, 1)
    moved = table.assign(x1=table["x1"] * 0.01 + 0.2, y=table["y"] * 1e6 + 1e9)
    assert imputer().fit(moved).model_ == imputer().fit(table).model_


@pytest.mark.parametrize("n_rows", [30, 300])
def test_numbers_with_atoms_and_few_rows_have_no_model(n_rows):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, n_rows))
    y = 2.0 * a * b + 0.1 * rng.normal(size=n_rows)
    table = pd.DataFrame({"y": np.maximum(y, 0.0) if n_rows > 30 else y, "a": a, "b": b})
    table = table.mask(rng.random(table.shape) < 0.2)
    assert imputer().fit(table).model_ is None


def test_columns_that_are_computed_are_left_out():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200))
    table = pd.DataFrame({"a": a, "b": b, "product": a * b})
    table = table.mask(rng.random(table.shape) < 0.2)
    assert imputer().fit(table).model_[0] == "product"
    computed = {"product": lambda rows: rows["a"] * rows["b"]}
    assert imputer(passive=computed).fit(table).model_ is None


def test_a_table_of_one_column_has_no_model():
    X = np.random.default_rng(0).normal(size=(50, 1))
    X[:5] = np.nan
    assert imputer().fit(X).model_ is None


def test_columns_without_names_have_numbers():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200))
    X = np.column_stack([a, b, a * b + 0.1 * rng.normal(size=200)])
    X[rng.random(X.shape) < 0.2] = np.nan
    outcome, terms = imputer().fit(X).model_
    assert outcome == 2
    assert (0, 1) in terms
