"""
==============================================
All trees at once: which columns go together?
==============================================

A mixture of all trees gives every pair of columns the probability that a tree joins them. This
example looks at these edges for the chemistry of wines and for the pixels of handwritten digits,
and at digits drawn from the mixture.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap

from skpc import MixtureOfAllTrees
from skpc.datasets import load_digit_bits, load_wines

# %%
# Wines
# -----
# The table has 13 measurements of 178 Italian wines, and the cultivar of each. Numbers are cut into
# bins; the cultivar is a category. In the undirected mixture an edge has no direction, and the
# probabilities of all edges sum to the number of edges of a tree, 13.
table = load_wines(as_frame=True).frame
model = MixtureOfAllTrees(orientation="undirected", random_state=0).fit(table)
edge = model.edge_probabilities_
names = [name.replace("_", " ") for name in table.columns]
names[names.index("od280/od315 of diluted wines")] = "od280/od315"

_, ax = plt.subplots(figsize=(8, 6.5), layout="constrained")
image = ax.imshow(np.where(np.eye(14) > 0, np.nan, edge), cmap="cividis", vmin=0.0)
ax.set_xticks(range(14), names, rotation=90)
ax.set_yticks(range(14), names)
plt.colorbar(image, label="probability of the edge", shrink=0.8)
plt.show()

# %%
# The cultivar matters most: given the cultivar, most measurements are nearly independent.
strongest = np.argsort(np.triu(edge).ravel())[::-1][:5]
for first, second in zip(*np.unravel_index(strongest, edge.shape)):
    print(f"{names[first]} - {names[second]}: {edge[first, second]:.2f}")

# %%
# Digits
# ------
# The columns are 8 x 8 pixels, black or white. Both states are declared, as some pixels are white
# in all rows. In the directed mixture an edge leads from a pixel to one that is drawn given it;
# here both directions are added up.
pixels = load_digit_bits().data
train, test = pixels[:1400], pixels[1400:]
model = MixtureOfAllTrees(categories=[[0, 1]] * 64, random_state=0).fit(train)
edge = model.edge_probabilities_ + model.edge_probabilities_.T
np.fill_diagonal(edge, 0.0)
print(f"{model.score(test):.2f} nats a row on new digits")

# %%
# On the left, each edge with a probability above 0.3 is a line over the mean of all digits; a
# darker line is a more probable edge. Most edges join neighbours. Pixels at the margin are hardly
# ever black: trees may attach them anywhere, so they have no such edge, or join each other. On the
# right are samples: for each of them a tree is drawn, and then a digit given the tree.
_, (left, right) = plt.subplots(1, 2, figsize=(8, 3.7), layout="constrained")
paper = ListedColormap(["white", "black"])
left.imshow(train.mean(axis=0).reshape(8, 8), cmap="Oranges", alpha=0.6, vmax=1.5)
first, second = np.triu_indices(64, 1)
place = np.column_stack([np.arange(64) % 8, np.arange(64) // 8])
shown = edge[first, second] > 0.3
lines = np.stack([place[first[shown]], place[second[shown]]], axis=1)
strength = np.clip(edge[first, second][shown], 0.0, 1.0)
left.add_collection(LineCollection(lines, colors="#00264d", alpha=strength, linewidths=2.5))
left.set_title("edges between pixels")

drawn = model.sample(48, random_state=0).reshape(6, 8, 8, 8)
canvas = np.full((6 * 9 - 1, 8 * 9 - 1), np.nan)
for row in range(6):
    for column in range(8):
        canvas[9 * row : 9 * row + 8, 9 * column : 9 * column + 8] = drawn[row, column]
right.imshow(canvas, cmap=paper)
right.set_title("samples")
for ax in (left, right):
    ax.set_axis_off()
plt.show()
