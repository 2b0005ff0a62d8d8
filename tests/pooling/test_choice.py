"""The density that a kernel machine chooses, and those that an imputer weighs."""

import itertools
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from skpc import (
    CircuitImputer,
    CutsetNetworkBD,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    HiddenChowLiuTree,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)
from skpc.circuit import CircuitBuilder
from skpc.domain import Declared, Domain, merge_rows
from skpc.estimators._fillers import LinearFiller
from skpc.learning.held_out import deal
from skpc.learning.simplex import mean_weights
from skpc.pooling.choice import column_variances, fit_to_parts, log_score, prediction_errors
from skpc.pooling.folds import Fold
from tests.naive import calibration as naive


def smooth(n_rows: int = 600, seed: int = 0):
    """Numbers around three centres, which bins describe coarsely."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n_rows)
    X = 4.0 * rng.normal(size=(3, 6))[group] + rng.normal(size=(n_rows, 6))
    return X, X[:, 0] + group


def chain(n_rows: int = 600):
    """Few values of which each depends on the one before, as in a tree."""
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
    domain = densities[0].domain_
    variance = column_variances(domain, held, weight)
    errors = [
        prediction_errors(one._density, held, weight, left, variance, domain.is_categorical)
        for one in densities
    ]
    # All columns that vary are of one kind.
    return [1.0 - (np.concatenate(of_kinds) ** 2).sum() for of_kinds in errors]


@pytest.mark.parametrize("score", [log_scores, explained])
@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_scores_of_removed_cells_are_those_of_listed_completions(score, lost):
    X, _ = chain(120)
    X[np.random.default_rng(1).random(X.shape) < lost] = np.nan
    domain = Domain.fit(X, Declared(categorical_features=[*range(6)]), n_bins=20)
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
        domain = Domain.fit(X, Declared(atoms=atoms), n_bins=20)
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
    domain = Domain.fit(X, Declared(categorical_features=[0, 1, 2, 3, 4, 5, 6]), n_bins=20)
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
    domain = Domain.fit(X, Declared(categorical_features=[*range(6)]), n_bins=20)
    rows, weight = merge_rows(domain.encode(X[:1]), np.ones(1))
    densities = [SoftLearnSPN().fit_rows(domain, rows, weight)]
    complete = rows, weight, rows
    assert log_scores(densities, *complete) == [0.0]
    variance = column_variances(domain, *complete[:2])
    errors = prediction_errors(densities[0]._density, *complete, variance, domain.is_categorical)
    assert [len(of_kind) for of_kind in errors] == [0, 0]


def test_a_row_counts_as_often_as_its_weight_in_the_choice():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:100, :5], y[:100]
    weight = np.random.default_rng(0).integers(0, 3, 100)
    a = ExpectedKernelSVR(random_state=0).fit(X, y, sample_weight=weight)
    b = ExpectedKernelSVR(random_state=0).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    assert type(a.density_) is type(b.density_)
    np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-9)


def weight_of(density, kind):
    """The weight of a kind of density: one for a density that is no stack."""
    members = getattr(density, "estimators_", [density])
    weights = getattr(density, "weights_", [1.0])
    return sum(weight for one, weight in zip(members, weights) if isinstance(one, kind))


def mixed(n_rows: int = 600, seed: int = 0):
    """Numbers that depend on each other linearly, and flags that form a chain."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n_rows, 1)) + 0.2 * rng.normal(size=(n_rows, 3))
    flags = chain(n_rows)[0] > 1.0
    X = np.column_stack([flags[rng.permutation(n_rows)], numbers])
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


def test_an_imputer_weighs_what_predicts_removed_cells_better():
    numbers = mixed()[:, 6:]
    densities = CircuitImputer(random_state=0).fit(numbers).densities_
    assert weight_of(densities["numbers"], (TableMixture, LinearFiller)) > 0.5
    imputer = CircuitImputer(random_state=0).fit(chain()[0])
    trees = (CutsetNetworkBD, HiddenChowLiuTree)
    assert weight_of(imputer.densities_["categories"], trees) > 0.5
    assert weight_of(imputer.density_, trees) > 0.5


def test_means_are_those_of_the_density_of_each_kind_and_draws_those_of_one_density():
    X = mixed()
    imputer = CircuitImputer(random_state=0).fit(X)
    filled = imputer.transform(X)
    is_categorical = imputer.density_.domain_.is_categorical
    assert is_categorical.tolist() == [True] * 6 + [False] * 3
    for kind, columns in (("numbers", ~is_categorical), ("categories", is_categorical)):
        completed = imputer.densities_[kind].complete(X)
        np.testing.assert_allclose(filled[:, columns], completed[:, columns], atol=1e-9)
    for strategy in ("mpe", "sample"):
        imputer.set_params(strategy=strategy)
        completed = imputer.density_.complete(X, strategy, random_state=0)
        np.testing.assert_array_equal(imputer.transform(X), completed)


