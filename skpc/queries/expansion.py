"""What is the expected value of a weighted sum of kernels, and how uncertain is it?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.kernels import Kernel, leaf_second_moments
from skpc.queries._at_points import Patterns, expected_at_points, gram_parts, laid_out, patterns_of
from skpc.queries._conditionals import Conditionals, conditionals
from skpc.queries.expectation import expected_gram
from skpc.queries.passes.evaluator import Evaluator
from skpc.queries.passes.rows import check_rows
from skpc.variables.leaf_queries import kernel_cells

#: Pairs of points that are laid out at a time.
_PAIRS = 4096
#: Rows whose Gram matrix with incomplete points is held at a time.
_ROWS = 256


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
        A single product of column kernels of weight one.

    Raises
    ------
    ValueError
        If the kernel is a sum of several products.

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
        self._circuit, self._kernel = circuit, kernel
        self._points, self._coefficients = points, coefficients
        self._complete = not np.isnan(points).any()
        terms = kernel.terms(circuit.n_features)
        if len(terms) > 1:
            raise ValueError(
                "a KernelExpansion needs a single product of column kernels, got a sum of "
                f"{len(terms)}"
            )
        self._factors = terms[0][1]
        self._laid = laid_out(circuit, points, self._factors) if self._complete else []

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
            for start in range(0, len(rows), _ROWS):
                some = rows[start : start + _ROWS]
                gram = expected_gram(self._circuit, some, self._points, self._kernel)
                out[start : start + _ROWS] = gram @ self._coefficients
            return out
        for given in conditionals(Evaluator(self._circuit), rows):
            for part, gram in gram_parts(self._circuit, given, self._laid, self._factors):
                out[given.position] += gram @ self._coefficients[part]
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
            If a point has missing cells.

        Notes
        -----
        ``k(x, s) k(x, t)`` is again a product over the columns, so the second moment is a sum of
        expectations over all pairs of points. They are computed block by block. The time grows
        with the square of the number of points.
        """
        if not self._complete:
            raise ValueError(
                f"the variance needs complete points, but {int(np.isnan(self._points).sum())} of "
                "their cells are missing"
            )
        rows = check_rows(self._circuit, X)
        second = np.zeros((len(rows), self._coefficients.shape[1]))
        blocks = list(conditionals(Evaluator(self._circuit), rows))
        for weight, patterns in self._pairs():
            for given in blocks:
                second[given.position] += self._second_moments(given, patterns) @ weight
        return np.asarray(second - self.mean(rows) ** 2)

    def _pairs(self) -> Iterator[tuple[np.ndarray, Patterns]]:
        """All pairs of points, with the weight of each pattern of their second moments."""
        first, second = np.triu_indices(len(self._points))
        for start in range(0, len(first), _PAIRS):
            i, j = first[start : start + _PAIRS], second[start : start + _PAIRS]
            pairs = np.stack([self._points[i], self._points[j]], axis=2)
            # The two cells may change places in each column: more pairs then have one pattern.
            patterns = patterns_of(
                self._circuit, np.sort(pairs, axis=2), self._factors, self._leaf_moments
            )
            twice = np.where(i == j, 1.0, 2.0)[:, np.newaxis]
            weight = np.zeros((patterns.width[-1], self._coefficients.shape[1]))
            np.add.at(weight, patterns.root, twice * self._coefficients[i] * self._coefficients[j])
            yield weight, patterns

    def _leaf_moments(self, var: int, cells: Floats) -> Floats:
        leaves = self._circuit.leaf_forms(var)
        cells = kernel_cells(self._circuit.columns, var, cells)
        return leaf_second_moments(self._factors[var], leaves, cells[:, 0], cells[:, 1])

    def _second_moments(self, given: Conditionals, patterns: Patterns) -> Floats:
        columns = self._circuit.columns

        def cell_values(var: int, cells: Floats) -> Floats:
            cells, points = (
                kernel_cells(columns, var, part) for part in (cells, patterns.cells[var])
            )
            values = self._factors[var].of_points(cells[:, np.newaxis, np.newaxis], points)
            return np.asarray(values.prod(axis=2))

        return expected_at_points(self._circuit, given, patterns, self._factors, cell_values)
