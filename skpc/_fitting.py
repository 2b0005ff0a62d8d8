r"""The loop that learns parameters, and what goes on around a fit.

A model answers two questions, and :func:`learn` asks them in turn, for all models:

* ``expected(rows, weight)``: sums over rows that have all that the next model needs, such as
  expected counts (the E-step, or a gradient). They are counted from the parameters of the model, so
  that nothing cancels, and the sums of two parts of the rows add up to those of the whole.
* ``m_step(statistics)``: the next model, from such sums (the M-step, or a step uphill).

Progress is a bar where tqdm is installed, a line at the end elsewhere.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from skpc._arrays import Floats, added
from skpc._threads import each, n_threads, slices
from skpc._warnings import saying_once

_Attempt = TypeVar("_Attempt")


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over rows; ``+`` adds those of other rows under the same model.

    A subclass has ``log_likelihood`` (nats), the sum of those of the rows.
    """

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(added, vars(self).values(), vars(other).values()))


class Apart(NamedTuple):
    """Models that learn from the same rows, each as if it were alone."""

    models: tuple[Any, ...]

    def expected(self, rows: Any, weight: Floats) -> tuple[Any, ...]:
        """The E-step."""
        return tuple(model.expected(rows, weight) for model in self.models)

    def m_step(self, statistics: tuple[Any, ...]) -> Self:
        """The next models."""
        pairs = zip(self.models, statistics)
        return type(self)(tuple(model.m_step(of_model) for model, of_model in pairs))


class Parametrised(Protocol):
    """A model whose parameters can be learned.

    Where the objective says when to stop, its statistics have the ``log_likelihood`` of the rows;
    it may have a ``log_prior``, which is added to that (nats). Where rows are held out, it has
    ``log_likelihood(rows)`` (nats, one a row) too.
    """

    def expected(self, rows: Any, weight: Floats) -> Any:
        """The statistics of weighted rows: the E-step."""

    def m_step(self, statistics: Any) -> Self:
        """The next model, from the statistics of all rows."""


class Rows(NamedTuple):
    """Rows in memory, as a model reads them.

    Attributes
    ----------
    rows : Any
    weight : ndarray of shape (n_rows,)
        Positive.
    size : int, default=None
        Rows that are counted at a time, by threads; None counts them all at once.
    """

    rows: Any
    weight: Floats
    size: int | None = None

    @property
    def n_rows(self) -> float:
        """Their total weight."""
        return float(self.weight.sum())

    def taken(self, columns: Any) -> Self:
        """The same with the columns in another order."""
        return self._replace(rows=self.rows.take(columns, axis=1))

    def total(self, count: Callable[[Any, Floats], Any]) -> Any:
        """The sum of ``count(rows, weight)`` over all rows."""
        if self.size is None:
            return count(self.rows, self.weight)
        chunks = slices(len(self.weight), self.size)
        total: Any = None
        # Sums may be large: no more of them are held than are counted at a time.
        for group in slices(len(chunks), n_threads()):
            pairs = ((self.rows[chunk], self.weight[chunk]) for chunk in chunks[group])
            # An infinite number of products: threads pay for any chunk.
            parts = each(count, pairs, np.inf)
            # Parts are added up in their order, so that threads do not change the sums.
            total = reduce(added, parts if total is None else [total, *parts])
        return total


class Batches:
    """Some rows in each step, for a :class:`Stepwise` model, which is scored after each epoch.

    Parameters
    ----------
    deal : callable
        ``deal(size)`` are the batches of an epoch, a sequence of :class:`Rows`.
    n_rows : float
        The weight of all rows.
    size : int
        Rows of the first batches.
    most : int
        Batches grow twofold, up to this, after an epoch that gains nothing.
    """

    def __init__(
        self, deal: Callable[[int], Iterable[Rows]], n_rows: float, size: int = 1, most: int = 1
    ):
        self.deal = deal
        self.n_rows = n_rows
        self.size = size
        self.most = most
        #: The sizes of the batches of each epoch so far, and how many these were.
        self.sizes: list[int] = []
        self.n_batches: list[int] = []
        self._left: list[Rows] = []

    @property
    def is_between(self) -> bool:
        """Whether all batches of an epoch have been counted."""
        return not self._left

    def grow(self) -> None:
        """Larger batches from now on."""
        self.size = min(2 * self.size, self.most)

    def total(self, count: Callable[[Any, Floats], Any]) -> Any:
        """``count(rows, weight)`` of the next batch."""
        if self.is_between:
            # The list is emptied from its end.
            self._left = list(self.deal(self.size))[::-1]
            self.sizes.append(self.size)
            self.n_batches.append(len(self._left))
        batch = self._left.pop()
        return count(batch.rows, batch.weight)


class BatchCounts(NamedTuple):
    """Statistics of a batch as those of all rows, of which it has a share."""

    counts: Any
    share: float


