"""What each column of a table is, and the rows that learners and circuits see."""

from skpc.domain._domain import Domain
from skpc.domain._merging import (
    column_moments,
    group_codes,
    group_rows,
    merge_codes,
    merge_rows,
    present_rows,
)

__all__ = [
    "Domain",
    "column_moments",
    "group_codes",
    "group_rows",
    "merge_codes",
    "merge_rows",
    "present_rows",
]
