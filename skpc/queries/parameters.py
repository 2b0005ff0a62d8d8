"""Expectation maximisation: the parameters that fit rows best, for a fixed structure."""

from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Floats, log_or_inf
from skpc._fitting import Fit, Rows, Stop, learn
from skpc._validation import check_weight
from skpc.circuit import Circuit
from skpc.domain import column_moments
from skpc.queries.flows import (
    ExpectedStatistics,
    PseudoCounts,
    expected_statistics,
    leaf_facts,
    possible_weights,
)
from skpc.queries.log_likelihood import log_likelihood
from skpc.queries.passes.rows import check_rows, read_cells
from skpc.variables.leaf_updates import log_prior, updated_param
from skpc.variables.leaves import Prior

#: Iterations without a rise of the validation likelihood that counts, before EM stops.
_PATIENCE = 4


def fit_parameters(
    circuit: Circuit,
    X: Any,
    sample_weight: Any = None,
    *,
    pseudo_count: float | PseudoCounts = 0.1,
    X_val: Any = None,
    sample_weight_val: Any = None,
    max_iter: int = 100,
    tol: float = 1e-4,
) -> Circuit:
    """Expectation maximisation of the parameters; the structure does not change.

    Missing cells are integrated out exactly. The objective is the log-likelihood of the rows plus
    the log-likelihood of the pseudo-counts; it never decreases.

    Parameters
    ----------
    circuit : Circuit
        Structure and starting point. Weights and states of probability zero stay zero.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks missing cells.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows; None counts each row once.
    pseudo_count : float or PseudoCounts, default=0.1
        Added to the expected count of each weight and each state, so that nothing becomes zero; a
        Gaussian leaf gets as many cells, distributed like its column.
    X_val : array-like, default=None
        Validation rows. If given, the parameters of the iteration with the greatest validation
        likelihood are returned, and EM stops after four iterations in a row that have not raised
        the greatest one by ``tol``.
    sample_weight_val : array-like of shape (n_validation_rows,), default=None
        Weights of the validation rows; None counts each once.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-4
        EM stops if the objective rises by less than this, in nats per unit of weight. It is also
        the least rise of the validation likelihood that counts, in nats a row.

    Returns
    -------
    Circuit
        The same structure with new parameters.

    Raises
    ------
    ValueError
        If a row has probability zero under the starting point, weights do not match the rows, or
        the circuit has been conditioned on something.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import fit_parameters
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.5, 0.5]))
    >>> fitted = fit_parameters(
    ...     builder.build(), [[0.0], [1.0], [1.0], [1.0]], pseudo_count=1.0
    ... )
    >>> np.exp(fitted.param).round(3)
    array([0.333, 0.667])
    """
    rows = check_rows(circuit, X)
    weight = check_weight(sample_weight, len(rows))
    if len(rows) == 0:
        raise ValueError("fit_parameters needs at least one row, X has none")
    if max_iter < 1 or not tol >= 0:
        raise ValueError(f"max_iter must be 1 or more and tol 0 or more, got {max_iter} and {tol}")
    held_out = None
    if X_val is not None:
        rows_val = check_rows(circuit, X_val)
        held_out = Rows(rows_val, check_weight(sample_weight_val, len(rows_val)))
    stop = Stop(max_iter, tol)
    return fit_to_rows(circuit, Rows(rows, weight), pseudo_count, stop, held_out).model.circuit


def fit_to_rows(
    circuit: Circuit,
    data: Rows,
    pseudo_count: float | PseudoCounts,
    stop: Stop,
    held_out: Rows | None = None,
) -> Fit:
    """:func:`fit_parameters` for checked rows; the fitted circuit is ``model.circuit``."""
    model = ParametrisedCircuit.from_rows(circuit, data.rows, data.weight, pseudo_count)
    # Without held-out rows the objective never falls, and EM stops at the first small rise.
    if held_out is not None:
        stop = stop._replace(patience=_PATIENCE)
    return learn([model], data, stop, held_out)


