"""Rows that a circuit generates: draws, and completions of rows by a draw or by their mode.

Each row takes a way from the root to one leaf of each variable. ``tests/naive/circuit.py`` says the
same by recursion over nodes, one row at a time.
"""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skpc._arrays import Floats, Ints
from skpc._fast_math import fast_exp
from skpc._jit import inlined, kernel
from skpc._random import Streams, draw_index, start_streams, uniform
from skpc._validation import check_n_samples
from skpc.circuit import Circuit
from skpc.queries.passes.plan import Plan, Tables
from skpc.queries.passes.rows import check_events, check_rows, over_chunks
from skpc.queries.passes.upward import Batch, Evaluator, argument_value
from skpc.variables import Columns
from skpc.variables.events import Events
from skpc.variables.families import draw
from skpc.variables.leaf_forms import values_of_draws
from skpc.variables.leaves import Cells, column_of, leaf_of

#: In place of a leaf: a score or the state of a histogram has been drawn, which is not yet a value.
_UNFINISHED = -2


def sample(
    circuit: Circuit, n_samples: int = 1, random_state: Any = None, given: Events | None = None
) -> Floats:
    """Draw independent rows.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    n_samples : int, default=1
        Number of rows.
    random_state : int, RandomState instance or None, default=None
        The same seed gives the same rows on any number of threads.
    given : Events, default=None
        One event that all rows fulfil; None draws all cells.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        Complete encoded rows.

    Raises
    ------
    ValueError
        If the event has probability zero, or draws from a block of numbers do not get into all of
        its ranges.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import sample
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.7, 0.3]))
    >>> float(sample(builder.build(), 10_000, random_state=0).mean().round(1))
    0.3
    """
    n_samples = check_n_samples(n_samples)
    no_cells = np.full((1, circuit.n_features), np.nan)
    # The check writes in the cells that the circuit has been conditioned on.
    events = check_events(circuit, no_cells if given is None else given)
    evaluator = Evaluator(circuit, size=1, events=events)
    # All rows start from the same cells, so that one evaluated row serves all. The last batch
    # counts: an improbable row is evaluated a second time, in logs.
    *_, batch = evaluator.batches(events.rows)
    rows = np.repeat(events.rows, n_samples, axis=0)
    seed = _seed(random_state)

    def work(part: Floats, start: int) -> None:
        # All rows read the values of the only evaluated one.
        column = np.zeros(len(part), dtype=np.int64)
        _fill(evaluator, batch, column, start_streams(seed, len(part), start), part)

    # Streams belong to rows, so that the draws do not depend on the chunks.
    over_chunks(rows, work, chunk=2048)
    return rows


def sample_missing(circuit: Circuit, X: Any, random_state: Any = None) -> Floats:
    """Fill the missing cells of each row with one joint draw given its observed cells.

    Where a row has several ranges on one block of numbers, each cell is drawn from its range given
    the cells before it. So all draws lie in their ranges, but they are exact only where a row has
    one range.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features), or Events
        Encoded rows; NaN marks the missing cells. Or events, which the filled rows fulfil.
    random_state : int, RandomState instance or None, default=None
        The same seed gives the same draws on any number of threads.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        The rows with their missing cells filled.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import sample_missing
    >>> builder = CircuitBuilder(n_states=[2, 2])
    >>> _ = builder.product([builder.indicator(0, 1), builder.indicator(1, 0)])
    >>> sample_missing(builder.build(), [[np.nan, 0.0]], random_state=0)
    array([[1., 0.]])
    """
    events = check_events(circuit, X)
    return _completed(Evaluator(circuit, events=events), events.rows, _seed(random_state))


def mpe(circuit: Circuit, X: Any) -> Floats:
    """Most probable explanation: fill the missing cells of each row with their joint mode.

    The answer is exact if the circuit is deterministic (``circuit.deterministic``). Otherwise sums
    are replaced by maxima, which finds the best completion within one induced tree: usually a good
    one, not always the most probable.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        The rows with their missing cells filled. The mode of a bin is its middle, and the mode of a
        tail its edge.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read.

    Notes
    -----
    The mode of a density depends on the units of the numeric columns; for tables with numbers the
    posterior mean (:func:`moments`) is often the better completion.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import mpe
    >>> builder = CircuitBuilder(n_states=[3])
    >>> _ = builder.discrete(0, np.log([0.2, 0.5, 0.3]))
    >>> mpe(builder.build(), [[np.nan], [2.0]])
    array([[1.],
           [2.]])
    """
    # No random number is drawn where each sum takes its greatest child: any seed will do.
    return _completed(Evaluator(circuit, maximise=True), check_rows(circuit, X), np.uint64(0))


