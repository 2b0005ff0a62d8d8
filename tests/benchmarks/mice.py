"""R's mice as a rival, where R and its package are installed (Debian: ``r-cran-mice``).

The package mice chooses predictive mean matching for numbers, logistic regression for two
categories and multinomial logistic regression for more. ``method`` names another way for all
columns: "cart" (trees), "rf" (forests).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pandas as pd

_SCRIPT = """
suppressMessages(library(mice))
arguments <- commandArgs(TRUE)
folder <- arguments[1]
n <- as.integer(arguments[2])
method <- arguments[3]
for (file in Sys.glob(file.path(folder, "in_*.csv"))) {
  table <- read.csv(file, stringsAsFactors = TRUE, na.strings = "NA")
  number <- as.integer(sub(".*in_([0-9]+).csv", "\\\\1", file))
  set.seed(number)
  start <- proc.time()
  if (method == "default") {
    filled <- mice(table, m = n, maxit = 5, printFlag = FALSE)
  } else {
    filled <- mice(table, m = n, maxit = 5, method = method, printFlag = FALSE)
  }
  seconds <- (proc.time() - start)[["user.self"]]
  long <- complete(filled, "long")
  write.csv(long, sub("in_", "out_", file), row.names = FALSE)
  cat(seconds, file = sub("csv$", "time", sub("in_", "out_", file)))
}
"""


@cache
def is_installed() -> bool:
    """Whether R and mice are here; says so once where they are not."""
    rscript = shutil.which("Rscript")
    if rscript is not None:
        check = [rscript, "-e", "library(mice); library(nnet)"]
        if subprocess.run(check, capture_output=True).returncode == 0:
            return True
    print("mice is left out: R or its packages mice and nnet are not installed.")
    return False


def impute(
    tables: Sequence[pd.DataFrame], n: int, method: str = "default"
) -> list[tuple[list[pd.DataFrame], float]]:
    """Complete each table ``n`` times; with the CPU seconds that each table took.

    Columns of strings are categories. A table that mice cannot complete raises RuntimeError.
    """
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, table in enumerate(tables):
            renamed = table.set_axis([f"c{k}" for k in range(table.shape[1])], axis=1)
            is_string = renamed.select_dtypes(exclude="number").columns
            # R would read strings of digits as numbers, and some words as missing cells.
            renamed[is_string] = "=" + renamed[is_string]
            renamed.to_csv(folder / f"in_{number:05d}.csv", index=False, na_rep="NA")
        script = folder / "impute.R"
        script.write_text(_SCRIPT)
        command = ["Rscript", str(script), name, str(n), method]
        run = subprocess.run(command, capture_output=True, text=True)
        for number, table in enumerate(tables):
            out = folder / f"out_{number:05d}.csv"
            if not out.exists():
                raise RuntimeError(f"mice ({method}) failed: {run.stderr.strip()[-500:]}")
            long = pd.read_csv(out, keep_default_na=False, na_values=["NA"])
            long = long.drop(columns=".id").set_axis([".imp", *table.columns], axis=1)
            for column in table.select_dtypes(exclude="number"):
                long[column] = long[column].str[1:].astype(object)
            parts = [
                part.drop(columns=".imp").set_axis(table.index) for _, part in long.groupby(".imp")
            ]
            results.append((parts, float(out.with_suffix(".time").read_text())))
    return results
