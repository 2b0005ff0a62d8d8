"""What fits to numbers cost."""

from __future__ import annotations

import argparse

from tests.benchmarks.numbers_tables import (
    DENSITIES,
    chosen,
    fitted,
    load,
    print_row,
    print_title,
    standardised,
    star,
)

#: The most CPU seconds of a fit.
FITS = {"breast_cancer": 2.0, "segment": 25.0, "diabetes": 3.0, "electricity": 40.0}
#: Rows of a first fit, which compiles.
_FEW = 60


def speed(options: argparse.Namespace) -> None:
    """Print CPU seconds of fits."""
    print_title("speed: CPU s of a fit to standardised numbers, * above the bar")
    print_row("table", *options.models, "bar")
    for name in chosen(options, tuple(FITS)):
        (split,) = standardised(load(name, options.n_rows), 1, mixed=False)
        cells = []
        for label in options.models:
            fitted(DENSITIES[label], split.train[:_FEW])
            _, seconds = fitted(DENSITIES[label], split.train)
            cells.append(f"{seconds:.2f}{star(seconds > FITS[name])}")
        print_row(name, *cells, f"{FITS[name]:g}")
