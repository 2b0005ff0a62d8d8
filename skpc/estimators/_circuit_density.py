"""Densities that are circuits."""

from __future__ import annotations

from functools import partial

import numpy as np

from skpc._arrays import Floats
from skpc.circuit import Circuit
from skpc.densities import CircuitAnswers, Density
from skpc.estimators._base import TableDensity
from skpc.estimators.blocks import EncodedBlocks
from skpc.queries import PseudoCounts
from skpc.queries.flows import ExpectedStatistics, expected_statistics
from skpc.queries.parameters import fit_to_sums, pseudo_counts_like

#: Passes of EM over a table in blocks, at most, and the rise of its mean log-likelihood (nats a
#: row) that is worth one. Pseudo-counts are so many rows distributed as the sample has told.
PASSES, PASS_TOL, _LIKE_SAMPLE = 10, 1e-3, 10.0


class CircuitDensity(TableDensity):
    """Density estimation by a circuit over encoded rows, which a subclass learns."""

    circuit_: Circuit

    @property
    def _density(self) -> Density:
        return CircuitAnswers(self.circuit_, self.domain_)

    def _fit_blocks(
        self, blocks: EncodedBlocks, rows: Floats, weight: Floats, rows_val: Floats | None
    ) -> None:
        """Learn the structure from a sample, and the parameters from all rows by EM."""
        self.fit_rows(blocks.domain, rows, weight, rows_val)
        self._fit_parameters(blocks, rows, weight)

    def _fit_parameters(self, blocks: EncodedBlocks, rows: Floats, weight: Floats) -> float:
        """Fit the parameters to all rows; the mean log-likelihood of these (nats)."""
        self.circuit_, total = fit_to_sums(
            self.circuit_,
            lambda circuit: blocks.total(partial(_expected, circuit)),
            rows,
            weight,
            self._as_learned(rows, weight),
            max_iter=PASSES,
            tol=PASS_TOL * blocks.n_rows,
        )
        return total / blocks.n_rows

    def _as_learned(self, rows: Floats, weight: Floats) -> PseudoCounts:
        """Pseudo-counts that stand for what has been learned from a sample."""
        return pseudo_counts_like(self.circuit_, _LIKE_SAMPLE)


def _expected(circuit: Circuit, rows: Floats) -> ExpectedStatistics:
    return expected_statistics(circuit, rows, np.ones(len(rows)))
