"""The distributions of missing cells, given the observed cells of their rows.

The parts of a predictive distribution may have several forms (:class:`FormSum`), and a cell may be
known to lie in intervals (:class:`WithinIntervals`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Self

import numpy as np

from skpc._arrays import Floats, log_or_inf
from skpc._validation import columns_like
from skpc.variables.dates import Calendar, as_dates
from skpc.variables.forms import Bins, Form, Points, ScoredNormals
from skpc.variables.law import Law
from skpc.variables.ranks import Ranks


@dataclass(frozen=True, eq=False)
class FormSum(Form):
    """Distributions whose parts have several forms: the sums of these.

    Parameters
    ----------
    forms : tuple of forms
        Each has one row of probabilities for each distribution; over all forms a row sums to one.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Normals, Points
    >>> from skpc.variables.predictive import FormSum
    >>> zero = Points(np.array([0.0]), np.array([[0.5]]))
    >>> both = FormSum(
    ...     (zero, Normals(np.array([2.0]), np.array([1.0]), np.array([[0.5]])))
    ... )
    >>> both.means(), both.total(), both.quantiles(0.75)
    (array([1.]), array([1.]), array([2.]))
    """

    forms: Sequence[Any]

    @property
    def centre(self) -> float:
        """A number inside the column."""
        return float(self.forms[0].centre) if self.forms else 0.0

    def moments(self, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` under each distribution."""
        mean, square = np.sum([form.moments(centre) for form in self.forms], axis=0)
        return mean, square

    def moments_between(self, low: Floats, high: Floats, centre: float) -> tuple[Floats, Floats]:
        """What each distribution's own interval ``low < x <= high`` adds to its moments."""
        parts = [form.moments_between(low, high, centre) for form in self.forms]
        mean, square = np.sum(parts, axis=0)
        return mean, square

    def mean_squares(self, centre: Floats) -> Floats:
        """Mean square of each distribution around its own centre."""
        return sum(form.mean_squares(centre) for form in self.forms)

    def below(self, x: Floats, low: Any = -np.inf) -> Floats:
        """Probability under each distribution of ``low < draw <= x``, its own ``x``."""
        return sum(form.below(x, low) for form in self.forms)

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``."""
        return np.logaddexp.reduce([form.log_density(x) for form in self.forms])

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return sum(form.total() for form in self.forms)

    def scaled(self, weight: Floats) -> Self:
        """The distributions as parts of a mixture, with weights of shape (n, 1)."""
        return type(self)(tuple(form.scaled(weight) for form in self.forms))

    def without_atoms(self) -> Self:
        """The part without atoms, with its probability."""
        # Points are nothing but atoms.
        without_points = (form for form in self.forms if not isinstance(form, Points))
        return type(self)(tuple(form.without_atoms() for form in without_points))

    @property
    def atoms(self) -> Floats:
        """The numbers that have a probability of their own, increasing, shape (n_atoms,)."""
        return np.unique(np.concatenate([_atoms_of(form) for form in self.forms]))


@dataclass(frozen=True, eq=False)
class WithinIntervals(Form):
    """Distributions given that each number lies in intervals ``low < x <= high`` of its own.

    Parameters
    ----------
    form : FormSum
        The distributions without this condition.
    low, high : ndarrays of shape (n, n_intervals)
        The intervals of each distribution, which are disjoint or empty.
    weight : ndarray of shape (n,)
        Factor of the probabilities of values in the intervals.
    """

    form: FormSum
    low: Floats
    high: Floats
    weight: Floats

    @property
    def centre(self) -> float:
        """A number inside the column."""
        return self.form.centre

    def below(self, x: Floats, low: Any = -np.inf) -> Floats:
        """Probability under each distribution of ``low < draw <= x``, its own ``x``."""
        # Each interval is cut to the part that lies between low and x.
        pieces = [
            self.form.below(np.clip(x, begin, end), np.clip(low, begin, end))
            for begin, end in zip(self.low.T, self.high.T)
        ]
        return self.weight * np.sum(pieces, axis=0)

    def total(self) -> Floats:
        """Probability of each distribution: one, unless it is a part of a mixture."""
        return self.below(np.full(len(self.weight), np.inf))

    def holds(self, x: Floats) -> Any:
        """Whether the number for each distribution is in one of its intervals."""
        cells = x[:, np.newaxis]
        return ((self.low < cells) & (cells <= self.high)).any(axis=1)

    def log_density(self, x: Floats) -> Floats:
        """Log density (nats) of each distribution at its own ``x``."""
        return self.form.log_density(x) + log_or_inf(self.weight * self.holds(x))

    def moments(self, centre: float) -> tuple[Floats, Floats]:
        """Mean and mean square of ``x - centre`` under each distribution."""
        parts = [
            self.form.moments_between(low, high, centre)
            for low, high in zip(self.low.T, self.high.T)
        ]
        mean, square = self.weight * np.sum(parts, axis=0)
        return mean, square

    def moments_between(self, low: Floats, high: Floats, centre: float) -> tuple[Floats, Floats]:
        """What each distribution's own interval ``low < x <= high`` adds to its moments."""
        ends = np.maximum(self.low, low[:, np.newaxis]), np.minimum(self.high, high[:, np.newaxis])
        # Where two intervals do not meet, their intersection must be empty, not reversed.
        within_ends = replace(self, low=ends[0], high=np.maximum(*ends))
        return within_ends.moments(centre)

    def scaled(self, weight: Floats) -> Self:
        """The distributions as parts of a mixture, with weights of shape (n, 1)."""
        return replace(self, weight=self.weight * weight[:, 0])


