"""Kernelised discrete Stein discrepancy of circuits and samples.

Between circuits it is made of expected kernels under q and under the measures q(x) p(n_i x) / p(x),
which are circuits too: products of three nodes, those of p dividing.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from skpc._arrays import Floats
from skpc.circuit import LEAF, PRODUCT, SUM, Circuit, CircuitBuilder
from skpc.discrepancies.mmd import mean_of_pairs
from skpc.discrepancies.stein import check_kernel, check_stein_operator, discrete_states, stein_gram
from skpc.exceptions import StructureError
from skpc.factor_graphs import FactorGraph
from skpc.kernels import Kernel
from skpc.queries import expected_kernel
from skpc.queries.expectation import refuse_incompatible

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
    >>> weak, strong = (FactorGraph.ising_grid(2, 2, coupling=c) for c in (0.1, 0.3))
    >>> round(kdsd(compile(weak), compile(strong)), 3)
    0.193
    >>> abs(kdsd(compile(weak), compile(weak))) < 1e-14
    True
    >>> samples = np.random.default_rng(0).integers(0, 2, size=(500, 4))  # of no coupling
    >>> round(kdsd(samples, weak), 3), round(kdsd(samples, strong), 3)
    (0.018, 0.627)
    """
    check_stein_operator(stein_operator)
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
    refuse_incompatible(q, p)
    if not p.deterministic:
        raise StructureError(
            "p must be deterministic to be divided by, but it has a sum that decides on no "
            "variable; compare samples of q instead"
        )
    _refuse_zeros(p)
    base = check_kernel(kernel, n_variables)
    total = 0.0
    for variable in range(n_variables):
        moved = _stepped(q, variable)
        kept, log_mass = _neighbour_measure(q, p, variable)
        mass = np.exp(log_mass)
        within = expected_kernel(moved, moved, base)
        within += mass * mass * expected_kernel(kept, kept, base)
        total += within - 2.0 * mass * expected_kernel(moved, kept, base)
    return float(total)


class _Node(NamedTuple):
    """What a triple is: a leaf, or parts. ``log_value`` has its table, or the weights of parts."""

    kind: int
    parts: list[_Triple]
    log_value: Floats


def _stepped(circuit: Circuit, variable: int) -> Circuit:
    """The circuit of ``x -> c(n_i x)``, with the next state of one variable, cyclic."""
    param = circuit.param.copy()
    for leaf in np.flatnonzero(circuit.leaf_var == variable):
        part = slice(circuit.param_ptr[leaf], circuit.param_ptr[leaf + 1])
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
    root = (q.n_nodes - 1, p.n_nodes - 1, p.n_nodes - 1)
    nodes, log_mass = _explored(circuits, root)
    return _built(q, nodes, log_mass, root), log_mass[root]


def _explored(
    circuits: tuple[Circuit, ...], root: _Triple
) -> tuple[dict[_Triple, _Node], dict[_Triple, float]]:
    """All triples that matter, and the log of the mass of each, children first."""
    nodes: dict[_Triple, _Node] = {}
    log_mass: dict[_Triple, float] = {}
    pending = [root]
    while pending:
        triple = pending[-1]
        if triple in log_mass:
            pending.pop()
            continue
        if triple not in nodes:
            nodes[triple] = _node(circuits, triple)
        node = nodes[triple]
        waiting = [part for part in node.parts if part not in log_mass]
        if node.kind == PRODUCT:
            # One part without mass settles it: contradictory decisions end here, at a leaf.
            if any(log_mass.get(part) == -np.inf for part in node.parts):
                waiting = []
                log_mass[triple] = -np.inf
            else:
                waiting = waiting[:1]
        if waiting:
            pending += waiting
        elif triple not in log_mass:
            log_mass[triple] = _mass(node, log_mass)
    return nodes, log_mass


def _mass(node: _Node, log_mass: dict[_Triple, float]) -> float:
    if node.kind == LEAF:
        return float(logsumexp(node.log_value))
    masses = np.array([log_mass[part] for part in node.parts])
    return float(masses.sum() if node.kind == PRODUCT else logsumexp(node.log_value + masses))


def _node(circuits: tuple[Circuit, ...], triple: _Triple) -> _Node:
    kinds = [int(c.kind[node]) for c, node in zip(circuits, triple)]
    below = [
        c.child[c.child_ptr[node] : c.child_ptr[node + 1]].tolist()
        for c, node in zip(circuits, triple)
    ]
    # A product of one child passes for a sum of one term.
    opens = [kind == SUM or len(parts) == 1 for kind, parts in zip(kinds, below)]
    if any(opens):
        return _sum(circuits, triple, below, opens)
    if PRODUCT in kinds:
        return _Node(PRODUCT, _matched(circuits, below), np.empty(0))
    tables = [
        c.param[c.param_ptr[node] : c.param_ptr[node + 1]] for c, node in zip(circuits, triple)
    ]
    possible = np.all(np.isfinite(tables), axis=0)
    log_table = np.full(len(possible), -np.inf)
    above, stepped_table, under = (table[possible] for table in tables)
    log_table[possible] = above + stepped_table - under
    return _Node(LEAF, [], log_table)


