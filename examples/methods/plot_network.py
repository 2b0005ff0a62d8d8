"""
========================
A learned network, drawn
========================

A cutset network can be read. Its top is a decision tree: each *cut* looks at one variable and
sends a row down the branch of its state. At the end of each branch stands a *Chow-Liu tree*: every
variable without a cut above it depends on at most one other. So the drawing shows which variables
matter for which, and under what circumstances.

The 2201 people aboard the Titanic are a table of four columns: class, sex, age (adult or child)
and whether they survived (R. J. M. Dawson, "The 'Unusual Episode' Data Revisited", Journal of
Statistics Education 3(3), 1995).
"""

import itertools

import matplotlib.pyplot as plt
import pandas as pd

from skpc import CutsetNetworkBD
from skpc.plotting import CircuitDisplay

columns = ["survived", "age", "sex", "class"]
states = [["no", "yes"], ["child", "adult"], ["male", "female"], ["1st", "2nd", "3rd", "crew"]]
people = pd.DataFrame(itertools.product(*states), columns=columns)
counts = [
    [0, 0, 35, 0, 0, 0, 17, 0],
    [118, 154, 387, 670, 4, 13, 89, 3],
    [5, 11, 13, 0, 1, 13, 14, 0],
    [57, 14, 75, 192, 140, 80, 76, 20],
]
n_people = [count for row in counts for count in row]

# %%
# The table has one row for each of the 32 kinds of people; the number of people of a kind is its
# weight. A weight of 670 is the same as 670 equal rows, and 0 the same as no row.
model = CutsetNetworkBD().fit(people, sample_weight=n_people)
CircuitDisplay.from_estimator(model)
plt.show()

# %%
# The learner cut on *class*. The numbers under the categories are their probabilities: 40 % of
# the people were crew. Below, an arrow leads from a variable to those that depend on it directly.
#
# In all four trees sex and survival hang together, as "women and children first" suggests. But age
# has another place. In first and second class it hangs on *survived*: every child there
# survived. In third class, where most children did not, it depends on sex instead, and the crew
# had no children, so that their arrow to age means nothing: a Chow-Liu tree always connects all of
# its variables, however weak their dependence is.
#
# Arrows are not causes. The distribution is the same whichever variable a tree starts from; the
# learner starts from the first column.
#
# Why a cut?
# ----------
# The learner cuts where that raises the structure score, the log of the probability of the whole
# table with all parameters integrated out. So a cut has to be worth its parameters. Without any,
# there is one tree for all.
tree = CutsetNetworkBD(max_depth=0).fit(people, sample_weight=n_people)
for name, fitted in (("one tree", tree), ("with cuts", model)):
    print(
        f"{name:10s} cuts: {fitted.n_cuts_}  parameters: {fitted.n_parameters_:2d}  "
        f"score: {fitted.score_criterion_:.1f}"
    )
CircuitDisplay.from_estimator(tree)
plt.show()

# %%
# What one tree cannot say
# ------------------------
# A variable of a tree has one parent. Whether somebody survived depended on class *and* sex; the
# cut lets the network say that. The last column is the frequency in the data.
unknown = pd.DataFrame(
    [(None, None, sex, of_class) for of_class, sex in itertools.product(states[3], states[2])],
    columns=columns,
)
yes = list(model.domain_[0].states).index("yes")
chances = unknown[["class", "sex"]].assign(
    one_tree=tree.marginals(unknown)[0].probabilities[:, yes],
    with_cuts=model.marginals(unknown)[0].probabilities[:, yes],
)
survivors = people.assign(n=n_people).pivot_table(
    index=["class", "sex"], columns="survived", values="n", aggfunc="sum"
)
frequency = (survivors["yes"] / survivors.sum(axis=1)).rename("data")
print(chances.join(frequency, on=["class", "sex"]).round(2).to_string(index=False))
