"""
====================================
Regression when features are missing
====================================

A support vector machine has been trained on complete rows, and predicts for rows in which some
features are missing. If you fill them in first, it predicts at a single guess.
:class:`~skpc.ExpectedKernelSVR` averages its prediction over everything the missing features may
be, given those that are there, and does so exactly.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR

from skpc import CutsetNetworkBD, ExpectedKernelSVR, SoftLearnSPN

# %%
# Five features depend on each other through two hidden ones. The target is a nonlinear function of
# the features.
rng = np.random.default_rng(0)
hidden = rng.normal(size=(1600, 2))
X = hidden @ rng.normal(size=(2, 5)) + 0.4 * rng.normal(size=(1600, 5))
y = np.sin(2 * hidden[:, 0]) + hidden[:, 1] ** 2 + 0.2 * rng.normal(size=1600)
train, test = slice(0, 800), slice(800, None)

# %%
# All are the same machine, since all training rows are complete. They differ in what they do about
# missing features of new rows. The expectation is exact under a density of the features, and is as
# good as that: the structured network is a tree over bins, :class:`~skpc.SoftLearnSPN` mixes
# Gaussians. Without a density the machine chooses one of the two. It would also standardize the
# features and the target; here it takes them as they are, like the others.
settings = {"C": 10.0, "gamma": 0.2}
tree, mixtures = CutsetNetworkBD(structured=True), SoftLearnSPN(random_state=0)
plain = {"standardize": False, "standardize_y": False}
models = {
    "expectation, mixtures": ExpectedKernelSVR(mixtures, **plain, **settings),
    "expectation, tree": ExpectedKernelSVR(tree, **plain, **settings),
    "nearest neighbours": make_pipeline(KNNImputer(n_neighbors=20), SVR(**settings)),
    "mean": make_pipeline(SimpleImputer(), SVR(**settings)),
}
for model in models.values():
    model.fit(X[train], y[train])

rates = np.arange(0.0, 1.0, 0.1)
errors = {name: [] for name in models}
for rate in rates:
    incomplete = np.where(rng.random(X[test].shape) < rate, np.nan, X[test])
    for name, model in models.items():
        errors[name].append(np.sqrt(np.mean((model.predict(incomplete) - y[test]) ** 2)))

# %%
_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
styles = {
    "expectation, mixtures": ("#0072B2", "o-", -0.03),
    "expectation, tree": ("#56B4E9", "D-", 0.03),
    "nearest neighbours": ("#009E73", "^--", 0.0),
    "mean": ("#D55E00", "s:", 0.0),
}
for name, (color, line, shift) in styles.items():
    ax.plot(rates, errors[name], line, color=color)
    ax.text(0.92, errors[name][-1] + shift, name, color=color, va="center")
ax.axhline(y[test].std(), color="#999999", lw=1, zorder=0)
ax.text(0.0, y[test].std(), "mean of the target", color="#666666", va="bottom")
ax.set_xlim(-0.02, 1.25)
ax.set_xticks(rates[::2])
ax.set_xlabel("proportion of the cells that are missing")
ax.set_ylabel("root mean squared error")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The expectation gains more where more is missing. Where little is known, prediction at a guess can
# be worse than the mean of the target. Where nearly all is known, a guess is close, and it matters
# most how well the density describes the features.
#
# How much could the missing features still change? ``return_std=True`` gives the exact standard
# deviation of the prediction over them. Here one feature after the other is taken from three rows;
# the grey lines are the predictions for the complete rows.
model = models["expectation, mixtures"]
rows = X[test][[0, 2, 9]]
_, axes = plt.subplots(1, 3, figsize=(8, 3.2), layout="constrained", sharey=True)
for ax, row in zip(axes, rows):
    steps = np.array([np.where(np.arange(5) < 5 - n, row, np.nan) for n in range(6)])
    mean, sd = model.predict(steps, return_std=True)
    ax.axhline(mean[0], color="#999999", lw=1, zorder=0)
    ax.errorbar(range(6), mean, sd, fmt="o", color="#0072B2", capsize=3)
    ax.set_xticks(range(6))
    ax.set_xlabel("features missing")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("prediction")
plt.show()

# %%
# The bars say how much the missing features can still change the prediction. They contain neither
# the noise of the target nor the error of the machine.
