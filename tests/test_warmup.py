"""After the warm-up, ordinary use compiles nothing."""

import subprocess
import sys

import numpy as np

from skpc import CutsetNetworkBD, MixtureOfAllTrees, SoftLearnSPN
from skpc._jit import KERNELS
from skpc.warmup import warmup


def compiled() -> int:
    return sum(len(kernel.signatures) for kernel in KERNELS)


def test_fits_and_queries_after_the_warm_up_compile_nothing():
    warmup()
    before = compiled()
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 2, (300, 5)), rng.normal(size=(300, 2))])
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    for density in (CutsetNetworkBD(), SoftLearnSPN(), MixtureOfAllTrees(max_iter=1)):
        density.set_params(random_state=0).fit(X).score_samples(X)
        density.sample(5, random_state=0)
    for density in (CutsetNetworkBD(random_state=0), SoftLearnSPN(random_state=0)):
        density.fit(holes).complete(holes)
        density.marginals(holes)
    assert compiled() == before


def test_the_module_can_be_run():
    subprocess.run([sys.executable, "-m", "skpc.warmup"], check=True)
