"""The door for rows of numbers, and the blocks in which kernels see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from skpc._jit import kernel
from skpc.circuit import Circuit
from skpc.circuit.leaves import Columns, read_cell

__all__ = ["check_rows", "over_chunks", "read_block", "read_rows", "refuse_cell"]

#: Rows handed to one call of a kernel, and the unit of work of a thread.
CHUNK = 8192


def check_rows(circuit: Circuit, X: Any) -> np.ndarray:
    """Encoded rows as float64 of shape (n_rows, n_features), C-contiguous.

    Cells of variables that the circuit has been conditioned on take the value given then. States
    out of range are found later, by the kernel that reads the rows.
    """
    rows = read_rows(circuit, X)
    known = np.flatnonzero(~np.isnan(circuit.observed))
    if len(known):
        rows = rows.copy()
        rows[:, circuit.leaf_var[known]] = circuit.observed[known]
    return rows


def read_rows(circuit: Circuit, X: Any) -> np.ndarray:
    """The same without a look at what the circuit has been conditioned on."""
    if not isinstance(circuit, Circuit):
        raise TypeError(
            f"queries ask a Circuit, got {type(circuit).__name__}; the one of a fitted estimator "
            "is its circuit_"
        )
    try:
        rows = np.ascontiguousarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X must hold encoded rows of numbers ({error}); domain_.encode(table) of a fitted "
            "estimator makes them"
        ) from error
    if rows.ndim != 2 or rows.shape[1] != circuit.n_features:
        raise ValueError(
            f"X must have shape (n_rows, {circuit.n_features}), got {np.shape(X)}; "
            "NaN marks missing cells"
        )
    return rows


def refuse_cell(circuit: Circuit, rows: np.ndarray, cell: int, start: int) -> None:
    """Raise the error for a cell that no leaf can read; ``cell`` < 0 means there is none.

    The cell is counted within ``rows``, the first of which is row ``start`` of the caller's.
    """
    if cell < 0:
        return
    row, var = divmod(cell, circuit.n_features)
    n_states, found = int(circuit.n_states[var]), rows[row, var]
    row += start
    needed = f"one of the states 0..{n_states - 1}" if n_states else "a finite number"
    raise ValueError(
        f"X[{row}, {var}] must be {needed} or NaN (missing), got {found}; circuits read encoded "
        "rows, as made by an estimator or a Domain"
    )


def over_chunks(
    rows: np.ndarray, work: Callable[[np.ndarray, int], Any], chunk: int = CHUNK
) -> list[Any]:
    """Call ``work(part, start)`` on consecutive parts of the rows and list what it returns.

    The parts do not depend on the number of threads, which is the one of
    ``joblib.parallel_config`` (one by default), so neither do the results.
    """

    def task(start: int) -> Any:
        part = rows[start : start + chunk]
        # A read-only array (a memory map, say) would compile every kernel again.
        return work(part if part.flags.writeable else part.copy(), start)

    starts = range(0, len(rows), chunk)
    if len(starts) < 2 or effective_n_jobs(None) == 1:
        return [task(start) for start in starts]
    return Parallel(n_jobs=None, require="sharedmem")(delayed(task)(start) for start in starts)


@kernel
def read_block(
    columns: Columns,
    rows: np.ndarray,
    start: int,
    n: int,
    codes: np.ndarray,
    values: np.ndarray,
    base: np.ndarray,
    incomplete: np.ndarray,
) -> int:
    """Transpose a block of rows into states and values, one line a variable.

    ``base`` receives the log density that all leaves of the observed numeric cells have in
    common, ``incomplete[v]`` whether variable ``v`` is missing in any row. Returns the flat
    position of the first unreadable cell, or -1.
    """
    n_features = rows.shape[1]
    for r in range(n):
        base[r] = 0.0
    for var in range(n_features):
        missing = columns.n_states[var]
        incomplete[var] = 0
        for r in range(n):
            x = rows[start + r, var]
            values[var, r] = x
            if np.isnan(x) or columns.ignored[var]:
                codes[var, r] = missing
                values[var, r] = np.nan
                incomplete[var] = 1
            else:
                state, density = read_cell(columns, var, x)
                if state < 0:
                    return (start + r) * n_features + var
                codes[var, r] = state
                base[r] += density
    return -1
