"""Passes up over batches of rows: one line of values for each node, children first.

``tests/naive/circuit.py`` says the same by recursion over nodes, one row at a time.
"""

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_exp
from skpc._jit import TRUE, inlined, internal_kernel, kernel
from skpc._threads import slices
from skpc.circuit import Circuit
from skpc.queries.passes.blocks import BlockReader
from skpc.queries.passes.factors import Factor, FactorReader, log_leaf_values
from skpc.queries.passes.plan import Plan, Tables, plan_of, tables_of, tables_with
from skpc.queries.passes.rows import (
    CHUNK,
    new_cells,
    over_chunks,
    read_batch,
    refuse_cell,
)
from skpc.variables.events import Events
from skpc.variables.families import cell_value, leaf_values
from skpc.variables.leaf_forms import mode_tables
from skpc.variables.leaves import Cells, leaf_of

#: Rows with a smaller value of the root are evaluated again in the log domain.
TINY = 1e-280
#: Scratch lines of passes, behind those of the nodes; numbered from the end.
FLOW = 1
VALUE = 2
QUOTIENT = 3
N_SCRATCH = 3
NO_FACTORS: Mapping[int, Factor] = MappingProxyType({})


@inlined
def argument_value(
    plan: Plan, table: Floats, cells: Cells, lines: Floats, a: int, r: int, in_logs: bool
) -> float:
    """Value of argument ``a`` of the plan on row ``r`` of an evaluated batch."""
    # Negative arguments are leaves, whose values no line holds.
    child = plan.arg[a]
    if child >= 0:
        return lines[child, r]
    leaf = leaf_of(plan.leaves, ~child)
    # To evaluate one cell of a leaf again is cheaper than a line for each leaf.
    return cell_value(leaf, table, cells, r, in_logs)


@kernel
def upward(
    plan: Plan,
    slot: Ints,
    tables: Tables,
    cells: Cells,
    n_rows: int,
    lines: Floats,
    in_logs: bool,
    maximise: bool,
) -> None:
    """Evaluate all inner nodes on a batch of rows.

    Parameters
    ----------
    plan, slot : Plan and array of shape (n_inner,)
        The order of the nodes, and the line of each.
    tables, cells, n_rows : Tables, Cells and int
        The parameters, the batch, and its number of rows.
    lines : array of shape (n_lines, size)
        Takes the values; the last two lines are scratch.
    in_logs : bool
        Whether lines hold logs: weights near zero and rows of tiny probability stay apart there.
    maximise : bool
        Whether sums become maxima, as for the most probable completion (in logs only).
    """
    is_sum = plan.is_sum
    ptr = plan.ptr
    arg = plan.arg
    leaves = plan.leaves
    weight = tables.log_weight if in_logs else tables.weight
    table = tables.log_table if in_logs else tables.table
    # Children stand before their parents, so that one pass in order is enough.
    scratch = lines.shape[0] - 1
    for i in range(len(is_sum)):
        out = slot[i]
        begin = ptr[i]
        for a in range(begin, ptr[i + 1]):
            child = arg[a]
            if child >= 0:
                source = slot[child]
            else:
                # The first leaf is written where the node will stand, with nothing to copy.
                source = out if a == begin else scratch
                leaf_values(leaf_of(leaves, ~child), table, cells, n_rows, in_logs, lines, source)
            factor = weight[a]
            if a > begin and in_logs:
                # Products of values are sums of logs; of a sum, the maximum comes first.
                for r in range(n_rows):
                    term = factor + lines[source, r]
                    before = lines[out, r]
                    lines[out, r] = max(before, term) if is_sum[i] == 1 else before + term
            elif a > begin:
                for r in range(n_rows):
                    term = factor * lines[source, r]
                    before = lines[out, r]
                    lines[out, r] = before + term if is_sum[i] == 1 else before * term
            elif is_sum[i] == 1 or source != out:
                for r in range(n_rows):
                    value = lines[source, r]
                    lines[out, r] = factor + value if in_logs else factor * value
        # So far the line of a sum holds a maximum, less which no exponential overflows.
        if in_logs and is_sum[i] == 1 and not maximise:
            _log_of_sum(plan, slot, tables, cells, n_rows, lines, i)


