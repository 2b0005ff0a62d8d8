"""Which kind each column of a table is, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc.domain._categories import Categories
from skpc.domain._column import Column
from skpc.domain._declared import FEW_INTEGERS, Declared, States
from skpc.domain._hidden import Empty, RowNames, name_rows
from skpc.domain._mass import unseen_share, weight_of_values
from skpc.domain._numbers import Numbers
from skpc.domain._states import OrderedStates
from skpc.domain._tables import Cells
from skpc.variables import Law
from skpc.variables.ranks import Ranks


def columns_before_laws(
    states: Sequence[States],
    cells: Cells,
    weight: Floats,
    names: Sequence[Any] | None,
    declared: Declared,
) -> list[Column]:
    """The columns of a table before anything is known of its numbers.

    ``states`` has the categories of each column, None for numbers.
    """
    columns = list[Column]()
    for column_number, column_states in enumerate(states):
        column: Column
        scale = cells.dates.get(column_number)
        if column_states is None:
            column = Numbers(why=scale.kind if isinstance(scale, Ranks) else "numbers")
        # A column without any value in fit has an empty list of states.
        elif not len(column_states):
            column = Empty(why="no value in fit")
        else:
            column = _categories(column_number, column_states, cells, weight, declared)
        name = column_number if names is None else names[column_number]
        columns.append(replace(column, name=name, calendar=scale))
    return columns


def _categories(
    column_number: int,
    states: NDArray[Any],
    cells: Cells,
    weight: Floats,
    declared: Declared,
) -> Column:
    """A column of categories, or of names of rows."""
    is_declared = declared.states_of(column_number) is not None
    unseen = 0.0
    # Only strings have a share for unseen states, and only strings can name the rows.
    if column_number in cells.strings:
        weight_of = weight_of_values(cells.strings[column_number], weight)
        reserves_unseen = declared.handle_unknown == "unseen"
        unseen = unseen_share(weight_of, states) if reserves_unseen else 0.0
        if name_rows(weight_of) and not is_declared:
            return RowNames(why="nearly every value is seen once", values=states, unseen=unseen)
    if is_declared:
        why = "declared in categories"
    # Where a user lists columns, no others get here; words such as "auto" list none.
    elif not isinstance(declared.categorical_features, str):
        why = "declared in categorical_features"
    elif column_number in cells.declared:
        why = "a dtype with categories"
    elif column_number in cells.bools:
        why = "bools"
    else:
        why = "strings" if column_number in cells.strings else FEW_INTEGERS
    return Categories(why=why, states=states, unseen=unseen)


def with_law(column: Column, law: Law | None) -> Column:
    """A column of numbers with its law, which tells ordered states; as it was without a law."""
    if law is None:
        return column
    kind = OrderedStates if law.is_ordered else Numbers
    return kind(
        name=column.name, why=column.why, law=law, unseen=law.unseen, calendar=column.calendar
    )
