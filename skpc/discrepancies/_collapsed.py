"""Collapsed rows as the terms of a Stein operator, in flat arrays.

A collapsed row knows the states of its sampled variables :math:`x_s`. The other variables have the
distribution :math:`p(x_c \\mid x_s)`. Averaged over them, the part of a Stein operator that belongs
to the sampled variable :math:`i` is

.. math::

   \\alpha_i \\, \\mathrm{E}[f_i(m_i x_s, X_c)] - \\beta_i \\, \\mathrm{E}[f_i(x_s, X_c)],

where :math:`n_i` moves the variable to its next state and :math:`m_i` moves it back. One of the two
expectations is under the conditional at a neighbour:

- "ratio": :math:`\\alpha_i = 1` under :math:`p(x_c \\mid x_s)`, and
  :math:`\\beta_i = p(n_i x_s) / p(x_s)` under :math:`p(x_c \\mid n_i x_s)`;
- "barker": :math:`\\alpha_i = p(m_i x_s) / (p(x_s) + p(m_i x_s))` under
  :math:`p(x_c \\mid m_i x_s)`, and :math:`\\beta_i = p(n_i x_s) / (p(x_s) + p(n_i x_s))` under
  :math:`p(x_c \\mid x_s)`.

The parts of collapsed variables vanish.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from skpc._arrays import Bools, Floats, Ints, offsets
from skpc.circuit import Circuit
from skpc.domain import group_rows
from skpc.factor_graphs import FactorGraph, min_fill_vtree
from skpc.factor_graphs.elimination import EliminationPlan, eliminate, plan_elimination
from skpc.queries import log_likelihood


class CollapsedRows(NamedTuple):
    """Rows and their conditionals as kernels read them.

    Attributes
    ----------
    n_states : int64 array of shape (n_variables,)
        Numbers of states.
    order, child_ptr, child : int64 arrays
        The vtree, children before parents, and the children of each variable.
    state : int64 array of shape (n_rows, n_variables)
        Sampled states, -1 where collapsed.
    pattern : int64 array of shape (n_rows,)
        Which variables are collapsed: rows of one pattern have the same elimination plan.
    n_contexts, n_options : int64 arrays of shape (n_patterns, n_variables)
        Shapes of the conditional tables.
    table, place : int64 arrays of shape (n_patterns, n_variables)
        Where the table of a variable begins among those of a measure, and its
        ``EliminationPlan.place`` among ``places``.
    size : int64 array of shape (n_patterns,)
        Number of the entries of all tables of a measure.
    start : int64 array of shape (n_rows,)
        Measure ``m`` of a row begins at ``weights[start + m * size]``.
    weights : float64 array
        Conditional probabilities, entry by entry.
    places : int64 array
        Contexts of children, one table entry after the other.
    coefficient : float64 array of shape (2, n_rows, n_variables)
        Coefficients of the two terms of a sampled variable: the one a state back, and the one at
        the state itself.
    measure : int64 array of shape (2, n_rows, n_variables)
        Their measures. Measure 0 of a row is its own conditional, the others are those of its
        neighbours; a complete row has measure 0 alone, which is certain.
    """

    n_states: Ints
    order: Ints
    child_ptr: Ints
    child: Ints
    state: Ints
    pattern: Ints
    n_contexts: Ints
    n_options: Ints
    table: Ints
    place: Ints
    size: Ints
    start: Ints
    weights: Floats
    places: Ints
    coefficient: Floats
    measure: Ints


def patterns(graph: FactorGraph, rows: Floats) -> Iterator[tuple[Ints, EliminationPlan]]:
    """The rows of each pattern of collapsed variables, and what depends on what there."""
    parent = min_fill_vtree(graph)
    # All states become zero, and missing cells stay missing.
    distinct, group = group_rows(0.0 * rows)
    for number, known in enumerate(~np.isnan(distinct)):
        yield np.flatnonzero(group == number), plan_elimination(graph, parent, known)


def collapse_rows(
    graph: FactorGraph, rows: Floats, stein_operator: str, circuit: Circuit | None
) -> CollapsedRows:
    """Find the conditionals of all rows and of their neighbours, and the terms they enter.

    Parameters
    ----------
    graph : FactorGraph
        The distribution; without factors, if a circuit is the distribution.
    rows : ndarray of shape (n_rows, n_variables)
        Sampled states, NaN where collapsed.
    stein_operator : {"ratio", "barker"}
        The Stein operator.
    circuit : Circuit or None
        The distribution of complete rows, in place of the factors.

    Returns
    -------
    CollapsedRows

    Raises
    ------
    ValueError
        If there are no rows, a row or one of its neighbours has probability zero, or the
        conditionals need too much memory.
    """
    if not len(rows):
        raise ValueError("samples must have one row or more, got none")
    # Memory beyond which the conditionals of all rows are refused.
    most_bytes = 2**31
    n_variables = rows.shape[1]
    # Log ratios of the probability one state ahead, and one state back, to that of the row.
    ahead, behind = np.zeros((2, *rows.shape))
    pattern, start = np.zeros((2, len(rows)), dtype=np.int64)
    plans: list[EliminationPlan] = []
    weights: list[Floats] = []
    n_weights = 0
    for members, plan in patterns(graph, rows):
        sampled = np.flatnonzero(~np.isnan(rows[members[0]]))
        n_sampled = len(sampled)
        # The measures of a complete row and of its neighbours are certain: one stands for all.
        n_measures = 1
        if n_sampled < n_variables:
            n_measures += n_sampled
        size = n_measures * int(np.dot(plan.n_contexts, plan.n_options))
        if 8 * (n_weights + len(members) * size) > most_bytes:
            raise ValueError(
                f"the conditionals of {len(rows)} collapsed rows and their neighbours need more "
                f"than {most_bytes >> 30} GiB; collapse fewer variables or take fewer samples"
            )
        pattern[members] = len(plans)
        plans.append(plan)
        start[members] = n_weights + size * np.arange(len(members))
        n_weights += size * len(members)
        # Rows and their neighbours are eliminated together, about two thousand at a time.
        n_evidence = len(members) * (1 + 2 * n_sampled)
        for batch in np.array_split(members, -(-n_evidence // 2048)):
            # Three axes: a row, itself and its neighbours, variables.
            evidence = _with_neighbours(graph, rows[batch], sampled)
            states = evidence.reshape(-1, n_variables)
            conditionals = eliminate(graph, plan, states)
            log_prob = conditionals.log_partition
            # A circuit stands in the place of factors.
            if circuit is not None:
                log_prob = log_likelihood(circuit, states)
            log_prob = log_prob.reshape(len(batch), -1)
            _refuse_impossible(log_prob, evidence, batch, sampled)
            cells = np.ix_(batch, sampled)
            log_ratio = log_prob[:, 1:] - log_prob[:, :1]
            ahead[cells], behind[cells] = np.split(log_ratio, 2, axis=1)
            # "ratio" needs the conditionals one state ahead, "barker" those one state back.
            begin = 1 if stein_operator == "ratio" else 1 + n_sampled
            measures = [0, *range(begin, begin + n_measures - 1)]
            tables = np.concatenate(conditionals.weights, axis=1)
            tables = tables.reshape(*log_prob.shape, -1)
            weights.append(tables[:, measures].ravel())
    return CollapsedRows(
        n_states=graph.n_states.copy(),
        state=np.where(np.isnan(rows), -1.0, rows).astype(np.int64),
        pattern=pattern,
        start=start,
        weights=np.concatenate(weights),
        **_tables_of(plans),
        **_terms(ahead, behind, ~np.isnan(rows), stein_operator),
    )


def _with_neighbours(graph: FactorGraph, rows: Floats, sampled: Ints) -> Floats:
    """Each row, its neighbours one state ahead, and those one state back."""
    unit = np.eye(rows.shape[1])[sampled]
    step = np.vstack([np.zeros(rows.shape[1]), unit, -unit])
    # States are a circle: the last one is followed by the first one.
    return (rows[:, np.newaxis] + step) % graph.n_states


def _terms(ahead: Floats, behind: Floats, sampled: Bools, stein_operator: str) -> dict[str, Any]:
    """The terms from log ratios of probabilities to the next and the previous state."""
    itself = np.zeros(sampled.shape, dtype=np.int64)
    has_neighbour = sampled & ~sampled.all(axis=1, keepdims=True)
    # Neighbours are numbered by the sampled variables that step, from 1.
    neighbour = np.where(has_neighbour, np.cumsum(sampled, axis=1), 0)
    if stein_operator == "barker":
        coefficient = np.stack([expit(behind), -expit(ahead)])
        return {"coefficient": coefficient, "measure": np.stack([neighbour, itself])}
    largest = ahead.max(initial=0.0)
    # Products of two such ratios would overflow in the kernel matrix.
    if largest > 300.0:
        raise ValueError(
            f"a neighbour of a row is exp({largest:.6g}) times as probable as the row, so that the "
            'kernel matrix would overflow; use stein_operator="barker", which is bounded'
        )
    ratio = np.exp(ahead)
    coefficient = np.stack([np.ones_like(ahead), -ratio])
    return {"coefficient": coefficient, "measure": np.stack([itself, neighbour])}


def _tables_of(plans: list[EliminationPlan]) -> dict[str, Any]:
    """The vtree, and where the conditional tables of each pattern are."""
    n_contexts = np.array([plan.n_contexts for plan in plans])
    n_options = np.array([plan.n_options for plan in plans])
    sizes = n_contexts * n_options
    places = [place for plan in plans for place in plan.place]
    children = plans[0].children
    return {
        "order": np.array(plans[0].order),
        "child_ptr": offsets([len(below) for below in children]),
        "child": np.array([child for below in children for child in below], dtype=np.int64),
        "n_contexts": n_contexts,
        "n_options": n_options,
        "table": np.cumsum(sizes, axis=1) - sizes,
        "place": offsets([len(place) for place in places])[:-1].reshape(sizes.shape),
        "size": sizes.sum(axis=1),
        "places": np.concatenate(places),
    }


def _refuse_impossible(log_prob: Floats, evidence: Floats, members: Ints, sampled: Ints) -> None:
    bad = np.argwhere(np.isneginf(log_prob))
    if not len(bad):
        return
    # The rows themselves come before their neighbours.
    row, number = bad[np.argmin(bad[:, 1])]
    state = [f"{cell:g}".replace("nan", "?") for cell in evidence[row, number, :16]]
    listed = f"[{', '.join(state)}{', ...' if evidence.shape[2] > 16 else ''}]"
    if number == 0:
        raise ValueError(
            f"row {members[row]} of the samples, {listed}, has probability zero under the target; "
            "leave it out"
        )
    raise ValueError(
        "a Stein operator needs a target that is positive everywhere, but changing variable "
        f"{sampled[(number - 1) % len(sampled)]} of row {members[row]} leads to {listed}, which "
        "has probability zero. Collapse variables that are functions of others: leave their cells "
        "NaN in all rows"
    )
