"""Files: written whole or not at all, and archives of arrays that take no memory by surprise."""

import errno
import math
import os
import pickle
import secrets
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

#: How the header of an array is read, by the version of its format.
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of another one when it is complete.

    What is written goes to a new file in the same folder, so that readers find the old file or the
    whole new one, whoever else writes, and the old one stays where writing fails.
    """
    # A link stays a link: what it points to is replaced.
    target = Path(os.path.realpath(path))
    is_there = target.exists()
    if is_there and not target.is_file():
        # A pipe or a device takes what comes; a folder refuses.
        with target.open("wb") as file:
            yield file
        return
    if is_there:
        # A file that must not be written may stand in a folder that may.
        target.open("ab").close()
    # Said before anything is written, and of the folder rather than of the partial file.
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no folder", str(target.parent))
    # In the same folder, as a file can only be replaced at once within a file system.
    partial = target.with_name(f".skpc-{secrets.token_hex(8)}.part")
    try:
        # Not by tempfile: its files are for their owner alone, whatever the umask says.
        with partial.open("xb") as file:
            # The new file has the permissions of the old one.
            if is_there:
                shutil.copymode(target, partial)
            yield file
            # The contents must be on the disk before the name is.
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def kept(objects: Iterator[Any]) -> Callable[[], Iterator[Any]]:
    """Keep objects in a temporary file; what is returned gives an iterator over them, each time.

    The file is gone when that is forgotten.
    """
    # The file has no name, so that it goes with the process.
    file = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        for one in objects:
            pickle.dump(one, file, protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException:
        file.close()
        raise
    # All readers share one position in the file, so that the end is noted as a number.
    end = file.tell()

    def again() -> Iterator[Any]:
        place = 0
        while place < end:
            # Several iterators may read in turns, so that each notes its own place.
            file.seek(place)
            read_object = pickle.load(file)
            place = file.tell()
            yield read_object

    # The file is closed when nobody can iterate over it any more.
    weakref.finalize(again, file.close)
    return again


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write arrays to a packed npz file that :func:`read_arrays` reads; none may hold objects."""
    refused = [name for name, array in arrays.items() if np.asarray(array).dtype.hasobject]
    if refused:
        raise ValueError(f"arrays of numbers or text are needed; {refused} hold objects.")
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)
        size = sum(np.asarray(array).nbytes for array in arrays.values())
        # Very even arrays pack so tightly that a reader would take the archive for a bomb.
        if file.seekable() and _is_too_tight(size, file.tell()):
            file.seek(0)
            file.truncate()
            np.savez(file, **arrays)


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read all arrays of an npz file; they are read-only.

    Nothing is unpacked before the sizes that the archive and its arrays state have been compared
    with each other and with the size of the file.

    Raises
    ------
    ValueError
        If the file is not an archive of arrays of numbers, or is damaged.
    """
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _unpacked(archive, os.fstat(file.fileno()).st_size)
        except MemoryError:
            raise
        # A damaged archive can fail in any way that zip, zlib or the parser of headers knows.
        except Exception as error:
            raise ValueError(str(error) or type(error).__name__) from error


def _unpacked(archive: zipfile.ZipFile, file_size: int) -> dict[str, np.ndarray]:
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    if _is_too_tight(size, file_size):
        raise ValueError(f"{file_size} bytes cannot hold the {size} bytes that its arrays take")
    # A second array of the same name would replace the first one unseen.
    if len({member.filename for member in members}) < len(members):
        raise ValueError("an array is there twice")
    return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}


def _is_too_tight(size: int, file_size: int) -> bool:
    # An archive may hold any number of bytes up to this one.
    small = 1 << 26
    # Beyond it, the content is at most so many times as large as the archive itself.
    tightest = 100
    return size > max(small, tightest * file_size)


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"{member.filename} has the unknown format {version}")
        # The header is read alone, as it says how much memory the array will take.
        shape, by_columns, dtype = _HEADERS[version](stream)
        size = math.prod(shape) * dtype.itemsize
        if dtype.kind not in "biuf" or min(shape, default=0) < 0:
            raise ValueError(f"{member.filename} holds no numbers: {dtype} of shape {shape}")
        # A header must not promise more memory than the member holds.
        if stream.tell() + size != member.file_size:
            raise ValueError(
                f"{member.filename} takes {member.file_size} bytes, but its header says {size} "
                f"behind {stream.tell()}"
            )
        data = stream.read()
    return np.ndarray(shape, dtype, data, order="F" if by_columns else "C")
