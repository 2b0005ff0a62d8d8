"""
======================================
How many components does a table need?
======================================

A single cutset network stops growing by itself. A mixture of them does not: every further component
makes the training rows more probable, but beyond some number new rows no longer gain. This example
looks for that number by cross-validation on the digits of scikit-learn.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import GridSearchCV, ShuffleSplit, train_test_split

from skpc import CutsetNetworkBD
from skpc.datasets import load_digit_bits

# %%
# The table has 64 columns, the 8 x 8 pixels in black and white. Their two states are declared, as
# there are pixels that are white in all rows of a split. The score of a density is its mean
# log-likelihood, so a grid search needs no scorer; two random splits hold out a fifth of the
# rows each.
pixels = load_digit_bits().data
train, test = train_test_split(pixels, train_size=700, random_state=0)
search = GridSearchCV(
    CutsetNetworkBD(categories=[[0, 1]] * 64, random_state=0),
    {"n_components": [1, 2, 4, 7, 11]},
    cv=ShuffleSplit(2, test_size=0.2, random_state=0),
    return_train_score=True,
).fit(train)

# %%
sizes = search.param_grid["n_components"]
results = search.cv_results_
held_out, spread = results["mean_test_score"], results["std_test_score"]
_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(sizes, results["mean_train_score"], "s--", color="#D55E00")
ax.text(11.3, results["mean_train_score"][-1], "training rows", color="#D55E00", va="center")
ax.fill_between(sizes, held_out - spread, held_out + spread, color="#0072B2", alpha=0.2, lw=0)
ax.plot(sizes, held_out, "o-", color="#0072B2")
ax.text(11.3, held_out[-1], "held-out rows", color="#0072B2", va="center")
ax.axvline(search.best_params_["n_components"], color="#999999", lw=1, zorder=0)
ax.set_xticks(sizes)
ax.set_xlim(0, 14)
ax.set_xlabel("n_components")
ax.set_ylabel("log-likelihood (nats a row)")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The likelihood of the training rows grows with every component. That of held-out rows grows ever
# less; the grey line is the best of the sizes tried, which end at 11 so that the example is short.
# The band is one standard deviation of the two splits. The search has learned the best mixture
# again from all rows for training; here it is compared with a single network, on rows that took no
# part in the choice.
single = CutsetNetworkBD(categories=[[0, 1]] * 64).fit(train)
print(f"one network:   {single.score(test):.2f} nats a row")
print(f"{search.best_params_['n_components']:2d} components: {search.score(test):.2f} nats a row")
