"""Numbers as they are: atoms, calibration, samples, and smoothing that makes nothing worse.

    SKPC_DATA=... python -m tests.benchmarks.numbers [sections ...] [--tables ...]
        [--models ...] [--splits N] [--keep FOLDER] [--quick] [--write doc/user_guide]

Tables as they come, no more than 5,000 rows of each (6,000 in gaussian, completion and speed); a
third of the rows is held out, in five splits (in gaussian, completion and factors three). "table"
is TableMixture, "soft" SoftLearnSPN and "univariate" the same with leaves of one column, "cutset"
and "cutset5" are CutsetNetworkBD with one and five components, "trees" is MixtureOfAllTrees. Log
densities are in nats a row. Seconds are CPU seconds of a fit, the median of the splits. What rivals
reach is kept in the folder of --keep. With --write loglik, calibration, gaussian and completion
write their tables of the guide, with a column for each density.

Standard errors of log densities, differences and shares take the rows of a table for independent;
differences are paired, row by row. Those of areas under the curve, of root mean square errors and
of atoms come from the spread of the splits, and there are none for one split. A star marks what
misses its bar.

atoms        The share of each repeated value (at least 5 % of a column) in as many samples as rows
             (bar: within .02), and of drawn completions that are -1 (.99); the ranges.
calibration  Of removed cells (20 % of the held-out rows): the share of randomised PIT values in
             [.1, .9] (.80 within .04 or two standard errors; in a column within .10 or three), and
             the share that closed 80 % intervals cover (.76).
auc          Boosting tells samples from held-out rows, out of fold; "real" are training rows in
             place of samples. All numbers are floats here, so that no dtype rounds the samples. The
             bars are for the best density of a table, with all held-out rows and with 300 of them.
loglik       Held-out log density and, of removed numbers, the error of complete: the root of the
             mean square over the variance, averaged over the columns. With plain margins first
             where a density can have them; log densities compare where there are no point masses.
components   Mixtures of cutset networks less one network (not below by .05 or two standard errors).
smoothing    Each param_ess less the default (the default not below by .1 or two standard errors).
binary       The default param_ess and None on the Twenty Datasets (not below by .01; no slower than
             1.3 times).
gaussian     Held-out log density of standardised numbers without repeated values, and of such
             tables with categories, less that of the Gaussian mixture chosen by BIC.
factors      Rows of a factor model less cross-validated factor analysis, and rows of one Gaussian
             less GaussianMixture(1).
completion   Errors of completions, three cells in ten missing in training and held-out rows, beside
             iterative and nearest-neighbour imputation.
speed        CPU seconds of fits, after a first one of few rows.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skpc import CutsetNetworkBD
from skpc.datasets import fetch_debd
from tests.benchmarks.debd import SETS
from tests.benchmarks.guide_tables import add_write, write
from tests.benchmarks.mixed_tables import numbers_of
from tests.benchmarks.numbers_completion import completion
from tests.benchmarks.numbers_mixtures import factors, gaussian
from tests.benchmarks.numbers_speed import speed
from tests.benchmarks.numbers_tables import (
    DENSITIES,
    NAMES,
    TABLES,
    WITH_BLOCKS,
    Estimate,
    Split,
    auc_of_boosting,
    chosen,
    fits_and_scores,
    fitted,
    held_out_rows,
    load,
    of_rows,
    of_splits,
    print_row,
    print_title,
    randomised_pit,
    splits,
    star,
)

CALIBRATED = ("bank", "electricity", "segment", "cmc", "breast_cancer", "zeros")
#: The greatest area under the curve that the best density may have, with all held-out rows and
#: with few of them.
AUC_BARS = {
    "cmc": (0.62, 0.60),
    "bank": (0.80, 0.72),
    "segment": (np.inf, 0.75),
    "electricity": (np.inf, 0.65),
}
AUC_ROWS = 300
N_COMPONENTS = (2, 5, 10)
PARAM_ESS = (0.1, 1.0, 3.0, 10.0, 30.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), metavar="sections")
    parser.add_argument("--tables", nargs="*", help="of those that a section has")
    parser.add_argument("--models", nargs="*", choices=list(DENSITIES))
    parser.add_argument("--splits", type=int)
    parser.add_argument("--keep", type=Path, help="folder of figures that are not measured again")
    add_write(parser)
    parser.add_argument("--quick", action="store_true", help="one split of few rows")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"sections are {', '.join(SECTIONS)}; got {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore", ConvergenceWarning)
    options.n_rows, options.splits = (300, 1) if options.quick else (None, options.splits)
    for section in options.sections:
        SECTIONS[section](_with_defaults(options, section))


def _with_defaults(options: argparse.Namespace, section: str) -> argparse.Namespace:
    """The rows, splits and densities of a section, where the command leaves them open."""
    beside_rivals = section in BESIDE_RIVALS
    filled = argparse.Namespace(**vars(options))
    filled.n_rows = options.n_rows or (6000 if beside_rivals else 5000)
    filled.splits = options.splits or (3 if beside_rivals else 5)
    filled.models = options.models or (WITH_BLOCKS if beside_rivals else list(DENSITIES))
    return filled


def atoms(options: argparse.Namespace) -> None:
    """Print the shares of repeated values and the ranges, in bank and in samples."""
    tables = [load("bank", options.n_rows, seed) for seed in range(options.splits)]
    samples: dict[str, list[pd.DataFrame]] = {name: [] for name in options.models}
    drawn: dict[str, list[tuple[float, float]]] = {name: [] for name in options.models}
    for seed, table in enumerate(tables):
        for name in options.models:
            model, _ = fitted(DENSITIES[name], table)
            samples[name].append(model.sample(len(table), random_state=seed))
            drawn[name].append(_minus_ones(model, table, seed))
    print_title("atoms: share of repeated values in bank and in samples, * farther than .02")
    print_row("column = value", "data", *options.models)
    for column, value in _repeated(tables[0]):
        shares = np.array([(table[column] == value).mean() for table in tables])
        cells = []
        for name in options.models:
            drawn_shares = np.array([(rows[column] == value).mean() for rows in samples[name]])
            gap = of_splits(drawn_shares - shares)
            share = Estimate(drawn_shares.mean(), gap.se)
            cells.append(f"{share}{star(abs(gap.mean) > 0.02)}")
        print_row(f"{column} = {value:g}"[:14], f"{shares.mean():.3f}", *cells)
    print_title("atoms: drawn completions of pdays that are -1, poutcome unknown, * below .99")
    print_row("given", *options.models)
    for place, given in enumerate(("poutcome", "the whole row")):
        found = [of_splits([shares[place] for shares in drawn[name]]) for name in options.models]
        print_row(given, *(f"{share}{star(share.mean < 0.99)}" for share in found))
    print_title("atoms: ranges")
    print_row("column", "data", *options.models)
    for column in numbers_of(tables[0]):
        print_row(column, *(_range(many, column) for many in (tables, *samples.values())))


def _minus_ones(model, table: pd.DataFrame, seed: int) -> tuple[float, float]:
    """Share of drawn pdays that are -1: given that poutcome is unknown, and given all others."""
    rows = table[table["poutcome"] == "unknown"]
    alone = rows.mask(np.broadcast_to(rows.columns != "poutcome", rows.shape))
    others = rows.mask(np.broadcast_to(rows.columns == "pdays", rows.shape))
    filled = [model.complete(X, strategy="sample", random_state=seed) for X in (alone, others)]
    of_poutcome, of_row = ((X["pdays"] == -1).mean() for X in filled)
    return of_poutcome, of_row


def _repeated(table: pd.DataFrame) -> list[tuple[str, float]]:
    """Columns and values that at least one row in twenty holds."""
    found = []
    for column in numbers_of(table):
        shares = table[column].value_counts(normalize=True)
        found += [(column, value) for value in sorted(shares.index[shares >= 0.05])]
    return found


def _range(tables: list[pd.DataFrame], column: str) -> str:
    low, high = min(t[column].min() for t in tables), max(t[column].max() for t in tables)
    return f"{low:g}..{high:g}"


def calibration(options: argparse.Namespace) -> None:
    """Print where removed numbers lie in the distributions that densities give them."""
    print_title("calibration: removed numbers, share of randomised PIT in [.1, .9] and coverage")
    heads = ("PIT", "covered", "worst PIT", "columns off", "fit s", "ask s")
    print_row("table", "density", *heads, "worst column")
    shares: dict[str, list[str]] = {}
    for name in chosen(options, CALIBRATED):
        parts = list(splits(load(name, options.n_rows), options.splits))
        for label in options.models:
            models, seconds = zip(*(fitted(DENSITIES[label], split.train) for split in parts))
            start = time.process_time()
            cells = pd.concat([_removed_cells(m, split) for m, split in zip(models, parts)])
            asked = (time.process_time() - start) / len(parts)
            pit = of_rows(cells["inside"], cells["row"])
            known = cells[cells["covered"].notna()]
            covered = of_rows(known["covered"], known["row"])
            columns = {
                c: of_rows(part["inside"], part["row"]) for c, part in cells.groupby("column")
            }
            beyond = {c: share.beyond(0.8, 0.1, 3.0) for c, share in columns.items()}
            worst = max(beyond, key=beyond.get)
            n_beyond = sum(b > 0.0 for b in beyond.values())
            shares.setdefault(name, []).append(f"{pit.mean:.3f} ({n_beyond})")
            print_row(
                name,
                label,
                f"{pit}{star(pit.beyond(0.8, 0.04, 2.0) > 0.0)}",
                f"{covered}{star(covered.mean < 0.76)}",
                f"{columns[worst]}{star(beyond[worst] > 0.0)}",
                f"{n_beyond} of {len(beyond)}",
                f"{np.median(seconds):.2f}",
                f"{asked:.2f}",
                worst,
            )
    _write(options, "numbers_calibration", shares)


def _write(options: argparse.Namespace, file: str, cells: dict[str, list[str]]) -> None:
    """Write a table of the guide, where --write says so: a row for each table of data."""
    names = [NAMES.get(label, label) for label in options.models]
    rows = [[name, *of_densities] for name, of_densities in cells.items()]
    write(options.write, file, [["table", *names], *rows])


def _removed_cells(model, split: Split) -> pd.DataFrame:
    """Of each removed number: its row and column, whether its PIT is in [.1, .9], and covered.

    Numbers that the density takes for categories have no interval (NaN).
    """
    removed, rng = split.removed(), np.random.default_rng(split.seed)
    rows = split.test.mask(removed)
    lower, upper = model.interval(rows, 0.8)
    found = []
    for column, cells in zip(split.test, model.marginals(rows)):
        if column not in numbers_of(split.test):
            continue
        lost = removed[:, split.test.columns.get_loc(column)]
        x = split.test[column].to_numpy(dtype=np.float64)
        low, high = lower[column].to_numpy(np.float64), upper[column].to_numpy(np.float64)
        pit = randomised_pit(cells, x, rng)
        inside = {"row": split.test.index, "column": column, "inside": (pit >= 0.1) & (pit <= 0.9)}
        covered = np.where(np.isnan(low), np.nan, (low <= x) & (x <= high))
        found.append(pd.DataFrame({**inside, "covered": covered})[lost])
    return pd.concat(found)


def auc(options: argparse.Namespace) -> None:
    """Print how well boosting tells samples from held-out rows."""
    print_title("auc: boosting against samples, * if the best density misses the bar")
    print_row("table", "samples", "all rows", "less real", "300 rows", "less real", "fit s")
    for name in chosen(options, tuple(AUC_BARS)):
        table = load(name, options.n_rows)
        table = table.astype(dict.fromkeys(numbers_of(table), np.float64))
        parts, found = list(splits(table, options.splits)), {}
        real = np.array([_areas(split, split.train) for split in parts])
        print_row(name, "real", *_beside(real, np.nan))
        for label in options.models:
            models, seconds = zip(*(fitted(DENSITIES[label], split.train) for split in parts))
            samples = [
                model.sample(len(split.test), random_state=split.seed)
                for model, split in zip(models, parts)
            ]
            areas = np.array([_areas(split, rows) for split, rows in zip(parts, samples)])
            found[label] = areas.mean(axis=0)
            print_row(name, label, *_beside(areas, real), f"{np.median(seconds):.2f}")
        for place, (rows, bar) in enumerate(zip(("all", AUC_ROWS), AUC_BARS[name])):
            best = min(found, key=lambda label: found[label][place])
            area = found[best][place]
            limit = f"bar {bar:.2f}" if bar < np.inf else "no bar"
            print_row(name, f"best of {rows}", best, f"{area:.3f}{star(area > bar)}", limit)


def _beside(areas: np.ndarray, real: np.ndarray | float) -> list[str]:
    """Areas and their distances from those of real rows, for each number of held-out rows."""
    found = [(of_splits(a), of_splits(d)) for a, d in zip(areas.T, (areas - real).T)]
    return [cell for a, d in found for cell in (str(a), "" if np.isnan(d.mean) else str(d))]


def _areas(split: Split, rows: pd.DataFrame) -> list[float]:
    """Areas under the curve with all held-out rows and with few of them."""
    few = split._replace(test=split.test[:AUC_ROWS])
    return [auc_of_boosting(part, rows) for part in (split, few)]


def loglik(options: argparse.Namespace) -> None:
    """Print held-out log densities, errors of completions, and seconds."""
    print_title("loglik: held-out log density, and error of complete")
    print_row("table", "density", "margins", "log density", "less plain", "nrmse", "fit s")
    densities: dict[str, list[str]] = {}
    for name in chosen(options, TABLES):
        parts = list(splits(load(name, options.n_rows), options.splits))
        rows = held_out_rows(parts)
        for label in options.models:
            plain = None
            for margins, model in _margins(DENSITIES[label]):
                models, seconds, scores = fits_and_scores(model, parts)
                less = "" if plain is None else str(of_rows(scores - plain, rows))
                plain = scores if margins == "plain" else plain
                error = of_splits([_nrmse(m, split) for m, split in zip(models, parts)])
                found = of_rows(scores, rows)
                print_row(name, label, margins, str(found), less, str(error), f"{seconds:.2f}")
            cell = f"{found.mean:.2f} ± {found.se:.2f} ({error.mean:.3f})"
            densities.setdefault(name, []).append(cell)
    _write(options, "numbers_loglik", densities)


def _margins(model) -> list[tuple]:
    """A density with each kind of margins; just itself where there is no choice."""
    if "margins" not in model.get_params():
        return [("", model)]
    return [(margins, clone(model).set_params(margins=margins)) for margins in ("plain", "auto")]


def _nrmse(model, split: Split) -> float:
    removed, test = split.removed(), split.test
    filled, errors = model.complete(test.mask(removed)), []
    for column in numbers_of(test):
        lost = removed[:, test.columns.get_loc(column)]
        if lost.any() and test[column].var() > 0.0:
            gap = (filled[column] - test[column])[lost]
            errors.append((gap**2).mean() / test[column].var())
    return float(np.sqrt(np.mean(errors)))


def components(options: argparse.Namespace) -> None:
    """Print what mixtures of cutset networks gain over one network."""
    print_title("components: held-out log density, less that of one network")
    heads = [f"{size} components" for size in N_COMPONENTS]
    print_row("table", "one network", *heads, "fit s, 1", *(f"{size}" for size in N_COMPONENTS))
    for name in chosen(options, TABLES):
        parts = list(splits(load(name, options.n_rows), options.splits))
        rows = held_out_rows(parts)
        _, second, one = fits_and_scores(CutsetNetworkBD(random_state=0), parts)
        cells, seconds = [], [second]
        for size in N_COMPONENTS:
            model = CutsetNetworkBD(n_components=size, random_state=0)
            _, second, scores = fits_and_scores(model, parts)
            gain = of_rows(scores - one, rows)
            cells.append(f"{gain}{star(gain.below(0.0, 0.05, 2.0))}")
            seconds.append(second)
        print_row(name, str(of_rows(one, rows)), *cells, *(f"{second:.2f}" for second in seconds))


def smoothing(options: argparse.Namespace) -> None:
    """Print what other equivalent sample sizes gain over the default."""
    print_title("smoothing: held-out log density, less that of the default param_ess")
    heads = [f"{size:g}" for size in PARAM_ESS]
    print_row("table", "default", *heads, "default-best", "fit s, default", *heads)
    for name in chosen(options, TABLES):
        parts = list(splits(load(name, options.n_rows), options.splits))
        rows = held_out_rows(parts)
        _, second, default = fits_and_scores(CutsetNetworkBD(random_state=0), parts)
        gains, seconds = [], [second]
        for size in PARAM_ESS:
            model = CutsetNetworkBD(param_ess=size, random_state=0)
            _, second, scores = fits_and_scores(model, parts)
            gains.append(of_rows(scores - default, rows))
            seconds.append(second)
        best = max(gains, key=lambda gain: gain.mean)
        lead = Estimate(-best.mean, best.se)
        cells = [str(of_rows(default, rows)), *map(str, gains)]
        cells.append(f"{lead}{star(lead.below(0.0, 0.1, 2.0))}")
        print_row(name, *cells, *(f"{second:.2f}" for second in seconds))


def binary(options: argparse.Namespace) -> None:
    """Print the default smoothing and the criterion's own on the Twenty Datasets."""
    print_title("binary: test log-likelihood, default param_ess and None")
    print_row("set", "default", "None", "difference", "fit s", "fit s, None", "ratio")
    names = SETS[:2] if options.quick else SETS
    for name in chosen(options, names):
        data = fetch_debd(name)
        train = np.vstack([data.train, data.valid]).astype(float)
        test, rows = data.test.astype(float), np.arange(len(data.test))
        default = CutsetNetworkBD(categories=[[0, 1]] * data.n_features, random_state=0)
        fitted(default, train[:200])
        plain = clone(default).set_params(param_ess=None)
        models, seconds = zip(*_fits([default, plain], train))
        new, old = (model.score_samples(test) for model in models)
        gain, ratio = of_rows(new - old, rows), seconds[0] / seconds[1]
        print_row(
            name,
            f"{new.mean():.3f}",
            f"{old.mean():.3f}",
            f"{gain}{star(gain.mean < -0.01)}",
            *(f"{second:.3f}" for second in seconds),
            f"{ratio:.2f}{star(ratio > 1.3)}",
        )


def _fits(models: list, rows: np.ndarray) -> list[tuple]:
    """A fitted clone of each model, and the fewest seconds of three fits, taken in turn."""
    rounds = [[fitted(model, rows) for model in models] for _ in range(3)]
    return [(fits[0][0], min(second for _, second in fits)) for fits in zip(*rounds)]


SECTIONS = {
    "atoms": atoms,
    "calibration": calibration,
    "auc": auc,
    "loglik": loglik,
    "components": components,
    "smoothing": smoothing,
    "binary": binary,
    "gaussian": gaussian,
    "factors": factors,
    "completion": completion,
    "speed": speed,
}
BESIDE_RIVALS = ("gaussian", "factors", "completion", "speed")

if __name__ == "__main__":
    main()