class Stepwise(NamedTuple):
    """A model that learns from batches: each moves its statistics towards those of the batch.

    Attributes
    ----------
    model : Parametrised
        Its statistics have ``times(factor)``.
    n_rows : float
        The weight of all rows, of which a batch is an example.
    least : float or None
        The smallest step, as a part of the way to the statistics of a batch. None: three times the
        share of the batch in all rows.
    statistics : Statistics or None, default=None
        Those that the model follows from.
    n_steps : int, default=0
        Steps that were taken.
    """

    model: Any
    n_rows: float
    least: float | None
    statistics: Any = None
    n_steps: int = 0

    def log_likelihood(self, rows: Any) -> Floats:
        """Log-likelihood (nats) of each row."""
        return self.model.log_likelihood(rows)

    def expected(self, rows: Any, weight: Floats) -> BatchCounts:
        """The E-step for a batch."""
        counts = self.model.expected(rows, weight)
        share = float(weight.sum()) / self.n_rows
        # As many rows as all, so that steps mix counts of the same size.
        return BatchCounts(counts.times(1.0 / share), share)

    def m_step(self, statistics: BatchCounts) -> Self:
        """The model after a step."""
        counts = statistics.counts
        if self.statistics is not None:
            # Steps become shorter, so that what single batches hold by chance evens out.
            least = self.least or min(1.0, 3.0 * statistics.share)
            step = max((self.n_steps + 2.0) ** -0.6, least)
            counts = added(self.statistics.times(1.0 - step), counts.times(step))
        model = self.model.m_step(counts)
        return self._replace(model=model, statistics=counts, n_steps=self.n_steps + 1)


class Stop(NamedTuple):
    """When a fit ends.

    Attributes
    ----------
    max_iter : int
        After so many steps.
    tol : float, default=-inf
        Or once the score, in nats a row, has not risen above its greatest value by this, in each of
        ``patience`` iterations in a row. With -inf all steps are taken, and none is scored.
    patience : int, default=1
        More than one where scores may fall: the best model is kept then.
    aim : float, default=-inf
        Or once the score, rising as in the last ``patience`` iterations, would not reach this.
    """

    max_iter: int
    tol: float = -np.inf
    patience: int = 1
    aim: float = -np.inf


class Fit(NamedTuple):
    """What has been learned.

    Attributes
    ----------
    model : Parametrised
    score : float
        Its objective, or the mean log-likelihood of the held-out rows, in nats a row.
    statistics : Statistics or None
        Those of the rows under this model, where they have been counted.
    n_iter : int, default=0
        Steps that were taken.
    converged : bool, default=False
        Whether the score rose no more.
    """

    model: Any
    score: float
    statistics: Any
    n_iter: int = 0
    converged: bool = False


def learn(
    starts: Iterable[Parametrised],
    data: Any,
    stop: Stop,
    held_out: Rows | None = None,
    *,
    before: Statistics | None = None,
    n_products: float = 0.0,
    verbose: int = 0,
) -> Fit:
    """Learn the parameters of a model: the loop of all learners.

    Parameters
    ----------
    starts : iterable of Parametrised
        Where to begin, one or several times; the best fit is kept.
    data : Rows or the like
        Rows, in memory or in chunks: ``total(count)`` adds up over them, ``n_rows`` is their weight
        once they have been read.
    stop : Stop
        When to end.
    held_out : Rows, default=None
        Rows whose likelihood is the score, and chooses the best model. None scores models by the
        objective, the log-likelihood of the data plus the log prior.
    before : Statistics, default=None
        What is known before the data, added in each step: pseudo-counts, or rows learned earlier.
    n_products : float, default=0.0
        Products that the fit of one start takes, roughly: threads share several starts if it pays.
    verbose : int, default=0
        With 1, a progress bar counts iterations.

    Returns
    -------
    Fit

    Examples
    --------
    The mean of numbers:

    >>> from dataclasses import dataclass
    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> from skpc._fitting import Rows, Statistics, Stop, learn
    >>> @dataclass(frozen=True, eq=False)
    ... class Sums(Statistics):
    ...     weight: float
    ...     total: float
    ...     log_likelihood: float
    >>> class Normal(NamedTuple):
    ...     mean: float
    ...
    ...     def expected(self, rows, weight):
    ...         far = rows - self.mean
    ...         return Sums(weight.sum(), weight @ far, -0.5 * weight @ far**2)
    ...
    ...     def m_step(self, sums):
    ...         return Normal(self.mean + float(sums.total / sums.weight))
    >>> rows = Rows(np.array([1.0, 2.0, 6.0]), np.ones(3))
    >>> learn([Normal(0.0)], rows, Stop(10, 1e-6)).model
    Normal(mean=3.0)
    """
    # Starts may come from a generator, and are counted below.
    models = list(starts)
    with progress((stop.max_iter + 1) * len(models), "iterations", verbose) as advance:
        climb = partial(_climb, data=data, stop=stop, held_out=held_out, before=before)
        fits = each(partial(climb, advance=advance), zip(models), n_products)
    return max(fits, key=lambda fit: fit.score)


