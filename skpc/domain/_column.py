"""What a column of a table is: a value that every answer about its cells follows from.

Each kind of column is a class in a file of its own: categories (:mod:`._categories`), numbers and
dates (:mod:`._numbers`), ordered states (:mod:`._states`), columns that no learner sees
(:mod:`._hidden`), and faces of other columns (:mod:`._faces`). A further kind is one more file, and
a line in :mod:`._kinds` that chooses it.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats, Ints
from skpc.domain._tables import Cells, Scale
from skpc.variables import Histogram, Law

#: The values of a column that a summary lists.
_LISTED = 6


class Summary(NamedTuple):
    """A line about a column, for people: texts, empty where there is nothing to say.

    Its fields are the headings of what ``print(domain)`` shows.
    """

    name: Any
    kind: str
    values: str = ""
    atoms: str = ""
    lattice: str = ""
    why: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Column(ABC):
    """What one column of a table is. It is immutable.

    Attributes
    ----------
    name : object
        Its name in a DataFrame, or its number.
    why : str
        Why it is of its kind.
    unseen : float
        Probability that an observed cell holds a state that was not seen in ``fit``.
    states : ndarray of shape (n_states,) or None
        The categories in the order of their codes 0, 1, ...: float64, bool, or objects for strings;
        None for numbers. A column that no learner sees has one state, None.
    law : Law or None
        What numbers can be; None for categories, and for plain numbers.
    axis : Histogram or None
        The histogram axis of numbers; None without bins.
    calendar : Calendar, Ranks or None
        How dates or ordered categories are numbers; None for other columns.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Domain
    >>> domain = Domain.fit(np.array([["red", 0.5], ["blue", 1.5]], dtype=object))
    >>> [column.kind for column in domain], domain[0].states
    (['categories', 'number'], array(['blue', 'red'], dtype=object))
    """

    name: Any = None
    why: str = ""
    unseen: float = 0.0
    states: NDArray[Any] | None = None
    law: Law | None = None
    axis: Histogram | None = None
    calendar: Scale | None = None

    #: Whether no learner sees the column.
    is_hidden: ClassVar[bool] = False
    #: Whether the column has ordered states: few numbers, with nothing between them.
    is_ordered: ClassVar[bool] = False

    @property
    @abstractmethod
    def kind(self) -> str:
        """Name of the kind."""

    @property
    def where(self) -> str:
        """The column in error messages."""
        return f"column {self.name!r}"

    @property
    def labels(self) -> Any:
        """What codes or ranks stand for, as users know it; None for other numbers."""
        # Of the calendars only ranks have labels; those of dates have none.
        return getattr(self.calendar, "labels", self.states)

    @property
    def holds_strings(self) -> bool | None:
        """Whether its cells are strings; None if they may be anything."""
        return self.states is not None and self.states.dtype == object

    @property
    def n_states(self) -> int:
        """Number of states that a learner sees; 0 for numbers without bins."""
        if self.states is not None:
            return len(self.states)
        return 0 if self.axis is None else self.axis.n_states

    @abstractmethod
    def encode(self, cells: Cells, place: int) -> tuple[Floats, Bools]:
        """Encoded cells, and which of them hold a state that is not known.

        ``place`` is the number of the column in the table. Missing and unknown cells are NaN,
        unless an unknown number has a nearest state.
        """

    @abstractmethod
    def decode(self, rows: Floats, place: int) -> NDArray[Any]:
        """The cells of encoded rows as users see them: numbers (NaN where missing) or objects."""

    @abstractmethod
    def encoded(self) -> Column:
        """The column of encoded cells, in which codes stand for themselves."""

    @property
    def log_known(self) -> float:
        """What an observed cell of a known state adds to log densities (nats)."""
        return float(np.log1p(-self.unseen))

    def log_unknown(self, values: Floats) -> Floats:
        """What cells of unknown states add (nats); NaN where they count as missing.

        ``values`` are the numbers in these cells, NaN where they hold something else.
        """
        return np.full(len(values), np.log(self.unseen) if self.unseen > 0.0 else np.nan)

    def nearest(self, drawn: Floats) -> Floats:
        """The values of the column in whose cells some encoded numbers lie; NaN stays."""
        return drawn if self.law is None else self.law.values(drawn)

    def within_ends(self, values: Floats) -> Floats:
        """Encoded numbers moved between the ends of the column, or to states; NaN stays."""
        return values if self.law is None else np.clip(values, *self.law.ends)

    def moved(self, places: Ints) -> Self:
        """The column in a table whose column ``v`` has become column ``places[v]``."""
        return self

    def summary(self) -> Summary:
        """What to say of the column."""
        return Summary(self.name, self.kind, why=self.why)


def listed(values: Any) -> str:
    """The first values, and how many there are if these are not all."""
    text = ", ".join(_shown(value) for value in values[:_LISTED].tolist())
    return text if len(values) <= _LISTED else f"{text}, ... ({len(values)} values)"


def _shown(value: Any) -> str:
    shown = f"{value:.9g}" if isinstance(value, float) else str(value)
    return reprlib.repr(value) if isinstance(value, str) else shown
