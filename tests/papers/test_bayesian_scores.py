"""Published cells of "Bayesian Structure Scores for Probabilistic Circuits" (AISTATS 2023).

Needs the data (SKPC_DATA). The seed plays no part: learning is deterministic.
"""

import numpy as np
import pytest

from skpc import CutsetNetworkBD
from skpc.datasets import fetch_debd
from tests.benchmarks.published import column

pytestmark = pytest.mark.slow

#: Set, criterion and the tolerance in nats: half the last digit, or what spanning-tree ties leave
#: open.
CELLS = [
    ("nltcs", "bd", 5e-4),
    ("jester", "bd", 5e-4),
    ("netflix", "bd", 5e-4),
    ("audio", "bd", 3e-3),
    ("accidents", "bd", 3e-3),
    ("retail", "bd", 5e-4),
    ("plants", "bd", 0.02),
    ("kosarek", "bd", 2e-3),
    ("20ng", "bd", 0.15),
    ("nltcs", "bic", 5e-4),
    ("jester", "bic", 5e-4),
    ("netflix", "bic", 5e-4),
    ("audio", "bic", 1e-3),
    ("plants", "bic", 0.01),
]


@pytest.mark.parametrize(("name", "criterion", "tolerance"), CELLS)
def test_published_sizes_and_likelihoods_are_reproduced(name, criterion, tolerance):
    title = {"bd": "CNetBD", "bic": "CNetBIC"}[criterion]
    published, n_parameters = (
        column(f"bayesian_scores/{table}", title)[name] for table in ("table_1", "table_4")
    )
    data = fetch_debd(name)
    train = np.vstack([data.train, data.valid])
    states = [[0, 1]] * data.n_features
    model = CutsetNetworkBD(criterion=criterion, param_ess=None, categories=states).fit(train)
    assert model.n_parameters_ == n_parameters
    assert model.score(data.test) == pytest.approx(published, abs=tolerance)
