"""Files are written whole or not at all, and archives take no memory by surprise."""

import gc
import io
import os
import resource
import stat
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skpc._files import kept, read_arrays, replacing, write_arrays
from skpc.circuit import load_circuit, save_circuit
from skpc.factor_graphs import FactorGraph, read_uai, write_uai
from tests.zoo import random_circuit

ROOT = Path(__file__).parents[1]

FULL_DISK = """
import resource, signal, sys
from skpc.circuit import save_circuit
from skpc.factor_graphs import FactorGraph, write_uai
from tests.zoo import random_circuit
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
graph = FactorGraph.ising_grid(9, 9)
for write in (
    lambda: save_circuit(random_circuit(0), sys.argv[1]),
    lambda: write_uai(graph, sys.argv[2]),
):
    try:
        write()
    except OSError as error:
        sys.stdout.write(type(error).__name__ + "\\n")
"""

SAVING = """
import sys
from skpc.circuit import save_circuit
from tests.zoo import random_circuit
circuits = [random_circuit(seed) for seed in range(4)]
sys.stdout.write("ready\\n")
sys.stdout.flush()
for turn in range(10**6):
    save_circuit(circuits[turn % 4], sys.argv[1])
"""


def python(code, *arguments, **kwargs):
    """Start another Python in the root of the project."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **kwargs)


def kill_while_saving(path, n_kills):
    """Kill processes that save to a path in a loop at some moment; load what they left."""
    rng = np.random.default_rng(0)
    for _ in range(n_kills):
        with python(SAVING, path) as process:
            process.stdout.readline()
            time.sleep(0.02 + 0.1 * rng.random())
            process.kill()
        load_circuit(path)


def save_and_load_in_threads(path, n_turns):
    """Let eight threads save and load at one path; list what went wrong."""
    circuits, wrong = [random_circuit(seed) for seed in range(8)], []
    save_circuit(circuits[0], path)

    def work(mine):
        try:
            for _ in range(n_turns):
                save_circuit(mine, path)
                found = load_circuit(path)
                wrong.extend([] if any(same(found, one) for one in circuits) else ["mixed up"])
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(circuit,)) for circuit in circuits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def same(one, other):
    return np.array_equal(one.param, other.param) and np.array_equal(one.child, other.child)


def test_a_full_disk_leaves_the_old_files_and_nothing_else(tmp_path):
    circuit, graph = random_circuit(1), FactorGraph.ising_grid(2, 2, coupling=0.5)
    save_circuit(circuit, tmp_path / "c.npz")
    write_uai(graph, tmp_path / "g.uai")
    with python(FULL_DISK, tmp_path / "c.npz", tmp_path / "g.uai") as process:
        assert process.communicate()[0].split() == ["OSError", "OSError"]
    assert same(load_circuit(tmp_path / "c.npz"), circuit)
    assert read_uai(tmp_path / "g.uai").n_variables == 4
    assert {path.name for path in tmp_path.iterdir()} == {"c.npz", "g.uai"}


def test_a_process_killed_while_it_saves_leaves_a_whole_file(tmp_path):
    save_circuit(random_circuit(0), tmp_path / "c.npz")
    kill_while_saving(tmp_path / "c.npz", 2)


def test_threads_that_save_and_load_at_one_path_do_not_disturb_each_other(tmp_path):
    assert save_and_load_in_threads(tmp_path / "c.npz", 5) == []
    assert [path.name for path in tmp_path.iterdir()] == ["c.npz"]


@pytest.mark.filterwarnings("error")
def test_objects_that_stop_coming_leave_no_file_open():
    def objects():
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        kept(objects())
    gc.collect()


def test_an_error_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail():
        with replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_mode_of_the_old_one_or_of_any_new_file(tmp_path):
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    plain.write_bytes(b"")
    write_arrays(ours, {"a": np.arange(3)})
    assert ours.stat().st_mode == plain.stat().st_mode
    ours.chmod(0o640)
    write_arrays(ours, {"a": np.arange(4)})
    assert stat.S_IMODE(ours.stat().st_mode) == 0o640


def test_a_link_is_followed_and_a_folder_refused(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    for content in (b"one", b"two"):
        with replacing(link) as file:
            file.write(content)
        assert link.is_symlink()
        assert (tmp_path / "target").read_bytes() == content
    with pytest.raises(IsADirectoryError), replacing(tmp_path) as file:
        file.write(b"")
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "none" / "file") as file:
        file.write(b"")


def test_a_device_stays_a_device():
    with replacing(os.devnull) as file:
        file.write(b"gone")
    assert not Path(os.devnull).is_file()


def test_arrays_of_any_shape_and_order_come_back(tmp_path):
    arrays = {
        "none": np.empty(0),
        "one": np.int64(7),
        "rows": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3)),
    }
    write_arrays(tmp_path / "a.npz", arrays)
    found = read_arrays(tmp_path / "a.npz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert_array_equal(found[name], array, strict=True)


def test_arrays_that_pack_too_well_are_written_unpacked(tmp_path):
    write_arrays(tmp_path / "a.npz", {"a": np.zeros(10**7)})
    assert (tmp_path / "a.npz").stat().st_size > 8 * 10**7
    assert len(read_arrays(tmp_path / "a.npz")["a"]) == 10**7


def test_a_bomb_is_refused_before_it_takes_memory(tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (25 * 2**20,)}
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("param.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(25):
            file.write(bytes(2**23))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=r"damaged \(\d{6} bytes cannot hold the 209715328 bytes"):
        load_circuit(tmp_path / "bomb.npz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def archive_of(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)


def npy(array, **kwargs):
    stream = io.BytesIO()
    np.save(stream, array, **kwargs)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(np.zeros(3)) + b"more", "takes 156 bytes, but its header says 24 behind 128"),
        (npy(np.zeros(3)).replace(b"(3,)", b"(9,)"), "its header says 72"),
        (npy(np.zeros(30)).replace(b"(30,)", b"(-1,)"), "no numbers: float64 of shape"),
        (npy(np.array(["word"])), "no numbers: <U4 of shape"),
        (npy(np.array([print], dtype=object), allow_pickle=True), "no numbers: object"),
        (b"\x93NUMPY\x09\x00", "unknown format"),
        (b"text", "a.npy|EOF|magic"),
    ],
)
def test_headers_that_do_not_tell_the_truth_are_refused(tmp_path, content, message):
    archive_of(tmp_path / "a.npz", ("a.npy", content))
    with pytest.raises(ValueError, match=message):
        read_arrays(tmp_path / "a.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_array_that_is_there_twice_is_refused(tmp_path):
    archive_of(tmp_path / "a.npz", ("a.npy", npy(np.zeros(3))), ("a.npy", npy(np.ones(3))))
    with pytest.raises(ValueError, match="an array is there twice"):
        read_arrays(tmp_path / "a.npz")
