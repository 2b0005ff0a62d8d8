"""Densities of rows, joint and conditional, expectations of products, and conditional circuits."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from skpc._arrays import Bools, Floats, check_variables
from skpc._validation import unmasked
from skpc.circuit import SUM, Circuit
from skpc.queries.passes.factors import Factor
from skpc.queries.passes.induced import LEAST_EDGES_FOR_VALUES, log_density, walk_plan
from skpc.queries.passes.rows import check_events, check_rows
from skpc.queries.passes.upward import Evaluator, feed_forward, refuse_impossible
from skpc.variables.events import Events


def log_likelihood(circuit: Circuit, X: Any) -> Floats:
    """Log density of each row, missing cells integrated out; log probability of each event.

    Parameters
    ----------
    circuit : Circuit
        The distribution. Cells of variables that it has been conditioned on are not read.
    X : array-like of shape (n_rows, n_features), or Events
        Encoded rows; NaN marks missing cells. Or events, whose known cells count with their
        densities, and whose intervals count with their probabilities.

    Returns
    -------
    ndarray of shape (n_rows,)
        Log densities in nats, with respect to the counting measure on states and the Lebesgue
        measure on numbers; -inf for impossible rows, 0 for rows with every cell missing.

    Raises
    ------
    ValueError
        If the shape is wrong or a cell is neither missing nor a state (or finite number).

    Notes
    -----
    Complete rows of a deterministic circuit of states, or of a mixture of such circuits with many
    edges, follow their induced trees, at the cost of one visit a variable. Other rows take a pass
    over all edges.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import log_likelihood
    >>> builder = CircuitBuilder(n_states=[3])
    >>> _ = builder.discrete(0, np.log([0.2, 0.3, 0.5]))
    >>> circuit = builder.build()
    >>> np.exp(log_likelihood(circuit, [[0.0], [2.0], [np.nan]]))
    array([0.2, 0.5, 1. ])
    """
    events = check_events(circuit, X)
    rows = events.rows
    plan = walk_plan(circuit)
    if plan is not None and plan.n_components > 1:
        plan = walk_plan(circuit, LEAST_EDGES_FOR_VALUES)
    # An interval may hold several states, so that a row follows several children of a decision.
    if events.has_intervals or plan is None:
        return feed_forward(circuit, rows, events)
    incomplete = np.isnan(rows).any(axis=1)
    # Either way complete rows walk and the others do not: no row depends on the rows beside it.
    if 2 * incomplete.sum() > len(rows):
        out = feed_forward(circuit, rows)
        out[~incomplete] = log_density(circuit, rows[~incomplete])
    else:
        out = log_density(circuit, rows)
        out[incomplete] = feed_forward(circuit, rows[incomplete])
    return out


def log_expectation(circuit: Circuit, X: Any, factors: Mapping[int, Factor]) -> Floats:
    """Log of the expectation of a product of functions, one for each column, row by row.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features), or Events
        Encoded rows, or events: known cells count with their densities, and intervals with their
        probabilities, as in :func:`log_likelihood`.
    factors : mapping of int to Intervals, Weights or AtPoints
        Functions of missing cells, by their columns.

    Returns
    -------
    ndarray of shape (n_rows,)
        In nats; -inf where the expectation is zero.

    Raises
    ------
    ValueError
        If a cell with a function is known or has intervals, a row or a column does not exist, a
        weight is negative, or the column is in a block of numbers (say intervals of these as
        events).

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.kernels import RBF
    >>> from skpc.queries import AtPoints, log_expectation
    >>> builder = CircuitBuilder(n_states=[0])
    >>> _ = builder.gaussian(0, mean=0.0, sd=1.0)
    >>> points = AtPoints(np.array([0, 1]), RBF(0.5), np.array([0.0, 3.0]))
    >>> nothing = np.full((2, 1), np.nan)
    >>> np.exp(log_expectation(builder.build(), nothing, {0: points})).round(3)
    array([0.707, 0.075])
    """
    events = check_events(circuit, X)
    _check_factors(circuit, events.are_stated(), factors)
    return feed_forward(circuit, events.rows, events, factors)


def _check_factors(circuit: Circuit, stated: Bools, factors: Mapping[int, Factor]) -> None:
    """Refuse functions of known cells, of cells in blocks, and of rows that do not exist."""
    check_variables(list(factors), stated.shape[1], "the columns of factors")
    # Under a block the expectation of a product is no product of expectations.
    in_blocks = {var for group in circuit.multivariate for var in group.variables.tolist()}
    n_rows = len(stated)
    for var, factor in factors.items():
        if var in in_blocks:
            raise ValueError(
                f"functions of variable {var} are not known, as a block of numbers has it; ask for "
                "intervals of it as Events, or use a density without blocks"
            )
        outside = np.flatnonzero((factor.row < 0) | (factor.row >= n_rows))
        if len(outside) or np.any(np.diff(factor.row) < 0):
            raise ValueError(
                f"the rows of a factor must be 0 to {n_rows - 1}, none below the one before, got "
                f"{factor.row}"
            )
        known = factor.row[stated[factor.row, var]]
        if len(known):
            raise ValueError(
                f"a function is of a missing cell, but X[{known[0]}, {var}] is known or has "
                "intervals; leave one of both out"
            )


def log_conditional(circuit: Circuit, X: Any, given: Any) -> Floats:
    """Log density of the other cells of each row, given the cells of some variables.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features), or Events
        Encoded rows; NaN marks missing cells, which are integrated out on both sides.
    given : array-like of int or of bool, or Events
        The variables that are known, or a mask of them; or, where X has events, what is known
        beside each of them.

    Returns
    -------
    ndarray of shape (n_rows,)
        In nats; -inf if the other cells are impossible, 0 if all of them are missing.

    Raises
    ------
    ValueError
        If the known cells of a row have probability zero, or cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import log_conditional
    >>> builder = CircuitBuilder(n_states=[2, 2])
    >>> a = builder.product(
    ...     [builder.indicator(0, 0), builder.discrete(1, np.log([0.9, 0.1]))]
    ... )
    >>> b = builder.product(
    ...     [builder.indicator(0, 1), builder.discrete(1, np.log([0.4, 0.6]))]
    ... )
    >>> _ = builder.sum(
    ...     [a, b], np.log([0.5, 0.5]), decision_var=0, decision_state=[0, 1]
    ... )
    >>> np.exp(log_conditional(builder.build(), [[1.0, 1.0]], given=[0]))
    array([0.6])
    """
    whole = check_events(circuit, X)
    if isinstance(given, Events):
        known = given
        whole = whole.joined(given)
    else:
        chosen = check_variables(given, circuit.n_features, "given")
        known = whole.only(np.isin(np.arange(circuit.n_features), chosen))
    log_known = log_likelihood(circuit, known)
    # Given an impossible event nothing has a probability: -inf less -inf would be NaN.
    refuse_impossible(log_known, np.arange(len(log_known)))
    return log_likelihood(circuit, whole) - log_known


def condition(circuit: Circuit, evidence: Any) -> Circuit:
    """The conditional distribution given the values of some variables.

    The conditional shares its structure with the given circuit; only parameters change. So plans
    for the structure serve the conditional too. A leaf of an observed variable becomes a
    constant, and ``observed`` holds the value. The weights of the sums change with how well each
    child explains the evidence.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    evidence : array-like of shape (n_features,)
        The known values, encoded; NaN where a variable is not known.

    Returns
    -------
    Circuit
        A normalised circuit over the remaining variables. Queries do not read the cells of the
        observed variables, and fill them with the values given here.

    Raises
    ------
    ValueError
        If the evidence has probability zero, has the wrong length, or contradicts what the
        circuit has been conditioned on before.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import condition, log_likelihood
    >>> builder = CircuitBuilder(n_states=[2, 2])
    >>> a = builder.product(
    ...     [builder.indicator(0, 0), builder.discrete(1, np.log([0.9, 0.1]))]
    ... )
    >>> b = builder.product(
    ...     [builder.indicator(0, 1), builder.discrete(1, np.log([0.4, 0.6]))]
    ... )
    >>> _ = builder.sum(
    ...     [a, b], np.log([0.5, 0.5]), decision_var=0, decision_state=[0, 1]
    ... )
    >>> given = condition(builder.build(), [1.0, np.nan])
    >>> np.exp(log_likelihood(given, [[np.nan, 1.0]]))
    array([0.6])
    """
    known = np.array(unmasked(evidence), dtype=np.float64)
    if known.shape != (circuit.n_features,):
        raise ValueError(
            f"evidence must have shape ({circuit.n_features},), one value (or NaN) a variable, "
            f"got {known.shape}"
        )
    if np.any(np.isinf(known)):
        raise ValueError(f"evidence must be finite or NaN, got {known[np.isinf(known)][0]}")
    # The check writes in the values that the circuit has been conditioned on before.
    row = check_rows(circuit, known[np.newaxis])
    differs = np.flatnonzero(~np.isnan(known) & (row[0] != known))
    if len(differs):
        var = int(differs[0])
        raise ValueError(
            f"the circuit has been conditioned on variable {var} = {row[0, var]:g}, so that "
            f"{known[var]:g} has probability zero"
        )
    log_value, is_possible = Evaluator(circuit).log_values(row)
    if not is_possible:
        variables = np.flatnonzero(~np.isnan(known))
        listed = ", ".join(f"variable {var} = {known[var]:g}" for var in variables[:8])
        raise ValueError(f"the evidence has probability zero under the circuit: {listed}")
    structure = circuit.structure
    log_weight = circuit.log_weight.copy()
    parent = structure.edge_parent
    # Sums that the evidence excludes keep their weights: nothing reaches them.
    edge = np.flatnonzero((structure.kind[parent] == SUM) & (log_value[parent] > -np.inf))
    # Bayes' rule at each sum: the weight of a child times the density of the evidence under it.
    log_weight[edge] += log_value[structure.child[edge]]
    # The value of the sum would not do as the divisor: far from every leaf it has lost digits.
    log_total = np.full(structure.n_nodes, -np.inf)
    np.logaddexp.at(log_total, parent[edge], log_weight[edge])
    log_weight[edge] -= log_total[parent[edge]]
    observed = np.where(np.isnan(known), circuit.observed, known)
    return circuit.with_parameters(log_weight=log_weight, observed=observed)
