"""Random forests as joint densities of columns and classes."""

from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from skpc._arrays import Floats, Ints, group_sums
from skpc._fitting import all_or_nothing, progress
from skpc._threads import threads
from skpc._validation import AT_LEAST_ONE, AUTO, Interval, RealNotInt, StrOptions, fit_context
from skpc.domain import canonical_order, merge_rows
from skpc.estimators._classifier import ProbabilisticClassifier
from skpc.estimators._estimator import ColumnsEstimator, parameter
from skpc.estimators._targets import check_labels
from skpc.learning.random_trees import ForestOptions, learn_generative_forest
from skpc.pooling.pool import labelled
from skpc.variables.events import Events

#: A share of the columns, or what scikit-learn calls shares of them.
_SHARES = (StrOptions({"auto", "sqrt", "log2"}), Interval(RealNotInt, 0.0, 1.0, closed="right"))


class GenerativeForest(ProbabilisticClassifier, ColumnsEstimator):
    """Random forest that is a joint density, for rows with any cells missing.

    Each tree divides the rows as scikit-learn's random forests do. Its leaves have densities of the
    columns [1]_, so that the tree is a density of rows and classes. Given the observed cells of a
    row, the probabilities of the classes follow exactly, and no cell has to be imputed. Those of
    the forest are the means over its trees. Where all cells are observed and ``leaves="all"``, it
    is an ordinary random forest with smoothed leaves.

    Parameters
    ----------
    n_estimators : int, default=60
        Number of trees.
    leaves : {"auto", "all", "class"}, default="auto"
        What the density of the columns in a leaf is of. "all": of all its rows. "class": of those
        of each class, so that the cells of a row go on telling classes apart within its leaf, as in
        naive Bayes. "auto": "class" if this predicts better, by three standard errors, the rows
        that are out of the bags of a few trees, whole and with 40 % of their cells removed.
    min_samples_leaf : "auto" or int, default="auto"
        Least weight of the training rows in a leaf. "auto": 2 or 8, whichever predicts these rows
        better, 8 with ``leaves="class"``; more in very large tables, whose leaves would take more
        than a gigabyte.
    max_features : {"auto", "sqrt", "log2"}, int, float or None, default="auto"
        Number (or share) of the columns that compete for each split, as in
        :class:`sklearn.ensemble.RandomForestClassifier`. "auto": twice the square root of their
        number.
    bootstrap : bool, default=True
        Whether each tree is grown from a draw of the rows with replacement, or from all rows.
    n_bins : int, default=None
        Greatest number of bins of a numeric column in the tables of leaves, not counting its atoms
        and tails. None: the data decide, 20 at most. Trees cut between up to 255 values.
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
        A dict from columns (names or numbers) to pairs (lower, upper), between which all values
        lie. None stands for a side without a bound.
    handle_unknown : {"unseen", "missing", "error"}, default="unseen"
        What to do with a category that has not been seen or declared: take it as missing, or refuse
        it. "unseen" takes it as missing too, but in columns of strings log densities count the
        probability of such a category, the share of the training rows whose category is seen once.
    random_state : int, RandomState instance or None, default=None
        Seeds the draws of rows and columns, and of the missing cells of training rows.
    n_jobs : int, default=None
        Number of threads that grow trees, and that answer. None means 1 unless in a
        ``joblib.parallel_config`` context, and -1 all cores. The result is the same.
    verbose : int, default=0
        With 1, a progress bar counts the trees (a line at the end where tqdm is not installed).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    class_count_ : ndarray of shape (n_classes,)
        Total weight of the training rows of each class.
    leaves_ : str
        "all" or "class".
    min_samples_leaf_ : float
        Least weight of the rows in a leaf.
    n_leaves_ : int
        Number of leaves of all trees.
    domain_ : Domain
        What each column is; translates rows to encoded rows and back.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    DensityClassifier : A pool of densities and classifiers.

    Notes
    -----
    As a density of rows (:meth:`score_samples`, :meth:`sample`), the forest is the mixture of its
    trees with equal weights. A row of weight two equals the row twice, also in the draws of rows.

    A missing cell of a training row is drawn anew for each tree, from the rows of its class. The
    draws decide where the row goes; densities are learned from the observed cells alone.

    References
    ----------
    .. [1] A. H. C. Correia, R. Peharz, C. P. de Campos. "Joints in Random Forests". NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skpc import GenerativeForest
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GenerativeForest(random_state=0).fit(X, y)
    >>> model.predict([[np.nan, np.nan, 1.4, np.nan], [6.0, np.nan, np.nan, 2.1]])
    array([0, 2])
    >>> model.predict_proba(np.full((1, 4), np.nan)).round(1)
    array([[0.3, 0.3, 0.3]])
    """

    n_estimators: int = field(default=60, kw_only=False, metadata={"constraints": (AT_LEAST_ONE,)})
    leaves: str = parameter("auto", StrOptions({"auto", "all", "class"}))
    min_samples_leaf: Any = parameter("auto", AUTO, AT_LEAST_ONE)
    max_features: Any = parameter("auto", *_SHARES, AT_LEAST_ONE, None)
    bootstrap: bool = parameter(True, "boolean")
    n_bins: int | None = parameter(None, None, AT_LEAST_ONE)

    margins: ClassVar[str] = "auto"

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the trees, and learn the densities of their leaves.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : array-like of shape (n_samples,)
            Classes, numbers or strings. A single class is allowed.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        GenerativeForest
            The fitted forest.

        Raises
        ------
        ValueError
            If all cells are missing, one is infinite, a class is missing or not a class, or the
            weights are negative or all zero.
        """
        with all_or_nothing(self):
            table, weight, labels = self._training_rows(X, sample_weight, y, check_labels)
            self.classes_, code = np.unique(labels, return_inverse=True)
            self.class_count_ = group_sums(code, weight)
            self.domain_ = self._domain_of(table, weight)
            # The class goes along as a column: equal rows of two classes stay two rows.
            labelled_rows = labelled(self.domain_.encode(table), code)
            rows, weight = merge_rows(labelled_rows, weight)
            is_categorical = np.append(self.domain_.is_categorical, True)
            columns, order = canonical_order(rows, weight, is_categorical)
            # The class, too, has a place in this order, but not among the columns of trees.
            # The columns of the table in the order in which trees learn from them.
            self._order = columns[columns < self.n_features_in_]
            # Weights by class, (n_rows, n_classes), with one entry in each line that is not zero.
            is_class = rows[order, -1:] == np.arange(len(self.classes_))
            data = rows[np.ix_(order, self._order)], weight[order, np.newaxis] * is_class
            options = ForestOptions(*(getattr(self, name) for name in ForestOptions._fields))
            random_state = check_random_state(self.random_state)
            total = self.n_estimators
            domain = self.domain_.taken(self._order)
            with threads(self.n_jobs), progress(total, "trees", self.verbose) as advance:
                self._forest = learn_generative_forest(
                    domain, *data, options, random_state, advance
                )
            self.leaves_, self.min_samples_leaf_ = self._forest.choices
            trees = self._forest.trees
            self.n_leaves_ = sum(len(tree.low) for tree in trees)
        return self

    def _log_posterior(self, events: Events) -> Floats:
        return np.log(self._forest.posterior(events.rows[:, self._order]))

    def _log_density(self, events: Events) -> Floats:
        log_joint = self._forest.log_density(events.rows[:, self._order])
        # (n_rows, n_classes): the class is summed out.
        return np.logaddexp.reduce(log_joint, axis=1)

    def _draw(self, n_rows: int, random_state: np.random.RandomState) -> tuple[Floats, Ints]:
        rows, code = self._forest.draw(n_rows, random_state)
        return rows[:, np.argsort(self._order)], code
