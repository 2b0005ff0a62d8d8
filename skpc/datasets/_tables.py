"""Tables with categories by name, whose numbers scikit-learn ships, and tables that are made.

Of the latter the distribution is known, or the mechanism by which cells are missing.
"""

from numbers import Real
from typing import Any

import numpy as np
from scipy.special import softmax
from scipy.stats import rankdata
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.utils import Bunch, check_array, check_random_state

from skpc._arrays import Floats
from skpc._cells import without_cells
from skpc._validation import column_of, frame_library, missing_cells, unmasked
from skpc.factor_graphs import FactorGraph, compile
from skpc.queries import sample

_MECHANISMS = ("mcar", "mar", "mnar")
_CULTIVARS = np.array(["Barolo", "Grignolino", "Barbera"], dtype=object)


def make_ising(
    n_samples: int = 100,
    *,
    rows: int = 4,
    cols: int = 4,
    coupling: float = 0.4,
    field: float = 0.0,
    random_state: Any = None,
) -> Floats:
    """Draw exact samples of an Ising model on a grid.

    With spins :math:`s = 2 x - 1`, the probability of a row is proportional to
    :math:`\\exp(c \\sum_{i \\sim j} s_i s_j + h \\sum_i s_i)`.

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows.
    rows, cols : int, default=4
        Size of the grid. The cost is exponential in the shorter side: ``rows * cols *
        2**min(rows, cols)`` may be 2**20 at most, which 12 x 12 and 10 x 100 do not exceed.
    coupling : float, default=0.4
        :math:`c`.
    field : float, default=0.0
        :math:`h`.
    random_state : int, RandomState instance or None, default=None
        Draws the rows.

    Returns
    -------
    ndarray of shape (n_samples, rows * cols)
        Zeros and ones; the sites of the grid row by row.

    Raises
    ------
    ValueError
        If the grid is too wide.

    See Also
    --------
    skpc.factor_graphs.GibbsSampler : Dependent samples of grids of any size.

    Examples
    --------
    >>> from skpc.datasets import make_ising
    >>> make_ising(3, rows=2, cols=2, coupling=5.0, field=1.0, random_state=0)
    array([[1., 1., 1., 1.],
           [1., 1., 1., 1.],
           [1., 1., 1., 1.]])
    """
    graph = FactorGraph.ising_grid(rows, cols, coupling=coupling, field=field)
    _refuse_wide(rows, cols)
    sites = np.arange(rows * cols).reshape(rows, cols)
    # Along the shorter side, neighbours in the order are neighbours on the grid.
    order = (sites.T if rows < cols else sites).ravel()
    # Along the longer side, each site depends on as many others as the shorter side has.
    vtree = np.full(rows * cols, -1)
    vtree[order[1:]] = order[:-1]
    return sample(compile(graph, vtree), n_samples, random_state)


def _refuse_wide(rows: int, cols: int) -> None:
    # Joint states of the shorter side of a grid times its number of sites: a circuit of 2 GiB.
    most_states = 2**20
    short, long = sorted((rows, cols))
    if rows * cols * 2**short > most_states:
        # The error offers the widest grid of this length.
        fitting = max(side for side in range(short) if long * side * 2**side <= most_states)
        raise ValueError(
            f"A grid of {rows} x {cols} is too wide for exact samples: if one side is {long}, the "
            f"other may be {fitting} at most. Make it narrower, or draw dependent samples by "
            "skpc.factor_graphs.GibbsSampler."
        )


def make_chow_liu(
    n_samples: int = 100,
    n_features: int = 10,
    *,
    n_states: int = 2,
    concentration: float = 0.5,
    random_state: Any = None,
) -> Floats:
    """Draw samples of a random tree-structured distribution.

    The parent of each column is drawn among the columns before it, and the distribution of the
    column given each state of its parent from a symmetric Dirichlet distribution.

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows.
    n_features : int, default=10
        Number of columns.
    n_states : int, default=2
        Number of states of each column.
    concentration : float, default=0.5
        Parameter of the Dirichlet distribution; the smaller, the closer columns depend on each
        other.
    random_state : int, RandomState instance or None, default=None
        Draws the tree, its tables, and the rows.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        States 0, 1, ..., ``n_states - 1``.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from skpc.datasets import make_chow_liu
    >>> make_chow_liu(2, 5, random_state=0).shape
    (2, 5)
    """
    if n_features < 1 or n_states < 1 or not concentration > 0:
        raise ValueError(
            "n_features and n_states must be 1 or more and concentration positive, got "
            f"{n_features}, {n_states} and {concentration}"
        )
    rng = check_random_state(random_state)
    cpts: list[tuple[tuple[int, ...], Floats]] = []
    for column in range(n_features):
        # Each column depends on an earlier one, which gives a tree.
        parents = (rng.randint(column),) if column else ()
        # Tables have the shape (n_states_of_parent, n_states), the first one (n_states,).
        cpts.append((parents, _dirichlet(rng, concentration, (n_states,) * (1 + bool(column)))))
    return sample(compile(FactorGraph.from_bayesian_network(cpts)), n_samples, rng)


