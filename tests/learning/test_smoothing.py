"""How strongly the tables of a single network are smoothed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc.learning import choose_param_ess, cutset_circuit, learn_cutset_network
from skpc.learning.smoothing import PARAM_ESS, leave_one_out, quarters, relearned_trees
from skpc.queries import log_likelihood
from tests.naive import cutset as naive

N_STATES = np.array([2, 3, 4, 2, 1, 3])


def dependent_codes(n_rows, seed=0):
    """A column decides which of the others go together; one column has one state."""
    rng = np.random.default_rng(seed)
    switch, a, b = rng.integers(0, 2, (3, n_rows))
    c = np.where(switch, a, b) + 2 * (rng.random(n_rows) < 0.2)
    columns = [switch, a + rng.integers(0, 2, n_rows), c, b, 0 * a, rng.integers(0, 3, n_rows)]
    return np.column_stack(columns).astype(np.int16)


def network_of(codes, weight=None, **options):
    weight = np.ones(len(codes)) if weight is None else weight
    return learn_cutset_network(codes, weight, N_STATES, ess=1.0, **options)


@pytest.mark.parametrize("size", [1.0, 0.5])
def test_leave_one_out_is_that_of_tables_without_the_row(size):
    codes = dependent_codes(60)
    network = network_of(dependent_codes(400), 1.0 * np.ones(400))
    assert network.n_cuts > 0
    found = leave_one_out(network, codes, np.full(60, size), np.array([0.1, 7.0]))
    rows = [(row, size) for row in codes.tolist()]
    expected = [naive.leave_one_out(network, rows, param_ess) for param_ess in (0.1, 7.0)]
    assert_allclose(found, expected, rtol=1e-10)


def test_cells_that_were_missing_are_not_predicted():
    codes = dependent_codes(60)
    network = network_of(dependent_codes(400))
    assert network.n_cuts > 0
    shown = np.where(np.random.default_rng(2).random(codes.shape) < 0.3, np.int16(-1), codes)
    found = leave_one_out(network, codes, np.ones(60), np.array([0.1, 7.0]), shown)
    rows = [(row, 1.0) for row in codes.tolist()]
    expected = [naive.leave_one_out(network, rows, ess, shown.tolist()) for ess in (0.1, 7.0)]
    assert_allclose(found, expected, rtol=1e-10)


def test_cells_filled_by_copies_do_not_make_the_tables_sharper():
    """Where all filled cells agree with the network, the observed ones still tell how to smooth."""
    codes = dependent_codes(300)
    network = network_of(codes)
    shown = np.where(np.random.default_rng(2).random(codes.shape) < 0.4, np.int16(-1), codes)
    filled = np.where(shown < 0, np.int16(0), codes)
    filled[:, 1] = np.where(shown[:, 1] < 0, filled[:, 0], codes[:, 1])
    by_all = choose_param_ess(network, filled, np.ones(300))
    by_observed = choose_param_ess(network, filled, np.ones(300), shown=shown)
    assert by_observed >= by_all


def test_a_row_of_weight_three_is_left_out_as_three_rows():
    codes = dependent_codes(50)
    network = network_of(codes)
    weight = np.random.default_rng(0).integers(1, 4, 50).astype(float)
    found = leave_one_out(network, codes, weight, PARAM_ESS)
    copies = np.repeat(codes, weight.astype(int), axis=0)
    expected = leave_one_out(network, copies, np.ones(len(copies)), PARAM_ESS)
    assert_allclose(found, expected, rtol=1e-12)


def test_every_unit_of_weight_is_held_out_once():
    weight = np.array([1.0, 5.0, 0.3, 2.5, 40.0])
    parts = list(quarters(weight))
    for kept, held in parts:
        assert_allclose(kept + held, weight)
        assert np.all(kept >= 0)
        assert np.all(held >= 0)
    assert_allclose(sum(held for _, held in parts), weight)


def test_a_single_row_cannot_be_held_out():
    assert list(quarters(np.ones(1))) == []


@pytest.mark.parametrize("structured", [False, True])
def test_trees_learned_from_the_same_rows_again_are_the_same(structured):
    codes, weight = dependent_codes(300), np.ones(300)
    network = network_of(codes, structured=structured)
    assert network.n_cuts > 0
    again = relearned_trees(network, codes, weight, structured)
    for a, b in zip(network.trees, again.trees, strict=True):
        assert_array_equal(a.parent, b.parent)
        assert_array_equal(a.variables, b.variables)
        assert a.tables.weight.sum() == b.tables.weight.sum()


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("n_rows", [60, 2000])
def test_the_choice_is_about_as_good_as_the_best_on_new_rows(n_rows, structured):
    codes, new = dependent_codes(n_rows), dependent_codes(3000, seed=1).astype(float)
    network = network_of(codes, structured=structured)
    chosen = choose_param_ess(network, codes, np.ones(n_rows), structured)
    assert chosen in PARAM_ESS
    circuits = [cutset_circuit(network, param_ess=ess) for ess in (*PARAM_ESS, chosen)]
    *scores, score = [log_likelihood(circuit, new).mean() for circuit in circuits]
    assert score > max(scores) - 0.03
    assert score >= scores[0]
