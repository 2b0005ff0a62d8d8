"""How variables and their states are called in drawings."""

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
            return _cells_in_words(axis, state)
        categories = None if self._domain is None else self._domain.categories[variable]
        return shown_value(state if categories is None else categories[state])


def variable_name(variable: int, domain: Domain | None) -> str:
    """The column's name, else ``x`` and its number."""
    names = None if domain is None else domain.feature_names
    return f"x{variable}" if names is None else str(names[variable])


def _cells_in_words(axis: Axis, state: int) -> str:
    """What the values of a state have in common; atoms between them are not told."""
    cells = np.flatnonzero(axis.states == state)
    first, last, point = cells[0], cells[-1], axis.points[cells[0]]
    if not np.isnan(point):
        return shown_value(point)
    shown = _shown_edges(axis.edges)
    if first == 0 and last == len(shown):
        return "other"
    if first == 0:
        return f"< {shown[last]}"
    if last == len(shown):
        return f"≥ {shown[first - 1]}"
    return f"{shown[first - 1]} to {shown[last]}"


def _shown_edges(edges: Floats) -> list[str]:
    """Edges with as few digits as keep them apart, three at least."""
    for digits in range(3, 17):
        shown = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(shown)) == len(shown):
            break
    return shown


def shown_value(value: Any) -> str:
    """A category or number for people: whole numbers without their point."""
    if isinstance(value, (float, np.floating)):
        return f"{value:.5g}"
    return str(value)


def inner_densities(estimator: Any) -> str | None:
    """What can be drawn of an estimator that has densities inside; None if it has none."""
    if hasattr(estimator, "densities_"):
        return "draw one of its densities_"
    return "draw its density_" if hasattr(estimator, "density_") else None
