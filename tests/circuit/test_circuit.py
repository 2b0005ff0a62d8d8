"""The circuit as a value: immutable, picklable, saved and loaded bit for bit."""

import copy
import io
import pickle
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skpc import TableMixture
from skpc.circuit import CircuitBuilder, load_circuit, save_circuit
from skpc.queries import condition, log_likelihood
from skpc.variables import BLOCK, SCORED
from tests.zoo import AXIS, SCORED_COLUMNS, one_block, random_circuit, random_rows


def arrays_of(circuit):
    """What a file of the present format holds."""
    parameters = {name: getattr(circuit, name) for name in ("log_weight", "param", "observed")}
    return {"format": np.int64(5), **circuit.structure.arrays(), **parameters}


@pytest.fixture
def circuit():
    found = random_circuit(3, n_features=4, kinds="mixed")
    return condition(found, random_rows(1, found, 1, 0.7)[0])


def assert_same(a, b):
    for name, array in a.structure.arrays().items():
        assert_array_equal(array, getattr(b, name), strict=True)
    for name in ("log_weight", "param", "observed"):
        assert_array_equal(getattr(a, name), getattr(b, name), strict=True)


def test_pickles_and_copies_are_exact(circuit):
    assert_same(circuit, pickle.loads(pickle.dumps(circuit)))
    assert_same(circuit, copy.deepcopy(circuit))


def test_a_saved_circuit_comes_back_bit_for_bit(circuit, tmp_path):
    save_circuit(circuit, tmp_path / "c.npz")
    again = load_circuit(tmp_path / "c.npz")
    assert_same(circuit, again)
    rows = random_rows(2, circuit, 10)
    assert_array_equal(log_likelihood(circuit, rows), log_likelihood(again, rows))


def test_nothing_of_a_circuit_can_be_set(circuit):
    with pytest.raises(AttributeError, match="'param' cannot be set; use with_parameters"):
        circuit.param = np.zeros(3)
    with pytest.raises(AttributeError, match="structure of a circuit cannot be changed"):
        circuit.structure.child = np.zeros(3)
    for array in (circuit.param, circuit.log_weight, circuit.child, circuit.n_states):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_circuit_does_not_follow_changes_of_the_arrays_it_was_given(circuit):
    param = circuit.param.copy()
    changed = circuit.with_parameters(param=param)
    param[:] = 0.0
    assert_array_equal(changed.param, circuit.param)


def test_other_parameters_share_the_structure(circuit):
    other = circuit.with_parameters(log_weight=circuit.log_weight - 1.0)
    assert other.structure is circuit.structure
    assert_array_equal(other.param, circuit.param)
    with pytest.raises(ValueError, match=r"param must have shape \(\d+,\) .* got \(1,\)"):
        circuit.with_parameters(param=[0.0])


def test_an_unknown_attribute_is_refused_by_name(circuit):
    with pytest.raises(AttributeError, match="has no attribute 'weights'"):
        _ = circuit.weights


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_damaged_file_is_refused_or_harmless(position, byte):
    circuit = random_circuit(3, n_features=3, kinds="discrete")
    stream = io.BytesIO()
    np.savez(stream, **arrays_of(circuit))
    damaged = bytearray(stream.getvalue())
    damaged[position % len(damaged)] = byte
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.npz"
        path.write_bytes(damaged)
        try:
            again = load_circuit(path)
        except ValueError:
            return
    assert log_likelihood(again, np.zeros((2, again.n_features))).shape == (2,)


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_older_formats_still_load(tmp_path, version):
    """Format 1 had one variable a leaf; till format 2 an axis was its edges between its scales."""
    circuit = random_circuit(4, n_features=4, kinds="histogram")
    arrays = arrays_of(circuit) | {"format": np.int64(version)}
    if version == 1:
        arrays["leaf_var"] = circuit.leaf_var
        del arrays["scope_ptr"], arrays["scope"]
    arrays["observed"] = np.full(circuit.n_nodes, np.nan)
    arrays["axis_ptr"] = 6 * np.arange(5)
    arrays["axis"] = np.tile([AXIS[1], *AXIS[0], AXIS[2]], 4)
    np.savez(tmp_path / "c.npz", **arrays)
    loaded = load_circuit(tmp_path / "c.npz")
    for name, array in circuit.structure.arrays().items():
        assert_array_equal(getattr(loaded, name), array)


