"""Discrete Stein kernels between rows, complete or collapsed.

``tests/naive/stein.py`` says the same by sums over all states.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets
from skpc._jit import inlined, internal_kernel, kernel
from skpc._threads import in_threads
from skpc._validation import check_option
from skpc.circuit import Circuit
from skpc.discrepancies._collapsed import CollapsedRows, collapse_rows
from skpc.factor_graphs import FactorGraph
from skpc.kernels import ExponentialHamming, Kernel, KernelCircuit, KernelNode, product_terms
from skpc.queries.flows import check_categories

STEIN_OPERATORS = ("ratio", "barker")
#: Rows of the matrix that a thread computes before it asks for more.
_STRIPE = 8
#: Memory beyond which the messages between two conditionals are refused.
_MOST_BYTES = 2**31


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
    gram = np.zeros((len(rows.state), len(rows.state)))
    root = KernelCircuit(base, len(rows.n_states)).root
    # A sum of kernels of one column is a table of its states, as any column kernel is.
    for weight, factors in product_terms(root, lambda node: node.is_single):
        in_order = [factors[variable] for variable in range(len(rows.n_states))]
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
    return np.asarray(circuit.n_states)


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
    ``value[first_value[v] + s * n_states[v] + t]``; messages between two conditionals, and where
    the message of each variable begins."""

    value: Floats
    first_value: Ints
    message: Floats
    first: Ints


def _gram_of_product(rows: CollapsedRows, factors: Sequence[KernelNode]) -> Floats:
    states = [np.arange(float(size)) for size in rows.n_states]
    parts = [f.of_points(s[:, np.newaxis], s).ravel() for f, s in zip(factors, states)]
    value = np.concatenate(parts)
    first_value = offsets([len(part) for part in parts])
    n_messages = int(np.sum(rows.n_contexts.max(axis=0) ** 2))
    if 8 * n_messages > _MOST_BYTES:
        raise ValueError(
            f"the conditionals of collapsed rows depend on up to {rows.n_contexts.max()} joint "
            f"states, so that pairs of them need {8 * n_messages / 2**30:.3g} GiB "
            f"({_MOST_BYTES >> 30} GiB at most); collapse fewer variables"
        )
    n_rows, n_variables = rows.state.shape
    gram = np.empty((n_rows, n_rows))

    def work(start: int) -> None:
        messages = np.empty(n_messages), np.empty(n_variables, np.int64)
        space = _Workspace(value, first_value, *messages)
        _fill_rows(rows, space, start, min(start + _STRIPE, n_rows), gram)

    in_threads(work, range(0, n_rows, _STRIPE))
    return gram


@kernel
def _fill_rows(rows: CollapsedRows, space: _Workspace, start: int, stop: int, gram: Floats) -> None:
    """Rows ``start .. stop`` of the matrix from the diagonal on, and their mirror images."""
    for a in range(start, stop):
        for b in range(a, len(gram)):
            # The kernel is symmetric: half of the pairs are enough.
            gram[a, b] = _entry(rows, space, a, b)
            gram[b, a] = gram[a, b]


@internal_kernel
def _entry(rows: CollapsedRows, space: _Workspace, a: int, b: int) -> float:
    """The Stein kernel between two rows: a sum over the variables sampled in both."""
    state = rows.state
    n_states = rows.n_states
    # The two rows' conditionals meet for every variable: once is enough.
    of_rows = _expected(rows, space, a, b, 0, 0)
    product = 1.0
    total = 0.0
    for i in range(len(n_states)):
        x = state[a, i]
        y = state[b, i]
        size = n_states[i]
        # Collapsed in one of the rows: no step changes it.
        if x < 0 or y < 0:
            continue
        of_variable = 0.0
        # Either row steps (0) or stays (1): four terms of the operator, applied on both sides.
        for term in range(4):
            left = term // 2
            right = term % 2
            p = rows.measure[left, a, i]
            q = rows.measure[right, b, i]
            weight = rows.coefficient[left, a, i] * rows.coefficient[right, b, i]
            # A step leads to the state before, from the first one to the last.
            u = x if left else (x + size - 1) % size
            v = y if right else (y + size - 1) % size
            mean = of_rows if p + q == 0 else _expected(rows, space, a, b, p, q)
            of_variable += weight * mean * _kernel_value(rows, space, i, u, v)
        # What a variable gives is multiplied by the kernel of all others: by the product of those
        # before it, and later by each of those that follow. None can divide: it may be zero.
        value = _kernel_value(rows, space, i, x, y)
        total = total * value + product * of_variable
        product *= value
    return total


@inlined
def _kernel_value(rows: CollapsedRows, space: _Workspace, v: int, s: int, t: int) -> float:
    """The kernel between two states of variable ``v``."""
    return space.value[space.first_value[v] + s * rows.n_states[v] + t]


# Apart from the expectations of skpc.queries: those pair the nodes of two circuits, while the
# conditionals of all rows are tables on one vtree, thousands of small ones that never become
# circuits, and two of them meet for every entry of the matrix.
@internal_kernel
def _expected(rows: CollapsedRows, space: _Workspace, a: int, b: int, p: int, q: int) -> float:
    """Doubly expected kernel under measure ``p`` of row ``a`` and measure ``q`` of row ``b``.

    Algorithm 1 of the paper, on conditional tables of a shared vtree in place of pairs of nodes.
    Variables sampled in both rows are left out: their kernel is a number.
    """
    state = rows.state
    n_contexts = rows.n_contexts
    n_options = rows.n_options
    of_a = rows.pattern[a]
    of_b = rows.pattern[b]
    weights = rows.weights
    places = rows.places
    child = rows.child
    message = space.message
    first = space.first
    result = 1.0
    used = 0
    for j in range(len(rows.order)):
        v = rows.order[j]
        x = state[a, v]
        y = state[b, v]
        wide_b = n_contexts[of_b, v]
        width = n_contexts[of_a, v] * wide_b
        # Sampled in both rows, and nothing below depends on it.
        if x >= 0 and y >= 0 and width == 1:
            continue
        begin = used
        first[v] = begin
        used += width
        for m in range(begin, used):
            message[m] = 0.0
        table_a = rows.first[a] + p * rows.size[of_a] + rows.table[of_a, v]
        table_b = rows.first[b] + q * rows.size[of_b] + rows.table[of_b, v]
        size_a = n_options[of_a, v]
        size_b = n_options[of_b, v]
        for e in range(n_contexts[of_a, v] * size_a):
            s = x if x >= 0 else e % size_a
            for f in range(wide_b * size_b):
                t = y if y >= 0 else f % size_b
                value = weights[table_a + e] * weights[table_b + f]
                # The kernel of a variable that is sampled in both rows stands before the sum.
                if x < 0 or y < 0:
                    value *= _kernel_value(rows, space, v, s, t)
                for c in range(rows.child_ptr[v], rows.child_ptr[v + 1]):
                    w = child[c]
                    # Messages of width one have been multiplied into the result.
                    if n_contexts[of_a, w] * n_contexts[of_b, w] > 1:
                        at = places[rows.place[of_a, w] + e] * n_contexts[of_b, w]
                        value *= message[first[w] + at + places[rows.place[of_b, w] + f]]
                message[begin + (e // size_a) * wide_b + f // size_b] += value
        # A message that depends on nothing above is a factor of the whole.
        if width == 1:
            result *= message[begin]
            used = begin
    return result
