"""Leaves of several variables need whole rows: their values before and after a pass."""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._random import Streams
from skpc.circuit import Circuit
from skpc.queries.passes.rows import states_and_values
from skpc.variables.forms import NOTHING
from skpc.variables.gaussian import MultivariateGaussian, ScoredCells
from skpc.variables.gaussian_cells import draw_missing, fill_modes
from skpc.variables.gaussians import conditionals


class MultivariateReader:
    """Evaluates the leaves of several variables on rows, those of one scope together.

    Parameters
    ----------
    circuit : Circuit
        The circuit. Where it has been conditioned on some cells of a leaf, values are relative to
        that of these cells alone.
    """

    def __init__(self, circuit: Circuit):
        self.groups: list[MultivariateGaussian] = circuit.multivariate
        self.columns = circuit.columns
        self.n_features = circuit.n_features
        #: Places of the leaves of each scope among those of the circuit.
        self.leaves = circuit.structure.leaves
        lines = self.leaves.line
        self.place: list[Ints] = [(lines[b.leaf] - self.n_features) // 2 for b in self.groups]
        self.n_leaves = sum(len(place) for place in self.place)
        # Leaves of several variables look at what has been given, too.
        self._reading = self.columns._replace(ignored=np.zeros_like(self.columns.ignored))
        self._evidence = np.zeros(self.n_leaves)
        if self.groups and self.columns.ignored.any():
            self._evidence = self._values(self.cells(circuit.observed[np.newaxis]))[0]

    def cells(self, rows: Floats, start: int = 0) -> list[ScoredCells]:
        """Cells of rows (from row ``start`` of the caller's on) in each scope of several."""
        if not self.groups:
            return []
        # Read-only rows would compile the kernels again.
        writable = np.require(rows, requirements=("C", "W"))
        codes, values = states_and_values(self._reading, writable, start)
        # Brackets around columns would take many times as long.
        return [
            ScoredCells.from_scores(
                codes.take(b.variables, axis=1), values.take(b.variables, axis=1)
            )
            for b in self.groups
        ]

    def values(self, rows: Floats, start: int = 0, *, maximise: bool = False) -> Floats:
        """Log densities of rows relative to the peaks, shape (n_rows, n_leaves).

        With ``maximise`` missing cells have their most probable values.
        """
        if not self.groups:
            return np.empty((len(rows), 0))
        return self._values(self.cells(rows, start), maximise) - self._evidence

    def _values(self, cells: list[ScoredCells], maximise: bool = False) -> Floats:
        values = np.empty((len(cells[0].codes), self.n_leaves))
        for place, group, part in zip(self.place, self.groups, cells):
            evaluate = group.log_peak_values if maximise else group.log_values
            values[:, place] = evaluate(part, self.columns)
        return values

    def add_statistics(self, rows: Floats, flow: Floats, statistic: Floats) -> None:
        """Add the statistics of rows; ``flow`` has what reached the leaves, (n_rows, n_leaves)."""
        for place, group, cells in zip(self.place, self.groups, self.cells(rows)):
            group.add_statistics(self.leaves, cells, flow[:, place], statistic)

    def draw(self, owner: Ints, streams: Streams, rows: Floats) -> None:
        """Fill the missing cells of rows by draws from the leaves that they have reached.

        ``owner[j, v]`` is the leaf of row ``j`` whose first variable is ``v``, or -1;
        ``streams[j]`` is the random stream of the row.
        """
        for reached, group, cells in self._reached(owner, rows):
            draw_missing(group, self.columns, cells, reached, streams, rows)

    def fill_modes(self, owner: Ints, rows: Floats) -> None:
        """The same with the most probable cells."""
        for reached, group, cells in self._reached(owner, rows):
            fill_modes(group, self.columns, cells, reached, rows)

    def _reached(
        self, owner: Ints, rows: Floats
    ) -> list[tuple[Ints, MultivariateGaussian, ScoredCells]]:
        """For each scope, the leaf that each row has reached, or -1."""
        reached = []
        for group, cells in zip(self.groups, self.cells(rows)):
            of_leaf = np.full(len(self.leaves.node) + 1, -1)
            of_leaf[group.leaf] = np.arange(len(group.leaf))
            reached.append((of_leaf[owner[:, group.variables[0]]], group, cells))
        return reached

    def add_without_cells(self, rows: Floats, derivative: Floats, rest: Floats) -> None:
        """Add what each leaf says of a row without each of its cells.

        ``derivative`` has logs of the derivatives by the leaves, shape (n_leaves, n_rows); the sums
        are added, in logs too, to ``rest``, shape (n_features, n_rows).
        """
        for place, group, cells in zip(self.place, self.groups, self.cells(rows)):
            whole = group.log_values(cells, self.columns) - self._evidence[place]
            parts = group.cell_values(cells, self.columns)
            above = derivative[place].T + whole
            for at, var in enumerate(group.variables):
                # Rows that are impossible leave NaN here, and are refused by those who ask.
                with np.errstate(invalid="ignore"):
                    without = np.logaddexp.reduce(above - parts[:, :, at], axis=1)
                    rest[var] = np.logaddexp(rest[var], without)

    def conditionals(self, rows: Floats, probs: list[Floats]) -> list[tuple[Floats, Floats]]:
        """Means and standard deviations of the scores of missing cells under the leaves.

        For each scope two arrays of shape (n_leaves, n_rows, n_columns), from the probabilities of
        its leaves given each row: those of leaves that hardly made a row are left out.
        """
        return [
            conditionals(group.gaussians, *cells[1:], np.ascontiguousarray(prob > NOTHING))
            for group, cells, prob in zip(self.groups, self.cells(rows), probs)
        ]

    def of_variable(
        self, given: list[tuple[Floats, Floats]], var: int, rows: Ints | slice
    ) -> tuple[Ints, Floats, Floats] | None:
        """From these, those of a variable in some rows: places among all its leaves, means, sds.

        None where no such leaf has it.
        """
        among, parts = self.leaves.with_variable(var), []
        for group, (mean, sd) in zip(self.groups, given):
            for at in np.flatnonzero(group.variables == var):
                of_cells = mean[:, :, at][:, rows], sd[:, :, at][:, rows]
                parts.append((np.searchsorted(among, group.leaf), *of_cells))
        if not parts:
            return None
        place, means, sds = map(np.concatenate, zip(*parts))
        # An observed cell has no distribution; nobody looks at the one that it gets.
        return place, means, np.where(sds > 0.0, sds, 1.0)
