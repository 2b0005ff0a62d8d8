"""What is the expected value of a sum over paths, such as a forest, given the cells of a row?

``tests/naive/expected.py`` says the same by all completions of a row.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats, Ints, within
from skpc._jit import inlined, kernel
from skpc.circuit import Circuit
from skpc.queries._conditionals import Conditionals, Reached, conditionals
from skpc.queries.passes.plan import Plan
from skpc.queries.passes.rows import check_rows, over_chunks, refuse_multivariate
from skpc.queries.passes.upward import Evaluator
from skpc.variables.events import Events

#: Events that are evaluated at a time: their lines stay in the cache.
_EVENTS = 256
#: Rows of a batch, and probabilities of statements under leaves that it may need.
_ROWS, _PROBABILITIES = 256, 2**24


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
    refuse_multivariate(circuit)
    rows = check_rows(circuit, X)
    # Sums of random integers tell sets of statements from each other.
    code = np.random.RandomState(0).randint(2**63, size=len(paths.column), dtype=np.int64)
    code[0] = 0
    count = np.bincount(paths.column[1:], minlength=circuit.n_features)
    # Statements are counted among those of their column, from 1.
    number = np.zeros(len(paths.column), dtype=np.int64)
    number[1 + np.argsort(paths.column[1:], kind="stable")] = 1 + within(count)
    n_entries = int((1 + count[circuit.structure.leaves.var]).sum())
    # Each row reaches a few leaves, and many rows reach most.
    size = _ROWS if n_entries <= _PROBABILITIES else 1
    evaluator, out = Evaluator(circuit, size=size), np.zeros((len(rows), paths.value.shape[1]))

    def work(part: Floats, start: int) -> None:
        for given in conditionals(evaluator, part):
            place = start + given.position
            known, total = ~np.isnan(given.cells) | (count == 0), np.zeros_like(out[place])
            tables = _tables(circuit, evaluator.plan, paths, given)
            lines = np.empty((evaluator.program.n_slots + 1, _EVENTS))
            state = (given.reached, np.ascontiguousarray(holds[place]), known)
            _follow(evaluator.plan, paths, number, code, *state, *tables, lines, total)
            out[place] = total

    over_chunks(rows, work, size)
    return out


def _tables(circuit: Circuit, plan: Plan, paths: Paths, given: Conditionals) -> tuple[Ints, Floats]:
    """Probabilities of the statements about its variable under each leaf that a row reaches.

    The first entry of a leaf is one, for nothing said; also where the table of each leaf begins.
    """
    child, events = plan.arg[given.reached.arg], paths.events
    reached, first = np.unique(~child[child < 0]), np.zeros(len(plan.leaves.var), dtype=np.int64)
    parts, begin = [np.empty(0)], 0
    for var in np.unique(paths.column[1:]).tolist():
        leaf = reached[plan.leaves.var[reached] == var]
        some = (events.column == var) & (events.event > 0)
        form = circuit.leaf_forms(var, leaf)
        # Many intervals have few ends.
        ends, place = np.unique([events.low[some], events.high[some]], return_inverse=True)
        below = form.between(np.full(len(ends), -np.inf), ends)
        low, high = place.reshape(2, -1)
        # Intervals of one statement are alternatives.
        starts = np.unique(events.event[some], return_index=True)[1]
        prob = np.add.reduceat(below[:, high] - below[:, low], starts, axis=1)
        table = np.hstack([np.ones((len(leaf), 1)), prob])
        first[leaf] = begin + np.arange(len(leaf)) * table.shape[1]
        parts.append(table.ravel())
        begin += table.size
    return first, np.concatenate(parts)


@kernel(new_arrays=True)
def _follow(
    plan: Plan,
    paths: Paths,
    number: Ints,
    code: Ints,
    reached: Reached,
    holds: Bools,
    known: Bools,
    first: Ints,
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
    number, code : arrays of shape (n_statements,)
        The number of a statement among those of its column, 0 for none; and a random integer.
    holds : array of shape (n_rows, n_statements)
        Whether the known cells are as each statement says.
    known : array of shape (n_rows, n_features)
        Whether statements about each cell are decided.
    first, table : arrays
        Where the probabilities of each leaf begin in the table, and these.
    lines : array of shape (n_slots + 1, n_events)
        Takes the values of nodes that are alive together; the last line is scratch.
    out : array of shape (n_rows, n_outputs)
        Takes the expectations.
    """
    n_paths, n_outputs = paths.value.shape
    size, root = lines.shape[1], len(plan.is_sum) - 1
    codes = np.empty((known.shape[1], n_paths), np.int64)
    total = np.empty((n_paths, n_outputs))
    # A table of twice as many places finds a set of statements at the first look.
    n_places = 2
    while n_places < 2 * n_paths:
        n_places *= 2
    keys, event_at = np.empty(n_places, np.int64), np.empty(n_places, np.int64)
    is_one = np.empty(len(plan.is_sum), np.int8)
    for r in range(len(known)):
        event_at[:] = -1
        n_events = _distinct_events(
            paths, number, code, holds, known, r, keys, event_at, codes, total
        )
        for begin in range(0, n_events, size):
            n = min(size, n_events - begin)
            for e in range(reached.ptr[r], reached.ptr[r + 1]):
                _evaluate(plan, reached, e, known, r, first, table, codes, begin, n, is_one, lines)
            for t in range(n):
                prob = 1.0 if is_one[root] == 1 else lines[plan.slot[root], t]
                for k in range(n_outputs):
                    out[r, k] += prob * total[begin + t, k]