@dataclass(eq=False, repr=False)
class Predictive:
    """The distributions of the cells of one column, one for each row.

    Means, intervals and probabilities of a cell follow from it, and mixtures of several models do.

    Parameters
    ----------
    terms : sequence of Points, Normals, Bins or ScoredNormals
        Forms with one row of probabilities for each cell; over all terms a row sums to one.
    known : ndarray of shape (n_rows,)
        The cells that are observed, NaN where missing.
    labels : array of shape (n_states,), default=None
        The categories of a categorical column, whose one term is over their codes 0, 1, ...; None
        for a column of numbers. If the labels are numbers, the methods below compute with them.
    index : pandas Index, default=None
        Names of the rows, for :meth:`to_frame`.
    law : Law, default=None
        What a numeric column is. On a lattice, distribution functions rise only at its points, and
        quantiles are such points.
    dates : Calendar or Ranks, default=None
        How the numbers are dates or ordered categories. Then means, quantiles, atoms and edges are
        such (the nearest category), ``cdf`` takes them, and variances are squares of
        ``dates.unit`` or of ranks.

    Attributes
    ----------
    name : str or None
        The name of the column, where it has one.
    probabilities : ndarray of shape (n_rows, n_states), or None
        Probabilities of the categories, or of the bins and atoms of a histogram axis in increasing
        order. An observed cell has probability one for its own state. None for numbers without
        bins.
    edges : ndarray or None
        Edges between the bins; an atom lies between two edges of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables import Normals, Predictive
    >>> part = Normals(np.array([0.0]), np.array([1.0]), np.ones((2, 1)))
    >>> cells = Predictive([part], known=np.array([np.nan, 5.0]))
    >>> cells.mean(), cells.quantile(0.975).round(2), cells.cdf(1.0).round(2)
    (array([0., 5.]), array([1.96, 5.  ]), array([0.84, 0.  ]))
    """

    terms: Sequence[Any]
    known: Floats
    labels: Any = None
    index: Any = None
    law: Law | None = None
    dates: Calendar | Ranks | None = None
    name: Any = field(default=None, init=False)

    def __repr__(self) -> str:
        what = "numbers" if self.edges is None else f"numbers in {len(self.edges) + 1} bins"
        what = what if self.labels is None else f"{len(self.labels)} categories"
        return f"Predictive(n_rows={len(self.known)}, {what})"

    @classmethod
    def mixture(cls, members: Sequence[Self], weight: Floats) -> Self:
        """Mix the distributions of several models for the same cells.

        Parameters
        ----------
        members : sequence of Predictive
            One for each model.
        weight : ndarray of shape (n_members,) or (n_rows, n_members)
            Weights of the models, one set for all rows or one for each row; they sum to one.

        Returns
        -------
        Predictive

        Raises
        ------
        ValueError
            If the members are not about the same cells and categories, or the weights do not fit.
        """
        reference = members[0]
        weight = np.asarray(weight, dtype=np.float64)
        _refuse_other_cells(members)
        # One weight for each row and member, or for each member.
        shape = (len(reference.known), len(members))
        fits = weight.shape in (shape, shape[1:])
        if not fits or np.any(weight < 0.0) or not np.allclose(weight.sum(axis=-1), 1.0):
            raise ValueError(
                f"weight must have shape {shape[1:]} or {shape} and rows of probabilities that sum "
                f"to one, got shape {weight.shape}: {weight}"
            )
        row_weights = np.broadcast_to(weight, shape)
        terms = [
            term.scaled(row_weights[:, [k]])
            for k, member in enumerate(members)
            for term in member.terms
        ]
        return replace(reference, terms=_joined(terms))

    def within(self, low: Floats, high: Floats) -> Self:
        """The distributions given that each cell lies in intervals ``low < x <= high`` of its own.

        Parameters
        ----------
        low, high : ndarrays of shape (n_rows, n_intervals)
            The intervals of each row are disjoint, or empty. In a column of categories they are
            about the codes.

        Returns
        -------
        Predictive
            It has ``probabilities`` in a column of categories only.
        """
        # Intervals of a smaller probability count as impossible, which must not divide by zero.
        least = 1e-300
        whole = WithinIntervals(FormSum(self.terms), low, high, np.ones(len(self.known)))
        total = whole.total()
        weight = 1.0 / np.maximum(total, least)
        terms: list[Any] = [replace(whole, weight=weight)]
        if self.labels is not None:
            # Categories remain categories, of which those outside the intervals are impossible.
            codes = np.tile(self.terms[0].value, (len(weight), 1)).T
            is_within = np.column_stack([whole.holds(code) for code in codes])
            prob = self.terms[0].prob * is_within * weight[:, np.newaxis]
            terms = [Points(self.terms[0].value, prob)]
        elif len(lost := np.flatnonzero(total < least)):
            # So far out in a tail all mass is at the near end of the range.
            nearest = np.clip(whole.centre, np.nextafter(low[lost, 0], np.inf), high[lost, 0])
            terms.append(Points(nearest, np.equal.outer(np.arange(len(total)), lost) * 1.0))
        return replace(self, terms=terms)

    @property
    def probabilities(self) -> Any:
        """Probabilities of the states of the column; None without states."""
        # Terms of several forms, or within intervals, have no states in common.
        term, *later_terms = self.terms
        if later_terms or (self.labels is None and self.edges is None):
            return None
        prob = term.prob / term.prob.sum(axis=1, keepdims=True)
        observed = np.flatnonzero(~np.isnan(self.known))
        state = self.known[observed].astype(np.intp)
        if isinstance(term, Bins):
            # A state on both sides of an atom is split, so that columns are in increasing order.
            edges, shares = term.axis.stretches()
            prob = prob @ shares
            state = np.searchsorted(edges, self.known[observed], side="right")
        prob[observed] = 0.0
        prob[observed, state] = 1.0
        return prob

    @property
    def edges(self) -> Any:
        """Edges between the bins; None for a column without bins."""
        term = self.terms[0]
        has_bins = isinstance(term, Bins) and not self.terms[1:]
        return as_dates(term.axis.stretches()[0], self.dates) if has_bins else None

    @property
    def atoms(self) -> Any:
        """The numbers that have a probability of their own, increasing, shape (n_atoms,)."""
        return as_dates(self._atoms, self.dates)

    @property
    def _atoms(self) -> Floats:
        """The :attr:`atoms` as numbers."""
        return FormSum(self.terms).atoms if self.labels is None else np.empty(0)

    def atom_probabilities(self) -> Floats:
        """Probability of each of the :attr:`atoms`, shape (n_rows, n_atoms)."""
        return self.masses_at(self._atoms)

    def masses_at(self, numbers: Floats) -> Floats:
        """Probability of each of some numbers, shape (n_rows, n_numbers).

        It is that by which the distribution function rises there; dates and categories are numbers.
        """
        columns = [
            self._cdf(number) - self._cdf(np.nextafter(number, -np.inf))
            for number in numbers.tolist()
        ]
        return np.array(columns).reshape(len(columns), len(self.known)).T

    def mean(self) -> Any:
        """Mean of each cell, shape (n_rows,).

        Raises
        ------
        ValueError
            If the column has categories that are not numbers; so do all methods below.
        """
        return as_dates(self._mean(), self.dates)

    def _mean(self) -> Floats:
        """The :meth:`mean` as numbers."""
        form, known = self._numbers()
        missing = np.isnan(known)
        # Observed cells get weight zero, which saves their quadratures.
        means = form.scaled(missing[:, np.newaxis]).means()
        return np.where(missing, means, known)

    def centres(self) -> Floats:
        """What fills each cell by itself: its mean, or the code of its most probable category."""
        if self.labels is not None:
            return self.probabilities.argmax(axis=1).astype(np.float64)
        return self._mean()

    def variance(self) -> Floats:
        """Variance of each cell, shape (n_rows,); zero where it is observed."""
        form, known = self._numbers()
        return np.where(np.isnan(known), form.mean_squares(form.means()), 0.0)

    def cdf(self, x: Any) -> Floats:
        """Probability that each cell is at most ``x``, which is one number, or one for each row."""
        return self._cdf(x if self.dates is None else self.dates.numbers_of(x, "x"))

    def _cdf(self, x: Any) -> Floats:
        """The :meth:`cdf` at numbers."""
        form, known = self._numbers()
        points = np.asarray(x, dtype=np.float64)
        if points.shape not in ((), known.shape):
            raise ValueError(f"x must be one number or {len(known)}, one a row; got {points.shape}")
        edges = np.broadcast_to(points, known.shape)
        # A draw becomes the value in whose cell it lies: the cells of values up to x count whole.
        edges = edges if self.law is None else self.law.upper_edges(edges)
        return np.where(np.isnan(known), np.clip(form.below(edges), 0.0, 1.0), known <= points)

    def restricted_mean(self, limit: float) -> Floats:
        """Mean of the lesser of each cell and a limit, shape (n_rows,)."""
        form, known = self._numbers()
        low = np.full(len(known), -np.inf)
        # The part of the mean of (cell - limit) that comes from values below the limit.
        high = np.full(len(known), limit)
        distance = form.moments_between(low, high, limit)[0]
        return np.where(np.isnan(known), limit + distance, np.minimum(known, limit))

    def quantile(self, level: float) -> Any:
        """The number below which each cell lies with probability ``level``, shape (n_rows,).

        Raises
        ------
        ValueError
            If the level is not one number between 0 and 1, or the categories are not numbers.
        """
        if not isinstance(level, Real) or not 0.0 < level < 1.0:
            raise ValueError(f"level must be a probability strictly between 0 and 1, got {level!r}")
        form, known = self._numbers()
        quantiles = form.quantiles(level)
        # On a lattice, and where values repeat, a quantile is a value of the column.
        if self.law is not None:
            quantiles = self.law.values(quantiles)
        return as_dates(np.where(np.isnan(known), quantiles, known), self.dates)

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each cell: probabilities of categories, or of bins.

        The columns are the categories, ordered or not, or the intervals between the edges; for
        dates, and numbers without bins, they are the mean and the quantiles of 5, 50 and 95
        percent.
        """
        import pandas as pd

        if isinstance(self.dates, Ranks) and self.labels is None:
            categories = self.dates.labels
            prob = self.masses_at(np.arange(float(len(categories))))
            return pd.DataFrame(prob, columns=list(categories), index=self.index)
        prob = self.probabilities
        if prob is None or (self.dates is not None and self.labels is None):
            columns = {f"{level:g}": self.quantile(level) for level in (0.05, 0.5, 0.95)}
            return pd.DataFrame({"mean": self.mean(), **columns}, index=self.index)
        if self.labels is not None:
            return pd.DataFrame(prob, columns=list(self.labels), index=self.index)
        limits = [-np.inf, *(float(f"{edge:.6g}") for edge in np.asarray(self.edges)), np.inf]
        bins = pd.IntervalIndex.from_breaks(limits, closed="left")
        return pd.DataFrame(prob, columns=bins, index=self.index)

    def _numbers(self) -> tuple[FormSum, Floats]:
        """Distributions and known cells as numbers: the labels in place of their codes."""
        if self.labels is None:
            return FormSum(self.terms), self.known
        labels = np.asarray(self.labels)
        if labels.dtype.kind not in "biuf":
            raise ValueError(
                f"the column has categories such as {labels[0]!r}, which are not numbers; ask "
                "probabilities, or to_frame()"
            )
        value = labels.astype(np.float64)
        # A form of points needs increasing numbers, but labels come in any order.
        order = np.argsort(labels)
        prob = self.terms[0].prob[:, order]
        # The code of a missing cell must be valid here, though it is not used.
        code = np.where(np.isnan(self.known), 0, self.known).astype(np.intp)
        known = np.where(np.isnan(self.known), np.nan, value[code])
        return FormSum((Points(value[order], prob),)), known


def _atoms_of(term: Form) -> Floats:
    """The numbers that have a probability of their own under a form."""
    if isinstance(term, WithinIntervals):
        return term.form.atoms
    if isinstance(term, Bins):
        return term.axis.atoms
    if isinstance(term, Points):
        return term.value
    return term.column.atoms if isinstance(term, ScoredNormals) else np.empty(0)


def _refuse_other_cells(members: Sequence[Predictive]) -> None:
    """Raise if members of a mixture are not about the same cells."""
    for member in members[1:]:
        if not np.array_equal(member.known, members[0].known, equal_nan=True):
            raise ValueError("a mixture needs members for the same rows, with the same known cells")
        labels = [None if m.labels is None else list(m.labels) for m in (members[0], member)]
        if labels[0] != labels[1]:
            raise ValueError(
                f"a mixture needs members with the same categories, got {labels[0]} and {labels[1]}"
            )


def _joined(terms: list[Any]) -> list[Any]:
    """The terms of a mixture, where those over the same points or the same axis become one."""
    joined: dict[Any, Any] = {}
    for term in terms:
        if isinstance(term, Points | Bins):
            # Equal points, or equal axes, have the same bytes.
            parts = term.value if isinstance(term, Points) else term.axis.flat
            key = parts.tobytes()
            same = joined.get(key)
            joined[key] = replace(same, prob=same.prob + term.prob) if same else term
        else:
            joined[id(term)] = term
    return list(joined.values())


class Marginals(list[Predictive]):
    """Distributions of the cells of all columns, by their numbers or by their names.

    Examples
    --------
    >>> from skpc.variables import Predictive
    >>> from skpc.variables.predictive import Marginals
    >>> of_a, of_b = Predictive([], []), Predictive([], [])
    >>> of_a.name, of_b.name = "a", "b"
    >>> marginals = Marginals([of_a, of_b])
    >>> marginals["b"] is marginals[1] is marginals[1:]["b"]
    True
    """

    def __getitem__(self, column: Any) -> Any:
        if isinstance(column, str):
            names = [cells.name for cells in self]
            if column not in names:
                has_names = any(isinstance(name, str) for name in names)
                raise KeyError(
                    f"marginals has no column {column!r}; "
                    + (columns_like(column, names) if has_names else "its columns are numbers")
                )
            column = names.index(column)
        chosen = super().__getitem__(column)
        return Marginals(chosen) if isinstance(column, slice) else chosen
