"""Every query of circuits with blocks against the list of all worlds."""

import copy
import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpc._jit import KERNELS
from skpc.circuit import SUM, CircuitBuilder, load_circuit, save_circuit
from skpc.discrepancies import stein_gram
from skpc.kernels import RBF
from skpc.queries import (
    condition,
    expected_gram,
    fit_parameters,
    flows,
    log_conditional,
    log_likelihood,
    marginals,
    moments,
    mpe,
    posteriors,
    quantiles,
    sample,
    sample_missing,
    score_cells,
)
from skpc.queries.flows import pseudo_counts_from, uniform_pseudo_counts
from skpc.variables import CATEGORICAL, Law
from skpc.variables.score import Score
from tests.naive import blocks as naive
from tests.naive.circuit import atoms_of, is_number, scored_column
from tests.naive.gaussians import conditional
from tests.queries.test_parameters import objectives_of
from tests.zoo import (
    SCORED_COLUMNS,
    log_simplex,
    one_block,
    random_block,
    random_block_circuit,
    random_rows,
)


def decision_circuit():
    """A category decides how the numbers are described."""
    rng = np.random.default_rng(0)
    columns = [SCORED_COLUMNS[0], None, *SCORED_COLUMNS[2:]]
    builder = CircuitBuilder([2, 3, 1, 4], columns)
    parts = [
        [random_block(builder, rng, [0, 2, 3])],
        [random_block(builder, rng, [0, 3]), random_block(builder, rng, [2])],
        [builder.scored(0, log_simplex(rng, 2), 0.1, 0.5), random_block(builder, rng, [2, 3])],
    ]
    children = [builder.product([builder.indicator(1, s), *p]) for s, p in enumerate(parts)]
    builder.sum(children, log_simplex(rng, 3), 1, range(3))
    return builder.build()


every_circuit = pytest.mark.parametrize(
    "circuit",
    [
        *(random_block_circuit(seed) for seed in range(6)),
        random_block_circuit(6, n_numbers=4),
        one_block(0, SCORED_COLUMNS),
        decision_circuit(),
    ],
    ids=[*"012345", "wide", "alone", "deciding"],
)


def log_densities(circuit, rows) -> np.ndarray:
    return np.log([naive.density(circuit, row) for row in rows])


@every_circuit
def test_densities_are_those_of_all_worlds(circuit):
    rows = random_rows(0, circuit, 40, 0.4)
    rows[0] = np.nan
    found = log_likelihood(circuit, rows)
    assert found[0] == pytest.approx(0.0, abs=1e-12)
    assert_allclose(found, log_densities(circuit, rows), atol=1e-10)


def test_rows_far_below_the_smallest_float_are_as_exact():
    circuit = random_block_circuit(0)
    rows = np.array([[27.0, 1.0, -27.0, 27.0], [27.0, np.nan, np.nan, -20.0]])
    worst = [log_likelihood(circuit, row[np.newaxis])[0] for row in rows]
    assert worst[0] < np.log(np.finfo(float).smallest_subnormal)
    # Under each tree the log density is a sum, which does not underflow.
    truth = []
    for row in rows:
        parts = []
        for weight, leaves in naive.trees(circuit):
            logs = [log_value(circuit, leaf, row) for leaf in leaves]
            parts.append(np.log(weight) + sum(logs))
        truth.append(np.logaddexp.reduce(parts))
    assert_allclose(worst, truth, rtol=1e-12)


def log_value(circuit, leaf: int, row) -> float:
    if circuit.leaf_var[leaf] == 1:
        return np.log(sum(w.prob for w in naive.worlds_of_leaf(circuit, leaf, row)))
    parts = naive.parts_of(circuit, leaf)
    columns = [scored_column(circuit, var) for var in parts.scope]
    seen = [at for at, var in enumerate(parts.scope) if not np.isnan(row[var])]
    total = 0.0
    for at in seen:
        assert columns[at].state(row[parts.scope[at]]) == len(columns[at].atoms)
        total += np.log(parts.probs[at][-1])
    if len(seen) == 1 and columns[seen[0]].step > 0.0:
        cells = {seen[0]: row[parts.scope[seen[0]]]}
        density = naive.density_of_scores(parts, columns, cells)
        # Far out, where no digit is left, the density in the middle of the cell stands for it.
        if density > 0.0:
            return total + np.log(density)
    z = np.array([columns[at].of(row[parts.scope[at]]) for at in seen])
    total += sum(np.log(columns[at].slope(row[parts.scope[at]])) for at in seen)
    away, matrix = z - parts.mean[seen], parts.covariance[np.ix_(seen, seen)]
    square = away @ np.linalg.solve(matrix, away) if seen else 0.0
    return total - 0.5 * (square + np.linalg.slogdet(2 * np.pi * matrix)[1])