@internal_kernel
def _log_of_sum(
    plan: Plan, slot: Ints, tables: Tables, cells: Cells, n_rows: int, lines: Floats, i: int
) -> None:
    """Turn the maximum over the children of sum ``i`` into the log of their sum."""
    table = tables.log_table
    scratch = lines.shape[0] - 1
    total = lines.shape[0] - 2
    out = slot[i]
    # The sum grows in a scratch line, as the maximum is read until it is complete.
    for r in range(n_rows):
        lines[total, r] = 0.0
    for a in range(plan.ptr[i], plan.ptr[i + 1]):
        child = plan.arg[a]
        source = scratch
        shift = tables.log_weight[a]
        if child >= 0:
            source = slot[child]
        else:
            leaf_values(leaf_of(plan.leaves, ~child), table, cells, n_rows, TRUE, lines, source)
        for r in range(n_rows):
            # Where all children are impossible, -inf less -inf would be NaN.
            if lines[out, r] > -np.inf:
                lines[total, r] += fast_exp(shift + lines[source, r] - lines[out, r])
    for r in range(n_rows):
        if lines[out, r] > -np.inf:
            lines[out, r] += math.log(lines[total, r])


class Batch(NamedTuple):
    """An evaluated batch: its cells, and the value of every node.

    ``position`` is where its rows stand in the chunk it was cut from; ``root`` is the log density
    of each row, including the base density that all leaves have in common.
    """

    position: Ints
    cells: Cells
    lines: Floats
    in_logs: bool
    root: Floats

    @property
    def evaluated(self) -> Ints:
        """The rows whose values are in this batch; the others come again, in a batch of logs."""
        return np.flatnonzero(self.in_logs | ~np.isneginf(self.root))


def refuse_impossible(log_root: Floats, index: Ints) -> None:
    """Raise if a row has probability zero, as nothing can be inferred from it.

    ``index`` has the numbers of the rows in the table of the caller.
    """
    impossible = np.flatnonzero(np.isneginf(log_root))
    if len(impossible):
        raise ValueError(
            f"row {index[impossible[0]]} of X has probability zero under the circuit: its "
            "observed cells exclude each other or are too far away, so nothing can be inferred"
        )


