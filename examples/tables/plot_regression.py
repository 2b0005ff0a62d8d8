"""
=====================================
A number from rows with missing cells
=====================================

This example predicts the progression of diabetes from ten measures of a patient. Some measures are
missing. A pool of densities, boosting and ridge regression answers with a whole distribution, which
is wider where fewer measures are known. Gradient boosting, which takes missing values natively,
sees the same complete training rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from skpc import DensityRegressor

X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
pool = DensityRegressor(random_state=0).fit(X_train, y_train)
boosting = HistGradientBoostingRegressor(max_iter=50, random_state=0).fit(X_train, y_train)

# %%
# Errors and intervals
# --------------------
# Cells are removed from the test rows at random. Left: the root mean squared error. Right: the
# share of targets between the quantiles of 10 and 90 %, which should be 80 %, and the mean width of
# these intervals.
rng = np.random.default_rng(0)
rates = np.array([0.0, 0.2, 0.4, 0.6, 0.8])
errors = {"pool": [], "boosting": []}
shares, widths = [], []
for rate in rates:
    rows = np.where(rng.random(X_test.shape) < rate, np.nan, X_test)
    for name, model in (("pool", pool), ("boosting", boosting)):
        errors[name].append(np.sqrt(np.mean((model.predict(rows) - y_test) ** 2)))
    low, high = pool.predict_quantiles(rows, [0.1, 0.9]).T
    shares.append(np.mean((low <= y_test) & (y_test <= high)))
    widths.append(np.mean(high - low))

_, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for name, color, style in (("pool", "#0072B2", "o-"), ("boosting", "#D55E00", "^:")):
    left.plot(100 * rates, errors[name], style, color=color, label=name, linewidth=2)
left.axhline(y_test.std(), color="#999999", linewidth=1, zorder=0)
left.annotate("mean of the targets", (2, y_test.std() + 0.5), color="#666666")
left.set(xlabel="missing cells (%)", ylabel="root mean squared error")
left.legend(frameon=False)
right.plot(100 * rates, widths, "o-", color="#0072B2", linewidth=2)
for rate, width, share in zip(rates, widths, shares):
    right.annotate(f"{share:.0%}", (100 * rate, width - 12), ha="center", color="#666666")
right.set(xlabel="missing cells (%)", ylabel="width of the 80 % interval")
right.set(xlim=(-8, 88), ylim=(0, 1.2 * max(widths)))
plt.show()

# %%
# One patient
# -----------
# The predictive density of one patient: with all measures, without the body mass index and the
# blood pressure, and with only age and sex.
patient = X_test[[3]]
partly, hardly = patient.copy(), np.full_like(patient, np.nan)
partly[:, 2:4] = np.nan
hardly[:, :2] = patient[:, :2]
grid = np.linspace(0, 400, 401)
_, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
for row, name, color in (
    (patient, "all measures", "#0072B2"),
    (partly, "no body mass index, no blood pressure", "#E69F00"),
    (hardly, "age and sex only", "#999999"),
):
    density = np.exp(pool.score_samples(np.repeat(row, len(grid), axis=0), grid))
    ax.plot(grid, density, color=color, label=name, linewidth=2)
ax.axvline(y_test[3], color="black", linewidth=1, linestyle="--")
ax.annotate("what came", (y_test[3] + 4, 0.0003))
ax.set(xlabel="progression of the disease", ylabel="density", ylim=(0, None))
ax.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.9))
plt.show()