def _completed(evaluator: Evaluator, rows: Floats, seed: np.uint64) -> Floats:
    """Rows with their missing cells filled: by modes if the evaluator maximises, else by draws."""
    out = rows.copy()

    def work(part: Floats, start: int) -> None:
        streams = start_streams(seed, len(part), start)
        for batch in evaluator.batches(part, start):
            # The others are too improbable for this batch, and follow in a batch of logs.
            index = batch.position[batch.evaluated]
            filled = part[index]
            # Row i of the table has event i.
            event = start + index
            _fill(evaluator, batch, batch.evaluated, streams[index], filled, event)
            out[event] = filled

    over_chunks(rows, work)
    return out


def _fill(
    evaluator: Evaluator,
    batch: Batch,
    column: Ints,
    streams: Streams,
    rows: Floats,
    event: Ints | None = None,
) -> None:
    """Fill the missing cells of rows.

    The values of ``rows[j]`` stand in column ``column[j]`` of the batch. It fulfils event
    ``event[j]``, or without ``event`` the only one.
    """
    n_slots = evaluator.program.n_slots
    # Nodes that are not alive together share a slot, as in the pass up.
    visitors = np.empty((n_slots, len(rows)), np.int64)
    n_visitors = np.zeros(n_slots, np.int64)
    score = np.empty(np.diff(evaluator.plan.ptr).max())
    # (n_rows, n_features): leaves from which cells are still to be drawn, else -1.
    reached = np.full(rows.shape, -1)
    settings = (evaluator.plan, evaluator.tables, evaluator.columns, evaluator.mode)
    evaluated = (batch.cells, batch.lines, batch.in_logs, evaluator.maximise)
    workspace = (visitors, n_visitors, score, reached)
    _descend(*settings, *evaluated, column, streams, *workspace, rows)
    # Random numbers are drawn in the order of the leaves, which no order of columns changes.
    variables, first_leaf = np.unique(evaluator.circuit.structure.leaves.var, return_index=True)
    is_unfinished = reached == _UNFINISHED
    by_leaf = variables[np.argsort(first_leaf)]
    for var in by_leaf[is_unfinished[:, by_leaf].any(axis=0)].tolist():
        place = np.flatnonzero(is_unfinished[:, var])
        drawn = rows[place, var]
        rows[place, var] = values_of_draws(evaluator.columns, var, drawn, streams, place)
        reached[place, var] = -1
    evaluator.reader.fill(reached, None if evaluator.maximise else streams, rows, event)


