"""The factor graph: an unnormalised distribution of discrete variables."""

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from skpc._arrays import SMALLEST_NORMAL, Floats, check_variables, log_or_inf, one_or_each
from skpc._cells import rows_of_numbers

Factor = tuple[Sequence[int], Any]


class FactorGraph:
    """A product of non-negative tables, each of a few discrete variables.

    It describes the distribution :math:`p(x) = \\frac{1}{Z} \\prod_f \\phi_f(x_f)`; you need not
    know the constant ``Z``. Rows are encoded as for circuits: float64, the states of a
    variable are 0, 1, ..., and NaN marks a cell that is not known.

    Parameters
    ----------
    n_states : sequence of int of shape (n_variables,)
        Number of states of each variable, 1 or more.
    factors : iterable of (variables, log_table)
        The variables of each factor, without repetition, and the logs of its values in an array
        with one axis for each variable:
        ``log_table.shape == tuple(n_states[v] for v in variables)``.
        ``-inf`` stands for the value 0.

    Attributes
    ----------
    n_states : int64 array of shape (n_variables,)
        Numbers of states.
    scopes : tuple of tuples of int
        The variables of each factor.
    log_tables : tuple of ndarrays
        The logs of the values of each factor, read-only.
    n_variables, n_factors : int
        Sizes.

    Raises
    ------
    ValueError
        If a number of states is not positive, a factor names a variable twice or one that does not
        exist, or a table has the wrong shape, NaN, or an infinite value.

    See Also
    --------
    read_uai : Reads one from a file.
    compile : Makes a circuit from it.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.factor_graphs import FactorGraph
    >>> graph = FactorGraph(
    ...     [2, 3], [((0, 1), np.log([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))]
    ... )
    >>> graph
    FactorGraph(n_variables=2, n_factors=1)
    >>> np.exp(graph.log_score([[1, 0], [0, 2]])).round(12)
    array([4., 3.])
    """

    def __init__(self, n_states: Sequence[int] | Floats, factors: Iterable[Factor]) -> None:
        sizes = np.asarray(n_states)
        is_number = sizes.ndim == 1 and sizes.dtype.kind in "iuf" and np.isfinite(sizes).all()
        is_number = is_number and np.all((sizes >= 1) & (sizes == np.floor(sizes)))
        # An index of 32 bits can say no more states.
        if not is_number or sizes.max(initial=1) > 2**31 - 1:
            raise ValueError(
                f"n_states needs a whole number up to {2**31 - 1}, 1 or more for each variable, "
                f"got {sizes.tolist()}"
            )
        self.n_states = sizes.astype(np.int64)
        self.n_states.flags.writeable = False
        scopes = []
        log_tables = []
        for number, (variables, log_table) in enumerate(factors):
            scope = _checked_scope(number, variables, len(self.n_states))
            # An axis for each variable.
            shape = tuple(self.n_states[list(scope)].tolist())
            scopes.append(scope)
            log_tables.append(_checked_table(number, log_table, shape))
        self.scopes = tuple(scopes)
        self.log_tables = tuple(log_tables)

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.n_states)

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return len(self.scopes)

    def __repr__(self) -> str:
        return f"FactorGraph(n_variables={self.n_variables}, n_factors={self.n_factors})"

    def log_score(self, X: Any) -> Floats:
        """Log of the product of all factors.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_variables)
            Complete rows of states.

        Returns
        -------
        ndarray of shape (n_rows,)
            ``log p(x) + log Z`` in nats; -inf for impossible rows.

        Raises
        ------
        ValueError
            If the shape is wrong, or a cell is missing or is not a state.
        """
        rows = self.check_rows(X)
        if np.isnan(rows).any():
            row, variable = np.argwhere(np.isnan(rows))[0]
            raise ValueError(f"X must hold complete rows, but X[{row}, {variable}] is missing")
        states = rows.astype(np.int64)
        total = np.zeros(len(rows))
        for scope, table in zip(self.scopes, self.log_tables):
            # An index for each axis looks up one entry for each row.
            index = tuple(states[:, variable] for variable in scope)
            total += table[index]
        return total

    def check_rows(self, X: Any) -> Floats:
        """Rows as a float64 array of shape (n_rows, n_variables), every cell a state or NaN.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_variables)
            Rows of states; NaN marks missing cells.

        Returns
        -------
        ndarray of shape (n_rows, n_variables)
            A new array.

        Raises
        ------
        ValueError
            If the shape is wrong, or a cell is neither NaN nor a state.
        """
        rows = rows_of_numbers(X, self.n_variables).copy()
        is_state = (rows >= 0) & (rows < self.n_states) & (rows == np.floor(rows))
        bad = np.argwhere(~is_state & ~np.isnan(rows))
        if len(bad):
            row, variable = bad[0]
            raise ValueError(
                f"X[{row}, {variable}] must be one of the states 0..{self.n_states[variable] - 1} "
                f"or NaN (missing), got {rows[row, variable]}"
            )
        return rows

    @classmethod
    def ising_grid(
        cls, rows: int, cols: int, coupling: Any = None, field: Any = None, random_state: Any = None
    ) -> Self:
        """Binary variables on a grid, with a factor for each pair of neighbours.

        Variables are numbered row by row. The factors of horizontal neighbours come first, then
        those of vertical ones, then those of single variables. State 0 is the spin -1.

        Parameters
        ----------
        rows, cols : int
            Size of the grid.
        coupling : float or array-like of shape (n_edges,), default=None
            The factor of two neighbours is exp(coupling * spin * spin). None draws every entry
            of their tables uniformly from (0, 1), as in section 7.2 of the paper.
        field : float or array-like of shape (rows * cols,), default=None
            The factor of a variable is exp(field * spin). None adds no such factors.
        random_state : int, RandomState instance or None, default=None
            Draws the tables if ``coupling`` is None.

        Returns
        -------
        FactorGraph
            The model.

        Examples
        --------
        >>> from skpc.factor_graphs import FactorGraph
        >>> FactorGraph.ising_grid(4, 4, coupling=0.5)
        FactorGraph(n_variables=16, n_factors=24)
        """
        if rows < 1 or cols < 1:
            raise ValueError(f"rows and cols must be 1 or more, got {rows} and {cols}")
        # Sites are numbered row by row; edges lead to the right and down.
        n_sites = rows * cols
        number = np.arange(n_sites).reshape(rows, cols)
        across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
        down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
        edges = np.concatenate([across, down])
        spin = np.array([-1.0, 1.0])
        if coupling is None:
            draw = check_random_state(random_state).uniform
            # A zero would make a state impossible.
            tables = np.log(draw(SMALLEST_NORMAL, 1.0, size=(len(edges), 2, 2)))
        else:
            needed = "coupling must be a finite number"
            strength = one_or_each(coupling, len(edges), needed, "edges")
            tables = strength[:, np.newaxis, np.newaxis] * np.outer(spin, spin)
        # Tables hold the log of the weight of two states: coupling times both spins.
        factors: list[Factor] = list(zip(edges.tolist(), tables))
        if field is not None:
            strength = one_or_each(field, n_sites, "field must be a finite number", "sites")
            factors += [((site,), strength[site] * spin) for site in range(n_sites)]
        return cls(np.full(n_sites, 2), factors)

    @classmethod
    def from_bayesian_network(cls, cpts: Sequence[tuple[Sequence[int], Any]]) -> Self:
        """The factor graph of a Bayesian network, whose constant is one.

        Parameters
        ----------
        cpts : sequence of (parents, table), one for each variable
            ``table[states of the parents][state]`` is the probability of a state of the variable:
            the last axis belongs to the variable itself.

        Returns
        -------
        FactorGraph
            One factor for each variable, the variable itself last in its scope.

        Raises
        ------
        ValueError
            If the probabilities given some parents do not sum to one, or the parents form a cycle.

        Examples
        --------
        >>> from skpc.factor_graphs import FactorGraph
        >>> rain = ((), [0.8, 0.2])
        >>> wet = ((0,), [[0.9, 0.1], [0.1, 0.9]])
        >>> FactorGraph.from_bayesian_network([rain, wet])
        FactorGraph(n_variables=2, n_factors=2)
        """
        tables = [np.asarray(table, float) for _, table in cpts]
        for variable, table in enumerate(tables):
            check_conditional(variable, table)
        _refuse_cycle([parents for parents, _ in cpts])
        # The variable itself has the last axis.
        scopes = [(*parents, variable) for variable, (parents, _) in enumerate(cpts)]
        n_states = [table.shape[-1] for table in tables]
        return cls(n_states, zip(scopes, map(log_or_inf, tables)))


