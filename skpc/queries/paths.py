"""What is the expected value of a sum over paths, such as a forest, given the cells of a row?

``tests/naive/expected.py`` says the same by all completions of a row.
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

#: Events that are evaluated at a time: their lines stay in the cache.
_EVENTS = 1024
#: Rows of a batch, and probabilities of statements under leaves that it may need.
_ROWS = 512


class Paths(NamedTuple):
    """A function of rows: the sum of the values of all paths whose statements a row fulfils.

    Parameters
    ----------
    events : Events
        Distinct statements, each about one column; the first one says nothing.
    column : ndarray of int of shape (n_statements,)
        Their columns.
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
        Whether cells that rows have are as a statement says; what it says of missing ones is
        arbitrary.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        Exact up to rounding.

    Raises
    ------
    ValueError
        If the cells of a row have probability zero, or leaves have several variables.

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
    probabilities = 2**24
    refuse_blocks(circuit)
    rows = check_rows(circuit, X)
    # Sums of random integers tell sets of statements from each other.
    code = np.random.RandomState(0).randint(2**63, size=len(paths.column), dtype=np.int64)
    # The empty statement must not change a sum.
    code[0] = 0
    # The first statement has no probability: nothing looks it up.
    statements_of = [
        1 + np.flatnonzero(paths.column[1:] == var) for var in range(circuit.n_features)
    ]
    # The place of each statement among those of its column.
    place = np.empty(len(paths.column), dtype=np.uint32)
    for variable_statements in statements_of:
        place[variable_statements] = np.arange(len(variable_statements))
    # The probabilities of all statements under all leaves, if the rows of a batch reach all.
    n_entries = sum(len(statements_of[var]) for var in circuit.structure.leaves.var.tolist())
    # Each row reaches a few leaves, and many rows reach most.
    size = _ROWS if n_entries <= probabilities else 1
    evaluator = Evaluator(circuit, size=size)
    out = np.zeros((len(rows), paths.value.shape[1]))

    def work(part: Floats, start: int) -> None:
        for given in conditionals(evaluator, part):
            position = start + given.position
            known = ~np.isnan(given.cells)
            # (n_given, n_outputs), beside holds[position] of shape (n_given, n_statements).
            total = np.zeros_like(out[position])
            tables = _tables(circuit, evaluator.plan, paths.events, statements_of, given)
            # Threads write values of their own.
            lines = np.empty((evaluator.program.n_slots, _EVENTS))
            state = (given.reached, np.ascontiguousarray(holds[position]), known)
            _follow(evaluator.plan, paths, code, place, *state, *tables, lines, total)
            out[position] = total

    over_chunks(rows, work, size)
    return out


def _tables(
    circuit: Circuit, plan: Plan, events: Events, statements_of: list[Ints], given: Conditionals
) -> tuple[Ints, Floats]:
    """Probabilities of statements under each leaf that a row reaches, and where they begin."""
    # The rows of a batch share one table of all leaves that any of them reaches.
    child = plan.arg[given.reached.arg]
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
            # Many intervals have few ends.
            ends, at_end = np.unique([low, events.high[variable_events]], return_inverse=True)
            # (n_leaves, n_ends), of which intervals are differences.
            below = circuit.leaf_forms(var, leaf).between(np.full(len(ends), -np.inf), ends)
            # numpy versions disagree on the shape of the inverse.
            at_low, at_high = at_end.reshape(2, -1)
            prob = below[:, at_high] - below[:, at_low]
            # A statement with several intervals has the sum of their probabilities.
            if prob.shape[1] > len(statements):
                prob = np.add.reduceat(prob, offsets(size)[:-1], axis=1)
            # Leaf by leaf, the statements of the column stand end to end.
            first_entry[leaf] = begin + np.arange(len(leaf)) * len(statements)
            parts.append(prob.ravel())
            begin += prob.size
    return first_entry, np.concatenate(parts)


