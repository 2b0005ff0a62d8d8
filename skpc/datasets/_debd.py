"""The binary density-estimation sets known as the Twenty Datasets."""

import hashlib
import io
import os
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from urllib.request import urlopen

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from skpc._files import read_arrays, write_arrays

#: Where data sets are downloaded from. An entry may be replaced by the address of a mirror:
#: ``{name}`` stands for the name of the file and ``{split}`` for train, valid or test; the files
#: have one row a line, with commas between the cells.
URLS = {
    "debd": "https://raw.githubusercontent.com/UCLA-StarAI/Density-Estimation-Datasets/master/"
    "datasets/{name}/{name}.{split}.data"
}

#: File name -> name in the papers, and the SHA-256 of the number of columns and the packed bits of
#: the three parts.
_LINES = (resources.files("skpc.datasets") / "debd.txt").read_text().splitlines()
_SETS = {file: (paper, digest) for file, paper, digest in map(str.split, _LINES)}
_OTHER_NAMES = {"kddcup": "kdd", "movie": "tmovie", "r52": "cr52", "20ng": "c20ng"}

_SPLITS = ("train", "valid", "test")


def fetch_debd(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load one of the Twenty Datasets, binary tables in three fixed splits.

    Parameters
    ----------
    name : str
        Name of the file ("baudio") or of the set in the papers ("Audio"), in any case.
    data_home : path or None, default=None
        Folder that contains ``debd/NAME.npz``. None: the environment variable SKPC_DATA, else
        ``~/skpc_data``.
    download_if_missing : bool, default=True
        Whether to download the set from ``skpc.datasets.URLS["debd"]`` if that file is not there.

    Returns
    -------
    bunch : Bunch
        ``train``, ``valid`` and ``test`` are uint8 arrays of zeros and ones of shape
        (n_samples, n_features); ``name`` is the name of the file, ``n_features`` the number of
        columns, ``categorical_features`` a mask that marks all columns as categories, ``DESCR`` a
        short description.

    Raises
    ------
    ValueError
        If the name is unknown, or the file is damaged or not the one that was published.
    FileNotFoundError
        If the file is not there and cannot, or must not, be downloaded.

    Examples
    --------
    >>> from skpc.datasets import fetch_debd
    >>> plants = fetch_debd("Plants")  # doctest: +SKIP
    >>> plants.train.shape  # doctest: +SKIP
    (17412, 69)
    """
    file_name = _file_name(name)
    # A set is stored packed, in one file for its three parts.
    path = _data_home(data_home) / "debd" / f"{file_name}.npz"
    if not path.is_file():
        _download(file_name, path, download_if_missing)
    packed, n_features = _read(path)
    _verify(file_name, packed, n_features, str(path))
    # Rows are padded to whole bytes: count cuts off what was added.
    splits = {s: np.unpackbits(a, axis=1, count=n_features) for s, a in packed.items()}
    rows = ", ".join(f"{len(splits[split])} {split}" for split in _SPLITS)
    description = (
        f"{_SETS[file_name][0]} ({file_name}): {n_features} binary columns; rows: {rows}. "
        "One of the sets for density estimation by Lowd and Davis and by Van Haaren and Davis."
    )
    return Bunch(
        **splits,
        name=file_name,
        n_features=n_features,
        categorical_features=np.ones(n_features, dtype=bool),
        DESCR=description,
    )


def _file_name(name: str) -> str:
    wanted = _plain(name)
    # Names are compared without signs and cases, as papers differ in both.
    names = {_plain(paper): file for file, (paper, _) in _SETS.items()}
    names |= {_plain(file): file for file in _SETS} | _OTHER_NAMES
    if wanted not in names:
        raise ValueError(
            f"Unknown data set {name!r}; choose one of {', '.join(sorted(_SETS))} or its "
            "name in the papers."
        )
    return names[wanted]


def _plain(name: str) -> str:
    return "".join(letter for letter in str(name).lower() if letter.isalnum())


def _data_home(data_home: str | os.PathLike[str] | None) -> Path:
    home = data_home or os.environ.get("SKPC_DATA") or Path.home() / "skpc_data"
    return Path(home).expanduser()


def _read(path: Path) -> tuple[dict[str, NDArray[np.uint8]], int]:
    """The three splits, one bit a cell, rows padded to whole bytes."""
    try:
        arrays = read_arrays(path)
        n_features = int(arrays["n_features"])
        # Bytes a row, rounded up.
        shape = -1, -(-n_features // 8)
        packed = {split: arrays[split].astype(np.uint8).reshape(shape) for split in _SPLITS}
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"The file {path} is damaged ({error}); fetch it again.") from error
    return packed, n_features


def _verify(name: str, packed: dict[str, NDArray[np.uint8]], n_features: int, source: str) -> None:
    """Refuse rows that are not the published ones."""
    # The number of columns is part of the checksum, as padding hides it.
    digest = hashlib.sha256(str(n_features).encode())
    for split in _SPLITS:
        digest.update(np.ascontiguousarray(packed[split]).tobytes())
    _, expected = _SETS[name]
    if digest.hexdigest() != expected:
        raise ValueError(
            f"{source} is not the published data set {name!r}: its checksum is "
            f"{digest.hexdigest()}, expected {expected}. Remove it and fetch it again."
        )


def _download(name: str, path: Path, allowed: bool) -> None:
    """Fetch the three parts, check them, and keep them packed at ``path``."""
    place = f"the folder that contains debd/{name}.npz"
    if not allowed:
        raise FileNotFoundError(
            f"The data set {name!r} needs the file {path}, which is not there. Set the environment "
            f"variable SKPC_DATA (or data_home) to {place}, or let it be downloaded."
        )
    # All parts are there before anything is written.
    packed = {}
    n_features = 0
    for split in _SPLITS:
        url = URLS["debd"].format(name=name, split=split)
        try:
            with urlopen(url, timeout=30) as response:
                rows = _bits(response.read())
        except (OSError, HTTPException, ValueError) as error:
            raise FileNotFoundError(
                f"The data set {name!r} needs the file {path}, which is not there, and {url} could "
                f"not be read ({error}). Set the environment variable SKPC_DATA (or data_home) to "
                f"{place}, or skpc.datasets.URLS['debd'] to a mirror."
            ) from error
        packed[split] = np.packbits(rows, axis=1)
        n_features = rows.shape[1]
    _verify(name, packed, n_features, URLS["debd"].format(name=name, split="*"))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_arrays(path, {"n_features": np.int64(n_features), **packed})


def _bits(text: bytes) -> NDArray[np.uint8]:
    """The zeros and ones of a part of a set; the rows have commas between the cells."""
    if not text.strip():
        raise ValueError("it is empty")
    rows = np.loadtxt(io.BytesIO(text), np.uint8, delimiter=",", ndmin=2)
    # The type has room for more than bits: numbers above one are no cells.
    if rows.max() > 1:
        raise ValueError(f"it holds the number {rows.max()}, not only zeros and ones")
    return rows
