"""Rules between columns: tables and densities that keep them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    MultipleImputer,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.synthesis import RuledDensity, find_rules, keep_rules
from tests.naive import rules as slow
from tests.naive import synthesis as naive

RULES = [
    ("zip", "determines", "city"),
    ("hours", "==", 0, "if", "job", "==", "no"),
    ("total", "==", ("sum", "a", "b")),
    ("copy", "==", "a"),
    ("year", "==", ("sum", "a"), "+", 1950.5),
    ("low", "<=", "price"),
    ("price", "<=", "high"),
]
#: Those columns that only the rules know.
DERIVED = ["city", "total", "copy", "year"]


def draws(n_rows=400, seed=0):
    """A table with rules of every kind."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 6, n_rows)
    job = np.where(rng.random(n_rows) < 0.3, "no", "yes")
    a = rng.poisson(2, n_rows) * 1.0
    b = rng.poisson(1 + place, n_rows) * 1.0
    low = np.round(10 + 3 * place + rng.gamma(2.0, size=n_rows), 1)
    gaps = np.round(rng.gamma(2.0, size=(2, n_rows)) * (rng.random((2, n_rows)) < 0.8), 1)
    return pd.DataFrame(
        {
            "zip": np.array(list("uvwxyz"))[place],
            "city": np.array(list("aabbcc"))[place],
            "job": job,
            "hours": np.where(job == "no", 0.0, 10.0 * rng.integers(0, 4, n_rows)),
            "a": a,
            "b": b,
            "total": a + b,
            "copy": a,
            "year": a + 1950.5,
            "low": low,
            "price": np.round(low + gaps[0], 1),
            "high": np.round(low + gaps.sum(axis=0), 1),
        }
    )


def holes(table, rate=0.4, seed=1):
    return table.mask(np.random.default_rng(seed).random(table.shape) < rate)


def as_dicts(table):
    rows = table.to_dict("records")
    return [{k: None if pd.isna(v) else v for k, v in row.items()} for row in rows]


def n_broken(table, rules=RULES, real=None):
    """How many cells of rules are broken, by loops."""
    rows, real = as_dicts(table), as_dicts(draws() if real is None else real)
    return sum(sum(naive.breaks(rule, rows, real)) for rule in rules)


@pytest.fixture(scope="module")
def model():
    return RuledDensity(TableMixture(n_components=4, random_state=0), RULES).fit(draws())


@pytest.mark.parametrize(
    "density",
    [
        CutsetNetworkBD(),
        HiddenChowLiuTree(random_state=0),
        MixtureOfAllTrees(max_iter=5, orientation="undirected", random_state=0),
        SoftLearnSPN(n_refine=3, random_state=0),
        TableMixture(n_components=2, random_state=0),
        StackedDensity([("a", CutsetNetworkBD()), ("b", CutsetNetworkBD(max_depth=0))], cv=2),
    ],
    ids=lambda one: type(one).__name__,
)
def test_draws_and_completions_of_every_density_keep_all_rules(density):
    table = draws(200)
    ruled = RuledDensity(density, RULES).fit(table)
    assert_array_equal(ruled.density_.feature_names_in_, table.columns.drop(DERIVED))
    drawn = ruled.sample(100, random_state=0)
    assert n_broken(drawn) == 0
    assert drawn.dtypes.equals(table.dtypes)
    rows = holes(table.head(30))
    for strategy in ("mean", "sample"):
        filled = ruled.complete(rows, strategy, random_state=0)
        assert n_broken(filled) == 0, strategy
        assert filled.notna().all().all()
        assert filled.where(rows.notna()).equals(rows.where(rows.notna()))
    again = pickle.loads(pickle.dumps(ruled))
    assert_array_equal(again.score_samples(rows), ruled.score_samples(rows))
    assert np.isfinite(ruled.score_samples(rows)).all()


