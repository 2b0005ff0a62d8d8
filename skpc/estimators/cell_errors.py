"""Which cells of a table are wrong?"""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import field
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skpc._arrays import Bools, Floats
from skpc._cells import missing_in, without_cells
from skpc._fitting import all_or_nothing
from skpc._frames import native
from skpc._threads import in_threads, threads
from skpc._validation import (
    AUTO,
    FRACTION,
    StrOptions,
    as_precise,
    column_of,
    fit_context,
    objects_of,
)
from skpc._warnings import collected
from skpc.domain import canonical_order, merge_rows, tabulate
from skpc.estimators._answers import by_chunks
from skpc.estimators._estimator import ColumnsEstimator, TableTransformer, parameter
from skpc.estimators._pools import most_bins, refuse_other_density
from skpc.estimators.hidden_chow_liu import HiddenChowLiuTree
from skpc.estimators.stacked_density import StackedDensity
from skpc.estimators.table_mixture import TableMixture
from skpc.learning.held_out import deal
from skpc.pooling.choice import FEWEST_ROWS
from skpc.pooling.error_tails import ErrorTail
from skpc.pooling.errors import (
    MEAN_RATE,
    CheckedCells,
    Consensus,
    Evidence,
    Rates,
    TrustedRows,
    far_away,
)

#: Parts of the rows that are held out in turn, and rounds.
_FOLDS = 3


