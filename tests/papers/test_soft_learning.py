"""SoftLearnSPN on sets of "Soft Learning Probabilistic Circuits" (PGM 2024), untuned.

Needs the data (SKPC_DATA). The published likelihoods look like those of validation rows (the user
guide has the evidence), so the validation rows are compared here. Tolerances leave room for starts
of k-means; the learners of the paper were tuned for each set, ours was not.
"""

import pytest

from skpc import SoftLearnSPN
from skpc.datasets import fetch_debd
from tests.benchmarks.published import column

pytestmark = pytest.mark.slow

#: The algorithm of the paper. A sum comes first, as nothing falls apart at the root of these sets.
SOFT_LEARN = {"clusterer": "kmeans", "significance": 0.2, "root_test": None, "random_state": 0}

#: Set, and the shortfall of SoftLearn (table 1) allowed before and after refinement.
CELLS = [
    ("nltcs", 0.02, 0.0),
    ("plants", 0.10, 0.0),
    ("audio", 0.05, 0.0),
    ("jester", 0.0, 0.0),
    ("retail", 0.05, 0.05),
]


@pytest.mark.parametrize(("name", "soft_gap", "refined_gap"), CELLS)
def test_published_likelihoods_are_reached(name, soft_gap, refined_gap):
    published = column("soft_learn/table_1", "SoftLearn")[name]
    data = fetch_debd(name)
    states = [[0, 1]] * data.n_features
    found = {}
    for n_refine in (0, 50):
        model = SoftLearnSPN(n_refine=n_refine, categories=states, **SOFT_LEARN)
        found[n_refine] = model.fit(data.train, X_val=data.valid).score(data.valid)
    assert found[0] >= published - soft_gap
    assert found[50] >= published - refined_gap
    assert found[50] >= found[0]


@pytest.mark.parametrize("name", ["plants", "audio", "jester"])
def test_soft_memberships_beat_hard_ones_on_test_rows(name):
    data = fetch_debd(name)
    states = [[0, 1]] * data.n_features
    scores = {}
    for assignment in ("soft", "hard"):
        model = SoftLearnSPN(assignment=assignment, n_refine=0, categories=states, **SOFT_LEARN)
        scores[assignment] = model.fit(data.train).score(data.test)
    assert scores["soft"] > scores["hard"]
