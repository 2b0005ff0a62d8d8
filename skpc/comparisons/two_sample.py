"""Do two tables come from one distribution, and which column has changed?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Bools, Floats, Ints
from skpc._validation import (
    AT_LEAST_ONE,
    N_JOBS,
    Interval,
    StrOptions,
    check_table,
    validate_params,
)
from skpc.comparisons.result import ComparisonResult, names_of, pvalues
from skpc.counting.clustering import as_numbers
from skpc.domain import Domain, column_moments, group_rows, join_tables, present_rows
from skpc.estimators.soft_learn import SoftLearnSPN

#: Draws of the missing cells of each row that a kernel is averaged over.
_COMPLETIONS = 10
#: Labels of rows that are held at a time.
_LABELS = 2**22
#: What the pattern of missing cells is called among the columns.
PATTERN = "missing cells"


class Pooled(NamedTuple):
    """The rows of two tables together, in an order that does not depend on which comes first.

    Attributes
    ----------
    table : DataFrame or ndarray of shape (n_rows, n_features)
    domain : Domain
        What the columns are.
    rows : ndarray of shape (n_rows, n_features)
        Encoded.
    is_second : ndarray of shape (n_rows,), bool
        Which rows are of the second table.
    unit : ndarray of shape (n_rows,), int
        Rows of the same number stay together.
    """

    table: Any
    domain: Domain
    rows: Floats
    is_second: Bools
    unit: Ints


@validate_params(
    {
        "statistic": [StrOptions({"cells", "mmd"})],
        "n_permutations": [AT_LEAST_ONE],
        "missingness": ["boolean"],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": N_JOBS,
    },
    prefer_skip_nested_validation=True,
)
def two_sample_test(
    A: Any,
    B: Any,
    density: Any = None,
    *,
    statistic: str = "cells",
    n_permutations: int = 999,
    missingness: bool = True,
    groups: Any = None,
    cv: int = 5,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> ComparisonResult:
    """Test whether two tables come from one distribution, and show which column has changed.

    The null hypothesis is that the rows of both tables, cells and pattern of missing cells
    together, are exchangeable. It does not hold for the rows of a series in time, whatever the
    distribution; give blocks of such rows as ``groups``.

    Parameters
    ----------
    A, B : array-like or DataFrame of shape (n_rows, n_features)
        Two tables of the same columns; NaN (or None) marks missing cells. A row that counts twice
        stands twice.
    density : density estimator, default=None
        A fitted density says how probable cells are. It must have seen neither table: one that has
        learned from ``A`` finds ``A`` more probable than new rows of the same distribution, and
        rejects most of the time. One that is not fitted (None: a :class:`~skpc.SoftLearnSPN`) is
        learned from the rows of both tables together, blind to where a row comes from; it answers
        for the rows of each of ``cv`` folds after learning from the others. It keeps its own
        ``random_state``.
    statistic : {"cells", "mmd"}, default="cells"
        "cells": the greatest difference of means, in standard errors, of the log densities of the
        cells of a column given the others of their rows. "mmd": the squared maximum mean
        discrepancy of rows whose missing cells are drawn from the density, ten times; it takes
        memory for a number for each pair of rows. It compares what was seen, under a
        model that both tables share.
    n_permutations : int, default=999
        Number of times that rows are dealt to two tables at random.
    missingness : bool, default=True
        Whether the pattern of missing cells takes part: with "cells" as one more entry, the
        greatest difference of the shares of missing cells of a column; with "mmd" in the kernel.
    groups : pair of array-likes of shapes (n_rows_A,) and (n_rows_B,), default=None
        Rows that belong together, such as those of a person. Whole groups are dealt to the tables.
    cv : int, default=5
        Number of folds, where the density is learned.
    random_state : int, RandomState instance or None, default=None
        Deals rows to folds and tables. The same seed gives the same p-value if ``A`` and ``B``
        are swapped.
    n_jobs : int, default=None
        Number of folds learned at a time, by joblib.

    Returns
    -------
    ComparisonResult
        With "cells", ``columns`` has a row for each column, and one named "missing cells":
        "statistic" (the difference of means in standard errors, high where the column has
        changed), "pvalue", and "difference" (``B`` less ``A``: of mean log densities in nats a
        cell, of the share of missing cells). The p-values are adjusted by the maximum over
        columns. They speak against the hypothesis that nothing has changed; a column
        that others depend on can be low too although it has not changed by itself.

    Raises
    ------
    ValueError
        If the tables have different columns, or a group has rows in both tables.

    See Also
    --------
    DriftMonitor : The same for one table after another.
    skpc.discrepancies.mmd2 : The discrepancy of circuits and samples, exact.

    Notes
    -----
    The kernel is the product of Gaussian kernels of standardised numbers and exponential Hamming
    kernels of categories, its squared bandwidth half the median squared distance.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import SoftLearnSPN
    >>> from skpc.comparisons import two_sample_test
    >>> X = np.random.default_rng(0).normal(size=(900, 3))
    >>> X[:, 2] += X[:, 1]
    >>> density = SoftLearnSPN(random_state=0).fit(X[:500])
    >>> A, B = X[500:700], X[700:].copy()
    >>> B[:, 2] = B[::-1, 2]  # nothing but the dependence has changed
    >>> result = two_sample_test(A, B, density, random_state=0)
    >>> result.pvalue, int(result.columns["statistic"].argmin()) not in (1, 2)
    (0.001, True)
    """
    random_state = check_random_state(random_state)
    if density is None:
        density = SoftLearnSPN(random_state=random_state.randint(2**31))
    pooled = _pool(density, A, B, groups, random_state)

    def answers(ask: Callable[[Any, Any], Floats]) -> Floats:
        return _answers(density, pooled, ask, cv, random_state, n_jobs)

    compare: Callable[[Floats], Floats]
    if statistic == "cells":
        scores = answers(lambda model, part: np.asarray(model.score_cells(part), dtype=float))
        values = with_pattern(scores, missingness)
        compare = lambda labels: np.abs(standardised_differences(values, labels))  # noqa: E731
    else:
        gram = _mean_gram(pooled, answers, missingness, random_state)
        compare = lambda labels: squared_discrepancies(gram, labels)[np.newaxis]  # noqa: E731
    drawn = draw_labels(pooled.is_second, pooled.unit, n_permutations, random_state)
    observed = compare(pooled.is_second[:, np.newaxis].astype(float))[:, 0]
    draws = np.concatenate([compare(labels).max(axis=0) for labels in drawn])
    pvalue = float(pvalues(observed.max(), draws))
    if statistic == "mmd":
        return ComparisonResult(float(observed[0]), pvalue)
    columns = table_of_columns(values, pooled.is_second, names_of(pooled.domain), draws)
    return ComparisonResult(float(observed.max()), pvalue, columns)


def _pool(density: Any, A: Any, B: Any, groups: Any, random_state: np.random.RandomState) -> Pooled:
    """The rows of two tables, in random order."""
    lacking = [name for name in ("score_cells", "complete", "sample") if not hasattr(density, name)]
    if lacking:
        raise TypeError(
            "density must be a density of skpc, fitted or not, such as SoftLearnSPN(); "
            f"{density!r} has no {lacking[0]}."
        )
    reader = density if is_fitted(density) else clone(density)
    A = check_table(reader, A, reset=reader is not density)
    B = check_table(reader, B, reset=False)
    table = join_tables([A, B])
    domain = density.domain_ if reader is density else Domain.fit(table)
    is_second = np.repeat([False, True], [len(A), len(B)])
    rows = domain.encode(table)
    group = group_rows(rows)[1]
    parts = [np.sort(group[is_second == second]).tolist() for second in (False, True)]
    # Equal rows stand in the order of their tables, the first being that of the lesser rows.
    is_last = is_second if parts[0] <= parts[1] else ~is_second
    order = random_state.permutation(np.lexsort((is_last, group)))
    unit = np.arange(len(rows)) if groups is None else _units(groups, len(A), len(B))[order]
    return Pooled(taken(table, order), domain, rows[order], is_second[order], unit)


def is_fitted(density: Any) -> bool:
    """Whether a density has learned something."""
    try:
        check_is_fitted(density, "domain_")
    except NotFittedError:
        return False
    return True


def taken(table: Any, order: Ints) -> Any:
    """Some rows of a table, by their numbers."""
    return getattr(table, "iloc", table)[order]


def _units(groups: Any, n_first: int, n_second: int) -> Ints:
    """Numbers of groups, each in one of two tables only."""
    first, second = (np.asarray(part) for part in groups)
    if (len(first), len(second)) != (n_first, n_second):
        raise ValueError(
            "groups must be a pair, of a group for each row of A and one for each row of B: "
            f"{n_first} and {n_second}; found {len(first)} and {len(second)}."
        )
    both = np.intersect1d(first, second).tolist()
    if both:
        raise ValueError(
            f"A group must lie in one of the tables; found {both[0]!r} in both. Give its rows of A "
            "another group than those of B if they can be dealt apart."
        )
    return np.asarray(np.unique(np.concatenate([first, second]), return_inverse=True)[1])


def _answers(
    density: Any,
    pooled: Pooled,
    ask: Callable[[Any, Any], Floats],
    cv: int,
    random_state: np.random.RandomState,
    n_jobs: int | None,
) -> Floats:
    """What a density says of rows it has not learned from."""
    if is_fitted(density):
        return ask(density, pooled.table)
    units, place = np.unique(pooled.unit, return_inverse=True)
    fold = (random_state.permutation(len(units)) % cv)[place]

    def of_fold(k: int) -> Floats:
        train, test = (present_rows(pooled.table, 1.0 * part)[0] for part in (fold != k, fold == k))
        return ask(clone(density).fit(train), test)

    numbers = np.unique(fold)
    parts = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(of_fold)(k) for k in numbers)
    joined = np.empty((len(fold), *parts[0].shape[1:]))
    for k, part in zip(numbers, parts):
        joined[fold == k] = part
    return joined


def with_pattern(scores: Floats, missingness: bool) -> Floats:
    """Log densities of cells, finite or missing; in further columns, which cells are missing.

    What is impossible counts like the most improbable cell of its column that is possible.
    """
    possible = np.where(np.isneginf(scores), np.nan, scores)
    lowest = np.fmin.reduce(possible, axis=0)
    finite = np.where(np.isneginf(scores), np.nan_to_num(lowest), scores)
    return np.hstack([finite, np.isnan(scores)]) if missingness else finite


def standardised_differences(values: Floats, labels: Floats) -> Floats:
    """Differences of means between two parts of some rows, in standard errors.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        NaN where missing.
    labels : ndarray of shape (n_rows, n_partitions)
        One for the rows of the second part, zero for those of the first one.

    Returns
    -------
    ndarray of shape (n_columns, n_partitions)
        Second part less first part, over the standard error that follows from the variance of all
        rows; zero where a part has no value, or all values are equal.
    """
    observed = ~np.isnan(values)
    n_values = observed.sum(axis=0)[:, np.newaxis]
    mean, sd = column_moments(values, np.ones(len(values)))
    standardised = np.where(observed, (values - mean) / sd, 0.0)
    n_second = observed.T.astype(float) @ labels
    n_first, total = n_values - n_second, standardised.T @ labels
    # The values of all rows add up to zero.
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = total * np.sqrt(n_values / (n_first * n_second))
    return np.where((n_first > 0.0) & (n_second > 0.0), differences, 0.0)


def squared_discrepancies(gram: Floats, labels: Floats) -> Floats:
    """Squared maximum mean discrepancy between two parts of some rows, unbiased.

    Parameters
    ----------
    gram : ndarray of shape (n_rows, n_rows)
        The kernel, zero between a row and itself.
    labels : ndarray of shape (n_rows, n_partitions)
        One for the rows of the second part, zero for those of the first one.

    Returns
    -------
    ndarray of shape (n_partitions,)
    """
    n_second = labels.sum(axis=0)
    n_first = len(labels) - n_second
    of_second = gram @ labels
    second, between = (labels * of_second).sum(axis=0), ((1.0 - labels) * of_second).sum(axis=0)
    first = gram.sum() - second - 2.0 * between
    first, second = first / (n_first * (n_first - 1.0)), second / (n_second * (n_second - 1.0))
    return np.asarray(first + second - 2.0 * between / (n_first * n_second))


def draw_labels(
    is_second: Bools, unit: Ints, n_draws: int, random_state: np.random.RandomState
) -> Iterator[Floats]:
    """Deal units of rows to two parts at random, as many to each as there are.

    Which part is called the second one does not matter: the smaller one is drawn.

    Yields
    ------
    ndarray of shape (n_rows, some of the draws)
        One for the rows of a part, zero for those of the other one.
    """
    units, first_row, place = np.unique(unit, return_index=True, return_inverse=True)
    n_drawn = int(is_second[first_row].sum())
    n_drawn = min(n_drawn, len(units) - n_drawn)
    for some in gen_batches(n_draws, max(1, _LABELS // len(unit))):
        labels = np.zeros((len(units), some.stop - some.start))
        for draw in labels.T:
            draw[random_state.permutation(len(units))[:n_drawn]] = 1.0
        yield labels[place]


def table_of_columns(values: Floats, is_second: Bools, names: list[Any], draws: Floats) -> Any:
    """The entries of a DataFrame of columns, from what :func:`with_pattern` returns."""
    import pandas as pd

    labels = is_second[:, np.newaxis].astype(float)
    statistic = np.abs(standardised_differences(values, labels)[:, 0])
    means = [column_means(values[part]) for part in (is_second, ~is_second)]
    difference, n_columns = means[0] - means[1], len(names)
    if values.shape[1] > n_columns:
        pattern = statistic[n_columns:].max(), difference[n_columns:].mean()
        statistic = np.append(statistic[:n_columns], pattern[0])
        difference = np.append(difference[:n_columns], pattern[1])
        names = [*names, PATTERN]
    cells = {"statistic": statistic, "pvalue": pvalues(statistic, draws), "difference": difference}
    return pd.DataFrame(cells, index=names)


def column_means(values: Floats) -> Floats:
    """Mean of the values of each column; NaN without any."""
    n_values = (~np.isnan(values)).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(values, axis=0) / n_values)


def _mean_gram(
    pooled: Pooled,
    answers: Callable[[Callable[[Any, Any], Floats]], Floats],
    missingness: bool,
    random_state: np.random.RandomState,
) -> Floats:
    """The kernel between rows, averaged over draws of their missing cells; zero on the diagonal."""
    domain, missing = pooled.domain, np.isnan(pooled.rows)
    seeds = random_state.randint(2**31, size=_COMPLETIONS if missing.any() else 0).tolist()

    def completions(model: Any, part: Any) -> Floats:
        draws = (model.complete(part, "sample", random_state=seed) for seed in seeds)
        return np.stack([domain.encode(draw) for draw in draws], axis=1)

    drawn = answers(completions) if seeds else pooled.rows[:, np.newaxis]
    n_states = np.where(domain.is_categorical, domain.n_states, 0)
    moments = column_moments(pooled.rows, np.ones(len(pooled.rows)))
    gram, scale = np.zeros((len(missing), len(missing))), 0.0
    for rows in np.moveaxis(drawn, 1, 0):
        points = [as_numbers(rows, n_states, *moments).point]
        # A cell that is missing in one of two rows counts like two different categories.
        distance = pdist(np.hstack(points + [missing] * missingness), "sqeuclidean")
        scale = scale or float(np.median(distance)) or 1.0
        gram += squareform(np.exp(-distance / scale)) / drawn.shape[1]
    np.fill_diagonal(gram, 0.0)
    return gram
