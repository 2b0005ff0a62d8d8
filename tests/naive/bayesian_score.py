"""Slow truth: the marginal likelihood of rows, predicted one after the other from an urn."""

from __future__ import annotations

import math

import numpy as np

from skpc.circuit import LEAF, PRODUCT, Circuit


def log_marginal_likelihood(circuit: Circuit, rows: np.ndarray, ess: float) -> float:
    """Log probability of the rows in their order, each given those before it.

    Every sum and leaf is an urn: a child, or a state, is drawn with a probability in proportion to
    its balls, and one ball more of the same kind goes back.
    """
    balls: dict[tuple[int, int], float] = {}
    _fill(circuit, circuit.n_nodes - 1, ess, balls)
    return sum(_draw(circuit, circuit.n_nodes - 1, row, balls) for row in rows)


def _choices(circuit: Circuit, node: int) -> list[int]:
    """Positions of the possible children of a sum, or the possible states of a leaf."""
    if circuit.kind[node] == LEAF:
        log_prob = _log_prob(circuit, node)
        return [state for state, each in enumerate(log_prob) if each > -math.inf]
    edges = range(circuit.child_ptr[node], circuit.child_ptr[node + 1])
    return [i for i, edge in enumerate(edges) if circuit.log_weight[edge] > -math.inf]


def _log_prob(circuit: Circuit, node: int) -> np.ndarray:
    return circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]


def _children(circuit: Circuit, node: int) -> list[int]:
    return circuit.child[circuit.child_ptr[node] : circuit.child_ptr[node + 1]].tolist()


def _fill(circuit: Circuit, node: int, share: float, balls: dict) -> None:
    """Every way from the root to a node brings its share."""
    if circuit.kind[node] == PRODUCT:
        for child in _children(circuit, node):
            _fill(circuit, child, share, balls)
        return
    choices = _choices(circuit, node)
    for choice in choices:
        part = share / len(choices)
        balls[node, choice] = balls.get((node, choice), 0.0) + part
        if circuit.kind[node] != LEAF:
            _fill(circuit, _children(circuit, node)[choice], part, balls)


def _draw(circuit: Circuit, node: int, row: np.ndarray, balls: dict) -> float:
    if circuit.kind[node] == PRODUCT:
        return sum(_draw(circuit, child, row, balls) for child in _children(circuit, node))
    choices = _choices(circuit, node)
    if circuit.kind[node] == LEAF:
        (choice,) = [state for state in choices if row[circuit.leaf_var[node]] == state]
    else:
        children = _children(circuit, node)
        (choice,) = [each for each in choices if _is_possible(circuit, children[each], row)]
    total = sum(balls[node, each] for each in choices)
    log_p = math.log(balls[node, choice] / total)
    balls[node, choice] += 1.0
    if circuit.kind[node] == LEAF:
        return log_p
    return log_p + _draw(circuit, _children(circuit, node)[choice], row, balls)


def _is_possible(circuit: Circuit, node: int, row: np.ndarray) -> bool:
    if circuit.kind[node] == LEAF:
        return int(row[circuit.leaf_var[node]]) in _choices(circuit, node)
    parts = [_is_possible(circuit, child, row) for child in _children(circuit, node)]
    return all(parts) if circuit.kind[node] == PRODUCT else any(parts)
