"""Learning from tables that come in chunks."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skpc import (
    CutsetNetworkBD,
    DensityClassifier,
    ExtraCutsets,
    HiddenChowLiuTree,
    HiddenForest,
    MixtureOfAllTrees,
    SoftLearnSPN,
    TableMixture,
)
from skpc.datasets import make_chow_liu
from skpc.estimators import _learner, _table_chunks
from skpc.queries import log_likelihood

#: Those that learn parameters from all rows.
LEARNERS = [
    CutsetNetworkBD(random_state=0),
    CutsetNetworkBD(n_components=2, param_ess=1.0, random_state=0),
    SoftLearnSPN(random_state=0),
    TableMixture(random_state=0),
    HiddenChowLiuTree(n_hidden=2, random_state=0),
    ExtraCutsets(5, random_state=0),
    HiddenForest(n_estimators=2, n_clusters=2, n_hidden=4, random_state=0),
]


def table(n_rows: int = 400, seed: int = 0) -> np.ndarray:
    """A category that tells two numbers, and one that tells another where it is on."""
    rng = np.random.default_rng(seed)
    switch, other = rng.integers(0, 2, (2, n_rows))
    numbers = rng.normal(size=(n_rows, 2)) + 3.0 * switch[:, np.newaxis] * [1, -1]
    return np.column_stack([switch, other, np.where(switch, other, 2), numbers])


def binary(n_rows: int = 2_000, n_columns: int = 8) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (n_rows, n_columns)).astype(float)
    for column in range(3, n_columns, 2):
        told = np.where(X[:, 0] > 0, X[:, 1], X[:, 2])
        X[:, column] = np.where(rng.random(n_rows) < 0.9, told, X[:, column])
    return X


def in_chunks(X, size):
    return (X[start : start + size] for start in range(0, len(X), size))


@pytest.fixture
def sample_of(monkeypatch):
    """Let a sample of few rows tell what the columns are."""
    return lambda n_rows: monkeypatch.setattr(_table_chunks, "SAMPLE_ROWS", n_rows)


@pytest.mark.parametrize("model", LEARNERS[::3], ids=repr)
def test_chunks_of_no_more_rows_than_the_sample_are_learned_as_the_whole(model):
    X = table()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    whole = clone(model).fit(X).score_samples(X)
    for size in (7, 150):
        np.testing.assert_array_equal(clone(model).fit(in_chunks(X, size)).score_samples(X), whole)


@pytest.mark.parametrize("size", [7, 600, 5_000])
def test_tables_of_a_single_network_are_counts_of_all_rows(size, sample_of):
    X, model = binary(), CutsetNetworkBD(categories=[[0, 1]] * 8)
    sample_of(100)
    sample, _ = _table_chunks.TableChunks.from_table(in_chunks(X, size)).sample(model)
    expected = clone(model).fit(sample)
    # What the pseudo-counts are worth.
    expected._n_learned = 10.0
    expected.partial_fit(X)
    found = clone(model).fit(in_chunks(X, size))
    assert found.n_cuts_ == expected.n_cuts_
    np.testing.assert_allclose(found.score_samples(X), expected.score_samples(X), rtol=1e-10)
    assert found.lower_bound_ == pytest.approx(found.score(X), rel=1e-10)


def test_threads_that_read_chunks_do_not_change_what_is_learned(sample_of):
    sample_of(200)
    for model in (CutsetNetworkBD(), TableMixture(random_state=0)):
        X = table(1_000)
        found = [
            clone(model).set_params(n_jobs=n).fit(in_chunks(X, 100)).score_samples(X)
            for n in (1, 2)
        ]
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("model", LEARNERS, ids=repr)
def test_parameters_of_all_rows_are_better_than_those_of_the_sample(model, sample_of):
    X, test = table(8_000), table(4_000, seed=1)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    sample_of(500)
    sample, _ = _table_chunks.TableChunks.from_table(in_chunks(X, 700)).sample(model)
    of_sample = clone(model).fit(sample).score(test)
    of_all = clone(model).fit(in_chunks(X, 700)).score(test)
    assert len(sample) == 500
    assert of_all > of_sample


@pytest.fixture
def few_make_the_structure(monkeypatch):
    """Let densities learn the structure of a table in memory from so many rows."""

    def of_class(model, n_rows):
        monkeypatch.setattr(type(model), "_most_rows", n_rows)

    return of_class


@pytest.mark.parametrize("model", LEARNERS, ids=repr)
def test_parameters_of_all_rows_in_memory_are_better_than_those_of_some(
    model, few_make_the_structure
):
    X, test = table(8_000), table(4_000, seed=1)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    of_some = clone(model).fit(X[:500]).score(test)
    few_make_the_structure(model, 500)
    of_all = clone(model).fit(X)
    assert of_all._n_learned == len(X) - np.isnan(X).all(axis=1).sum()
    assert of_all.score(test) > of_some


@pytest.mark.parametrize("model", LEARNERS, ids=repr)
def test_the_order_of_a_large_table_and_weights_of_two_do_not_matter(model, few_make_the_structure):
    X = table(1_500)
    few_make_the_structure(model, 500)
    rows, columns = np.random.default_rng(2).permutation(len(X)), np.array([3, 0, 4, 2, 1])
    twice = clone(model).fit(np.vstack([X, X])).score_samples(X)
    weighted = clone(model).fit(X[rows], sample_weight=np.full(len(X), 2.0)).score_samples(X[rows])
    np.testing.assert_allclose(weighted, twice[rows], rtol=1e-9)
    turned = clone(model).fit(np.vstack([X, X])[:, columns]).score_samples(X[:, columns])
    np.testing.assert_allclose(turned, twice, rtol=1e-9)


def test_rows_in_memory_count_as_the_same_rows_in_chunks(sample_of, few_make_the_structure):
    X, model = table(1_200), CutsetNetworkBD(param_ess=1.0)
    few_make_the_structure(model, 100)
    in_memory = clone(model).fit(X)
    # A learner of this sample that gets all rows as chunks.
    again = clone(model)
    domain, rows, weight = again.prepare(X, None)
    sample_of(100)
    chunks = _table_chunks.TableChunks.from_table(lambda: in_chunks(X, 300))
    chunks.sample(again)
    more_rows = _table_chunks.EncodedChunks(chunks, domain, None, float(chunks.n_rows))
    again._learn_rows(domain, _learner.TrainingData(rows, weight), more_rows)
    np.testing.assert_allclose(again.score_samples(X), in_memory.score_samples(X), rtol=1e-10)


@pytest.mark.parametrize("n_components", [1, 3])
def test_a_mixture_of_chunks_says_the_parameters_that_its_circuit_has(n_components, sample_of):
    X = table(2_000)
    sample_of(500)
    model = TableMixture(n_components=n_components, random_state=0).fit(in_chunks(X, 300))
    rest = np.exp(model.circuit_.log_weight[model.circuit_.child_ptr[-2] :])
    assert model.weights_.sum() == pytest.approx(1.0)
    # The background is worth a tenth of a row.
    assert rest[-1] == pytest.approx(0.1 / 2_000.1)
    cutset = CutsetNetworkBD(n_components=2, param_ess=1.0, random_state=0).fit(in_chunks(X, 300))
    assert cutset.weights_.sum() == pytest.approx(1.0)
    rows = cutset.domain_.encode(X)
    log_density = log_likelihood(cutset.circuit_, rows).mean()
    assert cutset.lower_bound_ == pytest.approx(log_density, abs=1e-10)


def test_a_learner_that_keeps_to_the_sample_says_so(sample_of):
    sample_of(100)
    model = MixtureOfAllTrees(max_iter=2, random_state=0)
    with pytest.warns(UserWarning, match="learns from a sample of 100 of the 400 rows"):
        model.fit(in_chunks(table(), 90))


def test_the_sample_is_drawn_evenly_from_all_chunks(sample_of):
    sample_of(1_000)
    X = np.arange(20_000.0)[:, np.newaxis] * [1.0, -1.0]
    for size in (99, 6_000):
        found, is_whole = _table_chunks.TableChunks.from_table(in_chunks(X, size)).sample(
            CutsetNetworkBD()
        )
        assert not is_whole
        assert len(found) == len(np.unique(found[:, 0])) == 1_000
        # A uniform draw has 250 in each quarter, with a standard deviation of 13.
        quarters = np.histogram(found[:, 0], 4, (0, 20_000))[0]
        assert np.abs(quarters - 250).max() < 60
        again, _ = _table_chunks.TableChunks.from_table(in_chunks(X, size)).sample(
            CutsetNetworkBD()
        )
        np.testing.assert_array_equal(found, again)


def test_memory_does_not_grow_with_the_number_of_chunks(sample_of):
    sample_of(500)
    X, peaks = make_chow_liu(32_000, 8, random_state=0), []
    model = CutsetNetworkBD(categories=[[0, 1]] * 8)
    for n_rows in (4_000, 32_000) * 3:
        tracemalloc.start()
        clone(model).fit(lambda n=n_rows: in_chunks(X[:n], 200))
        kept, peak = tracemalloc.get_traced_memory()
        peaks.append(peak - kept)
        tracemalloc.stop()
    # Some fits load kernels. numba keeps about a hundred bytes of each call, whatever its chunk.
    assert kept < X.nbytes / 4
    assert min(peaks[1::2]) < 1.2 * min(peaks[::2])


def assert_learned_from_all(model, table):
    """That the model has seen all rows, and is about as good as with all of them in memory."""
    assert model._n_learned == len(table)
    assert model.score(table) == pytest.approx(clone(model).fit(table).score(table), abs=0.02)


def test_a_memory_map_is_read_in_chunks(tmp_path, sample_of, monkeypatch):
    sample_of(1_000)
    monkeypatch.setattr(_table_chunks, "_CELLS", 4_000)
    X = binary()
    np.save(tmp_path / "table.npy", X.astype(np.uint8))
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    model = CutsetNetworkBD(categories=[[0, 1]] * X.shape[1])
    assert_learned_from_all(model.fit(mapped), X)


def test_frames_read_in_chunks(tmp_path, sample_of):
    sample_of(400)
    frame = pd.DataFrame({"sky": ["sun", "rain"] * 500, "t": np.arange(1000.0) % 17})
    frame.to_csv(tmp_path / "weather.csv", index=False)
    for model in (
        CutsetNetworkBD(),
        CutsetNetworkBD(n_components=2, param_ess=1.0, random_state=0),
    ):
        chunks = pd.read_csv(tmp_path / "weather.csv", chunksize=300)
        model.fit(chunks)
        assert model.feature_names_in_.tolist() == ["sky", "t"]
        assert np.isfinite(model.score(frame))


def test_a_lazy_frame_is_collected_in_batches(tmp_path, sample_of):
    polars = pytest.importorskip("polars", reason="polars is optional")
    frame = polars.DataFrame({f"c{i}": column for i, column in enumerate(binary().T)})
    frame.write_parquet(tmp_path / "table.parquet")
    lazy = polars.scan_parquet(tmp_path / "table.parquet")
    model = CutsetNetworkBD(categories=[[0, 1]] * frame.width)
    sample_of(1_000)
    assert_learned_from_all(model.fit(lazy), frame)


def test_a_parquet_folder_is_read_in_batches(tmp_path, sample_of):
    dataset = pytest.importorskip("pyarrow.dataset", reason="pyarrow is optional")
    X = binary()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    for number in range(4):
        frame[number * 500 : (number + 1) * 500].to_parquet(tmp_path / f"{number}.parquet")
    model = CutsetNetworkBD(categories=[[0, 1]] * X.shape[1])
    sample_of(1_000)
    assert_learned_from_all(model.fit(dataset.dataset(tmp_path)), frame)


def test_what_streams_by_arrow_is_read_in_each_pass(sample_of):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is optional")
    X = binary()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    rows = pyarrow.Table.from_pandas(frame)
    n_passes = 0

    class Relation:
        """What a relation of duckdb has, without duckdb."""

        def __arrow_c_stream__(self, requested_schema=None):
            nonlocal n_passes
            n_passes += 1
            return rows.__arrow_c_stream__(requested_schema)

    Relation.__module__ = "duckdb"
    model = CutsetNetworkBD(categories=[[0, 1]] * X.shape[1])
    sample_of(1_000)
    assert_learned_from_all(model.fit(Relation()), frame)
    assert n_passes > 2


def test_a_query_is_run_in_each_pass(tmp_path, sample_of):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is optional")
    X = binary()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    frame.to_parquet(tmp_path / "table.parquet")
    relation = duckdb.sql(f"select * from '{tmp_path / 'table.parquet'}'")
    model = CutsetNetworkBD(categories=[[0, 1]] * X.shape[1])
    sample_of(1_000)
    assert_learned_from_all(model.fit(relation), frame)
    with pytest.raises(TypeError, match="a relation of duckdb. Pass X.df"):
        model.score_samples(relation)


@pytest.mark.parametrize(
    ("chunks", "weight", "match"),
    [
        (iter([]), None, "at least one chunk of rows; found none"),
        (iter([np.empty((0, 3))]), None, "at least one chunk of rows; found none"),
        (iter([np.eye(3)]), np.ones(3), "sample_weight needs a table"),
        (iter([np.eye(3), np.eye(2)]), None, "2 features, but .* is expecting 3"),
        (iter([np.full((3, 3), np.nan)]), None, "missing"),
    ],
)
def test_chunks_that_cannot_be_learned_are_refused(chunks, weight, match):
    model = CutsetNetworkBD()
    with pytest.raises(ValueError, match=match):
        model.fit(chunks, sample_weight=weight)
    assert not hasattr(model, "n_features_in_")


def test_what_is_wrong_with_a_chunk_is_told_with_its_number():
    chunks = iter([np.eye(3), np.full((2, 3), np.inf)])
    with pytest.raises(ValueError, match="infinity") as caught:
        CutsetNetworkBD().fit(chunks)
    assert caught.value.__notes__ == ["This is in chunk 1 of the table, counted from 0."]


def test_empty_chunks_are_passed_over(sample_of):
    X = binary()
    model = CutsetNetworkBD(categories=[[0, 1]] * X.shape[1])
    for n_rows in (5_000, 1_000):
        sample_of(n_rows)
        with_empty = iter([X[:0], X[:500], X[:0], X[500:]])
        assert_learned_from_all(clone(model).fit(with_empty), X)


def test_categories_that_the_sample_lacks_are_warned_of(sample_of):
    sample_of(20)
    skies = ["sun"] * 400 + ["rain"] * 400 + ["fog"]
    frame = pd.DataFrame({"sky": skies, "n": np.arange(801) % 2})
    model = CutsetNetworkBD(random_state=0)
    with pytest.warns(UserWarning, match="'fog' in column 'sky', row 0.*Row of chunk 8"):
        model.fit(in_chunks(frame, 100))
    with pytest.raises(ValueError, match="unknown category 'fog'"):
        model.set_params(handle_unknown="error").fit(in_chunks(frame, 100))


def test_estimators_that_take_no_chunks_say_so():
    with pytest.raises(TypeError, match="found an iterator .* Only the fit of a density"):
        DensityClassifier().fit(iter([table()]), np.zeros(400))


def test_a_callable_that_returns_no_new_iterator_of_chunks_is_told_so():
    X, again = table(), iter([table(), table()])
    frame = pd.DataFrame({"a": [0.0, 1.0]})
    for wrong, error, match in (
        (lambda: again, ValueError, "400 rows were read in the first pass, and 0 in a later"),
        (lambda: None, TypeError, "must return an iterator of chunks.*found NoneType"),
        (lambda: frame, TypeError, "must return an iterator of chunks.*found DataFrame"),
        (lambda: X, TypeError, "must return an iterator of chunks.*found ndarray"),
    ):
        with pytest.raises(error, match=match):
            CutsetNetworkBD().fit(wrong)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_later_pass_with_other_rows_is_refused(n_jobs, sample_of):
    sample_of(200)
    X, passes = table(), []

    def chunks():
        passes.append(None)
        return iter([X] if len(passes) < 3 else [X[:300]])

    with pytest.raises(
        ValueError, match="400 rows were read in the first pass, and 300 in a later"
    ):
        CutsetNetworkBD(n_jobs=n_jobs).fit(chunks)


def test_arrays_and_frames_are_not_chunks_of_one_table():
    X = table()
    chunks_of_both = iter([X, pd.DataFrame(X)])
    with pytest.raises(TypeError, match="of one library; found arrays and DataFrames of pandas"):
        CutsetNetworkBD().fit(chunks_of_both)


@pytest.mark.filterwarnings("error")
def test_what_is_no_table_is_named_with_what_to_pass_instead(tmp_path):
    frame = pd.DataFrame(table(), columns=list("abcde"))
    model = CutsetNetworkBD().fit(frame)
    for wrong, match in (
        (lambda: frame, "a callable .* Only the fit of a density"),
        ("folder", "'folder'. Read the file first"),
        (tmp_path, "Read the file first"),
        (frame.to_dict(), "a dict. Pass pandas.DataFrame"),
        ([frame, frame], "a list of DataFrames. Put them together"),
        ([table(), table()], "a list of arrays. Put them together by numpy.concatenate"),
    ):
        for ask in (model.score_samples, model.complete, model.marginals):
            with pytest.raises(TypeError, match=match):
                ask(wrong)
    for wrong, match in (("folder", "Read the file"), ([frame], "by iter"), ({}, "a dict")):
        with pytest.raises(TypeError, match=match):
            CutsetNetworkBD().fit(wrong)


@pytest.mark.filterwarnings("error")
def test_marginals_of_a_dask_frame_know_its_names():
    dataframe = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(table(), columns=list("abcde"))
    model = CutsetNetworkBD().fit(frame)
    found = model.marginals(dataframe.from_pandas(frame[:20], npartitions=2))
    for cells, expected in zip(found, model.marginals(frame[:20]), strict=True):
        pd.testing.assert_frame_equal(cells.to_frame(), expected.to_frame())


def test_a_pyarrow_dataset_is_refused_by_queries_with_what_to_pass_instead(tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    frame = pd.DataFrame(table(), columns=list("abcde"))
    frame.to_parquet(tmp_path / "table.parquet")
    model = CutsetNetworkBD().fit(frame)
    with pytest.raises(TypeError, match="a pyarrow dataset. Pass X.to_table"):
        model.score_samples(dataset.dataset(tmp_path))
