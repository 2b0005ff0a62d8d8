"""With ``margins="plain"`` numeric columns are what they were before lattices and atoms."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc import CutsetNetworkBD, MixtureOfAllTrees, SoftLearnSPN
from skpc.estimators import _learner


def table(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, 120)
    columns = [kind, 4.0 * kind + rng.normal(size=120), np.round(rng.exponential(size=120), 1)]
    return np.column_stack([*columns, np.where(rng.random(120) < 0.5, 0.0, rng.normal(size=120))])


#: Rows that end the training, where a model takes some: which rows it would hold out by itself is
#: no matter of margins.
HELD_OUT = {"X_val": table(1)[:40]}
# Values of the release before, computed by its own code.
PLAIN = [
    (
        CutsetNetworkBD(n_bins=4, param_ess=None, margins="plain"),
        {},
        [-4.266213058451848, -7.392044451620377, -4.982390065507584, -7.200108107495877],
        [26, -13.35801566474711, -20.819311374487818, -1.0113170761119776, -0.4521473516736547],
    ),
    (
        SoftLearnSPN(
            random_state=0,
            margins="plain",
            clusterer="kmeans",
            significance=0.2,
            root_test=None,
            n_refine=50,
        ),
        HELD_OUT,
        [-4.638127360925667, -5.5332073683152245, -3.928364780810865, -7.15979670681193],
        [20, 6.411723939512927, -3.210272221284151, -0.029515910661825906, -3.537547472615146],
    ),
    (
        # Directed mixtures start elsewhere by now.
        MixtureOfAllTrees(
            orientation="undirected", n_bins=3, max_iter=10, random_state=0, margins="plain"
        ),
        HELD_OUT,
        [-4.279429108761965, -7.55568396741207, -5.440513617880668, -7.073466967351479],
        None,
    ),
]


def as_they_come(rows, weight, is_categorical):
    return SimpleNamespace(rows=np.arange(len(rows)), columns=np.arange(rows.shape[1]))


@pytest.mark.parametrize(
    ("model", "held_out", "scores", "facts"), PLAIN, ids=lambda part: type(part).__name__
)
def test_plain_margins_are_those_of_the_release_before(monkeypatch, model, held_out, scores, facts):
    # That release learned from columns and rows as they came; draws follow their order.
    monkeypatch.setattr(_learner, "canonical_order", as_they_come)
    X = table()
    model.fit(X, **held_out)
    assert_allclose([model.score(X), *model.score_samples(X[:3])], scores, rtol=1e-9)
    if facts is not None:
        param, log_weight = model.circuit_.param, model.circuit_.log_weight
        finite = param[np.isfinite(param)]
        # The release had its nodes in another order.
        two = [finite[np.abs(finite - one).argmin()] for one in facts[3:]]
        assert_allclose([len(param), finite.sum(), log_weight.sum(), *two], facts, rtol=1e-9)


@pytest.mark.parametrize("model", [part[0] for part in PLAIN], ids=lambda part: type(part).__name__)
def test_plain_margins_know_no_numbers(model):
    model.fit(table())
    assert model.domain_.is_plain
    assert not any(model.domain_.laws)
