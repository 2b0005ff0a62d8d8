"""Counts of cells and pairs of cells, their scores, and the trees made of them.

Internal: it may change in any version.
"""

from skpc.counting.chow_liu import ChowLiuTree, ScoredTree, maximum_spanning_tree
from skpc.counting.clustering import as_numbers, cluster_rows, soft_memberships
from skpc.counting.count_tables import CountTables
from skpc.counting.rows import Rows, count_rows
from skpc.counting.scores import BayesDirichlet, Bic, Score, smoothed_log_probabilities
from skpc.counting.state_pairs import count_state_pairs
from skpc.counting.tree_circuit import add_tree, children_first
from skpc.counting.weighted_counts import WeightedRows

__all__ = [
    "BayesDirichlet",
    "Bic",
    "ChowLiuTree",
    "CountTables",
    "Rows",
    "Score",
    "ScoredTree",
    "WeightedRows",
    "add_tree",
    "as_numbers",
    "children_first",
    "cluster_rows",
    "count_rows",
    "count_state_pairs",
    "maximum_spanning_tree",
    "smoothed_log_probabilities",
    "soft_memberships",
]
