"""
==========
Quickstart
==========

Fill the missing cells of a table, predict a class from incomplete rows, ask how sure an answer is,
and draw a new row.

The table is scikit-learn's breast cancer data: 30 measurements of cell nuclei and the diagnosis,
a category. A fifth of the cells are removed, in the rows for training and in those for testing.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skpc
from skpc.datasets import load_tumours
from skpc.plotting import MarginalsDisplay

seed = 0
table = load_tumours(as_frame=True).frame
missing = np.random.default_rng(seed).random(table.shape) < 0.2
train, test, _, removed = train_test_split(table.mask(missing), missing, random_state=seed)
truth = table.loc[test.index]
print(f"{len(train)} rows for training, {len(test)} for testing, a fifth of the cells missing\n")
print(train.iloc[:3, [0, 1, 2, 30]], "\n")

# %%
# **Fill.** The imputer takes numbers, strings and missing cells as they are, and fills them by a
# density. Without one it compares several, which takes seconds more.
density = skpc.TableMixture(random_state=0)
imputer = skpc.CircuitImputer(density).set_output(transform="pandas").fit(train)
filled = {"CircuitImputer": imputer.transform(test)}

# %%
# Imputers of scikit-learn need numbers, standardised here. The diagnosis has one column of 0 and 1:
# with a second for the other category, IterativeImputer would learn that both sum to one, no more.
numbers = table.columns[:-1]
codes = {"benign": 0.0, "malignant": 1.0}
scaler = StandardScaler().set_output(transform="pandas")
coded_train = scaler.fit_transform(train.assign(diagnosis=train.diagnosis.map(codes)))
coded_test = scaler.transform(test.assign(diagnosis=test.diagnosis.map(codes)))
rivals = IterativeImputer(max_iter=50, random_state=0), KNNImputer(n_neighbors=10), SimpleImputer()
for rival in rivals:
    values = scaler.inverse_transform(rival.fit(coded_train).transform(coded_test))
    rows = pd.DataFrame(values, test.index, test.columns)
    rows["diagnosis"] = np.where(rows.diagnosis > 0.5, "malignant", "benign")
    filled[type(rival).__name__] = rows

errors, right = {}, {}
unknown = removed[:, -1]
for name, rows in filled.items():
    gaps = ((rows[numbers] - truth[numbers]) / table[numbers].std()).to_numpy()[removed[:, :-1]]
    errors[name] = np.sqrt(np.mean(gaps**2))
    right[name] = (rows.diagnosis == truth.diagnosis)[unknown].sum()

print("missing cells, filled by   error of numbers (sd)   right diagnoses")
for name in filled:
    print(f"{name:26} {errors[name]:21.2f} {right[name]:11} of {unknown.sum()}")

# %%
# **Predict.** A density of rows and classes predicts the class from the cells that a row has. Its
# rival, a regression on filled rows, is ahead here; ``DensityClassifier()`` pools densities with
# one, and takes longer. All diagnoses of the rows for testing are hidden.
known = train.diagnosis.notna()
classifiers = {
    "DensityClassifier": skpc.DensityClassifier(density, joint=True, classifiers=None),
    "LogisticRegression": make_pipeline(StandardScaler(), rivals[0], LogisticRegression()),
}
predicted = {}
for name, classifier in classifiers.items():
    classifier.fit(train.loc[known, numbers], train.diagnosis[known])
    predicted[name] = (classifier.predict(test[numbers]) == truth.diagnosis).sum()

print("\ndiagnosis predicted by                             right diagnoses")
for name, count in predicted.items():
    print(f"{name:48} {count:11} of {len(test)}")

# %%
# One split says little. ``python -m tests.benchmarks.quickstart`` has measured twenty. A gap is to
# the first estimator of the same task, on the same rows; behind ± is a standard error.
measured = Path(skpc.__file__).parents[1] / "doc" / "user_guide" / "quickstart.csv"
if measured.exists():
    print(f"\ntwenty such splits\n{pd.read_csv(measured).fillna('').to_string(index=False)}")

# %%
# **Ask.** A filled cell is one guess. The density behind it knows how sure it is: here of one row
# whose diagnosis is missing. An interval holds a missing number with the given probability.
model = imputer.density_
columns = ["diagnosis", "worst radius", "worst concavity", "mean texture"]
row = test[test[columns].isna().sum(axis=1).eq(3) & test.diagnosis.isna()].iloc[[0]]
low, high = model.interval(row, level=0.8)
print("\none row: 80 % of the probability, and the truth")
for name in ("worst radius", "worst concavity"):
    ends = f"{low[name].item():.3g} to {high[name].item():.3g}"
    print(f"{name:16} {ends:16} {truth[name][row.index[0]]:.3g}")

# %%
# **Draw.** New rows come from the same density, here one of a malignant tumour.
drawn = model.sample(1, random_state=0, given={"diagnosis": "malignant"})
print(f"\na drawn row\n{drawn[columns].round(3).to_string(index=False)}")

# %%
# **See.** Blue: the distribution of each cell of the row, given its other observed cells; orange:
# an observed cell.
display = MarginalsDisplay.from_estimator(model, row, columns=columns)

# The gallery of the documentation collects the figure by itself.
if "sphinx" not in sys.modules:
    display.figure_.savefig("quickstart.png", dpi=120)
    print("\nwrote quickstart.png")
