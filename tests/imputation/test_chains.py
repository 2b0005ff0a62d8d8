"""Chains of regressions: what columns are regressed on, and which cells they fill."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc import TableMixture
from skpc.imputation.analysis import read_analysis
from skpc.imputation.chains import FEWEST_OBSERVED, Chains, Predictors
from skpc.imputation.column_regressions import MOST_LEVELS, MatchedNumbers, PooledCategories
from skpc.imputation.passive import read_passive
from skpc.imputation.regressions import LogitDraw

SEEDS = [1, 2, 3]


def frame(n_rows=150, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    table = pd.DataFrame(
        {
            "x": 1e6 + 1e-3 * x,
            "state": pd.Categorical.from_codes(
                np.clip(np.round(x + 1), 0, 2).astype(int), ["low", "mid", "top"], ordered=True
            ),
            "kind": rng.choice(["r", "s", "t"], n_rows, p=[0.2, 0.5, 0.3]),
            "many": np.array([f"m{i:02d}" for i in rng.integers(0, 20, n_rows)]),
            "y": x + rng.normal(size=n_rows),
            "constant": 2.0,
        }
    )
    return table.mask(rng.random(table.shape) < [0.1, 0.2, 0.3, 0.25, 0.0, 0.15])


def fitted(table, n_rounds=2, model=None, passive=None, weight=None):
    density = TableMixture(n_components=2, random_state=0).fit(table)
    domain = density.domain_
    rows = domain.encode(table)
    weight = np.ones(len(rows)) if weight is None else weight
    analysis = None if model is None else read_analysis(model, domain, rows)
    computed = read_passive(passive or {}, domain, rows)
    chains = Chains.fit(density._density, rows, weight, SEEDS, n_rounds, analysis, computed)
    return chains, rows


def test_a_design_has_a_constant_the_expectation_and_the_other_columns():
    table = frame()
    chains, rows = fitted(table)
    complete = rows[~np.isnan(rows).any(axis=1)]
    expectation = np.arange(2.0 * len(complete)).reshape(-1, 2)
    design = chains.predictors.design(complete, 4, expectation)
    x, state, kind, many = (rows[:, column] for column in range(4))
    labels = [*chains.density.domain[2].states]
    truth = [np.ones(len(complete)), *expectation.T]
    truth.append((complete[:, 0] - np.nanmean(x)) / np.nanstd(x))
    truth.append((complete[:, 1] - np.nanmean(state)) / np.nanstd(state))
    # The most frequent category is the reference; then by their number of rows.
    truth.extend(complete[:, 2] == labels.index(label) for label in "tr")
    count = np.bincount(many[~np.isnan(many)].astype(int))
    truth.extend(complete[:, 3] == level for level in np.argsort(-count, kind="stable")[1:13])
    # The mean of numbers far from zero is rounded.
    assert_allclose(design, np.column_stack(truth), atol=1e-6)


def test_ordered_states_are_regressed_by_their_ranks():
    chains, rows = fitted(frame())
    states = np.unique(rows[~np.isnan(rows[:, 1]), 1])
    assert_array_equal(chains.predictors.scaled(1, states), [0.0, 1.0, 2.0])


def test_kinds_of_columns_have_kinds_of_regressions():
    chains, _ = fitted(frame())
    kinds = [type(chains.regressions[0].get(column)) for column in range(6)]
    assert kinds == [
        MatchedNumbers,
        MatchedNumbers,
        LogitDraw,
        PooledCategories,
        type(None),
        type(None),
    ]
    # The fewest gaps first; neither complete columns nor constant ones.
    assert chains.order == (0, 1, 3, 2)


def test_a_column_is_expected_given_its_sources_alone():
    chains, rows = fitted(frame())
    filled = chains.impute(rows, SEEDS)[0]
    known = filled.copy()
    known[:, 2] = np.nan
    known[:, 5] = np.nan
    prob = chains.density.posteriors(known, [2])[0].probabilities
    prob = np.maximum(prob, 1e-3)
    assert_allclose(chains._expectation(filled, 2), np.log(prob[:, 1:] / prob[:, :1]))
    changed = filled.copy()
    changed[:, 2] = 0.0
    assert_array_equal(chains._expectation(changed, 2), chains._expectation(filled, 2))


def test_columns_of_few_cells_keep_the_draw_of_the_density():
    table = frame()
    for n_observed in (FEWEST_OBSERVED - 1, FEWEST_OBSERVED):
        table["few"] = np.where(np.arange(len(table)) < n_observed, np.arange(len(table)), np.nan)
        chains, _ = fitted(table, n_rounds=1)
        assert (6 in chains.order) == (n_observed >= FEWEST_OBSERVED)


def test_observed_cells_stay_and_seeds_decide():
    chains, rows = fitted(frame())
    drawn = chains.impute(rows, SEEDS)
    assert drawn.shape == (3, *rows.shape)
    observed = ~np.isnan(rows)
    assert not np.isnan(drawn).any()
    for filled in drawn:
        assert_array_equal(filled[observed], rows[observed])
    assert_array_equal(drawn, chains.impute(rows, SEEDS))
    assert not np.array_equal(drawn[0], drawn[1])
    again, _ = fitted(frame())
    assert_array_equal(drawn, again.impute(rows, SEEDS))


@pytest.mark.parametrize("n_cells", [1, 2000])
def test_chains_of_a_group_do_not_depend_on_each_other(n_cells, monkeypatch):
    together, rows = fitted(frame())
    monkeypatch.setattr("skpc.imputation.chains._CELLS", n_cells)
    apart, _ = fitted(frame())
    one, two = (chains.impute(rows, SEEDS) for chains in (together, apart))
    # Sums of other blocks of rows may round otherwise, which may choose another donor.
    assert (one == two).mean() > 0.99


def test_the_trace_has_means_and_spreads_of_drawn_cells():
    chains, rows = fitted(frame(), n_rounds=4)
    assert chains.trace.shape == (2, 3, 4, 6)
    is_drawn = np.isin(np.arange(6), chains.order)
    assert_array_equal(np.isnan(chains.trace).all(axis=(0, 1, 2)), ~is_drawn)
    assert np.isfinite(chains.trace[..., is_drawn]).all()
    observed = rows[~np.isnan(rows[:, 0]), 0]
    assert (chains.trace[0, :, :, 0] >= observed.min()).all()
    assert (chains.trace[0, :, :, 0] <= observed.max()).all()


def test_weight_two_is_the_row_twice():
    """Exactly, where both have the same cells: the draws of each row's cells differ."""
    table = frame()
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 3, len(table))
    density = TableMixture(n_components=2, random_state=0).fit(table)
    rows = density.domain_.encode(table)
    every = [np.arange(6)] * 6
    one = Predictors.fit(density.domain_, rows, weight.astype(float), every)
    twice = np.repeat(rows, weight, axis=0)
    two = Predictors.fit(density.domain_, twice, np.ones(len(twice)), every)
    assert_allclose(one.centre, two.centre)
    assert_allclose(one.spread, two.spread)
    for levels, other in zip(one.levels, two.levels):
        assert_array_equal(levels, other)


