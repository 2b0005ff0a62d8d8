"""Combining what several imputed tables say, and judging imputations."""

from skpc.imputation.combined import CombinedEstimates, combine_estimates
from skpc.imputation.scores import energy_distance, energy_i_score
from skpc.imputation.tables import long_table

__all__ = [
    "CombinedEstimates",
    "combine_estimates",
    "energy_distance",
    "energy_i_score",
    "long_table",
]
