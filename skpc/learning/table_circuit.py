"""The circuit of a mixture of Gaussians of scores and tables of states."""

from __future__ import annotations

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit, CircuitBuilder
from skpc.learning.table_cells import (
    BACKGROUND_SDS,
    BACKGROUND_WEIGHTS,
    SMALLEST_SD,
    TableColumns,
)
from skpc.learning.table_mixture import TableModel


def table_circuit(columns: TableColumns, model: TableModel, n_features: int) -> Circuit:
    """Build the circuit of a mixture.

    The root is a sum over components, the background last. A component is a product of a block leaf
    of all numbers (a sum of these, where it has several widths) and a leaf for each category; the
    background is a product of columns, where a number is a sum of normals around its median.

    Parameters
    ----------
    columns : TableColumns
    model : TableModel
    n_features : int
        Number of columns of encoded rows.

    Returns
    -------
    Circuit
        A smooth and decomposable circuit.
    """
    maker = _Maker(columns, n_features)
    tops = [maker.component(model, k) for k in range(len(model.weights))]
    weights = np.append(
        (1.0 - columns.background_weight) * model.weights, columns.background_weight
    )
    maker.builder.sum([*tops, maker.background()], np.log(weights))
    return maker.builder.build()


class _Maker:
    def __init__(self, columns: TableColumns, n_features: int):
        self.columns = columns
        n_states = np.zeros(n_features, dtype=np.int64)
        n_states[columns.tables] = np.diff(columns.state_ptr)
        axes: list = [None] * n_features
        for v, scored, scale in zip(columns.numbers, columns.scored, columns.scale):
            n_states[v] = scored.n_states
            axes[v] = scored._replace(smallest_sd=SMALLEST_SD * float(scale))
        self.builder = CircuitBuilder(n_states, axes)
        is_number = np.zeros(n_features, dtype=bool)
        is_number[columns.numbers] = True
        self.categories = [v for v in columns.tables.tolist() if not is_number[v]]

    def component(self, model: TableModel, k: int) -> int:
        """Add a component."""
        tables = self._tables(model.log_table[k])
        leaves = [self.builder.discrete(v, tables[v]) for v in self.categories]
        numbers = self.columns.numbers.tolist()
        if numbers:
            mine = np.flatnonzero(model.component == k)
            log_probs = [tables.get(v, np.zeros(1)) for v in numbers]
            mean, covariance = model.gaussians.mean[k], model.gaussians.covariance[k]
            blocks = [
                self.builder.block(numbers, log_probs, mean, width**2 * covariance)
                for width in model.width[mine]
            ]
            leaves.append(self._sum(blocks, model.part[mine]))
        return self._product(leaves)

    def background(self) -> int:
        """Add the background."""
        columns = self.columns
        tables = self._tables(np.log(columns.share))
        leaves = [self.builder.discrete(v, tables[v]) for v in self.categories]
        for v, centre, scale in zip(columns.numbers.tolist(), columns.centre, columns.scale):
            log_prob = tables.get(v, np.zeros(1))
            normals = [
                self.builder.scored(v, log_prob, float(centre), float(sd * scale))
                for sd in BACKGROUND_SDS
            ]
            leaves.append(self._sum(normals, BACKGROUND_WEIGHTS))
        return self._product(leaves)

    def _tables(self, log_table: Floats) -> dict[int, Floats]:
        """Log probabilities of the states of each column that has any."""
        parts = np.split(log_table, self.columns.state_ptr[1:-1])
        return dict(zip(self.columns.tables.tolist(), parts))

    def _sum(self, nodes: list[int], weights: Floats) -> int:
        return nodes[0] if len(nodes) == 1 else self.builder.sum(nodes, np.log(weights))

    def _product(self, nodes: list[int]) -> int:
        return nodes[0] if len(nodes) == 1 else self.builder.product(nodes)
