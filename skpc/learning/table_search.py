"""Which mixtures of Gaussians and tables suit a table? Held-out rows tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from skpc._arrays import Floats, Ints
from skpc.learning.simplex import mixture_weights
from skpc.learning.table_cells import TableCells, TableColumns
from skpc.learning.table_mixture import TAILS, Recipe, TableModel, clustered, fit_components
from skpc.variables import Number

#: Numbers of components to choose from ...
N_COMPONENTS = (1, 2, 3, 5, 8, 12, 20, 32, 50, 80, 120)
#: ... and what else, each with its default first. ``linear`` is how far the power of each score is
#: drawn to one.
_AXES: dict[str, tuple] = {
    "linear": (0.0, 0.5, 1.0),
    "widths": ((1.0,), TAILS),
    "strength": (0.5, 0.1, 2.0, 8.0),
    "to_diagonal": (0.0, 0.1, 0.4, 1.0),
}
_FACTORS = (1, 2, 3, 5, 8, 12, 20, 30)
#: Numbers of components are tried until so many in a row are no better.
_PATIENCE = 2
#: The choices are gone through so often, unless none changes.
_ROUNDS = 2
#: Rows for each component, at least.
_ROWS_EACH = 2.0
#: Candidates that are worse than the best by more nats a row, or that would weigh less in the
#: stack, are left out.
_NEAR, _SMALLEST = 2.0, 0.03
_MAX_ITER, _TOL = 100, 1e-3

Split = tuple[Floats, Floats]


class Rows(NamedTuple):
    """Encoded rows, with what their columns are."""

    rows: Floats
    weight: Floats
    n_states: Ints
    numbers: Sequence[Number | None]


class Candidate(NamedTuple):
    """A mixture, and how far the powers of the scores are drawn to one."""

    recipe: Recipe
    linear: float = 0.0

    def with_(self, name: str, value: Any) -> Candidate:
        """The candidate with another value of one of its choices."""
        if name == "linear":
            return self._replace(linear=value)
        return self._replace(recipe=self.recipe._replace(**{name: value}))


class _Part:
    """Rows to learn from and rows held out."""

    def __init__(self, columns: TableColumns, learned: Split, held: Split, seed: int):
        self.columns, self.seed = columns, seed
        rows, self.weight = learned
        self.cells, self.points = columns.cells(rows), columns.points(rows, self.weight)
        self.asked, self.asked_weight = columns.cells(held[0]), held[1]
        self.starts: dict[int, Floats] = {}

    def fit(self, recipe: Recipe) -> TableModel:
        n_components = recipe.n_components
        if n_components not in self.starts:
            random_state = np.random.RandomState(self.seed)
            self.starts[n_components] = clustered(
                self.points, self.weight, n_components, random_state
            )
        return fit_components(
            self.columns, self.cells, self.weight, self.starts[n_components], recipe, _MAX_ITER, _TOL
        )

    def told(self, recipe: Recipe) -> Floats:
        return self.fit(recipe).log_density(self.columns, self.asked)


class Search:
    def __init__(self, table: Rows, splits, rows_val, seed, n_jobs, advance):
        self.table, self.splits, self.n_jobs, self.advance = table, splits, n_jobs, advance
        self.seed = seed
        self.parts = {}
        self.found: dict[Candidate, Floats] = {}
        self.most = min(kept.sum() for kept, _ in splits) / _ROWS_EACH

    def columns(self, linear: float) -> TableColumns:
        numbers = [n and _drawn_to_linear(n, linear) for n in self.table.numbers]
        return TableColumns.of(self.table.rows, self.table.weight, self.table.n_states, numbers)

    def parts_of(self, linear):
        if linear not in self.parts:
            columns = self.columns(linear)
            rows = self.table.rows
            self.parts[linear] = [
                _Part(columns, (rows[kept > 0.0], kept[kept > 0.0]), (rows[held > 0.0], held[held > 0.0]), self.seed)
                for kept, held in self.splits
            ]
        return self.parts[linear]

    @property
    def weight(self):
        return np.concatenate([held[held > 0.0] for _, held in self.splits])

    def score(self, candidate: Candidate) -> float:
        if candidate not in self.found:
            told = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(part.told)(candidate.recipe) for part in self.parts_of(candidate.linear)
            )
            self.found[candidate] = np.concatenate(told)
        return float(self.weight @ self.found[candidate] / self.weight.sum())

    def run(self, n_components=N_COMPONENTS, axes=None):
        axes = _AXES if axes is None else axes
        best = self.walk(Candidate(Recipe(n_components[0])), n_components, self.most)
        for _ in range(_ROUNDS):
            before = best
            for name, values in axes.items():
                best = max([best, *(best.with_(name, v) for v in values)], key=self.score)
            best = self.walk(best, n_components, self.most)
            if best == before:
                break
        k = best.recipe.n_components
        best = max([best, *(best.with_('n_components', j) for j in (k - 1, k + 1) if 0 < j <= self.most)], key=self.score)
        return best

    def walk(self, best, values, most):
        at = values.index(best.recipe.n_components)
        for order in (values[at + 1:], values[:at][::-1]):
            misses = 0
            for n_components in order:
                if n_components > most or misses == _PATIENCE: break
                c = best.with_('n_components', n_components)
                misses += 1
                if self.score(c) > self.score(best):
                    best, misses = c, 0
        return best

    def stack(self, best):
        same = [c for c in self.found if c.linear == best.linear]
        top = max(self.score(r) for r in same)
        near = [r for r in same if self.score(r) > top - _NEAR]
        w = mixture_weights(np.array([self.found[r] for r in near]).T, self.weight)
        keep = w >= _SMALLEST
        near = [r for r, k in zip(near, keep) if k]
        w = w[keep] / w[keep].sum()
        return near, w


def _drawn_to_linear(number: Number, linear: float) -> Number:
    power = number.score.power + linear * (1.0 - number.score.power)
    return number._replace(score=number.score._replace(power=power))
