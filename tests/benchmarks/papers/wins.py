"""On how many data sets a method is ahead: what a paper says, its own tables, and here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tests.benchmarks.debd import SETS
from tests.benchmarks.papers.estimates import ESTIMATES
from tests.benchmarks.papers.ledger import Figures, Job, Judge, Row
from tests.benchmarks.published import TABLES, column

#: Figures of a method on a data set here, from those of the jobs: one, or of validation and test
#: rows.
Ours = Callable[[Mapping[str, Figures], str], dict[str, float]]
#: Mixed tables that are in the folder.
MIXED_SETS = ("bank", "electricity", "segment", "cmc")


class Method(NamedTuple):
    """A method of a paper as it was measured here: its jobs on a data set, and its figures."""

    jobs: Callable[[str], tuple[str, ...]]
    ours: Ours


class Claim(NamedTuple):
    """A sentence of a paper that counts data sets.

    Attributes
    ----------
    paper, item, what : str
        Where it stands, and what it says.
    said : int or None
        How many sets; None where the paper has no number, and most of them are meant.
    table : str
        The table that has the figures.
    method, rivals
        Columns of the table.
    better : int
        1 if great figures are good, -1 if small ones are.
    here : Method or None
        The method here, if it was measured.
    rivals_here : tuple of Method
        Rivals that were measured too; the others keep the figures of the table.
    like : str
        What a comparison with figures measured here is.
    """

    paper: str
    item: str
    what: str
    said: int | None
    table: str
    method: str
    rivals: tuple[str, ...]
    better: int = 1
    here: Method | None = None
    rivals_here: tuple[Method, ...] = ()
    like: str = "variant"


def measured_once(prefix: str, key: str) -> Method:
    """A method with one measurement, and one figure, of each data set."""

    def ours(found: Mapping[str, Figures], name: str) -> dict[str, float]:
        return {"": found[f"{prefix}/{name}"][key]}

    return Method(lambda name: (f"{prefix}/{name}",), ours)


def printed(claims: Iterable[Claim]) -> Figures:
    """How many sets of its own table each sentence holds for, and of how many."""
    counts: Figures = {}
    for claim in claims:
        rivals = [column(f"{claim.paper}/{claim.table}", rival) for rival in claim.rivals]
        scores = column(f"{claim.paper}/{claim.table}", claim.method)
        wins = [
            _is_ahead(claim, score, [rival[name] for rival in rivals])
            for name, score in scores.items()
        ]
        counts[claim.what] = [sum(wins), len(wins)]
    return counts


def _is_ahead(claim: Claim, score: float, rivals: Iterable[float]) -> bool:
    return all(claim.better * score > claim.better * rival for rival in rivals)


def win_jobs(claims: Iterable[Claim], count: Callable[[str], Figures]) -> dict[str, Job]:
    """A job for each item that counts; ``count`` is a function of a module, which a process needs.

    It has the name of the item, and returns what :func:`printed` counts in the paper's own table.
    """
    items = dict.fromkeys((claim.paper, claim.item) for claim in claims)
    return {f"wins/{paper}/{item}": Job(count, (item,), True) for paper, item in items}


def win_rows(claims: Iterable[Claim]) -> list[Row]:
    """Two rows for each sentence: by the paper's own table, and by what was measured here."""
    rows = []
    for claim in claims:
        n_published = len(TABLES[f"{claim.paper}/{claim.table}"].rows)
        said = f"{claim.said} of {n_published}" if claim.said else "no number: most"
        what = f"{claim.what}, in its own {claim.table.replace('_', ' ')}"
        job = f"wins/{claim.paper}/{claim.item}"
        judge = _printed_judge(claim, job)
        rows.append(Row(claim.paper, claim.item, what, said, (job,), judge))
        if claim.here is not None:
            rows.append(_measured_row(claim, said))
    return rows


def _printed_judge(claim: Claim, job: str) -> Judge:
    def judge(figures: Mapping[str, Figures]) -> tuple[str, str]:
        wins, n_sets = figures[job][claim.what]
        text = f"{wins} of {n_sets}"
        holds = wins >= _needed(claim, n_sets) if claim.said is None else wins == claim.said
        return text, "reproduced" if holds else f"refuted (their table has {text})"

    return judge


def _sets(claim: Claim) -> list[str]:
    """The sets of the table whose files can be had, and that are not too much to measure."""
    names = TABLES[f"{claim.paper}/{claim.table}"].rows
    public = [name for name in names if name in SETS or name in MIXED_SETS]
    return [name for name in public if not set(_jobs(claim, name)) & set(ESTIMATES)]


def _jobs(claim: Claim, name: str) -> tuple[str, ...]:
    methods = (claim.here, *claim.rivals_here)
    return tuple(job for method in methods if method for job in method.jobs(name))


def _quoted_rivals(claim: Claim) -> tuple[str, ...]:
    """Rivals that were not measured here keep the figures of the table."""
    return claim.rivals[len(claim.rivals_here) :]


def _measured_row(claim: Claim, said: str) -> Row:
    names = _sets(claim)
    jobs = tuple(job for name in names for job in _jobs(claim, name))
    absent = [name for name in TABLES[f"{claim.paper}/{claim.table}"].rows if name not in names]
    notes = [f"without {', '.join(absent)}"] if absent else []
    quoted = _quoted_rivals(claim)
    notes += [f"printed figures of {', '.join(quoted)}"] if quoted else []
    what = f"{claim.what}, here"
    row = Row(claim.paper, claim.item, what, said, jobs, _measured_judge(claim))
    return row._replace(note="; ".join(notes), like=claim.like, again=claim.table)


def _needed(claim: Claim, n_sets: int) -> int:
    """How many sets are the share that the paper has, or more than half of them."""
    if claim.said is None:
        return n_sets // 2 + 1
    n_published = len(TABLES[f"{claim.paper}/{claim.table}"].rows)
    return math.ceil(claim.said * n_sets / n_published)


def _measured_judge(claim: Claim) -> Judge:
    def judge(figures: Mapping[str, Figures]) -> tuple[str, str]:
        names = _sets(claim)
        wins: Counter[str] = Counter()
        for name in names:
            wins.update(_parts_ahead(claim, figures, name))
        labels = {"valid": "validation rows", "test": "test rows", "": ""}
        parts = [f"{n} of {len(names)} {labels[part]}".strip() for part, n in wins.items()]
        text = ", ".join(parts)
        needed = _needed(claim, len(names))
        # Where there are two parts, the figures of the paper seem to be of validation rows.
        counting = wins["valid"] if "valid" in wins else wins[""]
        if counting >= needed:
            return text, "reproduced"
        return text, f"short ({counting} of {len(names)}, {needed} would be as many)"

    return judge


def _parts_ahead(claim: Claim, figures: Mapping[str, Figures], name: str) -> dict[str, bool]:
    """Whether the method is ahead here, on each part of the rows that was scored."""
    if claim.here is None:
        raise ValueError(f"{claim.what!r} needs a method that was measured here")
    table = f"{claim.paper}/{claim.table}"
    quoted = [column(table, rival)[name] for rival in _quoted_rivals(claim)]
    rivals = [rival.ours(figures, name) for rival in claim.rivals_here]
    return {
        part: _is_ahead(claim, score, [*quoted, *(rival[part] for rival in rivals)])
        for part, score in claim.here.ours(figures, name).items()
    }
