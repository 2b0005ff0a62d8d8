"""Displays in scikit-learn's style; matplotlib is imported when something is drawn."""

from skpc.plotting.circuit import CircuitDisplay
from skpc.plotting.imputations import ImputationDisplay
from skpc.plotting.marginals import MarginalsDisplay

__all__ = ["CircuitDisplay", "ImputationDisplay", "MarginalsDisplay"]
