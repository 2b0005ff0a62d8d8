"""Tables of the examples and of the literature, and tables whose distribution is known."""

from skpc.datasets._debd import URLS, fetch_debd
from skpc.datasets._tables import (
    load_digit_bits,
    load_tumours,
    load_wines,
    make_chow_liu,
    make_ising,
    make_missing,
)

__all__ = [
    "URLS",
    "fetch_debd",
    "load_digit_bits",
    "load_tumours",
    "load_wines",
    "make_chow_liu",
    "make_ising",
    "make_missing",
]