@pytest.mark.parametrize("strategy", ["mean", "sample"])
@pytest.mark.parametrize("density", [CutsetNetworkBD(), TableMixture(random_state=0)])
def test_a_number_between_equal_ones_is_equal_to_them(density, strategy):
    table = draws()[["low", "price", "high", "zip"]]
    ruled = RuledDensity(density, RULES[-2:]).fit(table)
    rows = table.head(40).assign(price=np.nan)
    rows["low"] = rows["high"] = np.append(19.5, np.linspace(5, 60, 39))
    filled = ruled.complete(rows, strategy, random_state=0)
    assert_array_equal(filled["price"], rows["low"])


def small(seed):
    """A table of few states under several rules that meet, in the order in which they compute."""
    rng = np.random.default_rng(seed)
    k, a = rng.integers(0, 3, (2, 600))
    usual = dict(enumerate(rng.permutation([0, 1, 1]).tolist()))
    z = np.where(k == 1, 2, rng.integers(0, 3, 600))
    top = np.minimum(a + rng.binomial(3, 0.3 + 0.2 * (k == 2)), 4)
    columns = {"k": k, "d": [usual[one] for one in k], "z": z, "a": a, "total": z + a + 4}
    rules = [
        ("k", "determines", "d"),
        ("z", "==", 2, "if", "k", "==", 1),
        ("total", "==", ("sum", "z", "a"), "+", 4),
        ("a", "<=", "top"),
        ("z", "<=", "top") if seed % 2 else ("top", "<=", "total"),
    ]
    if seed % 2:
        top = np.maximum(top, z)
    return pd.DataFrame(columns | {"top": top}).astype(float), rules, usual


