"""Parts of work are done by the threads that are asked for."""

import os
import subprocess
import sys
import threading
from textwrap import dedent
from typing import ClassVar

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skpc import CircuitImputer, TableMixture
from skpc._threads import each, in_threads, one_thread, product, slices, threads
from skpc.synthesis import table_report


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


def n_blas_threads() -> set[int]:
    """The numbers of threads of the libraries that can have two."""
    with threadpool_limits(2, user_api="blas"):
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        able = {pool["filepath"] for pool in pools if pool["num_threads"] == 2}
    return {pool["num_threads"] for pool in threadpool_info() if pool["filepath"] in able}


class Spy(TableMixture):
    """A density that notes how many threads BLAS has while it works, and then fails perhaps."""

    found: ClassVar[list[set[int]]] = []
    fails = False

    def _learn(self, data):
        Spy.found.append(n_blas_threads())
        if Spy.fails:
            raise RuntimeError("no")
        super()._learn(data)


@pytest.fixture
def two_threads():
    Spy.found, Spy.fails = [], False
    with threadpool_limits(2, user_api="blas"):
        yield np.random.default_rng(0).normal(size=(50, 2))


def test_fits_and_answers_have_one_thread_of_blas_and_give_it_back(two_threads):
    CircuitImputer(Spy(n_components=1)).fit(two_threads).transform(two_threads)
    assert Spy.found == [{1}]
    assert n_blas_threads() == {2}


def test_reports_of_synthetic_tables_have_one_thread(two_threads, monkeypatch):
    def note(values, n_rows, random_state):
        Spy.found.append(n_blas_threads())
        return values[:n_rows]

    monkeypatch.setattr("skpc.synthesis.report._drawn_rows", note)
    table_report(two_threads[:25], two_threads[25:], random_state=0)
    assert Spy.found
    assert all(found == {1} for found in Spy.found)


def test_threads_come_back_after_an_error(two_threads):
    Spy.fails = True
    with pytest.raises(RuntimeError, match="no"):
        Spy(n_components=1).fit(two_threads)
    assert n_blas_threads() == {2}


def test_calls_at_once_leave_the_threads_as_they_were():
    before = n_blas_threads()
    both = threading.Barrier(2)

    def work():
        for _ in range(20):
            both.wait(timeout=60)
            with one_thread():
                pass

    calls = [threading.Thread(target=work) for _ in range(2)]
    for call in calls:
        call.start()
    for call in calls:
        call.join(timeout=60)
    assert n_blas_threads() == before


class Watched(np.ndarray):
    """A matrix that notes how many threads BLAS has when it is multiplied."""

    def __matmul__(self, other):
        Spy.found.append(n_blas_threads())
        return np.asarray(self) @ np.asarray(other)


def watched(n_rows, n_columns):
    return np.ones((n_rows, n_columns)).view(Watched)


def test_large_products_have_all_threads_and_small_ones_have_not(two_threads):
    with one_thread():
        large = product(watched(2**10, 2**6), np.ones((2**6, 2**8)))
        product(watched(2**10, 2**6), np.ones((2**6, 2**8 - 1)))
    product(watched(2**10, 2**6), np.ones((2**6, 2**8)))
    assert Spy.found == [{2}, {1}, {2}]
    assert (large == 2.0**6).all()
    assert n_blas_threads() == {2}


def test_a_limit_of_the_user_is_not_raised(two_threads):
    with threadpool_limits(1, user_api="blas"):
        Spy(n_components=1).fit(two_threads)
        with one_thread():
            product(watched(2**10, 2**6), np.ones((2**6, 2**8)))
    assert Spy.found == [{1}, {1}]


def test_libraries_that_are_loaded_later_have_one_thread_too():
    program = """
        from skpc._threads import one_thread
        from threadpoolctl import threadpool_info
        with one_thread():
            before = len(threadpool_info())
        import lightgbm
        with one_thread():
            found = [library["num_threads"] for library in threadpool_info()]
        print(len(found) > before, set(found))
    """
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", dedent(program)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "True {1}"
