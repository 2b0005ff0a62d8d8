"""Discrete Stein kernels between rows, complete or collapsed.

``tests/naive/stein.py`` says the same by sums over all states.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import ZERO, inlined, internal_kernel, kernel
from skpc._threads import in_threads
from skpc._validation import check_option
from skpc.circuit import Circuit
from skpc.discrepancies._collapsed import CollapsedRows, collapse_rows
from skpc.factor_graphs import FactorGraph
from skpc.kernels import ExponentialHamming, Kernel, KernelCircuit, KernelNode, product_terms
from skpc.queries.flows import check_categories

STEIN_OPERATORS = ("ratio", "barker")


def stein_gram(
    samples: Any,
    target: FactorGraph | Circuit,
    kernel: Kernel | None = None,
    *,
    stein_operator: str = "ratio",
) -> Floats:
    """Stein kernel between all pairs of samples.

    A Stein operator of a distribution p turns functions :math:`f_i` (one for each variable) into
    one whose mean under p is zero. Let :math:`n_i` move variable i to its next state (the first
    one follows the last), and :math:`m_i` move it back. The two operators are

    - "ratio": :math:`T f(x) = \\sum_i f_i(m_i x) - \\frac{p(n_i x)}{p(x)} f_i(x)`;
    - "barker": :math:`T f(x) = \\sum_i \\frac{p(m_i x)}{p(x) + p(m_i x)} f_i(m_i x)
      - \\frac{p(n_i x)}{p(x) + p(n_i x)} f_i(x)`, whose coefficients lie between 0 and 1.

    Applied to both arguments of a kernel k they give the Stein kernel :math:`k_p(x, x')`. For two
    states, "ratio" is equation 6 of the paper; for more states, the paper writes two symbols for
    the permutations and defines one of them.

    Parameters
    ----------
    samples : array-like of shape (n_samples, n_variables)
        Rows of states. A cell that is NaN is *collapsed*: its variable follows its conditional
        distribution given the others of the row. For "ratio" the result is the mean of
        :math:`k_p` over all completions (equation 9). For "barker" the operator is that of the
        marginal :math:`p(x_s)` of the sampled variables, applied to :math:`\\mathrm{E}[f_i \\mid
        x_s]`: a different kernel than the mean, with the same properties.
    target : FactorGraph or Circuit
        The distribution p, which is positive everywhere. For a factor graph only conditionals of
        collapsed variables are compiled. With a circuit the samples must be complete.
    kernel : Kernel, default=None
        The kernel k; None is ``ExponentialHamming(1 / n_variables)``.
    stein_operator : {"ratio", "barker"}, default="ratio"
        The Stein operator.

    Returns
    -------
    ndarray of shape (n_samples, n_samples)
        The Gram matrix: symmetric, positive semidefinite.

    Raises
    ------
    ValueError
        If a sample or one of its neighbours has probability zero (the message names it), the cells
        do not fit the target, or a conditional is too dense.

    Notes
    -----
    An entry for two complete rows costs a visit for each variable. For collapsed rows it costs four
    expectations of the kernel under pairs of conditionals, for each variable that is sampled in
    both. ``joblib.parallel_config(n_jobs=...)`` shares the rows among threads.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.discrepancies import stein_gram
    >>> from skpc.factor_graphs import FactorGraph
    >>> coin = FactorGraph([2], [((0,), np.log([0.25, 0.75]))])
    >>> gram = stein_gram([[0.0], [1.0]], coin, stein_operator="barker")
    >>> gram.round(3)
    array([[ 0.711, -0.237],
           [-0.237,  0.079]])
    >>> (np.array([0.25, 0.75]) @ gram).round(12) + 0.0
    array([0., 0.])
    """
    check_option("stein_operator", stein_operator, STEIN_OPERATORS)
    rows = _read_samples(samples, target, stein_operator)
    base = check_kernel(kernel, len(rows.n_states))
    n_rows, n_variables = rows.state.shape
    gram = np.zeros((n_rows, n_rows))
    root = KernelCircuit(base, n_variables).root
    # A sum of kernels of one column is a table of its states, as any column kernel is.
    for weight, factors in product_terms(root, lambda node: node.is_single):
        in_order = [factors[variable] for variable in range(n_variables)]
        gram += weight * _gram_of_product(rows, in_order)
    return gram


def check_kernel(kernel: Kernel | None, n_variables: int) -> Kernel:
    """The kernel, or by default the exponential Hamming kernel."""
    if kernel is None:
        return ExponentialHamming(1.0 / n_variables)
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a Kernel of skpc.kernels or None, got {kernel!r}")
    return kernel


def discrete_states(circuit: Circuit) -> Ints:
    """Numbers of states of a circuit over categories that has not been conditioned."""
    check_categories(circuit, "Stein operators, which step through states, need")
    return circuit.n_states


def _read_samples(samples: Any, target: Any, stein_operator: str) -> CollapsedRows:
    if isinstance(target, FactorGraph):
        return collapse_rows(target, target.check_rows(samples), stein_operator, None)
    if not isinstance(target, Circuit):
        raise TypeError(f"target must be a FactorGraph or a Circuit, got {type(target).__name__}")
    independent = FactorGraph(discrete_states(target).tolist(), [])
    rows = independent.check_rows(samples)
    missing = np.argwhere(np.isnan(rows))
    if len(missing):
        raise ValueError(
            f"with a circuit the samples must be complete, but cell {missing[0].tolist()} is "
            "missing; collapsed rows need a FactorGraph"
        )
    return collapse_rows(independent, rows, stein_operator, target)


class _Workspace(NamedTuple):
    """What a thread has: the kernel of states ``s`` and ``t`` of variable ``v``, which is
    ``value[value_ptr[v] + s * n_states[v] + t]``; messages between two conditionals, and where
    the message of each variable begins."""

    value: Floats
    value_ptr: Ints
    message: Floats
    message_ptr: Ints


def _gram_of_product(rows: CollapsedRows, factors: Sequence[KernelNode]) -> Floats:
    # Memory beyond which the messages between two conditionals are refused.
    most_bytes = 2**31
    # Rows of the matrix that a thread computes before it asks for more.
    stripe = 8
    parts = []
    # The kernel of every two states of each variable, row by row, end to end.
    for factor, size in zip(factors, rows.n_states):
        states = np.arange(float(size))
        table = factor.of_points(states[:, np.newaxis], states)
        parts.append(table.ravel())
    value = np.concatenate(parts)
    # The messages of all variables of two rows, should they all be wide.
    value_ptr = offsets([len(part) for part in parts])
    n_messages = int(np.sum(rows.n_contexts.max(axis=0) ** 2))
    if 8 * n_messages > most_bytes:
        raise ValueError(
            f"the conditionals of collapsed rows depend on up to {rows.n_contexts.max()} joint "
            f"states, so that pairs of them need {8 * n_messages / 2**30:.3g} GiB "
            f"({most_bytes >> 30} GiB at most); collapse fewer variables"
        )
    n_rows, n_variables = rows.state.shape
    gram = np.empty((n_rows, n_rows))

    def work(start: int) -> None:
        messages = np.empty(n_messages), np.empty(n_variables, np.int64)
        space = _Workspace(value, value_ptr, *messages)
        _fill_rows(rows, space, start, min(start + stripe, n_rows), gram)

    in_threads(work, range(0, n_rows, stripe))
    return gram


@kernel
def _fill_rows(rows: CollapsedRows, space: _Workspace, start: int, stop: int, gram: Floats) -> None:
    """Rows ``start .. stop`` of the matrix from the diagonal on, and their mirror images."""
    for a in range(start, stop):
        for b in range(a, len(gram)):
            # The kernel is symmetric: half of the pairs are enough.
            entry = _entry(rows, space, a, b)
            gram[a, b] = entry
            gram[b, a] = entry


@internal_kernel
def _entry(rows: CollapsedRows, space: _Workspace, a: int, b: int) -> float:
    """The Stein kernel between two rows: a sum over the variables sampled in both."""
    state = rows.state
    n_states = rows.n_states
    # The two rows' conditionals meet for every variable: once is enough.
    row_mean = _expected(rows, space, a, b, ZERO, ZERO)
    product = 1.0
    total = 0.0
    for variable in range(len(n_states)):
        x = state[a, variable]
        y = state[b, variable]
        size = n_states[variable]
        # Collapsed in one of the rows: no step changes it.
        if x < 0 or y < 0:
            continue
        variable_sum = 0.0
        # Either row steps (0) or stays (1): four terms of the operator, applied on both sides.
        for term in range(4):
            left = term // 2
            right = term % 2
            left_measure = rows.measure[left, a, variable]
            right_measure = rows.measure[right, b, variable]
            weight = rows.coefficient[left, a, variable] * rows.coefficient[right, b, variable]
            # A step leads to the state before, from the first one to the last.
            before_x = (x + size - 1) % size
            before_y = (y + size - 1) % size
            left_state = x if left else before_x
            right_state = y if right else before_y
            mean = row_mean
            if left_measure + right_measure > 0:
                mean = _expected(rows, space, a, b, left_measure, right_measure)
            value = _kernel_value(rows, space, variable, left_state, right_state)
            variable_sum += weight * mean * value
        # What a variable gives is multiplied by the kernel of all others: by the product of those
        # before it, and later by each of those that follow. None can divide: it may be zero.
        value = _kernel_value(rows, space, variable, x, y)
        total = total * value + product * variable_sum
        product *= value
    return total


@inlined
def _kernel_value(
    rows: CollapsedRows, space: _Workspace, variable: int, left_state: int, right_state: int
) -> float:
    """The kernel between two states of variable ``variable``."""
    place = left_state * rows.n_states[variable] + right_state
    return space.value[space.value_ptr[variable] + place]


# Apart from the expectations of skpc.queries: those pair the nodes of two circuits, while the
# conditionals of all rows are tables on one vtree, thousands of small ones that never become
# circuits, and two of them meet for every entry of the matrix.
@internal_kernel
def _expected(
    rows: CollapsedRows, space: _Workspace, a: int, b: int, measure_a: int, measure_b: int
) -> float:
    """Doubly expected kernel under a measure of row ``a`` and a measure of row ``b``.

    Algorithm 1 of the paper, on conditional tables of a shared vtree in place of pairs of nodes.
    Variables sampled in both rows are left out: their kernel is a number.
    """
    state = rows.state
    pattern_a = rows.pattern[a]
    pattern_b = rows.pattern[b]
    contexts_a = rows.n_contexts[pattern_a]
    contexts_b = rows.n_contexts[pattern_b]
    place_a = rows.place[pattern_a]
    place_b = rows.place[pattern_b]
    # Where the tables of both measures begin.
    start_a = rows.start[a] + measure_a * rows.size[pattern_a]
    start_b = rows.start[b] + measure_b * rows.size[pattern_b]
    weights = rows.weights
    places = rows.places
    message = space.message
    message_ptr = space.message_ptr
    result = 1.0
    used = 0
    for variable in rows.order:
        sampled_a = state[a, variable]
        sampled_b = state[b, variable]
        n_a = contexts_a[variable]
        n_b = contexts_b[variable]
        width = n_a * n_b
        # Sampled in both rows, and nothing below depends on it.
        if sampled_a >= 0 and sampled_b >= 0 and width == 1:
            continue
        begin = used
        message_ptr[variable] = begin
        used += width
        for cell in range(begin, used):
            message[cell] = 0.0
        table_a = start_a + rows.table[pattern_a, variable]
        table_b = start_b + rows.table[pattern_b, variable]
        size_a = rows.n_options[pattern_a, variable]
        size_b = rows.n_options[pattern_b, variable]
        # Entries of a table are its options in each context; a message has all pairs of contexts.
        for entry_a in range(n_a * size_a):
            state_a = sampled_a if sampled_a >= 0 else entry_a % size_a
            for entry_b in range(n_b * size_b):
                state_b = sampled_b if sampled_b >= 0 else entry_b % size_b
                value = weights[table_a + entry_a] * weights[table_b + entry_b]
                # The kernel of a variable that is sampled in both rows stands before the sum.
                if sampled_a < 0 or sampled_b < 0:
                    value *= _kernel_value(rows, space, variable, state_a, state_b)
                for edge in range(rows.child_ptr[variable], rows.child_ptr[variable + 1]):
                    below = rows.child[edge]
                    n_below = contexts_b[below]
                    # Messages of width one have been multiplied into the result.
                    if contexts_a[below] * n_below > 1:
                        context_a = places[place_a[below] + entry_a]
                        context_b = places[place_b[below] + entry_b]
                        value *= message[message_ptr[below] + context_a * n_below + context_b]
                message[begin + (entry_a // size_a) * n_b + entry_b // size_b] += value
        # A message that depends on nothing above is a factor of the whole.
        if width == 1:
            result *= message[begin]
            used = begin
    return result
