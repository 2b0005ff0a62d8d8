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
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skpc import TableMixture
from skpc.datasets import load_tumours
from skpc.plotting import MarginalsDisplay

table = load_tumours(as_frame=True).frame
missing = np.random.default_rng(0).random(table.shape) < 0.2
train, test, _, test_missing = train_test_split(table.mask(missing), missing, random_state=0)
truth = table.loc[test.index]
print(f"{len(train)} rows for training, {len(test)} for testing, a fifth of the cells missing\n")
print(train.iloc[:3, [0, 1, 2, 30]], "\n")

# %%
# One estimator takes numbers, strings and missing cells as they are, with its defaults.
model = TableMixture(random_state=0).fit(train)

# %%
# **Density.** The baseline knows every column by itself, but not how columns depend on each other.
alone = [TableMixture(random_state=0).fit(train[[name]]) for name in table]
independent = sum(part.score(test[[name]]) for part, name in zip(alone, table))

# %%
# **Completion.** Two imputers of scikit-learn see the same rows, standardised, with the diagnosis
# as a number, 0 or 1. Errors of numbers are in standard deviations of their column.
measured = list(table.columns[:-1])
scale = table[measured].std()
unknown = test_missing[:, -1]


def errors(filled):
    """Root mean square error of the removed numbers, share of right diagnoses."""
    gap = ((filled[measured] - truth[measured]) / scale).to_numpy()[test_missing[:, :-1]]
    return np.sqrt(np.mean(gap**2)), (filled.diagnosis == truth.diagnosis)[unknown].mean()


def by_imputer(imputer):
    """The test rows, filled by an imputer of scikit-learn."""
    names = {"malignant": 0.0, "benign": 1.0}
    scaler = StandardScaler().set_output(transform="pandas")
    rows = [scaler.fit_transform(train.assign(diagnosis=train.diagnosis.map(names)))]
    rows.append(scaler.transform(test.assign(diagnosis=test.diagnosis.map(names))))
    filled = scaler.inverse_transform(imputer.fit(rows[0]).transform(rows[1]))
    right = np.where(filled[:, -1] > 0.5, "benign", "malignant")
    return truth.assign(**dict(zip(measured, filled.T)), diagnosis=right)


results = {
    "column means": errors(by_imputer(SimpleImputer())),
    "IterativeImputer": errors(by_imputer(IterativeImputer(random_state=0))),
    "skpc": errors(model.complete(test)),
}
print(f"log-likelihood of test rows: {model.score(test):.1f} nats a row")
print(f"                             {independent:.1f} with each column by itself\n")
print(f"{'missing cells, filled by':28s} error of numbers  right diagnoses")
for name, (error, right) in results.items():
    print(f"{name:28s} {error:16.2f}  {right:15.0%}")

# %%
# **Uncertainty.** A completion is one guess; the marginals say how sure the model is of it. Here
# is one of the test rows whose diagnosis is missing. Blue: the distribution of each cell given the
# other observed cells of the row; orange: observed cells.
columns = ["diagnosis", "worst radius", "worst concavity", "mean texture"]
row = test[test[columns].isna().sum(axis=1).eq(3) & test.diagnosis.isna()].iloc[[0]]
display = MarginalsDisplay.from_estimator(model, row, columns=columns)
print(f"\nthe row of the picture in truth: {truth.loc[row.index, columns].iloc[0].to_dict()}")

# The gallery of the documentation collects the figure by itself.
if "sphinx" not in sys.modules:
    display.figure_.savefig("quickstart.png", dpi=120)
    print("\nwrote quickstart.png")