def em_step(
    circuit: Circuit, rows: Floats, weight: Floats, pseudo_count: float | PseudoCounts
) -> Circuit:
    """One iteration of EM; the objective after it, which takes another pass, is not computed."""
    return fit_to_rows(circuit, Rows(rows, weight), pseudo_count, Stop(1)).model.circuit


class ParametrisedCircuit(NamedTuple):
    """A circuit whose parameters are learned; see :class:`skpc._fitting.Parametrised`.

    Attributes
    ----------
    circuit : Circuit
    pseudo_counts : PseudoCounts
        Counts that are added to the expected ones.
    moments : tuple of ndarrays of shape (n_features,)
        Means and standard deviations of the columns, from which cells are added to Gaussians.
    """

    circuit: Circuit
    pseudo_counts: PseudoCounts
    moments: tuple[Floats, Floats]

    @classmethod
    def from_rows(
        cls, circuit: Circuit, rows: Floats, weight: Floats, pseudo_count: float | PseudoCounts
    ) -> Self:
        """A circuit whose parameters are to be learned; the moments are those of the rows."""
        if not np.all(np.isnan(circuit.observed)):
            raise ValueError("parameters can only be fitted before a circuit is conditioned")
        # The prior of a Gaussian leaf is the Gaussian of its whole column.
        moments = column_moments(read_cells(circuit.columns, rows)[1], weight)
        return cls(circuit, _pseudo_counts(circuit, pseudo_count), moments)

    @property
    def log_prior(self) -> float:
        """Log-likelihood of the pseudo-counts (nats)."""
        circuit = self.circuit
        counts = self.pseudo_counts
        # Weights of zero stay zero, and would make the sum minus infinity.
        is_weight = possible_weights(circuit)
        edge_prior = counts.edge[is_weight] @ circuit.log_weight[is_weight]
        leaf_prior = log_prior(*leaf_facts(circuit), Prior(counts.param, *self.moments))
        return float(edge_prior + leaf_prior)

    def log_likelihood(self, rows: Floats) -> Floats:
        """Log-likelihood (nats) of rows."""
        return log_likelihood(self.circuit, rows)

    def expected(self, rows: Floats, weight: Floats) -> ExpectedStatistics:
        """The E-step."""
        return expected_statistics(self.circuit, rows, weight)

    def m_step(self, statistics: ExpectedStatistics) -> Self:
        """The circuit with the most probable parameters."""
        circuit = self.circuit
        counts = self.pseudo_counts
        parent = circuit.edge_parent
        is_weight = possible_weights(circuit)
        count = np.where(is_weight, statistics.edge_flow + counts.edge, 0.0)
        # (n_edges,): the counts of all edges that leave the same sum.
        total = np.bincount(parent, count, circuit.n_nodes)[parent]
        log_weight = circuit.log_weight.copy()
        # A sum that no row reaches, without pseudo-counts, keeps its weights.
        has_counts = is_weight & (total > 0)
        log_weight[has_counts] = log_or_inf(count[has_counts] / total[has_counts])
        prior = Prior(counts.param, *self.moments)
        param = updated_param(*leaf_facts(circuit), statistics.leaf_statistic, prior)
        return self._replace(circuit=circuit.with_parameters(log_weight=log_weight, param=param))


def _pseudo_counts(circuit: Circuit, pseudo_count: float | PseudoCounts) -> PseudoCounts:
    if not isinstance(pseudo_count, PseudoCounts):
        if not pseudo_count >= 0:
            raise ValueError(f"pseudo_count must not be negative, got {pseudo_count}")
        edge = np.full(circuit.n_edges, float(pseudo_count))
        pseudo_count = PseudoCounts(edge, np.full(len(circuit.param), float(pseudo_count)))
    # Pseudo-counts may have been made for another structure.
    for name, counts, size in (
        ("edge", pseudo_count.edge, circuit.n_edges),
        ("param", pseudo_count.param, len(circuit.param)),
    ):
        if np.shape(counts) != (size,) or not np.all(np.asarray(counts) >= 0):
            raise ValueError(
                f"pseudo_count.{name} must have shape ({size},) and no negative entries, "
                f"got shape {np.shape(counts)}"
            )
    return pseudo_count
