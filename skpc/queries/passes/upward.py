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
from skpc.queries.passes.factors import Factor, FactorReader, log_leaf_values
from skpc.queries.passes.plan import Plan, Tables, plan_of, tables_of, tables_with
from skpc.queries.passes.rows import (
    CHUNK,
    MultivariateReader,
    new_cells,
    over_chunks,
    read_batch,
    refuse_cell,
)
from skpc.variables.events import Events
from skpc.variables.families import cell_value, leaf_values
from skpc.variables.leaf_forms import mode_tables
from skpc.variables.leaves import Cells, leaf_of

#: Roots below are evaluated again in the log domain.
TINY = 1e-280
#: Scratch lines behind those of the nodes, counted from the end.
FLOW = 1
VALUE = 2
QUOTIENT = 3
N_SCRATCH = 3
#: Rows of a batch where they are not: a line of values takes 4 KiB, the live ones stay in cache.
_BATCH = 512
NO_FACTORS: Mapping[int, Factor] = MappingProxyType({})


@inlined
def argument_value(
    plan: Plan, table: Floats, cells: Cells, lines: Floats, a: int, r: int, in_logs: bool
) -> float:
    """Value of argument a of the plan in column r of an evaluated batch."""
    # Negative arguments are leaves, which are evaluated where they are read.
    child = plan.arg[a]
    if child >= 0:
        return lines[child, r]
    leaf = leaf_of(plan.leaves, ~child)
    # One cell of a leaf is cheaper to evaluate again than to keep for all rows.
    return cell_value(leaf, table, cells, r, in_logs)


