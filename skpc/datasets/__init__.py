"""Data sets of the density-estimation literature, and tables with known distributions."""

from skpc.datasets._debd import URLS, fetch_debd
from skpc.datasets._generators import make_chow_liu, make_ising, make_missing

__all__ = ["URLS", "fetch_debd", "make_chow_liu", "make_ising", "make_missing"]
