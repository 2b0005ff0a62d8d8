"""Tests of the reader for the Twenty Datasets, on small files made here."""

import hashlib
from http.client import IncompleteRead, RemoteDisconnected

import numpy as np
import pytest

from skpc.datasets import URLS, _debd, fetch_debd


@pytest.fixture(autouse=True)
def own_checksums(monkeypatch):
    """The files made here are not the published ones, and nothing is downloaded by mistake."""
    monkeypatch.setattr(_debd, "_SETS", dict(_debd._SETS))
    monkeypatch.setitem(URLS, "debd", "file:///nowhere/{name}.{split}.data")


def write(folder, name, n_features=11, **changed):
    rng = np.random.default_rng(0)
    tables = {
        split: rng.integers(2, size=(n, n_features)).astype(np.uint8)
        for split, n in (("train", 20), ("valid", 5), ("test", 7))
    }
    arrays = {split: np.packbits(table, axis=1) for split, table in tables.items()}
    content = str(n_features).encode() + b"".join(array.tobytes() for array in arrays.values())
    _debd._SETS[name] = (_debd._SETS[name][0], hashlib.sha256(content).hexdigest())
    arrays["n_features"] = np.int64(n_features)
    (folder / "debd").mkdir(exist_ok=True)
    np.savez(folder / "debd" / f"{name}.npz", **(arrays | changed))
    return tables


def test_the_splits_are_read_bit_by_bit(tmp_path):
    tables = write(tmp_path, "nltcs")
    bunch = fetch_debd("nltcs", data_home=tmp_path)
    for split, table in tables.items():
        assert bunch[split].dtype == np.uint8
        np.testing.assert_array_equal(bunch[split], table)
    assert (bunch.name, bunch.n_features) == ("nltcs", 11)
    assert "NLTCS" in bunch.DESCR
    assert "20 train, 5 valid, 7 test" in bunch.DESCR


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("baudio", "baudio"),
        ("Audio", "baudio"),
        ("NETFLIX", "bnetflix"),
        ("retail", "tretail"),
        ("EachMovie", "tmovie"),
        ("webkb", "cwebkb"),
        ("Reuters-52", "cr52"),
        ("r52", "cr52"),
        ("20newsgroup", "c20ng"),
        ("20ng", "c20ng"),
        ("pumsb_star", "pumsb_star"),
    ],
)
def test_names_of_files_and_of_papers_both_work(tmp_path, name, file):
    write(tmp_path, file)
    assert fetch_debd(name, data_home=tmp_path).name == file


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    write(tmp_path, "plants")
    monkeypatch.setenv("SKPC_DATA", str(tmp_path))
    assert fetch_debd("plants").name == "plants"


def test_without_the_environment_the_home_folder_is_searched(tmp_path, monkeypatch):
    monkeypatch.delenv("SKPC_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "skpc_data").mkdir()
    write(tmp_path / "skpc_data", "ad")
    assert fetch_debd("ad").name == "ad"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="'iris'; choose one of accidents, ad, .*nltcs"):
        fetch_debd("iris")


