"""Batches of rows with the values of every node kept, for passes that go down again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._jit import TRUE
from skpc.circuit import Circuit
from skpc.queries.passes.blocks import BlockReader
from skpc.queries.passes.downward import N_SCRATCH
from skpc.queries.passes.plan import Plan, Tables, plan_of, tables_of
from skpc.queries.passes.rows import Cells, new_cells, read_batch, refuse_cell
from skpc.queries.passes.upward import TINY, leaf_values, upward, upward_log
from skpc.variables.leaf_queries import mode_tables

#: Bytes that the values of one batch may take.
_BUDGET = 48 * 2**20


class Batch(NamedTuple):
    """An evaluated batch: its cells, and the value of every node.

    ``position`` is where its rows stand in the part it was cut from; ``root`` is the log
    value of each row, the density that its leaves have in common included.
    """

    position: Ints
    cells: Cells
    lines: Floats
    in_logs: bool
    root: Floats

    @property
    def found(self) -> Ints:
        """The rows whose values stand here; the others come again, in a batch of logs."""
        return np.flatnonzero(self.in_logs | ~np.isneginf(self.root))


def refuse_impossible(log_root: Floats, index: Ints) -> None:
    """Raise if a row has probability zero: nothing can be said given what cannot be."""
    impossible = np.flatnonzero(np.isneginf(log_root))
    if len(impossible):
        raise ValueError(
            f"row {index[impossible[0]]} of X has probability zero under the circuit: its "
            "observed cells exclude each other or are too far away, so nothing can be inferred"
        )


class Evaluator:
    """Evaluates batches of rows and keeps the value of every inner node.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    maximise : bool, default=False
        Evaluate in the log domain with maxima in place of sums.
    size : int, default=None
        Rows a batch; None fits the values of a batch into the cache.
    """

    def __init__(self, circuit: Circuit, *, maximise: bool = False, size: int | None = None):
        self.circuit = circuit
        self.maximise = maximise
        self.program = plan_of(circuit.structure)
        self.plan: Plan = self.program.plan
        self.columns = circuit.columns
        leaves = circuit.structure.leaves
        if maximise:
            observed = circuit.observed[leaves.var]
            log_table, self.mode = mode_tables(leaves, circuit.param, self.columns, observed)
        else:
            log_table, self.mode = circuit.leaf_table, np.empty(0)
        self.tables: Tables = tables_of(circuit, log_table)
        self.reader = BlockReader(circuit)
        fitting = _BUDGET // (8 * len(self.plan.is_sum))
        self.size = int(np.clip(fitting // 32 * 32, 32, 256)) if size is None else size

    def flows(self) -> Floats:
        """Lines for the flows of the nodes that are alive together."""
        return np.empty((self.program.n_slots, self.size))

    def log_values(self, row: Floats) -> tuple[Floats, bool]:
        """Log value of every node of the structure on one row, and whether it is possible."""
        of_blocks = self.reader.values(row)
        first = np.zeros(1, dtype=np.int64)
        batch = self._evaluate(row, of_blocks, first, self._workspace(), True)
        leaves, n_inner = self.circuit.structure.leaves, len(self.plan.is_sum)
        value = np.empty(self.circuit.n_nodes)
        table, codes, values = self.tables.log_table, batch.cells.codes, batch.cells.values
        of_leaf = np.empty((1, 1))
        for leaf, node in enumerate(leaves.node):
            leaf_values(self.plan.leaves, leaf, table, codes, values, 1, TRUE, of_leaf, 0)
            value[node] = of_leaf[0, 0]
        inner = self.program.node >= 0
        value[self.program.node[inner]] = batch.lines[:n_inner, 0][inner]
        return value, bool(batch.root[0] > -np.inf)

    def batches(self, rows: Floats, start: int = 0, refuse: bool = True) -> Iterator[Batch]:
        """Evaluate consecutive batches of rows; the first row is row ``start`` of the caller's.

        Rows too improbable for the linear domain come again, in a batch of logs; in the first
        they have a ``root`` of -inf. A batch is overwritten by the next one. An impossible row is
        an error, unless ``refuse`` is False.
        """
        work, again = self._workspace(), []
        of_blocks = self.reader.values(rows, start, maximise=self.maximise)
        for first in range(0, len(rows), self.size):
            end = min(first + self.size, len(rows))
            part, index = (rows[first:end], of_blocks[first:end]), np.arange(first, end)
            batch = self._evaluate(*part, index, work, self.maximise, start + first)
            if self.maximise and refuse:
                refuse_impossible(batch.root, start + batch.position)
            elif not self.maximise:
                again.append(first + np.flatnonzero(np.isneginf(batch.root)))
            yield batch
        index = np.concatenate([np.empty(0, dtype=np.int64), *again])
        for first in range(0, len(index), self.size):
            chosen = index[first : first + self.size]
            batch = self._evaluate(rows[chosen], of_blocks[chosen], chosen, work, True)
            if refuse:
                refuse_impossible(batch.root, start + chosen)
            yield batch

    def _workspace(self) -> tuple[Cells, Floats]:
        cells = new_cells(self.circuit.n_features + 2 * self.reader.n_blocks, self.size)
        return cells, np.empty((len(self.plan.is_sum) + N_SCRATCH, self.size))

    def _evaluate(
        self,
        rows: Floats,
        of_blocks: Floats,
        index: Ints,
        work: tuple[Cells, Floats],
        in_logs: bool,
        start: int = 0,
    ) -> Batch:
        cells, lines = work
        n, plan = len(rows), self.plan
        bad = read_batch(self.columns, rows, of_blocks, 0, n, cells)
        refuse_cell(self.columns, rows, bad, start)
        base, root = cells.base[:n], lines[len(plan.is_sum) - 1, :n]
        if in_logs:
            upward_log(plan, plan.every, self.tables, cells, n, lines, self.maximise)
            log_root = base + root
        else:
            upward(plan, plan.every, self.tables, cells, n, lines)
            positive = root >= TINY
            log_root = np.full(n, -np.inf)
            log_root[positive] = base[positive] + np.log(root[positive])
        return Batch(index, cells, lines, in_logs, log_root)
