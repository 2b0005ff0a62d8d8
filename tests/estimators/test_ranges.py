"""Densities that learn from, and answer about, cells known as ranges and sets."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    MultipleImputer,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
    ranges,
)
from skpc.domain import Domain, events_of_table
from skpc.domain.stated import split_ranges
from skpc.estimators._ranges import drawn_by_column

N = 400
LIMIT = 1.5
DENSITIES = [CutsetNetworkBD, SoftLearnSPN, TableMixture, HiddenChowLiuTree]


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    x = np.exp(0.5 + 0.6 * a + 0.4 * rng.normal(size=n))
    kind = np.where(a + rng.normal(size=n) > 0.0, "p", np.where(rng.random(n) < 0.5, "q", "r"))
    return pd.DataFrame({"a": a, "x": x, "kind": kind})


def with_cells(column, where, cell):
    cells = column.to_numpy(dtype=object).copy()
    for row in np.flatnonzero(where).tolist():
        cells[row] = cell
    return cells


def below_limit(X):
    return X.assign(x=with_cells(X.x, X.x < LIMIT, (None, LIMIT)))


@pytest.mark.filterwarnings("ignore:Of the cells")
@pytest.mark.parametrize("density", DENSITIES)
def test_a_density_learns_what_lies_below_a_limit(density):
    X = table()
    R = below_limit(X)
    model = density(random_state=0).fit(R)
    is_below = (X.x < LIMIT).to_numpy()
    filled = model.complete(R)
    drawn = model.complete(R, strategy="sample", random_state=0)
    for cells in (filled.x, drawn.x):
        assert (cells[is_below] <= LIMIT).all()
        assert_allclose(cells[~is_below], X.x[~is_below])
    # Better than the mean of what is below, and far better than a common rule.
    truth = X.x[is_below]
    assert ((filled.x[is_below] - truth) ** 2).mean() < 0.95 * truth.var()
    share = model.probability({"x": (None, LIMIT)})
    assert abs(share - is_below.mean()) < 0.04
    gaps = density(random_state=0).fit(X.assign(x=X.x.where(~is_below)))
    assert model.score(table(1)) > gaps.score(table(1)) + 0.2


@pytest.mark.parametrize("density", [SoftLearnSPN, TableMixture])
def test_draws_below_a_limit_hide_nothing_of_a_regression(density):
    X, test = table(n=1500), table(1)
    limit = X.x.quantile(0.4)
    R = X.assign(x=with_cells(X.x, X.x < limit, (None, limit)))
    whole, model = (density(random_state=0).fit(data) for data in (X, R))
    # Known residuals of rows of small means are positive; those of the others need not be.
    assert model.score(test) > whole.score(test) - 0.05


@pytest.mark.parametrize("density", [CutsetNetworkBD, HiddenChowLiuTree, TableMixture])
def test_the_score_of_a_set_is_the_log_of_the_sum_over_its_values(density):
    X = table()
    model = density(random_state=0).fit(X)
    some = X.iloc[:20]
    each = [model.score_samples(some.assign(kind=kind)) for kind in "pq"]
    cells = with_cells(some.kind, np.ones(20, bool), {"p", "q"})
    assert_allclose(model.score_samples(some.assign(kind=cells)), np.logaddexp(*each), atol=1e-9)


@pytest.mark.parametrize("density", [CutsetNetworkBD, TableMixture])
def test_the_score_of_a_range_is_the_probability_of_its_event(density):
    X = table()
    model = density(random_state=0).fit(X)
    said = [(None, 1.0), (0.5, 2.0), pd.Interval(1.0, 3.0), (2.0, None)]
    R = pd.DataFrame({"a": np.full(4, np.nan), "x": ranges([None] * 4, [None] * 4), "kind": None})
    R["x"] = pd.Series(said, dtype=object)
    assert_allclose(
        model.score_samples(R), model.log_probability([{"x": cell} for cell in said]), atol=1e-12
    )


def test_sets_while_fitting_give_the_shares_of_categories():
    X = table(n=900)
    rng = np.random.default_rng(1)
    is_set = rng.random(len(X)) < 1.0 / 3.0
    cells = X.kind.to_numpy(dtype=object).copy()
    for row in np.flatnonzero(is_set & (X.kind != "r")).tolist():
        cells[row] = {"p", "q"}
    model = CutsetNetworkBD(random_state=0).fit(X.assign(kind=cells))
    seen = 1.0 - model.domain_[2].unseen
    for kind in "pqr":
        share = model.probability({"kind": kind}) / seen
        assert abs(share - (X.kind == kind).mean()) < 0.05
    filled = model.complete(X.assign(kind=cells))
    assert all(value in cell for value, cell in zip(filled.kind, cells))


@pytest.mark.filterwarnings("ignore:Of the cells")
def test_a_column_of_brackets_alone_is_learned():
    X = table()
    edges = np.array([0.0, 1.0, 1.5, 2.5, 4.0, 100.0])
    brackets = pd.cut(X.x, edges).astype("interval")
    model = SoftLearnSPN(random_state=0).fit(X.assign(x=brackets.array))
    assert model.domain_[1].kind == "number"
    filled = model.complete(X.assign(x=brackets.array)).x
    middle = pd.IntervalIndex(brackets).mid
    assert ((filled - X.x) ** 2).mean() < 0.5 * ((middle - X.x) ** 2).mean()
    as_states = SoftLearnSPN(random_state=0).fit(X.assign(x=pd.cut(X.x, edges)))
    assert as_states.domain_[1].kind != "number"


def intervals_of(X, closed="both"):
    """A column of ``IntervalDtype`` of ranges, values (where it may) and missing cells."""
    rng = np.random.default_rng(0)
    width = rng.choice([0.5, 2.0] if closed != "both" else [0.0, 0.5, 2.0], len(X))
    low = np.where(width > 0.0, np.floor(X.x), X.x)
    high = low + width
    high[width == 2.0] = np.inf
    low[:10] = high[:10] = np.nan
    return X.assign(x=pd.arrays.IntervalArray.from_arrays(low, high, closed))


@pytest.mark.filterwarnings("ignore:Of the cells")
@pytest.mark.parametrize("closed", ["both", "left", "right", "neither"])
def test_the_arrays_of_a_column_of_intervals_are_read_as_its_cells_are(closed):
    R = intervals_of(table(), closed)
    cells = R.astype({"x": object})
    models = [CutsetNetworkBD(random_state=0).fit(X) for X in (R, cells)]
    if closed == "both":
        assert models[0].complete(R).x[10:].eq(R.x.array.left[10:]).any()
    for model in models:
        for X in (R, cells):
            assert_allclose(model.score_samples(X), models[0].score_samples(R), rtol=1e-12)
            assert_allclose(model.complete(X).x, models[0].complete(R).x, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Of the cells")
def test_a_column_of_intervals_is_read_without_objects(monkeypatch):
    R = intervals_of(table())

    def refuse(cells, *_, **__):
        assert not len(cells), "made an object of each cell"
        return np.empty(0, dtype=object)

    monkeypatch.setattr(pd.arrays.IntervalArray, "__array__", refuse)
    model = CutsetNetworkBD(random_state=0).fit(R)
    assert np.isfinite(model.score_samples(R)).all()


@pytest.mark.filterwarnings("ignore:Of the cells")
def test_a_wrong_interval_of_an_array_is_named_with_its_row():
    X = table()
    R = X.assign(x=pd.arrays.IntervalArray.from_arrays(X.x, X.x + (X.index != 7), "left"))
    with pytest.raises(ValueError, match=r"from the smaller to the greater end in .*row 7"):
        CutsetNetworkBD().fit(R)


def test_a_bracket_that_begins_at_zero_is_one_of_positive_numbers():
    rng = np.random.default_rng(0)
    # A column without a lower end: a number of either sign.
    domain = Domain.fit(pd.DataFrame({"x": rng.normal(size=300)}))
    x = rng.lognormal(0.0, 1.0, 2000)
    edges = np.array([0.0, 0.5, 1.0, 2.0, 100.0])
    brackets = pd.DataFrame({"x": pd.cut(x, edges, right=False).astype("interval[float64, left]")})
    _, stated = split_ranges(brackets)
    events = events_of_table(domain, np.full((2000, 1), np.nan), stated)
    drawn = drawn_by_column(domain, events, np.ones(2000), np.random.RandomState(0))[:, 0]
    assert drawn.min() > 0.0
    for low, high in zip(edges, edges[1:]):
        truth, draws = (np.log(c[(c >= low) & (c < high)]).mean() for c in (x, drawn))
        assert_allclose(draws, truth, atol=0.05)


@pytest.mark.filterwarnings("ignore:Of the cells")
def test_censored_times_give_the_curve_of_kaplan_and_meier():
    rng = np.random.default_rng(0)
    life, seen = rng.exponential(10.0, 600), rng.exponential(15.0, 600)
    times = np.minimum(life, seen)
    cells = ranges(times, np.where(life <= seen, times, np.nan))
    X = pd.DataFrame({"noise": rng.normal(size=600), "time": cells})
    model = CutsetNetworkBD(random_state=0).fit(X)
    at = np.quantile(times[life <= seen], [0.2, 0.5, 0.8])
    events = life <= seen
    ours = model.probability([{"time": (t, None)} for t in at])
    steps = [1.0 - 1.0 / (times >= t).sum() for t in np.sort(times[events])]
    curve = np.cumprod(steps)[np.searchsorted(np.sort(times[events]), at, side="right") - 1]
    assert_allclose(ours, curve, atol=0.04)


def test_neither_order_of_rows_nor_weights_in_place_of_copies_change_a_model():
    X = below_limit(table(n=300))
    model = CutsetNetworkBD(random_state=0).fit(X)
    again = CutsetNetworkBD(random_state=0).fit(X.iloc[::-1])
    T = table(2, 50)
    assert_allclose(model.score_samples(T), again.score_samples(T), atol=1e-8)
    twice = CutsetNetworkBD(random_state=0).fit(pd.concat([X, X[:100]]))
    weight = np.where(np.arange(300) < 100, 2.0, 1.0)
    weighed = CutsetNetworkBD(random_state=0).fit(X, sample_weight=weight)
    assert_allclose(weighed.score_samples(T), twice.score_samples(T), atol=1e-8)
    columns = ["kind", "x", "a"]
    turned = CutsetNetworkBD(random_state=0).fit(X[columns])
    assert_allclose(turned.score_samples(T[columns]), model.score_samples(T), atol=1e-8)


def test_arrays_of_objects_may_hold_ranges_too():
    X = below_limit(table(n=300)).to_numpy(dtype=object)
    model = HiddenChowLiuTree(random_state=0).fit(X)
    filled = model.complete(X)
    assert all(one <= LIMIT for one, cell in zip(filled[:, 1], X[:, 1]) if isinstance(cell, tuple))


def test_stacks_and_imputers_take_ranges():
    X = table(n=200)
    R = below_limit(X)
    members = [("cutset", CutsetNetworkBD()), ("mixture", TableMixture(random_state=0))]
    stack = StackedDensity(members, cv=2, random_state=0).fit(R)
    is_below = (X.x < LIMIT).to_numpy()
    assert (stack.complete(R).x[is_below] <= LIMIT).all()
    assert np.isfinite(stack.score_samples(R)).all()
    imputer = CircuitImputer(CutsetNetworkBD(), strategy="sample", random_state=0)
    filled = imputer.set_output(transform="pandas").fit_transform(R)
    assert (filled.x[is_below] <= LIMIT).all()


def with_statements(X):
    """Values below a limit as ranges, some categories as sets, and gaps."""
    rng = np.random.default_rng(3)
    R = below_limit(X)
    R["kind"] = with_cells(X.kind, (rng.random(len(X)) < 0.3) & (X.kind != "r"), {"p", "q"})
    R["a"] = X.a.where(rng.random(len(X)) > 0.1)
    R.loc[rng.random(len(X)) < 0.1, "x"] = None
    return R


@pytest.mark.parametrize("draws", ["regressions", "density"])
def test_draws_of_imputations_lie_within_ranges_and_sets(draws):
    X = table(n=200)
    R = with_statements(X)
    imputer = MultipleImputer(
        TableMixture(n_components=4, random_state=0),
        n_imputations=3,
        n_rounds=2,
        draws=draws,
        random_state=0,
    )
    imputer.fit(R)
    is_below = np.array([isinstance(cell, tuple) for cell in R.x])
    is_set = np.array([isinstance(cell, set) for cell in R.kind])
    is_known = ~is_below & R.x.notna()
    # What delta moves are cells of which nothing is known.
    for tables in (imputer.impute(R), imputer.impute(R, {"x": 5.0, "kind": {"r": 9.0}})):
        for filled in tables:
            assert not filled.isna().any().any()
            assert (filled.x[is_below] <= LIMIT).all()
            assert (filled.x[is_known] == X.x[is_known]).all()
            assert set(filled.kind[is_set]) <= {"p", "q"}
    assert len({filled.x[is_below].mean() for filled in tables}) == 3


def test_chains_draw_ranges_as_the_density_does_given_the_other_cells():
    X = table()
    R = below_limit(X)
    density = CutsetNetworkBD(random_state=0)
    imputer = MultipleImputer(density, n_imputations=40, n_rounds=1, random_state=0).fit(R)
    is_below = (X.x < LIMIT).to_numpy()
    drawn = np.array([filled.x[is_below] for filled in imputer.impute(R)])
    mean = imputer.density_.complete(R).x[is_below].to_numpy()
    error = (drawn.mean(axis=0) - mean) / (drawn.std(axis=0) / np.sqrt(40.0) + 1e-9)
    assert (np.abs(error) < 4.5).all()


def test_a_classifier_answers_for_ranges_by_the_rule_of_bayes():
    X = table(n=300)
    R = below_limit(X).drop(columns="kind")
    density = CutsetNetworkBD(random_state=0)
    model = DensityClassifier(density, joint=True, classifiers=None).fit(R, X.kind)
    some = R[10:30]
    (joint,) = model.densities_["density joint"]
    is_range = np.array([isinstance(cell, tuple) for cell in some.x])
    assert 0 < is_range.sum() < 20
    given = [{0: a, 1: (None, LIMIT)} for a in some.a[is_range]]
    expected = np.column_stack([joint.probability({2: code}, given=given) for code in range(3)])
    assert_allclose(model.predict_proba(some)[is_range], expected, atol=1e-9)


@pytest.mark.parametrize("joint", [False, "auto"])
def test_a_classifier_learns_more_from_ranges_than_from_gaps(joint):
    X = table(n=300)
    X["kind"] = np.where(X.a > 0.3, "p", "q")
    edges = np.array([-9.0, -0.8, 0.3, 9.0])
    place = np.searchsorted(edges, X.a)
    cells = [(edges[k - 1], edges[k]) for k in place]
    is_range = np.random.default_rng(0).random(300) < 0.7
    column = X.a.to_numpy(dtype=object).copy()
    for row in np.flatnonzero(is_range).tolist():
        column[row] = cells[row]
    model = DensityClassifier(CutsetNetworkBD(random_state=0), joint=joint, random_state=0)
    with pytest.warns(UserWarning, match="Of the cells of column 'a'"):
        model.fit(X[["x"]].assign(a=column), X.kind)
    # Members that cannot learn from ranges stay out.
    assert all(name.startswith("density") for name in model.member_names_)
    T = table(1, 1000)
    T["kind"] = np.where(T.a > 0.3, "p", "q")
    said = pd.Series([(edges[k - 1], edges[k]) for k in np.searchsorted(edges, T.a)], dtype=object)
    right = {
        name: (model.predict(T[["x"]].assign(a=a)) == T.kind).mean()
        for name, a in {"values": T.a, "ranges": said, "gaps": np.nan}.items()
    }
    # A range tells the class here as well as a value does.
    assert min(right["values"], right["ranges"]) > 0.97 > right["gaps"] + 0.1
    assert np.isfinite(model.score_samples(T[["x"]].assign(a=said))).all()


def test_a_pool_of_values_answers_for_ranges():
    X = table(n=200)
    model = DensityClassifier(CutsetNetworkBD(), classifiers=("logistic",), random_state=0)
    model.fit(X[["a", "x"]], X.kind)
    R = below_limit(X)[["a", "x"]]
    assert_allclose(model.predict_proba(R).sum(axis=1), 1.0)


def test_a_classifier_of_ranges_does_not_depend_on_orders():
    X = below_limit(table(n=120))
    y = X.pop("kind")
    make = lambda: DensityClassifier(CutsetNetworkBD(random_state=0), random_state=0)  # noqa: E731
    model = make().fit(X, y)
    again = make().fit(X[["x", "a"]].iloc[::-1], y.iloc[::-1])
    assert_allclose(again.predict_proba(X[["x", "a"]]), model.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ((2.0, 1.0), "smaller to the greater end in column 'x'.*row 3"),
        (set(), "a value in each set in column 'x'.*row 3"),
        ((1.0, 2.0, 3.0), "two ends.*column 'x'.*row 3"),
    ],
)
def test_wrong_ranges_name_column_and_row(cell, words):
    X = table(n=60)
    where = np.arange(60) == 3
    with pytest.raises(ValueError, match=words):
        CutsetNetworkBD().fit(X.assign(x=with_cells(X.x, where, cell)))


def test_wrong_statements_of_rows_name_column_and_row():
    X = table(n=60)
    model = CutsetNetworkBD().fit(X)
    where = np.arange(60) == 3
    with pytest.raises(ValueError, match="column 'kind'.*row 3"):
        model.score_samples(X.assign(kind=with_cells(X.kind, where, {"p", "z"})))
    with pytest.raises(ValueError, match="column 'kind'.*row 3"):
        model.score_samples(X.assign(kind=with_cells(X.kind, where, (1.0, 2.0))))
    with pytest.raises(ValueError, match="column 'x'.*row 3"):
        model.score_samples(X.assign(x=with_cells(X.x, where, (2.0, 1.0))))
    with pytest.raises(ValueError, match="column 'kind'.*row 3"):
        CutsetNetworkBD().fit(X.assign(kind=with_cells(X.kind, where, (1.0, 2.0))))


@pytest.mark.parametrize(
    "estimator", [MixtureOfAllTrees(), ExpectedKernelSVR(), ExpectedKernelSVC()]
)
def test_estimators_that_cannot_take_ranges_say_so(estimator):
    X = below_limit(table(n=60))
    y = np.arange(60) % 2
    with pytest.raises(TypeError, match="column 'x'.*range or a set"):
        estimator.fit(X, y)


def test_questions_without_an_answer_for_ranges_are_refused():
    R = below_limit(table(n=60))
    model = CutsetNetworkBD().fit(R)
    with pytest.raises(ValueError, match="mpe"):
        model.complete(R, strategy="mpe")
    with pytest.raises(TypeError, match="column 'x'"):
        model.score_cells(R)


def test_ranges_are_made_of_two_columns_or_of_strings():
    made = ranges([1.0, 2.0, np.nan, None, 3.0], [1.0, np.nan, 4.0, None, 5.0])
    assert made.tolist() == [1.0, (2.0, None), (None, 4.0), None, (3.0, 5.0)]
    half = ranges([1.0, np.nan], [2.0, 3.0], closed="left")
    assert half.tolist() == [
        pd.Interval(1.0, 2.0, closed="left"),
        pd.Interval(-np.inf, 3.0, closed="neither"),
    ]
    strings = ranges(["<0.5", ">=120", "12-15", " 7.1", None, "-3 to -1", "> 2"])
    assert strings.tolist() == [
        pd.Interval(-np.inf, 0.5, closed="neither"),
        (120.0, None),
        (12.0, 15.0),
        7.1,
        None,
        (-3.0, -1.0),
        pd.Interval(2.0, np.inf, closed="neither"),
    ]


def test_wrong_ranges_are_refused_with_their_rows():
    with pytest.raises(ValueError, match="row 1"):
        ranges([1.0, 3.0], [2.0, 2.0])
    with pytest.raises(ValueError, match="'about 3' in row 0"):
        ranges(["about 3"])
    with pytest.raises(ValueError, match="closed"):
        ranges([1.0], [2.0], closed="open")
    with pytest.raises(ValueError, match="shapes"):
        ranges([1.0], [2.0, 3.0])


def test_a_range_counts_once_where_the_others_of_its_block_have_ranges_too():
    cells = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 1000)
    model = TableMixture(n_components=1, random_state=0).fit(
        pd.DataFrame(cells, columns=["a", "b"])
    )
    asked = pd.DataFrame({"a": [(0.5, 1.0)] * 400, "b": [(1.0, None)] * 400}, dtype=object)
    drawn = model.sample(200_000, random_state=1)
    held = drawn[(drawn.a > 0.5) & (drawn.a <= 1.0) & (drawn.b > 1.0)]
    # Counted twice, the range of b had a mean beyond by .015.
    assert_allclose(model.complete(asked).mean(), held.mean(), atol=0.008)


def test_sets_are_equal_whatever_the_order_of_their_values():
    kinds = ["p", "q", "r", "s"] * 25
    lengths = [*(np.arange(110.0) ** 1.5), *[(10.0, 60.0)] * 30]
    first, turned = (
        pd.DataFrame({"kind": [*kinds, *[cell] * 40], "length": lengths})
        for cell in (["p", "q"], ["q", "p"])
    )
    models = [CutsetNetworkBD(random_state=0).fit(X) for X in (first, turned)]
    scores = [model.score_samples(first) for model in models]
    assert_allclose(*scores, atol=1e-12)
    both = pd.concat([first, turned], ignore_index=True)
    weighed = CutsetNetworkBD(random_state=0).fit(first, sample_weight=np.full(140, 2.0))
    doubled = CutsetNetworkBD(random_state=0).fit(both)
    assert_allclose(doubled.score_samples(first), weighed.score_samples(first), atol=1e-12)


@pytest.mark.parametrize("cell", [(60.0, 70.0), (300.0, 310.0), (-50.0, -40.0), (1e4, 2e4)])
def test_answers_about_a_range_far_from_the_data_lie_in_it(cell):
    rng = np.random.default_rng(0)
    a = rng.normal(10.0, 3.0, N)
    X = pd.DataFrame({"a": a, "z": a + rng.normal(size=N)})
    R = pd.DataFrame({"a": pd.Series([cell], dtype=object), "z": 12.0})
    densities = DENSITIES[:1] + DENSITIES[2:] if cell[1] < 1e3 else [TableMixture]
    for density in densities:
        model = density(random_state=0).fit(X)
        lower, upper = (end.a[0] for end in model.interval(R))
        mean = model.complete(R).a[0]
        assert cell[0] <= lower <= mean <= upper <= cell[1]
        assert cell[0] <= model.distribution("a", given={"a": cell}).mean()[0] <= cell[1]


@pytest.mark.filterwarnings("ignore:Of the cells")
@pytest.mark.parametrize("density", DENSITIES)
def test_cells_of_one_range_spread_over_it(density):
    X = table(n=100)
    X["x"] = with_cells(X.x, np.ones(100, bool), (0.0, 1.0))
    model = density(random_state=0).fit(X)
    assert model.complete(X).x.between(0.0, 1.0).all()
    assert abs(model.probability({"x": (0.0, 0.5)}) - 0.5) < 0.1


def test_ranges_without_a_finite_end_are_missing_cells():
    X = table(n=100)
    is_open = np.arange(100) % 9 == 3
    model = CutsetNetworkBD(random_state=0).fit(X.assign(x=X.x.where(~is_open)))
    for cell in [(-np.inf, None), (-np.inf, np.inf), (None, None), (None, np.nan)]:
        R = X.assign(x=with_cells(X.x, is_open, cell))
        again = CutsetNetworkBD(random_state=0).fit(R)
        assert_allclose(again.score_samples(R), model.score_samples(R))
    assert ranges([-np.inf, 1.0], [np.nan, np.inf]).tolist() == [None, (1.0, None)]


def test_errors_about_ranges_without_a_value_name_their_rows():
    X = table(n=100)
    X["x"] = np.random.default_rng(0).integers(1, 6, 100).astype(float)
    is_wrong = np.arange(100) == 3
    R = X.assign(x=with_cells(X.x, is_wrong, (2.2, 2.8)))
    with pytest.raises(ValueError, match="a value of column 'x'; that in row 3 holds none"):
        CutsetNetworkBD(random_state=0).fit(R)
    model = CutsetNetworkBD(random_state=0).fit(X)
    # Rows before it are complete, and need no answer.
    with pytest.raises(ValueError, match="row 3 of X has probability zero"):
        model.complete(R)


@pytest.mark.filterwarnings("ignore:Of the cells")
@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize(
    "cells",
    [
        [(0, None)] * 90,
        [(None, 3)] * 90,
        [(0, None)] * 45 + [(None, 5)] * 45,
        [(float(k % 7), None) for k in range(90)],
        [(0, None)] * 89 + [3.0],
        [(0, None)] * 88 + [3.0, 4.0],
    ],
)
def test_completions_lie_in_open_ranges(density, cells):
    column = pd.Series(np.zeros(90), dtype=object)
    column[:] = cells
    X = pd.DataFrame({"a": np.random.default_rng(0).normal(size=90), "x": column})
    for R in (X, X[["x"]]):
        filled = density(random_state=0).fit(R).complete(R).x
        for value, cell in zip(filled, cells):
            low, high = cell if isinstance(cell, tuple) else (cell, cell)
            assert low is None or value >= low
            assert high is None or value <= high


@pytest.mark.filterwarnings("ignore:Of the cells")
@pytest.mark.parametrize("density", DENSITIES)
def test_many_equal_rows_of_brackets_tell_the_spread_within(density):
    rng = np.random.default_rng(0)
    kind = rng.choice(["u", "v"], 1000)
    x = np.exp(rng.normal(size=1000) + (kind == "u"))
    edges = np.array([0.0, *np.quantile(x, [0.2, 0.4, 0.6, 0.8]), 1.01 * x.max()])
    place = np.searchsorted(edges, x, side="right") - 1
    brackets = pd.arrays.IntervalArray.from_arrays(edges[place], edges[place + 1], closed="left")
    X = pd.DataFrame({"kind": kind, "x": brackets})
    at = np.quantile(x, [0.1, 0.3, 0.5, 0.7, 0.9])
    for R in (X, X[["x"]]):
        model = density(random_state=0).fit(R)
        prob = model.probability([{"x": (None, t)} for t in at])
        assert_allclose(prob, [0.1, 0.3, 0.5, 0.7, 0.9], atol=0.04)
        # A row of weight two is two rows, however many draws stand for it.
        weighted = R.assign(n=1).groupby([*R], sort=False, observed=True).n.sum().reset_index()
        same = density(random_state=0).fit(weighted[[*R]], sample_weight=weighted.n.astype(float))
        assert_allclose(same.score_samples(R[:50]), model.score_samples(R[:50]), rtol=1e-9)


@pytest.mark.parametrize("density", [SoftLearnSPN, TableMixture])
def test_errors_about_impossible_rows_name_their_places(density):
    X = table().assign(more=np.random.default_rng(1).normal(size=N))
    model = density(random_state=0).fit(X)
    rows = pd.concat([X] * 9, ignore_index=True).astype({"a": float})
    # Complete rows, and equal ones, are not passed on: places must not be those among the others.
    rows.loc[rows.index % 2 == 0, "more"] = np.nan
    rows.loc[3100, "a"] = 1e300
    for question in (model.complete, model.interval):
        with pytest.raises(ValueError, match=r"row 3100 of X has probability zero"):
            question(rows)


@pytest.mark.filterwarnings("ignore:Of the cells of column")
@pytest.mark.parametrize("cell", [(0, None), (None, 5.5), "grows"])
def test_a_column_without_a_finite_range_is_learned(cell):
    rng = np.random.default_rng(0)
    ends = np.abs(rng.normal(size=100)).round(2)
    cells = np.empty(100, dtype=object)
    cells[:] = [(end, None) for end in ends] if cell == "grows" else [cell] * 100
    table = pd.DataFrame({"x": rng.normal(size=100), "t": cells})
    density = TableMixture(random_state=0).fit(table)
    # Nobody has seen a number: all that is known is the greatest lower end, or the only end.
    wanted = ends.max() if cell == "grows" else max(end for end in cell if end is not None)
    assert (density.sample(20)["t"] == wanted).all()
    assert np.isfinite(density.score_samples(table)).all()


def test_a_range_of_numbers_that_count_as_categories_is_the_set_of_those_in_it():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=200), "grade": rng.integers(0, 2, 200)})
    density = TableMixture(random_state=0).fit(table)
    for said, states in (((None, 0), {0}), ((0, 1), {0, 1}), (pd.Interval(0, 1), {1})):
        assert density.probability({"grade": said}) == density.probability({"grade": states})
    with pytest.raises(ValueError, match="a range that holds one of .* in column 'grade'"):
        density.probability({"grade": (2, None)})


@pytest.mark.parametrize("density", [TableMixture(random_state=0), CutsetNetworkBD(random_state=0)])
def test_brackets_that_share_ends_do_not_gather_values_there(density):
    rng = np.random.default_rng(0)
    x = np.exp(1.0 + 0.85 * rng.normal(size=1500))
    is_known = rng.random(1500) > 0.3
    cells = np.empty(1500, dtype=object)
    for row, value in enumerate(x.tolist()):
        bracket = (float(int(value)), int(value) + 1.0)
        known = (None, 1.5) if value < 1.5 else value
        cells[row] = known if is_known[row] else bracket
    density = clone(density).fit(pd.DataFrame({"lead": cells}))
    assert density.probability({"lead": (None, 1.0)}) == pytest.approx((x < 1.0).mean(), abs=0.02)
    drawn = density.sample(4000, random_state=0)["lead"]
    # A hundredth around one holds .7 % of the rows.
    assert (np.abs(drawn - 1.0) < 0.01).mean() < 0.02
