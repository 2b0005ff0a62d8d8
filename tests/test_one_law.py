"""One column, one law: scores, events, marginals, intervals, moments and draws of each density are
of one distribution, by enumeration of what is discrete and by quadrature of the rest.

A small table has a column of every kind, all of which depend on one factor. ``WORK`` lists what
disagrees today, with the reason; an entry that agrees fails the test, and has to go.
"""

from __future__ import annotations

import warnings
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from skpc import (
    CutsetNetworkBD,
    ExtraCutsets,
    HiddenChowLiuTree,
    HiddenForest,
    MixtureOfAllTrees,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)

DENSITIES = {
    "cutset": lambda: CutsetNetworkBD(random_state=0),
    "cutsets": lambda: CutsetNetworkBD(n_components=2, max_iter=5, random_state=0),
    "extra": lambda: ExtraCutsets(5, random_state=0),
    "hidden": lambda: HiddenChowLiuTree(random_state=0),
    "forest": lambda: HiddenForest(n_estimators=2, n_clusters=2, n_hidden=8, random_state=0),
    "soft": lambda: SoftLearnSPN(random_state=0),
    "soft1": lambda: SoftLearnSPN(leaves="univariate", random_state=0),
    "mixture": lambda: TableMixture(n_components=3, random_state=0),
    "stack": lambda: StackedDensity(
        [("bins", CutsetNetworkBD()), ("scores", TableMixture(n_components=2))],
        cv=2,
        random_state=0,
    ),
}
#: Those with histogram axes, and those with Gaussians of scores.
BINS, SCORES = ("cutset", "cutsets", "extra", "hidden", "forest"), ("soft", "soft1", "mixture")
OTHERS = (*SCORES, "stack")
EVERY = (*BINS, *OTHERS)
N_ROWS, N_DRAWS = 600, 40_000
#: Columns with a lattice and their steps (days of dates), those of states, and the others.
LATTICES = {"whole": 1.0, "tenths": 0.1, "hours": 1.0, "zeros": 1.0, "day": 1.0}
STATES = ("brackets", "visits", "rare", "side", "code", "label")
LINES = ("normal", "atoms", "share", "heavy", "repeats")
ORDERED, PAIR = ("brackets", "visits"), ("code", "label")
#: Differences of sums, of quadratures, and of draws (with five standard errors).
_FIRST_DAY, _DAY = pd.Timestamp("2020-03-01"), pd.Timedelta(days=1)
EXACT, SUM, QUADRATURE, SLACK = 1e-9, 1e-6, 1e-3, 5e-4


class Work(NamedTuple):
    """What disagrees: the test, the columns, the densities, and why."""

    test: str
    columns: tuple[str, ...]
    densities: tuple[str, ...]
    reason: str


_ON_LINE = "moments are those of the line, not of the values that draws become"
WORK = [
    Work("moments", ("zeros",), ("soft", "mixture", "stack"), _ON_LINE),
    Work("moments", ("heavy",), ("soft", "mixture", "stack"), _ON_LINE),
    Work("moments", ("repeats",), (*BINS, "soft", "soft1", "mixture", "stack"), _ON_LINE),
]


@cache
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    factor = rng.normal(size=N_ROWS)

    def noisy(noise: float = 0.7) -> np.ndarray:
        return factor + noise * rng.normal(size=N_ROWS)

    def levels(states: Any, shares: Any) -> np.ndarray:
        place = np.searchsorted(np.cumsum(shares), noisy().argsort().argsort() / N_ROWS, "right")
        return np.asarray(states)[np.minimum(place, len(states) - 1)]

    grid = np.sort(np.exp(rng.normal(size=120)) * np.pi)
    hours = np.where(rng.random(N_ROWS) < 0.4, 40.0, np.clip(np.rint(40 + 12 * noisy()), 1, 99))
    values = np.where(rng.random(N_ROWS) < 0.15, 7.5, 5.0 + 2.0 * noisy())
    ranks = (noisy().argsort().argsort() + 0.5) / N_ROWS
    shifts = rng.integers(-5, 6, N_ROWS)
    code = levels(np.arange(30.0, 37.0), np.full(7, 1 / 7))
    return pd.DataFrame(
        {
            "whole": np.rint(30.0 + 8.0 * noisy()),
            "tenths": np.round(20.0 + 4.0 * noisy(), 1),
            "hours": hours,
            "zeros": np.where(noisy() < 0.0, 0.0, np.floor(np.exp(2.0 + 0.8 * noisy()))),
            "day": _FIRST_DAY + np.rint(50 * noisy()) * _DAY,
            "brackets": levels([0.19, 0.22, 0.27, 0.32, 0.62, 0.72], np.full(6, 1 / 6)),
            "visits": np.minimum(rng.poisson(np.exp(0.8 * noisy())), 9).astype(float),
            "rare": levels(["a", "b", "c", "d"], [0.7, 0.29, 0.006, 0.004]),
            "side": np.where(noisy() > 0.0, "up", "down"),
            "code": code,
            "label": np.array(list("pqrstuv"))[(code - 30).astype(int)],
            "normal": noisy(),
            "atoms": np.where(rng.random(N_ROWS) < 0.2, 0.0, values),
            "share": ranks,
            "heavy": np.exp(2.0 * noisy()),
            "repeats": grid[np.clip((120 * ranks).astype(int) + shifts, 0, 119)],
            "constant": np.full(N_ROWS, 70.5),
        }
    )


