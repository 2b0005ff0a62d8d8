"""CutsetNetworkBD: what it learns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.impute import SimpleImputer

from skpc import CutsetNetworkBD
from skpc.estimators import cutset
from skpc.exceptions import IncompatibleError
from skpc.kernels import ExponentialHamming
from skpc.learning import filling
from skpc.learning.cutset import CutsetOptions, learn_cutset_network
from skpc.learning.network import cutset_circuit
from skpc.queries import condition, expected_kernel, log_likelihood


def switch_rows(n_rows=2000, seed=0):
    """Two columns that are equal under one value of the first column, else opposite."""
    rng = np.random.default_rng(seed)
    switch, a = rng.integers(0, 2, (2, n_rows))
    return np.column_stack([switch, a, a ^ switch, rng.integers(0, 2, n_rows)]).astype(float)


@pytest.mark.parametrize("criterion", ["bd", "bic"])
def test_a_dependence_that_no_tree_can_hold_is_found_by_a_cut(criterion):
    X = switch_rows()
    model = CutsetNetworkBD(criterion=criterion).fit(X)
    tree = CutsetNetworkBD(criterion=criterion, max_depth=0).fit(X)
    assert model.n_cuts_ == 1
    assert tree.n_cuts_ == 0
    test = switch_rows(seed=1)
    assert model.score(test) == pytest.approx(-3 * np.log(2), abs=0.01)
    assert tree.score(test) == pytest.approx(-4 * np.log(2), abs=0.01)
    assert model.score_criterion_ > tree.score_criterion_


def test_plain_em_is_one_network_of_each_cluster_at_first():
    """And is left as it is: no part of a row is spread, and no EM follows."""
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], [150, 250])
    X = np.column_stack([np.repeat(kind[:, np.newaxis], 6, axis=1), rng.integers(0, 2, (400, 3))])
    options = {"param_ess": None, "categories": [[0, 1]] * 9}
    model = CutsetNetworkBD(n_components=2, em="plain", max_iter=1, random_state=0, **options)
    parts = [
        CutsetNetworkBD(**options).fit(X[kind == each]).score_samples(X)
        + np.log(np.mean(kind == each))
        for each in (0, 1)
    ]
    assert_allclose(model.fit(X).score_samples(X), np.logaddexp(*parts), atol=1e-9)
    spread = clone(model).set_params(em="auto").fit(X)
    assert np.abs(spread.score_samples(X) - model.score_samples(X)).max() > 1e-3


def test_independent_columns_are_not_cut():
    X = np.random.default_rng(0).integers(0, 2, (5000, 8)).astype(float)
    model = CutsetNetworkBD().fit(X)
    assert model.n_cuts_ == 0
    assert model.n_parameters_ == 15


def test_the_circuit_is_deterministic_and_its_parameters_are_counted():
    model = CutsetNetworkBD().fit(switch_rows())
    assert model.circuit_.deterministic
    assert model.circuit_.smooth
    assert model.circuit_.decomposable
    assert model.n_parameters_ == 1 + 2 * 5


def test_a_single_column_is_smoothed_counting():
    X = np.array([[0.0]] * 3 + [[1.0]] * 7)
    model = CutsetNetworkBD(ess=0.1, param_ess=None).fit(X)
    expected = np.log([(3 + 0.05) / 10.1, (7 + 0.05) / 10.1])
    assert_allclose(model.score_samples([[0.0], [1.0]]), expected)
    model = CutsetNetworkBD(criterion="bic", alpha=0.5, param_ess=None).fit(X)
    assert_allclose(model.score_samples([[0.0], [1.0]]), np.log([3.5 / 11, 7.5 / 11]))
    model = CutsetNetworkBD(param_ess=2.0).fit(X)
    assert_allclose(model.score_samples([[0.0], [1.0]]), np.log([4 / 12, 8 / 12]))


def test_parameters_of_their_own_sample_size_help_a_small_wide_table():
    digits = (load_digits().data > 7).astype(float)
    train, test = digits[:300], digits[300:]
    options = {"categories": [[0, 1]] * 64}
    plain = CutsetNetworkBD(param_ess=None, **options).fit(train)
    smoothed = CutsetNetworkBD(param_ess=1.0, **options).fit(train)
    chosen = CutsetNetworkBD(**options).fit(train)
    assert smoothed.n_parameters_ == plain.n_parameters_ == chosen.n_parameters_
    assert chosen.score(test) > smoothed.score(test) > plain.score(test)


@pytest.mark.parametrize("criterion", ["bd", "bic"])
def test_without_param_ess_the_criterion_smooths(criterion):
    X = switch_rows(300)
    model = CutsetNetworkBD(criterion=criterion, param_ess=None).fit(X)
    # A learner sees the columns in the order of their contents.
    ordered = X[:, model._order]
    codes = np.unique(ordered, axis=0, return_counts=True)
    counted = codes[0].astype(np.int16), codes[1].astype(float)
    network = learn_cutset_network(*counted, np.full(4, 2), CutsetOptions(criterion))
    expected = log_likelihood(cutset_circuit(network), ordered)
    assert model.param_ess_ is None
    assert_allclose(model.score_samples(X), expected, rtol=1e-12)
    assert CutsetNetworkBD(param_ess=3).fit(X).param_ess_ == 3


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("proportion", [0.0, 0.2])
def test_a_weight_of_two_chooses_the_smoothing_of_two_rows(n_components, proportion):
    X = small_numbers(60, 0)[:, :3]
    X[np.random.default_rng(3).random(X.shape) < proportion] = np.nan
    weight = np.random.default_rng(4).integers(0, 3, 60)
    model = CutsetNetworkBD(n_components=n_components, random_state=0)
    weighted = clone(model).fit(X, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0))
    assert weighted.param_ess_ == repeated.param_ess_
    assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-9)


def small_numbers(n_rows, seed):
    """Few rows of numbers that depend on one another: easily overfitted."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_rows, 1))
    return common + 0.7 * rng.normal(size=(n_rows, 6))


