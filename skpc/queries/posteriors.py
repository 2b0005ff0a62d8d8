"""What is the distribution of each missing cell, given the rest of its row?

Its probabilities, moments and quantiles follow from averages over the leaves of its variable, each
weighted by the posterior probability that it made the row: one pass up and one down.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints, check_variables
from skpc.circuit import Circuit
from skpc.queries.passes.downward import posterior_average
from skpc.queries.passes.rows import MultivariateReader, check_events, check_rows
from skpc.variables import Form, Predictive
from skpc.variables.events import Events
from skpc.variables.forms import likely_parts, stacked
from skpc.variables.leaf_forms import lines_of, posterior_form, posterior_lines

#: Rows whose posteriors are held at a time.
_ROWS = 1024


def posteriors(circuit: Circuit, X: Any, variables: Any = None) -> list[Predictive]:
    """Posterior distribution of every cell given the observed cells of its row.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features), or Events
        Encoded rows; NaN marks the missing cells. Or events with intervals of other variables.
    variables : array-like of int or of bool, default=None
        The variables to return, or a mask of them; None returns all.

    Returns
    -------
    list of skpc.variables.Predictive
        One for each of these variables, in their order.

    Raises
    ------
    ValueError
        If the observed cells of a row have probability zero, or cannot be read; if an event has
        intervals of these variables, or of others that share a block with them.

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
    events = check_events(circuit, X)
    rows = events.rows
    chosen = range(circuit.n_features) if variables is None else variables
    wanted = check_variables(chosen, circuit.n_features)
    _refuse_stated(circuit, events, wanted)
    # Leaves of several variables say something else of a cell in each row, which takes room.
    step = _ROWS if circuit.multivariate else max(len(rows), 1)
    every = [slice(None)] * len(wanted)
    parts = []
    for start in range(0, max(len(rows), 1), step):
        part = np.arange(start, min(start + step, len(rows)))
        forms_of_part = _forms(circuit, rows[part], wanted, every, events.take(part))
        parts.append(list(map(likely_parts, forms_of_part)))
    predictives = []
    for var, forms in zip(wanted.tolist(), zip(*parts)):
        # Bins of a histogram axis are no labels: their cells are numbers.
        labels = np.arange(circuit.n_states[var]) if circuit.structure.is_categorical[var] else None
        predictives.append(Predictive([stacked(forms)], rows[:, var], labels))
    return predictives


def _refuse_stated(circuit: Circuit, events: Events, wanted: Ints) -> None:
    """Refuse intervals of variables that are wanted, or share a block with such a variable."""
    scopes = [{var} for var in wanted.tolist()]
    scopes += [scope for leaf in circuit.multivariate if (scope := {*leaf.variables}) & {*wanted}]
    stated = sorted(set().union(*scopes) & {*events.column})
    if stated:
        raise ValueError(
            f"the distribution of variables {wanted.tolist()} given a range of variable "
            f"{stated[0]}, which is one of them or in a block of numbers with them, is no mixture "
            "of leaves; draw rows given the range instead"
        )


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
    # Numbers without an axis have no states, and need no pass.
    state_columns = np.flatnonzero(circuit.n_states).tolist()
    predictive = dict(zip(state_columns, posteriors(circuit, X, state_columns)))
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
    mean = rows.copy()
    variance = np.zeros_like(rows)
    for cell, form in _missing_cells(circuit, rows, np.arange(circuit.n_features)):
        mean[cell] = form.means()
        # Rounding could leave a tiny negative number.
        variance[cell] = np.maximum(form.mean_squares(mean[cell]), 0.0)
    return mean, variance


def expected_cells(circuit: Circuit, X: Any, variables: Any) -> Floats:
    """Fill each missing cell by itself: means of numbers, the most probable states of categories.

    All columns take one pass up and one down.

    Parameters
    ----------
    circuit : Circuit
        The distribution.
    X : array-like of shape (n_rows, n_features)
        Encoded rows; NaN marks the missing cells.
    variables : array-like of int
        The variables to fill. The missing cells of others stay.

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
    >>> coin, number = (
    ...     builder.discrete(0, np.log([0.3, 0.7])),
    ...     builder.gaussian(1, 5.0, 2.0),
    ... )
    >>> _ = builder.product([coin, number])
    >>> expected_cells(builder.build(), [[np.nan, np.nan]], [0, 1])
    array([[1., 5.]])
    """
    rows = check_rows(circuit, X)
    filled = rows.copy()
    is_category = circuit.structure.is_categorical
    for cell, form in _missing_cells(circuit, rows, check_variables(variables, circuit.n_features)):
        filled[cell] = form.prob.argmax(axis=1) if is_category[cell[1]] else form.means()
    return filled


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
    # States have no order, and so no quantiles: their missing cells stay NaN.
    numbers = np.flatnonzero(~circuit.structure.is_categorical)
    for (row, var), form in _missing_cells(circuit, rows, numbers):
        out[:, row, var] = [likely_parts(form).quantiles(q) for q in level.tolist()]
    return out


def _missing_cells(
    circuit: Circuit, rows: Floats, wanted: Ints
) -> Iterator[tuple[tuple[Ints, int], Form]]:
    """The missing cells of some variables, and their distributions, some rows at a time."""
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        # Posteriors of observed cells are known without a form.
        missing = [np.flatnonzero(np.isnan(part[:, var])) for var in wanted]
        forms = _forms(circuit, part, wanted, missing)
        for var, row, form in zip(wanted.tolist(), missing, forms):
            yield (start + row, var), form


def _forms(
    circuit: Circuit,
    rows: Floats,
    wanted: Ints,
    chosen: Sequence[Ints | slice],
    events: Events | None = None,
) -> Iterator[Form]:
    """Distributions of the cells of some variables in the rows that are chosen for each."""
    columns = circuit.columns
    leaves = circuit.structure.leaves
    # Leaves of other variables need no lines in the pass down.
    marks = np.zeros(circuit.n_features, dtype=bool)
    marks[wanted] = True
    lines = posterior_lines(leaves, circuit.param, columns, marks)
    average = posterior_average(circuit, rows, lines, events)
    reader = MultivariateReader(circuit)
    # (n_leaves, n_rows) for each block; zeros where none of its variables is wanted.
    probs = [
        average[lines.first_line[group.leaf]]
        if marks[group.variables].any()
        else np.zeros((len(group.leaf), len(rows)))
        for group in reader.groups
    ]
    given = reader.conditionals(rows, probs)
    for var, chosen_rows in zip(wanted.tolist(), chosen):
        # (n_chosen, n_parts): one mixture a row.
        prob = np.ascontiguousarray(
            average[lines_of(leaves, columns, lines, var)][:, chosen_rows].T
        )
        # An observed cell takes the first part, which nobody looks at.
        prob[~np.isnan(rows[chosen_rows, var])] = np.arange(prob.shape[1]) == 0
        # Rounding is normalised away.
        prob /= prob.sum(axis=1, keepdims=True)
        joint = reader.of_variable(given, var, chosen_rows)
        yield posterior_form(leaves, circuit.param, columns, var, prob, joint)
