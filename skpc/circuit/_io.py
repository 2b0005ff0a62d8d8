"""Circuits on disk: npz files of plain arrays, no pickle."""

from os import PathLike
from typing import Any

import numpy as np

from skpc._arrays import Floats, offsets, segment
from skpc._files import read_arrays, write_arrays
from skpc.circuit._checks import check_parameters, check_pointer, check_structure
from skpc.circuit._circuit import Circuit
from skpc.circuit._structure import DTYPES, LEAF, Structure
from skpc.variables import Histogram, HistogramTable, Law
from skpc.variables.checks import axis_in_file, check_variable

#: What was different: format 1 had one variable a leaf, in an array leaf_var, in place of scope_ptr
#: and scope. Up to format 2 an axis was its edges between the scales of its tails. Up to format 3
#: ``observed`` had an entry for each node. Up to format 4 axes and scores had a range of draws.
_FORMATS = (1, 2, 3, 4, 5)
_PARAMETERS = ("log_weight", "param", "observed")


def save_circuit(circuit: Circuit, path: str | PathLike[str]) -> None:
    """Save a circuit to an npz file of plain arrays.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    path : str or path
        The file to write; ``.npz`` is the usual ending and is not added. The file appears whole or
        not at all, also if it replaces an old one.

    Raises
    ------
    TypeError
        If it is not a circuit, for instance an estimator.
    ValueError
        If the weights or parameters are not a distribution, so that the file would not load.

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
    if not isinstance(circuit, Circuit):
        raise TypeError(
            f"save_circuit needs a Circuit, got {type(circuit).__name__}; of an estimator pass its "
            "circuit_"
        )
    # with_parameters does not check: an error should come now, not when the file is read.
    check_parameters(circuit)
    # Facts that follow from these are computed when the file is read.
    arrays = {name: getattr(circuit, name) for name in (*DTYPES, *_PARAMETERS)}
    write_arrays(path, {"format": np.int64(_FORMATS[-1]), **arrays})


def load_circuit(path: str | PathLike[str]) -> Circuit:
    """Load a circuit that was saved by :func:`save_circuit`.

    Loading executes nothing in the file. It makes all checks of the builder again:
    nodes and edges, the decisions of sums, the axes of variables, and that weights and
    probabilities sum to one (to 1e-6) and all other parameters are in their ranges.

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
    try:
        arrays = read_arrays(path)
    except ValueError as error:
        raise ValueError(
            f"{path} is not a circuit saved by skpc, or it is damaged ({error})"
        ) from error
    # The version decides which arrays there have to be.
    version = _version(arrays, path)
    missing = _dtypes(version).keys() - arrays.keys()
    if missing:
        raise ValueError(
            f"{path} is not a circuit saved by skpc: it lacks {', '.join(sorted(missing))}"
        )
    # Damaged arrays may fail in any of the checks, or on the way to one.
    try:
        return _assembled(_typed(arrays, version), version)
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} holds arrays that are no circuit: {error}") from error


def _version(arrays: dict[str, np.ndarray], path: str | PathLike[str]) -> int:
    """The format of a file; refuse a file without a format, or with an unknown one."""
    version = arrays.get("format")
    if version is None or version.shape != () or version.dtype.kind not in "iu":
        raise ValueError(f"{path} is not a circuit saved by skpc: it has no format number")
    if int(version) not in _FORMATS:
        raise ValueError(
            f"{path} has circuit format {int(version)}; this skpc reads 1 to {_FORMATS[-1]}"
        )
    return int(version)


def _dtypes(version: int) -> dict[str, Any]:
    """The arrays in a file of some format, and their types."""
    dtypes = DTYPES | dict.fromkeys(_PARAMETERS, np.float64)
    # Scopes of several variables came with format 2.
    if version == 1:
        del dtypes["scope_ptr"], dtypes["scope"]
        dtypes["leaf_var"] = np.int64
    return dtypes


def _typed(arrays: dict[str, np.ndarray], version: int) -> dict[str, Any]:
    """The arrays of a file cast to their types; refuse an array that the cast would change."""
    typed = {}
    for name, dtype in _dtypes(version).items():
        array = arrays[name]
        # Casting NaN or infinity to integers warns; the comparison below refuses it.
        with np.errstate(invalid="ignore"):
            typed[name] = array.astype(dtype)
        # Types that hold the same numbers are fine, such as int32 in place of int64.
        if array.ndim != 1 or not np.array_equal(typed[name], array, equal_nan=True):
            raise ValueError(
                f"{name} must be a list of {np.dtype(dtype)}, got {array.dtype} of shape "
                f"{array.shape}"
            )
    return typed


def _assembled(arrays: dict[str, Any], version: int) -> Circuit:
    """The circuit of the arrays of a file, translated from its format and checked."""
    axes = _axes(arrays, version)
    if version < 5:
        arrays["axis_ptr"], arrays["axis"] = HistogramTable.from_axes(axes)
    # A leaf had one variable, so that its scope is that variable.
    if version == 1:
        var = arrays.pop("leaf_var")
        arrays["scope_ptr"] = offsets(var >= 0)
        arrays["scope"] = var[var >= 0]
    structure = Structure(**{name: arrays[name] for name in DTYPES})
    # The structure must be sound before anything is looked up in it.
    check_structure(structure)
    if version < 4:
        arrays["observed"] = _observed(structure, arrays["observed"])
    circuit = Circuit(structure, *(arrays[name] for name in _PARAMETERS))
    check_parameters(circuit)
    return circuit


def _axes(arrays: dict[str, Any], version: int) -> list[Histogram | Law | None]:
    """The checked axes of all variables, from arrays of any format."""
    n_states = arrays["n_states"]
    ptr = arrays["axis_ptr"]
    axis = arrays["axis"]
    check_pointer("axis_ptr", ptr, len(n_states), len(axis))
    axes: list[Histogram | Law | None] = []
    for var, count in enumerate(n_states.tolist()):
        part = axis[segment(ptr, var)]
        # Edges stood between the scales of the two tails.
        if version < 3 and len(part):
            axes.append(Histogram(part[1:-1], part[0], part[-1]))
            check_variable(var, count, axes[-1])
        else:
            axes.append(axis_in_file(var, _without_range(part) if version < 5 else part, count))
    return axes


def _without_range(part: Floats) -> Floats:
    """An axis of format 3 or 4 without its range of draws: its tails have no end."""
    if not len(part):
        return part
    # An axis that begins with zero is a score, any other one a histogram.
    if part[0] == 0.0:
        return np.concatenate([part[:4], [0.0], part[6:13], [0.0], part[13:]])
    return np.concatenate([part[:2], [-np.inf, np.inf, 0.0], part[4:]])


def _observed(structure: Structure, observed_of_nodes: Floats) -> Floats:
    """``observed`` of the variables, from files up to format 3 with an entry for each node."""
    observed = np.full(structure.n_features, np.nan)
    leaf = structure.kind == LEAF
    if len(observed_of_nodes) == structure.n_nodes:
        observed[structure.leaf_var[leaf]] = observed_of_nodes[leaf]
    # All leaves of a variable must agree, and inner nodes have nothing.
    expected = np.where(leaf, observed[structure.leaf_var], np.nan)
    if not np.array_equal(expected, observed_of_nodes, equal_nan=True):
        raise ValueError("observed must be one number for all leaves of a variable")
    return observed
