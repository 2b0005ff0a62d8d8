"""How good imputations are as draws of the distribution of a table, with and without the truth."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.utils import check_random_state, gen_batches

from skpc._arrays import Bools, Floats

#: Pairs of rows whose distances are held at a time.
_PAIRS = 2**22


def energy_distance(complete: Any, imputed: Any) -> float:
    """Energy distance between the rows of a complete table and those of imputed ones.

    With rows x, x' of the one and y, y' of the other it is
    :math:`2 E|x - y| - E|x - x'| - E|y - y'|`. Numbers are divided by their standard deviation in
    the complete table, and categories are one-hot columns.

    Parameters
    ----------
    complete : array-like or DataFrame of shape (n_samples, n_features)
        The truth, or new rows of the same kind.
    imputed : array-like or DataFrame, or list of these
        A table without missing cells, or several, over which the distance is averaged.

    Returns
    -------
    float
        Zero for equal tables; small is good.

    Raises
    ------
    ValueError
        If tables have other columns, or a cell is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.imputation import energy_distance
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> energy_distance(X, X), round(energy_distance(X, X + 1.0), 1)
    (0.0, 0.9)
    """
    truth = _frame(complete)
    tables = [_frame(table) for table in (imputed if isinstance(imputed, list) else [imputed])]
    for name, table in (("complete", truth), *(("imputed", table) for table in tables)):
        if [*table.columns] != [*truth.columns]:
            raise ValueError(
                f"Tables need the same columns; found {[*truth.columns]} and {[*table.columns]}."
            )
        lost = table.isna().to_numpy()
        if lost.any():
            row = int(lost.any(axis=1).argmax())
            raise ValueError(f"{name} must have no missing cells; found some in row {row}.")
    distances = []
    for table in tables:
        both = _points([truth, table])
        within = _mean_distance(both[0], both[0]) + _mean_distance(both[1], both[1])
        distances.append(2.0 * _mean_distance(*both) - within)
    return float(np.mean(distances))


def energy_i_score(X: Any, imputer: Any, n_draws: int = 50, random_state: Any = None) -> float:
    """Energy I-score of an imputation method on a table, without the truth [1]_.

    The table is completed once. Then each column with missing cells is removed where it was
    observed, and drawn there again by the imputer, from the completed column elsewhere and from
    the columns that all of these rows have (where there are none, from the one that most of them
    have, in the rows that have it). The draws are scored by the energy score of the observed cells,

    .. math::

       \\tfrac12 E|x - x'| - E|x - y| ,

    and columns are weighed by the product of their shares of observed and missing cells. Numbers
    are in standard deviations of their observed cells, categories are one-hot columns.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features)
        A table; NaN (or None) marks missing cells.
    imputer : estimator
        With ``fit_impute``, such as :class:`skpc.MultipleImputer`; or a transformer, which is
        cloned with as many seeds as there are draws (one, if it has no ``random_state``).
    n_draws : int, default=50
        Number of draws of each cell.
    random_state : int, RandomState instance or None, default=None
        Seeds the imputer.

    Returns
    -------
    float
        At most zero; the greater the better. Scores compare imputers on one table.

    Raises
    ------
    ValueError
        If no column has both missing and observed cells.
    TypeError
        If the imputer has neither ``fit_impute`` nor ``fit_transform``.

    References
    ----------
    .. [1] J. Näf, K. Grzesiak, E. Scornet. "How to Rank Imputation Methods?" arXiv:2507.11297,
       2025.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.impute import SimpleImputer
    >>> from skpc import MultipleImputer
    >>> from skpc.imputation import energy_i_score
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=200)
    >>> X = np.column_stack([x, x + 0.5 * rng.normal(size=200)])
    >>> X[rng.random(200) < 0.3, 1] = np.nan
    >>> means = energy_i_score(X, SimpleImputer())
    >>> draws = energy_i_score(X, MultipleImputer(), n_draws=10, random_state=0)
    >>> bool(draws > means)
    True
    """
    if not hasattr(imputer, "fit_impute") and not hasattr(imputer, "fit_transform"):
        raise TypeError(f"imputer needs fit_impute or fit_transform; found {imputer!r}.")
    table = _frame(X)
    observed = table.notna().to_numpy()
    is_scored = observed.any(axis=0) & ~observed.all(axis=0)
    if not is_scored.any():
        raise ValueError("energy_i_score needs a column with both missing and observed cells.")
    random = check_random_state(random_state)
    completed = _draws(imputer, table, 1, random)[0]
    scores, weights = [], []
    for column in np.flatnonzero(is_scored).tolist():
        chosen, sources = _evidence(observed, column)
        held = completed.iloc[:, [column, *sources]].copy()
        # Rows that have the column, but not the source, say nothing.
        is_used = chosen | ~observed[:, column]
        held = held[is_used]
        cells = table.iloc[chosen, [column]]
        held.iloc[chosen[is_used], 0] = None
        draws = [draw.iloc[chosen[is_used], [0]] for draw in _draws(imputer, held, n_draws, random)]
        truth, *drawn = _points([cells, *draws])
        scores.append(_energy_scores(truth, np.array(drawn)).mean())
        share = observed[:, column].mean()
        weights.append(share * (1.0 - share))
    return float(np.average(scores, weights=weights))


def _frame(table: Any) -> Any:
    """A table as a DataFrame of pandas, with numbered rows."""
    import pandas as pd

    frame = table.to_pandas() if hasattr(table, "to_pandas") else pd.DataFrame(table)
    return frame.reset_index(drop=True)


def _draws(imputer: Any, table: Any, n_draws: int, random: np.random.RandomState) -> list[Any]:
    """Completed tables, of the columns of the table."""
    names = [name for name in imputer.get_params() if name.split("__")[-1] == "random_state"]
    seeds = random.randint(2**31 - 1, size=n_draws).tolist()
    if hasattr(imputer, "fit_impute"):
        settings = dict.fromkeys(names, seeds[0]) | {"n_imputations": max(n_draws, 2)}
        return [_frame(one) for one in clone(imputer).set_params(**settings).fit_impute(table)]
    completed = []
    for seed in seeds if names else seeds[:1]:
        filled = clone(imputer).set_params(**dict.fromkeys(names, seed)).fit_transform(table)
        frame = _frame(filled)
        frame.columns = table.columns
        completed.append(frame)
    return completed


def _evidence(observed: Bools, column: int) -> tuple[Bools, list[int]]:
    """The rows in which a column is drawn again, and the columns that it is drawn from."""
    rows = observed[:, column]
    sources = np.flatnonzero(observed[rows].all(axis=0))
    sources = sources[sources != column]
    if len(sources):
        return rows, sources.tolist()
    counts = observed[rows].sum(axis=0)
    counts[column] = -1
    source = int(counts.argmax())
    return rows & observed[:, source], [source]


def _points(tables: Sequence[Any]) -> list[Floats]:
    """Tables as points: numbers in standard deviations of the first table, one-hot categories."""
    import pandas as pd

    parts: list[list[Floats]] = [[] for _ in tables]
    for column in range(tables[0].shape[1]):
        cells = [table.iloc[:, column] for table in tables]
        first = cells[0]
        if pd.api.types.is_numeric_dtype(first) and not pd.api.types.is_bool_dtype(first):
            values = [np.asarray(one, dtype=np.float64)[:, np.newaxis] for one in cells]
            spread = values[0].std()
            scaled = [one / (spread if spread > 0.0 else 1.0) for one in values]
        else:
            labels = pd.unique(pd.concat([one.astype(object) for one in cells]))
            scaled = [
                (one.to_numpy(object)[:, np.newaxis] == labels).astype(np.float64) for one in cells
            ]
        for part, points in zip(parts, scaled):
            part.append(points)
    return [np.concatenate(part, axis=1) for part in parts]


def _mean_distance(points: Floats, others: Floats) -> float:
    """Mean Euclidean distance of all pairs."""
    size = max(1, _PAIRS // len(others))
    parts: Iterable[slice] = gen_batches(len(points), size)
    return sum(float(cdist(points[part], others).sum()) for part in parts) / (
        len(points) * len(others)
    )


def _energy_scores(truth: Floats, draws: Floats) -> Floats:
    """Energy score of each row: draws of shape (n_draws, n_rows, n_columns)."""
    to_truth = np.linalg.norm(draws - truth, axis=2).mean(axis=0)
    n_draws = len(draws)
    apart = np.zeros(len(truth))
    for draw in draws:
        apart += np.linalg.norm(draws - draw, axis=2).sum(axis=0)
    return 0.5 * apart / n_draws**2 - to_truth
