"""Reports of how close a synthetic table is to a real one.

:func:`table_report` measures it by a classifier, by columns, by pairs of columns, by distances to
the rows learned from, and by rules.
"""

import math
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ks_2samp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from skpc._arrays import Floats
from skpc._threads import one_thread
from skpc.domain import column_moments, one_hot
from skpc.pooling.masking import few_categories
from skpc.synthesis.cells import TableCells, read_cells
from skpc.synthesis.rules import rules_of, value_counts
from skpc.synthesis.ties import read_tie

_FOLDS = 5


class TableReport(NamedTuple):
    """What :func:`table_report` measures; it prints as a table.

    Attributes
    ----------
    auc : float
        Area under the curve of a classifier that tells synthetic rows from real ones, held out
        where there are such; about .5 where it cannot.
    auc_learned : float
        The same for the rows from which the synthetic ones were learned. Far below ``auc`` where
        these were memorised.
    auc_gaps : float
        The same for a classifier that sees only which cells are missing; NaN without gaps. Where
        it is as high as ``auc``, gaps alone tell the tables apart.
    columns : pandas DataFrame
        A row for each column: "shape" (one less the Kolmogorov-Smirnov distance of numbers, or the
        total variation distance of categories), "coverage" (the share of the range, or of the
        categories, that the synthetic table has), "missing" (one less the difference of the shares
        of missing cells).
    pairs : pandas DataFrame
        How alike the dependences of two columns are, from 0 to 1; NaN on the diagonal.
    nearer : float
        Share of the synthetic rows that are nearer to a row learned from than to any of as many
        held out, ties counted half: above .5 where rows were memorised. NaN without rows held out.
    rules : pandas DataFrame
        A row for each rule: "rule", and "kept", the share of the synthetic rows that keep it.
    """

    auc: float
    auc_learned: float
    auc_gaps: float
    columns: Any
    pairs: Any
    nearer: float
    rules: Any

    @property
    def xgb_c2st(self) -> float:
        """2 (1 - max(auc, 1/2)): one where a classifier cannot tell the tables apart."""
        return _c2st(self.auc)

    @property
    def xgb_c2st_learned(self) -> float:
        """The same for the rows learned from."""
        return _c2st(self.auc_learned)

    @property
    def shapes(self) -> float:
        """Mean of the shapes of the columns."""
        return float(self.columns["shape"].mean())

    @property
    def trends(self) -> float:
        """Mean over all pairs of columns."""
        # Pairs with a constant column have no correlation; a single column has no pairs.
        return float(np.nanmean(self.pairs.to_numpy())) if len(self.pairs) > 1 else np.nan

    def __str__(self) -> str:
        text = (
            f"C2ST {self.xgb_c2st_learned:.3f} on rows learned from, {self.xgb_c2st:.3f} on new "
            f"rows; shapes {self.shapes:.3f}, pair trends {self.trends:.3f}"
        )
        if not np.isnan(self.nearer):
            text += f"; nearer to rows learned from {self.nearer:.3f}"
        if not np.isnan(self.auc_gaps):
            text += f"\nC2ST by gaps alone {_c2st(self.auc_gaps):.3f}"
        tables = [self.columns.round(3).to_string()]
        tables += [self.rules.to_string(index=False)] if len(self.rules) else []
        return "\n".join([text, *tables])

    def plot(self, ax: Any = None) -> Any:
        """Draw the shapes of the columns and the dependences of all pairs.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: a new one.

        Returns
        -------
        matplotlib Axes
        """
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        # A copy, as the diagonal is filled with the columns.
        shown = self.pairs.to_numpy(copy=True)
        names = [str(name) for name in self.pairs]
        np.fill_diagonal(shown, self.columns["shape"])
        # The same range in every drawing, so that colours can be compared.
        image = ax.imshow(shown, vmin=0.0, vmax=1.0, cmap="viridis")
        ax.set_xticks(range(len(names)), names, rotation=90)
        ax.set_yticks(range(len(names)), names)
        ax.set_title(f"pairs, and columns on the diagonal; AUC {self.auc:.2f}")
        ax.figure.colorbar(image, ax=ax, label="1: as in the real table")
        return ax


