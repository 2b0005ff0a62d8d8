"""Ordered categories as numbers: the rank of a category is its place on the line."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Floats
from skpc._validation import missing_cells, objects_of
from skpc._warnings import warn


class Ranks(NamedTuple):
    """How the ordered categories of a column are numbers; it answers as a ``Calendar`` does.

    Parameters
    ----------
    labels : tuple
        The categories, increasing.
    is_strict : bool, default=False
        Whether other categories are refused; else they count as missing.
    kind, stored, zone
        What a ``Calendar`` says of itself: what the column holds, in a dtype of numpy, without a
        time zone.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.variables.ranks import Ranks
    >>> ranks = Ranks(("low", "mid", "high"))
    >>> ranks.numbers_of(["high", None, "low"], "X")
    array([ 2., nan,  0.])
    >>> ranks.dates(np.array([1.2, np.nan]))
    array(['mid', None], dtype=object)
    """

    labels: tuple[Any, ...]
    is_strict: bool = False
    kind: str = "ordered categories"
    stored: str = "O"
    zone: None = None

    def numbers_of(self, values: Any, where: str) -> Floats:
        """The ranks of categories in any form; NaN where missing.

        Raises
        ------
        ValueError
            If there is another category, and these are refused.

        Warns
        -----
        UserWarning
            If there is another category, and it counts as missing.
        """
        cells = objects_of(values)
        rank_of = {label: float(rank) for rank, label in enumerate(self.labels)}
        numbers = np.array([rank_of.get(cell, np.nan) for cell in cells.reshape(-1).tolist()])
        numbers = numbers.reshape(cells.shape)
        unknown_cells = cells[np.isnan(numbers) & ~missing_cells(cells)]
        if len(unknown_cells):
            text = (
                f"{where} must hold the ordered categories {', '.join(map(repr, self.labels))}; "
                f"found {unknown_cells[0]!r}"
            )
            if self.is_strict:
                raise ValueError(f"{text}. Add it to the dtype, or leave the cell missing.")
            warn(f"{text}, in {len(unknown_cells)} of {cells.size} cells. They count as missing.")
        return numbers

    def dates(self, numbers: Floats) -> NDArray[np.object_]:
        """The nearest categories; None for NaN."""
        numbers = np.asarray(numbers, dtype=np.float64)
        # One more label, at the end, stands for "missing".
        last_rank = len(self.labels) - 1
        near = np.clip(np.rint(numbers), 0, last_rank)
        place = np.where(np.isnan(numbers), len(self.labels), near).astype(np.intp)
        return np.array([*self.labels, None], dtype=object)[place]

    def objects(self, numbers: Floats) -> NDArray[np.object_]:
        """The nearest categories; None for NaN."""
        return self.dates(numbers)

    def text(self, number: float) -> str:
        """The nearest category, for people."""
        return str(self.dates(np.array([number]))[0])
