"""Mixtures of all trees by enumeration of the trees.

A directed model is a dict: ``weight[v][u]`` of the edge from parent u to child v, with the root as
parent n, and ``prob[v][u][a][b]`` of state b of v given state a of u (``a = 0`` for the root). An
undirected one: ``weight[u][v]``, univariate tables ``single[v][a]`` and pairwise ones
``pair[u][v][a][b]``.
"""

import itertools
import math

from tests.naive.spanning_trees import edges_of, forests


def all_rows(n_states):
    """Every complete row."""
    return list(itertools.product(*(range(k) for k in n_states)))


def _directed_terms(model, row):
    """Weight and density of each forest."""
    n = len(row)
    for parents in forests(n):
        weight = math.prod(model["weight"][v][n if u < 0 else u] for v, u in enumerate(parents))
        density = math.prod(
            model["prob"][v][n if u < 0 else u][0 if u < 0 else row[u]][row[v]]
            for v, u in enumerate(parents)
        )
        yield parents, weight, density


def directed_likelihood(model, row):
    terms = list(_directed_terms(model, row))
    return sum(w * p for _, w, p in terms) / sum(w for _, w, _ in terms)


def directed_edges(model, row):
    """Posterior probability of each edge (child, parent), the root as parent n."""
    n = len(row)
    terms = list(_directed_terms(model, row))
    total = sum(w * p for _, w, p in terms)
    found = {}
    for parents, w, p in terms:
        for v, u in enumerate(parents):
            edge = (v, n if u < 0 else u)
            found[edge] = found.get(edge, 0.0) + w * p / total
    return found


def _undirected_terms(model, row):
    """Weight and density (eq. 1) of each tree."""
    n = len(row)
    hung = [p for p in forests(n) if p[0] == -1 and p.count(-1) == 1]
    for edges in map(edges_of, hung):
        degree = [sum(v in edge for edge in edges) for v in range(n)]
        weight = math.prod(model["weight"][u][v] for u, v in edges)
        density = math.prod(model["pair"][u][v][row[u]][row[v]] for u, v in edges)
        density /= math.prod(model["single"][v][row[v]] ** (degree[v] - 1) for v in range(n))
        yield edges, weight, density


def undirected_likelihood(model, row):
    """Eq. 2."""
    terms = list(_undirected_terms(model, row))
    return sum(w * p for _, w, p in terms) / sum(w for _, w, _ in terms)


def undirected_edges(model, row):
    """Posterior probability of each edge (u, v) with u < v."""
    terms = list(_undirected_terms(model, row))
    total = sum(w * p for _, w, p in terms)
    found = {}
    for edges, w, p in terms:
        for edge in edges:
            found[edge] = found.get(edge, 0.0) + w * p / total
    return found
