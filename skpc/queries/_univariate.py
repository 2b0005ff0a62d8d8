"""The leaves and the known cells of a variable, as distributions that kernels integrate over."""

from __future__ import annotations

import numpy as np

from skpc.circuit import Circuit
from skpc.kernels import Bins, Normals, States
from skpc.queries.passes.plan import plan_of

__all__ = ["known_cells", "leaves_on"]


def leaves_on(circuit: Circuit, var: int) -> Normals | States | Bins:
    """The distributions of all leaves of a variable, in the order of the nodes."""
    leaves = plan_of(circuit.structure).plan.leaves
    node = leaves.node[leaves.var == var]
    begin = circuit.param_ptr[node]
    n_states = int(circuit.n_states[var])
    if n_states == 0:
        return Normals(circuit.param[begin], circuit.param[begin + 1])
    prob = np.exp(circuit.param[begin[:, np.newaxis] + np.arange(n_states)])
    axis = circuit.axis[circuit.axis_ptr[var] : circuit.axis_ptr[var + 1]]
    return Bins(prob, axis) if len(axis) else States(prob)


def known_cells(circuit: Circuit, var: int, values: np.ndarray) -> Normals | States:
    """Distributions that have all their mass on one value each."""
    n_states = int(circuit.n_states[var])
    has_axis = circuit.axis_ptr[var + 1] > circuit.axis_ptr[var]
    if n_states == 0 or has_axis:
        return Normals(values, np.zeros(len(values)))
    return States((values[:, np.newaxis] == np.arange(n_states)).astype(np.float64))
