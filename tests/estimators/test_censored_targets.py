"""Regressors of targets of which some are known as ranges."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skpc import (
    CutsetNetworkBD,
    DensityRegressor,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    SoftLearnSPN,
    TableMixture,
    ranges,
)
from skpc.estimators._censored_targets import CensoredTarget, concordance
from tests.naive import censored as slow

FIELDS = [("event", bool), ("time", float)]


def structured(events, times):
    y = np.empty(len(times), dtype=FIELDS)
    y["event"], y["time"] = events, times
    return y


def lives(seed=0, n=500):
    """Rows, times of lives that depend on them, and what is seen of these times."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    dose = rng.normal(size=n)
    life = rng.weibull(1.5, n) * 10.0 * np.exp(0.6 * dose + 0.8 * (group == "a"))
    censor = rng.exponential(25.0, n)
    X = pd.DataFrame({"dose": dose, "group": group})
    return X, life, structured(life <= censor, np.minimum(life, censor))


def regressor(**changed):
    density = changed.pop("density", SoftLearnSPN(random_state=0))
    return DensityRegressor(density, random_state=0, **changed)


@pytest.fixture(scope="module")
def fitted():
    X, life, y = lives()
    return regressor().fit(X, y), X, life, y


def test_survival_is_that_of_the_lives_not_of_what_is_seen(fitted):
    model, X, _, y = fitted
    T, life, _ = lives(1, 4000)
    at = np.quantile(life, [0.2, 0.5, 0.7])
    ours = model.predict_survival(T, at)
    truth = np.array([(life > t).mean() for t in at])
    assert_allclose(ours.mean(axis=0), truth, atol=0.05)
    for group in "ab":
        some = (T.group == group).to_numpy()
        assert_allclose(ours[some].mean(axis=0), [(life[some] > t).mean() for t in at], atol=0.08)
    # Those who died, and all who left, are each a wrong sample.
    for wrong in (y["time"][y["event"]], y["time"]):
        assert np.abs([(wrong > t).mean() for t in at] - truth).max() > 0.08


def test_marginal_survival_is_that_of_kaplan_and_meier(fitted):
    model, X, _, y = fitted
    curve = slow.kaplan_meier(y["time"].tolist(), y["event"].tolist())
    at = np.quantile(y["time"][y["event"]], [0.1, 0.3, 0.5, 0.7])
    truth = [min(alive for t, alive in curve.items() if t <= one) for one in at]
    assert_allclose(model.predict_survival(X, at).mean(axis=0), truth, atol=0.03)


def test_answers_follow_from_one_distribution(fitted):
    model, X, _, _ = fitted
    rows = X.iloc[:20].assign(dose=lambda table: table.dose.where(np.arange(20) % 3 > 0))
    quantiles = model.predict_quantiles(rows, [0.2, 0.4])
    for place, level in enumerate((0.2, 0.4)):
        survival = np.diag(model.predict_survival(rows, quantiles[:, place]))
        assert_allclose(survival, 1.0 - level, atol=1e-6)
    grid = np.linspace(0.0, 15.0, 3001)
    area = np.trapezoid(model.predict_survival(rows, grid), grid)
    assert_allclose(model.predict_rmst(rows, 15.0), area, rtol=1e-4)
    assert_allclose(model.predict(rows), model.predict_quantiles(rows, 0.5)[:, 0])
    assert model.predict_survival(rows, 3.0).shape == (20, 1)


def test_a_censored_target_scores_the_log_of_its_probability(fitted):
    model, X, _, _ = fitted
    rows = X.iloc[:15]
    times = np.linspace(2.0, 12.0, 15)
    scores = model.score_samples(rows, structured(np.zeros(15, bool), times))
    survival = np.diag(model.predict_survival(rows, times))
    assert_allclose(scores, np.log(survival), atol=1e-8)
    between = pd.arrays.IntervalArray.from_arrays(times, times + 1.0)
    gap = survival - np.diag(model.predict_survival(rows, times + 1.0))
    assert_allclose(model.score_samples(rows, between), np.log(gap), atol=1e-8)


def test_intervals_say_what_events_and_times_say():
    X, _, y = lives(n=150)
    high = np.where(y["event"], y["time"], np.nan)
    cells = ranges(y["time"], high)
    for row in np.flatnonzero(~y["event"]).tolist():
        cells[row] = pd.Interval(y["time"][row], np.inf, closed="neither")
    one = regressor().fit(X, y)
    two = regressor().fit(X, cells)
    assert_allclose(one.predict_rmst(X, 10.0), two.predict_rmst(X, 10.0))
    assert_allclose(one.score(X, y), two.score(X, cells))


