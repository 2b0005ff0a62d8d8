"""A model of the user's that answers for rows with missing cells, by its expectation over these."""

from collections.abc import Callable
from dataclasses import field
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from skpc._arrays import Floats, has_gaps, owners
from skpc._fitting import all_or_nothing
from skpc._threads import slices, threads
from skpc._validation import Interval, StrOptions, fit_context, objects_of
from skpc.domain import merge_rows, present_rows
from skpc.domain.stated import with_columns
from skpc.estimators._answers import by_chunks
from skpc.estimators._boosters import BoosterModel, with_margin
from skpc.estimators._estimator import CATEGORICAL_FEATURES, TableEstimator, parameter
from skpc.estimators._pools import refuse_other_density
from skpc.estimators._shapley import ShapleyValues, shapley_values
from skpc.estimators._targets import check_labels, check_target
from skpc.estimators._tree_paths import ModelColumns, read_sum
from skpc.estimators._trees import trees_of
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.soft_learn import SoftLearnSPN
from skpc.pooling.choice import fit_best
from skpc.pooling.masking import few_categories
from skpc.pooling.pool import fit_density, labelled

#: Rows, draws included, that a model answers at a time.
_ROWS = 20_000


def _model_has(method: str) -> Callable[[Any], bool]:
    """Whether the model has a method, before and after ``fit``."""

    def check(self: Any) -> bool:
        # The AttributeError of the model itself says best what it lacks.
        getattr(getattr(self, "_model", with_margin(self.estimator)), method)
        return True

    return check


class VarianceReduction(NamedTuple):
    """See :meth:`ExpectedPredictor.variance_reduction`."""

    values: Floats
    se: Floats