@inlined
def _distinct_events(
    paths: Paths,
    number: Ints,
    code: Ints,
    holds: Bools,
    known: Bools,
    r: int,
    keys: Ints,
    event_at: Ints,
    codes: Ints,
    total: Floats,
) -> int:
    """List what the paths that row r may take say of its missing cells, each event once.

    Parameters
    ----------
    paths, number, code, holds, known : Paths and arrays
        See :func:`_follow`.
    r : int
        The row.
    keys, event_at : arrays
        A hash table: the sums of codes that have a place, and the events there.
    codes : array of shape (n_features, n_paths)
        Takes the number of the statement that each event has about each column.
    total : array of shape (n_paths, n_outputs)
        Takes the sums of the values of the paths of each event.
    """
    n_events, mask = 0, len(keys) - 1
    for p in range(len(paths.ptr) - 1):
        key, possible = np.int64(0), True
        for k in range(paths.ptr[p], paths.ptr[p + 1]):
            statement = paths.said[k]
            if not known[r, paths.column[statement]]:
                key += code[statement]
            elif not holds[r, statement]:
                possible = False
                break
        if not possible:
            continue
        at = key & mask
        while event_at[at] >= 0 and keys[at] != key:
            at = (at + 1) & mask
        if event_at[at] < 0:
            event_at[at], keys[at] = n_events, key
            for var in range(len(codes)):
                codes[var, n_events] = 0
            for k in range(paths.ptr[p], paths.ptr[p + 1]):
                statement = paths.said[k]
                # What is said of a known cell is decided.
                if not known[r, paths.column[statement]]:
                    codes[paths.column[statement], n_events] = number[statement]
            total[n_events] = 0.0
            n_events += 1
        for j in range(total.shape[1]):
            total[event_at[at], j] += paths.value[p, j]
    return n_events


@inlined
def _evaluate(
    plan: Plan,
    reached: Reached,
    e: int,
    known: Bools,
    r: int,
    first: Ints,
    table: Floats,
    codes: Ints,
    begin: int,
    n: int,
    is_one: NDArray[np.int8],
    lines: Floats,
) -> None:
    """Evaluate a node that row r reaches on n events, ``is_one`` where none says anything below.

    Parameters
    ----------
    plan, reached, known, r, first, table, codes, is_one, lines
        See :func:`_follow` and :func:`_distinct_events`.
    e : int
        The entry of the node.
    begin, n : int
        The first event, and their number.
    """
    i, scratch = reached.node[e], lines.shape[0] - 1
    out, constant, is_first = plan.slot[i], 0.0, True
    for k in range(reached.arg_ptr[e], reached.arg_ptr[e + 1]):
        child, weight = plan.arg[reached.arg[k]], reached.weight[k]
        var = -1 if child >= 0 else plan.leaves.var[~child]
        if is_one[child] == 1 if child >= 0 else known[r, var]:
            constant += weight
            continue
        source = out if is_first else scratch
        if child >= 0:
            source = plan.slot[child]
        else:
            at = first[~child]
            for t in range(n):
                lines[source, t] = table[at + codes[var, begin + t]]
        if is_first:
            for t in range(n):
                lines[out, t] = weight * lines[source, t]
        elif plan.is_sum[i] == 1:
            for t in range(n):
                lines[out, t] += weight * lines[source, t]
        else:
            for t in range(n):
                lines[out, t] *= lines[source, t]
        is_first = False
    is_one[i] = 1 if is_first else 0
    if plan.is_sum[i] == 1 and not is_first and constant > 0.0:
        for t in range(n):
            lines[out, t] += constant
