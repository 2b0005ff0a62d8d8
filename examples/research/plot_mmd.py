"""
=======================================
How far apart are two fitted densities?
=======================================

The maximum mean discrepancy is the distance between the mean embeddings of two distributions under
a kernel. Between compatible circuits it is exact: no draws, no test set.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from skpc import CutsetNetworkBD
from skpc.discrepancies import mmd2
from skpc.kernels import RBF
from skpc.queries import fit_parameters, sample

# %%
# Wines of three cultivars, described by 13 numbers. Two circuits are compatible if they split their
# variables alike, so one structure is learned from all wines, and its parameters are then
# fitted to each cultivar.
data = load_wine()
X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
model = CutsetNetworkBD(structured=True, param_ess=1.0).fit(X)
parts = [fit_parameters(model.circuit_, X[data.target == k], pseudo_count=0.1) for k in range(3)]
kernel = RBF(1.0 / X.shape[1])

# %%
# These are exact distances between the three densities.
pairs = [(0, 1), (0, 2), (1, 2)]
exact = {pair: mmd2(parts[pair[0]], parts[pair[1]], kernel) for pair in pairs}
for (a, b), value in exact.items():
    print(f"cultivars {a} and {b}: {value:.4f}")

# %%
# From samples, the distance is an estimate. With a circuit on one side it varies less, and with a
# circuit on both sides it does not vary at all. The estimates are unbiased.
sizes = [10, 50, 250]
estimates = {"two samples": [], "a circuit and a sample": []}
for n in sizes:
    both, one = [], []
    for seed in range(10):
        left = sample(parts[0], n, random_state=seed)
        right = sample(parts[1], n, random_state=1000 + seed)
        both.append(mmd2(left, right, kernel))
        one.append(mmd2(parts[0], right, kernel))
    estimates["two samples"].append(both)
    estimates["a circuit and a sample"].append(one)

# %%
_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for (name, found), color, shift, marker in zip(
    estimates.items(), ("#D55E00", "#0072B2"), (0.94, 1.06), ("s", "o")
):
    at = np.array(sizes) * shift
    mean, spread = np.mean(found, axis=1), np.std(found, axis=1)
    ax.errorbar(at, mean, spread, fmt=marker, color=color, capsize=3, label=name)
ax.axhline(exact[0, 1], color="#666666", lw=1, zorder=0)
ax.text(360, exact[0, 1] + 0.003, "exact", color="#666666", va="bottom")
ax.set_xscale("log")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.set_xlim(8, 600)
ax.set_xlabel("rows in a sample")
ax.set_ylabel("squared MMD of cultivars 0 and 1")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
