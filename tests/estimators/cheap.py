"""One cheap instance of each estimator, on which the contracts of all estimators are tested.

Settings that take other paths are tested with their estimators; defaults as they are constructed in
``test_defaults.py``, which is slow.
"""

from __future__ import annotations

from sklearn.base import BaseEstimator, is_classifier
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier

from skpc import (
    CellErrorDetector,
    CircuitImputer,
    CutsetNetworkBD,
    DensityClassifier,
    DensityRegressor,
    ExpectedKernelSVC,
    ExpectedKernelSVR,
    ExpectedPredictor,
    ExtraCutsets,
    GenerativeForest,
    HiddenChowLiuTree,
    HiddenForest,
    KernelEPOperator,
    LogisticEPClassifier,
    MixtureOfAllTrees,
    MultipleImputer,
    SoftLearnSPN,
    StackedDensity,
    Strudel,
    TableMixture,
)
from skpc.synthesis import RuledDensity, WithGaps

#: Inside of others the smoothing is given: how it is chosen takes most of the time of a small fit.
INNER = CutsetNetworkBD(param_ess=1.0, random_state=0)
NETWORK = CutsetNetworkBD(param_ess=1.0, structured=True, random_state=0)
PAIR = [("a", CutsetNetworkBD(param_ess=1.0)), ("b", CutsetNetworkBD(max_depth=0))]
WITH_CIRCUIT: dict[str, BaseEstimator] = {
    "network": CutsetNetworkBD(random_state=0),
    # Its smoothing is given: how it is chosen takes seconds, and is tested with its estimator.
    "mixture of networks": CutsetNetworkBD(
        n_components=2, max_iter=3, param_ess=1.0, random_state=0
    ),
    "soft": SoftLearnSPN(n_refine=3, random_state=0),
    "table mixture": TableMixture(n_components=3, random_state=0),
    "hidden": HiddenChowLiuTree(n_hidden=3, random_state=0),
    "forest": HiddenForest(n_estimators=2, n_hidden=3, max_iter=3, random_state=0),
    "strudel": Strudel(max_splits=20, random_state=0),
    "mixture of strudels": Strudel(n_components=2, max_splits=5, max_iter=5, random_state=0),
    "random cuts": ExtraCutsets(3, min_samples_split=40, random_state=0),
}
DENSITIES: dict[str, BaseEstimator] = {
    **WITH_CIRCUIT,
    "stack": StackedDensity(PAIR, cv=2, random_state=0),
    "all trees": MixtureOfAllTrees(max_iter=20, n_inference_samples=50, random_state=0),
}
#: What takes tables, and is no density.
OF_TABLES: dict[str, BaseEstimator] = {
    "cell errors": CellErrorDetector(INNER, random_state=0),
    "imputer": CircuitImputer(INNER),
    "multiple imputer": MultipleImputer(INNER, n_imputations=2, random_state=0),
    "multiple imputer by its density": MultipleImputer(
        INNER, n_imputations=2, draws="density", random_state=0
    ),
    "classifier": DensityClassifier(
        INNER,
        joint=True,
        classifiers=["logistic"],
        cv=2,
        random_state=0,
    ),
    "regressor": DensityRegressor(INNER, regressors=["ridge"], cv=2, random_state=0),
    "generative forest": GenerativeForest(4, random_state=0),
    "expected classifier": ExpectedPredictor(
        DecisionTreeClassifier(max_leaf_nodes=8, random_state=0), INNER
    ),
    "expected regressor": ExpectedPredictor(Ridge(), INNER),
    "ruled": RuledDensity(INNER, []),
    "with gaps": WithGaps(INNER),
    "SVR": ExpectedKernelSVR(NETWORK, random_state=0),
    "SVC": ExpectedKernelSVC(NETWORK, random_state=0),
}
#: What takes numbers alone, without missing cells.
OF_NUMBERS: dict[str, BaseEstimator] = {
    "kernel EP": KernelEPOperator(n_inner=80, n_outer=300, random_state=0),
    "logistic EP": LogisticEPClassifier(),
}
TABLES: dict[str, BaseEstimator] = {**DENSITIES, **OF_TABLES}
EVERY: dict[str, BaseEstimator] = {**TABLES, **OF_NUMBERS}
#: The first of each class and kind. What scikit-learn checks does not depend on settings.
EACH_CLASS: list[BaseEstimator] = list(
    {(type(e), is_classifier(e)): e for e in reversed(EVERY.values())}.values()
)
