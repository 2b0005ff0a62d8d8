"""Combining what several imputed tables say."""

from skpc.imputation.combined import CombinedEstimates, combine_estimates
from skpc.imputation.long_table import long_table

__all__ = ["CombinedEstimates", "combine_estimates", "long_table"]