def _checked_scope(number: int, scope: Sequence[int], n_variables: int) -> tuple[int, ...]:
    name = f"the variables of factor {number}"
    variables = tuple(check_variables([*scope], n_variables, name).tolist())
    if len(set(variables)) < len(variables):
        raise ValueError(f"factor {number} needs distinct variables, got {list(variables)}")
    return variables


def _checked_table(number: int, given: Any, shape: tuple[int, ...]) -> Floats:
    table = np.array(given, dtype=np.float64, order="C")
    if table.shape != shape:
        raise ValueError(
            f"the table of factor {number} must have shape {shape}, the numbers of states of its "
            f"variables, got {table.shape}"
        )
    bad = table[np.isnan(table) | (table == np.inf)]
    if len(bad):
        raise ValueError(
            f"the log table of factor {number} must be finite or -inf, got {bad.flat[0]}"
        )
    # Graphs share their tables, and what has been checked stays as it is.
    table.flags.writeable = False
    return table


def check_conditional(variable: int, table: Floats) -> None:
    """Refuse a table that is no conditional distribution of a variable."""
    if table.ndim == 0 or table.size == 0:
        raise ValueError(f"the table of variable {variable} needs an axis for its own states")
    total = table.sum(axis=-1)
    error = np.abs(total - 1.0)
    # Tables on disk have few digits; NaN is no error that is small.
    if np.any(table < 0) or not np.all(error <= 1e-6):
        worst = total.flat[int(np.argmax(error))]
        raise ValueError(
            f"the probabilities of variable {variable} must be non-negative and sum to 1 over "
            f"the last axis, given any states of its parents; found a sum of {worst:.9g} and a "
            f"least entry of {table.min():.9g}"
        )


def _refuse_cycle(parents: Sequence[Sequence[int]]) -> None:
    try:
        TopologicalSorter(dict(enumerate(parents))).prepare()
    except CycleError as error:
        raise ValueError(
            "the parents of a Bayesian network must form no cycle, but variables "
            f"{sorted(set(error.args[1]))[:8]} lie on one"
        ) from error
