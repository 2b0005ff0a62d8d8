"""Regression of incomplete rows by a pool of densities."""

from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_consistent_length, check_random_state

from skpc._arrays import Floats, Ints
from skpc._fitting import all_or_nothing
from skpc._threads import slices
from skpc._validation import check_n_samples, check_weight, fit_context
from skpc._warnings import warn
from skpc.domain import Domain, LogMass
from skpc.estimators._answers import by_chunks
from skpc.estimators._censored_targets import (
    CensoredTarget,
    check_times,
    concordance,
    is_censored,
    known_quantiles,
)
from skpc.estimators._estimator import parameter
from skpc.estimators._pools import (
    FEW_ROWS,
    PoolEstimator,
    check_rates,
    most_bins,
    refuse_without_ranges,
    shared_domain,
)
from skpc.estimators._ranges import merged_events
from skpc.estimators._targets import check_target
from skpc.estimators.hidden_chow_liu import HiddenChowLiuTree
from skpc.estimators.soft_learn import SoftLearnSPN
from skpc.estimators.table_mixture import PoolMixture
from skpc.pooling.censored import CensoredData, cumulative_incidences, log_scores
from skpc.pooling.folds import given_splits
from skpc.pooling.numbers import NumberData, value_law
from skpc.pooling.pool import Member, labelled
from skpc.queries import Events
from skpc.variables import Predictive
from skpc.variables.dates import Calendar, as_dates

#: Rows whose predictive distributions are held at a time.
_ROWS = 1024


