import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc import MultipleImputer
from skpc.plotting import ImputationDisplay


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    a = rng.normal(size=150)
    table = pd.DataFrame(
        {"a": a, "b": a + rng.normal(size=150), "kind": np.where(a > 0, "up", "down")}
    )
    table.loc[:40, "b"] = np.nan
    table.loc[30:70, "kind"] = None
    return MultipleImputer(n_imputations=4, n_rounds=3, random_state=0).fit(table), table


def test_each_drawn_column_has_its_chains_and_its_cells(fitted):
    imputer, table = fitted
    display = ImputationDisplay.from_imputer(imputer, table)
    assert "observed=<3 arrays>" in repr(display)
    assert display.ax_.shape == (2, 3)
    assert [row[0].get_ylabel() for row in display.ax_] == ["b", "kind"]
    lines = display.ax_[0, 0].lines
    assert len(lines) == 4
    for line, chain in zip(lines, imputer.trace_[0, :, :, 1]):
        assert_array_equal(line.get_ydata(), chain)
    bars, *drawn = [patch.get_data().values for patch in display.ax_[1, 2].patches]
    assert_allclose(bars, table["kind"].value_counts(normalize=True)[["down", "up"]])
    tables = imputer.impute(table)
    for shares, one in zip(drawn, tables):
        lost = one["kind"][table["kind"].isna()]
        assert_allclose(shares, [(lost == "down").mean(), (lost == "up").mean()])


def test_columns_are_chosen_by_name_and_others_refused(fitted):
    imputer, table = fitted
    display = ImputationDisplay.from_imputer(imputer, table, columns=["kind"])
    assert display.ax_.shape == (1, 3)
    with pytest.raises(ValueError, match=r"among those that chains draw: \['b', 'kind'\]"):
        display.plot(columns=["a"])


def test_an_imputer_without_chains_is_refused(fitted):
    _, table = fitted
    imputer = MultipleImputer(
        n_imputations=2, draws="density", parameters="fixed", random_state=0
    ).fit(table[["a", "b"]])
    with pytest.raises(ValueError, match="draws='regressions'"):
        ImputationDisplay.from_imputer(imputer, table[["a", "b"]])


def test_means_of_the_last_round_are_those_of_nothing_but_drawn_cells(fitted):
    imputer, _ = fitted
    assert np.isnan(imputer.trace_[:, :, :, 0]).all()
    assert np.isfinite(imputer.trace_[:, :, :, 1:]).all()
