"""Leaves of several numbers: their densities, what they share with others, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.circuit import CircuitBuilder
from skpc.exceptions import StructureError
from skpc.queries import fit_parameters, log_likelihood, moments, mpe, quantiles
from skpc.variables import BLOCK, Axis, ScoredColumn
from skpc.variables.block import BlockCells
from skpc.variables.score import Score
from tests.naive import blocks as naive
from tests.zoo import SCORED_COLUMNS, log_simplex, one_block, random_rows

PLAIN = ScoredColumn(Score(), np.empty(0))


def builder_of(n_plain: int = 2) -> CircuitBuilder:
    """Numbers without atoms, and behind them one with an atom, a category and a free number."""
    columns = [PLAIN] * n_plain + [SCORED_COLUMNS[0], None, None]
    return CircuitBuilder([1] * n_plain + [2, 3, 0], columns)


def test_probabilities_and_densities_of_a_block_sum_to_one():
    columns = [ScoredColumn(Score(power=0.5, low=-2.0, high=2.0), np.array([0.5])), PLAIN]
    circuit = one_block(0, columns)
    atom = np.exp(circuit.param[0])

    # No point of the grid is the atom.
    grid = np.linspace(-14.0, 14.0, 1200)
    step = grid[1] - grid[0]
    x, y = (part.ravel() for part in np.meshgrid(grid, grid))
    rest = np.exp(log_likelihood(circuit, np.column_stack([x, y]))).sum() * step**2
    assert rest == pytest.approx(1 - atom, abs=1e-4)
    at = np.column_stack([np.full(1200, 0.5), grid])
    assert np.exp(log_likelihood(circuit, at)).sum() * step == pytest.approx(atom, abs=1e-8)


@pytest.mark.parametrize("column", SCORED_COLUMNS, ids=range(len(SCORED_COLUMNS)))
def test_a_block_of_one_number_is_a_scored_leaf(column):
    log_prob = log_simplex(np.random.default_rng(0), column.n_states)
    circuits = []
    for is_block in (True, False):
        builder = CircuitBuilder([column.n_states], [column])
        if is_block:
            builder.block([0], [log_prob], [0.3], [[0.49]])
        else:
            builder.scored(0, log_prob, 0.3, 0.7)
        circuits.append(builder.build())
    rows = random_rows(0, circuits[0], 60, 0.2)
    block, scored = circuits
    assert_allclose(log_likelihood(block, rows), log_likelihood(scored, rows), atol=1e-12)
    assert_allclose(moments(block, rows), moments(scored, rows), rtol=1e-9)
    assert_allclose(quantiles(block, rows, [0.2]), quantiles(scored, rows, [0.2]), rtol=1e-9)
    assert_allclose(mpe(block, rows), mpe(scored, rows), rtol=1e-9)
    # An atom is a missing score of a block: its steps are shorter, and lead to the same place.
    options = {"pseudo_count": 1.0, "max_iter": 400, "tol": 0.0}
    fitted = [fit_parameters(circuit, rows, **options).param for circuit in circuits]
    assert_allclose(fitted[0][:-1], fitted[1][:-1], rtol=1e-5)
    assert_allclose(np.sqrt(fitted[0][-1]), fitted[1][-1], rtol=1e-5)


def test_an_observed_atom_tells_nothing_of_the_other_scores():
    circuit = one_block(1, [SCORED_COLUMNS[0], PLAIN, PLAIN])
    rows = np.array([[0.0, 0.4, np.nan], [np.nan, 0.4, np.nan]])
    mean, variance = moments(circuit, rows)
    assert_allclose(mean[0, 2], mean[1, 2])
    assert_allclose(variance[0, 2], variance[1, 2])
    difference = np.diff(log_likelihood(circuit, rows))[0]
    assert difference == pytest.approx(-circuit.param[0])


@pytest.mark.parametrize("seed", range(3))
def test_no_value_is_above_the_peak(seed):
    """Values inside a circuit then lie in [0, 1]."""
    circuit = one_block(seed, SCORED_COLUMNS)
    (blocks,) = circuit.blocks
    rng = np.random.default_rng(seed)
    scores = blocks.gaussians.mean[0] + 0.3 * rng.normal(size=(300, 4))
    scores[rng.random(scores.shape) < 0.5] = np.nan
    codes = np.where(np.isnan(scores), -1, [c.n_states - 1 for c in SCORED_COLUMNS])
    assert blocks.log_values(BlockCells.of(codes, scores), circuit.columns).max() <= 1e-12


@pytest.mark.parametrize("column", SCORED_COLUMNS, ids=range(len(SCORED_COLUMNS)))
def test_scored_leaves_and_blocks_of_one_variable_can_be_mixed(column):
    rng = np.random.default_rng(0)
    builder = CircuitBuilder([column.n_states, 1], [column, PLAIN])
    log_prob = log_simplex(rng, column.n_states)
    both = builder.block([0, 1], [log_prob, [0.0]], [0.1, 0.2], [[1.0, 0.6], [0.6, 2.0]])
    one, two = builder.scored(0, log_prob[::-1], 0.5, 0.4), builder.scored(1, [0.0], 1.0, 0.5)
    builder.sum([both, builder.product([one, two])], np.log([0.3, 0.7]))
    circuit = builder.build()
    rows = random_rows(0, circuit, 20, 0.3)
    truth = np.log([naive.density(circuit, row) for row in rows])
    assert_allclose(log_likelihood(circuit, rows), truth, atol=1e-10)


def test_a_block_of_a_variable_that_others_read_in_another_way_is_refused():
    columns = [PLAIN, Axis(np.array([0.0]), 1.0, 1.0)]
    builder = CircuitBuilder([1, 2], columns)
    block = builder.block([0], [[0.0]], [0.0], [[1.0]])
    builder._axes[1] = PLAIN
    builder._n_states[1] = 1
    other = builder.block([0, 1], [[0.0], [0.0]], [0.0, 0.0], np.eye(2))
    builder._axes[1], builder._n_states[1] = columns[1], 2
    histogram = builder.discrete(1, np.log([0.5, 0.5]))
    builder.sum([builder.product([block, histogram]), other], np.log([0.5, 0.5]))
    message = (
        "node 1 is a block leaf and needs .* atoms and a score, but variable 1 has a histogram"
    )
    with pytest.raises(StructureError, match=message):
        builder.build()


def test_a_block_owns_its_variables():
    builder = builder_of()
    block = builder.block([0, 1], [[0.0], [0.0]], np.zeros(2), np.eye(2))
    other = builder.scored(1, [0.0], 0.0, 1.0)
    builder.product([block, other])
    with pytest.raises(StructureError, match="disjoint scopes"):
        builder.build()


def test_the_structure_tells_the_scope_of_a_block():
    circuit = one_block(0, SCORED_COLUMNS)
    assert circuit.leaf_family.tolist() == [BLOCK]
    assert circuit.scope.tolist() == [0, 1, 2, 3]
    assert circuit.smooth
    assert circuit.decomposable
    assert circuit.deterministic
    (blocks,) = circuit.blocks
    assert blocks.variables.tolist() == [0, 1, 2, 3]
    assert len(circuit.leaf_forms(2).mean) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"variables": []}, "increasing variables and log probabilities for each of them"),
        ({"variables": [1, 0]}, r"increasing variables .* got \[1, 0\] and 2 arrays"),
        ({"variables": [0, 0]}, r"increasing variables .* got \[0, 0\]"),
        ({"log_probs": [[0.0]]}, r"got \[0, 1\] and 1 arrays"),
        ({"variables": [0, 9]}, r"the variables are 0..4, got 9"),
        ({"variables": [0, 3]}, "variable 3 needs a ScoredColumn among the axes for a block leaf"),
        ({"variables": [0, 4]}, "variable 4 needs a ScoredColumn among the axes for a block leaf"),
        ({"variables": [0, 2]}, r"leaf of variable 2 needs 2 log probabilities, got shape \(1,\)"),
        ({"log_probs": [[0.0], [-1.0]]}, "probabilities of a leaf of variable 1 must sum to 1"),
        ({"mean": [0.0]}, r"needs a mean of shape \(2,\) and .* got \(1,\) and \(2, 2\)"),
        ({"covariance": np.eye(3)}, r"covariance of shape \(2, 2\), got \(2,\) and \(3, 3\)"),
        ({"mean": [0.0, np.nan]}, r"variables \[0, 1\] needs finite means and covariances"),
        ({"covariance": np.full((2, 2), np.inf)}, "needs finite means and covariances"),
        ({"covariance": [[1.0, 0.5], [0.4, 1.0]]}, "differs from its transpose by 0.1"),
        ({"covariance": np.ones((2, 2))}, r"must be symmetric and positive definite; .* is "),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "its smallest eigenvalue is -1"),
    ],
)
def test_what_is_no_block_is_refused(changed, message):
    given = {"variables": [0, 1], "log_probs": [[0.0], [0.0]], "mean": [0.0, 0.0]}
    given |= {"covariance": np.eye(2)} | changed
    with pytest.raises(ValueError, match=message):
        builder_of().block(**given)


def test_cells_that_no_block_can_read_are_refused():
    circuit = one_block(0, [PLAIN, SCORED_COLUMNS[1]])
    with pytest.raises(ValueError, match=r"X\[1, 0\] must be a finite number or NaN"):
        log_likelihood(circuit, [[0.0, 0.0], [np.inf, 0.0]])
