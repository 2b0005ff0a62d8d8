"""Densities of rows with their gaps, against densities of tables with columns of gaps."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc import CircuitImputer, CutsetNetworkBD, MixtureOfAllTrees, SoftLearnSPN, TableMixture
from skpc.synthesis import WithGaps


def states_with_gaps(n_rows=600, seed=0):
    """Three columns of states; gaps of the last two depend on the first, those of one on both."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, n_rows)
    rows = np.column_stack([first, (first + (rng.random(n_rows) < 0.2)) % 2, first * 2]) * 1.0
    rows[:, 2] = (rows[:, 2] + rng.integers(0, 2, n_rows)) % 3
    rows[rng.random(n_rows) < np.where(first == 1, 0.5, 0.1), 1] = np.nan
    rows[rng.random(n_rows) < np.where(np.isnan(rows[:, 1]), 0.6, 0.2), 2] = np.nan
    return rows


STATES = {"categorical_features": [0, 1, 2]}


def mixed_with_gaps(n_rows=500, seed=1):
    """A DataFrame whose incomes and jobs are not told together, and some dates alone."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n_rows)
    is_told = rng.random(n_rows) < np.where(age < 40, 0.9, 0.3)
    income = np.round(rng.gamma(3.0, 10.0, n_rows) + age, 1)
    since = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n_rows), unit="D")
    return pd.DataFrame(
        {
            "age": age,
            "income": np.where(is_told, income, np.nan),
            "job": pd.Series(np.where(is_told, "yes", None), dtype=object).mask(
                is_told & (rng.random(n_rows) < 0.4), "no"
            ),
            "since": pd.Series(since).mask(rng.random(n_rows) < 0.3),
            "children": pd.Series(rng.integers(0, 4, n_rows), dtype="Int64").mask(age < 25),
        }
    )


def widened(rows):
    """The table with the columns of its gaps."""
    return np.column_stack([rows, np.isnan(rows[:, 1:])])


@pytest.mark.parametrize(
    "density",
    [CutsetNetworkBD(), SoftLearnSPN(), TableMixture(), MixtureOfAllTrees(max_iter=30)],
    ids=lambda density: type(density).__name__,
)
def test_scores_are_those_of_values_and_gaps_and_sum_to_one(density):
    rows = states_with_gaps()
    density.set_params(random_state=0, **STATES)
    model = WithGaps(density).fit(rows)
    every = np.array(list(itertools.product([0, 1], [0, 1, np.nan], [0, 1, 2, np.nan])))
    scores = model.score_samples(every)
    assert_allclose(np.exp(scores).sum(), 1.0)
    density.set_params(categorical_features=[0, 1, 2, 3, 4]).fit(widened(rows))
    assert_allclose(scores, density.score_samples(widened(every)), atol=1e-9)
    assert_allclose(model.score(rows), np.mean(model.score_samples(rows)))


def test_draws_have_the_gaps_and_what_these_say_of_values():
    rows = states_with_gaps()
    model = WithGaps(CutsetNetworkBD(**STATES)).fit(rows)
    every = np.array(list(itertools.product([0, 1], [0, 1, np.nan], [0, 1, 2, np.nan])))
    drawn = model.sample(40_000, random_state=0)
    share = [(np.isclose(drawn, row, equal_nan=True).all(axis=1)).mean() for row in every]
    prob = np.exp(model.score_samples(every))
    assert (np.abs(share - prob) < 5.0 * np.sqrt(prob / 40_000) + 1e-4).all()
    # Given that one cell is missing and another one known.
    told = model.sample(40_000, random_state=0, given={0: 1.0}, missing=[1])
    assert np.isnan(told[:, 1]).all()
    assert_array_equal(told[:, 0], 1.0)
    is_such = (every[:, 0] == 1.0) & np.isnan(every[:, 1])
    without_last = np.isnan(every[is_such, 2])
    expected = prob[is_such][without_last].sum() / prob[is_such].sum()
    assert np.isnan(told[:, 2]).mean() == pytest.approx(expected, abs=0.015)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_keep_their_columns_and_gaps_that_come_together(library):
    table = mixed_with_gaps()
    if library == "polars":
        table = pl.from_pandas(table)
    model = WithGaps(TableMixture(random_state=0)).fit(table)
    assert sorted(columns.tolist() for columns in model.gaps_) == [[1, 2], [3], [4]]
    drawn = model.sample(300, random_state=0)
    assert type(drawn) is type(table)
    if library == "polars":
        assert drawn.schema == table.schema
        drawn = drawn.to_pandas()
        table = table.to_pandas()
    else:
        assert drawn.dtypes.equals(table.dtypes)
    assert_array_equal(drawn["income"].isna(), drawn["job"].isna())
    for name in table:
        share = table[name].isna().mean()
        assert drawn[name].isna().mean() == pytest.approx(share, abs=0.1)
    assert not drawn["age"].isna().any()
    known = model.sample(
        50, random_state=0, given={"income": (20.0, 60.0), "age": pd.NA}, missing={"since"}
    )
    known = known if library == "pandas" else known.to_pandas()
    assert known["income"].between(20.0, 60.0).all()
    assert known["since"].isna().all()


def test_a_table_without_gaps_and_gaps_that_fit_has_not_seen():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = WithGaps(CutsetNetworkBD(random_state=0)).fit(X)
    alone = CutsetNetworkBD(random_state=0).fit(X)
    assert model.gaps_ == []
    X[:3, 0] = np.nan
    assert_allclose(model.score_samples(X), alone.score_samples(X))
    assert_array_equal(model.sample(20, 0), alone.sample(20, 0))


def test_weights_are_rows():
    rows = states_with_gaps(300)
    weight = np.random.default_rng(2).integers(0, 3, 300)
    weighted = WithGaps(CutsetNetworkBD(random_state=0, **STATES)).fit(rows, sample_weight=weight)
    repeated = WithGaps(CutsetNetworkBD(random_state=0, **STATES)).fit(
        np.repeat(rows, weight, axis=0)
    )
    assert_allclose(weighted.score_samples(rows), repeated.score_samples(rows))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": [0]}, "had gaps in fit"),
        ({"missing": [1], "given": {1: 1.0}}, "not be about the same cells"),
        ({"missing": ["x"]}, "missing"),
    ],
)
def test_what_cannot_be_asked_is_refused(options, message):
    model = WithGaps(CutsetNetworkBD(**STATES)).fit(states_with_gaps())
    with pytest.raises(ValueError, match=message):
        model.sample(2, random_state=0, **options)


def test_values_under_gaps_are_not_told():
    model = WithGaps(CutsetNetworkBD(**STATES)).fit(states_with_gaps())
    with pytest.raises(AttributeError, match="no data tell the values"):
        model.complete(states_with_gaps())
    assert not hasattr(model, "complete")
    with pytest.raises(TypeError, match="complete"):
        CircuitImputer(model).fit(states_with_gaps())
