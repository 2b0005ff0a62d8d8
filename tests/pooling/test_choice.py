"""The density that a kernel machine chooses, and that of an imputer."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    SoftLearnSPN,
    TableMixture,
)
from skpc.domain import Domain, merge_rows
from skpc.learning import deal
from skpc.pooling.folds import Fold, column_variances, explained_variance, log_score
from tests.naive import calibration as naive


def smooth(n_rows: int = 600, seed: int = 0):
    """Numbers around three centres, which bins describe coarsely."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n_rows)
    X = 4.0 * rng.normal(size=(3, 6))[group] + rng.normal(size=(n_rows, 6))
    return X, X[:, 0] + group


def chain(n_rows: int = 600):
    """Categories of which each depends on the one before, as in a tree."""
    rng = np.random.default_rng(1)
    X = np.zeros((n_rows, 6))
    for j in range(1, 6):
        X[:, j] = np.where(rng.random(n_rows) < 0.7, X[:, j - 1], rng.integers(0, 4, n_rows))
    X[:, 0] = X[:, 1]
    return X, X.sum(axis=1)


@pytest.mark.parametrize("table", [smooth, chain])
def test_the_density_that_predicts_removed_cells_best_is_chosen(table):
    X, y = table()
    model = ExpectedKernelSVR(random_state=0).fit(X, y)
    score = {}
    for density in (CutsetNetworkBD(structured=True), SoftLearnSPN(random_state=0), TableMixture()):
        density.fit(X[:400])
        removed = np.random.default_rng(0).random(X[400:].shape) < 0.3
        given = np.where(removed, np.nan, X[400:])
        gain = density.score_samples(X[400:]) - density.score_samples(given)
        score[type(density)] = gain.sum() / removed.sum()
    score[CutsetNetworkBD] += 0.02
    # Two that are about as good may change places on other rows.
    assert score[type(model.density_)] > max(score.values()) - 0.02
    assert isinstance(model.density_, CutsetNetworkBD) == (table is chain)


def test_the_choice_learns_from_all_rows_in_the_end():
    X, y = smooth()
    density = ExpectedKernelSVR(random_state=0).fit(X, y).density_
    again = type(density)(random_state=0).fit(X)
    difference = density.score_samples(X) - again.score_samples(X)
    assert abs(difference.mean()) < 0.01


def log_scores(densities, held, weight, left):
    return [log_score(density._density, held, weight, left) for density in densities]


def explained(densities, held, weight, left):
    """Of the variance of the rows held out."""
    score = explained_variance(column_variances(densities[0].domain_, held, weight))
    return [score(density._density, held, weight, left) for density in densities]


@pytest.mark.parametrize("score", [log_scores, explained])
@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_scores_of_removed_cells_are_those_of_listed_completions(score, lost):
    X, _ = chain(120)
    X[np.random.default_rng(1).random(X.shape) < lost] = np.nan
    domain = Domain.fit(X, n_bins=20)
    rows, weight = merge_rows(domain.encode(X), np.random.default_rng(0).random(120) + 0.5)
    random_state = np.random.RandomState(0)
    fold = Fold.from_split(rows, next(deal(weight, 5, random_state)), [0.3], random_state)
    kept = fold.train_weight > 0.0
    test_data = rows[fold.test_index], fold.test_weight, fold.test_rows
    densities = [CutsetNetworkBD(structured=True), SoftLearnSPN(random_state=0)]
    for density in densities:
        density.fit_rows(domain, rows[kept], fold.train_weight[kept])
    slow = naive.score_of_removed if score is log_scores else naive.explained_of_removed
    held, weight, left = test_data
    truth = [slow(density, held, left, weight) for density in densities]
    np.testing.assert_allclose(score(densities, *test_data), truth, atol=1e-9)


def zeros_and_amounts(unit: float = 1.0):
    """Amounts, of which a third are zero, beside numbers that depend on them; densities of both.

    The first density takes zeros for atoms, the second does not.
    """
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    X[:, 0] = unit * np.where(rng.random(400) < 0.3, 0.0, np.exp(X[:, 0]))
    X[:, 1] += X[:, 0] / unit
    weight = rng.random(400) + 0.5
    densities = []
    for atoms in ({0: [0.0]}, {0: []}):
        domain = Domain.fit(X, n_bins=20, atoms=atoms)
        densities.append(SoftLearnSPN(random_state=0).fit_rows(domain, X[:300], weight[:300]))
    held = X[300:].copy()
    held[::7, 1] = np.nan
    left = np.where(rng.random(held.shape) < 0.4, np.nan, held)
    return densities, (held, weight[300:], left)


def test_explained_proportions_with_and_without_atoms_do_not_depend_on_units():
    densities, asked = zeros_and_amounts()
    rescaled, asked_of_rescaled = zeros_and_amounts(unit=1e-6)
    # Fits differ a little.
    np.testing.assert_allclose(
        explained(rescaled, *asked_of_rescaled), explained(densities, *asked), atol=0.01
    )


