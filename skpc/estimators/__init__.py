"""The scikit-learn faces."""

from skpc.estimators.cutset import CutsetNetworkBD

__all__ = ["CutsetNetworkBD"]
