"""Parts of work are done by the threads that are asked for."""

import threading

import joblib
import pytest

from skpc._threads import each, in_threads, slices, threads


def thread_of(both_there: threading.Barrier) -> int:
    """The thread that does this, once another does it too."""
    both_there.wait(timeout=60)
    return threading.get_ident()


@pytest.mark.parametrize("backend", [None, "threading"])
def test_the_configuration_of_joblib_gives_threads(backend, monkeypatch):
    monkeypatch.setattr("skpc._threads.cpu_count", lambda: 2)
    barrier = threading.Barrier(2)
    with joblib.parallel_config(n_jobs=2, **({"backend": backend} if backend else {})):
        found = in_threads(thread_of, [barrier, barrier])
    assert len(set(found)) == 2


def test_n_jobs_gives_threads(monkeypatch):
    monkeypatch.setattr("skpc._threads.cpu_count", lambda: 2)
    barrier = threading.Barrier(2)
    with threads(2):
        assert len(set(in_threads(thread_of, [barrier, barrier]))) == 2


def test_parts_of_parts_do_not_wait_for_the_threads_that_wait_for_them(monkeypatch):
    monkeypatch.setattr("skpc._threads.cpu_count", lambda: 2)
    barrier = threading.Barrier(2)

    def part(_: int) -> list[int]:
        # Both threads are taken from here on.
        barrier.wait(timeout=60)
        with threads(2):
            return in_threads(lambda _: threading.get_ident(), range(2))

    with threads(2):
        for found in in_threads(part, range(2)):
            assert len(set(found)) == 1


def test_small_work_stays_in_one_thread():
    with threads(2):
        found = each(lambda number: (number, threading.get_ident()), [(0,), (1,)], 10.0)
    assert found == [(0, threading.get_ident()), (1, threading.get_ident())]


def test_slices_cover_all_rows():
    assert slices(5, 2) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert slices(0, 2) == []
