"""Linear models of completed rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge

from skpc.domain import Domain
from skpc.estimators._linear import LinearOnCompletions


def table(n_rows: int = 200):
    """A category, two numbers that depend on each other, a constant; a class, a number."""
    rng = np.random.default_rng(0)
    kind, size = rng.integers(0, 3, n_rows), rng.normal(size=n_rows)
    rows = np.column_stack([kind, size, size + 0.3 * rng.normal(size=n_rows), np.ones(n_rows)])
    value = kind + 2.0 * size + 0.1 * rng.normal(size=n_rows)
    domain = Domain.fit(rows, categorical_features=[0], margins="plain")
    return domain.encode(rows), (value > 1.0).astype(float), value, domain


def features(rows: np.ndarray) -> np.ndarray:
    indicators = rows[:, :1] == np.arange(3)
    columns = np.column_stack([indicators, rows[:, 1:3]]).astype(float)
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def test_complete_rows_are_learned_as_by_scikit_learn():
    rows, label, value, domain = table()
    weight = np.random.default_rng(1).integers(1, 3, len(rows)).astype(float)
    twice = np.repeat(np.arange(len(rows)), weight.astype(int))
    ones = np.ones(len(twice))
    units = features(rows[twice])
    found = LinearOnCompletions(domain, True, 0.5).fit(rows[twice], label[twice], ones)
    truth = LogisticRegression(C=2.0).fit(units, label[twice])
    assert_allclose(found.predict_proba(rows[twice]), truth.predict_proba(units), atol=1e-4)
    weighted = LinearOnCompletions(domain, True, 0.5).fit(rows, label, weight)
    assert_allclose(weighted.predict_proba(rows), found.predict_proba(rows), atol=1e-4)
    found = LinearOnCompletions(domain, False, 3.0).fit(rows[twice], value[twice], ones)
    assert_allclose(
        found.predict(rows[twice]), Ridge(alpha=3.0).fit(units, value[twice]).predict(units)
    )


def test_missing_numbers_count_by_what_the_others_tell():
    rows, _, value, domain = table()
    model = LinearOnCompletions(domain, False).fit(rows, value, np.ones(len(rows)))
    asked = rows.copy()
    asked[:, 1] = np.nan
    without = np.mean((model.predict(asked) - value) ** 2)
    asked[:, 2] = np.nan
    nothing = np.mean((model.predict(asked) - value) ** 2)
    assert without < 0.4 * nothing
    assert model.predict(np.full((1, 4), np.nan))[0] == pytest.approx(value.mean(), abs=1e-6)


def test_losses_are_those_of_the_predictions():
    rows, label, value, domain = table()
    ones = np.ones(len(rows))
    model = LinearOnCompletions(domain, True).fit(rows, label, ones)
    own = model.predict_proba(rows)[np.arange(len(rows)), label.astype(int)]
    assert_allclose(model.losses(rows, label), -np.log(own))
    model = LinearOnCompletions(domain, False).fit(rows, value, ones)
    assert_allclose(model.losses(rows, value), (model.predict(rows) - value) ** 2)


def test_rows_that_are_all_alike_and_numbers_far_away_are_fine():
    rows, label, _, domain = table()
    ones = np.ones(len(rows))
    same = LinearOnCompletions(domain, True).fit(np.tile(rows[:1], (len(rows), 1)), label, ones)
    assert_allclose(same.predict_proba(rows)[:, 1], label.mean(), atol=1e-3)
    model = LinearOnCompletions(domain, True).fit(rows, label, ones)
    far = np.array([[0.0, 1e300, -1e300, 1.0], [1.0, np.nan, np.nan, np.nan]])
    assert np.isfinite(model.predict_proba(far)).all()
    assert_array_equal(model.classes_, [0.0, 1.0])
