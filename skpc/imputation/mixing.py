"""Whether chains of imputations still move in one direction."""

import numpy as np
from scipy import stats

from skpc._arrays import Floats, Ints

#: Probability that a fit whose chains have settled is warned about.
FALSE_ALARMS = 0.001


def drifting_columns(trace: Floats, spread: Floats) -> Ints:
    """Columns whose drawn cells still change from round to round in one direction.

    Chains are independent. So the changes of their means between the middle and the last round,
    and those of their standard deviations, are tested to be zero by t-tests over the chains, with
    Bonferroni's correction for all columns.

    Parameters
    ----------
    trace : ndarray of shape (2, n_chains, n_rounds, n_features)
        Means and standard deviations of the drawn cells; NaN in columns that are not drawn.
    spread : ndarray of shape (n_features,)
        Standard deviations of the columns.

    Returns
    -------
    ndarray of int
        Numbers of the columns. With fewer than three rounds or chains there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.imputation.mixing import drifting_columns
    >>> noise = np.random.default_rng(0).normal(size=(2, 20, 5, 1))
    >>> drift = 2.0 * np.arange(5.0)[:, np.newaxis]
    >>> drifting_columns(noise, np.ones(1)).size
    0
    >>> drifting_columns(noise + drift, np.ones(1))
    array([0])
    """
    n_chains, n_rounds = trace.shape[1:3]
    if n_chains < 3 or n_rounds < 3:
        return np.empty(0, dtype=np.int64)
    change = trace[:, :, -1] - trace[:, :, (n_rounds - 1) // 2]
    mean = change.mean(axis=1)
    error = change.std(axis=1, ddof=1) / np.sqrt(n_chains)
    # Columns that are not drawn have NaN; where all chains change alike, the error is zero.
    with np.errstate(divide="ignore", invalid="ignore"):
        pvalue = 2.0 * stats.t.sf(np.abs(mean) / error, n_chains - 1)
    # The mean and the standard deviation of each column that is drawn are tests of their own.
    n_tests = np.isfinite(mean).sum()
    # A drift of less than this part of the spread of the column changes no analysis.
    least_drift = 0.05
    is_drift = (pvalue * n_tests < FALSE_ALARMS) & (np.abs(mean) > least_drift * spread)
    return np.flatnonzero(is_drift.any(axis=0))
