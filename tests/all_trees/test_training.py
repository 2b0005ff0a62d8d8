import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.all_trees.parameters import ComponentParameters, DirectedParameters, UndirectedParameters
from skpc.all_trees.training import (
    Adam,
    IncompleteRows,
    TrainingOptions,
    _batches,
    adam_pass,
    start_trees,
    train_trees,
    usual_batch_size,
)

N_STATES = np.array([2, 3, 2, 2])
OPTIONS = TrainingOptions("adam", 0.05, 64, 20, 1e-4, 5, "cosine", averaging=True)


def parameters_of(kind=DirectedParameters, n_components=1):
    return ComponentParameters(kind(np.concatenate([[0], np.cumsum(N_STATES)])), n_components)


def rows_of_two_kinds(n_rows=300, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n_rows)
    columns = [
        np.where(rng.random(n_rows) < 0.8, kind, rng.integers(0, k, n_rows)) for k in N_STATES
    ]
    codes = np.column_stack(columns)
    codes[rng.random(codes.shape) < missing] = -1
    return codes, rng.uniform(0.5, 2.0, n_rows)


def trained(kind=DirectedParameters, n_components=1, missing=0.0, validation=False, **options):
    generator = np.random.RandomState(0)
    parameters = parameters_of(kind, n_components)
    codes, weight = rows_of_two_kinds(missing=missing)
    vector = start_trees(parameters, codes, weight, N_STATES, 1.0, generator)
    held = IncompleteRows(*rows_of_two_kinds(seed=1, missing=missing), generator)
    found = train_trees(
        parameters,
        vector,
        IncompleteRows(codes, weight, generator),
        held if validation else None,
        OPTIONS._replace(**options),
        generator,
        lambda done: None,
    )
    return parameters, vector, found


def mean_likelihood(parameters, vector, seed):
    codes, weight = rows_of_two_kinds(seed=seed)
    model = parameters.model(vector)
    return np.average(model.log_likelihood(model.models[0].states_of(codes)), weights=weight)


