"""Cutset networks learned by a structure score."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from skpc._validation import Interval, StrOptions, fit_context
from skpc.circuit import Circuit
from skpc.domain import Domain
from skpc.estimators._base import CircuitDensity
from skpc.estimators._progress import progress
from skpc.learning import cutset_circuit, learn_cutset_network

__all__ = ["CutsetNetworkBD"]


class CutsetNetworkBD(CircuitDensity):
    """Cutset network learned greedily by a Bayesian-Dirichlet or BIC structure score.

    A cutset network is a decision tree over observed variables with a Chow-Liu tree at each leaf
    (Algorithm 1 of [1]_). A node is cut only where that raises the score, which guards against
    overfitting by itself: there is nothing to tune and no validation set to spare. The result is
    a smooth, decomposable and deterministic circuit, so that marginals, conditionals, most
    probable completions, samples and expectations are exact.

    Numeric columns are cut into bins between two exponential tails; the density is piecewise
    uniform in the bins.

    Parameters
    ----------
    criterion : {"bd", "bic"}, default="bd"
        Structure score. "bd": the log marginal likelihood under Dirichlet priors (BDeu, eq. 11).
        "bic": log-likelihood minus ``0.5 log N`` per free parameter (eq. 12), ``N`` the total
        weight of the training rows.
    ess : float, default=0.1
        Equivalent sample size of the Dirichlet priors at the root, divided by the number of
        branches at every cut. Used by "bd".
    alpha : float, default=0.01
        Laplace pseudo-count of each cell of a table. Used by "bic".
    param_ess : float, default=None
        Equivalent sample size for the parameters once the structure has been chosen; None keeps
        the smoothing of the criterion. Values around 1 often raise the likelihood of small or
        very wide tables.
    n_candidates : int, default=10
        Number of columns tried at each cut, those of greatest information gain (eqs. 13-15).
    max_depth : int, default=None
        Greatest number of cuts above a leaf; 0 gives a plain Chow-Liu tree, None sets no limit.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical: a boolean mask, column numbers, or names. "from_dtype":
        those with a category dtype. "auto": these, strings, bools, and numeric columns whose
        values are all integers in 0..15; the folds of a cross-validation can then disagree, so
        declare the columns or their ``categories`` where that matters.
    categories : "auto" or list, default="auto"
        The states of each column as in OrdinalEncoder; None in the list lets the data of that
        column decide. A column with declared categories is categorical.
    n_bins : int, default=10
        Greatest number of bins of a numeric column, between its two tails.
    handle_unknown : {"missing", "error"}, default="missing"
        What to do with a category that has not been seen or declared.
    random_state : int, RandomState instance or None, default=None
        Not used by a single network, which is learned without chance; present so that code
        written for any density works.
    verbose : int, default=0
        With 1, a progress bar counts the rows that have reached their leaf (a line at the end
        where tqdm is not installed).

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit over encoded rows.
    domain_ : Domain
        What each column is; translates rows to encoded rows and back.
    n_parameters_ : int
        Number of free parameters.
    n_cuts_ : int
        Number of decision nodes.
    score_criterion_ : float
        Structure score of the network, in nats.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where ``X`` has names.

    Notes
    -----
    Rows may have missing cells in ``fit`` too: a pair of columns is then counted on the rows that
    show both.

    References
    ----------
    .. [1] Y. Yang, G. Gala, R. Peharz. "Bayesian Structure Scores for Probabilistic Circuits".
       AISTATS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc import CutsetNetworkBD
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 2, 500)
    >>> X = np.column_stack([a, a ^ (rng.random(500) < 0.1), rng.integers(0, 3, 500)])
    >>> model = CutsetNetworkBD().fit(X)
    >>> model.score_samples([[1, 1, 2], [1, 0, 2], [1, np.nan, np.nan]]).round(1)
    array([-1.7, -4.3, -0.6])
    >>> model.complete([[1, np.nan, 0]])
    array([[1., 1., 0.]])
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "criterion": [StrOptions({"bd", "bic"})],
        "ess": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "param_ess": [None, Interval(Real, 0, None, closed="neither")],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "max_depth": [None, Interval(Integral, 0, None, closed="left")],
        "categorical_features": ["array-like", StrOptions({"auto", "from_dtype"}), None],
        "categories": [StrOptions({"auto"}), list],
        "n_bins": [Interval(Integral, 1, None, closed="left")],
        "handle_unknown": [StrOptions({"missing", "error"})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    circuit_: Circuit
    domain_: Domain
    n_parameters_: int
    n_cuts_: int
    score_criterion_: float

    def __init__(
        self,
        *,
        criterion: str = "bd",
        ess: float = 0.1,
        alpha: float = 0.01,
        param_ess: float | None = None,
        n_candidates: int = 10,
        max_depth: int | None = None,
        categorical_features: Any = "auto",
        categories: Any = "auto",
        n_bins: int = 10,
        handle_unknown: str = "missing",
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.criterion = criterion
        self.ess = ess
        self.alpha = alpha
        self.param_ess = param_ess
        self.n_candidates = n_candidates
        self.max_depth = max_depth
        self.categorical_features = categorical_features
        self.categories = categories
        self.n_bins = n_bins
        self.handle_unknown = handle_unknown
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CutsetNetworkBD:
        """Learn structure and parameters.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers and categories; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a weight of two equals the row twice, zero its absence.

        Returns
        -------
        CutsetNetworkBD
            The fitted estimator.

        Raises
        ------
        ValueError
            If a column holds nothing but missing cells, a cell is infinite, or the weights are
            negative or all zero.
        """
        domain, rows, weight = self._prepare(X, sample_weight, self.n_bins)
        with progress(weight.sum(), "rows", self.verbose) as advance:
            network = learn_cutset_network(
                domain.codes(rows),
                weight,
                domain.n_states,
                criterion=self.criterion,
                ess=self.ess,
                alpha=self.alpha,
                n_candidates=self.n_candidates,
                max_depth=self.max_depth,
                advance=advance,
            )
        circuit = cutset_circuit(network, domain.axes, self.param_ess)
        self.domain_, self.circuit_ = domain, circuit
        self.n_parameters_, self.n_cuts_ = network.n_parameters, network.n_cuts
        self.score_criterion_ = network.score
        return self
