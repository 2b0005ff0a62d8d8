"""What all drawings share: matplotlib on demand, and colours."""

from __future__ import annotations

from typing import Any

# Two colours that people with any kind of colour vision can tell apart; shape tells them as well.
BLUE, LIGHT_BLUE = "#0072B2", "#D3E8F5"
ORANGE, LIGHT_ORANGE = "#D55E00", "#FBE6D3"


def require_pyplot(caller: str) -> Any:
    """Import matplotlib.pyplot, or say who needs it and how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{caller} needs matplotlib, which could not be imported; install it with "
            "`pip install matplotlib`"
        ) from error
    return plt
