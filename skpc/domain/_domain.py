"""What each column of a table is: a sequence of columns, which reads and writes tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Codes, Floats, Ints
from skpc._validation import (
    check_magnitude,
    check_option,
    column_of,
    frame_library,
    join_columns,
    missing_cells,
    objects_of,
    unmasked,
)
from skpc._warnings import warn
from skpc.domain._bins import fit_axes, fit_laws
from skpc.domain._categories import Categories, shorten
from skpc.domain._column import Column, Summary
from skpc.domain._declared import (
    MAX_STATES,
    Declared,
    choose_categories,
    column_numbers,
    columns_named,
    refuse_too_many,
)
from skpc.domain._faces import Face, fit_faces
from skpc.domain._hidden import Empty, RowNames
from skpc.domain._kinds import first_columns, reasons, with_law
from skpc.domain._mass import LogMass, least_share
from skpc.domain._numbers import Numbers
from skpc.domain._rows import all_are_cells, present_rows
from skpc.domain._tables import Cells, Form, Scale, fill_table, read_table, write_table
from skpc.variables import Histogram, HistogramTable, Law, fit_histogram
from skpc.variables.atoms import repeated
from skpc.variables.dates import text_of


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
        handle_unknown = declared.handle_unknown
        _check_options(n_bins, handle_unknown)
        weight = np.ones(len(table)) if sample_weight is None else sample_weight
        cells = read_table(table, weight=weight)
        form = Form.from_table(table)
        is_plain = declared.margins == "plain"
        if is_plain and (declared.bounds is not None or not isinstance(declared.atoms, str)):
            raise ValueError(
                "margins='plain' has neither atoms nor bounds, but some are declared; leave them "
                "out, or use margins='auto'."
            )
        # Plain margins know no ordered states: ordered categories stay categories.
        if is_plain:
            cells.ordered.clear()
        states = choose_categories(cells, weight, form.names, declared)
        is_strict = handle_unknown == "error"
        # Ordered categories that do not count as categories become numbers, their ranks.
        ranks = {
            place: order._replace(is_strict=is_strict)
            for place, order in cells.ordered.items()
            if states[place] is None
        }
        # The ranks were not known at the first reading: the table is read again with them.
        if ranks:
            cells = read_table(table, cells.dates | ranks)
        has_mass = handle_unknown == "unseen"
        columns = first_columns(states, cells, weight, form.names, declared)
        refuse_too_many(columns)
        domain = cls(tuple(columns), form, handle_unknown, is_plain)
        rows, _ = domain._encode_cells(cells)
        # Declared categories may leave a column without any cell that a learner could use.
        domain._refuse_empty_columns(rows)
        # Later steps take powers of the numbers, which must not overflow.
        for place in np.flatnonzero(~domain.is_categorical).tolist():
            check_magnitude(rows[:, place], form.names, place)
        domain._warn_of_hidden()
        if not is_plain:
            laws = fit_laws(rows, weight, columns, declared, form.names)
            columns = [with_law(column, law) for column, law in zip(columns, laws)]
        # Laws come before faces: a column of ordered states is the source of its faces.
        faces = fit_faces(rows, weight, columns) if declared.merges_columns else {}
        for place, face in faces.items():
            source = columns[face.source]
            # The law of ordered states gives their share; of categories the largest one counts.
            if has_mass and not source.is_ordered:
                least = least_share(float(weight.sum()))
                unseen = max(source.unseen, columns[place].unseen, least)
                columns[face.source] = source = replace(source, unseen=unseen)
            columns[place] = face
        # Faces of one source have its final share.
        columns = [
            replace(column, unseen=columns[column.source].unseen)
            if isinstance(column, Face)
            else column
            for column in columns
        ]
        domain = replace(domain, columns=tuple(columns))
        # Hidden columns, now the faces among them, have one state in whatever looks at the rows.
        rows = np.where(domain.is_hidden, 0.0, rows)
        axes = fit_axes(rows, weight, domain.columns, n_bins)
        # Only columns that a user has named give that as their reason; words such as "auto" do not.
        chosen = declared.categorical_features
        is_word = chosen is None or isinstance(chosen, str)
        named = [] if is_word else domain.places(chosen, "").tolist()
        why = reasons(domain.columns, cells, named, declared)
        # A face has its reason already; any other column gets the one just found.
        columns = [
            replace(column, axis=axis, why=column.why or reason)
            for column, axis, reason in zip(columns, axes, why)
        ]
        return replace(domain, columns=tuple(columns))

    def __getitem__(self, place: int) -> Column:
        return self.columns[place]

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

    def places(self, chosen: Any, parameter: str) -> NDArray[np.intp]:
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
        return {place: c for place, c in enumerate(self) if isinstance(c, Face)}

    @cached_property
    def calendars(self) -> dict[int, Scale]:
        """The columns of dates or ordered categories, and how these are numbers."""
        return {p: c.calendar for p, c in enumerate(self) if c.calendar is not None}

    @property
    def has_bins(self) -> bool:
        """Whether all columns of numbers have axes, not only those of ordered states."""
        has_axis = [axis is not None for axis in self.axes]
        # Numbers without bins have no states, so that no column may be without.
        return any(has_axis) and bool(self.n_states.all())

    @cached_property
    def log_seen(self) -> Floats:
        """Log probability (nats) that a cell holds a state known from fit, shape (n_features,).

        It is 0 in columns of numbers that have no states.
        """
        # log1p keeps the digits of small probabilities, which a difference from one would lose.
        return np.log1p(-np.array([column.unseen for column in self]))

    @cached_property
    def axis_table(self) -> HistogramTable:
        """The axes of all columns, as kernels read them."""
        return HistogramTable.from_axes(self.axes)

    def axis_of(self, column: int) -> Histogram:
        """The histogram axis of a column of numbers.

        Raises
        ------
        ValueError
            If the column has no axis.
        """
        axis = self.axes[column]
        if axis is None:
            raise ValueError(
                f"{self[column].where} has no bins; fit the Domain with n_bins, on a column of "
                "numbers."
            )
        return axis

    def without_bins(self) -> Domain:
        """The domain in which only ordered states have axes."""
        return self._with(c if c.is_ordered else replace(c, axis=None) for c in self)

    def taken(self, order: Ints) -> Domain:
        """The domain of rows with their columns in another order, ``rows[:, order]``."""
        # The inverse of the order says where each column has gone, which faces need to know.
        places = np.argsort(order)
        columns = tuple(self[place].moved(places) for place in order.tolist())
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
        # The values of a new column of numbers are all atoms if there are no more than this.
        few_values = 5
        law = None
        if not self.is_plain:
            values = np.unique(rows[~np.isnan(rows[:, -1]), -1])
            # Between a few values, such as stars, there is nothing.
            atoms = values if len(values) <= few_values else repeated(rows[:, -1], weight)
            # Targets may go on beyond those of the table.
            law = Law.of_target(rows[:, -1], weight, atoms)
        target = with_law(Numbers(), law)
        # The number of bins is chosen by what pairs of columns say, so all columns take part.
        if n_bins is not None and self.n_states.all():
            axes = fit_axes(rows, weight, (*self.columns, target), n_bins)
            target = replace(target, axis=axes[-1])
        return self._with_column(target)

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
        rows, weight = present_rows(rows, weight)
        columns = list[Column]()
        if n_bins is not None:
            # What a hidden column holds must have no part in the axes.
            shown = np.where(self.is_hidden, 0.0, rows)
            axes = fit_axes(shown, weight, self.columns, n_bins)
            return self._with(map(lambda column, axis: replace(column, axis=axis), self, axes))
        for column, values in zip(self, rows.T):
            axis = column.axis
            law = column.law
            is_empty = np.isnan(values).all()
            if axis and law and not column.is_ordered and not is_empty:
                # Atoms have states of their own: only the other states are bins.
                n_bins = max(axis.n_states - len(axis.atoms), 1)
                column = replace(column, axis=fit_histogram(values, weight, law).binned(n_bins))
            columns.append(column)
        return self._with(columns)

    def with_scores(self, scores: Mapping[int, Any]) -> Domain:
        """The domain whose numbers have these scores, by the numbers of their columns."""
        return self._with(
            replace(column, law=column.law._replace(score=scores[place]))
            if place in scores and column.law is not None
            else column
            for place, column in enumerate(self)
        )

    def _with(self, columns: Any) -> Domain:
        return replace(self, columns=tuple(columns))

    def _with_column(self, column: Column) -> Domain:
        """The domain of encoded rows with one more column at the end."""
        columns = (*(known.encoded() for known in self), column)
        named = tuple(replace(c, name=place) for place, c in enumerate(columns))
        return Domain(named, Form("numpy"), self.handle_unknown, self.is_plain)

    def __reduce__(self) -> tuple[Any, ...]:
        # The cached tables stay out of the pickle: kernels need them writable, and a pickle may
        # come back memory-mapped and read-only.
        return Domain, tuple(getattr(self, field.name) for field in fields(self))

    def values(self, drawn: Floats, rows: Floats | None = None) -> Floats:
        """Encoded rows whose drawn numbers are values of their columns.

        Parameters
        ----------
        drawn : ndarray of shape (n_rows, n_features), float64
            Drawn rows; changed in place.
        rows : ndarray of shape (n_rows, n_features), default=None
            The rows that were filled: their observed cells are left alone. None: all were drawn.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            See :meth:`skpc.variables.Law.values`.
        """
        for place, column in enumerate(self):
            if column.law is not None:
                # Only the cells that were missing have been drawn.
                cells = slice(None) if rows is None else np.isnan(rows[:, place])
                drawn[cells, place] = column.nearest(drawn[cells, place])
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
        return self._encode_cells(read_table(table, self.calendars))[0]

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
        rows, unknown = self._encode_cells(cells)
        if self.handle_unknown == "unseen":
            self._warn_of_unseen(unknown, cells)
        return rows, self._log_mass(unknown, cells)

    def numbers_in(self, table: Any) -> Floats:
        """The numbers of a table before any of them counts as the nearest state; NaN elsewhere."""
        return read_table(table, self.calendars).numbers

    def encode_given(self, row: NDArray[np.object_]) -> Floats:
        """Translate rows that are given; their columns must be able to have their cells.

        Parameters
        ----------
        row : ndarray of shape (n_rows, n_features), object
            Such as :meth:`row` returns.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features), float64
            Encoded.

        Raises
        ------
        ValueError
            If a cell holds a category that is not known, or a number outside its bounds.
        """
        cells = read_table(row, self.calendars, names=self.feature_names)
        rows, unknown = self._encode_cells(cells)
        for place, face in self.faces.items():
            # A face that contradicts its source, or has an unknown value, makes the source missing.
            contradicts = ~missing_cells(row[:, place]) & np.isnan(rows[:, face.source])
            if contradicts.any():
                wrong = row[contradicts][0]
                raise ValueError(
                    f"given must have cells of {self[face.source].where} and {face.where} "
                    "that belong together as in fit, or leave one of them out; found "
                    f"{wrong[face.source]!r} and {wrong[place]!r}."
                )
        # A cell is lost if it was given, but no number could be read from it.
        is_lost = ~missing_cells(row) & np.isnan(cells.numbers)
        for place in np.flatnonzero(~self.is_hidden).tolist():
            column = self[place]
            values = cells.numbers[:, place]
            lower, upper = (-np.inf, np.inf) if column.law is None else column.law.bounds
            is_wrong = is_lost[:, place] | (values < lower) | (values > upper)
            allowed = ", ".join(text_of(end, column.calendar) for end in (lower, upper))
            allowed = f"[{allowed}]"
            # Cells of categories are wrong if they have no state; strings have no numbers at all.
            if column.states is not None:
                is_wrong = unknown.get(place, np.zeros(len(row), dtype=bool))
                allowed = shorten(column.states)
            if is_wrong.any():
                raise ValueError(
                    f"given must be in {allowed} in {column.where}, or leave the column out; "
                    f"found {row[is_wrong, place][0]!r}."
                )
        return rows

    def with_given(self, drawn: Floats, row: NDArray[np.object_]) -> Floats:
        """Drawn encoded rows that have the given cells of ordered states, whether seen or not."""
        # Encoding moves an unseen number to the nearest state: the given one takes its place again.
        cells = self.numbers_in(row)[0]
        return np.where(self.is_ordered & ~np.isnan(cells), cells, drawn)

    def checked(self, rows: Any) -> Floats:
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
            self._refuse_cells(rows)
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
            If a numeric column has no axis, or the rows are not :meth:`checked`.
        """
        # A column without states has no codes: asking for its axis raises the error.
        if not self.n_states.all():
            self.axis_of(int(self.n_states.argmin()))
        return self.axis_table.states(self.checked(rows))

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
        cells = [column.decode(rows, place) for place, column in enumerate(self)]
        return write_table(cells, form, self.calendars, like)

    def name(self, rows: Floats, random_state: np.random.RandomState, given: Any = None) -> Floats:
        """Encoded rows that :meth:`decode` gives names, in the columns that name rows.

        The names are drawn, unless the only row of the table ``given`` has one that is known.
        """
        strings = {} if given is None else read_table(given, self.calendars).strings
        rows = rows.copy()
        for place, column in enumerate(self):
            if isinstance(column, RowNames):
                number = np.flatnonzero(column.values == strings.get(place, [None])[0])
                # No known name is given: names are uniform, so that each row draws one.
                if not len(number):
                    number = random_state.randint(len(column.values), size=len(rows))
                # Code 0 is a missing cell, so names are numbered from one.
                rows[:, place] = number + 1.0
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

    def tabulate(self, values: Floats, like: Any) -> Any:
        """Write one number for each cell of a table as a table of the same kind.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_features), float64
            NaN where a cell has no number.
        like : DataFrame or ndarray of shape (n_rows, n_features)
            The table that the numbers are about.

        Returns
        -------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            With the names and the index of ``like``, and columns of float64.
        """
        library = frame_library(like)
        return values if library is None else join_columns([*values.T], library, like.columns, like)

    def with_column(self, table: Any, column: int) -> Any:
        """Put anything that is known in the place of a column that a DataFrame lacks.

        Parameters
        ----------
        table : DataFrame or array-like
            As a user passes it. It is never modified.
        column : int
            Number of the column.

        Returns
        -------
        table : DataFrame or array-like
            With the column, if just that one was missing from a DataFrame; else as it came.
        """
        names = list(self.feature_names or ())
        library = frame_library(table)
        if library is None or list(table.columns) != names[:column] + names[column + 1 :]:
            return table
        columns = [column_of(table, position) for position in range(len(names) - 1)]
        # What encoded zeros stand for has the dtype that the column had in fit.
        known = column_of(self.decode(np.zeros((len(table), len(names)))), column)
        # The column has been made for the library of fit; any other library takes a list.
        if self.form.library != library:
            known = known.to_list()
        # The array of a pandas Series knows no index.
        columns.insert(column, getattr(known, "array", known))
        return join_columns(columns, library, names, table)

    def row(self, given: Any) -> NDArray[np.object_]:
        """One row of a table, as an array of its cells; perhaps without some columns.

        Parameters
        ----------
        given : dict, array-like, pandas Series or DataFrame
            One row. A dict has columns (names or numbers) and their values. A dict, a Series or a
            DataFrame may lack columns: these cells are missing.

        Returns
        -------
        cells : ndarray of shape (1, n_features), object

        Raises
        ------
        ValueError
            If it names a column that is not there, or there are not as many cells as columns.
        """
        names = self.feature_names
        n_columns = self.n_features
        # A pandas Series is one row, whose index has the names.
        if hasattr(given, "to_frame") and hasattr(given, "index"):
            given = given.to_frame().T
        if names is not None and frame_library(given) is not None:
            cells = np.full((len(given), n_columns), None, dtype=object)
            for place, column in enumerate(columns_named([*given.columns], names, "given")):
                cells[:, column] = objects_of(column_of(given, place))
        elif isinstance(given, Mapping):
            cells = np.full((1, n_columns), None, dtype=object)
            columns = column_numbers(np.array([*given]), n_columns, names, "given")
            for column, value in zip(columns.tolist(), given.values()):
                cells[0, column] = value
        else:
            cells = np.atleast_2d(np.asarray(unmasked(given), dtype=object))
        if cells.shape[1:] != (n_columns,):
            raise ValueError(
                f"given must be one row of {n_columns} cells, NaN or None in the columns to draw, "
                f"or a dict from columns to their values; found {np.size(given)} cells"
            )
        if len(cells) != 1:
            raise ValueError(
                f"given must have exactly one row, got {len(cells)}; pass X[[i]], or X.iloc[[i]] "
                "of a DataFrame"
            )
        return cells

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

    def _encode_cells(self, cells: Cells) -> tuple[Floats, dict[int, Bools]]:
        """Encoded rows, and which rows hold an unknown state in which columns."""
        unknown: dict[int, Bools] = {}
        rows = cells.numbers
        # Where the table holds codes already, only ordered states may be other cells than these.
        places = np.flatnonzero(self.is_ordered).tolist()
        if cells.strings or not self._holds_codes or not all_are_cells(rows, self._n_codes):
            # Codes go into a copy: the numbers may be the array of the user itself.
            rows = rows.copy()
            places = list(range(len(self)))
        for place in places:
            column = self[place]
            self._refuse_other_kind(cells, place)
            codes, is_unknown = column.encode(cells, place)
            if is_unknown.any():
                unknown[place] = is_unknown
                # Nor may an array that has needed no copy so far be changed.
                rows = rows.copy() if rows is cells.numbers else rows
                if self.handle_unknown == "error" and isinstance(column, Categories):
                    self._refuse_unknown(cells, place, int(is_unknown.argmax()))
            if rows is not cells.numbers:
                rows[:, place] = codes
        # Faces come last: their cells tell or contradict the codes of their sources.
        for face in self.faces.values():
            contradicts = face.join(rows, unknown, cells)
            if self.handle_unknown == "error" and contradicts.any():
                self._refuse_contradiction(face, cells, int(contradicts.argmax()))
            # Such a contradiction is a missing cell, and not an unseen state.
            if self.handle_unknown == "missing" and contradicts.any():
                unknown[face.source] = unknown[face.source] & ~contradicts
        return rows, unknown

    @cached_property
    def _with_mass(self) -> Ints:
        """The columns whose cells add something, or are missing, in spite of their code."""
        return np.array([p for p, c in enumerate(self) if c.unseen > 0.0 or c.is_hidden], np.int64)

    def _log_mass(self, unknown: Mapping[int, Bools], cells: Cells) -> LogMass:
        """What the cells of a table add; ``unknown`` says which of a column are no known state."""
        # Shape (n_rows, n_columns that add something); NaN stays where a cell is missing.
        added = np.full((len(cells.numbers), len(self._with_mass)), np.nan)
        is_unseen = np.zeros(added.shape, dtype=bool)
        is_observed = {v: cells.observed(v) for v in self.faces}
        for number, place in enumerate(self._with_mass.tolist()):
            column = self[place]
            is_unseen[:, number] = unknown.get(place, False)
            # The state of a source is told by its own cell, or by that of any of its faces.
            is_told = cells.observed(place)
            for face in self.faces.values():
                if face.source == place:
                    is_told = is_told | is_observed[face.place]
            added[is_told & ~is_unseen[:, number], number] = column.log_known
            new_values = cells.numbers[is_unseen[:, number], place]
            added[is_unseen[:, number], number] = column.log_unknown(new_values)
        faces = tuple(
            (place, face.source, is_observed[place], cells.observed(face.source))
            for place, face in self.faces.items()
        )
        return LogMass(self._with_mass, added, is_unseen, faces)

    def _refuse_empty_columns(self, rows: Floats) -> None:
        empty = np.flatnonzero(np.isnan(rows).all(axis=0))
        if len(empty):
            raise ValueError(
                f"No value of {self[empty[0]].where} is one of its declared categories "
                f"{shorten(self[empty[0]].states)}; correct them or drop the column."
            )

    def _refuse_contradiction(self, face: Face, cells: Cells, row: int) -> None:
        raise ValueError(
            f"{self[face.source].where} and {face.where} must hold cells that belong together as "
            "in fit, where each determines the other; found "
            f"{cells.value(row, face.source)!r} and {cells.value(row, face.place)!r}, row "
            f"{row}. Correct one, make it missing, or use handle_unknown='unseen' or 'missing'."
        )

    def _refuse_cells(self, rows: Floats) -> None:
        is_code = (rows >= 0.0) & (rows < self._n_codes) & (rows == np.floor(rows))
        is_cell = np.where(self.is_categorical, is_code, np.isfinite(rows)) | np.isnan(rows)
        row, column = np.argwhere(~is_cell)[0].tolist()
        states = self[column].states
        wanted = "finite"
        if states is not None:
            wanted = f"the codes 0, ..., {len(states) - 1} of its states"
        raise ValueError(
            f"Encoded rows (domain.encode makes them) must be {wanted} in {self[column].where}, "
            f"NaN where missing; found {rows[row, column]} in row {row}."
        )

    def _refuse_other_kind(self, cells: Cells, place: int) -> None:
        was_string = self[place].holds_strings
        is_string = place in cells.strings
        # A column without any cell can be read as either kind.
        is_empty = not is_string and np.isnan(cells.numbers[:, place]).all()
        if was_string is None or was_string == is_string or is_empty:
            return
        kinds = ("numbers", "strings")
        value = cells.value(int(cells.observed(place).argmax()), place)
        raise ValueError(
            f"{self[place].where} must hold {kinds[was_string]} as in fit (or in its declared "
            f"categories); found {kinds[is_string]} such as {value!r}."
        )

    def _refuse_unknown(self, cells: Cells, place: int, row: int) -> None:
        raise ValueError(
            f"Found the unknown category {cells.value(row, place)!r} in {self[place].where}, row "
            f"{row}; its categories are {shorten(self[place].states)}. Declare it in categories, "
            "or use handle_unknown='unseen' or 'missing'."
        )

    def _warn_of_unseen(self, unknown: Mapping[int, Bools], cells: Cells) -> None:
        """Name a category that was not seen of each column. New names of rows are expected."""
        sources = {face.source for face in self.faces.values()}
        # Another number than those of ordered states is nothing unusual, unless faces tell it.
        places = [p for p in unknown if p in sources or isinstance(self[p], Categories)]
        if not places:
            return
        listed = "; ".join(
            f"{self._shown(cells, row, place)} in {self[place].where}, row {row}"
            for place, row in ((place, int(unknown[place].argmax())) for place in places)
        )
        n_rows = int(np.any([unknown[place] for place in places], axis=0).sum())
        warn(
            f"Found categories that fit has not seen in {n_rows} of {len(cells.numbers)} rows, "
            f"the first {listed}. They count as missing; completed tables keep them. In columns of "
            "strings, log densities count how probable an unseen category is; in columns of "
            "numbers an unseen category adds 0 to them, as if it were certain. Declare the states "
            "of such columns in categories; if this is a column of numbers, name those of "
            "categories in categorical_features."
        )

    def _shown(self, cells: Cells, row: int, place: int) -> str:
        """A cell that was not seen, with those of its faces."""
        faces = [face.place for face in self.faces.values() if face.source == place]
        return " with ".join(repr(cells.value(row, v)) for v in (place, *faces))

    def _warn_of_hidden(self) -> None:
        """Name the columns that no learner sees."""
        for kind, what in (
            (Empty, "have no value in the rows of fit; they say nothing, and stay missing"),
            (
                RowNames,
                "seem to name the rows: nearly every value is seen once. They are not learned, but "
                "taken as uniform and independent. Drop them, or declare their categories to learn "
                "them",
            ),
        ):
            columns = [column.where for column in self if isinstance(column, kind)]
            if columns:
                warn(f"Some columns {what}. Found {', '.join(columns)}.")


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


def _check_options(n_bins: Any, handle_unknown: Any) -> None:
    check_option("handle_unknown", handle_unknown, ("unseen", "missing", "error"))
    # A bool is an integer for Python, but not a number of bins.
    is_integer = isinstance(n_bins, Integral) and not isinstance(n_bins, bool)
    if n_bins is not None and not (is_integer and 1 <= n_bins <= MAX_STATES - 2):
        raise ValueError(
            f"n_bins must be an integer in [1, {MAX_STATES - 2}] or None; got {n_bins!r}."
        )
