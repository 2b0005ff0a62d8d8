"""Filling the missing cells of a table by a density."""

from dataclasses import field
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.impute import MissingIndicator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._cells import missing_in, with_cells_of, without_cells
from skpc._fitting import all_or_nothing, with_some_cell
from skpc._threads import in_threads, threads
from skpc._validation import (
    KINDS_OF_DATES,
    StrOptions,
    as_precise,
    check_table,
    column_of,
    fit_context,
    frame_library,
    join_columns,
    kinds_of_cells,
    missing_cells,
    read_cells,
)
from skpc.domain import canonical_order
from skpc.domain.stated import holds_ranges
from skpc.estimators._answers import by_chunks
from skpc.estimators._base import CircuitDensity
from skpc.estimators._estimator import TableEstimator, TableTransformer, parameter
from skpc.estimators._fillers import LinearFiller
from skpc.estimators.cell_errors import CellErrorDetector
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.hidden_chow_liu import HiddenChowLiuTree
from skpc.estimators.stacked_density import StackedDensity
from skpc.estimators.table_mixture import TableMixture
from skpc.learning.simplex import mean_weights
from skpc.pooling.choice import column_variances, fit_to_parts, prediction_errors
from skpc.pooling.mixture import RowPool

#: Kinds of columns, each of which has densities weighed for it.
_KINDS = ("numbers", "categories")


