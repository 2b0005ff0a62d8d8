"""
=====================================
Three ways in which cells are missing
=====================================

Whether incomplete rows mislead depends on why cells are missing. :func:`skpc.datasets.make_missing`
removes cells of a complete table by three mechanisms. This example removes two cells in five of a
table and looks at what is left, and at what a density makes of it.
"""

import matplotlib.pyplot as plt
import numpy as np

from skpc import SoftLearnSPN
from skpc.datasets import make_missing

rng = np.random.default_rng(0)
age = rng.normal(50.0, 12.0, 1500)
table = np.column_stack([age, 0.6 * age + rng.normal(0.0, 8.0, 1500)])
mechanisms = {
    "mcar": "completely at random:\nevery cell alike",
    "mar": "at random:\nmore if the first is high",
    "mnar": "not at random:\nmore if the cell is high",
}

# %%
# Each picture shows the complete table. Orange rows have lost the second cell. The dotted line is
# the mean of the second column, the dashed line the mean of what is left of it. The solid line is
# the mean that :class:`skpc.SoftLearnSPN` expects after it has learned from the incomplete rows.
figure, axes = plt.subplots(1, 3, figsize=(8, 3.4), sharey=True, layout="constrained")
for ax, (mechanism, what) in zip(axes, mechanisms.items()):
    incomplete = make_missing(table, mechanism, rate=0.4, random_state=0)
    lost = np.isnan(incomplete[:, 1])
    model = SoftLearnSPN(random_state=0).fit(incomplete)
    expected = model.marginals([[np.nan, np.nan]])[1].mean()[0]
    means = table[:, 1].mean(), np.nanmean(incomplete[:, 1]), expected
    for rows, color in ((~lost, "#0072B2"), (lost, "#D55E00")):
        ax.plot(*table[rows].T, ".", color=color, markersize=3, alpha=0.5)
    for mean, style in zip(means, ("dotted", "dashed", "solid")):
        ax.axhline(mean, color="black", linestyle=style)
    ax.set(title=what, xlabel="first column")
    print(f"{mechanism:5s} complete {means[0]:5.2f}, left {means[1]:5.2f}, model {means[2]:5.2f}")
axes[0].set_ylabel("second column")
plt.show()

# %%
# Where cells are missing completely at random, the remaining cells are a smaller sample of the same
# distribution. Where they are missing at random, the mean of the remaining cells is too low; but
# the first column explains which cells are lost, and a density that learns from all observed cells
# comes close to the true mean. Where they are not missing at random, no observed cell explains it:
# every method that looks only at the table is misled, this one too.
