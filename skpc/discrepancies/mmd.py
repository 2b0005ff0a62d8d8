"""Squared maximum mean discrepancy between circuits and samples."""

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc._cells import rows_of_numbers
from skpc.circuit import Circuit
from skpc.kernels import Kernel
from skpc.queries import expected_kernel
from skpc.queries.passes.rows import kernel_rows


def mmd2(p: Any, q: Any, kernel: Kernel, *, unbiased: bool = True) -> float:
    """Squared maximum mean discrepancy, exact on the side of a circuit.

    Parameters
    ----------
    p, q : Circuit, or array-like of shape (n_rows, n_features)
        The distributions: circuits, or samples of complete encoded rows. A circuit must be
        structured-decomposable, because the first term compares it with itself. For any other
        circuit, pass rows drawn from it.
    kernel : Kernel
        The kernel.
    unbiased : bool, default=True
        Whether the mean kernel within a sample leaves out the pairs of a row with itself. True
        gives the U-statistic: its expectation is the discrepancy of the distribution behind the
        sample. False counts these pairs: the distance from the sample itself, never negative. For
        circuits it makes no difference.

    Returns
    -------
    float
        ``E k(x, x') + E k(y, y') - 2 E k(x, y)`` with x, x' of p and y, y' of q. Numbers are
        compared by their scores if a circuit has scores. The result is not clipped:
        the rounding error between equal circuits is about 1e-16, of either sign, and an unbiased
        estimate may be negative.

    Raises
    ------
    IncompatibleError
        If two circuits split a scope in different ways, or a circuit is not
        structured-decomposable.
    ValueError
        If a sample of one row is too small for an unbiased estimate, rows are not complete, or a
        side is neither a circuit nor numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.discrepancies import mmd2
    >>> from skpc.kernels import Delta
    >>> def coin(heads):
    ...     builder = CircuitBuilder(n_states=[2])
    ...     _ = builder.discrete(0, np.log([1 - heads, heads]))
    ...     return builder.build()
    >>> round(mmd2(coin(0.5), coin(0.75), Delta()), 3)
    0.125
    >>> round(mmd2(coin(0.5), [[0.0], [1.0]], Delta(), unbiased=False), 3)
    0.0
    """
    p, q = (
        side if isinstance(side, Circuit) else rows_of_numbers(side, name=name)
        for side, name in ((p, "p"), (q, "q"))
    )
    between = _mean_between(p, q, kernel)
    # Within a sample, too, numbers are compared by their scores if the circuit has scores.
    if isinstance(p, Circuit) and not isinstance(q, Circuit):
        q = kernel_rows(p, q)
    elif isinstance(q, Circuit) and not isinstance(p, Circuit):
        p = kernel_rows(q, p)
    within = _mean_within(p, kernel, unbiased) + _mean_within(q, kernel, unbiased)
    return within - 2.0 * between


def _mean_within(side: Circuit | Floats, kernel: Kernel, unbiased: bool) -> float:
    if isinstance(side, Circuit):
        return float(expected_kernel(side, side, kernel))
    return mean_of_pairs(kernel(side), unbiased)


def mean_of_pairs(gram: Floats, unbiased: bool) -> float:
    """The mean of a Gram matrix, the pairs of a row with itself left out if unbiased."""
    if not unbiased:
        return float(gram.mean())
    n_rows = len(gram)
    if n_rows < 2:
        raise ValueError(
            f"an unbiased estimate needs a sample of two or more rows, got {n_rows}; "
            "unbiased=False takes the row for the whole distribution"
        )
    total = gram.sum() - np.trace(gram)
    return float(total / (n_rows * (n_rows - 1)))


def _mean_between(p: Circuit | Floats, q: Circuit | Floats, kernel: Kernel) -> float:
    # The kernel is symmetric: a circuit, if there is one, comes first.
    if not isinstance(p, Circuit):
        p, q = q, p
    if isinstance(p, Circuit):
        return float(np.mean(expected_kernel(p, q, kernel)))
    return float(np.mean(kernel(q, p)))
