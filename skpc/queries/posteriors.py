"""What is the distribution of each missing cell, given the rest of its row?

Its probabilities, moments and quantiles follow from averages over the leaves of its variable, each
weighted by the posterior probability that it made the row: one pass up and one down.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints, offsets
from skpc.circuit import Circuit
from skpc.queries.passes.downward import posterior_average
from skpc.queries.passes.multivariate import MultivariateReader
from skpc.queries.passes.rows import check_rows
from skpc.variables import Form, Predictive
from skpc.variables.forms import stacked
from skpc.variables.leaf_queries import (
    leaf_means,
    lines_of,
    posterior_form,
    posterior_lines,
)
from skpc.variables.leaves import Lines

#: Rows whose posteriors are held at a time.
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
    # Leaves of several variables say something else of a cell in each row, which takes room.
    step = _ROWS if circuit.multivariate else max(len(rows), 1)
    parts = [
        _forms(circuit, rows[start : start + step], wanted)
        for start in range(0, max(len(rows), 1), step)
    ]
    predictives = []
    for var, forms in zip(wanted.tolist(), zip(*parts)):
        labels = np.arange(circuit.n_states[var]) if circuit.structure.is_categorical[var] else None
        predictives.append(Predictive([stacked(forms)], rows[:, var], labels))
    return predictives


def marginals(circuit: Circuit, X: Any) -> list[Floats | None]:
    """Posterior marginal distribution of every cell given the observed cells of its row.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.

    Returns
    -------
    list of ndarray or None
        For each variable an array of shape (n_rows, n_states): the probabilities of its states,
        or of the bins of its histogram axis, tails first and last. An observed cell has
        probability one for its own state. None for a variable of numbers without an axis; see
        :func:`posteriors` for these.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import marginals
    >>> builder = CircuitBuilder(n_states=[2])
    >>> _ = builder.discrete(0, np.log([0.25, 0.75]))
    >>> marginals(builder.build(), [[np.nan], [0.0]])
    [array([[0.25, 0.75],
           [1.  , 0.  ]])]
    """
    with_states = np.flatnonzero(circuit.n_states).tolist()
    predictive = dict(zip(with_states, posteriors(circuit, X, with_states)))
    return [
        predictive[var].probabilities if var in predictive else None
        for var in range(circuit.n_features)
    ]


def moments(circuit: Circuit, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and variance of every cell given the observed cells of its row.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.

    Returns
    -------
    mean, variance : ndarrays of shape (n_rows, n_features)
        The mean of an observed cell is its value, and its variance is 0. The states of a
        categorical variable count as the numbers 0, 1, ...; bins and tails of a histogram axis
        count with their exact moments.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read.

    Examples
    --------
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import moments
    >>> builder = CircuitBuilder(n_states=[0])
    >>> _ = builder.gaussian(0, mean=1.0, sd=2.0)
    >>> mean, variance = moments(builder.build(), [[float("nan")]])
    >>> mean, variance
    (array([[1.]]), array([[4.]]))
    """
    rows = check_rows(circuit, X)
    everything = np.arange(circuit.n_features)
    centre, (first, second), _ = _averages(circuit, rows, everything, everything[:0], 2)
    missing = np.isnan(rows)
    mean = np.where(missing, first + centre, rows)
    variance = np.where(missing, np.maximum(second - first**2, 0.0), 0.0)
    return mean, variance


def expected_cells(circuit: Circuit, X: Any, numbers: Any, categories: Any) -> Floats:
    """Fill each missing cell by itself: by its mean, or by its most probable state.

    All columns take one pass up and one down.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.
    numbers, categories : array-like of int
        The variables to fill by their means, and those to fill by their most probable states. The
        missing cells of other variables stay.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        The rows with these cells filled.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries.posteriors import expected_cells
    >>> builder = CircuitBuilder(n_states=[2, 0])
    >>> coin, number = builder.discrete(0, np.log([0.3, 0.7])), builder.gaussian(1, 5.0, 2.0)
    >>> _ = builder.product([coin, number])
    >>> expected_cells(builder.build(), [[np.nan, np.nan]], numbers=[1], categories=[0])
    array([[1., 5.]])
    """
    rows = check_rows(circuit, X)
    numbers, categories = np.asarray(numbers, int), np.asarray(categories, int)
    centre, (first,), probable = _averages(circuit, rows, numbers, categories, 1)
    filled = rows.copy()
    filled[:, numbers] = (first + centre)[:, numbers]
    filled[:, categories] = probable
    return np.where(np.isnan(rows), filled, rows)


