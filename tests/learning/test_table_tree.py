"""Trees of hidden variables whose columns are atoms and normals, compared with sums over states."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from skpc import SoftLearnSPN, TableMixture
from skpc.domain import Declared, Domain
from skpc.learning.hidden_tree import Counts
from skpc.learning.hidden_tree_search import TreeChoice
from skpc.learning.table_mixture import TableColumns, TableRows, table_circuit
from skpc.learning.table_search import HeldOutRows, try_tree
from skpc.learning.table_tree import learn_table_tree
from skpc.queries import log_likelihood


def _table(n_rows=600, seed=0):
    """A category, a number on a lattice that is zero in one kind of rows, and a skewed number."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    whole = np.where(kind == 0, 0.0, np.round(30.0 + 5.0 * kind + 4.0 * rng.normal(size=n_rows)))
    skewed = np.exp(0.5 * kind + rng.normal(size=n_rows))
    rows = np.column_stack([kind, whole, skewed]).astype(float)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


@pytest.fixture(scope="module")
def learned():
    rows = _table()
    domain = Domain.fit(rows, Declared(categorical_features=[0]))
    weight = np.ones(len(rows))
    columns = TableColumns.from_rows(
        rows, weight, domain.n_states, domain.laws, [None] * rows.shape[1]
    )
    tree = learn_table_tree(columns, rows, weight, TreeChoice(2, True, (128, 256)), 0)
    return rows, columns, tree


def _of_hidden(columns, tree, v, x, state):
    """Density of a cell given the hidden state of its column, from the states and the normals."""
    prob = tree.tree.emission[v][state]
    if np.isnan(x):
        return 1.0
    if v not in columns.numbers:
        return prob[int(x)]
    place = int(np.flatnonzero(columns.numbers == v)[0])
    scored, (_, mean, sd) = columns.scored[place], tree.bins[place]
    is_atom = scored.atoms == x
    if is_atom.any():
        return float(prob[: len(is_atom)] @ is_atom) / (scored.step or 1.0)
    if scored.step > 0.0:
        place, half = scored.place(np.array([x])), 0.5 * scored.step
        low, high = scored.score.ends(place - half, place + half)
        mass = norm.cdf(high, mean, sd) - norm.cdf(low, mean, sd)
        return float(prob[len(is_atom) :] @ mass) / scored.step
    score, slope = scored.transform(np.array([x])), scored.log_slope(np.array([x]))
    return float(prob[len(is_atom) :] @ norm.pdf(score, mean, sd) * np.exp(slope[0]))


def test_the_density_sums_over_hidden_states(learned):
    rows, columns, tree = learned
    circuit = table_circuit(columns, None, 3, tree, 1.0)
    some = rows[:40]
    hidden, expected = tree.tree, []
    for x in some:
        total = 0.0
        for states in itertools.product(range(hidden.n_hidden), repeat=3):
            term = 1.0
            for v, state in enumerate(states):
                above = int(hidden.parent[v])
                term *= (
                    hidden.root_share[state]
                    if above < 0
                    else hidden.transition[v][states[above], state]
                )
                term *= _of_hidden(columns, tree, v, x[v], state)
            total += term
        expected.append(total)
    rest = columns.background_weight
    cells = columns.cells(some)
    background = np.exp(cells.background + cells.log_base)
    mixed = (1.0 - rest) * np.array(expected) + rest * background
    np.testing.assert_allclose(np.exp(log_likelihood(circuit, some)), mixed, rtol=1e-5)


def test_a_value_of_a_lattice_that_repeats_has_a_bin_of_its_own():
    rng = np.random.default_rng(0)
    whole = np.where(rng.random(800) < 0.05, 500.0, rng.integers(0, 1000, 800))
    rows = np.column_stack([rng.integers(0, 2, 800), whole]).astype(float)
    domain = Domain.fit(rows, Declared(categorical_features=[0], atoms={1: []}))
    columns = TableColumns.from_rows(
        rows, np.ones(800), domain.n_states, domain.laws, [None] * rows.shape[1]
    )
    tree = learn_table_tree(columns, rows, np.ones(800), TreeChoice(2, False, (256,)), 0)
    points = np.unique(whole)
    around = points[np.flatnonzero(points == 500.0)[0] + np.array([-1, 0, 1])]
    score = columns.scored[0].transform(around)
    assert len(set(np.searchsorted(tree.bins[0].edges, score))) == 3


