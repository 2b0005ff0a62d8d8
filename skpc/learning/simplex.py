"""Weights of known components: of densities in a mixture, and of predictions in a mean."""

import numpy as np
from scipy.optimize import minimize, nnls

from skpc._arrays import Floats

#: A component that would weigh less than this is left out.
_SMALLEST = 1e-3


def mixture_weights(log_density: Floats, weight: Floats) -> Floats:
    """Weights of given densities that maximise the likelihood of their mixture.

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
    >>> from skpc.learning.simplex import mixture_weights
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
    # Only ratios within a row matter, and these do not underflow.
    density = np.exp(log_density[counts] - best[counts, np.newaxis])
    share = weight[counts] / weight[counts].sum()

    def loss(weights: Floats) -> tuple[float, Floats]:
        mixed = density @ weights
        # With the sum of the weights as a penalty, the optimal weights sum to one.
        value = float(weights.sum() - share @ np.log(mixed))
        return value, 1.0 - (share / mixed) @ density

    bounds = [(0.0, None)] * n_components
    # The optimum is found to the last digits: small differences of likelihoods decide which
    # components have any weight.
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1_000}
    weights = minimize(loss, weights, jac=True, bounds=bounds, options=options).x
    weights = weights / weights.sum()
    weights[weights < _SMALLEST] = 0.0
    return weights / weights.sum()


def mean_weights(errors: Floats) -> tuple[Floats, Floats]:
    """Weights of given predictions whose weighted mean has the least squared error.

    Parameters
    ----------
    errors : ndarray of shape (n_cells, n_components)
        Errors of the predictions of each component, for cells that none has learned from. Their
        squares sum to the proportion of the variance that a component does not explain.

    Returns
    -------
    weights : ndarray of shape (n_components,)
        Not negative; they sum to one.
    explained : ndarray of shape (n_components + 1,)
        The proportion that each component explains, and last the weighted mean.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.learning.simplex import mean_weights
    >>> weights, explained = mean_weights(
    ...     np.array([[0.5, -0.5, 0.6], [-0.5, 0.5, 0.6]])
    ... )
    >>> weights.round(1), explained.round(2)
    (array([0.5, 0.5, 0. ]), array([0.5 , 0.5 , 0.28, 1.  ]))
    """
    n_components = errors.shape[1]
    # The errors of each component get an independent part, of this proportion of their squares:
    # components that are about equally good share the weight.
    independent = 0.05
    noise = np.diag(np.sqrt(independent * (errors**2).sum(axis=0)))
    # Without the last row all would be zero: divided by their sum, weights are those that are best
    # under the condition that they sum to one.
    system = np.vstack([errors, noise, np.ones(n_components)])
    weights, _ = nnls(system, np.append(np.zeros(len(system) - 1), 1.0))
    weights /= weights.sum()
    return weights, 1.0 - (np.column_stack([errors, errors @ weights]) ** 2).sum(axis=0)
