"""Drawings of the distributions of the cells of a row under a model."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from skpc._arrays import Floats
from skpc._repr import ShowsParameters
from skpc._validation import check_matplotlib_support, check_table
from skpc.domain import Domain
from skpc.plotting._drawable import check_drawable
from skpc.plotting._drawing import BLUE, LIGHT_BLUE, ORANGE
from skpc.plotting._names import shown_value, variable_names
from skpc.variables import Predictive
from skpc.variables.predictive import FormSum

#: A page has room for at most this many panels.
_MAX_PANELS = 40


class MarginalsDisplay(ShowsParameters):
    """Drawing of the distribution of each cell of one row given its other observed cells.

    A category has one bar for each of its states; a number has a density, and a line for each atom.
    An observed cell is a mark on the distribution given the others: it is odd where that is low.
    Missing cells come first.

    Use :meth:`from_estimator` to make a display. All parameters are stored as attributes.

    Parameters
    ----------
    marginals : list of Predictive
        The distribution of the one cell of each column given the other observed cells. Of tables
        with more than 40 columns, :meth:`from_estimator` asks for those that it draws; the others
        have all probability at an observed cell.
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
    >>> model = CutsetNetworkBD().fit(
    ...     np.column_stack([a, a + rng.normal(size=200)])
    ... )
    >>> display = MarginalsDisplay.from_estimator(model, [[np.nan, 1.5]])
    >>> plt.show()  # doctest: +SKIP
    """

    ax_: np.ndarray
    figure_: Any

    def __init__(self, *, marginals: list[Predictive], row: Floats, domain: Domain) -> None:
        self.marginals = marginals
        self.row = row
        self.domain = domain

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, columns: Sequence[Any] | None = None, ax: Any = None
    ) -> Self:
        """Draw the distributions of the cells of one row.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator with ``marginals``, such as :class:`skpc.CutsetNetworkBD`.
        X : array-like or DataFrame of shape (1, n_features)
            The row; NaN (or None) marks missing cells.
        columns : sequence of str or int, default=None
            Names or numbers of the columns to draw, in this order. None draws all except those
            without any value in ``fit`` and those that name the rows, missing cells first.
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
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        needs = "MarginalsDisplay needs a density with a method marginals"
        for_circuits = "skpc.queries.posteriors returns its marginals"
        check_drawable(estimator, "marginals", needs, for_circuits)
        domain = estimator.domain_
        table = check_table(estimator, X, reset=False)
        rows = domain.encode(table)
        if len(rows) != 1:
            raise ValueError(
                f"X must have exactly one row, got {len(rows)}; pass X[[i]], or X.iloc[[i]] of a "
                "DataFrame"
            )
        display = cls(marginals=estimator.marginals(X), row=rows[0], domain=domain)
        # The distribution of an observed cell is that of a row without it.
        for column in display._chosen(columns if rows.size > _MAX_PANELS else None):
            row = rows.copy()
            row[0, column] = np.nan
            display.marginals[column] = estimator.marginals(domain.decode(row, like=table))[column]
        return display.plot(ax, columns=columns)

    def plot(self, ax: Any = None, *, columns: Sequence[Any] | None = None) -> Self:
        """Draw the distributions.

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
        check_matplotlib_support(f"{type(self).__name__}.plot")
        chosen = self._chosen(columns)
        self.ax_ = _panels(ax, len(chosen))
        self.figure_ = self.ax_[0].figure
        names = variable_names(len(self.row), self.domain)
        for panel, column in zip(self.ax_, chosen):
            value = float(self.row[column])
            cell = self.marginals[column]
            observed = None if np.isnan(value) else value
            if cell.probabilities is not None and cell.labels is not None:
                _draw_states(panel, cell.probabilities[0], cell.labels, observed)
            else:
                _draw_density(panel, cell, observed)
            kind = "missing" if observed is None else "observed"
            panel.set_title(f"{names[column]} ({kind})", fontsize="medium")
        return self

    def _chosen(self, columns: Sequence[Any] | None) -> list[int]:
        """Numbers of the columns to draw; refuses too many."""
        visible = np.flatnonzero(~self.domain.is_hidden)
        # Missing cells come first, as they are what a reader wants to know.
        visible = visible[np.argsort(~np.isnan(self.row[visible]), kind="stable")].tolist()
        wanted = visible if columns is None else columns
        if isinstance(wanted, str) or not 1 <= len(wanted) <= _MAX_PANELS:
            raise ValueError(
                f"a drawing has room for 1 to {_MAX_PANELS} columns; name some in columns=[...], "
                f"got {wanted if isinstance(wanted, str) else len(wanted)}"
            )
        return [int(self.domain.column_numbers_of(entry, "columns")[0]) for entry in wanted]


def _panels(ax: Any, count: int) -> np.ndarray:
    """Axes of ``count`` panels: those given, parts of a single one given, or new ones."""
    # Sizes are in inches.
    narrowest_panel = 2.4
    panel_size = (2.9, 2.4)
    panels_a_row = 4
    # A list of axes is used as it is, and so is a single one for one panel.
    if ax is not None and (count == 1 or not hasattr(ax, "get_subplotspec")):
        axes = np.array([ax] if hasattr(ax, "get_subplotspec") else ax, dtype=object).ravel()
        if len(axes) != count:
            raise ValueError(f"ax must hold {count} Axes, one for each column, got {len(axes)}")
        return axes
    n_columns = min(count, panels_a_row)
    if ax is None:
        n_rows = -(-count // n_columns)
        size = (n_columns * panel_size[0], n_rows * panel_size[1])
        from matplotlib.pyplot import figure as new_figure

        figure = new_figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(n_rows, n_columns)
    else:
        figure = ax.figure
        # The panels are drawn in the place of the given axes.
        ax.set_axis_off()
        # In narrow axes there are fewer panels in a row.
        width = ax.get_position().width * figure.get_size_inches()[0]
        n_columns = max(1, min(n_columns, int(width / narrowest_panel)))
        n_rows = -(-count // n_columns)
        grid = ax.get_subplotspec().subgridspec(n_rows, n_columns, wspace=0.4, hspace=1.1)
    cells = [grid[divmod(number, n_columns)] for number in range(count)]
    return np.array([figure.add_subplot(cell) for cell in cells], dtype=object)


def _draw_states(
    panel: Any, probability: Floats, categories: np.ndarray, observed: float | None
) -> None:
    """Draw a bar for each category, the first one on top, and a mark on the observed one."""
    max_bars = 12
    n_states = len(probability)
    n_shown = n_states if n_states <= max_bars else max_bars - 1
    # The observed state is shown however improbable it is.
    rank = np.where(np.arange(n_states) == observed, np.inf, probability)
    # Categories that are shown keep their order.
    shown = sorted(np.argsort(-rank, kind="stable")[:n_shown].tolist())
    labels = [shown_value(categories[state]) for state in shown]
    lengths = probability[shown].tolist()
    # All other categories share one bar at the bottom.
    if n_shown < n_states:
        labels.append(f"({n_states - n_shown} others)")
        lengths.append(max(1.0 - sum(lengths), 0.0))
    place = np.arange(len(labels))
    panel.set_yticks(place, labels)
    # The limits are reversed, so that the first bar is on top.
    panel.set_ylim(len(labels) - 0.4, -0.6)
    panel.barh(place, lengths, height=0.65, color=LIGHT_BLUE, edgecolor=BLUE)
    for height_of_bar, length in zip(place, lengths):
        panel.text(length + 0.08, height_of_bar, f"{length:.2f}", va="center", fontsize="small")
    if observed is not None:
        marked = shown.index(int(observed))
        _mark(panel, lengths[marked], marked, panel.transData)
    # There is room on the right for the numbers beside bars.
    panel.set_xlim(0, 1.3)
    panel.set_xticks([0, 0.5, 1])
    panel.set_xlabel("probability")
    panel.spines[["top", "right"]].set_visible(False)


def _draw_density(panel: Any, cell: Predictive, observed: float | None) -> None:
    """Draw the density of a number and its atoms, and a mark at the observed number.

    An atom is a line as high as its probability; a line of probability one fills the panel.
    """
    x, density = _outline(cell)
    atoms = FormSum(cell.terms).atoms
    probability = cell.atom_probabilities()[0]
    # Atoms and the outline may each reach further than the other.
    low = min([x[0], *atoms])
    high = max([x[-1], *atoms])
    # Probabilities have no scale in common with a density: they are parts of the panel's height.
    height = panel.get_xaxis_transform()
    panel.vlines(atoms, 0.0, probability, color=BLUE, linewidth=2.0, transform=height)
    panel.fill_between(x, density, color=LIGHT_BLUE)
    panel.plot(x, density, color=BLUE)
    panel.set_ylim(bottom=0.0)
    panel.set_yticks([])
    panel.set_ylabel("density")
    if observed is not None:
        low = min(low, observed)
        high = max(high, observed)
        # An observed number may differ from its atom by rounding.
        atom_share = probability[np.isclose(atoms, observed, rtol=1e-9, atol=0.0)]
        # At an atom the mark stands on its line, elsewhere on the outline.
        value = np.append(atom_share, np.interp(observed, x, density, left=0.0, right=0.0))[0]
        _mark(panel, observed, value, height if len(atom_share) else panel.transData)
        panel.set_xlabel(f"= {shown_value(observed, cell.dates)}")
    if cell.dates is not None:
        panel.locator_params(axis="x", nbins=3, integer=True)
        panel.xaxis.set_major_formatter(lambda value, _: shown_value(value, cell.dates))
    margin = 0.03 * (high - low)
    panel.set_xlim(low - margin, high + margin)
    panel.spines[["top", "right"]].set_visible(False)


def _mark(panel: Any, x: float, y: float, transform: Any) -> None:
    """Mark the observed cell."""
    style = {"marker": "D", "markersize": 8, "color": ORANGE, "linestyle": "none", "zorder": 3}
    panel.plot([x], [y], clip_on=False, transform=transform, **style)


def _outline(cell: Predictive) -> tuple[Floats, Floats]:
    """Points (x, density) of a density without atoms: slopes of its distribution function."""
    form = FormSum(cell.terms)
    numbers = Predictive(cell.terms, np.full(len(cell.known), np.nan), law=cell.law)
    # The density is drawn between this quantile and the opposite one.
    tail = 0.001
    grid_points = 301
    low, high = (float(numbers.quantile(level)[0]) for level in (tail, 1.0 - tail))
    # A distribution at a single point needs an interval to be drawn in.
    if low == high:
        low = low - 0.5
        high = high + 0.5
    x = np.linspace(low, high, grid_points)
    # Atoms would be steps in the distribution function, and spikes in its slope.
    bulk = form.without_atoms()
    below = np.array([np.sum(bulk.below(np.array([point]))) for point in x])
    # Slopes between neighbouring points belong in the middle of them.
    return (x[1:] + x[:-1]) / 2, np.diff(below) / np.diff(x)
