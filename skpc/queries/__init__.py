"""Questions to a circuit, one question a file."""

from skpc.queries.bd_score import bd_score
from skpc.queries.condition import condition
from skpc.queries.expansion import KernelExpansion
from skpc.queries.expectation import expected_gram, expected_kernel
from skpc.queries.flows import flows
from skpc.queries.log_conditional import log_conditional
from skpc.queries.log_likelihood import log_likelihood
from skpc.queries.marginals import marginals
from skpc.queries.moments import moments
from skpc.queries.mpe import mpe
from skpc.queries.parameters import PseudoCounts, fit_parameters, uniform_pseudo_counts
from skpc.queries.posteriors import posteriors
from skpc.queries.quantiles import quantiles
from skpc.queries.sample import sample, sample_missing
from skpc.queries.score_cells import score_cells

__all__ = [
    "KernelExpansion",
    "PseudoCounts",
    "bd_score",
    "condition",
    "expected_gram",
    "expected_kernel",
    "fit_parameters",
    "flows",
    "log_conditional",
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