def test_visits_that_find_an_event_between_two_of_them_are_enough():
    X, life, _ = lives(2, 600)
    visits = np.array([0.0, 4.0, 8.0, 13.0, 20.0, 35.0, np.inf])
    number = np.searchsorted(visits, life) - 1
    y = pd.arrays.IntervalArray.from_arrays(visits[number], visits[number + 1])
    model = regressor().fit(X, y)
    at = visits[1:5]
    assert_allclose(
        model.predict_survival(X, at).mean(axis=0), [(life > t).mean() for t in at], atol=0.04
    )
    assert model.score(X, y) > 0.65


def test_the_score_is_the_concordance_of_a_double_loop(fitted):
    model, X, _, y = fitted
    rng = np.random.default_rng(0)
    some = slice(0, 60)
    target = CensoredTarget.read(y[some])
    risk = np.round(rng.normal(size=60), 1)
    weight = rng.integers(1, 4, 60).astype(float)
    listed = list(zip(target.cells.low, target.cells.high, *target.cells.closed))
    assert_allclose(concordance(target.cells, risk, weight), slow.concordance(listed, risk, weight))
    of_model = -model.predict_rmst(X.iloc[some], model._last)
    wanted = slow.concordance(listed, of_model, np.ones(60))
    assert_allclose(model.score(X.iloc[some], y[some]), wanted)
    assert model.score(X, y) > 0.6


def test_a_pool_is_weighed_by_log_scores_of_held_out_targets():
    X, _, y = lives(n=200)
    members = [("soft", SoftLearnSPN()), ("hidden", HiddenChowLiuTree(random_state=0))]
    model = regressor(density=members, cv=2).fit(X, y)
    assert model.member_names_ == ["soft", "hidden"]
    assert_allclose(model.weights_.sum(), 1.0)
    assert np.isfinite(model.member_log_densities_).all()
    # The weights maximise it, and one member alone is a choice of weights.
    assert model.log_density_ > model.member_log_densities_.max() - 1e-9
    assert set(model.densities_) <= {"soft", "hidden"}
    drawn = model.sample(X.iloc[:2], 400, random_state=0)
    survival = model.predict_survival(X.iloc[:2], 8.0)[:, 0]
    assert_allclose((drawn > 8.0).mean(axis=1), survival, atol=0.1)


@pytest.mark.parametrize("density", [TableMixture(random_state=0), CutsetNetworkBD()])
def test_causes_have_the_incidence_of_aalen_and_johansen(density):
    rng = np.random.default_rng(0)
    n = 400
    dose = rng.normal(size=n)
    each = rng.exponential([12.0, 20.0], (n, 2)) * np.exp(np.outer(dose, [0.5, -0.5]))
    censor = rng.exponential(25.0, n)
    time = np.minimum(each.min(axis=1), censor)
    code = np.where(censor <= each.min(axis=1), 0, 1 + each.argmin(axis=1))
    y = np.empty(n, dtype=[("cause", int), ("time", float)])
    y["cause"], y["time"] = code, time
    X = pd.DataFrame({"dose": np.where(rng.random(n) < 0.2, np.nan, dose)})
    model = regressor(density=density).fit(X, y)
    assert model.event_codes_.tolist() == [1, 2]
    at = np.quantile(time[code > 0], [0.2, 0.5, 0.8])
    incidence = model.predict_cumulative_incidence(X, at)
    assert incidence.shape == (n, 2, 3)
    assert_allclose(incidence.sum(axis=1), 1.0 - model.predict_survival(X, at), atol=1e-8)
    for cause in (1, 2):
        curve = slow.aalen_johansen(time.tolist(), code.tolist(), cause)
        truth = [max(p for t, p in curve.items() if t <= one) for one in at]
        assert_allclose(incidence[:, cause - 1].mean(axis=0), truth, atol=0.05)
    # The first cause comes late where the dose is high.
    early = incidence[:, 0, 1] / incidence[:, :, 1].sum(axis=1)
    assert np.corrcoef(early[~X.dose.isna()], X.dose.dropna())[0, 1] < -0.3
    assert np.isfinite(model.score_samples(X, y)).all()


