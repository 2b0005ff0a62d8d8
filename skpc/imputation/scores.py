r"""Scores of imputers: does an imputer restore the distribution of a table?

:func:`energy_i_score` judges without the missing values, :func:`energy_distance` with them.

The energy score of draws :math:`z_1, \ldots, z_N` where the truth is :math:`x` is

.. math::

    \frac 1N \sum_l \|z_l - x\| - \frac 1{2 N^2} \sum_l \sum_k \|z_l - z_k\| .

The plain twins are in ``tests/naive/imputation.py``.
"""

from typing import Any

import numpy as np
from numpy.linalg import norm
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from skpc._arrays import Bools, Floats
from skpc._threads import slices
from skpc._validation import check_table
from skpc.domain import Declared, Domain, column_moments, join_tables, named_columns, one_hot

#: Distances between rows that are held at a time.
_PAIRS = 2**22


def energy_i_score(X: Any, imputer: Any, n_draws: int = 50, random_state: Any = None) -> float:
    r"""Score an imputer on a table with missing cells, without the truth; lower is better.

    The score is proper: draws from the true conditional distributions have the lowest expectation
    if cells are missing at random, and means of these do not [1]_. For each column with missing
    cells,

    1. the rows that have the column are the test rows, and the columns that all of these have are
       its predictors;
    2. the imputer completes the table, and the other rows of it, in which the column is imputed,
       are the training rows;
    3. the imputer gets the column and its predictors in all these rows, the column missing in the
       test rows, and completes them ``n_draws`` times;
    4. the draws have an energy score for each test row.

    The result is the mean of the columns' scores, with weights
    :math:`m_j (n - m_j)` for :math:`m_j` missing cells in :math:`n` rows.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features)
        Rows; NaN (or None) marks missing cells. Strings, bools and columns whose dtype is a
        category are categories; all others are numbers.
    imputer : estimator
        Never fitted itself, but clones of it. With a method ``fit_impute``, as
        :class:`skpc.MultipleImputer` has: it draws ``n_imputations`` tables, which is set. Else a
        transformer: it is fitted with ``n_draws`` seeds (any parameter ``random_state``, also of
        an inner estimator), or once if it takes none. It sees tables with fewer columns than ``X``,
        so that its parameters should not name columns.
    n_draws : int, default=50
        Number of draws of each cell; at least 2 for an imputer with ``fit_impute``.
    random_state : int, RandomState instance or None, default=None
        Seeds the clones.

    Returns
    -------
    float
        The score. Numbers are in standard deviations of the observed cells of their column, and
        categories are indicators.

    Raises
    ------
    TypeError
        If ``imputer`` has neither ``fit_impute`` nor ``fit_transform``.
    ValueError
        If no column can be scored; ``n_draws`` is not positive; or the imputer
        leaves cells missing, or changes the number of columns or rows.

    See Also
    --------
    energy_distance : Judges imputed tables where the complete one is known.

    Notes
    -----
    Where no other column is complete in all test rows, those rows are the test rows that have the
    column and the one that is observed together with it most often (the first of several), as in
    the R package Iscores.
    Columns with fewer than ten missing cells or with one observed value have no score. Numbers are
    divided by standard deviations, so that units do not matter; otherwise the weights and the sign
    are those of the package.

    References
    ----------
    .. [1] J. Näf, K. Grzesiak, E. Scornet. "How to Rank Imputation Methods?". arXiv:2507.11297,
           2025.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.impute import SimpleImputer
    >>> from skpc import MultipleImputer, TableMixture
    >>> from skpc.imputation import energy_i_score
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=200)
    >>> X = np.column_stack([x, x + 0.5 * rng.normal(size=200)])
    >>> X[rng.random(200) < 0.4, 1] = np.nan
    >>> draws = MultipleImputer(TableMixture(n_components=1))
    >>> round(energy_i_score(X, draws, n_draws=10, random_state=0), 1)
    0.3
    >>> round(energy_i_score(X, SimpleImputer()), 1)
    0.8
    """
    # Columns with fewer missing cells are not scored: they would leave too few training rows.
    fewest_missing = 10
    if n_draws < 1:
        raise ValueError(f"n_draws must be at least 1, got {n_draws!r}")
    if not (hasattr(imputer, "fit_impute") or hasattr(imputer, "fit_transform")):
        raise TypeError(
            "imputer must have a method fit_impute, or be a transformer with fit_transform; got "
            f"{type(imputer).__name__}"
        )
    table = check_table(BaseEstimator(), X, reset=True)
    domain = _domain(table)
    rows = domain.encode(table)
    missing = np.isnan(rows)
    n_missing = missing.sum(axis=0)
    scale = _scale(domain, rows)
    seeds = check_random_state(random_state).randint(2**31 - 1, size=n_draws).tolist()
    # An imputer with `fit_impute` draws at least two tables; one of them is used.
    n_fills = 2 if hasattr(imputer, "fit_impute") else 1
    filled = _draws(imputer, domain, rows, seeds[:n_fills])[0]
    scores = []
    weights = []
    for column in np.flatnonzero(n_missing >= fewest_missing):
        test = _test_rows(missing, column)
        # A column with one value in its test rows cannot rank imputers.
        if len(np.unique(rows[test, column])) > 1:
            columns = np.flatnonzero(~missing[test].any(axis=0))
            part = domain.taken(columns)
            masked = filled[:, columns]
            masked[test, columns == column] = np.nan
            completed = [filled[:, columns], *_draws(imputer, part, masked, seeds)]
            # Rows and their draws differ in this column only: distances are those of its cells.
            points = [one_hot(part, (drawn / scale[columns])[test]) for drawn in completed]
            scores.append(_energy_score(points[0], np.stack(points[1:])))
            weights.append(n_missing[column] * (len(rows) - n_missing[column]))
    if not scores:
        raise ValueError(
            f"X needs a column with at least {fewest_missing} missing cells and two different "
            "observed ones, beside another that is observed in the same rows; found columns with "
            f"{n_missing.tolist()} missing cells"
        )
    return float(np.average(scores, weights=weights))