@pytest.fixture(scope="module", params=range(4))
def enumerated(request):
    """A ruled density of few states, and all its rows with their densities."""
    table, rules, usual = small(request.param)
    density = [CutsetNetworkBD(), HiddenChowLiuTree(random_state=0)][request.param // 2]
    # Scores of categories that are numbers sum to one.
    density.set_params(categorical_features=["k", "z", "a", "top"])
    ruled = RuledDensity(density, rules).fit(table)
    learned = ruled.density_.feature_names_in_.tolist()
    states = {name: np.unique(table[name]).tolist() for name in learned}

    def joint(rows):
        return np.exp(ruled.density_.score_samples(pd.DataFrame(rows, columns=learned))).tolist()

    return ruled, table, *slow.law(joint, states, rules, usual)


def test_scores_of_complete_rows_are_those_of_draws_that_are_kept(enumerated):
    ruled, table, rows, part = enumerated
    error = 5 * np.sqrt((1 - part) / (10_000 * part))
    assert ruled.log_normalizer_se_ == pytest.approx(error / 5, rel=0.3, abs=2e-4)
    assert ruled.log_normalizer_ == pytest.approx(np.log(part), abs=error)
    whole = table.drop_duplicates()
    wanted = [sum(m for _, m in slow.matching(rows, cells)) for cells in as_dicts(whole)]
    assert_allclose(ruled.score_samples(whole) + ruled.log_normalizer_, np.log(wanted), atol=1e-9)
    assert ruled.score(whole) == pytest.approx(ruled.score_samples(whole).mean())
    broken = whole.assign(total=whole["total"] + 1)
    assert np.isneginf(ruled.score_samples(broken)).all()
    assert ruled.score(broken) == -np.inf
    assert ruled.score(broken, sample_weight=None) == -np.inf


def test_draws_have_the_shares_of_the_scores(enumerated):
    ruled, _, rows, _ = enumerated
    drawn = ruled.sample(20_000, random_state=0)
    counts = drawn.value_counts()
    names = list(drawn.columns)
    together = {}
    for row, mass in rows:
        key = tuple(row[name] for name in names)
        together[key] = together.get(key, 0.0) + mass
    total = sum(together.values())
    assert set(counts.index) <= set(together)
    for key, mass in together.items():
        share = mass / total
        error = 5 * np.sqrt(share * (1 - share) / 20_000) + 3e-4
        assert counts.get(key, 0) / 20_000 == pytest.approx(share, abs=error)


def test_scores_of_incomplete_rows_are_sums_over_what_may_be_missing(enumerated):
    ruled, table, rows, part = enumerated
    asked = holes(table.head(40), rate=0.5)
    scores = ruled.score_samples(asked)
    differences = []
    for cells, score in zip(as_dicts(asked), scores):
        # What a value fixes says nothing; where that is open, the cell is evidence as it is.
        if cells["k"] is None and cells["z"] is not None:
            continue
        wanted = np.log(sum(m for _, m in slow.matching(rows, cells)) / part)
        differences.append(score - wanted)
    # Of 200 draws for a row, at the worst one in ten keeps the rules.
    assert len(differences) > 20
    assert np.abs(differences).max() < 5 * np.sqrt(0.9 / (200 * 0.1))
    assert np.abs(np.mean(differences)) < 0.05
    assert np.mean(np.abs(differences)) < 0.1


def test_completions_are_means_of_what_may_be_missing(enumerated):
    ruled, table, rows, _ = enumerated
    asked = table.head(30).copy()
    asked[["a", "total", "top"]] = np.nan
    asked.loc[asked.index[::2], "top"] = table["top"]
    filled = ruled.complete(asked)
    marginal = []
    for cells, total, a in zip(as_dicts(asked), filled["total"], filled["a"]):
        fits = slow.matching(rows, cells)
        mass = sum(m for _, m in fits)
        marginal.append(abs(a - sum(m * row["a"] for row, m in fits) / mass))
        assert total == a + cells["z"] + 4
    # Means become the nearest of few states.
    assert max(marginal) < 0.65


def test_a_value_that_fixes_another_leaves_nothing_of_it(model):
    table = draws()
    rows = table[table["job"] == "no"].head(5)
    scores = model.score_samples(rows)
    learned = rows.drop(columns=DERIVED).assign(hours=np.nan)
    wanted = model.density_.score_samples(learned) - model.log_normalizer_
    assert_allclose(scores, wanted)
    # As evidence it says nothing, either: any of them may have come from this state.
    drawn = model.sample(40, random_state=0, given={"job": "no"})
    assert (drawn["hours"] == 0.0).all()


def test_a_known_total_weighs_its_parts_by_their_density():
    rng = np.random.default_rng(0)
    a = rng.normal(size=400)
    b = 0.5 * a + rng.normal(size=400)
    X = np.column_stack([a, b, a + b])
    ruled = RuledDensity(TableMixture(n_components=1, random_state=0), [(2, "==", ("sum", 0, 1))])
    ruled.fit(X)
    rows = np.array([[np.nan, np.nan, total] for total in (-2.0, 0.3, 1.5)])

    def joint(parts):
        return np.exp(ruled.density_.score_samples(parts))

    wanted = [np.log(slow.sum_density(joint, total, -8.0, 8.0)) for total in rows[:, 2]]
    assert_allclose(ruled.score_samples(rows), wanted, atol=0.2)
    filled = ruled.complete(rows)
    assert_array_equal(np.isnan(filled), False)
    assert_allclose(filled[:, 0] + filled[:, 1], rows[:, 2], rtol=1e-9)
    # The mean of a part given the sum, of normal numbers.
    covariance = np.cov(X.T)
    slope = covariance[0, 2] / covariance[2, 2]
    assert_allclose(filled[:, 0], slope * rows[:, 2], atol=0.3)


def test_what_is_given_of_any_column_is_kept(model):
    for given, holds in (
        ({"total": (3, 4)}, lambda t: t["total"].between(3, 4)),
        ({"city": "b"}, lambda t: t["zip"].isin(["w", "x"])),
        ({"a": 2.0, "total": 5.0}, lambda t: (t["b"] == 3.0) & (t["total"] == 5.0)),
        ({"year": 1952.5}, lambda t: t["a"] == 2.0),
        (
            {"low": 15.0, "zip": ["v", "w"]},
            lambda t: (t["low"] == 15.0) & t["zip"].isin(["v", "w"]),
        ),
        ({"zip": "u", "low": 12.0, "price": (None, 13)}, lambda t: t["price"].between(12, 13)),
    ):
        drawn = model.sample(60, random_state=0, given=given)
        assert len(drawn) == 60
        assert n_broken(drawn) == 0
        assert holds(drawn).all(), given
    row = draws(1).assign(b=np.nan, total=np.nan, price=np.nan)
    for given in (row, row.iloc[0], row.to_numpy()[0]):
        drawn = model.sample(5, random_state=0, given=given)
        assert (drawn["low"] == row["low"].item()).all()
        assert n_broken(drawn) == 0
    assert model.sample(3, random_state=1, given={}).equals(model.sample(3, random_state=1))
    assert len(model.sample(0)) == 0


def test_what_cannot_be_is_refused(model):
    for given in ({"low": 50.0, "price": 40.0}, {"zip": "u", "city": "b"}):
        with pytest.raises(ValueError, match="given must be possible"):
            model.sample(5, given=given)
    with pytest.raises(ValueError, match="at least once in a hundred; found 0 of"):
        model.sample(5, given={"total": (5000, 6000)})
    with pytest.raises(ValueError, match="strategy must be one of"):
        model.complete(draws(5), "mpe")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1)) + np.arange(7) / 100
    rules = [(j, "<=", j + 1) for j in range(6)]
    with pytest.raises(ValueError, match=r"once in a hundred; found \d+ of 10,000"):
        RuledDensity(CutsetNetworkBD(max_depth=0, n_bins=1), rules).fit(X)