@pytest.mark.parametrize(
    ("n_components", "proportion", "n_tables"),
    [
        (2, 0.0, 2),
        pytest.param(5, 0.0, 1, marks=pytest.mark.slow),
        pytest.param(2, 0.2, 5, marks=pytest.mark.slow),
        (3, 0.2, 1),
        pytest.param(4, 0.2, 1, marks=pytest.mark.slow),
        pytest.param(5, 0.2, 1, marks=pytest.mark.slow),
    ],
)
def test_a_mixture_is_no_worse_than_one_network_on_a_small_table(
    n_components, proportion, n_tables
):
    """On average over tables and missing cells: a single one moves either by a tenth of a nat."""
    test, gains = small_numbers(2000, 1), []
    for seed in range(10, 10 + n_tables):
        train = small_numbers(150, seed)
        train[np.random.default_rng(seed).random(train.shape) < proportion] = np.nan
        single = CutsetNetworkBD(random_state=seed).fit(train)
        mixture = clone(single).set_params(n_components=n_components).fit(train)
        gains.append(mixture.score(test) - single.score(test))
    plain = clone(mixture).set_params(param_ess=None).fit(train)
    assert np.mean(gains) > -0.05
    assert mixture.score(test) > plain.score(test) + 0.3
    assert 1 < len(mixture.weights_) <= n_components
    assert mixture.weights_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("n_rows", [1, 3, 4])
def test_a_handful_of_rows_is_smoothed_without_holding_out_what_is_not_there(n_rows):
    X = small_numbers(n_rows, 0)
    for n_components in {1, n_rows}:
        model = CutsetNetworkBD(n_components=n_components, random_state=0).fit(X)
        assert np.all(np.isfinite(model.score_samples(X)))


def test_one_candidate_finds_no_better_score_than_many():
    X = (load_digits().data > 7).astype(float)
    few, many = (CutsetNetworkBD(n_candidates=n).fit(X) for n in (1, 10))
    assert many.score_criterion_ >= few.score_criterion_


def test_numbers_are_estimated_close_to_their_density():
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 2.0, (5000, 1)) + 0.001
    model = CutsetNetworkBD(n_bins=20).fit(X)
    test = rng.normal(3.0, 2.0, (5000, 1))
    truth = np.mean(-0.5 * ((test - 3.0) / 2.0) ** 2) - np.log(2.0 * np.sqrt(2 * np.pi))
    assert truth - 0.05 < model.score(test) < truth + 0.01


def test_numbers_far_outside_the_training_rows_keep_a_finite_density():
    model = CutsetNetworkBD().fit(np.random.default_rng(0).normal(size=(500, 2)))
    near, far = model.score_samples([[5.0, 0.0], [500.0, 0.0]])
    assert -np.inf < far < near


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "aic"}, "'criterion' parameter"),
        ({"ess": 0.0}, "'ess' parameter"),
        ({"alpha": -1.0}, "'alpha' parameter"),
        ({"param_ess": 0.0}, "'param_ess' parameter"),
        ({"n_candidates": 0}, "'n_candidates' parameter"),
        ({"max_depth": -1}, "'max_depth' parameter"),
        ({"n_bins": 0}, "'n_bins' parameter"),
        ({"handle_unknown": "ignore"}, "'handle_unknown' parameter"),
    ],
)
def test_bad_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CutsetNetworkBD(**options).fit(switch_rows(20))


def test_verbose_shows_the_rows_that_reached_their_leaf(capsys):
    CutsetNetworkBD(verbose=1).fit(switch_rows(200))
    shown = capsys.readouterr()
    assert "200" in shown.out + shown.err
    CutsetNetworkBD().fit(switch_rows(200))
    assert capsys.readouterr() == ("", "")


