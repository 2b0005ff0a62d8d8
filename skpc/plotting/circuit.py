"""Drawings of circuits: cutset networks as trees, and other small circuits as graphs."""

from typing import Any, Self

import numpy as np

from skpc._arrays import Floats, segment
from skpc._repr import ShowsParameters
from skpc._validation import check_matplotlib_support
from skpc.circuit import SUM, Circuit
from skpc.domain import Domain
from skpc.plotting._drawable import check_drawable
from skpc.plotting._drawing import HALF_FRAME, Block, draw_blocks
from skpc.plotting._names import Names
from skpc.plotting._network import draw_network, read_network
from skpc.variables import Bins, Points

_KEY = "+ sum, with the weights of its edges; × product; below, the leaves"


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
    ) -> Self:
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
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        needs = "CircuitDisplay needs an estimator with a circuit_"
        check_drawable(estimator, "circuit_", needs, "draw it by CircuitDisplay(circuit).plot()")
        display = cls(estimator.circuit_, domain=estimator.domain_)
        return display.plot(ax, max_depth=max_depth)

    def plot(self, ax: Any = None, *, max_depth: int | None = None) -> Self:
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
        # More nodes than this cannot be read on one page.
        max_nodes = 200
        check_matplotlib_support(f"{type(self).__name__}.plot")
        if max_depth is not None and max_depth < 0:
            raise ValueError(f"max_depth must be None or at least 0, got {max_depth}")
        names = Names(self.circuit, self.domain)
        parts = read_network(self.circuit)
        # A cutset network has a drawing that people can read, whatever its size as a circuit.
        if parts is not None:
            self.ax_ = draw_network(parts, names, max_depth, ax)
        elif max_depth is not None:
            raise ValueError(
                f"max_depth={max_depth} needs a cutset network, but this circuit is none; leave "
                "max_depth out to draw it as a graph"
            )
        elif self.circuit.n_nodes > max_nodes:
            raise ValueError(
                f"a circuit that is not a cutset network is drawn up to {max_nodes} nodes, this "
                f"one has {self.circuit.n_nodes}; draw a smaller circuit, or look at its arrays "
                "(kind, child_ptr, child)"
            )
        else:
            self.ax_ = _draw_graph(self.circuit, names, ax)
        self.figure_ = self.ax_.figure
        return self


def _draw_graph(circuit: Circuit, names: Names, ax: Any) -> Any:
    """Draw all nodes, root on top and leaves in one layer below, and return the axes."""
    max_weights = 40
    gaps = (1.0, 3.1)
    n_nodes = circuit.n_nodes
    # The weights of more edges than this would cover each other.
    show_weights = (circuit.kind[circuit.edge_parent] == SUM).sum() <= max_weights
    height = np.zeros(n_nodes, dtype=np.int64)
    labels = _leaf_labels(circuit, names)
    blocks = []
    for node in range(n_nodes):
        edges = segment(circuit.child_ptr, node)
        children = circuit.child[edges]
        # Leaves have height 0, so that they stand in one layer.
        height[node] = 1 + height[children].max(initial=-1)
        block = Block(-int(height[node]))
        # Blocks come in the reverse order of the nodes, root first, and are numbered so.
        block.below = (n_nodes - 1 - children).tolist()
        if not len(children):
            block.write(0.0, 0.5, labels[node], "upright")
        elif circuit.kind[node] == SUM:
            block.write(0.0, HALF_FRAME, "+", "sum")
            weights = np.exp(circuit.log_weight[edges]) if show_weights else ()
            # The zero before the point takes room and says nothing.
            block.weights = [f"{weight:.2f}".lstrip("0") for weight in weights]
        else:
            block.write(0.0, HALF_FRAME, "×", "product")
        blocks.append(block)
    # Layers count from the root, whose height is the greatest.
    for block in blocks:
        block.layer += int(height[-1])
    return draw_blocks(blocks[::-1], gaps, _KEY, ax)


def _leaf_labels(circuit: Circuit, names: Names) -> dict[int, str]:
    """The text of each leaf by its node: states, moments of a number, or names of variables."""
    labels = {}
    leaves = circuit.structure.leaves
    for variable, n_states in enumerate(circuit.n_states.tolist()):
        name = names.variables[variable]
        form = circuit.leaf_forms(variable)
        mean = form.means()
        sd = np.sqrt(form.mean_squares(mean))
        # A form holds all leaves of a variable, in the order of their nodes.
        for leaf, node in enumerate(leaves.node[leaves.with_variable(variable)].tolist()):
            scope = circuit.scope[segment(circuit.scope_ptr, node)]
            if len(scope) > 1:
                labels[node] = _joint_label(names, scope.tolist())
            elif n_states and isinstance(form, Points | Bins):
                labels[node] = _state_label(names, variable, form.prob[leaf])
            else:
                labels[node] = f"{name}: mean {mean[leaf]:.3g}, sd {sd[leaf]:.3g}"
    return labels


def _joint_label(names: Names, scope: list[int]) -> str:
    # At most this many variables are named.
    max_names = 4
    shown = ", ".join(names.variables[variable] for variable in scope[:max_names])
    n_hidden = len(scope) - max_names
    return f"{shown} and {n_hidden} more: joint" if n_hidden > 0 else f"{shown}: joint"


def _state_label(names: Names, variable: int, probability: Floats) -> str:
    name = names.variables[variable]
    possible = np.flatnonzero(probability)
    # The only possible state of an indicator says all about it.
    if len(possible) == 1:
        state = names.state(variable, int(possible[0]))
        # A range such as "< 3" reads without a sign of equality.
        return f"{name} {state}" if state[0] in "<≥" else f"{name} = {state}"
    # More probabilities than three do not fit on a leaf.
    if len(probability) <= 3:
        return f"{name}: " + ", ".join(f"{prob:.2f}" for prob in probability)
    return name
