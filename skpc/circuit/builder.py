"""Building circuits node by node; every circuit is checked once, when it is built."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats, Ints, offsets
from skpc.circuit._checks import KIND_NAMES, check_parameters, check_structure
from skpc.circuit._circuit import Circuit
from skpc.circuit._structure import LEAF, PRODUCT, SUM, Structure
from skpc.exceptions import StructureError
from skpc.variables import (
    BLOCK,
    CATEGORICAL,
    GAUSSIAN,
    HISTOGRAM,
    POISSON,
    SCORED,
    Histogram,
    HistogramTable,
    Law,
)
from skpc.variables.checks import TOLERANCE, check_formula, check_gaussians, check_variable
from skpc.variables.families import FAMILIES


class _Node(NamedTuple):
    """A node as it was added; fields of other kinds of nodes keep their defaults."""

    kind: int
    children: Sequence[int] = ()
    log_weight: Any = ()
    decision_var: int = -1
    decision_state: Sequence[int] = ()
    scope: Sequence[int] = ()
    family: int = -1
    params: Any = ()


class CircuitBuilder:
    """Build a circuit from the leaves up.

    Every method adds one node and returns its number. Add children before their parents. The node
    that is added last is the root.

    Parameters
    ----------
    n_states : sequence of int of shape (n_features,)
        Number of states of each variable; 0 for a numeric variable.
    axes : sequence, default=None
        One entry for each variable: None; a :class:`skpc.variables.Histogram` (or the
        tuple ``(edges, lower_scale, upper_scale)``, whose states are the lower tail, the bins
        ``[edges[i], edges[i + 1])`` and the upper tail); or a
        :class:`skpc.variables.Law`. The variable has as many states as its axis.

    Raises
    ------
    ValueError
        If an axis is not increasing and finite, or does not match the number of states.

    Examples
    --------
    A mixture of two Gaussians:

    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> builder = CircuitBuilder(n_states=[0])
    >>> low = builder.gaussian(0, mean=-1.0, sd=1.0)
    >>> high = builder.gaussian(0, mean=3.0, sd=0.5)
    >>> _ = builder.sum([low, high], np.log([0.3, 0.7]))
    >>> builder.build()
    Circuit(n_features=1, n_nodes=3, n_edges=2)
    """

    def __init__(self, n_states: Sequence[int] | np.ndarray, axes: Sequence[Any] | None = None):
        #: Number of states of each variable, and its axis or None.
        self.n_states = [int(count) for count in n_states]
        # Without axes, variables are categories, or plain numbers where they have no states.
        given = [None] * len(self.n_states) if axes is None else axes
        # An axis that is no law may be given as the arguments of a Histogram.
        self.axes = [
            axis if axis is None or isinstance(axis, Law) else Histogram(*axis) for axis in given
        ]
        if len(self.axes) != len(self.n_states):
            raise ValueError(
                f"axes needs one entry for each of the {len(self.n_states)} variables, "
                f"got {len(self.axes)}"
            )
        for var, (count, axis) in enumerate(zip(self.n_states, self.axes)):
            check_variable(var, count, axis)
        self._nodes: list[_Node] = []
        # Indicators are asked for often and hold the same numbers: one array serves all.
        self._indicators: dict[tuple[int, int], np.ndarray] = {}

    def __repr__(self) -> str:
        return f"CircuitBuilder(n_features={len(self.n_states)}, n_nodes={len(self._nodes)})"

    def discrete(self, var: int, log_prob: Any) -> int:
        """Add a leaf over the states of a variable.

        It is a histogram if the variable has an axis, otherwise a categorical leaf.

        Parameters
        ----------
        var : int
            The variable.
        log_prob : array-like of shape (n_states[var],)
            Log probability (nats) of each state or bin; -inf for an impossible one.

        Returns
        -------
        int
            Number of the new node.
        """
        family = self.discrete_family(var)
        param = _log_probs(var, log_prob, self.n_states[var])
        return self._add_leaf((var,), family, param)

    def indicator(self, var: int, state: int) -> int:
        """Add a discrete leaf with all its mass on one state.

        Parameters
        ----------
        var, state : int
            The variable and its state (or bin).

        Returns
        -------
        int
            Number of the new node.
        """
        family = self.discrete_family(var)
        # An array in the dictionary has been checked.
        log_prob = self._indicators.get((var, state))
        if log_prob is None:
            if not 0 <= state < self.n_states[var]:
                raise ValueError(
                    f"variable {var} has states 0..{self.n_states[var] - 1}, got state {state}"
                )
            log_prob = np.full(self.n_states[var], -np.inf)
            log_prob[state] = 0.0
            self._indicators[var, state] = log_prob
        return self._add_leaf((var,), family, log_prob)

    def gaussian(self, var: int, mean: float, sd: float) -> int:
        """Add a Gaussian leaf.

        Parameters
        ----------
        var : int
            A numeric variable without an axis.
        mean, sd : float
            Mean and standard deviation, in the units of the variable; ``sd`` is positive.

        Returns
        -------
        int
            Number of the new node.
        """
        self._check_variable(var, GAUSSIAN)
        check_formula(GAUSSIAN, (mean, sd))
        return self._add_leaf((var,), GAUSSIAN, np.array([mean, sd], dtype=np.float64))

    def poisson(self, var: int, rate: float) -> int:
        """Add a Poisson leaf, for a variable of counts.

        Parameters
        ----------
        var : int
            A numeric variable without an axis; its cells are 0, 1, 2, ...
        rate : float
            The mean, at most 1e6.

        Returns
        -------
        int
            Number of the new node.
        """
        self._check_variable(var, POISSON)
        check_formula(POISSON, (rate,))
        return self._add_leaf((var,), POISSON, np.array([float(rate)]))

    def scored(self, var: int, log_prob: Any, mean: float, sd: float) -> int:
        """Add a leaf of atoms, and a Gaussian of the score for all other values.

        Parameters
        ----------
        var : int
            A variable whose axis is a :class:`skpc.variables.Law`.
        log_prob : array-like of shape (n_states[var],)
            Log probability (nats) of each atom, and of all other values together.
        mean, sd : float
            Mean and standard deviation of the scores of the other values; ``sd`` is positive.

        Returns
        -------
        int
            Number of the new node.
        """
        self._check_variable(var, SCORED)
        log_prob = _log_probs(var, log_prob, self.n_states[var])
        check_formula(SCORED, (mean, sd))
        param = np.append(log_prob, [mean, sd])
        return self._add_leaf((var,), SCORED, param)

    def block(
        self, variables: Sequence[int], log_probs: Sequence[Any], mean: Any, covariance: Any
    ) -> int:
        """Add a leaf of several variables: atoms of each, and one Gaussian of all other scores.

        Parameters
        ----------
        variables : sequence of int of shape (n_columns,)
            Variables whose axes are :class:`skpc.variables.Law`, in increasing order.
        log_probs : sequence of array-like
            For each of them the log probabilities (nats) of its atoms, and of all other values.
        mean, covariance : array-like of shape (n_columns,) and (n_columns, n_columns)
            Moments of the scores of the other values, with a positive definite covariance. Cells
            that hold atoms have no score, and are integrated out.

        Returns
        -------
        int
            Number of the new node.
        """
        scope = [int(var) for var in variables]
        if not scope or scope != sorted(set(scope)) or len(log_probs) != len(scope):
            raise ValueError(
                "a block leaf needs increasing variables and log probabilities for each of them, "
                f"got {scope} and {len(log_probs)} arrays"
            )
        states = []
        for var, log_prob in zip(scope, log_probs):
            self._check_variable(var, BLOCK)
            states.append(_log_probs(var, log_prob, self.n_states[var]))
        mean = np.array(mean, dtype=np.float64)
        covariance = np.array(covariance, dtype=np.float64)
        d = len(scope)
        if mean.shape != (d,) or covariance.shape != (d, d):
            raise ValueError(
                f"a block of {d} variables needs a mean of shape ({d},) and a covariance of shape "
                f"({d}, {d}), got {mean.shape} and {covariance.shape}"
            )
        check_gaussians(scope, mean[np.newaxis], covariance[np.newaxis])
        # The parameters of a block: atoms column by column, the mean, the covariance by rows.
        return self._add_leaf(
            tuple(scope), BLOCK, np.concatenate([*states, mean, covariance.ravel()])
        )

    def product(self, children: Sequence[int]) -> int:
        """Add a product of nodes with disjoint scopes.

        Parameters
        ----------
        children : sequence of int
            Numbers of the children.

        Returns
        -------
        int
            Number of the new node.
        """
        n = len(children)
        # The edges of a product weigh nothing and decide nothing.
        return self._add_inner(_Node(PRODUCT, tuple(children), (0.0,) * n, -1, (-1,) * n))

    def sum(
        self,
        children: Sequence[int],
        log_weight: Any,
        decision_var: int = -1,
        decision_state: Sequence[int] | None = None,
    ) -> int:
        """Add a weighted sum of nodes with the same scope.

        Parameters
        ----------
        children : sequence of int
            Numbers of the children.
        log_weight : array-like of shape (n_children,)
            Log weights (nats); their exponentials sum to one.
        decision_var : int, default=-1
            The variable whose state decides which child is positive; -1 for a plain mixture.
        decision_state : sequence of int of shape (n_children,), default=None
            With ``decision_var``, the state of each child. The child must be, or be a product
            that contains, an indicator leaf of that state.

        Returns
        -------
        int
            Number of the new node.
        """
        log_weight = np.asarray(log_weight, dtype=np.float64)
        node = len(self._nodes)
        if log_weight.shape != (len(children),):
            raise ValueError(
                f"sum {node} needs one log weight for each of its {len(children)} children, "
                f"got shape {log_weight.shape}"
            )
        if decision_var < 0:
            decision_state = (-1,) * len(children)
        else:
            self._check_exists(decision_var)
        if decision_state is None or len(decision_state) != len(children):
            raise ValueError(
                f"sum {node} decides on variable {decision_var} and needs one decision_state for "
                f"each of its {len(children)} children, got {decision_state}"
            )
        return self._add_inner(
            _Node(SUM, tuple(children), log_weight, decision_var, decision_state)
        )

    def build(self) -> Circuit:
        """Make a circuit of all nodes; the last node is its root.

        Returns
        -------
        Circuit
            A smooth and decomposable circuit.

        Raises
        ------
        StructureError
            If a sum is not smooth, a product is not decomposable, the children of a deciding sum do
            not exclude each other, the root does not describe every variable, or a node cannot be
            reached from the root. The message names the node and the scopes.
        ValueError
            If the weights of a sum do not add up to one.
        """
        if not self._nodes:
            raise StructureError("a circuit needs at least one node, none has been added")
        # One list for each field, node by node; the structure wants them end to end.
        kind, children, log_weight, var, state, scope, family, params = zip(*self._nodes)
        axis_ptr, axis = HistogramTable.from_axes(self.axes)
        structure = Structure(
            kind=kind,
            child_ptr=_offsets(children),
            child=joined(children),
            scope_ptr=_offsets(scope),
            scope=joined(scope),
            leaf_family=family,
            param_ptr=_offsets(params),
            decision_var=var,
            decision_state=joined(state),
            n_states=self.n_states,
            axis_ptr=axis_ptr,
            axis=axis,
        )
        return checked_circuit(structure, joined(log_weight), joined(params))

    def _add_leaf(self, scope: Sequence[int], family: int, params: Floats) -> int:
        """Add a leaf that has been checked, and return its number."""
        self._nodes.append(_Node(LEAF, scope=scope, family=family, params=params))
        return len(self._nodes) - 1

    def _add_inner(self, new: _Node) -> int:
        """Add a sum or a product above existing nodes, and return its number."""
        node = len(self._nodes)
        children = new.children
        if not children:
            raise StructureError(
                f"{KIND_NAMES[new.kind]} {node} needs at least one child, got none"
            )
        # A node can only be added above nodes that are there, so that circles cannot be built.
        if min(children) < 0 or max(children) >= node:
            raise StructureError(
                f"{KIND_NAMES[new.kind]} {node} needs children among the nodes 0..{node - 1} that "
                f"were added before it, got {list(children)}"
            )
        self._nodes.append(new)
        return node

    def _check_exists(self, var: int) -> None:
        """Refuse the number of no variable."""
        if not 0 <= var < len(self.n_states):
            raise ValueError(f"the variables are 0..{len(self.n_states) - 1}, got {var}")

    def _check_variable(self, var: int, family: int) -> None:
        """Refuse a variable that does not suit a leaf of a family."""
        self._check_exists(var)
        axis = self.axes[var]
        if axis is None:
            suitable = CATEGORICAL if self.n_states[var] else GAUSSIAN
        else:
            suitable = SCORED if isinstance(axis, Law) else HISTOGRAM
        needed = FAMILIES[family].variable
        actual = FAMILIES[suitable].variable
        # Several families may suit a kind of variable, such as plain numbers: any of them will do.
        if needed != actual:
            count = f"{self.n_states[var]} " if suitable == CATEGORICAL else ""
            raise ValueError(
                f"a {FAMILIES[family].name} leaf needs a variable with {needed}, but variable "
                f"{var} has {count}{actual}: it takes {FAMILIES[suitable].name} leaves"
            )

    def discrete_family(self, var: int) -> int:
        """The family of the leaves over the states of a variable.

        Parameters
        ----------
        var : int
            A variable with states, or with a histogram axis.
        """
        self._check_exists(var)
        family = CATEGORICAL if self.axes[var] is None else HISTOGRAM
        self._check_variable(var, family)
        return family


def checked_circuit(structure: Structure, log_weight: Floats, param: Floats) -> Circuit:
    """A circuit, once its structure and its parameters have been checked."""
    check_structure(structure)
    circuit = Circuit(structure, log_weight, param)
    check_parameters(circuit)
    return circuit


def _log_probs(var: int, given: Any, n_states: int) -> Floats:
    """Log probabilities of a leaf of a variable; refuse those that do not fit it."""
    log_prob = np.asarray(given, dtype=np.float64)
    if log_prob.shape != (n_states,):
        raise ValueError(
            f"a leaf of variable {var} needs {n_states} log probabilities, "
            f"got shape {log_prob.shape}"
        )
    total = np.exp(log_prob).sum()
    # The comparison is turned round so that NaN is refused, too.
    if not abs(total - 1.0) <= TOLERANCE:
        raise ValueError(
            f"the probabilities of a leaf of variable {var} must sum to 1, got {total:.9g}"
        )
    return log_prob


def _offsets(lists: Sequence[Any]) -> Ints:
    """Where each list begins once all are end to end."""
    return offsets([len(entry) for entry in lists])


def joined(lists: Sequence[Any]) -> Floats:
    """Lists of numbers end to end; arrays of a structure get their types there."""
    # An empty array comes first, as numpy cannot join an empty list.
    return np.concatenate([np.empty(0), *(x for x in lists if len(x))])
