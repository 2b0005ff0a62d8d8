"""The circuit: an immutable value made of a structure and its parameters; and mixtures of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints, log_or_inf, offsets, segment
from skpc.circuit._structure import DTYPES, SIZES, SUM, Structure, StructureFields
from skpc.variables import Columns
from skpc.variables.blocks import BlockLeaves, block_leaves
from skpc.variables.leaf_forms import forms_of
from skpc.variables.leaf_tables import columns_of, leaf_tables

#: The arrays that describe the variables.
_VARIABLES = ("n_states", "axis_ptr", "axis")


def _fact(name: str) -> Any:
    """A property that is read from the structure, which all circuits on it share."""
    fact = attrgetter(f"structure.{name}")
    return property(fact, doc=getattr(Structure, name).__doc__)


class Circuit(StructureFields):
    """A probabilistic circuit: an immutable value of flat arrays.

    A circuit is a directed acyclic graph of leaves (distributions of one or several variables),
    products (independent parts) and sums (mixtures). It describes a joint distribution over encoded
    rows: float64 rows in which a categorical variable holds its state code 0, 1, ..., a numeric
    variable its value, and NaN marks a missing cell. :class:`skpc.circuit.CircuitBuilder` or a
    learner makes circuits, and the functions of :mod:`skpc.queries` ask them questions.

    Parameters
    ----------
    structure : Structure
        Nodes and edges.
    log_weight : array-like of shape (n_edges,)
        Log weights (nats) of the edges of sums; 0 on the edges of products.
    param : array-like of shape (n_params,)
        Parameters of the leaves: log probabilities of the states or bins, or mean and standard
        deviation of a Gaussian.
    observed : array-like of shape (n_features,), default=None
        The value that a variable has been conditioned on; NaN for other variables.

    Attributes
    ----------
    n_nodes, n_edges, n_features : int
        Sizes.
    kind, child_ptr, child, scope_ptr, scope, leaf_var, leaf_family, param_ptr, decision_var,
    decision_state, n_states, axis_ptr, axis : arrays
        The arrays of the structure (see :class:`skpc.circuit.Structure`).
    smooth, decomposable, deterministic, structured_decomposable : bool
        Structural properties, computed once.

    See Also
    --------
    skpc.circuit.CircuitBuilder : Builds circuits and checks them.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import log_likelihood
    >>> builder = CircuitBuilder(n_states=[2, 2])
    >>> rain = builder.discrete(0, np.log([0.8, 0.2]))
    >>> wind = builder.discrete(1, np.log([0.5, 0.5]))
    >>> _ = builder.product([rain, wind])
    >>> circuit = builder.build()
    >>> circuit
    Circuit(n_features=2, n_nodes=3, n_edges=2)
    >>> np.exp(log_likelihood(circuit, [[1.0, 0.0], [1.0, np.nan]]))
    array([0.1, 0.2])
    """

    structure: Structure
    log_weight: Floats
    param: Floats
    observed: Floats

    leaf_var = _fact("leaf_var")
    edge_parent = _fact("edge_parent")
    scopes = _fact("scopes")
    depth = _fact("depth")
    smooth = _fact("smooth")
    decomposable = _fact("decomposable")
    deterministic = _fact("deterministic")
    structured_decomposable = _fact("structured_decomposable")

    def __init__(
        self, structure: Structure, log_weight: Any, param: Any, observed: Any = None
    ) -> None:
        if observed is None:
            observed = np.full(structure.n_features, np.nan)
        # The class refuses to set attributes, so that the dictionary is filled directly.
        self.__dict__["structure"] = structure
        # The arrays of the structure become attributes: properties would slow down each look-up.
        for name in (*DTYPES, *SIZES):
            self.__dict__[name] = getattr(structure, name)
        sizes = {
            "log_weight": (log_weight, structure.n_edges),
            "param": (param, int(structure.param_ptr[-1])),
            "observed": (observed, structure.n_features),
        }
        for name, (given, size) in sizes.items():
            array = np.array(given, dtype=np.float64, order="C")
            if array.shape != (size,):
                raise ValueError(
                    f"{name} must have shape ({size},) for this structure, got {array.shape}"
                )
            # Circuits are shared by plans and threads: nobody may change an array.
            array.flags.writeable = False
            self.__dict__[name] = array

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"a Circuit is a value and {name!r} cannot be set; use with_parameters for a copy"
        )

    def __getstate__(self) -> dict[str, Any]:
        # All other attributes are computed from these again.
        names = ("structure", "log_weight", "param", "observed")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Circuit.__init__(self, **state)

    def __repr__(self) -> str:
        return (
            f"Circuit(n_features={self.n_features}, n_nodes={self.n_nodes}, n_edges={self.n_edges})"
        )

    @cached_property
    def multivariate(self) -> list[BlockLeaves]:
        """The leaves of several variables, those of one scope together."""
        return block_leaves(self.structure.leaves, self.param, self.n_states)

    @cached_property
    def columns(self) -> Columns:
        """The variables as kernels read them."""
        leaves = self.structure.leaves
        known = ~np.isnan(self.observed)
        return columns_of(
            leaves, self.param, self.multivariate, self.n_states, self.axis_ptr, self.axis, known
        )

    @cached_property
    def leaf_table(self) -> Floats:
        """The log tables of all leaves, made once; a missing cell has log value 0."""
        return leaf_tables(self.structure.leaves, self.param, self.columns)

    def leaf_forms(self, var: int, leaf: Ints | None = None) -> Any:
        """The distributions of all leaves of a variable, in the order of the nodes.

        Parameters
        ----------
        var : int
            The variable.
        leaf : ndarray of int, default=None
            Some of the leaves that have the variable alone, in place of all.

        Returns
        -------
        Points, Normals or Bins
            See :mod:`skpc.variables`.
        """
        return forms_of(self.structure.leaves, self.param, self.columns, var, leaf)

    def with_parameters(
        self, *, log_weight: Any = None, param: Any = None, observed: Any = None
    ) -> Circuit:
        """The same structure with other parameters.

        Parameters
        ----------
        log_weight, param, observed : array-like, default=None
            The new parameters; None keeps those of this circuit.

        Returns
        -------
        Circuit
            A new value that shares this circuit's structure.
        """
        return Circuit(
            self.structure,
            self.log_weight if log_weight is None else log_weight,
            self.param if param is None else param,
            self.observed if observed is None else observed,
        )

    def taken(self, order: Ints) -> Circuit:
        """The circuit of rows with their columns in another order.

        Parameters
        ----------
        order : ndarray of shape (n_features,)
            The numbers of the variables in their new order.

        Returns
        -------
        Circuit
            Its log-likelihood of ``rows[:, order]`` is that of ``rows`` here. Leaves of several
            variables keep the order of these among their parameters.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc.circuit import CircuitBuilder
        >>> builder = CircuitBuilder(n_states=[2, 3])
        >>> coin, die = np.log(np.full(2, 0.5)), np.log(np.full(3, 1 / 3))
        >>> _ = builder.product([builder.discrete(0, coin), builder.discrete(1, die)])
        >>> builder.build().taken(np.array([1, 0])).n_states
        array([3, 2])
        """
        structure = self.structure
        # Where each variable goes; -1, which is no variable, stays -1.
        places = np.append(np.argsort(order), -1)
        # Axes differ in length, so that they are cut out one by one.
        axes = [structure.axis[segment(structure.axis_ptr, var)] for var in order.tolist()]
        changed = {
            "scope": places[structure.scope],
            "decision_var": places[structure.decision_var],
            "n_states": structure.n_states[order],
            "axis_ptr": offsets([len(axis) for axis in axes]),
            "axis": np.concatenate(axes),
        }
        # A new structure: plans for the old one do not serve it.
        structure = Structure(**(structure.arrays() | changed))
        return Circuit(structure, self.log_weight, self.param, self.observed[order])


def mixture(circuits: Sequence[Circuit], weights: Any) -> Circuit:
    """Mix circuits over the same variables: a sum over their roots.

    Parameters
    ----------
    circuits : sequence of Circuit
        At least one. They have the same variables, with the same states and axes.
    weights : array-like of shape (n_circuits,)
        Probabilities; they sum to one.

    Returns
    -------
    Circuit
        Smooth and decomposable. If there is only one circuit, it is returned itself.

    Raises
    ------
    ValueError
        If there is no circuit, the variables differ, a circuit has been conditioned, or the
        weights are no probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder, mixture
    >>> from skpc.queries import log_likelihood
    >>> rare, often = CircuitBuilder([2]), CircuitBuilder([2])
    >>> _ = (
    ...     rare.discrete(0, np.log([0.9, 0.1])),
    ...     often.discrete(0, np.log([0.3, 0.7])),
    ... )
    >>> both = mixture([rare.build(), often.build()], [0.5, 0.5])
    >>> np.exp(log_likelihood(both, [[1.0]])).round(3)
    array([0.4])
    """
    weights = np.asarray(weights, dtype=np.float64)
    are_probabilities = (weights >= 0.0).all() and abs(weights.sum() - 1.0) < 1e-8
    if weights.shape != (len(circuits),) or not are_probabilities:
        raise ValueError(
            f"weights must be {len(circuits)} probabilities that sum to one, one for each circuit "
            f"(of at least one); got {weights.tolist()}"
        )
    reference = circuits[0]
    for number, circuit in enumerate(circuits):
        same = all(
            np.array_equal(getattr(circuit, name), getattr(reference, name), equal_nan=True)
            for name in _VARIABLES
        )
        if not same:
            raise ValueError(
                f"circuits that are mixed need the same variables with the same states and axes; "
                f"those of circuit {number} differ from those of circuit 0"
            )
        # A circuit holds one conditioned value of a variable, but its parts could have several.
        if not np.isnan(circuit.observed).all():
            raise ValueError(f"circuit {number} has been conditioned; mix circuits that have not")
    # A sum with one child would only cost time.
    if len(circuits) == 1:
        return reference
    # Nodes of each circuit follow those of the circuits before it.
    roots = np.cumsum([circuit.n_nodes for circuit in circuits]) - 1
    # A root is the last node of its circuit, so that the next circuit begins behind it.
    first_nodes = np.append(0, roots[:-1] + 1)

    def joined(name: str, last: Any = ()) -> Any:
        """An array of all circuits end to end, and its entries for the new root."""
        return np.concatenate([*(getattr(circuit, name) for circuit in circuits), last])

    def joined_ptr(name: str, last: int = 0) -> Any:
        """Offsets into such an array; the new root has ``last`` entries in it."""
        lengths = [np.diff(getattr(circuit, name)) for circuit in circuits]
        return offsets(np.append(np.concatenate(lengths), last))

    child = [circuit.child + first_node for circuit, first_node in zip(circuits, first_nodes)]
    # The new root is the last node.
    structure = Structure(
        kind=joined("kind", [SUM]),
        child_ptr=joined_ptr("child_ptr", len(circuits)),
        child=np.concatenate([*child, roots]),
        scope_ptr=joined_ptr("scope_ptr"),
        scope=joined("scope"),
        leaf_family=joined("leaf_family", [-1]),
        param_ptr=joined_ptr("param_ptr"),
        decision_var=joined("decision_var", [-1]),
        decision_state=joined("decision_state", np.full(len(circuits), -1)),
        **{name: getattr(reference, name) for name in _VARIABLES},
    )
    return Circuit(structure, joined("log_weight", log_or_inf(weights)), joined("param"))
