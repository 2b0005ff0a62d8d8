r"""Combining estimates from several imputed tables by Rubin's rules.

With estimates :math:`q_i` and variances :math:`u_i` of :math:`m` tables,

.. math::

    \bar q = \frac 1m \sum_i q_i, \quad
    b = \frac{\sum_i (q_i - \bar q)^2}{m - 1}, \quad
    t = \bar u + \Big(1 + \frac 1m\Big) b, \quad
    \lambda = \Big(1 + \frac 1m\Big) \frac bt .

The combined estimate is :math:`\bar q`, its variance is :math:`t`, and the share of this variance
that lies between tables is :math:`\lambda`. The plain twin is ``tests/naive/imputation.py``.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import expit, logit

from skpc._arrays import Floats


class _Transform(NamedTuple):
    """A scale on which estimates are combined, and the range of estimates that it takes."""

    forward: Any
    inverse: Any
    slope: Any
    low: float = -np.inf
    high: float = np.inf


_TRANSFORMS = {
    None: _Transform(np.asarray, np.asarray, np.ones_like),
    "fisher": _Transform(np.arctanh, np.tanh, lambda r: 1.0 / (1.0 - r**2), -1.0, 1.0),
    "logit": _Transform(logit, expit, lambda p: 1.0 / (p * (1.0 - p)), 0.0, 1.0),
}


@dataclass(frozen=True, eq=False)
class CombinedEstimates:
    """Estimates combined over imputed tables; prints as a table.

    Attributes
    ----------
    table : pandas DataFrame
        A row for each estimate: "estimate"; "std_error"; "statistic", the estimate over its
        standard error on the transformed scale; "df", its degrees of freedom; "pvalue" of the
        hypothesis that the transformed estimate is zero (a correlation of 0, a proportion of 0.5);
        "fmi", the fraction of missing information.
    n_tables : int
        Number of tables.
    transform : {"fisher", "logit"} or None
        The scale on which estimates were combined.
    estimates : ndarray of shape (n_tables, n_estimates)
        The estimates of each table, on that scale.
    covariances : ndarray of shape (n_tables, n_estimates, n_estimates) or None
        Their covariances; None where variances alone were given.
    df_complete : float or None
        Degrees of freedom if no cell were missing.

    Examples
    --------
    >>> from skpc.imputation import combine_estimates
    >>> print(
    ...     combine_estimates([4.0, 5.0, 6.0], [0.5, 0.7, 0.6])
    ...     .table["fmi"]
    ...     .round(2)
    ... )
    0    0.78
    Name: fmi, dtype: float64
    """

    table: Any
    n_tables: int
    transform: str | None
    estimates: Floats
    covariances: Floats | None
    df_complete: float | None

    @property
    def joint(self) -> dict[str, Any] | None:
        """The test that all estimates are zero; None for a single one, or without covariances."""
        if self.covariances is None or len(self.table) == 1:
            return None
        return self.wald_test()

    @property
    def n_tables_advised(self) -> int:
        """Number of tables with which standard errors vary by 5 % from one seed to another [1]_.

        References
        ----------
        .. [1] P. T. von Hippel. "How Many Imputations Do You Need? A Two-stage Calculation Using a
               Quadratic Rule". Sociological Methods & Research 49(3), 2020.
        """
        greatest_fmi = float(self.table["fmi"].max())
        # Relative standard deviation of the standard errors over seeds.
        variation = 0.05
        return max(2, math.ceil(1.0 + 0.5 * (greatest_fmi / variation) ** 2))

    def wald_test(self, contrasts: Any = None) -> dict[str, Any]:
        """Test that several estimates, or sums of them, are all zero.

        Parameters
        ----------
        contrasts : str, list of labels or ndarray of shape (n_contrasts, n_estimates), default=None
            The estimates by their labels in ``table``; or the coefficients of sums of estimates,
            linearly independent. None takes all estimates.

        Returns
        -------
        dict
            "statistic", "df" (of the numerator and of the denominator) and "pvalue" of the test D1
            of Li, Raghunathan and Rubin; see :func:`combine_estimates`.

        Raises
        ------
        ValueError
            If variances came without covariances, a label is unknown, or the contrasts depend on
            each other.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc.imputation import combine_estimates
        >>> estimates = [[1.0, 0.1], [1.2, 0.0], [1.1, -0.1]]
        >>> combined = combine_estimates(estimates, [0.04 * np.eye(2)] * 3)
        >>> round(combined.wald_test([1])["pvalue"], 2)
        1.0
        """
        if self.covariances is None:
            raise ValueError(
                "A joint test needs covariances of the estimates of each table; found variances "
                "alone. Pass matrices of shape (n_estimates, n_estimates)."
            )
        weights = self._contrasts(contrasts)
        within = (weights @ self.covariances @ weights.T).mean(axis=0)
        return _joint_test(self.estimates @ weights.T, within, self.df_complete)

    def _contrasts(self, contrasts: Any) -> Floats:
        """Coefficients of the sums of estimates, shape (n_contrasts, n_estimates)."""
        identity = np.eye(len(self.table))
        if contrasts is None:
            return identity
        contrasts = [contrasts] if isinstance(contrasts, str) else contrasts
        if isinstance(contrasts, list) and all(np.isscalar(label) for label in contrasts):
            labels = self.table.index
            unknown = [label for label in contrasts if label not in labels]
            if unknown or not contrasts:
                raise ValueError(
                    f"contrasts must be labels among {labels.tolist()}; found {contrasts!r}."
                )
            return identity[labels.get_indexer(contrasts)]
        weights = np.asarray(contrasts, dtype=np.float64)
        is_matrix = weights.ndim == 2 and weights.shape[1] == len(identity)
        if not is_matrix or np.linalg.matrix_rank(weights) < len(weights):
            raise ValueError(
                f"contrasts must be independent rows of {len(identity)} coefficients; found "
                f"{contrasts!r}."
            )
        return weights

    def conf_int(self, level: float = 0.95) -> Any:
        """Intervals of the estimates.

        Parameters
        ----------
        level : float, default=0.95
            Their coverage, between 0 and 1.

        Returns
        -------
        pandas DataFrame
            Columns "lower" and "upper", and a row for each estimate.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be a probability between 0 and 1, got {level!r}")
        forward, inverse, slope, *_ = _TRANSFORMS[self.transform]
        estimate = self.table["estimate"].to_numpy()
        # The slope brings standard errors to the transformed scale.
        error = self.table["std_error"].to_numpy() * slope(estimate)
        margin = stats.t.ppf(0.5 + 0.5 * level, self.table["df"].to_numpy()) * error
        ends = {
            "lower": inverse(forward(estimate) - margin),
            "upper": inverse(forward(estimate) + margin),
        }
        return type(self.table)(ends, index=self.table.index)

    def __str__(self) -> str:
        text = f"{self.n_tables} imputed tables\n{self.table.to_string()}"
        joint = self.joint
        if joint is None:
            return text
        statistic, df, pvalue = joint.values()
        return (
            f"{text}\nall zero: F({df[0]:g}, {df[1]:.4g}) = {statistic:.4g}, p-value {pvalue:.4g}"
        )


