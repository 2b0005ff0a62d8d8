"""Warnings that point to the line which called the package."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Packages whose lines do not help a user to find the cause of a warning; "contextlib" calls
#: functions that it decorates.
_INSIDE = {"skpc", "sklearn", "joblib", "contextlib"}
#: Texts and categories of the warnings of this thread, while they are collected.
_COLLECTED: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar(
    "collected", default=None
)
#: The warnings that have been said in the fit that goes on; None outside of fits.
_SAID: ContextVar[set[str] | None] = ContextVar("said", default=None)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, at the innermost line outside of this package and of those that call back into it.

    A fit and those within it say the same only once.
    """
    collection = _COLLECTED.get()
    # Collected warnings are said by whoever collects them.
    if collection is not None:
        collection.append((text, category))
        return
    said = _SAID.get()
    if said is not None:
        if text in said:
            return
        said.add(text)
    # How many frames up the first line outside is, which warnings.warn wants to know.
    frame = sys._getframe()
    level = 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] in _INSIDE:
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)


@contextmanager
def saying_once() -> Iterator[None]:
    """Say the same text only once, within an outermost fit."""
    said = _SAID.get()
    if said is None:
        said = set()
    token = _SAID.set(said)
    try:
        yield
    finally:
        _SAID.reset(token)


@contextmanager
def collected() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Collect the warnings of this thread, so that one can speak for many chunks of rows."""
    collection: list[tuple[str, type[Warning]]] = []
    token = _COLLECTED.set(collection)
    try:
        yield collection
    finally:
        _COLLECTED.reset(token)
