"""Mixtures of Gaussians and categories for tables with missing cells."""

from collections.abc import Sequence
from copy import copy
from itertools import islice
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_random_state

from skpc._arrays import Floats, Ints, check_memory, group_sums
from skpc._fitting import Rows, Stop, learn, progress
from skpc._threads import threads
from skpc._validation import AT_LEAST_ONE, StrOptions
from skpc.estimators._answers import by_chunks
from skpc.estimators._base import REWEIGHTED, CircuitDensity
from skpc.estimators._estimator import parameter
from skpc.estimators._learner import TableLearner, TrainingData
from skpc.estimators._table_chunks import EncodedChunks
from skpc.learning.held_out import deal
from skpc.learning.mixture import check_n_components
from skpc.learning.posterior import open_for_draws, redrawn
from skpc.learning.table_mixture import LearnedMixture, ReadRows, TableRows
from skpc.learning.table_search import N_STAGES, HeldOutRows, learn_chosen, learn_table_mixture

#: A table of fewer rows than the first number of a pair is divided into the second number of parts,
#: which are held out in turn. A larger table holds out one part: a quarter of the rows, but at most
#: about ``_MOST_HELD_OUT``.
_FOLDS = ((300, 8), (600, 4), (1500, 2))
_MOST_HELD_OUT = 2500