def test_axes_and_scores_of_format_4_are_read_as_they_were(tmp_path):
    """Up to format 4 both had a range of draws, and the cells of atoms were not cut out."""
    plain = [column._replace(gap=0.0) for column in SCORED_COLUMNS]
    for circuit in (one_block(0, plain), random_circuit(3, 2, "atoms")):
        parts = []
        for first, last in zip(circuit.axis_ptr[:-1], circuit.axis_ptr[1:]):
            part = circuit.axis[first:last]
            if part[0] == 0.0:
                parts.append(np.concatenate([part[:4], [-9.0, 9.0], part[5:12], part[13:]]))
            else:
                parts.append(np.concatenate([part[:2], [-9.0, 9.0], part[5:]]))
        sizes = [len(part) for part in parts]
        older = {"axis_ptr": np.append(0, np.cumsum(sizes)), "axis": np.concatenate(parts)}
        np.savez(tmp_path / "c.npz", **(arrays_of(circuit) | older | {"format": np.int64(4)}))
        assert_same(load_circuit(tmp_path / "c.npz"), circuit)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_older_files_were_conditioned_on_is_read_from_their_leaves(tmp_path, version):
    """Up to format 3 each node had what its variable has been conditioned on."""
    circuit = random_circuit(2, n_features=4, kinds="discrete")
    given = condition(circuit, random_rows(1, circuit, 1, 0.5)[0])
    assert 0 < np.isnan(given.observed).sum() < 4
    arrays = arrays_of(given) | {"format": np.int64(version)}
    if version == 1:
        arrays["leaf_var"] = given.leaf_var
        del arrays["scope_ptr"], arrays["scope"]
    is_leaf = given.leaf_var >= 0
    arrays["observed"] = np.where(is_leaf, given.observed[given.leaf_var], np.nan)
    np.savez(tmp_path / "c.npz", **arrays)
    assert_same(load_circuit(tmp_path / "c.npz"), given)


