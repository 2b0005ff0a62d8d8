"""Drawings of what a model says about the missing cells of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._repr import ShowsParameters
from skpc._validation import check_table
from skpc.circuit import Circuit
from skpc.domain import Domain
from skpc.plotting._canvas import require_pyplot
from skpc.plotting._names import inner_densities, variable_name
from skpc.plotting._panels import draw_density, draw_states
from skpc.variables import Predictive

#: More panels than this cannot be read on one page.
_MAX_PANELS = 40
_PANELS_A_ROW = 4
# In inches.
_PANEL_SIZE = (2.9, 2.4)
_NARROWEST_PANEL = 2.4


class MarginalsDisplay(ShowsParameters):
    """Drawing of the posterior distribution of each cell of one row.

    A missing category has one bar for each of its states. A missing number has a density: if the
    model has bins for it, it is flat within each bin and exponential in the tails. An observed cell
    is a single mark.

    Use :meth:`from_estimator` to make a display. All parameters are stored as attributes.

    Parameters
    ----------
    marginals : list of Predictive
        The distribution of the one cell of each column, from ``marginals`` of an estimator.
    row : ndarray of shape (n_features,)
        The encoded row: state codes and numbers, NaN where a cell is missing.
    domain : Domain
        Names of the columns.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        One for each column drawn.
    figure_ : matplotlib Figure
        Figure with the drawing.

    See Also
    --------
    CircuitDisplay : Drawing of the model.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from skpc import CutsetNetworkBD
    >>> from skpc.plotting import MarginalsDisplay
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 2, 200)
    >>> model = CutsetNetworkBD().fit(np.column_stack([a, a + rng.normal(size=200)]))
    >>> display = MarginalsDisplay.from_estimator(model, [[np.nan, 1.5]])
    >>> plt.show()  # doctest: +SKIP
    """

    ax_: np.ndarray
    figure_: Any

    def __init__(self, *, marginals: Sequence[Predictive], row: Floats, domain: Domain) -> None:
        self.marginals = marginals
        self.row = row
        self.domain = domain

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, columns: Sequence[Any] | None = None, ax: Any = None
    ) -> MarginalsDisplay:
        """Draw the posterior distributions of the cells of one row.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator with ``marginals``, such as :class:`skpc.CutsetNetworkBD`.
        X : array-like or DataFrame of shape (1, n_features)
            The row; NaN (or None) marks missing cells.
        columns : sequence of str or int, default=None
            Names or numbers of the columns to draw. None draws all except those without any value
            in ``fit`` and those that name the rows.
        ax : matplotlib Axes or array of Axes, default=None
            One Axes is divided into as many panels as there are columns to draw. An array must
            hold as many Axes. None makes a figure.

        Returns
        -------
        MarginalsDisplay
            The drawing.

        Raises
        ------
        ValueError
            If ``X`` does not have exactly one row, or a column or ``ax`` does not fit.
        TypeError
            If the estimator has no ``marginals``.
        ImportError
            If matplotlib is not installed.
        """
        require_pyplot(f"{cls.__name__}.from_estimator")
        if isinstance(estimator, Circuit):
            raise TypeError(
                "from_estimator asks a fitted estimator, got a Circuit; "
                "skpc.queries.posteriors returns its marginals."
            )
        check_is_fitted(estimator)
        if not hasattr(estimator, "marginals"):
            advice = inner_densities(estimator) or "give a density, such as CutsetNetworkBD"
            raise TypeError(
                "MarginalsDisplay needs a density with a method marginals, which "
                f"{type(estimator).__name__} has not; {advice}."
            )
        domain = estimator.domain_
        rows = domain.encode(check_table(estimator, X, reset=False))
        if len(rows) != 1:
            raise ValueError(
                f"X must have exactly one row, got {len(rows)}; pass X[[i]], or X.iloc[[i]] of a "
                "DataFrame"
            )
        display = cls(marginals=estimator.marginals(X), row=rows[0], domain=domain)
        return display.plot(ax, columns=columns)

    def plot(self, ax: Any = None, *, columns: Sequence[Any] | None = None) -> MarginalsDisplay:
        """Draw the posterior distributions.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            See :meth:`from_estimator`.
        columns : sequence of str or int, default=None
            See :meth:`from_estimator`.

        Returns
        -------
        MarginalsDisplay
            This object, with ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            If a column or ``ax`` does not fit.
        ImportError
            If matplotlib is not installed.
        """
        plt = require_pyplot(f"{type(self).__name__}.plot")
        chosen = self._chosen(columns)
        self.ax_ = _panels(plt, ax, len(chosen))
        self.figure_ = self.ax_[0].figure
        for panel, column in zip(self.ax_, chosen):
            self._draw(panel, column)
        return self

    def _draw(self, panel: Any, column: int) -> None:
        value, cell = float(self.row[column]), self.marginals[column]
        observed = None if np.isnan(value) else value
        if cell.probabilities is not None and cell.labels is not None:
            draw_states(panel, cell.probabilities[0], cell.labels, observed)
        else:
            draw_density(panel, cell, observed)
        kind = "missing" if observed is None else "observed"
        panel.set_title(f"{variable_name(column, self.domain)} ({kind})", fontsize="medium")

    def _chosen(self, columns: Sequence[Any] | None) -> list[int]:
        shown = np.flatnonzero(~self.domain.unseen.is_hidden).tolist()
        wanted = shown if columns is None else columns
        if isinstance(wanted, str) or not 1 <= len(wanted) <= _MAX_PANELS:
            raise ValueError(
                f"a drawing has room for 1 to {_MAX_PANELS} columns; name some in columns=[...], "
                f"got {wanted if isinstance(wanted, str) else len(wanted)}"
            )
        return [int(self.domain.columns(entry, "columns")[0]) for entry in wanted]


def _panels(plt: Any, ax: Any, count: int) -> np.ndarray:
    """One Axes a panel: new ones, parts of the one given, or the ones given."""
    if ax is not None and (count == 1 or not hasattr(ax, "get_subplotspec")):
        given = np.array([ax] if hasattr(ax, "get_subplotspec") else ax, dtype=object).ravel()
        if len(given) != count:
            raise ValueError(f"ax must hold {count} Axes, one for each column, got {len(given)}")
        return given
    n_columns = min(count, _PANELS_A_ROW)
    if ax is None:
        n_rows = -(-count // n_columns)
        size = (n_columns * _PANEL_SIZE[0], n_rows * _PANEL_SIZE[1])
        figure = plt.figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(n_rows, n_columns)
    else:
        figure = ax.figure
        ax.set_axis_off()
        width = ax.get_position().width * figure.get_size_inches()[0]
        n_columns = max(1, min(n_columns, int(width / _NARROWEST_PANEL)))
        n_rows = -(-count // n_columns)
        grid = ax.get_subplotspec().subgridspec(n_rows, n_columns, wspace=0.4, hspace=1.1)
    cells = [grid[divmod(number, n_columns)] for number in range(count)]
    return np.array([figure.add_subplot(cell) for cell in cells], dtype=object)