def test_a_row_that_breaks_a_rule_stays_as_it_is_with_a_warning(model):
    rows = draws(5).assign(total=99.0)
    rows.loc[0, "hours"] = np.nan
    assert np.isneginf(model.score_samples(rows)).all()
    with pytest.warns(UserWarning, match="5 rows break a rule, .* row 0, which breaks .'total'"):
        filled = model.complete(rows)
    assert (filled["total"] == 99.0).all()
    assert filled.notna().all().all()
    unknown = draws(5).assign(city="Atlantis")
    assert np.isneginf(model.score_samples(unknown)).all()


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([("a", "<", "b")], "must be a list of tuples"),
        ([("a", "==", "copy", "+", 0)], "must be a list of tuples"),
        ([("a", "==", ("sum", "copy"), "-", 0)], "must be a list of tuples"),
        ([("a", "==", ("sum", "copy"), "+", np.nan)], "must be a list of tuples"),
        ([("a", "==", ("sum", "copy"), "+", 1)], r"\d+ break one; the first breaks"),
        (("a", "<=", "b"), "must be a list of tuples"),
        ([("a", "==", "nothing")], "not a column"),
        ([("a", "==", "b")], r"\d+ break one; the first breaks"),
        ([("high", "<=", "low")], r"\d+ break one; the first breaks"),
        ([("a", "determines", "a")], "different columns"),
        ([("a", "==", ("sum",))], "different columns"),
        ([("zip", "<=", "a")], "columns of numbers"),
        ([("total", "==", ("sum", "zip", "a"))], "columns of numbers"),
        (
            [("city", "==", "q", "if", "zip", "==", "u")],
            "that their columns have; found 'q'",
        ),
    ],
)
def test_rules_that_cannot_be_are_refused(rules, message):
    with pytest.raises(ValueError, match=message):
        RuledDensity(CutsetNetworkBD(), rules).fit(draws(100))
    if "break" not in message:
        with pytest.raises(ValueError, match=message):
            keep_rules(draws(100), rules)


def test_all_rules_that_are_found_can_be_passed_at_once():
    table = draws(600)[["zip", "city", "job", "hours", "a", "b", "total", "copy"]]
    table["town"] = table["city"].str.upper()
    found = find_rules(table).rules
    names = [one.rule for one in found]
    # Circles, and several rules for one column, are among them.
    assert ("city", "determines", "town") in names
    assert ("town", "determines", "city") in names
    assert {("copy", "==", ("sum",)), ("a", "==", "copy")} & {*names}
    ruled = RuledDensity(CutsetNetworkBD(), found).fit(table)
    drawn = ruled.sample(200, random_state=0)
    assert n_broken(drawn, names, table) == 0
    filled = ruled.complete(holes(table.head(40)))
    assert n_broken(filled, names, table) == 0


