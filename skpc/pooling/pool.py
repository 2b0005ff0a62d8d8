"""A pool: members learned in folds, weighed by what they predict there, learned from all rows.

What is to be predicted makes no difference here. The training data say how a member learns from
them and what it predicts, and how members are weighed by that: classes, numbers, or rows alone.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from skpc._arrays import Bools, Floats, Ints
from skpc._fitting import progress
from skpc.domain import Domain, merge_rows
from skpc.learning.simplex import mixture_weights
from skpc.pooling.folds import Fold
from skpc.queries import Events

#: What is said of members that fail to learn.
NEEDED = "Members learn from encoded rows, and must take missing cells and sample_weight."


class Member(NamedTuple):
    """A member of a pool before it is learned.

    Attributes
    ----------
    name : str
    model : density estimator, or what :meth:`MaskingEnsemble.fit` takes
    is_density : bool
    joint : bool, default=True
        Whether a density is one of rows and what is to be predicted, or one for each class.
    keeps_choices : bool, default=False
        Whether a density keeps in each fold what all rows have chosen, such as a number of
        components: that costs less, and flatters members that choose much.
    """

    name: str
    model: Any
    is_density: bool
    joint: bool = True
    keeps_choices: bool = False


class OutOfFold(NamedTuple):
    """What members predict for rows that they have not learned from, the folds one after another.

    Attributes
    ----------
    predictions : tuple of ndarrays of shape (n_test_rows, n_members, ...)
    test_index, test_weight, test_rows : ndarrays of shape (n_test_rows, ...)
        As in :class:`Fold`.
    """

    predictions: tuple[Floats, ...]
    test_index: Ints
    test_weight: Floats
    test_rows: Floats


class TrainingData(Protocol):
    """What the members of a pool learn from, and how they are weighed."""

    def without(self, fold: Fold) -> Self:
        """The data as they are known where the rows of a fold are not."""

    def fit(self, member: Member, weight: Floats, seeds: Sequence[int]) -> Any:
        """Learn a member from the rows of positive weight, and from these alone.

        A masking ensemble has a model for each of the seeds.
        """

    def predict(self, fitted: Any, fold: Fold) -> tuple[Floats, ...]:
        """What a learned member says of the test rows of a fold."""

    def weigh(self, mixture: Floats, out_of_fold: OutOfFold | None) -> Any:
        """A pool without its learned members; None where no rows could be held out.

        ``mixture`` are equal weights of the members that are densities, zero for the others.

        A NamedTuple with ``used``, the numbers of the members that count, and ``fitted``, all
        members after these have learned from all rows, None in place of the others.
        """


def learn_pool(
    data: TrainingData,
    members: Sequence[Member],
    weight: Floats,
    folds: Sequence[Fold],
    n_jobs: int | None,
    random_state: np.random.RandomState,
    verbose: int,
) -> Any:
    """Weigh members by out-of-fold predictions, and learn those that count from all rows.

    Parameters
    ----------
    data : TrainingData
    members : sequence of Member
    weight : ndarray of shape (n_rows,)
        Positive weights of the rows.
    folds : sequence of Fold
    n_jobs : int or None
        How many members and folds are learned side by side.
    random_state : RandomState instance
    verbose : int
        Whether to show progress.

    Returns
    -------
    NamedTuple
        What ``data.weigh`` returns, with its members.
    """
    # Draws of the cells that are removed for models of masked copies, where these learn all rows;
    # one will do to weigh them.
    n_draws = 3
    seeds = random_state.randint(2**31, size=(len(members), n_draws)).tolist()
    with progress(len(members) * (1 + len(folds)), "fits", verbose) as advance:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator")

        def run(calls: Iterable[Any]) -> list[Any]:
            results = []
            for result in parallel(calls):
                results.append(result)
                advance(1.0)
            return results

        fitted = run(delayed(data.fit)(*task) for task in zip(members, repeat(weight), seeds))
        # What counts in a fold is learned without it: choices too, such as numbers of leaves.
        fold_members = [
            task._replace(model=known) if task.keeps_choices else task
            for task, known in zip(members, fitted)
        ]
        predictions = run(
            delayed(_predict_fold)(data_of_fold, member, member_seeds[:1], fold)
            for data_of_fold, fold in zip([data.without(fold) for fold in folds], folds)
            for member, member_seeds in zip(fold_members, seeds)
        )
        is_density = np.array([member.is_density for member in members])
        out_of_fold = _gather(folds, predictions) if folds else None
        pool = data.weigh(is_density / max(is_density.sum(), 1), out_of_fold)
    used = [fitted[m] if m in pool.used else None for m in range(len(members))]
    return pool._replace(fitted=used)


def fit_density(model: Any, domain: Domain, rows: Any, weight: Floats) -> Any:
    """Learn a density from the rows of positive weight, which may be equal.

    ``model`` is a density estimator, or what this has returned for all rows, which shows what to
    choose. From events with ranges all is chosen again.
    """
    events = Events.of(rows)
    if events.has_intervals:
        return clone(model).fit_events(domain, events, weight)
    return model.refit(domain, *merge_rows(events.rows, weight))


def reweighed(mixture: Floats, log_density: Floats, weight: Floats) -> Floats:
    """Weights of the members that had some, by log densities of shape (n_rows, n_members)."""
    weights = np.zeros_like(mixture)
    counts = mixture > 0.0
    weights[counts] = mixture_weights(log_density[:, counts], weight)
    return weights


def labelled(rows: Floats, target: Any = np.nan) -> Floats:
    """Rows with what is to be predicted as a last column; NaN where it is unknown."""
    return np.column_stack([rows, np.broadcast_to(target, len(rows))])


def draw_by_source(source: Ints, n_columns: int, draw: Callable[[int, Bools], Floats]) -> Floats:
    """Rows drawn from several models: ``draw`` those of a source, given which these are."""
    rows = np.empty((len(source), n_columns))
    for k in np.unique(source).tolist():
        rows[source == k] = draw(k, source == k)
    return rows


def _predict_fold(
    data: TrainingData, member: Member, seeds: Sequence[int], fold: Fold
) -> tuple[Floats, ...]:
    """Predictions of a member that has not learned the rows of a fold."""
    return data.predict(data.fit(member, fold.train_weight, seeds), fold)


def _gather(folds: Sequence[Fold], predictions: list[tuple[Floats, ...]]) -> OutOfFold:
    """Predictions of all members for a fold, those for another, and so on, side by side."""
    n_members = len(predictions) // len(folds)
    # Predictions stand fold by fold, and within a fold member by member.
    member_predictions = [zip(*predictions[m::n_members]) for m in range(n_members)]
    joined = [
        [np.concatenate(fold_predictions) for fold_predictions in member]
        for member in member_predictions
    ]
    test_parts = map(np.concatenate, zip(*(fold[1:] for fold in folds)))
    return OutOfFold(
        tuple(np.stack(member_parts, axis=1) for member_parts in zip(*joined)), *test_parts
    )
