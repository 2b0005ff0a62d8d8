"""Tests of columns: independence given other columns, and importance for a prediction."""

from numbers import Integral
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.metrics import check_scoring
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skpc._arrays import Floats, Ints, has_gaps
from skpc._validation import AT_LEAST_ONE, AUTO, HasMethods, check_table
from skpc.comparisons.result import ComparisonResult, checked, names_of, pvalues
from skpc.domain import column_moments, merge_rows
from skpc.estimators.soft_learn import SoftLearnSPN

#: Learns the residuals of a density; few steps of small trees, so that it adds little noise.
BOOSTING = GradientBoostingRegressor(
    n_estimators=50, max_depth=2, subsample=0.5, min_samples_leaf=5, random_state=0
)
_DENSITY = [HasMethods(["fit_rows", "score_cells"]), None]


@checked(density=_DENSITY, n_draws=[AT_LEAST_ONE], cv=["cv_object"])
def independence_test(
    X: Any,
    columns: Any,
    others: Any,
    conditioning: Any = (),
    *,
    density: Any = None,
    n_draws: int = 999,
    cv: Any = 5,
    random_state: Any = None,
) -> ComparisonResult:
    """Test whether columns are independent of others given a third set of columns.

    What the third set does not say of a column is its residual. If columns are independent given
    the set, products of their residuals have mean zero: the generalised covariance measure (Shah
    and Peters, 2020). The test sees no dependence that leaves this mean at zero.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_features)
        Rows; NaN (or None) marks missing cells. A pair of columns is compared in the rows that have
        both, and all columns of the third set; the density learns from all rows.
    columns, others : int, str or array-like
        Names or numbers of the columns to compare, each of ``columns`` with each of ``others``.
    conditioning : int, str or array-like, default=()
        Names or numbers of the columns that are given.
    density : density estimator, default=None
        Predicts columns given the third set, for the rows of a fold after learning from the other
        ones; what it misses is learned by boosting, and subtracted, or boosting predicts alone
        if that is better. None: a :class:`~skpc.SoftLearnSPN`. The level is approximate: it is as
        good as these predictions.
    n_draws : int, default=999
        Number of draws of the multiplier bootstrap, the null distribution of the greatest of all
        statistics.
    cv : int, cross-validation generator or iterable, default=5
        Folds.
    random_state : int, RandomState instance or None, default=None
        Deals rows to folds and draws multipliers.

    Returns
    -------
    ComparisonResult
        ``columns`` has a row for each pair: "statistic", the greatest absolute mean of products in
        standard errors (of numbers, and of indicators of categories), and "pvalue", adjusted by
        the maximum over pairs.

    Raises
    ------
    ValueError
        If a column does not exist, or is in two of the sets.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.comparisons import independence_test
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=400)
    >>> X = np.column_stack([z, z + rng.normal(size=400), z + rng.normal(size=400)])
    >>> independence_test(X, 1, 2, random_state=0).pvalue
    0.001
    >>> independence_test(X, 1, 2, conditioning=0, random_state=0).pvalue > 0.05
    True
    """
    import pandas as pd

    random_state = check_random_state(random_state)
    domain, rows, splits, learn = _folds(X, None, density, cv, random_state)
    left = domain.column_numbers_of(columns, "columns")
    right = domain.column_numbers_of(others, "others")
    given = domain.column_numbers_of(conditioning, "conditioning")
    compared = np.concatenate([left, right])
    all_columns = [*compared, *given]
    if len({*all_columns}) < len(all_columns):
        raise ValueError(
            "columns, others and conditioning must have no column in common; found the numbers "
            f"{left.tolist()}, {right.tolist()}, {given.tolist()}."
        )

    given_cells = rows[:, given]
    # The density predicts from the given columns alone.
    given_rows = np.full_like(rows, np.nan)
    given_rows[:, given] = given_cells
    # Columns that are independent given a cell may be dependent where that cell is missing.
    is_complete = ~has_gaps(given_cells)
    # Shape (n_compared, n_rows).
    values = np.where(is_complete, rows[:, compared].T, np.nan)

    def test_residuals(train: Ints, test: Ints) -> list[Floats]:
        cells = learn(train).posteriors(given_rows, compared)
        return [_residuals(*pair, given_cells, train)[test] for pair in zip(values, cells)]

    run = Parallel()
    folds = run(delayed(test_residuals)(*split) for split in splits)
    # For each compared column (n_rows, 1), or (n_rows, n_categories), the rows fold by fold.
    residuals = [np.vstack(parts) for parts in zip(*folds)]
    right_residuals = residuals[len(left) :]
    pairs = []
    products = []
    labels = names_of(domain)
    for column, left_part in zip(left, residuals):
        # Every indicator of one column is multiplied by every indicator of the other column.
        left_part = left_part[:, :, np.newaxis]
        for opposite, right_part in zip(right, right_residuals):
            product = left_part * right_part[:, np.newaxis]
            product = product.reshape(len(product), -1)
            products.append(product)
            pairs += [(labels[column], labels[opposite])] * product.shape[1]
    statistic, draws = multiplier_test(np.hstack(products), n_draws, random_state)
    statistics = pd.Series(statistic, pd.MultiIndex.from_tuples(pairs))
    frame = statistics.groupby(level=[0, 1], sort=False).max().to_frame("statistic")
    # The p-values are adjusted by the maximum over pairs: the smallest one is that of the test.
    adjusted = pvalues(frame["statistic"].to_numpy(), draws)
    frame["pvalue"] = adjusted
    return ComparisonResult(float(statistic.max()), float(adjusted.min()), frame)


