"""Rows of the ledger, the measurements behind them, and how the two are compared."""

from __future__ import annotations

import datetime
import json
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import sklearn

import skpc
from tests.benchmarks.papers.estimates import ESTIMATES
from tests.benchmarks.published import TABLES, column

#: What may stand at the beginning of a status.
STATUSES = (
    "reproduced",
    "another network",
    "beaten",
    "short",
    "refuted",
    "not reproduced",
    "not run",
)
#: Marks figures of ours that were measured by an old version.
OLD = "†"
#: What a row compares.
LIKES = {
    "same": "algorithm, data, split and settings are those of the paper",
    "split": "as the paper, on the rows that it seems to have used",
    "variant": "another method, other settings or other data than those of the paper",
    "machine": "times of another machine, or of other hardware",
    "illustration": "a picture, figures of other methods, or an experiment of ours about a "
    "statement",
}
#: Likelihoods and errors that differ by less than this share of the published one are alike...
SHARE = 5e-4
#: ... or by less than this: many are printed with two digits.
NATS = 1e-2
#: Likelihoods of a deterministic algorithm are printed with three digits.
DIGITS = 3e-3
#: How many times as fast one processor is as another at most: less says nothing of a method.
MACHINE = 4.0
#: Begin the reasons of rows that were not run, by which the pages count them.
QUOTED = "figures of other methods, quoted"
PICTURE = "an illustration without figures"
#: Begins the reasons of rows that are measured without a status.
NO_FIGURE = "no figure to compare"
CURVE = f"{NO_FIGURE}: the paper prints a curve without numbers"
NOT_YET = "not measured yet"
LONG = "takes about"
#: CPU seconds that are a reason not to measure.
MUCH = 1200
#: Measured before this version, figures are marked: the code has changed since.
CURRENT = (0, 2)
Figures = dict[str, Any]
#: From the figures of the jobs of a row: what is ours, as text, and the status.
Judge = Callable[[Mapping[str, Figures]], tuple[str, str]]


#: How the ledger is run.
COMMAND = "python -m tests.benchmarks.papers"


class Job(NamedTuple):
    """One measurement: a function of a module, called in a process of its own."""

    work: Callable[..., Figures]
    arguments: tuple[Any, ...] = ()
    #: Whether it belongs to the twenty minutes of ``--quick``.
    quick: bool = False
    #: A file of SKPC_DATA that it cannot do without.
    file: str = ""

    def is_possible(self) -> bool:
        return not self.file or (data_home() / self.file).exists()


class Row(NamedTuple):
    """A published figure or group of figures, and what it takes to compare with it."""

    paper: str
    item: str
    what: str
    theirs: str
    jobs: tuple[str, ...] = ()
    judge: Judge | None = None
    #: Without jobs: the status. With jobs: how the protocols differ.
    note: str = ""
    #: The data set, if there is one.
    data: str = ""
    #: What it compares, one of ``LIKES``. Rows without a measurement compare nothing.
    like: str = "illustration"
    #: The item whose row has the same measurement, which counts there.
    again: str = ""

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.item}"


class Line(NamedTuple):
    """A row as it stands in the ledger."""

    paper: str
    item: str
    data: str
    what: str
    theirs: str
    ours: str
    command: str
    status: str
    like: str
    again: str
    note: str
    seconds: str
    measured: str
    #: The oldest version of skpc behind the figures.
    version: str

    @property
    def series(self) -> str:
        """What a table has a row of for each data set; empty if the row stands alone."""
        name, colon, series = self.what.partition(": ")
        return series if self.data and colon and name == self.data else ""

    @property
    def kind(self) -> str:
        """The first word or two of the status."""
        return kind(self.status)

    @property
    def is_old(self) -> bool:
        """Whether a figure was measured before the versions that count as current."""
        return bool(self.version) and version_key(self.version) < CURRENT

    @property
    def is_shape(self) -> bool:
        """Whether it has nothing but the size of a data set."""
        return self.what.endswith(("rows and columns", "columns and rows"))

    @property
    def marked(self) -> str:
        """Our figure, with a mark if it is old."""
        return self.ours + OLD * self.is_old


class BoxRow(NamedTuple):
    """A row of the box on the page of a method: rows of the ledger, and why they differ."""

    label: str
    item: str
    why: str
    #: The series of the item, or the one row of this name; empty for all rows of the item.
    series: str = ""


#: Tables of rows and columns of the same sets.
SHAPES = ("soft_learn/table_4", "bayesian_scores/table_2")


def data_home() -> Path:
    return Path(os.environ.get("SKPC_DATA", "~/skpc_data")).expanduser()


