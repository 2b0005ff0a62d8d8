"""Variable elimination on a vtree: conditional tables, and the memory that they need."""

import math
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, check_variables, offsets
from skpc.counting.trees import children_first
from skpc.factor_graphs.graph import FactorGraph

#: Memory beyond which elimination is refused, and what an entry takes at its peak.
_MOST_BYTES = 2**31
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
    rank = {variable: -number for number, variable in enumerate(order)}
    bucket: list[list[int]] = [[] for _ in order]
    for factor, scope in enumerate(graph.scopes):
        free = [v for v in scope if not known[v]]
        bucket[max(free or scope or order[-1:], key=rank.__getitem__)].append(factor)
    above = parent.tolist()
    children: list[list[int]] = [[] for _ in order]
    contexts: list[set[int]] = [set() for _ in order]
    for v in order:
        for factor in bucket[v]:
            contexts[v].update(u for u in graph.scopes[factor] if not known[u])
        contexts[v].discard(v)
        if above[v] >= 0:
            children[above[v]].append(v)
            contexts[above[v]] |= contexts[v]
    context = [sorted(variables, key=rank.__getitem__) for variables in contexts]
    n_states = graph.n_states.tolist()
    n_contexts = [math.prod(n_states[u] for u in variables) for variables in context]
    n_options = [1 if known[v] else n_states[v] for v in range(len(order))]
    _refuse_dense(context, sum(map(int.__mul__, n_contexts, n_options)), entry_bytes)
    place = []
    for v in range(len(order)):
        u = above[v]
        outer = [] if u < 0 else context[u] + ([] if known[u] else [u])
        place.append(_positions(outer, context[v], n_states))
    return EliminationPlan(order, children, context, n_contexts, n_options, place, bucket)


def _refuse_dense(context: list[list[int]], n_entries: int, entry_bytes: int) -> None:
    if n_entries * entry_bytes > _MOST_BYTES:
        raise ValueError(
            f"the factor graph is too dense to be eliminated: the vtree has induced width "
            f"{max(map(len, context))}, so that about {Decimal(n_entries):.3g} table entries would "
            f"need {Decimal(n_entries * entry_bytes // 2**30):.3g} GiB of memory "
            f"({_MOST_BYTES >> 30} GiB at most). Give evidence on some variables or a better "
            "vtree, or draw samples (GibbsSampler)"
        )


def _positions(scope: list[int], variables: list[int], n_states: list[int]) -> Ints:
    """For each joint state of a scope its place among those of some variables, last one fastest.

    Variables outside of the scope are in state 0.
    """
    strides = {}
    stride = 1
    for v in reversed(variables):
        strides[v] = stride
        stride *= n_states[v]
    place = np.zeros(1, dtype=np.int64)
    for v in scope:
        place = (place[:, np.newaxis] + strides.get(v, 0) * np.arange(n_states[v])).ravel()
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
    total = np.zeros(len(evidence))
    message: dict[int, Floats] = {}
    weights: list[Floats] = [np.empty(0)] * graph.n_variables
    for v in plan.order:
        free = [v] if np.isnan(evidence[0, v]) else []
        scope = plan.context[v] + free
        log_table = np.zeros((len(evidence), plan.n_contexts[v] * plan.n_options[v]))
        for factor in plan.bucket[v]:
            log_table += _read_factor(graph, factor, scope, evidence)
        for child in plan.children[v]:
            log_table += message.pop(child)[:, plan.place[child]]
        message[v], weights[v] = _normalised(log_table, plan.n_options[v])
    for last in message.values():
        total += last[:, 0]
    return ConditionalTables(plan, total, weights)


def _read_factor(graph: FactorGraph, factor: int, scope: list[int], evidence: Floats) -> Floats:
    """Log values of a factor for each row of evidence and each joint state of ``scope``."""
    n_states = graph.n_states.tolist()
    states = (
        _positions(scope, [v], n_states) if v in scope else evidence[:, [v]].astype(np.int64)
        for v in graph.scopes[factor]
    )
    return np.asarray(graph.log_tables[factor][tuple(states)])


def _normalised(log_table: Floats, n_options: int) -> tuple[Floats, Floats]:
    """Log totals of the contexts, and the weights of the states given each context."""
    n_batch = len(log_table)
    by_context = log_table.reshape(n_batch, -1, n_options)
    log_total = np.logaddexp.reduce(by_context, axis=2, keepdims=True)
    with np.errstate(invalid="ignore"):
        weight = np.exp(by_context - log_total)
    weight = np.where(log_total > -np.inf, weight, 1.0 / n_options)
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
    waiting = sorted(set(check_variables([*variables], graph.n_variables).tolist()))
    factors = list(zip(graph.scopes, graph.log_tables))
    while waiting:
        around = {
            v: sorted({u for scope, _ in factors if v in scope for u in scope}) for v in waiting
        }
        v = min(waiting, key=lambda u: math.prod(n_states[w] for w in around[u]))
        waiting.remove(v)
        scope = [u for u in around[v] if u != v] + [v]
        sizes = [n_states[u] for u in scope]
        _refuse_dense([scope], math.prod(sizes), _TABLE_BYTES)
        total = np.zeros(math.prod(sizes))
        for old, table in factors:
            if v in old:
                total += table[tuple(_positions(scope, [u], n_states) for u in old)]
        summed = _normalised(total[np.newaxis], n_states[v])[0].reshape(sizes[:-1])
        factors = [factor for factor in factors if v not in factor[0]]
        factors.append((tuple(scope[:-1]), summed))
        n_states[v] = 1
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
    first = offsets(n_states)
    out = np.zeros((n_batch, first[-1]))
    # The probability of each context; roots have only one.
    reach = [np.ones((n_batch, 1))] * len(n_states)
    for v in reversed(plan.order):
        joint = np.repeat(reach[v], plan.n_options[v], axis=1) * tables.weights[v]
        if np.isnan(evidence[0, v]):
            by_context = joint.reshape(n_batch, -1, plan.n_options[v])
            out[:, first[v] : first[v + 1]] = by_context.sum(axis=1)
        else:
            out[np.arange(n_batch), first[v] + evidence[:, v].astype(np.int64)] = 1.0
        for child in plan.children[v]:
            reach[child] = np.zeros((n_batch, plan.n_contexts[child]))
            np.add.at(reach[child].T, plan.place[child], joint.T)
    return out
