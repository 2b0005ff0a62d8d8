"""Small tables, completed once: does CircuitImputer choose what fills them best?

    SKPC_DATA=... python -m tests.benchmarks.completion_small [names ...] [--rows 16 30 50 100]
        [--masks 20] [--keep FOLDER]

Each mask draws rows of a table (its number is the seed) and removes 30 % of their cells at random;
imputers fill the table that they learn from. Columns with one value left are dropped. Errors are
those of ``tests.benchmarks.imputation``, as are the single schemes: column means and most frequent
states, and IterativeImputer (Bayesian ridge regressions); and TableMixture. Printed are means over
tables and masks, and the mean difference from CircuitImputer with its standard error, masks of a
table being paired; below zero CircuitImputer is ahead. Then, for each table, the difference from
the scheme that is best on the even masks, judged on the odd ones. Large tables are compared by
``tests.benchmarks.imputation --single``.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from skpc import CircuitImputer, TableMixture
from tests.benchmarks.imputation import METHODS, cell_errors, subsample, whole_table
from tests.benchmarks.numbers_tables import Estimate, kept, of_splits, print_row, print_title

TABLES = (
    *("wine", "diabetes", "economics", "breast_cancer", "cmc", "electricity", "segment"),
    *("panel_earnings", "training_program", "train_choices", "schooling", "doctor_visits"),
    *("medical_expenses", "bank"),
)
_KINDS = ("numbers", "categories")
_SCHEMES = ("CircuitImputer", "means", "ridge", "TableMixture")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=TABLES)
    parser.add_argument("--rows", type=int, nargs="*", default=[16, 30, 50, 100])
    parser.add_argument("--masks", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="folder of figures that are not measured again")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for n_rows in options.rows:
        errors = {}
        for name in options.names:
            whole = whole_table(name)
            of_masks = [
                [
                    kept(
                        options,
                        partial(_measured, whole, n_rows, mask, label),
                        *("completion", name, n_rows, mask, label),
                    )["errors"]
                    for label in _SCHEMES
                ]
                for mask in range(options.masks)
            ]
            errors[name] = np.array(of_masks, float)
        _print(n_rows, errors)


def _measured(whole: pd.DataFrame, n_rows: int, mask: int, label: str) -> dict[str, np.ndarray]:
    truth, removed = subsample(whole, n_rows, "MCAR", 0.3, mask)
    table = truth.mask(removed)
    if label == "TableMixture":
        imputer = CircuitImputer(TableMixture(random_state=0), random_state=0)
        filled = imputer.set_output(transform="pandas").fit_transform(table)
    else:
        filled = METHODS[label].complete(table, 1, 0)[0][0]
    return {"errors": np.array(cell_errors(truth, filled, removed))}


def _print(n_rows: int, errors: dict[str, np.ndarray]) -> None:
    """Means over tables, and each table against the best scheme; errors: masks, labels, kinds."""
    print_title(f"{n_rows} rows")
    print_row("scheme", *(f"{kind}, difference" for kind in _KINDS))
    for place, label in enumerate(_SCHEMES):
        cells = []
        for kind in range(len(_KINDS)):
            own = [_finite(one[:, place, kind]).mean() for one in errors.values()]
            gaps = [
                of_splits(_finite(one[:, 0, kind] - one[:, place, kind])) for one in errors.values()
            ]
            gaps = [gap for gap in gaps if np.isfinite(gap.mean)]
            se = np.sqrt(np.sum(np.square([gap.se for gap in gaps]))) / len(gaps)
            gap = Estimate(float(np.mean([gap.mean for gap in gaps])), float(se))
            cells.append(f"{np.nanmean(own):.3f}  {gap}")
        print_row(label, *cells)
    print_row("table", *(f"{kind}, best scheme, difference" for kind in _KINDS))
    near = 0
    for name, one in errors.items():
        cells, is_near = [], True
        for kind in range(len(_KINDS)):
            even, odd = one[::2, :, kind], one[1::2, :, kind]
            if np.isnan(even).all():
                cells.append("--")
                continue
            best = min(range(1, len(_SCHEMES)), key=lambda place: np.nanmean(even[:, place]))
            gap = of_splits(_finite(odd[:, 0] - odd[:, best]))
            is_near &= bool(gap.mean <= gap.se)
            cells.append(f"{np.nanmean(odd[:, 0]):.3f}  {_SCHEMES[best]}  {gap}")
        near += is_near
        print_row(name, *cells, "" if is_near else "*")
    print_row(f"ahead or within one standard error: {near} of {len(errors)} tables")


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


if __name__ == "__main__":
    main()
