"""Exact rules between the columns of densities: what they determine, allow and forbid."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    MultipleImputer,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.synthesis import find_rules
from tests.naive import rules as slow


def draws(n=600, seed=0):
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 6, n)
    job = np.where(rng.random(n) < 0.3, "no", "yes")
    hours = np.where(job == "no", 0.0, 10.0 * rng.integers(0, 4, n))
    a, b = rng.poisson(2, n) * 1.0, rng.poisson(1 + place, n) * 1.0
    return pd.DataFrame(
        {
            "zip": np.array(list("uvwxyz"))[place],
            "city": np.array(list("aabbcc"))[place],
            "job": job,
            "hours": hours,
            "a": a,
            "b": b,
            "total": a + b,
            "copy": a,
            "year": a + 1950.5,
        }
    )


RULES = [
    ("zip", "determines", "city"),
    ("hours", "==", 0, "if", "job", "==", "no"),
    ("total", "==", ("sum", "a", "b")),
    ("copy", "==", "a"),
    ("year", "==", ("sum", "a"), "+", 1950.5),
]


def holes(table, rate=0.4, seed=1):
    return table.mask(np.random.default_rng(seed).random(table.shape) < rate)


def keeps(table, codes="uvwxyz"):
    city = dict(zip(codes, "aabbcc"))
    return (
        (table["zip"].map(city) == table["city"]).all()
        and (table["hours"][table["job"] == "no"] == 0).all()
        and (table["total"] == table["a"] + table["b"]).all()
        and (table["copy"] == table["a"]).all()
        and (table["year"] == table["a"] + 1950.5).all()
    )


@pytest.fixture(scope="module")
def model():
    return CutsetNetworkBD(rules=RULES).fit(draws())


@pytest.mark.parametrize(
    "density",
    [
        CutsetNetworkBD(),
        HiddenChowLiuTree(random_state=0),
        MixtureOfAllTrees(n_components=2, max_iter=5, random_state=0),
        SoftLearnSPN(random_state=0),
        TableMixture(random_state=0),
        StackedDensity([("a", CutsetNetworkBD()), ("b", TableMixture(random_state=0))]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_draws_and_completions_of_every_density_keep_the_rules(density):
    table = draws(300)
    fitted = clone(density).set_params(rules=RULES).fit(table)
    assert keeps(fitted.sample(400, random_state=0))
    rows = holes(table.head(60))
    for strategy in ("mean", "mpe", "sample"):
        filled = fitted.complete(rows, strategy=strategy, random_state=0)
        assert keeps(filled), strategy
        assert filled.where(rows.notna()).equals(rows.where(rows.notna()))
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.score_samples(rows), fitted.score_samples(rows))


def learned(model):
    """The log density of what the learner sees, of lists of rows."""
    return lambda rows: model._learned_density.log_density(np.array(rows, dtype=float))


def check_against_sums(model, log_complete, states):
    """Every pattern of missing cells has the sum over its completions."""
    answers = model._density.log_density
    every = np.array(np.meshgrid(*states, indexing="ij")).reshape(len(states), -1).T
    every = every[np.isfinite(log_complete(every))]
    assert np.exp(answers(every)).sum() == pytest.approx(1.0, abs=1e-9)
    for pattern in range(2 ** len(states)):
        is_missing = (pattern >> np.arange(len(states))) % 2 == 1
        rows = np.where(is_missing, np.nan, every[::3])
        wanted = [slow.log_density(log_complete, states, row) for row in rows]
        assert answers(rows) == pytest.approx(wanted, abs=1e-9)


def test_a_value_that_a_state_fixes_is_summed_over_the_states():
    rng = np.random.default_rng(0)
    b = rng.integers(0, 3, 400)
    a = np.where(b == 1, 2, rng.integers(0, 4, 400))
    columns = {"categorical_features": [0, 1]}
    model = CutsetNetworkBD(rules=[(1, "==", 2, "if", 0, "==", 1)], **columns).fit(np.c_[b, a])
    log_complete = partial(slow.zero_if, learned(model), value=2.0, state=1.0)
    check_against_sums(model, log_complete, [np.arange(3.0), np.arange(4.0)])
    assert np.isneginf(model.score_samples([[1, 3]]))


def test_a_determined_column_is_summed_over_what_determines_it():
    a = np.random.default_rng(0).integers(0, 5, 300)
    values = np.array([0, 0, 1, 1, 1])
    columns = {"categorical_features": [0, 1]}
    model = CutsetNetworkBD(rules=[(0, "determines", 1)], **columns).fit(np.c_[a, values[a]])
    known = dict(enumerate(values.astype(float)))
    log_complete = partial(slow.determined, learned(model), values=known)
    check_against_sums(model, log_complete, [np.arange(5.0), np.arange(2.0)])


def test_a_sum_tells_its_missing_part_and_weighs_two():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 500)
    b = rng.integers(0, 4, 500) * (a > 0)
    X = np.c_[a, b, a + b].astype(float)
    model = CutsetNetworkBD(rules=[(2, "==", ("sum", 0, 1))], categorical_features=None).fit(X)
    log_complete = partial(slow.added, learned(model))
    check_against_sums(model, log_complete, [np.arange(3.0), np.arange(4.0), np.arange(6.0)])
    assert model.complete([[2.0, np.nan, 4.0]])[0, 1] == 2.0


@pytest.mark.parametrize("seed", range(6))
def test_rules_that_meet_in_one_column_are_summed_together(seed):
    rng = np.random.default_rng(seed)
    k, a = rng.integers(0, 3, (2, 500))
    of_k = rng.permutation([0, 1, 1])
    z = np.where(k == 1, 2, rng.integers(0, 3, 500))
    total = z + a + 4
    base = total if seed % 2 else a
    top = base + rng.binomial(2, 0.2 + 0.3 * (k == 2))
    X = np.column_stack([k, of_k[k], z, a, total, top]).astype(float)
    rules = [
        (0, "determines", 1),
        (2, "==", 2.0, "if", 0, "==", 1),
        (4, "==", ("sum", 2, 3), "+", 4),
        (4 if seed % 2 else 3, "<=", 5),
    ]
    rules = [rules[j] for j in rng.permutation(4)[: rng.integers(2, 5)]]
    density = [CutsetNetworkBD(), HiddenChowLiuTree(random_state=0)][seed % 2]
    model = clone(density).set_params(rules=rules, categorical_features=[0, 1]).fit(X)
    has_gap = any(rule[1] == "<=" for rule in rules)
    unseen = model._density.rules.learned.number_of(5).unseen if has_gap else 0.0
    naive_rules = [(*rule, of_k) if rule[1] == "determines" else rule for rule in rules]
    log_complete = partial(
        slow.together, learned(model), rules=naive_rules, gaps=range(3), log_seen=np.log1p(-unseen)
    )
    states = [np.unique(column) for column in X.T]
    if has_gap:
        states[5] = [np.nan]
    rows = X[rng.integers(500, size=40)]
    rows[rng.random(rows.shape) < 0.4] = np.nan
    wanted = [slow.log_density(log_complete, states, row) for row in rows]
    assert model._density.log_density(rows) == pytest.approx(wanted, abs=1e-9)


def test_evidence_goes_both_ways(model):
    assert model.probability({"job": "no"}, given={"hours": (10, None)}) == 0.0
    assert 0.4 < model.probability({"job": "no"}, given={"hours": (0, 0)}) < 0.9
    assert model.probability({"zip": ["u", "v"]}, given={"city": "a"}) == pytest.approx(1.0)
    assert model.probability({"city": "a"}, given={"zip": "w"}) == 0.0
    drawn = model.sample(50, random_state=0, given={"city": "b"})
    assert set(drawn["zip"]) == {"w", "x"}
    drawn = model.sample(50, random_state=0, given={"total": (3, 4)})
    assert drawn["total"].between(3, 4).all()
    assert keeps(drawn)


def test_means_and_intervals_of_a_sum_follow_from_its_parts(model):
    (of_total,) = [model.distribution("total", given={"a": 2.0})]
    (of_b,) = [model.distribution("b", given={"a": 2.0})]
    assert of_total.mean() == pytest.approx(of_b.mean() + 2.0)
    assert of_total.quantile(0.9) == of_b.quantile(0.9) + 2.0
    whole = model.distribution("total").mean()
    parts = model.distribution("a").mean() + model.distribution("b").mean()
    assert whole == pytest.approx(parts, abs=1e-3)


def test_a_row_that_breaks_a_rule_is_impossible_and_stays_as_it_is(model):
    rows = draws(5).assign(total=99.0)
    rows.loc[0, "hours"] = np.nan
    assert np.isneginf(model.score_samples(rows)).all()
    with pytest.warns(UserWarning, match="break a rule"):
        filled = model.complete(rows)
    assert (filled["total"] == 99.0).all()
    assert filled.notna().all().all()
    scores = model.score_cells(rows)
    assert np.isneginf(scores[["a", "b", "total"]]).all().all()


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
        ([("a", "==", "copy"), ("copy", "==", "a")], "cycle"),
        ([("total", "==", ("sum", "a", "b")), ("total", "==", "copy")], "Two rules"),
        ([("a", "==", "b")], r"\d+ break one; the first breaks"),
        ([("a", "determines", "a")], "different columns"),
        ([("zip", "<=", "a")], "columns of numbers"),
    ],
)
def test_rules_that_cannot_be_are_refused(rules, message):
    with pytest.raises(ValueError, match=message):
        CutsetNetworkBD(rules=rules).fit(draws(100))


def test_rules_belong_to_the_estimator_that_reads_the_table():
    table = draws(100)
    with pytest.raises(ValueError, match="rules need a whole table"):
        DensityClassifier(CutsetNetworkBD(rules=RULES)).fit(table, table["job"])
    with pytest.raises(ValueError, match="rules need a whole table"):
        CutsetNetworkBD(rules=RULES).fit(table).partial_fit(table)
    with pytest.raises(ValueError, match="rules need a whole table"):
        CutsetNetworkBD(rules=RULES).fit(iter([table]))


def test_an_estimator_without_rules_is_as_before():
    table = draws(100)
    plain, empty = CutsetNetworkBD().fit(table), CutsetNetworkBD(rules=[]).fit(table)
    assert np.array_equal(plain.score_samples(table), empty.score_samples(table))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plain.complete(table).equals(table)


@pytest.mark.parametrize("strategy", ["mean", "mpe", "sample"])
def test_the_imputer_keeps_the_rules_whatever_fills_numbers_and_categories(strategy):
    table = draws(150)
    rows = holes(table.head(40))
    imputer = CircuitImputer(rules=RULES, strategy=strategy, random_state=0).fit(table)
    assert keeps(imputer.set_output(transform="pandas").transform(rows))
    given = CircuitImputer(CutsetNetworkBD(), rules=RULES, strategy=strategy, random_state=0)
    assert keeps(given.fit(table).set_output(transform="pandas").transform(rows))


def chain(n=500, seed=0):
    """Three numbers in order, of which the last two are often equal, and a category."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    low = rng.gamma(4.0, 1.0 + kind)
    middle = low + rng.gamma(2.0, 1.0 + kind)
    high = middle + np.where(rng.random(n) < 0.3, 0.0, rng.gamma(2.0, size=n))
    return np.column_stack([low, middle, high, kind])


