"""Kernelised discrete Stein discrepancy of circuits and samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc.circuit import Circuit
from skpc.discrepancies._quotient import neighbour_measure, refuse_zeros, stepped
from skpc.discrepancies.mmd import mean_of_pairs
from skpc.discrepancies.stein import check_kernel, check_stein_operator, discrete_states, stein_gram
from skpc.exceptions import StructureError
from skpc.factor_graphs import FactorGraph
from skpc.kernels import Kernel
from skpc.queries import expected_kernel
from skpc.queries.expectation import refuse_incompatible


def kdsd(
    q: Any,
    p: FactorGraph | Circuit,
    kernel: Kernel | None = None,
    *,
    stein_operator: str = "ratio",
    unbiased: bool = True,
) -> float:
    """Squared kernelised discrete Stein discrepancy of q to p.

    It is :math:`\\mathrm{E}\\, k_p(x, x')` with independent x and x' of q and the Stein kernel of
    :func:`stein_gram` (equation 6 of the paper): zero if and only if q equals p, if the kernel is
    strictly positive definite and both are positive everywhere. Unlike :func:`mmd2`, it needs only
    ratios of probabilities of p, so the constant of p need not be known.

    Parameters
    ----------
    q : Circuit, or array-like of shape (n_samples, n_variables)
        A circuit compatible with p, or samples; cells that are NaN are collapsed
        (:func:`stein_gram`).
    p : Circuit or FactorGraph
        The distribution that q is compared with, positive everywhere. If q is a circuit, p must be
        a deterministic circuit (corollary 4.7).
    kernel : Kernel, default=None
        The base kernel; None is ``ExponentialHamming(1 / n_variables)``.
    stein_operator : {"ratio", "barker"}, default="ratio"
        The Stein operator. Between circuits only "ratio" is tractable: "barker" would divide by
        sums of probabilities, which are not deterministic.
    unbiased : bool, default=True
        For samples: the U-statistic, which leaves out the pairs of a sample with itself and may be
        negative. False counts them: the V-statistic.

    Returns
    -------
    float
        The squared discrepancy. It is not clipped: the rounding error between equal circuits is
        about 1e-16, of either sign.

    Raises
    ------
    IncompatibleError
        If two circuits split a scope in different ways.
    StructureError
        If a circuit p is not deterministic although q is a circuit.
    ValueError
        If p has a state of probability zero (for samples: if a neighbour of a sample has), which
        the message names; if one sample is too few for an unbiased estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.discrepancies import kdsd
    >>> from skpc.factor_graphs import FactorGraph, compile
    >>> weak, strong = (FactorGraph.ising_grid(2, 2, coupling=c) for c in (0.1, 0.3))
    >>> round(kdsd(compile(weak), compile(strong)), 3)
    0.193
    >>> abs(kdsd(compile(weak), compile(weak))) < 1e-14
    True
    >>> samples = np.random.default_rng(0).integers(0, 2, size=(500, 4))  # of no coupling
    >>> round(kdsd(samples, weak), 3), round(kdsd(samples, strong), 3)
    (0.018, 0.627)
    """
    check_stein_operator(stein_operator)
    if isinstance(q, Circuit):
        return _between_circuits(q, p, kernel, stein_operator)
    return mean_of_pairs(stein_gram(q, p, kernel, stein_operator=stein_operator), unbiased)


def _between_circuits(q: Circuit, p: Any, kernel: Kernel | None, stein_operator: str) -> float:
    if not isinstance(p, Circuit):
        raise TypeError(
            f"a circuit q needs a circuit p, got {type(p).__name__}; compile a factor graph"
        )
    if stein_operator != "ratio":
        raise ValueError(
            f"between circuits stein_operator must be 'ratio', got {stein_operator!r}; draw "
            "samples of q"
        )
    n_variables = len(discrete_states(p))
    discrete_states(q)
    refuse_incompatible(q, p)
    if not p.deterministic:
        raise StructureError(
            "p must be deterministic to be divided by, but it has a sum that decides on no "
            "variable; compare samples of q instead"
        )
    refuse_zeros(p)
    base = check_kernel(kernel, n_variables)
    total = 0.0
    for variable in range(n_variables):
        moved = stepped(q, variable)
        kept, log_mass = neighbour_measure(q, p, variable)
        mass = np.exp(log_mass)
        within = expected_kernel(moved, moved, base)
        within += mass * mass * expected_kernel(kept, kept, base)
        total += within - 2.0 * mass * expected_kernel(moved, kept, base)
    return float(total)
