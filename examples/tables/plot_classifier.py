"""
===================================
Classifying rows with missing cells
===================================

A classifier built from densities judges a row by the cells that it has. Here it learns handwritten
digits, black and white, from complete pictures; then pixels are removed.
Gradient boosting, which takes missing values natively, sees the same pictures. In a second version
it is trained anew at each rate, on pictures that lack as many pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from skpc import DensityClassifier, SoftLearnSPN

X, y = load_digits(return_X_y=True)
X = (X >= 8).astype(float)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
rng = np.random.default_rng(0)


def lose(rows, rate):
    """Remove cells at random."""
    return np.where(rng.random(rows.shape) < rate, np.nan, rows)


# %%
# Accuracy against the proportion of missing pixels
# -------------------------------------------------
# There is one density for each digit. Densities integrate missing pixels out, exactly. They impute
# nothing, and are trained once. By default ``DensityClassifier`` pools several kinds of density
# with boosting and a linear model, which takes longer.
soft = SoftLearnSPN(random_state=0)
density = DensityClassifier(soft, classifiers=None, joint=False, random_state=0)
density.fit(X_train, y_train)
# Thirty iterations of boosting keep the example short.
boosting = HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(X_train, y_train)
rates = np.array([0.0, 0.3, 0.6, 0.9])
accuracy = {"densities": [], "boosting, trained at each rate": [], "boosting": []}
for rate in rates:
    rows = lose(X_test, rate)
    again = clone(boosting).fit(lose(X_train, rate), y_train)
    accuracy["densities"].append(density.score(rows, y_test))
    accuracy["boosting, trained at each rate"].append(again.score(rows, y_test))
    accuracy["boosting"].append(boosting.score(rows, y_test))

styles = {
    "densities": ("#0072B2", "o-"),
    "boosting, trained at each rate": ("#E69F00", "s--"),
    "boosting": ("#D55E00", "^:"),
}
_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for name, values in accuracy.items():
    color, style = styles[name]
    ax.plot(100 * rates, values, style, color=color, label=name, linewidth=2)
ax.axhline(0.1, color="#999999", linewidth=1, zorder=0)
ax.annotate("guessing", (0, 0.115), color="#666666")
ax.set(xlabel="missing pixels (%)", ylabel="accuracy", ylim=(0, 1))
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 0.13))
plt.show()

# %%
# What it sees
# ------------
# Eight pictures that lack seven pixels in ten (grey), and the most probable digit of each.
# Below them the same pictures as they were.
rows = lose(X_test[:8], 0.7)
proba = density.predict_proba(rows)
_, axes = plt.subplots(2, 8, figsize=(8, 2.5), layout="constrained")
colors = ListedColormap(["white", "black"])
colors.set_bad("#C8C8C8")
for column, (row, whole, p) in enumerate(zip(rows, X_test, proba)):
    best = p.argmax()
    for ax, picture in zip(axes[:, column], (row, whole)):
        ax.imshow(np.ma.masked_invalid(picture.reshape(8, 8)), cmap=colors, vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
    axes[0, column].set_title(f"{density.classes_[best]}: {p[best]:.0%}")
    axes[1, column].set_xlabel(f"a {y_test[column]}")
plt.show()

# %%
# An outlier score with the label
# -------------------------------
# A classifier names a digit for any picture. The log density of the picture, from the same fitted
# model, shows that pictures with shuffled pixels are not digits.
shuffled = rng.permuted(X_test, axis=1)
usual, odd = density.score_samples(X_test), density.score_samples(shuffled)
limit = np.quantile(usual, 0.02)
print(f"98 % of the digits score above {limit:.0f} nats, {np.mean(odd > limit):.0%} of the others")
sure = density.predict_proba(shuffled).max(axis=1).mean()
print(f"mean probability of the digit that the shuffled pictures are taken for: {sure:.2f}")
