"""Named analyses: their terms, their drawn coefficients, and the weights of candidates."""

import builtins
import pickle
from collections import Counter
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone

from skpc import MultipleImputer, TableMixture
from skpc.estimators import multiple_imputer
from skpc.imputation.analysis import (
    Analysis,
    NearOutcomes,
    Proposals,
    draw_number,
    read_analysis,
)
from skpc.imputation.passive import read_passive
from skpc.imputation.regressions import (
    HazardDraw,
    LinearDraw,
    LogitDraw,
    draw_hazards,
    draw_logit,
)
from tests.naive import imputation as naive

RIDGE = 0.1
LIBRARIES = ("formulaic", "patsy")


def random(seed=0):
    return np.random.RandomState(seed)


class Unmoved:
    """Random weights of rows that are the weights themselves: draws are modes."""

    standard_gamma = staticmethod(np.asarray)


def hazards_case(n_rows=40, seed=0):
    """Rows with a constant, two terms, tied times, weights."""
    rng = np.random.default_rng(seed)
    terms = rng.normal(size=(n_rows, 2))
    times = np.ceil(4.0 * rng.exponential(size=n_rows) / np.exp(terms @ [0.5, -0.8]))
    is_event = rng.random(n_rows) < 0.7
    weight = rng.integers(1, 4, n_rows).astype(float)
    return np.column_stack([np.ones(n_rows), terms]), times, is_event, weight


@pytest.mark.parametrize("seed", range(2))
def test_hazards_have_the_mode_of_the_partial_likelihood_under_the_weights(seed):
    design, times, is_event, weight = hazards_case(seed=seed)
    scaled = naive.standardised(design, weight)[:, 1:]

    def log_posterior(coefficients):
        return naive.hazards_log_posterior(coefficients, scaled, times, is_event, weight, RIDGE)

    mode = naive.mode(log_posterior, np.zeros(2))
    draw = draw_hazards(design, times, is_event, weight, Unmoved())
    assert_allclose(draw.standardised, [0.0, *mode], atol=1e-4)
    assert_allclose(design @ draw.coefficients, scaled @ mode, atol=1e-3)


def test_hazards_spread_as_the_curvature_says():
    design, times, is_event, _ = hazards_case(600)
    # Breslow's likelihood of equal times exaggerates their spread.
    times += np.random.default_rng(0).random(600)
    beta, covariance = naive.cox(times, is_event, design[:, 1:])
    draws = [draw_hazards(design, times, is_event, np.ones(600), random(i)) for i in range(400)]
    coefficients = np.array([draw.coefficients[1:] for draw in draws])
    assert_allclose(np.cov(coefficients.T), covariance, atol=0.25 * covariance.max())
    assert_allclose(coefficients.mean(axis=0), beta, atol=0.25 * np.sqrt(covariance.max()))


def test_the_baseline_is_that_of_breslow_at_the_drawn_coefficients():
    design, times, is_event, weight = hazards_case()
    draw = draw_hazards(design, times, is_event, weight, Unmoved())
    truth = [
        naive.breslow(draw.coefficients, design, times, is_event, weight, at) for at in draw.times
    ]
    assert_allclose(draw.cumulative, truth)
    assert_array_equal(draw.times, np.unique(times[is_event]))


def test_the_naive_and_the_fast_likelihood_have_one_mode():
    design, times, is_event, _ = hazards_case(400)
    beta, _ = naive.cox(times, is_event, design[:, 1:])
    draw = draw_hazards(design, times, is_event, np.ones(400), Unmoved())
    assert_allclose(draw.coefficients[1:], beta, atol=2e-3)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("offset", [0.0, 2e3])
def test_units_and_offsets_of_covariates_change_no_hazard(scale, offset):
    """A year such as 2020 times a coefficient must not overflow."""
    design, times, is_event, weight = hazards_case()
    other = design.copy()
    other[:, 1:] = scale * (other[:, 1:] + offset)
    rows = [draw_hazards(x, times, is_event, weight, random()) for x in (design, other)]
    one, two = (draw.log_density(x, times, is_event) for draw, x in zip(rows, (design, other)))
    assert_allclose(two, one, rtol=1e-6, atol=1e-6)


