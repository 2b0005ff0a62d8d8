"""Questions to a circuit; a file answers those that share a pass."""

from skpc.queries.completions import mpe, sample, sample_missing
from skpc.queries.expectation import KernelExpansion, expected_gram, expected_kernel
from skpc.queries.flows import PseudoCounts, bd_score, flows, uniform_pseudo_counts
from skpc.queries.log_likelihood import condition, log_conditional, log_expectation, log_likelihood
from skpc.queries.parameters import fit_parameters
from skpc.queries.passes.factors import AtPoints, Intervals, Weights
from skpc.queries.paths import Paths, expected_value
from skpc.queries.posteriors import marginals, moments, posteriors, quantiles
from skpc.queries.score_cells import score_cells
from skpc.variables.events import Events

__all__ = [
    "AtPoints",
    "Events",
    "Intervals",
    "KernelExpansion",
    "Paths",
    "PseudoCounts",
    "Weights",
    "bd_score",
    "condition",
    "expected_gram",
    "expected_kernel",
    "expected_value",
    "fit_parameters",
    "flows",
    "log_conditional",
    "log_expectation",
    "log_likelihood",
    "marginals",
    "moments",
    "mpe",
    "posteriors",
    "quantiles",
    "sample",
    "sample_missing",
    "score_cells",
    "uniform_pseudo_counts",
]
