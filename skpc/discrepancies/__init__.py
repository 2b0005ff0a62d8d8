"""How far are samples, or a circuit, from a distribution? And weights that bring them closer."""

from skpc.discrepancies.importance import BlackBoxImportanceSampler
from skpc.discrepancies.stein import stein_gram

__all__ = ["BlackBoxImportanceSampler", "stein_gram"]
