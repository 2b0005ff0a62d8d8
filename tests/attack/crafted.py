"""Crafted circuit files: each is refused with a clear error, or answers as a slow truth does.

``python -m tests.attack.crafted {few,all} SEED COUNT FOLDER`` damages arrays of saved circuits and
loads what has become of them. The file ``found.json`` in the folder tells what happened, the file
``trying`` which damage is being tried, should the process crash.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from skpc import CutsetNetworkBD, SoftLearnSPN, TableMixture
from skpc.circuit import LEAF, PRODUCT, Circuit, load_circuit, save_circuit
from skpc.factor_graphs import compile, load_asia
from skpc.queries import condition, log_likelihood, marginals, moments, mpe, sample, score_cells
from skpc.variables import BLOCK
from tests.naive import blocks
from tests.naive import circuit as naive
from tests.zoo import (
    random_block_circuit,
    random_circuit,
    random_deterministic_circuit,
    random_rows,
)

#: Densities below are lost in the slow truth, which has no logarithms.
SMALLEST = 1e-200
INTEGERS = [-1, 0, 1, 2, 3, 5, 100, 32767, 32768, 10**9, 2**31, 2**62, -(2**63), 2**63 - 1]
NUMBERS = [-1.0, 0.0, 0.5, 1.0, 2.0, 1e9, 1e308, -1e308, 5e-324, 1e-310]
NUMBERS += [math.nan, math.inf, -math.inf]


def circuits(which: str) -> list[tuple[str, Circuit]]:
    """Small circuits by name: made by hand and, for ``all``, by every learner."""
    found = [(f"random {kind}", random_circuit(3, 3, kind)) for kind in ("mixed", "counts")]
    found += [("deterministic", random_deterministic_circuit(2)), ("asia", compile(load_asia()))]
    found += [("blocks", random_block_circuit(1)), ("histograms", random_circuit(5, 2, "atoms"))]
    plain = random_circuit(2, 4, "discrete")
    found.append(("conditioned", condition(plain, [math.nan, 1.0, math.nan, 0.0])))
    if which == "all":
        found += learned_circuits()
    return found


def learned_circuits() -> list[tuple[str, Circuit]]:
    rng = np.random.default_rng(0)
    switch = rng.integers(0, 3, 300)
    table = np.column_stack(
        [switch, (switch + (rng.random(300) < 0.2)) % 3, rng.integers(0, 2, 300)]
    )
    numbers = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3)) + switch[:, np.newaxis]
    numbers[rng.random(300) < 0.3, 0] = 0.0
    mixed = np.column_stack([table[:, :2], numbers])
    learners: dict[str, tuple[Any, np.ndarray]] = {
        "cutset": (CutsetNetworkBD(), table),
        "cutset of a mixed table": (CutsetNetworkBD(), mixed),
        "soft with blocks": (SoftLearnSPN(random_state=0), mixed),
        "soft of single numbers": (SoftLearnSPN(random_state=0, leaves="univariate"), mixed),
        "table mixture": (TableMixture(n_components=2, random_state=0), mixed),
    }
    return [(name, model.fit(X).circuit_) for name, (model, X) in learners.items()]


def density(circuit: Circuit, row: np.ndarray) -> float:
    """Slow truth: the density of a row, node by node."""
    given, row = circuit.observed, np.where(np.isnan(circuit.observed), row, circuit.observed)
    value = [0.0] * circuit.n_nodes
    for node in range(circuit.n_nodes):
        edges = range(circuit.child_ptr[node], circuit.child_ptr[node + 1])
        below = [value[child] for child in circuit.child[edges]]
        if circuit.kind[node] == PRODUCT:
            value[node] = math.prod(below)
        elif circuit.kind[node] != LEAF:
            value[node] = math.fsum(
                math.exp(circuit.log_weight[e]) * v for e, v in zip(edges, below)
            )
        elif circuit.leaf_family[node] == BLOCK:
            # What has been given counts among the cells of a block, and is divided out again.
            both, alone = (blocks.worlds_of_leaf(circuit, node, cells) for cells in (row, given))
            value[node] = math.fsum(w.prob for w in both) / math.fsum(w.prob for w in alone)
        else:
            value[node] = naive.leaf_density(circuit, node, row[circuit.leaf_var[node]])
    return value[-1]


def damaged(rng: np.random.Generator, arrays: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Other arrays, and what was done to them."""
    found, told = dict(arrays), []
    for _ in range(1 + (rng.random() < 0.3)):
        name = str(rng.choice(sorted(found)))
        change = [one_entry, one_entry, one_entry, as_a_whole, as_parameters][rng.integers(5)]
        found[name], how = change(rng, np.asarray(found[name]))
        told.append(f"{name}: {how}")
    if rng.random() < 0.05:
        del found[name]
        told.append(f"no {name}")
    return found, "; ".join(told)


def one_entry(rng: np.random.Generator, array: np.ndarray) -> tuple[np.ndarray, str]:
    """Change an entry, or exchange two."""
    if array.size == 0 or array.dtype.kind not in "if":
        return array, "as it was"
    changed = array.astype(np.float64 if array.dtype.kind == "f" else np.int64).ravel()
    at, other = rng.integers(0, changed.size, 2)
    if rng.random() < 0.2:
        changed[[at, other]] = changed[[other, at]]
        return changed.reshape(array.shape), f"entries {at} and {other} exchanged"
    old = changed[at].item()
    near = [old + 1, old - 1, -old] if isinstance(old, int) else [old * 1.1, -old, old + 1e-4]
    options = near + (INTEGERS if isinstance(old, int) else NUMBERS)
    new = options[rng.integers(len(options))]
    if isinstance(old, int):
        new = max(-(2**63), min(int(new), 2**63 - 1))
    changed[at] = new
    return changed.reshape(array.shape), f"entry {at} is {new}, not {old}"


