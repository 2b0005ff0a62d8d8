"""Which parameters fit the rows best, for a fixed structure?"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats, log_or_inf
from skpc._validation import check_weight
from skpc.circuit import SUM, Circuit
from skpc.domain import column_moments
from skpc.queries.flows import ExpectedStatistics, PseudoCounts, expected_statistics, leaf_facts
from skpc.queries.log_likelihood import log_likelihood
from skpc.queries.passes.rows import check_rows, read_cells
from skpc.variables.leaf_queries import log_prior, updated_param
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
    return_n_iter: bool = False,
) -> Any:
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
    return_n_iter : bool, default=False
        Whether to return the number of iterations.

    Returns
    -------
    Circuit
        The same structure with new parameters.
    n_iter : int
        Number of iterations that were run; only with ``return_n_iter``.

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
    best, best_score, waited, before = circuit, -np.inf, 0, -np.inf
    validation = None if X_val is None else check_rows(circuit, X_val)
    # Validation rows judge the last iteration without its objective, which takes a pass over all.
    n_objectives = max_iter + (validation is None)
    steps = em_steps(circuit, rows, weight, pseudo_count, n_objectives)
    for n_iter, (fitted, objective) in enumerate(steps):
        score = objective
        if validation is not None:
            score = np.average(log_likelihood(fitted, validation), weights=sample_weight_val)
        waited = 0 if validation is None or score >= best_score + tol else waited + 1
        if score > best_score:
            best, best_score = fitted, score
        settled = waited >= _PATIENCE or objective - before < tol * weight.sum()
        if settled or n_iter == max_iter:
            break
        before = objective
    return (best, n_iter) if return_n_iter else best


def em_steps(
    circuit: Circuit,
    rows: Floats,
    weight: Floats,
    pseudo_count: float | PseudoCounts,
    n_objectives: int | None = None,
) -> Iterator[tuple[Circuit, float]]:
    """Iterate EM: yield the starting point and each improvement, with its objective.

    Parameters
    ----------
    circuit : Circuit
        The starting point.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    pseudo_count : float or PseudoCounts
        See :func:`fit_parameters`.
    n_objectives : int, default=None
        After so many circuits comes the last one, with NaN as its objective; None goes on.

    Yields
    ------
    circuit, objective : Circuit, float
        The penalised log-likelihood (nats), which never falls.
    """
    if not np.all(np.isnan(circuit.observed)):
        raise ValueError("parameters can only be fitted before a circuit is conditioned")
    counts = _pseudo_counts(circuit, pseudo_count)
    moments = column_moments(read_cells(circuit.columns, rows)[1], weight)
    for _ in count() if n_objectives is None else range(n_objectives):
        statistics = expected_statistics(circuit, rows, weight)
        yield circuit, statistics.log_likelihood + _log_prior(circuit, counts, moments)
        circuit = _maximised(circuit, statistics, counts, moments)
    yield circuit, np.nan


def fit_to_sums(
    circuit: Circuit,
    expect: Callable[[Circuit], ExpectedStatistics],
    sample: Floats,
    weight: Floats,
    pseudo_count: PseudoCounts,
    *,
    max_iter: int,
    tol: float,
) -> tuple[Circuit, float]:
    """EM on rows that are somewhere else, such as the chunks of a table.

    Parameters
    ----------
    circuit : Circuit
        The starting point.
    expect : callable
        The E-step, :func:`expected_statistics` summed over all rows.
    sample, weight : ndarrays
        Encoded rows and their weights, which tell the moments of the columns.
    pseudo_count : PseudoCounts
        See :func:`fit_parameters`.
    max_iter : int
        Greatest number of iterations.
    tol : float
        EM stops when the objective rises by less than this, in nats.

    Returns
    -------
    circuit : Circuit
        The same structure with new parameters.
    log_likelihood : float
        That of all rows (nats), without the pseudo-counts.
    """
    moments = column_moments(read_cells(circuit.columns, sample)[1], weight)
    before = -np.inf
    for n_iter in range(max_iter + 1):
        statistics = expect(circuit)
        objective = statistics.log_likelihood + _log_prior(circuit, pseudo_count, moments)
        if objective - before < tol or n_iter == max_iter:
            break
        before = objective
        circuit = _maximised(circuit, statistics, pseudo_count, moments)
    return circuit, statistics.log_likelihood


def em_step(
    circuit: Circuit,
    rows: Floats,
    weight: Floats,
    pseudo_count: float | PseudoCounts,
    shown: NDArray[np.bool_] | None = None,
) -> Circuit:
    """One iteration of EM, without the objective of its end, which takes another pass.

    ``shown`` tells which cells of complete rows count; see :func:`expected_statistics`.
    """
    statistics = expected_statistics(circuit, rows, weight, shown)
    moments = column_moments(read_cells(circuit.columns, rows)[1], weight)
    return _maximised(circuit, statistics, _pseudo_counts(circuit, pseudo_count), moments)


def _pseudo_counts(circuit: Circuit, pseudo_count: float | PseudoCounts) -> PseudoCounts:
    if not isinstance(pseudo_count, PseudoCounts):
        if not pseudo_count >= 0:
            raise ValueError(f"pseudo_count must not be negative, got {pseudo_count}")
        edge = np.full(circuit.n_edges, float(pseudo_count))
        pseudo_count = PseudoCounts(edge, np.full(len(circuit.param), float(pseudo_count)))
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


def _log_prior(circuit: Circuit, counts: PseudoCounts, moments: tuple[Floats, Floats]) -> float:
    """Log-likelihood of the pseudo-counts (nats)."""
    is_weight = circuit.kind[circuit.edge_parent] == SUM
    is_weight &= circuit.log_weight > -np.inf
    on_edges = counts.edge[is_weight] @ circuit.log_weight[is_weight]
    return float(on_edges + log_prior(*leaf_facts(circuit), Prior(counts.param, *moments)))


def _maximised(
    circuit: Circuit,
    statistics: ExpectedStatistics,
    counts: PseudoCounts,
    moments: tuple[Floats, Floats],
) -> Circuit:
    """The M-step."""
    parent = circuit.edge_parent
    usable = (circuit.kind[parent] == SUM) & (circuit.log_weight > -np.inf)
    count = np.where(usable, statistics.edge_flow + counts.edge, 0.0)
    total = np.bincount(parent, count, circuit.n_nodes)[parent]
    log_weight = circuit.log_weight.copy()
    changed = usable & (total > 0)
    log_weight[changed] = log_or_inf(count[changed] / total[changed])
    prior = Prior(counts.param, *moments)
    param = updated_param(*leaf_facts(circuit), statistics.leaf_statistic, prior)
    return circuit.with_parameters(log_weight=log_weight, param=param)
