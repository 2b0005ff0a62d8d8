"""Tractable probabilistic models as scikit-learn estimators, fast on numba."""

from skpc._version import __version__
from skpc._versions import show_versions
from skpc.circuit import Circuit
from skpc.estimators.cell_errors import CellErrorDetector
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.density_classifier import DensityClassifier
from skpc.estimators.density_regressor import DensityRegressor
from skpc.estimators.expected_kernel import ExpectedKernelSVR
from skpc.estimators.expected_kernel_svc import ExpectedKernelSVC
from skpc.estimators.expected_predictor import ExpectedPredictor
from skpc.estimators.extra_cutsets import ExtraCutsets
from skpc.estimators.generative_forest import GenerativeForest
from skpc.estimators.hidden_chow_liu import HiddenChowLiuTree
from skpc.estimators.imputer import CircuitImputer
from skpc.estimators.kernel_ep import KernelEPOperator
from skpc.estimators.logistic_ep import LogisticEPClassifier
from skpc.estimators.moat import MixtureOfAllTrees
from skpc.estimators.multiple_imputer import MultipleImputer
from skpc.estimators.soft_learn import SoftLearnSPN
from skpc.estimators.stacked_density import StackedDensity
from skpc.estimators.table_mixture import TableMixture

__all__ = [
    "Circuit",
    "CellErrorDetector",
    "CircuitImputer",
    "CutsetNetworkBD",
    "DensityClassifier",
    "DensityRegressor",
    "ExpectedKernelSVC",
    "ExpectedKernelSVR",
    "ExpectedPredictor",
    "ExtraCutsets",
    "GenerativeForest",
    "HiddenChowLiuTree",
    "KernelEPOperator",
    "LogisticEPClassifier",
    "MixtureOfAllTrees",
    "MultipleImputer",
    "SoftLearnSPN",
    "StackedDensity",
    "TableMixture",
    "__version__",
    "show_versions",
]
