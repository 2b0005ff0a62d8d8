"""Trees of scikit-learn as paths: what each leaf says of cells, and the expected value of leaves.

A path is a conjunction of statements about columns, so its probability given the cells that a row
has is that of an event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skpc._arrays import Bools, Floats, Ints, offsets, ranges
from skpc.densities import Density
from skpc.domain import group_rows
from skpc.queries import Events
from skpc.queries.passes.upward import refuse_impossible

HIST = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
BOOSTING = (GradientBoostingClassifier, GradientBoostingRegressor)
_TREES = (DecisionTreeClassifier, DecisionTreeRegressor)
_FORESTS = (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
#: Losses of boosting by histograms whose predictions are sums over trees.
_SUMS = ("squared_error", "absolute_error", "quantile")
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
    def from_states(cls, n_states: Ints, one_hot: bool) -> ModelColumns:
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


class TreePaths(NamedTuple):
    """The paths of all trees of a model, whose value is the sum over the paths that a row takes.

    Parameters
    ----------
    statements : Events
        Distinct statements, each about one column; the first one says nothing.
    column : ndarray of int of shape (n_statements,)
        Their columns.
    ptr, said : ndarrays of int
        The statements of path ``i`` are ``said[ptr[i] : ptr[i + 1]]``; the first says nothing.
    value : ndarray of shape (n_paths, n_outputs)
        What each path adds.
    offset : ndarray of shape (n_outputs,)
        What they are added to.
    in_single : bool
        Whether cells are rounded to float32 before they are compared.
    """

    statements: Events
    column: Ints
    ptr: Ints
    said: Ints
    value: Floats
    offset: Floats
    in_single: bool

    @classmethod
    def of_model(
        cls, model: Any, columns: ModelColumns, inputs: Callable[[Floats], Any], n_features: int
    ) -> TreePaths | None:
        """Those of a fitted model of scikit-learn; None of one that is no sum of trees.

        ``inputs`` makes what the model reads from encoded rows.
        """
        trees = _trees_of(model)
        if trees is None:
            return None
        reader = _Reader(columns)
        for tree in trees:
            reader.read(tree)
        listed = [(0, -np.inf, np.inf)] + [
            (key[0], *ends) for key in reader.number for ends in key[1]
        ]
        count = [1] + [len(key[1]) for key in reader.number]
        column, low, high = (np.array(one) for one in zip(*listed))
        of_statement = np.repeat(np.arange(len(count)), count)
        nothing = np.full((len(count), n_features), np.nan)
        statements = Events.from_intervals(nothing, of_statement, column, low, high)
        ptr = offsets([len(path) for path in reader.paths])
        paths = cls(
            statements,
            column[offsets(count)[:-1]],
            ptr,
            np.concatenate(reader.paths),
            np.array(reader.values),
            np.zeros(len(reader.values[0])),
            not isinstance(model, HIST),
        )
        # What trees are added to follows from any row.
        row = np.zeros((1, n_features))
        return paths._replace(offset=_value_of(model, inputs(row)) - paths.at(row)[0])

    def at(self, rows: Floats) -> Floats:
        """The value at complete rows, shape (n_rows, n_outputs)."""
        return self.offset + self._compatible(rows) @ self.value

    def expected(self, density: Density, rows: Floats) -> Floats:
        """The expected value given the cells that rows have, shape (n_rows, n_outputs).

        Raises
        ------
        ValueError
            If the cells of a row have probability zero.
        """
        log_known, missing = density.log_density(rows), np.isnan(rows)
        refuse_impossible(log_known, np.arange(len(rows)))
        out = np.tile(self.offset, (len(rows), 1))
        of_row = group_rows(missing.astype(np.float64))[1]
        order = np.argsort(of_row, kind="stable")
        # Rows of many patterns share a call, as events of different rows say the same of a column.
        size = max(1, _COMPARED // len(self.said))
        for some in np.split(order, np.arange(size, len(order), size)):
            bounds = np.flatnonzero(np.diff(of_row[some])) + 1
            parts = [self._distinct(rows[part], part) for part in np.split(some, bounds)]
            row, path, total = (np.concatenate(one) for one in zip(*parts))
            log_prob = density.log_density(self._events(rows, row, path)) - log_known[row]
            np.add.at(out, row, total * np.exp(log_prob)[:, np.newaxis])
        return out

    def _distinct(self, rows: Floats, number: Ints) -> tuple[Ints, Ints, Floats]:
        """Paths that rows of one missingness pattern may take, once for each event.

        Their rows, by the given numbers, a path of each event, and the sum of the values of its
        paths.
        """
        # Sums of random integers tell sets of statements about missing cells from each other.
        code = np.random.RandomState(0).randint(2**63, size=len(self.column), dtype=np.int64)
        code[0], is_open = 0, np.isnan(rows[0])[self.column]
        key = np.add.reduceat((code * is_open)[self.said], self.ptr[:-1])
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        row, path = np.nonzero(self._compatible(rows))
        pair, place = np.unique(row * len(first) + group[path], return_inverse=True)
        total = np.column_stack(
            [np.bincount(place, value, len(pair)) for value in self.value[path].T]
        )
        return number[pair // len(first)], first[pair % len(first)], total

    def _events(self, rows: Floats, row: Ints, path: Ints) -> Events:
        """What paths say of the missing cells of rows, beside the cells that these have."""
        size = np.diff(self.ptr)[path]
        said, event = self.said[ranges(self.ptr[path], size)], np.repeat(np.arange(len(path)), size)
        kept = (said > 0) & np.isnan(rows[row[event], self.column[said]])
        # Paths say something of their columns in order, as events do.
        chosen = self.statements.take(said[kept])
        count = np.bincount(event[kept][chosen.event], minlength=len(path))
        return Events(rows[row], offsets(count), chosen.column, chosen.low, chosen.high)

    def _compatible(self, rows: Floats) -> Bools:
        """Which paths the cells that rows have do not contradict, shape (n_rows, n_paths)."""
        if self.in_single:
            rows = rows.astype(np.float32).astype(np.float64)
        events = self.statements
        cell = rows[:, events.column]
        inside = np.isnan(cell) | ((events.low < cell) & (cell <= events.high))
        holds = np.logical_or.reduceat(inside, events.ptr[:-1], axis=1)
        return np.logical_and.reduceat(holds[:, self.said], self.ptr[:-1], axis=1)


class _Tree(NamedTuple):
    """The nodes of a tree; ``left`` is -1 at leaves, ``states`` sets of codes that go left."""

    left: Ints
    right: Ints
    column: Ints
    threshold: Floats
    value: Floats
    states: dict[int, Any]


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


def _trees_of(model: Any) -> list[_Tree] | None:
    if isinstance(model, HIST):
        is_sum = getattr(model, "loss", "") in _SUMS or hasattr(model, "classes_")
        return _hist_trees(model) if is_sum else None
    if isinstance(model, BOOSTING):
        # Trees may stand on another model, which is no constant.
        if model.init not in (None, "zero"):
            return None
        n_outputs, rate = model.estimators_.shape[1], model.learning_rate
        return [
            _tree(one, np.eye(n_outputs)[[k]] * rate)
            for several in model.estimators_
            for k, one in enumerate(several)
        ]
    if isinstance(model, _TREES):
        return [_tree(model)] if model.n_outputs_ == 1 else None
    if isinstance(model, _FORESTS) and model.n_outputs_ == 1:
        return [_tree(one, 1.0 / len(model.estimators_)) for one in model.estimators_]
    return None


def _tree(model: Any, scale: Any = 1.0) -> _Tree:
    tree = model.tree_
    value = tree.value[:, 0, :]
    if hasattr(model, "classes_"):
        value = value / value.sum(axis=1, keepdims=True)
    left, right = tree.children_left, tree.children_right
    return _Tree(left, right, tree.feature, tree.threshold, value * scale, {})


def _hist_trees(model: Any) -> list[_Tree]:
    # Nodes have no public names; columns of categories stand before the others.
    is_categorical, trees = model.is_categorical_, []
    order = np.arange(model.n_features_in_)
    if is_categorical is not None:
        order = np.argsort(~is_categorical, kind="stable")
    for several in model._predictors:
        for k, one in enumerate(several):
            nodes, bits = one.nodes, one.raw_left_cat_bitsets
            states = {
                int(node): np.flatnonzero(
                    np.unpackbits(bits[nodes["bitset_idx"][node]].view(np.uint8), bitorder="little")
                )
                for node in np.flatnonzero(nodes["is_categorical"])
            }
            left, right = (nodes[side].astype(np.int64) for side in ("left", "right"))
            left[nodes["is_leaf"] > 0] = -1
            value = nodes["value"][:, np.newaxis] * np.eye(len(several))[[k]]
            column = order[nodes["feature_idx"]]
            trees.append(_Tree(left, right, column, nodes["num_threshold"], value, states))
    return trees


def _value_of(model: Any, inputs: Any) -> Floats:
    """What the trees of a model sum to for one row."""
    if isinstance(model, (*HIST, *BOOSTING)) and hasattr(model, "classes_"):
        return np.atleast_1d(model.decision_function(inputs)[0])
    answer = model.predict_proba if hasattr(model, "classes_") else model.predict
    return np.atleast_1d(answer(inputs)[0])