def test_two_sums_of_one_total_determine_two_columns():
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 300))
    X = pd.DataFrame({"a": a, "b": b, "c": c, "d": a + b - c, "total": a + b})
    rules = [("total", "==", ("sum", "a", "b")), ("total", "==", ("sum", "c", "d"))]
    ruled = RuledDensity(TableMixture(n_components=1), rules).fit(X)
    assert ruled.density_.n_features_in_ == 3
    assert ruled.log_normalizer_ == 0.0
    drawn = ruled.sample(50, random_state=0)
    assert_allclose(drawn["a"] + drawn["b"], drawn["total"])
    assert_allclose(drawn["c"] + drawn["d"], drawn["total"])


def test_without_rules_it_is_the_density():
    table = draws(150)
    plain = CutsetNetworkBD().fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        empty = RuledDensity(CutsetNetworkBD(), []).fit(table)
    assert_array_equal(plain.score_samples(table), empty.score_samples(table))
    assert plain.sample(20, random_state=3).equals(empty.sample(20, random_state=3))
    rows = holes(table.head(20))
    assert plain.complete(rows).equals(empty.complete(rows))
    assert empty.log_normalizer_ == empty.log_normalizer_se_ == 0.0


def test_weights_are_passed_on_and_rows_of_weight_zero_are_absent():
    table = draws(100)
    weight = np.random.default_rng(7).integers(0, 3, 100)
    broken = table.assign(total=table["total"] + (weight == 0))
    weighed = RuledDensity(CutsetNetworkBD(), RULES).fit(broken, sample_weight=weight)
    repeated = table.loc[np.repeat(table.index, weight)]
    repeated = RuledDensity(CutsetNetworkBD(), RULES).fit(repeated)
    rows = draws(30, 5)
    assert_allclose(weighed.score_samples(rows), repeated.score_samples(rows))
    score = weighed.score(rows, sample_weight=np.arange(30))
    assert score == pytest.approx(np.average(weighed.score_samples(rows), weights=np.arange(30)))


def test_determined_cells_are_filled_before_the_fit():
    table = draws(200)
    lost = table.copy()
    lost.loc[::2, "b"] = np.nan
    lost.loc[1::2, "total"] = np.nan
    lost.loc[::3, "hours"] = lost["hours"].where(lost["job"] != "no")
    one, two = (RuledDensity(CutsetNetworkBD(), RULES).fit(each) for each in (table, lost))
    assert_allclose(one.score_samples(table), two.score_samples(table))


def test_polars_tables_and_arrays_of_objects_keep_rules_as_frames_do():
    table = draws(200)
    filled = {}
    for kind, convert in (("pandas", pd.DataFrame), ("polars", pl.from_pandas)):
        ruled = RuledDensity(CutsetNetworkBD(), RULES).fit(convert(table))
        rows = convert(holes(table.head(20)))
        filled[kind] = pd.DataFrame(dict(zip(table, ruled.complete(rows).to_numpy().T)))
        assert n_broken(filled[kind]) == 0
        assert type(ruled.sample(2, random_state=0)) is type(rows)
    assert (filled["pandas"] == filled["polars"]).all().all()
    numbered = {name: j for j, name in enumerate(table)}
    rules = [
        tuple(
            tuple(numbered.get(name, name) for name in part)
            if isinstance(part, tuple)
            else numbered.get(part, part)
            for part in rule
        )
        for rule in RULES
    ]
    X = table.to_numpy(dtype=object)
    ruled = RuledDensity(CutsetNetworkBD(), rules).fit(X)
    drawn = ruled.sample(60, random_state=0, given={3: (0, 20), 6: (2, 8)})
    assert n_broken(pd.DataFrame(drawn, columns=table.columns)) == 0
    assert ((drawn[:, 6] >= 2) & (drawn[:, 6] <= 8)).all()


