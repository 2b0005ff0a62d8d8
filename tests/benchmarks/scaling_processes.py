"""Measuring in a process of its own, which is ended at a limit of CPU seconds."""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple


class Cost(NamedTuple):
    """What a fit has cost: CPU seconds and MiB by which the memory of the process grew.

    Without ``seconds`` it has not come to an end; ``note`` says why. ``quality`` is the mean log
    density of held-out rows (nats).
    """

    seconds: float | None = None
    mebibytes: float | None = None
    quality: float | None = None
    note: str = ""


def in_process(work: Callable[..., Cost], arguments: tuple[Any, ...], limit: float) -> Cost:
    """Call ``work(begin, *arguments)`` in a process that is ended at the limit.

    ``begin`` is to be called when imports and the compiling of kernels are done: the limit counts
    from there.
    """
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(work, arguments, limit, there))
    child.start()
    there.close()
    try:
        cost: Cost = here.recv()
        return cost
    except EOFError:
        child.join()
        if child.exitcode == -signal.SIGXCPU:
            return Cost(note=f"not done in {limit:g} s")
        return Cost(note=f"the process died with {child.exitcode}")
    finally:
        child.kill()
        child.join()


def _send(
    work: Callable[..., Cost], arguments: tuple[Any, ...], limit: float, there: Connection
) -> None:
    def begin() -> None:
        seconds = int(time.process_time() + limit) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))

    try:
        there.send(work(begin, *arguments))
    except MemoryError as refusal:
        there.send(Cost(note=str(refusal)))


def cost_of_fit(fit: Callable[[], Any]) -> Cost:
    """CPU seconds and growth of memory of a fit."""
    # Linux forgets the greatest memory so far, that of the compiler.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, start = peak(), time.process_time()
    fit()
    return Cost(time.process_time() - start, peak() - before)


def peak() -> float:
    """Greatest memory of the process so far, in MiB; Linux tells it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