def quantiles(circuit: Circuit, X: Any, levels: Any) -> Floats:
    """Posterior quantiles of the missing numbers of each row given its observed cells.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.
    levels : array-like of shape (n_levels,)
        Probabilities strictly between 0 and 1.

    Returns
    -------
    ndarray of shape (n_levels, n_rows, n_features)
        The number below which a missing cell lies with this probability. Observed cells keep
        their values. A missing category is NaN, because its states have no order.

    Raises
    ------
    ValueError
        If a level is not between 0 and 1, the observed cells of a row have probability zero, or
        cannot be read.

    Notes
    -----
    The posterior of a cell is a mixture. Its distribution function is inverted in closed form for
    bins and tails, and to the precision of floats for Gaussians.

    Examples
    --------
    >>> from skpc.circuit import CircuitBuilder
    >>> from skpc.queries import quantiles
    >>> builder = CircuitBuilder(n_states=[0])
    >>> _ = builder.gaussian(0, mean=1.0, sd=2.0)
    >>> quantiles(builder.build(), [[float("nan")]], [0.5, 0.975]).round(2)
    array([[[1.  ]],
    <BLANKLINE>
           [[4.92]]])
    """
    rows = check_rows(circuit, X)
    level = np.array(levels, dtype=np.float64)
    if level.ndim != 1 or not ((level > 0.0) & (level < 1.0)).all():
        raise ValueError(
            f"levels must be a list of probabilities strictly between 0 and 1, got {levels!r}"
        )
    out = np.repeat(rows[np.newaxis], len(level), axis=0)
    numbers = np.flatnonzero(~circuit.structure.is_categorical)
    for start in range(0, len(rows), _ROWS):
        part = slice(start, start + _ROWS)
        for var, cells in zip(numbers, posteriors(circuit, rows[part], numbers)):
            out[:, part, var] = [cells.quantile(float(q)) for q in level]
    return out


def _forms(circuit: Circuit, rows: Floats, wanted: Ints) -> list[Form]:
    """Distributions of the cells of some variables."""
    columns, leaves = circuit.columns, circuit.structure.leaves
    marks = np.zeros(circuit.n_features, dtype=bool)
    marks[wanted] = True
    lines = posterior_lines(leaves, circuit.param, columns, marks)
    average, reader = posterior_average(circuit, rows, lines), MultivariateReader(circuit)
    probs = [
        average[lines.first[group.leaf]]
        if marks[group.variables].any()
        else np.zeros((len(group.leaf), len(rows)))
        for group in reader.groups
    ]
    given, forms = reader.conditionals(rows, probs), []
    for var in wanted.tolist():
        of_var = average[lines_of(leaves, columns, lines, var)].T
        prob = _normalised(np.ascontiguousarray(of_var), rows[:, var])
        joint = reader.of_variable(given, var)
        forms.append(posterior_form(leaves, circuit.param, columns, var, prob, joint))
    return forms


def _normalised(prob: Floats, column: Floats) -> Floats:
    """Normalise away rounding; an observed cell takes the first part, which nobody looks at."""
    prob[~np.isnan(column)] = np.arange(prob.shape[1]) == 0
    return prob / prob.sum(axis=1, keepdims=True)


def _averages(
    circuit: Circuit, rows: Floats, numbers: Ints, categories: Ints, n_moments: int
) -> tuple[Floats, list[Floats], Floats]:
    """Moments of some variables and the most probable states of others, in one pass.

    Returns a typical value of each variable; the first moments of ``x`` less this value, shape
    (n_rows, n_features) each, to be read where a cell of one of the numbers is missing; and the
    states of the categories, shape (n_rows, n_categories).
    """
    leaves, columns, param = circuit.structure.leaves, circuit.columns, circuit.param
    n_features, reader = circuit.n_features, MultivariateReader(circuit)
    is_number, is_category = np.zeros((2, n_features), dtype=bool)
    is_number[numbers], is_category[categories] = True, True
    states = posterior_lines(leaves, param, columns, is_category)
    # Around a typical value of the column, the mean square does not drown the variance.
    alone = leaves.line == leaves.var
    var, of_leaf = leaves.var[alone], leaf_means(leaves, param, columns, np.zeros(n_features))
    total = np.bincount(var, of_leaf[alone, 0], n_features)
    centre = total / np.maximum(np.bincount(var, minlength=n_features), 1)
    of_leaf = leaf_means(leaves, param, columns, centre)[:, :n_moments]
    # Each number has a line for each moment; a leaf of several variables has one, for the
    # probability that it made the row.
    wanted = np.logical_or.reduceat(is_number[leaves.scope], leaves.scope_ptr[:-1])
    kept = np.repeat(wanted[:, np.newaxis], n_moments, axis=1)
    kept[:, 1:] &= alone[:, np.newaxis]
    moment = np.where(alone[:, np.newaxis], of_leaf, 1.0)[kept]
    has_states = np.diff(states.feature_ptr) > 0
    sizes = np.where(has_states, np.diff(states.feature_ptr), kept.sum(axis=1))
    feature = np.empty(sizes.sum())
    in_states = np.repeat(has_states, sizes)
    feature[in_states], feature[~in_states] = states.feature, moment
    n_alone, joint = n_moments * n_features, (leaves.line - n_features) // 2
    first = states.n_lines + np.where(alone, n_moments * leaves.var, n_alone + joint)
    first = np.where(has_states, states.first, first)
    n_lines = states.n_lines + n_alone + reader.n_leaves
    average = posterior_average(circuit, rows, Lines(offsets(sizes), feature, first, n_lines))
    probable = np.empty((len(rows), len(categories)))
    for place, category in enumerate(categories.tolist()):
        probable[:, place] = average[lines_of(leaves, columns, states, category)].argmax(axis=0)
    average = average[states.n_lines :]
    moments = [average[power:n_alone:n_moments].T for power in range(n_moments)]
    second = moments[1] if n_moments > 1 else np.zeros_like(moments[0])
    reader.add_moments(rows, average[n_alone:], centre, moments[0], second)
    return centre, moments, probable
