"""Counts of cells and pairs of cells, what they tell, and the trees made of them."""

from skpc.counting.bit_counts import BitRows, fits_bits
from skpc.counting.chow_liu import ChowLiuTree, binary_spanning_tree, maximum_spanning_tree
from skpc.counting.clustering import as_numbers, cluster_rows, soft_memberships
from skpc.counting.count_tables import CountTables
from skpc.counting.mutual_information import UNITS_PER_NAT, table_information
from skpc.counting.rows import Rows, ScoredTree
from skpc.counting.scores import BayesDirichlet, Bic, Score, smoothed_log_probabilities
from skpc.counting.tree_circuit import add_tree
from skpc.counting.weighted_counts import WeightedRows

__all__ = [
    "BayesDirichlet",
    "Bic",
    "BitRows",
    "ChowLiuTree",
    "CountTables",
    "Rows",
    "Score",
    "ScoredTree",
    "UNITS_PER_NAT",
    "WeightedRows",
    "add_tree",
    "as_numbers",
    "binary_spanning_tree",
    "cluster_rows",
    "fits_bits",
    "maximum_spanning_tree",
    "smoothed_log_probabilities",
    "soft_memberships",
    "table_information",
]
