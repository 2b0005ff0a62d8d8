"""LearnSPN with soft row memberships."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skpc._arrays import Floats, check_memory
from skpc._fitting import Apart, Rows, Stop, learn, progress
from skpc._threads import threads
from skpc._validation import (
    AT_LEAST_ONE,
    AUTO,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    WHOLE,
    Interval,
    StrOptions,
)
from skpc.circuit import PRODUCT, SUM, Circuit
from skpc.domain import Domain
from skpc.estimators._base import CircuitDensity
from skpc.estimators._estimator import parameter
from skpc.estimators._learner import TrainingData
from skpc.estimators._table_chunks import EncodedChunks
from skpc.learning.hidden_tree_search import TreeChoice
from skpc.learning.smoothing import drawn_to_columns, refinement_pseudo_counts
from skpc.learning.soft_learn import SoftLearner, SoftLearnOptions
from skpc.learning.table_mixture import TableRows
from skpc.learning.table_search import HeldOutRows, TreeBeside, linear_scores, try_tree, weigh_tree
from skpc.queries import PseudoCounts, log_likelihood
from skpc.queries.parameters import ParametrisedCircuit, fit_to_rows

#: Fraction of the rows on which refinement watches the likelihood, where no others are given, and
#: the greatest number of them.
_HELD_OUT = 0.1
_MOST_HELD_OUT = 5_000.0
#: Pseudo-counts of refinement. Leaves that stay near what was learned do better on most of the
#: Twenty Datasets than leaves drawn to the column alone.
_PSEUDO_COUNTS = {"per_edge": 0.1, "like_column": 1.0, "as_learned": 10.0}
#: What "auto" stands for, in tables of categories and of numbers. k-means knows no width of a
#: cluster, and loose tests make leaves of few rows: categories gain by both, numbers lose.
_FOR_CATEGORIES = {"clusterer": "kmeans", "significance": 0.2, "n_refine": 50}
_FOR_NUMBERS = {"clusterer": "em", "significance": 0.05, "n_refine": 0}
#: A rise of the likelihood that is worth an iteration of refinement, in nats per cell.
_TOL = 4e-5


class SoftLearnSPN(CircuitDensity):
    """Sum-product network learned by LearnSPN with soft row memberships (SoftLearn).

    In turn, a sum divides rows into clusters, and a product separates columns that pass for
    independent, until single columns are left (Algorithm 2 of [1]_). LearnSPN sends each row into
    one cluster; SoftLearn divides it by its memberships, so that rows between clusters count in
    both. Then exact EM can adjust all parameters together, which the paper does not do
    (``n_refine=0`` leaves it out). A table in which no two columns depend on each other gets a
    product of leaves. The result is a smooth and decomposable circuit, so that likelihoods,
    marginals, conditionals, samples and expectations are exact; the most probable completion is a
    good guess.

    Numeric columns have atoms (values that repeat much more than others) and a score of the other
    values. The numbers of a part that is not divided any further are one leaf, a multivariate
    Gaussian of their scores (a block), so that a part need not be divided until its numbers are
    independent. Where a table has blocks, and half as many columns of states (categories,
    brackets) as of numbers, or more, a tree of hidden variables above all columns, whose numbers
    are atoms and normals, is mixed with the network if held-out rows gain by it.

    Parameters
    ----------
    assignment : {"soft", "hard"}, default="soft"
        Whether a row is divided among the clusters, or belongs to the closest one (LearnSPN).
    clusterer : {"auto", "kmeans", "em"}, default="auto"
        "kmeans": weighted k-means; memberships fall with the distance from the centroids.
        "em": a mixture of fully factorised distributions, from a k-means start. "auto": "em" in
        tables of numbers (a quarter of the columns or more are numeric), otherwise "kmeans".
    n_clusters : int, default=2
        Number of clusters of a sum. 1 gives a fully factorised distribution.
    beta : float, default=30.0
        How sharp the memberships of "kmeans" are.
    significance : "auto" or float, default="auto"
        Columns pass for dependent if the p-value of their chi-square test is smaller. "auto": 0.2,
        but in tables of numbers a level at which one in twenty of the pairs of a part that pass for
        dependent is expected to be independent (Benjamini and Hochberg).
    root_test : {"any", "pairs", None}, default="any"
        The test before the first sum. "any": that any two columns depend on each other, at a level
        of 0.001 for all pairs together (Bonferroni); if not, the distribution is fully factorised.
        "pairs": the root is a product if its columns fall apart, as every other part (the paper).
        None: no test.
    alpha : float, default=0.1
        Laplace pseudo-count of each state in a leaf.
    min_weight : float, default=8.0
        A part of no more weight than this becomes fully factorised.
    prune : float, default=1e-2
        A part leaves out a row if less than this proportion of the row has come to it.
    max_iter : int, default=100
        Greatest number of iterations of a clustering.
    em_tol : float, default=1e-3
        EM of a clustering ends once an iteration raises the mean log density of the rows by less,
        in nats a row.
    yates : bool, default=True
        Whether tests of two columns with two states each have Yates' correction.
    smallest_sd : float, default=0.01
        Smallest standard deviation of each column of a leaf before refinement, as a part of that of
        the column. It is never below half a step of the lattice of the column.
    leaves : {"block", "univariate"}, default="block"
        The leaves for the numbers of a part that is not divided. "block": one multivariate Gaussian
        of their scores. A part with numbers is divided only if held-out rows are likelier under a
        mixture of two blocks than under one. "univariate": independent Gaussians, and parts are
        divided until single columns are left, as in the paper. With ``margins="plain"``, and where
        all columns are categories, both are the same.
    n_refine : "auto" or int, default="auto"
        Greatest number of iterations of EM on all parameters. "auto": 50, but 0 in tables of
        numbers, where the structure gains more from the rows that refinement would hold out.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical: a boolean mask, column numbers, or names. "from_dtype": those
        with a category dtype. "auto": these, strings, bools, and numeric columns of two integers in
        0..15, a few unusual ones apart (one in a thousand).
    categories : "auto" or list, default="auto"
        The states of each column as in OrdinalEncoder; None in the list lets the data of that
        column decide. A column with declared categories is categorical.
    margins : {"auto", "plain"}, default="auto"
        What is learned about each numeric column. "auto": its lattice (integers, fixed decimals),
        its atoms (values that repeat much more than others), its range, and a score under which the
        other values look normal. "plain": Gaussians of the values as they are, as in the paper.
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
        Seeds the starts of the clusterings and the choice of the rows held out.
    n_jobs : int, default=None
        Number of threads: parts that are settled at a time (in tables with numbers), folds that
        weigh a division, components, and parts of the rows in refinement. None means 1 unless in a
        ``joblib.parallel_config`` context, and -1 all cores. The result is the same.
    verbose : int, default=0
        With 1, a progress bar counts the cells of ``X`` that have reached the leaves (a line at the
        end where tqdm is not installed).

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit over encoded rows.
    domain_ : Domain
        What each column is; translates rows to encoded rows and back.
    n_sums_, n_products_ : int
        Number of sums and products of the circuit.
    depth_ : int
        Greatest number of edges from the root to a leaf.
    n_iter_ : int
        Number of iterations of EM that were run.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    CutsetNetworkBD : A deterministic circuit, learned in a fraction of the time.
    HiddenChowLiuTree : A circuit shaped like a tree of the columns.
    StackedDensity : Several densities, weighed by held-out rows.

    Notes
    -----
    Rows may have missing cells in ``fit`` too: leaves, tests and distances skip them, and blocks
    and EM integrate them out.

    Clusters of rows with numbers are mixtures of blocks and categories, fitted by EM (with
    ``clusterer="kmeans"`` these only decide whether to divide). Covariances are shrunk to the one
    within the clusters that the part comes from; four-fold cross-validation chooses how much (two
    folds above 600 rows). A network of blocks is mixed with a background of wide Gaussians, with
    the weight of one row: without it, unusual rows would have a density near zero.

    If there are more than 20,000 distinct rows, all but the parameters is learned from 20,000 of
    them, drawn at random, for tests and clusters take a minute; one step of EM on all rows follows.

    With blocks a third of the rows (5,000 at most), or ``X_val``, says which columns have linear
    scores: none, those that others explain to more than nine tenths, or all. They need a gain of
    two standard errors under a mixture of eight Gaussians.

    A tree is tried on a tenth of the rows (about 5,000 at most), or on ``X_val``. If it describes
    them better than a mixture of eight Gaussians, the network is learned from the other rows, and
    both are weighed; a tree of a weight below .05 is left out, and a network without refinement
    learned from all rows again.

    The paper is reproduced with ``leaves="univariate"``, ``margins="plain"``,
    ``clusterer="kmeans"``, ``significance`` as a number, ``root_test="pairs"``, ``prune=0`` and
    ``n_refine=0``. It names neither a correction of its tests (``yates``) nor the end of EM
    (``em_tol``).

    Pseudo-counts of refinement are a tenth of a row for each weight, one row distributed like the
    column for each leaf, and for each categorical leaf ten rows distributed as it was learned.
    Refinement stops after four iterations in a row that raise the likelihood of ``X_val`` by less
    than 0.00004 nats a cell. If ``X_val`` is not given, a tenth of the distinct rows takes its
    place, and is left out of learning. The best iterate is kept.

    References
    ----------
    .. [1] S. Ghandi, B. Quost, C. de Campos. "Soft Learning Probabilistic Circuits". PGM 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import SoftLearnSPN
    >>> rng = np.random.default_rng(0)
    >>> side = rng.choice([-1.0, 1.0], 500)
    >>> X = np.column_stack([3 * side, -3 * side]) + rng.normal(size=(500, 2))
    >>> model = SoftLearnSPN(random_state=0).fit(X)
    >>> model.score_samples([[3.0, -3.0], [3.0, 3.0], [3.0, np.nan]]).round()
    array([ -2., -12.,  -1.])
    """

    assignment: str = parameter("soft", StrOptions({"soft", "hard"}))
    clusterer: str = parameter("auto", StrOptions({"auto", "kmeans", "em"}))
    n_clusters: int = parameter(2, AT_LEAST_ONE)
    beta: float = parameter(30.0, NOT_NEGATIVE)
    significance: float | str = parameter("auto", AUTO, FRACTION)
    root_test: str | None = parameter("any", StrOptions({"any", "pairs"}), None)
    alpha: float = parameter(0.1, POSITIVE)
    min_weight: float = parameter(8.0, NOT_NEGATIVE)
    prune: float = parameter(1e-2, Interval(Real, 0, 1, closed="left"))
    max_iter: int = parameter(100, AT_LEAST_ONE)
    em_tol: float = parameter(1e-3, NOT_NEGATIVE)
    yates: bool = parameter(True, "boolean")
    smallest_sd: float = parameter(1e-2, POSITIVE)
    leaves: str = parameter("block", StrOptions({"block", "univariate"}))
    n_refine: int | str = parameter("auto", AUTO, WHOLE)
    margins: str = parameter("auto", StrOptions({"auto", "plain"}))

    _most_rows = 20_000

    def _learn(self, data: TrainingData) -> Any:
        # Its numbers have Gaussian leaves, whatever bins the domain has for other densities.
        self.domain_ = self.domain_.without_bins()
        with threads(self.n_jobs):
            self._choose_scores(data)
            # The tree comes before the network, which must not learn from the rows that weigh both.
            tried = self._tried(data)
            learned = None
            self._learn_circuit(data, tried and tried[0])
            if tried:
                learned = self._mix(data, *tried)
        self.n_sums_ = int((self.circuit_.kind == SUM).sum())
        self.n_products_ = int((self.circuit_.kind == PRODUCT).sum())
        self.depth_ = self.circuit_.depth
        return learned

    def _table(self, rows: Floats, weight: Floats) -> TableRows:
        """The rows as trees learn from them."""
        return TableRows.from_domain(self.domain_, rows, weight)

    def _choose_scores(self, data: TrainingData) -> None:
        """Make the scores of some columns linear, if held-out rows gain by it."""
        # A choice by two standard errors takes more rows than a weight.
        held_out = 1 / 3
        part = self._held_out(data, held_out)
        if part is not None:
            table = self._table(part.rows, part.weight)
            self.domain_ = self.domain_.with_scores(linear_scores(table, part, 0))

    def _tried(self, data: TrainingData) -> tuple[HeldOutRows, TreeChoice, Floats] | None:
        """A tree of hidden variables that is worth a try, and what is held out to weigh it.

        See :func:`try_tree`.
        """
        part = self._held_out(data, _HELD_OUT)
        if part is None:
            return None
        tree = try_tree(self._table(part.rows, part.weight), part, 0)
        return tree and (part, *tree)

    def _held_out(self, data: TrainingData, fraction: float) -> HeldOutRows | None:
        """Rows divided by a seed of their own; None without blocks, or where rows are too few."""
        if not self._decided(self.domain_)[0].blocks:
            return None
        fraction = min(fraction, _MOST_HELD_OUT / len(data.rows))
        part = HeldOutRows(*data.divided(fraction, np.random.RandomState(0)))
        return None if part.test_rows is None else part

    def _mix(
        self, data: TrainingData, part: HeldOutRows, choice: TreeChoice, log_density_of_tree: Floats
    ) -> tuple[Circuit, TreeBeside, float] | None:
        """Mix the circuit with the tree, or learn it from all rows if that has hardly any weight.

        ``log_density_of_tree`` is that of the held-out rows. Returns what is mixed, if anything:
        the circuit, the tree and its weight.
        """
        # (n_held_out, 1): a column for each density that stands beside the tree.
        log_density_of_circuit = log_likelihood(self.circuit_, part.test_rows)[:, np.newaxis]
        _, share = weigh_tree(log_density_of_circuit, log_density_of_tree, part.test_weight)
        if share > 0.0:
            # The weight stands, so that the tree may learn from the held-out rows too.
            tree = TreeBeside.from_table(self._table(data.rows, data.weight), choice, 0)
            parts = self.circuit_, tree, share
            self.circuit_ = tree.beside(self.circuit_, share)
            return parts
        # Without refinement no rows need be held out any longer.
        if not self.n_iter_:
            self._learn_circuit(data)
        return None

    def _refit(self, data: Rows | EncodedChunks, sample: TrainingData, learned: Any) -> Any:
        if learned is None:
            return super()._refit(data, sample, learned)
        circuit, tree, share = learned
        # The tree passes rows by matrices: five times as fast as the circuit does.
        rows = sample.rows
        weight = sample.weight
        counts = refinement_pseudo_counts(circuit, rows, weight, **_PSEUDO_COUNTS)
        # Circuit and tree learn as if each were alone: the weight between them stands.
        apart = Apart((ParametrisedCircuit.from_rows(circuit, rows, weight, counts), tree))
        fit = learn([apart], data, self._passes)
        model, tree = fit.model.models
        self.circuit_ = tree.beside(model.circuit, share)
        return fit

    def _learn_circuit(self, data: TrainingData, part: HeldOutRows | None = None) -> None:
        domain = self.domain_
        numbers = domain.laws
        random_state = check_random_state(self.random_state)
        options, n_refine = self._decided(domain)
        # Covariances that are held at a time when a division is weighed.
        covariances = 40.0
        if options.blocks:
            n_numbers = int((domain.n_states == 0).sum())
            what = f"Covariances of {n_numbers:,} columns of numbers"
            remedy = 'Choose fewer columns, or leaves="univariate".'
            check_memory(covariances * float(n_numbers) ** 2, what, remedy)
        rows = data.rows
        weight = data.weight
        # The rows by which refinement is watched, and their weights.
        held_out = list[Any]([None, None])
        if part is not None:
            rows, weight, *held_out = part
        elif n_refine:
            fraction = min(_HELD_OUT, _MOST_HELD_OUT / len(rows))
            rows, weight, *held_out = data.divided(fraction, random_state)
        # Work is counted in cells of weighted rows, all of which come to leaves.
        with progress(weight.sum() * rows.shape[1], "cells", self.verbose) as advance:
            table = rows, weight, domain.n_states, numbers
            learner = SoftLearner(*table, options, random_state, domain.axes)
            circuit = learner.learn(advance)
        self.n_iter_ = 0
        pseudo_count = refinement_pseudo_counts(circuit, rows, weight, **_PSEUDO_COUNTS)
        if np.isnan(rows).any():
            circuit, pseudo_count = drawn_to_columns(circuit, rows, weight, pseudo_count)
        if n_refine:
            watched = None if held_out[0] is None else Rows(*held_out)
            # The tolerance is one for a cell, the loop compares rows.
            stop = Stop(n_refine, _TOL * rows.shape[1])
            fit = fit_to_rows(circuit, Rows(rows, weight), pseudo_count, stop, watched)
            circuit = fit.model.circuit
            self.n_iter_ = fit.n_iter
        self.circuit_ = circuit

    def _as_learned(self, rows: Floats, weight: Floats) -> PseudoCounts:
        return refinement_pseudo_counts(self.circuit_, rows, weight, **_PSEUDO_COUNTS)

    def _decided(self, domain: Domain) -> tuple[SoftLearnOptions, int]:
        """What to learn, and how many iterations of refinement."""
        # From this share of numeric columns on a table is one of numbers.
        share_of_numbers = 0.25
        has_numbers = (domain.n_states == 0).mean() >= share_of_numbers
        chosen = {name: getattr(self, name) for name in self._get_param_names()}
        for name, default in (_FOR_NUMBERS if has_numbers else _FOR_CATEGORIES).items():
            chosen[name] = default if chosen[name] == "auto" else chosen[name]
        # A number is the level of each test; only "auto" controls the false discoveries.
        chosen["false_discoveries"] = bool(has_numbers) and self.significance == "auto"
        # Plain numbers have no scores, whose Gaussian a block is.
        chosen["blocks"] = self.leaves == "block" and not domain.is_plain
        fields = (chosen[name] for name in SoftLearnOptions._fields)
        return SoftLearnOptions(*fields), int(chosen["n_refine"])