def compare(row: Row, jobs: Mapping[str, Job], cache: Mapping[str, Figures]) -> Line:
    """Judge a row by the figures that have been measured."""
    command = f"{COMMAND} {row.name} --again"
    command += f" --sets {row.data}" if row.data else ""
    fixed = (row.paper, row.item, row.data, row.what, row.theirs)
    kinds = (row.like, row.again)
    if not row.jobs:
        return Line(*fixed, "", "", row.note, *kinds, "", "", "", "")
    absent = [name for name in row.jobs if name not in cache]
    if absent or row.judge is None:
        # Those with an estimate have a file: pages are the same in a clone without the data.
        unknown = [jobs[name] for name in absent if name not in ESTIMATES]
        files = [job.file for job in unknown if not job.is_possible()]
        why = f"{files[0]} is not in the folder" if files else _unmeasured(absent)
        return Line(*fixed, "", command, f"not run ({why})", *kinds, row.note, "", "", "")
    measurements = [cache[name] for name in row.jobs]
    figures = {name: cache[name]["figures"] for name in row.jobs}
    ours, status = row.judge(figures)
    seconds = f"{sum(each['seconds'] for each in measurements):.0f}"
    measured = max(f"{each['date']}, {each['versions']}" for each in measurements)
    version = min((version_of(each["versions"]) for each in measurements), key=version_key)
    return Line(*fixed, ours, command, status, *kinds, row.note, seconds, measured, version)


def version_of(versions: str) -> str:
    """The version of skpc in the versions of a measurement."""
    return versions.split(",")[0].removeprefix("skpc ")


def version_key(version: str) -> tuple[int, ...]:
    """What versions are sorted by: their first two numbers."""
    return tuple(int(number) for number in version.split(".")[:2])


def _unmeasured(absent: Sequence[str]) -> str:
    """Why possible measurements are absent: they take long, as far as that is known."""
    if not all(name in ESTIMATES for name in absent):
        return NOT_YET
    seconds = sum(ESTIMATES[name] for name in absent)
    text = f"{LONG} {seconds:,} CPU seconds"
    return text if seconds > MUCH else f"{NOT_YET}; {text}"


def measure(job: Job) -> Figures:
    """Figures of a job with its CPU seconds, date and versions."""
    start = time.process_time()
    figures = {key: _plain(value) for key, value in job.work(*job.arguments).items()}
    return {
        "figures": figures,
        "seconds": round(time.process_time() - start, 1),
        "date": datetime.date.today().isoformat(),
        "versions": f"skpc {skpc.__version__}, python {platform.python_version()}, "
        f"numpy {np.__version__}, numba {numba.__version__}, scikit-learn {sklearn.__version__}",
    }


