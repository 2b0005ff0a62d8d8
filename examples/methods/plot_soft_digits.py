"""
===============================
Digits drawn from soft networks
===============================

Samples show what a density has learned. Here sum-product networks are fitted to pictures of
handwritten digits: by LearnSPN, which gives each row to one cluster, by SoftLearn, which divides
rows among clusters, and by SoftLearn with all parameters adjusted by EM at the end.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from skpc import SoftLearnSPN
from skpc.datasets import load_digit_bits

# %%
# The 8 x 8 pixels, black or white, are 64 columns. Both states are declared, as some pixels are
# white in all rows for training.
pixels = load_digit_bits().data
train, test = train_test_split(pixels, test_size=450, random_state=0)
both_states = [[0, 1]] * 64
variants = {
    "hard (LearnSPN)": {"assignment": "hard", "n_refine": 0},
    "soft (SoftLearn)": {"n_refine": 0},
    "soft, refined": {},
}
models = {
    name: SoftLearnSPN(**options, categories=both_states, random_state=0).fit(train)
    for name, options in variants.items()
}

# %%
_, axes = plt.subplots(4, figsize=(8, 2.8), layout="constrained")
strips = {name: model.sample(14, random_state=0) for name, model in models.items()}
for ax, (name, rows) in zip(axes, ({"training rows": train[:14]} | strips).items()):
    ax.imshow(np.hstack(np.pad(rows.reshape(-1, 8, 8), ((0, 0), (0, 0), (1, 1)))), cmap="gray_r")
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
plt.show()

# %%
# Pictures can deceive: a network that repeats its training rows draws well. Held-out likelihood
# cannot.
print(f"{'':17s}  edges  training  held-out")
for name, model in models.items():
    n_edges = model.circuit_.n_edges
    print(f"{name:17s} {n_edges:6d} {model.score(train):9.2f} {model.score(test):9.2f}")