ORDERS = [(0, "<=", 1), (1, "<=", 2)]


@pytest.fixture(scope="module", params=[CutsetNetworkBD(), TableMixture(random_state=0)])
def ordered(request):
    return clone(request.param).set_params(rules=ORDERS).fit(chain())


def test_chains_of_numbers_are_a_first_column_and_gaps(ordered):
    rows = chain(20, 1)
    wanted = slow.in_order(learned(ordered), rows[:, :3].tolist(), rows[:, 3:].tolist())
    assert ordered.score_samples(rows) == pytest.approx(wanted)
    rows[:, 1] = rows[:, 0] - 1.0
    assert np.isneginf(ordered.score_samples(rows)).all()


@pytest.mark.parametrize("missing", [0, 1])
def test_evidence_on_a_later_column_of_a_chain_is_a_quadrature(ordered, missing):
    of_learned = ordered._ruled.learned
    for row in chain(4, 2):
        hidden = row.copy()
        hidden[missing] = np.nan
        ends = (-20.0, row[1]) if missing == 0 else (row[0], row[2])
        kinks = [axis.edges for axis in of_learned.axes or () if axis is not None]
        kinks = np.concatenate([[0.0], *kinks])
        kinks = np.concatenate([kinks, row[0] + kinks, row[1] - kinks, row[2] - kinks])

        def density(x, row=row):
            rows = np.repeat(row[np.newaxis], len(x), axis=0)
            rows[:, missing] = x
            return np.exp(ordered.score_samples(rows))

        wanted = slow.integral(density, *ends, kinks)
        if missing == 1:
            # The gap above may be zero.
            wanted += density(np.array([row[2]]))[0] if row[1] < row[2] else 0.0
        if row[1] < row[2] or missing == 0:
            got = np.exp(ordered.score_samples(hidden[np.newaxis]))[0]
            assert got == pytest.approx(wanted, rel=2e-5)


