"""Fully factorised distributions of weighted rows, and mixtures of them by EM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

__all__ = ["Factorised", "fit_mixture", "leaf_parameters"]

Floats = NDArray[np.float64]

#: The smallest standard deviation of a leaf, as a share of that of its column.
_SMALLEST_SD = 1e-2
#: EM on a mixture stops when no membership moves by more.
_SETTLED = 1e-3


def leaf_parameters(
    rows: Floats,
    weight: Floats,
    n_states: NDArray[np.int64],
    alpha: float,
    overall: Sequence[Any] | None,
) -> list[Any]:
    """Estimate the distribution of each column by itself.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Encoded rows, NaN where missing.
    weight : ndarray of shape (n_rows,)
        Positive weights.
    n_states : ndarray of shape (n_columns,)
        Number of categories; 0 for a column of numbers.
    alpha : float
        Laplace pseudo-count of each category.
    overall : sequence or None
        What has been found for the columns in all rows: it stands in where no cell is there, and
        bounds the standard deviations from below, at a hundredth. None if these are all rows.

    Returns
    -------
    list
        For each column its log probabilities (eq. 1 of the paper, smoothed), or its mean and
        standard deviation with Bessel's correction (eq. 2).
    """
    found: list[Any] = []
    for column, count in enumerate(n_states):
        cells = rows[:, column]
        seen = ~np.isnan(cells)
        if count:
            counts = np.bincount(cells[seen].astype(np.int64), weight[seen], count) + alpha
            found.append(np.log(counts / counts.sum()))
        else:
            before = None if overall is None else overall[column]
            found.append(_mean_and_sd(cells[seen], weight[seen], before))
    return found


def _mean_and_sd(
    values: Floats, weight: Floats, overall: tuple[float, float] | None
) -> tuple[float, float]:
    if overall is not None and len(values) == 0:
        return overall
    total = weight.sum()
    mean = float(weight @ values / total)
    freedom = total - (weight @ weight) / total
    sd = float(np.sqrt(weight @ (values - mean) ** 2 / freedom)) if freedom > 0 else 0.0
    if overall is None:
        return mean, sd if sd > 0 else 1.0
    return mean, max(sd, _SMALLEST_SD * overall[1])


class Factorised:
    """Weighted rows, as sums over a design in which factorised log densities are linear."""

    def __init__(self, rows: Floats, weight: Floats, n_states: NDArray[np.int64], alpha: float):
        self.rows, self.weight, self.n_states, self.alpha = rows, weight, n_states, alpha
        self.overall = leaf_parameters(rows, weight, n_states, alpha, None)

    def log_densities(self, share: Floats) -> Floats:
        """Log density of each row under each component, estimated from its share of the rows."""
        out = np.zeros(share.shape)
        for component, part in enumerate(share.T):
            weight = self.weight * part
            kept = weight > 0
            if not kept.any():
                out[:, component] = -np.inf
                continue
            leaves = leaf_parameters(
                self.rows[kept], weight[kept], self.n_states, self.alpha, self.overall
            )
            out[:, component] = np.log(weight.sum()) + self._of_rows(leaves)
        return out

    def _of_rows(self, leaves: list[Any]) -> Floats:
        total = np.zeros(len(self.rows))
        for cells, count, leaf in zip(self.rows.T, self.n_states, leaves):
            seen = ~np.isnan(cells)
            if count:
                total[seen] += leaf[cells[seen].astype(np.int64)]
            else:
                total[seen] -= 0.5 * ((cells[seen] - leaf[0]) / leaf[1]) ** 2 + np.log(leaf[1])
        return total


def fit_mixture(model: Factorised, share: Floats, max_iter: int) -> Floats:
    """Memberships of rows in a mixture of factorised distributions, by EM.

    Parameters
    ----------
    model : Factorised
        The weighted rows.
    share : ndarray of shape (n_rows, n_components)
        Memberships to start from.
    max_iter : int
        Greatest number of iterations.

    Returns
    -------
    ndarray of shape (n_rows, n_components)
        Posterior memberships.
    """
    for _ in range(max_iter):
        before, share = share, softmax(model.log_densities(share), axis=1)
        if np.abs(share - before).max() < _SETTLED:
            break
    return share
