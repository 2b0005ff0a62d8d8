"""
========================================
Messages of a factor, learned from pairs
========================================

In expectation propagation, a factor sends messages to its variables. Each message is an integral
over the messages that come into the factor. Here the integral of the logistic factor is learned
from examples: the incoming messages are distributions, and the target describes the belief, a
distribution too. What matters for its use is that the regression knows where it has seen no
examples.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.ensemble import RandomForestRegressor

from skpc import KernelEPOperator
from skpc.messages import (
    CODECS,
    LearnedOperator,
    LogisticEP,
    LogisticFactor,
    Normal,
    QuadratureOracle,
)

# %%
# Messages to learn from
# ----------------------
# The logistic factor connects z with p = 1 / (1 + exp(-z)). A label 1 sends the message Beta(2, 1)
# from p, a label 0 sends Beta(1, 2), and from z comes a normal. An oracle that listens while
# Bayesian logistic regressions are run collects the messages that do come in.
exact = QuadratureOracle(LogisticFactor(), target=1)


class Listener:
    """The exact oracle, with a list of the messages it was asked about."""

    layout = exact.layout

    def __init__(self):
        self.heard = []

    def project(self, messages):
        self.heard.append(messages)
        return exact.project(messages)


rng = np.random.default_rng(0)
listener = Listener()
for _ in range(10):
    weights = rng.normal(size=10)
    X = rng.normal(size=(300, 10))
    y = rng.random(300) < expit(X @ weights)
    LogisticEP(listener, n_iter=4).run(X, y)
rows = rng.permutation(np.vstack([heard for heard in listener.heard if np.ptp(heard[:, 2]) > 0]))
train, test = rows[:2000], rows[2000:4000]

# %%
# Learning
# --------
# The codec "scaled" writes a belief as its shift and its log variance relative to the incoming
# normal.
codec = CODECS["scaled"]
targets = codec.encode(exact.project(train), exact.layout.incoming(train))
operator = KernelEPOperator(
    input_distributions=("beta", "normal"), noise_variance=1e-6, random_state=0
).fit(train, targets)
learned = LearnedOperator(operator, exact.layout)
error = np.log(exact.project(test).kl(learned.project(test)))
print(
    f"log KL(truth || learned): mean {error.mean():.1f}, 99 % below {np.quantile(error, 0.99):.1f}"
)

# %%
# What a log KL means: three of the test messages with their true beliefs and the learned ones.
figure, axes = plt.subplots(
    1, 4, figsize=(8, 2.4), layout="constrained", width_ratios=[1.3, 1, 1, 1]
)
axes[0].hist(error, bins=40, color="#0072B2")
axes[0].set(xlabel="log KL", ylabel="messages", title="2000 other messages")
truth, found = exact.project(test), learned.project(test)
for ax, level in zip(axes[1:], (0.5, 0.99, 1.0)):
    row = np.argsort(error)[int(level * (len(error) - 1))]
    sd = float(np.sqrt(test[row, 3]))
    z = np.linspace(test[row, 2] - 3.5 * sd, test[row, 2] + 3.5 * sd, 200)
    incoming = Normal(*test[row, 2:])
    ax.plot(z, np.exp(incoming.log_density(z)), color="#999999", label="incoming")
    ax.plot(z, np.exp(truth[row].log_density(z)), color="#0072B2", lw=3, label="belief")
    ax.plot(z, np.exp(found[row].log_density(z)), color="#D55E00", ls="--", label="learned")
    name = {0.5: "median", 0.99: "99th percentile", 1.0: "worst"}[level]
    ax.set(xlabel="z", title=f"{name}\nlog KL {error[row]:.1f}", yticks=[])
curves, labels = axes[1].get_legend_handles_labels()
figure.legend(curves, labels, loc="outside lower right", ncol=3, frameon=False)
plt.show()

# %%
# Does it know what it has not seen?
# ----------------------------------
# Two lines through the space of normal messages cross regions with many examples and regions
# without examples; the label is 0. The operator's uncertainty is its predictive variance; a
# forest's is the disagreement of its trees.
forest = RandomForestRegressor(64, random_state=0).fit(train, targets)
mean = np.linspace(-12, 12, 300)
lines = {
    "line 1": np.exp(-0.02 * mean - 1.5),
    "line 2": np.exp(0.02 * mean**2 - 1.5),
}
figure, axes = plt.subplots(3, 2, figsize=(8, 7.1), layout="constrained", sharex=True, sharey="row")
for column, (name, variance) in zip(axes.T, lines.items()):
    messages = np.column_stack([np.ones(300), np.full(300, 2.0), mean, variance])
    predicted, std = operator.predict(messages, return_std=True)
    belief = codec.decode(predicted, exact.layout.incoming(messages))
    votes = np.stack([tree.predict(messages) for tree in forest.estimators_])
    guess = codec.decode(votes.mean(axis=0), exact.layout.incoming(messages))
    column[0].scatter(train[:, 2], np.log(train[:, 3]), s=3, color="#BBBBBB", label="examples")
    column[0].plot(mean, np.log(variance), color="black", label=name)
    column[0].set(title=name, ylabel="log variance of the message")
    column[0].legend(frameon=False, loc="lower right")
    column[1].plot(mean, 2 * np.log(std[:, 0]), color="#0072B2", label="operator")
    column[1].plot(mean, np.log(votes.var(axis=0)[:, 0]), color="#D55E00", lw=1, label="forest")
    column[1].set(ylabel="log variance of the prediction")
    true = exact.project(messages)
    column[2].plot(mean, np.log(true.kl(belief)), color="#0072B2", label="operator")
    column[2].plot(mean, np.log(true.kl(guess)), color="#D55E00", lw=1, label="forest")
    column[2].set(xlabel="mean of the message", ylabel="log KL of the prediction")
for ax in axes[1:, 0]:
    ax.margins(y=0.2)
    ax.legend(frameon=False, loc="upper center", ncol=2)
plt.show()

# %%
# The operator's uncertainty rises smoothly where the examples thin out, on both sides, and its
# error rises with it. The disagreement of the trees is ragged among the examples, and outside of
# them it is flat: all trees repeat what they have seen last. On the left that happens to be right,
# as a label of 0 says nothing new about a z that is surely negative, and there the operator is
# worse than the forest, but says so. On the right of line 2 the error of the forest grows, and its
# disagreement does not.
