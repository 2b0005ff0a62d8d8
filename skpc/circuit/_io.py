"""Circuits on disk: npz files of plain arrays, no pickle."""

from __future__ import annotations

from os import PathLike

import numpy as np

from skpc._arrays import offsets
from skpc.circuit._checks import check_structure
from skpc.circuit._circuit import Circuit
from skpc.circuit._properties import LEAF
from skpc.circuit._structure import _DTYPES, Structure
from skpc.variables import BLOCK, SCORED, Axis, AxisTable, ScoredColumn
from skpc.variables.families import n_params
from skpc.variables.scored_column import ATOMS

#: Format 1 had one variable a leaf, in an array leaf_var, in place of scope_ptr and scope. Up to
#: format 2 an axis was its edges between the scales of its tails, up to format 3 each leaf had what
#: its variable has been conditioned on.
_FORMATS = (1, 2, 3, 4)
_PARAMETERS = ("log_weight", "param", "observed")


def save_circuit(circuit: Circuit, path: str | PathLike[str]) -> None:
    """Save a circuit to an npz file of plain arrays.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    path : str or path
        The file to write; ``.npz`` is the customary ending and is not added.

    See Also
    --------
    load_circuit : Reads it back, bit for bit.

    Examples
    --------
    >>> import os, tempfile
    >>> from skpc.circuit import CircuitBuilder, load_circuit, save_circuit
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.indicator(0, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "circuit.npz")
    ...     save_circuit(builder.build(), path)
    ...     load_circuit(path)
    Circuit(n_features=1, n_nodes=1, n_edges=0)
    """
    arrays = {**circuit.structure.arrays()}
    arrays.update({name: getattr(circuit, name) for name in _PARAMETERS})
    with open(path, "wb") as file:
        np.savez_compressed(file, format=np.int64(_FORMATS[-1]), allow_pickle=False, **arrays)


def load_circuit(path: str | PathLike[str]) -> Circuit:
    """Load a circuit that was saved by :func:`save_circuit`.

    Nothing in the file is executed, and the structure is checked anew.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Circuit
        The circuit, equal bit for bit to the one saved.

    Raises
    ------
    ValueError
        If the file is not a saved circuit, is damaged, or was written in another format.

    Examples
    --------
    >>> import os, tempfile
    >>> from skpc.circuit import CircuitBuilder, load_circuit, save_circuit
    >>> builder = CircuitBuilder(n_states=[0])
    >>> _ = builder.gaussian(0, mean=1.5, sd=2.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "circuit.npz")
    ...     save_circuit(builder.build(), path)
    ...     load_circuit(path).param
    array([1.5, 2. ])
    """
    with open(path, "rb") as stream:
        try:
            with np.load(stream, allow_pickle=False) as file:
                version = int(file["format"])
                arrays = {name: file[name] for name in _names(version)}
        # A damaged archive can fail in any way that zip, zlib or the header's parser knows.
        except Exception as error:
            raise ValueError(f"{path} is not a circuit saved by skpc, or it is damaged") from error
    if version not in _FORMATS:
        raise ValueError(
            f"{path} has circuit format {version}; this skpc reads 1 to {_FORMATS[-1]}"
        )
    try:
        return _assembled(arrays, version)
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} holds arrays that are no circuit: {error}") from error


def _names(version: int) -> list[str]:
    """The arrays in a file of some format; none for a format that is not known."""
    if version not in _FORMATS:
        return []
    older = {"scope_ptr": ["leaf_var"], "scope": []} if version == 1 else {}
    return [found for name in (*_DTYPES, *_PARAMETERS) for found in older.get(name, [name])]


def _assembled(arrays: dict[str, np.ndarray], version: int) -> Circuit:
    ptr, axis = arrays["axis_ptr"], arrays["axis"]
    if len(ptr) == 0 or ptr[0] != 0 or ptr[-1] != len(axis) or np.any(np.diff(ptr) < 0):
        raise ValueError("axis_ptr does not fit axis")
    if version < 3:
        parts = np.split(arrays["axis"], arrays["axis_ptr"][1:-1])
        axes = [Axis(part[1:-1], part[0], part[-1]) if len(part) else None for part in parts]
        arrays["axis_ptr"], arrays["axis"] = AxisTable.of(axes)
    if "leaf_var" in arrays:
        var = arrays.pop("leaf_var")
        arrays["scope_ptr"], arrays["scope"] = offsets(var >= 0), var[var >= 0]
    structure = Structure(**{name: arrays[name] for name in _DTYPES})
    _check_arrays(structure)
    check_structure(structure)
    if version < 4:
        of_leaves, observed = arrays["observed"], np.full(structure.n_features, np.nan)
        known = np.flatnonzero(~np.isnan(of_leaves))
        observed[structure.leaf_var[known]] = of_leaves[known]
        arrays["observed"] = observed
    return Circuit(structure, *(arrays[name] for name in _PARAMETERS))