def test_levels_beyond_the_most_frequent_have_no_indicator():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"many": [f"m{i}" for i in rng.integers(0, 40, 400)], "y": rng.random(400)}
    )
    density = TableMixture(n_components=1, random_state=0).fit(table)
    rows = density.domain_.encode(table)
    predictors = Predictors.fit(density.domain_, rows, np.ones(400), [np.arange(2)] * 2)
    assert len(predictors.levels[0]) == MOST_LEVELS
    count = np.bincount(rows[:, 0].astype(int))
    assert count[predictors.levels[0]].min() >= np.sort(count)[-MOST_LEVELS - 1]


def test_outcomes_predict_no_covariates_and_times_stand_as_hazards():
    rng = np.random.default_rng(0)
    table = frame()
    table["time"], table["event"] = rng.exponential(size=len(table)), rng.random(len(table)) < 0.5
    chains, rows = fitted(table, model=(("time", "event"), ["x", "kind"]))
    sources = chains.predictors.sources
    # The constant says nothing.
    assert sources[0].tolist() == [1, 2, 3, 4]
    assert sources[2].tolist() == [0, 1, 3, 4]
    assert sources[1].tolist() == [0, 2, 3, 4, 6, 7]
    filled = chains.impute(rows, SEEDS)[0]
    design = chains.predictors.design(filled, 1, np.zeros((len(rows), 0)))
    times, events = rows[:, 6], rows[:, 7] == 1.0
    unique = np.unique(times[events])
    hazard = np.cumsum([1.0 / np.sum(times >= time) for time in unique])
    standard = (hazard - hazard.mean()) / hazard.std()
    assert_allclose(design[:, -2], np.interp(times, unique, standard))


def test_what_is_computed_from_a_column_does_not_predict_it():
    table = frame()
    table["double"] = 2.0 * table["y"]
    table.loc[:30, ["y", "double"]] = np.nan
    chains, rows = fitted(table, passive={"double": lambda t: 2.0 * t["y"]})
    assert 6 not in chains.predictors.sources[4]
    assert 4 in chains.predictors.sources[6]
    assert 6 not in chains.order
    for filled in chains.impute(rows, SEEDS):
        assert_allclose(filled[:, 6], 2.0 * filled[:, 4])


@pytest.mark.parametrize("model", [None, ("y", ["kind", "x"])])
def test_probabilities_are_those_that_categories_are_drawn_with(model):
    table = frame(60)
    chains, rows = fitted(table, n_rounds=1, model=model)
    filled = chains.impute(rows, SEEDS)[0]
    prob = chains.probabilities(0, filled, 2)
    assert_allclose(prob.sum(axis=1), 1.0)
    lost = np.isnan(rows[:, 2])
    expectation = chains._expectation(filled, 2)
    design = chains._design(filled, 2, expectation)[lost]
    random_state = np.random.RandomState(0)
    draws = [
        chains._drawn(0, design, filled[lost], 2, random_state).astype(int) for _ in range(3000)
    ]
    share = np.mean([np.eye(3)[draw] for draw in draws], axis=0)
    assert_allclose(share, prob[lost], atol=0.05)
