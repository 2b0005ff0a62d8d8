"""Which rows does the circuit generate, and how does it complete a row: by a draw, or best?

Rows walk from the root to one leaf a variable. ``tests/naive/circuit.py`` says the same by
recursion over nodes, one row at a time.
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

#: In place of a leaf: what has been drawn stands for a value.
_OPEN = -2


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
    nothing = np.full((1, circuit.n_features), np.nan)
    # A row without cells still has those that the circuit has been conditioned on.
    events = check_events(circuit, nothing if given is None else given)
    evaluator = Evaluator(circuit, size=1, events=events)
    # All rows start from the same cells, so one evaluated row serves them all. An improbable one
    # comes again, in logs.
    *_, batch = evaluator.batches(events.rows)
    rows = np.repeat(events.rows, n_samples, axis=0)
    seed = _seed(random_state)

    def work(part: Floats, start: int) -> None:
        # All rows read the values of the one that was evaluated.
        column = np.zeros(len(part), dtype=np.int64)
        _fill(evaluator, batch, column, start_streams(seed, len(part), start), part)

    # Streams belong to rows, so that the draws do not depend on the chunks.
    over_chunks(rows, work, chunk=2048)
    return rows


def sample_missing(circuit: Circuit, X: Any, random_state: Any = None) -> Floats:
    """Fill the missing cells of each row with one joint draw given its observed cells.

    Of several ranges on one block of numbers, each is drawn from given those before it: the draws
    lie in the ranges, and are exact where a row has one of them.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features), or Events
        Encoded rows; NaN marks the missing cells. Or events, one for each row, which it fulfils.
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
    # The greatest child needs no random number.
    return _completed(Evaluator(circuit, maximise=True), check_rows(circuit, X), np.uint64(0))


def _completed(evaluator: Evaluator, rows: Floats, seed: np.uint64) -> Floats:
    """Rows with their missing cells filled, by draws or with maxima as the evaluator takes them."""
    out = rows.copy()

    def work(part: Floats, start: int) -> None:
        streams = start_streams(seed, len(part), start)
        for batch in evaluator.batches(part, start):
            # Rows that are too improbable for this batch come again in one of logs.
            index = batch.position[batch.evaluated]
            filled = part[index]
            # Events count the rows of the whole table.
            numbers = start + index
            _fill(evaluator, batch, batch.evaluated, streams[index], filled, numbers)
            out[start + index] = filled

    over_chunks(rows, work)
    return out


def _fill(
    evaluator: Evaluator,
    batch: Batch,
    column: Ints,
    streams: Streams,
    rows: Floats,
    index: Ints | None = None,
) -> None:
    """Fill the missing cells of ``rows[j]``, whose values stand in column ``column[j]``.

    It stands for event ``index[j]``, or for the only one.
    """
    n_slots = evaluator.program.n_slots
    # Nodes whose lines are not alive together share a slot here, too.
    visitors = np.empty((n_slots, len(rows)), np.int64)
    n_visitors = np.zeros(n_slots, np.int64)
    score = np.empty(np.diff(evaluator.plan.ptr).max())
    # (n_rows, n_features), with -1 where no leaf of several variables has been reached.
    owner = np.full(rows.shape, -1)
    settings = (evaluator.plan, evaluator.tables, evaluator.columns, evaluator.mode)
    evaluated = (batch.cells, batch.lines, batch.in_logs, evaluator.maximise)
    workspace = (visitors, n_visitors, score, owner)
    _descend(*settings, *evaluated, column, streams, *workspace, rows)
    # Streams are read as leaves stand in the circuit, which no order of columns changes.
    variables, first_leaf = np.unique(evaluator.circuit.structure.leaves.var, return_index=True)
    is_open = owner == _OPEN
    of_circuit = variables[np.argsort(first_leaf)]
    for var in of_circuit[is_open[:, of_circuit].any(axis=0)].tolist():
        place = np.flatnonzero(is_open[:, var])
        drawn = rows[place, var]
        rows[place, var] = values_of_draws(evaluator.columns, var, drawn, streams, place)
        owner[place, var] = -1
    evaluator.reader.fill(owner, None if evaluator.maximise else streams, rows, index)


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
    owner: Ints,
    rows: Floats,
) -> None:
    """Fill the missing cells of rows whose values stand in an evaluated batch.

    At each sum a row takes one child: drawn in proportion to weight times value, or (with
    ``maximise``) the greatest, the first among equals. All rows move together, one node after the
    other, so that memory is read in order. Cells of leaves of several variables are left missing.

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
        Workspace: the rows that have come to each living node.
    score : array of shape (most_children,)
        Workspace.
    owner : array of shape (n_rows, n_features)
        Takes the leaf of several variables that a row has reached, at the first of these; and
        ``_OPEN`` where a score has been drawn, or the state of a histogram.
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
            # Going down, the last use is the first: the line still holds another node's rows.
            if plan.last_use[a] == 1:
                n_visitors[slot[arg[a]]] = 0
        # All rows at a node one after the other, while its arguments are in the cache.
        for k in range(n_visitors[slot[i]]):
            j = visitors[slot[i], k]
            reached_first = begin
            last = end
            # A sum sends its row on to one child, a product to all of them.
            if is_sum[i] == 1:
                settings = plan, tables, cells, lines, in_logs, maximise
                reached_first = _chosen_child(*settings, i, column[j], score, streams, j)
                last = reached_first + 1
            for a in range(reached_first, last):
                child = arg[a]
                if child >= 0:
                    visitors[slot[child], n_visitors[slot[child]]] = j
                    n_visitors[slot[child]] += 1
                    continue
                leaf = ~child
                var = leaves.var[~child]
                # The cells of a leaf of several variables are drawn together, after the walk.
                if leaves.line[leaf] != var:
                    owner[j, var] = leaf
                elif np.isnan(rows[j, var]):
                    # Observed cells stay as they are, whatever leaf they have come to.
                    if maximise:
                        rows[j, var] = mode[leaf]
                    else:
                        facts = leaf_of(leaves, leaf), column_of(columns, var)
                        value, is_open = draw(*facts, tables.table, columns.axis, streams, j)
                        rows[j, var] = value
                        if is_open:
                            owner[j, var] = _OPEN


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
        # Draws need probabilities, maxima only an order: their lines are in logs.
        if maximise:
            score[a - begin] = weight[a] + value
            if score[a - begin] > score[chosen - begin]:
                chosen = a
        elif in_logs:
            # Relative to the value of the sum, no exponential overflows.
            score[a - begin] = fast_exp(weight[a] + value - lines[i, r])
        else:
            score[a - begin] = weight[a] * value
        # Scores of draws need not sum to one: their total takes part in the draw.
        total += score[a - begin]
    if maximise:
        return chosen
    return begin + draw_index(score, np.int64(0), end - begin, uniform(streams, j) * total)


def _seed(random_state: Any) -> np.uint64:
    # Two draws of 31 bits, which the integers of every system hold, make a seed.
    high = np.iinfo(np.int32).max
    high_bits, low_bits = check_random_state(random_state).randint(high, size=2)
    return np.uint64(high_bits) << np.uint64(31) | np.uint64(low_bits)