def test_weight_two_is_the_row_twice_for_hazards_and_numbers():
    design, times, is_event, weight = hazards_case()
    rows = np.repeat(np.arange(len(design)), weight.astype(int))
    ones = np.ones(len(rows))
    one = draw_hazards(design, times, is_event, weight, Unmoved())
    two = draw_hazards(design[rows], times[rows], is_event[rows], ones, Unmoved())
    for part, other in zip(one, two):
        assert_allclose(part, other, atol=1e-9)
    one = draw_number(design, times, weight, random())
    two = draw_number(design[rows], times[rows], ones, random())
    for part, other in zip(one, two):
        assert_allclose(part, other)


def test_a_covariate_that_separates_events_has_a_finite_coefficient():
    design = np.column_stack([np.ones(50), np.arange(50) < 25])
    draw = draw_hazards(design, np.arange(50.0), np.arange(50) < 25, np.ones(50), random())
    assert np.isfinite(draw.coefficients).all()
    assert np.isfinite(draw.cumulative).all()


def test_a_line_has_normal_errors_and_visits_have_those_of_rows_with_near_predictions():
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(600), rng.exponential(size=600)])
    draw = draw_number(design, design @ [1.0, 2.0] + rng.normal(size=600), np.ones(600), random())
    assert_allclose(draw.coefficients, [1.0, 2.0], atol=0.3)
    assert_allclose(draw.sd, 1.0, rtol=0.1)
    places = np.array([3.0, 4.0])
    assert_allclose(
        draw.log_density(places, design[:2]),
        stats.norm.logpdf(places, design[:2] @ draw.coefficients, draw.sd),
    )
    visits = rng.poisson(3.0, 600) * (rng.random(600) < 0.1 * design[:, 1])
    draw = draw_number(design, visits.astype(float), np.ones(600), random())
    assert isinstance(draw, NearOutcomes)
    # The slow truth: the fifty rows around each prediction, those with as great ones in any order.
    rows = np.array([[1.0, 0.01], [1.0, 0.7], [1.0, 9.0]])
    for values in (np.zeros(3), np.full(3, 4.0)):
        density = []
        for value, prediction in zip(values, rows @ draw.coefficients):
            below = int((draw.predictions < prediction).sum())
            start = min(max(below - 25, 0), 550)
            distance = (value - draw.values[start : start + 50]) / draw.bandwidth
            # Three degrees of freedom, at the scale that makes this the distance.
            scale = draw.bandwidth / np.sqrt(3.0)
            density.append(stats.t.pdf(distance * draw.bandwidth, 3.0, scale=scale).mean())
        assert_allclose(draw.log_density(values, rows), np.log(density))
    # Zeros of rows with great predictions are no rarity.
    log_density = draw.log_density(np.zeros(2), rows[1:])
    assert log_density[1] > log_density[0] - 3.0


def test_outcomes_of_rows_with_one_prediction_are_drawn_from_all_of_them():
    values = np.repeat([0.0, 10.0], [200, 40])
    design = np.ones((240, 1))
    shares = []
    for seed in range(40):
        draw = draw_number(design, values, np.ones(240), random(seed))
        assert isinstance(draw, NearOutcomes)
        shares.append(np.exp(np.diff(draw.log_density(np.array([0.0, 10.0]), design[:2]))[0]))
    # Neither state is lost although rows come sorted.
    assert 0.1 < np.median(shares) < 0.35


@pytest.mark.parametrize("n_rows", [30, 300])
def test_an_exact_relation_weighs_by_distance(n_rows):
    design = np.column_stack([np.ones(n_rows), np.arange(float(n_rows))])
    draw = draw_number(design, design @ [1.0, 2.0], np.ones(n_rows), random())
    log_density = draw.log_density(np.array([1.0, 3.0, 5.0, 9.0]), np.repeat(design[:1], 4, axis=0))
    assert np.isfinite(log_density).all()
    assert log_density[0] > log_density[1:].max()


