"""Fully factorised distributions of weighted rows, and mixtures of them by EM."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, Ints, offsets

#: Degrees of freedom below this part of the weight are rounding errors, and count as zero.
_NO_FREEDOM = 1e-9
#: EM stops when no membership moves by more.
_SETTLED = 1e-2


class Design(NamedTuple):
    """Rows in a form in which estimates and log densities are products of matrices."""

    #: Indicators of the states of the columns that have some; shape (n_rows, n_all_states).
    state: Floats
    #: The states of the i-th of these columns are ``state_ptr[i] .. state_ptr[i + 1]``.
    state_ptr: Ints
    #: Cells of the columns of numbers, less the column's mean so that squares keep their digits,
    #: zero where a cell has no number; their squares; and whether they are there.
    offset: Floats
    square: Floats
    observed: Floats
    #: Weights of the rows among all rows, shape (n_rows,): what they would weigh undivided.
    row_weight: Floats
    #: Mean and standard deviation of each column of numbers in all rows, and the smallest standard
    #: deviation of an estimate.
    column_mean: Floats
    column_sd: Floats
    smallest_sd: Floats

    @classmethod
    def from_cells(
        cls,
        codes: NDArray[np.int16],
        numbers: Floats,
        n_states: Ints,
        row_weight: Floats,
        moments: tuple[Floats, Floats, Floats],
    ) -> Design:
        """Make the design of some rows.

        Parameters
        ----------
        codes : ndarray of shape (n_rows, n_columns)
            States of the cells of columns with states, -1 where missing.
        numbers : ndarray of shape (n_rows, n_numbers)
            Cells of the columns of numbers; NaN where a cell has no number.
        n_states : ndarray of shape (n_columns,)
            Number of states, 0 for a column without any.
        row_weight : ndarray of shape (n_rows,)
            See above.
        moments : tuple of ndarrays of shape (n_numbers,)
            The last three fields.
        """
        with_states = np.flatnonzero(n_states)
        ptr = offsets(n_states[with_states])
        state = np.empty((len(codes), int(ptr[-1])))
        for start, end, column in zip(ptr, ptr[1:], with_states):
            state[:, start:end] = codes[:, [column]] == np.arange(end - start)
        observed = ~np.isnan(numbers)
        offset = np.where(observed, numbers - moments[0], 0.0)
        cells = offset, offset**2, observed.astype(np.float64)
        return cls(state, ptr, *cells, row_weight, *moments)


class FactorisedEstimate(NamedTuple):
    """Fully factorised distributions, one a component."""

    #: Log probabilities (nats) of all states; shape (n_all_states, n_components).
    log_prob: Floats
    #: Means and standard deviations of the numbers; shape (n_numbers, n_components).
    mean: Floats
    sd: Floats


def estimate_factorised(design: Design, weight: Floats, alpha: float) -> FactorisedEstimate:
    """Estimate the distribution of each column by itself.

    Probabilities are smoothed proportions of weight (eq. 1 of the paper). Means are weighted;
    standard deviations have Bessel's correction (eq. 2), in which a row of ``row_weight`` two is
    two rows that share its weight.

    Parameters
    ----------
    design : Design
        The rows. Where a column has no cell in them, its moments in all rows are used instead.
    weight : ndarray of shape (n_rows, n_components)
        Their weights in each component.
    alpha : float
        Laplace pseudo-count of each state.

    Returns
    -------
    FactorisedEstimate
    """
    count = design.state.T @ weight + alpha
    log_prob = np.log(count)
    for start, end in zip(design.state_ptr, design.state_ptr[1:]):
        log_prob[start:end] -= np.log(count[start:end].sum(axis=0))
    column_sd = design.column_sd[:, np.newaxis]
    total = design.observed.T @ weight
    some = np.where(total > 0, total, 1.0)
    shift = design.offset.T @ weight / some
    square = design.square.T @ weight - some * shift**2
    freedom = total - design.observed.T @ (weight**2 / design.row_weight[:, np.newaxis]) / some
    variance = np.maximum(square, 0.0) / np.where(freedom > _NO_FREEDOM * some, freedom, some)
    sd = np.maximum(np.sqrt(variance), design.smallest_sd[:, np.newaxis])
    mean = design.column_mean[:, np.newaxis] + shift
    return FactorisedEstimate(log_prob, mean, np.where(total > 0, sd, column_sd))


def _log_densities(design: Design, estimate: FactorisedEstimate) -> Floats:
    """Log densities of the rows under each component, up to a constant for each row."""
    shift = estimate.mean - design.column_mean[:, np.newaxis]
    precision = estimate.sd**-2.0
    square = shift**2 * precision + 2.0 * np.log(estimate.sd)
    return np.asarray(
        design.state @ estimate.log_prob
        - 0.5 * (design.square @ precision + design.observed @ square)
        + design.offset @ (shift * precision)
    )


def _normalised(log_density: Floats) -> Floats:
    """Shares of the components in each row."""
    # scipy's softmax takes three times as long on the few rows of most parts.
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    return np.asarray(density / density.sum(axis=1, keepdims=True))


def mixture_memberships(
    design: Design, weight: Floats, membership: Floats, alpha: float, max_iter: int
) -> Floats:
    """Memberships of rows in a mixture of factorised distributions, by EM.

    Parameters
    ----------
    design : Design
        The rows.
    weight : ndarray of shape (n_rows,)
        Their weights.
    membership : ndarray of shape (n_rows, n_components)
        Memberships to start from.
    alpha : float
        Laplace pseudo-count of each state.
    max_iter : int
        Greatest number of iterations.

    Returns
    -------
    ndarray of shape (n_rows, n_components)
        Posterior memberships.
    """
    for _ in range(max_iter):
        part = weight[:, np.newaxis] * membership
        estimate = estimate_factorised(design, part, alpha)
        with np.errstate(divide="ignore"):
            log_weight = np.log(part.sum(axis=0))
        before = membership
        membership = _normalised(_log_densities(design, estimate) + log_weight)
        if np.abs(membership - before).max() < _SETTLED:
            break
    return membership
