"""What each column of a table is: the states of a category, or a numeric axis."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Codes, Floats, Ints, taken
from skpc._validation import check_magnitude, check_option, describe_column, missing_cells
from skpc.domain._coding import TableCoder, shorten
from skpc.domain._faces import fit_faces
from skpc.domain._numbers import fit_axes, fit_numbers
from skpc.domain._rows import present_rows
from skpc.domain._states import MAX_STATES, choose_categories, column_numbers, refuse_too_many
from skpc.domain._summary import HEADINGS, lines_of, reasons
from skpc.domain._tables import Form, read_table
from skpc.domain._unseen import Unseen
from skpc.variables import Axis, AxisTable, Margin, Number
from skpc.variables.dates import text_of
from skpc.variables.number import repeated

#: The values of a new column of numbers are all atoms if there are no more than this.
_FEW_VALUES = 5


class Domain(TableCoder):
    """What each column of a table is; translates tables to encoded rows and back.

    A column is categorical, with a finite list of states, or numeric, with or without a histogram
    axis. Make one with :meth:`Domain.fit`; it never changes afterwards.

    Attributes
    ----------
    form : Form
        Library, column names and dtypes of the table that the domain was fitted on.
    categories : tuple of ndarray or None, one a column
        The categories in the order of their state codes (float64, bool, or objects for strings);
        None for a numeric column. A column that no learner sees has one state, None.
    axes : tuple of Axis or None
        The histogram axis of each numeric column, None for each categorical one. If numeric columns
        stay continuous, only those of ordered states have one; None altogether without any.
    handle_unknown : {"unseen", "missing", "error"}
        What an undeclared category becomes.
    unseen : Unseen
        The probability of categories that were not seen in each column, and the columns that no
        learner sees: those without any value, and those that name the rows.
    numbers : tuple of Number or None
        What each numeric column is (its atoms are ``numbers[j].atoms``), None for each categorical
        one; None altogether with ``margins="plain"``.
    why : tuple of str, one a column
        Why each column is of its kind.

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

    @classmethod
    def fit(
        cls,
        table: Any,
        *,
        categorical_features: Any = "auto",
        categories: Any = "auto",
        n_bins: int | None = None,
        margins: str = "auto",
        atoms: Any = "auto",
        bounds: Any = None,
        sample_weight: Floats | None = None,
        handle_unknown: str = "unseen",
        merges_columns: bool = True,
    ) -> "Domain":
        """Learn what the columns of a table are.

        Parameters
        ----------
        table : DataFrame or ndarray of shape (n_rows, n_features)
            As ``check_table`` returns it.
        categorical_features : "auto", "from_dtype", None or array-like, default="auto"
            Which columns are categorical: a boolean mask, column numbers, or names.
            "from_dtype": those whose dtype is a category (pandas Categorical, polars Categorical
            and Enum). "auto": these, but for three ordered categories or more of pandas, which are
            ordered states; strings, bools, and numeric columns of two integers in 0..15 (with
            ``margins="plain"``, ordered categories, and any integers in 0..15). Two samples of one
            table (the folds of a cross-validation) can then disagree; declare the columns to be
            independent of the sample. None: no column.
        categories : "auto" or list, default="auto"
            The states of each column, in order, as in OrdinalEncoder; None in the list lets the
            data of that column decide. A column with declared categories is categorical. Dtypes
            declare categories too (pandas Categorical, polars Enum, bool); otherwise the states
            are the values observed.
        n_bins : int or None, default=None
            Largest number of bins of the axis of a numeric column. None: no axes.
        margins : {"auto", "plain"}, default="auto"
            "auto": learn the lattice, the atoms, the range and the score of each numeric column.
            "plain": bins of equal mass and Gaussians of the values as they are, as in the papers.
        atoms : "auto" or dict, default="auto"
            A dict from columns to the values that are states of their own, for columns where these
            are known. In other columns, and with "auto", they are the values that repeat much more
            than their neighbours do.
        bounds : dict or None, default=None
            A dict from columns to pairs (lower, upper) between which all values lie; None for a
            side without a bound.
        sample_weight : ndarray of shape (n_rows,) or None, default=None
            Positive: :func:`present_rows` leaves out the rows of weight zero.
        handle_unknown : {"unseen", "missing", "error"}, default="unseen"
            Whether an undeclared category is taken as missing or refused. "unseen": taken as
            missing, but in columns of strings :meth:`encode_with_mass` gives its probability.
        merges_columns : bool, default=True
            Whether columns that determine each other both ways are one variable.

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
        _check_options(n_bins, handle_unknown)
        weight = np.ones(len(table)) if sample_weight is None else sample_weight
        cells, form, most_integers = read_table(table, weight=weight), Form.from_table(table), 2
        if margins == "plain":
            cells.ordered.clear()
            most_integers = MAX_STATES
        chosen = choose_categories(
            cells, weight, form.names, categorical_features, categories, most_integers
        )
        is_strict, ordered = handle_unknown == "error", cells.ordered.items()
        ranks = {v: r._replace(is_strict=is_strict) for v, r in ordered if chosen[v] is None}
        if ranks:
            cells = read_table(table, cells.dates | ranks)
        form = replace(form, dates=cells.dates)
        unseen = Unseen.fit(chosen, cells.strings, weight, handle_unknown == "unseen", categories)
        chosen = unseen.shown(chosen)
        refuse_too_many(chosen, form.names)
        plain = cls(form, chosen, None, handle_unknown, unseen)
        rows, _ = plain._encode_cells(cells)
        plain._refuse_empty_columns(rows)
        for column in np.flatnonzero(~plain.is_categorical):
            check_magnitude(rows[:, column], form.names, int(column))
        unseen.warn_of_hidden(form.names)
        numbers, is_number = None, ~plain.is_categorical
        if margins == "plain" and (bounds is not None or not isinstance(atoms, str)):
            raise ValueError(
                "margins='plain' has neither atoms nor bounds, but some are declared; leave them "
                "out, or use margins='auto'."
            )
        if margins == "auto":
            numbers = fit_numbers(rows, weight, is_number, atoms, bounds, form)
        faces = fit_faces(rows, weight, chosen, numbers) if merges_columns else ()
        if faces:
            unseen = unseen.with_faces(faces, float(weight.sum()), handle_unknown == "unseen")
            chosen = unseen.shown(chosen)
            is_number &= ~unseen.is_hidden
            rows = np.where(unseen.is_hidden, 0.0, rows)
            kept = zip(unseen.is_hidden, numbers or ())
            numbers = numbers and tuple(None if hidden else number for hidden, number in kept)
            plain = cls(form, chosen, None, handle_unknown, unseen, numbers)
        axes = fit_axes(rows, weight, is_number, numbers, n_bins)
        why = reasons(plain, cells, categorical_features, categories)
        return cls(form, chosen, axes, handle_unknown, unseen, numbers, why)

    def __repr__(self) -> str:
        n_categorical = int(self.is_categorical.sum())
        kind = "binned" if self.has_bins else "numeric"
        return (
            f"Domain(n_features={self.n_features}, {n_categorical} categorical, "
            f"{self.n_features - n_categorical} {kind})"
        )

    def __str__(self) -> str:
        table = [HEADINGS, *([str(cell) for cell in line] for line in lines_of(self))]
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

        return pd.DataFrame(lines_of(self), columns=HEADINGS).set_index("name")

    def columns(self, chosen: Any, parameter: str) -> NDArray[np.intp]:
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

    @cached_property
    def n_states(self) -> Ints:
        """Number of categories or bins of each column, 0 where continuous; shape (n_features,)."""
        axes = self.axes or (None,) * self.n_features
        n_states = [
            len(states) if states is not None else 0 if axis is None else axis.n_states
            for states, axis in zip(self.categories, axes)
        ]
        return np.array(n_states, dtype=np.int64)

    @property
    def has_bins(self) -> bool:
        """Whether all columns of numbers have axes, not only those of ordered states."""
        return self.axes is not None and bool(self.n_states.all())

    def without_bins(self) -> "Domain":
        """The domain in which only ordered states have axes."""
        axes = tuple(a if o else None for a, o in zip(self.axes or (), self.is_ordered))
        return replace(self, axes=axes if any(axes) else None)

    def axis_of(self, column: int) -> Axis:
        """The histogram axis of a column of numbers.

        Raises
        ------
        ValueError
            If the column has no axis.
        """
        axis = None if self.axes is None else self.axes[column]
        if axis is None:
            raise ValueError(
                f"{describe_column(column, self.feature_names)} has no bins; fit the Domain with "
                "n_bins, on a column of numbers."
            )
        return axis

    def number_of(self, column: int) -> Number | None:
        """What a numeric column is; None for other columns, and for plain ones."""
        return None if self.numbers is None else self.numbers[column]

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
            See :meth:`skpc.variables.Number.values`.
        """
        for column, number in enumerate(self.numbers or ()):
            if number is not None:
                cells = slice(None) if rows is None else np.isnan(rows[:, column])
                drawn[cells, column] = number.values(drawn[cells, column])
        return drawn

    def encode_given(self, row: NDArray[np.object_], parameter: str = "given") -> Floats:
        """Translate rows that are given; their columns must be able to have their cells.

        Parameters
        ----------
        row : ndarray of shape (n_rows, n_features), object
            Such as :meth:`row` returns.
        parameter : str, default="given"
            Name of what gives them, for error messages.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features), float64
            Encoded.

        Raises
        ------
        ValueError
            If a cell holds a category that is not known, or a number outside its bounds.
        """
        cells = read_table(row, self.form.dates, names=self.feature_names)
        rows, unknown = self._encode_cells(cells)
        lost = ~missing_cells(row) & np.isnan(cells.numbers)
        for face in self.unseen.faces:
            contradicts = ~missing_cells(row[:, face.column]) & np.isnan(rows[:, face.source])
            for pair in row[contradicts][:1, [face.source, face.column]].tolist():
                one, two = (
                    describe_column(v, self.feature_names) for v in (face.source, face.column)
                )
                raise ValueError(
                    f"{parameter} must have cells of {one} and {two} that belong together as in "
                    f"fit, or leave one of them out; found {pair[0]!r} and {pair[1]!r}."
                )
        for column in np.flatnonzero(~self.unseen.is_hidden).tolist():
            number, values = self.number_of(column), cells.numbers[:, column]
            lower, upper = (-np.inf, np.inf) if number is None else number.bounds
            wrong = lost[:, column] | (values < lower) | (values > upper)
            if self.is_categorical[column]:
                wrong = unknown.get(column, np.zeros(len(row), dtype=bool))
            for cell in row[wrong, column][:1]:
                calendar = self.form.dates.get(column)
                ends = ", ".join(text_of(end, calendar) for end in (lower, upper))
                allowed = f"[{ends}]" if number else shorten(self.categories[column])
                raise ValueError(
                    f"{parameter} must be in {allowed} in "
                    f"{describe_column(column, self.feature_names)}, or leave the column out; "
                    f"found {cell!r}."
                )
        return rows

    def with_given(self, drawn: Floats, row: NDArray[np.object_]) -> Floats:
        """Drawn encoded rows that have the given cells of ordered states, whether seen or not."""
        cells = read_table(row, self.form.dates).numbers[0]
        kept = self.is_ordered & ~np.isnan(cells)
        return np.where(kept, cells, drawn)

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
        if not self.n_states.all():
            self.axis_of(int(self.n_states.argmin()))
        return self.axis_table.states(self.checked(rows))

    def taken(self, order: Ints) -> "Domain":
        """The domain of rows with their columns in another order, ``rows[:, order]``."""
        names = ("categories", "axes", "numbers", "why")
        parts: dict[str, Any] = {name: taken(getattr(self, name), order) for name in names}
        return replace(self, form=self.form.taken(order), unseen=self.unseen.taken(order), **parts)

    def with_category(self, n_states: int) -> "Domain":
        """The domain of encoded rows with one more column, of the states 0, 1, ..., at the end."""
        return self._with_column(np.arange(float(n_states)), None, None)

    def with_number(self, rows: Floats, weight: Floats, n_bins: int | None = None) -> "Domain":
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
        is_number = np.append(~self.is_categorical, True)
        number, axis, numbers = None, None, None
        if self.numbers is not None:
            values = np.unique(rows[~np.isnan(rows[:, -1]), -1])
            # Between a few values, such as stars, there is nothing.
            atoms = values if len(values) <= _FEW_VALUES else repeated(rows[:, -1], weight)
            # Targets may go on beyond those of the table.
            number = Number.of_target(rows[:, -1], weight, atoms)
            numbers = (*self.numbers, number)
        if self.axes is not None and n_bins is not None:
            axis = (fit_axes(rows, weight, is_number, numbers, n_bins) or [None])[-1]
        return self._with_column(None, axis, number)

    def with_axes_of(self, rows: Floats, weight: Floats) -> "Domain":
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
        """
        if self.axes is None or self.numbers is None:
            return self
        rows, weight = present_rows(rows, weight)
        axes = list(self.axes)
        for column, (values, axis, number) in enumerate(zip(rows.T, self.axes, self.numbers)):
            is_empty = np.isnan(values).all()
            if axis is not None and number is not None and not (number.is_ordered or is_empty):
                n_bins = max(axis.n_states - len(axis.atoms), 1)
                axes[column] = Margin.fit(values, weight, number).axis(n_bins)
        return replace(self, axes=tuple(axes))

    def _with_column(
        self, codes: NDArray[Any] | None, axis: Axis | None, number: Number | None
    ) -> "Domain":
        axes = None if self.axes is None else (*self.axes, axis)
        numbers = None if self.numbers is None else (*self.numbers, number)
        states = [None if c is None else np.arange(float(len(c))) for c in self.categories]
        states.append(codes)
        unseen = Unseen.fit(states, {}, np.empty(0), False, "auto")
        return Domain(Form("numpy"), tuple(states), axes, self.handle_unknown, unseen, numbers)

    def __reduce__(self) -> tuple[Any, ...]:
        # The cached tables stay out of the pickle: kernels need them writable, and a pickle may
        # come back memory-mapped and read-only.
        return Domain, tuple(getattr(self, field.name) for field in fields(self))

    @cached_property
    def axis_table(self) -> AxisTable:
        """The axes of all columns, as kernels read them."""
        return AxisTable.from_axes(self.axes or [None] * self.n_features)

    def _refuse_empty_columns(self, rows: Floats) -> None:
        empty = np.flatnonzero(np.isnan(rows).all(axis=0))
        if len(empty):
            column = int(empty[0])
            raise ValueError(
                f"No value of {describe_column(column, self.feature_names)} is one of its declared "
                f"categories {shorten(self.categories[column])}; correct them or drop the column."
            )


def _check_options(n_bins: Any, handle_unknown: Any) -> None:
    check_option("handle_unknown", handle_unknown, ("unseen", "missing", "error"))
    is_integer = isinstance(n_bins, Integral) and not isinstance(n_bins, bool)
    if n_bins is not None and not (is_integer and 1 <= n_bins <= MAX_STATES - 2):
        raise ValueError(
            f"n_bins must be an integer in [1, {MAX_STATES - 2}] or None; got {n_bins!r}."
        )
