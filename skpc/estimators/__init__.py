"""The scikit-learn faces."""

from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.imputer import CircuitImputer

__all__ = ["CircuitImputer", "CutsetNetworkBD"]