@every_circuit
def test_the_score_of_a_cell_is_the_row_with_it_over_the_row_without_it(circuit):
    rows = random_rows(1, circuit, 8, 0.3)
    found = score_cells(circuit, rows)
    assert_array_equal(np.isnan(found), np.isnan(rows))
    for row, scores in zip(rows, found):
        for var in np.flatnonzero(~np.isnan(row)):
            expected = naive.score_of_cell(circuit, row, var)
            assert scores[var] == pytest.approx(expected, abs=1e-9)


@every_circuit
@pytest.mark.parametrize(("first", "second"), [(0, 2), (1, 3), (3, 2)])
def test_a_conditional_is_the_joint_over_the_evidence(circuit, first, second):
    """Conditioned once and twice, on atoms where there are some."""
    row = random_rows(3, circuit, 1, 0.0)[0]
    for var in (first, second):
        if is_number(circuit, var) and atoms_of(circuit, var):
            row[var] = atoms_of(circuit, var)[0]
    number = np.arange(len(row))
    one, two = np.where(number == first, row, np.nan), np.where(number == second, row, np.nan)
    once, rows = condition(circuit, one), random_rows(4, circuit, 10, 0.3)
    for given, known in ((once, [first]), (condition(once, two), [first, second])):
        rows[:, known] = row[known]
        alone = np.where(np.isin(number, known), row, np.nan)
        truth = log_densities(circuit, rows) - np.log(naive.density(circuit, alone))
        assert_allclose(log_likelihood(given, rows), truth, atol=1e-10)
        assert_allclose(log_conditional(circuit, rows, known), truth, atol=1e-10)
    with pytest.raises(ValueError, match="the circuit has been conditioned on variable"):
        condition(once, one + 1.0)


@every_circuit
def test_questions_of_a_conditional_are_those_of_rows_with_the_evidence(circuit):
    row = np.full(circuit.n_features, np.nan)
    row[0] = atoms_of(circuit, 0)[0] if atoms_of(circuit, 0) else 0.3
    row[2] = 0.7
    given, nothing = condition(circuit, row), np.full((1, circuit.n_features), np.nan)
    assert_allclose(moments(given, nothing), moments(circuit, row[np.newaxis]), rtol=1e-10)
    assert_allclose(
        quantiles(given, nothing, [0.3]), quantiles(circuit, row[np.newaxis], [0.3]), rtol=1e-8
    )
    assert_allclose(mpe(given, nothing), mpe(circuit, row[np.newaxis]))
    drawn = sample(given, 50, random_state=0)
    assert_array_equal(drawn[:, [0, 2]], np.tile(row[[0, 2]], (50, 1)))
    others = random_rows(0, circuit, 5, 0.3)
    known = np.where(np.isnan(row), others, row)
    scores, truth = score_cells(given, others), score_cells(circuit, known)
    free = np.flatnonzero(np.isnan(row))
    assert_allclose(scores[:, free], truth[:, free], atol=1e-9)


@every_circuit
def test_moments_agree_with_quadrature(circuit):
    rows = random_rows(2, circuit, 3, 0.6)
    mean, variance = moments(circuit, rows)
    for r, row in enumerate(rows):
        for var in np.flatnonzero(~np.isnan(row)):
            assert mean[r, var] == row[var]
            assert variance[r, var] == 0.0
        for var in np.flatnonzero(np.isnan(row)):
            if not is_number(circuit, var):
                continue
            expected = naive.expectation(circuit, row, var, lambda x: x)
            square = naive.expectation(circuit, row, var, lambda x, m=expected: (x - m) ** 2)
            assert mean[r, var] == pytest.approx(expected, rel=1e-6, abs=1e-7)
            assert variance[r, var] == pytest.approx(square, rel=1e-5, abs=1e-7)


@every_circuit
def test_posteriors_know_the_distribution_of_each_missing_cell(circuit):
    rows = random_rows(5, circuit, 4, 0.6)
    mean = moments(circuit, rows)[0]
    for var, cells in enumerate(posteriors(circuit, rows)):
        missing = np.flatnonzero(np.isnan(rows[:, var]))
        if not is_number(circuit, var):
            continue
        assert_allclose(cells.mean()[missing], mean[missing, var], atol=1e-8)
        for x in (-2.0, 0.0, 0.4, 3.0):
            truth = [naive.share_below(circuit, rows[r], var, x) for r in missing]
            assert_allclose(cells.cdf(x)[missing], truth, atol=1e-9)
        of_atoms = cells.atom_probabilities()
        for at, atom in enumerate(atoms_of(circuit, var)):
            truth = [naive.share_at(circuit, rows[r], var, atom) for r in missing]
            assert_allclose(of_atoms[missing, at], truth, atol=1e-10)