def combine_estimates(
    estimates: Any, variances: Any, df_complete: float | None = None, transform: str | None = None
) -> CombinedEstimates:
    """Combine estimates from imputed tables by Rubin's rules.

    The variance within tables and that between them give the standard error; the degrees of freedom
    are those of Barnard and Rubin [1]_. Several estimates with covariances are also tested together
    [2]_, with the degrees of freedom of Reiter [3]_ where ``df_complete`` is known.

    Parameters
    ----------
    estimates : array-like of shape (n_tables,) or (n_tables, n_estimates)
        A number or several from each table; a list of pandas Series keeps their labels.
    variances : array-like
        Of shape (n_tables,) or (n_tables, n_estimates): squared standard errors. Of shape
        (n_tables, n_estimates, n_estimates): covariances of the estimates.
    df_complete : float, default=None
        Degrees of freedom if no cell were missing: the number of rows less that of parameters.
        None takes them as infinite, so that intervals from few rows are too short.
    transform : {"fisher", "logit"}, default=None
        The scale to combine on, nearer to a normal distribution: "fisher" for correlations, "logit"
        for proportions. Variances stay those of the estimates as they are. None: no other scale.

    Returns
    -------
    CombinedEstimates

    Raises
    ------
    ValueError
        If there are fewer than two tables, shapes or labels do not fit, a number is not finite, a
        variance is not positive, or an estimate lies outside the range of the transform.

    See Also
    --------
    skpc.MultipleImputer : Draws the tables, and runs the analysis of each.

    References
    ----------
    .. [1] J. Barnard, D. B. Rubin. "Small-Sample Degrees of Freedom with Multiple Imputation".
           Biometrika 86(4), 1999.
    .. [2] K. H. Li, T. E. Raghunathan, D. B. Rubin. "Large-Sample Significance Levels from Multiply
           Imputed Data". Journal of the American Statistical Association 86(416), 1991.
    .. [3] J. P. Reiter. "Small-Sample Degrees of Freedom for Multi-Component Significance Tests
           with Multiple Imputation for Missing Data". Biometrika 94(2), 2007.

    Examples
    --------
    >>> from skpc.imputation import combine_estimates
    >>> means = combine_estimates([4.0, 5.0, 6.0], [0.5, 0.7, 0.6], df_complete=50)
    >>> means.table[["estimate", "std_error", "df"]].round(2)
       estimate  std_error    df
    0       5.0       1.39  3.28
    >>> means.conf_int().round(1)
       lower  upper
    0    0.8    9.2
    """
    import pandas as pd

    labels = _labels(estimates, variances)
    value, covariance, is_joint = _checked(estimates, variances, df_complete, transform)
    forward, inverse, slope, *_ = _TRANSFORMS[transform]
    n_tables = len(value)
    gradient = slope(value)
    # The delta method brings covariances, (n_tables, n_estimates, n_estimates), to this scale.
    covariance *= gradient[:, :, np.newaxis] * gradient[:, np.newaxis]
    value = forward(value)
    mean = value.mean(axis=0)
    within = covariance.mean(axis=0)
    # The mean of few estimates has a variance itself: 1 / n_tables of that between tables.
    between = (1.0 + 1.0 / n_tables) * value.var(axis=0, ddof=1)
    total = within.diagonal() + between
    df = _degrees_of_freedom(between / total, n_tables, df_complete)
    increase = between / within.diagonal()
    statistic = mean / np.sqrt(total)
    table = {
        "estimate": inverse(mean),
        "std_error": np.sqrt(total) / slope(inverse(mean)),
        "statistic": statistic,
        "df": df,
        "pvalue": 2.0 * stats.t.sf(np.abs(statistic), df),
        "fmi": (increase + 2.0 / (df + 3.0)) / (increase + 1.0),
    }
    frame = pd.DataFrame(table, index=labels)
    covariances = covariance if is_joint else None
    return CombinedEstimates(frame, n_tables, transform, value, covariances, df_complete)


