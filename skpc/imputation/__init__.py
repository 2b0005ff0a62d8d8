"""Combining what several imputed tables say, and judging imputations."""

from skpc.imputation.combined import CombinedEstimates, combine_estimates, long_table
from skpc.imputation.scores import energy_distance, energy_i_score

__all__ = [
    "CombinedEstimates",
    "combine_estimates",
    "energy_distance",
    "energy_i_score",
    "long_table",
]
