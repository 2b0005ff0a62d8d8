"""Spanning trees by enumeration, and inference in one tree and in the mixture of all of them.

A tree is a tuple of parents, -1 for a root. Weights are given and returned as logs.
"""

import itertools
import math


def log_sum(logs):
    """Log of the sum of exponentials."""
    largest = max(logs)
    return largest + math.log(math.fsum(math.exp(x - largest) for x in logs))


def is_forest(parents):
    """Whether following the parents leads from every vertex to a root."""
    for v in range(len(parents)):
        steps = 0
        while v >= 0:
            v = parents[v]
            steps += 1
            if steps > len(parents):
                return False
    return True


def forests(n):
    """All directed forests on n vertices."""
    choices = [[-1, *(u for u in range(n) if u != v)] for v in range(n)]
    return [parents for parents in itertools.product(*choices) if is_forest(parents)]


def directed_log_weights(log_weight, log_root):
    """Log weight of every directed forest."""
    return {
        parents: sum(log_root[v] if u < 0 else log_weight[u][v] for v, u in enumerate(parents))
        for parents in forests(len(log_root))
    }


def edges_of(parents):
    """The undirected edges of a tree."""
    return frozenset((min(u, v), max(u, v)) for v, u in enumerate(parents) if u >= 0)


def undirected_log_weights(log_weight):
    """Log weight of every undirected tree, a set of edges."""
    hung = [p for p in forests(len(log_weight)) if p[0] == -1 and p.count(-1) == 1]
    return {edges_of(p): sum(log_weight[u][v] for u, v in edges_of(p)) for p in hung}


def probabilities(log_weights):
    """Probability of every tree."""
    log_total = log_sum(log_weights.values())
    return {tree: math.exp(w - log_total) for tree, w in log_weights.items()}


def completions(code, n_states):
    """All complete rows that agree with the observed cells."""
    return itertools.product(*[range(k) if x < 0 else [x] for x, k in zip(code, n_states)])


def tree_probability(parents, row, root, given):
    """Probability of a complete row in a tree; ``given[u, v][a][b]`` is P(x_v = b | x_u = a)."""
    return math.prod(
        root[v][row[v]] if u < 0 else given[u, v][row[u]][row[v]] for v, u in enumerate(parents)
    )


def tree_evidence(parents, code, root, given):
    """Probability of the observed cells of a row in a tree."""
    rows = completions(code, [len(p) for p in root])
    return math.fsum(tree_probability(parents, row, root, given) for row in rows)


def mixture_evidence(log_weights, code, root, given):
    """Probability of the observed cells of a row in the mixture of all directed forests."""
    return math.fsum(
        probability * tree_evidence(parents, code, root, given)
        for parents, probability in probabilities(log_weights).items()
    )


def mixture_marginals(log_weights, code, root, given):
    """Probabilities of the states of all variables, one after the other, given the others."""
    whole = mixture_evidence(log_weights, code, root, given)
    marginals = []
    for v, p in enumerate(root):
        for state in range(len(p)):
            part = [*code[:v], state, *code[v + 1 :]]
            seen = float(code[v] == state)
            missing = code[v] < 0
            marginals.append(
                mixture_evidence(log_weights, part, root, given) / whole if missing else seen
            )
    return marginals
