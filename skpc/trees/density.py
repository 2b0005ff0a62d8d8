"""A mixture of all trees as the density of encoded rows: states, and numbers within their bins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc.circuit import Circuit, CircuitBuilder
from skpc.circuit.axes import Axes
from skpc.domain import Domain, group_codes
from skpc.trees.components import Components
from skpc.trees.estimates import Estimates
from skpc.trees.incomplete import draw_rows, estimate_missing, local_modes, row_seeds
from skpc.trees.sampled_trees import add_sampled_trees

__all__ = ["AllTreesDensity"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class AllTreesDensity(NamedTuple):
    """The density of encoded rows whose states have the distribution of a mixture of all trees.

    Equal rows have equal answers, whatever the other rows.

    Parameters
    ----------
    mixture : Components
        The distribution of the states.
    domain : Domain
        What the columns are. Within a state, numbers follow their axis.
    seed : int
        What the estimates of rows with missing cells start from.
    method, n_samples
        See :func:`estimate_missing`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> from skpc.trees import AllTrees, AllTreesDensity, Components
    >>> half = np.full((5, 5), 0.5)
    >>> trees = AllTrees(np.array([0, 2, 4, 5]), np.ones((3, 3)), half, np.zeros(5), False)
    >>> domain = Domain.fit(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> density = AllTreesDensity(Components(np.zeros(1), (trees,)), domain, 0, "collapsed", 100)
    >>> np.exp(density.log_likelihood(np.array([[0.0, 1.0], [0.0, np.nan]]))).round(2)
    array([0.25, 0.5 ])
    """

    mixture: Components
    domain: Domain
    seed: int
    method: str
    n_samples: int

    def log_likelihood(self, rows: Floats) -> Floats:
        """Log density of each row in nats, its missing cells summed out."""
        codes = self._codes(rows)
        distinct, group = group_codes(codes)
        found = np.empty(len(distinct))
        complete = (distinct >= 0).all(axis=1)
        states = self.mixture.models[0].states_of(distinct[complete])
        found[complete] = self.mixture.log_likelihood(states)
        found[~complete] = self._estimates(distinct[~complete]).log_likelihood
        return np.asarray(found[group] + self._axes.log_density(codes, rows))

    def effective_sample_size(self, rows: Floats) -> Floats:
        """What the answers for each row are worth in independent trees; infinite if exact."""
        distinct, group = group_codes(self._codes(rows))
        found = np.full(len(distinct), np.inf)
        incomplete = (distinct < 0).any(axis=1)
        found[incomplete] = self._estimates(distinct[incomplete]).effective_sample_size
        return np.asarray(found[group])

    def marginals(self, rows: Floats) -> list[Floats]:
        """Probabilities of the states of every cell, one array a column."""
        distinct, group = group_codes(self._codes(rows))
        n_states = self.domain.n_states
        first = np.cumsum(n_states) - n_states
        found = np.zeros((len(distinct), n_states.sum()))
        row, column = np.nonzero(distinct >= 0)
        found[row, first[column] + distinct[row, column]] = 1.0
        incomplete = (distinct < 0).any(axis=1)
        found[incomplete] = self._estimates(distinct[incomplete]).marginals
        return np.split(found[group], first[1:], axis=1)

    def means(self, rows: Floats) -> Floats:
        """The rows with the posterior means of the missing numbers."""
        means = rows.copy()
        for column, prob in enumerate(self.marginals(rows)):
            if not self.domain.is_categorical[column]:
                missing = np.isnan(rows[:, column])
                means[missing, column] = prob[missing] @ self._axes.means(column)
        return means

    def modes(self, rows: Floats) -> Floats:
        """The rows completed such that no change of a single cell makes them more probable."""
        codes, axes = self._codes(rows), self._axes
        numeric = ~self.domain.is_categorical
        peaks = [
            axes.peaks(column) if is_numeric else np.zeros(n_states)
            for column, (is_numeric, n_states) in enumerate(zip(numeric, self.domain.n_states))
        ]
        with np.errstate(divide="ignore"):
            values = [np.log(prob) + p for prob, p in zip(self.marginals(rows), peaks)]
        start = np.column_stack([value.argmax(axis=1) for value in values])
        found = local_modes(self.mixture, codes, np.where(codes < 0, start, codes), peaks)
        filled = np.where(np.isnan(rows), found, rows)
        for column in np.flatnonzero(numeric).tolist():
            missing = np.isnan(rows[:, column])
            filled[missing, column] = axes.modes(column)[found[missing, column]]
        return filled

    def draw(self, n_rows: int, random_state: np.random.RandomState) -> Floats:
        """Draw rows; exact."""
        codes = draw_rows(self.mixture, n_rows, random_state)
        nothing = np.full(codes.shape, np.nan)
        return self._axes.draw(codes, nothing, int(random_state.randint(2**31)))

    def draw_missing(self, rows: Floats, random_state: np.random.RandomState) -> Floats:
        """The rows, their missing cells filled by a joint draw each."""
        codes = self._codes(rows)
        missing = (codes < 0).any(axis=1)
        seeds = random_state.randint(2**31, size=missing.sum()).astype(np.uint64)
        filled = codes.copy()
        filled[missing] = self._estimates(codes[missing], seeds).draws
        return self._axes.draw(filled, rows, int(random_state.randint(2**31)))

    def sampled_circuit(self, n_trees: int, random_state: np.random.RandomState) -> Circuit:
        """A finite mixture of trees that are drawn from the mixture of all."""
        builder = CircuitBuilder(self.domain.n_states, self.domain.axes)
        add_sampled_trees(builder, self.mixture, n_trees, random_state)
        return builder.build()

    def _codes(self, rows: Floats) -> Integers:
        return self.domain.codes(rows).astype(np.int64)

    @property
    def _axes(self) -> Axes:
        return Axes.of(self.domain.axes or [None] * self.domain.n_features)

    def _estimates(self, codes: Integers, seeds: NDArray[np.uint64] | None = None) -> Estimates:
        """Exact or estimated answers for rows of states with missing cells."""
        if seeds is None:
            seeds = row_seeds(codes, self.seed)
        return estimate_missing(self.mixture, codes, seeds, self.method, self.n_samples)