def test_draws_completions_and_intervals_are_in_order(ordered):
    drawn = ordered.sample(1000, random_state=0)
    assert (np.diff(drawn[:, :3], axis=1) >= 0.0).all()
    assert np.mean(drawn[:, 1] == drawn[:, 2]) == pytest.approx(0.3, abs=0.05)
    rows = chain(12, 3)
    rows[np.arange(12), np.arange(12) % 3] = np.nan
    rows[0, 1] = np.nan
    for strategy in ("mean", "mpe", "sample"):
        filled = ordered.complete(rows, strategy=strategy, random_state=0)
        assert (np.diff(filled[:, :3], axis=1) >= 0.0).all()
    for ends in ordered.interval(rows):
        assert (np.diff(ends[1:, :3], axis=1) >= 0.0).all()
    inside = ordered.sample(20, random_state=0, given={1: (5, 8), 2: (None, 9)})
    assert (inside[:, 1] >= 5.0).all()
    assert (inside[:, 2] <= 9.0).all()


def repaid(n=600):
    """Amounts in cents of which a third is paid back wholly."""
    rng = np.random.default_rng(0)
    low = rng.gamma(4.0, 1.0, n)
    gap = np.where(rng.random(n) < 0.3, 0.0, rng.gamma(2.0, 1.0, n))
    return pd.DataFrame({"low": low, "high": low + gap, "x": low + rng.normal(size=n)}).round(2)