def _climb(
    model: Any,
    data: Any,
    stop: Stop,
    held_out: Rows | None,
    before: Statistics | None,
    advance: Callable[[float], None],
) -> Fit:
    """Learn from one start."""
    # A score on held-out rows, or of batches, may fall; otherwise the last model is the best.
    keeps_best = held_out is not None or stop.patience > 1
    best = Fit(model, -np.inf, None)
    highest = objective = -np.inf
    waited = 0
    #: The greatest scores after each iteration.
    peaks: list[float] = []
    # Rises become shorter: all those to come add up to at most so many of the last ones.
    last_rises = 5.0
    # One round more than steps, in which the last model is only scored.
    for n_iter in range(stop.max_iter + 1):
        is_last = n_iter == stop.max_iter
        statistics: Any = None
        score = np.nan
        # Nothing is known of a rise before there are two objectives.
        rise = np.inf
        # Batches are scored after all of them.
        is_scored = not isinstance(data, Batches) or data.is_between
        if held_out is not None and is_scored:
            log_density = model.log_likelihood(held_out.rows)
            score = float(np.average(log_density, weights=held_out.weight))
        if isinstance(data, Batches) and score - highest < stop.tol:
            data.grow()
        # No step follows the last model, so that only its score may need the rows.
        if not is_last or (held_out is None and stop.tol > -np.inf):
            statistics = data.total(model.expected)
            last_objective = objective
            # Models without a likelihood of their own have no objective.
            log_likelihood = getattr(statistics, "log_likelihood", np.nan)
            objective = log_likelihood + getattr(model, "log_prior", 0.0)
            # No rows at all: the prior alone speaks.
            objective = objective / (data.n_rows or 1.0)
            rise = objective - last_objective
            if held_out is None:
                score = objective
        # NaN, which is no score, is never greater.
        if score > best.score or not keeps_best:
            best = Fit(model, score, statistics)
        if is_scored:
            # Differences of infinite scores are no reason to stop.
            waited = waited + 1 if score - highest < stop.tol else 0
            highest = max(highest, score)
            peaks.append(highest)
        late_rise = highest - peaks[-1 - stop.patience] if len(peaks) > stop.patience else np.inf
        is_hopeless = stop.aim - highest > last_rises * late_rise
        # Where held-out rows are watched, a model that changes no more is no better for them.
        converged = waited >= stop.patience or (held_out is not None and rise < stop.tol)
        advance(1.0)
        if converged or is_hopeless or is_last:
            break
        # What is known before the data counts along in each step.
        model = model.m_step(statistics if before is None else statistics + before)
    return best._replace(n_iter=n_iter, converged=converged)


def announce(text: str, verbose: int) -> None:
    """Say what begins, at once."""
    if verbose:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


@contextmanager
def progress(total: float, what: str, verbose: int) -> Iterator[Callable[[float], None]]:
    """Follow work of a known size.

    Parameters
    ----------
    total : float
        The whole of the work.
    what : str
        What is being counted.
    verbose : int
        0 shows nothing.

    Yields
    ------
    callable
        Takes the amount of work just finished.
    """
    if not verbose:
        yield lambda done: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        start = time.perf_counter()
        yield lambda done: None
        sys.stdout.write(f"{total:g} {what} in {time.perf_counter() - start:.1f} s\n")
        return
    with tqdm(total=round(total), desc=what, unit=f" {what}") as bar:
        finished = 0.0

        def advance(done: float) -> None:
            nonlocal finished
            finished += done
            # tqdm takes whole numbers: fractions are kept until they make one.
            bar.update(round(finished) - bar.n)

        yield advance
        # What stops early has not been aborted.
        bar.total = bar.n
        bar.refresh()


def best_of(
    attempts: Iterable[_Attempt], score: Callable[[_Attempt], float], patience: float = 1
) -> _Attempt:
    """The best of some attempts, made in turn until so many of them in a row are no better.

    Among equals it is the first. Scores that differ by rounding are equal: else the unit of a
    column, which adds to all scores, would decide.
    """
    best_attempts: list[_Attempt] = []
    # A part of the score.
    rounding = 1e-9
    highest = -np.inf
    waited = 0
    for attempt in attempts:
        reached = score(attempt)
        waited += 1
        least = highest + rounding * abs(highest) if np.isfinite(highest) else highest
        # The first attempt is taken even if its score is NaN.
        if not best_attempts or reached > least:
            best_attempts = [attempt]
            highest = reached
            waited = 0
        if waited == patience:
            break
    return best_attempts[0]


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Put an estimator back to what it was if its ``fit`` fails or is interrupted."""
    # A copy of what the estimator holds, not of the objects themselves.
    before = dict(vars(estimator))
    try:
        with saying_once():
            yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


@contextmanager
def noted(note: str) -> Iterator[None]:
    """Add a note to the errors that come up meanwhile."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise


@contextmanager
def without_warnings(quiet: bool = True) -> Iterator[None]:
    """Say nothing of estimates from few trees: a pool has learned how far to trust a member."""
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def with_some_cell(domain: Any, rows: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Leave out the rows without any cell that a learner sees: nothing is learned from them."""
    hidden = domain.is_hidden
    # Hidden columns are not learned, so that their cells do not count.
    empty = (np.isnan(rows) | hidden).all(axis=1)
    if hidden.all() or not empty.any():
        return rows, weight
    return rows[~empty], weight[~empty]