class CircuitImputer(TableTransformer, TableEstimator):
    """Fill missing cells by what a density says of them, given the observed cells of their row.

    Numbers, categories, strings and bools are filled alike, and observed cells stay exactly as
    they are. Rows with missing cells are used in ``fit`` too. Cells stay missing only in a column
    of strings that names the rows; ``fit`` warns of it.

    Parameters
    ----------
    density : density estimator, default=None
        The model of the rows; anything with ``fit`` and ``complete``, such as
        :class:`CutsetNetworkBD`. It is cloned, and keeps its own ``random_state``. None weighs
        several densities, and linear regressions, by removed cells of held-out rows, for numbers
        and for categories apart (see Notes); pass one to tune its parameters in a grid search (as
        ``density__n_components``).
    strategy : {"mean", "mpe", "sample"}, default="mean"
        What to fill in. "mean": the posterior mean of a number, the most probable state of a
        category, each cell by itself; ``densities_`` fills. "mpe": the jointly most probable cells
        of a row. "sample": one joint draw from the posterior for each row. For these two
        ``density_`` fills.
    keep_empty_features : bool, default=False
        Whether :meth:`transform` keeps a column without any value in ``fit``, with 0 for its
        missing cells. Otherwise it leaves the column out.
    add_indicator : bool, default=False
        Whether to append a column for each column that had missing cells in ``fit``, which says
        whether the cell was missing.
    robust : bool, default=False
        Whether observed cells may be wrong: a :class:`CellErrorDetector` with the same density
        finds them, and those that are rather wrong than right count as missing, in ``fit`` and as
        evidence in ``transform``. They stay in the completed table as they are.
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
        The fitted density of whole rows: that of draws, of "mpe", and to ask for intervals. It is
        the ``density`` that was given, or the default mixture of densities.
    densities_ : dict
        What fills numbers and categories for "mean": ``"numbers"`` and ``"categories"``. Both are
        ``density_`` where a ``density`` was given, or rows are too few to hold any out, and one of
        them where the table has no column of its kind. Otherwise they are a
        :class:`StackedDensity` whose members have the same weights in each row, or one member. Ask
        it about cells one by one (``complete``, ``marginals``): its rows are no joint draws, and
        linear regressions, the members ``LinearFiller``, have no density of rows at all. Its
        ``scores_`` are the proportions of the variance of removed cells that its members explain,
        and last all of them together.
    indicator_ : MissingIndicator or None
        The indicator of missing cells; None without ``add_indicator``.
    detector_ : CellErrorDetector or None
        What finds wrong cells; None unless ``robust``.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    StackedDensity : What the default densities are, weighed by the likelihood of rows.
    TableMixture : A density of numbers and categories that is fast to learn again.
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
      show what the missing cells cost (multiple imputation [1]_). Seeds can be changed after
      ``fit``, by ``set_params``.

    Without a ``density``, :class:`CutsetNetworkBD`, :class:`HiddenChowLiuTree` and, where there are
    numbers, :class:`TableMixture` learn from 80 % of the rows and predict 30 % of the cells of the
    others. So do linear regressions of each column on the observed cells of the row, which follow
    from one covariance of numbers and indicators of categories, learned by EM; they are there
    twice, shrunk little and more. What "mean" fills in are the predictions of all of them mixed by
    weights with the least squared error of these cells, one set of weights for numbers (posterior
    means) and one for categories (posterior probabilities). Such cells do not come from one joint
    distribution. All that needs one (draws, "mpe", intervals) has ``density_``: the mixture of the
    densities with the greatest likelihood of the rows held out.

    Up to 1,000 distinct rows, five parts are held out one after another, so that all rows have a
    say in the weights, and then all learn from all rows. Of more rows one part is held out, which
    the densities then take by a step of EM, and the mixture makes its choices on 600 rows. With
    fewer than ten distinct rows the cutset network is taken. Regressions are left out where
    categories have more than 300 states together.

    The imputer assumes that cells are missing at random: given the observed cells, it does not
    matter which cells are missing.

    As other transformers do, it returns arrays unless ``set_output`` (or scikit-learn's
    configuration) asks for DataFrames: float64 where every column holds numbers or bools,
    dates where every column does, else object. DataFrames keep the dtypes of ``X`` if they are of
    the same library.

    References
    ----------
    .. [1] R. Little, D. Rubin. "Statistical Analysis with Missing Data". Third edition,
       Wiley, 2019.

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
    >>> imputer.transform(
    ...     pd.DataFrame({"kind": [None, "car"], "speed": [15.0, None]})
    ... ).round()
       kind  speed
    0  bike   15.0
    1   car   35.0
    """

    density: Any = field(default=None, kw_only=False)
    strategy: str = parameter("mean", StrOptions({"mean", "mpe", "sample"}))
    keep_empty_features: bool = parameter(False, "boolean")
    add_indicator: bool = parameter(False, "boolean")
    robust: bool = parameter(False, "boolean")

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
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
            self.indicator_ = None
            # Wrong cells are no gaps: which cells are missing is settled before they are found.
            missing = _indicated(table)
            self._is_empty = np.asarray(np.isnan(missing).all(axis=0))
            self.detector_ = None
            if self.robust:
                detector = CellErrorDetector(density, random_state=self.random_state)
                self.detector_ = detector.fit(table, sample_weight=weight)
            table = self._trusted(table)
            if density is None and holds_ranges(table):
                # Held-out cells that are ranges have no errors by which densities could be mixed.
                seeded = {"random_state": self.random_state}
                members = [
                    ("cutset", CutsetNetworkBD(**seeded)),
                    ("hidden", HiddenChowLiuTree(**seeded)),
                    ("mixture", TableMixture(**seeded)),
                ]
                density = StackedDensity(members, **seeded)
            if density is None:
                self.density_, density_of_kind, filler = self._fit_default(table, weight)
            else:
                self.density_ = clone(density).fit(table, sample_weight=weight)
                density_of_kind = {}
                filler = self.density_
            # A kind that was not weighed by itself is filled by the density of rows.
            self.densities_ = dict.fromkeys(_KINDS, self.density_) | density_of_kind
            #: What "mean" fills cells of both kinds by.
            self._filler: Any = filler
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
            filled = self._complete(self._trusted(table))
        # Cells that were taken for wrong are no evidence, but stay in the table.
        if self.detector_ is not None:
            filled = with_cells_of(table, missing_in(table), filled)
        filled = as_precise(filled, X)
        kept_columns = np.flatnonzero(~self._is_empty | self.keep_empty_features)
        columns = [column_of(filled, column) for column in kept_columns.tolist()]
        library = self._output
        is_other = frame_library(filled) != library
        for position, is_empty in enumerate(self._is_empty[kept_columns]):
            # No density fills an empty column; arrays fit into frames of any library.
            if is_empty or is_other:
                columns[position] = _as_array(columns[position], 0.0 if is_empty else None)
        if self.indicator_ is not None:
            columns += [*self.indicator_.transform(_indicated(table)).T]
        if library is not None:
            return join_columns(columns, library, like=None if is_other else filled)
        # Dates have no dtype in common with anything else.
        kinds = {column.dtype.kind for column in columns}
        if kinds & {"M", "m"} and len(kinds) > 1:
            # Not by astype, which makes numbers of nanoseconds.
            columns = [np.array([*column], dtype=object) for column in columns]
        elif not kinds & {"M", "m"}:
            common = np.result_type(*columns)
            dtype = common if common in (np.float32, object) else np.float64
            columns = [column.astype(dtype) for column in columns]
        return np.column_stack(columns)

    def _trusted(self, table: Any) -> Any:
        """The table without cells that are rather wrong than right."""
        if self.detector_ is None:
            return table
        return without_cells(table, np.asarray(self.detector_.predict_proba(table)) > 0.5)

    @by_chunks
    def _complete(self, X: Any) -> Any:
        """Fill the missing cells: means by the densities of kinds, all else by that of rows."""
        density = self._filler if self.strategy == "mean" else self.density_
        return density.complete(X, strategy=self.strategy, random_state=self.random_state)

    def _fit_default(self, table: Any, weight: Floats) -> tuple[Any, dict[str, Any], Any]:
        """A density of rows, weighed by rows held out; those of kinds, by their removed cells.

        The last one returned fills the cells of both kinds.
        """
        # Parts that are held out one after another, and how often their rows are asked about, each
        # time with other cells removed: where distinct rows are at most so many, and else.
        small_until = 1_000
        small = (5, 5)
        large = (1, 2)
        # Rows of large tables by which a mixture makes its choices, and as many that judge them.
        choosing = 300
        # Of fewer distinct rows none are held out.
        fewest = 10
        # Rows without correlations, for each column, that linear regressions add to those of the
        # table.
        strengths = 0.03, 1.0
        seeded = {"random_state": self.random_state, "verbose": self.verbose}
        members: list[Any] = [CutsetNetworkBD(**seeded), HiddenChowLiuTree(**seeded)]
        # All members share one domain, with the bins that cutset networks want.
        domain, *prepared = members[0].prepare(table, weight)
        distinct = with_some_cell(domain, *prepared)
        order = canonical_order(*distinct, domain.is_categorical)
        rows, weight = order.arranged(*distinct)
        data = domain, rows, weight
        if len(rows) < fewest:
            single = members[0].fit_rows(*data)
            return single, {}, single
        random_state = check_random_state(self.random_state)
        seed = random_state.randint(np.iinfo(np.int32).max)
        n_parts, n_masks = large if len(rows) > small_until else small
        if not domain.is_categorical.all():
            members.append(TableMixture(**seeded))
            if len(rows) > small_until:
                # Its choices take most of the time, and more rows would hardly change them.
                order = random_state.permutation(len(rows))
                learned_rows = order[:choosing]
                choice_rows = order[choosing : 2 * choosing]
                # A fitted member keeps its choices whenever it learns again below.
                members[-1].fit_rows(
                    domain, rows[learned_rows], weight[learned_rows], rows[choice_rows]
                )
        # Linear regressions come after these: they have no density of rows.
        n_joint = len(members)
        n_columns = domain.n_states[domain.is_categorical].sum()
        # Columns of indicators that linear regressions have, at most.
        most_columns = 300
        if n_columns <= most_columns:
            members += [LinearFiller(strength=strength) for strength in strengths]
        parts = fit_to_parts(members, data, seed, n_masks, n_parts)
        # For each part, shape (n_held_rows, n_joint).
        log_density = [
            np.column_stack([density.row_density.log_density(held) for density in fitted[:n_joint]])
            for fitted, (held, *_) in parts
        ]
        test_weight = np.concatenate([test_data[1] for _, test_data in parts])
        choices = {"rows": RowPool.weigh(np.concatenate(log_density), test_weight)[:2]}
        variance = column_variances(*data)
        is_categorical = domain.is_categorical
        # For each part and member, those of numbers and those of categories.
        errors = [
            [
                prediction_errors(m.row_density, *_rows_with_cells(held), variance, is_categorical)
                for m in fitted
            ]
            for fitted, held in parts
        ]
        for place, kind in enumerate(_KINDS):
            # Columns that do not vary have no errors to weigh members by.
            if (variance[is_categorical == place] > 0.0).any():
                of_kind = [
                    np.column_stack([of_member[place] for of_member in of_part])
                    for of_part in errors
                ]
                # The squares of a part sum to a proportion; the mean over parts is wanted.
                choices[kind] = mean_weights(np.concatenate(of_kind) / np.sqrt(len(parts)))
        # Each part refits the members of the one before: the last have the choices of all.
        learned = in_threads(partial(_learned, data, parts), parts[-1][0])
        # Weights of rows are those of the joint densities, which come first.
        density = StackedDensity.composed(learned[:n_joint], *choices.pop("rows"))
        each_column = np.ones((domain.n_features, 1))
        density_of_kind = {
            kind: StackedDensity.composed(learned, weights, scores, each_column * weights)
            for kind, (weights, scores) in choices.items()
        }
        filler = [density, *density_of_kind.values()][-1]
        if len(choices) > 1:
            # Both kinds in one stack, which asks each member once about all cells.
            weights, scores = (np.mean(of_kinds, axis=0) for of_kinds in zip(*choices.values()))
            cell_weights = np.array([choices[kind][0] for kind in _KINDS])
            filler = StackedDensity.composed(
                learned, weights, scores, cell_weights[is_categorical.astype(np.int64)]
            )
        return density, density_of_kind, filler

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
        kept_names = names if self.keep_empty_features else names[~self._is_empty]
        if self.indicator_ is None:
            return kept_names
        return np.concatenate([kept_names, self.indicator_.get_feature_names_out(names)])


