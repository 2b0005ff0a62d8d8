"""Plain twins of the functions of ``skpc/_fast_math.py``, as kernels that call the C library."""

from __future__ import annotations

import math

import numpy as np

from skpc._fast_math import fast_exp, fast_log
from skpc._jit import kernel


@kernel
def exponentials(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(len(x)):
        out[i] = math.exp(x[i])


@kernel
def fast_exponentials(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(len(x)):
        out[i] = fast_exp(x[i])


@kernel
def logarithms(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(len(x)):
        out[i] = math.log(x[i])


@kernel
def fast_logarithms(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(len(x)):
        out[i] = fast_log(x[i])
