"""A bag of mixtures of hidden Chow-Liu trees."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skpc._arrays import Floats, Ints, offsets
from skpc._fitting import Rows, learn
from skpc._threads import threads
from skpc._validation import AT_LEAST_ONE, AUTO
from skpc.circuit import Circuit
from skpc.densities import CircuitAnswers, Density
from skpc.domain import Column
from skpc.estimators._base import CircuitDensity
from skpc.estimators._estimator import parameter
from skpc.estimators._learner import TableLearner, TrainingData
from skpc.estimators._table_chunks import EncodedChunks
from skpc.learning.fine_bins import ROWS_OF_BIN, fine_axis, n_fine_bins
from skpc.learning.fine_trees import FineForest
from skpc.learning.hidden_forest import TaughtForest, TreeSettings, learn_hidden_forest
from skpc.learning.state_laws import States
from skpc.queries import Events
from skpc.variables import Histogram, Law

#: Numbers of hidden states to choose from, and the rows that each of a large table needs.
_N_HIDDEN = (64, 32, 16, 8, 4, 2, 1)


class ForestAnswers(CircuitAnswers):
    """The answers of a circuit, which is made when one is needed, and faster ones.

    Log densities and draws without evidence pass matrices along the trees.
    """

    @property
    def circuit(self) -> Circuit:
        """The circuit of the estimator that stands in its place."""
        estimator: Any = self[0]
        return estimator.circuit_

    def log_density(self, rows: Any, given: Any = None) -> Floats:
        """See :class:`skpc.densities.Density`."""
        events = Events.of(rows)
        # Conditions and ranges take the circuit: matrices pass values alone.
        if given is not None or events.has_intervals:
            return super().log_density(events, given)
        estimator: Any = self[0]
        codes = self.domain.codes(events.rows)[:, estimator._order].astype(np.int64)
        log_likelihood = estimator._exact_forest.log_likelihood(codes)
        # Trees know the bins; where in a bin a number lies is told by the axes.
        return log_likelihood + self.domain.axis_table.log_density(events.rows)

    def draw(
        self, n_rows: int, random_state: np.random.RandomState, given: Events | None = None
    ) -> Floats:
        """See :class:`skpc.densities.Density`."""
        if given is not None:
            return super().draw(n_rows, random_state, given)
        estimator: Any = self[0]
        codes = estimator._exact_forest.draw(n_rows, random_state)
        seed = random_state.randint(np.iinfo(np.int32).max)
        domain = self.domain.taken(estimator._order)
        rows = domain.axis_table.draw(codes, np.full(codes.shape, np.nan), seed)
        return domain.snap_to_values(rows)[:, np.argsort(estimator._order)]


class HiddenForest(CircuitDensity):
    """Bag of mixtures of hidden Chow-Liu trees over fine bins.

    Each member divides the rows into clusters. In each cluster a hidden variable stands above each
    column, and the hidden variables form a Chow-Liu tree, as in :class:`HiddenChowLiuTree`:

        p(x) = 1/M sum_m sum_c w_mc sum over z of p(z_root) prod_v p(z_v | z_parent(v)) p(x_v | z_v)

    Columns have hundreds of bins. It is for tables of thousands of rows, whose draws a classifier
    hardly tells from rows; it learns from small ones too. The density is a smooth and decomposable
    circuit: likelihoods, marginals, conditionals and samples are exact, with missing cells too, and
    these are summed out in learning.

    Parameters
    ----------
    n_estimators : "auto" or int, default="auto"
        Number of members of the bag. "auto": 8.
    n_clusters : "auto" or int, default="auto"
        Number of clusters of each member. "auto": 1 below 6,000 rows; above, one for each 2,500
        rows, at least 4 and at most 16.
    n_hidden : "auto" or int, default="auto"
        Number of states of each hidden variable; a cluster of few rows has one for each 6 rows at
        most. "auto": 64, or 32 where a cluster has less than 25 rows for each of 64. Below 6,000
        rows held-out rows choose 64, 32, 16, 8, 4, 2 or 1. In large tables 32 gains likelihood
        and time, and draws are told from rows a little more easily.
    max_iter : int, default=10
        Number of epochs of EM.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical: a boolean mask, column numbers, or names. "from_dtype": those
        with a category dtype. "auto": these, strings, bools, and numeric columns of two integers in
        0..15, a few unusual ones apart (one in a thousand).
    categories : "auto" or list, default="auto"
        The states of each column as in OrdinalEncoder; None in the list lets the data of that
        column decide. A column with declared categories is categorical.
    n_bins : int, default=None
        Number of bins of a numeric column that have about equal mass; repeated values have others.
        None: one for each 8 rows, at least 16 and at most 128; in large tables one for each 20
        rows, at most 512.
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
        Seeds the clusters, the order of the rows, and the choice of the rows held out.
    n_jobs : int, default=None
        Number of threads that learn members, and that read parts of the rows for answers. None
        means 1 unless in a ``joblib.parallel_config`` context, and -1 all cores. The result is the
        same.
    verbose : int, default=0
        Present as in other densities; nothing is printed.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit over encoded rows. It is made when it is first asked for.
    domain_ : Domain
        What each column is; translates rows to encoded rows and back.
    n_estimators_, n_clusters_, n_hidden_ : int
        What has been chosen.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    HiddenChowLiuTree : One tree over coarser bins.
    SoftLearnSPN : Groups of columns and multivariate Gaussians, for smooth relations.
    TableMixture : A mixture of Gaussians and tables.

    Notes
    -----
    Hidden states of a column start from k-means of the rows in normal scores and scaled indicators,
    in which the column counts twice, its neighbours in the tree once, and the others less. EM takes
    steps on eight batches an epoch [1]_, each towards the expected counts of its batch.

    Categories, and values with 2 % of the rows, have probabilities of their own in each hidden
    state. So have all values of columns with at least 20 rows for each value, such as days of a
    calendar, if rows held out from one member have a higher likelihood so. The other bins of a
    column have a Gaussian of normal scores in each hidden state, and a factor of each bin which all
    hidden states share: it keeps the margin of the cluster, but for ten rows that are like the
    Gaussians.

    Of more than 25,000 distinct rows, so many are drawn at random. They tell all but the
    parameters, since EM over them takes a minute. All rows, in memory or in chunks, then teach the
    parameters by one step of EM. Each row teaches so many members that each member learns from
    125,000 rows; of a million rows and eight members, it teaches one. The law is that of
    :class:`HiddenChowLiuTree`, which goes back to [2]_.

    References
    ----------
    .. [1] O. Cappé, E. Moulines. "On-line Expectation-Maximization Algorithm for Latent Data
           Models". Journal of the Royal Statistical Society B 71(3), 2009.
    .. [2] A. Liu, G. Van den Broeck. "Tractable Regularization of Probabilistic Circuits".
           NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import HiddenForest
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(0, 2, 500)
    >>> X = (rng.random((500, 4)) < np.where(kind, 0.9, 0.1)[:, np.newaxis]).astype(
    ...     int
    ... )
    >>> model = HiddenForest(n_estimators=2, random_state=0).fit(X)
    >>> model.complete([[1, 1, 1, np.nan]])
    array([[1., 1., 1., 1.]])
    """

    n_estimators: int | str = parameter("auto", AUTO, AT_LEAST_ONE)
    n_clusters: int | str = parameter("auto", AUTO, AT_LEAST_ONE)
    n_hidden: int | str = parameter("auto", AUTO, AT_LEAST_ONE)
    max_iter: int = parameter(10, AT_LEAST_ONE)
    n_bins: int | None = parameter(None, None, AT_LEAST_ONE)

    #: Bins know atoms and the space between them.
    margins = "auto"

    @property
    def bins_wanted(self) -> int | None:
        """The domain needs no bins: these are finer."""
        return None

    @property
    def circuit_(self) -> Circuit:
        """The circuit, which is made when it is first asked for."""
        if "circuit" not in self._made:
            # Trees have the columns in the order of learning, the circuit has that of the table.
            axes = self.domain_.taken(self._order).axes
            circuit = self._exact_forest.circuit(axes)
            self._made["circuit"] = circuit.taken(np.argsort(self._order))
        return self._made["circuit"]

    @circuit_.setter
    def circuit_(self, circuit: Circuit) -> None:
        # The parameters of this circuit are not those of the trees any more.
        # The trees over the columns in the order in which they were learned from; None once
        # parameters have changed that only the circuit has.
        self._forest: Any = None
        # The same in float64, and the circuit, once they have been asked for.
        self._made: dict[str, Any] = {"circuit": circuit}

    @property
    def _density(self) -> Density:
        if self._forest is None:
            return super()._density
        face: Any = self
        return ForestAnswers(face, self.domain_)

    @property
    def _exact_forest(self) -> FineForest:
        """The trees in float64."""
        if "exact" not in self._made:
            self._made["exact"] = self._forest.exact()
        return self._made["exact"]

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        if state.get("_forest") is not None:
            # They are made again from the trees.
            state["_made"] = {}
        return state

    def _take_columns(self, order: Ints) -> None:
        if self._forest is None:
            super()._take_columns(order)
        else:
            # The method of CircuitDensity would make the circuit only to put it in order.
            TableLearner._take_columns(self, order)
            self._made = {}
        self._masses: list[Floats] = [self._masses[column] for column in order.tolist()]

    def _refit(self, data: Rows | EncodedChunks, sample: TrainingData, learned: Any) -> None:
        taught = TaughtForest.from_forest(self._forest, self.domain_, data.n_rows)
        with threads(self.n_jobs):
            self._forest = learn([taught], data, self._passes).model.forest
        self._made = {}

    def _learn(self, data: TrainingData) -> None:
        random_state = check_random_state(self.random_state)
        states = self._fit_states(data)
        with threads(self.n_jobs):
            chosen: tuple[int, int, int]
            if data.like is not None:
                chosen = data.like.n_estimators_, data.like.n_clusters_, data.like.n_hidden_
            else:
                chosen = self._choose(states, data, random_state)
            self.n_estimators_, self.n_clusters_, self.n_hidden_ = chosen
            settings = TreeSettings(self.n_clusters_, self.n_hidden_, self.max_iter)
            seeds = random_state.randint(2**31, size=self.n_estimators_).tolist()
            states = self._with_lines(states, data, settings, random_state)
            codes = self.domain_.codes(data.rows).astype(np.int64)
            self._forest = learn_hidden_forest(states, codes, data.weight, settings, seeds)
            self._made = {}

    def _fit_states(self, data: TrainingData) -> States:
        """Find the bins, or take those of a like density; the states and their proportions."""
        if data.like is None:
            n_bins = self.n_bins or n_fine_bins(float(data.weight.sum()))
            pairs = [
                _cells_of(column, values, data.weight, n_bins)
                for column, values in zip(self.domain_, data.rows.T)
            ]
        else:
            # Rows come in the order of learning, the like density has that of its table.
            places = data.like._order.tolist()
            pairs = [(data.like.domain_[place].axis, data.like._masses[place]) for place in places]
        # The masses of the states of each column are smooth along lines.
        axes, self._masses = map(list, zip(*pairs))
        columns = tuple(replace(column, axis=axis) for column, axis in zip(self.domain_, axes))
        domain = self.domain_ = replace(self.domain_, columns=columns)
        is_increasing = ~domain.is_categorical
        is_line = is_increasing & ~domain.is_ordered
        ptr = offsets(domain.n_states)
        states = States(ptr, is_line, is_increasing, np.concatenate(self._masses))
        codes = domain.codes(data.rows).astype(np.int64)
        return states.learned(codes, data.weight)

    def _with_lines(
        self,
        states: States,
        data: TrainingData,
        settings: TreeSettings,
        random_state: np.random.RandomState,
    ) -> States:
        """The states, those of columns with few values free if held-out rows are likelier so."""
        like = data.like and data.like._forest
        if like is not None:
            return states._replace(is_line=like.states.is_line)
        n_values = np.array([len(np.unique(cells)) for cells in data.rows.T])
        is_line = states.is_line & (n_values * ROWS_OF_BIN > data.weight.sum())
        free = states._replace(is_line=is_line)
        if (is_line == states.is_line).all():
            return states
        # One member tells both ways apart.
        scores, weight = self._held_out(
            [(states, settings), (free, settings)], 1, data, random_state
        )
        smooth_score, free_score = scores @ weight
        return free if free_score > smooth_score else states

    def _held_out(
        self,
        tried: list[tuple[States, TreeSettings]],
        n_members: int,
        data: TrainingData,
        random_state: np.random.RandomState,
    ) -> tuple[Floats, Floats]:
        """Log densities of held-out rows, (n_tried, n_rows), and their weights; perhaps no rows."""
        fraction = 0.2
        rows, weight, rows_val, weight_val = data.divided(fraction, random_state)
        if rows_val is None:
            return np.empty((len(tried), 0)), np.empty(0)
        seeds = random_state.randint(2**31, size=n_members).tolist()
        codes, codes_val = (self.domain_.codes(part).astype(np.int64) for part in (rows, rows_val))
        scores = [
            learn_hidden_forest(states, codes, weight, settings, seeds)
            .exact()
            .log_likelihood(codes_val)
            for states, settings in tried
        ]
        return np.array(scores), weight_val

    def _choose(
        self, states: States, data: TrainingData, random_state: np.random.RandomState
    ) -> tuple[int, int, int]:
        """The numbers of members, of clusters and of hidden states."""
        # From this number of rows on there are clusters: one for so many rows, but few and not
        # many.
        large = 6_000.0
        rows_of_cluster = 2_500.0
        fewest = 4
        most = 16
        rows_of_state = 25.0
        n_rows = float(data.weight.sum())
        # Members of a bag, where the user gives no number.
        n_members = 8
        n_clusters = 1
        if self.n_estimators != "auto":
            n_members = int(self.n_estimators)
        if self.n_clusters != "auto":
            n_clusters = int(self.n_clusters)
        elif n_rows >= large:
            n_clusters = int(np.clip(n_rows / rows_of_cluster, fewest, most))
        if self.n_hidden != "auto":
            return n_members, n_clusters, int(self.n_hidden)
        if n_rows >= large:
            # As many states as there are enough rows for, in each cluster.
            is_enough = n_rows / (n_clusters * _N_HIDDEN[0]) >= rows_of_state
            return n_members, n_clusters, _N_HIDDEN[0 if is_enough else 1]
        tried = [
            (states, TreeSettings(n_clusters, n_hidden, self.max_iter)) for n_hidden in _N_HIDDEN
        ]
        # Two members tell the numbers apart at less cost than a whole bag.
        scores, weight = self._held_out(tried, 2, data, random_state)
        # Where no rows can be held out there is one hidden state.
        number = _largest_good(scores, weight) if len(weight) else -1
        return n_members, n_clusters, _N_HIDDEN[number]


def _largest_good(scores: Floats, weight: Floats) -> int:
    """The first number whose held-out rows are within a standard error of those of the best."""
    gap = scores[np.argmax(scores @ weight)] - scores
    share = weight / weight.sum()
    less = gap @ share
    variance = (gap**2) @ share - less**2
    # Squares are compared, with their signs: the best itself is not less.
    return int(np.argmax(less * np.abs(less) <= variance / weight.sum()))


def _cells_of(
    column: Column, values: Floats, weight: Floats, n_bins: int
) -> tuple[Histogram | None, Floats]:
    """The axis of a column of numbers, and the smooth masses of its states."""
    if column.states is not None:
        # Categories have no line to be smooth along: all are equal to begin with.
        return None, np.full(len(column.states), 1.0 / len(column.states))
    law = column.law or Law.fit(values, weight)
    if np.isnan(values).all():
        # Only the domain has seen the column.
        values = np.array([law.low, law.high])
        weight = np.ones(2)
    return fine_axis(values, weight, law, n_bins)
