"""Kernelised discrete Stein discrepancy of circuits and samples.

Between circuits it is made of expected kernels under q and under the measures q(x) p(n_i x) / p(x),
which are circuits too: products of three nodes, those of p dividing.
"""

import math
from itertools import compress, product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from skpc._arrays import Floats, Ints, segment
from skpc._validation import check_option
from skpc.circuit import LEAF, PRODUCT, SUM, Circuit, CircuitBuilder
from skpc.discrepancies.mmd import mean_of_pairs
from skpc.discrepancies.stein import STEIN_OPERATORS, check_kernel, discrete_states, stein_gram
from skpc.exceptions import StructureError
from skpc.factor_graphs import FactorGraph
from skpc.kernels import Kernel
from skpc.queries.expectation import expected_kernel, refuse_incompatible

#: A node of q, one of the stepped p, and one of p, all of one scope.
_Triple = tuple[int, ...]


def kdsd(
    q: Any,
    p: FactorGraph | Circuit,
    kernel: Kernel | None = None,
    *,
    stein_operator: str = "ratio",
    unbiased: bool = True,
) -> float:
    """Squared kernelised discrete Stein discrepancy of q to p.

    It is :math:`\\mathrm{E}\\, k_p(x, x')` with independent x and x' of q and the Stein kernel of
    :func:`stein_gram` (equation 6 of the paper): zero if and only if q equals p, if the kernel is
    strictly positive definite and both are positive everywhere. Unlike :func:`mmd2`, it needs only
    ratios of probabilities of p, so the constant of p need not be known.

    Parameters
    ----------
    q : Circuit, or array-like of shape (n_samples, n_variables)
        A circuit compatible with p, or samples; cells that are NaN are collapsed
        (:func:`stein_gram`).
    p : Circuit or FactorGraph
        The distribution that q is compared with, positive everywhere. If q is a circuit, p must be
        a deterministic circuit (corollary 4.7).
    kernel : Kernel, default=None
        The base kernel; None is ``ExponentialHamming(1 / n_variables)``.
    stein_operator : {"ratio", "barker"}, default="ratio"
        The Stein operator. Between circuits only "ratio" is tractable: "barker" would divide by
        sums of probabilities, which are not deterministic.
    unbiased : bool, default=True
        For samples: the U-statistic, which leaves out the pairs of a sample with itself and may be
        negative. False counts them: the V-statistic.

    Returns
    -------
    float
        The squared discrepancy. It is not clipped: the rounding error between equal circuits is
        about 1e-16, of either sign.

    Raises
    ------
    IncompatibleError
        If two circuits split a scope in different ways.
    StructureError
        If a circuit p is not deterministic although q is a circuit.
    ValueError
        If p has a state of probability zero (for samples: if a neighbour of a sample has), which
        the message names; if one sample is too few for an unbiased estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.discrepancies import kdsd
    >>> from skpc.factor_graphs import FactorGraph, compile
    >>> weak, strong = (
    ...     FactorGraph.ising_grid(2, 2, coupling=c) for c in (0.1, 0.3)
    ... )
    >>> round(kdsd(compile(weak), compile(strong)), 3)
    0.193
    >>> abs(kdsd(compile(weak), compile(weak))) < 1e-14
    True
    >>> samples = np.random.default_rng(0).integers(
    ...     0, 2, size=(500, 4)
    ... )  # of no coupling
    >>> round(kdsd(samples, weak), 3), round(kdsd(samples, strong), 3)
    (0.018, 0.627)
    """
    check_option("stein_operator", stein_operator, STEIN_OPERATORS)
    if isinstance(q, Circuit):
        return _between_circuits(q, p, kernel, stein_operator)
    return mean_of_pairs(stein_gram(q, p, kernel, stein_operator=stein_operator), unbiased)


