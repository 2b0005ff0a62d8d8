"""
=========================================
Missing cells under mixtures of all trees
=========================================

The likelihood of a complete row under a mixture of all trees is a determinant. With missing cells
it is a sum over trees without a known fast algorithm, and trees are sampled instead. Here the table
has 14 binary columns only, so that all 16,384 rows can be summed for comparison. The example calls
``skpc.all_trees``, which is internal and may change.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from skpc import MixtureOfAllTrees
from skpc.all_trees.importance import estimate_rows
from skpc.datasets import load_digit_bits

# %%
# The columns are 14 of the pixels of handwritten digits, black or white. Ten rows show six of these
# pixels. How probable is it that each of the other pixels is black?
pixels = load_digit_bits().data
chosen = [10, 11, 12, 18, 20, 26, 27, 28, 34, 37, 42, 45, 50, 52]
train, test = pixels[:1400, chosen], pixels[1400:, chosen]
rng = np.random.default_rng(0)
rows = test[rng.permutation(len(test))[:10]].astype(np.int64)
for row in rows:
    row[rng.permutation(14)[6:]] = -1

# %%
# For each row, the truth is a sum over the 256 rows that it may be.
every = (np.arange(2**14)[:, np.newaxis] >> np.arange(14)) & 1


def exact_marginals(model):
    probability = np.exp(model.score_samples(every.astype(float)))
    possible = np.array([np.all((row < 0) | (row == every), axis=1) for row in rows])
    joint = possible * probability
    return joint @ every / joint.sum(axis=1, keepdims=True)


# %%
# There are two ways to sample. "auto" draws completions in view of the observed cells, or trees
# where completions are worth little; the estimator does so if there are too many to sum them all.
# "collapsed" draws trees without a look at the row, weighs them by it, and sums out the missing
# cells in each. Each runs with 10 to 1000 samples a row (fewer completions if these are enough),
# on five seeds.
methods = {"auto": ("#0072B2", "o-"), "collapsed": ("#E69F00", "s--")}
sizes = [10, 30, 100, 300, 1000]
seeds = np.arange(10, dtype=np.uint64)
_, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained", sharey=True)
for ax, orientation in zip(axes, ("undirected", "directed")):
    model = MixtureOfAllTrees(
        orientation=orientation, categories=[[0, 1]] * 14, random_state=0
    ).fit(train)
    truth = exact_marginals(model)
    trees = model.mixture_.models[0]
    for name, (color, style) in methods.items():
        errors, milliseconds = [], []
        estimate_rows(name, trees, rows, seeds, 1)  # compiles
        for size in sizes:
            start = time.process_time()
            found = [
                estimate_rows(name, trees, rows, seeds + np.uint64(100 * k), size).marginals[
                    :, 1::2
                ]
                for k in range(5)
            ]
            milliseconds.append(1000 * (time.process_time() - start) / 50)
            errors.append(np.mean([np.abs(f - truth)[rows < 0].mean() for f in found]))
        ax.loglog(milliseconds, errors, style, color=color, label=name)
    ax.set_title(orientation)
    ax.set_xlabel("CPU milliseconds a row")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("mean error of a probability")
axes[0].legend(frameon=False)
plt.show()

# %%
# Errors fall with the square root of the number of samples. In the undirected mixture all trees
# agree on the distribution of every column, so that they differ little in how well they fit a row;
# in the directed one they differ more, which costs accuracy. (With 256 completions a row the
# estimator itself would sum them, without error.)
