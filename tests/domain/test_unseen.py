"""Categories that were not seen, and columns that no learner sees."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skpc import CutsetNetworkBD, HiddenChowLiuTree, SoftLearnSPN, TableMixture
from skpc.domain import Declared, Domain
from skpc.domain.given import encode_given
from tests.naive import ordered
from tests.naive import unseen as naive


def strings(cells):
    return np.array(cells, dtype=object)[:, np.newaxis]


def names(n_rows, first=0):
    return [f"row {i}" for i in range(first, first + n_rows)]


# ---------------------------------------------------------------- the probability of the unseen


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", "d", None]), st.sampled_from([1.0, 2.0, 0.5]))
    ),
    st.sampled_from(["auto", ["a", "b", "z"]]),
)
@settings(max_examples=100, deadline=None)
def test_unseen_mass_equals_counting_the_values_that_are_seen_once(rows, declared):
    cells, weight = zip(("a", 1.0), *rows)
    categories = declared if declared == "auto" else [declared]
    domain = Domain.fit(
        strings(cells), Declared(categories=categories), sample_weight=np.array(weight)
    )
    states = domain[0].states.tolist()
    assert domain[0].unseen == pytest.approx(naive.unseen_mass(cells, weight, states))


def test_unseen_mass_is_half_a_row_at_least_and_one_half_at_most():
    assert [column.unseen for column in Domain.fit(strings(["a", "b"] * 10))] == [1 / 42]
    assert [column.unseen for column in Domain.fit(strings(["a", "b", "c"]))] == [0.5]
    assert [column.unseen for column in Domain.fit(strings(["a", None, "a", "b", "c", "b"]))] == [
        0.2
    ]


def test_unseen_mass_neither_depends_on_the_order_of_rows_nor_on_repetition():
    rng = np.random.default_rng(0)
    cells, weight = rng.choice(list("abcdefghijklmnop"), 40), rng.choice([0.1, 0.3, 0.6], 40)
    order = rng.permutation(80)
    once = Domain.fit(strings(cells), sample_weight=2 * weight)
    twice = Domain.fit(
        strings(np.repeat(cells, 2)[order]), sample_weight=np.repeat(weight, 2)[order]
    )
    assert once[0].unseen == twice[0].unseen


def test_only_columns_of_strings_have_unseen_mass_and_only_by_default():
    frame = pd.DataFrame(
        {
            "text": ["a", "b", "a"],
            "category": pd.Categorical(["u", "v", "u"]),
            "level": pd.Categorical([1, 2, 1]),
            "flag": [True, False, True],
            "count": [0, 1, 1],
            "size": [0.5, 1.5, 2.5],
        }
    )
    assert [column.unseen > 0 for column in Domain.fit(frame)] == [True, True] + [False] * 4
    for other in ("missing", "error"):
        assert not any(
            column.unseen for column in Domain.fit(frame, Declared(handle_unknown=other))
        )


def test_what_cells_add_equals_a_loop_over_cells():
    rng = np.random.default_rng(0)
    cells = [*rng.choice(["a", "b", "c"], 60).tolist(), "d", None]
    new = ["a", "d", "e", None, "b", "f"]
    with pytest.warns(UserWarning, match=r"2 of 6 rows, the first 'e' in column 0, row 2"):
        rows, mass = Domain.fit(strings(cells)).encode_with_mass(strings(new))
    expected = [naive.added(cell, "abcd", 1 / 61) for cell in new]
    np.testing.assert_allclose(mass.with_rows(np.zeros(6)), expected)
    np.testing.assert_array_equal(mass.with_rows(np.zeros(6), [0]), np.zeros(6))
    np.testing.assert_array_equal(np.isnan(rows[:, 0]), [False, False, True, True, False, True])
    cells = mass.with_cells(np.where(np.isnan(rows), np.nan, -1.0))[:, 0]
    known = np.array([-1.0, -1.0, 0.0, np.nan, -1.0, 0.0])
    np.testing.assert_allclose(cells, expected + known)


def test_a_table_of_numbers_adds_nothing_and_is_not_copied():
    X = np.array([[0.5, 0.0], [1.5, np.nan]])
    rows, mass = Domain.fit(X).encode_with_mass(X)
    assert rows is X
    log_density = np.zeros(2)
    assert mass.with_rows(log_density) is log_density


# ---------------------------------------------------------------- columns that name the rows


def test_names_of_rows_are_one_state_and_are_warned_of_by_name():
    frame = pd.DataFrame({"id": names(1500), "kind": ["a", "b"] * 750})
    with pytest.warns(UserWarning, match="name the rows.* Found column 'id'") as caught:
        domain = Domain.fit(frame)
    assert len(caught) == 1
    assert domain.n_states.tolist() == [1, 2]
    np.testing.assert_array_equal(domain.encode(frame)[:, 0], 0.0)
    assert domain.decode(domain.encode(frame))["id"].isna().all()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (names(50), True),
        (names(49), False),
        (names(49) + [None] * 20, False),
        (names(92) + ["x"] * 8, True),
        (names(90) + ["x"] * 10, False),
        (names(40) * 2, False),
    ],
)
@pytest.mark.filterwarnings("ignore:Some columns seem to name the rows")
def test_a_column_names_rows_if_most_of_fifty_values_are_seen_once(cells, expected):
    assert Domain.fit(strings(cells)).is_hidden.tolist() == [expected]
    weight = np.full(len(cells), 2.0)
    assert not Domain.fit(strings(cells), sample_weight=weight).is_hidden.any()
    dtyped = pd.DataFrame({"id": pd.Categorical(cells)})
    assert Domain.fit(dtyped).is_hidden.tolist() == [expected]


def test_declared_categories_and_numbers_never_name_rows():
    cells = names(200)
    assert Domain.fit(strings(cells), Declared(categories=[cells])).n_states.tolist() == [200]
    numbers = np.arange(200.0)[:, np.newaxis] + 100
    assert Domain.fit(numbers, Declared(categorical_features=[0])).n_states.tolist() == [200]


@pytest.mark.filterwarnings("ignore:Some columns seem to name the rows")
@pytest.mark.parametrize("handle_unknown", ["unseen", "missing", "error"])
def test_names_are_uniform_and_new_ones_are_never_refused(handle_unknown):
    domain = Domain.fit(strings(names(100)), Declared(handle_unknown=handle_unknown))
    table = strings(["row 7", "row 100", None])
    rows, mass = domain.encode_with_mass(table)
    np.testing.assert_array_equal(rows, 0.0)
    m = 0.5 if handle_unknown == "unseen" else 0.0
    expected = [np.log((1 - m) / 100), np.log(m) if m else 0.0, 0.0]
    np.testing.assert_allclose(mass.with_rows(np.zeros(3)), expected)
    cells = mass.with_cells(np.zeros((3, 1)))[:, 0]
    np.testing.assert_allclose(cells, [expected[0], expected[1] if m else np.nan, np.nan])


@pytest.mark.filterwarnings("ignore:Some columns seem to name the rows")
def test_names_are_drawn_from_those_seen_unless_one_is_given():
    table = np.column_stack([strings(names(100)), strings(["a", "b"] * 50)])
    domain = Domain.fit(table)
    rows = np.zeros((20_000, 2))
    drawn = domain.decode(domain.draw_row_names(rows, np.random.RandomState(0)))
    values, counts = np.unique(drawn[:, 0].astype(str), return_counts=True)
    assert set(values) == set(names(100))
    assert abs(counts - 200).max() < 5 * np.sqrt(200)
    named = domain.draw_row_names(
        rows, np.random.RandomState(0), np.array([["row 3", None]], dtype=object)
    )
    assert set(domain.decode(named)[:, 0]) == {"row 3"}
    other = domain.draw_row_names(
        rows, np.random.RandomState(0), np.array([["new", None]], dtype=object)
    )
    assert len(set(domain.decode(other)[:, 0])) == 100
    assert not rows.any()


def test_many_values_that_come_back_are_still_refused_by_name():
    frame = pd.DataFrame({"id": names(1_001) * 2})
    with pytest.raises(ValueError, match="column 'id' has 1001"):
        Domain.fit(frame)


# ---------------------------------------------------------------- columns without any value

EMPTY = [
    pd.DataFrame(
        {
            "size": [1.0, 2.0],
            "void": [np.nan, np.nan],
            "whole": pd.array([None, None], dtype="Int64"),
            "text": pd.array([None, None], dtype="string"),
            "object": np.array([None, None], dtype=object),
            "category": pd.Categorical([None, None], categories=["x", "y"]),
        }
    ),
    pl.DataFrame(
        {
            "size": [1.0, 2.0],
            "void": pl.Series([None, None], dtype=pl.Float64),
            "whole": pl.Series([None, None], dtype=pl.Int32),
            "text": pl.Series([None, None], dtype=pl.String),
            "flag": pl.Series([None, None], dtype=pl.Boolean),
            "pooled": pl.Series([None, None], dtype=pl.Categorical),
            "category": pl.Series([None, None], dtype=pl.Enum(["x", "y"])),
            "null": [None, None],
        }
    ),
]
every_frame = pytest.mark.parametrize("frame", EMPTY, ids=["pandas", "polars"])


@every_frame
def test_columns_without_values_are_one_state_and_are_warned_of_by_name(frame):
    with pytest.warns(UserWarning, match="no value.*Found column 'void', column 'whole'") as caught:
        domain = Domain.fit(frame, n_bins=3)
    assert len(caught) == 1
    assert [column.kind == "empty" for column in domain] == [False] + [True] * (frame.shape[1] - 1)
    rows = domain.encode(frame)
    np.testing.assert_array_equal(rows[:, 1:], 0.0)
    decoded = domain.decode(rows)
    assert list(decoded.dtypes) == list(frame.dtypes)
    module = pd if isinstance(frame, pd.DataFrame) else pl
    module.testing.assert_frame_equal(domain.fill(frame, rows), frame)
    columns = [decoded[name].to_numpy() for name in frame.columns[1:]]
    assert pd.isna(np.column_stack([column.astype(object) for column in columns])).all()


@pytest.mark.filterwarnings("ignore:Some columns have no value")
@pytest.mark.parametrize("handle_unknown", ["unseen", "missing", "error"])
def test_whatever_comes_later_in_a_column_without_values_stays_and_says_nothing(handle_unknown):
    frame = pd.DataFrame({"size": [1.5, 2.5], "void": [np.nan, np.nan]})
    domain = Domain.fit(frame, Declared(handle_unknown=handle_unknown))
    for later in ([3.5, np.nan], ["text", None], [True, None]):
        table = frame.assign(void=np.array(later, dtype=object))
        rows, mass = domain.encode_with_mass(table)
        np.testing.assert_array_equal(rows, [[1.5, 0.0], [2.5, 0.0]])
        np.testing.assert_array_equal(mass.with_rows(np.zeros(2)), 0.0)
        assert np.isnan(mass.with_cells(np.zeros((2, 2)))[:, 1]).all()
        pd.testing.assert_frame_equal(domain.fill(table, rows), table)


@pytest.mark.filterwarnings("ignore:Some columns have no value")
def test_numbers_stay_an_array_of_numbers_beside_a_column_without_values():
    X = np.array([[0.5, np.nan], [np.nan, np.nan]])
    domain = Domain.fit(np.array([[0.5, np.nan], [2.25, np.nan]]))
    assert domain.decode(np.array([[1.5, 0.0]])).dtype == np.float64
    np.testing.assert_array_equal(
        domain.fill(X, np.array([[9.0, 0.0]] * 2)), [[0.5, np.nan], [9.0, np.nan]]
    )


@pytest.mark.filterwarnings("ignore:Some columns have no value")
def test_declared_states_of_a_column_without_values_do_not_matter():
    X = np.array([[0.0, np.nan], [1.0, np.nan]])
    assert Domain.fit(X, Declared(categories=[[0, 1], [3, 4]])).n_states.tolist() == [2, 1]


def test_a_table_without_any_value_is_refused():
    for table in (np.full((3, 2), np.nan), pd.DataFrame({"a": [None, None]}, dtype=object)):
        with pytest.raises(ValueError, match="Every value of X is missing"):
            Domain.fit(table)


@pytest.mark.filterwarnings("ignore:Some columns")
def test_pickles_know_what_was_not_seen():
    table = np.column_stack([strings(names(60)), strings(["a", "b"] * 30), strings([None] * 60)])
    domain = Domain.fit(table)
    again = pickle.loads(pickle.dumps(domain))
    assert [c.unseen for c in again] == [c.unseen for c in domain]
    assert again.is_hidden.tolist() == [True, False, True]
    np.testing.assert_array_equal(again.encode(table), domain.encode(table))


# ---------------------------------------------------------------- ordered states


def counts(n_rows=300, seed=0):
    """Counts of which some were not seen, half steps, brackets, and a number that follows them."""
    rng = np.random.default_rng(seed)
    visits = rng.poisson(2.0, n_rows) * 2.0
    stars = rng.integers(2, 11, n_rows) / 2
    doses = rng.choice([0.0, 50.0, 100.0, 250.0], n_rows)
    return np.column_stack([visits, stars, doses, visits + rng.normal(size=n_rows)])


def test_ordered_states_are_numbers_whose_other_values_have_a_probability():
    X = counts()
    weight = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(X))
    domain = Domain.fit(X, sample_weight=weight)
    assert domain.is_ordered.tolist() == [True, True, True, False]
    assert not domain.is_categorical.any()
    for column in range(3):
        unseen = ordered.unseen_mass(X[:, column].tolist(), weight.tolist())
        assert domain.laws[column].unseen == pytest.approx(unseen)


@pytest.mark.parametrize("column", [0, 1, 2])
def test_unseen_values_have_the_law_that_is_listed(column):
    X = counts()
    domain = Domain.fit(X)
    number = domain.laws[column]
    points = np.arange(-3000, 3000)
    states = np.rint(np.unique(X[:, column]) / number.step).astype(int).tolist()
    others = [k for k in points.tolist() if k not in states]
    law = np.exp(number.log_unseen(number.step * np.array(others))) * number.step
    expected = [ordered.probability_of_unseen(k, states) for k in others]
    np.testing.assert_allclose(law / number.unseen, expected, rtol=1e-9, atol=1e-300)
    assert law.sum() == pytest.approx(number.unseen, abs=1e-12)


@pytest.mark.parametrize(
    "density",
    [
        CutsetNetworkBD(n_components=2, param_ess=1.0, random_state=0),
        SoftLearnSPN(random_state=0),
        HiddenChowLiuTree(random_state=0),
        TableMixture(random_state=0),
    ],
    ids=lambda density: type(density).__name__,
)
def test_all_values_on_a_lattice_have_probability_one_in_every_row(density):
    X = counts()
    density.fit(X)
    for column, step in ((0, 2.0), (2, 50.0)):
        values = step * np.arange(-400, 500)
        rows = np.tile(X[7], (len(values), 1))
        rows[:, column] = values
        without = rows[:1].copy()
        without[:, column] = np.nan
        gained = density.score_samples(rows) - density.score_samples(without)
        assert step * np.exp(gained).sum() == pytest.approx(1.0, abs=1e-9)


def test_a_value_that_was_not_seen_is_the_nearest_one_for_what_is_asked_and_no_warning_comes():
    X = counts()
    model = CutsetNetworkBD().fit(X)
    row, nearest = np.array([-3.0, 2.0, 140.0, np.nan]), np.array([0.0, 2.0, 100.0, np.nan])
    np.testing.assert_array_equal(model.domain_.encode(row[np.newaxis])[0], nearest)
    assert model.complete([row])[0, 3] == model.complete([nearest])[0, 3]
    np.testing.assert_array_equal(model.complete([row])[0, :3], row[:3])
    assert model.sample(random_state=0, given=row)[0, 2] == 140.0


def test_unseen_values_of_new_rows_are_about_as_frequent_as_they_are_probable():
    rng = np.random.default_rng(0)
    probable = frequent = 0.0
    for _ in range(200):
        values = rng.negative_binomial(1, 0.3, 400) % 16
        number = Domain.fit(values[:200, np.newaxis] * 1.0).laws[0]
        probable += number.unseen
        frequent += (~np.isin(values[200:], values[:200])).mean()
    assert 1 / 3 < frequent / probable < 3.0


def test_declared_atoms_that_no_row_holds_are_no_unseen_values():
    X = counts()[:, [0]]
    number = Domain.fit(X, Declared(atoms={0: [*range(-4, 24, 2)]})).laws[0]
    points = 2.0 * np.arange(-3000, 3000)
    others = points[~number.is_atom(points)]
    assert 2.0 * np.exp(number.log_unseen(others)).sum() == pytest.approx(number.unseen)


def test_what_is_off_the_lattice_is_improbable_and_what_is_beyond_the_bounds_impossible():
    X = counts()
    domain = Domain.fit(X, Declared(bounds={0: (0, None)}))
    visits, stars, doses, _ = domain.laws
    # Halves between all half stars, and doses near one that was seen.
    assert np.isfinite(stars.log_unseen(np.array([2.25]))).all()
    assert not doses.is_atom(np.array([50.1, 60.0, 74.0])).any()
    assert visits.log_unseen(np.array([-2.0]))[0] == -np.inf
    points = 2.0 * np.arange(3000)
    others = points[~visits.is_atom(points)]
    assert 2.0 * np.exp(visits.log_unseen(others)).sum() == pytest.approx(visits.unseen)
    row = np.array([[-2.0, None, None, None]], dtype=object)
    with pytest.raises(ValueError, match=r"given must be in \[0, inf\] in column 0"):
        encode_given(domain, row)
