"""What is the distribution of each missing cell, given the rest of its row?"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.queries.passes.posterior import posterior_average
from skpc.queries.passes.rows import check_rows
from skpc.variables import Points, Predictive
from skpc.variables.families import posterior_form, posterior_lines


def posteriors(circuit: Circuit, X: Any, variables: Any = None) -> list[Predictive]:
    """Posterior distribution of every cell given the observed cells of its row.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.
    variables : array-like of bool of shape (n_features,), default=None
        The variables that are needed; None needs all.

    Returns
    -------
    list of skpc.variables.Predictive
        One for each variable. Of a variable that is not needed only the observed cells are told.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read.

    Examples
    --------
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import posteriors
    >>> builder = CircuitBuilder(n_states=[0])
    >>> _ = builder.gaussian(0, mean=1.0, sd=2.0)
    >>> (cells,) = posteriors(builder.build(), [[float("nan")], [5.0]])
    >>> cells.mean(), cells.quantile(0.975).round(2)
    (array([1., 5.]), array([4.92, 5.  ]))
    """
    rows, columns = check_rows(circuit, X), circuit.columns
    wanted = np.ones(circuit.n_features, bool) if variables is None else np.asarray(variables)
    leaves = circuit.structure.leaves
    lines = posterior_lines(leaves, circuit.param, columns, wanted)
    average = posterior_average(circuit, rows, lines)
    ends = np.cumsum(lines.n_lines)
    found = []
    for var, (begin, end) in enumerate(zip(ends - lines.n_lines, ends)):
        labels = np.arange(circuit.n_states[var]) if circuit.structure.is_categorical[var] else None
        if not wanted[var]:
            found.append(Predictive([Points(np.empty(0), np.empty((len(rows), 0)))], rows[:, var]))
            continue
        prob = _normalised(np.ascontiguousarray(average[begin:end].T), rows[:, var])
        form = posterior_form(leaves, circuit.param, columns, var, prob)
        found.append(Predictive([form], rows[:, var], labels))
    return found


def _normalised(prob: Floats, column: Floats) -> Floats:
    """Normalise away rounding; an observed cell takes the first part, which nobody looks at."""
    prob[~np.isnan(column), 0] = 1.0
    return prob / prob.sum(axis=1, keepdims=True)
