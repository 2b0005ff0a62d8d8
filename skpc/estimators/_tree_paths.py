"""Models that are sums over paths of trees, or over columns, and the expectation of such sums.

A path is a conjunction of statements about columns, so its probability given the cells that a row
has is that of an event.
"""

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from skpc._arrays import Bools, Floats, Ints, offsets
from skpc._threads import slices
from skpc.densities import CircuitAnswers, Density
from skpc.domain import Domain
from skpc.estimators._boosters import BoosterModel, link_of, linked
from skpc.estimators._trees import Tree
from skpc.queries import Events, Paths, expected_value

#: Disjoint intervals in order, each open below.
Intervals = tuple[tuple[float, float], ...]
#: What a path says of columns, and what it adds.
Path = tuple[dict[int, Any], Floats]
_EVERYTHING = (-np.inf, np.inf)


class ModelColumns(NamedTuple):
    """The columns that a model reads, each made from one column of encoded rows.

    Parameters
    ----------
    source : ndarray of int of shape (n_model_columns,)
        The column of the rows.
    values : list of ndarray of shape (n_states,), or None
        Its value for each state of a category; None for a number, which stays as it is.
    """

    source: Ints
    values: list[Any]

    @classmethod
    def from_states(cls, n_states: Ints, one_hot: bool) -> Self:
        """Codes of categories, or a column for each state; ``n_states`` is 0 for numbers."""
        source: list[int] = []
        values: list[Any] = []
        for column, n in enumerate(n_states.tolist()):
            # One column tells two states apart.
            made = [*np.eye(n)] if one_hot and n > 2 else [np.arange(float(n))]
            values += made if n else [None]
            source += [column] * (len(made) if n else 1)
        return cls(np.array(source, dtype=np.int64), values)

    def of(self, rows: Floats) -> Floats:
        """The matrix that the model reads, for complete rows."""
        made = [
            rows[:, column] if value is None else value[rows[:, column].astype(np.int64)]
            for column, value in zip(self.source.tolist(), self.values)
        ]
        return np.column_stack(made)


class LinearSum(NamedTuple):
    """A linear function of the columns that a model reads; for the methods see TreePaths."""

    columns: ModelColumns
    coef: Floats
    intercept: Any

    def at(self, rows: Floats) -> Floats:
        """The value at complete rows."""
        return self._of(self.columns.of(rows))

    def expected(self, density: Density, rows: Floats) -> Floats:
        """The value at the means of all columns that the model reads."""
        filled = density.means(rows)
        source = self.columns.source.tolist()
        stated = sorted({c for c, value in zip(source, self.columns.values) if value is not None})
        prob = dict(zip(stated, density.posteriors(rows, stated) if stated else ()))
        # A category is read by the probabilities of its states, a number by its mean.
        made = [
            filled[:, column] if value is None else prob[column].probabilities @ value
            for column, value in zip(source, self.columns.values)
        ]
        return self._of(np.column_stack(made))

    def _of(self, matrix: Floats) -> Floats:
        return (matrix @ self.coef.T + self.intercept).reshape(len(matrix), -1)