def test_counts_of_rows_like_a_tree_give_the_tree(learned):
    *_, tree = learned
    counts = Counts.from_tree(tree.tree, 1e9)
    again = counts.tree_like(tree.tree)
    np.testing.assert_allclose(counts.root.sum(), 1e9)
    np.testing.assert_allclose(again.root_share, tree.tree.root_share, atol=1e-6)
    for one, other in zip(again.emission, tree.tree.emission):
        np.testing.assert_allclose(one, other, atol=1e-6)


def _brackets(n_rows=1500, seed=0):
    """Brackets and counts, each of which follows from the one before by a rule with exceptions."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice([0.19, 0.27, 0.42, 0.72], n_rows)]
    for _ in range(7):
        places = np.unique(columns[-1], return_inverse=True)[1]
        moved = np.where(rng.random(n_rows) < 0.2, rng.integers(0, 4, n_rows), (places + 1) % 4)
        columns.append(np.array([0.0, 50.0, 100.0, 500.0])[moved])
    return np.column_stack(columns)


def test_tables_that_depend_on_each_other_get_a_tree():
    X, X_test = _brackets(), _brackets(seed=1)
    model, single = TableMixture(random_state=0), TableMixture(n_components=4, random_state=0)
    model.fit(X)
    assert model._mixture.choices.tree_weight > 0.5
    assert model.score(X_test) > single.fit(X).score(X_test) + 1.0


def test_a_soft_network_gets_a_tree_where_tables_depend_on_each_other():
    X, X_test = (
        np.column_stack([table, np.random.default_rng(0).normal(size=len(table))])
        for table in (_brackets(), _brackets(seed=1))
    )
    model, network = SoftLearnSPN(random_state=0), SoftLearnSPN(leaves="univariate", random_state=0)
    assert model.fit(X).score(X_test) > network.fit(X).score(X_test) + 0.1
    assert model.sample(200, random_state=0).shape == (200, 9)


def test_marginals_sum_over_the_states_of_a_missing_cell():
    X = _brackets()
    model = TableMixture(random_state=0).fit(X)
    row = X[:1].copy()
    row[0, 2] = np.nan
    total = -np.inf
    for value in (0.0, 50.0, 100.0, 500.0):
        full = row.copy()
        full[0, 2] = value
        total = np.logaddexp(total, model.score_samples(full)[0])
    # States lie on a lattice of steps of 50, and densities are probabilities over the step. What
    # is left is that of other values.
    total += np.log(50.0) - np.log1p(-model.domain_.laws[2].unseen)
    assert model.score_samples(row)[0] == pytest.approx(total, abs=1e-9)


def test_tables_of_mostly_numbers_have_no_tree():
    rng = np.random.default_rng(0)
    X = np.column_stack([_brackets(600)[:, :6], rng.normal(size=(600, 13))])
    assert TableMixture(random_state=0).fit(X[:, :-1])._mixture.choices.tree_weight > 0.0
    assert TableMixture(random_state=0).fit(X)._mixture.tree is None


def test_numbers_alone_have_no_tree():
    X = np.random.default_rng(0).normal(size=(400, 3))
    model = TableMixture(random_state=0).fit(X)
    assert model._mixture.tree is None
    assert model._mixture.choices.tree_weight == 0.0
    absent = [None] * 3
    rows = TableRows(X, np.ones(400), np.zeros(3, dtype=np.int64), absent, absent)
    assert try_tree(rows, HeldOutRows(X[:300], np.ones(300), X[300:], np.ones(100)), 0) is None


def test_ordered_states_alone_have_a_tree_beside_a_network_and_categories_alone_have_none():
    kind = np.random.default_rng(0).integers(0, 4, 600)
    noise = np.random.default_rng(1).integers(0, 2, (600, 6))
    X = np.array([0.0, 50.0, 100.0, 250.0, 500.0])[kind[:, np.newaxis] + noise]
    for features, has_tree in (([], True), (list(range(6)), False)):
        domain = Domain.fit(X, Declared(categorical_features=features)).without_bins()
        assert domain.is_ordered.all() == has_tree
        rows = domain.encode(X)
        table = TableRows.from_domain(domain, rows[:450], np.ones(450))
        part = HeldOutRows(rows[:450], np.ones(450), rows[450:], np.ones(150))
        assert (try_tree(table, part, 0) is not None) == has_tree


def test_a_tree_learns_more_rows():
    X = _brackets()
    model = TableMixture(random_state=0).fit(X[:750])
    before = model.score(X[750:])
    model.partial_fit(X[750:])
    assert model._mixture.tree is not None
    assert model.score(X[750:]) > before
