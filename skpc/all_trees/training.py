"""Maximum likelihood for mixtures of all trees, by Adam or L-BFGS."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from skpc._arrays import Bools, Floats, Ints, copies, owners, whole_rows
from skpc.all_trees.all_trees import Components
from skpc.all_trees.incomplete import estimate_missing
from skpc.all_trees.parameters import ComponentParameters, PairTables
from skpc.counting.clustering import as_numbers, cluster_rows

#: Rows of an epoch, at most; the next one draws others.
EPOCH_ROWS = 100_000


class TrainingOptions(NamedTuple):
    """How to train; see :class:`skpc.MixtureOfAllTrees`."""

    solver: str
    learning_rate_init: float
    batch_size: int
    max_iter: int
    tol: float
    n_iter_no_change: int
    learning_rate: str
    averaging: bool
    epoch_rows: float = EPOCH_ROWS


class Adam(NamedTuple):
    """Adam's averages, which its steps change in place."""

    mean: Floats
    square: Floats
    n_steps: Ints

    @classmethod
    def from_size(cls, n_parameters: int) -> Self:
        """Averages before the first step."""
        return cls(np.zeros(n_parameters), np.zeros(n_parameters), np.zeros(1, dtype=np.int64))

    def step(self, gradient: Floats, rate: float, vector: Floats, visited: Floats) -> None:
        """Change parameters by a gradient, and add them to the sum of those visited."""
        # Decay of the averages, as everybody sets it.
        mean_decay = 0.9
        square_decay = 0.999
        # Epsilon keeps the steps of parameters small that hardly matter; among others, those of
        # states that no row shows. Without, their probability would run to zero.
        epsilon = 1e-8
        self.n_steps[0] += 1
        steps = int(self.n_steps[0])
        self.mean[:] += (1.0 - mean_decay) * (gradient - self.mean)
        self.square[:] += (1.0 - square_decay) * (gradient**2 - self.square)
        scale = np.sqrt(self.square / (1.0 - square_decay**steps)) + epsilon
        vector += rate / (1.0 - mean_decay**steps) * self.mean / scale
        visited += vector


class TrainingRows(NamedTuple):
    """Complete rows: their states, as :class:`.AllTrees` reads them, and their weights."""

    states: Ints
    weight: Floats


class IncompleteRows(NamedTuple):
    """Rows whose missing cells are drawn from a model, again and again.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        States, -1 where missing.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    random_state : RandomState
        Source of the draws.
    """

    codes: Ints
    weight: Floats
    random_state: np.random.RandomState

    @property
    def missing(self) -> Bools:
        """Whether some cell of each row is missing."""
        return self.codes.min(axis=1) < 0

    def drawn_from(self, mixture: Components) -> TrainingRows:
        """The rows with their missing cells drawn."""
        filled = self.codes.copy()
        is_missing = self.missing
        seeds = self.random_state.randint(2**31, size=int(is_missing.sum())).astype(np.uint64)
        # A draw needs few completions or trees to be drawn from.
        drawn = estimate_missing(mixture, filled[is_missing], seeds, "auto", 16, marginals=False)
        filled[is_missing] = drawn.draws[:, 0]
        return TrainingRows(mixture.models[0].states_of(filled), self.weight)


@dataclass(eq=False)
class Training:
    """Keeps the parameters to return, and says when nothing better is to be expected.

    Parameters
    ----------
    parameters : ComponentParameters
        What is to be learned.
    vector : ndarray of shape (n_parameters,)
        Where to start; later what is returned.
    options : TrainingOptions
        How to train.
    advance : callable
        Called after each epoch.

    Attributes
    ----------
    scores : list of float
        Mean log-likelihoods that were watched, one an epoch (or an iteration of L-BFGS), in nats a
        row.
    converged : bool
        Whether nothing better is to be expected.
    """

    parameters: ComponentParameters
    vector: Floats
    options: TrainingOptions
    advance: Callable[[float], object]
    scores: list[float] = field(default_factory=list, init=False)
    converged: bool = field(default=False, init=False)
    validation: TrainingRows | None = None
    #: The score that is to be surpassed, and for how many iterates it has not been.
    _bar: float = field(default=-np.inf, init=False)
    _waited: int = field(default=0, init=False)

    @property
    def stopped(self) -> bool:
        return self.converged or len(self.scores) >= self.options.max_iter

    def see(self, vector: Floats, score: float) -> bool:
        """Take notice of an iterate and its score on the training rows; say whether to stop."""
        if self.validation is not None:
            log_likelihood = self.parameters.model(vector).log_likelihood(self.validation.states)
            score = float(np.average(log_likelihood, weights=self.validation.weight))
        # Without validation the last iterate is the best; with it, the one that scores best there.
        if self.validation is None or score > max(self.scores, default=-np.inf):
            self.vector = vector
        self._waited += 1
        if score > self._bar + self.options.tol:
            self._bar = score
            self._waited = 0
        self.scores.append(score)
        self.converged = self._waited >= self.options.n_iter_no_change
        self.advance(1)
        return self.stopped


