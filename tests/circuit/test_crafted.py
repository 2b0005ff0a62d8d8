"""Files made to do harm: each thing that kernels and answers rely on, and many at random."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skpc.circuit import load_circuit, save_circuit
from skpc.queries.passes.rows import read_cells
from skpc.variables import BLOCK, GAUSSIAN, HISTOGRAM, POISSON, SCORED
from skpc.variables.cells import unreadable
from tests.zoo import (
    SCORED_COLUMNS,
    one_block,
    random_block_circuit,
    random_circuit,
    random_deterministic_circuit,
)

ROOT = Path(__file__).parents[2]


def crafted(path, circuit, **changes):
    """Save a circuit, some arrays of which are changed by functions of them."""
    save_circuit(circuit, path)
    with np.load(path) as file:
        arrays = dict(file)
    arrays |= {name: change(arrays[name].copy()) for name, change in changes.items()}
    np.savez(path, **arrays)
    return path


def put(at, value):
    """A change of one entry."""

    def change(array):
        array[at] = value
        return array

    return change


def refused(path, message, circuit, **changes):
    crafted(path, circuit, **changes)
    with pytest.raises(ValueError, match=f"c.npz .*{message}"):
        load_circuit(path)


def test_offsets_that_do_not_rise_are_refused_and_crash_nothing(tmp_path):
    circuit = random_circuit(3, 2, "histogram")
    message = "axis_ptr must be 3 increasing offsets"
    refused(tmp_path / "c.npz", message, circuit, axis_ptr=put(1, 2000))
    for name in ("child_ptr", "scope_ptr", "param_ptr"):
        for value in (2000, -1, 2**62, -(2**63)):
            message = f"{name} must be .* increasing offsets"
            refused(tmp_path / "c.npz", message, circuit, **{name: put(1, value)})


@pytest.mark.parametrize("number", [1.9, 2.0, True, "4", [4, 4]])
def test_a_format_is_a_whole_number(tmp_path, number):
    circuit = random_circuit(3, 2)
    message = "is not a circuit saved by skpc"
    refused(tmp_path / "c.npz", message, circuit, format=lambda _: np.array(number))


@pytest.mark.parametrize("name", ["kind", "child", "leaf_family", "n_states", "decision_var"])
def test_numbers_that_are_no_integers_are_refused(tmp_path, name):
    circuit = random_circuit(3, 2, "discrete")
    path = tmp_path / "c.npz"
    refused(path, f"{name} must be a list of int", circuit, **{name: lambda a: a + 0.5})
    refused(path, f"{name} must be a list of int", circuit, **{name: lambda a: a[:, np.newaxis]})
    # An int8 would take 256 for 0.
    refused(path, "kind must be a list of int8", circuit, kind=lambda a: a.astype(int) + 256)


def test_weights_that_do_not_sum_to_one_are_refused(tmp_path):
    circuit = random_circuit(3, 3)
    path, root, product = tmp_path / "c.npz", circuit.n_nodes - 1, int(np.argmax(circuit.kind == 2))
    for value in (np.log(40.0), np.nan, np.inf):
        message = f"weights of sum {root} must add up to 1"
        refused(path, message, circuit, log_weight=put(-1, value))
    edge = circuit.child_ptr[product]
    message = f"the edges of product {product} must have log weight 0, got 0.5"
    refused(path, message, circuit, log_weight=put(edge, 0.5))


def test_probabilities_that_do_not_sum_to_one_are_refused(tmp_path):
    for circuit in (random_circuit(3, 3, "discrete"), one_block(0, SCORED_COLUMNS)):
        message = "the probabilities of node 0 must sum to 1"
        for value in (np.nan, np.inf, 1000.0, 1.0):
            refused(tmp_path / "c.npz", message, circuit, param=put(0, value))


@pytest.mark.parametrize(
    ("kinds", "family", "message"),
    [
        ("gaussian", GAUSSIAN, "a gaussian leaf needs a finite mean and a positive sd"),
        ("scored", SCORED, "a scored leaf needs a finite mean and a positive sd"),
        ("counts", POISSON, "a poisson leaf needs a rate in"),
    ],
)
def test_parameters_of_formulas_out_of_range_are_refused(tmp_path, kinds, family, message):
    circuit = random_circuit(3, 4, kinds)
    leaf = int(np.argmax(circuit.leaf_family == family))
    last = int(circuit.param_ptr[leaf + 1]) - 1
    for value in (np.nan, np.inf, 0.0, -1.0):
        found = f"node {leaf}, {message}"
        refused(tmp_path / "c.npz", found, circuit, param=put(last, value))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (-1, -1.0, "positive definite"),
        (-2, 7.0, "must be symmetric"),
        (-1, np.inf, "needs finite means and covariances"),
        (-17, np.nan, "needs finite means and covariances"),
    ],
)
def test_covariances_of_blocks_must_be_positive_definite(tmp_path, at, value, message):
    refused(tmp_path / "c.npz", message, one_block(0, SCORED_COLUMNS), param=put(at, value))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, -1.0, "tails of variable 0 need positive scales"),
        (1, np.inf, "tails of variable 0 need positive scales"),
        (2, np.nan, "tails of variable 0 need ends beyond their edges"),
        (2, np.inf, "tails of variable 0 need ends beyond their edges"),
        (3, -np.inf, "tails of variable 0 need ends beyond their edges"),
        (4, -1.0, "tails of variable 0 need ends beyond their edges and a step of 0 or more"),
        (5, np.nan, "needs at least one finite edge"),
        (6, -2.0, "edges of variable 0 must increase"),
        (11, 9.0, "does not fit its 4 states"),
        (11, 0.5, "does not fit its 4 states"),
        (18, 0.7, "shares of the states of variable 0 must sum to 1"),
        (18, np.nan, "shares of the states of variable 0 must sum to 1"),
        (25, 0.0, "densities of variable 0 are not those of its cells"),
        (34, 9.0, "atoms of variable 0 must lie in their cells"),
    ],
)
def test_damaged_histogram_axes_are_refused(tmp_path, at, value, message):
    refused(tmp_path / "c.npz", message, random_circuit(3, 1, "atoms"), axis=put(at, value))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (1, -0.5, "needs a step, a reach, a smallest sd and a gap of 0 or more"),
        (2, np.nan, "needs a step, a reach, a smallest sd and a gap of 0 or more"),
        (4, np.inf, "needs a step, a reach, a smallest sd and a gap of 0 or more"),
        (5, np.nan, "is not an increasing bijection"),
        (5, np.inf, "is not an increasing bijection"),
        (8, 0.0, "is not an increasing bijection"),
        (9, np.inf, "is not an increasing bijection"),
        (10, 100.0, "is not an increasing bijection"),
        (12, -1.0, "is not an increasing bijection"),
        (13, 5.0, "atoms of variable 1 must be finite and increase"),
        (15, np.inf, "atoms of variable 1 must be finite and increase"),
    ],
)
def test_damaged_scores_are_refused(tmp_path, at, value, message):
    circuit = one_block(0, SCORED_COLUMNS)
    at += int(circuit.axis_ptr[1])
    refused(tmp_path / "c.npz", message, circuit, axis=put(at, value))


def test_what_is_observed_must_be_a_cell_that_leaves_can_read(tmp_path):
    path = tmp_path / "c.npz"
    for value in (-1.0, 0.5, 7.0, np.inf):
        message = "variable 1 has been conditioned on must be one of the states"
        refused(path, message, random_circuit(3, 3, "discrete"), observed=put(1, value))
    counts = random_circuit(3, 4, "counts")
    var = int(counts.leaf_var[counts.leaf_family == POISSON][0])
    refused(path, "a whole number, 0 or more,", counts, observed=put(var, 0.5))
    refused(path, "a finite number", random_circuit(3, 3, "scored"), observed=put(2, np.inf))


@pytest.mark.parametrize("kinds", ["binary", "discrete", "mixed", "counts", "scored"])
def test_files_and_rows_hold_the_same_cells(kinds):
    columns = random_circuit(0, n_features=4, kinds=kinds).columns
    values = [np.nan, np.inf, -np.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 7.0, 1e300]
    for var in range(4):
        for value in values:
            row = np.full((1, 4), np.nan)
            row[0, var] = value
            if unreadable(columns, row[0]).size:
                with pytest.raises(ValueError, match=rf"X\[0, {var}\]"):
                    read_cells(columns, row)
            else:
                read_cells(columns, row)


def test_kinds_and_families_must_be_known_and_fit_their_variables(tmp_path):
    circuit, path = random_circuit(3, 3, "discrete"), tmp_path / "c.npz"
    refused(path, "kind must hold numbers from 0 to 2", circuit, kind=put(-1, 3))
    refused(path, "leaf_family of leaves must hold", circuit, leaf_family=put(0, 6))
    refused(path, "leaf_family of sums and products", circuit, leaf_family=put(-1, 0))
    for family, needed in ((GAUSSIAN, "no states"), (HISTOGRAM, "a histogram axis")):
        message = f"needs a variable with {needed}, but variable . has states and no axis"
        refused(path, message, circuit, leaf_family=put(0, family))
    with_blocks = random_block_circuit(0)
    leaf = int(np.argmax(with_blocks.leaf_family == BLOCK))
    refused(path, "its family takes one; only blocks", with_blocks, leaf_family=put(leaf, 0))
    refused(path, "variable 0 may have 32767 states at most", circuit, n_states=put(0, 40_000))


def test_decisions_must_be_true(tmp_path):
    circuit, path = random_deterministic_circuit(2), tmp_path / "c.npz"
    assert circuit.deterministic
    node = int(np.flatnonzero(circuit.decision_var >= 0)[0])
    var, edge = int(circuit.decision_var[node]), int(circuit.child_ptr[node])
    other = (var + 1) % circuit.n_features
    refused(path, "must contain an indicator", circuit, decision_var=put(node, other))
    refused(path, "decision_var must hold numbers", circuit, decision_var=put(node, 99))
    refused(path, "kind of deciding nodes", circuit, decision_var=put(0, var))
    refused(path, "decision_state must be -1", circuit, decision_var=put(node, -1))
    for state in (-1, 99):
        refused(path, "must contain an indicator", circuit, decision_state=put(edge, state))
    refused(path, "needs distinct states", circuit, decision_state=put(edge, 1))
    mixture = random_circuit(0, 3, "binary")
    states = np.where(mixture.edge_parent == mixture.n_nodes - 1, np.arange(mixture.n_edges), -1)
    states[states >= 0] -= states[states >= 0].min()
    changes = {"decision_var": put(-1, 0), "decision_state": lambda _: states}
    refused(path, "must contain an indicator", mixture, **changes)


def test_a_circuit_that_could_not_be_loaded_is_not_saved(tmp_path):
    circuit = random_circuit(0)
    wrong = circuit.with_parameters(log_weight=circuit.log_weight - 1.0 * (circuit.log_weight < 0))
    with pytest.raises(ValueError, match="must add up to 1"):
        save_circuit(wrong, tmp_path / "c.npz")
    assert list(tmp_path.iterdir()) == []


def test_some_hundred_crafted_files_are_refused_or_answer_as_the_truth_does(tmp_path):
    command = [sys.executable, "-m", "tests.attack.crafted", "few", "0", "400", str(tmp_path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, (tmp_path / "trying").read_text() + found.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["wrong"] == []
    assert sum(found["counts"].values()) == 400
    assert found["counts"]["refused"] > 200
    assert found["counts"]["same"] > 20
