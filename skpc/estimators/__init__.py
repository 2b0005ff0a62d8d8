"""The scikit-learn faces."""

from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.imputer import CircuitImputer
from skpc.estimators.kernel_ep import KernelEPOperator
from skpc.estimators.logistic_ep import LogisticEPClassifier
from skpc.estimators.soft_learn import SoftLearnSPN

__all__ = [
    "CircuitImputer",
    "CutsetNetworkBD",
    "KernelEPOperator",
    "LogisticEPClassifier",
    "SoftLearnSPN",
]
