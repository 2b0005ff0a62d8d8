"""The distribution of each missing cell, given the observed cells of its row.

Probabilities, moments and quantiles of a cell are averages over the leaves of its variable. The
weight of a leaf is the posterior probability that it generated the cell. One pass up and one down
find these weights for all variables.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from skpc._arrays import Floats, Ints, check_variables
from skpc._threads import slices
from skpc.circuit import Circuit
from skpc.queries.passes.blocks import BlockReader
from skpc.queries.passes.downward import posterior_average
from skpc.queries.passes.rows import check_events, check_rows
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
        One for each of the variables, in the order in which they are given.

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
    # The conditional of a cell under a block differs from row to row, which takes memory.
    step = _ROWS if circuit.multivariate else max(len(rows), 1)
    all_rows = [slice(None)] * len(wanted)
    parts = []
    for start in range(0, max(len(rows), 1), step):
        part = np.arange(start, min(start + step, len(rows)))
        part_forms = _forms(circuit, rows[part], wanted, all_rows, events.take(part))
        parts.append(list(map(likely_parts, part_forms)))
    predictives = []
    for var, forms in zip(wanted.tolist(), zip(*parts)):
        # The states of a histogram axis are no labels, as its cells are numbers.
        labels = np.arange(circuit.n_states[var]) if circuit.structure.is_categorical[var] else None
        predictives.append(Predictive([stacked(forms)], rows[:, var], labels))
    return predictives


def _refuse_stated(circuit: Circuit, events: Events, wanted: Ints) -> None:
    """Refuse intervals of wanted variables, or of variables in a block with a wanted one."""
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
    """Fill each missing cell by itself: numbers by means, categories by the most probable state.

    One pass up and one down serve all columns.

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
    """The missing cells of each wanted variable with their distributions, chunk by chunk."""
    for chunk in slices(len(rows), _ROWS):
        part = rows[chunk]
        # Posteriors of observed cells are known without a form.
        missing = [np.flatnonzero(np.isnan(part[:, var])) for var in wanted]
        forms = _forms(circuit, part, wanted, missing)
        for var, row, form in zip(wanted.tolist(), missing, forms):
            yield (chunk.start + row, var), form


def _forms(
    circuit: Circuit,
    rows: Floats,
    wanted: Ints,
    chosen: Sequence[Ints | slice],
    events: Events | None = None,
) -> Iterator[Form]:
    """For each wanted variable, the distributions of its cells in the rows chosen for it."""
    columns = circuit.columns
    leaves = circuit.structure.leaves
    # Leaves of other variables need no lines in the pass down.
    is_wanted = np.zeros(circuit.n_features, dtype=bool)
    is_wanted[wanted] = True
    lines = posterior_lines(leaves, circuit.param, columns, is_wanted)
    average = posterior_average(circuit, rows, lines, events)
    reader = BlockReader(circuit)
    # (n_leaves, n_rows) for each scope of blocks; zeros where none of its variables is wanted.
    probs = [
        average[lines.first_line[group.leaf]]
        if is_wanted[group.variables].any()
        else np.zeros((len(group.leaf), len(rows)))
        for group in reader.groups
    ]
    block_moments = reader.conditionals(rows, probs)
    for var, chosen_rows in zip(wanted.tolist(), chosen):
        # (n_chosen, n_parts): one mixture a row.
        prob = np.ascontiguousarray(
            average[lines_of(leaves, columns, lines, var)][:, chosen_rows].T
        )
        # An observed cell needs weights, too: it takes the first part, which nobody looks at.
        prob[~np.isnan(rows[chosen_rows, var])] = np.arange(prob.shape[1]) == 0
        # Rounding has changed the sums of the weights.
        prob /= prob.sum(axis=1, keepdims=True)
        conditionals = reader.conditionals_of(block_moments, var, chosen_rows)
        yield posterior_form(leaves, circuit.param, columns, var, prob, conditionals)
