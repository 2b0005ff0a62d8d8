"""The loop of all learners, and progress bars of long fits."""

from dataclasses import dataclass
from typing import NamedTuple

import joblib
import numpy as np
import pytest

from skpc import (
    CellErrorDetector,
    CutsetNetworkBD,
    ExtraCutsets,
    HiddenChowLiuTree,
    HiddenForest,
    SoftLearnSPN,
    TableMixture,
    _fitting,
)
from skpc._fitting import Fit, Rows, Statistics, Stop, best_of, learn, progress
from skpc.counting.clustering import cluster_points
from skpc.estimators._fillers import LinearFiller
from skpc.queries import fit_parameters
from skpc.variables.censored_regression import censored_regression
from tests.zoo import random_circuit, random_rows


def test_a_bar_has_a_name_and_is_full_when_the_work_stops_early(capsys):
    pytest.importorskip("tqdm")
    with progress(100, "iterations", 1) as advance:
        advance(9)
    last = capsys.readouterr().err.split("\r")[-1]
    assert last.startswith("iterations: 100%")
    assert "9/9" in last


def test_a_bar_of_work_that_fails_is_not_full(capsys):
    pytest.importorskip("tqdm")
    bar = progress(100, "iterations", 1)
    bar.__enter__()(9)
    assert not bar.__exit__(KeyError, KeyError(), None)
    assert "9/100" in capsys.readouterr().err.split("\r")[-1]


def test_bars_of_a_mixture_are_full(capsys):
    pytest.importorskip("tqdm")
    X = np.random.default_rng(0).integers(0, 2, (200, 4))
    CutsetNetworkBD(n_components=2, random_state=0, verbose=1).fit(X)
    bars = [line.split("\r")[-1] for line in capsys.readouterr().err.strip().split("\n")]
    assert bars
    assert all(bar.startswith("iterations: 100%") for bar in bars)


@dataclass(frozen=True, eq=False)
class Sums(Statistics):
    weight: float
    total: float
    log_likelihood: float


class Normal(NamedTuple):
    """A normal of variance one, whose mean goes a part of the way in each step."""

    mean: float
    rate: float = 1.0

    def expected(self, rows, weight):
        far = rows - self.mean
        return Sums(weight.sum(), weight @ far, -0.5 * float(weight @ far**2))

    def m_step(self, sums):
        return self._replace(mean=self.mean + self.rate * float(sums.total / sums.weight))

    def log_likelihood(self, rows):
        return -0.5 * (rows - self.mean) ** 2


NUMBERS = Rows(np.array([1.0, 2.0, 6.0, 3.0]), np.array([1.0, 1.0, 1.0, 3.0]))


def test_the_loop_ends_once_the_score_rises_by_less_than_tol():
    fit = learn([Normal(0.0, 0.5)], NUMBERS, Stop(100, 1e-3))
    # Gains of 9 / 8, and of a quarter of that from step to step.
    assert (fit.n_iter, fit.converged) == (7, True)
    assert fit.model.mean == pytest.approx(3.0 * (1.0 - 0.5**7))
    assert fit.score == pytest.approx(fit.statistics.log_likelihood / 6.0)
    fit = learn([Normal(0.0, 0.5)], NUMBERS, Stop(3, 1e-3))
    assert (fit.n_iter, fit.converged, fit.model.mean) == (3, False, 3.0 * (1.0 - 0.5**3))


def test_steps_that_nothing_can_end_are_not_scored():
    fit = learn([Normal(0.0, 0.5)], NUMBERS, Stop(2))
    assert (fit.n_iter, fit.converged, fit.statistics) == (2, False, None)
    assert fit.model.mean == 3.0 * (1.0 - 0.5**2)


def test_held_out_rows_choose_the_best_model_after_some_patience():
    held_out = Rows(np.array([2.0, np.pi]), np.array([2.0, 0.0]))
    fit = learn([Normal(0.0, 0.5)], NUMBERS, Stop(100, 1e-6, 3), held_out)
    assert (fit.n_iter, fit.converged) == (5, True)
    assert fit.model.mean == 3.0 * (1.0 - 0.5**2)
    assert fit.score == pytest.approx(-0.5 * 0.25**2)


