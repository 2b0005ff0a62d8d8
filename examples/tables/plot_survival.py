"""
===============================
How long until an event comes?
===============================

Some of those in a study leave it before the event: of them a time is known that the event comes
after. Other cells are missing. ``DensityRegressor`` learns from all of it; the picture shows the
mean of its survival curves in two groups beside the curve of Kaplan and Meier, and the curves of
three rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpc import DensityRegressor, SoftLearnSPN

# %%
# Times to an event, which depend on a dose and a group. A fifth of the doses are missing.
rng = np.random.default_rng(0)
n_rows = 600
group = rng.choice(["a", "b"], n_rows)
dose = rng.normal(size=n_rows)
life = 10.0 * rng.weibull(1.5, n_rows) * np.exp(0.6 * dose + 0.7 * (group == "a"))
leaves = rng.exponential(25.0, n_rows)
y = np.empty(n_rows, dtype=[("event", bool), ("time", float)])
y["event"], y["time"] = life <= leaves, np.minimum(life, leaves)
X = pd.DataFrame({"dose": dose, "group": group})
X.loc[rng.random(n_rows) < 0.2, "dose"] = np.nan
print(f"{y['event'].mean():.0%} of the events were seen")

# %%
# A density of rows and times together.
model = DensityRegressor(SoftLearnSPN(random_state=0), random_state=0).fit(X, y)
print(f"concordance {model.score(X, y):.2f}")


# %%
# Kaplan and Meier's curve, for comparison.
def kaplan_meier(event, time):
    order = np.unique(time[event])
    at_risk = (time >= order[:, np.newaxis]).sum(axis=1)
    events = (event & (time == order[:, np.newaxis])).sum(axis=1)
    return order, np.cumprod(1.0 - events / at_risk)


# %%
# The picture.
grid = np.linspace(0.0, 30.0, 121)
survival = model.predict_survival(X, grid)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
for name, color in (("a", "tab:blue"), ("b", "tab:orange")):
    some = group == name
    left.step(*kaplan_meier(y["event"][some], y["time"][some]), color=color, where="post", lw=1)
    left.plot(grid, survival[some].mean(axis=0), color=color, ls="--", label=f"group {name}")
left.set(xlabel="time", ylabel="survival", xlim=(0, 30), title="solid: Kaplan and Meier")
left.legend()
rows = pd.DataFrame({"dose": [-1.0, 1.0, np.nan], "group": ["b", "b", "a"]})
for row, curve in zip(rows.itertuples(index=False), model.predict_survival(rows, grid)):
    right.plot(grid, curve, label=f"dose {row.dose:g}, group {row.group}")
right.set(xlabel="time", title="three rows")
right.legend()
plt.show()
