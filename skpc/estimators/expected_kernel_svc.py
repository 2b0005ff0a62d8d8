"""Support vector classification that integrates over missing features."""

from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin, clone
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from skpc._arrays import SMALLEST_NORMAL, Floats, Ints
from skpc._fitting import all_or_nothing, progress
from skpc._threads import in_threads, threads
from skpc._validation import StrOptions, decisions_of_pairs, fit_context, sigmoid_calibration
from skpc.domain import merge_rows
from skpc.estimators._answers import by_chunks
from skpc.estimators._estimator import parameter
from skpc.estimators._targets import check_labels
from skpc.estimators.expected_kernel import ExpectedKernelMachine
from skpc.pooling.folds import Fold, make_folds


class Sigmoid(NamedTuple):
    """Platt scaling of the evidence for each class against the others; the sum is made 1.

    Attributes
    ----------
    curves : list of fitted calibrations
        One a class.
    """

    curves: list[Any]

    @classmethod
    def fit(cls, evidence: Floats, code: Ints, weight: Floats) -> Self:
        """Learn from held-out rows.

        Parameters
        ----------
        evidence : ndarray of shape (n_rows, n_classes)
            Large where a class is likely.
        code : ndarray of shape (n_rows,)
            Number of the class of each row.
        weight : ndarray of shape (n_rows,)
            Weights of the rows.
        """
        return cls(
            [
                sigmoid_calibration().fit(column, (code == c).astype(np.float64), weight)
                for c, column in enumerate(evidence.T)
            ]
        )

    def probabilities(self, evidence: Floats) -> Floats:
        """Probabilities of the classes, shape (n_rows, n_classes)."""
        class_columns = [curve.predict(column) for curve, column in zip(self.curves, evidence.T)]
        # All sigmoids may vanish in float64, and their shares would be 0 / 0.
        probability = np.maximum(np.column_stack(class_columns), SMALLEST_NORMAL)
        return probability / probability.sum(axis=1, keepdims=True)


class Temperature(NamedTuple):
    """Softmax of the evidence divided by a temperature.

    Attributes
    ----------
    inverse : float
        One over the temperature.
    """

    inverse: float

    @classmethod
    def fit(cls, evidence: Floats, code: Ints, weight: Floats) -> Self:
        """The temperature of least log loss; parameters are those of :meth:`Sigmoid.fit`.

        A class of n rows is one with probability (n + 1) / (n + n_classes), as in Platt scaling, so
        that machines that make no mistake do not make it infinite.
        """
        # Between these limits lies the logarithm of the inverse temperature.
        limits = (-7.0, 7.0)
        n_classes = evidence.shape[1]
        count = np.bincount(code, weight, minlength=n_classes)
        # (n_rows, n_classes): all get 1 / (n + n_classes), and the own class n + 1 times that.
        target = np.repeat(1.0 / (count + n_classes)[code][:, np.newaxis], n_classes, axis=1)
        target[np.arange(len(code)), code] *= count[code] + 1.0

        # On a logarithmic scale no inverse temperature is zero or negative.
        def loss(log_inverse: float) -> float:
            log_proba = log_softmax(np.exp(log_inverse) * evidence, axis=1)
            return float(-weight @ (target * log_proba).sum(axis=1))

        return cls(float(np.exp(minimize_scalar(loss, bounds=limits, method="bounded").x)))

    def probabilities(self, evidence: Floats) -> Floats:
        """Probabilities of the classes, shape (n_rows, n_classes)."""
        return softmax(self.inverse * evidence, axis=1)


_CALIBRATIONS: dict[str, Any] = {"sigmoid": Sigmoid, "temperature": Temperature}


def _calibrates(machine: Any) -> bool:
    if machine.calibration is None:
        raise AttributeError(
            "predict_proba needs a calibration, got calibration=None; fit with "
            "calibration='sigmoid' or 'temperature'"
        )
    return True


