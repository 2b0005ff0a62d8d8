"""Leaves of numbers, of one column or several: densities, draws, fitting, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import chisquare, kstest, norm

from skpc.circuit import CircuitBuilder
from skpc.exceptions import StructureError
from skpc.queries import fit_parameters, log_likelihood, moments, mpe, quantiles, sample
from skpc.variables import BLOCK, Histogram, Law, Normals, Predictive, ScoredNormals
from skpc.variables.blocks import ScoredCells
from skpc.variables.score import Score
from tests.naive import blocks as naive_blocks
from tests.naive import circuit as naive
from tests.zoo import SCORED_COLUMNS, log_simplex, one_block, random_rows

PLAIN = Law(Score(), np.empty(0))
every_column = pytest.mark.parametrize("column", SCORED_COLUMNS, ids=range(len(SCORED_COLUMNS)))


def leaf(column: Law, log_prob=None, mean: float = 0.2, sd: float = 0.6):
    builder = CircuitBuilder([column.n_states], [column])
    uniform = np.full(column.n_states, -np.log(column.n_states))
    builder.scored(0, uniform if log_prob is None else log_prob, mean, sd)
    return builder.build()


@every_column
def test_probabilities_and_densities_of_a_leaf_sum_to_one(column):
    log_prob = log_simplex(np.random.default_rng(0), column.n_states)
    circuit = leaf(column, log_prob)

    def density(x):
        return float(np.exp(log_likelihood(circuit, [[x]])[0]))

    width = column.step or 1.0
    of_atoms = sum(density(atom) * width for atom in column.atoms)
    assert of_atoms == pytest.approx(np.exp(log_prob[:-1]).sum())
    of_naive = naive.scored_column(circuit, 0)
    score = of_naive.score
    knots = (-6.0, -3.0, score.low, 0.0, 0.2, score.high, 3.0, 6.0)
    ends = sorted(score.value(z) for z in knots)
    rest = circuit.param[column.n_states - 1]

    # The cells of atoms are cut out: the line is that of the places.
    def of_rest(place):
        at = np.array([place])
        z, slope = column.score.transform(at), column.score.log_slope(at)
        u = (z[0] - 0.2) / 0.6
        return np.exp(rest - 0.5 * u * u + slope[0]) / (0.6 * np.sqrt(2 * np.pi))

    total = sum(quad(of_rest, a, b)[0] for a, b in zip(ends[:-1], ends[1:]))
    assert total == pytest.approx(np.exp(rest), rel=1e-5)
    # Away from atoms, this is the density; on a lattice, its mean in a cell.
    place, half = ends[2] + 0.013, 0.5 * column.step
    expected = of_rest(place)
    if half > 0.0:
        expected = quad(of_rest, place - half, place + half, epsabs=0.0)[0] / column.step
    assert density(of_naive.value(place)) == pytest.approx(expected)


@every_column
def test_a_column_survives_the_array_that_kernels_read(column):
    again = Law.from_flat(column.flat)
    assert again.score == column.score
    assert_array_equal(again.atoms, column.atoms)
    assert again[2:] == column[2:]


@every_column
def test_scores_of_a_table_are_those_that_leaves_read(column):
    circuit = leaf(column)
    x = np.random.default_rng(0).normal(size=50) * 3
    x[:20] = np.resize(column.atoms, 20) if len(column.atoms) else x[:20]
    x[20] = np.nan
    state, score = column.scores(x)
    of_naive = naive.scored_column(circuit, 0)
    assert state[20] == -1
    for value, number, z in zip(np.delete(x, 20), np.delete(state, 20), np.delete(score, 20)):
        assert number == of_naive.state(value)
        if number < len(column.atoms):
            assert np.isnan(z)
        else:
            assert z == pytest.approx(of_naive.of(value))


@every_column
def test_draws_are_atoms_with_their_probabilities_and_normal_scores(column):
    log_prob = log_simplex(np.random.default_rng(1), column.n_states)
    drawn = sample(leaf(column, log_prob), 20_000, random_state=0)
    is_atom = drawn == column.atoms
    counts = np.append(is_atom.sum(axis=0), (~is_atom.any(axis=1)).sum())
    if len(counts) > 1:
        assert chisquare(counts, 20_000 * np.exp(log_prob)).pvalue > 1e-3
    scores = column.transform(drawn[~is_atom.any(axis=1), 0])
    assert kstest(scores, norm(0.2, 0.6).cdf).pvalue > 1e-3


def test_draws_are_no_atoms_of_the_lattice_and_have_the_shares_of_their_cells():
    column = Law(Score(-0.5, np.inf, 1.0, 0.7, 1.0, -2.0, 2.0), np.array([0.0]), 1.0, 0.499)
    column = column._replace(gap=1.0)
    drawn = sample(leaf(column, np.log([0.1, 0.9]), 0.0, 2.0), 20_000, random_state=0)[:, 0]
    assert np.mean(drawn == 0.0) == pytest.approx(0.1, abs=0.01)
    rest = drawn[drawn != 0.0]
    assert rest.min() >= 0.5
    for value in (1.0, 2.0, 3.0, 8.0):
        low, high = column.end_scores(np.array([value - 0.5]), np.array([value + 0.5]))
        mass = 0.9 * (norm.cdf(high[0] / 2.0) - norm.cdf(low[0] / 2.0))
        assert np.mean(np.abs(drawn - value) < 0.5) == pytest.approx(mass, abs=0.015)


def test_a_single_leaf_takes_the_shares_of_its_atoms_and_the_moments_of_the_scores():
    rng = np.random.default_rng(0)
    values = np.where(rng.random(3000) < 0.4, 0.0, rng.lognormal(1.0, 0.5, 3000))
    weight = rng.integers(1, 4, 3000).astype(float)
    column = SCORED_COLUMNS[0]
    fitted = fit_parameters(leaf(column), values[:, None], weight, pseudo_count=0.0)
    share = weight[values == 0.0].sum() / weight.sum()
    assert_allclose(np.exp(fitted.param[:2]), [share, 1 - share], rtol=1e-6)
    z, w = column.score.transform(values[values > 0]), weight[values > 0]
    mean = np.average(z, weights=w)
    assert fitted.param[2] == pytest.approx(mean)
    assert fitted.param[3] == pytest.approx(np.sqrt(np.average((z - mean) ** 2, weights=w)))


def test_no_standard_deviation_is_below_half_a_step_or_the_smallest():
    column = Law(Score(spread=2.0), np.empty(0), 1.0, 0.499, 0.1)
    circuit = leaf(column)
    fitted = fit_parameters(circuit, np.full((30, 1), 3.0), pseudo_count=0.0)
    # A step of one is half a step of the score.
    assert fitted.param[-1] == pytest.approx(0.25)
    assert_allclose(column._replace(step=0.0).smallest_sds(np.zeros(2)), 0.1)


def test_the_mode_is_the_most_probable_atom_or_the_median_of_the_rest():
    column = SCORED_COLUMNS[3]
    many = leaf(column, np.log([0.2, 0.5, 0.1, 0.2]), 0.7, 0.01)
    assert mpe(many, [[np.nan]])[0, 0] == 0.0
    rest = leaf(column, np.log([0.2, 0.25, 0.15, 0.4]), 0.7, 100.0)
    assert mpe(rest, [[np.nan]])[0, 0] == pytest.approx(0.7)


@every_column
def test_predictive_distributions_are_those_of_the_leaf(column):
    rng = np.random.default_rng(0)
    prob = np.exp(log_simplex(rng, column.n_states))
    rest = Normals(np.array([0.2]), np.array([0.6]), np.full((3, 1), prob[-1]))
    form = ScoredNormals(column, np.tile(prob[:-1], (3, 1)), rest)
    cells, circuit = Predictive([form], np.full(3, np.nan)), leaf(column, np.log(prob))
    nothing = np.array([np.nan])
    for x in (-3.0, -0.5, 0.0, 1.0, 2.0, 5.0):
        assert_allclose(cells.cdf(x), naive.share_below(circuit, nothing, 0, x), rtol=1e-9)
    mean = naive.posterior_expectation(circuit, nothing, 0, lambda x: x)
    square = naive.posterior_expectation(circuit, nothing, 0, lambda x: x**2)
    assert_allclose(cells.mean(), mean, atol=1e-8)
    assert_allclose(cells.variance(), square - mean**2, rtol=1e-7)
    for level in (1e-4, 0.2, 0.5, 0.9):
        found = cells.quantile(level)[0]
        assert naive.share_below(circuit, nothing, 0, found + 1e-9) >= level * (1 - 1e-7)
        assert naive.share_below(circuit, nothing, 0, found - 1e-9) <= level * (1 + 1e-7)


@pytest.mark.parametrize("values", [np.arange(40.0) % 13, np.arange(60.0) % 17 / 4])
def test_on_a_lattice_the_cdf_is_a_step_function_and_the_quantile_its_inverse(values):
    number = Law.fit(values, np.ones(len(values)))
    assert number.step
    number = number._replace(atoms=np.empty(0), seen=np.empty(0), unseen=0.0)
    column = number._replace(smallest_sd=0.01)
    form = ScoredNormals(column, np.empty((1, 0)), Normals(np.zeros(1), np.ones(1)))
    cells = Predictive([form], np.array([np.nan]), law=number)
    points = np.arange(values.min(), values.max() + number.step / 2, number.step)
    steps = np.array([cells.cdf(point)[0] for point in points])
    assert np.all(np.diff(steps) > 0)
    between = points + 0.7 * number.step
    assert_allclose([cells.cdf(x)[0] for x in between], steps)
    assert_allclose([cells.cdf(x - 1e-6)[0] for x in points[1:]], steps[:-1])
    for level in np.linspace(0.01, 0.99, 23):
        found = cells.quantile(level)[0]
        assert number.values(np.array([found]))[0] == found
        assert cells.cdf(found)[0] >= level - 1e-12
        assert cells.cdf(found - number.step / 2)[0] < level


def test_leaves_that_do_not_fit_their_column_are_refused():
    builder = CircuitBuilder([2, 3], [SCORED_COLUMNS[0], None])
    for refused in (
        lambda: builder.discrete(0, np.log([0.5, 0.5])),
        lambda: builder.indicator(0, 1),
    ):
        with pytest.raises(ValueError, match="variable . has atoms and a score"):
            refused()
    with pytest.raises(ValueError, match="scored leaf needs a variable with atoms and a score"):
        builder.scored(1, np.log([0.5, 0.25, 0.25]), 0.0, 1.0)
    with pytest.raises(ValueError, match="needs 2 log probabilities"):
        builder.scored(0, [0.0], 0.0, 1.0)
    with pytest.raises(ValueError, match="must sum to 1"):
        builder.scored(0, np.log([0.5, 0.6]), 0.0, 1.0)
    with pytest.raises(ValueError, match="finite mean and a positive sd"):
        builder.scored(0, np.log([0.5, 0.5]), 0.0, 0.0)


def builder_of(n_plain: int = 2) -> CircuitBuilder:
    """Numbers without atoms, and behind them one with an atom, a category and a free number."""
    columns = [PLAIN] * n_plain + [SCORED_COLUMNS[0], None, None]
    return CircuitBuilder([1] * n_plain + [2, 3, 0], columns)


def test_probabilities_and_densities_of_a_block_sum_to_one():
    columns = [Law(Score(power=0.5, low=-2.0, high=2.0), np.array([0.5])), PLAIN]
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


@every_column
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


def test_no_value_is_above_the_peak():
    """Values inside a circuit then lie in [0, 1]."""
    circuit = one_block(0, SCORED_COLUMNS)
    (blocks,) = circuit.multivariate
    rng = np.random.default_rng(0)
    scores = blocks.gaussians.mean[0] + 0.3 * rng.normal(size=(300, len(SCORED_COLUMNS)))
    scores[rng.random(scores.shape) < 0.5] = np.nan
    codes = np.where(np.isnan(scores), -1, [c.n_states - 1 for c in SCORED_COLUMNS])
    assert blocks.log_values(ScoredCells.from_scores(codes, scores), circuit.columns).max() <= 1e-12


@every_column
def test_scored_leaves_and_blocks_of_one_variable_can_be_mixed(column):
    rng = np.random.default_rng(0)
    builder = CircuitBuilder([column.n_states, 1], [column, PLAIN])
    log_prob = log_simplex(rng, column.n_states)
    both = builder.block([0, 1], [log_prob, [0.0]], [0.1, 0.2], [[1.0, 0.6], [0.6, 2.0]])
    one, two = builder.scored(0, log_prob[::-1], 0.5, 0.4), builder.scored(1, [0.0], 1.0, 0.5)
    builder.sum([both, builder.product([one, two])], np.log([0.3, 0.7]))
    circuit = builder.build()
    rows = random_rows(0, circuit, 20, 0.3)
    truth = np.log([naive_blocks.density(circuit, row) for row in rows])
    assert_allclose(log_likelihood(circuit, rows), truth, atol=1e-10)


def test_a_block_of_a_variable_that_others_read_in_another_way_is_refused():
    columns = [PLAIN, Histogram(np.array([0.0]), 1.0, 1.0)]
    builder = CircuitBuilder([1, 2], columns)
    block = builder.block([0], [[0.0]], [0.0], [[1.0]])
    builder.axes[1] = PLAIN
    builder.n_states[1] = 1
    other = builder.block([0, 1], [[0.0], [0.0]], [0.0, 0.0], np.eye(2))
    builder.axes[1], builder.n_states[1] = columns[1], 2
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
    (blocks,) = circuit.multivariate
    assert blocks.variables.tolist() == [0, 1, 2, 3]
    assert len(circuit.leaf_forms(2).means()) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"variables": []}, "increasing variables and log probabilities for each of them"),
        ({"variables": [1, 0]}, r"increasing variables .* got \[1, 0\] and 2 arrays"),
        ({"variables": [0, 0]}, r"increasing variables .* got \[0, 0\]"),
        ({"log_probs": [[0.0]]}, r"got \[0, 1\] and 1 arrays"),
        ({"variables": [0, 9]}, r"the variables are 0..4, got 9"),
        ({"variables": [0, 3]}, "block leaf needs .* atoms and a score, but variable 3 has"),
        ({"variables": [0, 4]}, "block leaf needs .* atoms and a score, but variable 4 has"),
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
