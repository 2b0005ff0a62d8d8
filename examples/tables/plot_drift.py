"""
=============================
Watching a stream for a drift
=============================

Machines report a table every hour. :class:`~skpc.comparisons.DriftMonitor` compares each table with
all rows before it, and raises an alarm if something has changed: in any column, in how columns
depend on each other, or in which cells are missing. However long it runs, the probability of a
false alarm is at most ``level``.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpc.comparisons import DriftMonitor

rng = np.random.default_rng(0)


def hour(n_rows, pressure_follows=True, lost=0.05):
    """Rows of an hour; pressure follows temperature, and some reports of it are lost."""
    machine = rng.choice(["old", "new"], n_rows)
    temperature = 60 + 5 * rng.normal(size=n_rows) + 8 * (machine == "old")
    noise = 0.5 * rng.normal(size=n_rows)
    pressure = 2 + 0.1 * temperature + noise
    if not pressure_follows:
        pressure = rng.permutation(pressure)
    rows = pd.DataFrame({"machine": machine, "temperature": temperature, "pressure": pressure})
    rows["speed"] = 100 + rng.normal(size=n_rows)
    rows["load"] = rng.integers(1, 6, n_rows)
    missing = rng.random(rows.shape) < 0.05
    missing[:, 4] = rng.random(n_rows) < lost
    return rows.mask(missing)


# %%
# Forty hours
# -----------
# The monitor learns a density from one half of a reference, and compares with the other half. From
# hour 15 on the pressure does not follow the temperature, while each of both stays as it was by
# itself. That is repaired at hour 20. From hour 30 on a fourth of the loads get lost.
monitor = DriftMonitor(random_state=0).fit(hour(1000))
statistics = []
for number in range(40):
    batch = hour(100, pressure_follows=not 15 <= number < 20, lost=0.25 if number >= 30 else 0.05)
    statistics.append(monitor.test(batch).columns["statistic"])
history = pd.DataFrame(monitor.history_)
history[history["alarm"]]

# %%
# The picture over time
# ---------------------
# The capital is what a gambler has who bets that p-values will be small, starting from 1. At
# ``1 / level`` there is an alarm, and the gambler starts anew. Below: by how many standard errors
# the log density of each column differs from that of the rows before. The last line is about which
# cells are missing.
fig, (top, bottom) = plt.subplots(2, sharex=True, figsize=(7, 5), layout="constrained")
top.semilogy(history["capital"], marker=".")
top.semilogy(history["capital"].where(history["alarm"]), "o", color="C3", label="alarm")
top.axhline(1 / monitor.level, color="C3", linestyle=":")
top.set_ylabel("capital")
top.legend(loc="upper left")
table = pd.DataFrame(statistics).T
image = bottom.imshow(table, aspect="auto", cmap="magma_r")
bottom.set_yticks(range(len(table)), table.index)
bottom.set_xlabel("hour")
fig.colorbar(image, ax=bottom, label="standard errors")
plt.show()
