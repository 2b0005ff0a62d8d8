"""The mixture of all spanning trees: parameters, determinants, inference, training, density."""

from skpc.all_trees.all_trees import AllTrees, Expectation
from skpc.all_trees.collapsed import collapsed_estimates, importance_estimates
from skpc.all_trees.components import ComponentParameters, Components
from skpc.all_trees.density import AllTreesDensity
from skpc.all_trees.directed import DirectedParameters
from skpc.all_trees.estimates import Estimates, Request
from skpc.all_trees.gibbs import gibbs_estimates
from skpc.all_trees.incomplete import estimate_missing, redraw_rows
from skpc.all_trees.laplacian import edge_probabilities, edges_into, log_tree_weight
from skpc.all_trees.pair_tables import PairTables
from skpc.all_trees.spanning_trees import sample_spanning_trees
from skpc.all_trees.training import (
    Adam,
    IncompleteRows,
    TrainedTrees,
    TrainingOptions,
    TrainingRows,
    adam_pass,
    start_trees,
    train_trees,
    usual_batch_size,
)
from skpc.all_trees.tree_inference import log_evidence, sample_missing, tree_marginals
from skpc.all_trees.tree_tables import TreeTables
from skpc.all_trees.undirected import UndirectedParameters

__all__ = [
    "Adam",
    "AllTrees",
    "AllTreesDensity",
    "ComponentParameters",
    "Components",
    "DirectedParameters",
    "Estimates",
    "Expectation",
    "IncompleteRows",
    "PairTables",
    "Request",
    "TrainedTrees",
    "TrainingOptions",
    "TrainingRows",
    "TreeTables",
    "UndirectedParameters",
    "adam_pass",
    "collapsed_estimates",
    "edge_probabilities",
    "edges_into",
    "estimate_missing",
    "gibbs_estimates",
    "importance_estimates",
    "log_evidence",
    "log_tree_weight",
    "redraw_rows",
    "sample_missing",
    "sample_spanning_trees",
    "start_trees",
    "train_trees",
    "tree_marginals",
    "usual_batch_size",
]
