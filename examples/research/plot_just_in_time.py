"""
=========================================
Just in time: one operator for all tables
=========================================

Bayesian logistic regression by expectation propagation on three tables in turn. The messages from
the logistic factors come from a sampler at first, as if the density of the factor were unknown, and
an operator learns from its answers. When the operator is sure, it answers itself. A new table
brings new messages: the operator notices, asks, and learns on.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpc import KernelEPOperator, LogisticEPClassifier
from skpc.messages import ImportanceSamplingOracle, JustInTimeOperator, Normal

# %%
# The operator
# ------------
# The oracle draws particles of z from a wide proposal and weights them by the incoming messages. It
# needs only a function that *draws* p for a given z. Predictions are used where the log of their
# variance is below the threshold: -10 tolerates an error of exp(-5), 0.7 %, of the standard
# deviation of the incoming message.
oracle = ImportanceSamplingOracle(
    lambda inputs, random_state: expit(inputs[:, 0]),
    [Normal(0.0, 200.0)],
    output="beta",
    target=1,
    n_particles=50_000,
    random_state=0,
)
operator = JustInTimeOperator(
    KernelEPOperator(input_distributions=("beta", "normal"), random_state=0),
    oracle,
    threshold=-10.0,
    n_initial=200,
)

# %%
# Three tables
# ------------
digits = load_digits()
some = np.isin(digits.target, [3, 8])
wine = load_wine()
tables = {
    "wine": (wine.data, wine.target == 1),
    "tumours": load_breast_cancer(return_X_y=True),
    "digits 3 and 8": (digits.data[some], digits.target[some] == 8),
}

ends, calls, names = [0], [0], list(tables)
for name, (X, y) in tables.items():
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    prepare = make_pipeline(StandardScaler(), PCA(6, whiten=True)).fit(X_train)
    X_train, X_test = prepare.transform(X_train), prepare.transform(X_test)
    start = time.process_time()
    model = LogisticEPClassifier(operator=operator).fit(X_train, y_train)
    seconds = time.process_time() - start
    exact = LogisticEPClassifier().fit(X_train, y_train)
    ends.append(len(operator.trace_))
    calls.append(operator.n_oracle_calls_)
    print(
        f"{name:15s} {calls[-1] - calls[-2]:4d} of {ends[-1] - ends[-2]} messages by the sampler, "
        f"{seconds:4.1f} CPU s, accuracy {model.score(X_test, y_test):.3f} "
        f"(exact messages {exact.score(X_test, y_test):.3f}), "
        f"KL(exact || found) {exact.posterior_.kl(model.posterior_):.4f} nats"
    )

# %%
# How sure it was
# ---------------
# Every dot is a message; those above the line were answered by the sampler and learned from. At the
# beginning of a table the messages are new, and the uncertainty jumps.
trace = operator.trace_.max(axis=1)
sampled = np.isnan(trace) | (trace >= operator.threshold)
_, (top, bottom) = plt.subplots(2, 1, figsize=(8, 5), layout="constrained", sharex=True)
place = np.arange(len(trace))
top.scatter(place[~sampled], trace[~sampled], s=2, color="#0072B2", label="predicted")
top.scatter(place[sampled], trace[sampled], s=8, color="#D55E00", label="asked the sampler")
top.axhline(operator.threshold, color="black", lw=1)
top.set_ylabel("log predictive variance")
top.legend(frameon=False, loc="upper right", markerscale=3)
bottom.plot(place, sampled.cumsum(), color="#D55E00")
bottom.set(xlabel="message", ylabel="answers of the sampler")
for name, left, right in zip(names, ends, ends[1:]):
    for ax in (top, bottom):
        ax.axvline(left, color="#999999", lw=1, ls="--")
    bottom.text((left + right) / 2, 0.05 * sampled.sum(), name, ha="center")
plt.show()

# %%
# For this factor the integral over z could be done by quadrature, which takes microseconds; the
# sampler stands for a factor that can only be simulated, as in
# :doc:`plot_simulator`.
