"""How close drawn tables are to real ones, by a classifier that tells them apart.

python -m tests.benchmarks.synthetic --rivals ENVIRONMENT/bin/python [--splits N] [TABLE ...]
    [--models ...] [--write doc/user_guide]

Half of the rows, at most 2,000, are learned from; as many rows are drawn, and compared with as many
rows of the other half. ``synthetic.txt`` lists the rivals, which live in an environment of their
own. "real" are the training rows themselves, "rows" such rows drawn with replacement (a classifier
tells rows that it has seen twice), "independent" shuffles each column (it must be told). "missing"
is the stack that learns with 30 % of the cells removed, "rules" the stack with the rules that were
found.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

from skpc import StackedDensity
from skpc.synthesis import RuledDensity, find_rules, table_report
from tests.benchmarks.cell_errors import decimals_of
from tests.benchmarks.guide_tables import add_write, write
from tests.benchmarks.mixed_tables import present, read

TABLES = [
    "doctor_visits",
    "medical_expenses",
    "panel_earnings",
    "schooling",
    "train_choices",
    "training_program",
]
RIVALS = ("arf", "copula", "ctgan", "tvae")
MODELS = ("stack", "real", "independent", *RIVALS, "rows", "rules", "missing")
_MOST = 2_000


def table_of(name: str) -> pd.DataFrame:
    """Complete rows of a table whose categories are strings: draws lack no cells, either."""
    folder = Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser() / "tables"
    table = read(name) if name in present() else pd.read_csv(folder / f"{name}.csv.gz")
    table = table.dropna().reset_index(drop=True)
    others = table.columns.difference(table.select_dtypes("number").columns)
    strings = table.columns.intersection(others)
    return table.astype(dict.fromkeys(strings, str)).astype(dict.fromkeys(strings, object))


def halves(table: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    order = np.random.default_rng(seed).permutation(len(table))
    size = min(len(table) // 2, _MOST)
    parts = order[:size], order[size : 2 * size]
    return tuple(table.iloc[part].reset_index(drop=True) for part in parts)


def drawn_by_rival(python: str, model: str, train: pd.DataFrame, seed: int) -> pd.DataFrame:
    strings = [name for name in train if train[name].dtype == object]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "train.csv", Path(folder) / "drawn.csv"
        train.to_csv(source, index=False)
        script = Path(__file__).with_name("rival_tables.py")
        command = [python, "-P", str(script), model, str(seed), str(len(train)), str(source)]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        subprocess.run(
            [*command, ",".join(strings), str(target)],
            check=True,
            capture_output=True,
            env=environment,
        )
        drawn = pd.read_csv(target, dtype=dict.fromkeys(strings, str), keep_default_na=False)
    # Digits that no row has would give any draw away.
    drawn = drawn.round({name: decimals_of(train[name]) for name in train.select_dtypes("number")})
    return drawn.astype(dict.fromkeys(strings, object))


def draws(model: str, train: pd.DataFrame, seed: int, python: str) -> tuple[pd.DataFrame, list]:
    rng = np.random.default_rng(seed)
    if model == "rows":
        return train.iloc[rng.integers(len(train), size=len(train))].reset_index(drop=True), []
    if model == "real":
        return train, []
    if model == "independent":
        return train.apply(lambda column: rng.permutation(column.to_numpy())), []
    if model in RIVALS:
        return drawn_by_rival(python, model, train, seed), []
    rules = [one.rule for one in find_rules(train).rules] if model == "rules" else []
    if model == "rules" and not rules:
        return None, []
    table = train.mask(rng.random(train.shape) < 0.3) if model == "missing" else train
    density = StackedDensity(n_jobs=1, random_state=seed)
    if model == "rules":
        density = RuledDensity(density, rules)
    drawn = density.fit(table).sample(len(train), random_state=seed)
    if model == "rules":
        check(density, train.mask(rng.random(train.shape) < 0.3), rules)
    return drawn, rules


def check(density: RuledDensity, holes: pd.DataFrame, rules: list[tuple]) -> None:
    """Print how many draws keep the rules at once, and how many completions in the end."""
    share = np.exp(density.log_normalizer_)
    print(f"      draws of the stack that keep all of {len(rules)} rules: {share:.2%}")
    for strategy in ("mean", "sample"):
        filled = density.complete(holes, strategy=strategy, random_state=0)
        broken = np.isneginf(density.score_samples(filled)).mean()
        print(f"      {strategy} completions that break one: {broken:.2%}")


def telling(held_out: pd.DataFrame, drawn: pd.DataFrame, seed: int) -> str:
    """The columns by which a classifier tells draws."""
    both = pd.concat([held_out, drawn[list(held_out)]], ignore_index=True)
    codes = both.apply(lambda c: pd.factorize(c, sort=True)[0] if c.dtype == object else c)
    y = np.repeat([0, 1], [len(held_out), len(drawn)])
    parts = train_test_split(codes, y, test_size=0.4, random_state=seed, stratify=y)
    model = HistGradientBoostingClassifier(random_state=seed).fit(parts[0], parts[2])
    found = permutation_importance(
        model, parts[1], parts[3], scoring="roc_auc", n_repeats=3, random_state=seed
    ).importances_mean
    best = np.argsort(-found)[:3]
    return ", ".join(f"{codes.columns[j]} {found[j]:.3f}" for j in best)


def run(name: str, seed: int, models: list[str], python: str) -> list[tuple]:
    train, held_out = halves(table_of(name), seed)
    lines = []
    for model in models:
        start = time.process_time()
        try:
            drawn, rules = draws(model, train, seed, python)
        except subprocess.CalledProcessError as error:
            last = error.stderr.decode().strip().splitlines()[-1:]
            print(f"{name:18s}{seed}  {model:12s} failed: {last}", flush=True)
            continue
        if drawn is None:
            print(f"{name:18s}{seed}  no rules", flush=True)
            continue
        seconds = time.process_time() - start
        report = table_report(train, drawn[list(train)], held_out, random_state=seed)
        kept = report.rules["kept"].min() if len(report.rules) else np.nan
        row = (
            *(report.auc, report.xgb_c2st, report.xgb_c2st_learned, report.shapes),
            *(report.trends, report.nearer, kept, seconds),
        )
        lines.append((name, seed, model, *row))
        cells = "".join(f"{cell:9.3f}" for cell in row)
        tells = telling(held_out, drawn, seed) if model == "stack" else ""
        print(f"{name:18s}{seed}  {model:12s}{cells}  {tells}", flush=True)
        if rules:
            print(f"      {rules}", flush=True)
    return lines


def summary(lines: list[tuple], folder: Path | None) -> None:
    """Mean AUC by table and model; that of the stack less each rival with its standard error."""
    columns = [
        "table",
        "seed",
        "model",
        "auc",
        "c2st",
        "learned",
        "shapes",
        "trends",
        "nearer",
        "kept",
        "seconds",
    ]
    frame = pd.DataFrame(lines, columns=columns)
    auc = frame.pivot_table(index=["table", "seed"], columns="model", values="auc")
    auc = auc[[model for model in MODELS if model in auc]]
    means = auc.groupby("table", sort=False).mean()
    print(means.round(3).to_string())
    rows = [[name, *(f"{area:.3f}" for area in areas)] for name, areas in means.iterrows()]
    write(folder, "synthetic_auc", [["table", *means], *rows])
    others = [*RIVALS, "missing", "rules"] if "stack" in auc else []
    for rival in auc.columns.intersection(others):
        gap = (auc["stack"] - auc[rival]).groupby("table")
        text = pd.DataFrame({"mean": gap.mean(), "se": gap.std() / np.sqrt(gap.count())}).round(3)
        print(f"stack less {rival}\n{text.to_string()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=[*present(), *TABLES])
    parser.add_argument("--models", nargs="*", default=MODELS, choices=MODELS)
    parser.add_argument("--splits", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--rivals", default="", help="python of the environment of the rivals")
    add_write(parser)
    options = parser.parse_args()
    names = [name for name in ("bank", "electricity", "segment", "cmc", *TABLES)]
    tables = [name for name in options.tables if name in names]
    models = [model for model in options.models if options.rivals or model not in RIVALS]
    warnings.simplefilter("ignore")
    heading = ["auc", "c2st", "learned", "shapes", "trends", "nearer", "kept", "seconds"]
    print(" " * 33 + "".join(f"{one:>9s}" for one in heading))
    lines: list[tuple] = []
    for name in tables:
        for seed in options.splits:
            lines += run(name, seed, models, options.rivals)
    summary(lines, options.write)


if __name__ == "__main__":
    main()