def test_a_fit_ends_that_would_not_reach_its_aim():
    # The distance from the greatest score, 4.5 in the beginning, falls to a quarter in each step.
    start = Normal(0.0, 0.5)
    greatest = learn([Normal(3.0)], NUMBERS, Stop(1, 0.0)).score
    whole = learn([start], NUMBERS, Stop(100, 1e-9))
    assert learn([start], NUMBERS, Stop(100, 1e-9, aim=greatest)).n_iter == whole.n_iter
    behind = learn([start], NUMBERS, Stop(100, 1e-9, aim=greatest + 0.1))
    # Rises add up to a third of the last one; it would have to be five times it.
    distances = 4.5 * 0.25 ** np.arange(9)
    assert behind.n_iter == np.flatnonzero(distances + 0.1 > 5.0 * 3.0 * distances)[0]
    assert not behind.converged


def test_scores_that_may_fall_keep_the_best_model():
    # Steps of twice the way come back to where they began.
    fit = learn([Normal(0.0, 2.5)], NUMBERS, Stop(100, 1e-6, 2))
    assert (fit.n_iter, fit.model.mean) == (2, 0.0)
    assert learn([Normal(0.0, 2.5)], NUMBERS, Stop(100, 1e-6)).model.mean == 7.5


def test_the_best_of_several_starts_is_kept():
    starts = [Normal(0.0, 0.1), Normal(2.9, 0.1), Normal(9.0, 0.1)]
    alone = [learn([start], NUMBERS, Stop(1, 0.0)).score for start in starts]
    fit = learn(starts, NUMBERS, Stop(1, 0.0))
    assert fit.score == max(alone)
    assert fit.model.mean == pytest.approx(2.91)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        again = learn(starts, NUMBERS, Stop(1, 0.0), n_products=1e12)
    assert again.model == fit.model


def test_what_is_known_before_the_rows_counts_in_each_step():
    known = Sums(6.0, 12.0, 0.0)
    assert learn([Normal(0.0)], NUMBERS, Stop(1), before=known).model.mean == 2.5


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_rows_in_chunks_are_learned_as_the_whole(size):
    fit = learn([Normal(0.0, 0.5)], NUMBERS._replace(size=size), Stop(100, 1e-3))
    whole = learn([Normal(0.0, 0.5)], NUMBERS, Stop(100, 1e-3))
    assert fit.model.mean == pytest.approx(whole.model.mean, rel=1e-12)
    assert fit.n_iter == whole.n_iter


class Uphill(NamedTuple):
    """The same normal, learned by stochastic gradients: a second kind of step."""

    mean: float
    random_state: np.random.RandomState
    n_steps: int = 0

    def expected(self, rows, weight):
        """An epoch: a gradient step on each batch, and the log-likelihood on the way."""
        mean, log_likelihood, n_steps = self.mean, 0.0, self.n_steps
        for batch in np.array_split(self.random_state.permutation(len(rows)), 2):
            far, n_steps = rows[batch] - mean, n_steps + 1
            log_likelihood -= 0.5 * float(weight[batch] @ far**2)
            mean += float(weight[batch] @ far) / weight.sum() / np.sqrt(n_steps)
        return Epoch(self._replace(mean=mean, n_steps=n_steps), log_likelihood)

    def m_step(self, epoch):
        return epoch.model


@dataclass(frozen=True, eq=False)
class Epoch(Statistics):
    model: Uphill
    log_likelihood: float


def test_epochs_of_gradient_steps_are_steps_of_the_same_loop():
    start = Uphill(0.0, np.random.RandomState(0))
    fit = learn([start], NUMBERS, Stop(200, 1e-4, 5))
    assert fit.converged
    assert fit.model.mean == pytest.approx(3.0, abs=0.3)


def test_attempts_end_after_some_that_are_no_better():
    made = []

    def attempts():
        for number in (3, 1, 2, 5, 5, 4, 9):
            made.append(number)
            yield number

    assert best_of(attempts(), float, 2) == 3
    assert made == [3, 1, 2]
    assert best_of(attempts(), float, 3) == 9


def test_among_attempts_that_differ_by_rounding_the_first_is_best():
    # The unit of a column adds the same to all scores, whose last digits then are others.
    for unit in (0.0, 322.3619, -322.3619):
        scores = [-5.450396775643, -5.450396775643 + 4e-15, -5.450396775643 - 4e-15]
        shifted = [score + unit for score in scores]
        assert best_of(shifted, float, len(shifted)) == shifted[0]
    assert best_of([-np.inf, -np.inf, -1.0], float, 3) == -1.0