@kernel
def upward(
    plan: Plan,
    slot: Ints,
    tables: Tables,
    cells: Cells,
    n: int,
    lines: Floats,
    in_logs: bool,
    maximise: bool,
) -> None:
    """Evaluate all inner nodes on a batch of rows.

    Parameters
    ----------
    plan, slot : Plan and array of shape (n_inner,)
        The order of the nodes, and the line of each.
    tables, cells, n : Tables, Cells and int
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
                leaf_values(leaf_of(leaves, ~child), table, cells, n, in_logs, lines, source)
            factor = weight[a]
            if a > begin and in_logs:
                # Products of values are sums of logs; of a sum, the maximum comes first.
                for r in range(n):
                    term = factor + lines[source, r]
                    before = lines[out, r]
                    lines[out, r] = max(before, term) if is_sum[i] == 1 else before + term
            elif a > begin:
                for r in range(n):
                    term = factor * lines[source, r]
                    before = lines[out, r]
                    lines[out, r] = before + term if is_sum[i] == 1 else before * term
            elif is_sum[i] == 1 or source != out:
                for r in range(n):
                    value = lines[source, r]
                    lines[out, r] = factor + value if in_logs else factor * value
        # Less the maximum, no exponential overflows.
        if in_logs and is_sum[i] == 1 and not maximise:
            _log_of_sum(plan, slot, tables, cells, n, lines, i)


@internal_kernel
def _log_of_sum(
    plan: Plan, slot: Ints, tables: Tables, cells: Cells, n: int, lines: Floats, i: int
) -> None:
    """Turn the maximum over the children of sum ``i`` into the log of their sum."""
    table = tables.log_table
    scratch = lines.shape[0] - 1
    total = lines.shape[0] - 2
    out = slot[i]
    # The maximum is read until the sum is complete, which so has a line of its own.
    for r in range(n):
        lines[total, r] = 0.0
    for a in range(plan.ptr[i], plan.ptr[i + 1]):
        child = plan.arg[a]
        source = scratch
        shift = tables.log_weight[a]
        if child >= 0:
            source = slot[child]
        else:
            # Evaluating a leaf again costs less than a line for each.
            leaf_values(leaf_of(plan.leaves, ~child), table, cells, n, TRUE, lines, source)
        for r in range(n):
            # Where all children are impossible, -inf less -inf would be NaN.
            if lines[out, r] > -np.inf:
                lines[total, r] += fast_exp(shift + lines[source, r] - lines[out, r])
    for r in range(n):
        if lines[out, r] > -np.inf:
            lines[out, r] += math.log(lines[total, r])


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
    def evaluated(self) -> Ints:
        """The rows whose values are in this batch; the others come again, in a batch of logs."""
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
    """Evaluates batches of rows.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    maximise : bool, default=False
        Evaluate in the log domain with maxima in place of sums.
    keep : bool, default=True
        Keep the value of every inner node, for passes down.
    size : int, default=None
        Rows a batch; None fits the values of a batch into the cache.
    events : Events, default=None
        What rows stand for, each row for its event; None for their cells alone.
    factors : mapping of int to Factor, default={}
        Factors of other missing cells, by their columns; for ``batches`` alone.
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
            given = circuit.observed[leaves.var]
            log_table, self.mode = mode_tables(leaves, circuit.param, self.columns, given)
            self.tables = tables_with(circuit, log_table)
        else:
            self.tables = tables_of(circuit)
        self.reader = MultivariateReader(circuit)
        # Events without intervals or functions are plain rows, which need no factors.
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
        most_rows = 256 if keep else _BATCH
        self.size = int(np.clip(fitting // 32 * 32, 32, most_rows)) if size is None else size

    def flows(self) -> Floats:
        """Lines for the flows of the nodes that are alive together."""
        return np.empty((self.program.n_slots, self.size))

    def log_values(self, row: Floats) -> tuple[Floats, bool]:
        """Log value of every node of the structure on one row, and whether it is possible."""
        first_line = np.zeros(1, dtype=np.int64)
        part = (row, self.reader.values(row), first_line)
        # Logs, as one row may be improbable at the nodes that lie off its way.
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

        Rows too improbable for the linear domain come again, in a batch of logs; in the first
        they have a ``root`` of -inf. A batch is overwritten by the next one. An impossible row is
        an error, unless ``refuse`` is False.
        """
        workspace = self._workspace()
        # Leaves of several variables are products of matrices: all rows at once.
        joint = self.reader.values(rows, start, maximise=self.maximise)
        every = np.arange(len(rows))
        # Maxima need only an order, which logs keep without underflow.
        in_logs = self.maximise
        # Parts are slices at first, which are views, and lists of rows once some come again.
        parts: list[Any] = slices(len(rows), self.size)
        while parts:
            again = [np.empty(0, dtype=np.int64)]
            for part in parts:
                part_rows = rows[part], joint[part], every[part]
                batch = self._evaluate(*part_rows, workspace, in_logs, start)
                if not in_logs:
                    again.append(batch.position[np.isneginf(batch.root)])
                elif refuse:
                    refuse_impossible(batch.root, start + batch.position)
                yield batch
            index = np.concatenate(again)
            in_logs = True
            parts = [index[part] for part in slices(len(index), self.size)]

    def _workspace(self) -> tuple[Cells, Floats]:
        # Leaves of several variables have a line for their value and one for what flows to them.
        cells = new_cells(self.circuit.n_features, 2 * self.reader.n_lines, self.size)
        return cells, np.empty((self.n_lines + N_SCRATCH, self.size))

    def _evaluate(
        self,
        rows: Floats,
        joint: Floats,
        index: Ints,
        workspace: tuple[Cells, Floats],
        in_logs: bool,
        start: int = 0,
    ) -> Batch:
        (cells, lines) = workspace
        n = len(rows)
        slot = self.slot
        # The kernel says which cell it could not read, and the caller names it to the user.
        bad = read_batch(self.columns, rows, joint, n, cells)
        refuse_cell(self.columns, rows, bad, start + int(index[0]))
        base = cells.base[:n]
        root = lines[slot[-1], :n]
        upward(self.plan, slot, self.tables, cells, n, lines, in_logs, self.maximise)
        # Values inside a circuit are relative to the base density of their row.
        log_root = base + root
        if not in_logs:
            # Smaller values have lost digits on the way up.
            positive = root >= TINY
            log_root = np.full(n, -np.inf)
            log_root[positive] = base[positive] + np.log(root[positive])
        return Batch(index, cells, lines, in_logs, log_root)


def feed_forward(
    circuit: Circuit,
    rows: Floats,
    events: Events | None = None,
    factors: Mapping[int, Factor] = NO_FACTORS,
) -> Floats:
    """Log-likelihood of rows by a pass over all edges, missing cells integrated out.

    Rows may stand for ``events``, whose known cells they have, and have ``factors`` besides.
    """
    # Largest number of values of leaves that are not read off single cells, held at a time.
    most_values = 1 << 23
    evaluator = Evaluator(circuit, keep=False, events=events, factors=factors)
    out = np.empty(len(rows))

    def work(part: Floats, start: int) -> None:
        # Rows too improbable for the linear domain come again, and are overwritten.
        for batch in evaluator.batches(part, start, refuse=False):
            out[start + batch.position] = batch.root

    # Values of leaves with lines of their own are held for all rows of a chunk.
    most_rows = most_values // max(evaluator.reader.n_lines, 1)
    over_chunks(rows, work, int(np.clip(most_rows, evaluator.size, CHUNK)))
    return out