class Evaluator:
    """Evaluates all nodes of a circuit on rows, batch by batch.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    maximise : bool, default=False
        Evaluate in the log domain with maxima in place of sums.
    keep : bool, default=True
        Keep the value of every inner node, for passes down.
    size : int, default=None
        Number of rows of a batch; None fits the values of a batch into the cache.
    events : Events, default=None
        The event that each row stands for; None for rows of plain cells.
    factors : mapping of int to Factor, default={}
        Factors of other missing cells, by their columns; only :meth:`batches` reads them.
    """

    def __init__(
        self,
        circuit: Circuit,
        *,
        maximise: bool = False,
        keep: bool = True,
        size: int | None = None,
        events: Events | None = None,
        factors: Mapping[int, Factor] = NO_FACTORS,
    ):
        self.circuit = circuit
        self.maximise = maximise
        self.program = plan_of(circuit.structure)
        self.plan: Plan = self.program.plan
        self.columns = circuit.columns
        self.mode = np.empty(0)
        if maximise:
            leaves = circuit.structure.leaves
            evidence = circuit.observed[leaves.var]
            log_table, self.mode = mode_tables(leaves, circuit.param, self.columns, evidence)
            self.tables = tables_with(circuit, log_table)
        else:
            self.tables = tables_of(circuit)
        self.reader = BlockReader(circuit)
        # Events without intervals are plain rows, which need no factors.
        if events is not None and (events.has_intervals or factors):
            self.reader = FactorReader(circuit, events, factors, self.plan)
            self.plan = self.reader.plan
        # A node takes the line of one that nobody reads any more, unless all are kept.
        self.n_lines = len(self.plan.is_sum) if keep else self.program.n_slots
        self.slot = np.arange(self.n_lines) if keep else self.plan.slot
        # Bytes that the values of one batch may take where those of all nodes are kept.
        budget = 48 * 2**20
        # Values take eight bytes each; 32 of them fill whole vectors of any processor.
        fitting = budget // (8 * self.n_lines)
        # Lines of 512 values take 4 KiB each, so that those of living nodes stay in the cache.
        most_rows = 256 if keep else 512
        self.size = int(np.clip(fitting // 32 * 32, 32, most_rows)) if size is None else size

    def flows(self) -> Floats:
        """Lines for the flows of the nodes that are alive together."""
        return np.empty((self.program.n_slots, self.size))

    def log_values(self, row: Floats) -> tuple[Floats, bool]:
        """Log value of every node of the structure on one row, and whether the row is possible."""
        position = np.zeros(1, dtype=np.int64)
        part = (row, self.reader.values(row), position)
        # In logs, as nodes that the row does not reach may have tiny values.
        batch = self._evaluate(*part, self._workspace(), True)
        leaves = self.circuit.structure.leaves
        n_inner = len(self.plan.is_sum)
        value = np.empty(self.circuit.n_nodes)
        leaf_values = np.empty((len(leaves.node), 1))
        table = self.tables.log_table
        all_leaves = np.arange(len(leaf_values))
        log_leaf_values(self.plan.leaves, table, batch.cells, 1, all_leaves, leaf_values)
        value[leaves.node] = leaf_values[:, 0]
        # A root that is a leaf is read through node -1, which the structure does not have.
        inner = self.program.node >= 0
        value[self.program.node[inner]] = batch.lines[:n_inner, 0][inner]
        return value, bool(batch.root[0] > -np.inf)

    def batches(self, rows: Floats, start: int = 0, refuse: bool = True) -> Iterator[Batch]:
        """Evaluate consecutive batches of rows; the first row is row ``start`` of the caller's.

        Rows too improbable for the linear domain have a ``root`` of -inf in their first batch, and
        are evaluated again in a batch of logs. Each batch overwrites the one before. An impossible
        row is an error, unless ``refuse`` is False.
        """
        workspace = self._workspace()
        # Blocks multiply matrices, which takes less time for all rows at once.
        own_line_values = self.reader.values(rows, start, maximise=self.maximise)
        positions = np.arange(len(rows))
        # Maxima need only an order, which logs keep without underflow.
        in_logs = self.maximise
        # Slices make views of the rows; only improbable rows are listed by number.
        parts: list[Any] = slices(len(rows), self.size)
        while parts:
            improbable = [np.empty(0, dtype=np.int64)]
            for part in parts:
                part_rows = rows[part], own_line_values[part], positions[part]
                batch = self._evaluate(*part_rows, workspace, in_logs, start)
                if not in_logs:
                    improbable.append(batch.position[np.isneginf(batch.root)])
                elif refuse:
                    refuse_impossible(batch.root, start + batch.position)
                yield batch
            improbable_rows = np.concatenate(improbable)
            in_logs = True
            parts = [improbable_rows[part] for part in slices(len(improbable_rows), self.size)]

    def _workspace(self) -> tuple[Cells, Floats]:
        # A leaf with lines of its own has one for its value and one for its flow.
        cells = new_cells(self.circuit.n_features, 2 * self.reader.n_lines, self.size)
        return cells, np.empty((self.n_lines + N_SCRATCH, self.size))

    def _evaluate(
        self,
        rows: Floats,
        own_line_values: Floats,
        position: Ints,
        workspace: tuple[Cells, Floats],
        in_logs: bool,
        start: int = 0,
    ) -> Batch:
        (cells, lines) = workspace
        n_rows = len(rows)
        slot = self.slot
        unreadable = read_batch(self.columns, rows, own_line_values, n_rows, cells)
        # The rows of a batch are consecutive where they are read for the first time.
        refuse_cell(self.columns, rows, unreadable, start + int(position[0]))
        base = cells.base[:n_rows]
        root = lines[slot[-1], :n_rows]
        upward(self.plan, slot, self.tables, cells, n_rows, lines, in_logs, self.maximise)
        # Values inside a circuit are relative to the base density of their row.
        log_root = base + root
        if not in_logs:
            # Smaller values have lost digits on the way up.
            positive = root >= TINY
            log_root = np.full(n_rows, -np.inf)
            log_root[positive] = base[positive] + np.log(root[positive])
        return Batch(position, cells, lines, in_logs, log_root)


def feed_forward(
    circuit: Circuit,
    rows: Floats,
    events: Events | None = None,
    factors: Mapping[int, Factor] = NO_FACTORS,
) -> Floats:
    """Log-likelihood of rows by a pass over all edges, missing cells integrated out.

    Rows may stand for ``events``, whose known cells they then hold; ``factors`` are functions of
    other missing cells, by their columns.
    """
    # Most values of leaves with lines of their own that are held at a time.
    most_values = 1 << 23
    evaluator = Evaluator(circuit, keep=False, events=events, factors=factors)
    out = np.empty(len(rows))

    def work(part: Floats, start: int) -> None:
        # A later batch of logs overwrites the rows that are too improbable for the first.
        for batch in evaluator.batches(part, start, refuse=False):
            out[start + batch.position] = batch.root

    most_rows = most_values // max(evaluator.reader.n_lines, 1)
    over_chunks(rows, work, int(np.clip(most_rows, evaluator.size, CHUNK)))
    return out
