"""What is the expected value of a kernel?"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.kernels import ColumnKernel, Kernel
from skpc.queries._at_points import gram_parts, laid_out
from skpc.queries._conditionals import conditionals
from skpc.queries._pairs import PairEvaluator
from skpc.queries.passes.evaluator import Evaluator
from skpc.queries.passes.rows import check_rows, read_rows, refuse_unreadable


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
        If ``kernel`` is none.
    ValueError
        If a point is not complete or cannot be read, the kernel has a different number of columns,
        or too many cells with atoms are missing in a block (see Notes).

    Notes
    -----
    Two circuits take Algorithm 1 of [1]_ over pairs of nodes, ``O(|p| |q|)``; they must be
    compatible. Points take a pass over one circuit, which must only be smooth and decomposable.

    Kernels compare numbers of blocks and of scored leaves by their scores. Under a block a Gaussian
    kernel has a closed form once it is known which cells hold atoms. So the expectation is a sum
    over all sets of missing cells that may hold atoms; sets of a probability below about 1e-12 are
    left out.

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
    if not isinstance(q, Circuit):
        points, evaluator = read_rows(p, q), Evaluator(p, size=1)
        parts = [
            weight * _gram_at_points(evaluator, _empty_row(p), points, factors)[0]
            for weight, factors in kernel.terms(p.n_features)
        ]
        return np.sum(parts, axis=0)
    evaluators = [PairEvaluator(p, q, factors) for _, factors in kernel.terms(p.n_features)]
    left, right = (next(conditionals(Evaluator(c, size=1), _empty_row(c))) for c in (p, q))
    weights = [weight for weight, _ in kernel.terms(p.n_features)]
    return float(weights @ np.array([evaluate(left, right)[0, 0] for evaluate in evaluators]))


def _check_kernel(kernel: Any) -> None:
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"kernel must be a kernel of skpc.kernels, such as RBF(0.5), got {kernel!r}"
        )


def _empty_row(circuit: Circuit) -> Floats:
    """A row without any cell but those that the circuit has been conditioned on."""
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
        If ``kernel`` is none.
    ValueError
        If the observed cells of a row have probability zero or cannot be read, or too many cells
        with atoms are missing in a block (see :func:`expected_kernel`).

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.kernels import Delta
    >>> from skpc.queries import expected_gram
    >>> builder = CircuitBuilder(n_states=[2, 2])
    >>> a = builder.product([builder.indicator(0, 0), builder.discrete(1, np.log([0.9, 0.1]))])
    >>> b = builder.product([builder.indicator(0, 1), builder.discrete(1, np.log([0.4, 0.6]))])
    >>> _ = builder.sum([a, b], np.log([0.5, 0.5]), decision_var=0, decision_state=[0, 1])
    >>> rows = [[0.0, np.nan], [1.0, np.nan]]
    >>> expected_gram(builder.build(), rows, [[0.0, 1.0], [1.0, 1.0]], Delta())
    array([[0.1, 0. ],
           [0. , 0.6]])
    """
    _check_kernel(kernel)
    rows = check_rows(circuit, X)
    others = rows if Y is None else check_rows(circuit, Y)
    evaluator = Evaluator(circuit)
    gram = np.zeros((len(rows), len(others)))
    for weight, factors in kernel.terms(circuit.n_features):
        if not np.isnan(others).any():
            gram += weight * _gram_at_points(evaluator, rows, others, factors)
        elif not np.isnan(rows).any():
            gram += weight * _gram_at_points(evaluator, others, rows, factors).T
        else:
            gram += weight * _gram_of_pairs(evaluator, rows, None if Y is None else others, factors)
    return gram


def _gram_at_points(
    evaluator: Evaluator, rows: Floats, points: Floats, factors: tuple[ColumnKernel, ...]
) -> Floats:
    circuit = evaluator.circuit
    refuse_unreadable(circuit.columns, points)
    laid = laid_out(circuit, points, factors)
    gram = np.empty((len(rows), len(points)))
    for given in conditionals(evaluator, rows):
        for part, values in gram_parts(circuit, given, laid, factors):
            gram[np.ix_(given.position, part)] = values
    return gram


def _gram_of_pairs(
    evaluator: Evaluator,
    rows: Floats,
    others: Floats | None,
    factors: tuple[ColumnKernel, ...],
) -> Floats:
    evaluate = PairEvaluator(evaluator.circuit, evaluator.circuit, factors)
    left = list(conditionals(evaluator, rows))
    right = left if others is None else list(conditionals(evaluator, others))
    gram = np.empty((len(rows), len(rows if others is None else others)))
    for place, given in enumerate(left):
        for other in right[place if others is None else 0 :]:
            found = evaluate(given, other, upper=given is other)
            if given is other:
                found += np.triu(found, 1).T
            gram[np.ix_(given.position, other.position)] = found
            if others is None:
                gram[np.ix_(other.position, given.position)] = found.T
    return gram
