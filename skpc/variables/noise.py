"""Rows whose cells may be wrong: each is as the model says, or comes from somewhere else."""

from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Floats


class NoisyCells(NamedTuple):
    """Encoded rows, in which each cell may be an error, whatever the other cells are.

    A leaf of variable ``v`` has the value ``(1 - e_v) p(x_v | leaf) + e_v m_v(x_v)`` in place of
    ``p(x_v | leaf)``: cells are wrong with probability ``e_v``, and a wrong one has the density
    ``m_v``. So a pass sums over all sets of wrong cells.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        NaN where missing.
    log_right : ndarray of shape (n_features,)
        ``log(1 - e_v)``.
    log_wrong : ndarray of shape (n_rows, n_features)
        ``log(e_v) + log m_v(x_v)``, with respect to the measure of the circuit.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import NoisyCells, log_likelihood
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.9, 0.1]))
    >>> noisy = NoisyCells(np.array([[1.0]]), np.log([0.8]), np.log([[0.2 * 0.5]]))
    >>> np.exp(log_likelihood(builder.build(), noisy)).round(2)
    array([0.18])
    """

    rows: Floats
    log_right: Floats
    log_wrong: Floats

    def take(self, index: Any) -> Self:
        """Some of the rows, by numbers or a mask."""
        return type(self)(self.rows[index], self.log_right, self.log_wrong[index])

    def probabilities(self, log_cells: Floats, size: Floats) -> Floats:
        """Probability that each cell differs from the true value, given its row.

        Parameters
        ----------
        log_cells : ndarray of shape (n_rows, n_features)
            Log density of each of these cells given the others; NaN where missing.
        size : ndarray of shape (n_rows, n_features)
            What turns a density into the probability of the very value seen: one where values have
            probabilities, the step of a lattice, zero where no value has one.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            NaN where missing.

        Notes
        -----
        A density is linear in the leaves of one variable, so that ``p(x_v | rest) = (1 - e) q + e
        m(x_v)``, with ``q`` the density of the true value at ``x_v`` given the rest. The second
        term is that of an error, which hits the true value with the probability of that.
        """
        drawn = np.exp(np.minimum(self.log_wrong - log_cells, 0.0))
        with np.errstate(divide="ignore"):
            log_truth = log_cells + np.log1p(-drawn) - self.log_right
        return np.asarray(drawn * (1.0 - np.minimum(size * np.exp(log_truth), 1.0)))