def test_a_kind_that_the_table_lacks_and_a_density_that_is_given_have_one_density_for_all():
    for density, X in ((None, mixed()[:, 6:]), (CutsetNetworkBD(), mixed())):
        imputer = CircuitImputer(density, random_state=0).fit(X)
        assert imputer.densities_["categories"] is imputer.density_
        assert list(imputer.densities_) == ["numbers", "categories"]
    assert imputer.densities_["numbers"] is imputer.density_


def test_a_stack_of_cells_mixes_them_by_the_same_weights_in_each_row():
    X = mixed()
    stack = CircuitImputer(random_state=0).fit(X).densities_["numbers"]
    assert isinstance(stack, StackedDensity)
    assert stack.scores_[-1] >= stack.scores_[:-1].max() - 0.01
    for copy in (stack, pickle.loads(pickle.dumps(stack))):
        marginals = copy.marginals(X)
        of_members = [one.marginals(X) for one in stack.estimators_]
        for column, cells in enumerate(marginals):
            values = [m[column] for m in of_members]
            if cells.labels is None:
                mixture, values = cells.mean(), [one.mean() for one in values]
            else:
                mixture, values = cells.probabilities, [one.probabilities for one in values]
            np.testing.assert_allclose(mixture, np.tensordot(stack.weights_, values, 1), atol=1e-9)


def test_regressions_fill_numbers_of_few_values_that_depend_on_each_other_linearly():
    rng = np.random.default_rng(0)
    truth = (rng.normal(size=(400, 3)) @ rng.normal(size=(3, 8))).round().clip(-4, 4)
    X = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    imputer = CircuitImputer(random_state=0).fit(X)
    numbers, filled = imputer.densities_["numbers"], imputer.transform(X)
    assert imputer.density_.domain_.is_ordered.all()
    assert weight_of(numbers, LinearFiller) > 0.5
    # Regressions know no values, but what is filled in are values of the column.
    np.testing.assert_array_equal(filled, filled.round())
    np.testing.assert_array_equal(filled, numbers.complete(X))
    of_rows = imputer.density_.complete(X)
    assert ((filled - truth) ** 2).sum() < 0.9 * ((of_rows - truth) ** 2).sum()


