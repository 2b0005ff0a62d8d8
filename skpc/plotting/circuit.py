"""Drawings of circuits."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from skpc._repr import ShowsParameters
from skpc.circuit import Circuit
from skpc.domain import Domain
from skpc.plotting._canvas import require_pyplot
from skpc.plotting._graph import draw_graph
from skpc.plotting._names import Names, inner_densities
from skpc.plotting._network import draw_network, read_network

#: More nodes than this cannot be read on one page.
_MAX_NODES = 200


class CircuitDisplay(ShowsParameters):
    """Drawing of a circuit.

    A cutset network is drawn for readers. The cuts are a decision tree; each branch has its
    category or bin and its probability. Below are the variables of each Chow-Liu tree, with an
    arrow from every variable to those that depend on it directly. Any other circuit is drawn as a
    graph of sums, products and leaves.

    Use :meth:`from_estimator` to draw a fitted estimator, and ``CircuitDisplay(circuit).plot()`` to
    draw a circuit built by hand. All parameters are stored as attributes.

    Parameters
    ----------
    circuit : Circuit
        The circuit.
    domain : Domain, default=None
        Names of the variables and their categories. With None, variables are called x0, x1, ... and
        states by their numbers.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the drawing.
    figure_ : matplotlib Figure
        Figure with the drawing.

    See Also
    --------
    MarginalsDisplay : What a model says about the missing cells of a row.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from skpc import CutsetNetworkBD
    >>> from skpc.plotting import CircuitDisplay
    >>> X = np.random.default_rng(0).integers(0, 2, (100, 3))
    >>> model = CutsetNetworkBD().fit(X)
    >>> display = CircuitDisplay.from_estimator(model)
    >>> plt.show()  # doctest: +SKIP
    """

    ax_: Any
    figure_: Any

    def __init__(self, circuit: Circuit, *, domain: Domain | None = None) -> None:
        self.circuit = circuit
        self.domain = domain

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, max_depth: int | None = None, ax: Any = None
    ) -> CircuitDisplay:
        """Draw the circuit of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator with a circuit inside, such as :class:`skpc.CutsetNetworkBD`.
        max_depth : int, default=None
            Draw a cutset network down to this many edges below its first cut (or the root of its
            tree), and state how much is below. None draws everything.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure that is large enough.

        Returns
        -------
        CircuitDisplay
            The drawing.

        Raises
        ------
        ValueError
            If the circuit is too large to be drawn, or ``max_depth`` does not fit it.
        TypeError
            If the estimator has no circuit inside.
        ImportError
            If matplotlib is not installed.
        """
        require_pyplot(f"{cls.__name__}.from_estimator")
        if isinstance(estimator, Circuit):
            raise TypeError(
                "from_estimator draws a fitted estimator, got a Circuit; draw it by "
                "CircuitDisplay(circuit).plot()."
            )
        check_is_fitted(estimator)
        if not hasattr(estimator, "circuit_"):
            raise TypeError(_no_circuit(estimator))
        display = cls(estimator.circuit_, domain=estimator.domain_)
        return display.plot(ax, max_depth=max_depth)

    def plot(self, ax: Any = None, *, max_depth: int | None = None) -> CircuitDisplay:
        """Draw the circuit.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure that is large enough.
        max_depth : int, default=None
            See :meth:`from_estimator`.

        Returns
        -------
        CircuitDisplay
            This object, with ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            If the circuit is too large to be drawn, or ``max_depth`` does not fit it.
        ImportError
            If matplotlib is not installed.
        """
        require_pyplot(f"{type(self).__name__}.plot")
        if max_depth is not None and max_depth < 0:
            raise ValueError(f"max_depth must be None or at least 0, got {max_depth}")
        names, parts = Names(self.circuit, self.domain), read_network(self.circuit)
        if parts is not None:
            self.ax_ = draw_network(parts, names, max_depth, ax)
        else:
            self._refuse_graph(max_depth)
            self.ax_ = draw_graph(self.circuit, names, ax)
        self.figure_ = self.ax_.figure
        return self

    def _refuse_graph(self, max_depth: int | None) -> None:
        if max_depth is not None:
            raise ValueError(
                f"max_depth={max_depth} needs a cutset network, but this circuit is none; leave "
                "max_depth out to draw it as a graph"
            )
        if self.circuit.n_nodes > _MAX_NODES:
            raise ValueError(
                f"a circuit that is not a cutset network is drawn up to {_MAX_NODES} nodes, this "
                f"one has {self.circuit.n_nodes}; draw a smaller circuit, or look at its arrays "
                "(kind, child_ptr, child)"
            )


def _no_circuit(estimator: Any) -> str:
    """Why an estimator cannot be drawn, and what can be drawn instead."""
    name = type(estimator).__name__
    if hasattr(estimator, "to_mixture"):
        advice = (
            "draw a sample of its trees: CircuitDisplay(model.to_mixture(3), domain=model.domain_)"
            ".plot()"
        )
    else:
        advice = inner_densities(estimator) or "draw a density, such as CutsetNetworkBD"
    return f"CircuitDisplay needs an estimator with a circuit_, which {name} has not; {advice}."
