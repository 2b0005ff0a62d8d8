"""Checks of encoded rows, the batches in which kernels read them, and leaves of several variables.

These leaves need whole rows: their values are found before a pass, what they add after it.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._cells import rows_of_numbers
from skpc._jit import kernel
from skpc._random import Streams
from skpc._threads import in_threads
from skpc.circuit import Circuit
from skpc.variables import Columns
from skpc.variables.block_cells import draw_missing, fill_modes
from skpc.variables.blocks import BlockLeaves, ScoredCells
from skpc.variables.events import Events
from skpc.variables.families import read_cell
from skpc.variables.forms import NOTHING
from skpc.variables.gaussians import conditionals
from skpc.variables.leaf_forms import kernel_cells, needed_cell
from skpc.variables.leaf_tables import on_lattices
from skpc.variables.leaves import Cells, column_of, edge_line
from skpc.variables.reading import read_edges

#: Rows handed to one call of a kernel, and the unit of work of a thread.
CHUNK = 8192


def check_rows(circuit: Circuit, X: Any) -> Floats:
    """Encoded rows as float64 of shape (n_rows, n_features), C-contiguous.

    Cells of variables that the circuit has been conditioned on take the value given then. States
    out of range are found later, by the kernel that reads the rows.
    """
    rows = read_rows(circuit, X)
    known = np.flatnonzero(~np.isnan(circuit.observed))
    if len(known):
        # The caller keeps its rows as they are.
        rows = rows.copy()
        rows[:, known] = circuit.observed[known]
    return rows


def check_events(circuit: Circuit, X: Any) -> Events:
    """Encoded rows as events, which have no intervals where X is an array."""
    if not isinstance(X, Events):
        return Events.of(check_rows(circuit, X))
    # Cells that the circuit has been conditioned on decide the intervals about them.
    return X.with_cells(check_rows(circuit, X.rows))


def read_rows(circuit: Circuit, X: Any) -> Floats:
    """The same without a look at what the circuit has been conditioned on."""
    if not isinstance(circuit, Circuit):
        raise TypeError(
            f"queries ask a Circuit, got {type(circuit).__name__}; the one of a fitted estimator "
            "is its circuit_"
        )
    return rows_of_numbers(X, circuit.n_features)


def refuse_cell(columns: Columns, rows: Floats, cell: int, start: int) -> None:
    """Raise the error for a cell that no leaf can read; ``cell`` < 0 means there is none.

    The cell is counted within ``rows``; their first row is row ``start`` of the caller's.
    """
    if cell < 0:
        return
    row, var = divmod(cell, rows.shape[1])
    raise ValueError(
        f"X[{row + start}, {var}] must be {needed_cell(columns, var)} or NaN (missing), got "
        f"{rows[row, var]}; circuits read encoded rows, as made by an estimator or a Domain"
    )


def over_chunks(rows: Floats, work: Callable[[Floats, int], Any], chunk: int = CHUNK) -> list[Any]:
    """Call ``work(part, start)`` on consecutive parts of the rows and list what it returns.

    The parts do not depend on the number of threads, which is the one of
    ``joblib.parallel_config`` (one by default), so neither do the results.
    """

    def task(start: int) -> Any:
        part = rows[start : start + chunk]
        # A read-only array (a memory map, say) would compile every kernel again.
        return work(part if part.flags.writeable else part.copy(), start)

    return in_threads(task, range(0, len(rows), chunk))


def refuse_multivariate(circuit: Circuit) -> None:
    """Raise an error if leaves have several variables."""
    if circuit.multivariate:
        listed = circuit.multivariate[0].variables.tolist()
        raise ValueError(
            "sums over paths need leaves of one variable each, but "
            f"the circuit has leaves of the variables {listed} together; use a density without "
            "blocks of numbers, such as HiddenChowLiuTree"
        )


def new_cells(n_features: int, n_joint: int, size: int) -> Cells:
    """Arrays for parts of up to ``size`` rows; blocks have ``n_joint`` lines."""
    n_lines = n_features + n_joint
    # One line for each variable, and two for each leaf that has lines of its own.
    codes = np.zeros((n_lines, size), np.int16)
    incomplete = np.ones(n_lines, np.int8)
    # Behind the values stand four lines for each variable: both edges of its cells, a scale, and
    # rows with the same value. A last line is scratch: kernels that make arrays read slowly.
    values = np.empty((n_lines + 4 * n_features + 1, size))
    return Cells(codes, values, np.empty(size), incomplete)


@kernel
def read_batch(columns: Columns, rows: Floats, joint: Floats, n: int, cells: Cells) -> int:
    """Transpose the first rows, and log densities of leaves, into states and values.

    Returns the flat position of the first unreadable cell, or -1.
    """
    n_features = rows.shape[1]
    codes = cells.codes
    values = cells.values
    base = cells.base
    incomplete = cells.incomplete
    # The last row that each place has, to which values hash.
    scratch = values.shape[0] - 1
    n_places = values.shape[1]
    # Each row has a density that all leaves of its numbers have in common.
    for r in range(n):
        base[r] = 0.0
    for var in range(n_features):
        column = column_of(columns, var)
        ignored = columns.ignored[var]
        # Passes skip what is complete in all rows of a batch.
        incomplete[var] = 0
        edges = edge_line(cells, var)
        has_cells = columns.has_cells[var]
        for place in range(n_places if has_cells else 0):
            values[scratch, place] = -1.0
        for r in range(n):
            x = rows[r, var]
            # A variable that the circuit has been conditioned on is read from the circuit.
            if np.isnan(x) or ignored:
                # Tables have an entry for a missing cell behind those of the states.
                codes[var, r] = column.n_states
                values[var, r] = np.nan
                if has_cells:
                    values[edges, r] = values[edges + 1, r] = 0.0
                incomplete[var] = 1
            else:
                state, value, density = read_cell(column, columns.axis, x)
                # An error is raised by the caller: kernels only say where.
                if state < 0:
                    return r * n_features + var
                codes[var, r] = state
                values[var, r] = value
                # What all leaves of the variable share is not repeated in their tables.
                base[r] += density
                # An atom has no score, but its line must say that there is a lattice.
                if has_cells:
                    low = 0.0
                    high = 0.0
                    scale = 0.0
                    same = r
                    if value == value:
                        # A lattice has few values: most have been seen in the place they hash to.
                        step = columns.axis[column.axis_begin + 1]
                        turns = math.floor(x / (n_places * step))
                        place = int(x / step - n_places * turns) % n_places
                        row_of_place = int(values[scratch, place])
                        if row_of_place >= 0 and rows[row_of_place, var] == x:
                            same = row_of_place
                            low = values[edges, same]
                            high = values[edges + 1, same]
                            scale = values[edges + 2, same]
                        else:
                            values[scratch, place] = r
                            low, high, scale = read_edges(column, columns.axis, x)
                    values[edges, r] = low
                    values[edges + 1, r] = high
                    values[edges + 2, r] = scale
                    values[edges + 3, r] = same
        if not has_cells:
            values[edges, 0] = np.inf
    # Leaves of several variables have lines as variables do, which passes read alike.
    for b in range(joint.shape[1]):
        line = n_features + 2 * b
        for r in range(n):
            values[line, r] = joint[r, b]
            values[line + 1, r] = 0.0
    return -1


def checked_cells(columns: Columns, rows: Floats, start: int = 0) -> Cells:
    """Read rows whose first has the number ``start``, or refuse one of their cells."""
    cells = new_cells(rows.shape[1], 0, len(rows))
    bad = read_batch(columns, rows, np.empty((len(rows), 0)), len(rows), cells)
    refuse_cell(columns, rows, bad, start)
    return cells


def read_cells(columns: Columns, rows: Floats, start: int = 0) -> tuple[Ints, Floats]:
    """What leaves read of encoded rows.

    Parameters
    ----------
    columns : Columns
        The variables of the circuit.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, NaN where missing.
    start : int, default=0
        Number of the first row in messages: its place among the rows of the caller.

    Returns
    -------
    codes : ndarray of shape (n_rows, n_features)
        States of the cells, -1 where missing; 0 for a number without states.
    values : ndarray of shape (n_rows, n_features)
        What formulas read: numbers, or their scores; NaN without a number.
    """
    # Nobody asks for the edges of cells here, which take time to find.
    without_edges = columns._replace(has_cells=np.zeros_like(columns.has_cells))
    cells = checked_cells(without_edges, rows, start)
    # Tables have an entry for a missing cell; those who ask here want to see it as -1.
    codes = np.where(np.isnan(rows), -1, cells.codes.T)
    return codes.astype(np.int64), np.ascontiguousarray(cells.values[: rows.shape[1]].T)


def kernel_rows(circuit: Circuit, rows: Floats) -> Floats:
    """Encoded rows on the scale on which kernels compare them: scores of numbers that have some."""
    cells = [kernel_cells(circuit.columns, var, column) for var, column in enumerate(rows.T)]
    return np.column_stack(cells)


def refuse_unreadable(columns: Columns, rows: Floats) -> None:
    """Raise the error for the first cell of rows that must be complete, and no leaf can read."""
    read_cells(columns, rows)
    missing = np.flatnonzero(np.isnan(rows))
    if len(missing):
        row, var = divmod(int(missing[0]), rows.shape[1])
        raise ValueError(f"X[{row}, {var}] must hold a cell, as a point needs all of them; got nan")


class MultivariateReader:
    """Evaluates the leaves of several variables on rows, those of one scope together.

    Parameters
    ----------
    circuit : Circuit
        The circuit. Where it has been conditioned on some cells of a leaf, values are relative to
        that of these cells alone.
    """

    def __init__(self, circuit: Circuit):
        self.groups: list[BlockLeaves] = circuit.multivariate
        self.columns = circuit.columns
        self.n_features = circuit.n_features
        #: Places of the leaves of each scope among those of the circuit.
        self.leaves = circuit.structure.leaves
        lines = self.leaves.line
        # Each leaf of several variables has two lines, behind those of the variables.
        self.place: list[Ints] = [(lines[b.leaf] - self.n_features) // 2 for b in self.groups]
        self.n_leaves = sum(len(place) for place in self.place)
        # Leaves of several variables look at what has been given, too.
        self._reading = self.columns._replace(ignored=np.zeros_like(self.columns.ignored))
        # What was known before counts in every row, so that it is taken off each value.
        self._evidence = np.zeros(self.n_leaves)
        if self.groups and self.columns.ignored.any():
            evidence = circuit.observed[np.newaxis]
            self._evidence = self._values(evidence, self.cells(evidence))[0]

    @property
    def n_lines(self) -> int:
        """Number of leaves that read lines of their own."""
        return self.n_leaves

    def cells(self, rows: Floats, start: int = 0) -> list[ScoredCells]:
        """Cells of rows (from row ``start`` of the caller's on) in each scope of several."""
        if not self.groups:
            return []
        # Read-only rows would compile the kernels again.
        writable = np.require(rows, requirements=("C", "W"))
        codes, values = read_cells(self._reading, writable, start)
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
        return self._values(rows, self.cells(rows, start), maximise) - self._evidence

    def _values(self, rows: Floats, cells: list[ScoredCells], maximise: bool = False) -> Floats:
        values = np.empty((len(rows), self.n_leaves))
        for place, group, part in zip(self.place, self.groups, cells):
            evaluate = group.log_peak_values if maximise else group.log_values
            values[:, place] = evaluate(part, self.columns)
            if not maximise:
                values[:, place] += self._cell_gains(group, part.scores, rows)
        return values

    def _cell_gains(self, group: BlockLeaves, scores: Floats, rows: Floats) -> Floats:
        """What rows gain whose only score counts with the mass of its cell, (n_rows, n_leaves)."""
        gains = np.zeros((len(rows), len(group.leaf)))
        # A box of several cells has no mass in closed form: scores that are not alone gain nothing.
        single = np.flatnonzero((~np.isnan(scores)).sum(axis=1) == 1)
        if len(single):
            reading = self._reading._replace(has_cells=on_lattices(self.columns))
            read = checked_cells(reading, np.ascontiguousarray(rows[single]))
            lines = read.values[rows.shape[1] : -1].reshape(rows.shape[1], 4, len(single))
            # (n_single, n_variables, 3): both edges and the scale of the cell of each score.
            edges = lines[group.variables, :3].transpose(2, 0, 1).copy()
            # The first row says which columns have a lattice.
            edges[:, lines[group.variables, 0, 0] == np.inf, 0] = np.inf
            gains[single] = group.mass_of_cells(scores[single], edges)
        return gains

    def add_statistics(self, rows: Floats, flow: Floats, statistic: Floats) -> None:
        """Add the statistics of rows; ``flow`` has what reached the leaves, (n_rows, n_leaves)."""
        for place, group, cells in zip(self.place, self.groups, self.cells(rows)):
            group.add_statistics(self.leaves, cells, flow[:, place], statistic)

    def fill(
        self,
        owner: Ints,
        streams: Streams | None,
        rows: Floats,
        index: Ints | None = None,  # noqa: ARG002
    ) -> None:
        """Fill the missing cells of rows from the leaves that they have reached.

        ``owner[j, v]`` is the leaf of row ``j`` whose first variable is ``v``, or -1. Cells are
        drawn with ``streams[j]``, the random stream of the row; without streams they take their
        most probable values. ``index`` has the numbers of the rows, for those that stand for
        events.
        """
        for group, cells in zip(self.groups, self.cells(rows)):
            # One entry more than leaves: an owner of -1, which is no leaf, reads it.
            place = np.full(len(self.leaves.node) + 1, -1)
            place[group.leaf] = np.arange(len(group.leaf))
            # The owner of a scope stands at the first of its variables.
            reached = place[owner[:, group.variables[0]]]
            if streams is None:
                fill_modes(group, self.columns, cells, reached, rows)
            else:
                draw_missing(group, self.columns, cells.scores, reached, streams, rows)

    def add_without_cells(self, rows: Floats, derivative: Floats, rest: Floats) -> None:
        """Add what each leaf says of a row without each of its cells.

        ``derivative`` has logs of the derivatives by the leaves, shape (n_leaves, n_rows); the sums
        are added, in logs too, to ``rest``, shape (n_features, n_rows).
        """
        for place, group, cells in zip(self.place, self.groups, self.cells(rows)):
            gains = self._cell_gains(group, cells.scores, rows)
            whole = group.log_values(cells, self.columns) + gains - self._evidence[place]
            parts = group.cell_values(cells, self.columns)
            for column in range(len(group.variables)):
                # Without this cell another score may be the only one, which then has a mass.
                rest_of_scores = cells.scores.copy()
                rest_of_scores[:, column] = np.nan
                is_score = ~np.isnan(cells.scores[:, column])
                without = self._cell_gains(group, rest_of_scores, rows)
                parts[is_score, :, column] += (gains - without)[is_score]
            # (n_rows, n_leaves) beside parts of shape (n_rows, n_leaves, n_variables).
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
        among = self.leaves.with_variable(var)
        parts = []
        for group, (mean, sd) in zip(self.groups, given):
            for at in np.flatnonzero(group.variables == var):
                moments = mean[:, :, at][:, rows], sd[:, :, at][:, rows]
                parts.append((np.searchsorted(among, group.leaf), *moments))
        if not parts:
            return None
        place, means, sds = map(np.concatenate, zip(*parts))
        # An observed cell has no distribution; nobody looks at the one that it gets.
        return place, means, np.where(sds > 0.0, sds, 1.0)