class ExpectedKernelSVC(ClassifierMixin, ExpectedKernelMachine):
    """Support vector classification by exact expected margins over missing features.

    The machine of :class:`skpc.ExpectedKernelSVR` for classes: where a row has missing cells, the
    margin between each pair of classes is its exact expectation over the completions of the row,
    given what is observed. The expected margin is not a probability, and a class with a small
    positive margin in all completions loses to one with a large margin in half of them. With a
    ``calibration``, :meth:`predict_proba` returns probabilities, for incomplete rows too.

    Parameters
    ----------
    density : estimator, default=None
        A density estimator of this package that has a ``circuit_`` once fitted; it is cloned. None
        chooses one as :class:`skpc.ExpectedKernelSVR` does. Missing cells in ``fit`` need a
        circuit that is structured-decomposable. That of ``CutsetNetworkBD(structured=True)`` always
        is; small circuits of other densities may be, and are accepted.
    calibration : {"sigmoid", "temperature"} or None, default=None
        How :meth:`predict_proba` turns the margin of each class against its closest rival into
        probabilities. "sigmoid": Platt scaling, one class against the others. "temperature":
        softmax of the margins divided by one number, which leaves the order of the classes alone.
        None: the model has no probabilities. See Notes.
    standardize : bool, default=True
        Whether the kernel sees each column of numbers divided by its standard deviation in the
        training rows, missing cells skipped. Rows stay in their own units everywhere else.
    gamma : "scale" or float, default="scale"
        Parameter of the kernel. "scale": one over the number of one-hot and numeric columns times
        their variance once numbers are standardized, missing cells skipped.
    C : float, default=1.0
        Inverse strength of the regularisation.
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
        Seeds the choice of the density and the densities chosen from, and what is held out and
        removed for the calibration.
    n_jobs : int, default=None
        Number of threads: folds of the calibration, densities that are compared, and what each of
        them does in threads. None means 1 unless in a ``joblib.parallel_config`` context, and -1
        all cores. The result is the same.
    verbose : int, default=0
        With 1, progress bars of the default densities (a line at the end of each where tqdm is not
        installed), a line as the solver begins, and a bar that counts the folds of the calibration.
        A density that is given has a ``verbose`` of its own.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    density_ : estimator
        The fitted density.
    domain_ : Domain
        What each column is for the density; translates rows to encoded rows and back.
    support_vectors_ : ndarray of shape (n_support_vectors, n_features)
        Distinct support vectors, as encoded rows; NaN where a cell is missing.
    dual_coef_ : ndarray of shape (n_pairs, n_support_vectors)
        Their coefficients in the margin of each pair of classes; a row for two classes.
    intercept_ : ndarray of shape (n_pairs,)
        The constants of the margins.
    gamma_ : float
        The parameter of the kernel.
    mean_, scale_ : ndarrays of shape (n_features,)
        Mean and standard deviation of the numbers of each column, on the scale on which the kernel
        compares them; 0 and 1 for categories, where a column is left alone, and with
        ``standardize=False``.
    n_iter_ : int
        Greatest number of iterations of the solver for a pair of classes.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    ExpectedKernelSVR : The same for numbers; its notes hold here too.

    Notes
    -----
    The kernel of two rows is its expectation over their missing cells [1]_.

    The calibration is learned from rows that the machine has not seen: the rows of each class are
    dealt into five folds, and for each fold a density and a machine learn from the other four.
    The rows held out are asked as they are, and with 30 % and 60 % of their cells removed at
    random, so that probabilities are right on average over rows more and less complete. That takes
    five fits more, and the predictions for these rows.

    :meth:`predict` goes by :meth:`decision_function`. Where two classes are nearly equal, the
    more probable one can be the other.

    References
    ----------
    .. [1] W. Li, Z. Zeng, A. Vergari, G. Van den Broeck. "Tractable Computation of Expected
       Kernels". UAI 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import ExpectedKernelSVC
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 2, 300)
    >>> X = np.column_stack([a, np.where(rng.random(300) < 0.9, a, 1 - a)])
    >>> model = ExpectedKernelSVC(calibration="sigmoid", random_state=0)
    >>> model = model.fit(X, np.array(["no", "yes"])[a])
    >>> model.predict([[1, 0], [np.nan, 0]])
    array(['yes', 'no'], dtype='<U3')
    >>> model.decision_function([[1, 0], [np.nan, 0]]).round(1)
    array([ 1. , -0.8])
    >>> model.predict_proba([[1, 0], [np.nan, 0]]).round(2)
    array([[0.02, 0.98],
           [0.96, 0.04]])
    """

    calibration: str | None = parameter(None, StrOptions(set(_CALIBRATIONS)), None)

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the density and the machine.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : array-like of shape (n_samples,)
            Classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        ExpectedKernelSVC
            The fitted estimator.

        Raises
        ------
        TypeError
            If the density is not one of skpc.
        ValueError
            If there is one class only, a cell is infinite, the density has no circuit, rows
            have missing cells and the circuit of the density is not structured-decomposable, or a
            calibration has one row of each class only.
        """
        with all_or_nothing(self), threads(self.n_jobs):
            table, weight, labels = self._training_rows(X, sample_weight, y, check_labels)
            self.classes_, code = np.unique(labels, return_inverse=True)
            if len(self.classes_) < 2:
                raise ValueError(
                    "a classifier needs rows of two or more classes, got the one class "
                    f"{self.classes_.tolist()[0]!r}"
                )
            rows, weight, target = self._learn(SVC(), table, weight, code)
            self._calibrate(rows, weight, target.astype(np.int64))
        return self

    def _calibrate(self, rows: Floats, weight: Floats, code: Ints) -> None:
        """Learn what decisions mean, from copies of held-out rows with more and more removed."""
        # Shares of the cells that are removed from the copies of a held-out row.
        missing_rates = (0.0, 0.3, 0.6)
        if self.calibration is None:
            return
        random_state = check_random_state(self.random_state)
        # Parts that the rows are dealt into; each in turn is held out.
        n_folds = 5
        folds = make_folds(rows, weight, code, n_folds, missing_rates, random_state)
        if not folds:
            raise ValueError(
                f"calibration={self.calibration!r} needs two rows or more of some class, got one "
                f"row of each of the {len(self.classes_)} classes; use calibration=None"
            )

        def evidence_of(fold: Fold) -> Floats:
            machine = self._without(rows, fold.train_weight, code)
            # The name is bound below, before the first fold is asked.
            advance(1.0)
            return machine._evidence(fold.test_rows)

        with progress(len(folds), "folds", self.verbose) as advance:
            evidence = in_threads(evidence_of, folds)
        # Classes and weights follow in the order of the folds, as the evidence does.
        self._calibrator = _CALIBRATIONS[self.calibration].fit(
            np.concatenate(evidence),
            code[np.concatenate([fold.test_index for fold in folds])],
            np.concatenate([fold.test_weight for fold in folds]),
        )

    def _without(self, rows: Floats, kept_weight: Floats, code: Ints) -> Self:
        """The machine learned from the weight of each encoded row that is kept, same domain."""
        machine = clone(self).set_params(verbose=0)
        machine.classes_ = self.classes_
        machine.domain_ = self.domain_
        is_present = kept_weight > 0.0
        rows = rows[is_present]
        weight = kept_weight[is_present]
        # Where the fold leaves too little for a density, that of all rows stands in.
        machine.density_ = self.density_
        # A column without a cell that is not held out cannot be learned.
        if not np.isnan(rows).all(axis=0).any():
            # Rows that differ by their class alone are one row for the density.
            merged = merge_rows(rows, weight)
            density = clone(self.density_).set_params(verbose=0)
            machine.density_ = density.fit_rows(self.domain_, *merged)
        machine._solve(SVC(), rows, weight, code[is_present])
        return machine

    @by_chunks
    def decision_function(self, X: Any) -> Floats:
        """Expected margins given the observed features of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, the expected margin, positive for the second one. For more classes, the
            number of pairs that each class wins by its expected margin, plus less than a half by
            the sum of these margins.
        """
        _, rows = self._encode(X)
        margin = self._mean(rows) + self.intercept_
        n_classes = len(self.classes_)
        if n_classes == 2:
            return margin[:, 0]
        # Margins of pairs are positive for the first class, scikit-learn's votes for the second.
        return decisions_of_pairs(margin <= 0.0, -margin, n_classes)

    def predict(self, X: Any) -> np.ndarray:
        """The class of greatest decision for each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes.
        """
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return self.classes_[(decision > 0.0).astype(np.int64)]
        return self.classes_[decision.argmax(axis=1)]

    @available_if(_calibrates)
    @by_chunks
    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class given the observed features of each row.

        Only there with a ``calibration``, otherwise an AttributeError.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Classes in the order of ``classes_``.
        """
        _, rows = self._encode(X)
        return self._calibrator.probabilities(self._evidence(rows))

    def _evidence(self, rows: Floats) -> Floats:
        """The margin of each class against its closest rival, for encoded rows: what is calibrated.

        Shape (n_rows, n_classes); of two classes, each has half of the margin between them.
        """
        margin = self._mean(rows) + self.intercept_
        n_classes = len(self.classes_)
        if n_classes == 2:
            # That of two classes is positive for the second, others for the first of each pair.
            margin = -0.5 * margin
        # The closest rival has the least margin: minima begin with infinity.
        evidence = np.full((len(rows), n_classes), np.inf)
        for (class_a, class_b), pair_margin in zip(combinations(range(n_classes), 2), margin.T):
            evidence[:, class_a] = np.minimum(evidence[:, class_a], pair_margin)
            evidence[:, class_b] = np.minimum(evidence[:, class_b], -pair_margin)
        return evidence
