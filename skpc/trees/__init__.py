"""Trees over variables: mutual information, Chow-Liu trees and their circuits."""

from skpc.trees.all_trees import AllTrees, Expectation
from skpc.trees.chow_liu import ChowLiuTree, binary_spanning_tree, maximum_spanning_tree
from skpc.trees.count_tables import CountTables
from skpc.trees.directed import DirectedParameters
from skpc.trees.laplacian import edge_probabilities, log_tree_weight
from skpc.trees.mutual_information import UNITS_PER_NAT, table_information
from skpc.trees.pair_tables import PairTables
from skpc.trees.tree_circuit import add_tree
from skpc.trees.undirected import UndirectedParameters

__all__ = [
    "UNITS_PER_NAT",
    "AllTrees",
    "ChowLiuTree",
    "CountTables",
    "DirectedParameters",
    "Expectation",
    "PairTables",
    "UndirectedParameters",
    "add_tree",
    "binary_spanning_tree",
    "edge_probabilities",
    "log_tree_weight",
    "maximum_spanning_tree",
    "table_information",
]