def test_the_explained_proportion_is_that_of_completions():
    densities, (held, weight, left) = zeros_and_amounts()
    for score, density in zip(explained(densities, held, weight, left), densities):
        parts = []
        for column, filled in enumerate(density.complete(left).T):
            known = ~np.isnan(held[:, column])
            centre = np.average(held[known, column], weights=weight[known])
            variance = np.average((held[known, column] - centre) ** 2, weights=weight[known])
            removed = known & np.isnan(left[:, column])
            error = (held[removed, column] - filled[removed]) ** 2
            parts.append(np.stack([weight[removed], weight[removed] * (1.0 - error / variance)]))
        mass, gain = np.concatenate(parts, axis=1).sum(axis=1)
        assert score == pytest.approx(gain / mass, abs=1e-9)


def test_a_column_that_does_not_vary_has_no_part_in_the_explained_proportion():
    X = np.column_stack([chain(120)[0], np.full(120, 0.1), np.repeat(7.3, 120)])
    domain = Domain.fit(X, categorical_features=[0, 1, 2, 3, 4, 5, 6], n_bins=20)
    rows = domain.encode(X)
    density = CutsetNetworkBD().fit_rows(domain, *merge_rows(rows, np.ones(120)))
    left = rows.copy()
    left[:, [0, 6, 7]] = np.nan
    fewer = rows.copy()
    fewer[:, 0] = np.nan
    weight = np.ones(120)
    assert explained([density], rows, weight, left) == pytest.approx(
        explained([density], rows, weight, fewer), abs=0.01
    )


@pytest.mark.parametrize("machine", [ExpectedKernelSVR(random_state=0), ExpectedKernelSVC()])
def test_incomplete_or_few_rows_have_the_structured_network(machine):
    X, y = smooth(100)
    y = y > np.median(y)
    X[3, 2] = np.nan
    model = machine.fit(X, y)
    assert isinstance(model.density_, CutsetNetworkBD)
    assert model.density_.circuit_.structured_decomposable
    assert isinstance(machine.fit(X[10:29], y[10:29]).density_, CutsetNetworkBD)


def test_densities_score_nothing_where_no_cell_was_removed():
    X, y = chain(40)
    domain = Domain.fit(X, n_bins=20)
    rows, weight = merge_rows(domain.encode(X[:1]), np.ones(1))
    densities = [SoftLearnSPN().fit_rows(domain, rows, weight)]
    complete = rows, weight, rows
    assert log_scores(densities, *complete) == explained(densities, *complete) == [0.0]


def test_a_row_counts_as_often_as_its_weight_in_the_choice():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:100, :5], y[:100]
    weight = np.random.default_rng(0).integers(0, 3, 100)
    a = ExpectedKernelSVR(random_state=0).fit(X, y, sample_weight=weight)
    b = ExpectedKernelSVR(random_state=0).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    assert type(a.density_) is type(b.density_)
    np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-9)


def test_an_imputer_takes_the_density_that_predicts_removed_cells_better():
    rng = np.random.default_rng(0)
    size = rng.normal(size=(300, 1))
    numbers = size + 0.2 * rng.normal(size=(300, 4))
    assert isinstance(CircuitImputer(random_state=0).fit(numbers).density_, TableMixture)
    categories = chain()[0]
    assert isinstance(CircuitImputer(random_state=0).fit(categories).density_, CutsetNetworkBD)
    both = np.column_stack([categories, rng.normal(size=len(categories))])
    assert isinstance(CircuitImputer(random_state=0).fit(both).density_, CutsetNetworkBD)


def test_an_imputer_asks_how_far_off_completions_are_not_how_dense_numbers_are():
    rng = np.random.default_rng(1)
    grid = np.sort(rng.normal(size=15))
    X = rng.normal(size=(800, 1)) + rng.normal(size=(800, 4))
    # Bins can hold one number each, and are dense there.
    X = grid[np.abs(X[:, :, np.newaxis] - grid).argmin(axis=2)]
    removed = rng.random((400, 4)) < 0.3
    left = np.where(removed, np.nan, X[400:])
    error, density = {}, {}
    for given in (None, CutsetNetworkBD(random_state=0)):
        imputer = CircuitImputer(given, random_state=0).fit(X[:400])
        name = type(imputer.density_)
        density[name] = imputer.density_
        error[name] = ((imputer.transform(left) - X[400:])[removed] ** 2).mean()
    assert error[TableMixture] < 0.95 * error[CutsetNetworkBD]
    gain = {
        name: one.score_samples(X[400:]) - one.score_samples(left) for name, one in density.items()
    }
    assert gain[TableMixture].sum() < gain[CutsetNetworkBD].sum()
