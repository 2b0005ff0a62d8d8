import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.collections import LineCollection
from numpy.testing import assert_array_equal
from scipy.integrate import trapezoid
from sklearn.exceptions import NotFittedError

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    MixtureOfAllTrees,
    SoftLearnSPN,
)
from skpc.circuit import CircuitBuilder
from skpc.plotting import CircuitDisplay, MarginalsDisplay

SIZES = ("large", "medium", "small")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    size = rng.choice(SIZES, 500, p=[0.2, 0.3, 0.5])
    typical = pd.Series(size).map({"small": 1.0, "medium": 4.0, "large": 12.0}).to_numpy()
    price = typical * rng.lognormal(0, 0.3, 500)
    return pd.DataFrame({"size": size, "price": price, "code": rng.integers(0, 15, 500)})


@pytest.fixture(scope="module")
def model(table):
    return CutsetNetworkBD(n_bins=4, categorical_features=["size", "code"]).fit(table)


def one_row(**cells):
    return pd.DataFrame([{"size": None, "price": np.nan, "code": np.nan, **cells}])


def bar_lengths(ax):
    return [bar.get_width() for bar in ax.patches]


def test_a_missing_category_has_a_bar_of_its_probability_for_each_state(model):
    row = one_row(price=4.0)
    ax = MarginalsDisplay.from_estimator(model, row, columns=["size"]).ax_[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(SIZES)
    np.testing.assert_allclose(bar_lengths(ax), model.marginals(row)[0].probabilities[0])
    assert ax.get_title() == "size (missing)"


def test_a_missing_number_has_a_density_that_holds_the_mass_of_every_bin(table):
    model = CutsetNetworkBD(n_bins=4, margins="plain").fit(table)
    row = one_row(size="medium")
    ax = MarginalsDisplay.from_estimator(model, row, columns=["price"]).ax_[0]
    x, density = ax.lines[0].get_data()
    edges = model.domain_.axes[1].edges
    prob = model.marginals(row)[1].probabilities[0]
    for state in range(1, len(edges)):
        inside = (x >= edges[state - 1]) & (x <= edges[state])
        height = prob[state] / (edges[state] - edges[state - 1])
        assert (np.isclose(density[inside], height)).sum() >= 2
    assert trapezoid(density, x) == pytest.approx(0.998, abs=2e-3)


def without(row, column):
    return row.assign(**{column: None if column == "size" else np.nan})


def mark(ax):
    (line,) = (line for line in ax.lines if line.get_marker() == "D")
    ((x, y),) = line.get_xydata()
    return x, y


def test_an_observed_number_is_a_mark_on_its_density_given_the_others(model):
    row = one_row(size="medium", price=7.25)
    ax = MarginalsDisplay.from_estimator(model, row, columns=["price"]).ax_[0]
    hidden = MarginalsDisplay.from_estimator(model, without(row, "price"), columns=["price"]).ax_[0]
    assert_array_equal(ax.lines[0].get_xydata(), hidden.lines[0].get_xydata())
    cell, at, half = model.marginals(without(row, "price"))[1], mark(ax), 0.05
    assert at[0] == 7.25
    density = (cell.cdf(7.25 + half) - cell.cdf(7.25 - half))[0] / (2 * half)
    assert at[1] == pytest.approx(density, rel=0.1)
    assert ax.get_xlabel() == "= 7.25"
    assert ax.get_title() == "price (observed)"


def test_an_observed_category_is_a_mark_on_its_bar_given_the_others(model):
    row = one_row(size="medium", price=7.25)
    ax = MarginalsDisplay.from_estimator(model, row, columns=["size"]).ax_[0]
    expected = model.marginals(without(row, "size"))[0].probabilities[0]
    np.testing.assert_allclose(bar_lengths(ax), expected)
    assert mark(ax) == pytest.approx((expected[1], SIZES.index("medium")))
    assert ax.get_title() == "size (observed)"


def test_missing_cells_come_first_unless_columns_are_named(model):
    row = one_row(size="medium", code=3)
    titles = [ax.get_title() for ax in MarginalsDisplay.from_estimator(model, row).ax_]
    assert titles == ["price (missing)", "size (observed)", "code (observed)"]
    some = MarginalsDisplay.from_estimator(model, row, columns=["code", "price"]).ax_
    assert [ax.get_title() for ax in some] == ["code (observed)", "price (missing)"]


def test_columns_that_were_not_drawn_at_first_are_drawn_given_the_others_later(model):
    display = MarginalsDisplay.from_estimator(model, one_row(code=3), columns=["size"])
    (later,) = display.plot(columns=["code"]).ax_
    (once,) = MarginalsDisplay.from_estimator(model, one_row(code=3), columns=["code"]).ax_
    assert bar_lengths(later) == bar_lengths(once)
    assert mark(later) == mark(once)


def test_of_a_wide_table_only_columns_that_are_drawn_are_asked_for(monkeypatch):
    X = np.random.default_rng(0).integers(0, 2, (50, 41)).astype(float)
    model, rows = CutsetNetworkBD(max_depth=0).fit(X), []
    ask = CutsetNetworkBD.marginals
    monkeypatch.setattr(CutsetNetworkBD, "marginals", lambda *of: rows.append(of[1]) or ask(*of))
    MarginalsDisplay.from_estimator(model, X[:1], columns=[5])
    (whole, without_one) = rows
    assert np.flatnonzero(np.isnan(without_one)).tolist() == [5]
    assert not np.isnan(whole).any()


def test_the_row_is_left_as_it_came_whatever_its_dtypes(table):
    model = CutsetNetworkBD(n_bins=4, categorical_features=["size", "code"]).fit(table)
    row = table.iloc[[0]]
    before = row.copy()
    panels = MarginalsDisplay.from_estimator(model, row).ax_
    assert row.equals(before)
    assert mark(panels[1])[0] == row["price"].iloc[0]
    x, y = mark(panels[2])
    labels = [label.get_text() for label in panels[2].get_yticklabels()]
    assert labels[int(y)] == str(row["code"].iloc[0])
    expected = model.marginals(row.assign(code=np.nan))[2].probabilities[0]
    assert x == pytest.approx(expected[row["code"].iloc[0]])


def test_an_observed_number_far_from_all_others_is_inside_its_panel(model):
    ax = MarginalsDisplay.from_estimator(model, one_row(price=900.0), columns=["price"]).ax_[0]
    low, high = ax.get_xlim()
    assert low < 900.0 < high


def test_many_states_are_cut_to_the_most_probable_and_the_rest(model):
    row = one_row(size="small")
    ax = MarginalsDisplay.from_estimator(model, row, columns=["code"]).ax_[0]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    prob = model.marginals(row)[2].probabilities[0]
    best = sorted(np.argsort(-prob, kind="stable")[:11].tolist())
    assert labels == [*map(str, best), "(4 others)"]
    np.testing.assert_allclose(bar_lengths(ax)[:-1], prob[best])
    assert sum(bar_lengths(ax)) == pytest.approx(1.0)


def test_an_observed_state_of_many_is_marked_by_its_label(model):
    ax = MarginalsDisplay.from_estimator(model, one_row(code=14), columns=["code"]).ax_[0]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[int(mark(ax)[1])] == "14"
    unlikely = int(np.argmin(model.marginals(one_row())[2].probabilities[0]))
    ax = MarginalsDisplay.from_estimator(model, one_row(code=unlikely), columns=["code"]).ax_[0]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[int(mark(ax)[1])] == str(unlikely)


def test_columns_are_chosen_by_name_or_number(model):
    display = MarginalsDisplay.from_estimator(model, one_row(), columns=["price", 0])
    assert [ax.get_title() for ax in display.ax_] == ["price (missing)", "size (missing)"]


def test_a_polars_row_is_drawn_as_the_pandas_row(table):
    model = CutsetNetworkBD(n_bins=4).fit(pl.DataFrame(table.to_dict("list")))
    cells = {"size": [None], "price": [4.0], "code": [3]}
    row = pl.DataFrame(cells, schema_overrides={"size": str})
    ax = MarginalsDisplay.from_estimator(model, row, columns=["size"]).ax_[0]
    np.testing.assert_allclose(bar_lengths(ax), model.marginals(row)[0].probabilities[0])


def test_one_axes_is_divided_among_the_columns(model):
    figure, ax = plt.subplots()
    display = MarginalsDisplay.from_estimator(model, one_row(), ax=ax)
    assert display.figure_ is figure
    assert len(display.ax_) == 3
    outer = ax.get_position()
    for panel in display.ax_:
        inner = panel.get_position()
        assert outer.x0 - 1e-9 <= inner.x0
        assert inner.x1 <= outer.x1 + 1e-9
    assert not ax.axison


def test_one_axes_is_used_itself_for_one_column_and_an_array_as_it_is(model):
    _, axes = plt.subplots(1, 3)
    assert MarginalsDisplay.from_estimator(model, one_row(), ax=axes).ax_.tolist() == axes.tolist()
    one = MarginalsDisplay.from_estimator(model, one_row(), columns=[1], ax=axes[0])
    assert one.ax_.tolist() == [axes[0]]


def test_a_wrong_number_of_axes_is_refused(model):
    _, axes = plt.subplots(1, 2)
    with pytest.raises(ValueError, match="must hold 3 Axes, one for each column, got 2"):
        MarginalsDisplay.from_estimator(model, one_row(), ax=axes)


def test_more_than_one_row_is_refused(model, table):
    with pytest.raises(ValueError, match="exactly one row, got 2"):
        MarginalsDisplay.from_estimator(model, table.iloc[:2])


@pytest.mark.parametrize("columns", [["weight"], [3], [-1], ["price", "prize"]])
def test_an_unknown_column_is_refused_by_name(model, columns):
    with pytest.raises(ValueError, match=rf"columns .*(names |got \[){columns[-1]!r}"):
        MarginalsDisplay.from_estimator(model, one_row(), columns=columns)


def test_too_many_columns_are_refused_with_advice():
    X = np.random.default_rng(0).integers(0, 2, (50, 41))
    model = CutsetNetworkBD().fit(X)
    with pytest.raises(ValueError, match=r"1 to 40 columns; name some in columns=\[...\], got 41"):
        MarginalsDisplay.from_estimator(model, X[:1])
    assert len(MarginalsDisplay.from_estimator(model, X[:1], columns=range(3)).ax_) == 3


def test_an_estimator_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        MarginalsDisplay.from_estimator(CutsetNetworkBD(), [[0.0]])


def test_without_matplotlib_the_error_says_how_to_get_it(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="MarginalsDisplay.from_estimator requires matplotlib"):
        MarginalsDisplay.from_estimator(model, one_row())


def test_any_density_with_marginals_is_drawn(table):
    row = one_row(size="small")
    trees = MixtureOfAllTrees(max_iter=1, random_state=0).fit(table)
    assert len(MarginalsDisplay.from_estimator(trees, row).ax_) == 3
    soft = SoftLearnSPN(random_state=0).fit(table)
    assert len(MarginalsDisplay.from_estimator(soft, row).ax_) == 3


def test_a_number_without_bins_has_the_density_of_its_distribution_function(table):
    model, row = SoftLearnSPN(random_state=0).fit(table), one_row(size="medium")
    ax = MarginalsDisplay.from_estimator(model, row, columns=["price"]).ax_[0]
    x, density = ax.lines[0].get_data()
    cell = model.marginals(row)[1]
    assert x[0] == pytest.approx(cell.quantile(0.001)[0], abs=np.diff(x)[0])
    middles = (x[:-1] + x[1:]) / 2
    below = np.array([cell.cdf(middles[at : at + 1])[0] for at in (4, 5, 99, 100, 249, 250)])
    part = density[[5, 100, 250]] * (x[1] - x[0]) / (below[1::2] - below[::2])
    # What lies below zero counts for nothing in distribution functions: a constant factor.
    assert part == pytest.approx(np.full(3, part[0]), rel=1e-6)
    assert 0.998 < part[0] <= 1.0 + 1e-6
    assert trapezoid(density, x) == pytest.approx(0.998, abs=2e-3)
    observed = MarginalsDisplay.from_estimator(model, one_row(price=7.25), columns=["price"]).ax_[0]
    height = np.interp(7.25, *observed.lines[0].get_data())
    assert mark(observed) == pytest.approx((7.25, height))


def test_what_has_no_marginals_is_refused_with_what_can_be_drawn(table):
    classifier = DensityClassifier(CutsetNetworkBD(), joint=False, classifiers=None).fit(
        table, table["code"] > 7
    )
    with pytest.raises(TypeError, match="DensityClassifier has not; draw one of its densities_"):
        MarginalsDisplay.from_estimator(classifier, one_row())
    row = one_row(size="small")
    assert len(MarginalsDisplay.from_estimator(classifier.densities_["density"][0], row).ax_) == 3
    imputer = CircuitImputer().fit(table)
    with pytest.raises(TypeError, match="CircuitImputer has not; draw its density_"):
        MarginalsDisplay.from_estimator(imputer, one_row())
    MarginalsDisplay.from_estimator(imputer.density_, one_row())


@pytest.mark.filterwarnings("ignore:Some columns")
def test_columns_that_no_learner_sees_are_left_out_unless_they_are_chosen(table):
    frame = table.assign(id=[f"row {i}" for i in range(len(table))], void=np.nan)
    model = CutsetNetworkBD(max_depth=0).fit(frame)
    drawn = MarginalsDisplay.from_estimator(model, frame[:1])
    assert [panel.get_title().split()[0] for panel in drawn.ax_] == ["size", "price", "code"]
    chosen = MarginalsDisplay.from_estimator(model, frame[:1], columns=["id", "void"])
    assert len(chosen.ax_) == 2
    CircuitDisplay.from_estimator(model)


def test_an_atom_is_a_line_as_high_as_its_probability():
    rng = np.random.default_rng(0)
    rain = np.where(rng.random(500) < 0.6, 0.0, np.round(rng.lognormal(size=500), 1))
    frame = pd.DataFrame({"rain": rain, "wind": rng.normal(size=500)})
    for model in (CutsetNetworkBD(), SoftLearnSPN(random_state=0)):
        asked = frame[:1].assign(rain=np.nan, wind=np.nan)
        panel = MarginalsDisplay.from_estimator(model.fit(frame), asked, columns=["rain"]).ax_[0]
        (lines,) = (part for part in panel.collections if isinstance(part, LineCollection))
        ((foot, top),) = lines.get_segments()
        assert foot.tolist() == [0.0, 0.0]
        assert top[1] == pytest.approx(model.marginals(asked)[0].atom_probabilities()[0, 0])
        dry = asked.assign(rain=0.0)
        panel = MarginalsDisplay.from_estimator(model, dry, columns=["rain"]).ax_[0]
        assert mark(panel) == pytest.approx((0.0, top[1]))


def test_a_circuit_built_by_hand_is_sent_to_where_it_is_taken():
    builder = CircuitBuilder(n_states=[2])
    builder.discrete(0, np.log([0.3, 0.7]))
    circuit = builder.build()
    with pytest.raises(TypeError, match=r"got a Circuit; .*skpc.queries.posteriors"):
        MarginalsDisplay.from_estimator(circuit, [[np.nan]])
