"""The two-sample test: do two tables come from one distribution, and which column has changed?"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import SMALLEST_NORMAL, Bools, Floats, Ints, offsets, owners, within
from skpc._fitting import noted
from skpc._threads import slices
from skpc._validation import AT_LEAST_ONE, HasMethods, StrOptions, check_table
from skpc.comparisons.result import ComparisonResult, checked, names_of, pvalues
from skpc.counting.clustering import as_numbers
from skpc.counting.independence import pair_statistics
from skpc.counting.rows import count_state_pairs
from skpc.domain import Domain, column_moments, group_rows, join_tables
from skpc.estimators.cutset import CutsetNetworkBD

#: The name of the pattern of missing cells beside the names of columns.
PATTERN = "missing cells"


class PooledRows(NamedTuple):
    """The rows of two tables together, in an order that swapping the tables does not change.

    Attributes
    ----------
    table : DataFrame or ndarray of shape (n_rows, n_features)
        The rows.
    domain : Domain
        What the columns are.
    is_second : ndarray of shape (n_rows,), bool
        Which rows are of the second table.
    unit : ndarray of shape (n_rows,), int
        Rows of the same unit are dealt to the same part.
    """

    table: Any
    domain: Domain
    is_second: Bools
    unit: Ints


class PairScores(NamedTuple):
    """Scores of cells without a model: pointwise mutual information, by the counts of the table.

    A cell is worth the sum, over the other cells of its row, of :math:`w \\log \\frac{n + 1}{e +
    1}`: n rows of the table have both states, and e would if the columns were independent. The
    weight :math:`w = \\max(1 - f / \\chi^2, 0)` of two columns leaves out what chance alone makes
    of them: :math:`\\chi^2` is Pearson's statistic, and f its degrees of freedom.

    Parameters
    ----------
    domain_ : Domain
        What the columns are, with bins of numbers.
    """

    domain_: Domain

    def score_cells(self, table: Any) -> Floats:
        """The score of each cell in nats, NaN where missing; shape (n_rows, n_features)."""
        domain = self.domain_
        codes = domain.codes(domain.encode(table))
        n_states = domain.n_states
        ones = np.ones(len(codes))
        # The states of all columns stand end to end; each column begins at its start.
        starts = offsets(n_states)[:-1]
        codes = np.require(codes, np.int16, ("C", "W"))
        tests = pair_statistics(codes, ones, n_states, False)
        # The part of the dependence that chance alone explains; a statistic may be zero.
        chance = tests.freedom / np.maximum(tests.pearson, SMALLEST_NORMAL)
        # Pairs stand below the diagonal; a column has no weight for itself.
        weight = np.tril(np.maximum(1.0 - chance, 0.0), -1)
        weight += weight.T
        column = owners(n_states)
        state_pairs = np.ix_(column, column)
        counts = count_state_pairs(codes, ones, n_states)
        # Number of rows with each state that have a column, and of all rows with a pair of columns.
        margin = np.add.reduceat(counts, starts, axis=1)
        total = np.add.reduceat(margin, starts, axis=0)
        total = np.maximum(total, 1.0)
        expected = margin[:, column] * margin.T[column]
        expected /= total[state_pairs]
        # (n_all_states, n_all_states): pointwise mutual information of states.
        information = np.log((counts + 1.0) / (expected + 1.0))
        information *= weight[state_pairs]
        # One-hot rows, (n_rows, n_all_states), select the information of the pairs in each row.
        state = (codes[:, column] == within(n_states)).astype(float)
        state_scores = state * (state @ information)
        scores = np.add.reduceat(state_scores, starts, axis=1)
        return np.where(codes >= 0, scores, np.nan)


@checked(
    density=[HasMethods(["complete", "score_cells"]), None],
    statistic=[StrOptions({"cells", "mmd"})],
    n_permutations=[AT_LEAST_ONE],
    missingness=["boolean"],
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
    random_state: Any = None,
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
        rejects most of the time. None: a cell is scored by its pointwise mutual information with
        the other cells of its row, counted in the rows of both tables together, blind to where a
        row comes from; "mmd" learns a :class:`~skpc.CutsetNetworkBD` from them. That keeps the
        level and has less power.
    statistic : {"cells", "mmd"}, default="cells"
        "cells": the greatest difference of means, in standard errors, of the log densities of the
        cells of a column given the others of their rows, of the ranks of its numbers, and of
        the indicators of its categories. "mmd": the squared maximum mean
        discrepancy of rows whose missing cells are drawn from the density, ten times; it takes
        memory for a number for each pair of rows. It compares what was seen, under a
        model that both tables share.
    n_permutations : int, default=999
        Number of times that rows are dealt to two tables at random.
    missingness : bool, default=True
        Whether the pattern of missing cells takes part: with "cells" as one more entry, the
        greatest difference of the share of missing cells of a column; with "mmd" in the kernel.
    groups : pair of array-likes of shapes (n_rows_A,) and (n_rows_B,), default=None
        Rows that belong together, such as those of a person. Whole groups are dealt to the tables.
    random_state : int, RandomState instance or None, default=None
        Deals rows to tables. The same seed gives the same p-value if ``A`` and ``B`` are swapped.

    Returns
    -------
    ComparisonResult
        With "cells", ``columns`` has a row for each column, and one named "missing cells":
        "statistic" (the greatest difference of means in standard errors, high where the column has
        changed), "pvalue", and "difference" (``B`` less ``A``: of mean log densities in nats a
        cell; of the share of missing cells that has changed most). The p-values are adjusted by the
        maximum over columns. They speak against the hypothesis that nothing has changed; a column
        that others depend on can be low too although it has not changed by itself.

    Raises
    ------
    ValueError
        If the tables have different columns, ``groups`` is no pair, or a group has rows in both
        tables.

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
    if density is not None:
        check_is_fitted(density)
    model = density
    if density is None:
        model = CutsetNetworkBD(random_state=random_state.randint(2**31))
    pooled = _joined_rows(model, A, B, groups, random_state)
    if density is None:
        # A model of both tables that is blind to where a row comes from keeps the level.
        model = PairScores(pooled.domain) if statistic == "cells" else model.fit(pooled.table)
    label_batches = draw_labels(pooled.is_second, pooled.unit, n_permutations, random_state)
    if statistic == "cells":
        values, column_of_value = cell_values(model, pooled.table, missingness)
        return compare_columns(
            values, column_of_value, pooled.is_second, pooled.domain, label_batches
        )[0]
    gram = _mean_gram(pooled.table, model, missingness, random_state)
    labels = pooled.is_second[:, np.newaxis].astype(float)
    observed = squared_discrepancies(gram, labels)[0]
    null_statistics = np.concatenate(
        [squared_discrepancies(gram, labels) for labels in label_batches]
    )
    pvalue = float(pvalues(observed, null_statistics))
    return ComparisonResult(float(observed), pvalue)


def _joined_rows(model: Any, A: Any, B: Any, groups: Any, random_state: Any) -> PooledRows:
    """Join two tables, with the domain of a fitted model, or that of their rows."""
    is_fitted = hasattr(model, "domain_")
    tables: list[Any] = []
    for name, table in (("A", A), ("B", B)):
        with noted(f"This is about the table {name}."):
            tables.append(check_table(model, table, reset=not (is_fitted or tables)))
    table = join_tables(tables)
    is_second = np.repeat([False, True], [*map(len, tables)])
    # Numbers have few bins, so that each pair of bins has rows to count.
    domain = model.domain_ if is_fitted else Domain.fit(table, n_bins=4)
    _, group = group_rows(domain.encode(table))
    first_rows = np.sort(group[~is_second]).tolist()
    second_rows = np.sort(group[is_second]).tolist()
    # Ties between equal rows are broken by table. The table whose sorted rows are smaller comes
    # first, so that swapping A and B changes nothing.
    is_last = is_second if first_rows <= second_rows else ~is_second
    order = random_state.permutation(np.lexsort((is_last, group)))
    table = getattr(table, "iloc", table)[order]
    # Every row is a unit of its own, unless groups say which rows belong together.
    unit = np.arange(len(order)) if groups is None else _units(groups, tables)[order]
    return PooledRows(table, domain, is_second[order], unit)


def _units(groups: Any, tables: list[Any]) -> Ints:
    """The number of the group of each row; refuses a group with rows in both tables."""
    if len(groups) != len(tables):
        raise ValueError(
            "groups must be a pair: the groups of the rows of A and those of the rows of B; found "
            f"{len(groups)} entries."
        )
    for pair in zip(tables, groups):
        check_consistent_length(*pair)
    shared = np.intersect1d(*groups).tolist()
    if shared:
        raise ValueError(
            f"A group must lie in one of the tables; found {shared[0]!r} in both. Give its rows of "
            "A another group than those of B if they can be dealt apart."
        )
    _, unit = np.unique(np.concatenate(groups), return_inverse=True)
    return unit


def cell_values(model: Any, table: Any, missingness: bool) -> tuple[Floats, Ints]:
    """The values of each row by which tables are compared, and the columns they belong to.

    Returns
    -------
    values : ndarray of shape (n_rows, n_values), NaN where missing
        Log density of each cell given the others of its row; its number, or indicators of its
        category; and, with missingness, whether it is missing.
    column_of_value : ndarray of shape (n_values,)
        The column that each value is about; ``n_columns`` stands for the pattern of missing cells.
    """
    scores = np.asarray(model.score_cells(table), dtype=np.float64)
    domain = model.domain_
    n_columns = domain.n_features
    n_states = np.where(domain.is_categorical, domain.n_states, 0)
    rows = domain.encode(table)
    zero = np.zeros(n_columns)
    coordinates, observed = as_numbers(rows, n_states, zero, zero + 1.0)
    # `as_numbers` fills missing cells with zeros; here they take no part.
    if observed is not None:
        coordinates = np.where(observed > 0.0, coordinates, np.nan)
    columns = np.arange(n_columns)
    # `as_numbers` has a coordinate for each state, but one for two states and one for numbers.
    n_coordinates = np.where(n_states > 2, n_states, 1)
    values = [scores, coordinates]
    column_of_value = [columns, np.repeat(columns, n_coordinates)]
    if missingness:
        values.append(np.isnan(scores).astype(np.float64))
        column_of_value.append(np.full(n_columns, n_columns))
    return np.hstack(values), np.concatenate(column_of_value)


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
    # All partitions at once: (n_columns, n_partitions) by a product with the labels.
    n_second = observed.T.astype(float) @ labels
    n_first = n_values - n_second
    total = standardised.T @ labels
    n_pairs = n_first * n_second
    # Standardised values add up to zero, so that the total of one part gives that of the other.
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = total * np.sqrt(n_values / n_pairs)
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
    # Summed kernel of each row with the rows of the second part, (n_rows, n_partitions).
    similarity = gram @ labels
    within_second = (labels * similarity).sum(axis=0)
    between = ((1.0 - labels) * similarity).sum(axis=0)
    within_first = gram.sum() - within_second - 2.0 * between
    # A part of one row has no pairs.
    first_pairs, second_pairs = (
        np.maximum(count * (count - 1.0), 1.0) for count in (n_first, n_second)
    )
    mean_within = within_first / first_pairs + within_second / second_pairs
    return mean_within - 2.0 * between / (n_first * n_second)


def draw_labels(is_second: Bools, unit: Ints, n_draws: int, random_state: Any) -> Iterator[Floats]:
    """Deal units of rows to two parts at random, keeping the sizes of the parts.

    The smaller part has the label one, whichever table it stands for: that does not matter here.

    Yields
    ------
    ndarray of shape (n_rows, n_draws of a batch)
        One for the rows of the smaller part, zero for the others.
    """
    units, first_row, unit_number = np.unique(unit, return_index=True, return_inverse=True)
    n_drawn = int(is_second[first_row].sum())
    n_drawn = min(n_drawn, len(units) - n_drawn)
    # A batch holds about four million labels.
    for batch in slices(n_draws, max(1, 2**22 // len(unit))):
        n_labels = batch.stop - batch.start
        labels = np.zeros((len(units), n_labels))
        for draw in labels.T:
            draw[random_state.permutation(len(units))[:n_drawn]] = 1.0
        yield labels[unit_number]


def compare_columns(
    values: Floats,
    column_of_value: Ints,
    is_second: Bools,
    domain: Domain,
    label_batches: Iterator[Floats],
) -> tuple[ComparisonResult, Floats]:
    """Compare two parts of rows by what :func:`cell_values` says of them.

    An impossible cell counts like the most improbable possible cell of its column. Numbers count by
    their ranks.

    Returns
    -------
    result : ComparisonResult
    null_statistics : ndarray of shape (n_draws,)
        The statistic in each draw of labels, see :func:`draw_labels`.
    """
    import pandas as pd

    names = [*names_of(domain)]
    n_columns = domain.n_features
    is_impossible = np.isneginf(values)
    lowest = np.where(is_impossible, np.nan, values)
    lowest = np.fmin.reduce(lowest, axis=0)
    values = np.where(is_impossible, np.nan_to_num(lowest), values)
    parts = (values[is_second], values[~is_second])
    means = [column_moments(part, np.ones(len(part)))[0] for part in parts]
    differences = means[0] - means[1]
    # The log densities of the columns come first.
    difference = differences[:n_columns]
    is_pattern = column_of_value == n_columns
    if is_pattern.any():
        # Of the shares of missing cells, the one that has changed most stands for the pattern.
        shares = differences[is_pattern]
        difference = np.append(difference, shares[np.abs(shares).argmax()])
        names.append(PATTERN)
    # All values but the log densities are replaced by ranks.
    values[:, n_columns:] = rankdata(values[:, n_columns:], axis=0, nan_policy="omit")
    null_statistics = np.concatenate(
        [np.abs(standardised_differences(values, labels)).max(axis=0) for labels in label_batches]
    )
    labels = is_second[:, np.newaxis].astype(float)
    observed = np.abs(standardised_differences(values, labels))
    # The statistic of a column is the greatest of its log density, its number and its indicators.
    statistic = np.zeros(len(names))
    np.maximum.at(statistic, column_of_value, observed[:, 0])
    pvalue = pvalues(statistic, null_statistics)
    columns = pd.DataFrame(
        {"statistic": statistic, "pvalue": pvalue, "difference": difference}, index=names
    )
    result = ComparisonResult(float(statistic.max()), float(pvalue.min()), columns)
    return result, null_statistics


def _mean_gram(table: Any, model: Any, missingness: bool, random_state: Any) -> Floats:
    """The kernel between rows, averaged over draws of their missing cells; zero on the diagonal."""
    domain = model.domain_
    observed = domain.encode(table)
    n_states = np.where(domain.is_categorical, domain.n_states, 0)
    moments = column_moments(observed, np.ones(len(observed)))
    missing = np.isnan(observed)
    scale = 0.0
    n_rows = len(observed)
    # Complete rows are the same in every draw: one is enough.
    n_draws = 10 if missing.any() else 1
    gram = np.zeros((n_rows, n_rows))
    for _ in range(n_draws):
        completed = model.complete(table, "sample", random_state=random_state)
        rows = domain.encode(completed)
        points = [as_numbers(rows, n_states, *moments).point]
        # A cell that is missing in one of two rows counts like a cell of two different categories.
        if missingness:
            points.append(missing)
        distance = pdist(np.hstack(points), "sqeuclidean")
        # All draws have the scale of the first one, so that their kernels can be averaged.
        scale = scale or float(np.median(distance)) or 1.0
        gram += squareform(np.exp(-distance / scale)) / n_draws
    np.fill_diagonal(gram, 0.0)
    return gram
