"""Learning from cells known as ranges and sets, against plain rules and oracles.

    SKPC_DATA=... python -m tests.benchmarks.censored [--seeds N]
        [--parts limit brackets survival covariate sets]

"limit": 40 % of a lognormal column below a limit, 1,500 rows. Completions by their rms over that of
limit / sqrt(2) (bar .80; "plain" fills the mean of the column below the limit, "oracle" knows the
distribution), the share of draws below the limit (bar .40 +- .02), what a new row loses against the
fit of the complete table (bar .15 nats), and the CPU of the fit over that of the complete one (bar
4). "brackets": a price known as five brackets, rms over that of their middles (bar .60; "own means"
are the means of the brackets). "survival": times to death of two tables, some of them censored; the
greatest difference of the marginal survival and Kaplan-Meier's at five quantiles of deaths (bar
.03). "covariate": simulated censoring by a column; against the truth (bar .03 where Kaplan-Meier is
off by .05). "sets": a third of the cells of a category are sets: greatest error of its marginal
(bar .02).
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
import warnings

import numpy as np
import pandas as pd

from skpc import CutsetNetworkBD, HiddenChowLiuTree, SoftLearnSPN, TableMixture
from skpc.variables.truncated import truncated_nodes
from tests.benchmarks.mixed_tables import read

DENSITIES = (CutsetNetworkBD, SoftLearnSPN, TableMixture, HiddenChowLiuTree)
RHO, N_ROWS = 0.85, 1500


def rms(error) -> float:
    return float(np.sqrt(np.mean(np.square(error))))


def objects(values, where, cells) -> np.ndarray:
    """A column of objects with other cells in some rows."""
    column = np.asarray(values, dtype=object).copy()
    for row, cell in zip(np.flatnonzero(where).tolist(), cells):
        column[row] = cell
    return column


def lognormal(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(N_ROWS, 4))
    a = z[:, 0]
    b, c = 0.6 * a + 0.8 * z[:, 1], 0.5 * a + np.sqrt(0.75) * z[:, 2]
    u = (a + b + c) / np.sqrt(3.0 + 2.0 * (0.6 + 0.5 + 0.3))
    x = np.exp(1.0 + 0.8 * (RHO * u + np.sqrt(1.0 - RHO**2) * z[:, 3]))
    kind = np.where(rng.random(N_ROWS) < 1.0 / (1.0 + np.exp(-2.0 * a)), "u", "v")
    return pd.DataFrame({"a": a, "b": np.exp(b), "c": c, "kind": kind, "x": x}), u


def limit(density, seed: int) -> dict:
    X, u = lognormal(seed)
    T, _ = lognormal(1000 + seed)
    end = X.x.quantile(0.4)
    below = (X.x < end).to_numpy()
    R = X.assign(x=objects(X.x, below, [(None, end)] * below.sum()))
    density().fit(R.head(300))
    density().fit(X.head(300))
    begin = time.process_time()
    full = density(random_state=seed).fit(X)
    middle = time.process_time()
    model = density(random_state=seed).fit(R)
    ratio = (time.process_time() - middle) / (middle - begin)
    truth = X.x[below]
    scale = rms(end / np.sqrt(2.0) - truth)
    sd = np.sqrt(1.0 - RHO**2)
    high = ((np.log(end) - 1.0) / 0.8 - RHO * u[below]) / sd
    _, nearest, steps, shares = truncated_nodes(np.full(len(high), -np.inf), high)
    best = (shares * np.exp(1.0 + 0.8 * (RHO * u[below] + sd * (nearest + steps)))).sum(axis=0)
    return {
        "rms": rms(model.complete(R).x[below] - truth) / scale,
        "plain": rms(truth.mean() - truth) / scale,
        "oracle": rms(best - truth) / scale,
        "draws below": float((model.sample(20_000, random_state=0).x < end).mean()),
        "loss of a new row": full.score(T) - model.score(T),
        "CPU": ratio,
    }


def brackets(density, seed: int) -> dict:
    X = read("electricity").sample(2000, random_state=seed).reset_index(drop=True)
    name = "nswprice"
    price = X[name].astype(float)
    edges = np.unique([0.0, *np.quantile(price, [0.2, 0.4, 0.6, 0.8]), 1.01 * price.max()])
    number = np.searchsorted(edges, price, side="right") - 1
    cells = [pd.Interval(edges[k], edges[k + 1], closed="left") for k in number]
    R = X.assign(**{name: pd.arrays.IntervalArray(cells)})
    own = price.groupby(number).transform("mean")
    middle = 0.5 * (edges[number] + edges[number + 1])
    scale = rms(middle - price)
    filled = density(random_state=seed).fit(R).complete(R)[name]
    return {"rms": rms(filled - price) / scale, "own means": rms(own - price) / scale}


def survival_table(name: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    path = os.path.join(os.environ["SKPC_DATA"], "survival", f"{name}.csv.gz")
    with gzip.open(path, "rt") as file:
        X = pd.read_csv(file)
    X = X[[c for c in X.columns if not c.startswith("Unnamed") and c != "rownames"]]
    if name == "rotterdam":
        X = X.drop(columns=["pid", "rtime", "recur"])
        return X.drop(columns=["dtime", "death"]), X.dtime.to_numpy(float), X.death.to_numpy() == 1
    return X.drop(columns=["time", "status"]), X.time.to_numpy(float), X.status.to_numpy() == 2


def kaplan_meier(times, events, at) -> np.ndarray:
    alive, order = [], np.unique(times[events])
    for t in order:
        alive.append(1.0 - (events & (times == t)).sum() / (times >= t).sum())
    curve = np.cumprod(alive)
    return np.array([curve[order <= t][-1] if (order <= t).any() else 1.0 for t in at])


def with_times(X, times, events) -> pd.DataFrame:
    return X.assign(time_to=objects(times, ~events, [(t, None) for t in times[~events]]))


def survival(density, seed: int) -> dict:
    result = {}
    for name in ("rotterdam", "lung"):
        X, times, events = survival_table(name)
        # A cell that ends at the time itself would count the death of that day.
        R = X.assign(
            time_to=objects(
                times, ~events, [pd.Interval(t, np.inf, closed="neither") for t in times[~events]]
            )
        )
        at = np.quantile(times[events], [0.1, 0.3, 0.5, 0.7, 0.9])
        model = density(random_state=seed).fit(R)
        ours = model.probability(
            [{"time_to": pd.Interval(t, np.inf, closed="neither")} for t in at]
        )
        result[name] = float(np.abs(ours - kaplan_meier(times, events, at)).max())
    return result


def covariate(density, seed: int) -> dict:
    rng = np.random.default_rng(seed)
    group = rng.random(2000)
    life = rng.exponential(10.0 * np.exp(-2.0 * group))
    censor = rng.exponential(np.where(group > 0.5, 15.0, 1.5))
    times, events = np.minimum(life, censor), life <= censor
    at = np.quantile(life, [0.3, 0.5, 0.7])
    truth = np.array(
        [(rng.exponential(10.0 * np.exp(-2.0 * rng.random(10**6))) > t).mean() for t in at]
    )
    R = with_times(pd.DataFrame({"group": group}), times, events)
    ours = density(random_state=seed).fit(R).probability([{"time_to": (t, None)} for t in at])
    return {
        "error": float(np.abs(ours - truth).max()),
        "Kaplan-Meier": float(np.abs(kaplan_meier(times, events, at) - truth).max()),
    }


def sets(density, seed: int) -> dict:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=1500)
    logits = np.outer(a, [1.0, 0.0, -1.0, 0.5]) + [0.5, 0.0, 0.2, -0.5]
    kind = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    names = np.array(list("ABCD"))
    is_set = rng.random(1500) < 1.0 / 3.0
    other = np.where(kind % 2 == 0, kind + 1, kind - 1)
    cells = [{names[k], names[o]} for k, o in zip(kind[is_set], other[is_set])]
    R = pd.DataFrame({"a": a, "kind": objects(names[kind], is_set, cells)})
    model = density(random_state=seed).fit(R)
    ours = model.probability([{"kind": name} for name in names]) / (1.0 - model.domain_[1].unseen)
    score = model.score_samples(R.iloc[:200])
    rows = [[R.assign(kind=name).iloc[:200] for name in names]]
    each = np.array([model.score_samples(table.astype({"kind": object})) for table in rows[0]]).T
    meant = np.array([[n in c for n in names] for c in R.kind.iloc[:200]])
    summed = np.log((np.exp(each) * meant).sum(axis=1))
    return {
        "marginal": float(np.abs(ours - np.bincount(kind) / 1500).max()),
        "score": float(np.abs(score - summed).max()),
    }


PARTS = {f.__name__: f for f in (limit, brackets, survival, covariate, sets)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", default=[*PARTS])
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in options.parts:
        for density in DENSITIES:
            results = pd.DataFrame([PARTS[part](density, seed) for seed in range(options.seeds)])
            shown = ", ".join(f"{name} {mean:.3g}" for name, mean in results.mean().items())
            print(f"{part:10s} {density.__name__:18s} {shown}", flush=True)


if __name__ == "__main__":
    main()
