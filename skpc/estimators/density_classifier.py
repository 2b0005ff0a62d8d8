"""Classification of incomplete rows by a pool of densities."""

from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_random_state

from skpc._arrays import Floats, Ints, group_sums, log_or_inf
from skpc._fitting import all_or_nothing
from skpc._validation import AUTO, fit_context
from skpc.domain.stated import holds_ranges
from skpc.estimators._classifier import ProbabilisticClassifier
from skpc.estimators._estimator import parameter
from skpc.estimators._pools import PoolEstimator, check_rates
from skpc.estimators._ranges import drawn_by_column
from skpc.estimators._targets import check_labels
from skpc.estimators.hidden_chow_liu import HiddenChowLiuTree
from skpc.estimators.table_mixture import ClassMixture
from skpc.pooling.classes import ClassData, ClassDensities
from skpc.pooling.pool import Member
from skpc.queries import Events


class DensityClassifier(ProbabilisticClassifier, PoolEstimator):
    """Classifier by a pool of densities, for rows with any cells missing.

    Densities of the rows of each class, and of rows and classes together, give probabilities of
    the classes by Bayes' rule, with missing cells integrated out, in ``fit`` and in ``predict``: a
    row is judged by the cells that it has, and needs no imputation. Several densities, and boosting
    that is trained on copies of the rows with cells removed, are pooled by weights that are learned
    on held-out rows with cells removed. The density of the rows themselves comes with it
    (:meth:`score_samples`): a row that is improbable under every class is an outlier, whatever its
    label.

    Parameters
    ----------
    density : density estimator or list of (str, estimator), default=None
        Densities of skpc. They are cloned, and keep their own ``random_state``; they share one
        Domain, and must declare the same columns. None means a :class:`TableMixture` whose
        components belong to one class each, and a :class:`HiddenChowLiuTree`, both joint.
    priors : array-like of shape (n_classes,) or dict, default=None
        Probabilities of the classes, in sorted order or by class. None takes their frequencies in
        ``fit``; with a single joint density their probabilities under it, which are close to these.
    joint : bool or "auto", default="auto"
        Whether one density of the columns and the class together takes the place of one for each
        class. "auto": both are members of the pool; of the default densities, joint ones alone.
    classifiers : sequence or None, default=("forest", "boosting", "logistic")
        Further members. "forest": a :class:`GenerativeForest`. Others are trained on one copy of
        the rows for each of ``missing_rates``; their probabilities are averaged over three draws of
        the cells to remove (one, where members are weighed). "boosting":
        ``HistGradientBoostingClassifier``, whose settings are chosen on held-out rows.
        "logistic": logistic regression on scores of numbers and indicators of categories, missing
        ones filled by their means given the others under a normal distribution. A pair (name,
        classifier): any classifier that takes missing cells; it learns from encoded rows
        (``domain_.encode(X)``: numbers, and codes of categories). None: no such member.
    cv : int, cross-validation generator or iterable, default=3
        Folds in which members are learned to weigh them: a number, a splitter of scikit-learn, or
        pairs of row numbers (train, test). A number deals rows at random, classes evenly; with more
        than 10,000 distinct rows, it holds out one part instead.
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
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    class_count_ : ndarray of shape (n_classes,)
        Total weight of the training rows of each class.
    class_prior_ : ndarray of shape (n_classes,)
        Probability of each class before any cell of a row is known.
    member_names_ : list of str
        The members of the pool: names of densities, with " joint" added for those of columns and
        class together, and names of classifiers.
    weights_ : ndarray of shape (2, n_members)
        How much the log odds of each member count: first in rows with hardly a cell, then in
        complete rows. Rows between have weights in between. A member whose weight is zero in both
        is left out.
    offsets_ : ndarray of shape (n_classes,)
        What is added to the log odds of a complete row.
    mixture_weights_ : ndarray of shape (n_members,)
        Weights of the members in the density of the rows; zero for classifiers.
    log_loss_ : float or None
        Log loss of the pool on held-out rows, over all ``missing_rates``, in nats. Weights and
        offsets were fitted to it. None without a pool.
    member_log_losses_ : ndarray of shape (n_members,) or None
        Log losses of the members alone. None without a pool.
    densities_ : dict of str to list
        The fitted densities of encoded rows by the name of the member: one a class, or for a joint
        member a single one, whose last column is the number of the class.
    domain_ : Domain
        What each column is, decided on the rows of all classes together.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    DensityRegressor : The same for a target that is a number.
    sklearn.naive_bayes.GaussianNB : One Gaussian for each class and column.

    Notes
    -----
    With the prior :math:`\\pi_c` and the share o of seen cells, members m are pooled [2]_ by

    .. math::

       p(c \\mid x) \\propto \\pi_c \\exp\\Big(o \\, b_c
       + \\sum_m w_m \\log \\frac{p_m(c \\mid x)}{\\pi_c}\\Big), \\qquad
       w_m = (1 - o) \\, u_m + o \\, v_m, \\quad u_m, v_m \\ge 0 .

    ``score_samples`` and ``sample`` belong to another model: the linear mixture of the members that
    are densities of rows and classes. Its weights ``mixture_weights_`` maximise the likelihood of
    held-out rows.

    With one density, with ``joint`` given and without classifiers, there is no pool: the answer is
    that of Bayes' rule [1]_. A pool costs about as much as fitting each member ``cv + 1`` times:
    what a member chooses, it chooses again in each fold, which would flatter it otherwise.

    Where cells are known as ranges or sets, densities that are circuits learn from them and answer
    exactly for them. To members that are no densities such a cell is missing in ``predict``.

    The density of class c, learned from rows of total weight n, is mixed with the density of all
    rows. The density of all rows has the weight 1 / (n + 1), that of one more row: the next row may
    be unlike all rows before. That bounds the price of a wrong prediction. With ``joint`` nothing
    is mixed. A column without any value in the rows of a class is learned from those of all
    classes, which count as one row there.

    References
    ----------
    .. [1] Z. Ghahramani, M. Jordan. "Supervised Learning from Incomplete Data via an EM Approach".
       NIPS 1993.
    .. [2] D. Wolpert. "Stacked Generalization". Neural Networks 5, 1992.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from skpc import CutsetNetworkBD, DensityClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DensityClassifier(
    ...     CutsetNetworkBD(random_state=0), random_state=0
    ... ).fit(X, y)
    >>> model.predict([[np.nan, np.nan, 1.4, np.nan], [6.0, np.nan, np.nan, 2.1]])
    array([0, 2])
    >>> model.predict_proba(np.full((1, 4), np.nan)).round(2)
    array([[0.33, 0.33, 0.33]])
    """

    priors: Any = parameter(None, "array-like", dict, None)
    joint: bool | str = parameter("auto", "boolean", AUTO)
    classifiers: Any = parameter(("forest", "boosting", "logistic"), "array-like", None)

    _default_densities = ("mixture", ClassMixture()), ("hidden", HiddenChowLiuTree())
    _member_parameters = "density", "classifiers"
    _takes_ranges = True
    _model_parameter = "classifiers"
    _model_method = "predict_proba"
    _known_models: ClassVar[dict[str, str]] = {
        "forest": "forest",
        "boosting": "classifier",
        "logistic": "logistic",
    }

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the members, and pool them.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells. A cell may be a range or a
            set; then ``classifiers`` stay out, which cannot learn from these.
        y : array-like of shape (n_samples,)
            Classes, numbers or strings. A single class is allowed.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        DensityClassifier
            The fitted classifier.

        Raises
        ------
        TypeError
            If a density is not one of skpc, or a classifier has no ``predict_proba``, or ``X`` has
            ranges and a density is no circuit.
        ValueError
            If the densities declare different columns, a name is there twice, the priors do not
            fit the classes, rates of missing cells are not in [0, 1), all cells are missing, one
            is infinite, a class is missing or not a class, the weights are negative or all zero, or
            the density cannot learn from the few rows of a class (a note names the class).
        """
        with all_or_nothing(self):
            random_state = check_random_state(self.random_state)
            densities = self._densities(random_state)
            rates = check_rates(self.missing_rates)
            table, weight, labels = self._training_rows(X, sample_weight, y, check_labels)
            self.classes_, code = np.unique(labels, return_inverse=True)
            self.class_count_ = group_sums(code, weight)
            shares = self.class_count_ / self.class_count_.sum()
            self.class_prior_ = shares if self.priors is None else self._given_priors()
            task = densities, X, y, sample_weight, (table, weight, code)
            members = self._members(densities)
            # All densities declare the same columns, so that any of them knows the intervals.
            if holds_ranges(table, getattr(densities[0][1], "interval_columns", ())):
                events, weight, splits = self._labelled_events(*task, random_state)
                # The other models learn from copies of rows, which cannot hold ranges.
                members = [member for member in members if member.is_density]
            else:
                rows, weight, splits = self._labelled_rows(*task)
                events = Events.of(rows)
            code = events.rows[:, -1].astype(np.int64)
            events = events.with_cells(np.ascontiguousarray(events.rows[:, :-1]))
            domain = self._ordered_domain
            # Draws stand for the ranges wherever values are needed.
            rows = drawn_by_column(domain, events, weight, random_state)
            data = ClassData(domain, events, rows, code, self.classes_, log_or_inf(shares), rates)
            self._learn_pool(data, members, weight, code, splits, random_state)
            self._describe(members)
        return self

    def _members(self, densities: list[tuple[str, Any]]) -> list[Member]:
        """The members that densities and classifiers make."""
        ways = (False, True) if self.joint == "auto" else (bool(self.joint),)
        # By default rows and classes are learned together; given densities are tried both ways.
        if self.density is None and self.joint == "auto":
            ways = (True,)
        members = [
            Member(f"{name} joint" if joint else name, density, True, joint)
            for joint in ways
            for name, density in densities
        ]
        # With a single class, only the density of the rows is left to learn.
        return members if len(self.classes_) == 1 else self._with_others(members)

    def _describe(self, members: list[Member]) -> None:
        """The attributes that tell of the pool."""
        self.log_loss_ = self.member_log_losses_ = None
        # A single member has not been compared on held-out rows.
        if len(members) > 1:
            self.log_loss_, self.member_log_losses_ = self._pool.log_loss, self._pool.member_losses
        self.weights_, self.offsets_ = self._pool.pool
        self.mixture_weights_ = self._pool.mixture
        self.densities_ = {
            member.name: [self._of_table(density, fitted.joint) for density in fitted.densities]
            for member, fitted in zip(members, self._pool.fitted)
            if isinstance(fitted, ClassDensities)
        }

        fitted, *later_members = self._pool.fitted
        if self.priors is None and not later_members and fitted.joint:
            # A single joint density gives its own probabilities.
            self.class_prior_ = softmax(fitted.log_prior)

    def _given_priors(self) -> Floats:
        n_classes = len(self.classes_)
        prior = self.priors
        if isinstance(prior, dict):
            classes = self.classes_.tolist()
            if {*prior} != {*classes}:
                raise ValueError(f"priors must have the classes {classes}, got {prior!r}.")
            prior = [prior[label] for label in classes]
        prior = np.array(prior, dtype=np.float64)
        if prior.shape != (n_classes,):
            raise ValueError(
                f"priors needs one probability for each of the {n_classes} classes, shape "
                f"({n_classes},); found shape {prior.shape}."
            )
        if not (prior >= 0.0).all() or not np.isclose(prior.sum(), 1.0):
            raise ValueError(
                f"priors must be probabilities that sum to 1; found {prior.tolist()}, whose sum is "
                f"{prior.sum():g}."
            )
        return prior

    def _log_posterior(self, events: Events) -> Floats:
        # The pool leaves out how frequent classes are, so that priors can be given.
        odds = log_or_inf(self.class_prior_) + self._pool.log_odds(events)
        return odds - np.logaddexp.reduce(odds, axis=1, keepdims=True)

    def _log_density(self, events: Events) -> Floats:
        return self._pool.log_density(events, log_or_inf(self.class_prior_))

    def _draw(self, n_rows: int, random_state: np.random.RandomState) -> tuple[Floats, Ints]:
        code = random_state.choice(len(self.classes_), n_rows, p=self.class_prior_)
        rows = self._pool.draw(code, self.domain_.n_features, random_state)
        # Members draw columns in their own order; its inverse is that of the table.
        return rows[:, np.argsort(self._order)], code