def _dirichlet(rng: np.random.RandomState, concentration: float, shape: tuple[int, ...]) -> Floats:
    """Draw from a symmetric Dirichlet distribution over the last axis."""
    # Gamma variables with a small shape round to zero, but their logs do not: with u uniform and g
    # of shape a + 1, g u^(1/a) has shape a.
    log_gamma = np.log(rng.gamma(concentration + 1.0, size=shape))
    return softmax(log_gamma + np.log1p(-rng.uniform(size=shape)) / concentration, -1)


def make_missing(
    X: Any, mechanism: str = "mcar", rate: float = 0.3, *, random_state: Any = None
) -> Any:
    """Remove cells of a complete table by a known mechanism.

    Pictures of the mechanisms are in :ref:`datasets`.

    Parameters
    ----------
    X : array-like of numbers, or DataFrame, of shape (n_samples, n_features)
        The table; it is not changed.
    mechanism : {"mcar", "mar", "mnar"}, default="mcar"
        Completely at random: every cell is missing with probability ``rate``. At random: the first
        column is always there, and the probability of the other cells of a row rises with its
        value. Not at random: the probability of a cell rises with its own value. With
        :math:`q`, the proportion of rows whose value is smaller, the probability is
        :math:`q^{(1 - r) / r}`, which is :math:`r` on average.
    rate : float, default=0.3
        :math:`r`, the proportion of cells to remove, in [0, 1).
    random_state : int, RandomState instance or None, default=None
        Draws the cells.

    Returns
    -------
    ndarray of float64, or DataFrame, of shape (n_samples, n_features)
        A copy with missing cells.

    Raises
    ------
    ValueError
        If the mechanism is unknown, the rate out of range, or a column whose values decide has
        missing cells.

    Examples
    --------
    >>> import numpy as np
    >>> from skpc.datasets import make_missing
    >>> make_missing(np.ones((2, 3)), rate=0.5, random_state=0)
    array([[ 1.,  1.,  1.],
           [ 1., nan,  1.]])
    """
    is_share = isinstance(rate, Real) and 0 <= rate < 1
    if mechanism not in _MECHANISMS or not is_share:
        raise ValueError(
            f"mechanism must be one of {', '.join(_MECHANISMS)} and rate in [0, 1), got "
            f"{mechanism!r} and {rate!r}"
        )
    library = frame_library(X)
    table = X
    if library is None:
        # A DataFrame keeps its types; anything else must be an array of numbers.
        table = check_array(unmasked(X), dtype=np.float64, ensure_all_finite="allow-nan")
    columns = [column_of(table, column) for column in range(table.shape[1])]
    chance: Any = rate
    if mechanism != "mcar" and rate > 0:
        # Under "mar" the first column decides for all others, under "mnar" each for itself.
        deciding = enumerate(columns[:1] if mechanism == "mar" else columns)
        order = np.column_stack([_proportions_below(*column) for column in deciding])
        # A power of a uniform number whose mean is the rate.
        chance = order ** ((1.0 - rate) / rate)
    missing = check_random_state(random_state).uniform(size=table.shape) < chance
    # What decides must be seen, or cells would be missing by what is missing.
    if mechanism == "mar":
        missing[:, 0] = False
    return without_cells(table, missing)


def _proportions_below(number: int, column: Any) -> Floats:
    """The proportion of rows with a smaller value, plus half of those with the same value."""
    cells = np.asarray(column)
    missing = missing_cells(cells.astype(object))
    if missing.any():
        raise ValueError(
            "mechanisms that look at values need complete columns, but column "
            f"{number} is missing in row {missing.argmax()}; use 'mcar' for cells at random"
        )
    # Ranks of codes, since names can be sorted but not ranked.
    _, codes = np.unique(cells, return_inverse=True)
    # The middle of each rank, so that no proportion is 0 or 1.
    return (rankdata(codes) - 0.5) / len(codes)


