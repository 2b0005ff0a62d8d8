"""Cutset networks, the slow way: scores, Algorithm 1, likelihoods.

A network is ``("tree", {variable: parent})`` or ``("cut", variable, [network, ...])``.
"""

import math
from itertools import combinations

from skpc.circuit import PRODUCT
from tests.naive import chow_liu


def bd(table, ess_of_row):
    """Log marginal likelihood of the rows of a table; each row shares out its ess."""
    score = 0.0
    for row in table:
        a = ess_of_row / len(row)
        score += math.lgamma(ess_of_row) - math.lgamma(ess_of_row + sum(row))
        score += sum(math.lgamma(a + c) - math.lgamma(a) for c in row)
    return score


def bic(table, alpha, total):
    score = -0.5 * math.log(total) * len(table) * (len(table[0]) - 1)
    for row in table:
        for c in row:
            score += c * math.log((c + alpha) / (sum(row) + alpha * len(row))) if c else 0.0
    return score


class Criterion:
    """BD with an equivalent sample size, or BIC with a pseudo-count and the total weight."""

    def __init__(self, name, ess=0.1, alpha=0.01, total=None):
        self.name, self.ess, self.alpha, self.total = name, ess, alpha, total

    def after_cut(self, k):
        return Criterion(self.name, self.ess / k, self.alpha, self.total)

    def cell(self, k_parent, k):
        return self.ess / (k_parent * k) if self.name == "bd" else self.alpha

    def of_table(self, table):
        if self.name == "bd":
            return bd(table, self.ess / len(table))
        return bic(table, self.alpha, self.total)


def tree_tables(rows, parent, n_states):
    for v, p in parent.items():
        if p is None:
            yield [chow_liu.state_counts(rows, v, n_states[v])]
        else:
            yield chow_liu.pair_table(rows, p, v, n_states)


def learn_tree(rows, free, n_states, criterion):
    def information(pair):
        i, j = pair
        cell = criterion.cell(n_states[i], n_states[j])
        # Rounded, so that pairs of equal information are equal and the first one wins.
        return round(chow_liu.information(rows, i, j, n_states, cell, len(free)), 6)

    weights = {pair: information(pair) for pair in combinations(free, 2)}
    parent = chow_liu.directed(free, chow_liu.spanning_edges(free, weights.__getitem__))
    parent = chow_liu.untold(parent, rows, weights)
    score = sum(criterion.of_table(table) for table in tree_tables(rows, parent, n_states))
    return ("tree", parent), score


def entropy_left(rows, free, n_states, criterion, v):
    return sum(
        chow_liu.conditional_entropy(
            chow_liu.pair_table(rows, v, u, n_states), criterion.cell(n_states[v], n_states[u])
        )
        for u in free
        if u != v
    )


def branches(rows, v, n_states, criterion):
    """Rows of each branch; those in which v is missing go down all with their share."""
    counts = chow_liu.state_counts(rows, v, n_states[v])
    a = criterion.cell(1, n_states[v])
    share = [(c + a) / (sum(counts) + a * n_states[v]) for c in counts]
    return [
        [(codes, w) for codes, w in rows if codes[v] == state]
        + [(codes, w * share[state]) for codes, w in rows if codes[v] < 0]
        for state in range(n_states[v])
    ]


def learn(rows, free, n_states, criterion, n_candidates=10, max_depth=None):
    """Algorithm 1; returns the network and its score."""
    tree, score = learn_tree(rows, free, n_states, criterion)
    varying = [
        v
        for v in free
        if sum(c > 0 for c in chow_liu.state_counts(rows, v, n_states[v])) > 1
        and len(free) > 1
        and max_depth != 0
    ]
    varying.sort(key=lambda v: entropy_left(rows, free, n_states, criterion, v))
    best, best_score = None, score
    for v in varying[:n_candidates]:
        below = criterion.after_cut(n_states[v])
        others = [u for u in free if u != v]
        cut_score = criterion.of_table([chow_liu.state_counts(rows, v, n_states[v])])
        for branch in branches(rows, v, n_states, criterion):
            cut_score += learn_tree(branch, others, n_states, below)[1]
        if cut_score > best_score + 1e-9:
            best, best_score = v, cut_score
    if best is None:
        return tree, score
    below = criterion.after_cut(n_states[best])
    others = [u for u in free if u != best]
    depth = None if max_depth is None else max_depth - 1
    parts = [
        learn(branch, others, n_states, below, n_candidates, depth)
        for branch in branches(rows, best, n_states, criterion)
    ]
    score = criterion.of_table([chow_liu.state_counts(rows, best, n_states[best])])
    return ("cut", best, [part for part, _ in parts]), score + sum(s for _, s in parts)


def learn_levels(rows, free, n_states, criterion, max_depth=None):
    """The same with one cut for all nodes of a level, and one set of edges for all leaves.

    Returns the variables of the cuts, the edges and the score.
    """
    nodes, cuts, of_cuts = [rows], [], 0.0
    parent, of_trees = learn_shared_tree(nodes, free, n_states, criterion)
    best = of_cuts + of_trees
    while max_depth is None or len(cuts) < max_depth:
        found = None
        for v in free:
            counts = [chow_liu.state_counts(node, v, n_states[v]) for node in nodes]
            if len(free) < 2 or sum(sum(c) > 0 for c in zip(*counts)) < 2:
                continue
            if len(nodes) * n_states[v] > sum(weight for _, weight in rows):
                continue
            parts = [b for node in nodes for b in branches(node, v, n_states, criterion)]
            others = [u for u in free if u != v]
            below = criterion.after_cut(n_states[v])
            edges, of_trees = learn_shared_tree(parts, others, n_states, below)
            of_these = of_cuts + sum(criterion.of_table([c]) for c in counts)
            if of_these + of_trees > best + 1e-9:
                best = of_these + of_trees
                found = v, parts, others, below, edges, of_these
        if found is None:
            break
        v, nodes, free, criterion, parent, of_cuts = found
        cuts.append(v)
    return cuts, parent, best


