"""Slow truth: what SoftLearn computes in a node, one row, one column and one pair at a time."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi2_contingency


def independence_p_value(a, b, weight, yates=True):
    """p-value of the weighted chi-square test of two columns of states, -1 where missing."""
    table = np.zeros((max(a) + 1, max(b) + 1))
    for s, t, w in zip(a, b, weight):
        if s >= 0 and t >= 0:
            table[s, t] += w
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return 1.0
    return chi2_contingency(table, correction=yates).pvalue


def cautious_p_value(a, b, weight, yates=True):
    """p-value of the smaller of the two statistics of two columns without missing cells."""
    table = np.zeros((max(a) + 1, max(b) + 1))
    for s, t, w in zip(a, b, weight):
        table[s, t] += w
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    pearson = chi2_contingency(table, correction=yates)
    ratio = chi2_contingency(table, correction=False, lambda_="log-likelihood")
    return max(pearson.pvalue, ratio.pvalue)


def discoveries(p_values, share):
    """Which p-values Benjamini and Hochberg's rule rejects at a rate of false discoveries."""
    order, found = sorted(range(len(p_values)), key=lambda i: p_values[i]), []
    for rank, i in enumerate(order, start=1):
        if p_values[i] <= share * rank / len(p_values):
            found = order[:rank]
    return found


def connected(n, edges):
    """Number of the component of each of n nodes, in the order of their first nodes."""
    label = list(range(n))
    for _ in range(n):
        for a, b in edges:
            label[a] = label[b] = min(label[a], label[b])
    return [sorted(set(label)).index(x) for x in label]


def distance(row, centroid):
    """Euclidean distance over the coordinates that are there."""
    return math.sqrt(sum((x - c) ** 2 for x, c in zip(row, centroid) if not math.isnan(x)))


def memberships(row, centroids, beta):
    """The reweighting function of section 4.3 of the paper."""
    distances = [distance(row, centroid) for centroid in centroids]
    value = [math.exp(beta * (1.0 - d / sum(distances))) for d in distances]
    return [v / sum(value) for v in value]


def categorical_leaf(cells, weight, n_states, alpha):
    """Eq. (1) with Laplace smoothing."""
    counts = [alpha] * n_states
    for x, w in zip(cells, weight):
        if not math.isnan(x):
            counts[int(x)] += w
    return [count / sum(counts) for count in counts]


def gaussian_leaf(cells, weight, row_weight):
    """Eq. (2); a row of ``row_weight`` two is two rows that share its weight."""
    kept = [(x, w, n) for x, w, n in zip(cells, weight, row_weight) if not math.isnan(x)]
    total, squares = sum(w for _, w, _ in kept), sum(w * w / n for _, w, n in kept)
    mean = sum(w * x for x, w, _ in kept) / total
    variance = total / (total**2 - squares) * sum(w * (x - mean) ** 2 for x, w, _ in kept)
    return mean, math.sqrt(variance)


def factorised_posteriors(rows, n_states, leaves, weights):
    """Posterior of the components of a mixture: leaves[c][j] are probabilities or (mean, sd)."""
    out = []
    for row in rows:
        joint = []
        for component, weight in zip(leaves, weights):
            density = weight
            for x, count, leaf in zip(row, n_states, component):
                if math.isnan(x):
                    continue
                if count:
                    density *= leaf[int(x)]
                else:
                    mean, sd = leaf
                    density *= math.exp(-0.5 * ((x - mean) / sd) ** 2) / sd
            joint.append(density)
        out.append([part / sum(joint) for part in joint])
    return np.array(out)
