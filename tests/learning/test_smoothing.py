"""How strongly the tables of a single network are smoothed."""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.learning.cutset import CutsetOptions, learn_cutset_network
from skpc.learning.network import cutset_circuit
from skpc.learning.smoothing import PARAM_ESS, choose_param_ess, held_out_log_likelihood
from skpc.queries import log_likelihood, uniform_pseudo_counts
from skpc.queries.passes.induced import count_entries
from tests.naive import cutset as naive

N_STATES = np.array([2, 3, 4, 2, 1, 3])


def dependent_codes(n_rows, seed=0):
    """A column decides which of the others go together; one column has one state."""
    rng = np.random.default_rng(seed)
    switch, a, b = rng.integers(0, 2, (3, n_rows))
    c = np.where(switch, a, b) + 2 * (rng.random(n_rows) < 0.2)
    columns = [switch, a + rng.integers(0, 2, n_rows), c, b, 0 * a, rng.integers(0, 3, n_rows)]
    return np.column_stack(columns).astype(np.int16)


def learner_of(**options):
    options = CutsetOptions(**{"ess": 1.0, **options})
    return partial(learn_cutset_network, n_states=N_STATES, options=options)


def network_of(codes, weight=None, **options):
    weight = np.ones(len(codes)) if weight is None else weight
    return learner_of(**options)(codes, weight)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_held_out_rows_are_predicted_by_smoothed_tables_of_the_other_rows(missing):
    codes, weight = dependent_codes(60), np.random.default_rng(0).uniform(0.5, 3.0, 60)
    circuit = cutset_circuit(network := network_of(dependent_codes(400)))
    assert network.n_cuts > 0
    shown = np.random.default_rng(2).random(codes.shape) >= missing
    parts = slice(40), slice(40, None)
    counts = [
        count_entries(circuit, codes[part].astype(float), weight[part], shown[part])
        for part in parts
    ]
    even = uniform_pseudo_counts(circuit, 1.0)
    found = held_out_log_likelihood(circuit, *counts, np.array([0.1, 7.0]), even)
    learned, held_out = (
        list(zip(codes[part].tolist(), weight[part], np.where(shown, codes, -1)[part].tolist()))
        for part in parts
    )
    expected = [naive.held_out(network, learned, held_out, ess) for ess in (0.1, 7.0)]
    assert_allclose(found, expected, rtol=1e-10)


def test_cells_filled_by_copies_do_not_make_the_tables_sharper():
    """Where all filled cells agree with the network, the observed ones still tell how to smooth."""
    codes = dependent_codes(300)
    network = network_of(codes)
    shown = np.where(np.random.default_rng(2).random(codes.shape) < 0.4, np.int16(-1), codes)
    filled = codes.copy()
    filled[:, 1] = np.where(shown[:, 1] < 0, filled[:, 0], codes[:, 1])
    almost_all = filled.copy()
    almost_all[0, 0] = -1
    by_all = choose_param_ess(network, filled, np.ones(300), learner_of(), almost_all)
    by_observed = choose_param_ess(network, filled, np.ones(300), learner_of(), shown)
    assert by_observed >= by_all


@pytest.mark.parametrize("n_states", [N_STATES, np.array([2, 2, 2, 2, 1, 2])])
@pytest.mark.parametrize("structured", [False, True])
def test_trees_below_given_cuts_of_the_same_rows_are_the_same(structured, n_states):
    codes, weight = np.minimum(dependent_codes(300), n_states - 1).astype(np.int16), np.ones(300)
    learn = partial(learner_of(structured=structured), n_states=n_states)
    network = learn(codes, weight)
    assert network.n_cuts > 0
    other = learn.keywords["options"]._replace(n_candidates=1, max_depth=0)
    again = learn(codes, weight, options=other, cuts=network.variable)
    assert pickle.dumps(again) == pickle.dumps(network)


@pytest.mark.parametrize("structured", [False, True])
def test_given_cuts_are_made_in_branches_without_rows_too(structured):
    learn = learner_of(structured=structured)
    network = learn(dependent_codes(300), np.ones(300))
    again = learn(dependent_codes(3, seed=1), np.ones(3), cuts=network.variable)
    assert again.variable.tolist() == network.variable.tolist()
    assert again.child.tolist() == network.child.tolist()


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("n_rows", [60, 2000])
def test_the_choice_is_about_as_good_as_the_best_on_new_rows(n_rows, structured):
    codes, new = dependent_codes(n_rows), dependent_codes(3000, seed=1).astype(float)
    learn = learner_of(structured=structured)
    network = learn(codes, np.ones(n_rows))
    chosen = choose_param_ess(network, codes, np.ones(n_rows), learn)
    assert chosen in PARAM_ESS
    circuits = [cutset_circuit(network, param_ess=ess) for ess in (*PARAM_ESS, chosen)]
    *scores, score = [log_likelihood(circuit, new).mean() for circuit in circuits]
    assert score > max(scores) - 0.03
    assert score >= scores[0]