@pytest.mark.parametrize("kind", [DirectedParameters, UndirectedParameters])
@pytest.mark.parametrize("n_components", [1, 3])
def test_the_ascent_of_a_mixture_is_its_gradient(kind, n_components):
    parameters = parameters_of(kind, n_components)
    codes, weight = rows_of_two_kinds(20)
    vector = start_trees(parameters, codes, weight, N_STATES, 1.0, np.random.RandomState(0))
    vector += np.random.default_rng(0).normal(size=len(vector))
    states = parameters.model(vector).models[0].states_of(codes)
    log_likelihood, gradient = parameters.ascent(vector, states, weight)
    assert_allclose(log_likelihood, parameters.model(vector).log_likelihood(states), atol=1e-12)
    for i in np.random.default_rng(1).permutation(len(vector))[:40]:
        step = 1e-5 * (np.arange(len(vector)) == i)
        above, below = (
            weight @ parameters.model(vector + sign * step).log_likelihood(states)
            for sign in (1, -1)
        )
        assert gradient[i] == pytest.approx((above - below) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
@pytest.mark.parametrize("kind", [DirectedParameters, UndirectedParameters])
def test_training_raises_the_likelihood(kind, solver):
    parameters, start, found = trained(kind, solver=solver)
    gained = mean_likelihood(parameters, found.vector, 0) - mean_likelihood(parameters, start, 0)
    assert gained > 0.02


def test_lbfgs_never_falls_and_watches_the_likelihood_itself():
    parameters, _, found = trained(solver="lbfgs", max_iter=30, tol=0.0)
    assert np.all(np.diff(found.scores) > -1e-9)
    assert found.scores[-1] == pytest.approx(mean_likelihood(parameters, found.vector, 0))


def test_a_component_for_each_kind_of_rows_describes_them_better():
    one, _, alone = trained(solver="lbfgs", max_iter=60)
    two, _, together = trained(solver="lbfgs", max_iter=60, n_components=2)
    gained = mean_likelihood(two, together.vector, 0) - mean_likelihood(one, alone.vector, 0)
    assert gained > 0.005


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_the_parameters_that_validate_best_are_returned(solver):
    parameters, _, found = trained(solver=solver, validation=True, max_iter=40, tol=0.0)
    score = mean_likelihood(parameters, found.vector, 1)
    assert score == pytest.approx(max(found.scores))


def test_training_stops_once_nothing_is_gained():
    _, _, found = trained(max_iter=200, tol=1.0, n_iter_no_change=3)
    assert found.converged
    assert len(found.scores) == 4
    _, _, found = trained(max_iter=2)
    assert not found.converged
    assert len(found.scores) == 2


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_rows_with_missing_cells_teach_nearly_as_much_as_complete_ones(solver):
    parameters, start, holes = trained(solver=solver, missing=0.2, max_iter=25)
    _, _, complete = trained(solver=solver, max_iter=25)
    scores = [mean_likelihood(parameters, v, 2) for v in (start, holes.vector, complete.vector)]
    assert scores[1] > scores[2] - 0.06


def test_completions_of_rows_follow_the_model_they_are_drawn_from():
    parameters, _, found = trained(solver="lbfgs", max_iter=20)
    model = parameters.model(found.vector)
    codes = np.tile([1, -1, -1, 0], (3000, 1))
    rows = IncompleteRows(codes, np.ones(3000), np.random.RandomState(0))
    states = rows.drawn_from(model).states
    every = np.array([[1, b, c, 0] for b in range(3) for c in range(2)])
    log_likelihood = model.log_likelihood(model.models[0].states_of(every))
    truth = np.exp(log_likelihood - np.logaddexp.reduce(log_likelihood))
    drawn = states[:, 1:3] - model.models[0].ptr[1:3]
    share = [(drawn == pair).all(axis=1).mean() for pair in every[:, 1:3]]
    assert_allclose(share, truth, atol=0.03)


@pytest.mark.parametrize(
    ("total", "n_features", "expected"),
    [
        (1e6, 16, 256),
        (1e6, 200, 128),
        (1e6, 5000, 16),
        (1600, 16, 160),
        (100, 16, 64),
        (100, 800, 32),
    ],
)
def test_batches_are_smaller_in_wide_and_in_small_tables(total, n_features, expected):
    assert usual_batch_size(total, n_features) == expected


def test_batches_share_out_the_weight_of_every_row():
    weight = np.array([0.25, 1.0, 7.5, 300.0])
    total = np.zeros(4)
    for batch, part in _batches(weight, 50, np.random.RandomState(0), None):
        assert 40 < part.sum() < 60
        total[batch] += part
    assert_allclose(total, weight)


def test_a_pass_changes_the_averages_and_counts_its_steps():
    parameters = parameters_of()
    generator = np.random.RandomState(0)
    codes, weight = rows_of_two_kinds()
    vector = start_trees(parameters, codes, weight, N_STATES, 1.0, generator)
    rows = IncompleteRows(codes, weight, generator).drawn_from(parameters.model(vector))
    adam = Adam.from_size(len(vector))
    options = OPTIONS._replace(learning_rate_init=0.01)
    after, mean, score = adam_pass(parameters, vector, rows, options, adam, generator)
    assert adam.n_steps[0] == round(np.ceil(weight).sum() / 64)
    assert mean_likelihood(parameters, vector, 0) < score + 0.05
    assert mean_likelihood(parameters, after, 0) > mean_likelihood(parameters, vector, 0)
    assert np.abs(mean - vector).max() < np.abs(after - vector).max()


def test_the_mean_of_a_pass_of_one_step_is_where_it_ends():
    codes, weight = rows_of_two_kinds()
    parameters = parameters_of()
    generator = np.random.RandomState(0)
    vector = start_trees(parameters, codes, weight, N_STATES, 1.0, generator)
    rows = IncompleteRows(codes, weight, generator).drawn_from(parameters.model(vector))
    options, adam = OPTIONS._replace(batch_size=10**6), Adam.from_size(len(vector))
    after, mean, _ = adam_pass(parameters, vector, rows, options, adam, generator)
    assert_allclose(mean, after, rtol=1e-12)


@pytest.mark.parametrize(("learning_rate", "moves"), [("cosine", False), ("constant", True)])
def test_a_constant_rate_still_moves_at_the_end(learning_rate, moves):
    codes, weight = rows_of_two_kinds()
    parameters = parameters_of()
    generator = np.random.RandomState(0)
    vector = start_trees(parameters, codes, weight, N_STATES, 1.0, generator)
    rows = IncompleteRows(codes, weight, generator).drawn_from(parameters.model(vector))
    options = OPTIONS._replace(batch_size=10**6, learning_rate=learning_rate)
    adam = Adam.from_size(len(vector))
    adam.n_steps[0] = 7
    after, _, _ = adam_pass(parameters, vector, rows, options, adam, generator, n_steps=7)
    assert (np.abs(after - vector).max() > 1e-3) == moves


def test_without_averaging_a_pass_ends_with_its_last_parameters():
    codes, weight = rows_of_two_kinds()
    parameters = parameters_of()
    generator = np.random.RandomState(0)
    vector = start_trees(parameters, codes, weight, N_STATES, 1.0, generator)
    rows = IncompleteRows(codes, weight, generator).drawn_from(parameters.model(vector))
    options, adam = OPTIONS._replace(averaging=False), Adam.from_size(len(vector))
    after, last, _ = adam_pass(parameters, vector, rows, options, adam, generator)
    assert_allclose(last, after)


def test_the_first_step_of_adam_has_the_length_of_the_rate():
    vector, visited = np.zeros(2), np.zeros(2)
    Adam.from_size(2).step(np.array([3.0, -0.01]), 0.1, vector, visited)
    assert_allclose(vector, [0.1, -0.1], rtol=1e-5)


def test_an_epoch_of_a_large_table_takes_some_rows_others_each_time():
    generator, weight = np.random.RandomState(0), np.full(1_000, 1.0)
    epochs = [list(_batches(weight, 50, generator, 200)) for _ in range(2)]
    for epoch in epochs:
        assert [len(batch) for batch, _ in epoch] == [50] * 4
        assert sum(part.sum() for _, part in epoch) == 200
    one, other = (np.concatenate([batch for batch, _ in epoch]) for epoch in epochs)
    assert len(np.unique(one)) == 200
    assert len(np.intersect1d(one, other)) < 100
