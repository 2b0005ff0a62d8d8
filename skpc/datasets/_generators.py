"""Tables whose distribution is known, and missing cells whose mechanism is known."""

from numbers import Real
from typing import Any

import numpy as np
from scipy.special import softmax
from scipy.stats import rankdata
from sklearn.utils import check_array, check_random_state

from skpc._arrays import Floats
from skpc._cells import without_cells
from skpc._validation import column_of, frame_library, missing_cells, unmasked
from skpc.factor_graphs import FactorGraph, compile
from skpc.queries import sample

#: Joint states of the shorter side of a grid times its number of sites: a circuit of 2 GiB.
_MOST_STATES = 2**20
_MECHANISMS = ("mcar", "mar", "mnar")


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
    order = (sites.T if rows < cols else sites).ravel()
    # Along the longer side, each site depends on as many others as the shorter side has.
    vtree = np.full(rows * cols, -1)
    vtree[order[1:]] = order[:-1]
    return sample(compile(graph, vtree), n_samples, random_state)


def _refuse_wide(rows: int, cols: int) -> None:
    short, long = sorted((rows, cols))
    if rows * cols * 2**short > _MOST_STATES:
        fitting = max(side for side in range(short) if long * side * 2**side <= _MOST_STATES)
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
        parents = (rng.randint(column),) if column else ()
        cpts.append((parents, _dirichlet(rng, concentration, (n_states,) * (1 + bool(column)))))
    return sample(compile(FactorGraph.from_bayesian_network(cpts)), n_samples, rng)


def _dirichlet(rng: np.random.RandomState, concentration: float, shape: tuple[int, ...]) -> Floats:
    """Draw from a symmetric Dirichlet distribution over the last axis."""
    # Gamma variables with a small shape round to zero, but their logs do not: with u uniform and g
    # of shape a + 1, g u^(1/a) has shape a.
    log_gamma = np.log(rng.gamma(concentration + 1.0, size=shape))
    return np.asarray(softmax(log_gamma + np.log1p(-rng.uniform(size=shape)) / concentration, -1))


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
    if mechanism not in _MECHANISMS or not isinstance(rate, Real) or not 0 <= rate < 1:
        raise ValueError(
            f"mechanism must be one of {', '.join(_MECHANISMS)} and rate in [0, 1), got "
            f"{mechanism!r} and {rate!r}"
        )
    library = frame_library(X)
    table = X
    if library is None:
        table = check_array(unmasked(X), dtype=np.float64, ensure_all_finite="allow-nan")
    columns = [column_of(table, column) for column in range(table.shape[1])]
    chance: Any = rate
    if mechanism != "mcar" and rate > 0:
        deciding = enumerate(columns[:1] if mechanism == "mar" else columns)
        order = np.column_stack([_proportions_below(*column) for column in deciding])
        chance = order ** ((1.0 - rate) / rate)
    missing = check_random_state(random_state).uniform(size=table.shape) < chance
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
    _, codes = np.unique(cells, return_inverse=True)
    return (rankdata(codes) - 0.5) / len(codes)
