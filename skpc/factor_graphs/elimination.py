"""Variable elimination on a vtree: conditional tables, and the memory that they need."""

import math
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, check_variables, offsets
from skpc.counting.trees import children_first
from skpc.factor_graphs.graph import FactorGraph

#: What an entry of a table takes of memory at its peak.
_TABLE_BYTES = 48


class EliminationPlan(NamedTuple):
    """What each variable depends on, once those of a pattern are known.

    Attributes
    ----------
    order : list of int
        The variables, children before parents.
    children : list of lists of int
        The children of each variable in the vtree.
    context : list of lists of int
        For each variable the free ones above it that it, or one below it, depends on.
    n_contexts, n_options : lists of int
        For each variable the number of joint states of its context, and of its own states: one if
        it is known.
    place : list of arrays
        Entry ``e = context * n_options + state`` of the table of a variable's *parent* implies
        context ``place[variable][e]`` of the variable; the one entry 0 at a root.
    bucket : list of lists of int
        For each variable the factors whose lowest free variable it is; that of a known variable has
        factors without a free one.
    """

    order: list[int]
    children: list[list[int]]
    context: list[list[int]]
    n_contexts: list[int]
    n_options: list[int]
    place: list[Ints]
    bucket: list[list[int]]


class ConditionalTables(NamedTuple):
    """Distributions of the free variables for a batch of evidence, all on one plan.

    Attributes
    ----------
    plan : EliminationPlan
        What depends on what.
    log_partition : ndarray of shape (n_batch,)
        Log (nats) of the sum of the product of factors over the free variables.
    weights : list of ndarrays of shape (n_batch, n_contexts * n_options)
        For each variable the probabilities of its states given each context, those above.
    """

    plan: EliminationPlan
    log_partition: Floats
    weights: list[Floats]


def plan_elimination(
    graph: FactorGraph, parent: Ints, known: NDArray[np.bool_], entry_bytes: int = _TABLE_BYTES
) -> EliminationPlan:
    """Find the contexts of all variables, and refuse tables that need too much memory.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    parent : int64 array of shape (n_variables,)
        The vtree.
    known : bool array of shape (n_variables,)
        Which variables are known.
    entry_bytes : int, default=48
        What an entry of a table takes of memory.

    Returns
    -------
    EliminationPlan
        The plan.

    Raises
    ------
    ValueError
        If the tables need more than 2 GiB.
    """
    order = children_first(parent)
    # The lower a variable, the greater its rank: children come first in the order.
    rank = {variable: -number for number, variable in enumerate(order)}
    bucket: list[list[int]] = [[] for _ in order]
    for factor, scope in enumerate(graph.scopes):
        free = [variable for variable in scope if not known[variable]]
        # The lowest variable is eliminated first; a factor of none goes to a root.
        lowest = max(free or scope or order[-1:], key=rank.__getitem__)
        bucket[lowest].append(factor)
    above = parent.tolist()
    children: list[list[int]] = [[] for _ in order]
    contexts: list[set[int]] = [set() for _ in order]
    for variable in order:
        depends_on = contexts[variable]
        for factor in bucket[variable]:
            depends_on.update(member for member in graph.scopes[factor] if not known[member])
        depends_on.discard(variable)
        # Its message depends on its context, and so does what is above it.
        if above[variable] >= 0:
            children[above[variable]].append(variable)
            contexts[above[variable]] |= depends_on
    context = [sorted(variables, key=rank.__getitem__) for variables in contexts]
    n_states = graph.n_states.tolist()
    n_contexts = [math.prod(n_states[member] for member in variables) for variables in context]
    n_options = [1 if is_known else size for is_known, size in zip(known, n_states)]
    n_entries = sum(map(int.__mul__, n_contexts, n_options))
    _refuse_dense(context, n_entries, entry_bytes)
    place = []
    for variable, outer in enumerate(above):
        # The entries of the parent: its context, and its own states if it is free.
        entries: list[int] = []
        if outer >= 0:
            entries = context[outer] + ([] if known[outer] else [outer])
        place.append(_positions(entries, context[variable], n_states))
    return EliminationPlan(order, children, context, n_contexts, n_options, place, bucket)


