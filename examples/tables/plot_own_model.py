"""
Your own model, with gaps
=========================

A forest that is trained already gets rows with missing cells. An imputer fills them, and the forest
answers for a row that need not exist. Its expectation over the missing cells, given the others,
follows exactly from a density of the rows.
"""

# %%
# Wages grow with experience, faster for those with a degree. The forest learns from complete rows.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer

from skpc import CutsetNetworkBD, ExpectedPredictor

rng = np.random.default_rng(0)
n = 3000
degree = rng.integers(2, size=n)
age = rng.uniform(22, 62, n)
experience = np.maximum(age - 18 - 4 * degree - rng.exponential(4, n), 0)
X = pd.DataFrame({"age": age, "degree": degree, "experience": experience})
wage = 12 + (0.2 + 0.5 * degree) * experience + rng.normal(0, 2, n)
forest = RandomForestRegressor(100, max_leaf_nodes=31, random_state=0).fit(X, wage)

# %%
# ``FrozenEstimator`` keeps the forest as it is: only the density of ``X`` is learned.

density = CutsetNetworkBD(random_state=0)
model = ExpectedPredictor(FrozenEstimator(forest), density, random_state=0).fit(X)

# %%
# Experience and degree are missing; the age says something of the one, and nothing of the other.
# The band is how far the forest varies over the missing cells (one standard deviation).

ages = np.arange(23, 62.0)
gaps = pd.DataFrame({"age": ages, "degree": np.nan, "experience": np.nan})
mean, spread = model.predict(gaps, return_std=True)
imputer = SimpleImputer().set_output(transform="pandas").fit(X)
truth = [wage[np.abs(age - at) < 1.5].mean() for at in ages]
plt.fill_between(ages, mean - spread, mean + spread, alpha=0.2)
plt.plot(ages, mean, label="expectation of the forest")
plt.plot(ages, forest.predict(imputer.transform(gaps)), label="forest behind a mean")
plt.plot(ages, truth, "k.", label="mean wage of the rows")
plt.xlabel("age")
plt.ylabel("wage")
plt.legend()
plt.show()

# %%
# Complete rows have the answer of the forest itself, bit for bit.

print(np.array_equal(model.predict(X), forest.predict(X)))
