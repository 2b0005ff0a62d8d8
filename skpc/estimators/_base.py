"""What densities of tables answer, and those that are circuits."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats, Ints, check_memory
from skpc._cells import ScoredRows, without_cells
from skpc._fitting import Rows, Stop, all_or_nothing, learn
from skpc._threads import slices
from skpc._validation import check_n_samples, check_option, column_of, fit_context
from skpc.circuit import Circuit
from skpc.densities import CircuitAnswers, Density
from skpc.domain import LogMass, read_events, tabulate
from skpc.domain.given import as_given_row, encode_given, restore_given_numbers, table_with_column
from skpc.estimators._answers import by_chunks
from skpc.estimators._events import EventAnswers, of_face
from skpc.estimators._learner import TableLearner, TrainingData
from skpc.estimators._ranges import merged_events
from skpc.estimators._table_chunks import EncodedChunks
from skpc.learning.posterior import bootstrapped
from skpc.queries import Events, PseudoCounts
from skpc.queries.flows import pseudo_counts_from
from skpc.queries.parameters import ParametrisedCircuit, em_step, fit_to_rows
from skpc.queries.passes.upward import refuse_impossible
from skpc.variables import Predictive
from skpc.variables.predictive import Marginals

_STRATEGIES = ("mean", "mpe", "sample")
#: Rows whose posteriors are held at a time.
_ROWS = 1024
#: Rows distributed like the sample that their pseudo-counts stand for.
LIKE_SAMPLE = 10.0
#: EM on other weights of the rows: few steps would leave out the uncertainty of what is missing.
REWEIGHTED = Stop(300, 1e-6)


class TableDensity(EventAnswers, ScoredRows, TableLearner):
    """Density estimation on tables of numbers and categories.

    A subclass learns the distribution ``_density`` of encoded rows, from which all answers come. An
    estimator made of densities encodes its rows once, and asks the ``row_density`` of each.
    """

    @property
    def row_density(self) -> Density:
        """The distribution of encoded rows, for estimators that are made of densities."""
        return self._density

    def encode(self, X: Any) -> tuple[Any, Floats]:
        """The checked table, and its encoded rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        table : ndarray or DataFrame of shape (n_samples, n_features)
        rows : ndarray of shape (n_samples, n_features)
            What ``row_density`` reads.
        """
        return self._encode(X)

    def encode_events(self, X: Any) -> tuple[Any, Events]:
        """The same for a table that may have ranges and sets."""
        return self._events(X, is_scored=False)[:2]

    @property
    @abstractmethod
    def _density(self) -> Density:
        """The distribution of encoded rows."""

    @by_chunks
    def score_samples(self, X: Any, given: Any = None) -> Floats:
        """Log density of each row, with missing cells integrated out.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A cell may be a range ``(low, high)``, a
            ``pandas.Interval`` or a set: it counts with its probability.
        given : array-like, int or str, default=None
            Columns that are known: a name, a number, a list of them, or a boolean mask. The density
            is that of the other columns given these. None means that of all columns.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log densities in nats, with respect to the counting measure on categories and the
            Lebesgue measure on numbers. A row with every cell missing has 0. With
            ``handle_unknown="unseen"``, a category that was not seen adds the log probability of
            unseen categories (``domain_[j].unseen``), and a warning names it. A number that is
            none of the ordered states of its column adds its log density among all such numbers.

        Raises
        ------
        ValueError
            If ``given`` names a column that is not there.
        """
        _, events, mass = self._events(X)
        known = None if given is None else self.domain_.column_numbers_of(given, "given")
        return mass.with_rows(self._density.log_density(events, known), known)

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
            and the others jointly given them; among ordered states, a value that was not seen
            counts as the nearest one. A dict may have ranges and sets, as in :meth:`probability`;
            the rows drawn lie within them. A dict, a Series or a DataFrame may lack columns; these
            are drawn too. None draws all columns.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            Rows in original units, of categories that ``fit`` knew; complete but for a column
            without values there. After a DataFrame, one with its names and dtypes.

        Raises
        ------
        ValueError
            If ``n_samples`` is negative, or ``given`` is not one row of the columns of ``fit``, has
            a category that ``fit`` did not know, or a number outside the ``bounds`` of its column.

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
        n_samples = check_n_samples(n_samples)
        random_state = check_random_state(random_state)
        check_memory(
            float(n_samples) * self.n_features_in_,
            f"{n_samples:,} draws of {self.n_features_in_:,} columns",
            "Draw fewer rows at a time.",
        )
        if given is None:
            drawn = self._density.draw(n_samples, random_state)
        else:
            events = None
            domain = self.domain_
            # Only a dict can state ranges; its values become a row.
            if isinstance(given, Mapping):
                events, given = read_events(domain, given, "given", values_are_known=True)
            given = as_given_row(domain, given)
            # Ranges tie the draws of a row together; values alone leave cells to fill.
            if events is not None and events.has_intervals:
                # Only for its error: what is given must be possible.
                self._log_known(events)
                drawn = self._density.draw(n_samples, random_state, events)
            else:
                repeated = np.repeat(encode_given(domain, given), n_samples, axis=0)
                drawn = self._density.draw_missing(repeated, random_state)
            drawn = restore_given_numbers(domain, drawn, given)
        return self.domain_.decode(self.domain_.draw_row_names(drawn, random_state, given))

    def marginals(self, X: Any) -> list[Predictive]:
        """Posterior distribution of every cell given the observed cells of its row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        list of skpc.variables.Predictive
            One a column, by its number or its name, with ``probabilities`` of the categories
            ``labels`` or of the bins between ``edges``, ``mean()``, ``quantile(level)``,
            ``cdf(x)`` and ``to_frame()``. An observed cell has probability one for its own state.

        Examples
        --------
        >>> from skpc import CutsetNetworkBD
        >>> X = [["sun", 30.0], ["rain", 12.0], ["sun", 28.0], ["rain", 11.0]] * 20
        >>> sky, warmth = (
        ...     CutsetNetworkBD().fit(X).marginals([[None, 28.0], ["rain", None]])
        ... )
        >>> sky.labels, sky.probabilities.round(1)
        (array(['rain', 'sun'], dtype=object), array([[0., 1.],
               [1., 0.]]))
        >>> warmth.mean().round()
        array([28., 12.])
        """
        table, events, _ = self._events(X, is_scored=False)
        marginals = Marginals(self._density.posteriors(events))
        # A face has no distribution of its own: that of its source is translated.
        for face in self.domain_.faces.values():
            marginals[face.place] = of_face(marginals[face.source], face)
        for column, cells in enumerate(marginals):
            cells.index = getattr(table, "index", None)
            self._described(cells, column)
        return marginals

    @by_chunks
    def complete(self, X: Any, strategy: str = "mean", random_state: Any = None) -> Any:
        """Fill the missing cells of each row given its observed ones, which stay as they are.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A cell may be a range or a set: what fills it
            lies within.
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
        check_option("strategy", strategy, _STRATEGIES)
        table, events, _ = self._events(X, is_scored=False)
        if strategy == "mpe" and events.has_intervals:
            raise ValueError(
                "strategy='mpe' needs values; found ranges or sets in X. Modes of leaves are those "
                "of all their values, and may lie outside. Use 'mean' or 'sample', whose cells lie "
                "within."
            )
        with self._places_of(events):
            if strategy == "mean":
                filled = self.means(events)
            elif strategy == "mpe":
                filled = self._density.modes(events.rows)
            else:
                filled = self._density.draw_missing(events, check_random_state(random_state))
        return self.domain_.fill(table, filled)

    @contextmanager
    def _places_of(self, events: Events) -> Iterator[None]:
        """Let errors about some of these events name the place of a row among all."""
        try:
            yield
        except ValueError:
            log_density = self._density.log_density(events)
            refuse_impossible(log_density, np.arange(len(log_density)))
            raise

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
        scores = mass.with_cells(self._density.log_cells(rows))
        for source in {face.source for face in self.domain_.faces.values()}:
            self._score_faces(source, table, mass, scores)
        return tabulate(scores, like=table)

    def _score_faces(self, source: int, table: Any, mass: LogMass, scores: Floats) -> None:
        """Score the faces of a variable where they contradict each other, in place.

        Each has the score of the state that it tells alone, given the other columns, beside that of
        an unseen state: so the one that fits worst is the lowest.
        """
        place = int(np.flatnonzero(mass.columns == source)[0])
        contradicts = mass.is_unseen[:, place]
        if not contradicts.any():
            return
        # The source is one of the columns that contradict each other.
        columns = [f.place for f in self.domain_.faces.values() if f.source == source]
        for column in (source, *columns):
            # All the others are hidden, so that this column alone tells the state.
            is_hidden = np.isin(np.arange(scores.shape[1]), (source, *columns))
            is_hidden[column] = False
            alone = without_cells(table, np.tile(is_hidden, (len(scores), 1)))
            with warnings.catch_warnings():
                # What there is to say of unknown categories has been said.
                warnings.simplefilter("ignore")
                rows_alone = self.domain_.encode_with_mass(alone)[0]
            log_score_alone = self._density.log_cells(rows_alone)[:, source]
            is_told = contradicts & ~np.isnan(log_score_alone)
            scores[is_told, column] = log_score_alone[is_told] + mass.added[is_told, place]

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
        table, events, _ = self._events(X, is_scored=False)
        # Equal rows have equal ends, and are asked about once.
        distinct, _, group = merged_events(events, np.ones(len(table)))
        rows = distinct.rows
        levels = 0.5 - 0.5 * level, 0.5 + 0.5 * level
        ends = (rows.copy(), rows.copy())
        numbers = np.flatnonzero(~self.domain_.is_categorical)
        faces = [face for face in self.domain_.faces.values() if face.holds_numbers]
        for part in slices(len(rows), _ROWS):
            known = distinct.take(np.arange(len(rows))[part])
            with self._places_of(events):
                posteriors = self._density.posteriors(known, numbers)
            for column, cells in zip(numbers, posteriors):
                for end, share in zip(ends, levels):
                    end[part, column] = cells.quantile(share)
            # The ends of the source become numbers of the face.
            for face in faces:
                (cells,) = self._density.posteriors(known, [face.source])
                cells = of_face(cells, face)
                for end, share in zip(ends, levels):
                    end[part, face.place] = face.numbered(cells.quantile(share))
        lower, upper = (self.domain_.fill(table, end[group]) for end in ends)
        return lower, upper

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
        chosen = int(self.domain_.column_numbers_of([column], "column")[0])
        # A frame may lack the column: what stands in for it is not looked at.
        table, rows = self._encode(table_with_column(self.domain_, X, chosen))
        faces = self.domain_.faces
        hidden = rows.copy()
        # Other faces of the column tell it, but not its own cells.
        source = faces[chosen].source if chosen in faces else chosen
        if any(face.source == source for face in faces.values()):
            # Encoding fills the source from any face, so that the cells are taken away before.
            is_chosen = np.arange(rows.shape[1]) == chosen
            without_column = without_cells(table, np.tile(is_chosen, (len(rows), 1)))
            hidden = self.domain_.encode_with_mass(without_column)[0].copy()
        else:
            hidden[:, chosen] = np.nan
        hidden[:, source] = self.means(hidden, [source])[:, source]
        decoded = self.domain_.decode(self.domain_.within_ends(hidden), like=table)
        cells = column_of(decoded, chosen)
        # Cells of frames, and dates, have their dtypes already.
        if not isinstance(cells, np.ndarray) or chosen in self.domain_.calendars:
            return cells
        states = faces[chosen].values if chosen in faces else self.domain_[chosen].states
        return cells.astype(np.float64 if states is None else states.dtype)