def test_more_components_than_rows_are_refused():
    with pytest.raises(ValueError, match=r"n_components=9 must not exceed .* found 5 sample"):
        CutsetNetworkBD(n_components=9).fit(switch_rows(5))


def three_kinds(n_rows, seed):
    """Rows of three kinds that no single tree describes well."""
    rng = np.random.default_rng(seed)
    prob = np.random.default_rng(7).uniform(0.05, 0.95, (3, 12))
    return (rng.random((n_rows, 12)) < prob[rng.integers(0, 3, n_rows)]).astype(float)


def test_a_mixture_describes_rows_of_several_kinds_better_than_one_network():
    train, test = three_kinds(3000, 0), three_kinds(3000, 1)
    single = CutsetNetworkBD().fit(train)
    mixture = CutsetNetworkBD(n_components=3, random_state=0).fit(train)
    assert mixture.score(test) > single.score(test) + 0.02
    assert mixture.weights_.sum() == pytest.approx(1.0)
    assert mixture.converged_
    assert 1 < mixture.n_iter_ < 100
    assert not mixture.circuit_.deterministic


@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize("proportion", [0.0, 0.3])
def test_the_bound_is_the_mean_log_likelihood_of_the_training_rows(n_components, proportion):
    train = three_kinds(1000, 0)
    train[np.random.default_rng(1).random(train.shape) < proportion] = np.nan
    weight = np.random.default_rng(2).integers(1, 4, len(train))
    model = CutsetNetworkBD(n_components=n_components, random_state=0)
    model.fit(train, sample_weight=weight)
    expected = np.average(model.score_samples(train), weights=weight)
    assert model.lower_bound_ == pytest.approx(expected, rel=1e-12)


def test_the_weights_are_those_of_the_root_of_the_circuit():
    model = CutsetNetworkBD(n_components=3, param_ess=1.0, random_state=0).fit(three_kinds(1000, 0))
    root = model.circuit_.n_nodes - 1
    of_root = model.circuit_.log_weight[model.circuit_.edge_parent == root]
    assert_allclose(model.weights_, np.exp(of_root), rtol=1e-12)
    assert_allclose(CutsetNetworkBD().fit(three_kinds(50, 0)).weights_, [1.0])


def test_components_learned_in_parallel_are_the_same():
    train = three_kinds(200, 0)
    a = CutsetNetworkBD(n_components=2, random_state=0).fit(train)
    b = CutsetNetworkBD(n_components=2, random_state=0, n_jobs=2).fit(train)
    assert_allclose(a.score_samples(train), b.score_samples(train), rtol=1e-12)


def test_fewer_distinct_rows_than_components_are_no_obstacle():
    X = np.tile([[0.0, 1.0], [1.0, 0.0]], (50, 1))
    mixture = CutsetNetworkBD(n_components=4, random_state=0).fit(X)
    assert len(mixture.weights_) <= 2
    assert np.all(np.isfinite(mixture.score_samples(X)))


def test_parameters_learned_with_missing_cells_come_from_the_observed_cells():
    """With cells missing at random, EM finds the table that the complete rows have."""
    complete = switch_rows(4000)
    incomplete = np.where(np.random.default_rng(1).random(complete.shape) < 0.3, np.nan, complete)
    a = CutsetNetworkBD().fit(complete)
    b = CutsetNetworkBD(random_state=0).fit(incomplete)
    test = switch_rows(2000, seed=2)
    assert a.n_cuts_ >= 1
    assert b.n_cuts_ >= 1
    assert b.score(test) == pytest.approx(a.score(test), abs=0.01)


def half_missing(complete):
    return np.where(np.random.default_rng(1).random(complete.shape) < 0.5, np.nan, complete)


@pytest.mark.parametrize(("n_components", "param_ess"), [(1, "auto"), (1, None), (3, None)])
def test_learning_from_what_is_there_beats_imputing_the_most_frequent_value(
    n_components, param_ess
):
    """Half of the cells are missing; the rows to be scored are complete."""
    complete = three_kinds(4000, 0)
    incomplete = half_missing(complete)
    model = CutsetNetworkBD(n_components=n_components, param_ess=param_ess, random_state=0)
    imputed = SimpleImputer(strategy="most_frequent").fit_transform(incomplete)
    test = three_kinds(2000, 2)
    with_missing_cells = model.fit(incomplete).score(test)
    assert with_missing_cells > model.fit(imputed).score(test) + 0.5
    assert with_missing_cells > model.fit(complete).score(test) - 0.1


