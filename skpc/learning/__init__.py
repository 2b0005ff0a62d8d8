"""From encoded rows to circuits.

Internal: it may change in any version.
"""

from skpc.learning.cutset import learn_cutset_network
from skpc.learning.cutset_circuit import cutset_circuit, mixture_circuit
from skpc.learning.factors import Factors
from skpc.learning.independence import independent_groups
from skpc.learning.mixture import CutsetMixture, check_n_components, learn_mixture
from skpc.learning.network import CutsetNetwork
from skpc.learning.shrinkage import fit_shrunken, learn_shrunken_mixture
from skpc.learning.simplex import mixture_weights
from skpc.learning.smoothing import choose_param_ess
from skpc.learning.soft_learn import SoftLearnOptions, learn_soft_circuit, refinement_pseudo_counts
from skpc.learning.table_circuit import table_circuit
from skpc.learning.table_search import (
    N_STAGES,
    HeldOutRows,
    LearnedMixture,
    TableRows,
    learn_table_mixture,
)

__all__ = [
    "CutsetMixture",
    "CutsetNetwork",
    "Factors",
    "HeldOutRows",
    "LearnedMixture",
    "N_STAGES",
    "SoftLearnOptions",
    "TableRows",
    "check_n_components",
    "choose_param_ess",
    "cutset_circuit",
    "fit_shrunken",
    "independent_groups",
    "learn_cutset_network",
    "learn_mixture",
    "learn_shrunken_mixture",
    "learn_soft_circuit",
    "learn_table_mixture",
    "mixture_circuit",
    "mixture_weights",
    "refinement_pseudo_counts",
    "table_circuit",
]