@pytest.mark.parametrize("density", [CutsetNetworkBD(), TableMixture(random_state=0)])
def test_a_gap_of_none_weighs_what_it_does_in_the_rows(density):
    table = repaid()
    model = clone(density).set_params(rules=[("low", "<=", "high")]).fit(table)
    share = (table["low"] == table["high"]).mean()
    drawn = model.sample(3000, random_state=0)
    assert (drawn["low"] == drawn["high"]).mean() == pytest.approx(share, abs=0.04)
    # Given the greater amount: the sum over the lattice, in which none is one point.
    for high in (5.0, 9.31):
        low = np.arange(0, round(100 * high) + 1) / 100
        every = pd.DataFrame({"low": low, "high": high, "x": 4.0})
        wanted = np.logaddexp.reduce(model.score_samples(every)) + np.log(0.01)
        got = model.score_samples(every[:1].assign(low=np.nan))[0]
        assert got == pytest.approx(wanted, abs=0.01)
    filled = model.complete(table.assign(low=np.nan), strategy="sample", random_state=0)
    assert (filled["low"] == filled["high"]).mean() == pytest.approx(share, abs=0.06)


def test_a_mean_does_not_become_a_state_that_a_rule_excludes():
    rng = np.random.default_rng(0)
    size = rng.choice([0.0, 1.0, 2.0], 300)
    kind = np.where((size == 1.0) | (rng.random(300) < 0.2), "single", "other")
    table = pd.DataFrame({"size": size, "kind": kind})
    rules = [("kind", "==", "single", "if", "size", "==", 1.0)]
    model = CutsetNetworkBD(rules=rules).fit(table)
    filled = model.complete(pd.DataFrame({"size": [np.nan], "kind": ["other"]}))
    assert filled.loc[0, "size"] in (0.0, 2.0)


