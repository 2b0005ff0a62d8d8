"""Data sets of the density-estimation literature, read from local files."""

from skpc.datasets._debd import fetch_debd

__all__ = ["fetch_debd"]