class CircuitDensity(TableDensity):
    """Density estimation by a circuit over encoded rows, which a subclass learns."""

    #: The structure of a million rows would take minutes, and needs fewer than the parameters do.
    _most_rows = 25_000
    #: EM over all rows of a large table, after that over a sample.
    _passes: ClassVar[Stop] = Stop(1)
    _takes_ranges = True

    @property
    def _density(self) -> Density:
        return CircuitAnswers(self.circuit_, self.domain_)

    def _take_columns(self, order: Ints) -> None:
        super()._take_columns(order)
        self.circuit_: Circuit = self.circuit_.taken(order)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Adjust the parameters to more rows, by a step of EM.

        The rows learned before count with their whole weight, as if distributed like the circuit.
        The first call is ``fit``; later ones keep the structure, and what the columns are.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        CircuitDensity
            The fitted estimator.

        Raises
        ------
        ValueError
            If the columns are not those of the first call, a cell is infinite, the weights are
            negative or all zero, or no cell has a known value.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc import CutsetNetworkBD
        >>> X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0)
        >>> model = CutsetNetworkBD(param_ess=1e-9).fit(X)
        >>> np.exp(model.partial_fit(X[50:]).score_samples([[1.0, 1.0]])).round(3)
        array([0.667])
        """
        if not hasattr(self, "circuit_"):
            return self.fit(X, sample_weight=sample_weight)
        with all_or_nothing(self):
            self.take_step(*self._learn_more(X, sample_weight))
        return self

    def take_step(self, rows: Floats, weight: Floats) -> None:
        """Adjust the parameters to more rows, as :meth:`partial_fit` does.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Encoded rows.
        weight : ndarray of shape (n_rows,)
            Their weights.
        """
        # A row without any cell stands for those of before.
        before = np.full((1, rows.shape[1]), np.nan)
        weights = np.append(weight, self._n_learned)
        all_rows = np.vstack([rows, before])
        self.circuit_ = em_step(self.circuit_, all_rows, weights, 0.0)
        self._n_learned += weight.sum()

    def _refit(self, data: Rows | EncodedChunks, sample: TrainingData, learned: Any) -> Any:
        """Fit the parameters to all rows by EM; return what has been learned."""
        counts = self._as_learned(sample.rows, sample.weight)
        model = ParametrisedCircuit.from_rows(self.circuit_, sample.rows, sample.weight, counts)
        fit = learn([model], data, self._passes)
        self.circuit_ = fit.model.circuit
        return fit

    def reweighted(self, rows: Floats, weight: Floats) -> Self:
        """A copy with the parameters of other weights of the rows, by EM until it converges.

        The structure is kept. One row distributed like the circuit smooths the parameters.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Encoded rows, each of them with some cell.
        weight : ndarray of shape (n_rows,)
            Positive.

        Returns
        -------
        CircuitDensity
        """
        # The copy shares all but the parameters.
        again = copy(self)
        counts = pseudo_counts_from(self.circuit_, 1.0)
        fit = fit_to_rows(self.circuit_, Rows(rows, weight), counts, REWEIGHTED)
        again.circuit_ = fit.model.circuit
        return again

    def redrawn(
        self,
        rows: Floats,
        weight: Floats,
        random_state: np.random.RandomState,
        start: Self,  # noqa: ARG002
    ) -> Self:
        """A copy with parameters drawn from their posterior given complete rows.

        By the Bayesian bootstrap; of a deterministic circuit that is the Dirichlet posterior.

        Parameters
        ----------
        rows, weight : ndarrays
            As in :meth:`reweighted`, without missing cells.
        random_state : RandomState
        start : CircuitDensity
            The density before the first draw.
        """
        return self.reweighted(*bootstrapped(rows, weight, random_state))

    def _as_learned(self, rows: Floats, weight: Floats) -> PseudoCounts:
        """Pseudo-counts that stand for what has been learned from a sample."""
        return pseudo_counts_from(self.circuit_, LIKE_SAMPLE)
