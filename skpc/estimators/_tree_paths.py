"""Models that are sums over paths of trees, or over columns, and the expectation of such sums.

A path is a conjunction of statements about columns, so its probability given the cells that a row
has is that of an event.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.tree import BaseDecisionTree
from sklearn.utils import gen_batches

from skpc._arrays import Bools, Floats, Ints, offsets
from skpc._validation import hist_predictors
from skpc.densities import CircuitAnswers, Density
from skpc.domain import Domain
from skpc.queries import Events, Paths, expected_value

#: Statements of paths, times rows, that are compared at a time.
_COMPARED = 2**20


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
        filled, source = density.means(rows), self.columns.source.tolist()
        stated = [c for c, value in zip(source, self.columns.values) if value is not None]
        stated = sorted({*stated})
        prob = dict(zip(stated, density.posteriors(rows, stated) if stated else ()))
        made = [
            filled[:, column] if value is None else prob[column].probabilities @ value
            for column, value in zip(source, self.columns.values)
        ]
        return self._of(np.column_stack(made))

    def _of(self, matrix: Floats) -> Floats:
        return (matrix @ self.coef.T + self.intercept).reshape(len(matrix), -1)


class _Tree(NamedTuple):
    """The nodes of a tree; ``left`` is -1 at leaves, ``states`` sets of codes that go left."""

    left: Ints
    right: Ints
    column: Ints
    threshold: Floats
    value: Floats
    states: dict[int, Ints]
    in_single: bool


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
    in_single : bool
        Whether cells are rounded to float32 before they are compared.
    """

    statements: Events
    paths: Paths
    offset: Floats
    in_single: bool

    @classmethod
    def of_trees(cls, trees: list[_Tree], columns: ModelColumns, domain: Domain) -> Self:
        """Those of some trees, added to zero."""
        reader = _Reader(columns)
        for tree in trees:
            reader.read(tree)
        # The first statement says nothing.
        said: list[Any] = [(0, ((-np.inf, np.inf),)), *reader.number]
        flat = [(i, one, *ends) for i, (one, several) in enumerate(said) for ends in several]
        numbers, of_interval, low, high = map(np.array, zip(*flat))
        nothing = np.full((len(said), domain.n_features), np.nan)
        first, last = low.copy(), high.copy()
        for place in np.flatnonzero(~domain.is_categorical).tolist():
            number, some = domain[place].law, np.flatnonzero(of_interval == place)
            if number is not None and len(some):
                closed = np.array([[False], [True]])
                first[some], last[some] = number.intervals(low[some], high[some], closed)
        events = Events.from_intervals(nothing, numbers, of_interval, first, last)
        column = np.array([one for one, _ in said])
        ptr, value = offsets([len(path) for path in reader.paths]), np.array(reader.values)
        return cls(
            Events.from_intervals(nothing, numbers, of_interval, low, high),
            Paths(events, column, ptr, np.concatenate(reader.paths), value),
            np.zeros(value.shape[1]),
            trees[0].in_single,
        )

    def at(self, rows: Floats) -> Floats:
        """The value at complete rows, shape (n_rows, n_outputs)."""
        paths = self.paths
        taken = np.logical_and.reduceat(self._hold(rows)[:, paths.said], paths.ptr[:-1], axis=1)
        return self.offset + taken @ paths.value

    def expected(self, density: Any, rows: Floats) -> Floats:
        """The expected value given the cells that rows have, shape (n_rows, n_outputs).

        Raises
        ------
        ValueError
            If the cells of a row have probability zero.
        """
        parts = [
            expected_value(density.circuit, rows[part], self.paths, self._hold(rows[part]))
            for part in gen_batches(len(rows), max(1, _COMPARED // len(self.paths.column)))
        ]
        return self.offset + np.concatenate(parts)

    def _hold(self, rows: Floats) -> Bools:
        """Which statements the cells that rows have fulfil, shape (n_rows, n_statements)."""
        if self.in_single:
            rows = rows.astype(np.float32).astype(np.float64)
        events = self.statements
        cell = rows[:, events.column]
        inside = (events.low < cell) & (cell <= events.high)
        holds: Bools = np.logical_or.reduceat(inside, events.ptr[:-1], axis=1)
        holds[:, 0] = True
        return holds


class _Reader:
    """Reads trees as paths of numbered statements."""

    def __init__(self, columns: ModelColumns):
        self.columns = columns
        self.number: dict[Any, int] = {}
        self.paths: list[Ints] = []
        self.values: list[Floats] = []

    def read(self, tree: _Tree) -> None:
        """Add the paths of a tree."""
        stack: list[tuple[int, dict[int, Any]]] = [(0, {})]
        while stack:
            node, said = stack.pop()
            if tree.left[node] < 0:
                self._add(said, tree.value[node])
                continue
            for child, is_left in ((tree.left[node], True), (tree.right[node], False)):
                more = self._split(said, tree, node, is_left)
                if more is not None:
                    stack.append((int(child), more))

    def _split(
        self, said: dict[int, Any], tree: _Tree, node: int, is_left: bool
    ) -> dict[int, Any] | None:
        """Statements with that of one side of a node; None if nothing fulfils all of them."""
        number, threshold = int(tree.column[node]), float(tree.threshold[node])
        column, values = int(self.columns.source[number]), self.columns.values[number]
        if values is None:
            low, high = said.get(column, (-np.inf, np.inf))
            low, high = (low, min(high, threshold)) if is_left else (max(low, threshold), high)
            return said | {column: (low, high)} if low < high else None
        goes_left = values <= threshold
        if node in tree.states:
            goes_left = np.isin(values, tree.states[node])
        kept = said.get(column, np.ones(len(values), dtype=bool)) & (goes_left == is_left)
        return said | {column: kept} if kept.any() else None

    def _add(self, said: dict[int, Any], value: Floats) -> None:
        path = [0]
        for column, statement in sorted(said.items()):
            ends = (statement,) if isinstance(statement, tuple) else _runs(statement)
            path.append(self.number.setdefault((column, ends), len(self.number) + 1))
        self.paths.append(np.array(path, dtype=np.int64))
        self.values.append(value)


def _runs(kept: Bools) -> tuple[tuple[float, float], ...]:
    """Intervals of codes for a set of states."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]])))
    return tuple((a - 0.5, b - 0.5) for a, b in change.reshape(-1, 2).tolist())


def read_sum(
    model: Any, columns: ModelColumns, density: Density, rows: Floats, answer: Callable[[str], Any]
) -> tuple[str, LinearSum | TreePaths] | None:
    """What a fitted model sums, and the method that returns the sum.

    Parameters
    ----------
    model : estimator
        Trees, forests and boosting of scikit-learn, and linear models are sums. Any other model,
        and one whose answers differ from its sum, is none.
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
    is_classifier, trees = hasattr(model, "classes_"), _trees_of(model)
    method = "decision_function" if is_classifier else "predict"
    if trees is not None:
        if not isinstance(density, CircuitAnswers) or density.circuit.multivariate:
            return None
        if is_classifier and not hasattr(model, method):
            method = "predict_proba"
        total: Any = TreePaths.of_trees(trees, columns, density.domain)
    elif hasattr(model, "coef_") and hasattr(model, method):
        if np.shape(model.coef_)[-1] != len(columns.source):
            return None
        total = LinearSum(columns, np.asarray(model.coef_), model.intercept_)
    else:
        return None
    answers = np.reshape(answer(method), (len(rows), -1))
    value = total.at(rows)
    if value.shape != answers.shape:
        return None
    if trees is not None:
        # What trees are added to, such as the mean of the target.
        total = total._replace(offset=answers[0] - value[0])
    return (method, total) if np.allclose(total.at(rows), answers) else None


def _trees_of(model: Any) -> list[_Tree] | None:
    """The trees of a model, as if it took their sum, or their mean."""
    if hasattr(model, "_predictors"):
        return _hist_trees(model)
    if isinstance(model, BaseDecisionTree):
        members, rate = np.array([[model]]), 1.0
    else:
        members = np.asarray(getattr(model, "estimators_", []), dtype=object)
        rate = getattr(model, "learning_rate", 1.0)
        if members.ndim == 1:
            members, rate = members[:, np.newaxis], 1.0 / max(len(members), 1)
    is_tree = [isinstance(one, BaseDecisionTree) and one.n_outputs_ == 1 for one in members.flat]
    if not is_tree or not all(is_tree):
        return None
    scales = rate * np.eye(members.shape[1])
    return [_tree(one, scales[[k]]) for several in members for k, one in enumerate(several)]


def _tree(model: Any, scale: Floats) -> _Tree:
    tree = model.tree_
    value = tree.value[:, 0, :]
    value = value * scale if hasattr(model, "classes_") else value @ scale
    left, right = tree.children_left, tree.children_right
    return _Tree(left, right, tree.feature, tree.threshold, value, {}, True)


def _hist_trees(model: Any) -> list[_Tree]:
    # Nodes have no public names; columns of categories stand before the others.
    order, trees = np.arange(model.n_features_in_), []
    if model.is_categorical_ is not None:
        order = np.argsort(~model.is_categorical_, kind="stable")
    for several in hist_predictors(model):
        for k, one in enumerate(several):
            nodes = one.nodes
            bits = np.unpackbits(one.raw_left_cat_bitsets.view(np.uint8), axis=1, bitorder="little")
            states = {
                node: np.flatnonzero(bits[nodes["bitset_idx"][node]])
                for node in np.flatnonzero(nodes["is_categorical"]).tolist()
            }
            left, right = (nodes[side].astype(np.int64) for side in ("left", "right"))
            left[nodes["is_leaf"] > 0] = -1
            value = nodes["value"][:, np.newaxis] * np.eye(len(several))[[k]]
            column = order[nodes["feature_idx"]]
            trees.append(_Tree(left, right, column, nodes["num_threshold"], value, states, False))
    return trees
