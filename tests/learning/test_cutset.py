import pickle
from functools import partial
from itertools import product

import numpy as np
import pytest

from skpc._threads import threads
from skpc.counting import rows as _rows
from skpc.learning.cutset import (
    TREE,
    CutsetOptions,
    chains_are_better,
    learn_cutset_network,
)
from skpc.learning.network import cutset_circuit
from tests.naive import cutset as naive


def random_codes(n, n_states, seed, missing=0.0):
    """Rows in which the first two columns decide how each column follows the one before it."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, k, n) for k in n_states[:2]]
    for k in n_states[2:]:
        mirrored = np.where(columns[len(columns) % 2] == 0, columns[-1], k - 1 - columns[-1])
        noise = rng.integers(0, k, n)
        columns.append(np.where(rng.random(n) < 0.2, noise, mirrored) % k)
    codes = np.column_stack(columns).astype(np.int16)
    codes[rng.random(codes.shape) < missing] = -1
    return codes


def as_rows(codes, weight):
    return list(zip(codes.tolist(), weight.tolist()))


def naive_learn(codes, weight, n_states, criterion, **options):
    rule = naive.Criterion(criterion, total=float(weight.sum()))
    free = list(range(len(n_states)))
    return naive.learn(as_rows(codes, weight), free, list(n_states), rule, **options)


def learn(codes, weight, n_states, cuts=None, advance=None, **chosen):
    options = CutsetOptions(**chosen)
    n_states = np.array(n_states)
    return learn_cutset_network(codes, weight, n_states, options, cuts=cuts, advance=advance)


@pytest.fixture
def general_counts(monkeypatch):
    """Count all rows the general way."""
    monkeypatch.setattr(_rows, "fits_bits", lambda *_: False)


def check_against_naive(criterion, n_states, missing, whole, n_candidates=10):
    n = 300
    codes = random_codes(n, n_states, seed=len(n_states), missing=missing)
    rng = np.random.default_rng(1)
    weight = rng.integers(1, 9, n).astype(float) if whole else rng.gamma(2.0, 1.0, n)
    network = learn(codes, weight, n_states, criterion=criterion, n_candidates=n_candidates)
    expected, score = naive_learn(codes, weight, n_states, criterion, n_candidates=n_candidates)
    assert naive.shape(network) == expected
    assert network.score == pytest.approx(score, rel=1e-10)
    assert network.n_cuts > 0


@pytest.mark.parametrize("criterion", ["bd", "bic"])
@pytest.mark.parametrize(
    ("n_states", "missing"),
    [((2,) * 6, 0.0), ((2, 3, 2, 4, 3), 0.0), ((2, 3, 2, 4), 0.1), ((2,) * 5, 0.1)],
)
@pytest.mark.parametrize("whole", [True, False])
def test_the_network_is_the_one_of_the_naive_algorithm(criterion, n_states, missing, whole):
    check_against_naive(criterion, n_states, missing, whole)


def test_only_the_most_promising_candidates_are_tried():
    check_against_naive("bd", (2, 3, 2, 4, 3), 0.0, whole=False, n_candidates=1)


@pytest.mark.parametrize("criterion", ["bd", "bic"])
def test_both_ways_of_counting_learn_the_same_network(criterion, request):
    codes = random_codes(800, (2,) * 12, seed=0)
    weight = np.random.default_rng(0).integers(1, 4, 800).astype(float)
    one = learn(codes, weight, (2,) * 12, criterion=criterion)
    request.getfixturevalue("general_counts")
    other = learn(codes, weight, (2,) * 12, criterion=criterion)
    assert naive.shape(one) == naive.shape(other)
    assert one.n_cuts > 2
    assert one.score == pytest.approx(other.score, rel=1e-12)
    np.testing.assert_array_equal(one.child_count, other.child_count)
    for a, b in zip(cutset_circuit(one).param, cutset_circuit(other).param):
        assert a == pytest.approx(b, abs=1e-12)


def test_the_score_is_the_log_marginal_likelihood_of_the_rows():
    n_states = (2, 3, 2, 3)
    codes = random_codes(120, n_states, seed=2)
    network = learn(codes, np.ones(120), n_states, ess=0.4)
    rows = as_rows(codes, np.ones(120))
    expected = naive.sequential_log_marginal(naive.shape(network), rows, n_states, ess=0.4)
    assert network.n_cuts > 0
    assert network.score == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n_states", [(2,) * 8, (3, 2, 4, 2, 3)])
def test_weight_two_is_the_row_twice_and_order_is_nothing(n_states):
    codes = random_codes(300, n_states, seed=4)
    weight = np.random.default_rng(0).integers(1, 4, 300)
    merged = learn(codes, weight.astype(float), n_states)
    repeated = np.repeat(codes, weight, axis=0)
    repeated = np.random.default_rng(1).permutation(repeated)
    apart = learn(repeated, np.ones(len(repeated)), n_states)
    assert merged.n_cuts > 0
    assert pickle.dumps(merged) == pickle.dumps(apart)


def test_a_row_of_missing_cells_changes_nothing():
    n_states = (2, 3, 2, 2)
    codes = random_codes(200, n_states, seed=5, missing=0.1)
    nothing = np.full((3, 4), -1, dtype=np.int16)
    for criterion in ("bd", "bic"):
        without = learn(codes, np.ones(200), n_states, criterion=criterion)
        within = np.concatenate([codes, nothing])
        assert pickle.dumps(without) == pickle.dumps(
            learn(within, np.ones(203), n_states, criterion=criterion)
        )


def test_a_single_missing_cell_moves_the_parameters_little():
    n_states = (2, 2, 2, 2)
    codes = random_codes(500, n_states, seed=6)
    complete = learn(codes, np.ones(500), n_states, max_depth=0)
    codes[0, 0] = -1
    gap = learn(codes, np.ones(500), n_states, max_depth=0)
    for x in product(range(2), repeat=4):
        one, other = (naive.evaluate(cutset_circuit(net), x) for net in (complete, gap))
        assert one == pytest.approx(other, rel=0.05)


@pytest.mark.parametrize("n_states", [(2, 1, 2, 2, 1), (3, 1, 2, 2, 1)])
def test_columns_of_one_state_change_nothing(n_states):
    varied = [k for k in n_states if k > 1]
    codes = random_codes(300, varied, seed=7)
    network = learn(codes, np.ones(300), varied)
    wider = np.zeros((300, 5), dtype=np.int16)
    wider[:, [0, 2, 3]] = codes
    again = learn(wider, np.ones(300), n_states)
    assert again.score == network.score
    assert again.n_parameters == network.n_parameters
    one, other = cutset_circuit(network), cutset_circuit(again)
    for x in product(*map(range, varied)):
        found = naive.evaluate(other, (x[0], 0, x[1], x[2], 0))
        assert found == pytest.approx(naive.evaluate(one, x))


def test_a_table_of_constants_is_certain():
    network = learn(np.zeros((5, 3), dtype=np.int16), np.ones(5), (1, 1, 1))
    assert network.n_parameters == 0
    assert network.score == 0.0
    assert naive.evaluate(cutset_circuit(network), (0, 0, 0)) == 1.0


def test_a_variable_that_is_constant_in_the_data_is_never_cut():
    codes = random_codes(300, (2,) * 6, seed=8)
    codes[:, 3] = 1
    network = learn(codes, np.ones(300), (2,) * 6)
    assert network.n_cuts > 0
    assert 3 not in network.variable


def test_depth_is_bounded_by_max_depth():
    codes = random_codes(600, (2,) * 8, seed=9)
    for depth in (0, 1, 2):
        assert naive.depth(learn(codes, np.ones(600), (2,) * 8, max_depth=depth)) == depth


def test_the_network_counts_its_parameters():
    n_states = (2, 3, 4)
    codes = random_codes(50, n_states, seed=10)
    network = learn(codes, np.ones(50), n_states, max_depth=0)
    k = dict(enumerate(n_states))
    parent = naive.shape(network)[1]
    expected = sum((1 if p is None else k[p]) * (k[v] - 1) for v, p in parent.items())
    assert network.n_parameters == expected
    deeper = learn(random_codes(400, (2,) * 5, seed=5), np.ones(400), (2,) * 5)
    free = [len(deeper.trees[leaf].variables) for leaf in deeper.leaf if leaf >= 0]
    assert deeper.n_parameters == deeper.n_cuts + sum(2 * m - 1 for m in free)


def test_the_network_cannot_be_changed():
    network = learn(random_codes(50, (2, 2), seed=0), np.ones(50), (2, 2))
    with pytest.raises(AttributeError):
        network.score = 0.0
    with pytest.raises(ValueError, match="read-only"):
        network.variable[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        network.trees[0].tables.weight[0] = 1.0


def level_shape(network, node=0):
    """Variables of the cuts and the edges of the leaves, if they are those of all paths."""
    if network.variable[node] < 0:
        return [], naive.shape(network, node)[1]
    below = [level_shape(network, int(branch)) for branch in network.branches(node)]
    assert all(part == below[0] for part in below)
    return [int(network.variable[node]), *below[0][0]], below[0][1]


@pytest.mark.parametrize("criterion", ["bd", "bic"])
@pytest.mark.parametrize(
    ("n_states", "missing"),
    [((2,) * 6, 0.0), ((2, 3, 2, 4, 3), 0.0), ((2, 3, 2, 4), 0.1), ((2,) * 5, 0.1)],
)
def test_levels_are_those_of_the_naive_algorithm(criterion, n_states, missing):
    codes = random_codes(400, n_states, seed=len(n_states), missing=missing)
    weight = np.random.default_rng(1).gamma(2.0, 1.0, 400)
    network = learn(codes, weight, n_states, criterion=criterion, structured=True)
    rule = naive.Criterion(criterion, total=float(weight.sum()))
    rows = as_rows(codes, weight)
    cuts, parent, score = naive.learn_levels(rows, list(range(len(n_states))), n_states, rule)
    assert level_shape(network) == (cuts, parent)
    assert network.score == pytest.approx(score, rel=1e-9)
    assert len(cuts) > 0


def test_levels_stop_at_the_depth_that_is_asked_for():
    codes = random_codes(400, (2,) * 6, seed=6)
    for depth in (0, 1):
        network = learn(codes, np.ones(400), (2,) * 6, structured=True, max_depth=depth)
        assert naive.depth(network) == depth


def test_no_level_has_more_branches_than_there_are_rows():
    rng = np.random.default_rng(0)
    switch = rng.integers(0, 2, (30, 6))
    codes = np.column_stack([switch, switch ^ switch[:, :1]]).astype(np.int16)
    network = learn(codes, np.ones(30), (2,) * 12, structured=True, ess=1e-3)
    assert 2 ** naive.depth(network) <= 30


def test_circuits_of_levels_are_structured_decomposable_and_deterministic():
    codes = random_codes(400, (2, 3, 2, 4, 3), seed=5)
    circuit = cutset_circuit(learn(codes, np.ones(400), (2, 3, 2, 4, 3), structured=True))
    assert circuit.structured_decomposable
    assert circuit.deterministic


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("n_states", [(2,) * 8, (3, 2, 4, 2, 3, 4, 3)])
def test_cuts_tried_by_threads_give_the_same_network(n_states, missing, monkeypatch):
    monkeypatch.setattr("skpc._threads._WORTH_IT", 0.0)
    codes = random_codes(2000, n_states, seed=6, missing=missing)
    with threads(3):
        other = learn(codes, np.ones(2000), n_states)
    one = learn(codes, np.ones(2000), n_states)
    assert one.n_cuts > 0
    assert pickle.dumps(one) == pickle.dumps(other)


def test_progress_counts_the_rows_that_have_reached_a_leaf():
    told = []
    codes = random_codes(500, (3, 2, 4, 2, 3), seed=6)
    network = learn(codes, np.ones(500), (3, 2, 4, 2, 3), advance=told.append)
    assert network.n_cuts > 0
    assert sum(told) == pytest.approx(500)


@pytest.mark.parametrize("general", [False, True])
def test_chains_are_for_columns_that_change_along_a_line_and_stars_for_single_errors(
    general, request
):
    if general:
        request.getfixturevalue("general_counts")
    rng = np.random.default_rng(0)
    along = (np.arange(40) < rng.integers(0, 400, (200, 1))).astype(np.int16)
    apart = np.repeat(rng.integers(0, 2, (200, 1)), 40, axis=1).astype(np.int16)
    (wrong,) = np.nonzero(rng.random(200) < 0.15)
    apart[wrong, rng.integers(1, 40, len(wrong))] ^= 1
    learn_tree = partial(learn_cutset_network, n_states=np.full(40, 2), options=TREE)
    weight = np.ones(200)
    decided = [
        chains_are_better(learn_tree(codes, weight), codes, weight, learn_tree)
        for codes in (along, apart)
    ]
    assert decided == [True, False]


def test_without_ties_no_rows_are_held_out(monkeypatch):
    codes = random_codes(300, [2, 3, 2, 4], seed=0)
    learn_network = partial(learn_cutset_network, n_states=np.array([2, 3, 2, 4]))
    weight = np.random.default_rng(0).gamma(2.0, 1.0, 300)
    monkeypatch.setattr("skpc.learning.cutset.quarters", None)
    assert not chains_are_better(learn_network(codes, weight), codes, weight, learn_network)
