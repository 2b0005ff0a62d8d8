"""Thousands of crafted circuits and mutated factor graphs; kills and threads while saving."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest

from skpc.circuit import save_circuit
from skpc.factor_graphs import load_asia, write_uai
from tests.factor_graphs.test_uai import GOOD, WORDS, graph_or_clear_error
from tests.test_files import ROOT, kill_while_saving, save_and_load_in_threads
from tests.zoo import random_circuit, random_factor_graph

pytestmark = pytest.mark.attack


def test_no_crafted_circuit_of_any_learner_crashes_or_lies(tmp_path):
    command = [sys.executable, "-m", "tests.attack.crafted", "all", "1", "3000", str(tmp_path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert found.returncode == 0, (tmp_path / "trying").read_text() + found.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["wrong"] == []
    assert sum(found["counts"].values()) == 3000
    assert found["counts"]["same"] > 200


def test_kills_at_any_moment_leave_a_whole_file(tmp_path):
    save_circuit(random_circuit(0), tmp_path / "c.npz")
    kill_while_saving(tmp_path / "c.npz", 12)


def test_eight_threads_save_and_load_at_one_path_for_long(tmp_path):
    assert save_and_load_in_threads(tmp_path / "c.npz", 60) == []
    assert [path.name for path in tmp_path.iterdir()] == ["c.npz"]


def mutated(rng, text):
    """Change some words, lines and bytes of a file."""
    words = text.replace(b"\n", b" \n ").split(b" ")
    for _ in range(rng.integers(1, 5)):
        at, size = int(rng.integers(len(words))), int(rng.integers(0, 3))
        new = WORDS[rng.integers(len(WORDS))] if rng.random() < 0.7 else words[-at]
        words[at : at + size] = [new] * int(rng.integers(0, 3))
    damaged = bytearray(b" ".join(words))
    for _ in range(rng.integers(0, 3)):
        damaged[rng.integers(len(damaged))] = rng.integers(256)
    return bytes(damaged[: rng.integers(len(damaged))] if rng.random() < 0.1 else damaged)


def test_thousands_of_mutated_uai_files_are_read_or_refused_by_line(tmp_path):
    rng, originals = np.random.default_rng(0), [GOOD]
    for graph in (load_asia(), *(random_factor_graph(seed, zeros=0.2) for seed in range(4))):
        write_uai(graph, tmp_path / "graph.uai")
        originals.append((tmp_path / "graph.uai").read_bytes())
    slowest = 0.0
    for case in range(6000):
        start = time.process_time()
        graph_or_clear_error(mutated(rng, originals[case % len(originals)]))
        slowest = max(slowest, time.process_time() - start)
    assert slowest < 2.0
