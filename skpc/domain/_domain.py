"""What each column of a table is: a sequence of columns, which reads and writes tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Codes, Floats, Ints
from skpc.domain._categories import Categories
from skpc.domain._column import Column, Summary
from skpc.domain._declared import Declared, column_numbers, refuse_too_many
from skpc.domain._faces import Face
from skpc.domain._fitting import (
    check_first_rows,
    check_options,
    fit_target,
    read_with_ranks,
    with_axes,
    with_faces,
    with_laws,
    with_moved_axes,
)
from skpc.domain._hidden import RowNames
from skpc.domain._kinds import columns_before_laws
from skpc.domain._mass import LogMass, log_mass, warn_of_unseen
from skpc.domain._refusals import (
    refuse_contradiction,
    refuse_encoded,
    refuse_other_kind,
    refuse_unknown,
)
from skpc.domain._rows import all_are_cells, present_rows
from skpc.domain._tables import Cells, Form, Scale, fill_table, read_table, write_table
from skpc.variables import Histogram, HistogramTable, Law


@dataclass(frozen=True, repr=False, eq=False)
class Domain:
    """What each column of a table is; translates tables to encoded rows and back.

    It is a sequence of :class:`Column` values and the form of the table. Make one with
    :meth:`Domain.fit`; it never changes afterwards.

    Attributes
    ----------
    columns : tuple of Column
        What each column is; ``domain[j]`` is column ``j``.
    form : Form
        Library, column names and dtypes of the table that the domain was fitted on.
    handle_unknown : {"unseen", "missing", "error"}
        What an undeclared category becomes.
    is_plain : bool, default=False
        Whether numbers are taken as they are, with ``margins="plain"``: their columns have no law.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.array(
    ...     [["red", 0.5], ["blue", np.nan], [None, 1.5]], dtype=object
    ... )
    >>> domain = Domain.fit(table)
    >>> domain
    Domain(n_features=2, 1 categorical, 1 numeric)
    >>> rows = domain.encode(table)
    >>> rows
    array([[1. , 0.5],
           [0. , nan],
           [nan, 1.5]])
    >>> domain.decode(rows)
    array([['red', 0.5],
           ['blue', nan],
           [None, 1.5]], dtype=object)
    >>> print(domain)
    name  kind        values         atoms  lattice     why
    0     categories  'blue', 'red'                     strings
    1     number      0.5 to 1.5            1 from 0.5  numbers
    """

    columns: tuple[Column, ...]
    form: Form
    handle_unknown: str = "unseen"
    is_plain: bool = False

    @classmethod
    def fit(
        cls,
        table: Any,
        declared: Declared | None = None,
        *,
        n_bins: int | None = None,
        sample_weight: Floats | None = None,
    ) -> Domain:
        """Learn what the columns of a table are.

        Parameters
        ----------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            As ``check_table`` returns it.
        declared : Declared, default=None
            What is known of the columns. None: nothing.
        n_bins : int or None, default=None
            Largest number of bins of the axis of a numeric column. None: no axes.
        sample_weight : ndarray of shape (n_rows,) or None, default=None
            Positive: :func:`present_rows` leaves out the rows of weight zero.

        Returns
        -------
        domain : Domain

        Raises
        ------
        TypeError, ValueError
            If a parameter is invalid, or a column cannot be what it is declared to be; a table
            without any value, a column with more than 1,000 categories and one of numbers beyond
            1e150 are refused.

        Warns
        -----
        UserWarning
            If a column has no value or names the rows. No learner sees such a column.
        """
        declared = declared or Declared()
        check_options(declared, n_bins)
        weight = np.ones(len(table)) if sample_weight is None else sample_weight
        form = Form.from_table(table)
        cells, states = read_with_ranks(table, weight, form.names, declared)
        first_columns = columns_before_laws(states, cells, weight, form.names, declared)
        refuse_too_many(first_columns)
        is_plain = declared.margins == "plain"
        domain = cls(tuple(first_columns), form, declared.handle_unknown, is_plain)
        rows, _ = domain.encode_cells(cells)
        check_first_rows(rows, first_columns, form.names)
        # Laws come before faces: a column of ordered states is the source of its faces.
        columns = first_columns
        if not is_plain:
            columns = [*with_laws(first_columns, rows, weight, form.names, declared)]
        merged = with_faces(columns, rows, weight, declared)
        return domain._replace_columns(with_axes(merged, rows, weight, n_bins))

    def __getitem__(self, column_number: int) -> Column:
        return self.columns[column_number]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        n_categorical = int(self.is_categorical.sum())
        kind = "binned" if self.has_bins else "numeric"
        return (
            f"Domain(n_features={len(self)}, {n_categorical} categorical, "
            f"{len(self) - n_categorical} {kind})"
        )

    def __str__(self) -> str:
        lines = [Summary._fields, *(column.summary() for column in self)]
        table = [[str(cell) for cell in line] for line in lines]
        widths = [max(map(len, cells)) for cells in zip(*table)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in table)

    def to_frame(self) -> Any:
        """What each column is, as a pandas DataFrame of texts with a row for each column.

        Returns
        -------
        DataFrame
            The index, "name", has the names of the columns, or their numbers. "kind" is
            "categories", "number", "ordered states" (numbers with nothing between them),
            "ordered categories", "dates", "durations", "row names" (nearly every value is seen
            once) or "empty"; "values" the categories, or the range of the numbers in ``fit`` and
            their bounds; "atoms" the values with a probability of their own; "lattice" the distance
            between the numbers that a column can have, and where they start if not at zero; "why"
            what has decided the kind. ``print(domain)`` prints the same.
        """
        import pandas as pd

        lines = [column.summary() for column in self]
        return pd.DataFrame(lines, columns=Summary._fields).set_index("name")

    def column_numbers_of(self, chosen: Any, parameter: str) -> NDArray[np.intp]:
        """Numbers of the columns that a user chose by a mask, by numbers, or by names.

        Parameters
        ----------
        chosen : array-like, int or str
            A boolean mask, column numbers, or names; one number or name is a list of one.
        parameter : str
            Name of the parameter it came by, for error messages.

        Returns
        -------
        columns : ndarray of int

        Raises
        ------
        ValueError
            If the column does not exist.
        """
        if isinstance(chosen, Mapping):
            raise ValueError(
                f"{parameter} must say which columns are meant, by names, numbers or a mask; found "
                f"a dict. Pass list({parameter}), and the values as cells of X."
            )
        return column_numbers(
            np.atleast_1d(np.asarray(chosen)), self.n_features, self.feature_names, parameter
        )

    @property
    def feature_names(self) -> tuple[Any, ...] | None:
        """Column names, where the domain was fitted on a DataFrame."""
        return self.form.names

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @cached_property
    def is_categorical(self) -> Bools:
        """Which columns are categorical, shape (n_features,)."""
        return np.array([column.states is not None for column in self])

    @cached_property
    def is_ordered(self) -> Bools:
        """Which columns of numbers have ordered states: few values, with nothing between them."""
        return np.array([column.is_ordered for column in self])

    @cached_property
    def is_hidden(self) -> Bools:
        """Which columns no learner sees, shape (n_features,)."""
        return np.array([column.is_hidden for column in self])

    @cached_property
    def n_states(self) -> Ints:
        """Number of categories or bins of each column, 0 where continuous; shape (n_features,)."""
        return np.array([column.n_states for column in self], dtype=np.int64)

    @cached_property
    def axes(self) -> tuple[Histogram | None, ...]:
        """The histogram axis of each column, None where it has none."""
        return tuple(column.axis for column in self)

    @cached_property
    def laws(self) -> tuple[Law | None, ...]:
        """What the numbers of each column can be; None for categories and plain numbers."""
        return tuple(column.law for column in self)

    @cached_property
    def faces(self) -> dict[int, Face]:
        """The columns that tell the same as another one, by their numbers."""
        return {j: c for j, c in enumerate(self) if isinstance(c, Face)}

    @cached_property
    def calendars(self) -> dict[int, Scale]:
        """How dates and ordered categories are numbers (calendars, ranks), by their columns."""
        return {j: c.calendar for j, c in enumerate(self) if c.calendar is not None}

    @property
    def has_bins(self) -> bool:
        """Whether all columns of numbers have axes, not only those of ordered states."""
        has_axis = any(axis is not None for axis in self.axes)
        # Numbers without bins have no states, so every column must have some.
        return has_axis and bool(self.n_states.all())

    @cached_property
    def log_prob_seen(self) -> Floats:
        """Log probability (nats) that a cell holds a state known from fit, shape (n_features,).

        It is 0 in columns of numbers that have no states.
        """
        # log1p keeps the digits of small probabilities, which a difference from one would lose.
        return np.log1p(-np.array([column.unseen for column in self]))

    @cached_property
    def axis_table(self) -> HistogramTable:
        """The axes of all columns, as kernels read them."""
        return HistogramTable.from_axes(self.axes)

    def axis_of(self, column_number: int) -> Histogram:
        """The histogram axis of a column of numbers.

        Raises
        ------
        ValueError
            If the column has no axis.
        """
        axis = self.axes[column_number]
        if axis is None:
            raise ValueError(
                f"{self[column_number].where} has no bins; fit the Domain with n_bins, on a column "
                "of numbers."
            )
        return axis

    def without_bins(self) -> Domain:
        """The domain in which only ordered states have axes."""
        return self._replace_columns(c if c.is_ordered else replace(c, axis=None) for c in self)

    def taken(self, order: Ints) -> Domain:
        """The domain of ``rows[:, order]``: columns in another order, or some of them.

        Where faces are among them, all columns must be taken.
        """
        # The inverse of the order says where each column has gone, which faces need to know.
        new_numbers = np.argsort(order)
        columns = tuple(self[j].moved(new_numbers) for j in order.tolist())
        return replace(self, columns=columns, form=self.form.taken(order))

    def with_category(self, n_states: int) -> Domain:
        """The domain of encoded rows with one more column, of the states 0, 1, ..., at the end."""
        return self._with_column(Categories(states=np.arange(float(n_states))))

    def with_number(self, rows: Floats, weight: Floats, n_bins: int | None = None) -> Domain:
        """The domain of encoded rows with one more column, of numbers, at the end.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features + 1)
            Encoded rows with the numbers as their last column, some of them there. All values are
            atoms if there are five or fewer.
        weight : ndarray of shape (n_rows,)
            Positive.
        n_bins : int, default=None
            Largest number of bins of the new column, where the other columns have axes.

        Returns
        -------
        Domain
            Plain where this one is.
        """
        return self._with_column(
            fit_target(rows, weight, self.columns, n_bins, is_plain=self.is_plain)
        )

    def with_axes_of(self, rows: Floats, weight: Floats, n_bins: int | None = None) -> Domain:
        """The domain with axes that follow other rows, in as many bins; plain axes stay.

        So do those of ordered states, and of a column without values in these rows.
        Axes follow the rows closely. Held-out rows that have taken part in the axes would make
        densities with bins seem better than they are.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Encoded rows, NaN where missing.
        weight : ndarray of shape (n_rows,)
            Not negative; a row of weight zero is absent.
        n_bins : int, default=None
            Chooses the number of bins anew, up to this one.
        """
        present, present_weight = present_rows(rows, weight)
        if n_bins is None:
            return self._replace_columns(with_moved_axes(self, present, present_weight))
        return self._replace_columns(with_axes(self.columns, present, present_weight, n_bins))

    def with_scores(self, scores: Mapping[int, Any]) -> Domain:
        """The domain whose numbers have these scores, by the numbers of their columns."""
        return self._replace_columns(
            replace(column, law=column.law._replace(score=scores[j]))
            if j in scores and column.law is not None
            else column
            for j, column in enumerate(self)
        )

    def _replace_columns(self, columns: Iterable[Column]) -> Domain:
        return replace(self, columns=tuple(columns))

    def _with_column(self, new_column: Column) -> Domain:
        """The domain of encoded rows with one more column at the end."""
        columns = (*(known.encoded() for known in self), new_column)
        named = tuple(replace(column, name=j) for j, column in enumerate(columns))
        return Domain(named, Form("numpy"), self.handle_unknown, self.is_plain)

    def __reduce__(self) -> tuple[Any, ...]:
        # The cached tables stay out of the pickle: kernels need them writable, and a pickle may
        # come back memory-mapped and read-only.
        return Domain, tuple(getattr(self, field.name) for field in fields(self))

    def snap_to_values(self, drawn: Floats, rows: Floats | None = None) -> Floats:
        """Make drawn numbers the nearest values that their columns can have, in place.

        Parameters
        ----------
        drawn : ndarray of shape (n_rows, n_features), float64
            Drawn rows; changed in place.
        rows : ndarray of shape (n_rows, n_features), default=None
            The rows that were filled: their observed cells are left alone. None: all were drawn.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            ``drawn`` itself; see :meth:`skpc.variables.Law.values`.
        """
        for column_number, column in enumerate(self):
            if column.law is not None:
                # Only the cells that were missing have been drawn.
                cells = slice(None) if rows is None else np.isnan(rows[:, column_number])
                drawn[cells, column_number] = column.nearest(drawn[cells, column_number])
        return drawn

    def within_ends(self, rows: Floats) -> Floats:
        """Encoded rows whose numbers lie between the ends of their columns, or are states."""
        return np.column_stack([c.within_ends(cells) for c, cells in zip(self, rows.T)])

    def encode(self, table: Any) -> Floats:
        """Translate a table to encoded rows.

        Parameters
        ----------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            As ``check_table`` returns it. It is never modified.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features), float64, C-contiguous
            State codes of categories, the values of numeric columns (the nearest state in a column
            of ordered states), NaN where missing; 0 in a column that no learner sees. A float64
            array that is encoded already is returned itself: treat the result as read-only.

        Raises
        ------
        ValueError
            If a column holds strings where it held numbers in ``fit`` or the other way round, an
            integer beyond 2**53 as a category, or an unknown category while
            ``handle_unknown="error"``.
        """
        return self.encode_cells(read_table(table, self.calendars))[0]

    def encode_with_mass(self, table: Any) -> tuple[Floats, LogMass]:
        """Translate a table to encoded rows, and say what the states do not.

        Parameters
        ----------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            As for :meth:`encode`.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features), float64
            As from :meth:`encode`.
        mass : LogMass
            What the cells add to log densities of the encoded rows, those without the states that
            were not seen (``mass.known(rows)``). With ``handle_unknown="unseen"`` a warning
            names the first category that was not seen.
        """
        cells = read_table(table, self.calendars)
        rows, unknown = self.encode_cells(cells)
        if self.handle_unknown == "unseen":
            warn_of_unseen(self.columns, self.faces, unknown, cells)
        return rows, log_mass(self.columns, self._mass_columns, self.faces, unknown, cells)

    def encode_cells(self, cells: Cells) -> tuple[Floats, dict[int, Bools]]:
        """Translate the cells of a table that has been read to encoded rows.

        Parameters
        ----------
        cells : Cells
            The contents of the table.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features), float64
            As from :meth:`encode`.
        unknown : dict from int to ndarray of shape (n_rows,), bool
            Which rows hold an unknown state in which columns.
        """
        unknown: dict[int, Bools] = {}
        rows = cells.numbers
        # A table of codes needs no encoding, but may hold numbers that are no ordered states.
        to_encode = np.flatnonzero(self.is_ordered).tolist()
        if cells.strings or not self._holds_codes or not all_are_cells(rows, self._n_codes):
            # Codes go into a copy: this may be the user's array.
            rows = rows.copy()
            to_encode = [*range(len(self))]
        for column_number in to_encode:
            column = self[column_number]
            refuse_other_kind(column, cells, column_number)
            codes, is_unknown = column.encode(cells, column_number)
            if is_unknown.any():
                unknown[column_number] = is_unknown
                # Copy on first write: this may be the user's array.
                rows = rows.copy() if rows is cells.numbers else rows
                if self.handle_unknown == "error" and isinstance(column, Categories):
                    refuse_unknown(column, cells, column_number, int(is_unknown.argmax()))
            if rows is not cells.numbers:
                rows[:, column_number] = codes
        # Faces come last: their cells tell or contradict the codes of their sources.
        for face in self.faces.values():
            contradicts = face.join(rows, unknown, cells)
            if not contradicts.any():
                continue
            if self.handle_unknown == "error":
                refuse_contradiction(face, self[face.source], cells, int(contradicts.argmax()))
            # Such a contradiction is a missing cell, and not an unseen state.
            if self.handle_unknown == "missing":
                unknown[face.source] = unknown[face.source] & ~contradicts
        return rows, unknown

    def numbers_in(self, table: Any) -> Floats:
        """The numbers of a table before any of them counts as the nearest state; NaN elsewhere."""
        return read_table(table, self.calendars).numbers

    def check_encoded(self, rows: Any) -> Floats:
        """Encoded rows as kernels read them, every cell being one that its column can have.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            As :meth:`encode` returns them.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features), float64, C-contiguous

        Raises
        ------
        ValueError
            If this is no array of numbers of as many columns, a category is no code of a state, or
            a number is infinite.
        """
        is_numbers = isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf"
        if not is_numbers or rows.shape[1:] != (self.n_features,):
            kind = f" of {rows.dtype}" if isinstance(rows, np.ndarray) else ""
            raise ValueError(
                "rows must be encoded rows (domain.encode makes them), an array of numbers of "
                f"shape (n_rows, {self.n_features}), got {type(rows).__name__}{kind} of shape "
                f"{np.shape(rows)}"
            )
        # Kernels are compiled for one flavour of array, contiguous and writable.
        rows = np.require(rows, np.float64, ("C", "W"))
        if not all_are_cells(rows, self._n_codes):
            refuse_encoded(rows, self.columns, self._n_codes)
        return rows

    def codes(self, rows: Floats) -> Codes:
        """Give every cell of encoded rows its state: category or bin, -1 where missing.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features), float64

        Returns
        -------
        codes : ndarray of shape (n_rows, n_features), int16, C-contiguous

        Raises
        ------
        ValueError
            If a numeric column has no axis, or :meth:`check_encoded` refuses the rows.
        """
        # A column without states has no codes: asking for its axis raises the error.
        if not self.n_states.all():
            self.axis_of(int(self.n_states.argmin()))
        return self.axis_table.states(self.check_encoded(rows))

    def decode(self, rows: Floats, like: Any = None) -> Any:
        """Translate encoded rows back to a table in original units.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features), float64
        like : DataFrame or ndarray, default=None
            The table whose library, names, dtypes and index to follow; by default those of the
            table that the domain was fitted on.

        Returns
        -------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            An array is float64 where every column is numeric, else object. Numbers are rounded
            where the dtype holds integers. Where nothing changes this is ``rows`` itself.
        """
        form = self.form if like is None else Form.from_table(like)
        # An array of codes that stand for themselves is decoded already.
        if form.library == "numpy" and self._holds_codes and not self.calendars:
            return rows
        cells = [column.decode(rows, j) for j, column in enumerate(self)]
        return write_table(cells, form, self.calendars, like)

    def draw_row_names(
        self, rows: Floats, random_state: np.random.RandomState, given: Any = None
    ) -> Floats:
        """Encoded rows that :meth:`decode` gives names, in the columns that name rows.

        The names are drawn, unless the only row of the table ``given`` has one that is known.
        """
        strings = {} if given is None else read_table(given, self.calendars).strings
        rows = rows.copy()
        for column_number, column in enumerate(self):
            if isinstance(column, RowNames):
                given_name = strings.get(column_number, [None])[0]
                name_number = np.flatnonzero(column.values == given_name)
                # No known name is given: names are uniform, so that each row draws one.
                if not len(name_number):
                    name_number = random_state.randint(len(column.values), size=len(rows))
                # Code 0 is a missing cell, so names are numbered from one.
                rows[:, column_number] = name_number + 1.0
        return rows

    def fill(self, table: Any, rows: Floats) -> Any:
        """Fill the missing cells of a table from encoded rows.

        Parameters
        ----------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            As ``check_table`` returns it. Every cell that is not missing keeps its exact value,
            unknown categories included; a DataFrame keeps its index. It is never modified.
        rows : ndarray of shape (n_rows, n_features), float64
            Encoded rows; only the cells that ``table`` lacks are read. Numbers do not cross the
            ends of their columns, and become the nearest of ordered states.

        Returns
        -------
        table : DataFrame or ndarray of shape (n_rows, n_features)
        """
        return fill_table(table, self.decode(self.within_ends(rows), like=table))

    @cached_property
    def _holds_codes(self) -> bool:
        """Whether every category is its own state code."""
        return all(
            states is None
            or (states.dtype == np.float64 and np.array_equal(states, np.arange(len(states))))
            for states in (column.states for column in self)
        )

    @cached_property
    def _n_codes(self) -> Floats:
        """Number of states of each column, 0 for a numeric one."""
        return np.where(self.is_categorical, self.n_states, 0.0)

    @cached_property
    def _mass_columns(self) -> Ints:
        """The columns whose cells may add to log densities: with unseen shares, or hidden ones."""
        return np.array([j for j, c in enumerate(self) if c.unseen > 0.0 or c.is_hidden], np.int64)


def one_hot(domain: Domain, rows: Floats) -> Floats:
    """Numbers as they are, an indicator for each category; NaN where the cell is missing.

    Parameters
    ----------
    domain : Domain
        What the columns are.
    rows : ndarray of shape (n_rows, n_features)
        Encoded rows, or others with the same categories.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain, one_hot
    >>> table = np.array([["red", 0.5], ["blue", 2.5]], dtype=object)
    >>> domain = Domain.fit(table)
    >>> one_hot(domain, domain.encode(table))
    array([[0. , 1. , 0.5],
           [1. , 0. , 2.5]])
    """
    parts = []
    # The values have shape (n_rows, 1), so that comparing them with states makes columns.
    for column, values in zip(domain, rows.T[:, :, np.newaxis]):
        if column.states is None:
            parts.append(values)
        else:
            is_state = values == np.arange(column.n_states)
            parts.append(np.where(np.isnan(values), np.nan, is_state))
    return np.hstack(parts)