@checked(
    density=_DENSITY,
    n_draws=[AT_LEAST_ONE, AUTO],
    cv=["cv_object"],
)
def feature_importance_test(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    density: Any = None,
    scoring: Any = None,
    n_draws: int | str = "auto",
    cv: Any = 5,
    random_state: Any = None,
) -> ComparisonResult:
    """Test for each column whether it says something of the target that the other ones do not.

    Holdout randomisation (Tansey et al., 2022): an estimator scores rows that it has not learned
    from, as they are, and with a column drawn from a density given the other columns. If the target
    is independent of the column given these, both scores have one distribution. The test is as good
    as the density, and approximate where folds share training rows.

    Parameters
    ----------
    estimator : classifier or regressor
        A clone of it learns in each fold, from rows with their missing cells.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Rows; NaN (or None) marks missing cells, and these stay missing. A column matters then, too,
        if it says something of the target where another one is missing.
    y : array-like of shape (n_rows,)
        Target.
    density : density estimator, default=None
        Learns the rows of ``X`` in each fold. None: a :class:`~skpc.SoftLearnSPN`.
    scoring : str or callable, default=None
        A scorer of scikit-learn, greater being better. Scores that change smoothly have the most
        power: "neg_log_loss", "neg_mean_squared_error". None: the ``score`` of the estimator.
    n_draws : int or "auto", default="auto"
        Number of draws of each column. "auto": 20 for each column, so that one column alone can
        be found at a rate of false discoveries of 0.1.
    cv : int, cross-validation generator or iterable, default=5
        Folds. A test takes ``n_features * n_draws`` scores in each.
    random_state : int, RandomState instance or None, default=None
        Deals rows to folds and draws columns.

    Returns
    -------
    ComparisonResult
        ``columns`` has a row for each column: "statistic", by how much the score is better than the
        mean score of draws; "pvalue"; and "adjusted", the smallest rate of false discoveries
        (Benjamini and Hochberg) at which the column is found. The p-value of all is the smallest
        adjusted one.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from skpc.comparisons import feature_importance_test
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> X[:, 1] += X[:, 0]
    >>> y = X[:, 0] + rng.normal(size=200)
    >>> result = feature_importance_test(Ridge(), X, y, random_state=0)
    >>> (result.columns["adjusted"] <= 0.1).tolist()
    [True, False]
    """
    import pandas as pd

    random_state = check_random_state(random_state)
    scorer = check_scoring(estimator, scoring)
    domain, rows, splits, learn = _folds(X, y, density, cv, random_state)
    n_columns = domain.n_features
    targets = np.asarray(y)
    count = 20 * n_columns if n_draws == "auto" else int(n_draws)
    # Folds may run in any order, and so each has a seed of its own.
    seeds = random_state.randint(2**31, size=len(splits)).tolist()

    def fold_scores(train: Ints, test: Ints, seed: int) -> Floats:
        """Scores of test rows, (n_columns, 1 + n_draws): as they are, then with a column drawn."""
        fitted = clone(estimator).fit(domain.decode(rows[train]), targets[train])
        density_of_rows = learn(train)
        fold_random_state = np.random.RandomState(seed)
        test_targets = targets[test]
        scores = []
        for column in range(n_columns):
            hidden = rows[test]
            drawn = rows[test]
            observed = ~np.isnan(rows[test, column])
            hidden[:, column] = np.nan
            for draw in range(1 + count):
                # Missing cells stay missing: the pattern is part of what the estimator reads.
                if draw:
                    cells = density_of_rows.draw_missing(hidden, fold_random_state)[:, column]
                    drawn[observed, column] = cells[observed]
                score = scorer(fitted, domain.decode(drawn), test_targets)
                # Folds of different sizes are averaged by their rows.
                scores.append(len(test) * score)
        return np.reshape(scores, (n_columns, 1 + count))

    run = Parallel()
    folds = run(delayed(fold_scores)(*split, seed) for split, seed in zip(splits, seeds))
    scores = np.sum(folds, axis=0) / sum(len(test) for _, test in splits)
    observed = scores[:, 0]
    draws = scores[:, 1:]
    pvalue = np.array([*map(pvalues, observed, draws)])
    adjusted = false_discovery_control(pvalue)
    gain = observed - draws.mean(axis=1)
    cells = {"statistic": gain, "pvalue": pvalue, "adjusted": adjusted}
    frame = pd.DataFrame(cells, index=names_of(domain))
    return ComparisonResult(float(gain.max()), float(adjusted.min()), frame)


