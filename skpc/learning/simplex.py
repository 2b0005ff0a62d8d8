"""The weights of a mixture whose components are known."""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats

#: EM ends when an iteration raises the mean log density by less than this, in nats.
_TOL, _MAX_ITER = 1e-13, 5000
#: A component that would weigh less than this is left out.
_SMALLEST = 1e-3


def mixture_weights(log_density: Floats, weight: Floats) -> Floats:
    """Weights of given densities that maximise the likelihood of their mixture, by EM.

    Parameters
    ----------
    log_density : ndarray of shape (n_rows, n_components)
        Log density of each row under each component, of rows that no component has learned from;
        in nats, -inf for a density of zero.
    weight : ndarray of shape (n_rows,)
        Not negative. A row that is impossible under all components does not count.

    Returns
    -------
    ndarray of shape (n_components,)
        They sum to one. Components below one in a thousand get zero; without any row that
        counts, all weigh the same.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.learning import mixture_weights
    >>> log_density = np.log([[0.5, 0.1], [0.5, 0.1], [0.1, 0.5], [0.5, 0.1]])
    >>> mixture_weights(log_density, np.ones(4)).round(3)
    array([0.875, 0.125])
    """
    best = log_density.max(axis=1)
    counts = np.isfinite(best) & (weight > 0.0)
    n_components = log_density.shape[1]
    weights = np.full(n_components, 1.0 / n_components)
    if not counts.any():
        return weights
    density = np.exp(log_density[counts] - best[counts, np.newaxis])
    share, before = weight[counts] / weight[counts].sum(), -np.inf
    for _ in range(_MAX_ITER):
        of_mixture = density @ weights
        mean = float(share @ np.log(of_mixture))
        if mean - before < _TOL:
            break
        before = mean
        weights = weights * ((share / of_mixture) @ density)
    # EM takes long to leave a component that should weigh nothing: the mean rises without it.
    for component in weights.argsort()[:-1].tolist():
        others = np.where(np.arange(n_components) == component, 0.0, weights)
        others /= others.sum()
        with np.errstate(divide="ignore"):
            without = float(share @ np.log(density @ others))
        if without > mean:
            weights, mean = others, without
    weights[weights < _SMALLEST] = 0.0
    return np.asarray(weights / weights.sum())
