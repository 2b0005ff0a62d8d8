"""
================================
A simulator as part of the model
================================

A disease breaks out in many villages. The reproduction number says how fast it spreads in a
village, and depends on known features of the village. This example infers how it depends on them. A
simulator leads from the reproduction number to the number of cases: it can be run, but nobody can
write down the probability of its results. A sampler computes the messages of such a factor, and an
operator learns its answers.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from skpc import KernelEPOperator
from skpc.messages import ImportanceSamplingOracle, JustInTimeOperator, LinearEP, Normal

# %%
# The simulator
# -------------
# In a village of 500 people, 3 are infected. In each generation everybody who is still susceptible
# is infected by anyone who is infectious, independently (a Reed-Frost process). The output is the
# log of the number of cases in the end.
POPULATION, SEEDS = 500, 3


def simulate(inputs, random_state):
    reproduction = np.exp(inputs[:, 0])
    escape = np.log1p(-np.minimum(reproduction / POPULATION, 0.9))
    susceptible = np.full(len(inputs), POPULATION - SEEDS)
    infectious = np.full(len(inputs), SEEDS)
    while infectious.any():
        infected = random_state.binomial(susceptible, -np.expm1(infectious * escape))
        susceptible, infectious = susceptible - infected, infected
    return np.log(POPULATION - susceptible)


random_state = np.random.RandomState(0)
grid = np.repeat(np.linspace(-1.5, 1.5, 61), 50)
sizes = np.exp(simulate(grid[:, np.newaxis], random_state))

# %%
# The model
# ---------
# The log reproduction number of a village is z = x w, with w ~ N(0, I). What is reported is the
# number of cases up to a factor: the log of the number plus noise with standard deviation 0.2. That
# is a normal message from the output.
NOISE = 0.2**2
weights = np.array([0.3, 0.8, -0.5, 0.0])


def region(n_villages=60):
    """Properties of villages (the first is constant) and reports of their outbreaks."""
    X = np.column_stack([np.ones(n_villages), 0.5 * random_state.normal(size=(n_villages, 3))])
    log_size = simulate(X @ weights[:, np.newaxis], random_state)
    return X, log_size + random_state.normal(scale=NOISE**0.5, size=n_villages)


oracle = ImportanceSamplingOracle(
    simulate, [Normal(0.0, 1.0)], output="normal", target=1, n_particles=6_000, random_state=0
)
operator = JustInTimeOperator(
    KernelEPOperator(input_distributions=("normal", "normal"), noise_variance=1e-3, random_state=0),
    oracle,
    threshold=-5.5,
    n_initial=100,
)

# %%
# Two regions in turn
# -------------------
# The same weights hold in all regions, but each is a problem of its own. Updates are damped, as the
# messages of a sampler are noisy. In the first region the sampler alone does the work once more.
N_ITER = 4
results = []
for number in range(2):
    X, reports = region()
    observed = np.column_stack([reports, np.full(len(reports), NOISE)])
    for name, messages in {"learned": operator, "sampler": oracle}.items():
        if name == "sampler" and number > 0:
            continue
        before, start = operator.n_oracle_calls_, time.process_time()
        found = LinearEP(messages, n_iter=N_ITER, damping=0.3).run(X, observed)
        seconds = time.process_time() - start
        asked = operator.n_oracle_calls_ - before if name == "learned" else N_ITER * len(X)
        results.append((f"region {number + 1}, {name}", found))
        n_messages = N_ITER * len(X)
        print(
            f"region {number + 1}, {name}: {asked:3d} of {n_messages} messages by the sampler, "
            f"{seconds:4.1f} CPU s"
        )

# %%
# The left picture shows what the simulator does: the same reproduction number can make a handful of
# cases or hundreds. The right picture shows the posterior of the weights; bars are two standard
# deviations.
_, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
left.scatter(np.exp(grid), sizes, s=3, alpha=0.3, color="#0072B2")
left.set(xscale="log", yscale="log", xlabel="reproduction number", ylabel="cases in the end")
left.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
left.minorticks_off()
left.set_title("3050 runs of the simulator")
colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
for place, ((name, found), colour) in enumerate(zip(results, colours)):
    x = np.arange(4) + 0.15 * (place - 1.5)
    sd = np.sqrt(np.diag(found.covariance))
    marker = "s" if name.endswith("sampler") else "o"
    right.errorbar(x, found.mean, 2 * sd, fmt=marker, ms=5, color=colour, label=name)
for place, weight in enumerate(weights):
    right.hlines(weight, place - 0.4, place + 0.4, color="black", lw=1)
right.set_xticks(range(4), ["constant", "first", "second", "third"])
right.set(title="weights (black: the truth)", xlabel="property of the village")
right.legend(frameon=False)
plt.show()

# %%
# The operator asks the sampler less in the second region: what it has learned about the simulator
# holds for both. An answer costs a fraction of a millisecond where the sampler needs several. A
# more expensive simulator gains more.
