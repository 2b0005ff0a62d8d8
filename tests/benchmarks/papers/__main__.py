"""The ledger: every table and figure of the five papers, theirs and ours.

    export SKPC_DATA=/path/to/data
    python -m tests.benchmarks.papers all_trees/table_1 --sets nltcs --again

A NAME is a paper ("soft_learn") or a table or figure of it ("soft_learn/table_8"); without names
all are run. --sets leaves out other data sets. Every measurement is kept with its date, versions
and CPU seconds of one thread in ``measured.json``, and is not made again unless --again says so: in
a new clone most are there already. The rows that were asked for are printed, theirs and ours.
--quick runs those that fit in twenty minutes of one core. All of it takes about thirteen hours;
measurements that have not been made have estimates in ``estimates.py``.

All rows are then written to ``ledger.csv``, a page for each paper, and a box for the page of each
method in the user guide. These are pages of the documentation, which git tracks: name another
folder by --out for a trial, which begins without measurements. The front page of the papers says
what the status of a row means.

Sets whose file is not in the folder SKPC_DATA are run by the same command once it is there.
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
from tests.benchmarks.papers.front_page import not_run
from tests.benchmarks.papers.ledger import (
    COMMAND,
    BoxRow,
    Figures,
    Job,
    Line,
    Row,
    compare,
    data_home,
    measure,
    read_cache,
    write_cache,
)
from tests.benchmarks.papers.pages import write_pages
from tests.benchmarks.papers.pictures import PARETO, draw_pareto

#: Measurements before processes are started anew, which takes seconds.
_TASKS = 16
MODULES = (expected_kernels, soft_learn, kernel_ep, all_trees, bayesian_scores)


def main() -> None:
    parser = _parser()
    options = parser.parse_args()
    jobs, rows = all_jobs(), all_rows()
    refuse_unknown(parser, options.names, known_names(rows))
    refuse_unknown(parser, options.sets, sorted({row.data for row in rows} - {""}))
    cache_path = options.out / "measured.json"
    cache = read_cache(cache_path)
    asked = asked_rows(rows, options.names, options.sets)
    names = wanted_jobs(asked)
    kept = [name for name in names if name in cache and not options.again]
    absent = [name for name in names if name not in kept and not jobs[name].is_possible()]
    slow = [name for name in names if options.quick and not jobs[name].quick]
    wanted = [name for name in names if name not in {*kept, *absent, *slow}]
    lacking = f"{len(absent)} lack a file in {data_home()} (SKPC_DATA)"
    lacking += "".join(f", such as {jobs[name].file}" for name in absent[:1])
    if absent and not wanted and not kept:
        parser.error(f"no measurements: {lacking}")
    print(f"{len(wanted)} measurements to make", flush=True)
    if kept:
        print(f"{len(kept)} are in {cache_path} (--again makes them anew)", flush=True)
    if absent:
        print(lacking, flush=True)
    for name, found in _measured({name: jobs[name] for name in wanted}, options.jobs):
        # Read again: another run may have written in the meantime.
        cache = read_cache(cache_path) | {name: found}
        write_cache(cache_path, cache)
        print(f"{found['seconds']:8.1f} s  {name}", flush=True)
    if not options.names and not options.sets:
        asked = [row for row in rows if set(row.jobs) & set(wanted)]
    for row in asked:
        print(_told(compare(row, jobs, cache)))
    _write(options.out, jobs, [compare(row, jobs, cache) for row in rows], cache)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="papers, tables or figures")
    parser.add_argument("--sets", nargs="+", default=(), metavar="SET", help="data sets")
    parser.add_argument("--quick", action="store_true", help="what fits in twenty minutes")
    parser.add_argument("--again", action="store_true", help="measure what is kept anew")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("doc/papers"),
        metavar="FOLDER",
        help="of pages and measurements; those of doc/papers, which git tracks, are rewritten",
    )
    return parser


def _told(line: Line) -> str:
    """A row of the ledger for the screen."""
    text = f"{line.paper}/{line.item}  {line.what}: {line.status}"
    figures = {"theirs": line.theirs, "ours": line.ours}
    return text + "".join(f"; {whose} {told}" for whose, told in figures.items() if told)


def _write(
    folder: Path, jobs: Mapping[str, Job], lines: list[Line], cache: Mapping[str, Figures]
) -> None:
    images = folder.parent / "images"
    if images.is_dir():
        draw_pareto(cache, images / PARETO)
    rest = [ESTIMATES.get(name, 0) for name in jobs if name not in cache]
    seconds = sum(each["seconds"] for each in cache.values())
    write_pages(lines, folder, seconds, sum(rest), all_boxes())
    print(f"Pages are in {folder}. {not_run(lines)}")


def all_jobs() -> dict[str, Job]:
    return {name: job for module in MODULES for name, job in module.JOBS.items()}


def all_boxes() -> dict[str, tuple[BoxRow, ...]]:
    return {module.PAPER: module.BOX for module in MODULES}


def all_rows() -> list[Row]:
    return [row for module in MODULES for row in module.rows()]


def known_names(rows: Iterable[Row]) -> list[str]:
    """Papers, and their tables and figures."""
    return list(dict.fromkeys(name for row in rows for name in (row.paper, row.name)))


def asked_rows(rows: Iterable[Row], names: Iterable[str], sets: Iterable[str]) -> list[Row]:
    """Rows of papers, tables and figures, and of data sets; of all where none is named."""
    names, sets = set(names), set(sets)
    return [
        row
        for row in rows
        if (not names or {row.paper, row.name} & names) and (not sets or row.data in sets)
    ]


def wanted_jobs(rows: Iterable[Row]) -> list[str]:
    """The jobs of rows, each once."""
    return list(dict.fromkeys(job for row in rows for job in row.jobs))


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
