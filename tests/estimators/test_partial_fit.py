"""Parameters of circuits that are adjusted to rows which come later."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from skpc import (
    CutsetNetworkBD,
    HiddenChowLiuTree,
    MixtureOfAllTrees,
    SoftLearnSPN,
    TableMixture,
)

MODELS = [
    CutsetNetworkBD(random_state=0),
    CutsetNetworkBD(n_components=2, param_ess=1.0, random_state=0),
    SoftLearnSPN(random_state=0),
    HiddenChowLiuTree(n_hidden=2, random_state=0),
    TableMixture(random_state=0),
    TableMixture(n_components=2, random_state=0),
]


def table(n_rows: int, seed: int, share: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    switch = rng.random(n_rows) < share
    numbers = rng.normal(size=(n_rows, 2)) + 3.0 * switch[:, np.newaxis] * [1, -1]
    return np.column_stack([switch, numbers, np.where(switch, rng.integers(0, 2, n_rows), 2)])


def test_the_tables_of_a_network_are_those_of_all_rows():
    first, more = (np.random.default_rng(seed).integers(0, 2, (500, 4)) for seed in range(2))
    first[:, 1], more[:, 1] = first[:, 0], more[:, 0]
    model = CutsetNetworkBD(max_depth=0, param_ess=1e-6).fit(first)
    model.partial_fit(more[:200]).partial_fit(more[200:])
    rows = np.vstack([first, more]).astype(float)
    for column in range(4):
        share = np.exp(model.score_samples(np.where(np.arange(4) == column, 1.0, np.nan)[None]))
        assert share[0] == pytest.approx(rows[:, column].mean(), rel=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("incomplete", [False, True])
def test_later_rows_draw_the_parameters_towards_them(model, incomplete):
    X, later = table(400, 0), table(4_000, 1, share=0.9)
    if incomplete:
        later[np.random.default_rng(0).random(later.shape) < 0.3] = np.nan
    model = clone(model).fit(X)
    structure, before = model.circuit_.child, model.score(table(2_000, 2, share=0.9))
    for part in np.array_split(later, 5):
        model.partial_fit(part)
    np.testing.assert_array_equal(model.circuit_.child, structure)
    assert model.score(table(2_000, 2, share=0.9)) > before + 0.1


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_row_of_weight_two_is_the_row_twice(model):
    X, later = table(300, 0), table(100, 1)
    twice = clone(model).fit(X).partial_fit(np.vstack([later, later])).score_samples(X)
    heavy = clone(model).fit(X).partial_fit(later, sample_weight=np.full(100, 2.0))
    np.testing.assert_allclose(heavy.score_samples(X), twice, rtol=1e-10)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_rows_distributed_like_the_model_change_little(model):
    X = table(4_000, 0)
    model = clone(model).fit(X)
    before = model.score(X)
    drawn = model.sample(2_000, random_state=0)
    assert model.partial_fit(drawn).score(X) == pytest.approx(before, abs=0.02)


def test_the_first_call_is_fit_and_later_ones_know_the_columns():
    frame = pd.DataFrame({"sky": ["sun", "rain"] * 50, "t": np.arange(100.0)})
    model = CutsetNetworkBD(random_state=0)
    first = clone(model).fit(frame).score_samples(frame)
    np.testing.assert_array_equal(model.partial_fit(frame).score_samples(frame), first)
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame.rename(columns={"t": "u"}))
    np.testing.assert_array_equal(model.score_samples(frame), first)


@pytest.mark.parametrize(
    "density",
    [CutsetNetworkBD(), MixtureOfAllTrees(max_iter=2, n_inference_samples=20, random_state=0)],
    ids=repr,
)
def test_rows_without_a_known_value_are_warned_of_and_refused_as_by_fit(density):
    X = np.random.default_rng(0).integers(0, 2, (200, 3)).astype(float)
    model = clone(density).fit(X)
    before = model.score_samples(X)
    with (
        pytest.raises(ValueError, match="missing, or a category that fit has not seen"),
        pytest.warns(UserWarning, match="200 of 200 rows, the first"),
    ):
        model.partial_fit(X + 2.0)
    assert_array_equal(model.score_samples(X), before)
