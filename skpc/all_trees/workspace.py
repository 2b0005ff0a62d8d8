"""Memory that the steps of training use again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats


class Workspace:
    """Arrays by name and shape. To ask for large ones anew takes longer than to fill them.

    Parameters
    ----------
    precision : {np.float64, np.float32}, default=np.float64
        Type of the numbers of the inverses of rows of many columns. Steps along noisy gradients do
        with single precision.
    """

    def __init__(self, precision: type[np.floating[Any]] = np.float64) -> None:
        self.precision = precision
        self._arrays: dict[tuple[str, tuple[int, ...], type], NDArray[Any]] = {}

    def __repr__(self) -> str:
        return f"Workspace({sorted(name for name, *_ in self._arrays)})"

    def array(
        self, name: str, shape: tuple[int, ...], kind: type[np.floating[Any]] = np.float64
    ) -> NDArray[Any]:
        """An array with whatever is in it."""
        key = name, shape, kind
        if key not in self._arrays:
            self._arrays[key] = np.empty(shape, kind)
        return self._arrays[key]

    def zeros(self, name: str, shape: tuple[int, ...]) -> Floats:
        """An array of zeros."""
        found = self.array(name, shape)
        found.fill(0.0)
        return found
