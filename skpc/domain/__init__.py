"""What each column of a table is, and the rows that learners and circuits see."""

from skpc.domain._categories import Categories
from skpc.domain._column import Column
from skpc.domain._domain import Domain, one_hot
from skpc.domain._events import events_of_table, read_events
from skpc.domain._faces import Face
from skpc.domain._hidden import Empty, RowNames
from skpc.domain._mass import LogMass
from skpc.domain._numbers import Numbers
from skpc.domain._order import canonical_order
from skpc.domain._rows import (
    column_moments,
    group_codes,
    group_rows,
    join_tables,
    merge_codes,
    merge_rows,
    present_rows,
)
from skpc.domain._stated import (
    Stated,
    check_stated,
    filled_codes,
    filled_numbers,
    filled_table,
    holds_ranges,
    is_stated,
    ranges_of,
    refuse_wrong,
    split_ranges,
)
from skpc.domain._states import OrderedStates
from skpc.domain._tables import named_columns

__all__ = [
    "Categories",
    "Column",
    "Domain",
    "Empty",
    "Face",
    "LogMass",
    "Numbers",
    "OrderedStates",
    "RowNames",
    "Stated",
    "canonical_order",
    "check_stated",
    "column_moments",
    "events_of_table",
    "filled_codes",
    "filled_numbers",
    "filled_table",
    "group_codes",
    "group_rows",
    "holds_ranges",
    "is_stated",
    "join_tables",
    "merge_codes",
    "merge_rows",
    "named_columns",
    "one_hot",
    "present_rows",
    "ranges_of",
    "read_events",
    "refuse_wrong",
    "split_ranges",
]