def load_wines(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load 178 Italian wines: 13 measurements and the cultivar.

    The table of :func:`sklearn.datasets.load_wine` with its classes by their names.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` in place of a Bunch.
    as_frame : bool, default=False
        Whether ``data`` and ``target`` are a DataFrame and a Series, which needs pandas.

    Returns
    -------
    Bunch or tuple
        ``data``: the measurements, of shape (178, 13). ``target``: the cultivars "Barolo",
        "Grignolino" and "Barbera". ``frame``: both as one DataFrame with the column ``cultivar``;
        None without ``as_frame``. ``feature_names``, ``target_names`` and ``DESCR``.

    Examples
    --------
    >>> from skpc import CutsetNetworkBD
    >>> from skpc.datasets import load_wines
    >>> wines = load_wines(as_frame=True).frame
    >>> CutsetNetworkBD(random_state=0).fit(wines).sample(
    ...     1, given={"cultivar": "Barolo"}
    ... ).shape
    (1, 14)
    """
    raw = load_wine()
    about = (
        "178 wines of one region of Italy, from three cultivars: 13 chemical measurements (alcohol "
        "in percent, magnesium in mg/l, and so on). UCI Machine Learning Repository, CC BY 4.0; "
        "sklearn.datasets.load_wine holds the numbers and describes them."
    )
    return _table(raw, _CULTIVARS[raw.target], "cultivar", about, return_X_y, as_frame)


def load_tumours(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load 569 breast tumours: 30 measurements of cell nuclei and the diagnosis.

    The table of :func:`sklearn.datasets.load_breast_cancer` with its classes by their names.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` in place of a Bunch.
    as_frame : bool, default=False
        Whether ``data`` and ``target`` are a DataFrame and a Series, which needs pandas.

    Returns
    -------
    Bunch or tuple
        ``data``: the measurements, of shape (569, 30). ``target``: the diagnoses "benign" and
        "malignant". ``frame``: both as one DataFrame with the column ``diagnosis``; None without
        ``as_frame``. ``feature_names``, ``target_names`` and ``DESCR``.

    Examples
    --------
    >>> from skpc.datasets import load_tumours
    >>> X, y = load_tumours(return_X_y=True)
    >>> X.shape, sorted(set(y))
    ((569, 30), ['benign', 'malignant'])
    """
    raw = load_breast_cancer()
    diagnosis = raw.target_names.astype(object)[raw.target]
    about = (
        "569 breast tumours: mean, standard error and worst value of ten measurements of the cell "
        "nuclei in an image. Wisconsin Diagnostic Breast Cancer, UCI Machine Learning Repository, "
        "CC BY 4.0; sklearn.datasets.load_breast_cancer holds the numbers and describes them."
    )
    return _table(raw, diagnosis, "diagnosis", about, return_X_y, as_frame)


def load_digit_bits(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load 1797 handwritten digits in black and white: 64 binary pixels and the digit.

    The images of :func:`sklearn.datasets.load_digits`; grey levels above 7 of 16 are ink.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` in place of a Bunch.
    as_frame : bool, default=False
        Whether ``data`` and ``target`` are a DataFrame and a Series, which needs pandas.

    Returns
    -------
    Bunch or tuple
        ``data``: zeros and ones of shape (1797, 64), the 8 x 8 pixels row by row. ``target``: the
        digits 0 to 9. ``frame``: both as one DataFrame with the column ``digit``; None without
        ``as_frame``. ``feature_names``, ``target_names`` and ``DESCR``.

    Examples
    --------
    >>> from skpc.datasets import load_digit_bits
    >>> load_digit_bits().data[0].reshape(8, 8)[:2].astype(int)
    array([[0, 0, 0, 1, 1, 0, 0, 0],
           [0, 0, 1, 1, 1, 1, 0, 0]])
    """
    raw = load_digits()
    about = (
        "1797 handwritten digits of 8 x 8 pixels, ink or not. Optical Recognition of Handwritten "
        "Digits, test set, UCI Machine Learning Repository, CC BY 4.0; "
        "sklearn.datasets.load_digits holds the grey levels and describes them."
    )
    # Grey levels of the digits run from 0 to 16; above this a pixel is ink.
    ink = 7
    raw.data = (raw.data > ink).astype(np.float64)
    return _table(raw, raw.target, "digit", about, return_X_y, as_frame)


def _table(
    raw: Bunch, target: np.ndarray, name: str, about: str, return_X_y: bool, as_frame: bool
) -> Any:
    """What a loader returns: the columns of scikit-learn's table and another target."""
    data = raw.data
    names = list(map(str, raw.feature_names))
    frame = None
    if as_frame:
        from pandas import DataFrame

        frame = DataFrame(data, columns=names).assign(**{name: target})
        # With a frame, the other answers are parts of it, as in scikit-learn.
        data = frame[names]
        target = frame[name]
    if return_X_y:
        return data, target
    known = {"feature_names": names, "target_names": np.unique(target), "DESCR": about}
    return Bunch(data=data, target=target, frame=frame, **known)
