"""
==========
Quickstart
==========

Fit a density to an incomplete table, score rows it has not seen, and fill their missing cells.

The table is scikit-learn's breast cancer data: 30 measurements of cell nuclei and the diagnosis,
a category. A fifth of the cells are removed, in the rows for training and in those for testing.
"""

import sys

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split

from skpc import CutsetNetworkBD
from skpc.plotting import MarginalsDisplay

data = load_breast_cancer(as_frame=True)
table = data.data.assign(diagnosis=data.target_names[data.target])
missing = np.random.default_rng(0).random(table.shape) < 0.2
train, test, _, test_missing = train_test_split(table.mask(missing), missing, random_state=0)
truth = table.loc[test.index]

# %%
# One estimator takes numbers, strings and missing cells as they are. There is nothing to tune: the
# rows tell how many bins a column gets and how strongly tables are smoothed.
model = CutsetNetworkBD(random_state=0).fit(train)

# %%
# **Density.** The baseline knows every column by itself, but nothing of how they go together.
alone = [CutsetNetworkBD(random_state=0).fit(train[[name]]) for name in table]
independent = sum(part.score(test[[name]]) for part, name in zip(alone, table))

# %%
# **Completion.** The baselines fill a cell with the mean of its column, or the most frequent
# diagnosis. Errors of numbers are in standard deviations of their column.
measured = data.feature_names
scale = table[measured].std()
filled = model.complete(test)
means = SimpleImputer().set_output(transform="pandas").fit(train[measured])
error = (filled[measured] - truth[measured]) / scale
error_of_means = (means.transform(test[measured]) - truth[measured]) / scale
removed = test_missing[:, :-1]

unknown = test_missing[:, -1]
right = (filled.diagnosis == truth.diagnosis)[unknown].mean()
right_by_mode = (truth.diagnosis == train.diagnosis.mode()[0])[unknown].mean()


def rms(errors):
    return np.sqrt(np.mean(errors.to_numpy()[removed] ** 2))


print(f"{len(train)} rows for training, {len(test)} for testing, a fifth of the cells missing\n")
print(f"{'held-out rows':35s} {'baseline':>10s} {'skpc':>10s}")
print(f"{'log-likelihood (nats a row)':35s} {independent:10.2f} {model.score(test):10.2f}")
print(f"{'error of numbers (st. deviations)':35s} {rms(error_of_means):10.2f} {rms(error):10.2f}")
print(f"{'right diagnoses':35s} {right_by_mode:10.0%} {right:10.0%}")

# %%
# **Uncertainty.** A completion is one guess; the marginals say how sure the model is of it. Here
# is one of the test rows whose diagnosis is missing. Blue: what the model thinks of missing cells;
# orange: observed cells.
columns = ["diagnosis", "worst radius", "worst concavity", "mean texture"]
row = test[test[columns].isna().sum(axis=1).eq(3) & test.diagnosis.isna()].iloc[[0]]
display = MarginalsDisplay.from_estimator(model, row, columns=columns)
print(f"\nthe row of the picture in truth: {truth.loc[row.index, columns].iloc[0].to_dict()}")

# The gallery of the documentation collects the figure by itself.
if "sphinx" not in sys.modules:
    display.figure_.savefig("quickstart.png", dpi=120)
    print("\nwrote quickstart.png")
