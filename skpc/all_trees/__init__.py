"""The mixture of all spanning trees: parameters, determinants, inference, training, density.

Internal: it may change in any version.
"""

from skpc.all_trees.all_trees import AllTrees
from skpc.all_trees.components import ComponentParameters, Components
from skpc.all_trees.density import AllTreesDensity
from skpc.all_trees.directed import DirectedParameters
from skpc.all_trees.training import (
    EPOCH_ROWS,
    Adam,
    IncompleteRows,
    TrainingOptions,
    adam_pass,
    start_trees,
    train_trees,
    usual_batch_size,
)
from skpc.all_trees.undirected import UndirectedParameters

__all__ = [
    "EPOCH_ROWS",
    "Adam",
    "AllTrees",
    "AllTreesDensity",
    "ComponentParameters",
    "Components",
    "DirectedParameters",
    "IncompleteRows",
    "TrainingOptions",
    "UndirectedParameters",
    "adam_pass",
    "start_trees",
    "train_trees",
    "usual_batch_size",
]
