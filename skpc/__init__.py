"""Tractable probabilistic models as scikit-learn estimators, fast on numba."""

from skpc._version import __version__
from skpc._versions import show_versions
from skpc.circuit import Circuit
from skpc.estimators import (
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    DensityRegressor,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    HiddenChowLiuTree,
    KernelEPOperator,
    LogisticEPClassifier,
    MixtureOfAllTrees,
    SoftLearnSPN,
    StackedDensity,
    TableMixture,
)

__all__ = [
    "Circuit",
    "CircuitImputer",
    "CutsetNetworkBD",
    "DensityClassifier",
    "DensityRegressor",
    "ExpectedKernelSVC",
    "ExpectedKernelSVR",
    "HiddenChowLiuTree",
    "KernelEPOperator",
    "LogisticEPClassifier",
    "MixtureOfAllTrees",
    "SoftLearnSPN",
    "StackedDensity",
    "TableMixture",
    "__version__",
    "show_versions",
]
