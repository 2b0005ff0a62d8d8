"""
================================================
A Gaussian mixture of a table with missing cells
================================================

A Gaussian mixture is a strong model of numbers that depend on each other, until a cell is missing.
Then the table has to be filled first, and the mixture learns invented cells. This example
takes measurements of cell nuclei in breast tumours (scikit-learn ships them) and removes cells.
:class:`skpc.TableMixture` learns the rows as they are; ``GaussianMixture`` learns rows that were
filled in three ways. Complete rows that were held out show which density is better.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skpc import TableMixture

table = load_breast_cancer(as_frame=True).data
table = table[[column for column in table if column.startswith("mean")]]
table.columns = table.columns.str.removeprefix("mean ")
train, test = train_test_split(table, test_size=0.33, random_state=0)

# %%
# Radius, perimeter and area say nearly the same, and most columns are skew. All are standardised,
# so that log densities are easy to read; ``TableMixture`` itself needs no scaling. The number of
# components and the kind of covariance of the other mixtures are chosen by BIC.
scaler = StandardScaler().set_output(transform="pandas").fit(train)
train, test = scaler.transform(train), scaler.transform(test)
imputers = {
    "column means": SimpleImputer(),
    "nearest neighbours": KNNImputer(),
    "draws from regressions": IterativeImputer(sample_posterior=True, max_iter=5, random_state=0),
}


def gaussian_mixture(rows):
    candidates = [
        GaussianMixture(n_components, covariance_type=kind, random_state=0).fit(rows)
        for kind in ("full", "diag", "tied")
        for n_components in range(1, 6)
    ]
    return min(candidates, key=lambda model: model.bic(rows))


shares = [0.0, 0.15, 0.3]
draws = np.random.default_rng(0).random(train.shape)
scores = {name: [] for name in ("TableMixture", *imputers)}
for share in shares:
    rows = train.mask(draws < share)
    models = {"TableMixture": TableMixture(random_state=0).fit(rows)}
    for name, imputer in imputers.items():
        filled = imputer.set_output(transform="pandas").fit_transform(rows)
        models[name] = gaussian_mixture(filled)
    for name, model in models.items():
        scores[name].append(model.score(test))
    if share == 0.3:
        incomplete, compared = rows, models

colors = dict(zip(scores, ("#009E73", "#D55E00", "#CC79A7", "#0072B2")))
_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for name, found in scores.items():
    label = name if name == "TableMixture" else f"GaussianMixture, {name}"
    ax.plot(shares, found, "o-", color=colors[name], label=label)
    print(f"{label:40s}", *(f"{score:7.2f}" for score in found))
ax.set(xlabel="share of the training cells that are missing", ylabel="nats a row, held-out rows")
ax.legend(frameon=False)
plt.show()

# %%
# Without missing cells ``TableMixture`` gains by the scores of its columns, under which skew ones
# look normal, and by components that learn from each other. With missing cells it loses little, as
# it invents no cells.
#
# What the others learned
# -----------------------
# Draws show what a density has learned about two columns, here with three cells in ten missing, in
# front of the rows that were held out (grey). An area is nearly a square of the radius. Column
# means draw the mixture away from that curve, and neighbours blur it.
_, axes = plt.subplots(1, 4, figsize=(8, 2.4), sharex=True, sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, compared.items()):
    # GaussianMixture returns components as well.
    drawn = model.sample(300) if name == "TableMixture" else model.sample(300)[0]
    drawn = pd.DataFrame(np.asarray(drawn), columns=train.columns)
    ax.plot(test["radius"], test["area"], ".", color="#BBBBBB", markersize=4)
    ax.plot(drawn["radius"], drawn["area"], ".", color=colors[name], markersize=3)
    ax.set(title=name, xlabel="radius", xlim=(-2.5, 5.0), ylim=(-2.5, 5.0))
axes[0].set_ylabel("area")
plt.show()

# %%
# Filling a row
# -------------
# The density that learned incomplete rows also fills them, and says how sure it is. Three cells in
# ten of the held-out rows are removed, and 80 % intervals should contain 80 % of them. Regressions
# guess their best here.
model = compared["TableMixture"]
lost = np.random.default_rng(1).random(test.shape) < 0.3
asked, truth = test.mask(lost), test.to_numpy()[lost]
imputers["regressions"] = IterativeImputer(tol=0.1, random_state=0).set_output(transform="pandas")
del imputers["draws from regressions"]
completions = {"TableMixture": model.complete(asked)}
for name, imputer in imputers.items():
    completions[name] = imputer.fit(incomplete).transform(asked)
for name, completed in completions.items():
    gap = completed.to_numpy()[lost] - truth
    print(f"{name:24s} root mean square error {np.sqrt(np.mean(gap**2)):.2f} standard deviations")
low, high = (bound.to_numpy()[lost] for bound in model.interval(asked, level=0.8))
print(f"intervals contain {np.mean((low <= truth) & (truth <= high)):.0%}")

# %%
# :ref:`table_mixture` says how the mixture is learned, what else it answers, and when it fails.
