"""What the pool of an imputer has besides densities."""

from typing import Any

import numpy as np

from skpc.densities import Density
from skpc.estimators._base import TableDensity
from skpc.estimators._learner import TrainingData
from skpc.imputation.linear import LinearCells
from skpc.pooling.mixture import DensityMixture


class LinearFiller(TableDensity):
    """Regressions of each column on the observed cells of a row; see :class:`LinearCells`.

    It says what single cells are (``complete``, ``marginals``). It has no density of rows.
    """

    strength: float = 0.3

    margins = "auto"
    _orders_columns = False

    def _learn(self, data: TrainingData) -> None:
        # Regressions read numbers, and no bins of these.
        self.domain_ = self.domain_.without_bins()
        self._cells = LinearCells.fit(self.domain_, data.rows, data.weight, self.strength)

    @property
    def _density(self) -> Density:
        members: list[Any] = [self._cells]
        cell_weights = np.ones((self.domain_.n_features, 1))
        return DensityMixture(members, np.ones(1), self.domain_, cell_weights)
