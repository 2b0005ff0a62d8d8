"""Black-box importance sampling: weights for samples of any origin."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Self

import cvxopt
import cvxopt.solvers
import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state, check_scalar

from skpc._arrays import Floats, Ints, has_gaps
from skpc._repr import ShowsParameters
from skpc._validation import check_n_samples, check_option
from skpc._warnings import warn
from skpc.circuit import Circuit
from skpc.discrepancies._collapsed import patterns
from skpc.discrepancies.stein import STEIN_OPERATORS, check_kernel, discrete_states, stein_gram
from skpc.domain import group_rows
from skpc.factor_graphs import FactorGraph, GibbsSampler, compile, min_fill_vtree
from skpc.factor_graphs.elimination import eliminate, table_marginals
from skpc.kernels import Kernel
from skpc.queries import sample

#: Of cvxopt: steps end when the value is this close to the minimum, for a diagonal of mean one.
_OPTIONS = {"show_progress": False, "abstol": 1e-14, "reltol": 1e-10, "feastol": 1e-10}


@dataclass(repr=False, eq=False)
class BlackBoxImportanceSampler(ShowsParameters, BaseEstimator):
    """Weight samples from any source so that they represent a factor graph or a circuit.

    The weights minimise the kernelised discrete Stein discrepancy of the weighted samples to the
    target, ``w' K w`` with the Gram matrix of a Stein kernel (:func:`stein_gram`), among all
    non-negative weights that sum to one. You need to know neither the distribution of the samples
    nor the constant of the target. Samples can be *collapsed*: some variables, different ones in
    each sample, are replaced by their exact conditional distribution given the rest. Only these
    conditionals of the target are compiled, so the target itself may be too dense to compile.

    Parameters
    ----------
    target : FactorGraph or Circuit
        The distribution that the samples shall represent; of a fitted density, its ``circuit_``.
        It must be positive everywhere, except at states of variables that are collapsed in all
        samples. With a circuit nothing is collapsed.
    kernel : Kernel, default=None
        The base kernel between states; None is ``ExponentialHamming(1 / n_variables)``.
    stein_operator : {"ratio", "barker"}, default="barker"
        The Stein operator; see :func:`stein_gram`. "barker" is bounded. "ratio" is the one of the
        literature; it grows with the ratios of probabilities of neighbouring states, and where
        these are large its weights can be worse than equal ones.
    collapse : float, default=0.0
        Proportion of the variables to collapse in each sample, drawn separately for each; NaN cells
        count towards it.
    n_samples : int, default=1000
        Number of samples that ``fit`` draws if it gets none.
    random_state : int, RandomState instance or None, default=None
        Draws the variables to collapse, and the samples if ``fit`` gets none.

    Attributes
    ----------
    samples_ : ndarray of shape (n_samples, n_variables)
        The samples, NaN in collapsed cells.
    weights_ : ndarray of shape (n_samples,)
        Their weights. Equal samples have equal weights.
    discrepancy_ : float
        The squared discrepancy that the weights reach.

    See Also
    --------
    skpc.factor_graphs.GibbsSampler : One way to get samples.

    References
    ----------
    Section 5.2 of "Tractable Computation of Expected Kernels" (UAI 2021).

    Examples
    --------
    Uniform samples stand for an Ising model:

    >>> import numpy as np
    >>> from skpc.discrepancies import BlackBoxImportanceSampler
    >>> from skpc.factor_graphs import FactorGraph
    >>> target = FactorGraph.ising_grid(3, 3, coupling=0.2, field=0.4)
    >>> samples = np.random.default_rng(0).integers(0, 2, size=(200, 9))
    >>> sampler = BlackBoxImportanceSampler(
    ...     target, collapse=0.5, random_state=0
    ... ).fit(samples)
    >>> sampler.marginals()[4].round(2)  # exact: 0.16, 0.84
    array([0.16, 0.84])
    """

    target: Any
    _: KW_ONLY
    kernel: Kernel | None = None
    stein_operator: str = "barker"
    collapse: float = 0.0
    n_samples: int = 1000
    random_state: Any = None

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Find the weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_variables), default=None
            Rows of states, from any source; NaN cells are collapsed. None draws ``n_samples`` rows:
            independent ones of a circuit, or those of a :class:`~skpc.factor_graphs.GibbsSampler`
            of a factor graph.
        y : None
            Ignored.

        Returns
        -------
        self : BlackBoxImportanceSampler
            Fitted.

        Raises
        ------
        TypeError
            If the target is neither a factor graph nor a circuit.
        ValueError
            If a sample or one of its neighbours has probability zero, a conditional is too
            dense, or a parameter is out of range.

        Warns
        -----
        ConvergenceWarning
            If the weights may be far from optimal.
        """
        graph = self._checked()
        random = check_random_state(self.random_state)
        if X is None:
            check_scalar(self.n_samples, "n_samples", Integral, min_val=1)
            if isinstance(self.target, Circuit):
                X = sample(self.target, self.n_samples, random)
            else:
                X = GibbsSampler(graph, random_state=random).sample(self.n_samples)
        # What is collapsed is decided anew for each sample.
        rows = self._collapsed(graph.check_rows(X), random)
        # Equal rows would make the matrix singular and their weights arbitrary.
        distinct, group = group_rows(rows)
        gram = stein_gram(distinct, self.target, self.kernel, stein_operator=self.stein_operator)
        weights, value = least_on_simplex(gram)
        # The weight of distinct rows is shared by the samples that are equal to them.
        self.samples_ = rows
        self.discrepancy_ = value
        self.weights_ = (weights / np.bincount(group))[group]
        return self

    def score(self, X: Any = None, y: Any = None) -> float:
        """How close the weighted samples come to the target; higher is better.

        Parameters
        ----------
        X, y : None
            Ignored.

        Returns
        -------
        float
            Minus the squared discrepancy of the weighted samples, 0 at best.
        """
        self._check_fitted()
        return -self.discrepancy_

    def marginals(self) -> list[Floats]:
        """Marginal distribution of each variable under the weighted samples.

        Collapsed cells count with their conditional probabilities.

        Returns
        -------
        list of ndarray of shape (n_states,)
            The probabilities of the states of each variable.
        """
        self._check_fitted()
        target = self._graph
        n_states = target.n_states
        total = np.zeros(n_states.sum())
        # Samples with the same collapsed variables are eliminated together.
        for members, plan in patterns(target, self.samples_):
            rows = self.samples_[members]
            conditionals = eliminate(target, plan, rows)
            total += self.weights_[members] @ table_marginals(conditionals, n_states, rows)
        parts = np.split(total, np.cumsum(n_states)[:-1])
        return [part / part.sum() for part in parts]

    def expectation(
        self,
        function: Callable[[Floats], Any],
        n_draws: int | None = None,
        random_state: Any = None,
    ) -> Floats:
        """Mean of a function of states under the weighted samples.

        Parameters
        ----------
        function : callable
            Takes complete rows of shape (n_rows, n_variables) and returns an array whose first
            axis has length n_rows.
        n_draws : int, default=None
            Number of random completions of each sample to average over. None averages over all
            completions, exactly; a sample has one for each joint state of its collapsed variables.
        random_state : int, RandomState instance or None, default=None
            Draws the completions.

        Returns
        -------
        ndarray
            The mean, with the shape of one value of the function.

        Raises
        ------
        ValueError
            If a sample has more than 65536 completions and ``n_draws`` is None, or ``n_draws`` is
            no whole number of 1 or more.
        """
        self._check_fitted()
        # Samples without weight cost nothing.
        weighted = np.flatnonzero(self.weights_)
        if n_draws is not None:
            check_scalar(n_draws, "n_draws", Integral, min_val=1)
            rows = self._completed(np.repeat(weighted, n_draws), check_random_state(random_state))
            weights = np.repeat(self.weights_[weighted] / n_draws, n_draws)
            return np.tensordot(weights, function(rows), 1)
        # Completions of a sample beyond which exact expectations are refused.
        most_completions = 2**16
        total: Any = 0.0
        for number in weighted:
            row = self.samples_[number]
            free = np.flatnonzero(np.isnan(row))
            shape = self._graph.n_states[free].tolist()
            n_completions = math.prod(shape)
            if n_completions > most_completions:
                raise ValueError(
                    f"sample {number} has {n_completions} completions, more than "
                    f"{most_completions}; give n_draws to average over random ones"
                )
            rows = np.repeat(row[np.newaxis], n_completions, axis=0)
            rows[:, free] = list(np.ndindex(*shape))
            # Given the sampled cells, completions are as probable as their scores say.
            prob = softmax(self._graph.log_score(rows))
            mean = np.tensordot(prob, function(rows), 1)
            total += self.weights_[number] * mean
        return total

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draw rows: a sample by its weight, and its collapsed cells given the others.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            The seed of the draws.

        Returns
        -------
        ndarray of shape (n_samples, n_variables)
            Complete rows.
        """
        self._check_fitted()
        random = check_random_state(random_state)
        n_samples = check_n_samples(n_samples)
        chosen = random.choice(len(self.weights_), size=n_samples, p=self.weights_)
        return self._completed(chosen, random)

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            raise NotFittedError("this BlackBoxImportanceSampler has no weights; call fit first")

    def _checked(self) -> FactorGraph:
        """The graph of the target, after checks of the parameters."""
        if not isinstance(self.target, FactorGraph | Circuit):
            raise TypeError(
                "target must be a FactorGraph or a Circuit (of a fitted density, pass its "
                f"circuit_), got {type(self.target).__name__}"
            )
        graph = self._graph
        check_kernel(self.kernel, graph.n_variables)
        check_option("stein_operator", self.stein_operator, STEIN_OPERATORS)
        if not isinstance(self.collapse, Real) or not 0.0 <= self.collapse <= 1.0:
            raise ValueError(f"collapse must be a proportion from 0 to 1, got {self.collapse!r}")
        if isinstance(self.target, Circuit) and self.collapse > 0.0:
            raise ValueError(
                f"collapse must be 0 if the target is a circuit, got {self.collapse!r}; its "
                "samples are complete"
            )
        return graph

    @property
    def _graph(self) -> FactorGraph:
        """The target; in the place of a circuit a graph of its states, without factors."""
        if isinstance(self.target, Circuit):
            return FactorGraph(discrete_states(self.target).tolist(), [])
        return self.target

    def _collapsed(self, rows: Floats, random: np.random.RandomState) -> Floats:
        """Empty further cells of each row, up to the proportion ``collapse``."""
        n_collapsed = int(self.collapse * rows.shape[1] + 1e-9)
        order = random.uniform(size=rows.shape)
        # Cells that are empty already count first.
        order[np.isnan(rows)] = -1.0
        columns = np.argsort(order, axis=1)[:, :n_collapsed]
        np.put_along_axis(rows, columns, np.nan, axis=1)
        return rows

    def _completed(self, chosen: Ints, random: np.random.RandomState) -> Floats:
        """One completion of each of the chosen samples."""
        rows = self.samples_[chosen]
        incomplete = has_gaps(rows)
        if not incomplete.any():
            return rows
        vtree = min_fill_vtree(self.target)
        # One compilation serves all draws of a sample.
        for number in np.unique(chosen[incomplete]):
            conditional = compile(self.target, vtree, self.samples_[number])
            drawn = np.flatnonzero(chosen == number)
            rows[drawn] = sample(conditional, len(drawn), random)
        return rows


def least_on_simplex(gram: Floats) -> tuple[Floats, float]:
    """Minimise ``w' K w`` over non-negative weights that sum to one (equations 7 and 10).

    A quadratic program, solved by the interior-point method of cvxopt. The result is judged by a
    bound: for a convex quadratic form the distance to the optimum is at most
    ``2 (w' K w - min_i (K w)_i)``.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Symmetric and positive semidefinite, singular or not.

    Returns
    -------
    weights : ndarray of shape (n,)
        The weights.
    value : float
        ``w' K w``.

    Warns
    -----
    ConvergenceWarning
        If the value may be more than a millionth above the minimum.
    """
    # The optimum does not depend on the scale, but cvxopt's tolerances do.
    scale = float(np.mean(np.diag(gram)))
    weights = _solved(gram / (scale or 1.0))
    # Interior points have no zeros: what is this small beside the greatest weight is one.
    weights[weights < 1e-11 * weights.max()] = 0.0
    weights = weights / weights.sum()
    slope = gram @ weights
    value = max(float(weights @ slope), 0.0)
    bound = 2.0 * (value - float(slope.min()))
    # A millionth of the value; of the diagonal, where the optimum is zero up to rounding.
    wanted = max(1e-6 * value, 1e-10 * scale)
    if bound > wanted:
        warn(
            f"the weights are not optimal: w'Kw = {value:.6g} may be as much as {bound:.3g} above "
            f"its minimum (wanted: {wanted:.3g})",
            ConvergenceWarning,
        )
    return weights, value


def _solved(gram: Floats) -> Floats:
    """The weights by cvxopt, for a matrix whose diagonal has a mean of one."""
    n_weights = len(gram)
    places = range(n_weights)
    zeros = cvxopt.matrix(0.0, (n_weights, 1))
    # Minimise w'Pw / 2 + q'w where -w <= 0 and the weights sum to one.
    program = {
        "P": cvxopt.matrix(gram),
        "q": zeros,
        "G": cvxopt.spmatrix(-1.0, places, places),
        "h": zeros,
        "A": cvxopt.matrix(1.0, (1, n_weights)),
        "b": cvxopt.matrix(1.0),
    }
    solution = cvxopt.solvers.qp(**program, options=_OPTIONS)
    weights = np.asarray(solution["x"]).ravel()
    return np.maximum(weights, 0.0)