def test_draws_from_a_quadrature_are_values_of_the_column():
    rng = np.random.default_rng(0)
    low = np.round(rng.gamma(2.0, 1000.0, 400), 1)
    table = pd.DataFrame({"low": low, "high": np.round(low + rng.gamma(2.0, 900.0, 400), 1)})
    model = TableMixture(rules=[("low", "<=", "high")], random_state=0).fit(table)
    assert model.domain_.numbers[0].step == 0.1
    rows = table[:30].assign(low=np.nan)
    given = model.sample(50, random_state=0, given={"high": 3000.0})
    for drawn in (model.complete(rows, strategy="sample", random_state=0), given):
        assert_allclose(drawn["low"], drawn["low"].round(1), atol=1e-9)
        assert (drawn["low"] <= drawn["high"]).all()


@pytest.mark.parametrize("decimals", [0, 12])
def test_a_later_column_does_not_leave_its_range(decimals):
    low, gap = np.random.default_rng(0).gamma([[3.0], [2.0]], [[10.0], [15.0]], size=(2, 800))
    high = np.minimum(low + gap, 100.0).round(decimals)
    table = pd.DataFrame({"low": np.minimum(low, high).round(decimals), "high": high})
    model = CutsetNetworkBD(rules=[("low", "<=", "high")]).fit(table)
    for drawn in (model.sample(800, random_state=0), model.complete(holes(table), strategy="mean")):
        assert drawn["high"].max() <= 101.0
        assert (drawn["low"] <= drawn["high"]).all()
    drawn = model.sample(800, random_state=0)
    # Gaps reach beyond the greatest value, where they are cut.
    assert 0.3 < (drawn["high"] > 99.9).mean() / (high == 100.0).mean() < 1.1


def test_long_chains_are_refused():
    rows = np.sort(np.random.default_rng(0).normal(size=(50, 4)), axis=1)
    with pytest.raises(ValueError, match="at most 3 columns"):
        CutsetNetworkBD(rules=[(0, "<=", 1), (1, "<=", 2), (2, "<=", 3)]).fit(rows)


def test_dates_have_an_order_whatever_their_origins():
    rng = np.random.default_rng(0)
    start = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 200), "D")
    table = pd.DataFrame({"from": start, "to": start + pd.to_timedelta(rng.poisson(9, 200), "D")})
    drawn = CutsetNetworkBD(rules=[("from", "<=", "to")]).fit(table).sample(300, random_state=0)
    assert (drawn["from"] <= drawn["to"]).all()
    assert abs((drawn["to"] - drawn["from"]).dt.days.mean() - 9.0) < 1.0


