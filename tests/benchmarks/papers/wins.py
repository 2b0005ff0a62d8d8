"""On how many data sets a method is ahead: what the papers say, their own tables, and here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from tests.benchmarks.debd import COLUMN, SETS
from tests.benchmarks.papers.estimates import ESTIMATES
from tests.benchmarks.papers.ledger import Figures, Job, Judge, Row
from tests.benchmarks.published import TABLES, column

#: Figures of a method on a data set here, from those of the jobs: one, or of validation and test
#: rows.
Ours = Callable[[Mapping[str, Figures], str], dict[str, float]]
#: Where the width of a leaf is that of table 2.
_WIDTH = "0.01"


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


def _soft_jobs(assignment: str, name: str) -> tuple[str, ...]:
    return tuple(f"soft/{assignment}/{clusterer}/{name}" for clusterer in ("em", "kmeans"))


def _soft(assignment: str) -> Method:
    """The clusterer that is better on validation rows."""

    def ours(found: Mapping[str, Figures], name: str) -> dict[str, float]:
        best = max(_soft_jobs(assignment, name), key=lambda job: found[job]["valid"])
        return {part: found[best][part] for part in ("valid", "test")}

    return Method(partial(_soft_jobs, assignment), ours)


def _drawn(assignment: str) -> Method:
    def ours(found: Mapping[str, Figures], name: str) -> dict[str, float]:
        figures = found[f"soft/drawn/{assignment}/{name}"]
        return {"valid": figures["valid_drawn"], "test": figures["drawn"]}

    return Method(lambda name: (f"soft/drawn/{assignment}/{name}",), ours)


def _mixed(variant: str) -> Method:
    def jobs(name: str) -> tuple[str, ...]:
        return tuple(f"soft/mixed/{clusterer}/{name}" for clusterer in ("em", "kmeans"))

    def ours(found: Mapping[str, Figures], name: str) -> dict[str, float]:
        return {"": max(found[job][f"{variant} {_WIDTH}"] for job in jobs(name))}

    return Method(jobs, ours)


def _one(prefix: str, key: str) -> Method:
    def ours(found: Mapping[str, Figures], name: str) -> dict[str, float]:
        return {"": found[f"{prefix}/{name}"][key]}

    return Method(lambda name: (f"{prefix}/{name}",), ours)


SOFT, HARD = _soft("soft"), _soft("hard")
LATEST = ("LearnPSDD", "EiNet", "RAT-SPN", "HCLT")
CLAIMS = (
    Claim(
        "soft_learn",
        "section_5.1",
        "binary sets: SoftLearn above both implementations of LearnSPN",
        14,
        "table_1",
        "SoftLearn",
        ("LearnSPN", "LearnSPN-Gens"),
        here=SOFT,
        rivals_here=(HARD,),
        like="split",
    ),
    Claim(
        "soft_learn",
        "section_5.1",
        "binary sets: SoftLearn above CNET",
        18,
        "table_1",
        "SoftLearn",
        ("CNET",),
        here=SOFT,
        like="split",
    ),
    *(
        Claim(
            "soft_learn",
            "section_5.1",
            f"mixed sets: {title} above LearnSPN",
            6,
            "table_2",
            key,
            ("LearnSPN",),
            here=_mixed(variant),
            rivals_here=(_mixed("hard"),),
            like="split",
        )
        for title, key, variant in (
            ("SoftLearn", "SoftLearn", "soft"),
            ("SoftLearn with two iterations", "early", "early"),
        )
    ),
    Claim(
        "soft_learn",
        "section_5.3",
        "learned from drawn rows: SoftLearn above LearnSPN",
        4,
        "table_3",
        "SoftLearn-drawn",
        ("LearnSPN-drawn",),
        here=_drawn("soft"),
        rivals_here=(_drawn("hard"),),
        like="split",
    ),
    *(
        Claim(
            "soft_learn",
            "appendix_c",
            f"SoftLearn above {rival}",
            said,
            "table_10",
            "SoftLearn",
            (rival,),
            here=SOFT,
            like="split",
        )
        for rival, said in zip(LATEST, (16, 14, 15, 8))
    ),
    Claim(
        "soft_learn",
        "appendix_c",
        "SoftLearn above all others",
        6,
        "table_10",
        "SoftLearn",
        ("LearnSPN-Gens", "LearnSPN", "CNET", *LATEST),
        here=SOFT,
        like="split",
    ),
    Claim(
        "all_trees",
        "section_3.2",
        "MoAT above both HCLT and MT",
        14,
        "table_1",
        "MoAT",
        ("HCLT", "MT"),
        here=_one("moat/undirected", "test_ll"),
        rivals_here=(_one("moat/hclt", "test_ll"), _one("moat/mt", "test_ll_train")),
    ),
    Claim(
        "bayesian_scores",
        "section_4",
        "CNetBIC above dCSN, whose penalty does not count the parameters of trees",
        None,
        "table_1",
        "CNetBIC",
        ("dCSN",),
        here=_one("cutset/bic", "test_ll"),
        like="same",
    ),
    Claim(
        "bayesian_scores",
        "section_7.1",
        "mixtures by structural EM above single networks",
        20,
        "table_1",
        "EM-CNetBD",
        ("CNetBD",),
        here=_one("cutset/em_plain", "test_ll_train"),
        rivals_here=(_one("cutset/bd", "test_ll"),),
        like="same",
    ),
    *(
        Claim(
            "bayesian_scores",
            "appendix_c.3",
            f"{title}: fewer parameters than CNet, XCNet and dCSN",
            None,
            "table_4",
            title,
            ("CNet", "XCNet", "dCSN"),
            better=-1,
            here=_one(f"cutset/{criterion}", "params"),
            like="same",
        )
        for criterion, title in COLUMN.items()
    ),
)
#: Mixed tables that are in the folder.
MIXED_SETS = ("bank", "electricity", "segment", "cmc")
#: Sets of more than 180 variables, on which MoAT "beats baselines by large margins".
WIDE = tuple(name for name in SETS if column("all_trees/table_1", "columns")[name] > 180)
#: Nats that are no large margin: the rounding of a table times ten.
SMALL_MARGIN = 0.1


def printed(paper: str, item: str) -> Figures:
    """How many sets of its own table each sentence of an item holds for, and of how many."""
    found: Figures = {}
    for each in (claim for claim in CLAIMS if (claim.paper, claim.item) == (paper, item)):
        theirs = column(f"{each.paper}/{each.table}", each.method)
        rivals = [column(f"{each.paper}/{each.table}", rival) for rival in each.rivals]
        ahead = [_ahead(each, theirs[name], [rival[name] for rival in rivals]) for name in theirs]
        found[each.what] = [sum(ahead), len(ahead)]
    return found


def printed_margins() -> Figures:
    titles = ("MoAT", "HCLT", "MT")
    return {
        name: _margin(*(column("all_trees/table_1", title)[name] for title in titles))
        for name in WIDE
    }


def _margin(ours: float, *rivals: float) -> float:
    return round(ours - max(rivals), 3)


def _ahead(claim: Claim, method: float, rivals: list[float]) -> bool:
    return all(claim.better * method > claim.better * rival for rival in rivals)


JOBS = {
    **{
        f"wins/{each.paper}/{each.item}": Job(printed, (each.paper, each.item), True)
        for each in CLAIMS
    },
    "wins/margins": Job(printed_margins, (), True),
}


def rows() -> list[Row]:
    found = []
    for each in CLAIMS:
        of = len(TABLES[f"{each.paper}/{each.table}"].rows)
        theirs = f"{each.said} of {of}" if each.said else "no number: most"
        what = f"{each.what}, in its own {each.table.replace('_', ' ')}"
        job = f"wins/{each.paper}/{each.item}"
        row = Row(each.paper, each.item, what, theirs, (job,), _printed_judge(each, job))
        found.append(row)
        if each.here is not None:
            found.append(_row_here(each, theirs))
    return [*found, *_margins()]


def _printed_judge(claim: Claim, job: str) -> Judge:
    def judge(found: Mapping[str, Figures]) -> tuple[str, str]:
        wins, of = found[job][claim.what]
        holds = 2 * wins > of if claim.said is None else wins == claim.said
        status = "reproduced" if holds else f"refuted (their table has {wins} of {of})"
        return f"{wins} of {of}", status

    return judge


def _sets(claim: Claim) -> list[str]:
    """The sets of the table whose files can be had, and that are not too much to measure."""
    names = TABLES[f"{claim.paper}/{claim.table}"].rows
    held = [name for name in names if name in SETS or name in MIXED_SETS]
    return [name for name in held if not set(_jobs_of(claim, name)) & set(ESTIMATES)]


def _jobs_of(claim: Claim, name: str) -> tuple[str, ...]:
    methods = (claim.here, *claim.rivals_here)
    return tuple(job for method in methods if method for job in method.jobs(name))


def _row_here(claim: Claim, theirs: str) -> Row:
    names = _sets(claim)
    jobs = tuple(job for name in names for job in _jobs_of(claim, name))
    kept = claim.rivals[len(claim.rivals_here) :]
    note = f"{', '.join(names)}; the share that the paper has is enough"
    note += f"; printed figures of {', '.join(kept)}" if kept else ""
    row = Row(claim.paper, claim.item, f"{claim.what}, here", theirs, jobs, _here_judge(claim))
    return row._replace(note=note, like=claim.like, again=claim.table)


def _here_judge(claim: Claim) -> Judge:
    def judge(found: Mapping[str, Figures]) -> tuple[str, str]:
        names, wins = _sets(claim), {}
        for name in names:
            for part, ahead in _ahead_here(claim, found, name).items():
                wins[part] = wins.get(part, 0) + ahead
        of = len(TABLES[f"{claim.paper}/{claim.table}"].rows)
        share = 0.5 if claim.said is None else claim.said / of
        told = {"valid": "validation rows", "test": "test rows", "": ""}
        text = ", ".join(f"{n} of {len(names)} {told[part]}".strip() for part, n in wins.items())
        needed = int(share * len(names))
        # The figures of that paper seem to be of validation rows.
        first = next(iter(wins.values()))
        if first >= needed:
            return text, "reproduced"
        return text, f"short ({first} of {len(names)}, {needed} would be as many)"

    return judge


def _ahead_here(claim: Claim, found: Mapping[str, Figures], name: str) -> dict[str, bool]:
    """Whether the method is ahead here, on the rows that its figures are of."""
    assert claim.here is not None
    kept = claim.rivals[len(claim.rivals_here) :]
    theirs = [column(f"{claim.paper}/{claim.table}", rival)[name] for rival in kept]
    rivals = [rival.ours(found, name) for rival in claim.rivals_here]
    return {
        part: _ahead(claim, ours, [*theirs, *(rival[part] for rival in rivals)])
        for part, ours in claim.here.ours(found, name).items()
    }


def _margins() -> list[Row]:
    """What MoAT is ahead by on wide sets."""
    what = "margin over the better of HCLT and MT, sets of more than 180 variables, nats"
    said = "large on all of them"
    row = Row("all_trees", "section_3.2", f"{what}, in its own table 1", said, ("wins/margins",))
    jobs = tuple(job for name in _wide_here() for job in _tree_jobs(name))
    here = Row("all_trees", "section_3.2", f"{what}, here", said, jobs, _margins_here)
    row = row._replace(judge=lambda found: _margins_judge(found["wins/margins"]))
    here = here._replace(like="variant", again="table_1", note=", ".join(_wide_here()))
    return [row, *([here] if jobs else [])]


def _tree_jobs(name: str) -> tuple[str, ...]:
    return tuple(f"moat/{method}/{name}" for method in ("undirected", "hclt", "mt"))


def _wide_here() -> list[str]:
    return [name for name in WIDE if not set(_tree_jobs(name)) & set(ESTIMATES)]


def _margins_here(found: Mapping[str, Figures]) -> tuple[str, str]:
    margins = {}
    for name in _wide_here():
        ours, hclt, mt = (found[job] for job in _tree_jobs(name))
        margins[name] = _margin(ours["test_ll"], hclt["test_ll"], mt["test_ll_train"])
    return _margins_judge(margins)


def _margins_judge(margins: Mapping[str, float]) -> tuple[str, str]:
    text = ", ".join(f"{name} {margin:.2f}" for name, margin in margins.items())
    small = [name for name, margin in margins.items() if margin < SMALL_MARGIN]
    status = f"refuted (less than {SMALL_MARGIN} on {', '.join(small)})" if small else "reproduced"
    return text, status