def energy_distance(complete: Any, imputed: Any) -> float:
    r"""Energy distance between a complete table and an imputed one.

    With independent rows :math:`x, x'` of one and :math:`y, y'` of the other it is
    :math:`2 \mathrm E \|x - y\| - \mathrm E \|x - x'\| - \mathrm E \|y - y'\|`: zero if the rows
    are the same in any order, and greater the more their distributions differ [1]_. It
    takes the squares of as many distances as there are pairs of rows, in chunks.

    Parameters
    ----------
    complete : array-like or DataFrame of shape (n_samples, n_features)
        The table without missing cells. Strings, bools and columns whose dtype is a category are
        categories; all others are numbers.
    imputed : array-like or DataFrame of shape (n_imputed_samples, n_features)
        The table of the same columns whose missing cells were filled.

    Returns
    -------
    float
        The distance. Numbers are in standard deviations of their column in ``complete`` (in both
        tables together where it is constant there); categories are indicators.

    Raises
    ------
    TypeError
        If one table is an array and the other a DataFrame.
    ValueError
        If the tables have other columns, or missing cells.

    See Also
    --------
    energy_i_score : Judges an imputer where the complete table is not known.

    References
    ----------
    .. [1] G. J. Székely, M. L. Rizzo. "Energy Statistics: A Class of Statistics Based on
           Distances". Journal of Statistical Planning and Inference 143(8), 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.imputation import energy_distance
    >>> complete = np.array([[0.0], [2.0]])
    >>> energy_distance(complete, np.array([[2.0], [0.0]]))
    0.0
    >>> energy_distance(complete, np.array([[0.0], [0.0]]))
    1.0
    """
    if np.shape(complete)[1:] != np.shape(imputed)[1:]:
        raise ValueError(
            "complete and imputed must have the same columns; found shapes "
            f"{np.shape(complete)} and {np.shape(imputed)}."
        )
    reader = BaseEstimator()
    tables = [
        check_table(reader, complete, reset=True),
        check_table(reader, imputed, reset=False),
    ]
    joined = join_tables(tables)
    domain = _domain(joined)
    rows = domain.encode(joined)
    if np.isnan(rows).any():
        raise ValueError(
            "complete and imputed must have no missing cells; found "
            f"{np.isnan(rows).sum()}. Fill them, or leave their rows out."
        )
    complete_rows = rows[: len(tables[0])]
    is_constant = np.ptp(complete_rows, axis=0) == 0.0
    scale = np.where(is_constant, _scale(domain, rows), _scale(domain, complete_rows))
    points = one_hot(domain, rows / scale)
    x = points[: len(complete_rows)]
    y = points[len(complete_rows) :]
    return 2.0 * _mean_distance(x, y) - _mean_distance(x, x) - _mean_distance(y, y)


