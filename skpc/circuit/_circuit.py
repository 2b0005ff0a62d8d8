"""The circuit: an immutable value made of a structure and its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc.circuit._structure import Structure

__all__ = ["Circuit"]


class Circuit:
    """A probabilistic circuit: an immutable value of flat arrays.

    A circuit is a directed acyclic graph of leaves (univariate distributions), products
    (independent parts) and sums (mixtures). It describes a joint distribution over encoded
    rows: float64 rows in which a categorical variable holds its state code 0, 1, ..., a numeric
    variable its value, and NaN marks a missing cell. Circuits are made by
    :class:`skpc.circuit.CircuitBuilder` or by a learner, and questions are asked of them with
    the functions of :mod:`skpc.queries`.

    Parameters
    ----------
    structure : Structure
        Nodes and edges; its arrays can also be read as attributes of the circuit.
    log_weight : array-like of shape (n_edges,)
        Log weights (nats) of the edges of sums; 0 on the edges of products.
    param : array-like of shape (n_params,)
        Parameters of the leaves: log probabilities of the states or bins, or mean and standard
        deviation of a Gaussian.
    observed : array-like of shape (n_nodes,), default=None
        The value a leaf has been conditioned on, NaN where it has not.

    Attributes
    ----------
    n_nodes, n_edges, n_features : int
        Sizes.
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
    log_weight: np.ndarray
    param: np.ndarray
    observed: np.ndarray

    def __init__(
        self, structure: Structure, log_weight: Any, param: Any, observed: Any = None
    ) -> None:
        if observed is None:
            observed = np.full(structure.n_nodes, np.nan)
        self.__dict__["structure"] = structure
        sizes = {
            "log_weight": (log_weight, structure.n_edges),
            "param": (param, int(structure.param_ptr[-1])),
            "observed": (observed, structure.n_nodes),
        }
        for name, (given, size) in sizes.items():
            array = np.array(given, dtype=np.float64, order="C")
            if array.shape != (size,):
                raise ValueError(
                    f"{name} must have shape ({size},) for this structure, got {array.shape}"
                )
            array.flags.writeable = False
            self.__dict__[name] = array

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"a Circuit is a value and {name!r} cannot be set; use with_parameters for a copy"
        )

    def __getattr__(self, name: str) -> Any:
        # Only reached for names the circuit itself lacks: they are the structure's.
        if name.startswith("__") or "structure" not in self.__dict__:
            raise AttributeError(name)
        try:
            return getattr(self.structure, name)
        except AttributeError:
            raise AttributeError(f"a Circuit has no attribute {name!r}") from None

    def __getstate__(self) -> dict[str, Any]:
        names = ("structure", "log_weight", "param", "observed")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Circuit.__init__(self, **state)

    def __repr__(self) -> str:
        return (
            f"Circuit(n_features={self.n_features}, n_nodes={self.n_nodes}, n_edges={self.n_edges})"
        )

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