def frame(n_rows=200, seed=0, missing=0.3):
    """A number, a flag, kinds, a time with an event, and gaps in all but the last two."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    z = np.round(0.5 * x + rng.normal(size=n_rows), 1)
    kind = rng.choice(["r", "s", "t"], n_rows)
    y = x + 0.5 * z + (kind == "s") + 0.5 * x**2 + 0.5 * rng.normal(size=n_rows)
    table = pd.DataFrame(
        {
            "y": y,
            "x": x,
            "z": z,
            "kind": kind,
            "yes": pd.array(rng.random(n_rows) < 1.0 / (1.0 + np.exp(-x)), dtype="boolean"),
        }
    )
    table = table.mask(rng.random(table.shape) < missing)
    return table.assign(time=rng.exponential(size=n_rows), event=rng.random(n_rows) < 0.6)


def encoded(table):
    density = TableMixture(n_components=1, random_state=0).fit(table)
    return density.domain_, density.domain_.encode(table)


@cache
def encoded_frame():
    return encoded(frame())


def test_terms_are_products_of_numbers_and_of_indicators():
    table = frame(missing=0.0)
    domain, rows = encoded(table)
    model = ("y", ["x", ("x", "x"), "kind", ("x", "kind"), ("yes", "kind", "z")])
    design = read_analysis(model, domain, rows).design(rows)
    x, z, yes = (table[name].to_numpy(float) for name in ("x", "z", "yes"))
    s, t = ((table["kind"] == kind).to_numpy(float) for kind in "st")
    truth = [x**0, x, x**2, s, t, x * s, x * t, yes * s * z, yes * t * z]
    assert_allclose(design, np.column_stack(truth))


def test_kinds_of_outcomes():
    table = frame()
    domain, rows = encoded(table)
    assert read_analysis(("y", ["x"]), domain, rows).kind == "linear"
    assert read_analysis(("yes", ["x"]), domain, rows).kind == "logistic"
    analysis = read_analysis((("time", "event"), ["x", ("x", "kind")]), domain, rows)
    assert (analysis.kind, analysis.outcome) == ("hazards", (5, 6))
    assert analysis.covariates == {1, 3}


@pytest.mark.parametrize("outcome", ["y", "yes", ("time", "event")])
def test_candidates_are_weighed_by_the_density_of_the_outcome(outcome):
    table = frame(30, missing=0.0)
    domain, rows = encoded(table)
    analysis = read_analysis((outcome, ["x", "z"]), domain, rows)
    rng = np.random.default_rng(1)
    cells, prior = rng.normal(size=(30, 7)), rng.dirichlet(np.ones(7), 30)
    beta = np.array([0.1, 0.7, -0.4])
    times, cumulative = np.array([0.2, 0.5, 1.0]), np.array([0.1, 0.4, 0.9])
    draw = {
        "y": LinearDraw(beta, beta, 0.8),
        "yes": LogitDraw(np.zeros((1, 3)), beta[np.newaxis]),
    }.get(outcome, HazardDraw(beta, beta, times, cumulative))
    weight = analysis.weighed(draw, Proposals(cells, np.log(prior)), rows, 1)
    for i in range(30):
        density = []
        for j in range(7):
            line = beta @ [1.0, cells[i, j], rows[i, 2]]
            if outcome == "y":
                density.append(stats.norm.pdf(rows[i, 0], line, 0.8))
            elif outcome == "yes":
                chance = 1.0 / (1.0 + np.exp(-line))
                density.append(chance if rows[i, 4] else 1.0 - chance)
            else:
                baseline = max([0.0, *cumulative[times <= rows[i, 5]]])
                density.append(np.exp(line * rows[i, 6] - baseline * np.exp(line)))
        truth = prior[i] * density
        assert_allclose(weight[i], truth / truth.sum(), rtol=1e-8)


def test_coefficients_are_drawn_from_rows_with_an_outcome_of_their_own():
    table = frame()
    domain, rows = encoded(table)
    analysis = read_analysis(("y", ["x", "z"]), domain, rows)
    missing, weight = np.isnan(rows), np.ones(len(rows))
    filled = np.where(missing, 7.0, rows)
    one = analysis.draw(filled, missing, weight, random())
    filled[missing[:, 0], 0] = -999.0
    two = analysis.draw(filled, missing, weight, random())
    assert_array_equal(one.coefficients, two.coefficients)


def without(monkeypatch, *blocked):
    """Pretend that packages are not installed."""
    importing = builtins.__import__

    def guarded(name, *args, **kwargs):
        if name.split(".")[0] in blocked:
            raise ImportError(name)
        return importing(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", guarded)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_formula_has_the_terms_of_a_list(library, monkeypatch):
    pytest.importorskip(library, reason=f"{library} is not installed")
    table = frame(missing=0.2)
    domain, rows = encoded(table)
    complete = np.where(np.isnan(rows), rows[np.isfinite(rows).all(axis=1)][0], rows)
    listed = read_analysis(("y", ["x", ("x", "x"), "kind", ("x", "z")]), domain, rows)
    without(monkeypatch, *(name for name in LIBRARIES if name != library))
    formula = read_analysis("y ~ x + I(x**2) + kind + x:z", domain, rows)
    assert (formula.kind, formula.outcome) == (listed.kind, listed.outcome)
    assert formula.covariates == listed.covariates
    # Both have a constant; a formula may sort its terms.
    terms = formula.design(complete)[:, 1:]
    assert_allclose(sorted(terms.T.tolist()), sorted(listed.design(complete).T.tolist()))
    again = pickle.loads(pickle.dumps(formula))
    assert_array_equal(again.design(complete)[:, 1:], terms)
    # One row has the same terms as it has among others.
    assert_allclose(formula.design(complete[:1])[:, 1:], terms[:1])


@pytest.mark.parametrize("library", LIBRARIES)
def test_names_that_are_no_words_are_read_by_a_formula(library, monkeypatch):
    pytest.importorskip(library, reason=f"{library} is not installed")
    without(monkeypatch, *(name for name in LIBRARIES if name != library))
    table = frame().rename(columns={"x": "my x"})
    domain, rows = encoded(table)
    quoted = "`my x`" if library == "formulaic" else "Q('my x')"
    assert read_analysis(f"y ~ {quoted} + z", domain, rows).covariates == {1, 2}


@pytest.mark.parametrize("library", LIBRARIES)
def test_imputations_by_formula_have_the_distribution_of_those_by_list(library, monkeypatch):
    pytest.importorskip(library, reason=f"{library} is not installed")
    without(monkeypatch, *(name for name in LIBRARIES if name != library))
    table = frame(150).drop(columns=["time", "event"])
    density = TableMixture(n_components=1, random_state=0)
    imputer = MultipleImputer(density, n_imputations=10, n_rounds=2, random_state=0)
    means = []
    for model in (("y", ["x", ("x", "x"), "kind"]), "y ~ x + I(x**2) + kind"):
        filled = clone(imputer).set_params(model=model).fit_impute(table)
        lost = table["x"].isna()
        means.append([[t.loc[lost, "x"].mean(), (t["kind"] == "s").mean()] for t in filled])
    means = np.array(means)
    error = np.sqrt((means.var(axis=1, ddof=1) / 10).sum(axis=0))
    assert (np.abs(means[0].mean(axis=0) - means[1].mean(axis=0)) < 4.0 * error).all()
    again = pickle.loads(pickle.dumps(imputer.set_params(model="y ~ x").fit(table)))
    assert all(a.equals(b) for a, b in zip(imputer.impute(table), again.impute(table)))


def test_strings_do_not_say_what_an_event_is_but_categories_do():
    table = frame()
    table["state"] = np.where(table["event"], "Dead", "alive")
    domain, rows = encoded(table)
    with pytest.raises(ValueError, match="found 'Dead' and 'alive'. Make it a column of True"):
        read_analysis((("time", "state"), ["x"]), domain, rows)
    table["state"] = pd.Categorical(table["state"], categories=["alive", "Dead"])
    domain, rows = encoded(table)
    read_analysis((("time", "state"), ["x"]), domain, rows)
    state = table.columns.get_loc("state")
    assert np.array_equal(rows[:, state] == 1.0, table["event"])


def test_without_formulaic_and_patsy_a_formula_is_refused(monkeypatch):
    domain, rows = encoded_frame()
    without(monkeypatch, *LIBRARIES)
    with pytest.raises(ImportError, match="formulaic or patsy"):
        read_analysis("y ~ x", domain, rows)


@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        (("y", ["absent"]), ValueError, "absent"),
        (("absent", ["x"]), ValueError, "absent"),
        (("kind", ["x"]), ValueError, "'kind'.* two categories; found 3"),
        (("y", ["x", "y"]), ValueError, "'y' as its outcome and as a predictor"),
        (("y", [("x", "y")]), ValueError, "'y' as its outcome and as a predictor"),
        (("y", []), ValueError, "at least one predictor"),
        (("y", [()]), ValueError, "predictor"),
        (((), ["x"]), ValueError, "outcome of model must be"),
        ((("time", "event", "y"), ["x"]), ValueError, "outcome of model must be"),
        ((("time", "kind"), ["x"]), ValueError, "times and one of two categories"),
        ((("kind", "event"), ["x"]), ValueError, "times and one of two categories"),
        ((("y", "event"), ["x"]), ValueError, r"complete.* found \d+ missing in"),
        ((("time", "yes"), ["x"]), ValueError, r"complete.* found \d+ missing in"),
        (("y", "x"), TypeError, "pair of an outcome and a list"),
        (["y", ["x"]], TypeError, "pair of an outcome and a list"),
        (3, TypeError, "pair of an outcome and a list"),
        (("y", ["x"], "z"), TypeError, "pair of an outcome and a list"),
        (("y", [None]), ValueError, "model"),
        (("y", [["x", "x"]]), ValueError, "model"),
        (("y", [1.5]), ValueError, "model"),
        ("y x", ValueError, "left side"),
        ("absent ~ x", ValueError, "left side"),
        ("np.log(y) ~ x", ValueError, "left side"),
        ("y ~ absent", ValueError, "absent"),
        ("y ~ x +", ValueError, "formula"),
        ("y ~ x + y", ValueError, "'y' as its outcome and as a predictor"),
        ("y ~ 1", ValueError, "at least one predictor"),
        ("kind ~ x", ValueError, "two categories"),
    ],
)
def test_models_that_say_nothing_are_refused(model, error, match):
    domain, rows = encoded_frame()
    if isinstance(model, str):
        pytest.importorskip("formulaic", reason="formulaic is not installed")
    with pytest.raises(error, match=match):
        read_analysis(model, domain, rows)


@pytest.mark.filterwarnings("ignore:Some columns")
@pytest.mark.parametrize("model", [("y", ["name"]), ("y", ["empty"]), "y ~ name", "y ~ x + empty"])
def test_columns_that_say_nothing_are_no_predictors(model):
    table = frame()
    table["name"] = [f"row {i}" for i in range(len(table))]
    table["empty"] = np.nan
    domain, rows = encoded(table)
    if isinstance(model, str):
        pytest.importorskip("formulaic", reason="formulaic is not installed")
    with pytest.raises(ValueError, match="empty or name"):
        read_analysis(model, domain, rows)


def test_events_that_nobody_had_are_refused():
    table = frame()
    table["event"] = pd.Categorical(["no"] * len(table), categories=["no", "yes"])
    domain, rows = encoded(table)
    with pytest.raises(ValueError, match="event"):
        read_analysis((("time", "event"), ["x"]), domain, rows)


def test_a_formula_needs_names():
    table = frame()[["y", "x", "z"]]
    domain, rows = encoded(table.to_numpy())
    with pytest.raises(ValueError, match="names of columns"):
        read_analysis("y ~ x", domain, rows)
    assert read_analysis((0, [1, (1, 1)]), domain, rows).covariates == {1}


def test_a_formula_without_a_value_for_some_cells_is_an_error():
    pytest.importorskip("formulaic", reason="formulaic is not installed")
    table = frame(missing=0.0)
    domain, rows = encoded(table)
    with pytest.raises(ValueError, match="finite terms"), np.errstate(invalid="ignore"):
        read_analysis("y ~ np.log(x)", domain, rows)


def bodies(n_rows=120, seed=0):
    rng = np.random.default_rng(seed)
    height = np.round(1.7 + 0.1 * rng.normal(size=n_rows), 2)
    weight = np.round(70.0 + 50.0 * (height - 1.7) + 8.0 * rng.normal(size=n_rows), 1)
    table = pd.DataFrame({"height": height, "weight": weight, "bmi": weight / height**2})
    table["age"] = rng.integers(20, 90, n_rows)
    table["heavy"] = np.where(table["bmi"] > 25.0, "yes", "no")
    lost = rng.random((n_rows, 2)) < 0.25
    table.loc[lost.any(axis=1), ["bmi", "heavy"]] = np.nan
    table[["height", "weight"]] = table[["height", "weight"]].mask(lost)
    return table


def bmi_of(table):
    return table["weight"] / table["height"] ** 2


def heavy_of(table):
    return np.where(table["weight"] / table["height"] ** 2 > 25.0, "yes", "no")


def test_passive_columns_are_functions_of_others_in_every_table():
    table = bodies()
    imputer = MultipleImputer(
        n_imputations=5,
        n_rounds=2,
        passive={"bmi": bmi_of, "heavy": heavy_of},
        random_state=0,
    )
    for filled in [*imputer.fit_impute(table), *imputer.impute(table, delta={"weight": 0.5})]:
        lost = table["bmi"].isna()
        assert_array_equal(filled.loc[lost, "bmi"], bmi_of(filled)[lost])
        assert_array_equal(filled.loc[lost, "heavy"], heavy_of(filled)[lost])
        assert_array_equal(filled.loc[~lost, "bmi"], table.loc[~lost, "bmi"])
    one = imputer.impute(table.iloc[[int(table["bmi"].isna().argmax())]])[0]
    assert_array_equal(one["bmi"], bmi_of(one))
    again = pickle.loads(pickle.dumps(imputer))
    assert all(a.equals(b) for a, b in zip(imputer.impute(table), again.impute(table)))


def test_dates_durations_and_ordered_categories_are_computed_too():
    rng = np.random.default_rng(0)
    days = rng.integers(1, 20, 60)
    table = pd.DataFrame({"days": days, "load": days + rng.normal(size=60)})
    table["admit"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, 60), "D")
    functions = {
        "leave": lambda t: t["admit"] + pd.to_timedelta(t["days"].astype(int), "D"),
        "stay": lambda t: t["leave"] - t["admit"],
        "size": lambda t: pd.Series(t["days"] > 9).map({False: "short", True: "long"}),
    }
    for name, function in functions.items():
        table[name] = function(table)
    order = pd.CategoricalDtype(["short", "long"], ordered=True)
    table["size"] = table["size"].astype(order)
    holey = table.copy()
    for name in ("load", *functions):
        holey.loc[rng.random(60) < 0.3, name] = None
    density = TableMixture(n_components=1, random_state=0)
    imputer = MultipleImputer(
        density, n_imputations=2, n_rounds=2, passive=functions, random_state=0
    )
    for filled in imputer.fit_impute(holey):
        # What they are computed from is complete.
        pd.testing.assert_frame_equal(filled[[*functions]], table[[*functions]])
    wrong = clone(imputer).set_params(passive={"leave": lambda t: t["days"]})
    with pytest.raises(TypeError, match="passive of column 'leave' must hold dates"):
        wrong.fit(holey)


def test_passive_columns_do_not_predict_what_they_are_computed_from():
    table = bodies()
    domain, rows = encoded(table)
    [(column, function, read)] = read_passive({"bmi": bmi_of}, domain, rows)
    assert (column, read.tolist()) == (2, [0, 1])
    complete = rows[~np.isnan(rows).any(axis=1)]
    assert_allclose(function(complete), complete[:, 2])


@pytest.mark.parametrize(
    ("passive", "error", "match"),
    [
        ({"bmi": 3.0}, TypeError, "functions of a table.*found 3.0"),
        ({"absent": bmi_of}, ValueError, "absent"),
        ({"bmi": lambda t: 1.0}, ValueError, r"one cell for each row.*'bmi'.*shape \(\)"),
        ({"bmi": lambda t: t[["height", "weight"]]}, ValueError, "one cell for each row"),
        ({"bmi": lambda t: bmi_of(t)[:3]}, ValueError, "one cell for each row"),
        ({"bmi": lambda t: bmi_of(t).where(t["age"] > 40)}, ValueError, "complete cells"),
        ({"bmi": lambda t: bmi_of(t) * np.inf}, ValueError, "finite"),
        ({"bmi": lambda t: t["age"].astype(str) + "x"}, ValueError, "number.*found '.*x'"),
        ({"bmi": lambda t: t["mass"]}, ValueError, "'bmi' from columns that X has.*'mass'"),
        ({"bmi": lambda t: t.mass}, ValueError, "'bmi' from columns that X has.*mass"),
        ({"heavy": lambda t: np.full(len(t), "perhaps")}, ValueError, "'heavy'.*'perhaps'"),
        ([("bmi", bmi_of)], (TypeError, ValueError), "passive"),
    ],
)
def test_functions_that_compute_no_column_are_refused(passive, error, match):
    density = TableMixture(n_components=1, random_state=0)
    imputer = MultipleImputer(density, n_imputations=2, passive=passive, random_state=0)
    with pytest.raises(error, match=match):
        imputer.fit(bodies(60))


def test_model_and_passive_belong_to_regressions():
    imputer = MultipleImputer(draws="density", model=("bmi", ["age"]))
    for params in ({}, {"model": None, "passive": {"bmi": bmi_of}}):
        with pytest.raises(ValueError, match="regressions"):
            clone(imputer).set_params(**params).fit(bodies())


def with_a_product(n_rows=300, seed=0):
    """The outcome has a product, which regressions of columns cannot see."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 2))
    y = x[:, 0] + 0.5 * x[:, 1] + 0.8 * x[:, 0] * x[:, 1] + rng.normal(size=n_rows)
    x[rng.random((n_rows, 2)) < 0.3] = np.nan
    return pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "y": y})