class TableMixture(CircuitDensity):
    """Gaussian mixture for real tables: numbers, categories and missing cells.

    Each component has a multivariate Gaussian of all numeric columns and a table of probabilities
    for each category. The Gaussian models scores, a power transform of each column, so it suits
    skewed columns. Values of a number that repeat much more than others (atoms, such as zeros) have
    probabilities of their own. Missing cells, in ``fit`` too, are integrated out exactly; you need
    not fill them in first.

    Covariances of components are drawn to the pooled one, so that they stay regular; held-out rows
    decide how much, and whether tails are heavy, which scores are linear, and how many components
    there are. Mixtures that are nearly as good as the best are mixed. In tables with few rows
    for each column, covariances of few factors are tried too. A background component, of the weight
    of a tenth of a row and with independent columns of heavy tails, takes outliers. Within a
    component tables are independent. So, in a table of half as many columns of states (categories,
    brackets) as of numbers, or more, a tree of hidden variables above all columns, whose numbers
    are atoms and normals, gets a weight of its own if held-out rows gain by it.

    The result is a smooth and decomposable circuit: likelihoods, marginals, conditionals, samples
    and expectations are exact.

    Parameters
    ----------
    n_components : "auto", "states" or int, default="auto"
        Number of components. "auto": held-out rows choose it, and the result combines several
        mixtures, and the tree. "states": one for each combination of categories and atoms,
        as far as rows suffice (see Notes). Only "auto" has a tree.
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
        Seeds the k-means clusters from which EM starts, and the choice of the rows held out.
    n_jobs : int, default=None
        Number of threads: mixtures that are learned at a time (those of several parts held out,
        those that are mixed in the end), parts of the rows, and components. None means 1 unless in
        a ``joblib.parallel_config`` context, and -1 all cores. The result is the same.
    verbose : int, default=0
        With 1, a progress bar counts the choices made (a line at the end where tqdm is not
        installed).

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit over encoded rows. Its root is a sum of the components, the tree if
        there is one, and the background last.
    domain_ : Domain
        What each column is; translates rows to encoded rows and back. The scores are those of
        ``domain_.laws``.
    n_components_ : int
        Number of components; neither the tree nor the background counts.
    weights_ : ndarray of shape (`n_components_`,)
        Weights of the components alone; they sum to one.
    means_ : ndarray of shape (`n_components_`, n_numbers)
        Mean scores of the numeric columns in each component.
    covariances_ : ndarray of shape (`n_components_`, n_numbers, n_numbers)
        Covariances of these scores.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where ``X`` has names.

    See Also
    --------
    StackedDensity : This and other densities, weighed by held-out rows.
    CircuitImputer : Fills tables in a pipeline.
    sklearn.mixture.GaussianMixture : Mixtures of Gaussians for complete tables of numbers.

    Notes
    -----
    The choices are made one after another, each around the best so far: the number of components
    (1, 2, 3, 5, 8, 12, 20, 32, 50, 80, 120), which scores are linear instead of bent by a power
    (zero, those that the other columns explain by more than 0.9, or all), heavy tails (a component
    is then four Gaussians of one mean, 0.6, 1, 1.7 and 3 times as wide), the weight of the pooled
    covariance (0.1, 0.5, 2 or 8 rows for each numeric column), the part of it that is drawn to its
    diagonal (0, 0.1, 0.4 or 1), and again. Tables of less than 300 rows hold out eight parts in
    turn, those of less than 600 four, and those of less than 1,500 two; larger tables hold out one
    part of 2,500 rows or a quarter. Above 10,000 rows the choices are made on 10,000 of them.
    Mixtures within 2 nats a row of the best get the weights that suit the held-out rows best; those
    above 0.05 are learned anew from all rows.

    If there are more than 25,000 distinct rows, 25,000 drawn at random make the choices and the
    first parameters, since choices take a hundred passes over their rows; two steps of EM on all
    rows follow.

    With ``n_components="states"`` each component is a combination of states (categories, or a
    number being an atom or not) of the columns that have fewest, as many as have ten rows on
    average. It is the general location model of [1]_, where numbers depend on categories as in a
    linear model, and categories on numbers as in a logistic one: it suits analyses of both.

    An int for ``n_components`` gives a single mixture, for which all the rest is chosen; the
    likeliest of ten starts is kept.

    References
    ----------
    .. [1] I. Olkin, R. F. Tate. "Multivariate Correlation Models with Mixed Discrete and Continuous
           Variables". The Annals of Mathematical Statistics 32(2), 1961.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import TableMixture
    >>> rng = np.random.default_rng(0)
    >>> size = rng.normal(size=300)
    >>> X = np.column_stack([size, 2 * size + 0.1 * rng.normal(size=300)])
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> model = TableMixture(n_components=1, random_state=0).fit(X)
    >>> model.complete([[1.0, np.nan]]).round(1)
    array([[1., 2.]])
    """

    n_components: int | str = parameter("auto", StrOptions({"auto", "states"}), AT_LEAST_ONE)

    _passes = Stop(2)

    #: Scores and atoms are what the model is made for.
    margins = "auto"
    #: What "auto" means to :func:`learn_table_mixture`, and parts of small tables that are held
    #: out.
    _auto: ClassVar[str | None] = None
    _folds: ClassVar[tuple[tuple[int, int], ...]] = _FOLDS

    def _learn(self, data: TrainingData) -> None:
        rows = data.rows
        weight = data.weight
        rows_val = data.rows_val
        n_components = self._auto if self.n_components == "auto" else self.n_components
        if isinstance(n_components, Integral):
            check_n_components(int(n_components), weight)
        domain = self.domain_.without_bins()
        n_numbers = int((domain.n_states == 0).sum())
        check_memory(
            4.0 * float(n_numbers) ** 2,
            f"Covariances of {n_numbers:,} columns of numbers",
            "Choose fewer columns, or an estimator without covariances such as CutsetNetworkBD.",
        )
        random_state = check_random_state(self.random_state)
        seed = random_state.randint(np.iinfo(np.int32).max)
        table = TableRows.from_domain(domain, rows, weight)
        with threads(self.n_jobs):
            if data.like is not None:
                mixture = learn_chosen(table, data.like._mixture.choices, seed)
            else:
                parts = _parts(rows, weight, self._folds, random_state)
                if rows_val is not None:
                    # Rows that are given make the choices in the place of parts.
                    parts = [HeldOutRows(rows, weight, rows_val, np.ones(len(rows_val)))]
                with progress(N_STAGES, "choices", self.verbose) as advance:
                    mixture = learn_table_mixture(table, parts, n_components, seed, advance)
        columns = mixture.columns
        # The mixture has chosen the scores of numbers, which the domain takes over.
        scores = {v: c.score for v, c in zip(columns.numbers.tolist(), columns.scored)}
        self.domain_ = domain.with_scores(scores)
        self._mixture = mixture

    def _take_columns(self, order: Ints) -> None:
        # The circuit is made from the mixture below, and need not be put in order.
        TableLearner._take_columns(self, order)
        self._describe(self._mixture)

    def _refit(self, data: Rows | EncodedChunks, sample: TrainingData, learned: Any) -> None:
        mixture = self._mixture.of_size(data.n_rows)
        self._describe(learn([mixture], data, self._passes).model)

    def reweighted(self, rows: Floats, weight: Floats) -> Self:
        """A copy whose parameters are learned again from encoded rows of these weights."""
        again = copy(self)
        n_rows = float(weight.sum())
        mixture = open_for_draws(self._mixture, n_rows).of_size(n_rows)
        # The mixture has its columns in the order of learning.
        rows = rows.take(self._order, axis=1)
        data = Rows(ReadRows(rows, mixture.columns.cells(rows)), weight)
        again._describe(learn([mixture], data, REWEIGHTED).model)
        return again

    def redrawn(
        self, rows: Floats, weight: Floats, random_state: np.random.RandomState, start: Self
    ) -> Self:
        """A copy whose parameters are drawn from their posterior given encoded, complete rows."""
        again = copy(self)
        rows = rows.take(self._order, axis=1)
        again._describe(redrawn(self._mixture, rows, weight, random_state, start._mixture))
        return again

    def take_step(self, rows: Floats, weight: Floats) -> None:
        """Learn from more encoded rows by one step of EM, beside what is known of earlier ones."""
        data = Rows(rows.take(self._order, axis=1), weight)
        before = self._mixture
        # The earlier rows are known by the model alone, and by their weight.
        known = before.before(self._n_learned)
        mixture = learn([before], data, Stop(1), before=known).model
        self._n_learned += data.n_rows
        self._describe(mixture.of_size(self._n_learned))

    def heaviest(self, size: float, share: float) -> Self:
        """A copy with the heaviest candidates; see ``LearnedMixture.heaviest``."""
        lighter = copy(self)
        lighter._describe(self._mixture.heaviest(size, share))
        return lighter

    def _describe(self, mixture: LearnedMixture) -> None:
        """Set the attributes that say what has been learned."""
        self.circuit_ = mixture.circuit(self.domain_.n_features).taken(np.argsort(self._order))
        self._mixture = mixture
        model = mixture.model
        self.weights_ = model.weights
        self.n_components_ = len(model.weights)
        # Means and covariances are told in the order of the table.
        numbers = np.argsort(self._order[mixture.columns.numbers])
        self.means_ = model.gaussians.mean[:, numbers]
        # Gaussians of a component differ in width: its covariance is their mean.
        wider = group_sums(model.component, model.proportion * model.width**2)
        covariance = model.gaussians.covariance[:, numbers][:, :, numbers]
        self.covariances_ = wider[:, np.newaxis, np.newaxis] * covariance

    @by_chunks
    def predict_proba(self, X: Any) -> Floats:
        """Probability of each component given the observed cells of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples, `n_components_`)
            The rows sum to one: the background, which takes outliers, and the tree do not count.
        """
        _, rows = self._encode(X)
        columns, model, *_ = self._mixture
        # (n_candidates, n_rows): several Gaussians of different widths make a component.
        joint = model.joint(columns.cells(rows.take(self._order, axis=1)))
        # Scores whose squares overflow are impossible under all components, and do not count.
        far = np.isneginf(joint).all(axis=0)
        joint[:, far] = np.log(model.weights[model.component] * model.proportion)[:, np.newaxis]
        return model.by_component(softmax(joint, axis=0)).T

    def predict(self, X: Any) -> Ints:
        """The most probable component of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        ndarray of shape (n_samples,)
            Numbers of components.
        """
        return self.predict_proba(X).argmax(axis=1)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Ints:
        """Learn the mixture, and return the most probable component of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples,)
            Numbers of components.
        """
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of the model on rows; lower is better.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        float
            Minus twice the log-likelihood (nats), plus the logarithm of the number of rows for each
            free parameter.
        """
        scores = self.score_samples(X)
        return float(-2.0 * scores.sum() + self._mixture.n_parameters * np.log(len(scores)))

    def aic(self, X: Any) -> float:
        """Akaike information criterion of the model on rows; lower is better.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.

        Returns
        -------
        float
            Minus twice the log-likelihood (nats), plus two for each free parameter.
        """
        return float(2.0 * (self._mixture.n_parameters - self.score_samples(X).sum()))


class PoolMixture(TableMixture):
    """A table mixture that is one of several members, and is searched for again in each fold.

    It holds out fewer parts of small tables: the other members make up for a choice that is not the
    best.
    """

    _folds = (300, 3), (1500, 2)


class ClassMixture(PoolMixture):
    """A table mixture whose components have one state of the last column each, such as a class.

    All components share what is chosen, and their covariances are drawn to the same pooled one: few
    rows of a class lean on those of all.
    """

    _orders_columns = False
    _auto = "last"


def _parts(
    rows: Floats,
    weight: Floats,
    folds: Sequence[tuple[int, int]],
    random_state: np.random.RandomState,
) -> list[HeldOutRows]:
    """Deal the rows into parts to learn from and parts that are held out."""
    # A row of weight n is n rows, but no more parts are dealt than distinct rows are worth.
    total = float(weight.sum())
    n_folds = next((n for most_rows, n in folds if total < most_rows), 0)
    # Parts to learn from for each part that is held out.
    n_learned = 3
    n_dealt = n_folds or max(1 + n_learned, len(rows) // _MOST_HELD_OUT)
    splits = list(islice(deal(weight, n_dealt, random_state), n_folds or 1 + n_learned))
    # A large table has one part that is held out; the next ones are learned from.
    if not n_folds:
        (_, test), *learned = splits
        splits = [(np.sum([held for _, held in learned], axis=0), test)]
    return [
        HeldOutRows(
            rows[train_weight > 0.0],
            train_weight[train_weight > 0.0],
            rows[held > 0.0],
            held[held > 0.0],
        )
        for train_weight, held in splits
    ]