def as_a_whole(rng: np.random.Generator, array: np.ndarray) -> tuple[np.ndarray, str]:
    """Change the type, the shape or the order of an array."""
    changes = {
        "backwards": lambda: array[::-1],
        "rolled": lambda: np.roll(array, 1),
        "without its last": lambda: array[:-1],
        "with one more": lambda: np.append(array, array[-1:]),
        "empty": lambda: array[:0],
        "twice": lambda: np.tile(array, 2),
        "as a column": lambda: array[:, np.newaxis],
        "a number": lambda: array[0],
        "all the same": lambda: np.full_like(array, array[0]),
        "floats": lambda: array.astype(np.float64) + 0.5,
        "float32": lambda: array.astype(np.float32),
        "words": lambda: array.astype(str),
        "complex": lambda: array.astype(complex),
        "bool": lambda: array.astype(bool),
        "shifted": lambda: array + np.asarray(1, dtype=array.dtype),
        "unsigned": lambda: array.astype(np.int64).astype(np.uint64),
        "scaled": lambda: array * np.asarray(2, dtype=array.dtype),
    }
    how = str(rng.choice(sorted(changes)))
    if array.ndim == 0 or array.size == 0 or array.dtype.kind not in "if":
        return np.append(array, 4), "with one more"
    return changes[how](), how


def as_parameters(rng: np.random.Generator, array: np.ndarray) -> tuple[np.ndarray, str]:
    """Change numbers so that much stays true: entries change places, or halves of mass do."""
    if array.ndim == 0 or array.size < 4 or array.dtype.kind != "f":
        return one_entry(rng, array)
    changed = array.astype(np.float64)
    begin, end = np.sort(rng.choice(array.size + 1, 2, replace=False))
    if rng.random() < 0.5:
        changed[begin:end] = changed[begin:end][::-1]
        return changed, f"entries from {begin} to {end} backwards"
    at = int(rng.integers(0, array.size - 1))
    total = np.logaddexp(changed[at], changed[at + 1])
    changed[at : at + 2] = total + np.log([0.25, 0.75])
    return changed, f"entries {at} and {at + 1} share their mass anew"


def verdict(path: Path, rows: np.ndarray) -> str:
    """What becomes of a file: refused, the same as the truth, or beyond it; else what is wrong."""
    try:
        circuit = load_circuit(path)
    except ValueError as error:
        clear = str(error).startswith(str(path)) and len(str(error)) > len(str(path)) + 20
        return "refused" if clear else f"the error is not clear: {error}"
    if circuit.n_features != rows.shape[1]:
        rows = random_rows(0, circuit, 2)
    told = asked(circuit, rows)
    if not told:
        return "beyond"
    for question in (marginals, moments, mpe, score_cells):
        try:
            question(circuit, rows)
        except ValueError as error:
            if len(str(error)) < 20:
                return f"{question.__name__} is not clear: {error}"
    sample(circuit, 3, random_state=0)
    return told


def asked(circuit: Circuit, rows: np.ndarray) -> str:
    """Compare log densities with the slow truth; empty where that does not reach."""
    try:
        answers = log_likelihood(circuit, rows)
    except ValueError as error:
        # Another kind of variable than that of the rows.
        return "same" if "circuits read encoded rows" in str(error) else f"not clear: {error}"
    n_compared = 0
    for row, answer in zip(rows, answers):
        try:
            expected = density(circuit, row)
        except (OverflowError, ZeroDivisionError, ValueError):
            continue
        if not math.isfinite(expected):
            continue
        n_compared += 1
        if expected < SMALLEST:
            if not answer < math.log(SMALLEST) + 1.0:
                return f"log density {answer}, but the truth is below {math.log(SMALLEST)}"
        elif not abs(answer - math.log(expected)) < 1e-6 * max(1.0, abs(answer)):
            return f"log density {answer}, but the truth is {math.log(expected)}"
    return "same" if n_compared else ""


def main() -> None:
    """Damage, load and ask; write down what happened."""
    which, seed, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    warnings.simplefilter("ignore")
    rng, path = np.random.default_rng(seed), folder / "crafted.npz"
    originals = []
    for name, circuit in circuits(which):
        save_circuit(circuit, path)
        with np.load(path) as file:
            arrays = dict(file)
        rows = random_rows(1, circuit, 4)
        told = verdict(path, rows)
        if told != "same":
            raise SystemExit(f"{name} as it is: {told}")
        originals.append((name, arrays, rows))
    counts: Counter[str] = Counter()
    wrong = []
    for case in range(count):
        name, arrays, rows = originals[case % len(originals)]
        crafted, how = damaged(rng, arrays)
        (folder / "trying").write_text(f"case {case}, {name}: {how}")
        np.savez(path, **crafted)
        try:
            told = verdict(path, rows)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
        if told not in ("refused", "same", "beyond"):
            wrong.append(f"case {case}, {name}: {how}: {told}")
            told = "wrong"
        counts[told] += 1
    (folder / "found.json").write_text(json.dumps({"counts": counts, "wrong": wrong}))


if __name__ == "__main__":
    main()
