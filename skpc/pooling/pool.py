"""A pool: members are weighed by their out-of-fold predictions, and learned from all rows.

This module is the same for all that pools predict. A class of training data for each kind (classes,
numbers, or the rows themselves) says how a member learns and predicts, and how members are weighed.
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

#: Added to warnings and errors of members that fail to learn.
NEEDED = "Members learn from encoded rows, and must take missing cells and sample_weight."


class Member(NamedTuple):
    """A member of a pool before it is learned.

    Attributes
    ----------
    name : str
    model : density estimator, or what :meth:`MaskingEnsemble.fit` takes
    is_density : bool
    joint : bool, default=True
        Whether a density is learned of rows and targets jointly, or of the rows of each class.
    keeps_choices : bool, default=False
        Whether a density keeps in each fold the choices made from all rows, such as a number of
        components. That is fast, and flatters members that choose much.
    """

    name: str
    model: Any
    is_density: bool
    joint: bool = True
    keeps_choices: bool = False


class OutOfFold(NamedTuple):
    """Predictions for test rows by members that have not learned from them, fold after fold.

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
    """What the members of a pool learn from, what they predict, and how they are weighed."""

    def without(self, fold: Fold) -> Self:
        """The same data, with nothing that was learned from the held-out rows of a fold."""

    def fit(self, member: Member, weight: Floats, seeds: Sequence[int]) -> Any:
        """Learn a member from the rows of positive weight only.

        A masking ensemble learns a model for each of the seeds.
        """

    def predict(self, fitted: Any, fold: Fold) -> tuple[Floats, ...]:
        """Predictions of a fitted member for the test rows of a fold, arrays (n_test_rows, ...)."""

    def weigh(self, mixture: Floats, out_of_fold: OutOfFold | None) -> Any:
        """Weigh the members; return a pool that lacks its fitted members.

        Parameters
        ----------
        mixture : ndarray of shape (n_members,)
            Equal weights of the members that are densities, zero for the others.
        out_of_fold : OutOfFold or None
            None where no rows were held out.

        Returns
        -------
        NamedTuple
            With the field ``used``, the numbers of the members that count, and the field
            ``fitted``, in which :func:`learn_pool` puts the members.
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
        Number of fits that run at a time.
    random_state : RandomState instance
    verbose : int
        Whether to show progress.

    Returns
    -------
    NamedTuple
        What ``data.weigh`` returns. Its field ``fitted`` has the members that count, learned from
        all rows, and None in place of the others.
    """
    # A masking ensemble of all rows has this many models; in the folds one is enough.
    n_models = 3
    seeds = random_state.randint(2**31, size=(len(members), n_models)).tolist()
    with progress(len(members) * (1 + len(folds)), "fits", verbose) as advance:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator")

        def run(calls: Iterable[Any]) -> list[Any]:
            results = []
            for result in parallel(calls):
                results.append(result)
                advance(1.0)
            return results

        fitted = run(delayed(data.fit)(*args) for args in zip(members, repeat(weight), seeds))
        # Members without `keeps_choices` choose anew in each fold, without its test rows.
        fold_members = [
            member._replace(model=fitted_member) if member.keeps_choices else member
            for member, fitted_member in zip(members, fitted)
        ]
        predictions = run(
            delayed(_predict_fold)(data_of_fold, member, member_seeds[:1], fold)
            for data_of_fold, fold in zip([data.without(fold) for fold in folds], folds)
            for member, member_seeds in zip(fold_members, seeds)
        )
        is_density = np.array([member.is_density for member in members])
        out_of_fold = _gather(folds, predictions) if folds else None
        pool = data.weigh(is_density / max(is_density.sum(), 1), out_of_fold)
    used_members = [member if m in pool.used else None for m, member in enumerate(fitted)]
    return pool._replace(fitted=used_members)


def fit_density(model: Any, domain: Domain, rows: Any, weight: Floats) -> Any:
    """Learn a density from the rows of positive weight; equal rows are merged.

    A ``model`` that is fitted already keeps its choices, except with ranges in the rows.
    """
    events = Events.of(rows)
    if events.has_intervals:
        return clone(model).fit_events(domain, events, weight)
    return model.refit(domain, *merge_rows(events.rows, weight))


def reweighed(mixture: Floats, log_density: Floats, weight: Floats) -> Floats:
    """Weights by log densities (n_rows, n_members); members without a weight stay without."""
    weights = np.zeros_like(mixture)
    counts = mixture > 0.0
    weights[counts] = mixture_weights(log_density[:, counts], weight)
    return weights


def labelled(rows: Floats, target: Any = np.nan) -> Floats:
    """Rows with the target as their last column; NaN where it is unknown."""
    return np.column_stack([rows, np.broadcast_to(target, len(rows))])


def draw_by_source(source: Ints, n_columns: int, draw: Callable[[int, Bools], Floats]) -> Floats:
    """Rows drawn from several models: row i from model ``source[i]``.

    ``draw(k, is_source)`` returns a draw from model k for each row that ``is_source`` marks.
    """
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
    """Join the predictions of all members for all folds."""
    n_members = len(predictions) // len(folds)
    # Predictions stand fold by fold, and within a fold member by member.
    joined = [
        np.stack([np.concatenate(arrays[m::n_members]) for m in range(n_members)], axis=1)
        for arrays in zip(*predictions)
    ]
    test_parts = map(np.concatenate, zip(*(fold[1:] for fold in folds)))
    return OutOfFold(tuple(joined), *test_parts)
