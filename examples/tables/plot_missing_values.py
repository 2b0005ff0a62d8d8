"""
======================================
Missing values: score, complete, doubt
======================================

A density does three things with a row that has missing cells. It scores the observed cells; it
completes the missing ones; and it says how sure it is. This example does all three on the wines of
scikit-learn, thirteen measurements and the cultivar (a category), with three cells in ten removed,
and checks the completions and the doubts against the cells that were removed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler

from skpc import CutsetNetworkBD
from skpc.datasets import load_wines
from skpc.plotting import MarginalsDisplay

table = load_wines(as_frame=True).frame.rename(
    columns={"od280/od315_of_diluted_wines": "od280/od315"}
)
missing = np.random.default_rng(0).random(table.shape) < 0.3
train, test, _, test_missing = train_test_split(
    table.mask(missing), missing, test_size=0.4, random_state=0
)
truth = table.loc[test.index]

# %%
# Fitting
# -------
# Incomplete rows are used as they are; the columns' counts come from the cells that are there.
# How much the parameters are smoothed matters on a table as small as this, with about a hundred
# rows. By default ``fit`` chooses it itself (``param_ess="auto"``). A grid search over any
# parameter needs no scorer: the score of an estimator is the mean log-likelihood.
search = GridSearchCV(CutsetNetworkBD(random_state=0), {"param_ess": ["auto", 0.1, 1, 10, 100]})
search.fit(train)
for param_ess, score in zip(search.param_grid["param_ess"], search.cv_results_["mean_test_score"]):
    print(f"param_ess={param_ess!s:<5} {score:7.2f} nats a row")
model = search.best_estimator_

# %%
# Little smoothing makes rare states nearly impossible, and much of it forgets the table.
#
# Scoring
# -------
# Missing cells are integrated out exactly, so a score is the density of the cells that are there.
# Here are the scores of one row while its cells are removed one after the other. A row without any
# cell has density one, or zero nats.
row = truth.iloc[[0]].copy()
for name in table.columns[::-1]:
    row[name] = np.nan
    if row.notna().to_numpy().sum() % 4 == 0:
        n_cells = int(row.notna().to_numpy().sum())
        score = round(model.score_samples(row)[0], 2) + 0.0
        print(f"{n_cells:2d} cells known: {score:7.2f} nats")

# %%
# Rows are comparable with each other if the same cells are missing. Scores of rows with different
# missing cells are densities of different things.
#
# Completing
# ----------
# There are three strategies. "mean" (the default) fills in posterior means, which have the least
# squared error; "mpe" the jointly most probable row, in which a number is the densest value of a
# probable bin; "sample" a draw from what is possible, which is farther off cell by cell but keeps
# the spread and the correlations of the table.
numeric = list(table.columns[:-1])
scaler = StandardScaler().fit(train[numeric])
removed_numbers = test_missing[:, :-1]
unknown = test_missing[:, -1]


def rms_error(filled):
    errors = scaler.transform(filled[numeric]) - scaler.transform(truth[numeric])
    return np.sqrt(np.mean(errors[removed_numbers] ** 2))


def by_imputer(imputer):
    imputer.fit(scaler.transform(train[numeric]))
    filled = scaler.inverse_transform(imputer.transform(scaler.transform(test[numeric])))
    return truth.assign(**dict(zip(numeric, filled.T)))


completions = {
    "column means": by_imputer(SimpleImputer()),
    "nearest neighbours": by_imputer(KNNImputer()),
    "skpc, mean": model.complete(test),
    "skpc, mpe": model.complete(test, strategy="mpe"),
    "skpc, sample": model.complete(test, strategy="sample", random_state=0),
}
for name, filled in completions.items():
    line = f"{name:20s} rms error of numbers {rms_error(filled):.2f} standard deviations"
    if name.startswith("skpc"):
        right = (filled.cultivar == truth.cultivar)[unknown].mean()
        line += f"; {right:.0%} of {unknown.sum()} cultivars right"
    print(line)

# %%
# The few hundredths between the posterior mean and nearest neighbours are chance: with other cells
# removed, neighbours are often ahead. Where columns depend on each other linearly, a regression of
# each on all others (IterativeImputer) can beat both. If you only want one good guess for each
# number, compare them. A density adds that one model treats categories and numbers alike, scores
# rows, and says how sure it is.
#
# Doubting
# --------
# The marginals of one row. Its cultivar is missing, and so are some measurements.
columns = ["cultivar", "flavanoids", "proline", "hue", "alcohol", "color_intensity"]
doubtful = test[test.cultivar.isna() & test.proline.isna() & test.flavanoids.isna()].iloc[[0]]
MarginalsDisplay.from_estimator(model, doubtful, columns=columns)
plt.show()
print("in truth:", truth.loc[doubtful.index, columns].iloc[0].to_dict())

# %%
# Are such doubts right? Intervals that claim 80 % should contain 80 % of the numbers that were
# removed. Their bounds are quantiles of the marginals.
removed = truth[numeric].to_numpy()
for claim in (0.5, 0.8, 0.9):
    low, high = (bound[numeric].to_numpy() for bound in model.interval(test, level=claim))
    inside = ((low <= removed) & (removed <= high))[removed_numbers].mean()
    print(f"intervals that claim {claim:.0%} contain {inside:.0%}")

# %%
# The intervals contain as many cells as they claim, up to the few percent that are chance.
