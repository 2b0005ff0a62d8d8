"""Rows whose cells may be wrong: sums over sets of wrong cells, and over all true rows."""

import itertools
import math

import numpy as np


def hypotheses(log_density, row, log_error, sure=(), least=1.0, chain=2):
    """Sets of wrong cells: none, each alone, and each with the most doubtful one, or two.

    ``log_density`` says that of a row, ``log_error`` that of each cell as a wrong one; cells that
    are ``sure`` are wrong in all sets.
    """
    cells = set(np.flatnonzero(~np.isnan(row)).tolist())

    def log_joint(wrong) -> float:
        rest = row.copy()
        rest[list(wrong)] = np.nan
        return log_density(rest) + sum(log_error[cell] for cell in wrong)

    taken, listed = frozenset(sure), {}
    for _ in range(1 + chain):
        listed[taken] = log_joint(taken)
        others = {taken | {cell}: log_joint(taken | {cell}) for cell in cells - taken}
        listed |= others
        if not others or max(others.values()) - listed[taken] <= least:
            break
        taken = max(others, key=others.get)
    return listed


def judge(listed, rate):
    """Probability that each cell is replaced, and log density, from hypotheses at some rates."""
    prior = {
        wrong: math.prod(rate[v] if v in wrong else 1.0 - rate[v] for v in range(len(rate)))
        for wrong in listed
    }
    joint = {wrong: prior[wrong] * math.exp(log_joint) for wrong, log_joint in listed.items()}
    total = sum(joint.values())
    of_cells = [sum(j for wrong, j in joint.items() if v in wrong) for v in range(len(rate))]
    return np.array(of_cells) / total, math.log(total)


def all_sets(log_density, row, log_error):
    """The hypotheses of all sets of wrong cells."""
    cells = np.flatnonzero(~np.isnan(row)).tolist()
    listed = {}
    for size in range(len(cells) + 1):
        for wrong in itertools.combinations(cells, size):
            rest = row.copy()
            rest[list(wrong)] = np.nan
            listed[frozenset(wrong)] = log_density(rest) + sum(log_error[v] for v in wrong)
    return listed
