"""What is the distribution of each missing cell, given the rest of its row?"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints
from skpc.circuit import Circuit
from skpc.queries.passes.blocks import BlockReader
from skpc.queries.passes.posterior import posterior_average
from skpc.queries.passes.rows import check_rows
from skpc.variables import Form, Predictive
from skpc.variables.forms import stacked
from skpc.variables.leaf_queries import lines_of, posterior_form, posterior_lines

#: Rows whose distributions by blocks are found at a time.
_ROWS = 1024


def posteriors(circuit: Circuit, X: Any, variables: Any = None) -> list[Predictive]:
    """Posterior distribution of every cell given the observed cells of its row.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.
    variables : array-like of int, default=None
        The variables to return; None returns all.

    Returns
    -------
    list of skpc.variables.Predictive
        One for each of these variables, in their order.

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
    rows = check_rows(circuit, X)
    wanted = np.arange(circuit.n_features) if variables is None else np.asarray(variables, int)
    # What blocks say of a cell differs from row to row, and takes room.
    step = _ROWS if circuit.blocks else max(len(rows), 1)
    parts = [
        _forms(circuit, rows[start : start + step], wanted)
        for start in range(0, max(len(rows), 1), step)
    ]
    found = []
    for var, forms in zip(wanted.tolist(), zip(*parts)):
        labels = np.arange(circuit.n_states[var]) if circuit.structure.is_categorical[var] else None
        found.append(Predictive([stacked(forms)], rows[:, var], labels))
    return found


def _forms(circuit: Circuit, rows: Floats, wanted: Ints) -> list[Form]:
    """Distributions of the cells of some variables."""
    columns, leaves = circuit.columns, circuit.structure.leaves
    marks = np.zeros(circuit.n_features, dtype=bool)
    marks[wanted] = True
    lines = posterior_lines(leaves, circuit.param, columns, marks)
    average, reader = posterior_average(circuit, rows, lines), BlockReader(circuit)
    probs = [
        average[lines.first[blocks.leaf]]
        if marks[blocks.variables].any()
        else np.zeros((len(blocks.leaf), len(rows)))
        for blocks in reader.blocks
    ]
    given, found = reader.conditionals(rows, probs), []
    for var in wanted.tolist():
        of_var = average[lines_of(leaves, columns, lines, var)].T
        prob = _normalised(np.ascontiguousarray(of_var), rows[:, var])
        own = reader.of_variable(given, var)
        found.append(posterior_form(leaves, circuit.param, columns, var, prob, own))
    return found


def _normalised(prob: Floats, column: Floats) -> Floats:
    """Normalise away rounding; an observed cell takes the first part, which nobody looks at."""
    prob[~np.isnan(column)] = np.arange(prob.shape[1]) == 0
    return prob / prob.sum(axis=1, keepdims=True)