@every_circuit
def test_quantiles_invert_the_distribution_function(circuit):
    rows = random_rows(6, circuit, 3, 0.6)
    for level, found in zip((0.05, 0.5, 0.9), quantiles(circuit, rows, [0.05, 0.5, 0.9])):
        assert_array_equal(found[~np.isnan(rows)], rows[~np.isnan(rows)])
        for r, var in np.argwhere(np.isnan(rows)):
            if not is_number(circuit, var):
                assert np.isnan(found[r, var])
                continue
            x, small = found[r, var], 1e-7 * (1 + abs(found[r, var]))
            assert naive.share_below(circuit, rows[r], var, x + small) >= level - 1e-8
            assert naive.share_below(circuit, rows[r], var, x - small) <= level + 1e-8


@every_circuit
def test_marginals_are_posterior_probabilities_of_categories(circuit):
    rows = random_rows(7, circuit, 4, 0.6)
    for var, found in enumerate(marginals(circuit, rows)):
        if is_number(circuit, var):
            assert found is None
            continue
        missing = np.isnan(rows[:, var])
        for state in range(3):
            truth = [naive.share_at(circuit, row, var, state) for row in rows[missing]]
            assert_allclose(found[missing, state], truth, atol=1e-10)


def free_columns():
    """Columns whose draws are never repeated because they fell upon an atom's cell."""
    return [column._replace(step=0.0, reach=0.0) for column in SCORED_COLUMNS]


@pytest.mark.parametrize(
    "circuit",
    [
        *(random_block_circuit(s, columns=free_columns()) for s in (1, 2)),
        one_block(1, free_columns()),
    ],
)
def test_draws_follow_the_density_and_keep_what_is_observed(circuit):
    rows = random_rows(8, circuit, 2, 0.6)
    rows[1] = np.nan
    for row in rows:
        drawn = sample_missing(circuit, np.tile(row, (20_000, 1)), random_state=0)
        seen = ~np.isnan(row)
        assert_array_equal(drawn[:, seen], np.tile(row[seen], (20_000, 1)))
        of_density, of_draws = [], []
        for var in np.flatnonzero(~seen):
            if not is_number(circuit, var):
                of_density += [naive.share_at(circuit, row, var, s) for s in (0.0, 1.0)]
                of_draws += [(drawn[:, var] == s).mean() for s in (0.0, 1.0)]
                continue
            for x in quantiles(circuit, row[np.newaxis], [0.2, 0.5, 0.8])[:, 0, var]:
                of_density.append(naive.share_below(circuit, row, var, x))
                of_draws.append((drawn[:, var] <= x).mean())
        # Four standard errors of a share.
        assert_allclose(of_draws, of_density, atol=4 * 0.5 / np.sqrt(20_000))


def test_draws_have_the_covariance_of_the_block():
    """Joint draws, given a cell and an atom."""
    columns = [Law(Score(), np.empty(0))] * 3 + [Law(Score(), np.zeros(1))]
    circuit = one_block(3, columns)
    row = np.array([np.nan, 0.7, np.nan, 0.0])
    drawn = sample_missing(circuit, np.tile(row, (40_000, 1)), random_state=1)[:, [0, 2]]
    (world,) = naive.given_worlds(circuit, row)
    ((scope, mean, covariance),) = world.normals
    assert scope == [0, 2]
    assert_allclose(drawn.mean(axis=0), mean, atol=0.03)
    assert_allclose(np.cov(drawn.T), covariance, atol=0.1)


def test_draws_stay_between_bounds_and_off_the_cells_of_atoms():
    score = Score(-2.5, 3.5, low=-3.0, high=3.0, soft=0.2)
    column = Law(score, np.array([0.0]), 1.0, 0.499, gap=1.0)
    circuit = one_block(0, [column, column])
    for drawn in sample(circuit, 3000, random_state=0).T:
        assert drawn.min() > -2.5
        # The cell of the atom is cut out, and the bound moves with the places.
        assert drawn.max() < 4.5
        assert np.abs(drawn[drawn != 0.0]).min() >= 0.5


@every_circuit
def test_the_most_probable_completion_is_that_of_the_best_tree(circuit):
    rows = random_rows(9, circuit, 12, 0.6)
    found = mpe(circuit, rows)
    seen = ~np.isnan(rows)
    assert_array_equal(found[seen], rows[seen])
    for row, filled in zip(rows, found):
        best = naive.greatest(circuit, row)
        assert naive.greatest(circuit, row, filled) == pytest.approx(best, rel=1e-8)