@cache
def model(label: str) -> Any:
    return DENSITIES[label]().fit(table())


@cache
def draws(label: str) -> pd.DataFrame:
    return model(label).sample(N_DRAWS, random_state=1)


@cache
def intervals(label: str, level: float) -> Any:
    """Ends of the intervals of all columns, of a row that shows nothing."""
    return model(label).interval(row_of(), level)


@cache
def states(column: str) -> list[Any]:
    return sorted(table()[column].unique().tolist())


def cases(test: str, columns: tuple[str, ...], densities: tuple[str, ...] = EVERY) -> Any:
    """Each density and column of a test, marked where both are known to disagree."""
    found = []
    for label, column in product(densities, columns):
        reasons = [
            work.reason
            for work in WORK
            if work.test == test and column in work.columns and label in work.densities
        ]
        marks = [pytest.mark.xfail(strict=True, reason=reason) for reason in reasons[:1]]
        found.append(pytest.param(label, column, marks=marks, id=f"{label}-{column}"))
    return pytest.mark.parametrize(("label", "column"), found)


def scores(label: str, cells: dict[str, Any], given: Any = None) -> np.ndarray:
    """Densities of rows that have these cells only."""
    rows = pd.DataFrame(cells).reindex(columns=table().columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.exp(model(label).score_samples(rows, given=given))


def row_of(**cells: Any) -> pd.DataFrame:
    """A row that has these cells only."""
    return pd.DataFrame(cells, index=[0]).reindex(columns=table().columns)


def asked(label: str, column: str, statements: Any, **given: Any) -> np.ndarray:
    """Probabilities of statements about one column."""
    return model(label).probability(
        [{column: one} for one in statements], given=given and [given] * len(statements)
    )


def seen(label: str, column: str) -> float:
    """Probability that a cell is a known state; marginals, intervals and draws are given that."""
    return asked(label, column, [states(column)])[0] if column in ORDERED else 1.0


def levels_of(column: str) -> list[Any]:
    """Ends of ranges: seen values, and some between these."""
    values = table()[column].sort_values().reset_index(drop=True)
    seen = values.iloc[np.linspace(10, N_ROWS - 10, 6).astype(int)].drop_duplicates()
    greater = [values[values > one].min() for one in seen]
    middles = [low + (high - low) / 2 for low, high in zip(seen, greater) if low < high]
    return [*seen.tolist(), *middles[::2]]


def points(column: str) -> Any:
    """All points of a lattice, well beyond the rows."""
    low, high = table()[column].min(), table()[column].max()
    if column == "day":
        return pd.date_range(low - 3 * (high - low), high + 3 * (high - low)).to_series()
    step, size = LATTICES[column], 3 * (high - low)
    return pd.Series(np.arange(round((low - size) / step), round((high + size) / step)) * step)


# -- scores and events -----------------------------------------------------------------------------


#: Steps of the lattices that states of numbers lie on: their scores are densities per unit.
STEPS = {"brackets": 0.01}


@cases("states", STATES)
def test_scores_of_states_sum_to_their_events(label: str, column: str) -> None:
    known = states(column)
    scored = STEPS.get(column, 1.0) * scores(label, {column: known})
    np.testing.assert_allclose(scored, asked(label, column, [[one] for one in known]), atol=EXACT)
    half = known[::2]
    (together,) = asked(label, column, [half])
    assert scored[::2].sum() == pytest.approx(together, abs=EXACT)


@cases("rows of states", ("side",))
def test_scores_of_rows_of_states_sum_to_their_event(label: str, column: str) -> None:
    chosen = ["rare", column, "brackets"]
    rows = pd.DataFrame(product(*map(states, chosen)), columns=chosen)
    whole = model(label).probability({name: states(name) for name in chosen})
    total = STEPS["brackets"] * scores(label, rows).sum()
    assert total == pytest.approx(whole, abs=EXACT)


@cases("lattice", tuple(LATTICES))
def test_scores_on_a_lattice_sum_to_events_of_ranges(label: str, column: str) -> None:
    at = points(column)
    mass = LATTICES[column] * scores(label, {column: at})
    slack = 0.0 * _DAY if column == "day" else 1e-6
    levels = levels_of(column)
    for level, below in zip(levels, asked(label, column, [(at.iloc[0], one) for one in levels])):
        assert mass[at <= level + slack].sum() == pytest.approx(below, abs=SUM)


# Events about values that repeat take their whole cells, on which scores have a slope.
@cases("line", LINES[:-1])
def test_quadrature_of_scores_gives_events_of_ranges(label: str, column: str) -> None:
    edges = np.array(sorted(levels_of(column)))
    held = asked(label, column, [pd.Interval(*ends, "neither") for ends in zip(edges, edges[1:])])
    for low, high, event in zip(edges, edges[1:], held):
        grid = np.linspace(low, high, 4001)
        middles = grid[:-1] + np.diff(grid) / 2
        area = (scores(label, {column: middles}) * np.diff(grid)).sum()
        inside = [atom for atom in _atoms(column) if low < atom < high]
        area += scores(label, {column: inside}).sum() if inside else 0.0
        assert area == pytest.approx(event, abs=QUADRATURE)


def _atoms(column: str) -> list[float]:
    return [0.0, 7.5] if column == "atoms" else []


@cases("constant", ("constant",))
def test_the_value_of_a_constant_column_is_certain(label: str, column: str) -> None:
    (value,) = states(column)
    assert asked(label, column, [value])[0] == pytest.approx(1.0, abs=2.0 / N_ROWS)
    assert scores(label, {column: [value]})[0] == pytest.approx(1.0, abs=2.0 / N_ROWS)
    assert (draws(label)[column] == value).all()


# -- marginals, intervals, moments -----------------------------------------------------------------


@cases("marginals", (*LATTICES, *LINES, *ORDERED))
def test_marginals_are_the_events(label: str, column: str) -> None:
    for given in ({}, {"side": "up"}):
        cells = model(label).marginals(row_of(**given))[column]
        statements = levels_of(column)
        below = asked(label, column, [(None, level) for level in statements], **given)
        below = below / seen(label, column)
        of_cells = [cells.cdf(level)[0] for level in statements]
        np.testing.assert_allclose(of_cells, below, atol=1e-5)


@cases("marginals of states", STATES)
def test_marginals_of_states_are_events_given_that_a_state_is_seen(label: str, column: str) -> None:
    known = states(column)
    (whole,) = asked(label, column, [known])
    prob = asked(label, column, [[one] for one in known]) / whole
    cells = model(label).marginals(row_of())[column]
    of_cells = cells.probabilities[0] if cells.labels is not None else cells.atom_probabilities()[0]
    np.testing.assert_allclose(of_cells, prob, atol=EXACT)


@cases("intervals", (*LATTICES, *LINES, *ORDERED))
def test_intervals_are_quantiles_of_events(label: str, column: str) -> None:
    for level in (0.5, 0.9):
        lower, upper = (ends[column].iloc[0] for ends in intervals(label, level))
        for end, wanted in ((lower, 0.5 - level / 2), (upper, 0.5 + level / 2)):
            whole = seen(label, column)
            below, at = asked(label, column, [_less(column, end), (None, end)]) / whole
            assert below <= wanted + SLACK
            assert at >= wanted - SLACK


def _less(column: str, end: Any) -> Any:
    """What lies below a value."""
    if column == "day":
        return (None, end - _DAY)
    return pd.Interval(-np.inf, end, closed="left")


@cases("moments", (*LATTICES, *LINES, *ORDERED))
def test_means_and_variances_are_those_of_events(label: str, column: str) -> None:
    cells = model(label).marginals(row_of())[column]
    if column in ORDERED:
        prob = asked(label, column, [[one] for one in states(column)])
        value, width = np.array(states(column)), 0.0
    else:
        value, prob, width = _cells_of_events(label, column)
    mean = (value * prob).sum() / prob.sum()
    variance = (((value - mean) ** 2 + width**2 / 12.0) * prob).sum() / prob.sum()
    found, resolution = cells.mean()[0], 0.0
    if column == "day":
        found, resolution = (found - _FIRST_DAY) / _DAY, 0.5
    assert found == pytest.approx(mean, abs=2e-3 * np.sqrt(variance) + resolution)
    assert cells.variance()[0] == pytest.approx(variance, rel=5e-3)


def _cells_of_events(label: str, column: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Middles, probabilities and widths of cells of the line; points of a lattice have none."""
    if column in LATTICES:
        at = points(column)
        below = asked(label, column, [(None, one) for one in at.tolist()])
        if column == "day":
            at = (at - _FIRST_DAY) / _DAY
        return at.to_numpy(), np.diff(below, prepend=0.0), 0.0
    values = table()[column]
    inner = np.linspace(values.min(), values.max(), 1200)
    inner = np.unique(np.concatenate([inner, np.quantile(values, np.linspace(0.0, 1.0, 100))]))
    beyond = (inner[-1] - inner[0]) * np.geomspace(1e-3, 20.0, 300)
    # An edge just below each atom and at it gives the atom a cell.
    atoms = np.array(_atoms(column))
    edges = np.unique(np.concatenate([inner[0] - beyond, inner, inner[-1] + beyond, atoms]))
    edges = np.unique(np.concatenate([edges, atoms - 1e-9]))
    below = asked(label, column, [(None, edge) for edge in edges])
    return (edges[1:] + edges[:-1]) / 2, np.diff(below), np.diff(edges)


# -- draws -----------------------------------------------------------------------------------------


def agree(drawn: Any, expected: Any, n_draws: int) -> None:
    """Shares of draws that are probabilities."""
    drawn, expected = np.asarray(drawn, dtype=float), np.clip(expected, 0.0, 1.0)
    se = np.sqrt(expected * (1.0 - expected) / n_draws)
    assert (np.abs(drawn - expected) <= 5.0 * se + SLACK).all(), (drawn, expected)


def _are_below(cells: pd.Series, level: Any, *, is_closed: bool = True) -> pd.Series:
    """Which draws are below a value, whatever rounding has done to them."""
    if isinstance(level, pd.Timestamp):
        return cells <= level
    slack = 1e-9 * abs(level)
    return cells <= level + slack if is_closed else cells < level - slack


def _below(cells: pd.Series, level: Any, *, is_closed: bool = True) -> float:
    """The share of these."""
    return float(_are_below(cells, level, is_closed=is_closed).mean())


@cases("draws", (*LATTICES, *LINES, *ORDERED))
def test_shares_of_draws_are_events(label: str, column: str) -> None:
    cells, ends = draws(label)[column], levels_of(column)
    whole = seen(label, column)
    below = asked(label, column, [(None, end) for end in ends]) / whole
    agree([_below(cells, end) for end in ends], below, N_DRAWS)
    if column != "day":
        below = asked(label, column, [_less(column, end) for end in ends]) / whole
        agree([_below(cells, end, is_closed=False) for end in ends], below, N_DRAWS)


@cases("draws of states", STATES)
def test_shares_of_drawn_states_are_events_of_seen_ones(label: str, column: str) -> None:
    known = states(column)
    (whole,) = asked(label, column, [known])
    prob = asked(label, column, [[one] for one in known]) / whole
    agree([(draws(label)[column] == one).mean() for one in known], prob, N_DRAWS)


@cases("given", (*LATTICES, *LINES, *ORDERED))
def test_draws_and_completions_given_a_cell_are_conditional_events(label: str, column: str) -> None:
    given, ends = {"side": "up"}, levels_of(column)
    whole = seen(label, column)
    below = asked(label, column, [(None, end) for end in ends], **given) / whole
    size = N_DRAWS // 10
    drawn = model(label).sample(size, random_state=2, given=given)[column]
    agree([_below(drawn, end) for end in ends], below, size)
    holes = row_of(**given).iloc[[0] * size]
    filled = model(label).complete(holes, strategy="sample", random_state=3)[column]
    agree([_below(filled, end) for end in ends], below, size)


@cases("within", ("hours", "atoms", "heavy"))
def test_draws_within_a_range_are_conditional_events(label: str, column: str) -> None:
    values = table()[column]
    low, high = np.quantile(values, [0.2, 0.9])
    ends = [end for end in levels_of(column) if low <= end < high]
    known = asked(label, column, [(low, high)])
    below = asked(label, column, [(low, end) for end in ends]) / known
    size = N_DRAWS // 20
    drawn = model(label).sample(size, random_state=2, given={column: (low, high)})[column]
    assert drawn.between(low - 1e-9, high + 1e-9).all()
    agree([_below(drawn, end) for end in ends], below, size)


# -- two columns -----------------------------------------------------------------------------------

#: States or points of a lattice, which are summed over, beside a number.
PAIRS = (
    *("side whole", "rare normal", "brackets normal", "visits day", "whole day", "whole normal"),
    *("hours atoms", "zeros share", "visits heavy"),
)


@cases("two columns", PAIRS)
def test_events_of_two_columns_are_sums_of_scores_and_marginals(label: str, column: str) -> None:
    first, second = column.split()
    cells = states(first) if first in STATES else points(first).tolist()
    step = STEPS.get(first, 1.0) if first in STATES else LATTICES[first]
    mass = step * scores(label, {first: cells})
    some = np.flatnonzero(mass > 1e-9)
    rows = pd.DataFrame({first: np.asarray(cells)[some]}).reindex(columns=table().columns)
    conditional = model(label).marginals(rows)[second]
    for end in levels_of(second)[1:4]:
        summed = np.cumsum(mass[some] * conditional.cdf(end))
        if first in STATES and first not in ORDERED:
            event = model(label).probability({first: cells, second: (None, end)})
            assert summed[-1] == pytest.approx(event, abs=QUADRATURE)
            continue
        for place in (len(some) // 3, len(some) // 2):
            event = {first: (None, cells[some[place]]), second: (None, end)}
            assert summed[place] == pytest.approx(model(label).probability(event), abs=QUADRATURE)


@cases("two lines", ("normal heavy", "normal atoms", "share heavy"))
def test_events_of_two_lines_are_quadratures_of_scores(label: str, column: str) -> None:
    first, second = column.split()
    values = table()[first]
    grid = np.linspace(*np.quantile(values, [0.1, 0.7]), 801)
    middles = grid[:-1] + np.diff(grid) / 2
    mass = scores(label, {first: middles}) * np.diff(grid)
    rows = pd.DataFrame({first: middles}).reindex(columns=table().columns)
    conditional = model(label).marginals(rows)[second]
    for end in levels_of(second)[1:4]:
        event = model(label).probability({first: (grid[0], grid[-1]), second: (None, end)})
        area = (mass * conditional.cdf(end)).sum()
        assert area == pytest.approx(event, abs=QUADRATURE)


@cases("draws of two", (*PAIRS, "normal heavy", "share heavy", "tenths repeats"))
def test_shares_of_draws_of_two_columns_are_events(label: str, column: str) -> None:
    first, second = column.split()
    drawn, shares, events = draws(label), [], []
    for place, end in enumerate(levels_of(second)[1:4], 1):
        if first in STATES:
            said: Any = states(first)[: 1 + place // 3]
            is_first = drawn[first].isin(said)
        else:
            said = (None, levels_of(first)[place])
            is_first = _are_below(drawn[first], said[1])
        shares.append((is_first & _are_below(drawn[second], end)).mean())
        events.append({first: said, second: (None, end)})
    agree(shares, model(label).probability(events), N_DRAWS)


@cases("chain rule", PAIRS)
def test_conditional_events_are_ratios_of_joint_ones(label: str, column: str) -> None:
    first, second = column.split()
    said = states(first)[:1] if first in STATES else (None, levels_of(first)[2])
    for end in levels_of(second)[1:4]:
        joint = model(label).probability({first: said, second: (None, end)})
        known = model(label).probability({first: said})
        given = model(label).probability({second: (None, end)}, given={first: said})
        assert given == pytest.approx(joint / known, abs=EXACT)


@cases("one variable", PAIR)
def test_columns_that_determine_each_other_are_one_variable(label: str, column: str) -> None:
    (other,) = set(PAIR) - {column}
    both = table()[[*PAIR]].drop_duplicates()
    for value, known in zip(both[column], both[other]):
        given = model(label).probability({column: [value]}, given={other: known})
        assert given == pytest.approx(1.0, abs=2.0 / N_ROWS)
    drawn = draws(label)[[*PAIR]].drop_duplicates()
    assert len(drawn.merge(both)) == len(drawn)


def test_the_mixture_of_all_trees_draws_rows_as_probable_as_it_says() -> None:
    # It has no events, and only complete rows have an exact score.
    chosen = ["visits", "rare", "side"]
    fitted = MixtureOfAllTrees(max_iter=5, random_state=0).fit(table()[chosen])
    rows = pd.DataFrame(product(*map(states, chosen)), columns=chosen)
    prob = np.exp(fitted.score_samples(rows))
    assert prob.sum() == pytest.approx(1.0, abs=0.02)
    drawn = fitted.sample(N_DRAWS, random_state=1).value_counts(normalize=True)
    agree([drawn.get(tuple(row), 0.0) for row in rows.to_numpy()], prob / prob.sum(), N_DRAWS)
