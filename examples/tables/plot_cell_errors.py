"""
=================================
Which cells of a table are wrong?
=================================

Some cells of a table of wines are replaced by those of other wines, and some are ten times what
they should be. ``CellErrorDetector`` gives every cell the probability that it is wrong, given its
row. The picture shows the rows with the most probable errors; a cross marks the wrong cells.
"""

import matplotlib.pyplot as plt
import numpy as np

from skpc import CellErrorDetector, HiddenChowLiuTree
from skpc.datasets import load_wines

# %%
# Two of a hundred cells are from another row, which does not always change the value. One of a
# hundred numbers has lost its decimal point.
wines = load_wines(as_frame=True).frame
rng = np.random.default_rng(0)
others = wines.iloc[rng.permutation(len(wines))].reset_index(drop=True)
dirty = wines.mask(rng.random(wines.shape) < 0.02, others)
numbers = dirty.columns[:-1]
dirty[numbers] = dirty[numbers].mask(rng.random(dirty[numbers].shape) < 0.01, 10 * dirty[numbers])
is_wrong = (dirty != wines).to_numpy()

# %%
# The detector learns from the dirty table itself.
density = HiddenChowLiuTree(random_state=0)
detector = CellErrorDetector(density, error_rate=0.03, random_state=0).fit(dirty)
probability = detector.predict_proba(dirty)
print(detector.explain(dirty).round(2).head())

# %%
# The picture.
worst = np.sort(np.argsort(-probability.max(axis=1).to_numpy(), kind="stable")[:14])
fig, ax = plt.subplots(figsize=(11, 5), layout="constrained")
image = ax.imshow(probability.iloc[worst], cmap="Reds", vmin=0.0, vmax=1.0, aspect="auto")
for row, at in enumerate(worst):
    for column in range(wines.shape[1]):
        value = dirty.iloc[at, column]
        text = value if isinstance(value, str) else f"{value:g}"
        cross = " ✗" if is_wrong[at, column] else ""
        color = "white" if probability.iloc[at, column] > 0.5 else "black"
        ax.text(column, row, text + cross, ha="center", va="center", fontsize=7, color=color)
ax.set_xticks(range(wines.shape[1]), [name.replace("_", "\n") for name in wines], fontsize=7)
ax.set_yticks(range(len(worst)), worst)
ax.set_ylabel("row")
fig.colorbar(image, label="probability that the cell is wrong")
plt.show()