def _domain(table: Any) -> Domain:
    """The domain of a table, with plain numbers: imputers may fill in values between states."""
    return Domain.fit(
        table,
        Declared(
            categorical_features=named_columns(table), margins="plain", handle_unknown="error"
        ),
    )


def _scale(domain: Domain, rows: Floats) -> Floats:
    """Standard deviations of numbers; codes of categories stay as they are."""
    return np.where(domain.is_categorical, 1.0, column_moments(rows, np.ones(len(rows)))[1])


def _draws(imputer: Any, domain: Domain, rows: Floats, seeds: list[int]) -> list[Floats]:
    """Encoded rows as clones of the imputer complete them, once for each seed."""
    table = domain.decode(rows)
    imputer = clone(imputer)
    if hasattr(imputer, "fit_impute"):
        imputer.set_params(n_imputations=len(seeds), random_state=seeds[0])
        completed = imputer.fit_impute(table)
    else:
        names = [name for name in imputer.get_params() if name.endswith("random_state")]
        # Without a parameter for seeds all draws would be the same, and one is enough.
        completed = [
            imputer.set_params(**dict.fromkeys(names, seed)).fit_transform(table)
            for seed in (seeds if names else seeds[:1])
        ]
    if completed[0].shape != rows.shape:
        raise ValueError(
            f"imputer must keep the rows and columns of its table, shape {rows.shape}; found "
            f"shape {completed[0].shape}"
        )
    # Observed cells stay, whatever the imputer returns in their place.
    draws = [np.where(np.isnan(rows), domain.encode(filled), rows) for filled in completed]
    if np.isnan(draws).any():
        raise ValueError(
            f"imputer must fill all cells; found {np.isnan(draws).sum()} that it has left missing"
        )
    return draws


def _test_rows(missing: Bools, column: np.intp) -> Bools:
    """Which rows have this column and the column that is observed together with it most often."""
    test = ~missing[:, column]
    n_beside = (~missing[test]).sum(axis=0)
    # The column itself is no predictor.
    n_beside[column] = -1
    return test & ~missing[:, n_beside.argmax()]


def _energy_score(truth: Floats, draws: Floats) -> float:
    """Mean energy score of rows: of truth (n_rows, d) and draws (n_draws, n_rows, d)."""
    # One draw against all others at a time: all pairs of many rows would take much memory.
    within = np.mean([norm(draws - drawn, axis=2).mean() for drawn in draws])
    return float(norm(draws - truth, axis=2).mean() - 0.5 * within)


def _mean_distance(x: Floats, y: Floats) -> float:
    """Mean distance between a row of x and a row of y."""
    chunks = slices(len(x), max(1, _PAIRS // len(y)))
    return float(sum(cdist(x[chunk], y).mean(axis=1).sum() for chunk in chunks) / len(x))
