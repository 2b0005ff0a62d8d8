"""Tables and densities that keep rules between columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Bools, Floats, Ints, picked
from skpc._cells import ScoredRows, missing_in, without_cells
from skpc._fitting import all_or_nothing
from skpc._validation import (
    HasMethods,
    as_precise,
    check_n_samples,
    check_option,
    check_table,
    check_weight,
    column_of,
    fit_context,
    objects_of,
)
from skpc._warnings import collected, warn
from skpc.domain import Declared, Domain, named_columns, present_rows, read_events
from skpc.domain.given import as_given_row
from skpc.queries import Events
from skpc.synthesis.cells import TableCells, rows_of
from skpc.synthesis.ties import Ties

#: Draws for each row that lacks cells under a rule.
_DRAWS_OF_ROW = 200
#: The least share of draws that has to keep the rules.
_LEAST_SHARE = 0.01
#: Rows that lack cells under a rule and get draws at a time.
_ROWS = 250


def keep_rules(table: Any, rules: Sequence[Any], observed: Any = None) -> Any:
    """Change cells of a table as little as needed to keep rules between its columns.

    What other columns determine is computed again. Numbers out of order move to values in order:
    later ones are raised to earlier ones, or these are lowered, whichever changes less.

    Parameters
    ----------
    table : DataFrame or array-like of shape (n_rows, n_features)
        Rows, such as draws or a completed table. A missing cell stays missing unless it follows
        from others.
    rules : list of tuple
        Exact rules between columns, as :func:`find_rules` returns them.
    observed : DataFrame or array-like of shape (n_rows, n_features), default=None
        The table before it was completed: what it has stays as it is. None lets all cells change.

    Returns
    -------
    DataFrame or ndarray of shape (n_rows, n_features)
        A table of the same form, with the same names and dtypes; an array of numbers is float64,
        or float32 as it came.

    Raises
    ------
    ValueError
        If a rule is not one, or names columns that are not there or that it cannot be about, or
        ``observed`` is another table.

    Warns
    -----
    UserWarning
        If rows break a rule, since known cells or other rules stand in the way.

    See Also
    --------
    find_rules : Finds such rules.
    RuledDensity : A density whose draws and completions keep them.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.synthesis import keep_rules
    >>> completed = np.array([[2.0, 3.0, 9.0], [5.0, 4.0, 9.0]])
    >>> keep_rules(completed, [(0, "<=", 1), (2, "==", ("sum", 0, 1))])
    array([[ 2.,  3.,  5.],
           [ 5.,  5., 10.]])
    """
    reader = BaseEstimator()
    # The check may change the precision of the table, which the answer has again.
    given = table
    table = check_table(reader, table, reset=True)
    domain = _domain_of(table)
    values = TableCells.of_table(domain, table).values
    known = values
    # Without observed cells all may change.
    is_free = np.ones(values.shape, dtype=bool)
    if observed is not None:
        is_free = missing_in(check_table(reader, observed, reset=False))
        if len(is_free) != len(values):
            raise ValueError(
                f"observed must have the rows of the completed table, {len(values)}; found "
                f"{len(is_free)}. Pass the table that was completed."
            )
        # The values that a column determines are learned from observed cells alone.
        known = np.where(is_free, np.nan, values)
    ties = Ties.read(rules, TableCells(known, domain))
    settled = _settled(ties, domain, table, values, is_free)
    return as_precise(settled, given)


class RuledDensity(ScoredRows):
    """A density of rows that keep exact rules between columns.

    Parameters
    ----------
    density : density estimator
        The model of the rows before they are known to keep the rules; any with ``fit``,
        ``sample``, ``complete`` and ``score_samples``, such as :class:`~skpc.SoftLearnSPN`. It is
        cloned. It does not see the columns that others determine; what its parameters say of
        columns is about those that it sees.
    rules : list of tuple
        Exact rules between columns, which all rows of ``fit`` keep; tuples, or what
        :func:`find_rules` returns. Of several rules that determine one column, or each other in a
        circle, the first ones determine, and draws that break the others are rejected.

    Attributes
    ----------
    density_ : density estimator
        The fitted density of the columns that no rule determines.
    domain_ : Domain
        What the columns are.
    log_normalizer_ : float
        Log of the probability (nats) that a draw of ``density_`` keeps the rules, from 10,000
        draws; 0 where no draw can break one.
    log_normalizer_se_ : float
        Its standard error.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    find_rules : Finds such rules.
    keep_rules : Changes a completed table.

    Notes
    -----
    The distribution is that of ``density_`` given that the rules are kept: what a column determines
    is computed, and a draw that breaks an order is rejected. A total, an equal number and a column
    that another one determines are left out of what ``density_`` learns. Where a value of a column
    fixes one of another, that cell says nothing, in scores and as evidence.

    A row that lacks cells under a rule needs draws of these, 200 for each such row: its score is
    an estimate, and its completion is the mean of draws. A total that is known weighs each
    draw by the density of its last missing part. All draws of scores, completions by means and the
    normalizer have fixed seeds.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import TableMixture
    >>> from skpc.synthesis import RuledDensity
    >>> low, gap = np.random.default_rng(0).exponential(size=(2, 300))
    >>> X = np.column_stack([low, low + gap])
    >>> model = RuledDensity(TableMixture(random_state=0), [(0, "<=", 1)]).fit(X)
    >>> drawn = model.sample(100, random_state=0)
    >>> bool((drawn[:, 0] <= drawn[:, 1]).all())
    True
    >>> model.score_samples([[2.0, 1.0]])
    array([-inf])
    """

    _parameter_constraints = {  # noqa: RUF012
        "density": [HasMethods(["fit", "sample", "complete", "score_samples"])],
        "rules": [list, tuple],
    }

    def __init__(self, density: Any, rules: Sequence[Any]):
        self.density = density
        self.rules = rules

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the density to the columns that no rule determines.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells. Those that follow from
            others by a rule are filled.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; passed on where given.

        Returns
        -------
        RuledDensity
            The fitted estimator.

        Raises
        ------
        ValueError
            If a rule is not one, names columns that are not there or that it cannot be about, or is
            broken by a row; if fewer than one draw in a hundred keeps the rules; or as the density.
        """
        # Draws that estimate the probability of the rules.
        n_draws = 10_000
        with all_or_nothing(self):
            table = check_table(self, X, reset=True)
            weight = check_weight(sample_weight, len(table))
            # A row of weight zero may break a rule.
            table, weight = present_rows(table, weight)
            self.domain_ = _domain_of(table)
            cells = TableCells.of_table(self.domain_, table)
            self._ties = Ties.read(self.rules, cells)
            # Cells that follow from others are filled in before the density sees them.
            filled = self._ties.propagated(cells.values)
            self._refuse_breaches(table, filled)
            derived = self._ties.derived
            # The density learns the columns that no rule determines in all rows.
            self._columns = np.setdiff1d(np.arange(self.n_features_in_), derived)
            whole = TableCells(filled, self.domain_).written(table)
            weights = {} if sample_weight is None else {"sample_weight": weight}
            # Weights are passed only if there are some, since some densities take none.
            self.density_ = clone(self.density).fit(_taken(whole, self._columns), **weights)
            # Rules that are computed hold in every draw: nothing is divided out.
            self.log_normalizer_ = 0.0
            self.log_normalizer_se_ = 0.0
            # Rules that are not computed are kept by a share of the draws.
            if not all(tie.is_active for tie in self._ties.ties):
                _, is_kept = self._drawn(n_draws, check_random_state(0), self._known({}))
                self._refuse_few(is_kept.sum(), n_draws)
                share = is_kept.mean()
                # Rejected draws make the density of the others larger by this share.
                self.log_normalizer_ = float(np.log(share))
                # By the delta method, from the variance of a share of draws.
                self.log_normalizer_se_ = float(np.sqrt((1.0 - share) / (share * n_draws)))
        return self

    def sample(self, n_samples: int = 1, random_state: Any = None, given: Any = None) -> Any:
        """Draw rows that keep the rules.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same rows.
        given : dict, array-like, pandas Series or DataFrame of one row, default=None
            The known cells of the rows, as in :meth:`skpc.CutsetNetworkBD.sample`: values, ranges
            and sets. Draws that miss what is known of a column that others determine are rejected.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            Complete rows in original units.

        Raises
        ------
        ValueError
            If ``given`` breaks a rule, or as the density; if fewer than one draw in a hundred keeps
            the rules and what is given.
        """
        # Draws at a time, unless more rows are asked for.
        chunk = 100_000
        # With fewer draws than these, none can be said to keep the rules too seldom.
        n_trials = 1_000
        check_is_fitted(self)
        n_samples = check_n_samples(n_samples)
        random_state = check_random_state(random_state)
        known = self._known({} if given is None else given)
        # The share of draws that keep the rules, as fit knows it; with evidence it may be another.
        share = float(np.exp(self.log_normalizer_))
        n_tried = 0
        n_kept = 0
        parts: list[Floats] = []
        while not parts or n_kept < n_samples:
            # A few more draws than needed on average spare a batch for the last row.
            size = int(np.ceil((n_samples - n_kept) / share)) + 10 * (share < 1.0)
            # Where many draws are needed for each row, they come in parts to save memory.
            size = min(size, max(n_samples, chunk))
            rows, is_kept = self._drawn(size, random_state, known)
            parts.append(rows[is_kept])
            n_tried += size
            n_kept += int(is_kept.sum())
            if n_tried >= n_trials:
                self._refuse_few(n_kept, n_tried)
            # The size of the next batch follows from the share so far.
            share = max(n_kept / max(n_tried, 1), _LEAST_SHARE)
        # Draws are independent, so that any of those left over may be dropped.
        rows = np.concatenate(parts)[:n_samples]
        return self.domain_.decode(self.domain_.draw_row_names(rows, random_state, known.row))

    def complete(self, X: Any, strategy: str = "mean", random_state: Any = None) -> Any:
        """Fill the missing cells of each row so that it keeps the rules.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        strategy : {"mean", "sample"}, default="mean"
            "mean": the mean of a number, and the most probable state of a category, among draws
            that keep the rules. "sample": one of these draws.
        random_state : int, RandomState instance or None, default=None
            Used by "sample": the same seed gives the same cells.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            The rows in original units, of the same kind as ``X``. Observed cells stay.

        Raises
        ------
        ValueError
            If the strategy is none of these.

        Warns
        -----
        UserWarning
            If rows break a rule, since known cells stand in the way.
        """
        check_option("strategy", strategy, ("mean", "sample"))
        table, values, evidence = self._read(X)
        is_sample = strategy == "sample"
        # Draws for means have a seed, so that the same rows have the same means.
        random_state = check_random_state(random_state if is_sample else 0)
        rows = self._completed(evidence, strategy, random_state)
        for index, drawn, log_weight in self._open_draws(values, evidence, random_state):
            # Where no draw keeps the rules, all draws weigh the same; cells are moved below.
            log_weight[np.isneginf(log_weight).all(axis=1)] = 0.0
            # Gumbel noise: the greatest sum is a draw by the weights.
            chosen = (log_weight + random_state.gumbel(size=log_weight.shape)).argmax(axis=1)
            rows[index] = picked(drawn, chosen)
            if is_sample:
                continue
            # Cells are free if the table and the rules leave them open.
            is_free = np.isnan(values[index])
            means = _means(self.domain_, drawn, softmax(log_weight, axis=1))
            # The means are moved to the nearest cells that keep the rules.
            nearest = self._ties.settled(np.where(is_free, means, values[index]), is_free)
            # The likeliest states of single cells may break a rule together: then the draw stays.
            is_kept = ~self._ties.broken(nearest)
            rows[index[is_kept]] = nearest[is_kept]
        is_free = np.isnan(values)
        # What was observed stays, whatever has been drawn.
        return _settled(self._ties, self.domain_, table, np.where(is_free, rows, values), is_free)

    def score_samples(self, X: Any) -> Floats:
        """Log density of each row, with missing cells integrated out.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log densities in nats, with respect to the base measure of ``density_`` on the columns
            that it sees. Minus infinity for a row that breaks a rule. By draws for a row that lacks
            cells under a rule.
        """
        _, values, evidence = self._read(X)
        # The density is divided by the probability that draws keep the rules.
        scores = np.asarray(self.density_.score_samples(evidence)) - self.log_normalizer_
        is_broken = self._ties.broken(values)
        for index, _, log_weight in self._open_draws(values, evidence, check_random_state(0)):
            # The mean weight of the draws estimates the mass that keeps the rules.
            scores[index] += np.logaddexp.reduce(log_weight, axis=1) - np.log(_DRAWS_OF_ROW)
        # The density may not have seen the cells that break a rule.
        scores[is_broken] = -np.inf
        return scores

    def _known(self, given: Any) -> _Known:
        """Read what is given of all rows that are drawn."""
        if not isinstance(given, Mapping):
            given = dict(enumerate(as_given_row(self.domain_, given)[0]))
        # Columns by number, whatever names or numbers the user gave.
        statements = {int(self.domain_.column_numbers_of([c], "given")[0]): given[c] for c in given}
        events, row = read_events(self.domain_, statements, "given", values_are_known=True)
        rows = rows_of(self.domain_, row)
        values = self._ties.propagated(TableCells.of_rows(self.domain_, rows).values)
        # Rules must hold between given cells, or no draw keeps them.
        if self._ties.broken(values)[0]:
            raise ValueError(f"given must be possible, but it breaks a rule; found {given!r}.")
        decoded = self.domain_.decode(TableCells(values, self.domain_).encoded(rows))
        is_implied = self._ties.implied_cells(values)[0]
        # Cells that follow from others are computed, and no evidence for the density, which numbers
        # its columns in another way.
        evidence: dict[int, Any] = {}
        for place, column in enumerate(self._columns.tolist()):
            is_known = column in statements or not np.isnan(values[0, column])
            if is_known and not is_implied[column]:
                evidence[place] = statements.get(column, objects_of(column_of(decoded, column))[0])
        return _Known(evidence, events, values, row)

    def _drawn(
        self, n_rows: int, random_state: np.random.RandomState, known: _Known
    ) -> tuple[Floats, Bools]:
        """Encoded draws, and which of them keep the rules and what is known."""
        # A density needs to take evidence only where there is some.
        options = {"given": known.evidence} if known.evidence else {}
        table = self.density_.sample(n_rows, random_state=random_state, **options)
        # Columns that the density does not see stay NaN until rules tell them.
        rows = np.full((n_rows, self.n_features_in_), np.nan)
        rows[:, self._columns] = rows_of(self.domain_.taken(self._columns), table)
        drawn = TableCells.of_rows(self.domain_, rows).values
        # Cells that are given are not computed: where they differ, the draw is rejected.
        is_free = np.isnan(known.values) & np.ones(rows.shape, dtype=bool)
        values = self._ties.computed(np.where(is_free, drawn, known.values), is_free)
        rows = TableCells(values, self.domain_).encoded(rows)
        events = known.events.take(np.zeros(n_rows, dtype=np.int64))
        return rows, events.hold(rows).all(axis=1) & ~self._ties.broken(values)

    def _read(self, X: Any) -> tuple[Any, Floats, Any]:
        """A table, its cells with those that follow from others, and evidence for the density."""
        check_is_fitted(self)
        table = check_table(self, X, reset=False)
        values = self._ties.propagated(TableCells.of_table(self.domain_, table).values)
        whole = TableCells(values, self.domain_).written(table)
        return table, values, self._without_implied(_taken(whole, self._columns), values)

    def _without_implied(self, table: Any, values: Floats) -> Any:
        """A table of the columns of the density, without the cells that others determine."""
        is_implied = self._ties.implied_cells(values)[:, self._columns]
        return without_cells(table, is_implied) if is_implied.any() else table

    def _completed(self, table: Any, strategy: str, random_state: Any) -> Floats:
        """The cells that the density fills in; NaN in the columns that it does not see."""
        table = self.density_.complete(table, strategy=strategy, random_state=random_state)
        part = TableCells.of_table(self.domain_.taken(self._columns), table).values
        values = np.full((len(part), self.n_features_in_), np.nan)
        values[:, self._columns] = part
        return values

    def _open_draws(
        self, values: Floats, evidence: Any, random_state: np.random.RandomState
    ) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Draws for the rows that lack cells under a rule.

        Yields
        ------
        index : ndarray of shape (n_rows,)
        draws : ndarray of shape (n_rows, n_draws, n_features)
        log_weight : ndarray of shape (n_rows, n_draws)
            Log densities of parts of known sums given the other cells; -inf where a rule is broken.
        """
        # Draws for a row that breaks a rule already would all break it.
        is_open = self._ties.lack_cells(values) & ~self._ties.broken(values)
        # Rows come in parts, since the draws of many rows take much memory.
        n_parts = 1 + int(is_open.sum()) // _ROWS
        for index in np.array_split(np.flatnonzero(is_open), n_parts) if is_open.any() else ():
            repeated = np.repeat(index, _DRAWS_OF_ROW)
            table = getattr(evidence, "iloc", evidence)[repeated]
            drawn = self._completed(table, "sample", random_state)
            # Totals of drawn parts are computed; of a known total, the last free part is.
            is_free = np.isnan(values[repeated])
            rows = self._ties.computed(np.where(is_free, drawn, values[repeated]), is_free)
            is_part = self._ties.fill_last_parts(rows, is_free)
            rows = self._ties.computed(rows, is_free)
            log_weight = self._log_parts(table, rows, is_part)
            log_weight[self._ties.broken(rows)] = -np.inf
            # (n_rows, n_draws) of weights, and one axis more for the cells.
            shape = len(index), _DRAWS_OF_ROW
            yield index, rows.reshape(*shape, -1), log_weight.reshape(shape)

    def _log_parts(self, table: Any, rows: Floats, is_part: Bools) -> Floats:
        """Log density of the marked cells of complete rows given their other cells, (n_rows,)."""
        if not is_part.any():
            return np.zeros(len(rows))
        # A computed part between two states of an ordered column is impossible. Such rows are asked
        # about without their parts, and get weight zero below.
        is_state = self.domain_.snap_to_values(rows.copy()) == rows
        is_impossible = (is_part & self.domain_.is_ordered & ~is_state).any(axis=1)
        possible = np.where(is_part & is_impossible[:, np.newaxis], np.nan, rows)[:, self._columns]
        whole = TableCells(possible, self.domain_.taken(self._columns)).written(table)
        whole = self._without_implied(whole, rows)
        # The density of the parts given the rest is that of the whole over that of the rest.
        log_whole = self.density_.score_samples(whole)
        log_rest = self.density_.score_samples(without_cells(whole, is_part[:, self._columns]))
        # Infinite less infinite is NaN: such a draw is impossible.
        with np.errstate(invalid="ignore"):
            log_parts = np.nan_to_num(log_whole - log_rest, nan=-np.inf, neginf=-np.inf)
        return np.where(is_impossible, -np.inf, log_parts)

    def _refuse_breaches(self, table: Any, values: Floats) -> None:
        """Raise an error that shows the first row of a table that breaks a rule."""
        breach = self._ties.breach(values)
        if breach is not None:
            n_rows, row, tie = breach
            raise ValueError(
                f"rules must hold in all rows of fit, but {n_rows} break one; the first breaks "
                f"{tie.rule!r} by {[objects_of(column_of(table, c))[row] for c in tie.columns]} "
                f"in {[self.domain_[c].where for c in tie.columns]}. "
                "Correct such rows, or leave the rule out."
            )

    def _refuse_few(self, n_kept: int, n_tried: int) -> None:
        """Raise an error if too few of the draws have kept the rules."""
        if n_kept < _LEAST_SHARE * n_tried:
            raise ValueError(
                f"Draws must keep the rules, and what is given, at least once in a hundred; found "
                f"{n_kept} of {n_tried:,} that do. Leave out a rule, widen what is given, or take "
                "a density that is nearer to the rules."
            )


class _Known(NamedTuple):
    """The given cells of all rows that are drawn.

    Attributes
    ----------
    evidence : dict from int to Any
        Cells and statements for the density, by its own numbers of columns.
    events : Events
        One row of events, which draws have to keep.
    values : ndarray of shape (1, n_features)
        Known cells, and those that follow from them; NaN elsewhere.
    row : ndarray of shape (1, n_features), object
        The cells as they were given.
    """

    evidence: dict[int, Any]
    events: Events
    values: Floats
    row: Any


def _domain_of(table: Any) -> Domain:
    """The domain of a table, without warnings: the density gives those about columns."""
    with collected():
        named = named_columns(table)
        return Domain.fit(
            table,
            Declared(categorical_features=named, handle_unknown="missing", merges_columns=False),
        )


def _taken(table: Any, columns: Ints) -> Any:
    """Some columns of a table."""
    return getattr(table, "iloc", table)[:, columns.tolist()]


def _means(domain: Domain, draws: Floats, weight: Floats) -> Floats:
    """The mean, or the most probable state, of each cell; see ``RuledDensity._open_draws``."""
    # weight (n_rows, n_draws) and draws (n_rows, n_draws, n_cells) give (n_rows, n_cells).
    means = np.einsum("rd,rdc->rc", weight, draws)
    # A mean of ordered states becomes the nearest state; dates are in other units here.
    is_ordered = domain.is_ordered.copy()
    is_ordered[[*domain.calendars]] = False
    means[:, is_ordered] = domain.snap_to_values(means.copy())[:, is_ordered]
    for column in np.flatnonzero(domain.is_categorical).tolist():
        codes = draws[:, :, column]
        states = np.unique(codes)
        # The mass of each state in each row: (n_states, n_rows).
        mass = [(weight * (codes == state)).sum(axis=1) for state in states]
        means[:, column] = states[np.argmax(mass, axis=0)]
    return means


def _settled(ties: Ties, domain: Domain, table: Any, values: Floats, is_free: Bools) -> Any:
    """A table with the nearest cells that keep the rules."""
    # The dtypes of a table may not hold all numbers: a second round settles what they have changed.
    for is_last in (False, True):
        values = ties.settled(values, is_free)
        settled = TableCells(values, domain).written(table)
        written = TableCells.of_table(domain, settled).values
        breach = ties.breach(written)
        if breach is None:
            break
        # Cells that their dtype has changed stay as they are, and others are moved.
        is_free = is_free & (written == values)
        values = written
        if is_last:
            n_rows, row, tie = breach
            warn(
                f"{n_rows} rows break a rule, as known cells or other rules stand in the way. The "
                f"first is row {row}, which breaks {tie.rule!r}."
            )
    return settled
