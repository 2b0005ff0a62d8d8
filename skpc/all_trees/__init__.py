"""The mixture of all spanning trees: parameters, determinants, inference, training, density.

Internal: it may change in any version.
"""

from skpc.all_trees.all_trees import AllTrees, Components
from skpc.all_trees.density import AllTreesDensity
from skpc.all_trees.parameters import ComponentParameters, DirectedParameters, UndirectedParameters
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