def _refuse_dense(context: list[list[int]], n_entries: int, entry_bytes: int) -> None:
    n_bytes = n_entries * entry_bytes
    # Memory beyond which elimination is refused.
    most_bytes = 2**31
    if n_bytes > most_bytes:
        raise ValueError(
            f"the factor graph is too dense to be eliminated: the vtree has induced width "
            f"{max(map(len, context))}, so that about {Decimal(n_entries):.3g} table entries would "
            f"need {Decimal(n_bytes // 2**30):.3g} GiB of memory "
            f"({most_bytes >> 30} GiB at most). Give evidence on some variables or a better "
            "vtree, or draw samples (GibbsSampler)"
        )


def _positions(scope: list[int], variables: list[int], n_states: list[int]) -> Ints:
    """For each joint state of a scope its place among those of some variables, last one fastest.

    Variables outside of the scope are in state 0.
    """
    # The last variable is the fastest: a step of it is one place.
    strides = {}
    stride = 1
    for variable in reversed(variables):
        strides[variable] = stride
        stride *= n_states[variable]
    place = np.zeros(1, dtype=np.int64)
    for variable in scope:
        steps = strides.get(variable, 0) * np.arange(n_states[variable])
        place = np.add.outer(place, steps).ravel()
    return place


def eliminate(graph: FactorGraph, plan: EliminationPlan, evidence: Floats) -> ConditionalTables:
    """Sum out the free variables, children before parents.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    plan : EliminationPlan
        Made for the pattern of the evidence.
    evidence : ndarray of shape (n_batch, n_variables)
        States of the known variables, NaN where free: the same cells in all rows.

    Returns
    -------
    ConditionalTables
        The distribution given each row. Contexts of probability zero get equal weights.
    """
    n_batch = len(evidence)
    total = np.zeros(n_batch)
    message: dict[int, Floats] = {}
    weights: list[Floats] = [np.empty(0)] * graph.n_variables
    for variable in plan.order:
        scope = plan.context[variable]
        if np.isnan(evidence[0, variable]):
            scope = [*scope, variable]
        n_options = plan.n_options[variable]
        # A row for each row of evidence, an entry for each context and state.
        log_table = np.zeros((n_batch, plan.n_contexts[variable] * n_options))
        for factor in plan.bucket[variable]:
            log_table += _read_factor(graph, factor, scope, evidence)
        for child in plan.children[variable]:
            log_table += message.pop(child)[:, plan.place[child]]
        message[variable], weights[variable] = _normalised(log_table, n_options)
    # Only the messages of roots are left.
    for root_message in message.values():
        total += root_message[:, 0]
    return ConditionalTables(plan, total, weights)


def _read_factor(graph: FactorGraph, factor: int, scope: list[int], evidence: Floats) -> Floats:
    """Log values of a factor for each row of evidence and each joint state of ``scope``."""
    n_states = graph.n_states.tolist()
    # Free variables index along entries, known ones along rows; numpy pairs them all.
    states = tuple(
        _positions(scope, [variable], n_states)
        if variable in scope
        else evidence[:, [variable]].astype(np.int64)
        for variable in graph.scopes[factor]
    )
    return graph.log_tables[factor][states]


def _normalised(log_table: Floats, n_options: int) -> tuple[Floats, Floats]:
    """Log totals of the contexts, and the weights of the states given each context."""
    n_batch = len(log_table)
    by_context = log_table.reshape(n_batch, -1, n_options)
    log_total = np.logaddexp.reduce(by_context, axis=2, keepdims=True)
    # A context of probability zero has no conditional: its weights are replaced below.
    with np.errstate(invalid="ignore"):
        weight = np.exp(by_context - log_total)
    is_possible = log_total > -np.inf
    weight = np.where(is_possible, weight, 1.0 / n_options)
    return log_total[:, :, 0], weight.reshape(n_batch, -1)


