"""
=====================================
Better averages from the same samples
=====================================

A Gibbs chain draws samples of a factor graph. How far are the marginals that they give from the
exact ones, and how much nearer do they come if you *weight* the samples, or replace some of their
cells by exact conditional distributions (*collapse* them)?

:class:`~skpc.discrepancies.BlackBoxImportanceSampler` does both. It looks at the samples and at
ratios of probabilities of the target only, and knows nothing about the chain.
"""

import matplotlib.pyplot as plt
import numpy as np

from skpc.discrepancies import BlackBoxImportanceSampler
from skpc.factor_graphs import FactorGraph, GibbsSampler, compile
from skpc.queries import marginals

# %%
# A target
# --------
# Binary variables on a grid, with random tables between neighbours. The grid is small enough to be
# compiled into a circuit, which gives the exact marginals to compare with.
target = FactorGraph.ising_grid(3, 4, random_state=1)
circuit = compile(target)
exact = [column[0] for column in marginals(circuit, np.full((1, target.n_variables), np.nan))]
print(circuit)


def distance(estimates):
    """Hellinger distance to the exact marginals, averaged over the variables."""
    squares = [np.sum((np.sqrt(p) - np.sqrt(q)) ** 2) for p, q in zip(estimates, exact)]
    return np.mean(np.sqrt(0.5 * np.array(squares)))


# %%
# Samples, weighted and collapsed
# -------------------------------
# The first 25, 50 and 100 samples of four chains are used: with equal weights, and weighted by each
# of the two Stein operators; complete, and with half of the variables collapsed, different ones in
# each sample. (A sampler whose weights are all the same is the plain average.)
sizes = [25, 50, 100]
n_chains = 4
errors = {}
for seed in range(n_chains):
    samples = GibbsSampler(target, random_state=seed).sample(max(sizes))
    for collapse in (0.0, 0.5):
        for operator in ("ratio", "barker"):
            for size in sizes:
                sampler = BlackBoxImportanceSampler(
                    target, stein_operator=operator, collapse=collapse, random_state=seed
                ).fit(samples[:size])
                errors.setdefault((operator, collapse, size), []).append(
                    distance(sampler.marginals())
                )
                sampler.weights_ = np.full(size, 1 / size)
                errors.setdefault(("equal", collapse, size), []).append(
                    distance(sampler.marginals())
                )

# %%
# Results
# -------
styles = {
    "equal": ("equal weights", "#000000", "o"),
    "ratio": ('weights by "ratio"', "#D55E00", "s"),
    "barker": ('weights by "barker"', "#0072B2", "^"),
}
_, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
for collapse, line in ((0.0, "--"), (0.5, "-")):
    for method, (label, colour, marker) in styles.items():
        logs = np.log([errors[method, collapse, size] for size in sizes])
        mean, error = logs.mean(axis=1), logs.std(axis=1) / np.sqrt(logs.shape[1])
        name = f"{label}, half collapsed" if collapse else label
        ax.errorbar(sizes, mean, error, color=colour, ls=line, marker=marker, capsize=2, label=name)
ax.set_xscale("log", base=2)
ax.set_xticks(sizes, sizes)
ax.set_xlabel("number of samples")
ax.set_ylabel("ln of the average Hellinger distance")
ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, handlelength=3.5)
plt.show()

# %%
# The bounded operator "barker" gives better weights than equal ones at every size, and half of the
# variables collapsed makes them better still. "ratio", the operator of the literature, divides by
# the probability of a sample. Where neighbouring states differ much in probability, as they do
# here, a few improbable samples dominate its discrepancy, and the weights are *worse* than equal
# ones: more samples then help little. Collapsing averages such ratios, and mends much of it.
#
# Weights do not help where samples leave out a part of the distribution: they move mass between the
# samples only.