def product_of(table):
    x, z = table["x"], table["z"]
    design = np.column_stack([x**0, x, z, x * z])
    inverse = np.linalg.inv(design.T @ design)
    beta = inverse @ design.T @ table["y"].to_numpy()
    squares = np.sum((table["y"] - design @ beta) ** 2) / (len(table) - 4)
    return beta, squares * inverse


@pytest.mark.parametrize(
    ("n_repeats", "least"), [(10, 8), pytest.param(25, 20, marks=pytest.mark.slow)]
)
def test_a_model_with_a_product_has_its_coefficient(monkeypatch, n_repeats, least):
    # Without a model this one would be found, and be nearly as good.
    monkeypatch.setattr(multiple_imputer, "find_model", lambda *arguments: None)
    estimates = {"plain": [], "model": []}
    covered = Counter()
    for seed in range(n_repeats):
        table = with_a_product(seed=seed)
        for name, model in (("plain", None), ("model", ("y", ["x", "z", ("x", "z")]))):
            imputer = MultipleImputer(
                TableMixture(n_components=1, random_state=0),
                n_imputations=5,
                n_rounds=3,
                model=model,
                random_state=seed,
            )
            combined = imputer.fit(table).combine(table, product_of, df_complete=296)
            estimates[name].append(combined.table["estimate"][3])
            ends = combined.conf_int().loc[3]
            covered[name] += ends["lower"] < 0.8 < ends["upper"]
    bias = {name: np.mean(values) - 0.8 for name, values in estimates.items()}
    error = np.std(estimates["model"]) / np.sqrt(n_repeats)
    assert bias["plain"] < -0.15
    assert abs(bias["model"]) < 4.0 * error
    # Below .95 by less than three standard errors.
    assert covered["model"] >= least
    assert covered["plain"] < covered["model"]


