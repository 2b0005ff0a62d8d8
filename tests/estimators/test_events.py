"""Questions with ranges and sets to fitted densities."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skpc import (
    CutsetNetworkBD,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from tests.domain.test_events import TABLE

X = TABLE.drop(columns="day")
MODELS = {
    "cutset": CutsetNetworkBD(random_state=0),
    "hidden tree": HiddenChowLiuTree(random_state=0),
    "soft": SoftLearnSPN(random_state=0),
    "mixture": TableMixture(n_components=2, random_state=0),
    "stack": StackedDensity(
        [("cutset", CutsetNetworkBD()), ("soft", SoftLearnSPN())], random_state=0
    ),
}
EVENTS = [
    {"age": (20, 40)},
    {"region": ["N", "S"], "stars": (1, 3)},
    {"rain": 0.0},
    {"rain": (0.0, 2.0), "region": "W"},
    {"stars": [1, 5], "age": pd.Interval(18, 50, closed="left")},
]


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param].fit(X)


def share(frame, event):
    """Share of the rows that fulfil an event."""
    fulfils = np.ones(len(frame), dtype=bool)
    for name, said in event.items():
        if isinstance(said, tuple):
            fulfils &= frame[name].between(*said)
        elif isinstance(said, pd.Interval):
            fulfils &= (frame[name] >= said.left) & (frame[name] < said.right)
        else:
            fulfils &= frame[name].isin(said if isinstance(said, list) else [said])
    return fulfils.mean()


def test_probabilities_are_the_shares_of_draws(model):
    """But for columns whose draws stay in the range seen, while their densities do not."""
    rows = model.sample(20_000, random_state=1)
    prob = model.probability(EVENTS)
    truth = np.array([share(rows, event) for event in EVENTS])
    within = 4.5 * np.sqrt(prob / 20_000) + 0.15 * prob
    assert np.all(np.abs(prob - truth) < within)
    assert_allclose(model.log_probability(EVENTS), np.log(prob))
    assert isinstance(model.probability(EVENTS[0]), float)


def test_a_joint_probability_is_a_product_of_conditional_ones(model):
    joint = model.probability({"age": (20, 40), "region": "N", "stars": 2})
    steps = [
        model.probability({"age": (20, 40)}),
        model.probability({"region": "N"}, given={"age": (20, 40)}),
        model.probability({"stars": 2}, given={"age": (20, 40), "region": ["N"]}),
    ]
    assert joint == pytest.approx(np.prod(steps), rel=1e-9)


def test_known_numbers_need_no_probability(model):
    prob = model.probability([{"region": r} for r in "NSEW"], given={"income": 30_000.0, "age": 30})
    row = pd.DataFrame({"age": [30], "income": [30_000.0]}).reindex(columns=X.columns)
    # Marginals are given that the category is a known one.
    seen = np.exp(model.domain_.log_prob_seen[2])
    expected = seen * model.marginals(row)[2].probabilities[0][[1, 2, 0, 3]]
    assert_allclose(prob, expected, rtol=1e-7)
    assert prob.sum() == pytest.approx(seen)


def test_draws_fulfil_what_is_given(model):
    given = {"age": (20, 30), "region": ["N", "S"], "stars": 3}
    rows = model.sample(300, random_state=0, given=given)
    assert share(rows, {**given, "stars": 3}) == 1.0
    assert list(rows.dtypes) == list(X.dtypes)


def test_several_ranges_of_numbers_have_probabilities_and_draws(model):
    given = {"age": (20, 40), "income": (20_000.0, 30_000.0)}
    truth = share(X, given)
    assert abs(model.probability(given) - truth) < 5 * np.sqrt(truth / len(X))
    assert share(model.sample(200, random_state=0, given=given), given) == 1.0


def test_distributions_given_an_event_are_those_of_draws(model):
    given = {"stars": (1, 3), "region": ["N", "S"]}
    rows = model.sample(10_000, random_state=0, given=given)
    age = model.distribution("age", given)
    error = 5 * age.variance()[0] ** 0.5 / 100
    assert age.mean()[0] == pytest.approx(rows.age.mean(), abs=error)
    region = model.distribution("region", [given, {"region": "W"}])
    assert_allclose(region.probabilities[1], [0.0, 0.0, 0.0, 1.0], atol=1e-12)
    assert region.probabilities[0, 1] == pytest.approx((rows.region == "N").mean(), abs=0.025)
    stars = model.distribution("stars", given)
    assert stars.mean()[0] == pytest.approx(rows.stars.mean(), abs=0.1)
    assert stars.cdf(3.0)[0] == pytest.approx(1.0)
    whole = model.distribution("income")
    assert 0.0 < whole.cdf(20_000.0)[0] < 1.0


def test_distributions_within_a_range_of_the_column_have_the_moments_of_draws():
    model = CutsetNetworkBD(random_state=0).fit(X)
    given = [{"income": (20_000.0, 40_000.0)}, {"age": (18, 30)}]
    cells = model.distribution("income", given)
    for row, one in enumerate(given):
        drawn = model.sample(10_000, random_state=0, given=one).income
        assert cells.mean()[row] == pytest.approx(drawn.mean(), rel=0.01)
        # Draws end where the range of the column does, tails do not.
        assert cells.variance()[row] ** 0.5 == pytest.approx(drawn.std(), rel=0.04)
        assert cells.quantile(0.3)[row] == pytest.approx(drawn.quantile(0.3), rel=0.02)


def test_many_events_and_many_givens_stand_side_by_side():
    model = CutsetNetworkBD(random_state=0).fit(X)
    events, given = [{"region": "N"}, {"region": "S"}], [{"age": (18, 30)}, {"stars": 5}]
    both = model.probability(events, given)
    assert_allclose(both, [model.probability(e, g) for e, g in zip(events, given)])
    assert len(model.probability({"region": "N"}, given)) == 2
    with pytest.raises(ValueError, match="one event, or 2"):
        model.probability(events, [*given, {}])


def test_what_is_impossible_is_named():
    model = CutsetNetworkBD(random_state=0).fit(X)
    with pytest.raises(ValueError, match="event 0 has probability 0 by its cell in column 'rain'"):
        model.probability({"age": 20}, given={"region": "N", "rain": (-3e9, -2e9)})
    assert model.log_probability({"rain": (-3e9, -2e9)}) == -np.inf
    with pytest.raises(ValueError, match="given must be in"):
        model.probability({"age": 20}, given={"region": "Q"})


def test_dates_are_ranges_sets_and_answers():
    model = CutsetNetworkBD(random_state=0).fit(TABLE)
    first, last = pd.Timestamp("2024-02-01"), pd.Timestamp("2024-02-29")
    days = model.distribution("day", {"day": (first, last)})
    assert first <= pd.Timestamp(days.mean()[0]) <= last
    rows = model.sample(50, random_state=0, given={"day": (first, last)})
    assert rows.day.between(first, last).all()
    assert model.probability({"day": (first, last)}) == pytest.approx(29 / 200, abs=0.04)


def test_the_mixture_of_all_trees_has_no_events():
    model = MixtureOfAllTrees(n_bins=4, random_state=0).fit(X[["region", "stars"]])
    with pytest.raises(NotImplementedError, match="to_mixture"):
        model.probability({"region": ["N", "S"]})


def test_the_mixture_of_all_trees_has_distributions_given_values():
    model = MixtureOfAllTrees(n_bins=4, random_state=0).fit(X[["region", "stars"]])
    row = pd.DataFrame({"region": ["N"], "stars": [np.nan]})
    given = model.distribution("stars", {"region": "N"})
    assert_allclose(given.mean(), model.marginals(row)["stars"].mean())
    with pytest.raises(NotImplementedError, match="to_mixture"):
        model.distribution("stars", {"region": ["N", "S"]})


def test_ranges_of_a_single_value_are_completed_as_that_value():
    model = MODELS["cutset"].fit(X)
    values = X.iloc[:3].astype(object)
    values["rain"] = None
    stated = values.copy()
    stated["age"] = [(age, age) for age in values["age"]]
    for strategy in ("mean", "mpe"):
        completed = [model.complete(table, strategy) for table in (stated, values)]
        assert_allclose(*(table["rain"].astype(float) for table in completed))
    stated["age"] = [(age, age + 5) for age in values["age"]]
    with pytest.raises(ValueError, match="found ranges or sets"):
        model.complete(stated, "mpe")


def test_ordered_categories_have_ranges_and_sets_and_no_others():
    sizes = pd.Categorical(["s", "m", "l", "m"] * 50, categories=["s", "m", "l"], ordered=True)
    frame = pd.DataFrame({"size": sizes, "price": np.arange(200) % 7 + 0.5})
    model = CutsetNetworkBD(random_state=0).fit(frame)
    at_least = model.probability({"size": ("m", None)})
    assert at_least == pytest.approx(model.probability({"size": ["m", "l"]}), abs=1e-12)
    assert at_least == pytest.approx(0.75, abs=0.02)
    assert model.probability({"size": ["s", "m", "l"]}) == pytest.approx(1.0, abs=1e-12)
    assert set(model.sample(50, random_state=0, given={"size": ("m", None)})["size"]) == {"m", "l"}
    for doors in ({"event": {"size": "xl"}}, {"event": {"price": 0.5}, "given": {"size": ["xl"]}}):
        with pytest.raises(ValueError, match="'size' must hold the ordered categories.*'xl'"):
            model.probability(**doors)


def test_nothing_lies_beyond_the_ends_of_a_column():
    rng = np.random.default_rng(0)
    model = TableMixture(n_components=2, random_state=0).fit(rng.exponential(size=(300, 2)))
    assert model.probability({0: (-3, -1)}) == 0.0
    both = model.probability([{0: (-3, -1), 1: (0, 1)}, {0: (None, None)}])
    assert_allclose(both, [0.0, 1.0], atol=1e-12)
    with pytest.raises(ValueError, match="given must be possible.*column 0"):
        model.sample(2, given={0: (-3, -1)})
    assert (model.sample(50, random_state=0, given={0: (-3, 0.2)})[:, 0] >= 0.0).all()


@pytest.mark.parametrize("density", [CutsetNetworkBD(), HiddenChowLiuTree()])
def test_draws_far_in_a_tail_lie_in_their_range(density):
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = density.set_params(random_state=0).fit(X)
    for low, high in ((50.0, 60.0), (-60.0, -50.0)):
        drawn = model.sample(3, random_state=0, given={0: (low, high)})[:, 0]
        assert ((low <= drawn) & (drawn <= high)).all()