def _check_arrays(structure: Structure) -> None:
    """Refuse arrays that would make a kernel read out of bounds."""
    n_nodes, n_edges = structure.n_nodes, structure.n_edges
    for name in ("leaf_family", "decision_var"):
        if len(getattr(structure, name)) != n_nodes:
            raise ValueError(f"{name} needs {n_nodes} entries, got {len(getattr(structure, name))}")
    for name, count in (("child_ptr", n_nodes), ("param_ptr", n_nodes), ("scope_ptr", n_nodes)):
        ptr = getattr(structure, name)
        if len(ptr) != count + 1 or ptr[0] != 0 or np.any(np.diff(ptr) < 0):
            raise ValueError(f"{name} must be {count + 1} increasing offsets from 0")
    if len(structure.axis_ptr) != structure.n_features + 1:
        raise ValueError("axis_ptr does not fit n_states")
    if n_nodes == 0 or structure.child_ptr[-1] != n_edges:
        raise ValueError(f"child_ptr must end at {n_edges}, the number of edges")
    if len(structure.decision_state) != n_edges:
        raise ValueError(f"decision_state needs {n_edges} entries")
    if np.any(structure.child < 0) or np.any(structure.child >= structure.edge_parent):
        raise ValueError("children must stand before their parents")
    leaf, scope = structure.kind == LEAF, structure.scope
    has_children = np.diff(structure.child_ptr) > 0
    if np.any(leaf != (np.diff(structure.scope_ptr) > 0)) or np.any(leaf == has_children):
        raise ValueError("leaves, and only leaves, need variables and have no children")
    if structure.scope_ptr[-1] != len(scope):
        raise ValueError(f"scope_ptr must end at {len(scope)}, the length of scope")
    if np.any(scope < 0) or np.any(scope >= structure.n_features):
        raise ValueError(f"scope must hold variables in [0, {structure.n_features})")
    _check_scopes(structure)
    ptr = np.append(structure.scope_ptr[:-1][leaf], len(scope))
    sizes = n_params(structure.leaf_family[leaf], ptr, scope, structure.n_states)
    if np.any(np.diff(structure.param_ptr)[leaf] != sizes):
        raise ValueError("param_ptr does not fit the families and numbers of states of the leaves")
    _check_axes(structure)


def _check_scopes(structure: Structure) -> None:
    """Refuse leaves whose variables are in disorder, or too many for their family."""
    size, scope = np.diff(structure.scope_ptr), structure.scope
    owner = np.repeat(np.arange(structure.n_nodes), size)
    wrong = np.flatnonzero((np.diff(owner) == 0) & (np.diff(scope) <= 0))
    if len(wrong):
        node = int(owner[wrong[0]])
        found = scope[structure.scope_ptr[node] : structure.scope_ptr[node + 1]].tolist()
        raise ValueError(f"the variables of node {node} must increase, got {found}")
    wrong = np.flatnonzero((size > 1) & (structure.leaf_family != BLOCK))
    if len(wrong):
        node = int(wrong[0])
        raise ValueError(
            f"node {node} has {size[node]} variables, but its family takes one; only blocks have "
            "several"
        )


def _check_axes(structure: Structure) -> None:
    """Refuse axes that hold other states than their variables, or other leaves than these have."""
    owner = np.repeat(np.arange(structure.n_nodes), np.diff(structure.scope_ptr))
    has_score = np.isin(structure.leaf_family[owner], [SCORED, BLOCK])
    scored = np.unique(structure.scope[has_score])
    for var, n_states in enumerate(structure.n_states.tolist()):
        part = structure.axis[structure.axis_ptr[var] : structure.axis_ptr[var + 1]]
        if var in scored:
            fits = len(part) > ATOMS - 1 and part[0] == 0.0
            fits = fits and ScoredColumn.of(part).n_states == n_states
        else:
            fits = len(part) == 0 or _is_axis(part, n_states)
        if not fits:
            raise ValueError(f"the axis of variable {var} does not fit its {n_states} states")


def _is_axis(part: np.ndarray, n_states: int) -> bool:
    """Whether a stretch holds an axis whose cells are of these states."""
    if len(part) < 13 or (len(part) - 8) % 5 or not part[0] > 0.0:
        return False
    state = part[4 + (len(part) - 8) // 5 :].reshape(4, -1)[0]
    whole = (state >= 0) & (state == np.floor(state))
    return bool(whole.all() and state.max() + 1 == n_states)
