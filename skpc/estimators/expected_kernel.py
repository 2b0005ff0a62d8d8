"""Support vector machines that integrate over missing features, and regression by one."""

from dataclasses import field
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVR

from skpc._arrays import Floats, check_memory, has_gaps
from skpc._fitting import all_or_nothing, announce
from skpc._threads import slices, threads
from skpc._validation import (
    NOT_NEGATIVE,
    POSITIVE,
    Interval,
    StrOptions,
    check_n_samples,
    coefficients_of_pairs,
    fit_context,
)
from skpc.domain import canonical_order, column_moments, group_rows, merge_rows, one_hot
from skpc.estimators._answers import by_chunks
from skpc.estimators._base import CircuitDensity
from skpc.estimators._estimator import CATEGORICAL_FEATURES, TableEstimator, parameter
from skpc.estimators._pools import refuse_other_density
from skpc.estimators._targets import check_target
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.soft_learn import SoftLearnSPN
from skpc.estimators.table_mixture import TableMixture
from skpc.kernels import RBF, ExponentialHamming, ProductKernel
from skpc.pooling.choice import fit_best
from skpc.queries import KernelExpansion, expected_gram, sample_missing
from skpc.queries.passes.rows import kernel_rows


class ExpectedKernelMachine(TableEstimator):
    """A machine of libsvm, with a density of the features for missing cells.

    A subclass gives the solver its parameters and puts coefficients on the support vectors.
    """

    density: Any = field(
        default=None, kw_only=False, metadata={"constraints": [None, BaseEstimator]}
    )
    standardize: bool = parameter(True, "boolean")
    gamma: Any = parameter("scale", StrOptions({"scale"}), POSITIVE)
    C: float = parameter(1.0, POSITIVE)
    tol: float = parameter(1e-3, POSITIVE)
    cache_size: float = parameter(200, POSITIVE)
    max_iter: int = parameter(-1, Interval(Integral, -1, None, closed="left"))
    categorical_features: Any = parameter("auto", *CATEGORICAL_FEATURES)

    #: What the solver takes for zero and for one in the targets.
    _units = 0.0, 1.0

    def _learn(
        self, solver: Any, table: Any, weight: Floats, target: np.ndarray
    ) -> tuple[Floats, Floats, np.ndarray]:
        """Fit the density and the solver.

        Returns the distinct pairs of encoded rows and targets, and the sums of their weights, as
        the solver has seen them: rows, weights, targets.
        """
        self.density_ = self._fitted_density(table, weight)
        self.domain_ = self.density_.domain_
        # Equal rows with different targets stay apart: the solver learns from all of them.
        merged = merge_rows(np.column_stack([self.domain_.encode(table), target]), weight)
        # Steps of the solver depend on the order of the rows, which no unit may decide.
        is_categorical = np.append(self.domain_.is_categorical, False)
        pairs, weight = canonical_order(*merged, is_categorical).arranged(*merged)
        distinct = np.ascontiguousarray(pairs[:, :-1]), weight, pairs[:, -1]
        self._solve(solver, *distinct)
        return distinct

    def _solve(self, solver: Any, rows: Floats, weight: Floats, target: np.ndarray) -> None:
        """Fit the solver after the density, and keep the functions that the solver finds.

        The coefficients of equal support vectors are added, and put into the units of the target.
        """
        # Decimal digits of standardised targets that the solver sees.
        digits = 7
        # Standard deviations smaller than this have squares that vanish: such a column counts as
        # constant.
        smallest = 1e-150
        centre, unit = self._units
        mean, sd = column_moments(kernel_rows(self.density_.circuit_, rows), weight)
        # Categories are compared by indicators, which have one scale already.
        as_they_are = self.domain_.is_categorical | (not self.standardize)
        self.scale_ = np.where(as_they_are | (sd < smallest), 1.0, sd)
        self.mean_ = np.where(as_they_are, 0.0, mean)
        numbers = self._numbers(rows)
        self.gamma_ = _scale(numbers, weight) if self.gamma == "scale" else float(self.gamma)
        shared = ("C", "tol", "cache_size", "max_iter")
        solver.set_params(**{name: getattr(self, name) for name in shared})
        # A row with gaps is no point for libsvm: it gets the matrix of expected kernels.
        if np.isnan(rows).any():
            _refuse_unstructured(self.density_, rows)
            what = f"Expected kernels between {len(rows):,} rows"
            remedy = "Choose fewer rows."
            check_memory(2.0 * float(len(rows)) ** 2, what, remedy)
            solver.set_params(kernel="precomputed")
            numbers = expected_gram(self.density_.circuit_, rows, None, self._product_kernel())
        else:
            solver.set_params(kernel="rbf", gamma=self.gamma_)
        announce(f"{type(solver).__name__}: {len(rows):,} distinct rows", self.verbose)
        # libsvm ends the process where memory is short, so the same memory is allocated first.
        cache = min(4.0 * float(len(rows)) ** 2, self.cache_size * 2.0**20)
        # Bytes that libsvm takes for each row in addition to its cache of kernels.
        libsvm_bytes = 1000
        _ = np.empty(int(cache) + libsvm_bytes * len(rows), dtype=np.uint8)
        del _
        scaled = (target - centre) / unit
        if self._units != (0.0, 1.0):
            # Rounded far above the spacing of floats, so that the solver's steps are those of any
            # unit.
            scaled = np.round(scaled, digits)
        solver.fit(numbers, scaled, sample_weight=weight)
        self.intercept_ = centre + unit * solver.intercept_
        self.n_iter_ = int(np.max(solver.n_iter_))
        # Support vectors that differ by their target alone become one, coefficients added.
        self.support_vectors_, group = group_rows(rows[solver.support_])
        shape = len(group), len(self.support_vectors_)
        # (n_support, n_distinct): a one where a support vector stands among the distinct ones.
        places = csr_array((np.ones(len(group)), (np.arange(len(group)), group)), shape)
        if len(solver.dual_coef_) == 1:
            self.dual_coef_ = unit * solver.dual_coef_ @ places
        else:
            # With more than two classes, each pair has a function.
            pairs = coefficients_of_pairs(solver.dual_coef_, solver.n_support_, places)
            self.dual_coef_ = np.array(pairs)
        circuit = self.density_.circuit_
        functions = self.dual_coef_.T.copy()
        kernel = self._product_kernel()
        self._expansion = KernelExpansion(circuit, self.support_vectors_, functions, kernel)

    def _mean(self, rows: Floats) -> Floats:
        """Expected values of the functions given encoded rows, shape (n_rows, n_functions)."""
        # Products of matrices are quick, but take points on both sides; the circuit takes gaps.
        usable = len(self.support_vectors_) > 0 and not np.isnan(self.support_vectors_).any()
        complete = usable & ~has_gaps(rows)
        mean = np.empty((len(rows), len(self.dual_coef_)))
        if complete.any():
            mean[complete] = self._at_points(rows[complete])
        if not complete.all():
            mean[~complete] = self._expansion.mean(rows[~complete])
        return mean

    def _at_points(self, rows: Floats) -> Floats:
        """Values of the functions at complete encoded rows: by products of matrices."""
        # Complete rows that are evaluated at a time.
        points = 2048
        vectors = self._numbers(self.support_vectors_)
        # Squared distances are taken as differences of squares, which want small numbers.
        centre = vectors.mean(axis=0)
        vectors = vectors - centre
        parts = [
            rbf_kernel(self._numbers(rows[batch]) - centre, vectors, self.gamma_)
            @ self.dual_coef_.T
            for batch in slices(len(rows), points)
        ]
        return np.concatenate(parts)

    def _numbers(self, rows: Floats) -> Floats:
        """Encoded rows as the kernel compares them: numbers or their scores, one-hot columns."""
        # Numbers as far as this have no kernel with any others, and squares that are still
        # infinite.
        farthest = 1e200
        cells = kernel_rows(self.density_.circuit_, rows)
        cells = (cells - self.mean_) / self.scale_
        return one_hot(self.domain_, np.clip(cells, -farthest, farthest))

    def _product_kernel(self) -> ProductKernel:
        """The Gaussian kernel on numbers and one-hot columns, as a product over the columns.

        A parameter for each column of numbers does what division by its scale would do.
        """
        category = ExponentialHamming(2.0 * self.gamma_)
        numbers = [RBF(gamma) for gamma in (self.gamma_ / self.scale_**2).tolist()]
        kernels = zip(self.domain_.is_categorical, numbers)
        return ProductKernel([category if c else number for c, number in kernels])

    def _fitted_density(self, table: Any, weight: Floats) -> Any:
        """Fit a clone of the density, or the default, and check that it has a circuit."""
        if self.density is None:
            return self._fit_default(table, weight)
        density = clone(self.density)
        refuse_other_density(density, type(self).__name__, ["fit"], ["categorical_features"])
        _hand_down(self, density)
        density.fit(table, sample_weight=weight)
        try:
            _ = density.circuit_
        except AttributeError as error:
            raise ValueError(
                "density must have a circuit_ once it has been fitted, but "
                f"{type(density).__name__} has none ({error}); use CutsetNetworkBD(structured=True)"
            ) from error
        return density

    def _fit_default(self, table: Any, weight: Floats) -> CircuitDensity:
        """Fit a cutset network, or what predicts removed cells of held-out rows better.

        Rows with missing cells are left to the cutset network, which is structured: between such
        rows a machine needs a structured circuit.
        """
        names = ("categorical_features", "random_state", "verbose")
        shared: dict[str, Any] = {name: getattr(self, name) for name in names}
        candidates: list[CircuitDensity] = [CutsetNetworkBD(structured=True, **shared)]
        domain, rows, weight = candidates[0].prepare(table, weight)
        if not np.isnan(rows).any():
            candidates.append(SoftLearnSPN(**shared))
            if not domain.is_categorical.all():
                candidates.append(TableMixture(**shared))
        # By how many nats per removed cell another density has to be better than a cutset network,
        # whose answers are faster.
        worth = 0.02
        return fit_best(candidates, domain, rows, weight, self.random_state, worth)


