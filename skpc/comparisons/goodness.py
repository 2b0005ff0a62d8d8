"""The test of goodness of fit: may a table have been drawn from a model?"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

import skpc.queries as queries
from skpc._arrays import Floats
from skpc._validation import AT_LEAST_ONE, StrOptions, check_table
from skpc.comparisons.result import ComparisonResult, checked, names_of, pvalues
from skpc.discrepancies import kdsd
from skpc.domain import column_moments, merge_rows
from skpc.factor_graphs import FactorGraph, compile

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


@checked(statistic=[StrOptions({"pit", "kdsd"})], refit=["boolean"], n_draws=[AT_LEAST_ONE])
def goodness_of_fit_test(
    model: Any,
    X: Any,
    *,
    statistic: str = "pit",
    refit: bool = False,
    n_draws: int = 999,
    random_state: Any = None,
) -> ComparisonResult:
    """Test whether a table may have been drawn from a model.

    A p-value above .05 does not say that the model fits, but that so many rows do not show where it
    does not. How far a column is from the model is said by its distance and the interval of that.

    Parameters
    ----------
    model : density estimator
        Fitted, on other rows unless ``refit``. With "kdsd" also a
        :class:`~skpc.circuit.Circuit` over categories, or a
        :class:`~skpc.factor_graphs.FactorGraph`, for encoded rows ``X``; missing cells need the
        latter.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Rows, complete or with cells missing completely at random.
    statistic : {"pit", "kdsd"}, default="pit"
        "pit": each cell is transformed by the distribution function of its column under the model
        (the probability integral transform). Compared are the distributions of each column, and the
        correlations of the transforms, and of their squares, of each pair of columns: the greatest
        deviation, in standard deviations over draws. "kdsd": the discrepancy
        :func:`skpc.discrepancies.kdsd` of the rows; for categories.
    refit : bool, default=False
        Whether the model has learned from these rows: it is then learned anew from each table that
        is drawn from it (a parametric bootstrap, approximate). Otherwise the test is exact.
    n_draws : int, default=999
        Number of tables drawn from the model, with the missing cells of ``X``.
    random_state : int, RandomState instance or None, default=None
        Draws the tables.

    Returns
    -------
    ComparisonResult
        With "pit", ``columns`` has a row for each column: "statistic", the greatest deviation of
        the column and of its pairs; "pvalue", adjusted by the maximum over columns; "distance", the
        Kolmogorov distance to the model, from 0 to 1; "lower" and "upper", between which that of
        all rows that might have come lies with probability .95 at least (Dvoretzky, Kiefer and
        Wolfowitz).

    Raises
    ------
    TypeError
        If the model is no fitted density, or ``refit`` meets a circuit.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import SoftLearnSPN
    >>> from skpc.comparisons import goodness_of_fit_test
    >>> X = np.random.default_rng(2).normal(size=(900, 2))
    >>> model = SoftLearnSPN(random_state=0).fit(X[:600])
    >>> goodness_of_fit_test(
    ...     model, X[600:], n_draws=99, random_state=0
    ... ).pvalue > 0.05
    True
    >>> X[:, 1] += X[:, 0]
    >>> goodness_of_fit_test(model, X[600:], n_draws=99, random_state=0).pvalue
    0.01
    """
    import pandas as pd

    random_state = check_random_state(random_state)
    is_estimator = hasattr(model, "fit_rows") and hasattr(model, "domain_")
    if not is_estimator and (refit or statistic == "pit"):
        raise TypeError(
            "model must be a fitted density of skpc (of circuits only statistic='kdsd' can be "
            f"asked, without refit); found {model!r}."
        )
    if is_estimator:
        domain = model.domain_
        draw = model.row_density.draw
        rows = domain.encode(check_table(model, X, reset=False))
    else:
        circuit = compile(model) if isinstance(model, FactorGraph) else model
        domain = None
        draw = partial(queries.sample, circuit)
        rows = np.array(X, dtype=float)
    missing = np.isnan(rows)
    make_measure = _pit_measure if statistic == "pit" else _kdsd_measure
    measure = make_measure(model, random_state)
    # For each table its measures, (n_measures,): first those of the given rows.
    measured = [measure(rows)]
    for _ in range(n_draws):
        drawn = draw(len(rows), random_state)
        # The same cells are missing in every table that is drawn.
        drawn[missing] = np.nan
        if refit:
            # A model fits its own training rows too well: each table is judged by a model of it.
            refitted = clone(model).fit_rows(domain, *merge_rows(drawn, np.ones(len(drawn))))
            measure = make_measure(refitted, random_state)
        measured.append(measure(drawn))
    # The moments are those of all tables, the given one included, which keeps the level exact.
    mean, sd = column_moments(np.array(measured), np.ones(len(measured)))
    deviation = (measured - mean) / sd
    observed = deviation[0]
    draws = deviation[1:].max(axis=1)
    pvalue = float(pvalues(observed.max(), draws))
    if domain is None or statistic == "kdsd":
        return ComparisonResult(float(measured[0][0]), pvalue)
    n_columns = domain.n_features
    greatest = observed[:n_columns].copy()
    distance = measured[0][:n_columns]
    # The deviation of a pair of moments counts for both of its columns.
    for moment in _pairs(n_columns):
        np.maximum.at(greatest, moment % n_columns, observed[n_columns:])
    # Half the width of the interval of Dvoretzky, Kiefer and Wolfowitz at the level .95.
    margin = np.sqrt(0.5 * math.log(2.0 / (1.0 - 0.95)) / np.maximum((~missing).sum(axis=0), 1))
    cells = {
        "statistic": greatest,
        "pvalue": pvalues(greatest, draws),
        "distance": distance,
        "lower": np.maximum(distance - margin, 0.0),
        "upper": np.minimum(distance + margin, 1.0),
    }
    columns = pd.DataFrame(cells, index=names_of(domain))
    return ComparisonResult(float(observed.max()), pvalue, columns)


def _kdsd_measure(model: Any, _: np.random.RandomState) -> Callable[[Floats], Floats]:
    """A function from rows to their kernelised discrete Stein discrepancy from a model."""
    circuit = getattr(model, "circuit_", model)
    return lambda rows: np.array([kdsd(rows, circuit, unbiased=False)])


def _pit_measure(model: Any, random_state: np.random.RandomState) -> Callable[[Floats], Floats]:
    """A function from rows to distances from a model: of columns, then of pairs of moments."""
    # The error of this many draws is small beside the error of a table.
    reference = model.row_density.draw(10_000, random_state)
    margins = [np.sort(column) for column in reference.T]
    of_reference = _transformed(reference, margins)
    # Where values repeat, squares have another mean than those of a uniform variable. Without its
    # own mean, a column would count for the changes of all columns that it is paired with.
    centre = of_reference.mean(axis=1, keepdims=True)
    expected = _pair_moments(of_reference - centre)

    def measure(rows: Floats) -> Floats:
        distances = [kolmogorov_distance(*pair) for pair in zip(rows.T, margins)]
        moments = np.abs(_pair_moments(_transformed(rows, margins) - centre) - expected)
        return np.concatenate([distances, moments])

    return measure


def kolmogorov_distance(values: Floats, reference: Floats) -> float:
    """Greatest difference of distribution functions: of values, and of a sorted reference."""
    values = np.sort(values[~np.isnan(values)])
    # The greatest difference is just below a value, or at it: shapes (2, n_values).
    share = _ranks(values, values) / len(values)
    expected = _ranks(reference, values) / len(reference)
    return float(np.abs(share - expected).max(initial=0.0))


def _ranks(sample: Floats, values: Floats) -> Floats:
    """Number of elements of a sorted sample below each value, and up to it; (2, n_values)."""
    return np.array([np.searchsorted(sample, values, side=side) for side in _SIDES])


def _transformed(rows: Floats, margins: list[Floats]) -> Floats:
    """Probability integral transforms less 1/2, and the squares of these, missing where cells are.

    Shape (2 * n_columns, n_rows). The transform of an atom is the middle of its step.
    """
    columns = rows.T
    doubled_ranks = [_ranks(margin, values).sum(axis=0) for values, margin in zip(columns, margins)]
    n_rows = len(margins[0])
    centred = np.array(doubled_ranks) / (2.0 * n_rows) - 0.5
    centred = np.where(np.isnan(columns), np.nan, centred)
    return np.vstack([centred, centred**2])


def _pair_moments(values: Floats) -> Floats:
    """Mean products of moments of two different columns, over the rows that have both columns."""
    observed = (~np.isnan(values)).astype(float)
    filled = np.nan_to_num(values)
    n_rows = np.maximum(observed @ observed.T, 1.0)
    mean = filled @ filled.T / n_rows
    return mean[_pairs(len(values) // 2)]


def _pairs(n_columns: int) -> tuple[Any, Any]:
    """Indices of all pairs of moments that belong to different columns.

    Moment m, of 2 * n_columns, belongs to column ``m % n_columns``.
    """
    row, column = np.triu_indices(2 * n_columns, k=1)
    differ = row % n_columns != column % n_columns
    return row[differ], column[differ]
