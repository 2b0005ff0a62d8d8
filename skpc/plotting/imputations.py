"""Drawings of the chains of a multiple imputation, and of what they have filled in."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpc._arrays import Floats
from skpc._repr import ShowsParameters
from skpc._validation import check_matplotlib_support
from skpc.domain import Domain
from skpc.plotting._drawing import BLUE, LIGHT_BLUE, ORANGE
from skpc.plotting._names import shown_value, variable_names

_TITLES = ("mean of the draws", "spread of the draws", "observed and drawn")


class ImputationDisplay(ShowsParameters):
    """Drawing of chains by round, and of drawn beside observed cells, a row for each column.

    Lines of settled chains cross each other and lead nowhere. Draws may differ from observed cells
    where cells are missing at random given other columns; a difference that nobody can explain is
    a reason to look again.

    Use :meth:`from_imputer` to make a display. All parameters are stored as attributes.

    Parameters
    ----------
    trace : ndarray of shape (2, n_chains, n_rounds, n_features)
        Means and standard deviations of the drawn cells after each round; NaN for columns that are
        not drawn.
    observed : list of ndarray
        Encoded observed cells of each column.
    drawn : list of ndarray of shape (n_tables, n_missing)
        Encoded drawn cells of each column.
    domain : Domain
        What the columns are.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes, shape (n_columns, 3)
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from skpc import MultipleImputer
    >>> from skpc.plotting import ImputationDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 1)) + rng.normal(size=(100, 2))
    >>> X[rng.random(100) < 0.3, 1] = np.nan
    >>> imputer = MultipleImputer(n_imputations=5, random_state=0).fit(X)
    >>> display = ImputationDisplay.from_imputer(imputer, X)
    >>> plt.show()  # doctest: +SKIP
    """

    ax_: np.ndarray
    figure_: Any

    def __init__(
        self, *, trace: Floats, observed: list[Floats], drawn: list[Floats], domain: Domain
    ) -> None:
        self.trace = trace
        self.observed = observed
        self.drawn = drawn
        self.domain = domain

    @classmethod
    def from_imputer(cls, imputer: Any, X: Any, *, columns: Sequence[Any] | None = None) -> Self:
        """Draw the chains of an imputer.

        Parameters
        ----------
        imputer : MultipleImputer
            Fitted, with ``draws="regressions"``.
        X : array-like or DataFrame of shape (n_samples, n_features)
            The rows of ``fit``.
        columns : sequence of str or int, default=None
            Names or numbers of the columns to draw. None draws all that chains have drawn.

        Returns
        -------
        ImputationDisplay

        Raises
        ------
        ValueError
            If the imputer has no chains, or a column that is named was not drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_imputer")
        check_is_fitted(imputer)
        if imputer.trace_ is None:
            raise ValueError(
                "ImputationDisplay needs the chains of MultipleImputer(draws='regressions'); found "
                f"{imputer!r}."
            )
        domain = imputer.density_.domain_
        _, rows = imputer.density_.encode(X)
        # Imputed tables are decoded, but panels compare encoded cells.
        tables = [imputer.density_.encode(table)[1] for table in imputer.impute(X)]
        missing = np.isnan(rows)
        observed = []
        drawn = []
        for column, is_missing in enumerate(missing.T):
            # Only cells that were missing have been drawn.
            observed.append(rows[~is_missing, column])
            drawn.append(np.array([table[is_missing, column] for table in tables]))
        display = cls(trace=imputer.trace_, observed=observed, drawn=drawn, domain=domain)
        return display.plot(columns=columns)

    def plot(self, *, columns: Sequence[Any] | None = None) -> Self:
        """Draw the chains, and the distributions.

        Parameters
        ----------
        columns : sequence of str or int, default=None
            See :meth:`from_imputer`.

        Returns
        -------
        ImputationDisplay
            This object, with ``ax_`` and ``figure_``.
        """
        # Width and height of a row of panels, in inches.
        row_size = (9.0, 2.2)
        check_matplotlib_support(f"{type(self).__name__}.plot")
        from matplotlib.pyplot import subplots

        # trace has the shape (2, n_chains, n_rounds, n_columns); columns without chains are NaN.
        has_chains = np.isfinite(self.trace[0]).all(axis=(0, 1))
        chosen = np.flatnonzero(has_chains)
        names = variable_names(len(has_chains), self.domain)
        if columns is not None:
            chosen = self.domain.column_numbers_of([*columns], "columns")
        if not len(chosen) or not has_chains[chosen].all():
            drawn = [name for name, is_drawn in zip(names, has_chains) if is_drawn]
            raise ValueError(f"columns must be among those that chains draw: {drawn}.")
        size = (row_size[0], row_size[1] * len(chosen))
        self.figure_, self.ax_ = subplots(
            len(chosen), 3, squeeze=False, figsize=size, layout="constrained"
        )
        rounds = np.arange(1, self.trace.shape[2] + 1)
        for panels, column in zip(self.ax_, chosen.tolist()):
            # The first two panels show means and spreads, with a line for each chain.
            for panel, chains in zip(panels, self.trace[:, :, :, column]):
                panel.plot(rounds, chains.T, color=BLUE, linewidth=0.8)
                panel.set_xticks(rounds)
            self._draw_cells(panels[2], column)
            panels[0].set_ylabel(names[column])
            for panel in panels:
                panel.spines[["top", "right"]].set_visible(False)
        for panel, title in zip(self.ax_[0], _TITLES):
            panel.set_title(title, fontsize="medium")
        for panel in self.ax_[-1, :2]:
            panel.set_xlabel("round")
        return self

    def _draw_cells(self, panel: Any, column: int) -> None:
        """Shares of observed cells as bars, and of drawn ones as a line for each table."""
        n_bins = 20
        labels = self.domain[column].states
        cells = self.observed[column]
        if labels is not None:
            # A category has a bar of its own, around its code.
            edges = np.arange(len(labels) + 1) - 0.5
            shown = [shown_value(label) for label in labels]
            panel.set_xticks(np.arange(len(labels)), shown, rotation=20, fontsize="small")
        else:
            # Observed and drawn cells have the same bins, so that their shares can be compared.
            all_cells = np.concatenate([cells, *self.drawn[column]])
            edges = np.histogram_bin_edges(all_cells, n_bins)
        panel.stairs(_shares(cells, edges), edges, fill=True, color=LIGHT_BLUE)
        for drawn in self.drawn[column]:
            panel.stairs(_shares(drawn, edges), edges, color=ORANGE, linewidth=0.8)


def _shares(cells: Floats, edges: Any) -> Floats:
    """The share of the cells in each bin; zero if there are no cells."""
    counts, _ = np.histogram(cells, edges)
    return counts / max(len(cells), 1)
