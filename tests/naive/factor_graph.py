"""Slow truth: factor graphs by enumeration of all states."""

from __future__ import annotations

import itertools
import math

import numpy as np

from skpc.factor_graphs import FactorGraph


def all_states(graph: FactorGraph) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(size) for size in graph.n_states)))


def value(graph: FactorGraph, state: tuple[int, ...]) -> float:
    """The product of all factors."""
    found = 1.0
    for scope, table in zip(graph.scopes, graph.log_tables):
        found *= math.exp(table[tuple(state[v] for v in scope)])
    return found


def agrees(state, evidence) -> bool:
    return all(math.isnan(known) or known == s for s, known in zip(state, evidence))


def partition(graph: FactorGraph, evidence=None) -> float:
    evidence = [math.nan] * graph.n_variables if evidence is None else evidence
    return sum(value(graph, state) for state in all_states(graph) if agrees(state, evidence))


def conditional(graph: FactorGraph, evidence=None) -> dict[tuple[int, ...], float]:
    """Probability of every complete state that agrees with the evidence."""
    evidence = [math.nan] * graph.n_variables if evidence is None else evidence
    total = partition(graph, evidence)
    return {
        state: value(graph, state) / total for state in all_states(graph) if agrees(state, evidence)
    }


def marginals(graph: FactorGraph, evidence=None) -> list[np.ndarray]:
    found = [np.zeros(size) for size in graph.n_states]
    for state, prob in conditional(graph, evidence).items():
        for variable, s in enumerate(state):
            found[variable][s] += prob
    return found
