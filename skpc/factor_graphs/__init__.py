"""Discrete factor graphs: files, grids, Bayesian networks; compiled to circuits; Gibbs sampling."""

from skpc.factor_graphs.compile import compile, log_partition, min_fill_vtree
from skpc.factor_graphs.elimination import sum_out
from skpc.factor_graphs.gibbs import GibbsSampler
from skpc.factor_graphs.graph import FactorGraph
from skpc.factor_graphs.uai import load_asia, read_uai, write_uai

__all__ = [
    "FactorGraph",
    "GibbsSampler",
    "compile",
    "load_asia",
    "log_partition",
    "min_fill_vtree",
    "read_uai",
    "sum_out",
    "write_uai",
]
