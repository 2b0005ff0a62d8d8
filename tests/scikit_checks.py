"""The checks of scikit-learn, as a list: pytest 9 refuses the iterator of scikit-learn 1.7."""

import pytest
from sklearn.utils import estimator_checks


def parametrize_with_checks(estimators):
    names, checks = (mark := estimator_checks.parametrize_with_checks(estimators)).args
    return pytest.mark.parametrize(names, list(checks), **mark.kwargs)