class TreePaths(NamedTuple):
    """The paths of all trees of a model, whose value is the sum over the paths that a row takes.

    Parameters
    ----------
    statements : Events
        Those of the paths, as the model compares cells.
    paths : Paths
        The paths; on a lattice their statements hold whole cells.
    offset : ndarray of shape (n_outputs,)
        What they are added to.
    """

    statements: Events
    paths: Paths
    offset: Floats

    @classmethod
    def of_paths(cls, paths: list[Path], domain: Domain) -> Self:
        """Those of paths that are read from trees, added to zero."""
        numbering: dict[Any, int] = {}
        numbered = [_numbered(said, numbering) for said, _ in paths]
        # The first statement says nothing.
        statements = [(0, (_EVERYTHING,)), *numbering]
        flat = [
            (number, column, *ends)
            for number, (column, intervals) in enumerate(statements)
            for ends in intervals
        ]
        event, place, low, high = map(np.array, zip(*flat))
        # Statements are events of rows without a known cell.
        nothing = np.full((len(statements), domain.n_features), np.nan)
        stated = Events.from_intervals(nothing, event, place, low, high)
        # Ends as the model has them are for known cells; those of the law are for missing ones.
        cell_low = low.copy()
        cell_high = high.copy()
        for column in np.flatnonzero(~domain.is_categorical).tolist():
            number = domain[column].law
            chosen = place == column
            if number is not None and chosen.any():
                # A value of the column belongs to what the model takes it for.
                closed = np.array([~(number.known(low) <= low), ~(number.known(high) > high)])
                ends = number.intervals(low[chosen], high[chosen], closed[:, chosen])
                cell_low[chosen], cell_high[chosen] = ends
        events = Events.from_intervals(nothing, event, place, cell_low, cell_high)
        columns = np.array([column for column, _ in statements])
        # Lists in one, with offsets: path k has the statements said[ptr[k] : ptr[k + 1]].
        ptr = offsets([len(path) for path in numbered])
        value = np.array([leaf for _, leaf in paths])
        said = np.array([number for path in numbered for number in path])
        return cls(stated, Paths(events, columns, ptr, said, value), np.zeros(value.shape[1]))

    def at(self, rows: Floats) -> Floats:
        """The value at complete rows, shape (n_rows, n_outputs)."""
        paths = self.paths
        # (n_rows, n_paths): a row takes a path if it fulfils all that the path says.
        taken = np.logical_and.reduceat(self._hold(rows)[:, paths.said], paths.ptr[:-1], axis=1)
        return self.offset + taken @ paths.value

    def expected(self, density: Any, rows: Floats) -> Floats:
        """The expected value given the cells that rows have, shape (n_rows, n_outputs).

        Raises
        ------
        ValueError
            If the cells of a row have probability zero.
        """
        # Statements of paths, times rows, that are compared at a time.
        compared = 2**24
        parts = [
            expected_value(density.circuit, rows[part], self.paths, self._hold(rows[part]))
            for part in slices(len(rows), max(1, compared // len(self.paths.column)))
        ]
        return self.offset + np.concatenate(parts)

    def answering(self, function: Callable[[Floats], Floats]) -> Self:
        """The expectations of a function of the value, where each row takes one path alone."""
        value = function(self.offset + self.paths.value)
        return self._replace(
            paths=self.paths._replace(value=value), offset=np.zeros(value.shape[1])
        )

    def _hold(self, rows: Floats) -> Bools:
        """Which statements the cells that rows have fulfil, shape (n_rows, n_statements)."""
        events = self.statements
        cell = rows[:, events.column]
        # (n_rows, n_intervals) becomes (n_rows, n_statements): one interval of several is enough.
        inside = (events.low < cell) & (cell <= events.high)
        holds: Bools = np.logical_or.reduceat(inside, events.ptr[:-1], axis=1)
        # Statement 0 is true of missing cells too, which no comparison is.
        holds[:, 0] = True
        return holds


def paths_of(tree: Tree, columns: ModelColumns) -> list[Path]:
    """The paths of a tree that something fulfils."""
    stack: list[tuple[int, dict[int, Any]]] = [(0, {})]
    left = tree.left.tolist()
    right = tree.right.tolist()
    paths = []
    while stack:
        node, said = stack.pop()
        if left[node] < 0:
            paths.append((said, tree.value[node]))
            continue
        column, sides = _sides(tree, node, columns)
        for child, side in zip((left[node], right[node]), sides):
            narrowed = _both(said[column], side) if column in said else side
            # No row takes a way that contradicts itself.
            if _is_possible(narrowed):
                stack.append((child, said | {column: narrowed}))
    return paths


def joint_paths(trees: list[list[Path]], most_paths: int) -> list[Path] | None:
    """What rows say that take one path of each tree, with the sums of the values; None if many."""
    # Pairs of paths that are tried, for each of these.
    pairs = 16
    joint = trees[0]
    n_pairs = 0
    for paths in trees[1:]:
        # Most pairs contradict each other where columns are few: these take time too.
        n_pairs += len(joint) * len(paths)
        if n_pairs > pairs * most_paths:
            return None
        longer = []
        for (said, value), (statements, added) in itertools.product(joint, paths):
            joined = said | {
                column: _both(said[column], statement) if column in said else statement
                for column, statement in statements.items()
            }
            if all(_is_possible(joined[column]) for column in statements):
                longer.append((joined, value + added))
        if len(longer) > most_paths:
            return None
        joint = longer
    return joint


def _sides(tree: Tree, node: int, columns: ModelColumns) -> tuple[int, tuple[Any, Any]]:
    """The column that a node divides, and what it says of it on either side.

    Intervals of numbers, or marks of states.
    """
    number = int(tree.column[node])
    threshold = float(tree.threshold[node])
    values = columns.values[number]
    # What lies in this interval counts as missing, and goes the way of the default.
    low, high = tree.missing
    goes_left = tree.default.get(node)
    if values is not None:
        is_left = values <= threshold
        if node in tree.states:
            is_left = np.isin(values, tree.states[node])
        elif goes_left is not None:
            is_left[(low < values) & (values <= high)] = goes_left
        return int(columns.source[number]), (is_left, ~is_left)
    is_left = ((-np.inf, threshold),)
    if node in tree.states:
        is_left = tuple((code - 0.5, code + 0.5) for code in tree.states[node].tolist())
    elif goes_left and high > threshold:
        # Missing values lie beyond the threshold, and go left all the same.
        is_left = (*is_left, (low, high))
    elif goes_left is False and high <= threshold:
        # Missing values lie below the threshold, and leave a gap there as they go right.
        is_left = ((-np.inf, low), (high, threshold))
    return int(columns.source[number]), (is_left, _outside(is_left))


def _is_possible(statement: Any) -> bool:
    return len(statement) > 0 and (isinstance(statement, tuple) or bool(statement.any()))


def _numbered(said: dict[int, Any], numbering: dict[Any, int]) -> list[int]:
    """The numbers of what a path says, from 1; 0 says nothing."""
    numbers = [0]
    for column, statement in sorted(said.items()):
        # Intervals can be the key of a dict, which an array of marks cannot.
        ends = statement if isinstance(statement, tuple) else _runs(statement)
        numbers.append(numbering.setdefault((column, ends), len(numbering) + 1))
    return numbers


def _both(left: Any, right: Any) -> Any:
    """What two statements about a column say together."""
    if not isinstance(left, tuple):
        return left & right
    ends = ((max(low, start), min(high, stop)) for low, high in left for start, stop in right)
    return tuple((low, high) for low, high in ends if low < high)


def _outside(intervals: Intervals) -> Intervals:
    """The numbers in none of some ordered intervals."""
    # What lies between the end of an interval and the begin of the next is outside.
    ends = [-np.inf, *(end for interval in intervals for end in interval), np.inf]
    between = zip(ends[::2], ends[1::2])
    return tuple((low, high) for low, high in between if low < high)


def _runs(is_inside: Bools) -> Intervals:
    """Intervals of codes for a set of states."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], is_inside, [False]])))
    return tuple((a - 0.5, b - 0.5) for a, b in change.reshape(-1, 2).tolist())


class ModelSum(NamedTuple):
    """What a fitted model sums.

    Parameters
    ----------
    method : str
        The method of the model that returns the sum.
    total : LinearSum or TreePaths
        The sum.
    joint : TreePaths or None
        Paths of all trees at once, where there are few: a row takes one of them.
    links : dict from str to str or None
        The methods of the model, and the functions of the sum that they are, if any.
    """

    method: str
    total: LinearSum | TreePaths
    joint: TreePaths | None
    links: dict[str, str | None]

    def of_method(self, method: str) -> LinearSum | TreePaths | None:
        """What has the expectations of a method; None if nothing does."""
        return self.total if self.links.get(method) == "identity" else self._joint_of(method)

    def _joint_of(self, method: str) -> TreePaths | None:
        """Paths of all trees at once that have the answers of a method."""
        link = self.links.get(method)
        if self.joint is None or link is None:
            return None
        return self.joint.answering(partial(linked, link))

    def moments(self, method: str) -> TreePaths | None:
        """What has the expectations of the centred answers of a method and of their squares."""
        answers = self._joint_of(method)
        if answers is None:
            return None
        # About a centre, since squares of large answers would leave few digits of a variance.
        centre = answers.paths.value.mean(axis=0)
        return answers.answering(lambda value: np.hstack([value - centre, (value - centre) ** 2]))


def read_sum(
    model: Any,
    trees: Iterable[Tree] | None,
    columns: ModelColumns,
    density: Density,
    rows: Floats,
    answer: Callable[[str], Any],
) -> ModelSum | None:
    """What a fitted model sums.

    Parameters
    ----------
    model : estimator
        Models of trees and linear models are sums. Any other model, and one whose answers differ
        from its sum, is none.
    trees : list of Tree or None
        Its trees, where it has any.
    columns : ModelColumns
        What it reads.
    density : Density
        The distribution of the rows. Expectations over paths need a circuit whose leaves have one
        column each.
    rows : ndarray of shape (n_rows, n_features)
        Complete encoded rows on which the sum must have the answers of the model.
    answer : callable
        The answer of a method of the model for these rows.
    """
    is_circuit = isinstance(density, CircuitAnswers) and not density.circuit.multivariate
    paths = None
    if trees is not None:
        if not is_circuit:
            return None
        paths = [paths_of(tree, columns) for tree in trees]
        every_path = [path for tree_paths in paths for path in tree_paths]
        total: Any = TreePaths.of_paths(every_path, density.domain)
    elif hasattr(model, "coef_"):
        if np.shape(model.coef_)[-1] != len(columns.source):
            return None
        total = LinearSum(columns, np.asarray(model.coef_), model.intercept_)
    else:
        return None
    methods = ["predict", "decision_function"]
    # Margins come first: only forests and trees have probabilities that are sums.
    if hasattr(model, "classes_"):
        methods = ["decision_function", "predict_proba"]
    answers = {
        method: np.reshape(answer(method), (len(rows), -1))
        for method in methods
        if hasattr(model, method)
    }
    value = total.at(rows)
    # Paths of all trees at once, up to which answers that are no sums are exact.
    most_joint = 4096
    for method, method_answer in answers.items():
        if value.shape != method_answer.shape:
            continue
        if paths is not None:
            # What trees are added to, such as the mean of the target.
            total = total._replace(offset=(method_answer - value).mean(axis=0))
        # Whether the sum is the answer is not assumed, but checked on drawn rows.
        margin = total.at(rows)
        if link_of(margin, method_answer) == "identity":
            joint = None
            joined = None if paths is None else joint_paths(paths, most_joint)
            if joined is not None:
                joint = TreePaths.of_paths(joined, density.domain)._replace(offset=total.offset)
            # The other answers may be functions of the sum, as probabilities are of margins.
            links = {name: link_of(margin, each) for name, each in answers.items()}
            return ModelSum(method, total, joint, links)
    if isinstance(model, BoosterModel):
        model.goes_by_draws("its answers are no function of their sum")
    return None
