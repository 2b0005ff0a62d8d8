"""The check that an estimator can be drawn by a display."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from skpc.circuit import Circuit


def check_drawable(estimator: Any, attribute: str, needs: str, for_circuits: str) -> None:
    """Refuse an estimator that is not fitted, or lacks the attribute that a display reads.

    The error says ``needs``, and what can be drawn instead; ``for_circuits`` says it of a circuit.
    """
    if isinstance(estimator, Circuit):
        raise TypeError(f"from_estimator draws a fitted estimator, got a Circuit; {for_circuits}.")
    check_is_fitted(estimator)
    if hasattr(estimator, attribute):
        return
    advice = "draw a density, such as CutsetNetworkBD"
    if hasattr(estimator, "density_"):
        advice = "draw its density_"
    elif hasattr(estimator, "densities_"):
        advice = "draw one of its densities_"
    elif hasattr(estimator, "to_mixture"):
        sampled = "CircuitDisplay(model.to_mixture(3), domain=model.domain_).plot()"
        advice = f"draw a sample of its trees: {sampled}"
    raise TypeError(f"{needs}, which {type(estimator).__name__} has not; {advice}.")
