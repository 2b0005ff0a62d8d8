"""MixtureOfAllTrees: what it learns and what it answers."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpc import MixtureOfAllTrees
from skpc.queries import log_likelihood

ORIENTATIONS = ["directed", "undirected"]


def chain_rows(n_rows=600, n_columns=5, seed=0):
    """Binary columns each of which mostly equals the one before."""
    rng = np.random.default_rng(seed)
    flips = rng.random((n_rows, n_columns)) < 0.15
    flips[:, 0] = rng.random(n_rows) < 0.4
    return np.cumsum(flips, axis=1) % 2.0


def with_missing_cells(X, proportion, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < proportion, np.nan, X)


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_the_probabilities_of_all_rows_sum_to_one(orientation, n_components):
    model = MixtureOfAllTrees(
        orientation=orientation, n_components=n_components, max_iter=5, random_state=0
    ).fit(chain_rows())
    every = np.array(np.meshgrid(*[[0.0, 1.0]] * 5)).reshape(5, -1).T
    assert np.exp(model.score_samples(every)).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_the_edges_of_a_chain_are_found(orientation):
    model = MixtureOfAllTrees(orientation=orientation, random_state=0).fit(chain_rows(3000))
    edge = model.edge_probabilities_ + model.edge_probabilities_.T
    links = edge[np.arange(4), np.arange(1, 5)]
    others = edge[np.triu_indices(5, 2)]
    assert links.min() > 2 * others.max()
    assert model.edge_probabilities_.sum() == pytest.approx(5 if orientation == "directed" else 8)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_it_describes_rows_better_than_independent_columns_and_about_as_well_as_the_truth(
    orientation,
):
    model = MixtureOfAllTrees(orientation=orientation, random_state=0).fit(chain_rows(3000))
    entropy = np.array([0.4, *[0.15] * 4])
    truth = (entropy * np.log(entropy) + (1 - entropy) * np.log(1 - entropy)).sum()
    assert model.score(chain_rows(3000, seed=1)) == pytest.approx(truth, abs=0.05)


def test_given_validation_rows_are_watched():
    train, valid = chain_rows(200), chain_rows(400, seed=1)
    model = MixtureOfAllTrees(random_state=0).fit(train, X_val=valid)
    assert model.score(valid) == pytest.approx(max(model.scores_))
    assert model.n_iter_ == len(model.scores_)


def test_a_stream_is_learned_batch_by_batch():
    model = MixtureOfAllTrees(random_state=0)
    test = chain_rows(2000, seed=99)
    scores = []
    for seed in range(12):
        model.partial_fit(chain_rows(300, seed=seed))
        scores.append(model.score(test))
    assert scores[-1] > scores[0]
    assert model.n_iter_ == 12
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(chain_rows(50, n_columns=4))


def test_a_stream_may_have_missing_cells_and_categories_to_come():
    model = MixtureOfAllTrees(categories=[[0, 1, 2]] * 5, random_state=0)
    for seed in range(3):
        model.partial_fit(with_missing_cells(chain_rows(100, seed=seed), 0.2))
    assert np.isfinite(model.score_samples([[2.0, 1.0, 0.0, 1.0, 2.0]])[0])


def test_an_interrupted_stream_leaves_the_estimator_as_it_was(monkeypatch):
    model = MixtureOfAllTrees(random_state=0).partial_fit(chain_rows())
    before = model.score(chain_rows())

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("skpc.all_trees.parameters.ComponentParameters.ascent", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(chain_rows(seed=1))
    monkeypatch.undo()
    assert model.score(chain_rows()) == before
    twin = MixtureOfAllTrees(random_state=0).partial_fit(chain_rows())
    assert_array_equal(
        model.partial_fit(chain_rows(seed=1)).score_samples(chain_rows()),
        twin.partial_fit(chain_rows(seed=1)).score_samples(chain_rows()),
    )


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_estimates_repeat_pickle_and_do_not_depend_on_other_rows(orientation):
    X = chain_rows(300, 14)
    model = MixtureOfAllTrees(orientation=orientation, max_iter=5, n_inference_samples=50).fit(X)
    incomplete = with_missing_cells(X[:8], 0.8)
    found = model.score_samples(incomplete)
    assert_array_equal(model.score_samples(incomplete), found)
    assert_array_equal(pickle.loads(pickle.dumps(model)).score_samples(incomplete), found)
    assert_array_equal(model.score_samples(incomplete[3:5]), found[3:5])


def test_the_estimate_of_a_likelihood_comes_close_and_its_error_is_told():
    X = chain_rows(500, 14)
    model = MixtureOfAllTrees(max_iter=10, random_state=0).fit(X)
    incomplete = np.full((1, 14), np.nan)
    incomplete[0, [0, 13]] = 1.0, 0.0
    exact = model.score_samples(incomplete)
    assert np.isinf(model.effective_sample_size(incomplete)[0])
    assert np.isinf(model.effective_sample_size(X[:1])[0])
    model.set_params(n_inference_samples=200)
    size = model.effective_sample_size(incomplete)[0]
    assert 10 < size <= 200
    assert_allclose(model.score_samples(incomplete), exact, atol=4 / np.sqrt(size))


@pytest.mark.parametrize("inference", ["auto", "collapsed", "importance", "gibbs"])
def test_a_column_given_the_others_is_never_more_than_certain(inference):
    X = chain_rows(500, 18)
    model = MixtureOfAllTrees(orientation="undirected", max_iter=10, random_state=0).fit(X)
    incomplete = with_missing_cells(X[:30], 0.6)
    given = [c for c in range(18) if c not in (3, 8)]
    exact = model.set_params(n_inference_samples=8000).score_samples(incomplete, given=given)
    model.set_params(n_inference_samples=150, inference=inference)
    assert np.isfinite(model.effective_sample_size(incomplete)).sum() > 10
    found = model.score_samples(incomplete, given=given)
    assert found.max() <= 0.0
    assert_allclose(found, exact, atol=0.6)
    assert_array_equal(model.score_samples(incomplete[4:9], given=given), found[4:9])


def test_a_category_given_the_others_has_the_probability_of_the_marginals():
    X = chain_rows(500, 14)
    model = MixtureOfAllTrees(max_iter=10, n_inference_samples=60, random_state=0).fit(X)
    incomplete = with_missing_cells(X[:20], 0.6)
    incomplete[:, 5] = X[:20, 5]
    hidden = incomplete.copy()
    hidden[:, 5] = np.nan
    assert np.isfinite(model.effective_sample_size(hidden)).any()
    marginals = model.marginals(hidden)[5].probabilities[np.arange(20), X[:20, 5].astype(int)]
    found = model.score_samples(incomplete, given=[c for c in range(14) if c != 5])
    assert_allclose(np.exp(found), marginals, rtol=1e-10)


def test_validation_rows_take_the_same_way_through_a_pipeline():
    X, valid = 100.0 + 50.0 * chain_rows(300), 100.0 + 50.0 * chain_rows(100, seed=1)
    with config_context(enable_metadata_routing=True):
        model = MixtureOfAllTrees(categorical_features=None, max_iter=3, random_state=0)
        routed = model.set_fit_request(X_val=True)
        pipeline = make_pipeline(StandardScaler(), routed, transform_input=["X_val"])
        pipeline.fit(X, X_val=valid)
    scaler = StandardScaler().fit(X)
    alone = clone(model).fit(scaler.transform(X), X_val=scaler.transform(valid))
    assert pipeline[-1].scores_ == alone.scores_


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_where_most_cells_are_missing_estimates_are_near_the_sums(orientation):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, (540, 1))
    prob = np.array([0.1, 0.5, 0.9])[(kind + np.arange(18)) % 3]
    X = (rng.random((540, 18)) < prob).astype(float)
    rows = X[500:].copy()
    for row in rows:
        row[rng.permutation(18)[:14]] = np.nan
    model = MixtureOfAllTrees(orientation=orientation, max_iter=10, random_state=0).fit(X[:500])
    estimated = model.score_samples(rows)
    assert np.isfinite(model.effective_sample_size(rows)).all()
    # With so many samples all completions are summed instead.
    model.set_params(n_inference_samples=1_000_000)
    error = estimated - model.score_samples(rows)
    assert np.isinf(model.effective_sample_size(rows)).all()
    # Completions alone are off by 0.09 on average, and too low by 0.02 to 0.05.
    assert np.sqrt(np.mean(error**2)) < 0.04
    assert abs(error.mean()) < 0.01


def test_a_sampled_mixture_answers_like_the_estimator():
    X = np.column_stack([chain_rows(500, 4), np.random.default_rng(0).normal(size=500)])
    model = MixtureOfAllTrees(max_iter=10, random_state=0).fit(X)
    rows = model.domain_.encode(X)

    def gap(n_trees, seed):
        circuit = model.to_mixture(n_trees, random_state=seed)
        return model.score(X) - log_likelihood(circuit, rows).mean()

    # From below on average over the trees that are drawn; close if they are many.
    assert np.mean([gap(50, seed) for seed in range(8)]) > 0.0
    assert abs(gap(2000, 0)) < 0.005
    with pytest.raises(ValueError, match=r"n_trees must be an integer of 1 or more; got 0"):
        model.to_mixture(0)


def test_the_mode_of_a_chain_is_constant():
    model = MixtureOfAllTrees(random_state=0).fit(chain_rows(2000))
    incomplete = np.full((2, 5), np.nan)
    incomplete[0, 0], incomplete[1, 4] = 1.0, 0.0
    full = model.complete(incomplete, strategy="mpe")
    assert_array_equal(full, [[1.0] * 5, [0.0] * 5])


def test_more_components_than_rows_are_refused():
    with pytest.raises(ValueError, match=r"n_components=9 must not exceed .* found 5 sample"):
        MixtureOfAllTrees(n_components=9, early_stopping=False).fit(chain_rows(5))


def test_rows_that_are_held_out_are_told_where_there_are_too_few():
    with pytest.raises(ValueError, match=r"found 2\d sample\(s\) and \d more held out"):
        MixtureOfAllTrees(n_components=30, random_state=0).fit(chain_rows(30))


def test_a_stream_whose_first_rows_tell_nothing_of_the_columns_is_refused():
    model = MixtureOfAllTrees()
    with pytest.raises(ValueError, match=r"no column with more than one value.*declare categories"):
        model.partial_fit([[0.0, 1.0, 1.0]])
    assert not hasattr(model, "domain_")
    model.set_params(categories=[[0, 1]] * 3).partial_fit([[0.0, 1.0, 1.0]])
    assert model.score_samples([[1.0, 1.0, 1.0]])[0] < -0.1


def test_the_mixture_is_shown_in_one_line():
    model = MixtureOfAllTrees(max_iter=1, n_components=2, random_state=0).fit(chain_rows())
    shown = "Components(n_components=2, each AllTrees(n_features=5, n_states=10, directed))"
    assert repr(model.mixture_) == shown


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_one_column_and_one_row_are_enough(orientation):
    model = MixtureOfAllTrees(orientation=orientation, random_state=0).fit([[0.0], [1.0], [1.0]])
    assert np.exp(model.score_samples([[0.0], [1.0]])).sum() == pytest.approx(1.0)
    model = MixtureOfAllTrees(orientation=orientation, random_state=0).fit([[0.0, 1.0, 5.5]])
    assert np.isfinite(model.score_samples([[0.0, 1.0, 5.5]])[0])


def test_samples_of_digits_look_like_digits_to_the_model():
    X = (load_digits().data > 7).astype(float)
    model = MixtureOfAllTrees(max_iter=3, random_state=0, categories=[[0, 1]] * 64).fit(X[:900])
    drawn = model.sample(200, random_state=0)
    noise = np.random.default_rng(0).permuted(X[900:], axis=0)
    assert model.score(drawn) > model.score(noise) + 3.0


def test_verbose_shows_the_epochs(capsys):
    MixtureOfAllTrees(verbose=1, max_iter=2, random_state=0).fit(chain_rows(50))
    shown = capsys.readouterr()
    assert "2" in shown.out + shown.err


def test_both_ways_to_estimate_answer_the_same_questions():
    X = chain_rows(400, 14)
    model = MixtureOfAllTrees(max_iter=5, n_inference_samples=300, random_state=0).fit(X)
    incomplete = np.full((1, 14), np.nan)
    incomplete[0, [2, 7]] = 1.0, 1.0
    auto, collapsed, importance, gibbs = (
        np.array([p.probabilities[0, 1] for p in model.marginals(incomplete)])
        for model.inference in ("auto", "collapsed", "importance", "gibbs")
    )
    assert (auto != collapsed).any()
    for other in (collapsed, importance, gibbs):
        assert_allclose(auto, other, atol=0.12)


def test_the_schedule_of_the_paper_overrides_that_of_the_estimator():
    X = chain_rows(3000, 4)
    told = {"learning_rate": "constant", "averaging": False, "batch_size": 1024, "tol": 1e-9}
    told |= {"n_iter_no_change": 8, "max_iter": 8, "random_state": 0}
    expected = MixtureOfAllTrees(**told).fit(X, X_val=X[:500])
    model = MixtureOfAllTrees(schedule="paper", solver="lbfgs", max_iter=8, random_state=0)
    model.fit(X, X_val=X[:500])
    assert_array_equal(model.scores_, expected.scores_)
    assert_array_equal(model.score_samples(X), expected.score_samples(X))
    # All rows are taken in each epoch, however many there are.
    for n_columns, batch_size, rate in ((499, 1024, 0.05), (500, 64, 0.01)):
        options = model._options(1e6, n_columns)
        assert (options.batch_size, options.learning_rate_init) == (batch_size, rate)
        assert options.epoch_rows == np.inf


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_threads_change_no_bit_of_fits_and_answers(orientation, n_components, monkeypatch):
    for place in ("determinants._HELD", "determinants._ENTRIES"):
        monkeypatch.setattr(f"skpc.all_trees.{place}", 1000)
    monkeypatch.setattr("skpc.all_trees.importance._ROWS", 3)
    X = with_missing_cells(chain_rows(150, 9), 0.3)
    found = []
    for n_jobs in (None, 2):
        model = MixtureOfAllTrees(
            orientation=orientation,
            n_components=n_components,
            max_iter=2,
            n_inference_samples=10,
            random_state=0,
            n_jobs=n_jobs,
        ).fit(X)
        model.partial_fit(X[:50])
        found.append((model.score_samples(X), model.complete(X), model.marginals(X)[0].mean()))
    for one, other in zip(*found):
        assert_array_equal(one, other)
