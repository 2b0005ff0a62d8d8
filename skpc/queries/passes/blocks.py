"""Values of the leaves of several variables, which need whole rows, before a pass and after it."""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats, Ints
from skpc.circuit import Circuit
from skpc.queries.passes.rows import read_cells
from skpc.variables.block import BlockCells, Blocks


class BlockReader:
    """Evaluates the blocks of a circuit on rows, those of one scope together.

    Parameters
    ----------
    circuit : Circuit
        The circuit. Where it has been conditioned on cells of a block, values are relative to that
        of these cells alone.
    """

    def __init__(self, circuit: Circuit):
        self.blocks: list[Blocks] = circuit.blocks
        self.columns = circuit.columns
        self.n_features = circuit.n_features
        #: Places of the blocks of each scope among those of the circuit.
        self.leaves = circuit.structure.leaves
        lines = self.leaves.line
        self.place: list[Ints] = [(lines[b.leaf] - self.n_features) // 2 for b in self.blocks]
        self.n_blocks = sum(len(place) for place in self.place)
        # Leaves of several variables look at what has been given, too.
        self._reading = self.columns._replace(ignored=np.zeros_like(self.columns.ignored))
        self._evidence = np.zeros(self.n_blocks)
        if self.blocks and self.columns.ignored.any():
            self._evidence = self._values(self.cells(circuit.observed[np.newaxis]))[0]

    def cells(self, rows: Floats, start: int = 0) -> list[BlockCells]:
        """Cells of rows (from row ``start`` of the caller's on) in each scope that has blocks."""
        if not self.blocks:
            return []
        codes, values = read_cells(self._reading, rows, start)
        return [BlockCells.of(codes[:, b.variables], values[:, b.variables]) for b in self.blocks]

    def values(self, rows: Floats, start: int = 0, *, maximise: bool = False) -> Floats:
        """Log densities of rows relative to the peaks, shape (n_rows, n_blocks).

        With ``maximise`` missing cells have their most probable values.
        """
        if not self.blocks:
            return np.empty((len(rows), 0))
        return self._values(self.cells(rows, start), maximise) - self._evidence

    def _values(self, cells: list[BlockCells], maximise: bool = False) -> Floats:
        found = np.empty((len(cells[0].codes), self.n_blocks))
        for place, blocks, part in zip(self.place, self.blocks, cells):
            found[:, place] = (blocks.log_peak_values if maximise else blocks.log_values)(
                part, self.columns
            )
        return found

    def add_statistics(self, rows: Floats, flow: Floats, statistic: Floats) -> None:
        """Add the statistics of rows of which ``flow``, shape (n_rows, n_blocks), reaches blocks."""
        for place, blocks, cells in zip(self.place, self.blocks, self.cells(rows)):
            blocks.add_statistics(self.leaves, cells, flow[:, place], statistic)
