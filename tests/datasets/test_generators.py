"""Generated tables and holes follow the distributions that they promise."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import ks_2samp

from skpc import CutsetNetworkBD
from skpc.datasets import make_chow_liu, make_ising, make_missing


def test_ising_samples_have_the_probabilities_of_the_model():
    coupling, field = 0.3, 0.2
    states = np.array(list(itertools.product([0.0, 1.0], repeat=4)))
    spin = 2 * states - 1
    energy = coupling * sum(spin[:, i] * spin[:, j] for i, j in [(0, 1), (2, 3), (0, 2), (1, 3)])
    weight = np.exp(energy + field * spin.sum(axis=1))
    X = make_ising(40_000, rows=2, cols=2, coupling=coupling, field=field, random_state=0)
    found = np.bincount((X @ [8, 4, 2, 1]).astype(int), minlength=16) / len(X)
    assert_allclose(found, weight / weight.sum(), atol=0.01)


@pytest.mark.parametrize(("rows", "cols", "fitting"), [(13, 13, 12), (11, 100, 10), (50, 20, 10)])
def test_a_grid_that_is_too_wide_is_refused_with_the_width_that_fits(rows, cols, fitting):
    short, long = min(rows, cols), max(rows, cols)
    with pytest.raises(ValueError, match=f"if one side is {long}, the other may be {fitting}"):
        make_ising(10, rows=rows, cols=cols)
    assert long * fitting * 2**fitting <= 2**20 < long * (fitting + 1) * 2 ** (fitting + 1)
    assert fitting < short


def test_the_longer_side_may_be_either():
    upright, lying = (make_ising(1, rows=r, cols=c, coupling=9.0) for r, c in [(6, 2), (2, 6)])
    assert len(set(upright.ravel())) == len(set(lying.ravel())) == 1


def test_columns_of_a_tree_depend_on_each_other_and_a_tree_describes_them():
    X = make_chow_liu(4000, 6, n_states=3, concentration=0.3, random_state=1)
    assert X.shape == (4000, 6)
    assert set(np.unique(X)) == {0.0, 1.0, 2.0}
    states = [[0, 1, 2]] * 6
    tree = CutsetNetworkBD(categories=states).fit(X[:2000])
    shares = [np.bincount(column.astype(int), minlength=3) / 2000 for column in X[:2000].T]
    apart = np.mean([np.log(p[column.astype(int)]) for p, column in zip(shares, X[2000:].T)]) * 6
    assert tree.n_cuts_ == 0
    assert tree.score(X[2000:]) > apart + 0.5


@pytest.mark.parametrize("make", [make_ising, make_chow_liu])
def test_the_same_seed_gives_the_same_rows(make):
    assert_array_equal(make(20, random_state=3), make(20, random_state=3))
    assert (make(20, random_state=3) != make(20, random_state=4)).any()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("mechanism", ["mcar", "mar", "mnar"])
def test_the_rate_is_the_share_of_missing_cells(mechanism, rate):
    X = np.random.default_rng(0).normal(size=(20_000, 4))
    holes = np.isnan(make_missing(X, mechanism, rate, random_state=0))
    assert holes[:, 0].mean() == (0 if mechanism == "mar" else pytest.approx(rate, abs=0.02))
    assert_allclose(holes[:, 1:].mean(axis=0), rate, atol=0.02)


def test_each_mechanism_looks_at_what_it_may_look_at():
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    drawn = {m: np.isnan(make_missing(X, m, 0.4, random_state=0)) for m in ("mcar", "mar", "mnar")}
    correlation = {
        m: [np.corrcoef(h[:, 1], X[:, column])[0, 1] for column in (0, 1, 2)]
        for m, h in drawn.items()
    }
    assert_allclose(correlation["mcar"], 0.0, atol=0.03)
    assert correlation["mar"][0] > 0.3
    assert_allclose(correlation["mar"][1:], 0.0, atol=0.03)
    assert correlation["mnar"][1] > 0.3
    assert_allclose(correlation["mnar"][::2], 0.0, atol=0.03)


def test_data_frames_keep_their_columns_and_are_not_changed():
    table = pd.DataFrame({"x": np.arange(200.0), "kind": pd.Categorical(["a", "b"] * 100)})
    before = table.copy()
    for mechanism in ("mcar", "mar", "mnar"):
        found = make_missing(table, mechanism, 0.5, random_state=0)
        assert list(found) == ["x", "kind"]
        assert found["kind"].dtype == table["kind"].dtype
        assert found["kind"].isna().any()
        seen = found["kind"].notna()
        assert (found["kind"][seen] == table["kind"][seen]).all()
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize("mechanism", ["mcar", "mar", "mnar"])
def test_polars_frames_lose_the_cells_that_pandas_frames_lose(mechanism):
    columns = {"x": np.arange(60.0), "kind": ["a", "b"] * 30, "known": [True, False, True] * 20}
    dtypes = {"kind": pl.Categorical}
    found = make_missing(
        pl.DataFrame(columns, schema_overrides=dtypes), mechanism, 0.5, random_state=0
    )
    expected = make_missing(pd.DataFrame(columns), mechanism, 0.5, random_state=0)
    assert found.dtypes == [pl.Float64, pl.Categorical, pl.Boolean]
    for name in columns:
        lost = found[name].is_null().to_numpy()
        assert_array_equal(lost, expected[name].isna())
        assert_array_equal(found[name].to_numpy()[~lost], expected[name][~lost])


def test_values_that_decide_must_be_there():
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "kind": ["a", None, "b"]})
    with pytest.raises(ValueError, match="column 1 is missing in row 1; use 'mcar'"):
        make_missing(table, "mnar")
    for mechanism in ("mcar", "mar"):
        assert make_missing(table, mechanism, random_state=0)["kind"].isna()[1]


@pytest.mark.parametrize("concentration", [1e-300, 1e-3, 0.5, 20.0])
def test_tables_of_any_concentration_can_be_drawn(concentration):
    X = make_chow_liu(500, 3, n_states=3, concentration=concentration, random_state=0)
    assert set(np.unique(X)) <= {0.0, 1.0, 2.0}
    if concentration < 0.01:  # each column is a function of its parent
        assert len(np.unique(X, axis=0)) <= 3


def test_the_tables_of_a_tree_are_of_the_dirichlet_distribution():
    first = [make_chow_liu(200, 1, concentration=0.7, random_state=n).mean() for n in range(400)]
    truth = np.random.default_rng(0).beta(0.7, 0.7, 400)
    assert ks_2samp(first, truth).pvalue > 0.01


@pytest.mark.parametrize(
    ("mechanism", "rate"), [("random", 0.3), ("mcar", 1.0), ("mar", -0.1), ("mcar", "0.3")]
)
def test_wrong_requests_are_refused(mechanism, rate):
    with pytest.raises(ValueError, match="mechanism must be one of mcar, mar, mnar"):
        make_missing(np.ones((2, 2)), mechanism, rate)


@pytest.mark.parametrize("wrong", [{"n_features": 0}, {"n_states": 0}, {"concentration": 0.0}])
def test_trees_of_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match="must be 1 or more"):
        make_chow_liu(5, **wrong)
