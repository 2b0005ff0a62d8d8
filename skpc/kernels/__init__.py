"""Kernels between rows, and their expectations under univariate distributions."""

from skpc.kernels._expectations import leaf_expectations, leaf_second_moments
from skpc.kernels._kernel import (
    RBF,
    ColumnKernel,
    Delta,
    ExponentialHamming,
    Kernel,
    KernelCircuit,
    KernelNode,
    ProductKernel,
    SumKernel,
    product_terms,
)

__all__ = [
    "RBF",
    "ColumnKernel",
    "Delta",
    "ExponentialHamming",
    "Kernel",
    "KernelCircuit",
    "KernelNode",
    "ProductKernel",
    "SumKernel",
    "leaf_expectations",
    "leaf_second_moments",
    "product_terms",
]
