"""
========================================
Where a mixture of all trees starts from
========================================

Training climbs from a first guess: smoothed counts as the tables, and mutual information as the
weights of the edges. This example compares it with random numbers, on handwritten digits (after
figure 3 of the paper). It calls ``skpc.all_trees``, which is internal and may change.
"""

import matplotlib.pyplot as plt
import numpy as np

from skpc.all_trees.parameters import ComponentParameters, DirectedParameters, UndirectedParameters
from skpc.all_trees.training import IncompleteRows, TrainingOptions, start_trees, train_trees
from skpc.datasets import load_digit_bits

# %%
# The columns are 8 x 8 pixels, black or white; four fifths of the digits are for training.
pixels = load_digit_bits().data.astype(np.int64)
pixels = np.random.default_rng(0).permutation(pixels)
train, valid = pixels[:1400], pixels[1400:]
n_states = np.full(64, 2)
options = TrainingOptions("adam", 0.05, 128, 10, 0.0, 10, "cosine", averaging=True)


def curve(parameters, vector):
    """Log-likelihood of the validation digits at the start and after each epoch."""
    random_state = np.random.RandomState(0)
    rows, held = (IncompleteRows(part, np.ones(len(part)), random_state) for part in (train, valid))
    model = parameters.model(vector)
    start = model.log_likelihood(model.models[0].states_of(valid)).mean()
    trained = train_trees(parameters, vector, rows, held, options, random_state, lambda step: None)
    return [start, *trained.scores]


# %%
# Both orientations start well, and end better than from random numbers. (The random logarithms of
# the weights and of the tables are three times standard normal numbers.)
_, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained", sharey=True)
for ax, kind in zip(axes, (UndirectedParameters, DirectedParameters)):
    parameters = ComponentParameters(kind(np.arange(65) * 2), 1)
    start = start_trees(
        parameters, train, np.ones(len(train)), n_states, 1.0, np.random.RandomState(0)
    )
    for seed in range(2):
        random = np.random.default_rng(seed).normal(size=len(start))
        line = ax.plot(curve(parameters, random), ":", color="#D55E00", linewidth=1.2)
    line[0].set_label("random")
    ax.plot(curve(parameters, start), color="#0072B2", label="counts and information")
    ax.set_title("undirected" if kind is UndirectedParameters else "directed")
    ax.set_xlabel("epochs")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylim(-35, -18)
axes[0].set_ylabel("nats a row on new digits")
axes[0].legend(frameon=False, loc="lower right")
plt.show()