class DensityRegressor(RegressorMixin, PoolEstimator):
    """Regressor by a pool of densities, for rows with any cells missing.

    A joint density of a row and its target gives the whole distribution of the target given the
    cells that are there; missing cells are integrated out, in ``fit`` and in ``predict``. Several
    densities, and boosting that is trained on copies of the rows with cells removed, are pooled:
    the prediction is a mixture of theirs, whose weights are learned on held-out rows with cells
    removed. All answers come from that one distribution: its mean and standard deviation, its
    quantiles, densities and draws.

    Parameters
    ----------
    density : density estimator or list of (str, estimator), default=None
        Densities of skpc, which learn the rows with the target as a last column. They are cloned,
        and keep their own ``random_state``; they share one Domain, and must declare the same
        columns. None means a :class:`HiddenChowLiuTree` and, up to 1,500 distinct rows, a
        :class:`TableMixture`; of more rows a :class:`SoftLearnSPN` with ``min_weight=60``, which
        costs less and knows more.
    regressors : sequence or None, default=("boosting", "ridge")
        Further members. "boosting": ``HistGradientBoostingRegressor``, whose leaves, learning rate
        and number of iterations are chosen on held-out rows. "ridge": ridge regression on scores of
        numbers and indicators of categories, missing ones filled by their means given the others
        under a normal distribution. A pair (name, regressor): any regressor that takes missing
        cells. It learns from encoded rows (``domain_.encode(X)``: numbers, and codes of
        categories), for the target less its mean over its standard deviation. All are trained three
        times on one copy of the rows for each of ``missing_rates``, and their predictions averaged
        (once, where members are weighed); but one whose ``predict`` has ``return_std``, such as
        :class:`ExpectedKernelSVR`, learns once from the rows as they are, and its own variance
        counts. None: no such member.
    cv : int, cross-validation generator or iterable, default=3
        Folds in which members are learned to weigh them: a number, a splitter of scikit-learn, or
        pairs of row numbers (train, test). A number deals rows at random; with more than 10,000
        distinct rows, it holds out one part instead.
    missing_rates : sequence of float, default=(0.0, 0.3, 0.6)
        Held-out rows are predicted once for each of these rates, with this proportion of their
        cells removed at random.
    n_jobs : int, default=None
        Number of members and folds learned at a time, by joblib; None means 1 unless in a
        ``joblib.parallel_config`` context, and -1 all cores. The result is the same.
    random_state : int, RandomState instance or None, default=None
        Deals the folds, removes cells, and seeds boosting and the default densities.
    verbose : int, default=0
        With 1, a progress bar counts the members learned, from all rows and without each fold (a
        line at the end where tqdm is not installed).

    Attributes
    ----------
    member_names_ : list of str
        The members of the pool, densities first.
    weights_ : ndarray of shape (n_members,)
        Mean weight of each member over held-out rows. A member whose weight is zero was not learned
        again from all rows.
    log_density_ : float
        Mean log density of held-out targets under the pool, over all ``missing_rates``, in nats.
        Weights were fitted to it. NaN without a pool.
    member_log_densities_ : ndarray of shape (n_members,)
        Mean log densities of the members alone. NaN without a pool.
    densities_ : dict of str to density estimator
        The fitted densities of encoded rows by the name of the member. Their last column is the
        target; that of the cause comes before it, where events have several codes.
    event_codes_ : ndarray of int of shape (n_causes,) or None
        Codes of events, where a censored target has several.
    domain_ : Domain
        What each column of ``X`` is.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    DensityClassifier : The same for classes.
    ExpectedKernelSVR : Support vector regression with expectations over missing cells.

    Notes
    -----
    Member m gives the target y of a row x :math:`p_m(y \\mid x)`, and the pool [2]_

    .. math::

       p(y \\mid x) = \\sum_m w_m(x) \\, p_m(y \\mid x), \\qquad
       w_m(x) \\propto \\exp(a_m + b_m o + c_m \\log v),

    where o is the observed fraction of the cells of the row, and v the variance of y under the
    mixture of the densities alone. The coefficients maximise, on held-out rows, the mean log
    density of the pool plus that of a normal distribution around its mean, less a small penalty.

    A regressor predicts a mean. Around it stands a scale mixture of normal distributions, whose
    variance depends on o and v, learned from the residuals of held-out rows: from a quarter to four
    times as wide, each with weights of its own.

    Where the target has atoms (values that repeat much more than others) regressors learn from the
    other rows and predict the other values. The densities give the probabilities of the atoms.

    Targets may be known as ranges: times that are censored, or lie between two visits. Densities
    that are circuits learn from such rows; regressors stay out. Weights of the densities are the
    same for all rows, and maximise the mean log score of held-out targets, of which ranges count
    with their probability. Whether a target is censored must not depend on what no column says.

    A pool costs about as much as to fit each member ``cv + 1`` times. With one density and
    ``regressors=None`` there is no pool: the answer is the exact conditional distribution
    [1]_.

    References
    ----------
    .. [1] Z. Ghahramani, M. Jordan. "Supervised Learning from Incomplete Data via an EM Approach".
       NIPS 1993.
    .. [2] D. Wolpert. "Stacked Generalization". Neural Networks 5, 1992.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import DensityRegressor, SoftLearnSPN
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=500)
    >>> model = DensityRegressor(SoftLearnSPN(random_state=0), random_state=0).fit(
    ...     X, y
    ... )
    >>> mean, sd = model.predict([[1.0, 1.0], [1.0, np.nan]], return_std=True)
    >>> mean.round(), sd.round()
    (array([2., 1.]), array([0., 1.]))
    """

    regressors: Any = parameter(("boosting", "ridge"), "array-like", None)

    #: The last target or censored time that was seen; infinite where no target is a range.
    _last: float = field(default=np.inf, init=False)
    _default_densities = (
        ("hidden", HiddenChowLiuTree()),
        ("mixture", PoolMixture()),
        ("soft", SoftLearnSPN(min_weight=60.0)),
    )
    _member_parameters = "density", "regressors"
    _model_parameter = "regressors"
    _model_method = "predict"
    _known_models: ClassVar[dict[str, str]] = {"boosting": "regressor", "ridge": "ridge"}

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the members, and pool them.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : array-like of shape (n_samples,)
            Target: finite numbers, or dates, times or durations. Of these, predictions, quantiles
            and draws are dates too, and standard deviations are durations. Or targets of which some
            are known as ranges: a structured array of two fields (event, time), where the event is
            boolean or has codes 0 (censored), 1, 2, ...; a pandas ``IntervalArray``; or an array of
            objects, as :func:`skpc.ranges` makes them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        DensityRegressor
            The fitted regressor.

        Raises
        ------
        TypeError
            If a density is not one of skpc, a regressor has no ``predict``, ``y`` is no numbers, or
            it has ranges and a density is no circuit.
        ValueError
            If the densities declare different columns, a name is there twice, rates of missing
            cells are not in [0, 1), all cells are missing, a cell or a target is infinite, or the
            weights are negative or all zero.
        """
        with all_or_nothing(self):
            random_state = check_random_state(self.random_state)
            densities = self._densities(random_state)
            rates = check_rates(self.missing_rates)
            self.event_codes_: Ints | None = None
            self._last = np.inf
            if is_censored(y):
                self._fit_censored(densities, X, y, sample_weight, random_state)
                return self
            # Members learn from numbers: dates become such, and predictions dates again.
            # How targets that are dates are numbers.
            self._dates = Calendar.fit(y, sample_weight, "y")
            y = self._numbers(y)
            checked = self._training_rows(X, sample_weight, y, check_target)
            rows, weight, splits = self._labelled_rows(densities, X, y, sample_weight, checked)
            whole = self._ordered_domain.with_number(rows, weight, most_bins(densities))
            rows, values = np.ascontiguousarray(rows[:, :-1]), rows[:, -1].copy()
            members = self._with_others(self._members_for(densities, len(rows)))
            data = NumberData(rows, whole, values, rates)
            # Folds are dealt by the order of the scores, so that each has targets of all sizes.
            group = value_law(whole).scores(values)[0]
            self._learn_pool(data, members, weight, group, splits, random_state)
            self._describe(1)
        return self

    def _members_for(self, densities: list[tuple[str, Any]], n_rows: int) -> list[Member]:
        """The densities that learn from so many distinct rows."""
        if self.density is None:
            # Of many rows the network costs less than the mixture, and knows more.
            left_out = "soft" if n_rows <= FEW_ROWS else "mixture"
            densities = [estimator for estimator in densities if estimator[0] != left_out]
        return [Member(name, estimator, True) for name, estimator in densities]

    def _describe(self, n_more: int) -> None:
        """Set what is said of the pool, whose densities have some columns after those of X."""
        pool = self._pool
        self.weights_ = pool.weights
        self.log_density_ = pool.log_density
        self.member_log_densities_ = pool.member_log_densities
        self.densities_ = {
            self.member_names_[m]: self._of_table(density, n_more)
            for m, density in pool.densities.items()
        }

    def _fit_censored(
        self,
        densities: list[tuple[str, Any]],
        X: Any,
        y: Any,
        sample_weight: Any,
        random_state: np.random.RandomState,
    ) -> None:
        """Learn from targets some of which are ranges; see :mod:`skpc.pooling.censored`."""
        refuse_without_ranges(densities, "Targets")
        self._dates = None
        target = CensoredTarget.read(y)
        check_consistent_length(X, target.cause)
        # Targets have been read: the numbers of rows that are left tell which of them stay.
        table, weight, present = self._training_rows(
            X, sample_weight, target.cause, _numbers_of_rows
        )
        target = target.take(present)
        self._last = target.last
        self.domain_ = shared_domain(densities, type(self).__name__, table, weight)
        rows = self.domain_.encode(table)
        self._order_columns(target.labelled(rows, None), weight)
        n_features = rows.shape[1]
        features = self._with_cause(target)
        rows = target.labelled(rows[:, self._order], self.event_codes_)
        # Equal rows come together before anything is drawn for them.
        # As long as no law is known, the ends are those of plain numbers.
        merged, weight, distinct = merged_events(target.events(rows, None), weight)
        splits = given_splits(self.cv, X, target.cause, sample_weight, distinct, False)
        # One target stands for all rows of an event.
        target = target.take(np.unique(distinct, return_index=True)[1])
        filled, copied_weight = target.filled(merged.rows, weight, random_state)
        whole = features.with_number(filled, copied_weight, most_bins(densities))
        # Now the law says which of its values a range holds.
        events = target.events(merged.rows, whole[features.n_features].law)
        rates = check_rates(self.missing_rates)
        data = CensoredData(events, whole, n_features, rates)
        members = self._members_for(densities, len(events.rows))
        self._learn_pool(data, members, weight, target.cause, splits, random_state)
        self._describe(events.rows.shape[1] - n_features)

    def _with_cause(self, target: CensoredTarget) -> Domain:
        """The columns that stand before the target: with several causes, the last is the cause."""
        codes = target.codes
        if len(codes) < 2:
            return self._ordered_domain
        if target.cause.all():
            warn(
                f"no time of y is censored: {codes.tolist()} are codes of events that were all "
                "seen. Where one of them means censored, pass 0 in its place."
            )
        self.event_codes_ = codes
        return self._ordered_domain.with_category(len(codes))

    @by_chunks
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean of the target given the observed cells of each row; the median of a censored one.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A row may lack all of them.
        return_std : bool, default=False
            Whether to return the standard deviation too.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            Mean of the predictive distribution, exact up to rounding. Of targets known as ranges
            the median; infinite, with a warning, where it lies beyond all that was seen.
        std : ndarray of shape (n_samples,)
            Its standard deviation, the noise of the target included; only with ``return_std``.

        Raises
        ------
        ValueError
            If ``return_std`` is asked of targets known as ranges.
        """
        if self._is_censored:
            if return_std:
                raise ValueError(
                    "return_std=True needs targets without ranges: the variance of a censored time "
                    "depends on what nobody has seen. Use predict_quantiles or predict_rmst."
                )
            return self.predict_quantiles(X, 0.5)[:, 0]
        if not return_std:
            return as_dates(self._predicted(X, Predictive.mean), self._dates)
        # Both moments come from one predictive distribution, which costs more than they do.
        mean, variance = self._predicted(
            X, lambda cells: np.column_stack([cells.mean(), cells.variance()])
        ).T
        sd = np.sqrt(variance)
        # The deviation of dates is a length of time, and no date.
        return as_dates(
            mean.copy(), self._dates
        ), sd if self._dates is None else self._dates.lengths(sd)

    @by_chunks
    def predict_quantiles(self, X: Any, levels: Any) -> Floats:
        """Numbers below which the target of each row lies with given probabilities.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        levels : float or array-like of shape (n_levels,)
            Probabilities, strictly between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples, n_levels)
            Quantiles of the predictive distribution; points of the lattice of a target that has
            one (integers, fixed decimals).

        Raises
        ------
        ValueError
            If a level is not strictly between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc import DensityRegressor, SoftLearnSPN
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(1000, 1))
        >>> y = X[:, 0] + rng.normal(size=1000)
        >>> model = DensityRegressor(SoftLearnSPN(random_state=0), regressors=None).fit(
        ...     X, y
        ... )
        >>> model.predict_quantiles([[np.nan]], [0.1, 0.9]).round()
        array([[-2.,  2.]])
        """
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if wanted.ndim > 1:
            raise ValueError(
                f"levels must be one number or a list of them; found shape {wanted.shape}."
            )

        def quantiles(cells: Predictive) -> Floats:
            # The empty column keeps the shape where no levels are asked for.
            return np.column_stack(
                [np.empty((len(cells.known), 0)), *map(cells.quantile, wanted.tolist())]
            )

        numbers = self._predicted(X, quantiles)
        if self._is_censored:
            numbers = known_quantiles(numbers, self._last)
        return as_dates(numbers, self._dates)

    @by_chunks
    def predict_survival(self, X: Any, times: Any) -> Floats:
        """Probability that the target of each row is greater than given numbers.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        times : float or array-like of shape (n_times,)
            Numbers, in the unit of the target. Beyond the last target or censored time seen in
            ``fit`` they are extrapolations.

        Returns
        -------
        ndarray of shape (n_samples, n_times)
            ``P(T > t)``.

        Raises
        ------
        ValueError
            If the times are not finite numbers.
        """
        wanted = check_times(times)

        def survival(cells: Predictive) -> Floats:
            below = [cells.cdf(time) for time in wanted.tolist()]
            # The shape is given, so that it holds for an empty list of times too.
            return 1.0 - np.reshape(below, (len(wanted), len(cells.known))).T

        return self._predicted(X, survival)

    @by_chunks
    def predict_rmst(self, X: Any, tau: float) -> Floats:
        """Restricted mean survival time: the mean of the lesser of the target and ``tau``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        tau : float
            In the unit of the target. Beyond the last target or censored time seen in ``fit`` the
            mean is an extrapolation.

        Returns
        -------
        ndarray of shape (n_samples,)
            In the unit of the target; of times that are not negative, the area under the survival
            curve up to ``tau``.

        Raises
        ------
        ValueError
            If ``tau`` is not one finite number.
        """
        if np.ndim(tau):
            raise ValueError(f"tau must be one number; got {tau!r}.")
        (limit,) = check_times(tau, "tau").tolist()
        return self._predicted(X, lambda cells: cells.restricted_mean(limit))

    @by_chunks
    def predict_cumulative_incidence(self, X: Any, times: Any) -> Floats:
        """Probability that an event of each cause has come to each row by given times.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        times : float or array-like of shape (n_times,)
            In the unit of the target.

        Returns
        -------
        ndarray of shape (n_samples, n_causes, n_times)
            ``P(T <= t, cause)``, the causes in the order of ``event_codes_``. The sum over causes
            is one less survival.

        Raises
        ------
        AttributeError
            If ``fit`` has seen a single cause.
        ValueError
            If the times are not finite numbers.
        """
        wanted = check_times(times)
        rows = self._encode(X)[1]
        if self.event_codes_ is None:
            raise AttributeError(
                "predict_cumulative_incidence needs targets with events of several codes; fit saw "
                "one. Use 1 - predict_survival(X, times)."
            )
        n_causes = len(self.event_codes_)
        return _of_parts(
            lambda part: cumulative_incidences(self._pool, part, n_causes, wanted), rows
        )

    def score_samples(self, X: Any, y: Any = None) -> Floats:
        """Log density of the target of each row given its observed cells.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        y : array-like of shape (n_samples,), default=None
            Their targets. None asks about the rows alone: the log density of their observed cells
            under the mixture of the densities, low where a row is unlike the training rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats, with respect to the counting measure on the atoms of the target and the
            Lebesgue measure elsewhere. On a lattice (integers, fixed decimals) the density of an
            atom is its probability over the step.

        Raises
        ------
        ValueError
            If there is not one finite target for each row.
        """
        if y is None:
            _, known, mass = self._encode_with_mass(X)
            return mass.with_rows(_of_parts(self._pool.log_density_of_rows, known))
        rows = self._encode(X)[1]
        if self._is_censored:
            return self._log_scores(rows, y)
        values = check_target(self, self._numbers(y), len(rows))
        return _of_parts(self._pool.log_density_at, rows, values)

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draw targets from the predictive distribution of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Rows; NaN (or None) marks missing cells.
        n_samples : int, default=1
            Number of draws a row.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same draws. ``None`` draws anew at each call; the estimator's
            own ``random_state`` is not used.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            Draws; those of different rows are independent.
        """
        n_samples = check_n_samples(n_samples)
        random_state = check_random_state(random_state)
        rows = self._encode(X)[1]
        draws = _of_parts(lambda part: self._pool.draw(part, n_samples, random_state), rows)
        return as_dates(draws, self._dates)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination of the predictions, of dates as numbers.

        Of targets known as ranges, it is the concordance index of the negative restricted mean up
        to the last time seen in ``fit``: the share of the pairs of known order of which the earlier
        one has the smaller mean. Two ranges have an order where they do not overlap.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            One less the mean squared error over the variance of ``y``; or the concordance index.
        """
        if self._is_censored:
            target = CensoredTarget.read(y)
            weight = check_weight(sample_weight, len(target.cause))
            # A mean up to the last time is there for all, a median is not.
            return concordance(target.cells, -self.predict_rmst(X, self._last), weight)
        if is_censored(y):
            raise ValueError(
                "y holds ranges or events, but all targets of fit were numbers. Pass numbers, or "
                "fit on targets known as ranges."
            )
        # The coefficient compares numbers: dates are turned into such, predicted ones too.
        numbers = map(self._numbers, (y, self.predict(X)))
        return float(r2_score(*numbers, sample_weight=sample_weight))

    def _log_scores(self, rows: Floats, y: Any) -> Floats:
        """Log scores of targets of which some are known as ranges."""
        target = CensoredTarget.read(y)
        pool = self._pool
        n_features = len(self._order)
        # The open cause that encoding has added makes room for the one that y tells.
        rows = rows[:, :n_features]
        labelled_rows = target.labelled(rows, self.event_codes_)
        events = target.events(labelled_rows, pool.law)
        scores = [
            log_scores(density.row_density, events, rows, n_features)
            for density in pool.densities.values()
        ]
        # (n_rows, n_densities): the mixture of the scores of all densities.
        return np.logaddexp.reduce(np.array(scores).T + np.log(pool.mixture), axis=1)

    @property
    def _is_censored(self) -> bool:
        """Whether targets known as ranges have been learned."""
        return bool(np.isfinite(self._last))

    def _events(
        self, X: Any, is_scored: bool = True, takes_ranges: bool = True
    ) -> tuple[Any, Events, LogMass]:
        table, events, mass = super()._events(X, is_scored, takes_ranges)
        # Members that have learned a cause have a column for it; nobody knows it here.
        if self.event_codes_ is not None:
            events = events.with_cells(labelled(events.rows))
        return table, events, mass

    def _numbers(self, y: Any) -> Any:
        """Targets, dates as numbers."""
        return y if self._dates is None else self._dates.numbers_of(y, "y")

    def _predicted(self, X: Any, answer: Callable[[Predictive], Floats]) -> Floats:
        """What the predictive distributions of the rows answer."""
        rows = self._encode(X)[1]
        return _of_parts(lambda part: answer(self._pool.predictive(part)), rows)


def _of_parts(answer: Callable[..., Floats], *arrays: Floats) -> Floats:
    """Answer for some of the rows of arrays at a time."""
    parts = slices(len(arrays[0]), _ROWS)
    return np.concatenate([answer(*(array[part] for array in arrays)) for part in parts])


def _numbers_of_rows(estimator: Any, y: Any, n_rows: int) -> Ints:  # noqa: ARG001
    """In place of targets, the numbers of their rows."""
    return np.arange(n_rows)
