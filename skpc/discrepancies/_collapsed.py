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

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skpc._arrays import Floats, Ints, offsets
from skpc.counting import children_first
from skpc.factor_graphs import FactorGraph
from skpc.factor_graphs.elimination import EliminationPlan, eliminate, plan_elimination

#: Rows of evidence that are eliminated together.
_BATCH = 2048
#: Memory beyond which the conditionals of all rows are refused.
_MOST_BYTES = 2**31
#: Log ratios of probabilities beyond which kernel matrices would overflow.
_LARGEST_LOG_RATIO = 300.0


class Terms(NamedTuple):
    """Coefficients and measures of the two terms of each row and sampled variable.

    All have shape (n_rows, n_variables). ``move`` is that of the term one state back, ``stay`` of
    the term at the state itself. Measure 0 of a row is its own conditional, the others are those of
    its neighbours.
    """

    move: Floats
    stay: Floats
    move_measure: Ints
    stay_measure: Ints


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
    n_contexts, n_options : int64 arrays of shape (n_rows, n_variables)
        Shapes of the conditional tables.
    table, place : int64 arrays of shape (n_rows, n_variables)
        Where the table of a variable begins among those of a measure, and its
        ``EliminationPlan.place`` among ``places``.
    first, size : int64 arrays of shape (n_rows,)
        Measure ``m`` of a row begins at ``weights[first + m * size]``; a complete row has size 0.
    weights : float64 array
        Conditional probabilities, entry by entry.
    places : int64 array
        Contexts of children, one table entry after the other.
    """

    n_states: Ints
    order: Ints
    child_ptr: Ints
    child: Ints
    state: Ints
    n_contexts: Ints
    n_options: Ints
    table: Ints
    place: Ints
    first: Ints
    size: Ints
    weights: Floats
    places: Ints


class _Part(NamedTuple):
    """Rows with one pattern of collapsed variables, and their conditionals.

    ``tables`` has shape (n_rows, n_measures, n_entries).
    """

    members: Ints
    plan: EliminationPlan
    tables: Floats


def patterns(
    graph: FactorGraph, parent: Ints, rows: Floats
) -> Iterator[tuple[Ints, EliminationPlan]]:
    """The rows of each pattern of collapsed variables, and what depends on what there."""
    groups: dict[bytes, list[int]] = {}
    known = ~np.isnan(rows)
    for row, pattern in enumerate(known):
        groups.setdefault(pattern.tobytes(), []).append(row)
    for members in groups.values():
        yield np.array(members), plan_elimination(graph, parent, known[members[0]])


def collapse_rows(
    graph: FactorGraph, parent: Ints, rows: Floats, stein_operator: str
) -> tuple[CollapsedRows, Terms]:
    """Find the conditionals of all rows and of their neighbours, and the terms they enter.

    Parameters
    ----------
    graph : FactorGraph
        The distribution.
    parent : int64 array of shape (n_variables,)
        The vtree.
    rows : ndarray of shape (n_rows, n_variables)
        Sampled states, NaN where collapsed.
    stein_operator : {"ratio", "barker"}
        The Stein operator.

    Returns
    -------
    rows : CollapsedRows
        The rows with their conditional tables.
    terms : Terms
        What the operator makes of them.

    Raises
    ------
    ValueError
        If a row or one of its neighbours has probability zero, or the conditionals need too much
        memory.
    """
    parts = []
    ahead, behind = np.zeros(rows.shape), np.zeros(rows.shape)
    n_bytes = 0
    for members, plan in patterns(graph, parent, rows):
        sampled = np.flatnonzero(~np.isnan(rows[members[0]]))
        n_bytes += 8 * len(members) * (1 + len(sampled)) * _n_entries(plan, len(sampled))
        if n_bytes > _MOST_BYTES:
            raise ValueError(
                f"the conditionals of {len(rows)} collapsed rows and their neighbours need more "
                f"than {_MOST_BYTES >> 30} GiB; collapse fewer variables or take fewer samples"
            )
        n_blocks = -(-len(members) * (1 + 2 * len(sampled)) // _BATCH)
        for block in np.array_split(members, n_blocks):
            tables, ratios = _tables(graph, plan, rows, block, stein_operator)
            parts.append(_Part(block, plan, tables))
            cells = np.ix_(block, sampled)
            ahead[cells], behind[cells] = np.split(ratios, 2, axis=1)
    terms = terms_of(ahead, behind, ~np.isnan(rows), stein_operator)
    return _flattened(graph.n_states, parent, rows, parts), terms


def complete_rows(rows: Floats, n_states: Ints) -> CollapsedRows:
    """Rows without collapsed variables, which need no conditionals."""
    return _flattened(n_states, np.full(len(n_states), -1), rows, [])


def terms_of(
    ahead: Floats, behind: Floats, sampled: NDArray[np.bool_], stein_operator: str
) -> Terms:
    """The terms from log ratios of probabilities to the next and the previous state."""
    itself = np.zeros(sampled.shape, dtype=np.int64)
    neighbour = np.where(sampled, np.cumsum(sampled, axis=1), 0)
    if stein_operator == "barker":
        return Terms(expit(behind), -expit(ahead), neighbour, itself)
    largest = ahead.max(initial=0.0)
    if largest > _LARGEST_LOG_RATIO:
        raise ValueError(
            f"a neighbour of a row is exp({largest:.6g}) times as probable as the row, so that the "
            'kernel matrix would overflow; use stein_operator="barker", which is bounded'
        )
    return Terms(np.ones_like(ahead), -np.exp(ahead), itself, neighbour)


def _tables(
    graph: FactorGraph, plan: EliminationPlan, rows: Floats, members: Ints, stein_operator: str
) -> tuple[Floats, Floats]:
    """Eliminate the collapsed variables given rows and all their neighbours at once.

    Returns conditional tables and the log ratios of the probabilities of the neighbours to those
    of the rows, first of those ahead, then of those behind.
    """
    sampled = np.flatnonzero(~np.isnan(rows[members[0]]))
    n_rows, n_sampled = len(members), len(sampled)
    # A row itself, its neighbours one state ahead, and those one state back.
    evidence = np.repeat(rows[members, np.newaxis], 1 + 2 * n_sampled, axis=1)
    for number, v in enumerate(sampled.tolist()):
        for cells, step in ((1 + number, 1), (1 + n_sampled + number, -1)):
            evidence[:, cells, v] = (evidence[:, cells, v] + step) % graph.n_states[v]
    eliminated = eliminate(graph, plan, evidence.reshape(-1, rows.shape[1]))
    log_prob = eliminated.log_partition.reshape(n_rows, 1 + 2 * n_sampled)
    _refuse_impossible(log_prob, evidence, members, sampled)
    every = np.concatenate([eliminated.weights[v] for v in plan.order], axis=1)
    begin = 1 if stein_operator == "ratio" else 1 + n_sampled
    kept = [0, *range(begin, begin + n_sampled)]
    tables = every.reshape(n_rows, 1 + 2 * n_sampled, -1)[:, kept, : _n_entries(plan, n_sampled)]
    return tables, log_prob[:, 1:] - log_prob[:, :1]


def _n_entries(plan: EliminationPlan, n_sampled: int) -> int:
    """Entries of all conditional tables of a row; zero where there is nothing to condition."""
    sizes = np.multiply(plan.n_contexts, plan.n_options)
    return int(sizes.sum()) if n_sampled < len(plan.order) else 0


def _flattened(n_states: Ints, parent: Ints, rows: Floats, parts: list[_Part]) -> CollapsedRows:
    order = np.array(children_first(parent))
    n_contexts, n_options = np.ones((2, *rows.shape), dtype=np.int64)
    table, place = np.zeros((2, *rows.shape), dtype=np.int64)
    first, size = np.zeros((2, len(rows)), dtype=np.int64)
    # A complete row reads the first entries wherever it meets a collapsed one.
    weights, places = [np.ones(1)], [np.zeros(1, dtype=np.int64)]
    n_weights = n_places = 1
    for part in parts:
        members, plan, tables = part.members, part.plan, part.tables
        if not tables.shape[2]:
            continue
        sizes = np.multiply(plan.n_contexts, plan.n_options)[order]
        lengths = np.array([len(plan.place[v]) for v in order])
        n_contexts[members], n_options[members] = plan.n_contexts, plan.n_options
        table[np.ix_(members, order)] = np.cumsum(sizes) - sizes
        place[np.ix_(members, order)] = n_places + np.cumsum(lengths) - lengths
        size[members] = tables.shape[2]
        first[members] = n_weights + tables[0].size * np.arange(len(members))
        weights.append(tables.ravel())
        places += [plan.place[v] for v in order]
        n_weights += tables.size
        n_places += int(lengths.sum())
    children = [np.flatnonzero(parent == v) for v in range(len(n_states))]
    return CollapsedRows(
        n_states=n_states.copy(),
        order=order,
        child_ptr=offsets([len(below) for below in children]),
        child=np.concatenate([np.zeros(0, dtype=np.int64), *children]),
        state=np.where(np.isnan(rows), -1.0, rows).astype(np.int64),
        n_contexts=n_contexts,
        n_options=n_options,
        table=table,
        place=place,
        first=first,
        size=size,
        weights=np.concatenate(weights),
        places=np.concatenate(places),
    )


def _refuse_impossible(log_prob: Floats, evidence: Floats, members: Ints, sampled: Ints) -> None:
    bad = np.argwhere(log_prob == -np.inf)
    if len(bad):
        row, number = bad[np.argmin(bad[:, 1])]
        if number == 0:
            refuse_row(int(members[row]), evidence[row, number])
        changed = int(sampled[(number - 1) % len(sampled)])
        refuse_neighbour(int(members[row]), changed, evidence[row, number])


def refuse_row(row: int, state: Floats) -> NoReturn:
    """Raise the error for a row that has probability zero."""
    raise ValueError(
        f"row {row} of the samples, {_listed(state)}, has probability zero under the target; "
        "leave it out"
    )


def refuse_neighbour(row: int, variable: int, state: Floats) -> NoReturn:
    """Raise the error for a neighbour of a row that has probability zero."""
    raise ValueError(
        "a Stein operator needs a target that is positive everywhere, but changing variable "
        f"{variable} of row {row} leads to {_listed(state)}, which has probability zero. "
        "Collapse variables that are functions of others: leave their cells NaN in all rows"
    )


def _listed(state: Floats) -> str:
    shown = ", ".join("?" if np.isnan(s) else f"{s:g}" for s in state[:16])
    return f"[{shown}{', ...' if len(state) > 16 else ''}]"
