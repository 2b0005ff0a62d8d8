"""
================================
Digits: what the components mean
================================

Mixtures of cutset networks are fitted to pictures of handwritten digits, without their labels. This
example looks at the components, at digits drawn from the mixtures, and at
digits whose lower half was missing.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.model_selection import train_test_split

from skpc import CutsetNetworkBD
from skpc.datasets import load_digit_bits
from skpc.queries import log_likelihood, marginals

# %%
# The 8 x 8 pixels, black or white, are 64 columns. Both states are declared, as some pixels are
# white in all rows for training.
pixels, digits = load_digit_bits(return_X_y=True)
train, test, _, label = train_test_split(pixels, digits, test_size=450, random_state=0)
both_states = [[0, 1]] * 64
models = {
    "one network": CutsetNetworkBD(categories=both_states),
    "10 components": CutsetNetworkBD(n_components=10, categories=both_states, random_state=0),
    "20 components": CutsetNetworkBD(n_components=20, categories=both_states, random_state=0),
}
for model in models.values():
    model.fit(train)

# %%
# The components
# --------------
# A mixture is one circuit, whose root is a sum over the components. The root is the last node, so
# its edges are the last ones. With all the weight on one of them, the circuit is that component
# alone. Queries give its probability of ink in each pixel, and the density of a row.
circuit = models["10 components"].circuit_
first = circuit.child_ptr[-2]


def component(edge):
    log_weight = circuit.log_weight.copy()
    log_weight[first:] = -np.inf
    log_weight[edge] = 0
    return circuit.with_parameters(log_weight=log_weight)


components = [component(edge) for edge in range(first, circuit.n_edges)]
weights = np.exp(circuit.log_weight[first:])
joint = np.log(weights) + np.transpose([log_likelihood(each, test) for each in components])
member = joint.argmax(axis=1)

_, axes = plt.subplots(2, 5, figsize=(8, 3.6), layout="constrained")
for ax in axes.flat:
    ax.set_axis_off()
# EM may leave out a component.
for index, ax in enumerate(axes.flat[: len(components)]):
    ink = [states[0, 1] for states in marginals(components[index], np.full((1, 64), np.nan))]
    ax.imshow(np.reshape(ink, (8, 8)), cmap="gray_r", vmin=0, vmax=1)
    proportion = np.bincount(label[member == index], minlength=10) / (member == index).sum()
    ax.set_title(f"weight {weights[index]:.2f}\n{proportion.max():.0%} are {proportion.argmax()}s")
plt.show()

# %%
# Each component has found a digit of its own, or two that look alike. (The percentages are those of
# the test digits that most probably belong to the component; the model has never seen a label.)
#
# Samples
# -------
# A component is more than such a picture, since its pixels depend on each other. The draws of a
# model show what it has learned.


def show(strips):
    """A strip of pictures for each name; filled pixels have 2 added and are shown in blue."""
    colours = ListedColormap(["white", "black", "#D9E8F3", "#0072B2"])
    _, axes = plt.subplots(len(strips), figsize=(8, 0.8 * len(strips)), layout="constrained")
    for ax, (name, rows) in zip(axes, strips.items()):
        pictures = np.pad(rows.reshape(-1, 8, 8), ((0, 0), (0, 0), (1, 1)))
        ax.imshow(np.hstack(pictures), cmap=colours, vmin=0, vmax=3)
        ax.set_ylabel(name, rotation=0, ha="right", va="center")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    plt.show()


show({name: model.sample(14, random_state=0) for name, model in models.items()})

# %%
# The lower half is missing
# -------------------------
# ``strategy="mpe"`` fills all pixels together with the most probable lower half; in a mixture, with
# the best one of a single component. The default, "mean", gives each pixel the state that
# is more probable for it. That makes fewer errors, but where several digits are possible the
# result can be a bit of each, so pictures are better filled by "mpe". Here is the first test digit
# of each kind.
covered = test.copy()
covered[:, 32:] = np.nan
filled = {name: model.complete(covered, strategy="mpe") for name, model in models.items()}

shown = np.unique(label, return_index=True)[1]
blue = 2 * np.isnan(covered[shown])
show({"truth": test[shown]} | {name: rows[shown] + blue for name, rows in filled.items()})

# %%
# Here are the same models in numbers: the log-likelihood in nats a row, and the percentage of the
# pixels in the lower half that are filled wrongly.
print(f"{'':13s}  parameters  training  held-out   mpe  mean")
for name, model in models.items():
    wrong = [(rows != test)[:, 32:].mean() for rows in (filled[name], model.complete(covered))]
    print(
        f"{name:13s} {model.n_parameters_:11d} {model.score(train):9.2f} {model.score(test):9.2f}"
        f" {wrong[0]:5.1%} {wrong[1]:5.1%}"
    )

# %%
# Twenty components are a little better than ten: 1347 rows leave 67 for each. By themselves
# such components would give probabilities near one to pixels that never varied in their rows, and a
# new digit that differs in some of these would cost many nats. So ``fit`` shrinks their tables
# towards those of the whole table; held-out rows decide how strongly. Without that
# (``param_ess=None``) twenty components score -18.0. :doc:`plot_n_components` chooses the number of
# components by likelihood.
