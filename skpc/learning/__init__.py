"""From encoded rows to circuits.

Internal: it may change in any version.
"""

from skpc.learning.cutset import learn_cutset_network
from skpc.learning.factors import Factors
from skpc.learning.filling import fill_missing
from skpc.learning.forest import Forest
from skpc.learning.held_out import Split, deal, hold_out
from skpc.learning.hidden_tree import CodedRows, HiddenTree, hidden_tree_circuit
from skpc.learning.hidden_tree_search import (
    MAX_EPOCHS,
    TreeChoice,
    TreeRows,
    choose_hidden_tree,
    learn_hidden_tree,
)
from skpc.learning.mixture import CutsetMixture, check_n_components, learn_mixture
from skpc.learning.network import CutsetNetwork, cutset_circuit
from skpc.learning.posterior import bootstrapped, open_for_draws, redrawn
from skpc.learning.random_cuts import RandomCuts
from skpc.learning.random_trees import ForestOptions, learn_forest
from skpc.learning.shrinkage import TrainingRows, learn_shrunken_mixture
from skpc.learning.simplex import mean_weights, mixture_weights
from skpc.learning.smoothing import choose_param_ess, refinement_pseudo_counts
from skpc.learning.soft_learn import SoftLearner, SoftLearnOptions
from skpc.learning.table_mixture import LearnedMixture, TableRows
from skpc.learning.table_search import (
    N_STAGES,
    HeldOutRows,
    learn_chosen,
    learn_table_mixture,
    tree_circuit,
    try_tree,
    weigh_tree,
)

__all__ = [
    "CodedRows",
    "CutsetMixture",
    "CutsetNetwork",
    "Factors",
    "Forest",
    "ForestOptions",
    "HeldOutRows",
    "HiddenTree",
    "LearnedMixture",
    "MAX_EPOCHS",
    "N_STAGES",
    "RandomCuts",
    "SoftLearnOptions",
    "SoftLearner",
    "Split",
    "TableRows",
    "TrainingRows",
    "TreeChoice",
    "TreeRows",
    "bootstrapped",
    "check_n_components",
    "choose_hidden_tree",
    "choose_param_ess",
    "cutset_circuit",
    "deal",
    "fill_missing",
    "hidden_tree_circuit",
    "hold_out",
    "learn_chosen",
    "learn_cutset_network",
    "learn_forest",
    "learn_hidden_tree",
    "learn_mixture",
    "learn_shrunken_mixture",
    "learn_table_mixture",
    "mean_weights",
    "mixture_weights",
    "open_for_draws",
    "redrawn",
    "refinement_pseudo_counts",
    "tree_circuit",
    "try_tree",
    "weigh_tree",
]