def test_dates_have_an_order_whatever_their_units():
    rng = np.random.default_rng(0)
    start = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 200), "D")
    end = start + pd.to_timedelta(rng.integers(0, 500, 200), "h")
    table = pd.DataFrame({"start": start, "end": end, "kind": rng.choice(["x", "y"], 200)})
    found = find_rules(table).rules
    assert [one.rule for one in found] == [("start", "<=", "end")]
    ruled = RuledDensity(TableMixture(random_state=0), found).fit(table)
    assert (ruled.sample(300, random_state=0).eval("start <= end")).all()
    filled = ruled.complete(table.head(50).assign(end=pd.NaT))
    assert filled.eval("start <= end").all()
    mixed = table.assign(end=table["start"].to_numpy()[::-1])
    settled = keep_rules(mixed, found)
    assert settled.eval("start <= end").all()
    is_same = (settled == mixed) | ~(mixed["start"] > mixed["end"]).to_numpy()[:, np.newaxis]
    assert settled.dtypes.equals(mixed.dtypes)
    assert is_same[["kind"]].all().all()
    zoned = mixed.assign(**{c: mixed[c].dt.tz_localize("Europe/Paris") for c in ("start", "end")})
    settled = keep_rules(zoned, found)
    assert settled.eval("start <= end").all()
    assert settled.dtypes.equals(zoned.dtypes)
    with pytest.raises(ValueError, match="columns of numbers, or dates for an order"):
        keep_rules(table.assign(n=1.0), [("start", "<=", "n")])


def test_a_day_that_a_rule_names_is_a_day():
    day = pd.Timestamp("2024-03-01")
    rng = np.random.default_rng(0)
    other = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 300), "D")
    kind = rng.choice(["x", "y"], 300)
    table = pd.DataFrame({"kind": kind, "day": np.where(kind == "x", day.to_numpy(), other)})
    (found,) = (one.rule for one in find_rules(table).rules if len(one.rule) == 7)
    for rule in (found, ("day", "==", day, "if", "kind", "==", "x")):
        ruled = RuledDensity(TableMixture(random_state=0), [rule]).fit(table)
        drawn = ruled.sample(100, random_state=0)
        assert (drawn["day"][drawn["kind"] == "x"] == day).all()
        assert drawn["day"].nunique() > 10


def test_totals_are_values_of_their_column():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(1, 90, (2, 400)) / 10).round(1)
    table = pd.DataFrame({"a": a, "b": b, "total": (a + b).round(1)})
    ruled = RuledDensity(CutsetNetworkBD(), [("total", "==", ("sum", "a", "b"))]).fit(table)
    drawn = ruled.sample(300, random_state=0)
    assert_array_equal(drawn["total"], drawn["total"].round(1))


def test_a_gap_of_none_is_learned_where_it_is_a_column():
    rng = np.random.default_rng(0)
    low = rng.gamma(4.0, size=500)
    gap = np.where(rng.random(500) < 0.3, 0.0, rng.gamma(2.0, size=500))
    table = pd.DataFrame({"low": low, "gap": gap, "high": low + gap})
    ruled = RuledDensity(CutsetNetworkBD(), [("high", "==", ("sum", "low", "gap"))]).fit(table)
    drawn = ruled.sample(3000, random_state=0)
    assert (drawn["low"] <= drawn["high"]).all()
    assert (drawn["low"] == drawn["high"]).mean() == pytest.approx((gap == 0.0).mean(), abs=0.04)
    between = ruled.sample(500, random_state=0, given={"high": (5, 6)})
    assert between["high"].between(5, 6).all()


def test_imputers_take_it_as_a_density():
    table = draws(200)
    ruled = RuledDensity(CutsetNetworkBD(), RULES)
    imputer = CircuitImputer(ruled, random_state=0).set_output(transform="pandas").fit(holes(table))
    filled = imputer.transform(holes(table))
    assert n_broken(filled) == 0
    imputer.set_params(strategy="sample")
    assert n_broken(imputer.transform(holes(table))) == 0


# keep_rules


