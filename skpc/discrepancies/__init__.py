"""Distances between distributions, and weights that bring samples closer to a distribution."""

from skpc.discrepancies.importance import BlackBoxImportanceSampler
from skpc.discrepancies.kdsd import kdsd
from skpc.discrepancies.mmd import mmd2
from skpc.discrepancies.stein import stein_gram

__all__ = ["BlackBoxImportanceSampler", "kdsd", "mmd2", "stein_gram"]
