"""Warnings that point to the line which called the package."""

import sys
import warnings

#: Packages whose lines do not help a user to find the cause of a warning.
_INSIDE = {"skpc", "sklearn", "joblib"}


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, at the innermost line outside of this package and of those that call back into it."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