@one_thread()
def table_report(
    real: Any,
    synthetic: Any,
    holdout: Any = None,
    *,
    categorical_features: Any = "auto",
    random_state: Any = None,
) -> TableReport:
    """Measure how close a synthetic table is to a real one, whoever made it.

    Parameters
    ----------
    real : array-like or DataFrame of shape (n_rows, n_features)
        The rows from which the synthetic ones were learned; NaN (or None) marks missing cells.
    synthetic : array-like or DataFrame of shape (n_synthetic_rows, n_features)
        Rows of the same columns.
    holdout : array-like or DataFrame of shape (n_held_out_rows, n_features), default=None
        Real rows from which nothing was learned. They take the place of ``real`` in all that
        compares distributions, and show whether rows learned from were memorised: halves of a
        table, one to learn from and one to hold out, tell most. None compares with ``real``: a
        table of copies is then perfect.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical, as in the densities.
    random_state : int, RandomState instance or None, default=None
        Draws equal numbers of rows for the classifier and for distances, and seeds its folds.

    Returns
    -------
    TableReport

    Raises
    ------
    ValueError
        If the tables have different columns, or fewer than ten rows.

    See Also
    --------
    find_rules : The rules whose adherence is reported, found in ``real``.
    skpc.comparisons.two_sample_test : Whether two tables differ, with a p-value.

    Notes
    -----
    The classifier is scikit-learn's histogram gradient boosting on as many rows of either kind,
    out of five folds. Dependences are, as in sdmetrics: one less half of the difference of
    correlations of two numbers; one less the total variation distance of the tables of two
    categories, or of a category and a number in ten bins of equal width over the real range.
    Distances are Euclidean, of numbers over their standard deviations and of categories one-hot
    over the square root of two. None of this is a promise of privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.synthesis import table_report
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> X[:, 1] += X[:, 0]
    >>> shuffled = np.column_stack([X[:300, 0], X[:300, 1][::-1]])
    >>> report = table_report(X[:300], shuffled, X[300:], random_state=0)
    >>> [report.shapes > 0.9, report.trends < 0.8, report.auc > 0.6]
    [True, True, True]
    """
    # One generator for all measures, so that one seed gives one report.
    random_state = check_random_state(random_state)
    tables = [real, synthetic, *([] if holdout is None else [holdout])]
    learned, drawn, *held = read_cells(tables, categorical_features)
    # New rows are the fairer reference, where there are any.
    reference = held[0] if held else learned
    least = min(len(cells.values) for cells in (learned, drawn, reference))
    # Each fold needs rows of both tables.
    if least < 2 * _FOLDS:
        raise ValueError(f"Each table needs at least {2 * _FOLDS} rows; found {least}.")
    columns = [_compared(reference, drawn, column) for column in range(len(drawn.names))]
    categories = few_categories(drawn.domain)
    # A classifier that sees only gaps tells how far these alone tell the tables apart.
    gaps, drawn_gaps = (np.isnan(cells.values).astype(float) for cells in (reference, drawn))
    has_gaps = gaps.any() or drawn_gaps.any()
    auc = _auc(reference.values, drawn.values, categories, random_state)
    return TableReport(
        auc,
        _auc(learned.values, drawn.values, categories, random_state) if held else auc,
        _auc(gaps, drawn_gaps, None, random_state) if has_gaps else np.nan,
        _frame(columns, index=drawn.names),
        _pairs(reference, drawn),
        _nearer(drawn, learned, held[0], random_state) if held else np.nan,
        _rules(learned, drawn),
    )


def _c2st(auc: float) -> float:
    """The score of a classifier two-sample test: one where the tables cannot be told apart."""
    return 2.0 * (1.0 - max(auc, 0.5))