def _sum(
    circuits: tuple[Circuit, ...], triple: _Triple, below: list[list[int]], opens: list[bool]
) -> _Node:
    """Every combination of terms; the weights of p divide."""
    options = []
    for c, node, parts, opened, sign in zip(circuits, triple, below, opens, (1.0, 1.0, -1.0)):
        if opened:
            weights = c.log_weight[c.child_ptr[node] : c.child_ptr[node + 1]]
            options.append([(p, sign * w) for p, w in zip(parts, weights.tolist()) if w > -np.inf])
        else:
            options.append([(node, 0.0)])
    terms = list(product(*options))
    triples = [tuple(part for part, _ in term) for term in terms]
    return _Node(SUM, triples, np.array([sum(weight for _, weight in term) for term in terms]))


def _matched(circuits: tuple[Circuit, ...], below: list[list[int]]) -> list[_Triple]:
    """Children of three products by their scopes, leaves first."""
    by_scope = [{c.scopes[part]: part for part in parts} for c, parts in zip(circuits, below)]
    scopes = sorted(by_scope[0], key=int.bit_count)
    return [tuple(children[scope] for children in by_scope) for scope in scopes]


def _built(
    q: Circuit, nodes: dict[_Triple, _Node], log_mass: dict[_Triple, float], root: _Triple
) -> Circuit:
    """The normalised circuit of the triples with mass that the root reaches."""
    used = {root}
    for triple in reversed(log_mass):
        if triple in used:
            used.update(part for part in nodes[triple].parts if log_mass[part] > -np.inf)
    builder = CircuitBuilder(q.n_states)
    made: dict[_Triple, int] = {}
    for triple in (triple for triple in log_mass if triple in used):
        node, mass = nodes[triple], log_mass[triple]
        parts = [part for part in node.parts if part in made]
        if node.kind == LEAF:
            variable = int(q.leaf_var[triple[0]])
            made[triple] = builder.discrete(variable, node.log_value - mass)
        elif node.kind == PRODUCT:
            made[triple] = builder.product([made[part] for part in parts])
        else:
            weights = zip(node.parts, node.log_value)
            log_weight = [w + log_mass[part] - mass for part, w in weights if part in made]
            made[triple] = builder.sum([made[part] for part in parts], log_weight)
    return builder.build()


def _refuse_zeros(p: Circuit) -> None:
    """Refuse a deterministic circuit that gives some state probability zero, and name the state."""
    least, choice = [0.0] * p.n_nodes, [0] * p.n_nodes
    kind, child_ptr = p.kind.tolist(), p.child_ptr.tolist()
    below = [p.child[child_ptr[n] : child_ptr[n + 1]].tolist() for n in range(p.n_nodes)]
    for node in range(p.n_nodes):
        if kind[node] == LEAF:
            table = p.param[p.param_ptr[node] : p.param_ptr[node + 1]]
            choice[node] = int(np.argmin(table))
            least[node] = float(table[choice[node]])
        elif p.decision_var[node] < 0:
            least[node] = sum(least[part] for part in below[node])
        else:
            values = np.full(p.n_states[p.decision_var[node]], -np.inf)
            for edge in range(child_ptr[node], child_ptr[node + 1]):
                rest = _undecided(p, node, edge, below)
                values[p.decision_state[edge]] = p.log_weight[edge] + sum(least[r] for r in rest)
            choice[node] = int(np.argmin(values))
            least[node] = float(values[choice[node]])
    if least[-1] == -np.inf:
        raise ValueError(
            "a Stein operator needs a p that is positive everywhere, but the state "
            f"{_least_state(p, choice, below)} has probability zero. Sum out variables that are "
            "functions of others (skpc.factor_graphs.sum_out), or compare collapsed samples "
            "(stein_gram)"
        )


def _undecided(p: Circuit, node: int, edge: int, below: list[list[int]]) -> list[int]:
    """The parts of a term of a deciding sum, without the indicator that decides."""
    term = int(p.child[edge])
    parts = below[term] if p.kind[term] == PRODUCT else [term]
    return [part for part in parts if p.leaf_var[part] != p.decision_var[node]]


def _least_state(p: Circuit, choice: list[int], below: list[list[int]]) -> list[int]:
    state = [0] * p.n_features
    pending = [p.n_nodes - 1]
    while pending:
        node = pending.pop()
        if p.kind[node] == LEAF:
            state[p.leaf_var[node]] = choice[node]
        elif p.decision_var[node] < 0:
            pending += below[node]
        else:
            state[p.decision_var[node]] = choice[node]
            for edge in range(p.child_ptr[node], p.child_ptr[node + 1]):
                if p.decision_state[edge] == choice[node]:
                    pending += _undecided(p, node, edge, below)
    return state
