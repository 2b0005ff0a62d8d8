"""Table mixtures against plain sums over rows, components and cells."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc._fitting import Stop
from skpc.domain import Declared, Domain, merge_rows
from skpc.learning.gaussian_mixture import (
    TAILS,
    GaussianMixture,
    MixtureParams,
    ParametrisedMixture,
    fit_gaussian_mixture,
)
from skpc.learning.table_mixture import (
    SMALLEST_SD,
    Candidate,
    Choices,
    LearnedMixture,
    TableColumns,
    table_circuit,
)
from skpc.queries import log_likelihood
from tests.naive import table_mixture as naive

PARAMS = [
    MixtureParams(2),
    MixtureParams(3, strength=2.0, to_diagonal=0.4),
    MixtureParams(2, widths=TAILS),
    MixtureParams(1, widths=(1.0, 3.0)),
]
every_choice = pytest.mark.parametrize("params", PARAMS, ids=str)


def table(n_rows=40, missing=0.25, seed=0):
    """Two numbers, one with an atom, an integer, and a category of three states."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    x = rng.normal(size=n_rows) + kind
    y = np.where(rng.random(n_rows) < 0.4, 0.0, np.exp(0.3 * x + 0.2 * rng.normal(size=n_rows)))
    whole = np.rint(20.0 + 5.0 * x + rng.normal(size=n_rows))
    X = np.column_stack([x, kind, y, whole]).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    X[0] = [0.5, 1.0, 0.0, 20.0]
    return X


def cells_of(X):
    """The columns and cells of a table, with weights."""
    domain = Domain.fit(X, Declared(categorical_features=[1], atoms={2: [0.0]}))
    rows, weight = merge_rows(domain.encode(X), 1.0 + np.arange(len(X)) % 3)
    columns = TableColumns.from_rows(
        rows, weight, domain.n_states, domain.laws, [None] * rows.shape[1]
    )
    return columns, columns.cells(rows), weight, rows, domain


def fit(columns, cells, weight, start, params, max_iter, tol):
    prior, stop = columns.prior, Stop(max_iter, tol)
    return fit_gaussian_mixture(cells, weight, [start], prior, params, stop).model.mixture


def split(columns, flat):
    """One array for each column of states."""
    return np.split(flat, columns.state_ptr[1:-1])


def plain(columns, model):
    """The components as the slow truth takes them."""
    found = []
    for k in range(len(model.weights)):
        widths = model.component == k
        found.append(
            {
                "weight": model.weights[k],
                "mean": model.gaussians.mean[k],
                "covariance": model.gaussians.covariance[k],
                "widths": list(zip(model.width[widths], model.proportion[widths])),
                "tables": split(columns, np.exp(model.log_table[k])),
            }
        )
    return found