def learn_shared_tree(nodes, free, n_states, criterion):
    """Edges of the greatest information in all nodes together, and the score of all trees."""

    def information(pair):
        i, j = pair
        cell = criterion.cell(n_states[i], n_states[j])
        of_nodes = (chow_liu.information(rows, i, j, n_states, cell, len(free)) for rows in nodes)
        return round(sum(max(part, 0.0) for part in of_nodes), 6)

    weights = {pair: information(pair) for pair in combinations(free, 2)}
    parent = chow_liu.directed(free, chow_liu.spanning_edges(free, weights.__getitem__))
    parent = chow_liu.untold(parent, sum(nodes, []), weights)
    tables = (table for rows in nodes for table in tree_tables(rows, parent, n_states))
    return parent, sum(map(criterion.of_table, tables))


def shape(network, node=0):
    """A learned CutsetNetwork in the notation of this file."""
    if network.variable[node] >= 0:
        parts = [shape(network, int(branch)) for branch in network.branches(node)]
        return ("cut", int(network.variable[node]), parts)
    tree = network.trees[network.leaf[node]]
    names, is_told = tree.variables.tolist(), tree.tables.n_parent_states > 1
    above = [names[p] if told else None for p, told in zip(tree.parent.tolist(), is_told)]
    return ("tree", dict(zip(names, above)))


def log_likelihood(network, rows, n_states, criterion, x):
    """Log probability of a complete x under posterior means from rows."""
    if network[0] == "cut":
        _, v, parts = network
        row = chow_liu.state_counts(rows, v, n_states[v])
        a = criterion.cell(1, n_states[v])
        branch = branches(rows, v, n_states, criterion)[x[v]]
        below = log_likelihood(parts[x[v]], branch, n_states, criterion.after_cut(len(row)), x)
        return math.log((row[x[v]] + a) / (sum(row) + a * len(row))) + below
    value = 0.0
    parent = network[1]
    for (v, p), table in zip(parent.items(), tree_tables(rows, parent, n_states)):
        row = table[0 if p is None else x[p]]
        a = criterion.cell(len(table), len(row))
        value += math.log((row[x[v]] + a) / (sum(row) + a * len(row)))
    return value


def sequential_log_marginal(network, rows, n_states, ess):
    """Log marginal likelihood: each row is predicted from the rows before it."""
    criterion = Criterion("bd", ess)
    seen, score = [], 0.0
    for codes, weight in rows:
        for _ in range(int(weight)):
            score += log_likelihood(network, seen, n_states, criterion, codes)
            seen.append((codes, 1.0))
    return score


def evaluate(circuit, x, node=-1):
    """Probability of a complete row of states, from the arrays of a circuit of discrete leaves."""
    node %= circuit.n_nodes
    edges = range(circuit.child_ptr[node], circuit.child_ptr[node + 1])
    if len(edges) == 0:
        return math.exp(circuit.param[circuit.param_ptr[node] + x[circuit.leaf_var[node]]])
    below = [evaluate(circuit, x, circuit.child[edge]) for edge in edges]
    if circuit.kind[node] == PRODUCT:
        return math.prod(below)
    return sum(math.exp(circuit.log_weight[edge]) * p for edge, p in zip(edges, below))


def predictive(network, rows, codes, param_ess, shown=None):
    """Log probability of a row of codes under a network's structure, its tables from other rows.

    Rows are codes, weights and what is shown of the codes. Only what is shown counts, here and in
    the tables: states that are not -1 there, below cuts and parents that are not.
    """
    shown = codes if shown is None else shown
    node, score, above = 0, 0.0, []

    def log_probability(v, above, rows, n_states, ess):
        if any(shown[u] < 0 for u in [v, *above]):
            return 0.0
        visible = [row for row in rows if all(row[2][u] >= 0 for u in [v, *above])]
        return smoothed(visible, v, codes[v], n_states, ess)

    while network.variable[node] >= 0:
        v, below = network.variable[node], network.branches(node)
        score += log_probability(v, above, rows, len(below), param_ess)
        rows = [row for row in rows if row[0][v] == codes[v]]
        node, param_ess, above = below[codes[v]], param_ess / len(below), [v]
    tree = network.trees[network.leaf[node]]
    for v, place in zip(tree.variables, tree.parent):
        k = network.n_states[v]
        if place < 0:
            score += log_probability(v, above, rows, k, param_ess)
        else:
            p = tree.variables[place]
            agreeing = [row for row in rows if row[0][p] == codes[p]]
            score += log_probability(v, [p], agreeing, k, param_ess / network.n_states[p])
    return score


def smoothed(rows, v, state, k, ess_of_row):
    """Log of the posterior mean of the probability of a state."""
    in_state = sum(weight for codes, weight, _ in rows if codes[v] == state)
    total = sum(weight for _, weight, _ in rows)
    return math.log((in_state + ess_of_row / k) / (total + ess_of_row))


def depth(network, node=0):
    """Largest number of cuts on the way from a node to a leaf."""
    below = [depth(network, branch) for branch in network.branches(node)]
    return 1 + max(below) if below else 0


def held_out(network, learned, held_out, param_ess):
    """Log-likelihood of what is shown of held-out rows, under tables of other rows.

    Rows are as in :func:`predictive`.
    """
    return sum(
        weight * predictive(network, learned, codes, param_ess, shown)
        for codes, weight, shown in held_out
    )
