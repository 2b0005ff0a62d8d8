"""From a factor graph to a circuit, by variable elimination along a vtree.

A vtree is given here by the parent of each variable: the variable that is decided before it. Two
variables in one factor must stand one above the other (a pseudo-tree). So the scope of a variable
and all below it splits into the variable itself and the scopes of its children, and circuits
compiled on one vtree are compatible with each other.
"""

from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints, log_or_inf
from skpc.circuit import Circuit, CircuitBuilder
from skpc.counting.trees import children_first
from skpc.factor_graphs.elimination import ConditionalTables, eliminate, plan_elimination
from skpc.factor_graphs.graph import FactorGraph


def compile(graph: FactorGraph, vtree: Any = None, evidence: Any = None) -> Circuit:
    """Compile a factor graph into a circuit, or the rest of the graph given evidence.

    The cost is linear in the number of variables and exponential in the induced width: the number
    of variables that a variable of the vtree depends on.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    vtree : array-like of int of shape (n_variables,), default=None
        The parent of each variable, -1 for roots. Variables of one factor must stand one above the
        other. None makes a vtree by min-fill. Circuits compiled on one vtree are compatible with
        each other, whatever their evidence.
    evidence : array-like of shape (n_variables,), default=None
        The states of known variables, NaN for the others. With evidence fewer variables depend on
        each other, so enough evidence can make a dense graph compile.

    Returns
    -------
    Circuit
        A smooth, decomposable, deterministic and structured-decomposable circuit of the
        *normalised* distribution; :func:`log_partition` gives the constant. Known variables are
        treated as by :func:`skpc.queries.condition`.

    Raises
    ------
    ValueError
        If the graph is too dense (the message names the induced width and the estimated size), no
        state agrees with the evidence, or the evidence or the vtree does not fit the graph.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.factor_graphs import FactorGraph, compile
    >>> from skpc.queries import marginals
    >>> grid = FactorGraph.ising_grid(3, 3, coupling=0.5, field=0.1)
    >>> circuit = compile(grid)
    >>> circuit.deterministic, circuit.structured_decomposable
    (True, True)
    >>> corner = np.full((1, 9), np.nan)
    >>> corner[0, 0] = 0
    >>> marginals(circuit, corner)[1].round(3)
    array([[0.635, 0.365]])
    """
    parent = _check_vtree(graph, vtree)
    given = _check_evidence(graph, evidence)
    observed = given[0]
    is_known = ~np.isnan(observed)
    # What the nodes and edges of a table entry take of memory while a circuit is built.
    entry_bytes = 1024
    plan = plan_elimination(graph, parent, is_known, entry_bytes)
    tables = eliminate(graph, plan, given)
    if tables.log_partition[0] == -np.inf:
        known = np.flatnonzero(is_known)
        listed = ", ".join(
            f"variable {variable} = {observed[variable]:g}" for variable in known[:8]
        )
        raise ValueError(f"no state has a positive value given the evidence: {listed or 'none'}")
    circuit = _circuit(graph, tables, observed)
    # The circuit keeps in mind what it is conditioned on.
    return circuit.with_parameters(observed=observed)


def log_partition(graph: FactorGraph, vtree: Any = None, evidence: Any = None) -> float:
    """Log of the sum of the product of all factors over all states that agree with the evidence.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    vtree, evidence : array-like, default=None
        As for :func:`compile`.

    Returns
    -------
    float
        ``log Z`` in nats; -inf if no state agrees with the evidence. The probability of the
        evidence is the exponential of ``log_partition(graph, evidence=evidence) -
        log_partition(graph)``.

    Raises
    ------
    ValueError
        If the graph is too dense, or the evidence or the vtree does not fit it.

    Examples
    --------
    >>> from skpc.factor_graphs import FactorGraph, log_partition
    >>> round(log_partition(FactorGraph.ising_grid(4, 4, coupling=0.5)), 6)
    14.497711
    """
    parent = _check_vtree(graph, vtree)
    given = _check_evidence(graph, evidence)
    plan = plan_elimination(graph, parent, ~np.isnan(given[0]))
    return float(eliminate(graph, plan, given).log_partition[0])


def _check_evidence(graph: FactorGraph, evidence: Any) -> Floats:
    """One row of evidence; without evidence all cells are missing."""
    if evidence is None:
        return np.full((1, graph.n_variables), np.nan)
    row = np.asarray(evidence)
    if row.shape != (graph.n_variables,):
        raise ValueError(
            f"evidence needs a state or NaN for each of the {graph.n_variables} variables, shape "
            f"({graph.n_variables},), got shape {row.shape}"
        )
    return graph.check_rows(row[np.newaxis])


