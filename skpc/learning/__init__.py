"""From data to circuits: structure scores and the search for cutset networks."""

from skpc.learning.all_trees import (
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
from skpc.learning.clustering import as_numbers
from skpc.learning.cutset import learn_cutset_network
from skpc.learning.cutset_circuit import cutset_circuit, mixture_circuit
from skpc.learning.independence import independent_groups
from skpc.learning.mixture import Mixture, learn_mixture
from skpc.learning.network import CutsetNetwork
from skpc.learning.scores import BayesDirichlet, Bic, Score
from skpc.learning.soft_learn import SoftLearnOptions, learn_soft_circuit, refinement_pseudo_counts

__all__ = [
    "Adam",
    "BayesDirichlet",
    "Bic",
    "CutsetNetwork",
    "IncompleteRows",
    "Mixture",
    "Score",
    "SoftLearnOptions",
    "TrainedTrees",
    "TrainingOptions",
    "TrainingRows",
    "adam_pass",
    "as_numbers",
    "cutset_circuit",
    "independent_groups",
    "learn_cutset_network",
    "learn_mixture",
    "learn_soft_circuit",
    "mixture_circuit",
    "refinement_pseudo_counts",
    "start_trees",
    "train_trees",
    "usual_batch_size",
]