@kernel
def _descend(
    plan: Plan,
    tables: Tables,
    columns: Columns,
    mode: Floats,
    cells: Cells,
    lines: Floats,
    in_logs: bool,
    maximise: bool,
    column: Ints,
    streams: Streams,
    visitors: Ints,
    n_visitors: Ints,
    score: Floats,
    reached: Ints,
    rows: Floats,
) -> None:
    """Fill the missing cells of rows whose values stand in an evaluated batch.

    At each sum a row takes one child: drawn in proportion to weight times value, or (with
    ``maximise``) the greatest, the first among equals. All rows at one node move on before those at
    the next, so that memory is read in order. Cells of blocks are left missing.

    Parameters
    ----------
    plan, tables, columns : Plan, Tables and Columns
        The order of the nodes, the parameters, and the variables.
    mode : array of shape (n_leaves,)
        The mode of each leaf; read with ``maximise``.
    cells, lines, in_logs : Cells, array and bool
        The batch, see :class:`Batch`.
    maximise : bool
        Whether to take the greatest child and the mode.
    column : array of shape (n_rows,)
        Where the values of each row stand in the lines.
    streams : array of shape (n_rows,)
        The random stream of each row.
    visitors, n_visitors : arrays of shape (n_slots, n_rows) and (n_slots,)
        Workspace: the rows that have come to each node, as long as it is alive.
    score : array of shape (most_children,)
        Workspace.
    reached : array of shape (n_rows, n_features)
        Takes the leaf that a row has reached, at its first variable, where this leaf is a block
        or under intervals; and ``_UNFINISHED`` where a score or the state of a histogram has been
        drawn.
    rows : array of shape (n_rows, n_features)
        The rows to fill, with scores and states of histograms in place of values.
    """
    is_sum = plan.is_sum
    ptr = plan.ptr
    arg = plan.arg
    slot = plan.slot
    leaves = plan.leaves
    root = len(is_sum) - 1
    # All rows begin at the root; each node is handed those that have come to it.
    for j in range(len(rows)):
        visitors[slot[root], j] = j
    n_visitors[slot[root]] = len(rows)
    for i in range(root, -1, -1):
        begin = ptr[i]
        end = ptr[i + 1]
        for a in range(begin, end):
            # The last use on the way up is the first on the way down: until then the slot holds the
            # rows of another node.
            if plan.last_use[a] == 1:
                n_visitors[slot[arg[a]]] = 0
        # All rows of a node in a row, while its arguments are in the cache.
        for k in range(n_visitors[slot[i]]):
            j = visitors[slot[i], k]
            child_begin = begin
            child_end = end
            # A sum sends its row on to one child, a product to all of them.
            if is_sum[i] == 1:
                settings = plan, tables, cells, lines, in_logs, maximise
                child_begin = _chosen_child(*settings, i, column[j], score, streams, j)
                child_end = child_begin + 1
            for a in range(child_begin, child_end):
                child = arg[a]
                if child >= 0:
                    visitors[slot[child], n_visitors[slot[child]]] = j
                    n_visitors[slot[child]] += 1
                    continue
                leaf = ~child
                var = leaves.var[~child]
                # Blocks, and leaves under intervals, have lines behind those of the variables:
                # their cells are drawn afterwards.
                if leaves.line[leaf] != var:
                    reached[j, var] = leaf
                elif np.isnan(rows[j, var]):
                    # Observed cells stay as they are, whatever leaf the row has reached.
                    if maximise:
                        rows[j, var] = mode[leaf]
                    else:
                        facts = leaf_of(leaves, leaf), column_of(columns, var)
                        value, is_unfinished = draw(*facts, tables.table, columns.axis, streams, j)
                        rows[j, var] = value
                        if is_unfinished:
                            reached[j, var] = _UNFINISHED


@inlined
def _chosen_child(
    plan: Plan,
    tables: Tables,
    cells: Cells,
    lines: Floats,
    in_logs: bool,
    maximise: bool,
    i: int,
    r: int,
    score: Floats,
    streams: Streams,
    j: int,
) -> int:
    """The argument that a row takes at a sum.

    Parameters
    ----------
    plan, tables, cells, lines, in_logs, maximise, score, streams
        See :func:`_descend`.
    i, r, j : int
        The sum, the column of the row in the lines, and the row.
    """
    begin = plan.ptr[i]
    end = plan.ptr[i + 1]
    total = 0.0
    chosen = begin
    table = tables.log_table if in_logs else tables.table
    weight = tables.log_weight if in_logs else tables.weight
    for a in range(begin, end):
        value = argument_value(plan, table, cells, lines, a, r, in_logs)
        # Draws need probabilities. Maxima need only an order, and their lines hold logs.
        if maximise:
            score[a - begin] = weight[a] + value
            if score[a - begin] > score[chosen - begin]:
                chosen = a
        elif in_logs:
            # Relative to the value of the sum, no exponential overflows.
            score[a - begin] = fast_exp(weight[a] + value - lines[i, r])
        else:
            score[a - begin] = weight[a] * value
        # The scores need not sum to one: the draw is from 0 to their total.
        total += score[a - begin]
    if maximise:
        return chosen
    return begin + draw_index(score, np.int64(0), end - begin, uniform(streams, j) * total)


def _seed(random_state: Any) -> np.uint64:
    # Two draws of 31 bits make a seed: 32-bit integers are the largest on some systems.
    high = np.iinfo(np.int32).max
    high_bits, low_bits = check_random_state(random_state).randint(high, size=2)
    return np.uint64(high_bits) << np.uint64(31) | np.uint64(low_bits)
