"""Densities that are circuits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Self, cast

import numpy as np

from skpc._arrays import Floats
from skpc._fitting import all_or_nothing
from skpc._validation import fit_context
from skpc.circuit import Circuit
from skpc.counting.clustering import as_numbers
from skpc.densities import CircuitAnswers, Density
from skpc.domain import Domain, column_moments
from skpc.estimators._base import TableDensity
from skpc.estimators.chunks import EncodedChunks
from skpc.queries import PseudoCounts
from skpc.queries.flows import ExpectedStatistics, expected_statistics, pseudo_counts_from
from skpc.queries.parameters import em_step, fit_to_sums

#: Largest number of passes of EM over a table in chunks, and the rise of its mean log-likelihood
#: (nats a row) that is worth a pass. Pseudo-counts weigh as much as ``_LIKE_SAMPLE`` rows that are
#: distributed like the sample.
PASSES, PASS_TOL, _LIKE_SAMPLE = 10, 1e-3, 10.0


class CircuitDensity(TableDensity):
    """Density estimation by a circuit over encoded rows, which a subclass learns."""

    circuit_: Circuit

    @property
    def _density(self) -> Density:
        return CircuitAnswers(self.circuit_, self.domain_)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Adjust the parameters to more rows, by a step of EM.

        The rows learned before count with their whole weight, as if distributed like the circuit.
        The first call is ``fit``; later ones keep the structure, and what the columns are.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows; NaN (or None) marks missing cells.
        y : Ignored
            Present for the API of scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        CircuitDensity
            The fitted estimator.

        Raises
        ------
        ValueError
            If the columns are not those of the first call, a cell is infinite, the weights are
            negative or all zero, or no cell has a known value.

        Examples
        --------
        >>> import numpy as np
        >>> from skpc import CutsetNetworkBD
        >>> X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0)
        >>> model = CutsetNetworkBD(param_ess=1e-9).fit(X)
        >>> np.exp(model.partial_fit(X[50:]).score_samples([[1.0, 1.0]])).round(3)
        array([0.667])
        """
        if not hasattr(self, "circuit_"):
            return cast("Self", cast("Any", self).fit(X, sample_weight=sample_weight))
        with all_or_nothing(self):
            self._take_step(*self._learn_more(X, sample_weight))
        return self

    def _take_step(self, rows: Floats, weight: Floats) -> None:
        """One step of EM, in which a row without any cell stands for those of before."""
        before = np.full((1, rows.shape[1]), np.nan)
        weights = np.append(weight, self._n_learned)
        self.circuit_ = em_step(self.circuit_, np.vstack([rows, before]), weights, 0.0)
        self._n_learned += weight.sum()

    def _refit(self, chunks: EncodedChunks, rows: Floats, weight: Floats) -> Any:
        """Fit the parameters to all rows by EM; the mean log-likelihood of these (nats)."""
        self.circuit_, total = fit_to_sums(
            self.circuit_,
            lambda circuit: chunks.total(partial(_expected, circuit)),
            rows,
            weight,
            self._as_learned(rows, weight),
            max_iter=PASSES,
            tol=PASS_TOL * chunks.n_rows,
        )
        self._n_learned = chunks.n_rows
        return total / chunks.n_rows

    def _as_learned(self, rows: Floats, weight: Floats) -> PseudoCounts:
        """Pseudo-counts that stand for what has been learned from a sample."""
        return pseudo_counts_from(self.circuit_, _LIKE_SAMPLE)


def _expected(circuit: Circuit, rows: Floats) -> ExpectedStatistics:
    return expected_statistics(circuit, rows, np.ones(len(rows)))


def root_weights(circuit: Circuit, components: Sequence[Any] | Floats) -> Floats:
    """Weights of the components of a circuit; one for a circuit that is not a mixture."""
    if len(components) == 1:
        return np.ones(1)
    return np.asarray(np.exp(circuit.log_weight[circuit.child_ptr[-2] :]))


def complete_points(domain: Domain, rows: Floats, weight: Floats) -> Floats:
    """Rows as points for k-means; a missing coordinate is the mean of the others."""
    n_states = np.where(domain.is_categorical, domain.n_states, 0)
    point, observed = as_numbers(rows, n_states, *column_moments(rows, weight))
    if observed is None:
        return point
    return point + (1.0 - observed) * (weight @ point / (weight @ observed))
