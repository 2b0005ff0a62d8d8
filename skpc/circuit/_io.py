"""Circuits on disk: npz files of plain arrays, no pickle."""

from __future__ import annotations

from os import PathLike

import numpy as np

from skpc.circuit._circuit import Circuit
from skpc.circuit._structure import _DTYPES, Structure
from skpc.circuit.builder import check_structure

__all__ = ["load_circuit", "save_circuit"]

_FORMAT = 1
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
        np.savez_compressed(file, format=np.int64(_FORMAT), allow_pickle=False, **arrays)


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
    names = (*_DTYPES, *_PARAMETERS)
    with open(path, "rb") as stream:
        try:
            with np.load(stream, allow_pickle=False) as file:
                version = int(file["format"])
                arrays = {name: file[name] for name in names} if version == _FORMAT else {}
        # A damaged archive can fail in any way that zip, zlib or the header's parser knows.
        except Exception as error:
            raise ValueError(f"{path} is not a circuit saved by skpc, or it is damaged") from error
    if version != _FORMAT:
        raise ValueError(f"{path} has circuit format {version}; this skpc reads {_FORMAT}")
    try:
        return _assembled(arrays)
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} holds arrays that are no circuit: {error}") from error


def _assembled(arrays: dict[str, np.ndarray]) -> Circuit:
    structure = Structure(**{name: arrays[name] for name in _DTYPES})
    _check_arrays(structure)
    check_structure(structure)
    return Circuit(structure, *(arrays[name] for name in _PARAMETERS))


def _check_arrays(structure: Structure) -> None:
    """Refuse arrays that would make a kernel read out of bounds."""
    n_nodes, n_edges = structure.n_nodes, structure.n_edges
    for name in ("leaf_var", "leaf_family", "decision_var"):
        if len(getattr(structure, name)) != n_nodes:
            raise ValueError(f"{name} needs {n_nodes} entries, got {len(getattr(structure, name))}")
    for name, count in (("child_ptr", n_nodes), ("param_ptr", n_nodes)):
        ptr = getattr(structure, name)
        if len(ptr) != count + 1 or ptr[0] != 0 or np.any(np.diff(ptr) < 0):
            raise ValueError(f"{name} must be {count + 1} increasing offsets from 0")
    ptr = structure.axis_ptr
    if len(ptr) != structure.n_features + 1 or ptr[0] != 0 or ptr[-1] != len(structure.axis):
        raise ValueError("axis_ptr does not fit axis")
    if n_nodes == 0 or structure.child_ptr[-1] != n_edges:
        raise ValueError(f"child_ptr must end at {n_edges}, the number of edges")
    if len(structure.decision_state) != n_edges:
        raise ValueError(f"decision_state needs {n_edges} entries")
    if np.any(structure.child < 0) or np.any(structure.child >= structure.edge_parent):
        raise ValueError("children must stand before their parents")
    leaf = structure.kind == 0
    has_children = np.diff(structure.child_ptr) > 0
    if np.any(leaf != (structure.leaf_var >= 0)) or np.any(leaf == has_children):
        raise ValueError("leaves, and only leaves, need a variable and have no children")
    if np.any(structure.leaf_var >= structure.n_features):
        raise ValueError(f"leaf_var must be below {structure.n_features}")
    n_states = structure.n_states[structure.leaf_var[leaf]]
    sizes = np.where(structure.leaf_family[leaf] == 1, 2, n_states)
    if np.any(np.diff(structure.param_ptr)[leaf] != sizes):
        raise ValueError("param_ptr does not fit the numbers of states")