def started(columns, cells, weight, params, seed=0):
    """A model after one step from random parts of rows."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.ones(params.n_components), size=len(weight)).T
    return fit(columns, cells, weight, np.ascontiguousarray(share), params, 0, 0.0)


def pairs(columns, cells):
    """Scores and states of each row, -1 where a state is missing."""
    states = split(columns, (cells.states @ np.eye(columns.state_ptr[-1])).T)
    codes = [np.where(part.any(axis=0), part.argmax(axis=0), -1) for part in states]
    return list(zip(cells.scores, np.array(codes).T))


def of_background(columns, cells):
    shares = split(columns, columns.share)
    moments = columns.centre, columns.scale, shares
    return [naive.background(*row, *moments) for row in pairs(columns, cells)]


@every_choice
def test_log_densities_are_sums_over_components_widths_and_the_background(params):
    columns, cells, weight, _, _ = cells_of(table())
    model = started(columns, cells, weight, params)
    outside = of_background(columns, cells)
    assert_allclose(np.exp(cells.background), outside, rtol=1e-9)
    b = 0.1 / (weight.sum() + 0.1)
    for r, row in enumerate(pairs(columns, cells)):
        inside = sum(sum(naive.parts(c, *row)) for c in plain(columns, model))
        truth = np.log((1 - b) * inside + b * outside[r])
        found = columns.log_density(model, cells)[r] - cells.log_base[r]
        assert_allclose(found, truth, rtol=1e-9, atol=1e-9)


@every_choice
def test_statistics_of_two_parts_add_up_to_those_of_the_whole(params):
    columns, cells, weight, rows, _ = cells_of(table())
    model = ParametrisedMixture(started(columns, cells, weight, params), columns.prior, params)
    # No state is missing in the first part.
    is_complete = ~np.isnan(rows).any(axis=1)
    whole = vars(model.expected(cells, weight))
    parts = [
        model.expected(columns.cells(rows[some]), weight[some])
        for some in (is_complete, ~is_complete)
    ]
    for name, total in vars(parts[0] + parts[1]).items():
        assert_allclose(total, whole[name], rtol=1e-10, atol=1e-10)


@every_choice
def test_a_step_of_em_is_that_of_the_formulas(params):
    columns, cells, weight, _, _ = cells_of(table())
    model = started(columns, cells, weight, params)
    found = fit(columns, cells, weight, model, params, 1, 0.0)
    b, shares = 0.1 / (weight.sum() + 0.1), split(columns, columns.share)
    outside = of_background(columns, cells)
    truth = naive.em_step(plain(columns, model), pairs(columns, cells), weight, outside, b, shares)
    pooled = sum(c["square"] for c in truth) / sum(c["count"] for c in truth)
    target = (1 - params.to_diagonal) * pooled + params.to_diagonal * np.diag(np.diag(pooled))
    for k, (component, other) in enumerate(zip(truth, plain(columns, found))):
        for name in ("weight", "mean", "widths"):
            assert_allclose(other[name], component[name], rtol=1e-4, atol=1e-6)
        for table_, true_table in zip(other["tables"], component["tables"]):
            assert_allclose(table_, true_table, rtol=1e-4)
        added = params.strength * len(pooled)
        covariance = (component["square"] + added * target) / (component["count"] + added)
        half = [c.smallest_sds(m[np.newaxis])[0] for c, m in zip(columns.scored, component["mean"])]
        floor = np.array(half) ** 2 + (SMALLEST_SD * columns.scale) ** 2
        covariance += np.diag(floor) / min(params.widths) ** 2
        assert_allclose(found.gaussians.covariance[k], covariance, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("params", PARAMS[1:3], ids=str)
def test_the_circuit_is_the_mixture(params):
    columns, cells, weight, rows, domain = cells_of(table())
    model = started(columns, cells, weight, params)
    circuit = table_circuit(columns, model, domain.n_features)
    assert circuit.smooth
    assert circuit.decomposable
    # A learner takes values on a lattice at their points, the circuit where they are alone not.
    learned = columns.log_density(model, cells)
    assert_allclose(log_likelihood(circuit, rows), learned, rtol=2e-4)
    has_several = (~np.isnan(rows)).sum(axis=1) == rows.shape[1]
    assert_allclose(log_likelihood(circuit, rows)[has_several], learned[has_several], rtol=1e-6)


@pytest.mark.parametrize("params", PARAMS[1:3], ids=str)
def test_a_weight_of_two_equals_the_row_twice(params):
    columns, cells, _, rows, _ = cells_of(table())
    twice = columns.cells(np.repeat(rows, 2, axis=0))
    share = np.random.default_rng(1).dirichlet(np.ones(params.n_components), size=len(rows)).T
    once = fit(columns, cells, np.full(len(rows), 2.0), np.ascontiguousarray(share), params, 3, 0.0)
    both = fit(columns, twice, np.ones(2 * len(rows)), np.repeat(share, 2, axis=1), params, 3, 0.0)
    assert_allclose(once.gaussians.covariance, both.gaussians.covariance, rtol=1e-8)
    assert_allclose(once.log_table, both.log_table, rtol=1e-8)


def test_em_ends_when_the_likelihood_no_longer_rises():
    columns, cells, weight, _, _ = cells_of(table(200))
    first = started(columns, cells, weight, MixtureParams(2))
    densities = [
        weight
        @ columns.log_density(fit(columns, cells, weight, first, MixtureParams(2), n, 0.0), cells)
        for n in (0, 5, 25)
    ]
    assert densities[0] < densities[1] < densities[2]
    hasty = fit(columns, cells, weight, first, MixtureParams(2), 25, np.inf)
    once = fit(columns, cells, weight, first, MixtureParams(2), 1, 0.0)
    assert_array_equal(hasty.gaussians.mean, once.gaussians.mean)


def test_components_never_degenerate():
    """Columns that depend on each other exactly, and more components than are there."""
    x = np.random.default_rng(0).normal(size=30)
    X = np.column_stack([x, 2.0 * x, np.repeat([1.5, 2.5], 15)])
    domain = Domain.fit(X)
    rows, weight = merge_rows(domain.encode(X), np.ones(30))
    columns = TableColumns.from_rows(rows, weight, domain.n_states, domain.laws, domain.axes)
    cells = columns.cells(rows)
    model = started(columns, cells, weight, MixtureParams(10, strength=0.1))
    found = fit(columns, cells, weight, model, MixtureParams(10, strength=0.1), 50, 0.0)
    assert np.all(np.isfinite(columns.log_density(found, cells)))


def test_mixtures_of_mixtures_are_mixtures():
    columns, cells, weight, _, _ = cells_of(table())
    models = [started(columns, cells, weight, params) for params in PARAMS[:3]]
    shares = np.array([0.5, 0.3, 0.2])
    together = columns.log_density(GaussianMixture.stacked(models, shares), cells)
    apart = np.exp([columns.log_density(model, cells) for model in models])
    assert_allclose(np.exp(together), shares @ apart, rtol=1e-9)


def test_the_heaviest_parts_are_mixed_by_their_weights():
    columns, cells, weight, *_ = cells_of(table())
    starts = [np.full((k, len(weight)), 1.0 / k) for k in (1, 2, 3)]
    models = [fit(columns, cells, weight, s, MixtureParams(len(s)), 2, 0.0) for s in starts]
    candidates = [Candidate(MixtureParams(len(s))) for s in starts]
    shares = np.array([0.3, 0.2, 0.5])
    choices = Choices(shares, candidates)
    mixture = LearnedMixture(columns, GaussianMixture.stacked(models, shares), choices, models)
    # Covariances of three numbers, of one, two and three components.
    for size, share, kept in (
        (0.0, 0.4, [2]),
        (0.0, 0.6, [0, 2]),
        (0.0, 0.9, [0, 1, 2]),
        (35.0, 0.4, [2]),
        (36.0, 0.4, [0, 2]),
        (1e9, 0.4, [0, 1, 2]),
    ):
        log_densities = [columns.log_density(models[k], cells) for k in kept]
        weights = shares[kept] / shares[kept].sum()
        truth = np.log(weights @ np.exp(log_densities))
        lighter = mixture.heaviest(size, share)
        assert_allclose(columns.log_density(lighter.model, cells), truth)
        assert_allclose(lighter.choices.weights, weights)
        assert [c.params.n_components for c in lighter.choices.candidates] == [k + 1 for k in kept]


def test_numbers_without_a_domain_have_linear_scores():
    rows = np.random.default_rng(0).normal(5.0, 2.0, size=(50, 2))
    absent = [None] * 2
    n_states = np.zeros(2, dtype=np.int64)
    columns = TableColumns.from_rows(rows, np.ones(50), n_states, absent, absent)
    assert_allclose(columns.cells(rows).scores, (rows - rows.mean(axis=0)) / rows.std(axis=0))


def test_points_of_clusters_are_complete_and_near():
    X = table()
    X[3, 0] = 1e9
    columns, _, weight, rows, _ = cells_of(X)
    points = columns.points(rows, weight)
    assert np.all(np.abs(points) <= 20.0)
    assert points.shape == (len(rows), 6)


def test_wide_rows_with_missing_cells_start_near_the_end_of_em():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5)) @ rng.normal(size=(5, 60)) + rng.normal(size=(600, 60))
    X[rng.random(X.shape) < 0.2] = np.nan
    absent = [None] * 60
    n_states = np.zeros(60, dtype=np.int64)
    columns = TableColumns.from_rows(X, np.ones(600), n_states, absent, absent)
    cells, everyone = columns.cells(X), np.ones((1, 600))

    def reached(max_iter):
        model = fit(columns, cells, everyone[0], everyone, MixtureParams(1), max_iter, 0.0)
        return columns.log_density(model, cells).mean()

    # A start that knows of no dependence is some ten nats a row below.
    assert reached(0) > reached(60) - 2.0


def test_a_table_of_categories_alone_is_a_mixture_of_tables():
    codes = np.random.default_rng(0).integers(0, 3, (60, 3)).astype(float)
    absent = [None] * 3
    columns = TableColumns.from_rows(codes, np.ones(60), np.full(3, 3), absent, absent)
    cells = columns.cells(codes)
    model = started(columns, cells, np.ones(60), MixtureParams(2))
    grid = np.stack(np.meshgrid(*[np.arange(3.0)] * 3), axis=-1).reshape(-1, 3)
    assert_allclose(np.exp(columns.log_density(model, columns.cells(grid))).sum(), 1.0)
    assert_array_equal(columns.numbers, [])


def test_fewer_clusters_than_components_are_fitted_as_they_are():
    columns, cells, weight, *_ = cells_of(table(40))
    start = (np.arange(2)[:, np.newaxis] == np.arange(len(weight)) % 2) * 1.0
    three, two = (fit(columns, cells, weight, start, MixtureParams(k), 3, -np.inf) for k in (3, 2))
    assert_allclose(three.gaussians.mean, two.gaussians.mean, rtol=0.0, atol=0.0)
