"""The binary density-estimation sets known as the Twenty Datasets."""

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

__all__ = ["fetch_debd"]

#: File name -> name in the papers.
_PAPER_NAMES = {
    "nltcs": "NLTCS",
    "msnbc": "MSNBC",
    "kdd": "KDDCup2k",
    "plants": "Plants",
    "baudio": "Audio",
    "jester": "Jester",
    "bnetflix": "Netflix",
    "accidents": "Accidents",
    "tretail": "Retail",
    "pumsb_star": "Pumsb-star",
    "dna": "DNA",
    "kosarek": "Kosarek",
    "msweb": "MSWeb",
    "book": "Book",
    "tmovie": "EachMovie",
    "cwebkb": "WebKB",
    "cr52": "Reuters-52",
    "c20ng": "20Newsgroup",
    "bbc": "BBC",
    "ad": "Ad",
    "moviereview": "MovieReview",
}

_OTHER_NAMES = {"kddcup": "kdd", "movie": "tmovie", "r52": "cr52", "20ng": "c20ng"}

_SPLITS = ("train", "valid", "test")

_SIGNS_OF_DAMAGE = (EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile, zlib.error)


def fetch_debd(name: str, data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load one of the Twenty Datasets, binary tables in three fixed splits.

    Parameters
    ----------
    name : str
        Name of the file ("baudio") or of the set in the papers ("Audio"), in any case.
    data_home : path or None, default=None
        Folder that contains ``debd/NAME.npz``. None: the environment variable SKPC_DATA, else
        ``~/skpc_data``.

    Returns
    -------
    bunch : Bunch
        ``train``, ``valid`` and ``test`` are uint8 arrays of zeros and ones of shape
        (n_samples, n_features); ``name`` is the name of the file, ``n_features`` the number of
        columns, ``DESCR`` a short description.

    Raises
    ------
    ValueError
        If the name is unknown, or the file is damaged.
    FileNotFoundError
        If the file is not there.

    Examples
    --------
    >>> from skpc.datasets import fetch_debd
    >>> plants = fetch_debd("Plants")  # doctest: +SKIP
    >>> plants.train.shape  # doctest: +SKIP
    (17412, 69)
    """
    file_name = _file_name(name)
    path = _data_home(data_home) / "debd" / f"{file_name}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"The data set {name!r} needs the file {path}, which is not there. Set the "
            "environment variable SKPC_DATA (or data_home) to the folder that contains "
            f"debd/{file_name}.npz."
        )
    splits, n_features = _read_splits(path)
    rows = ", ".join(f"{len(splits[split])} {split}" for split in _SPLITS)
    description = (
        f"{_PAPER_NAMES[file_name]} ({file_name}): {n_features} binary columns; rows: {rows}. "
        "One of the sets for density estimation by Lowd and Davis and by Van Haaren and Davis."
    )
    return Bunch(**splits, name=file_name, n_features=n_features, DESCR=description)


def _file_name(name: str) -> str:
    wanted = _plain(name)
    names = {_plain(paper): file for file, paper in _PAPER_NAMES.items()}
    names |= {_plain(file): file for file in _PAPER_NAMES} | _OTHER_NAMES
    if wanted not in names:
        raise ValueError(
            f"Unknown data set {name!r}; choose one of {', '.join(sorted(_PAPER_NAMES))} or its "
            "name in the papers."
        )
    return names[wanted]


def _plain(name: str) -> str:
    return "".join(letter for letter in str(name).lower() if letter.isalnum())


def _data_home(data_home: str | os.PathLike[str] | None) -> Path:
    home = data_home or os.environ.get("SKPC_DATA") or Path.home() / "skpc_data"
    return Path(home).expanduser()


def _read_splits(path: Path) -> tuple[dict[str, NDArray[np.uint8]], int]:
    """Unpack the three splits; one bit a cell, rows padded to whole bytes."""
    try:
        # numpy would leave a file of its own opening open when it finds the archive damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            n_features = int(arrays["n_features"])
            packed = {split: arrays[split] for split in _SPLITS}
    except _SIGNS_OF_DAMAGE as error:
        raise ValueError(f"The file {path} is damaged ({error}); fetch it again.") from error
    for split, array in packed.items():
        n_bytes = -(-n_features // 8)
        if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != n_bytes:
            raise ValueError(
                f"The file {path} is damaged: {split} should be uint8 rows of {n_bytes} bytes for "
                f"{n_features} columns; found {array.dtype} of shape {array.shape}."
            )
    return {s: np.unpackbits(a, axis=1, count=n_features) for s, a in packed.items()}, n_features