def _between_circuits(q: Circuit, p: Any, kernel: Kernel | None, stein_operator: str) -> float:
    if not isinstance(p, Circuit):
        raise TypeError(
            f"a circuit q needs a circuit p, got {type(p).__name__}; compile a factor graph"
        )
    if stein_operator != "ratio":
        raise ValueError(
            f"between circuits stein_operator must be 'ratio', got {stein_operator!r}; draw "
            "samples of q"
        )
    n_variables = len(discrete_states(p))
    discrete_states(q)
    # The triples of nodes need both circuits to split every scope alike.
    refuse_incompatible(q, p)
    if not p.deterministic:
        raise StructureError(
            "p must be deterministic to be divided by, but it has a sum that decides on no "
            "variable; compare samples of q instead"
        )
    _refuse_zeros(p)
    base = check_kernel(kernel, n_variables)
    total = 0.0
    # A Stein operator has a part for each variable: one term a state back, one at the state.
    for variable in range(n_variables):
        moved = _stepped(q, variable)
        neighbour, log_mass = _neighbour_measure(q, p, variable)
        mass = np.exp(log_mass)
        within = expected_kernel(moved, moved, base)
        within += mass * mass * expected_kernel(neighbour, neighbour, base)
        total += within - 2.0 * mass * expected_kernel(moved, neighbour, base)
    return float(total)


class _Node(NamedTuple):
    """What a triple is: a leaf, or parts. ``log_value`` has its table, or the weights of parts."""

    kind: int
    parts: list[_Triple]
    log_value: Floats


def _children(circuit: Circuit, node: int) -> Ints:
    return circuit.child[segment(circuit.child_ptr, node)]


def _table(circuit: Circuit, leaf: int) -> Floats:
    return circuit.param[segment(circuit.param_ptr, leaf)]


def _stepped(circuit: Circuit, variable: int) -> Circuit:
    """The circuit of ``x -> c(n_i x)``, with the next state of one variable, cyclic."""
    param = circuit.param.copy()
    for leaf in np.flatnonzero(circuit.leaf_var == variable):
        part = segment(circuit.param_ptr, leaf)
        param[part] = np.roll(param[part], -1)
    return circuit.with_parameters(param=param)


def _neighbour_measure(q: Circuit, p: Circuit, variable: int) -> tuple[Circuit, float]:
    """Multiply q by the probability of a neighbour relative to that of the state itself.

    Parameters
    ----------
    q, p : Circuit
        Compatible circuits over categories; p is deterministic and positive everywhere, so that
        dividing by it divides by the one term that is positive at a state.
    variable : int
        The variable that steps.

    Returns
    -------
    circuit : Circuit
        The measure ``q(x) p(n_i x) / p(x)``, normalised.
    log_mass : float
        Log of its constant.
    """
    circuits = (q, _stepped(p, variable), p)
    root: _Triple = (q.n_nodes - 1, p.n_nodes - 1, p.n_nodes - 1)
    nodes: dict[_Triple, _Node] = {}
    pending = [root]
    while pending:
        triple = pending.pop()
        if triple not in nodes:
            nodes[triple] = _node(circuits, triple)
            pending += nodes[triple].parts
    # A part is before its whole in one of the circuits, and behind it in none.
    order = sorted(nodes, key=sum)
    log_mass: dict[_Triple, float] = {}
    for triple in order:
        kind, parts, log_value = nodes[triple]
        masses = np.array([log_mass[part] for part in parts] or [0.0])
        total = masses.sum() if kind == PRODUCT else logsumexp(log_value + masses)
        log_mass[triple] = float(total)
    # From the root down, parts without mass are left out, and all that only they reach.
    reached = {root}
    for triple in reversed(order):
        if triple in reached:
            parts = nodes[triple].parts
            reached.update(part for part in parts if log_mass[part] > -np.inf)
    builder = CircuitBuilder(q.n_states)
    made: dict[_Triple, int] = {}
    for triple in (triple for triple in order if triple in reached):
        kind, parts, log_value = nodes[triple]
        if kind == LEAF:
            log_prob = log_value - log_mass[triple]
            made[triple] = builder.discrete(int(q.leaf_var[triple[0]]), log_prob)
        elif kind == PRODUCT:
            made[triple] = builder.product([made[part] for part in parts])
        else:
            # Weights of normalised parts: each takes over the mass of its part.
            terms = [
                (made[part], weight + log_mass[part])
                for part, weight in zip(parts, log_value)
                if part in made
            ]
            children, log_weight = zip(*terms)
            made[triple] = builder.sum(children, np.array(log_weight) - log_mass[triple])
    return builder.build(), log_mass[root]


