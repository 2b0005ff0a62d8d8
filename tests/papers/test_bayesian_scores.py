"""Published cells of "Bayesian Structure Scores for Probabilistic Circuits" (AISTATS 2023).

Needs the data (SKPC_DATA). The seed plays no part: learning is deterministic.
"""

import numpy as np
import pytest

from skpc import CutsetNetworkBD
from skpc.datasets import fetch_debd

pytestmark = pytest.mark.slow

#: Set, criterion, published parameters (table 4), published test log-likelihood (table 1) and the
#: tolerance in nats: half the last digit, or what spanning-tree ties leave open.
CELLS = [
    ("nltcs", "bd", 205, -6.064, 5e-4),
    ("jester", "bd", 1359, -55.454, 5e-4),
    ("netflix", "bd", 1741, -58.820, 5e-4),
    ("audio", "bd", 1549, -42.210, 3e-3),
    ("accidents", "bd", 2355, -30.568, 3e-3),
    ("retail", "bd", 269, -10.940, 5e-4),
    ("plants", "bd", 3399, -13.713, 0.02),
    ("kosarek", "bd", 1875, -10.999, 2e-3),
    ("20ng", "bd", 23531, -163.671, 0.15),
    ("nltcs", "bic", 315, -6.043, 5e-4),
    ("jester", "bic", 2689, -55.231, 5e-4),
    ("netflix", "bic", 2881, -58.649, 5e-4),
    ("audio", "bic", 3437, -41.927, 1e-3),
    ("plants", "bic", 3163, -13.466, 0.01),
]


@pytest.mark.parametrize(("name", "criterion", "n_parameters", "published", "tolerance"), CELLS)
def test_published_sizes_and_likelihoods_are_reproduced(
    name, criterion, n_parameters, published, tolerance
):
    data = fetch_debd(name)
    train = np.vstack([data.train, data.valid])
    states = [[0, 1]] * data.n_features
    model = CutsetNetworkBD(criterion=criterion, param_ess=None, categories=states).fit(train)
    assert model.n_parameters_ == n_parameters
    assert model.score(data.test) == pytest.approx(published, abs=tolerance)
