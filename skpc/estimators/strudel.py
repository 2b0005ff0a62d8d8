"""Structured-decomposable circuits by splits of a Chow-Liu tree, and mixtures of them."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skpc._arrays import Floats
from skpc._fitting import Rows, Stop
from skpc._threads import threads
from skpc._validation import AT_LEAST_ONE, POSITIVE, WHOLE
from skpc.circuit import Circuit
from skpc.counting.clustering import cluster_points
from skpc.estimators._base import CircuitDensity
from skpc.estimators._estimator import parameter
from skpc.estimators._learner import TrainingData
from skpc.learning.cutset import TREE, learn_cutset_network
from skpc.learning.filling import complete_points, fill_missing
from skpc.learning.strudel import StrudelNetwork, best_split, first_mixture
from skpc.queries import log_likelihood
from skpc.queries.flows import PseudoCounts
from skpc.queries.parameters import em_step, fit_to_rows

#: Fraction of the rows that make the choices, where no others are given.
_HELD_OUT = 0.1


class Strudel(CircuitDensity):
    """Structured-decomposable, deterministic circuit by splits of a Chow-Liu tree.

    The Chow-Liu tree of the columns [1]_ gives a vtree and a first circuit. Then the edge that most
    rows pass is split by the variable below it that raises the marginal likelihood most, and so on,
    for as long as held-out rows gain. A split copies only what leads to the variable (section 3 of
    [2]_). With several components, circuits of this one structure are mixed, and learned by EM.

    The vtree does not change. So products and expected kernels
    (:func:`skpc.queries.expected_kernel`) of two such circuits with one vtree are tractable:
    ``skpc.queries.fit_parameters(model.circuit_, rows)`` learns a second one from other rows. And
    ``ExpectedKernelSVR(Strudel())`` learns from rows that lack cells too.

    Parameters
    ----------
    n_components : int, default=1
        Number of circuits that are mixed. One circuit is deterministic, a mixture is not.
    max_splits : int, default=1000
        Greatest number of splits.
    min_samples_split : float, default=20.0
        Edges that rows of less weight pass are not split.
    param_ess : float, default=1.0
        Equivalent sample size of the Dirichlet prior of each sum, divided evenly.
    max_iter : int, default=100
        Greatest number of iterations of EM with several components.
    tol : float, default=1e-4
        EM ends where held-out rows gain less than this (nats a row) in three iterations.
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
        Seeds the held-out rows, the clusters that EM begins with, and the draws that fill missing
        cells of training rows.
    n_jobs : int, default=None
        Threads for answers. None means 1 unless in a ``joblib.parallel_config`` context, and -1 all
        cores. The result is the same.
    verbose : int, default=0
        Present as in other densities; nothing is printed.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit over encoded rows.
    domain_ : Domain
        What each column is; translates rows to encoded rows and back.
    n_splits_ : int
        Number of splits.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    CutsetNetworkBD : Decision trees with Chow-Liu trees at the leaves.
    ExpectedKernelSVR : Support vector regression with such a density.

    Notes
    -----
    The paper splits by the variable of greatest mutual information with the others. Here the
    marginal likelihood of the circuit decides, under the prior of ``param_ess``; an edge where no
    split raises it is left as it is. Where ``X_val`` is not given, a tenth of the rows is held
    out to choose the number of splits and of iterations, and the parameters are then learned from
    all rows. Numeric columns are binned. Missing cells of training rows are filled by draws for the
    structure, and summed out in a step of EM for the parameters.

    References
    ----------
    .. [1] C. Chow, C. Liu. "Approximating Discrete Probability Distributions with Dependence
           Trees". IEEE Transactions on Information Theory 14(3), 1968.
    .. [2] M. Dang, A. Vergari, G. Van den Broeck. "Strudel: Learning Structured-Decomposable
           Probabilistic Circuits". PGM 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import Strudel
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(0, 2, 500)
    >>> X = (rng.random((500, 4)) < np.where(kind, 0.9, 0.1)[:, np.newaxis]).astype(
    ...     int
    ... )
    >>> model = Strudel(random_state=0).fit(X)
    >>> circuit = model.circuit_
    >>> circuit.structured_decomposable, circuit.deterministic
    (True, True)
    >>> model.complete([[1, 1, 1, np.nan]])
    array([[1., 1., 1., 1.]])
    """

    n_components: int = parameter(1, AT_LEAST_ONE)
    max_splits: int = parameter(1000, WHOLE)
    min_samples_split: float = parameter(20.0, POSITIVE)
    param_ess: float = parameter(1.0, POSITIVE)
    max_iter: int = parameter(100, AT_LEAST_ONE)
    tol: float = parameter(1e-4, POSITIVE)
    n_bins: int | None = parameter(None, None, AT_LEAST_ONE)

    #: Bins know atoms and the space between them.
    margins = "auto"

    def _learn(self, data: TrainingData) -> None:
        random_state = check_random_state(self.random_state)
        with threads(self.n_jobs):
            rows, weight, rows_val, weight_val = data.divided(_HELD_OUT, random_state)
            if rows_val is None:
                # Too few rows to hold any out.
                rows_val = rows
                weight_val = weight

            def score(circuit: Circuit) -> float:
                return float(np.average(log_likelihood(circuit, rows_val), weights=weight_val))

            # Splits count complete rows; parameters are learned from the rows as they are.
            complete = self._filled(rows, weight, random_state)
            circuit, self.n_splits_ = self._split(complete, weight, score, data.like)
            if self.n_components > 1:
                circuit = self._first_mixture(circuit, complete, weight, random_state)
                fit = fit_to_rows(
                    circuit,
                    Rows(rows, weight),
                    self._prior(circuit),
                    Stop(self.max_iter, self.tol),
                    Rows(rows_val, weight_val),
                )
                circuit = fit.model.circuit
            elif np.isnan(rows).any():
                # Draws were for the structure: a step of EM sums the missing cells out.
                circuit = em_step(circuit, rows, weight, self._prior(circuit))
            if data.rows_val is None:
                # The choices are made: rows that were held out tell parameters too.
                circuit = em_step(circuit, data.rows, data.weight, self._prior(circuit))
            self.circuit_ = circuit

    def _prior(self, circuit: Circuit) -> PseudoCounts:
        """Every sum has the same prior: nested counts would leave deep sums with none."""
        n_children = np.bincount(circuit.edge_parent)[circuit.edge_parent]
        return PseudoCounts(self.param_ess / n_children, np.zeros(len(circuit.param)))

    def _filled(self, rows: Floats, weight: Floats, random_state: Any) -> Floats:
        n_states = self.domain_.n_states
        learn_tree = partial(learn_cutset_network, n_states=n_states, options=TREE)
        return fill_missing(self.domain_, rows, weight, learn_tree, 1, random_state)

    def _split(
        self, complete: Floats, weight: Floats, score: Any, pattern: Any
    ) -> tuple[Circuit, int]:
        """The circuit of the best number of splits."""
        codes = self.domain_.codes(complete)
        n_states = self.domain_.n_states
        # Without cuts the network is a single Chow-Liu tree.
        tree = learn_cutset_network(codes, weight, n_states, TREE).trees[0]
        network = StrudelNetwork(codes, weight, n_states, tree, self.domain_.axes, self.param_ess)

        def fitted(circuit: Circuit) -> Circuit:
            return em_step(circuit, complete, weight, self._prior(circuit))

        least = self.min_samples_split
        # A density of the same kind tells the number of splits: none has to be scored.
        if pattern is not None:
            n_splits = sum(network.split(least) for _ in range(pattern.n_splits_))
            return fitted(network.circuit()), n_splits
        return best_split(network, fitted, score, max_splits=self.max_splits, least=least)

    def _first_mixture(
        self, circuit: Circuit, complete: Floats, weight: Floats, random_state: Any
    ) -> Circuit:
        """Circuits of this structure, each learned from a cluster of the rows."""
        points = complete_points(self.domain_, complete, weight)
        clusters = cluster_points(points, weight, self.n_components, random_state)
        return first_mixture(circuit, complete, weight, clusters, self._prior(circuit))
