"""The expected value of a sum over paths, such as those of a forest, given the cells of a row.

What a path says of the missing cells of a row is an event. The value of the sum is the sum over
events of their probability times the values of their paths. ``tests/naive/expected.py`` says the
same by all completions of a row.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats, Ints, offsets, ranges
from skpc._jit import inlined, kernel
from skpc.circuit import Circuit
from skpc.queries._conditionals import Conditionals, Reached, conditionals
from skpc.queries.passes.plan import Plan
from skpc.queries.passes.rows import check_rows, over_chunks, refuse_blocks
from skpc.queries.passes.upward import Evaluator
from skpc.variables.events import Events

#: Events that are evaluated at a time: so many that the lines of living nodes stay in the cache.
_EVENTS = 1024
#: Rows of a batch, which share one table of the probabilities of statements under leaves.
_ROWS = 512


class Paths(NamedTuple):
    """A function of rows: the sum of the values of all paths whose statements a row fulfils.

    Parameters
    ----------
    events : Events
        Distinct statements, each about one column. The first holds for every row.
    column : ndarray of int of shape (n_statements,)
        The column of each statement.
    ptr, said : ndarrays of int
        The statements of path ``i`` are ``said[ptr[i] : ptr[i + 1]]``, at most one of each column.
    value : ndarray of shape (n_paths, n_outputs)
        What each path adds.
    """

    events: Events
    column: Ints
    ptr: Ints
    said: Ints
    value: Floats


def expected_value(circuit: Circuit, X: Any, paths: Paths, holds: Bools) -> Floats:
    """Expectation of a sum over paths, given the cells that each row has.

    Parameters
    ----------
    circuit : Circuit
        The distribution. Its leaves must have one variable each.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks missing cells.
    paths : Paths
        The function.
    holds : ndarray of bool of shape (n_rows, n_statements)
        Whether each statement is true of the row; not read where its cell is missing.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        Exact up to rounding.

    Raises
    ------
    ValueError
        If the cells of a row have probability zero, or the circuit has blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import Events, Paths, expected_value
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.25, 0.75]))
    >>> low, high = np.array([-0.5, 0.5]), np.array([0.5, 1.5])
    >>> said, nothing = np.array([1, 2]), np.full((3, 1), np.nan)
    >>> events = Events.from_intervals(nothing, said, np.array([0, 0]), low, high)
    >>> value, ptr = np.array([[0.0], [4.0]]), np.array([0, 1, 2])
    >>> paths = Paths(events, np.array([0, 0, 0]), ptr, said, value)
    >>> expected_value(
    ...     builder.build(), nothing[:1], paths, holds=np.full((1, 3), True)
    ... )
    array([[3.]])
    """
    # Most probabilities in a table.
    most_probabilities = 2**24
    refuse_blocks(circuit)
    rows = check_rows(circuit, X)
    # A set of statements is known by the sum of their codes.
    code = np.random.RandomState(0).randint(2**63, size=len(paths.column), dtype=np.int64)
    # The first statement always holds: it changes no set, and its probability is not looked up.
    code[0] = 0
    statements_of = [
        1 + np.flatnonzero(paths.column[1:] == var) for var in range(circuit.n_features)
    ]
    # The place of each statement among those of its column.
    place = np.empty(len(paths.column), dtype=np.uint32)
    for variable_statements in statements_of:
        place[variable_statements] = np.arange(len(variable_statements))
    # The size of the table if the rows of a batch reach all leaves.
    n_entries = sum(len(statements_of[var]) for var in circuit.structure.leaves.var.tolist())
    # A single row reaches few leaves, and so needs a small table.
    size = _ROWS if n_entries <= most_probabilities else 1
    evaluator = Evaluator(circuit, size=size)
    out = np.zeros((len(rows), paths.value.shape[1]))

    def work(part: Floats, start: int) -> None:
        for batch in conditionals(evaluator, part):
            position = start + batch.position
            known = ~np.isnan(batch.cells)
            # (n_batch, n_outputs), beside holds[position] of shape (n_batch, n_statements).
            total = np.zeros_like(out[position])
            tables = _tables(circuit, evaluator.plan, paths.events, statements_of, batch)
            # Each thread needs lines of its own.
            lines = np.empty((evaluator.program.n_slots, _EVENTS))
            state = (batch.reached, np.ascontiguousarray(holds[position]), known)
            _add_expectations(evaluator.plan, paths, code, place, *state, *tables, lines, total)
            out[position] = total

    over_chunks(rows, work, size)
    return out


def _tables(
    circuit: Circuit, plan: Plan, events: Events, statements_of: list[Ints], batch: Conditionals
) -> tuple[Ints, Floats]:
    """The table of the probabilities of statements under the leaves that rows of a batch reach.

    Returns
    -------
    first_entry : ndarray of shape (n_leaves,)
        Where the entries of each leaf begin, one for each statement of its column.
    table : ndarray of shape (n_entries,)
        The probabilities.
    """
    child = plan.arg[batch.reached.arg]
    reached = np.unique(~child[child < 0])
    first_entry = np.zeros(len(plan.leaves.var), dtype=np.int64)
    parts = [np.empty(0)]
    begin = 0
    for var, statements in enumerate(statements_of):
        leaf = reached[plan.leaves.var[reached] == var]
        if len(leaf) and len(statements):
            size = np.diff(events.ptr)[statements]
            variable_events = ranges(events.ptr[statements], size)
            low = events.low[variable_events]
            # Many intervals share their ends, of which there are few.
            ends, at_end = np.unique([low, events.high[variable_events]], return_inverse=True)
            # (n_leaves, n_ends): intervals are differences of these.
            below = circuit.leaf_forms(var, leaf).between(np.full(len(ends), -np.inf), ends)
            # numpy versions disagree on the shape of the inverse.
            at_low, at_high = at_end.reshape(2, -1)
            prob = below[:, at_high] - below[:, at_low]
            # A statement with several intervals has the sum of their probabilities.
            if prob.shape[1] > len(statements):
                prob = np.add.reduceat(prob, offsets(size)[:-1], axis=1)
            # Leaf by leaf, one entry for each statement of the column.
            first_entry[leaf] = begin + np.arange(len(leaf)) * len(statements)
            parts.append(prob.ravel())
            begin += prob.size
    return first_entry, np.concatenate(parts)


@kernel(new_arrays=True)
def _add_expectations(
    plan: Plan,
    paths: Paths,
    code: Ints,
    place: NDArray[np.uint32],
    reached: Reached,
    holds: Bools,
    known: Bools,
    first_entry: Ints,
    table: Floats,
    lines: Floats,
    out: Floats,
) -> None:
    """Add to each row the values of all paths times their probabilities given the row.

    Parameters
    ----------
    plan, reached : Plan and Reached
        The order of the nodes, and which of them each row reaches.
    paths : Paths
        The function.
    code : array of shape (n_statements,)
        A random integer for each statement, 0 for the first.
    place : array of shape (n_statements,)
        Where each statement stands in the tables of its column.
    holds : array of shape (n_rows, n_statements)
        Whether each statement is true of the row, read where its cell is known.
    known : array of shape (n_rows, n_features)
        Which cells are known.
    first_entry, table : arrays of shape (n_leaves,) and (n_entries,)
        See :func:`_tables`.
    lines : array of shape (n_slots, n_events)
        Workspace: the values of nodes that are alive together.
    out : array of shape (n_rows, n_outputs)
        Takes the expectations.
    """
    n_paths, n_outputs = paths.value.shape
    n_features = known.shape[1]
    size = lines.shape[1]
    root = len(plan.is_sum) - 1
    path_of_event = np.empty(n_paths, np.int64)
    total = np.empty((n_paths, n_outputs))
    # With twice as many places as sets, a hash table finds most sets at once.
    n_places = 2
    while n_places < 2 * n_paths:
        n_places *= 2
    keys = np.empty(n_places, np.int64)
    event_of_place = np.empty(n_places, np.int32)
    is_false = np.empty(len(code), np.bool_)
    # The codes of statements about missing cells, 0 for the others.
    open_code = np.empty(len(code), np.int64)
    # For each column: how many events have a statement about it, which events, and the places of
    # the statements in the table.
    n_said = np.empty(n_features, np.int64)
    said = np.empty((2, n_features, size), np.uint32)
    is_one = np.empty(len(plan.is_sum), np.int8)
    for r in range(len(known)):
        for s in range(len(code)):
            is_known = known[r, paths.column[s]]
            open_code[s] = 0 if is_known else code[s]
            is_false[s] = is_known and not holds[r, s]
        n_events = _distinct_events(
            paths, open_code, is_false, keys, event_of_place, path_of_event, total
        )
        # As many events at a time as the lines have room for.
        for begin in range(0, n_events, size):
            n = min(size, n_events - begin)
            n_said[:] = 0
            for t in range(n):
                p = path_of_event[begin + t]
                for k in range(paths.ptr[p], paths.ptr[p + 1]):
                    s = paths.said[k]
                    # Statements about known cells are true: other paths have been left out.
                    if open_code[s] != 0:
                        var = paths.column[s]
                        said[0, var, n_said[var]] = t
                        said[1, var, n_said[var]] = place[s]
                        n_said[var] += 1
            for e in range(reached.ptr[r], reached.ptr[r + 1]):
                _evaluate(plan, reached, e, n_said, said, n, first_entry, table, is_one, lines)
            for t in range(n):
                # Where no event has a statement, no line has been written.
                prob = 1.0 if is_one[root] == 1 else lines[plan.slot[root], t]
                for k in range(n_outputs):
                    out[r, k] += prob * total[begin + t, k]


@inlined
def _distinct_events(
    paths: Paths,
    open_code: Ints,
    is_false: Bools,
    keys: Ints,
    event_of_place: NDArray[np.int32],
    path_of_event: Ints,
    total: Floats,
) -> int:
    """List the distinct events of the paths that a row may take; return their number.

    Parameters
    ----------
    paths : Paths
        The function.
    open_code : array of shape (n_statements,)
        A random integer for each statement about a missing cell, 0 for the others.
    is_false : array of shape (n_statements,)
        Which statements the known cells of the row contradict.
    keys, event_of_place : arrays of shape (n_places,)
        Workspace: a hash table with the sum of the codes of an event, and its number.
    path_of_event : array of shape (n_paths,)
        Takes one of the paths of each event.
    total : array of shape (n_paths, n_outputs)
        Takes the sums of the values of the paths of each event.
    """
    n_events = 0
    mask = len(keys) - 1
    event_of_place[:] = -1
    for p in range(len(paths.ptr) - 1):
        key = np.int64(0)
        is_possible = True
        for k in range(paths.ptr[p], paths.ptr[p + 1]):
            # Statements about known cells add 0: paths that differ by these alone are one event.
            key += open_code[paths.said[k]]
            is_possible &= not is_false[paths.said[k]]
        if not is_possible:
            continue
        # The number of places is a power of two, so that the mask takes the remainder.
        slot = key & mask
        # If another event has the place, the next one is tried.
        while event_of_place[slot] >= 0 and keys[slot] != key:
            slot = (slot + 1) & mask
        if event_of_place[slot] < 0:
            event_of_place[slot] = n_events
            keys[slot] = key
            path_of_event[n_events] = p
            total[n_events] = 0.0
            n_events += 1
        for j in range(total.shape[1]):
            total[event_of_place[slot], j] += paths.value[p, j]
    return n_events


@inlined
def _evaluate(
    plan: Plan,
    reached: Reached,
    e: int,
    n_said: Ints,
    said: NDArray[np.uint32],
    n: int,
    first_entry: Ints,
    table: Floats,
    is_one: NDArray[np.int8],
    lines: Floats,
) -> None:
    """Write the probabilities of n events under a node that a row reaches into its line.

    Parameters
    ----------
    plan, reached, first_entry, table, lines
        See :func:`_add_expectations`.
    e : int
        The entry of the node in ``reached``.
    n_said : array of shape (n_features,)
        How many statements about each column the events have.
    said : array of shape (2, n_features, n_events)
        For each column the events that have a statement about it, and the places of the statements
        in the table.
    n : int
        How many events there are.
    is_one : array of shape (n_inner,)
        Takes whether no event has a statement about the scope of the node: all probabilities are
        one then, and the line is not written.
    """
    i = reached.node[e]
    is_sum = plan.is_sum[i] == 1
    line = lines[plan.slot[i]]
    # The weight of all children of value one; that of leaves is corrected below.
    constant = 0.0
    n_inner = 0
    n_leaves = 0
    for k in range(reached.arg_ptr[e], reached.arg_ptr[e + 1]):
        child = plan.arg[reached.arg[k]]
        weight = reached.weight[k]
        if child < 0 or is_one[child] == 1:
            constant += weight
            # Leaves count as 1 at first, and are corrected for events with statements about them.
            n_leaves += child < 0 and n_said[plan.leaves.var[~child]] > 0
            continue
        source = lines[plan.slot[child]]
        # The first child overwrites the line, which held values of another node.
        if n_inner == 0:
            for t in range(n):
                line[t] = weight * source[t]
        elif is_sum:
            for t in range(n):
                line[t] += weight * source[t]
        else:
            for t in range(n):
                line[t] *= source[t]
        n_inner += 1
    is_one[i] = 1 if n_inner + n_leaves == 0 else 0
    # Only leaves have statements, which are going to correct a line that nobody has written.
    if n_inner == 0 and n_leaves > 0:
        line[:n] = constant if is_sum else 1.0
    elif is_sum and constant > 0.0:
        for t in range(n):
            line[t] += constant
    if n_leaves > 0:
        for k in range(reached.arg_ptr[e], reached.arg_ptr[e + 1]):
            child = plan.arg[reached.arg[k]]
            if child < 0:
                var = plan.leaves.var[~child]
                begin = first_entry[~child]
                weight = reached.weight[k] if is_sum else -1.0
                _correct_line(said[:, var], n_said[var], table[begin:], weight, line)


@inlined
def _correct_line(
    said: NDArray[np.uint32], n_statements: int, prob: Floats, weight: float, line: Floats
) -> None:
    """Correct the line of a node, where a leaf counted as 1, for events with a statement about it.

    Parameters
    ----------
    said : array of shape (2, n_events)
        The statements about the column of the leaf; see :func:`_evaluate`.
    n_statements : int
        How many of them there are.
    prob : array of shape (n_entries,)
        The table, from the entries of the leaf on.
    weight : float
        The weight of the leaf in a sum; -1 in a product.
    line : array of shape (n_events,)
        The values of the node.
    """
    # An event has one statement about a column at most, so that no value is corrected twice.
    if weight < 0.0:
        for j in range(n_statements):
            line[said[0, j]] *= prob[said[1, j]]
    else:
        for j in range(n_statements):
            line[said[0, j]] += weight * (prob[said[1, j]] - 1.0)
