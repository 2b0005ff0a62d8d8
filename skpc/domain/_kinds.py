"""Which kind each column of a table is, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc.domain._categories import Categories
from skpc.domain._column import Column
from skpc.domain._declared import Declared
from skpc.domain._hidden import Empty, RowNames, name_rows
from skpc.domain._mass import unseen_share, weight_of_values
from skpc.domain._numbers import Numbers
from skpc.domain._states import OrderedStates
from skpc.domain._tables import Cells
from skpc.variables import Law


def first_columns(
    states: Sequence[NDArray[Any] | None],
    cells: Cells,
    weight: Floats,
    names: Sequence[Any] | None,
    declared: Declared,
) -> list[Column]:
    """The columns of a table before anything is known of its numbers."""
    columns = list[Column]()
    has_mass = declared.handle_unknown == "unseen"
    for place, known in enumerate(states):
        name = place if names is None else names[place]
        calendar = cells.dates.get(place)
        if known is None:
            columns.append(Numbers(name=name, calendar=calendar))
            continue
        # A column without any value in fit has an empty list of states.
        if not len(known):
            columns.append(Empty(name=name, calendar=calendar))
            continue
        unseen = 0.0
        are_names = False
        # Only strings have a share for unseen states, and only strings can name the rows.
        if place in cells.strings:
            weight_of = weight_of_values(cells.strings[place], weight)
            unseen = unseen_share(weight_of, known) if has_mass else 0.0
            are_names = name_rows(weight_of) and declared.states_of(place) is None
        if are_names:
            columns.append(RowNames(name=name, values=known, unseen=unseen))
        else:
            columns.append(Categories(name=name, states=known, unseen=unseen, calendar=calendar))
    return columns


def with_law(column: Column, law: Law | None) -> Column:
    """A column of numbers of which the law is known."""
    if law is None:
        return column
    kind = OrderedStates if law.is_ordered else Numbers
    return kind(name=column.name, law=law, unseen=law.unseen, calendar=column.calendar)


def reasons(
    columns: Sequence[Column], cells: Cells, chosen: Sequence[int], declared: Declared
) -> Iterator[str]:
    """Why each column is of its kind.

    ``chosen`` are the columns that a user has named in ``categorical_features``.
    """
    for place, column in enumerate(columns):
        if isinstance(column, Empty):
            yield "no value in fit"
        elif isinstance(column, RowNames):
            yield "nearly every value is seen once"
        elif declared.states_of(place) is not None:
            yield "declared in categories"
        elif column.states is None:
            # A column of numbers that is declared categorical has states.
            is_few = column.is_ordered and column.calendar is None
            yield "few values" if is_few else column.kind if column.labels else "numbers"
        elif place in chosen:
            yield "declared in categorical_features"
        elif place in cells.declared:
            yield "a dtype with categories"
        elif place in cells.bools:
            yield "bools"
        else:
            yield "strings" if place in cells.strings else "few whole numbers in 0..15"
