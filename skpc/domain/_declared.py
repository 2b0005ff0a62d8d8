"""What users declare of columns: which are categorical, and what their states are."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpc._arrays import Bools, Floats, check_variables
from skpc._validation import (
    columns_like,
    describe_column,
    missing_cells,
    read_cells,
    refuse_rounded,
    rounded_integer,
)
from skpc._warnings import warn
from skpc.domain._column import Column
from skpc.domain._tables import Cells
from skpc.variables.lattice import unusual_weight

#: The table of a pair of columns has as many cells as the product of their states, and circuits
#: list all states below each state of a parent: a thousand of them take 8 MB in every tree.
MAX_STATES = 1_000
#: Small integers are 0, 1, ..., 15; why a column of a few of them has categories.
_SMALL_INTEGERS = 16
FEW_INTEGERS = f"few whole numbers in 0..{_SMALL_INTEGERS - 1}"

#: What strings spell: dates such as 2024-02-29 or 2/29/24, perhaps with a time, and numbers.
_SPELLED = {
    "date": ("datetime", r"(\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d\d(\d\d)?)([T ]\d.*)?"),
    "number": ("numeric", r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*"),
}

#: The states of a column in the order of their codes; None for a column of numbers.
States = NDArray[Any] | None


class Declared(NamedTuple):
    """What is known of the columns of a table before any cell is read.

    Attributes
    ----------
    categorical_features : "auto", "from_dtype", None or array-like, default="auto"
        Which columns are categorical: a boolean mask, column numbers, or names. "from_dtype": those
        whose dtype is a category (pandas Categorical, polars Categorical and Enum). "auto": these,
        but for three ordered categories or more of pandas, which are ordered states; strings,
        bools, and numeric columns of at most two different integers in 0..15 (with
        ``margins="plain"``, ordered categories, and any integers in 0..15). Two samples of one
        table (the folds of a cross-validation) can then disagree; declare the columns to be
        independent of the sample. None: no column.
    categories : "auto" or list, default="auto"
        The states of each column, in order, as in OrdinalEncoder; None in the list lets the data of
        that column decide. A column with declared categories is categorical. Dtypes declare
        categories too (pandas Categorical, polars Enum, bool); otherwise the states are the values
        observed.
    margins : {"auto", "plain"}, default="auto"
        "auto": learn the lattice, the atoms, the range and the score of each numeric column.
        "plain": bins of equal mass and Gaussians of the values as they are, as in the papers.
    atoms : "auto" or dict, default="auto"
        A dict from columns to the values that are states of their own, for columns where these are
        known. In other columns, and with "auto", they are the values that repeat much more than
        their neighbours do.
    bounds : dict or None, default=None
        A dict from columns to pairs (lower, upper) between which all values lie; None for a side
        without a bound.
    handle_unknown : {"unseen", "missing", "error"}, default="unseen"
        Whether an undeclared category is taken as missing or refused. "unseen": taken as missing,
        but in columns of strings :meth:`Domain.encode_with_mass` gives its probability.
    merges_columns : bool, default=True
        Whether columns that determine each other both ways are one variable.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.domain import Declared, Domain
    >>> stars = np.array([[1.0], [3.0], [5.0]])
    >>> Domain.fit(stars, Declared(categories=[[1, 2, 3, 4, 5]]))[0].n_states
    5
    """

    categorical_features: Any = "auto"
    categories: Any = "auto"
    margins: str = "auto"
    atoms: Any = "auto"
    bounds: Any = None
    handle_unknown: str = "unseen"
    merges_columns: bool = True

    def states_of(self, place: int) -> Any:
        """The states of a column; None where its data decide."""
        return None if isinstance(self.categories, str) else self.categories[place]


def column_numbers(
    chosen: NDArray[Any],
    n_columns: int,
    names: Sequence[Any] | None,
    parameter: str,
    or_else: str = "",
) -> NDArray[np.intp]:
    """Turn a mask, column numbers or column names into column numbers.

    Parameters
    ----------
    chosen : ndarray
        What the user gave.
    n_columns : int
        Number of columns of the table.
    names : sequence or None
        Their names, where they have some.
    parameter : str
        Name of the parameter, for error messages.
    or_else : str, default=""
        What else the parameter may be, for error messages.

    Raises
    ------
    ValueError
        If it has another type, or names a column that the table does not have.
    """
    if chosen.ndim == 1 and chosen.size and all(isinstance(name, str) for name in chosen.tolist()):
        return columns_named(chosen.tolist(), names, parameter)
    return check_variables(chosen.tolist(), n_columns, parameter, f"{or_else}names of columns, ")


def columns_named(
    wanted: list[Any], names: Sequence[Any] | None, parameter: str
) -> NDArray[np.intp]:
    """Turn names into column numbers; refuse the first that no column has."""
    if names is None:
        raise ValueError(
            f"{parameter} names columns ({wanted[0]!r}), but X has no column names; pass a "
            "DataFrame or column numbers."
        )
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(
            f"{parameter} names {unknown[0]!r}, which is not a column of X; "
            f"{columns_like(unknown[0], names)}."
        )
    return np.array([list(names).index(name) for name in wanted], dtype=np.intp)


def _small_integers(numbers: Floats, weight: Floats) -> Floats:
    """Total weight of each integer 0..15, of all other numbers, and of "missing" by column."""
    total = np.empty((numbers.shape[1], _SMALL_INTEGERS + 2))
    for column, count_of_column in zip(numbers.T, total):
        is_small = (column >= 0) & (column < _SMALL_INTEGERS) & (column == np.floor(column))
        # Behind the small integers are a place for other numbers, and one for missing cells.
        kind = np.where(is_small, column, _SMALL_INTEGERS + np.isnan(column)).astype(np.int64)
        count_of_column[:] = np.bincount(kind, weight, len(count_of_column))
    return total


def choose_categories(
    cells: Cells,
    weight: Floats,
    names: Sequence[Any] | None,
    declared: Declared,
) -> tuple[States, ...]:
    """Choose the states of each categorical column; ``weight`` is that of the rows.

    Returns
    -------
    categories : tuple of ndarray or None, one a column
        float64, bool, or object (strings); None for a numeric column; of length 0 for a column
        without any value.

    Raises
    ------
    TypeError, ValueError
        If a parameter does not fit the table, a column of strings is not categorical, or no column
        holds a value.
    """
    n_columns = cells.numbers.shape[1]
    listed = _check_categories(declared.categories, n_columns, names)
    integer_weight = _small_integers(cells.numbers, weight)
    # The last place counts missing cells.
    observed = integer_weight[:, :-1].sum(axis=1)
    other_weight = integer_weight[:, _SMALL_INTEGERS]
    if not observed.any() and not cells.strings:
        raise ValueError(
            "Every value of X is missing (in the rows of positive weight); nothing can be learned."
        )
    # A column of small integers may have some unusual values.
    is_small = (observed > other_weight) & (
        other_weight <= [unusual_weight(column_weight) for column_weight in observed.tolist()]
    )
    # With laws, small integers are categories where they are two.
    most_states = MAX_STATES if declared.margins == "plain" else 2
    is_small &= (integer_weight[:, :_SMALL_INTEGERS] > 0.0).sum(axis=1) <= most_states
    # Dates are numbers, however small these are.
    is_small[list(cells.dates)] = False
    chosen_columns = declared.categorical_features
    is_categorical = _categorical_mask(cells, is_small, names, chosen_columns)
    if isinstance(chosen_columns, str) and chosen_columns == "auto":
        _warn_of_strings(cells, listed, names)
    is_named = cells.named
    chosen: list[States] = []
    for column in range(n_columns):
        # The numbers of a column of strings are all missing, but its cells need not be.
        if observed[column] == 0 and column not in cells.strings:
            states: States = np.empty(0)
        elif listed[column] is not None:
            states = listed[column]
        elif not is_categorical[column]:
            _refuse_strings(cells, column, names)
            states = None
        elif not is_named[column] and not other_weight[column]:
            # All numbers are small integers here, of which the weights say which occur.
            states = np.flatnonzero(integer_weight[column, :_SMALL_INTEGERS]) + 0.0
        else:
            states = _observed_or_declared(cells, column, names)
        chosen.append(states)
    return tuple(chosen)


def _warn_of_strings(cells: Cells, listed: Sequence[States], names: Sequence[Any] | None) -> None:
    """Say which columns of strings, of those that nothing declares, look like something else."""
    plain = [v for v in cells.strings if v not in cells.declared and listed[v] is None]
    for kind, (reader, pattern) in _SPELLED.items():
        columns = [column for column in plain if _spell(pattern, cells.strings[column])]
        if columns:
            where = ", ".join(describe_column(column, names) for column in columns)
            example = next(cell for cell in cells.strings[columns[0]] if cell is not None)
            warn(
                f"The strings of {where}, such as {example!r}, look like {kind}s but count as "
                f"categories. Convert them by pandas.to_{reader}; if they are codes, name their "
                "columns in categorical_features."
            )


def _spell(pattern: str, strings: NDArray[np.object_]) -> bool:
    """Whether nine in ten of the strings of a column have a pattern."""
    # Each distinct string is matched once, however often it comes.
    counts = Counter(cell for cell in strings.tolist() if cell is not None)
    n_fitting = sum(counts[cell] for cell in counts if re.fullmatch(pattern, str(cell)))
    # The part of the cells of a column that must.
    mostly = 0.9
    return 0.0 < mostly * counts.total() <= n_fitting


def _observed_or_declared(cells: Cells, column: int, names: Sequence[Any] | None) -> States:
    declared = cells.declared.get(column)
    if declared is not None:
        return _check_states(declared, column, names)
    if column in cells.bools:
        return np.array([False, True])
    if column in cells.strings:
        observed = sorted(set(cells.strings[column].tolist()) - {None})
        if not isinstance(observed[0], str):
            raise TypeError(
                f"Intervals need a dtype that makes them ordered states, such as that of "
                f"pandas.cut; {describe_column(column, names)} holds {observed[0]!r} without one. "
                "Convert it by astype('category'), or list its categories."
            )
        return np.array(observed, dtype=object)
    # Adding zero leaves no -0.0 among the states.
    values = np.unique(cells.numbers[:, column]) + 0.0
    return values[~np.isnan(values)]


def _check_categories(categories: Any, n_columns: int, names: Sequence[Any] | None) -> list[States]:
    if isinstance(categories, str) and categories == "auto":
        return [None] * n_columns
    if isinstance(categories, str) or not hasattr(categories, "__len__"):
        raise ValueError(
            f"categories must be 'auto' or a list with one entry a column; got {categories!r}."
        )
    if len(categories) != n_columns:
        raise ValueError(
            f"categories needs one entry for each of the {n_columns} columns (None lets the "
            f"column's data decide); got {len(categories)}."
        )
    return [
        None if entry is None else _check_states(entry, column, names)
        for column, entry in enumerate(categories)
    ]


def _check_states(entry: Any, column: int, names: Sequence[Any] | None) -> NDArray[Any]:
    """Check declared categories; their order is the order of the states."""
    where = describe_column(column, names)
    cells = np.asarray(entry, dtype=object)
    if isinstance(entry, str) or cells.ndim != 1 or len(cells) == 0:
        raise ValueError(f"The categories of {where} must be a list of values; got {entry!r}.")
    if missing_cells(cells).any():
        raise ValueError(
            f"The categories of {where} contain a missing value; leave it out, missing cells "
            "need no category."
        )
    values, is_bool = read_cells(cells, column, names)
    refuse_rounded(rounded_integer(cells, values), where)
    if len(set(values.tolist())) < len(values):
        raise ValueError(f"The categories of {where} repeat a value: {cells.tolist()!r}.")
    # Bools were read as numbers; as states they are bools again.
    return values.astype(bool) if is_bool else values


def _categorical_mask(
    cells: Cells, is_small: Bools, names: Sequence[Any] | None, categorical_features: Any
) -> Bools:
    mask = np.zeros(len(is_small), dtype=bool)
    if categorical_features is None:
        return mask
    chosen = np.asarray(categorical_features)
    words = ("auto", "from_dtype")
    if isinstance(categorical_features, str) and categorical_features in words:
        mask[list(cells.declared)] = True
        if categorical_features == "auto":
            mask |= is_small
            mask[[*cells.strings, *cells.bools]] = True
            # Ordered categories are ordered states, and so numbers.
            mask[list(cells.ordered)] = False
        return mask
    or_else = "'auto', 'from_dtype', None, "
    mask[column_numbers(chosen, len(mask), names, "categorical_features", or_else)] = True
    return mask


def _refuse_strings(cells: Cells, column: int, names: Sequence[Any] | None) -> None:
    if column in cells.strings and column not in cells.ordered:
        value = next(cell for cell in cells.strings[column].tolist() if cell is not None)
        raise ValueError(
            f"A numeric column must hold numbers; {describe_column(column, names)} holds strings "
            f"such as {value!r}. Name it in categorical_features, or use "
            "categorical_features='auto'."
        )


def refuse_too_many(columns: Sequence[Column]) -> None:
    """Raise if a column has more states than learners and circuits can take."""
    for column in columns:
        if column.states is not None and len(column.states) > MAX_STATES:
            raise ValueError(
                f"A categorical column may have at most {MAX_STATES} categories; {column.where} "
                f"has {len(column.states)}. Drop it, group its rare values, or treat it as "
                "numeric."
            )