class ExpectedPredictor(MetaEstimatorMixin, TableEstimator):
    """A model of yours that takes rows with missing cells, by its expectation over these.

        E[f(x) | observed cells of x]

    The expectation is under a density of the rows, learned beside the model ``f``. It is exact for
    trees, forests and boosting of scikit-learn, XGBoost, LightGBM and CatBoost, whose leaves are
    events of the density [1]_, and for linear models; for others it is a mean over draws of the
    missing cells, as it is for trees where the density is no single circuit or has blocks of
    numbers. Complete rows have the answer of the model itself.

    Parameters
    ----------
    estimator : classifier or regressor
        The model. It is cloned and learns from numbers and from categories as ``encoder`` says. A
        ``FrozenEstimator``, and a ``Booster`` of XGBoost or LightGBM, is a model that is trained
        already, on tables with the columns of ``X``.
    density : density estimator, default=None
        The model of the rows, which is cloned. None takes, by cells removed from held-out rows, the
        best of a :class:`CutsetNetworkBD`, a mixture of five, and a :class:`SoftLearnSPN` without
        blocks. The time of a prediction grows with the circuit.
    encoder : {"auto", "onehot", "codes", "table"}, default="auto"
        What the model reads. "onehot": a column for each state of a category (one for two states).
        "codes": numbers of states, which boosting by histograms takes for categories. "table":
        tables such as ``X``. "auto": "table" for a Pipeline and a FrozenEstimator, "codes" for
        boosting by histograms, otherwise "onehot".
    n_draws : int, default=100
        Draws of the missing cells of a row, where the expectation is not exact. The standard error
        of such a mean is the standard deviation of the draws over ``sqrt(n_draws)``.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical: a boolean mask, column numbers, or names. "from_dtype": those
        with a category dtype. "auto": these, strings, bools, and numeric columns of two integers in
        0..15, a few unusual ones apart (one in a thousand). A density that is given has its own.
    n_jobs : int, default=None
        Number of threads of ``fit`` and of predictions. None means 1 unless in a
        ``joblib.parallel_config`` context, and -1 all cores. The result is the same.
    random_state : int, RandomState instance or None, default=None
        Seeds the default density, the completion of training rows, and draws.
    verbose : int, default=0
        With 1, progress bars of the default densities.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model.
    density_ : density estimator
        The fitted density of rows.
    is_exact_ : bool
        Whether the expectation of any method is exact: of predictions and probabilities for trees
        and forests, of ``decision_function`` for boosting and linear classifiers.
    exact_methods_ : list of str
        The methods whose expectation is exact. Where the trees together have at most 4,096 paths,
        they all are, and so is the standard deviation of ``predict``.
    classes_ : ndarray of shape (n_classes,)
        The classes of a classifier.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    CircuitImputer : Fills cells by single values; a model of these is not the expected model.
    DensityClassifier : A classifier made for missing cells, where no model is given.

    Notes
    -----
    Training rows with gaps are completed by five joint draws each, of weight 1/5, from the density
    of the rows and ``y``: draws without ``y`` would weaken effects. A category that was not seen in
    ``fit`` is a missing cell. Cells are assumed to be missing at random.

    Probabilities of boosting and of linear classifiers are no sums over trees or columns: without
    few paths they are means over draws. Time grows with the number of leaves: give forests
    ``max_leaf_nodes``.

    References
    ----------
    .. [1] P. Khosravi, A. Vergari, Y. Choi, Y. Liang, G. Van den Broeck. "Handling Missing Data in
           Decision Trees: A Probabilistic Approach". ArTeMiSS workshop, ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from skpc import CutsetNetworkBD, ExpectedPredictor
    >>> X = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    >>> forest = RandomForestRegressor(20, bootstrap=False, random_state=0)
    >>> model = ExpectedPredictor(forest, CutsetNetworkBD()).fit(X, 10.0 * X[:, 0])
    >>> model.predict([[np.nan, 1.0], [1.0, np.nan]]).round()
    array([ 8., 10.])
    """

    estimator: Any = field(kw_only=False)
    density: Any = field(default=None, kw_only=False)
    encoder: str = parameter("auto", StrOptions({"auto", "onehot", "codes", "table"}))
    n_draws: int = parameter(100, Interval(Integral, 2, None, closed="left"))
    categorical_features: Any = parameter("auto", *CATEGORICAL_FEATURES)

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the density of the rows, and the model unless it is frozen.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : array-like of shape (n_samples,)
            Classes, or finite numbers. A frozen model needs none.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        ExpectedPredictor
            The fitted estimator.

        Raises
        ------
        TypeError
            If the estimator has no ``predict``, or the density is none of skpc.
        ValueError
            If a cell or a target is infinite, all cells are missing, the weights are negative or
            all zero, or the estimator does not take them; if a frozen model was trained on other
            columns.
        """
        if not hasattr(self.estimator, "predict"):
            raise TypeError(f"estimator needs a method predict; {self.estimator!r} has none.")
        is_frozen = self._is_frozen
        model = with_margin(self.estimator)
        if is_frozen and isinstance(model, BoosterModel):
            model.check_trained()
        # Whether models of other libraries classify is told by their faces.
        check = check_labels if is_classifier(model) else check_target
        with all_or_nothing(self), threads(self.n_jobs):
            # A frozen model has learned from targets of its own: y is not read.
            labels = () if is_frozen else (y, check)
            table, weight, y = self._training_rows(X, sample_weight, *labels)
            # Objects that are all whole numbers, or bools, are drawn as such, and not as floats.
            if hasattr(table, "infer_objects"):
                table = table.infer_objects()
            if is_frozen:
                self._check_columns(model)
            self.density_ = self._learn_density(table, weight)
            domain = self.domain_ = self.density_.domain_
            encoder = self._encoder()
            # Zero states mark numbers, which the model reads as they are, also where bins exist.
            n_states = np.where(domain.is_categorical, domain.n_states, 0)
            self._is_table = encoder == "table"
            self._columns = ModelColumns.from_states(n_states, encoder == "onehot")
            if self._is_table:
                # A model of tables compares the states themselves, and not their codes.
                self._columns = self._columns._replace(values=[column.states for column in domain])
            if is_frozen:
                self.estimator_ = self.estimator
            else:
                # Weights that nobody gave must not reach a model that takes none.
                given = None if sample_weight is None else weight
                self.estimator_ = self._learn_model(domain.encode(table), weight, y, given)
            self._model = with_margin(self.estimator_)
            self._sum = self._read_model()
            read = self._sum
            names = ("predict", "predict_proba", "decision_function")
            self.exact_methods_ = [n for n in names if read is not None and read.of_method(n)]
            self.is_exact_ = read is not None
        return self

    def _check_columns(self, model: Any) -> None:
        """Raise if a model was trained on other columns than the table has."""
        found: Any = self.n_features_in_
        # Names are compared where the model has any, else numbers of columns.
        if hasattr(model, "feature_names_in_"):
            what = "columns named"
            wanted = [*model.feature_names_in_]
            # LightGBM keeps names with another character for spaces.
            found = [
                name.replace(" ", getattr(model, "space", " "))
                for name in getattr(self, "feature_names_in_", ())
            ]
        else:
            what = "number of columns"
            wanted = getattr(model, "n_features_in_", found)
        if wanted != found:
            name = type(getattr(self.estimator, "estimator", self.estimator)).__name__
            raise ValueError(
                f"X must have the columns that the frozen {name} was "
                f"trained on, in their order: {what} {wanted}, but X has {found}."
            )

    def _encoder(self) -> str:
        if self.encoder != "auto":
            return self.encoder
        # What is trained, or transforms columns itself, reads tables like those of the user.
        if self._is_frozen or isinstance(self.estimator, Pipeline):
            return "table"
        return "codes" if self._takes_codes else "onehot"

    @property
    def _is_frozen(self) -> bool:
        """Whether the model is trained already; a Booster of another library always is."""
        is_bare = not hasattr(self.estimator, "get_params")
        return is_bare or isinstance(self.estimator, FrozenEstimator)

    @property
    def _takes_codes(self) -> bool:
        """Whether the model takes codes for categories, as boosting by histograms does."""
        return hasattr(self.estimator, "categorical_features")

    def _learn_density(self, table: Any, weight: Floats) -> Any:
        if self.density is not None:
            refuse_other_density(self.density, type(self).__name__)
            return clone(self.density).fit(table, sample_weight=weight)
        options = {"random_state": self.random_state, "verbose": self.verbose}
        # Networks that are fast to ask; trees of hidden variables take ten times as long.
        candidates = [
            CutsetNetworkBD(categorical_features=self.categorical_features, **options),
            CutsetNetworkBD(n_components=5, **options),
            SoftLearnSPN(leaves="univariate", **options),
        ]
        # What the columns are is learned once, for all candidates.
        data = candidates[0].prepare(table, weight)
        return fit_best(candidates, *data, self.random_state, 0.0)

    def _learn_model(self, rows: Floats, weight: Floats, y: Any, given: Floats | None) -> Any:
        """The fitted model; ``given`` are the weights that the user gave."""
        model = clone(self.estimator)
        takes_weights = has_fit_parameter(model, "sample_weight")
        if given is not None and not takes_weights:
            raise ValueError(f"sample_weight must be None, as {model!r} does not take weights.")
        incomplete = has_gaps(rows)
        # Joint draws by which a training row with gaps is completed.
        n_completions = 5
        if incomplete.any():
            # Without weights complete rows count as often as those that are drawn.
            n_copies = np.where(incomplete | (not takes_weights), n_completions, 1)
            copied = owners(n_copies)
            rows = self._completed(rows, y, weight, copied)
            y = y[copied]
            # The completions of a row share its weight, whether the user gave weights or not.
            given = (weight / n_copies)[copied] if takes_weights else None
        # The model sees codes: which of them are categories must be said.
        if self._takes_codes and self._encoder() == "codes":
            model.set_params(categorical_features=few_categories(self.domain_))
        options = {} if given is None else {"sample_weight": given}
        return model.fit(self._inputs(rows), y, **options)

    def _completed(self, rows: Floats, y: Any, weight: Floats, copied: Any) -> Floats:
        """Copies of training rows with joint draws of their missing cells, given ``y`` too."""
        density = self.density_
        if is_classifier(self.estimator):
            classes, target = np.unique(y, return_inverse=True)
            domain = self.domain_.with_category(len(classes))
            labels = labelled(rows, target)
        else:
            labels = labelled(rows, y)
            domain = self.domain_.with_number(*merge_rows(labels, weight), density.bins_wanted)
        # Without the target, what is drawn would weaken what the model is to learn from it.
        joint = fit_density(clone(density), domain, labels, weight).row_density
        return joint.draw_missing(labels[copied], check_random_state(self.random_state))[:, :-1]

    def _inputs(self, rows: Floats) -> Any:
        """What the model reads for complete rows."""
        return self.domain_.decode(rows) if self._is_table else self._columns.of(rows)

    def _read_model(self) -> Any:
        """The method of the model that returns a sum, and this; None of another model."""
        model = self._model
        model = model.estimator if isinstance(model, FrozenEstimator) else model
        domain = self.domain_
        columns = self._columns
        density = self.density_.row_density
        # Drawn rows on which what is read from a model must have its answers.
        n_checked = 200
        # A fixed seed: whether a model can be read must not be a matter of chance.
        rows = density.draw(n_checked, np.random.RandomState(0))
        if self._is_table:
            is_coded = getattr(model, "is_categorical_", None) is not None
            has_labels = (hasattr(scale, "labels") for scale in domain.calendars.values())
            values = self._read_values(model)
            is_text = (each is not None and each.dtype.kind not in "bif" for each in values)
            # Encoded rows do not tell what such a model compares.
            if is_coded or domain.is_hidden.any() or not all(has_labels) or any(is_text):
                if isinstance(model, BoosterModel):
                    model.goes_by_draws("dates, strings and columns that tell the same as another")
                return None
            columns = columns._replace(values=values)

        def rows_of(column: int) -> Any:
            if domain[column].labels is None:
                raise ValueError(
                    f"{domain[column].where} holds categories for the model, but numbers for the "
                    "density; name it in categorical_features, those of the density if one is given"
                )
            # Rows that are alike in all other columns, so that this one alone moves a leaf.
            n_states = len(domain[column].labels)
            copies = np.repeat(rows[:1], n_states, axis=0)
            copies[:, column] = np.arange(len(copies))
            return self._inputs(copies)

        trees = model.read(rows_of) if isinstance(model, BoosterModel) else trees_of(model)
        answer = partial(self._answer, self._inputs(rows))
        return read_sum(model, trees, columns, density, rows, answer)

    def _read_values(self, model: Any) -> list[Any]:
        """What a model that reads tables compares for each state of each column."""
        labels = [column.labels for column in self.domain_]
        values = [None if each is None else np.array(each) for each in labels]
        if not isinstance(model, BoosterModel):
            return values
        declared = {
            column: described[1]
            for column, described in enumerate(self.domain_.form.dtypes or ())
            if described[0] == "category"
        }
        for column, states in model.states(labels, declared).items():
            if labels[column] is not None:
                # A category that the model has not seen is in no set.
                codes = {state: float(code) for code, state in enumerate(states)}
                values[column] = np.array([codes.get(label, -1.0) for label in labels[column]])
        return values

    @property
    def classes_(self) -> np.ndarray:
        """The classes of a classifier."""
        return np.asarray(self._model.classes_)

    @property
    def _mean_method(self) -> str:
        """The method of the model whose answers can be averaged."""
        methods = ("predict_proba", "decision_function") if is_classifier(self) else ("predict",)
        return next(method for method in methods if hasattr(self._model, method))

    @property
    def _sum_method(self) -> str:
        """The method whose expectation is explained: the one that is a sum, if any is."""
        return self._mean_method if self._sum is None else self._sum.method

    @by_chunks
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The expected prediction, or the class that is most probable in expectation.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A row may lack all of them.
        return_std : bool, default=False
            Whether to return the spread of the model over the missing cells too; for a regressor.

        Returns
        -------
        prediction : ndarray of shape (n_samples,)
            For a complete row that of the model itself.
        std : ndarray of shape (n_samples,)
            Standard deviation of the model over the missing cells, 0 for a complete row, and so
            without the noise of the target: no interval for it follows. Exact where the trees have
            few paths together; otherwise by ``n_draws`` draws, with a relative error of about
            ``1 / sqrt(2 n_draws)``. Only with ``return_std``.

        Raises
        ------
        ValueError
            If ``return_std`` is asked of a classifier.
        """
        table, rows = self._encode(X)
        if not is_classifier(self):
            answer = self._expected(table, rows, "predict")
            if not return_std:
                return answer
            std = np.zeros_like(answer)
            incomplete = has_gaps(rows)
            if incomplete.any():
                std[incomplete] = self._spread(rows[incomplete])
            return answer, std
        if return_std:
            raise ValueError("return_std=True needs a regressor; a classifier has predict_proba.")
        margin = self._expected(table, rows, self._mean_method)
        # Two classes may share one margin, which is positive for the second.
        best = (margin > 0.0).astype(int) if margin.ndim == 1 else margin.argmax(axis=1)
        out = self.classes_[best]
        # The model has the last word on complete rows: it may break ties in its own way.
        is_complete = ~has_gaps(rows)
        if is_complete.any():
            out[is_complete] = self._of_complete(table, rows, is_complete, "predict")
        return out

    @available_if(_model_has("predict_proba"))
    @by_chunks
    def predict_proba(self, X: Any) -> Floats:
        """The expected probability of each class.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A row may lack all of them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Exact for trees and forests, otherwise by draws.
        """
        return self._expected(*self._encode(X), "predict_proba")

    @available_if(_model_has("decision_function"))
    @by_chunks
    def decision_function(self, X: Any) -> Floats:
        """The expected margin of each class.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells. A row may lack all of them.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            As the model has it. Exact for boosting and linear classifiers, otherwise by draws. A
            regressor of XGBoost, LightGBM or CatBoost has it too: the prediction before a link.
        """
        return self._expected(*self._encode(X), "decision_function")

    def shapley_values(self, X: Any, n_permutations: int | None = None) -> ShapleyValues:
        """How much each observed cell moves the expectation, by its conditional Shapley value.

        The value of a set of cells is the expectation of the model given these, ``E[f(x) | x_S]``:
        so a column that the model does not use has a part in it, if it tells about one that the
        model uses. It is no effect of changing the cell. Missing cells take no part.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        n_permutations : int, default=None
            Random orders in which cells become known, at least 2. With None the values of rows with
            up to ten observed cells are exact, and others take 100 orders.

        Returns
        -------
        named tuple
            ``values`` of shape (n_samples, n_features), with classes behind for probabilities (and
            margins of several classes), ``base_values``, the expectation where no cell is known, of
            shape (n_samples,) or (n_samples, n_classes), and ``se``, the standard errors of the
            values by random orders. ``values`` of a row and its ``base_values`` add up to the
            expectation given all its cells: of ``predict`` for a regressor, of what is exact for a
            classifier (see ``is_exact_``), else of ``predict_proba``.

        Raises
        ------
        ValueError
            If ``n_permutations`` is less than 2.
        """
        if n_permutations is not None and n_permutations < 2:
            raise ValueError(f"n_permutations must be None or at least 2, got {n_permutations!r}")
        with threads(self.n_jobs):
            table, rows = self._encode(X)
            method = self._sum_method
            expected = partial(self._of_incomplete, method=method)
            # A row of gaps is the coalition of no cells.
            base = expected(np.full((1, rows.shape[1]), np.nan))[0]
            whole = self._expected(table, rows, method)
            values = shapley_values(
                rows, base, whole, expected, n_permutations, check_random_state(self.random_state)
            )
            names = self.domain_.feature_names
            values.feature_names = None if names is None else [*names]
            values.data = table
            return values

    def variance_reduction(self, X: Any) -> VarianceReduction:
        """How much the variance of the model would fall if a missing cell were known.

        The expected fall is the variance of an expectation,

            Var(f | x_o) - E[Var(f | x_o, x_j)] = Var(E[f | x_o, x_j]),

        over the cell ``x_j``, given the observed cells ``x_o``. The cell with the largest fall is
        the one to ask for next.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        named tuple
            ``values`` of shape (n_samples, n_features), in squared units of the model, NaN where a
            cell is observed; ``se``, their standard errors by ``n_draws`` draws of the cell. The
            model is what :meth:`shapley_values` explains; variances of several classes are added.
        """
        with threads(self.n_jobs):
            rows = self._encode(X)[1]
            random_state = check_random_state(self.random_state)
            # (2, n_rows, n_features): falls of the variance, and their standard errors.
            values = np.full((2, *rows.shape), np.nan)
            for place, row in enumerate(rows):
                missing = np.flatnonzero(np.isnan(row))
                copies = np.repeat(row[np.newaxis], self.n_draws, axis=0)
                if len(missing):
                    # A joint draw serves all columns: each takes its own cells from it.
                    drawn = self.density_.row_density.draw_missing(copies, random_state)
                for column in missing.tolist():
                    copies[:, column] = drawn[:, column]
                    values[:, place, column] = self._variance_of_means(copies, random_state)
                    # The next column is drawn without knowing this one.
                    copies[:, column] = np.nan
            return VarianceReduction(*values)

    def _variance_of_means(
        self, rows: Floats, random_state: np.random.RandomState
    ) -> tuple[float, float]:
        """Variance of the expectations of rows of equal weight, and its standard error."""
        method = self._sum_method
        if self._sum is not None:
            # Exact means have no noise: paired with themselves, their covariance is the variance.
            pair = [self._expected_rows(rows, method)] * 2
        else:
            # Two answers that share nothing but the row have the covariance that is asked for.
            pair = [
                self._answer(
                    self._inputs(self.density_.row_density.draw_missing(rows, random_state)), method
                ).reshape(len(rows), -1)
                for _ in range(2)
            ]
        # (n_rows,): products of centred means, summed over outputs.
        products = np.prod([means - means.mean(axis=0) for means in pair], axis=0).sum(axis=1)
        n_rows = len(rows)
        unbiased = products * (n_rows / (n_rows - 1))
        return float(unbiased.mean()), float(unbiased.std(ddof=1) / np.sqrt(n_rows))

    def _expected_rows(self, rows: Floats, method: str) -> Floats:
        """Exact expectations of encoded rows, which may be complete; equal rows are asked once."""
        distinct, place = np.unique(rows, axis=0, return_inverse=True)
        return self._sum.of_method(method).expected(self.density_.row_density, distinct)[place]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, coefficient of determination of a regressor.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        y : array-like of shape (n_samples,)
            Their classes or targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        measure = accuracy_score if is_classifier(self) else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def _expected(self, table: Any, rows: Floats, method: str) -> Floats:
        """The expected answer of a method of the model."""
        is_complete = ~has_gaps(rows)
        if is_complete.all():
            return self._of_complete(table, rows, is_complete, method)
        expected_of_incomplete = self._of_incomplete(rows[~is_complete], method)
        # What stands behind the rows is up to the method: nothing, or a column for each class.
        out = np.empty((len(rows), *expected_of_incomplete.shape[1:]))
        out[~is_complete] = expected_of_incomplete
        if is_complete.any():
            out[is_complete] = self._of_complete(table, rows, is_complete, method)
        return out

    def _of_complete(self, table: Any, rows: Floats, is_complete: Any, method: str) -> Any:
        """The answer of the model itself for complete rows."""
        if not self._is_table:
            return self._answer(self._columns.of(rows[is_complete]), method)
        present = present_rows(table, is_complete.astype(np.float64))[0]
        return self._answer(self._typed(present, rows[is_complete]), method)

    def _typed(self, table: Any, rows: Floats) -> Any:
        """Complete rows of a table with the data types of drawn ones, where these have its cells.

        Gaps in other rows may have changed the types, and models may refuse others than they know.
        """
        drawn = self._inputs(rows)
        if not (hasattr(table, "iloc") and hasattr(drawn, "iloc")):
            return table
        # Floats stay as precise as they are; encoded cells may be rounded to states.
        typed = {
            place: column.array
            for place, ((_, given), (_, column)) in enumerate(zip(table.items(), drawn.items()))
            if given.dtype.kind + column.dtype.kind != "ff"
            and given.dtype != column.dtype
            and np.array_equal(objects_of(given), objects_of(column))
        }
        return with_columns(table, typed)

    def _of_incomplete(self, rows: Floats, method: str) -> Floats:
        """The expected answer for rows with missing cells, exact or by draws."""
        read = None if self._sum is None else self._sum.of_method(method)
        if read is None:
            return self._drawn(rows, method)[0]
        answer = read.expected(self.density_.row_density, rows)
        # A single output is flat, as the model's own answer is.
        return answer[:, 0] if answer.shape[1] == 1 else answer

    def _answer(self, inputs: Any, method: str) -> Any:
        if self._is_table and not hasattr(self._model, "feature_names_in_"):
            # A model that was trained without names would warn of them each time.
            inputs = np.asarray(inputs)
        return np.asarray(getattr(self._model, method)(inputs))

    def _spread(self, rows: Floats) -> Floats:
        """Standard deviation of the prediction over the missing cells, exact or by draws."""
        moments = None if self._sum is None else self._sum.moments("predict")
        if moments is None:
            return self._drawn(rows, "predict")[1]
        # Both are about a centre, so that their difference keeps its digits.
        mean, square = moments.expected(self.density_.row_density, rows).T
        return np.sqrt(np.maximum(square - mean**2, 0.0))

    def _drawn(self, rows: Floats, method: str) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the answer over draws of the missing cells."""
        random_state = check_random_state(self.random_state)
        parts = []
        for part in slices(len(rows), max(1, _ROWS // self.n_draws)):
            copies = np.repeat(rows[part], self.n_draws, axis=0)
            drawn = self.density_.row_density.draw_missing(copies, random_state)
            answers = self._answer(self._inputs(drawn), method)
            # (n_rows, n_draws), and the shape of an answer behind.
            answers = answers.reshape(-1, self.n_draws, *answers.shape[1:])
            parts.append((answers.mean(axis=1), answers.std(axis=1, ddof=1)))
        mean, sd = (np.concatenate(figures) for figures in zip(*parts))
        return mean, sd

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = getattr(self, "_model", with_margin(self.estimator)).__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        tags.target_tags.required = True
        return tags