def test_an_absent_file_is_named_with_the_way_to_provide_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"bbc\.npz.*SKPC_DATA"):
        fetch_debd("bbc", data_home=tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not an archive", b"\x93NUMPY"])
def test_a_file_that_is_no_archive_is_called_damaged(tmp_path, content):
    (tmp_path / "debd").mkdir()
    (tmp_path / "debd" / "bbc.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"bbc\.npz is damaged"):
        fetch_debd("bbc", data_home=tmp_path)


def test_a_cut_off_file_is_called_damaged(tmp_path):
    write(tmp_path, "bbc")
    path = tmp_path / "debd" / "bbc.npz"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"bbc\.npz is damaged"):
        fetch_debd("bbc", data_home=tmp_path)


def test_rows_of_the_wrong_length_are_called_damaged(tmp_path):
    write(tmp_path, "bbc", valid=np.zeros((5, 3), dtype=np.uint8))
    with pytest.raises(ValueError, match=r"bbc\.npz is damaged .cannot reshape array of size 15"):
        fetch_debd("bbc", data_home=tmp_path)


def test_pickled_contents_are_not_loaded(tmp_path):
    write(tmp_path, "bbc", test=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match=r"bbc\.npz is damaged"):
        fetch_debd("bbc", data_home=tmp_path)


def text_files(folder, name):
    tables = write(folder, name)
    (folder / "debd" / f"{name}.npz").unlink()
    for split, table in tables.items():
        np.savetxt(folder / f"{name}.{split}.data", table, fmt="%d", delimiter=",")
    return tables


def test_a_set_that_is_not_there_is_downloaded_once(tmp_path, monkeypatch):
    tables = text_files(tmp_path, "nltcs")
    monkeypatch.setitem(URLS, "debd", tmp_path.as_uri() + "/{name}.{split}.data")
    for _ in range(2):
        bunch = fetch_debd("nltcs", data_home=tmp_path)
        for split, table in tables.items():
            np.testing.assert_array_equal(bunch[split], table)
            (tmp_path / f"nltcs.{split}.data").unlink(missing_ok=True)
    assert [path.name for path in (tmp_path / "debd").iterdir()] == ["nltcs.npz"]


def test_a_failed_download_says_what_was_tried_and_leaves_nothing(tmp_path, monkeypatch):
    text_files(tmp_path, "nltcs")
    (tmp_path / "nltcs.test.data").unlink()
    monkeypatch.setitem(URLS, "debd", tmp_path.as_uri() + "/{name}.{split}.data")
    with pytest.raises(FileNotFoundError, match=r"nltcs\.test\.data could not be read.*mirror"):
        fetch_debd("nltcs", data_home=tmp_path)
    assert not list((tmp_path / "debd").iterdir())


def test_nothing_is_downloaded_if_that_is_not_wanted(tmp_path, monkeypatch):
    text_files(tmp_path, "nltcs")
    monkeypatch.setitem(URLS, "debd", tmp_path.as_uri() + "/{name}.{split}.data")
    with pytest.raises(FileNotFoundError, match="let it be downloaded"):
        fetch_debd("nltcs", data_home=tmp_path, download_if_missing=False)


@pytest.mark.parametrize("downloaded", [False, True])
def test_rows_other_than_the_published_ones_are_refused(tmp_path, monkeypatch, downloaded):
    monkeypatch.setitem(URLS, "debd", tmp_path.as_uri() + "/{name}.{split}.data")
    (text_files if downloaded else write)(tmp_path, "nltcs")
    monkeypatch.setitem(_debd._SETS, "nltcs", ("NLTCS", "0" * 64))
    with pytest.raises(ValueError, match="not the published data set 'nltcs'.*expected 000"):
        fetch_debd("nltcs", data_home=tmp_path)
    if downloaded:
        assert not list((tmp_path / "debd").iterdir())


def test_all_columns_are_said_to_be_categories(tmp_path):
    write(tmp_path, "nltcs")
    assert fetch_debd("nltcs", data_home=tmp_path).categorical_features.tolist() == [True] * 11


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "it is empty"), (b"\n \n", "it is empty"), (b"0,1\n1,2\n", "it holds the number 2")],
)
def test_a_part_that_is_empty_or_holds_no_bits_is_not_kept(tmp_path, monkeypatch, content, message):
    text_files(tmp_path, "nltcs")
    (tmp_path / "nltcs.valid.data").write_bytes(content)
    monkeypatch.setitem(URLS, "debd", tmp_path.as_uri() + "/{name}.{split}.data")
    with pytest.raises(
        FileNotFoundError, match=rf"nltcs\.valid\.data could not be read .{message}"
    ):
        fetch_debd("nltcs", data_home=tmp_path)
    assert not list((tmp_path / "debd").iterdir())


@pytest.mark.parametrize("error", [IncompleteRead(b"0,1"), RemoteDisconnected("gone"), OSError()])
def test_a_connection_that_breaks_is_told_with_the_way_to_provide_the_file(
    tmp_path, monkeypatch, error
):
    def fail(url, timeout):
        raise error

    monkeypatch.setattr(_debd, "urlopen", fail)
    with pytest.raises(FileNotFoundError, match="train.data could not be read .*mirror"):
        fetch_debd("nltcs", data_home=tmp_path)
