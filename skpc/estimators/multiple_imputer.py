"""Several completions of a table, each under parameters of its own."""

from collections.abc import Callable
from dataclasses import field
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Bools, Floats, Ints, copies, owners
from skpc._fitting import all_or_nothing, progress, with_some_cell
from skpc._random import draw_states
from skpc._threads import in_threads, threads
from skpc._validation import AT_LEAST_ONE, Interval, StrOptions, fit_context
from skpc._warnings import warn
from skpc.domain import canonical_order, column_moments
from skpc.domain.stated import holds_ranges
from skpc.estimators._base import CircuitDensity
from skpc.estimators._estimator import TableEstimator, parameter
from skpc.estimators._ranges import merged_events
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.hidden_chow_liu import HiddenChowLiuTree
from skpc.estimators.table_mixture import TableMixture
from skpc.imputation import CombinedEstimates, combine_estimates
from skpc.imputation.analysis import read_analysis
from skpc.imputation.chains import FALSE_ALARMS, Chains, drifting_columns, with_draws
from skpc.imputation.passive import read_passive
from skpc.imputation.products import find_model
from skpc.learning.posterior import bootstrapped
from skpc.pooling.choice import fit_best
from skpc.queries import Events


class MultipleImputer(TableEstimator):
    """Complete a table several times, so that analyses know what the missing cells cost.

    The analysis of one completed table takes guesses for data: its intervals are too short. This
    estimator returns several tables, each drawn with coefficients or parameters that are drawn too;
    :meth:`combine` runs an analysis on each table and combines the results by Rubin's rules.

    Parameters
    ----------
    density : density estimator, default=None
        The model of the rows, a circuit such as :class:`TableMixture` (the Gaussian mixture with
        missing data); it is cloned. None takes :class:`TableMixture` for regressions; of about
        twenty numbers and more these ask its heaviest parts alone, half of the weight. For
        ``draws="density"`` it takes :class:`CutsetNetworkBD`, :class:`HiddenChowLiuTree` or
        :class:`TableMixture`, also with ``n_components="states"``, whichever gives removed cells of
        held-out rows the greatest density.
    n_imputations : int, default=20
        Number of tables, at least two.
    draws : {"regressions", "density"}, default="regressions"
        Where cells come from (see Notes). "regressions": chains of regressions of each column on
        the others and on what the density expects; for analyses of the tables, regressions above
        all. "density": the joint distribution of the density; for answers that must agree with
        those of the density.
    n_rounds : int, default=5
        How often each chain draws each column. Without effect with ``draws="density"``.
    model : tuple or str, default=None
        The analysis that the tables are meant for: an outcome (a name) and a list of predictors,
        names or tuples of names for their products, such as
        ``("wage", ["school", ("school", "school")])``. A number is regressed linearly, a column of
        two categories by log odds; a pair (time, event) as the outcome stands for proportional
        hazards of complete times, an event being True, 1, or the second category of a dtype with
        categories. Or a formula, ``"wage ~ school + I(school**2)"``, where formulaic or patsy is
        installed. Covariates are then drawn from what both their regressions and the analysis say
        of them. A missing outcome is drawn from the analysis alone. None looks for products (see
        Notes).
    passive : dict, default=None
        Columns that are functions of others, such as
        ``{"bmi": lambda t: t["weight"] / t["height"] ** 2}``: their missing cells are computed in
        each round. A function takes a table of complete rows.
    parameters : {"posterior", "bootstrap", "fixed"}, default="posterior"
        With ``draws="density"`` alone: how parameters differ between tables (see Notes).
        "bootstrap": EM fits them again, until it converges, to rows with random weights.
        "posterior": data augmentation goes on from there; it takes longer, and intervals are wide
        enough in small tables too. "fixed": all tables have those of the density; intervals are
        then too short where many cells are missing.
    random_state : int, RandomState instance or None, default=None
        Seeds the default density, the coefficients, and the draws, anew at each call of
        :meth:`impute`: the same seed completes the same table alike.
    n_jobs : int, default=None
        Number of threads, which work on several tables at a time. None means 1 unless in a
        ``joblib.parallel_config`` context, and -1 all cores. The result is the same.
    verbose : int, default=0
        With 1, a progress bar of the tables, and those of the default densities.

    Attributes
    ----------
    density_ : density estimator
        The density of all rows.
    densities_ : list of density estimator
        That of each table; with regressions ``density_`` for all of them.
    model_ : tuple, str or None
        The ``model``; or, with regressions, a linear one with products that complete rows speak
        for. None without any.
    trace_ : ndarray of shape (2, n_imputations, n_rounds, n_features) or None
        Means and standard deviations of the cells that each chain of ``fit`` has drawn, after each
        round, as :class:`skpc.plotting.ImputationDisplay` draws them: numbers in their units, codes
        of categories, NaN for columns that are not drawn. None with ``draws="density"``.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    CircuitImputer : Fills a table once: the best guesses, or one draw.
    skpc.imputation.combine_estimates : Rubin's rules.
    skpc.imputation.long_table : Several imputed tables as one.

    Notes
    -----
    **Regressions.** A chain begins with draws of the density. In each round every column with
    missing cells, those with the fewest first, is regressed on all others as they are filled now,
    and on what the density expects of it given these: its mean, or the log odds of its categories
    (fully conditional specification [4]_, with a density among the predictors). Coefficients are
    drawn from their posterior. Numbers are drawn by predictive mean matching (type 1) with five
    donors, ordered states by matching on their ranks, categories from a multinomial logistic
    regression; with more than 12 categories one coefficient of the log probabilities of the density
    serves all. So each cell is a value that its column has had. ``fit`` keeps the last coefficients
    and donors of each chain, with which :meth:`impute` completes any rows, also one by one.

    Columns with fewer than 20 observed cells, and columns that were complete in ``fit`` but are not
    in :meth:`impute`, get draws of the density. Columns that name the rows are no predictors. Of a
    column of categories the 13 most frequent ones are told apart. Weights are counts.

    Cells known as ranges or sets are drawn within them, by the density given the other cells as
    they are filled now; regressions learn from these draws too. Neither ``delta`` nor ``passive``
    moves them.

    With ``model`` the covariates of the analysis have regressions without its outcome, from all
    rows as they are filled now. Fifty candidates for a missing number, or all categories, are
    weighed by the density of the outcome given the row with each of them, under drawn coefficients
    (substantive-model compatible imputation [5]_). Errors of a linear analysis are normal; or its
    outcomes are spread as those of the rows with the nearest predictions (fifty, at most a fifth
    of the known ones), if these say more of other rows: counts, and amounts with zeros, are no line
    with normal errors.

    Without ``model`` numbers are regressed on all other columns, their products and their squares,
    of which those stay that are two standard errors from zero. The regression that gains most by
    them is the model, if the rows without missing cells, each left out once, speak for it: their
    log density is 1.5 standard errors above that of columns alone (by chance in one of two hundred
    tables of sums), and not three below what the density says. Numbers with atoms are no outcomes,
    as their errors are not normal; there are at least five complete rows for each term, and at most
    a hundred terms.

    A warning says where means or spreads of chains still change between the middle and the last
    round; it is given for one in a thousand fits whose chains have settled.

    **The density.** With "bootstrap" the weights of the rows have a Dirichlet(1, ..., 1)
    distribution (the Bayesian bootstrap [1]_), times the number of rows. Maximum likelihood
    estimates under such weights, the missing cells summed out, are approximate draws from the
    posterior of the parameters; then cells are drawn (expectation maximisation with bootstrapping
    [2]_).

    With "posterior" ten steps of data augmentation [3]_ follow: cells are drawn, then the
    parameters given the completed rows. Those of a :class:`TableMixture` are drawn from their
    posterior, given the component of each row, which is drawn too: Dirichlet weights and tables,
    means and covariances from a normal-inverse-Wishart distribution under Jeffreys' prior. Other
    densities get random weights of the completed rows; for a deterministic circuit that is the
    Dirichlet posterior. The bootstrap alone has residual variances that are too small where rows
    are few: those of a regression on p columns by about 2p / n.

    A :class:`TableMixture` whose parameters are drawn draws numbers beyond the observed ones, too:
    cells that are missing at random, but not completely so, may be greater. So that components of
    few observed cells do not drift away from step to step, each has some rows more that are like
    itself before the first step. State the ``bounds`` of columns that have any.

    What is ignored: the structure of the density, its number of components, bins, atoms and the
    scores of its numbers are the same in all tables. Cells are assumed to be missing at random:
    given the observed cells, it does not matter which cells are missing.

    All columns of the analysis belong into ``X``, the outcome too. Cells that are drawn without it
    do not depend on it, which draws its coefficients towards zero.

    References
    ----------
    .. [1] D. B. Rubin. "The Bayesian Bootstrap". The Annals of Statistics 9(1), 1981.
    .. [2] J. Honaker, G. King. "What to Do about Missing Values in Time-Series Cross-Section Data".
           American Journal of Political Science 54(2), 2010.
    .. [3] M. A. Tanner, W. H. Wong. "The Calculation of Posterior Distributions by Data
           Augmentation". Journal of the American Statistical Association 82(398), 1987.
    .. [4] S. van Buuren. "Multiple Imputation of Discrete and Continuous Data by Fully Conditional
           Specification". Statistical Methods in Medical Research 16(3), 2007.
    .. [5] J. W. Bartlett, S. R. Seaman, I. R. White, J. R. Carpenter. "Multiple Imputation of
           Covariates by Fully Conditional Specification: Accommodating the Substantive Model".
           Statistical Methods in Medical Research 24(4), 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import MultipleImputer
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=300)
    >>> X = np.column_stack([x, 2.0 * x + rng.normal(size=300)])
    >>> X[rng.random(300) < 0.4, 1] = np.nan
    >>> imputer = MultipleImputer(n_imputations=5, random_state=0).fit(X)
    >>> len(imputer.impute(X))
    5
    >>> def mean_of_y(table):
    ...     return table[:, 1].mean(), table[:, 1].var() / len(table)
    >>> means = imputer.combine(X, mean_of_y, df_complete=299)
    >>> bool(means.conf_int()["lower"][0] < 0.0 < means.conf_int()["upper"][0])
    True
    """

    density: Any = field(default=None, kw_only=False)
    n_imputations: int = parameter(20, Interval(Integral, 2, None, closed="left"))
    draws: str = parameter("regressions", StrOptions({"regressions", "density"}))
    n_rounds: int = parameter(5, AT_LEAST_ONE)
    model: Any = parameter(None)
    passive: Any = parameter(None, dict, None)
    parameters: str = parameter("posterior", StrOptions({"bootstrap", "posterior", "fixed"}))

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the density, and draw its parameters for each table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells. A cell may be a range or a
            set.
        y : Ignored
            Present for the API of scikit-learn. The outcome of an analysis is a column of ``X``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        MultipleImputer
            The fitted imputer.

        Raises
        ------
        TypeError
            If the density is not one of skpc that is a circuit.
        ValueError
            If the density refuses the table: no value at all, an infinite cell, bad weights; if
            ``model`` or ``passive`` do not fit the table.

        Warns
        -----
        ConvergenceWarning
            If the draws of a column still change from round to round.
        """
        with all_or_nothing(self), threads(self.n_jobs):
            if not isinstance(self.density, CircuitDensity | None):
                raise TypeError(
                    "MultipleImputer needs a density that is a circuit, whose parameters can be "
                    f"drawn; found {self.density!r}. Give one such as TableMixture()."
                )
            is_chained = self.draws == "regressions"
            if not is_chained and (self.model is not None or self.passive is not None):
                raise ValueError(
                    "model and passive are part of the regressions of columns, which "
                    f"draws={self.draws!r} does not have; leave them out, or take "
                    'draws="regressions".'
                )
            table, weight, _ = self._training_rows(X, sample_weight)
            seeds, _ = self._seeds()
            density = self.density
            # Held-out cells that are ranges say nothing of which default density is best.
            if density is None and (is_chained or holds_ranges(table)):
                density = TableMixture(random_state=self.random_state, verbose=self.verbose)
            if density is None:
                self.density_: Any = self._fit_default(table, weight)
            else:
                self.density_ = clone(density).fit(table, sample_weight=weight)
            events, weight = self._distinct_events(table, weight)
            self.densities_ = [self.density_] * self.n_imputations
            self.model_: Any = self.model
            self._chains: Chains | None = None
            self.trace_: Floats | None = None
            # Equal rows have different cells.
            n_copies = copies(weight)
            index = owners(n_copies)
            events = events.take(index)
            # The copies of a row share its weight.
            weight = np.repeat(weight / n_copies, n_copies)
            if is_chained:
                self._chains = self._fit_chains(events, weight, seeds)
            elif self.parameters != "fixed":
                with progress(self.n_imputations, "tables", self.verbose) as advance:
                    # Steps of data augmentation: they start from what is nearly a draw.
                    n_steps = 10 if self.parameters == "posterior" else 0
                    draw = partial(_drawn, self.density_, events, weight, n_steps, advance)
                    self.densities_ = in_threads(draw, seeds.tolist())
        return self

    def _distinct_events(self, table: Any, weight: Floats) -> tuple[Events, Floats]:
        """Distinct encoded rows, and their weights."""
        events, weight, _ = merged_events(self.density_.encode_events(table)[1], weight)
        # Draws stand for ranges; they only tell how columns spread, and need no seed of the user's.
        cells = with_draws(self.density_.row_density, events, np.random.RandomState(0))
        self._was_incomplete = np.asarray(np.isnan(cells).any(axis=0))
        self._sd = column_moments(cells, weight)[1]
        if events.has_intervals:
            return events, weight
        domain = self.density_.domain_
        distinct = with_some_cell(domain, events.rows, weight)
        rows, weight = canonical_order(*distinct, domain.is_categorical).arranged(*distinct)
        return Events.of(rows), weight

    def impute(self, X: Any, delta: dict[Any, Any] | None = None) -> list[Any]:
        """Complete a table several times.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells, and a cell may be a range or a set. Mostly the
            rows of ``fit``.
        delta : dict, default=None
            How missing cells differ from observed ones in equal rows. The data cannot tell it: try
            several values (delta-adjusted pattern mixture). From columns (names or numbers) to
            standard deviations, which are added to drawn numbers; or, in a column of categories, to
            a dict from categories to what is added to their log odds given all other cells of the
            row, zero for the rest. A column of two categories takes a number instead, for the
            second of them (True of False and True). Other columns stay as they are drawn. Numbers
            stay between the ends of their columns; a warning says how many would not.

        Returns
        -------
        list of ndarray or DataFrame of shape (n_samples, n_features)
            ``n_imputations`` tables of the kind of ``X``, with its names and dtypes. Observed cells
            are the same in all.

        Raises
        ------
        ValueError
            If ``delta`` names a column or a category that does not exist, or what it says of one
            is not finite.
        TypeError
            If ``delta`` is no dict, or has no number for a column of numbers, or no dict for one of
            several categories.
        """
        check_is_fitted(self)
        # The first line of the seeds was for parameters, in fit.
        seeds = self._seeds()[1].tolist()
        table, events = self.density_.encode_events(X)
        # A cell that is known as a range is not missing, and delta leaves it alone.
        missing = ~events.are_stated()
        shift, log_odds = self._shifts(delta)
        chains = self._chains
        with threads(self.n_jobs):
            if chains is None:
                draw_missing = partial(_drawn_cells, events)
                drawn = in_threads(draw_missing, zip(self.densities_, seeds))
                probabilities = [partial(_posterior, density) for density in self.densities_]
            else:
                self._check_gaps(chains, missing, shift, log_odds)
                drawn = list(chains.impute(events, seeds))
                probabilities = [
                    partial(chains.probabilities, chain) for chain in range(len(drawn))
                ]
            for filled, cell_probabilities, seed in zip(drawn, probabilities, seeds):
                # Another stream than that of the cells, which begins with the seed itself.
                random_state = np.random.RandomState(seed + 1)
                _adjust(missing, log_odds, filled, cell_probabilities, random_state)
            return self._shifted(table, missing, drawn, shift)

    def _check_gaps(
        self, chains: Chains, missing: Bools, shift: Floats, log_odds: dict[int, Floats]
    ) -> None:
        """Refuse to move columns that are computed; warn of gaps that no regression fills."""
        domain = self.density_.domain_
        computed = [column for column, _, _ in chains.passive]
        if shift[computed].any() or {*computed} & {*log_odds}:
            raise ValueError(
                "delta must leave out columns that passive computes; found some of "
                f"{[domain[column].where for column in computed]}. Move the columns that these "
                "are functions of."
            )
        surprising = missing.any(axis=0) & ~self._was_incomplete
        # Regressions fill the columns of the chains, and functions the passive ones.
        surprising[[*chains.order, *computed]] = False
        if surprising.any():
            names = [domain[column].where for column in np.flatnonzero(surprising)]
            warn(
                f"Cells are missing in {', '.join(names)}, where none was in fit: they are drawn "
                "from the density, not by a regression. Fit to a table that lacks such cells."
            )

    def _shifted(self, table: Any, missing: Bools, drawn: list[Floats], shift: Floats) -> list[Any]:
        """Filled tables, the drawn numbers moved by ``shift``; shape (n_features,)."""
        domain = self.density_.domain_
        # (n_rows, n_features), zero for cells that were not missing.
        shift = np.where(missing, shift, 0.0)
        drawn = [filled + shift for filled in drawn]
        if self._chains is not None:
            # Passive columns follow once the columns that they are functions of have moved.
            self._chains.compute_passive(drawn, missing)
        beyond = [(filled != domain.within_ends(filled))[shift != 0.0] for filled in drawn]
        if np.any(beyond):
            share = f"{np.mean(beyond):.1%} of the draws that delta has moved"
            warn(f"{share} lay beyond the ends of their columns, or between ordered states.")
        return [domain.fill(table, filled) for filled in drawn]

    def _fit_chains(self, events: Events, weight: Floats, seeds: Ints) -> Chains:
        """Run the chains of regressions on the rows of ``fit``."""
        # Numbers in the covariances of the default mixture that chains ask, and else the share of
        # its weight: they ask about each row for each column in each round.
        size_asked = 10_000.0
        share_asked = 0.5
        # A density that the user chose is asked as it is.
        density_asked = (
            self.density_ if self.density else self.density_.heaviest(size_asked, share_asked)
        )
        density = density_asked.row_density
        rows = events.rows
        passive = read_passive(self.passive or {}, density.domain, rows)
        if self.model is None:
            computed = [column for column, _, _ in passive]
            self.model_ = find_model(density, rows, weight, computed)
        analysis = None
        if self.model_ is not None:
            analysis = read_analysis(self.model_, density.domain, rows)
        chains = Chains.fit(
            density, events, weight, seeds.tolist(), self.n_rounds, analysis, passive
        )
        numbers = drifting_columns(chains.trace, self._sd)
        drifting = [density.domain[column].where for column in numbers]
        if drifting:
            warn(
                f"Draws of {', '.join(drifting)} still change from round to round after "
                f"{self.n_rounds}; give more (n_rounds), and look at the chains "
                "(skpc.plotting.ImputationDisplay). Chains that have "
                f"settled are warned about in {FALSE_ALARMS:.1%} of fits.",
                ConvergenceWarning,
            )
        self.trace_ = chains.trace
        return chains

    def fit_impute(self, X: Any, y: Any = None, sample_weight: Any = None) -> list[Any]:
        """Fit to a table, and complete it several times.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in ``fit``.

        Returns
        -------
        list of ndarray or DataFrame of shape (n_samples, n_features)
            See :meth:`impute`.
        """
        return self.fit(X, sample_weight=sample_weight).impute(X)

    def combine(
        self,
        X: Any,
        analysis: Callable[[Any], Any],
        df_complete: float | None = None,
        transform: str | None = None,
        delta: dict[Any, Any] | None = None,
    ) -> CombinedEstimates:
        """Complete a table several times, analyse each, and combine the results.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. It has all columns of the analysis.
        analysis : callable
            Takes a completed table. Returns a fitted model of statsmodels, or estimates and their
            variances: two numbers, two vectors, or a vector and its covariance matrix.
        df_complete : float, default=None
            See :func:`~skpc.imputation.combine_estimates`. None reads it from a fitted model
            (``df_resid``), and takes it as infinite otherwise.
        transform : {"fisher", "logit"}, default=None
            See :func:`~skpc.imputation.combine_estimates`.
        delta : dict, default=None
            See :meth:`impute`.

        Returns
        -------
        CombinedEstimates
            The combined estimates.

        Raises
        ------
        TypeError
            If the analysis returns something else, or a penalised model: no variance covers the
            bias of its estimates.
        ValueError
            If the analysis needs a column that ``X`` does not have.
        """
        try:
            results = [analysis(table) for table in self.impute(X, delta)]
        except Exception as error:
            # Formulas of statsmodels wrap the error about a name.
            if not isinstance(error.__cause__ or error, KeyError | NameError):
                raise
            raise ValueError(
                f"The analysis needs a column that X lacks ({error.__cause__ or error}). Fit the "
                "imputer to a table with all columns of the analysis, the outcome among them; "
                "cells drawn without a column do not depend on it."
            ) from error
        estimates, variances, df = zip(*map(_estimates, results))
        # All results come from one analysis, so that the first tells the degrees of freedom.
        df_complete = df[0] if df_complete is None else df_complete
        return combine_estimates(list(estimates), list(variances), df_complete, transform)

    def _shifts(self, delta: Any) -> tuple[Floats, dict[int, Floats]]:
        """What is added to each number, zero mostly; and to the log odds of categories."""
        delta = {} if delta is None else delta
        if not isinstance(delta, dict):
            raise TypeError(
                "delta must be a dict from columns to standard deviations, such as "
                f'{{"income": -0.2}}, or to log odds of categories; found {delta!r}'
            )
        domain = self.density_.domain_
        shift = np.zeros(domain.n_features)
        log_odds: dict[int, Floats] = {}
        for name, column in zip(delta, domain.column_numbers_of([*delta], "delta").tolist()):
            labels = domain[column].states
            if labels is not None:
                log_odds[column] = _log_odds(name, labels.tolist(), delta[name])
            elif isinstance(delta[name], Real):
                shift[column] = delta[name]
            else:
                raise TypeError(
                    f"delta of the numbers in {name!r} must be standard deviations to add, such as "
                    f"-0.2; found {delta[name]!r}"
                )
        if not all(np.isfinite(amount).all() for amount in (shift, *log_odds.values())):
            raise ValueError(f"delta must be finite; found {delta!r}")
        return shift * self._sd, log_odds

    def _seeds(self) -> Ints:
        """Seeds of the parameters, and of the cells, of each table; shape (2, n_imputations)."""
        random_state = check_random_state(self.random_state)
        return random_state.randint(2**31 - 1, size=(2, self.n_imputations))

    def _fit_default(self, table: Any, weight: Floats) -> Any:
        by_states = partial(TableMixture, n_components="states")
        classes: list[Any] = [CutsetNetworkBD, HiddenChowLiuTree, TableMixture, by_states]
        densities = [
            density_class(random_state=self.random_state, verbose=self.verbose)
            for density_class in classes
        ]
        domain, rows, weight = densities[0].prepare(table, weight)
        # Gaussian mixtures are for tables with numbers.
        if domain.is_categorical.all():
            densities = densities[:2]
        return fit_best(densities, domain, rows, weight, self.random_state, 0.0)


def _drawn(
    density: Any,
    events: Events,
    weight: Floats,
    n_steps: int,
    advance: Callable[[float], object],
    seed: int,
) -> Any:
    """The density under random weights of the rows, and after steps of data augmentation."""
    random_state = np.random.RandomState(seed)
    # EM reads rows, not events: draws stand for ranges.
    cells = with_draws(density.row_density, events, random_state)
    density = start = density.reweighted(*bootstrapped(cells, weight, random_state))
    # The first estimate goes along: it can keep small components from drifting away.
    for _ in range(n_steps):
        filled = density.row_density.draw_missing(events, random_state)
        density = density.redrawn(filled, weight, random_state, start)
    advance(1)
    return density


def _log_odds(name: Any, labels: list[Any], delta: Any) -> Floats:
    """What is added to the log odds of each category of a column."""
    # Of two categories the second is meant, as in log odds.
    if isinstance(delta, Real) and len(labels) == 2:
        delta = {labels[1]: delta}
    if not isinstance(delta, dict):
        raise TypeError(
            f"delta of {name!r} must be a dict from categories to what is added to their log odds, "
            f"such as {{{labels[0]!r}: 0.5}}; found {delta!r}"
        )
    unknown = [label for label in delta if label not in labels]
    if unknown:
        raise ValueError(
            f"delta of {name!r} has {unknown[0]!r}, which is none of its categories: {labels}"
        )
    return np.array([delta.get(label, 0.0) for label in labels], float)


def _posterior(density: Any, filled: Floats, column: int) -> Floats:
    """Probabilities of the categories of a column given the other cells of complete rows."""
    known = filled.copy()
    known[:, column] = np.nan
    return density.row_density.posteriors(known, [column])[0].probabilities


def _drawn_cells(events: Events, task: tuple[Any, int]) -> Floats:
    """The rows with missing cells drawn by a density, with a seed."""
    density, seed = task
    return density.row_density.draw_missing(events, np.random.RandomState(seed))


def _adjust(
    missing: Bools,
    log_odds: dict[int, Floats],
    drawn: Floats,
    probabilities: Callable[[Floats, int], Floats],
    random_state: np.random.RandomState,
) -> None:
    """Give the drawn categories of encoded rows other log odds, in place."""
    for column, added in log_odds.items():
        lost = missing[:, column]
        code = drawn[lost, column].astype(np.int64)
        # Codes of shape (n_missing,), and below probabilities of shape (n_missing, n_categories).
        before = probabilities(drawn[lost], column)
        # Less the greatest, so that no exponential is infinite.
        after = before * np.exp(added - added.max())
        after /= after.sum(axis=1, keepdims=True)
        # A category that becomes rarer is left by as many draws as it has to lose.
        each = np.arange(len(code))
        stays = random_state.random_sample(len(code)) * before[each, code] < after[each, code]
        # What leaves goes where probabilities rise, in proportion to the rise.
        changed = draw_states(np.maximum(after - before, 0.0), random_state)
        drawn[lost, column] = np.where(stays, code, changed)


def _estimates(result: Any) -> tuple[Any, Any, float | None]:
    """Estimates, variances, and degrees of freedom where a fitted model knows them."""
    # Results of statsmodels come in wrappers, which hide their class.
    inner = getattr(result, "_results", result)
    is_penalised = type(inner).__name__.startswith(("L1", "Regularized", "GLMGam"))
    if is_penalised or isinstance(result, BaseEstimator):
        raise TypeError(
            f"An analysis must return estimates with variances; found {result!r}. Penalised "
            "estimates are biased, and no variance covers that; scikit-learn's have none. Take a "
            "model without a penalty, such as statsmodels' OLS or Logit."
        )
    if hasattr(result, "params") and hasattr(result, "cov_params"):
        return result.params, result.cov_params(), getattr(result, "df_resid", None)
    if isinstance(result, tuple) and len(result) == 2:
        return *result, None
    raise TypeError(
        "An analysis must return a fitted model of statsmodels (params and cov_params), or a pair "
        f"of estimates and variances; found {result!r}"
    )
