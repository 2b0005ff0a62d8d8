"""Trees over variables: Chow-Liu trees and their circuits; all spanning trees of a graph."""

from skpc.trees.all_trees import AllTrees, Expectation
from skpc.trees.chow_liu import ChowLiuTree, binary_spanning_tree, maximum_spanning_tree
from skpc.trees.collapsed import collapsed_estimates, importance_estimates
from skpc.trees.components import ComponentParameters, Components
from skpc.trees.count_tables import CountTables
from skpc.trees.density import AllTreesDensity
from skpc.trees.directed import DirectedParameters
from skpc.trees.estimates import Estimates, Request
from skpc.trees.gibbs import gibbs_estimates
from skpc.trees.incomplete import (
    estimate_missing,
    redraw_rows,
)
from skpc.trees.laplacian import edge_probabilities, edges_into, log_tree_weight
from skpc.trees.mutual_information import UNITS_PER_NAT, table_information
from skpc.trees.pair_tables import PairTables
from skpc.trees.spanning_trees import sample_spanning_trees
from skpc.trees.tree_circuit import add_tree
from skpc.trees.tree_inference import log_evidence, sample_missing, tree_marginals
from skpc.trees.tree_tables import TreeTables
from skpc.trees.undirected import UndirectedParameters

__all__ = [
    "UNITS_PER_NAT",
    "AllTrees",
    "AllTreesDensity",
    "ChowLiuTree",
    "ComponentParameters",
    "Components",
    "CountTables",
    "DirectedParameters",
    "Estimates",
    "Expectation",
    "PairTables",
    "Request",
    "TreeTables",
    "UndirectedParameters",
    "add_tree",
    "binary_spanning_tree",
    "collapsed_estimates",
    "edge_probabilities",
    "edges_into",
    "estimate_missing",
    "gibbs_estimates",
    "importance_estimates",
    "log_evidence",
    "log_tree_weight",
    "maximum_spanning_tree",
    "redraw_rows",
    "sample_missing",
    "sample_spanning_trees",
    "table_information",
    "tree_marginals",
]
