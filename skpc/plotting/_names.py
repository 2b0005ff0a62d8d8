"""Texts in drawings for variables, states, ranges and values."""

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.domain import Domain
from skpc.variables import Histogram
from skpc.variables.dates import Calendar
from skpc.variables.ranks import Ranks


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
        self.variables = variable_names(circuit.n_features, domain)
        self._circuit = circuit
        self._domain = domain

    def state(self, variable: int, state: int) -> str:
        """The text of a state: its category, or the range of numbers that it stands for."""
        axis = self._circuit.structure.axis_of(variable)
        # A state of a histogram axis is a range of numbers, or dates, and has no name.
        if isinstance(axis, Histogram):
            calendars = {} if self._domain is None else self._domain.calendars
            return _range_of_state(axis, state, calendars.get(variable))
        categories = None if self._domain is None else self._domain[variable].states
        return shown_value(state if categories is None else categories[state])


def variable_names(n_variables: int, domain: Domain | None) -> list[str]:
    """The names of the columns; x0, x1, ... where these have none."""
    names = None if domain is None else domain.feature_names
    return [f"x{number}" for number in range(n_variables)] if names is None else [*map(str, names)]


def _range_of_state(axis: Histogram, state: int, calendar: Calendar | Ranks | None) -> str:
    """The text of a state of a histogram: its atom, or the ends of its bins and tails."""
    # Cells of the axis by state: an atom, or neighbouring bins.
    cells = [np.flatnonzero(axis.states == state_number) for state_number in np.unique(axis.states)]
    points = axis.points[cells[state]]
    # A state whose cells are all points is an atom, shown by its value.
    if not np.isnan(points).any():
        return shown_value(float(points[0]), calendar)
    ends = np.concatenate([[-np.inf], axis.edges, [np.inf]])
    # The cell of an atom has a small width, which its neighbours take over: they end at the atom.
    atoms = np.flatnonzero(~np.isnan(axis.points))
    ends[atoms] = ends[atoms + 1] = axis.points[atoms]
    edges_of_ranges = [
        ends[[cell[0], cell[-1] + 1]] for cell in cells if np.isnan(axis.points[cell]).any()
    ]
    edges = np.unique(edges_of_ranges)
    # An edge ends two ranges, in which it has the same text.
    shown = _shown_edges(edges) if calendar is None else {e: calendar.text(e) for e in edges}
    low = ends[cells[state][0]]
    high = ends[cells[state][-1] + 1]
    # The first and the last range have one end only.
    if low == -np.inf:
        return f"< {shown[high]}" if high < np.inf else "any other number"
    return f"≥ {shown[low]}" if high == np.inf else f"{shown[low]} to {shown[high]}"


def _shown_edges(edges: Floats) -> dict[float, str]:
    """Edges with as few digits as keep them apart, three at least."""
    for digits in range(3, 17):
        shown = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(shown)) == len(shown):
            break
    return dict(zip(edges.tolist(), shown))


def shown_value(value: Any, calendar: Calendar | Ranks | None = None) -> str:
    """A category, number or date for people: whole numbers without their point."""
    # People compare dates, not the numbers that stand for them.
    if calendar is not None:
        return calendar.text(value)
    if isinstance(value, (float, np.floating)):
        return f"{value:.5g}"
    return str(value)
