"""How far apart are two distributions?"""

from skpc.discrepancies.mmd import mmd2

__all__ = ["mmd2"]