@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_a_completed_table_keeps_the_rules_and_what_was_observed(rate):
    table, rows = draws(), holes(draws(), rate)
    imputer = CircuitImputer(TableMixture(n_components=2, random_state=0))
    completed = imputer.set_output(transform="pandas").fit_transform(rows)
    assert n_broken(completed) > 20
    settled = keep_rules(completed, RULES, observed=rows)
    # A key that the holes have never shown with its value fixes nothing.
    assert n_broken(settled, real=rows) == 0
    assert settled.where(rows.notna()).equals(rows.where(rows.notna()))
    assert settled.dtypes.equals(completed.dtypes)
    assert keep_rules(settled, RULES, observed=rows).equals(settled)
    alone = keep_rules(completed, RULES)
    assert n_broken(alone, real=alone) == 0
    assert keep_rules(table, RULES).equals(table)


def test_tables_of_a_multiple_imputer_can_be_kept():
    table = draws(150)[["low", "price", "high", "a"]]
    rows = holes(table)
    orders = RULES[-2:]
    imputer = MultipleImputer(TableMixture(n_components=1), n_imputations=2, random_state=0)
    for completed in imputer.fit_impute(rows):
        settled = keep_rules(completed, orders, observed=rows)
        assert n_broken(settled, orders) == 0
        assert settled["a"].equals(completed["a"])
        is_right = pd.Series((np.diff(completed[["low", "price", "high"]]) >= 0).all(axis=1))
        assert settled[is_right].equals(completed[is_right])


def test_another_table_is_not_what_was_observed():
    with pytest.raises(ValueError, match="observed must have the rows of the completed table, 20"):
        keep_rules(draws(20), RULES, observed=draws(19))
    with pytest.raises(ValueError, match="feature names"):
        keep_rules(draws(20), RULES, observed=draws(20).iloc[:, ::-1])


def test_columns_without_values_and_names_of_rows_pass_through():
    table = draws(120)[["low", "price", "zip", "city"]]
    table["name"] = [f"person {row}" for row in range(120)]
    table["empty"] = np.nan
    rules = [("low", "<=", "price"), ("zip", "determines", "city")]
    with pytest.warns(UserWarning, match="no value|names the rows|seen once"):
        ruled = RuledDensity(CutsetNetworkBD(), rules).fit(table)
    drawn = ruled.sample(30, random_state=0)
    assert n_broken(drawn.drop(columns="empty"), rules, table) == 0
    assert drawn["name"].isin(table["name"]).all()
    assert drawn["empty"].isna().all()
    filled = ruled.complete(table.head(20).assign(city=None, price=np.nan))
    assert (filled["name"] == table["name"].head(20)).all()
    assert n_broken(filled.drop(columns="empty"), rules, table) == 0
    assert filled["empty"].isna().all()


def test_orders_are_kept_by_the_lesser_of_two_ways():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 9, (300, 4)).astype(float)
    rules = [(0, "<=", 1), (1, "<=", 2), (2, "<=", 3)]
    settled = keep_rules(rows, rules)
    wanted = [slow.nearest_in_order(row, [False] * 4) for row in rows.tolist()]
    assert_array_equal(settled, wanted)
    observed = np.where(rng.random(rows.shape) < 0.3, np.sort(rows, axis=1), np.nan)
    completed = np.where(np.isnan(observed), rows, observed)
    is_known = ~np.isnan(observed)
    wanted = [slow.nearest_in_order(*each) for each in zip(completed.tolist(), is_known.tolist())]
    assert_array_equal(keep_rules(completed, rules, observed=observed), wanted)
    pairs = keep_rules(rows[:60, :2], rules[:1])
    change = np.abs(pairs - rows[:60, :2]).sum(axis=1)
    grid = np.arange(9.0)
    assert_array_equal(change, [slow.nearest_pair(*row, grid) for row in rows[:60, :2]])


