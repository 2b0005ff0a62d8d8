"""Mixtures of densities of several kinds."""

from dataclasses import field
from functools import cached_property
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._fitting import with_some_cell
from skpc._validation import fit_context
from skpc.circuit import Circuit, mixture
from skpc.densities import Density
from skpc.domain import Domain, canonical_order, group_rows
from skpc.estimators._base import CircuitDensity, TableDensity
from skpc.estimators._composition import Composition
from skpc.estimators._estimator import parameter
from skpc.estimators._learner import TrainingData
from skpc.estimators._pools import most_bins, refuse_other_density
from skpc.estimators.cutset import CutsetNetworkBD
from skpc.estimators.extra_cutsets import ExtraCutsets
from skpc.estimators.hidden_chow_liu import HiddenChowLiuTree
from skpc.estimators.soft_learn import SoftLearnSPN
from skpc.estimators.table_mixture import TableMixture
from skpc.learning.held_out import HeldOutSplit
from skpc.pooling.folds import given_splits, make_folds
from skpc.pooling.mixture import DensityMixture, RowData, RowPool
from skpc.pooling.pool import Member, learn_pool


class StackedDensity(Composition, TableDensity):
    """Mixture of densities of several kinds, weighed by rows that they have not seen.

        p(x) = sum_k w_k p_k(x)

    The weights maximise the likelihood of held-out rows (a convex problem, solved by Newton's
    steps), so that the mixture is not worse there than its best member [1]_. Then all members learn
    from all rows. Answers about a row mix those of the members by their posterior weights, w_k
    times the density of the observed cells of the row under member k. They are as exact as those of
    the members.

    Parameters
    ----------
    estimators : list of (str, density estimator), default=None
        Names and densities, which are cloned; "drop" in place of a density leaves it out. Their
        parameters that describe columns (``categorical_features``, ``atoms`` and so on) do not
        matter: all share the columns of the stack, and the greatest ``n_bins`` among them. None:
        two :class:`HiddenChowLiuTree` and two :class:`SoftLearnSPN` of different seeds, a
        :class:`CutsetNetworkBD`, :class:`ExtraCutsets` and, where there are numbers, a
        :class:`TableMixture`.
    cv : int, splitter of scikit-learn or iterable of (train, test) row numbers, default=5
        Folds in which the members are learned to weigh them, where ``fit`` gets no ``X_val``. Where
        there are more than 10,000 distinct rows, an int holds out one part of about 5,000 instead.
        None means five.
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
    n_jobs : int, default=None
        Number of members, and of folds of them, that joblib learns at a time. None means 1 unless
        in a ``joblib.parallel_config`` context, and -1 all cores. The result is the same.
    random_state : int, RandomState instance or None, default=None
        Seeds the default members and the folds. Members that are given have seeds of their own.
    verbose : int, default=0
        With 1, a progress bar counts the members learned, from all rows and without each fold (a
        line at the end where tqdm is not installed).

    Attributes
    ----------
    estimators_ : list of density estimators
        The members, fitted to all rows.
    named_estimators_ : Bunch
        The members by their names.
    weights_ : ndarray of shape (n_members,)
        Their weights. A member of weight zero is not used.
    scores_ : ndarray of shape (n_members + 1,)
        Mean log density (nats) of the held-out rows under each member, and under the stack.
    circuit_ : Circuit
        One circuit over encoded rows, a sum over those of the members of positive weight, made when
        it is first read. The attribute does not exist (an AttributeError says why) where a member
        has no circuit, or members read numbers in different ways.
    domain_ : Domain
        What each column is; translates rows to encoded rows and back.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    CutsetNetworkBD : A member of the default stack.
    HiddenChowLiuTree : A member of the default stack.
    DensityClassifier : A pool of densities that predicts classes.

    Notes
    -----
    Choices that members make for themselves (a number of components or of hidden states) they make
    once, from all rows (or with ``X_val``), and keep them in the folds.

    References
    ----------
    .. [1] P. Smyth, D. Wolpert. "Linearly Combining Density Estimators via Stacking". Machine
           Learning 36, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import CutsetNetworkBD, SoftLearnSPN, StackedDensity
    >>> X = np.repeat([[0, 0, 0], [1, 1, 1], [0, 1, 1]], 40, axis=0)
    >>> members = [
    ...     ("cutset", CutsetNetworkBD()),
    ...     ("soft", SoftLearnSPN(random_state=0)),
    ... ]
    >>> stack = StackedDensity(members, random_state=0).fit(X)
    >>> stack.complete([[1, np.nan, np.nan]])
    array([[1., 1., 1.]])
    """

    estimators: Any = field(default=None, kw_only=False, metadata={"constraints": [None, list]})
    cv: Any = parameter(5, "cv_object")

    _member_parameters = ("estimators",)
    #: Scores and atoms are what the members have in common.
    margins = "auto"
    _orders_columns = False

    #: Folds that are given, while they are used.
    _splits: list[HeldOutSplit] | None = field(default=None, init=False)
    #: Weights by which the cells of each column are mixed in all rows; None: the posterior ones.
    _cell_weights: Floats | None = field(default=None, init=False)

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, X_val: Any = None) -> Self:
        """Learn the members and their weights.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.
        X_val : array-like or DataFrame of shape (n_rows, n_features), default=None
            Rows by which members are weighed, and by which those choose or stop that take such
            rows. None weighs them by ``cv`` folds.

        Returns
        -------
        StackedDensity
            The fitted estimator.

        Raises
        ------
        TypeError
            If a member is not a density of skpc.
        ValueError
            If names are there twice, all cells are missing, one is infinite, or the weights are
            negative or all zero.
        """
        return self._fit(X, sample_weight, X_val)

    def prepare(self, X: Any, sample_weight: Any) -> tuple[Domain, Floats, Floats]:
        """See the other densities; the splits become those of the rows learned from."""
        domain, rows, weight = super().prepare(X, sample_weight)
        if self.cv is not None and not isinstance(self.cv, Integral):
            # Given splits are about rows of the table; they become weights of distinct rows.
            table, _, _ = self._training_rows(X, sample_weight, reset=False)
            distinct = group_rows(domain.encode(table))[1]
            splits: Any = given_splits(self.cv, X, None, sample_weight, distinct, False)
            # Rows without any cell are not learned from; the others have an order.
            present = with_some_cell(domain, rows, np.arange(float(len(rows))))[1].astype(np.int64)
            present = present[
                canonical_order(rows[present], weight[present], domain.is_categorical).rows
            ]
            self._splits = [(train_weight[present], held[present]) for train_weight, held in splits]
        return domain, rows, weight

    @property
    def _takes_ranges(self) -> bool:  # type: ignore[override]
        # Only the kinds of the members count here, so that any seeds do.
        members = self._members(np.random.RandomState(), True)
        return all(getattr(member, "_takes_ranges", False) for _, member in members)

    @property
    def bins_wanted(self) -> int | None:
        """The greatest number of bins that a member wants."""
        return most_bins(self._members(np.random.RandomState(), True))

    @property
    def named_estimators_(self) -> Bunch:
        """The members by their names."""
        check_is_fitted(self)
        return Bunch(**dict(zip(self._names, self.estimators_)))

    @cached_property
    def circuit_(self) -> Circuit:
        """One circuit, a sum over those of the members."""
        check_is_fitted(self)
        # A member without weight need not be a circuit.
        used = np.flatnonzero(self.weights_).tolist()
        members = [self.estimators_[k] for k in used]
        names = [self._names[k] for k in used]
        without_circuit = [
            name for name, member in zip(names, members) if not isinstance(member, CircuitDensity)
        ]
        if without_circuit:
            raise AttributeError(
                f"circuit_ needs members that are circuits, which {without_circuit} are not; leave "
                "them out"
            )
        try:
            return mixture([member.circuit_ for member in members], self.weights_[used])
        except ValueError as error:
            raise AttributeError(
                "circuit_ needs members that read numbers alike (all in bins, or all by the same "
                f"scores), which {names} do not; a stack of HiddenChowLiuTree and CutsetNetworkBD "
                "has one"
            ) from error

    @property
    def _density(self) -> Density:
        used = np.flatnonzero(self.weights_).tolist()
        members = [self.estimators_[k].row_density for k in used]
        weights = self.weights_[used]
        return DensityMixture(members, weights, self.domain_, self._cell_weights)

    def _members(self, random_state: np.random.RandomState, numeric: bool) -> list[tuple[str, Any]]:
        """Names and members, as given or by default; the latter for numbers or without any."""
        if self.estimators is not None:
            named = self._named("estimators")
            members = [
                named_member
                for named_member in named
                if not isinstance(named_member[1], str) or named_member[1] != "drop"
            ]
            if not members:
                raise ValueError("estimators are all 'drop'; a stack needs at least one density")
            for _, member in members:
                refuse_other_density(member, type(self).__name__)
            return members
        # Each member has a seed at a fixed place, which stays where others come or go.
        seeds = random_state.randint(np.iinfo(np.int32).max, size=6).tolist()
        members = [
            ("hidden", HiddenChowLiuTree(random_state=seeds[0])),
            ("hidden_2", HiddenChowLiuTree(random_state=seeds[3])),
            ("soft", SoftLearnSPN(random_state=seeds[1])),
            ("soft_2", SoftLearnSPN(random_state=seeds[2])),
            ("cutset", CutsetNetworkBD()),
            ("random_cuts", ExtraCutsets(random_state=seeds[5])),
        ]
        if numeric:
            members.append(("mixture", TableMixture(random_state=seeds[4])))
        return members

    def _learn(self, data: TrainingData) -> None:
        rows, weight, rows_val, pattern = data
        random_state = check_random_state(self.random_state)
        folds = []
        # A fitted stack of the same kind has made the choices, and tells the weights.
        pairs = [] if pattern is None else list(zip(pattern._names, pattern.estimators_))
        if pattern is None:
            numeric = not bool(self.domain_.is_categorical.all())
            given = self._members(random_state, numeric)
            pairs = [(name, clone(estimator)) for name, estimator in given]
            if rows_val is None:
                # Rows have no classes to be dealt evenly.
                group = np.zeros(len(rows), dtype=np.int64)
                splits = self._splits or (self.cv or 5)
                folds = make_folds(rows, weight, group, splits, [0.0], random_state)
        members = [Member(name, density, True, keeps_choices=True) for name, density in pairs]
        row_data = RowData(self.domain_, rows, rows_val)
        pool = learn_pool(row_data, members, weight, folds, self.n_jobs, random_state, self.verbose)
        # The splits were those of this table, and no later one may meet them.
        self._splits = None
        fitted = [(name, member) for (name, _), member in zip(pairs, pool.fitted)]
        # Rows that are given weigh the members in the place of folds.
        if rows_val is not None:
            log_density = [density.row_density.log_density(rows_val) for density in pool.fitted]
            weight_val = np.ones(len(rows_val))
            pool = RowPool.weigh(np.column_stack(log_density), weight_val)
        weights, scores = pool[:2] if pattern is None else (pattern.weights_, pattern.scores_)
        self._take_members(fitted, weights, scores)

    def _take_members(self, members: Any, weights: Floats, scores: Floats) -> None:
        """Names and fitted members, their weights and their scores."""
        self._names, self.estimators_ = map(list, zip(*members))
        self.weights_ = weights
        self.scores_ = scores
        # The circuit of an earlier fit.
        self.__dict__.pop("circuit_", None)
        if any(not self.estimators_[k].domain_.has_bins for k in np.flatnonzero(self.weights_)):
            # The cells of a number are not those of bins alone.
            self.domain_ = self.domain_.without_bins()

    @classmethod
    def composed(
        cls, fitted: list[Any], weights: Floats, scores: Floats, cell_weights: Floats | None = None
    ) -> Any:
        """The stack of the densities of positive weight; a single one as it is.

        Its domain is that of the first density. The last of ``scores`` is that of the stack. For
        ``cell_weights`` see ``skpc.pooling.mixture.DensityMixture``.
        """
        used = np.flatnonzero(weights).tolist()
        kinds = [type(density).__name__ for density in fitted]
        # The first of a kind has its name, the others are numbered from 2 on.
        earlier = [kinds[:k].count(kind) for k, kind in enumerate(kinds)]
        names = [kind + str(n + 1) * (n > 0) for kind, n in zip(kinds, earlier)]
        members = [(names[k], fitted[k]) for k in used]
        stack = cls([(name, clone(member)) for name, member in members])
        stack._take_domain(fitted[0].domain_)
        stack._take_members(members, weights[used], scores[[*used, -1]])
        if cell_weights is not None:
            stack._cell_weights = cell_weights[:, used]
        # What is no density of rows, by itself, still needs a stack of cells.
        is_single = len(used) == 1 and isinstance(members[0][1], CircuitDensity)
        return members[0][1] if is_single else stack
