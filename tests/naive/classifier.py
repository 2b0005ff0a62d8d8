"""Bayes' rule with one density for each class, row by row."""

import math

import numpy as np


def class_probabilities(log_density, prior, count):
    """Probability of each class of each row.

    ``log_density[r][c]`` is the log density of row r under class c alone. A class of ``count``
    rows is mixed with all classes, which weigh as one row.
    """
    out = []
    for row in log_density:
        density = [math.exp(value) for value in row]
        of_all = sum(p * d for p, d in zip(prior, density))
        mixed = [(n * d + of_all) / (n + 1) for n, d in zip(count, density)]
        together = [p * d for p, d in zip(prior, mixed)]
        out.append([value / sum(together) for value in together])
    return np.array(out)