def _node(circuits: tuple[Circuit, ...], triple: _Triple) -> _Node:
    """Every combination of terms where there is a sum; else the parts of one scope, or a table."""
    kinds = [int(circuit.kind[node]) for circuit, node in zip(circuits, triple)]
    below = [_children(circuit, node).tolist() for circuit, node in zip(circuits, triple)]
    # A product of one child passes for a sum of one term.
    opens = [kind == SUM or len(parts) == 1 for kind, parts in zip(kinds, below)]
    if not any(opens):
        if PRODUCT not in kinds:
            return _Node(LEAF, [], _log_table(circuits, triple))
        return _Node(PRODUCT, _matched(circuits, below), np.empty(0))
    options = []
    # The weights of p divide.
    for circuit, node, parts, opened, sign in zip(circuits, triple, below, opens, (1.0, 1.0, -1.0)):
        weights = circuit.log_weight[segment(circuit.child_ptr, node)]
        pairs = zip(parts, weights.tolist())
        terms = [(part, sign * weight) for part, weight in pairs if weight > -np.inf]
        options.append(terms if opened else [(node, 0.0)])
    # Every choice of one term of each circuit that has a sum is a term of the triple.
    combinations = list(product(*options))
    triples = [tuple(part for part, _ in terms) for terms in combinations]
    log_weights = [sum(weight for _, weight in terms) for terms in combinations]
    return _Node(SUM, triples, np.array(log_weights))


def _log_table(circuits: tuple[Circuit, ...], triple: _Triple) -> Floats:
    """The table of three leaves, that of p dividing; -inf where one of them is zero."""
    weight_q, stepped, divisor = (_table(circuit, node) for circuit, node in zip(circuits, triple))
    # Where a state is impossible, infinities of both signs meet.
    with np.errstate(invalid="ignore"):
        return np.where(divisor > -np.inf, weight_q + stepped - divisor, -np.inf)


def _matched(circuits: tuple[Circuit, ...], below: list[list[int]]) -> list[_Triple]:
    """Children of three products by their scopes; a contradiction of leaves stands for all."""
    by_scope = [
        {circuit.scopes[part]: part for part in parts} for circuit, parts in zip(circuits, below)
    ]
    triples = [tuple(children[scope] for children in by_scope) for scope in by_scope[0]]
    for triple in triples:
        are_leaves = all(circuit.kind[node] == LEAF for circuit, node in zip(circuits, triple))
        if are_leaves and not np.isfinite(_log_table(circuits, triple)).any():
            return [triple]
    return triples


def _refuse_zeros(p: Circuit) -> None:
    """Refuse a deterministic circuit that gives some state probability zero, and name the state."""
    sizes = p.n_states.tolist()
    if _count_possible(p, {}) == math.prod(sizes):
        return
    state: dict[int, int] = {}
    # State by state: where fewer than all completions are possible, one of them is not.
    for variable, size in enumerate(sizes):
        n_completions = math.prod(sizes[variable + 1 :])
        choices = ({**state, variable: value} for value in range(size))
        state = next(each for each in choices if _count_possible(p, each) < n_completions)
    raise ValueError(
        f"a Stein operator needs a p that is positive everywhere, but the state "
        f"{list(state.values())} has probability zero. Sum out variables that are functions of "
        "others (skpc.factor_graphs.sum_out), or compare collapsed samples (stein_gram)"
    )


def _count_possible(p: Circuit, known: dict[int, int]) -> int:
    """How many states that agree with the known ones a deterministic circuit makes possible."""
    counts: list[int] = []
    for node in range(p.n_nodes):
        below = [counts[child] for child in _children(p, node)]
        if p.kind[node] == LEAF:
            possible = _table(p, node) > -np.inf
            state = known.get(int(p.leaf_var[node]))
            n_possible = possible.sum() if state is None else possible[state]
            counts.append(int(n_possible))
        elif p.kind[node] == PRODUCT:
            counts.append(math.prod(below))
        else:
            # No state is possible for two terms.
            possible = p.log_weight[segment(p.child_ptr, node)] > -np.inf
            counts.append(sum(compress(below, possible)))
    return counts[-1]
