"""What each column of a table is, and the rows that learners and circuits see."""

from skpc.domain._domain import Domain
from skpc.domain._rows import merge_rows, present_rows

__all__ = ["Domain", "merge_rows", "present_rows"]
