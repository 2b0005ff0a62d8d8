"""Counts of cells and pairs of cells, their scores, and the trees made of them.

Internal: it may change in any version.
"""

from skpc.counting.clustering import as_numbers, cluster_rows, soft_memberships
from skpc.counting.rows import Rows, WeightedRows, count_state_pairs, node_rows
from skpc.counting.tables import (
    BayesDirichlet,
    Bic,
    CountTables,
    Score,
    smoothed_log_probabilities,
)
from skpc.counting.trees import (
    UNITS_PER_NAT,
    ChowLiuTree,
    ScoredTree,
    add_tree,
    children_first,
    maximum_spanning_tree,
)

__all__ = [
    "UNITS_PER_NAT",
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
    "count_state_pairs",
    "maximum_spanning_tree",
    "node_rows",
    "smoothed_log_probabilities",
    "soft_memberships",
]
