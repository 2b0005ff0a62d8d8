"""Mixtures of all trees."""

from copy import deepcopy
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats, Ints, check_memory, offsets
from skpc._fitting import all_or_nothing, announce, progress, with_some_cell
from skpc._threads import threads
from skpc._validation import (
    AT_LEAST_ONE,
    AUTO,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    StrOptions,
    fit_context,
)
from skpc._warnings import warn
from skpc.all_trees.density import AllTreesDensity
from skpc.all_trees.parameters import ComponentParameters, DirectedParameters, UndirectedParameters
from skpc.all_trees.training import (
    Adam,
    IncompleteRows,
    TrainingOptions,
    adam_pass,
    start_trees,
    train_trees,
    usual_batch_size,
)
from skpc.circuit import Circuit
from skpc.domain import Domain, merge_codes
from skpc.estimators._base import TableDensity
from skpc.estimators._estimator import parameter
from skpc.estimators._learner import TrainingData

#: Numbers that training holds for each pair of states, as measured.
_NUMBERS = {"adam": 17.0, "lbfgs": 50.0}
#: Seconds on one core, as measured: for each row and cubed number of columns; for each step and
#: squared number of states; for each incomplete row and squared number of columns, whose missing
#: cells are drawn in four epochs of ten.
_ROW = 1e-10
_STEP = {"directed": 1e-8, "undirected": 4e-8}
#: Fits that are guessed to take more seconds are announced.
_LONG = 3600.0