def _rows_with_cells(held: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats, Floats]:
    """Held-out rows of which some cell is left, if any: of the others all members know as little.

    Errors that all share would make a member that is right weigh little more than the others.
    """
    rows, weight, left = held
    has_cell = ~np.isnan(left).all(axis=1)
    return (rows[has_cell], weight[has_cell], left[has_cell]) if has_cell.any() else held


def _learned(data: Any, parts: Any, density: Any) -> Any:
    """A density of all rows, from one that has been fitted to parts of them."""
    (_, (held, weight, _)), *other_parts = parts
    if other_parts or not isinstance(density, CircuitDensity):
        return density.refit(*data)
    # Of many rows, to learn the structure again would take as long as before.
    density.take_step(held, weight)
    return density


def _indicated(table: Any) -> Floats:
    """NaN where a cell is missing, zero elsewhere: a table that MissingIndicator can read."""
    return np.where(missing_in(table), np.nan, 0.0)


def _as_array(column: Any, empty: Any) -> np.ndarray:
    """The cells of a column as numbers, bools, or objects for strings; what missing ones become."""
    cells = np.asarray(column)
    if cells.dtype.kind not in "OU":
        # Missing dates stay what they are: no number stands for them.
        is_kept = empty is None or cells.dtype.kind in "mM"
        return cells if is_kept else np.where(np.isnan(cells), empty, cells)
    cells = cells.astype(object)
    cells[missing_cells(cells)] = empty
    kinds = {isinstance(cell, str) for cell in cells.tolist()}
    # Strings beside other things, and dates, stay objects.
    if len(kinds) > 1 or kinds_of_cells(cells.tolist()) & KINDS_OF_DATES:
        return cells
    values, is_bool = read_cells(cells, 0)
    return values.astype(bool) if is_bool else values
