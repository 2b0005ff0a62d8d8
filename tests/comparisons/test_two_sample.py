import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

from skpc import CutsetNetworkBD, SoftLearnSPN
from skpc.comparisons import two_sample_test
from skpc.comparisons.two_sample import (
    PATTERN,
    PairScores,
    cell_values,
    compare_columns,
    draw_labels,
    squared_discrepancies,
    standardised_differences,
)
from skpc.domain import Declared, Domain
from skpc.kernels import ExponentialHamming
from skpc.queries import expected_gram
from tests.naive import comparisons as naive


def table(n_rows: int, seed: int, missing: float = 0.0) -> pd.DataFrame:
    """A number, a category that depends on it, and another category."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n_rows)
    kind = np.where(size + 0.3 * rng.normal(size=n_rows) > 0.0, "large", "small")
    frame = pd.DataFrame({"size": size, "kind": kind, "other": rng.choice(list("abc"), n_rows)})
    return frame.mask(rng.random(frame.shape) < missing)


@pytest.fixture(scope="module")
def density():
    return CutsetNetworkBD(random_state=0).fit(table(800, seed=0, missing=0.2))


def compared(density, rows: pd.DataFrame) -> np.ndarray:
    """What is compared: log densities of cells, ranks, indicators of categories, missing cells."""
    indicators = pd.get_dummies(rows["other"], dtype=float).where(rows["other"].notna())
    large = rows["kind"].eq("large").where(rows["kind"].notna()).astype(float)
    parts = [density.score_cells(rows), rows["size"].rank(), large, indicators, rows.isna()]
    return pd.concat(parts, axis=1).to_numpy(dtype=float)


def labels_of(n_rows: int, n_partitions: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((n_rows, n_partitions)) < 0.4).astype(float)


def test_differences_of_means_equal_plain_loops():
    rng = np.random.default_rng(0)
    values = np.where(rng.random((12, 4)) < 0.3, np.nan, rng.normal(size=(12, 4)))
    values[:, 2], values[1:, 3] = 1.0 / 3.0, np.nan
    labels = labels_of(12, 5)
    result = standardised_differences(values, labels)
    for k, column in np.ndindex(5, 4):
        expected = naive.standardised_difference(values[:, column], labels[:, k] == 1.0)
        assert result[column, k] == pytest.approx(expected, abs=1e-12)


def test_discrepancies_equal_double_sums():
    rng = np.random.default_rng(1)
    gram = rng.random((9, 9))
    gram += gram.T
    np.fill_diagonal(gram, 0.0)
    labels = np.zeros((9, 3))
    labels[[0, 1, 2, 4], 0] = labels[[5, 6], 1] = labels[3:, 2] = 1.0
    result = squared_discrepancies(gram, labels)
    expected = [naive.squared_discrepancy(gram, column == 1.0) for column in labels.T]
    np.testing.assert_allclose(result, expected)


def test_scores_of_pairs_equal_plain_loops():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, [2, 3, 4], size=(40, 3)).astype(float)
    codes[:, 1] = np.where(rng.random(40) < 0.8, codes[:, 0], codes[:, 1])
    codes[rng.random(codes.shape) < 0.2] = np.nan
    domain = Domain.fit(codes, Declared(categories=[range(2), range(3), range(4)]))
    result = PairScores(domain).score_cells(codes)
    np.testing.assert_allclose(result, naive.pair_scores(codes, [2, 3, 4]))
    assert np.nanstd(result[:, 0]) > 0.05


def test_a_column_that_says_nothing_is_no_trouble():
    A, B = table(40, seed=1), table(40, seed=2)
    A["other"], B["other"] = 1.0, 1.0
    A["empty"], B["empty"] = np.nan, np.nan
    with pytest.warns(UserWarning, match="empty"):
        columns = two_sample_test(A, B, n_permutations=19, random_state=0).columns
    assert (columns.loc[["other", "empty"], "statistic"] == 0.0).all()


@pytest.mark.parametrize("groups", [None, ([0, 0, 1, 2], [3, 4, 4, 5])])
def test_pvalue_is_that_of_all_partitions_of_eight_rows(density, groups):
    A, B = table(4, seed=1, missing=0.2), table(4, seed=2, missing=0.2)
    B["size"] = 3.0
    result = two_sample_test(A, B, density, groups=groups, n_permutations=20_000, random_state=0)
    values = compared(density, pd.concat([A, B], ignore_index=True))
    unit = np.arange(8) if groups is None else np.concatenate(groups)
    is_second = np.repeat([False, True], 4)
    exact = naive.exact_pvalue(
        lambda second: naive.greatest_difference(values, second), is_second, unit
    )
    assert result.statistic == pytest.approx(naive.greatest_difference(values, is_second))
    assert result.pvalue == pytest.approx(exact, abs=4.0 * np.sqrt(0.25 / 20_000))


def test_pvalue_of_the_kernel_is_that_of_all_partitions():
    A, B = table(4, seed=1)[["size", "other"]], table(4, seed=2)[["size", "other"]]
    density = CutsetNetworkBD().fit(table(200, seed=0)[["size", "other"]])
    B["size"] += 1.0
    result = two_sample_test(A, B, density, statistic="mmd", n_permutations=20_000, random_state=0)
    rows = density.domain_.encode(pd.concat([A, B]))
    mean, sd = rows.mean(axis=0), rows.std(axis=0)

    def kernel(i, j, scale=1.0):
        return naive.mixed_kernel(rows[i], rows[j], (False, True), mean, sd, scale)

    pairs = [(i, j) for i in range(8) for j in range(i)]
    scale = np.median([-np.log(kernel(i, j)) for i, j in pairs])
    gram = np.zeros((8, 8))
    for i, j in pairs:
        gram[i, j] = gram[j, i] = kernel(i, j, scale)
    is_second = np.repeat([False, True], 4)
    exact = naive.exact_pvalue(
        lambda second: naive.squared_discrepancy(gram, second), is_second, np.arange(8)
    )
    assert result.statistic == pytest.approx(naive.squared_discrepancy(gram, is_second))
    assert result.pvalue == pytest.approx(exact, abs=4.0 * np.sqrt(0.25 / 20_000))


def test_swapped_tables_have_the_same_pvalue(density):
    A, B = table(40, seed=3, missing=0.3), table(30, seed=4, missing=0.3)
    # Equal rows in both tables.
    B = pd.concat([B, A[:10]], ignore_index=True)
    for model in (density, None):
        for statistic in ("cells", "mmd"):
            options = {"statistic": statistic, "n_permutations": 99, "random_state": 0}
            results = [two_sample_test(*pair, model, **options) for pair in ((A, B), (B, A))]
            assert results[0].pvalue == results[1].pvalue
            assert results[0].statistic == pytest.approx(results[1].statistic)


def test_order_of_rows_does_not_matter(density):
    A, B = table(40, seed=5, missing=0.3), table(40, seed=6, missing=0.3)
    result = two_sample_test(A, B, density, n_permutations=99, random_state=0)
    again = two_sample_test(A[::-1], B[::-1], density, n_permutations=99, random_state=0)
    assert result.pvalue == again.pvalue


@pytest.mark.parametrize("statistic", ["cells", "mmd"])
@pytest.mark.parametrize("learned", [False, True])
def test_level_holds(density, statistic, learned):
    pvalues = []
    for seed in range(30 if learned else 100):
        rows = table(60, seed=1000 + seed, missing=0.3)
        model = None if learned else density
        pair = rows[:25], rows[25:]
        options = {"statistic": statistic, "n_permutations": 39, "random_state": seed}
        pvalues.append(two_sample_test(*pair, model, **options).pvalue)
    rejected = np.mean(np.array(pvalues) <= 0.1)
    assert rejected <= 0.1 + 3.0 * np.sqrt(0.09 / len(pvalues))
    assert np.mean(pvalues) > 0.38


def test_a_changed_dependence_is_seen_in_its_columns(density):
    A, B = table(250, seed=7, missing=0.1), table(250, seed=8, missing=0.1)
    B["kind"] = B["kind"].to_numpy()[::-1]
    result = two_sample_test(A, B, density, n_permutations=199, random_state=0)
    assert result.pvalue == 0.005
    assert set(result.columns.index[result.columns["pvalue"] <= 0.05]) == {"size", "kind"}
    assert (result.columns.loc[["size", "kind"], "difference"] < 0.0).all()
    assert result.columns["statistic"].max() == result.statistic
    assert result.columns["pvalue"].min() == result.pvalue
    learned = two_sample_test(A, B, n_permutations=99, random_state=0)
    assert learned.pvalue == 0.01


def test_a_changed_pattern_of_missing_cells_has_an_entry(density):
    A, B = table(200, seed=9), table(200, seed=10)
    B["other"] = B["other"].mask(np.arange(200) % 5 == 0)
    options = {"n_permutations": 99, "random_state": 0}
    result = two_sample_test(A, B, density, **options)
    assert result.columns["statistic"].idxmax() == PATTERN
    assert result.columns.loc[PATTERN, "difference"] == pytest.approx(0.2)
    assert PATTERN in str(result)
    without = two_sample_test(A, B, density, missingness=False, **options)
    assert PATTERN not in without.columns.index
    assert without.pvalue > 0.05
    assert two_sample_test(A, B, density, statistic="mmd", **options).pvalue < 0.05


def test_impossible_cells_count_like_the_most_improbable_ones(density):
    rows = table(6, seed=0)
    values, column = cell_values(density, rows, True)
    worst, second = np.argsort(values[:, 0])[:2]
    is_second = np.arange(6) >= 3
    results = []
    for score in (-np.inf, values[second, 0]):
        values[worst, 0] = score
        drawn = draw_labels(is_second, np.arange(6), 20, np.random.RandomState(0))
        results.append(compare_columns(values, column, is_second, density.domain_, drawn)[0])
    pd.testing.assert_frame_equal(results[0].columns, results[1].columns)


@pytest.mark.parametrize("column", ["size", "other"])
def test_a_changed_margin_is_seen_in_its_column(density, column):
    A, B = table(250, seed=7), table(250, seed=8)
    if column == "size":
        # The category follows, as it does in the model.
        B["size"] += 0.5
        B["kind"] = np.where(B["size"] > 0.0, "large", "small")
    else:
        B.loc[::3, "other"] = "a"
    for model in (density, None):
        result = two_sample_test(A, B, model, n_permutations=199, random_state=0)
        assert result.columns["statistic"].idxmax() == column
        assert result.pvalue <= 0.01


def test_mean_kernel_of_draws_approaches_the_expected_kernel():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(300, 1)) ^ (rng.random((300, 4)) < 0.2)
    density = CutsetNetworkBD(structured=True).fit(X)
    rows = X[:6].astype(float)
    rows[rng.random(rows.shape) < 0.5] = np.nan
    draws = density.complete(np.tile(rows, (2000, 1)), "sample", random_state=0)
    # Different rows are drawn independently of each other.
    pairs = ~np.eye(len(rows), dtype=bool)
    tables = draws.reshape(2000, 1, *rows.shape)
    distances = np.sum(tables.swapaxes(1, 2) != tables, axis=3)
    mean = np.exp(-0.5 * distances).mean(axis=0)
    exact = expected_gram(density.circuit_, rows, rows, ExponentialHamming(0.5))
    np.testing.assert_allclose(mean[pairs], exact[pairs], atol=0.03)


def test_groups_stay_together():
    unit, is_second = np.array([0, 0, 1, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 0]) == 1
    drawn = np.hstack(list(draw_labels(is_second, unit, 500, np.random.RandomState(0))))
    assert drawn.shape == (6, 500)
    partitions = {tuple(labels) for labels in drawn.T}
    assert partitions == {(1, 1, 0, 0, 0, 0), (0, 0, 1, 1, 1, 0), (0, 0, 0, 0, 0, 1)}


def test_what_cannot_be_compared_is_refused(density):
    A, B = table(10, seed=0), table(10, seed=1)
    with pytest.raises(ValueError, match="statistic"):
        two_sample_test(A, B, density, statistic="ks")
    with pytest.raises(ValueError, match="found 5 in both"):
        two_sample_test(A, B, density, groups=(np.arange(10), np.arange(5, 15)))
    with pytest.raises(ValueError, match="inconsistent"):
        two_sample_test(A, B, density, groups=(np.arange(10), np.arange(9)))
    with pytest.raises(ValueError, match="groups must be a pair.*found 3"):
        two_sample_test(A, B, density, groups=(np.arange(10), np.arange(10, 20), np.arange(3)))
    with pytest.raises(ValueError, match="feature names"):
        two_sample_test(A, B[["kind", "size"]])
    with pytest.raises(ValueError, match="minimum of 1") as caught:
        two_sample_test(A, B[:0], density)
    assert caught.value.__notes__ == ["This is about the table B."]
    with pytest.raises(NotFittedError, match="not fitted"):
        two_sample_test(A, B, SoftLearnSPN())
    with pytest.raises(ValueError, match="score_cells"):
        two_sample_test(A, B, GaussianMixture())


def test_one_row_can_be_compared_and_a_new_category_is_seen(density):
    A, B = table(60, seed=11), table(40, seed=12)
    options = {"n_permutations": 99, "random_state": 0}
    for statistic in ("cells", "mmd"):
        pvalues = [
            two_sample_test(A, table(1, seed=s), density, statistic=statistic, **options).pvalue
            for s in range(10)
        ]
        assert np.mean(pvalues) > 0.2
    B.loc[::2, "other"] = "new"
    with pytest.warns(UserWarning, match="'new'"):
        result = two_sample_test(A, B, density, **options)
    assert result.columns["statistic"].idxmax() == "other"


def test_frames_of_polars_and_arrays_have_the_same_pvalue():
    polars = pytest.importorskip("polars", reason="polars is optional")
    rows = np.random.default_rng(0).normal(size=(60, 2))
    pvalues = []
    for X in (rows, polars.DataFrame(rows), pd.DataFrame(rows)):
        result = two_sample_test(X[:30], X[30:], n_permutations=99, random_state=0)
        pvalues.append(result.pvalue)
    assert len(set(pvalues)) == 1
