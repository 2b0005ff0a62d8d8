"""Chow-Liu trees of hidden variables."""

import numpy as np
from sklearn.utils import check_random_state

from skpc._arrays import Floats, Ints
from skpc._fitting import Rows, learn, progress
from skpc._threads import threads
from skpc._validation import AT_LEAST_ONE, AUTO
from skpc.estimators._base import CircuitDensity
from skpc.estimators._estimator import parameter
from skpc.estimators._learner import TrainingData
from skpc.estimators._table_chunks import EncodedChunks
from skpc.learning.filling import complete_points
from skpc.learning.hidden_tree import HiddenTree, TaughtTree, hidden_tree_circuit
from skpc.learning.hidden_tree_search import (
    MAX_EPOCHS,
    TreeChoice,
    TreeRows,
    choose_hidden_tree,
    learn_hidden_tree,
)

#: Fraction of the rows that make the choices, where no others are given.
_HELD_OUT = 0.1


class HiddenChowLiuTree(CircuitDensity):
    """Chow-Liu tree of hidden variables, one above each column.

    Each column depends only on its own hidden variable, and the hidden variables form a tree:

        p(x) = sum over z of p(z_root) prod_v p(z_v | z_parent(v)) prod_v p(x_v | z_v)

    The tree is the Chow-Liu tree of the columns [1]_; the hidden variables carry more information
    along its edges than the columns would, so columns far apart depend on each other too [2]_. The
    result is a smooth and decomposable circuit: likelihoods, marginals, conditionals and samples
    are exact, with missing cells too, and these are summed out in learning.

    Parameters
    ----------
    n_hidden : "auto" or int, default="auto"
        Number of states of each hidden variable. "auto" chooses 2, 4, 8, 16, 32 or 64 by held-out
        rows.
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
        Seeds the starts, the order of the rows, and the choice of the rows held out.
    n_jobs : int, default=None
        Number of threads that read parts of the rows, for answers too. None means 1 unless in a
        ``joblib.parallel_config`` context, and -1 all cores. The result is the same.
    verbose : int, default=0
        With 1, a progress bar counts the epochs of all trees that are tried.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit over encoded rows.
    domain_ : Domain
        What each column is; translates rows to encoded rows and back.
    n_hidden_ : int
        Number of states of each hidden variable.
    parent_ : ndarray of shape (`n_features_in_`,)
        The parent of each column in the tree, -1 for the root.
    n_iter_ : int
        Number of epochs of EM for the chosen tree.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    MixtureOfAllTrees : All trees over the columns themselves.
    SoftLearnSPN : A circuit that is learned from clusters of rows and groups of columns.
    StackedDensity : Several densities, weighed by held-out rows.

    Notes
    -----
    There are two starts. In one the hidden states of all columns are the same clusters of the rows,
    found by k-means; in the other they are half as many clusters, and each hidden state stands for
    lower or upper values of its column. Held-out rows choose between them at the middle size, then
    ``n_hidden``, and between them again at the chosen size.

    EM takes steps on batches of rows: each step moves the expected counts towards those of its
    batch. Batches begin with 512 rows and double after an epoch that does not raise the likelihood
    of the held-out rows by one part in ten thousand; after three such epochs in a row EM ends, and
    the best iterate is kept. Where ``X_val`` is not given, a tenth of the rows is held out, and the
    tree is then learned again from all rows, with the same number of epochs.

    If there are more than 25,000 distinct rows, the tree and the number of hidden states are
    learned from 25,000 of them, drawn at random, for EM over these takes half a minute with 64
    states; one step of EM on all rows follows.

    Numeric columns are binned, as in :class:`CutsetNetworkBD`.

    References
    ----------
    .. [1] C. Chow, C. Liu. "Approximating Discrete Probability Distributions with Dependence
           Trees". IEEE Transactions on Information Theory 14(3), 1968.
    .. [2] A. Liu, G. Van den Broeck. "Tractable Regularization of Probabilistic Circuits".
           NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import HiddenChowLiuTree
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(0, 2, 500)
    >>> X = (rng.random((500, 4)) < np.where(kind, 0.9, 0.1)[:, np.newaxis]).astype(
    ...     int
    ... )
    >>> model = HiddenChowLiuTree(n_hidden=2, random_state=0).fit(X)
    >>> model.complete([[1, 1, 1, np.nan]])
    array([[1., 1., 1., 1.]])
    """

    n_hidden: int | str = parameter("auto", AUTO, AT_LEAST_ONE)
    n_bins: int | None = parameter(None, None, AT_LEAST_ONE)

    #: Bins know atoms and the space between them.
    margins = "auto"

    def _take_columns(self, order: Ints) -> None:
        super()._take_columns(order)
        # Old numbers of parents become new ones; the last entry maps -1, of the root, to itself.
        self.parent_: Ints = np.append(np.argsort(order), -1)[self.parent_[order]]

    def _learn(self, data: TrainingData) -> TaughtTree:
        random_state = check_random_state(self.random_state)
        seed = random_state.randint(np.iinfo(np.int32).max)
        with threads(self.n_jobs):
            if data.like is None:
                tree, choice = self._choose(data, seed, random_state)
            else:
                choice = data.like._choice
            # The choices are made: rows that were held out tell parameters too.
            if data.rows_val is None:
                tree = learn_hidden_tree(self._table(data.rows, data.weight), choice, seed)
        self._choice: TreeChoice = choice
        self.circuit_ = hidden_tree_circuit(tree, self.domain_.axes)
        self.n_hidden_ = tree.n_hidden
        self.parent_ = tree.parent
        self.n_iter_ = len(choice.batches)
        # Passes over more rows know the tree, and the shares of states in the sample.
        share = self._table(data.rows, data.weight).share
        return TaughtTree(tree, share, self.domain_)

    def _refit(self, data: Rows | EncodedChunks, sample: TrainingData, learned: TaughtTree) -> None:
        with threads(self.n_jobs):
            # By matrices: ten times as fast as by passes over the circuit of 64 hidden states.
            tree = learn([learned], data, self._passes).model.tree
        self.circuit_ = hidden_tree_circuit(tree, self.domain_.axes)

    def _choose(
        self, data: TrainingData, seed: int, random_state: np.random.RandomState
    ) -> tuple[HiddenTree, TreeChoice]:
        """The best tree, of all rows or of those that are not held out, and how it was learned."""
        rows, weight, rows_val, weight_val = data.divided(_HELD_OUT, random_state)
        if rows_val is None:
            # Too few rows to hold any out.
            rows_val = rows
            weight_val = weight
        held_out = Rows(self.domain_.codes(rows_val), weight_val)
        n_hidden = None if self.n_hidden == "auto" else int(self.n_hidden)
        table = self._table(rows, weight)
        is_categorical = self.domain_.is_categorical
        n_categories = int(self.domain_.n_states[is_categorical].max(initial=1))
        with progress(MAX_EPOCHS, "epochs", self.verbose) as advance:
            return choose_hidden_tree(table, held_out, n_hidden, n_categories, seed, advance)

    def _table(self, rows: Floats, weight: Floats) -> TreeRows:
        coded = Rows(self.domain_.codes(rows), weight)
        points = complete_points(self.domain_, rows, weight)
        return TreeRows.from_codes(coded, points, self.domain_.n_states)