def test_an_outcome_is_filled_from_the_analysis_alone():
    """A column that is no predictor of the analysis does not say what an outcome was."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=300), "clue": rng.normal(size=300)})
    table["y"] = table["clue"]
    lost = rng.random(300) < 0.3
    table.loc[lost, "y"] = np.nan
    density = TableMixture(n_components=1, random_state=0)
    imputer = MultipleImputer(density, n_imputations=4, model=("y", ["x"]), random_state=0)
    correlation = [
        np.corrcoef(t["y"][lost], t["clue"][lost])[0, 1] for t in imputer.fit_impute(table)
    ]
    assert np.max(np.abs(correlation)) < 0.4
    by_all = clone(imputer).set_params(model=None).fit_impute(table)[0]
    assert np.corrcoef(by_all["y"][lost], by_all["clue"][lost])[0, 1] > 0.9


def test_an_analysis_is_a_value():
    analysis = Analysis("linear", (0,), frozenset({1}), len)
    assert analysis.hazard(np.zeros((1, 2)), np.ones(1)) == ()


@pytest.mark.parametrize("library", LIBRARIES)
def test_formulas_of_polars_tables(library, monkeypatch):
    pytest.importorskip(library, reason=f"{library} is not installed")
    without(monkeypatch, *(name for name in LIBRARIES if name != library))
    table = frame(80).drop(columns=["yes", "time", "event"])
    cells = {name: [None if pd.isna(x) else x for x in table[name].tolist()] for name in table}
    density = TableMixture(n_components=1, random_state=0)
    imputer = MultipleImputer(
        density, n_imputations=2, n_rounds=2, model="y ~ x + kind + x:z", random_state=0
    )
    for filled in imputer.fit_impute(pl.DataFrame(cells)):
        assert filled.null_count().to_numpy().sum() == 0
        assert set(filled["kind"]) <= set("rst")


@pytest.mark.parametrize("outcome", ["y", "yes", ("time", "event")])
def test_all_rows_and_single_rows_are_filled_by_an_analysis(outcome):
    table = frame(120)
    density = TableMixture(n_components=1, random_state=0)
    imputer = MultipleImputer(
        density,
        n_imputations=2,
        n_rounds=2,
        model=(outcome, ["x", "z", "kind", ("x", "kind")]),
        random_state=0,
    ).fit(table)
    for filled in imputer.impute(table):
        assert filled.notna().all().all()
        assert filled["x"].isin(table["x"]).all()
        assert filled["z"].isin(table["z"]).all()
    for row in range(5):
        for filled in imputer.impute(table.iloc[[row]]):
            assert filled.notna().all().all()
            observed = table.iloc[row].notna()
            assert (filled.iloc[0][observed] == table.iloc[row][observed]).all()


def test_the_log_odds_of_an_analysis_are_not_biased_where_gaps_depend_on_its_outcome():
    slopes = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, z = rng.normal(size=(2, 500))
        yes = rng.random(500) < 1.0 / (1.0 + np.exp(-(x + x * z)))
        table = pd.DataFrame({"x": x, "z": z, "yes": yes})
        table["x"] = table["x"].mask(rng.random(500) < np.where(yes, 0.5, 0.2))
        density = TableMixture(n_components=1, random_state=0)
        imputer = MultipleImputer(
            density, n_imputations=5, model=("yes", ["x", "z", ("x", "z")]), random_state=seed
        )
        for filled in imputer.fit_impute(table):
            one, other = filled["x"], filled["z"]
            design = np.column_stack([one**0, one, other, one * other])
            fit = draw_logit(
                design, filled["yes"].to_numpy().astype(int), 2, np.ones(500), Unmoved()
            )
            slopes.append(fit.coefficients[0])
    error = np.std(slopes, axis=0) / np.sqrt(12)
    assert (np.abs(np.mean(slopes, axis=0) - [0.0, 1.0, 0.0, 1.0]) < 4.0 * error).all()


@pytest.mark.parametrize("params", [{"draws": "both"}, {"n_rounds": 0}, {"passive": 3}])
def test_parameters_of_other_kinds_are_refused(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        MultipleImputer(**params).fit(bodies())
