"""Tables of incoming messages: the columns that hold the parameters of each message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, polygamma

from skpc._arrays import Floats, Ints, offsets
from skpc._validation import describe_column
from skpc.messages.families import FAMILIES, Gamma, Message

_POINT = "point"
_LOG_GAMMA = "log-gamma"
#: Families of the two columns of a message.
_COLUMNS: dict[str, type[Message]] = {**FAMILIES, _LOG_GAMMA: Gamma}


class Moments(NamedTuple):
    """Means and variances of the messages of each row, both of shape (n_rows, n_variables).

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import message_moments
    >>> message_moments(np.array([[1.0, 1.0, 7.0]]), ["gamma", "point"])
    Moments(mean=array([[1., 7.]]), variance=array([[1., 0.]]))
    """

    mean: Floats
    variance: Floats


def message_moments(
    rows: Floats, distributions: Sequence[str], names: Sequence[Any] | None = None
) -> Moments:
    """Read a table of messages as means and variances.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        The parameters of the messages, side by side.
    distributions : sequence of {"normal", "beta", "gamma", "log-gamma", "point"}
        The families in the order of the columns: two columns each (mean and variance; alpha and
        beta; shape and rate), one for a point mass. "log-gamma" is a gamma message; its moments
        are those of the logarithm of the variable.
    names : sequence or None, default=None
        Names of the columns, for error messages.

    Returns
    -------
    Moments

    Raises
    ------
    ValueError
        If the family does not exist, the number of columns does not fit, or a parameter is outside
        its family.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import message_moments
    >>> message_moments(np.array([[1.0, 3.0, 5.0]]), ["beta", "point"]).mean
    array([[0.25, 5.  ]])
    """
    first = _first_columns(distributions)
    if rows.shape[1] != first[-1]:
        raise ValueError(
            f"input_distributions={tuple(distributions)} needs {first[-1]} columns (two for each "
            f"message, one for a point mass); found {rows.shape[1]}."
        )
    pairs = [
        (rows[:, column], np.zeros(len(rows)))
        if family == _POINT
        else _moments(family, rows, column, names)
        for family, column in zip(distributions, first.tolist())
    ]
    return Moments(*map(np.column_stack, zip(*pairs)))


def _first_columns(distributions: Sequence[str]) -> Ints:
    """The first column of each message, and behind them the number of columns."""
    for family in distributions:
        if family not in (*_COLUMNS, _POINT):
            raise ValueError(
                f"input_distributions may hold {', '.join(map(repr, (*_COLUMNS, _POINT)))}; "
                f"found {family!r}."
            )
    return offsets([1 if family == _POINT else 2 for family in distributions])


def _moments(family: str, rows: Floats, column: int, names: Any) -> tuple[Floats, Floats]:
    messages = _COLUMNS[family].from_parameters(rows[:, column : column + 2])
    _check_proper(messages, rows, column, names)
    if family != _LOG_GAMMA:
        return messages.mean, messages.variance
    shape, rate = messages.parameters.T
    return digamma(shape) - np.log(rate), np.asarray(polygamma(1, shape))


def _check_proper(messages: Message, rows: Floats, column: int, names: Any) -> None:
    if messages.is_proper.all():
        return
    row = int(messages.is_proper.argmin())
    # The mean of a normal may have either sign; all other parameters are positive.
    is_location = messages.name == "normal"
    first = rows[row, column]
    offset = int(np.isfinite(first) and (is_location or first > 0.0))
    wanted = "finite" if is_location and offset == 0 else "positive and finite"
    raise ValueError(
        f"The {messages.parameter_names[offset]} of a {messages.name} message must be {wanted}; "
        f"found {rows[row, column + offset]} in {describe_column(column + offset, names)}, "
        f"row {row}."
    )


@dataclass(frozen=True)
class MessageLayout:
    """The columns of the messages that come into a factor, and which of them is answered.

    Parameters
    ----------
    distributions : tuple of {"normal", "beta", "gamma"}
        Family of the message from each variable, in the order of the columns.
    target : int
        Position of the variable whose belief is answered.

    Raises
    ------
    ValueError
        If the family does not exist, or there is no variable at the position.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.messages import MessageLayout
    >>> layout = MessageLayout(("beta", "normal"), target=1)
    >>> layout.incoming(np.array([[1.0, 2.0, 0.5, 3.0]]))
    Normal(mean=[0.5], variance=[3.0])
    """

    distributions: tuple[str, ...]
    target: int

    def __post_init__(self) -> None:
        for family in self.distributions:
            if family not in FAMILIES:
                raise ValueError(
                    f"Messages of a factor may be {', '.join(map(repr, FAMILIES))}; "
                    f"found {family!r}."
                )
        if not 0 <= self.target < len(self.distributions):
            raise ValueError(
                f"target must be the position of one of the {len(self.distributions)} variables "
                f"with messages {self.distributions}, from 0 on; found {self.target!r}."
            )

    @property
    def family(self) -> type[Message]:
        """Family of the messages from and to the target."""
        return FAMILIES[self.distributions[self.target]]

    def message(self, rows: Floats, position: int) -> Message:
        """The messages from the variable at this position."""
        first = int(_first_columns(self.distributions)[position])
        family = FAMILIES[self.distributions[position]]
        return family.from_parameters(rows[:, first : first + 2])

    def incoming(self, rows: Floats) -> Message:
        """The messages from the target to the factor."""
        return self.message(rows, self.target)
