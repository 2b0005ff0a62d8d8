"""Rules of a user, read as ties of one column to others."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from skpc._arrays import Bools, Floats
from skpc._fitting import noted
from skpc._validation import describe_column
from skpc.domain._domain import Domain
from skpc.variables.dates import Calendar

#: Sums agree to this part of the greatest number.
_ROUNDING = 1e-9
#: Most columns of a chain of orders.
_LONGEST = 3
_KINDS = (
    '(a, "<=", b), (a, "==", b), (total, "==", ("sum", a, b)), the same with "+", constant, '
    '(a, "determines", b) or (a, "==", value, "if", b, "==", value)'
)


class Tie(NamedTuple):
    """How a column depends on others.

    Attributes
    ----------
    rule : tuple
        The rule that says so.
    target : int
        The column.
    sources : tuple of int
        Those that it depends on.
    keys, values : ndarrays of shape (n_states,)
        The states of the source that fixes values, increasing, and the values of the target; NaN
        where a state fixes none. Empty for a sum.
    has_gap : bool
        Whether the target is greater than the sum by a gap.
    offset : float
        What is added to the sum: a constant, or the difference of the origins of dates.
    reach : float
        Errors of rounding.
    """

    rule: tuple[Any, ...]
    target: int
    sources: tuple[int, ...]
    keys: Floats = np.empty(0)
    values: Floats = np.empty(0)
    has_gap: bool = False
    offset: float = 0.0
    reach: float = 0.0

    @property
    def is_map(self) -> bool:
        """Whether states of the source fix values."""
        return len(self.keys) > 0

    @property
    def is_total(self) -> bool:
        """Whether the target has nothing of its own to learn."""
        return not (self.has_gap or np.isnan(self.values).any())

    def fixed(self, rows: Floats) -> Floats:
        """The value that the sources fix, the least one with a gap; NaN where they fix none."""
        sources = rows[:, self.sources]
        if not self.is_map:
            return np.asarray(sources.sum(axis=1) + self.offset)
        place = np.minimum(np.searchsorted(self.keys, sources[:, 0]), len(self.keys) - 1)
        return np.where(self.keys[place] == sources[:, 0], self.values[place], np.nan)

    def broken(self, rows: Floats) -> Bools:
        """Which rows break the rule."""
        excess = self.fixed(rows) - rows[:, self.target]
        return (excess if self.has_gap else np.abs(excess)) > self.reach


def read_rule(rule: Any, domain: Domain, rows: Floats) -> Tie:
    """The tie that a rule says."""
    # Rules that were found have support and chance beside them.
    given = rule = getattr(rule, "rule", rule)
    rule = tuple(rule) if isinstance(rule, tuple | list) else ()
    kind = rule[1] if len(rule) in (3, 5, 7) else None
    is_value = len(rule) == 7 and rule[3] == "if" and kind == rule[5] == "=="
    is_sum = kind is not None and isinstance(rule[2], tuple | list)
    is_shifted = is_sum and rule[3:4] == ("+",) and isinstance(rule[4], Real)
    is_shifted = is_shifted and bool(np.isfinite(rule[4]))
    if not (is_value or is_shifted) and (len(rule) != 3 or kind not in ("<=", "==", "determines")):
        raise ValueError(f"rules must be a list of tuples {_KINDS}; found {given!r}.")
    if is_value:
        target, source = (domain.columns([name], "rules")[0] for name in (rule[0], rule[4]))
        with noted(f"This is about the rule {rule!r}."):
            value, state = (
                domain.encode_given(domain.row({name: cell}), "rules")[0, column]
                for name, cell, column in ((rule[0], rule[2], target), (rule[4], rule[6], source))
            )
        keys = _states(domain, int(source), rule)
        values = np.where(keys == state, value, np.nan)
        return Tie(rule, int(target), (int(source),), keys, values, reach=_reach(rows, [target]))
    names = [rule[0], *(rule[2][1:] if is_sum else rule[2:])]
    if is_sum and (kind != "==" or rule[2][0] != "sum" or len(names) < 2):
        raise ValueError(f"rules must be a list of tuples {_KINDS}; found {rule!r}.")
    columns = [int(domain.columns([name], "rules")[0]) for name in names]
    first, *others = columns
    if len({*columns}) < len(columns):
        raise ValueError(f"rules must be about different columns; found {rule!r}.")
    reach = _reach(rows, columns)
    if kind == "determines":
        keys = _states(domain, first, rule)
        return Tie(rule, others[0], (first,), keys, _usual(rows[:, columns], keys), reach=reach)
    if not is_sum and kind == "==" and domain.is_categorical[columns].all():
        labels = domain.labels(first), domain.labels(others[0])
        keys = _states(domain, others[0], rule)
        same = {state: float(code) for code, state in enumerate(labels[0])}
        values = np.array([same.get(state, np.nan) for state in labels[1]])
        return Tie(rule, first, (others[0],), keys, values, reach=reach)
    dates = [domain.form.dates.get(column) for column in columns]
    origins = [float(getattr(one, "origin", 0)) for one in dates]
    kinds = {one._replace(origin=0) if isinstance(one, Calendar) else one for one in dates}
    if domain.is_categorical[columns].any() or len(kinds) > 1 or (is_sum and kinds != {None}):
        raise ValueError(
            f"An order or a sum needs columns of numbers, or dates of one unit for an order; found "
            f"{rule!r} about other columns. See domain_, or name the columns of categories."
        )
    if kind == "<=":
        offset = origins[0] - origins[1]
        return Tie(rule, others[0], (first,), has_gap=True, offset=offset, reach=reach)
    offset = float(rule[4]) if is_shifted else origins[1] - origins[0]
    return Tie(rule, first, tuple(others), offset=offset, reach=reach)


def _reach(rows: Floats, columns: Sequence[int]) -> float:
    return float(_ROUNDING * np.nan_to_num(np.abs(rows[:, columns])).max(initial=0.0))


def _states(domain: Domain, column: int, rule: tuple[Any, ...]) -> Floats:
    """The states of a column that fixes values, encoded."""
    states, number = domain.categories[column], domain.number_of(column)
    is_hidden = bool(domain.unseen.is_hidden[column])
    if not is_hidden and states is not None:
        return np.arange(float(len(states)))
    if not is_hidden and number is not None and number.is_ordered:
        return number.atoms
    raise ValueError(
        f"What fixes the value of a column must have categories or ordered states; found "
        f"{describe_column(column, domain.feature_names)} in {rule!r}. Name it in "
        "categorical_features, or leave the rule out."
    )


def _usual(pairs: Floats, keys: Floats) -> Floats:
    """The most frequent partner of each key; NaN where it has none."""
    pairs = pairs[~np.isnan(pairs).any(axis=1)]
    pairs, n_rows = np.unique(pairs, axis=0, return_counts=True)
    usual = dict(pairs[np.lexsort((n_rows, pairs[:, 0]))].tolist())
    return np.array([usual.get(key, np.nan) for key in keys.tolist()])


def ordered_ties(ties: list[Tie], domain: Domain) -> tuple[Tie, ...]:
    """Ties after those of their sources; those of one column and one source are one."""
    by_target = dict[int, Tie]()
    for tie in ties:
        before = by_target.get(tie.target)
        if before is not None:
            both_free = before.is_map and tie.is_map and before.sources == tie.sources
            if not both_free or not np.isnan([before.values, tie.values]).any(axis=0).all():
                raise ValueError(
                    f"Two rules must not determine one column; found {before.rule!r} and "
                    f"{tie.rule!r}. Leave one out."
                )
            values = np.where(np.isnan(tie.values), before.values, tie.values)
            tie = tie._replace(values=values)
        by_target[tie.target] = tie
    depth, sure = dict[int, int](), list[Tie]()
    while by_target:
        free = [t for t in by_target.values() if by_target.keys().isdisjoint(t.sources)]
        if not free:
            listed = [tie.rule for tie in by_target.values()]
            raise ValueError(
                f"rules must not have a cycle, columns that determine each other; found {listed}. "
                "Leave some out."
            )
        for tie in free:
            depth[tie.target] = tie.has_gap * max(1 + depth.get(s, 0) for s in tie.sources)
            if depth[tie.target] >= _LONGEST:
                raise ValueError(
                    f"Chains of orders have at most {_LONGEST} columns; found a longer one that "
                    f"ends in {describe_column(tie.target, domain.feature_names)}. Leave a rule "
                    "out, or start a new chain."
                )
            sure.append(by_target.pop(tie.target))
    return tuple(sure)
