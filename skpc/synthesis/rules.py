"""Exact rules between columns, found in a table.

A rule is a tuple of names of columns:

- ``(a, "<=", b)`` and ``(a, "==", b)``: numbers in order, or equal;
- ``(total, "==", ("sum", a, b))``: a number is a sum of two or three others, or with
  ``"+", constant`` behind it a sum of one to three and a constant;
- ``(a, "determines", b)``: rows of one value of ``a`` have one value of ``b``;
- ``(a, "==", value, "if", b, "==", value)``: one value of ``b`` goes with one of ``a``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations, permutations
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta, binom
from sklearn.utils.validation import check_scalar

from skpc._arrays import Floats, Ints
from skpc.synthesis.cells import TableCells, read_cells
from skpc.synthesis.ties import ROUNDING


class Rule(NamedTuple):
    """A rule that holds in a table.

    Attributes
    ----------
    rule : tuple
        Names of columns and what holds between them; see :func:`find_rules`.
    n_rows : int
        Number of rows that could have broken it, their cells being observed.
    n_breaches : int
        Number of rows that do.
    pvalue : float
        Bound on the probability that so few rows break any of the rules that were tried if the
        columns were independent (Bonferroni).
    """

    rule: tuple[Any, ...]
    n_rows: int
    n_breaches: int
    pvalue: float

    @property
    def max_share(self) -> float:
        """Share of rows that may break the rule all the same: the end of a 95 % interval.

        About 3 / ``n_rows`` where no row does.
        """
        # Clopper and Pearson's exact bound; without a row that keeps the rule it is one.
        n_kept = self.n_rows - self.n_breaches
        return float(beta.ppf(0.95, self.n_breaches + 1, n_kept)) if n_kept else 1.0

    def __str__(self) -> str:
        text = f"{self.rule}: {self.n_rows:,} rows, {self.n_breaches} breaches"
        return f"{text}, p-value {self.pvalue:.2g}, up to {self.max_share:.2%} may break it"


class Rules(NamedTuple):
    """Rules that hold in a table.

    Attributes
    ----------
    rules : list of Rule
        Those that chance does not explain.
    trivial : list of Rule
        Those that it does: ranges that do not overlap, columns of almost as many values as rows,
        rules of few rows.
    """

    rules: list[Rule]
    trivial: list[Rule]

    def __str__(self) -> str:
        lines = [*map(str, self.rules)] or ["no rules"]
        return "\n".join([*lines, f"and {len(self.trivial)} that chance explains"])


def find_rules(X: Any, tolerance: float = 0.0, *, categorical_features: Any = "auto") -> Rules:
    """Find exact rules between columns. Nothing is done with them.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_features)
        Numbers, categories and dates; rows in which a cell of a rule is missing (NaN or None) say
        nothing about it.
    tolerance : float, default=0
        Greatest share of rows that may break a rule.
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical, as in the densities. Numbers can have an order and sums.

    Returns
    -------
    Rules
        ``rules`` holds tuples of names of columns (of their numbers, where X has no names), where
        all observed rows agree with them, and how sure that is:

        - ``(a, "<=", b)``: numbers or dates in order; of chains only the links;
        - ``(a, "==", b)``: equal numbers;
        - ``(total, "==", ("sum", a, b))``, or of three: numbers that add up;
        - ``(total, "==", ("sum", a, b), "+", constant)``, or of one or three;
        - ``(a, "determines", b)``: rows that share a value of ``a`` share that of ``b``;
        - ``(a, "==", value, "if", b, "==", value)``, where ``b`` has 20 values at most and does not
          determine ``a``.

        What follows from an equality is left out; an order of a part and its sum, whose other
        parts are not negative, is trivial.

    Raises
    ------
    ValueError
        If ``tolerance`` is not in [0, 1), or a cell is infinite.

    See Also
    --------
    table_report : How far a synthetic table keeps the rules of a real one.

    Notes
    -----
    The p-value is that of independent columns: of two values in order, of equal values, of rows
    that agree by chance. It is multiplied by the number of rules that were tried. A rule is trivial
    where it exceeds .01.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.synthesis import find_rules
    >>> rng = np.random.default_rng(0)
    >>> low, gap, other = rng.exponential(size=(3, 200))
    >>> found = find_rules(np.column_stack([low, low + gap, other]))
    >>> [found.rules[0].rule, len(found.rules)]
    [(0, '<=', 1), 1]
    """
    check_scalar(tolerance, "tolerance", Real, min_val=0, max_val=1, include_boundaries="left")
    (cells,) = read_cells([X], categorical_features)
    return rules_of(cells, tolerance)


def rules_of(cells: TableCells, tolerance: float = 0.0) -> Rules:
    """The rules of a table that has been read; see :func:`find_rules`."""
    # A rule that chance alone makes more probable than this, among all that were tried, is trivial.
    level = 0.01
    search = _Search(cells, tolerance)
    rules = [*search.equal(), *search.ordered(), *search.sums(), *search.determined()]
    rules += search.values({finding.rule for finding in rules})
    # As many rules as were tried had a chance: the correction of Bonferroni.
    rules = [
        finding._replace(pvalue=min(1.0, finding.pvalue * search.n_tried)) for finding in rules
    ]
    # Only rules that are sure can explain others.
    parts = search.parts_of_sums({finding.rule for finding in rules if finding.pvalue <= level})
    trivial = [finding for finding in rules if finding.pvalue > level or finding.rule in parts]
    sure = {
        finding.rule: finding
        for finding in rules
        if finding.pvalue <= level and finding.rule not in parts
    }
    # What follows from other rules needs no mention.
    return Rules(
        [finding for rule, finding in sure.items() if not _is_chained(rule, sure)], trivial
    )


class _Search:
    """Rules that hold in a table; counts those that are tried."""

    def __init__(self, cells: TableCells, tolerance: float):
        self.cells = cells
        self.rows = cells.values
        self.names = cells.names
        self.tolerance = tolerance
        self.n_tried = 0
        # A constant column would be in many rules that say nothing.
        self.n_values = [len(np.unique(v[~np.isnan(v)])) for v in self.rows.T]
        self.varied = [j for j, n in enumerate(self.n_values) if n > 1]
        #: Numbers have an order among each other, dates too, and durations.
        self.comparable = [
            # Columns of one unit only can be compared.
            [j for j in self.varied if not cells.is_categorical[j] and cells.unit(j) == unit]
            for unit in ("", "M", "m")
        ]

    def equal(self) -> Iterator[Rule]:
        """Numbers that are equal."""
        # An equality holds both ways, so that each pair is tried once.
        for j, k in (pair for columns in self.comparable for pair in combinations(columns, 2)):
            a, b = self._observed(j, k)
            rule = self.names[j], "==", self.names[k]
            yield from self._rule(rule, len(a), (a != b).sum(), _agreement(a, b))

    def ordered(self) -> Iterator[Rule]:
        """Numbers in order."""
        # An order has a direction: both are tried.
        for j, k in (pair for columns in self.comparable for pair in permutations(columns, 2)):
            a, b = self._observed(j, k)
            # Chance that a cell of one column is at most one of the other, were they independent.
            below = np.searchsorted(np.sort(a), b, side="right").sum() / max(len(a) ** 2, 1)
            # Equal columns are in order, but that has been said.
            if (a != b).any():
                rule = self.names[j], "<=", self.names[k]
                yield from self._rule(rule, len(a), (a > b).sum(), below)

    def sums(self) -> Iterator[Rule]:
        """Numbers that others add up to, perhaps with a constant."""
        columns = self.comparable[0]
        for parts in (parts for size in (1, 2, 3) for parts in combinations(columns, size)):
            # Two columns that differ by a constant are one rule.
            totals = [j for j in columns if j not in parts and (len(parts) > 1 or j > parts[0])]
            possible = self._possible_totals(parts, totals)
            # Candidates refused by the first rows have been tried, too, and count for chance.
            self.n_tried += len(totals) - len(possible)
            for total in possible:
                t, *addends = self._observed(total, *parts)
                # addends (n_parts, n_rows) add up to s (n_rows,).
                s = np.sum(addends, axis=0)
                # Sums agree up to rounding, relative to the largest number of the columns.
                step = ROUNDING * max(np.abs([t, *addends]).max(initial=0.0), ROUNDING)
                # What rounding hides would be a part of any sum: it has to matter in enough rows.
                middles = np.sort(addends, axis=1)[:, len(t) // 2 : len(t) // 2 + 1]
                n_changed = (np.abs(addends - middles) > step).sum(axis=1)
                if (n_changed <= self.tolerance * len(t)).any():
                    self.n_tried += 1
                    continue
                # The median is the constant if most rows keep the rule, up to rounding.
                constant = float(f"{np.median(t - s):.12g}") if len(t) else 0.0
                named = "sum", *(self.names[j] for j in parts)
                rule: tuple[Any, ...] = self.names[total], "==", named
                if abs(constant) > step:
                    s = s + constant
                    rule = (*rule, "+", constant)
                elif len(parts) == 1:
                    continue
                # As whole steps, numbers that differ by rounding alone are equal.
                q = _agreement(np.round(t / step), np.round(s / step))
                # The first row has told the constant.
                n_rows = len(t) - (len(rule) > 3)
                yield from self._rule(rule, n_rows, (np.abs(t - s) > step).sum(), q)

    def parts_of_sums(self, rules: Collection[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
        """Orders that follow from sums whose other parts are not negative."""
        lowest = dict(zip(self.names, np.nanmin(self.rows, axis=0, initial=np.inf)))
        return {
            (part, "<=", rule[0])
            for rule in rules
            if isinstance(rule[2], tuple) and min(rule[4:], default=0.0) >= 0.0
            for part in rule[2][1:]
            if all(lowest[summand] >= 0.0 for summand in rule[2][1:] if summand != part)
        }

    def _possible_totals(self, parts: tuple[int, ...], totals: list[int]) -> list[int]:
        """Columns that some others may add up to but for a constant, by the first rows."""
        # Rows by which most candidates are refused.
        first_rows = 100
        sample = self.rows[:first_rows]
        # (n_first_rows, n_totals): what the parts leave of each total.
        gap = sample[:, totals] - sample[:, parts].sum(axis=1, keepdims=True)
        # Missing ones are sorted to the end.
        middle = np.maximum((~np.isnan(gap)).sum(axis=0) - 1, 0) // 2
        # The median is taken as the constant, as for the whole table.
        gap = np.abs(gap - np.sort(gap, axis=0)[middle, np.arange(len(totals))])
        size = np.nan_to_num(np.abs(sample[:, [*parts, *totals]])).max(initial=0.0)
        # As many breaches as the tolerance allows by chance in so few rows.
        allowed = binom.ppf(0.999, len(sample), self.tolerance)
        return [
            j for j, n in zip(totals, (gap > 10.0 * ROUNDING * size).sum(axis=0)) if n <= allowed
        ]

    def determined(self) -> Iterator[Rule]:
        """Columns that are functions of another."""
        for j, k in permutations(self.varied, 2):
            a, b = self._observed(j, k)
            # Pairs are sorted by the first column, so that runs are its values.
            pairs, n_rows = np.unique([a, b], axis=1, return_counts=True)
            run_begins = np.flatnonzero(np.append(True, pairs[0, 1:] != pairs[0, :-1]))
            # The most frequent partner is what a value determines; other rows are breaches.
            n_usual = np.maximum.reduceat(n_rows, run_begins).sum() if len(a) else 0
            # The first row of each value agrees with itself.
            rule = self.names[j], "determines", self.names[k]
            yield from self._rule(
                rule, len(a) - len(run_begins), len(a) - n_usual, _agreement(b, b)
            )

    def values(self, known: Collection[tuple[Any, ...]]) -> Iterator[Rule]:
        """Values of a column that go with one of another, which does not determine it."""
        # Most values of a column that is the condition of a rule.
        most_values = 20
        # A value of k says what j is, if k has few values and does not determine j as a whole.
        for k, j in permutations(self.varied, 2):
            if (
                self.n_values[k] > most_values
                or (self.names[k], "determines", self.names[j]) in known
            ):
                continue
            a, b = self._observed(j, k)
            for value in np.unique(b):
                # Where the condition holds, the most frequent value is the candidate.
                usual, n_rows = np.unique(a[b == value], return_counts=True)
                v = usual[n_rows.argmax()]
                # Any other value of j could have been the candidate as well.
                self.n_tried += self.n_values[j] - 1
                names = self.names[j], "==", self.cells.label(j, v), "if", self.names[k]
                rule = (*names, "==", self.cells.label(k, value))
                yield from self._rule(
                    rule, n_rows.sum(), n_rows.sum() - n_rows.max(), (a == v).mean()
                )

    def _rule(
        self, rule: tuple[Any, ...], n_rows: int, n_breaches: int, q: float
    ) -> Iterator[Rule]:
        """A rule that a row keeps by chance with probability ``q``, if it holds."""
        # Rules that fail have been tried as well.
        self.n_tried += 1
        if n_rows and n_breaches <= self.tolerance * n_rows:
            # Chance of as few breaches, if each row kept the rule with probability q.
            pvalue = float(binom.cdf(n_breaches, n_rows, 1.0 - q))
            yield Rule(rule, int(n_rows), int(n_breaches), pvalue)

    def _observed(self, *columns: int) -> Floats:
        """Some columns, without the rows in which one of their cells is missing."""
        cells = self.rows[:, columns]
        return cells[~np.isnan(cells).any(axis=1)].T


def value_counts(a: Floats, b: Floats) -> tuple[Ints, Ints]:
    """Counts of both columns over the values of either, without missing ones."""
    values, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    in_a, in_b = np.split(place, [len(a)])
    return np.bincount(in_a, minlength=len(values)), np.bincount(in_b, minlength=len(values))


def _agreement(a: Floats, b: Floats) -> float:
    """Probability that independent draws of two columns are equal."""
    counts_a, counts_b = value_counts(a, b)
    return float(counts_a @ counts_b) / max(len(a) * len(b), 1)


def _is_chained(rule: tuple[Any, ...], rules: Collection[tuple[Any, ...]]) -> bool:
    """Whether an order follows from two others, or any rule from an equality."""
    a, kind, b = rule[:3]
    if kind == "<=":
        # One link between the two is enough.
        return any(r[:2] == (a, "<=") and (r[2], "<=", b) in rules for r in rules)
    return kind == "determines" and not {(a, "==", b), (b, "==", a)}.isdisjoint(rules)
