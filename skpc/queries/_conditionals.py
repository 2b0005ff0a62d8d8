"""Conditional circuits of rows: the nodes that a row can reach, and posterior weights of sums."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, owners
from skpc._fast_math import fast_exp
from skpc._jit import inlined, kernel
from skpc.circuit import Circuit, Structure
from skpc.queries.passes.plan import Plan, Tables, plan_of, remembered
from skpc.queries.passes.rows import CHUNK, Cells
from skpc.queries.passes.upward import Batch, Evaluator, argument_value
from skpc.variables.block_cells import ConditionalNormals, conditional_normals
from skpc.variables.blocks import BlockLeaves

#: Positive numbers below this have no reciprocal.
_SMALLEST = 1e-307
#: Most pairs of a row and a block whose conditionals are held at a time.
_MOST_BLOCKS = 2048


class Reached(NamedTuple):
    """The nodes that rows can reach, one entry for each pair of a row and a node.

    The entries of a row stand in the order of the plan, children before parents and the root last.

    Attributes
    ----------
    ptr : int64 array of shape (n_rows + 1,)
        The entries of row r are ``ptr[r] .. ptr[r + 1]``.
    node : int64 array of shape (n_entries,)
        Inner node of each entry, in the numbering of the plan.
    arg_ptr : int64 array of shape (n_entries + 1,)
        The children of entry e are ``arg_ptr[e] .. arg_ptr[e + 1]``.
    arg : int64 array of shape (n_children,)
        The argument of the plan that each child is.
    weight : array of shape (n_children,)
        Posterior weight of a child in its sum, 1 in a product.
    """

    ptr: Ints
    node: Ints
    arg_ptr: Ints
    arg: Ints
    weight: Floats


class Conditionals(NamedTuple):
    """Conditional distributions of one circuit, one a row.

    Attributes
    ----------
    position : int64 array of shape (n_rows,)
        Where the rows stand in the table they came from.
    cells : array of shape (n_rows, n_features)
        The observed cells; NaN elsewhere.
    reached : Reached
        The nodes that rows can reach.
    blocks : list of ConditionalNormals
        For each scope of blocks, the distributions of the rows under the blocks that they reach.
    """

    position: Ints
    cells: Floats
    reached: Reached
    blocks: list[ConditionalNormals]


class Scopes(NamedTuple):
    """Scopes of the inner nodes of a plan, as integers and as words of 64 variables each."""

    number: list[int]
    words: NDArray[np.uint64]


@remembered
def inner_scopes(structure: Structure) -> Scopes:
    """The scopes in the order of the plan, found at the first call."""
    # A root that is a leaf is read through a product above it: node -1, the last of all.
    number = [structure.scopes[node] for node in plan_of(structure).node.tolist()]
    n_words = structure.n_features // 64 + 1
    # Scopes are Python integers of any length, which kernels cannot take.
    octets = b"".join(scope.to_bytes(8 * n_words, "little") for scope in number)
    words = np.frombuffer(octets, dtype="<u8").astype(np.uint64)
    return Scopes(number, words.reshape(len(number), n_words))


def conditionals(evaluator: Evaluator, rows: Floats) -> Iterator[Conditionals]:
    """The conditionals of a circuit given the observed cells of rows, batch by batch."""
    scope = inner_scopes(evaluator.circuit.structure).words
    # For read-only rows, as of an estimator loaded as a memory map, kernels are compiled again.
    rows = np.require(rows, requirements=("C", "W"))
    # The step of a range is positive, also for a table without rows.
    size = min(len(rows), _most_rows(evaluator.circuit)) or 1
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        for batch in evaluator.batches(part, start):
            # Where all rows are too improbable for a batch, they follow in a batch of logs.
            if len(batch.evaluated):
                row_conditionals = _batch_conditionals(evaluator, scope, batch, part)
                yield row_conditionals._replace(position=start + row_conditionals.position)


def _most_rows(circuit: Circuit) -> int:
    """Most rows whose conditionals are held at a time, as those under blocks take much memory."""
    # Most numbers in the covariances of blocks.
    numbers = 2**22
    shapes = [group.gaussians.covariance.shape for group in block_groups(circuit)]
    if not shapes:
        return CHUNK
    # Each covariance has the shape (n_leaves, n_variables, n_variables).
    n_leaves = sum(shape[0] for shape in shapes)
    n_numbers = sum(map(math.prod, shapes))
    return max(1, min(_MOST_BLOCKS // n_leaves, numbers // n_numbers))


def _batch_conditionals(
    evaluator: Evaluator, scope: NDArray[np.uint64], batch: Batch, rows: Floats
) -> Conditionals:
    """The conditionals of the evaluated rows of a batch; ``scope`` has shape (n_inner, n_words)."""
    plan = evaluator.plan
    position = batch.position[batch.evaluated]
    cells = np.ascontiguousarray(rows[position])
    # Room for rows that reach every node, as only the kernel finds out which they reach.
    n_nodes = len(position) * len(plan.is_sum)
    n_args = len(position) * len(plan.arg)
    sizes = (len(position) + 1, n_nodes, n_nodes + 1, n_args)
    ptr, node, arg_ptr, arg = (np.zeros(size, dtype=np.int64) for size in sizes)
    workspace = Reached(ptr, node, arg_ptr, arg, np.empty(n_args))
    missing = _words(np.isnan(cells), scope.shape[1])  # (n_rows, n_words)
    state = (batch.cells, batch.lines, batch.in_logs, batch.evaluated)
    _reach(plan, evaluator.tables, scope, missing, *state, workspace)
    # Rows seldom reach all nodes: only the used part of the workspace is kept.
    n_nodes = int(ptr[-1])
    n_args = int(arg_ptr[n_nodes])
    used = (len(ptr), n_nodes, n_nodes + 1, n_args, n_args)
    parts: Any = (part[:size].copy() for part, size in zip(workspace, used))
    reached = Reached(*parts)
    blocks = _block_conditionals(evaluator, cells, reached)
    return Conditionals(position, cells, reached, blocks)


def variables_of_leaves(circuit: Circuit) -> NDArray[np.bool_]:
    """Which variables have leaves of a single variable."""
    leaves = circuit.structure.leaves
    alone = leaves.var[np.diff(leaves.scope_ptr) == 1]
    return np.isin(np.arange(circuit.n_features), alone)


def block_groups(circuit: Circuit) -> list[BlockLeaves]:
    """The blocks of each scope of more than one variable."""
    return [group for group in circuit.multivariate if len(group.variables) > 1]


def block_scopes(circuit: Circuit) -> list[int]:
    """The scopes of :func:`block_groups`, as integers whose bits are variables."""
    return [sum(1 << var for var in group.variables.tolist()) for group in block_groups(circuit)]


def block_places(circuit: Circuit, row_conditionals: Conditionals) -> tuple[Ints, Ints]:
    """Where the conditionals of blocks stand.

    Returns
    -------
    block : ndarray of shape (n_leaves,)
        The number of each leaf among the blocks of all scopes; -1 for other leaves.
    place : ndarray of shape (n_rows, n_blocks)
        The place of the conditional of a row under a block among those of the scope; -1 where the
        row does not reach the block.
    """
    groups = block_groups(circuit)
    block = np.full(len(circuit.structure.leaves.node), -1)
    n_blocks = sum(len(group.leaf) for group in groups)
    place = np.full((len(row_conditionals.cells), n_blocks), -1)
    n_placed = 0
    for group, normals in zip(groups, row_conditionals.blocks):
        block[group.leaf] = n_placed + np.arange(len(group.leaf))
        leaf = normals.leaf[normals.set_of_row]
        place[normals.row, n_placed + leaf] = np.arange(len(leaf))
        n_placed += len(group.leaf)
    return block, place


def _block_conditionals(
    evaluator: Evaluator, rows: Floats, reached: Reached
) -> list[ConditionalNormals]:
    """For each scope of blocks, the distributions of the rows under the blocks that they reach."""
    if not block_groups(evaluator.circuit):
        return []
    # The leaf of each child of each row; inner nodes have negative numbers here.
    begin = reached.arg_ptr[reached.ptr]
    row = owners(np.diff(begin))
    leaf = ~evaluator.plan.arg[reached.arg]
    # A leaf below several nodes of a row counts once.
    reaches = np.zeros((len(rows), len(evaluator.plan.leaves.var)), dtype=bool)
    reaches[row[leaf >= 0], leaf[leaf >= 0]] = True
    normals = []
    for group, cells in zip(evaluator.circuit.multivariate, evaluator.reader.cells(rows)):
        if len(group.variables) > 1:
            # The kernel reads the cells of the scope alone, row by row.
            part = np.ascontiguousarray(rows[:, group.variables])
            columns = evaluator.circuit.columns
            normals.append(conditional_normals(group, columns, cells, part, reaches[:, group.leaf]))
    return normals


def _words(marks: NDArray[np.bool_], n_words: int) -> NDArray[np.uint64]:
    """Marks of variables, (n_rows, n_features), as bits of words, (n_rows, n_words)."""
    # Bytes can be viewed as words only where a row fills whole words.
    padded = np.pad(marks, ((0, 0), (0, 64 * n_words - marks.shape[1])))
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


@inlined
def _meets(scope: NDArray[np.uint64], i: int, missing: NDArray[np.uint64], j: int) -> bool:
    """Whether any variable of scope i is missing in row j."""
    common = np.uint64(0)
    # A loop that always goes to its end is compiled to vector instructions.
    for w in range(scope.shape[1]):
        common |= scope[i, w] & missing[j, w]
    return common != 0


@inlined
def _divide(plan: Plan, score: Floats, alive: NDArray[np.int8], i: int, total: float) -> None:
    """Divide the scores of the children of sum i by their total, so that they become weights.

    A total without a reciprocal gives all weight to the first child. This changes nothing: all
    cells of the sum are known, or the sum itself has next to no weight in the row.
    """
    if total < _SMALLEST:
        score[plan.ptr[i] : plan.ptr[i + 1]] = 0.0
        score[plan.ptr[i]] = total = 1.0
        # A child with a score of zero has not been marked as alive.
        if plan.arg[plan.ptr[i]] >= 0:
            alive[plan.arg[plan.ptr[i]]] = 1
    for a in range(plan.ptr[i], plan.ptr[i + 1]):
        score[a] /= total


@kernel(new_arrays=True)
def _reach(
    plan: Plan,
    tables: Tables,
    scope: NDArray[np.uint64],
    missing: NDArray[np.uint64],
    cells: Cells,
    lines: Floats,
    in_logs: bool,
    column: Ints,
    into: Reached,
) -> None:
    """List the nodes that each row reaches from the root, with the posterior weights of children.

    Parameters
    ----------
    plan, tables : Plan and Tables
        The order of the nodes, and the parameters.
    scope : array of shape (n_inner, n_words)
        The scopes of the nodes as bits.
    missing : array of shape (n_rows, n_words)
        The missing variables of the rows as bits.
    cells, lines, in_logs : Cells, array and bool
        The evaluated batch.
    column : array of shape (n_rows,)
        Where the values of each row stand in the lines.
    into : Reached
        Takes the nodes, their children and the weights.
    """
    ptr = into.ptr
    node = into.node
    arg_ptr = into.arg_ptr
    arg = into.arg
    posterior = into.weight
    n_inner = len(plan.is_sum)
    table = tables.log_table if in_logs else tables.table
    weight = tables.log_weight if in_logs else tables.weight
    alive = np.empty(n_inner, np.int8)
    score = np.empty(len(plan.arg))
    n_entries = 0
    n_args = 0
    for j in range(len(column)):
        # From the root down: a node is alive if an alive parent gives it a positive weight.
        alive[:] = 0
        alive[n_inner - 1] = 1
        for i in range(n_inner - 1, -1, -1):
            if alive[i] == 0:
                continue
            # Where all cells of its scope are known, a sum has the same conditional below each
            # child: the first possible child stands for all.
            needs_one_child = plan.is_sum[i] == 1 and not _meets(scope, i, missing, j)
            total = 0.0
            for a in range(plan.ptr[i], plan.ptr[i + 1]):
                score[a] = 0.0
                # All children of a product are reached.
                if plan.is_sum[i] == 0:
                    score[a] = 1.0
                elif total == 0.0 or not needs_one_child:
                    # Row j of the evaluated rows stands in this column of the batch.
                    r = column[j]
                    value = argument_value(plan, table, cells, lines, a, r, in_logs)
                    if in_logs:
                        # Relative to the value of the sum, no exponential overflows.
                        score[a] = fast_exp(weight[a] + value - lines[i, r])
                    else:
                        score[a] = weight[a] * value
                    total += score[a]
                if plan.arg[a] >= 0 and score[a] > 0.0:
                    alive[plan.arg[a]] = 1
            # The scores of a sum are posterior weights once they sum to one.
            if plan.is_sum[i] == 1:
                _divide(plan, score, alive, i, total)
        # Entries list children before parents.
        for i in range(n_inner):
            if alive[i] == 1:
                node[n_entries] = i
                for a in range(plan.ptr[i], plan.ptr[i + 1]):
                    # Children of weight zero are left out.
                    if score[a] > 0.0:
                        arg[n_args] = a
                        posterior[n_args] = score[a]
                        n_args += 1
                n_entries += 1
                arg_ptr[n_entries] = n_args
        ptr[j + 1] = n_entries
