"""How any pool is learned: out-of-fold predictions, weights, and members learned again."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skpc.pooling.folds import make_folds
from skpc.pooling.pool import Member, OutOfFold, learn_pool


class Memory(NamedTuple):
    """What a member has learned: the numbers of its rows, and what showed it what to choose."""

    rows: np.ndarray
    shown: Any
    known: int


class Weighed(NamedTuple):
    used: list[int]
    out_of_fold: OutOfFold | None
    fitted: list[Any] = []


class Numbered(NamedTuple):
    """Training data whose members remember which rows they have learned; all but the last count."""

    rows: np.ndarray
    rates: tuple[float, ...] = (0.0, 0.5)
    #: Number of rows that the data know of.
    known: int = 12

    def without(self, fold):
        return self._replace(known=int((fold.train_weight > 0.0).sum()))

    def fit(self, member, weight, seeds):
        return Memory(np.flatnonzero(weight), member.model, self.known)

    def predict(self, fitted, fold):
        has_learned = np.isin(fold.test_index, fitted.rows)
        return has_learned.astype(float), np.tile(
            [len(fitted.rows), fitted.known], (len(has_learned), 1)
        )

    def weigh(self, members, out_of_fold):
        return Weighed(list(range(len(members) - 1)), out_of_fold)


MEMBERS = [Member("first", "density", True), Member("other", "trees", False)]
MEMBERS.append(Member("useless", "line", False))


def learned(n_jobs=None, n_folds: int = 3) -> Weighed:
    data, weight, state = (
        Numbered(np.arange(24.0).reshape(12, 2)),
        np.ones(12),
        np.random.RandomState(0),
    )
    folds = []
    if n_folds:
        folds = make_folds(data.rows, weight, np.zeros(12, int), n_folds, data.rates, state)
    return learn_pool(data, MEMBERS, weight, folds, n_jobs, state, 0)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_predictions_are_of_rows_that_a_member_and_its_data_do_not_know(n_jobs):
    out_of_fold = learned(n_jobs).out_of_fold
    has_learned, sizes = out_of_fold.predictions
    assert has_learned.shape == (24, 3)
    assert not has_learned.any()
    assert_array_equal(sizes, np.full((24, 3, 2), 8.0))
    assert_array_equal(np.bincount(out_of_fold.test_index), np.full(12, 2))
    assert out_of_fold.test_weight.sum() == pytest.approx(12.0)
    assert out_of_fold.test_rows.shape == (24, 2)


def test_members_that_count_learn_from_all_rows():
    density, other, useless = learned().fitted
    assert_array_equal(density.rows, np.arange(12))
    assert_array_equal(other.rows, np.arange(12))
    assert useless is None
    assert (density.shown, other.shown) == ("density", "trees")


def test_members_choose_again_in_each_fold_unless_they_keep_what_all_rows_have_chosen():
    shown = []

    class Watched(Numbered):
        def fit(self, member, weight, seeds):
            kind = type(member.model).__name__
            shown.append((member.name, kind, int(weight.sum()), len(seeds)))
            return super().fit(member, weight, seeds)

    data, weight, state = Watched(np.zeros((12, 2))), np.ones(12), np.random.RandomState(0)
    folds = make_folds(np.arange(24.0).reshape(12, 2), weight, np.zeros(12, int), 2, [0.0], state)
    members = [MEMBERS[0]._replace(keeps_choices=True), MEMBERS[1]]
    learn_pool(data, members, weight, folds, None, state, 0)
    of_folds = [("first", "Memory", 6, 1), ("other", "str", 6, 1)]
    assert shown == [("first", "str", 12, 3), ("other", "str", 12, 3), *of_folds, *of_folds]


def test_without_folds_nothing_is_predicted():
    pool = learned(n_folds=0)
    assert pool.out_of_fold is None
    assert [one is None for one in pool.fitted] == [False, False, True]