def _labels(estimates: Any, variances: Any) -> Any:
    """The labels of the estimates, None without any; refuses tables with other labels or order."""
    estimate_axes = _axes(estimates)
    reference: Any = estimate_axes[0] if estimate_axes else None
    if reference is not None:
        # An axis of variances whose labels are other ones does not list the estimates.
        estimate_axes += [axis for axis in _axes(variances) if {*axis} == {*reference}]
    for labels in estimate_axes:
        if not labels.equals(reference):
            raise ValueError(
                "estimates and variances must have the same labels in the same order in all "
                f"tables; found {reference.tolist()} and {labels.tolist()}"
            )
    return reference


def _axes(given: Any) -> list[Any]:
    """The axes of the Series or DataFrame of each table; arrays have none."""
    tables = given if isinstance(given, list) else []
    return [axis for table in tables for axis in getattr(table, "axes", ())]


def _checked(
    estimates: Any, variances: Any, df_complete: Any, transform: Any
) -> tuple[Floats, Floats, bool]:
    """Estimates (n_tables, n_estimates), covariances, and whether covariances were given."""
    if transform not in _TRANSFORMS:
        raise ValueError(f'transform must be "fisher", "logit" or None, got {transform!r}')
    if df_complete is not None and not df_complete > 0.0:
        raise ValueError(f"df_complete must be positive or None, got {df_complete!r}")
    value = np.array(estimates, dtype=np.float64)
    covariance = np.array(variances, dtype=np.float64)
    if value.ndim not in (1, 2) or len(value) < 2:
        raise ValueError(
            "estimates must be a number or several from each of at least two imputed tables; found "
            f"shape {value.shape}. One table alone does not show what its missing cells cost."
        )
    is_joint = value.ndim == 2 and covariance.shape == (*value.shape, value.shape[1])
    if covariance.shape != value.shape and not is_joint:
        raise ValueError(
            "variances must have the shape of estimates, or hold a covariance matrix for each "
            f"table; found {covariance.shape} for estimates of shape {value.shape}"
        )
    value = value.reshape(len(value), -1)
    if not is_joint:
        # From here on, variances are diagonal matrices: (n_tables, n_estimates, n_estimates).
        covariance = covariance.reshape(value.shape)[:, :, np.newaxis] * np.eye(value.shape[1])
    if not (np.isfinite(value).all() and np.isfinite(covariance).all()):
        raise ValueError("estimates and variances must be finite; leave out what has no estimate")
    smallest = np.diagonal(covariance, axis1=1, axis2=2).min()
    if not smallest > 0.0:
        raise ValueError(f"variances must be positive, found {smallest:g}")
    # At the ends of its range a transform is infinite.
    *_, low, high = _TRANSFORMS[transform]
    outside = value[(value <= low) | (value >= high)]
    if len(outside):
        raise ValueError(
            f"transform={transform!r} needs estimates between {low:g} and {high:g}, found "
            f"{outside[0]:g}"
        )
    return value, covariance, is_joint


