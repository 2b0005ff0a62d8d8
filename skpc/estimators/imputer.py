"""Filling the missing cells of a table by a density."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.impute import MissingIndicator
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._fitting import all_or_nothing
from skpc._threads import threads
from skpc._validation import (
    KINDS_OF_DATES,
    StrOptions,
    check_table,
    column_of,
    fit_context,
    frame_library,
    join_columns,
    kinds_of_cells,
    missing_cells,
    objects_of,
    output_library,
    read_cells,
)
from skpc.estimators._base import CircuitDensity
from skpc.estimators._estimator import TableEstimator, parameter
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.table_mixture import TableMixture
from skpc.pooling.folds import column_variances, explained_variance, fit_best

#: By how much another density has to be better than a cutset network, whose answers are faster: as
#: a proportion of the variance of removed cells.
_WORTH = 0.005


@dataclass(kw_only=True, eq=False, repr=False)
class CircuitImputer(OneToOneFeatureMixin, TransformerMixin, TableEstimator):
    """Fill missing cells by what a density says of them, given the observed cells of their row.

    Numbers, categories, strings and bools are filled alike, and observed cells stay exactly as
    they are. Rows with missing cells are used in ``fit`` too. Cells stay missing only in a column
    of strings that names the rows; ``fit`` warns of it.

    Parameters
    ----------
    density : density estimator, default=None
        The model of the rows; anything with ``fit`` and ``complete``, such as
        :class:`CutsetNetworkBD`. It is cloned, and keeps its own ``random_state``. None means a
        cutset network or, where there are numbers, :class:`TableMixture` if that explains more of
        the removed cells of held-out rows (see Notes); pass one to tune its parameters in a grid
        search (as ``density__n_components``).
    strategy : {"mean", "mpe", "sample"}, default="mean"
        What to fill in. "mean": the posterior mean of a number, the most probable state of a
        category, each cell by itself. "mpe": the jointly most probable cells of a row. "sample":
        one joint draw from the posterior for each row.
    keep_empty_features : bool, default=False
        Whether :meth:`transform` keeps a column without any value in ``fit``, with 0 for its
        missing cells. Otherwise it leaves the column out.
    add_indicator : bool, default=False
        Whether to append a column for each column that had missing cells in ``fit``, which says
        whether the cell was missing.
    random_state : int, RandomState instance or None, default=None
        Seeds the draws of "sample", anew at each call of ``transform``: the same seed fills the
        same table alike, another seed fills it another time. Seeds the default density too.
    n_jobs : int, default=None
        Number of threads of ``fit`` and ``transform``: for densities that are compared, what each
        of them does in threads, and parts of the rows. A ``density`` that has ``n_jobs`` learns
        with its own. None means 1 unless in a ``joblib.parallel_config`` context, and -1 all cores.
        The result is the same.
    verbose : int, default=0
        With 1, progress bars of the default densities (a line at the end of each where tqdm is not
        installed). A density that is given has a ``verbose`` of its own.

    Attributes
    ----------
    density_ : density estimator
        The fitted density.
    indicator_ : MissingIndicator or None
        The indicator of missing cells; None without ``add_indicator``.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    CutsetNetworkBD : The default density of categories; its ``complete`` does the work.
    TableMixture : The other default density, of tables with numbers.
    sklearn.impute.SimpleImputer : Fills each column by one value.

    Notes
    -----
    Which strategy depends on what the completed table is for.

    - "mean" is the best single guess of each cell: it has the least expected squared error for a
      number, and the least expected error rate for a category. Completed columns spread less than
      true ones, and cells of one row need not go together.
    - "mpe" makes the cells of a row go together. With numbers missing it depends on their units,
      since it prefers narrow bins.
    - "sample" keeps the distribution of the table: spread, quantiles, dependence. Cell by cell it
      is farther off than "mean". Several tables drawn with different seeds, analysed one by one,
      show what the missing cells cost (multiple imputation). Seeds can be changed after ``fit``, by
      ``set_params``.

    Without a ``density``, a cutset network and, where there are numbers, a :class:`TableMixture`
    learn from 80 % of the rows and complete 30 % of the cells of the others. The mixture is taken
    if it explains more of the variance of these cells, by at least 0.5 % of it. Means explain
    numbers, and probabilities explain the indicators of categories.

    The imputer assumes that cells are missing at random: given the observed cells, it does not
    matter which cells are missing.

    As other transformers do, it returns arrays unless ``set_output`` (or scikit-learn's
    configuration) asks for DataFrames: float64 where every column holds numbers or bools,
    dates where every column does, else object. DataFrames keep the dtypes of ``X`` if they are of
    the same library.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skpc import CircuitImputer
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.choice(["bike", "car"], 500)
    >>> speed = np.where(kind == "car", 36.0, 18.0) + 6 * rng.normal(size=500)
    >>> X = pd.DataFrame({"kind": kind, "speed": speed})
    >>> imputer = CircuitImputer().set_output(transform="pandas").fit(X)
    >>> imputer.transform(pd.DataFrame({"kind": [None, "car"], "speed": [15.0, None]})).round()
       kind  speed
    0  bike   15.0
    1   car   35.0
    """

    density: Any = field(default=None, kw_only=False)
    strategy: str = parameter("mean", StrOptions({"mean", "mpe", "sample"}))
    keep_empty_features: bool = parameter(False, "boolean")
    add_indicator: bool = parameter(False, "boolean")

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CircuitImputer:
        """Fit the density.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        CircuitImputer
            The fitted imputer.

        Raises
        ------
        TypeError
            If the density has no method ``complete``.
        ValueError
            If the density refuses the table: no value at all, an infinite cell, bad weights.
        """
        with all_or_nothing(self), threads(self.n_jobs):
            density = self.density
            if density is not None and not hasattr(density, "complete"):
                raise TypeError(
                    "The density of CircuitImputer needs a method complete; found "
                    f"{density!r}, which has none. Give one that has, such as CutsetNetworkBD()."
                )
            table, weight, _ = self._training_rows(X, sample_weight)
            if density is None:
                self.density_ = self._fit_default(table, weight)
            else:
                self.density_ = clone(density).fit(table, sample_weight=weight)
            self.indicator_, missing = None, _missing(table)
            self._is_empty = np.isnan(missing).all(axis=0)
            if self.add_indicator:
                self.indicator_ = MissingIndicator(error_on_new=False).fit(missing)
        return self

    def transform(self, X: Any) -> Any:
        """Fill the missing cells.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A row may lack all of them.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features_out)
            The completed rows, and behind them the columns of the indicator if there is one: 0
            and 1 in an array of numbers, bools elsewhere.
        """
        check_is_fitted(self)
        table = check_table(self, X, reset=False)
        with threads(self.n_jobs):
            filled = self.density_.complete(
                table, strategy=self.strategy, random_state=self.random_state
            )
        kept = np.flatnonzero(~self._is_empty | self.keep_empty_features)
        columns = [column_of(filled, column) for column in kept.tolist()]
        library = output_library(self)
        is_other = frame_library(filled) != library
        for position, is_empty in enumerate(self._is_empty[kept]):
            if is_empty or is_other:
                columns[position] = _as_array(columns[position], 0.0 if is_empty else None)
        if self.indicator_ is not None:
            columns += [*self.indicator_.transform(_missing(table)).T]
        if library is not None:
            return join_columns(columns, library, like=None if is_other else filled)
        kinds = {column.dtype.kind for column in columns}
        if kinds & {"M", "m"} and len(kinds) > 1:
            # Not by astype, which makes numbers of nanoseconds.
            columns = [np.array([*column], dtype=object) for column in columns]
        elif not kinds & {"M", "m"}:
            dtype = object if "O" in kinds else np.float64
            columns = [column.astype(dtype) for column in columns]
        return np.column_stack(columns)

    def _fit_default(self, table: Any, weight: Floats) -> CircuitDensity:
        """Fit a cutset network, or a TableMixture where that completes removed cells better."""
        shared = {"random_state": self.random_state, "verbose": self.verbose}
        candidates: list[CircuitDensity] = [CutsetNetworkBD(**shared)]
        domain, rows, weight = candidates[0]._prepare(table, weight)
        if not domain.is_categorical.all():
            candidates.append(TableMixture(**shared))
        score = explained_variance(column_variances(domain, rows, weight))
        return fit_best(candidates, domain, rows, weight, self.random_state, score, _WORTH)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that ``transform`` returns.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of ``X``; None means ``feature_names_in_``, or x0, x1, ... where
            ``X`` had no names.

        Returns
        -------
        ndarray of str objects
            The names of the columns of ``X`` that are kept, and ``missingindicator_`` before those
            that the indicator covers.
        """
        names = super().get_feature_names_out(input_features)
        kept = names if self.keep_empty_features else names[~self._is_empty]
        if self.indicator_ is None:
            return kept
        return np.concatenate([kept, self.indicator_.get_feature_names_out(names)])


def _missing(table: Any) -> np.ndarray:
    """NaN where a cell is missing, zero elsewhere: a table that MissingIndicator can read."""
    columns = [column_of(table, column) for column in range(table.shape[1])]
    cells = [c if isinstance(c, np.ndarray) else objects_of(c) for c in columns]
    return np.column_stack([np.where(missing_cells(column), np.nan, 0.0) for column in cells])


def _as_array(column: Any, empty: Any) -> np.ndarray:
    """The cells of a column as numbers, bools, or objects for strings; what missing ones become."""
    cells = np.asarray(column)
    if cells.dtype.kind not in "OU":
        is_kept = empty is None or cells.dtype.kind in "mM"
        return cells if is_kept else np.where(np.isnan(cells), empty, cells)
    cells = cells.astype(object)
    cells[missing_cells(cells)] = empty
    kinds = {isinstance(cell, str) for cell in cells.tolist()}
    if len(kinds) > 1 or kinds_of_cells(cells.tolist()) & KINDS_OF_DATES:
        return cells
    values, is_bool = read_cells(cells, 0)
    return values.astype(bool) if is_bool else values