def _frame(data: Any, **options: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(data, **options)


def _compared(real: TableCells, drawn: TableCells, column: int) -> dict[str, float]:
    """The line of a column in the report: its shape, coverage and share of missing cells."""
    real_cells = real.values[:, column]
    drawn_cells = drawn.values[:, column]
    missing = 1.0 - abs(np.isnan(real_cells).mean() - np.isnan(drawn_cells).mean())
    real_cells = real_cells[~np.isnan(real_cells)]
    drawn_cells = drawn_cells[~np.isnan(drawn_cells)]
    # A column without values on one side has no shape to compare.
    if not len(real_cells) or not len(drawn_cells):
        return {"shape": np.nan, "coverage": np.nan, "missing": missing}
    if real.is_categorical[column]:
        shape = _overlap(real_cells, drawn_cells)
        coverage = np.isin(np.unique(real_cells), drawn_cells).mean()
    else:
        shape = 1.0 - ks_2samp(real_cells, drawn_cells, method="asymp").statistic
        # A constant column has no length to divide by.
        length = max(np.ptp(real_cells), 1e-300)
        # The parts of the real range below and above the drawn one.
        uncovered = max(drawn_cells.min() - real_cells.min(), 0.0)
        uncovered += max(real_cells.max() - drawn_cells.max(), 0.0)
        coverage = max(1.0 - uncovered / length, 0.0)
    return {"shape": float(shape), "coverage": float(coverage), "missing": float(missing)}


def _overlap(a: Floats, b: Floats) -> float:
    """One less the total variation distance of two columns of codes."""
    counts_a, counts_b = value_counts(a, b)
    return float(1.0 - 0.5 * np.abs(counts_a / len(a) - counts_b / len(b)).sum())


def _pairs(real: TableCells, drawn: TableCells) -> Any:
    """The likeness of the dependences of all pairs of columns, as a DataFrame."""
    n_columns = len(real.names)
    similar = np.full((n_columns, n_columns), np.nan)
    # Each column is in many pairs, and is coded once.
    codes = [[_codes(real, cells, left) for left in range(n_columns)] for cells in (real, drawn)]
    for left, right in combinations(range(n_columns), 2):
        if real.is_categorical[[left, right]].any():
            # A complex number holds a pair of codes.
            similar[left, right] = _overlap(
                *(codes_of_table[left] + 1j * codes_of_table[right] for codes_of_table in codes)
            )
        else:
            difference = _correlation(real, left, right) - _correlation(drawn, left, right)
            # Correlations are at most 2 apart.
            similar[left, right] = 1.0 - 0.5 * abs(difference)
        similar[right, left] = similar[left, right]
    return _frame(similar, index=real.names, columns=real.names)


def _codes(real: TableCells, cells: TableCells, column: int) -> Floats:
    """The codes of a column, or the bins of its numbers; a missing cell has a code of its own."""
    # Bins of a number that is compared together with a category.
    n_bins = 10
    values = cells.values[:, column]
    real_cells = real.values[:, column]
    if not real.is_categorical[column]:
        # Edges come from the real table, so that both tables have the same bins.
        edges = np.histogram_bin_edges(real_cells[~np.isnan(real_cells)], n_bins)
        # The outer edges are left out: what lies beyond them falls into the last bins.
        values = np.where(np.isnan(values), np.nan, np.digitize(values, edges[1:-1]))
    return np.nan_to_num(values, nan=-1.0)


def _correlation(cells: TableCells, left: int, right: int) -> float:
    """Correlation of two columns of numbers; NaN where one of them is constant."""
    pairs = cells.values[:, [left, right]]
    pairs = pairs[~np.isnan(pairs).any(axis=1)]
    is_constant = len(pairs) < 2 or not np.ptp(pairs, axis=0).all()
    return np.nan if is_constant else float(np.asarray(np.corrcoef(pairs.T))[0, 1])


def _auc(real: Floats, drawn: Floats, categories: Any, random_state: Any) -> float:
    """Area under the curve of a classifier that tells two tables apart, on held-out folds."""
    # As many rows of each, so that guessing gives an area of one half.
    n_rows = min(len(real), len(drawn))
    X = np.concatenate([_drawn_rows(values, n_rows, random_state) for values in (real, drawn)])
    y = np.repeat([0, 1], n_rows)
    # Seeds of classifiers are numbers, and folds and model share one.
    seed = random_state.randint(2**31)
    model = HistGradientBoostingClassifier(categorical_features=categories, random_state=seed)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    proba = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    return float(roc_auc_score(y, proba[:, 1]))


def _drawn_rows(values: Floats, n_rows: int, random_state: Any) -> Floats:
    """Rows drawn without replacement."""
    return values[random_state.choice(len(values), n_rows, replace=False)]


def _nearer(drawn: TableCells, learned: TableCells, held: TableCells, random_state: Any) -> float:
    """Share of drawn rows that are nearer to a row learned from than to any held out."""
    # As many rows of each, since the nearest of more rows is nearer.
    n_rows = min(len(learned.values), len(held.values))
    points = _points(drawn.values, learned)
    nearest = []
    for cells in (learned, held):
        places = _points(_drawn_rows(cells.values, n_rows, random_state), learned)
        distances, _ = NearestNeighbors(n_neighbors=1).fit(places).kneighbors(points)
        nearest.append(distances[:, 0])
    distance_to_learned, distance_to_held = nearest
    # Ties count for one half, as for rows that are in both tables.
    return float(0.5 - 0.5 * np.sign(distance_to_learned - distance_to_held).mean())


def _points(values: Floats, reference: TableCells) -> Floats:
    """Rows as points for distances; a missing number is the mean, a missing category no state."""
    mean, deviation = column_moments(reference.values, np.ones(len(reference.values)))
    # Different categories are the root of 2 apart, and so are numbers one deviation apart.
    scaled = math.sqrt(2.0) * (values - mean) / deviation
    return np.nan_to_num(
        one_hot(reference.domain, np.where(reference.is_categorical, values, scaled))
    )


def _rules(learned: TableCells, drawn: TableCells) -> Any:
    """The rules of the rows learned from, and the share of drawn rows that keep each."""
    rules = [finding.rule for finding in rules_of(learned).rules]
    shares_kept = [1.0 - read_tie(rule, learned).broken(drawn.values).mean() for rule in rules]
    return _frame({"rule": rules, "kept": shares_kept})
