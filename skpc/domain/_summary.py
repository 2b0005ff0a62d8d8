"""What a domain says of its columns: a line for each.

It is apart from the domain, so that whoever adds a kind of column sees at once what to say of it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from skpc._validation import describe_column
from skpc.domain._tables import Cells
from skpc.variables.dates import as_dates, text_of

if TYPE_CHECKING:
    from skpc.domain._domain import Domain

HEADINGS = ("name", "kind", "values", "atoms", "lattice", "why")
#: Values of a column that are listed.
_LISTED = 6


def kind_of(domain: Domain, column: int) -> str:
    """The kind of a column. A further kind gets its name here, and its values in ``lines_of``."""
    if column in domain.unseen.face_of:
        return "face of another"
    if domain.unseen.is_hidden[column]:
        return "empty" if domain.unseen.is_empty[column] else "row names"
    if domain.is_categorical[column]:
        return "categories"
    if column in domain.form.dates:
        return domain.form.dates[column].kind
    return "ordered states" if domain.is_ordered[column] else "number"


def lines_of(domain: Domain) -> Iterator[tuple[Any, ...]]:
    """Texts below the headings for each column, empty where there is nothing to say."""
    for column, name in enumerate(domain.feature_names or range(domain.n_features)):
        kind, number = kind_of(domain, column), domain.number_of(column)
        values = atoms = lattice = ""
        if number is not None:
            calendar, ends = domain.form.dates.get(column), number.bounds
            low, high, *bounds = (text_of(x, calendar) for x in (number.low, number.high, *ends))
            values = f"{low} to {high}"
            is_bound = np.isfinite(ends).any() and kind != "ordered categories"
            values += f" in [{', '.join(bounds)}]" if is_bound else ""
            atoms = _listed(as_dates(number.atoms, calendar))
            lattice = " from ".join(f"{part:.9g}" for part in (number.step, number.origin) if part)
        elif kind == "face of another":
            values = _listed(domain.unseen.face_of[column].values)
        elif kind in ("categories", "row names"):
            of_rows = domain.unseen.names[column]
            values = _listed(domain.categories[column] if of_rows is None else of_rows)
        # Domains of earlier versions have no reasons.
        why = domain.why[column] if domain.why else ""
        why = "few values" if why and kind == "ordered states" else why
        why = kind if why and number and column in domain.form.dates else why
        yield name, kind, values, atoms, lattice, why


def reasons(domain: Domain, cells: Cells, features: Any, listed: Any) -> tuple[str, ...]:
    """Why each column is of its kind.

    ``features`` and ``listed`` are ``categorical_features`` and ``categories`` of ``Domain.fit``,
    which has checked them.
    """
    is_word = features is None or isinstance(features, str)
    has_states = [one is not None for one in listed if not isinstance(listed, str)]
    rules: dict[str, Iterable[int]] = {
        "few whole numbers in 0..15": range(domain.n_features),
        "strings": cells.strings,
        "bools": cells.bools,
        "a dtype with categories": cells.declared,
        "numbers": np.flatnonzero(~domain.is_categorical),
        "declared in categorical_features": [] if is_word else domain.columns(features, ""),
        "declared in categories": np.flatnonzero(has_states),
        "nearly every value is seen once": [
            column for column, names in enumerate(domain.unseen.names) if names is not None
        ],
        "no value in fit": np.flatnonzero(domain.unseen.is_empty),
    }
    # The last reason that holds for a column has decided.
    why = {column: reason for reason, columns in rules.items() for column in columns}
    for face in domain.unseen.faces:
        source = describe_column(face.source, domain.feature_names)
        why[face.column] = f"tells the same as {source}"
    return tuple(why[column] for column in range(domain.n_features))


def _listed(values: Any) -> str:
    """The first values, and how many there are if these are not all."""
    text = ", ".join(map(_shown, values[:_LISTED].tolist()))
    return text if len(values) <= _LISTED else f"{text}, ... ({len(values)} values)"


def _shown(value: Any) -> str:
    shown = f"{value:.9g}" if isinstance(value, float) else str(value)
    return reprlib.repr(value) if isinstance(value, str) else shown
