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
        Bound on the probability that, if the columns were independent, any of the rules that were
        tried would be broken by so few rows (Bonferroni).
    """

    rule: tuple[Any, ...]
    n_rows: int
    n_breaches: int
    pvalue: float

    @property
    def max_share(self) -> float:
        """Share of rows that may break the rule: the upper end of a 95 % interval.

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
        Rules that chance does not explain.
    trivial : list of Rule
        Rules that chance explains: ranges that do not overlap, columns of almost as many values as
        rows, rules of few rows.
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
    # Bonferroni's correction for all rules that were tried.
    rules = [
        finding._replace(pvalue=min(1.0, finding.pvalue * search.n_tried)) for finding in rules
    ]
    sure = {finding.rule: finding for finding in rules if finding.pvalue <= level}
    # A part is at most its sum: such orders are trivial if the sum is sure.
    for order in search.parts_of_sums(sure):
        sure.pop(order, None)
    trivial = [finding for finding in rules if finding.rule not in sure]
    # Rules that follow from other rules are left out.
    return Rules(
        [finding for rule, finding in sure.items() if not _is_chained(rule, sure)], trivial
    )


class _Search:
    """Finds the rules that hold in a table, and counts the rules that it tries."""

    def __init__(self, cells: TableCells, tolerance: float):
        self.cells = cells
        self.rows = cells.values
        self.names = cells.names
        self.tolerance = tolerance
        self.n_tried = 0
        # A constant column would be in many rules that say nothing.
        self.n_values = [len(np.unique(values[~np.isnan(values)])) for values in self.rows.T]
        self.varied = [column for column, n_values in enumerate(self.n_values) if n_values > 1]
        is_number = ~cells.is_categorical
        #: Columns that can be compared with each other: numbers, dates, durations.
        self.comparable = [
            [column for column in self.varied if is_number[column] and cells.unit(column) == unit]
            for unit in ("", "M", "m")
        ]

    def equal(self) -> Iterator[Rule]:
        """Numbers that are equal."""
        # An equality holds both ways, so that each pair is tried once.
        for pair in (pair for columns in self.comparable for pair in combinations(columns, 2)):
            left, right = self._observed(*pair)
            rule = self.names[pair[0]], "==", self.names[pair[1]]
            chance = _agreement(left, right)
            yield from self._rule(rule, len(left), (left != right).sum(), chance)

    def ordered(self) -> Iterator[Rule]:
        """Numbers in order."""
        # An order has a direction: both are tried.
        for pair in (pair for columns in self.comparable for pair in permutations(columns, 2)):
            low, high = self._observed(*pair)
            n_in_order = np.searchsorted(np.sort(low), high, side="right").sum()
            # Chance that independent cells of the two columns are in order.
            chance = n_in_order / max(len(low) ** 2, 1)
            # Equal columns are in order, but have a rule already.
            if (low != high).any():
                rule = self.names[pair[0]], "<=", self.names[pair[1]]
                yield from self._rule(rule, len(low), (low > high).sum(), chance)

    def sums(self) -> Iterator[Rule]:
        """Numbers that others add up to, perhaps with a constant."""
        columns = self.comparable[0]
        for parts in (parts for size in (1, 2, 3) for parts in combinations(columns, size)):
            # For one part and a constant, each pair of columns is tried once.
            totals = [
                total
                for total in columns
                if total not in parts and (len(parts) > 1 or total > parts[0])
            ]
            possible = self._possible_totals(parts, totals)
            # Candidates refused by the first rows have been tried, too, and count for chance.
            self.n_tried += len(totals) - len(possible)
            for total in possible:
                numbers, *addends = self._observed(total, *parts)
                # The addends (n_parts, n_rows) add up to the sums (n_rows,).
                sums = np.sum(addends, axis=0)
                # Sums agree up to rounding, relative to the largest number of the columns.
                step = ROUNDING * max(np.abs([numbers, *addends]).max(initial=0.0), ROUNDING)
                # A column of numbers that rounding hides could be a part of any sum: it has to
                # change in more rows than may break a rule.
                middle = len(numbers) // 2
                middles = np.sort(addends, axis=1)[:, middle : middle + 1]
                n_changed = (np.abs(addends - middles) > step).sum(axis=1)
                if (n_changed <= self.tolerance * len(numbers)).any():
                    self.n_tried += 1
                    continue
                # If most rows keep the rule, the median difference is the constant, up to rounding.
                constant = float(f"{np.median(numbers - sums):.12g}") if len(numbers) else 0.0
                named = "sum", *(self.names[part] for part in parts)
                rule: tuple[Any, ...] = self.names[total], "==", named
                if abs(constant) > step:
                    sums = sums + constant
                    rule = (*rule, "+", constant)
                elif len(parts) == 1:
                    continue
                # In whole steps, numbers that differ by rounding alone are equal.
                chance = _agreement(np.round(numbers / step), np.round(sums / step))
                # One row is used up by the constant.
                n_rows = len(numbers) - (len(rule) > 3)
                n_breaches = (np.abs(numbers - sums) > step).sum()
                yield from self._rule(rule, n_rows, n_breaches, chance)

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
        """The totals that may be the sum of the parts and a constant, as far as 100 rows tell.

        They refuse most candidates, which need not be compared in all rows.
        """
        n_sample_rows = 100
        sample = self.rows[:n_sample_rows]
        # The difference of each total and the sum of the parts, shape (n_sample_rows, n_totals).
        gap = sample[:, totals] - sample[:, parts].sum(axis=1, keepdims=True)
        # Missing differences are sorted to the end.
        middle = np.maximum((~np.isnan(gap)).sum(axis=0) - 1, 0) // 2
        # The median is taken as the constant, as for the whole table.
        gap = np.abs(gap - np.sort(gap, axis=0)[middle, np.arange(len(totals))])
        size = np.nan_to_num(np.abs(sample[:, [*parts, *totals]])).max(initial=0.0)
        n_breaches = (gap > 10.0 * ROUNDING * size).sum(axis=0)
        # So few rows may by chance have more breaches than the tolerance says.
        n_allowed = binom.ppf(0.999, len(sample), self.tolerance)
        return [total for total, n in zip(totals, n_breaches) if n <= n_allowed]

    def determined(self) -> Iterator[Rule]:
        """Columns that are functions of another."""
        for pair in permutations(self.varied, 2):
            source, target = self._observed(*pair)
            # Distinct pairs are sorted by the source: each of its values is a run of them.
            pairs, n_rows = np.unique([source, target], axis=1, return_counts=True)
            run_begins = np.flatnonzero(np.append(True, pairs[0, 1:] != pairs[0, :-1]))
            # A value of the source determines its most frequent target; other rows are breaches.
            n_usual = np.maximum.reduceat(n_rows, run_begins).sum() if len(source) else 0
            # One row of each value of the source agrees with itself.
            n_tested = len(source) - len(run_begins)
            rule = self.names[pair[0]], "determines", self.names[pair[1]]
            chance = _agreement(target, target)
            yield from self._rule(rule, n_tested, len(source) - n_usual, chance)

    def values(self, rules_so_far: Collection[tuple[Any, ...]]) -> Iterator[Rule]:
        """Values of a column that go with one of another, which does not determine it."""
        # A column of more values is no condition of a rule.
        most_values = 20
        for source, target in permutations(self.varied, 2):
            names = self.names[source], "determines", self.names[target]
            if self.n_values[source] > most_values or names in rules_so_far:
                continue
            conditions, values = self._observed(source, target)
            for condition in np.unique(conditions):
                # Where the condition holds, the most frequent value is the candidate.
                partners, n_rows = np.unique(values[conditions == condition], return_counts=True)
                usual = partners[n_rows.argmax()]
                # Any other value of the target could have been the candidate as well.
                self.n_tried += self.n_values[target] - 1
                equality = self.names[target], "==", self.cells.label(target, usual)
                rule = *equality, "if", names[0], "==", self.cells.label(source, condition)
                n_breaches = n_rows.sum() - n_rows.max()
                chance = (values == usual).mean()
                yield from self._rule(rule, n_rows.sum(), n_breaches, chance)

    def _rule(
        self, rule: tuple[Any, ...], n_rows: int, n_breaches: int, chance: float
    ) -> Iterator[Rule]:
        """The rule, if it holds; ``chance`` is the probability that a row keeps it by chance."""
        # Rules that fail have been tried as well.
        self.n_tried += 1
        if n_rows and n_breaches <= self.tolerance * n_rows:
            # The probability of so few breaches, if each row kept the rule by chance.
            pvalue = float(binom.cdf(n_breaches, n_rows, 1.0 - chance))
            yield Rule(rule, int(n_rows), int(n_breaches), pvalue)

    def _observed(self, *columns: int) -> Floats:
        """The columns, one a line, without the rows in which one of their cells is missing."""
        cells = self.rows[:, columns]
        return cells[~np.isnan(cells).any(axis=1)].T


def value_counts(a: Floats, b: Floats) -> tuple[Ints, Ints]:
    """How often each value of either column is in the first and in the second; none is missing."""
    values, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    in_a, in_b = np.split(place, [len(a)])
    return np.bincount(in_a, minlength=len(values)), np.bincount(in_b, minlength=len(values))


def _agreement(a: Floats, b: Floats) -> float:
    """Probability that independent draws of two columns are equal."""
    counts_a, counts_b = value_counts(a, b)
    return float(counts_a @ counts_b) / max(len(a) * len(b), 1)


def _is_chained(rule: tuple[Any, ...], rules: Collection[tuple[Any, ...]]) -> bool:
    """Whether a rule follows from others: an order from two, a determination from an equality."""
    a, kind, b = rule[:3]
    if kind == "<=":
        # One link between the two is enough.
        return any(r[:2] == (a, "<=") and (r[2], "<=", b) in rules for r in rules)
    return kind == "determines" and not {(a, "==", b), (b, "==", a)}.isdisjoint(rules)
