"""Questions to a table with ranges and sets as evidence."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc.domain import Domain, Face, read_events
from skpc.queries import Events
from skpc.variables import Points, Predictive
from skpc.variables.dates import as_dates


class EventAnswers:
    """The answers of a density of tables about events; a subclass has the attributes."""

    domain_: Domain
    _density: Any

    def probability(self, event: Any, given: Any = None) -> Any:
        """Probability of ranges and sets of values, given others.

        Parameters
        ----------
        event : dict, list of dict, or DataFrame
            What is asked, column by column: a tuple ``(a, b)`` is a range with both ends (None for
            an open one), a ``pandas.Interval`` one with the ends that it is closed at; a list, set
            or array is a set; NaN and None say nothing; anything else is a value. On a lattice,
            such as that of whole numbers, a value is its cell. A number of a column without a
            lattice has probability 0, unless it is an atom.
        given : dict, list of dict, or DataFrame, default=None
            What is known, in the same words. A number is known as it is, and needs no probability.
            One event, or one for each.

        Returns
        -------
        float or ndarray of shape (n_events,)
            A float for a dict (or two), else an array. The share of states that ``fit`` has not
            seen is part of the distribution, as in scores: all known categories of a column of
            strings, or all ordered states of a column of numbers, have the probability ``1 - u``
            (``domain_.log_prob_seen`` has its logarithm). Draws are given that each state is known,
            so their shares are these probabilities divided by that of all known states.

        Raises
        ------
        TypeError, ValueError
            If a column does not exist, a statement does not suit it, or what is known has
            probability zero.

        Examples
        --------
        >>> from skpc import CutsetNetworkBD
        >>> X = [["sun", 30.0], ["rain", 12.0], ["sun", 28.0], ["rain", 11.0]] * 20
        >>> model = CutsetNetworkBD().fit(X)
        >>> round(model.probability({1: (20, None)}), 1)
        0.5
        >>> model.probability(
        ...     [{0: "sun"}, {0: ["sun", "rain"]}], given={1: (20, 40)}
        ... ).round(1)
        array([1., 1.])
        """
        value = np.exp(self.log_probability(event, given))
        return value if value.ndim else float(value)

    def log_probability(self, event: Any, given: Any = None) -> Any:
        """Log :meth:`probability` (nats) of ranges and sets of values, given others.

        Parameters
        ----------
        event, given
            As for :meth:`probability`.

        Returns
        -------
        float or ndarray of shape (n_events,)
            In nats; -inf for what is impossible.

        Raises
        ------
        TypeError, ValueError
            As :meth:`probability`.
        """
        check_is_fitted(self, "domain_")
        events, _ = read_events(self.domain_, event, "event", values_are_known=False)
        is_one = isinstance(event, Mapping) and (given is None or isinstance(given, Mapping))
        newly_stated = events.are_stated()
        if given is None:
            value = self._density.log_density(events)
        else:
            known, _ = read_events(self.domain_, given, "given", values_are_known=True)
            events, known = _side_by_side(events, known)
            log_known = self._log_known(known)
            # What was known has its shares of seen states already; only new statements add theirs.
            newly_stated = events.are_stated() & ~known.are_stated()
            value = self._density.log_density(events.joined(known)) - log_known
        # Rounding must not make a probability greater than one.
        value = np.minimum(value, 0.0) + newly_stated @ self.domain_.log_prob_seen
        return float(value[0]) if is_one else value

    def distribution(self, column: Any, given: Any = None) -> Predictive:
        """Distribution of one column, given ranges and sets of values.

        Parameters
        ----------
        column : int or str
            Number or name of the column.
        given : dict, list of dict, or DataFrame, default=None
            What is known, in the words of :meth:`probability`; also about the column itself. None
            knows nothing.

        Returns
        -------
        skpc.variables.Predictive
            One distribution for each event, with ``mean()``, ``variance()``, ``quantile(level)``,
            ``cdf(x)``, and ``probabilities`` of categories. It is exact; but for moments within
            ranges of the column itself, which are by quadrature.

        Raises
        ------
        TypeError, ValueError
            As :meth:`probability`; also if a range is about a number that shares a block with the
            column.

        Examples
        --------
        >>> from skpc import CutsetNetworkBD
        >>> X = [["sun", 30.0], ["rain", 12.0], ["sun", 28.0], ["rain", 11.0]] * 20
        >>> model = CutsetNetworkBD().fit(X)
        >>> model.distribution(1, given=[{0: "sun"}, {0: "rain"}]).mean().round()
        array([29., 12.])
        """
        check_is_fitted(self, "domain_")
        place_asked = int(self.domain_.column_numbers_of([column], "column")[0])
        face = self.domain_.faces.get(place_asked)
        # A face is asked about by its source, and translated in the end.
        chosen = place_asked if face is None else face.source
        said = {} if given is None else given
        known, _ = read_events(self.domain_, said, "given", values_are_known=True)
        # Only for its error: what is known must be possible.
        self._log_known(known)
        is_chosen = np.arange(self.domain_.n_features) == chosen
        # Ranges of the column itself only cut its distribution given all else.
        (cells,) = self._density.posteriors(known.only(~is_chosen), [chosen])
        column_events = known.only(is_chosen)
        # A cell that is known has all the mass, whatever the rest of its row says.
        cells.known = column_events.rows[:, chosen]
        if column_events.has_intervals:
            cells = cells.within(*column_events.padded())
        cells = cells if face is None else of_face(cells, face)
        return self._described(cells, place_asked)

    def means(self, rows: Any, columns: Any = None) -> Floats:
        """Rows filled by means; by the most probable state, where a column has labels as a face."""
        events = Events.of(rows)
        filled = self._density.means(events, columns)
        for face in self.domain_.faces.values():
            missing = np.flatnonzero(np.isnan(events.rows[:, face.source]))
            # The mean of ordered states may lie between two of them, where no label is.
            has_labels = not face.holds_numbers and self.domain_.is_ordered[face.source]
            if has_labels and len(missing):
                (cells,) = self._density.posteriors(events.take(missing), [face.source])
                filled[missing, face.source] = face.source_cells[
                    _of_states(cells, face).argmax(axis=1)
                ]
        return filled

    def _described(self, cells: Predictive, column: int) -> Predictive:
        """The distributions of a column with its name, dates and durations as such."""
        if self.domain_.feature_names is not None:
            cells.name = self.domain_.feature_names[column]
        cells.dates = self.domain_.calendars.get(column)
        if cells.labels is not None:
            cells.labels = as_dates(cells.labels, cells.dates)
        return cells

    def _log_known(self, known: Events) -> Floats:
        """Log measure of what is known; an error that names a cell where that is impossible."""
        log_known = self._density.log_density(known)
        impossible = np.flatnonzero(np.isneginf(log_known))
        if len(impossible):
            single_event = known.take(impossible[:1])
            columns = np.arange(self.domain_.n_features)
            # The cell that is impossible by itself, if there is one, helps most in the error.
            alone = [
                self._density.log_density(single_event.only(columns == column))
                for column in columns
            ]
            wrong = np.flatnonzero(np.isneginf(alone))[:1].tolist()
            where = [self.domain_[column].where for column in wrong]
            raise ValueError(
                f"given must be possible; event {impossible[0]} has probability 0 by its cell in "
                f"{', '.join(where) or 'several columns together'}. Widen the range or the set, or "
                "leave a column out."
            )
        return log_known


def of_face(cells: Predictive, face: Face) -> Predictive:
    """The distributions of a column that tells the same as the one that these are about."""
    # States of the source are in the order of its values, which need not be that of the face.
    order = np.argsort(face.values)
    known = face.state_numbers(cells.known)
    values = face.values[order]
    prob = _of_states(cells, face)[:, order]
    labels = None if face.holds_numbers else values
    # Categories stand at their codes, numbers at themselves.
    points = values if face.holds_numbers else np.arange(float(len(values)))
    # By the numbers of states in the source; the last entry, number -1, is for missing cells.
    points_of_states = np.append(points[np.argsort(order)], np.nan)
    known = points_of_states[np.where(np.isnan(known), -1, known).astype(np.intp)]
    return Predictive([Points(points, prob)], known, labels, cells.index)


def _of_states(cells: Predictive, face: Face) -> Floats:
    """Probabilities of the states of the source of a face, shape (n_rows, n_states)."""
    if cells.labels is not None:
        return cells.probabilities
    prob = cells.masses_at(face.source_cells)
    return prob / prob.sum(axis=1, keepdims=True)


def _side_by_side(events: Events, known: Events) -> list[Events]:
    """As many events as there are of what is known; one stands for any number."""
    sizes = len(events.rows), len(known.rows)
    if min(sizes) not in (1, max(sizes)):
        raise ValueError(f"given must have one event, or {sizes[0]}, one for each; got {sizes[1]}")
    # A single event answers to all numbers: modulo one, each of them is 0.
    return [each.take(np.arange(max(sizes)) % len(each.rows)) for each in (events, known)]
