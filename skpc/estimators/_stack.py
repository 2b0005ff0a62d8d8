"""A mixture of densities of the same encoded rows, which answers what each of them answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Floats
from skpc.densities import Density
from skpc.domain import Domain
from skpc.queries.passes.upward import refuse_impossible
from skpc.variables import Predictive


class StackedAnswers(NamedTuple):
    """The density of a mixture of densities; see :class:`skpc.densities.Density`.

    Each answer about a row mixes those of the members by their posterior weights: their weights
    times what they think of the observed cells of the row.

    Parameters
    ----------
    members : sequence of Density
        Densities of the same rows, with respect to the same measure.
    weights : ndarray of shape (n_members,)
        Positive; they sum to one.
    domain : Domain
        What the columns are.
    """

    members: Sequence[Density]
    weights: Floats
    domain: Domain

    def log_density(self, rows: Floats, given: Any = None) -> Floats:
        """See :class:`skpc.densities.Density`."""
        found = _total(self._joint(rows))
        if given is None:
            return found
        known = np.full_like(rows, np.nan)
        known[:, given] = rows[:, given]
        log_known = _total(self._joint(known))
        refuse_impossible(log_known, np.arange(len(rows)))
        return np.asarray(found - log_known)

    def log_cells(self, rows: Floats) -> Floats:
        """See :class:`skpc.densities.Density`."""
        joint = self._joint(rows)
        others = []
        for part, log_weight, member in zip(joint.T, np.log(self.weights), self.members):
            impossible = np.isneginf(part)
            found = part[:, np.newaxis] - member.log_cells(_blank(rows, impossible))
            for row in np.flatnonzero(impossible):
                found[row] = log_weight + _log_without_each(member, rows[row])
            others.append(found)
        with np.errstate(invalid="ignore"):
            # Cells that are missing have no score.
            return np.asarray(_total(joint)[:, np.newaxis] - np.logaddexp.reduce(others, axis=0))

    def posteriors(self, rows: Floats, columns: Any = None) -> list[Predictive]:
        """See :class:`skpc.densities.Density`."""
        return self._mixed(rows, columns, self._posterior_weights(rows))

    def means(self, rows: Floats, columns: Sequence[int] | None = None) -> Floats:
        """See :class:`skpc.densities.Density`."""
        chosen = np.arange(rows.shape[1]) if columns is None else np.asarray(columns)
        numbers = chosen[~self.domain.is_categorical[chosen]].tolist()
        categories = chosen[self.domain.is_categorical[chosen]].tolist()
        filled, incomplete = rows.copy(), np.isnan(rows[:, chosen]).any(axis=1)
        part = rows[incomplete]
        if not len(part):
            return filled
        weights = self._posterior_weights(part)
        if numbers:
            asked = zip(self.members, self._possible(part, weights))
            means = [member.means(mine, numbers)[:, numbers] for member, mine in asked]
            mean = np.einsum("rk,krv->rv", weights, means)
            known = part[:, numbers]
            filled[np.ix_(incomplete, numbers)] = np.where(np.isnan(known), mean, known)
        if categories:
            for column, cells in zip(categories, self._mixed(part, categories, weights)):
                filled[incomplete, column] = np.asarray(cells.probabilities).argmax(axis=1)
        return filled

    def _mixed(self, rows: Floats, columns: Any, weights: Floats) -> list[Predictive]:
        """Posteriors by the weights of the members for each row."""
        asked = zip(self.members, self._possible(rows, weights))
        found = zip(*(member.posteriors(mine, columns) for member, mine in asked))
        chosen = range(rows.shape[1]) if columns is None else columns
        return [
            Predictive.mixture([_about(part, rows[:, column]) for part in cells], weights)
            for column, cells in zip(chosen, found)
        ]

    def modes(self, rows: Floats) -> Floats:
        """The likeliest of the modes of the members; see :class:`skpc.densities.Density`."""
        asked = zip(self.members, self._possible(rows, self._posterior_weights(rows)))
        candidates = np.array([member.modes(mine) for member, mine in asked])
        candidates = np.where(np.isnan(rows), candidates, rows)
        told = np.array([self.log_density(candidate) for candidate in candidates])
        return np.asarray(candidates[told.argmax(axis=0), np.arange(len(rows))])

    def draw(self, n_rows: int, random_state: np.random.RandomState) -> Floats:
        """See :class:`skpc.densities.Density`."""
        source = random_state.choice(len(self.members), n_rows, p=self.weights)
        return self._by_source(source, lambda member, mine: member.draw(mine.sum(), random_state))

    def draw_missing(self, rows: Floats, random_state: np.random.RandomState) -> Floats:
        """See :class:`skpc.densities.Density`."""
        reached = np.cumsum(self._posterior_weights(rows), axis=1)
        source = (random_state.random_sample((len(rows), 1)) >= reached[:, :-1]).sum(axis=1)
        return self._by_source(
            source, lambda member, mine: member.draw_missing(rows[mine], random_state)
        )

    def _by_source(self, source: Any, draw: Callable[[Density, Any], Floats]) -> Floats:
        found = np.empty((len(source), self.domain.n_features))
        for k, member in enumerate(self.members):
            mine = source == k
            if mine.any():
                found[mine] = draw(member, mine)
        return found

    def _joint(self, rows: Floats) -> Floats:
        """Log density of rows and members, shape (n_rows, n_members)."""
        parts = [member.log_density(rows) for member in self.members]
        return np.column_stack(parts) + np.log(self.weights)

    def _possible(self, rows: Floats, weights: Floats) -> list[Floats]:
        """The rows for each member, without the cells of those that it weighs nothing in.

        What it says of them does not count, and it would refuse a row that is impossible.
        """
        return [_blank(rows, weight == 0.0) for weight in weights.T]

    def _posterior_weights(self, rows: Floats) -> Floats:
        """Weights of the members given the observed cells of each row."""
        joint = self._joint(rows)
        best = joint.max(axis=1, keepdims=True)
        # A row that is impossible under all members does not count.
        joint = np.where(np.isneginf(best), np.log(self.weights), joint)
        weight = np.exp(joint - joint.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _blank(rows: Floats, which: Any) -> Floats:
    """The rows, some of them without any cell."""
    return np.where(which[:, np.newaxis], np.nan, rows)


def _about(cells: Predictive, known: Floats) -> Predictive:
    """The same distributions, with the cells that are known of rows that were blanked."""
    return Predictive(cells.terms, known, cells.labels, cells.index, cells.number)


def _log_without_each(member: Density, row: Floats) -> Floats:
    """Log density of a row without each of its cells in turn."""
    copies = np.tile(row, (len(row), 1))
    np.fill_diagonal(copies, np.nan)
    return member.log_density(copies)


def _total(joint: Floats) -> Floats:
    return np.asarray(np.logaddexp.reduce(joint, axis=1))
