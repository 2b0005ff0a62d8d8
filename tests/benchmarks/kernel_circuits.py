"""Expected kernels: CPU seconds as the two circuits and the kernel grow.

    python -m tests.benchmarks.kernel_circuits

Circuits are mixtures of chains over 20 binary columns, with 64 to 1,024 parts of a sum; kernels are
sums of 4 to 64 products along the chain. One size varies at a time. The last column is the slope of
log seconds in the log of the size: 1 is linear. Then products of sums of two kernels over 7, 14 and
40 columns.
"""

from __future__ import annotations

import time

import numpy as np

from skpc.circuit import Circuit, CircuitBuilder
from skpc.kernels import RBF, Kernel, ProductKernel, SumKernel
from skpc.queries import expected_kernel

#: Parts of the circuits, and of the kernels.
SIZES = (64, 128, 256, 512, 1024)
PARTS = (4, 8, 16, 32, 64)


def main() -> None:
    circuits = [mixture_of_chains(20, size, seed=0) for size in SIZES]
    others = [mixture_of_chains(20, size, seed=1) for size in SIZES]
    kernels = [sum_of_products(20, size) for size in PARTS]
    work = {
        "|p|": [(p, others[0], kernels[0]) for p in circuits],
        "|q|": [(circuits[0], q, kernels[0]) for q in others],
        "|k|": [(circuits[0], others[0], k) for k in kernels],
    }
    print("varies   seconds at five sizes, each twice the one before, and the slope")
    for name, calls in work.items():
        row = [seconds(*call) for call in calls]
        slope = np.polyfit(np.log(SIZES), np.log(row), 1)[0]
        print(f"{name:8s}", *(f"{cell:8.4f}" for cell in row), f"{slope:8.2f}")
    for n_columns in (7, 14, 40):
        p, q = (mixture_of_chains(n_columns, 4, seed=seed) for seed in (0, 1))
        both = SumKernel([RBF(0.3), RBF(1.0)], [0.4, 0.6])
        kernel = ProductKernel([both] * n_columns)
        print(f"product of {n_columns} sums of two: {seconds(p, q, kernel):.4f} s")


def seconds(p: Circuit, q: Circuit, kernel: Kernel) -> float:
    """The least CPU seconds of three."""
    times = []
    for _ in range(3):
        start = time.process_time()
        expected_kernel(p, q, kernel)
        times.append(time.process_time() - start)
    return min(times)


def sum_of_products(n_columns: int, n_parts: int) -> Kernel:
    """A nested kernel: a sum of products of a column and one shared kernel of those that follow."""
    below: Kernel = RBF(1.0, scope=[n_columns - 1])
    for column in reversed(range(n_columns - 1)):
        gammas = 0.1 + np.arange(n_parts) / n_parts
        parts = [ProductKernel([RBF(gamma, scope=[column]), below]) for gamma in gammas]
        below = SumKernel(parts)
    return below


def mixture_of_chains(n_columns: int, n_parts: int, seed: int) -> Circuit:
    """Sums of a few products of a column and a sum of those that follow."""
    rng = np.random.default_rng(seed)
    builder = CircuitBuilder([2] * n_columns)
    below: list[int] = []
    for column in reversed(range(n_columns)):
        nodes = [builder.discrete(column, simplex(rng, 2)) for _ in range(n_parts)]
        if below:
            nodes = [builder.product([leaf, tail]) for leaf, tail in zip(nodes, below)]
        # Each sum has two children, so that the edges grow with the number of parts.
        below = [
            builder.sum([nodes[part], nodes[part - 1]], simplex(rng, 2)) for part in range(n_parts)
        ]
    builder.sum(below, simplex(rng, n_parts))
    return builder.build()


def simplex(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.log(rng.dirichlet(np.ones(size)))


if __name__ == "__main__":
    main()