def test_a_shrunken_mixture_of_incomplete_rows_is_no_worse_than_one_network():
    incomplete, test = half_missing(three_kinds(4000, 0)), three_kinds(2000, 2)
    model = CutsetNetworkBD(n_components=3, random_state=0)
    imputed = SimpleImputer(strategy="most_frequent").fit_transform(incomplete)
    found = model.fit(incomplete).score(test)
    assert found > model.fit(imputed).score(test) + 0.5
    assert found > CutsetNetworkBD(random_state=0).fit(incomplete).score(test) - 0.05


def test_the_structure_score_of_incomplete_rows_is_that_of_their_completion(monkeypatch):
    X = switch_rows(300)
    holes = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    a, b = (CutsetNetworkBD(random_state=seed).fit(holes).score_criterion_ for seed in (0, 1))
    assert a != b

    def completed(domain, rows, *others):
        return np.where(np.isnan(rows), 0.0, rows)

    monkeypatch.setattr(cutset, "fill_missing", completed)
    found, expected = (CutsetNetworkBD().fit(table) for table in (holes, np.nan_to_num(holes)))
    assert found.score_criterion_ == pytest.approx(expected.score_criterion_, rel=1e-12)


@pytest.mark.parametrize("n_components", [1, 2])
def test_rows_without_any_cell_change_nothing(n_components):
    rows = three_kinds(200, 0)
    rows[np.random.default_rng(1).random(rows.shape) < 0.2] = np.nan
    model = CutsetNetworkBD(n_components=n_components, random_state=0)
    before = model.fit(rows).score_samples(rows)
    after = model.fit(np.vstack([rows, np.full((300, 12), np.nan)])).score_samples(rows)
    assert_allclose(after, before, rtol=1e-12)


def test_any_two_conditionals_of_a_structured_network_are_compatible():
    model = CutsetNetworkBD(structured=True).fit(switch_rows())
    assert model.n_cuts_ > 0
    circuit = model.circuit_
    assert circuit.structured_decomposable
    assert circuit.deterministic
    rows = np.array([[np.nan, 1, np.nan, 0], [1, np.nan, np.nan, np.nan]])
    given = [condition(circuit, row) for row in rows]
    kernel = ExponentialHamming(0.7)
    grid = np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).reshape(4, -1).T
    conditional = []
    for row in rows:
        possible = np.all(np.isnan(row) | (grid == row), axis=1)
        prob = np.exp(model.score_samples(grid)) * possible
        conditional.append(prob / prob.sum())
    truth = conditional[0] @ kernel(grid) @ conditional[1]
    assert expected_kernel(*given, kernel) == pytest.approx(truth, rel=1e-10)


def test_a_network_without_the_restriction_is_not_compatible_with_itself():
    # Under one value of the switch the other columns form a chain in one order, else in another.
    rng = np.random.default_rng(0)
    switch = rng.integers(0, 2, 2000)
    chain = np.cumsum(rng.random((2000, 4)) < 0.2, axis=1) % 2
    X = np.column_stack([switch, np.where(switch[:, None], chain, chain[:, [2, 0, 3, 1]])])
    circuit = CutsetNetworkBD().fit(X).circuit_
    assert not circuit.structured_decomposable
    with pytest.raises(IncompatibleError, match="product"):
        expected_kernel(circuit, circuit, ExponentialHamming(1.0))


def test_a_structured_mixture_is_refused():
    with pytest.raises(
        ValueError, match="structured=True needs n_components=1, got n_components=2"
    ):
        CutsetNetworkBD(structured=True, n_components=2).fit(switch_rows())


def test_many_rows_with_missing_cells_are_filled_from_what_some_of_them_teach(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (5_000, 6)).astype(float)
    X[:, 1:3] = X[:, :1]
    X[:, 5] = rng.normal(size=5_000)  # so that rows are distinct
    test = X[4_000:].copy()
    X[rng.random(X.shape) < 0.3] = np.nan
    model = CutsetNetworkBD(categorical_features=[0, 1, 2, 3, 4], random_state=0)
    from_all = clone(model).fit(X[:4_000]).score(test)
    monkeypatch.setattr(filling, "_ROWS", 1_000)
    from_some = clone(model).fit(X[:4_000]).score(test)
    assert from_some == pytest.approx(from_all, abs=0.02)
    assert from_some != from_all


def test_groups_that_lack_most_of_their_cells_keep_their_means():
    """Cells that are missing more often in one group are not drawn to those of the other."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 1000)
    number = 18.0 + 18.0 * kind + 6.0 * rng.normal(size=1000)
    lost = rng.random(1000) < np.where(kind == 1, 0.7, 0.1)
    X = np.column_stack([kind, np.where(lost, np.nan, number)])
    shown = X[(kind == 1) & ~lost, 1].mean()
    filled = CutsetNetworkBD(random_state=0).fit(X).complete([[1.0, np.nan]])
    assert abs(filled[0, 1] - shown) < 1.0