class ExpectedKernelSVR(RegressorMixin, ExpectedKernelMachine):
    """Support vector regression whose predictions are exact expectations over missing features.

    A density over the features is fitted, and the regression ``f``. Where a row has missing
    cells, the prediction is ``E f(x)`` over the completions of the row, given what is observed
    (eq. 4 of [1]_); the expectation of each kernel is computed exactly along the circuit of the
    density. That is consistent where cells are missing at random.

    The kernel is the product of ``exp(-gamma (x - x')^2)`` over the numeric columns and
    ``exp(-2 gamma [x != x'])`` over the categorical ones, which is the Gaussian kernel on numbers
    and one-hot columns. Numbers are standardized for it (``standardize``).

    Parameters
    ----------
    density : estimator, default=None
        A density estimator of this package that has a ``circuit_`` once fitted; it is cloned. None
        chooses one (see Notes). Missing cells in ``fit`` need a circuit that is
        structured-decomposable. That of ``CutsetNetworkBD(structured=True)`` always is; small
        circuits of other densities may be, and are accepted.
    standardize : bool, default=True
        Whether the kernel sees each column of numbers divided by its standard deviation in the
        training rows, missing cells skipped. Rows stay in their own units everywhere else.
    gamma : "scale" or float, default="scale"
        Parameter of the kernel. "scale": one over the number of one-hot and numeric columns times
        their variance once numbers are standardized, missing cells skipped.
    C : float, default=1.0
        Inverse strength of the regularisation.
    standardize_y : bool, default=True
        Whether the machine learns the target in its standard deviations from its mean. Predictions
        are in the units of the target all the same. False for a target that is standardized
        already, or whose unit ``C`` and ``epsilon`` were chosen for.
    epsilon : float, default=0.1
        Half the width of the tube without loss, in standard deviations of the target; in its units
        with ``standardize_y=False``.
    tol : float, default=1e-3
        Tolerance of the solver.
    cache_size : float, default=200
        Megabytes for the kernel cache of the solver.
    max_iter : int, default=-1
        Limit on the iterations of the solver; -1 for no limit.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical; see :class:`skpc.CutsetNetworkBD`. It is handed to the
        density, whose own parameter must be the default or the same.
    random_state : int, RandomState instance or None, default=None
        Seeds the choice of the density, and its candidates.
    n_jobs : int, default=None
        Number of threads: densities that are compared, and what each of them does in threads. None
        means 1 unless in a ``joblib.parallel_config`` context, and -1 all cores. The result is the
        same.
    verbose : int, default=0
        With 1, progress bars of the default densities (a line at the end of each where tqdm is not
        installed), and a line as the solver begins. A density that is given has a ``verbose`` of
        its own.

    Attributes
    ----------
    density_ : estimator
        The fitted density.
    domain_ : Domain
        What each column is for the density; translates rows to encoded rows and back.
    support_vectors_ : ndarray of shape (n_support_vectors, n_features)
        Distinct support vectors, as encoded rows; NaN where a cell is missing.
    dual_coef_ : ndarray of shape (1, n_support_vectors)
        Their coefficients; those of equal support vectors are added.
    intercept_ : ndarray of shape (1,)
        The constant of the decision function.
    gamma_ : float
        The parameter of the kernel.
    mean_, scale_ : ndarrays of shape (n_features,)
        Mean and standard deviation of the numbers of each column, on the scale on which the kernel
        compares them (see Notes); 0 and 1 for categories, where a column is left alone, and with
        ``standardize=False``.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    skpc.queries.expected_gram : The expected kernels themselves.

    Notes
    -----
    Numbers are compared as they are where the leaves of the density are bins or Gaussians of
    values, and by their scores where these are Gaussians of scores, each alone or several in a
    block (:class:`skpc.SoftLearnSPN`, :class:`skpc.TableMixture`).

    Without a ``density`` the machine takes ``CutsetNetworkBD(structured=True)``, unless
    :class:`skpc.SoftLearnSPN` or, where there are numbers, :class:`skpc.TableMixture` predicts
    removed cells better by more than 0.02 nats each: a fifth of the rows is held out, 30 % of their
    cells are removed, and the score is the mean log density of a removed cell given the rest of its
    row. With missing cells in ``fit``, or with fewer than 20 distinct rows, it does not compare.

    Training rows with missing cells enter through the doubly expected kernel of [2]_: the inner
    product of the mean embeddings of their conditionals.

    Give categories as one column, not as one-hot columns: a tree over one-hot columns leaves much
    of its mass on rows that no category has.

    References
    ----------
    .. [1] W. Li, Z. Zeng, A. Vergari, G. Van den Broeck. "Tractable Computation of Expected
       Kernels". UAI 2021.
    .. [2] H. Anderson, M. Gupta. "Expected kernel for missing features in support vector
       machines". SSP 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import ExpectedKernelSVR
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 3, 300)
    >>> X = np.column_stack([a, (a + rng.integers(0, 2, 300)) % 3])
    >>> model = ExpectedKernelSVR(C=10.0, random_state=0).fit(X, 1.0 * a)
    >>> model.predict([[2, 0], [np.nan, 0]]).round(1)
    array([1.9, 1.1])
    >>> mean, sd = model.predict([[2, 0], [np.nan, 0]], return_std=True)
    >>> sd.round(1)
    array([0. , 0.9])
    """

    standardize_y: bool = parameter(True, "boolean")
    epsilon: float = parameter(0.1, NOT_NEGATIVE)

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the density and the regression.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : array-like of shape (n_samples,)
            Target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        ExpectedKernelSVR
            The fitted estimator.

        Raises
        ------
        TypeError
            If the density is not one of skpc.
        ValueError
            If a cell or a target is infinite, the density has no circuit, or rows have missing
            cells and the circuit of the density is not structured-decomposable.
        """
        with all_or_nothing(self), threads(self.n_jobs):
            table, weight, target = self._training_rows(X, sample_weight, y, check_target)
            mean = np.zeros(1)
            sd = np.ones(1)
            if self.standardize_y:
                mean, sd = column_moments(target[:, np.newaxis], weight)
            self._units = mean[0], sd[0]
            self._learn(SVR(epsilon=self.epsilon), table, weight, target)
        return self

    @by_chunks
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected value of the regression given the observed features of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        return_std : bool, default=False
            Whether to return the standard deviation too.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            ``E f(x)``, exact up to rounding; ``f(x)`` itself for complete rows.
        std : ndarray of shape (n_samples,)
            Standard deviation of ``f(x)`` over the missing cells, 0 for complete rows; only with
            ``return_std``. It does not contain the noise of the target. Its cost grows with the
            square of the number of support vectors; :meth:`sample` gives a cheap estimate.

        Raises
        ------
        ValueError
            If ``return_std`` is set after training on rows with missing cells.
        """
        _, rows = self._encode(X)
        mean = self._mean(rows)[:, 0] + self.intercept_[0]
        if not return_std:
            return mean
        if np.isnan(self.support_vectors_).any():
            raise ValueError(
                "return_std needs complete support vectors, but some of those found in training "
                "have missing cells; the spread of sample(X, n_samples) estimates it"
            )
        # A complete row has a single prediction, which does not spread.
        std = np.zeros(len(rows))
        incomplete = has_gaps(rows)
        variance = self._expansion.variance(rows[incomplete])[:, 0]
        # Rounding may have made a small variance negative.
        std[incomplete] = np.sqrt(np.maximum(variance, 0.0))
        return mean, std

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Predictions under completions drawn from the density given the observed features.

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
            ``f(x)`` of each completion, without the noise of the target; of complete rows one value
            over and over.

        Raises
        ------
        ValueError
            If ``n_samples`` is negative, or the observed cells of a row with missing ones have
            probability zero.
        """
        n_samples = check_n_samples(n_samples)
        _, rows = self._encode(X)
        incomplete = has_gaps(rows)
        repeated = np.repeat(rows[incomplete], n_samples, axis=0)
        filled = sample_missing(self.density_.circuit_, repeated, random_state)
        drawn = np.empty((len(rows), n_samples))
        # (n_incomplete, n_samples): a prediction for each draw.
        drawn[incomplete] = self._mean(filled)[:, 0].reshape(incomplete.sum(), n_samples)
        # All draws of a complete row are the row itself.
        drawn[~incomplete] = self._mean(rows[~incomplete])[:, [0]]
        return drawn + self.intercept_[0]


def _hand_down(machine: Any, density: Any) -> None:
    """Give the density the categorical features of the machine; refuse a disagreement."""
    wanted = machine.categorical_features
    declared = density.categorical_features
    # Where the machine says nothing, the density goes by its own parameter.
    if isinstance(wanted, str) and wanted == "auto":
        return
    if isinstance(declared, str) and declared == "auto":
        density.set_params(categorical_features=wanted)
    elif not np.array_equal(np.asarray(wanted, object), np.asarray(declared, object)):
        raise ValueError(
            f"categorical_features={wanted!r} disagrees with that of the density, {declared!r}; "
            "leave one of the two at 'auto'"
        )


def _scale(numbers: Floats, weight: Floats) -> float:
    """One over the number of columns times the variance of their cells, missing ones skipped."""
    # Missing cells have weight zero: (n_rows, n_columns).
    weights = ~np.isnan(numbers) * weight[:, np.newaxis]
    value = np.where(np.isnan(numbers), 0.0, numbers)
    mean = np.average(value, weights=weights)
    variance = np.average((value - mean) ** 2, weights=weights)
    return float(1.0 / (numbers.shape[1] * variance)) if variance > 0.0 else 1.0


def _refuse_unstructured(density: Any, rows: Floats) -> None:
    if not density.circuit_.structured_decomposable:
        raise ValueError(
            f"{int(has_gaps(rows).sum())} distinct training rows have missing cells, "
            "which needs a density with a structured-decomposable circuit, but that of "
            f"{type(density).__name__} is not; use CutsetNetworkBD(structured=True), or train on "
            "complete rows"
        )