def _plain(value: Any) -> Any:
    """Rounded to what a ledger needs, and known to json."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.6g}")
    return value.item() if isinstance(value, np.generic) else value


def read_cache(path: Path) -> dict[str, Figures]:
    found: dict[str, Figures] = json.loads(path.read_text()) if path.exists() else {}
    return found


def write_cache(path: Path, cache: Mapping[str, Figures]) -> None:
    lines = [f" {json.dumps(name)}: {json.dumps(cache[name])}" for name in sorted(cache)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def greater(theirs: float, ours: float, deviation: float = 0.0) -> str:
    """Status of a figure that should be great, such as a log-likelihood.

    Figures are alike, too, if they differ by no more than their standard deviation over runs.
    """
    gap = ours - theirs
    if abs(gap) <= max(SHARE * abs(theirs), NATS, deviation):
        return "reproduced"
    return "beaten" if gap > 0 else f"short (by {-gap:.3g})"


def smaller(theirs: float, ours: float) -> str:
    """Status of a figure that should be small: seconds, errors, sizes."""
    if abs(ours - theirs) <= SHARE * abs(theirs):
        return "reproduced"
    return "beaten" if ours < theirs else f"short (by {ours - theirs:.3g})"


def times(theirs: float, ours: float) -> str:
    """Status of seconds on another machine: alike unless machines cannot explain the ratio."""
    if ours > MACHINE * theirs:
        return f"short ({ours / theirs:.1f} times as long)"
    return "beaten" if MACHINE * ours < theirs else "reproduced"


def likelihood(job: str, theirs: float, key: str = "test_ll") -> Judge:
    """A judge of one log-likelihood."""
    return lambda found: (f"{found[job][key]:.3f}", greater(theirs, found[job][key]))


def network(job: str, theirs: float, size: float) -> Judge:
    """A judge of the log-likelihood of a deterministic algorithm.

    It is reproduced if the size and three digits are. Where scores tie, an order of the columns
    chooses: another network is as good within the rule for likelihoods, or it is better or worse.
    """

    def judge(found: Mapping[str, Figures]) -> tuple[str, str]:
        test_ll = found[job]["test_ll"]
        text = f"{test_ll:.3f}"
        is_near = abs(test_ll - theirs) <= DIGITS + 1e-9
        has_size = found[job]["params"] == size
        if is_near and has_size:
            return text, "reproduced"
        status = greater(theirs, test_ll)
        if status != "reproduced":
            return text, status
        why = "ties" if has_size else f"{found[job]['params']} parameters"
        return text, f"another network ({why}; {test_ll - theirs:+.3f})"

    return judge


def claim(job: str, holds: Callable[[Figures], bool], ours: Callable[[Figures], str]) -> Judge:
    """A judge of something that the paper says without a figure."""

    def judge(found: Mapping[str, Figures]) -> tuple[str, str]:
        figures = found[job]
        return ours(figures), "reproduced" if holds(figures) else "refuted"

    return judge


def within(
    job: str, ours: Callable[[Figures], str], excesses: Callable[[Figures], Mapping[str, Any]]
) -> Judge:
    """A judge by bars of ours: ``excesses`` names each figure with its value and its bar."""

    def judge(found: Mapping[str, Figures]) -> tuple[str, str]:
        figures = found[job]
        missed = [
            f"{name} {value:.3g}, the bar is {bar:g}"
            for name, (value, bar) in excesses(figures).items()
            if not value < bar
        ]
        return ours(figures), f"short ({'; '.join(missed)})" if missed else "reproduced"

    return judge


def statement(
    name: str,
    what: str,
    said: str,
    job: str,
    holds: Callable[[Figures], bool],
    text: Callable[[Figures], str],
) -> Row:
    """A row about a theorem or a cost, named by paper and item."""
    paper, item = name.split("/")
    return Row(paper, item, what, said, (job,), claim(job, holds, text))


def quoted(table: str, data: str, columns: tuple[str, ...]) -> Row:
    """The figures of other methods in a row of a table."""
    paper, item = table.split("/")
    text = ", ".join(f"{name} {column(table, name)[data]:g}" for name in columns)
    return Row(paper, item, f"{data}: others", text, note=f"not run ({QUOTED})", data=data)


def illustration(paper: str, item: str, what: str) -> Row:
    return Row(paper, item, what, "", note=f"not run ({PICTURE})")


def shapes_row(table: str, data: str) -> Row:
    """Rows and columns of a binary set and those that a paper prints."""
    paper, item = table.split("/")
    theirs, other = _shape_of(table, data), next(each for each in SHAPES if each != table)
    printed, job = _shape_of(other, data), f"shapes/{data}"
    doubts = [key for key in theirs if printed.get(key, theirs[key]) != theirs[key]]
    told = [f"{key}: {printed[key]:g} in {other}" for key in doubts]

    def judge(found: Mapping[str, Figures]) -> tuple[str, str]:
        ours = {key: found[job][key] for key in theirs}
        # Densities are printed with three digits.
        off = [key for key in theirs if abs(ours[key] - theirs[key]) > 6e-4]
        wrong = [key for key in off if ours[key] != printed.get(key)]
        return _shown(ours), differing(wrong, theirs, ours)

    text = _shown(theirs)
    what = f"{data}: rows and columns"
    again = "" if table == SHAPES[-1] else "bayesian_scores/table_2"
    return Row(paper, item, what, text, (job,), judge, "; ".join(told), data, "same", again)


def _shape_of(table: str, data: str) -> dict[str, float]:
    return dict(zip(TABLES[table].columns, TABLES[table].rows[data]))


def _shown(shape: Mapping[str, float]) -> str:
    """Counts, and a density with the digits that the papers print."""
    digits = {key: ".3f" if key == "density" else "g" for key in shape}
    return ", ".join(f"{key} {value:{digits[key]}}" for key, value in shape.items())


def kind(status: str) -> str:
    """The first word or two of a status, one of those that are allowed."""
    for allowed in STATUSES:
        if status.startswith(allowed):
            return allowed
    raise ValueError(f"a status starts with one of {STATUSES}, got {status!r}")


def counted(lines: Iterable[Line]) -> str:
    """How many rows of each status there are."""
    counts = Counter(line.kind for line in lines)
    return ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])


def differing(keys: Sequence[str], theirs: Figures, ours: Figures) -> str:
    """Status of counts: which of them differ, and how."""
    told = [f"{key}: {ours[key]:g} here, {theirs[key]:g} there" for key in keys]
    return f"refuted ({', '.join(told)})" if told else "reproduced"