def test_the_mode_of_a_block_is_above_its_neighbours():
    columns = [Law(Score(), np.empty(0))] * 3
    circuit = one_block(5, columns)
    row = np.array([[np.nan, 0.4, np.nan]])
    mode = mpe(circuit, row)
    steps = np.array([[a, 0.0, b] for a in (-0.1, 0.0, 0.1) for b in (-0.1, 0.0, 0.1)])
    assert np.all(log_likelihood(circuit, mode + steps) <= log_likelihood(circuit, mode)[0])


@every_circuit
def test_flows_are_posterior_shares_of_the_edges(circuit):
    rows, weight = random_rows(10, circuit, 6, 0.4), np.arange(1.0, 7.0)
    truth = sum(w * edge_shares(circuit, row) for w, row in zip(weight, rows))
    assert_allclose(flows(circuit, rows, weight), truth, atol=1e-10)


def edge_shares(circuit, row) -> np.ndarray:
    """Posterior share of each edge, from the definition, top down."""
    value = [
        sum(
            w.prob
            for tree in naive.trees(circuit, node)
            for w in naive.worlds_of_tree(circuit, tree, row)
        )
        for node in range(circuit.n_nodes)
    ]
    of_node, share = np.zeros(circuit.n_nodes), np.zeros(circuit.n_edges)
    of_node[-1] = 1.0
    for edge in range(circuit.n_edges - 1, -1, -1):
        node, child = circuit.edge_parent[edge], circuit.child[edge]
        share[edge] = of_node[node]
        if circuit.kind[node] == SUM:
            share[edge] *= np.exp(circuit.log_weight[edge]) * value[child] / value[node]
        of_node[child] += share[edge]
    return share


@every_circuit
@pytest.mark.parametrize("pseudo_count", [0.0, 0.1, 2.0])
def test_the_penalised_objective_never_falls(circuit, pseudo_count):
    rows = random_rows(11, circuit, 60, 0.3)
    weight = np.random.default_rng(0).uniform(0.0, 2.0, 60)
    assert np.diff(objectives_of(circuit, rows, weight, pseudo_count)).min() > -1e-8


@pytest.mark.parametrize("seed", range(4))
def test_a_step_takes_expected_shares_of_states_and_moments_of_scores(seed):
    """Against sums over all worlds of all rows, for a mixture of blocks."""
    builder = CircuitBuilder([c.n_states for c in SCORED_COLUMNS], SCORED_COLUMNS)
    rng = np.random.default_rng(seed)
    blocks = [random_block(builder, rng, range(4)) for _ in range(2)]
    builder.sum(blocks, np.log([0.4, 0.6]))
    circuit = builder.build()
    rows, weight = random_rows(seed, circuit, 12, 0.4), rng.uniform(0.5, 2.0, 12)
    fitted = fit_parameters(circuit, rows, weight, pseudo_count=0.0, max_iter=1, tol=0.0)
    for leaf in blocks:
        count, states, scores = 0.0, [np.zeros(c.n_states) for c in SCORED_COLUMNS], []
        for row, w in zip(rows, weight):
            density = naive.density(circuit, row)
            for world in naive.worlds_of_leaf(circuit, leaf, row):
                share = w * np.exp(circuit.log_weight[leaf]) * world.prob / density
                count += share
                scores.append((share, *filled_scores(circuit, leaf, row)))
                for var in range(4):
                    x = world.known.get(var, np.nan)
                    states[var][scored_column(circuit, var).state(x)] += share
        parts = naive.parts_of(fitted, leaf)
        for prob, expected in zip(parts.probs, states):
            assert_allclose(prob, expected / count, atol=1e-9)
        mean = sum(s * m for s, m, _ in scores) / count
        square = sum(s * (v + np.outer(m - mean, m - mean)) for s, m, v in scores) / count
        assert_allclose(parts.mean, mean, atol=1e-9)
        assert_allclose(parts.covariance, square, atol=1e-9)


def filled_scores(circuit, leaf: int, row):
    """Mean and covariance of all scores of a block given those observed; atoms have none."""
    parts = naive.parts_of(circuit, leaf)
    columns = [scored_column(circuit, var) for var in parts.scope]
    score = [
        column.of(x) if column.state(x) == len(column.atoms) else np.nan
        for column, x in zip(columns, row)
    ]
    return conditional(np.where(np.isnan(row), np.nan, score), parts.mean, parts.covariance)


