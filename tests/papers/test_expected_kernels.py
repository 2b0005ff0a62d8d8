"""Published cells of "Tractable Computation of Expected Kernels" (UAI 2021).

Needs the data (SKPC_DATA). The protocol is that of the paper's experiments: a machine trained on
complete one-hot rows, and single one-hot columns of the validation rows missing at random.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from skpc import CutsetNetworkBD, ExpectedKernelSVR
from tests.benchmarks.published import SVR_ERRORS

pytestmark = pytest.mark.slow

#: Set, and parameters of the machine in units of the standardised target.
CELLS = [
    ("abalone", {"C": 100.0, "epsilon": 0.3, "gamma": 0.003}),
    ("delta-ailerons", {"C": 100.0, "epsilon": 0.1, "gamma": 0.01}),
]
#: Missing rates.
RATES = (0.1, 0.9)


@pytest.mark.parametrize(("name", "parameters"), CELLS)
def test_published_errors_of_the_exact_expectation_are_reached(name, parameters):
    data = np.load(Path(os.environ["SKPC_DATA"]) / "regression" / f"{name}.npz")
    train, valid = (
        np.unpackbits(data[f"{part}_x"], axis=1, count=int(data["n_features"])).astype(float)
        for part in ("train", "valid")
    )
    mean, scale = data["train_y"].mean(), data["train_y"].std()
    model = ExpectedKernelSVR(CutsetNetworkBD(structured=True), **parameters)
    model.fit(train, (data["train_y"] - mean) / scale)
    for rate in RATES:
        squared = []
        for seed in range(5):
            holes = np.random.default_rng(seed).random(valid.shape) < rate
            found = mean + scale * model.predict(np.where(holes, np.nan, valid))
            squared.append(np.sqrt(np.mean((found - data["valid_y"]) ** 2)))
        assert np.mean(squared) <= SVR_ERRORS[name][rate]
