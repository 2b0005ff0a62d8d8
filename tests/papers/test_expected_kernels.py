"""What "Tractable Computation of Expected Kernels" (UAI 2021) says of its figure 2.

Needs the data (SKPC_DATA). A machine is trained on complete one-hot rows, and single one-hot
columns of the validation rows are missing at random.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from skpc import CutsetNetworkBD, ExpectedKernelSVR

pytestmark = pytest.mark.slow

#: Set, and parameters of the machine in units of the standardised target.
CELLS = [
    ("abalone", {"C": 100.0, "epsilon": 0.3, "gamma": 0.003}),
    ("delta-ailerons", {"C": 100.0, "epsilon": 0.1, "gamma": 0.01}),
]
#: Missing rates.
RATES = (0.1, 0.9)


@pytest.mark.parametrize(("name", "parameters"), CELLS)
def test_exact_expectations_are_no_worse_than_medians(name, parameters):
    data = np.load(Path(os.environ["SKPC_DATA"]) / "regression" / f"{name}.npz")
    train, valid = (
        np.unpackbits(data[f"{part}_x"], axis=1, count=int(data["n_features"])).astype(float)
        for part in ("train", "valid")
    )
    mean, scale = data["train_y"].mean(), data["train_y"].std()
    density = CutsetNetworkBD(structured=True)
    model = ExpectedKernelSVR(density, standardize_y=False, **parameters)
    model.fit(train, (data["train_y"] - mean) / scale)
    for rate in RATES:
        exact, filled = [], []
        for seed in range(5):
            missing = np.random.default_rng(seed).random(valid.shape) < rate
            for errors, value in ((exact, np.nan), (filled, np.median(train, axis=0))):
                found = mean + scale * model.predict(np.where(missing, value, valid))
                errors.append(np.sqrt(np.mean((found - data["valid_y"]) ** 2)))
        assert np.mean(exact) <= np.mean(filled)