def usual_batch_size(total: float, n_features: int) -> int:
    """Rows of a mini-batch for rows of some total weight."""
    # Batches of equally many cells: the fixed cost of a step is then the same proportion of the
    # cost of its rows for any number of columns.
    n_cells = 25_600
    largest = int(np.clip(n_cells // n_features, 16, 256))
    # Small tables have smaller batches, for ten steps an epoch, but at least 64 rows.
    smallest = max(64, whole_rows(total / 10))
    return min(largest, smallest)


def start_trees(
    parameters: ComponentParameters,
    codes: Ints,
    weight: Floats,
    n_states: Ints,
    alpha: float,
    random_state: np.random.RandomState,
) -> Floats:
    """Parameters to start from: tables of the groups that k-means finds.

    Parameters
    ----------
    parameters : ComponentParameters
        What is to be learned.
    codes : ndarray of shape (n_rows, n_features)
        Distinct rows of states, -1 where missing.
    weight : ndarray of shape (n_rows,)
        Their weights.
    n_states : ndarray of shape (n_features,)
        Number of states of each variable.
    alpha : float
        Pseudo-count of each table.
    random_state : RandomState
        Draws the start of k-means; unused for one component.

    Returns
    -------
    ndarray of shape (n_parameters,)
    """
    n_components = parameters.n_components
    if n_components == 1:
        return parameters.start([PairTables.from_rows(codes, weight, n_states, alpha)], np.ones(1))
    n_clusters = min(n_components, len(codes))
    none = np.zeros(len(n_states))
    points = as_numbers(np.where(codes < 0, np.nan, codes), n_states, none, none)
    distance = cluster_rows(points, weight, n_clusters, 100, random_state)
    # A part of each row is spread evenly over the components, as in the mixtures of cutset
    # networks: components sure of their own rows hardly move.
    even = 0.3
    member = distance.argmin(axis=1)[:, np.newaxis] == np.arange(n_components)
    member_weights = weight[:, np.newaxis] * ((1.0 - even) * member + even / n_components)
    tables = [
        PairTables.from_rows(codes, member_weight, n_states, alpha)
        for member_weight in member_weights.T
    ]
    return parameters.start(tables, member_weights.sum(axis=0) / weight.sum())


def train_trees(
    parameters: ComponentParameters,
    vector: Floats,
    rows: IncompleteRows,
    validation: IncompleteRows | None,
    options: TrainingOptions,
    random_state: np.random.RandomState,
    advance: Callable[[float], object],
) -> Training:
    """Maximise the likelihood of weighted rows.

    If cells are missing they are drawn anew from the current model every few epochs (Monte Carlo
    EM).

    Parameters
    ----------
    parameters : ComponentParameters
        What is to be learned.
    vector : ndarray of shape (n_parameters,)
        Where to start.
    rows : IncompleteRows
        Training rows.
    validation : IncompleteRows or None
        Rows on which the likelihood is watched; None watches the training rows.
    options : TrainingOptions
        How to train.
    random_state : RandomState
        Deals the rows out to batches.
    advance : callable
        Called after each epoch, to show progress.

    Returns
    -------
    Training
        With the last parameters; with validation rows, those of the epoch that scored best.
    """
    watch = Training(parameters, vector, options, advance)
    adam = Adam.from_size(len(vector))
    refresh = rows.missing.any() or (validation is not None and validation.missing.any())
    n_rows = int(min(_copies(rows.weight).sum(), options.epoch_rows))
    n_steps = options.max_iter * _n_batches(n_rows, options.batch_size)
    while refresh or not watch.scores:
        model = parameters.model(vector)
        complete = rows.drawn_from(model)
        if validation is not None:
            watch.validation = validation.drawn_from(model)
        # Missing cells are completed anew every five epochs.
        n_iter = options.max_iter - len(watch.scores)
        if refresh:
            n_iter = min(n_iter, 5)
        if options.solver == "lbfgs":
            vector = _lbfgs(watch, vector, complete, n_iter)
        else:
            for _ in range(n_iter):
                vector, mean, score = adam_pass(
                    parameters, vector, complete, options, adam, random_state, n_rows, n_steps
                )
                if watch.see(mean, score):
                    break
        if watch.stopped:
            break
    return watch


def _lbfgs(watch: Training, vector: Floats, rows: TrainingRows, n_iter: int) -> Floats:
    """Iterations of L-BFGS on all rows, until the watch says stop."""
    states = rows.states
    weight = rows.weight / rows.weight.sum()

    def loss(vector: Floats) -> tuple[float, Floats]:
        log_likelihood, gradient = watch.parameters.ascent(vector, states, weight)
        return -float(weight @ log_likelihood), -gradient

    def after(intermediate_result: OptimizeResult) -> None:
        if watch.see(intermediate_result.x.copy(), -float(intermediate_result.fun)):
            raise StopIteration

    # The watch decides when to stop: tolerances of L-BFGS stay below what it asks for.
    n_scores = len(watch.scores)
    options = {"maxiter": n_iter, "maxfun": 20 * n_iter, "ftol": 0.0, "gtol": 1e-9}
    result = minimize(loss, vector, jac=True, method="L-BFGS-B", callback=after, options=options)
    if len(watch.scores) == n_scores:
        # There was nothing to gain.
        watch.see(vector, -float(result.fun))
    watch.converged |= bool(result.success)
    return watch.vector


def adam_pass(
    parameters: ComponentParameters,
    vector: Floats,
    rows: TrainingRows,
    options: TrainingOptions,
    adam: Adam,
    random_state: np.random.RandomState,
    n_rows: int | None = None,
    n_steps: float = np.inf,
) -> tuple[Floats, Floats, float]:
    """Take Adam through all rows once, or through some, batch by batch.

    Parameters
    ----------
    parameters : ComponentParameters
        What is to be learned.
    vector : ndarray of shape (n_parameters,)
        The parameters before.
    rows : TrainingRows
        Complete rows.
    options : TrainingOptions
        The rows of a batch, a row of weight two counting twice, and the learning rate of the first
        step.
    adam : Adam
        Changed in place.
    random_state : RandomState
        Deals the rows out to batches.
    n_rows : int, default=None
        Number of rows, drawn from all; None takes all of them.
    n_steps : float, default=inf
        Steps after which a learning rate that falls has reached zero, with a cosine.

    Returns
    -------
    vector : ndarray of shape (n_parameters,)
        The parameters after.
    mean : ndarray of shape (n_parameters,)
        Their mean over the steps, in which the noise of the batches cancels; or themselves,
        without averaging.
    score : float
        Mean log-likelihood of the rows on the way, in nats.
    """
    score = 0.0
    total = 0.0
    n_before = int(adam.n_steps[0])
    vector = vector.copy()
    visited = np.zeros_like(vector)
    for batch, weight in _batches(rows.weight, options.batch_size, random_state, n_rows):
        part = weight.sum()
        log_likelihood, gradient = parameters.ascent(vector, rows.states[batch], weight / part)
        score += float(weight @ log_likelihood)
        total += float(part)
        rate = options.learning_rate_init
        if options.learning_rate == "cosine":
            rate *= 0.5 * (1.0 + np.cos(np.pi * adam.n_steps[0] / n_steps))
        adam.step(gradient, rate, vector, visited)
    visited /= adam.n_steps[0] - n_before
    mean = vector
    if options.averaging:
        mean = visited
    return vector, mean, score / total


def _copies(weight: Floats) -> Ints:
    """How often each row is dealt out; large weights are scaled down to two million rows in all."""
    return copies(weight * min(1.0, 2_000_000 / weight.sum()))


def _n_batches(n_rows: int, batch_size: int) -> int:
    return max(1, round(n_rows / batch_size))


def _batches(
    weight: Floats,
    batch_size: int,
    random_state: np.random.RandomState,
    n_rows: int | None,
) -> Iterator[tuple[Ints, Floats]]:
    """Deal out the rows in random order; yield the distinct rows of each batch, and weights."""
    # A row of weight two is dealt out twice, perhaps to the same batch.
    n_copies = _copies(weight)
    order = random_state.permutation(owners(n_copies))[:n_rows]
    for part in np.array_split(order, _n_batches(len(order), batch_size)):
        batch, count = np.unique(part, return_counts=True)
        yield batch, count * (weight[batch] / n_copies[batch])