TABLE = np.column_stack([np.random.default_rng(0).normal(size=(120, 2)), np.arange(120) % 2])
GAPS = TABLE.copy()
GAPS[::3, 0], GAPS[1::4, 2] = np.nan, np.nan
STATES = np.where(np.isnan(GAPS), np.nan, GAPS > 0.0)


CIRCUIT = random_circuit(0, n_features=3)


def in_chunks():
    return iter([GAPS[:70], GAPS[70:]])


def again(model, X):
    rows = model.fit(X).domain_.encode(X)
    model.reweighted(rows, np.ones(len(X)))


def censored():
    z = TABLE[:, 0]
    ranges = np.arange(5), z[:5] - 1.0, z[:5] + 1.0
    return censored_regression(np.ones((len(z), 1)), z, ranges, np.ones(len(z)), np.zeros(1))


#: Whatever learns parameters of circuits and mixtures.
LEARNERS = {
    "table mixture": lambda: TableMixture(n_components=2, random_state=0).fit(GAPS),
    "table mixture, reweighted": lambda: again(TableMixture(n_components=2, random_state=0), GAPS),
    "table mixture, more rows": lambda: TableMixture(n_components=1).fit(TABLE).partial_fit(GAPS),
    "SoftLearn, blocks": lambda: SoftLearnSPN(random_state=0).fit(GAPS),
    "SoftLearn, refined": lambda: SoftLearnSPN(random_state=0, n_refine=5).fit(STATES),
    "a network of incomplete rows": lambda: CutsetNetworkBD().fit(STATES),
    "a network, reweighted": lambda: again(CutsetNetworkBD(), STATES),
    "a network, more rows": lambda: CutsetNetworkBD().fit(TABLE).partial_fit(TABLE),
    "shrunken networks": lambda: CutsetNetworkBD(n_components=2, random_state=0).fit(TABLE),
    "networks": lambda: CutsetNetworkBD(n_components=2, param_ess=1.0, random_state=0).fit(TABLE),
    "random networks": lambda: ExtraCutsets(2, random_state=0).fit(STATES),
    "hidden trees": lambda: HiddenChowLiuTree(n_hidden=2, random_state=0).fit(STATES),
    "a hidden forest": lambda: HiddenForest(n_estimators=1, n_clusters=2, random_state=0).fit(
        TABLE
    ),
    "clusters": lambda: cluster_points(TABLE, np.ones(len(TABLE)), 2, np.random.RandomState(0)),
    "regressions of ranges": censored,
    "rates of errors": lambda: CellErrorDetector(random_state=0).fit(TABLE),
    "parameters": lambda: fit_parameters(CIRCUIT, random_rows(0, CIRCUIT, 9)),
    "regressions": lambda: LinearFiller().fit(GAPS),
}


#: The models of the loop, each with a learner that needs it.
MODELS = {
    "hidden trees": "Stepwise",
    "a hidden forest": "Products",
    "clusters": "Centroids",
    "regressions of ranges": "CensoredNormal",
    "rates of errors": "ReplacementRates",
}


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_calls_the_one_loop(learner, monkeypatch):
    """With a loop in its place that takes no step, learners return where they begin."""
    calls = []

    def no_step(model, data, stop, **_):
        calls.append(type(model).__name__)
        return Fit(model, 0.0, data.total(model.expected))

    monkeypatch.setattr("skpc._fitting._climb", no_step)
    LEARNERS[learner]()
    assert MODELS.get(learner, calls[0]) in calls


@pytest.mark.parametrize("make", [CutsetNetworkBD, lambda: TableMixture(n_components=2)])
def test_tables_in_chunks_are_learned_by_the_one_loop(make, monkeypatch):
    sizes, climb = [], _fitting._climb

    def noted(model, data, stop, **options):
        sizes.append(getattr(data, "table", None) is not None)
        return climb(model, data, stop, **options)

    monkeypatch.setattr("skpc._fitting._climb", noted)
    monkeypatch.setattr("skpc.estimators._table_chunks.SAMPLE_ROWS", 60)
    make().fit(in_chunks)
    assert sizes[-1]