def _degrees_of_freedom(share: Floats, n_tables: int, df_complete: float | None) -> Floats:
    """Barnard-Rubin degrees of freedom of each estimate.

    ``share`` (n_estimates,) is the share of the variance that lies between the tables.
    """
    # Where tables do not differ, the degrees of freedom by tables are infinite.
    with np.errstate(divide="ignore"):
        inverse = share**2 / (n_tables - 1.0)
        if df_complete is not None and np.isfinite(df_complete):
            # The inverses of the degrees of freedom by tables and by rows are added.
            inverse = inverse + 1.0 / (
                (df_complete + 1.0) / (df_complete + 3.0) * df_complete * (1.0 - share)
            )
        return np.asarray(1.0 / inverse)


def _joint_test(value: Floats, within: Floats, df_complete: float | None) -> dict[str, Any]:
    """The test D1 of Li, Raghunathan and Rubin that all estimates are zero.

    ``value`` (n_tables, k) are the estimates, ``within`` (k, k) their mean covariances.
    """
    n_tables, k = value.shape
    mean = value.mean(axis=0)
    # `cov` returns a number for a single estimate.
    between = np.cov(value.T).reshape(k, k)
    # The test assumes that the relative increase in variance is the same in all directions.
    increase = (1.0 + 1.0 / n_tables) * np.trace(np.linalg.solve(within, between)) / k
    statistic = mean @ np.linalg.solve(within, mean) / (k * (1.0 + increase))
    df = _joint_df(float(increase), k, n_tables, df_complete)
    pvalue = float(stats.f.sf(statistic, k, df))
    return {"statistic": float(statistic), "df": (k, df), "pvalue": pvalue}


def _joint_df(increase: float, k: int, n_tables: int, df_complete: float | None) -> float:
    """Degrees of freedom of the denominator, from the relative increase in variance.

    With many rows those of Li, Raghunathan and Rubin (1991), else those of Reiter (2007).
    """
    df_between = k * (n_tables - 1.0)
    # Where tables do not differ, the test is that of complete rows.
    if increase == 0.0:
        return np.inf if df_complete is None else float(df_complete)
    # With few tables df_between - 4, which the formulas further down need, is not positive.
    if df_between <= 4.0:
        df_many_rows = 0.5 * df_between * (1.0 + 1.0 / k) * (1.0 + 1.0 / increase) ** 2
        return df_many_rows if df_complete is None else min(df_many_rows, df_complete)
    # From here on the names are those of Reiter's paper.
    a = increase * df_between / (df_between - 2.0)
    df_many_rows = 4.0 + (df_between - 4.0) * (1.0 + 1.0 / a) ** 2
    if df_complete is None or np.isinf(df_complete):
        return df_many_rows
    # The factor is that of Barnard and Rubin, for rows without missing cells.
    df_observed = (df_complete + 1.0) / (df_complete + 3.0) * df_complete
    c1 = df_observed - 2.0 * (1.0 + a)
    c2 = df_observed - 4.0 * (1.0 + a)
    if c2 <= 0.0:
        # Too few rows for Reiter's expansion.
        return min(df_many_rows, df_complete)
    terms = c1 / ((1.0 + a) ** 2 * c2) + 8.0 * c1 / ((1.0 + a) * c2**2) + 4.0 / ((1.0 + a) * c2)
    terms += 4.0 / (c1 * c2) + 16.0 * c1 / c2**3 + 8.0 / c2**2
    return 4.0 + 1.0 / (1.0 / c2 + a**2 * terms / (df_between - 4.0))