def collinear(seed: int):
    """Sixteen rows of one number in four units, with little noise; a fifth of the cells removed."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(16, 1)) * [1.0, 2.0, -1.0, 0.5] + 0.01 * rng.normal(size=(16, 4))
    removed = rng.random(truth.shape) < 0.2
    removed[removed.all(axis=1), 0] = False
    return truth, removed


def test_a_small_collinear_table_is_filled_by_what_fills_its_held_out_cells():
    error = {}
    for seed in range(2):
        truth, removed = collinear(seed)
        X, sd = np.where(removed, np.nan, truth), truth.std(axis=0)
        imputer = CircuitImputer(random_state=0).fit(X)
        assert weight_of(imputer.densities_["numbers"], (LinearFiller, TableMixture)) > 0.9
        filled = {
            "default": imputer.transform(X),
            "mixture": TableMixture(random_state=0).fit(X).complete(X),
            "tree": HiddenChowLiuTree(random_state=0).fit(X).complete(X),
        }
        for name, table in filled.items():
            square = (((table - truth) / sd)[removed] ** 2).mean()
            error[name] = error.get(name, 0.0) + square
    # A mixture fills collinear cells as well; both are far ahead of a tree.
    assert error["default"] < min(1.2 * error["mixture"], 0.1 * error["tree"])


def test_few_rows_of_noise_are_filled_by_means_nearly():
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(40, 4))
    X = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    filled = CircuitImputer(random_state=0).fit_transform(X)
    spread = (filled - np.nanmean(X, axis=0))[np.isnan(X)]
    assert (spread**2).mean() < 0.2


def test_parts_hold_out_each_row_once_and_choices_are_those_of_the_first():
    X, _ = smooth(100)
    domain = Domain.fit(X, n_bins=20)
    data = domain, *merge_rows(domain.encode(X), np.ones(100))
    mixture = TableMixture(random_state=0).fit_rows(domain, data[1][:50], data[2][:50])
    parts = fit_to_parts([HiddenChowLiuTree(random_state=0), mixture], data, 0, 2, 5)
    held = np.concatenate([test_data[0] for _, test_data in parts])
    rows, counts = np.unique(held, axis=0, return_counts=True)
    np.testing.assert_array_equal(rows, np.unique(data[1], axis=0))
    assert set(counts.tolist()) == {2}
    assert sum(test_data[1].sum() for _, test_data in parts) == pytest.approx(100.0)
    chosen = parts[0][0][0]._choice
    for fitted, (_, weight, left) in parts:
        assert fitted[0]._choice is chosen
        assert fitted[1]._mixture.choices is mixture._mixture.choices
        assert fitted[0]._n_learned == pytest.approx(100.0 - weight.sum())
        assert 0.2 < np.isnan(left).mean() < 0.4
    # What has learned is not changed.
    assert mixture._n_learned == 50.0


def test_many_rows_are_learned_by_a_step_on_those_that_were_held_out():
    X, _ = smooth(1300)
    imputer = CircuitImputer(random_state=0).fit(np.where(X > 6.0, np.nan, X))
    members = getattr(imputer.density_, "estimators_", [imputer.density_])
    assert [one._n_learned for one in members] == pytest.approx([1300.0] * len(members))


def test_a_member_says_nothing_of_cells_in_a_row_that_is_impossible_to_it():
    X = np.random.default_rng(0).integers(0, 2, (80, 2)).astype(float)
    domain = Domain.fit(X, n_bins=20)
    whole, part = (CutsetNetworkBD().fit_rows(domain, *merge_rows(X, np.ones(80))) for _ in "ab")
    builder = CircuitBuilder([2, 2])
    builder.product([builder.discrete(0, [0.0, -np.inf]), builder.discrete(1, np.log([0.9, 0.1]))])
    # Its first column is always zero.
    part.circuit_ = builder.build()
    # Each column has weights of its own.
    cell_weights = np.array([[0.5, 0.5], [0.3, 0.7]])
    stack = StackedDensity.composed([whole, part], np.full(2, 0.5), np.zeros(3), cell_weights)
    rows = [[0.0, np.nan], [1.0, np.nan]]
    truth = whole.marginals(rows)[1].probabilities
    truth[0] = 0.3 * truth[0] + 0.7 * np.array([0.9, 0.1])
    np.testing.assert_allclose(stack.marginals(rows)[1].probabilities, truth, atol=1e-12)
    truth = 0.5 * whole.marginals([[np.nan, 1.0]])[0].probabilities + [0.5, 0.0]
    np.testing.assert_allclose(stack.marginals([[np.nan, 1.0]])[0].probabilities, truth, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_means_are_the_best_of_a_grid(seed):
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=(60, 3)) * [1.0, 1.5, 3.0] + rng.normal(size=(60, 1))
    errors /= np.sqrt((errors**2).sum(axis=0).max())
    noise = 0.05 * (errors**2).sum(axis=0)

    def loss(weights):
        return ((errors @ weights) ** 2).sum() + noise @ weights**2

    weights, explained = mean_weights(errors)
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0)
    grid = np.linspace(0.0, 1.0, 51)
    corners = [
        np.array([a, b, 1.0 - a - b]) for a, b in itertools.product(grid, grid) if a + b <= 1
    ]
    assert loss(weights) <= min(map(loss, corners)) + 1e-9
    np.testing.assert_allclose(explained[:-1], 1.0 - (errors**2).sum(axis=0))
    assert explained[-1] == pytest.approx(1.0 - ((errors @ weights) ** 2).sum())


def test_an_imputer_asks_how_far_off_completions_are_not_how_dense_numbers_are():
    rng = np.random.default_rng(1)
    grid = np.sort(rng.normal(size=25))
    X = rng.normal(size=(800, 1)) + rng.normal(size=(800, 4))
    # Bins can hold one number each, and are dense there.
    X = grid[np.abs(X[:, :, np.newaxis] - grid).argmin(axis=2)]
    removed = rng.random((400, 4)) < 0.3
    left = np.where(removed, np.nan, X[400:])
    imputer = CircuitImputer(random_state=0).fit(X[:400])
    cutset = CutsetNetworkBD(random_state=0).fit(X[:400])
    errors = [
        one[removed] - X[400:][removed] for one in (imputer.transform(left), cutset.complete(left))
    ]
    assert (errors[0] ** 2).mean() < 0.95 * (errors[1] ** 2).mean()
    binned = (CutsetNetworkBD, HiddenChowLiuTree)
    assert weight_of(imputer.density_, binned) > weight_of(imputer.densities_["numbers"], binned)
