"""Expected kernels between circuits, rows and points, and of weighted sums of kernels at points."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc._threads import slices
from skpc.circuit import Circuit
from skpc.kernels import Kernel, KernelCircuit
from skpc.queries._conditionals import conditionals
from skpc.queries._kernel_sides import Points, Side, sides
from skpc.queries._triples import KernelEvaluator
from skpc.queries._triples import refuse_incompatible as refuse_incompatible  # for other rooms
from skpc.queries.passes.rows import check_rows, read_rows, refuse_unreadable
from skpc.queries.passes.upward import Evaluator

#: Points, and pairs of points, in one side of expected kernels.
_POINTS = 2048
_PAIRS = 4096
#: Rows whose Gram matrix with incomplete points is held at a time.
_ROWS = 256


def expected_kernel(p: Circuit, q: Any, kernel: Kernel) -> Any:
    """Expectation of a kernel between two circuits, or between a circuit and points.

    Parameters
    ----------
    p : Circuit
        The distribution of the first argument. It may be a conditional.
    q : Circuit, or array-like of shape (n_points, n_features)
        The distribution of the second argument, or its values as complete encoded rows.
    kernel : Kernel
        The kernel.

    Returns
    -------
    float, or ndarray of shape (n_points,)
        ``E k(x, x')`` with independent x of p and x' of q (eq. 1 of the paper), exact up to
        rounding.

    Raises
    ------
    IncompatibleError
        If two circuits split a scope in different ways; the message names the two nodes.
    TypeError
        If ``kernel`` is not a kernel.
    ValueError
        If a point is not complete or cannot be read, the kernel has a different number of columns,
        or too many cells with atoms are missing under one leaf (see Notes).

    Notes
    -----
    Two circuits take Algorithm 1 of [1]_ over pairs of nodes, ``O(|p| |q|)``; they must be
    compatible. Points take a pass over one circuit, which must only be smooth and decomposable.

    Numbers that have scores are compared by these. Under a block of numbers a Gaussian kernel has a
    closed form once it is known which cells hold atoms. So the expectation is a sum over all sets
    of missing cells that may hold atoms; sets of a probability below about 1e-12 are left out.

    References
    ----------
    .. [1] W. Li, Z. Zeng, A. Vergari, G. Van den Broeck. "Tractable Computation of Expected
       Kernels". UAI 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.kernels import RBF
    >>> from skpc.queries import expected_kernel
    >>> builder = CircuitBuilder(n_states=[0])
    >>> _ = builder.gaussian(0, mean=0.0, sd=1.0)
    >>> circuit = builder.build()
    >>> round(expected_kernel(circuit, circuit, RBF(0.5)), 3)
    0.577
    >>> expected_kernel(circuit, [[0.0], [3.0]], RBF(0.5)).round(3)
    array([0.707, 0.075])
    """
    _check_kernel(kernel)
    circuit = KernelCircuit(kernel, p.n_features)
    if not isinstance(q, Circuit):
        # Points keep their own cells, whatever the circuit has been conditioned on.
        points = read_rows(p, q)
        return _gram_at_points(Evaluator(p, size=1), _empty_row(p), points, circuit)[0]
    evaluate = KernelEvaluator(p, q, circuit)
    # A circuit is its conditional given a row without cells.
    both_sides = [
        Side(side, next(conditionals(Evaluator(side, size=1), _empty_row(side)))) for side in (p, q)
    ]
    return float(evaluate(*both_sides)[0, 0])


def _check_kernel(kernel: Any) -> None:
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"kernel must be a kernel of skpc.kernels, such as RBF(0.5), got {kernel!r}"
        )


def _empty_row(circuit: Circuit) -> Floats:
    """A row of missing cells, except for those that the circuit has been conditioned on."""
    return check_rows(circuit, np.full((1, circuit.n_features), np.nan))


def expected_gram(circuit: Circuit, X: Any, Y: Any, kernel: Kernel) -> Floats:
    """Expected kernels between the conditionals of a circuit given the observed cells of rows.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.
    Y : array-like of shape (n_others, n_features), or None
        Encoded rows. If all are complete, the circuit must only be smooth and decomposable; else it
        must be structured-decomposable too. None takes the rows of ``X``.
    kernel : Kernel
        The kernel.

    Returns
    -------
    ndarray of shape (n_rows, n_others)
        ``E k(x, x')`` with x and x' drawn independently from p(. | observed cells of a row of X)
        and of Y. Known cells do not change. With None, the diagonal too is an expectation over
        two independent completions of the row.

    Raises
    ------
    IncompatibleError
        If both sides have missing cells and the circuit is not structured-decomposable.
    TypeError
        If ``kernel`` is not a kernel.
    ValueError
        If the observed cells of a row have probability zero or cannot be read, or too many cells
        with atoms are missing under one leaf (see :func:`expected_kernel`).

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.kernels import Delta
    >>> from skpc.queries import expected_gram
    >>> builder = CircuitBuilder(n_states=[2, 2])
    >>> a = builder.product(
    ...     [builder.indicator(0, 0), builder.discrete(1, np.log([0.9, 0.1]))]
    ... )
    >>> b = builder.product(
    ...     [builder.indicator(0, 1), builder.discrete(1, np.log([0.4, 0.6]))]
    ... )
    >>> _ = builder.sum(
    ...     [a, b], np.log([0.5, 0.5]), decision_var=0, decision_state=[0, 1]
    ... )
    >>> rows = [[0.0, np.nan], [1.0, np.nan]]
    >>> expected_gram(builder.build(), rows, [[0.0, 1.0], [1.0, 1.0]], Delta())
    array([[0.1, 0. ],
           [0. , 0.6]])
    """
    _check_kernel(kernel)
    rows = check_rows(circuit, X)
    other_rows = rows if Y is None else check_rows(circuit, Y)
    evaluator = Evaluator(circuit)
    circuit_of_kernel = KernelCircuit(kernel, circuit.n_features)
    # Complete rows are points, for which the circuit need not be structured-decomposable.
    if not np.isnan(other_rows).any():
        return _gram_at_points(evaluator, rows, other_rows, circuit_of_kernel)
    if not np.isnan(rows).any():
        # A kernel is symmetric, so that the points may stand on the right.
        return _gram_at_points(evaluator, other_rows, rows, circuit_of_kernel).T
    return _gram_of_pairs(evaluator, rows, other_rows, circuit_of_kernel)


class KernelExpansion:
    """The function ``f(x) = sum_j a_j k(x, s_j)`` under the conditionals of a circuit.

    Parameters
    ----------
    circuit : Circuit
        The distribution of x.
    points : ndarray of shape (n_points, n_features)
        The encoded rows s_j. A row with missing cells stands for its conditional distribution: its
        kernel is then an expectation too.
    coefficients : ndarray of shape (n_points, n_outputs)
        The weights a_j of one or several such functions.
    kernel : Kernel
        The kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.kernels import Delta
    >>> from skpc.queries import KernelExpansion
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.5, 0.5]))
    >>> points, coefficients = np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]])
    >>> expansion = KernelExpansion(builder.build(), points, coefficients, Delta())
    >>> rows = [[1.0], [np.nan]]
    >>> expansion.mean(rows).T, expansion.variance(rows).T
    (array([[3., 2.]]), array([[0., 1.]]))
    """

    def __init__(self, circuit: Circuit, points: Floats, coefficients: Any, kernel: Kernel):
        self._circuit = circuit
        self._kernel = kernel
        self._points = points
        self._coefficients = coefficients
        self._complete = not np.isnan(points).any()
        circuit_of_kernel = KernelCircuit(kernel, circuit.n_features)
        # Products of products are one product: a sum is the root or a part of it.
        root = circuit_of_kernel.root
        self._is_product = not any(node.weights for node in (root, *root.parts))
        self._evaluate = KernelEvaluator(circuit, None, circuit_of_kernel)
        # Sides of complete points are made once, for all tables of rows.
        self._point_sides = _point_sides(circuit, points) if self._complete else []

    def __getstate__(self) -> dict[str, Any]:
        """The arguments of ``__init__``, from which all other attributes are made again."""
        return {
            "circuit": self._circuit,
            "points": self._points,
            "coefficients": self._coefficients,
            "kernel": self._kernel,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        KernelExpansion.__init__(self, **state)

    def __repr__(self) -> str:
        n_points, n_functions = self._coefficients.shape
        return f"KernelExpansion(n_points={n_points}, n_functions={n_functions}, {self._kernel!r})"

    def mean(self, X: Any) -> Floats:
        """Expectation of each function given the observed cells of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Encoded rows; NaN marks the missing cells.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
        """
        rows = check_rows(self._circuit, X)
        out = np.zeros((len(rows), self._coefficients.shape[1]))
        if not self._complete:
            for part in slices(len(rows), _ROWS):
                gram = expected_gram(self._circuit, rows[part], self._points, self._kernel)
                out[part] = gram @ self._coefficients
            return out
        for batch in conditionals(Evaluator(self._circuit), rows):
            for points in self._point_sides:
                for side in sides(self._circuit, batch, points):
                    values = self._evaluate(side, points)
                    out[side.position] += values @ self._coefficients[points.position]
        return out

    def variance(self, X: Any) -> Floats:
        """Variance of each function over the missing cells of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Encoded rows; NaN marks the missing cells.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            The rounding error is about 1e-16 of the square of the sum of the absolute coefficients.

        Raises
        ------
        ValueError
            If a point has missing cells, or the kernel holds a sum.

        Notes
        -----
        ``k(x, s) k(x, t)`` is again a product over the columns, so the second moment is a sum of
        expectations over all pairs of points. They are computed chunk by chunk. The time grows
        with the square of the number of points.
        """
        if not self._complete:
            raise ValueError(
                f"the variance needs complete points, but {int(np.isnan(self._points).sum())} of "
                "their cells are missing"
            )
        if not self._is_product:
            raise ValueError(
                "the variance needs a kernel that is a product of column kernels, but "
                f"{self._kernel!r} holds a sum"
            )
        rows = check_rows(self._circuit, X)
        second = np.zeros((len(rows), self._coefficients.shape[1]))
        # All pairs need the conditionals of all rows, which are kept.
        batches = list(conditionals(Evaluator(self._circuit), rows))
        for weight, pairs in self._pairs():
            for batch in batches:
                for side in sides(self._circuit, batch, pairs):
                    second[side.position] += self._evaluate(side, pairs) @ weight
        # Rounding must not leave a negative variance.
        return np.maximum(second - self.mean(rows) ** 2, 0.0)

    def _pairs(self) -> Iterator[tuple[Floats, Points]]:
        """All pairs of points as sides, with the weights of their second moments.

        Weights have shape (n_pairs, n_outputs).
        """
        # The second moment is symmetric in the points, so that half of the pairs are enough.
        left_points, right_points = np.triu_indices(len(self._points))
        for part in slices(len(left_points), _PAIRS):
            i = left_points[part]
            j = right_points[part]
            pairs = np.stack([self._points[i], self._points[j]], axis=2)
            # A pair off the diagonal counts twice.
            twice = np.where(i == j, 1.0, 2.0)[:, np.newaxis]
            weight = twice * self._coefficients[i] * self._coefficients[j]
            # Two pairs have the same pattern whichever of their cells comes first.
            yield weight, Points(self._circuit, np.sort(pairs, axis=2))


def _point_sides(circuit: Circuit, points: Floats) -> list[Points]:
    """Complete rows as sides of expected kernels, some rows in each."""
    # (n_points, n_features, 1): the last axis has two cells for pairs.
    parts = slices(len(points), _POINTS)
    return [Points(circuit, points[part, :, np.newaxis], part) for part in parts]


def _gram_at_points(
    evaluator: Evaluator, rows: Floats, points: Floats, kernel: KernelCircuit
) -> Floats:
    """Expected kernels between conditionals given rows and points, shape (n_rows, n_points)."""
    circuit = evaluator.circuit
    refuse_unreadable(circuit.columns, points)
    evaluate = KernelEvaluator(circuit, None, kernel)
    right_sides = _point_sides(circuit, points)
    gram = np.empty((len(rows), len(points)))
    for batch in conditionals(evaluator, rows):
        for right in right_sides:
            for left in sides(circuit, batch, right):
                gram[left.position, right.position] = evaluate(left, right)
    return gram


def _gram_of_pairs(
    evaluator: Evaluator, rows: Floats, other_rows: Floats, kernel: KernelCircuit
) -> Floats:
    """Expected kernels between conditionals given rows, shape (n_rows, n_others)."""
    evaluate = KernelEvaluator(evaluator.circuit, evaluator.circuit, kernel)

    def all_sides(table: Floats) -> list[Side]:
        batches = conditionals(evaluator, table)
        # A list, as each side is paired with all sides of the other table.
        return [side for batch in batches for side in sides(evaluator.circuit, batch)]

    # One table on both sides has a symmetric matrix: half of it is enough.
    is_symmetric = other_rows is rows
    left_sides = all_sides(rows)
    right_sides = left_sides if is_symmetric else all_sides(other_rows)
    gram = np.empty((len(rows), len(other_rows)))
    for number, left in enumerate(left_sides):
        # Earlier sides on the right have been paired with this one already.
        for right in right_sides[number if is_symmetric else 0 :]:
            values = evaluate(left, right)
            if left is right:
                # Rounding has left the matrix slightly asymmetric.
                values = np.triu(values) + np.triu(values, 1).T
            gram[np.ix_(left.position, right.position)] = values
            if is_symmetric:
                gram[np.ix_(right.position, left.position)] = values.T
    return gram
