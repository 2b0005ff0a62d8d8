"""What fitting a domain learns of the columns of a table: laws, faces and axes, step by step."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from skpc._arrays import Floats
from skpc._validation import check_magnitude, check_option
from skpc._warnings import warn
from skpc.domain._bins import fit_axes, fit_laws
from skpc.domain._column import Column
from skpc.domain._declared import MAX_STATES, Declared, States, choose_categories
from skpc.domain._faces import Face, fit_faces
from skpc.domain._hidden import Empty, RowNames
from skpc.domain._kinds import with_law
from skpc.domain._mass import least_share
from skpc.domain._numbers import Numbers
from skpc.domain._refusals import refuse_empty_columns
from skpc.domain._tables import Cells, read_table
from skpc.variables import Law, fit_histogram
from skpc.variables.atoms import repeated


def check_options(declared: Declared, n_bins: Any) -> None:
    """Refuse options that no table can have."""
    check_option("handle_unknown", declared.handle_unknown, ("unseen", "missing", "error"))
    # The two tails of an axis are states as well.
    most_bins = MAX_STATES - 2
    # A bool is an integer for Python, but not a number of bins.
    is_integer = isinstance(n_bins, Integral) and not isinstance(n_bins, bool)
    if n_bins is not None and not (is_integer and 1 <= n_bins <= most_bins):
        raise ValueError(f"n_bins must be an integer in [1, {most_bins}] or None; got {n_bins!r}.")


def read_with_ranks(
    table: Any, weight: Floats, names: Sequence[Any] | None, declared: Declared
) -> tuple[Cells, Sequence[States]]:
    """The cells of a table, and the states of its columns of categories, None for numbers.

    Ordered categories that do not count as categories are numbers, their ranks.
    """
    cells = read_table(table, weight=weight)
    if declared.margins == "plain":
        if declared.bounds is not None or not isinstance(declared.atoms, str):
            raise ValueError(
                "margins='plain' has neither atoms nor bounds, but some are declared; leave them "
                "out, or use margins='auto'."
            )
        # Plain margins know no ordered states: ordered categories stay categories.
        cells.ordered.clear()
    states = choose_categories(cells, weight, names, declared)
    is_strict = declared.handle_unknown == "error"
    ranks = {
        column_number: order._replace(is_strict=is_strict)
        for column_number, order in cells.ordered.items()
        if states[column_number] is None
    }
    # The ranks were not known at the first reading: the table is read again with them.
    return read_table(table, cells.dates | ranks) if ranks else cells, states


def check_first_rows(rows: Floats, columns: Sequence[Column], names: Sequence[Any] | None) -> None:
    """Refuse rows of fit that nothing can be learned from, and name the columns not learned."""
    # Declared categories may leave a column without any cell that a learner could use.
    refuse_empty_columns(rows, columns)
    # Later steps take powers of the numbers, which must not overflow.
    for column_number, column in enumerate(columns):
        if column.states is None:
            check_magnitude(rows[:, column_number], names, column_number)
    _warn_of_hidden(columns)


def _warn_of_hidden(columns: Sequence[Column]) -> None:
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
        hidden = [column.where for column in columns if isinstance(column, kind)]
        if hidden:
            warn(f"Some columns {what}. Found {', '.join(hidden)}.")


def with_laws(
    columns: Sequence[Column],
    rows: Floats,
    weight: Floats,
    names: Sequence[Any] | None,
    declared: Declared,
) -> Iterator[Column]:
    """The columns, those of numbers with their laws."""
    for column, law in zip(columns, fit_laws(rows, weight, columns, declared, names)):
        lawful = with_law(column, law)
        # Dates and ranks have another reason to be what they are.
        is_few = lawful.is_ordered and lawful.calendar is None
        yield replace(lawful, why="few values") if is_few else lawful


def with_faces(
    columns: Sequence[Column], rows: Floats, weight: Floats, declared: Declared
) -> list[Column]:
    """The columns with faces in the place of those that tell the same as another one."""
    faces = fit_faces(rows, weight, columns) if declared.merges_columns else {}
    merged = list(columns)
    for column_number, face in faces.items():
        source = merged[face.source]
        # Merged categories take the largest unseen share; ordered states already have one from
        # their law.
        if declared.handle_unknown == "unseen" and not source.is_ordered:
            least = least_share(float(weight.sum()))
            unseen = max(source.unseen, merged[column_number].unseen, least)
            merged[face.source] = replace(source, unseen=unseen)
        merged[column_number] = face
    # Faces of one source have its final share.
    return [
        replace(column, unseen=merged[column.source].unseen) if isinstance(column, Face) else column
        for column in merged
    ]


def with_axes(
    columns: Sequence[Column], rows: Floats, weight: Floats, n_bins: int | None
) -> Iterator[Column]:
    """The columns with axes of up to ``n_bins`` bins, as many as the rows speak for."""
    # What a hidden column holds must have no part in the axes.
    is_hidden = [column.is_hidden for column in columns]
    axes = fit_axes(np.where(is_hidden, 0.0, rows), weight, columns, n_bins)
    for column, axis in zip(columns, axes):
        yield replace(column, axis=axis)


def with_moved_axes(columns: Iterable[Column], rows: Floats, weight: Floats) -> Iterator[Column]:
    """The columns with axes that follow other rows, in as many bins."""
    for column, values in zip(columns, rows.T):
        axis = column.axis
        law = column.law
        is_empty = np.isnan(values).all()
        if axis and law and not column.is_ordered and not is_empty:
            # Atoms have states of their own: only the other states are bins.
            n_bins = max(axis.n_states - len(axis.atoms), 1)
            column = replace(column, axis=fit_histogram(values, weight, law).binned(n_bins))
        yield column


def fit_target(
    rows: Floats,
    weight: Floats,
    columns: Sequence[Column],
    n_bins: int | None,
    *,
    is_plain: bool,
) -> Column:
    """The column of numbers that follows others, the last one of the rows."""
    # The values of a new column of numbers are all atoms if there are no more than this.
    few_values = 5
    targets = rows[:, -1]
    law = None
    if not is_plain:
        values = np.unique(targets[~np.isnan(targets)])
        # A few values, such as numbers of stars, have nothing between them.
        atoms = values if len(values) <= few_values else repeated(targets, weight)
        # Targets may go on beyond those of the table.
        law = Law.of_target(targets, weight, atoms)
    column = with_law(Numbers(), law)
    # The number of bins is chosen by what pairs of columns say, so all columns take part.
    if n_bins is None or not all(known.n_states for known in columns):
        return column
    return replace(column, axis=fit_axes(rows, weight, (*columns, column), n_bins)[-1])
