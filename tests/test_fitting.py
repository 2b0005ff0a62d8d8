"""Progress bars of long fits."""

import numpy as np
import pytest

from skpc import CutsetNetworkBD
from skpc._fitting import progress


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
