"""What each column of a table is, and the rows that learners and circuits see."""

from skpc.domain._categories import Categories
from skpc.domain._column import Column
from skpc.domain._declared import Declared
from skpc.domain._domain import Domain, one_hot
from skpc.domain._events import events_of_table as events_of_table
from skpc.domain._events import read_events
from skpc.domain._faces import Face
from skpc.domain._hidden import Empty, RowNames
from skpc.domain._mass import LogMass
from skpc.domain._numbers import Numbers
from skpc.domain._rows import (
    canonical_order,
    column_moments,
    group_codes,
    group_rows,
    join_tables,
    merge_codes,
    merge_rows,
    present_rows,
)
from skpc.domain._states import OrderedStates
from skpc.domain._tables import named_columns
from skpc.domain._tables import tabulate as tabulate

__all__ = [
    "Categories",
    "Column",
    "Declared",
    "Domain",
    "Empty",
    "Face",
    "LogMass",
    "Numbers",
    "OrderedStates",
    "RowNames",
    "canonical_order",
    "column_moments",
    "group_codes",
    "group_rows",
    "join_tables",
    "merge_codes",
    "merge_rows",
    "named_columns",
    "one_hot",
    "present_rows",
    "read_events",
]
