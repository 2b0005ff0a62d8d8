"""Chains of regressions: each column in turn is drawn given all others, in several rounds.

A chain begins with a draw from a density of the rows. In each round every column with missing cells
is regressed on the other columns, filled as they are then, and on the expectation of the density
given these: a mean, or the log odds of categories. So the chain uses the dependence that the
density has learned, and adds the linear part that it has missed. Numbers are drawn by predictive
mean matching, so that each is an observed number of its column.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, cast

import numpy as np
from scipy import stats

from skpc._arrays import Bools, Floats, Ints
from skpc._random import draw_states
from skpc._threads import in_threads
from skpc.domain import Domain, column_moments
from skpc.imputation.analysis import Analysis, AnalysisDraw, Proposals
from skpc.imputation.column_regressions import (
    MOST_LEVELS,
    ColumnRegression,
    MatchedNumbers,
    PooledCategories,
)
from skpc.imputation.regressions import draw_logit
from skpc.queries import Events

#: Columns with fewer observed cells have no regression: they keep the draws of the density.
FEWEST_OBSERVED = 20
#: Probability of a warning about chains that have settled.
FALSE_ALARMS = 0.001
#: Number of cells, over all chains of a group, that are filled at a time.
_CELLS = 2**23


class Predictors(NamedTuple):
    """The predictors of each column, and the scales on which they enter a regression.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    centre, spread : ndarray of shape (n_features,)
        Mean and standard deviation of the observed numbers.
    levels : tuple of ndarray
        Of a categorical column the categories that have an indicator: the most frequent ones, but
        not the first of them. Of other columns the observed numbers.
    sources : tuple of ndarray
        For each column, the columns that it may be predicted from.
    is_useful : ndarray of shape (n_features,), bool
        Which columns have several observed values and are not hidden from learners.
    hazard : tuple of ndarray
        For an analysis of times: the number of the column of times, increasing times, and the
        cumulative hazard at these, which stands in for the times. Empty for other analyses.
    """

    domain: Domain
    centre: Floats
    spread: Floats
    levels: tuple[Any, ...]
    sources: tuple[Ints, ...]
    is_useful: Bools
    hazard: tuple[Any, ...] = ()

    @classmethod
    def fit(cls, domain: Domain, rows: Floats, weight: Floats, sources: Sequence[Ints]) -> Self:
        """Learn scales and frequent categories from encoded rows, NaN where missing."""
        levels: list[Any] = []
        is_useful = ~domain.is_hidden
        for column in range(domain.n_features):
            observed = ~np.isnan(rows[:, column])
            cells = rows[observed, column]
            if domain.is_categorical[column]:
                count = np.bincount(cells.astype(np.int64), weight[observed])
                # The most frequent category is the reference, without an indicator.
                frequent = np.argsort(-count, kind="stable")[1 : MOST_LEVELS + 1]
                levels.append(frequent[count[frequent] > 0.0])
                is_useful[column] &= len(levels[column]) > 0
            else:
                levels.append(np.unique(cells))
                is_useful[column] &= len(levels[column]) > 1
        centre, spread = column_moments(rows, weight)
        useful_sources = tuple(columns[is_useful[columns]] for columns in sources)
        return cls(domain, centre, spread, tuple(levels), useful_sources, is_useful)

    def scaled(self, column: int, values: Floats) -> Floats:
        """Numbers of a column as they are regressed: ranks of ordered states, or standardised."""
        number = self.domain[column].law
        if number is not None and number.is_ordered:
            return np.interp(values, number.atoms, np.arange(float(len(number.atoms))))
        return np.asarray((values - self.centre[column]) / self.spread[column])

    def design(self, rows: Floats, column: int, expectation: Floats) -> Floats:
        """The terms that a column is regressed on, a constant first.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Encoded and complete, but for the column itself.
        column : int
        expectation : ndarray of shape (n_rows, n_expected)
            What the density expects of the column.

        Returns
        -------
        ndarray of shape (n_rows, n_terms)
        """
        terms = [np.ones((len(rows), 1)), expectation]
        for source in self.sources[column].tolist():
            cells = rows[:, [source]]
            levels = self.levels[source]
            if self.domain.is_categorical[source]:
                terms.append((cells == levels).astype(np.float64))
            elif self.hazard and source == self.hazard[0]:
                # For proportional hazards the term is the cumulative hazard, not the time itself.
                terms.append(np.interp(cells, *self.hazard[1:]))
            else:
                terms.append((cells - self.centre[source]) / self.spread[source])
        return np.concatenate(terms, axis=1)


class Chains(NamedTuple):
    """The regressions of several chains, with the last coefficients that each chain has drawn.

    Parameters
    ----------
    density : Density
        The distribution of encoded rows that the chains begin with.
    predictors : Predictors
        The predictors of each column.
    order : tuple of int
        The columns that are regressed, those with the fewest missing cells first.
    n_rounds : int
        Number of times that each column is drawn.
    regressions : list of dict
        For each chain, the regression of each of these columns.
    analyses : list of AnalysisDraw or None
        For each chain, the drawn coefficients of the analysis; None without one.
    trace : ndarray of shape (2, n_chains, n_rounds, n_features)
        Means and standard deviations of the drawn cells of ``fit`` after each round; NaN for other
        columns.
    analysis : Analysis or None
        The analysis of the completed tables.
    passive : sequence of (int, callable, ndarray)
        Columns that are computed from others, the functions from complete rows to their cells, and
        the columns that these functions read.
    """

    density: Any
    predictors: Predictors
    order: tuple[int, ...]
    n_rounds: int
    regressions: list[dict[int, Any]]
    analyses: list[AnalysisDraw | None]
    trace: Floats
    analysis: Analysis | None = None
    passive: Sequence[tuple[int, Callable[[Floats], Floats], Ints]] = ()

    @classmethod
    def fit(
        cls,
        density: Any,
        rows: Any,
        weight: Floats,
        seeds: Sequence[int],
        n_rounds: int,
        analysis: Analysis | None = None,
        passive: Sequence[tuple[int, Any, Ints]] = (),
    ) -> Self:
        """Run the chains on the rows that they learn from.

        Parameters
        ----------
        density : Density
            The distribution of the rows.
        rows : ndarray of shape (n_rows, n_features), or Events
            Encoded, NaN where missing.
        weight : ndarray of shape (n_rows,)
            Positive; a weight of two counts as two rows.
        seeds : sequence of int
            One for each chain.
        n_rounds : int
            Number of rounds.
        analysis : Analysis, default=None
            The analysis of the completed tables.
        passive : sequence of (int, callable, ndarray), default=()
            As in the class.
        """
        domain = density.domain
        events = Events.of(rows)
        # Ranges are drawn first, so that a column of nothing but ranges has scales and levels.
        rows = with_draws(density, events, np.random.RandomState(seeds[0]))
        n_features = rows.shape[1]
        sources = _sources(n_features, analysis, passive)
        predictors = Predictors.fit(domain, rows, weight, sources)
        if analysis is not None:
            predictors = predictors._replace(hazard=analysis.hazard(rows, weight))
        n_missing = np.isnan(rows).sum(axis=0)
        has_regression = (n_missing > 0) & (len(rows) - n_missing >= FEWEST_OBSERVED)
        has_regression &= predictors.is_useful
        has_regression[[column for column, _, _ in passive]] = False
        columns = np.flatnonzero(has_regression)
        order = columns[np.argsort(n_missing[columns], kind="stable")]
        chains = cls(
            density,
            predictors,
            tuple(order.tolist()),
            n_rounds,
            [{} for _ in seeds],
            [None] * len(seeds),
            np.full((2, len(seeds), n_rounds, n_features), np.nan),
            analysis,
            passive,
        )
        chains._run(events, seeds, weight)
        return chains

    def impute(self, rows: Floats | Events, seeds: Sequence[int]) -> Floats:
        """Fill the missing cells of rows by each chain, with the coefficients it has.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features), or Events
            Encoded, NaN where missing.
        seeds : sequence of int
            One for each chain.

        Returns
        -------
        ndarray of shape (n_chains, n_rows, n_features)
        """
        return self._run(Events.of(rows), seeds, None)

    def probabilities(self, chain: int, filled: Floats, column: int) -> Floats:
        """Probabilities of the categories of a column in each complete row, by one chain."""
        regression = self.regressions[chain].get(column)
        if regression is None:
            return np.asarray(self._posterior(filled, column).probabilities)
        design = self._design(filled, column, self._expectation(filled, column))
        if not self._is_covariate(column):
            return np.asarray(regression.probabilities(design))
        # The candidates are all categories.
        return self._candidates(chain, design, filled, column, np.random.RandomState())[1]

    def _run(self, events: Events, seeds: Sequence[int], weight: Floats | None) -> Floats:
        """Fill rows by all chains; given weights, draw the coefficients of the regressions too."""
        missing = ~events.are_stated()
        n_at_a_time = max(1, _CELLS // max(missing.size, 1))
        chains = np.arange(len(seeds))
        # As few groups as the memory allows.
        groups = np.array_split(chains, -(-len(seeds) // n_at_a_time))

        def work(group: Ints) -> Floats:
            random_states = [np.random.RandomState(seeds[chain]) for chain in group]
            return self._run_group(events, missing, group, random_states, weight)

        return np.concatenate(in_threads(work, groups))

    def _run_group(
        self,
        events: Events,
        missing: Bools,
        group: Ints,
        random_states: list[np.random.RandomState],
        weight: Floats | None,
    ) -> Floats:
        """Fill rows by a group of chains, which ask the density about all their rows at once.

        Returns
        -------
        ndarray of shape (n_chains of the group, n_rows, n_features)
        """
        filled = np.array([self.density.draw_missing(events, random) for random in random_states])
        self.compute_passive(filled, missing)
        for round_number in range(self.n_rounds):
            # Draws of covariates are weighed by the analysis, whose coefficients come before them.
            if self.analysis is not None and weight is not None:
                for chain, cells, random in zip(group, filled, random_states):
                    start = self.analyses[chain]
                    draw = self.analysis.draw(cells, missing, weight, random, start)
                    self.analyses[chain] = draw
            for column in self.order:
                is_missing = missing[:, column]
                if not is_missing.any():
                    continue
                # Coefficients need all rows, draws only those without the cell.
                chosen = is_missing if weight is None else np.ones(len(missing), dtype=bool)
                # (n_chains, n_rows, n_features): the density answers for all chains at once.
                group_rows = filled[:, chosen]
                stacked = group_rows.reshape(-1, group_rows.shape[2])
                expectation = self._expectation(stacked, column)
                expectation = expectation.reshape(*group_rows.shape[:2], -1)
                for place, chain in enumerate(group):
                    design = self._design(group_rows[place], column, expectation[place])
                    random = random_states[place]
                    if weight is not None:
                        regression = self._regress(
                            chain, design, group_rows[place], column, is_missing, weight, random
                        )
                        self.regressions[chain][column] = regression
                        design = design[is_missing]
                    filled[place, is_missing, column] = self._drawn(
                        chain, design, filled[place, is_missing], column, random
                    )
            # Regressions cannot read ranges and sets: the density draws such cells anew.
            self._draw_within(events, filled, random_states)
            self.compute_passive(filled, missing)
            if weight is not None:
                for column in self.order:
                    cells = filled[:, missing[:, column], column]
                    moments = cells.mean(axis=1), cells.std(axis=1)
                    self.trace[:, group, round_number, column] = moments
        return filled

    def _draw_within(
        self, events: Events, filled: Floats, random_states: list[np.random.RandomState]
    ) -> None:
        """Draw cells known as ranges and sets given the current other cells, in place."""
        places = np.arange(events.rows.shape[1])
        for column in np.unique(events.column).tolist():
            column_events = events.only(places == column)
            index = np.flatnonzero(np.diff(column_events.ptr))
            stated = column_events.take(index)
            for cells, random in zip(filled, random_states):
                # Of the cell only the range or set is given, of the others their values.
                given = np.where(places == column, np.nan, cells[index])
                drawn = self.density.draw_missing(stated.with_cells(given), random)
                cells[index, column] = drawn[:, column]

    def _design(self, rows: Floats, column: int, expectation: Floats) -> Floats:
        """The terms that a column is regressed on: of its predictors, or of the analysis."""
        if self._is_pooled(column):
            return expectation
        # The outcome is drawn from the very model by which the tables will be analysed.
        if self.analysis is not None and column in self.analysis.outcome:
            return self.analysis.design(rows)
        return self.predictors.design(rows, column, expectation)

    def _is_pooled(self, column: int) -> bool:
        labels = self.predictors.domain[column].states
        return labels is not None and len(labels) > MOST_LEVELS

    def _expectation(self, rows: Floats, column: int) -> Floats:
        """The expectation of the density of a column given its sources; shape (n_rows, n_expected).

        Of a number its mean, on the scale of the regression; of categories their log odds, or log
        probabilities where there are many categories.
        """
        if not self.predictors.domain.is_categorical[column]:
            known = self._known(rows, column)
            mean = self.density.means(known, [column])[:, column]
            return self.predictors.scaled(column, mean)[:, np.newaxis]
        # Smaller probabilities of the density count as this one.
        least_prob = 1e-3
        prob = np.maximum(self._posterior(rows, column).probabilities, least_prob)
        if self._is_pooled(column):
            return np.asarray(np.log(prob))
        return np.asarray(np.log(prob[:, 1:] / prob[:, :1]))

    def _posterior(self, rows: Floats, column: int) -> Any:
        """The distribution of a column given its sources, by the density."""
        return self.density.posteriors(self._known(rows, column), [column])[0]

    def _known(self, rows: Floats, column: int) -> Floats:
        """Rows of which only the sources of a column are known."""
        known = np.full_like(rows, np.nan)
        sources = self.predictors.sources[column]
        known[:, sources] = rows[:, sources]
        return known

    def _regress(
        self,
        chain: int,
        design: Floats,
        rows: Floats,
        column: int,
        is_missing: Bools,
        weight: Floats,
        random_state: np.random.RandomState,
    ) -> ColumnRegression:
        """Draw the coefficients of a column."""
        # The regression of a covariate leaves out the outcome, on which its gaps may depend: so it
        # learns from filled cells too.
        chosen = np.full(len(rows), True) if self._is_covariate(column) else ~is_missing
        cells = rows[chosen, column]
        mass = weight[chosen]
        terms = design[chosen]
        labels = self.predictors.domain[column].states
        if labels is None:
            target = self.predictors.scaled(column, cells)
            return MatchedNumbers.fit(terms, target, cells, mass, random_state)
        states = cells.astype(np.int64)
        if self._is_pooled(column):
            return PooledCategories.fit(terms, states, mass, random_state)
        last = self.regressions[chain].get(column)
        start = None if last is None else last.standardised
        return draw_logit(terms, states, len(labels), mass, random_state, start)

    def _drawn(
        self,
        chain: int,
        design: Floats,
        rows: Floats,
        column: int,
        random_state: np.random.RandomState,
    ) -> Floats:
        """Draw the cells of a column in rows that lack it."""
        if not self._is_covariate(column):
            return np.asarray(self.regressions[chain][column].draw(design, random_state))
        cells, prob = self._candidates(chain, design, rows, column, random_state)
        place = draw_states(prob, random_state)
        return cells[np.arange(len(rows)), place]

    def _candidates(
        self,
        chain: int,
        design: Floats,
        rows: Floats,
        column: int,
        random_state: np.random.RandomState,
    ) -> tuple[Floats, Floats]:
        """Candidates for cells of a covariate, and their probabilities given the outcome too."""
        regression = self.regressions[chain][column]
        analysis = cast(Analysis, self.analysis)
        proposals = Proposals.of(regression, design, random_state, self.predictors, column)
        prob = analysis.weighed(self.analyses[chain], proposals, rows, column)
        return proposals.cells, prob

    def _is_covariate(self, column: int) -> bool:
        return self.analysis is not None and column in self.analysis.covariates

    def compute_passive(self, filled: Sequence[Floats] | Floats, missing: Bools) -> None:
        """Compute the columns that are functions of others, in place."""
        for column, function, _ in self.passive:
            is_missing = missing[:, column]
            if is_missing.any():
                for rows in filled:
                    rows[is_missing, column] = function(rows[is_missing])


def with_draws(density: Any, events: Events, random_state: np.random.RandomState) -> Floats:
    """Encoded rows in which draws of a density stand for ranges and sets; gaps stay."""
    if not events.has_intervals:
        return events.rows
    return np.where(events.are_stated(), density.draw_missing(events, random_state), np.nan)


def _sources(n_features: int, analysis: Analysis | None, passive: Sequence[Any]) -> list[Ints]:
    """The columns that each column may be predicted from."""
    sources = []
    for column in range(n_features):
        allowed = np.ones(n_features, dtype=bool)
        allowed[column] = False
        if analysis is not None and column in analysis.covariates:
            allowed[list(analysis.outcome)] = False
        # A column computed from this one would reveal it.
        for computed, _, read in passive:
            if column in read:
                allowed[computed] = False
        sources.append(np.flatnonzero(allowed))
    return sources


def drifting_columns(trace: Floats, spread: Floats) -> Ints:
    """Columns whose drawn cells still change from round to round in one direction.

    Chains are independent. So t-tests over the chains, with Bonferroni's correction, tell whether
    the means of the cells change between the middle and the last round, and whether their standard
    deviations do.

    Parameters
    ----------
    trace : ndarray of shape (2, n_chains, n_rounds, n_features)
        Means and standard deviations of the drawn cells; NaN in columns that are not drawn.
    spread : ndarray of shape (n_features,)
        Standard deviations of the columns.

    Returns
    -------
    ndarray of int
        Numbers of the columns. With fewer than three rounds or chains there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.imputation.chains import drifting_columns
    >>> noise = np.random.default_rng(0).normal(size=(2, 20, 5, 1))
    >>> drift = 2.0 * np.arange(5.0)[:, np.newaxis]
    >>> drifting_columns(noise, np.ones(1)).size
    0
    >>> drifting_columns(noise + drift, np.ones(1))
    array([0])
    """
    n_chains, n_rounds = trace.shape[1:3]
    if n_chains < 3 or n_rounds < 3:
        return np.empty(0, dtype=np.int64)
    change = trace[:, :, -1] - trace[:, :, (n_rounds - 1) // 2]
    mean = change.mean(axis=1)
    error = change.std(axis=1, ddof=1) / np.sqrt(n_chains)
    # Columns that are not drawn have NaN; where all chains change alike, the error is zero.
    with np.errstate(divide="ignore", invalid="ignore"):
        pvalue = 2.0 * stats.t.sf(np.abs(mean) / error, n_chains - 1)
    # There are two tests, of mean and standard deviation, for each column that is drawn.
    n_tests = np.isfinite(mean).sum()
    # A drift of less than this part of the spread of the column changes no analysis.
    least_drift = 0.05
    is_drift = (pvalue * n_tests < FALSE_ALARMS) & (np.abs(mean) > least_drift * spread)
    return np.flatnonzero(is_drift.any(axis=0))