class CellErrorDetector(TableTransformer, ColumnsEstimator):
    """Find the wrong cells of a table.

    Each cell is wrong with a small probability :math:`e_j`, whatever the others are; a wrong one
    holds a draw from a law :math:`m_j` of its column. With a density :math:`p` of right rows, the
    hypothesis that the cells :math:`S` of a row are wrong has the weight

    .. math:: \\prod_{j \\in S} e_j m_j(x_j) \\prod_{j \\notin S} (1 - e_j) \\; p(x_{\\notin S}).

    The hypotheses are that no cell is wrong, that each cell is alone, and with the most doubtful
    cell, or two, of a row each other cell. The probability of a cell is that of all hypotheses in
    which it is wrong. So one wrong cell does not make its neighbours suspect, as it does in
    :meth:`CutsetNetworkBD.score_cells`, and values that are rare in their column are not suspect
    for that.

    Parameters
    ----------
    density : density estimator, default=None
        The model of right rows: any density of this package. It is cloned. The members of a
        :class:`StackedDensity` judge cells together, by the means of their log densities. None
        stacks a :class:`HiddenChowLiuTree` and a :class:`TableMixture` of a component for each 50
        rows, at most 20.
    error_rate : "auto", float, dict or array-like of shape (n_features,), default="auto"
        The proportion of wrong cells, of all columns or of each; a dict has columns (names or
        numbers), and the others get 0.015. "auto": learned from held-out rows.
    fdr : float, default=0.1
        Greatest expected proportion of right cells among those that :meth:`predict` marks.
    repair : {"mean", "mpe", "sample"} or None, default=None
        What :meth:`transform` puts in the place of these cells, as ``complete`` does. None: they
        become missing.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical: a boolean mask, column numbers, or names. "from_dtype": those
        with a category dtype. "auto": these, strings, bools, and numeric columns of two integers in
        0..15, a few unusual ones apart (one in a thousand).
    categories : "auto" or list, default="auto"
        The states of each column as in OrdinalEncoder; None in the list lets the data of that
        column decide. A column with declared categories is categorical.
    atoms : "auto" or dict, default="auto"
        A dict from columns (names or numbers) to the values that are atoms, where you know them;
        the atoms of the other columns are found.
    bounds : dict, default=None
        A dict from columns (names or numbers) to pairs (lower, upper), between which all right
        values lie. None stands for a side without a bound.
    handle_unknown : {"unseen", "missing", "error"}, default="unseen"
        What to do with a category that has not been seen or declared: "unseen" takes it as wrong,
        "missing" as missing, "error" refuses it.
    random_state : int, RandomState instance or None, default=None
        Seeds the densities, what is held out, and repairs by "sample".
    n_jobs : int, default=None
        Number of threads, for densities that are learned together and for answers. None means 1
        unless in a ``joblib.parallel_config`` context, and -1 all cores. The result is the same.
    verbose : int, default=0
        With 1, a line about the table that is learned.

    Attributes
    ----------
    density_ : density estimator
        The density of right rows.
    domain_ : Domain
        What each column is.
    error_rate_ : ndarray of shape (`n_features_in_`,)
        The proportion of wrong cells in each column.
    error_rate_interval_ : ndarray of shape (2, `n_features_in_`)
        The ends of their 95 % intervals. A column that is independent of the others says little of
        its rate; the interval shows it.
    threshold_ : float
        Cells of at least this probability are marked.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    CircuitImputer : Fills missing cells.
    CutsetNetworkBD.score_cells : How odd each cell is, wrong or not.

    Notes
    -----
    Single cells are judged, not rows, as by detectors of deviating cells [1]_.

    *Wrong* means that the true value differs from the one seen. A draw from :math:`m_j` may hit the
    true value, where values have probabilities (categories, ordered states, atoms, lattices); the
    posterior leaves that out.

    :math:`m_j` has three quarters of its mass on the margin of the density, as most errors are like
    their column. The rest is uniform among the categories, or spread around the median of the
    numbers by Student distributions of three degrees of freedom, whose scales are 8, 32 and 128
    standard deviations (by the quartiles). It is positive wherever a cell can be, so that a single
    absurd cell costs a row no more than :math:`\\log e_j + \\log m_j(x_j)`. A value that its column
    cannot have is wrong: an unseen category, a number out of ``bounds`` or off the lattice. A
    number that is none of the ordered states of its column is judged by how often new states come.

    ``fit`` learns what the columns are without numbers that lie more than 8 standard deviations (by
    the quartiles) from the median of their column, if these are at most 2 % of it; no density
    learns from these. It deals the rows into three folds. Densities that have not learned a fold
    judge its cells. The rates :math:`e_j` are the most probable ones, by EM; that of all columns
    together has a Beta prior of mean 0.015 and a weight of 50 cells a column, and is the mean of
    that of each column, with a weight of 10. Cells count where the rest of the row raises their
    odds by five, and no rate is below 0.0015. Errors that were learned hide themselves. So there
    are three such rounds, and each learns from rows without the cells of each hypothesis, by the
    probability of the hypothesis at a rate of 0.1 at least (in all at most a fifth of the cells).
    A density that has learned again in this way judges in the end.

    The errors have to be independent of each other and of the row. Those of a whole row (a shifted
    line) or of a whole column (a changed unit) are no business of this model. Cells repaired are
    guesses: intervals from a repaired table are too short.

    References
    ----------
    .. [1] P. Rousseeuw, W. Van den Bossche. "Detecting Deviating Data Cells". Technometrics 60,
       2018.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import CellErrorDetector, CutsetNetworkBD
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(0, 2, 600)
    >>> X = np.column_stack(
    ...     [kind, kind, kind, 10 * kind + rng.normal(size=600)]
    ... ).round(2)
    >>> detector = CellErrorDetector(
    ...     CutsetNetworkBD(), error_rate=0.02, random_state=0
    ... ).fit(X)
    >>> detector.predict([[0, 0, 1, 0.3], [1, 1, 1, 9.9]])
    array([[False, False,  True, False],
           [False, False, False, False]])
    """

    density: Any = field(default=None, kw_only=False)
    error_rate: Any = parameter("auto", AUTO, Real, dict, "array-like")
    fdr: float = parameter(0.1, FRACTION)
    repair: str | None = parameter(None, StrOptions({"mean", "mpe", "sample"}), None)

    #: Densities may read numbers in different ways; what the numbers are is the same for all.
    margins = "auto"

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the density of right rows, and how many cells are wrong.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells. Some cells may be wrong.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        CellErrorDetector
            The fitted detector.

        Raises
        ------
        TypeError
            If the density is none of this package.
        ValueError
            If a rate is not in [0, 1), all cells are missing, one is infinite, or the weights are
            negative or all zero.
        """
        with all_or_nothing(self), threads(self.n_jobs):
            if self.density is not None:
                refuse_other_density(self.density, type(self).__name__, ("fit_rows", "complete"))
            table, weight, _ = self._training_rows(X, sample_weight)
            random_state = check_random_state(self.random_state)
            is_far = self._take_columns_of(table, weight)
            distinct = merge_rows(self.domain_.encode(table), weight)
            order = canonical_order(*distinct, self.domain_.is_categorical)
            rows, weight = order.arranged(*distinct)
            # Numbers far away are judged, but not learned from.
            usual = np.where(is_far(rows), np.nan, rows)
            self._tails = [
                ErrorTail.fit(column, cells, weight) for column, cells in zip(self.domain_, usual.T)
            ]
            self._learn(rows, usual, weight, random_state)
        return self

    def _take_columns_of(self, table: Any, weight: Floats) -> Callable[[Floats], Bools]:
        """Learn what the columns are, without numbers far away; says which these are.

        A few of these would have shaped bins, lattices and ends as if they were right. Columns that
        determine each other stay apart: which of two cells is wrong is the question.
        """
        declared = self.declared._replace(merges_columns=False)
        domain = self._domain_of(table, weight, declared)
        rows = domain.encode(table)
        middle, reach = far_away(rows, weight, domain.is_categorical)

        def is_far(rows: Floats) -> Bools:
            return np.abs(rows - middle) > reach

        self.domain_ = domain
        if is_far(rows).any():
            left = without_cells(table, is_far(rows))
            # Which columns are categorical stays as all cells have told it.
            declared = declared._replace(categorical_features=domain.is_categorical)
            with warnings.catch_warnings():
                # What there is to say of the columns has been said.
                warnings.simplefilter("ignore")
                self.domain_ = self._domain_of(left, weight, declared)
        return is_far

    @property
    def bins_wanted(self) -> int | None:
        return most_bins([("", self._unfitted_density(0.0))])

    def _unfitted_density(self, n_rows: float) -> Any:
        """The density that is given, or the default for so many rows."""
        if self.density is not None:
            return clone(self.density)
        # Rows for each component of the default mixture, and most components.
        component_rows = 50
        most_components = 20
        n_components = int(np.clip(n_rows // component_rows, 1, most_components))
        members = [
            ("hidden", HiddenChowLiuTree(random_state=self.random_state)),
            ("mixture", TableMixture(n_components=n_components, random_state=self.random_state)),
        ]
        return StackedDensity(members, cv=_FOLDS, random_state=self.random_state)

    def _learn(
        self, rows: Floats, usual: Floats, weight: Floats, random_state: np.random.RandomState
    ) -> None:
        """Judge distinct encoded rows; those that are learned, ``usual``, lack numbers far away."""
        rounds = 3
        density = self._unfitted_density(weight.sum()).fit_rows(
            self.domain_, *merge_rows(usual, weight)
        )
        given = Rates.given(self.error_rate, self.domain_, self._tails)
        # The usual rate to begin with, and to stay with where rows are too few.
        self._rates = given or Rates(*np.full((4, rows.shape[1]), MEAN_RATE))
        self.threshold_ = 1.0 - self.fdr
        if len(rows) >= FEWEST_ROWS:
            # A row of weight two may be in two folds: its parts are judged apart.
            held = [part for _, part in deal(weight, _FOLDS, random_state)]
            fold, source = np.nonzero(held)
            # From here on a row stands once for each fold that has a part of it.
            usual = usual[source]
            weight = np.array(held)[fold, source]
            cells = CheckedCells.from_rows(self._tails, rows[source])
            # In the first round all cells are trusted.
            trusted = TrustedRows(usual, weight, np.arange(len(usual)))

            def evidence_of_fold(number: int) -> Evidence:
                """Evidence for a fold by a density of the trusted cells of the others."""
                is_learned = fold[trusted.source] != number
                data = merge_rows(trusted.rows[is_learned], trusted.weight[is_learned])
                # Axes that held-out rows have a part in would speak for densities with bins.
                learned = density.refit(self.domain_.with_axes_of(*data), *data)
                return cells.take(fold == number).judge(Consensus.of(learned))

            # Each round trusts what the one before has made of the cells, and judges all rows anew.
            for _ in range(rounds):
                evidence = Evidence.joined(in_threads(evidence_of_fold, range(_FOLDS)))
                self._rates = given or Rates.fit(evidence, weight, self._tails)
                trusted = evidence.trusted_rows(self._rates.replaced, usual, weight)
            self._set_threshold(evidence.error_probabilities(self._rates.replaced), weight)
            # The density of all rows learns from what is trusted after the last round.
            density = density.refit(self.domain_, *merge_rows(trusted.rows, trusted.weight))
        self.density_ = density
        self.error_rate_ = self._rates.rate
        self.error_rate_interval_ = np.stack(self._rates[1:3])

    def _set_threshold(self, probability: Floats, weight: Floats) -> None:
        """The least probability such that as many of the cells above are right as may be."""
        order = np.argsort(-probability, axis=None, kind="stable")
        sure = probability.ravel()[order]
        mass = np.repeat(weight, probability.shape[1])[order]
        # The surest cells are marked, as many as keep the share of right ones below fdr.
        enough = np.flatnonzero(np.cumsum(mass * (1.0 - sure)) <= self.fdr * np.cumsum(mass))
        if len(enough):
            self.threshold_ = float(sure[enough[-1]])

    def _examine(self, X: Any) -> Any:
        """The table, its cells, and what observed states add to log densities."""
        is_wrong = self.handle_unknown == "unseen"
        # Of categories that count as wrong nobody has to hear that they count as missing.
        with collected() if is_wrong else nullcontext():
            table, rows, mass = self._encode_with_mass(X)
            # Of what is no state, the value tells whether the column can have it.
            numbers = self.domain_.numbers_in(table)
            rows = np.where(self.domain_.is_ordered, numbers, rows)
        # A cell that is there, but has no code, holds a category that fit has not seen.
        unknown = np.isnan(rows) & ~missing_in(table) & is_wrong
        return table, *CheckedCells.from_table(self._tails, rows, unknown, mass)

    @by_chunks
    def predict_proba(self, X: Any) -> Any:
        """Probability that the true value of each cell differs from the one seen.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            Given the other cells of the row, each of which may be wrong too; 0 where missing.
        """
        table, probability, _ = self._marks(X)
        return tabulate(probability, like=table)

    def _marks(self, X: Any) -> tuple[Any, Floats, Any]:
        """The table, the probabilities of its cells, and which of them are marked."""
        table, cells, _ = self._examine(X)
        with threads(self.n_jobs):
            evidence = cells.judge(Consensus.of(self.density_))
        probability = evidence.error_probabilities(self._rates.replaced)
        # What no right cell can be is marked, whatever the threshold.
        impossible = np.isneginf(evidence.log_aside)
        return table, probability, (probability >= self.threshold_) | impossible

    @by_chunks
    def predict(self, X: Any) -> Any:
        """Mark the cells to look at.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray or DataFrame of bools of shape (n_samples, n_features)
            Cells with a probability of ``threshold_`` or more: of those so marked in the rows of
            ``fit``, the proportion ``fdr`` was expected to be right. Values that a column cannot
            have are always marked.
        """
        table, _, marks = self._marks(X)
        return tabulate(marks, like=table)

    def transform(self, X: Any) -> Any:
        """Take the marked cells away, or repair them.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            The table, in which marked cells are missing, or repaired if ``repair`` says how. All
            other cells stay as they are, missing ones too.
        """
        table = X if self._output is None else native(X)
        return as_precise(self._repaired(table, random_state=self.random_state), X)

    @by_chunks
    def _repaired(self, X: Any, random_state: Any) -> Any:
        table, _, marks = self._marks(X)
        left = without_cells(table, marks)
        if self.repair is None:
            return left
        repaired = self.density_.complete(left, self.repair, random_state)
        # Gaps that were there before are not for this estimator to fill.
        return without_cells(repaired, missing_in(table))

    @by_chunks
    def score_samples(self, X: Any) -> Floats:
        """Log density of each row, whose cells may be wrong.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log densities in nats; finite, however absurd a cell is.
        """
        _, cells, added = self._examine(X)
        # Members that judge together are no density of rows, as the fitted density itself is.
        evidence = cells.judge(Consensus([self.density_.row_density]))
        return evidence.log_density(self._rates.replaced) + added

    def explain(self, X: Any) -> Any:
        """What is wrong with the marked cells.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        pandas DataFrame
            A line for each marked cell, the most probable errors first: "row" (its label, or its
            number where X has no index), "column" (name or number), "value", "probability" of an
            error, "expected" (the mean of a number, or the most probable category, given the cells
            of the row that are not marked), and "low" and "high", between which a number lies with
            probability 0.9; None for categories.
        """
        # Probability that a number lies between the ends that are explained.
        level = 0.9
        import pandas as pd

        table, probability, marks = self._marks(X)
        left = without_cells(table, marks)
        # Four tables of one shape: as seen, as expected, lower ends and upper ends.
        tables = table, self.density_.complete(left), *self.density_.interval(left, level)
        # An entry is columns[table][column][row].
        columns = [[objects_of(column_of(t, c)) for c in range(marks.shape[1])] for t in tables]
        names = self.domain_.feature_names or range(marks.shape[1])
        labels = getattr(table, "index", range(len(marks)))
        lines = [
            (labels[row], names[c], columns[0][c][row], probability[row, c], columns[1][c][row])
            + tuple(None if self.domain_.is_categorical[c] else end[c][row] for end in columns[2:])
            for row, c in np.argwhere(marks).tolist()
        ]
        headings = ["row", "column", "value", "probability", "expected", "low", "high"]
        frame = pd.DataFrame(lines, columns=headings)
        return frame.sort_values("probability", ascending=False, kind="stable", ignore_index=True)
