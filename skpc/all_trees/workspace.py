"""Memory that the steps of training use again."""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats


class Workspace:
    """Arrays by name and shape. To ask for large ones anew takes longer than to fill them."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, tuple[int, ...]], Floats] = {}

    def __repr__(self) -> str:
        return f"Workspace({sorted(name for name, _ in self._arrays)})"

    def array(self, name: str, shape: tuple[int, ...]) -> Floats:
        """An array with whatever is in it."""
        key = name, shape
        if key not in self._arrays:
            self._arrays[key] = np.empty(shape)
        return self._arrays[key]

    def zeros(self, name: str, shape: tuple[int, ...]) -> Floats:
        """An array of zeros."""
        found = self.array(name, shape)
        found.fill(0.0)
        return found
