"""Regression on tuples of distributions: the message operator of expectation propagation."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skpc._arrays import Floats, check_memory, one_or_each
from skpc._fitting import all_or_nothing, progress
from skpc._threads import slices, threads
from skpc._validation import (
    AT_LEAST_ONE,
    N_JOBS,
    POSITIVE,
    StrOptions,
    check_magnitude,
    check_n_samples,
    eager,
    fit_context,
    unmasked,
)
from skpc.estimators._estimator import Estimator, parameter
from skpc.messages import (
    BayesianRegression,
    MessageFeatures,
    Moments,
    SeparateRegressions,
    inner_length_scale_sq,
    message_moments,
    noise_of_greatest_evidence,
    noise_of_least_error,
    outer_length_scale_sq,
)

#: Infinite cells are refused by name, and not by scikit-learn.
_NUMBERS: dict[str, Any] = {"dtype": np.float64, "order": "C", "ensure_all_finite": False}
#: Rows whose features are held at a time.
_FEATURE_ROWS = 4096


class KernelEPOperator(RegressorMixin, Estimator):
    """Bayesian regression on distributions with a kernel on their mean embeddings.

    A row holds the parameters of the messages that come into a factor of a graphical model, and
    the targets describe the message that goes out (section 3 of [1]_). The kernel on two rows is
    Gaussian in the distance of the mean embeddings of the products of their messages, eq. (7).
    Two-stage random Fourier features approximate it, Algorithm 1, and a Bayesian linear regression
    learns from these features. Predictions come with a standard deviation, and more rows can be
    added one by one.

    Parameters
    ----------
    input_distributions : sequence of str or None, default=None
        Families of the messages in the order of the columns. Two columns each have "normal" (mean
        and variance), "beta" (alpha and beta), "gamma" and "log-gamma" (shape and rate); one has
        "point", a known value. "log-gamma" is for gamma messages whose means lie decades apart.
        None: every column is a point.
    n_inner : int, default=300
        Number of random features of the inner kernel, on the space of the variables.
    n_outer : int, default=500
        Number of random features of the outer kernel, on which the regression is made.
    inner_length_scale_sq : "mean-variance", float or array-like, default="mean-variance"
        Squared length scale of the inner kernel, for all variables or for each, in their squared
        units. "mean-variance": the mean variance of the messages; the variance of the means of a
        variable whose messages are all points (appendix A of [1]_).
    outer_length_scale_sq : "median" or float, default="median"
        Squared length scale of the outer kernel. "median": the median of the squared distances
        between mean embeddings, of all pairs of at most 1000 rows.
    noise_variance : float, array-like, "evidence" or "leave-one-out", default=1e-4
        Variance of the noise, for all outputs or for each, in units of the variance of the output
        in the first call (but see `standardize`). In [1]_ it is one number. "evidence": for each
        output, the variance under which the targets of the first call are most probable;
        "leave-one-out": under which each row is best predicted from all others, as in [1]_, which
        holds the features of all rows.
    prior_variance : float, default=1.0
        Prior variance of the weights of the features, in the same units.
    standardize : bool, default=True
        Whether to divide each output by its standard deviation in the first call. With False
        `noise_variance` and `prior_variance` are in squared units of the outputs, the same for all
        of them, as in [1]_.
    keep_rows : bool, default=False
        Whether to keep all rows, for `refit_features`.
    random_state : int, RandomState instance or None, default=None
        Seeds the random features.
    n_jobs : int, default=None
        Number of threads that compute the features of rows, a few thousand at a time, in ``fit``
        and in ``predict``. None means 1 unless in a ``joblib.parallel_config`` context, and -1 all
        cores. The result is the same.
    verbose : int, default=0
        With 1, a progress bar counts the rows learned (a line at the end where tqdm is not
        installed).

    Attributes
    ----------
    inner_length_scale_sq_ : ndarray of shape (n_variables,)
        Squared length scales of the inner kernel.
    outer_length_scale_sq_ : float
        Squared length scale of the outer kernel.
    features_ : MessageFeatures
        The random features.
    posterior_ : BayesianRegression or SeparateRegressions
        Posterior of the weights, for standardised targets: one for all outputs if their noise
        variances are the same.
    y_mean_, y_scale_ : ndarray of shape (n_outputs,)
        Mean and standard deviation of the targets of the first call, by which all targets are
        standardised; a deviation of one with ``standardize=False``.
    noise_variance_ : ndarray of shape (n_outputs,)
        Variance of the noise in squared units of the outputs, the least predictive variance.
    log_evidence_ : float
        Log density of all targets, the weights integrated out, in nats: greater is better when
        length scales or variances are compared on the same rows.
    n_samples_seen_ : int
        Number of rows.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    LogisticEPClassifier : Logistic regression by messages, which takes such an operator.
    skpc.messages.JustInTimeOperator : An operator that asks its oracle where it is uncertain.
    sklearn.gaussian_process.GaussianProcessRegressor : Rows of numbers in place of messages.

    Notes
    -----
    Beta and gamma messages enter the kernel as normals of the same mean and variance; "log-gamma"
    as the normal of the mean and variance of the logarithm of the variable.

    All outputs share features and prior. Outputs of the same noise variance share the posterior
    covariance too, and their predictive variances differ by the square of their scale. Outputs of
    different noise have a regression each, at the cost of one each.

    With another number of BLAS threads, products of matrices are rounded in another order:
    predictions then differ in the last digits, by about 1e-9.

    References
    ----------
    .. [1] W. Jitkrittum, A. Gretton, N. Heess, S. M. A. Eslami, B. Lakshminarayanan, D. Sejdinovic,
       Z. Szabo. "Kernel-Based Just-In-Time Learning for Passing Expectation Propagation Messages".
       UAI 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import KernelEPOperator
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=400), rng.uniform(0.1, 1.0, 400)])
    >>> y = np.exp(X[:, 0] + X[:, 1] / 2)  # the mean of exp(z) for a normal z
    >>> operator = KernelEPOperator(
    ...     input_distributions=["normal"], random_state=0
    ... ).fit(X, y)
    >>> mean, std = operator.predict([[0.0, 0.5], [9.0, 0.5]], return_std=True)
    >>> mean[:1].round(2), std.round(1)  # it knows that it has not seen the second
    (array([1.28]), array([0. , 2.5]))
    """

    input_distributions: Sequence[str] | None = parameter(None, "array-like", None)
    n_inner: int = parameter(300, AT_LEAST_ONE)
    n_outer: int = parameter(500, AT_LEAST_ONE)
    inner_length_scale_sq: Any = parameter(
        "mean-variance", StrOptions({"mean-variance"}), POSITIVE, "array-like"
    )
    outer_length_scale_sq: Any = parameter("median", StrOptions({"median"}), POSITIVE)
    noise_variance: Any = parameter(
        1e-4, POSITIVE, StrOptions({"evidence", "leave-one-out"}), "array-like"
    )
    prior_variance: float = parameter(1.0, POSITIVE)
    standardize: bool = parameter(True, "boolean")
    keep_rows: bool = parameter(False, "boolean")
    random_state: Any = parameter(None, "random_state")
    n_jobs: int | None = parameter(None, *N_JOBS)
    verbose: int = parameter(0, "verbose")

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Choose the length scales, draw the features and learn from these rows alone.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Parameters of the messages.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.

        Returns
        -------
        KernelEPOperator
            The fitted estimator.

        Raises
        ------
        ValueError
            If a cell is missing, infinite or beyond 1e150, a parameter is outside its family, or
            the number of columns does not fit `input_distributions`, or that of noise variances
            the outputs.
        """
        with all_or_nothing(self):
            self._start(*self._check_rows(X, y, reset=True))
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn from more rows.

        The first call fixes the length scales, the features and the scale of the targets, as
        ``fit`` does. After it, rows count the same whether they come one by one or all at once.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Parameters of the messages.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.

        Returns
        -------
        KernelEPOperator
            The estimator itself.

        Raises
        ------
        ValueError
            As ``fit``, or if the numbers of columns or outputs are not those of the first call. The
            estimator is then as it was.
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y)
        with all_or_nothing(self):
            self._learn(*self._check_rows(X, y, reset=False))
        return self

    def refit_features(self) -> Self:
        """Choose all scales anew from all rows kept, and learn from them again.

        Returns
        -------
        KernelEPOperator
            The estimator itself.

        Raises
        ------
        ValueError
            If the rows have not been kept.
        """
        check_is_fitted(self)
        if not self._rows:
            raise ValueError(
                "refit_features needs the rows that were learned from, and they have not been "
                "kept; make the estimator with keep_rows=True."
            )
        # Each call of partial_fit has kept a pair of its own.
        rows, targets = (np.concatenate(parts) for parts in zip(*self._rows))
        with all_or_nothing(self):
            self._start(rows, targets, self._moments(rows))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Means of the targets, and how uncertain they are.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Parameters of the messages.
        return_std : bool, default=False
            Whether to return standard deviations too.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        std : ndarray of the same shape
            Standard deviations of the targets, noise included; only with ``return_std=True``.
        """
        check_is_fitted(self)
        rows = validate_data(self, eager(X), reset=False, **_NUMBERS)
        blocks = self._feature_blocks(self._moments(rows))
        parts = [self.posterior_.predict(features) for features, _ in blocks]
        mean, variance = map(np.concatenate, zip(*parts))
        mean = self.y_mean_ + self.y_scale_ * mean
        # One variance for all outputs, or one each.
        variance = variance.reshape(len(rows), -1)
        std = np.sqrt(variance) * self.y_scale_
        if self._flat:
            mean = mean[:, 0]
            std = std[:, 0]
        return (mean, std) if return_std else mean

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draw targets from the predictive normal distribution of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Parameters of the messages.
        n_samples : int, default=1
            Number of draws for each row.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same draws. ``None`` draws anew at each call; the estimator's
            own ``random_state`` is not used.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)
            Independent draws: rows do not share the weights of one draw.
        """
        mean, std = self.predict(X, return_std=True)
        n_samples = check_n_samples(n_samples)
        # (n_rows, n_outputs, n_samples), without outputs where the targets had none.
        noise = check_random_state(random_state).normal(size=(*mean.shape, n_samples))
        return mean[..., np.newaxis] + std[..., np.newaxis] * noise

    def _start(self, rows: Floats, targets: Floats, moments: Moments) -> None:
        """Fix what the first rows fix, and learn from them."""
        # A new start forgets the rows that were kept.
        self._rows: tuple[tuple[Floats, Floats], ...] = ()
        random_state = check_random_state(self.random_state)
        n_variables = moments.mean.shape[1]
        n_outputs = targets.shape[1]
        inner = self._for_each("inner_length_scale_sq", n_variables, "variables")
        inner = inner_length_scale_sq(moments) if inner is None else inner
        outer = self.outer_length_scale_sq
        moments_seen = moments
        # The median of distances is that of the pairs among this many rows at most.
        median_rows = 1000
        if len(moments.mean) > median_rows:
            chosen = random_state.choice(len(moments.mean), median_rows, replace=False)
            moments_seen = moments.take(chosen)
        outer = (
            outer_length_scale_sq(moments_seen, inner) if isinstance(outer, str) else float(outer)
        )
        # Weights of inner and outer features, and a covariance over the outer ones.
        n_numbers = float(self.n_inner) * (self.n_outer + n_variables) + float(self.n_outer) ** 2
        check_memory(n_numbers, "The random features", "Choose a smaller n_inner or n_outer.")
        self.inner_length_scale_sq_ = inner
        self.outer_length_scale_sq_ = outer
        self.features_ = MessageFeatures.draw(
            inner, outer, self.n_inner, self.n_outer, random_state
        )
        scale = targets.std(axis=0)
        # The deviation of a constant target is rounding.
        constant = scale <= 1e-14 * np.abs(targets).max(axis=0)
        # Later rows are standardised by these figures of the first ones.
        self.y_mean_ = targets.mean(axis=0)
        self.y_scale_ = np.where(constant | (not self.standardize), 1.0, scale)
        noise = self._for_each("noise_variance", n_outputs, "outputs")
        if noise is None:
            standardised = self._standardised(targets)
            # A generator: the features of two blocks need not be held together.
            blocks = ((part, standardised[block]) for part, block in self._feature_blocks(moments))
            if self.noise_variance == "evidence":
                noise = noise_of_greatest_evidence(blocks, self.prior_variance)
            else:
                features = np.concatenate([part for part, _ in blocks])
                noise = noise_of_least_error(features, standardised, self.prior_variance)
        self.noise_variance_ = noise * self.y_scale_**2
        shared = {"prior_variance": self.prior_variance}
        # Outputs of equal noise share one covariance; others need a regression each.
        self.posterior_: BayesianRegression | SeparateRegressions = (
            BayesianRegression.prior(
                self.n_outer, len(noise), noise_variance=float(noise[0]), **shared
            )
            if (noise == noise[0]).all()
            else SeparateRegressions.prior(self.n_outer, noise_variance=noise, **shared)
        )
        self._learn(rows, targets, moments)

    def _for_each(self, parameter: str, n: int, what: str) -> Floats | None:
        """A positive number for each output or variable; None where a rule chooses it."""
        given = getattr(self, parameter)
        if isinstance(given, str):
            return None
        needed = f"{parameter} needs one positive number"
        return one_or_each(given, n, needed, what, lambda numbers: numbers > 0.0).copy()

    def _standardised(self, targets: Floats) -> Floats:
        return (targets - self.y_mean_) / self.y_scale_

    def _learn(self, rows: Floats, targets: Floats, moments: Moments) -> None:
        standardised = self._standardised(targets)
        with progress(len(rows), "rows", self.verbose) as advance:
            for features, block in self._feature_blocks(moments):
                self.posterior_ = self.posterior_.update(features, standardised[block])
                advance(len(features))
        self.n_samples_seen_ = self.posterior_.n_rows
        # The density of the targets themselves, and not of the standardised ones.
        jacobian = self.n_samples_seen_ * np.log(self.y_scale_).sum()
        self.log_evidence_ = float(self.posterior_.log_evidence - jacobian)
        if self.keep_rows:
            self._rows = (*self._rows, (rows, targets))

    def _check_rows(self, X: Any, y: Any, *, reset: bool) -> tuple[Floats, Floats, Moments]:
        checks = {**_NUMBERS, "multi_output": True, "y_numeric": True}
        rows, targets = validate_data(self, eager(X), unmasked(y), reset=reset, **checks)
        targets = np.asarray(targets, dtype=np.float64)
        # Where targets were one-dimensional, so are predictions.
        flat = targets.ndim == 1
        targets = targets.reshape(len(rows), -1)
        check_magnitude(targets, ["y"] * targets.shape[1])
        if reset:
            self._flat = flat
        elif targets.shape[1] != len(self.y_mean_):
            raise ValueError(
                f"y must have the {len(self.y_mean_)} outputs of the first call; found "
                f"{targets.shape[1]}. Call fit to begin anew."
            )
        return rows, targets, self._moments(rows)

    def _moments(self, rows: Floats) -> Moments:
        names = getattr(self, "feature_names_in_", None)
        families = self.input_distributions
        if families is None:
            # Plain numbers are distributions with all mass in a point.
            families = ["point"] * self.n_features_in_
        moments = message_moments(rows, families, names)
        check_magnitude(rows, names)
        return moments

    def _feature_blocks(self, moments: Moments) -> Iterator[tuple[Floats, slice]]:
        """Features of a few thousand rows at a time: those of all would take much memory."""
        for block in slices(len(moments.mean), _FEATURE_ROWS):
            # Only while features are made: between the blocks, the caller's setting holds.
            with threads(self.n_jobs):
                features = self.features_.transform(moments.take(block))
            yield features, block

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