def mixed_rows() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table with a dependency and an order, and rows with all kinds of evidence, in a mix."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 300)
    low = 20.0 * kind + rng.normal(10.0, 2.0, 300)
    frame = pd.DataFrame(
        {
            "a": np.array(["x", "y", "z"])[kind],
            "b": np.array(["A", "A", "B"])[kind],
            "low": low,
            "high": low + rng.exponential(3.0, 300),
        }
    )
    nothing = None
    asked = pd.DataFrame(
        {
            "a": ["x", "z", nothing, "x", "z", "y"],
            "b": ["A", nothing, "B", "A", "B", nothing],
            "low": [10.0, 50.0, nothing, nothing, nothing, 30.0],
            "high": [12.0, nothing, 53.0, 13.0, nothing, nothing],
        }
    )
    return frame, asked


@pytest.mark.parametrize(
    "model", [CutsetNetworkBD(), TableMixture(n_components=1)], ids=["network", "mixture"]
)
def test_rows_that_are_asked_together_are_answered_as_alone(model):
    frame, asked = mixed_rows()
    rules = [("a", "determines", "b"), ("low", "<=", "high")]
    model = clone(model).set_params(rules=rules, random_state=0).fit(frame)
    together = model.complete(asked), *model.interval(asked)
    for row in asked.index:
        one = asked.loc[[row]]
        alone = model.complete(one), *model.interval(one)
        for several, single in zip(together, alone):
            some = several.loc[[row]]
            assert some["a"].tolist() == single["a"].tolist()
            assert_allclose(some[["low", "high"]], single[["low", "high"]], rtol=1e-6)
        means = [cells.mean()[0] for cells in model.marginals(one)[2:]]
        assert_allclose(means, [cells.mean()[row] for cells in model.marginals(asked)[2:]])
    # The upper end of an order is no gap.
    ends = model.interval(asked.loc[[1]])
    assert ends[0]["high"].item() >= 50.0
    assert 50.0 < model.marginals(asked.loc[[1]])[3].mean()[0] < 60.0


def test_what_contradicts_a_rule_is_no_evidence_to_draw_from():
    frame, _ = mixed_rows()
    rules = [("a", "determines", "b"), ("low", "<=", "high")]
    model = CutsetNetworkBD(rules=rules, random_state=0).fit(frame)
    for given in ({"low": 50.0, "high": 40.0}, {"a": "x", "b": "B"}):
        with pytest.raises(ValueError, match="given must be possible"):
            model.sample(5, given=given, random_state=0)


def test_a_row_that_no_completion_can_save_is_warned_of():
    rng = np.random.default_rng(0)
    low = rng.normal(size=300)
    gaps = rng.exponential(size=(2, 300))
    frame = pd.DataFrame({"low": low, "price": low + gaps[0], "high": low + gaps.sum(axis=0)})
    model = CutsetNetworkBD(rules=[("low", "<=", "price"), ("price", "<=", "high")]).fit(frame)
    row = pd.DataFrame({"low": [1.0], "price": [np.nan], "high": [0.5]})
    with pytest.warns(UserWarning, match="break a rule"):
        assert model.complete(row)["low"].item() == 1.0


def test_found_rules_are_taken_with_their_support():
    rng = np.random.default_rng(0)
    low = rng.normal(size=300)
    frame = pd.DataFrame({"low": low, "high": low + rng.exponential(size=300)})
    found = find_rules(frame).rules
    assert len(found) == 1
    drawn = CutsetNetworkBD(rules=found).fit(frame).sample(100, random_state=0)
    assert (drawn["low"] <= drawn["high"]).all()


def test_a_multiple_imputer_refuses_rules():
    frame, _ = mixed_rows()
    density = TableMixture(n_components=1, rules=[("low", "<=", "high")])
    with pytest.raises(ValueError, match="MultipleImputer .* rules"):
        MultipleImputer(density).fit(frame)


def test_an_unknown_value_of_a_rule_is_refused_with_the_rule():
    frame, _ = mixed_rows()
    rule = ("b", "==", "Q", "if", "a", "==", "x")
    with pytest.raises(ValueError, match="'Q'") as caught:
        CutsetNetworkBD(rules=[rule]).fit(frame)
    assert any(repr(rule) in note for note in caught.value.__notes__)