def test_pseudo_counts_are_rows_of_independent_cells_like_the_columns():
    columns = [Law(Score(), np.empty(0))] * 2
    circuit = one_block(0, columns)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 2)) @ [[1.0, 0.9], [0.0, 0.5]]
    fitted = fit_parameters(circuit, rows, pseudo_count=10.0)
    mean = rows.mean(axis=0)
    covariance = np.cov(rows.T, bias=True)
    expected = (30 * covariance + 10 * np.diag(np.diag(covariance))) / 40
    assert_allclose(fitted.param[2:4], mean, atol=1e-6)
    assert_allclose(fitted.param[4:].reshape(2, 2), expected, atol=1e-6)


@every_circuit
def test_pseudo_counts_from_a_circuit_are_divided_as_it_divides(circuit):
    counts = pseudo_counts_from(circuit, 12.0)
    nothing = np.full(circuit.n_features, np.nan)
    assert_allclose(counts.edge, 12.0 * edge_shares(circuit, nothing), atol=1e-9)
    evenly = uniform_pseudo_counts(circuit, 12.0)
    for leaf in np.flatnonzero(circuit.kind == 0).tolist():
        if circuit.leaf_family[leaf] == CATEGORICAL:
            continue
        above = np.flatnonzero(circuit.child == leaf)
        flow = counts.edge[above].sum() if len(above) else 12.0
        at = int(circuit.param_ptr[leaf])
        parts = naive.parts_of(circuit, leaf)
        for var, prob in zip(parts.scope, parts.probs):
            n_states = circuit.n_states[var]
            assert_allclose(counts.param[at : at + n_states], flow * prob, atol=1e-9)
            some = evenly.param[at : at + n_states]
            assert_allclose(some, some[0])
            at += n_states


@every_circuit
def test_circuits_survive_files_and_pickles(circuit, tmp_path):
    row = np.full(circuit.n_features, np.nan)
    row[0] = 0.25
    rows = random_rows(12, circuit, 20, 0.3)
    for one in (circuit, condition(circuit, row)):
        save_circuit(one, tmp_path / "circuit.npz")
        copies = [load_circuit(tmp_path / "circuit.npz"), pickle.loads(pickle.dumps(one))]
        for again in (*copies, copy.deepcopy(one)):
            assert_array_equal(again.observed, one.observed)
            assert_array_equal(log_likelihood(again, rows), log_likelihood(one, rows))


def test_answers_do_not_depend_on_threads():
    circuit = random_block_circuit(2)
    rows = random_rows(13, circuit, 20_000, 0.3)

    def answers():
        fitted = fit_parameters(circuit, rows, max_iter=2)
        drawn = sample_missing(circuit, rows, 3)
        scores = log_likelihood(circuit, rows), score_cells(circuit, rows)
        return [*scores, drawn, *moments(circuit, rows), fitted.param]

    alone = answers()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        together = answers()
    for one, other in zip(alone, together):
        assert_array_equal(one, other)


def test_rows_of_a_large_table_are_answered_as_alone():
    circuit = random_block_circuit(4)
    rows = random_rows(14, circuit, 10_000, 0.4)
    some = [0, 1, 4321, 8192, 9999]
    for query in (log_likelihood, score_cells, mpe, lambda c, x: moments(c, x)[1]):
        assert_allclose(query(circuit, rows)[some], query(circuit, rows[some]), rtol=1e-12)


def test_no_variables_have_no_posteriors():
    circuit = random_block_circuit(1)
    assert posteriors(circuit, random_rows(0, circuit, 5, 0.4), []) == []


def test_no_flavour_of_rows_compiles_a_kernel_twice():
    circuit = random_block_circuit(1)
    rows = random_rows(15, circuit, 30, 0.4)
    frozen = rows.copy()
    frozen.flags.writeable = False
    row = np.array([0.3, np.nan, np.nan, np.nan])
    before = [len(kernel.signatures) > 1 for kernel in KERNELS]
    for table in (rows, frozen, np.asfortranarray(rows), rows[::2]):
        for query in (moments, posteriors, mpe, score_cells, sample_missing, log_likelihood):
            query(circuit, table)
        log_likelihood(condition(circuit, row), table)
        expected_gram(circuit, table, np.nan_to_num(rows[:3]), RBF(0.5))
    assert [len(kernel.signatures) > 1 for kernel in KERNELS] == before


def test_stein_kernels_are_for_categories():
    with pytest.raises(
        ValueError, match="step through states.* over categories, but variable 0 is numeric"
    ):
        stein_gram(np.zeros((2, 4)), random_block_circuit(0))
