"""Likelihoods of, and draws from, rows with ranges and sets, against sums over their values."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from skpc.queries import Events, log_likelihood, sample_missing
from skpc.variables.truncated import truncated_normal
from tests.naive import circuit as naive
from tests.naive.events import truncated_moments
from tests.queries.test_events import random_events, random_intervals
from tests.zoo import random_block_circuit, random_circuit, random_rows

KINDS = ["binary", "discrete", "gaussian", "histogram", "atoms", "scored", "mixed", "counts"]
#: Beyond it hardly any distribution of the zoo has mass.
FAR = 60.0
ENDS = [1e-3, 0.1, 0.3, 1.0, 3.0, 8.0, 15.0, 25.0, 29.0, 30.0, FAR]


def cuts_of(circuit, var):
    """Places where the density of a variable may jump."""
    axis = circuit.columns.axis_of(var)
    edges = getattr(axis, "edges", np.empty(0))
    if hasattr(axis, "score"):
        # The map of scores is not smooth there.
        edges = axis.inverse(np.array([axis.score.low, 0.0, axis.score.high]))
        edges = edges[np.isfinite(edges)]
    return np.concatenate([naive.atoms_of(circuit, var), edges, [*ENDS, *-np.array(ENDS), 0.0]])


def fills_cell(circuit, var, value):
    """Whether a value lies in a cell that is an atom's."""
    axis = circuit.columns.axis_of(var)
    points = getattr(axis, "points", None)
    return points is not None and not np.isnan(points[np.searchsorted(axis.edges, value)])


def width_of(circuit, var, atom):
    """The width of the cell of an atom whose density is its mass over that width, else one."""
    axis = circuit.columns.axis_of(var)
    if not hasattr(axis, "edges"):
        return 1.0
    cell = np.searchsorted(axis.edges, atom)
    return 1.0 if axis._is_mass[cell] else axis.widths[cell]


def values_within(circuit, var, intervals):
    """Values of a variable in some intervals, and the log measure of each."""
    if circuit.structure.is_categorical[var]:
        states = [s for low, high in intervals for s in range(10) if low < s <= high]
        return np.array(states, float), np.zeros(len(states))
    if circuit.columns.family[var] == 3:
        counts = [c for low, high in intervals for c in range(300) if low < c <= high]
        return np.array(counts, float), np.zeros(len(counts))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    values, measure = [], []
    atoms = np.asarray(naive.atoms_of(circuit, var))
    for low, high in intervals:
        inside = [c for c in cuts_of(circuit, var) if low < c < high]
        ends = np.sort([np.clip(low, -FAR, FAR), *inside, np.clip(high, -FAR, FAR)])
        for a, b in zip(ends[:-1], ends[1:]):
            if b - a > 1e-9 and not fills_cell(circuit, var, 0.5 * (a + b)):
                values.append(a + (nodes + 1.0) * 0.5 * (b - a))
                measure.append(np.log(0.5 * weights * (b - a)))
        held = atoms[(low < atoms) & (atoms <= high)]
        values.append(held)
        measure.append(np.log([width_of(circuit, var, atom) for atom in held]))
    return np.concatenate(values), np.concatenate(measure)


def event_about(row, var, intervals):
    row = row.copy()
    row[var] = np.nan
    low, high = np.array(intervals, float).T
    nothing = np.zeros(len(low), int)
    return Events.from_intervals(row[np.newaxis], nothing, nothing + var, low, high)


def truth(circuit, row, var, intervals):
    """The log-likelihood of a row by those of the rows that it may be."""
    values, measure = values_within(circuit, var, intervals)
    rows = np.tile(row, (len(values), 1))
    rows[:, var] = values
    return logsumexp(log_likelihood(circuit, rows) + measure)


def has_lattice(circuit, var):
    return getattr(circuit.columns.axis_of(var), "step", 0.0) > 0.0


@pytest.mark.parametrize("kinds", KINDS)
def test_the_likelihood_of_a_range_is_that_of_its_values_by_quadrature(kinds):
    n_compared = 0
    for seed in range(8):
        circuit = random_circuit(seed, n_features=1 + seed % 4, kinds=kinds)
        rng = np.random.default_rng(seed)
        rows = random_rows(seed, circuit, 4, 0.4)
        for row in rows:
            var = int(rng.integers(circuit.n_features))
            intervals = random_intervals(rng, circuit, var)
            event = event_about(row, var, intervals)
            log_density = log_likelihood(circuit, event)[0]
            if has_lattice(circuit, var) or log_density < -60.0:
                continue
            # Scores have places where they are not smooth.
            error = 1e-5 if kinds in ("scored", "mixed") else 1e-8
            assert_allclose(log_density, truth(circuit, row, var, intervals), atol=error)
            n_compared += 1
    assert n_compared > 8


def test_draws_of_rows_lie_in_their_own_ranges():
    for seed in range(4):
        for make in (random_circuit, random_block_circuit):
            circuit = make(seed)
            events, _ = random_events(seed, circuit, 60)
            events = events.take(np.flatnonzero(log_likelihood(circuit, events) > -30.0))
            drawn = sample_missing(circuit, events, random_state=seed)
            assert events.hold(drawn).all()
            assert_allclose(np.where(np.isnan(events.rows), np.nan, drawn), events.rows)


def test_draws_within_a_range_have_its_moments():
    circuit = random_circuit(3, n_features=2, kinds="gaussian")
    n = 4000
    rows = np.full((n, 2), np.nan)
    number = np.arange(n)
    ends = np.array([[-1.0, 0.2], [0.5, 2.0]])
    low, high = ends[number % 2].T
    events = Events.from_intervals(rows, number, 0 * number, low, high)
    drawn = sample_missing(circuit, events, random_state=0)[:, 0]
    for kind in range(2):
        grid = np.linspace(*ends[kind], 4001)
        table = np.column_stack([grid, np.full(len(grid), np.nan)])
        density = np.exp(log_likelihood(circuit, table))
        wanted = (grid * density).sum() / density.sum()
        spread = np.sqrt(((grid - wanted) ** 2 * density).sum() / density.sum())
        assert abs(drawn[number % 2 == kind].mean() - wanted) < 5.0 * spread / np.sqrt(n / 2)


def test_truncated_moments_keep_their_digits_in_the_far_tail():
    ends = [(-1.0, 1.0), (0.0, np.inf), (40.0, np.inf), (-40.0, -39.9), (3.0, 3.5), (8.0, 30.0)]
    ends += [(-np.inf, -40.0), (-1e-6, 1e-6), (-5.0, 20.0), (-np.inf, np.inf), (40.0, 40.001)]
    for low, high in ends:
        fast = [float(part[0]) for part in truncated_normal(np.array([low]), np.array([high]))]
        slow = truncated_moments(low, high)
        assert_allclose(fast, slow, rtol=1e-8, atol=1e-12)


def test_a_range_far_out_is_not_impossible():
    from skpc.circuit import CircuitBuilder

    builder = CircuitBuilder([0])
    builder.gaussian(0, 0.0, 1.0)
    event = event_about(np.array([np.nan]), 0, [(40.0, np.inf)])
    assert_allclose(log_likelihood(builder.build(), event), [-804.608442], rtol=1e-8)
