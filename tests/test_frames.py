"""Tables of pyarrow and frames of narwhals: names stay, and tables come back as what they were."""

import numpy as np
import pandas as pd
import pytest

from skpc import CutsetNetworkBD, DensityClassifier, TableMixture

pa = pytest.importorskip("pyarrow", reason="pyarrow is optional")
nw = pytest.importorskip("narwhals", reason="narwhals is optional")
pl = pytest.importorskip("polars", reason="polars is optional")

MODEL = CutsetNetworkBD(random_state=0)


def frame_of_all_types():
    rng = np.random.default_rng(0)
    at = rng.integers(0, 30, 300)
    return pd.DataFrame(
        {
            "count": at,
            "size": (at + rng.normal(size=300)).astype(np.float32),
            "kind": np.array(["a", "b", "c"])[at % 3],
            "label": pd.Categorical(np.array(["x", "y"])[at % 2]),
            "is_odd": at % 2 == 1,
            "at": pd.Timestamp("2020-01-01") + pd.to_timedelta(at, unit="h"),
        }
    )


def table_with_gaps():
    table = pa.Table.from_pandas(frame_of_all_types(), preserve_index=False)
    columns = [
        pa.array([None if (row + at) % 7 == 0 else cell for row, cell in enumerate(cells)], type_)
        for at, (cells, type_) in enumerate(
            zip(
                table.to_pydict().values(),
                [pa.string() if pa.types.is_dictionary(t) else t for t in table.schema.types],
            )
        )
    ]
    table = pa.table(dict(zip(table.column_names, columns)))
    return table.set_column(3, "label", table["label"].dictionary_encode())


@pytest.mark.parametrize("form", ["table", "batch"])
def test_a_table_of_pyarrow_is_completed_as_a_table_of_its_types(form):
    table = table_with_gaps()
    X = table if form == "table" else table.combine_chunks().to_batches()[0]
    model = MODEL.fit(X)
    assert [*model.feature_names_in_] == table.column_names
    filled = model.complete(X)
    assert type(filled) is type(X)
    assert filled.schema.types == X.schema.types
    assert filled.schema.names == X.schema.names
    for before, after in zip(X.columns, filled.columns):
        assert after.null_count == 0
        kept = [a for b, a in zip(before.to_pylist(), after.to_pylist()) if b is not None]
        assert kept == [cell for cell in before.to_pylist() if cell is not None]


def test_scores_of_cells_are_no_cells_of_the_types_of_the_table():
    table = table_with_gaps()
    scores = MODEL.fit(table).score_cells(table)
    assert type(scores) is pa.Table
    assert set(scores.schema.types) == {pa.float64()}


def test_decimals_of_pyarrow_are_numbers():
    from decimal import Decimal

    cells = [None if i % 5 == 0 else Decimal(i % 10) / 4 for i in range(200)]
    table = pa.table(
        {"price": pa.array(cells, pa.decimal128(9, 2)), "n": [i % 10 for i in range(200)]}
    )
    model = MODEL.fit(table)
    assert model.complete(table).schema.types == [pa.float64(), pa.int64()]


@pytest.mark.parametrize("way", ["reader", "batches", "callable"])
def test_batches_of_pyarrow_keep_their_names(way):
    table = table_with_gaps()
    X = {
        "reader": table.to_reader(max_chunksize=100),
        "batches": iter(table.to_batches(max_chunksize=100)),
        "callable": lambda: iter(table.to_batches(max_chunksize=100)),
    }[way]
    model = CutsetNetworkBD(random_state=0).fit(X)
    assert [*model.feature_names_in_] == table.column_names
    np.testing.assert_allclose(
        model.score_samples(table), CutsetNetworkBD(random_state=0).fit(table).score_samples(table)
    )


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_of_narwhals_is_read_as_what_it_wraps(library):
    table = table_with_gaps()
    wrapped = {
        "pandas": table.to_pandas,
        "polars": lambda: pl.from_arrow(table),
        "pyarrow": lambda: table,
    }
    X = nw.from_native(wrapped[library]())
    model = MODEL.fit(X)
    assert [*model.feature_names_in_] == X.columns
    filled = model.complete(X)
    assert isinstance(filled, nw.DataFrame)
    assert type(filled.to_native()) is type(X.to_native())
    low, high = model.interval(X)
    assert isinstance(low, nw.DataFrame)
    assert low.columns == X.columns == high.columns


def test_a_lazy_frame_of_narwhals_is_learned_and_else_refused_as_that_of_polars():
    lazy = nw.from_native(pl.LazyFrame({"a": [0.0, 1.0] * 50, "b": [0.0, 1.0] * 50}))
    model = TableMixture(n_components=1).fit(lazy)
    assert [*model.feature_names_in_] == ["a", "b"]
    with pytest.raises(TypeError, match=r"polars LazyFrame. Pass X.collect\(\)"):
        model.complete(lazy)


def test_a_classifier_takes_a_table_of_pyarrow_and_its_column_of_classes():
    table = table_with_gaps().drop_columns(["is_odd"])
    y = frame_of_all_types()["is_odd"].to_numpy()
    model = DensityClassifier([("c", MODEL)]).fit(table, pa.chunked_array([y]))
    assert [*model.feature_names_in_] == table.column_names
    assert model.predict(table).shape == (300,)
