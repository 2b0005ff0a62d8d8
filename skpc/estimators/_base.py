"""What densities of tables have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import DensityMixin, clone
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats, check_memory
from skpc._fitting import all_or_nothing, with_some_cell
from skpc._validation import (
    StrOptions,
    check_n_samples,
    check_table,
    check_weight,
    column_of,
    fit_context,
)
from skpc._warnings import warn
from skpc.densities import Density
from skpc.domain import Domain, group_rows, merge_rows, present_rows
from skpc.estimators._estimator import TableEstimator
from skpc.estimators.chunks import EncodedChunks, by_chunks, sampled
from skpc.variables import Predictive

#: Largest number of bins of a numeric column where the user does not give one.
_N_BINS = {"auto": 20, "plain": 10}
_STRATEGIES = ("mean", "mpe", "sample")
#: Rows whose posteriors are held at a time.
_ROWS = 1024


class TrainingData(NamedTuple):
    """What a density learns from.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Distinct encoded rows.
    weight : ndarray of shape (n_rows,)
        Their weights.
    rows_val : ndarray of shape (n_validation_rows, n_features) or None
        Encoded rows that make choices; None holds out some of the training rows.
    like : TableDensity or None
        A fitted density of the same kind, whose choices hold here too.
    is_compared : bool
        Whether the density will be compared with others under the same domain.
    """

    rows: Floats
    weight: Floats
    rows_val: Floats | None = None
    like: Any = None
    is_compared: bool = True


@dataclass(kw_only=True, eq=False, repr=False)
class TableDensity(DensityMixin, TableEstimator, ABC):
    """Density estimation on tables of numbers and categories.

    A subclass learns the distribution ``_density`` of encoded rows in :meth:`_learn`; the estimator
    takes all answers from it. An estimator made of densities encodes its rows once, and asks the
    ``_density`` of each.
    """

    categorical_features: Any = "auto"
    categories: Any = "auto"
    atoms: Any = "auto"
    bounds: Any = None
    handle_unknown: str = "unseen"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TableEstimator._parameter_constraints,
        "categorical_features": ["array-like", StrOptions({"auto", "from_dtype"}), None],
        "categories": [StrOptions({"auto"}), list],
        "margins": [StrOptions({"auto", "plain"})],
        "atoms": [StrOptions({"auto"}), dict],
        "bounds": [dict, None],
        "handle_unknown": [StrOptions({"unseen", "missing", "error"})],
    }

    #: Weight of the rows that have been learned from: partial_fit goes on from here.
    _n_learned: float = field(init=False)

    @property
    def _n_bins(self) -> int | None:
        """Largest number of bins of a numeric column; None where the learner needs no bins."""
        if not hasattr(self, "n_bins"):
            return None
        return self.n_bins or _N_BINS[self.margins]

    @property
    @abstractmethod
    def _density(self) -> Density:
        """The distribution of encoded rows."""

    @abstractmethod
    def _learn(self, data: TrainingData) -> None:
        """Learn from encoded rows under ``domain_``."""

    def _fit(self, X: Any, sample_weight: Any, X_val: Any = None) -> Self:
        with all_or_nothing(self):
            X, chunks = sampled(self, X, sample_weight)
            domain, rows, weight = self._prepare(X, sample_weight)
            if X_val is not None:
                X_val = domain.encode(check_table(self, X_val, reset=False))
            self._learn_rows(domain, TrainingData(rows, weight, X_val, is_compared=False))
            if chunks is not None:
                self._refit(EncodedChunks.from_table(chunks, self, domain), rows, weight)
        return self

    def _refit(self, chunks: EncodedChunks, rows: Floats, weight: Floats) -> None:
        """Learn the parameters from all rows of a table that comes in chunks.

        ``rows`` are the sample of it that the structure has been learned from. A subclass that can
        do nothing with the others keeps what the sample says.
        """
        n_rows = f"{weight.sum():,.0f} of the {chunks.n_rows:,.0f} rows that come in chunks"
        warn(f"{type(self).__name__} learns from a sample of {n_rows}.")

    def _prepare(self, X: Any, sample_weight: Any) -> tuple[Domain, Floats, Floats]:
        """Learn the domain; return it with the distinct encoded rows and their weights."""
        table, weight, _ = self._training_rows(X, sample_weight)
        domain = Domain.fit(
            table,
            categorical_features=self.categorical_features,
            categories=self.categories,
            n_bins=self._n_bins,
            margins=self.margins,
            atoms=self.atoms,
            bounds=self.bounds,
            sample_weight=weight,
            handle_unknown=self.handle_unknown,
        )
        return domain, *merge_rows(domain.encode(table), weight)

    def _learn_rows(self, domain: Domain, data: TrainingData) -> None:
        """Learn from checked rows; those without any cell that a learner sees are left out."""
        self.domain_, self.n_features_in_ = domain, domain.n_features
        names = domain.feature_names or ()
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._n_learned = float(data.weight.sum())
        rows, weight = with_some_cell(domain, *present_rows(data.rows, data.weight))
        self._learn(data._replace(rows=rows, weight=weight))

    def _learn_more(self, X: Any, sample_weight: Any) -> tuple[Floats, Floats]:
        """More rows of the columns that are known: distinct encoded rows and their weights."""
        table, weight, _ = self._training_rows(X, sample_weight, reset=False)
        rows, weight = merge_rows(self.domain_.encode_with_mass(table)[0], weight)
        rows, weight = with_some_cell(self.domain_, rows, weight)
        if not len(rows):
            raise ValueError(
                "Every value of X is missing, or a category that fit has not seen; learning needs "
                "at least one known value."
            )
        return rows, weight

    def _fit_again(self, domain: Domain, rows: Floats, weight: Floats) -> Self:
        """A clone that has learned from other rows, with what this one has chosen, if anything."""
        again = clone(self)
        again._learn_rows(domain, TrainingData(rows, weight, like=self))
        return again

    @fit_context(prefer_skip_nested_validation=False)
    def fit_rows(
        self, domain: Domain, rows: Floats, weight: Floats, rows_val: Floats | None = None
    ) -> Self:
        """Learn from encoded rows under a domain that is known: ``fit`` for composing estimators.

        Several densities can share one domain. The parameters that say what the columns are
        (``categorical_features``, ``categories``, ``n_bins``, ``margins`` and so on) do not matter.

        Parameters
        ----------
        domain : Domain
            What the columns are, with bins for the numeric ones (``n_bins``) where the learner
            needs these.
        rows : ndarray of shape (n_rows, n_features)
            Distinct encoded rows, as :func:`skpc.domain.merge_rows` returns them; NaN marks
            missing cells.
        weight : ndarray of shape (n_rows,)
            Their weights, not negative; a row of weight zero is absent.
        rows_val : ndarray of shape (n_validation_rows, n_features), default=None
            Encoded rows of weight one for early stopping, where the learner stops early. None holds
            out some of the training rows.

        Returns
        -------
        TableDensity
            The fitted estimator.

        Raises
        ------
        ValueError
            If rows and weights do not fit the domain or each other, a category is no code of a
            state, a number or a weight is not finite, or the domain lacks bins.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc import CutsetNetworkBD
        >>> from skpc.domain import Domain, merge_rows
        >>> X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0)
        >>> domain = Domain.fit(X, n_bins=10)
        >>> rows, weight = merge_rows(domain.encode(X), np.ones(100))
        >>> model = CutsetNetworkBD().fit_rows(domain, rows, weight)
        >>> model.predict_column([[1.0, np.nan]], 1)
        array([1.])
        """
        rows = domain.checked(rows)
        weight = check_weight(weight, len(rows), "weight")
        rows_val = None if rows_val is None else domain.checked(rows_val)
        with all_or_nothing(self):
            self._learn_rows(domain, TrainingData(rows, weight, rows_val))
        return self

    @by_chunks
    def score_samples(self, X: Any, given: Any = None) -> Floats:
        """Log density of each row, with missing cells integrated out.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        given : array-like, int or str, default=None
            Columns that are known: a name, a number, a list of them, or a boolean mask. The density
            is that of the other columns given these. None means that of all columns.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log densities in nats, with respect to the counting measure on categories and the
            Lebesgue measure on numbers. A row with every cell missing has 0. With
            ``handle_unknown="unseen"``, a category that was not seen adds the log probability of
            unseen categories (``domain_.unseen.mass``), with a warning.

        Raises
        ------
        ValueError
            If ``given`` names a column that is not there.
        """
        _, rows, mass = self._encode_with_mass(X)
        known = None if given is None else self.domain_.columns(given, "given")
        return mass.with_rows(self._density.log_density(rows, known), known)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log density of the rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the mean.

        Returns
        -------
        float
            Nats per row; greater is better.

        Raises
        ------
        ValueError
            If the weights are negative or all zero.
        """
        scores = np.asarray(self.score_samples(X))
        weight = check_weight(sample_weight, len(scores))
        # A row of weight zero is absent, also where its density is zero.
        return float(np.average(scores[weight > 0.0], weights=weight[weight > 0.0]))

    def sample(self, n_samples: int = 1, random_state: Any = None, given: Any = None) -> Any:
        """Draw rows from the fitted distribution.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same rows. ``None`` draws anew at each call; the estimator's
            own ``random_state`` is not used.
        given : dict, array-like, pandas Series or DataFrame of one row, default=None
            The known cells of the rows: a dict from columns (names or numbers) to values, or one
            row in which NaN (or None) marks the columns to draw. The rows drawn have these cells,
            and the others jointly given them. An unknown category counts as missing, and so do the
            columns that a dict, a Series or a DataFrame lacks. None draws all columns.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            Rows in original units, of categories that ``fit`` knew; complete except for a column
            that had no value there. A DataFrame with the original names and dtypes where the
            estimator was fitted on one.

        Raises
        ------
        ValueError
            If ``n_samples`` is negative, or ``given`` is not one row of the columns of ``fit``.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc import CutsetNetworkBD
        >>> X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0)
        >>> CutsetNetworkBD().fit(X).sample(2, random_state=0, given={0: 1.0})
        array([[1., 1.],
               [1., 1.]])
        """
        check_is_fitted(self, "domain_")
        n_samples, random_state = check_n_samples(n_samples), check_random_state(random_state)
        check_memory(
            float(n_samples) * self.n_features_in_,
            f"{n_samples:,} draws of {self.n_features_in_:,} columns",
            "Draw fewer rows at a time.",
        )
        if given is None:
            drawn = self._density.draw(n_samples, random_state)
        else:
            given = self.domain_.row(given)
            rows, _ = self.domain_.encode_with_mass(given)
            repeated = np.repeat(rows, n_samples, axis=0)
            drawn = self._density.draw_missing(repeated, random_state)
        return self.domain_.decode(self.domain_.name(drawn, random_state, given))

    def marginals(self, X: Any) -> list[Predictive]:
        """Posterior distribution of every cell given the observed cells of its row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        list of skpc.variables.Predictive
            One a column, with ``probabilities`` of the categories ``labels`` or of the bins between
            ``edges``, ``mean()``, ``quantile(level)``, ``cdf(x)`` and ``to_frame()``. An observed
            cell has probability one for its own state.

        Examples
        --------
        >>> from skpc import CutsetNetworkBD
        >>> X = [["sun", 30.0], ["rain", 12.0], ["sun", 28.0], ["rain", 11.0]] * 20
        >>> sky, warmth = CutsetNetworkBD().fit(X).marginals([[None, 29.0], ["rain", None]])
        >>> sky.labels, sky.probabilities.round(1)
        (array(['rain', 'sun'], dtype=object), array([[0., 1.],
               [1., 0.]]))
        >>> warmth.mean().round()
        array([29., 12.])
        """
        table, rows = self._encode(X)
        marginals = self._density.posteriors(rows)
        for cells in marginals:
            cells.index = getattr(table, "index", None)
        return marginals

    @by_chunks
    def complete(self, X: Any, strategy: str = "mean", random_state: Any = None) -> Any:
        """Fill the missing cells of each row given its observed ones, which stay as they are.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        strategy : {"mean", "mpe", "sample"}, default="mean"
            "mean": the posterior mean of a number and the most probable state of a category, each
            cell by itself. "mpe": the jointly most probable completion; with numeric columns it
            depends on their units. "sample": one joint draw a row.
        random_state : int, RandomState instance or None, default=None
            Used by "sample": the same seed gives the same cells, ``None`` draws anew at each call.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            The rows in original units, of the same kind as ``X``. A column that has no value in
            ``fit``, or names the rows, keeps its missing cells.

        Raises
        ------
        ValueError
            If the strategy is not one of the three.
        """
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy must be one of {_STRATEGIES}, got {strategy!r}")
        table, rows = self._encode(X)
        if strategy == "mean":
            filled = self._density.means(rows)
        elif strategy == "mpe":
            filled = self._density.modes(rows)
        else:
            filled = self._density.draw_missing(rows, check_random_state(random_state))
        return self.domain_.fill(table, filled)

    @by_chunks
    def score_cells(self, X: Any) -> Any:
        """Log density of each cell given all other observed cells of its row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            ``log p(x_j | the rest)`` in nats; missing where the cell is missing or holds an unknown
            category, unless this counts as in :meth:`score_samples`. A DataFrame has float columns
            and the names and index of ``X``. A low score means an odd cell: among categories, the
            lowest cell of a row is the oddest. The density of a number depends on its unit: compare
            it within its column, for example by its distance from the column's median score.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc import CutsetNetworkBD
        >>> X = np.repeat([[0, 0, 0], [1, 1, 1]], 50, axis=0)
        >>> CutsetNetworkBD().fit(X).score_cells([[1, 0, 1]]).argmin(axis=1)
        array([1])
        """
        table, rows, mass = self._encode_with_mass(X)
        return self.domain_.tabulate(mass.with_cells(self._density.log_cells(rows)), like=table)

    @by_chunks
    def interval(self, X: Any, level: float = 0.9) -> tuple[Any, Any]:
        """Bounds between which each missing number lies, given the observed cells of its row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        level : float, default=0.9
            Probability that a number lies between its bounds. The rest is divided evenly: half of
            it lies below the bounds, half of it above.

        Returns
        -------
        lower, upper : ndarray or DataFrame of shape (n_samples, n_features)
            Tables of the kind of ``X``, in original units. Observed cells stay as they are. A
            missing category is missing in both, since categories have no order.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc import SoftLearnSPN
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> SoftLearnSPN().fit(X).interval([[np.nan]])
        (array([[-1.6...]]), array([[1.5...]]))
        """
        if not isinstance(level, Real) or not 0.0 < level < 1.0:
            raise ValueError(f"level must be a probability strictly between 0 and 1, got {level!r}")
        table, rows = self._encode(X)
        rows, group = group_rows(rows)
        lower, upper = rows.copy(), rows.copy()
        numbers = np.flatnonzero(~self.domain_.is_categorical)
        for part in gen_batches(len(rows), _ROWS):
            for column, cells in zip(numbers, self._density.posteriors(rows[part], numbers)):
                lower[part, column] = cells.quantile(0.5 - 0.5 * level)
                upper[part, column] = cells.quantile(0.5 + 0.5 * level)
        return self.domain_.fill(table, lower[group]), self.domain_.fill(table, upper[group])

    @by_chunks
    def predict_column(self, X: Any, column: Any) -> Any:
        """Predict one column from the others; its own cells are not looked at.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A DataFrame may lack the column altogether.
        column : int or str
            Number or name of the column.

        Returns
        -------
        ndarray or Series of shape (n_samples,)
            The posterior mean of a number, or the most probable category; a Series with the dtype
            of the column where ``X`` is a DataFrame.

        Raises
        ------
        ValueError
            If the column does not exist.

        Examples
        --------
        >>> from skpc import CutsetNetworkBD
        >>> X = [["sun", 30.0], ["rain", 12.0], ["sun", 28.0], ["rain", 11.0]] * 20
        >>> CutsetNetworkBD().fit(X).predict_column([[None, 29.0], [None, 10.0]], 0)
        array(['sun', 'rain'], dtype=object)
        """
        check_is_fitted(self, "domain_")
        chosen = int(self.domain_.columns([column], "column")[0])
        table, rows = self._encode(self.domain_.with_column(X, chosen))
        hidden = rows.copy()
        hidden[:, chosen] = np.nan
        hidden[:, chosen] = self._density.means(hidden, [chosen])[:, chosen]
        cells = column_of(self.domain_.decode(hidden, like=table), chosen)
        if not isinstance(cells, np.ndarray):
            return cells
        states = self.domain_.categories[chosen]
        return cells.astype(np.float64 if states is None else states.dtype)