def test_blocks_whose_columns_are_in_another_order_are_saved(tmp_path):
    block = one_block(0, SCORED_COLUMNS)
    circuit = block.taken(np.array([2, 0, 3, 1]))
    save_circuit(circuit, tmp_path / "c.npz")
    assert_same(load_circuit(tmp_path / "c.npz"), circuit)
    # Most densities put columns into an order of their own while they learn.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4)) @ rng.normal(size=(4, 4))
    for columns in ([0, 1, 2, 3], [3, 1, 0, 2]):
        model = TableMixture(n_components=2, random_state=0).fit(X[:, columns])
        save_circuit(model.circuit_, tmp_path / "c.npz")
        assert_same(load_circuit(tmp_path / "c.npz"), model.circuit_)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("scope", lambda a: a[[0, 0, *range(2, len(a))]], "variables of node 0 must differ"),
        ("param_ptr", lambda a: a - (a > 0), "param_ptr does not fit the families"),
        ("leaf_family", lambda a: np.where(a == BLOCK, SCORED, a), "node 0 has 4 variables"),
    ],
)
def test_files_with_damaged_blocks_are_refused(tmp_path, name, change, message):
    circuit = one_block(0, SCORED_COLUMNS)
    arrays = arrays_of(circuit)
    arrays[name] = change(arrays[name])
    np.savez(tmp_path / "c.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_circuit(tmp_path / "c.npz")


def test_files_that_are_no_circuit_are_refused(tmp_path):
    path = tmp_path / "c.npz"
    path.write_bytes(b"no npz at all")
    with pytest.raises(ValueError, match="is not a circuit saved by skpc, or it is damaged"):
        load_circuit(path)
    np.savez(path, format=np.int64(1), kind=np.zeros(3))
    with pytest.raises(ValueError, match="is not a circuit saved by skpc"):
        load_circuit(path)
    np.savez(path, format=np.int64(99))
    with pytest.raises(ValueError, match="has circuit format 99; this skpc reads 1 to 5"):
        load_circuit(path)


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "c.npz"
    save_circuit(random_circuit(0), path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="damaged"):
        load_circuit(path)


def test_a_pickle_inside_a_file_is_not_executed(tmp_path):
    path = tmp_path / "c.npz"
    save_circuit(random_circuit(0), path)
    bomb = io.BytesIO()
    np.save(bomb, np.array([print], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path) as source:
        parts = {name: source.read(name) for name in source.namelist()}
    parts["param.npy"] = bomb.getvalue()
    with zipfile.ZipFile(path, "w") as target:
        for name, content in parts.items():
            target.writestr(name, content)
    with pytest.raises(ValueError, match="not a circuit saved by skpc"):
        load_circuit(path)


@pytest.mark.parametrize("kinds", ["atoms", "scored"])
@pytest.mark.parametrize("n_states", [1, 9])
def test_axes_of_other_states_than_their_variables_are_refused(tmp_path, kinds, n_states):
    circuit = random_circuit(3, n_features=1, kinds=kinds)
    arrays = arrays_of(circuit)
    leaves, more = (circuit.kind == 0).sum(), n_states - circuit.n_states[0]
    arrays["n_states"] = np.array([n_states])
    sizes = np.diff(circuit.param_ptr)
    arrays["param_ptr"] = np.append(0, np.cumsum(np.where(sizes > 0, sizes + more, 0)))
    arrays["param"] = np.zeros(len(circuit.param) + leaves * more)
    np.savez(tmp_path / "c.npz", **arrays)
    with pytest.raises(ValueError, match="axis of variable 0 does not fit"):
        load_circuit(tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("child", lambda a: a + 1),
        ("child_ptr", lambda a: a[::-1]),
        ("param_ptr", lambda a: a * 0),
        ("scope", lambda a: a + 50),
        ("scope_ptr", lambda a: a[::-1]),
        ("decision_state", lambda a: a[:-1]),
        ("axis_ptr", lambda a: a + 1),
        ("n_states", lambda a: a + 1),
        ("log_weight", lambda a: a[:-1]),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, name, change):
    circuit = random_circuit(3, n_features=3, kinds="discrete")
    arrays = arrays_of(circuit)
    arrays[name] = change(arrays[name])
    np.savez(tmp_path / "c.npz", **arrays)
    with pytest.raises(ValueError, match="holds arrays that are no circuit"):
        load_circuit(tmp_path / "c.npz")


@pytest.mark.parametrize("far", [1e3, 1e6, 1e12])
def test_weights_sum_to_one_however_far_a_cell_is_that_a_circuit_is_conditioned_on(tmp_path, far):
    builder = CircuitBuilder([0, 2])
    leaves = [(0.0, 1.0, 0.3), (0.1, 1.0, 0.6), (0.2, 1.0000001, 0.6)]
    parts = [
        builder.product([builder.gaussian(0, mean, sd), builder.discrete(1, np.log([p, 1 - p]))])
        for mean, sd, p in leaves
    ]
    builder.sum(parts, np.log([0.2, 0.3, 0.5]))
    given = condition(builder.build(), [far, np.nan])
    total = np.exp(log_likelihood(given, [[np.nan, 0.0], [np.nan, 1.0]])).sum()
    np.testing.assert_allclose(total, 1.0, rtol=1e-14)
    save_circuit(given, tmp_path / "c.npz")
    assert_same(load_circuit(tmp_path / "c.npz"), given)
