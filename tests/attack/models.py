"""Every estimator, small tables, and runs of hostile code in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.estimators.test_interrupt import EVERY_FIT, answers, assert_equal, table, target

__all__ = ["EVERY_FIT", "answers", "assert_equal", "learn", "run", "table"]


def learn(estimator, X: np.ndarray):
    return estimator.fit(X, target(estimator, X))


def run(module: str, *arguments: str, timeout: float, **environment: str) -> str:
    """What ``python -m tests.attack.<module>`` prints; it must end well and in time."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", f"tests.attack.{module}", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[2],
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