@kernel(new_arrays=True)
def _follow(
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
    """Add up the values of paths, times their probabilities, for each row.

    Parameters
    ----------
    plan, reached : Plan and Reached
        The order of the nodes, and which of them each row reaches.
    paths : Paths
        The function.
    code : array of shape (n_statements,)
        A random integer for each statement, 0 for the one that says nothing.
    place : array of shape (n_statements,)
        Where each statement stands in the tables of its column.
    holds : array of shape (n_rows, n_statements)
        Whether the known cells are as each statement says.
    known : array of shape (n_rows, n_features)
        Whether statements about each cell are decided.
    first_entry, table : arrays
        Where the probabilities of statements begin for each leaf, and these.
    lines : array of shape (n_slots, n_events)
        Takes the values of nodes that are alive together.
    out : array of shape (n_rows, n_outputs)
        Takes the expectations.
    """
    n_paths, n_outputs = paths.value.shape
    n_features = known.shape[1]
    size = lines.shape[1]
    root = len(plan.is_sum) - 1
    path_of = np.empty(n_paths, np.int64)
    total = np.empty((n_paths, n_outputs))
    # A table of twice as many places finds a set of statements at the first look.
    n_places = 2
    while n_places < 2 * n_paths:
        n_places *= 2
    keys = np.empty(n_places, np.int64)
    event_at = np.empty(n_places, np.int32)
    fails = np.empty(len(code), np.bool_)
    # The codes of the statements that a row leaves open, 0 for the others.
    open_code = np.empty(len(code), np.int64)
    count = np.empty(n_features, np.int64)
    # For each column: the events that say something of it, and the place of what they say.
    said = np.empty((2, n_features, size), np.uint32)
    is_one = np.empty(len(plan.is_sum), np.int8)
    for r in range(len(known)):
        for s in range(len(code)):
            is_known = known[r, paths.column[s]]
            open_code[s] = 0 if is_known else code[s]
            fails[s] = is_known and not holds[r, s]
        n_events = _distinct_events(paths, open_code, fails, keys, event_at, path_of, total)
        # As many events at a time as the lines have room for.
        for begin in range(0, n_events, size):
            n = min(size, n_events - begin)
            count[:] = 0
            for t in range(n):
                p = path_of[begin + t]
                for k in range(paths.ptr[p], paths.ptr[p + 1]):
                    s = paths.said[k]
                    # What the row's own cells decide has been checked already.
                    if open_code[s] != 0:
                        var = paths.column[s]
                        said[0, var, count[var]] = t
                        said[1, var, count[var]] = place[s]
                        count[var] += 1
            for e in range(reached.ptr[r], reached.ptr[r + 1]):
                _evaluate(plan, reached, e, count, said, n, first_entry, table, is_one, lines)
            for t in range(n):
                # A line is not even written where no event says anything below.
                prob = 1.0 if is_one[root] == 1 else lines[plan.slot[root], t]
                for k in range(n_outputs):
                    out[r, k] += prob * total[begin + t, k]


@inlined
def _distinct_events(
    paths: Paths,
    open_code: Ints,
    fails: Bools,
    keys: Ints,
    event_at: NDArray[np.int32],
    path_of: Ints,
    total: Floats,
) -> int:
    """List what the paths that a row may take say of its missing cells, each event once.

    Parameters
    ----------
    paths : Paths
        The function.
    open_code : array of shape (n_statements,)
        A random integer for each statement about a missing cell, 0 for the others.
    fails : array of shape (n_statements,)
        Which statements the row contradicts.
    keys, event_at : arrays
        A hash table: the sums of codes that have a place, and the events there.
    path_of : array of shape (n_paths,)
        Takes a path that says what each event does.
    total : array of shape (n_paths, n_outputs)
        Takes the sums of the values of the paths of each event.
    """
    n_events = 0
    mask = len(keys) - 1
    event_at[:] = -1
    for p in range(len(paths.ptr) - 1):
        key = np.int64(0)
        is_possible = True
        for k in range(paths.ptr[p], paths.ptr[p + 1]):
            # Statements about known cells add 0: paths that differ by these alone are one event.
            key += open_code[paths.said[k]]
            is_possible &= not fails[paths.said[k]]
        if not is_possible:
            continue
        # The number of places is a power of two, so that the mask takes the remainder.
        slot = key & mask
        # Taken by another set: the next free place is tried.
        while event_at[slot] >= 0 and keys[slot] != key:
            slot = (slot + 1) & mask
        if event_at[slot] < 0:
            event_at[slot] = n_events
            keys[slot] = key
            path_of[n_events] = p
            total[n_events] = 0.0
            n_events += 1
        for j in range(total.shape[1]):
            total[event_at[slot], j] += paths.value[p, j]
    return n_events


@inlined
def _evaluate(
    plan: Plan,
    reached: Reached,
    e: int,
    count: Ints,
    said: NDArray[np.uint32],
    n: int,
    first_entry: Ints,
    table: Floats,
    is_one: NDArray[np.int8],
    lines: Floats,
) -> None:
    """Evaluate a node that a row reaches on n events, ``is_one`` where none says anything below.

    Parameters
    ----------
    plan, reached, first_entry, table, is_one, lines
        See :func:`_follow`.
    e : int
        The entry of the node.
    count : array of shape (n_features,)
        How many statements about each column the events have.
    said : array of shape (2, n_features, n_events)
        The event of each, and the place of the statement.
    n : int
        How many events there are.
    """
    i = reached.node[e]
    is_sum = plan.is_sum[i] == 1
    line = lines[plan.slot[i]]
    # The weight of all children below which nothing is said; that of leaves is corrected later.
    constant = 0.0
    n_inner = 0
    n_leaves = 0
    for k in range(reached.arg_ptr[e], reached.arg_ptr[e + 1]):
        child = plan.arg[reached.arg[k]]
        weight = reached.weight[k]
        if child < 0 or is_one[child] == 1:
            constant += weight
            # Leaves count as 1 at first, and are corrected where events say something of them.
            n_leaves += child < 0 and count[plan.leaves.var[~child]] > 0
            continue
        source = lines[plan.slot[child]]
        # The first child writes the line, whatever stood in it.
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
    # No child has written the line, but leaves are going to correct it.
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
                # Leaves without statements have a count of 0 and change nothing.
                weight = reached.weight[k] if is_sum else -1.0
                _meet_leaf(said[:, var], count[var], table[begin:], weight, line)


@inlined
def _meet_leaf(
    said: NDArray[np.uint32], n_statements: int, prob: Floats, weight: float, line: Floats
) -> None:
    """Correct the events that say something about the column of a leaf; others have the factor 1.

    Parameters
    ----------
    said : array of shape (2, n_statements)
        Those of the column; see :func:`_evaluate`.
    n_statements : int
        How many these are.
    prob : array
        The probabilities of statements under the leaf.
    weight : float
        That of the leaf in its sum; -1 in a product.
    line : array of shape (n_events,)
        The values of the node.
    """
    # Events that say something of a column say it once, so that no entry is met twice.
    if weight < 0.0:
        for j in range(n_statements):
            line[said[0, j]] *= prob[said[1, j]]
    else:
        for j in range(n_statements):
            # The leaf has been counted as 1 before.
            line[said[0, j]] += weight * (prob[said[1, j]] - 1.0)