def test_neither_order_nor_weights_in_place_of_copies_change_a_model():
    X, _, y = lives(n=120)
    model = regressor(density=CutsetNetworkBD(random_state=0)).fit(X, y)
    again = regressor(density=CutsetNetworkBD(random_state=0)).fit(X[::-1], y[::-1])
    assert_allclose(again.predict_rmst(X, 9.0), model.predict_rmst(X, 9.0), rtol=1e-8)
    twice = regressor(density=CutsetNetworkBD(random_state=0)).fit(
        pd.concat([X, X[:40]]), np.append(y, y[:40])
    )
    weight = np.where(np.arange(120) < 40, 2.0, 1.0)
    weighed = regressor(density=CutsetNetworkBD(random_state=0)).fit(X, y, weight)
    assert_allclose(weighed.predict_rmst(X, 9.0), twice.predict_rmst(X, 9.0), rtol=1e-8)


def test_a_median_that_nobody_has_seen_is_infinite():
    X, life, _ = lives(n=200)
    y = structured(life < 3.0, np.minimum(life, 3.0))
    model = regressor().fit(X, y)
    with pytest.warns(UserWarning, match="beyond 3"):
        median = model.predict(X)
    assert np.isinf(median).any()
    assert np.isfinite(model.predict_rmst(X, 3.0)).all()


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.zeros(60, dtype=[*FIELDS, ("entry", float)]), "two fields.*Delayed entry"),
        (np.zeros(60, dtype=[("event", float), ("time", float)]), "boolean.*row 0"),
        (np.array([(-1, 1.0)] * 60, dtype=[("event", int), ("time", float)]), "codes.*-1.*row 0"),
        (np.array([(True, np.nan)] * 60, dtype=FIELDS), "finite.*row 0"),
        (ranges([2.0] * 59 + [None], [3.0] * 59 + [None]), "say something.*row 59"),
    ],
)
def test_targets_that_cannot_be_read_are_refused(y, words):
    X, _, _ = lives(n=60)
    with pytest.raises(ValueError, match=words):
        regressor().fit(X, y)


def test_questions_and_members_that_do_not_suit_are_refused(fitted):
    model, X, _, y = fitted
    with pytest.raises(TypeError, match="'density'.*MixtureOfAllTrees"):
        regressor(density=MixtureOfAllTrees()).fit(X, y)
    with pytest.raises(ValueError, match="return_std"):
        model.predict(X, return_std=True)
    with pytest.raises(AttributeError, match="several codes"):
        model.predict_cumulative_incidence(X, [1.0])
    with pytest.raises(ValueError, match="finite"):
        model.predict_survival(X, [np.inf])
    with pytest.raises(ValueError, match="tau"):
        model.predict_rmst(X, [1.0, 2.0])
    with pytest.raises(ValueError, match="inconsistent"):
        regressor().fit(X, y[:-1])


def test_a_regressor_of_exact_targets_answers_the_same_questions():
    X, life, _ = lives(n=200)
    model = regressor(regressors=None).fit(X, life)
    survival = model.predict_survival(X, [5.0, 10.0])
    assert_allclose(survival.mean(axis=0), [(life > t).mean() for t in (5.0, 10.0)], atol=0.05)
    assert (model.predict_rmst(X, 10.0) < 10.0).all()
    assert model.score(X, life) < 1.0
    y = structured(np.ones(200, dtype=bool), life)
    with pytest.raises(ValueError, match="all targets of fit were numbers"):
        model.score(X, y)


def test_numbers_score_a_model_of_censored_targets_by_their_order(fitted):
    model, X, life, _ = fitted
    y = structured(np.ones(len(life), dtype=bool), life)
    assert_allclose(model.score(X, life), model.score(X, y), atol=1e-12)


def test_a_score_without_a_pair_of_known_order_is_refused(fitted):
    model, X, _, y = fitted
    censored = structured(np.zeros(20, dtype=bool), y["time"][:20])
    with pytest.raises(ValueError, match="two targets whose order is known.*among 20 rows"):
        model.score(X[:20], censored)


def test_causes_without_a_censored_time_are_warned_of():
    X, _, y = lives(n=100)
    # As tables of R code it: 1 where a time is censored, 2 where the event was seen.
    coded = np.array([*zip(y["event"] + 1, y["time"])], dtype=[("status", int), ("time", float)])
    with pytest.warns(UserWarning, match=r"no time of y is censored: \[1, 2\] are codes"):
        regressor().fit(X, coded)


def test_times_that_are_durations_are_refused():
    X, life, y = lives(n=50)
    days = np.array(
        [*zip(y["event"], (life * 86400).astype("m8[s]"))],
        dtype=[("event", bool), ("time", "m8[s]")],
    )
    with pytest.raises(ValueError, match=r"found timedelta64\[s\] in 'time'.*Divide durations"):
        regressor().fit(X, days)
