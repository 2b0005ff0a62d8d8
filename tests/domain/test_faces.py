"""Columns that determine each other both ways are one variable."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    ExtraCutsets,
    HiddenChowLiuTree,
    HiddenForest,
    MixtureOfAllTrees,
    MultipleImputer,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.domain import Domain
from skpc.domain._faces import log_chance
from tests.naive import faces as slow

DENSITIES = [
    CutsetNetworkBD(),
    ExtraCutsets(3, random_state=0),
    HiddenChowLiuTree(n_hidden=2, random_state=0),
    HiddenForest(n_estimators=2, n_hidden=2, random_state=0),
    SoftLearnSPN(random_state=0),
    TableMixture(n_components=2, random_state=0),
    StackedDensity(
        [("a", CutsetNetworkBD()), ("b", TableMixture(n_components=2))], cv=2, random_state=0
    ),
]
LABELS = np.array(["hs", "ba", "ma", "phd"])
#: Neither of them has the order of the other.
NUMBERS, CODES = np.array([9.0, 13.0, 14.0, 16.0]), np.array([97.25, 300.0, 94.0, 1e6])


def table(n_rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 4, n_rows)
    return pd.DataFrame(
        {
            "label": LABELS[level],
            "number": NUMBERS[level],
            "code": CODES[level],
            "pay": level + rng.normal(size=n_rows),
        }
    )


@pytest.fixture(scope="module", params=DENSITIES, ids=lambda one: type(one).__name__)
def fitted(request):
    return request.param.fit(table())


def are_known_pairs(cells: pd.DataFrame) -> bool:
    known = set(zip(LABELS, NUMBERS, CODES))
    return set(zip(cells["label"], cells["number"], cells["code"])) <= known


@pytest.mark.parametrize("values", ["aabb", "aaab", "abcd", "aabbc", "aabcc", "aaabbc"])
def test_the_chance_is_the_part_of_all_orders(values):
    count = np.array([values.count(one) for one in sorted(set(values))], dtype=float)
    assert_allclose(np.exp(log_chance(count)), slow.chance(values))


def test_columns_whose_values_are_all_distinct_never_merge():
    numbers = np.arange(200.0)
    X = pd.DataFrame({"a": numbers, "b": -numbers, "name": [f"row {i}" for i in range(200)]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert Domain.fit(X).faces == {}


def test_a_few_rows_are_no_evidence():
    X = np.array([["a", 1.0], ["b", 0.0]] * 4, dtype=object)
    assert Domain.fit(X).faces == {}
    assert len(Domain.fit(np.repeat(X, 10, axis=0)).faces) == 1
    # Weights count as rows.
    assert len(Domain.fit(X, sample_weight=np.full(8, 10.0)).faces) == 1


def test_categories_of_numbers_stay_apart():
    # Circuits are asked about zeros and ones as they are.
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0)
    assert Domain.fit(X).faces == {}


def test_one_row_that_differs_keeps_columns_apart():
    X = table()
    X.loc[17, "number"] = 14.0 if X["label"][17] != "ma" else 9.0
    assert all(face.source != 1 for face in Domain.fit(X[["label", "number"]]).faces.values())


def test_a_domain_says_which_columns_are_faces():
    said = Domain.fit(table()).to_frame()
    assert said["kind"].tolist() == [
        "face of another",
        "ordered states",
        "face of another",
        "number",
    ]
    assert said["why"]["code"] == "tells the same as column 'number'"


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
def test_what_is_written_is_what_was_read(library):
    X = table(60)
    X = {"numpy": X.to_numpy(), "pandas": X, "polars": pl.from_pandas(X)}[library]
    domain = Domain.fit(X)
    back = domain.decode(domain.encode(X))
    assert (np.asarray(back, dtype=object) == np.asarray(X, dtype=object)).all()


def test_a_cell_that_one_face_lacks_is_known_by_the_others():
    X = table()
    domain, holes = Domain.fit(X), X.copy()
    holes.loc[::2, ["label", "number"]] = None, np.nan
    holes.loc[1::2, "code"] = np.nan
    assert_allclose(domain.encode(holes), domain.encode(X))


def test_missing_cells_in_fit_do_not_hide_the_faces():
    X = table()
    X.loc[::3, "label"] = None
    X.loc[1::4, "number"] = np.nan
    assert sorted(face.place for face in Domain.fit(X).faces.values()) == [0, 2]


def test_dates_bools_and_categories_can_be_faces():
    rng = np.random.default_rng(0)
    day = rng.integers(0, 5, 200)
    X = pd.DataFrame(
        {
            "day": pd.Timestamp("2024-02-01") + pd.to_timedelta(day, unit="D"),
            "name": pd.Categorical(np.array(["mo", "tu", "we", "th", "fr"])[day]),
            "is_first": day == 0,
            "first": np.where(day == 0, 1.0, 0.0),
        }
    )
    domain = Domain.fit(X)
    assert {(face.place, face.source) for face in domain.faces.values()} == {(1, 0), (2, 3)}
    pd.testing.assert_frame_equal(domain.decode(domain.encode(X)), X)


def test_draws_and_completions_agree(fitted):
    assert are_known_pairs(fitted.sample(200, random_state=0))
    holes = table(40, seed=1)
    holes.loc[:, ["label", "number", "code"]] = None, np.nan, np.nan
    for strategy in ("mean", "mpe", "sample"):
        assert are_known_pairs(fitted.complete(holes, strategy=strategy, random_state=0))


def test_the_most_probable_label_is_completed_not_that_of_a_mean(fitted):
    holes = table(40, seed=1).assign(label=None, number=np.nan, code=np.nan)
    prob = fitted.marginals(holes)["label"]
    best = np.asarray(prob.labels)[prob.probabilities.argmax(axis=1)]
    assert (fitted.complete(holes)["label"] == best).all()


def test_events_of_faces_are_events_of_one_variable(fitted):
    asked = [{"label": ["ba"]}, {"number": [13.0]}, {"code": (200, 400)}, {"code": [300.0]}]
    prob = fitted.probability(asked)
    assert_allclose(prob, prob[0])
    assert fitted.probability({"label": ["ba"], "number": [9.0]}) == 0.0
    assert fitted.probability({"code": (400, 500)}) == 0.0
    assert fitted.probability({"label": ["ba", "ma"], "number": (14, None)}) == pytest.approx(
        fitted.probability({"number": [14.0]})
    )
    assert fitted.probability({"label": ["ba"]}, given={"code": 300.0}) == pytest.approx(1.0)


def test_marginals_distributions_and_intervals_of_faces_agree(fitted):
    holes = table(20, seed=2).assign(label=None, number=np.nan, code=np.nan)
    cells = fitted.marginals(holes)
    order = [list(cells["label"].labels).index(label) for label in LABELS]
    of_labels = cells["label"].probabilities[:, order]
    assert_allclose(cells["code"].mean(), of_labels @ CODES)
    assert_allclose(cells["number"].mean(), of_labels @ NUMBERS)
    for column, values in (("number", NUMBERS), ("code", CODES)):
        lower, upper = (ends[column] for ends in fitted.interval(holes, level=0.8))
        ranked = np.argsort(values)
        below = np.cumsum(of_labels[:, ranked], axis=1)
        assert_allclose(lower, values[ranked][(below < 0.1).sum(axis=1)])
        assert_allclose(upper, values[ranked][(below < 0.9).sum(axis=1)])
    alone = fitted.distribution("code", given={"label": "ma"})
    assert alone.mean()[0] == pytest.approx(94.0)


def test_each_face_has_the_score_of_the_variable(fitted):
    X = table(10, seed=3)
    X.loc[2, "number"] = np.nan
    cells = fitted.score_cells(X)
    assert np.isnan(cells["number"][2])
    some = cells.drop(index=2)
    assert_allclose(some["label"], some["number"])
    assert_allclose(cells["label"], cells["code"])
    # The variable counts once.
    assert_allclose(fitted.score_samples(X), fitted.score_samples(X.assign(code=np.nan)))


@pytest.mark.filterwarnings("ignore:Found categories")
def test_a_row_that_contradicts_itself_holds_an_unseen_state(fitted):
    X = pd.DataFrame({"label": ["ba"], "number": [9.0], "code": [np.nan], "pay": [1.0]})
    unknown = fitted.score_samples(X.assign(label="new", number=np.nan))
    assert_allclose(fitted.score_samples(X), unknown)
    alone = fitted.score_samples(X.assign(label=None, number=np.nan))
    assert (unknown < alone - 3.0).all()
    assert (fitted.complete(X)[["label", "number"]] == X[["label", "number"]]).all(axis=None)


def test_a_contradiction_warns_and_is_refused_where_that_is_asked_for():
    X = pd.DataFrame({"label": ["ba"], "number": [9.0], "code": [np.nan], "pay": [1.0]})
    with pytest.warns(UserWarning, match="'number', row 0"):
        TableMixture(n_components=2, random_state=0).fit(table()).score_samples(X)
    strict = CutsetNetworkBD(handle_unknown="error").fit(table())
    with pytest.raises(ValueError, match="belong together as in fit.* found 9.0 and 'ba', row 0"):
        strict.score_samples(X)
    missing = CutsetNetworkBD(handle_unknown="missing").fit(table())
    # But for the share of unseen states, which an observed state lacks.
    without = missing.score_samples(X.assign(label=None, number=np.nan))
    assert_allclose(missing.score_samples(X), without, atol=0.01)


def test_what_is_given_must_not_contradict_itself(fitted):
    with pytest.raises(ValueError, match="must have cells of column 'number' and column 'label'"):
        fitted.sample(2, given={"label": "ba", "number": 9.0})
    drawn = fitted.sample(5, random_state=0, given={"code": 300.0})
    assert (drawn["label"] == "ba").all()


def test_imputers_keep_faces_together():
    X = table(200)
    X.loc[::3, ["label", "number", "code"]] = None, np.nan, np.nan
    X.loc[1::3, "pay"] = np.nan
    for strategy in ("mean", "sample"):
        imputer = CircuitImputer(
            TableMixture(n_components=2, random_state=0), strategy=strategy, random_state=0
        )
        assert are_known_pairs(imputer.set_output(transform="pandas").fit_transform(X))
    imputer = MultipleImputer(
        TableMixture(n_components=2, random_state=0), n_imputations=2, random_state=0
    )
    for filled in imputer.fit(X).impute(X):
        assert are_known_pairs(pd.DataFrame(filled, columns=X.columns))


def test_classifiers_and_the_mixture_of_all_trees_see_one_variable():
    X = table(120)
    y = (X["pay"] > 1.5).to_numpy()
    model = DensityClassifier(random_state=0).fit(X[["label", "number", "code"]], y)
    whole = model.predict_proba(X[["label", "number", "code"]])
    alone = model.predict_proba(X[["label"]].assign(number=np.nan, code=np.nan))
    assert_allclose(whole, alone)
    chosen = X[["label", "number"]].assign(side=np.where(y, "up", "down"))
    trees = MixtureOfAllTrees(max_iter=2, random_state=0).fit(chosen)
    drawn = trees.sample(50, random_state=0)
    assert (
        NUMBERS[[list(LABELS).index(label) for label in drawn["label"]]] == drawn["number"]
    ).all()


def test_a_pickle_keeps_the_faces(fitted):
    import pickle

    again = pickle.loads(pickle.dumps(fitted))
    pd.testing.assert_frame_equal(
        again.sample(20, random_state=0), fitted.sample(20, random_state=0)
    )


def test_the_order_of_columns_moves_the_faces_only():
    domain = Domain.fit(table()).taken(np.array([3, 2, 1, 0]))
    assert {(face.place, face.source) for face in domain.faces.values()} == {(3, 2), (1, 2)}
