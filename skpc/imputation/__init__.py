"""Combining what several imputed tables say."""

from skpc.imputation.combined import CombinedEstimates, combine_estimates

__all__ = ["CombinedEstimates", "combine_estimates"]
