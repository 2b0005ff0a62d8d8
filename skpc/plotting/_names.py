"""Names of variables and of their states in drawings."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.domain import Domain
from skpc.variables import Axis


class Names:
    """Names of the variables of a circuit and of their states.

    Without a domain the variables are called x0, x1, ... and states by their codes.
    """

    def __init__(self, circuit: Circuit, domain: Domain | None) -> None:
        if domain is not None and domain.n_features != circuit.n_features:
            raise ValueError(
                f"domain must have the {circuit.n_features} columns of the circuit, "
                f"got {domain.n_features}"
            )
        self.n_variables = circuit.n_features
        self._circuit = circuit
        self._domain = domain

    def variable(self, variable: int) -> str:
        """The column's name, else ``x`` and its number."""
        return variable_name(variable, self._domain)

    def state(self, variable: int, state: int) -> str:
        """A category, or the range of a bin or tail."""
        axis = self._circuit.structure.axis_of(variable)
        if axis is not None:
            return _range_of_state(axis, state)
        categories = None if self._domain is None else self._domain.categories[variable]
        return shown_value(state if categories is None else categories[state])


def variable_name(variable: int, domain: Domain | None) -> str:
    """The column's name, else ``x`` and its number."""
    names = None if domain is None else domain.feature_names
    return f"x{variable}" if names is None else str(names[variable])


def _range_of_state(axis: Axis, state: int) -> str:
    """What the values of a state have in common: the atom, or the ends of its bins and tails."""
    cell = np.flatnonzero(axis.states == state)
    if not np.isnan(axis.points[cell]).any():
        return shown_value(float(axis.points[cell[0]]))
    # Bins end at their atoms; the cells of these are no wider than rounding, or a step.
    edges = axis.edges.copy()
    for atom in np.flatnonzero(~np.isnan(axis.points)):
        edges[[atom - 1, atom]] = axis.points[atom]
    others = np.unique(axis.states[np.isnan(axis.points)])
    cells = [np.flatnonzero(axis.states == other) for other in others]
    lower, upper = (np.array([part[end] for part in cells]) for end in (0, -1))
    ends = np.append(lower[lower > 0] - 1, upper[upper < len(edges)])
    shown = _shown_edges(np.unique(edges[ends]))
    first, last = cell[0], cell[-1]
    if first == 0:
        return f"< {shown[edges[last]]}" if last < len(edges) else "any other number"
    low = shown[edges[first - 1]]
    return f"≥ {low}" if last == len(edges) else f"{low} to {shown[edges[last]]}"


def _shown_edges(edges: Floats) -> dict[float, str]:
    """Edges with as few digits as keep them apart, three at least."""
    for digits in range(3, 17):
        shown = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(shown)) == len(shown):
            break
    return dict(zip(edges.tolist(), shown))


def shown_value(value: Any) -> str:
    """A category or number for people: whole numbers without their point."""
    if isinstance(value, (float, np.floating)):
        return f"{value:.5g}"
    return str(value)


def inner_densities(estimator: Any) -> str | None:
    """What can be drawn of an estimator that has densities inside; else None."""
    if hasattr(estimator, "densities_"):
        return "draw one of its densities_"
    return "draw its density_" if hasattr(estimator, "density_") else None