def sum_out(graph: FactorGraph, variables: Any) -> FactorGraph:
    """The factor graph of the remaining variables, with the given ones summed out.

    A factor of all its neighbours (the variables that it shares a factor with) replaces each
    variable. Use this for few variables; the cost is exponential in the number of neighbours.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    variables : sequence of int
        The variables to sum out.

    Returns
    -------
    FactorGraph
        A graph with the same variables; those summed out have one state and no factor.

    Raises
    ------
    ValueError
        If a variable does not exist, or a new factor would need too much memory.

    Examples
    --------
    The ASIA network without variable 5, a function of two others, has no impossible state.

    >>> import numpy as np
    >>> from skpc.factor_graphs import load_asia, sum_out
    >>> rest = sum_out(load_asia(), [5])
    >>> rest.n_states
    array([2, 2, 2, 2, 2, 1, 2, 2])
    >>> min(float(table.min()) for table in rest.log_tables) > -np.inf
    True
    """
    n_states = graph.n_states.tolist()
    numbers = check_variables([*variables], graph.n_variables)
    waiting = sorted(set(numbers.tolist()))
    factors = list(zip(graph.scopes, graph.log_tables))
    while waiting:
        around = {
            variable: sorted(
                {member for scope, _ in factors if variable in scope for member in scope}
            )
            for variable in waiting
        }
        # The variable whose new factor is smallest goes first.
        variable = min(
            waiting,
            key=lambda candidate: math.prod(n_states[member] for member in around[candidate]),
        )
        waiting.remove(variable)
        scope = [member for member in around[variable] if member != variable]
        scope.append(variable)
        sizes = [n_states[member] for member in scope]
        n_entries = math.prod(sizes)
        _refuse_dense([scope], n_entries, _TABLE_BYTES)
        total = np.zeros(n_entries)
        for members, table in factors:
            if variable in members:
                places = (_positions(scope, [member], n_states) for member in members)
                total += table[tuple(places)]
        # The variable is the last axis of the sum of the logs, and is summed out.
        summed, _ = _normalised(total[np.newaxis], n_states[variable])
        factors = [factor for factor in factors if variable not in factor[0]]
        factors.append((tuple(scope[:-1]), summed.reshape(sizes[:-1])))
        n_states[variable] = 1
    return FactorGraph(n_states, factors)


def table_marginals(tables: ConditionalTables, n_states: Ints, evidence: Floats) -> Floats:
    """Marginals of all variables, given each row of evidence.

    Returns
    -------
    ndarray of shape (n_batch, sum of n_states)
        The probabilities of the states of each variable, one variable after the other.
    """
    plan = tables.plan
    n_batch = len(evidence)
    starts = offsets(n_states)
    out = np.zeros((n_batch, starts[-1]))
    # The probability of each context; roots have only one.
    reach = [np.ones((n_batch, 1))] * len(n_states)
    # Parents before children: what reaches a variable is complete when its turn comes.
    for variable in reversed(plan.order):
        n_options = plan.n_options[variable]
        start = starts[variable]
        joint = np.repeat(reach[variable], n_options, axis=1) * tables.weights[variable]
        if np.isnan(evidence[0, variable]):
            by_context = joint.reshape(n_batch, -1, n_options)
            out[:, start : starts[variable + 1]] = by_context.sum(axis=1)
        else:
            state = evidence[:, variable].astype(np.int64)
            out[np.arange(n_batch), start + state] = 1.0
        for child in plan.children[variable]:
            reach[child] = np.zeros((n_batch, plan.n_contexts[child]))
            # Several entries of a parent may lead to one context.
            np.add.at(reach[child].T, plan.place[child], joint.T)
    return out
