"""
Count, average and group without the table
==========================================

A density answers the questions of a database: how many rows are in a range, what is the mean of a
column there, and how does it differ between groups? The table is not needed any more. Here a cutset
network answers for 10,000 rows, and we compare its answers with those of the rows.
"""

# %%
# A table of people, whose income depends on age and region.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpc import CutsetNetworkBD

rng = np.random.default_rng(0)
n = 10_000
people = pd.DataFrame({"age": rng.integers(18, 80, n), "region": rng.choice(list("NESW"), n)})
level = 9.8 + 0.02 * (people["age"].clip(upper=50) - 18) + 0.3 * (people["region"] == "N")
people["income"] = np.exp(rng.normal(level, 0.4)).round()
model = CutsetNetworkBD(n_components=5, random_state=0).fit(people)

# %%
# ``probability`` counts: ``(a, b)`` is a range with both ends, ``None`` an open end, a list a set.

questions = [
    {"age": (20, 30)},
    {"income": (50_000, None)},
    {"age": (40, 60), "region": ["N", "S"], "income": (20_000, 50_000)},
]
counts = [
    people["age"].between(20, 30).sum(),
    (people["income"] >= 50_000).sum(),
    (
        people["age"].between(40, 60)
        & people["region"].isin(["N", "S"])
        & people["income"].between(20_000, 50_000)
    ).sum(),
]
print(pd.DataFrame({"rows": counts, "answer": (n * model.probability(questions)).round()}))

# %%
# ``distribution`` averages and groups: one column, given a range of another, for each band of ages.

bands = [(low, low + 9) for low in range(20, 80, 10)]
answers = {
    region: model.distribution("income", [{"age": band, "region": region} for band in bands])
    for region in "NS"
}
for region, cells in answers.items():
    (line,) = plt.plot(range(len(bands)), cells.mean(), label=f"{region}, density")
    rows = people[people["region"] == region]
    means = [rows.loc[rows["age"].between(*band), "income"].mean() for band in bands]
    plt.plot(range(len(bands)), means, "o", color=line.get_color(), label=f"{region}, rows")
plt.xticks(range(len(bands)), [f"{low} to {high}" for low, high in bands])
plt.xlabel("age")
plt.ylabel("mean income")
plt.legend()
plt.show()
