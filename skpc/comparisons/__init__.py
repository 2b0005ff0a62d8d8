"""Tests with p-values: of two tables, of a stream of tables, of a model, and of columns."""

from skpc.comparisons.columns import feature_importance_test, independence_test
from skpc.comparisons.goodness import goodness_of_fit_test
from skpc.comparisons.monitor import DriftMonitor
from skpc.comparisons.result import ComparisonResult
from skpc.comparisons.two_sample import two_sample_test

__all__ = [
    "ComparisonResult",
    "DriftMonitor",
    "feature_importance_test",
    "goodness_of_fit_test",
    "independence_test",
    "two_sample_test",
]