def _circuit(graph: FactorGraph, tables: ConditionalTables, given: Floats) -> Circuit:
    """A sum for each variable and context that decides on it; one product for equal parts."""
    builder = CircuitBuilder(graph.n_states)
    plan = tables.plan
    nodes: dict[int, list[int]] = {}
    for variable in plan.order:
        n_contexts = plan.n_contexts[variable]
        # The nodes of each child, one for each entry of this variable.
        below = [
            np.asarray(nodes.pop(child))[plan.place[child]] for child in plan.children[variable]
        ]
        log_weight = log_or_inf(tables.weights[variable][0].reshape(n_contexts, -1))
        if not np.isnan(given[variable]):
            indicator = builder.indicator(variable, int(given[variable]))
            parts = [np.full(n_contexts, indicator), *below]
            nodes[variable] = _products(builder, np.stack(parts, axis=1))
        elif not below:
            # A leaf of the vtree has its whole distribution in one node.
            nodes[variable] = [builder.discrete(variable, row) for row in log_weight]
        else:
            states = range(int(graph.n_states[variable]))
            indicators = [builder.indicator(variable, value) for value in states]
            parts = [np.tile(indicators, n_contexts), *below]
            products = np.reshape(_products(builder, np.stack(parts, axis=1)), log_weight.shape)
            nodes[variable] = [
                builder.sum(row.tolist(), weight, variable, states)
                for row, weight in zip(products, log_weight)
            ]
    roots = [node for (node,) in nodes.values()]
    # Trees of a forest are independent of each other.
    if len(roots) > 1:
        builder.product(roots)
    return builder.build()


def _products(builder: CircuitBuilder, parts: Ints) -> list[int]:
    """The product of each row of nodes; a row of one node is that node."""
    made: dict[tuple[int, ...], int] = {}
    rows = list(map(tuple, parts.tolist()))
    # Contexts that differ in nothing below share a node.
    for row in rows:
        if row not in made:
            made[row] = builder.product(row) if len(row) > 1 else row[0]
    return [made[row] for row in rows]


def min_fill_vtree(graph: FactorGraph) -> Ints:
    """A vtree by the min-fill heuristic.

    Variables are eliminated one by one. The next variable is always one whose neighbours need the
    fewest new links among each other (if there are several, one with the fewest neighbours); then
    its neighbours are linked. The parent of a variable is its first neighbour to be eliminated
    after it.

    Parameters
    ----------
    graph : FactorGraph
        The graph.

    Returns
    -------
    int64 array of shape (n_variables,)
        The parent of each variable; -1 for the roots.

    Examples
    --------
    A chain is split in its middle or unrolled from its ends; either way its width is one.

    >>> from skpc.factor_graphs import FactorGraph, min_fill_vtree
    >>> min_fill_vtree(FactorGraph.ising_grid(1, 4, coupling=1.0))
    array([ 1,  2,  3, -1])
    """
    neighbours = _neighbours(graph)
    cost = {variable: _cost(neighbours, variable) for variable in range(graph.n_variables)}
    later: dict[int, set[int]] = {}
    while cost:
        variable = min(cost, key=cost.__getitem__)
        del cost[variable]
        around = later[variable] = neighbours[variable]
        for neighbour in around:
            neighbours[neighbour] = (neighbours[neighbour] | around) - {neighbour, variable}
        # The links of others are as they were.
        changed = around.union(*(neighbours[neighbour] for neighbour in around))
        for neighbour in changed:
            cost[neighbour] = _cost(neighbours, neighbour)
    position = {variable: number for number, variable in enumerate(later)}
    parents = [
        min(later[neighbour], key=position.__getitem__, default=-1)
        for neighbour in range(len(position))
    ]
    return np.array(parents, dtype=np.int64)


def _neighbours(graph: FactorGraph) -> list[set[int]]:
    """The variables that share a factor with each variable."""
    neighbours: list[set[int]] = [set() for _ in range(graph.n_variables)]
    for scope in graph.scopes:
        for variable in scope:
            neighbours[variable].update(set(scope) - {variable})
    return neighbours


def _cost(neighbours: list[set[int]], variable: int) -> tuple[int, int]:
    """How many links are missing among the neighbours of a variable, and how many it has."""
    around = neighbours[variable]
    linked = sum(len(neighbours[neighbour] & around) for neighbour in around)
    # Each link has two ends, and both are counted.
    size = len(around)
    return size * (size - 1) - linked, size


def _check_vtree(graph: FactorGraph, vtree: Any) -> Ints:
    """Check a vtree given by a user; None makes one by min-fill."""
    if vtree is None:
        return min_fill_vtree(graph)
    given = np.asarray(vtree)
    n_variables = graph.n_variables
    is_list = given.shape == (n_variables,) and given.dtype.kind in "iu"
    is_beyond = (given < -1) | (given >= n_variables)
    if not is_list or is_beyond.any():
        raise ValueError(
            f"vtree needs the parent of each of the {n_variables} variables, an integer of -1 (a "
            f"root) to {n_variables - 1}, got {given.tolist()}"
        )
    parent = given.astype(np.int64)
    order = children_first(parent)
    # A walk from the roots does not reach a cycle, nor what is below it.
    if len(order) < n_variables:
        lost = sorted(set(range(n_variables)) - set(order))
        raise ValueError(f"vtree must have no cycle, but variables {lost[:8]} lie on or below one")
    _refuse_apart(graph, parent, order)
    return parent


def _refuse_apart(graph: FactorGraph, parent: Ints, order: list[int]) -> None:
    """Refuse a vtree in which two variables of one factor lie in different branches."""
    rank = {variable: number for number, variable in enumerate(order)}
    for number, scope in enumerate(graph.scopes):
        # From the lowest variable of the factor up, all others must be met.
        apart = sorted(scope, key=rank.__getitem__)
        lowest = -1
        if apart:
            lowest = apart.pop(0)
        above = lowest
        while apart and above >= 0:
            above = parent[above]
            apart = [variable for variable in apart if variable != above]
        if apart:
            lower, upper = sorted((lowest, apart[0]))
            raise ValueError(
                f"vtree must put the variables of a factor one above the other, but {lower} "
                f"and {upper} of factor {number} lie in different branches"
            )
