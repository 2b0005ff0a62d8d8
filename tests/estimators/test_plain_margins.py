"""With ``margins="plain"`` numeric columns are what they were before lattices and atoms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc import CutsetNetworkBD, MixtureOfAllTrees, SoftLearnSPN


def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 120)
    columns = [kind, 4.0 * kind + rng.normal(size=120), np.round(rng.exponential(size=120), 1)]
    return np.column_stack([*columns, np.where(rng.random(120) < 0.5, 0.0, rng.normal(size=120))])


# Values of the release before, computed by its own code.
PLAIN = [
    (
        CutsetNetworkBD(n_bins=4, param_ess=None, margins="plain"),
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
        [-4.706229207209754, -5.034456322054268, -3.963084839554904, -6.512833827162622],
        [16, 3.918587152777082, -1.3967944811707618, -0.03124768683067014, -3.4813930866238545],
    ),
    (
        MixtureOfAllTrees(n_bins=3, max_iter=10, random_state=0, margins="plain"),
        [-4.2807037449470595, -7.417756073566029, -5.044810473282668, -7.2762405177078024],
        None,
    ),
]


@pytest.mark.parametrize(("model", "scores", "facts"), PLAIN, ids=lambda part: type(part).__name__)
def test_plain_margins_are_those_of_the_release_before(model, scores, facts):
    X = table()
    model.fit(X)
    assert_allclose([model.score(X), *model.score_samples(X[:3])], scores, rtol=1e-9)
    if facts is not None:
        param, log_weight = model.circuit_.param, model.circuit_.log_weight
        finite = param[np.isfinite(param)]
        found = [len(param), finite.sum(), log_weight.sum(), *param[-2:]]
        assert_allclose(found, facts, rtol=1e-9)


@pytest.mark.parametrize("model", [part[0] for part in PLAIN], ids=lambda part: type(part).__name__)
def test_plain_margins_know_no_numbers(model):
    model.fit(table())
    assert model.domain_.numbers is None
