"""The binary density-estimation sets known as the Twenty Datasets."""

import hashlib
import io
import os
from http.client import HTTPException
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
_SETS = {
    "nltcs": ("NLTCS", "68ddb02180b283d71336246621cdb0c3c84601a7fa1283b7443afdd4dd584ad6"),
    "msnbc": ("MSNBC", "d6bd02e967862b64367c88fe739abb14d4cee6cc19764161629dc33e857a4330"),
    "kdd": ("KDDCup2k", "e4a96a3c1cb651d4694e42881cccef5f1a20bc5c08bdfb5b486292d95bf81a20"),
    "plants": ("Plants", "e79771e630da669f811363f4b7d3158b5b65d312dff6f87c8ecca5cc9e7d0aed"),
    "baudio": ("Audio", "e4492ab08d5825641ceb6b7ea01aa61a3e1a6bedf1d2ffa81fe38ce288979388"),
    "jester": ("Jester", "98282578344c396daf769daa1477d2f5e9e908614d9ad432743b622e3ee06367"),
    "bnetflix": ("Netflix", "7c456f13c581085f1d21aa2ccc7c829eadbc5b91184911afa5fd2f6c38dd2dc5"),
    "accidents": ("Accidents", "a4c157b8d049f84cd68b8937a9f6c0ed72713d393ac2650d073c4fd5ab48a61b"),
    "tretail": ("Retail", "5fbc425132a7cecbeb621e263c8ce18fa86c0f8699429d9392efff834c2aa1a0"),
    "pumsb_star": (
        "Pumsb-star",
        "2f1f1fbba4ec2c3c3f9227a045c27b2e9b20852a995734328c0707370d57f790",
    ),
    "dna": ("DNA", "52ed6601b5a7be07bd5b0a2895d8fe04c296146a8da9e3af3b356bd9351e55f2"),
    "kosarek": ("Kosarek", "f1eb70e4b16bd7e773226ad47841e2cd5a2b1c332a39f3d06e955f619d8e43dc"),
    "msweb": ("MSWeb", "ca2ce9971ce85923b33394c8229b6f139112d911390a8789b219f674733c6084"),
    "book": ("Book", "84a8c78212f725dda7bff1803829d89524bd0fe8fbfea4034df59e41b184ca4c"),
    "tmovie": ("EachMovie", "c0cd61fce3bf8597c1acaebc088cd8bb8e389676416abca4830da76c86582e7c"),
    "cwebkb": ("WebKB", "9090867f21d567dba62ff391d5437fa51645cac5d63656be0c52737f5bdc206e"),
    "cr52": ("Reuters-52", "adb382fa28eb538c10861a928fd1e354fd734f04b7fe6a2486787c87b766b11d"),
    "c20ng": ("20Newsgroup", "443b90d92d30ef0df4ba5efa595d4af7b431f9f9b1760f88dc25c989da8e0d64"),
    "bbc": ("BBC", "b7fe3f57333e85d83d2899d69bdfb52e2ebfdcc5415970ac09850370a2f35801"),
    "ad": ("Ad", "ac3793c4c87f34b06ad9f73ea3750f5e581f1ef4d05f013970bf6d41a126b95b"),
    "moviereview": (
        "MovieReview",
        "fd22d2a372fe6d647d97415faa7c1ce913867a1e4816c64b95c1bd2ea51dba9b",
    ),
}

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
    path = _data_home(data_home) / "debd" / f"{file_name}.npz"
    if not path.is_file():
        _download(file_name, path, download_if_missing)
    packed, n_features = _read(path)
    _verify(file_name, packed, n_features, str(path))
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
        shape = -1, -(-n_features // 8)
        packed = {split: arrays[split].astype(np.uint8).reshape(shape) for split in _SPLITS}
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"The file {path} is damaged ({error}); fetch it again.") from error
    return packed, n_features


def _verify(name: str, packed: dict[str, NDArray[np.uint8]], n_features: int, source: str) -> None:
    """Refuse rows that are not the published ones."""
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
    packed, n_features = {}, 0
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
        packed[split], n_features = np.packbits(rows, axis=1), rows.shape[1]
    _verify(name, packed, n_features, URLS["debd"].format(name=name, split="*"))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_arrays(path, {"n_features": np.int64(n_features), **packed})


def _bits(text: bytes) -> NDArray[np.uint8]:
    """The zeros and ones of a part of a set; the rows have commas between the cells."""
    if not text.strip():
        raise ValueError("it is empty")
    rows = np.loadtxt(io.BytesIO(text), np.uint8, delimiter=",", ndmin=2)
    if rows.max() > 1:
        raise ValueError(f"it holds the number {rows.max()}, not only zeros and ones")
    return rows
