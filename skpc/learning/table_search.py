"""Which mixtures of Gaussians and tables suit a table? Held-out rows tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from skpc._arrays import Floats
from skpc.learning.simplex import mixture_weights
from skpc.learning.table_cells import TableCells, TableColumns
from skpc.learning.table_mixture import Shrinkage, TableModel, clustered, fit_components

#: Numbers of components, strengths and parts of the diagonal to choose from.
_N_COMPONENTS = (1, 2, 3, 5, 8, 12, 20, 32, 50, 80, 120)
_STRENGTHS = (0.1, 0.5, 2.0, 8.0)
_TO_DIAGONAL = (0.0, 0.1, 0.4, 1.0)
#: The walk ends after so many numbers of components in a row that are no better.
_PATIENCE = 2
#: Candidates that are worse than the best by more nats a row, or that would weigh less in the
#: stack, are left out.
_NEAR, _SMALLEST = 2.0, 0.03
_MAX_ITER, _TOL = 100, 1e-3

Split = tuple[Floats, Floats]


class Recipe(NamedTuple):
    """What one candidate is."""

    n_components: int
    shrinkage: Shrinkage


class _Part:
    """Rows to learn from and rows held out."""

    def __init__(self, columns: TableColumns, rows: Floats, weight: Floats, seed: int):
        self.columns, self.seed = columns, seed
        self.weight, self.cells = weight, columns.cells(rows)
        self.points = columns.points(rows, weight)
        self.starts: dict[int, Floats] = {}

    def fit(self, recipe: Recipe) -> TableModel:
        n_components, shrinkage = recipe
        if n_components not in self.starts:
            random_state = np.random.RandomState(self.seed)
            self.starts[n_components] = clustered(
                self.points, self.weight, n_components, random_state
            )
        return fit_components(
            self.columns,
            self.cells,
            self.weight,
            self.starts[n_components],
            shrinkage,
            _MAX_ITER,
            _TOL,
        )


class _Search:
    def __init__(self, columns, rows, weight, splits, rows_val, seed, n_jobs, advance):
        self.columns, self.n_jobs, self.advance = columns, n_jobs, advance
        self.parts, self.held = [], []
        held_weight = []
        for kept, held in splits:
            some = held > 0.0
            self.parts.append(_Part(columns, rows[kept > 0.0], kept[kept > 0.0], seed))
            self.held.append(columns.cells(rows[some]))
            held_weight.append(held[some])
        self.weight = np.concatenate(held_weight)
        self.found: dict[Recipe, Floats] = {}

    def score(self, recipe: Recipe) -> float:
        if recipe not in self.found:
            told = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(_told)(part, held, recipe) for part, held in zip(self.parts, self.held)
            )
            self.found[recipe] = np.concatenate(told)
        return float(self.weight @ self.found[recipe] / self.weight.sum())

    def best(self, recipes: Iterable[Recipe]) -> Recipe:
        return max(recipes, key=self.score)

    def run(self) -> Recipe:
        best, misses = Recipe(1, Shrinkage()), 0
        most = min(part.weight.sum() for part in self.parts) / 2
        for n_components in _N_COMPONENTS:
            recipe = Recipe(n_components, Shrinkage())
            if n_components > most or misses == _PATIENCE:
                break
            better = self.score(recipe) > self.score(best) or n_components == 1
            misses = 0 if better else misses + 1
            best = recipe if better else best
        best = self.best([best] + [best._replace(shrinkage=best.shrinkage._replace(strength=s)) for s in _STRENGTHS])
        best = self.best([best] + [best._replace(shrinkage=best.shrinkage._replace(to_diagonal=s)) for s in _TO_DIAGONAL])
        i = _N_COMPONENTS.index(best.n_components)
        for step in (-1, 1):
            j = i + step
            while 0 <= j < len(_N_COMPONENTS) and _N_COMPONENTS[j] <= most:
                r = best._replace(n_components=_N_COMPONENTS[j])
                if self.score(r) > self.score(best):
                    best = r
                else:
                    break
                j += step
        best = self.best(best._replace(n_components=k) for k in (best.n_components, best.n_components - 1, best.n_components + 1) if 0 < k <= most)
        return best

    def stack(self):
        top = max(self.score(r) for r in self.found)
        near = [r for r in self.found if self.score(r) > top - _NEAR]
        w = mixture_weights(np.array([self.found[r] for r in near]).T, self.weight)
        keep = w >= _SMALLEST
        near = [r for r, k in zip(near, keep) if k]
        w = w[keep] / w[keep].sum()
        return near, w


def _told(part: _Part, held: TableCells, recipe: Recipe) -> Floats:
    return part.fit(recipe).log_density(part.columns, held)
