"""The ``repr`` of objects that are not estimators."""

from inspect import Parameter, signature
from typing import Any

import numpy as np


class ShowsParameters:
    """An object that is shown as the call that made it, without defaults.

    It has an attribute for each parameter of its ``__init__`` that is to be shown.
    """

    def __repr__(self) -> str:
        shown = []
        for name, parameter in signature(type(self)).parameters.items():
            value = getattr(self, name, parameter.default)
            # A comparison of texts works for arrays, too, whose equality is an array.
            if value is not Parameter.empty and repr(value) != repr(parameter.default):
                shown.append(f"{name}={_shown(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<array of shape {value.shape}>"
    if isinstance(value, list) and any(isinstance(entry, np.ndarray) for entry in value):
        return f"<{len(value)} arrays>"
    # A long repr has line breaks, which would break the line of the call.
    text = " ".join(repr(value).split())
    if " at 0x" in text:
        # A function or a generator of random numbers: its address is of no use to a reader.
        name = getattr(value, "__name__", type(value).__name__)
        return f"<{name.strip('<>')}>"
    # Longer descriptions of a parameter are cut off.
    most_letters = 120
    return text if len(text) <= most_letters else f"{text[:most_letters]}...)"
