"""Mixtures of circuits as one circuit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skpc._arrays import offsets
from skpc.circuit._circuit import Circuit
from skpc.circuit._properties import SUM
from skpc.circuit._structure import Structure

#: What says which variables there are.
_VARIABLES = ("n_states", "axis_ptr", "axis")


def mixture(circuits: Sequence[Circuit], weights: Any) -> Circuit:
    """Mix circuits over the same variables: a sum over their roots.

    Parameters
    ----------
    circuits : sequence of Circuit
        At least one. They have the same variables, with the same states and axes.
    weights : array-like of shape (n_circuits,)
        Positive; they sum to one.

    Returns
    -------
    Circuit
        Smooth and decomposable. If there is only one circuit, it is returned itself.

    Raises
    ------
    ValueError
        If the variables differ, or a circuit has been conditioned.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder, mixture
    >>> from skpc.queries import log_likelihood
    >>> rare, often = CircuitBuilder([2]), CircuitBuilder([2])
    >>> _ = rare.discrete(0, np.log([0.9, 0.1])), often.discrete(0, np.log([0.3, 0.7]))
    >>> both = mixture([rare.build(), often.build()], [0.5, 0.5])
    >>> np.exp(log_likelihood(both, [[1.0]])).round(3)
    array([0.4])
    """
    first = circuits[0]
    for number, circuit in enumerate(circuits):
        same = all(
            np.array_equal(getattr(circuit, name), getattr(first, name), equal_nan=True)
            for name in _VARIABLES
        )
        if not same:
            raise ValueError(
                f"circuits that are mixed need the same variables with the same states and axes; "
                f"those of circuit {number} differ from those of circuit 0"
            )
        if not np.isnan(circuit.observed).all():
            raise ValueError(f"circuit {number} has been conditioned; mix circuits that have not")
    if len(circuits) == 1:
        return first
    roots = np.cumsum([circuit.n_nodes for circuit in circuits]) - 1
    before = np.append(0, roots[:-1] + 1)

    def joined(name: str, last: Any = ()) -> Any:
        return np.concatenate([*(getattr(circuit, name) for circuit in circuits), last])

    def joined_ptr(name: str, last: int = 0) -> Any:
        lengths = [np.diff(getattr(circuit, name)) for circuit in circuits]
        return offsets(np.append(np.concatenate(lengths), last))

    child = [circuit.child + shift for circuit, shift in zip(circuits, before)]
    structure = Structure(
        kind=joined("kind", [SUM]),
        child_ptr=joined_ptr("child_ptr", len(circuits)),
        child=np.concatenate([*child, roots]),
        scope_ptr=joined_ptr("scope_ptr"),
        scope=joined("scope"),
        leaf_family=joined("leaf_family", [-1]),
        param_ptr=joined_ptr("param_ptr"),
        decision_var=joined("decision_var", [-1]),
        decision_state=joined("decision_state", np.full(len(circuits), -1)),
        **{name: getattr(first, name) for name in _VARIABLES},
    )
    return Circuit(structure, joined("log_weight", np.log(weights)), joined("param"))
