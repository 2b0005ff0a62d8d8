"""Random cutset networks, mixed with equal weights."""

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from skpc._fitting import Apart, Rows, learn
from skpc._threads import threads
from skpc._validation import AT_LEAST_ONE, AUTO, POSITIVE, Interval, fit_context
from skpc.circuit import Circuit, mixture
from skpc.estimators._base import LIKE_SAMPLE, CircuitDensity
from skpc.estimators._estimator import parameter
from skpc.estimators._learner import TrainingData
from skpc.estimators._table_chunks import EncodedChunks
from skpc.learning.cutset import TREE, learn_cutset_network
from skpc.learning.filling import fill_missing
from skpc.learning.network import cutset_circuit
from skpc.learning.random_cuts import RandomCuts
from skpc.learning.smoothing import learned_from_shown
from skpc.queries.flows import pseudo_counts_from
from skpc.queries.parameters import ParametrisedCircuit, em_step


class ExtraCutsets(CircuitDensity):
    """Mixture of cutset networks whose cuts are drawn at random.

    What extremely randomised trees [1]_ are for regression, random cutset networks [2]_ are for
    densities: each network cuts columns drawn at random among those that divide its rows, until few
    rows are left, and ends in a Chow-Liu tree of these. The networks are mixed with equal weights:

        p(x) = 1/K sum_k p_k(x)

    No single one is good, but they err in different ways, and none costs much: there is no score to
    compute for cuts. The mixture is one smooth and decomposable circuit of deterministic parts, so
    that likelihoods, marginals, conditionals and samples are exact, with missing cells too.

    Parameters
    ----------
    n_estimators : int, default=40
        Number of networks.
    min_samples_split : float or "auto", default="auto"
        Rows of less weight than this are not cut. "auto": the best of 50, 100, 200, 500 and 1,000
        for held-out rows.
    max_features : int, float or None, default=None
        Number (an int) or share (a float) of the columns that a network may cut, drawn for each.
        None: all columns.
    bootstrap : bool, default=False
        Whether each network learns from rows drawn with replacement.
    param_ess : float, default=100.0
        Equivalent sample size of the Dirichlet priors of a network at its root, divided by the
        number of branches at every cut.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical: a boolean mask, column numbers, or names. "from_dtype": those
        with a category dtype. "auto": these, strings, bools, and numeric columns of two integers in
        0..15, a few unusual ones apart (one in a thousand).
    categories : "auto" or list, default="auto"
        The states of each column as in OrdinalEncoder; None in the list lets the data of that
        column decide. A column with declared categories is categorical.
    n_bins : int, default=None
        Greatest number of bins of a numeric column, not counting its atoms and tails. None: the
        data decide, 20 at most.
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
        Seeds the cuts, and the draws that fill missing cells of training rows.
    n_jobs : int, default=None
        Networks learned at a time, by joblib, and threads for answers. None means 1 unless in a
        ``joblib.parallel_config`` context, and -1 all cores. The result is the same.
    verbose : int, default=0
        Present as in other densities; nothing is printed.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit over encoded rows.
    domain_ : Domain
        What each column is; translates rows to encoded rows and back.
    min_samples_split_ : float
        The weight below which rows are not cut.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    CutsetNetworkBD : One network, or a few, whose cuts raise a structure score.
    GenerativeForest : Random trees that know a class.

    Notes
    -----
    A cut has a branch for each category of its column, or for each bin, and at least two branches
    with 5 rows and 1 % of those of the cut. Missing cells of training rows are filled by draws as
    in :class:`CutsetNetworkBD`. The draws divide rows at cuts, on columns that most rows know;
    edges of trees and tables rest on known cells, and tables of columns that few rows know are
    shrunk towards the shares of these columns. Then one iteration of EM learns the parameters of
    each network from the rows as they are.

    To choose `min_samples_split`, ten networks learn from three quarters of the rows and predict
    the last quarter; each quarter in turn, until a thousand rows have been held out. It goes down
    from 1,000 until held-out rows become less likely.

    If there are more than 25,000 distinct rows, cuts and trees are learned from 25,000 of them,
    drawn at random, for networks of more rows would take gigabytes; then each network learns its
    parameters from all rows, which are counted under it.

    References
    ----------
    .. [1] P. Geurts, D. Ernst, L. Wehenkel. "Extremely randomized trees". Machine Learning 63,
           2006.
    .. [2] N. Di Mauro, G. Gala, M. Iannotta, T. Basile. "Random Probabilistic Circuits". UAI 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import ExtraCutsets
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(0, 2, 2000)
    >>> X = (
    ...     rng.random((2000, 6)) < np.where(kind, 0.9, 0.1)[:, np.newaxis]
    ... ).astype(int)
    >>> model = ExtraCutsets(10, random_state=0).fit(X)
    >>> model.complete([[1, 1, 1, 1, 0, np.nan]])
    array([[1., 1., 1., 1., 0., 1.]])
    """

    n_estimators: int = field(default=40, kw_only=False, metadata={"constraints": (AT_LEAST_ONE,)})
    min_samples_split: Any = parameter("auto", AUTO, POSITIVE)
    max_features: Any = parameter(
        None, None, AT_LEAST_ONE, Interval(Real, 0.0, 1.0, closed="right")
    )
    bootstrap: bool = parameter(False, "boolean")
    param_ess: float = parameter(100.0, POSITIVE)
    n_bins: int | None = parameter(None, None, AT_LEAST_ONE)

    #: Values that repeat have bins of their own.
    margins = "auto"

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the networks.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or its chunks
            Numbers and categories; NaN (or None) marks missing cells. Chunks: :ref:`large_tables`.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        ExtraCutsets
            The fitted estimator.

        Raises
        ------
        ValueError
            If all cells are missing, one is infinite, or the weights are negative, all zero, or
            those of chunks.
        """
        return self._fit(X, sample_weight)

    def _learn(self, data: TrainingData) -> list[Circuit]:
        rows = data.rows
        weight = data.weight
        domain = self.domain_
        random_state = check_random_state(self.random_state)
        # A seed for each network makes the result independent of the number of threads.
        seeds = random_state.randint(2**31, size=self.n_estimators)
        n_tried = self._n_tried(domain.n_features)
        cuts = RandomCuts(domain.n_states, self.param_ess, n_tried, self.bootstrap, self.n_jobs)
        learn_tree = partial(learn_cutset_network, n_states=domain.n_states, options=TREE)
        with threads(self.n_jobs):
            # Cuts divide complete rows: draws stand for the missing cells.
            complete = fill_missing(domain, rows, weight, learn_tree, 1, random_state)
            codes = domain.codes(complete)
            if data.like is not None:
                self.min_samples_split_ = data.like.min_samples_split_
            elif self.min_samples_split == "auto":
                self.min_samples_split_ = cuts.choose_split(codes, weight, seeds)
            else:
                self.min_samples_split_ = float(self.min_samples_split)
            # Codes of missing cells are negative here: counts rest on the others.
            known = domain.codes(rows) if np.isnan(rows).any() else None
            networks = cuts.learn(codes, weight, self.min_samples_split_, seeds, known)
            circuits = [cutset_circuit(network, domain.axes) for network in networks]
            # Draws only place rows at cuts: parameters are learned from the rows as they are.
            if known is not None:
                for k, circuit in enumerate(circuits):
                    start, prior = learned_from_shown(
                        circuit, complete, weight, known >= 0, self.param_ess
                    )
                    circuits[k] = em_step(start, rows, weight, prior)
            self._mix(circuits)
            # A table of more rows than were learned from goes on from these; see _refit.
            return circuits

    def _n_tried(self, n_features: int) -> int:
        """Number of columns that may be cut at a node."""
        chosen = self.max_features
        if chosen is None:
            return n_features
        # An int is a number of columns, a float a share: 1 is one column, 1.0 all of them.
        return int(chosen) if isinstance(chosen, Integral) else max(1, int(chosen * n_features))

    def _mix(self, circuits: Sequence[Circuit]) -> None:
        """Mix the networks with equal weights."""
        self.circuit_ = mixture(circuits, np.full(len(circuits), 1.0 / len(circuits)))

    def _refit(
        self, data: Rows | EncodedChunks, sample: TrainingData, learned: list[Circuit]
    ) -> None:
        models = []
        for circuit in learned:
            # What the sample says counts as a few rows, so that the others cannot rule out a state.
            counts = pseudo_counts_from(circuit, LIKE_SAMPLE)
            model = ParametrisedCircuit.from_rows(circuit, sample.rows, sample.weight, counts)
            models.append(model)
        # The weights stay equal, and each network counts all rows as if it were alone.
        apart = Apart(tuple(models))
        with threads(self.n_jobs):
            passed = learn([apart], data, self._passes).model
        self._mix([model.circuit for model in passed.models])
