"""Blocks of rows with the values of every node kept, for passes that go back down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from skpc.circuit import Circuit
from skpc.circuit.leaves import (
    Columns,
    cell_value,
    columns_of,
    leaf_tables,
    mode_tables,
)
from skpc.queries.log_likelihood import TINY
from skpc.queries.passes.downward import N_SCRATCH
from skpc.queries.passes.plan import Plan, Tables, plan_of, tables_of
from skpc.queries.passes.rows import read_block, refuse_cell
from skpc.queries.passes.upward import upward, upward_log

__all__ = ["Block", "Evaluator"]

#: Bytes that the values of one block may take.
_BUDGET = 48 * 2**20


class Block(NamedTuple):
    """An evaluated block: states, values, missing columns, and the value of every node.

    ``position`` is where its rows stand in the part it was cut from; ``root`` is the log
    value of each row, ``base`` included.
    """

    position: np.ndarray
    codes: np.ndarray
    values: np.ndarray
    incomplete: np.ndarray
    lines: np.ndarray
    in_logs: bool
    root: np.ndarray


class Evaluator:
    """Evaluates blocks of rows and keeps the value of every inner node.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    maximise : bool, default=False
        Evaluate in the log domain with maxima in place of sums.
    size : int, default=None
        Rows a block; None fits the values of a block into the cache.
    """

    def __init__(self, circuit: Circuit, *, maximise: bool = False, size: int | None = None):
        self.circuit = circuit
        self.maximise = maximise
        self.program = plan_of(circuit.structure)
        self.plan: Plan = self.program.plan
        self.columns: Columns = columns_of(circuit)
        if maximise:
            log_table, self.mode = mode_tables(circuit, self.plan.leaves, self.columns)
        else:
            log_table, self.mode = leaf_tables(circuit, self.plan.leaves, self.columns), np.empty(0)
        self.tables: Tables = tables_of(circuit, log_table)
        fitting = _BUDGET // (8 * len(self.plan.is_sum))
        self.size = int(np.clip(fitting // 32 * 32, 32, 256)) if size is None else size

    def flows(self) -> np.ndarray:
        """Lines for the flows of the nodes that are alive together."""
        return np.empty((self.program.n_slots, self.size))

    def log_values(self, row: np.ndarray) -> tuple[np.ndarray, bool]:
        """Log value of every node of the structure on one row, and whether it is possible."""
        block = self._evaluate(row, np.zeros(1, dtype=np.int64), self._workspace(), True)
        leaves, n_inner = self.plan.leaves, len(self.plan.is_sum)
        value = np.empty(self.circuit.n_nodes)
        for leaf, node in enumerate(leaves.node):
            var = leaves.var[leaf]
            value[node] = cell_value(
                leaves.family[leaf],
                leaves.first[leaf],
                self.tables.log_table,
                block.codes[var, 0],
                block.values[var, 0],
                True,
            )
        inner = self.program.node >= 0
        value[self.program.node[inner]] = block.lines[:n_inner, 0][inner]
        return value, bool(block.root[0] > -np.inf)

    def blocks(self, rows: np.ndarray, start: int = 0) -> Iterator[Block]:
        """Evaluate consecutive blocks of rows, the first of which is row ``start`` of the caller's.

        Rows too improbable for the linear domain come again, in a block of logs; in the first
        they have a ``root`` of -inf. A block is overwritten by the next one.
        """
        work = self._workspace()
        again = []
        for first in range(0, len(rows), self.size):
            part = rows[first : first + self.size]
            block = self._evaluate(
                part, np.arange(first, first + len(part)), work, self.maximise, start + first
            )
            tiny = np.flatnonzero(np.isneginf(block.root))
            if not self.maximise and len(tiny):
                again.append(first + tiny)
            yield block
        index = np.concatenate([np.empty(0, dtype=np.int64), *again])
        for first in range(0, len(index), self.size):
            chosen = index[first : first + self.size]
            yield self._evaluate(rows[chosen], chosen, work, True)

    def _workspace(self) -> tuple[np.ndarray, ...]:
        n_features = self.circuit.n_features
        return (
            np.empty((n_features, self.size), dtype=np.int16),
            np.empty((n_features, self.size)),
            np.empty(self.size),
            np.empty(n_features, dtype=np.int8),
            np.empty((len(self.plan.is_sum) + N_SCRATCH, self.size)),
        )

    def _evaluate(
        self,
        rows: np.ndarray,
        index: np.ndarray,
        work: tuple[np.ndarray, ...],
        in_logs: bool,
        start: int = 0,
    ) -> Block:
        codes, values, base, incomplete, lines = work
        n, plan = len(rows), self.plan
        bad = read_block(self.columns, rows, 0, n, codes, values, base, incomplete)
        refuse_cell(self.circuit, rows, bad, start)
        root = lines[len(plan.is_sum) - 1, :n]
        if in_logs:
            upward_log(plan, plan.every, self.tables, codes, values, n, lines, self.maximise)
            log_root = base[:n] + root
        else:
            upward(plan, plan.every, self.tables, codes, values, n, lines)
            positive = root >= TINY
            log_root = np.full(n, -np.inf)
            log_root[positive] = base[:n][positive] + np.log(root[positive])
        return Block(index, codes, values, incomplete, lines, in_logs, log_root)
