"""The result of a test, and p-values by draws."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats
from skpc._validation import validate_params
from skpc.domain import Domain


class ComparisonResult(NamedTuple):
    """The result of a test, as in scipy.stats; it prints as a table.

    Attributes
    ----------
    statistic : float
        High where the null hypothesis does not hold.
    pvalue : float
        By draws: one more than the number of draws whose statistic is at least as high, over one
        more than the number of draws.
    columns : pandas DataFrame or None
        A row for each column (or pair of columns) that was tested; each test says what it holds.
        None for tests of whole tables.

    Examples
    --------
    >>> from skpc.comparisons import ComparisonResult
    >>> print(ComparisonResult(2.5, 0.01))
    statistic 2.5, p-value 0.01
    """

    statistic: float
    pvalue: float
    columns: Any = None

    def __str__(self) -> str:
        text = f"statistic {self.statistic:.4g}, p-value {self.pvalue:.4g}"
        if self.columns is None:
            return text
        return f"{text}\n{self.columns.to_string()}"


def pvalues(observed: Floats, draws: Floats, ties: float = 1.0) -> Floats:
    """P-values of statistics among draws of one null statistic, (1 + count) / (1 + n).

    Where a draw is the greatest of several statistics, the p-values of these are adjusted by the
    maximum (Westfall and Young): all of them are valid together, if the null hypothesis holds for
    all. ``ties`` is the share of the equal statistics (the observed one included) that counts; with
    a uniform share p-values are uniform.
    """
    # The same partition, summed in another order, has a statistic that differs by rounding.
    draws = np.round(draws, 9)
    observed = np.round(observed, 9)[..., np.newaxis]
    # The last axis runs over draws.
    greater = (draws > observed).sum(axis=-1)
    equal = (draws == observed).sum(axis=-1)
    count = greater + ties * (1.0 + equal)
    return count / (1.0 + len(draws))


def names_of(domain: Domain) -> list[Any]:
    """Names of columns, or their numbers."""
    return list(domain.feature_names or range(domain.n_features))


def checked(**constraints: list[Any]) -> Callable[[Any], Any]:
    """Let a function check its parameters; ``constraints`` says what each may be."""
    constraints = {"random_state": ["random_state"], **constraints}
    return validate_params(constraints, prefer_skip_nested_validation=True)
