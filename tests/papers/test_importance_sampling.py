"""Collapsed importance sampling, section 7.2 of "Tractable Computation of Expected Kernels".

Needs the data (SKPC_DATA) and two minutes. The paper shows a picture and no numbers; the bars are
those of trials with exact averages over all completions.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpc.factor_graphs import compile, load_asia, log_partition, read_uai
from skpc.queries import marginals
from tests.benchmarks import cbbis

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stored():
    return Path(os.environ["SKPC_DATA"]) / "cbbis"


def test_the_stored_grid_has_its_published_marginals_and_partition_function(stored):
    graph = read_uai(stored / "ising_4x4_rand_id0.uai")
    with np.load(stored / "ising_4x4_rand_id0.marginals.npz") as file:
        exact, published = file["exact"], file["published"]
        assert log_partition(graph) == pytest.approx(float(file["log_Z"]), abs=1e-12)
    found = np.array([m[0] for m in marginals(compile(graph), np.full((1, 16), np.nan))]).T
    assert_allclose(found, exact, atol=1e-12)
    assert_allclose(found, published, atol=5e-7)


def test_the_shipped_asia_network_is_the_stored_one(stored):
    shipped, graph = load_asia(), read_uai(stored / "asia.uai")
    assert shipped.scopes == graph.scopes
    for table, expected in zip(shipped.log_tables, graph.log_tables):
        assert_allclose(np.exp(table), np.exp(expected), atol=1e-15)


@pytest.fixture(scope="module")
def errors():
    found, _ = cbbis.log_errors("ising", [200], range(40))
    return {method: logs[:, 0] for method, logs in found.items()}


@pytest.mark.parametrize(("method", "bar"), [("BBIS ratio 50 %", -4.4), ("BBIS barker 50 %", -4.6)])
def test_half_collapsed_samples_reach_the_accuracy_of_the_trials(errors, method, bar):
    assert errors[method].mean() <= bar


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("BBIS ratio 50 %", "BBIS ratio 25 %"),
        ("BBIS ratio 25 %", "BBIS ratio"),
        ("BBIS barker 50 %", "BBIS barker 25 %"),
        ("BBIS barker 25 %", "BBIS barker"),
        ("BBIS ratio 50 %", "Gibbs 50 %"),
        ("BBIS barker 50 %", "Gibbs 50 %"),
        ("Gibbs 50 %", "Gibbs"),
        ("BBIS barker", "Gibbs"),
    ],
)
def test_methods_are_ordered_beyond_a_standard_error(errors, better, worse):
    """On the same chains."""
    gain = errors[worse] - errors[better]
    assert gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain))