def test_a_tree_of_orders_and_sums_is_kept_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6)) * [1, 1, 1, 2, 1, 1] + [0, 0, 0, 0, 1, 1]
    rules = [
        (0, "<=", 2),
        (1, "<=", 2),
        (2, "<=", 4),
        (3, "==", ("sum", 0, 1)),
        (3, "<=", 5),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settled = keep_rules(X, rules)
    for low, high in ((0, 2), (1, 2), (2, 4), (3, 5)):
        assert (settled[:, low] <= settled[:, high]).all()
    assert_allclose(settled[:, 3], settled[:, 0] + settled[:, 1], atol=1e-8)
    fits = (X[:, 0] <= X[:, 2]) & (X[:, 1] <= X[:, 2]) & (X[:, 2] <= X[:, 4])
    fits &= X[:, 0] + X[:, 1] <= X[:, 5]
    assert fits.any()
    assert_array_equal(settled[fits][:, [0, 1, 2, 4, 5]], X[fits][:, [0, 1, 2, 4, 5]])


def test_a_known_total_changes_a_free_part():
    completed = np.array([[1.0, 8.0, 6.0], [3.0, 3.0, 6.0], [2.0, 9.0, 6.0]])
    observed = np.array([[np.nan, np.nan, 6.0], [3.0, np.nan, 6.0], [2.0, np.nan, 6.0]])
    settled = keep_rules(completed, [(2, "==", ("sum", 0, 1))], observed=observed)
    # The greater part gives way.
    assert_array_equal(settled, [[1.0, 5.0, 6.0], [3.0, 3.0, 6.0], [2.0, 4.0, 6.0]])


def test_a_known_value_changes_the_state_that_would_fix_another():
    table = pd.DataFrame(
        {"job": ["no", "no", "part", "full", "full"], "hours": [0, 0, 9, 40, 41.0]}
    )
    rule = ("hours", "==", 0, "if", "job", "==", "no")
    completed = pd.DataFrame({"job": ["no", "no"], "hours": [40.0, 0.0]})
    observed = completed.assign(job=[None, "no"])
    observed = pd.concat([table, observed], ignore_index=True)
    completed = pd.concat([table, completed], ignore_index=True)
    settled = keep_rules(completed, [rule], observed=observed)
    assert settled["job"].tolist()[-2:] == ["full", "no"]
    assert settled["hours"].tolist()[-2:] == [40.0, 0.0]


def test_whole_numbers_stay_whole_and_missing_cells_missing():
    table = pd.DataFrame({"low": [5, 1, 7], "high": [3.5, 2.0, np.nan], "kind": ["x", None, "y"]})
    settled = keep_rules(table, [("low", "<=", "high")])
    assert settled["low"].dtype == table["low"].dtype
    assert settled["high"].fillna(-1.0).tolist() == [5.0, 2.0, -1.0]
    assert settled["kind"].isna().tolist() == [False, True, False]
    # What would be raised to a fraction cannot be: the other one is lowered.
    table = pd.DataFrame({"low": [3.4, 1.0], "high": [3, 2]})
    settled = keep_rules(table, [("low", "<=", "high")])
    assert settled["high"].dtype == table["high"].dtype
    assert settled.to_numpy().tolist() == [[3.0, 3.0], [1.0, 2.0]]


def test_rows_that_nothing_can_save_are_told():
    observed = pd.DataFrame({"low": [1.0, 1.0], "price": [np.nan, 2.0], "high": [0.5, 3.0]})
    rules = [("low", "<=", "price"), ("price", "<=", "high")]
    with pytest.warns(UserWarning, match="1 rows break a rule, as known cells"):
        settled = keep_rules(observed.fillna(0.7), rules, observed=observed)
    assert settled["low"].tolist() == [1.0, 1.0]
    assert settled["high"].tolist() == [0.5, 3.0]


@pytest.mark.parametrize("unit", [1e-27, 1e30])
def test_rules_do_not_depend_on_the_unit(unit):
    table = draws(200)[["a", "b", "total", "low", "price", "high"]]
    rules = [("total", "==", ("sum", "a", "b")), *RULES[-2:]]
    rows = holes(table)
    completed = rows.fillna(rows.mean())
    settled = keep_rules(completed, rules, observed=rows)
    assert n_broken(settled, rules) == 0
    scaled = keep_rules(completed * unit, rules, observed=rows * unit)
    assert_allclose(scaled / unit, settled, rtol=1e-9)
