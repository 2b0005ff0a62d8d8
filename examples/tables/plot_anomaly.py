"""
==============================
Likelihood as an anomaly score
==============================

A density that has seen normal rows only gives low scores to rows that are not like them. This
example uses the log-likelihood as an anomaly score on two tables that scikit-learn ships, and
compares it with an isolation forest. It also shows a trap: a state that has never been seen must
not look normal.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skpc import CutsetNetworkBD
from skpc.datasets import load_tumours

# %%
# Categories: which pixels do not go together?
# --------------------------------------------
# The 8 x 8 pixels of handwritten digits, reduced to four grey levels, are 64 columns of categories.
# One digit at a time is normal; all others are anomalies that the models have not seen.
#
# The categories are *declared*. A pixel in the corner is empty in all rows for training, and from
# the data alone a learner would conclude that it is always empty. And ``handle_unknown="error"``
# refuses what has not been declared.
digits = load_digits()
pixels = digits.data // 4.25
categories = [[0, 1, 2, 3]] * pixels.shape[1]


def areas_under_curve(normal, anomalous, model):
    """ROC AUC of the likelihood and of isolation forests (mean of five seeds)."""
    train, test = train_test_split(normal, test_size=0.4, random_state=0)
    rows = np.vstack([test, anomalous])
    is_anomaly = np.arange(len(rows)) >= len(test)
    forests = [IsolationForest(random_state=seed).fit(train) for seed in range(5)]
    by_forest = [roc_auc_score(is_anomaly, -forest.score_samples(rows)) for forest in forests]
    by_likelihood = roc_auc_score(is_anomaly, -model.fit(train).score_samples(rows))
    return by_likelihood, np.mean(by_forest)


model = CutsetNetworkBD(categories=categories, handle_unknown="error")
results = {
    f"digit {digit}": areas_under_curve(
        pixels[digits.target == digit], pixels[digits.target != digit], model
    )
    for digit in range(10)
}

# %%
# Numbers: which measurements are out of the ordinary?
# ----------------------------------------------------
# In the breast cancer data, benign tumours are normal and malignant ones are anomalies. All thirty
# columns are numbers, and malignant tumours are extreme in many single columns. Isolation forests
# are good at such anomalies.
tumours = load_tumours()
benign = tumours.target == "benign"
results["tumours"] = areas_under_curve(
    tumours.data[benign], tumours.data[~benign], CutsetNetworkBD(n_bins=3, param_ess=1)
)

# %%
# Results
# -------
# The area under the ROC curve is the probability that an anomaly scores lower than a normal row.
print(f"{'normal rows':12s} {'likelihood':>10s} {'isolation forest':>17s}")
for name, (by_likelihood, by_forest) in results.items():
    print(f"{name:12s} {by_likelihood:10.3f} {by_forest:17.3f}")

places = np.arange(len(results))
by_likelihood, by_forest = np.transpose(list(results.values()))
_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.hlines(places, by_likelihood, by_forest, color="#BBBBBB", zorder=1)
ax.scatter(by_likelihood, places, s=60, marker="o", color="#0072B2", label="likelihood (skpc)")
ax.scatter(by_forest, places, s=60, marker="s", color="#D55E00", label="isolation forest")
ax.set_yticks(places, results)
ax.invert_yaxis()
ax.set_xlabel("ROC AUC (greater is better)")
ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncol=2, frameon=False)
plt.show()

# %%
# The likelihood knows which pixels go together and wins on nine digits out of ten; on the tumours
# the forest is slightly ahead. Neither was tuned, except for the bins of the tumours. Compare both
# on your own table.
#
# The trap
# --------
# A broken sensor reports a grey level of 9 in every pixel of the middle rows. In columns of numbers
# an unknown category counts as missing. That is right for a row whose cells shall be completed, but
# here the density leaves out the broken pixels, and the row scores *better* than before.
zeros = pixels[digits.target == 0]
broken = zeros[:1].copy()
broken[:, 16:48] = 9
lenient = CutsetNetworkBD(categories=categories, handle_unknown="missing").fit(zeros)
print(f"as it was:                       {lenient.score_samples(zeros[:1])[0]:7.2f} nats")
print(f"broken, handle_unknown='missing': {lenient.score_samples(broken)[0]:6.2f} nats")

strict = CutsetNetworkBD(categories=categories, handle_unknown="error").fit(zeros)
try:
    strict.score_samples(broken)
except ValueError as error:
    print("broken, handle_unknown='error':", error)

# %%
# Columns of strings have a third way, which is their default: ``handle_unknown="unseen"`` counts
# the probability that a cell holds a category that is not in the training rows. A warning names
# such cells.
as_strings = [[str(level) for level in levels] for levels in categories]
texts, broken_text = (rows.astype(int).astype(str).astype(object) for rows in (zeros, broken))
unseen = CutsetNetworkBD(categories=as_strings).fit(texts)
print(f"as it was:                       {unseen.score_samples(texts[:1])[0]:7.2f} nats")
print(f"broken, handle_unknown='unseen':  {unseen.score_samples(broken_text)[0]:6.2f} nats")

# %%
# For the same reason, scores of rows with missing cells should be compared with those of rows that
# have the same cells missing.
