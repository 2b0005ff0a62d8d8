"""Blocks in a pass: they need whole rows, so that their values are found before it.

What a pass finds for blocks (flows, draws, derivatives) is worked out here after it. The plain twin
is ``tests/naive/blocks.py``.
"""

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._random import Streams
from skpc.circuit import Circuit
from skpc.queries.passes.rows import checked_cells, read_cells
from skpc.variables.block_cells import draw_missing, fill_modes
from skpc.variables.blocks import BlockLeaves, ScoredCells
from skpc.variables.forms import NOTHING
from skpc.variables.gaussians import conditionals
from skpc.variables.leaf_tables import on_lattices


class BlockReader:
    """Evaluates the blocks of a circuit on rows, those of one scope together.

    Parameters
    ----------
    circuit : Circuit
        The circuit. Where it has been conditioned on some cells of a block, values are relative to
        the density of these cells alone.
    """

    def __init__(self, circuit: Circuit):
        #: The blocks of each scope.
        self.groups: list[BlockLeaves] = circuit.multivariate
        self.columns = circuit.columns
        self.n_features = circuit.n_features
        self.leaves = circuit.structure.leaves
        lines = self.leaves.line
        #: For each scope, the numbers of its blocks among all blocks of the circuit.
        self.numbers: list[Ints] = [
            # Each block has two lines, behind those of the variables.
            (lines[group.leaf] - self.n_features) // 2
            for group in self.groups
        ]
        self.n_blocks = sum(len(numbers) for numbers in self.numbers)
        # Blocks also read the cells that the circuit has been conditioned on.
        self._all_columns = self.columns._replace(ignored=np.zeros_like(self.columns.ignored))
        # The density of the evidence counts in every row, so that it is taken off each value.
        self._log_evidence = np.zeros(self.n_blocks)
        if self.groups and self.columns.ignored.any():
            evidence = circuit.observed[np.newaxis]
            self._log_evidence = self._log_densities(evidence, self.cells(evidence))[0]

    @property
    def n_lines(self) -> int:
        """Number of leaves that read lines of their own."""
        return self.n_blocks

    def cells(self, rows: Floats, start: int = 0) -> list[ScoredCells]:
        """Cells of rows in each scope of blocks; the first row is row ``start`` of the caller's."""
        if not self.groups:
            return []
        # Read-only rows would compile the kernels again.
        writable = np.require(rows, requirements=("C", "W"))
        codes, values = read_cells(self._all_columns, writable, start)
        # Indexing by brackets would take many times as long.
        return [
            ScoredCells.from_scores(
                codes.take(group.variables, axis=1), values.take(group.variables, axis=1)
            )
            for group in self.groups
        ]

    def values(self, rows: Floats, start: int = 0, *, maximise: bool = False) -> Floats:
        """Log densities of rows relative to the peaks, shape (n_rows, n_blocks).

        With ``maximise`` missing cells have their most probable values.
        """
        if not self.groups:
            return np.empty((len(rows), 0))
        log_densities = self._log_densities(rows, self.cells(rows, start), maximise)
        return log_densities - self._log_evidence

    def _log_densities(
        self, rows: Floats, cells: list[ScoredCells], maximise: bool = False
    ) -> Floats:
        """As :meth:`values`, with the density of the evidence."""
        values = np.empty((len(rows), self.n_blocks))
        for numbers, group, group_cells in zip(self.numbers, self.groups, cells):
            evaluate = group.log_peak_values if maximise else group.log_values
            values[:, numbers] = evaluate(group_cells, self.columns)
            if not maximise:
                values[:, numbers] += self._mass_gains(group, group_cells.scores, rows)
        return values

    def _mass_gains(self, group: BlockLeaves, scores: Floats, rows: Floats) -> Floats:
        """Log mass of the cell of a row's only score over its density; 0 for other rows.

        Shape (n_rows, n_leaves), from scores of shape (n_rows, n_columns).
        """
        gains = np.zeros((len(rows), len(group.leaf)))
        # A box of several cells has no mass in closed form: its density in the middle stays.
        single = np.flatnonzero((~np.isnan(scores)).sum(axis=1) == 1)
        if len(single):
            lattices = self._all_columns._replace(has_cells=on_lattices(self.columns))
            read = checked_cells(lattices, np.ascontiguousarray(rows[single]))
            # Four lines for each variable; see edge_line.
            lines = read.values[rows.shape[1] : -1].reshape(rows.shape[1], 4, len(single))
            # (n_single, n_columns, 3): both edges and the scale of the cell of each score.
            edges = lines[group.variables, :3].transpose(2, 0, 1).copy()
            # The first row says which columns have a lattice.
            edges[:, lines[group.variables, 0, 0] == np.inf, 0] = np.inf
            gains[single] = group.mass_of_cells(scores[single], edges)
        return gains

    def add_statistics(self, rows: Floats, flow: Floats, statistic: Floats) -> None:
        """Add the statistics of rows, whose flows into the blocks have shape (n_rows, n_blocks)."""
        for numbers, group, cells in zip(self.numbers, self.groups, self.cells(rows)):
            group.add_statistics(self.leaves, cells, flow[:, numbers], statistic)

    def fill(
        self,
        reached: Ints,
        streams: Streams | None,
        rows: Floats,
        event: Ints | None = None,  # noqa: ARG002
    ) -> None:
        """Fill the missing cells of rows from the blocks that they have reached.

        Parameters
        ----------
        reached : ndarray of shape (n_rows, n_features)
            The leaf that a row has reached, at its first variable, where it is a block; else -1.
        streams : ndarray of shape (n_rows,) or None
            The random stream of each row; without streams cells take their most probable values.
        rows : ndarray of shape (n_rows, n_features)
            The rows.
        event : ndarray of shape (n_rows,), default=None
            The event of each row; not read here.
        """
        for group, cells in zip(self.groups, self.cells(rows)):
            # One entry more than leaves, for the -1 of a row that has reached no block.
            place = np.full(len(self.leaves.node) + 1, -1)
            place[group.leaf] = np.arange(len(group.leaf))
            block = place[reached[:, group.variables[0]]]
            if streams is None:
                fill_modes(group, self.columns, cells, block, rows)
            else:
                draw_missing(group, self.columns, cells.scores, block, streams, rows)

    def add_without_cells(
        self, rows: Floats, log_derivative: Floats, log_without_cell: Floats
    ) -> None:
        """Add the densities of rows without each of their cells in turn, over all blocks.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Encoded rows.
        log_derivative : ndarray of shape (n_blocks, n_rows)
            Logs of the derivatives of the root by the blocks.
        log_without_cell : ndarray of shape (n_features, n_rows)
            The densities are added to it, in logs.
        """
        for numbers, group, cells in zip(self.numbers, self.groups, self.cells(rows)):
            gains = self._mass_gains(group, cells.scores, rows)
            log_values = group.log_values(cells, self.columns) + gains - self._log_evidence[numbers]
            # (n_rows, n_leaves, n_columns): each cell given the others of its block.
            cell_values = group.cell_values(cells, self.columns)
            for place in range(len(group.variables)):
                # Without this cell another score may be the only one, which then has a mass.
                other_scores = cells.scores.copy()
                other_scores[:, place] = np.nan
                is_score = ~np.isnan(cells.scores[:, place])
                gains_without = self._mass_gains(group, other_scores, rows)
                cell_values[is_score, :, place] += (gains - gains_without)[is_score]
            log_terms = log_derivative[numbers].T + log_values  # (n_rows, n_leaves)
            for place, var in enumerate(group.variables):
                # Impossible rows leave NaN here, and are refused by the caller.
                with np.errstate(invalid="ignore"):
                    log_sum = np.logaddexp.reduce(log_terms - cell_values[:, :, place], axis=1)
                    log_without_cell[var] = np.logaddexp(log_without_cell[var], log_sum)

    def conditionals(self, rows: Floats, probs: list[Floats]) -> list[tuple[Floats, Floats]]:
        """Means and standard deviations of the scores of missing cells under the blocks.

        For each scope two arrays of shape (n_leaves, n_rows, n_columns), from the probabilities of
        its leaves given each row. Leaves of next to no probability are left out.
        """
        return [
            conditionals(group.gaussians, *cells[1:], np.ascontiguousarray(prob > NOTHING))
            for group, cells, prob in zip(self.groups, self.cells(rows), probs)
        ]

    def conditionals_of(
        self, moments: list[tuple[Floats, Floats]], var: int, rows: Ints | slice
    ) -> tuple[Ints, Floats, Floats] | None:
        """Those of one variable in some rows, from :meth:`conditionals`; None if no block has it.

        Returns the places of the blocks among all leaves of the variable, shape (n_blocks,), and
        means and standard deviations of shape (n_blocks, n_rows).
        """
        leaves_of_variable = self.leaves.with_variable(var)
        parts = []
        for group, (mean, sd) in zip(self.groups, moments):
            for column in np.flatnonzero(group.variables == var):
                column_moments = mean[:, :, column][:, rows], sd[:, :, column][:, rows]
                parts.append((np.searchsorted(leaves_of_variable, group.leaf), *column_moments))
        if not parts:
            return None
        place, means, sds = map(np.concatenate, zip(*parts))
        # An observed cell has no distribution; nobody looks at the one that it gets.
        return place, means, np.where(sds > 0.0, sds, 1.0)