def _folds(X: Any, y: Any, density: Any, cv: Any, random_state: Any) -> tuple[Any, ...]:
    """The domain, encoded rows, folds, and a function that learns a density from some rows."""
    estimator = SoftLearnSPN(random_state=0) if density is None else clone(density)
    # The domain is that of all rows, so that states are possible in folds that lack them.
    table = check_table(estimator, X, reset=True)
    domain, _, _ = estimator.prepare(table, None)
    rows = domain.encode(table)
    if isinstance(cv, Integral):
        cv = KFold(int(cv), shuffle=True, random_state=random_state)

    def learn(train: Ints) -> Any:
        merged = merge_rows(rows[train], np.ones(len(train)))
        return clone(estimator).fit_rows(domain, *merged).row_density

    return domain, rows, list(check_cv(cv).split(rows, y)), learn


def _residuals(values: Floats, cells: Any, given: Floats, train: Ints) -> Floats:
    """Residuals of a column: (n_rows, 1), or (n_rows, n_categories) for its indicators.

    Where a density misses how two columns depend on the given ones, their residuals are correlated.
    So boosting learns what the density leaves, or the column itself, whichever it predicts better
    in the training rows that its steps leave out.

    ``values`` (n_rows,) are the cells of the column, ``cells`` what the density predicts of them,
    ``given`` (n_rows, n_given) the cells that predictions may depend on.
    """
    if cells.labels is None:
        target = values[:, np.newaxis]
        mean = cells.mean()[:, np.newaxis]
    else:
        states = np.arange(len(cells.labels))
        target = 1.0 * np.equal.outer(values, states)
        mean = cells.probabilities
        target[np.isnan(values)] = np.nan
    residuals = target - mean
    known = train[~np.isnan(values[train])]
    # Boosting needs a given column and two rows.
    if not given.size or len(known) < 2:
        return residuals
    features = given[known]
    # Rows that lack a given cell have no residual, whatever is predicted for them.
    filled = np.nan_to_num(given)
    for residual, values_or_indicators in zip(residuals.T, target.T):
        residual_model = clone(BOOSTING).fit(features, residual[known])
        target_model = clone(BOOSTING).fit(features, values_or_indicators[known])
        # This score is a loss: the squared error in the rows that the last step left out.
        if target_model.oob_score_ < residual_model.oob_score_:
            residual[:] = values_or_indicators - target_model.predict(filled)
        else:
            residual -= residual_model.predict(filled)
    return residuals


def multiplier_test(products: Floats, n_draws: int, random_state: Any) -> tuple[Floats, Floats]:
    """Absolute means of columns in standard errors, and draws of the greatest one under the null.

    ``products`` (n_rows, n_products) are NaN where missing. The null hypothesis is that all means
    are zero.
    """
    observed = ~np.isnan(products)
    n_rows = np.maximum(observed.sum(axis=0), 1)
    mean, sd = column_moments(products, np.ones(len(products)))
    root = np.sqrt(n_rows)
    # A missing product counts like the mean, which is zero here.
    standardised = np.where(observed, (products - mean) / sd, 0.0)
    standardised /= root
    # A normal multiplier for each row draws all means together, with their correlations.
    multipliers = random_state.normal(size=(n_draws, len(products)))
    draws = np.abs(multipliers @ standardised)
    statistic = root * np.abs(mean) / sd
    return statistic, draws.max(axis=1)
