"""Tractable probabilistic models as scikit-learn estimators, fast on numba.

Estimators are imported when they are first asked for (PEP 562): a program pays for what it uses.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from skpc._version import __version__

if TYPE_CHECKING:
    from skpc._ranges import ranges
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
    from skpc.estimators.hidden_forest import HiddenForest
    from skpc.estimators.imputer import CircuitImputer
    from skpc.estimators.kernel_ep import KernelEPOperator
    from skpc.estimators.logistic_ep import LogisticEPClassifier
    from skpc.estimators.moat import MixtureOfAllTrees
    from skpc.estimators.multiple_imputer import MultipleImputer
    from skpc.estimators.soft_learn import SoftLearnSPN
    from skpc.estimators.stacked_density import StackedDensity
    from skpc.estimators.strudel import Strudel
    from skpc.estimators.table_mixture import TableMixture

#: The module that each name comes from.
_HOMES = {
    "CellErrorDetector": "skpc.estimators.cell_errors",
    "Circuit": "skpc.circuit",
    "CircuitImputer": "skpc.estimators.imputer",
    "CutsetNetworkBD": "skpc.estimators.cutset",
    "DensityClassifier": "skpc.estimators.density_classifier",
    "DensityRegressor": "skpc.estimators.density_regressor",
    "ExpectedKernelSVC": "skpc.estimators.expected_kernel_svc",
    "ExpectedKernelSVR": "skpc.estimators.expected_kernel",
    "ExpectedPredictor": "skpc.estimators.expected_predictor",
    "ExtraCutsets": "skpc.estimators.extra_cutsets",
    "GenerativeForest": "skpc.estimators.generative_forest",
    "HiddenChowLiuTree": "skpc.estimators.hidden_chow_liu",
    "HiddenForest": "skpc.estimators.hidden_forest",
    "KernelEPOperator": "skpc.estimators.kernel_ep",
    "LogisticEPClassifier": "skpc.estimators.logistic_ep",
    "MixtureOfAllTrees": "skpc.estimators.moat",
    "MultipleImputer": "skpc.estimators.multiple_imputer",
    "SoftLearnSPN": "skpc.estimators.soft_learn",
    "StackedDensity": "skpc.estimators.stacked_density",
    "Strudel": "skpc.estimators.strudel",
    "TableMixture": "skpc.estimators.table_mixture",
    "ranges": "skpc._ranges",
    "show_versions": "skpc._versions",
}

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
    "HiddenForest",
    "KernelEPOperator",
    "LogisticEPClassifier",
    "MixtureOfAllTrees",
    "MultipleImputer",
    "SoftLearnSPN",
    "StackedDensity",
    "Strudel",
    "TableMixture",
    "__version__",
    "ranges",
    "show_versions",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for: an estimator, or a package of this one."""
    if name in _HOMES:
        # An estimator is imported when it is asked for: the package itself loads quickly.
        member = getattr(import_module(_HOMES[name]), name)
        # Kept, so that the next use does not come here.
        globals()[name] = member
        return member
    # Packages such as skpc.queries need no import of their own.
    if not name.startswith("_") and find_spec(f"skpc.{name}") is not None:
        return import_module(f"skpc.{name}")
    raise AttributeError(f"module 'skpc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
