"""The ledger: every table and figure of the five papers, theirs and ours.

    SKPC_DATA=... python -m tests.benchmarks.papers [NAME ...] [--quick] [--sets SET ...]
        [--again] [--jobs N] [--out doc/papers]

A NAME is a paper ("soft_learn") or a table or figure of it ("soft_learn/table_8"); without names
all are run. --sets leaves out other data sets. Every measurement is kept with its date, versions
and CPU seconds of one thread in ``measured.json``, and is not made again unless --again says so.
--quick runs those that fit in half an hour: 130, which took 14 minutes of one core. All of it takes
about nine hours; measurements that have not been made have estimates in ``estimates.py``.

All rows are then written to ``ledger.csv``, and a page for each paper. The status of a row is

- reproduced: within half a thousandth of the published figure, or .01 nats; or what is said holds;
- beaten: better than that;
- short (by how much);
- refuted (why): what is said does not hold here, and the command shows it;
- not run (why): another method's figure, an illustration, or something is missing.

Sets whose file is not in the folder are run by the same command once it is there.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from tests.benchmarks.debd import refuse_unknown
from tests.benchmarks.papers import (
    all_trees,
    bayesian_scores,
    expected_kernels,
    kernel_ep,
    soft_learn,
)
from tests.benchmarks.papers.estimates import ESTIMATES
from tests.benchmarks.papers.ledger import Job, Row, compare, measure, read_cache, write_cache
from tests.benchmarks.papers.pages import not_run, write_pages
from tests.benchmarks.papers.pictures import PARETO, draw_pareto

#: Measurements before processes are started anew, which takes seconds.
_TASKS = 16
MODULES = (expected_kernels, soft_learn, kernel_ep, all_trees, bayesian_scores)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--sets", nargs="+", default=())
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("doc/papers"))
    options = parser.parse_args()
    jobs, rows = all_jobs(), all_rows()
    refuse_unknown(parser, options.names, known_names(rows))
    refuse_unknown(parser, options.sets, sorted({row.data for row in rows} - {""}))
    cache_path = options.out / "measured.json"
    cache = read_cache(cache_path)
    wanted = [
        name
        for name in wanted_jobs(rows, options.names, options.sets)
        if (options.again or name not in cache)
        and jobs[name].is_possible()
        and (jobs[name].quick or not options.quick)
    ]
    print(f"{len(wanted)} measurements", flush=True)
    for name, found in _measured({name: jobs[name] for name in wanted}, options.jobs):
        # Read again: another run may have written in the meantime.
        cache = read_cache(cache_path) | {name: found}
        write_cache(cache_path, cache)
        print(f"{found['seconds']:8.1f} s  {name}", flush=True)
    draw_pareto(cache, options.out.parent / "images" / PARETO)
    lines = [compare(row, jobs, cache) for row in rows]
    rest = [ESTIMATES.get(name, 0) for name in jobs if name not in cache]
    write_pages(lines, options.out, sum(each["seconds"] for each in cache.values()), sum(rest))
    print(not_run(lines))


def all_jobs() -> dict[str, Job]:
    return {name: job for module in MODULES for name, job in module.JOBS.items()}


def all_rows() -> list[Row]:
    return [row for module in MODULES for row in module.rows()]


def known_names(rows: Iterable[Row]) -> list[str]:
    """Papers, and their tables and figures."""
    return list(dict.fromkeys(name for row in rows for name in (row.paper, row.name)))


def wanted_jobs(rows: Iterable[Row], names: Iterable[str], sets: Iterable[str]) -> list[str]:
    """The jobs of the chosen rows, each once."""
    names, sets = set(names), set(sets)
    found = [
        job
        for row in rows
        if (not names or {row.paper, row.name} & names) and (not sets or row.data in sets)
        for job in row.jobs
    ]
    return list(dict.fromkeys(found))


def _measured(jobs: Mapping[str, Job], n_jobs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    names = list(jobs)
    for first in range(0, len(names), _TASKS):
        with ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn")) as pool:
            running = {
                pool.submit(measure, jobs[name]): name for name in names[first : first + _TASKS]
            }
            for future in as_completed(running):
                error = future.exception()
                if error is None:
                    yield running[future], future.result()
                else:
                    print(f"{running[future]} failed: {error!r}", flush=True)


if __name__ == "__main__":
    main()