class MixtureOfAllTrees(TableDensity):
    """Mixture of all trees over the columns, a determinant (MoAT).

    Every tree over the columns is a distribution; this is the mixture of all of them at once,
    :math:`n^{n-2}` for n columns, with parameters for pairs of columns only. The trees share their
    tables, and a tree weighs the product of the weights of its edges. Likelihoods of complete rows
    are exact, by the matrix-tree theorem, and so are samples. With missing cells they are sums over
    trees that nobody can compute fast (theorem 1 of [1]_): rows with many missing cells are
    estimated by sampling trees.

    Parameters
    ----------
    orientation : {"directed", "undirected"}, default="directed"
        "undirected": the model of [1]_, in which the tables of all pairs of columns share the
        distributions of single columns. "directed": edges have a direction, each with a weight and
        a conditional table of its own, and any column may be a root. It has about twice the
        parameters, takes twice the time, and fits complete rows better. Where many cells are
        missing, "undirected" is the better choice: see Notes.
    n_components : int, default=1
        Number of such mixtures; with several, the model is a mixture of them.
    schedule : {"auto", "paper"}, default="auto"
        "paper": training as in [1]_, by Adam at a constant rate, which takes all rows in each of
        ``max_iter`` epochs, and returns the parameters of the epoch that is best on rows held out:
        batches of 1,024 rows at a rate of 0.05, or from 500 columns on of 64 rows at 0.01.
        ``solver``, ``learning_rate_init``, ``learning_rate``, ``averaging``, ``batch_size``,
        ``tol`` and ``n_iter_no_change`` have no effect then.
    solver : {"adam", "lbfgs"}, default="adam"
        "adam": mini-batches. "lbfgs": all rows at a time, for small tables.
    learning_rate_init : float, default=0.05
        The learning rate of Adam at the start.
    learning_rate : {"cosine", "constant"}, default="cosine"
        "cosine": it falls to zero over ``max_iter`` epochs. "constant": as in [1]_.
    averaging : bool, default=True
        Whether the parameters of an epoch are their mean over its steps. False takes the last ones,
        as in [1]_.
    batch_size : int or "auto", default="auto"
        Rows of a mini-batch. "auto": 25,600 cells, but 16 to 256 rows; in small tables no more
        than a tenth of the rows, or 64.
    max_iter : int, default=50
        Greatest number of epochs, or of iterations of L-BFGS. An epoch takes 100,000 rows at most,
        different ones each time; on a table of 400,000 rows this cost .03 nats a row.
    tol : float, default=1e-4
        Training stops when the mean log-likelihood has not improved by this, in nats a row, in
        ``n_iter_no_change`` epochs.
    early_stopping : bool, default=True
        Whether to watch the likelihood of ``X_val``, or of rows held out, and to return the
        parameters of the best epoch. Otherwise the training rows are watched, and the last
        parameters returned.
    validation_fraction : float, default=0.1
        Proportion of the rows held out if ``X_val`` is not given.
    n_iter_no_change : int, default=5
        See ``tol``.
    alpha : float, default=1.0
        Pseudo-count of each table that training starts from, shared out among its cells.
    inference : {"auto", "collapsed", "importance", "gibbs"}, default="auto"
        How rows with missing cells are estimated. "auto" draws completions, and sums over all trees
        for each; where completions are worth little, and with more than 220 columns, it draws trees
        in view of the observed cells, and sums out the missing ones in each. "collapsed" is the way
        of [1]_: it draws trees without a look at the row, and weighs them by it. "importance" draws
        the missing cells in each of these trees too, rather than to sum them out. "gibbs":
        marginals and draws by a Markov chain, which draws a tree given all cells and the missing
        cells given the tree; a chain tells no likelihoods, which are those of "collapsed".
    n_inference_samples : int, default=1000
        Trees drawn for a row, from each component; or fewer completions, until the likelihood is
        known to ``sqrt(8 / n_inference_samples)`` of its value (and to a fifth). If a row has few
        joint completions, at most ``min(160 / n, 40_000 / n**3)`` times this number with ``n``
        columns (and 65,536), they are summed instead, and the answer is exact.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical: a boolean mask, column numbers, or names. "from_dtype": those
        with a category dtype. "auto": these, strings, bools, and numeric columns of two integers in
        0..15, a few unusual ones apart (one in a thousand).
    categories : "auto" or list, default="auto"
        The states of each column as in OrdinalEncoder; None in the list lets the data of that
        column decide. A column with declared categories is categorical.
    n_bins : int, default=None
        Greatest number of bins of a numeric column, not counting its atoms. None: 20, or 10 with
        ``margins="plain"``. A column gets more than 10 bins where they explain other columns
        better. In small tables it gets fewer, so that a pair of bins of two columns has eight rows
        on average.
    margins : {"auto", "plain"}, default="auto"
        What is learned about each numeric column. "auto": its lattice (integers, fixed decimals),
        its atoms (values that repeat much more than others), its range, and how it is distributed
        within each bin. "plain": bins of equal mass and nothing more, as in the papers.
    atoms : "auto" or dict, default="auto"
        A dict from columns (names or numbers) to the values that are atoms, where you know them;
        the atoms of the other columns are found. Used by ``margins="auto"``.
    bounds : dict, default=None
        A dict from columns (names or numbers) to pairs (lower, upper), between which all values
        lie. None stands for a side without a bound. Used by ``margins="auto"``.
    handle_unknown : {"unseen", "missing", "error"}, default="unseen"
        What to do with a category that has not been seen or declared: take it as missing, or refuse
        it. "unseen" takes it as missing too, but in columns of strings log densities count the
        probability of such a category, the share of the training rows whose category is seen once.
    random_state : int, RandomState instance or None, default=None
        Seeds the rows held out, the mini-batches, the completions of training rows, and once and
        for all the trees that rows with missing cells are estimated with: asking a fitted estimator
        again gives the same answer.
    n_jobs : int, default=None
        Number of threads that share the rows, for answers, and for gradients from fifty columns on.
        None means 1 unless in a ``joblib.parallel_config`` context, and -1 all cores. The result is
        the same.
    verbose : int, default=0
        With 1, a progress bar counts the epochs (a line at the end where tqdm is not installed).

    Attributes
    ----------
    domain_ : Domain
        What each column is; translates rows to encoded rows and back.
    mixture_ : Components
        The distribution of the states of the columns.
    weights_ : ndarray of shape (n_components,)
        Weights of the components.
    edge_probabilities_ : ndarray of shape (`n_features_in_`, `n_features_in_`)
        Probability that a tree has an edge into the first column from the second; on the diagonal,
        that the column is a root. Symmetric, with zeros there, for undirected trees.
    scores_ : list of float
        Mean log-likelihood of the rows watched after each epoch, in nats a row.
    n_iter_ : int
        Number of epochs.
    converged_ : bool
        Whether training stopped by ``tol``.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    HiddenChowLiuTree : One tree, over hidden states of the columns; exact marginals.
    CutsetNetworkBD : Networks whose leaves are Chow-Liu trees; exact marginals.

    Notes
    -----
    Rows may have missing cells in ``fit`` too. Every five epochs they are completed by draws from
    the current model (Monte Carlo EM). This is an approximation, and so is the likelihood that is
    watched.

    The logarithm of an estimated likelihood is too low by about half a nat divided by the
    :meth:`effective_sample_size`. With "auto" it is a little lower still, as completions are drawn
    until their weights agree, which they may do too early. Below a size of ten, which is frequent
    with "directed" where most cells are missing, answers may be off by tenths of a nat and come
    with a ``ConvergenceWarning``. At worst time is proportional to ``n_inference_samples``. Rows
    with few completions are summed exactly, whatever the ``inference``.

    If training is interrupted, the estimator stays as it was before.

    References
    ----------
    .. [1] N. R. Selvam, H. Zhang, G. Van den Broeck. "Mixtures of All Trees". AISTATS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import MixtureOfAllTrees
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 2, 500)
    >>> X = np.column_stack(
    ...     [a, a ^ (rng.random(500) < 0.1), rng.integers(0, 3, 500)]
    ... )
    >>> model = MixtureOfAllTrees(random_state=0).fit(X)
    >>> model.score_samples([[1, 1, 2], [0, 1, 1], [1, np.nan, np.nan]]).round(1)
    array([-1.8, -4.5, -0.6])
    >>> model.complete([[1, np.nan, 0]])
    array([[1., 1., 0.]])
    """

    orientation: str = parameter("directed", StrOptions({"directed", "undirected"}))
    n_components: int = parameter(1, AT_LEAST_ONE)
    schedule: str = parameter("auto", StrOptions({"auto", "paper"}))
    solver: str = parameter("adam", StrOptions({"adam", "lbfgs"}))
    learning_rate_init: float = parameter(0.05, POSITIVE)
    learning_rate: str = parameter("cosine", StrOptions({"cosine", "constant"}))
    averaging: bool = parameter(True, "boolean")
    batch_size: int | str = parameter("auto", AUTO, AT_LEAST_ONE)
    max_iter: int = parameter(50, AT_LEAST_ONE)
    tol: float = parameter(1e-4, NOT_NEGATIVE)
    early_stopping: bool = parameter(True, "boolean")
    validation_fraction: float = parameter(0.1, FRACTION)
    n_iter_no_change: int = parameter(5, AT_LEAST_ONE)
    alpha: float = parameter(1.0, POSITIVE)
    inference: str = parameter("auto", StrOptions({"auto", "collapsed", "importance", "gibbs"}))
    n_inference_samples: int = parameter(1000, AT_LEAST_ONE)
    n_bins: int | None = parameter(None, None, AT_LEAST_ONE)
    margins: str = parameter("auto", StrOptions({"auto", "plain"}))

    def _take_columns(self, order: Ints) -> None:
        # The vector and Adam's averages share one layout, which changes with the domain.
        taken = partial(self._parameters().taken, order=order)
        vector = taken(self._vector)
        (mean, square, n_steps) = self._adam
        super()._take_columns(order)
        self._adam: Adam = Adam(taken(mean), taken(square), n_steps)
        self._set_parameters(self._parameters(), vector)

    def _learn(self, data: TrainingData) -> None:
        random_state = self._seeded()
        rows = data.rows
        weight = data.weight
        validation = None
        if self.early_stopping:
            rows, weight, held, held_weight = data.divided(self.validation_fraction, random_state)
            if held is not None and len(held):
                # Numbers in the same bins are the same states: such rows come together.
                held_codes = merge_codes(self.domain_.codes(held), held_weight)
                validation = IncompleteRows(*held_codes, random_state)
        # An error tells the number where too few rows are left to learn from.
        n_held = float(data.weight.sum() - weight.sum())
        codes, weight = merge_codes(self.domain_.codes(rows), weight)
        options = self._options(weight.sum(), codes.shape[1])
        n_rows = len(codes)
        n_steps = 1.0
        # Adam takes a part of a large table in an epoch, by batches; L-BFGS takes all rows at once.
        if options.solver == "adam":
            n_rows = int(min(n_rows, options.epoch_rows))
            epoch_weight = min(weight.sum(), options.epoch_rows)
            n_steps = max(1.0, epoch_weight / options.batch_size)
        n_incomplete = float((codes < 0).any(axis=1).mean()) * n_rows
        self._tell_costs(n_rows, n_incomplete, n_steps)
        with progress(self.max_iter, "epochs", self.verbose) as advance, threads(self.n_jobs):
            parameters, vector = self._start(codes, weight, random_state, n_held)
            training_rows = IncompleteRows(codes, weight, random_state)
            trained = train_trees(
                parameters, vector, training_rows, validation, options, random_state, advance
            )
        self.scores_ = trained.scores
        self.converged_ = trained.converged
        self.n_iter_ = len(trained.scores)
        self._set_parameters(parameters, trained.vector)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take Adam once through some rows of a stream.

        What the columns are is learned from the rows of the first call (or of ``fit``), so declare
        ``categories`` that may come later. The learning rate stays at ``learning_rate_init``;
        ``solver``, ``learning_rate``, ``averaging``, ``max_iter`` and the parameters of early
        stopping have no effect.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells, which are drawn from the model as it is.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        MixtureOfAllTrees
            The fitted estimator.

        Raises
        ------
        ValueError
            If the columns are not those of the first call, a cell is infinite, the weights are
            negative or all zero, no cell has a known value, or if no column of the first call has
            more than one value.
        """
        with all_or_nothing(self):
            if hasattr(self, "domain_"):
                rows, weight = self._learn_more(X, sample_weight)
            else:
                self.domain_, rows, weight = self.prepare(X, sample_weight)
                _refuse_single_states(self.domain_)
                # What does not fit the memory is refused before it is allocated.
                self._refuse_excess()
                rows, weight = with_some_cell(self.domain_, rows, weight)
            codes, weight = merge_codes(self.domain_.codes(rows), weight)
            # The first call starts like fit; after a fit, its parameters go on.
            if not hasattr(self, "mixture_"):
                self._set_parameters(*self._start(codes, weight, self._seeded()))
                self.scores_ = []
                self.n_iter_ = 0
                self.converged_ = False
            with threads(self.n_jobs):
                self._take_steps(codes, weight)
        return self

    def _take_steps(self, codes: Ints, weight: Floats) -> None:
        """Take Adam once through distinct rows of states."""
        # The averages are changed in place, and an interruption must not leave half a pass.
        adam = deepcopy(self._adam)
        # The number of steps so far makes the seed: the same stream gives the same model.
        random_state = np.random.RandomState((self._seed + int(adam.n_steps[0])) % 2**32)
        parameters = self._parameters()
        options = self._options(weight.sum(), codes.shape[1])
        rows = IncompleteRows(codes, weight, random_state).drawn_from(self.mixture_)
        vector, _, score = adam_pass(parameters, self._vector, rows, options, adam, random_state)
        self.scores_, self.n_iter_, self._adam = [*self.scores_, score], self.n_iter_ + 1, adam
        self._set_parameters(parameters, vector)

    def _seeded(self) -> np.random.RandomState:
        """The source of all that is random in training; answers have a seed of it."""
        random_state = check_random_state(self.random_state)
        self._seed = random_state.randint(2**31)
        return random_state

    @property
    def _size(self) -> str:
        n_states = self.domain_.n_states
        return f"{len(n_states):,} columns with {n_states.sum():,} states in all"

    def _refuse_excess(self) -> float:
        """The memory that training takes, in GiB; refuse more than there is."""
        n_pairs = float(self.domain_.n_states.sum()) ** 2
        n_numbers = _NUMBERS[self.solver] * self.n_components * n_pairs
        remedy = "Choose fewer columns, merge rare states, or take fewer bins or components."
        check_memory(n_numbers, f"Mixtures of all trees over {self._size}", remedy)
        return n_numbers * 8.0 / 2**30

    def _tell_costs(self, n_rows: int, n_incomplete: float, n_steps: float) -> None:
        """Say what training on distinct rows takes, if it is to say anything or takes hours."""
        draw = 0.4 * 1.2e-7
        memory = max(self._refuse_excess(), 0.1)
        n = float(len(self.domain_.n_states))
        # For determinants, a step costs as much as eight rows more.
        on_rows = _ROW * n**3 * (n_rows + 8.0 * n_steps) + draw * n**2 * n_incomplete
        on_steps = _STEP[self.orientation] * float(self.domain_.n_states.sum()) ** 2 * n_steps
        seconds = self.max_iter * self.n_components * (on_rows + on_steps)
        text = (
            f"{self.max_iter} epochs of {self._size} may take {memory:.1f} GiB of memory and "
            f"{max(seconds / 60.0, 0.1):,.1f} minutes (a rough guess)"
        )
        announce(text, self.verbose)
        if seconds > _LONG:
            warn(
                text + ": time grows with the cube of the number of columns, and with the square "
                "of the number of states. Choose fewer of them, or a smaller max_iter.",
                RuntimeWarning,
            )

    def _start(
        self, codes: Ints, weight: Floats, random_state: np.random.RandomState, n_held: float = 0.0
    ) -> tuple[ComponentParameters, Floats]:
        """Where training starts; ``n_held`` rows are held out."""
        if self.n_components > max(weight.sum(), 1):
            held = f" and {n_held:g} more held out for early_stopping" if n_held else ""
            raise ValueError(
                f"n_components={self.n_components} must not exceed the number of rows to learn "
                f"from, found {weight.sum():g} sample(s){held}; choose fewer components"
            )
        parameters = self._parameters()
        n_states = self.domain_.n_states
        vector = start_trees(parameters, codes, weight, n_states, self.alpha, random_state)
        # partial_fit counts its averages from here on, also after a fit.
        self._adam = Adam.from_size(len(vector))
        return parameters, vector

    def _parameters(self) -> ComponentParameters:
        kind = DirectedParameters if self.orientation == "directed" else UndirectedParameters
        return ComponentParameters(kind(offsets(self.domain_.n_states)), self.n_components)

    def _options(self, total: float, n_features: int) -> TrainingOptions:
        # All options but the last, the rows of an epoch, are parameters of the estimator.
        *parameters, _ = TrainingOptions._fields
        options = TrainingOptions(*(getattr(self, name) for name in parameters))
        if self.schedule == "paper":
            # The paper takes all rows in all epochs, and has other settings for wide tables.
            is_wide = n_features >= 500
            return options._replace(
                solver="adam",
                learning_rate_init=0.01 if is_wide else 0.05,
                batch_size=64 if is_wide else 1024,
                n_iter_no_change=options.max_iter,
                learning_rate="constant",
                averaging=False,
                epoch_rows=np.inf,
            )
        if options.batch_size != "auto":
            return options
        return options._replace(batch_size=usual_batch_size(total, n_features))

    def _set_parameters(self, parameters: ComponentParameters, vector: Floats) -> None:
        self._vector = vector
        self.mixture_ = parameters.model(vector)
        self.weights_ = np.exp(self.mixture_.log_weight)
        edges = [model.edge_probabilities() for model in self.mixture_.models]
        # (n_components,) times (n_components, n_features, n_features).
        self.edge_probabilities_ = np.tensordot(self.weights_, edges, axes=1)

    def effective_sample_size(self, X: Any) -> Floats:
        """The number of independent draws of a tree given the row that its estimate is worth.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples,)
            Where completions are drawn, one over the squared relative error of the likelihood.
            Infinite where the answers are exact: for complete rows, and for rows with few joint
            completions. Below ten, raise ``n_inference_samples``.
        """
        _, rows = self._encode(X)
        return self._density.effective_sample_size(rows)

    def to_mixture(self, n_trees: int, random_state: Any = None) -> Circuit:
        """Sample trees, and make a circuit of their mixture: it answers every query exactly.

        Parameters
        ----------
        n_trees : int
            Number of trees drawn from the mixture; they get equal weights.
        random_state : int, RandomState instance or None, default=None
            The same seed gives the same trees. ``None`` draws anew at each call; the estimator's
            own ``random_state`` is not used.

        Returns
        -------
        Circuit
            A circuit over encoded rows. As ``n_trees`` grows, its likelihood approaches that of the
            estimator, from below on average.

        Raises
        ------
        ValueError
            If ``n_trees`` is not positive.
        """
        check_is_fitted(self, "domain_")
        if not isinstance(n_trees, Integral) or n_trees < 1:
            raise ValueError(f"n_trees must be an integer of 1 or more; got {n_trees!r}.")
        return self._density.sampled_circuit(int(n_trees), check_random_state(random_state))

    @property
    def _density(self) -> AllTreesDensity:
        settings = self._seed, self.inference, self.n_inference_samples, self.n_jobs
        return AllTreesDensity(self.mixture_, self.domain_, *settings)


def _refuse_single_states(domain: Domain) -> None:
    if (domain.n_states == 1).all():
        raise ValueError(
            "The rows of the first call tell partial_fit what the columns are, and found no column "
            "with more than one value: all that comes later would be unknown. Start with more "
            "rows, or declare categories."
        )
